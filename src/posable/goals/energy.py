"""Energies in Python: functions of points and directions of bodies, which the solvers meet as quadratic models.

The engine's springs carry one goal each. What they cannot carry goes this way: a user's own energy (custom.py), and one
weight matrix over residuals of different kinds (stacked.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from posable.goals.goal import Spring
from posable.kernels.fields import MEASURE, POINT, POINT2, WIDTH
from posable.kernels.springs import CROSS_SPRING, MODEL_SPRING

STEP = 1e-4  # [m, 1] of a difference: its square times a curvature of 1 is far above the rounding of energies near 1


class VectorEnergy(ABC):
    """An energy of k vectors of a figure: (body, vector in the body's axes [m, 1], 1 for a point, 0 for a direction).

    `rows` are the data of the springs that measure it, where it has any: they hold its targets, also those of a batch.
    """

    vectors: list[tuple[int, np.ndarray, float]]
    tolerance: float
    priority: int
    measured: list[Spring]
    idle: bool  # its weight is zero: it has an error and decides nothing

    def springs(self) -> list[Spring]:
        """Return those that measure, a MODEL spring for each vector and a CROSS spring for each pair.

        The last two kinds are the model, to be filled at a pose. They have no error and go by the name of the first.
        """
        name = self.measured[0].name if self.measured else ""
        out = []
        for body, local, moves in self.vectors:
            data = np.zeros(WIDTH)
            data[POINT : POINT + 3], data[MEASURE] = local, moves
            out.append(Spring(MODEL_SPRING, body, data, self.tolerance, name))
        k = len(out)
        for i in range(k):
            for j in range(i + 1, k):
                data = np.zeros(WIDTH)
                data[POINT : POINT + 3], data[POINT2 : POINT2 + 3] = out[i].data[:3], out[j].data[:3]
                data[MEASURE], data[MEASURE + 1] = out[i].data[MEASURE], out[j].data[MEASURE]
                out.append(Spring(CROSS_SPRING, out[i].body, data, self.tolerance, name, out[j].body))
        return [*self.measured, *out]

    @abstractmethod
    def value(self, vectors: np.ndarray, rows: np.ndarray) -> float:
        """Return the energy of vectors (k, 3) in the world."""

    @abstractmethod
    def model(self, vectors: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3)."""

    def error(self, vectors: np.ndarray) -> float | None:
        """Return how far it is from its goal; None where springs of their own measure that."""
        return None


def soften(energy: float, slope: np.ndarray, hessian: np.ndarray, scale: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Return s (sqrt(1 + 2E/s) - 1) with its derivatives, from E (not negative) and its own; E where s is zero."""
    if scale <= 0.0:
        return energy, slope, hessian
    root = np.sqrt(1.0 + 2.0 * energy / scale)
    bend = -1.0 / (scale * root**3)
    return 2.0 * energy / (root + 1.0), slope / root, hessian / root + bend * np.outer(slope, slope)


def first_differences(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
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


def second_differences(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
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
