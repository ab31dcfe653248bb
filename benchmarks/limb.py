"""Tolani et al.'s (2000) tables 4 to 7 on this machine: the limb in closed form beside `newton`, `sqp` and `rate`.

    python -m benchmarks.limb                     the tables, about two minutes
    python -m benchmarks.limb --check 100000      random limbs and goals: every answer meets its goal and its limits
    python -m benchmarks.limb --ranges 1000       swivel ranges against brute force over 3,600 angles
    python -m benchmarks.limb --eaik PYTHON       beside EAIK (pip install EAIK) in the Python given, per solution
    python -m benchmarks.limb --drift drift.png   Tolani et al.'s (2000) figures 12 and 13: a circle traced three times

Times are of one thread's own clock, so that other work on the machine does not count. A failure is a goal that a pose
inside the limits meets and the answer does not, by more than 1e-4 m or 1e-3 rad; out of reach, an answer that claims to
be there. The limb's joint limits and the poses drawn from them are our own, since the paper prints none, so its tables
are of other problems. The compared solvers start at rest, with no restarts; their mean errors are of the goals met.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from posable.engine.jit import entry
from posable.limb.kernels import branches_of

g = ps.goals
RIVALS = ("newton", "sqp", "rate")


def timed(call: Callable[[], Any], count: int, repeat: int = 3) -> tuple[float, Any]:
    """Return (best seconds a goal, answer); one call before it compiles."""
    best, answer = np.inf, None
    for _ in range(repeat):
        begin = time.thread_time()
        answer = call()
        best = min(best, time.thread_time() - begin)
    return best / count, answer


def rival(skeleton, goals, solver, limits, count, reachable=True):
    """Return seconds a goal, failures and mean errors of another solver; of the goals met, where they can be."""
    ps.solve(skeleton, goals, solver=solver, limits=limits, threads=1)
    seconds, result = timed(lambda: ps.solve(skeleton, goals, solver=solver, limits=limits, threads=1), count, 1)
    kept = result.ok if reachable else np.ones(count, dtype=bool)
    errors = [float(np.mean(value[kept])) if kept.any() else np.nan for value in result.errors.values()]
    return seconds, 1.0 - float(np.mean(result.ok)), errors


def row(name, goals, seconds, ours, failures, errors):
    """Print a line; errors are of the place [m] and of the turn [rad], one of them None where it is no part of it."""
    shown = " | ".join("" if error is None else f"{error:.1e}" for error in errors)
    print(
        f"| {name} | {goals} | {figures(1e6 * seconds)} | {figures(seconds / ours)} | {100 * failures:.2f}% | {shown} |"
    )


def figures(number):
    """Return a number with three figures, and no more than that of large ones."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def head(title):
    columns = ("", "goals", "us a goal", "relative", "failures", "mean position error [m]", "mean rotation error [rad]")
    print(f"\n## {title}\n\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")


def tables(count, few):
    from posable.limb import base as batch

    batch.PARALLEL_FROM = 1 << 60  # one thread
    skeleton = ps.figures.limb()
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    rng = np.random.default_rng(0)
    poses = rng.uniform(skeleton.lower, skeleton.upper, (count, 7))
    frames = ps.forward(skeleton, poses)
    matrices, places = frames.matrix("hand"), frames.position("hand")
    held = poses.copy()
    held[:, 4:] = skeleton.rest[4:]
    within = ps.forward(skeleton, held).position("hand")  # reached with the wrist at rest, as in the paper
    for title, targets, goal in (
        ("Table 4: position only", within, lambda t: g.Position("hand", t)),
        ("Table 5: position and orientation", matrices, lambda t: g.Pose("hand", t)),
    ):
        for limits in (False, True):
            head(f"{title}, limits {'on' if limits else 'off'}")
            limb.solve(targets[:8], limits=limits)
            ours, answer = timed(lambda t=targets, on=limits: limb.solve(t, limits=on), count)
            errors = [np.mean(answer.position_error), np.mean(answer.rotation_error)]
            row(
                "limb",
                count,
                ours,
                ours,
                1.0 - np.mean(answer.ok),
                errors if targets is matrices else [errors[0], None],
            )
            for solver in RIVALS:
                number = few if solver == "newton" else max(few // 10, 10)
                seconds, missed, errors = rival(skeleton, goal(targets[:number]), solver, limits, number)
                row(solver, number, seconds, ours, missed, errors if len(errors) == 2 else [*errors, None])
    limb.solve(places[:100])
    seconds, answer = timed(lambda: limb.solve(places), count)
    missed = 100 * np.mean(~answer.ok)
    print(f"\nAny place, the wrist moving where it must: {1e6 * seconds:.2f} us, {missed:.2f}% failures")
    wrong = matrices[:1000].copy()
    wrong[:, :3, :3] = Rotation.random(len(wrong), rng=np.random.default_rng(1)).as_matrix()
    limb.solve(wrong[:10])
    seconds, answer = timed(lambda: limb.solve(wrong), len(wrong))
    missed = 100 * np.mean(~answer.ok)
    print(f"Any orientation, reachable or not: {1e6 * seconds:.1f} us, {missed:.0f}% out of reach")
    partial_and_aim(skeleton, limb, poses, matrices, few)
    unreachable(skeleton, limb, wrong, few)


def partial_and_aim(skeleton, limb, poses, matrices, few):
    """Tables 6 and 7: one axis along a direction; an axis aimed at a point, the wrist held at rest."""
    count = len(poses)
    axes, places = matrices[:, :3, 0], matrices[:, :3, 3]
    held = poses.copy()
    held[:, 4:] = skeleton.rest[4:]
    hands = ps.forward(skeleton, held).matrix("hand")
    points = hands[:, :3, 3] + np.random.default_rng(2).uniform(0.2, 2.0, (count, 1)) * hands[:, :3, 0]
    still = skeleton.freeze("wrist")
    for limits in (False, True):
        word = "on" if limits else "off"
        head(f"Table 6: partial orientation, limits {word}")
        limb.solve_partial(places[:8], "x", axes[:8], limits=limits)
        ours, answer = timed(lambda on=limits: limb.solve_partial(places, "x", axes, limits=on), count)
        errors = [np.mean(answer.position_error), np.mean(answer.rotation_error)]
        row("limb", count, ours, ours, 1.0 - np.mean(answer.ok), errors)
        for solver in ("newton", "sqp"):
            number = min(few, count) if solver == "newton" else max(few // 10, 10)
            goals = [g.Position("hand", places[:number]), g.Direction("hand", axis="x", along=axes[:number])]
            seconds, missed, errors = rival(skeleton, goals, solver, limits, number)
            row(solver, number, seconds, ours, missed, errors)
        head(f"Table 7: aiming, limits {word}")
        limb.aim(points[:8], "x", limits=limits)
        ours, answer = timed(lambda on=limits: limb.aim(points, "x", limits=on), count)
        row("limb", count, ours, ours, 1.0 - np.mean(answer.ok), [None, np.mean(answer.rotation_error)])
        for solver in ("newton", "sqp"):
            number = min(few, count) if solver == "newton" else max(few // 10, 10)
            seconds, missed, errors = rival(still, g.Aim("hand", axis="x", at=points[:number]), solver, limits, number)
            row(solver, number, seconds, ours, missed, [None, *errors])


def unreachable(skeleton, limb, frames, few):
    """The tables' last rows: goals that the limb says are out of reach; a failure is an answer that claims them."""
    along = Rotation.random(len(frames), rng=np.random.default_rng(3)).as_matrix()[:, 0]
    points = 0.3 * np.random.default_rng(4).normal(size=(len(frames), 3)) - np.array([0.3, 0.0, 0.0])
    still = skeleton.freeze("wrist")
    for title, ours, goals, figure, rivals in (
        ("Table 5: position and orientation", lambda k: limb.solve(frames[k]),
         lambda k: g.Pose("hand", frames[k]), skeleton, RIVALS),
        ("Table 6: partial orientation", lambda k: limb.solve_partial(frames[k, :3, 3], "x", along[k]),
         lambda k: [g.Position("hand", frames[k, :3, 3]), g.Direction("hand", axis="x", along=along[k])], skeleton,
         RIVALS[:2]),
        ("Table 7: aiming", lambda k: limb.aim(points[k], "x"),
         lambda k: g.Aim("hand", axis="x", at=points[k]), still, RIVALS[:2]),
    ):  # fmt: skip
        answer = ours(np.arange(len(frames)))  # by more than the others' tolerances
        missed = np.flatnonzero((answer.position_error > 1e-3) | (answer.rotation_error > 1e-2))[:few]
        head(f"{title}, goal unreachable")
        seconds, answer = timed(lambda call=ours, k=missed: call(k), len(missed))
        place = None if figure is still else np.mean(answer.position_error)
        row("limb", len(missed), seconds, seconds, np.mean(answer.ok), [place, np.mean(answer.rotation_error)])
        for solver in rivals:
            some = missed if solver == "newton" else missed[: 20 if solver == "rate" else max(few // 10, 10)]
            taken, untrue, errors = rival(figure, goals(some), solver, True, len(some), reachable=False)
            row(solver, len(some), taken, seconds, 1.0 - untrue, errors if len(errors) == 2 else [None, *errors])


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
    from posable.limb import base as batch

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


@entry
def branches_batch(limb, shape, root, reference, targets, held, task, swivel, w, out, reports):
    """Write every solution (t, 8, 7) of targets (t, 12) at one swivel angle, with reports (t, 8, REPORT)."""
    for t in range(targets.shape[0]):
        branches_of(limb, shape, root, reference, targets[t], held, task, w, swivel, out[t], reports[t])


def all_branches(limb, targets):
    """Return seconds a goal for every branch, compiled code by itself."""
    from posable.limb.base import read_target, scratch_memory
    from posable.limb.kernels import REPORT

    task, flat, _ = read_target(targets)
    _, roots, helds = limb.base_frames(None)
    out, reports = np.empty((len(flat), 8, 7)), np.empty((len(flat), 8, REPORT))
    arguments = (*limb.chain, roots[0], limb.directions, flat, helds[0], task, 0.3, scratch_memory(), out, reports)
    branches_batch(*arguments)
    return timed(lambda: branches_batch(*arguments), len(flat))[0]


def drift(path):
    """Draw figures 12 and 13 of Tolani et al. (2000): a circle traced three times, by both methods."""
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--few", type=int, default=1000, help="goals for the slower solvers")
    parser.add_argument("--check", type=int)
    parser.add_argument("--ranges", type=int)
    parser.add_argument("--eaik", metavar="PYTHON")
    parser.add_argument("--drift", metavar="FILE")
    args = parser.parse_args()
    good = True
    if args.check or args.ranges:
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        import limb_checks

        good &= not args.check or limb_checks.check(args.check)
        good &= not args.ranges or limb_checks.check_ranges(args.ranges)
    if args.eaik:
        beside_eaik(args.eaik)
    if args.drift:
        drift(args.drift)
    if not (args.check or args.ranges or args.eaik or args.drift):
        tables(args.count, args.few)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
