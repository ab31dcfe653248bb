"""A solver: random poses near the best one, as a baseline, in Python with Posable's evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.problem import Problem
from posable.solvers.base import CONVERGED, EXHAUSTED, OUT_OF_TIME, RawResult, SolveOptions, Solver


@dataclass(frozen=True, kw_only=True)
class RandomSearch(Solver):
    """Random search with a shrinking spread.

    Args:
        spread: [rad, m] Of the first samples about the start.
    """

    spread: float = 0.5

    name: ClassVar[str] = "random-search"
    summary: ClassVar[str] = "random poses near the best one: a baseline"
    iterations: ClassVar[int] = 2000

    def run(self, problem: Problem, options: SolveOptions) -> RawResult:
        """Solve the problems of a batch one after another."""
        most = self.iterations if options.max_iterations is None else options.max_iterations
        tolerances = np.array([spring.tolerance for spring in problem.springs])
        poses, codes, errors, counts = options.starts.copy(), [], [], []
        for member in range(len(poses)):
            rng = np.random.default_rng((options.seed % 2**64, member))
            energy, _, _, best = problem.evaluate(poses[member], member=member)
            spread, count = self.spread, 0
            while count < most and not (best <= tolerances).all() and not options.late:
                count += 1
                trial = poses[member] + spread * rng.normal(size=poses.shape[1])
                trial = np.clip(trial, options.lower, options.upper)
                value, _, _, error = problem.evaluate(trial, member=member)
                if value < energy:
                    poses[member], energy, best = trial, value, error
                else:
                    spread *= 0.99
                if spread < 1e-9:
                    spread = self.spread
            missed = OUT_OF_TIME if options.late else EXHAUSTED
            codes.append(CONVERGED if (best <= tolerances).all() else missed)
            errors.append(best)
            counts.append(count)
        return RawResult(poses, np.array(codes), np.array(errors), np.array(counts), np.array(counts) + 1)
