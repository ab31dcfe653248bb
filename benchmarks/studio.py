"""How long the studio takes from a handle's message to the new figure, and whether it loses or hoards anything.

    python -m benchmarks.studio [--seconds 60] [--rate 200] [--drags 1000] [--file robot.xml --body right_wrist]

A second process connects like a page (no browser: nothing is drawn) and drags a handle by the same messages that a page
sends: the right hand of the human, or another one of a file. Meshes, balance and contacts are shown. `round_trip`: from
sending a drag until the answer with the figure in it has arrived and is decoded; `inside`: from the session being told
until the figure is handed to the network; `work`: the time that this kept one core busy. Then drags arrive at a steady
rate for a while; the memory of the studio's process and the last target are checked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from urllib.parse import quote

import numpy as np

# ---------------------------------------------------------------------------------------------------- the page's side


def drag_message(handle: str, phase: str, start: np.ndarray, end: np.ndarray) -> bytes:
    """Return what a page sends while a handle is dragged."""
    import msgspec

    return msgspec.msgpack.encode({
        "type": "SceneNodeDragMessage", "phase": phase, "name": handle, "instance_index": None,
        "start_position": start.tolist(), "start_screen_pos": (0.5, 0.5), "end_position": end.tolist(),
        "end_screen_pos": (0.5, 0.5), "button": "left", "modifier": None, "owner": "",
    })  # fmt: skip


def messages_in(data: bytes) -> list[dict]:
    """Return the messages in what a page receives: two sizes, then MessagePack under Zstandard."""
    import msgspec
    import zstandard

    size, packed = (int.from_bytes(data[k : k + 8], "little") for k in (0, 8))
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(data[16 : 16 + packed], size))["messages"]


def path(k: float) -> np.ndarray:
    """Return where the hand goes (3,) [m], from where it was."""
    x = 0.03 * k
    return np.array([0.15 * np.sin(x) - 0.1, 0.35 + 0.25 * np.cos(0.7 * x), 0.25 + 0.15 * np.sin(0.4 * x)])


class Page:
    """A page without a screen: sends drags, receives everything, and knows where the handle was last."""

    def __init__(self, socket, handle: str, start: np.ndarray, up: str, scale: float):
        self.socket, self.handle, self.start = socket, handle, start
        self.axes, self.scale = [0, 1, 2] if up == "y" else [2, 0, 1], scale
        self.place = start
        self.moved = asyncio.Event()
        self.frames = self.bytes = self.messages = 0

    async def listen(self) -> None:
        async for data in self.socket:
            found = messages_in(data)
            self.frames, self.bytes, self.messages = self.frames + 1, self.bytes + len(data), self.messages + len(found)
            for message in found:
                if message["type"] == "SetPositionMessage" and message["name"] == self.handle:
                    self.place = np.array(message["position"])
                    self.moved.set()

    async def drag(self, offset: np.ndarray, phase: str = "update") -> None:
        await self.socket.send(drag_message(self.handle, phase, self.place, self.start + self.offset(offset)))

    def offset(self, offset: np.ndarray) -> np.ndarray:
        """Return an offset (3,) [m] for a person with y up in the axes and the size of the figure."""
        return self.scale * offset[self.axes]

    async def round_trip(self, offset: np.ndarray) -> float:
        self.moved.clear()
        begin = time.perf_counter()
        await self.drag(offset)
        await asyncio.wait_for(self.moved.wait(), 5.0)
        return time.perf_counter() - begin


async def be_a_page(
    url: str, handle: str, start: np.ndarray, up: str, scale: float, drags: int, seconds: float, rate: float
) -> dict:
    """Drag one after another, then at a steady rate; return the round trips [ms] and what came back."""
    import msgspec
    import viser
    from websockets.asyncio.client import connect

    protocol = f"viser-v{viser.__version__}"
    camera = {
        "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (0.0, 1.0, 3.0), "fov": 0.7,
        "near": 0.01, "far": 100.0, "image_height": 600, "image_width": 800, "look_at": (0.0, 1.0, 0.0),
        "up_direction": (0.0, 1.0, 0.0),
    }  # fmt: skip
    spoken: list = [protocol]
    async with connect(url.replace("http", "ws"), subprotocols=spoken, max_size=None, compression=None) as socket:
        page = Page(socket, handle, start, up, scale)
        listening = asyncio.create_task(page.listen())
        await socket.send(msgspec.msgpack.encode(camera))
        await asyncio.sleep(2.0)
        await page.drag(np.zeros(3), "start")
        for k in range(50):
            await page.round_trip(path(k))
        page.frames = page.bytes = page.messages = 0
        times = []
        for k in range(50, 50 + drags):
            times.append(1e3 * await page.round_trip(path(k)))
            await asyncio.sleep(0.005)
        out = {
            "round_trip": summary(times),
            "messages_per_drag": round(page.messages / drags, 1), "bytes_per_drag": round(page.bytes / drags),
        }  # fmt: skip
        print("storm", flush=True)  # the other side looks at its memory from here on
        begin, count = time.perf_counter(), 0
        while (now := time.perf_counter() - begin) < seconds:
            await page.drag(path(60.0 * now))
            count += 1
            await asyncio.sleep(max(0.0, begin + count / rate - time.perf_counter()))
        last = np.array([0.1, 0.45, 0.25])
        await page.drag(last)
        await asyncio.sleep(1.0)
        out["storm"] = {
            "drags": count, "rate": round(count / seconds, 1),
            "last_target_missed_m": round(float(np.linalg.norm(page.place - start - page.offset(last))), 5),
        }  # fmt: skip
        await page.drag(last, "end")
        listening.cancel()
    return out


# ------------------------------------------------------------------------------------------------- the studio's side


def summary(times: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the worst [ms]."""
    return {
        "median_ms": round(float(np.median(times)), 3), "p99_ms": round(float(np.percentile(times, 99)), 3),
        "worst_ms": round(float(np.max(times)), 3),
    }  # fmt: skip


def rss() -> float:
    """Return the memory of this process [MB]."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024.0


class Watch:
    """Notes how long each figure took from the session being told to its being handed to the network [ms].

    `work` is the time that the worker's thread was running for it: it does not depend on who else uses the machine.
    """

    def __init__(self, studio):
        self.inside: list[float] = []
        self.work: list[float] = []
        drag, show, step, told = studio.session.drag, studio.show, studio.session.step, []

        def timed_drag(*args):
            if not told:
                told.append(time.perf_counter())
            return drag(*args)

        def timed_show(view):
            begin = told.pop() if told else None
            show(view)
            if begin is not None:
                self.inside.append(1e3 * (time.perf_counter() - begin))

        def timed_step():
            begin, count = time.thread_time(), len(self.inside)
            did = step()
            if len(self.inside) > count:
                self.work.append(1e3 * (time.thread_time() - begin))
            return did

        studio.session.drag, studio.session.step = timed_drag, timed_step
        studio.session._listeners[:] = [timed_show]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--drags", type=int, default=1000)
    parser.add_argument("--file", help="a figure or a take; by default the human")
    parser.add_argument("--body", default="hand.R", help="the handle to drag")
    parser.add_argument("--page", nargs=7, help=argparse.SUPPRESS)  # the second process: URL, node, place, up, scale
    args = parser.parse_args()
    if args.page:
        url, handle, *place, up, scale = args.page
        start = np.array([float(value) for value in place])
        rest = (args.drags, args.seconds, args.rate)
        print(json.dumps(asyncio.run(be_a_page(url, handle, start, up, float(scale), *rest))))
        return

    from posable.studio.appearance import extent
    from posable.studio.server import Studio
    from posable.studio.session import Session

    session = Session()
    if args.file:
        session.open_path(args.file)
    session.warm_up()
    studio = Studio(session, port=8290, detail=0.5)
    session.contact_detector.wait()
    while not session.ready:
        time.sleep(0.1)
    watch = Watch(studio)
    scale = 1.0 if not args.file else 0.5 * extent(session.skeleton) / 1.5
    place = [
        f"/handles/{quote(args.body, safe='')}", *(f"{value:.6f}" for value in session.frames.position(args.body)),
        session.skeleton.up or "z", f"{scale:.4f}",
    ]  # fmt: skip
    options = [f"--{key}={getattr(args, key)}" for key in ("seconds", "rate", "drags")]
    page = subprocess.Popen(
        [sys.executable, __file__, *options, "--page", studio.url, *place], stdout=subprocess.PIPE, text=True
    )
    assert page.stdout is not None
    assert page.stdout.readline().strip() == "storm"
    inside, work = summary(watch.inside[50:]), summary(watch.work[50:])
    memory: list[float] = []
    threading.Timer(min(10.0, 0.2 * args.seconds), lambda: memory.append(rss())).start()
    out = json.loads(page.stdout.read())
    out["storm"] |= {"rss_before_MB": round(memory[0], 1), "rss_after_MB": round(rss(), 1)}
    surfaces = (*studio.stage.look.skins, *studio.stage.look.rigid)
    shown = {
        "surfaces": len(surfaces), "triangles": sum(len(surface.faces) for surface in surfaces),
        "contacts while dragging": session.contact_detector.cheap,
    }  # fmt: skip
    print(json.dumps({"inside": inside, "work": work, **out, "shown": shown}, indent=2))
    studio.close()


if __name__ == "__main__":
    main()
