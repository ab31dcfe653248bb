"""The pictures of the solvers: each on one and the same problem, what the arm does and how fast the error falls."""

from __future__ import annotations

import matplotlib
import numpy as np
from pages import DOCS
from tutorial import keep

import posable as ps

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection

ARM = ps.figures.limb()
START = ARM.rest
TARGET = np.array([0.12, 0.34, 0.26])
TOLERANCE = 1e-7  # [m]: small, to show how each of them ends
NEAR = 1e-4  # [m]: what a goal is content with by default
MOST = 1000  # iterations shown
INK, OTHERS, MINE, GOAL = "#1b2f4d", "#c9ced6", "#1f6f8b", "#d1495b"
BONES = ("shoulder", "elbow", "wrist", "hand")
OUT = DOCS / "images" / "solvers"


def run(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors (k,) [m] after 0, 1, ... iterations, and the poses (k, n): each a solve that may go so far."""
    goal = ps.goals.Position("hand", TARGET, tolerance=TOLERANCE)
    options = {"best": False} if "best" in ps.solvers.get(name).__dataclass_fields__ else {}
    solver = ps.solvers.get(name)(**options)
    poses, errors = [START], [np.linalg.norm(ps.forward(ARM, START).position("hand") - TARGET)]
    k = 0
    while errors[-1] > TOLERANCE and k < MOST:
        k += 1 if k < 40 else max(1, k // 20)
        result = ps.solve(ARM, goal, start=START, solver=solver, max_iterations=k)
        place = ps.forward(ARM, result.pose).position("hand")
        poses += [result.pose] * (k - len(poses) + 1)
        errors += [np.linalg.norm(place - TARGET)] * (k - len(errors) + 1)
        if result.iterations < k:  # it has stopped; the closed form counts no iterations and is shown as one
            last = max(result.iterations, 1)
            poses, errors = poses[: last + 1], errors[: last + 1]
            break
    return np.array(errors), np.array(poses)


def points(poses: np.ndarray) -> np.ndarray:
    """Return where the bones' ends are in the picture (k, 4, 2): seen from the front and a little from the side."""
    frames = ps.forward(ARM, poses)
    world = np.stack([frames.position(name) for name in BONES], axis=-2)
    return flat(world)


def flat(world: np.ndarray) -> np.ndarray:
    """Return points of the world as the picture shows them."""
    a = np.radians(50.0)
    right = np.array([np.cos(a), np.sin(a), 0.0])
    up = np.array([-0.2 * np.sin(a), 0.2 * np.cos(a), 0.98])
    return np.stack([world @ right, world @ up], axis=-1)


def style(axes) -> None:
    """Take away what a picture does not need."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(True, which="major", color="#eceff3", lw=0.7)


def convergence(axes, every: dict[str, np.ndarray], mine: str | None) -> None:
    """Draw errors over iterations, one of them in colour."""
    for name, errors in every.items():
        if name != mine:
            axes.plot(np.arange(len(errors)) + 1, 1e3 * errors, color=OTHERS, lw=1.0)
    if mine:
        errors = every[mine]
        axes.plot(np.arange(len(errors)) + 1, 1e3 * errors, color=MINE, lw=2.4)
        axes.plot(len(errors), 1e3 * errors[-1], "o", color=MINE, ms=5)
        done = errors[-1] <= TOLERANCE
        count = "closed form" if mine == "limb" else f"{len(errors) - 1} iterations"
        axes.set_title(count + ("" if done else ": not reached"), fontsize=10, color=INK)
    axes.axhline(1e3 * TOLERANCE, color=GOAL, lw=0.9, ls="--")
    axes.set(xscale="log", yscale="log", xlim=(0.95, 1.15 * MOST), ylim=(1e-6, 2e3))
    marks = [1, 2, 6, 11, 101, 1001]
    axes.set_xticks(marks, [str(k - 1) for k in marks])
    axes.minorticks_off()
    axes.set_xlabel("iterations", fontsize=8.5, color=INK)
    axes.set_ylabel("distance to the target [mm]", fontsize=8.5, color=INK)
    style(axes)


def path(axes, poses: np.ndarray) -> None:
    """Draw the arm on its way, faint to dark, and the path of the hand."""
    shown = np.unique(np.geomspace(1, len(poses), min(len(poses), 14)).astype(int) - 1)
    arms = points(poses[shown])
    colors = plt.get_cmap("Blues")(np.linspace(0.25, 0.95, len(shown)))
    axes.add_collection(LineCollection(list(arms), colors=colors, linewidths=np.linspace(1.2, 3.2, len(shown))))
    way = points(poses)[:, -1]
    axes.plot(*way.T, color=GOAL, lw=1.0, alpha=0.8)
    axes.plot(*arms[-1].T, "o", color=INK, ms=4)
    axes.plot(*flat(TARGET), "x", color=GOAL, ms=9, mew=2)
    low, high = arms.min(axis=(0, 1)), arms.max(axis=(0, 1))
    box = np.array([np.minimum(low - 0.05, (-0.08, -0.60)), np.maximum(high + 0.05, (0.56, 0.36))])
    axes.set(aspect="equal", xlim=box[:, 0], ylim=box[:, 1])
    axes.axis("off")


def main() -> None:
    """Draw one picture for each solver, and one of all."""
    OUT.mkdir(parents=True, exist_ok=True)
    ran = {name: run(name) for name in ps.solvers.names()}
    every = {name: errors for name, (errors, _) in ran.items()}
    for name, (errors, poses) in ran.items():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.5), layout="constrained", width_ratios=(1, 1.15))
        path(left, poses)
        convergence(right, every, name)
        save(figure, OUT / f"{name}.png")
        print(f"{name:20s} {len(errors) - 1:5d} iterations, {1e3 * errors[-1]:.3g} mm")
    overview(every)


def overview(every: dict[str, np.ndarray]) -> None:
    """Draw how many iterations each solver needs to come near."""
    counts = {name: int(np.argmax(errors <= NEAR)) if errors.min() <= NEAR else 0 for name, errors in every.items()}
    names = sorted(counts, key=lambda name: (counts[name] or 10 * MOST, name))[::-1]
    figure, axes = plt.subplots(figsize=(8.4, 4.6), layout="constrained")
    for row, name in enumerate(names):
        count = counts[name]
        axes.barh(
            row, count or MOST, color=MINE if name == "newton" else "#8fb8c6" if count else "#e3e6ea", height=0.72
        )
        text = "closed form" if name == "limb" else str(count) if count else f"not in {MOST}"
        axes.text(1.08 * (count or 1.1), row, text, va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(names)), names)
    axes.set(xscale="log", xlim=(0.8, 1.2 * MOST))
    axes.set_xlabel("iterations until the hand is within 0.1 mm", fontsize=8.5, color=INK)
    style(axes)
    axes.set_axisbelow(True)
    axes.grid(False, axis="y")
    save(figure, OUT / "all.png")


def save(figure, target) -> None:
    """Keep a picture as a small PNG of few colours."""
    figure.savefig(target, dpi=110)
    plt.close(figure)
    keep(target, target)


if __name__ == "__main__":
    main()
