"""Poses that do not collide: an arm, two arms and two humanoids with and without NoCollision, beside mink and pink.

    python -m benchmarks collision

Targets are the hands of random poses inside the limits that do not collide, so each has a collision-free solution:
poses of the hands for the arms, positions of the hands for the humanoids, whose feet stay in place. Every solution
reported as ok is placed in MuJoCo, whose contacts between the checked pairs of bodies give the depth of penetration.
mink and pink avoid collisions in one quadratic program per step; they get the same pairs, the first of the same
targets, and as many random starts. Times are processor times of one core, per target.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.page import Page
from benchmarks.peers.environments import ready
from posable.model.collision import couple, measure, pair_tables
from posable.model.kinematics import Frames

g = ps.goals
RESTARTS = 20
DEEP = 1e-3  # [m]
PEERS = ("mink", "pink")


@dataclass(frozen=True)
class Robot:
    """A robot's file, the bodies that have goals, and which of these are whole poses."""

    name: str
    path: Path
    hands: tuple[str, ...]
    feet: tuple[str, ...] = ()
    whole: bool = True


def robots(data: Path, folder: Path) -> list[Robot]:
    """Return the robots; the two arms are written to the folder."""
    arm = data / "mjcf" / "kuka_iiwa_14" / "iiwa14.xml"
    g1 = data / "mjcf" / "unitree_g1" / "g1.xml"
    return [
        Robot("KUKA iiwa 14", arm, ("link7",)),
        Robot("two KUKA iiwa 14", two_arms(arm, folder), ("left_link7", "right_link7")),
        Robot("Unitree G1", g1, ("left_wrist_yaw_link", "right_wrist_yaw_link"),
              ("left_ankle_roll_link", "right_ankle_roll_link"), whole=False),
        Robot("PAL TALOS", data / "mjcf" / "pal_talos" / "talos.xml", ("arm_left_7_link", "arm_right_7_link"),
              ("leg_left_6_link", "leg_right_6_link"), whole=False),
    ]  # fmt: skip


def two_arms(arm: Path, folder: Path) -> Path:
    """Write a model of two arms side by side, 0.8 m apart; return its path."""
    mujoco: Any = import_module("mujoco")  # its names are made when it is loaded
    whole = mujoco.MjSpec()
    whole.meshdir = str(arm.parent / "assets")
    stand = whole.worldbody.add_body(name="stand")
    for side, y in (("left_", 0.4), ("right_", -0.4)):
        one = mujoco.MjSpec.from_file(str(arm))
        one.option.integrator = whole.option.integrator
        for key in list(one.keys):
            one.delete(key)
        stand.add_frame(pos=[0.0, y, 0.0]).attach_body(one.body("base"), side, "")
    whole.compile()
    path = folder / "two_arms.xml"
    text = re.sub(r"\s*</frame>", "", whole.to_xml())  # Pinocchio knows no frames: their places go to the bodies
    text = re.sub(r'<frame pos="(.*?)">\s*<body (name="\w+_base")', r'<body \2 pos="\1"', text)
    path.write_text(text, encoding="utf8")
    return path


def clear_poses(skeleton: ps.Skeleton, count: int) -> np.ndarray:
    """Return random poses (count, n) inside the limits, the root as it stands, at which no checked pair touches."""
    rng = np.random.default_rng(11)
    home = next(iter(skeleton.named_poses.values()), skeleton.rest)
    still = ~(np.isfinite(skeleton.lower) & np.isfinite(skeleton.upper))
    low, high = np.where(still, home, skeleton.lower), np.where(still, home, skeleton.upper)
    tables = pair_tables(skeleton, skeleton.collision_pairs, ())
    found: list[np.ndarray] = []
    while len(found) < count:
        poses = rng.uniform(low, high, (count, skeleton.size))
        couple(skeleton, poses)
        apart = measure(tables, poses, 0.0).min(axis=1) >= 0.006
        found += list(poses[apart])
    return np.array(found[:count])


def deepest(path: Path, skeleton: ps.Skeleton, qpos: np.ndarray) -> np.ndarray:
    """Return the depth (t,) [m] of the worst of MuJoCo's contacts between checked pairs of bodies, at each pose."""
    mujoco: Any = import_module("mujoco")
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    owner = {site.name: site.joint for site in skeleton.sites} | {name: name for name in skeleton.names}
    joints = [owner.get(model.body(b).name, "world") for b in range(model.nbody)]
    checked = {frozenset(pair) for pair in skeleton.collision_pairs}
    out = np.zeros(len(qpos))
    for k, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_forward(model, data)
        for contact in data.contact:
            pair = frozenset(joints[model.geom_bodyid[geom]] for geom in contact.geom)
            if pair in checked:
                out[k] = max(out[k], -contact.dist)
    return out


def goals_of(robot: Robot, skeleton: ps.Skeleton, targets: Frames, home: np.ndarray) -> list[ps.goals.Goal]:
    """Return the goals of a batch of targets."""
    stand = ps.forward(skeleton, home)
    feet: list[ps.goals.Goal] = [g.Pose(foot, stand.matrix(foot), label=foot) for foot in robot.feet]
    if robot.whole:
        return [*(g.Pose(hand, targets.matrix(hand), label=hand) for hand in robot.hands), *feet]
    return [*(g.Position(hand, targets.position(hand), label=hand) for hand in robot.hands), *feet]


def by_peer(robot: Robot, skeleton: ps.Skeleton, targets: np.ndarray, peer: str, seconds: int, folder: Path) -> Any:
    """Return what a peer answers: {"qpos", "met", "seconds", "versions"}, or a sentence that says why nothing."""
    mujoco: Any = import_module("mujoco")
    model = mujoco.MjModel.from_xml_path(str(robot.path))
    home = next(iter(skeleton.named_poses.values()), skeleton.rest)
    start = skeleton.to_qpos(home)
    lower, upper = start.copy(), start.copy()
    for k in range(model.njnt):
        if model.jnt_type[k] >= 2 and model.jnt_limited[k]:
            lower[model.jnt_qposadr[k]], upper[model.jnt_qposadr[k]] = model.jnt_range[k]
    owner = {site.name: site.joint for site in skeleton.sites} | {name: name for name in skeleton.names}
    bodies: dict[str, list[str]] = {}
    for b in range(1, model.nbody):
        name = model.body(b).name
        bodies.setdefault(owner.get(name, "world"), []).append(name)
    pairs = [(x, y) for a, b in skeleton.collision_pairs for x in bodies.get(a, ()) for y in bodies.get(b, ())]
    task = {
        "file": str(robot.path), "frames": [*robot.hands, *robot.feet], "start": start.tolist(),
        "whole": [robot.whole] * len(robot.hands) + [True] * len(robot.feet), "restarts": RESTARTS, "pairs": pairs,
        "lower": lower.tolist(), "upper": upper.tolist(), "free": bool(model.jnt_type[0] == 0), "seconds": seconds,
    }  # fmt: skip
    source, out = folder / "task.npz", folder / f"{peer}.npz"
    np.savez(source, task=json.dumps(task), targets=targets)
    worker = Path(__file__).parent / "peers" / "collision_worker.py"
    try:
        command = [str(ready(peer)), str(worker), peer, str(source), str(out)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=20 * seconds + 120)
    except RuntimeError as problem:
        return str(problem)
    except subprocess.TimeoutExpired:
        return "took too long"
    except subprocess.CalledProcessError as problem:
        return problem.stderr.strip().splitlines()[-1] if problem.stderr.strip() else "ended"
    with np.load(out) as kept:
        return {name: kept[name] for name in kept.files}


def row(name: str, ok: np.ndarray, depth: np.ndarray, seconds: float, more: object = "") -> list[object]:
    """Return a line of the table: how many were called ok, how deep those are, and the time of one [ms]."""
    return [name, f"{ok.sum()} of {len(ok)}", f"{(depth > DEEP).sum()} of {ok.sum()}",
            1e3 * depth.max(initial=0.0), 1e3 * seconds, more]  # fmt: skip


def measured(page: Page, robot: Robot, count: int, folder: Path) -> list[list[object]]:
    """Return the lines of one robot: without and with NoCollision, then the peers."""
    skeleton = ps.load(robot.path).skeleton
    clear = clear_poses(skeleton, count)
    targets = ps.forward(skeleton, clear)
    home = next(iter(skeleton.named_poses.values()), skeleton.rest)
    goals = goals_of(robot, skeleton, targets, home)
    rows, seconds, results, deep = [], {}, {}, 0
    for what, more in (("without", []), ("with", [g.NoCollision()])):
        ps.solve(skeleton, [*goals, *more], start=home, restarts=1, threads=1)
        begin = time.process_time()
        results[what] = ps.solve(skeleton, [*goals, *more], start=home, restarts=RESTARTS, threads=1)
        seconds[what] = (time.process_time() - begin) / count
    for what, result in results.items():
        qpos = np.array([skeleton.to_qpos(pose) for pose in result.pose[result.ok]])
        ratio = f"{seconds['with'] / seconds['without']:.2f}" if what == "with" else ""
        depth = deepest(robot.path, skeleton, qpos)
        deep = int((depth > DEEP).sum())
        rows.append(row(f"{robot.name}, {what} NoCollision", result.ok, depth, seconds[what], ratio))
    page.values[f"{robot.name}: time ratio"] = seconds["with"] / seconds["without"]
    page.values[f"{robot.name}: reached"] = float(np.mean(results["with"].ok))
    page.values[f"{robot.name}: deeper than 1 mm"] = deep
    page.values[f"{robot.name}: shapes"] = len(skeleton.shapes)
    page.values[f"{robot.name}: pairs of bodies"] = len(skeleton.collision_pairs)
    frames = [*robot.hands, *robot.feet]
    stand = ps.forward(skeleton, home)
    few = page.pick(20, 3)
    wanted = np.stack(
        [targets.matrix(name)[:few] if name in robot.hands else np.tile(stand.matrix(name), (few, 1, 1))
         for name in frames], axis=1,
    )  # fmt: skip
    for peer in PEERS:
        answer = by_peer(robot, skeleton, wanted, peer, page.pick(30, 10), folder)
        if isinstance(answer, str):
            print(f"  {peer}: {answer}", file=sys.stderr)
            rows.append([f"{robot.name}, {peer}", "", answer, "", "", ""])
            continue
        met = answer["met"]
        depth = deepest(robot.path, skeleton, answer["qpos"][met])
        ratio = f"{answer['seconds'].mean() / seconds['with']:.0f}"
        rows.append(row(f"{robot.name}, {peer}", met, depth, float(answer["seconds"].mean()), ratio))
    return rows


def evidence(page: Page) -> None:
    """Write the page."""
    assert page.data is not None
    page.text((__doc__ or "").split("\n\n", 2)[2])
    count, rows = page.pick(2000, 40), []
    with tempfile.TemporaryDirectory() as folder:
        for robot in robots(page.data, Path(folder)):
            rows += measured(page, robot, count, Path(folder))
    page.table(
        f"Targets that have a collision-free solution, {RESTARTS} restarts",
        ["", "reached", "of those deeper than 1 mm", "deepest [mm]", "time [ms]",
         "time, against without NoCollision; of peers, against Posable with it"],
        rows,
    )  # fmt: skip
