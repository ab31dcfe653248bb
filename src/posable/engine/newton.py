"""Projected Newton with the exact Hessian: the default solver.

It joins the projected Armijo test (Engell-Nørregård & Erleben 2011, eq. 39) with exact second derivatives (Erleben &
Andrews 2018): bounds at which the gradient pushes outward are held, the damped Newton step is taken on the rest
(two-metric projection, Bertsekas 1982), the Gauss-Newton stiffness replaces the exact one where that is indefinite and
while steps halve the energy without it, and at a saddle the figure moves off along a direction of negative curvature.
It is one compiled loop, restarts included.
"""

from __future__ import annotations

import math
from typing import Any

from posable.engine.assemble import derivatives, energy_at, is_tree, judge, springs_of
from posable.engine.bounds import (
    CONVERGED,
    EXHAUSTED,
    RUNNING,
    STATIONARY,
    active_bounds,
    all_reached,
    armijo,
    copy_into,
    leave_bounds,
    mark_failed_chains,
    perturb_active_limits,
    project,
    recentre_all,
    redraw,
    step_into,
    stop_at_bounds,
    write_trace,
)
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import forward
from posable.engine.layout import (
    BEST,
    CHUNK_ITERATIONS,
    DAMPING,
    DEPTH,
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
    REJECT_ABOVE,
    RESTARTS,
    SLOW,
    SOFT,
    Order,
    clear,
    workspace,
)
from posable.engine.ltl import mean_diagonal, negative_curvature, newton_step

# Columns of the state, after those of every loop
(
    ESCAPES,  # from saddles, since the last start
    PERTURBATIONS,  # perturbations off the limits
    EXACT_WAIT, EXACT_BACKOFF,  # iterations until the exact Hessian is tried again, and the previous wait
    BEST_UNCONVERGED,  # 1: the best pose was left before it converged
    REFINING,  # 1: the best pose is being refined, then the loop ends
    WATCHDOG,  # steps of the present sequence, see `watchdog_step`
    REFERENCE,  # energy at its start
    WATCHDOG_WAIT, WATCHDOG_BACKOFF,  # iterations until the next sequence, and the previous wait
    DIRECT_SUCCESSES,  # consecutive sequences that ended after one step
    SHORT_STEPS,  # consecutive steps shorter than SHORT_STEP
    VERDICT,  # 1: the pose is good, see `judge`
    TRIES,  # dampings rejected since the last step (GPU lanes)
    EXACT_NOW,  # 1: the next Hessian is the exact one (GPU lanes)
) = range(OWN_STATE, OWN_STATE + 15)  # fmt: skip
STATE_WIDTH = OWN_STATE + 15

# Columns of the params, after those of every loop
(
    ALPHA,  # fraction of the predicted decrease that a step must reach (Engell-Nørregård & Erleben 2011, eq. 39)
    FIRST_DAMPING,
    EXACT,  # NEVER, AUTO or ALWAYS
    MAX_TRIES,  # dampings tried for one step
    STATIONARY_GAIN,  # predicted gain, relative to the energy, below which a pose is stationary
    SHRINK,  # of the damping after a step as good as predicted
    MIN_DAMPING, MAX_DAMPING,
    SLOW_GAIN,  # a step is slow if its relative decrease of the energy is less
) = range(OWN_PARAMS, OWN_PARAMS + 9)  # fmt: skip
METRIC = OWN_PARAMS + 9  # and, where joints differ in strength, n numbers that the damping of each dof is multiplied by
NEVER, AUTO, ALWAYS = 0.0, 1.0, 2.0  # values of EXACT


def newton_params(
    most: Any,
    *,
    chunk: float = math.inf,
    restarts: int = 0,
    soft: bool = False,
    alpha: float = 1e-4,
    damping: float = 1e-2,
    exact: float = NEVER,
    tries: float = 14.0,
    stationary_gain: float = 1e-11,
    shrink: float = 0.2,
    lowest_damping: float = 1e-9,
    highest_damping: float = 1e9,
    slow_gain: float = 0.1,
) -> tuple[Any, ...]:
    """Return the params of a Newton loop, in the order of the columns; the defaults are those of the CPU's solver."""
    return (
        chunk, most, float(restarts), float(soft), alpha, damping, exact, tries, stationary_gain,
        shrink, lowest_damping, highest_damping, slow_gain,
    )  # fmt: skip


WATCHDOG_STEPS = 5.0  # undamped steps after which the energy must be lower, see `watchdog_step`
WATCHDOG_DAMPING = 1e-7  # of those
WATCHDOG_GAIN = 0.9  # fraction of the energy at their start that must not be exceeded after them
SOFT_GAIN = 1e-10  # relative decrease of an undamped step at which a soft problem has converged
SHORT_STEP = 1e-9  # [rad, m]: a soft problem has converged after MAX_SHORT_STEPS shorter steps
MAX_SHORT_STEPS = 3.0
BOUND_PASSES = 2  # times a step is recomputed because dofs meet their bounds
MAX_STEP = 1.0  # [rad] of any rotational dof: the quadratic model is not valid further away
SLOW_STEPS = 3.0  # slow steps before a restart
EXACT_BEYOND = 0.5  # use the exact Hessian if a step leaves more than this fraction of the energy
LEAVE_BOUNDS_FACTOR = 1.2  # allowed relative energy of a start that is moved off its bounds
MAX_PERTURBATIONS = 2.0  # perturbations off the limits before a restart
NEW_BASIN = 0.5  # relative to the best energy: progress that allows further perturbations
REDRAW_ALL_EVERY = 4.0  # restarts, after which the whole pose is redrawn and not only the chains that failed
DRAWS = 4  # random poses of a restart, of which the one with the lowest energy is taken
MAX_ESCAPES = 20.0
DAMPING_GROWTH, MIN_GROWN_DAMPING = 8.0, 1e-5  # factor after a rejected step, and the least value it is applied to


@small
def next_damping(damping, before, after, predicted, params):
    """Return the damping after an accepted step, from its actual and its predicted decrease."""
    miss = after - before + predicted  # against zero: as good as predicted
    return damping * (params[SHRINK] if miss < 0.25 * predicted else (0.4 if miss < 0.75 * predicted else 2.0))


@small
def more_damping(damping):
    """Return the damping after a rejected step."""
    return max(damping, MIN_GROWN_DAMPING) * DAMPING_GROWTH


@kernel
def damping_scale(order, hessian, scale):
    """Write the metric of the damping (n,): the mean diagonal of the Hessian for every dof."""
    mean = mean_diagonal(order, hessian)
    for i in range(scale.shape[0]):
        scale[i] = mean


@kernel
def damped_step(order, theta, lower, upper, ws, fixed, scale, damping):
    """Write into ws.step the damped Newton step on the free dofs; return whether the matrix was positive definite.

    Dofs that would pass a bound are stopped there and the step is recomputed for the others, BOUND_PASSES times.
    """
    n = theta.shape[0]
    step, moved = ws.step, ws.spare  # moved: the displacement of dofs already stopped at a bound
    clear(moved)
    for _ in range(BOUND_PASSES):
        if not newton_step(order, ws.hessian, ws.gradient, fixed, scale, damping, moved, ws.factor, step, ws.path):
            return False
        largest = 0.0
        for i in range(n):
            if ws.twist[i, 0] != 0.0 or ws.twist[i, 1] != 0.0 or ws.twist[i, 2] != 0.0:  # translations are not limited
                largest = max(largest, abs(step[i]))
        if largest > MAX_STEP:
            for i in range(n):
                step[i] *= MAX_STEP / largest
            return True
        if not stop_at_bounds(theta, lower, upper, step, fixed, moved):
            return True
    return True


@kernel
def propose(order, theta, lower, upper, ws, fixed, scale, damping):
    """Write into ws.trial the end point of the damped step on the free dofs, inside the box.

    Returns (definite, slope, predicted, length): whether the matrix was positive definite (if not, the trial is the
    pose itself), the gradient along the step, the decrease that the model predicts, and the largest change of a dof.
    """
    definite = damped_step(order, theta, lower, upper, ws, fixed, scale, damping)
    slope, weighted, length = 0.0, 0.0, 0.0
    for i in range(theta.shape[0]):
        x = min(max(theta[i] + ws.step[i], lower[i]), upper[i])
        if not definite:
            x = theta[i]
        ws.trial[i] = x
        x -= theta[i]
        slope += ws.gradient[i] * x
        weighted += scale[i] * x * x
        length = max(length, abs(x))
    return definite, slope, -0.5 * slope + 0.5 * damping * weighted, length


@kernel
def energy_below(figure, springs, theta, ws, state, most):
    """Place the bodies and return the energy, or any number from `most` on if it is larger; overlaps take long.

    Where it is larger, ws.error may be wrong.
    """
    state[EVALUATIONS] += 1.0
    ws.memory[REJECT_ABOVE] = most
    energy = energy_at(figure, springs, theta, ws)
    ws.memory[REJECT_ABOVE] = 0.0
    return energy


@kernel
def hold_bounds(order, theta, lower, upper, ws, fixed):
    """Mark in fixed (n,) the active bounds and the dofs without a goal; return the largest free gradient entry."""
    largest = active_bounds(theta, ws.gradient, lower, upper, fixed)
    for i in range(theta.shape[0]):
        if ws.gradient[i] == 0.0:
            idle = True
            for k in range(order.rows[i, DEPTH] + 1):
                if ws.hessian[i, k] != 0.0:
                    idle = False
                    break
            if idle:
                fixed[i] = 1.0
    return largest


@kernel
def fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, exact):
    """Write gradient and Hessian at a placed pose, mark the active bounds; return the largest free gradient entry."""
    derivatives(figure, order, springs, theta, ws, exact)
    return hold_bounds(order, theta, lower, upper, ws, fixed)


@kernel
def iterate(figure, order, springs, lower, upper, theta, ws, fixed, scale, state, params, trace):
    """Make one accepted step from theta, in place; return whether there was one.

    Damping grows until the projected Armijo test holds; actual over predicted decrease sets the next damping.
    """
    n = theta.shape[0]
    energy = state[ENERGY]
    exact = params[EXACT] == ALWAYS or (params[EXACT] == AUTO and state[EXACT_WAIT] <= 0.0)
    largest = fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, 1.0 if exact else 0.0)
    damping_scale(order, ws.hessian, scale)
    if params.shape[0] > METRIC:
        for i in range(n):
            scale[i] *= params[METRIC + i]
    damping = state[DAMPING]
    accepted = False
    slope, length = 0.0, 0.0
    tries = 0
    while tries < params[MAX_TRIES]:
        definite, slope, predicted, length = propose(order, theta, lower, upper, ws, fixed, scale, damping)
        if not definite:
            if not exact:
                break  # not a number somewhere: damped Gauss-Newton is positive definite
            exact = False  # the exact Hessian is indefinite here: Gauss-Newton's is not
            state[EXACT_BACKOFF] = min(2.0 * state[EXACT_BACKOFF] + 1.0, 16.0)
            state[EXACT_WAIT] = state[EXACT_BACKOFF]
            if tries > 0:  # the bodies are placed at the last trial pose
                forward(figure, theta, ws)
            fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, 0.0)
            continue
        tries += 1
        if not predicted > params[STATIONARY_GAIN] * energy or not length > 0.0:
            break
        after = energy_below(figure, springs, ws.trial, ws, state, energy)
        if after < energy and armijo(energy, after, slope, params[ALPHA]):
            accepted = True
            damping = next_damping(damping, energy, after, predicted, params)
            copy_into(ws.trial, theta)
            state[ENERGY] = after
            break
        damping = more_damping(damping)
        hold_bounds(order, theta, lower, upper, ws, fixed)
    state[DAMPING] = min(max(damping, params[MIN_DAMPING]), params[MAX_DAMPING])
    if accepted:
        left = state[ENERGY] / energy
        state[SLOW] = state[SLOW] + 1.0 if left > 1.0 - params[SLOW_GAIN] else 0.0
        state[SHORT_STEPS] = state[SHORT_STEPS] + 1.0 if length < SHORT_STEP else 0.0
        state[EXACT_WAIT] = max(state[EXACT_WAIT] - 1.0, 0.0 if left > EXACT_BEYOND else 1.0)
    moved = 1.0 if accepted else 0.0
    write_trace(trace, state, largest, moved * length, state[DAMPING], fixed, moved * slope, energy)
    return accepted


@kernel
def watchdog_step(figure, order, springs, lower, upper, theta, ws, fixed, scale, state, params, trace):
    """Take one nearly undamped step without a test; several may follow a curved valley.

    A weak posture goal moves the figure among poses that meet the goals. A straight step leaves that curved valley and
    the energy rises; the next one returns to it, at a lower energy. If it is not lower after WATCHDOG_STEPS, the pose
    before them is restored and the next attempt waits twice as long (the watchdog technique, Chamberlain et al. 1982).
    A one-sided spring that pushed once also pulls until then, or the figure would bounce off it. Returns False if the
    first step would gain nothing: the projected gradient, in the metric of the Hessian, is zero.
    """
    last = ws.sticky.shape[0] - 1
    before = state[ENERGY]
    if state[WATCHDOG] == 0.0:
        state[REFERENCE] = before
        copy_into(theta, ws.anchor)
    state[WATCHDOG] += 1.0
    definite, slope, length, largest = False, 0.0, 0.0, 0.0
    exact = 1.0 if state[DIRECT_SUCCESSES] > 2.0 else 0.0
    while True:
        ws.sticky[last] = 1.0
        largest = fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, exact)
        ws.sticky[last] = 0.0
        damping_scale(order, ws.hessian, scale)
        definite, slope, _, length = propose(order, theta, lower, upper, ws, fixed, scale, WATCHDOG_DAMPING)
        if definite or exact == 0.0:
            break
        exact = 0.0
    moved = not (definite and state[WATCHDOG] == 1.0 and -0.5 * slope <= SOFT_GAIN * before)
    if moved:
        move_to(figure, springs, theta, ws.trial, ws, state)
        end_watchdog(figure, springs, lower, upper, theta, ws, state, definite)
    else:
        state[WATCHDOG] = 0.0
    write_trace(trace, state, largest, length, WATCHDOG_DAMPING, fixed, slope, before)
    return moved


@kernel
def end_watchdog(figure, springs, lower, upper, theta, ws, state, definite):
    """End a sequence of watchdog steps if the energy is lower, or if there were too many."""
    required = 1.0 if state[WATCHDOG] == 1.0 else WATCHDOG_GAIN
    if definite and state[ENERGY] < required * state[REFERENCE]:
        if recentre_all(figure, theta, lower, upper):
            state[ENERGY] = energy_at(figure, springs, theta, ws)
        state[DIRECT_SUCCESSES] = state[DIRECT_SUCCESSES] + 1.0 if state[WATCHDOG] == 1.0 else 0.0
        state[WATCHDOG] = state[WATCHDOG_WAIT] = state[WATCHDOG_BACKOFF] = 0.0
        state[DAMPING] = WATCHDOG_DAMPING
    elif not definite or state[WATCHDOG] >= WATCHDOG_STEPS:
        if not state[ENERGY] < state[REFERENCE]:
            move_to(figure, springs, theta, ws.anchor, ws, state)
        clear(ws.sticky)
        state[WATCHDOG] = state[DIRECT_SUCCESSES] = 0.0
        state[WATCHDOG_BACKOFF] = 2.0 * state[WATCHDOG_BACKOFF] + 2.0
        state[WATCHDOG_WAIT] = state[WATCHDOG_BACKOFF]


@kernel
def move_to(figure, springs, theta, pose, ws, state):
    """Move theta to another pose (n,)."""
    copy_into(pose, theta)
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    state[EVALUATIONS] += 1.0


@kernel
def newton_begin(figure, springs, lower, upper, theta, ws, state, params):
    """Clip the start to the box, move it off its bounds if the goals are far, and initialise the state."""
    project(theta, lower, upper)
    clear(ws.sticky)
    state[PHASE] = GOING
    state[DAMPING] = params[FIRST_DAMPING]
    state[EVALUATIONS] = 1.0
    state[EXACT_WAIT] = 1.0
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    if leave_bounds(theta, lower, upper, ws.trial):
        most = LEAVE_BOUNDS_FACTOR * state[ENERGY]
        after = energy_below(figure, springs, ws.trial, ws, state, most)
        if after < most:
            state[ENERGY] = after
            copy_into(ws.trial, theta)
        else:  # the goals are close: stay close
            energy_at(figure, springs, theta, ws)


@kernel
def newton_iteration(
    figure, order, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params, trace
):
    """Advance one problem, whose bodies are placed, by one iteration; return its status, RUNNING to go on."""
    soft = params[SOFT] != 0.0  # something is to be minimised beyond the goals' tolerances
    if not soft and all_reached(ws.error, tolerances):
        return CONVERGED
    if state[ITERATIONS] >= params[MAX_ITERATIONS]:
        if state[WATCHDOG] > 0.0 and not state[ENERGY] < state[REFERENCE]:
            move_to(figure, springs, theta, ws.anchor, ws, state)
        restore_best(figure, springs, theta, ws, state)
        return EXHAUSTED
    state[ITERATIONS] += 1.0
    if soft and (state[WATCHDOG] > 0.0 or (state[SLOW] > 1.0 and state[WATCHDOG_WAIT] <= 0.0)):
        accepted = watchdog_step(figure, order, springs, lower, upper, theta, ws, fixed, scale, state, params, trace)
        if accepted:
            return RUNNING
    else:
        state[WATCHDOG_WAIT] -= 1.0
        now = Order(order.tree, order.tree) if is_tree(figure, springs, ws) else order
        accepted = iterate(figure, now, springs, lower, upper, theta, ws, fixed, scale, state, params, trace)
        if accepted and recentre_all(figure, theta, lower, upper):
            state[ENERGY] = energy_at(figure, springs, theta, ws)
    if not accepted:
        forward(figure, theta, ws)
        if escape_saddle(figure, order, springs, lower, upper, theta, ws, fixed, scale, state, params):
            return RUNNING
        energy_at(figure, springs, theta, ws)
    may_restart = state[REFINING] == 0.0 and (
        state[RESTARTS] < params[MAX_RESTARTS] or state[PERTURBATIONS] < MAX_PERTURBATIONS
    )
    if accepted and (soft or state[SLOW] < SLOW_STEPS or not may_restart) and state[SHORT_STEPS] < MAX_SHORT_STEPS:
        return RUNNING
    if soft and all_reached(ws.error, tolerances):
        return CONVERGED
    unconverged = 1.0 if accepted else 0.0
    if restart(figure, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params, unconverged):
        return RUNNING
    return STATIONARY


@kernel
def newton_loop(figure, order, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params, trace):
    """Advance one problem by at most params[CHUNK_ITERATIONS] iterations; return its status."""
    if state[PHASE] == FRESH:
        newton_begin(figure, springs, lower, upper, theta, ws, state, params)
    else:
        energy_at(figure, springs, theta, ws)
    left = params[CHUNK_ITERATIONS]
    while left > 0.0:
        code = newton_iteration(
            figure, order, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params, trace
        )
        if code != RUNNING:
            return code
        left -= 1.0
    return RUNNING


@kernel
def restart(figure, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, params, unconverged):
    """Keep the best pose and leave it: first off the limits that hold it, then to random poses while restarts are left.

    unconverged: 1 if the pose was left before it converged; the best of all is refined at the end. Returns whether
    there is a new start; if not, theta is the best pose.
    """
    n = theta.shape[0]
    if state[ENERGY] < state[BEST] * (1.0 - 1e-9):
        if state[ENERGY] < NEW_BASIN * state[BEST]:
            state[PERTURBATIONS] = 0.0
        state[BEST], state[BEST_UNCONVERGED] = state[ENERGY], unconverged
        copy_into(theta, ws.best)
    copy_into(ws.best, theta)
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    if state[REFINING] != 0.0:
        return False
    perturbation = state[PERTURBATIONS]
    state[PERTURBATIONS] += 1.0
    if perturbation >= MAX_PERTURBATIONS or not perturb_active_limits(
        theta, lower, upper, ws.gradient, fixed, perturbation
    ):
        if state[RESTARTS] >= params[MAX_RESTARTS]:
            if state[BEST_UNCONVERGED] == 0.0:
                return False
            state[REFINING] = 1.0  # refine the best pose and stop
        else:
            state[RESTARTS] += 1.0
            mark_failed_chains(figure, springs, tolerances, ws, scale)
            if state[RESTARTS] % REDRAW_ALL_EVERY == 0.0:
                for i in range(n):
                    scale[i] = 1.0
            lowest = math.inf
            for _ in range(DRAWS):
                copy_into(ws.best, ws.trial)
                redraw(figure, lower, upper, start, state, scale, ws.trial)
                energy = energy_below(figure, springs, ws.trial, ws, state, lowest)
                if energy < lowest:
                    lowest = energy
                    copy_into(ws.trial, theta)
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    state[EVALUATIONS] += 2.0
    state[DAMPING] = params[FIRST_DAMPING]
    state[SLOW], state[ESCAPES], state[EXACT_WAIT], state[EXACT_BACKOFF] = 0.0, 0.0, 1.0, 0.0
    return True


@kernel
def restore_best(figure, springs, theta, ws, state):
    """Return to the best pose of all restarts if it is better than the current one, or that is not finite."""
    if not state[ENERGY] <= state[BEST]:
        copy_into(ws.best, theta)
        state[ENERGY] = energy_at(figure, springs, theta, ws)


@kernel
def escape_saddle(figure, order, springs, lower, upper, theta, ws, fixed, scale, state, params):
    """At a stationary pose that is no minimum, move downhill along a direction of negative curvature.

    The direction comes from the pivot at which the exact factorisation fails. Both senses are tried and the lower one
    is taken (the positive one in a tie), so that the result is deterministic. Returns whether the pose moved.
    """
    n = theta.shape[0]
    if state[ESCAPES] >= MAX_ESCAPES or params[EXACT] == NEVER:
        return False
    fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, 1.0)
    if negative_curvature(order, ws.hessian, fixed, scale, 1e-9, ws.factor, ws.step, ws.path) < 0:
        return False
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(ws.step[i]))
    size = 0.3 / largest
    for _ in range(12):
        best = state[ENERGY]
        sense = 0.0
        for side in range(2):
            sign = 1.0 - 2.0 * side
            step_into(theta, sign * size, ws.step, lower, upper, ws.trial)
            value = energy_below(figure, springs, ws.trial, ws, state, best)
            if value < best:
                best, sense = value, sign
        if sense != 0.0:
            step_into(theta, sense * size, ws.step, lower, upper, theta)
            state[ENERGY] = energy_at(figure, springs, theta, ws)
            state[EVALUATIONS] += 1.0
            state[ESCAPES] += 1.0
            state[DAMPING] = params[FIRST_DAMPING]
            state[SLOW] = 0.0
            return True
        size *= 0.3
    return False


@kernel
def gather_into(values, indices, out):
    """Write values[indices] into out (m,)."""
    for i in range(indices.shape[0]):
        out[i] = values[indices[i]]


@kernel
def scatter_into(values, indices, out):
    """Write values (m,) into out[indices]."""
    for i in range(indices.shape[0]):
        out[indices[i]] = values[i]


@kernel
def part_memory(figure, g, lower, upper, dofs, work, d):
    """Return the workspace of a part of a figure, six vectors (n,), of which two hold its box, and what work is left.

    The vectors: the fixed dofs, the metric of the damping, the box, a pose and the start; dofs (n,) are the part's.
    """
    n = figure.dof.shape[0]
    ws, own = workspace(figure, g, work, d)
    low, high = own[2 * n : 3 * n], own[3 * n : 4 * n]
    gather_into(lower, dofs, low)
    gather_into(upper, dofs, high)
    return ws, (own[:n], own[n : 2 * n], low, high, own[4 * n : 5 * n], own[5 * n : 6 * n]), own[6 * n :]


@entry
def newton_batch(
    figure, order, kind, constants, targets, pull, home, tolerances, lower, upper, poses, starts, dofs, work, d,
    states, params, errors, outcome, trace,
):  # fmt: skip
    """Solve every problem of a batch: poses (t, whole n) from their starts, constants and targets (t or 1, g, ...).

    The figure may be a part of the whole, with `dofs` (n,) its indices; poses, starts and the box are of the whole.
    Writes poses, errors (t, g), states (t, STATE_WIDTH), outcome (t,); trace (rows, TRACE_WIDTH) of the last problem.
    """
    ws, (fixed, scale, low, high, theta, start), _ = part_memory(figure, kind.shape[0], lower, upper, dofs, work, d)
    for t in range(poses.shape[0]):
        if outcome[t] != RUNNING:
            continue
        springs = springs_of(kind, constants, targets, t, pull, home)
        gather_into(poses[t], dofs, theta)
        gather_into(starts[t], dofs, start)
        outcome[t] = newton_loop(
            figure, order, springs, tolerances, low, high, theta, start, ws, fixed, scale, states[t], params, trace
        )
        good, _ = judge(figure, springs, tolerances, low, high, theta, ws)
        scatter_into(theta, dofs, poses[t])
        states[t, VERDICT] = 1.0 if good else 0.0
        copy_into(ws.error, errors[t])
