"""The base of all solvers: frozen options and a loop, and what compiled loops share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import lru_cache, wraps
from typing import Any, ClassVar, NamedTuple

import numpy as np

from posable.engine.bounds import CONVERGED, EXHAUSTED, RUNNING, TRACE_WIDTH  # noqa: F401  (plug-ins import codes here)
from posable.engine.jit import call_directly, run_chunks, solving_time, thread_count
from posable.engine.layout import BEST, CHUNK_ITERATIONS, EVALUATIONS, ITERATIONS, MAX_ITERATIONS, RANDOM
from posable.errors import SolverError, unknown
from posable.model.kinematics import Part, scratch
from posable.model.skeleton import Skeleton, per_figure
from posable.problem import Problem
from posable.registry import Registry

SOLVERS = Registry("solver", "posable.solvers")

CHUNK = 64  # problems per thread and turn, or PER_THREAD chunks per thread if those are smaller
PER_THREAD = 8
LARGEST_CHUNK = 256  # problems, because Control-C waits for the end of a chunk
SMALL = 16  # problems below which a second thread does not pay
INTERRUPTIBLE = 1e7  # iterations times scratch memory, about 1 ns each, above which Control-C interrupts a problem
SLICE = 0.005  # [s] between checks of the clock
FIRST_SLICE = 2.5e6  # iterations times scratch memory of the first slice of a problem in a batch
SLOW_STEP = 1e4  # scratch memory above which a step of a method with a stop column may take longer than SLICE
OUT_OF_TIME = -1  # a code beside those of engine/bounds.py


def register(name: str) -> Callable[[Any], Any]:
    """Return a decorator that registers a solver under a name; an unknown option then suggests a known one."""

    def enter(thing: Any) -> Any:
        if isinstance(thing, type) and is_dataclass(thing):
            _check_options(thing, name)
        return SOLVERS.register(name)(thing)

    return enter


def _check_options(solver: type, name: str) -> None:
    """Make the constructor of a solver, a dataclass, raise UnknownName for an unknown option."""
    make = solver.__init__
    options = [field.name for field in fields(solver)]

    @wraps(make)
    def __init__(self: Any, *values: Any, **chosen: Any) -> None:
        for option in chosen:
            if option not in options:
                raise unknown(f"option of {name}", option, options)
        make(self, *values, **chosen)

    solver.__init__ = __init__


class RawResult:
    """The result of a solver before it is judged: one row per problem of the batch.

    Attributes:
        poses: (t, n) [rad, m].
        codes: (t,) of engine/bounds.py, or OUT_OF_TIME.
        errors: (t, g) of each spring [m, rad].
        iterations: (t,).
        evaluations: (t,) of the energy.
        traces: One per problem, if they were requested.
        good: (t,) bool or 0 and 1: the verdict on the poses where the loop has judged them (engine/assemble.py), None
            otherwise.
    """

    __slots__ = ("codes", "errors", "evaluations", "good", "iterations", "poses", "traces")

    def __init__(
        self, poses: np.ndarray, codes: np.ndarray, errors: np.ndarray, iterations: Any, evaluations: Any,
        traces: Any = None, good: np.ndarray | None = None,
    ):  # fmt: skip
        self.poses, self.codes, self.errors, self.good = poses, codes, errors, good
        self.iterations, self.evaluations = iterations, evaluations
        self.traces: list[dict[str, np.ndarray]] = traces or []

    def put(self, rows: Any, other: RawResult, picked: Any = slice(None)) -> None:
        """Replace solutions by those of another result; neither its traces nor its verdict are taken."""
        for name in ("poses", "codes", "errors", "iterations", "evaluations"):
            getattr(self, name)[rows] = getattr(other, name)[picked]


class SolveOptions(NamedTuple):
    """The checked arguments of `solve`: the box, the starts, and the limits of iterations and time."""

    starts: np.ndarray  # (t, n), inside the box
    lower: np.ndarray  # (n,), read-only, as the compiled loops expect
    upper: np.ndarray  # (n,), not writeable
    max_iterations: int | None = None
    restarts: int = 0
    seed: int = 0
    time_limit: float | None = None  # [s], as given
    record: bool = False
    threads: int | None = None
    deadline: float | None = None  # [s], of `solving_time`: when the time limit ends

    @property
    def late(self) -> bool:
        """Whether the time limit has ended."""
        return self.deadline is not None and solving_time() >= self.deadline


@per_figure
def limits_of(skeleton: Skeleton, limits: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the limits (n,), (n,), read-only, and which degrees of freedom are frozen, or None."""
    lower, upper = skeleton.lower, skeleton.upper
    if not limits:
        lower, upper = np.full(skeleton.size, -np.inf), np.full(skeleton.size, np.inf)
    lower.flags.writeable = upper.flags.writeable = False
    return lower, upper, skeleton.frozen if skeleton.frozen.any() else None


def chunk_size(count: int, threads: int | None) -> int:
    """Return how many problems a thread takes at a time: few chunks cost less, many balance the threads."""
    cores = thread_count(threads)
    return max(1, min(CHUNK, -(-count // cores)), min(LARGEST_CHUNK, count // (PER_THREAD * cores)))


class Solver:
    """A method with its options. Subclasses are frozen dataclasses, registered by name."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    iterations: ClassVar[int] = 200  # default of max_iterations

    def check(self, problem: Problem) -> None:
        """Raise SolverError if the method cannot solve the problem."""

    def require(self, option: str, good: bool, expected: str) -> None:
        """Raise SolverError if the value of an option is not good."""
        if not good:
            raise SolverError(f"{self.name}: {option}", expected=expected, got=repr(getattr(self, option)))

    def run(self, problem: Problem, options: SolveOptions) -> RawResult:
        """Solve every problem of the batch."""
        raise NotImplementedError

    def result_name(self, problem: Problem, options: SolveOptions, outcome: RawResult) -> str:
        """Return the name of the method in a result, with what kept it from its goals."""
        return self.name


FOREVER = 1e9  # [s]


def deadline_after(time_limit: Any) -> float | None:
    """Return when a time limit [s] that begins now ends, on the clock of `solving_time`; None without one."""
    if time_limit is None:
        return None
    if isinstance(time_limit, bool) or not isinstance(time_limit, (int, float, np.number)) or not time_limit >= 0.0:
        raise SolverError("time_limit", expected="a non-negative number of seconds", got=repr(time_limit))
    return solving_time() + float(min(time_limit, FOREVER))


def time_until(deadline: float | None) -> float | None:
    """Return the time [s] until a deadline, zero after it; None without one."""
    return None if deadline is None else max(0.0, deadline - solving_time())


def strength_of(problem: Problem) -> np.ndarray:
    """Return the strength (n,) of each dof, `Joint.gain`: how readily it moves; 1 for dofs that never move."""
    gain = problem.skeleton.gain
    return np.where(gain > 0.0, gain, 1.0)


def refuse_strength(problem: Problem, name: str) -> None:
    """Raise SolverError if joints differ in strength and the method cannot take that into account."""
    weak = np.flatnonzero(strength_of(problem) != 1.0)
    if weak.size:
        dof = problem.skeleton.dof_names[weak[0]]
        raise SolverError(
            name, expected="joints of strength 1: the method has no metric in which one joint could move more readily",
            got=f"gain {problem.skeleton.gain[weak[0]]:g} of {dof!r}; use 'newton' or 'dls'",
        )  # fmt: skip


class CompiledSolver(Solver):
    """A solver whose loop is one compiled entry over a batch; adds threads, time limits and traces."""

    state_width: ClassVar[int] = 16  # enough for every loop of loop.py
    loop: ClassVar[Callable[..., Any]]
    numbers: ClassVar[tuple[str, ...]] = ()  # the method's own options that its loop reads
    verdict_column: ClassVar[int | None] = None  # of the state, if the loop judges its poses itself
    stop_column: ClassVar[int | None] = None  # of the params: a step that takes long ends early if it is not zero

    def own_params(self) -> tuple[float, ...]:
        """Return the method's own options as the loop reads them."""
        return tuple(float(getattr(self, name)) for name in self.numbers)

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of the loop: the columns of engine/layout.py, then its own."""
        raise NotImplementedError

    def memory(self, problem: Problem) -> int:
        """Return the size of the loop's scratch memory: at least the workspace and eight vectors (n,)."""
        return problem.work_size

    def run(self, problem: Problem, options: SolveOptions) -> RawResult:
        """Solve every problem: in one call, or in chunks if there are many, a time limit or a trace."""
        t = options.starts.shape[0]
        states = self._fresh(options.seed)
        states = states.copy() if t == 1 else states.repeat(t, axis=0)
        errors = np.empty((t, len(problem.springs)))
        errors.fill(np.nan)  # until the loop writes them
        judged = self.verdict_column
        raw = RawResult(
            options.starts.copy(), np.zeros(t, dtype=np.int64), errors, states[:, ITERATIONS],
            states[:, EVALUATIONS], None, None if judged is None else states[:, judged],
        )  # fmt: skip
        params = self.params(problem, options)
        deadline = options.deadline
        if options.record:
            self._record(problem, options, raw, states, params)
        elif t == 1:
            self._run_in_slices(problem, options, raw, states, params, None, deadline, ())
        elif t <= SMALL and deadline is None and not self._is_long(problem, params):
            self._enter(problem, options, raw, states, params, None, _EMPTY_TRACE, None)
        else:
            size = 1 if t <= SMALL else chunk_size(t, options.threads)
            _ = problem.targets  # packed once, before several threads ask for them
            stopped: list[bool] = []  # not empty after Control-C

            def work(piece: slice) -> None:
                self._advance(problem, options, raw, states, params, piece, deadline, stopped)

            run_chunks(work, t, size, 1 if t <= SMALL else options.threads, stopped)
        return raw

    @classmethod
    @lru_cache(maxsize=64)
    def _fresh(cls, seed: int) -> np.ndarray:
        """Return the initial state (1, w) of a problem."""
        state = np.zeros((1, cls.state_width))
        state[0, RANDOM] = (seed * 2654435761 + 12345) % 4294967296
        state[0, BEST] = np.inf
        return state

    def _advance(self, problem, options, raw, states, params, piece, deadline, stopped) -> None:
        """Solve some problems of a batch, each as if alone: the bits are the same for any number of threads.

        With a deadline, or where iterations may be many, a problem runs in slices of a few milliseconds.
        """
        if deadline is None:
            long = self._is_long(problem, params)
            now = self._first_slice(problem, params) if long else params
            self._enter(problem, options, raw, states, now, piece, _EMPTY_TRACE, None)
            if not long:
                return
        for k in range(piece.start, piece.stop):
            if options.late:
                break
            if raw.codes[k] != RUNNING:
                continue
            if deadline is None:  # restart: the loop's memory of it is gone
                states[k], raw.poses[k] = self._fresh(options.seed)[0], options.starts[k]
            self._run_in_slices(problem, options, raw, states, params, slice(k, k + 1), deadline, stopped)
        self._give_up(problem, options, raw, states, params, piece, None)

    def _run_in_slices(self, problem, options, raw, states, params, one, deadline, stopped) -> None:
        """Solve one problem, in slices if it may take long; the bits are the same."""
        codes, work = raw.codes if one is None else raw.codes[one], scratch(self.memory(problem))
        if deadline is None and not self._is_long(problem, params):
            self._enter(problem, options, raw, states, params, one, _EMPTY_TRACE, work)
            return
        now = self._first_slice(problem, params)
        now[CHUNK_ITERATIONS] = max(1.0, now[CHUNK_ITERATIONS] // 32.0)
        with self._stopping(problem, now, deadline):
            while codes[0] == RUNNING and not stopped:
                begin = solving_time()
                if deadline is not None and begin >= deadline:
                    self._give_up(problem, options, raw, states, params, one, work)
                    return
                self._enter_stoppable(problem, options, raw, states, now, one, work)
                if codes[0] == RUNNING and solving_time() - begin < SLICE:
                    now[CHUNK_ITERATIONS] *= 2.0

    def _enter_stoppable(self, problem, options, raw, states, params, one, work) -> None:
        """Enter the loop, in another thread if one step may take long: Control-C then stops the step."""
        if not self._has_slow_steps(problem) or threading.current_thread() is not threading.main_thread():
            self._enter(problem, options, raw, states, params, one, _EMPTY_TRACE, work)
            return
        with ThreadPoolExecutor(1) as other:
            entered = other.submit(self._enter, problem, options, raw, states, params, one, _EMPTY_TRACE, work)
            try:
                entered.result()
            except BaseException:
                params[self.stop_column] = 1.0
                raise

    def _has_slow_steps(self, problem: Problem) -> bool:
        """Return whether one step may take longer than a slice, and has a column of the params that stops it."""
        return self.stop_column is not None and self.memory(problem) >= SLOW_STEP

    @contextmanager
    def _stopping(self, problem: Problem, params: np.ndarray, deadline: float | None) -> Iterator[None]:
        """Set the stop column of the params at the deadline, from another thread, if one step may take long."""
        if deadline is None or not self._has_slow_steps(problem):
            yield
            return
        seconds = min(deadline - solving_time(), threading.TIMEOUT_MAX)
        timer = threading.Timer(seconds, params.__setitem__, (self.stop_column, 1.0))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _is_long(self, problem: Problem, params: np.ndarray) -> bool:
        """Return whether a problem may take long, by its iterations and the memory that each of them goes through."""
        return params[MAX_ITERATIONS] * self.memory(problem) > INTERRUPTIBLE

    def _first_slice(self, problem: Problem, params: np.ndarray) -> np.ndarray:
        """Return params for the first slice of a problem, long enough for most problems."""
        now = params.copy()
        now[CHUNK_ITERATIONS] = max(1.0, FIRST_SLICE // self.memory(problem))
        return now

    def _give_up(self, problem, options, raw, states, params, piece, work) -> None:
        """End running problems: without iterations left, the loop restores the best pose of each."""
        codes = raw.codes if piece is None else raw.codes[piece]
        running = codes == RUNNING
        if running.any():
            now = params.copy()
            now[MAX_ITERATIONS] = 0.0
            self._enter(problem, options, raw, states, now, piece, _EMPTY_TRACE, work)
            codes[running & (codes == EXHAUSTED)] = OUT_OF_TIME

    def _record(self, problem, options, raw, states, params) -> None:
        """Advance problem by problem, one iteration at a time, and record a trace of each."""
        begin = solving_time()
        for k in range(options.starts.shape[0]):
            piece, now, clock = slice(k, k + 1), params.copy(), []
            now[CHUNK_ITERATIONS] = 1.0
            trace = np.zeros((min(int(params[MAX_ITERATIONS]), TRACE_ROWS), TRACE_WIDTH))
            work = np.empty(self.memory(problem))
            with self._stopping(problem, now, options.deadline):
                while raw.codes[k] == RUNNING:
                    late = options.late
                    if late:
                        now[MAX_ITERATIONS] = 0.0
                    if states[k, ITERATIONS] >= len(trace):
                        trace = np.concatenate((trace, np.zeros_like(trace)))
                    self._enter(problem, options, raw, states, now, piece, trace, work)
                    clock.append(solving_time() - begin)
                    if late and raw.codes[k] == EXHAUSTED:
                        raw.codes[k] = OUT_OF_TIME
            rows = int(states[k, ITERATIONS])
            raw.traces.append(named_trace(trace[:rows], np.array(clock[:rows])))

    def part(self, problem: Problem) -> Part:
        """Return the part of the figure that the loop works on: all of it, unless the loop expands a part's poses."""
        return problem.whole

    def fitted(self, problem: Problem) -> Callable[..., Any]:
        """Return the loop for a problem, compiled only with what the problem needs, or the general one."""
        return type(self).loop

    def _enter(self, problem, options, raw, states, params, piece, trace, work) -> None:
        if work is None:
            work = scratch(self.memory(problem))
        constants, targets = problem.constants, problem.targets
        poses, starts, errors, codes = raw.poses, options.starts, raw.errors, raw.codes
        lower, upper = options.lower, options.upper
        if piece is not None:
            poses, starts, errors, codes = poses[piece], starts[piece], errors[piece], codes[piece]
            states = states[piece]
            constants = constants if constants.shape[0] == 1 else constants[piece]
            targets = targets if targets.shape[0] == 1 else targets[piece]
        part, loop = self.part(problem), self.fitted(problem)
        arguments = (
            part.figure, part.order, part.kind, constants, targets, part.pull, part.home, problem.tolerances,
            lower, upper, poses, starts, part.dofs, work, part.depth, states, params, errors, codes,
            trace,
        )  # fmt: skip
        if piece is None:
            call_directly(loop, arguments, problem._kept, (constants, targets, starts, lower, upper))
        else:
            loop(*arguments)


_EMPTY_TRACE = np.zeros((0, TRACE_WIDTH))
TRACE_ROWS = 1024  # of a new trace; it is doubled as needed, because most solves end long before max_iterations
TRACE_NAMES = ("energy", "gradient", "step", "damping", "active", "evaluations", "slope", "before")


def named_trace(trace: np.ndarray, seconds: np.ndarray) -> dict[str, np.ndarray]:
    """Return a trace (rows, TRACE_WIDTH) as columns by name, with the seconds since the start."""
    out = {name: trace[:, k] for k, name in enumerate(TRACE_NAMES)}
    out["seconds"] = seconds
    return out


def amount(value: float, problem: Problem, spring: int) -> str:
    """Return an error as text, in millimetres, degrees or pixels."""
    if problem.measures_pixels(spring):
        return f"{value:.3g} px"
    if problem.measures_angle(spring):
        return f"{np.degrees(value):.3g} deg"
    return f"{value * 1e3:.3g} mm" if value < 1.0 else f"{value:.3g} m"


def elapsed(seconds: float) -> str:
    """Return a time as text; calls that compiled something are in seconds."""
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{seconds * 1e3:.3g} ms"


def option_value(text: str) -> Any:
    """Return the value of a typed option: a number, several numbers, true, false, none or a word."""
    names = {"true": True, "false": False, "none": None}
    if text.lower() in names:
        return names[text.lower()]
    parts = text.split(",")
    try:
        numbers = [int(part) if part.strip().lstrip("+-").isdigit() else float(part) for part in parts]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def options_of(name: str) -> dict[str, Any]:
    """Return the options of a solver by name, with their defaults."""
    return {field.name: field.default for field in fields(SOLVERS.get(name)) if field.init}  # type: ignore[arg-type]  # a dataclass
