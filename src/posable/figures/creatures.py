"""Branching figures: a spider, and Rabbani's (2017) abstract tree."""

from __future__ import annotations

import numpy as np

from posable.model.joints import Ball, Free, Joint, Revolute, Site, Universal, rotation_about
from posable.model.skeleton import Skeleton

SPIDER_BODY = 0.10  # [m] radius at which the legs begin
SPIDER_LEG = (0.15, 0.20, 0.20)  # [m] hip to knee, knee to ankle, ankle to foot
SPIDER_STANCE = np.radians((40.0, -80.0, -35.0))  # [rad] lift of the hip, bend of knee and ankle, at rest
SPIDER_HEADINGS = (45, 15, -15, -45)  # [deg] forward of straight left, of the left legs from front to back


def spider() -> Skeleton:
    """Return a spider of 38 degrees of freedom: eight legs on a free body, every joint with limits, y up, z forward.

    Each leg has a hip (turn about y, lift about z), a knee and an ankle that bend about z; its frame's x points away
    from the body. Legs 1 to 4 are the left ones (+x) from front to back, 5 to 8 the right ones. Sites: body, and
    foot.1 ... foot.8, which stand on the ground y = 0 at rest.
    """
    drop = float(np.dot(SPIDER_LEG, np.sin(np.cumsum(SPIDER_STANCE))))
    joints = [
        Joint("root", Free("yzx"), limits=[(-10.0, 10.0)] * 3 + [(-4 * np.pi, 4 * np.pi)] * 3,
              rest=(0.0, -drop, 0.0, 0.0, 0.0, 0.0), mass=1.0)
    ]  # fmt: skip
    sites = [Site("body", "root")]
    turns = [-heading for heading in SPIDER_HEADINGS] + [180 + heading for heading in SPIDER_HEADINGS]
    for leg, turn in enumerate(turns, start=1):
        joints += _spider_leg(leg, rotation_about(1, np.radians(turn)))
        sites.append(Site(f"foot.{leg}", f"ankle.{leg}", (SPIDER_LEG[2], 0.0, 0.0)))
    return Skeleton(joints, sites, "spider", up="y")


def _spider_leg(leg: int, outward: np.ndarray) -> list[Joint]:
    upper, middle, lower = SPIDER_LEG
    lift, knee, ankle = SPIDER_STANCE
    return [
        Joint(f"hip.{leg}", Universal("yz"), "root", offset=outward @ (SPIDER_BODY, 0.0, 0.0), rotation=outward,
              limits=np.radians([(-50, 50), (-40, 80)]), rest=(0.0, lift), mass=0.03, center=(upper / 2, 0.0, 0.0)),
        Joint(f"knee.{leg}", Revolute("z"), f"hip.{leg}", offset=(upper, 0.0, 0.0), limits=np.radians((-140, 5)),
              rest=knee, mass=0.02, center=(middle / 2, 0.0, 0.0)),
        Joint(f"ankle.{leg}", Revolute("z"), f"knee.{leg}", offset=(middle, 0.0, 0.0), limits=np.radians((-100, 30)),
              rest=ankle, mass=0.01, center=(lower / 2, 0.0, 0.0)),
    ]  # fmt: skip


# joint: its parent, its offset from there [m], and where it is the last of its branch, the end site's from it.
TREE = (
    ("joint1", "root", (0.0, 0.4, 0.0), None),
    ("joint2", "joint1", (0.1, 0.4, 0.1), None),
    ("joint3", "joint1", (-0.3, 0.2, 0.0), (-0.3, 0.1, 0.1)),
    ("joint4", "joint1", (0.2, 0.1, -0.3), (0.1, 0.2, -0.2)),
    ("joint5", "joint2", (0.3, 0.2, 0.0), (0.3, 0.0, 0.1)),
    ("joint6", "joint2", (-0.1, 0.3, 0.0), (0.0, 0.3, -0.1)),
    ("joint7", "joint2", (0.0, 0.1, 0.3), (0.1, 0.1, 0.3)),
    ("joint8", "root", (-0.2, -0.3, 0.1), (-0.1, -0.3, 0.0)),
)


def tree() -> Skeleton:
    """Return the model of figure 1 of Rabbani (2017): 30 dofs, floating base, 8 spherical joints, 6 end sites.

    Joints root and joint1 ... joint8, no limits; sites end1 ... end6.
    """
    joints = [Joint("root", Free("xyz"))]
    joints += [Joint(name, Ball("xyz"), parent, offset=offset) for name, parent, offset, _ in TREE]
    ends = [(name, end) for name, _, _, end in TREE if end is not None]
    sites = [Site(f"end{i}", name, end) for i, (name, end) in enumerate(ends, start=1)]
    return Skeleton(joints, sites, "tree", up="y")
