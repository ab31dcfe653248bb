"""Measures subjects one after another, each in a process of its own, and writes their pages."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

from benchmarks.page import ROOT, Page
from benchmarks.peers.environments import FOLDER, ready
from benchmarks.subject import data_folder
from benchmarks.subjects import BY_NAME, SUBJECTS


def measure(name: str, quick: bool, folder: Path) -> None:
    """Measure one subject and write its page; an exception ends the process with its traceback and code 1."""
    warnings.simplefilter("ignore")
    subject = BY_NAME[name]
    page = Page(subject.name, subject.title, folder, quick, data_folder())
    begin = time.perf_counter()
    try:
        subject.load()(page)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    page.write(time.perf_counter() - begin)


def run_all(names: list[str], quick: bool, folder: Path) -> int:
    """Measure the named subjects; return how many failed. A skipped one says why."""
    failed = []
    for name in names:
        reason = BY_NAME[name].missing()
        if reason:
            print(f"{name}: skipped, {reason}", file=sys.stderr)
            continue
        print(f"{name}: {BY_NAME[name].title}", file=sys.stderr, flush=True)
        begin = time.perf_counter()
        elsewhere = None if quick else other_python(BY_NAME[name].environment)
        code = measure_in(elsewhere, name, folder) if elsewhere else measure_here(name, quick, folder)
        if code:
            failed.append(name)
        outcome = "FAILED after" if code else "done in"
        print(f"{name}: {outcome} {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    write_index(folder)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def measure_here(name: str, quick: bool, folder: Path) -> int:
    """Measure one subject in a process of its own; return its exit code."""
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(name, quick, folder))
    process.start()
    process.join()
    return process.exitcode or 0


def other_python(environment: str) -> Path | None:
    """Return the Python of the environment that a subject runs in; None where that is this one, or cannot be made."""
    if not environment or Path(sys.prefix) == FOLDER / environment:
        return None
    try:
        return ready(environment)
    except RuntimeError as error:
        print(f"{error}; measured without it", file=sys.stderr, flush=True)
        return None


def measure_in(python: Path, name: str, folder: Path) -> int:
    """Measure one subject by another Python, which finds Posable in this checkout; return its exit code."""
    found = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    words = [str(python), "-m", "benchmarks", name, "--out", str(folder.resolve())]
    return subprocess.run(words, env=os.environ | {"PYTHONPATH": found}, cwd=ROOT, check=False).returncode


def write_index(folder: Path) -> None:
    """Write index.md: a line for every page in the folder, in the order of `SUBJECTS`."""
    lines = []
    for subject in SUBJECTS:
        path = folder / f"{subject.name}.json"
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf8"))
            lines.append(f"| [{subject.title}]({subject.name}.md) | {kept['date']} | {kept['seconds']:.0f} s |")
    text = INDEX.format(rows="\n".join(lines))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text(text, encoding="utf8")


INDEX = """# Results

Measurements of Posable. Every page states the machine, versions and date, and the command that repeats it; `make
bench` repeats all of them.

| page | date | duration |
| --- | ---: | ---: |
{rows}
"""


def print_list() -> None:
    """Print the subjects, and what keeps any of them from running here."""
    for subject in SUBJECTS:
        reason = subject.missing()
        print(f"{subject.name:15s} {subject.title}" + (f"   [skipped: {reason}]" if reason else ""))
