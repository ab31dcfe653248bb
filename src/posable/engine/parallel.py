"""The problems of a batch on every core: compiled loops over pieces of it, which release the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

MOST_THREADS = 256


def thread_count(threads: int | None = None) -> int:
    """Return how many threads to use: those asked for, or one for each core that this process may run on."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_pieces(
    work: Callable[[slice], None], count: int, size: int, threads: int | None = None, stopped: list[bool] | None = None
) -> None:
    """Call `work` for pieces of a batch, in any order, side by side; Control-C ends it after the pieces at hand.

    Args:
        work: Does one piece, in compiled code that releases the interpreter.
        count: Problems in the batch.
        size: Problems in a piece.
        threads: How many to use; every core by default.
        stopped: Given, it gets an element when the others are to stop, for pieces that take long.
    """
    stopped = [] if stopped is None else stopped
    pieces = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    threads = min(thread_count(threads), len(pieces))
    if threads <= 1:
        for piece in pieces:
            work(piece)
        return
    queue = iter(pieces)  # taking the next one is atomic: threads that are quick take more

    def take_all() -> None:
        for piece in queue:
            work(piece)
            if stopped:
                return

    others = [_pool().submit(take_all) for _ in range(threads - 1)]
    try:
        take_all()
    except BaseException:
        stopped.append(True)
        raise
    finally:
        for other in others:
            if not other.cancel():  # one that has not begun finds nothing left to do
                other.exception()
    for other in others:
        if not other.cancelled():
            other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process, kept from batch to batch: to start them takes milliseconds."""
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="posable")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
