"""Batches on a GPU: attempts side by side until every problem has an answer or its restarts are used up.

The first attempt goes from each problem's start. Problems without an answer are tried again from other starts, as many
at a time as the GPU has room for; of those that reach it the one with the lowest number counts, so the answer does
not depend on which was first. What is still left is finished in double precision, where a stationary pose is one.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posable.gpu.driver import Buffer, Gpu, Module, Stream
from posable.gpu.lanes import lane_turn
from posable.gpu.source import BLOCK, Plan, source_of
from posable.kernels import compiler
from posable.kernels.stepping import EXHAUSTED
from posable.problem import Problem

ROOM = 1 << 18  # attempts that are made side by side where fewer problems are left
MOST_AT_ONCE = 64  # attempts at one problem side by side
TURNS = 50  # of an attempt, where others may follow
LAST_TURNS = 200  # of the only attempt
FINISHING_TURNS = 60
SOURCE = np.dtype([("base", np.uint64), ("step", np.int64), ("at", np.int64), ("wide", np.int32), ("pad", np.int32)])


class Given(NamedTuple):
    """Numbers of every problem on the GPU: element j of problem t lies at at[j] + t * step."""

    pointer: int
    step: int
    at: np.ndarray
    wide: bool  # double precision
    owner: Any  # keeps the memory alive

    def later(self, problems: int) -> Given:
        """Return the same numbers from another problem on."""
        return self._replace(at=self.at + problems * self.step)


def sources(givens: list[Given], order: list[int], stream: Stream) -> Buffer:
    """Return the table from which a kernel reads a problem's numbers: entry k is element order[k] of all given."""
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


class Answers(NamedTuple):
    """What came of a batch, on the GPU."""

    pose: Buffer  # (t, n) float64
    errors: Buffer  # (t, g) float64: of each spring [m, rad]
    code: Buffer  # (t,) int32: of kernels/stepping.py; 1 is reached
    iterations: Buffer  # (t,) int32

    @classmethod
    def empty(cls, stream: Stream, total: int, n: int, g: int) -> Answers:
        """Return memory for the answers to `total` problems."""
        return cls(
            Buffer(stream, (total, n), np.float64), Buffer(stream, (total, g), np.float64),
            Buffer(stream, (total,), np.int32), Buffer(stream, (total,), np.int32),
        )  # fmt: skip

    def part(self, first: int, last: int) -> Answers:
        """Return those of some of the problems, in the same memory."""
        return Answers(*(buffer.part(first, last) for buffer in self))


@lru_cache(maxsize=1)
def _own_source() -> bytes:
    """Return the text of this package: what it makes of a problem depends on it."""
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


def identity(problem: Problem, plan: Plan, box: tuple[np.ndarray, np.ndarray]) -> str:
    """Return a name for the compiled form of a problem: two with one name differ only in what is read as it runs."""
    still = problem.data[0].ravel().copy()
    still[list(plan.moving)] = 0.0
    digest = hashlib.sha256(_own_source() + repr(plan).encode())
    for array in (
        *problem.skeleton.figure, problem.order.rows, problem.kind, still, problem.pull, problem.home,
        problem.tolerances, *box,
    ):  # fmt: skip
        digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


class Lanes:
    """A problem compiled for the GPU, and the loop of attempts."""

    def __init__(self, on: Gpu, problem: Problem, box: tuple[np.ndarray, np.ndarray], plan: Plan):
        self.gpu, self.problem, self.box, self.plan = on, problem, box, plan
        self.main = self._module(plan)
        self._finish: Module | None = None

    def _module(self, plan: Plan) -> Module:
        name = identity(self.problem, plan, self.box)
        folder = compiler.cache_folder(compiler.plain(lane_turn))
        return self.gpu.module(name, lambda: source_of(self.problem, plan, *self.box), folder)

    @property
    def finish(self) -> Module:
        """The kernels that finish what is left, compiled when something is."""
        if self._finish is None:
            self._finish = self._module(self.plan._replace(single=False, finish=True, alone=True))
        return self._finish

    def solve(self, out: Answers, data: Buffer, starts: Buffer, *, restarts: int, seed: int, most: int | None) -> None:
        """Solve the problems whose numbers the tables `data` and `starts` name, into `out`.

        most: turns of each problem, all of its attempts together; those side by side count once. Without it each
        attempt has TURNS.
        """
        usual = TURNS if restarts > 0 else LAST_TURNS
        work = Work(self, out, data, starts, seed, usual if most is None else most, most is not None)
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


class Work:
    """The arrays of one piece of a batch while it is being solved."""

    def __init__(self, lanes: Lanes, out: Answers, data: Buffer, starts: Buffer, seed: int, most: int, shared: bool):
        self.lanes, self.out, self.stream = lanes, out, out.pose.stream
        self.total, self.n = total, _ = out.pose.shape
        self.data, self.starts, self.seed = data, starts, float((seed * 2654435761 + 12345) % 4294967296)
        self.most, stream = float(most), self.stream
        out.pose.fill(0)
        out.errors.fill(0x7FF00000)  # no number, until there is one
        out.code.fill(EXHAUSTED)
        out.iterations.fill(0)
        self.before = out.iterations if shared else self._ints(total, 0)  # turns that count against `most`
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
        """Make `many` attempts, numbered from `first`, at every problem that is left, and judge them."""
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
