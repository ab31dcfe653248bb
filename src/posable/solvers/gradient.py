"""First-order methods: the projected gradient, and projected conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.engine.assemble import energy_at
from posable.engine.bounds import leave_bounds, write_trace
from posable.engine.jit import kernel
from posable.engine.joints import forward
from posable.engine.layout import ENERGY, EVALUATIONS, ITERATIONS, SOFT
from posable.engine.linalg import dot
from posable.engine.ltl import multiply
from posable.solvers.base import register
from posable.solvers.loop import (
    BETA,
    METHOD_OPTIONS,
    METHOD_STATE,
    STATIONARY_GAIN,
    TAU,
    DescentSolver,
    accept,
    batch_of,
    descend,
    differentiate,
    first_derivatives,
    four_vectors,
    line_search,
    restarted,
    strength,
)

# --- Projected gradient with the projected Armijo search of Engell-Nørregård & Erleben 2011 ---

# A column of the params and two of the state, after those of loop.py
MOST_PERTURBATIONS = METHOD_OPTIONS + 1
SEEN_ENERGY, PERTURBATIONS = METHOD_STATE, METHOD_STATE + 1

WINDOW = 200.0  # steps between two checks of progress
LITTLE = 0.9  # fraction of the energy at the last check above which the figure is stuck
ONE, PREVIOUS, SPECTRAL = 0.0, 1.0, 2.0
AGREEMENT = 0.5  # ratio of the two inverse curvatures below which the shorter one is used
LONGEST = 1e6
FIRST_STEPS = {"one": ONE, "previous": PREVIOUS, "spectral": SPECTRAL}


@kernel
def first_length(theta, ws, vectors, state, params):
    """Return the initial step length of the line search."""
    if params[METHOD_OPTIONS] == ONE or state[TAU] == 0.0:
        return 1.0
    if params[METHOD_OPTIONS] == PREVIOUS:
        return state[TAU] / params[BETA]
    ss, sy, yy = 0.0, 0.0, 0.0
    for i in range(theta.shape[0]):
        g = strength(params, theta.shape[0], i)
        s, y = (theta[i] - vectors[2, i]) / g, (ws.gradient[i] - vectors[3, i]) * g
        ss += s * s
        sy += s * y
        yy += y * y
    if not sy > 1e-300:
        return 1.0
    # Barzilai and Borwein's two inverse curvatures along the last step. Where they disagree the step mixed stiff and
    # soft directions, and the longer one would be rejected (Zhou, Gao & Dai 2006).
    return sy / yy if sy * sy < AGREEMENT * ss * yy else min(ss / sy, LONGEST)


@kernel
def leave_limits(figure, springs, lower, upper, theta, ws, state, params, moved):
    """Move a figure that is stuck at its limits off them, in place; return whether it was stuck.

    It is stuck if no step is left, or if the last WINDOW steps made almost no progress.
    """
    if moved and state[ITERATIONS] % WINDOW != 0.0:
        return False
    caught = not moved or state[ENERGY] > LITTLE * state[SEEN_ENERGY]
    state[SEEN_ENERGY] = state[ENERGY]
    if not caught or state[PERTURBATIONS] >= params[MOST_PERTURBATIONS] or params[SOFT] != 0.0:
        return False  # with soft goals, progress is small near every optimum
    if not leave_bounds(theta, lower, upper, theta):
        return False
    state[PERTURBATIONS] += 1.0
    state[EVALUATIONS] += 1.0
    state[TAU] = 0.0
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    state[SEEN_ENERGY] = state[ENERGY]
    return True


@kernel
def projected_gradient_step(figure, order, springs, lower, upper, theta, ws, vectors, state, params, trace):
    """Make one step down the gradient, in place; return whether there was one."""
    n = theta.shape[0]
    fixed, direction = vectors[0], vectors[1]
    before = state[ENERGY]
    largest = first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, params)
    square = 0.0
    for i in range(n):
        s = strength(params, n, i)
        direction[i] = -ws.gradient[i] * (s * s)
        square += 0.0 if fixed[i] != 0.0 else -ws.gradient[i] * direction[i]
    if restarted(state):
        state[TAU], state[PERTURBATIONS], state[SEEN_ENERGY] = 0.0, 0.0, np.inf
    if not square > STATIONARY_GAIN * before:
        write_trace(trace, state, largest, 0.0, 0.0, fixed, 0.0, before)
        return leave_limits(figure, springs, lower, upper, theta, ws, state, params, False)
    tau = first_length(theta, ws, vectors, state, params)
    for i in range(n):
        vectors[2, i] = theta[i]
        vectors[3, i] = ws.gradient[i]
    tau, slope, length, after = line_search(figure, springs, lower, upper, theta, direction, tau, ws, state, params)
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = 0.0
    else:
        state[TAU] = tau
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    freed = leave_limits(figure, springs, lower, upper, theta, ws, state, params, tau > 0.0)
    return freed or tau > 0.0


@register("projected-gradient")
@dataclass(frozen=True, kw_only=True)
class ProjectedGradient(DescentSolver):
    """The projected gradient: theta <- P(theta - tau grad E), with tau from projected backtracking.

    (Engell-Nørregård & Erleben 2011, eqs. 27 and 34 to 40.)

    Args:
        first_step: Where the search for tau starts. "spectral": from the curvature along the last step (Barzilai &
            Borwein 1988), by far the fastest; "previous": from the last tau; "one": as printed in the paper.
        kicks: How often a figure caught on its limits (a straight knee) is bent away from them, where there is nothing
            but goals to minimise; the best pose is kept. 0: as in the paper.
    """

    first_step: str = "spectral"
    kicks: int = 2

    name: ClassVar[str] = "projected-gradient"
    summary: ClassVar[str] = "projected gradient with projected Armijo back-tracking"
    iterations: ClassVar[int] = 2000
    loop: ClassVar = staticmethod(batch_of("projected_gradient", projected_gradient_step, four_vectors))

    def __post_init__(self):
        super().__post_init__()
        self.require("first_step", self.first_step in FIRST_STEPS, ", ".join(map(repr, FIRST_STEPS)))
        self.require("kicks", self.kicks >= 0, "zero or more")

    def own_params(self) -> tuple[float, ...]:
        """Return the start of the line search and the number of perturbations."""
        return (FIRST_STEPS[self.first_step], self.kicks)


# --- Projected conjugate gradients ---


@kernel
def conjugate(fixed, gradient, direction, old, keep, params):
    """Write the new direction from the old one; return gradient . direction and the square of the free gradient.

    Polak-Ribière with a non-negative factor, in the metric of the joints' strengths; steepest descent if the direction
    would not go down or after a reset. old (n,): the last free gradient times the strengths.
    """
    n = fixed.shape[0]
    top, bottom, square = 0.0, 0.0, 0.0
    for i in range(n):
        g = 0.0 if fixed[i] != 0.0 else gradient[i] * strength(params, n, i)
        top += g * (g - old[i])
        bottom += old[i] * old[i]
        square += g * g
    factor = max(0.0, top / bottom) if keep and bottom > 0.0 else 0.0
    slope = 0.0
    for i in range(n):
        s = strength(params, n, i)
        old[i] = 0.0 if fixed[i] != 0.0 else gradient[i] * s
        kept = factor * direction[i] if factor > 0.0 else 0.0  # no previous direction before the first step
        direction[i] = 0.0 if fixed[i] != 0.0 else kept - old[i] * s
        slope += gradient[i] * direction[i]
    if slope > -1e-8 * square:
        slope = -square
        descend(fixed, gradient, direction, params)
    return slope, square


@kernel
def projected_cg_step(figure, order, springs, lower, upper, theta, ws, vectors, state, params, trace):
    """Make one conjugate step, in place; return whether there was one. state[TAU]: steps since a reset."""
    n = theta.shape[0]
    fixed, direction, old, bent = vectors[0], vectors[1], vectors[2], vectors[3]
    before = state[ENERGY]
    largest = differentiate(figure, order, springs, lower, upper, theta, ws, fixed, params, 0.0)
    keep = not restarted(state) and 0.0 < state[TAU] < n
    slope, square = conjugate(fixed, ws.gradient, direction, old, keep, params)
    if not square > STATIONARY_GAIN * before:
        write_trace(trace, state, largest, 0.0, 0.0, fixed, 0.0, before)
        return False
    multiply(order, ws.hessian, direction, bent, ws.path)
    curvature = dot(direction, bent)
    tau = -slope / curvature if params[METHOD_OPTIONS] != 0.0 and curvature > 1e-12 * square else 1.0
    tau, slope, length, after = line_search(figure, springs, lower, upper, theta, direction, tau, ws, state, params)
    state[TAU] = state[TAU] + 1.0 if keep else 1.0
    if tau == 0.0 and keep:  # the conjugate direction failed: try steepest descent before giving up
        descend(fixed, ws.gradient, direction, params)
        forward(figure, theta, ws)
        tau, slope, length, after = line_search(figure, springs, lower, upper, theta, direction, 1.0, ws, state, params)
        state[TAU] = 1.0
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = 0.0
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    return tau > 0.0


@register("projected-cg")
@dataclass(frozen=True, kw_only=True)
class ProjectedCg(DescentSolver):
    """Projected conjugate gradients (Polak & Ribière) on the dofs that no bound holds.

    The line search is that of Engell-Nørregård & Erleben (2011, eq. 39).

    Args:
        curvature: Start the search at the minimum of the Gauss-Newton model along the direction, which costs one
            product with the Gauss-Newton stiffness. False starts it at one.
    """

    curvature: bool = True

    name: ClassVar[str] = "projected-cg"
    summary: ClassVar[str] = "projected conjugate gradients"
    numbers: ClassVar[tuple[str, ...]] = ("curvature",)
    loop: ClassVar = staticmethod(batch_of("projected_cg", projected_cg_step, four_vectors))
