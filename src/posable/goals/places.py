"""Goals that leave a point some freedom: on a plane, on a line, on one side of a plane."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.goals.goal import (
    POSITION_TOLERANCE,
    Goal,
    Spring,
    across,
    batch_of,
    numbers,
    point_row,
    positive,
    set_weight,
    single_weight,
    unit_vectors,
)
from posable.kernels.fields import ALONG, AT, MEASURE, SIZE, WEIGHT
from posable.kernels.springs import POINT_SPRING, SIDE_SPRING
from posable.skeleton import Skeleton

IDENTITY = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


class _Place(Goal):
    """What the three share: a point of a body, a place (..., 3) in the world and a direction (..., 3) there.

    at (3,) [m]: the point, in the body's frame; its origin by default. weight, tolerance, label, priority, robust: as
    every goal's.
    """

    direction_name = "normal"

    def __init__(
        self,
        body: str,
        point: Any,
        direction: Any,
        *,
        at: Any = None,
        weight: float = 1.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        what = f"{type(self).__name__}({body!r})"
        super().__init__(label, positive(tolerance, what + ": tolerance"), priority, robust)
        self.weight = single_weight(weight, what + ": weight")
        self.at = None if at is None else numbers(at, (3,), what + ": at")
        self.direction = unit_vectors(direction, f"{what}: {self.direction_name}")
        self.aim(point)

    def aim(self, target: Any) -> None:
        """Take a point (..., 3), or a pair of a point and a direction."""
        what = f"{type(self).__name__}({self.body!r})"
        if isinstance(target, tuple) and len(target) == 2:
            target, direction = target
            self.direction = unit_vectors(direction, f"{what}: {self.direction_name}")
        self.target = numbers(target, (3,), what + ": point")
        self.batch = batch_of(self.target, self.direction, what=what)

    def row(self, skeleton: Skeleton) -> tuple[int, np.ndarray]:
        """Return the body and the data (..., WIDTH) with both points set."""
        body, data, _ = point_row(skeleton, self.body, self.at, self.batch)
        data[..., AT : AT + 3] = self.target
        return body, data


class Plane(_Place):
    """Bring a point of a body onto a plane: energy w/2 (n.(e - point))^2 (seed 003 2.4, goal 5).

    body: a site or a joint. point (..., 3) [m] and normal (..., 3) of the plane, in the world. at (3,) [m]: the point
    of the body, in its frame. The error is the distance to the plane [m].
    """

    def __init__(self, body: str, point: Any, normal: Any, **options: Any):
        super().__init__(body, point, normal, **options)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring that pulls along the normal."""
        body, data = self.row(skeleton)
        normal = across(self.direction)
        set_weight(data, self.weight[0] * normal, self.robust, normal)
        return [Spring(POINT_SPRING, body, data, self.tolerance)]


class Line(_Place):
    """Bring a point of a body onto a line: energy w/2 |r - (u.r) u|^2, r from the line's point to the body's.

    body: a site or a joint. point (..., 3) [m] and direction (..., 3) of the line, in the world. at (3,) [m]: the
    point of the body, in its frame. The error is the distance to the line [m].
    """

    direction_name = "direction"

    def __init__(self, body: str, point: Any, direction: Any, **options: Any):
        super().__init__(body, point, direction, **options)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring that pulls across the line."""
        body, data = self.row(skeleton)
        free = IDENTITY - across(self.direction)
        set_weight(data, self.weight[0] * free, self.robust, free)
        return [Spring(POINT_SPRING, body, data, self.tolerance)]


class HalfSpace(_Place):
    """Keep a point of a body on the side of a plane to which its normal points: energy w/2 max(0, depth)^2.

    body: a site or a joint. point (..., 3) [m] and normal (..., 3) of the plane, in the world. at (3,) [m]: the point
    of the body, in its frame. margin [m]: pull begins this far before the plane. The error is the depth behind it [m].
    """

    def __init__(self, body: str, point: Any, normal: Any, *, margin: float = 0.0, **options: Any):
        self.margin = float(numbers(margin, (), f"HalfSpace({body!r}): margin"))
        super().__init__(body, point, normal, **options)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One SIDE spring."""
        body, data = self.row(skeleton)
        data[..., ALONG : ALONG + 3] = self.direction
        set_weight(data, self.weight, self.robust)
        data[..., WEIGHT + 1 : WEIGHT + 6] = 0.0
        data[..., SIZE] = self.margin
        data[..., MEASURE] = self.margin
        return [Spring(SIDE_SPRING, body, data, self.tolerance)]
