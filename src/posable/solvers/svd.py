"""The pseudo-inverse through singular values, with small ones cut off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import entry, kernel
from posable.kernels.dense import svd_rows
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
def solve_svd(lin, threshold):
    """Write lin.step = sum of v_i (u_i . right) / sigma_i over the larger singular values: seed 001 figure 8."""
    m, n = lin.active.shape
    u, squares = lin.first, lin.vectors[0]
    svd_rows(lin.active, m, n, u)
    largest = 0.0
    for k in range(m):
        squares[k] = 0.0
        for i in range(n):
            squares[k] += lin.active[k, i] * lin.active[k, i]
        largest = max(largest, squares[k])
    for i in range(n):
        lin.step[i] = 0.0
    for k in range(m):
        if squares[k] > threshold * threshold * largest:
            dot = 0.0
            for j in range(m):
                dot += u[j, k] * lin.right[j]
            for i in range(n):
                lin.step[i] += lin.active[k, i] * dot / squares[k]


@kernel
def svd_loop(figure, springs, tolerances, lower, upper, theta, start, ws, lin, state, limits, trace):
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
            solve_svd(lin, limits[FIRST_OPTION])
            if not complete(theta, limits, lin):
                break
        moved = take_step(figure, springs, theta, ws, lin, state, limits, trace)
        code = after_step(figure, springs, tolerances, lin.low, lin.high, theta, start, ws, state, limits, moved)
        if code != GO_ON:
            return code


@entry
def svd_batch(
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
        code = svd_loop(figure, springs, tolerances, lower, upper, theta, starts[t], ws, lin, states[t], limits, trace)
        outcome[t] = finish(figure, springs, tolerances, lower, upper, theta, ws, code, errors[t])


@register("svd")
@dataclass(frozen=True, kw_only=True)
class Svd(LinearSolver):
    """The pseudo-inverse by singular values, J = U S V', step = V S+ U' V; seed 001 figure 8, seed 000 section 2.

    threshold: singular values below this part of the largest count as zero. The limits count only at the end, by
    projection of the final pose, as seed 000 describes Blender's solver; bounds="inside" or "clamp" does better.
    """

    threshold: float = 1e-3
    bounds: str = "final"

    name: ClassVar[str] = "svd"
    summary: ClassVar[str] = "pseudo-inverse by singular values, projecting the final pose"
    loop: ClassVar = staticmethod(svd_batch)

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.threshold < 1.0:
            raise SolverError("svd: threshold", expected="a number in [0, 1)", got=repr(self.threshold))

    def options(self) -> tuple[float, ...]:
        """Return the threshold of the singular values."""
        return (self.threshold,)
