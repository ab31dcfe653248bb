"""The planar two-link arm in closed form (seed 002, 5.3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.errors import GoalError


def two_link(first: float, second: float, target: Any) -> tuple[np.ndarray, Any]:
    """Return both solutions (..., 2, 2) [rad] of a planar arm of two links [m], and whether it reaches (...).

    target (..., 2) [m] is the end's place, with the first joint at the origin; angles are relative: (theta1, theta2)
    puts the end at first (cos, sin)(theta1) + second (cos, sin)(theta1 + theta2). Solution 0 bends left, 1 right;
    they meet at full stretch. Out of reach, both stretch towards the target, or fold. At the origin, where any theta1
    will do, it is as for a target on the x axis.
    """
    p = np.asarray(target, dtype=float)
    if p.shape[-1:] != (2,) or not np.all(np.isfinite(p)):
        raise GoalError("target", expected="finite numbers of shape (..., 2)", got=repr(target))
    if not (first > 0.0 and second > 0.0):
        raise GoalError("links", expected="two positive lengths", got=(first, second))
    distance = np.hypot(p[..., 0], p[..., 1])
    near, far = abs(first - second), first + second
    # The half-angle form of the cosine rule keeps the digits that an inverse cosine loses at full stretch and folded.
    short = np.sqrt(np.maximum(0.0, (far - distance) * (far + distance)))
    wide = np.sqrt(np.maximum(0.0, (distance - near) * (distance + near)))
    bend = 2.0 * np.arctan2(short, wide)
    towards = np.arctan2(p[..., 1], p[..., 0])
    lead = np.arctan2(second * np.sin(bend), first + second * np.cos(bend))
    left = np.stack([towards - lead, bend], axis=-1)
    right = np.stack([towards + lead, -bend], axis=-1)
    slack = 1e-12 * far
    reached = (distance <= far + slack) & (distance >= near - slack)
    return np.stack([left, right], axis=-2), reached if p.ndim > 1 else bool(reached)
