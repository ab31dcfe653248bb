"""Solvers that SciPy drives: resolved motion rate by its integrators, and sequential quadratic programming (SLSQP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine.bounds import CONVERGED, EXHAUSTED, STATIONARY, TRACE_WIDTH
from posable.engine.jit import solving_time
from posable.problem import Problem
from posable.solvers.base import OUT_OF_TIME, RawResult, SolveOptions, Solver, named_trace, register, strength_of
from posable.solvers.linear import check_rows
from posable.solvers.result import unsolved

# --- Evaluation through the engine, the best pose, the time limit and the trace ---


class OutOfTime(Exception):
    """Ends SciPy's loop from within."""


class Evaluator:
    """One problem of a batch: its energy, gradient and residuals, the best pose so far, and the trace."""

    def __init__(self, problem: Problem, options: SolveOptions, member: int, begin: float):
        n = problem.skeleton.size
        self.problem, self.lower, self.upper = problem, options.lower, options.upper
        self.springs, self.errors = problem.packed(member), np.empty(len(problem.springs))
        self.evaluations, self.iterations = 0, 0
        self.begin, self.options = begin, options
        self.pose, self.energy = np.empty(n), np.inf
        self.last, self.last_energy, self.last_gradient = np.empty(n), np.inf, np.empty(n)
        self.good = False  # whether the last iterate meets its goals, and nothing is soft
        self.rows: list[np.ndarray] = []
        self.clock: list[float] = []
        self._roots: np.ndarray | None = None

    def evaluate(self, pose: np.ndarray) -> tuple[float, np.ndarray]:
        """Return energy and gradient (n,) at a pose, and store the errors."""
        self.evaluations += 1
        theta = np.ascontiguousarray(pose, dtype=float)
        energy, gradient, _, self.errors = self.problem._evaluate(theta, self.springs, False)
        return float(energy), gradient

    def residuals(self, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the stacked residuals (m,) and their Jacobian (m, n) at a pose."""
        self.evaluations += 1
        if self._roots is None:
            self._roots = self.problem.roots(True)
        return self.problem._residuals(np.ascontiguousarray(pose, dtype=float), self.springs, self._roots, True)

    def accept(self, pose: np.ndarray, *, first: bool = False) -> None:
        """Take a pose, in the box, as the next iterate: keep it if it is the best, and write its row of the trace."""
        energy, gradient = self.evaluate(pose)
        self.good = not self.problem.soft and bool((self.errors <= self.problem.tolerances).all())
        if energy < self.energy or self.good:
            self.pose, self.energy = pose.copy(), energy
        if not first:
            self.iterations += 1
            step = pose - self.last
            held = ((pose <= self.lower) & (gradient > 0.0)) | ((pose >= self.upper) & (gradient < 0.0))
            free = np.abs(gradient[~held]).max(initial=0.0)
            slope = float(self.last_gradient @ step)
            length = np.abs(step).max(initial=0.0)
            row = (energy, free, length, 0.0, held.sum(), self.evaluations, slope, self.last_energy)
            self.rows.append(np.array(row, dtype=float))
            self.clock.append(solving_time() - self.begin)
        self.last, self.last_energy, self.last_gradient = pose.copy(), energy, gradient

    def check_time(self) -> None:
        """Raise OutOfTime if the time is up."""
        if self.options.late:
            raise OutOfTime


class ScipySolver(Solver):
    """A solver whose loop is SciPy's: `solve_one` runs it once, from one start."""

    def solve_one(self, evaluator: Evaluator, start: np.ndarray, most: int) -> int:
        """Run the loop from one start; the evaluator keeps the best pose and the trace. Returns the status."""
        raise NotImplementedError

    def run(self, problem: Problem, options: SolveOptions) -> RawResult:
        """Solve the problems of a batch one after another, with restarts where `solve_one` is stuck."""
        t, n = options.starts.shape
        codes, errors = np.zeros(t, dtype=np.int64), np.empty((t, len(problem.springs)))
        poses, iterations, evaluations = np.empty((t, n)), np.zeros(t), np.zeros(t)
        outcome = RawResult(poses, codes, errors, iterations, evaluations)
        begin = solving_time()
        most = options.max_iterations
        if most is None:
            most = self.iterations * (1 + options.restarts)
        for k in range(t):
            if k and options.late:
                rest = unsolved(problem, options, k)
                poses[k:], codes[k:], errors[k:] = rest.poses, rest.codes, rest.errors
                outcome.traces += rest.traces
                break
            evaluator = Evaluator(problem, options, k, begin)
            evaluator.accept(options.starts[k], first=True)
            try:
                code = self._solve_with_restarts(evaluator, options, most, k)
            except OutOfTime:
                code = CONVERGED if evaluator.good else OUT_OF_TIME
            poses[k] = evaluator.pose
            evaluator.evaluate(evaluator.pose)
            codes[k], errors[k] = code, evaluator.errors
            iterations[k], evaluations[k] = evaluator.iterations, evaluator.evaluations
            if options.record:
                rows = np.array(evaluator.rows).reshape(-1, TRACE_WIDTH)
                outcome.traces.append(named_trace(rows, np.array(evaluator.clock)))
        return outcome

    def _solve_with_restarts(self, evaluator: Evaluator, options: SolveOptions, most: int, member: int) -> int:
        """Return the status of one problem, solved from its start and from random poses while restarts are left."""
        start = options.starts[member]
        if evaluator.good:
            return CONVERGED
        code = EXHAUSTED
        rng = np.random.default_rng((options.seed % 2**64, 0))
        low = np.where(np.isfinite(options.lower), options.lower, start - np.pi)
        high = np.where(np.isfinite(options.upper), options.upper, start + np.pi)
        for attempt in range(options.restarts + 1):
            left = most - evaluator.iterations
            if left <= 0 or start.size == 0:
                return code if start.size else CONVERGED
            evaluator.check_time()
            code = self.solve_one(evaluator, start, left)
            if code == CONVERGED:
                return code
            start = np.clip(rng.uniform(low, np.maximum(low, high)), options.lower, options.upper)
            if attempt < options.restarts:
                evaluator.accept(start, first=True)
        return code


# --- The pose as the solution of a differential equation ---

METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")


@register("rate")
@dataclass(frozen=True, kw_only=True)
class Rate(ScipySolver):
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
        self.require("method", self.method in METHODS, " or ".join(map(repr, METHODS)))
        self.require("damping", self.damping >= 0.0, "a positive number, or 0 for none")
        for what in ("gain", "settle", "rtol", "atol"):
            self.require(what, getattr(self, what) > 0.0, "a positive number")

    def check(self, problem: Problem) -> None:
        """Raise SolverError if a goal has no residual rows."""
        check_rows(problem, "rate")

    def solve_one(self, evaluator: Evaluator, start: np.ndarray, most: int) -> int:
        """Integrate from one start; the evaluator keeps the best pose and the trace. Returns the status."""
        import scipy.integrate

        lower, upper = evaluator.lower, evaluator.upper
        first = evaluator.residuals(start)[0]
        end = 1.0 + self.settle
        strength = strength_of(evaluator.problem)

        def velocity(t: float, q: np.ndarray) -> np.ndarray:
            evaluator.check_time()
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
                if evaluator.good:
                    return CONVERGED
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


class _Stop(Exception):
    """Ends SLSQP's loop from within: solved, or no iterations are left."""


# --- Sequential quadratic programming, in place of the optimiser in Tolani, Goswami & Badler (2000) ---


@register("sqp")
@dataclass(frozen=True, kw_only=True)
class Sqp(ScipySolver):
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
        self.require("tolerance", self.tolerance > 0.0, "a positive number")

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
            evaluator.check_time()
            value, gradient = evaluator.evaluate(whole(x))
            return value / scale, gradient[free] * strength / scale

        count = 0

        def after(x: np.ndarray) -> None:
            nonlocal count
            count += 1
            evaluator.accept(whole(x))
            if count >= most or evaluator.good:
                raise _Stop
            evaluator.check_time()

        try:
            with np.errstate(all="ignore"):
                found = minimize(
                    energy, start[free] / strength, method="SLSQP", jac=True, callback=after,
                    bounds=list(zip(lower[free] / strength, upper[free] / strength, strict=True)),
                    options={"maxiter": most, "ftol": self.tolerance},
                )  # fmt: skip
        except _Stop:
            return CONVERGED if evaluator.good else EXHAUSTED
        if np.isfinite(found.x).all() and count < most:
            evaluator.accept(whole(found.x).copy())
        return CONVERGED if evaluator.good else STATIONARY
