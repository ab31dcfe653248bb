"""One tick of a controller: the next pose inside position, velocity, acceleration and jerk limits.

All limits together are one box for the next velocity, and a box from which the joint can still stop before its limit.
Let T(v) be the distance that a joint travels when it moves at v for one tick and then brakes as hard as it may. T is
odd, increasing, and has a closed inverse, so both the joint limit ("stop before it") and the target ("stop at it") are
intervals. The tick minimises the energy of the goals over the poses at which the figure could come to rest, with the
projected Newton step of the solver: a target that jumps is approached at the limits and reached without overshoot.

A target that moves is not to be stopped at. `COURSE` is the velocity of the pose that the goals ask for, and the
distance that braking from it would take is added to the goal and subtracted from the box: where the figure is on its
course, the next pose is the one that is asked for, without a lag.
"""

from __future__ import annotations

import math

from posable.engine.assemble import clear_hessian, derivatives, energy_at, springs_of
from posable.engine.bounds import active_bounds
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import ROTVEC, SWING, forward, parameters_of
from posable.engine.layout import DEPTH, KIND, Springs, workspace
from posable.engine.ltl import damped_copy, factorise, multiply, negative_curvature, substitute

# Rows of a controller's state (ROWS, n). The first five are its memory between ticks.
(
    POSE,  # [rad, m] the command of the last tick
    VELOCITY,  # [rad/s, m/s] of the last tick
    ACCELERATION,  # [rad/s^2, m/s^2] of the last tick
    WANTED,  # [rad, m] the pose that the goals asked for in the last tick
    COURSE,  # [rad/s, m/s] how fast that pose moves
    ORIGIN,  # [rad, m] where each dof came from, at most BACKLASH away: tells the two ways out of a straight arm apart
    LOWER,  # [rad, m] joint limits
    UPPER,
    SPEED,  # [rad/s, m/s] velocity limit
    ACCEL,  # [rad/s^2, m/s^2] acceleration limit
    JERK,  # [rad/s^3, m/s^3] jerk limit
    SLOWEST,  # [rad/s, m/s] the box of this tick's velocity
    FASTEST,
    BOX_LOW,  # [rad, m] the box of the wanted pose
    BOX_HIGH,
    ACTIVE,  # which limit holds the dof back: 0, or a code below, negative at its lower side
    FIXED,  # scratch
    SCALE,  # scratch
    PULL,  # stiffness of the springs on the dofs in this tick, and where they pull to: postures, and the calm of a tick
    HOME,
    INSIDE,  # 1 where the wanted value of the last tick was inside its box, not held by it
    OFFSET,  # [rad, m] what is added to the wanted value in this tick to make up for dofs that lag behind theirs
) = range(22)
ROWS = 22
FREE, AT_POSITION, AT_VELOCITY, AT_ACCELERATION, AT_JERK = range(5)  # values of ACTIVE

# What a tick is told and tells: entries of its params
DT, COUPLED, MOST, DAMPING, ITERATIONS, ENERGY, EXACT, CALM, CALM_BEYOND, CALM_KEEP = range(10)
PARAMS = 10

BRAKE = 1.0 - 1e-6  # part of the acceleration that braking plans with: room for rounding
SLACK = 1.0 - 1e-9  # part of the acceleration and jerk that a tick uses
BACKLASH = 0.3  # [rad, m]
SETTLED = 1e-11  # [rad, m] a Newton step that is not worth taking
ROUNDING = 1e-18  # [m^2, rad^2] an energy that is nothing but rounding
NOISE = 1e-13  # part of the energy that is rounding
TRIES = 5  # dampings tried for one step
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 3e-6, 3e-6, 1e3
EXACT_BEYOND = 0.5  # a step that leaves more of the energy than this calls for the exact Hessian
SATURATED_DAMPING = 1e-2  # where dofs are held back: the others do not race to make up for them
COMPENSATION_DAMPING = 1e-4
MOST_COMPENSATION = 0.2  # [rad, m]
LARGEST_STEP = 0.5  # [rad, m] of any dof in one Newton step
ESCAPE = 0.05  # [rad, m] the largest step off a straight arm
BISECTIONS = 40


@small
def travel(v, accel, dt):
    """Return T(v) [rad, m]: a tick at velocity v, then braking by accel each tick; odd and increasing."""
    if not accel < math.inf:
        return v * dt
    speed = abs(v)
    m = math.floor(speed / (accel * dt))
    distance = dt * (m + 1.0) * (speed - 0.5 * accel * dt * m)
    return distance if v >= 0.0 else -distance


@small
def stopping_speed(gap, accel, dt):
    """Return the velocity v with T(v) = gap, the inverse of `travel`."""
    if not accel < math.inf:
        return gap / dt
    distance = abs(gap)
    if not distance < math.inf:
        return gap
    unit = accel * dt * dt
    m = math.floor(0.5 * (math.sqrt(1.0 + 8.0 * distance / unit) - 1.0))
    speed = distance / (dt * (m + 1.0)) + 0.5 * accel * dt * m
    return speed if gap >= 0.0 else -speed


@kernel
def braking_travel(v, a, accel, jerk, dt, enough):
    """Return how far a dof at velocity v > 0 and acceleration a goes while it brakes within accel and jerk.

    Stops counting beyond `enough`.
    """
    distance = 0.0
    while v > 0.0 and distance <= enough:
        a = max(a - jerk * dt, -accel)
        v += a * dt
        if v > 0.0:
            distance += v * dt
    return distance


@kernel
def jerk_allows(v, last, gap, speed, accel, jerk, dt):
    """Return whether velocity v after `last` leaves room: to ease off before `speed`, and to stop within gap."""
    a = (v - last) / dt
    if a > 0.0 and v + travel(a, jerk, dt) - a * dt > speed:
        return False
    if not v > 0.0 and not a > 0.0:
        return v * dt <= gap
    rise = max(a, 0.0)
    top = max(v, 0.0) + 0.5 * rise * rise / jerk + rise * dt
    if top * ((rise + accel) / jerk + top / accel + 3.0 * dt) <= gap:  # far: no need to count
        return True
    distance, x = v * dt, v
    while x <= 0.0 and a > 0.0:  # still moving back, but about to turn
        a = max(a - jerk * dt, -accel)
        x += a * dt
        distance += x * dt
    return distance + braking_travel(x, a, accel, jerk, dt, gap - distance) <= gap


@kernel
def jerk_bound(low, high, last, gap, speed, accel, jerk, dt):
    """Return the largest velocity in [low, high] that `jerk_allows`; low where none is."""
    if jerk_allows(high, last, gap, speed, accel, jerk, dt):
        return high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if jerk_allows(middle, last, gap, speed, accel, jerk, dt):
            low = middle
        else:
            high = middle
    return low


@kernel
def velocity_box(state, i, dt):
    """Write the velocities of dof i that all its limits allow in this tick, [SLOWEST, FASTEST]."""
    q, v = state[POSE, i], state[VELOCITY, i]
    speed, accel, jerk = state[SPEED, i], state[ACCEL, i], state[JERK, i]
    above, below = max(state[UPPER, i] - q, 0.0), max(q - state[LOWER, i], 0.0)
    low, high = max(-speed, v - SLACK * accel * dt), min(speed, v + SLACK * accel * dt)
    if jerk < math.inf:
        change = SLACK * jerk * dt * dt
        a = state[ACCELERATION, i] * dt
        low, high = max(low, v + a - change), min(high, v + a + change)
        high, low = (
            jerk_bound(low, high, v, above, speed, BRAKE * accel, BRAKE * jerk, dt),
            -jerk_bound(-high, -low, -v, below, speed, BRAKE * accel, BRAKE * jerk, dt),
        )
    else:
        high = min(high, stopping_speed(above, BRAKE * accel, dt))
        low = max(low, -stopping_speed(below, BRAKE * accel, dt))
    if low > high:  # rounding, or a narrow range: the middle breaks both by the least
        low = high = 0.5 * (low + high)
    state[SLOWEST, i], state[FASTEST, i] = low, high


@small
def planned_accel(state, i):
    """Return the acceleration that stopping at a target plans with: half of it where a jerk limit delays braking."""
    return BRAKE * state[ACCEL, i] if not state[JERK, i] < math.inf else 0.5 * state[ACCEL, i]


@kernel
def wanted_box(state, i, dt):
    """Write the wanted values of dof i at which it can come to rest, [BOX_LOW, BOX_HIGH], on its course."""
    accel = planned_accel(state, i)
    q, low, high = state[POSE, i], state[LOWER, i], state[UPPER, i]
    ahead = travel(state[COURSE, i], accel, dt) - dt * state[COURSE, i]
    state[BOX_LOW, i] = min(max(q + travel(state[SLOWEST, i], accel, dt) - ahead, low), high)
    state[BOX_HIGH, i] = min(max(q + travel(state[FASTEST, i], accel, dt) - ahead, low), high)


@kernel
def boxed_step(order, theta, low, high, ws, fixed, scale, damping):
    """Write into ws.step the damped Newton step in the box; return 0, 1 where a bound stopped a dof, -1: indefinite.

    Dofs that a bound stops stay there and the others answer to that, damped harder: see SATURATED_DAMPING.
    """
    n = theta.shape[0]
    step, moved = ws.step, ws.spare
    for i in range(n):
        moved[i] = 0.0
    stopped = 0
    for _ in range(3):
        damped_copy(order, ws.hessian, fixed, damping, scale, ws.factor, ws.path)
        if factorise(order, ws.factor, fixed, 0.0) >= 0:
            return -1
        if stopped == 1:
            multiply(order, ws.hessian, moved, step, ws.path)
        for i in range(n):
            response = step[i] if stopped == 1 else 0.0
            step[i] = 0.0 if fixed[i] != 0.0 else -ws.gradient[i] - response
        substitute(order, ws.factor, step, ws.path)
        largest = 0.0
        for i in range(n):
            if fixed[i] != 0.0:
                step[i] = moved[i]
            largest = max(largest, abs(step[i]))
        if largest > LARGEST_STEP:
            for i in range(n):
                step[i] *= LARGEST_STEP / largest
        again = False
        for i in range(n):
            if fixed[i] == 0.0:
                target = theta[i] + step[i]
                if target < low[i] or target > high[i]:
                    moved[i] = (low[i] if target < low[i] else high[i]) - theta[i]
                    fixed[i] = 1.0
                    again = True
        if not again:
            return stopped
        stopped = 1
        damping = max(damping, SATURATED_DAMPING)
    return stopped


@kernel
def hold(order, theta, low, high, ws, fixed):
    """Mark in fixed (n,) the dofs at a bound that the gradient pushes outward, and those that carry no goal."""
    active_bounds(theta, ws.gradient, low, high, fixed)
    for i in range(theta.shape[0]):
        if ws.gradient[i] == 0.0 and ws.hessian[i, order.rows[i, DEPTH]] == 0.0:
            fixed[i] = 1.0


@kernel
def fresh(figure, order, springs, theta, low, high, ws, fixed, scale, coupled, exact):
    """Write gradient and Hessian at a placed pose, the held dofs, and the metric of the damping."""
    if coupled:
        clear_hessian(ws)
    derivatives(figure, order, springs, theta, ws, exact)
    hold(order, theta, low, high, ws, fixed)
    n = theta.shape[0]
    total = 1e-300
    for i in range(n):
        total += abs(ws.hessian[i, order.rows[i, DEPTH]])
    for i in range(n):
        scale[i] = total / n


@kernel
def unbounded_step(order, ws, fixed, scale):
    """Write into ws.step the Newton step of the dofs that are free; return whether the matrix is positive definite."""
    damped_copy(order, ws.hessian, fixed, LEAST_DAMPING, scale, ws.factor, ws.path)
    if factorise(order, ws.factor, fixed, 0.0) >= 0:
        return False
    largest = 0.0
    for i in range(scale.shape[0]):
        ws.step[i] = 0.0 if fixed[i] != 0.0 else -ws.gradient[i]
    substitute(order, ws.factor, ws.step, ws.path)
    for i in range(scale.shape[0]):
        largest = max(largest, abs(ws.step[i]))
    if largest > LARGEST_STEP:
        for i in range(scale.shape[0]):
            ws.step[i] *= LARGEST_STEP / largest
    return True


@kernel
def calm_down(order, springs, state, ws, scale, params):
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
    for i in range(scale.shape[0]):
        more = part * part * params[CALM] / dt * scale[i]
        there = ws.best[i] + params[CALM_KEEP] * dt * state[COURSE, i]
        pull = springs.pull[i] + more
        if pull > 0.0:
            springs.home[i] = (springs.pull[i] * springs.home[i] + more * there) / pull
        springs.pull[i] = pull
        ws.gradient[i] += more * (ws.best[i] - there)
        ws.hessian[i, order.rows[i, DEPTH]] += more
    return True


@kernel
def first_step(figure, order, springs, state, ws, coupled, exact, params):
    """Set the wanted pose to one Newton step from ws.best (n,), that of the last tick, projected into the box.

    The step itself knows only the joint limits: the box of a moving figure does not hold the last wanted pose, and
    bounds taken from there would send what the goals leave free astray. Returns whether the exact Hessian was
    indefinite.
    """
    fixed, scale, failed = state[FIXED], state[SCALE], False
    fresh(figure, order, springs, ws.best, state[LOWER], state[UPPER], ws, fixed, scale, coupled, exact)
    good = unbounded_step(order, ws, fixed, scale)
    if not good and exact != 0.0:
        failed = True
        fresh(figure, order, springs, ws.best, state[LOWER], state[UPPER], ws, fixed, scale, coupled, 0.0)
        good = unbounded_step(order, ws, fixed, scale)
    if good and calm_down(order, springs, state, ws, scale, params):
        good = unbounded_step(order, ws, fixed, scale)
    for i in range(scale.shape[0]):
        x = ws.best[i] + ws.step[i] if good else ws.best[i]
        state[WANTED, i] = min(max(x, state[BOX_LOW, i]), state[BOX_HIGH, i])
    return failed


@kernel
def leave_saddle(figure, order, springs, theta, low, high, ws, fixed, scale, origin, energy, coupled):
    """At a straight arm whose target lies inside, bend it towards the side that it came from; return the energy."""
    n = theta.shape[0]
    forward(figure, theta, ws)
    fresh(figure, order, springs, theta, low, high, ws, fixed, scale, coupled, 1.0)
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
        for _ in range(8):
            for i in range(n):
                ws.trial[i] = min(max(theta[i] + sign * size * ws.step[i], low[i]), high[i])
            after = energy_at(figure, springs, ws.trial, ws)
            if after < energy:
                for i in range(n):
                    theta[i] = ws.trial[i]
                return after
            size *= 0.25
        sign = -sign
    return energy


@kernel
def seek(figure, order, springs, state, ws, params):
    """Minimise the energy over the box of the wanted pose, in place, by at most params[MOST] Newton steps.

    Goes on until a step moves nothing: an answer that stops within a tolerance would move in stairs.
    """
    theta, low, high = state[WANTED], state[BOX_LOW], state[BOX_HIGH]
    fixed, scale = state[FIXED], state[SCALE]
    n = theta.shape[0]
    coupled = params[COUPLED] != 0.0
    first = energy_at(figure, springs, ws.best, ws)
    energy = first
    if not first < math.inf:
        params[ENERGY] = first
        return
    failed = first_step(figure, order, springs, state, ws, coupled, params[EXACT], params)
    exact = 0.0 if failed else params[EXACT]
    before = 0.0  # [rad, m] the length of the step before
    for i in range(n):
        before = max(before, abs(theta[i] - ws.best[i]))
    energy = energy_at(figure, springs, theta, ws)
    if energy > first:  # too far: from where it was, with damping
        for i in range(n):
            ws.trial[i] = min(max(ws.best[i], low[i]), high[i])
        still = energy_at(figure, springs, ws.trial, ws)
        if still < energy:
            for i in range(n):
                theta[i] = ws.trial[i]
            energy = still
        else:
            energy = energy_at(figure, springs, theta, ws)
        before = 1.0
    if not failed and energy > max(EXACT_BEYOND * first, ROUNDING):
        exact = 1.0
    damping = params[DAMPING]
    params[ITERATIONS] = 1.0
    while params[ITERATIONS] < params[MOST] and energy < math.inf and before > 0.0:
        params[ITERATIONS] += 1.0
        fresh(figure, order, springs, theta, low, high, ws, fixed, scale, coupled, exact)
        moved, length = False, 0.0
        for attempt in range(TRIES):
            stopped = boxed_step(order, theta, low, high, ws, fixed, scale, damping)
            if stopped < 0:
                if exact == 0.0:
                    break
                exact, failed = 0.0, True
                if attempt > 0:
                    forward(figure, theta, ws)
                fresh(figure, order, springs, theta, low, high, ws, fixed, scale, coupled, exact)
                continue
            length, slope = 0.0, 0.0
            for i in range(n):
                x = min(max(theta[i] + ws.step[i], low[i]), high[i])
                ws.trial[i] = x
                length = max(length, abs(x - theta[i]))
                slope += ws.gradient[i] * (x - theta[i])
            if length == 0.0:
                break
            after = energy_at(figure, springs, ws.trial, ws)
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
            damping = max(damping, 1e-5) * 8.0
            hold(order, theta, low, high, ws, fixed)
        damping = min(max(damping, LEAST_DAMPING), MOST_DAMPING)
        if not moved or length * min(length / before, 1.0) < SETTLED:  # what the next step would be
            break
        before = length
    params[EXACT] = 1.0 if energy > max(EXACT_BEYOND * first, ROUNDING) else 0.0
    if failed and energy < math.inf:
        energy = leave_saddle(
            figure, order, springs, theta, low, high, ws, fixed, scale, state[ORIGIN], energy, coupled
        )
    params[DAMPING] = min(damping, FIRST_DAMPING)
    params[ENERGY] = energy


@small
def tick_velocity(state, i, dt):
    """Return the velocity of dof i in this tick: towards its wanted value, from which it can stop there."""
    accel, course = planned_accel(state, i), state[COURSE, i]
    wanted = min(max(state[WANTED, i] + state[OFFSET, i], state[LOWER, i]), state[UPPER, i])
    gap = wanted + travel(course, accel, dt) - dt * course - state[POSE, i]
    return min(max(stopping_speed(gap, accel, dt), state[SLOWEST, i]), state[FASTEST, i])


@kernel
def compensate(order, state, ws, dt):
    """Write OFFSET: how the dofs that are free make up, in this tick, for those that a limit holds back.

    The wanted pose is where the figure could come to rest; a dof at a limit is not there yet, and the goals would be
    off by as much. With the Hessian of the wanted pose the free dofs answer to that displacement.
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
def advance(state, dt, ws, numeric):
    """Move the command towards the wanted pose, which the last tick had at ws.best (n,), and update the memory."""
    for i in range(state.shape[1]):
        limit = SLACK * state[ACCEL, i] * dt
        low, high, wanted = state[BOX_LOW, i], state[BOX_HIGH, i], state[WANTED, i]
        course = state[COURSE, i]
        inside = low < wanted < high and numeric
        seen = (wanted - ws.best[i]) / dt if inside and state[INSIDE, i] != 0.0 else 0.0
        state[INSIDE, i] = 1.0 if inside else 0.0
        course = min(max(seen, course - limit), course + limit)
        state[COURSE, i] = min(max(course, -state[SPEED, i]), state[SPEED, i])
        v = tick_velocity(state, i, dt) if numeric else min(max(0.0, state[SLOWEST, i]), state[FASTEST, i])
        q = min(max(state[POSE, i] + dt * v, state[LOWER, i]), state[UPPER, i])
        v = (q - state[POSE, i]) / dt  # of the rounded poses: nothing adds up
        state[ACCELERATION, i] = (v - state[VELOCITY, i]) / dt
        state[VELOCITY, i] = v
        state[POSE, i] = q
        state[ORIGIN, i] = min(max(state[ORIGIN, i], q - BACKLASH), q + BACKLASH)


@kernel
def name_limits(state, i, dt, gradient):
    """Write which limit holds dof i back: at a bound of its box, with the goals pushing outward."""
    state[ACTIVE, i] = 0.0
    wanted = state[WANTED, i]
    if wanted >= state[BOX_HIGH, i] and gradient < 0.0:
        side, bound = 1.0, state[FASTEST, i]
        at_end = wanted >= state[UPPER, i]
    elif wanted <= state[BOX_LOW, i] and gradient > 0.0:
        side, bound = -1.0, -state[SLOWEST, i]
        at_end = wanted <= state[LOWER, i]
    else:
        return
    v = side * state[VELOCITY, i]
    code = AT_JERK if state[JERK, i] < math.inf else AT_ACCELERATION
    if at_end or bound < v - 1e-6 * state[ACCEL, i] * dt:
        code = AT_POSITION
    elif bound >= state[SPEED, i]:
        code = AT_VELOCITY
    elif bound >= v + SLACK * state[ACCEL, i] * dt * (1.0 - 1e-9):
        code = AT_ACCELERATION
    elif not state[JERK, i] < math.inf:
        code = AT_POSITION
    state[ACTIVE, i] = side * code


@kernel
def come_round(figure, state):
    """Write rotation vectors longer than 1.5 pi the short way round, with everything that is remembered of them."""
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
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, state[PULL], state[HOME])
        for i in range(n):
            state[POSE, i] = state[WANTED, i]
        come_round(figure, state)
        for i in range(n):
            state[PULL, i], state[HOME, i] = pull[i], home[i]
            q = ws.best[i] = state[WANTED, i]
            state[BOX_LOW, i] = min(max(q - reach[i], state[LOWER, i]), state[UPPER, i])
            state[BOX_HIGH, i] = min(max(q + reach[i], state[LOWER, i]), state[UPPER, i])
        seek(figure, order, springs, state, ws, params)
        iterations[t] = params[ITERATIONS]
        energy_at(figure, springs, state[WANTED], ws)
        for k in range(g):
            errors[t, k] = ws.error[k]
        for i in range(n):
            q = poses[t, i] = state[WANTED, i]
            state[ORIGIN, i] = min(max(state[ORIGIN, i], q - BACKLASH), q + BACKLASH)
            held = abs(q - ws.best[i]) >= reach[i] * (1.0 - 1e-9)
            state[ACTIVE, i] = 1.0 if held and state[LOWER, i] < q < state[UPPER, i] else 0.0


@entry
def make_viable(state, dt):
    """Reduce velocities from which a dof cannot stop before its limit to those from which it can."""
    for i in range(state.shape[1]):
        accel = BRAKE * state[ACCEL, i]
        v = state[VELOCITY, i]
        gap = max(state[UPPER, i] - state[POSE, i] if v > 0.0 else state[POSE, i] - state[LOWER, i], 0.0)
        most = stopping_speed(gap, accel, dt)
        if accel < math.inf:
            most += accel * dt  # the first tick brakes already
        state[VELOCITY, i] = min(max(v, -most), most)


@entry
def control_tick(figure, order, springs, state, params, work, d, errors):
    """Advance a controller, state (ROWS, n) and params (PARAMS,), by one tick; write its errors (g,) [m, rad]."""
    n, b, g = figure.dof.shape[0], figure.body.shape[0], springs.kind.shape[0]
    ws = workspace(work, n, b, g, d)
    dt = params[DT]
    come_round(figure, state)
    for i in range(n):
        velocity_box(state, i, dt)
        wanted_box(state, i, dt)
        # No prediction: what the goals leave free would keep drifting on it for ever.
        ws.best[i] = state[WANTED, i]
        state[WANTED, i] = min(max(state[WANTED, i], state[BOX_LOW, i]), state[BOX_HIGH, i])
        state[PULL, i], state[HOME, i] = springs.pull[i], springs.home[i]
    held = Springs(springs.kind, springs.constants, springs.targets, state[PULL], state[HOME])
    seek(figure, order, held, state, ws, params)
    numeric = params[ENERGY] < math.inf
    for i in range(n):
        name_limits(state, i, dt, ws.gradient[i])
        if not numeric:
            state[WANTED, i] = state[POSE, i]
    if numeric:
        compensate(order, state, ws, dt)
    advance(state, dt, ws, numeric)
    energy_at(figure, springs, state[POSE], ws)
    for k in range(g):
        errors[k] = ws.error[k]
