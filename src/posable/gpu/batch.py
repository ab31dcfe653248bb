"""Batches on the GPU: copies in pieces and on several streams, attempts, and the solutions as a RawResult."""

from __future__ import annotations

import ctypes
import hashlib
import math
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posable.engine import jit as compiler
from posable.engine.assemble import pick_columns, target_place
from posable.engine.bounds import EXHAUSTED
from posable.engine.layout import AT, CONSTANTS, OFF, ROBUST, TARGETS
from posable.errors import PosableWarning, SolverError
from posable.goals.base import DeviceArray
from posable.gpu.codegen import BLOCK, KernelPlan, elements, moving_elements, source_of
from posable.gpu.device import Buffer, CudaError, Gpu, Module, Pinned, Stream, gpu, missing
from posable.gpu.newton import lane_turn
from posable.gpu.symbolic import Unsupported
from posable.problem import Problem
from posable.solvers.base import RawResult, SolveOptions, Solver, strength_of
from posable.solvers.newton import Newton

# --- Attempts ---

ROOM = 1 << 18  # attempts in parallel when fewer problems are left
MOST_AT_ONCE = 64  # parallel attempts per problem
TURNS = 50  # Newton steps of an attempt that others may follow
LAST_TURNS = 200  # Newton steps of a single attempt
FINISHING_TURNS = 60
SOURCE = np.dtype([("base", np.uint64), ("step", np.int64), ("at", np.int64), ("wide", np.int32), ("pad", np.int32)])


class StridedInput(NamedTuple):
    """Input of every problem on the GPU: element j of problem t is at at[j] + t * step."""

    pointer: int
    step: int
    at: np.ndarray
    wide: bool  # double precision
    owner: Any  # keeps the memory alive

    @classmethod
    def copy(cls, rows: np.ndarray, stream: Stream) -> StridedInput:
        """Copy rows (t, m) to the GPU, or one row that all problems share."""
        there = Buffer(stream, rows.shape, np.float64).take(rows)
        return cls(there.pointer, rows.shape[1] if len(rows) > 1 else 0, np.arange(rows.shape[1]), True, there)

    def later(self, problems: int) -> StridedInput:
        """Return the same input from another problem on."""
        return self._replace(at=self.at + problems * self.step)


def sources(givens: list[StridedInput], order: list[int], stream: Stream) -> Buffer:
    """Return the table from which a kernel reads the input of a problem: entry k is element order[k] of `given`."""
    rows = np.zeros(sum(len(g.at) for g in givens), dtype=SOURCE)
    k = 0
    for g in givens:
        part = rows[k : k + len(g.at)]
        part["base"], part["step"], part["at"], part["wide"] = g.pointer, g.step, g.at, g.wide
        k += len(g.at)
    rows = np.ascontiguousarray(rows[order]) if order else np.zeros(1, dtype=SOURCE)
    out = Buffer(stream, (rows.nbytes,), np.uint8).take(rows)
    stream.wait()
    return out


class DeviceSolutions(NamedTuple):
    """The solutions of a batch, on the GPU."""

    pose: Buffer  # (t, n) float64
    errors: Buffer  # (t, g) float64: of each spring [m, rad]
    code: Buffer  # (t,) int32: of engine/bounds.py; 1 is reached
    iterations: Buffer  # (t,) int32

    @classmethod
    def empty(cls, stream: Stream, total: int, n: int, g: int) -> DeviceSolutions:
        """Return memory for the solutions of `total` problems."""
        return cls(
            Buffer(stream, (total, n), np.float64), Buffer(stream, (total, g), np.float64),
            Buffer(stream, (total,), np.int32), Buffer(stream, (total,), np.int32),
        )  # fmt: skip

    def part(self, first: int, last: int) -> DeviceSolutions:
        """Return the solutions of some of the problems, in the same memory."""
        return DeviceSolutions(*(buffer.part(first, last) for buffer in self))


@lru_cache(maxsize=1)
def _own_source() -> bytes:
    """Return the source of this package, on which compiled problems depend."""
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


def identity(problem: Problem, plan: KernelPlan, box: tuple[np.ndarray, np.ndarray]) -> str:
    """Return a key of the compiled form of a problem: equal keys differ only in what is read at run time."""
    still = np.concatenate([problem.targets[0].ravel(), problem.constants[0].ravel()])
    still[list(plan.moving)] = 0.0
    digest = hashlib.sha256(_own_source() + repr(plan).encode())
    for array in (
        *problem.skeleton.figure, problem.order.rows, problem.kind, still, problem.pull, problem.home,
        problem.tolerances, *box,
    ):  # fmt: skip
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


class CompiledProblem:
    """A problem compiled for the GPU, and the loop of attempts."""

    def __init__(self, on: Gpu, problem: Problem, box: tuple[np.ndarray, np.ndarray], plan: KernelPlan):
        self.gpu, self.problem, self.box, self.plan = on, problem, box, plan
        self.main = self._module(plan)
        self._finish: Module | None = None

    def _module(self, plan: KernelPlan) -> Module:
        name = identity(self.problem, plan, self.box)
        folder = compiler.cache_folder(compiler.plain(lane_turn))
        return self.gpu.module(name, lambda: source_of(self.problem, plan, *self.box), folder)

    @property
    def finish(self) -> Module:
        """The kernels for the problems that remain at the end, compiled on first use."""
        if self._finish is None:
            self._finish = self._module(self.plan._replace(single=False, finish=True, alone=True))
        return self._finish

    def solve(
        self, out: DeviceSolutions, data: Buffer, starts: Buffer, *, restarts: int, seed: int, most: int | None
    ) -> None:
        """Solve the problems whose numbers the tables `data` and `starts` name, into `out`.

        most: turns of each problem, all of its attempts together; those side by side count once. Without it each
        attempt has TURNS.
        """
        usual = TURNS if restarts > 0 else LAST_TURNS
        work = BatchBuffers(self, out, data, starts, seed, usual if most is None else most, most is not None)
        many, made = 1, 0
        while True:
            work.attempt(self.main, many, made, self.plan.single)
            made += many
            if made > restarts or work.left == 0:
                break
            many = min(max(1, ROOM // work.left), MOST_AT_ONCE, restarts + 1 - made)
        if work.left > 0:
            work.most = min(work.most, FINISHING_TURNS) if most is None else work.most
            work.attempt(self.finish, 1, made, False)


class BatchBuffers:
    """The arrays of one piece of a batch while it is being solved."""

    def __init__(
        self, lanes: CompiledProblem, out: DeviceSolutions, data: Buffer, starts: Buffer, seed: int, most: int,
        shared: bool,
    ):  # fmt: skip
        self.lanes, self.out, self.stream = lanes, out, out.pose.stream
        self.total, self.n = total, _ = out.pose.shape
        self.data, self.starts, self.seed = data, starts, float((seed * 2654435761 + 12345) % 4294967296)
        self.most, stream = float(most), self.stream
        out.pose.fill(0)
        out.errors.fill(0x7FF00000)  # NaN until written
        out.code.fill(EXHAUSTED)
        out.iterations.fill(0)
        self.before = out.iterations if shared else self._ints(total, 0)  # steps that count against `most`
        self.lowest = Buffer(stream, (total,), np.float32).fill(0x7F800000)
        self.winner = self._ints(total, 0x7FFFFFFF)
        self.lists = [self._ints(total, 0), self._ints(total, 0)]
        self.list: Buffer | None = None
        self.left = total
        self.units, self.wide = 0, False
        self.counter = self._ints(2, 0)
        self._count = np.zeros(2, dtype=np.int32)

    def _ints(self, size: int, value: int) -> Buffer:
        return Buffer(self.stream, (size,), np.int32).fill(value)

    def attempt(self, module: Module, many: int, first: int, single: bool) -> None:
        """Make `many` attempts, numbered from `first`, at every unsolved problem, and judge them."""
        stream, out = self.stream, self.out
        count, places = self.left, self.list
        units = count * many
        if units > self.units or self.wide == single:
            self.poses = Buffer(stream, (units, self.n), np.float32 if single else np.float64)
            self.energies = Buffer(stream, (units,), np.float32)
            self.results, self.turns = self._ints(units, 0), self._ints(units, 0)
            self.units, self.wide = units, not single
        self.counter.fill(0)
        integer = ctypes.c_int
        module.launch(
            "attempts", min(module.blocks("attempts", BLOCK), -(-units // BLOCK)), BLOCK, stream,
            self.data, self.starts, out.pose, places, integer(count), integer(many), integer(first),
            ctypes.c_double(self.seed), ctypes.c_float(self.most), self.counter, self.before, self.winner,
            self.poses, self.energies, self.results, self.turns,
        )  # fmt: skip
        after = self.lists[0] if self.list is not self.lists[0] else self.lists[1]
        left = self.counter.fill(0)
        module.launch(
            "judge", -(-count // BLOCK), BLOCK, stream,
            self.data, self.starts, places, integer(count), integer(many), self.poses, self.energies, self.results,
            self.turns, self.winner, self.lowest, out.pose, out.errors, out.code, out.iterations, after, left,
        )  # fmt: skip
        self.list = after
        left.give(self._count)
        stream.wait()
        self.left = int(self._count[0])


# --- Copies to the GPU and back ---

CHUNK = 1 << 17  # problems per piece: enough to fill a GPU, few enough for computation and copies to overlap
LARGEST = 1 << 24  # problems per piece if nothing is copied
STREAMS = 4  # concurrent pieces: one is packed, one copied, one computed, one unpacked
SHARE = 0.8  # fraction of the free memory that a batch may use
CROSSING = 1000  # problems from which "auto" uses the GPU: it overtakes 16 cores at about 100 (docs/scaling.md)


class DeviceCheckedResult(RawResult):
    """The result of a batch whose errors were evaluated on the GPU, in double precision."""

    __slots__ = ()


# where the arrays of a RawResult are on the GPU; there is one evaluation of the energy per step
ON_GPU = {"poses": "pose", "errors": "errors", "codes": "code", "iterations": "iterations", "evaluations": "iterations"}


class DeviceResult(RawResult):
    """A result that stays on the GPU; each of its arrays is copied to the host when it is first read."""

    __slots__ = ("answers",)

    def __init__(self, answers: DeviceSolutions):
        self.answers = answers
        self.traces = []

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in ON_GPU:
            raise AttributeError(name)
        value = getattr(self.answers, ON_GPU[name]).numpy()
        setattr(self, name, value.astype(np.int64) if name == "codes" else value)
        return getattr(self, name)


class DeviceProblem(Problem):
    """A problem whose targets are on the GPU; they are copied to the host when read, for a status or `blocking`."""

    def __init__(self, problem: Problem, shape: tuple[int, ...]):
        self.__dict__.update(problem.__dict__)
        self._template_targets = problem.targets
        self.batch_shape = shape

    @cached_property
    def targets(self) -> np.ndarray:  # type: ignore[override]  # read when needed
        """(t, g, TARGETS)."""
        total = int(np.prod(self.batch_shape))
        out = np.repeat(self._template_targets, total // len(self._template_targets), axis=0)
        for k, goal in enumerate(self.goals):
            if goal.device_array is not None:
                values = fetched(goal.device_array).reshape(-1, math.prod(goal.target_shape))
                picked, places = target_columns(self, k)
                out.reshape(total, -1)[:, places] = values[:, picked]
        return out


def serves(problem: Problem, solver: Solver, options: SolveOptions) -> str | None:
    """Return why a call cannot run on a GPU, or None if it can."""
    if not isinstance(solver, Newton):
        return f"the solver {solver.name!r}: only 'newton' runs on a GPU"
    if not problem.plain:
        return "goals of several priorities, choices or energies in Python: they run on the CPU"
    if options.record or options.deadline is not None:
        return "a trace or a time limit: they are kept on the CPU"
    if problem.figure.pair.shape[0]:
        return "NoCollision: it runs on the CPU"
    if problem.skeleton.size == 0 or not problem.springs:
        return "a figure that cannot move, or no goal"
    if (strength_of(problem) != 1.0).any():
        return "joints of different strength (gain): they are solved on the CPU"
    return None


def moving_of(problem: Problem) -> tuple[int, ...]:
    """Return the elements that differ between problems; for targets that are not packed, all that goals write."""
    if not problem.streams_targets:
        return moving_elements(problem)
    return tuple(sorted(place for k in range(len(problem.goals)) for place in target_columns(problem, k)[1]))


def target_columns(problem: Problem, goal: int) -> tuple[list[int], list[int]]:
    """Return the elements of a goal's target, and where they go in the targets (g, TARGETS), counted by rows."""
    size, row = math.prod(problem.goals[goal].target_shape), problem.first_rows[goal]
    picked, places = [], []
    for k in range(size):
        spring, column = compiler.plain(target_place)(size, k)
        if spring >= 0:
            picked.append(k)
            places.append((row + spring) * TARGETS + column)
    return picked, places


def lanes_for(on: Gpu, problem: Problem, options: SolveOptions, plan: KernelPlan) -> CompiledProblem:
    """Return a problem compiled for the GPU; raise SolverError if that is not possible."""
    one = problem.first_alone() if problem.streams_targets else problem
    try:
        return CompiledProblem(on, one, (options.lower, options.upper), plan)
    except Unsupported as error:
        raise SolverError("device 'cuda'", expected="goals that a GPU supports", got=str(error)) from None


def solve_on(
    problem: Problem, solver: Solver, options: SolveOptions, shape: tuple[int, ...], device: str, precision: str,
    start: DeviceArray | None,
) -> tuple[Problem, RawResult, tuple[int, ...]] | None:  # fmt: skip
    """Solve on the GPU if device is "cuda" or "auto" selects it: (problem, result, shape); None: use the CPU."""
    arrays = [goal.device_array for goal in problem.goals if goal.device_array is not None]
    leads = [r.shape[: len(r.shape) - len(g.target_shape)] for g in problem.goals if (r := g.device_array) is not None]
    leads += [start.shape[:-1]] if start is not None else []
    try:
        shape = np.broadcast_shapes(shape, *leads)
    except ValueError:
        raise SolverError("targets on the GPU", expected="leading axes that agree", got=f"{leads}") from None
    total = int(np.prod(shape))
    away = bool(arrays) or start is not None
    reason = serves(problem, solver, options)
    if device == "auto" and not away:
        if total < CROSSING:
            return None
        reason = reason or missing()
        if reason is not None:
            warnings.warn(f"solved on the CPU: {reason}", PosableWarning, stacklevel=4)
            return None
    if reason is not None:
        raise SolverError("device 'cuda'", expected="what a GPU supports", got=reason)
    outcome = solve_on_gpu(problem, options, precision, total, OwnInput(), start=start)
    return DeviceProblem(problem, shape) if arrays else problem, outcome, shape


class OwnInput(NamedTuple):
    """Numbers of every problem that are neither its targets nor its start."""

    values: np.ndarray | None = None  # (t, m): in the order of `KernelPlan.moving`, instead of the goals' targets
    lower: np.ndarray | None = None  # (t, n) [rad, m]: limits, of all problems or of none
    upper: np.ndarray | None = None
    pull: float | None = None  # stiffness of a spring on every degree of freedom towards its start, of all problems


def solve_on_gpu(
    problem: Problem, options: SolveOptions, precision: str, total: int, own: OwnInput, *,
    start: DeviceArray | None = None, moving: tuple[int, ...] | None = None,
) -> RawResult:  # fmt: skip
    """Solve a batch of `total` problems on the GPU; own and moving: see `solve_each`."""
    try:
        on = gpu()
        on.enter()
        plan = KernelPlan(
            moving_of(problem) if moving is None else moving, precision == "single", False, options.restarts == 0,
            own_limits=own.lower is not None, to_start=own.pull is not None,
        )  # fmt: skip
        lanes = lanes_for(on, problem, options, plan)
        if start is not None or any(goal.device_array is not None for goal in problem.goals):
            return solve_in_place(on, lanes, problem, options, total, start)
        return solve_in_chunks(on, lanes, problem, options, total, own)
    except CudaError as error:
        raise SolverError("device 'cuda'", expected="a working NVIDIA GPU", got=str(error)) from None


def solve_each(
    problem: Problem, options: SolveOptions, total: int, own: OwnInput, *,
    moving: tuple[int, ...] | None = None, precision: str = "single",
) -> RawResult:  # fmt: skip
    """Solve `total` problems with limits or numbers of their own on the GPU.

    Args:
        problem: The goals; a batch, or one problem whose `moving` elements are in `own.values`.
        options: The options. Its box is that of the degrees of freedom that no goal moves.
        total: How many problems there are.
        own: What differs from problem to problem.
        moving: The elements that `own.values` holds, counted as `moving_elements` does.
        precision: Of the steps, "single" or "double".

    Returns:
        The result, judged in double precision.

    Raises:
        SolverError: There is no GPU, or it does not support such goals.
    """
    reason = serves(problem, Newton(), options)
    if reason is not None:
        raise SolverError("device 'cuda'", expected="what a GPU supports", got=reason)
    return solve_on_gpu(problem, options, precision, total, own, moving=moving)


def footprint(problem: Problem, lanes: CompiledProblem) -> int:
    """Return the GPU memory [bytes] of one problem."""
    n, g = problem.skeleton.size, len(problem.springs)
    return 8 * n + 8 * g + 4 * n * 3 + 48 + 8 * (len(lanes.plan.moving) + 3 * n)


def chunk_size(on: Gpu, problem: Problem, lanes: CompiledProblem, at_a_time: int, most: int) -> int:
    """Return how many problems fit on the GPU at once."""
    room = int(SHARE * on.free_memory()) // (footprint(problem, lanes) * at_a_time)
    if room < 1:
        raise CudaError(f"{on.free_memory() / 2**20:.0f} MiB of free memory are too little")
    return min(most, room)


# --- Input from the host ---


def solve_in_chunks(
    on: Gpu, lanes: CompiledProblem, problem: Problem, options: SolveOptions, total: int, own: OwnInput
) -> RawResult:
    """Solve a batch piece by piece on several streams, so that packing, copies and computation overlap."""
    n, g = problem.skeleton.size, len(problem.springs)
    out = DeviceCheckedResult(
        np.empty((total, n)), np.empty(total, dtype=np.int64), np.empty((total, g)), np.empty(total), np.empty(total)
    )
    size = chunk_size(on, problem, lanes, STREAMS, CHUNK)
    pieces = [(first, min(first + size, total)) for first in range(0, total, size)]
    local = threading.local()
    senders: list[BatchStream] = []

    def one(piece: tuple[int, int]) -> None:
        on.enter()
        if not hasattr(local, "sender"):
            local.sender = BatchStream(on, lanes, problem, options, own)
            senders.append(local.sender)
        local.sender.solve(out, *piece)

    if len(pieces) == 1:
        one(pieces[0])
    else:
        with ThreadPoolExecutor(STREAMS) as pool:
            list(pool.map(one, pieces))
    for sender in senders:
        sender.close()
    return out


class BatchStream:
    """A stream with its own pinned memory that copies pieces of a batch to the GPU and their solutions back."""

    def __init__(self, on: Gpu, lanes: CompiledProblem, problem: Problem, options: SolveOptions, own: OwnInput):
        self.stream, self.lanes, self.problem, self.options, self.own = Stream(on), lanes, problem, options, own
        self.idle: list[list[Pinned]] = vars(on).setdefault("idle_pinned", [])  # pinning is slow: keep it
        self.pinned = self.idle.pop() if self.idle else [Pinned(on) for _ in range(9)]
        self.columns = []
        if problem.streams_targets and own.values is None:
            at = {place: k for k, place in enumerate(lanes.plan.moving)}
            every = (target_columns(problem, k) for k in range(len(problem.goals)))
            self.columns = [(np.array(picked), np.array([at[place] for place in places])) for picked, places in every]
            self.values = problem.target_values()

    def close(self) -> None:
        """Release the pinned memory for the next batch."""
        self.idle.append(self.pinned)
        self.pinned = []

    def _send_targets(self, first: int, last: int) -> StridedInput:
        """Copy the targets of some problems to the GPU: those of the goals if they are not packed."""
        if self.own.values is not None:
            return self._send(0, self.own.values[first:last])
        if not self.columns:
            return self._send(0, elements(self.problem, self.lanes.plan.moving, first, last))
        width = len(self.lanes.plan.moving)
        here = self.pinned[0].array((last - first, width), np.float64)
        for values, (columns, places) in zip(self.values, self.columns, strict=True):
            pick_columns(values[first:last], columns, here, places)
        return StridedInput.copy(here, self.stream)

    def _send(self, place: int, values: np.ndarray) -> StridedInput:
        """Copy rows (t, m) to the GPU, in double precision, because solutions are judged by them."""
        here = self.pinned[place].array(values.shape, np.float64)
        here[...] = values
        return StridedInput.copy(here, self.stream)

    def solve(self, out: RawResult, first: int, last: int) -> None:
        """Solve one piece and write its solutions into `out`."""
        problem, options, stream = self.problem, self.options, self.stream
        n, moving = problem.skeleton.size, self.lanes.plan.moving
        targets = self._send_targets(first, last)
        starts = options.starts if len(options.starts) == 1 else options.starts[first:last]
        if len(starts) > 1 and (starts == starts[0]).all():
            starts = starts[:1]
        begin = self._send(1, starts)
        given, lower, upper = [targets], options.lower, options.upper
        if self.own.lower is not None and self.own.upper is not None:
            lower, upper = self.own.lower[first:last], self.own.upper[first:last]
            dofs = problem.moving.dofs
            given += [self._send(6, lower[:, dofs]), self._send(7, upper[:, dofs])]
        if self.own.pull is not None:
            given.append(self._send(8, np.array([[self.own.pull]])))
        answers = DeviceSolutions.empty(stream, last - first, n, len(problem.springs))
        numbers = len(moving) + sum(len(g.at) for g in given[1:])
        self.lanes.solve(
            answers, sources(given, list(range(numbers)), stream), sources([begin], list(range(n)), stream),
            restarts=options.restarts, seed=options.seed, most=options.max_iterations,
        )  # fmt: skip
        here = [
            buffer.give(pinned.array(buffer.shape, buffer.dtype))
            for buffer, pinned in zip(answers, self.pinned[2:6], strict=True)
        ]
        stream.wait()
        piece = slice(first, last)
        np.clip(here[0], lower, upper, out=out.poses[piece])
        _, out.errors[piece], out.codes[piece], out.iterations[piece] = here
        out.evaluations[piece] = here[3]


# --- Input on the GPU ---


def solve_in_place(
    on: Gpu, lanes: CompiledProblem, problem: Problem, options: SolveOptions, total: int, start: DeviceArray | None
) -> RawResult:
    """Solve a batch whose targets or starts are already on the GPU; the solutions stay there too."""
    stream = Stream(on)
    on.settle()  # work that wrote the arrays has finished
    given, order = device_targets(problem, lanes.plan.moving, stream, total)
    n = problem.skeleton.size
    begin = strided_input(start, 1, total) if start is not None else sent(options.starts, stream)
    answers = DeviceSolutions.empty(stream, total, n, len(problem.springs))
    size = chunk_size(on, problem, lanes, 1, LARGEST)
    for first in range(0, total, size):
        last = min(first + size, total)
        lanes.solve(
            answers.part(first, last),
            sources([g.later(first) for g in given], order, stream),
            sources([begin.later(first)], list(range(n)), stream),
            restarts=options.restarts, seed=options.seed, most=options.max_iterations,
        )  # fmt: skip
    return DeviceResult(answers)


def strided_input(found: DeviceArray, axes: int, total: int) -> StridedInput:
    """Return an array on the GPU whose last axes belong to one problem as the input of every problem, or of all."""
    shape, strides = found.shape, found.strides
    lead = len(shape) - axes
    at = np.zeros(1, dtype=np.int64)
    for axis in range(lead, len(shape)):
        at = (at[:, None] + np.arange(shape[axis]) * strides[axis]).ravel()
    count = int(np.prod(shape[:lead]))
    if count not in (1, total):
        raise SolverError("targets on the GPU", expected=f"leading axes of {total} problems", got=f"shape {shape}")
    return StridedInput(
        found.pointer, strides[lead - 1] if count > 1 else 0, at, found.dtype == np.float64, found.owner
    )


def fetched(found: DeviceArray) -> np.ndarray:
    """Copy an array from the GPU to the host."""
    extent = 1 + sum((size - 1) * step for size, step in zip(found.shape, found.strides, strict=True))
    flat = gpu().fetch(found.pointer, np.empty(extent, found.dtype))
    return np.lib.stride_tricks.as_strided(flat, found.shape, [s * found.dtype.itemsize for s in found.strides])


def sent(rows: np.ndarray, stream: Stream) -> StridedInput:
    """Copy rows (t, m) from the host; a single row if all are equal."""
    if len(rows) > 1 and (rows == rows[0]).all():
        rows = rows[:1]
    out = StridedInput.copy(np.ascontiguousarray(rows), stream)
    stream.wait()
    return out


def device_targets(
    problem: Problem, moving: tuple[int, ...], stream: Stream, total: int
) -> tuple[list[StridedInput], list[int]]:
    """Return the input that differs between problems: in the user's arrays, or copied from the host."""
    here = sent(elements(problem, moving), stream)
    given, order = [here], list(range(len(moving)))
    base = len(moving)
    for k, goal in enumerate(problem.goals):
        if goal.device_array is None:
            continue
        given.append(strided_input(goal.device_array, len(goal.target_shape), total))
        for element, place in zip(*target_columns(problem, k), strict=True):
            order[moving.index(place)] = base + element
        base += len(given[-1].at)
    return given, order


# --- Frames of a take: every frame has its own markers, and starts from a pose near its own ---

FRAME_ITERATIONS = 12


def solve_markers(solver: Any, places: np.ndarray, starts: np.ndarray, pull: float) -> np.ndarray:
    """Return poses (t, n) that bring the sites of a frame solver to markers.

    Args:
        solver: Its `problem`, its box `lower`, `upper` (n,), and `robust` (g,), the scales of its springs.
        places: (t, m, 3) [m] Of the markers, NaN where unseen; the first m springs of the problem follow them.
        starts: (t, n) [rad, m].
        pull: [m^2/rad^2] Towards the start.

    Raises:
        SolverError: There is no GPU, or it does not support the figure.
    """
    if not len(places):
        return starts.copy()
    markers, split = places.shape[1], len(solver.problem.springs) * TARGETS
    seen = np.asarray(np.isfinite(places).all(axis=-1))
    values = np.empty((len(places), 4 * markers))
    values[:, : 3 * markers] = np.where(seen[..., None], places, 0.0).reshape(len(places), -1)
    values[:, 3 * markers :] = np.where(seen, solver.robust[:markers], OFF)
    moving = [k * TARGETS + AT + i for k in range(markers) for i in range(3)]
    moving += [split + k * CONSTANTS + ROBUST for k in range(markers)]
    problem = minimised(solver.problem)
    options = SolveOptions(np.clip(starts, solver.lower, solver.upper), solver.lower, solver.upper, FRAME_ITERATIONS)
    return solve_each(problem, options, len(places), OwnInput(values, pull=pull), moving=tuple(moving)).poses


def minimised(problem: Problem) -> Problem:
    """Return a problem whose energy is minimised, however near its goals are."""
    out = problem.part(0, None)
    out.tolerances, out.soft = np.full_like(problem.tolerances, np.inf), True
    return out
