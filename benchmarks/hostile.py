"""Hostile problems over all solvers: nothing but documented errors, no NaN, no limit broken, no false success.

    python -m benchmarks.hostile [--problems 100000] [--seed 0] [--solver NAME ...]

Figures with infinite limits, equal limits, frozen joints and no degree of freedom at all; goals of every kind, with
zero weights, none at all, at odds, targets at 1e12; starts outside the limits and starts that are not numbers. Every
success is judged by formulas of its own, on frames from forward kinematics. Prints what became of each.
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
from posable import goals as g
from posable._solve import solve
from posable.errors import GoalError, SolverError
from posable.model.joints import Ball, Fixed, Free, Joint, Prismatic, Revolute, Site
from posable.model.shapes import sphere
from posable.model.skeleton import Skeleton
from posable.solvers import names

MOST = 40  # iterations of each solve
SIZE = 16  # problems in a batch: not worth a second thread
DRIVEN = ("rate", "sqp")  # from Python: a smaller share of the problems
REFUSALS = (
    "expected Position goals", "sliders at the root only", "expected finite numbers", "frozen joint",
    "expected two bodies that move relative to each other", "expected a figure whose joints have mass",
    "expected a solver of energies",
)  # fmt: skip


def chain(motions, limits=None, name="", frozen=()):
    """Return a chain of joints with a site at its end."""
    joints = []
    for k, motion in enumerate(motions):
        joints.append(
            Joint(
                f"j{k}", motion, f"j{k - 1}" if k else None, offset=(0.3, 0.05 * k, 0.0),
                limits=None if limits is None else limits[k], frozen=k in frozen, mass=1.0 + k,
            )
        )  # fmt: skip
    shapes = [sphere(joint.name, 0.04) for joint in joints]
    return Skeleton(joints, [Site("end", joints[-1].name, (0.2, 0.0, 0.1))], name, shapes=shapes)


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


# --- Goals of every kind, each with its error from the frames alone: functions of (frames, poses) ---


def gap(body, target):
    """Return the distances [m] of a body from places."""
    return lambda frames, poses: np.linalg.norm(frames.position(body) - target, axis=-1)


def angle(a, b):
    """Return the angles [rad] between directions (..., 3)."""
    return 2.0 * np.arcsin(np.clip(0.5 * np.linalg.norm(unit(a) - unit(b), axis=-1), 0.0, 1.0))


def unit(v):
    """Return vectors at length one."""
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def turned(body, rotation):
    """Return the angles [rad] of a body from rotations."""
    return lambda frames, poses: (rotation.inv() * Rotation.from_matrix(frames.rotation_matrix(body))).magnitude()


def dot(a, b):
    """Return the products of vectors (..., 3)."""
    return (a * b).sum(axis=-1)


def in_frame(frames, body, place):
    """Return places (..., 3) in the axes of a body."""
    turn = np.swapaxes(frames.rotation_matrix(body), -1, -2)
    return (turn @ (place - frames.position(body))[..., None])[..., 0]


def on_a_body(kind, body, target, rng):
    """Return (goal, error) pairs of one of the kinds on one body."""
    rotation, normal = Rotation.random(SIZE, rng=rng), unit(rng.normal(size=(SIZE, 3)))
    if kind == "pose":
        matrices = np.tile(np.eye(4), (SIZE, 1, 1))
        matrices[:, :3, :3], matrices[:, :3, 3] = rotation.as_matrix(), target
        pose, place, turn = g.Pose(body, matrices), gap(body, target), turned(body, rotation)
        return [(pose, lambda f, q: np.maximum(place(f, q) / 1e-4, turn(f, q) / 1e-3) * 1e-4, 1e-4)]
    if kind == "turn":
        return [(g.Orientation(body, rotation), turned(body, rotation))]
    if kind == "mixed":
        second = g.Orientation(body, rotation, weight=1e-6)
        return [(g.Position(body, target, weight=1e6), gap(body, target)), (second, turned(body, rotation))]
    if kind == "plane":
        return [(g.Plane(body, target, normal), lambda f, q: abs(dot(f.position(body) - target, normal)))]
    if kind == "line":
        return [
            (
                g.Line(body, target, normal),
                lambda f, q: np.linalg.norm(np.cross(f.position(body) - target, normal), axis=-1),
            )
        ]
    if kind == "half-space":
        behind = g.HalfSpace(body, target, normal, margin=0.05)
        return [(behind, lambda f, q: np.maximum(0.0, -dot(f.position(body) - target, normal)))]
    if kind == "direction":
        along = g.Direction(body, "x", along=normal)
        return [(along, lambda f, q: angle(f.rotation_matrix(body)[..., :, 0], normal))]
    if kind == "aim":
        aim = g.Aim(body, "z", at=target)
        return [(aim, lambda f, q: angle(f.rotation_matrix(body)[..., :, 2], target - f.position(body)))]
    if kind == "avoid":
        ball = g.Avoid(body, g.Sphere(0.3 * target, 0.1), ends=((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), radius=0.05)
        error = lambda f, q: np.maximum(0.0, 0.15 - gap(body, 0.3 * target)(f, q))  # noqa: E731
        return [(ball, error), (g.Position(body, target), gap(body, target))]
    raise ValueError(kind)


def on_several(kind, skeleton, target, rng):
    """Return (goal, error) pairs of one of the kinds on several bodies, on dofs, or in Python."""
    body, first = skeleton.site_names[0], skeleton.names[0]
    place = (g.Position(body, target), gap(body, target))
    other = (g.Position(body, target + 0.5, label="other"), gap(body, target + 0.5))
    if kind == "distance":
        length = rng.choice((0.0, 0.3, 5.0))
        apart = lambda f, q: abs(np.linalg.norm(f.position(body) - f.position(first), axis=-1) - length)  # noqa: E731
        return [(g.Distance(body, first, length), apart)]
    if kind == "relative":
        held = g.Relative(body, first, target, tolerance=1e-4)
        return [(held, lambda f, q: np.linalg.norm(in_frame(f, first, f.position(body)) - target, axis=-1), 1e-4)]
    if kind == "center":
        return [(g.CenterOfMass(target), lambda f, q: np.linalg.norm(f.center_of_mass() - target, axis=-1))]
    if kind == "balance":  # over a square
        corner = np.array([(-0.2, -0.2, 0.0), (0.2, -0.2, 0.0), (0.2, 0.2, 0.0), (-0.2, 0.2, 0.0)])
        outside = lambda f, q: np.maximum(0.0, abs(f.center_of_mass()[..., :2]).max(axis=-1) - 0.19)  # noqa: E731
        return [(g.Balance(corner, up="z"), outside), place]
    if kind == "no-collision":  # the last ball of the chain among others; shapes that never move are not checked
        if not skeleton.shapes or skeleton.name in ("frozen", "all-equal", "no-dofs"):
            return [place]
        near, last = 0.3 * target[0], skeleton.names[-1]
        depth = lambda f, q: np.maximum(0.0, 0.14 - gap(last, near)(f, q))  # noqa: E731
        return [(g.NoCollision((), [g.Sphere(near, 0.1)]), depth), place]
    if kind == "coupling":
        if skeleton.size < 2 or skeleton.joints[0].motion != skeleton.joints[-1].motion:
            return [place]
        last = skeleton.names[-1]
        a, b = skeleton.index(last), skeleton.index(first)
        miss = lambda f, q: abs(q[:, a] - 2.0 * q[:, b] - 0.1).max(axis=-1, initial=0.0)  # noqa: E731
        return [(g.Coupling(last, first, ratio=2.0, offset=0.1), miss), place]
    if kind == "posture":
        return [place, (g.Posture(weight=float(rng.choice((1e-6, 1e-2, 1e3)))), None)]
    if kind == "robust":
        return [(g.Position(body, target, robust=0.01), place[1]), other]
    if kind == "priority":
        return [place, (g.Position(body, target + 0.5, label="other", priority=1), other[1])]
    if kind == "any":
        return [(g.AnyOf([place[0], other[0]]), lambda f, q: np.minimum(place[1](f, q), other[1](f, q)), 1e-4)]
    if kind == "weighted":
        root = rng.normal(size=(6, 6))
        both = g.Weighted([place[0], other[0]], root @ root.T + 0.1 * np.eye(6))
        return [(both, lambda f, q: np.maximum(place[1](f, q), other[1](f, q)), 1e-4)]
    if kind == "custom":
        bowl = g.Custom(lambda points, directions: float((points[body] ** 4).sum()), points=[body])
        return [(bowl, None), place]
    raise ValueError(kind)


ON_A_BODY = ("pose", "turn", "mixed", "plane", "line", "half-space", "direction", "aim", "avoid")
ON_SEVERAL = ("distance", "relative", "center", "balance", "no-collision", "coupling", "posture", "robust")
IN_PYTHON = ("priority", "any", "weighted", "custom")  # several solves each: a smaller share
PLACES = ("plain", "far", "none", "weightless", "twice", "zero", "tight")


def goals_for(skeleton, rng, positions_only):
    """Return (goal, error) pairs of one of the hostile kinds, with SIZE targets each, and the kind's name.

    A goal whose error decides nothing has None. A third number is the tolerance where the goal has several.
    """
    body = skeleton.site_names[0]
    several = IN_PYTHON if rng.random() < 0.1 else ON_SEVERAL
    of = PLACES if positions_only or rng.random() < 0.3 else (ON_A_BODY, several)[rng.integers(2)]
    kind = str(rng.choice(of))
    target = 0.6 * rng.normal(size=(SIZE, 3))
    if kind in ON_A_BODY:
        return on_a_body(kind, body, target, rng), kind
    if kind not in PLACES:
        return on_several(kind, skeleton, target, rng), kind
    if kind == "none":
        return [], kind
    if kind == "far":
        return [(g.Position(body, 1e12 * target), gap(body, 1e12 * target))], kind
    if kind == "weightless":
        return [(g.Position(body, target, weight=0.0), None)], kind
    if kind == "twice":  # at odds with one another
        other = g.Position(body, target + 0.5, label="other")
        return [(g.Position(body, target), gap(body, target)), (other, gap(body, target + 0.5))], kind
    if kind == "zero":
        return [(g.Position(body, np.zeros((SIZE, 3))), gap(body, np.zeros(3)))], kind
    return [(g.Position(body, target, tolerance=0.0 if kind == "tight" else 1e-4), gap(body, target))], kind


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


def faults(skeleton, goals, result, limits, solves):
    """Return what is wrong with a result, as words; `solves`: in how many solves, of MOST iterations, it was found."""
    poses = np.atleast_2d(result.pose)
    out = []
    if not np.isfinite(poses).all():
        return ["not a number"]
    if limits and not ((poses >= skeleton.lower - 1e-9) & (poses <= skeleton.upper + 1e-9)).all():
        out.append("limit broken")
    if (np.atleast_1d(result.iterations) > solves * MOST).any():
        out.append("too many iterations")
    frames = ps.forward(skeleton, poses)
    good = np.ones(len(poses), dtype=bool)
    for goal, error, *tolerance in goals:
        if error is not None:
            most = tolerance[0] if tolerance else goal.tolerance
            far = np.abs(goal.target).max(initial=0.0) if isinstance(goal, g.Position) else 0.0
            slack = 1e-12 * (1.0 + far + np.abs(poses).max(initial=0.0)) + 1e-6 * most
            good &= error(frames, poses) <= most + slack
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
        wanted = [goal for goal, *_ in goals]
        result = solve(skeleton, wanted, solver=solver, start=start, limits=limits, max_iterations=MOST, threads=1)
    except (SolverError, GoalError) as error:
        documented = any(text in str(error) for text in REFUSALS)
        return ("refused" if documented else "fault"), f"{where}: {error}"
    except Exception as error:
        return "fault", f"{where}: {type(error).__name__}: {error}"
    if start_kind in ("nan", "infinite"):
        return "fault", f"{where}: a start that is no number was taken"
    wrong = faults(skeleton, goals, result, limits, math.inf if goal_kind in IN_PYTHON else 1)
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
        "Figures with infinite, equal or no limits, frozen joints, no degree of freedom; goals of every kind, with "
        "zero weights, in conflict, at 1e12 m, or none; starts outside the limits or NaN. A *fault* is an "
        "undocumented exception, a NaN, a violated limit, too many iterations, or a success that independent "
        "formulas on the frames of forward kinematics do not confirm."
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
        note="*Answered*: with a pose within the limits and a correct verdict on whether it meets the goals, which "
        "many of these problems do not allow. *Refused*: with a `SolverError` that says why, mostly for a start that "
        f"is NaN; `fabrik` accepts only chains and positions. At most {MOST} iterations each, in batches of {SIZE}; "
        "`rate` and `sqp`, driven from Python, get a tenth of the problems.",
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
