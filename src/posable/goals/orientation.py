"""A body turned a given way."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import ANGLE_TOLERANCE, Goal, Spring, numbers, positive, set_weight, weight_matrix
from posable.goals.remote import remote_target
from posable.kernels.fields import ALONG, AXES, WIDTH
from posable.kernels.springs import ORIENTATION_SPRING
from posable.skeleton import Skeleton


def rotations(value: Any, what: str) -> np.ndarray:
    """Return rotations given by SciPy (one or a stack) or as matrices (..., 3, 3), checked."""
    if hasattr(value, "as_matrix"):
        value = value.as_matrix()
    return checked_rotations(numbers(value, (3, 3), what), what)


def checked_rotations(out: np.ndarray, what: str) -> np.ndarray:
    """Return finite matrices (..., 3, 3) where they are rotations; raises GoalError."""
    if out.ndim == 2 and _is_rotation(*out.ravel().tolist()):  # the common case, without array machinery
        return out
    gap = np.abs(np.swapaxes(out, -1, -2) @ out - np.eye(3)).max(initial=0.0)
    if gap > 1e-6 or (np.linalg.det(out) < 0.0).any():
        raise GoalError(what, expected="a rotation (orthonormal, right-handed)", got=f"a matrix off by {gap:.2g}")
    return out


def _is_rotation(a, b, c, d, e, f, g, h, i) -> bool:
    small = 1e-6
    return (
        abs(a * a + b * b + c * c - 1.0) < small
        and abs(d * d + e * e + f * f - 1.0) < small
        and abs(a * d + b * e + c * f) < small
        and abs(b * f - c * e - g) < small
        and abs(c * d - a * f - h) < small
        and abs(a * e - b * d - i) < small
    )


def turning_matrix(weight: np.ndarray) -> np.ndarray:
    """Return A (six numbers) of tr A - tr(R A T') whose stiffness at the goal, tr(A) - A, is the weight."""
    half = 0.5 * (weight[0] + weight[1] + weight[2])
    return np.array([half, half, half, 0.0, 0.0, 0.0]) - weight


class Orientation(Goal):
    """Turn a body to a rotation: energy w (1 - cos angle), smooth everywhere, with one minimum from any start.

    body: a site or a joint. rotation: SciPy Rotation or (..., 3, 3), the body's frame in the world. weight: a number,
    three numbers or a 3x3 matrix about the axes of the body's frame. tolerance [rad]; errors are angles.
    """

    rows = 3

    def __init__(
        self,
        body: str,
        rotation: Any,
        *,
        weight: Any = 1.0,
        tolerance: float = ANGLE_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        super().__init__(label, positive(tolerance, f"Orientation({body!r}): tolerance"), priority, robust)
        self._take(rotation)
        self.weight = weight_matrix(weight, f"Orientation({body!r}): weight")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One ORIENTATION spring."""
        return [orientation_spring(skeleton, self.body, self.target, self.weight, self.robust, self.tolerance)]

    def moved(self, target: Any) -> Orientation:
        """Return the same goal at another rotation."""
        out = object.__new__(Orientation)
        out.__dict__.update(self.__dict__)
        out._take(target)
        return out

    def write_target(self, rows: np.ndarray) -> bool:
        """Write the target."""
        if self.target.ndim > 2:
            return False
        rows[0, ALONG : ALONG + 9] = self.target.ravel()
        return True

    def _take(self, rotation: Any) -> None:
        what = f"Orientation({self.body!r}): rotation"
        self.remote, rotation = remote_target(rotation, (3, 3), what)
        self.target = rotations(rotation, what)


def orientation_spring(
    skeleton: Skeleton,
    body: str,
    target: np.ndarray,
    weight: np.ndarray,
    robust: float | None,
    tolerance: float,
    name: str = "",
) -> Spring:
    """Return the ORIENTATION spring of a body's frame towards target (..., 3, 3)."""
    frame = skeleton.frame(body)
    data = np.zeros((*target.shape[:-2], WIDTH))
    data[..., AXES : AXES + 9] = skeleton.frame_rotations[frame].ravel()
    data[..., ALONG : ALONG + 9] = target.reshape(*target.shape[:-2], 9)
    set_weight(data, turning_matrix(weight), robust)
    return Spring(ORIENTATION_SPRING, int(skeleton.frame_bodies[frame]), data, tolerance, name)
