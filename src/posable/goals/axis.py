"""Goals on one axis of a body: aim it at a point, or turn it along a direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine.layout import AXES, CONSTANTS
from posable.engine.springs import AIM_SPRING, DIRECTION_SPRING
from posable.goals.base import (
    ANGLE_TOLERANCE,
    Goal,
    Spring,
    named_axis,
    nonneg,
    numbers,
    point_constants,
    set_weight,
    target_row,
    unit_vectors,
    weight_matrix,
)
from posable.goals.energy import anisotropic_energy
from posable.model.skeleton import Skeleton


class Aim(Goal):
    """Aim a line of a body at a point: energy w/2 |axis - u|^2, u the unit vector from the body's point to the target.

    Goal 4 of Tolani et al. (2000, 2.4), squared: w (1 - cos angle), smooth except where the target is at the point.
    Errors are angles.

    Args:
        body: A site or a joint.
        axis: "z", "-y" or a unit vector in the body's frame.
        at: (..., 3) [m] The point to aim at, in the world.
        point: (3,) [m] Where the line begins, in the body's frame; its origin by default.
        weight: A number, three numbers or a symmetric 3x3 matrix W in world axes: energy 1/2 r'W r of r = axis - u.
        tolerance: [rad] Angle below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never pay for higher ones.
        robust: [rad] Error beyond which the goal pulls no harder; None: no such bound.
    """

    rows = 3

    def __init__(
        self,
        body: str,
        axis: Any = "z",
        at: Any = None,
        *,
        point: Any = None,
        weight: Any = 1.0,
        tolerance: float = ANGLE_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        super().__init__(label, nonneg(tolerance, f"Aim({body!r}): tolerance"), priority, robust)
        self.axis = named_axis(axis, f"Aim({body!r}): axis")
        self.weight = weight_matrix(weight, f"Aim({body!r}): weight")
        self.point = None if point is None else numbers(point, (3,), f"Aim({body!r}): point")
        self.set_target(at)

    def set_target(self, target: Any) -> None:
        """Set the point (..., 3) [m] to aim at."""
        self.target = numbers(target, (3,), f"Aim({self.body!r}): at")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One AIM spring."""
        body, data, frame = point_constants(skeleton, self.body, self.point)
        data[AXES : AXES + 3] = skeleton.frame_rotations[frame] @ self.axis
        set_weight(data, self.weight, self.robust)
        return [Spring(AIM_SPRING, body, data, target_row(self.target), self.tolerance)]

    def python_energy(self, skeleton: Skeleton) -> Any:
        """Return the energy of an anisotropic weight."""
        return anisotropic_energy(self, skeleton, self.weight)


class Direction(Goal):
    """Turn one axis of a body along a direction, free about it: energy w/2 |axis - along|^2 = w (1 - cos angle).

    Partial orientation (Tolani et al. 2000, 3.3). Errors are angles.

    Args:
        body: A site or a joint.
        axis: "x", "-y" or a unit vector in the body's frame.
        along: (..., 3) A direction in the world, of any length, or "y".
        weight: A number, three numbers or a symmetric 3x3 matrix W in world axes: energy 1/2 r'W r of r = axis - along.
        tolerance: [rad] Angle below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never pay for higher ones.
        robust: [rad] Error beyond which the goal pulls no harder; None: no such bound.
    """

    rows = 3

    def __init__(
        self,
        body: str,
        axis: Any = "x",
        along: Any = None,
        *,
        weight: Any = 1.0,
        tolerance: float = ANGLE_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        super().__init__(label, nonneg(tolerance, f"Direction({body!r}): tolerance"), priority, robust)
        self.axis = named_axis(axis, f"Direction({body!r}): axis")
        self.weight = weight_matrix(weight, f"Direction({body!r}): weight")
        self.set_target(along)

    def set_target(self, target: Any) -> None:
        """Set the direction (..., 3)."""
        self.target = unit_vectors(target, f"Direction({self.body!r}): along")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One DIRECTION spring."""
        frame = skeleton.frame(self.body)
        data = np.zeros(CONSTANTS)
        data[AXES : AXES + 3] = skeleton.frame_rotations[frame] @ self.axis
        set_weight(data, self.weight, self.robust)
        body = int(skeleton.frame_bodies[frame])
        return [Spring(DIRECTION_SPRING, body, data, target_row(along=self.target), self.tolerance)]

    def python_energy(self, skeleton: Skeleton) -> Any:
        """Return the energy of an anisotropic weight."""
        return anisotropic_energy(self, skeleton, self.weight)
