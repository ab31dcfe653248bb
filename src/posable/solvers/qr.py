"""The pseudo-inverse by QR factorisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.kernels.dense import qr_factor, qr_least_norm, qr_least_squares
from posable.solvers.linear import (
    FIRST_OPTION,
    LinearSolver,
    linear_batch_of,
)
from posable.solvers.solver import register


@kernel
def solve_qr(springs, lin, state, limits):
    """Write lin.step by QR: of J' where rows are not more than dofs (the shortest step), else of J (least squares)."""
    relative = limits[FIRST_OPTION]
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
    loop: ClassVar = staticmethod(linear_batch_of("qr", solve_qr))

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.relative < 1.0:
            raise SolverError("qr: relative", expected="a number in [0, 1)", got=repr(self.relative))

    def options(self) -> tuple[float, ...]:
        """Return the threshold of the rank."""
        return (self.relative,)
