"""Which limits stand in the way of which goals, and what relaxing them would gain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND
from posable.problem import Problem

AT_BOUND = 1e-7  # [rad, m]
STEP = 1e-5  # of a limit relaxed to see what it costs [rad, m]
TURN_MORE, SLIDE_MORE = np.radians(5.0), 0.01  # [rad], [m]: what a sentence relaxes a limit by
TELLING = 1e-4  # [m, rad] of change that is worth telling


@dataclass(frozen=True)
class Block:
    """A limit that holds the figure back.

    Attributes:
        dof: Name of the degree of freedom.
        side: "lower" or "upper".
        multiplier: How fast the energy of all goals would fall if the limit moved outward.
        cost: {goal: how fast its error would fall} [m or rad per rad or m]; negative where the goal would lose.
        limit: Where the limit is [rad, m].
        slides: Whether the degree of freedom is a slide [m] and not an angle [rad].
        angles: The goals whose errors are angles [rad].
    """

    dof: str
    side: str
    multiplier: float
    cost: dict[str, float] = field(default_factory=dict)
    limit: float = np.nan
    slides: bool = False
    angles: frozenset[str] = frozenset()

    def __str__(self) -> str:
        more, unit = (SLIDE_MORE, "10 mm") if self.slides else (TURN_MORE, "5°")
        changes = {name: more * value for name, value in self.cost.items() if abs(more * value) > TELLING}
        told = sorted(changes.items(), key=lambda item: -abs(item[1]))[:3]
        closer = [f"{name} {self._amount(name, value)}" for name, value in told if value > 0.0]
        away = [f"{name} {self._amount(name, -value)}" for name, value in told if value < 0.0]
        parts = [f"bring {' and '.join(closer)} closer"] if closer else []
        parts += [f"move {' and '.join(away)} away"] if away else []
        where = "" if np.isnan(self.limit) else f" ({self._place()})"
        text = f"{self.dof} is at its {self.side} limit{where}"
        return f"{text}; {unit} more would {' and '.join(parts)}" if parts else text

    def _place(self) -> str:
        return f"{1e3 * self.limit:.0f} mm" if self.slides else f"{np.degrees(self.limit):.0f}°"

    def _amount(self, goal: str, change: float) -> str:
        return f"{np.degrees(change):.2g}°" if goal in self.angles else f"{1e3 * change:.2g} mm"


def blocking_limits(
    problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0
) -> list[Block]:
    """Return the limits that hold back the goals at a pose (n,), worst first.

    The gradient on an active bound is its multiplier (Karush-Kuhn-Tucker; Engell-Nørregård & Erleben 2011, 3). If the
    bound moves by d, the free dofs answer with -H_ff^-1 H_fi d; the goals' errors are compared along that move.
    """
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
    angles = frozenset(name for k, name in enumerate(problem.error_names) if problem.measures_angle(k))
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
        limit, side = (lower[i], "lower") if at_lower[i] else (upper[i], "upper")
        slides = bool(problem.skeleton.figure.dof[i, KIND] == SLIDE)
        name = problem.skeleton.dof_names[i]
        blocks.append(Block(name, side, float(abs(gradient[i])), cost, float(limit), slides, angles))
    return sorted(blocks, key=lambda block: (-block.multiplier, block.dof))
