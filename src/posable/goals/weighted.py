"""One full weight matrix over several effectors: seed 000 (17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring, numbers, range_of, six
from posable.goals.position import Position
from posable.kernels.fields import ALONG, AT, AXES, AXES2, MEASURE, POINT, POINT2, SIZE, WEIGHT, WIDTH
from posable.kernels.springs import CROSS_SPRING
from posable.skeleton import Skeleton


class Weighted(Goal):
    """Several positions under one weight matrix: energy 1/2 r'W r, r the stacked misses of all of them.

    goals: Position goals; their own weights are not used. matrix (3k, 3k): symmetric, positive definite. Its blocks off
    the diagonal say how a miss of one effector may be paid with a miss of another. Each goal keeps its tolerance.
    """

    def __init__(self, goals: Iterable[Position], matrix: Any, *, label: str | None = None, priority: int = 0):
        self.goals = tuple(goals)
        for goal in self.goals:
            if not isinstance(goal, Position):
                raise GoalError("Weighted: goals", expected="Position goals", got=repr(goal))
        if not self.goals:
            raise GoalError("Weighted: goals", expected="one Position goal or more", got="none")
        super().__init__(label, tuple(goal.tolerance for goal in self.goals), priority, None)
        size = 3 * len(self.goals)
        self.matrix = numbers(matrix, (size, size), "Weighted: matrix")
        if self.matrix.ndim != 2 or np.abs(self.matrix - self.matrix.T).max() > 1e-9 * np.abs(self.matrix).max():
            raise GoalError("Weighted: matrix", expected=f"a symmetric matrix ({size}, {size})", got="another")
        try:
            self.root = np.linalg.cholesky(0.5 * (self.matrix + self.matrix.T)).T
        except np.linalg.LinAlgError:
            least = np.linalg.eigvalsh(self.matrix)[0]
            raise GoalError(
                "Weighted: matrix", expected="positive definite", got=f"least eigenvalue {least:.3g}"
            ) from None

    def aim(self, target: Any) -> None:
        """Take targets (..., k, 3), one for each effector."""
        targets = numbers(target, (len(self.goals), 3), "Weighted: target")
        self.goals = tuple(goal.moved(targets[..., k, :]) for k, goal in enumerate(self.goals))

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """A POINT spring for each effector, and a CROSS spring for each pair that the matrix couples."""
        k = len(self.goals)
        blocks = self.matrix.reshape(k, 3, k, 3).swapaxes(1, 2)
        roots = self.root.reshape(k, 3, k, 3).swapaxes(1, 2)
        members = [goal.springs(skeleton)[0] for goal in self.goals]
        names = unique_names([goal.label for goal in self.goals])
        out = []
        for i, member in enumerate(members):
            member.data[..., WEIGHT : WEIGHT + 6] = six(blocks[i, i])
            member.data[..., MEASURE : MEASURE + 6] = range_of(six(blocks[i, i]))
            member.data[..., AXES : AXES + 9] = roots[i, i].ravel()  # its part of the root of the whole
            out.append(member._replace(name=names[i]))
        for i in range(k):
            for j in range(i + 1, k):
                if blocks[i, j].any() or roots[i, j].any():
                    out.append(cross_spring(members[i], members[j], blocks[i, j], roots[i, j], 3 * (k - i), names[i]))
        return out


def unique_names(names: list[str]) -> list[str]:
    """Return the names, numbered where they repeat."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out


def cross_spring(a: Spring, b: Spring, block: np.ndarray, root: np.ndarray, back: int, name: str) -> Spring:
    """Return the CROSS spring r_a' block r_b of two POINT springs.

    root (3, 3): what the miss of b adds to the stacked residual of a, which stands `back` rows above (residuals.py).
    """
    batch = np.broadcast_shapes(a.data.shape[:-1], b.data.shape[:-1])
    data = np.zeros((*batch, WIDTH))
    data[..., POINT : POINT + 3] = a.data[..., POINT : POINT + 3]
    data[..., POINT2 : POINT2 + 3] = b.data[..., POINT : POINT + 3]
    data[..., AT : AT + 3] = a.data[..., AT : AT + 3]
    data[..., ALONG : ALONG + 3] = b.data[..., AT : AT + 3]
    data[..., AXES : AXES + 9] = block.ravel()
    data[..., AXES2 : AXES2 + 9] = root.ravel()
    data[..., SIZE] = back
    data[..., MEASURE], data[..., MEASURE + 1] = 1.0, 1.0
    data[..., WEIGHT] = 1.0
    return Spring(CROSS_SPRING, a.body, data, 0.0, name, b.body)
