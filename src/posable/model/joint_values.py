"""The values of one joint as a rigid motion, and rotations as values of a ball or free joint."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import ROTVEC, SLIDE, SWING, TAIL, TURN
from posable.model.joints import JointMotion

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
