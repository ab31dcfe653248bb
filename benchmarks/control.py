"""Control: `Controller` beside pink, mink and placo, each with its own limits, on the same targets.

    python -m benchmarks control

Arms and humanoids at 100 Hz: smooth targets, a wrist and an elbow singularity, out of reach and back, a jump, joint
limits. Poses are judged by forward kinematics and differences. Then long runs: the time of a step, and hostile targets.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from benchmarks import control_chatter
from benchmarks.control_stress import faults, hostile, memory_growth
from benchmarks.peers.environments import ready

g = ps.goals
DT = 0.01
ACCELERATION = 15.0  # [rad/s^2] of every joint
BASE_ACCELERATION = 100.0  # of a floating base
PEERS = ("pink", "mink", "placo")
PASSES = 3
WORKER = Path(__file__).parent / "peers" / "control_worker.py"


@dataclass(frozen=True)
class Robot:
    """A robot of a URDF without its meshes, and the frames that are led."""

    urdf: Path
    skeleton: ps.Skeleton
    frames: tuple[str, ...]
    joints: slice  # of its degrees of freedom: without a floating base, and without fingers, which stay as they are

    @property
    def floating(self) -> bool:
        """Whether it has a floating base."""
        return self.joints.start > 0

    @property
    def speeds(self) -> np.ndarray:
        """The velocity limits (joints,) [rad/s, m/s] of its file."""
        return self.skeleton.velocity[self.joints]

    def full(self, poses: np.ndarray) -> np.ndarray:
        """Return poses (..., n) of the whole skeleton for poses (..., joints)."""
        out = np.zeros((*poses.shape[:-1], self.skeleton.size))
        out[..., self.joints] = poses
        return out

    def place(self, poses, bases=None) -> np.ndarray:
        """Return the frames' matrices (..., frames, 4, 4) at poses (..., joints), carried by bases (..., 4, 4)."""
        frames = ps.forward(self.skeleton, self.full(np.asarray(poses)))
        places = np.stack([frames.matrix(name) for name in self.frames], axis=-3)
        return places if bases is None else bases[..., None, :, :] @ places


Case = tuple[Robot, np.ndarray, np.ndarray]  # robot, start (joints,), targets (T, frames, 4, 4)


def robot(data: Path, folder: Path, name: str, frames: tuple[str, ...], joints: slice) -> Robot:
    """Return a robot whose URDF is copied without geometry: its meshes are not there."""
    text = (data / "urdf" / name).read_text(encoding="utf8")
    plain = folder / name
    plain.write_text(re.sub(r"<(visual|collision)\b.*?</\1>", "", text, flags=re.S), encoding="utf8")
    return Robot(plain, ps.load(plain, floating=joints.start > 0).skeleton, frames, joints)


def cases(panda: Robot, ur5: Robot) -> dict[str, Case]:
    """Return the cases of the arms."""
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    bent = np.array([0.0, 0.0, 0.0, -1.2, 0.0, 1.7, 0.8])

    def moved(pose, offsets) -> Case:
        out = np.repeat(panda.place(pose)[None], len(offsets), axis=0)
        out[:, 0, :3, 3] += offsets
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
        "jump of 0.5 m": moved(start, np.tile((0.0, 0.45, 0.2), (600, 1))),
        "joint limits": moved(start, 0.45 * bump * (-1.0, 0.0, 0.2)),
    }


def humanoids(data: Path, folder: Path) -> dict[str, Case]:
    """Return the cases of two humanoids: both feet, both hands, head or pelvis, and torso; a hand on a circle."""
    talos = robot(
        data, folder, "erd_talos_reduced.urdf",
        ("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link", "head_2_link",
         "torso_2_link"), slice(6, 38),
    )  # fmt: skip
    g1 = robot(
        data, folder, "g1_29dof.urdf",
        ("left_ankle_roll_link", "right_ankle_roll_link", "left_wrist_yaw_link", "right_wrist_yaw_link", "torso_link",
         "pelvis"), slice(6, 35),
    )  # fmt: skip
    t = DT * np.arange(600)
    out: dict[str, Case] = {}
    for name, one in (("Talos", talos), ("G1", g1)):
        knees = {"leg_left_3_joint": -0.4, "leg_left_4_joint": 0.8, "leg_left_5_joint": -0.4,
                 "left_hip_pitch_joint": -0.4, "left_knee_joint": 0.8, "left_ankle_pitch_joint": -0.4}  # fmt: skip
        knees |= {joint.replace("left", "right"): value for joint, value in knees.items()}
        arms = {"arm_left_4_joint": -1.2, "arm_right_4_joint": -1.2, "left_elbow_joint": 0.6, "right_elbow_joint": 0.6}
        bent = np.array([{**knees, **arms}.get(joint, 0.0) for joint in one.skeleton.dof_names[one.joints]])
        bent = np.clip(bent, one.skeleton.lower[one.joints], one.skeleton.upper[one.joints])
        targets = np.repeat(one.place(bent)[None], len(t), axis=0)
        circle = np.stack([1.0 - np.cos(2.0 * t), np.sin(2.0 * t), np.sin(t)], axis=-1)
        targets[:, 2, :3, 3] += 0.05 * (1.0 - np.exp(-((t / 0.5) ** 2)))[:, None] * circle
        out[f"{name}: six frames and balance"] = one, bent, targets
    return out


def through_wrist(arm: Robot, off: float) -> Case:
    """Return targets that pass the pose at which two axes of the wrist are parallel, turned aside by `off` [rad]."""
    start = np.array([0.0, -1.2, 1.5, -0.3 - np.pi / 2, 0.6, 0.0])
    out = []
    for k in range(500):
        s = min(k / 300.0, 1.0)
        s = s * s * (3.0 - 2.0 * s)
        target = arm.place(start - (0.0, 0.0, 0.0, 0.0, 1.2 * s, 0.0))
        aside = off * np.sin(np.pi * s)
        turn = Rotation.from_rotvec((0.0, 0.0, aside)) * Rotation.from_rotvec((0.0, aside, 0.0))
        target[0, :3, :3] = turn.as_matrix() @ target[0, :3, :3]
        out.append(target)
    return arm, start, np.array(out)


def controller_of(
    one: Robot, start: np.ndarray, targets: np.ndarray, dt: float = DT, most: float = ACCELERATION
) -> ps.Controller:
    """Return a Controller with the goals of a case, weights as the peers' costs; `most` [rad/s^2] limits each joint."""
    begin = one.full(start)
    goals: list[g.Goal] = [
        g.Pose(name, target, weight=(1.0, 1.0)) for name, target in zip(one.frames, targets[0], strict=True)
    ]
    speed, accel = np.full(one.skeleton.size, np.inf), np.full(one.skeleton.size, BASE_ACCELERATION)
    speed[one.joints], accel[one.joints] = one.speeds, most
    if one.floating:
        feet = targets[0, :2, :3, 3]
        corners = [(0.1, 0.05, 0.0), (0.1, -0.05, 0.0), (-0.1, -0.05, 0.0), (-0.1, 0.05, 0.0)]
        goals += [g.Balance([foot + np.array(corner) for foot in feet for corner in corners], up="z")]
        goals += [g.Posture(begin, weight=1e-4)]  # the square of the peers' cost
    return ps.Controller(one.skeleton, goals, dt=dt, velocity=speed, acceleration=accel, start=begin)


def posable_loop(one: Robot, start: np.ndarray, targets: np.ndarray, most: float = ACCELERATION):
    """Return poses (T, joints), bases (T, 4, 4) or None, and seconds (T,) of a Controller."""
    controller = controller_of(one, start, targets, most=most)
    controller.step()  # compiles, where nothing was compiled before
    controller.reset(one.full(start))
    moving = [k for k in range(len(one.frames)) if np.ptp(targets[:, k], axis=0).max() > 0.0] or [0]
    poses, seconds = [], []
    for target in targets:
        asked = {one.frames[k]: target[k] for k in moving}
        before = time.perf_counter()
        step = controller.step(asked)
        seconds.append(time.perf_counter() - before)
        poses.append(step.pose)
    every = np.array(poses)
    bases = ps.forward(one.skeleton, every).matrix(one.skeleton.joints[0].name) if one.floating else None
    return every[:, one.joints], bases, np.array(seconds)


def peer_loop(peer: str, one: Robot, start: np.ndarray, targets: np.ndarray):
    """Return what a peer's own loop does, in its own environment."""
    python = ready(peer)
    com = np.zeros(3)
    if one.floating:
        com = np.asarray(ps.forward(one.skeleton, one.full(start)).center_of_mass())
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "task.npz", Path(folder) / "out.npz"
        np.savez(
            source, urdf=str(one.urdf), floating=one.floating, frames=np.array(one.frames),
            names=np.array(one.skeleton.dof_names[one.joints]), start=start, targets=targets, dt=DT, com=com,
            acceleration=np.full(len(start), ACCELERATION), velocity=one.speeds,
        )  # fmt: skip
        done = subprocess.run(
            [str(python), str(WORKER), peer, str(source), str(out)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
        with np.load(out) as found:
            return found["poses"], found["bases"] if one.floating else None, found["seconds"]


def in_turns(runs: dict[str, Callable[[], Any]], passes: int) -> dict[str, Any]:
    """Return what each loop does, with the least time of each of its steps in some passes; or why it did not run.

    The loops take turns, so that other work on the machine does not fall on one of them alone.
    """
    out: dict[str, Any] = {}
    for _ in range(passes):
        for loop, run in runs.items():
            if isinstance(out.get(loop), str):
                continue
            try:
                poses, bases, seconds = run()
            except RuntimeError as error:
                out[loop] = str(error)
                continue
            out[loop] = poses, bases, np.minimum(seconds, out[loop][2]) if loop in out else seconds
    return out


def judged(one: Robot, start, targets, poses, bases, seconds) -> list[float]:
    """Return the columns of the table for one run."""
    there = one.place(poses, bases)
    off = 1e3 * np.linalg.norm(there[..., :3, 3] - targets[..., :3, 3], axis=-1).max(axis=1)
    gap = (there[..., :3, :3].swapaxes(-1, -2) @ targets[..., :3, :3]).reshape(-1, 3, 3)
    turn = np.degrees(Rotation.from_matrix(gap).magnitude()).reshape(len(poses), -1).max(axis=1)
    velocity = np.diff(np.vstack([start, start, poses]).astype(float), axis=0) / DT
    acceleration = np.diff(np.asarray(velocity, dtype=float), axis=0) / DT
    moves = np.abs(np.diff(targets, axis=0)).max(axis=(1, 2, 3)) > 1e-7
    frozen = moves & (np.abs(velocity[2:]).max(axis=1) < 1e-7)
    return [
        float(np.abs(velocity / one.speeds).max()), float(np.abs(acceleration).max() / ACCELERATION),
        float(frozen.sum() / max(moves.sum(), 1)), float(off.max()), float(off[-1]), float(turn.max()),
        float(turn[-1]), *(1e6 * float(value) for value in np.percentile(seconds, (50, 99, 100))),
    ]  # fmt: skip


COLUMNS = (
    "loop", "rate / limit", "acceleration / limit", "frozen", "error [mm]", "error at the end [mm]",
    "turn error [deg]", "turn error at the end [deg]", "us a step", "us, 99%", "us, worst",
)  # fmt: skip


def step_times(one: Robot, start: np.ndarray, targets: np.ndarray, steps: int, dt: float) -> list[list[object]]:
    """Return [clock, median, 99%, 99.9%, worst microseconds] of a long run, one target a step, there and back."""
    controller = controller_of(one, start, targets, dt=dt)
    moving = [k for k in range(len(one.frames)) if np.ptp(targets[:, k], axis=0).max() > 0.0]
    asked = [{one.frames[k]: target[k] for k in moving} for target in np.concatenate([targets, targets[::-1]])]
    wall, cpu = np.empty(steps), np.empty(steps)
    for k in range(-100, steps):
        target = asked[k % len(asked)]
        busy, begin = time.thread_time_ns(), time.perf_counter_ns()
        controller.step(target)
        wall[k], cpu[k] = time.perf_counter_ns() - begin, time.thread_time_ns() - busy
    return [["wall clock", *_spread(wall)], ["processor", *_spread(cpu)]]


def _spread(nanoseconds: np.ndarray) -> list[float]:
    return [1e-3 * float(value) for value in np.percentile(nanoseconds, (50, 99, 99.9, 100))]


def evidence(page) -> None:
    """Measure and write the page."""
    page.text(
        "A Panda and a UR5, then a Talos and a G1 with a floating base, at 100 Hz: velocity limits from the files, "
        "15 rad/s² for each joint. Each library runs its own loop in its own virtual environment: pink with "
        "configuration, velocity and acceleration limits, mink and placo with configuration and velocity limits, which "
        "is what they have; the second row of Posable has the limits of those two. Frame tasks with costs 1 and 1; the "
        "humanoids have six, a posture, and balance: for "
        "Posable a support polygon, for the others a task on the centre of mass. Poses are judged with independent "
        "forward kinematics and differences, in the same run. The loops take turns three times; the time of a step is "
        "the least of the three."
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        panda = robot(page.data, folder, "erd_panda.urdf", ("panda_link8",), slice(0, 7))
        ur5 = robot(page.data, folder, "erd_ur5_robot.urdf", ("ee_link",), slice(0, 6))
        every = {**cases(panda, ur5), **humanoids(page.data, folder)}
        ratios: dict[str, list[float]] = {peer: [] for peer in PEERS}
        for case, (one, start, targets) in every.items():
            page.heading(case[0].upper() + case[1:])
            runs: dict[str, Callable[[], Any]] = {"Posable": partial(posable_loop, one, start, targets)}
            if not one.floating:  # the limits that mink and placo have
                runs["Posable, no acceleration limit"] = partial(posable_loop, one, start, targets, most=np.inf)
            runs |= {peer: partial(peer_loop, peer, one, start, targets) for peer in PEERS}
            rows = []
            for loop, found in in_turns(runs, page.pick(PASSES, 1)).items():
                if isinstance(found, str):
                    page.text(f"{loop} did not run: {found}")
                    continue
                rows.append([loop, *judged(one, start, targets, *found)])
                if loop in ratios:
                    ratios[loop].append(rows[-1][8] / rows[0][8])
            page.table(case, COLUMNS, rows, note="frozen: steps in which the target moves and the command does not")
        page.heading("Speed beside the others")
        page.table(
            "Median time of a step, theirs over Posable's", ("peer", "smallest ratio", "median ratio"),
            [[peer, min(found), float(np.median(found))] for peer, found in ratios.items() if found],
        )  # fmt: skip
        page.heading("Time of a step")
        page.text(
            "Including Python. The targets are repeated, a new one in every step. At 1 kHz they pass ten times as fast "
            "as at 100 Hz: acceleration limits then hold the Talos back in most steps, which need more Newton steps "
            "than those in the tables above. Processor time excludes other programs."
        )
        rows = []
        for case in ("slow circle", "Talos: six frames and balance"):
            one, start, targets = every[case]
            label = "Panda, one pose" if one is panda else case
            for rate, dt in (("100 Hz", DT), ("1 kHz", 0.001)):
                found = step_times(one, start, targets, page.pick(100_000, 4_000), dt)
                rows += [[f"{label}, {rate}", *row] for row in found]
        page.table("Microseconds", ("figure", "clock", "median", "99%", "99.9%", "worst"), rows)
    page.heading("Chatter")
    page.text(
        "Random motions that are too fast for the joints, at 100 Hz and 500 Hz, with default acceleration limits, on "
        f"arms that the control law was not made with: {', '.join(control_chatter.HELD_BACK)}. A reversal is a change "
        "of sign of a joint's acceleration within three ticks, with more than half of its limit on both sides. "
        "`python -m benchmarks.control_chatter` measures the arms that it was made with."
    )
    for dt in (0.01, 0.002):
        found = control_chatter.measure(control_chatter.HELD_BACK, range(100, page.pick(106, 101)), dt)
        page.table(
            f"Reversals at {1 / dt:g} Hz", control_chatter.COLUMNS, [[motion, *row] for motion, row in found.items()]
        )
    page.heading("Jumps, stairs and singularities")
    page.table("Regression cases: jumps", ("case", "measure", "value", "bound", "held"), faults())
    page.heading("Hostile targets")
    page.table(
        "Excess over each limit under NaN, infinity, jumps and goals switched on and off",
        ("figure", "steps", "position", "velocity", "acceleration", "NaN"), hostile(page.pick(25_000, 2_000)),
        note=f"memory in use grows by {memory_growth(page.pick(20_000, 2_000))} bytes in a loop of "
        f"{page.pick(20_000, 2_000)} steps; `python -m benchmarks.control_stress 250000` takes a million hostile steps",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit("run: python -m benchmarks control")
