"""The compiled loop of the classic solvers: their state, stopping criteria and restarts.

The loop is: `begin`; then, while `before_step` says GO_ON: one step of the method, and `after_step`; then `finish`. A
method brings its step and its memory, and `batch_of` makes a loop of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine.assemble import energy_at, springs_of
from posable.engine.bounds import CONVERGED, EXHAUSTED, RUNNING, STATIONARY, all_reached, project, random_pose
from posable.engine.jit import entry, kernel, with_names
from posable.engine.layout import (
    BEST,
    CHUNK_ITERATIONS,
    ENERGY,
    EVALUATIONS,
    FRESH,
    GOING,
    ITERATIONS,
    MOST_ITERATIONS,
    MOST_RESTARTS,
    OWN_PARAMS,
    OWN_STATE,
    PHASE,
    RESTARTS,
    SLOW,
    SOFT,
    workspace,
)
from posable.problem import Problem
from posable.solvers.base import SolveOptions

# The first of a method's own columns. SEEN: the number of restarts at the method's last step
SEEN, OWN = OWN_STATE, OWN_STATE + 1
STATE_WIDTH = 16
KEEP_BEST, OPTIONS = OWN_PARAMS, OWN_PARAMS + 1

GO_ON = 9  # beside the outcomes of engine/bounds.py
SLOW_STEPS = 30.0  # steps without a new best energy before a restart
STATIONARY_GAIN = 1e-12  # predicted gain, relative to the energy, below which a pose is stationary


def common_params(
    problem: Problem, request: SolveOptions, iterations: int, options: tuple[float, ...] = (), keep_best: bool = True
) -> np.ndarray:
    """Return the params of a loop: the columns above, then the method's own options."""
    most = request.max_iterations
    if most is None:
        most = iterations * (1 + request.restarts)
    shared = (most + 1.0, most, request.restarts, problem.soft, problem.coupled, keep_best)
    return np.array((*shared, *options), dtype=float)


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
    for i in range(theta.shape[0]):
        ws.best[i] = theta[i]
    return True


@kernel
def restore_best(figure, springs, theta, ws, state):
    """Restore the best pose if it is better than the current one."""
    if not state[ENERGY] <= state[BEST]:
        for i in range(theta.shape[0]):
            theta[i] = ws.best[i]
        state[ENERGY] = energy_at(figure, springs, theta, ws)


@kernel
def before_step(figure, springs, tolerances, theta, ws, state, params, left):
    """Return GO_ON if a step is due, and count it; otherwise RUNNING (chunk done), CONVERGED or EXHAUSTED."""
    if params[SOFT] == 0.0 and all_reached(ws.error, tolerances):
        return CONVERGED
    if state[ITERATIONS] >= params[MOST_ITERATIONS]:
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
    elsewhere = state[RESTARTS] < params[MOST_RESTARTS]
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
    for k in range(errors.shape[0]):
        errors[k] = ws.error[k]
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
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    memory, low, high = carve(work, lower, upper, params, n, b, g)
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
    it did. carve(work, lower, upper, params, n, b, g) returns the method's memory, from the end of the scratch memory,
    and the box that it moves in.
    """
    one = kernel(with_names(advance, f"{name}_loop", step=step))
    return entry(with_names(solve_batch, f"{name}_batch", carve=carve, advance=one))
