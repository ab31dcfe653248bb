"""Many files: `posable track` over clips of the length that a large data set has, and what that set would take.

The clips are cut from one long take, so that every machine with the recordings measures the same work. Processor time
is what the estimates are made of: it hardly depends on what else the machine does.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.page import busy
from benchmarks.recordings import read_markers, read_skeleton
from posable.cli.main import main

TAKE, FIGURE = "hdm05/HDM_dg_03-05_02_120.c3d", "hdm05/HDM_dg.asf"
HOURS, RATE, FILES = 40.0, 120.0, 11_000  # of a data set like AMASS: its abstract says 40 h and over 11,000 motions
FRAMES = int(HOURS * 3600 * RATE)
CLIP = FRAMES // FILES  # frames in the mean
MOST_MARKERS = 67
PLACES = (("one core", 1), ("a workstation of 16 cores", 16), ("a cluster of 100 cores", 100))


@dataclass(frozen=True)
class Ran:
    """One call over many files: files, frames, seconds on the clock and of all processors, mean marker error [m]."""

    files: int
    frames: int
    seconds: float
    processor: float | None
    error: float


def evidence(page) -> None:
    """Write the page."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clips = cut(page.data, folder, page.pick(24, 4))
        page.text(
            f"`posable track` with {len(clips)} clips of {CLIP} frames with 41 markers, cut from an HDM05 take: "
            "reading, tracking, and writing BVH, a report and an outcome file for each. With `--as-is` the actor is "
            "calibrated once; otherwise every clip is calibrated separately. Processor time is that of all workers, "
            "including their start and end."
        )
        throughput(page, folder, clips)
        once, each = costs(page, folder, clips)
        estimate(page, once, each, markers(page))


def cut(data: Path, folder: Path, count: int) -> list[Path]:
    """Write clips of the take, and the actor calibrated on all of it; return the clips."""
    take = read_markers(data / TAKE)
    ps.save(folder / "actor.npz", ps.calibrate(read_skeleton(data / FIGURE), take))
    (folder / "figure.asf").write_bytes((data / FIGURE).read_bytes())
    starts = np.linspace(0, len(take) - CLIP, count).astype(int)
    paths = [folder / f"clip{k:03d}.c3d" for k in range(count)]
    for path, start in zip(paths, starts, strict=True):
        ps.save(path, ps.Markers(take.names, take.positions[start : start + CLIP], take.fps, take.up, take.unit))
    return paths


def track(folder: Path, clips: list[Path], out: str, *words: str, calibrate: bool = False) -> Ran:
    """Track clips into a folder, and return what it took."""
    figure = ["figure.asf"] if calibrate else ["actor.npz", "--as-is"]
    begin, before = time.perf_counter(), busy()
    call = [
        "track",
        *map(str, clips),
        "--figure",
        str(folder / figure[0]),
        *figure[1:],
        "-o",
        str(folder / out),
        *words,
    ]
    with open(os.devnull, "w", encoding="utf8") as nowhere, redirect_stdout(nowhere):
        main(call)
    seconds, processor = time.perf_counter() - begin, busy() - before
    said = json.loads((folder / out / "summary.json").read_text(encoding="utf8"))
    if said["failed"] or said["not_done"]:
        raise RuntimeError(f"{said['failed']} clips failed: {said['rows'][0]['why']}")
    error = float(np.mean([row["error"] for row in said["rows"]]))
    return Ran(said["files"], said["frames"], seconds, None if "--scheduler" in words else processor, error)


def throughput(page, folder: Path, clips: list[Path]) -> None:
    """Write the table of what was measured, and whether the bits are the same."""
    cores = page.machine["cores"]
    crews = [("1 worker", "one", ["--workers", "1"]), (f"{cores} workers", "all", ["--workers", str(cores)])]
    rows = []
    for label, out, words in crews:
        rows.append(_row(label, track(folder, clips, out, *words)))
    if find_spec("distributed"):
        from distributed import LocalCluster

        with LocalCluster(n_workers=cores, threads_per_worker=1, dashboard_address=None, silence_logs=50) as local:  # pyright: ignore
            where: str = local.scheduler_address  # pyright: ignore
            rows.append(_row(f"Dask, {cores} workers", track(folder, clips, "dask", "--scheduler", where)))
    few = clips[: max(2, len(clips) // 4)]
    own = track(folder, few, "calibrated", "--workers", str(cores), calibrate=True)
    rows.append(_row(f"{cores} workers, each clip calibrated", own))
    columns = ["", "clips", "frames", "s", "frames/s", "processor s", "frames per processor s", "mean error mm"]
    page.table("Throughput", columns, rows)
    folders = [name for name in ("one", "all", "dask") if (folder / name).is_dir()]
    same = all(len({(folder / name / f"{clip.stem}.bvh").read_bytes() for name in folders}) == 1 for clip in clips)
    page.value("same_bits", same)
    page.text(f"The results of {', '.join(folders)} are {'bitwise identical' if same else 'NOT bitwise identical'}.")


def _row(label: str, ran: Ran) -> list:
    rate = None if ran.processor is None else ran.frames / ran.processor
    return [label, ran.files, ran.frames, ran.seconds, ran.frames / ran.seconds, ran.processor, rate, 1e3 * ran.error]


def costs(page, folder: Path, clips: list[Path]) -> tuple[float, float]:
    """Return processor seconds of one clip, with the actor given and with a calibration of its own.

    From the difference of many clips to few, so that the start of the worker is not in it.
    """
    found = []
    for calibrate, count in ((False, len(clips)), (True, max(3, len(clips) // 4))):
        few, many = (
            track(folder, clips[:n], f"cost{calibrate}{n}", "--workers", "1", calibrate=calibrate) for n in (1, count)
        )
        spent = (many.processor or 0.0) - (few.processor or 0.0)
        found.append(spent / (many.files - few.files))
        kind = "calibrated" if calibrate else "given"
        page.value(f"processor_seconds_{kind}", found[-1])
        page.value(f"worker_start_{kind}", (few.processor or 0.0) - found[-1])
    rows = [["actor given", found[0], CLIP / found[0]], ["calibrated each", found[1], CLIP / found[1]]]
    start = page.values["worker_start_given"]
    note = f"The start of a worker, {start:.1f} s with a compiled engine, is not included."
    page.table("A clip on one core", ["", "processor s", "frames per processor s"], rows, note)
    return found[0], found[1]


def markers(page) -> float:
    """Return by how much tracking alone slows down from the recorded markers to 67: the first ones are there twice."""
    take = read_markers(page.data / TAKE)
    names = [name.rpartition(":")[2] for name in take.names]  # without the actor's
    take = ps.Markers(tuple(names), take.positions[:CLIP], take.fps, take.up, take.unit)
    actor = ps.calibrate(read_skeleton(page.data / FIGURE), take)
    sites = {site.name: site for site in actor.sites}
    known = [name for name in names if name in sites]
    twice = known[: max(0, MOST_MARKERS - len(known))]
    copies = [ps.Site(f"{name}2", sites[name].joint, sites[name].offset) for name in twice]
    doubled = actor.replace(sites=[*actor.sites, *copies])
    places = take.positions[:, [names.index(name) for name in (*known, *twice)]]
    fewer = take.select(known)
    more = ps.Markers((*known, *(site.name for site in copies)), places, take.fps, take.up, take.unit)
    times = []
    for figure, given in ((actor, fewer), (doubled, more)):
        ps.track(figure, given, threads=1)
        best = np.inf
        for _ in range(page.pick(5, 2)):
            begin = time.process_time()
            ps.track(figure, given, threads=1)
            best = min(best, time.process_time() - begin)
        times.append(best)
    rows = [[len(m.names), s, CLIP / s] for m, s in zip((fewer, more), times, strict=True)]
    page.table("Tracking alone, one core", ["markers", "processor s", "frames per processor s"], rows)
    return page.value("more_markers", times[1] - times[0])


def estimate(page, once: float, each: float, more: float) -> None:
    """Write what a data set like AMASS would take."""
    page.heading(f"A data set of {HOURS:g} hours")
    page.text(
        f"{HOURS:g} h at {RATE:g} Hz are {FRAMES / 1e6:.1f} million frames in {FILES} files. Wall-clock hours, "
        "extrapolated from the processor time of a clip above, times the number of files, divided by the number of "
        "cores, assuming that cores do not slow each other down and files are never waited for. The second figure is "
        "with 67 markers."
    )
    rows = []
    for name, cores in PLACES:
        cells = [name]
        for cost in (once, each):
            low, high = (FILES * s / cores / 3600 for s in (cost, cost + max(more, 0.0)))
            cells.append(f"{_time(low)} to {_time(high)}")
        rows.append(cells)
    page.table("The whole set", ["", "actors calibrated once", "every file calibrated"], rows)


def _time(hours: float) -> str:
    if hours >= 1.0:
        return f"{hours:.1f} h"
    minutes = 60.0 * hours
    return f"{minutes:.0f} min" if minutes >= 10.0 else f"{minutes:.1f} min"
