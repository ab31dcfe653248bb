"""The front door: `solve` for one answer or a batch, `Session` for many answers to a moving question."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from posable.errors import GoalError, SolverError, unknown
from posable.goals.base import Goal
from posable.goals.device_array import checked_remote
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS, Outcome, Request, Solver
from posable.solvers.continuous import Continuous
from posable.solvers.hierarchy import answer, stand_in
from posable.solvers.natural import prior_weight, settle, settle_held, wants_natural
from posable.solvers.result import Result

DEVICES = ("cpu", "cuda", "auto")
PRECISIONS = ("single", "double")


def solve(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    *,
    start: Any = None,
    solver: str | Solver = "newton",
    limits: bool = True,
    max_iterations: int | None = None,
    restarts: int = 0,
    seed: int = 0,
    time_limit: float | None = None,
    record: bool = False,
    natural: bool | None = None,
    nearest: bool = False,
    device: str = "cpu",
    precision: str = "single",
    threads: int | None = None,
) -> Result:
    """Return the pose that does what the goals ask, or comes nearest; `result.ok` says which.

    start: a pose (..., n), projected into the limits; the skeleton's rest by default. solver: a name from
    `posable.solvers.names()` or an object with options. limits: whether joint limits hold. restarts: fresh random
    starts, drawn from `seed`, where it is stuck. time_limit [s]. record: keep a trace of every iteration.
    natural: of the poses that reach the goals, return the one nearest to the start, in a comfort metric; goals never
    pay for it. None: for figures with a person's body plan, solved by newton on the CPU, without a `Posture`.
    nearest: look for all solutions (`posable.solutions`) and return the one nearest to the start; for one pose.
    Targets or starts with leading axes are a batch, solved on every core (or `threads` of them). device: "cpu"; "cuda",
    an NVIDIA GPU, which also takes targets and starts that are there already; "auto": whichever is quicker for a batch
    of this size. precision: "single" or "double", of the steps on a GPU; answers are judged in double either way.
    """
    if device not in DEVICES:
        raise SolverError("device", expected=" or ".join(map(repr, DEVICES)), got=repr(device))
    if precision not in PRECISIONS:
        raise SolverError("precision", expected=" or ".join(map(repr, PRECISIONS)), got=repr(precision))
    begin = time.perf_counter()
    if nearest:
        from posable._solutions import solutions

        goals = (goals,) if isinstance(goals, Goal) else tuple(goals)
        found = solutions(skeleton, goals, start=start, limits=limits, seed=seed)
        start = np.asarray(found[0]) if len(found) else start
    problem = Problem(skeleton, goals, on_gpu=device != "cpu")
    method = as_solver(solver)
    if 0 not in problem.batch_shape:
        method.check(problem if problem.plain else stand_in(problem))
    start_there = None if device == "cpu" else checked_remote(start, (skeleton.size,), "start")
    starts, shape = starts_of(problem, None if start_there is not None else start)
    lower, upper = box_of(skeleton, starts, limits)
    request = Request(
        np.minimum(np.maximum(starts, lower), upper), lower, upper,
        count(max_iterations, "max_iterations"), count(restarts, "restarts") or 0, whole(seed, "seed"),
        seconds(time_limit), bool(record), threads,
    )  # fmt: skip
    if not len(starts):  # a batch of nothing: no solver need know of it
        outcome = Outcome(starts, np.zeros(0, np.int64), np.zeros((0, len(problem.springs))), np.zeros(0), np.zeros(0))
        return Result(problem, outcome, request, method.name, time.perf_counter() - begin, shape)
    if device != "cpu":
        if natural or prior_weight(problem):
            raise SolverError("natural", expected="device='cpu'", got=repr(device))
        from posable.gpu.batch import solve_on

        there = solve_on(problem, method, request, shape, device, precision, start_there)
        if there is not None:
            return Result(*there[:2], request, method.name, time.perf_counter() - begin, there[2])
    near = request.starts if device == "cpu" and wants_natural(natural, problem, method) else None
    if problem.plain:
        outcome = method.run(problem, request) if near is None else settle(problem, method, request, near)
        return Result(problem, outcome, request, method.name, time.perf_counter() - begin, shape)
    problem, outcome, chosen = answer(problem, method, request)
    if near is not None:
        settle_held(problem, outcome, request, near)
    chosen = {label: names.reshape(shape) if shape else names[0] for label, names in chosen.items()}
    return Result(problem, outcome, request, method.name, time.perf_counter() - begin, shape, chosen)


def as_solver(solver: str | Solver) -> Solver:
    """Return a solver given by name, as a class or as an object; one with limbs lands them in closed form."""
    if isinstance(solver, str):
        return SOLVERS.get(solver)()
    if isinstance(solver, type) and issubclass(solver, Solver):
        return solver()
    if isinstance(solver, Solver):
        if getattr(solver, "limbs", False):
            from posable.limb.solver import LandingNewton

            return LandingNewton(base=solver)
        return solver
    raise SolverError("solver", expected=f"a name ({', '.join(SOLVERS.names())}) or a solver object", got=repr(solver))


def starts_of(problem: Problem, start: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the starts (t, n) of a batch, and its shape; the problem's data is broadcast to it."""
    n = problem.skeleton.size
    if start is None:
        given = problem.skeleton.rest
    else:
        try:
            given = np.asarray(start, dtype=float)
        except (TypeError, ValueError):
            raise SolverError("start", expected=f"numbers of shape (..., {n})", got=repr(start)) from None
        if given.shape[-1:] != (n,):
            raise SolverError("start", expected=f"shape (..., {n})", got=f"shape {given.shape}")
        if not np.isfinite(given).all():
            where = np.argwhere(~np.isfinite(given))[0][-1]
            name = problem.skeleton.dof_names[where]
            raise SolverError("start", expected="finite numbers", got=f"{given[..., where].ravel()[0]} at {name!r}")
    if given.ndim == 1 and not problem.batch_shape:
        return given.reshape(1, n).copy(), ()
    try:
        shape = np.broadcast_shapes(problem.batch_shape, given.shape[:-1])
    except ValueError:
        raise SolverError(
            "start", expected=f"leading axes that fit the targets' {problem.batch_shape}", got=f"{given.shape[:-1]}"
        ) from None
    problem.broadcast(shape)
    return np.broadcast_to(given, (*shape, n)).reshape(int(np.prod(shape)), n).copy(), shape


def box_of(skeleton: Skeleton, starts: np.ndarray, limits: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the box (n,), (n,) of a solve: the limits, and the frozen degrees of freedom where they start."""
    if limits:
        lower, upper = skeleton.lower, skeleton.upper
    else:
        lower, upper = np.full(skeleton.size, -np.inf), np.full(skeleton.size, np.inf)
    frozen = skeleton.frozen
    if frozen.any():
        held = np.clip(starts[0] if len(starts) else skeleton.rest, lower, upper)
        if (np.clip(starts[:, frozen], lower[frozen], upper[frozen]) != held[frozen]).any():
            raise SolverError("start", expected="the same value of every frozen joint in a batch", got="different ones")
        lower, upper = np.where(frozen, held, lower), np.where(frozen, held, upper)
    lower.flags.writeable = upper.flags.writeable = False  # one type of array, or every loop is compiled twice
    return lower, upper


def count(value: Any, what: str) -> int | None:
    """Return a whole number that is not negative, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise SolverError(what, expected="a whole number that is not negative", got=repr(value))
    return int(value)


def whole(value: Any, what: str) -> int:
    """Return a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise SolverError(what, expected="a whole number", got=repr(value))
    return int(value)


def seconds(value: Any) -> float | None:
    """Return a time limit [s] that is not negative, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not value >= 0.0:
        raise SolverError("time_limit", expected="seconds, not negative", got=repr(value))
    return float(value)


def on_one_branch(solver: str | Solver, restarts: int, max_step: Any) -> Solver:
    """Return the solver of a continuous session; raises SolverError for options that contradict it."""
    if solver != "newton" or restarts:
        raise SolverError(
            "continuous=True", expected="the solver 'newton' and no restarts", got=f"{solver!r}, {restarts}"
        )
    return Continuous(np.inf if max_step is None else max_step)


class Session:
    """Many solves of one figure with goals that move: packed once, each solve starts from the last pose.

    session.move("hand.R", target) moves a goal by its label, session.enable("hand.R", False) switches it off;
    session.solve() answers. natural: as in `solve`, but nearest to the session's own start, so that a target that
    comes back brings the pose back.

    continuous: each answer stays on the branch of the last one: no restarts, no perturbations, and polished, so that a
    slow target does not move the pose in stairs. max_step [rad, m]: how far a degree of freedom may then move in one
    solve, a number or (n,); an answer that it holds back is not ok and says so. For hardware, see `Controller`.
    """

    def __init__(
        self,
        skeleton: Skeleton,
        goals: Goal | Iterable[Goal],
        *,
        solver: str | Solver = "newton",
        start: Any = None,
        limits: bool = True,
        max_iterations: int | None = None,
        restarts: int = 0,
        seed: int = 0,
        natural: bool | None = None,
        continuous: bool = False,
        max_step: Any = None,
    ):
        self.problem = Problem(skeleton, goals)
        if self.problem.batch_shape:
            raise GoalError(
                "Session", expected="goals for one pose", got=f"targets of shape {self.problem.batch_shape}"
            )
        self.solver = on_one_branch(solver, restarts, max_step) if continuous else as_solver(solver)
        if continuous:
            natural = False
        elif max_step is not None:
            raise SolverError("max_step", expected="continuous=True", got="continuous=False")
        self.solver.check(self.problem if self.problem.plain else stand_in(self.problem))
        starts, _ = starts_of(self.problem, start)
        lower, upper = box_of(skeleton, starts, limits)
        self.pose = np.clip(starts[0], lower, upper)
        self._natural = wants_natural(natural, self.problem, self.solver)
        self._reference = self.pose.reshape(1, -1).copy()  # what least change is measured from: drags do not drift
        self._answered = False  # whether a result holds the problem as it is
        self._options = (
            lower,
            upper,
            count(max_iterations, "max_iterations"),
            count(restarts, "restarts") or 0,
            whole(seed, "seed"),
        )

    @property
    def skeleton(self) -> Skeleton:
        """The figure."""
        return self.problem.skeleton

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals as they are now."""
        return self.problem.goals

    def move(self, label: str, target: Any) -> None:
        """Give the goal of that label another target."""
        k = self._goal(label)
        moved = self.problem.goals[k].moved(target)
        self._leave_answers()
        self.problem.move(k, moved)

    def enable(self, label: str, on: bool = True) -> None:
        """Switch the goal of that label on or off: off, it pulls at nothing and decides nothing."""
        k = self._goal(label)
        self._leave_answers()
        self.problem.enable(k, on)

    def _leave_answers(self) -> None:
        """Go on with a copy of the problem where a result holds it: an answer is about the question as it was."""
        if self._answered:
            self.problem = self.problem.copy()
            self._answered = False

    def _goal(self, label: str) -> int:
        try:
            return self.problem.labels.index(label)
        except ValueError:
            raise unknown("goal", label, self.problem.labels) from None

    def solve(self, *, start: Any = None) -> Result:
        """Solve from the last pose, or from `start`, and remember the answer as the next start."""
        begin = time.perf_counter()
        lower, upper, iterations, restarts, seed = self._options
        if start is None:
            first = self.pose.reshape(1, -1)
        else:
            first = np.minimum(np.maximum(starts_of(self.problem, start)[0], lower), upper)
        request = Request(first, lower, upper, iterations, restarts, seed)
        self._answered = True
        near = self._reference if self._natural else None
        if self.problem.plain:
            outcome: Outcome
            if near is None:
                outcome = self.solver.run(self.problem, request)
            else:
                outcome = settle(self.problem, self.solver, request, near)
            self.pose = outcome.poses[0].copy()
            name = self.solver.told(self.problem, request, outcome)
            return Result(self.problem, outcome, request, name, time.perf_counter() - begin)
        problem, outcome, chosen = answer(self.problem, self.solver, request)
        if near is not None:
            settle_held(problem, outcome, request, near)
        self.pose = outcome.poses[0].copy()
        chosen = {name: members[0] for name, members in chosen.items()}
        return Result(problem, outcome, request, self.solver.name, time.perf_counter() - begin, (), chosen)
