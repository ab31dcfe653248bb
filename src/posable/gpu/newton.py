"""The default solver for lanes that walk in step: one attempt at a problem, one trial step a turn.

A GPU runs many problems side by side and is fast as long as they all do the same thing. So every turn is the same: the
derivatives where the pose is new, one damped Newton step on the free dofs, the energy there, and a verdict. What
newton.py does in loops within an iteration (more damping after a refused step, a kick off the limits) is here the next
turn; and a restart is another attempt, which another lane makes at the same time (batches.py). Kinematics,
springs, gathering, factorisation and the rules of the box are the kernels that the CPU runs.
"""

from __future__ import annotations

from posable.engine.assemble import clear_hessian, derivatives, energy_at
from posable.engine.bounds import (
    CONVERGED,
    EXHAUSTED,
    RUNNING,
    STATIONARY,
    all_reached,
    armijo,
    kick,
    project,
    random_pose,
    recentre_all,
    shake,
)
from posable.engine.jit import kernel
from posable.engine.newton import ALL_ANEW, DAMPING_CEILING, EXACT_BEYOND, damping_scale, hold_bounds, propose

# What a lane remembers between two turns: columns of its state
RANDOM, ENERGY, DAMPING, TURNS, SLOW, HOPS, EXACT_NOW, MODE, TRIES, BEST = range(10)
STATE_WIDTH = 10

# What the next turn does (MODE)
STEP, AGAIN, JUMP, SHAKE = 0.0, 1.0, 2.0, 3.0  # a step from a new pose, from the same, go to ws.trial, go and shake it

# What a lane is told: columns of its limits
MOST, ALPHA, FIRST_DAMPING, SOFT, COUPLED, CURVED, LIMBS = range(7)

KICKS = 2.0  # times a lane moves off the limits that hold it; where other attempts follow, they do it better
LOWEST_DAMPING = 1e-4  # less lets Gauss-Newton leap out of the basin it is in
MOST_TRIES = 8.0  # dampings tried for one step
PATIENCE = 3.0  # steps that gain less than LITTLE before the attempt is given up
LITTLE = 0.15
NEARBY = 0.8  # of the way from the start to a random pose, where a later attempt starts
SMALLEST_GAIN = 1e-11  # predicted, relative to the energy, below which a pose is stationary


@kernel
def lane_begin(figure, lower, upper, theta, start, ws, state, limits, attempt):
    """Set up an attempt at theta (n,): the first goes from there, later ones from random poses or a shaken theta."""
    state[DAMPING] = limits[FIRST_DAMPING]
    state[TURNS] = state[SLOW] = state[HOPS] = state[EXACT_NOW] = state[TRIES] = state[ENERGY] = 0.0
    state[BEST] = 1e30
    state[MODE] = JUMP
    if attempt > 0:
        if limits[LIMBS] == 0.0 or attempt % int(ALL_ANEW) == 0:
            random_pose(figure, lower, upper, start, state, theta)
            for i in range(theta.shape[0]):
                theta[i] = start[i] + NEARBY * (theta[i] - start[i])
        else:
            state[MODE] = SHAKE
    project(theta, lower, upper)
    for i in range(theta.shape[0]):
        ws.trial[i] = theta[i]


@kernel
def lane_turn(figure, order, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, limits):
    """Make one turn of an attempt; return what became of it, RUNNING if nothing yet."""
    soft = limits[SOFT] != 0.0
    slope, predicted, length = 0.0, 0.0, 0.0
    definite = True
    if state[MODE] < JUMP:
        if state[MODE] == STEP:
            if limits[COUPLED] != 0.0:
                clear_hessian(ws)
            exact = state[EXACT_NOW] if limits[CURVED] != 0.0 else 0.0
            derivatives(figure, order, springs, theta, ws, exact)
            damping_scale(order, ws.hessian, scale)
        hold_bounds(order, theta, lower, upper, ws, fixed)
        definite, slope, predicted, length = propose(order, theta, lower, upper, ws, fixed, scale, state[DAMPING])
    after = energy_at(figure, springs, ws.trial, ws)
    state[TURNS] += 1.0
    return lane_verdict(
        figure, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, limits,
        after, slope, predicted, length, definite, soft,
    )  # fmt: skip


@kernel
def lane_verdict(
    figure, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, limits,
    after, slope, predicted, length, definite, soft,
):  # fmt: skip
    """Take the trial or leave it, and say how to go on."""
    n = theta.shape[0]
    before = state[ENERGY]
    jumped = state[MODE] >= JUMP
    stationary = False
    if jumped or (definite and after < before and armijo(before, after, slope, limits[ALPHA])):
        for i in range(n):
            theta[i] = ws.trial[i]
        state[ENERGY] = after
        if not soft and all_reached(ws.error, tolerances):
            return CONVERGED
        if state[MODE] == SHAKE:
            if shake(figure, springs, tolerances, lower, upper, start, ws, state, scale, theta) == 0:
                random_pose(figure, lower, upper, start, state, theta)
            for i in range(n):
                ws.trial[i] = theta[i]
            state[MODE] = JUMP
            return RUNNING
        state[MODE] = STEP
        state[TRIES] = 0.0
        if not jumped:
            gain = after - before + predicted  # against zero: as good as predicted
            if gain < 0.25 * predicted:
                state[DAMPING] = max(state[DAMPING] * 0.1, LOWEST_DAMPING)
            elif gain < 0.75 * predicted:
                state[DAMPING] = max(state[DAMPING] * 0.4, LOWEST_DAMPING)
            else:
                state[DAMPING] = min(state[DAMPING] * 2.0, DAMPING_CEILING)
            state[SLOW] = state[SLOW] + 1.0 if after > (1.0 - LITTLE) * before else 0.0
            state[EXACT_NOW] = 1.0 if after > EXACT_BEYOND * before else 0.0
            stationary = not soft and state[SLOW] >= PATIENCE
            if recentre_all(figure, theta, lower, upper):
                for i in range(n):
                    ws.trial[i] = theta[i]
                state[MODE] = JUMP
    elif not definite and state[EXACT_NOW] != 0.0:  # back to the pose, for Gauss-Newton's Hessian
        state[EXACT_NOW] = 0.0
        state[MODE] = JUMP
    else:
        state[MODE] = AGAIN
        state[TRIES] += 1.0
        stationary = (
            not predicted > SMALLEST_GAIN * before or not length > 0.0 or state[TRIES] >= MOST_TRIES or not definite
        )
        state[DAMPING] = max(state[DAMPING], 1e-5) * 8.0
    if stationary:
        if state[HOPS] < KICKS:
            if state[HOPS] == 0.0 or state[ENERGY] < state[BEST]:
                state[BEST] = state[ENERGY]
                for i in range(n):
                    ws.best[i] = theta[i]
            hop = state[HOPS]
            state[HOPS] += 1.0
            if not soft and kick(theta, lower, upper, ws.gradient, fixed, hop):
                for i in range(n):
                    ws.trial[i] = theta[i]
                state[MODE] = JUMP
                state[SLOW] = 0.0
                state[DAMPING] = limits[FIRST_DAMPING]
                return RUNNING
        return STATIONARY
    if state[TURNS] >= limits[MOST]:
        return EXHAUSTED
    return RUNNING


@kernel
def lane_end(theta, ws, state):
    """Put the better pose of those before and after a kick into theta."""
    if state[HOPS] > 0.0 and state[BEST] < state[ENERGY]:
        state[ENERGY] = state[BEST]
        for i in range(theta.shape[0]):
            theta[i] = ws.best[i]
