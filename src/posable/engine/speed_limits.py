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
    OFFSET,  # [rad, m] added to the wanted value in this tick, so that strict goals are kept on the way
    LAST,  # [rad, m] the wanted value of the last tick
) = range(23)
ROWS = 23
FREE, AT_POSITION, AT_VELOCITY, AT_ACCELERATION, AT_JERK = range(5)  # values of ACTIVE

BRAKE = 1.0 - 1e-6  # fraction of the acceleration used for planning to brake: room for rounding
SLACK = 1.0 - 1e-9  # fraction of the acceleration and jerk that a tick uses
BISECTIONS = 40
NEAR = 1e-6  # part of the way of a tick at full speed: a dof this close to its wanted value is there
# Parts of the limits that a stop at a target is planned with under a jerk limit. The rest is for tracking the plan.
PLANNED_ACCEL, PLANNED_JERK, TRACKING_JERK = 0.7, 0.5, 0.7
AHEAD = 16.0  # ticks of full jerk that the box of the wanted pose leaves room for
LEAD = 0.02  # [s] of full acceleration by which the wanted pose is ahead of a dof that gathers speed
SLOW_LEAD = 0.05  # rate at which a wanted pose that is far ahead may still turn
PART_PER_TICK = 0.4  # of the way that is left, at most: the last ticks approach a target geometrically


@small
def travel(v, accel, dt):
    """Return T(v) [rad, m]: a tick at velocity v, then braking by accel each tick; odd and increasing."""
    if not accel < math.inf:
        return v * dt
    speed = abs(v)
    if speed < accel * dt:  # stops within the next tick: saves the division
        return v * dt
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
    if distance < unit:
        return gap / dt
    m = math.floor(0.5 * (math.sqrt(1.0 + 8.0 * distance / unit) - 1.0))
    speed = distance / (dt * (m + 1.0)) + 0.5 * accel * dt * m
    return speed if gap >= 0.0 else -speed


@small
def smooth_travel(v, accel, jerk, dt):
    """Return the distance [rad, m] in which a stop from velocity v is planned under a jerk limit; odd, increasing."""
    speed, accel, jerk = abs(v), PLANNED_ACCEL * accel, PLANNED_JERK * jerk
    if speed * jerk <= accel * accel:
        distance = speed * math.sqrt(speed / jerk)
    else:
        distance = 0.5 * speed * (speed / accel + accel / jerk)
    distance = max(distance, speed * dt / PART_PER_TICK)
    return distance if v >= 0.0 else -distance


@small
def smooth_stopping_speed(gap, accel, jerk, dt):
    """Return the velocity v with smooth_travel(v) = gap."""
    distance, accel, jerk = abs(gap), PLANNED_ACCEL * accel, PLANNED_JERK * jerk
    speed = (distance * distance * jerk) ** (1.0 / 3.0)
    if speed * jerk > accel * accel:
        ramp = 0.5 * accel * accel / jerk
        speed = math.sqrt(ramp * ramp + 2.0 * accel * distance) - ramp
    speed = min(speed, PART_PER_TICK * distance / dt)
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
        if travel(high, BRAKE * accel, dt) > above:
            high = min(high, stopping_speed(above, BRAKE * accel, dt))
        if travel(-low, BRAKE * accel, dt) > below:
            low = max(low, -stopping_speed(below, BRAKE * accel, dt))
    if low > high:  # rounding, or a narrow range: the middle violates both by the least
        low = high = 0.5 * (low + high)
    state[SLOWEST, i], state[FASTEST, i] = low, high


@small
def approach_speed(state, i, gap, dt):
    """Return the velocity of dof i, relative to its course, at which it can stop after a gap [rad, m]."""
    course, speed = state[COURSE, i], state[SPEED, i]
    if state[JERK, i] < math.inf:
        v = course + smooth_stopping_speed(gap, state[ACCEL, i], state[JERK, i], dt)
    else:
        accel = BRAKE * state[ACCEL, i]
        v = stopping_speed(gap + travel(course, accel, dt), accel, dt)
    return min(max(v, -speed), speed) - course


@small
def track_speed(state, i, now, ahead, dt):
    """Return the velocity of dof i in this tick, outside its box perhaps, that tracks a planned one.

    now, ahead: [rad/s, m/s] the planned velocity, relative to the course, and the one a tick later. Under a jerk limit
    the acceleration is the plan's, and as much more as can end when the plan is met.
    """
    course = state[COURSE, i]
    if not state[JERK, i] < math.inf:
        return course + now
    missing = now - (state[VELOCITY, i] - course)
    return state[VELOCITY, i] + ahead - now + dt * stopping_speed(missing, TRACKING_JERK * state[JERK, i], dt)


@small
def smooth_box(state, i, dt):
    """Return the least and the largest planned velocity of dof i, relative to its course, under a jerk limit.

    A plan at these velocities asks for all the jerk that there is in this tick, and in AHEAD more.
    """
    speed, course, a = state[SPEED, i], state[COURSE, i], state[ACCELERATION, i]
    accel, change, jerk = state[ACCEL, i], AHEAD * state[JERK, i] * dt, TRACKING_JERK * state[JERK, i]
    slowest = state[SLOWEST, i] + travel(max(min(a, 0.0) - change, -accel), jerk, dt)
    fastest = state[FASTEST, i] + travel(min(max(a, 0.0) + change, accel), jerk, dt)
    return max(slowest, -speed) - course, min(fastest, speed) - course


@kernel
def common_braking(state, dt):
    """Return the time [s] by which velocities are multiplied to give the travel of dofs that stop together."""
    ticks, braking = 0.0, dt
    for i in range(state.shape[1]):
        if state[JERK, i] < math.inf:
            slowest, fastest = smooth_box(state, i, dt)
            v = max(abs(slowest), abs(fastest))
            if v > 0.0:
                braking = max(braking, smooth_travel(v, state[ACCEL, i], state[JERK, i], dt) / v)
        elif state[ACCEL, i] < math.inf:
            ticks = max(ticks, math.floor(abs(state[VELOCITY, i]) / (BRAKE * state[ACCEL, i] * dt)))
    return max(0.5 * dt * (ticks + 2.0), braking)


@kernel
def rest_box(state, i, dt, braking):
    """Write the wanted values of dof i at which it can come to rest, [BOX_LOW, BOX_HIGH], on its course.

    braking: [s] `common_braking` where all dofs stop together, 0 where each of them stops as soon as it can.
    """
    accel, jerk = BRAKE * state[ACCEL, i], state[JERK, i]
    q, low, high = state[POSE, i], state[LOWER, i], state[UPPER, i]
    if jerk < math.inf:
        slowest, fastest = smooth_box(state, i, dt)
        q += dt * state[COURSE, i]
        down = braking * slowest if braking > 0.0 else smooth_travel(slowest, state[ACCEL, i], jerk, dt)
        up = braking * fastest if braking > 0.0 else smooth_travel(fastest, state[ACCEL, i], jerk, dt)
        state[BOX_LOW, i], state[BOX_HIGH, i] = min(max(q + down, low), high), min(max(q + up, low), high)
        return
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
def lead_box(state, i, dt):
    """Write the wanted values of dof i in this tick, [BOX_LOW, BOX_HIGH], for a dof without a jerk limit.

    The wanted value may turn at once, which the dof cannot. It is ahead of the dof by no more than the braking distance
    of the speed that the dof reaches in LEAD: a jump is approached in the least time and without overshoot, and other
    dofs do not run ahead of one that is slow to gather speed.
    """
    q, v, speed, accel = state[POSE, i], state[VELOCITY, i], state[SPEED, i], BRAKE * state[ACCEL, i]
    low, high = state[LOWER, i], state[UPPER, i]
    if speed < math.inf:
        tick, more = dt * speed, accel * max(LEAD, 2.0 * dt)
        room = min(tick, 0.5 * speed * speed / accel)  # for the tick in which the wanted value stops
        down, up = state[WANTED, i] - 2.0 * tick, state[WANTED, i] + 2.0 * tick
        first = q - room - travel(min(max(-v, 0.0) + more, speed), accel, dt)
        last = q + room + travel(min(max(v, 0.0) + more, speed), accel, dt)
        down, up = min(max(down, first), max(up, first)), max(min(up, last), min(down, last))
        low, high = min(max(down, low), high), max(min(up, high), low)
    state[BOX_LOW, i], state[BOX_HIGH, i] = low, high


@kernel
def lead_together(state, dt):
    """Write the same for dofs that move together: the wanted pose slows down as a whole where it is far ahead.

    Bounds for each dof would lead the wanted pose away from the strict goals.
    """
    ahead = 0.0
    for i in range(state.shape[1]):
        speed, accel = state[SPEED, i], BRAKE * state[ACCEL, i]
        if speed < math.inf:
            most = min(abs(state[VELOCITY, i]) + accel * max(LEAD, 2.0 * dt), speed)
            ahead = max(ahead, abs(state[WANTED, i] - state[POSE, i]) / (dt * speed + travel(most, accel, dt)))
    rate = 2.0 * min(max(2.0 * (1.0 - ahead), SLOW_LEAD), 1.0)
    for i in range(state.shape[1]):
        low, high, wanted, tick = state[LOWER, i], state[UPPER, i], state[WANTED, i], rate * dt * state[SPEED, i]
        state[BOX_LOW, i] = min(max(wanted - tick, low), high)
        state[BOX_HIGH, i] = max(min(wanted + tick, high), low)


@kernel
def mark_bound(state, i, gradient):
    """Write into ACTIVE at which side of its box the wanted value of dof i is held against the goals: 1, -1 or 0."""
    state[ACTIVE, i] = 0.0
    if state[WANTED, i] >= state[BOX_HIGH, i] and gradient < 0.0:
        state[ACTIVE, i] = 1.0
    elif state[WANTED, i] <= state[BOX_LOW, i] and gradient > 0.0:
        state[ACTIVE, i] = -1.0


@kernel
def label_active_limit(state, i, dt):
    """Write which limit held dof i back in this tick, whose new velocity and pose are known, after `mark_bound`."""
    side, wanted = state[ACTIVE, i], state[WANTED, i]
    gap = wanted - state[POSE, i]
    arrived = abs(gap) <= NEAR * dt * state[SPEED, i]
    if side == 0.0:
        side = 1.0 if gap > 0.0 else -1.0
        bound = state[FASTEST, i] if side > 0.0 else -state[SLOWEST, i]
        if arrived or side * state[VELOCITY, i] < bound - NEAR * state[SPEED, i]:
            return
    elif wanted >= state[UPPER, i] if side > 0.0 else wanted <= state[LOWER, i]:
        state[ACTIVE, i] = side * AT_POSITION
        return
    code = AT_JERK if state[JERK, i] < math.inf else AT_ACCELERATION
    if arrived or side * state[VELOCITY, i] >= (1.0 - NEAR) * state[SPEED, i]:
        code = AT_VELOCITY
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
