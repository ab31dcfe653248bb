"""What a solver is: frozen options and a loop; and the machinery that compiled loops share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from functools import lru_cache, wraps
from typing import Any, ClassVar, NamedTuple

import numpy as np

from posable.engine.bounds import EXHAUSTED, RUNNING, TRACE_WIDTH
from posable.errors import SolverError, unknown
from posable.problem import Problem
from posable.registry import Registry

SOLVERS = Registry("solver")

CHUNK = 64  # problems a thread takes at a time
SMALL = 16  # problems that are not worth a second thread
OUT_OF_TIME = -1  # an outcome that the machinery gives, beside those of kernels/stepping.py


def register(name: str) -> Callable[[Any], Any]:
    """Return a decorator that enters a solver under a name; an option that it does not have then suggests one."""

    def enter(thing: Any) -> Any:
        if isinstance(thing, type) and is_dataclass(thing):
            _check_options(thing, name)
        return SOLVERS.register(name)(thing)

    return enter


def _check_options(solver: type, name: str) -> None:
    """Let the constructor of a solver, a dataclass, raise UnknownName for an option that it does not have."""
    make = solver.__init__
    options = [field.name for field in fields(solver)]

    @wraps(make)
    def __init__(self: Any, *values: Any, **chosen: Any) -> None:
        for option in chosen:
            if option not in options:
                raise unknown(f"option of {name}", option, options)
        make(self, *values, **chosen)

    solver.__init__ = __init__


class Outcome:
    """What a solver leaves behind, before anybody judges it: one row per problem of the batch.

    poses (t, n); codes (t,) of kernels/stepping.py, or OUT_OF_TIME; errors (t, g) of each spring [m, rad];
    iterations and evaluations (t,); traces, one per problem where they were asked for.
    """

    __slots__ = ("codes", "errors", "evaluations", "iterations", "poses", "traces")

    def __init__(
        self,
        poses: np.ndarray,
        codes: np.ndarray,
        errors: np.ndarray,
        iterations: Any,
        evaluations: Any,
        traces: Any = None,
    ):
        self.poses, self.codes, self.errors = poses, codes, errors
        self.iterations, self.evaluations = iterations, evaluations
        self.traces: list[dict[str, np.ndarray]] = traces or []


class Request(NamedTuple):
    """What the front door asks of a solver, checked: the box, the starts, the limits of the work."""

    starts: np.ndarray  # (t, n), inside the box
    lower: np.ndarray  # (n,), frozen, as the loops were compiled for
    upper: np.ndarray  # (n,), frozen
    max_iterations: int | None = None
    restarts: int = 0
    seed: int = 0
    time_limit: float | None = None
    record: bool = False
    threads: int | None = None


class Solver:
    """A method with its options. Children are frozen dataclasses, registered by name."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    iterations: ClassVar[int] = 200  # default of max_iterations

    def check(self, problem: Problem) -> None:
        """Raise SolverError where the method cannot serve the problem."""

    def run(self, problem: Problem, request: Request) -> Outcome:
        """Solve every problem of the batch."""
        raise NotImplementedError

    def told(self, problem: Problem, request: Request, outcome: Outcome) -> str:
        """Return how a result names the method; what kept it from its goals belongs there."""
        return self.name


def strength_of(problem: Problem) -> np.ndarray:
    """Return the strength (n,) of each dof, `Joint.gain`: how readily it moves. Those that never move have 1."""
    gain = problem.skeleton.gain
    return np.where(gain > 0.0, gain, 1.0)


def refuse_strength(problem: Problem, name: str) -> None:
    """Raise SolverError where joints differ in strength and the method has no metric that could heed it."""
    weak = np.flatnonzero(strength_of(problem) != 1.0)
    if weak.size:
        dof = problem.skeleton.dof_names[weak[0]]
        raise SolverError(
            name, expected="joints of strength 1: the method has no metric in which one joint could move more readily",
            got=f"gain {problem.skeleton.gain[weak[0]]:g} of {dof!r}; use 'newton' or 'dls'",
        )  # fmt: skip


class CompiledSolver(Solver):
    """A solver whose loop is one compiled entry over a batch; adds threads, time limits and traces."""

    state_width: ClassVar[int] = 12
    loop: ClassVar[Callable[..., Any]]
    # columns of the state that the loop keeps
    seed_column: ClassVar[int] = 0
    iteration_column: ClassVar[int] = 4
    evaluation_column: ClassVar[int] = 5
    best_column: ClassVar[int] = 8

    def limits(self, problem: Problem, request: Request) -> np.ndarray:
        """Return the numbers that the loop reads; the first is how many iterations it may make before it returns."""
        raise NotImplementedError

    def memory(self, problem: Problem) -> int:
        """Return how many numbers of scratch memory the loop needs for one problem."""
        return problem.work_size

    def run(self, problem: Problem, request: Request) -> Outcome:
        """Solve every problem: in one entry, on several threads, or in small pieces where time or a trace is wanted."""
        t = request.starts.shape[0]
        states = self._fresh(request.seed).repeat(t, axis=0)
        outcome = Outcome(
            request.starts.copy(),
            np.zeros(t, dtype=np.int64),
            np.empty((t, len(problem.springs))),
            states[:, self.iteration_column],
            states[:, self.evaluation_column],
        )
        limits = self.limits(problem, request)
        if request.record or request.time_limit is not None:
            self._run_in_pieces(problem, request, outcome, states, limits)
        elif t <= SMALL or (request.threads or os.cpu_count() or 1) == 1:
            self._enter(problem, request, outcome, states, limits, None, _EMPTY_TRACE, None)
        else:
            self._run_on_threads(problem, request, outcome, states, limits)
        return outcome

    @classmethod
    @lru_cache(maxsize=64)
    def _fresh(cls, seed: int) -> np.ndarray:
        """Return the state (1, w) that a problem begins with."""
        state = np.zeros((1, cls.state_width))
        state[0, cls.seed_column] = (seed * 2654435761 + 12345) % 4294967296
        state[0, cls.best_column] = np.inf
        return state

    def _run_on_threads(self, problem, request, outcome, states, limits) -> None:
        """Solve pieces of a batch side by side; each problem is solved as it would be alone: the bits are the same."""
        t = request.starts.shape[0]
        threads = request.threads or os.cpu_count() or 1
        step = min(CHUNK, -(-t // threads))
        with ThreadPoolExecutor(threads) as pool:
            pieces = [slice(i, min(i + step, t)) for i in range(0, t, step)]
            done = [
                pool.submit(self._enter, problem, request, outcome, states, limits, piece, _EMPTY_TRACE, None)
                for piece in pieces
            ]
            for future in done:
                future.result()

    def _enter(self, problem, request, outcome, states, limits, piece, trace, work) -> None:
        if work is None:
            work = np.empty(self.memory(problem))
        constants, targets = problem.constants, problem.targets
        poses, starts, errors, codes = outcome.poses, request.starts, outcome.errors, outcome.codes
        if piece is not None:
            poses, starts, errors, codes, states = (
                poses[piece],
                starts[piece],
                errors[piece],
                codes[piece],
                states[piece],
            )
            constants = constants if constants.shape[0] == 1 else constants[piece]
            targets = targets if targets.shape[0] == 1 else targets[piece]
        type(self).loop(
            problem.figure, problem.order, problem.kind, constants, targets, problem.pull, problem.home,
            problem.tolerances, request.lower, request.upper, poses, starts, work, problem.depth, states, limits,
            errors, codes, trace,
        )  # fmt: skip

    def _run_in_pieces(self, problem, request, outcome, states, limits) -> None:
        """Advance problem by problem, a few iterations at a time, watching the clock; one at a time for a trace."""
        begin = time.perf_counter()
        limits = limits.copy()
        limits[0] = 1 if request.record else 8
        for k in range(request.starts.shape[0]):
            piece = slice(k, k + 1)
            trace = np.zeros((int(limits[1]), TRACE_WIDTH)) if request.record else _EMPTY_TRACE
            work = np.empty(self.memory(problem))
            clock: list[float] = []
            while outcome.codes[k] == RUNNING:
                late = request.time_limit is not None and time.perf_counter() - begin >= request.time_limit
                now = limits.copy()
                if late:
                    now[1] = states[k, self.iteration_column]  # no more of them: the loop puts back its best pose
                self._enter(problem, request, outcome, states, now, piece, trace, work)
                clock.append(time.perf_counter() - begin)
                if late and outcome.codes[k] == EXHAUSTED:
                    outcome.codes[k] = OUT_OF_TIME
            if request.record:
                rows = int(states[k, self.iteration_column])
                outcome.traces.append(named_trace(trace[:rows], np.array(clock[:rows])))


_EMPTY_TRACE = np.zeros((0, TRACE_WIDTH))
TRACE_NAMES = ("energy", "gradient", "step", "damping", "active", "evaluations", "slope", "before")


def named_trace(trace: np.ndarray, seconds: np.ndarray) -> dict[str, np.ndarray]:
    """Return a trace (rows, TRACE_WIDTH) as columns by name, with the seconds since the start."""
    out = {name: trace[:, k] for k, name in enumerate(TRACE_NAMES)}
    out["seconds"] = seconds
    return out
