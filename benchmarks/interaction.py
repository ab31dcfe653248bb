"""The studio as a subject: how long from a handle's message to the new figure sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def evidence(page) -> None:
    """Write the page: `studio.py` measures, in a process of its own."""
    page.text(
        "The human with its six handles: a second process connects like a page and drags a hand again and again; the "
        "time runs from the handle's message to the new figure, and a browser's drawing is not in it. Then drags "
        "arrive at a steady rate for a while, and the memory and the last target are looked at."
    )
    options = ["--seconds", str(page.pick(30, 4)), "--drags", str(page.pick(1000, 50))]
    script = Path(__file__).with_name("studio.py")
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    measured, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])  # a verdict in words follows
    for key, value in measured.items():
        page.value(key, value)
    page.table(
        "One drag after another",
        ["", "median ms", "99% ms", "worst ms"],
        [
            [told, *(measured[key][which] for which in ("median_ms", "p99_ms", "worst_ms"))]
            for key, told in TIMES.items()
        ],
        note=f"A drag sends {measured['messages_per_drag']:g} small messages to the page, "
        f"{measured['bytes_per_drag']} bytes in all.",
    )
    storm = measured["storm"]
    page.table(
        f"{storm['rate']:g} drags a second",
        ["drags", "last target missed by [m]", "memory before [MB]", "memory after [MB]"],
        [[storm[key] for key in ("drags", "last_target_missed_m", "rss_before_MB", "rss_after_MB")]],
        note="The studio takes the newest target and leaves out those that it has no time for: nothing piles up, and "
        "the hand ends where the last drag put it.",
    )


TIMES = {
    "round_trip": "from a page's message until the new figure has arrived there",
    "inside": "from the session being told until the figure is handed to the network",
    "work": "of that, the time that it kept a core busy",
}
