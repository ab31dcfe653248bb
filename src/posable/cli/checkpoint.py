"""The outcome file beside each result. It is written last and at once, so where it is, the result is whole."""

import hashlib
import json
import math
import os
import platform
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from posable._files import write_text

# --- One file's work as plain data ---

ABANDONED_AFTER = 86400.0  # [s] that nobody has touched what is unfinished
OK, NOT_REACHED, FAILED, NOT_DONE = "ok", "not reached", "failed", "not done"


@dataclass(frozen=True)
class FileResult:
    """What a verb says of one file: frames, mean error (SI; None: there is none), whether it was reached or why not."""

    frames: int
    error: float | None = None
    why: str = ""  # nothing: reached
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Job:
    """One file and all that a worker needs to do it; places are absolute, so that a worker may be anywhere."""

    file: str  # as it was given
    source: Path
    result: Path
    report: Path
    work: Callable[[Namespace], FileResult]
    args: Namespace
    options: Mapping[str, Any]  # what the result depends on beside the file: plain data
    run: str  # the name of this run; unfinished folders carry it

    @property
    def outcome(self) -> Path:
        """Where the outcome is kept: beside the result."""
        return self.result.with_suffix(".outcome.json")


@dataclass(frozen=True)
class Outcome:
    """What became of one file: status, reason, frames, mean error, seconds; and of what it is the outcome."""

    file: str
    status: str
    why: str = ""
    frames: int = 0
    error: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    sha256: str = ""  # of the file that was read
    options: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)  # {name: SHA-256}


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def failure(job: Job, why: str, seconds: float = 0.0) -> Outcome:
    """Return the outcome of a file that has no result. It is not kept: the next call tries again."""
    return Outcome(job.file, FAILED, why, seconds=seconds, options=job.options)


# --- The outcome file beside each result ---


def save(job: Job, outcome: Outcome) -> None:
    """Write the outcome of a job beside its result."""
    write_atomically(job.outcome, json.dumps(asdict(outcome), indent=1, ensure_ascii=False) + "\n")


def discard(job: Job) -> None:
    """Take away what an earlier call has said of the job: from here on its result is in doubt."""
    job.outcome.unlink(missing_ok=True)


def finished(job: Job) -> Outcome | None:
    """Return the outcome that an earlier call has left for the very same content and options, or None."""
    try:
        kept = json.loads(job.outcome.read_text(encoding="utf-8"))
        outcome = Outcome(**kept | {"file": job.file, "notes": tuple(kept["notes"])})
        same = (
            _is_well_formed(outcome)
            and outcome.options == json.loads(json.dumps(job.options))
            and outcome.sha256 == digest(job.source)
            and all(digest(job.result.parent / name) == content for name, content in outcome.written.items())
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):  # none, or not ours: done anew
        return None
    return outcome if same else None


def _is_well_formed(outcome: Outcome) -> bool:
    """Return whether an outcome from a file has the types of one that was kept, and names files of its own folder."""
    numbers = (outcome.frames, outcome.seconds, 0.0 if outcome.error is None else outcome.error)
    return (
        outcome.status in (OK, NOT_REACHED)
        and isinstance(outcome.why, str)
        and isinstance(outcome.frames, int)
        and all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers)
        and all(isinstance(note, str) for note in outcome.notes)
        and isinstance(outcome.written, dict)
        and bool(outcome.written)
        and all(isinstance(name, str) and Path(name).name == name for name in outcome.written)
    )


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def run_name() -> str:
    """Return a name for a run: its machine and process, by which a later one finds out that it has ended."""
    return f"{platform.node() or 'host'}.{os.getpid()}.{uuid4().hex[:8]}"


def sweep(jobs: Iterable[Job]) -> None:
    """Take away the unfinished folders that killed workers have left: of this run, and of runs that have ended."""
    for folder, run in {(job.result.parent, job.run) for job in jobs}:
        for part in folder.glob(".part-*"):
            if part.name.startswith(f".part-{run}-") or _is_abandoned(part):
                shutil.rmtree(part, ignore_errors=True)
        for part in folder.glob(".posable-*.part"):
            if _age(part) > ABANDONED_AFTER:
                part.unlink(missing_ok=True)


def _is_abandoned(part: Path) -> bool:
    """Return whether nobody works on an unfinished folder: its process has ended, or it was not touched for a day."""
    host, _, rest = part.name.removeprefix(".part-").rpartition(".")[0].rpartition(".")
    if os.name == "posix" and host and host == platform.node() and rest.isdigit():
        try:
            os.kill(int(rest), 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return False
    return _age(part) > ABANDONED_AFTER


def _age(path: Path) -> float:
    """Return the seconds since a file or folder was last changed; 0 where it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
