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
        for side in SIDES:
            paths = [seen.places[f"{role}.{side}"] for role in ("ankle", "toe") if f"{role}.{side}" in seen.places]
            path = np.stack(paths, axis=1)
            floor = support_height(solids, path[:, -1], up, within=WITHIN * leg)
            over = path @ up - floor[:, None]
            standing = standing_still(path, up, leg, seen.fps, floor=floor)
            for a, b in runs(np.asarray(standing.any(axis=1))):
                if b - a < SHORTEST * seen.fps:
                    standing[a:b] = False
            self.heel[side], self.toe[side] = standing[:, 0], standing[:, -1]
            both = standing.all(axis=1)
            rows = both if both.sum() > 2 else over[:, 0] <= np.quantile(over[:, 0], 0.1)
            usual = np.median(over[rows], axis=0)
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
