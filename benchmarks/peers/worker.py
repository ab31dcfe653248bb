"""One peer at one piece of work, in the peer's own process and environment: `python worker.py ADAPTER WORK.npz`.

Says on standard output, a JSON object a line, that it is ready; then for each line `{"out": ..., "seconds": ...}` on
standard input goes once through the work, saves answers and times to `out`, and says how far it came. Needs NumPy and
the standard library alone, beside the peer.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from chain import Chain, read_urdf  # the folder of this script is on the path of its process

ROUNDED = 1e-4  # [rad, m]: what a quadratic program's tolerance or single precision may cost a limit; then judged
PATIENCE = 2  # how many times its processor time a pass may last on the clock of a busy machine
CLOSE, ALIGNED = 1e-4, 1e-3  # [m], [rad]: where iterations stop; Posable's own default tolerances


@dataclass(frozen=True)
class Task:
    """The work as an adapter sees it; the fields are those of `works.Work`."""

    path: Path
    urdf: str
    chain: Chain
    frames: list[str]
    kind: str
    targets: np.ndarray
    start: np.ndarray
    root: np.ndarray | None
    sequence: bool
    restarts: int
    tracking: bool
    bodies: list[str]
    columns: list[int]

    @classmethod
    def load(cls, path: Path) -> Task:
        """Read a piece of work."""
        told = json.loads(path.with_suffix(".json").read_text(encoding="utf8"))
        with np.load(path) as kept:
            root = kept["root"][0] if len(kept["root"]) else None
            return cls(
                path, chain=read_urdf(told["urdf"]), targets=kept["targets"], start=kept["start"], root=root, **told
            )

    def met(self, errors: Iterable[np.ndarray]) -> bool:
        """Return whether the errors (6,) of the frames, position before rotation, are where iterations stop."""
        turned = ALIGNED if self.kind == "pose" else np.inf
        return all(np.linalg.norm(e[:3]) <= CLOSE and np.linalg.norm(e[3:]) <= turned for e in errors)

    def random_joints(self, rng: np.random.Generator) -> np.ndarray:
        """Return joint values (n,) inside the limits, within two turns where they are wider."""
        return rng.uniform(np.maximum(self.chain.lower, -2 * np.pi), np.minimum(self.chain.upper, 2 * np.pi))


class Peer(ABC):
    """What an adapter derives from. Its `solve` is timed, and `begin` for a restart."""

    packages: tuple[str, ...] = ()  # whose versions are told
    settings = ""  # told in the results

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def begin(self, joints: np.ndarray, root: np.ndarray | None) -> Any:
        """Return a pose of the peer's own for joints (n,) and root (4, 4)."""

    @abstractmethod
    def solve(self, targets: np.ndarray, start: Any) -> tuple[Any, bool]:
        """Return a pose of the peer's own for targets (F, 4, 4), and whether the peer thinks that it is there."""

    @abstractmethod
    def answer(self, pose) -> tuple[np.ndarray, np.ndarray | None]:
        """Return joints (n,) and root (4, 4) or None of a pose of the peer's own."""


def load_peer(name: str) -> type[Peer]:
    """Return the adapter FILE or FILE:CLASS. A file may be named like the package that it imports: it goes by path."""
    file, _, kind = name.partition(":")
    path = Path(__file__).parent / "adapters" / f"{file}.py"
    spec = importlib.util.spec_from_file_location(f"adapter_{file}", path)
    module = importlib.util.module_from_spec(spec)  # pyright: ignore[reportArgumentType]
    spec.loader.exec_module(module)  # pyright: ignore[reportOptionalMemberAccess]
    return getattr(module, kind or "Adapter")


def run_pass(peer: Peer, task: Task, seconds: float) -> dict[str, np.ndarray]:
    """Go through the work once, or as far as the time lasts; return answers, times [s] and the first attempts'."""
    if hasattr(peer, "solve_all"):
        return run_batch(peer, task)
    count, joints = len(task.targets), len(task.chain.names)
    out = {
        "joints": np.full((count, joints), np.nan), "roots": np.full((count, 4, 4), np.nan),
        "first_joints": np.full((count, joints), np.nan), "first_roots": np.full((count, 4, 4), np.nan),
        "seconds": np.full(count, np.nan), "first_seconds": np.full(count, np.nan), "cpu": np.full(count, np.nan),
    }  # fmt: skip
    pose = peer.begin(task.start, task.root)
    ends, late = time.process_time() + seconds, time.perf_counter() + PATIENCE * seconds
    for k, targets in enumerate(task.targets):
        if time.process_time() > ends or time.perf_counter() > late:
            break
        start = pose if task.sequence and k else peer.begin(task.start, task.root)
        rng, busy = np.random.default_rng(k), time.process_time()
        begin = time.perf_counter()
        found, there = peer.solve(targets, start)
        first, out["first_seconds"][k] = found, time.perf_counter() - begin
        out["cpu"][k] = time.process_time() - busy
        out["first_joints"][k], out["first_roots"][k] = told(peer, first)
        begin, busy = time.perf_counter(), time.process_time()
        for _ in range(task.restarts):
            if there:
                break
            found, there = peer.solve(targets, peer.begin(task.random_joints(rng), task.root))
        if not there and task.restarts:
            found = first
        out["seconds"][k] = out["first_seconds"][k] + time.perf_counter() - begin
        out["cpu"][k] += time.process_time() - busy
        out["joints"][k], out["roots"][k] = told(peer, found)
        pose = found
    done = int(np.isfinite(out["seconds"]).sum())
    return {key: value[:done] for key, value in out.items()}


def run_batch(peer: Peer, task: Task) -> dict[str, np.ndarray]:
    """Give the peer all of the work at once; each problem's time is its share."""
    begin, busy = time.perf_counter(), time.process_time()
    found = peer.solve_all(task.targets)  # pyright: ignore[reportAttributeAccessIssue]
    each = np.full(len(task.targets), (time.perf_counter() - begin) / len(task.targets))
    cpu = np.full(len(task.targets), (time.process_time() - busy) / len(task.targets))
    answers = [told(peer, pose) for pose in found]
    joints, roots = np.array([joints for joints, _ in answers]), np.array([root for _, root in answers])
    return {
        "joints": joints, "roots": roots, "first_joints": joints, "first_roots": roots,
        "seconds": each, "first_seconds": each, "cpu": cpu,
    }  # fmt: skip


def told(peer: Peer, pose) -> tuple[np.ndarray, np.ndarray]:
    """Return joints (n,) and root (4, 4) of an answer; a joint past its limit by less than ROUNDED is put on it."""
    joints, root = peer.answer(pose)
    nearest = np.clip(joints, peer.task.chain.lower, peer.task.chain.upper)
    joints = np.where(np.abs(nearest - joints) <= ROUNDED, nearest, joints)
    return joints, np.eye(4) if root is None else root


def versions_of(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the installed ones among the packages."""
    out = {}
    for name in packages:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


def main(name: str, path: Path) -> None:
    """Serve passes until standard input ends."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf8")
    os.dup2(2, 1)  # what a peer prints is no answer of ours

    def say(**words) -> None:
        channel.write(json.dumps(words) + "\n")
        channel.flush()

    try:
        task = Task.load(path)
        peer = load_peer(name)(task)
        start = peer.begin(task.start, task.root)
        for targets in task.targets[:3]:  # whatever is made or compiled at the first call
            peer.answer(peer.solve(targets, start)[0])
    except Exception as error:
        traceback.print_exc()
        say(error=f"{type(error).__name__}: {error}"[:300])
        return
    say(ready=True, settings=peer.settings, versions=versions_of(peer.packages))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            out = run_pass(peer, task, asked["seconds"])
            np.savez(asked["out"], **out)  # pyright: ignore[reportArgumentType]
        except Exception as error:
            traceback.print_exc()
            say(error=f"{type(error).__name__}: {error}"[:300])
            return
        say(done=len(out["seconds"]))


if __name__ == "__main__":
    sys.modules["worker"] = sys.modules["__main__"]  # adapters import this very module
    main(sys.argv[1], Path(sys.argv[2]))
