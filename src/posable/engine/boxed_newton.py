"""The damped Newton step of a control tick, inside a box, level by level where goals have strict priorities."""

from __future__ import annotations

from posable.engine.jit import kernel
from posable.engine.layout import DEPTH
from posable.engine.ltl import damped_copy, factorise, multiply, substitute

PIVOT = 1e-14  # lower bound of damping, relative to the mean diagonal: rounding could make smaller pivots negative
SATURATED_DAMPING = 1e-2  # used if dofs are at their bounds, so that the others do not overcompensate
LARGEST_STEP = 0.5  # [rad, m] of any dof in one Newton step
LEVEL_STEP = 0.06  # the same with strict priorities, whose null space is curved
SHORTEST = 0.02  # part of the box: a dof closer to its bound than this is at it
ROUNDS = 6  # bounds that one step may meet successively


@kernel
def newton_step(order, ws, levels, fixed, scale, damping, moved):
    """Write into ws.step the damped Newton step while fixed dofs move by moved (n,); return whether it is convex.

    Strict priorities take their steps one after the other: each level adds a step for its own goals that costs the
    stricter levels, weighted a million times higher, next to nothing. Each level is damped by its own stiffness.
    """
    n, step = fixed.shape[0], ws.step
    if levels.scale.shape[0] == 0:
        damped_copy(order, ws.hessian, fixed, damping, scale, ws.factor, ws.path)
        if factorise(order, ws.factor, fixed, 0.0) >= 0:
            return False
        any_moved = False
        for i in range(n):
            step[i] = 0.0
            any_moved = any_moved or moved[i] != 0.0
        if any_moved:
            multiply(order, ws.hessian, moved, step, ws.path)
        for i in range(n):
            step[i] = 0.0 if fixed[i] != 0.0 else -ws.gradient[i] - step[i]
        substitute(order, ws.factor, step, ws.path)
        for i in range(n):
            if fixed[i] != 0.0:
                step[i] = moved[i]
        return True
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
    """Write into ws.step the step of strict priorities, shortened to stay in the box; return as `boxed_step` does.

    Clipping dofs one by one would leave the poses that meet the stricter goals. A dof that is at its bound stays, and
    the others step without it.
    """
    stopped = 0
    for attempt in range(ROUNDS):
        if not newton_step(order, ws, levels, fixed, scale, damping, ws.spare):
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
def boxed_step(order, theta, low, high, ws, levels, fixed, scale, damping):
    """Write into ws.step the damped Newton step in the box; return 0, 1 if a bound stopped a dof, -1 if indefinite.

    Dofs that meet a bound stay there and the others adapt, with the larger damping SATURATED_DAMPING.
    """
    n = theta.shape[0]
    step, moved = ws.step, ws.spare
    for i in range(n):
        moved[i] = 0.0
    if levels.scale.shape[0] > 0:
        return scaled_step(order, theta, low, high, ws, levels, fixed, scale, damping)
    stopped = 0
    for _ in range(3):
        if not newton_step(order, ws, levels, fixed, scale, damping, moved):
            return -1
        shorten(step, LARGEST_STEP)
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
