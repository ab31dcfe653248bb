"""Shared by solvers that SciPy drives: evaluation through the engine, the best pose, the time limit and the trace."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from posable.engine.assemble import evaluate
from posable.engine.bounds import CONVERGED, EXHAUSTED, TRACE_WIDTH
from posable.engine.residuals import residuals_and_jacobian
from posable.problem import Problem
from posable.solvers.base import OUT_OF_TIME, RawResult, SolveOptions, named_trace
from posable.solvers.linear import row_count


class Evaluator:
    """One problem of a batch: its energy, gradient and residuals, the best pose so far, and the trace."""

    def __init__(self, problem: Problem, request: SolveOptions, member: int, begin: float):
        n, g = problem.skeleton.size, len(problem.springs)
        self.problem, self.lower, self.upper = problem, request.lower, request.upper
        self.springs = problem.packed(member)
        self.work = np.empty(problem.work_size)
        self.gradient, self.hessian, self.errors = np.empty(n), np.empty((n, n)), np.empty(g)
        self.evaluations, self.iterations = 0, 0
        self.begin, self.deadline = begin, request.deadline
        if self.deadline is None and request.time_limit is not None:
            self.deadline = begin + request.time_limit
        self.pose, self.energy = np.empty(n), np.inf
        self.last, self.last_energy, self.last_gradient = np.empty(n), np.inf, np.empty(n)
        self.good = False
        self.rows: list[np.ndarray] = []
        self.clock: list[float] = []
        self._roots: np.ndarray | None = None
        self._residual = self._jacobian = np.empty(0)

    def evaluate(self, pose: np.ndarray) -> tuple[float, np.ndarray]:
        """Return energy and gradient (n,) at a pose, and store the errors."""
        self.evaluations += 1
        theta = np.ascontiguousarray(pose, dtype=float)
        problem = self.problem
        energy = evaluate(
            problem.figure, problem.order, self.springs, theta, self.work, problem.depth, 0.0,
            self.gradient, self.hessian, self.errors,
        )  # fmt: skip
        return float(energy), self.gradient.copy()

    def residuals(self, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the stacked residuals (m,) and their Jacobian (m, n) at a pose."""
        problem = self.problem
        if self._roots is None:
            m = row_count(problem)
            self._roots = problem.roots(True)
            self._residual, self._jacobian = np.empty(m), np.empty((m, problem.skeleton.size))
        theta = np.ascontiguousarray(pose, dtype=float)
        residuals_and_jacobian(
            problem.figure, self.springs, self._roots, theta, self.work, problem.depth, 1,
            self._residual, self._jacobian,
        )  # fmt: skip
        self.evaluations += 1
        return self._residual.copy(), self._jacobian.copy()

    def accept(self, pose: np.ndarray, *, first: bool = False) -> None:
        """Take a pose, in the box, as the next iterate: keep it if it is the best, and write its row of the trace."""
        energy, gradient = self.evaluate(pose)
        self.good = self.good_here()
        if energy < self.energy or self.good:
            self.pose, self.energy = pose.copy(), energy
        if not first:
            self.iterations += 1
            step = pose - self.last
            row = np.zeros(TRACE_WIDTH)
            held = ((pose <= self.lower) & (gradient > 0.0)) | ((pose >= self.upper) & (gradient < 0.0))
            free = np.abs(gradient[~held]).max(initial=0.0)
            slope = float(self.last_gradient @ step)
            row[:] = (
                energy,
                free,
                np.abs(step).max(initial=0.0),
                0.0,
                held.sum(),
                self.evaluations,
                slope,
                self.last_energy,
            )
            self.rows.append(row)
            self.clock.append(time.perf_counter() - self.begin)
        self.last, self.last_energy, self.last_gradient = pose.copy(), energy, gradient

    def good_here(self) -> bool:
        """Return whether the goals are within their tolerances at the last evaluated pose, and nothing is soft."""
        return not self.problem.soft and bool((self.errors <= self.problem.tolerances).all())

    def reached(self) -> bool:
        """Return whether the last iterate meets its goals."""
        return self.good

    def late(self, now: float) -> bool:
        """Return whether the time is up."""
        return self.deadline is not None and now > self.deadline


def drive(solver: Any, problem: Problem, request: SolveOptions) -> RawResult:
    """Solve the problems of a batch one after another with solver.solve_one, with restarts if it is stuck."""
    t, n = request.starts.shape
    codes, errors = np.zeros(t, dtype=np.int64), np.empty((t, len(problem.springs)))
    poses, iterations, evaluations = np.empty((t, n)), np.zeros(t), np.zeros(t)
    outcome = RawResult(poses, codes, errors, iterations, evaluations)
    begin = time.perf_counter()
    most = request.max_iterations
    if most is None:
        most = solver.iterations * (1 + request.restarts)
    for k in range(t):
        evaluator = Evaluator(problem, request, k, begin)
        evaluator.accept(request.starts[k], first=True)
        code = solve_with_restarts(solver, evaluator, request, most, k)
        if code == EXHAUSTED and evaluator.late(time.perf_counter()):
            code = OUT_OF_TIME
        poses[k] = evaluator.pose
        evaluator.evaluate(evaluator.pose)
        codes[k], errors[k] = code, evaluator.errors
        iterations[k], evaluations[k] = evaluator.iterations, evaluator.evaluations
        if request.record:
            rows = np.array(evaluator.rows).reshape(-1, TRACE_WIDTH)
            outcome.traces.append(named_trace(rows, np.array(evaluator.clock)))
    return outcome


def solve_with_restarts(solver: Any, evaluator: Evaluator, request: SolveOptions, most: int, member: int) -> int:
    """Return the status of one problem, solved from its start and from random poses while restarts are left."""
    start = request.starts[member]
    if evaluator.reached():
        return CONVERGED
    code = EXHAUSTED
    rng = np.random.default_rng((request.seed % 2**64, 0))
    low = np.where(np.isfinite(request.lower), request.lower, start - np.pi)
    high = np.where(np.isfinite(request.upper), request.upper, start + np.pi)
    for attempt in range(request.restarts + 1):
        left = most - evaluator.iterations
        if left <= 0 or start.size == 0 or evaluator.late(time.perf_counter()):
            return code if start.size else CONVERGED
        code = solver.solve_one(evaluator, start, left)
        if code == CONVERGED:
            return code
        start = np.clip(rng.uniform(low, np.maximum(low, high)), request.lower, request.upper)
        if attempt < request.restarts:
            evaluator.accept(start, first=True)
    return code
