"""The default solver for GPU lanes that run in lockstep: one attempt at a problem, one trial step per turn.

A GPU is fast as long as all lanes execute the same instructions. So every turn is the same: derivatives if the pose is
new, one damped Newton step on the free dofs, the energy there, and its acceptance. What engine/newton.py does in loops
within an iteration (more damping after a rejected step, a perturbation off the limits) is the next turn here; a restart
is another attempt, which another lane makes at the same time (batch.py). State, params, kinematics, springs, assembly,
factorisation and the treatment of bounds are those of the CPU.
"""

from __future__ import annotations

from posable.engine.assemble import derivatives, energy_at
from posable.engine.bounds import (
    CONVERGED,
    EXHAUSTED,
    RUNNING,
    STATIONARY,
    all_reached,
    armijo,
    copy_into,
    mark_failed_chains,
    perturb_active_limits,
    project,
    random_pose,
    recentre_all,
    redraw,
)
from posable.engine.jit import kernel
from posable.engine.layout import BEST, DAMPING, ENERGY, ITERATIONS, MAX_ITERATIONS, PHASE, SLOW, SOFT
from posable.engine.newton import (
    ALPHA,
    EXACT,
    EXACT_BEYOND,
    EXACT_NOW,
    FIRST_DAMPING,
    MAX_DAMPING,
    MAX_PERTURBATIONS,
    MAX_TRIES,
    MIN_DAMPING,
    NEVER,
    PERTURBATIONS,
    REDRAW_ALL_EVERY,
    SLOW_GAIN,
    SLOW_STEPS,
    STATIONARY_GAIN,
    TRIES,
    damping_scale,
    hold_bounds,
    more_damping,
    next_damping,
    propose,
)

# Values of PHASE: a step from a new pose, one from the same pose, go to ws.trial, go there and randomize
STEP, AGAIN, JUMP, SHAKE = 0.0, 1.0, 2.0, 3.0

NEARBY = 0.8  # fraction of the way from the start to a random pose at which later attempts start


@kernel
def lane_begin(figure, lower, upper, theta, start, ws, state, params, attempt, limbs):
    """Set up an attempt at theta (n,): the first starts there, later ones at random or perturbed poses."""
    state[DAMPING] = params[FIRST_DAMPING]
    state[ITERATIONS] = state[SLOW] = state[PERTURBATIONS] = state[EXACT_NOW] = state[TRIES] = state[ENERGY] = 0.0
    state[BEST] = 1e30
    state[PHASE] = JUMP
    if attempt > 0:
        if limbs == 0.0 or attempt % int(REDRAW_ALL_EVERY) == 0:
            random_pose(figure, lower, upper, start, state, theta)
            for i in range(theta.shape[0]):
                theta[i] = start[i] + NEARBY * (theta[i] - start[i])
        else:
            state[PHASE] = SHAKE
    project(theta, lower, upper)
    copy_into(theta, ws.trial)


@kernel
def lane_turn(figure, order, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params):
    """Make one turn of an attempt; return its code, RUNNING until it ends."""
    soft = params[SOFT] != 0.0
    slope, predicted, length = 0.0, 0.0, 0.0
    definite = True
    if state[PHASE] < JUMP:
        if state[PHASE] == STEP:
            exact = state[EXACT_NOW] if params[EXACT] != NEVER else 0.0
            derivatives(figure, order, springs, theta, ws, exact)
            damping_scale(order, ws.hessian, scale)
        hold_bounds(order, theta, lower, upper, ws, fixed)
        definite, slope, predicted, length = propose(order, theta, lower, upper, ws, fixed, scale, state[DAMPING])
    after = energy_at(figure, springs, ws.trial, ws)
    state[ITERATIONS] += 1.0
    return lane_verdict(
        figure, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params,
        after, slope, predicted, length, definite, soft,
    )  # fmt: skip


@kernel
def lane_verdict(
    figure, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params,
    after, slope, predicted, length, definite, soft,
):  # fmt: skip
    """Accept or reject the trial step, and set the next phase."""
    before = state[ENERGY]
    jumped = state[PHASE] >= JUMP
    stationary = False
    if jumped or (definite and after < before and armijo(before, after, slope, params[ALPHA])):
        copy_into(ws.trial, theta)
        state[ENERGY] = after
        if not soft and all_reached(ws.error, tolerances):
            return CONVERGED
        if state[PHASE] == SHAKE:
            mark_failed_chains(figure, springs, tolerances, ws, scale)
            redraw(figure, lower, upper, start, state, scale, theta)
            copy_into(theta, ws.trial)
            state[PHASE] = JUMP
            return RUNNING
        state[PHASE] = STEP
        state[TRIES] = 0.0
        if not jumped:
            damping = next_damping(state[DAMPING], before, after, predicted, params)
            state[DAMPING] = min(max(damping, params[MIN_DAMPING]), params[MAX_DAMPING])
            state[SLOW] = state[SLOW] + 1.0 if after > (1.0 - params[SLOW_GAIN]) * before else 0.0
            state[EXACT_NOW] = 1.0 if after > EXACT_BEYOND * before else 0.0
            stationary = not soft and state[SLOW] >= SLOW_STEPS
            if recentre_all(figure, theta, lower, upper):
                copy_into(theta, ws.trial)
                state[PHASE] = JUMP
    elif not definite and state[EXACT_NOW] != 0.0:  # back to the pose, for Gauss-Newton's Hessian
        state[EXACT_NOW] = 0.0
        state[PHASE] = JUMP
    else:
        state[PHASE] = AGAIN
        state[TRIES] += 1.0
        stationary = (
            not predicted > params[STATIONARY_GAIN] * before
            or not length > 0.0
            or state[TRIES] >= params[MAX_TRIES]
            or not definite
        )
        state[DAMPING] = more_damping(state[DAMPING])
    if stationary:
        if state[PERTURBATIONS] < MAX_PERTURBATIONS:
            if state[PERTURBATIONS] == 0.0 or state[ENERGY] < state[BEST]:
                state[BEST] = state[ENERGY]
                copy_into(theta, ws.best)
            perturbation = state[PERTURBATIONS]
            state[PERTURBATIONS] += 1.0
            if not soft and perturb_active_limits(theta, lower, upper, ws.gradient, fixed, perturbation):
                copy_into(theta, ws.trial)
                state[PHASE] = JUMP
                state[SLOW] = 0.0
                state[DAMPING] = params[FIRST_DAMPING]
                return RUNNING
        return STATIONARY
    if state[ITERATIONS] >= params[MAX_ITERATIONS]:
        return EXHAUSTED
    return RUNNING


@kernel
def lane_end(theta, ws, state):
    """Write the better of the poses before and after a perturbation to theta."""
    if state[PERTURBATIONS] > 0.0 and state[BEST] < state[ENERGY]:
        state[ENERGY] = state[BEST]
        copy_into(ws.best, theta)
