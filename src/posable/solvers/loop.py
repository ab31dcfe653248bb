"""The compiled loop of the classic solvers: their state, stopping criteria and restarts.

The loop is: `begin`; then, while `before_step` says GO_ON: one step of the method, and `after_step`; then `finish`. A
method provides its step and its memory, and `batch_of` makes a loop of them. The projected descent methods also share
options and a line search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine.assemble import derivatives, energy_at, gradient_at, springs_of
from posable.engine.bounds import (
    CONVERGED,
    EXHAUSTED,
    RUNNING,
    STATIONARY,
    active_bounds,
    all_reached,
    armijo,
    copy_into,
    project,
    random_pose,
    recentre_all,
)
from posable.engine.jit import entry, kernel, with_names
from posable.engine.joints import forward
from posable.engine.layout import (
    BEST,
    CHUNK_ITERATIONS,
    ENERGY,
    EVALUATIONS,
    FRESH,
    GOING,
    ITERATIONS,
    MAX_ITERATIONS,
    MAX_RESTARTS,
    OWN_PARAMS,
    OWN_STATE,
    PHASE,
    RESTARTS,
    SLOW,
    SOFT,
    workspace,
)
from posable.engine.newton import restore_best
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions, strength_of

# The first of a method's own columns. SEEN: the number of restarts at the method's last step
SEEN, OWN = OWN_STATE, OWN_STATE + 1
KEEP_BEST, OPTIONS = OWN_PARAMS, OWN_PARAMS + 1

GO_ON = 9  # beside the outcomes of engine/bounds.py
SLOW_STEPS = 30.0  # steps without a new best energy before a restart
STATIONARY_GAIN = 1e-12  # predicted gain, relative to the energy, below which a pose is stationary


def common_params(
    problem: Problem, options: SolveOptions, iterations: int, own: tuple[float, ...] = (), keep_best: bool = True
) -> np.ndarray:
    """Return the params of a loop: the columns above, then the method's own options."""
    most = options.max_iterations
    if most is None:
        most = iterations * (1 + options.restarts)
    shared = (most + 1.0, most, options.restarts, problem.soft, keep_best)
    return np.array((*shared, *own), dtype=float)


@kernel
def begin(figure, springs, lower, upper, theta, ws, state):
    """Project theta into the box and write its energy to the state; return whether this is the first call."""
    fresh = state[PHASE] == FRESH
    if fresh:
        project(theta, lower, upper)
        state[PHASE] = GOING
        state[EVALUATIONS] = 1.0
        state[SEEN] = -1.0
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    if fresh:
        keep_best(theta, ws, state)
    return fresh


@kernel
def restarted(state):
    """Return whether there was a restart since the method's last step, so that its history is void."""
    if state[SEEN] == state[RESTARTS]:
        return False
    state[SEEN] = state[RESTARTS]
    return True


@kernel
def keep_best(theta, ws, state):
    """Store a pose if it is the best so far; return whether it is."""
    if not state[ENERGY] < state[BEST]:
        return False
    state[BEST] = state[ENERGY]
    copy_into(theta, ws.best)
    return True


@kernel
def before_step(figure, springs, tolerances, theta, ws, state, params, left):
    """Return GO_ON if a step is due, and count it; otherwise RUNNING (chunk done), CONVERGED or EXHAUSTED."""
    if params[SOFT] == 0.0 and all_reached(ws.error, tolerances):
        return CONVERGED
    if state[ITERATIONS] >= params[MAX_ITERATIONS]:
        if params[KEEP_BEST] != 0.0:
            restore_best(figure, springs, theta, ws, state)
        return EXHAUSTED
    if left <= 0.0:
        return RUNNING
    state[ITERATIONS] += 1.0
    return GO_ON


@kernel
def after_step(figure, springs, tolerances, lower, upper, theta, start, ws, state, params, moved):
    """Judge a step: return GO_ON, or the status of a problem that has ended.

    If a method is stationary, or has made no progress for SLOW_STEPS, it restarts at a random pose while restarts are
    left. A pose that is not finite is replaced by the best one.
    """
    if keep_best(theta, ws, state):
        state[SLOW] = 0.0
    else:
        state[SLOW] += 1.0
    numeric = state[ENERGY] < np.inf
    elsewhere = state[RESTARTS] < params[MAX_RESTARTS]
    if numeric and moved and not (elsewhere and state[SLOW] >= SLOW_STEPS):
        return GO_ON
    if params[SOFT] != 0.0 and numeric and all_reached(ws.error, tolerances):
        return CONVERGED
    if elsewhere:
        state[RESTARTS] += 1.0
        state[SLOW] = 0.0
        random_pose(figure, lower, upper, start, state, theta)
        state[ENERGY] = energy_at(figure, springs, theta, ws)
        state[EVALUATIONS] += 1.0
        keep_best(theta, ws, state)
        return GO_ON
    if params[KEEP_BEST] != 0.0 or not numeric:
        restore_best(figure, springs, theta, ws, state)
    return STATIONARY


@kernel
def finish(figure, springs, tolerances, lower, upper, theta, ws, code, errors):
    """Project the pose into the box, write the errors (g,) there, and return its code."""
    outside = False
    if code != RUNNING:
        for i in range(theta.shape[0]):
            outside = outside or theta[i] < lower[i] or theta[i] > upper[i]
        project(theta, lower, upper)
    energy_at(figure, springs, theta, ws)
    copy_into(ws.error, errors)
    if outside and not all_reached(errors, tolerances):
        return EXHAUSTED  # the method ended outside the box: the projected pose need not be stationary
    return code


# --- The loop ---

# `batch_of` replaces these names by the kernels of a method.
carve: Any = None
step: Any = None


def advance(figure, order, springs, tolerances, lower, upper, theta, start, ws, memory, state, params, trace):
    """Advance one problem by at most params[CHUNK_ITERATIONS] iterations from its state; return its code."""
    begin(figure, springs, lower, upper, theta, ws, state)
    left = params[CHUNK_ITERATIONS]
    while True:
        code = before_step(figure, springs, tolerances, theta, ws, state, params, left)
        if code != GO_ON:
            return code
        left -= 1.0
        moved = step(figure, order, springs, lower, upper, theta, ws, memory, state, params, trace)
        if not moved:
            energy_at(figure, springs, theta, ws)
        code = after_step(figure, springs, tolerances, lower, upper, theta, start, ws, state, params, moved)
        if code != GO_ON:
            return code


def solve_batch(
    figure, order, kind, constants, targets, pull, home, tolerances, lower, upper, poses, starts, dofs, work, d,
    states, params, errors, outcome, trace,
):  # fmt: skip
    """Solve every problem of a batch; the arrays are those of `newton_batch`, for the whole figure."""
    ws, own = workspace(figure, kind.shape[0], work, d)
    memory, low, high = carve(own, lower, upper, params, figure.body.shape[0], kind.shape[0])
    for t in range(poses.shape[0]):
        if outcome[t] != RUNNING:
            continue
        springs = springs_of(kind, constants, targets, t, pull, home)
        theta = poses[t]
        code = advance(
            figure, order, springs, tolerances, low, high, theta, starts[t], ws, memory, states[t], params, trace
        )
        outcome[t] = finish(figure, springs, tolerances, lower, upper, theta, ws, code, errors[t])


def batch_of(name: str, step: Any, carve: Any) -> Any:
    """Return the entry that solves a batch with the steps of a method.

    step(figure, order, springs, lower, upper, theta, ws, memory, state, params, trace) moves theta and returns whether
    it did. carve(own, lower, upper, params, b, g) returns the method's memory, from the scratch memory beside the
    workspace, and the box that it moves in, both for b bodies and g springs.
    """
    one = kernel(with_names(advance, f"{name}_loop", step=step))
    return entry(with_names(solve_batch, f"{name}_batch", carve=carve, advance=one))


# --- Projected descent: options, line search, accepted step (Engell-Nørregård & Erleben 2011, section 4.3) ---

# Columns of the params, after those of every loop; a method's own follow
ALPHA, BETA, MAX_STEP, METHOD_OPTIONS = range(OPTIONS, OPTIONS + 4)
# Columns of the state, after those of every loop; a method's own follow
TAU, METHOD_STATE = OWN, OWN + 1

SEARCHES = 60  # step lengths tried for one step
RESOLUTION = 1e-16  # relative to the energy: smaller predicted gains are rounding errors


@kernel
def four_vectors(own, lower, upper, params, b, g):
    """Return four vectors (4, n) of the scratch memory, and the box."""
    n = lower.shape[0]
    return own[: 4 * n].reshape(4, n), lower, upper


@kernel
def differentiate(figure, order, springs, lower, upper, theta, ws, fixed, params, exact):
    """Write gradient, Hessian and active bounds at a placed pose; return the largest free gradient."""
    derivatives(figure, order, springs, theta, ws, exact)
    return active_bounds(theta, ws.gradient, lower, upper, fixed)


@kernel
def first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, params):
    """Write gradient and active bounds at a placed pose, and no Hessian; return the largest free gradient."""
    gradient_at(figure, order, springs, theta, ws)
    return active_bounds(theta, ws.gradient, lower, upper, fixed)


@kernel
def strength(params, n, i):
    """Return the strength of dof i: the last n params of a descent method."""
    return params[params.shape[0] - n + i]


@kernel
def descend(fixed, gradient, direction, params):
    """Write the steepest descent direction (n,) of the free dofs, in the metric of the joints' strengths."""
    n = direction.shape[0]
    for i in range(n):
        direction[i] = 0.0 if fixed[i] != 0.0 else -gradient[i] * strength(params, n, i) ** 2


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
    copy_into(ws.trial, theta)
    state[ENERGY] = after
    turned = recentre_all(figure, theta, lower, upper)
    if turned:
        forward(figure, theta, ws)
    return turned


@dataclass(frozen=True, kw_only=True)
class DescentSolver(CompiledSolver):
    """The options of the projected line search (Engell-Nørregård & Erleben 2011, section 4.3).

    Args:
        alpha: Fraction of the predicted decrease that a step must give (eq. 39).
        beta: Factor by which a refused step is shortened (eq. 34).
        max_step: [rad, m] The largest change of any one dof in a step, beyond which a linear model is meaningless;
            inf switches it off, as printed in the paper.
    """

    alpha: float = 1e-4
    beta: float = 0.5
    max_step: float = 1.0

    iterations: ClassVar[int] = 1000

    def __post_init__(self):
        self.require("alpha", 0.0 < self.alpha < 1.0, "a number between 0 and 1")
        self.require("beta", self.alpha <= self.beta < 1.0, "a number from alpha up to 1")
        self.require("max_step", self.max_step > 0.0, "a positive number or inf")

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of the loop."""
        own = (self.alpha, self.beta, self.max_step, *self.own_params(), *strength_of(problem))
        return common_params(problem, options, self.iterations, own)
