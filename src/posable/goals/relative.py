"""Goals between two bodies: a distance, and the pose of one in the frame of the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine.layout import SIZE
from posable.engine.springs import DISTANCE_SPRING, POINT_SPRING
from posable.errors import GoalError
from posable.goals.base import (
    ANGLE_TOLERANCE,
    POSITION_TOLERANCE,
    Goal,
    Spring,
    are_points,
    nonneg,
    numbers,
    point_constants,
    range_projector,
    set_weight,
    target_row,
    weight_matrix,
)
from posable.goals.energy import anisotropic_energy
from posable.goals.joint import Coupling
from posable.goals.orientation import orientation_spring, pose_tolerances, pose_weights, split_transforms
from posable.model.skeleton import Skeleton


class _Pair(Goal):
    """The common part of Distance and Relative: two bodies."""

    body: str
    other: str

    def default_label(self) -> str:
        """Return the names of the two bodies."""
        return f"{self.body}-{self.other}"

    def other_point(self, skeleton: Skeleton, point: np.ndarray | None) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the other body's index, a point of the named frame in that body's axes, and the frame's rotation."""
        frame = skeleton.frame(self.other)
        rotation = skeleton.frame_rotations[frame]
        local = skeleton.frame_positions[frame]
        if point is not None:
            local = local + (rotation @ point[..., None])[..., 0]
        return int(skeleton.frame_bodies[frame]), local, rotation


class Distance(_Pair):
    """Keep two points a distance apart: energy w/2 (d - length)^2, smooth except where d = 0.

    Args:
        body: A site or a joint.
        other: Another site or joint.
        length: (...,) [m] The distance, non-negative.
        point: (3,) [m] The point of the body, in its frame; its origin by default.
        other_point: (3,) [m] The point of the other body, in its frame; its origin by default.
        weight: A number, three numbers or a symmetric 3x3 matrix W in the axes of the other body: energy 1/2 r'W r of
            r = (d - length) u along the line between the points.
        tolerance: [m] Error below which the goal counts as reached.
        label: Name in results; both bodies' names by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m] Error beyond which the force no longer grows; None: it always grows.
    """

    rows = 3

    def __init__(
        self,
        body: str,
        other: str,
        length: Any,
        *,
        point: Any = None,
        other_point: Any = None,
        weight: Any = 1.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body, self.other = body, other
        what = f"Distance({body!r}, {other!r})"
        super().__init__(label, nonneg(tolerance, what + ": tolerance"), priority, robust)
        self.weight = weight_matrix(weight, what + ": weight")
        self.point = None if point is None else numbers(point, (3,), what + ": point")
        self.second = None if other_point is None else numbers(other_point, (3,), what + ": other_point")
        self.set_target(length)

    def set_target(self, target: Any) -> None:
        """Set the length (...,) [m]."""
        what = f"Distance({self.body!r}, {self.other!r}): length"
        self.length = numbers(target, (), what)
        if (self.length < 0.0).any():
            raise GoalError(what, expected="a non-negative length", got=f"{self.length.min():g}")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One DISTANCE spring whose target is on the other body; a POINT spring if every length is zero."""
        body, data, _ = point_constants(skeleton, self.body, self.point, self.length.shape)
        other, local, _ = self.other_point(skeleton, self.second)
        check_two_bodies(body, other, self)
        data[..., SIZE] = self.length
        set_weight(data, self.weight, self.robust, np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
        kind = DISTANCE_SPRING if self.length.any() else POINT_SPRING
        return [Spring(kind, body, data, target_row(local), self.tolerance, "", other)]

    def python_energy(self, skeleton: Skeleton) -> Any:
        """Return the energy of an anisotropic weight."""
        return anisotropic_energy(self, skeleton, self.weight) if self.length.any() else None


class Relative(_Pair):
    """Hold a body at a pose in the frame of another body: a hand on a wrist, a foot on a pedal, the closure of a loop.

    Args:
        body: A site or a joint.
        other: Another site or joint.
        target: The body's frame in the other's, (..., 4, 4) or a SciPy RigidTransform; or a point (..., 3) [m], which
            leaves the orientation free. None: the frames coincide.
        point: (3,) [m] in the body's frame; its origin by default.
        weight: As in Pose; the axes of the position's weight are those of the other body.
        tolerance: [m, rad] One number for both, or a pair (position, rotation).
        label: Name in results; both bodies' names by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m, rad] Error beyond which the force no longer grows; None: it always grows.
    """

    def __init__(
        self,
        body: str,
        other: str,
        target: Any = None,
        *,
        point: Any = None,
        weight: Any = 1.0,
        tolerance: Any = (POSITION_TOLERANCE, ANGLE_TOLERANCE),
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body, self.other = body, other
        what = f"Relative({body!r}, {other!r})"
        super().__init__(label, pose_tolerances(tolerance, None, what), priority, robust)
        self.weight = pose_weights(weight, what)
        self.point = None if point is None else numbers(point, (3,), what + ": point")
        self.turned = not are_points(target)
        self.rows = 6 if self.turned else 3
        self.set_target(np.eye(4) if target is None else target)

    def set_target(self, target: Any) -> None:
        """Set the transform (..., 4, 4), or the point (..., 3) [m]."""
        what = f"Relative({self.body!r}, {self.other!r}): target"
        if are_points(target):
            self.position = numbers(target, (3,), what)
            self.rotation = getattr(self, "rotation", np.eye(3))
        else:
            self.position, self.rotation = split_transforms(target, what)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring and, for a transform, one ORIENTATION spring; their targets are on the other body."""
        body, data, _ = point_constants(skeleton, self.body, self.point)
        other, local, rotation = self.other_point(skeleton, self.position)
        check_two_bodies(body, other, self)
        set_weight(data, self.weight[0], self.robust, range_projector(self.weight[0]))
        out = [Spring(POINT_SPRING, body, data, target_row(local), self.tolerance[0], "", other)]
        if self.turned:
            target, weight = rotation @ self.rotation, self.weight[1]
            turn = orientation_spring(skeleton, self.body, target, weight, self.robust, self.tolerance[1], "rotation")
            out.append(turn._replace(other=other))
        return out


def check_two_bodies(body: int, other: int, goal: Goal) -> None:
    """Raise if both are one rigid body: nothing could change the distance between them."""
    if body == other:
        raise GoalError(f"{goal}", expected="two bodies that move relative to each other", got="two points on one body")


# --- Couplings and loops of a figure ---

MIMIC_WEIGHT = 100.0  # of couplings and loops of a figure, compared with 1 for a position


def mimic_goals(skeleton: Skeleton) -> tuple[Goal, ...]:
    """Return the couplings and closed loops of a figure as goals.

    They are springs with a high weight, not eliminated, so any solver handles them and limits of followers still apply;
    where everything is reached they hold within their tolerance.
    """
    couplings = [
        Coupling(follower, leader, ratio=ratio, offset=offset, weight=MIMIC_WEIGHT)
        for follower, leader, ratio, offset in skeleton.couplings
    ]
    loops = [
        Relative(frame, other, None if welded else (0.0, 0.0, 0.0), weight=MIMIC_WEIGHT)
        for frame, other, welded in skeleton.loops
    ]
    return (*couplings, *loops)
