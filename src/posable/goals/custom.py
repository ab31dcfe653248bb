"""A goal whose energy the user writes in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from posable.errors import GoalError
from posable.goals.base import Goal, Spring, named_axis, nonneg, numbers, square_weight
from posable.goals.energy import Rows, VectorEnergy, first_differences, pseudo_huber, second_differences
from posable.model.skeleton import Skeleton


class Custom(Goal):
    """An energy of named points and directions, written in Python, usable with every solver.

        Custom(points=["hand.L", "hand.R"], energy=lambda p, d: 0.5 * (p["hand.L"][1] - p["hand.R"][1]) ** 2)

    Compiled loops do not call Python. The solver minimises quadratic models of the energy, with Armijo's test on the
    energy itself, until the model and the energy agree. The error is sqrt(2 E), as for E = 1/2 r^2, before weighting.

    Args:
        energy: energy(points, directions) -> float. It gets two dicts of (3,) arrays in the world and must be smooth.
        points: {"hand.R": (x, y, z)} [m] in the body's frame; or a list of bodies, for their origins. Several points of
            one body have names of their own: {"a": ("hand.R", (x, y, z))}.
        directions: {"head": "z"}, unit vectors in the body's frame.
        gradient: gradient(points, directions) returns two dicts of (3,) arrays; missing entries are zero. By default
            differences are taken.
        weight: Factor on the energy.
        tolerance: Error below which the goal counts as reached; infinite by default: the energy is only minimised.
        label: Name in results; "custom" by default.
        priority: Level of the goal. Lower levels are solved first and never pay for higher ones.
        robust: Error beyond which the goal pulls no harder; the energy must then be non-negative.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self,
        energy: Callable[[dict, dict], float],
        *,
        points: Any = (),
        directions: Mapping[str, Any] | None = None,
        gradient: Callable[[dict, dict], tuple[dict, dict]] | None = None,
        weight: Any = 1.0,
        tolerance: float = np.inf,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(label, nonneg(tolerance, "Custom: tolerance"), priority, robust)
        if not callable(energy):
            raise GoalError("Custom: energy", expected="a function of points and directions", got=repr(energy))
        self.energy, self.gradient = energy, gradient
        self.weight = float(square_weight(weight, 1, "Custom: weight")[0, 0])
        entries = points.items() if isinstance(points, Mapping) else ((body, (0.0, 0.0, 0.0)) for body in points)
        # (name, body, vector in the body's frame, 1 for a point and 0 for a direction)
        self.vectors: list[tuple[str, str, np.ndarray, float]] = []
        for name, place in entries:
            body, local = place if len(place) == 2 else (name, place)
            self.vectors.append((name, body, numbers(local, (3,), f"Custom: point {name!r}"), 1.0))
        for name, axis in (directions or {}).items():
            body, local = axis if isinstance(axis, tuple) and len(axis) == 2 else (name, axis)
            self.vectors.append((name, body, named_axis(local, f"Custom: direction {name!r}"), 0.0))
        if not self.vectors:
            raise GoalError("Custom", expected="points or directions of bodies", got="none")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """None: see `python_energy`."""
        return []

    def python_energy(self, skeleton: Skeleton) -> CustomEnergy:
        """Return the energy on this skeleton."""
        return CustomEnergy(self, skeleton)

    def slopes(self, vectors: np.ndarray) -> np.ndarray:
        """Return the gradient (k, 3) of the energy at vectors (k, 3), from the user or by differences."""
        if self.gradient is None:
            return first_differences(self.value, vectors)
        found = self.gradient(*self._named(vectors))
        out = np.zeros_like(vectors)
        for k, (name, _, _, moves) in enumerate(self.vectors):
            part = found[0 if moves else 1].get(name)
            if part is not None:
                out[k] = numbers(part, (3,), f"{self}: gradient of {name!r}")
        return out

    def value(self, vectors: np.ndarray) -> float:
        """Return the energy of vectors (k, 3) in the world, before weight and robust scale."""
        value = float(self.energy(*self._named(vectors)))
        if not np.isfinite(value):
            raise GoalError(f"{self}: energy", expected="a finite number", got=repr(value))
        if value < 0.0 and self.robust is not None:
            raise GoalError(f"{self}: energy", expected="a non-negative energy, as `robust` is given", got=repr(value))
        return value

    def _named(self, vectors: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        points = {name: vectors[k] for k, (name, _, _, moves) in enumerate(self.vectors) if moves}
        directions = {name: vectors[k] for k, (name, _, _, moves) in enumerate(self.vectors) if not moves}
        return points, directions


class CustomEnergy(VectorEnergy):
    """A user's energy on a skeleton."""

    def __init__(self, goal: Custom, skeleton: Skeleton):
        self.goal, self.tolerance, self.priority = goal, goal.tolerance, goal.priority
        self.measured, self.idle = [], goal.weight == 0.0
        self.scale = 0.0 if goal.robust is None else goal.weight * goal.robust**2
        self.vectors = []
        for _, body, local, moves in goal.vectors:
            frame = skeleton.frame(body)
            place = skeleton.frame_rotations[frame] @ local + moves * skeleton.frame_positions[frame]
            self.vectors.append((int(skeleton.frame_bodies[frame]), place, moves))

    def value(self, vectors: np.ndarray, rows: Rows) -> float:
        """Return the weighted energy of vectors (k, 3) in the world."""
        nothing = np.zeros(1)
        return pseudo_huber(self.goal.weight * self.goal.value(vectors), nothing, np.zeros((1, 1)), self.scale)[0]

    def model(self, vectors: np.ndarray, rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3)."""
        goal, flat = self.goal, vectors.size
        if goal.gradient is None:
            hessian = second_differences(goal.value, vectors)
        else:
            hessian = first_differences(goal.slopes, vectors).reshape(flat, flat)
        w = goal.weight
        slope = w * goal.slopes(vectors).ravel()
        return pseudo_huber(w * goal.value(vectors), slope, 0.5 * w * (hessian + hessian.T), self.scale)

    def error(self, vectors: np.ndarray) -> float:
        """Return sqrt(2 E), as of E = 1/2 r^2."""
        return float(np.sqrt(max(0.0, 2.0 * self.goal.value(vectors))))
