"""From what a user gives to flat arrays: targets, base poses, directions."""

from __future__ import annotations

import math
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
        flat = value.reshape(math.prod(lead), 4, 4)
        turns = rotations(flat[:, :3, :3])
        out = np.concatenate([flat[:, :3, 3], turns.reshape(len(flat), 9)], axis=1)
    elif value.shape[-1:] == (3,) and not hasattr(target, "as_matrix"):
        lead, task = value.shape[:-1], POSITION
        out = np.zeros((math.prod(lead), 12))
        out[:, :3] = value.reshape(len(out), 3)
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


def read_numbers(value: Any, what: str, tail: tuple[int, ...] = ()) -> np.ndarray:
    """Return finite numbers of shape (..., *tail): a vector each where tail is (3,), one number each where it is ()."""
    wanted = "three finite numbers" if tail else "a finite number"
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise GoalError(what, expected=wanted, got=repr(value)) from None
    if isinstance(value, (bool, str)) or out.shape[out.ndim - len(tail) :] != tail:
        raise GoalError(what, expected=wanted, got=repr(value) if out.ndim < 2 else f"shape {out.shape}")
    if not np.all(np.isfinite(out)):
        raise GoalError(what, expected=wanted, got="NaN or infinity")
    return out


def wishes(value: Any, what: str, lead: tuple[int, ...], tail: tuple[int, ...] = ()) -> np.ndarray:
    """Return what is wished of each goal, (t, *tail): one row for all where one was given, NaN where none was."""
    if value is None:
        return np.full((1, *tail), np.nan)
    out = read_numbers(value, what, tail)
    shape = out.shape[: out.ndim - len(tail)]
    if shape == ():
        return out.reshape(1, *tail)
    if not fits(shape, lead) or np.broadcast_shapes(shape, lead) != lead:
        raise GoalError(what, expected=f"one, or leading axes that fit the goals' {lead}", got=f"shape {out.shape}")
    return np.ascontiguousarray(np.broadcast_to(out, (*lead, *tail)).reshape(math.prod(lead), *tail))


def fits(*shapes: tuple[int, ...]) -> bool:
    """Say whether leading axes broadcast together."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def common_lead(given: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the leading axes that everything given broadcasts to; raise where there are none."""
    if not fits(*given.values()):
        got = ", ".join(f"{name} {shape}" for name, shape in given.items())
        raise GoalError("goals", expected="leading axes that fit together", got=got)
    return np.broadcast_shapes(*given.values())


def read_direction(value: Any, what: str) -> np.ndarray:
    """Return a unit vector (3,) of "x", "-y", or three numbers that are not all zero."""
    out = unit_axis(value)
    if not np.any(out):
        raise GoalError(
            what, expected="'x', 'y', 'z', '-x', ... or three finite numbers that are not all zero", got=repr(value)
        )
    return out


def read_directions(value: Any, what: str) -> np.ndarray:
    """Return unit vectors (..., 3) of one direction, by name or numbers, or of many, by numbers."""
    if isinstance(value, str) or np.ndim(value) < 2:
        return read_direction(value, what)
    out = read_numbers(value, what, (3,))
    length = np.linalg.norm(out, axis=-1, keepdims=True)
    if not np.all(length > 0.0):
        raise GoalError(what, expected="directions (..., 3) that are not zero", got="a zero vector")
    return out / length
