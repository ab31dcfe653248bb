"""Hostile problems over all solvers: nothing but documented errors, no NaN, no limit broken, no false success.

    python -m benchmarks.hostile [--problems 100000] [--seed 0] [--solver NAME ...]

Figures with infinite limits, equal limits, frozen joints and no degree of freedom at all; goals with zero weights, none
at all, targets at 1e12; starts outside the limits and starts that are not numbers. Prints what became of each.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from posable._solve import solve
from posable.errors import PosableError, SolverError
from posable.goals import Orientation, Position
from posable.model.joints import Ball, Fixed, Free, Joint, Prismatic, Revolute, Site
from posable.model.skeleton import Skeleton
from posable.solvers import names

MOST = 40  # iterations of each solve
SIZE = 16  # problems in a batch: not worth a second thread
DRIVEN = ("rate", "sqp")  # from Python: a smaller share of the problems
REFUSALS = ("expected Position goals", "sliders at the root only", "expected finite numbers", "frozen joint")


def chain(motions, limits=None, name="", frozen=()):
    """Return a chain of joints with a site at its end."""
    joints = []
    for k, motion in enumerate(motions):
        joints.append(
            Joint(
                f"j{k}", motion, f"j{k - 1}" if k else None, offset=(0.3, 0.05 * k, 0.0),
                limits=None if limits is None else limits[k], frozen=k in frozen,
            )
        )  # fmt: skip
    return Skeleton(joints, [Site("end", joints[-1].name, (0.2, 0.0, 0.1))], name)


def figures():
    """Return the hostile figures."""
    turn, infinite = Revolute("z"), (-math.inf, math.inf)
    return [
        chain([turn] * 3, [infinite] * 3, "no-limits"),
        chain([turn, Revolute("y"), Revolute("x")], [(-1.0, 1.0), (0.3, 0.3), (0.0, 0.5)], "equal-limits"),
        chain([turn, Revolute("y"), turn], [(-math.inf, 0.5), (-0.5, math.inf), infinite], "half-limits"),
        chain([turn, Revolute("y"), turn], [(-1.0, 1.0)] * 3, "frozen", frozen=(0, 1, 2)),
        chain([turn, Revolute("y"), turn], [(-1.0, 1.0)] * 3, "part-frozen", frozen=(1,)),
        chain([Fixed(), Fixed()], None, "no-dofs"),
        chain([Revolute("y")] * 2, [(0.2, 0.2)] * 2, "all-equal"),
        chain([Ball("rotvec"), Ball("swing-twist"), Revolute("y")], None, "vectors"),
        chain([Free("rotvec"), Ball("zyx"), turn], None, "free-root"),
        chain([Prismatic("x"), turn, Prismatic("y")], [(-0.1, 0.1), infinite, (0.0, 0.2)], "sliders"),
        chain([Ball("zyx"), Revolute("y"), Ball("xzy")], None, "ball"),
        ps.figures.limb(),
    ]


def goals_for(skeleton, rng, positions_only):
    """Return goals of one of the hostile kinds, with SIZE targets each, and the kind's name."""
    body = skeleton.site_names[0]
    kind = rng.choice(["plain", "far", "none", "weightless", "twice", "turn", "mixed", "zero", "tight"])
    target = 0.6 * rng.normal(size=(SIZE, 3))
    if kind == "none":
        return [], kind
    if kind == "far":
        return [Position(body, 1e12 * target)], kind
    if kind == "weightless":
        return [Position(body, target, weight=0.0)], kind
    if kind == "twice":  # at odds with one another
        return [Position(body, target), Position(body, target + 0.5, label="other")], kind
    if kind == "turn" and not positions_only:
        return [Orientation(body, Rotation.random(SIZE, rng=rng))], kind
    if kind == "mixed" and not positions_only:
        rotation = Rotation.random(SIZE, rng=rng)
        return [Position(body, target, weight=1e6), Orientation(body, rotation, weight=1e-6)], kind
    if kind == "zero":
        return [Position(body, np.zeros((SIZE, 3)))], kind
    return [Position(body, target, tolerance=0.0 if kind == "tight" else 1e-4)], kind


def start_for(skeleton, rng):
    """Return a start (n,) of one of the hostile kinds, and its name."""
    n = skeleton.size
    kind = rng.choice(["rest", "random", "outside", "huge", "nan", "infinite"], p=[0.2, 0.3, 0.2, 0.2, 0.05, 0.05])
    if kind == "rest" or n == 0:
        return None, "rest"
    if kind == "random":
        return rng.normal(size=n), kind
    if kind == "outside":
        return 10.0 * rng.normal(size=n), kind
    if kind == "huge":
        return 1e9 * rng.normal(size=n), kind
    start = rng.normal(size=n)
    start[rng.integers(n)] = math.nan if kind == "nan" else math.inf
    return start, kind


def faults(skeleton, goals, result, limits):
    """Return what is wrong with a result, as words."""
    poses = np.atleast_2d(result.pose)
    out = []
    if not np.isfinite(poses).all():
        return ["not a number"]
    if limits and not ((poses >= skeleton.lower - 1e-9) & (poses <= skeleton.upper + 1e-9)).all():
        out.append("limit broken")
    if (np.atleast_1d(result.iterations) > MOST).any():
        out.append("too many iterations")
    frames = ps.forward(skeleton, poses)
    good = np.ones(len(poses), dtype=bool)
    for goal in goals:
        if isinstance(goal, Position):
            if goal.weight.any():
                gap = np.linalg.norm(frames.position(goal.body) - goal.target, axis=-1)
                slack = 1e-12 * (1.0 + np.abs(goal.target).max() + np.abs(poses).max(initial=0.0))
                good &= gap <= goal.tolerance + slack
        else:
            turn = np.swapaxes(frames.rotation_matrix(goal.body), -1, -2) @ goal.target
            good &= Rotation.from_matrix(turn).magnitude() <= goal.tolerance * (1.0 + 1e-6)
    if (np.atleast_1d(result.ok) & ~good).any():
        out.append("false success")
    return out


def trouble(solver, skeletons, rng):
    """Solve one batch of hostile problems; return (counted as, what happened)."""
    skeleton = skeletons[rng.integers(len(skeletons))]
    goals, goal_kind = goals_for(skeleton, rng, solver == "fabrik")
    start, start_kind = start_for(skeleton, rng)
    limits = bool(rng.random() < 0.8)
    where = f"{solver} {skeleton.name} goals={goal_kind} start={start_kind} limits={limits}"
    try:
        result = solve(skeleton, goals, solver=solver, start=start, limits=limits, max_iterations=MOST, threads=1)
    except SolverError as error:
        documented = any(text in str(error) for text in REFUSALS)
        return ("refused" if documented else "fault"), f"{where}: {error}"
    except PosableError as error:
        return "fault", f"{where}: {type(error).__name__}: {error}"
    except Exception as error:
        return "fault", f"{where}: {type(error).__name__}: {error}"
    if start_kind in ("nan", "infinite"):
        return "fault", f"{where}: a start that is no number was taken"
    wrong = faults(skeleton, goals, result, limits)
    if wrong:
        return "fault", f"{where}: {', '.join(wrong)}"
    return "solved", f"{int(np.sum(result.ok))} of {np.size(result.ok)}"


def run(problems, seed=0, solvers=None):
    """Return counts per solver and every fault found, over about this many problems."""
    skeletons = figures()
    chosen = list(solvers or [name for name in names() if name != "limb"])
    share = {name: 0.1 if name in DRIVEN else 1.0 for name in chosen}
    total = sum(share.values())
    counts, found = {}, []
    for name in chosen:
        rng = np.random.default_rng((seed, sum(map(ord, name))))
        count: Counter[str] = Counter()
        begin = time.perf_counter()
        while count["problems"] < problems * share[name] / total:
            verdict, text = trouble(name, skeletons, rng)
            count["problems"] += SIZE
            count[verdict] += SIZE
            if verdict == "fault":
                found.append(text)
        counts[name] = {**count, "seconds": round(time.perf_counter() - begin, 1)}
        print(json.dumps({name: counts[name]}), flush=True)
    return counts, found


def evidence(page):
    """Write the page of this subject; a fault is an error here, not a number."""
    page.text(
        "Figures with infinite, equal or no limits, frozen joints, no degree of freedom; goals with zero weights, at "
        "odds, at 1e12 m, or none; starts outside the limits or not numbers. A *fault* is an undocumented exception, "
        "a NaN, a broken limit, too many iterations, or a success that forward kinematics does not confirm."
    )
    (counts, found), _ = page.captured(run, page.pick(100_000, 3_000))
    rows = [
        [name, c["problems"], c.get("solved", 0), c.get("refused", 0), c.get("fault", 0)] for name, c in counts.items()
    ]
    total = sum(row[1] for row in rows)
    page.table(
        "Hostile problems",
        ["solver", "problems", "answered", "refused", "faults"],
        rows,
        note="*Answered*: with a pose inside the limits, and the truth on whether it meets the goals, which many of "
        "these cannot. *Refused*: with a `SolverError` that says why, a start that is not a number above all; `fabrik` "
        f"takes chains and places alone. At most {MOST} iterations each, in batches of {SIZE}; `rate` and `sqp`, "
        "driven from Python, get a tenth of the problems.",
    )
    page.value("problems", total)
    page.value("faults", len(found))
    page.text(f"{total} problems, {len(found)} faults." + "".join(f"\n\n- {text}" for text in found[:10]))


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solver", nargs="*")
    options = parser.parse_args()
    counts, found = run(options.problems, options.seed, options.solver)
    print(f"{sum(c['problems'] for c in counts.values())} problems, {len(found)} faults")
    for text, times in Counter(found).most_common(40):
        print(f"{times} x {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
