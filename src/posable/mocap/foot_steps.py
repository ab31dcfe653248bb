"""When and on what the feet of a motion stand: on the ground, on objects, on whatever holds a foot still."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posable.mocap.contacts import standing_still
from posable.mocap.gaps import runs
from posable.mocap.role_frames import RoleFrames
from posable.mocap.supports import Solid, support_height
from posable.model.body_plan import SIDES
from posable.model.joint_values import Floats

WITHIN = 0.1  # leg lengths by which a top may be above a foot that is on it
LEVEL = 0.08  # leg lengths from its usual height over a surface within which a foot is on that surface
SHORTEST = 0.1  # [s] of a stand
DRIFT = 0.06  # leg lengths by which ankle and toe may leave their places in one stand; then it is two
FEW = 3  # lowest frames, of which the highest is on the ground in a clip without stands
SYMMETRIC = 0.08  # leg lengths above the lower of both ankles within which an ankle stands


class FootSteps:
    """The stands of both feet.

    Attributes:
        heel, toe: {side: (T,) bool}: whether that end of a foot stands.
        ankle_height: {side: [m]}: how high an ankle is over what it stands on.
    """

    def __init__(self, seen: RoleFrames, leg: float, up: Floats, solids: Sequence[Solid]):
        self.heel: dict[str, np.ndarray] = {}
        self.toe: dict[str, np.ndarray] = {}
        self.ankle_height: dict[str, float] = {}
        self._level: dict[str, Floats] = {}
        paths, floors = {}, {}
        for side in SIDES:
            roles = [f"{role}.{side}" for role in ("ankle", "toe") if f"{role}.{side}" in seen.places]
            paths[side] = np.stack([seen.places[role] for role in roles], axis=1)
            floors[side] = support_height(solids, paths[side][:, -1], up, within=WITHIN * leg)
        over = {side: paths[side] @ up - floors[side][:, None] for side in SIDES}
        # a body is symmetric: an ankle that never comes down, of a foot that stays on its toes, stands like the other
        lowest = np.minimum(*(np.quantile(over[side], 0.02, axis=0)[[0, -1]] for side in SIDES))
        for side in SIDES:
            path, floor = paths[side], floors[side]
            standing = standing_still(path, up, leg, seen.fps, floor=floor)
            standing &= over[side] < lowest[: path.shape[1]] + SYMMETRIC * leg
            standing[drifting(standing.any(axis=1), path - (path @ up)[..., None] * up, DRIFT * leg)] = False
            for a, b in runs(np.asarray(standing.any(axis=1))):
                if b - a < SHORTEST * seen.fps:
                    standing[a:b] = False
            self.heel[side], self.toe[side] = standing[:, 0], standing[:, -1]
            both = standing.all(axis=1)
            # without stands, as in a clip of leaps, a foot is on the ground where it is lowest
            usual = np.median(over[side][both], axis=0) if both.sum() > 2 else np.sort(over[side], axis=0)[:FEW][-1]
            usual = np.minimum(usual, lowest[: path.shape[1]] + SYMMETRIC * leg)
            self.ankle_height[side] = float(usual[0])
            # a foot that is held still above the surface stands on what nobody told of: at its own height
            own = path[:, -1] @ up - usual[-1]
            self._level[side] = np.where(np.abs(own - floor) < LEVEL * leg, floor, own)

    def flat(self, side: str) -> np.ndarray:
        """Return whether a foot stands on heel and toe (T,)."""
        return self.heel[side] & self.toe[side]

    def stands(self, side: str) -> list[tuple[int, int, float]]:
        """Return (first frame, end, height of the surface [m]) of every stand of a foot, on any part of it."""
        found = runs(self.heel[side] | self.toe[side])
        return [(a, b, float(np.median(self._level[side][a:b]))) for a, b in found]


def drifting(standing: np.ndarray, paths: Floats, most: float) -> np.ndarray:
    """Return when (T,) a foot goes from one place to another within a stand, as where it turns on the spot.

    Args:
        standing: (T,) bool.
        paths: (T, P, 3) [m] Points of the foot, along the ground.
        most: [m] How far they may be from their places in one stand.
    """
    out = np.zeros(len(standing), dtype=bool)
    speed = np.linalg.norm(np.gradient(paths, axis=0), axis=-1).max(axis=1) if len(paths) > 1 else np.zeros(len(paths))
    left = runs(standing)
    while left:
        a, b = left.pop()
        path = paths[a:b]
        if b - a < 3 or np.linalg.norm(path - np.median(path, axis=0), axis=-1).max() <= most:
            continue
        fastest = a + int(speed[a:b].argmax())
        slow = speed[a:b] < 0.5 * speed[fastest]
        before, after = np.flatnonzero(slow[: fastest - a]), np.flatnonzero(slow[fastest - a :])
        first = a + int(before[-1]) + 1 if len(before) else a
        end = fastest + int(after[0]) if len(after) else b
        out[first:end] = True
        left += [(a, first), (end, b)]
    return out
