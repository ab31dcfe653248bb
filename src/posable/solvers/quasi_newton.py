"""Quasi-Newton methods in a box: BFGS, and L-BFGS for figures of many degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from posable.engine.bounds import write_trace
from posable.engine.jit import kernel, with_names
from posable.engine.layout import ENERGY, matrix
from posable.engine.linalg import cholesky, cholesky_solve
from posable.solvers.base import register
from posable.solvers.loop import (
    METHOD_OPTIONS,
    STATIONARY_GAIN,
    TAU,
    DescentSolver,
    accept,
    batch_of,
    first_derivatives,
    line_search,
    restarted,
    strength,
)

# --- The step of both ---

# `quasi_newton` replaces these names by the kernels of a method.
forget: Any = None  # writes its first model, if it has one
learn: Any = None  # from the last step and the change of the gradient in it
aim: Any = None  # writes the direction; returns the length to try first, 0 where there is no direction


def step(figure, order, springs, lower, upper, theta, ws, memory, state, params, trace):
    """Make one quasi-Newton step, in place; return whether there was one.

    The last five rows of memory are vectors, the others the method's own. state[TAU]: steps learnt from, or -1.
    """
    n = theta.shape[0]
    own, vectors = memory[: memory.shape[0] - 5], memory[memory.shape[0] - 5 :]
    fixed, direction, old_pose, old_gradient = vectors[0, :n], vectors[1, :n], vectors[2, :n], vectors[3, :n]
    before = state[ENERGY]
    largest = first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, params)
    size = max(largest, 1e-300)
    if restarted(state):
        state[TAU] = -1.0
    if state[TAU] >= 0.0:
        for i in range(n):
            direction[i] = theta[i] - old_pose[i]
            old_gradient[i] = ws.gradient[i] - old_gradient[i]
        learn(own, direction, old_gradient, vectors[4], state[TAU], params)
        state[TAU] += 1.0
    else:
        forget(own, size, params)
        state[TAU] = 0.0
    square = 0.0
    for i in range(n):
        square += 0.0 if fixed[i] != 0.0 else ws.gradient[i] * ws.gradient[i]
        old_pose[i], old_gradient[i] = theta[i], ws.gradient[i]
    tau, slope, length, after = 0.0, 0.0, 0.0, before
    if square > STATIONARY_GAIN * before:
        first = aim(own, fixed, ws.gradient, direction, vectors[4], state[TAU], size, params)
        if first > 0.0:
            tau, slope, length, after = line_search(
                figure, springs, lower, upper, theta, direction, first, ws, state, params
            )
        if tau == 0.0 and state[TAU] > 0.0:  # what was learnt does not help here: start learning again
            forget(own, size, params)
            state[TAU] = 0.0
            for i in range(n):
                direction[i] = -ws.gradient[i] / size * strength(params, n, i) ** 2
            tau, slope, length, after = line_search(
                figure, springs, lower, upper, theta, direction, 1.0, ws, state, params
            )
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = -1.0
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    return tau > 0.0


def quasi_newton(name: str, carve: Any, **kernels: Any) -> Any:
    """Return the entry that solves a batch by a quasi-Newton method with its own forget, learn and aim."""
    return batch_of(name, kernel(with_names(step, f"{name}_step", **kernels)), carve)


# --- BFGS in a box ---


@kernel
def forget_bfgs(own, size, params):
    """Reset the model of the Hessian, B (n, n), to a multiple of the metric of the joints' strengths."""
    n = own.shape[1]
    for i in range(n):
        for j in range(n):
            own[i, j] = size / strength(params, n, i) ** 2 if i == j else 0.0


@kernel
def aim_bfgs(own, fixed, gradient, direction, spare, count, size, params):
    """Solve B d = -g on the free dofs by Cholesky; return 1, or 0 where B is not positive definite there."""
    n = fixed.shape[0]
    model, factor = own[:n], own[n:]
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
        return 0.0
    cholesky_solve(factor, free, spare)
    free = 0
    for i in range(n):
        direction[i] = 0.0
        if fixed[i] == 0.0:
            direction[i] = spare[free]
            free += 1
    return 1.0


@kernel
def learn_bfgs(model, step, change, spare, count, params):
    """Update B with a step and its gradient change: BFGS with Powell's damping, so that B stays definite."""
    n = step.shape[0]
    sy, yy, sbs = 0.0, 0.0, 0.0
    for i in range(n):
        sy += step[i] * change[i]
        yy += (change[i] * strength(params, n, i)) ** 2
    if count == 0.0 and sy > 1e-12 * yy:
        forget_bfgs(model, yy / sy, params)
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
def carve_bfgs(own, lower, upper, params, b, g):
    """Return two matrices and five vectors (2 n + 5, n) of the scratch memory, and the box."""
    n = lower.shape[0]
    return matrix(own, 0, 2 * n + 5, n), lower, upper


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
    loop: ClassVar = staticmethod(quasi_newton("bfgs", carve_bfgs, forget=forget_bfgs, learn=learn_bfgs, aim=aim_bfgs))

    def memory(self, problem) -> int:
        """Return the scratch memory of the engine, the model and its factor."""
        n = problem.skeleton.size
        return problem.work_size + (2 * n + 5) * n


# --- BFGS with a short memory ---


@kernel
def forget_lbfgs(own, size, params):
    """Do nothing: how many pairs count is in the state."""


@kernel
def learn_lbfgs(pairs, step, change, spare, count, params):
    """Keep a pair (step, change of the gradient) in the place of the oldest."""
    k = 2 * (int(count) % (pairs.shape[0] // 2))
    for i in range(step.shape[0]):
        pairs[k, i], pairs[k + 1, i] = step[i], change[i]


@kernel
def aim_lbfgs(pairs, fixed, gradient, direction, factors, count, size, params):
    """Write d = -H g on the free dofs from the last pairs (step, change), newest first used (Nocedal 1980)."""
    n, most, count = gradient.shape[0], pairs.shape[0] // 2, int(count)
    for i in range(n):
        direction[i] = 0.0 if fixed[i] != 0.0 else -gradient[i]
    held = min(count, most)
    scale = 0.0
    for back in range(held):
        k = (count - 1 - back) % most
        s, y = pairs[2 * k], pairs[2 * k + 1]
        sy, sd, yy, weighted = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            if fixed[i] == 0.0:
                sy += s[i] * y[i]
                sd += s[i] * direction[i]
                yy += y[i] * y[i]
                weighted += (y[i] * strength(params, n, i)) ** 2
        factors[k] = 0.0
        if sy > 1e-10 * yy * 1e-3 and sy > 0.0:
            factors[k] = sd / sy
            if scale == 0.0:
                scale = sy / weighted
            for i in range(n):
                if fixed[i] == 0.0:
                    direction[i] -= factors[k] * y[i]
    for i in range(n):
        direction[i] *= (scale if scale > 0.0 else 1.0) * strength(params, n, i) ** 2
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
    return 1.0 if scale > 0.0 else min(1.0, 1.0 / size)


@kernel
def carve_lbfgs(own, lower, upper, params, b, g):
    """Return the pairs and five vectors of the scratch memory, and the box."""
    pairs = int(params[METHOD_OPTIONS])
    return matrix(own, 0, 2 * pairs + 5, max(lower.shape[0], pairs)), lower, upper


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
    loop: ClassVar = staticmethod(
        quasi_newton("lbfgs", carve_lbfgs, forget=forget_lbfgs, learn=learn_lbfgs, aim=aim_lbfgs)
    )

    def __post_init__(self):
        super().__post_init__()
        self.require("memory_size", isinstance(self.memory_size, int) and self.memory_size >= 1, "a positive integer")

    def memory(self, problem) -> int:
        """Return the scratch memory of the engine and of the pairs."""
        return problem.work_size + (2 * self.memory_size + 5) * max(problem.skeleton.size, self.memory_size)
