"""What every solver loop shares: the box, seed 000's projected Armijo test, stop rules, random starts, the trace."""

from __future__ import annotations

import math

from .compiler import kernel
from .fields import BODY, KIND, PARENT
from .joints import ROTVEC, SLIDE, SWING, recentre

# What a loop says of itself; the front door decides what to call it.
RUNNING, CONVERGED, STATIONARY, EXHAUSTED = 0, 1, 2, 3

# Columns of a trace
(
    TRACE_ENERGY, TRACE_GRADIENT, TRACE_STEP, TRACE_DAMPING, TRACE_ACTIVE, TRACE_EVALUATIONS, TRACE_SLOPE, TRACE_BEFORE,
) = range(8)  # fmt: skip
TRACE_WIDTH = 8


@kernel
def project(theta, lower, upper):
    """Put a pose (n,) into the box, in place: seed 000 (40)."""
    for i in range(theta.shape[0]):
        if theta[i] < lower[i]:
            theta[i] = lower[i]
        elif theta[i] > upper[i]:
            theta[i] = upper[i]


@kernel
def armijo(before, after, slope, alpha):
    """Return whether an energy fell enough: seed 000 (39), slope = gradient . (projected trial - pose)."""
    return after <= before + alpha * slope


@kernel
def active_bounds(theta, gradient, lower, upper, margin, fixed):
    """Mark in fixed (n,) the bounds at which the gradient pushes outward; return the largest gradient of the rest."""
    largest = 0.0
    for i in range(theta.shape[0]):
        held = (
            lower[i] >= upper[i]
            or (theta[i] <= lower[i] + margin and gradient[i] > 0.0)
            or (theta[i] >= upper[i] - margin and gradient[i] < 0.0)
        )
        fixed[i] = 1.0 if held else 0.0
        if not held and abs(gradient[i]) > largest:
            largest = abs(gradient[i])
    return largest


@kernel
def all_reached(errors, tolerances):
    """Return whether every spring that decides (tolerance below infinity) is within its tolerance."""
    for k in range(errors.shape[0]):
        if not errors[k] <= tolerances[k]:
            return False
    return True


@kernel
def recentre_all(figure, theta, lower, upper):
    """Bring every rotation vector of a pose back to the short way round, where its limits allow it."""
    for i in range(theta.shape[0]):
        kind = figure.dof[i, KIND]
        if kind == ROTVEC or kind == SWING:
            recentre(kind, i, theta, lower, upper)


@kernel
def random_number(state):
    """Return the next number in [0, 1) of the generator whose state (a 32-bit integer as a float) is state[0]."""
    a = (int(state[0]) + 0x6D2B79F5) & 0xFFFFFFFF
    state[0] = float(a)
    t = ((a ^ (a >> 15)) * (a | 1)) & 0xFFFFFFFF
    t = (t ^ (t + (((t ^ (t >> 7)) * (t | 61)) & 0xFFFFFFFF))) & 0xFFFFFFFF
    return float((t ^ (t >> 14)) & 0xFFFFFFFF) / 4294967296.0


@kernel
def random_pose(figure, lower, upper, start, state, theta):
    """Fill theta (n,) with a random pose inside the box.

    A moving root keeps the place where it started: the goals move it faster than chance does. An angle without limits
    is drawn from a full turn about its start, a slide without limits keeps its start.
    """
    for i in range(theta.shape[0]):
        u = random_number(state)
        low, high = lower[i], upper[i]
        slides = figure.dof[i, KIND] == SLIDE
        rooted = slides and figure.body[figure.dof[i, BODY], PARENT] < 0 and theta.shape[0] > 6
        if rooted or (slides and not (high - low) < math.inf):
            theta[i] = start[i]
        elif (high - low) < math.inf:
            theta[i] = low + u * (high - low)
        else:
            theta[i] = min(max(start[i] + (2.0 * u - 1.0) * math.pi, low), high)
