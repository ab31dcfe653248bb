"""From what a user gives to flat arrays: targets, base poses, directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.kernels.joints import unit_axis

from .circle import POSE, POSITION


def read_target(target: Any) -> tuple[int, np.ndarray, tuple[int, ...]]:
    """Return (task, (t, 12) place and frame by rows, leading axes) of (..., 4, 4), a RigidTransform, or (..., 3)."""
    try:
        value = np.asarray(target.as_matrix() if hasattr(target, "as_matrix") else target, dtype=float)
    except (TypeError, ValueError):
        raise GoalError(
            "target", expected="a 4x4 matrix, a RigidTransform or three numbers", got=repr(target)
        ) from None
    if value.shape[-2:] == (4, 4):
        lead, task = value.shape[:-2], POSE
        flat = value.reshape(-1, 4, 4)
        out = np.concatenate([flat[:, :3, 3], rotations(flat[:, :3, :3]).reshape(-1, 9)], axis=1)
    elif value.shape[-1:] == (3,) and not hasattr(target, "as_matrix"):
        lead, task = value.shape[:-1], POSITION
        out = np.zeros((int(np.prod(lead)), 12))
        out[:, :3] = value.reshape(-1, 3)
    else:
        raise GoalError("target", expected="shape (..., 4, 4) for a pose or (..., 3) for a position", got=value.shape)
    if not np.all(np.isfinite(out)):
        raise GoalError("target", expected="finite numbers", got="NaN or infinity")
    return task, np.ascontiguousarray(out), lead


def rotations(matrices: np.ndarray) -> np.ndarray:
    """Return (t, 3, 3) rotations, orthonormal to rounding; raise where a matrix is none to 1e-5."""
    error = np.abs(matrices @ np.swapaxes(matrices, -1, -2) - np.eye(3)).max(axis=(-1, -2), initial=0.0)
    if not np.all(error < 1e-5) or np.any(np.linalg.det(matrices) < 0.0):
        raise GoalError(
            "target", expected="a rotation in the upper left 3x3 block", got="a matrix that is not orthonormal"
        )
    off = error > 1e-13
    if np.any(off):
        matrices = matrices.copy()
        u, _, vt = np.linalg.svd(matrices[off])
        matrices[off] = u @ vt
    return matrices


def read_vector(value: Any, what: str) -> np.ndarray:
    """Return three finite numbers (3,)."""
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        out = np.zeros(0)
    if out.shape != (3,) or not np.all(np.isfinite(out)):
        raise GoalError(what, expected="three finite numbers", got=repr(value))
    return out


def read_direction(value: Any, what: str) -> np.ndarray:
    """Return a unit vector (3,) of "x", "-y", or three numbers that are not all zero."""
    out = unit_axis(value)
    if not np.any(out):
        raise GoalError(
            what, expected="'x', 'y', 'z', '-x', ... or three finite numbers that are not all zero", got=repr(value)
        )
    return out
