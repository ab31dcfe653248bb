"""What every goal shares: weight, tolerance, label, priority, robust scale; and how it becomes springs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from posable.errors import GoalError
from posable.kernels.fields import MEASURE, POINT, ROBUST, WEIGHT, WIDTH
from posable.skeleton import Skeleton

POSITION_TOLERANCE = 1e-4  # [m]
ANGLE_TOLERANCE = 1e-3  # [rad]


class Spring(NamedTuple):
    """One goal primitive on a body: a kind of kernels/springs.py, the body, its data, and when it counts as reached."""

    kind: int
    body: int
    data: np.ndarray  # (..., WIDTH)
    tolerance: float  # [m, rad]; infinity: it never decides
    name: str = ""  # added to the goal's label where a goal has several
    other: int = -1


class Goal:
    """Something wanted of a figure. A goal is immutable; `moved` gives the same one with another target.

    weight: how hard it pulls, against the others of its level. tolerance: when it counts as reached [m, rad].
    label: its name in results, the body's by default. priority: lower is stricter, a level never pays for a later one.
    robust: a scale [m, rad] beyond which it pulls no harder; None: none.
    """

    def __init__(self, label: str | None, tolerance: Any, priority: int, robust: float | None):
        self.label = label or self.default_label()
        self.tolerance = tolerance
        if not isinstance(priority, (int, np.integer)):
            raise GoalError(f"{self}: priority", expected="a whole number", got=repr(priority))
        self.priority = int(priority)
        if robust is not None and not (np.isscalar(robust) and 0.0 < float(robust) < np.inf):
            raise GoalError(f"{self}: robust", expected="None or a positive number", got=repr(robust))
        self.robust = None if robust is None else float(robust)

    def default_label(self) -> str:
        """Return the name that the goal has in results where the user gave none."""
        return getattr(self, "body", type(self).__name__.lower())

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """Return the goal primitives that it is made of, on this skeleton."""
        raise NotImplementedError

    def moved(self, target: Any) -> Goal:
        """Return the same goal with another target."""
        raise GoalError(f"{type(self).__name__} has no target to move")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, 'label', '')!r})"


def numbers(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return finite numbers (..., *shape); raises GoalError with what was expected and got."""
    try:
        out = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise GoalError(what, expected=f"numbers of shape (..., {', '.join(map(str, shape))})", got=repr(value)) from None
    if out.shape[out.ndim - len(shape) :] != shape or out.ndim < len(shape):
        raise GoalError(what, expected=f"shape (..., {', '.join(map(str, shape))})", got=f"shape {out.shape}")
    if not np.isfinite(out).all():
        raise GoalError(what, expected="finite numbers", got=f"{out[~np.isfinite(out)][0]} among them")
    return out


def positive(value: Any, what: str) -> float:
    """Return a number that is not negative and not NaN; raises GoalError."""
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise GoalError(what, expected="a number that is not negative", got=repr(value)) from None
    if not out >= 0.0:
        raise GoalError(what, expected="a number that is not negative", got=repr(value))
    return out


def weight_matrix(weight: Any, what: str) -> np.ndarray:
    """Return a weight given as a number, three numbers or a symmetric positive semidefinite 3x3, as six numbers."""
    if isinstance(weight, (int, float)):
        w = positive(weight, what)
        return np.array([w, w, w, 0.0, 0.0, 0.0])
    try:
        value = np.asarray(weight, dtype=float)
    except (TypeError, ValueError):
        value = np.full((), np.nan)
    if value.shape == ():
        w = positive(value, what)
        return np.array([w, w, w, 0.0, 0.0, 0.0])
    if value.shape == (3,) and np.all(value >= 0.0) and np.all(np.isfinite(value)):
        return np.array([*value, 0.0, 0.0, 0.0])
    good = value.shape == (3, 3) and np.all(np.isfinite(value)) and np.abs(value - value.T).max() <= 1e-9 * np.abs(value).max()
    if good and np.linalg.eigvalsh(value)[0] >= -1e-12 * np.abs(value).max():
        return six(value)
    raise GoalError(what, expected="a number, 3 numbers, or a symmetric 3x3 matrix, none negative", got=repr(weight))


def six(matrix: np.ndarray) -> np.ndarray:
    """Return a symmetric 3x3 matrix as xx yy zz xy xz yz."""
    m = matrix
    return np.array([m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]])


def range_of(weight: np.ndarray) -> np.ndarray:
    """Return, as six numbers, the projector on what a weight (six numbers) does not ignore: what counts as error."""
    if weight[3] == weight[4] == weight[5] == 0.0:
        return np.array([1.0 if w > 0.0 else 0.0 for w in weight[:3]] + [0.0, 0.0, 0.0])
    x, y, z, xy, xz, yz = weight
    values, vectors = np.linalg.eigh(np.array([[x, xy, xz], [xy, y, yz], [xz, yz, z]]))
    kept = vectors[:, values > 1e-9 * values[-1]]
    return six(kept @ kept.T)


def point_row(skeleton: Skeleton, body: str, point: Any, batch: tuple[int, ...] = ()) -> tuple[int, np.ndarray, int]:
    """Return (body index, data (..., WIDTH) with the point set, row of the frame) for a point of a named body."""
    frame = skeleton.frame(body)
    data = np.zeros((*batch, WIDTH))
    local = skeleton.frame_positions[frame]
    if point is not None:
        local = local + skeleton.frame_rotations[frame] @ point
    data[..., POINT : POINT + 3] = local
    return int(skeleton.frame_bodies[frame]), data, frame


def set_weight(data: np.ndarray, weight: np.ndarray, robust: float | None, measure: np.ndarray | None = None) -> None:
    """Write a weight (six numbers), its measure and the robust scale into spring data."""
    data[..., WEIGHT : WEIGHT + 6] = weight
    if measure is not None:
        data[..., MEASURE : MEASURE + 6] = measure
    if robust is not None:
        data[..., ROBUST] = max(weight[:3]) * robust * robust
