"""Solutions that stay on their branch: `Continuous` for a session, `follow_frames` for the frames of a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine import boxed_newton, control, speed_limits
from posable.engine.bounds import EXHAUSTED, STATIONARY
from posable.engine.layout import SOLIDS
from posable.errors import SolverError
from posable.problem import Problem
from posable.solvers.base import RawResult, SolveOptions, Solver

MOST = 60  # largest number of Newton steps per frame


def follow_frames(
    problem: Problem,
    start: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    max_step: Any = np.inf,
    max_iterations: int | None = None,
    frames: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Follow the targets of a problem frame by frame, each from the last pose, without restarts.

    Each frame is solved until a Newton step moves nothing, so that the poses are continuous in the targets.

    Args:
        problem: goals that are springs, with targets for T frames.
        start: (n,) [rad, m] the pose before the first frame, inside the box.
        lower: (n,) the box.
        upper: (n,) the box.
        max_step: [rad, m] how far a degree of freedom may move in one frame, a number or (n,).
        max_iterations: Newton steps in a frame.
        frames: T, where the targets are the same for all frames.

    Returns:
        poses (T, n), errors (T, g) [m, rad], iterations (T,), and held (n,): the degrees of freedom that max_step holds
        back in the last frame.
    """
    n, g = problem.skeleton.size, len(problem.springs)
    total = frames or max(problem.constants.shape[0], problem.targets.shape[0])
    state = np.zeros((speed_limits.ROWS, n))
    state[speed_limits.LOWER], state[speed_limits.UPPER] = lower, upper
    state[speed_limits.SPEED] = state[speed_limits.ACCEL] = state[speed_limits.JERK] = np.inf
    state[speed_limits.WANTED] = state[speed_limits.ORIGIN] = start
    params = np.zeros(boxed_newton.PARAMS)
    params[boxed_newton.DT], params[boxed_newton.COUPLED] = 1.0, problem.coupled
    params[boxed_newton.DAMPING], params[boxed_newton.STILL] = boxed_newton.FIRST_DAMPING, boxed_newton.SETTLED
    params[boxed_newton.MOST] = MOST if max_iterations is None else max_iterations
    reach = np.ascontiguousarray(np.broadcast_to(np.asarray(max_step, dtype=float), (n,)))
    poses, errors, iterations = np.empty((total, n)), np.empty((total, g)), np.empty(total)
    # goals change more often than solids come and go: one program serves all problems without solids
    follow = control.follow_targets if problem.has_solids else control.follow_targets.without(SOLIDS)
    follow(
        problem.figure, problem.order, problem.kind, problem.constants, problem.targets, problem.pull,
        problem.home, state, params, reach, np.empty(problem.work_size), problem.depth, poses, errors, iterations,
    )  # fmt: skip
    return poses, errors, iterations, state[speed_limits.ACTIVE] != 0.0


@dataclass(frozen=True)
class Continuous(Solver):
    """Newton's method from the start alone: no restarts, no perturbations, and at most `max_step` away from it.

    The solution is refined until a Newton step changes nothing: it depends continuously on the targets, and a slow
    target does not move it in steps. It ends as OUT_OF_ITERATIONS where `max_step` keeps it from its goals.

    Args:
        max_step: [rad, m] how far a degree of freedom may move in one solve, a number or (n,).
    """

    max_step: Any = np.inf

    name: ClassVar[str] = "continuous"
    summary: ClassVar[str] = "Newton's method on one branch, at most max_step from the start"
    iterations: ClassVar[int] = MOST

    def __post_init__(self):
        try:
            good = bool((np.asarray(self.max_step, dtype=float) > 0.0).all())
        except (TypeError, ValueError, OverflowError):
            good = False
        if not good:
            raise SolverError("max_step", expected="a positive number, or one for each dof", got=repr(self.max_step))

    def result_name(self, problem: Problem, options: SolveOptions, outcome: RawResult) -> str:
        """Return the name of the method, and the degrees of freedom that max_step limits."""
        moved = np.abs(outcome.poses[0] - options.starts[0])
        held = np.flatnonzero(moved >= np.broadcast_to(self.max_step, moved.shape) * (1.0 - 1e-9))
        if not held.size:
            return self.name
        return f"{self.name}, max_step holds back {', '.join(problem.skeleton.dof_names[i] for i in held)}"

    def run(self, problem: Problem, options: SolveOptions) -> RawResult:
        """Solve every problem of the batch from its own start."""
        t = options.starts.shape[0]
        poses = np.empty_like(options.starts)
        errors, iterations = np.empty((t, len(problem.springs))), np.empty(t)
        codes = np.full(t, STATIONARY, dtype=np.int64)
        most = MOST if options.max_iterations is None else options.max_iterations
        for k in range(t):
            one = problem if t == 1 else problem.part(k, k + 1)
            pose, error, count, held = follow_frames(
                one, options.starts[k], options.lower, options.upper, max_step=self.max_step,
                max_iterations=options.max_iterations, frames=1,
            )  # fmt: skip
            poses[k], errors[k], iterations[k] = pose[0], error[0], count[0]
            if held.any() or count[0] >= most:
                codes[k] = EXHAUSTED
        return RawResult(poses, codes, errors, iterations, iterations.copy())
