"""Foot contacts: when and where a foot stands on the ground, detected from its height and speed.

`standing_still` is the criterion for a point of a foot. `find_contacts` applies it on level ground, for smoothing and
reports; supports.py applies it on any surface.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter1d

from posable.errors import PosableError
from posable.mocap.gaps import runs
from posable.model.body_plan import SIDES, BodyPlan, body_plan
from posable.model.kinematics import forward
from posable.model.motion import Motion

SPEED = 0.35  # [leg lengths per second] below which a low foot stands
HEIGHT = 0.06  # [leg lengths] above its lowest position within which a foot is low
SHORTEST = 0.08  # [s] shortest contact
BREAK = 0.05  # [s] of motion within a contact that does not end it
PART = 4096  # frames processed at a time
QUIET = 0.4  # fraction of SPEED that noise may contribute
SMOOTHEST = 0.06  # [s] largest width of the Gaussian filter against noise
_FOURTH = 8.3666  # sqrt(70): amplification of white noise by fourth differences
_QUARTER = 0.3186  # standard deviations that contain a quarter of a normal distribution


@dataclass(frozen=True, eq=False)
class Contacts:
    """When and where points of a figure stand on the ground.

    Attributes:
        points: Names of P joints or sites.
        standing: (T, P) bool.
        places: (T, P, 3) [m] Constant during a contact; NaN outside contacts.
    """

    points: tuple[str, ...]
    standing: np.ndarray
    places: np.ndarray

    def steps(self) -> list[tuple[str, int, int]]:
        """Return (point, first frame, end) of every contact."""
        return [(point, a, b) for k, point in enumerate(self.points) for a, b in runs(self.standing[:, k])]

    def slips(self, motion: Motion) -> np.ndarray:
        """Return for every contact the largest displacement [m] of its point along the ground in a motion."""
        up = motion.skeleton.up_vector
        out = []
        paths = paths_of(motion, self.points)
        for point, a, b in self.steps():
            path = paths[a:b, self.points.index(point)]
            flat = path - np.outer(path @ up, up)
            out.append(float(np.linalg.norm(flat - flat.mean(axis=0), axis=-1).max()))
        return np.array(out)


def foot_points(plan: BodyPlan) -> tuple[str, ...]:
    """Return the points of the feet that can stand: the ankles and toes that the figure has."""
    return tuple(plan[f"{role}.{side}"] for side in SIDES for role in ("ankle", "toe") if f"{role}.{side}" in plan)


def paths_of(motion: Motion, points: Sequence[str]) -> np.ndarray:
    """Return the positions (T, P, 3) [m] of points, computed in chunks to save memory."""
    out = np.empty((len(motion), len(points), 3))
    for start in range(0, len(motion) if points else 0, PART):
        frames = forward(motion.skeleton, motion.poses[start : start + PART])
        for k, point in enumerate(points):
            out[start : start + PART, k] = frames.position(point)
    return out


def find_contacts(motion: Motion, plan: BodyPlan | None = None) -> Contacts:
    """Return the contacts of the feet, from the height and speed of ankles and toes."""
    try:
        plan = plan or body_plan(motion.skeleton)
    except PosableError:
        return Contacts((), np.zeros((len(motion), 0), dtype=bool), np.zeros((len(motion), 0, 3)))
    points = foot_points(plan)
    paths = paths_of(motion, points)
    standing = standing_still(paths, motion.skeleton.up_vector, plan.leg, motion.fps)
    return Contacts(points, standing, held_places(paths, standing))


def standing_still(
    paths: np.ndarray, up: np.ndarray, leg: float, fps: float, floor: np.ndarray | None = None
) -> np.ndarray:
    """Return (T, P) bool: which points are low and slow.

    Args:
        paths: (T, P, 3) [m] Positions of the points.
        up: (3,) Unit vector.
        leg: [m] Length of a leg.
        fps: Frames per second.
        floor: [m] Height of the surface below the points, if it is not level.
    """
    count = len(paths)
    if count < 3:
        return np.zeros(paths.shape[:2], dtype=bool)
    paths = without_noise(paths, leg, fps)
    heights = paths @ up - (0.0 if floor is None else floor[:, None])
    low = heights < np.quantile(heights, 0.02, axis=0) + HEIGHT * leg
    reach = _reach(fps)
    ahead, behind = np.minimum(np.arange(count) + reach, count - 1), np.maximum(np.arange(count) - reach, 0)
    speed = np.linalg.norm(paths[ahead] - paths[behind], axis=-1) * fps / (ahead - behind)[:, None]
    still = low & (speed < SPEED * leg)
    for k in range(paths.shape[1]):
        for a, b in runs(~still[:, k]):
            if b - a < BREAK * fps and a > 0 and b < count and low[a:b, k].all():
                still[a:b, k] = True
        for a, b in runs(still[:, k]):
            if b - a < SHORTEST * fps:
                still[a:b, k] = False
    return still


def _reach(fps: float) -> int:
    """Return the number of frames on either side over which speed is measured, to average out noise."""
    return max(1, round(0.02 * fps))


def without_noise(paths: np.ndarray, leg: float, fps: float) -> np.ndarray:
    """Return paths (T, P, 3) [m] smoothed just enough to recognise a standing foot by its speed.

    White noise of standard deviation s per coordinate adds s sqrt(6) / (2 reach) per frame to the speed measured over
    `reach` frames on either side; after a Gaussian filter of width w [frames], s sqrt(3 / (4 sqrt(pi) w^3)).
    """
    if len(paths) < 5 or not paths.shape[1]:
        return paths
    jolts = np.abs(np.diff(paths, n=4, axis=0))  # in the quietest quarter of the frames they are only noise
    noise = float(np.quantile(jolts, 0.25, axis=(0, 2)).max()) / (_FOURTH * _QUARTER)
    allowed = QUIET * SPEED * leg / fps
    if noise * np.sqrt(6.0) / (2 * _reach(fps)) <= allowed:
        return paths
    width = np.cbrt(3.0 / (4.0 * np.sqrt(np.pi)) * (noise / allowed) ** 2)
    return gaussian_filter1d(paths, min(width, SMOOTHEST * fps), axis=0, mode="nearest")


def held_places(paths: np.ndarray, standing: np.ndarray) -> np.ndarray:
    """Return (T, P, 3) [m]: the median position of each contact, constant during it; NaN elsewhere."""
    out = np.full(paths.shape, np.nan)
    for k in range(paths.shape[1]):
        for a, b in runs(standing[:, k]):
            out[a:b, k] = np.median(paths[a:b, k], axis=0)
    return out
