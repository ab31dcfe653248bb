"""Poses that do not collide: an arm and a humanoid with and without NoCollision, judged by MuJoCo's own contacts.

    python -m benchmarks collision

Targets are the hands of random poses inside the limits that do not collide, so each has a collision-free solution.
Every answer called ok is placed in MuJoCo, whose contacts between the checked pairs of bodies say how deep it is. Times
are one core's own time.
"""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.page import Page
from posable.model.collision import measure, pair_tables

g = ps.goals
ROBOTS = {
    "KUKA iiwa 14": ("kuka_iiwa_14/iiwa14.xml", ("link7",), ()),
    "Unitree G1": ("unitree_g1/g1.xml", ("left_wrist_yaw_link", "right_wrist_yaw_link"),
                   ("left_ankle_roll_link", "right_ankle_roll_link")),
}  # fmt: skip
RESTARTS = 20


def clear_poses(skeleton: ps.Skeleton, count: int) -> np.ndarray:
    """Return random poses (count, n) inside the limits, the root as it stands, at which no checked pair touches."""
    rng = np.random.default_rng(11)
    home = next(iter(skeleton.named_poses.values()), skeleton.rest)
    still = ~(np.isfinite(skeleton.lower) & np.isfinite(skeleton.upper))
    low, high = np.where(still, home, skeleton.lower), np.where(still, home, skeleton.upper)
    tables = pair_tables(skeleton, skeleton.collision_pairs, ())
    found: list[np.ndarray] = []
    while len(found) < count:
        poses = rng.uniform(low, high, (4 * count, skeleton.size))
        apart = measure(tables, poses, 0.0).min(axis=1) >= 0.006
        found += list(poses[apart])
    return np.array(found[:count])


def deepest(path: Path, skeleton: ps.Skeleton, poses: np.ndarray) -> np.ndarray:
    """Return the depth (t,) [m] of the worst of MuJoCo's contacts between checked pairs of bodies, at each pose."""
    mujoco: Any = import_module("mujoco")  # its names are made when it is loaded
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    owner = {site.name: site.joint for site in skeleton.sites} | {name: name for name in skeleton.names}
    joints = [owner.get(model.body(b).name, "world") for b in range(model.nbody)]
    checked = {frozenset(pair) for pair in skeleton.collision_pairs}
    out = np.zeros(len(poses))
    for k, pose in enumerate(poses):
        data.qpos[:] = skeleton.to_qpos(pose)
        mujoco.mj_forward(model, data)
        for contact in data.contact:
            pair = frozenset(joints[model.geom_bodyid[geom]] for geom in contact.geom)
            if pair in checked:
                out[k] = max(out[k], -contact.dist)
    return out


def evidence(page: Page) -> None:
    """Write the page."""
    assert page.data is not None
    page.text((__doc__ or "").split("\n\n", 2)[2])
    count, rows = page.pick(500, 40), []
    for name, (file, hands, feet) in ROBOTS.items():
        path = page.data / "mjcf" / file
        skeleton = ps.load(path).skeleton
        targets = ps.forward(skeleton, clear_poses(skeleton, count))
        home = next(iter(skeleton.named_poses.values()), skeleton.rest)
        stand = ps.forward(skeleton, home)
        goals = [g.Position(hand, targets.position(hand), label=hand) for hand in hands]
        goals += [g.Pose(foot, stand.matrix(foot), label=foot) for foot in feet]
        seconds = {}
        for what, more in (("without", []), ("with", [g.NoCollision()])):
            ps.solve(skeleton, [*goals, *more], start=home, restarts=1, threads=1)
            begin = time.process_time()
            result = ps.solve(skeleton, [*goals, *more], start=home, restarts=RESTARTS, threads=1)
            seconds[what] = (time.process_time() - begin) / count
            depth = deepest(path, skeleton, result.pose[result.ok])
            rows.append(
                [f"{name}, {what} NoCollision", len(skeleton.shapes), len(skeleton.collision_pairs),
                 f"{np.mean(result.ok):.1%}", f"{(depth > 1e-3).mean():.1%}", 1e3 * depth.max(initial=0.0),
                 1e6 * seconds[what], float(np.mean(result.iterations))]
            )  # fmt: skip
        page.values[f"{name}: time ratio"] = seconds["with"] / seconds["without"]
    page.table(
        f"{count} targets that have a collision-free solution, {RESTARTS} restarts",
        ["", "shapes", "pairs of bodies", "called ok", "of those deeper than 1 mm (MuJoCo)", "deepest [mm]",
         "time [us]", "iterations"],
        rows,
    )  # fmt: skip
    ratios = ", ".join(f"{key.split(':')[0]} {value:.1f}" for key, value in page.values.items())
    page.text(f"Time with NoCollision against time without: {ratios}.")
