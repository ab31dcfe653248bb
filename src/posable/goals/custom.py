"""A goal of the user's own, in a few lines of Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring, named_axis, numbers, positive
from posable.kernels.fields import MEASURE, POINT, POINT2, WIDTH
from posable.kernels.springs import CROSS_SPRING, MODEL_SPRING
from posable.skeleton import Skeleton

STEP = 1e-4  # [m, 1] of a difference: its square times a curvature of 1 is far above the rounding of energies near 1


class Custom(Goal):
    """An energy of named points and directions, written in Python, usable with every solver.

    energy(points, directions) -> float gets two dicts of (3,) arrays in the world and must be smooth. points:
    {"hand.R": (x, y, z)}, in the body's frame; or a list of bodies, for their origins. directions: {"head": "z"}, unit
    vectors in the body's frame. Where one body has several, name them {"a": ("hand.R", (x, y, z))}. gradient(points,
    directions), if given, returns two dicts of (3,) arrays, any of which may be missing. weight multiplies the energy.
    tolerance: the error is sqrt(2 E), as of E = 1/2 r^2; infinite by default: the energy is minimised, never decides.

        Custom(points=["hand.L", "hand.R"], energy=lambda p, d: 0.5 * (p["hand.L"][1] - p["hand.R"][1]) ** 2)

    Compiled loops do not call Python: a solve goes by quadratic models of the energy, with Armijo's test on the energy
    itself, until the model and the energy agree.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self,
        energy: Callable[[dict, dict], float],
        *,
        points: Any = (),
        directions: Mapping[str, Any] | None = None,
        gradient: Callable[[dict, dict], tuple[dict, dict]] | None = None,
        weight: float = 1.0,
        tolerance: float = np.inf,
        label: str | None = None,
        priority: int = 0,
    ):
        super().__init__(label, positive(tolerance, "Custom: tolerance"), priority, None)
        if not callable(energy):
            raise GoalError("Custom: energy", expected="a function of points and directions", got=repr(energy))
        self.energy, self.gradient = energy, gradient
        self.weight = positive(weight, "Custom: weight")
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
        """A MODEL spring for each vector and a CROSS spring for each pair, to be filled at a pose."""
        out = []
        for _, body, local, moves in self.vectors:
            frame = skeleton.frame(body)
            data = np.zeros(WIDTH)
            rotated = skeleton.frame_rotations[frame] @ local
            data[POINT : POINT + 3] = rotated + moves * skeleton.frame_positions[frame]
            data[MEASURE] = moves
            out.append(Spring(MODEL_SPRING, int(skeleton.frame_bodies[frame]), data, self.tolerance))
        k = len(out)
        for i in range(k):
            for j in range(i + 1, k):
                data = np.zeros(WIDTH)
                data[POINT : POINT + 3], data[POINT2 : POINT2 + 3] = out[i].data[:3], out[j].data[:3]
                data[MEASURE], data[MEASURE + 1] = out[i].data[MEASURE], out[j].data[MEASURE]
                out.append(Spring(CROSS_SPRING, out[i].body, data, self.tolerance, "", out[j].body))
        return out

    def value(self, vectors: np.ndarray) -> float:
        """Return the weighted energy of vectors (k, 3) in the world."""
        value = self.weight * float(self.energy(*self._named(vectors)))
        if not np.isfinite(value):
            raise GoalError(f"{self}: energy", expected="a finite number", got=repr(value))
        return value

    def slopes(self, vectors: np.ndarray) -> np.ndarray:
        """Return the gradient (k, 3) of the weighted energy, the user's or by differences."""
        if self.gradient is None:
            return _differences(self.value, vectors)
        found = self.gradient(*self._named(vectors))
        out = np.zeros_like(vectors)
        for k, (name, _, _, moves) in enumerate(self.vectors):
            part = found[0 if moves else 1].get(name)
            if part is not None:
                out[k] = numbers(part, (3,), f"{self}: gradient of {name!r}")
        return self.weight * out

    def model(self, vectors: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3)."""
        flat = vectors.size
        if self.gradient is None:
            hessian = _second_differences(self.value, vectors)
        else:
            hessian = _differences(self.slopes, vectors).reshape(flat, flat)
        return self.value(vectors), self.slopes(vectors).ravel(), 0.5 * (hessian + hessian.T)

    def _named(self, vectors: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        points = {name: vectors[k] for k, (name, _, _, moves) in enumerate(self.vectors) if moves}
        directions = {name: vectors[k] for k, (name, _, _, moves) in enumerate(self.vectors) if not moves}
        return points, directions


def _differences(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """Return the derivative by each number of x, by central differences extrapolated once: an error of order h^4."""
    out = []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = STEP
        step = step.reshape(x.shape)
        near = (np.asarray(function(x + step)) - np.asarray(function(x - step))) / (2.0 * STEP)
        wide = (np.asarray(function(x + 2.0 * step)) - np.asarray(function(x - 2.0 * step))) / (4.0 * STEP)
        out.append((4.0 * near - wide) / 3.0)
    return np.array(out).reshape(*x.shape, *np.shape(out[0]))


def _second_differences(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Return the second derivatives (m, m) of a scalar function by each pair of numbers of x."""
    m, h = x.size, 10.0 * STEP
    steps = [np.eye(m)[k].reshape(x.shape) * h for k in range(m)]
    here = function(x)
    out = np.empty((m, m))
    for i in range(m):
        out[i, i] = (function(x + steps[i]) - 2.0 * here + function(x - steps[i])) / (h * h)
        for j in range(i):
            total = function(x + steps[i] + steps[j]) - function(x + steps[i] - steps[j])
            total += function(x - steps[i] - steps[j]) - function(x - steps[i] + steps[j])
            out[i, j] = out[j, i] = total / (4.0 * h * h)
    return out
