"""Where the Hessian of two links is positive definite, for goals in, on and beyond reach (Erleben & Andrews 2018)."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import posable as ps

GOALS = (1.0, 2.0, 3.0)
KINDS = ("positive definite", "indefinite", "negative definite", "semi-definite")
COLOURS = ListedColormap(["white", "0.8", "0.45", "tab:red"])
FLAT = 1e-9  # an eigenvalue below it counts as zero


def definiteness(page) -> None:
    """Write the section: maps, surfaces, and the share of each kind."""
    page.heading("Figure A.10: definiteness of the Hessian of two links")
    size = page.pick(181, 61)
    angles = np.linspace(-np.pi, np.pi, size)
    chart = Figure(figsize=(12, 8), layout="constrained")
    rows, worst = [], 0.0
    for column, goal in enumerate(GOALS):
        kinds, energies, gap = sample(goal, angles)
        worst = max(worst, gap)
        axis = chart.add_subplot(2, 3, column + 1)
        degrees = np.degrees(angles)
        axis.pcolormesh(degrees, degrees, kinds, cmap=COLOURS, vmin=0, vmax=3)
        axis.set(title=f"goal ({goal:g}, 0)", xlabel="θ₁ [deg]", ylabel="θ₂ [deg]", aspect="equal")
        solid = chart.add_subplot(2, 3, column + 4, projection="3d")
        first, second = np.meshgrid(degrees, degrees)
        step = max(1, size // 60)
        solid.plot_surface(
            first, second, energies, facecolors=COLOURS(kinds), rstride=step, cstride=step, linewidth=0, shade=True
        )
        solid.set(xlabel="θ₁", ylabel="θ₂", zlabel="f")
        solid.view_init(35, -60)
        shares = [float(np.mean(kinds == k)) for k in range(4)]
        rows.append([f"({goal:g}, 0)", *(f"{100 * share:.1f}%" for share in shares)])
        page.value(f"definiteness goal {goal:g}", dict(zip(KINDS, shares, strict=True)))
    page.plot(
        "figure_a10", chart,
        "White: positive definite; light: indefinite; dark: negative definite; red: semi-definite. Below, f as height",
    )  # fmt: skip
    page.table("Share of the poses", ["goal", *KINDS], rows)
    page.value("definiteness largest gap from the closed form", worst)
    page.text(
        "The paper shows the same three goals on two links of length 1, without percentages. As it states, the Hessian "
        "is positive definite around the minima and negative definite where the residual is large. With the goal "
        "inside the workspace there are two white regions, one for each way to bend the elbow; with the goal on the "
        "perimeter they touch at the stretched arm, which is the red semi-definite point; beyond it they have "
        "become one."
    )
    page.text(
        f"Our Hessians differ by at most {worst:.0e} from the closed form of two links, written apart from the engine."
    )


def sample(goal: float, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return for each (second angle, first angle): the kind, f, and the largest gap from the closed form."""
    arm = ps.figures.planar_arm([1.0, 1.0])
    problem = ps.Problem(arm, ps.goals.Position("tip", (goal, 0.0, 0.0)))
    size = len(angles)
    kinds, energies = np.empty((size, size), dtype=int), np.empty((size, size))
    worst = 0.0
    for i, second in enumerate(angles):
        for j, first in enumerate(angles):
            pose = np.array([first, second])
            hessian = problem.hessian(pose, kind="exact")
            energies[i, j] = problem.energy(pose)
            worst = max(worst, float(np.abs(hessian - closed_form(goal, first, second)).max()))
            low, high = np.linalg.eigvalsh(hessian)
            if min(abs(low), abs(high)) < FLAT:
                kinds[i, j] = 3
            else:
                kinds[i, j] = 0 if low > 0 else 2 if high < 0 else 1
    return kinds, energies, worst


def closed_form(goal: float, first: float, second: float) -> np.ndarray:
    """Return the Hessian of half the squared distance of the tip of two unit links from (goal, 0), by hand."""
    both = first + second
    x, y = np.cos(first) + np.cos(both), np.sin(first) + np.sin(both)
    rx, ry = x - goal, y
    j = np.array([[-y, -np.sin(both)], [x, np.cos(both)]])
    bend = -np.cos(both) * rx - np.sin(both) * ry  # every second derivative that the second angle takes part in
    return j.T @ j + np.array([[-x * rx - y * ry, bend], [bend, bend]])
