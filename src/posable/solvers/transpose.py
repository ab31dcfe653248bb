"""The transpose of the Jacobian: the cheapest step, and the slowest way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import entry, kernel
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
    per_dof,
    prepare,
    take_step,
    working_box,
)
from posable.solvers.looping import GO_ON, PIECE, after_step, before_step, begin, finish
from posable.solvers.solver import register


@kernel
def solve_transpose(lin, length):
    """Write lin.step = tau J' V; tau is `length`, or, where that is zero, Buss's best one for a linear world (28)."""
    m, n = lin.active.shape
    for i in range(n):
        total = 0.0
        for k in range(m):
            total += lin.active[k, i] * lin.right[k]
        lin.step[i] = total
    if length == 0.0:
        top, bottom = 0.0, 0.0
        for k in range(m):
            z = 0.0
            for i in range(n):
                z += lin.active[k, i] * lin.step[i]
            top += lin.right[k] * z
            bottom += z * z
        length = top / bottom if bottom > 0.0 else 0.0
    for i in range(n):
        lin.step[i] *= length


@kernel
def transpose_loop(figure, springs, tolerances, lower, upper, theta, start, ws, lin, state, limits, trace):
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
            solve_transpose(lin, limits[FIRST_OPTION])
            if not complete(theta, limits, lin):
                break
        moved = take_step(figure, springs, theta, ws, lin, state, limits, trace)
        code = after_step(figure, springs, tolerances, lin.low, lin.high, theta, start, ws, state, limits, moved)
        if code != GO_ON:
            return code


@entry
def transpose_batch(
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
        code = transpose_loop(
            figure, springs, tolerances, lower, upper, theta, starts[t], ws, lin, states[t], limits, trace
        )
        outcome[t] = finish(figure, springs, tolerances, lower, upper, theta, ws, code, errors[t])


@register("transpose")
@dataclass(frozen=True, kw_only=True)
class Transpose(LinearSolver):
    """The Jacobian's transpose: step = tau J' K e; seed 000 (27), seed 002 section 5.3.3, seed 003 section 2.2 item 6.

    step: tau, a number (fixed, as seed 000's comparison and seed 002's scale term have it: in radians per square
    length), or "buss" for tau = e.z / z.z with z = JJ'e, seed 000 (28). There is no null space to control: `gains` is
    refused.
    """

    step: float | str = "buss"

    name: ClassVar[str] = "transpose"
    summary: ClassVar[str] = "Jacobian transpose, with a fixed step or Buss's"
    iterations: ClassVar[int] = 2000
    loop: ClassVar = staticmethod(transpose_batch)

    def __post_init__(self):
        super().__post_init__()
        if self.step != "buss" and not (isinstance(self.step, (int, float)) and self.step > 0.0):
            raise SolverError("transpose: step", expected="a positive number or 'buss'", got=repr(self.step))

    def check(self, problem) -> None:
        """Raise SolverError for gains as well: J' has no null-space projector."""
        super().check(problem)
        if per_dof(self.gains, problem, "transpose: gains").any():
            raise SolverError("transpose: gains", expected="none: it has no null space", got=repr(self.gains))

    def options(self) -> tuple[float, ...]:
        """Return the step length, zero for Buss's."""
        return (0.0 if self.step == "buss" else float(self.step),)
