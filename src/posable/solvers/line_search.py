"""Common parts of the projected descent methods: options, line search, accepted step.

The search is that of Engell-Nørregård & Erleben 2011, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.engine.assemble import clear_hessian, derivatives, energy_at, gradient_at
from posable.engine.bounds import active_bounds, armijo, recentre_all, record
from posable.engine.jit import kernel
from posable.engine.joints import forward
from posable.engine.layout import COUPLED, ENERGY, EVALUATIONS, ITERATIONS
from posable.errors import SolverError
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions, strength_of
from posable.solvers.loop import OPTIONS, OWN, STATE_WIDTH, common_params

# Columns of the params, after those of loop.py; a method's own follow
ALPHA, BETA, MAX_STEP, OWN_OPTIONS = range(OPTIONS, OPTIONS + 4)
# Columns of the state, after those of loop.py; a method's own follow
TAU, OWN_STATE = OWN, OWN + 1

SEARCHES = 60  # step lengths tried for one step
RESOLUTION = 1e-16  # relative to the energy: smaller predicted gains are rounding errors


@kernel
def four_vectors(work, lower, upper, params, n, b, g):
    """Return four vectors (4, n) from the end of the scratch memory, and the box."""
    return work[work.shape[0] - 4 * n :].reshape(4, n), lower, upper


@kernel
def differentiate(figure, order, springs, lower, upper, theta, ws, fixed, params, exact):
    """Write gradient, Hessian and active bounds at a placed pose; return the largest free gradient."""
    if params[COUPLED] != 0.0:
        clear_hessian(ws)
    derivatives(figure, order, springs, theta, ws, exact)
    return active_bounds(theta, ws.gradient, lower, upper, fixed)


@kernel
def first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, params):
    """Write gradient and active bounds at a placed pose, and no Hessian; return the largest free gradient."""
    if params[COUPLED] != 0.0:
        clear_hessian(ws)
    gradient_at(figure, order, springs, theta, ws)
    return active_bounds(theta, ws.gradient, lower, upper, fixed)


@kernel
def strength(params, n, i):
    """Return the strength of dof i: the last n params of a descent method."""
    return params[params.shape[0] - n + i]


@kernel
def differ(params, n):
    """Return whether some dof has a strength other than 1."""
    for i in range(n):
        if strength(params, n, i) != 1.0:
            return True
    return False


@kernel
def squared(x, params, n):
    """Return the square of a gradient x (n,) in the metric."""
    total = 0.0
    for i in range(n):
        total += (x[i] * strength(params, n, i)) ** 2
    return total


@kernel
def stretch(direction, params):
    """Turn the negative gradient (n,) into the steepest descent direction of the metric."""
    n = direction.shape[0]
    for i in range(n):
        direction[i] *= strength(params, n, i) ** 2


@kernel
def trial_step(lower, upper, theta, direction, tau, ws):
    """Write P(theta + tau d) into ws.trial; return gradient . (trial - theta), of (39), and the largest change."""
    slope, length = 0.0, 0.0
    for i in range(theta.shape[0]):
        x = min(max(theta[i] + tau * direction[i], lower[i]), upper[i])
        ws.trial[i] = x
        slope += ws.gradient[i] * (x - theta[i])
        length = max(length, abs(x - theta[i]))
    return slope, length


@kernel
def line_search(figure, springs, lower, upper, theta, direction, tau, ws, state, params):
    """Shorten tau by beta until the projected step passes Armijo's test (Engell-Nørregård & Erleben 2011, 34, 39, 40).

    Returns (tau, slope, length, energy there); tau is zero where no step does. ws.trial holds the pose, placed.
    """
    energy = state[ENERGY]
    largest = 0.0
    for i in range(theta.shape[0]):
        largest = max(largest, abs(direction[i]))
    if tau * largest > params[MAX_STEP]:
        tau = params[MAX_STEP] / largest
    for _ in range(SEARCHES):
        slope, length = trial_step(lower, upper, theta, direction, tau, ws)
        if not length > 0.0:
            break
        if slope < 0.0:
            if not -slope > RESOLUTION * energy:
                break
            after = energy_at(figure, springs, ws.trial, ws)
            state[EVALUATIONS] += 1.0
            if after < energy and armijo(energy, after, slope, params[ALPHA]):
                return tau, slope, length, after
        tau *= params[BETA]
    return 0.0, 0.0, 0.0, energy


@kernel
def accept(figure, lower, upper, theta, ws, state, after):
    """Move to ws.trial, whose energy is `after`; return whether a rotation vector was re-centred."""
    for i in range(theta.shape[0]):
        theta[i] = ws.trial[i]
    state[ENERGY] = after
    turned = recentre_all(figure, theta, lower, upper)
    if turned:
        forward(figure, theta, ws)
    return turned


@kernel
def write_trace(trace, state, largest, length, damping, fixed, slope, before):
    """Write the trace row of this iteration, if there is a trace."""
    if trace.shape[0] > 0:
        row = int(state[ITERATIONS]) - 1
        record(trace, row, state[ENERGY], largest, length, damping, fixed, state[EVALUATIONS], slope, before)


@dataclass(frozen=True, kw_only=True)
class DescentSolver(CompiledSolver):
    """The options of the projected line search (Engell-Nørregård & Erleben 2011, section 4.3).

    Args:
        alpha: Fraction of the predicted decrease that a step must give (eq. 39).
        beta: Factor by which a refused step is shortened (eq. 34).
        max_step: [rad, m] The largest change of any one dof in a step, beyond which a model of rotations says nothing;
            inf switches it off, as printed in the paper.
    """

    alpha: float = 1e-4
    beta: float = 0.5
    max_step: float = 1.0

    iterations: ClassVar[int] = 1000
    state_width: ClassVar[int] = STATE_WIDTH
    vectors: ClassVar[int] = 4  # of n numbers that the loop needs

    def __post_init__(self):
        if not 0.0 < self.alpha < 1.0:
            raise SolverError(f"{self.name}: alpha", expected="a number between 0 and 1", got=repr(self.alpha))
        if not self.alpha <= self.beta < 1.0:
            raise SolverError(f"{self.name}: beta", expected="a number from alpha up to 1", got=repr(self.beta))
        if not self.max_step > 0.0:
            raise SolverError(f"{self.name}: max_step", expected="a positive number or inf", got=repr(self.max_step))

    def options(self) -> tuple[float, ...]:
        """Return the method's own options."""
        return ()

    def memory(self, problem: Problem) -> int:
        """Return the scratch memory of the engine and the method's own vectors."""
        return problem.work_size + self.vectors * problem.skeleton.size

    def params(self, problem: Problem, request: SolveOptions) -> np.ndarray:
        """Return the params of the loop."""
        options = (self.alpha, self.beta, self.max_step, *self.options(), *strength_of(problem))
        return common_params(problem, request, self.iterations, options)
