"""Goals that move: `follow` solves them frame by frame, each from the last, and says of every frame how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posable._solve import as_solver, box_of, starts_of
from posable.errors import GoalError
from posable.goals.base import Goal
from posable.mocap import frame_solver
from posable.mocap.frame_solver import Pace, Walker
from posable.mocap.smooth import smooth_goals
from posable.mocap.unwrap import within_turns
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import Request
from posable.solvers.hierarchy import answer
from posable.solvers.result import Result

FOLLOW = Pace(most=60, enough=1e-16, gain=1e-9, damping=1e-3)
RESTARTS = 8  # of a first frame that is not reached


@dataclass(frozen=True, eq=False)
class Followed(Motion):
    """A motion that follows goals: ok (T,), errors {goal: (T,) [m, rad]}, iterations (T,)."""

    ok: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    iterations: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    def __str__(self) -> str:
        worst = {name: float(values.max(initial=0.0)) for name, values in self.errors.items()}
        missed = ", ".join(f"{name} by up to {value:.3g}" for name, value in worst.items() if np.isfinite(value))
        return f"{int(self.ok.sum())} of {len(self)} frames reached" + ("" if self.ok.all() else f"; {missed}")


def follow(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    *,
    fps: float,
    start: Any = None,
    smooth: float = 0.0,
    solver: str = "newton",
    limits: bool = True,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> Followed:
    """Return the motion that follows goals whose targets change over time: targets (T, 3), or one (3,) for all frames.

    Each frame starts from the last; start: the first pose's start. A frame that misses is solved once more with the
    solver's full means. smooth [s]: smooth all of it at last. motion.ok, .errors and .iterations report on every frame.
    Straight lines (seed 002 figure 5.20): `np.linspace(a, b, 21)` as a target.
    """
    problem = Problem(skeleton, goals)
    if len(problem.batch_shape) != 1:
        raise GoalError(
            "follow",
            expected="goals with targets for T frames, such as (T, 3)",
            got=f"leading axes {problem.batch_shape}",
        )
    total = problem.batch_shape[0]
    first = _frame(skeleton, problem, 0, start, solver, limits, restarts, seed) if total else None
    poses = np.empty((total, skeleton.size))
    if first is not None and problem.plain and solver == "newton":
        iterations = _walk(problem, poses, first.pose, limits)
    else:
        iterations = _step(skeleton, problem, poses, first, solver, limits, seed)
    if smooth > 0.0 and total > 2:
        poses = smooth_goals(problem, poses, fps, smooth, limits=limits)
    poses = within_turns(skeleton, poses) if limits else poses
    errors = {name: np.atleast_1d(values) for name, values in problem.errors(poses).items()} if total else {}
    good = np.ones(total, dtype=bool)
    for name, springs in problem.error_groups.items():
        good &= errors[name] <= problem.tolerances[springs].max()
    if limits:
        good &= ((poses >= skeleton.lower - 1e-9) & (poses <= skeleton.upper + 1e-9)).all(axis=1)
    if not smooth > 0.0:
        good, errors = _retry(skeleton, problem, poses, good, errors, solver, limits, seed)
    return Followed(skeleton, poses, fps, "", good, errors, iterations)


def _frame(skeleton, problem, frame, start, solver, limits, restarts, seed) -> Result:
    """Solve one frame with all means: the same problem, with the targets of that frame alone."""
    one = problem.part(frame, frame + 1)
    one.batch_shape = ()
    method = as_solver(solver)
    starts, _ = starts_of(one, start)
    lower, upper = box_of(skeleton, starts, limits)
    request = Request(np.clip(starts, lower, upper), lower, upper, restarts=restarts, seed=seed)
    if one.plain:
        return Result(one, method.run(one, request), request, method.name, 0.0)
    one, outcome, _ = answer(one, method, request)
    return Result(one, outcome, request, method.name, 0.0)


def _walk(problem: Problem, poses: np.ndarray, first: np.ndarray, limits: bool) -> np.ndarray:
    walker = Walker(problem, limits=limits)
    _, notes = walker(FOLLOW, poses, last=first)
    return notes[:, frame_solver.ITERATIONS].astype(int)


def _step(skeleton, problem, poses, first, solver, limits, seed) -> np.ndarray:
    """Follow goals that the compiled walk does not know (choices, levels, energies in Python) with `solve`."""
    iterations = np.zeros(len(poses), dtype=int)
    last = first
    for t in range(len(poses)):
        result = first if t == 0 else _frame(skeleton, problem, t, last.pose, solver, limits, 0, seed)
        poses[t], iterations[t], last = result.pose, result.iterations, result
    return iterations


def _retry(skeleton, problem, poses, good, errors, solver, limits, seed):
    """Solve missed frames again from their neighbours; keep what is better."""
    for t in np.flatnonzero(~good):
        result = _frame(skeleton, problem, int(t), poses[max(t - 1, 0)], solver, limits, 0, seed)
        if result.ok:
            poses[t], good[t] = result.pose, True
            for name in errors:
                errors[name][t] = result.errors.get(name, errors[name][t])
    return good, errors
