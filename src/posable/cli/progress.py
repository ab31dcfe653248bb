"""Progress bars."""

import sys
import time

from posable.cli.checkpoint import FAILED, Outcome

# --- One task ---


class ProgressBar:
    """A progress bar on standard error after the first second; silent unless standard error is a terminal."""

    def __init__(self):
        self.begin, self.drawn = time.perf_counter(), False

    def __call__(self, share: float) -> None:
        """Draw the completed fraction."""
        if not sys.stderr.isatty() or (time.perf_counter() - self.begin < 1.0 and not self.drawn):
            return
        self.drawn = True
        filled = int(30 * share)
        end = "\n" if share >= 1.0 else ""
        print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {100 * share:3.0f}%", end=end, file=sys.stderr, flush=True)


# --- Many files ---

BAR_AFTER = 1.0  # [s] before a bar is shown


class FilesBar:
    """A progress bar on standard error if it is a terminal, and a line for each file that fails."""

    def __init__(self, total: int, what: str, *, quiet: bool = False):
        self.total, self.what, self.quiet = total, what, quiet
        self.begin = time.perf_counter()
        self.done = self.failed = self.frames = 0
        self.shown = ""

    def __call__(self, outcome: Outcome) -> None:
        """Count one more file."""
        self.done += 1
        self.frames += outcome.frames
        if outcome.status == FAILED:
            self.failed += 1
            self._clear()
            print(f"{outcome.file}: failed: {outcome.why}", file=sys.stderr, flush=True)
        passed = time.perf_counter() - self.begin
        if self.quiet or passed < BAR_AFTER or not sys.stderr.isatty():
            return
        self._clear()
        filled = 30 * self.done // max(self.total, 1)
        left = passed / self.done * (self.total - self.done)
        faults = f", {self.failed} failed" if self.failed else ""
        self.shown = (
            f"{self.what} [{'#' * filled}{'.' * (30 - filled)}] {self.done} of {self.total} files{faults}, "
            f"{self.frames / passed:.0f} frames/s, {left:.0f} s left"
        )
        print(self.shown, end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self.shown:
            print(f"\r{' ' * len(self.shown)}\r", end="", file=sys.stderr)
            self.shown = ""

    def close(self) -> None:
        """Remove the bar."""
        self._clear()
