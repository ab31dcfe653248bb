"""Natural poses: is least change the least, what it costs, and how near the prior comes to poses of people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import posable as ps
from benchmarks.build_prior import split
from benchmarks.page import percent
from benchmarks.recordings import read_motion
from posable import goals as g
from posable.model.body_plan import person_plan
from posable.solvers.natural import comfort_of

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
INCHES = 0.0254 / 0.45  # metres per unit of CMU's skeletons
SIX = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")
ENDS = ("wrist.L", "wrist.R", "ankle.L", "ankle.R", "head", "pelvis")
REST = ("chest", "neck", *(f"{role}.{s}" for s in "LR" for role in ("clavicle", "shoulder", "elbow", "hip", "knee")))
HINGES = ("elbow.L", "elbow.R", "knee.L", "knee.R")
OTHER_TAKES = (  # of HDM05, all that are at hand
    ("bk_kickLFront1Reps_007", "amc"), ("bk_lieDownFloor_005", "amc"), ("bk_sneak2StepsLStart_006", "AMC"),
    ("dg_03-05_02", "amc"), ("tr_elbowToKnee1RepsLelbowStart_021", "amc"), ("tr_jogLeftCircle4StepsRstart_014", "amc"),
)  # fmt: skip
TUNED, HELD_OUT = (11, 12), (201, 202, 203)  # seeds of the problems of `optimality`
# Least change alone: figures without limits have the prior by default
WAYS = (("bare", [], False), ("least change", [g.Natural(weight=0.0)], True), ("prior", [g.Natural()], True))


# --- Optimality ---


def comfort_cost(skeleton: ps.Skeleton, pose: np.ndarray, reference: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the comfort metric of a change and its gradient (n,), apart from the engine."""
    comfort = comfort_of(skeleton)
    gap = pose - reference
    low, high = np.minimum(comfort.inner[:, 0], reference), np.maximum(comfort.inner[:, 1], reference)
    over = np.maximum(pose - high, 0.0) - np.maximum(low - pose, 0.0)
    a, b = comfort.pair.T
    stiffness, ratio = comfort.pair_data.T
    apart = gap[a] - ratio * gap[b]
    total = 0.5 * (comfort.stiffness @ gap**2 + comfort.end @ over**2 + stiffness @ apart**2)
    slope = comfort.stiffness * gap + comfort.end * over
    np.add.at(slope, a, stiffness * apart)
    np.add.at(slope, b, -stiffness * ratio * apart)
    return float(total), slope


def reachable(human: ps.Skeleton, rng: np.random.Generator, size: float, count: int) -> list[g.Goal]:
    """Return position goals on `count` bodies, as a pose within `size` [rad] of rest meets them."""
    low, high = np.maximum(human.lower, human.rest - size), np.minimum(human.upper, human.rest + size)
    low[:3], high[:3] = human.rest[:3] - 0.3, human.rest[:3] + 0.3
    frames = ps.forward(human, rng.uniform(low, high))
    return [g.Position(body, frames.position(body)) for body in rng.choice(SIX, count, replace=False)]


def slsqp(human: ps.Skeleton, goals: Sequence[Any], start: np.ndarray) -> float:
    """Return the least cost that SciPy's SLSQP finds from a start, infinity where it misses a goal by 0.1 mm."""

    def gaps(pose):
        frames = ps.forward(human, pose)
        return np.concatenate([frames.position(goal.body) - goal.target for goal in goals])

    def slopes(pose):
        return np.concatenate([ps.jacobian(human, pose, goal.body, rows="position") for goal in goals])

    found = minimize(
        lambda pose: comfort_cost(human, pose, human.rest), start, jac=True, method="SLSQP",
        bounds=list(zip(human.lower, human.upper, strict=True)),
        constraints={"type": "eq", "fun": gaps, "jac": slopes}, options={"maxiter": 60, "ftol": 1e-7},
    )  # fmt: skip
    return float(found.fun) if np.abs(gaps(found.x)).max() < 1e-4 else np.inf


def optimality(problems: int, seeds: Sequence[int]) -> dict[str, float]:
    """Return how far the comfort of our answers is above the best that SLSQP finds, and what goals pay for it.

    SLSQP starts at our answer, at the bare solve's, at rest, and at the answer from a random pose. There are as many
    problems of each seed.
    """
    human = ps.figures.human()
    low, high = np.maximum(human.lower, human.rest - 0.5), np.minimum(human.upper, human.rest + 0.5)
    low[:3], high[:3] = human.rest[:3] - 0.2, human.rest[:3] + 0.2
    above, bare_errors, our_errors, lost = [], [], [], 0
    for k, rng in ((k, rng) for rng in map(np.random.default_rng, seeds) for k in range(problems)):
        goals = reachable(human, rng, rng.uniform(0.2, 0.8), 3 + k % 4)
        bare, ours = ps.solve(human, goals, natural=False, restarts=10), ps.solve(human, goals, restarts=10)
        lost += bool(bare.ok and not ours.ok)
        bare_errors.append(max(bare.errors.values()))
        our_errors.append(max(ours.errors.values()))
        starts = [ours.pose, bare.pose, human.rest]
        starts.append(ps.solve(human, goals, natural=False, start=rng.uniform(low, high)).pose)
        best = min(slsqp(human, goals, start) for start in starts)
        above.append(comfort_cost(human, ours.pose, human.rest)[0] / min(best, 1e9) - 1.0)
    gaps = np.array(above)
    return {
        "within_5_percent": float(np.mean(gaps <= 0.05)), "median": float(np.median(gaps)),
        "p95": float(np.percentile(gaps, 95)), "worst": float(gaps.max()), "reached_by_bare_alone": lost,
        "bare_error_m": float(np.max(bare_errors)), "our_error_m": float(np.max(our_errors)),
    }  # fmt: skip


# --- Time ---


def times(problems: int, passes: int) -> dict[str, dict[str, float]]:
    """Return the median and mean processor time [ms] of a Session's solve for six goals of the human, from rest."""
    human = ps.figures.human()
    rng = np.random.default_rng(5)
    low, high = np.maximum(human.lower, human.rest - 0.5), np.minimum(human.upper, human.rest + 0.5)
    low[:3], high[:3] = human.rest[:3] - 0.3, human.rest[:3] + 0.3
    frames = ps.forward(human, rng.uniform(low, high, size=(problems, human.size)))
    places = {body: frames.position(body) for body in SIX}
    best: dict[str, np.ndarray] = {}
    for _ in range(passes):
        for name, extra, natural in WAYS:
            goals = [g.Position(body, places[body][0]) for body in SIX]
            session = ps.Session(human, [*goals, *extra], natural=natural, restarts=20)
            session.solve()
            took = best.setdefault(name, np.full(problems, np.inf))
            for k in range(problems):
                for body in SIX:
                    session.move(body, places[body][k])
                begin = time.process_time()
                session.solve(start=human.rest)
                took[k] = min(took[k], time.process_time() - begin)
    return {name: {"median": 1e3 * float(np.median(t)), "mean": 1e3 * float(t.mean())} for name, t in best.items()}


# --- Recorded poses ---


def within(motion: ps.Motion) -> ps.Skeleton:
    """Return a recording's figure, with limits that its own poses do not leave."""
    figure = motion.skeleton
    low, high = np.minimum(figure.lower, motion.poses.min(axis=0)), np.maximum(figure.upper, motion.poses.max(axis=0))
    wide = {
        joint.name: np.stack([low[where], high[where]], axis=1)
        for joint, where in zip(figure.joints, figure.slices, strict=True)
        if joint.motion.size
    }
    return figure.with_limits(wide)


def reconstruct(motion: ps.Motion, frames: np.ndarray, oriented: bool) -> dict[str, np.ndarray]:
    """Return the errors (t, roles) [m] of the joints that hands, feet, head and pelvis leave open, by method.

    Args:
        motion: A recording.
        frames: (t,), which of its poses.
        oriented: Whether the goals are poses, or positions alone.
    """
    skeleton = within(motion)
    plan = person_plan(skeleton)
    assert plan is not None
    out: dict[str, list[list[float]]] = {"bare": [], "least change": [], "prior": []}
    for k in frames:
        truth = ps.forward(skeleton, motion.poses[k])
        goals: list[g.Goal] = [
            g.Pose(plan[r], truth.matrix(plan[r])) if oriented else g.Position(plan[r], truth.position(plan[r]))
            for r in ENDS
        ]
        start = skeleton.rest.copy()
        start[:6] = motion.poses[k, :6]
        for name, extra, natural in WAYS:
            pose = ps.solve(skeleton, [*goals, *extra], start=start, restarts=5, natural=natural).pose
            found = ps.forward(skeleton, pose)
            out[name].append([float(np.linalg.norm(found.position(plan[r]) - truth.position(plan[r]))) for r in REST])
    return {name: np.array(rows) for name, rows in out.items()}


def recordings(data: Path, count: int) -> list[tuple[str, list[tuple[ps.Motion, np.ndarray]]]]:
    """Return sets of recorded poses that the prior has not seen: other subjects of CMU, and HDM05."""
    rng = np.random.default_rng(3)
    _, check = split(sorted((data / "cmu_poses").glob("*.bvh")))
    chosen = [check[i] for i in rng.permutation(len(check))[: max(1, count // 2)]]
    sets = [("CMU, 20 other subjects", [read_motion(path, unit=INCHES) for path in chosen])]
    sets.append(("CMU 02_01, walking", [read_motion(data / "cmu" / "02_01.bvh", unit=INCHES)]))
    for name, figure, source in (
        ("HDM_dg_06-03_03_120.amc", "HDM_dg.asf", "HDM05, walking"),
        ("HDM_tr_depositFloorR_027_120.amc", "HDM_tr.asf", "HDM05, reaching to the floor"),
    ):
        sets.append((source, [read_motion(data / "hdm05" / name, skeleton=data / "hdm05" / figure)]))
    others = [
        read_motion(data / "hdm05" / f"HDM_{name}_120.{ending}", skeleton=data / "hdm05" / f"HDM_{name[:2]}.asf")
        for name, ending in OTHER_TAKES
    ]
    chosen = [
        (source, [(m, rng.choice(len(m.poses), 2 if len(motions) > 1 else count)) for m in motions])
        for source, motions in sets
    ]
    many = max(1, count // len(others))
    return [*chosen, ("HDM05, its other takes", [(m, rng.choice(len(m.poses), many)) for m in others])]


def recorded_poses(page: Any, sets: list[tuple[str, list[tuple[ps.Motion, np.ndarray]]]]) -> None:
    """Write the table of recorded poses that are found again from hands, feet, head and pelvis."""
    hinges = [REST.index(role) for role in HINGES]
    rows, every = [], []
    for source, motions in sets:
        for oriented in (True, False):
            parts = [reconstruct(motion, frames, oriented) for motion, frames in motions]
            errors = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            every.append(errors)
            rows.append((source, "poses" if oriented else "positions", errors))
    rows.append(("all", "both", {name: np.concatenate([errors[name] for errors in every]) for name in every[0]}))
    table = []
    for source, kind, errors in rows:
        share = float(errors["prior"].mean() / errors["bare"].mean())
        page.value(f"{source}, {kind}", share)
        table.append(
            [source, kind, len(errors["bare"])]
            + [100.0 * float(values.mean()) for values in errors.values()]
            + [percent(share), 100.0 * float(errors["prior"][:, hinges].mean())]
        )
    page.table(
        "Recorded poses from hands, feet, head and pelvis: mean error of the other joints [cm]",
        ["recordings", "goals", "poses", "bare", "least change", "prior", "prior / bare", "elbows and knees [cm]"],
        table,
        note="The prior was not trained on any of these subjects. Each solve starts at rest, with the recorded "
        "position and heading of the pelvis. Limits are those of the figure, widened where the recording exceeds them. "
        "The elbows and knees of HDM05's figures are hinges: with poses as goals only the trunk is undetermined. In "
        "the take that reaches to the floor, the recorded right elbow bends backwards by 31 degrees, which is "
        "implausible under the prior.",
    )


# --- Drags ---


def drag(extra: Sequence[g.Goal], natural: bool, path: np.ndarray) -> np.ndarray:
    """Return the largest turn [rad] of any joint for a 1 mm move of the right hand, at every step of a path (T, 3)."""
    human = ps.figures.human()
    rest = ps.forward(human, human.rest)
    feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]
    session = ps.Session(human, [*feet, g.Position("hand.R", path[0]), *extra], natural=natural)
    session.solve()
    frames = ps.forward(human, np.array([session.solve({"hand.R": place}).pose for place in path]))
    turns = [
        frames.rotation(joint.parent).inv() * frames.rotation(joint.name) for joint in human.joints if joint.parent
    ]
    steps = np.array([(turn[:-1].inv() * turn[1:]).magnitude() for turn in turns]).max(axis=0)
    return steps * 1e-3 / np.linalg.norm(np.diff(path, axis=0), axis=1)


def paths(count: int) -> list[np.ndarray]:
    """Return long ways of a hand (T, 3) [m] in steps of 1 mm: straight lines between random places before the body."""
    rng = np.random.default_rng(5)
    out = []
    for _ in range(count):
        corners = rng.uniform((-0.7, 0.2, 0.0), (0.3, 1.9, 0.55), (5, 3))
        at = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
        out.append(np.stack([np.interp(np.arange(0.0, at[-1], 1e-3), at, corners[:, k]) for k in range(3)], axis=1))
    return out


def evidence(page: Any) -> None:
    """Write the page of this subject."""
    page.text(
        "Where goals leave freedom, some poses are more natural than others. *Least change* returns, among the poses "
        "that reach the goals, the one nearest to the start in a comfort metric, as the lowest priority; it is on for "
        "figures with a person's body plan. *The prior* (`goals.Natural`) prefers poses that were recorded."
    )
    count = page.pick(200, 16)
    tuned, found = (optimality(count, seeds) for seeds in (TUNED, HELD_OUT))
    page.table(
        "Optimality: comfort compared with the best of SciPy's SLSQP from four starts",
        ["", "problems", "within 5% of the best", "median above", "95% above", "worst above"],
        [
            [name, many, *(percent(max(row[k], 0.0)) for k in ("within_5_percent", "median", "p95", "worst"))]
            for name, row, many in (
                ("used to choose when it stops", tuned, count * len(TUNED)),
                ("not used to choose anything", found, count * len(HELD_OUT)),
            )
        ],
        note="Three to six positions on the human, taken from a random pose, solved from rest. SLSQP starts from "
        "our solution, from the plain one, from rest, and from the solution of a random start; its best counts. "
        "Largest error of a goal "
        f"in the second row: {1e3 * found['bare_error_m']:.4f} mm without least change, "
        f"{1e3 * found['our_error_m']:.4f} mm with it; "
        f"problems that only the plain solve reaches: {found['reached_by_bare_alone']}.",
    )  # fmt: skip
    page.value("optimality", found)
    page.value("optimality_tuned", tuned)
    took = times(page.pick(200, 40), page.pick(4, 3))
    page.value("times_ms", took)
    page.table(
        "Cost: human, six positions, from rest, through a Session",
        ["", "median ms", "times the bare solve"],
        [[name, row["median"], row["median"] / took["bare"]["median"]] for name, row in took.items()],
        note="Processor time, best of several passes.",
    )
    recorded_poses(page, recordings(DATA, page.pick(24, 10)))
    ways = paths(page.pick(14, 2))
    smooth = {
        name: np.degrees(np.concatenate([drag(extra, natural, way) for way in ways])) for name, extra, natural in WAYS
    }
    page.value("drags_deg_per_mm", {name: {"largest": t.max(), "median": np.median(t)} for name, t in smooth.items()})
    page.table(
        "Drags: turn of any joint for a move of 1 mm [degrees]",
        ["", "largest", "99.9%", "median"],
        [[name, float(t.max()), float(np.percentile(t, 99.9)), float(np.median(t))] for name, t in smooth.items()],
        note=f"The right hand moves along straight lines between random points in front of the body, "
        f"{sum(map(len, ways)) / 1e3:.0f} m in total, with both feet pinned.",
    )
    page.text("The poses themselves, as pictures: [natural poses](../natural.md).")
