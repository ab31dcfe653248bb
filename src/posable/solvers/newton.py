"""Projected Newton with the exact gathered Hessian: the default solver.

It joins seed 000 (projection and the Armijo test (39)) with seed 004 (exact second derivatives): bounds at which the
gradient pushes outward are held, the damped Newton step is taken on the rest (two-metric projection, Bertsekas), the
Gauss-Newton stiffness steps in where the exact one is indefinite, and at a saddle the figure moves off along a
direction of negative curvature. One compiled loop from start to end, restarts included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.kernels.compiler import entry, kernel
from posable.kernels.factor import damped_copy, factorise, negative_curvature, substitute
from posable.kernels.fields import DEPTH, UP, Springs
from posable.kernels.gather import clear_hessian, derivatives, energy_at
from posable.kernels.kinematics import forward, workspace
from posable.kernels.stepping import (
    CONVERGED,
    EXHAUSTED,
    RUNNING,
    STATIONARY,
    TRACE_ACTIVE,
    TRACE_BEFORE,
    TRACE_DAMPING,
    TRACE_ENERGY,
    TRACE_EVALUATIONS,
    TRACE_GRADIENT,
    TRACE_SLOPE,
    TRACE_STEP,
    active_bounds,
    all_reached,
    armijo,
    project,
    random_pose,
    recentre_all,
)
from posable.solvers.solver import CompiledSolver, Request, register

# What the loop remembers between two entries: columns of its state
(
    RANDOM, PHASE, ENERGY, DAMPING, ITERATIONS, EVALUATIONS, SLOW, RESTARTS, BEST, ESCAPES, STALLED, LEFT,
) = range(12)  # fmt: skip
STATE_WIDTH = 12
FRESH, GOING = 0.0, 1.0

MARGIN = 1e-10  # how near a bound counts as at it
TRIES = 14  # dampings tried for one step
SLOW_STEPS = 8  # steps that gain less than SLOW_GAIN before a restart
SLOW_GAIN = 0.03
LARGEST_STEP = 1.0  # [rad, m] of any one degree of freedom: beyond it the quadratic says nothing about rotations
STATIONARY_GAIN = 1e-11  # predicted gain, relative to the energy, below which a pose is stationary
DAMPING_FLOOR = 1e-9
DAMPING_CEILING = 1e9


@kernel
def scale_of(order, hessian, scale):
    """Write the metric of the damping (n,): the mean diagonal of the Hessian, the same for every dof."""
    n = scale.shape[0]
    total = 0.0
    for i in range(n):
        total += abs(hessian[i, order.rows[i, DEPTH]])
    mean = total / n if n > 0 else 1.0
    if not mean > 1e-300:
        mean = 1e-300
    for i in range(n):
        scale[i] = mean


@kernel
def multiply(order, hessian, x, out):
    """Write H x (n,) for a matrix stored by depth."""
    n = x.shape[0]
    for i in range(n):
        out[i] = 0.0
    for i in range(n):
        depth = order.rows[i, DEPTH]
        total = hessian[i, depth] * x[i]
        j = order.rows[i, UP]
        for k in range(depth - 1, -1, -1):
            total += hessian[i, k] * x[j]
            out[j] += hessian[i, k] * x[i]
            j = order.rows[j, UP]
        out[i] += total


@kernel
def newton_step(order, theta, lower, upper, ws, fixed, scale, damping, passes):
    """Write into ws.step the damped Newton step on the free dofs; return whether the matrix was positive definite.

    Dofs that the step would carry past a bound are stopped there, and the rest answers to that, `passes` times.
    """
    n = theta.shape[0]
    step, rhs = ws.step, ws.spare
    for i in range(n):
        rhs[i] = 0.0  # displacement already decided: dofs stopped at a bound
    for _ in range(passes):
        damped_copy(order, ws.hessian, fixed, damping, scale, ws.factor)
        if factorise(order, ws.factor, 0.0) >= 0:
            return False
        stopped = False
        moved = False
        for i in range(n):
            if rhs[i] != 0.0:
                moved = True
        if moved:
            multiply(order, ws.hessian, rhs, step)
        else:
            for i in range(n):
                step[i] = 0.0
        for i in range(n):
            step[i] = 0.0 if fixed[i] != 0.0 else -ws.gradient[i] - step[i]
        substitute(order, ws.factor, step)
        for i in range(n):
            if fixed[i] != 0.0:
                step[i] = rhs[i]
        largest = 0.0
        for i in range(n):
            if abs(step[i]) > largest:
                largest = abs(step[i])
        if largest > LARGEST_STEP:
            shrink = LARGEST_STEP / largest
            for i in range(n):
                step[i] *= shrink
            return True
        for i in range(n):
            if fixed[i] == 0.0:
                target = theta[i] + step[i]
                if target < lower[i] - MARGIN or target > upper[i] + MARGIN:
                    bound = lower[i] if target < lower[i] else upper[i]
                    fixed[i] = 2.0
                    rhs[i] = bound - theta[i]
                    stopped = True
        if not stopped:
            return True
    return True


@kernel
def newton_loop(figure, order, springs, tolerances, lower, upper, theta, start, ws, fixed, scale, state, limits, trace):
    """Advance one problem by at most `limits[0]` iterations from its state; return what became of it.

    limits: (iterations in this call, iterations in all, restarts, alpha, first damping, soft, keep_hessian_clear).
    soft: 1 where something is to be minimised beyond the goals' tolerances.
    """
    n = theta.shape[0]
    alpha, soft, coupled = limits[3], limits[5] != 0.0, limits[6] != 0.0
    if state[PHASE] == FRESH:
        project(theta, lower, upper)
        state[PHASE] = GOING
        state[ENERGY] = energy_at(figure, springs, theta, ws)
        state[DAMPING] = limits[4]
        state[EVALUATIONS] += 1.0
        state[SLOW] = 0.0
        state[ESCAPES] = 0.0
        state[STALLED] = 0.0
    else:
        energy_at(figure, springs, theta, ws)
    energy = state[ENERGY]
    budget = limits[0]
    while True:
        if not soft and all_reached(ws.error, tolerances):
            return CONVERGED
        if state[ITERATIONS] >= limits[1]:
            put_back_best(figure, springs, theta, ws, state)
            return EXHAUSTED
        if budget <= 0.0:
            return RUNNING
        budget -= 1.0
        row = int(state[ITERATIONS])
        state[ITERATIONS] += 1.0
        before = energy
        if coupled:
            clear_hessian(ws)
        derivatives(figure, order, springs, theta, ws, 1.0)
        scale_of(order, ws.hessian, scale)
        largest = active_bounds(theta, ws.gradient, lower, upper, MARGIN, fixed)
        exact = True
        accepted = False
        stationary = False
        damping = state[DAMPING]
        slope = 0.0
        length = 0.0
        tries = 0
        while tries < TRIES:
            tries += 1
            if not newton_step(order, theta, lower, upper, ws, fixed, scale, damping, 3):
                if not exact:
                    break  # not a number somewhere: Gauss-Newton with damping is always positive definite
                # The exact Hessian is indefinite here: Gauss-Newton's is not.
                exact = False
                forward(figure, theta, ws)
                if coupled:
                    clear_hessian(ws)
                derivatives(figure, order, springs, theta, ws, 0.0)
                active_bounds(theta, ws.gradient, lower, upper, MARGIN, fixed)
                tries -= 1
                continue
            slope = 0.0
            length = 0.0
            weighted = 0.0
            for i in range(n):
                x = theta[i] + ws.step[i]
                x = min(max(x, lower[i]), upper[i])
                ws.trial[i] = x
                x -= theta[i]
                slope += ws.gradient[i] * x
                length = max(length, abs(x))
                weighted += scale[i] * x * x
            predicted = -0.5 * slope + 0.5 * damping * weighted
            if not predicted > STATIONARY_GAIN * energy or not length > 0.0:
                stationary = True
                break
            after = energy_at(figure, springs, ws.trial, ws)
            state[EVALUATIONS] += 1.0
            if after < energy and armijo(energy, after, slope, alpha):
                gain = (energy - after) / predicted
                accepted = True
                for i in range(n):
                    theta[i] = ws.trial[i]
                energy = after
                if gain > 0.75:
                    damping *= 0.1
                elif gain > 0.25:
                    damping *= 0.4
                else:
                    damping *= 2.0
                break
            damping = max(damping, 1e-5) * 8.0
            active_bounds(theta, ws.gradient, lower, upper, MARGIN, fixed)
        state[DAMPING] = min(max(damping, DAMPING_FLOOR), DAMPING_CEILING)
        if row < trace.shape[0]:
            held = 0.0
            for i in range(n):
                held += 1.0 if fixed[i] != 0.0 else 0.0
            trace[row, TRACE_ENERGY] = energy
            trace[row, TRACE_GRADIENT] = largest
            trace[row, TRACE_STEP] = length if accepted else 0.0
            trace[row, TRACE_DAMPING] = state[DAMPING]
            trace[row, TRACE_ACTIVE] = held
            trace[row, TRACE_EVALUATIONS] = state[EVALUATIONS]
            trace[row, TRACE_SLOPE] = slope if accepted else 0.0
            trace[row, TRACE_BEFORE] = before
        if accepted:
            recentre_all(figure, theta, lower, upper)
            state[SLOW] = state[SLOW] + 1.0 if energy > (1.0 - SLOW_GAIN) * before else 0.0
        else:
            forward(figure, theta, ws)
            if escape_saddle(figure, order, springs, lower, upper, theta, ws, fixed, scale, coupled, energy, state):
                energy = energy_at(figure, springs, theta, ws)
                state[EVALUATIONS] += 1.0
                state[DAMPING] = limits[4]
                state[SLOW] = 0.0
                state[ENERGY] = energy
                continue
            energy_at(figure, springs, theta, ws)
        state[ENERGY] = energy
        hopeless = not accepted or (state[SLOW] >= SLOW_STEPS and state[RESTARTS] < limits[2])
        if not hopeless:
            continue
        # Nothing more to gain from here: remember the best pose, and start elsewhere while restarts are left.
        if soft and all_reached(ws.error, tolerances):
            return CONVERGED
        if not state[BEST] <= energy:
            state[BEST] = energy
            for i in range(n):
                ws.best[i] = theta[i]
        if state[RESTARTS] >= limits[2]:
            put_back_best(figure, springs, theta, ws, state)
            return STATIONARY
        state[RESTARTS] += 1.0
        random_pose(figure, lower, upper, start, state, theta)
        energy = energy_at(figure, springs, theta, ws)
        state[ENERGY] = energy
        state[DAMPING] = limits[4]
        state[EVALUATIONS] += 1.0
        state[SLOW] = 0.0
        state[ESCAPES] = 0.0


@kernel
def put_back_best(figure, springs, theta, ws, state):
    """Return to the best pose of the restarts, where it is better than the one at hand."""
    if state[BEST] < state[ENERGY]:
        for i in range(theta.shape[0]):
            theta[i] = ws.best[i]
        state[ENERGY] = energy_at(figure, springs, theta, ws)


@kernel
def escape_saddle(figure, order, springs, lower, upper, theta, ws, fixed, scale, coupled, energy, state):
    """At a stationary pose that is no minimum, move downhill along a direction of negative curvature.

    The direction comes from the pivot at which the exact factorisation fails; both senses are tried and the lower one
    is taken (the positive one if they are equal), so the answer is always the same. Returns whether the pose moved.
    """
    n = theta.shape[0]
    if state[ESCAPES] >= 20.0:
        return False
    if coupled:
        clear_hessian(ws)
    derivatives(figure, order, springs, theta, ws, 1.0)
    active_bounds(theta, ws.gradient, lower, upper, MARGIN, fixed)
    damped_copy(order, ws.hessian, fixed, 1e-9, scale, ws.factor)
    failed = factorise(order, ws.factor, 0.0)
    if failed < 0:
        return False
    negative_curvature(order, ws.factor, failed, ws.step)
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(ws.step[i]))
    size = 0.3
    for _ in range(12):
        best = energy
        sense = 0.0
        for side in range(2):
            sign = 1.0 if side == 0 else -1.0
            for i in range(n):
                x = theta[i] + sign * size / largest * ws.step[i]
                ws.trial[i] = min(max(x, lower[i]), upper[i])
            value = energy_at(figure, springs, ws.trial, ws)
            state[EVALUATIONS] += 1.0
            if value < best:
                best, sense = value, sign
        if sense != 0.0:
            for i in range(n):
                x = theta[i] + sense * size / largest * ws.step[i]
                theta[i] = min(max(x, lower[i]), upper[i])
            state[ESCAPES] += 1.0
            return True
        size *= 0.3
    return False


@entry
def newton_batch(figure, order, kind, data, pull, home, tolerances, lower, upper, poses, starts, work, d, states, limits, errors, outcome, trace):
    """Solve every problem of a batch: poses (t, n) from where they are, targets data (t or 1, g, WIDTH).

    Writes poses, errors (t, g), states (t, STATE_WIDTH) and outcome (t,); trace (rows, TRACE_WIDTH) of the last problem.
    """
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    extra = work[work.shape[0] - 2 * n :]
    fixed, scale = extra[:n], extra[n:]
    for t in range(poses.shape[0]):
        if outcome[t] != RUNNING:
            continue
        springs = Springs(kind, data[t if data.shape[0] > 1 else 0], pull, home)
        outcome[t] = newton_loop(
            figure, order, springs, tolerances, lower, upper, poses[t], starts[t], ws, fixed, scale, states[t], limits, trace
        )
        energy_at(figure, springs, poses[t], ws)
        for k in range(g):
            errors[t, k] = ws.error[k]


@register("newton")
@dataclass(frozen=True)
class Newton(CompiledSolver):
    """Projected Newton with the exact Hessian (mathematics.md): the default.

    alpha: how much of the predicted decrease a step must give, seed 000 (39). damping: of the first step, relative to
    the mean diagonal of the Hessian.
    """

    alpha: float = 1e-4
    damping: float = 1e-3

    name: ClassVar[str] = "newton"
    summary: ClassVar[str] = "projected Newton with the exact gathered Hessian; the default"
    iterations: ClassVar[int] = 200
    state_width: ClassVar[int] = STATE_WIDTH
    loop: ClassVar = staticmethod(newton_batch)

    def limits(self, problem, request: Request) -> np.ndarray:
        """Return what `newton_loop` reads: see there."""
        most = float(request.max_iterations if request.max_iterations is not None else self.iterations * (1 + request.restarts))
        return np.array(
            [most + 1.0, most, float(request.restarts), self.alpha, self.damping, float(problem.soft), float(problem.coupled)]
        )
