"""The limbs of a figure that have a closed form: arms and legs with a swivel angle, its ranges and its branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import posable as ps


@dataclass(frozen=True, eq=False)
class LimbView:
    """A limb as it is now: swivel [rad], the ranges that hold every limit, the elbow's circle, how many branches."""

    name: str
    swivel: float
    ranges: tuple[tuple[float, float], ...]
    circle: Any
    branches: int
    message: str


def find_limbs(skeleton: ps.Skeleton) -> dict[str, ps.Limb]:
    """Return every chain ball - hinge - ball of a figure as a limb, by the name of its middle joint."""
    out: dict[str, ps.Limb] = {}
    for last in skeleton.joints:
        chain = _moving_above(skeleton, last)
        if last.motion.size != 3 or len(chain) < 2 or chain[0].motion.size != 1 or chain[1].motion.size != 3:
            continue
        middle, first = chain[0].name, chain[1].name
        site = next(
            (s.name for s in skeleton.sites if s.joint == last.name and s.name.startswith(("hand", "foot"))), None
        )
        try:
            out[middle] = ps.Limb(skeleton, first, middle, last.name, site=site)
        except ps.PosableError:
            continue
    return out


def _moving_above(skeleton: ps.Skeleton, joint: ps.Joint) -> list[ps.Joint]:
    out = []
    while joint.parent is not None and len(out) < 2:
        joint = skeleton.joint(joint.parent)
        if joint.motion.size:
            out.append(joint)
    return out


def limb_target(limb: ps.Limb, pose: np.ndarray) -> np.ndarray:
    """Return the transform (4, 4) that the limb's end has at a pose."""
    return ps.forward(limb.skeleton, pose).matrix(limb.site)


def look_at(limb: ps.Limb, pose: np.ndarray) -> LimbView:
    """Return what the limb panel shows at a pose (n,)."""
    target = limb_target(limb, pose)
    swivel = float(limb.swivel(pose))
    ranges = tuple((float(r[0]), float(r[1])) for r in limb.swivel_ranges(target, base=pose))
    branches = limb.solutions(target, swivel=swivel, base=pose)
    message = (
        "holds every limit" if any(lo <= swivel <= hi or lo <= swivel + 2 * np.pi <= hi for lo, hi in ranges) else ""
    )
    return LimbView(limb.middle, swivel, ranges, limb.elbow_circle(target, base=pose), len(branches), message)


def at_swivel(limb: ps.Limb, pose: np.ndarray, swivel: float, *, limits: bool) -> Any:
    """Return the limb's solution with the end where it is and the middle joint turned to a swivel angle [rad]."""
    return limb.solve(limb_target(limb, pose), swivel=swivel, limits=limits, base=pose)


def with_elbow_near(limb: ps.Limb, pose: np.ndarray, point: np.ndarray, *, limits: bool) -> Any:
    """Return the limb's solution with the end where it is and the middle joint as near to a point (3,) as it can be."""
    return limb.solve(limb_target(limb, pose), elbow=point, limits=limits, base=pose)


def branch_poses(limb: ps.Limb, pose: np.ndarray) -> list[np.ndarray]:
    """Return the poses of every branch at the present swivel angle."""
    swivel = float(limb.swivel(pose))
    found = limb.solutions(limb_target(limb, pose), swivel=swivel, base=pose)
    return [np.asarray(solution.pose) for solution in found]
