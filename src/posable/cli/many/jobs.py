"""One file's work as plain data: what it takes, and what is known of it afterwards."""

import hashlib
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OK, NOT_REACHED, FAILED, NOT_DONE = "ok", "not reached", "failed", "not done"


@dataclass(frozen=True)
class Told:
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
    work: Callable[[Namespace], Told]
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
    written: Mapping[str, int] = field(default_factory=dict)  # {name: bytes}


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def failure(job: Job, why: str, seconds: float = 0.0) -> Outcome:
    """Return the outcome of a file that has no result. It is not kept: the next call tries again."""
    return Outcome(job.file, FAILED, why, seconds=seconds, options=job.options)
