"""`solve` for one problem or a batch, and `Session` for repeated solves with moving goals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np

from posable.engine.assemble import clip_starts
from posable.engine.jit import solving_time
from posable.engine.layout import MAX_MAGNITUDE, SPRING_KIND
from posable.engine.springs import COLLISION_SPRING
from posable.errors import GoalError, SolverError, unknown
from posable.goals.base import Goal
from posable.model.kinematics import no_pose
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS, RawResult, SolveOptions, Solver, deadline_after, limits_of, time_until
from posable.solvers.natural import limit_jump, minimise_change, minimise_level_change, prior_weight, uses_natural
from posable.solvers.newton import Newton
from posable.solvers.result import Result, Status, evaluate, judge

DEVICES = ("cpu", "cuda", "auto")
PRECISIONS = ("single", "double")
FLOAT = np.dtype(float)
SHALLOW = 0.05  # [m] of a collision, see `solved_clear`


def solve(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    *,
    start: Any = None,
    solver: str | Solver = "newton",
    limits: bool = True,
    max_iterations: int | None = None,
    restarts: int | str = 0,
    seed: int = 0,
    time_limit: float | None = None,
    record: bool = False,
    natural: bool | None = None,
    nearest: bool = False,
    device: str = "cpu",
    precision: str = "single",
    threads: int | None = None,
) -> Result:
    """Find a pose that meets the goals, or the closest one found; `result.ok` says which.

    Args:
        skeleton: The figure.
        goals: One goal or several. Targets with leading axes are a batch, solved on all cores.
        start: A pose (..., n) [rad, m], projected onto the limits; the rest pose by default.
        solver: A name from `posable.solvers.names()`, or an object with options.
        limits: Whether joint limits apply.
        max_iterations: Of each problem; each solver has its own default.
        restarts: Number of random starts, drawn from `seed`, if a problem is stuck; "auto": until it is solved, proved
            to be out of reach, or another start would find a new local minimum with a probability below 5%.
        seed: Of the random starts.
        time_limit: [s], for the whole batch, without the time to load and compile the engine.
        record: Keep a trace of every iteration.
        natural: Return, of the poses that reach the goals, the one nearest to the start in a comfort metric, at
            the lowest priority. None: for figures with a human body plan, with newton on the CPU, without a `Posture`.
        nearest: Look for all solutions (`posable.solutions`) and return the one nearest to the start; for one pose.
        device: "cpu"; "cuda", an NVIDIA GPU, which also accepts targets and starts in its memory; "auto": the faster
            one for a batch of this size.
        precision: "single" or "double", of the steps on a GPU; results are evaluated in double precision either way.
        threads: Number of threads for a batch on the CPU; all cores by default.

    Returns:
        The result; for a batch, its arrays have the axes of the batch.

    Raises:
        PosableError: The call is wrong. A goal that cannot be reached is a result.
    """
    begin, deadline = solving_time(), deadline_after(time_limit)
    check_device(device, precision, restarts)
    auto = restarts == "auto"
    rest = (
        nonneg_int(max_iterations, "max_iterations"), 0 if auto else nonneg_int(restarts, "restarts") or 0,
        as_int(seed, "seed"), time_limit, bool(record), positive_int(threads, "threads"), deadline,
    )  # fmt: skip
    if solver == "newton" and device == "cpu" and (natural is None or natural is False):
        result = None if nearest or record or auto else solved_at_once(skeleton, goals, start, limits, rest, begin)
        if result is not None:
            return result
    problem, method = Problem(skeleton, goals, on_gpu=device != "cpu"), as_solver(solver)
    check_solver(method, problem)
    start = nearest_start(problem, start, limits, seed, deadline) if nearest else start
    device_start = None if device == "cpu" else start_on_gpu(start, skeleton)
    least_change = device == "cpu" and uses_natural(natural, problem, method)
    starts, shape = starts_of(problem, None if device_start is not None else start, spread=device == "cpu")
    groups = frozen_groups(skeleton, starts, limits) if device == "cpu" else []
    lower, upper = limits_of(skeleton, bool(limits))[:2] if groups else box_of(skeleton, starts, limits)
    options = SolveOptions(projected(skeleton, starts, lower, upper), lower, upper, *rest)
    if device != "cpu" and 0 not in shape:
        result = solved_on_gpu(problem, method, options, shape, device, precision, device_start, natural, begin)
        if result is not None:
            return result
        options = options._replace(starts=np.broadcast_to(options.starts, (math.prod(shape), skeleton.size)).copy())
    near = options.starts if least_change else None
    answered, raw, chosen = answer_of(problem, method, options, near, groups, limits, shape)
    result = Result(answered, raw, options, method.name, solving_time() - begin, shape, chosen)
    return with_random_starts(result, problem, method, near, limits, begin) if auto and 0 not in shape else result


def solved_at_once(
    skeleton: Skeleton, goals: Any, start: Any, limits: bool, rest: tuple[Any, ...], begin: float
) -> Result | None:
    """Return the result of one Pose that a six-axis arm reaches, in closed form, without packing a problem.

    Args:
        skeleton: As in `solve`; like goals and start not checked yet.
        goals: As in `solve`.
        start: As in `solve`.
        limits: Whether joint limits apply.
        rest: The other `SolveOptions`.
        begin: [s], when the call began.

    Returns:
        The result, always ok; None for other problems, and for wrong calls.
    """
    goal = goals[0] if type(goals) is list and len(goals) == 1 else goals
    if not isinstance(goal, Goal) or not goal.pins_frame or type(skeleton) is not Skeleton or skeleton.size < 6:
        return None
    arm = _lone_arm()(skeleton, goal.body, bool(limits))
    if arm is None or (starts := unchecked_start(start, skeleton)) is None:
        return None
    return arm.solve(goal, starts, rest, begin)


@cache
def _lone_arm() -> Any:
    from posable.limb.six_axis_arm import lone_arm

    return lone_arm


def start_on_gpu(start: Any, skeleton: Skeleton) -> Any:
    """Return a start in the memory of a GPU; None if it is not there."""
    from posable.goals.base import checked_device_array

    return checked_device_array(start, (skeleton.size,), "start")


def solved_on_gpu(
    problem: Problem, method: Solver, options: SolveOptions, shape: tuple[int, ...], device: str, precision: str,
    device_start: Any, natural: bool | None, begin: float,
) -> Result | None:  # fmt: skip
    """Return the result of a GPU; None where device="auto" leaves the batch to the CPU."""
    if natural or prior_weight(problem):
        raise SolverError("natural", expected="device='cpu'", got=repr(device))
    from posable.gpu.batch import solve_on

    there = solve_on(problem, method, options, shape, device, precision, device_start)
    return None if there is None else Result(*there[:2], options, method.name, solving_time() - begin, there[2])


def answer_of(
    problem: Problem, method: Solver, options: SolveOptions, near: np.ndarray | None, groups: list[np.ndarray],
    limits: bool, shape: tuple[int, ...],
) -> tuple[Problem, RawResult, dict[str, Any] | None]:  # fmt: skip
    """Return the problem as it was decided, what the solver found, and the chosen members of AnyOf goals by label.

    near: (t or 1, n), the poses to stay near, or None. groups: see `frozen_groups`.
    """
    if 0 in shape:  # an empty batch needs no solver
        nothing, errors = np.zeros(0), np.zeros((0, len(problem.springs)))
        return problem, RawResult(options.starts[:0], np.zeros(0, np.int64), errors, nothing, nothing), None
    if groups:
        return solved_in_groups(problem, method, options, near, groups, limits, shape)
    if problem.plain:
        if near is not None:
            return problem, minimise_change(problem, method, options, near), None
        if problem.has_solids and not problem.soft and not options.record:
            return problem, solved_clear(problem, method, options), None
        return problem, run_method(problem, method, options), None
    return solved_by_level(problem, method, options, near, shape)


def check_device(device: str, precision: str, restarts: int | str) -> None:
    """Raise SolverError for an unknown device or precision, or one that does not support the call."""
    if device not in DEVICES:
        raise SolverError("device", expected=" or ".join(map(repr, DEVICES)), got=repr(device))
    if precision not in PRECISIONS:
        raise SolverError("precision", expected=" or ".join(map(repr, PRECISIONS)), got=repr(precision))
    if restarts == "auto" and device != "cpu":
        raise SolverError("restarts='auto'", expected="device='cpu'", got=repr(device))


def nearest_start(problem: Problem, start: Any, limits: bool, seed: int, deadline: float | None) -> Any:
    """Return the solution nearest to a start, or the start itself if none is found."""
    from posable._solutions import solutions

    found = solutions(
        problem.skeleton, problem.given_goals, start=start, limits=limits, seed=seed, time_limit=time_until(deadline)
    )
    return np.asarray(found[0]) if len(found) else start


def solved_by_level(
    problem: Problem, method: Solver, options: SolveOptions, near: np.ndarray | None, shape: tuple[int, ...]
) -> tuple[Problem, RawResult, dict[str, Any]]:
    """Solve a problem with priorities, choices or energies in Python.

    Returns:
        The problem as it was decided, its outcome, and the chosen members by label of their goals.
    """
    from posable.solvers.hierarchy import solve_in_runs

    problem, raw, chosen = solve_in_runs(problem, method, options)
    if near is not None:
        minimise_level_change(problem, raw, options, near)
    return problem, raw, {label: names.reshape(shape) if shape else names[0] for label, names in chosen.items()}


def closed_form(problem: Problem, method: Solver) -> Any:
    """Return the closed form of a problem that is one Pose of a six-axis arm, for the default solver; else False."""
    if type(method) is not Newton or problem.off or len(problem.springs) != 2:
        return False
    return problem.once("arm", lambda: _arm_of(problem))


def _arm_of(problem: Problem) -> Any:
    if problem.skeleton.size < 6:
        return False
    from posable.limb.six_axis_arm import arm_of

    return arm_of(problem) or False


def unchecked_start(start: Any, skeleton: Skeleton) -> np.ndarray | None:
    """Return a copy (1, n) of a start for a closed form, which checks its numbers; None if it needs other checks."""
    if start is None:
        start = skeleton.rest
    if type(start) is not np.ndarray or start.dtype is not FLOAT or start.shape != (skeleton.size,):
        return None
    return np.array(start, ndmin=2)


def run_method(problem: Problem, method: Solver, options: SolveOptions) -> RawResult:
    """Return the solution of the closed form if there is one, else that of the solver."""
    arm = False if options.record else closed_form(problem, method)
    return solved_in_closed_form(arm, problem, method, options) if arm else method.run(problem, options)


def solved_in_closed_form(arm: Any, problem: Problem, method: Solver, options: SolveOptions) -> RawResult:
    """Return the solution of a closed form, or of the solver where it has none."""
    raw, rest = arm.solve(problem, options)
    if rest is not None:  # out of reach, or only in reach with limits exceeded
        if len(rest) == len(options.starts):
            if len(rest) == 1:  # the start of a Session has not been checked yet
                options = options._replace(starts=starts_of(problem, options.starts[0])[0])
                projected(problem.skeleton, options.starts, options.lower, options.upper)
            return method.run(problem, options)
        other = method.run(problem.rows(rest), options._replace(starts=options.starts[rest]))
        raw.put(rest, other)
        raw.good = None
    return raw


def solved_clear(problem: Problem, method: Solver, options: SolveOptions) -> RawResult:
    """Solve a problem with NoCollision: without it first, and with it if the pose collides.

    Most poses do not collide, and one that does not and reaches its goals is as good as any other. One that reaches
    them and collides by less than SHALLOW is where the second run begins. Shapes that are deeper in each other often
    push in a direction that leads nowhere: the joints between them then begin again, and the others where they are.
    """
    from posable.goals.collision import NoCollision
    from posable.model.collision import retreated

    others = [goal for goal in problem.given_goals if not isinstance(goal, NoCollision)]
    if not others:
        return method.run(problem, options)
    free = Problem(problem.skeleton, others)
    free.broadcast(problem.batch_shape)
    raw = run_method(free, method, options)
    raw.good, raw.errors, _ = evaluate(problem, raw.poses, options)
    rest = np.flatnonzero(raw.good == 0)
    if len(rest):
        collision = problem.kind[:, SPRING_KIND] == COLLISION_SPRING
        missed = raw.errors[rest] > problem.tolerances
        reached = ~(missed & ~collision).any(axis=1)
        deep = ((raw.errors[rest] > SHALLOW) & collision).any(axis=1)
        starts = np.where(reached[:, None], raw.poses[rest], options.starts[rest])
        if (both := reached & deep).any():
            starts[both] = retreated(problem.figure, starts[both], options.starts[rest[both]])
        other = method.run(problem.rows(rest), options._replace(starts=starts))
        raw.put(rest, other)  # of the run that answers
        raw.good = None if other.good is None else np.where(raw.good == 0, 0, 1)
        if raw.good is not None:
            raw.good[rest] = other.good
    return raw


def with_random_starts(
    result: Result, asked: Problem, method: Solver, near: np.ndarray | None, limits: bool, begin: float
) -> Result:
    """Retry the problems that miss from random starts until they reach, or until that is unlikely.

    asked: the problem before its choices were made. near: (t or 1, n), what least change is measured from. limits:
    whether the figure's limits hold.
    """
    from posable.solvers.restarts import SearchReport, keep_searching

    raw, options, searches = result.outcome, result.options, {}
    missed = [k for k in np.flatnonzero(~result._good).tolist() if result._status(k) is not Status.OUT_OF_REACH]
    for k in missed:
        if options.late:
            break
        one = asked.alone(k)
        reference = None if near is None else near[[k if len(near) > 1 else 0]]
        lower, upper = box_of(asked.skeleton, options.starts[k : k + 1], limits)
        own = options._replace(lower=lower, upper=upper)

        def run(
            starts: np.ndarray, one: Problem = one, reference: Any = reference, own: SolveOptions = own
        ) -> tuple[Problem, RawResult]:
            more = own._replace(starts=starts)
            if one.plain:
                if reference is None:
                    return one, method.run(one, more)
                return one, minimise_change(one, method, more, reference)
            return solved_by_level(one, method, more, reference, ())[:2]

        search: SearchReport = keep_searching(result.problem, raw, own, k, run, lambda p, r: judge(p, r, options))
        searches[k] = search
    if not searches:
        return result
    seconds = solving_time() - begin
    out = Result(result.problem, raw, options, result.solver, seconds, result.shape, result.chosen)
    out.searches = searches
    return out


def check_solver(solver: Solver, problem: Problem) -> None:
    """Raise if the solver cannot solve the problem; energies in Python are replaced by models first."""
    if 0 in problem.batch_shape:
        return
    if not problem.plain:
        from posable.solvers.hierarchy import with_models

        problem = with_models(problem)
    solver.check(problem)


def as_solver(solver: str | Solver) -> Solver:
    """Return a solver given by name, as a class or as an object; with limbs, one that solves them in closed form."""
    if isinstance(solver, str):
        return _by_name(solver)
    if isinstance(solver, type) and issubclass(solver, Solver):
        return solver()
    if isinstance(solver, Solver):
        if getattr(solver, "limbs", False):
            from posable.limb.solver import NewtonWithLimbs

            return NewtonWithLimbs(base=solver)
        return solver
    raise SolverError("solver", expected=f"a name ({', '.join(SOLVERS.names())}) or a solver object", got=repr(solver))


@lru_cache(maxsize=64)
def _by_name(name: str) -> Solver:
    """Return a solver with its default options; solvers are frozen, so one instance is shared."""
    return SOLVERS.get(name)()


def starts_of(problem: Problem, start: Any, *, spread: bool = True) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the starts (t, n) of a batch, in an array of its own, and its shape; targets are broadcast to it.

    spread: False leaves one start for all as (1, n).
    """
    n = problem.skeleton.size
    try:
        given = np.array(problem.skeleton.rest if start is None else start, dtype=float)
    except (TypeError, ValueError, OverflowError):
        got = no_pose(problem.skeleton, start)
        raise SolverError("start", expected=f"numbers of shape (..., {n})", got=got) from None
    if given.shape[-1:] != (n,):
        raise SolverError("start", expected=f"shape (..., {n})", got=f"shape {no_pose(problem.skeleton, given)}")
    finite = math.isfinite(sum(given.tolist())) if given.ndim == 1 else np.isfinite(given).all()
    if not finite and (bad := np.argwhere(~np.isfinite(given))).size:
        where = bad[0][-1]
        name = problem.skeleton.dof_names[where]
        raise SolverError("start", expected="finite numbers", got=f"{given[..., where].ravel()[0]} at {name!r}")
    if given.ndim == 1 and not (problem.batch_shape and spread):
        return given.reshape(1, n), problem.batch_shape
    try:
        shape = np.broadcast_shapes(problem.batch_shape, given.shape[:-1])
    except ValueError:
        raise SolverError(
            "start", expected=f"leading axes that fit the targets' {problem.batch_shape}", got=f"{given.shape[:-1]}"
        ) from None
    problem.broadcast(shape)
    return np.broadcast_to(given, (*shape, n)).reshape(math.prod(shape), n).copy(), shape


def frozen_groups(skeleton: Skeleton, starts: np.ndarray, limits: bool) -> list[np.ndarray]:
    """Return the rows of a batch by the values (t, k) of its frozen degrees of freedom; nothing where all are equal."""
    lower, upper, frozen = limits_of(skeleton, bool(limits))
    if len(starts) < 2 or frozen is None:
        return []
    held = np.clip(starts[:, frozen], lower[frozen], upper[frozen])
    if (held == held[0]).all():
        return []
    group = np.unique(held, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(group == k) for k in range(group.max() + 1)]


def solved_in_groups(
    problem: Problem, method: Solver, options: SolveOptions, near: np.ndarray | None, groups: list[np.ndarray],
    limits: bool, shape: tuple[int, ...],
) -> tuple[Problem, RawResult, dict[str, Any]]:  # fmt: skip
    """Solve a batch group by group, each in the box of the values that its frozen degrees of freedom have."""
    t, n, g = *options.starts.shape, len(problem.springs)
    out = RawResult(np.empty((t, n)), np.zeros(t, dtype=np.int64), np.empty((t, g)), np.zeros(t), np.zeros(t))
    traces: list[Any] = [None] * t
    decided, chosen = problem, {}
    if not problem.plain:
        decided = problem.copy()
        decided.spread(t)
    for rows in groups:
        lower, upper = box_of(problem.skeleton, options.starts[rows], limits)
        some, part = options._replace(starts=options.starts[rows], lower=lower, upper=upper), problem.rows(rows)
        reference = None if near is None else near[rows]
        made, raw, members = answer_of(part, method, some, reference, [], limits, (len(rows),))
        out.put(rows, raw)
        for row, trace in zip(rows, raw.traces, strict=False):
            traces[row] = trace
        if not problem.plain:
            decided.constants[rows], decided.targets[rows] = made.constants, made.targets
        for label, names in (members or {}).items():
            chosen.setdefault(label, np.empty(t, dtype=object))[rows] = names
    out.traces = traces if options.record else []
    return decided, out, {label: names.reshape(shape) for label, names in chosen.items()}


def box_of(skeleton: Skeleton, starts: np.ndarray, limits: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the box (n,), (n,) of a solve: the limits, and the frozen degrees of freedom where they start."""
    lower, upper, frozen = limits_of(skeleton, bool(limits))
    if frozen is None:
        return lower, upper
    held = np.clip(starts[0] if len(starts) else skeleton.rest, lower, upper)
    if (np.clip(starts[:, frozen], lower[frozen], upper[frozen]) != held[frozen]).any():
        raise SolverError("start", expected="the same value of every frozen joint in a batch", got="different ones")
    lower, upper = np.where(frozen, held, lower), np.where(frozen, held, upper)
    lower.flags.writeable = upper.flags.writeable = False  # one type of array, so that loops are compiled only once
    return lower, upper


def projected(skeleton: Skeleton, starts: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Put starts (t, n) into the box, in place, and return them.

    Raises:
        SolverError: for magnitudes at which energies would overflow.
    """
    if clip_starts(starts, lower, upper):
        return starts
    where = int(np.abs(starts).max(axis=0).argmax())
    got = f"{starts[np.abs(starts[:, where]).argmax(), where]:g} at {skeleton.dof_names[where]!r}"
    raise SolverError("start, inside the limits", expected=f"magnitudes up to {MAX_MAGNITUDE:g}", got=got)


def nonneg_int(value: Any, what: str) -> int | None:
    """Return a non-negative integer that compiled code can count to, or None."""
    if value is None:
        return None
    if type(value) is int and 0 <= value < 2**53:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**53:
        raise SolverError(what, expected="a non-negative integer below 2**53", got=repr(value))
    return int(value)


def positive_int(value: Any, what: str) -> int | None:
    """Return a positive integer, or None."""
    out = nonneg_int(value, what)
    if out == 0:
        raise SolverError(what, expected="a positive integer", got="0")
    return out


def as_int(value: Any, what: str) -> int:
    """Return an integer."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
        raise SolverError(what, expected="an integer", got=repr(value))
    return int(value)


def on_one_branch(solver: str | Solver, restarts: int, max_step: Any) -> Solver:
    """Return the solver of a continuous session; raises SolverError for options that contradict it."""
    if solver != "newton" or restarts:
        raise SolverError(
            "continuous=True", expected="the solver 'newton' and no restarts", got=f"{solver!r}, {restarts}"
        )
    from posable.solvers.continuous import Continuous

    return Continuous(np.inf if max_step is None else max_step)


class Session:
    """Repeated solves of one figure with moving goals: packed once, each solve starts from the last pose.

    Args:
        skeleton: The figure.
        goals: One goal or several, for one pose.
        solver: A name or an object with options.
        start: The first pose (n,); the rest pose by default.
        limits: Whether joint limits apply.
        max_iterations: Of each solve.
        restarts: Random starts of each solve, if it is stuck.
        seed: Of the random starts.
        natural: As in `solve`, but nearest to the start of the session: a target that returns brings the pose back.
            Where that pose jumps though targets move little, the session approaches it over several solves; a solve
            without new targets, or from a given start, goes all the way.
        continuous: Stay on the branch of the last pose: no restarts, no perturbations, and fully converged, so that a
            slow target does not move the pose in steps. For hardware, see `Controller`.
        max_step: [rad, m], with `continuous`: how far a degree of freedom may move in one solve, a number or (n,); a
            result that it holds back is not ok and says so.

    Example::

        session = ps.Session(human, [g.Position("hand.R", place), g.Aim("head", "z", at=place)])
        result = session.solve({"hand.R": other_place, "head": other_place})
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
        check_solver(self.solver, self.problem)
        starts, _ = starts_of(self.problem, start)
        lower, upper = box_of(skeleton, starts, limits)
        starts = projected(skeleton, starts, lower, upper)
        self.pose = starts[0]
        self._natural = uses_natural(natural, self.problem, self.solver)
        self._closed_form = False if self._natural else closed_form(self.problem, self.solver)
        self._reference = starts.copy()  # reference of the least change, so that drags do not drift
        self._answered = False  # whether a result refers to the current problem
        self._dragged = False  # whether only targets have changed since the last answer, and some have
        self._solved = False  # whether there is a last answer to the same goals
        self._options = (
            lower, upper, nonneg_int(max_iterations, "max_iterations"), nonneg_int(restarts, "restarts") or 0,
            as_int(seed, "seed"),
        )  # fmt: skip

    @property
    def skeleton(self) -> Skeleton:
        """The figure."""
        return self.problem.skeleton

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals as they are now."""
        return self.problem.goals

    def move(self, label: str, target: Any) -> None:
        """Move a goal to another target.

        Args:
            label: The goal's label; by default the body that it moves.
            target: As the goal takes it: (3,) [m] for a position, (3, 3) for an orientation, (4, 4) for a pose, ...

        Raises:
            UnknownName: No goal has this label.
            GoalError: The target has the wrong shape or is not finite.
        """
        k = self._goal(label)
        self._leave_answers()
        self.problem.move_to(k, target)
        self._dragged = self._solved

    def enable(self, label: str, on: bool = True) -> None:
        """Enable or disable a goal; a disabled goal neither pulls nor decides `ok`.

        Args:
            label: The goal's label.
            on: Whether it is enabled.
        """
        k = self._goal(label)
        self._leave_answers()
        self.problem.enable(k, on)
        self._closed_form = False if self._natural else closed_form(self.problem, self.solver)
        self._dragged = self._solved = False

    def _leave_answers(self) -> None:
        """Continue with a copy of the problem if a result refers to it: a result must not change afterwards."""
        if self._answered:
            self.problem = self.problem.with_own_targets()
            self._answered = False

    def _goal(self, label: str) -> int:
        k = self.problem.label_index.get(label)
        if k is None:
            raise unknown("goal", label, self.problem.labels)
        return k

    def solve(self, targets: Mapping[str, Any] | None = None, *, start: Any = None) -> Result:
        """Solve from the last pose, or from `start`, and keep the result as the next start.

        Args:
            targets: New targets by the labels of their goals: `move` for each, then solve. If one of them is
                invalid, none is moved.
            start: A pose (n,) [rad, m], projected onto the limits.

        Returns:
            The result.
        """
        begin = solving_time()
        if targets is not None:
            self._move_all(targets)
        if start is None:
            first = self.pose.reshape(1, -1)
        else:
            first = unchecked_start(start, self.problem.skeleton) if self._closed_form else None
            if first is None:
                first = projected(self.problem.skeleton, starts_of(self.problem, start)[0], *self._options[:2])
        options = SolveOptions(first, *self._options)
        self._answered = True
        near = self._reference if self._natural else None
        if self.problem.plain:
            raw: RawResult
            if self._closed_form:
                raw = solved_in_closed_form(self._closed_form, self.problem, self.solver, options)
            elif near is None:
                raw = self.solver.run(self.problem, options)
            else:
                raw = minimise_change(self.problem, self.solver, options, near)
                if self._dragged and start is None:
                    raw = limit_jump(self.problem, options, near, raw)
            self._solved, self._dragged = True, False
            pose = raw.poses[0]
            self.pose = pose.copy()
            name = self.solver.result_name(self.problem, options, raw)
            result = Result(self.problem, raw, options, name, solving_time() - begin)
            result.pose = pose  # almost always read: avoids evaluating it again
            return result
        problem, raw, chosen = solved_by_level(self.problem, self.solver, options, near, ())
        self.pose = raw.poses[0].copy()
        return Result(problem, raw, options, self.solver.name, solving_time() - begin, (), chosen)

    def _move_all(self, targets: Mapping[str, Any]) -> None:
        """Move several goals, or none if one of the targets is invalid."""
        moves = [(self._goal(label), target) for label, target in targets.items()]
        before, answered = self.problem, self._answered
        self.problem = before.with_own_targets()
        try:
            for k, target in moves:
                self.problem.move_to(k, target)
        except BaseException:
            self.problem, self._answered = before, answered
            raise
        self._answered = False
        self._dragged = self._solved


Result._solve = staticmethod(solve)  # used by `result.remedy`
