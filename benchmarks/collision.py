"""Poses that do not collide: arms, a hand and humanoids with and without NoCollision, beside mink and pink.

    python -m benchmarks collision

Targets are the hands of random poses inside the limits that do not collide, so each has a collision-free solution:
poses of the hands for the large arms, positions of the hands or fingertips for the others, humanoids with their feet
in place. Five sets of targets are drawn; times are those of the set with the largest ratio. Every solution reported as
ok is judged by coal, on the hulls of all vertices of the file's meshes, for all pairs that MuJoCo's rules allow and
that do not touch at home, whether Posable checks them or not. mink and pink avoid collisions in one quadratic program
per step; they get the pairs that Posable checks, the first of the same targets, and as many random starts. Times are
processor times of one core, per target, the median of three runs in turn.
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
from benchmarks.true_meshes import TrueMeshes
from posable.model.collision import couple, measure, pair_tables
from posable.model.kinematics import Frames

g = ps.goals
RESTARTS = 20
DEEP = 1e-3  # [m]
SEEDS = (11, 1, 2, 3, 4)  # of the sets of targets
MARGINS = (1e-3, 2e-3)  # [m] asked of the dexterous hand
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
    fingers = tuple(f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th"))
    return [
        Robot("KUKA iiwa 14", arm, ("link7",)),
        Robot("two KUKA iiwa 14", two_arms(arm, folder), ("left_link7", "right_link7")),
        Robot("Unitree G1", g1, ("left_wrist_yaw_link", "right_wrist_yaw_link"),
              ("left_ankle_roll_link", "right_ankle_roll_link"), whole=False),
        Robot("PAL TALOS", data / "mjcf" / "pal_talos" / "talos.xml", ("arm_left_7_link", "arm_right_7_link"),
              ("leg_left_6_link", "leg_right_6_link"), whole=False),
        Robot("Shadow Hand", data / "mjcf" / "shadow_hand" / "right_hand.xml", fingers, whole=False),
        Robot("SO-ARM100", data / "mjcf" / "trs_so_arm100" / "so_arm100.xml", ("Fixed_Jaw",), whole=False),
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


def clear_poses(skeleton: ps.Skeleton, count: int, seed: int, gap: float = 0.0) -> np.ndarray:
    """Return random poses (count, n) inside the limits, the root at home, with the checked pairs `gap` [m] apart."""
    rng = np.random.default_rng(seed)
    home = home_of(skeleton)
    still = ~(np.isfinite(skeleton.lower) & np.isfinite(skeleton.upper))
    low, high = np.where(still, home, skeleton.lower), np.where(still, home, skeleton.upper)
    tables = pair_tables(skeleton, skeleton.collision_pairs, ())
    found: list[np.ndarray] = []
    while len(found) < count:
        poses = rng.uniform(low, high, (count, skeleton.size))
        couple(skeleton, poses)
        found += list(poses[measure(tables, poses, gap + 1e-9).min(axis=1) >= gap])
    return np.array(found[:count])


def home_of(skeleton: ps.Skeleton) -> np.ndarray:
    """Return where solves begin: the first named pose, or the rest pose."""
    return next(iter(skeleton.named_poses.values()), skeleton.rest)


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
    start = skeleton.to_qpos(home_of(skeleton))
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


def both_ways(skeleton: ps.Skeleton, goals: list[ps.goals.Goal], count: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the results of a batch and the seconds per target, "without" and "with" NoCollision."""
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    ways, results = {"without": goals, "with": [*goals, g.NoCollision()]}, {}
    home = home_of(skeleton)
    for every in ways.values():
        ps.solve(skeleton, every, start=home, restarts=1, threads=1)
    for _ in range(3):
        for what, every in ways.items():
            begin = time.process_time()
            results[what] = ps.solve(skeleton, every, start=home, restarts=RESTARTS, threads=1)
            seconds[what].append((time.process_time() - begin) / count)
    return results, {what: float(np.median(times)) for what, times in seconds.items()}


def measured(page: Page, robot: Robot, count: int, folder: Path) -> list[list[object]]:
    """Return the lines of one robot: without and with NoCollision, then the peers."""
    skeleton = ps.load(robot.path).skeleton
    home = home_of(skeleton)
    truth = TrueMeshes(robot.path, skeleton.to_qpos(home))
    every: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"without": [], "with": []}
    times: list[dict[str, float]] = []
    seeds = SEEDS[: page.pick(len(SEEDS), 2)]
    for seed in seeds:
        targets = ps.forward(skeleton, clear_poses(skeleton, count, seed))
        results, seconds = both_ways(skeleton, goals_of(robot, skeleton, targets, home), count)
        times.append(seconds)
        for what, result in results.items():
            if what == "without" and every[what]:
                continue  # one set shows what they are like
            depth = truth.deepest(np.array([skeleton.to_qpos(pose) for pose in result.pose[result.ok]]))
            every[what].append((result.ok, depth))
    worst = max(times, key=lambda seconds: seconds["with"] / seconds["without"])
    ratios = sorted(seconds["with"] / seconds["without"] for seconds in times)
    rows = []
    for what, found in every.items():
        ok, depth = (np.concatenate(part) for part in zip(*found, strict=True))
        span = f"{ratios[0]:.2f} to {ratios[-1]:.2f}" if what == "with" else ""
        rows.append(row(f"{robot.name}, {what} NoCollision", ok, depth, worst[what], span))
    ok, depth = (np.concatenate(part) for part in zip(*every["with"], strict=True))
    page.values[f"{robot.name}: time ratio"] = ratios[-1]
    page.values[f"{robot.name}: reached"] = float(ok.mean())
    page.values[f"{robot.name}: deeper than 1 mm"] = int((depth > DEEP).sum())
    page.values[f"{robot.name}: shapes"] = len(skeleton.shapes)
    page.values[f"{robot.name}: pairs of bodies"] = len(skeleton.collision_pairs)
    first = ps.forward(skeleton, clear_poses(skeleton, count, seeds[0]))
    return rows + peer_rows(page, robot, skeleton, first, worst["with"], truth, folder)


def peer_rows(
    page: Page, robot: Robot, skeleton: ps.Skeleton, targets: Frames, seconds: float, truth: TrueMeshes, folder: Path
) -> list[list[object]]:
    """Return the lines of mink and pink; seconds: Posable's with NoCollision."""
    rows: list[list[object]] = []
    stand = ps.forward(skeleton, home_of(skeleton))
    few = page.pick(20, 3)
    wanted = np.stack(
        [targets.matrix(name)[:few] if name in robot.hands else np.tile(stand.matrix(name), (few, 1, 1))
         for name in (*robot.hands, *robot.feet)], axis=1,
    )  # fmt: skip
    for peer in PEERS:
        answer = by_peer(robot, skeleton, wanted, peer, page.pick(30, 10), folder)
        if isinstance(answer, str):
            print(f"  {peer}: {answer}", file=sys.stderr)
            rows.append([f"{robot.name}, {peer}", "", answer, "", "", ""])
            continue
        met = answer["met"]
        ratio = f"{answer['seconds'].mean() / seconds:.0f}"
        depth = truth.deepest(answer["qpos"][met])
        rows.append(row(f"{robot.name}, {peer}", met, depth, float(answer["seconds"].mean()), ratio))
    return rows


def with_margins(page: Page, robot: Robot, count: int) -> list[list[object]]:
    """Return a line for each margin: targets from poses that keep it, and how many are reached keeping it."""
    skeleton = ps.load(robot.path).skeleton
    home = home_of(skeleton)
    rows: list[list[object]] = []
    for margin in MARGINS:
        reached, total, seconds = 0, 0, 0.0
        for seed in SEEDS[: page.pick(len(SEEDS), 2)]:
            targets = ps.forward(skeleton, clear_poses(skeleton, count, seed, margin))
            goals = [*goals_of(robot, skeleton, targets, home), g.NoCollision(margin=margin)]
            begin = time.process_time()
            result = ps.solve(skeleton, goals, start=home, restarts=3 * RESTARTS, threads=1)
            seconds += time.process_time() - begin
            reached, total = reached + int(np.sum(result.ok)), total + count
        rows.append([f"{robot.name}, margin {1e3 * margin:g} mm", f"{reached} of {total}", 1e3 * seconds / total])
        page.values[f"{robot.name}: reached with a margin of {1e3 * margin:g} mm"] = reached / total
    return rows


def evidence(page: Page) -> None:
    """Write the page."""
    assert page.data is not None
    page.text((__doc__ or "").split("\n\n", 2)[2])
    count, rows = page.pick(2000, 40), []
    with tempfile.TemporaryDirectory() as folder:
        every = robots(page.data, Path(folder))
        for robot in every:
            rows += measured(page, robot, count, Path(folder))
        margins = [line for robot in every if robot.name == "Shadow Hand"
                   for line in with_margins(page, robot, page.pick(400, 20))]  # fmt: skip
    page.table(
        f"Targets that have a collision-free solution, {RESTARTS} restarts",
        ["", "reached", "of those deeper than 1 mm", "deepest [mm]", "time [ms]",
         "time, against without NoCollision; of peers, against Posable with it"],
        rows,
    )  # fmt: skip
    page.table(
        f"Targets of poses that keep a margin, {3 * RESTARTS} restarts", ["", "reached", "time [ms]"], margins,
    )  # fmt: skip
