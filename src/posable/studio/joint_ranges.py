"""The range of a joint as a shape to draw: an arc for a single axis, a cone for a joint that swings.

Ranges are computed in the parent's frame from the joint alone, so that they are computed once and then only moved.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

import posable as ps

POINTS = 48  # points on the rim of every arc or cone, so that all meshes have the same faces
COARSE = np.radians(0.5)  # rounding of the other angles of a joint
WIDEST = 1.99 * np.pi  # [rad] wider ranges are not drawn


class Sweep(NamedTuple):
    """A range: its rim (POINTS, 3), directions in the parent's frame; its needle (3,), in the joint's own frame."""

    rim: np.ndarray
    needle: np.ndarray
    kind: str  # "cone", "arc", or "twist": an arc about the bone itself


@lru_cache(maxsize=512)
def single_joint(skeleton: ps.Skeleton, joint: str) -> ps.Skeleton:
    """Return a figure of this one joint, with the parent's frame as the world."""
    own = skeleton.joint(joint)
    return ps.Skeleton([ps.Joint(joint, own.motion, rotation=own.rotation)], name=joint)


@lru_cache(maxsize=512)
def bone_of(skeleton: ps.Skeleton, joint: str) -> tuple[float, float, float]:
    """Return the end of a joint's bone (3,) [m], in its frame: its furthest child, or its furthest site."""
    own = [j.offset for j in skeleton.joints if j.parent == joint]
    own = [o for o in own if np.linalg.norm(o) > 1e-6] or [s.offset for s in skeleton.sites if s.joint == joint]
    far = max((np.asarray(o, dtype=float) for o in own), key=lambda o: float(np.linalg.norm(o)), default=np.zeros(3))
    x, y, z = (far if np.linalg.norm(far) > 1e-6 else np.array([0.0, 0.0, 1e-3])).tolist()
    return x, y, z


def joint_rotations(skeleton: ps.Skeleton, joint: str, values: np.ndarray) -> np.ndarray:
    """Return the rotations (P, 3, 3) of a joint in its parent's frame at its values (P, k)."""
    return ps.forward(single_joint(skeleton, joint), values).rotation_matrix(joint)


@lru_cache(maxsize=512)
def twist_of(skeleton: ps.Skeleton, joint: str) -> int | None:
    """Return the index of the degree of freedom that twists the bone; None if there is none, or only one."""
    size = skeleton.joint(joint).motion.size
    if size < 2:
        return None
    where = skeleton.index(joint)
    middle = np.clip(0.0, skeleton.lower[where], skeleton.upper[where])
    bone = np.array(bone_of(skeleton, joint))
    tips = joint_rotations(skeleton, joint, middle + np.vstack([np.zeros(size), 0.05 * np.eye(size)])) @ bone
    moved = np.linalg.norm(tips[1:] - tips[0], axis=1) / (0.05 * np.linalg.norm(bone))
    least = int(np.argmin(moved))
    return least if moved[least] < 0.5 else None


def range_of(skeleton: ps.Skeleton, joint: str, dof: int, pose: np.ndarray) -> Sweep | None:
    """Return the range of a joint whose degree of freedom `dof` is at a limit; None if there is no limit to draw.

    A swing of a joint with two or three axes gives the cone of all its swings; anything else an arc.
    """
    where = skeleton.index(joint)
    number, values = dof - where.start, np.round(pose[where] / COARSE) * COARSE
    twist = twist_of(skeleton, joint)
    swings = [k for k in range(len(values)) if k != twist]
    if len(swings) == 2 and number in swings:
        values[swings] = 0.0  # they vary along the rim
        return _cone(skeleton, joint, (swings[0], swings[1]), tuple(values.tolist()))
    values[number] = 0.0
    return _arc(skeleton, joint, number, tuple(values.tolist()))


@lru_cache(maxsize=2048)
def _cone(skeleton: ps.Skeleton, joint: str, swings: tuple[int, int], others: tuple[float, ...]) -> Sweep | None:
    where = skeleton.index(joint)
    low, high = skeleton.lower[where][list(swings)], skeleton.upper[where][list(swings)]
    if not np.all(high - low < WIDEST):
        return None
    share = np.linspace(0.0, 1.0, POINTS // 4, endpoint=False)
    zero, one = np.zeros_like(share), np.ones_like(share)
    sides = ((share, zero), (one, share), (1.0 - share, one), (zero, 1.0 - share))
    values = np.tile(others, (POINTS, 1))
    values[:, list(swings)] = low + np.concatenate([np.stack(side, axis=1) for side in sides]) * (high - low)
    bone = unit(np.array(bone_of(skeleton, joint)))
    return Sweep(joint_rotations(skeleton, joint, values) @ bone, bone, "cone")


@lru_cache(maxsize=2048)
def _arc(skeleton: ps.Skeleton, joint: str, number: int, others: tuple[float, ...]) -> Sweep | None:
    dof = skeleton.index(joint).start + number
    low, high = skeleton.lower[dof], skeleton.upper[dof]
    if not high - low < WIDEST:
        return None
    values = np.tile(others, (POINTS, 1))
    values[:, number] = np.linspace(low, high, POINTS)
    turns = joint_rotations(skeleton, joint, values)
    bone = unit(np.array(bone_of(skeleton, joint)))
    swept = float(np.linalg.norm(np.diff(turns @ bone, axis=0), axis=1).sum())
    if swept > 0.5 * (high - low):
        return Sweep(turns @ bone, bone, "arc")
    needle = unit(np.cross(bone, np.eye(3)[int(np.argmin(np.abs(bone)))]))  # a twist is drawn across the bone
    return Sweep(turns @ needle, needle, "twist")


def unit(vector: np.ndarray) -> np.ndarray:
    """Return a vector (3,) of length 1."""
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
