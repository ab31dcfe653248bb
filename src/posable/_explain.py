"""Analysis of a pose: the freedom that the goals leave, the distance to a singularity, and what blocks the goals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posable.engine.layout import MEASURE, SPRING_KIND
from posable.engine.springs import CONSTRAINTS, POINT_SPRING
from posable.errors import GoalError
from posable.goals.base import Goal
from posable.limb.solver import explain_limbs
from posable.model.kinematics import one_pose
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.reasons import Reason, reasons_for
from posable.solvers.sensitivity import AT_BOUND, Block, blocking_limits

RANK_TOLERANCE = 1e-6  # of the largest singular value
NEAR = 0.05  # of a range: closer to a limit than this counts as near
SINGULAR = 1e-2  # of the largest singular value: a direction below it is nearly lost


@dataclass(frozen=True)
class NearLimit:
    """A degree of freedom at or near a limit: the distance [rad, m] to it, and whether it is `active`."""

    dof: str
    side: str
    distance: float
    active: bool


@dataclass(frozen=True)
class Explanation:
    """Analysis of a figure with its goals at a pose.

    Attributes:
        skeleton: Name of the figure.
        size: Number of degrees of freedom.
        held: How many of them limits hold.
        rows: Number of constraints that the goals impose.
        rank: How many of them the free joints can satisfy independently.
        freedom: Number of independent motions of the free joints that leave the goals unchanged.
        singular_values: Of the stacked weighted Jacobian, largest first.
        manipulability: Product of the first `rows` singular values (Yoshikawa 1985); zero if the rank is smaller.
        redundant: (freedom, n) Basis of the motions that leave the goals unchanged.
        weakest: The direction with the smallest singular value, by degree of freedom.
        errors: [m, rad] Of each goal.
        reached: Whether every goal is within its tolerance.
        near: Limits that are active or near.
        blocking: Limits that block a missed goal.
        limbs: If requested, the swivel ranges of every limb that a goal holds.
        reasons: Why each goal is missed.
    """

    skeleton: str
    size: int
    held: int
    rows: int
    rank: int
    freedom: int
    singular_values: np.ndarray
    manipulability: float
    redundant: np.ndarray
    weakest: dict[str, float]
    errors: dict[str, float]
    reached: bool
    near: list[NearLimit] = field(default_factory=list)
    blocking: list[Block] = field(default_factory=list)
    limbs: list[str] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    @property
    def condition(self) -> float:
        """The largest singular value over the smallest of the rank; infinity where there is none."""
        return float(self.singular_values[0] / self.singular_values[self.rank - 1]) if self.rank else float("inf")

    @property
    def over_constrained(self) -> bool:
        """Whether the goals impose more constraints than the free joints can satisfy independently."""
        return self.rank < self.rows

    @property
    def singular(self) -> bool:
        """Whether a constrained direction is lost, or nearly so."""
        values = self.singular_values
        wanted = min(self.rows, self.size - self.held)
        return wanted > 0 and (self.rank < wanted or bool(values[wanted - 1] < SINGULAR * values[0]))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return {
            "figure": self.skeleton, "degrees_of_freedom": self.size, "held_by_limits": self.held, "rows": self.rows,
            "rank": self.rank, "freedom": self.freedom, "over_constrained": self.over_constrained,
            "singular": self.singular, "singular_values": self.singular_values.tolist(),
            "manipulability": self.manipulability, "weakest": self.weakest, "errors": self.errors,
            "reached": self.reached, "near": [vars(limit) for limit in self.near],
            "blocking": [
                vars(block) | {"angles": sorted(block.angles), "pixels": sorted(block.pixels)}
                for block in self.blocking
            ],
            "reasons": [vars(reason) for reason in self.reasons], "limbs": self.limbs,
        }  # fmt: skip

    def __str__(self) -> str:
        free = self.size - self.held
        lines = [
            f"{self.skeleton or 'figure'}: {self.size} degrees of freedom, {self.held} held by limits, {free} free.",
            f"The goals impose {self.rows} constraints; the free joints can satisfy {self.rank} of them, "
            f"with {self.freedom or 'no'} degree{'' if self.freedom == 1 else 's'} of freedom left.",
        ]
        if self.over_constrained:
            if self.reached:
                lines.append("Some constraints repeat others or cannot be changed at this pose; all are met.")
            elif len(self.errors) == 1:
                lines.append("At this pose no motion of the joints moves the body in one direction of its goal.")
            else:
                lines.append("Over-constrained: some goals can only be met at the expense of others.")
        if self.rank:
            smallest = self.singular_values[self.rank - 1]
            lines.append(
                f"Singular values {self.singular_values[0]:.3g} to {smallest:.3g}, "
                f"manipulability {self.manipulability:.3g}."
            )
        if self.singular:
            told = ", ".join(f"{name} {value:+.2f}" for name, value in list(self.weakest.items())[:4])
            lines.append(f"Near a singularity; the weakest direction is {told}.")
        on = [f"{limit.dof} ({limit.side})" for limit in self.near if limit.active]
        close = [f"{limit.dof} ({limit.side}, {limit.distance:.2g} away)" for limit in self.near if not limit.active]
        if on:
            lines.append(f"At a limit: {', '.join(on)}.")
        if close:
            lines.append(f"Near a limit: {', '.join(close[:8])}{' ...' if len(close) > 8 else ''}.")
        if self.reasons:
            lines.append("Missed:")
            lines += [f"  {reason}" for reason in self.reasons]
        if self.blocking:
            lines.append("Blocking limits:")
            lines += [f"  {block}" for block in self.blocking[:8]]
        elif not self.reached:
            lines.append("No limit blocks the missed goals.")
        lines += self.limbs
        return "\n".join(lines)


def explain(
    skeleton: Skeleton, goals: Goal | Iterable[Goal], pose: Any, *, limits: bool = True, limbs: bool = False
) -> Explanation:
    """Analyse a pose with its goals: freedom, rank, singularity, limits, and what blocks the goals.

    The stacked Jacobian is not formed: its singular values and directions are those of the Gauss-Newton Hessian J'WJ.

    Args:
        skeleton: The figure.
        goals: One goal or several, for one pose.
        pose: (n,) [rad, m].
        limits: Whether joint limits apply.
        limbs: Whether to add the swivel ranges of the limbs, with the joint limit at each end.

    Returns:
        The analysis; `print` shows it in words.

    Raises:
        GoalError: The targets are a batch.
    """
    problem = Problem(skeleton, goals)
    if problem.batch_shape:
        raise GoalError("explain", expected="targets for one pose", got=f"a batch of shape {problem.batch_shape}")
    theta = one_pose(skeleton, pose)
    infinite = np.full(skeleton.size, np.inf)
    lower, upper = (skeleton.lower, skeleton.upper) if limits else (-infinite, infinite)
    _, gradient, hessian, errors = problem.evaluate(theta, exact=False)
    held = skeleton.frozen | (lower >= upper)
    held = held | ((theta <= lower + AT_BOUND) & (gradient > 0.0)) | ((theta >= upper - AT_BOUND) & (gradient < 0.0))
    free = np.flatnonzero(~held)
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)]) if free.size else (np.zeros(0), np.zeros((0, 0)))
    values, vectors = np.sqrt(np.maximum(values[::-1], 0.0)), vectors[:, ::-1]
    rank = int((values > RANK_TOLERANCE * values[0]).sum()) if values.size and values[0] > 0.0 else 0
    rows = prescribed_rows(problem)
    redundant = np.zeros((free.size - rank, skeleton.size))
    redundant[:, free] = vectors[:, rank:].T
    weak = vectors[:, min(rows, free.size) - 1] if free.size and rows else np.zeros(free.size)
    weakest = sorted(
        ((skeleton.dof_names[i], float(x)) for i, x in zip(free, weak, strict=True)), key=lambda p: -abs(p[1])
    )
    reached = bool((errors <= problem.tolerances).all())
    blocking = [] if reached else blocking_limits(problem, theta, lower, upper)
    return Explanation(
        skeleton=skeleton.name,
        size=skeleton.size,
        held=int(held.sum()),
        rows=rows,
        rank=rank,
        freedom=free.size - rank,
        singular_values=values,
        manipulability=float(np.prod(values[:rows])) if 0 < rows <= rank else 0.0,
        redundant=redundant,
        weakest={name: value for name, value in weakest if abs(value) > 0.05},
        errors=dict(zip(problem.error_names, errors.tolist(), strict=True)),
        reached=reached,
        near=near_limits(skeleton, theta, lower, upper),
        blocking=blocking,
        reasons=[] if reached else reasons_for(problem, theta, errors, lower, upper, blocking),
        limbs=explain_limbs(problem, theta) if limbs else [],
    )


def prescribed_rows(problem: Problem) -> int:
    """Return the number of constraints of goals with a tolerance: 3 for a point, 2 for a direction, ..."""
    rows = 0
    for k, kind in enumerate(problem.kind[:, SPRING_KIND]):
        if np.isfinite(problem.tolerances[k]):
            if kind == POINT_SPRING:
                rows += round(float(problem.constants[0, k, MEASURE : MEASURE + 3].sum()))
            else:
                rows += CONSTRAINTS[kind] if kind >= 0 else 1
    return rows


def near_limits(skeleton: Skeleton, theta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> list[NearLimit]:
    """Return the degrees of freedom within 5% of their range of a limit, nearest first."""
    out = []
    for i, name in enumerate(skeleton.dof_names):
        span = upper[i] - lower[i]
        margin = NEAR * span if np.isfinite(span) else 0.05
        for side, distance in (("lower", theta[i] - lower[i]), ("upper", upper[i] - theta[i])):
            if span > 0.0 and distance <= margin:
                out.append(NearLimit(name, side, float(max(distance, 0.0)), bool(distance <= AT_BOUND)))
    return sorted(out, key=lambda limit: (limit.distance, limit.dof))
