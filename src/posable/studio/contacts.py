"""Contacts and balance: a body kept in its place over frames, and what the figure stands on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import posable as ps

FIRM, GENTLE = 1.0, 1e-4  # weights: the contact, and how the frame was
TOUCHING = 0.025  # of the figure's size: how near to the floor a point stands on it


def locked(
    skeleton: ps.Skeleton, poses: Mapping[int, np.ndarray], body: str, place: np.ndarray
) -> dict[int, np.ndarray]:
    """Return poses (n,) by frame, each changed as little as needed to hold a body at a place (4, 4)."""
    frames = sorted(poses)
    goal = ps.goals.Pose(body, place, weight=(FIRM, 0.2 * FIRM))
    out = {}
    for frame in frames:
        stay = ps.goals.Posture(poses[frame], weight=GENTLE)
        out[frame] = np.asarray(ps.solve(skeleton, [goal, stay], start=poses[frame], natural=False).pose)
    return out


class Balance(NamedTuple):
    """What a figure stands on: its support polygon (P, 3), its centre of mass and that on the floor (3,), all [m]."""

    polygon: np.ndarray
    centre: np.ndarray
    below: np.ndarray
    steady: bool


def balance_of(skeleton: ps.Skeleton, frames: Any, size: float) -> Balance | None:
    """Return how a figure stands on the floor, or None where it has no mass or nothing touches the floor."""
    mass, local, names = _masses(skeleton)
    if not mass.sum() > 0.0 or skeleton.joints[0].motion.size != 6:
        return None
    places, turns = frames.many(names)
    count = len(mass)
    centre = mass @ (places[:count] + (turns[:count] @ local[..., None])[..., 0]) / mass.sum()
    up = 1 if skeleton.up == "y" else 2
    flat = [axis for axis in range(3) if axis != up]
    on_floor = places[places[:, up] < TOUCHING * size][:, flat]
    if len(on_floor) < 3:
        return None
    hull = _hull(on_floor)
    if len(hull) < 3:
        return None
    polygon = np.zeros((len(hull), 3))
    polygon[:, flat] = hull
    below = centre.copy()
    below[up] = 0.0
    return Balance(polygon, centre, below, _inside(hull, centre[flat]))


@lru_cache(maxsize=8)
def _masses(skeleton: ps.Skeleton) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the masses (J,) [kg] of the joints, their centres (J, 3) [m], and the names of all joints and sites."""
    mass = np.array([max(float(joint.mass), 0.0) for joint in skeleton.joints])
    local = np.array([joint.center for joint in skeleton.joints], dtype=float)
    return mass, local, (*skeleton.names, *skeleton.site_names)


def _hull(points: np.ndarray) -> np.ndarray:
    """Return the convex hull (P, 2) of points (N, 2), anticlockwise."""
    ordered = sorted(set(map(tuple, np.round(points, 6).tolist())))

    def half(sequence: list) -> list:
        out: list = []
        for point in sequence:
            while len(out) > 1 and _turn(out[-2], out[-1], point) <= 0:
                out.pop()
            out.append(point)
        return out[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))


def _turn(a: tuple, b: tuple, c: tuple) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _inside(hull: np.ndarray, point: np.ndarray) -> bool:
    following = np.roll(hull, -1, axis=0)
    edge, to = following - hull, point - hull
    return bool(np.all(edge[:, 0] * to[:, 1] - edge[:, 1] * to[:, 0] >= 0.0))
