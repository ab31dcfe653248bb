"""The human: the tables of anatomy.py made into a skeleton, the right side as the mirror image of the left."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.transform import Rotation

from posable.errors import SkeletonError
from posable.figures.anatomy import (
    HDM05_MARKERS,
    LEFT,
    LEFT_MARKERS,
    LEFT_SITES,
    MIDDLE,
    MIDDLE_MARKERS,
    MIDDLE_SITES,
    STATURE,
    Place,
    Segment,
)
from posable.kernels.joints import unit_axis
from posable.skeleton import Joint, JointMotion, Revolute, Site, Skeleton

MIRROR = np.diag([-1.0, 1.0, 1.0])  # of points and of frames, across the plane x = 0
_SIDED = {segment.name for segment in LEFT}


def human(*, height: float = STATURE, mass: float = 75.0) -> Skeleton:
    """Return a person: 71 degrees of freedom, every one with limits, a mass on every bone, y up, looking along z.

    height [m] scales the lengths, mass [kg] the masses. The rest pose stands on the ground y = 0, left is +x, arms
    hanging a little off the body, elbows and knees slightly bent.

    Joints: root (free), spine1, spine2, spine3, neck, skull, and with .L or .R: clavicle, shoulder, elbow, wrist (with
    the forearm's twist), index1, index2, fingers1, fingers2 (three fingers as one), thumb1, thumb2, thumb3, hip, knee,
    ankle, toes. Hinges bend the same way on both sides; the y and z angles of other joints have opposite signs.

    Sites: pelvis, head (between the eyes), crown, and with .L or .R: hand, fingertip, thumbtip, forearm, foot (on the
    sole, under the ankle), heel, toe, with z forward and y up: along the gaze and to the crown, to the toes and out of
    the instep, along the fingers and out of the back of the hand. Then the 41 markers of HDM05, LFHD to RMT5.
    """
    if not (0.0 < height < math.inf and 0.0 < mass < math.inf):
        raise SkeletonError(f"height [m] and mass [kg]: expected positive numbers, got {height!r} and {mass!r}")
    scale = height / STATURE
    joints = [_joint(row, "", scale, mass) for row in MIDDLE]
    joints += [_joint(row, side, scale, mass) for side in (".L", ".R") for row in LEFT]
    sites = [_site(row, row.name, "", scale) for row in MIDDLE_SITES]
    sites += [_site(row, row.name + side, side, scale) for side in (".L", ".R") for row in LEFT_SITES]
    markers = [_site(row, row.name, "", scale) for row in MIDDLE_MARKERS]
    markers += [_site(row, side[1] + row.name, side, scale) for side in (".L", ".R") for row in LEFT_MARKERS]
    markers.sort(key=lambda site: HDM05_MARKERS.index(site.name))
    return Skeleton(joints, sites + markers, "human", up="y")


def _sided(name: str | None, side: str) -> str | None:
    return f"{name}{side}" if name in _SIDED else name


def _joint(row: Segment, side: str, scale: float, mass: float) -> Joint:
    """Return the joint of a row, on a side, at a scale of the lengths."""
    mirrored = side == ".R"
    limits, rest = np.array(row.limits, dtype=float), np.array(row.rest, dtype=float)
    if mirrored:
        signs = _mirrored_signs(row.motion)
        limits, rest = np.sort(limits * signs[:, None], axis=1), rest * signs
    angles = slice(3, None) if row.parent is None else slice(None)
    limits[angles], rest[angles] = np.radians(limits[angles]), np.radians(rest[angles])
    if row.parent is None:
        rest[:3] *= scale
    flip = MIRROR if mirrored else np.eye(3)
    turn = Rotation.from_euler("y", row.turn, degrees=True).as_matrix()
    return Joint(
        row.name + side,
        _mirrored_motion(row.motion) if mirrored else row.motion,
        _sided(row.parent, side),
        offset=flip @ row.offset * scale,
        rotation=flip @ turn @ flip if row.turn else None,
        limits=limits,
        rest=rest,
        mass=mass * row.mass / 100.0,
        center=flip @ row.center * scale,
    )


def _site(row: Place, name: str, side: str, scale: float) -> Site:
    """Return the site of a row, on a side, at a scale of the lengths."""
    flip = MIRROR if side == ".R" else np.eye(3)
    rotation = None if row.rotation is None else flip @ np.array(row.rotation, dtype=float) @ flip
    joint = _sided(row.joint, side) or row.joint
    return Site(name, joint, flip @ row.offset * scale, rotation)


def _mirrored_motion(motion: JointMotion) -> JointMotion:
    """Return the motion of the mirror image: a mirrored hinge turns the same way about the mirrored axis."""
    if isinstance(motion, Revolute):
        return Revolute(tuple(-MIRROR @ unit_axis(motion.axis)))
    return motion


def _mirrored_signs(motion: JointMotion) -> np.ndarray:
    """Return the sign (k,) of each angle in the mirror image: minus about y and z, for these axes are kept."""
    if isinstance(motion, Revolute):
        return np.ones(1)
    return np.array([1.0 if dof.axis == 0 else -1.0 for dof in motion.dofs])
