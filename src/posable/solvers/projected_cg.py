"""Projected conjugate gradients: the gradient method with a memory of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.kernels.compiler import kernel
from posable.kernels.factor import multiply
from posable.kernels.kinematics import forward
from posable.solvers.descent import (
    OWN_OPTIONS,
    TAU,
    DescentSolver,
    accept,
    differentiate,
    four_vectors,
    line_search,
    write_trace,
)
from posable.solvers.looping import (
    ENERGY,
    STATIONARY_GAIN,
    batch_of,
    started_elsewhere,
)
from posable.solvers.solver import register


@kernel
def conjugate(fixed, gradient, direction, old, keep):
    """Write the new direction from the old one; return gradient . direction and the free gradient's square.

    Polak and Ribiere, never negative; plain descent where the direction would not go down or nothing is kept.
    """
    n = fixed.shape[0]
    top, bottom, square = 0.0, 0.0, 0.0
    for i in range(n):
        g = 0.0 if fixed[i] != 0.0 else gradient[i]
        top += g * (g - old[i])
        bottom += old[i] * old[i]
        square += g * g
    factor = max(0.0, top / bottom) if keep and bottom > 0.0 else 0.0
    slope = 0.0
    for i in range(n):
        g = 0.0 if fixed[i] != 0.0 else gradient[i]
        kept = factor * direction[i] if factor > 0.0 else 0.0  # before the first step there is nothing to keep
        direction[i] = 0.0 if fixed[i] != 0.0 else kept - g
        slope += g * direction[i]
    if slope > -1e-8 * square:
        slope = -square
        for i in range(n):
            direction[i] = 0.0 if fixed[i] != 0.0 else -gradient[i]
    for i in range(n):
        old[i] = 0.0 if fixed[i] != 0.0 else gradient[i]
    return slope, square


@kernel
def projected_cg_step(figure, order, springs, lower, upper, theta, ws, vectors, state, limits, trace):
    """Make one conjugate step, in place; return whether there was one to make. state[TAU]: steps since a fresh one."""
    n = theta.shape[0]
    fixed, direction, old, bent = vectors[0], vectors[1], vectors[2], vectors[3]
    before = state[ENERGY]
    largest = differentiate(figure, order, springs, lower, upper, theta, ws, fixed, limits, 0.0)
    keep = not started_elsewhere(state) and 0.0 < state[TAU] < n
    slope, square = conjugate(fixed, ws.gradient, direction, old, keep)
    if not square > STATIONARY_GAIN * before:
        write_trace(trace, state, largest, 0.0, 0.0, fixed, 0.0, before)
        return False
    multiply(order, ws.hessian, direction, bent, ws.path)
    curvature = 0.0
    for i in range(n):
        curvature += direction[i] * bent[i]
    tau = -slope / curvature if limits[OWN_OPTIONS] != 0.0 and curvature > 1e-12 * square else 1.0
    tau, slope, length, after = line_search(figure, springs, lower, upper, theta, direction, tau, ws, state, limits)
    state[TAU] = state[TAU] + 1.0 if keep else 1.0
    if tau == 0.0 and keep:  # the memory has led astray: try plain descent before giving up
        for i in range(n):
            direction[i] = 0.0 if fixed[i] != 0.0 else -ws.gradient[i]
        forward(figure, theta, ws)
        tau, slope, length, after = line_search(figure, springs, lower, upper, theta, direction, 1.0, ws, state, limits)
        state[TAU] = 1.0
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = 0.0
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    return tau > 0.0


@register("projected-cg")
@dataclass(frozen=True, kw_only=True)
class ProjectedCg(DescentSolver):
    """Projected conjugate gradients (Polak and Ribiere) on the dofs that no bound holds, with seed 000's search (39).

    curvature: start the search at the minimum of the Gauss-Newton model along the direction, which costs one product
    with the gathered stiffness; False starts it at one.
    """

    curvature: bool = True

    name: ClassVar[str] = "projected-cg"
    summary: ClassVar[str] = "projected conjugate gradients"
    loop: ClassVar = staticmethod(batch_of("projected_cg", projected_cg_step, four_vectors))

    def options(self) -> tuple[float, ...]:
        """Return whether the curvature sets the first step."""
        return (float(self.curvature),)
