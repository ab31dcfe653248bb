"""What a result says about itself: predictions, remedies and derivatives, checked by solving again.

    python -m benchmarks trust

Random problems on five figures for which the default solver ends STUCK. Each check uses only `solve`. A prediction
is correct if it is within 20% of the change of a goal's error when the problem is solved again, or within 0.02 mm
or 0.001 degrees of it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from benchmarks.page import Page
from posable._differentiable import Layer

g = ps.goals
LENGTHS = (0.5, 0.4, 0.3)
DEGREE = np.radians(1.0)


def figures() -> dict[str, ps.Skeleton]:
    """Return the figures."""
    arm = ps.figures.planar_arm(LENGTHS).with_limits({f"joint{k}": (-0.9, 1.1) for k in (1, 2, 3)})
    return {
        "planar arm": arm, "limb": ps.figures.limb(), "panda": ps.figures.panda(), "spider": ps.figures.spider(),
        "human": ps.figures.human(),
    }  # fmt: skip


def goals_for(name: str, skeleton: ps.Skeleton, rng: np.random.Generator) -> list[ps.goals.Goal]:
    """Return random goals for a figure, of which many cannot all be reached."""
    ball = rng.normal(size=3)
    ball *= rng.uniform(0.1, 1.0) ** (1 / 3) / np.linalg.norm(ball)
    if name == "planar arm":
        angle, radius = rng.uniform(-np.pi, np.pi), 1.2 * np.sqrt(rng.uniform(0.02, 1.0))
        return [g.Position("tip", (radius * np.cos(angle), radius * np.sin(angle), 0.0), weight=(1, 1, 0))]
    if name == "limb":
        return [g.Position("hand", 0.6 * ball), g.Direction("hand", "x", along=rng.normal(size=3), weight=0.1)]
    if name == "panda":
        target = np.eye(4)
        target[:3, :3] = Rotation.random(rng=rng).as_matrix()
        target[:3, 3] = np.array([0.0, 0.0, 0.333]) + 0.8 * ball
        return [g.Pose("hand", target)]
    at = ps.forward(skeleton, skeleton.rest)
    if name == "spider":
        places = {site: at.position(site) for site in skeleton.site_names[:4]}
        return [g.Position(s, p + 0.5 * np.linalg.norm(p) * rng.normal(size=3)) for s, p in places.items()]
    out: list[ps.goals.Goal] = [g.Position(s, at.position(s), weight=10) for s in ("foot.L", "foot.R", "pelvis")]
    out.append(g.Position("hand.R", at.position("hand.R") + 1.2 * ball))
    if rng.uniform() < 0.5:
        out.append(g.Aim("head", "z", at=3.0 * rng.normal(size=3)))
    return out


def stuck(name: str, skeleton: ps.Skeleton, count: int, seed: int) -> Iterator[tuple[list[ps.goals.Goal], ps.Result]]:
    """Yield problems that the default solver is stuck on."""
    rng, found = np.random.default_rng(seed), 0
    while found < count:
        goals = goals_for(name, skeleton, rng)
        result = ps.solve(skeleton, goals)
        if result.status == ps.Status.STUCK and result.blocking:
            found += 1
            yield goals, result


def near(predicted: float, change: float) -> bool:
    """Return whether a predicted change of an error is right."""
    return abs(predicted - change) <= max(0.2 * abs(change), 2e-5)


def predictions(name: str, skeleton: ps.Skeleton, count: int, seed: int) -> list[object]:
    """Return how many predictions are right: of 1 degree and of 5, at the same minimum and by the default solver."""
    rng = np.random.default_rng(seed)
    right: dict[str, list[bool]] = {"1": [], "5": [], "default": [], "jumped": []}
    for goals, result in stuck(name, skeleton, count, seed):
        block = result.blocking[rng.integers(len(result.blocking))]
        i = skeleton.dof(block.dof)
        unit = 1e-3 if block.slides else DEGREE
        for key, by, gains in (("1", unit, {k: unit * v for k, v in block.cost.items()}), ("5", 5 * unit, block.gain)):
            if key == "5" and block.ends:
                continue
            low, high = float(skeleton.lower[i]), float(skeleton.upper[i])
            wider = skeleton.with_limits({block.dof: (low - by, high) if block.side == "lower" else (low, high + by)})
            again = ps.solve(wider, goals, start=result.pose, solver="trust-region", max_iterations=2000)
            right[key] += [near(gains[name], result.errors[name] - again.errors[name]) for name in gains]
            if key == "1":
                usual = ps.solve(wider, goals, start=result.pose)
                right["default"] += [near(gains[name], result.errors[name] - usual.errors[name]) for name in gains]
                energy = ps.Problem(skeleton, goals).energy
                right["jumped"].append(abs(energy(usual.pose) - energy(again.pose)) > 0.01 * energy(again.pose))
    return [name, count, len(right["1"]), *(f"{np.mean(right[key]):.1%}" for key in ("1", "5", "default", "jumped"))]


def remedies(name: str, skeleton: ps.Skeleton, count: int, seed: int) -> list[object]:
    """Return how many remedies were offered, how many of them reach when applied, and what they are."""
    offered = reached = own = problems = 0
    kinds = {"limits": 0, "targets": 0, "start": 0}
    seconds = []
    for _, result in stuck(name, skeleton, count, seed):
        begin = time.perf_counter()
        found = result.remedy()
        seconds.append(time.perf_counter() - begin)
        problems += bool(found)
        for remedy in found:
            figure = skeleton.with_limits(remedy.limits) if remedy.limits else skeleton
            offered += 1
            own += remedy.start is None
            reached += ps.solve(figure, remedy.goals, start=remedy.start).ok
            kinds["limits"] += bool(remedy.limits)
            kinds["targets"] += bool(remedy.targets)
            kinds["start"] += "another start" in remedy.text
    shares = [f"{reached / max(offered, 1):.2%}", f"{own / max(offered, 1):.0%}"]
    return [name, count, problems, offered, *shares, *kinds.values(), float(np.median(seconds))]


def least_excess_by_force(x: float, y: float) -> float:
    """Return the least sum of excess of poses of the planar arm that reach (x, y): every first angle, both elbows."""
    first = np.linspace(-np.pi, np.pi, 40001)
    px, py = x - LENGTHS[0] * np.cos(first), y - LENGTHS[0] * np.sin(first)
    cosine = (px**2 + py**2 - LENGTHS[1] ** 2 - LENGTHS[2] ** 2) / (2 * LENGTHS[1] * LENGTHS[2])
    ok, best = np.abs(cosine) <= 1.0, np.inf
    for side in (1.0, -1.0):
        third = side * np.arccos(cosine[ok])
        bend = np.arctan2(LENGTHS[2] * np.sin(third), LENGTHS[1] + LENGTHS[2] * np.cos(third))
        second = np.arctan2(py[ok], px[ok]) - bend - first[ok]
        poses = np.stack([first[ok], (second + np.pi) % (2 * np.pi) - np.pi, third], axis=-1)
        best = min(best, np.maximum(np.maximum(-0.9 - poses, poses - 1.1), 0.0).sum(axis=-1).min(initial=np.inf))
    return float(best)


def sizes(name: str, skeleton: ps.Skeleton, count: int) -> list[object]:
    """Return how much larger the remedies of the planar arm are than the best that a search by force finds."""
    ratios, nearest = [], []
    grid = np.stack(np.meshgrid(*[np.linspace(-0.9, 1.1, 81)] * 3), axis=-1).reshape(-1, 3)
    tips = ps.forward(skeleton, grid).position("tip")
    for goals, result in stuck(name, skeleton, count, 5):
        found = result.remedy()
        limits, moved = next(one for one in found if one.limits), next(one for one in found if one.targets)
        target = goals[0].target
        ratios.append(limits.size / max(least_excess_by_force(*target[:2]), np.radians(0.1)))
        nearest.append(moved.size / np.linalg.norm(tips - target, axis=-1).min())
    within, far = (f"{np.mean(np.array(values) <= 1.25):.1%}" for values in (ratios, nearest))
    return [name, len(ratios), within, float(np.median(ratios)), float(np.max(ratios)), far]


def gradients(name: str, skeleton: ps.Skeleton, count: int) -> list[object]:
    """Return the largest gap of `result.jacobian` to central differences of full solves, and how many hold limits."""
    rng, gaps, active, none = np.random.default_rng(9), [], 0, 0
    site = skeleton.site_names[-1] if name != "panda" else "hand"
    scale = {"planar arm": 0.6, "limb": 0.3, "panda": 0.5}[name]
    while len(gaps) < count:
        goals = [g.Position(site, scale * rng.normal(size=3), tolerance=1e-12), g.Posture(weight=0.05)]
        result = ps.solve(skeleton, goals)
        found = result.sensitivity(site)
        if found.matrix is None:
            none += 1
            continue
        matrix = found.matrix
        expected = np.zeros_like(matrix)
        for i in range(3):

            def at(h: float, goals=goals, i=i, start=result.pose) -> np.ndarray:
                moved = goals[0].moved(goals[0].target + h * np.eye(3)[i])
                session = ps.Session(skeleton, [moved, goals[1]], start=start, continuous=True)
                session.solve()
                return session.solve().pose

            wide, near = (at(1e-3) - at(-1e-3)) / 2e-3, (at(5e-4) - at(-5e-4)) / 1e-3
            expected[:, i] = (4 * near - wide) / 3
        active += bool(((result.pose <= skeleton.lower + 1e-9) | (result.pose >= skeleton.upper - 1e-9)).any())
        gaps.append(np.abs(expected - matrix).max() / max(np.abs(expected).max(), 1e-9))
    share = f"{np.mean(np.array(gaps) < 1e-5):.1%}"
    return [name, count, active, none, share, f"{np.median(gaps):.1e}", f"{np.max(gaps):.1e}"]


def layer_cost(count: int) -> list[object]:
    """Return what a forward and a backward pass of a batch cost, against the solve alone."""
    limb = ps.figures.limb()
    goals = [g.Position("hand", (0.0, 0.0, 0.0)), g.Posture(weight=0.05)]
    targets = np.random.default_rng(0).uniform(0.1, 0.3, (count, 3))
    layer = Layer(limb, goals, ["hand"])
    layer.backward(layer.forward([targets[:8]], []), np.ones((8, limb.size)))
    clock = [time.perf_counter()]
    ps.solve(limb, [goals[0].moved(targets), goals[1]])
    clock.append(time.perf_counter())
    solved = layer.forward([targets], [])
    clock.append(time.perf_counter())
    layer.backward(solved, np.ones((count, limb.size)))
    clock.append(time.perf_counter())
    alone, forward, backward = np.diff(clock)
    return [count, 1e6 * alone / count, 1e6 * forward / count, 1e6 * backward / count, backward / alone]


def evidence(page: Page) -> None:
    """Write the page."""
    page.text((__doc__ or "").split("\n\n", 2)[2])
    every = figures()
    count = page.pick(200, 6)
    page.table(
        "Relaxing a limit and solving again",
        ["figure", "problems", "goals", "1 degree", "5 degrees", "1 degree, default solver", "at another minimum"],
        [predictions(name, skeleton, count, 1) for name, skeleton in every.items()],
        "From the pose of the result with `trust-region`, which stays at its minimum, and with the default solver, "
        "which may find another minimum, for which the prediction does not apply.",
    )
    counts = {name: page.pick(60 if name == "human" else 235, 3) for name in every}
    page.table(
        "Remedies",
        ["figure", "problems", "with a remedy", "remedies", "reach", "from the own start", "limits", "targets",
         "another start", "median time [s]"],
        [remedies(name, skeleton, counts[name], 2) for name, skeleton in every.items()],
    )  # fmt: skip
    page.table(
        "Size of remedies compared with brute force",
        ["figure", "problems", "limits within 25%", "median ratio", "largest", "targets within 25%"],
        [sizes("planar arm", every["planar arm"], page.pick(100, 4))],
        "Limits: every first angle, both elbows. Targets: a grid of 81 values per joint.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page.table(
            "Derivatives of the solution against central differences of full solves",
            ["figure", "problems", "on limits", "no derivative", "within 1e-5", "median gap", "largest"],
            [gradients(name, every[name], page.pick(n, 5)) for name, n in (("planar arm", 100), ("limb", 250),
                                                                          ("panda", 150))],
        )  # fmt: skip
    page.table(
        "A layer: time a problem, limb with a posture, on the CPU",
        ["problems", "solve [us]", "forward [us]", "backward [us]", "backward / solve"],
        [layer_cost(page.pick(20_000, 500))],
    )
