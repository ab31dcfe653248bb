"""Disjunction: one of several goals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring
from posable.goals.weighted import unique_names
from posable.skeleton import Skeleton


class AnyOf(Goal):
    """One of several goals, whichever does best: energy min_i E_i (seed 003 2.4).

    Each member is solved for, from the same start; one that reaches everything comes before one that does not, then
    the lower energy counts, then the order here. `result.chosen[label]` names the member, by its own label.
    """

    plain: ClassVar[bool] = False

    def __init__(self, goals: Iterable[Goal], *, label: str | None = None, priority: int = 0):
        members: list[Goal] = []
        for goal in goals:
            if isinstance(goal, AnyOf):
                members += goal.members
            elif isinstance(goal, Goal) and goal.plain:
                members.append(goal)
            else:
                raise GoalError("AnyOf: goals", expected="goals of bodies or of the whole figure", got=repr(goal))
        if not members:
            raise GoalError("AnyOf: goals", expected="one goal or more", got="none")
        self.members = tuple(members)
        self.names = tuple(unique_names([goal.label for goal in members]))
        super().__init__(label, None, priority, None)

    def default_label(self) -> str:
        """Return the members' labels."""
        return " or ".join(dict.fromkeys(goal.label for goal in self.members))

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """All springs of all members; the problem switches off those of the members that it does not take."""
        return [spring for member in self.members_springs(skeleton) for spring in member]

    def members_springs(self, skeleton: Skeleton) -> list[list[Spring]]:
        """Return the springs of each member."""
        return [member.springs(skeleton) for member in self.members]
