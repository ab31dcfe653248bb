"""Random starts until a problem is solved, or until it is unlikely that another start would find anything new.

Of N starts that ended in w different local minima, the expected share of starts that would lead to one not yet seen is
w (w + 1) / (N (N - 1)) (Boender & Rinnooy Kan 1987). The search ends where that is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posable.engine.bounds import EXHAUSTED
from posable.engine.joints import SLIDE
from posable.engine.layout import BODY, KIND, PARENT
from posable.problem import Problem
from posable.solvers.base import OUT_OF_TIME, RawResult, SolveOptions

CONFIDENCE = 0.95  # the search ends if the expected unseen share is below 1 - CONFIDENCE
FIRST, MOST = 16, 1024  # starts of the first round, and in total
SAME = 1e-4  # relative energy difference within which two minima count as one


@dataclass(frozen=True)
class SearchReport:
    """Statistics of the random starts of one problem.

    Attributes:
        starts: How many were tried.
        minima: How many different local minima they, and the first solve, ended in.
        unseen: The expected share of further starts that would lead to a minimum not yet seen.
        reached: Whether one of them reached.
    """

    starts: int
    minima: int
    unseen: float
    reached: bool = False

    def __str__(self) -> str:
        what = "1 local minimum" if self.minima == 1 else f"{self.minima} local minima"
        sure = "" if self.unseen <= 1.0 - CONFIDENCE else "; stopped before it was sure"
        return (
            f"{self.starts} random starts ended in {what}, of which this is the best; another start would find a new "
            f"one with a probability of {100.0 * min(self.unseen, 1.0):.2g}%{sure}"
        )


def keep_searching(
    problem: Problem,
    raw: RawResult,
    options: SolveOptions,
    member: int,
    run: Callable[[np.ndarray], tuple[Problem, RawResult]],
    judge: Callable[[Problem, RawResult], np.ndarray],
) -> SearchReport:
    """Try random starts of one problem of a batch, and replace its solution by the best one, in place.

    Args:
        problem: The problem, its choices made.
        raw: The solutions of the batch.
        options: As solved with.
        member: The number of the problem.
        run: Solves that problem from starts (m, n).
        judge: Returns which solutions are good (m,).

    Returns:
        The statistics of the search.
    """
    rng = np.random.default_rng([options.seed & 0xFFFFFFFF, member])
    start = options.starts[member]
    best = problem.evaluate(raw.poses[member], member=member)[0]
    energies, tried, size = [best], 0, FIRST
    while True:
        starts = np.array([random_pose(problem, options, start, rng) for _ in range(size)])
        chosen, answers = run(starts)
        good = judge(chosen, answers)
        tried += size
        values = [chosen.evaluate(pose, member=i if len(chosen.constants) > 1 else 0)[0]
                  for i, pose in enumerate(answers.poses)]  # fmt: skip
        if good.any():
            among = np.flatnonzero(good)
            take = int(min(among, key=lambda i: values[i]) if problem.soft else among[0])
        else:
            take = int(np.argmin(values))
        raw.iterations[member] += answers.iterations.sum()
        raw.evaluations[member] += answers.evaluations.sum()
        if good.any() or values[take] < best * (1.0 - SAME):
            best, raw.good = values[take], None  # the verdict was for another pose
            raw.poses[member], raw.codes[member] = answers.poses[take], answers.codes[take]
            raw.errors[member] = answers.errors[take]
            if len(chosen.constants) > 1 and len(problem.constants) > 1:  # another member of an AnyOf was taken
                problem.constants[member], problem.targets[member] = chosen.constants[take], chosen.targets[take]
        ended = np.isin(answers.codes, (EXHAUSTED, OUT_OF_TIME), invert=True)
        energies += [value for value, end in zip(values, ended, strict=True) if end]
        minima, n = count_minima(np.array(energies)), len(energies)
        unseen = minima * (minima + 1) / (n * (n - 1)) if n > 1 else 1.0
        if good.any() or unseen <= 1.0 - CONFIDENCE or tried + 2 * size > MOST or options.late:
            return SearchReport(tried, minima, float(unseen), bool(good.any()))
        size *= 2


def count_minima(energies: np.ndarray) -> int:
    """Return the number of distinct energies (m,)."""
    ordered = np.sort(energies)
    gaps = np.diff(ordered) > SAME * np.maximum(ordered[1:], 1e-12)
    return 1 + int(gaps.sum())


def random_pose(problem: Problem, options: SolveOptions, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random pose (n,) inside the box; a root's position and slides without limits stay."""
    figure, lower, upper = problem.skeleton.figure, options.lower, options.upper
    slides = figure.dof[:, KIND] == SLIDE
    bounded = np.isfinite(upper - lower)
    rooted = slides & (figure.body[figure.dof[:, BODY], PARENT] < 0) & (start.size > 6)
    low = np.where(bounded, lower, np.maximum(start - np.pi, lower))
    high = np.where(bounded, upper, np.minimum(start + np.pi, upper))
    drawn = rng.uniform(low, np.maximum(low, high))
    return np.where(rooted | (slides & ~bounded), start, drawn)
