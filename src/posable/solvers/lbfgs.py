"""BFGS with a short memory, in a box: no matrix, for figures of many degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.solvers.descent import (
    OWN_OPTIONS,
    TAU,
    DescentSolver,
    accept,
    first_derivatives,
    line_search,
    write_trace,
)
from posable.solvers.looping import (
    ENERGY,
    STATIONARY_GAIN,
    batch_of,
    started_elsewhere,
)
from posable.solvers.solver import register


@kernel
def two_loops(fixed, gradient, pairs, count, most, direction, factors):
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
                scale = sy / yy
            for i in range(n):
                if fixed[i] == 0.0:
                    direction[i] -= factors[k] * y[i]
    if scale > 0.0:
        for i in range(n):
            direction[i] *= scale
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
def carve_lbfgs(work, lower, upper, limits, n, b, g):
    """Return the pairs and five vectors from the end of the scratch memory, and the box."""
    rows, wide = 2 * int(limits[OWN_OPTIONS]) + 5, max(n, int(limits[OWN_OPTIONS]))
    return work[work.shape[0] - rows * wide :].reshape(rows, wide), lower, upper


@kernel
def lbfgs_step(figure, order, springs, lower, upper, theta, ws, memory, state, limits, trace):
    """Make one quasi-Newton step, in place; return whether there was one to make. state[TAU]: pairs seen, or -1."""
    n = theta.shape[0]
    most = int(limits[OWN_OPTIONS])
    pairs, vectors = memory[: 2 * most], memory[2 * most : 2 * most + 4]
    fixed, direction, old_pose, old_gradient = vectors[0, :n], vectors[1, :n], vectors[2, :n], vectors[3, :n]
    before = state[ENERGY]
    largest = first_derivatives(figure, order, springs, lower, upper, theta, ws, fixed, limits)
    if started_elsewhere(state):
        state[TAU] = -1.0
    if state[TAU] >= 0.0:
        k = int(state[TAU]) % most
        for i in range(n):
            pairs[2 * k, i] = theta[i] - old_pose[i]
            pairs[2 * k + 1, i] = ws.gradient[i] - old_gradient[i]
        state[TAU] += 1.0
    else:
        state[TAU] = 0.0
    square = 0.0
    for i in range(n):
        square += 0.0 if fixed[i] != 0.0 else ws.gradient[i] * ws.gradient[i]
        old_pose[i] = theta[i]
        old_gradient[i] = ws.gradient[i]
    tau, slope, length, after = 0.0, 0.0, 0.0, before
    if square > STATIONARY_GAIN * before:
        learnt = two_loops(fixed, ws.gradient, pairs, int(state[TAU]), most, direction, memory[2 * most + 4])
        first = 1.0 if learnt > 0.0 else min(1.0, 1.0 / max(largest, 1e-300))
        tau, slope, length, after = line_search(
            figure, springs, lower, upper, theta, direction, first, ws, state, limits
        )
        if tau == 0.0 and learnt > 0.0:  # the memory is of no use here: go down the gradient and learn anew
            for i in range(n):
                direction[i] = -ws.gradient[i] / max(largest, 1e-300)
            tau, slope, length, after = line_search(
                figure, springs, lower, upper, theta, direction, 1.0, ws, state, limits
            )
            state[TAU] = 0.0
    if tau > 0.0 and accept(figure, lower, upper, theta, ws, state, after):
        state[TAU] = -1.0
    write_trace(trace, state, largest, length, tau, fixed, slope, before)
    return tau > 0.0


@register("lbfgs")
@dataclass(frozen=True, kw_only=True)
class Lbfgs(DescentSolver):
    """Limited-memory BFGS in a box: the two-loop recursion over the last pairs, on the dofs that no bound holds.

    memory_size: how many pairs of steps and gradient changes are kept (Nocedal 1980). Search as in seed 000 (39).
    """

    memory_size: int = 10

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "box-constrained BFGS with limited memory"
    loop: ClassVar = staticmethod(batch_of("lbfgs", lbfgs_step, carve_lbfgs))

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.memory_size, int) or self.memory_size < 1:
            raise SolverError("lbfgs: memory_size", expected="a whole number from 1", got=repr(self.memory_size))

    def options(self) -> tuple[float, ...]:
        """Return how many pairs are kept."""
        return (float(self.memory_size),)

    def memory(self, problem) -> int:
        """Return the scratch memory of the engine and of the pairs."""
        return problem.work_size + (2 * self.memory_size + 5) * max(problem.skeleton.size, self.memory_size)
