"""Shared by all solver loops: the box, the projected Armijo test, stopping criteria, random starts, the trace."""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small
from posable.engine.joints import ROTVEC, SLIDE, SWING, last_dof, recentre
from posable.engine.layout import ABOVE, BODY, BODY_A, ENERGY, EVALUATIONS, ITERATIONS, KIND, PARENT, clear

# Status codes of a loop; `solvers.result` translates them.
RUNNING, CONVERGED, STATIONARY, EXHAUSTED = 0, 1, 2, 3

BEND = 0.5  # [rad, m]: how far a dof stuck at a limit is moved inside
MARGIN = 1e-10  # [rad, m]: a dof this close to a bound counts as at it
LIMIT_TOLERANCE = 1e-9  # [rad, m]: tolerance on joint limits

# Columns of a trace
(
    TRACE_ENERGY, TRACE_GRADIENT, TRACE_STEP, TRACE_DAMPING, TRACE_ACTIVE, TRACE_EVALUATIONS, TRACE_SLOPE, TRACE_BEFORE,
) = range(8)  # fmt: skip
TRACE_WIDTH = 8


@small
def copy_into(values, out):
    """Copy values (m,) into out (m,)."""
    for i in range(out.shape[0]):
        out[i] = values[i]


@kernel
def project(theta, lower, upper):
    """Clip a pose (n,) to the box, in place (Engell-Nørregård & Erleben 2011, eq. 40)."""
    for i in range(theta.shape[0]):
        if theta[i] < lower[i]:
            theta[i] = lower[i]
        elif theta[i] > upper[i]:
            theta[i] = upper[i]


@kernel
def step_into(theta, part, step, lower, upper, out):
    """Write theta + part * step (n,), clipped to the box, into out (n,), which may be theta."""
    for i in range(theta.shape[0]):
        out[i] = min(max(theta[i] + part * step[i], lower[i]), upper[i])


@kernel
def armijo(before, after, slope, alpha):
    """Return whether the energy decreased enough (Engell-Nørregård & Erleben 2011, eq. 39).

    slope: gradient . (projected trial - pose).
    """
    return after <= before + alpha * slope


@kernel
def active_bounds(theta, gradient, lower, upper, fixed):
    """Mark in fixed (n,) the bounds that the gradient pushes against; return the largest free gradient entry."""
    largest = 0.0
    for i in range(theta.shape[0]):
        held = (
            lower[i] >= upper[i]
            or (theta[i] <= lower[i] + MARGIN and gradient[i] > 0.0)
            or (theta[i] >= upper[i] - MARGIN and gradient[i] < 0.0)
        )
        fixed[i] = 1.0 if held else 0.0
        if not held and abs(gradient[i]) > largest:
            largest = abs(gradient[i])
    return largest


@kernel
def stop_at_bounds(theta, lower, upper, step, fixed, moved):
    """Fix the free dofs that a step (n,) takes past a bound, with moved (n,) the way up to it; return whether any."""
    found = False
    for i in range(theta.shape[0]):
        if fixed[i] == 0.0:
            target = theta[i] + step[i]
            if target < lower[i] or target > upper[i]:
                moved[i] = (lower[i] if target < lower[i] else upper[i]) - theta[i]
                fixed[i] = 1.0
                found = True
    return found


@kernel
def all_reached(errors, tolerances):
    """Return whether every spring with a finite tolerance is within it."""
    for k in range(errors.shape[0]):
        if not errors[k] <= tolerances[k]:
            return False
    return True


@kernel
def recentre_all(figure, theta, lower, upper):
    """Replace every rotation vector of a pose by its shorter equivalent, where the limits allow it.

    Returns whether any changed. The frames stay the same, but twists and posture do not: place the bodies again.
    """
    moved = False
    for i in range(theta.shape[0]):
        kind = figure.dof[i, KIND]
        if (kind == ROTVEC or kind == SWING) and recentre(kind, i, theta, lower, upper):
            moved = True
    return moved


@kernel
def random_number(state):
    """Return the next number in [0, 1) of the generator whose state (a 32-bit integer as a float) is state[0]."""
    a = (int(state[0]) + 0x6D2B79F5) & 0xFFFFFFFF
    state[0] = float(a)
    t = ((a ^ (a >> 15)) * (a | 1)) & 0xFFFFFFFF
    t = (t ^ (t + (((t ^ (t >> 7)) * (t | 61)) & 0xFFFFFFFF))) & 0xFFFFFFFF
    return float((t ^ (t >> 14)) & 0xFFFFFFFF) / 4294967296.0


@kernel
def random_dof(figure, i, lower, upper, start, state):
    """Return a random value of dof i inside its limits.

    A moving root keeps its start: the goals move it faster than chance does. An angle without limits is drawn from a
    full turn about its start; a slide without limits keeps its start.
    """
    u = random_number(state)
    low, high = lower[i], upper[i]
    slides = figure.dof[i, KIND] == SLIDE
    rooted = slides and figure.body[figure.dof[i, BODY], PARENT] < 0 and lower.shape[0] > 6
    if rooted or (slides and not (high - low) < math.inf):
        return min(max(start[i], low), high)
    if (high - low) < math.inf:
        return low + u * (high - low)
    return min(max(start[i] + (2.0 * u - 1.0) * math.pi, low), high)


@kernel
def random_pose(figure, lower, upper, start, state, theta):
    """Fill theta (n,) with a random pose inside the box."""
    for i in range(theta.shape[0]):
        theta[i] = random_dof(figure, i, lower, upper, start, state)


@kernel
def mark_failed_chains(figure, springs, tolerances, ws, mark):
    """Mark with 1 in mark (n,) the dofs whose goals are all badly missed, or all dofs if there are none.

    If one limb is stuck in the wrong bend, the others need not start again. The goals of a body are badly missed if
    the error of one of their springs (ws.error), relative to its tolerance, is at least a quarter of the worst one.
    """
    worst = 0.0
    for k in range(springs.kind.shape[0]):
        if tolerances[k] < math.inf:
            worst = max(worst, ws.error[k] / max(tolerances[k], 1e-12))
    clear(mark)
    for stage in range(3):  # 2: the last dof of a failed body; -1: dofs above a good one; 1: dofs above a failed one
        for k in range(springs.kind.shape[0]):
            miss = ws.error[k] / max(tolerances[k], 1e-12)
            failed = miss > 1.0 and miss >= 0.25 * worst
            i = last_dof(figure, springs.kind[k, BODY_A])  # -1 for the center of mass: it selects no dofs
            if i < 0 or not tolerances[k] < math.inf or failed == (stage == 1):
                continue
            if stage == 0:
                mark[i] = 2.0
            elif stage == 2 or mark[i] != 2.0:
                while i >= 0:
                    mark[i] = -1.0 if stage == 1 or mark[i] < 0.0 else 1.0
                    i = figure.dof[i, ABOVE]
    count = 0.0
    for i in range(mark.shape[0]):
        count += max(mark[i], 0.0)
    for i in range(mark.shape[0]):
        mark[i] = 1.0 if count == 0.0 or mark[i] > 0.0 else 0.0


@kernel
def redraw(figure, lower, upper, start, state, mark, theta):
    """Replace the marked dofs of a pose (n,) by random values inside their limits."""
    for i in range(theta.shape[0]):
        if mark[i] != 0.0:
            theta[i] = random_dof(figure, i, lower, upper, start, state)


@kernel
def perturb_active_limits(theta, lower, upper, gradient, fixed, perturbation):
    """Move every dof that is held at its limit well inside; return whether there was one.

    A straight elbow at its limit is stuck: its gradient points out of the box, although the same elbow bent by half a
    radian would reach. The first call bends that far, the second to the middle of the range. fixed (n,) is scratch.
    """
    active_bounds(theta, gradient, lower, upper, fixed)
    moved = False
    for i in range(theta.shape[0]):
        if fixed[i] != 0.0 and lower[i] < upper[i]:
            span = upper[i] - lower[i]
            size = min(BEND, 0.5 * span) if perturbation == 0.0 or not span < math.inf else 0.5 * span
            theta[i] += size if theta[i] - lower[i] < upper[i] - theta[i] else -size
            moved = True
    return moved


@kernel
def leave_bounds(theta, lower, upper, out):
    """Write theta (n,) into out with every dof that is at a bound moved inside; return whether there was one.

    A straight knee at its limit is singular and wastes the first steps. If the target is far away, starting bent is
    quicker.
    """
    moved = False
    for i in range(theta.shape[0]):
        out[i] = theta[i]
        if lower[i] < upper[i]:
            size = min(BEND, 0.5 * (upper[i] - lower[i]))
            if theta[i] <= lower[i] + MARGIN:
                out[i] += size
                moved = True
            elif theta[i] >= upper[i] - MARGIN:
                out[i] -= size
                moved = True
    return moved


@kernel
def write_trace(trace, state, gradient, step, damping, fixed, slope, before):
    """Write the row of this iteration into a trace (rows, TRACE_WIDTH), where it has that row."""
    row = int(state[ITERATIONS]) - 1
    if row < trace.shape[0]:
        held = 0.0
        for i in range(fixed.shape[0]):
            held += 1.0 if fixed[i] != 0.0 else 0.0
        trace[row, TRACE_ENERGY] = state[ENERGY]
        trace[row, TRACE_GRADIENT] = gradient
        trace[row, TRACE_STEP] = step
        trace[row, TRACE_DAMPING] = damping
        trace[row, TRACE_ACTIVE] = held
        trace[row, TRACE_EVALUATIONS] = state[EVALUATIONS]
        trace[row, TRACE_SLOPE] = slope
        trace[row, TRACE_BEFORE] = before
