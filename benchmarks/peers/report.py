"""The tables, the picture and the short table of README, from what the runs gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.page import percent, shown
from benchmarks.peers.environments import ENVIRONMENTS, PEERS
from benchmarks.peers.run import Entrant, beyond_limits, marker_errors, solved_share
from benchmarks.peers.works import Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.page import Page

Results = list[tuple[Work, list[Entrant]]]
SHORT = {
    "panda": "Panda, 7 axes", "ur5": "UR5, 6 axes", "talos_50": "Talos, six poses", "talos_100": "Talos, whole range",
    "human": "human, six places", "markers": "41 markers",
}  # fmt: skip
NAMES = {"pyroki": "PyRoki", "tracikpy": "TRAC-IK through tracikpy"}
ONCE = "Posable, no restarts"

METHOD = """
All libraries get the same figure as the same URDF (a hinge or slide per degree of freedom), the same goals,
computed by forward kinematics from random poses within the limits, and the same start. Solved means that every goal
is within 1 mm and 0.01 rad and every joint within 1e-6 of its limits, evaluated at the returned joint values by
forward kinematics in plain NumPy that no solver shares. Before that, a joint past its limit by less than 1e-4 is
clamped: quadratic programs and single precision leave errors of that size. Iterations stop at 0.1 mm and 0.001 rad.

Each library runs in its own process and environment, with one thread for linear algebra; the libraries alternate,
pass by pass. Times are processor times over all threads: on an idle machine they equal wall-clock times, and on a
busy one they do not penalise whoever takes longer than a time slice. The time of a problem is the median of the
passes; the columns show the median and the 99th percentile over the problems, and for a batch the time per problem.
A library without restarts starts again at a random pose within the limits, up to 20 times, if it reports a miss;
"first start" is what it reached without that. A library too slow for all problems solved the first ones within six
seconds per pass: their number is in the table, and its share refers to those only. Posable may restart up to 100
times. The ratio is to a Posable `Session`, including moving its goals. Posable is measured with `natural=False`
throughout, because the other libraries have no such criterion; [natural poses](natural.md) shows what it costs on
the human.

Settings were chosen by trying several on similar problems: 14 for Robotics Toolbox, 6 for pink (mink uses the
same), 19 for Momentum, and 5 formulations of the problem for drake. The others run as first written.
"""


def write(page: Page, results: Results, failures: dict[str, str]) -> None:
    """Write the page and, beside it, the short table."""
    page.text(METHOD)
    for work, entrants in results:
        page.heading(work.title)
        if work.tracking:
            _tracking_table(page, work, entrants)
        else:
            _table(page, work, entrants)
    page.plot(
        "times", picture(results), "Median time and, at the end of the line, the 99th percentile, with the share solved"
    )
    _settings(page, results)
    _missing(page, failures)
    page.folder.mkdir(parents=True, exist_ok=True)
    (page.folder / "peers_table.md").write_text(short_table(results), encoding="utf8")


def base_time(entrants: list[Entrant]) -> float:
    """Return the median time [s] that ratios are to: the first entrant's, Posable's."""
    return float(np.median(entrants[0].seconds())) if entrants[0].passes else float("nan")


def _table(page: Page, work: Work, entrants: list[Entrant]) -> None:
    base, rows = base_time(entrants), []
    once = next((one for one in entrants if one.title == ONCE and one.passes), None)
    for entrant in entrants:
        if entrant.title == ONCE:
            continue
        if not entrant.passes:
            rows.append([entrant.title, 0, "", "failed", None, None, None, None])
            continue
        seconds = entrant.seconds()
        first = "" if entrant.restarts else percent(solved_share(work, entrant, "first_"))
        if entrant.ours and once is not None:
            first = percent(solved_share(work, once))
        median, late = 1e3 * np.median(seconds), 1e3 * np.percentile(seconds, 99)
        alone = entrant.adapter == "posable:Batch"
        share = percent(solved_share(work, entrant))
        clock = 1e3 * entrant.seconds("seconds")
        told = [median, None if alone else late, np.median(clock), median / base / 1e3]
        rows.append([entrant.title, len(seconds), first, share, *told])
        page.value(f"{work.name}/{entrant.adapter}", {
            "solved": solved_share(work, entrant), "median_ms": median, "late_ms": late, "problems": len(seconds),
            "mean_ms": 1e3 * seconds.mean(), "median_clock_ms": np.median(clock),
            "late_clock_ms": np.percentile(clock, 99),
        })  # fmt: skip
    columns = [
        "",
        "problems",
        "solved, first start",
        "solved",
        "median ms",
        "99% ms",
        "median ms on the clock",
        "x Session",
    ]
    page.table(work.title, columns, rows, _failed(entrants))


def _tracking_table(page: Page, work: Work, entrants: list[Entrant]) -> None:
    rows, base = [], None
    for entrant in entrants:
        if not entrant.passes:
            rows.append([entrant.title, 0, None, None, None, None, None])
            continue
        seconds, errors = entrant.seconds(), 1e3 * marker_errors(work, entrant)
        rate = 1.0 / seconds.mean()
        base = base or rate
        outside = beyond_limits(work, entrant)
        rows.append([entrant.title, len(seconds), rate, errors.mean(), np.median(errors), outside, base / rate])
        page.value(f"{work.name}/{entrant.adapter}", {
            "frames_per_second": rate, "mean_mm": errors.mean(), "median_mm": np.median(errors),
            "beyond": outside, "frames": len(seconds),
        })  # fmt: skip
    note = (
        "Errors over all markers of the frames processed, compared with the recorded positions; all libraries get "
        "the attachments and the first pose from Posable's calibration and first frame. The peers and a Session "
        "minimise exactly this error; "
        f"`ps.track` does more than that and stays a little farther from the markers. {_failed(entrants)}"
    )
    columns = ["", "frames", "frames/s", "mean error mm", "median error mm", "beyond a limit", "x ps.track"]
    page.table(work.title, columns, rows, note)


def _failed(entrants: list[Entrant]) -> str:
    told = [f"{entrant.title} failed: {entrant.error}." for entrant in entrants if entrant.error]
    return " ".join(told)


def _settings(page: Page, results: Results) -> None:
    """Write the versions and settings of each library."""
    page.heading("Settings")
    seen: dict[str, list[Any]] = {}
    for _, entrants in results:
        for entrant in entrants:
            if entrant.settings and entrant.title not in seen and entrant.title != ONCE:
                versions = ", ".join(f"{name} {number}" for name, number in entrant.versions.items())
                seen[entrant.title] = [entrant.title, versions, entrant.settings]
    page.table("Versions and settings", ["", "versions", "settings"], seen.values())


def _missing(page: Page, failures: dict[str, str]) -> None:
    """Write which libraries could not be installed, and why."""
    titles = {peer.environment: peer.title for peer in PEERS} | NAMES
    rows = [[titles.get(one.name, one.name), failures[one.name]] for one in ENVIRONMENTS if one.name in failures]
    if rows:
        page.heading("Not available")
        page.table("Libraries that could not be installed here", ["", "reason"], rows)


def short_table(results: Results) -> str:
    """Return the table for README: share solved and time as a multiple of Posable's, a row per peer."""
    cells: dict[str, dict[str, str]] = {"Posable": {}}
    for work, entrants in results:
        base = base_time(entrants)
        for entrant in entrants:
            if not entrant.passes or (entrant.ours and entrant is not entrants[0]):
                continue
            title = "Posable" if entrant.ours else entrant.title
            seconds = entrant.seconds()
            if work.tracking:
                rate, error = 1.0 / seconds.mean(), 1e3 * np.median(marker_errors(work, entrant))
                value = f"{error:.1f} mm, " + (
                    f"{rate:.0f} frames/s" if entrant.ours else _times(seconds.mean() / base)
                )
            else:
                share, median = percent(solved_share(work, entrant)), float(np.median(seconds))
                value = f"{share}, " + (f"{shown(1e3 * median)} ms" if entrant.ours else _times(median / base))
            cells.setdefault(title, {})[work.name] = value
    names = [work.name for work, _ in results]
    lines = ["| | " + " | ".join(SHORT[name] for name in names) + " |", "| --- |" + " ---: |" * len(names)]
    for title, row in cells.items():
        shown_title = "**Posable**" if title == "Posable" else title
        lines.append(f"| {shown_title} | " + " | ".join(row.get(name, "") for name in names) + " |")
    return "\n".join(lines) + "\n"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def picture(results: Results) -> Figure:
    """Return a panel per piece of work: each entrant's median time to its 99th percentile, and its share solved."""
    import matplotlib.pyplot as plt

    rows = (len(results) + 1) // 2
    figure, panels = plt.subplots(rows, 2, figsize=(13, 3.9 * rows), squeeze=False)
    for panel, (work, entrants) in zip(panels.flat, results, strict=False):
        done = [one for one in entrants if one.passes and one.title != ONCE]
        done.sort(key=lambda one: float(np.median(one.seconds())), reverse=True)
        for row, entrant in enumerate(done):
            ms = 1e3 * entrant.seconds()
            color = "tab:red" if entrant.ours else "tab:blue"
            panel.plot([np.median(ms), np.percentile(ms, 99)], [row, row], color=color, lw=1.5, alpha=0.5)
            panel.plot(np.median(ms), row, "o", color=color)
            if work.tracking:
                told = f"{1e3 * np.median(marker_errors(work, entrant)):.1f} mm"
            else:
                told = percent(solved_share(work, entrant))
            panel.annotate(told, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=8)
        panel.set_yticks(range(len(done)), [one.title for one in done], fontsize=8)
        panel.set_xscale("log")
        panel.set_xlabel("ms a frame" if work.tracking else "ms a solve")
        panel.set_title(SHORT[work.name], fontsize=10)
        panel.grid(axis="x", alpha=0.3)
    for panel in panels.flat[len(results) :]:
        panel.set_visible(False)
    figure.tight_layout()
    return figure
