"""A point of a body at a place."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.goals.goal import (
    POSITION_TOLERANCE,
    Goal,
    Spring,
    numbers,
    point_row,
    positive,
    range_of,
    set_weight,
    weight_matrix,
)
from posable.goals.remote import remote_target
from posable.kernels.fields import AT
from posable.kernels.springs import POINT_SPRING
from posable.skeleton import Skeleton


class Position(Goal):
    """Bring a point of a body to a place: energy 1/2 r'W r with r = point - target (seed 000 (17), seed 003 2.4).

    body: a site or a joint. target (..., 3) [m] in the world; leading axes make a batch. weight: a number, three
    numbers (world axes), or a symmetric 3x3 matrix. tolerance [m]. point (3,) [m] in the body's frame.
    """

    rows = 3

    def __init__(
        self,
        body: str,
        target: Any,
        *,
        weight: Any = 1.0,
        tolerance: float = POSITION_TOLERANCE,
        point: Any = None,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        super().__init__(label, positive(tolerance, f"Position({body!r}): tolerance"), priority, robust)
        self._take(target)
        self.weight = weight_matrix(weight, f"Position({body!r}): weight")
        self.point = None if point is None else numbers(point, (3,), f"Position({body!r}): point")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring."""
        body, data, _ = point_row(skeleton, self.body, self.point, self.target.shape[:-1])
        data[..., AT : AT + 3] = self.target
        set_weight(data, self.weight, self.robust, range_of(self.weight))
        return [Spring(POINT_SPRING, body, data, self.tolerance)]

    def moved(self, target: Any) -> Position:
        """Return the same goal at another target (..., 3)."""
        out = object.__new__(Position)
        out.__dict__.update(self.__dict__)
        out._take(target)
        return out

    def write_target(self, rows: np.ndarray) -> bool:
        """Write the target."""
        if self.target.ndim > 1:
            return False
        rows[0, AT : AT + 3] = self.target
        return True

    def _take(self, target: Any) -> None:
        what = f"Position({self.body!r}): target"
        self.remote, target = remote_target(target, (3,), what)
        self.target = numbers(target, (3,), what)
