"""One tick of a controller: the next pose inside position, velocity, acceleration and jerk limits.

All limits together are one box for the next velocity (`speed_limits`). The tick minimises the energy of the goals over
the poses at which the figure could come to rest, with the projected Newton step of the solver: a target that jumps is
approached at the limits and reached without overshoot.

The figure does not stop at a moving target. `COURSE` is the velocity of the pose that the goals ask for, and the
braking distance at that velocity is added to the goal and subtracted from the box: on its course, the figure follows
the target without lag.
"""

from __future__ import annotations

import math

from posable.engine.assemble import (
    clear_hessian,
    derivatives,
    energy_at,
    has_center,
    is_rotation,
    is_tree,
    springs_of,
    target_gap,
    total_energy,
    write_target,
)
from posable.engine.bounds import active_bounds
from posable.engine.boxed_newton import LARGEST_STEP, LEVEL_STEP, boxed_step, newton_step, shorten
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import ROTVEC, SWING, center_of_mass, forward, parameters_of
from posable.engine.layout import DEPTH, KIND, Springs, workspace
from posable.engine.ltl import damped_copy, factorise, multiply, negative_curvature, substitute
from posable.engine.packed import ASKED, DEPTHS, HELD, NEW, QUIET, carve, carve_levels
from posable.engine.speed_limits import (
    ACCEL,
    ACCELERATION,
    ACTIVE,
    BOX_HIGH,
    BOX_LOW,
    COURSE,
    FASTEST,
    FIXED,
    HOME,
    INSIDE,
    LAST,
    LOWER,
    OFFSET,
    ORIGIN,
    POSE,
    PULL,
    SCALE,
    SLACK,
    SLOWEST,
    SPEED,
    UPPER,
    VELOCITY,
    WANTED,
    common_braking,
    label_active_limit,
    planned_accel,
    stopping_speed,
    travel,
    velocity_box,
    wanted_box,
)

FOLLOWED, SOME_HELD = -1, -2  # codes of a step
# Params of a tick: inputs and outputs
DT, COUPLED, MOST, DAMPING, ITERATIONS, ENERGY, EXACT, CALM, CALM_STILL, CALM_BEYOND, MOVING, STILL = range(12)
PARAMS = 12

STILL_AFTER = 0.2  # [s] after which a target at rest counts as stationary
AT_REST = 1e-9  # [m, 1] a target that moves less in one tick is at rest
FARTHEST = 1e6  # [m] targets further away count as infinite
BACKLASH = 0.3  # [rad, m]
MOST_AHEAD = 0.1  # [rad, m] acceleration * dt^2 beyond which a course predicts nothing
SETTLED = 1e-11  # [rad, m] shorter distances count as zero
ROUNDING = 1e-18  # [m^2, rad^2] an energy this small is rounding error
NOISE = 1e-13  # relative rounding error of the energy
IGNORED = 5e-9  # [m^2, rad^2] 0.1 mm at a weight of 1
TRIES = 5  # dampings tried for one step
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 3e-6, 3e-6, 1e3
TINY_DAMPING = 1e-9  # keeps rounding from making a pivot negative
OF_POSTURE = 1e-3  # damping relative to a posture's stiffness: enough, as the posture determines the free dofs
EXACT_BEYOND = 0.5  # use the exact Hessian if a step leaves more than this fraction of the energy
COMPENSATION_DAMPING = 1e-4
MOST_COMPENSATION = 0.2  # [rad, m]
SHORTER = 0.35  # factor by which a rejected step with strict priorities is shortened
WORTH = 1e-3  # relative decrease required for leaving a straight arm
ESCAPE = 0.05  # [rad, m] largest step off a straight arm


@kernel
def fix_blocked_dofs(order, theta, low, high, ws, fixed):
    """Mark in fixed (n,) the dofs at a bound that the gradient pushes outward, and those without a goal."""
    active_bounds(theta, ws.gradient, low, high, fixed)
    for i in range(theta.shape[0]):
        if ws.gradient[i] == 0.0 and ws.hessian[i, order.rows[i, DEPTH]] == 0.0:
            fixed[i] = 1.0


@kernel
def mean_diagonal(order, hessian):
    """Return the mean absolute value of the diagonal."""
    total = 1e-300
    for i in range(hessian.shape[0]):
        total += abs(hessian[i, order.rows[i, DEPTH]])
    return total / hessian.shape[0]


@kernel
def refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, coupled, exact):
    """Write gradient and Hessian at a placed pose, of each level too, the fixed dofs and the damping metric."""
    n, count = theta.shape[0], levels.scale.shape[0]
    if count == 0:
        if coupled:
            clear_hessian(ws)
        derivatives(figure, order, springs, theta, ws, exact)
    for level in range(count):
        if coupled:
            clear_hessian(ws)
        one = Springs(springs.kind, levels.constants[level], springs.targets, levels.pull[level], levels.home[level])
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
    fix_blocked_dofs(order, theta, low, high, ws, fixed)
    for i in range(n):  # with strict priorities, the step itself finds the bounds in its way
        if count > 0 and ws.hessian[i, order.rows[i, DEPTH]] != 0.0:
            fixed[i] = 0.0
    mean = mean_diagonal(order, ws.hessian)
    for i in range(n):
        scale[i] = mean


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
    for i in range(scale.shape[0]):
        ws.spare[i] = 0.0
    damping = least_damping(springs.pull, scale[0]) if levels.scale.shape[0] == 0 else LEAST_DAMPING
    if not newton_step(order, ws, levels, fixed, scale, damping, ws.spare):
        return False
    shorten(ws.step, LARGEST_STEP if levels.scale.shape[0] == 0 else LEVEL_STEP)
    return True


@kernel
def add_speed_damping(order, springs, levels, state, ws, scale, params):
    """Resist changes of speed where the goals ask for much of it: near singularities, and when a target jumps.

    A spring on each dof draws it to where its course leads, and grows with the largest speed that ws.step would take,
    as a part of the velocity limit: none up to params[CALM_BEYOND]. It is weak against a goal that the dofs can serve
    well, and strong where a small gain would cost a large motion. Its strength over time does not depend on the tick:
    the spring is params[CALM] / dt, relative to the mean diagonal of the Hessian. Adds it to gradient and Hessian;
    returns whether there is one.
    """
    dt, beyond = params[DT], params[CALM_BEYOND]
    fastest = 0.0
    for i in range(scale.shape[0]):
        if state[SPEED, i] < math.inf:
            fastest = max(fastest, abs(ws.step[i]) / (dt * state[SPEED, i]))
    part = min(max((fastest - beyond) / (1.0 - beyond), 0.0), 1.0)
    if part == 0.0:
        return False
    stiff = part * part * (params[CALM_STILL] + params[MOVING] * (params[CALM] - params[CALM_STILL])) / dt
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
def first_step(figure, order, springs, levels, state, ws, coupled, exact, params):
    """Set the wanted pose to one Newton step from ws.best (n,), clipped to the box.

    The step itself uses only the joint limits: ws.best need not be inside the box of a moving figure, and bounds taken
    there would misdirect the dofs that the goals leave free. Returns whether the exact Hessian was indefinite.
    """
    fixed, scale, failed = state[FIXED], state[SCALE], False
    refresh_derivatives(
        figure, order, springs, levels, ws.best, state[LOWER], state[UPPER], ws, fixed, scale, coupled, exact
    )
    good = unbounded_step(order, springs, ws, levels, fixed, scale)
    if not good and exact != 0.0:
        failed = True
        refresh_derivatives(
            figure, order, springs, levels, ws.best, state[LOWER], state[UPPER], ws, fixed, scale, coupled, 0.0
        )
        good = unbounded_step(order, springs, ws, levels, fixed, scale)
    if good and add_speed_damping(order, springs, levels, state, ws, scale, params):
        good = unbounded_step(order, springs, ws, levels, fixed, scale)
    good = good and levels.scale.shape[0] == 0  # strict priorities: see `scaled_step`
    for i in range(scale.shape[0]):
        x = ws.best[i] + ws.step[i] if good else ws.best[i]
        state[WANTED, i] = min(max(x, state[BOX_LOW, i]), state[BOX_HIGH, i])
    return failed


@kernel
def merit(figure, springs, levels, theta, ws):
    """Place a pose and return its energy; with strict priorities, IGNORED of it is free for each level but the last.

    Otherwise a straight step within the curved set of poses that meet the stricter goals could not exceed a
    milliradian. The next step corrects the error.
    """
    if levels.scale.shape[0] == 0:
        return energy_at(figure, springs, theta, ws)
    forward(figure, theta, ws)
    if has_center(springs):
        center_of_mass(figure, ws, ws.center)
    total = 0.0
    for level in range(levels.scale.shape[0]):
        one = Springs(springs.kind, levels.constants[level], springs.targets, levels.pull[level], levels.home[level])
        energy = total_energy(figure, one, theta, ws)
        last = level == levels.scale.shape[0] - 1
        total += energy if last or not energy < math.inf else max(energy - levels.weight[level] * IGNORED, 0.0)
    return total


@kernel
def leave_saddle(figure, order, springs, levels, state, ws, coupled):
    """Bend a straight arm whose target lies inside towards the side that it came from; return the energy."""
    theta, low, high, lower, upper = state[WANTED], state[BOX_LOW], state[BOX_HIGH], state[LOWER], state[UPPER]
    fixed, scale, origin, n = state[FIXED], state[SCALE], state[ORIGIN], theta.shape[0]
    energy = merit(figure, springs, levels, theta, ws)
    refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, coupled, 1.0)
    damped_copy(order, ws.hessian, fixed, 1e-7, scale, ws.factor, ws.path)
    failed = factorise(order, ws.factor, fixed, 0.0)
    if failed < 0:
        return energy
    negative_curvature(order, ws.factor, failed, ws.step)
    leader = failed
    for i in range(n):
        if abs(ws.step[i]) > abs(ws.step[leader]):
            leader = i
    back = origin[leader] - theta[leader]
    sign = 1.0 if back * ws.step[leader] >= 0.0 else -1.0
    for _ in range(2):
        size = ESCAPE / abs(ws.step[leader])
        for _ in range(3):
            # The box of one tick may be narrower than the crest between the two ways out: look beyond it, then go as
            # far as it allows, uphill if need be. The next ticks go on.
            for i in range(n):
                ws.trial[i] = min(max(theta[i] + sign * size * ws.step[i], lower[i]), upper[i])
            if merit(figure, springs, levels, ws.trial, ws) < (1.0 - WORTH) * energy:
                for i in range(n):
                    theta[i] = min(max(ws.trial[i], low[i]), high[i])
                return merit(figure, springs, levels, theta, ws)
            size *= 0.25
        sign = -sign
    return energy


@kernel
def take_first_step(figure, order, springs, levels, state, ws, coupled, params, first):
    """Take the first Newton step of a tick from ws.best (n,), or fall back to that pose where the step goes uphill.

    Returns:
        The energy, the length of the step [rad, m] and whether the exact Hessian was indefinite. `first` is the energy
        at ws.best.
    """
    theta, low, high = state[WANTED], state[BOX_LOW], state[BOX_HIGH]
    n = theta.shape[0]
    failed = first_step(figure, order, springs, levels, state, ws, coupled, params[EXACT], params)
    length = 0.0 if levels.scale.shape[0] == 0 else 1.0
    for i in range(n):
        length = max(length, abs(theta[i] - ws.best[i]))
    energy = merit(figure, springs, levels, theta, ws)
    if energy > first:
        for i in range(n):
            ws.trial[i] = min(max(ws.best[i], low[i]), high[i])
        still = merit(figure, springs, levels, ws.trial, ws)
        if still < energy:
            for i in range(n):
                theta[i] = ws.trial[i]
            energy = still
        else:
            energy = merit(figure, springs, levels, theta, ws)
        length = 1.0
    return energy, length, failed


@kernel
def minimise_in_box(figure, full, tree, springs, bare, levels, state, ws, params):
    """Minimise the energy over the box of the wanted pose, in place, by at most params[MOST] Newton steps.

    Iterates until a step moves no dof by params[STILL]: stopping within a tolerance would give a staircase motion.
    full, tree: the elimination orders of the problem and of the figure alone; tree is used while no spring couples its
    branches. bare: the springs without speed damping, which would keep a straight arm straight. Returns whether tree
    is the order of ws.hessian.
    """
    theta, low, high = state[WANTED], state[BOX_LOW], state[BOX_HIGH]
    fixed, scale = state[FIXED], state[SCALE]
    n = theta.shape[0]
    coupled = params[COUPLED] != 0.0
    first = merit(figure, springs, levels, ws.best, ws)
    sparse = coupled and is_tree(figure, springs, ws)
    order = tree if sparse else full
    if not first < math.inf:
        params[ENERGY] = first
        return sparse
    energy, before, failed = take_first_step(figure, order, springs, levels, state, ws, coupled, params, first)
    exact = 0.0 if failed else params[EXACT]
    if not failed and energy > max(EXACT_BEYOND * first, ROUNDING):
        exact = 1.0
    least = least_damping(bare.pull, scale[0]) if levels.scale.shape[0] == 0 else LEAST_DAMPING
    damping, squared = params[DAMPING], params[EXACT] != 0.0 and not failed  # whether the last step was exact
    params[ITERATIONS] = 1.0
    while params[ITERATIONS] < params[MOST] and energy < math.inf and before > 0.0:
        params[ITERATIONS] += 1.0
        sparse = coupled and is_tree(figure, springs, ws)
        order = tree if sparse else full
        refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, coupled, exact)
        moved, length, stopped, used = False, 0.0, 0, exact
        for attempt in range(TRIES):
            stopped = 0
            if attempt > 0 and levels.scale.shape[0] > 0 and length > 0.0:
                shorten(ws.step, SHORTER * length)
            else:
                stopped = boxed_step(order, theta, low, high, ws, levels, fixed, scale, damping)
            if stopped < 0:
                if exact == 0.0:
                    break
                exact, used, failed = 0.0, 0.0, True
                if attempt > 0:
                    forward(figure, theta, ws)
                refresh_derivatives(figure, order, springs, levels, theta, low, high, ws, fixed, scale, coupled, exact)
                continue
            length, slope = 0.0, 0.0
            for i in range(n):
                x = min(max(theta[i] + ws.step[i], low[i]), high[i])
                ws.trial[i] = x
                length = max(length, abs(x - theta[i]))
                slope += ws.gradient[i] * (x - theta[i])
            if length == 0.0:
                break
            after = merit(figure, springs, levels, ws.trial, ws)
            if levels.scale.shape[0] > 0:
                slope = min(max(slope, after - energy), 0.0)  # not of what `merit` ignores
            if after <= energy + 1e-4 * slope or abs(slope) <= NOISE * energy:
                gain = (energy - after) / max(-0.5 * slope, 1e-300)
                damping *= 0.1 if gain > 0.75 else (0.4 if gain > 0.25 else 2.0)
                for i in range(n):
                    theta[i] = ws.trial[i]
                # Where a residual stays, the exact Hessian converges; where none does, what the goals leave free would
                # follow its tiny curvature.
                if not failed and after > max(EXACT_BEYOND * energy, ROUNDING):
                    exact = 1.0
                energy, moved = after, True
                break
            if levels.scale.shape[0] > 0:
                continue
            damping = max(damping, 1e-5) * 8.0
            fix_blocked_dofs(order, theta, low, high, ws, fixed)
        damping = min(max(damping, least), MOST_DAMPING)
        # What the next step would be: exact Newton steps square their ratio, and damping leaves a part of each
        ratio, newton = min(length / before, 1.0), stopped == 0 and used != 0.0
        if newton and squared:
            ratio = max(ratio * ratio, OF_POSTURE)
        if not moved or length * ratio < params[STILL]:
            break
        before, squared = length, newton
    params[EXACT] = 1.0 if energy > max(EXACT_BEYOND * first, ROUNDING) else 0.0
    if failed and energy < math.inf:
        sparse = False
        energy = leave_saddle(figure, full, bare, levels, state, ws, coupled)
    params[DAMPING] = min(damping, FIRST_DAMPING)
    params[ENERGY] = energy
    return sparse


@small
def tick_velocity(state, i, dt):
    """Return the velocity of dof i in this tick: towards its wanted value, such that it can stop there."""
    accel, course = planned_accel(state, i), state[COURSE, i]
    wanted = min(max(state[WANTED, i] + state[OFFSET, i], state[LOWER, i]), state[UPPER, i])
    gap = wanted + travel(course, accel, dt) - dt * course - state[POSE, i]
    return min(max(stopping_speed(gap, accel, dt), state[SLOWEST, i]), state[FASTEST, i])


@kernel
def compensate(order, state, ws, dt):
    """Write OFFSET: how the free dofs compensate in this tick for those that a limit holds back.

    The wanted pose is where the figure could come to rest; a dof at a limit lags behind it, and the goals would be off
    by that displacement. The free dofs respond to it through the Hessian at the wanted pose.
    """
    n = state.shape[1]
    held = False
    for i in range(n):
        state[OFFSET, i] = 0.0
        ws.spare[i] = 0.0
        state[FIXED, i] = 1.0 if state[ACTIVE, i] != 0.0 or state[SPEED, i] == 0.0 else 0.0
        if state[FIXED, i] != 0.0:
            ws.spare[i] = state[POSE, i] + dt * tick_velocity(state, i, dt) - state[WANTED, i]
            held = held or abs(ws.spare[i]) > 1e-12
        elif ws.hessian[i, order.rows[i, DEPTH]] == 0.0:
            state[FIXED, i] = 1.0
    if not held:
        return
    multiply(order, ws.hessian, ws.spare, ws.step, ws.path)
    damped_copy(order, ws.hessian, state[FIXED], COMPENSATION_DAMPING, state[SCALE], ws.factor, ws.path)
    if factorise(order, ws.factor, state[FIXED], 0.0) >= 0:
        return
    for i in range(n):
        ws.step[i] = 0.0 if state[FIXED, i] != 0.0 else -ws.step[i]
    substitute(order, ws.factor, ws.step, ws.path)
    for i in range(n):
        if state[FIXED, i] == 0.0:
            state[OFFSET, i] = min(max(ws.step[i], -MOST_COMPENSATION), MOST_COMPENSATION)


@kernel
def strict_goal_offset(figure, order, springs, levels, state, ws, coupled):
    """Write OFFSET: the correction of the wanted pose that keeps the strictest goals on the way from the present pose.

    The poses that keep them form a curved set, and moving straight towards a pose ahead would leave it.
    """
    n = state.shape[1]
    strict = Springs(springs.kind, levels.constants[0], springs.targets, levels.pull[0], levels.home[0])
    if coupled:
        clear_hessian(ws)
    forward(figure, state[POSE], ws)
    derivatives(figure, order, strict, state[POSE], ws, 0.0)
    mean = mean_diagonal(order, ws.hessian)
    for i in range(n):
        at_bound = state[ACTIVE, i] != 0.0 or ws.hessian[i, order.rows[i, DEPTH]] == 0.0
        state[FIXED, i] = 1.0 if at_bound else 0.0
        state[SCALE, i] = mean
        ws.spare[i] = state[WANTED, i] - state[POSE, i]
        state[OFFSET, i] = 0.0
    multiply(order, ws.hessian, ws.spare, ws.step, ws.path)
    damped_copy(order, ws.hessian, state[FIXED], COMPENSATION_DAMPING, state[SCALE], ws.factor, ws.path)
    if factorise(order, ws.factor, state[FIXED], 0.0) >= 0:
        return
    for i in range(n):
        ws.step[i] = 0.0 if state[FIXED, i] != 0.0 else -ws.gradient[i] - ws.step[i]
    substitute(order, ws.factor, ws.step, ws.path)
    for i in range(n):
        if state[FIXED, i] == 0.0:
            state[OFFSET, i] = min(max(ws.step[i], -MOST_COMPENSATION), MOST_COMPENSATION)


@kernel
def update_course(state, dt, numeric, together):
    """Update the velocity of the wanted pose, and which dofs are in their box.

    together: if one dof is held by its box, none has a course.
    """
    free = True
    for i in range(state.shape[1]):
        free = free and state[BOX_LOW, i] < state[WANTED, i] < state[BOX_HIGH, i]
    for i in range(state.shape[1]):
        limit = SLACK * state[ACCEL, i] * dt
        wanted, course = state[WANTED, i], state[COURSE, i]
        inside = numeric and (free if together else state[BOX_LOW, i] < wanted < state[BOX_HIGH, i])
        seen = (wanted - state[LAST, i]) / dt if inside and state[INSIDE, i] != 0.0 else 0.0
        state[INSIDE, i] = 1.0 if inside else 0.0
        course = min(max(seen, course - limit), course + limit)
        state[COURSE, i] = min(max(course, -state[SPEED, i]), state[SPEED, i])


@kernel
def common_pace(state, dt):
    """Return the rate [1/s] at which all dofs can approach their wanted values so that each can stop there."""
    pace = 1.0 / dt
    for i in range(state.shape[1]):
        accel, course = planned_accel(state, i), state[COURSE, i]
        way = state[WANTED, i] - state[POSE, i] - dt * course
        if abs(way) > SETTLED:
            most = stopping_speed(way + travel(course, accel, dt), accel, dt)
            most = min(max(most, -state[SPEED, i]), state[SPEED, i])
            pace = min(pace, max((most - course) / way, 0.0))
    return pace


@kernel
def advance(state, dt, numeric, together):
    """Move the command towards the wanted pose and update the state.

    together: all dofs approach their wanted values at one pace, so that the figure stays near the poses that keep
    strict goals; otherwise each dof is as quick as it can be.
    """
    pace = common_pace(state, dt) if numeric and together else 0.0
    for i in range(state.shape[1]):
        v = 0.0
        if numeric and together:
            way = state[WANTED, i] + state[OFFSET, i] - state[POSE, i] - dt * state[COURSE, i]
            v = state[COURSE, i] + pace * way
        elif numeric:
            v = tick_velocity(state, i, dt)
        v = min(max(v, state[SLOWEST, i]), state[FASTEST, i])
        q = min(max(state[POSE, i] + dt * v, state[LOWER, i]), state[UPPER, i])
        v = (q - state[POSE, i]) / dt  # from the rounded poses, so that rounding does not accumulate
        state[ACCELERATION, i] = (v - state[VELOCITY, i]) / dt
        state[VELOCITY, i] = v
        state[POSE, i] = q
        state[ORIGIN, i] = min(max(state[ORIGIN, i], q - BACKLASH), q + BACKLASH)


@kernel
def shorten_rotation_vectors(figure, state):
    """Replace rotation vectors longer than 1.5 pi by the shorter equivalent, with all related state."""
    n = state.shape[1]
    for i in range(n):
        kind = figure.dof[i, KIND]
        if kind != ROTVEC and kind != SWING:
            continue
        m = parameters_of(kind)
        square = 0.0
        for k in range(m):
            square += state[POSE, i + k] * state[POSE, i + k]
        length = math.sqrt(square)
        if length <= 1.5 * math.pi:
            continue
        factor = (length - 2.0 * math.pi) / length
        for k in range(m):
            x = state[POSE, i + k] * factor
            if x < state[LOWER, i + k] or x > state[UPPER, i + k]:
                return
        for k in range(m):
            shift = state[POSE, i + k] * (factor - 1.0)
            state[POSE, i + k] += shift
            state[WANTED, i + k] += shift
            state[ORIGIN, i + k] += shift


@entry
def follow_targets(
    figure, order, kind, constants, targets, pull, home, state, params, reach, work, d, poses, errors, iterations
):  # fmt: skip
    """Follow targets frame by frame on one branch: no dof moves farther in a frame than reach (n,) [rad, m].

    constants and targets (T or 1, g, ...). The walk begins at state[WANTED]. Writes poses (T, n), errors (T, g)
    [m, rad] and iterations (T,). state[ACTIVE] is 1 where the last frame was held back by `reach`.
    """
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    levels = carve_levels(work[0:0], 0, n, g, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, state[PULL], state[HOME])
        bare = springs_of(kind, constants, targets, t, pull, home)
        for i in range(n):
            state[POSE, i] = state[WANTED, i]
        shorten_rotation_vectors(figure, state)
        for i in range(n):
            state[PULL, i], state[HOME, i] = pull[i], home[i]
            q = ws.best[i] = state[WANTED, i]
            state[BOX_LOW, i] = min(max(q - reach[i], state[LOWER, i]), state[UPPER, i])
            state[BOX_HIGH, i] = min(max(q + reach[i], state[LOWER, i]), state[UPPER, i])
        minimise_in_box(figure, order, order, springs, bare, levels, state, ws, params)
        iterations[t] = params[ITERATIONS]
        energy_at(figure, springs, state[WANTED], ws)
        for k in range(g):
            errors[t, k] = ws.error[k]
        for i in range(n):
            q = poses[t, i] = state[WANTED, i]
            state[ORIGIN, i] = min(max(state[ORIGIN, i], q - BACKLASH), q + BACKLASH)
            held = abs(q - ws.best[i]) >= reach[i] * (1.0 - 1e-9)
            state[ACTIVE, i] = 1.0 if held and state[LOWER, i] < q < state[UPPER, i] else 0.0


@kernel
def predict(springs, state, ws, dt, together):
    """Write ws.best (n,): where the wanted pose will be if it keeps its course; the Newton steps begin there.

    Where no posture pulls a dof, the wanted pose of the last tick: what the goals leave free would drift for ever.
    A course that can change by more than MOST_AHEAD in one tick predicts nothing.
    """
    pulled = not together
    for i in range(state.shape[1]):
        pulled = pulled and springs.pull[i] > 0.0
    for i in range(state.shape[1]):
        steady = pulled and state[ACCEL, i] * dt * dt < MOST_AHEAD
        x = state[LAST, i]
        ws.best[i] = min(max(x + dt * state[COURSE, i], state[LOWER, i]), state[UPPER, i]) if steady else x


@kernel
def control_tick(figure, order, tree, springs, levels, state, params, work, d, errors):
    """Advance a controller, state (ROWS, n) and params (PARAMS,), by one tick; write its errors (g,) [m, rad]."""
    n, b, g = figure.dof.shape[0], figure.body.shape[0], springs.kind.shape[0]
    ws = workspace(work, n, b, g, d)
    dt = params[DT]
    shorten_rotation_vectors(figure, state)
    together = levels.scale.shape[0] > 0
    braking = common_braking(state, dt) if together else 0.0
    for i in range(n):
        velocity_box(state, i, dt)
        wanted_box(state, i, dt, braking)
        state[LAST, i] = state[WANTED, i]
        state[WANTED, i] = min(max(state[WANTED, i], state[BOX_LOW, i]), state[BOX_HIGH, i])
        state[PULL, i], state[HOME, i] = springs.pull[i], springs.home[i]
    predict(springs, state, ws, dt, together)
    held = Springs(springs.kind, springs.constants, springs.targets, state[PULL], state[HOME])
    for level in range(levels.calm.shape[0]):
        levels.calm[level] = 0.0
    sparse = minimise_in_box(figure, order, tree, held, springs, levels, state, ws, params)
    numeric = params[ENERGY] < math.inf
    for i in range(n):
        label_active_limit(state, i, dt, ws.gradient[i])
        if not numeric:
            state[WANTED, i] = state[POSE, i]
        state[OFFSET, i] = 0.0
    if numeric and not together:
        compensate(tree if sparse else order, state, ws, dt)
    update_course(state, dt, numeric, together)
    if numeric and together:
        strict_goal_offset(figure, order, springs, levels, state, ws, params[COUPLED] != 0.0)
    advance(state, dt, numeric, together)
    energy_at(figure, springs, state[POSE], ws)
    for k in range(g):
        errors[k] = ws.error[k]


@kernel
def apply_targets(packed):
    """Move the goals with new targets; return FOLLOWED, SOME_HELD, or the first goal whose target is no rotation.

    If a target is no rotation, no goal moves.
    """
    goals, asked = packed.goals, packed.asked
    code, answer = ASKED - 1, FOLLOWED
    for k in range(goals.shape[0]):
        if asked[k, code] != NEW:
            asked[k, code] = QUIET
            continue
        for i in range(goals[k, 1]):
            if not abs(asked[k, i]) < FARTHEST:
                asked[k, code] = HELD
                answer = SOME_HELD
        stride = 4 if goals[k, 1] == 16 else 3
        if asked[k, code] == NEW and goals[k, 1] > 3 and not is_rotation(asked[k], 0, stride, 2 * stride):
            return k
    dt = packed.params[DT]
    packed.params[MOVING] = max(1.0 - dt / STILL_AFTER, 0.0) * packed.params[MOVING]
    for k in range(goals.shape[0]):
        if asked[k, code] == NEW:
            if target_gap(asked[k], goals[k, 1], packed.springs.targets, goals[k, 0]) > AT_REST:
                packed.params[MOVING] = 1.0
            write_target(asked[k], goals[k, 1], packed.springs.targets, goals[k, 0])
            asked[k, code] = QUIET
    return answer


@entry
def control_step(ints, floats):
    """Move the goals of a packed controller to their new targets and advance it by one tick.

    Returns:
        FOLLOWED; SOME_HELD if a target is not finite; or the first goal whose target is no rotation, in which case
        nothing has moved.
    """
    packed = carve(ints, floats)
    code = apply_targets(packed)
    if code < 0:
        control_tick(
            packed.figure, packed.order, packed.tree, packed.springs, packed.levels, packed.state, packed.params,
            packed.work, ints[DEPTHS], packed.errors,
        )  # fmt: skip
    return code
