"""Hostile targets for `Controller`, and the cases that once made a figure jump.

    python -m benchmarks.control_stress 250000

takes that many hostile steps with each of four figures and prints the largest excess over any limit.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps

g = ps.goals
START = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])  # of a Panda


def figures() -> Iterator[tuple[str, ps.Skeleton, list[str]]]:
    """Yield (name, skeleton, sites that are led) of four figures."""
    spider = ps.figures.spider()
    yield "Panda", ps.figures.panda(), ["tcp"]
    yield "six-legged spider", spider, list(spider.site_names[:4])
    yield "human", ps.figures.human(), ["hand.L", "hand.R", "head", "foot.L"]
    yield "limb", ps.figures.limb(), ["hand"]


def attack(skeleton: ps.Skeleton, sites: list[str], steps: int, seed: int = 1) -> tuple[np.ndarray, int]:
    """Return the largest excess (3,) over the limits of position, velocity and acceleration, and how many NaN came out.

    Targets jump by up to 30 m, are NaN, infinite or absurd, and goals are switched on and off; limits are random.
    """
    rng = np.random.default_rng(seed)
    frames = ps.forward(skeleton, skeleton.rest)
    speed, accel = rng.uniform(0.5, 3.0, skeleton.size), rng.uniform(2.0, 30.0, skeleton.size)
    goals = [g.Position(site, frames.position(site)) for site in sites]
    dt = 0.002
    controller = ps.Controller(skeleton, goals, dt=dt, velocity=speed, acceleration=accel)
    last, rate, worst, bad = controller.pose, np.zeros(skeleton.size), np.zeros(3), 0
    for k in range(steps):
        site, targets = sites[k % len(sites)], None
        if k % 3 == 0:
            target = frames.position(site) + rng.normal(size=3) * (0.05, 0.5, 30.0)[k // 3 % 3]
            if k % 7 == 3:
                target[k // 3 % 3] = (np.nan, np.inf, -np.inf, 1e300)[k // 7 % 4]
            targets = {site: target}
        if k % 101 == 5:
            controller.enable(site, on=bool(rng.random() < 0.7))
        pose = controller.step(targets).pose
        velocity = (pose - last) / dt
        over = [
            max((skeleton.lower - pose).max(), (pose - skeleton.upper).max()), (np.abs(velocity) - speed).max(),
            (np.abs(velocity - rate) / dt - accel).max(),
        ]  # fmt: skip
        worst, bad = np.maximum(worst, over), bad + (not np.isfinite(pose).all())
        last, rate = pose, velocity
    return worst, bad


def hostile(steps: int) -> list[list[object]]:
    """Return [figure, steps, excess of position, velocity, acceleration, NaN] of each figure."""
    rows = []
    for name, skeleton, sites in figures():
        worst, bad = attack(skeleton, sites, steps)
        rows.append([name, steps, *worst.tolist(), bad])
    return rows


def memory_growth(steps: int) -> int:
    """Return by how many bytes the memory in use grows over the steps of a loop, after its first ones."""
    panda = ps.figures.panda()
    place = ps.forward(panda, START).matrix("tcp")
    controller = ps.Controller(panda, g.Pose("tcp", place), dt=0.001, start=START)
    target = place.copy()

    def run(count: int) -> None:
        for k in range(count):
            target[1, 3] = place[1, 3] + 0.1 * np.sin(0.003 * k)
            controller.step({"tcp": target})

    run(200)
    tracemalloc.start()
    run(200)
    before = tracemalloc.get_traced_memory()[0]
    run(steps)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before


# --- What made a figure jump ---


def faults() -> list[list[object]]:
    """Return [case, measure, value, bound, whether the bound holds] of each case."""
    rows = [*_turns(), *_stairs(), _singularity(), _jump()]
    return [[case, measure, value, bound, "yes" if value <= bound else "NO"] for case, measure, value, bound in rows]


def _turns() -> Iterator[tuple[str, str, float, float]]:
    """A hinge that ends before a whole turn; a start beyond a turn."""
    joint = ps.Joint("hinge", ps.Revolute("z"), limits=(-3.2, 3.2))
    hinge = ps.Skeleton([joint], [ps.Site("tip", "hinge", (1.0, 0.0, 0.0))])
    angles = np.linspace(3.0, 3.4, 60)
    path = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=-1)
    motion = ps.follow(hinge, g.Position("tip", path), fps=30, start=[3.0])
    case = "hinge limited to 3.2 rad, led from 3.0 to 3.4"
    yield case, "follow: largest step [deg]", float(np.degrees(np.abs(np.diff(motion.poses, axis=0)).max())), 20.0
    yield case, "follow: frames beyond the limit that are called reached", float(motion.ok[angles > 3.21].sum()), 0.0
    session = ps.Session(hinge, g.Position("tip", path[0]), start=[3.0], continuous=True, max_step=0.35)
    poses = np.array([session.solve({"tip": place}).pose[0] for place in path])
    yield case, "Session: largest step [deg]", float(np.degrees(np.abs(np.diff(poses)).max())), 20.0
    controller = ps.Controller(hinge, g.Position("tip", path[0]), dt=0.01, start=[3.0])
    poses = np.array([controller.step({"tip": place}).pose[0] for place in path])
    yield case, "Controller: largest step [deg]", float(np.degrees(np.abs(np.diff(poses)).max())), 1.8
    wide = hinge.with_limits({"hinge": (-6.3, 6.3)})
    angles = np.linspace(6.1, 5.9, 30)
    path = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=-1)
    motion = ps.follow(wide, g.Position("tip", path), fps=30, start=[6.1])
    yield "start at 6.1 rad of 6.3", "follow: distance from the start [rad]", float(abs(motion.poses[0, 0] - 6.1)), 1e-3


def _stairs() -> Iterator[tuple[str, str, float, float]]:
    """Targets that are slower than a tolerance in a tick."""
    panda = ps.figures.panda()
    for speed, dt, most in ((0.005, 0.01, 0.05), (0.039, 0.001, 0.3)):
        place = ps.forward(panda, START).matrix("tcp")
        controller = ps.Controller(panda, g.Pose("tcp", place), dt=dt, start=START)
        poses = []
        for k in range(1, 400):
            target = place.copy()
            target[1, 3] += speed * dt * k
            poses.append(controller.step({"tcp": target}).pose)
        velocity = np.diff(np.array(poses, dtype=float), axis=0) / dt
        case = f"{1e3 * speed:g} mm/s at {1 / dt:g} Hz"
        yield case, "share of steps that do not move", float((np.abs(velocity).max(axis=1) < 1e-5).mean()), 0.0
        bend = np.abs(np.diff(velocity, axis=0)).max(axis=1) / dt
        yield case, "largest acceleration after 0.1 s [rad/s²]", float(bend[round(0.1 / dt) :].max()), most


def _singularity() -> tuple[str, str, float, float]:
    """A wrist whose axes become parallel, passed 1 degree off."""
    joints = [
        ps.Joint("a", ps.Revolute("z"), limits=(-3, 3)), ps.Joint("b", ps.Revolute("y"), "a", limits=(-3, 3)),
        ps.Joint("c", ps.Revolute("z"), "b", limits=(-3, 3)),
    ]  # fmt: skip
    wrist = ps.Skeleton(joints, [ps.Site("tool", "c", (0.0, 0.0, 0.2))])
    turn = Rotation.from_euler("y", 0.6)
    controller = ps.Controller(wrist, g.Orientation("tool", turn), dt=0.01, velocity=3.0, start=[0.0, 0.6, 0.0])
    poses = []
    for k in range(400):
        s = min(k / 300.0, 1.0)
        s = s * s * (3.0 - 2.0 * s)
        aside = Rotation.from_rotvec([0.02 * np.sin(np.pi * s), 0.0, 0.0])
        poses.append(controller.step({"tool": aside * Rotation.from_euler("y", 0.6 - 1.2 * s)}).pose)
    largest = np.degrees(np.abs(np.diff(np.array(poses), axis=0)).max())
    return (
        "wrist singularity at 100 Hz",
        "Controller: largest step [deg]",
        float(largest),
        float(np.degrees(0.03) + 1e-9),
    )


def _jump() -> tuple[str, str, float, float]:
    """A target that jumps by 0.64 m."""
    panda = ps.figures.panda()
    place = ps.forward(panda, START).position("tcp")
    controller = ps.Controller(panda, g.Position("tcp", place), dt=0.01, velocity=2.0, start=START)
    target = place + np.array([-0.2, 0.55, 0.25])
    poses = [START, *(controller.step({"tcp": target}).pose for _ in range(300))]
    largest = np.degrees(np.abs(np.diff(np.array(poses), axis=0)).max())
    return (
        "target that jumps by 0.64 m",
        "Controller: largest step [deg]",
        float(largest),
        float(np.degrees(0.02) + 1e-9),
    )


if __name__ == "__main__":
    for row in hostile(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000):
        print(*row, flush=True)
