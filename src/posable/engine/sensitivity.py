"""Sensitivity of a minimum: to a limit, by continuation along the path of solutions; to a target, by the adjoint.

A minimum inside a box satisfies dE/dtheta_F = 0 on the dofs F that no bound holds. If a bound or a parameter p moves,
the free dofs respond with -H_FF^-1 (d/dp dE/dtheta_F) as long as the set of active bounds stays the same. The path has
a kink where a bound becomes active or inactive, so it is followed in short steps, each corrected to the minimum.
"""

from __future__ import annotations

from posable.engine.assemble import energy_at, gradient_at, springs_of
from posable.engine.bounds import copy_into
from posable.engine.jit import entry, kernel
from posable.engine.joints import forward
from posable.engine.layout import POINT, TARGETS, workspace
from posable.engine.linalg import dot
from posable.engine.ltl import damped_copy, factorise, substitute
from posable.engine.newton import damping_scale, fresh_derivatives, hold_bounds, propose

FLAT = 1e-10  # damping, relative to the mean diagonal: directions that the goals leave free stay put
TRIES = 14  # dampings tried for one step
SHORT = 0.1  # [rad, m]: longest step of a dof, so that the pose stays in its basin
DONE = 1e-15  # relative decrease below which the search ends
JUMP = 0.25  # [rad, m]: a pose that moves further in one step has left the path
DIFFERENCE = 1e-4  # [m, 1] step of the finite differences of the gradient
NO_MULTIPLIER = 1e-9  # relative to the largest multiplier: a bound with a smaller one is degenerate
RIDGE = 1e-8  # damping where the goals leave freedom: selects the response of least motion

# Status of an adjoint
EXISTS, LEAST_MOTION, DEGENERATE, NO_MINIMUM = 0, 1, 2, 3


@kernel
def refine(figure, order, springs, lower, upper, theta, ws, fixed, scale, most):
    """Move theta (n,), in place, to the minimum of the energy inside the box that short downhill steps lead to.

    Unlike a solve, this neither stops at a goal's tolerance nor searches for another minimum. Returns the energy.
    """
    n = theta.shape[0]
    energy = energy_at(figure, springs, theta, ws)
    for _ in range(most):
        fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, 1.0)
        damping_scale(order, ws.hessian, scale)
        damping, accepted = FLAT, False
        for _ in range(TRIES):
            definite, slope, _, length = propose(order, theta, lower, upper, ws, fixed, scale, damping)
            if definite:
                if not -slope > DONE * energy:
                    break
                if length > SHORT:
                    for i in range(n):
                        ws.trial[i] = theta[i] + SHORT / length * (ws.trial[i] - theta[i])
                after = energy_at(figure, springs, ws.trial, ws)
                if after < energy:
                    energy, accepted = after, True
                    copy_into(ws.trial, theta)
                    break
            damping = max(damping, 1e-8) * 20.0
            hold_bounds(order, theta, lower, upper, ws, fixed)
        if not accepted:
            break
    return energy_at(figure, springs, theta, ws)


@kernel
def memory_of(figure, g, work, d):
    """Return the workspace of a figure with g springs, and two vectors (n,) of the rest of the scratch memory."""
    n, (ws, own) = figure.dof.shape[0], workspace(figure, g, work, d)
    return ws, own[:n], own[n : 2 * n]


@entry
def refine_pose(figure, order, springs, lower, upper, theta, work, d, most, errors):
    """Refine one pose (n,), in place, and write the springs' errors (g,); return the energy."""
    ws, fixed, scale = memory_of(figure, errors.shape[0], work, d)
    energy = refine(figure, order, springs, lower, upper, theta, ws, fixed, scale, most)
    copy_into(ws.error, errors)
    return energy


@entry
def refine_batch(figure, order, kind, constants, targets, pull, home, lower, upper, poses, work, d, most):
    """Refine the poses (t, n) of a batch, in place; constants and targets (t or 1, g, ...)."""
    ws, fixed, scale = memory_of(figure, kind.shape[0], work, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, pull, home)
        refine(figure, order, springs, lower, upper, poses[t], ws, fixed, scale, most)


@entry
def follow_bound(figure, order, springs, lower, upper, theta, work, d, dof, outward, steps, errors):
    """Move a bound of one dof outward by `outward` [rad, m], signed, in steps, and let a minimum theta (n,) follow.

    The dof at the bound moves with it, the others follow by Newton steps from their previous values, and changes of the
    active set are handled on the way. lower, upper (n,), theta and the errors (g,) at the end are written. Returns 0,
    or 1 where the path ends: the minimum ceases to exist and the next one is elsewhere.
    """
    ws, fixed, scale = memory_of(figure, errors.shape[0], work, d)
    ended = 0
    for _ in range(steps):
        if outward < 0.0:
            lower[dof] += outward / steps
        else:
            upper[dof] += outward / steps
        copy_into(theta, ws.anchor)
        theta[dof] += outward / steps
        refine(figure, order, springs, lower, upper, theta, ws, fixed, scale, 30)
        for i in range(theta.shape[0]):
            if abs(theta[i] - ws.anchor[i]) > JUMP:
                ended = 1
        if ended == 1:
            break
    copy_into(ws.error, errors)
    return ended


@kernel
def along(figure, order, springs, theta, ws, adjoint):
    """Return the gradient of the energy along adjoint (n,), at a pose whose bodies are placed."""
    gradient_at(figure, order, springs, theta, ws)
    return dot(ws.gradient, adjoint)


@kernel
def slope_by(figure, order, springs, theta, ws, adjoint, row, c, moves):
    """Return minus the derivative by row[c], a number of the problem, of the gradient along adjoint (n,).

    moves: whether that number moves the bodies.
    """
    kept, total = row[c], 0.0
    for side in range(2):
        row[c] = kept + DIFFERENCE if side == 0 else kept - DIFFERENCE
        if moves:
            forward(figure, theta, ws)
        value = along(figure, order, springs, theta, ws, adjoint)
        total = value if side == 0 else total - value
    row[c] = kept
    return -0.5 / DIFFERENCE * total


@kernel
def solve_adjoint(figure, order, springs, lower, upper, theta, ws, fixed, scale, adjoint):
    """Replace adjoint (n,), the derivative of a loss by the pose, by H_FF^-1 of it, in place; return its status."""
    n = theta.shape[0]
    energy_at(figure, springs, theta, ws)
    fresh_derivatives(figure, order, springs, theta, ws, lower, upper, fixed, 1.0)
    damping_scale(order, ws.hessian, scale)
    largest, stiff, code = 0.0, scale[0] if n > 0 else 1.0, EXISTS
    for i in range(n):
        largest = max(largest, abs(ws.gradient[i]))
    for i in range(n):
        on = (theta[i] <= lower[i] + 1e-9 or theta[i] >= upper[i] - 1e-9) and lower[i] < upper[i]
        if on and abs(ws.gradient[i]) <= max(NO_MULTIPLIER * largest, 1e-12 * stiff) and ws.gradient[i] != 0.0:
            code = DEGENERATE
    for i in range(n):
        if fixed[i] != 0.0:
            adjoint[i] = 0.0
    damping = 0.0
    while True:
        damped_copy(order, ws.hessian, fixed, damping, scale, ws.factor, ws.path)
        failed = factorise(order, ws.factor, fixed, RIDGE * stiff if damping == 0.0 else 0.0)
        if failed < 0:
            break
        if damping > 0.0:
            return NO_MINIMUM
        damping = RIDGE
        code = LEAST_MOTION if code == EXISTS else code
    substitute(order, ws.factor, adjoint, ws.path)
    return code


@entry
def adjoint_batch(
    figure, order, kind, constants, targets, pull, home, lower, upper, poses, work, d, adjoints, moving,
    shaped, pinned, target_slopes, rest_slopes, point_slopes, codes,
):  # fmt: skip
    """Back-propagate the gradient of a loss from the poses of a batch to targets, offsets and points on bodies.

    Args:
        figure, order, kind, constants, targets, pull, home, lower, upper, d: As of `newton_batch`; figure.rest and
            constants are changed while it runs, and put back.
        poses: (t, n) [rad, m], minima.
        work: Scratch memory.
        adjoints: (t, n), how the loss changes with each dof; becomes H^-1 of it.
        moving: (g, TARGETS) not 0 for each number of a target that counts.
        shaped: (b,) not 0 for each body whose place on its parent counts.
        pinned: (g,) not 0 for each spring whose point on its body counts.
        target_slopes: (t, g, TARGETS), rest_slopes (t, b, 3), point_slopes (t, g, 3): written, how the loss changes.
        codes: (t,) written: EXISTS, LEAST_MOTION, DEGENERATE or NO_MINIMUM.
    """
    g = kind.shape[0]
    ws, fixed, scale = memory_of(figure, g, work, d)
    for t in range(poses.shape[0]):
        springs, theta, adjoint = springs_of(kind, constants, targets, t, pull, home), poses[t], adjoints[t]
        codes[t] = solve_adjoint(figure, order, springs, lower, upper, theta, ws, fixed, scale, adjoint)
        for k in range(g):
            for c in range(TARGETS):
                if moving[k, c] != 0:
                    target_slopes[t, k, c] = slope_by(
                        figure, order, springs, theta, ws, adjoint, springs.targets[k], c, False
                    )
            if pinned[k] != 0:
                for c in range(3):
                    point_slopes[t, k, c] = slope_by(
                        figure, order, springs, theta, ws, adjoint, springs.constants[k], POINT + c, False
                    )
        for body in range(figure.body.shape[0]):
            if shaped[body] != 0:
                for c in range(3):
                    rest_slopes[t, body, c] = slope_by(
                        figure, order, springs, theta, ws, adjoint, figure.rest[body], c, True
                    )
