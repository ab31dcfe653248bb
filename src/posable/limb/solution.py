"""What a limb answers with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Branch(NamedTuple):
    """Which of the solutions it is: the elbow's side (0 or 1), and the family of each ball joint's numbers (0 or 1)."""

    middle: int
    first: int
    last: int


class ElbowCircle(NamedTuple):
    """The circle on which the middle joint can be: centre + radius (cos(swivel) u + sin(swivel) v), in the world."""

    centre: np.ndarray  # (3,) [m]
    radius: float  # [m]
    normal: np.ndarray  # (3,): from the first joint towards the goal
    u: np.ndarray  # (3,): the reference direction, across the normal
    v: np.ndarray  # (3,): normal x u

    @property
    def center(self) -> np.ndarray:
        """The centre, spelt the other way."""
        return self.centre

    def point(self, swivel: Any) -> np.ndarray:
        """Return the middle joint's place (..., 3) [m] at swivel angles (...)."""
        angle = np.asarray(swivel, dtype=float)[..., None]
        return self.centre + self.radius * (np.cos(angle) * self.u + np.sin(angle) * self.v)


class SwivelRange(tuple):
    """A range of swivel angles (lo, hi) [rad], -pi <= lo < pi, lo <= hi <= lo + 2 pi, and the limits that end it.

    `lo_limit` and `hi_limit` read like "shoulder.y upper"; they are empty where the range is the whole circle.
    """

    lo_limit: str
    hi_limit: str

    def __new__(cls, lo: float, hi: float, lo_limit: str = "", hi_limit: str = ""):  # noqa: D102
        self = super().__new__(cls, (float(lo), float(hi)))
        self.lo_limit, self.hi_limit = lo_limit, hi_limit
        return self

    def __getnewargs__(self):
        return (*self, self.lo_limit, self.hi_limit)

    @property
    def width(self) -> float:
        """How wide it is [rad]."""
        return self[1] - self[0]

    def __contains__(self, angle: object) -> bool:
        """Say whether a swivel angle, turned by whole turns as needed, is inside."""
        return bool((float(angle) - self[0]) % (2.0 * np.pi) <= self.width)  # type: ignore[arg-type]

    def __str__(self) -> str:
        ends = f", from {self.lo_limit} to {self.hi_limit}" if self.lo_limit or self.hi_limit else ""
        return f"[{self[0]:.4f}, {self[1]:.4f}] rad{ends}"


STATUS = ("REACHED", "TOO_FAR", "TOO_NEAR", "NO_SWIVEL")


@dataclass(frozen=True, eq=False)
class LimbSolution:
    """A pose of the whole figure with the limb solved; for a batch, every field has the batch's leading axes.

    pose (..., n). ok: the goal is met to 1e-9 and, unless limits were off, every limit is held. swivel [rad]. branch.
    status: REACHED, TOO_FAR, TOO_NEAR or NO_SWIVEL. message: the same in a sentence. position_error [m]: of the last
    joint for a pose target, of the site for a position. rotation_error [rad]. clearance [rad]: how far the joint
    nearest to its limits stays inside them; negative outside. spin [rad]: of a partial orientation.
    """

    pose: np.ndarray
    ok: Any
    swivel: Any
    branch: Any
    message: Any
    status: Any = "REACHED"
    position_error: Any = 0.0
    rotation_error: Any = 0.0
    clearance: Any = np.inf
    spin: Any = field(default=None)

    @property
    def quaternion_error(self) -> Any:
        """One minus the product of the quaternions, as (Tolani et al. 2000, 3.5) measures a whole rotation."""
        return 1.0 - np.cos(0.5 * np.asarray(self.rotation_error))[()]

    @property
    def axis_error(self) -> Any:
        """The square of one minus the cosine, as (Tolani et al. 2000, 3.5) measures partial orientations and aims."""
        return np.square(1.0 - np.cos(np.asarray(self.rotation_error)))[()]

    def __str__(self) -> str:
        if np.ndim(self.ok):
            good = int(np.sum(self.ok))
            return f"{good} of {np.size(self.ok)} goals reached"
        return self.message
