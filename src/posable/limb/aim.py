"""Aiming: an axis of the site points at a point, the last joint held (seed 003, 3.4).

With the bend given, the line's meeting point with the sphere of the target's distance is the tip of a limb whose bend
is known: the rest is the elbow circle again, about the line from the first joint to the target, limits and all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from posable.errors import GoalError
from posable.kinematics import forward

from .answer import BRANCH, REPORT, SLACK, SWIVEL
from .circle import REACHED, TOO_NEAR
from .core import LimbCore, scratch_memory
from .entries import aim_batch
from .solution import STATUS, Branch, LimbSolution
from .targets import read_direction, read_vector

BENDS = 97


def aim(
    limb: LimbCore,
    point: Any,
    axis: Any,
    *,
    bend: float | None = None,
    swivel: float | None = None,
    limits: bool = True,
    base: Any = None,
) -> LimbSolution:
    """Aim an axis of the site at a point: see `Limb.aim`."""
    place, direction = read_vector(point, "point"), read_direction(axis, "axis")
    poses, roots, helds = limb.placed(base)
    if poses.shape[0] != 1:
        raise GoalError("base", expected="one pose", got=poses.shape[0])
    sign = float(limb.anatomy.sign[3])
    low, high = limb.anatomy.box[3]
    rest = float(limb.skeleton.rest[limb.columns[3]]) * sign
    if bend is not None:
        bends = np.array([float(bend) * sign])
        if limits and not low - 1e-12 <= bends[0] <= high + 1e-12:
            raise GoalError("bend", expected=f"an angle inside the limits of {limb.middle!r}", got=bend)
    else:
        lo, hi = (max(low, rest - math.pi), min(high, rest + math.pi)) if limits else (rest - math.pi, rest + math.pi)
        bends = np.linspace(lo, hi, BENDS)
        bends = bends[np.argsort(np.abs(bends - rest), kind="stable")]
    out, reports, status = _aim(limb, roots, helds, place, direction, bends, limits, swivel)
    good = np.flatnonzero(status == REACHED)
    if good.size:
        row = int(good[0])
        if bend is None and limits:
            row = int(good[np.argmax(reports[good, SLACK])])
        return _solution(limb, poses[0], out[row], reports[row], REACHED, place, direction)
    return _nearest(limb, poses[0], place, direction, bend, int(status[0]), limits)


def _aim(limb: LimbCore, roots, helds, place, direction, bends, limits, swivel):
    count = bends.shape[0]
    out, reports, status = np.zeros((count, 7)), np.zeros((count, REPORT)), np.zeros(count, dtype=np.int64)
    wanted = math.nan if swivel is None else float(swivel)
    aim_batch(
        *limb.anatomy, roots[0], limb.directions, place, helds[0], direction, np.ascontiguousarray(bends), bool(limits),
        wanted, scratch_memory(), out, reports, status,
    )  # fmt: skip
    return out, reports, status


def aim_error(limb: LimbCore, pose: np.ndarray, place: np.ndarray, direction: np.ndarray) -> float:
    """Return the angle [rad] between the site's axis and the line from the site to a point."""
    at = forward(limb.skeleton, pose)
    towards = place - at.position(limb.site)
    axis = at.rotation_matrix(limb.site) @ direction
    return math.atan2(float(np.linalg.norm(np.cross(axis, towards))), float(axis @ towards))


def _solution(limb: LimbCore, base: np.ndarray, numbers, report, status, place, direction) -> LimbSolution:
    pose = base.copy()
    pose[limb.columns] = numbers
    error = aim_error(limb, pose, place, direction)
    code = int(report[BRANCH])
    message = "reached" if status == REACHED else f"the aim misses by {error:.4f} rad"
    return LimbSolution(
        pose, status == REACHED, float(report[SWIVEL]), Branch(code // 4, code // 2 % 2, code % 2), message,
        STATUS[status], 0.0, error, limb.clearance(pose),
    )  # fmt: skip


def _nearest(limb: LimbCore, base, place, direction, bend, status, limits) -> LimbSolution:
    """Bring the aim as near as the limits allow: least squares over first joint and bend (seed 003, table 3)."""
    columns = limb.columns[:3] if bend is not None else limb.columns[:4]
    low, high = limb.skeleton.lower[columns], limb.skeleton.upper[columns]
    if not limits:
        low, high = np.full(len(columns), -np.inf), np.full(len(columns), np.inf)
    high = np.maximum(high, low + 1e-9)  # least_squares wants room
    pose = base.copy()
    if bend is not None:
        pose[limb.columns[3]] = bend

    def miss(x: np.ndarray) -> np.ndarray:
        pose[columns] = x
        at = forward(limb.skeleton, pose)
        towards = place - at.position(limb.site)
        return at.rotation_matrix(limb.site) @ direction - towards / max(float(np.linalg.norm(towards)), 1e-12)

    rng = np.random.default_rng(0)
    lo, hi = np.maximum(low, -math.pi), np.minimum(high, math.pi)
    starts = [np.clip(base[columns], low, high), *(rng.uniform(lo, np.maximum(hi, lo)) for _ in range(11))]
    best = min(
        (least_squares(miss, np.clip(s, low, high), bounds=(low, high)) for s in starts), key=lambda found: found.cost
    )
    pose[columns] = np.clip(best.x, limb.skeleton.lower[columns], limb.skeleton.upper[columns]) if limits else best.x
    error = aim_error(limb, pose, place, direction)
    ok = error <= 1e-9
    why = "the point is too near for any bend" if status == TOO_NEAR else "no swivel angle holds every limit"
    message = "reached" if ok else f"{why}: the aim misses by {error:.4f} rad"
    return LimbSolution(
        pose, ok, limb.swivel(pose), Branch(0, 0, 0), message, "REACHED" if ok else STATUS[status % 4 or 3], 0.0, error,
        limb.clearance(pose),
    )  # fmt: skip
