"""Jobs, and the outcome file beside each result, written last and atomically: if it exists, the result is complete."""

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

import posable as ps
from posable._files import open_regular, read_regular, write_text

# --- Jobs ---

ABANDONED_AFTER = 86400.0  # [s] age at which unfinished folders count as abandoned
OK, NOT_REACHED, FAILED, NOT_DONE = "ok", "not reached", "failed", "not done"


@dataclass(frozen=True)
class FileResult:
    """What a verb returns for one file: frames, mean error (SI units, or None), and why it was not reached."""

    frames: int
    error: float | None = None
    why: str = ""  # empty: reached
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Job:
    """One file with everything that a worker needs. Paths are absolute, so that it may run anywhere."""

    file: str  # as given on the command line
    source: Path
    result: Path
    report: Path
    work: Callable[[Namespace], FileResult]
    args: Namespace
    options: Mapping[str, Any]  # what the result depends on besides the file, as plain data
    run: str  # name of this run, part of the names of unfinished folders

    @property
    def outcome(self) -> Path:
        """Path of the outcome file, beside the result."""
        return self.result.with_suffix(".outcome.json")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one file, with the content and the options that it belongs to."""

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
    """Return the SHA-256 of a regular file's content."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def failure(job: Job, why: str, seconds: float = 0.0) -> Outcome:
    """Return the outcome of a failed file. It is not saved, so that the next run tries again."""
    return Outcome(job.file, FAILED, why, seconds=seconds, options=job.options)


# --- Outcome files ---


def save(job: Job, outcome: Outcome) -> None:
    """Write the outcome of a job beside its result."""
    write_atomically(job.outcome, json.dumps(asdict(outcome), indent=1, ensure_ascii=False) + "\n")


def discard(job: Job) -> None:
    """Remove the outcome of an earlier run, since the result is about to be replaced."""
    job.outcome.unlink(missing_ok=True)


def finished(job: Job) -> Outcome | None:
    """Return the outcome that an earlier run saved for the same content and options, or None."""
    try:
        kept = json.loads(read_regular(job.outcome))
        outcome = Outcome(**kept | {"file": job.file, "notes": tuple(kept["notes"])})
        same = (
            _is_well_formed(outcome)
            and outcome.options == json.loads(json.dumps(job.options))
            and outcome.sha256 == digest(job.source)
            and all(digest(job.result.parent / name) == content for name, content in outcome.written.items())
        )
    except (ps.PosableError, ValueError, TypeError, KeyError, AttributeError, RecursionError):  # missing or not ours
        return None
    return outcome if same else None


def _is_well_formed(outcome: Outcome) -> bool:
    """Return whether an outcome read from a file has the right types and names only files of its own folder."""
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
    """Write a file so that readers never see it incomplete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def run_name() -> str:
    """Return a name for a run from its machine and process, by which a later run can tell whether it has ended."""
    return f"{platform.node() or 'host'}.{os.getpid()}.{uuid4().hex[:8]}"


def sweep(jobs: Iterable[Job]) -> None:
    """Remove unfinished folders left by killed workers of this run and of runs that have ended."""
    for folder, run in {(job.result.parent, job.run) for job in jobs}:
        for part in folder.glob(".part-*"):
            if part.name.startswith(f".part-{run}-") or _is_abandoned(part):
                shutil.rmtree(part, ignore_errors=True)
        for part in folder.glob(".posable-*.part"):
            if _age(part) > ABANDONED_AFTER:
                part.unlink(missing_ok=True)


def _is_abandoned(part: Path) -> bool:
    """Return whether an unfinished folder is abandoned: its process has ended, or it is a day old."""
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
    """Return the seconds since a file or folder was last changed; 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
