"""The studio as a subject: how long from a handle's message to the new figure sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def evidence(page) -> None:
    """Write the page: `studio.py` measures, in a process of its own."""
    page.text(
        "The human with its six handles: a hand is dragged again and again, and the time runs from the handle's "
        "message to the new figure; a browser's drawing is not in it. Then drags arrive at 200 a second for a "
        "while, and the memory and the last target are looked at."
    )
    options = ["--seconds", str(page.pick(30, 4)), "--drags", str(page.pick(1000, 50))]
    script = Path(__file__).with_name("studio.py")
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    measured, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])  # a verdict in words follows
    for key, value in measured.items():
        page.value(key, value)
    page.table("As measured", ["what", "value"], list(flat(measured)))


def flat(measured: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers of nested tables with the names that lead to them."""
    for key, value in measured.items():
        name = f"{above}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from flat(value, f"{name}, ")
        else:
            yield name, value
