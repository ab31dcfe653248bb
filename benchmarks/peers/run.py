"""Everybody at the same work: a process each, one pass each in turn, three times over."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.peers.chain import judge
from benchmarks.peers.environments import PEERS, python_of
from benchmarks.peers.works import Work

WORKER = Path(__file__).with_name("worker.py")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PATIENCE = 120.0  # [s]: for a peer to start, and beyond a pass's own time


@dataclass
class Entrant:
    """One line of a table: who, driven by what, in which Python; and what came of it."""

    title: str
    adapter: str
    python: Path
    ours: bool = False
    restarts: bool = False  # it restarts by itself: there is no first start to tell of
    error: str = ""
    settings: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    passes: list[dict[str, np.ndarray]] = field(default_factory=list)

    def seconds(self, key: str = "cpu") -> np.ndarray:
        """Return each problem's processor time [s], or on the clock ("seconds"): the median of the passes.

        A problem counts that every pass came to.
        """
        count = min(len(one[key]) for one in self.passes)
        return np.median([one[key][:count] for one in self.passes], axis=0)


class Worker:
    """A peer's process, spoken to in lines of JSON."""

    def __init__(self, entrant: Entrant, work: Path, log: Path) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | ONE_THREAD
        with log.open("ab") as complaints:
            self.process = subprocess.Popen(
                [str(entrant.python), str(WORKER), entrant.adapter, str(work)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=environment, text=True,
            )  # fmt: skip

    def hear(self, seconds: float) -> dict:
        """Return what the worker says next, or an error where it says nothing."""
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)  # pyright: ignore
        if not ready:
            self.process.kill()
            return {"error": f"no answer within {seconds:.0f} s"}
        line = self.process.stdout.readline()  # pyright: ignore[reportOptionalMemberAccess]
        return json.loads(line) if line else {"error": f"ended with code {self.process.wait()}"}

    def run_pass(self, out: Path, seconds: float) -> dict:
        """Have the worker go through its work once."""
        try:
            self.process.stdin.write(json.dumps({"out": str(out), "seconds": seconds}) + "\n")  # pyright: ignore
            self.process.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
        except BrokenPipeError:
            return {"error": f"ended with code {self.process.wait()}"}
        return self.hear(4 * seconds + PATIENCE)

    def end(self) -> None:
        """Let the worker go."""
        self.process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def entrants_for(work: Work, failures: dict[str, str], only: Sequence[str] = ()) -> list[Entrant]:
    """Return who takes part in a piece of work: Posable by its doors, then the peers that can do it.

    only: environments of the peers that take part; all of them by default.
    """
    here = Path(sys.executable)
    ours = [Entrant("Posable, Session", "posable:Session", here), Entrant("Posable, ps.solve", "posable:Solve", here)]
    if work.tracking:
        ours = [Entrant("Posable, ps.track", "posable:Track", here), ours[0]]
    elif not work.sequence:
        ours.append(Entrant("Posable, a batch", "posable:Batch", here))
        ours.append(Entrant("Posable, no restarts", "posable:Once", here))
    for entrant in ours:
        entrant.ours = True
    peers = [
        Entrant(peer.title, peer.adapter, python_of(peer.environment), restarts=peer.restarts)
        for peer in PEERS
        if work.name in peer.works and peer.environment not in failures and (not only or peer.environment in only)
    ]
    return ours + peers


def compete(
    work: Work, failures: dict[str, str], folder: Path, *, passes: int, seconds: float, say, only: Sequence[str] = ()
) -> list[Entrant]:
    """Run a piece of work with everybody, pass by pass in turn; return the entrants with what came of it."""
    path = work.save(folder)
    workers: list[tuple[Entrant, Worker]] = []
    entrants = entrants_for(work, failures, only)
    for entrant in entrants:  # one after another: none starts while another is measured
        worker = Worker(entrant, path, folder / f"{entrant.adapter.replace(':', '_')}.log")
        told = worker.hear(PATIENCE * 3)
        if "error" in told:
            entrant.error = told["error"]
            say(f"{work.name}: {entrant.title}: {entrant.error}")
            worker.end()
            continue
        entrant.settings, entrant.versions = told["settings"], told["versions"]
        workers.append((entrant, worker))
    for turn in range(passes):
        for entrant, worker in workers:
            if entrant.error:
                continue
            out = folder / f"{work.name}_{entrant.adapter.replace(':', '_')}_{turn}.npz"
            told = worker.run_pass(out, seconds)
            if "error" in told:
                entrant.error = told["error"]
                say(f"{work.name}: {entrant.title}: {entrant.error}")
                continue
            with np.load(out) as kept:
                entrant.passes.append(dict(kept))
    for _, worker in workers:
        worker.end()
    return entrants


def solved_share(work: Work, entrant: Entrant, which: str = "") -> float:
    """Return the share of answers that the independent check lets pass, over all passes; which "first_": the first."""
    shares = []
    for one in entrant.passes:
        joints = one[f"{which}joints"]
        roots = one[f"{which}roots"] if work.root is not None else None
        verdict = judge(work.figure.chain, work.frames, work.targets[: len(joints)], work.kind, joints, roots)
        shares.append(verdict.solved.mean())
    return float(np.mean(shares))


def marker_errors(work: Work, entrant: Entrant) -> np.ndarray:
    """Return how far each marker is off (T, M) [m] in the last pass, by the independent forward kinematics."""
    one = entrant.passes[-1]
    found = work.figure.chain.frames(one["joints"], one["roots"])
    got = np.stack([found[name][:, :3, 3] for name in work.frames], axis=1)
    return np.linalg.norm(got - work.targets[: len(got), :, :3, 3], axis=-1)


def beyond_limits(work: Work, entrant: Entrant) -> float:
    """Return how far the worst joint of the last pass is past its limit [rad or m]."""
    joints, chain = entrant.passes[-1]["joints"], work.figure.chain
    return float(max(0.0, (chain.lower - joints).max(), (joints - chain.upper).max()))
