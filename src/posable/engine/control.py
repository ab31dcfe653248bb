"""One tick of a controller: the next pose inside position, velocity, acceleration and jerk limits.

A tick has two stages. The first minimises the energy of the goals in a box around the wanted pose of the last tick,
with the projected Newton step of the solver: the wanted pose keeps the position and velocity limits, and may turn at
once. In the second, each dof follows its wanted value as fast as its acceleration and jerk limits allow. It plans to
meet it at the velocity of the wanted pose, `COURSE`: a target that jumps is reached without overshoot, one that moves
is followed without lag.

The second stage acts on the first only by a bound on how far the wanted pose may be ahead (`lead_box`). Were each
tick to choose a wanted pose from what the dofs can do in it, dofs that compensate for others at their limits would
swing to and fro.

With strict priorities, bounds of single dofs would lead the wanted pose, and the figure behind it, away from the strict
goals: the wanted pose slows down as a whole (`lead_together`), all dofs approach it at one pace, and their velocities
change together.

With jerk limits, the wanted pose is instead one at which the figure could come to rest (`rest_box`): it never runs
ahead of what the dofs can do.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from posable.engine.assemble import (
    clear_hessian,
    derivatives,
    energy_at,
    is_rotation,
    springs_of,
    target_gap,
    write_target,
)
from posable.engine.bounds import copy_into
from posable.engine.boxed_newton import COUPLED, DT, ENERGY, ITERATIONS, MOVING, SETTLED, minimise_in_box
from posable.engine.jit import as_python, entry, kernel, small
from posable.engine.joints import ROTVEC, SWING, forward, parameters_of
from posable.engine.layout import (
    CONSTANTS,
    DEPTH,
    FIGURE_SHAPES,
    INTEGERS,
    KIND,
    SPRING_SHAPES,
    Figure,
    Levels,
    Order,
    Shapes,
    Springs,
    carver,
    clear,
    shapes_of,
    springs_of_level,
    workspace,
)
from posable.engine.ltl import damped_copy, factorise, multiply, substitute
from posable.engine.newton import damping_scale
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
    JERK,
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
    approach_speed,
    common_braking,
    label_active_limit,
    lead_box,
    lead_together,
    mark_bound,
    rest_box,
    track_speed,
    velocity_box,
)

FOLLOWED, SOME_HELD = -1, -2  # codes of a step
STILL_AFTER = 0.2  # [s] after which a target at rest counts as stationary
AT_REST = 1e-9  # [m, 1] a target that moves less in one tick is at rest
FARTHEST = 1e6  # [m] targets further away count as infinite
BACKLASH = 0.3  # [rad, m]
MOST_AHEAD = 0.1  # [rad, m] acceleration * dt^2 beyond which a course predicts nothing
OFFSET_DAMPING = 1e-4
MOST_OFFSET = 0.2  # [rad, m]
RESTORE = 0.02  # [s] in which an error of the strictest goals is removed on the way
SOFT = 0.03  # [s] in which a dof meets its wanted value, and in which its course counts, while some dof lags far behind
FAR = 0.05  # of the braking distance from full speed: a dof further than this lags far behind


# --- A controller in two flat arrays ---
#
# Numba inspects each array argument. Figure, springs and state of a controller are about thirty arrays, and inspecting
# them takes as long as the step itself. `carve` returns views of the flat arrays inside kernels; `views` is the same
# function in plain Python, for the caller, who writes targets into them.

ASKED = 17  # size of a new target: at most a transform by rows, then one of the codes below
QUIET, NEW, HELD = 0.0, 1.0, 2.0  # no new target; a new target; one that is not finite, so that the last one is kept

SIZES = (
    "n", "b", "g", "goals", "d", "solids", "corners", "balls", "fields", "touches", "pairs", "rows", "params",
    "levels", "work",
)  # fmt: skip  # the header of the integers
DEPTHS, LEVELS, WORK = SIZES.index("d"), SIZES.index("levels"), SIZES.index("work")
BOTH = FIGURE_SHAPES | SPRING_SHAPES
INTS: Shapes = {"goals": ("goals", 2), "order": ("n", 3), "tree": ("n", 3)}
INTS |= {name: shape for name, shape in BOTH.items() if name in INTEGERS}
FLOATS: Shapes = {"errors": ("g",), "state": ("rows", "n"), "params": ("params",), "asked": ("goals", ASKED)}
FLOATS |= {name: shape for name, shape in BOTH.items() if name not in INTEGERS}
_HEADER = {name: f"ints[{k}]" for k, name in enumerate(SIZES)}
carve_ints = carver(namedtuple("Ints", INTS), INTS, "ints", **_HEADER)
carve_floats = carver(namedtuple("Floats", FLOATS), FLOATS, "ints", **_HEADER)
carve_levels = carver(Levels, shapes_of(Levels), "levels, n, g, d", rows="(n if levels > 0 else 0)")


class Packed(NamedTuple):
    """Views of the arrays of a packed controller."""

    errors: np.ndarray  # (g,) float64 [m, rad]: of the springs at the new pose
    state: np.ndarray  # (ROWS, n) float64: see `posable.engine.speed_limits`
    params: np.ndarray  # (PARAMS,) float64: see `posable.engine.boxed_newton`
    asked: np.ndarray  # (goals, ASKED) float64 [m, 1]: new targets
    goals: np.ndarray  # (goals, 2) int64: the first spring of each goal, and how many numbers its target has
    figure: Figure
    order: Order
    tree: Order  # that of the figure alone, where no spring couples its branches
    springs: Springs
    levels: Levels
    work: np.ndarray  # float64: scratch memory, see `workspace`


def pack(
    figure: Figure, order: Order, tree: Order, springs: Springs, goals, depth: int, rows: int, params: int,
    levels: int, work: int,
):  # fmt: skip
    """Return integers and floats: the figure, its springs, and room for a state, params and scratch memory.

    Args:
        figure: The figure.
        order: Its elimination order.
        tree: Its elimination order where no spring couples its branches.
        springs: The goals' springs.
        goals: (goals, 2) int64, see `Packed`.
        depth: Of the elimination tree.
        rows: Of the state (rows, n).
        params: How many.
        levels: Of strict priorities; 0 where there is one alone.
        work: How many numbers of scratch memory.
    """
    n, g = len(figure.dof), len(springs.kind)
    sizes = (
        n, len(figure.body), g, len(goals), depth, len(figure.solid), len(figure.corner), len(figure.ball),
        len(figure.field), len(figure.touch), len(figure.pair), rows, params, levels, work,
    )  # fmt: skip
    arrays: dict[str, Any] = {"goals": goals, "order": order.rows, "tree": tree.rows}
    arrays |= figure._asdict() | springs._asdict()
    room = g + rows * n + params + len(goals) * ASKED
    more = levels * (CONSTANTS * g + 3 * n + n * depth + 3) + (n * depth if levels else 0) + work
    ints = [sizes, *(arrays[name] for name in INTS)]
    floats = [np.zeros(room), *(arrays[name] for name in FLOATS if name in arrays), np.zeros(more)]
    return (
        np.concatenate([np.asarray(part, dtype=np.int64).ravel() for part in ints]),
        np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in floats]),
    )


@kernel
def carve(ints, floats):
    """Return views of the arrays that `pack` made."""
    a, _ = carve_ints(ints, len(SIZES), ints)
    f, i = carve_floats(floats, 0, ints)
    n, g = a.dof.shape[0], a.kind.shape[0]
    levels, _ = carve_levels(floats, i, ints[LEVELS], n, g, ints[DEPTHS])
    work = floats[floats.shape[0] - ints[WORK] :]
    figure = Figure(a.body, f.rest, a.dof, f.sign, f.mass, f.solid, f.corner, f.ball, f.field, a.touch, a.pair)
    springs = Springs(a.kind, f.constants, f.targets, f.pull, f.home)
    order, tree = Order(a.order, a.tree), Order(a.tree, a.tree)
    return Packed(f.errors, f.state, f.params, f.asked, a.goals, figure, order, tree, springs, levels, work)


views = as_python(carve)


# --- The tick ---


@small
def tick_velocity(state, i, closing, dt):
    """Return the velocity of dof i in this tick: towards its wanted value, such that it can meet it on its course.

    closing: [s] in which the last of the way is covered, at least one tick.
    """
    gap = state[WANTED, i] - dt * state[COURSE, i] - state[POSE, i]
    now = ahead = closing_speed(state, i, gap, closing, dt)
    if state[JERK, i] < math.inf and state[ACTIVE, i] == 0.0:  # otherwise the wanted value recedes as the dof moves
        ahead = closing_speed(state, i, gap - dt * (state[VELOCITY, i] - state[COURSE, i]), closing, dt)
    return track_speed(state, i, now, ahead, dt)


@small
def closing_speed(state, i, gap, closing, dt):
    """Return the velocity of dof i, relative to its course, that closes a gap [rad, m] in `closing` [s] or more."""
    return min(max(approach_speed(state, i, gap, dt), -abs(gap) / closing), abs(gap) / closing)


@small
def paced_speed(state, i, pace, dt):
    """Return the velocity of dof i towards its wanted value, which leads, at a pace [1/s]."""
    course = state[COURSE, i]
    return course + pace * (state[WANTED, i] - state[POSE, i] - dt * course) + state[OFFSET, i]


@kernel
def strict_goal_offset(figure, order, springs, levels, state, ws, coupled, leads, pace, dt):
    """Write OFFSET: the correction that keeps the strictest goals on the way from the present pose to the wanted one.

    The poses that keep them form a curved set, and moving straight towards a pose ahead would leave it. If the wanted
    pose `leads`, OFFSET is added to the velocities at that pace [1/s], otherwise to the wanted pose.
    """
    n = state.shape[1]
    strict = springs_of_level(springs, levels, 0)
    if coupled:
        clear_hessian(ws)
    forward(figure, state[POSE], ws)
    derivatives(figure, order, strict, state[POSE], ws, 0.0)
    damping_scale(order, ws.hessian, state[SCALE])
    for i in range(n):
        inside = leads and state[LOWER, i] < state[WANTED, i] < state[UPPER, i]
        at_bound = state[ACTIVE, i] != 0.0 and not inside
        state[FIXED, i] = 1.0 if at_bound or ws.hessian[i, order.rows[i, DEPTH]] == 0.0 else 0.0
        state[OFFSET, i] = 0.0
        ws.spare[i] = paced_speed(state, i, pace, dt) if leads else state[WANTED, i] - state[POSE, i]
    restore = 1.0 / max(RESTORE, dt) if leads else 1.0
    multiply(order, ws.hessian, ws.spare, ws.step, ws.path)
    damped_copy(order, ws.hessian, state[FIXED], OFFSET_DAMPING, state[SCALE], ws.factor, ws.path)
    if factorise(order, ws.factor, state[FIXED], 0.0) >= 0:
        return
    for i in range(n):
        ws.step[i] = 0.0 if state[FIXED, i] != 0.0 else -restore * ws.gradient[i] - ws.step[i]
    substitute(order, ws.factor, ws.step, ws.path)
    for i in range(n):
        if state[FIXED, i] == 0.0:
            most = state[SPEED, i] if leads else MOST_OFFSET
            state[OFFSET, i] = min(max(ws.step[i], -most), most)


@kernel
def rest_course(state, dt, numeric, together, moving):
    """Update the velocity of the wanted pose, and which dofs are in their box.

    together: if one dof is held by its box, none has a course. The same holds under jerk limits, where the others
    could not follow its detours, and the course counts only as far as the targets are moving (0 to 1): otherwise the
    dofs would swing to and fro.
    """
    free = True
    for i in range(state.shape[1]):
        free = free and state[BOX_LOW, i] < state[WANTED, i] < state[BOX_HIGH, i]
    for i in range(state.shape[1]):
        limit = SLACK * state[ACCEL, i] * dt
        wanted, course = state[WANTED, i], state[COURSE, i]
        alone = not together and not state[JERK, i] < math.inf
        inside = numeric and (state[BOX_LOW, i] < wanted < state[BOX_HIGH, i] if alone else free)
        seen = (wanted - state[LAST, i]) / dt if inside and state[INSIDE, i] != 0.0 else 0.0
        if state[JERK, i] < math.inf:
            seen *= moving
        state[INSIDE, i] = 1.0 if inside else 0.0
        course = min(max(seen, course - limit), course + limit)
        state[COURSE, i] = min(max(course, -state[SPEED, i]), state[SPEED, i])


@kernel
def jerk_limited(state):
    """Return whether some dof has a jerk limit."""
    for i in range(state.shape[1]):
        if state[JERK, i] < math.inf:
            return True
    return False


@kernel
def lag_of(state, dt):
    """Return how far the dof that lags most is behind its wanted value: 1 from FAR on."""
    lag = 0.0
    for i in range(state.shape[1]):
        speed = state[SPEED, i]
        if 0.0 < speed < math.inf:
            way = speed * (0.5 * speed / state[ACCEL, i] + dt)
            lag = max(lag, abs(state[WANTED, i] - state[POSE, i]) / way)
    return min(lag / FAR, 1.0)


@kernel
def lead_course(state, dt, lag, numeric):
    """Update the velocity of the wanted pose, smoothed while some dof lags.

    The wanted values of the others then change their speed whenever that dof meets or leaves a limit, which they need
    not follow within a tick.
    """
    for i in range(state.shape[1]):
        seen = (state[WANTED, i] - state[LAST, i]) / dt if numeric else 0.0
        course = state[COURSE, i]
        course = max(min(course, seen), 0.0) if course > 0.0 else min(max(course, seen), 0.0)
        course += (seen - course) * dt / (dt + SOFT * lag)
        state[COURSE, i] = min(max(course, -state[SPEED, i]), state[SPEED, i])


@kernel
def common_pace(state, dt, closing, ahead):
    """Return the rate [1/s] at which all dofs can approach their wanted values so that each can stop there.

    closing: see `tick_velocity`. ahead: [s] from now, at the present velocity.
    """
    pace = 1.0 / closing
    for i in range(state.shape[1]):
        way = state[WANTED, i] - state[POSE, i] - dt * state[COURSE, i]
        way -= ahead * (state[VELOCITY, i] - state[COURSE, i])
        if abs(way) > SETTLED:
            pace = min(pace, max(approach_speed(state, i, way, dt) / way, 0.0))
    return pace


@kernel
def turn_together(state, pace, dt):
    """Write into SCALE the next velocity of each dof (n,), towards a wanted pose that leads, at a pace [1/s].

    Velocities that keep the strict goals still do if all of them are scaled down to the velocity limits, and if all
    change by the same part of what is asked for. A dof that has to stop before its limit stops alone.
    """
    part, turn = 1.0, 1.0
    for i in range(state.shape[1]):
        v = abs(paced_speed(state, i, pace, dt))
        if part * v > state[SPEED, i]:
            part = state[SPEED, i] / v
    for i in range(state.shape[1]):
        v, change = part * paced_speed(state, i, pace, dt), SLACK * state[ACCEL, i] * dt
        if state[FASTEST, i] < state[VELOCITY, i] + SLACK * change:
            v = min(v, state[FASTEST, i])
        if state[SLOWEST, i] > state[VELOCITY, i] - SLACK * change:
            v = max(v, state[SLOWEST, i])
        state[SCALE, i] = v
        v = abs(v - state[VELOCITY, i])
        if turn * v > change:
            turn = change / v
    for i in range(state.shape[1]):
        state[SCALE, i] = state[VELOCITY, i] + turn * (state[SCALE, i] - state[VELOCITY, i])


@kernel
def advance(state, dt, closing, numeric, together, leads):
    """Move the command towards the wanted pose and update the state.

    together: all dofs approach their wanted values at one pace, so that the figure stays near the poses that keep
    strict goals; otherwise each dof is as quick as it can be. leads: see `control_tick`.
    """
    pace = common_pace(state, dt, closing, 0.0) if numeric and together else 0.0
    next_pace = common_pace(state, dt, closing, dt) if numeric and together else 0.0
    free = True  # otherwise the wanted pose recedes as the figure moves, and the plan does not change
    for i in range(state.shape[1]):
        free = free and state[ACTIVE, i] == 0.0
    if numeric and together and leads:
        turn_together(state, pace, dt)
    for i in range(state.shape[1]):
        v = 0.0
        if numeric and together and leads:
            v = state[SCALE, i]
        elif numeric and together:
            way = state[WANTED, i] + state[OFFSET, i] - state[POSE, i] - dt * state[COURSE, i]
            left = way - dt * (state[VELOCITY, i] - state[COURSE, i])
            v = track_speed(state, i, pace * way, next_pace * left if free else pace * way, dt)
        elif numeric:
            v = tick_velocity(state, i, closing, dt)
        v = min(max(v, state[SLOWEST, i]), state[FASTEST, i])
        q = min(max(state[POSE, i] + dt * v, state[LOWER, i]), state[UPPER, i])
        v = (q - state[POSE, i]) / dt  # from the rounded poses, so that rounding does not accumulate
        state[ACCELERATION, i] = (v - state[VELOCITY, i]) / dt
        state[VELOCITY, i] = v
        state[POSE, i] = q
        wanted = state[WANTED, i]
        state[ORIGIN, i] = min(max(state[ORIGIN, i], wanted - BACKLASH), wanted + BACKLASH)


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
    n, g = figure.dof.shape[0], kind.shape[0]
    ws, _ = workspace(figure, g, work, d)
    levels, _ = carve_levels(work, 0, 0, n, g, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, state[PULL], state[HOME])
        bare = springs_of(kind, constants, targets, t, pull, home)
        copy_into(state[WANTED], state[POSE])
        shorten_rotation_vectors(figure, state)
        for i in range(n):
            state[PULL, i], state[HOME, i] = pull[i], home[i]
            q = ws.best[i] = state[WANTED, i]
            state[BOX_LOW, i] = min(max(q - reach[i], state[LOWER, i]), state[UPPER, i])
            state[BOX_HIGH, i] = min(max(q + reach[i], state[LOWER, i]), state[UPPER, i])
        minimise_in_box(figure, order, order, springs, bare, levels, state, ws, params)
        iterations[t] = params[ITERATIONS]
        energy_at(figure, springs, state[WANTED], ws)
        copy_into(ws.error, errors[t])
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
    n = figure.dof.shape[0]
    ws, _ = workspace(figure, springs.kind.shape[0], work, d)
    dt = params[DT]
    shorten_rotation_vectors(figure, state)
    together = levels.scale.shape[0] > 0
    leads = not jerk_limited(state)  # the wanted pose runs ahead and may turn at once
    lag = lag_of(state, dt) if leads else 0.0
    braking = common_braking(state, dt) if together and not leads else 0.0
    if leads and together:
        lead_together(state, dt)
    for i in range(n):
        velocity_box(state, i, dt)
        if leads and not together:
            lead_box(state, i, dt)
        elif not leads:
            rest_box(state, i, dt, braking)
        state[LAST, i] = state[WANTED, i]
        state[WANTED, i] = min(max(state[WANTED, i], state[BOX_LOW, i]), state[BOX_HIGH, i])
        state[PULL, i], state[HOME, i] = springs.pull[i], springs.home[i]
    predict(springs, state, ws, dt, together)
    held = Springs(springs.kind, springs.constants, springs.targets, state[PULL], state[HOME])
    clear(levels.calm)
    minimise_in_box(figure, order, tree, held, springs, levels, state, ws, params)
    numeric = params[ENERGY] < math.inf
    for i in range(n):
        mark_bound(state, i, ws.gradient[i])
        if not numeric:
            state[WANTED, i] = state[POSE, i]
    if leads:
        lead_course(state, dt, lag, numeric)
    else:
        rest_course(state, dt, numeric, together, params[MOVING] ** 2)
    closing = dt + SOFT * lag * params[MOVING]
    if numeric and together:
        pace = common_pace(state, dt, closing, 0.0)
        strict_goal_offset(figure, order, springs, levels, state, ws, params[COUPLED] != 0.0, leads, pace, dt)
    advance(state, dt, closing, numeric, together, leads)
    for i in range(n):
        label_active_limit(state, i, dt)
    energy_at(figure, springs, state[POSE], ws)
    copy_into(ws.error, errors)


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
