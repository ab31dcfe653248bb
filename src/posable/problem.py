"""A figure and what is wanted of it, packed into flat arrays once, and its energy, derivatives and residuals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring
from posable.kernels.fields import DEPTH, SPRING, WIDTH, Springs, work_size
from posable.kernels.gather import evaluate
from posable.kernels.springs import ANGLE_SPRINGS
from posable.kinematics import as_poses, scratch
from posable.skeleton import Skeleton

EXTRA = 8  # vectors of n numbers beyond the workspace, for the solver loops


class Problem:
    """What is wanted of a figure, ready for the solvers.

    skeleton: the figure. goals: one goal or several. Targets with leading axes make a batch of that shape.
    """

    def __init__(self, skeleton: Skeleton, goals: Goal | Iterable[Goal]):
        self.skeleton = skeleton
        self.goals: tuple[Goal, ...] = (goals,) if isinstance(goals, Goal) else tuple(goals)
        for goal in self.goals:
            if not isinstance(goal, Goal):
                raise GoalError("goals", expected="goals such as Position('hand.R', (0.4, 1.2, 0.3))", got=repr(goal))
        self.springs: list[Spring] = []
        self.owners: list[int] = []  # the goal of each spring
        for k, goal in enumerate(self.goals):
            members = goal.springs(skeleton)
            self.springs += members
            self.owners += [k] * len(members)
        self.error_names = self._error_names()
        g = len(self.springs)
        self.kind = np.empty((g, 4), dtype=np.int64)
        self.tolerances = np.empty(g)
        shapes = []
        for k, spring in enumerate(self.springs):
            self.kind[k, 0], self.kind[k, 1], self.kind[k, 2], self.kind[k, 3] = spring.kind, spring.body, self.owners[k], spring.other
            self.tolerances[k] = spring.tolerance
            if spring.data.ndim > 1:
                shapes.append(spring.data.shape[:-1])
        try:
            self.batch_shape: tuple[int, ...] = np.broadcast_shapes(*shapes) if shapes else ()
        except ValueError:
            raise GoalError("targets", expected="leading axes that agree", got=f"shapes {shapes}") from None
        size = int(np.prod(self.batch_shape)) if self.batch_shape else 1
        self.data = np.empty((size, g, WIDTH))
        for k, spring in enumerate(self.springs):
            if spring.data.ndim > 1:
                self.data[:, k] = np.broadcast_to(spring.data, (*self.batch_shape, WIDTH)).reshape(size, WIDTH)
            else:
                self.data[:, k] = spring.data
        n = skeleton.size
        self.pull, self.home = np.zeros(n), np.zeros(n)
        self.order = skeleton.order
        self.coupled = False
        self.soft = bool(np.isinf(self.tolerances).any())
        self.depth = int(self.order.rows[:, DEPTH].max()) + 1 if n else 1

    def _error_names(self) -> tuple[str, ...]:
        """Return a unique name for each spring's error: the goal's label, numbered where labels repeat."""
        names: dict[str, None] = {}
        unique: list[str] = []
        labels: dict[str, int] = {}
        for goal in self.goals:
            labels[goal.label] = labels.get(goal.label, 0) + 1
            unique.append(goal.label if labels[goal.label] == 1 else f"{goal.label}#{labels[goal.label]}")
        for spring, owner in zip(self.springs, self.owners, strict=True):
            name = unique[owner] + ("." + spring.name if spring.name else "")
            names[name] = None
        self.labels = tuple(unique)
        return tuple(names)

    @property
    def work_size(self) -> int:
        """How many numbers of scratch memory one solve needs."""
        n, b, g = self.skeleton.size, self.skeleton.figure.body.shape[0], len(self.springs)
        return work_size(n, b, g, self.depth) + EXTRA * n

    def broadcast(self, shape: tuple[int, ...]) -> None:
        """Spread the targets over a batch of this shape, which their own batch must fit."""
        if shape == self.batch_shape or not self.batch_shape:
            return
        g = len(self.springs)
        data = self.data.reshape(*self.batch_shape, g, WIDTH)
        self.data = np.broadcast_to(data, (*shape, g, WIDTH)).reshape(-1, g, WIDTH).copy()
        self.batch_shape = shape

    def measures_angle(self, spring: int) -> bool:
        """Return whether a spring's error is an angle [rad] and not a length [m]."""
        return self.kind[spring, SPRING] in ANGLE_SPRINGS

    def move(self, goal: int, moved: Goal) -> None:
        """Put another target of the same goal in its place, without packing anew."""
        rows = [k for k, owner in enumerate(self.owners) if owner == goal]
        for k, spring in zip(rows, moved.springs(self.skeleton), strict=True):
            self.data[:, k] = spring.data
        self.goals = (*self.goals[:goal], moved, *self.goals[goal + 1 :])

    def evaluate(self, pose: Any, *, exact: bool = True, member: int = 0) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Return energy, gradient (n,), Hessian (n, n) and the springs' errors (g,) at one pose (n,)."""
        n, g = self.skeleton.size, len(self.springs)
        theta = np.ascontiguousarray(as_poses(self.skeleton, pose).reshape(n))
        gradient, hessian, errors = np.empty(n), np.empty((n, n)), np.empty(g)
        springs = Springs(self.kind, self.data[member], self.pull, self.home)
        total = evaluate(
            self.skeleton.figure, self.order, springs, theta, scratch(self.work_size), self.depth, float(exact),
            gradient, hessian, errors,
        )  # fmt: skip
        return total, gradient, hessian, errors

    def energy(self, pose: Any) -> float:
        """Return the energy at a pose (n,): the sum over the goals."""
        return self.evaluate(pose)[0]

    def gradient(self, pose: Any) -> np.ndarray:
        """Return the gradient (n,) of the energy at a pose (n,)."""
        return self.evaluate(pose)[1]

    def hessian(self, pose: Any, *, kind: str = "exact") -> np.ndarray:
        """Return the Hessian (n, n) of the energy at a pose (n,): "exact" or "gauss-newton"."""
        return self.evaluate(pose, exact=kind == "exact")[2]
