"""Keep a bone out of a shape, or off another bone."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import (
    POSITION_TOLERANCE,
    Goal,
    Spring,
    batch_of,
    numbers,
    positive,
    weight_along,
    weight_matrix,
)
from posable.goals.pairs import check_apart
from posable.goals.shapes import Capsule, Sphere, Wall, bone_capsule
from posable.goals.stacked import directed
from posable.kernels.fields import ALONG, AT, AXES, AXES2, MEASURE, POINT, POINT2, ROBUST, SIZE, WEIGHT, WIDTH
from posable.kernels.springs import CLEAR_SPRING, SIDE_SPRING
from posable.skeleton import Skeleton


class Avoid(Goal):
    """Keep the capsule of a bone out of an obstacle: energy w/2 max(0, radii + margin - distance)^2.

    body: a joint, or a site on it. obstacle: Sphere, Capsule, Wall, or the name of another body, whose capsule it is.
    The bone's capsule runs from its joint to the next one; ends (2, 3) [m] in the body's frame and radius [m] say
    otherwise; other_ends and other_radius do so for the other body. margin [m]: how far off the push begins.
    The error is how deep the bone is inside [m]; the default weight lets a pull of one metre press it in by 1 mm.
    weight: a number, three numbers or a symmetric 3x3 matrix W, in world axes, or in those of the other body: energy
    1/2 r'W r of the depth r along the line between the nearest points. Smooth but where the axes of the two meet, and
    where they are exactly parallel: then many points are nearest, and the force jumps between the ends of where they
    lie side by side. The distance itself has that kink, whoever computes it; beside it, forces are right.
    """

    rows: int = 3

    def __init__(
        self,
        body: str,
        obstacle: Any,
        *,
        ends: Any = None,
        radius: float | None = None,
        other_ends: Any = None,
        other_radius: float | None = None,
        margin: float = 0.002,
        weight: Any = 1000.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        what = f"Avoid({body!r})"
        self.aim(obstacle)
        super().__init__(label, positive(tolerance, what + ": tolerance"), priority, robust)
        self.weight = weight_matrix(weight, what + ": weight")
        self.margin = positive(margin, what + ": margin")
        self.shape = (ends, radius)
        self.other_shape = (other_ends, other_radius)

    def default_label(self) -> str:
        """Return "forearm.R off ball"."""
        name = self.obstacle if isinstance(self.obstacle, str) else type(self.obstacle).__name__.lower()
        return f"{self.body} off {name}"

    def aim(self, target: Any) -> None:
        """Take an obstacle; or, for a Sphere, its center (..., 3) alone."""
        old = getattr(self, "obstacle", None)
        if isinstance(old, Sphere) and not isinstance(target, (Sphere, Capsule, Wall, str)):
            target = Sphere(numbers(target, (3,), f"Avoid({self.body!r}): center"), old.radius)
        if not isinstance(target, (Sphere, Capsule, Wall, str)):
            raise GoalError(
                f"Avoid({self.body!r}): obstacle", expected="Sphere, Capsule, Wall or a body's name", got=repr(target)
            )
        self.obstacle = target
        self.rows = 6 if isinstance(target, Wall) else 3  # a wall meets both ends of the bone

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One CLEAR spring, or two SIDE springs that share one error: the ends of the bone against a wall."""
        what = f"Avoid({self.body!r})"
        body, start, axis, radius = bone_capsule(skeleton, self.body, *self.shape, what)
        if isinstance(self.obstacle, Wall):
            wall = self.obstacle
            push = weight_along(self.weight, wall.normal)
            data = self._row(batch_of(wall.point, wall.normal, what=what), radius, push)
            data[..., AT : AT + 3] = wall.point
            data[..., ALONG : ALONG + 3] = wall.normal
            both = []
            for end in (start, start + axis):
                data = data.copy()
                data[..., POINT : POINT + 3] = end
                both.append(Spring(SIDE_SPRING, body, data, self.tolerance))
            return both
        if isinstance(self.obstacle, str):
            other, p, along, thick = bone_capsule(skeleton, self.obstacle, *self.other_shape, what)
            check_apart(body, other, self)
            data = self._row((), radius + thick, self.weight[0])
            data[POINT2 : POINT2 + 3], data[AXES2 : AXES2 + 3] = p, along
        else:
            other, solid = -1, self.obstacle
            data = self._row(batch_of(solid.start, solid.axis, what=what), radius + solid.radius, self.weight[0])
            data[..., AT : AT + 3], data[..., ALONG : ALONG + 3] = solid.start, solid.axis
        data[..., POINT : POINT + 3], data[..., AXES : AXES + 3] = start, axis
        return [Spring(CLEAR_SPRING, body, data, self.tolerance, "", other)]

    def in_python(self, skeleton: Skeleton) -> Any:
        """Return the energy of a weight that is not the same in every direction; a wall has only one direction."""
        return None if isinstance(self.obstacle, Wall) else directed(self, skeleton, self.weight)

    def _row(self, batch: tuple[int, ...], size: float, weight: Any) -> np.ndarray:
        data = np.zeros((*batch, WIDTH))
        data[..., SIZE], data[..., MEASURE] = size + self.margin, self.margin
        data[..., WEIGHT] = weight
        data[..., ROBUST] = 0.0 if self.robust is None else weight * self.robust**2
        return data
