"""Shapes to keep out of, and the capsules of a figure's bones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import numbers, positive, unit_vectors
from posable.skeleton import Skeleton

RADIUS = 0.15  # of a bone's capsule where none is given, as a part of its length
THINNEST, THICKEST = 0.01, 0.08  # [m]


@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball: center (..., 3) [m] in the world, radius [m]."""

    center: Any
    radius: float

    def __post_init__(self):
        object.__setattr__(self, "center", numbers(self.center, (3,), "Sphere: center"))
        object.__setattr__(self, "radius", positive(self.radius, "Sphere: radius"))

    @property
    def start(self) -> np.ndarray:
        """Where its axis begins (..., 3)."""
        return self.center

    @property
    def axis(self) -> np.ndarray:
        """Its axis (..., 3), of no length."""
        return np.zeros(3)


@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` [m] of the segment from start (..., 3) to end (..., 3) [m] in the world."""

    start: Any
    end: Any
    radius: float

    def __post_init__(self):
        object.__setattr__(self, "start", numbers(self.start, (3,), "Capsule: start"))
        object.__setattr__(self, "end", numbers(self.end, (3,), "Capsule: end"))
        object.__setattr__(self, "radius", positive(self.radius, "Capsule: radius"))

    @property
    def axis(self) -> np.ndarray:
        """From start to end (..., 3) [m]."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Wall:
    """Everything behind a plane: a point (..., 3) [m] of it and its normal (..., 3), which points to the free side."""

    point: Any
    normal: Any

    def __post_init__(self):
        object.__setattr__(self, "point", numbers(self.point, (3,), "Wall: point"))
        object.__setattr__(self, "normal", unit_vectors(self.normal, "Wall: normal"))


def bone_capsule(
    skeleton: Skeleton, body: str, ends: Any, radius: Any, what: str
) -> tuple[int, np.ndarray, np.ndarray, float]:
    """Return (body index, start (3,), axis (3,), radius) [m] of a bone's capsule, in the body's own axes.

    ends: two points (2, 3) in the named frame; None: from the joint to its first child, or to its farthest site where
    it has none. radius: None: 15 % of the length, 1 cm to 8 cm.
    """
    frame = skeleton.frame(body)
    index = int(skeleton.frame_bodies[frame])
    if ends is not None:
        points = numbers(ends, (2, 3), what + ": ends")
        rotation, position = skeleton.frame_rotations[frame], skeleton.frame_positions[frame]
        start, stop = position + rotation @ points[0], position + rotation @ points[1]
    else:
        joint = body if body in skeleton.names else skeleton.sites[frame - len(skeleton.names)].joint
        start, stop = _bone(skeleton, joint)
    axis = stop - start
    if radius is None:
        radius = min(max(RADIUS * float(np.linalg.norm(axis)), THINNEST), THICKEST)
    return index, start, axis, positive(radius, what + ": radius")


def _bone(skeleton: Skeleton, joint: str) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends (3,) of a joint's bone in the axes of its body."""
    frame = skeleton.frame(joint) if joint not in skeleton.site_names else skeleton.names.index(joint)
    position, rotation = skeleton.frame_positions[frame], skeleton.frame_rotations[frame]
    places = [np.asarray(child.offset, dtype=float) for child in skeleton.joints if child.parent == joint]
    places = [place for place in places if np.linalg.norm(place) > 1e-6][:1]
    if not places:
        sites = [np.asarray(site.offset, dtype=float) for site in skeleton.sites if site.joint == joint]
        places = sorted(sites, key=lambda place: -float(np.linalg.norm(place)))[:1]
    if not places:
        raise GoalError(f"Avoid({joint!r})", expected="ends=(start, end): the bone has no child and no site", got=None)
    return position, position + rotation @ places[0]
