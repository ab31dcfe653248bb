"""Many goals at once: their rows, the memory that the compiled code works in, the cores that share them."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .circle import SCRATCH

PARALLEL_FROM = 2048  # goals in a batch from which on all cores share it
_memory = threading.local()


def scratch_memory() -> np.ndarray:
    """Return this thread's scratch memory for one limb."""
    if not hasattr(_memory, "work"):
        _memory.work = np.zeros(SCRATCH)
    return _memory.work


def share_out(count: int, part: Callable[[int, int], None]) -> None:
    """Do part(low, high) for all rows of a batch: at once, or in pieces on all cores."""
    workers = min(os.cpu_count() or 1, count // (PARALLEL_FROM // 2))
    if count < PARALLEL_FROM or workers < 2:
        part(0, count)
        return
    part(0, 1)  # compiles before the threads start
    edges = np.linspace(1, count, 4 * workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(part, edges[:-1], edges[1:]))


def around_of(base: Any) -> tuple[int, ...]:
    """Return the leading axes of a base pose."""
    return () if base is None else np.shape(base)[:-1]


def spread(rows: np.ndarray, around: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    """Return rows (t, k) with leading axes `around` as those of all goals; one row stays one."""
    if around in ((), lead):
        return rows
    out = np.broadcast_to(rows.reshape(*around, rows.shape[1]), (*lead, rows.shape[1]))
    return np.ascontiguousarray(out.reshape(math.prod(lead), rows.shape[1]))


class Goals(NamedTuple):
    """What a limb is asked for, in rows; one row stands for all where there is only one."""

    task: int
    lead: tuple[int, ...]
    targets: np.ndarray  # (t, 12)
    poses: np.ndarray  # (., n): the base
    roots: np.ndarray  # (., 12): the first joint's rest frame
    helds: np.ndarray  # (., 3): the last joint's raw numbers
    swivels: np.ndarray  # (.,) [rad], NaN for none
    elbows: np.ndarray  # (., 3) [m], NaN for none

    def rows(self, which: Any) -> Goals:
        """Return some of the goals."""
        count = self.targets.shape[0]
        parts = (rows[which] if rows.shape[0] == count and count > 1 else rows for rows in self[3:])
        return Goals(self.task, self.lead, self.targets[which], *parts)
