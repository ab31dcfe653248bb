"""A scripted afternoon in the studio: two people at two pages of a real browser pose three figures.

    python -m benchmarks.afternoon [--minutes 2]

Each round opens a figure, drags handles with the mouse on both pages, sets keys, undoes and redoes, saves the project,
changes something, drops the project on a page, and now and then loses every connection. Whatever is not as it was is a
fault: a pose or a key that is lost, another picture, an error in a console, pages that are not in step. The memory of
the studio's process and what a new page is sent are noted after every round.
"""

from __future__ import annotations

import argparse
import base64
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studio import rss

WALK = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "walk.bvh"
FIGURES = ("human", "panda", WALK)
DROP = """([data, name]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


class Afternoon:
    """Two pages on one studio, and what went wrong."""

    def __init__(self, open_page: Any):
        from posable.studio.server import Studio
        from posable.studio.session import Session

        self.began = time.monotonic()
        self.session = Session()
        self.studio = Studio(self.session, port=8320, detail=0.3)
        self.studio.pace = lambda *_: None  # type: ignore[method-assign]  # nothing is drawn again in the middle of a drag
        self.faults: list[str] = []
        self.counts = dict.fromkeys(("rounds", "drags", "keys", "undone", "saves", "opens", "reconnects"), 0)
        self.pages = [self._page(open_page) for _ in range(2)]
        self.rng = np.random.default_rng(0)
        self.first_drag: float | None = None

    def _page(self, open_page: Any) -> Any:
        page = open_page(self.studio.url, 800, 560)
        page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        page.on("console", lambda said: said.type == "error" and self.faults.append(f"console: {said.text}"))
        return page

    def close(self) -> None:
        """End the studio."""
        self.studio.close()

    def check(self, good: bool, what: str) -> None:
        """Note a fault where something is not as it should be."""
        if not good:
            self.faults.append(f"round {self.counts['rounds']}: {what}")

    def in_step(self) -> None:
        """Wait until both pages show what the session has."""
        from tests.studio.browser import wait_for

        from posable.studio.panels.strip import state_of

        for page in self.pages:
            element = page.locator("#posable-state")

            def same(element: Any = element) -> bool:
                told = element.get_attribute("data-state") if element.count() else None
                return told is not None and json.loads(told) == json.loads(state_of(self.session.view()))

            try:
                wait_for(same, "a page to be in step", 60.0)
            except AssertionError as fault:
                self.faults.append(str(fault))

    # ------------------------------------------------------------------------------------------------- what people do

    def open(self, source: Any) -> None:
        """Open a figure by name, or drop a file on a page."""
        from tests.studio.browser import wait_for

        before = self.session.figure
        if isinstance(source, str):
            self.session.open_figure(source)
        else:
            self.session.save_project()  # saved: nobody is asked
            data = base64.b64encode(source.read_bytes()).decode()
            self.pages[0].evaluate(DROP, [data, source.name])
        wait_for(lambda: self.session.figure != before, "the figure")
        self.counts["opens"] += 1
        self.in_step()

    def drag(self, page: Any) -> None:
        """Drag some handle with the mouse by some pixels."""
        from tests.studio.browser import drag_mouse, on_screen, wait_for

        client = list(self.studio.server.get_clients().values())[self.pages.index(page)]
        handle = self.session.handles[int(self.rng.integers(len(self.session.handles)))]
        start = on_screen(client, self.session.frames.position(handle.body), page)
        if not (20 < start[0] < 400 and 20 < start[1] < 480):
            return
        end = np.array(start) + self.rng.uniform(-60, 60, 2)
        try:
            drag_mouse(page, start, tuple(end), steps=6, held=lambda: self.session.active is not None)
        except AssertionError:
            return  # something else was in front of it
        wait_for(lambda: self.session.active is None, "the drag to end")
        self.counts["drags"] += 1
        if self.first_drag is None:
            self.first_drag = time.monotonic() - self.began

    def key_and_undo(self, page: Any) -> None:
        """Set a key further on, undo and redo it."""
        line = self.session.timeline
        self.session.player.seek(float(self.rng.integers(line.count)))
        self.session.player.set_key()
        self.counts["keys"] += 1
        keys, pose = dict(self.session.timeline.keys), self.session.pose
        self.check(self.session.undo(), "nothing to undo")
        self.check(self.session.redo(), "nothing to redo")
        self.counts["undone"] += 1
        self.check(np.array_equal(self.session.pose, pose), "redo brings back another pose")
        self.check(self.session.timeline.keys.keys() == keys.keys(), "redo loses a key")

    def save_and_reopen(self) -> None:
        """Save, change something, drop the project on a page: everything is as it was, to the last pixel."""
        before, picture = self.told(), self.picture()
        name, data = self.session.save_project()
        self.counts["saves"] += 1
        pose = self.session.pose + 0.1
        self.session.set_pose(np.clip(pose, self.session.skeleton.lower, self.session.skeleton.upper))
        self.session.save_project()
        self.session.upload(name, data)
        self.counts["opens"] += 1
        self.check(self.told() == before, "the project is not what was saved")
        self.check(np.array_equal(self.picture(), picture), "the project shows another picture")
        self.in_step()

    def told(self) -> str:
        """Return everything that a project should bring back."""
        line = self.session.timeline
        return json.dumps({
            "pose": self.session.pose.tolist(), "frame": line.frame,
            "keys": {str(k): v.tolist() for k, v in sorted(line.keys.items())},
            "handles": [(h.body, h.hold, h.mode, h.position.tolist()) for h in self.session.handles],
        })  # fmt: skip

    def picture(self) -> np.ndarray:
        """Return the figure as it is drawn without a screen (90, 160, 3)."""
        from posable.studio.appearance import look_of
        from posable.studio.film import eye_for, picture

        session = self.session
        look = look_of(session.skeleton, session.scene, detail=0.3)
        eye = eye_for(session.skeleton, session.pose[None], look)
        return picture(session.skeleton, session.pose, look, eye, (160, 90))

    def reconnect(self) -> None:
        """Lose every connection; pages come back by themselves."""
        from tests.studio.browser import wait_for

        old = set(self.studio.server.get_clients())
        self.studio.server.drop_connections()
        wait_for(lambda: len(set(self.studio.server.get_clients()) - old) == len(self.pages), "the pages to come back")
        self.counts["reconnects"] += 1
        self.in_step()

    def round(self, number: int) -> None:
        """One round of everything."""
        self.counts["rounds"] += 1
        self.open(FIGURES[number % len(FIGURES)])
        for page in self.pages:
            self.drag(page)
        self.key_and_undo(self.pages[number % 2])
        self.drag(self.pages[number % 2])
        self.save_and_reopen()
        if number % 3 == 1:
            self.reconnect()


def spend(minutes: float) -> dict[str, Any]:
    """Spend an afternoon of so many minutes; return what happened, and every fault."""
    from tests.studio.browser import browser

    memory, backlog = [], []
    with browser() as open_page:
        made = Afternoon(open_page)
        end, number = time.monotonic() + 60.0 * minutes, 0
        try:
            while time.monotonic() < end or number < len(FIGURES):
                made.round(number)
                number += 1
                memory.append(round(rss(), 1))
                backlog.append(made.studio.server.backlog())
        finally:
            made.close()
    third = max(len(memory) // 3, 1)
    return {
        **made.counts, "faults": made.faults, "memory_MB": [max(memory[:third]), max(memory[-third:])],
        "backlog": [max(backlog[:third]), max(backlog[-third:])],
        "seconds_to_first_drag": round(made.first_drag, 1) if made.first_drag else None,
    }  # fmt: skip


def evidence(page: Any) -> None:
    """Write the page."""
    page.text(
        "Two people at two pages of a browser pose three figures. Each round opens a figure, drags handles with the "
        "mouse on both pages, sets keys, undoes and redoes, saves the project, changes something, opens the project "
        "again, and now and then loses every connection. Whatever is not as it was is a fault: a pose or a key that is "
        "lost, another picture, an error in a console, pages that are not in step."
    )
    out = spend(page.pick(10, 1))
    for key, value in out.items():
        page.value(key, value)
    counted = ("rounds", "drags", "keys", "undone", "saves", "opens", "reconnects")
    page.table("What two people did", counted, [[out[key] for key in counted]])
    page.table(
        "What was left of it",
        ["faults", "memory at first [MB]", "at last [MB]", "messages for a new page at first", "at last"],
        [[len(out["faults"]), *out["memory_MB"], *out["backlog"]]],
        note="First and last third of the rounds, the largest value of each. " + "; ".join(out["faults"][:5]),
    )


def main() -> None:
    """Spend an afternoon and print it."""
    parser = argparse.ArgumentParser(description="Spend an afternoon in the studio.")
    parser.add_argument("--minutes", type=float, default=2.0)
    out = spend(parser.parse_args().minutes)
    print(json.dumps(out, indent=2))
    raise SystemExit(1 if out["faults"] else 0)


if __name__ == "__main__":
    main()
