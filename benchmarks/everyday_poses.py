"""Everyday poses of the human, each from three to six goals."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from posable import goals as g
from posable.model.kinematics import Frames


class Everyday(NamedTuple):
    """A pose that people take: its name, its goals on a human, and where to look from [deg]."""

    name: str
    goals: Callable[[Frames], list[g.Goal]]
    azimuth: float = 35.0


def feet(f: Frames, *, left=(0.0, 0.0, 0.0), right=(0.0, 0.0, 0.0)) -> list[g.Goal]:
    """Return goals that keep both feet flat, moved by so much [m] from where they stand."""
    out: list[g.Goal] = []
    for body, move in (("foot.L", left), ("foot.R", right)):
        matrix = f.matrix(body).copy()
        matrix[:3, 3] += move
        out.append(g.Pose(body, matrix))
    return out


def hand(side: str, *place: float) -> g.Goal:
    """Return the goal of a hand at a place [m]."""
    return g.Position(f"hand.{side}", place)


def look(*place: float) -> g.Goal:
    """Return the goal of looking at a place [m]."""
    return g.Aim("head", axis="z", at=place)


def pelvis(*place: float) -> g.Goal:
    """Return the goal of the pelvis at a place [m]."""
    return g.Position("pelvis", place)


def knee(side: str, *place: float) -> g.Goal:
    """Return the goal of a knee at a place [m]."""
    return g.Position(f"knee.{side}", place)


POSES = (
    Everyday("take a cup", lambda f: [*feet(f), hand("R", -0.4, 1.2, 0.3), look(0, 1.5, 3)]),
    Everyday("reach a shelf", lambda f: [*feet(f), hand("R", -0.25, 1.95, 0.35), look(-0.25, 1.95, 0.35)]),
    Everyday(
        "reach a shelf with both hands",
        lambda f: [*feet(f), hand("R", -0.2, 1.85, 0.35), hand("L", 0.2, 1.85, 0.35), look(0, 2.0, 0.6)],
    ),
    Everyday(
        "tie a shoe",
        lambda f: [
            *feet(f, left=(0, 0, 0.15), right=(0, 0, -0.15)),
            hand("R", 0.06, 0.13, 0.3),
            hand("L", 0.16, 0.13, 0.3),
            look(0.1, 0.1, 0.3),
        ],
        60.0,
    ),
    Everyday(
        "pick up from the floor",
        lambda f: [*feet(f), hand("R", -0.25, 0.1, 0.4), look(-0.25, 0.0, 0.45)],
        60.0,
    ),
    Everyday(
        "look behind",
        lambda f: [*feet(f), look(-2.0, 1.6, -1.2)],
        20.0,
    ),
    Everyday(
        "sit",
        lambda f: [
            *feet(f, left=(0.03, 0, 0.1), right=(-0.03, 0, 0.1)),
            pelvis(0, 0.52, -0.3),
            hand("L", 0.16, 0.6, 0.08),
            hand("R", -0.16, 0.6, 0.08),
            look(0, 1.2, 3),
        ],
        60.0,
    ),
    Everyday(
        "sit and type",
        lambda f: [
            *feet(f, left=(0, 0, 0.1), right=(0, 0, 0.1)),
            pelvis(0, 0.52, -0.3),
            hand("L", 0.12, 0.75, 0.25),
            hand("R", -0.12, 0.75, 0.25),
            look(0, 0.95, 0.6),
        ],
        60.0,
    ),
    Everyday(
        "kneel on one knee",
        lambda f: [
            g.Pose("foot.L", _placed(f, "foot.L", (0, 0, 0.35))),
            knee("R", -0.1, 0.06, 0.0),
            g.Position("toe.R", (-0.1, 0.02, -0.42)),
            hand("L", 0.14, 0.56, 0.3),
            look(0, 1.0, 3),
        ],
        70.0,
    ),
    Everyday(
        "push a wall",
        lambda f: [
            *feet(f, left=(0, 0, 0.1), right=(0, 0, -0.35)),
            hand("R", -0.2, 1.3, 0.62),
            hand("L", 0.2, 1.3, 0.62),
            look(0, 1.4, 2),
        ],
        75.0,
    ),
    Everyday(
        "carry a box",
        lambda f: [*feet(f), hand("R", -0.2, 1.05, 0.38), hand("L", 0.2, 1.05, 0.38), look(0, 1.5, 4)],
        40.0,
    ),
    Everyday(
        "lift a box",
        lambda f: [
            *feet(f, left=(0.06, 0, 0), right=(-0.06, 0, 0)),
            hand("R", -0.2, 0.3, 0.42),
            hand("L", 0.2, 0.3, 0.42),
            look(0, 0.6, 2),
        ],
        65.0,
    ),
    Everyday(
        "wave",
        lambda f: [*feet(f), hand("R", -0.45, 1.85, 0.2), look(-0.3, 1.6, 4)],
        20.0,
    ),
    Everyday(
        "crawl",
        lambda f: [
            knee("L", 0.12, 0.06, 0.05),
            knee("R", -0.12, 0.06, -0.15),
            hand("L", 0.2, 0.05, 0.55),
            hand("R", -0.2, 0.05, 0.75),
            g.Position("toe.L", (0.12, 0.03, -0.42)),
            g.Position("toe.R", (-0.12, 0.03, -0.6)),
        ],
        75.0,
    ),
    Everyday(
        "climb a step",
        lambda f: [
            g.Pose("foot.L", f.matrix("foot.L")),
            g.Pose("foot.R", _placed(f, "foot.R", (0, 0.35, 0.35))),
            look(0, 1.8, 3),
            hand("R", -0.35, 1.25, 0.35),
        ],
        65.0,
    ),
    Everyday(
        "climb a ladder",
        lambda f: [
            g.Pose("foot.L", _placed(f, "foot.L", (0, 0.1, 0.1))),
            g.Pose("foot.R", _placed(f, "foot.R", (0, 0.4, 0.1))),
            hand("L", 0.2, 1.75, 0.42),
            hand("R", -0.2, 1.45, 0.42),
            look(0, 2.2, 1.0),
        ],
        60.0,
    ),
    Everyday(
        "lean on a table",
        lambda f: [
            *feet(f, left=(0, 0, -0.1), right=(0, 0, -0.1)),
            hand("L", 0.3, 0.8, 0.4),
            hand("R", -0.3, 0.8, 0.4),
            look(0, 0.8, 0.9),
        ],
        60.0,
    ),
    Everyday(
        "hands on hips",
        lambda f: [*feet(f), hand("L", 0.19, 1.0, 0.06), hand("R", -0.19, 1.0, 0.06), look(0, 1.6, 4)],
        15.0,
    ),
    Everyday(
        "hand on the mouth",
        lambda f: [*feet(f), hand("R", -0.04, 1.56, 0.2), look(0, 1.5, 3)],
        30.0,
    ),
    Everyday(
        "scratch the head",
        lambda f: [*feet(f), hand("R", -0.1, 1.82, 0.02), look(0.3, 1.5, 3)],
        30.0,
    ),
    Everyday(
        "point to the side",
        lambda f: [*feet(f), hand("L", 0.75, 1.45, 0.15), look(3, 1.5, 0.8)],
        10.0,
    ),
    Everyday(
        "open a door",
        lambda f: [*feet(f, right=(0, 0, 0.15)), hand("R", -0.3, 1.0, 0.55), look(-0.3, 1.0, 0.55)],
        55.0,
    ),
    Everyday(
        "step out",
        lambda f: [
            g.Pose("foot.L", _placed(f, "foot.L", (0, 0, -0.3))),
            g.Pose("foot.R", _placed(f, "foot.R", (0, 0, 0.35))),
            pelvis(0, 0.93, 0.0),
            look(0, 1.6, 4),
        ],
        70.0,
    ),
    Everyday(
        "reach behind the back",
        lambda f: [*feet(f), hand("R", -0.05, 1.05, -0.22), look(0, 1.6, 4)],
        150.0,
    ),
)


def _placed(f: Frames, body: str, move: tuple[float, float, float]) -> np.ndarray:
    matrix = f.matrix(body).copy()
    matrix[:3, 3] += move
    return matrix
