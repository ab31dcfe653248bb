"""Trust-region Newton with the exact Hessian inside the box: interior reflection, conjugate gradients, a banded aid.

The method of seed 004 section 6 (Coleman and Li's, as its authors' toolbox has it), with the options of section 6.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.kernels.gather import energy_at
from posable.problem import Problem
from posable.solvers.descent import accept, differentiate, write_trace
from posable.solvers.looping import (
    ENERGY,
    EVALUATIONS,
    OPTIONS,
    OWN,
    STATE_WIDTH,
    STATIONARY_GAIN,
    batch_of,
    common_limits,
    started_elsewhere,
)
from posable.solvers.solver import CompiledSolver, Request, register
from posable.solvers.trust_model import (
    VECTORS,
    band_preconditioner,
    bounded,
    build_model,
    carve,
    choose_step,
    conjugate_gradients,
    move_inside,
    nearest_definite,
)

RADIUS = OWN  # column of the state: the trust region's, in the scaled variables
FIRST_RADIUS, PCG_TOLERANCE, PCG_MOST, BANDWIDTH, NEAREST = range(OPTIONS, OPTIONS + 5)  # columns of the limits

TRIES = 30
LARGEST_RADIUS = 100.0


@kernel
def trust_region_step(figure, order, springs, lower, upper, theta, ws, model, state, limits, trace):
    """Make one accepted step, in place; return whether there was one to make. The radius follows the gain ratio."""
    n = theta.shape[0]
    before = state[ENERGY]
    if started_elsewhere(state):
        state[RADIUS] = limits[FIRST_RADIUS]
        move_inside(lower, upper, theta)
        before = state[ENERGY] = energy_at(figure, springs, theta, ws)
    differentiate(figure, order, springs, lower, upper, theta, ws, model.fixed, limits, 1.0)
    largest = build_model(order, lower, upper, theta, ws, model)
    moved = False
    slope, length = 0.0, 0.0
    if limits[NEAREST] != 0.0:
        nearest_definite(model)
    band_preconditioner(model, int(limits[BANDWIDTH]))
    for _ in range(TRIES):
        conjugate_gradients(model, state[RADIUS], limits[PCG_TOLERANCE], limits[PCG_MOST])
        value = choose_step(lower, upper, theta, model, state[RADIUS])
        size = 0.0
        slope, length = 0.0, 0.0
        for i in range(n):
            ws.trial[i] = theta[i] + model.scale[i] * model.chosen[i]
            size += model.chosen[i] * model.chosen[i]
        move_inside(lower, upper, ws.trial)
        for i in range(n):
            slope += ws.gradient[i] * (ws.trial[i] - theta[i])
            length = max(length, abs(ws.trial[i] - theta[i]))
        size = math.sqrt(size)
        if not -value > STATIONARY_GAIN * before or not length > 0.0:
            break
        after = energy_at(figure, springs, ws.trial, ws)
        state[EVALUATIONS] += 1.0
        bend = 0.0  # the model's part that the box adds is not the energy's
        for i in range(n):
            bend += (
                0.5 * model.chosen[i] * model.chosen[i] * abs(ws.gradient[i]) * bounded(lower, upper, ws.gradient[i], i)
            )
        ratio = (before - after - bend) / -value
        if ratio > 0.75 and size > 0.8 * state[RADIUS]:
            state[RADIUS] = min(2.0 * state[RADIUS], LARGEST_RADIUS)
        elif not ratio > 0.25:
            state[RADIUS] = 0.25 * min(state[RADIUS], size)
        if after < before and ratio > 1e-4:
            accept(figure, lower, upper, theta, ws, state, after)
            moved = True
            break
    if not moved:
        slope, length = 0.0, 0.0
    write_trace(trace, state, largest, length, state[RADIUS], model.fixed, slope, before)
    return moved


@register("trust-region")
@dataclass(frozen=True, kw_only=True)
class TrustRegion(CompiledSolver):
    """Trust-region Newton with the exact Hessian and interior reflection: seed 004 sections 6.2 to 6.7.

    The variables are scaled by the root of the distance to the bound that the gradient points to; the quadratic model
    is minimised within the radius by conjugate gradients; a step that meets a bound is cut there or reflected, and
    iterates stay strictly inside (Coleman and Li 1996). radius: the first one. tolerance: of the conjugate gradients,
    relative; most: of their iterations, n^2 by default. bandwidth: of the preconditioner, 0 for the diagonal; the
    seed's choice is 24. indefinite: "nearest" puts the nearest positive semidefinite matrix in the place of an
    indefinite Hessian (Higham), "curvature" follows its negative curvature to the edge of the region.
    """

    radius: float = 1.0
    tolerance: float = 0.1
    most: int | None = None
    bandwidth: int = 24
    indefinite: str = "nearest"

    name: ClassVar[str] = "trust-region"
    summary: ClassVar[str] = "trust-region Newton with the exact Hessian and interior reflection"
    iterations: ClassVar[int] = 200
    state_width: ClassVar[int] = STATE_WIDTH
    loop: ClassVar = staticmethod(batch_of("trust_region", trust_region_step, carve))

    def __post_init__(self):
        good = {
            "radius": self.radius > 0.0,
            "tolerance": 0.0 < self.tolerance < 1.0,
            "most": self.most is None or self.most >= 1,
            "bandwidth": self.bandwidth >= 0,
            "indefinite": self.indefinite in ("nearest", "curvature"),
        }
        for what, fine in good.items():
            if not fine:
                raise SolverError(f"trust-region: {what}", expected=EXPECTED[what], got=repr(getattr(self, what)))

    def memory(self, problem: Problem) -> int:
        """Return the scratch memory of the engine and of the dense model."""
        n = problem.skeleton.size
        return problem.work_size + (2 * n + VECTORS) * n

    def limits(self, problem: Problem, request: Request) -> np.ndarray:
        """Return what the loop reads, column by column."""
        n = problem.skeleton.size
        most = max(n * n, 1) if self.most is None else self.most
        options = (self.radius, self.tolerance, most, self.bandwidth, float(self.indefinite == "nearest"))
        return common_limits(problem, request, self.iterations, options)


EXPECTED = {
    "radius": "a positive number",
    "tolerance": "a number between 0 and 1",
    "most": "None or a whole number from 1",
    "bandwidth": "a whole number from 0",
    "indefinite": "'nearest' or 'curvature'",
}
