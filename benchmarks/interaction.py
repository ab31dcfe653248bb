"""The studio as a subject: how long from a handle's message to the new figure sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FIGURES = {  # what is dragged: its file below the recordings, and the handle
    "the human": (None, "hand.R"),
    "Unitree G1 (MJCF)": ("mjcf/unitree_g1/g1.xml", "right_wrist_yaw_joint"),
    "CesiumMan (glTF)": ("gltf/khronos_CesiumMan.glb", "Skeleton_arm_joint_R__3_"),
}
TIMES = {
    "round_trip": "from a page's message until the new figure has arrived there",
    "inside": "from the session being told until the figure is handed to the network",
    "work": "of that, the time that it kept a core busy",
}


def evidence(page) -> None:
    """Write the page: `studio.py` measures, in a process of its own."""
    page.text(
        "A second process connects like a page and drags a hand repeatedly. Times run from the message of the handle "
        "to the new figure; rendering in the browser is not included. Meshes, the support polygon, and contacts of "
        "limbs with each other and with the floor are shown during the drag. Then drags arrive at a steady rate for a "
        "while, and the memory and the last target are checked."
    )
    known = {name: what for name, what in FIGURES.items() if what[0] is None or page.data is not None}
    measured = {name: _measured(page, *what) for name, what in known.items()}
    for key, value in measured["the human"].items():
        page.value(key, value)
    page.value("figures", measured)
    page.table(
        "One drag after another",
        ["", "", "median ms", "99% ms", "worst ms"],
        [
            [name, label, *(one[key][which] for which in ("median_ms", "p99_ms", "worst_ms"))]
            for name, one in measured.items() for key, label in TIMES.items()
        ],
    )  # fmt: skip
    page.table(
        "What is shown",
        ["", "surfaces", "triangles", "contacts while dragging", "messages per drag", "bytes per drag"],
        [
            [
                name, one["shown"]["surfaces"], one["shown"]["triangles"],
                "yes" if one["shown"]["contacts while dragging"] else "no",
                one["messages_per_drag"], one["bytes_per_drag"],
            ]
            for name, one in measured.items()
        ],
    )  # fmt: skip
    page.table(
        "Drags at a steady rate",
        ["", "drags a second", "drags", "last target missed by [m]", "memory before [MB]", "memory after [MB]"],
        [
            [
                name,
                *(
                    one["storm"][key]
                    for key in ("rate", "drags", "last_target_missed_m", "rss_before_MB", "rss_after_MB")
                ),
            ]
            for name, one in measured.items()
        ],
        note="The studio takes the newest target and skips those that it has no time for: nothing queues up, and "
        "the hand ends where the last drag put it, or as close as it can reach.",
    )


def _measured(page, file: str | None, body: str) -> dict:
    options = ["--seconds", str(page.pick(30, 4)), "--drags", str(page.pick(1000, 50)), "--body", body]
    options += [] if file is None else ["--file", str(page.data / file)]
    script = Path(__file__).with_name("studio.py")
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])[0]  # a line of viser follows
