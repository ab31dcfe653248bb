"""The studio as a subject: how long from a handle's message to the new figure sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def evidence(page) -> None:
    """Write the page: `studio.py` measures, in a process of its own."""
    page.text(
        "A handle of the human is dragged, with its six handles held, and one page connected that takes every "
        "message. The time runs from the handle's message to the new figure handed to the network; a browser's "
        "drawing is not in it. Then drags arrive at 200 a second for a while: memory and the last target are looked "
        "at."
    )
    options = ["--seconds", str(page.pick(30, 4)), "--drags", str(page.pick(1000, 50))]
    script = Path(__file__).with_name("studio.py")
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    measured = json.loads(done.stdout[done.stdout.index("{") :])
    storm = measured.pop("storm", {})
    for key, value in measured.items():
        page.value(key, value)
    page.value("storm", storm)
    page.table("One drag after another", ["what", "value"], [[key, value] for key, value in measured.items()])
    page.table("A storm of drags", ["what", "value"], [[key, value] for key, value in storm.items()])
