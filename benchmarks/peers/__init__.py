"""Comparison with other libraries: the same problems, the same machine, one run, one independent verification.

    python -m benchmarks peers [--quick]

`works.py` draws the work, `environments.py` installs the peers under .peers/, `run.py` runs everybody in turn, each
through its file in `adapters/` in a process of its own (`worker.py`), `chain.py` judges, `report.py` writes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.page import Page
    from benchmarks.peers.works import Work


def evidence(page: Page) -> None:
    """Install the peers, run all of the work, write the tables and the picture."""
    from benchmarks.peers import report
    from benchmarks.peers.environments import install_all
    from benchmarks.peers.run import compete

    failures = install_all(_say)
    results = []
    with tempfile.TemporaryDirectory() as name:
        for work in drawn(Path(name), page):
            _say(work.title)
            results.append((
                work,
                compete(work, failures, Path(name), passes=page.pick(3, 1), seconds=page.pick(6, 2), say=_say),
            ))  # fmt: skip
    report.write(page, results, failures)


def drawn(folder: Path, page: Page) -> Iterator[Work]:
    """Draw the work, piece by piece; without the recordings, what needs none."""
    from benchmarks.peers import works

    arms, bodies, data = page.pick(500, 30), page.pick(200, 15), page.data
    yield works.panda(folder, arms)
    if data is not None:
        yield works.ur5(folder, arms, data)
        yield works.talos(folder, bodies, data, 0.5)
        yield works.talos(folder, bodies, data, 1.0)
    yield works.human(folder, arms)
    if data is not None:
        yield works.markers(folder, page.pick(202, 30), data)


def _say(text: str) -> None:
    print(f"  peers: {text}", file=sys.stderr, flush=True)
