"""Cyclic coordinate descent: one degree of freedom at a time, each moved to its optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.engine.assemble import energy_at
from posable.engine.bounds import recentre_all, write_trace
from posable.engine.jit import kernel
from posable.engine.joints import SLIDE, TURN
from posable.engine.layout import DEPTH, ENERGY, EVALUATIONS, KIND
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions, refuse_strength, register
from posable.solvers.loop import OPTIONS, STATIONARY_GAIN, batch_of, common_params, differentiate, four_vectors

RANKED, MAX_TURN, REST = range(OPTIONS, OPTIONS + 3)  # columns of the params
HALVINGS = 6


@kernel
def best_turn(slope, bend, value, low, high, most):
    """Return the change within the limits that minimises the energy over a rotational dof, and the decrease.

    For points and frames the energy of a turn by x is E(x) = const - bend cos x + slope sin x, from its first two
    derivatives at 0. Its minimum is at atan2(-slope, bend), or at the better limit.
    """
    if slope == 0.0 and bend >= 0.0:
        return 0.0, 0.0
    x = math.atan2(-slope, bend)
    lowest, highest = max(low - value, -most), min(high - value, most)
    if x < lowest and x + 2.0 * math.pi <= highest:
        x += 2.0 * math.pi
    elif x > highest and x - 2.0 * math.pi >= lowest:
        x -= 2.0 * math.pi
    if x < lowest or x > highest:
        lowest, highest = max(lowest, -math.pi), min(highest, math.pi)
        at_low = slope * math.sin(lowest) - bend * math.cos(lowest)
        at_high = slope * math.sin(highest) - bend * math.cos(highest)
        x = lowest if at_low < at_high else highest
    return x, slope * math.sin(-x) + bend * (math.cos(x) - 1.0)


@kernel
def best_slide(slope, bend, value, low, high, most):
    """Return the change within the limits that minimises a parabola over any other dof, and the decrease."""
    if bend > 0.0:
        x = -slope / bend
    else:
        x = -math.copysign(0.5, slope) if slope != 0.0 else 0.0
    x = min(max(x, low - value, -most), high - value, most)
    return x, -x * (slope + 0.5 * bend * x)


@kernel
def best_change(figure, order, lower, upper, theta, ws, i, most):
    """Return the best change of dof i and the predicted decrease, from the first two derivatives."""
    if not lower[i] < upper[i]:
        return 0.0, 0.0
    bend = ws.hessian[i, order.rows[i, DEPTH]]
    if figure.dof[i, KIND] == TURN:
        return best_turn(ws.gradient[i], bend, theta[i], lower[i], upper[i], most)
    if figure.dof[i, KIND] == SLIDE:
        return best_slide(ws.gradient[i], bend, theta[i], lower[i], upper[i], math.inf)
    return best_slide(ws.gradient[i], bend, theta[i], lower[i], upper[i], min(most, 1.0))


@kernel
def change_dof(figure, springs, lower, upper, theta, ws, state, i, x):
    """Change dof i by x, or by less if that does not help; return the change. The bodies are placed afterwards."""
    value, before = theta[i], state[ENERGY]
    for _ in range(HALVINGS):
        theta[i] = min(max(value + x, lower[i]), upper[i])
        after = energy_at(figure, springs, theta, ws)
        state[EVALUATIONS] += 1.0
        if after < before:
            state[ENERGY] = after
            return theta[i] - value
        x *= 0.5
    theta[i] = value
    energy_at(figure, springs, theta, ws)
    return 0.0


@kernel
def ccd_step(figure, order, springs, lower, upper, theta, ws, vectors, state, params, trace):
    """Change n degrees of freedom, one after another, in place; return whether the energy decreased.

    The order is from the tip inward; or, if ranked, by predicted decrease, never one that was changed recently.
    """
    n = theta.shape[0]
    fixed, waiting = vectors[0], vectors[1]
    before = state[ENERGY]
    ranked = params[RANKED] != 0.0
    slope, length, largest = 0.0, 0.0, 0.0
    for i in range(n):
        waiting[i] = 0.0
    for turn in range(n):
        free = differentiate(figure, order, springs, lower, upper, theta, ws, fixed, params, 1.0)
        largest = free if turn == 0 else largest
        i = n - 1 - turn
        x, _ = best_change(figure, order, lower, upper, theta, ws, i, params[MAX_TURN])
        if ranked:
            most = 0.0
            x = 0.0
            for j in range(n):
                change, gain = best_change(figure, order, lower, upper, theta, ws, j, params[MAX_TURN])
                if waiting[j] <= 0.0 and gain > most:
                    i, x, most = j, change, gain
                waiting[j] -= 1.0
            if x == 0.0:
                continue
            waiting[i] = params[REST]
        if x == 0.0:
            continue
        g = ws.gradient[i]
        x = change_dof(figure, springs, lower, upper, theta, ws, state, i, x)
        slope += g * x
        length = max(length, abs(x))
    recentre_all(figure, theta, lower, upper)
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    write_trace(trace, state, largest, length, 0.0, fixed, slope, before)
    return length > 0.0 and before - state[ENERGY] > STATIONARY_GAIN * before


@register("ccd")
@dataclass(frozen=True, kw_only=True)
class Ccd(CompiledSolver):
    """Cyclic coordinate descent: from the tip inward, each dof moves to the value that serves all goals best.

    (Parent, Kinematic Linkages, 5.3.3.) For points and frames that value is exact, x = atan2(-E', E''), limits
    included; other goals get a safeguarded Newton step. One iteration is a sweep over all dofs.

    Args:
        order: "tip" goes from the outermost dof inward. "ranked" always takes the dof that brings the goals nearest
            (Parent's ranked variant).
        rest: With "ranked": dofs that changed in the last `rest` moves wait.
        max_turn: [rad] The most that a dof turns at once.
    """

    order: str = "tip"
    rest: int = 1
    max_turn: float = math.inf

    name: ClassVar[str] = "ccd"
    summary: ClassVar[str] = "cyclic coordinate descent, from the tip or ranked"
    iterations: ClassVar[int] = 300
    loop: ClassVar = staticmethod(batch_of("ccd", ccd_step, four_vectors))

    def __post_init__(self):
        self.require("order", self.order in ("tip", "ranked"), "'tip' or 'ranked'")
        self.require("rest", isinstance(self.rest, int) and self.rest >= 0, "a non-negative integer")
        self.require("max_turn", self.max_turn > 0.0, "a positive number")

    def check(self, problem: Problem) -> None:
        """Raise SolverError if joints differ in strength: each dof moves to its own optimum regardless of cost."""
        refuse_strength(problem, "ccd")

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of the loop."""
        own = (float(self.order == "ranked"), self.max_turn, float(self.rest))
        return common_params(problem, options, self.iterations, own)
