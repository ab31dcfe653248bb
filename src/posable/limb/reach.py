"""How far a limb reaches."""

from __future__ import annotations

from typing import Any

import numpy as np

from .anatomy import BACK, LOWER, LOWER_TURN, TOOL, Anatomy
from .balls import ball_rotation


def tip_of(anatomy: Anatomy, held: Any) -> np.ndarray:
    """Return the last joint's place (3,) [m] in the middle body; with its raw numbers held (3,), the site's."""
    tip = anatomy.place[LOWER : LOWER + 3].copy()
    if held is not None:
        memory = np.concatenate([np.asarray(held, dtype=float), np.empty(18)])  # the numbers, the rotation, the axes
        ball_rotation(anatomy.shape, 1, memory, 0, 3, 12)
        rotation = memory[3:12]
        turn = anatomy.place[LOWER_TURN : LOWER_TURN + 9].reshape(3, 3)
        tip += turn @ rotation.reshape(3, 3) @ anatomy.place[TOOL : TOOL + 3]
    return tip


def distances(anatomy: Anatomy, held: Any, limits: bool) -> tuple[float, float]:
    """Return the least and greatest distance [m] from the first joint, inside the middle joint's limits or without."""
    tip = tip_of(anatomy, held)
    k = int(anatomy.shape[2, 0])
    u, v = (k + 1) % 3, (k + 2) % 3
    a, b = anatomy.place[BACK : BACK + 3], tip
    along, p, q = a[k] + b[k], np.hypot(a[u], a[v]), np.hypot(b[u], b[v])
    near, far = np.hypot(along, p - q), np.hypot(along, p + q)
    low, high = anatomy.box[3]
    if not limits or not high - low < 2.0 * np.pi:
        return float(near), float(far)
    straight = np.arctan2(a[v] * b[u] - a[u] * b[v], a[u] * b[u] + a[v] * b[v])
    angles = [low, high]
    for turn in (straight, straight + np.pi):
        angle = low + (turn - low) % (2.0 * np.pi)
        if angle <= high:
            angles.append(angle)
    reach = np.sqrt(near**2 + (far**2 - near**2) * np.cos(0.5 * (np.array(angles) - straight)) ** 2)
    return float(reach.min()), float(reach.max())
