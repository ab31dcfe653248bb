"""Goals of the pose itself: a posture to stay near, and degrees of freedom that follow others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring, numbers, positive
from posable.kernels.couplings import FOLLOWER, LEADER, RATIO
from posable.kernels.fields import BODY, ROBUST, SIZE, WEIGHT, WIDTH
from posable.kernels.springs import COUPLING_SPRING
from posable.skeleton import Skeleton

COUPLING_TOLERANCE = 1e-6  # [rad, m]


class Posture(Goal):
    """Stay near a posture where the other goals leave a choice: energy w/2 gain_i (theta_i - home_i)^2.

    pose: (n,), {"elbow.R": 0.3, ...} with the rest at rest, "rest" (None) or "middle" of the limits. gains: a number,
    (n,), or {joint: number} for those alone; the joints' own by default. It is soft: it never decides `ok`, and its
    default weight moves a hand that can be reached by micrometres, well inside the tolerance. The linear term of seed
    002 (5.27), as meant.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self, pose: Any = None, gains: Any = None, *, weight: float = 1e-6, label: str | None = None, priority: int = 0
    ):
        super().__init__(label, np.inf, priority, None)
        self.weight = positive(weight, "Posture: weight")
        self.gains = gains
        self.aim(pose)

    def aim(self, target: Any) -> None:
        """Take a pose."""
        if isinstance(target, str) and target not in ("rest", "middle"):
            raise GoalError("Posture: pose", expected="'rest', 'middle', (n,) or a pose by name", got=repr(target))
        self.pose = target

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """None on bodies: see `pulls`."""
        return []

    def pulls(self, skeleton: Skeleton) -> tuple[np.ndarray, np.ndarray]:
        """Return the stiffness (n,) of the spring on each degree of freedom, and its home (n,)."""
        return self.weight * self._gains(skeleton), self._home(skeleton)

    def _home(self, skeleton: Skeleton) -> np.ndarray:
        if self.pose is None or (isinstance(self.pose, str) and self.pose == "rest"):
            return skeleton.rest.copy()
        if isinstance(self.pose, str):
            bounded = np.isfinite(skeleton.lower) & np.isfinite(skeleton.upper)
            both = np.where(bounded, skeleton.lower, 0.0) + np.where(bounded, skeleton.upper, 0.0)
            return np.where(bounded, 0.5 * both, skeleton.rest)
        if isinstance(self.pose, dict):
            return skeleton.pose(self.pose)
        home = numbers(self.pose, (skeleton.size,), "Posture: pose")
        if home.ndim != 1:
            raise GoalError("Posture: pose", expected=f"one pose ({skeleton.size},)", got=f"shape {home.shape}")
        return home

    def _gains(self, skeleton: Skeleton) -> np.ndarray:
        if self.gains is None:
            return skeleton.gain.copy()
        if isinstance(self.gains, dict):
            out = np.zeros(skeleton.size)
            for joint, gain in self.gains.items():
                out[skeleton.index(joint)] = positive(gain, f"Posture: gain of {joint!r}")
            return out
        gains = np.broadcast_to(numbers(self.gains, (), "Posture: gains"), (skeleton.size,))
        if (gains < 0.0).any():
            raise GoalError("Posture: gains", expected="numbers that are not negative", got=f"{gains.min():g}")
        return gains.copy()


class Coupling(Goal):
    """Let one joint follow another: energy w/2 (follower - ratio leader - offset)^2 for each of their angles.

    follower, leader: degrees of freedom ("finger2", "spine2.x"), or joints with equally many, all of which follow.
    offset (...,) [rad, m]. tolerance [rad, m]; the error is the largest gap.
    """

    def __init__(
        self,
        follower: str,
        leader: str,
        *,
        ratio: float = 1.0,
        offset: Any = 0.0,
        weight: float = 1.0,
        tolerance: float = COUPLING_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.follower, self.leader = follower, leader
        super().__init__(label, positive(tolerance, f"{self}: tolerance"), priority, robust)
        self.weight = positive(weight, f"{self}: weight")
        self.ratio = float(numbers(ratio, (), f"{self}: ratio"))
        self.aim(offset)

    def default_label(self) -> str:
        """Return "finger2 follows finger1"."""
        return f"{self.follower} follows {self.leader}"

    def aim(self, target: Any) -> None:
        """Take an offset (...,)."""
        self.offset = numbers(target, (), f"{self}: offset")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One COUPLING spring for each angle; they share one error."""
        followers, leaders = _dofs(skeleton, self.follower), _dofs(skeleton, self.leader)
        if len(followers) != len(leaders):
            raise GoalError(
                f"{self}", expected=f"{len(followers)} degrees of freedom of {self.leader!r}", got=f"{len(leaders)}"
            )
        if followers == leaders:
            raise GoalError(f"{self}", expected="two different joints", got=f"{self.leader!r} twice")
        out = []
        for a, b in zip(followers, leaders, strict=True):
            data = np.zeros((*self.offset.shape, WIDTH))
            data[..., FOLLOWER], data[..., LEADER], data[..., RATIO] = a, b, self.ratio
            data[..., SIZE], data[..., WEIGHT] = self.offset, self.weight
            data[..., ROBUST] = 0.0 if self.robust is None else self.weight * self.robust**2
            out.append(Spring(COUPLING_SPRING, int(skeleton.figure.dof[a, BODY]), data, self.tolerance))
        return out


def _dofs(skeleton: Skeleton, name: str) -> list[int]:
    """Return the places in a pose of a joint, or of one degree of freedom."""
    if name in skeleton.names:
        where = skeleton.index(name)
        return list(range(where.start, where.stop))
    return [skeleton.dof(name)]
