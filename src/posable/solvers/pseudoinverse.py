"""The pseudo-inverse of the Jacobian: the shortest step that does what is wanted, singular or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import entry, kernel
from posable.kernels.dense import lu_factor, lu_solve
from posable.kernels.fields import Springs
from posable.kernels.kinematics import workspace
from posable.kernels.stepping import RUNNING
from posable.solvers.linear import (
    FIRST_OPTION,
    PASSES,
    LinearSolver,
    complete,
    linear,
    linearise,
    prepare,
    take_step,
    working_box,
)
from posable.solvers.looping import GO_ON, PIECE, after_step, before_step, begin, finish
from posable.solvers.solver import register


@kernel
def solve_pseudoinverse(lin, relative):
    """Write lin.step = J' beta with (JJ') beta = right, by LU: seed 002 (5.21)-(5.23).

    Where rows depend on one another JJ' has no inverse; the dependent ones are let go, pivot by pivot.
    """
    m, n = lin.active.shape
    a, beta = lin.first, lin.vectors[2]
    for k in range(m):
        for j in range(m):
            total = 0.0
            for i in range(n):
                total += lin.active[k, i] * lin.active[j, i]
            a[k, j] = total
    rank = lu_factor(a, m, lin.vectors[0], lin.vectors[1], relative)
    lu_solve(a, m, rank, lin.vectors[0], lin.vectors[1], lin.right, beta, lin.vectors[3])
    for i in range(n):
        total = 0.0
        for k in range(m):
            total += lin.active[k, i] * beta[k]
        lin.step[i] = total


@kernel
def pseudoinverse_loop(figure, springs, tolerances, lower, upper, theta, start, ws, lin, state, limits, trace):
    """Advance one problem by at most limits[PIECE] iterations from its state; return what became of it."""
    working_box(lower, upper, limits, lin)
    begin(figure, springs, lin.low, lin.high, theta, ws, state)
    left = limits[PIECE]
    while True:
        code = before_step(figure, springs, tolerances, theta, ws, state, limits, left)
        if code != GO_ON:
            return code
        left -= 1.0
        linearise(figure, springs, theta, ws, limits, lin)
        for _ in range(PASSES):
            prepare(lin)
            solve_pseudoinverse(lin, limits[FIRST_OPTION])
            if not complete(theta, limits, lin):
                break
        moved = take_step(figure, springs, theta, ws, lin, state, limits, trace)
        code = after_step(figure, springs, tolerances, lin.low, lin.high, theta, start, ws, state, limits, moved)
        if code != GO_ON:
            return code


@entry
def pseudoinverse_batch(
    figure, order, kind, data, pull, home, tolerances, lower, upper, poses, starts, work, d, states, limits, errors,
    outcome, trace,
):  # fmt: skip
    """Solve every problem of a batch; the arrays are those of `newton_batch`."""
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    lin = linear(work, limits, n, g)
    for t in range(poses.shape[0]):
        if outcome[t] != RUNNING:
            continue
        springs = Springs(kind, data[t if data.shape[0] > 1 else 0], pull, home)
        theta = poses[t]
        code = pseudoinverse_loop(
            figure, springs, tolerances, lower, upper, theta, starts[t], ws, lin, states[t], limits, trace
        )
        outcome[t] = finish(figure, springs, tolerances, lower, upper, theta, ws, code, errors[t])


@register("pseudoinverse")
@dataclass(frozen=True, kw_only=True)
class Pseudoinverse(LinearSolver):
    """The pseudo-inverse: step = J' (JJ')^-1 V, solved by LU without forming an inverse; seed 002 (5.21)-(5.23).

    Near a singular pose its steps grow without bound; `max_step` is the clamp that seed 002 asks for. relative: pivots
    of JJ' below this part of the largest count as zero.
    """

    relative: float = 1e-12

    name: ClassVar[str] = "pseudoinverse"
    summary: ClassVar[str] = "pseudo-inverse of the Jacobian by LU"
    loop: ClassVar = staticmethod(pseudoinverse_batch)

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.relative < 1.0:
            raise SolverError("pseudoinverse: relative", expected="a number in [0, 1)", got=repr(self.relative))

    def options(self) -> tuple[float, ...]:
        """Return the threshold of the pivots."""
        return (self.relative,)
