"""Arms: Tolani et al.'s (2000) limb, Parent's planar arm, and the Franka Emika Panda."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np

from posable.errors import SkeletonError
from posable.model.dh import from_dh
from posable.model.joints import Ball, Joint, Revolute, Site, rotation_about
from posable.model.skeleton import Skeleton


def limb() -> Skeleton:
    """Return the limb of figure 1 of Tolani et al. (2000), 7 dofs: joints shoulder, elbow and wrist; site hand.

    At the zero pose it lies straight along x, 0.30 m, 0.25 m and 0.10 m long, and the elbow turns about y. The shoulder
    twists last and the wrist first, about the limb's own axis; the angles stay clear of where they degenerate.
    The hand's frame is the wrist's: x points along the fingers.
    """
    joints = [
        Joint("shoulder", Ball("zyx"), limits=np.radians([(-130, 130), (-80, 80), (-100, 100)]), rest=(0.0, 0.5, 0.0)),
        Joint("elbow", Revolute("y"), "shoulder", offset=(0.30, 0, 0), limits=np.radians((0, 150)), rest=0.8),
        Joint("wrist", Ball("xzy"), "elbow", offset=(0.25, 0, 0), limits=np.radians([(-90, 90), (-35, 35), (-75, 75)])),
    ]
    return Skeleton(joints, [Site("hand", "wrist", (0.10, 0, 0))], "limb", up="z")


def planar_arm(lengths: Sequence[float] = (15, 10, 5), *, limits: Any = None, rest: Any = 0.0) -> Skeleton:
    """Return an arm in the plane z = 0: hinges joint1, joint2, ... about z, links [m] along x, site "tip".

    The lengths of Parent's worked example are the default. limits: None for free turning, one (lower, upper) [rad]
    for all joints, or (k, 2). rest: an angle [rad] for all joints, or (k,).
    """
    links = np.atleast_1d(np.asarray(lengths, dtype=float))
    k = links.size
    if links.ndim != 1 or k == 0 or not np.all(np.isfinite(links) & (links > 0.0)):
        raise SkeletonError(f"lengths: expected one positive number [m] per link, got {lengths!r}", name="planar_arm")
    try:
        box = np.broadcast_to(np.array((-np.inf, np.inf) if limits is None else limits, dtype=float), (k, 2))
        rests = np.broadcast_to(np.array(rest, dtype=float), (k,))
    except ValueError:
        raise SkeletonError(
            f"expected limits (lower, upper) or ({k}, 2) and rest a number or ({k},), got {limits!r} and {rest!r}",
            name="planar_arm",
        ) from None
    starts = [0.0, *links[:-1]]
    joints = [
        Joint(
            f"joint{i + 1}",
            Revolute("z"),
            f"joint{i}" if i else None,
            offset=(starts[i], 0.0, 0.0),
            limits=tuple(box[i]),
            rest=float(rests[i]),
        )
        for i in range(k)
    ]
    return Skeleton(joints, [Site("tip", f"joint{k}", (links[-1], 0.0, 0.0))], "planar_arm")


# The maker's table of modified Denavit-Hartenberg parameters, limits, and ready pose:
#    a [m]     alpha [rad]  d [m]  lower, upper [rad]  ready [rad]
PANDA = (
    (0.0,      0.0,     0.333,  -2.8973,  2.8973,   0.0),
    (0.0,     -pi / 2,  0.0,    -1.7628,  1.7628,  -pi / 4),
    (0.0,      pi / 2,  0.316,  -2.8973,  2.8973,   0.0),
    (0.0825,   pi / 2,  0.0,    -3.0718, -0.0698,  -3 * pi / 4),
    (-0.0825, -pi / 2,  0.384,  -2.8973,  2.8973,   0.0),
    (0.0,      pi / 2,  0.0,    -0.0175,  3.7525,   pi / 2),
    (0.088,    pi / 2,  0.0,    -2.8973,  2.8973,   pi / 4),
)  # fmt: skip
PANDA_FLANGE = 0.107  # [m] from the last joint's frame along its z
PANDA_GRASP = 0.1034  # [m] from the hand's frame along its z to between the fingertips


def panda() -> Skeleton:
    """Return the Franka Emika Panda arm: panda_joint1 ... panda_joint7, at rest in its ready pose, z up.

    Sites: flange (panda_link8), hand (panda_hand: the flange turned by -45 degrees about z), tcp (between the fingers).
    """
    table = np.array(PANDA)
    rows = [(a, alpha, d, 0.0) for a, alpha, d in table[:, :3]]
    names = [f"panda_joint{i + 1}" for i in range(len(rows))]
    arm = from_dh(rows, "modified", limits=table[:, 3:5], names=names, name="panda")
    joints = [replace(joint, rest=float(rest)) for joint, rest in zip(arm.joints, table[:, 5], strict=True)]
    hand = rotation_about(2, -pi / 4)
    sites = [
        Site("flange", names[-1], (0.0, 0.0, PANDA_FLANGE)),
        Site("hand", names[-1], (0.0, 0.0, PANDA_FLANGE), hand),
        Site("tcp", names[-1], (0.0, 0.0, PANDA_FLANGE + PANDA_GRASP), hand),
    ]
    return arm.replace(joints=joints, sites=sites, up="z")
