"""Feet on the ground: when a foot stands, found from its height and speed, and where it stands."""

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
from posable.model.skeleton import Skeleton

SPEED = 0.35  # leg lengths a second below which a low foot stands
HEIGHT = 0.06  # leg lengths above its lowest place within which a foot is low
SHORTEST = 0.08  # [s] of a contact
BREAK = 0.05  # [s] of movement inside a contact that does not end it
PART = 4096  # frames whose bodies are placed at a time
QUIET = 0.4  # of the speed of a standing foot: what noise may add to it
SMOOTHEST = 0.06  # [s]: of the Gauss curve that takes noise away
_FOURTH = 8.3666  # sqrt(70): of fourth differences of noise against the noise itself
_QUARTER = 0.3186  # standard deviations within which a quarter of all normal numbers is


@dataclass(frozen=True, eq=False)
class Contacts:
    """When points of a figure stand still on the ground.

    points: names of joints or sites. standing (T, P): whether each stands. places (T, P, 3) [m]: where, the same
    through one contact; NaN where it does not stand.
    """

    points: tuple[str, ...]
    standing: np.ndarray
    places: np.ndarray

    def steps(self) -> list[tuple[str, int, int]]:
        """Return (point, first frame, end) of every contact."""
        return [(point, a, b) for k, point in enumerate(self.points) for a, b in runs(self.standing[:, k])]

    def slips(self, motion: Motion) -> np.ndarray:
        """Return, for every contact, how far its point strays along the ground in a motion [m], at most."""
        up = _up(motion.skeleton)
        out = []
        paths = paths_of(motion, self.points)
        for point, a, b in self.steps():
            path = paths[a:b, self.points.index(point)]
            flat = path - np.outer(path @ up, up)
            out.append(float(np.linalg.norm(flat - flat.mean(axis=0), axis=-1).max()))
        return np.array(out)


def _up(skeleton: Skeleton) -> np.ndarray:
    return np.array([0.0, 0.0, 1.0]) if skeleton.up == "z" else np.array([0.0, 1.0, 0.0])


def foot_points(plan: BodyPlan) -> tuple[str, ...]:
    """Return the points of the feet that can stand: ankle and toe of either side, as far as the figure has them."""
    return tuple(plan[f"{role}.{side}"] for side in SIDES for role in ("ankle", "toe") if f"{role}.{side}" in plan)


def paths_of(motion: Motion, points: Sequence[str]) -> np.ndarray:
    """Return where points of a figure are (T, P, 3) [m]; of an hour the frames of all bodies are never held at once."""
    out = np.empty((len(motion), len(points), 3))
    for start in range(0, len(motion) if points else 0, PART):
        frames = forward(motion.skeleton, motion.poses[start : start + PART])
        for k, point in enumerate(points):
            out[start : start + PART, k] = frames.position(point)
    return out


def find_contacts(motion: Motion, plan: BodyPlan | None = None) -> Contacts:
    """Return when the feet of a figure stand, from the height and the speed of its ankles and toes."""
    skeleton = motion.skeleton
    try:
        plan = plan or body_plan(skeleton)
    except PosableError:
        return Contacts((), np.zeros((len(motion), 0), dtype=bool), np.zeros((len(motion), 0, 3)))
    points = foot_points(plan)
    paths = paths_of(motion, points)
    standing = standing_still(paths, _up(skeleton), plan.leg, motion.fps)
    return Contacts(points, standing, held_places(paths, standing))


def standing_still(
    paths: np.ndarray, up: np.ndarray, leg: float, fps: float, floor: np.ndarray | None = None
) -> np.ndarray:
    """Return (T, P) bool: which points with paths (T, P, 3) [m] are low and slow.

    floor: (T,) [m], the height of the surface under the points, where it is not level.
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
    """Return the frames on either side from which a speed is taken: from neighbours alone it is noise."""
    return max(1, round(0.02 * fps))


def without_noise(paths: np.ndarray, leg: float, fps: float) -> np.ndarray:
    """Return paths (T, P, 3) [m] as smooth as it takes to tell a standing foot by its speed: clean ones as they are.

    White noise of size s on every coordinate adds s sqrt(6) / (2 reach) a frame to the speed over `reach` frames on
    either side; after a Gauss curve of width w [frames], which delays nothing, s sqrt(3 / (4 sqrt(pi) w^3)).
    """
    if len(paths) < 5 or not paths.shape[1]:
        return paths
    jolts = np.abs(np.diff(paths, n=4, axis=0))  # a quarter of the frames is quiet: there they are noise alone
    noise = float(np.quantile(jolts, 0.25, axis=(0, 2)).max()) / (_FOURTH * _QUARTER)
    allowed = QUIET * SPEED * leg / fps
    if noise * np.sqrt(6.0) / (2 * _reach(fps)) <= allowed:
        return paths
    width = np.cbrt(3.0 / (4.0 * np.sqrt(np.pi)) * (noise / allowed) ** 2)
    return gaussian_filter1d(paths, min(width, SMOOTHEST * fps), axis=0, mode="nearest")


def held_places(paths: np.ndarray, standing: np.ndarray) -> np.ndarray:
    """Return (T, P, 3) [m]: the middle of each contact, through all of it; NaN elsewhere."""
    out = np.full(paths.shape, np.nan)
    for k in range(paths.shape[1]):
        for a, b in runs(standing[:, k]):
            out[a:b, k] = np.median(paths[a:b, k], axis=0)
    return out
