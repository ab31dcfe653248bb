"""One full weight matrix over several effectors (Engell-Nørregård & Erleben 2011, eq. 17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from posable.engine.layout import AT, AXES, AXES2, CONSTANTS, MEASURE, POINT, POINT2, ROBUST, SIZE, WEIGHT
from posable.engine.springs import CROSS_SPRING
from posable.errors import GoalError
from posable.goals.base import Goal, Spring, nonneg, numbers, pack_sym, range_projector, square_weight, target_row
from posable.goals.energy import StackedEnergy, upper_root, without_energy
from posable.goals.joint import Posture
from posable.goals.point import Position
from posable.model.skeleton import Skeleton

# --- Disjunction ---


class AnyOf(Goal):
    """One of several goals, whichever does best: energy min_i E_i (Tolani et al. 2000, 2.4).

    Each member is solved for, from the same start; one that reaches everything comes before one that does not, then
    the lower energy counts, then the order here. `result.chosen[label]` names the member, by its own label.
    weight: multiplies the members' weights, all by one number or each by its own; a matrix must be diagonal, as only
    one member counts at a time. tolerance [m, rad]: replaces the members', a number for all or one for each. robust:
    replaces theirs. The members' own priorities are not used.
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


# --- One full weight matrix over several effectors ---


class Weighted(Goal):
    """Several goals under one weight matrix: energy 1/2 r'W r, r the stacked residuals of all of them.

    goals: goals on points and directions of bodies; their own weights and robust scales are not used. Each has three
    rows (rows.py), a Pose or a Relative with a transform has six, position first, and so has an Avoid of a Wall.
    matrix (m, m): symmetric, positive definite. Its blocks off the diagonal say how a miss of one may be paid with a
    miss of another. weight: a number multiplies the matrix; m numbers or an (m, m) matrix S give S^1/2 W S^1/2.
    tolerance: replaces the goals' own, a number for all or one for each. robust: a scale of the whole, against the
    largest weight of a row. Balance, Coupling, Posture, Custom, AnyOf and Weighted have no rows to share.

    Positions without a robust scale are springs of the engine; the rest goes by quadratic models, as Custom does. The
    residual of an orientation jumps at half a turn and those of HalfSpace and Avoid have a kink where they begin: there
    a matrix with blocks off the diagonal makes an energy that is not smooth.
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
        given = tuple(goals)
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
        """Whether the engine's springs carry it: positions, without a robust scale."""
        positions = all(isinstance(goal, Position) for goal in self.goals)
        return self.robust is None and positions and bool(self.matrix.any())

    def changed(self, factor: float = 1.0, tolerance: float | None = None, robust: float | None = None) -> Weighted:
        """Return the same goals with their matrix multiplied, and another tolerance and robust scale where given."""
        out = object.__new__(Weighted)
        out.__dict__.update(self.__dict__)
        out.matrix = factor * self.matrix
        if tolerance is not None:
            out.goals = tuple(goal.changed(1.0, tolerance) for goal in self.goals)
            out.tolerance = tuple(goal.tolerance for goal in out.goals)
        out.robust = self.robust if robust is None else robust
        return out

    def set_target(self, target: Any) -> None:
        """Take one target for each goal: (..., k, 3) for positions, a sequence of them for goals of other kinds."""
        if all(isinstance(goal, Position) for goal in self.goals):
            targets = numbers(target, (len(self.goals), 3), "Weighted: target")
            target = [targets[..., k, :] for k in range(len(self.goals))]
        if len(target) != len(self.goals):
            raise GoalError("Weighted: target", expected=f"{len(self.goals)} targets", got=f"{len(target)}")
        self.goals = tuple(goal.moved(one) for goal, one in zip(self.goals, target, strict=True))

    def _members(self, skeleton: Skeleton) -> list[Spring]:
        """Return the springs of all goals, named by them."""
        names = unique_names([goal.label for goal in self.goals])
        return [
            spring._replace(name=name + ("." + spring.name if spring.name else ""))
            for goal, name in zip(self.goals, names, strict=True)
            for spring in goal.springs(skeleton)
        ]

    def python_energy(self, skeleton: Skeleton) -> StackedEnergy | None:
        """Return the energy, unless the engine's springs carry it."""
        if self.springs_alone:
            return None
        return StackedEnergy(self, skeleton, self._members(skeleton), self.matrix, self.robust)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """A POINT spring for each effector, and a CROSS spring for each pair that the matrix couples."""
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
    """Return a symmetric positive definite matrix (size, size), checked."""
    out = numbers(matrix, (size, size), "Weighted: matrix")
    if out.ndim != 2 or np.abs(out - out.T).max() > 1e-9 * np.abs(out).max():
        raise GoalError("Weighted: matrix", expected=f"a symmetric matrix ({size}, {size})", got="another")
    least = np.linalg.eigvalsh(out)[0]
    if not least > 0.0:
        raise GoalError("Weighted: matrix", expected="positive definite", got=f"least eigenvalue {least:.3g}")
    return 0.5 * (out + out.T)


def tolerances_of(tolerance: Any, count: int, what: str) -> list[float]:
    """Return `count` tolerances, given as one number for all or one for each."""
    if np.ndim(tolerance) == 0:
        return [nonneg(tolerance, what + ": tolerance")] * count
    if len(tolerance) != count:
        raise GoalError(what + ": tolerance", expected=f"a number or {count} numbers", got=repr(tolerance))
    return [nonneg(one, what + ": tolerance") for one in tolerance]


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
    data = np.zeros(CONSTANTS)
    data[POINT : POINT + 3] = a.constants[POINT : POINT + 3]
    data[POINT2 : POINT2 + 3] = b.constants[POINT : POINT + 3]
    targets = target_row(a.targets[..., AT : AT + 3], b.targets[..., AT : AT + 3])
    data[AXES : AXES + 9] = block.ravel()
    data[AXES2 : AXES2 + 9] = root.ravel()
    data[SIZE] = back
    data[MEASURE], data[MEASURE + 1] = 1.0, 1.0
    data[WEIGHT] = 1.0
    return Spring(CROSS_SPRING, a.body, data, targets, 0.0, name, b.body)
