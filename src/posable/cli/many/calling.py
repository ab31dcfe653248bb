"""The flags for many files, and the way from a command line to a summary."""

import argparse
import json
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import posable as ps
from posable.cli.many import cluster, files, outcomes, pool
from posable.cli.many.jobs import Job, Outcome, Told, digest
from posable.cli.many.progress import Bar
from posable.cli.many.summary import Summary

FORMATS = ("bvh", "glb", "amc", "csv", "npz")
HOW = ("run", "file", "files", "out", "save", "report", "json", "threads", "workers", "memory", "scheduler", "again")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are for many files."""
    group = parser.add_argument_group("many files", "One result, one report and one line of a summary for each.")
    group.add_argument("--format", choices=FORMATS, help="what is written into the folder -o (bvh)")
    group.add_argument("--workers", type=int, metavar="N", help="files at a time; one for each core by default")
    group.add_argument("--memory", type=float, metavar="GB", help="of each worker; its share of the machine by default")
    group.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="a Dask cluster that does the work")
    group.add_argument("--again", action="store_true", help="do files anew that are finished")


def asked(args: argparse.Namespace, words: Sequence[str], out: str | None) -> bool:
    """Return whether a command line is for many files: by its files, a folder as output, or a flag."""
    several = len(words) > 1 or files.expand(words) != list(words)
    return several or files.is_folder(out) or bool(args.format or args.scheduler or args.workers or args.memory)


def run(
    args: argparse.Namespace,
    work: Callable[[argparse.Namespace], Told],
    words: Sequence[str],
    out: str | None,
    *,
    verb: str,
    measure: str,
    report: str = ".html",
    needs: Sequence[str] = (),
) -> int:
    """Do all files, print and write the summary, and return the exit code.

    work: does one file, given the arguments with `file`, `out` and `report` put in. measure: what its error is, with
    the unit. report: the ending of its reports. needs: which arguments name files that the results depend on.
    """
    _check(args, words, out)
    folder = Path(str(out)).resolve()
    jobs = _jobs(args, work, words, folder, report, needs, {"verb": verb, "posable": ps.__version__})
    earlier = {} if args.again else {job: kept for job in jobs if (kept := outcomes.finished(job))}
    done, stopped, begin = dict(earlier), False, time.perf_counter()
    left = [job for job in jobs if job not in earlier]
    where, doing = _crew(args, left)
    bar = Bar(len(left), verb, quiet=args.json)

    def summed() -> Summary:
        seconds = time.perf_counter() - begin
        return Summary(verb, measure, folder, jobs, done, frozenset(earlier), where, seconds, stopped)

    try:
        for job, outcome in doing:
            done[job] = outcome
            bar(outcome)
    except KeyboardInterrupt:
        stopped = True
        doing.close()
        done |= {job: kept for job in left if job not in done and (kept := outcomes.finished(job))}
    except ps.PosableError:
        if len(done) > len(earlier):
            stopped = True
            summed().write()
        raise
    finally:
        doing.close()
        bar.close()
        outcomes.sweep(left)
    summary = summed()
    summary.write()
    print(json.dumps(summary.as_dict(), indent=2) if args.json else f"{summary}\nwrote {folder / 'summary.md'}")
    return summary.exit_code


def _check(args: argparse.Namespace, words: Sequence[str], out: str | None) -> None:
    """Raise `PosableError` where the call is wrong."""
    if not words:
        raise ps.PosableError("many files: expected some, got none")
    if not out or Path(out).is_file():
        raise ps.PosableError(f"many files: expected a folder, as in -o results/, got {out or 'none'}")
    if getattr(args, "report", None):
        raise ps.PosableError("--report: with many files each report lies beside its result; leave it out")
    if getattr(args, "threads", None):
        raise ps.PosableError("--threads: with many files each has one thread; expected --workers")
    if args.workers is not None and args.workers < 1:
        raise ps.PosableError(f"--workers: expected at least 1, got {args.workers}")
    if args.scheduler:
        if args.workers or args.memory:
            raise ps.PosableError(
                "--scheduler: the cluster's workers and their memory are its own; leave out --workers and --memory"
            )
        cluster.check(args.scheduler)


def _jobs(args, work, words, folder: Path, report: str, needs, options: dict[str, Any]) -> list[Job]:
    """Return a job for each file. Places become absolute: a worker on a cluster stands in a folder of its own."""
    given = {name: value for name, value in vars(args).items() if name not in HOW}
    given["format"] = args.format or "bvh"
    options |= given | {f"sha256 of {name}": digest(given[name]) for name in needs if _is_file(given[name])}
    places = {name: str(Path(given[name]).resolve()) for name in needs if _is_file(given[name])}
    kept = argparse.Namespace(**given | places, threads=1, json=True)
    names = files.expand(words)
    sources = [Path(name).resolve() for name in names]
    results = files.results(sources, folder, f".{given['format']}")
    run = uuid4().hex[:8]
    return [
        Job(name, source, result, result.with_suffix(report), work, kept, options, run)
        for name, source, result in zip(names, sources, results, strict=True)
    ]


def _is_file(name: str | None) -> bool:
    return bool(name) and Path(str(name)).is_file()


def _crew(args: argparse.Namespace, jobs: Sequence[Job]) -> tuple[str, Generator[tuple[Job, Outcome]]]:
    """Return who does the jobs, in words and as what yields them."""
    if args.scheduler:
        return f"on the cluster of {args.scheduler}", cluster.run(jobs, address=args.scheduler)
    workers = args.workers or pool.cores()
    memory = args.memory * 1e9 if args.memory else pool.share_of_memory(workers)
    count = min(workers, max(1, len(jobs)))
    told = f"on {count} worker{'s' if count > 1 else ''}"
    return told, pool.run(jobs, workers=workers, memory=memory)
