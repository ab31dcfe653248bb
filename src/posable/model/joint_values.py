"""The values of one joint as a rigid motion, rotations as values of a ball or free joint, poses as MuJoCo's `qpos`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import ROTVEC, SLIDE, SWING, TAIL, TURN
from posable.errors import SkeletonError
from posable.model.joints import Free, Joint, JointMotion, floats_of, rotation_matrix

Floats = NDArray[np.float64]


def joint_transform(motion: JointMotion, values: ArrayLike) -> tuple[Floats, Rotation]:
    """Return the translation (..., 3) [m] and rotation of a joint's motion at `values` (..., k)."""
    theta = np.array(values, dtype=float)  # a copy, since SciPy needs a writable array
    shape = theta.shape[:-1]
    theta = theta.reshape(math.prod(shape), theta.shape[-1])
    translation = np.zeros((len(theta), 3))
    rotation = Rotation.from_quat(np.tile([0.0, 0.0, 0.0, 1.0], (len(theta), 1)))
    for i, dof in enumerate(motion.dofs):
        if dof.kind == SLIDE:
            translation[:, dof.axis] += dof.sign * theta[:, i]
        elif dof.kind == TURN:
            rotation = rotation * Rotation.from_rotvec(np.outer(dof.sign * theta[:, i], np.eye(3)[dof.axis]))
        elif dof.kind == ROTVEC:
            rotation = rotation * Rotation.from_rotvec(theta[:, i : i + 3])
        elif dof.kind == SWING:
            rotation = rotation * Rotation.from_rotvec(_swing_vector(theta[:, i : i + 2], dof.axis))
    basis = motion.basis
    if not np.array_equal(basis, np.eye(3)):
        frame = Rotation.from_matrix(basis)
        translation, rotation = translation @ basis.T, frame * rotation * frame.inv()
    return translation.reshape(*shape, 3), rotation if shape else rotation[0]


def _swing_vector(values: Floats, axis: int) -> Floats:
    vector = np.zeros((len(values), 3))
    vector[:, (axis + 1) % 3], vector[:, (axis + 2) % 3] = values[:, 0], values[:, 1]
    return vector


def turns_freely(motion: JointMotion) -> bool:
    """Return whether a joint reaches every rotation: a ball or free joint, in any parametrisation."""
    return sum(dof.kind != SLIDE for dof in motion.dofs) == 3


def rotation_values(motion: JointMotion, rotation: Rotation, near: ArrayLike) -> Floats:
    """Return the values (T, 3) of a ball or free joint at T rotations, those closest to `near` (T, 3).

    Angles are unwrapped: of all values that describe one rotation, the ones nearest to `near` are returned.
    """
    near = np.asarray(near, dtype=float)
    basis = motion.basis
    if not np.array_equal(basis, np.eye(3)):
        frame = Rotation.from_matrix(basis)
        rotation = frame.inv() * rotation * frame
    turning = [dof for dof in motion.dofs if dof.kind not in (SLIDE, TAIL)]
    if turning[0].kind == ROTVEC:
        return _nearest_vector(rotation.as_rotvec(), near)
    if turning[0].kind == SWING:
        return _swing_twist_values(rotation, turning[0].axis, turning[1].sign, near)
    order = "".join("XYZ"[dof.axis] for dof in turning)
    signs = np.array([dof.sign for dof in turning])
    with np.errstate(all="ignore"):
        angles = signs * _quiet_euler(rotation, order)
    flip = signs * np.array([np.pi, np.pi if len(set(order)) == 3 else 0.0, np.pi])
    mirrored = angles * [1.0, -1.0, 1.0] + flip
    options = np.stack([_nearest_turns(angles, near), _nearest_turns(mirrored, near)])
    best = np.argmin(np.linalg.norm(options - near, axis=-1), axis=0)
    return options[best, np.arange(len(near))]


def _quiet_euler(rotation: Rotation, order: str) -> Floats:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Gimbal lock", category=UserWarning)
        return rotation.as_euler(order)


def _nearest_turns(angles: Floats, near: Floats) -> Floats:
    return angles + 2 * np.pi * np.round((near - angles) / (2 * np.pi))


def _nearest_vector(vectors: Floats, near: Floats) -> Floats:
    """Return the rotation vectors of the same rotations, changed by full turns, that are nearest to `near`."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    reference = np.linalg.norm(near, axis=-1, keepdims=True)
    axis = np.where(length > 1e-12, vectors / np.maximum(length, 1e-300), near / np.maximum(reference, 1e-300))
    along = np.sum(axis * near, axis=-1, keepdims=True)
    return np.where((length <= 1e-12) & (reference <= np.pi), vectors, axis * _nearest_turns(length, along))


def _swing_twist_values(rotation: Rotation, axis: int, sign: float, near: Floats) -> Floats:
    x, y, z, w = rotation.as_quat().T
    part = (x, y, z)[axis]
    half = np.where(np.hypot(part, w) > 1e-12, np.arctan2(part, w), 0.0)
    twist = 2.0 * half
    swing = rotation * Rotation.from_rotvec(np.outer(-twist, np.eye(3)[axis]))
    vector = swing.as_rotvec()
    values = np.stack([vector[:, (axis + 1) % 3], vector[:, (axis + 2) % 3], sign * twist], axis=-1)
    values[:, 2] = _nearest_turns(values[:, 2], near[:, 2])
    return values


def continuous_vectors(vectors: Floats) -> Floats:
    """Return rotation vectors (T, 3) [rad], each shifted by whole turns to be nearest to the one before it."""
    out = vectors.copy()
    for t in range(1, len(out)):
        axis = out[t] if np.linalg.norm(out[t]) > 1e-9 else out[t - 1]  # a whole turn is about the axis of the last one
        length = float(np.linalg.norm(axis))
        if length > 1e-9:
            turn = axis * (2.0 * np.pi / length)
            out[t] -= np.round((out[t] - out[t - 1]) @ turn / (turn @ turn)) * turn
    return out


# --- MuJoCo's `qpos`, where a ball is a quaternion wxyz and a free joint x y z wxyz ---


def qpos_size(joints: Sequence[Joint]) -> int:
    """Return the size of `qpos`: one more than the pose's for each ball or free joint."""
    return sum(joint.motion.size + turns_freely(joint.motion) for joint in joints)


def _rest_transform(joint: Joint) -> tuple[np.ndarray, Rotation] | None:
    """Return the constant transform of a free joint, which MuJoCo's free joints do not have; None if it is identity."""
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
    size = qpos_size(joints)
    given = floats_of(qpos)
    if given is None or given.shape[-1:] != (size,):
        raise SkeletonError(f"qpos: expected shape (..., {size}), got {repr(qpos) if given is None else given.shape}")
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
