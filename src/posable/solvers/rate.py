"""Resolved motion rate: the pose as the solution of a differential equation, by SciPy's integrators."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine.bounds import CONVERGED, EXHAUSTED, STATIONARY
from posable.errors import SolverError
from posable.problem import Problem
from posable.solvers.base import RawResult, SolveOptions, Solver, register, strength_of
from posable.solvers.linear import check_rows
from posable.solvers.scipy_driver import Evaluator, drive

METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")


@register("rate")
@dataclass(frozen=True, kw_only=True)
class Rate(Solver):
    """Resolved motion rate: q' = J* (x_d' + K e), integrated (Tolani, Goswami & Badler 2000, section 2.2, eq. 1).

    The residuals are led to zero on a straight line in unit time (x_d' is constant) and then held there; K draws drift
    back. J* = J' (JJ' + damping^2)^-1. A dof at its limit does not move outward. One iteration is one step of the
    integrator.

    Args:
        method: SciPy's integrator.
        gain: K.
        damping: Of J*; 0 takes the pseudo-inverse, as printed in the paper.
        settle: How long the figure is held after the end of the line, in units of the line's time.
        rtol: Relative tolerance of the integrator.
        atol: Absolute tolerance of the integrator.
    """

    method: str = "RK45"
    gain: float = 10.0
    damping: float = 1e-2
    settle: float = 3.0
    rtol: float = 1e-4
    atol: float = 1e-6

    name: ClassVar[str] = "rate"
    summary: ClassVar[str] = "resolved motion rate, integrated by SciPy"
    iterations: ClassVar[int] = 500

    def __post_init__(self):
        if self.method not in METHODS:
            raise SolverError("rate: method", expected=" or ".join(map(repr, METHODS)), got=repr(self.method))
        if not self.damping >= 0.0:
            raise SolverError("rate: damping", expected="a positive number, or 0 for none", got=repr(self.damping))
        for what in ("gain", "settle", "rtol", "atol"):
            if not getattr(self, what) > 0.0:
                raise SolverError(f"rate: {what}", expected="a positive number", got=repr(getattr(self, what)))

    def check(self, problem: Problem) -> None:
        """Raise SolverError if a goal has no residual rows."""
        check_rows(problem, "rate")

    def run(self, problem: Problem, request: SolveOptions) -> RawResult:
        """Solve the problems one after another."""
        return drive(self, problem, request)

    def solve_one(self, evaluator: Evaluator, start: np.ndarray, most: int) -> int:
        """Integrate from one start; the evaluator keeps the best pose and the trace. Returns the status."""
        import scipy.integrate

        lower, upper = evaluator.lower, evaluator.upper
        first = evaluator.residuals(start)[0]
        end = 1.0 + self.settle
        strength = strength_of(evaluator.problem)

        def velocity(t: float, q: np.ndarray) -> np.ndarray:
            pose = np.clip(q, lower, upper)
            residual, jacobian = evaluator.residuals(pose)
            ahead = max(0.0, 1.0 - t)
            wanted = self.gain * (ahead * first - residual) - (first if t < 1.0 else 0.0)
            free, speed = np.asarray(lower < upper), np.zeros_like(q)
            outward = np.zeros_like(free)
            for _ in range(2):  # dofs that would leave the box are fixed, and the others are solved again
                active = jacobian * (strength * free)
                if self.damping == 0.0:
                    speed = strength * (np.linalg.pinv(active) @ wanted)
                else:
                    speed = strength * _damped_step(active, wanted, self.damping)
                outward = ((q <= lower) & (speed < 0.0)) | ((q >= upper) & (speed > 0.0))
                if not (outward & free).any():
                    break
                free = free & ~outward
            return np.where(outward, 0.0, speed)

        integrator: Any = getattr(scipy.integrate, self.method)
        with np.errstate(all="ignore"):
            stepper = integrator(velocity, 0.0, start.copy(), end, rtol=self.rtol, atol=self.atol, first_step=1e-2)
            for _ in range(most):
                stepper.step()
                if stepper.status == "failed" or not np.isfinite(stepper.y).all():
                    return STATIONARY
                evaluator.accept(np.clip(stepper.y, lower, upper))
                if evaluator.reached() or evaluator.late(time.perf_counter()):
                    return CONVERGED if evaluator.reached() else EXHAUSTED
                if stepper.status == "finished":
                    return STATIONARY
        return EXHAUSTED


def _damped_step(jacobian: np.ndarray, wanted: np.ndarray, damping: float) -> np.ndarray:
    """Return J' (JJ' + damping^2)^-1 wanted (n,)."""
    normal = jacobian @ jacobian.T + damping**2 * np.eye(len(wanted))
    try:
        return jacobian.T @ np.linalg.solve(normal, wanted)
    except np.linalg.LinAlgError:  # weights so large that the damping is lost in rounding
        return jacobian.T @ np.linalg.lstsq(normal, wanted)[0]
