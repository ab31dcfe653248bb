"""A long scripted session in the studio: two users at two pages of a real browser pose three figures.

    python -m benchmarks.afternoon [--minutes 2] [--log rounds.jsonl]
    python -m benchmarks.afternoon --first-drag     # how long from the command to the first drag

Everything is done on the pages: figures are opened from the *File* tab or dropped, handles are dragged with the mouse,
by both people one after the other and at the same time; keys are set, undone and redone with the keyboard; projects are
saved with Ctrl-S, changed, and dropped on a page; connections are lost, also in the middle of a drag. Whatever is not
as it was is a fault: a pose or a key that is lost, another picture, an error in a console, pages that are not in step.
The memory of the studio and of the pages, and what a new page is sent, are noted after every round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studio import rss

WALK = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "walk.bvh"
FIGURES = ("human", "panda", WALK)
COUNTED = ("rounds", "drags", "drags at once", "missed presses", "keys", "undone", "saves", "opens", "reconnects")
BY_BOTH = "reconnects in a drag"
MINUTES = 60
HAND = (544, 420)  # [pixels] where the right hand of the human is on a page of 1280 x 800
QUESTION = "are not saved in a project"


class Afternoon:
    """Two pages on one studio, and what went wrong."""

    def __init__(self, open_page: Any):
        from posable.studio.server import Studio
        from posable.studio.session import Session

        self.began = time.monotonic()
        self.session = Session()
        self.studio = Studio(self.session, port=8320, detail=0.3)
        self.studio.adapt_detail = lambda *_: None  # type: ignore[method-assign]  # nothing is drawn again in the middle of a drag
        self.faults: list[str] = []
        self.session.on_notification(lambda text, kind: self.check(kind != "bad", f"the studio said: {text}"))
        self.counts = dict.fromkeys((*COUNTED, BY_BOTH), 0)
        self.rng = np.random.default_rng(0)
        self.first_drag: float | None = None
        self.presses = 0
        self.pages, self.clients = [], []
        for _ in range(2):
            known = set(self.studio.server.get_clients())
            self.pages.append(self._page(open_page))
            self.clients.append(self._new_client(known))
        self.meters = [page.context.new_cdp_session(page) for page in self.pages]

    def _page(self, open_page: Any) -> Any:
        page = open_page(self.studio.url, 900, 560)
        page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        page.on("console", lambda said: said.type == "error" and self.faults.append(f"console: {said.text}"))
        return page

    def _new_client(self, known: set[int]) -> int:
        """Wait for a page that was not known; return its number."""
        from tests.studio.browser import wait_for

        wait_for(lambda: set(self.studio.server.get_clients()) - known, "a page to connect")
        return min(set(self.studio.server.get_clients()) - known)

    def close(self) -> None:
        """End the studio."""
        self.studio.close()

    def check(self, good: bool, what: str) -> None:
        """Note a fault where something is not as it should be."""
        if not good:
            self.faults.append(f"round {self.counts['rounds']}: {what}")

    def same(self, before: str, what: str) -> None:
        """Note a fault where the session is not as it was told before."""
        old, new = json.loads(before), json.loads(self.told())
        other = [key for key in old if old[key] != new[key]]
        handles = [f"{a} is {b}" for a, b in zip(old["handles"], new["handles"], strict=False) if a != b]
        self.check(not other, f"{what}: {', '.join([*other, *handles])}")

    def wait(self, condition: Callable[[], Any], what: str, patience: float = 60.0) -> bool:
        """Wait until a condition holds; a fault where it never does."""
        from tests.studio.browser import wait_for

        try:
            wait_for(condition, what, patience)
        except AssertionError as fault:
            self.check(False, str(fault))
            return False
        return True

    def in_step(self) -> None:
        """Wait until both pages show what the session has."""
        from tests.studio.browser import is_in_step

        for page in self.pages:
            self.wait(lambda page=page: is_in_step(page, self.session), "a page to be in step")

    # ------------------------------------------------------------------------------------------------- what people do

    def open(self, source: Any, page: Any) -> None:
        """Open a figure from the File tab, or drop a file; undo brings the old one back, redo the new one."""
        from tests.studio.browser import drop_file, open_tab, row_of

        before, old = self.session.figure, self.told()
        if isinstance(source, str):
            open_tab(page, "File")
            row_of(page, "Figure").locator("input[role=combobox]").click()
            page.get_by_role("option", name=source, exact=True).click()
            self.wait(lambda: row_of(page, "Figure").locator("input[role=combobox]").input_value() == source, source)
            page.get_by_role("button", name="Open this figure").click()
        else:
            drop_file(page, source.name, source.read_bytes())
        self.answer(page, lambda: self.session.figure != before)
        self.counts["opens"] += 1
        self.in_step()
        new = self.told()
        self.press(page, "Control+z", lambda: self.told() == old, "undo to bring the old figure back")
        self.press(page, "Control+y", lambda: self.told() == new, "redo to bring the new figure back")
        self.in_step()

    def answer(self, page: Any, done: Callable[[], bool]) -> None:
        """Wait until something was opened; where the page asks about unsaved work, go on without saving."""
        asked = page.get_by_text(QUESTION)
        self.wait(lambda: done() or asked.count(), "the studio to open or to ask")
        if not done():
            page.get_by_role("button", name="Open without saving").click()
            self.wait(done, "what was opened")
            self.wait(lambda: not asked.count(), "the question to go")

    def press(self, page: Any, key: str, done: Callable[[], Any], what: str) -> None:
        """Press a key with the scene in focus, and wait for what it does."""
        page.evaluate("document.activeElement?.blur()")
        page.keyboard.press(key)
        self.wait(done, f"{key}: {what}")

    def place_of(self, who: int, body: str) -> tuple[float, float] | None:
        """Return where (x, y) [pixels] a handle is in front of a person, or None where it is off the scene."""
        from tests.studio.browser import on_screen

        client = self.studio.server.get_clients()[self.clients[who]]
        node = self.studio.stage.handles.nodes[body]
        w, x, y, z = node.wxyz
        turn = np.array([
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ])  # fmt: skip
        points = node.vertices @ turn.T + node.position
        nearest = points[np.argmin(np.linalg.norm(points - client.camera.position, axis=1))]
        place = on_screen(client, nearest, self.pages[who])
        return place if 20 < place[0] < 520 and 20 < place[1] < 480 else None

    def take_hold(self, who: int, body: str) -> tuple[float, float] | None:
        """Press on a handle and begin to drag it; return where, or None where the press met something else."""
        from tests.studio.browser import wait_for

        page, start = self.pages[who], self.place_of(who, body)
        if start is None:
            return None
        for wait in (400, 1500):
            page.mouse.move(*start)
            page.wait_for_timeout(wait)  # until the page has seen what is under the pointer
            page.mouse.down()
            self.presses += 1
            page.mouse.move(start[0] + 9 * (-1) ** who, start[1] - 8)
            try:
                wait_for(lambda: body in self.session.dragging, "the page to take hold", 3.0)
                return start
            except AssertionError:
                page.mouse.up()
                page.mouse.move(5, 5)
                page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                page.wait_for_timeout(300)  # what the press did has arrived
                self.let_go(who)  # it may have been another handle, in front of this one
        self.counts["missed presses"] += 1
        return None

    def let_go(self, who: int | None = None) -> bool:
        """Wait until a person drags nothing any more, or nobody does; a fault where that never happens."""

        def over() -> bool:
            if who is None:
                return not self.session.dragging and self.session.active is None
            return self.clients[who] not in [hold.client for hold in self.studio.stage.handles.holds.values()]

        ended = self.wait(over, "the drag to end")
        if not ended:
            held = f"{list(self.session.dragging)}, held by {self.studio.stage.handles.holds}"
            self.faults[-1] += f": {held}, pages {self.clients}"
        return ended

    def drag(self, people: tuple[int, ...]) -> None:
        """Drag some handle with the mouse by some pixels; several people drag different handles at the same time."""
        bodies = [h.body for h in self.session.handles]
        chosen = self.rng.permutation(bodies)[: len(people)]
        before, deep, pressed = self.told(), len(self.session.history), self.presses
        held = [(who, start) for who, body in zip(people, chosen, strict=False) if (start := self.take_hold(who, body))]
        for step in range(1, 7):
            for who, start in held:
                self.pages[who].mouse.move(start[0] + step * 9 * (-1) ** who, start[1] - step * 8)
                self.pages[who].wait_for_timeout(30)
        for who, _ in held:
            self.pages[who].mouse.up()
        if not self.let_go() or not held:
            return
        self.counts["drags"] += len(held)
        self.counts["drags at once"] += len(held) if len(held) > 1 else 0
        if self.first_drag is None:
            self.first_drag = time.monotonic() - self.began
        posed = self.told()
        made = len(self.session.history) - deep
        if made == len(held):
            for _ in held:
                depth = len(self.session.history)
                self.press(self.pages[0], "Control+z", lambda d=depth: len(self.session.history) < d, "one step back")
            self.same(before, "undo of a drag brings back something else")
            for _ in held:
                depth = len(self.session.history)
                self.press(self.pages[0], "Control+y", lambda d=depth: len(self.session.history) > d, "one step on")
            self.same(posed, "redo of a drag brings back something else")
            self.counts["undone"] += len(held)
        else:
            again = self.presses - pressed > len(held)  # a press that came late, or met another handle, is a drag too
            self.check(again, f"{len(held)} drags made {made} steps of undo")

    def set_keys(self, page: Any) -> None:
        """Go to a frame on the strip, set a key, undo and redo it."""
        line = self.session.timeline
        frame = int(self.rng.integers(line.count))
        box = page.locator("#posable-strip canvas").bounding_box()
        x = box["x"] + 8 + (box["width"] - 16) * frame / max(line.count - 1, 1)
        page.mouse.click(x, box["y"] + 41)
        self.wait(lambda: abs(self.session.timeline.shown - frame) <= 2, f"frame {frame}, clicked at {x:.0f}")
        frame = self.session.timeline.shown
        before = self.told()
        if frame in line.keys:
            return
        self.press(page, "k", lambda: frame in self.session.timeline.keys, f"a key at {frame}")
        self.counts["keys"] += 1
        keyed = self.told()
        self.press(page, "Control+z", lambda: self.told() == before, "the key to go")
        self.press(page, "Control+y", lambda: self.told() == keyed, "the key to come back")
        self.counts["undone"] += 1

    def save_and_reopen(self, who: int) -> None:
        """Save, change something, drop the project on a page: everything is as it was, and looks as it did."""
        from tests.studio.browser import drop_file, pixels

        page = self.pages[who]
        client = self.studio.server.get_clients()[self.clients[who]]
        page.mouse.move(5, 300)
        self.press(page, "1", lambda: self.faces(client), "the front view")
        before, picture, screen = self.told(), self.picture(), self.still(page)
        with page.expect_download() as waiting:
            page.evaluate("document.activeElement?.blur()")
            page.keyboard.press("Control+s")
        data = Path(waiting.value.path()).read_bytes()
        self.wait(lambda: not self.session.dirty, "it to be saved")
        self.counts["saves"] += 1
        if self.session.skeleton.name == "human":
            self.press(page, "m", lambda: self.told() != before, "the mirrored pose")
        self.press(page, "4", lambda: True, "another view")
        self.drag((who,))
        figure = self.session.figure
        drop_file(page, waiting.value.suggested_filename, data)
        self.answer(page, lambda: self.session.figure != figure)
        self.counts["opens"] += 1
        self.same(before, "the project is not what was saved")
        self.check(np.array_equal(self.picture(), picture), "the project shows another picture")
        self.in_step()
        page.mouse.move(5, 300)
        apart = [1.0]

        def same() -> bool:
            apart.append(float(np.mean(np.abs(pixels(page) - screen) > 25)))
            return apart[-1] < 0.01

        if not self.wait(same, "the page to show the saved picture", 90.0):
            self.check(False, f"{100.0 * apart[-1]:.1f}% of it differ")

    def faces(self, client: Any) -> bool:
        """Return whether a page looks straight from the front."""
        away = client.camera.position - client.camera.look_at
        return bool(away[0 if self.studio.stage.up[2] else 2] > 0.999 * np.linalg.norm(away))

    def still(self, page: Any) -> np.ndarray:
        """Return the picture of a page once it has come to rest."""
        from tests.studio.browser import pixels

        shots = [pixels(page)]

        def rests() -> bool:
            shots.append(pixels(page))
            return bool(np.abs(shots[-1] - shots[-2]).max() < 10.0)

        self.wait(rests, "the page to come to rest", 30.0)
        return shots[-1]

    def told(self) -> str:
        """Return everything that undo and a project should bring back."""
        with self.session.lock:  # never in the middle of a change
            return json.dumps(self._state())

    def _state(self) -> dict[str, Any]:
        line = self.session.timeline
        return {
            "figure": self.session.skeleton.name, "pose": self.session.pose.tolist(), "frame": line.frame,
            "keys": {str(k): v.tolist() for k, v in sorted(line.keys.items())},
            "handles": [(h.body, h.hold, h.mode, h.position.tolist()) for h in self.session.handles],
        }  # fmt: skip

    def picture(self) -> np.ndarray:
        """Return the figure as it is drawn without a screen (90, 160, 3)."""
        from posable.studio.appearance import appearance_of
        from posable.studio.film import camera_for, picture

        session = self.session
        look = appearance_of(session.skeleton, session.scene, detail=0.3)
        eye = camera_for(session.skeleton, session.pose[None], look)
        return picture(session.skeleton, session.pose, look, eye, (160, 90))

    def reconnect(self, *, dragging: bool) -> None:
        """Lose every connection, with `dragging` in the middle of a drag; pages come back by themselves."""
        held = dragging and self.take_hold(0, self.session.handles[0].body) is not None
        before, clients = self.told(), self.studio.server.get_clients()
        self.studio.server.drop_connections()
        old = set(clients)
        if not self.wait(lambda: len(set(self.studio.server.get_clients()) - old) == 2, "the pages to come back"):
            return
        if held:
            self.let_go()  # nobody holds it any more
            self.pages[0].mouse.up()
            self.counts[BY_BOTH] += 1
        else:
            self.same(before, "something else after a lost connection")
        self.in_step()  # a page that is still being built again does not answer to keys
        self._know_clients(set(self.studio.server.get_clients()) - old)
        self.counts["reconnects"] += 1

    def _know_clients(self, new: set[int]) -> None:
        """Find out which client is which page: the one whose camera moves with a page's view from above."""
        first, second = sorted(new)
        clients = self.studio.server.get_clients()
        self.wait(lambda: all(clients[k].camera.position is not None for k in new), "the views of the pages")

        def above(number: int) -> bool:
            camera = clients[number].camera
            across = np.abs(camera.position - camera.look_at) * (1.0 - self.studio.stage.up)
            return bool(across.max() < 0.05 * self.studio.stage.size)

        self.press(self.pages[0], "1", lambda: not (above(first) and above(second)), "the front view")
        self.press(self.pages[1], "1", lambda: not above(first) and not above(second), "the front view")
        for _ in range(12):  # a page that is still being built again may not answer yet: a person presses once more
            self.pages[0].keyboard.press("4")
            self.pages[0].wait_for_timeout(5000)
            if above(first) or above(second):
                break
        self.check(above(first) or above(second), "4 does not show the view from above")
        self.clients = [first, second] if above(first) else [second, first]
        self.press(self.pages[0], "1", lambda: not above(self.clients[0]), "the front view")

    def round(self, number: int) -> None:
        """One round of everything."""
        self.counts["rounds"] += 1
        who = number % 2
        self.open(FIGURES[number % len(FIGURES)], self.pages[who])
        for people in ((0,), (1,), (0, 1)):
            self.drag(people)
        self.set_keys(self.pages[who])
        self.drag((1 - who,))
        self.save_and_reopen(who)
        if number % 2:
            self.reconnect(dragging=number % 4 == 1)

    def note(self) -> dict[str, float]:
        """Return what everything holds at the moment: memory [MB] and messages for a new page."""
        heap = 0.0
        for meter in self.meters:
            meter.send("HeapProfiler.collectGarbage")
            heap += meter.send("Runtime.getHeapUsage")["usedSize"] / 2**20
        return {
            "studio": round(rss(), 1), "pages": round(heap, 1), "backlog": self.studio.server.backlog(),
            "minutes": round((time.monotonic() - self.began) / 60.0, 2),
        }  # fmt: skip


def spend(minutes: float, log: str | None = None) -> dict[str, Any]:
    """Spend an afternoon of so many minutes; return what happened, and every fault.

    Args:
        minutes: How long.
        log: A file for one line of JSON a round: what was done, the faults so far, the memory; else they are printed.
    """
    from tests.studio.browser import browser

    notes: list[dict[str, float]] = []
    with browser() as open_page:
        made = Afternoon(open_page)
        end, number = time.monotonic() + 60.0 * minutes, 0
        try:
            while time.monotonic() < end or number < 2 * len(FIGURES):
                try:
                    made.round(number)
                except Exception as error:  # one round that ends early is a fault; the afternoon goes on
                    made.faults.append(f"round {number + 1}: {type(error).__name__}: {error}"[:500])
                number += 1
                notes.append(made.note())
                told = json.dumps({**made.counts, **notes[-1], "faults": made.faults})
                if log is None:
                    print(told, file=sys.stderr, flush=True)
                else:
                    with open(log, "a", encoding="utf8") as file:
                        file.write(told + "\n")
        finally:
            made.close()
    third = max(len(notes) // 3, 1)

    def ends(key: str) -> list[float]:
        return [max(note[key] for note in part) for part in (notes[:third], notes[-third:])]

    return {
        "minutes": notes[-1]["minutes"], **made.counts, "faults": made.faults, "memory_MB": ends("studio"),
        "pages_MB": ends("pages"), "backlog": ends("backlog"),
        "seconds_to_first_drag": round(made.first_drag, 1) if made.first_drag else None,
    }  # fmt: skip


def first_drag() -> dict[str, float]:
    """Start `posable studio` as a person does and drag a hand of the human; return the seconds until each step."""
    from tests.studio.browser import browser, drag_mouse, wait_for

    with browser() as open_page, tempfile.TemporaryDirectory() as state:
        begin = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "posable.cli.main", "studio", "--no-browser", "--json", "--port", "8350"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "POSABLE_STATE": state},
        )  # fmt: skip
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            out = {"address": time.monotonic() - begin}
            page = open_page(url, 1280, 800)
            shown = page.locator("#posable-state")
            shown.wait_for(state="attached")
            out["page"] = time.monotonic() - begin
            wait_for(lambda: not page.get_by_text("Preparing the solver").count(), "the solver", 300.0)
            out["solver"] = time.monotonic() - begin

            def dirty() -> bool:
                return json.loads(shown.get_attribute("data-state") or "{}").get("dirty", False)

            drag_mouse(page, HAND, (HAND[0] - 40, HAND[1] - 90), held=dirty)
            wait_for(dirty, "the figure to follow")
            out["first drag"] = time.monotonic() - begin
            with open(f"/proc/{process.pid}/stat") as stat:
                ticks = stat.read().rpartition(")")[2].split()[11:13]
            out["processor time of the studio"] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        finally:
            process.terminate()
            process.wait(20)
    return {key: round(value, 1) for key, value in out.items()}


def evidence(page: Any) -> None:
    """Write the page."""
    page.text(
        "Two scripted users on two Chromium pages pose the human, the Panda and a walk of a BVH file. Each round opens "
        "a figure from the *File* tab or by dropping a file, drags handles with the mouse on both pages, also at the "
        "same time, undoes and redoes every drag and every key, saves the project with Ctrl-S, changes something, "
        "drops the project on the page, and every other round drops all connections, alternately at rest and in the "
        "middle of a drag. "
        "A fault is any unexpected difference: a lost pose or key, a changed picture, an error in a console, pages "
        "that are out of sync."
    )
    out = spend(page.pick(MINUTES, 1))
    for key, value in out.items():
        page.value(key, value)
    counted = ("minutes", *COUNTED)
    page.table("Actions of both users", counted, [[out[key] for key in counted]], note=(
        "A missed press hit no handle: the handle was hidden, or the page, which renders in software here, had not "
        "yet updated what is under the pointer."))  # fmt: skip
    page.table(
        "Memory and messages",
        ["", "first third of the rounds", "last third"],
        [["memory of the studio [MB]", *out["memory_MB"]], ["scripts' memory of both pages [MB]", *out["pages_MB"]],
         ["messages for a new page", *out["backlog"]]],
        note=f"The largest value of each. Faults: {len(out['faults'])}. " + "; ".join(out["faults"][:5]),
    )  # fmt: skip


def main() -> None:
    """Spend an afternoon and print it."""
    parser = argparse.ArgumentParser(description="Spend an afternoon in the studio.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument(
        "--first-drag", action="store_true", help="only time the way from the command to the first drag"
    )
    parser.add_argument("--log", help="a file for one line of JSON a round")
    args = parser.parse_args()
    if args.first_drag:
        print(json.dumps(first_drag()))
        return
    out = spend(args.minutes, args.log)
    print(json.dumps(out, indent=2))
    raise SystemExit(1 if out["faults"] else 0)


if __name__ == "__main__":
    main()
