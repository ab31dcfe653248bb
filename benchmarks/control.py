"""Control: `Controller` beside pink, mink and placo, each with its own limits, on the same targets.

    python -m benchmarks control

A Panda at 100 Hz: smooth targets, a wrist and an elbow singularity, out of reach and back, a jump, joint limits. Poses
are judged by forward kinematics and differences. Then long runs: hostile targets, and the time of a step.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from benchmarks.lines import measure
from benchmarks.peers.environments import ready

DT = 0.01
ACCELERATION = 15.0  # [rad/s^2] of every joint
PEERS = ("pink", "mink", "placo")
WORKER = Path(__file__).parent / "peers" / "control_worker.py"


@dataclass(frozen=True)
class Arm:
    """An arm of a URDF without its meshes, and the frame that is led."""

    urdf: Path
    skeleton: ps.Skeleton
    frame: str
    joints: int  # the first of its degrees of freedom: fingers stay as they are

    def place(self, poses) -> np.ndarray:
        """Return the frame's matrices (..., 4, 4) at poses (..., joints)."""
        poses = np.asarray(poses)
        rest = np.zeros((*poses.shape[:-1], self.skeleton.size - self.joints))
        return ps.forward(self.skeleton, np.concatenate([poses, rest], axis=-1)).matrix(self.frame)


def arm(data: Path, folder: Path, name: str, frame: str, joints: int) -> Arm:
    """Return an arm whose URDF is copied without geometry: its meshes are not there."""
    text = (data / "urdf" / name).read_text(encoding="utf8")
    plain = folder / name
    plain.write_text(re.sub(r"<(visual|collision)\b.*?</\1>", "", text, flags=re.S), encoding="utf8")
    return Arm(plain, ps.load(plain).skeleton, frame, joints)


def cases(panda: Arm, ur5: Arm) -> dict[str, tuple[Arm, np.ndarray, np.ndarray]]:
    """Return {case: (arm, start (n,), targets (T, 4, 4))}."""
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    bent = np.array([0.0, 0.0, 0.0, -1.2, 0.0, 1.7, 0.8])

    def moved(pose, offsets) -> tuple[Arm, np.ndarray, np.ndarray]:
        out = np.repeat(panda.place(pose)[None], len(offsets), axis=0)
        out[:, :3, 3] += offsets
        return panda, pose, out

    t = DT * np.arange(600)
    ease = (1.0 - np.exp(-((t / 0.5) ** 2)))[:, None]
    circle = np.stack([np.sin(t), 1.0 - np.cos(t), 0.0 * t], axis=-1)
    quick = np.stack([np.sin(4.0 * t), 1.0 - np.cos(4.0 * t), 0.0 * t], axis=-1)
    bump = np.sin(np.pi * np.minimum(t / 4.0, 1.0))[:, None]
    return {
        "slow circle": moved(start, 0.02 * ease * circle),
        "fast circle": moved(start, 0.12 * ease * quick),
        "wrist singularity, off by 0.8 degrees": through_wrist(ur5, 0.01),
        "wrist singularity, off by 4 degrees": through_wrist(ur5, 0.05),
        "elbow singularity": moved(bent, 0.6 * bump * (1.0, 0.0, 0.0)),
        "out of reach and back": moved(start, 0.8 * bump * (1.0, 0.3, 0.0)),
        "jump of 0.5 m": moved(start, np.tile((-0.1, 0.45, 0.15), (600, 1))),
        "joint limits": moved(start, 0.45 * bump * (-1.0, 0.0, 0.2)),
    }


def through_wrist(arm: Arm, off: float) -> tuple[Arm, np.ndarray, np.ndarray]:
    """Return targets that pass the pose at which two axes of the wrist are parallel, turned aside by `off` [rad]."""
    start = np.array([0.0, -1.2, 1.5, -0.3 - np.pi / 2, 0.6, 0.0])
    out = []
    for k in range(500):
        s = min(k / 300.0, 1.0)
        s = s * s * (3.0 - 2.0 * s)
        target = arm.place(start - (0.0, 0.0, 0.0, 0.0, 1.2 * s, 0.0))
        aside = off * np.sin(np.pi * s)
        turn = Rotation.from_rotvec((0.0, 0.0, aside)) * Rotation.from_rotvec((0.0, aside, 0.0))
        target[:3, :3] = turn.as_matrix() @ target[:3, :3]
        out.append(target)
    return arm, start, np.array(out)


def posable_loop(arm: Arm, start: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return poses (T, n) and seconds (T,) of a Controller."""
    begin = np.concatenate([start, np.zeros(arm.skeleton.size - arm.joints)])
    goal = ps.goals.Pose(arm.frame, targets[0])
    controller = ps.Controller(arm.skeleton, goal, dt=DT, acceleration=ACCELERATION, start=begin)
    controller.step()  # compiles, where nothing was compiled before
    controller.reset(begin)
    poses, seconds = [], []
    for target in targets:
        before = time.perf_counter()
        step = controller.step({arm.frame: target})
        seconds.append(time.perf_counter() - before)
        poses.append(step.pose[: arm.joints])
    return np.array(poses), np.array(seconds)


def peer_loop(peer: str, arm: Arm, start, targets) -> tuple[np.ndarray, np.ndarray]:
    """Return what a peer's own loop does, in its own environment."""
    python = ready(peer)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "task.npz", Path(folder) / "out.npz"
        np.savez(
            source, urdf=str(arm.urdf), frame=arm.frame, names=np.array(arm.skeleton.dof_names[: arm.joints]),
            start=start, targets=targets, dt=DT, acceleration=np.full(arm.joints, ACCELERATION),
            velocity=arm.skeleton.velocity[: arm.joints],
        )  # fmt: skip
        subprocess.run([str(python), str(WORKER), peer, str(source), str(out)], check=True, capture_output=True)
        with np.load(out) as found:
            return found["poses"], found["seconds"]


def judged(arm: Arm, start, targets, poses, seconds) -> list[float]:
    """Return the columns of the table for one run."""
    there = arm.place(poses)
    off = 1e3 * np.linalg.norm(there[:, :3, 3] - targets[:, :3, 3], axis=1)
    turn = Rotation.from_matrix(there[:, :3, :3].swapaxes(1, 2) @ targets[:, :3, :3]).magnitude()
    velocity = np.diff(np.vstack([start, start, poses]).astype(float), axis=0) / DT
    acceleration = np.diff(np.asarray(velocity, dtype=float), axis=0) / DT
    moves = np.abs(np.diff(targets, axis=0)).max(axis=(1, 2)) > 1e-7
    frozen = moves & (np.abs(velocity[2:]).max(axis=1) < 1e-7)
    return [
        float(np.abs(velocity / arm.skeleton.velocity[: arm.joints]).max()),
        float(np.abs(acceleration).max() / ACCELERATION),
        float(frozen.sum() / max(moves.sum(), 1)),
        float(off.max()), float(off[-1]), float(np.degrees(turn.max())), float(np.degrees(turn[-1])),
        1e6 * float(np.median(seconds)), 1e6 * float(np.percentile(seconds, 99)),
    ]  # fmt: skip


COLUMNS = (
    "loop", "rate / limit", "acceleration / limit", "frozen", "error [mm]", "error at the end [mm]",
    "turn error [deg]", "turn error at the end [deg]", "us a step", "us, 99%",
)  # fmt: skip


def hostile(steps: int) -> list[list[object]]:
    """Return [figure, steps, excess of position, velocity, acceleration, NaN] under NaN, infinity, jumps, switches."""
    rows = []
    for name, skeleton, sites in (
        ("Panda", ps.figures.panda(), ["tcp"]),
        ("six-legged spider", ps.figures.spider(), list(ps.figures.spider().site_names[:4])),
        ("human", ps.figures.human(), ["hand.L", "hand.R", "head", "foot.L"]),
        ("limb", ps.figures.limb(), ["hand"]),
    ):
        rng = np.random.default_rng(1)
        frames = ps.forward(skeleton, skeleton.rest)
        speed, accel = rng.uniform(0.5, 3.0, skeleton.size), rng.uniform(2.0, 30.0, skeleton.size)
        goals = [ps.goals.Position(site, frames.position(site)) for site in sites]
        controller = ps.Controller(skeleton, goals, dt=0.002, velocity=speed, acceleration=accel)
        last, rate, worst, bad = controller.pose, np.zeros(skeleton.size), np.zeros(3), 0
        for k in range(steps):
            site, targets = sites[k % len(sites)], None
            if k % 3 == 0:
                target = frames.position(site) + rng.normal(size=3) * (0.05, 0.5, 30.0)[k % 3]
                if k % 7 == 3:
                    target[k % 3] = (np.nan, np.inf, -np.inf, 1e300)[k % 4]
                targets = {site: target}
            if k % 101 == 5:
                controller.enable(site, on=bool(rng.random() < 0.7))
            pose = controller.step(targets).pose
            velocity = (pose - last) / 0.002
            over = [
                max((skeleton.lower - pose).max(), (pose - skeleton.upper).max()), (np.abs(velocity) - speed).max(),
                (np.abs(velocity - rate) / 0.002 - accel).max(),
            ]  # fmt: skip
            worst, bad = np.maximum(worst, over), bad + (not np.isfinite(pose).all())
            last, rate = pose, velocity
        rows.append([name, steps, *worst.tolist(), bad])
    return rows


def step_times(steps: int) -> list[list[object]]:
    """Return [figure, goals, median, 99%, 99.9%, worst microseconds] of long runs."""
    out = []
    panda = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    place = ps.forward(panda, start).matrix("tcp")
    controller = ps.Controller(panda, ps.goals.Pose("tcp", place), dt=0.001, start=start)
    seconds = np.empty(steps)
    for k in range(steps):
        target = place.copy()
        target[:3, 3] += 0.1 * np.sin(0.001 * k * np.array([1.0, 2.0, 3.0]))
        begin = time.perf_counter()
        controller.step({"tcp": target})
        seconds[k] = time.perf_counter() - begin
    out.append(["Panda", "one pose", *_spread(seconds)])
    human = ps.figures.human()
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(site, frames.matrix(site)) for site in ("foot.L", "foot.R", "hand.L", "hand.R", "head")]
    goals += [ps.goals.CenterOfMass((0.0, 0.9, 0.0), weight=(0.1, 0.0, 0.1))]
    goals += [ps.goals.Posture(weight=1e-3)]
    controller = ps.Controller(human, goals, dt=0.005)
    place = frames.matrix("hand.R")
    few = steps // 20
    seconds = np.empty(few)
    for k in range(few):
        target = place.copy()
        target[:3, 3] += 0.1 * np.sin(0.005 * k * np.array([1.0, 2.0, 3.0]))
        begin = time.perf_counter()
        controller.step({"hand.R": target})
        seconds[k] = time.perf_counter() - begin
    out.append(["human, 71 degrees of freedom", "five poses, balance, posture", *_spread(seconds)])
    return out


def _spread(seconds: np.ndarray) -> list[float]:
    return [1e6 * float(value) for value in (*np.percentile(seconds, (50, 99, 99.9)), seconds.max())]


def evidence(page) -> None:
    """Measure and write the page."""
    page.text(
        "A Panda and a UR5 (URDFs of example-robot-data) at 100 Hz, velocity limits from the files, 15 rad/s² for each "
        "joint. Each library runs its own loop in its own virtual environment: pink with configuration, velocity and "
        "acceleration limits, mink and placo with configuration and velocity limits, which is what they have. One "
        "frame task with costs 1 and 1. Poses are judged with forward kinematics and differences, in the same run."
    )
    with tempfile.TemporaryDirectory() as folder:
        panda = arm(page.data, Path(folder), "erd_panda.urdf", "panda_link8", 7)
        ur5 = arm(page.data, Path(folder), "erd_ur5_robot.urdf", "ee_link", 6)
        for case, (robot, start, targets) in cases(panda, ur5).items():
            page.heading(case.capitalize())
            rows = [["Posable", *judged(robot, start, targets, *posable_loop(robot, start, targets))]]
            for peer in PEERS:
                try:
                    rows.append([peer, *judged(robot, start, targets, *peer_loop(peer, robot, start, targets))])
                except (RuntimeError, subprocess.CalledProcessError) as error:
                    page.text(f"{peer} did not run: {error}")
            page.table(case, COLUMNS, rows, note="frozen: steps in which the target moves and the command does not")
    page.heading("Hostile targets")
    page.table(
        "Excess over each limit under NaN, infinity, jumps and goals switched on and off",
        ("figure", "steps", "position", "velocity", "acceleration", "NaN"), hostile(page.pick(250_000, 2_000)),
    )  # fmt: skip
    page.heading("Time of a step")
    page.table(
        "Microseconds, with Python", ("figure", "goals", "median", "99%", "99.9%", "worst"),
        step_times(page.pick(100_000, 4_000)),
    )  # fmt: skip
    page.heading("Straight lines")
    rows = [list(row.values()) for row in measure(page.pick(150, 4))]
    page.table(
        "`follow` on random straight lines, 61 frames each",
        ("arm", "lines", "whole from their start", "reported whole with a fault", "feasible", 'whole with start="any"',
         "feasible and missed"), rows,
        note="feasible: followed, or proved by a graph over the branches that solves from random starts find",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit("run: python -m benchmarks control")
