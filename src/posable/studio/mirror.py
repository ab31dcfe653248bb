"""The mirror image of a pose: left and right swapped, whatever the axes of a figure's joints."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

import posable as ps

_SWAPS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"))
_SIDE = re.compile(r"(?:(?<=^)|(?<=[._\-:0-9]))([lrLR])(?=$|[._\-0-9])")
_FRONT = re.compile(r"^([lrLR])(?=[A-Za-z])")
_OTHER = {"l": "r", "r": "l", "L": "R", "R": "L"}


@lru_cache(maxsize=32)
def partners(skeleton: ps.Skeleton) -> dict[str, str]:
    """Return the joint on the other side of each joint; one in the middle is its own partner."""
    names = set(skeleton.names)
    return {name: next((other for other in _others(name) if other in names), name) for name in skeleton.names}


def _others(name: str) -> list[str]:
    found = []
    for left, right in _SWAPS:
        if left in name or right in name:
            found.append(re.sub(f"{left}|{right}", lambda m: right if m[0] == left else left, name))  # noqa: B023
    found.append(_SIDE.sub(lambda m: _OTHER[m[1]], name))
    found.append(_FRONT.sub(lambda m: _OTHER[m[1]], name))
    return [other for other in found if other != name]


def mirrored(skeleton: ps.Skeleton, pose: np.ndarray) -> np.ndarray | None:
    """Return a pose (n,) with left and right swapped where the figure stands, or None where it has no two sides.

    Every joint turns as its partner did, reflected in the plane that halves the figure: the world rotation of a joint
    becomes M R R0^T M S0, with M the reflection, R and R0 its partner's rotation now and at rest, S0 its own at rest.
    """
    pairs = partners(skeleton)
    sides = [(name, other) for name, other in pairs.items() if name != other]
    if not sides:
        return None
    rest, now = ps.forward(skeleton, skeleton.rest), ps.forward(skeleton, pose)
    root = skeleton.names[0]
    up = np.array([0.0, 1.0, 0.0]) if skeleton.up == "y" else np.array([0.0, 0.0, 1.0])
    across = sum((_across(rest, name, other) for name, other in sides), np.zeros(3))
    if np.linalg.norm(across) < 1e-6:
        return None
    turned = now.rotation_matrix(root) @ rest.rotation_matrix(root).T @ across
    normal = turned - (turned @ up) * up
    normal = normal if np.linalg.norm(normal) > 0.1 * np.linalg.norm(turned) else turned
    normal = normal / np.linalg.norm(normal)
    reflect, at_rest = _reflection(normal), rest.rotation_matrix
    goals: list[ps.goals.Goal] = []
    for name, other in pairs.items():
        # what the figure was turned by as a whole is reflected with it: the plane turns along
        turn = reflect @ now.rotation_matrix(other) @ at_rest(other).T @ _reflection(across / np.linalg.norm(across))
        goals.append(ps.goals.Orientation(name, turn @ at_rest(name), label=name))
    goals.append(ps.goals.Position(root, now.position(root), label="root place"))
    start = pose.copy()
    for name, other in sides:
        where, there = skeleton.index(name), skeleton.index(other)
        if where.stop - where.start == there.stop - there.start:
            start[where] = pose[there]
    inside = np.clip(start, skeleton.lower, skeleton.upper)
    return np.asarray(ps.solve(skeleton, goals, start=inside, natural=False).pose)


def _across(rest: Any, name: str, other: str) -> np.ndarray:
    """Return the way (3,) from the right one of a pair to the left one; which is which only decides the sign."""
    way = rest.position(name) - rest.position(other)
    return way if name < other else -way


def _reflection(normal: np.ndarray) -> np.ndarray:
    return np.eye(3) - 2.0 * np.outer(normal, normal)
