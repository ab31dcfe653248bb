"""What a problem needs to know of its goals when it packs them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from posable.goals.coupling import Coupling
from posable.goals.energy import VectorEnergy
from posable.goals.goal import Goal, Spring
from posable.kernels.fields import WEIGHT, Order
from posable.kernels.springs import CROSS_SPRING, MODEL_SPRING
from posable.skeleton import Skeleton
from posable.skeleton.flatten import elimination_order

MIMIC_WEIGHT = 100.0  # of the couplings that a figure brings along, against 1 for a position


def is_idle(spring: Spring) -> bool:
    """Return whether a spring has weight zero: it reports its error, pulls at nothing and decides nothing."""
    if spring.measures or spring.kind in (MODEL_SPRING, CROSS_SPRING):
        return False
    return not spring.data[..., WEIGHT : WEIGHT + 6].any()


def measured_rows(data: np.ndarray, energy: VectorEnergy, part: slice) -> np.ndarray:
    """Return the rows of spring data (..., g, WIDTH) that hold the targets of an energy in Python: those before it."""
    return data[..., part.start - len(energy.measured) : part.start, :]


def joined_pulls(
    pull: np.ndarray, home: np.ndarray, more: np.ndarray, there: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the springs (n,) on degrees of freedom, and their homes (n,), that two sets of them make together."""
    total = pull + more
    some = total > 0.0
    return total, np.where(some, (pull * home + more * there) / np.where(some, total, 1.0), there)


def mimic_goals(skeleton: Skeleton) -> tuple[Goal, ...]:
    """Return the couplings that a figure brings along as goals.

    They are springs with a high weight and not eliminated, so that any solver serves them and a limit on a follower
    still counts; where everything is reached they hold to their tolerance.
    """
    return tuple(
        Coupling(follower, leader, ratio=ratio, offset=offset, weight=MIMIC_WEIGHT)
        for follower, leader, ratio, offset in skeleton.couplings
    )


def path_of(skeleton: Skeleton, body: int) -> set[int]:
    """Return the degrees of freedom that move a body."""
    out: set[int] = set()
    while body >= 0:
        parent, first, last, _ = skeleton.figure.body[body]
        out.update(range(int(first), int(last)))
        body = int(parent)
    return out


@lru_cache(maxsize=64)
def coupled_order(skeleton: Skeleton, groups: tuple[tuple[int, ...], ...]) -> Order:
    """Return the elimination order of a figure whose degrees of freedom are coupled in groups."""
    return elimination_order(skeleton.figure.dof, groups)
