"""Goals made of goals: one of several, or several with one weight matrix (Engell-Nørregård & Erleben 2011, eq. 17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from posable.engine.layout import AXES, MEASURE, ROBUST, WEIGHT
from posable.errors import GoalError
from posable.goals.base import (
    Goal,
    Spring,
    goals_in,
    nonneg,
    numbers,
    pack_sym,
    range_projector,
    square_weight,
    unique_names,
)
from posable.goals.energy import StackedEnergy, cross_spring, upper_root, without_energy
from posable.goals.joint import Posture
from posable.goals.point import Position
from posable.model.skeleton import Skeleton

# --- Disjunction ---


class AnyOf(Goal):
    """One of several goals, the best one: energy min_i E_i (Tolani et al. 2000, 2.4).

    Each member is solved from the same start. A member that reaches all goals is preferred, then the lower energy,
    then the given order. `result.chosen[label]` is the label of the chosen member.

    Args:
        goals: The members. Their priorities are not used.
        weight: Factor on the members' weights: a number, or one per member; a matrix must be diagonal.
        tolerance: [m, rad] Replaces the members' tolerances: one number, or one per member; None: theirs.
        label: Name in results; the members' labels by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m, rad] Replaces the members' robust scales; None: theirs.
    """

    plain: ClassVar[bool] = False
    is_choice: ClassVar[bool] = True

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
        for goal in goals_in(goals, "AnyOf: goals"):
            if isinstance(goal, Goal) and not isinstance(goal, Posture):
                given.append(goal)
            else:
                raise GoalError("AnyOf: goals", expected="goals of bodies or of the whole figure", got=repr(goal))
        if not given:
            raise GoalError("AnyOf: goals", expected="one goal or more", got="none")
        self.goals = tuple(given)
        factors = square_weight(weight, len(given), "AnyOf: weight")
        if np.count_nonzero(factors - np.diag(np.diag(factors))):
            raise GoalError(
                "AnyOf: weight", expected="a diagonal matrix, since one member counts at a time", got="a full one"
            )
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
        """Return the same choice with its weight scaled and, if given, another tolerance and robust scale."""
        return AnyOf(
            self.goals, weight=factor * self.weight, tolerance=self.tolerance if tolerance is None else tolerance,
            label=self.label, priority=self.priority, robust=self.robust if robust is None else robust,
        )  # fmt: skip

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """All springs of all members; the problem switches off those of the members that it does not choose."""
        return [spring for member in self.members for spring in member.springs(skeleton)]


# --- One weight matrix over several goals ---


class Weighted(Goal):
    """Several goals with one weight matrix: energy 1/2 r'W r, r the stacked residuals of all of them.

    Positions without a robust scale are springs of the engine; everything else is solved through quadratic models, as
    Custom is. The residual of an orientation jumps at half a turn, and those of HalfSpace and Avoid have a kink where
    they begin; with blocks off the diagonal the energy is not smooth there.

    Args:
        goals: Goals on points and directions of bodies; their own weights and robust scales are not used. Each has
            three rows; a Pose, a Relative with a transform (position first) and an Avoid of a Wall have six. Balance,
            Coupling, Posture, Custom, AnyOf and Weighted have none and are rejected.
        matrix: (m, m) W, symmetric positive definite. Its blocks off the diagonal trade the error of one goal against
            that of another.
        weight: A number scales W; m numbers or an (m, m) matrix S give S^1/2 W S^1/2.
        tolerance: [m, rad] Replaces the goals' tolerances: one number, or one per goal; None: theirs.
        label: Name in results; "weighted" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m, rad] Total error beyond which the force no longer grows, relative to the largest weight of a row.
    """

    def __init__(
        self,
        goals: Iterable[Goal],
        matrix: Any,
        *,
        weight: Any = 1.0,
        tolerance: Any = None,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        given = goals_in(goals, "Weighted: goals")
        for goal in given:
            if not (isinstance(goal, Goal) and goal.rows):
                raise GoalError(
                    "Weighted: goals", expected="goals on points and directions of bodies, such as Position or Aim",
                    got=repr(goal),
                )  # fmt: skip
        if not given:
            raise GoalError("Weighted: goals", expected="one goal or more", got="none")
        self.goals = given
        if tolerance is not None:
            each = tolerances_of(tolerance, len(given), "Weighted")
            self.goals = tuple(goal.changed(1.0, one) for goal, one in zip(given, each, strict=True))
        super().__init__(label, tuple(goal.tolerance for goal in self.goals), priority, robust)
        size = sum(goal.rows for goal in self.goals)
        self.matrix = full_matrix(matrix, size)
        self.weight = 1.0
        if not (np.ndim(weight) == 0 and weight == 1.0):
            values, vectors = np.linalg.eigh(square_weight(weight, size, "Weighted: weight"))
            root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            self.matrix = root @ self.matrix @ root

    @property
    def springs_alone(self) -> bool:
        """Whether springs of the engine express it: positions without a robust scale."""
        positions = all(isinstance(goal, Position) for goal in self.goals)
        return self.robust is None and positions and bool(self.matrix.any())

    def changed(self, factor: float = 1.0, tolerance: float | None = None, robust: float | None = None) -> Weighted:
        """Return the same goals with their matrix scaled and, if given, another tolerance and robust scale."""
        out = object.__new__(Weighted)
        out.__dict__.update(self.__dict__)
        out.matrix = factor * self.matrix
        if tolerance is not None:
            out.goals = tuple(goal.changed(1.0, tolerance) for goal in self.goals)
            out.tolerance = tuple(goal.tolerance for goal in out.goals)
        out.robust = self.robust if robust is None else robust
        return out

    def set_target(self, target: Any) -> None:
        """Set one target per goal: (..., k, 3) [m] for positions, a sequence of targets for other goals."""
        if all(isinstance(goal, Position) for goal in self.goals):
            targets = numbers(target, (len(self.goals), 3), "Weighted: target")
            target = [targets[..., k, :] for k in range(len(self.goals))]
        if len(target) != len(self.goals):
            raise GoalError("Weighted: target", expected=f"{len(self.goals)} targets", got=f"{len(target)}")
        self.goals = tuple(goal.moved(one) for goal, one in zip(self.goals, target, strict=True))

    def _members(self, skeleton: Skeleton) -> list[Spring]:
        """Return the springs of all goals, named after them."""
        names = unique_names([goal.label for goal in self.goals])
        return [
            spring._replace(name=name + ("." + spring.name if spring.name else ""))
            for goal, name in zip(self.goals, names, strict=True)
            for spring in goal.springs(skeleton)
        ]

    def python_energy(self, skeleton: Skeleton) -> StackedEnergy | None:
        """Return the energy, unless springs of the engine express it."""
        if self.springs_alone:
            return None
        return StackedEnergy(self, skeleton, self._members(skeleton), self.matrix, self.robust)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """A POINT spring per goal, and a CROSS spring per pair that the matrix couples."""
        members = self._members(skeleton)
        if not self.springs_alone:
            return [without_energy(spring) for spring in members]
        k = len(members)
        blocks = self.matrix.reshape(k, 3, k, 3).swapaxes(1, 2)
        roots = upper_root(self.matrix).reshape(k, 3, k, 3).swapaxes(1, 2)
        out = []
        for i, member in enumerate(members):
            member.constants[..., WEIGHT : WEIGHT + 6] = pack_sym(blocks[i, i])
            member.constants[..., MEASURE : MEASURE + 6] = range_projector(pack_sym(blocks[i, i]))
            member.constants[..., ROBUST] = 0.0
            member.constants[..., AXES : AXES + 9] = roots[i, i].ravel()  # its part of the root of the whole
            out.append(member)
        for i in range(k):
            for j in range(i + 1, k):
                if blocks[i, j].any() or roots[i, j].any():
                    name = members[i].name
                    out.append(cross_spring(members[i], members[j], blocks[i, j], roots[i, j], 3 * (k - i), name))
        return out


def full_matrix(matrix: Any, size: int) -> np.ndarray:
    """Return a checked symmetric positive definite matrix (size, size)."""
    out = numbers(matrix, (size, size), "Weighted: matrix")
    if out.ndim != 2 or np.abs(out - out.T).max() > 1e-9 * np.abs(out).max():
        raise GoalError("Weighted: matrix", expected=f"a symmetric matrix ({size}, {size})", got="an asymmetric one")
    least = np.linalg.eigvalsh(out)[0]
    if not least > 0.0:
        raise GoalError("Weighted: matrix", expected="positive definite", got=f"smallest eigenvalue {least:.3g}")
    return 0.5 * (out + out.T)


def tolerances_of(tolerance: Any, count: int, what: str) -> list[float]:
    """Return `count` tolerances, given as one number for all or as one each."""
    if np.ndim(tolerance) == 0:
        return [nonneg(tolerance, what + ": tolerance")] * count
    if len(tolerance) != count:
        raise GoalError(what + ": tolerance", expected=f"a number or {count} numbers", got=repr(tolerance))
    return [nonneg(one, what + ": tolerance") for one in tolerance]
