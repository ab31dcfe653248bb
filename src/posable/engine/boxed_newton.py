"""Minimise the energy of the goals over a box of poses: Newton's method for one tick of a controller.

Where goals have strict priorities, each step is made level by level.
"""

from __future__ import annotations

import math

from posable.engine.assemble import derivatives, energy_at, is_tree, place, total_energy
from posable.engine.bounds import copy_into, step_into, stop_at_bounds
from posable.engine.jit import kernel, small
from posable.engine.joints import forward
from posable.engine.layout import DEPTH, clear, springs_of_level
from posable.engine.ltl import (
    damped_copy,
    factorise,
    mean_diagonal,
    multiply,
    negative_curvature,
    newton_step,
    substitute,
)
from posable.engine.newton import damping_scale, hold_bounds
from posable.engine.speed_limits import BOX_HIGH, BOX_LOW, FIXED, LOWER, OFFSET, ORIGIN, SCALE, SPEED, UPPER, WANTED

# Params of a tick: inputs and outputs
DT, COUPLED, MOST, DAMPING, ITERATIONS, ENERGY, EXACT, CALM, CALM_STILL, CALM_BEYOND, MOVING, STILL, PART = range(13)
PARAMS = 13

SETTLED = 1e-11  # [rad, m] shorter distances count as zero
ROUNDING = 1e-18  # [m^2, rad^2] an energy this small is rounding error
NOISE = 1e-13  # relative rounding error of the energy
IGNORED = 5e-9  # [m^2, rad^2] 0.1 mm at a weight of 1
TRIES = 5  # dampings tried for one step
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 3e-6, 3e-6, 1e3
TINY_DAMPING = 1e-9  # keeps rounding from making a pivot negative
OF_POSTURE = 1e-3  # damping relative to a posture's stiffness: enough, as the posture determines the free dofs
EXACT_BEYOND = 0.5  # use the exact Hessian if a step leaves more than this fraction of the energy
SHORTER = 0.35  # factor by which a rejected step with strict priorities is shortened
WORTH = 1e-3  # relative decrease required for leaving a straight arm
ESCAPE = 0.05  # [rad, m] largest step off a straight arm
WORTH_BACK = 0.05  # relative decrease required for bending back to the side that a straight arm came from
BACK_STEPS, BACK_DAMPING = 4, 1e-3  # Gauss-Newton steps that look for such a pose
PIVOT = 1e-14  # lower bound of damping, relative to the mean diagonal: rounding could make smaller pivots negative
SATURATED_DAMPING = 1e-2  # used if dofs are at their bounds, so that the others do not overcompensate
LARGEST_STEP = 0.5  # [rad, m] of any dof in one Newton step
LEVEL_STEP = 0.06  # the same with strict priorities, whose null space is curved
SHORTEST = 0.02  # part of the box: a dof closer to its bound than this is at it
ROUNDS = 6  # bounds that one step may meet successively
UNKNOWN = 1.0  # [rad, m] stands for the length of a step that the next one cannot be compared with


@kernel
def leveled_step(order, ws, levels, fixed, scale, damping, moved):
    """Write into ws.step the damped Newton step while fixed dofs move by moved (n,); return whether it is convex.

    Strict priorities take their steps one after the other: each level adds a step for its own goals that costs the
    stricter levels, weighted a million times higher, next to nothing. Each level is damped by its own stiffness.
    """
    n, step = fixed.shape[0], ws.step
    if levels.scale.shape[0] == 0:
        return newton_step(order, ws.hessian, ws.gradient, fixed, scale, damping, moved, ws.factor, step, ws.path)
    mean = scale[0]
    for i in range(n):
        step[i] = moved[i] if fixed[i] != 0.0 else 0.0
        for k in range(order.rows[i, DEPTH] + 1):
            levels.total[i, k] = 0.0
    good = True
    for level in range(levels.scale.shape[0]):
        hessian, gradient = levels.hessian[level], levels.gradient[level]
        stiff = damping * levels.scale[level] + levels.calm[level]
        if not (good and stiff > 1e-200):  # no goal of this level is switched on
            continue
        for i in range(n):
            scale[i] = 1.0
            for k in range(order.rows[i, DEPTH] + 1):
                levels.total[i, k] += hessian[i, k]
        damped_copy(order, levels.total, fixed, max(stiff, PIVOT * mean), scale, ws.factor, ws.path)
        good = factorise(order, ws.factor, fixed, 0.0) < 0
        multiply(order, hessian, step, ws.trial, ws.path)
        for i in range(n):
            ws.anchor[i] = 0.0 if fixed[i] != 0.0 else -gradient[i] - ws.trial[i] - stiff * step[i]
        substitute(order, ws.factor, ws.anchor, ws.path)
        for i in range(n):
            step[i] += ws.anchor[i] if fixed[i] == 0.0 else 0.0
    for i in range(n):
        scale[i] = mean
    return good


@kernel
def shorten(step, most):
    """Scale a step (n,) down to one that moves no dof by more than `most` [rad, m]."""
    largest = 0.0
    for i in range(step.shape[0]):
        largest = max(largest, abs(step[i]))
    if largest > most:
        for i in range(step.shape[0]):
            step[i] *= most / largest


@kernel
def scaled_step(order, theta, low, high, ws, levels, fixed, scale, damping):
    """Write into ws.step the Newton step, shortened as a whole to stay in the box; return as `boxed_step` does.

    With strict priorities, clipping dofs one by one would leave the poses that meet the stricter goals. A dof that is
    at its bound stays, and the others step without it.
    """
    stopped = 0
    for attempt in range(ROUNDS):
        if not leveled_step(order, ws, levels, fixed, scale, damping, ws.spare):
            return -1
        shorten(ws.step, LEVEL_STEP)
        part, first = 1.0, -1
        for i in range(theta.shape[0]):
            x = ws.step[i]
            if fixed[i] == 0.0 and x != 0.0:
                room = (high[i] - theta[i] if x > 0.0 else low[i] - theta[i]) / x
                if room < part:
                    part, first = room, i
        if first < 0:
            return stopped
        stopped = 1
        if part * abs(ws.step[first]) >= SHORTEST * (high[first] - low[first]) or attempt == ROUNDS - 1:
            for i in range(theta.shape[0]):
                ws.step[i] *= part
            return stopped
        fixed[first] = 1.0
        damping = max(damping, SATURATED_DAMPING)
    return stopped


@kernel
def boxed_step(order, theta, low, high, ws, levels, fixed, scale, damping, straight):
    """Write into ws.step the damped Newton step in the box; return 0, 1 if a bound stopped a dof, -1 if indefinite.

    Dofs that meet a bound stay there and the others adapt, with the larger damping SATURATED_DAMPING. That is the best
    use of the box, but where most dofs are stopped it need not lead downhill: `straight` shortens the whole step.
    """
    step, moved = ws.step, ws.spare
    clear(moved)
    if straight or levels.scale.shape[0] > 0:
        return scaled_step(order, theta, low, high, ws, levels, fixed, scale, damping)
    stopped = 0
    for _ in range(3):
        if not leveled_step(order, ws, levels, fixed, scale, damping, moved):
            return -1
        shorten(step, LARGEST_STEP)
        if not stop_at_bounds(theta, low, high, step, fixed, moved):
            return stopped
        stopped = 1
        damping = max(damping, SATURATED_DAMPING)
    return stopped


@kernel
def refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, exact):
    """Write gradient and Hessian at a placed pose, of each level too, the fixed dofs and the damping metric."""
    n, count = theta.shape[0], levels.scale.shape[0]
    if count == 0:
        derivatives(figure, order, springs, theta, ws, exact)
    for level in range(count):
        one = springs_of_level(springs, levels, level)
        derivatives(figure, order, one, theta, ws, exact)
        levels.scale[level] = mean_diagonal(order, ws.hessian)
        for i in range(n):
            levels.gradient[level, i] = ws.gradient[i] + levels.calm[level] * (theta[i] - ws.best[i])
            for k in range(order.rows[i, DEPTH] + 1):
                levels.hessian[level, i, k] = ws.hessian[i, k]
    for level in range(count - 1):
        for i in range(n):
            ws.gradient[i] += levels.gradient[level, i] - levels.calm[level] * (theta[i] - ws.best[i])
            for k in range(order.rows[i, DEPTH] + 1):
                ws.hessian[i, k] += levels.hessian[level, i, k]
    hold_bounds(order, theta, low, high, ws, fixed)
    for i in range(n):  # with strict priorities, the step itself finds the bounds in its way
        if count > 0 and ws.hessian[i, order.rows[i, DEPTH]] != 0.0:
            fixed[i] = 0.0
    damping_scale(order, ws.hessian, scale)


@kernel
def least_damping(pull, mean):
    """Return the lowest damping of a step, which is less than LEAST_DAMPING if a posture pulls every dof.

    Damping that is not small against the posture's stiffness (n,) slows down the dofs that only the posture determines.
    """
    weakest = math.inf
    for i in range(pull.shape[0]):
        weakest = min(weakest, pull[i])
    return LEAST_DAMPING if weakest == 0.0 else min(max(OF_POSTURE * weakest / mean, TINY_DAMPING), LEAST_DAMPING)


@kernel
def unbounded_step(order, springs, ws, levels, fixed, scale):
    """Write into ws.step the Newton step of the free dofs; return whether the matrix is positive definite."""
    clear(ws.spare)
    damping = least_damping(springs.pull, scale[0]) if levels.scale.shape[0] == 0 else LEAST_DAMPING
    if not leveled_step(order, ws, levels, fixed, scale, damping, ws.spare):
        return False
    shorten(ws.step, LARGEST_STEP if levels.scale.shape[0] == 0 else LEVEL_STEP)
    return True


@kernel
def add_speed_damping(order, springs, levels, state, ws, scale, params):
    """Resist changes of speed where the goals ask for much of it: near singularities, and when a target jumps.

    A spring on each dof draws it to where its course leads, and grows with the largest speed that ws.step would take,
    as a part of the velocity limit: none up to params[CALM_BEYOND]. It is weak against a goal that the dofs can serve
    well, and strong where a small gain would cost a large motion. Its strength over time does not depend on the tick:
    the spring is params[CALM] / dt, relative to the mean diagonal of the Hessian, and fades away while the targets are
    at rest, as it would keep the figure creeping. Adds it to gradient and Hessian; returns whether there is one.
    """
    dt, beyond = params[DT], params[CALM_BEYOND]
    fastest = 0.0
    for i in range(scale.shape[0]):
        if state[SPEED, i] < math.inf:
            fastest = max(fastest, abs(ws.step[i]) / (dt * state[SPEED, i]))
    part = min(max((fastest - beyond) / (1.0 - beyond), 0.0), 1.0)
    if part == 0.0:
        return False
    calm = math.sqrt(params[MOVING]) * (params[CALM_STILL] + params[MOVING] * (params[CALM] - params[CALM_STILL]))
    stiff = part * part * calm / dt
    for level in range(levels.scale.shape[0]):
        levels.calm[level] = stiff * levels.scale[level]
    if levels.scale.shape[0] > 0:  # what is stricter is calmed in its own step, and must not resist that of the last
        return True
    for i in range(scale.shape[0]):
        more = stiff * scale[i]
        there = ws.best[i]
        pull = springs.pull[i] + more
        if pull > 0.0:
            springs.home[i] = (springs.pull[i] * springs.home[i] + more * there) / pull
        springs.pull[i] = pull
        ws.hessian[i, order.rows[i, DEPTH]] += more
    return True


@kernel
def first_step(figure, order, springs, levels, state, ws, exact, params):
    """Set the wanted pose to one Newton step from ws.best (n,), clipped to the box.

    The step itself uses only the joint limits: ws.best need not be inside the box of a moving figure, and bounds taken
    there would misdirect the dofs that the goals leave free. Returns whether the exact Hessian was indefinite, and
    whether the step was taken.
    """
    fixed, scale, failed = state[FIXED], state[SCALE], False
    refresh_derivatives(figure, order, springs, levels, ws.best, state[LOWER], state[UPPER], ws, fixed, scale, exact)
    good = unbounded_step(order, springs, ws, levels, fixed, scale)
    if not good and exact != 0.0:
        failed = True
        refresh_derivatives(figure, order, springs, levels, ws.best, state[LOWER], state[UPPER], ws, fixed, scale, 0.0)
        good = unbounded_step(order, springs, ws, levels, fixed, scale)
    if good and add_speed_damping(order, springs, levels, state, ws, scale, params):
        good = unbounded_step(order, springs, ws, levels, fixed, scale)
    good = good and levels.scale.shape[0] == 0  # strict priorities: see `scaled_step`
    for i in range(scale.shape[0]):
        x = ws.best[i] + ws.step[i] if good else ws.best[i]
        state[WANTED, i] = min(max(x, state[BOX_LOW, i]), state[BOX_HIGH, i])
    return failed, good


@kernel
def merit(figure, springs, levels, theta, ws):
    """Place a pose and return its energy; with strict priorities, IGNORED of it is free for each level but the last.

    Otherwise a straight step within the curved set of poses that meet the stricter goals could not exceed a
    milliradian. The next step corrects the error.
    """
    if levels.scale.shape[0] == 0:
        return energy_at(figure, springs, theta, ws)
    place(figure, springs, theta, ws)
    total = 0.0
    for level in range(levels.scale.shape[0]):
        one = springs_of_level(springs, levels, level)
        energy = total_energy(figure, one, theta, ws)
        last = level == levels.scale.shape[0] - 1
        total += energy if last or not energy < math.inf else max(energy - levels.weight[level] * IGNORED, 0.0)
    return total


@kernel
def box_part(theta, there, low, high):
    """Return the part of the way from theta (n,) to `there` (n,) that the box allows to all dofs."""
    part = 1.0
    for i in range(theta.shape[0]):
        way = there[i] - theta[i]
        if abs(way) > SETTLED:
            part = min(part, max(((high[i] if way > 0.0 else low[i]) - theta[i]) / way, 0.0))
    return part


@kernel
def bend_back(figure, order, springs, levels, state, ws, energy):
    """Move towards a pose of less energy on the side that a straight arm came from; return whether there is one.

    The minimum that the straight pose leads to may be on the other side, where the elbow soon meets its limit. This
    looks from where each dof came from, by Gauss-Newton steps, and goes there as far as the box allows.
    """
    theta, low, high, lower, upper = state[WANTED], state[BOX_LOW], state[BOX_HIGH], state[LOWER], state[UPPER]
    fixed, scale, there, n = state[FIXED], state[SCALE], state[OFFSET], theta.shape[0]  # no offset is known yet
    for i in range(n):
        there[i] = min(max(state[ORIGIN, i], lower[i]), upper[i])
        ws.spare[i] = 0.0
    for _ in range(BACK_STEPS):
        merit(figure, springs, levels, there, ws)
        refresh_derivatives(figure, order, springs, levels, there, lower, upper, ws, fixed, scale, 0.0)
        if not leveled_step(order, ws, levels, fixed, scale, BACK_DAMPING, ws.spare):
            return False
        shorten(ws.step, LARGEST_STEP)
        step_into(there, 1.0, ws.step, lower, upper, there)
    if not merit(figure, springs, levels, there, ws) < (1.0 - WORTH_BACK) * energy:
        return False
    part = box_part(theta, there, low, high)
    for i in range(n):
        theta[i] = min(max(theta[i] + part * (there[i] - theta[i]), low[i]), high[i])
    merit(figure, springs, levels, theta, ws)
    refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, 0.0)
    return True


@kernel
def leave_saddle(figure, order, springs, levels, state, ws):
    """Bend a straight arm whose target lies inside towards the side that it came from; return the energy."""
    theta, low, high, lower, upper = state[WANTED], state[BOX_LOW], state[BOX_HIGH], state[LOWER], state[UPPER]
    fixed, scale, origin, n = state[FIXED], state[SCALE], state[ORIGIN], theta.shape[0]
    strict, energy = levels.scale.shape[0] > 0, merit(figure, springs, levels, theta, ws)
    if not strict and bend_back(figure, order, springs, levels, state, ws, energy):
        return merit(figure, springs, levels, theta, ws)
    merit(figure, springs, levels, theta, ws)  # places the bodies
    refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, 1.0)
    leader = negative_curvature(order, ws.hessian, fixed, scale, 1e-7, ws.factor, ws.step, ws.path)
    if leader < 0:
        return energy
    for i in range(n):
        if abs(ws.step[i]) > abs(ws.step[leader]):
            leader = i
    back = origin[leader] - theta[leader]
    sign = 1.0 if back * ws.step[leader] >= 0.0 else -1.0
    for _ in range(2):
        size = ESCAPE / abs(ws.step[leader])
        for _ in range(3):
            # The box of one tick may be narrower than the crest between the two ways out: look beyond it, then go as
            # far as it allows, uphill if need be. The next ticks go on. With strict priorities they would come back,
            # and the figure would swing to and fro for ever.
            step_into(theta, sign * size, ws.step, lower, upper, ws.trial)
            if merit(figure, springs, levels, ws.trial, ws) < (1.0 - WORTH) * energy:
                part = box_part(theta, ws.trial, low, high) if strict else 1.0
                for i in range(n):
                    ws.trial[i] = min(max(theta[i] + part * (ws.trial[i] - theta[i]), low[i]), high[i])
                after = merit(figure, springs, levels, ws.trial, ws)
                if not strict or after < energy:
                    copy_into(ws.trial, theta)
                    return after
            size *= 0.25
        sign = -sign
    return energy


@kernel
def take_first_step(figure, order, springs, levels, state, ws, params, first):
    """Take the first Newton step of a tick from ws.best (n,), or fall back to that pose where the step goes uphill.

    Returns:
        The energy, the length of the step [rad, m] (0: no step is left to take; UNKNOWN where it went uphill and with
        strict priorities) and whether the exact Hessian was indefinite. `first` is the energy at ws.best.
    """
    theta, low, high = state[WANTED], state[BOX_LOW], state[BOX_HIGH]
    n = theta.shape[0]
    failed, good = first_step(figure, order, springs, levels, state, ws, params[EXACT], params)
    length, unclipped = 0.0 if levels.scale.shape[0] == 0 else UNKNOWN, 0.0
    for i in range(n):
        length = max(length, abs(theta[i] - ws.best[i]))
        unclipped = max(unclipped, abs(ws.step[i]))
    # A figure at rest. If the energy is not zero, only the exact Hessian can tell that the pose is not a saddle.
    if good and max(length, unclipped) <= SETTLED and (params[EXACT] != 0.0 or first <= ROUNDING):
        return first, 0.0, failed
    energy = merit(figure, springs, levels, theta, ws)
    if energy > first:
        for i in range(n):
            ws.trial[i] = min(max(ws.best[i], low[i]), high[i])
        still = merit(figure, springs, levels, ws.trial, ws)
        if still < energy:
            copy_into(ws.trial, theta)
            energy = still
        else:
            energy = merit(figure, springs, levels, theta, ws)
        length = max(length, UNKNOWN)
    return energy, length, failed


@small
def next_length(length, before, squared):
    """Return how long [rad, m] a Newton step is expected to be after steps of length `before` and `length`.

    Exact Newton steps square their ratio (`squared`), and damping leaves a part of each.
    """
    ratio = min(length / before, 1.0)
    return length * (max(ratio * ratio, OF_POSTURE) if squared else ratio)


@kernel
def take_step(
    figure, order, springs, levels, state, ws, exact, energy, failed, damping, before, squared, still
):  # fmt: skip
    """Take one Newton step in the box from the wanted pose, in place, with more damping where the energy would grow.

    The derivatives at that pose are known. A step so much shorter than the one `before` it that none has to follow
    is taken without a look at the energy; `squared` and `still`: see `next_length` and `minimise_in_box`.

    Returns:
        The energy (before a step that is taken without a look), the length of the step [rad, m] (0: none was found),
        what `boxed_step` returned, the kind of Hessian that was used, whether the exact one was indefinite in this
        tick, and the next damping.
    """
    theta, low, high = state[WANTED], state[BOX_LOW], state[BOX_HIGH]
    fixed, scale, n = state[FIXED], state[SCALE], theta.shape[0]
    length, stopped = 0.0, 0
    for attempt in range(TRIES):
        stopped = 0
        if attempt > 0 and levels.scale.shape[0] > 0 and length > 0.0:
            shorten(ws.step, SHORTER * length)
        else:
            stopped = boxed_step(order, theta, low, high, ws, levels, fixed, scale, damping, attempt > 0)
        if stopped < 0:
            if exact == 0.0:
                break
            exact, failed = 0.0, True
            if attempt > 0:
                forward(figure, theta, ws)
            refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, exact)
            continue
        length, slope = 0.0, 0.0
        for i in range(n):
            x = min(max(theta[i] + ws.step[i], low[i]), high[i])
            ws.trial[i] = x
            length = max(length, abs(x - theta[i]))
            slope += ws.gradient[i] * (x - theta[i])
        if length == 0.0:
            break
        converges = stopped == 0 and before < UNKNOWN
        if converges and next_length(length, before, squared and exact != 0.0) < still:
            copy_into(ws.trial, theta)
            return energy, length, stopped, exact, failed, damping
        after = merit(figure, springs, levels, ws.trial, ws)
        if levels.scale.shape[0] > 0:
            slope = -abs(after - energy)  # the slope of what `merit` ignores does not count
        if after <= energy + 1e-4 * slope or abs(slope) <= NOISE * energy:
            gain = (energy - after) / max(-0.5 * slope, 1e-300)
            damping *= 0.1 if gain > 0.75 else (0.4 if gain > 0.25 else 2.0)
            copy_into(ws.trial, theta)
            return after, length, stopped, exact, failed, damping
        if levels.scale.shape[0] > 0:
            continue
        damping = max(damping, 1e-5) * 8.0
        hold_bounds(order, theta, low, high, ws, fixed)
    return energy, 0.0, stopped, exact, failed, damping


@kernel
def minimise_in_box(figure, full, tree, springs, bare, levels, state, ws, params):
    """Minimise the energy over the box of the wanted pose, in place, by at most params[MOST] Newton steps.

    Iterates until the next step would move no dof by params[STILL] or, if the goals can be followed, by params[PART]
    of the first step. Stopping within the tolerances of the goals would give a staircase motion.
    full, tree: the elimination orders of the problem and of the figure alone; tree is used while no spring couples its
    branches. bare: the springs without speed damping, which would keep a straight arm straight.
    """
    theta, low, high = state[WANTED], state[BOX_LOW], state[BOX_HIGH]
    fixed, scale = state[FIXED], state[SCALE]
    coupled = params[COUPLED] != 0.0
    first = merit(figure, springs, levels, ws.best, ws)
    if not first < math.inf:
        params[ENERGY] = first
        return
    order = tree if coupled and is_tree(figure, springs, ws) else full
    energy, before, failed = take_first_step(figure, order, springs, levels, state, ws, params, first)
    exact = 0.0 if failed else params[EXACT]
    if not failed and energy > max(EXACT_BEYOND * first, ROUNDING):
        exact = 1.0
    least = least_damping(bare.pull, scale[0]) if levels.scale.shape[0] == 0 else LEAST_DAMPING
    damping, squared = params[DAMPING], params[EXACT] != 0.0 and not failed  # whether the last step was exact
    params[ITERATIONS] = 1.0
    still = params[STILL]
    if before < UNKNOWN and energy < EXACT_BEYOND * first:  # the goals can be followed
        still = max(still, params[PART] * before)
    while params[ITERATIONS] < params[MOST] and energy < math.inf and before > 0.0:
        params[ITERATIONS] += 1.0
        order = tree if coupled and is_tree(figure, springs, ws) else full
        refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, exact)
        last = energy
        energy, length, stopped, used, failed, damping = take_step(
            figure, order, springs, levels, state, ws, exact, energy, failed, damping, before, squared, still
        )
        # Where a residual stays, the exact Hessian converges; where none does, what the goals leave free would follow
        # its tiny curvature.
        exact = 1.0 if length > 0.0 and not failed and energy > max(EXACT_BEYOND * last, ROUNDING) else used
        damping = min(max(damping, least), MOST_DAMPING)
        newton = stopped == 0 and used != 0.0
        if next_length(length, before, squared and newton) < still:
            break
        before, squared = length, newton
    params[EXACT] = 1.0 if energy > max(EXACT_BEYOND * first, ROUNDING) else 0.0
    if failed and energy < math.inf:
        energy = leave_saddle(figure, full, bare, levels, state, ws)
    params[DAMPING] = min(damping, FIRST_DAMPING)
    params[ENERGY] = energy
