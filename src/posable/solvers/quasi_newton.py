"""Quasi-Newton methods in a box: BFGS, and L-BFGS for figures of many degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.engine.bounds import write_trace
from posable.engine.jit import kernel
from posable.engine.layout import ENERGY
from posable.engine.linalg import cholesky, cholesky_solve
from posable.solvers.base import register
from posable.solvers.loop import (
    METHOD_OPTIONS,
    STATIONARY_GAIN,
    TAU,
    DescentSolver,
    accept,
    batch_of,
    differ,
    first_derivatives,
    line_search,
    restarted,
    squared,
    strength,
    stretch,
)

# --- BFGS in a box ---


@kernel
def reset_model(model, size, params):
    """Reset the model of the Hessian (n, n) to a multiple of the metric, the identity for equally strong joints."""
    for i in range(model.shape[0]):
        for j in range(model.shape[0]):
            model[i, j] = size if i == j else 0.0
    if differ(params, model.shape[0]):
        for i in range(model.shape[0]):
            model[i, i] /= strength(params, model.shape[0], i) ** 2


@kernel
def quasi_newton_direction(model, factor, fixed, gradient, direction, spare):
    """Solve B d = -g on the free dofs by Cholesky; return whether B was positive definite there."""
    n = fixed.shape[0]
    free = 0
    for i in range(n):
        if fixed[i] != 0.0:
            continue
        column = 0
        for j in range(i + 1):
            if fixed[j] == 0.0:
                factor[free, column] = model[i, j]
                column += 1
        spare[free] = -gradient[i]
        free += 1
    if not cholesky(factor, free, 0.0):
        return False
    cholesky_solve(factor, free, spare)
    free = 0
    for i in range(n):
        direction[i] = 0.0
        if fixed[i] == 0.0:
            direction[i] = spare[free]
            free += 1
    return True


@kernel
def update(model, step, change, spare, first, params):
    """Update the model with a step and its gradient change: BFGS with Powell's damping, so that B stays definite."""
    n = step.shape[0]
    sy, yy, sbs = 0.0, 0.0, 0.0
    for i in range(n):
        sy += step[i] * change[i]
        yy += change[i] * change[i]
    if first and differ(params, n):
        yy = squared(change, params, n)
    if first and sy > 1e-12 * yy:
        reset_model(model, yy / sy, params)
    for i in range(n):
        spare[i] = 0.0
        for j in range(n):
            spare[i] += model[i, j] * step[j]
        sbs += step[i] * spare[i]
    if not sbs > 1e-300:
        return
    share = 1.0 if sy >= 0.2 * sbs else 0.8 * sbs / (sbs - sy)
    sy = 0.0
    for i in range(n):
        change[i] = share * change[i] + (1.0 - share) * spare[i]
        sy += step[i] * change[i]
    if not sy > 1e-300:
        return
    for i in range(n):
        for j in range(n):
            model[i, j] += change[i] * change[j] / sy - spare[i] * spare[j] / sbs


@kernel
def carve_bfgs(work, lower, upper, params, n, b, g):
    """Return two matrices and five vectors (2 n + 5, n) from the end of the scratch memory, and the box."""
    return work[work.shape[0] - (2 * n + 5) * n :].reshape(2 * n + 5, n), lower, upper


@kernel
def remember(theta, gradient, fixed, old_pose, old_gradient):
    """Keep the pose and its gradient (n,) for the next update; return the square of the free part of the gradient."""
    square = 0.0
    for i in range(theta.shape[0]):
        square += 0.0 if fixed[i] != 0.0 else gradient[i] * gradient[i]
        old_pose[i] = theta[i]
        old_gradient[i] = gradient[i]
    return square


@kernel
def gradient_step(figure, springs, lower, upper, theta, direction, largest, ws, state, params):
    """Search along the scaled steepest descent and reset state[TAU]; return as `line_search` does."""
    n = theta.shape[0]
    for i in range(n):
        direction[i] = -ws.gradient[i] / max(largest, 1e-300)
    if differ(params, n):
        stretch(direction, params)
    found = line_search(figure, springs, lower, upper, theta, direction, 1.0, ws, state, params)
    state[TAU] = 0.0
    return found


@kernel
def bfgs_step(figure, order, springs, lower, upper, theta, ws, memory, state, params, trace):
    """Make one quasi-Newton step, in place; return whether there was one. state[TAU]: steps learnt from."""
    n = theta.shape[0]
    model, factor, vectors = memory[:n], memory[n : 2 * n], memory[2 * n :]
    fixed, direction, old_pose, old_gradient, change = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    before = state[ENERGY]
    largest = first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, params)
    if restarted(state):
        state[TAU] = -1.0
    if state[TAU] >= 0.0:
        for i in range(n):
            direction[i] = theta[i] - old_pose[i]
            change[i] = ws.gradient[i] - old_gradient[i]
        update(model, direction, change, ws.spare, state[TAU] == 0.0, params)
        state[TAU] += 1.0
    else:
        reset_model(model, max(largest, 1e-300), params)
        state[TAU] = 0.0
    square = remember(theta, ws.gradient, fixed, old_pose, old_gradient)
    tau, slope, length, after = 0.0, 0.0, 0.0, before
    if square > STATIONARY_GAIN * before:
        if quasi_newton_direction(model, factor, fixed, ws.gradient, direction, ws.spare):
            tau, slope, length, after = line_search(
                figure, springs, lower, upper, theta, direction, 1.0, ws, state, params
            )
        if tau == 0.0:  # the model does not help here: start learning again
            reset_model(model, max(largest, 1e-300), params)
            tau, slope, length, after = gradient_step(
                figure, springs, lower, upper, theta, direction, largest, ws, state, params
            )
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = -1.0
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    return tau > 0.0


@register("bfgs")
@dataclass(frozen=True, kw_only=True)
class Bfgs(DescentSolver):
    """BFGS in a box: B d = -g on the dofs that no bound holds, with B learnt from the steps.

    (Engell-Nørregård & Erleben 2011, section 3; Erleben & Andrews 2018.) A projected quasi-Newton direction need not be
    a descent direction, as Engell-Nørregård & Erleben found; leaving out the bounds at which the gradient pushes
    outward corrects that (Bertsekas 1982), and the line search (eq. 39) guarantees it.
    """

    name: ClassVar[str] = "bfgs"
    summary: ClassVar[str] = "box-constrained BFGS"
    iterations: ClassVar[int] = 500
    loop: ClassVar = staticmethod(batch_of("bfgs", bfgs_step, carve_bfgs))

    def memory(self, problem) -> int:
        """Return the scratch memory of the engine, the model and its factor."""
        n = problem.skeleton.size
        return problem.work_size + (2 * n + 5) * n


# --- BFGS with a short memory ---


@kernel
def two_loops(fixed, gradient, pairs, count, most, direction, factors, params):
    """Write d = -H g on the free dofs from the last `count` pairs (step, change), newest first used: Nocedal."""
    n = gradient.shape[0]
    for i in range(n):
        direction[i] = 0.0 if fixed[i] != 0.0 else -gradient[i]
    held = min(count, most)
    scale = 0.0
    for back in range(held):
        k = (count - 1 - back) % most
        s, y = pairs[2 * k], pairs[2 * k + 1]
        sy, sd, yy = 0.0, 0.0, 0.0
        for i in range(n):
            if fixed[i] == 0.0:
                sy += s[i] * y[i]
                sd += s[i] * direction[i]
                yy += y[i] * y[i]
        factors[k] = 0.0
        if sy > 1e-10 * yy * 1e-3 and sy > 0.0:
            factors[k] = sd / sy
            if scale == 0.0:
                scale = sy / (squared(y, params, n) if differ(params, n) else yy)
            for i in range(n):
                if fixed[i] == 0.0:
                    direction[i] -= factors[k] * y[i]
    if scale > 0.0:
        for i in range(n):
            direction[i] *= scale
    if differ(params, n):
        stretch(direction, params)
    for back in range(held - 1, -1, -1):
        k = (count - 1 - back) % most
        s, y = pairs[2 * k], pairs[2 * k + 1]
        sy, yd, yy = 0.0, 0.0, 0.0
        for i in range(n):
            if fixed[i] == 0.0:
                sy += s[i] * y[i]
                yd += y[i] * direction[i]
                yy += y[i] * y[i]
        if sy > 1e-10 * yy * 1e-3 and sy > 0.0:
            for i in range(n):
                if fixed[i] == 0.0:
                    direction[i] += (factors[k] - yd / sy) * s[i]
    return scale


@kernel
def carve_lbfgs(work, lower, upper, params, n, b, g):
    """Return the pairs and five vectors from the end of the scratch memory, and the box."""
    rows, wide = 2 * int(params[METHOD_OPTIONS]) + 5, max(n, int(params[METHOD_OPTIONS]))
    return work[work.shape[0] - rows * wide :].reshape(rows, wide), lower, upper


@kernel
def lbfgs_step(figure, order, springs, lower, upper, theta, ws, memory, state, params, trace):
    """Make one quasi-Newton step, in place; return whether there was one. state[TAU]: pairs seen, or -1."""
    n = theta.shape[0]
    most = int(params[METHOD_OPTIONS])
    pairs, vectors = memory[: 2 * most], memory[2 * most : 2 * most + 4]
    fixed, direction, old_pose, old_gradient = vectors[0, :n], vectors[1, :n], vectors[2, :n], vectors[3, :n]
    before = state[ENERGY]
    largest = first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, params)
    if restarted(state):
        state[TAU] = -1.0
    if state[TAU] >= 0.0:
        k = int(state[TAU]) % most
        for i in range(n):
            pairs[2 * k, i] = theta[i] - old_pose[i]
            pairs[2 * k + 1, i] = ws.gradient[i] - old_gradient[i]
        state[TAU] += 1.0
    else:
        state[TAU] = 0.0
    square = remember(theta, ws.gradient, fixed, old_pose, old_gradient)
    tau, slope, length, after = 0.0, 0.0, 0.0, before
    if square > STATIONARY_GAIN * before:
        learnt = two_loops(fixed, ws.gradient, pairs, int(state[TAU]), most, direction, memory[2 * most + 4], params)
        first = 1.0 if learnt > 0.0 else min(1.0, 1.0 / max(largest, 1e-300))
        tau, slope, length, after = line_search(
            figure, springs, lower, upper, theta, direction, first, ws, state, params
        )
        if tau == 0.0 and learnt > 0.0:  # the stored pairs do not help here: start learning again
            tau, slope, length, after = gradient_step(
                figure, springs, lower, upper, theta, direction, largest, ws, state, params
            )
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = -1.0
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    return tau > 0.0


@register("lbfgs")
@dataclass(frozen=True, kw_only=True)
class Lbfgs(DescentSolver):
    """Limited-memory BFGS in a box: the two-loop recursion over the last pairs, on the dofs that no bound holds.

    (Nocedal 1980, with the line search of Engell-Nørregård & Erleben 2011, eq. 39.)

    Args:
        memory_size: How many pairs of steps and gradient changes are kept.
    """

    memory_size: int = 10

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "box-constrained BFGS with limited memory"
    numbers: ClassVar[tuple[str, ...]] = ("memory_size",)
    loop: ClassVar = staticmethod(batch_of("lbfgs", lbfgs_step, carve_lbfgs))

    def __post_init__(self):
        super().__post_init__()
        self.require("memory_size", isinstance(self.memory_size, int) and self.memory_size >= 1, "a positive integer")

    def memory(self, problem) -> int:
        """Return the scratch memory of the engine and of the pairs."""
        return problem.work_size + (2 * self.memory_size + 5) * max(problem.skeleton.size, self.memory_size)
