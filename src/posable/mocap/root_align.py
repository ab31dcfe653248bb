"""The free root joint of a figure: add one, align it with markers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE
from posable.formats.conventions import turn_up
from posable.model.joint_values import rotation_values
from posable.model.joints import Free, Joint, rotation_matrix
from posable.model.kinematics import Frames, forward
from posable.model.motion import Markers
from posable.model.skeleton import WORLD, Skeleton

ASTRAY = 0.03  # [m]: mean marker error of a figure with a fixed root above which a free root is tried
REACH = 0.5  # [m] of the middle of the markers within which a root may be
ROOM = 5.0  # [m] that it gets around markers beyond its limits
SAMPLES = 400  # frames that show where the markers are
LOOSENED = 0.5  # fraction of that error to which a free root must reduce it; otherwise the root stays fixed


def with_free_root(skeleton: Skeleton) -> Skeleton:
    """Return the figure with a free root: itself, or a copy if its root is fixed to the world, as in robot files."""
    if skeleton.free_root is not None:
        return skeleton
    root = skeleton.joints[0]
    if not root.motion.dofs and root.name != WORLD:
        return skeleton.replace(joints=[replace(root, motion=Free("zyx"), limits=None), *skeleton.joints[1:]])
    name = "floating_root"
    while name in skeleton.names or name in skeleton.site_names:
        name += "_"
    if root.name != WORLD:
        return skeleton.replace(joints=[Joint(name, Free("zyx")), replace(root, parent=name), *skeleton.joints[1:]])
    hung = [replace(joint, parent=name) if joint.parent == WORLD else joint for joint in skeleton.joints[1:]]
    return skeleton.replace(joints=[root, Joint(name, Free("zyx"), parent=WORLD), *hung])  # the world itself stays


def with_room(skeleton: Skeleton, markers: Markers) -> Skeleton:
    """Return the figure with limits of its free root that let it get to the markers: itself if they do.

    Figures may not move farther than some metres from the origin, but a take may be anywhere.
    """
    if skeleton.free_root is None or not len(markers):
        return skeleton
    seen = markers.positions[:: -(-len(markers) // SAMPLES)]
    seen = seen[np.any(np.isfinite(seen).all(axis=-1), axis=1)]
    if not len(seen):
        return skeleton
    turn, joint = turn_up(markers.up, skeleton.up), skeleton.joint(skeleton.free_root)
    middle = np.asarray(np.nanmedian(seen, axis=1)) @ (np.eye(3) if turn is None else turn.T)
    rotation, origin = root_at_rest(joint, forward(skeleton, skeleton.rest))
    moved, where = (middle - origin) @ rotation @ joint.motion.basis, skeleton.index(joint.name)
    box = np.stack([skeleton.lower[where], skeleton.upper[where]], axis=1)
    wide = box.copy()
    for i, dof in enumerate(joint.motion.dofs):
        if dof.kind == SLIDE:
            values = dof.sign * moved[:, dof.axis]
            if values.min() - REACH < box[i, 0]:
                wide[i, 0] = min(box[i, 0], values.min() - ROOM)
            if values.max() + REACH > box[i, 1]:
                wide[i, 1] = max(box[i, 1], values.max() + ROOM)
    return skeleton if (wide == box).all() else skeleton.with_limits({joint.name: wide})


def root_at_rest(joint: Joint, frames: Frames) -> tuple[np.ndarray, np.ndarray]:
    """Return the rotation (3, 3) and the position (3,) [m] in the world of a free joint whose values are 0."""
    rotation, origin = rotation_matrix(joint.rotation), np.asarray(joint.offset, dtype=float)
    assert rotation is not None  # a skeleton's rotations are checked when it is made
    if joint.parent is not None:
        above = frames.rotation_matrix(joint.parent)
        rotation, origin = above @ rotation, frames.position(joint.parent) + above @ origin
    return rotation, origin


def free_root_note(figure: Skeleton) -> str:
    """Return a warning about a figure that was given a free root because its markers move as a whole."""
    name = figure.free_root
    return f"{name} moves freely: the figure is fixed to the world and could not follow the markers otherwise"


def best_turn(
    source: np.ndarray, target: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return R (..., 3, 3), t (..., 3) that bring points source (..., M, 3) nearest to target (M, 3): Kabsch.

    target may hold NaN. weights: (M,) of the points.
    """
    w = np.isfinite(target).all(axis=-1).astype(float)
    if weights is not None:
        w = w * weights
    if w.sum() <= 0.0:
        batch = source.shape[:-2]
        return np.broadcast_to(np.eye(3), (*batch, 3, 3)).copy(), np.zeros((*batch, 3))
    target = np.where(w[:, None] > 0.0, target, 0.0)
    a, b = w @ source / w.sum(), w @ target / w.sum()
    apart = w[:, None] * (source - a[..., None, :])
    u, _, vt = np.linalg.svd(np.swapaxes(apart, -1, -2) @ (target - b))
    u[..., 2] *= np.where(np.linalg.det(u @ vt) < 0.0, -1.0, 1.0)[..., None]  # a turn, not a mirror image
    r = np.swapaxes(u @ vt, -1, -2)
    return r, b - (r @ a[..., None])[..., 0]


def move_figure(skeleton: Skeleton, pose: np.ndarray, r: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the pose (n,) with the whole figure turned by r (3, 3), then moved by t (3,), in the world."""
    name = skeleton.free_root
    if name is None:
        return pose.copy()
    frames = forward(skeleton, pose)
    return place_root(skeleton, pose, r @ frames.rotation_matrix(name), r @ frames.position(name) + t)


def place_root(skeleton: Skeleton, pose: np.ndarray, rotation: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the pose (n,) with the free joint's frame at `position` (3,), turned as `rotation` (3, 3)."""
    name = skeleton.free_root
    if name is None:
        return pose.copy()
    joint, where = skeleton.joint(name), skeleton.index(name)
    r_rest, p_rest = root_at_rest(joint, forward(skeleton, pose))
    out = pose.copy()
    moved = joint.motion.basis.T @ r_rest.T @ (position - p_rest)
    turned = Rotation.from_matrix((r_rest.T @ rotation)[None])
    values = out[where].copy()
    for i, dof in enumerate(joint.motion.dofs):
        if dof.kind == SLIDE:
            values[i] = dof.sign * moved[dof.axis]
    values[-3:] = rotation_values(joint.motion, turned, values[None, -3:])[0]
    out[where] = values
    return out
