"""Disjunction: one of several goals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring, square_weight
from posable.goals.posture import Posture
from posable.goals.weighted import tolerances_of, unique_names
from posable.skeleton import Skeleton


class AnyOf(Goal):
    """One of several goals, whichever does best: energy min_i E_i (seed 003 2.4).

    Each member is solved for, from the same start; one that reaches everything comes before one that does not, then
    the lower energy counts, then the order here. `result.chosen[label]` names the member, by its own label.
    weight: multiplies the members' weights, all by one number or each by its own; a matrix must be diagonal, as only
    one member counts at a time. tolerance [m, rad]: replaces the members', a number for all or one for each. robust:
    replaces theirs. The members' own priorities are not used.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self,
        goals: Iterable[Goal],
        *,
        weight: Any = 1.0,
        tolerance: Any = None,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        given: list[Goal] = []
        for goal in goals:
            if isinstance(goal, Goal) and not isinstance(goal, Posture):
                given.append(goal)
            else:
                raise GoalError("AnyOf: goals", expected="goals of bodies or of the whole figure", got=repr(goal))
        if not given:
            raise GoalError("AnyOf: goals", expected="one goal or more", got="none")
        self.goals = tuple(given)
        factors = square_weight(weight, len(given), "AnyOf: weight")
        if np.count_nonzero(factors - np.diag(np.diag(factors))):
            raise GoalError("AnyOf: weight", expected="a diagonal matrix: one member counts at a time", got="another")
        self.weight = np.diag(factors)
        tolerances = [None] * len(given) if tolerance is None else tolerances_of(tolerance, len(given), "AnyOf")
        super().__init__(label, tolerance, priority, robust)
        members: list[Goal] = []
        for goal, factor, within in zip(given, self.weight.tolist(), tolerances, strict=True):
            member = goal.changed(factor, within, self.robust)
            members += member.members if isinstance(member, AnyOf) else [member]
        for member in members:
            member.priority = self.priority
        self.members = tuple(members)
        self.names = tuple(unique_names([goal.label for goal in members]))

    def default_label(self) -> str:
        """Return the members' labels."""
        return " or ".join(dict.fromkeys(goal.label for goal in self.goals))

    def changed(self, factor: float = 1.0, tolerance: float | None = None, robust: float | None = None) -> AnyOf:
        """Return the same choice with its weight multiplied, and another tolerance and robust scale where given."""
        return AnyOf(
            self.goals, weight=factor * self.weight, tolerance=self.tolerance if tolerance is None else tolerance,
            label=self.label, priority=self.priority, robust=self.robust if robust is None else robust,
        )  # fmt: skip

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """All springs of all members; the problem switches off those of the members that it does not take."""
        return [spring for member in self.members for spring in member.springs(skeleton)]
