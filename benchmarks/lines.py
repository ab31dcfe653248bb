"""Straight lines on six arms: what `follow` follows, against a graph over all branches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import posable as ps

FRAMES = 61
JUMP = np.radians(20.0)
STARTS = 48  # of the graph, at each frame


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


def branches(skeleton: ps.Skeleton, tool: str, path: np.ndarray, seed: int) -> list[np.ndarray]:
    """Return the poses (k, n) of every branch at each frame of a path, by solves from random starts."""
    rng = np.random.default_rng(seed)
    low, high = np.maximum(skeleton.lower, -np.pi), np.minimum(skeleton.upper, np.pi)
    starts = rng.uniform(low, high, (STARTS, skeleton.size))
    targets = np.repeat(path, STARTS, axis=0)
    result = ps.solve(skeleton, ps.goals.Pose(tool, targets), start=np.tile(starts, (len(path), 1)), restarts=1)
    poses, good = result.pose.reshape(len(path), STARTS, -1), np.asarray(result.ok).reshape(len(path), STARTS)
    out = []
    for t in range(len(path)):
        found: list[np.ndarray] = []
        for pose in poses[t, good[t]]:
            if all(np.abs(pose - other).max() > 1e-2 for other in found):
                found.append(pose)
        out.append(np.array(found).reshape(-1, skeleton.size))
    return out


def graph_follows(skeleton: ps.Skeleton, nodes: list[np.ndarray]) -> bool:
    """Return whether a chain of nodes, one a frame, has no step beyond JUMP, whole turns of wide joints aside."""
    wide = skeleton.upper - skeleton.lower >= 2.0 * np.pi
    alive = nodes[0]
    for these in nodes[1:]:
        if not len(alive) or not len(these):
            return False
        gaps = these[:, None] - alive[None]
        gaps[..., wide] -= 2.0 * np.pi * np.round(gaps[..., wide] / (2.0 * np.pi))
        alive = these[(np.abs(gaps) <= JUMP).all(axis=2).any(axis=1)]
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


def measure(count: int, seed: int = 5) -> list[dict[str, object]]:
    """Return, for each arm, how many lines are followed from their start and from anywhere, and how many can be."""
    rows = []
    for name, skeleton, tool in arms():
        tally = dict.fromkeys(("start", "lies", "feasible", "any", "missed"), 0)
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
            feasible = whole or graph_follows(skeleton, branches(skeleton, tool, path, seed + k))
            tally["feasible"] += feasible
            tally["any"] += whole
            tally["missed"] += feasible and not whole
        rows.append({"arm": name, "lines": count, **tally})
    return rows


if __name__ == "__main__":
    import sys

    for row in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        print(row)
