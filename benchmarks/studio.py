"""How long the studio takes from a handle's message to the new figure sent, and whether it loses or hoards anything.

    python benchmarks/studio.py [--seconds 60] [--rate 200] [--clients 1]

Clients of the websocket (no browser: nothing is drawn) are connected and receive every message. Targets are handed to
the session as a dragged handle hands them, for the human with its six handles, and the time runs until the figure's
messages are queued and flushed; what it leaves out is viser's decoding of the incoming message and the network. Then
drags arrive at a steady rate for a while, and the memory of the process and the last target are looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time

import numpy as np

from posable.studio.server import Studio
from posable.studio.session import Session


def rss() -> float:
    """Return the memory of this process [MB]."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024.0


class Watch:
    """Listens to when views are sent."""

    def __init__(self, studio: Studio):
        self.sent = threading.Event()
        self.when = 0.0
        show = studio.show

        def timed(view):
            show(view)
            self.when = time.perf_counter()
            self.sent.set()

        studio.session._listeners[:] = [timed]


def latencies(studio: Studio, watch: Watch, count: int) -> np.ndarray:
    """Return the time [s] from each handle's message to the figure handed to the network, one drag after another."""
    session = studio.session
    start = session.frames.position("hand.R")
    out = np.empty(count)
    for k in range(count):
        angle = 0.03 * k
        target = start + np.array(
            [
                0.15 * np.sin(angle) - 0.1,
                0.35 + 0.25 * np.cos(0.7 * angle),
                0.25 + 0.15 * np.sin(0.4 * angle),
            ]
        )
        watch.sent.clear()
        begin = time.perf_counter()
        session.drag("hand.R", target)
        watch.sent.wait(5.0)
        out[k] = watch.when - begin
        time.sleep(0.005)
    session.release()
    return out


def storm(studio: Studio, seconds: float, rate: float) -> dict[str, float]:
    """Drag at a steady rate for a while; return the memory before and after, and how far off the last target is."""
    session = studio.session
    start = session.frames.position("hand.L")
    before, count, begin = 0.0, 0, time.perf_counter()
    while (now := time.perf_counter() - begin) < seconds:
        if before == 0.0 and now > min(5.0, 0.2 * seconds):
            before = rss()  # after buffers have found their size
        target = start + np.array([0.1 * np.sin(now), 0.4 + 0.2 * np.sin(1.7 * now), 0.2 + 0.1 * np.cos(now)])
        session.drag("hand.L", target)
        count += 1
        time.sleep(max(0.0, begin + count / rate - time.perf_counter()))
    last = start + np.array([0.1, 0.45, 0.25])
    session.drag("hand.L", last)
    time.sleep(0.5)
    missed = float(np.linalg.norm(session.view().frames.position("hand.L") - last))
    session.release()
    return {
        "drags": count,
        "rate": count / seconds,
        "rss_before_MB": before,
        "rss_after_MB": rss(),
        "last_target_missed_m": missed,
    }


async def listen(url: str, received: list[int], stop: threading.Event) -> None:
    """Connect like a page and take everything that is sent."""
    import msgspec
    import viser
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    protocol = f"viser-v{viser.__version__}"
    async with connect(url.replace("http", "ws"), subprotocols=[protocol], max_size=None, compression=None) as socket:
        camera = {
            "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (0.0, 1.0, 3.0), "fov": 0.7,
            "near": 0.01, "far": 100.0, "image_height": 600, "image_width": 800, "look_at": (0.0, 1.0, 0.0),
            "up_direction": (0.0, 1.0, 0.0),
        }  # fmt: skip
        await socket.send(msgspec.msgpack.encode(camera))
        while not stop.is_set():
            try:
                data = await asyncio.wait_for(socket.recv(), 0.2)
            except TimeoutError:
                continue
            except ConnectionClosed:
                return
            received.append(len(data))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--drags", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=1)
    args = parser.parse_args()
    session = Session()
    session.warm_up()
    studio = Studio(session, port=8290, detail=0.5)
    received: list[int] = []
    stop = threading.Event()
    for _ in range(args.clients):
        threading.Thread(target=lambda: asyncio.run(listen(studio.url, received, stop)), daemon=True).start()
    time.sleep(3.0)
    watch = Watch(studio)
    latencies(studio, watch, 50)
    times = latencies(studio, watch, args.drags) * 1e3
    out = {
        "median_ms": round(float(np.median(times)), 3), "p99_ms": round(float(np.percentile(times, 99)), 3),
        "worst_ms": round(float(times.max()), 3), "drags": args.drags, "messages_received": len(received),
    }  # fmt: skip
    out["storm"] = {key: round(value, 4) for key, value in storm(studio, args.seconds, args.rate).items()}
    stop.set()
    print(json.dumps(out, indent=2))
    studio.close()


if __name__ == "__main__":
    main()
