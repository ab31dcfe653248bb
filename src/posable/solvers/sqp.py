"""Sequential quadratic programming by SciPy, in place of the optimiser in Tolani, Goswami & Badler (2000)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.engine.bounds import CONVERGED, EXHAUSTED, STATIONARY
from posable.errors import SolverError
from posable.problem import Problem
from posable.solvers.base import RawResult, SolveOptions, Solver, register, strength_of
from posable.solvers.scipy_driver import Evaluator, drive


class _Stop(Exception):
    """Ends SciPy's loop from within."""


@register("sqp")
@dataclass(frozen=True, kw_only=True)
class Sqp(Solver):
    """Sequential quadratic programming: minimise the energy within the limits with SciPy's SLSQP.

    Tolani, Goswami & Badler (2000, section 3.5) compare their closed form with CFSQP on the squared distance to the
    goal; this is the same problem with a solver that is freely available.

    Args:
        tolerance: SLSQP's own, on the energy.
    """

    tolerance: float = 1e-16

    name: ClassVar[str] = "sqp"
    summary: ClassVar[str] = "sequential quadratic programming (SciPy's SLSQP)"
    iterations: ClassVar[int] = 500

    def __post_init__(self):
        if not self.tolerance > 0.0:
            raise SolverError("sqp: tolerance", expected="a positive number", got=repr(self.tolerance))

    def run(self, problem: Problem, request: SolveOptions) -> RawResult:
        """Solve the problems one after another."""
        return drive(self, problem, request)

    def solve_one(self, evaluator: Evaluator, start: np.ndarray, most: int) -> int:
        """Minimise from one start; the evaluator keeps the best pose and the trace. Returns the status."""
        from scipy.optimize import minimize

        lower, upper = evaluator.lower, evaluator.upper
        free = lower < upper
        pose = start.copy()
        if not free.any():
            return STATIONARY
        strength = strength_of(evaluator.problem)[free]  # SLSQP moves the dofs in units of it
        scale = max(evaluator.last_energy, 1e-12)  # SLSQP's tolerances are absolute

        def whole(x: np.ndarray) -> np.ndarray:
            pose[free] = np.clip(strength * x, lower[free], upper[free])
            return pose

        def energy(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = evaluator.evaluate(whole(x))
            return value / scale, gradient[free] * strength / scale

        count = 0

        def after(x: np.ndarray) -> None:
            nonlocal count
            count += 1
            evaluator.accept(whole(x))
            if count >= most or evaluator.reached() or evaluator.late(time.perf_counter()):
                raise _Stop

        try:
            with np.errstate(all="ignore"):
                found = minimize(
                    energy, start[free] / strength, method="SLSQP", jac=True, callback=after,
                    bounds=list(zip(lower[free] / strength, upper[free] / strength, strict=True)),
                    options={"maxiter": most, "ftol": self.tolerance},
                )  # fmt: skip
        except _Stop:
            return CONVERGED if evaluator.reached() else EXHAUSTED
        if np.isfinite(found.x).all() and count < most:
            evaluator.accept(whole(found.x).copy())
        return CONVERGED if evaluator.reached() else STATIONARY
