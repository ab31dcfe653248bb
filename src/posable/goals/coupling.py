"""Degrees of freedom that follow others: mimic joints, spines that share a bend."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring, numbers, positive, square_weight
from posable.kernels.couplings import FOLLOWER, LEADER, RATIO
from posable.kernels.fields import BODY, ROBUST, SIZE, WEIGHT, WIDTH
from posable.kernels.springs import COUPLING_SPRING
from posable.skeleton import Skeleton

COUPLING_TOLERANCE = 1e-6  # [rad, m]


class Coupling(Goal):
    """Let one joint follow another: energy w/2 (follower - ratio leader - offset)^2 for each of their angles.

    follower, leader: degrees of freedom ("finger2", "spine2.x"), or joints with equally many, all of which follow.
    offset (...,) [rad, m]. tolerance [rad, m]; the error is the largest gap. weight: a number, or one for each angle; a
    matrix must be diagonal, as a spring joins two degrees of freedom and not four.
    """

    def __init__(
        self,
        follower: str,
        leader: str,
        *,
        ratio: float = 1.0,
        offset: Any = 0.0,
        weight: Any = 1.0,
        tolerance: float = COUPLING_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.follower, self.leader = follower, leader
        super().__init__(label, positive(tolerance, f"{self}: tolerance"), priority, robust)
        self.weight = numbers(weight, (), f"{self}: weight")
        if self.weight.ndim > 2 or (self.weight < 0.0).any() or not _is_diagonal(self.weight):
            expected = "a number, one for each angle, or a diagonal matrix, none negative"
            raise GoalError(f"{self}: weight", expected=expected, got=repr(weight))
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
        weights = np.diag(square_weight(self.weight, len(followers), f"{self}: weight"))
        out = []
        for a, b, weight in zip(followers, leaders, weights, strict=True):
            data = np.broadcast_to(coupling_data(a, b, self.ratio), (*self.offset.shape, WIDTH)).copy()
            data[..., SIZE], data[..., WEIGHT] = self.offset, weight
            data[..., ROBUST] = 0.0 if self.robust is None else weight * self.robust**2
            out.append(Spring(COUPLING_SPRING, int(skeleton.figure.dof[a, BODY]), data, self.tolerance))
        return out


def coupling_data(follower: int, leader: int, ratio: float) -> np.ndarray:
    """Return the data (WIDTH,) of a COUPLING spring without weight or offset."""
    data = np.zeros(WIDTH)
    data[FOLLOWER], data[LEADER], data[RATIO] = follower, leader, ratio
    return data


def _is_diagonal(weight: np.ndarray) -> bool:
    square = weight.ndim == 2 and weight.shape[0] == weight.shape[1]
    return weight.ndim < 2 or (square and not np.count_nonzero(weight - np.diag(np.diag(weight))))


def _dofs(skeleton: Skeleton, name: str) -> list[int]:
    """Return the places in a pose of a joint, or of one degree of freedom."""
    if name in skeleton.names:
        where = skeleton.index(name)
        return list(range(where.start, where.stop))
    return [skeleton.dof(name)]
