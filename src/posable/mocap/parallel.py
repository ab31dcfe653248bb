"""Long computations in pieces on threads: the same pieces, and results, for any number of threads."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from posable.errors import PosableWarning

Progress = bool | Callable[[int, int], Any] | None
Stop = Callable[[], bool] | None

BAR_AFTER = 1.0  # [s] before a bar is shown


def pieces(total: int, size: int, lead: int = 0) -> list[tuple[int, int, int]]:
    """Return (first frame to solve, first frame to keep, end) of the pieces of a clip; each starts `lead` early."""
    return [(max(0, start - lead), start, min(start + size, total)) for start in range(0, total, size)]


class ProgressBar:
    """A progress bar on standard error after the first second, or the function that the caller passed."""

    def __init__(self, progress: Progress, total: int, what: str):
        self.progress, self.total, self.what = progress, total, what
        self.begin = time.perf_counter()
        self.shown = False

    def __call__(self, done: int) -> None:
        """Report how many of the total are done."""
        if callable(self.progress):
            self.progress(done, self.total)
            return
        passed = time.perf_counter() - self.begin
        if not self.progress or passed < BAR_AFTER or not sys.stderr.isatty():
            return
        self.shown = True
        share = done / max(self.total, 1)
        filled = int(30 * share)
        rate = done / max(passed, 1e-9)
        print(
            f"\r{self.what} [{'#' * filled}{'.' * (30 - filled)}] {share:4.0%}  {rate:.0f} frames/s",
            end="",
            file=sys.stderr,
        )

    def close(self) -> None:
        """End the line of a bar that was shown."""
        if self.shown:
            print(file=sys.stderr)


def run_pieces(
    work: Callable[[int], Any], sizes: Sequence[int], *, threads: int | None, progress: Progress, stop: Stop, what: str
) -> list[Any]:
    """Return work(i) for every piece i, or for the leading pieces that were done when it was stopped.

    Control-C and `stop()` take effect between pieces: running pieces are finished and kept.
    """
    bar = ProgressBar(progress, sum(sizes), what)
    halted = threading.Event()

    def guarded(i: int) -> Any:
        if halted.is_set() or (stop is not None and stop()):
            halted.set()
            return None
        return (work(i),)

    results: list[Any] = [None] * len(sizes)
    done, interrupted = 0, False
    count = min(threads or os.cpu_count() or 1, len(sizes))
    try:
        if count <= 1:
            for i, size in enumerate(sizes):
                results[i] = guarded(i)
                if results[i] is None:
                    break
                done += size
                bar(done)
        else:
            with ThreadPoolExecutor(count) as pool:
                futures: dict[Future[Any], int] = {pool.submit(guarded, i): i for i in range(len(sizes))}
                pending = set(futures)
                try:
                    while pending:
                        finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                        for future in finished:
                            results[futures[future]] = future.result()
                            done += sizes[futures[future]]
                        bar(done)
                except KeyboardInterrupt:
                    interrupted = True
                    halted.set()
                    for future, i in futures.items():
                        results[i] = None if future.cancel() else future.result()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bar.close()
    kept: list[Any] = []
    for result in results:
        if result is None:
            break
        kept.append(result[0])
    if interrupted:
        frames = f"{sum(sizes[: len(kept)])} of {sum(sizes)} frames"
        warnings.warn(f"{what} was interrupted after {frames}, which are kept", PosableWarning, stacklevel=3)
    return kept
