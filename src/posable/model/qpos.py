"""Conversion between poses and MuJoCo's `qpos`, where a ball is a quaternion wxyz and a free joint x y z wxyz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posable.errors import SkeletonError
from posable.model.joint_values import joint_transform, rotation_values, turns_freely
from posable.model.joints import Free, Joint, rotation_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.spatial.transform import Rotation


def qpos_size(joints: Sequence[Joint]) -> int:
    """Return the size of `qpos`: one more than the pose's for each ball or free joint."""
    return sum(joint.motion.size + turns_freely(joint.motion) for joint in joints)


def _rest_transform(joint: Joint) -> tuple[np.ndarray, Rotation] | None:
    """Return the constant transform of a free joint, which MuJoCo's free joints do not have; None if it is identity."""
    from scipy.spatial.transform import Rotation

    turn = rotation_matrix(joint.rotation)
    assert turn is not None
    offset = np.asarray(joint.offset, dtype=float)
    if not offset.any() and np.array_equal(turn, np.eye(3)):
        return None
    return offset, Rotation.from_matrix(turn)


def to_qpos(joints: Sequence[Joint], slices: Sequence[slice], poses: np.ndarray) -> np.ndarray:
    """Return `qpos` (..., nq) of poses (..., n)."""
    shape = poses.shape[:-1]
    rows = poses.reshape(int(np.prod(shape)), poses.shape[-1])
    parts = [np.zeros((len(rows), 0))]
    for joint, where in zip(joints, slices, strict=True):
        values = rows[:, where]
        if not turns_freely(joint.motion):
            parts.append(values)
            continue
        moved, rotation = joint_transform(joint.motion, values)
        if isinstance(joint.motion, Free):
            placed = _rest_transform(joint)
            if placed is not None:
                moved, rotation = placed[0] + placed[1].apply(moved), placed[1] * rotation
            parts.append(moved)
        parts.append(np.roll(rotation.as_quat(canonical=True), 1, axis=-1))
    return np.concatenate(parts, axis=-1).reshape(*shape, -1)


def from_qpos(joints: Sequence[Joint], slices: Sequence[slice], rest: np.ndarray, qpos: Any) -> np.ndarray:
    """Return poses (..., n) of `qpos` (..., nq); quaternions wxyz are normalised.

    Raises:
        SkeletonError: The shape is wrong, or a quaternion is zero.
    """
    from scipy.spatial.transform import Rotation

    size = qpos_size(joints)
    given = np.asarray(qpos, dtype=float)
    if given.shape[-1:] != (size,):
        raise SkeletonError(f"qpos: expected shape (..., {size}), got {given.shape}")
    rows = given.reshape(int(np.prod(given.shape[:-1])), size)
    out = np.empty((len(rows), len(rest)))
    at = 0
    for joint, where in zip(joints, slices, strict=True):
        k = where.stop - where.start
        if not turns_freely(joint.motion):
            out[:, where] = rows[:, at : at + k]
            at += k
            continue
        slides = k - 3
        moved, wxyz = rows[:, at : at + slides], rows[:, at + slides : at + k + 1]
        at += k + 1
        if not (np.linalg.norm(wxyz, axis=-1) > 1e-12).all():
            raise SkeletonError(f"qpos of {joint.name!r}: expected a quaternion wxyz, got a zero quaternion")
        rotation = Rotation.from_quat(np.roll(wxyz, -1, axis=-1))
        placed = _rest_transform(joint) if isinstance(joint.motion, Free) else None
        if placed is not None:
            moved, rotation = placed[1].inv().apply(moved - placed[0]), placed[1].inv() * rotation
        out[:, where.start : where.start + slides] = moved
        near = np.broadcast_to(rest[where.stop - 3 : where.stop], (len(rows), 3))
        turns = rotation_values(joint.motion, rotation, near) if len(rows) else np.zeros((0, 3))
        out[:, where.stop - 3 : where.stop] = turns
    return out.reshape(*given.shape[:-1], len(rest))
