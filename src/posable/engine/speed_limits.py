"""The velocities that the limits of a joint allow in the next tick, and where it can come to rest.

All limits together are one box for the next velocity, from which the joint can still stop before its limit. Let T(v)
be the distance that a joint travels when it moves at v for one tick and then brakes as hard as it can. T is odd and
increasing and has a closed inverse, so both the joint limit ("stop before it") and the target ("stop at it") are
intervals.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel, small

# Rows of a controller's state (ROWS, n). The first three are the result of a tick.
(
    POSE,  # [rad, m] the command of the last tick
    VELOCITY,  # [rad/s, m/s] of the last tick
    ACTIVE,  # which limit holds the dof back: 0, or a code below, negative at its lower side
    ACCELERATION,  # [rad/s^2, m/s^2] of the last tick
    WANTED,  # [rad, m] the pose that minimised the energy in the last tick
    COURSE,  # [rad/s, m/s] how fast that pose moves
    ORIGIN,  # [rad, m] where each dof came from, at most BACKLASH away: decides how a straight arm bends
    LOWER,  # [rad, m] joint limits
    UPPER,
    SPEED,  # [rad/s, m/s] velocity limit
    ACCEL,  # [rad/s^2, m/s^2] acceleration limit
    JERK,  # [rad/s^3, m/s^3] jerk limit
    SLOWEST,  # [rad/s, m/s] the box of this tick's velocity
    FASTEST,
    BOX_LOW,  # [rad, m] the box of the wanted pose
    BOX_HIGH,
    FIXED,  # scratch
    SCALE,  # scratch
    PULL,  # stiffness and rest values of the springs on the dofs in this tick: postures and speed damping
    HOME,
    INSIDE,  # 1 where the wanted value of the last tick was inside its box, not held by it
    OFFSET,  # [rad, m] added to the wanted value in this tick to compensate for lagging dofs
    LAST,  # [rad, m] the wanted value of the last tick
) = range(23)
ROWS = 23
FREE, AT_POSITION, AT_VELOCITY, AT_ACCELERATION, AT_JERK = range(5)  # values of ACTIVE

BRAKE = 1.0 - 1e-6  # fraction of the acceleration used for planning to brake: room for rounding
SLACK = 1.0 - 1e-9  # fraction of the acceleration and jerk that a tick uses
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
    """Return whether velocity v after `last` is safe: it can settle below `speed` and stop within gap."""
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
    """Return the largest velocity in [low, high] that `jerk_allows`, or low if there is none."""
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
    if low > high:  # rounding, or a narrow range: the middle violates both by the least
        low = high = 0.5 * (low + high)
    state[SLOWEST, i], state[FASTEST, i] = low, high


@small
def planned_accel(state, i):
    """Return the acceleration for planning a stop at a target: half of it if a jerk limit delays braking."""
    return BRAKE * state[ACCEL, i] if not state[JERK, i] < math.inf else 0.5 * state[ACCEL, i]


@kernel
def common_braking(state, dt):
    """Return the time [s] by which velocities are multiplied to give the travel of dofs that stop together."""
    ticks = 0.0
    for i in range(state.shape[1]):
        accel = planned_accel(state, i)
        if accel < math.inf:
            ticks = max(ticks, math.floor(abs(state[VELOCITY, i]) / (accel * dt)))
    return 0.5 * dt * (ticks + 2.0)


@kernel
def wanted_box(state, i, dt, braking):
    """Write the wanted values of dof i at which it can come to rest, [BOX_LOW, BOX_HIGH], on its course.

    braking: [s] `common_braking` where all dofs stop together, 0 where each of them stops as soon as it can.
    """
    accel = planned_accel(state, i)
    q, low, high = state[POSE, i], state[LOWER, i], state[UPPER, i]
    if braking > 0.0:
        v, slowest, fastest = abs(state[VELOCITY, i]), state[SLOWEST, i], state[FASTEST, i]
        ahead = (braking - dt) * state[COURSE, i]
        less = 0.5 * dt  # that a dof which begins to brake in this tick brakes less
        state[BOX_LOW, i] = min(max(q + (braking - (less if abs(slowest) < v else 0.0)) * slowest - ahead, low), high)
        state[BOX_HIGH, i] = min(max(q + (braking - (less if abs(fastest) < v else 0.0)) * fastest - ahead, low), high)
        return
    ahead = travel(state[COURSE, i], accel, dt) - dt * state[COURSE, i]
    state[BOX_LOW, i] = min(max(q + travel(state[SLOWEST, i], accel, dt) - ahead, low), high)
    state[BOX_HIGH, i] = min(max(q + travel(state[FASTEST, i], accel, dt) - ahead, low), high)


@kernel
def label_active_limit(state, i, dt, gradient):
    """Write which limit holds dof i back: it is at a bound of its box and the goals push outward."""
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


@entry
def make_viable(state, dt):
    """Reduce velocities from which a dof cannot stop before its limit."""
    for i in range(state.shape[1]):
        accel = BRAKE * state[ACCEL, i]
        v = state[VELOCITY, i]
        gap = max(state[UPPER, i] - state[POSE, i] if v > 0.0 else state[POSE, i] - state[LOWER, i], 0.0)
        most = stopping_speed(gap, accel, dt)
        if accel < math.inf:
            most += accel * dt  # the first tick brakes already
        state[VELOCITY, i] = min(max(v, -most), most)
