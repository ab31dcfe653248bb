"""The outcome file beside each result. It is written last and at once, so where it is, the result is whole."""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from posable.cli.many.jobs import Job, Outcome, digest


def keep(job: Job, outcome: Outcome) -> None:
    """Write the outcome of a job beside its result."""
    write_at_once(job.outcome, json.dumps(asdict(outcome), indent=1, ensure_ascii=False) + "\n")


def forget(job: Job) -> None:
    """Take away what an earlier call has said of the job: from here on its result is in doubt."""
    job.outcome.unlink(missing_ok=True)


def finished(job: Job) -> Outcome | None:
    """Return the outcome that an earlier call has left for the very same content and options, or None."""
    try:
        kept = json.loads(job.outcome.read_text(encoding="utf-8"))
        outcome = Outcome(**kept | {"file": job.file, "notes": tuple(kept["notes"])})
        same = (
            outcome.options == json.loads(json.dumps(job.options))
            and all((job.result.parent / name).stat().st_size == size for name, size in outcome.written.items())
            and outcome.sha256 == digest(job.source)
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or not ours: the file is done anew
        return None
    return outcome if same else None


def write_at_once(path: Path, text: str) -> None:
    """Write a file so that it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def sweep(jobs: Iterable[Job]) -> None:
    """Take away the unfinished folders that killed workers of this run have left."""
    for folder, run in {(job.result.parent, job.run) for job in jobs}:
        for part in folder.glob(f".part-{run}-*"):
            shutil.rmtree(part, ignore_errors=True)
