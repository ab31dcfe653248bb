"""A progress bar for work over a second."""

import sys
import time


class Bar:
    """A progress bar on standard error, from the first second on; silent where nobody watches a terminal."""

    def __init__(self):
        self.begin, self.drawn = time.perf_counter(), False

    def __call__(self, share: float) -> None:
        """Draw the share that is done."""
        if not sys.stderr.isatty() or (time.perf_counter() - self.begin < 1.0 and not self.drawn):
            return
        self.drawn = True
        filled = int(30 * share)
        end = "\n" if share >= 1.0 else ""
        print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {100 * share:3.0f}%", end=end, file=sys.stderr, flush=True)
