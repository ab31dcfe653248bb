"""Parent (Kinematic Linkages), measured: the three-link example of figures 5.20 to 5.25 and each claim about it."""

from __future__ import annotations

import importlib.util

import numpy as np

import posable as ps
from benchmarks.page import ROOT


def example():
    """Return the example that draws the figures, as a module."""
    spec = importlib.util.spec_from_file_location(
        "parent_linkages_figures", ROOT / "examples" / "parent_linkages_figures.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def evidence(page) -> None:
    """Write the page."""
    figures = example()
    page.text(
        "The chapter moves an arm of links 15, 10 and 5 from (π/8, π/4, π/4) to (-20, 5), and to (-35, 5) beyond "
        "its reach, in 21 frames whose goals lie on a straight line, with one step of each method per frame. Its "
        "figures are panels without numbers, showing frames 0, 5, 10, 15 and 20 (5.21: 0, 10, 18, 19, 20). Ours show "
        "the same frames, and a sixth panel shows the path of the tip and the line. The statements of the text about "
        "each figure are measured below."
    )
    path = page.folder / f"{page.name}_figures.png"
    page.folder.mkdir(parents=True, exist_ok=True)
    page.captured(figures.main, str(path))
    page.picture(
        path.name, "Figures 5.20 to 5.25: arm in blue, goal in red; last column: the path of the tip and the line"
    )
    played = {title: (figures.play(solver, goal), goal) for title, solver, goal, _ in figures.ROWS}
    rows = [[title, *measure(figures.ARM, poses, goal).values()] for title, (poses, goal) in played.items()]
    page.table(
        "Every row of the picture",
        ["figure", "ends from goal", "farthest from line", "largest turn of a frame [rad]"],
        rows,
    )
    claims(page, figures, {title.split()[0] + title[5:]: value for title, value in played.items()})


def measure(arm, poses: np.ndarray, goal: np.ndarray) -> dict[str, float]:
    """Return how far the tip ends from the goal and strays from the line, and the largest turn between frames."""
    tips = ps.forward(arm, poses).position("tip")
    along = (goal - tips[0]) / np.linalg.norm(goal - tips[0])
    off = tips - tips[0]
    return {
        "gap": float(np.linalg.norm(tips[-1] - goal)),
        "stray": float(np.linalg.norm(off - np.outer(off @ along, along), axis=1).max()),
        "turn": float(np.abs(np.diff(poses, axis=0)).max()),
    }


def claims(page, figures, played) -> None:
    """Write what the text claims of each figure, and what we measure."""
    arm = figures.ARM
    by = {title.split()[0]: [] for title in played}
    for title, value in played.items():
        by[title.split()[0]].append(value)
    plain, damped = (measure(arm, *by[key][0]) for key in ("5.20a", "5.20b"))
    wild, calm = (measure(arm, *by[key][0]) for key in ("5.21a", "5.21b"))
    stiff_second, stiff_third = (by["5.22"][k][0][-1] for k in (0, 1))
    pulled = np.abs(by["5.23"][0][0] - by["5.20a"][0][0]).max()
    transpose, cyclic = measure(arm, *by["5.24"][0]), measure(arm, *by["5.25"][0])
    raw = figures.play(figures.get("transpose")(step=0.1, **figures.RAW), figures.NEAR)
    page.table(
        "What the text says, and what we measure",
        ["figure", "the text", "ours"],
        [
            ["5.20", "the tip travels in approximately a straight line",
             f"at most {plain['stray']:.2f} off a line of length {length(figures):.1f}; damped {damped['stray']:.2f}"],
            ["5.21", "out of reach, damping behaves better",
             f"largest turn of a frame {wild['turn']:.2f} rad without, {calm['turn']:.2f} with"],
            ["5.22", "the joint of larger gain is kept straighter",
             f"second joint {abs(stiff_second[1]):.2f} rad with its gain large, {abs(stiff_third[1]):.2f} with the "
             "third's;"
             f" third joint {abs(stiff_third[2]):.2f} against {abs(stiff_second[2]):.2f}"],
            ["5.23", "pulling the goal is similar to pushing the effector",
             f"joints differ by at most {pulled:.2f} rad over the sequence"],
            ["5.24", "the transpose, scale 0.1, tracks to the goal",
             f"ends {transpose['gap']:.2f} away with the scale in degrees; as it is printed, in radians, "
             f"{measure(arm, raw, figures.NEAR)['gap']:.1f}"],
            ["5.25", "cyclic coordinate descent tracks the path well",
             f"ends {cyclic['gap']:.2f} away, strays {cyclic['stray']:.2f}"],
        ],
        note="Differences: the printed control term (5.27) squares the distance from the desired angle, which loses "
        "the sign; ours is linear. With links of this length, the printed scale 0.1 of the transpose diverges in "
        "radians; in degrees it follows the moving goal with a lag, as one short step per frame must. The damping of "
        "5.20b and 5.21b is not stated; we use 1 and 5.",
    )  # fmt: skip
    page.value("damped_turn", calm["turn"])
    page.value("undamped_turn", wild["turn"])


def length(figures) -> float:
    """Return the length of the line from the first tip to the near goal."""
    return float(np.linalg.norm(ps.forward(figures.ARM, figures.START).position("tip") - figures.NEAR))
