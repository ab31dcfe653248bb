"""How a worker does one file."""

import os
import tempfile
import time
from argparse import Namespace
from pathlib import Path

import posable as ps
from posable.cli.many import outcomes
from posable.cli.many.jobs import NOT_REACHED, OK, Job, Outcome, Told, digest, failure


def do(job: Job) -> Outcome:
    """Do one file, wherever this runs, and return what became of it: no fault of a file is a fault of its worker."""
    begin = time.perf_counter()
    try:
        outcomes.forget(job)
        theirs = job.options.get("posable")
        if theirs != ps.__version__:
            raise ps.PosableError(f"expected a worker with posable {theirs}, got {ps.__version__}")
        content = digest(job.source)
        told, written = _work(job)
        status = NOT_REACHED if told.why else OK
        outcome = Outcome(
            job.file, status, told.why, told.frames, told.error, time.perf_counter() - begin, told.notes, content,
            job.options, written,
        )  # fmt: skip
        outcomes.keep(job, outcome)
    except Exception as error:  # whatever it is, it is this file's: the others go on
        return failure(job, _one_line(error, job), time.perf_counter() - begin)
    return outcome


def _work(job: Job) -> tuple[Told, dict[str, int]]:
    """Do the work in a folder of its own, then move what was written into place: nothing is ever half written."""
    home = job.result.parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".part-{job.run}-", dir=home) as name:
        part = Path(name)
        given = vars(job.args) | {
            "file": str(job.source), "out": str(part / job.result.name), "report": str(part / job.report.name),
        }  # fmt: skip
        told = job.work(Namespace(**given))
        made = sorted(part.iterdir())
        written = {path.name: path.stat().st_size for path in made}
        for path in made:
            os.replace(path, home / path.name)
    return told, written


def _one_line(error: Exception, job: Job) -> str:
    text = " ".join(str(error).split()).replace(str(job.source), job.file)
    for end in (": ", " "):  # which file it is stands beside it already
        text = text.removeprefix(f"{job.file}{end}")
    if isinstance(error, ps.PosableError):
        return text
    if isinstance(error, MemoryError):
        return f"out of memory: it needs more than a worker may have{f' ({text})' if text else ''}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename in (None, str(job.source)) else f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {text}"
