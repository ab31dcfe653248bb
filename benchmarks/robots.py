"""Random reachable poses of a Panda, a Talos and the human: success by an independent check, and time.

    python -m benchmarks.robots [--data ../shared/data] [--passes 3]

Panda: 500 poses inside the limits, from the middle of the range. Talos (URDF, free root): 200 poses with six pose
goals, from neutral, where its knees and elbows are straight and on their limits; joints drawn from the whole of their
range, and from half of it about neutral. Human: six position goals and all 142 limits, moved by 0.05 to 1 m between
solves. A pose counts as solved within 1 mm, 0.01 rad and the limits, measured by forward kinematics alone.
Each time is the best of the passes for each problem: other work on the machine only ever adds.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from benchmarks.recordings import read_skeleton

g = ps.goals
NEAR, TURNED = 1e-3, 1e-2  # [m], [rad]: what counts as solved


def solved(skeleton, poses, targets) -> np.ndarray:
    """Return, for poses (t, n), whether each meets its targets {body: (t, 4, 4)} inside the limits."""
    frames = ps.forward(skeleton, poses)
    good = np.all((poses >= skeleton.lower - 1e-9) & (poses <= skeleton.upper + 1e-9), axis=1)
    for body, wanted in targets.items():
        got = frames.matrix(body)
        good &= np.linalg.norm(got[:, :3, 3] - wanted[:, :3, 3], axis=1) <= NEAR
        good &= Rotation.from_matrix(np.swapaxes(got[:, :3, :3], 1, 2) @ wanted[:, :3, :3]).magnitude() <= TURNED
    return good


def row(name: str, good: np.ndarray, seconds: np.ndarray) -> str:
    """Return one line of the table: share solved, median, 99th percentile and mean in milliseconds."""
    ms = seconds * 1e3
    slow = f"{np.percentile(ms, 99):.3f}" if len(ms) > 1 else ""  # a batch has its share alone
    return f"| {name} | {good.mean():.1%} | {np.median(ms):.4f} | {slow} | {ms.mean():.4f} |"


def measure(name: str, skeleton, targets, start, *, restarts: int, passes: int) -> list[str]:
    """Solve every problem through a Session, through ps.solve and as a batch; return the lines of the table."""
    bodies, count = list(targets), len(next(iter(targets.values())))
    lines = []
    session = ps.Session(skeleton, [g.Pose(b, targets[b][0]) for b in bodies], restarts=restarts)
    session.solve(start=start)
    poses, best = np.empty((count, skeleton.size)), np.full(count, np.inf)
    for _ in range(passes):
        for k in range(count):
            for body in bodies:
                session.move(body, targets[body][k])
            begin = time.perf_counter()
            result = session.solve(start=start)
            best[k] = min(best[k], time.perf_counter() - begin)
            poses[k] = result.pose
    lines.append(row(f"{name}, Session", solved(skeleton, poses, targets), best))
    best = np.full(count, np.inf)
    for _ in range(passes):
        for k in range(count):
            goals = [g.Pose(b, targets[b][k]) for b in bodies]
            begin = time.perf_counter()
            result = ps.solve(skeleton, goals, start=start, restarts=restarts)
            best[k] = min(best[k], time.perf_counter() - begin)
            poses[k] = result.pose
    lines.append(row(f"{name}, ps.solve", solved(skeleton, poses, targets), best))
    goals = [g.Pose(b, targets[b]) for b in bodies]
    taken = []
    for _ in range(passes):
        begin = time.process_time()  # one core's own time
        poses = ps.solve(skeleton, goals, start=start, restarts=restarts, threads=1).pose
        taken.append(time.process_time() - begin)
    lines.append(row(f"{name}, batch, one core", solved(skeleton, poses, targets), np.array([min(taken) / count])))
    return lines


def panda(data: Path, passes: int) -> list[str]:
    """500 random reachable poses of the Panda from the middle of its range."""
    skeleton = ps.figures.panda()
    rng = np.random.default_rng(1)
    targets = {"hand": ps.forward(skeleton, rng.uniform(skeleton.lower, skeleton.upper, size=(500, 7))).matrix("hand")}
    return measure("Panda", skeleton, targets, (skeleton.lower + skeleton.upper) / 2, restarts=100, passes=passes)


def talos(data: Path, passes: int) -> list[str]:
    """200 random reachable six-goal poses of Talos from neutral, over all and over half of the joints' range."""
    path = data / "urdf" / "erd_talos_reduced.urdf"
    if not path.exists():
        return ["| Talos | skipped: no recordings | | | |"]
    loaded = read_skeleton(path)
    root, *rest = loaded.joints
    skeleton = loaded.replace(joints=[replace(root, motion=ps.Free("zyx")), *rest])
    skeleton = skeleton.freeze([n for n in skeleton.names if n.startswith("gripper")])
    bodies = (
        "arm_left_7_joint",
        "arm_right_7_joint",
        "leg_left_6_joint",
        "leg_right_6_joint",
        "head_2_joint",
        "torso_2_joint",
    )
    neutral = np.clip(np.zeros(skeleton.size), skeleton.lower, skeleton.upper)
    low, high = np.maximum(skeleton.lower, -0.5), np.minimum(skeleton.upper, 0.5)
    ranged = np.isfinite(skeleton.lower)
    low, high = np.where(ranged, skeleton.lower, low), np.where(ranged, skeleton.upper, high)
    lines = []
    for share, label in ((1.0, "whole range"), (0.5, "half the range")):
        rng = np.random.default_rng(1)
        poses = neutral + share * (rng.uniform(low, high, size=(200, skeleton.size)) - neutral)
        frames = ps.forward(skeleton, poses)
        targets = {body: frames.matrix(body) for body in bodies}
        lines += measure(f"Talos, {label}", skeleton, targets, neutral, restarts=100, passes=passes)
    return lines


def human(data: Path, passes: int) -> list[str]:
    """Six position goals of the human; one or all of them moved by 0.05 to 1 m between solves, to reachable places."""
    skeleton = ps.figures.human()
    bodies = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")
    rng = np.random.default_rng(5)
    low, high = np.maximum(skeleton.lower, skeleton.rest - 2.0), np.minimum(skeleton.upper, skeleton.rest + 2.0)
    low[:3], high[:3] = skeleton.rest[:3] - 0.5, skeleton.rest[:3] + 0.5
    path, pose, last = [], skeleton.rest.copy(), None
    while len(path) < 500:
        step = np.clip(pose + rng.normal(size=skeleton.size) * rng.uniform(0.02, 0.5), low, high)
        frames = ps.forward(skeleton, step)
        now = np.array([frames.position(body) for body in bodies])
        moved = np.inf if last is None else np.linalg.norm(now - last, axis=1).max()
        if last is None or 0.05 <= moved <= 1.0:
            path.append(now)
            pose, last = step, now
    best, good = np.full(len(path), np.inf), np.zeros(len(path), dtype=bool)
    for _ in range(passes):
        session = ps.Session(skeleton, [g.Position(b, p) for b, p in zip(bodies, path[0], strict=True)], restarts=20)
        session.solve()
        for k, places in enumerate(path):
            for body, place in zip(bodies, places, strict=True):
                session.move(body, place)
            begin = time.perf_counter()
            result = session.solve()
            best[k] = min(best[k], time.perf_counter() - begin)
            frames = ps.forward(skeleton, result.pose)
            held = np.all((result.pose >= skeleton.lower - 1e-9) & (result.pose <= skeleton.upper + 1e-9))
            good[k] = held and all(
                np.linalg.norm(frames.position(b) - p) <= NEAR for b, p in zip(bodies, places, strict=True)
            )
    return [row("human, six goals, moved 0.05 to 1 m", good, best)]


def evidence(page) -> None:
    """Write the page of this subject."""
    page.text(
        f"Random reachable poses within the limits, from one fixed start, with restarts. Solved means within "
        f"{NEAR * 1e3:g} mm, {TURNED:g} rad and the limits, by forward kinematics alone. Times are the best of "
        f"several passes for each problem: through a `Session`, through `solve`, and per problem of a batch on one "
        f"core. The time of a Session excludes moving its goals; the comparison with peers includes it."
    )
    rows = []
    for work in (panda, talos, human):
        for line in work(page.data or Path("."), page.pick(3, 1)):
            rows.append([cell.strip() for cell in line.strip("| ").split(" | ")])
    rows = [row + [""] * (5 - len(row)) for row in rows]
    page.table("To random poses", ["work", "solved", "median ms", "99% ms", "mean ms"], rows)
    for name, solved_share, median, slowest, _ in rows:
        page.value(name, {"solved": solved_share, "median_ms": median, "p99_ms": slowest})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POSABLE_DATA", "../shared/data")))
    parser.add_argument("--passes", type=int, default=3)
    args = parser.parse_args()
    print("| work | solved | median ms | 99% ms | mean ms |")
    print("| --- | --- | --- | --- | --- |")
    for work in (panda, talos, human):
        print("\n".join(work(args.data, args.passes)), flush=True)


if __name__ == "__main__":
    main()
