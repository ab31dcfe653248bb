"""Commands on many files: their flags, the jobs, and the summary of all outcomes."""

import argparse
import glob
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import posable as ps
from posable.cli import checkpoint
from posable.cli.checkpoint import FAILED, NOT_DONE, NOT_REACHED, OK, FileResult, Job, Outcome, digest, write_atomically

# --- Input and output files ---


def expand(words: Sequence[str]) -> list[str]:
    """Return the files that the words name, in order and without duplicates; patterns are expanded."""
    found: dict[Path, str] = {}
    for word in words:
        names = [word]
        if glob.has_magic(word) and not Path(word).exists():
            names = sorted(name for name in glob.glob(word, recursive=True) if Path(name).is_file())
            if not names:
                raise ps.PosableError(f"{word}: expected a pattern that matches a file, found none")
        for name in names:
            found.setdefault(Path(os.path.realpath(name)), name)
    return list(found.values())


def is_folder(out: str | None) -> bool:
    """Return whether an output is a folder: one that exists, or a name that ends with a slash."""
    return bool(out) and (Path(out).is_dir() or out.endswith(("/", os.sep)))


def results(sources: Sequence[Path], folder: Path, suffix: str) -> list[Path]:
    """Return the path of each result: in `folder`, relative to it as the source is to the common parent of all.

    Sources that differ only in their suffix keep it in their names, after an underscore.

    Raises:
        PosableError: Two results have the same path, or a result would overwrite a source.
    """
    common = os.path.commonpath([source.parent for source in sources])
    stems = [source.relative_to(common).with_name(source.stem) for source in sources]
    often = Counter(stems)
    names = [
        stem if often[stem] == 1 else stem.with_name(f"{stem.name}_{source.suffix.lstrip('.')}")
        for stem, source in zip(stems, sources, strict=True)
    ]
    places = [folder / name.with_name(f"{name.name}{suffix}") for name in names]
    for place, times in Counter(places).items():
        if times > 1:
            raise ps.PosableError(f"{place}: {times} results would be written there; rename a file")
    taken = set(places) & set(sources)
    if taken:
        raise ps.PosableError(f"{min(taken)}: the result would overwrite an input file; choose another folder with -o")
    return places


# --- Summary ---


@dataclass(frozen=True)
class Summary:
    """The outcomes of all jobs.

    Attributes:
        verb: The command.
        measure: What the error is, with its unit.
        folder: Where the results are.
        jobs: All jobs, in order.
        outcomes: Those of the jobs that were completed.
        skipped: Jobs that an earlier run had completed.
        where: The workers or the cluster, in words.
        seconds: [s] Wall-clock time.
        stopped: Whether the run was interrupted.
    """

    verb: str
    measure: str
    folder: Path
    jobs: Sequence[Job]
    outcomes: Mapping[Job, Outcome]
    skipped: frozenset[Job]
    where: str
    seconds: float
    stopped: bool = False

    @property
    def counts(self) -> Counter[str]:
        """Number of files by status."""
        return Counter(row["status"] for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 if every file was reached, 2 if one failed, 1 otherwise."""
        counts = self.counts
        return 2 if counts[FAILED] else 1 if counts[NOT_REACHED] or counts[NOT_DONE] else 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per file, in the given order."""
        return [self._row(job) for job in self.jobs]

    def _row(self, job: Job) -> dict[str, Any]:
        outcome = self.outcomes.get(job, Outcome(job.file, NOT_DONE, "the run was stopped first"))
        written = outcome.status in (OK, NOT_REACHED)
        return {
            "file": job.file, "status": outcome.status, "why": outcome.why, "frames": outcome.frames,
            "error": outcome.error, "seconds": round(outcome.seconds, 3), "skipped": job in self.skipped,
            "result": job.result.relative_to(self.folder).as_posix() if written else None,
            "report": job.report.relative_to(self.folder).as_posix() if written else None,
            "notes": list(outcome.notes),
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data; frames and their rate count only this run."""
        new = [outcome for job, outcome in self.outcomes.items() if job not in self.skipped]
        frames = sum(outcome.frames for outcome in new)
        return {
            "verb": self.verb, "measure": self.measure, "where": self.where, "files": len(self.jobs),
            **{name.replace(" ", "_"): self.counts[name] for name in (OK, NOT_REACHED, FAILED, NOT_DONE)},
            "skipped": len(self.skipped), "stopped": self.stopped, "frames": frames,
            "seconds": round(self.seconds, 3), "frames_per_second": round(frames / max(self.seconds, 1e-9), 1),
            "rows": self.rows,
        }  # fmt: skip

    def __str__(self) -> str:
        data = self.as_dict()
        counts = ", ".join(
            f"{self.counts[name]} {name}" for name in (OK, NOT_REACHED, FAILED, NOT_DONE) if self.counts[name]
        )
        lines = [f"{data['files']} file{'' if data['files'] == 1 else 's'}: {counts}"]
        if self.skipped:
            lines.append(f"skipped {data['skipped']} completed by an earlier run; --again repeats them")
        lines.append(
            f"{data['frames']} frames in {self.seconds:.1f} s ({data['frames_per_second']:.0f}/s), {self.where}"
        )
        if self.stopped:
            lines.append("stopped early; run the same command to continue")
        return "\n".join(lines)

    def write(self) -> None:
        """Write summary.json and summary.md into the folder."""
        text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False)
        write_atomically(self.folder / "summary.json", text + "\n")
        write_atomically(self.folder / "summary.md", self._markdown())

    def _markdown(self) -> str:
        head = f"| file | frames | {self.measure} | seconds | outcome | why |"
        lines = [f"# posable {self.verb}", "", *(f"{line}.  " for line in str(self).splitlines()), ""]
        lines += [head, "| --- | ---: | ---: | ---: | --- | --- |"]
        for row in self.rows:
            error = "" if row["error"] is None else f"{row['error']:.3g}"
            name = _cell(row["file"])
            file = f"[{name}](<{row['report']}>)" if row["report"] else name
            done = row["status"] + (" (before)" if row["skipped"] else "")
            cells = (file, row["frames"] or "", error, f"{row['seconds']:.2f}", done, _cell(row["why"]))
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- The run ---

FORMATS = ("bvh", "glb", "amc", "csv", "npz")
EXECUTION_ARGS = (  # do not affect results
    "run", "file", "files", "out", "save", "report", "json", "threads", "workers", "memory", "scheduler", "again",
)  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags for many files."""
    group = parser.add_argument_group(
        "many files", "With several files, -o is a folder: each file gets a result, a report and a line in the summary."
    )
    group.add_argument("--format", choices=FORMATS, help="format of the files in the folder -o (default: bvh)")
    group.add_argument("--workers", type=int, metavar="N", help="files processed in parallel (default: one per core)")
    group.add_argument(
        "--memory",
        type=float,
        metavar="GB",
        help="memory limit of each worker (default: an equal share of the machine)",
    )
    group.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="run on a Dask cluster")
    group.add_argument("--again", action="store_true", help="process completed files again")


def is_batch(args: argparse.Namespace, words: Sequence[str], out: str | None) -> bool:
    """Return whether a command line is for many files, judging by its files, an output folder, or a flag."""
    several = len(words) > 1 or expand(words) != list(words)
    return several or is_folder(out) or bool(args.format or args.scheduler or args.workers or args.memory)


def run(
    args: argparse.Namespace,
    work: Callable[[argparse.Namespace], FileResult],
    words: Sequence[str],
    out: str | None,
    *,
    verb: str,
    measure: str,
    report: str = ".html",
    needs: Sequence[str] = (),
) -> int:
    """Process all files, print and write the summary, and return the exit code.

    Args:
        args: The command line.
        work: Processes one file, given the arguments with `file`, `out` and `report` set.
        words: The files, or patterns of them.
        out: The output folder.
        verb: The command.
        measure: What the error is, with its unit.
        report: Suffix of the reports.
        needs: Arguments that name files which the results depend on.
    """
    _check(args, words, out)
    folder = Path(str(out)).resolve()
    jobs = _jobs(args, work, words, folder, report, needs, {"verb": verb, "posable": ps.__version__})
    earlier = {} if args.again else {job: kept for job in jobs if (kept := checkpoint.finished(job))}
    done, stopped, begin = dict(earlier), False, time.perf_counter()
    left = [job for job in jobs if job not in earlier]
    checkpoint.sweep(jobs)
    where, doing = _executor(args, left)
    from posable.cli.progress import FilesBar

    bar = FilesBar(len(left), verb, quiet=args.json)

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
        done |= _finished_since(left, done)
    except ps.PosableError:
        done |= _finished_since(left, done)
        if len(done) > len(earlier):
            stopped = True
            summed().write()
        raise
    finally:
        doing.close()
        bar.close()
        checkpoint.sweep(left)
    summary = summed()
    summary.write()
    print(json.dumps(summary.as_dict(), indent=2) if args.json else f"{summary}\nwrote {folder / 'summary.md'}")
    return summary.exit_code


def _finished_since(jobs: Sequence[Job], done: Mapping[Job, Outcome]) -> dict[Job, Outcome]:
    """Return outcomes that workers saved but could not report before the run ended."""
    return {job: kept for job in jobs if job not in done and (kept := checkpoint.finished(job))}


def _check(args: argparse.Namespace, words: Sequence[str], out: str | None) -> None:
    """Raise a PosableError if the command line is wrong."""
    if not words:
        raise ps.PosableError("expected at least one file, got none")
    if not out or Path(out).is_file():
        raise ps.PosableError(f"many files: expected an output folder, as in -o results/, got {out or 'none'}")
    if getattr(args, "report", None):
        raise ps.PosableError("--report: with many files, each report is written beside its result; omit this flag")
    if getattr(args, "threads", None):
        raise ps.PosableError("--threads: with many files, each uses one thread; use --workers")
    if args.workers is not None and args.workers < 1:
        raise ps.PosableError(f"--workers: expected at least 1, got {args.workers}")
    if args.scheduler:
        if args.workers or args.memory:
            raise ps.PosableError(
                "--scheduler: the cluster manages its workers and their memory; omit --workers and --memory"
            )
        from posable.cli import workers

        workers.check(args.scheduler)


def _jobs(args, work, words, folder: Path, report: str, needs, options: dict[str, Any]) -> list[Job]:
    """Return one job per file. Paths are made absolute, since workers on a cluster have other working directories."""
    given = {name: value for name, value in vars(args).items() if name not in EXECUTION_ARGS}
    given["format"] = args.format or "bvh"
    options |= given | {f"sha256 of {name}": digest(given[name]) for name in needs if _is_file(given[name])}
    places = {name: str(Path(given[name]).resolve()) for name in needs if _is_file(given[name])}
    kept = argparse.Namespace(**given | places, threads=1, json=True)
    names = expand(words)
    sources = [Path(os.path.realpath(name)) for name in names]
    places_of = results(sources, folder, f".{given['format']}")
    run = checkpoint.run_name()
    return [
        Job(name, source, result, result.with_suffix(report), work, kept, options, run)
        for name, source, result in zip(names, sources, places_of, strict=True)
    ]


def _is_file(name: str | None) -> bool:
    return bool(name) and Path(str(name)).is_file()


def _executor(args: argparse.Namespace, jobs: Sequence[Job]) -> tuple[str, Generator[tuple[Job, Outcome]]]:
    """Return a description of the workers, and a generator of completed jobs."""
    from posable.cli import workers

    if args.scheduler:
        return f"on the cluster of {args.scheduler}", workers.run_on_cluster(jobs, address=args.scheduler)
    count = args.workers or workers.cores()
    memory = args.memory * 1e9 if args.memory else workers.share_of_memory(count)
    used = min(count, max(1, len(jobs)))
    where = f"on {used} worker{'s' if used > 1 else ''}"
    return where, workers.run_pool(jobs, workers=count, memory=memory)
