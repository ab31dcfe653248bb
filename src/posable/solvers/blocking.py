"""Which limits stand in the way of which goals, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posable.problem import Problem

AT_BOUND = 1e-7  # [rad, m]
STEP = 1e-5  # of a limit relaxed to see what it costs [rad, m]


@dataclass(frozen=True)
class Block:
    """A limit that holds the figure back.

    dof: its degree of freedom. side: "lower" or "upper". multiplier: how fast the energy of all goals would fall if
    the limit moved outward. cost: how fast each goal's error would fall [m or rad per rad or m]; negative where the
    goal would lose.
    """

    dof: str
    side: str
    multiplier: float
    cost: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        worst = [(name, value) for name, value in self.cost.items() if abs(value) > 1e-6]
        told = ", ".join(f"{name} {value:.3g}" for name, value in sorted(worst, key=lambda item: -abs(item[1]))[:3])
        return f"{self.dof} at its {self.side} limit" + (f": costs {told} per unit of it" if told else "")


def blocking_limits(
    problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0
) -> list[Block]:
    """Return the limits that hold back the goals at a pose (n,), worst first.

    The gradient on an active bound is its multiplier (the Karush-Kuhn-Tucker conditions of seed 000 section 3). If the
    bound moves by d, the free dofs answer with -H_ff^-1 H_fi d; the goals' errors are compared along that move.
    """
    member = member if problem.data.shape[0] > 1 else 0
    _, gradient, hessian, errors = problem.evaluate(pose, member=member)
    at_lower = (pose <= lower + AT_BOUND) & (gradient > 0.0) & (lower < upper)
    at_upper = (pose >= upper - AT_BOUND) & (gradient < 0.0) & (lower < upper)
    active = np.flatnonzero(at_lower | at_upper)
    scale = np.abs(gradient).max(initial=0.0)
    significant = 1e-9 * max(1.0, np.abs(np.diag(hessian)).max(initial=0.0))
    active = active[np.abs(gradient[active]) > max(1e-6 * scale, significant)]
    if active.size == 0:
        return []
    held = at_lower | at_upper | (lower >= upper)
    free = np.flatnonzero(~held)
    blocks = []
    for i in active:
        sense = -1.0 if at_lower[i] else 1.0
        answer = np.zeros_like(pose)
        answer[i] = sense
        if free.size:
            matrix = hessian[np.ix_(free, free)]
            small = 1e-9 * max(np.trace(np.abs(matrix)) / free.size, 1e-300)
            move = np.linalg.lstsq(matrix + small * np.eye(free.size), -hessian[free, i] * sense, rcond=1e-12)[0]
            answer[free] = move / max(1.0, np.abs(move).max() * STEP / 0.05)
        after = problem.evaluate(pose + STEP * answer, member=member)[3]
        cost = {
            name: float((errors[k] - after[k]) / STEP)
            for k, name in enumerate(problem.error_names)
            if np.isfinite(problem.tolerances[k])
        }
        blocks.append(
            Block(problem.skeleton.dof_names[i], "lower" if at_lower[i] else "upper", float(abs(gradient[i])), cost)
        )
    return sorted(blocks, key=lambda block: (-block.multiplier, block.dof))
