"""The solution of a limb, its branch, its elbow circle and its swivel ranges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Branch(NamedTuple):
    """Which solution it is: the side of the elbow (0 or 1), and the family of each ball joint's angles (0 or 1)."""

    middle: int
    first: int
    last: int


class ElbowCircle(NamedTuple):
    """The circle of the middle joint in the world: centre + radius (cos(swivel) u + sin(swivel) v)."""

    centre: np.ndarray  # (3,) [m]
    radius: float  # [m]
    normal: np.ndarray  # (3,): from the first joint towards the goal
    u: np.ndarray  # (3,): the reference direction, across the normal
    v: np.ndarray  # (3,): normal x u

    @property
    def center(self) -> np.ndarray:
        """The centre, in American spelling."""
        return self.centre

    def point(self, swivel: Any) -> np.ndarray:
        """Return the position (..., 3) [m] of the middle joint at swivel angles (...)."""
        angle = np.asarray(swivel, dtype=float)[..., None]
        return self.centre + self.radius * (np.cos(angle) * self.u + np.sin(angle) * self.v)


class SwivelRange(tuple):
    """A range of swivel angles (lo, hi) [rad], -pi <= lo < pi, lo <= hi <= lo + 2 pi, and the limits that end it.

    `lo_limit` and `hi_limit` read like "shoulder.y upper"; both are empty if the range is the whole circle.
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
        """The width [rad]."""
        return self[1] - self[0]

    def __contains__(self, angle: object) -> bool:
        """Return whether a swivel angle is inside, up to whole turns."""
        return bool((float(angle) - self[0]) % (2.0 * np.pi) <= self.width)  # type: ignore[arg-type]  # a number

    def __str__(self) -> str:
        ends = f", from {self.lo_limit} to {self.hi_limit}" if self.lo_limit or self.hi_limit else ""
        return f"[{self[0]:.4f}, {self[1]:.4f}] rad{ends}"


STATUS = ("REACHED", "TOO_FAR", "TOO_NEAR", "NO_SWIVEL")


@dataclass(frozen=True, eq=False)
class LimbSolution:
    """A pose of the whole figure with the limb solved; for a batch, every field has the batch's leading axes.

    Attributes:
        pose: (..., n) [rad, m].
        ok: Whether the goal is met to 1e-9 and, unless limits were off, every limit is respected.
        swivel: [rad].
        branch: Which of the solutions it is.
        message: What happened, as a sentence.
        status: REACHED, TOO_FAR, TOO_NEAR or NO_SWIVEL.
        position_error: [m], of the last joint for a pose target, of the site for a position.
        rotation_error: [rad].
        clearance: [rad], the distance to the nearest limit; negative outside.
        spin: [rad], of a partial orientation; None for other goals.
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
        """One minus the product of the quaternions, the error of a full rotation in (Tolani et al. 2000, 3.5)."""
        return 1.0 - np.cos(0.5 * np.asarray(self.rotation_error))[()]

    @property
    def axis_error(self) -> Any:
        """The square of one minus the cosine, the error of an axis or an aim in (Tolani et al. 2000, 3.5)."""
        return np.square(1.0 - np.cos(np.asarray(self.rotation_error)))[()]

    def __str__(self) -> str:
        if np.ndim(self.ok):
            good = int(np.sum(self.ok))
            return f"{good} of {np.size(self.ok)} goals reached"
        return self.message
