"""Straight lines on six arms: what `follow` follows, against a graph over all branches.

    python -m benchmarks lines

A line is feasible where `follow` follows it, judged by forward kinematics, or where a graph over all branches has a
chain without a jump: closed forms with every whole turn, random starts, and for seven axes a grid over the last one.
The graph is made for the lines that `follow` does not follow, and, to test the graph, for the first ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import posable as ps
from posable.engine.joints import TURN
from posable.engine.layout import KIND

FRAMES = 61
JUMP = np.radians(20.0)
TESTED = 8  # lines of each arm on which the graph is tested
STARTS = {4: 16, 6: 32, 7: 6}  # random starts of the graph at each frame, by the number of axes
GRID = np.radians(10.0)  # of the joint of a seven-axis arm that is held


def arms() -> Iterator[tuple[str, ps.Skeleton, str]]:
    """Yield (name, skeleton, tool): joints of more than a turn, a slide, and seven axes among them."""
    h = np.pi / 2
    deg = np.radians
    kr16 = [(0.0, 0.675, 0.26, -h), (0.0, 0.0, 0.68, 0.0), (-h, 0.0, -0.035, h), (0.0, -0.67, 0.0, -h),
            (0.0, 0.0, 0.0, h), (0.0, -0.158, 0.0, np.pi)]  # fmt: skip
    kr16_limits = deg([(-185, 185), (-155, 35), (-130, 154), (-350, 350), (-130, 130), (-350, 350)])
    yield "KR16", _serial("KR16", kr16, kr16_limits), "tool"
    puma = [(0.0, 0.0, 0.0, h), (0.0, 0.0, 0.4318, 0.0), (0.0, 0.15, 0.0203, -h), (0.0, 0.4318, 0.0, h),
            (0.0, 0.0, 0.0, -h), (0.0, 0.1, 0.0, 0.0)]  # fmt: skip
    puma_limits = deg([(-160, 160), (-45, 225), (-225, 45), (-110, 170), (-100, 100), (-266, 266)])
    yield "Puma 560", _serial("Puma 560", puma, puma_limits), "tool"
    ur5 = [(0.0, 0.0892, 0.0, h), (0.0, 0.0, -0.425, 0.0), (0.0, 0.0, -0.392, 0.0), (0.0, 0.1093, 0.0, h),
           (0.0, 0.09475, 0.0, -h), (0.0, 0.0825, 0.0, 0.0)]  # fmt: skip
    yield "UR5, two turns a joint", _serial("UR5", ur5, deg([(-360, 360)] * 6)), "tool"
    yield "SCARA with a slide", _scara(), "tool"
    yield "Panda, seven axes", ps.figures.panda(), "tcp"
    offset = [(0.0, 0.3, 0.1, h), (0.0, 0.05, 0.35, 0.0), (0.0, 0.0, 0.3, 0.0), (0.0, 0.12, 0.0, h),
              (0.0, 0.1, 0.05, -h), (0.0, 0.08, 0.0, 0.0)]  # fmt: skip
    offset_limits = deg([(-170, 170), (-120, 120), (-150, 150), (-180, 180), (-120, 120), (-400, 400)])
    yield "6R without a spherical wrist", _serial("6R", offset, offset_limits), "tool"


def _serial(name: str, rows, limits) -> ps.Skeleton:
    """Return an arm from Denavit-Hartenberg rows (theta, d, a, alpha) with limits (n, 2) [rad]."""
    return ps.from_dh([(a, alpha, d, theta) for theta, d, a, alpha in rows], limits=limits, name=name)


def _scara() -> ps.Skeleton:
    joints = [
        ps.Joint("one", ps.Revolute("z"), limits=np.radians((-150, 150))),
        ps.Joint("two", ps.Revolute("z"), "one", offset=(0.4, 0, 0.3), limits=np.radians((-145, 145))),
        ps.Joint("lift", ps.Prismatic("z"), "two", offset=(0.35, 0, 0), limits=(-0.3, 0.0)),
        ps.Joint("turn", ps.Revolute("z"), "lift", limits=np.radians((-360, 360))),
    ]
    return ps.Skeleton(joints, [ps.Site("tool", "turn")], name="SCARA")


def lines(skeleton: ps.Skeleton, tool: str, count: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (start pose (n,), path (FRAMES, 4, 4)): random straight lines that begin at a pose inside the limits."""
    rng = np.random.default_rng(seed)
    low, high = np.maximum(skeleton.lower, -np.pi), np.minimum(skeleton.upper, np.pi)
    for _ in range(count):
        pose = rng.uniform(low, high)
        begin = ps.forward(skeleton, pose).matrix(tool)
        way = rng.normal(size=3) * (1.0, 1.0, 0.0 if skeleton.size == 4 else 1.0)
        way *= rng.uniform(0.1, 0.6) / np.linalg.norm(way)
        path = np.repeat(begin[None], FRAMES, axis=0)
        path[:, :3, 3] += np.linspace(0.0, 1.0, FRAMES)[:, None] * way
        yield pose, path


def branches(skeleton: ps.Skeleton, tool: str, path: np.ndarray) -> list[np.ndarray]:
    """Return the poses (k, n) inside the limits that reach each frame of a path, with every whole turn of a joint.

    Closed forms and solves from random starts; of a seven-axis arm, the last joint is held at values GRID apart.
    """
    if skeleton.size == 7:
        low, high = skeleton.lower[-1], skeleton.upper[-1]
        values = np.linspace(low, high, int(np.ceil((high - low) / GRID)) + 1)
        found = [
            _random_solves(skeleton.with_limits({skeleton.names[-1]: (value, value)}), tool, path) for value in values
        ]
    else:
        closed = [np.asarray(ps.solutions(skeleton, ps.goals.Pose(tool, place), limits=False)) for place in path]
        found = [closed, _random_solves(skeleton, tool, path)]
    return [_whole_turns(skeleton, np.vstack(poses)) for poses in zip(*found, strict=True)]


def _random_solves(skeleton: ps.Skeleton, tool: str, path: np.ndarray) -> list[np.ndarray]:
    """Return poses (k, n) of each frame, found from random starts."""
    count = STARTS[skeleton.size]
    low, high = np.maximum(skeleton.lower, -np.pi), np.minimum(skeleton.upper, np.pi)
    starts = np.random.default_rng(1).uniform(low, high, (len(path) * count, skeleton.size))
    result = ps.solve(skeleton, ps.goals.Pose(tool, np.repeat(path, count, axis=0)), start=starts)
    found: list[list[np.ndarray]] = [[] for _ in path]
    for k in np.flatnonzero(result.ok):
        known = found[k // count]
        if all(np.abs(result.pose[k] - other).max() > 1e-2 for other in known):
            known.append(result.pose[k])
    return [np.array(poses).reshape(-1, skeleton.size) for poses in found]


def _whole_turns(skeleton: ps.Skeleton, poses: np.ndarray) -> np.ndarray:
    """Return poses (k, n) with each angle at every whole turn that its limits allow."""
    for i in range(skeleton.size):
        if skeleton.figure.dof[i, KIND] == TURN:
            turned = []
            for turns in range(-3, 4):
                more = poses.copy()
                more[:, i] += 2.0 * np.pi * turns
                turned.append(more)
            poses = np.vstack(turned)
        poses = poses[(poses[:, i] >= skeleton.lower[i] - 1e-9) & (poses[:, i] <= skeleton.upper[i] + 1e-9)]
    return poses


def graph_follows(skeleton: ps.Skeleton, nodes: list[np.ndarray]) -> bool:
    """Return whether a chain of nodes, one a frame, has no angle that steps by more than JUMP."""
    most = np.where(skeleton.figure.dof[:, KIND] == TURN, JUMP, np.inf)
    alive = nodes[0]
    for these in nodes[1:]:
        if not len(alive) or not len(these):
            return False
        near = [(np.abs(alive - pose) <= most).all(axis=1).any() for pose in these]
        alive = these[near]
    return bool(len(alive))


def judge(skeleton: ps.Skeleton, tool: str, path: np.ndarray, motion: ps.Motion) -> tuple[bool, bool]:
    """Return whether a motion follows the path, by forward kinematics, and whether it has a step beyond JUMP."""
    frames = ps.forward(skeleton, motion.poses)
    there = frames.matrix(tool)
    near = np.abs(there - path).max() < 2e-3
    inside = bool(((motion.poses >= skeleton.lower - 1e-9) & (motion.poses <= skeleton.upper + 1e-9)).all())
    steps = np.abs(np.diff(motion.poses, axis=0))
    turns = np.array([not isinstance(joint.motion, ps.Prismatic) for joint in skeleton.joints if joint.motion.dofs])
    return bool(near and inside), bool((steps[:, turns] > JUMP).any())


def excess(skeleton: ps.Skeleton, tool: str, pose: np.ndarray, path: np.ndarray) -> float:
    """Return by how much a Controller, led along a path at 100 Hz, exceeds any limit [rad, m; per s; per s^2]."""
    dt, speed, accel = 0.01, 2.0, 10.0
    controller = ps.Controller(
        skeleton, ps.goals.Pose(tool, path[0]), dt=dt, velocity=speed, acceleration=accel, start=pose
    )
    poses = np.array([controller.pose, controller.pose, *(controller.step({tool: place}).pose for place in path)])
    velocity = np.diff(poses, axis=0) / dt
    return float(max(
        (skeleton.lower - poses).max(), (poses - skeleton.upper).max(), np.abs(velocity).max() - speed,
        np.abs(np.diff(velocity, axis=0)).max() / dt - accel, 0.0,
    ))  # fmt: skip


def measure(count: int, seed: int = 5) -> list[dict[str, object]]:
    """Return, for each arm, how many lines are followed from their start and from anywhere, and how many can be."""
    rows = []
    for name, skeleton, tool in arms():
        tally = dict.fromkeys(("start", "lies", "feasible", "any", "missed", "tested", "found"), 0)
        over = 0.0
        for k, (pose, path) in enumerate(lines(skeleton, tool, count, seed)):
            goal = ps.goals.Pose(tool, path)
            one = ps.follow(skeleton, goal, fps=30, start=pose)
            good, jumps = judge(skeleton, tool, path, one)
            tally["start"] += bool(one.ok.all())
            tally["lies"] += bool(one.ok.all()) and (not good or jumps)
            anywhere = ps.follow(skeleton, goal, fps=30, start="any")
            good, jumps = judge(skeleton, tool, path, anywhere)
            tally["lies"] += bool(anywhere.ok.all()) and (not good or jumps)
            whole = bool(anywhere.ok.all())
            proved = (not whole or k < TESTED) and graph_follows(skeleton, branches(skeleton, tool, path))
            feasible = whole or proved
            tally["tested"] += whole and k < TESTED
            tally["found"] += whole and proved
            tally["feasible"] += feasible
            tally["any"] += whole
            tally["missed"] += feasible and not whole
            over = max(over, excess(skeleton, tool, pose, path))
        rows.append({"arm": name, "lines": count, **tally, "excess": over})
    return rows


def evidence(page) -> None:
    """Measure and write the page."""
    page.text((__doc__ or "").split("\n\n", 2)[2])
    page.table(
        "Random straight lines of 0.1 to 0.6 m, 61 frames each",
        ("arm", "lines", "whole from their start", "reported whole with a fault", "feasible", 'whole with start="any"',
         "feasible and missed", "of the first ones: whole", "and found by the graph",
         "Controller's excess over any limit"),
        [list(row.values()) for row in measure(page.pick(150, 4))],
        note="fault: off the line by more than 2 mm, beyond a limit, or a step of more than 20 degrees",
    )  # fmt: skip
