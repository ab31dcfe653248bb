"""Levenberg-Marquardt: damped Gauss-Newton, with the damping set by the quality of the quadratic model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.engine.assemble import energy_at
from posable.engine.bounds import armijo
from posable.engine.jit import kernel
from posable.engine.layout import DAMPING, DEPTH, ENERGY, EVALUATIONS
from posable.engine.ltl import damped_copy, factorise, multiply, substitute
from posable.errors import SolverError
from posable.solvers.base import register
from posable.solvers.line_search import (
    ALPHA,
    MAX_STEP,
    OWN_OPTIONS,
    OWN_STATE,
    DescentSolver,
    accept,
    differentiate,
    four_vectors,
    strength,
    trial_step,
    write_trace,
)
from posable.solvers.linear import shortening
from posable.solvers.loop import STATIONARY_GAIN, batch_of, restarted

GROWTH = OWN_STATE  # growth of the damping at the next rejection


@kernel
def damping_metric(order, hessian, scale, marquardt, params):
    """Write the metric of the damping (n,): the diagonal of the Hessian (Marquardt), or its mean (Levenberg).

    A joint of strength s is damped by 1 / s^2 of it.
    """
    n = scale.shape[0]
    mean = 0.0
    for i in range(n):
        scale[i] = hessian[i, order.rows[i, DEPTH]]
        mean += scale[i] / n
    for i in range(n):
        scale[i] = max(scale[i], 1e-6 * mean, 1e-300) if marquardt else max(mean, 1e-300)
        s = strength(params, n, i)
        scale[i] /= s * s


@kernel
def levenberg_marquardt_step(figure, order, springs, lower, upper, theta, ws, vectors, state, params, trace):
    """Make one accepted step, in place; return whether there was one.

    The damping follows Nielsen: after a gain ratio r it is multiplied by max(1/3, 1 - (2r - 1)^3), after rejections by
    2, 4, 8, ...
    """
    n = theta.shape[0]
    fixed, scale, step, product, direction = vectors[0], vectors[1], vectors[2], vectors[3], ws.step
    before = state[ENERGY]
    if restarted(state):
        state[DAMPING], state[GROWTH] = params[OWN_OPTIONS], 2.0
    largest = differentiate(figure, order, springs, lower, upper, theta, ws, fixed, params, 0.0)
    damping_metric(order, ws.hessian, scale, params[OWN_OPTIONS + 1] != 0.0, params)
    slope, length = 0.0, 0.0
    moved = False
    for _ in range(40):
        damped_copy(order, ws.hessian, fixed, state[DAMPING], scale, ws.factor, ws.path)
        if factorise(order, ws.factor, fixed, 0.0) < 0:
            for i in range(n):
                direction[i] = 0.0 if fixed[i] != 0.0 else -ws.gradient[i]
            substitute(order, ws.factor, direction, ws.path)
            slope, length = trial_step(lower, upper, theta, direction, shortening(direction, params[MAX_STEP]), ws)
            for i in range(n):
                step[i] = ws.trial[i] - theta[i]
            multiply(order, ws.hessian, step, product, ws.path)
            predicted = -slope
            for i in range(n):
                predicted -= 0.5 * step[i] * product[i]
            if not length > 0.0 or not -slope > STATIONARY_GAIN * before:
                break
            after = energy_at(figure, springs, ws.trial, ws)
            state[EVALUATIONS] += 1.0
            if after < before and armijo(before, after, slope, params[ALPHA]):
                if not predicted > -0.1 * slope:  # a projected step may climb the model
                    predicted = -0.5 * slope
                ratio = (before - after) / predicted
                state[DAMPING] = max(state[DAMPING] * max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), 1e-12)
                state[GROWTH] = 2.0
                moved = True
                accept(figure, lower, upper, theta, ws, state, after)
                break
        state[DAMPING] = max(state[DAMPING], 1e-9) * state[GROWTH]
        state[GROWTH] *= 2.0
        if not state[DAMPING] < 1e12:
            break
    if not moved:
        state[DAMPING], state[GROWTH] = params[OWN_OPTIONS], 2.0
        slope, length = 0.0, 0.0
    write_trace(trace, state, largest, length, state[DAMPING], fixed, slope, before)
    return moved


@register("levenberg-marquardt")
@dataclass(frozen=True, kw_only=True)
class LevenbergMarquardt(DescentSolver):
    """Levenberg-Marquardt: (J'WJ + damping D) step = -grad E, with the gathered stiffness.

    (Engell-Nørregård & Erleben 2011, eq. 15.) The matrix is that of Erleben & Andrews (2018, eq. 14) without its second
    term. Bounds at which the gradient pushes outward are held, the step is projected, and the projected Armijo test
    (eq. 39) accepts it.

    Args:
        damping: Of the first step, relative to D.
        scale: "marquardt": D is the diagonal of the stiffness; "levenberg": its mean.
    """

    damping: float = 1e-3
    scale: str = "levenberg"

    name: ClassVar[str] = "levenberg-marquardt"
    summary: ClassVar[str] = "damped Gauss-Newton with the gain ratio"
    iterations: ClassVar[int] = 300
    loop: ClassVar = staticmethod(batch_of("levenberg_marquardt", levenberg_marquardt_step, four_vectors))

    def __post_init__(self):
        super().__post_init__()
        if not self.damping > 0.0:
            raise SolverError("levenberg-marquardt: damping", expected="a positive number", got=repr(self.damping))
        if self.scale not in ("levenberg", "marquardt"):
            expected = "'levenberg' or 'marquardt'"
            raise SolverError("levenberg-marquardt: scale", expected=expected, got=repr(self.scale))

    def options(self) -> tuple[float, ...]:
        """Return the first damping and its metric."""
        return (self.damping, float(self.scale == "marquardt"))
