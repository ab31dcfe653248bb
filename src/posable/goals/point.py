"""Goals on a point of a body: at a target, on a plane, on a line, on one side of a plane."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine.layout import MEASURE, SIZE
from posable.engine.springs import POINT_SPRING, SIDE_SPRING
from posable.errors import GoalError
from posable.goals.base import (
    POSITION_TOLERANCE,
    Goal,
    Spring,
    batch_of,
    checked_targets,
    device_target,
    is_isotropic,
    nonneg,
    numbers,
    outer_products,
    pack_sym,
    point_constants,
    range_projector,
    set_weight,
    target_row,
    unit_vectors,
    unpack_sym,
    weight_along,
    weight_matrix,
)
from posable.model.skeleton import Skeleton

# --- A point of a body at a target ---


class Position(Goal):
    """Bring a point of a body to a target: energy 1/2 r'W r with r = point - target (Tolani et al. 2000, 2.4).

    Args:
        body: A site or a joint.
        target: (..., 3) [m] in the world; leading axes make a batch. Also that of a pinocchio.SE3, a RigidTransform
            or a body of MuJoCo's data.
        weight: A number, three numbers (world axes; 0 leaves an axis free) or a symmetric 3x3 matrix W.
        tolerance: [m] Error below which the goal counts as reached.
        point: (3,) [m] in the body's frame; its origin by default.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m] Error beyond which the force no longer grows; None: it always grows.
    """

    rows = 3
    target_shape = (3,)

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
        super().__init__(label, nonneg(tolerance, f"Position({body!r}): tolerance"), priority, robust)
        self.set_target(target)
        self.weight = weight_matrix(weight, f"Position({body!r}): weight")
        self.point = None if point is None else numbers(point, (3,), f"Position({body!r}): point")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring."""
        body, data, _ = point_constants(skeleton, self.body, self.point)
        set_weight(data, self.weight, self.robust, range_projector(self.weight))
        return [Spring(POINT_SPRING, body, data, target_row(self.target), self.tolerance)]

    def constants_key(self) -> Any:
        """What its constants depend on."""
        return self._key(self.point)

    def set_target(self, target: Any) -> None:
        """Set the target (..., 3) [m], or that of a transform: of a pinocchio.SE3, a RigidTransform, MuJoCo's data."""
        what = f"Position({self.body!r}): target"
        if type(target) is not np.ndarray:
            target = getattr(target, "xpos", getattr(target, "translation", target))
        if getattr(target, "shape", None) == (4, 4):
            raise GoalError(what, expected="shape (..., 3); of transforms T that is T[..., :3, 3]", got="shape (4, 4)")
        self.device_array, target = device_target(target, (3,), what)
        self.target = checked_targets(target, (3,), what)


# --- Goals that leave a point some freedom ---

IDENTITY = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


class _PointAndDirection(Goal):
    """The common part of Plane, Line and HalfSpace: a point of a body, and a point and a direction in the world.

    Args:
        body: A site or a joint.
        point: (..., 3) [m] in the world.
        direction: (..., 3) in the world.
        at: (3,) [m] The point of the body, in its frame; its origin by default.
        weight: A number, three numbers or a symmetric 3x3 matrix W, in world axes. For a plane with normal n, n'W n
            counts; for a line, the part of W across it.
        tolerance: [m] Error below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m] Error beyond which the force no longer grows; None: it always grows.
    """

    rows = 3
    direction_name = "normal"

    def __init__(
        self,
        body: str,
        point: Any,
        direction: Any,
        *,
        at: Any = None,
        weight: Any = 1.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        what = f"{type(self).__name__}({body!r})"
        super().__init__(label, nonneg(tolerance, what + ": tolerance"), priority, robust)
        self.weight = weight_matrix(weight, what + ": weight")
        self.at = None if at is None else numbers(at, (3,), what + ": at")
        self.direction = unit_vectors(direction, f"{what}: {self.direction_name}")
        self.set_target(point)

    def set_target(self, target: Any) -> None:
        """Set the point (..., 3) [m], or a pair of a point and a direction."""
        what = f"{type(self).__name__}({self.body!r})"
        if isinstance(target, tuple) and len(target) == 2:
            target, direction = target
            self.direction = unit_vectors(direction, f"{what}: {self.direction_name}")
        self.target = numbers(target, (3,), what + ": point")
        self.batch = batch_of(self.target, self.direction, what=what)

    def row(self, skeleton: Skeleton) -> tuple[int, np.ndarray]:
        """Return the body and the constants (..., CONSTANTS), batched like the direction."""
        body, data, _ = point_constants(skeleton, self.body, self.at, self.direction.shape[:-1])
        return body, data


class Plane(_PointAndDirection):
    """Bring a point of a body onto a plane: energy w/2 (n.(e - point))^2 (Tolani et al. 2000, 2.4, goal 5).

    The error is the distance to the plane [m].

    Args:
        body: A site or a joint.
        point: (..., 3) [m] A point of the plane, in the world.
        normal: (..., 3) Its normal, in the world.
        **options: `at`, `weight`, `tolerance`, `label`, `priority` and `robust`, as for the other goals on points.
    """

    def __init__(self, body: str, point: Any, normal: Any, **options: Any):
        super().__init__(body, point, normal, **options)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring that pulls along the normal."""
        body, data = self.row(skeleton)
        normal = outer_products(self.direction)
        set_weight(data, weight_along(self.weight, self.direction)[..., None] * normal, self.robust, normal)
        return [Spring(POINT_SPRING, body, data, target_row(self.target), self.tolerance)]


class Line(_PointAndDirection):
    """Bring a point of a body onto a line: energy w/2 |r - (u.r) u|^2, r from the line's point to the body's.

    The error is the distance to the line [m].

    Args:
        body: A site or a joint.
        point: (..., 3) [m] A point of the line, in the world.
        direction: (..., 3) Its direction, in the world.
        **options: `at`, `weight`, `tolerance`, `label`, `priority` and `robust`, as for the other goals on points.
    """

    direction_name = "direction"

    def __init__(self, body: str, point: Any, direction: Any, **options: Any):
        super().__init__(body, point, direction, **options)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring that pulls across the line."""
        body, data = self.row(skeleton)
        free = IDENTITY - outer_products(self.direction)
        if is_isotropic(self.weight):
            weight = self.weight[0] * free
        else:
            projector = unpack_sym(free)
            weight = pack_sym(projector @ unpack_sym(self.weight) @ projector)
        set_weight(data, weight, self.robust, free)
        return [Spring(POINT_SPRING, body, data, target_row(self.target), self.tolerance)]


class HalfSpace(_PointAndDirection):
    """Keep a point of a body on the side of a plane that its normal points to: energy w/2 max(0, depth)^2.

    The error is the depth behind the plane [m].

    Args:
        body: A site or a joint.
        point: (..., 3) [m] A point of the plane, in the world.
        normal: (..., 3) Its normal, in the world, towards the free side.
        margin: [m] The pull begins this far in front of the plane.
        **options: `at`, `weight`, `tolerance`, `label`, `priority` and `robust`, as for the other goals on points.
    """

    def __init__(self, body: str, point: Any, normal: Any, *, margin: float = 0.0, **options: Any):
        self.margin = float(numbers(margin, (), f"HalfSpace({body!r}): margin"))
        super().__init__(body, point, normal, **options)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One SIDE spring."""
        body, data = self.row(skeleton)
        weight = weight_along(self.weight, self.direction)[..., None] * np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        set_weight(data, weight, self.robust)
        data[..., SIZE] = self.margin
        data[..., MEASURE] = self.margin
        return [Spring(SIDE_SPRING, body, data, target_row(self.target, self.direction), self.tolerance)]
