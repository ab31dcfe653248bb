"""The pseudo-inverse by QR factorisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import entry, kernel
from posable.kernels.dense import qr_factor, qr_least_norm, qr_least_squares
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
def solve_qr(lin, relative):
    """Write lin.step by QR: of J' where rows are not more than dofs (the shortest step), else of J (least squares)."""
    m, n = lin.active.shape
    if m > n:
        rank = qr_factor(lin.active, m, n, lin.vectors[0], lin.vectors[1], relative)
        qr_least_squares(lin.active, m, n, rank, lin.vectors[0], lin.vectors[1], lin.right, lin.step)
        return
    a = lin.first
    for k in range(m):
        for i in range(n):
            a[i, k] = lin.active[k, i]
    rank = qr_factor(a, n, m, lin.vectors[0], lin.vectors[1], relative)
    qr_least_norm(a, n, m, rank, lin.vectors[0], lin.vectors[1], lin.right, lin.step)


@kernel
def qr_loop(figure, springs, tolerances, lower, upper, theta, start, ws, lin, state, limits, trace):
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
            solve_qr(lin, limits[FIRST_OPTION])
            if not complete(theta, limits, lin):
                break
        moved = take_step(figure, springs, theta, ws, lin, state, limits, trace)
        code = after_step(figure, springs, tolerances, lin.low, lin.high, theta, start, ws, state, limits, moved)
        if code != GO_ON:
            return code


@entry
def qr_batch(
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
        code = qr_loop(figure, springs, tolerances, lower, upper, theta, starts[t], ws, lin, states[t], limits, trace)
        outcome[t] = finish(figure, springs, tolerances, lower, upper, theta, ws, code, errors[t])


@register("qr")
@dataclass(frozen=True, kw_only=True)
class Qr(LinearSolver):
    """QR factorisation: J = QR, y = Q'V, R step = y; seed 001 figure 8.

    The Jacobian is seldom square: with fewer rows than degrees of freedom J' is factored and the step is the shortest
    one. Columns are pivoted; those shorter than `relative` times the first are let go.
    """

    relative: float = 1e-6

    name: ClassVar[str] = "qr"
    summary: ClassVar[str] = "pseudo-inverse by Householder QR"
    loop: ClassVar = staticmethod(qr_batch)

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.relative < 1.0:
            raise SolverError("qr: relative", expected="a number in [0, 1)", got=repr(self.relative))

    def options(self) -> tuple[float, ...]:
        """Return the threshold of the rank."""
        return (self.relative,)
