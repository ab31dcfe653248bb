"""The flags for many files, and the way from a command line to a summary."""

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
from posable.cli.progress import FilesBar

# --- Which files are meant ---


def expand(words: Sequence[str]) -> list[str]:
    """Return the files that the words name, in their order, each once; patterns that no shell has expanded are."""
    found: dict[Path, str] = {}
    for word in words:
        names = [word]
        if glob.has_magic(word) and not Path(word).exists():
            names = sorted(name for name in glob.glob(word, recursive=True) if Path(name).is_file())
            if not names:
                raise ps.PosableError(f"{word}: expected a pattern that some file matches, found none")
        for name in names:
            found.setdefault(Path(os.path.realpath(name)), name)
    return list(found.values())


def is_folder(out: str | None) -> bool:
    """Return whether an output names a folder: one that is there, or one that ends with a slash."""
    return bool(out) and (Path(out).is_dir() or out.endswith(("/", os.sep)))


def results(sources: Sequence[Path], folder: Path, suffix: str) -> list[Path]:
    """Return where each result goes: under `folder` as the source lies under what all sources have in common.

    Two sources that differ only in their suffix keep it in their names, with an underscore. No result may take the
    place of a source.
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
            raise ps.PosableError(f"{place}: expected one result to be written there, got {times}; rename a file")
    taken = set(places) & set(sources)
    if taken:
        raise ps.PosableError(f"{min(taken)}: the result would replace its own file; choose another folder with -o")
    return places


# --- What became of all files ---


@dataclass(frozen=True)
class Summary:
    """Every job with its outcome, and how they were done: `outcomes` lacks those that were not done."""

    verb: str
    measure: str  # what the error is, with its unit
    folder: Path
    jobs: Sequence[Job]
    outcomes: Mapping[Job, Outcome]
    skipped: frozenset[Job]  # finished by an earlier call
    where: str  # on what they were done
    seconds: float  # from the first to the last, on the clock
    stopped: bool = False

    @property
    def counts(self) -> Counter[str]:
        """How many files have which status."""
        return Counter(row["status"] for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0: every file is reached; 2: one has failed; 1: one is not reached, or not done."""
        counts = self.counts
        return 2 if counts[FAILED] else 1 if counts[NOT_REACHED] or counts[NOT_DONE] else 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each file, in the order in which they were given."""
        return [self._row(job) for job in self.jobs]

    def _row(self, job: Job) -> dict[str, Any]:
        outcome = self.outcomes.get(job, Outcome(job.file, NOT_DONE, "stopped before it was done"))
        written = outcome.status in (OK, NOT_REACHED)
        return {
            "file": job.file, "status": outcome.status, "why": outcome.why, "frames": outcome.frames,
            "error": outcome.error, "seconds": round(outcome.seconds, 3), "skipped": job in self.skipped,
            "result": job.result.relative_to(self.folder).as_posix() if written else None,
            "report": job.report.relative_to(self.folder).as_posix() if written else None,
            "notes": list(outcome.notes),
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data; frames and rate are of what this call has done."""
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
            lines.append(f"{data['skipped']} of them were finished before and skipped; --again does them anew")
        lines.append(
            f"{data['frames']} frames in {self.seconds:.1f} s ({data['frames_per_second']:.0f} a second), {self.where}"
        )
        if self.stopped:
            lines.append("stopped early; the same call goes on from here")
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


# --- The flags for many files ---

FORMATS = ("bvh", "glb", "amc", "csv", "npz")
EXECUTION_ARGS = (
    "run",
    "file",
    "files",
    "out",
    "save",
    "report",
    "json",
    "threads",
    "workers",
    "memory",
    "scheduler",
    "again",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags that are for many files."""
    group = parser.add_argument_group("many files", "One result, one report and one line of a summary for each.")
    group.add_argument("--format", choices=FORMATS, help="what is written into the folder -o (bvh)")
    group.add_argument("--workers", type=int, metavar="N", help="files at a time; one for each core by default")
    group.add_argument("--memory", type=float, metavar="GB", help="of each worker; its share of the machine by default")
    group.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="a Dask cluster that does the work")
    group.add_argument("--again", action="store_true", help="do files anew that are finished")


def is_batch(args: argparse.Namespace, words: Sequence[str], out: str | None) -> bool:
    """Return whether a command line is for many files: by its files, a folder as output, or a flag."""
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
    """Do all files, print and write the summary, and return the exit code.

    work: does one file, given the arguments with `file`, `out` and `report` put in. measure: what its error is, with
    the unit. report: the ending of its reports. needs: which arguments name files that the results depend on.
    """
    _check(args, words, out)
    folder = Path(str(out)).resolve()
    jobs = _jobs(args, work, words, folder, report, needs, {"verb": verb, "posable": ps.__version__})
    earlier = {} if args.again else {job: kept for job in jobs if (kept := checkpoint.finished(job))}
    done, stopped, begin = dict(earlier), False, time.perf_counter()
    left = [job for job in jobs if job not in earlier]
    checkpoint.sweep(jobs)
    where, doing = _executor(args, left)
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
    """Return the outcomes that workers have kept without being able to tell them any more."""
    return {job: kept for job in jobs if job not in done and (kept := checkpoint.finished(job))}


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
        from posable.cli import workers

        workers.check(args.scheduler)


def _jobs(args, work, words, folder: Path, report: str, needs, options: dict[str, Any]) -> list[Job]:
    """Return a job for each file. Places become absolute: a worker on a cluster stands in a folder of its own."""
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
    """Return who does the jobs, in words and as what yields them."""
    from posable.cli import workers

    if args.scheduler:
        return f"on the cluster of {args.scheduler}", workers.run_on_cluster(jobs, address=args.scheduler)
    count = args.workers or workers.cores()
    memory = args.memory * 1e9 if args.memory else workers.share_of_memory(count)
    used = min(count, max(1, len(jobs)))
    told = f"on {used} worker{'s' if used > 1 else ''}"
    return told, workers.run_pool(jobs, workers=count, memory=memory)
