"""Seed 003's tables 4 to 7 on this machine: the limb in closed form beside `newton`, `sqp` and `rate`.

    python benchmarks/limb.py                     the tables, about two minutes
    python benchmarks/limb.py --check 100000      random limbs and goals: every answer meets its goal and its limits
    python benchmarks/limb.py --ranges 1000       swivel ranges against brute force over 3,600 angles
    python benchmarks/limb.py --eaik PYTHON       beside EAIK (pip install EAIK) in the Python given, per solution
    python benchmarks/limb.py --drift drift.png   seed 003's figures 12 and 13: a circle traced three times

Times are of one thread's own clock, so that other work on the machine does not count. A failure is a goal that a pose
inside the limits meets and the answer does not, by more than 1e-4 m or 1e-3 rad. The compared solvers start at rest,
with no restarts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from posable.kernels.joints import EULER_ORDERS

g = ps.goals
RIVALS = ("newton", "sqp", "rate")


def timed(call, count, repeat=3):
    """Return (best seconds a goal, answer); one call before it compiles."""
    best = np.inf
    for _ in range(repeat):
        begin = time.thread_time()
        answer = call()
        best = min(best, time.thread_time() - begin)
    return best / count, answer


def rival(skeleton, goals_of, targets, solver, limits, count):
    """Return seconds a goal, failures and mean errors of another solver on the first `count` targets."""
    ps.solve(skeleton, goals_of(targets[:2]), solver=solver, limits=limits, threads=1)
    seconds, result = timed(
        lambda: ps.solve(skeleton, goals_of(targets[:count]), solver=solver, limits=limits, threads=1), count, 1
    )
    errors = [float(np.mean(value[result.ok])) if result.ok.any() else np.nan for value in result.errors.values()]
    return seconds, 1.0 - float(np.mean(result.ok)), errors


def row(name, seconds, ours, failures, errors):
    shown = " ".join(f"{error:.1e}" for error in errors)
    print(f"| {name} | {1e6 * seconds:.2f} us | {seconds / ours:.0f} | {100 * failures:.2f}% | {shown} |")


def head(title):
    print(f"\n## {title}\n\n| | time a goal | relative | failures | mean errors [m, rad] |")
    print("| --- | --- | --- | --- | --- |")


def tables(count, few):
    from posable.limb import batch

    batch.PARALLEL_FROM = 1 << 60  # one thread
    skeleton = ps.figures.limb()
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    rng = np.random.default_rng(0)
    poses = rng.uniform(skeleton.lower, skeleton.upper, (count, 7))
    frames = ps.forward(skeleton, poses)
    matrices, places = frames.matrix("hand"), frames.position("hand")
    held = poses.copy()
    held[:, 4:] = skeleton.rest[4:]
    within = ps.forward(skeleton, held).position("hand")  # reached with the wrist at rest, as in the seed
    for title, targets, goal in (
        ("Table 4: position only", within, lambda t: g.Position("hand", t)),
        ("Table 5: position and orientation", matrices, lambda t: g.Pose("hand", t)),
    ):
        for limits in (False, True):
            head(f"{title}, limits {'on' if limits else 'off'}")
            limb.solve(targets[:8], limits=limits)
            ours, answer = timed(lambda t=targets, on=limits: limb.solve(t, limits=on), count)
            errors = [np.mean(answer.position_error), np.mean(answer.rotation_error)]
            row("limb", ours, ours, 1.0 - np.mean(answer.ok), errors)
            for solver in RIVALS:
                number = few if solver == "newton" else max(few // 10, 10)
                row(solver, *_place(rival(skeleton, goal, targets, solver, limits, number), ours))
    limb.solve(places[:100])
    seconds, answer = timed(lambda: limb.solve(places), count)
    missed = 100 * np.mean(~answer.ok)
    print(f"\nAny place, the wrist moving where it must: {1e6 * seconds:.2f} us, {missed:.2f}% failures")
    wrong = matrices[:1000].copy()
    wrong[:, :3, :3] = Rotation.random(1000, random_state=1).as_matrix()
    limb.solve(wrong[:10])
    seconds, answer = timed(lambda: limb.solve(wrong), 1000)
    missed = 100 * np.mean(~answer.ok)
    print(f"Any orientation, reachable or not: {1e6 * seconds:.1f} us, {missed:.0f}% out of reach")
    partial_and_aim(skeleton, limb, poses, matrices, few)


def _place(answer, ours):
    seconds, failures, errors = answer
    return seconds, ours, failures, errors


def partial_and_aim(skeleton, limb, poses, matrices, few):
    count = min(few, 200)
    axes = matrices[:count, :3, 0]
    places = matrices[:count, :3, 3]
    points = places + np.random.default_rng(2).uniform(0.2, 2.0, (count, 1)) * axes
    for limits in (False, True):
        word = "on" if limits else "off"
        head(f"Table 6: partial orientation, limits {word}")
        limb.solve_partial(places[0], "x", axes[0], limits=limits)
        ours, answers = timed(
            lambda on=limits: [limb.solve_partial(p, "x", a, limits=on) for p, a in zip(places, axes, strict=True)],
            count,
            1,
        )
        _report_tasks("limb", ours, answers)
        for solver in ("newton", "sqp"):
            number = count if solver == "newton" else 20
            goals = [g.Position("hand", places[:number]), g.Direction("hand", axis="x", along=axes[:number])]
            ps.solve(skeleton, goals, solver=solver, limits=limits, threads=1)
            seconds, result = timed(
                lambda s=solver, on=limits, w=goals: ps.solve(skeleton, w, solver=s, limits=on, threads=1), number, 1
            )
            row(solver, seconds, ours, 1.0 - np.mean(result.ok), [float(np.mean(e)) for e in result.errors.values()])
        head(f"Table 7: aiming, limits {word}")
        wrist = [np.concatenate([skeleton.rest[:4], pose[4:]]) for pose in poses[:count]]
        limb.aim(points[0], "x", limits=limits, base=wrist[0])
        ours, answers = timed(
            lambda on=limits, held=wrist: [
                limb.aim(p, "x", limits=on, base=b) for p, b in zip(points, held, strict=True)
            ],
            count,
            1,
        )
        _report_tasks("limb", ours, answers)
        still = skeleton.freeze("wrist")
        for solver in ("newton", "sqp"):
            number = 20
            results = []
            begin = time.thread_time()
            for p, b in zip(points[:number], wrist, strict=False):
                results.append(ps.solve(still, g.Aim("hand", axis="x", at=p), start=b, solver=solver, limits=limits))
            seconds = (time.thread_time() - begin) / number
            errors = [float(np.mean([next(iter(r.errors.values())) for r in results]))]
            row(solver, seconds, ours, 1.0 - np.mean([r.ok for r in results]), errors)


def _report_tasks(name, seconds, answers):
    errors = [np.mean([a.position_error for a in answers]), np.mean([a.rotation_error for a in answers])]
    row(name, seconds, seconds, 1.0 - np.mean([a.ok for a in answers]), errors)


def random_limb(rng):
    """Return a limb with generic offsets, rest rotations, hinge axis, ball joints and limits, on a moving root."""
    kinds = (*EULER_ORDERS, "rotvec", "swing-twist")

    def ball():
        return ps.Ball(kinds[rng.integers(len(kinds))], axis=tuple(rng.normal(size=3)))

    def box(count):
        low = rng.uniform(-2.8, 0.3, count)
        return np.stack([low, low + rng.uniform(0.5, 3.5, count)], axis=1)

    def place():
        return {"offset": 0.3 * rng.normal(size=3), "rotation": Rotation.random(random_state=rng)}

    joints = [
        ps.Joint("root", ps.Free("zyx"), **place()),
        ps.Joint("shoulder", ball(), "root", limits=box(3), **place()),
        ps.Joint("elbow", ps.Revolute(tuple(rng.normal(size=3))), "shoulder", limits=box(1), **place()),
        ps.Joint("wrist", ball(), "elbow", limits=box(3), **place()),
    ]
    return ps.Skeleton(joints, [ps.Site("hand", "wrist", **place())])


def check(count, each=100):
    """Solve random goals of random limbs and count what is missed, by forward kinematics apart from the limb."""
    rng = np.random.default_rng(7)
    missed = outside = 0
    worst = 0.0
    for _ in range(max(1, count // each)):
        skeleton = random_limb(rng)
        limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
        low = np.where(np.isfinite(skeleton.lower), skeleton.lower, -2.0)
        poses = rng.uniform(low, np.where(np.isfinite(skeleton.upper), skeleton.upper, 2.0), (each, skeleton.size))
        poses[:, :6] = poses[0, :6]
        targets = ps.forward(skeleton, poses).matrix("hand")
        answer = limb.solve(targets, base=poses[0])
        gap = np.abs(ps.forward(skeleton, answer.pose).matrix("hand") - targets).max(axis=(1, 2))
        missed += int(np.sum(~answer.ok | (gap > 1e-9)))
        outside += int(np.sum(np.any((answer.pose < skeleton.lower) | (answer.pose > skeleton.upper), axis=1)))
        worst = max(worst, float(gap[answer.ok].max(initial=0.0)))
    print(f"{count} random goals, {count // each} limbs: {missed} missed, {outside} outside, worst {worst:.1e}")
    return missed + outside == 0


def check_ranges(count, angles=3600):
    """Compare swivel ranges with brute force."""
    rng = np.random.default_rng(8)
    grid = np.linspace(-np.pi, np.pi, angles, endpoint=False) + 1e-4
    wrong = 0
    for _ in range(count):
        skeleton = random_limb(rng)
        limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
        low = np.where(np.isfinite(skeleton.lower), skeleton.lower, -2.0)
        pose = rng.uniform(low, np.where(np.isfinite(skeleton.upper), skeleton.upper, 2.0))
        target = ps.forward(skeleton, pose).matrix("hand")
        ranges = limb.swivel_ranges(target, base=pose)
        inside = np.zeros(angles, dtype=bool)
        for lo, hi in ranges:
            inside |= (grid - lo) % (2 * np.pi) <= hi - lo
        brute = np.array([any(s.ok for s in limb.solutions(target, a, base=pose)) for a in grid])
        ends = np.array([end for r in ranges for end in r])
        off = grid[inside != brute]
        wrong += any(not len(ends) or np.abs(np.sin(0.5 * (a - ends))).min() > 1e-9 for a in off)
    print(f"swivel ranges of {count} problems against {angles} angles each: {wrong} disagree")
    return wrong == 0


EAIK = """
import json, sys, time
import numpy as np
from eaik.IK_HP import HPRobot
data = json.load(sys.stdin)
H, P, T = np.array(data["H"], float), np.array(data["P"], float), np.array(data["T"])
robot = HPRobot(H, P, fixed_axes=[(2, 0.3)])
robot.IK(T[0])
begin = time.process_time()
found = [robot.IK(t) for t in T]
seconds = time.process_time() - begin
count = sum(len(f.Q) for f in found)
best = time.process_time()
robot.IK_batched(T, num_worker_threads=1)
batched = time.process_time() - best
print(json.dumps({"seconds": seconds, "batched": batched, "solutions": count, "goals": len(T)}))
"""


def beside_eaik(python, count=20000):
    """Time EAIK, with the third joint locked as its 7-axis arms need, and ours, per solution, on one 7-axis arm."""
    from posable.limb import batch

    batch.PARALLEL_FROM = 1 << 60
    skeleton = ps.Skeleton(
        [
            ps.Joint("shoulder", ps.Ball("zyz")),
            ps.Joint("elbow", ps.Revolute("y"), "shoulder", offset=(0, 0, 0.42)),
            ps.Joint("wrist", ps.Ball("zyz"), "elbow", offset=(0, 0, 0.4)),
        ],
        [ps.Site("hand", "wrist", offset=(0, 0, 0.126))],
    )
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    poses = np.random.default_rng(3).uniform(-2.0, 2.0, (count, 7))
    poses[:, 2] = 0.3
    targets = ps.forward(skeleton, poses).matrix("hand")
    z, y = [0, 0, 1], [0, 1, 0]
    places = [[0, 0, 0]] * 3 + [[0, 0, 0.42], [0, 0, 0.4]] + [[0, 0, 0]] * 2 + [[0, 0, 0.126]]
    data = {"H": [z, y, z, y, z, y, z], "P": places, "T": targets[:2000].tolist()}
    done = subprocess.run([python, "-c", EAIK], input=json.dumps(data), text=True, capture_output=True, check=False)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1] if done.stderr else "EAIK failed")
    else:
        theirs = json.loads(done.stdout)
        each = theirs["batched"] / theirs["solutions"]
        print(f"EAIK: {1e6 * theirs['batched'] / theirs['goals']:.2f} us a goal, {1e6 * each:.3f} us a solution")
        print(theirs)
    limb.solve(targets[:8], limits=False)
    seconds, answer = timed(lambda: limb.solve(targets, limits=False), count)
    print(f"limb: {1e6 * seconds:.2f} us a goal, one solution each; ok {np.mean(answer.ok):.4f}")
    seconds = all_branches(limb, targets[:2000])
    print(f"limb, all eight solutions of a goal: {1e6 * seconds:.2f} us a goal, {1e6 * seconds / 8:.3f} us a solution")


def all_branches(limb, targets):
    """Return seconds a goal for every branch, the compiled entry by itself."""
    from posable.limb.answer import REPORT
    from posable.limb.batch import scratch_memory
    from posable.limb.entries import branches_batch
    from posable.limb.targets import read_target

    task, flat, _ = read_target(targets)
    _, roots, helds = limb.placed(None)
    out, reports = np.empty((len(flat), 8, 7)), np.empty((len(flat), 8, REPORT))
    arguments = (*limb.anatomy, roots[0], limb.directions, flat, helds[0], task, 0.3, scratch_memory(), out, reports)
    branches_batch(*arguments)
    return timed(lambda: branches_batch(*arguments), len(flat))[0]


def drift(path):
    """Draw seed 003's figures 12 and 13: a circle of the hand traced three times, by pseudo-inverse and by the limb."""
    from matplotlib.figure import Figure

    skeleton = ps.figures.limb()
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    angle = np.linspace(0, 6 * np.pi, 181)
    circle = np.stack([0.4 + 0 * angle, 0.12 * np.cos(angle), 0.12 * np.sin(angle) - 0.05], axis=1)
    closed = limb.solve(circle).pose
    pose = closed[0]
    walked = [pose]
    for place in circle[1:]:
        pose = ps.solve(skeleton, g.Position("hand", place), start=pose, solver="pseudoinverse").pose
        walked.append(pose)
    figure = Figure(figsize=(10, 4), layout="constrained")
    for k, (name, poses) in enumerate((("pseudo-inverse", np.array(walked)), ("closed form", closed))):
        axes = figure.add_subplot(1, 2, k + 1)
        axes.plot(angle / (2 * np.pi), poses)
        gap = np.abs(poses[-1] - poses[0]).max()
        axes.set(
            title=f"{name}: ends {gap:.1e} rad from its start", xlabel="turns of the hand", ylabel="joint angles [rad]"
        )
        print(f"{name}: after three turns {gap:.2e} rad from the start")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--few", type=int, default=1000, help="goals for the slower solvers")
    parser.add_argument("--check", type=int)
    parser.add_argument("--ranges", type=int)
    parser.add_argument("--eaik", metavar="PYTHON")
    parser.add_argument("--drift", metavar="FILE")
    args = parser.parse_args()
    good = True
    if args.check:
        good &= check(args.check)
    if args.ranges:
        good &= check_ranges(args.ranges)
    if args.eaik:
        beside_eaik(args.eaik)
    if args.drift:
        drift(args.drift)
    if not (args.check or args.ranges or args.eaik or args.drift):
        tables(args.count, args.few)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
