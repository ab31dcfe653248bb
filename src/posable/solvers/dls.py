"""Damped least squares: the pseudo-inverse made robust near singularities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.kernels.dense import cholesky, cholesky_solve, lu_factor, lu_solve
from posable.solvers.linear import (
    FIRST_OPTION,
    ROWS,
    SECOND_OPTION,
    LinearSolver,
    linear_batch_of,
)
from posable.solvers.looping import DAMPING
from posable.solvers.solver import register


@kernel
def solve_rows(lin, square):
    """Write lin.step = J' (JJ' + square)^-1 right, by LU: seed 002 (5.24), seed 001 (35)."""
    m, n = lin.active.shape
    a, beta = lin.first, lin.vectors[2]
    for k in range(m):
        for j in range(m):
            total = square if k == j else 0.0
            for i in range(n):
                total += lin.active[k, i] * lin.active[j, i]
            a[k, j] = total
    rank = lu_factor(a, m, lin.vectors[0], lin.vectors[1], 1e-15)
    lu_solve(a, m, rank, lin.vectors[0], lin.vectors[1], lin.right, beta, lin.vectors[3])
    for i in range(n):
        total = 0.0
        for k in range(m):
            total += lin.active[k, i] * beta[k]
        lin.step[i] = total


@kernel
def solve_columns(lin, square):
    """Write lin.step = (J'J + square)^-1 J' right, by Cholesky: seed 000 (15). The same step, for many goals."""
    m, n = lin.active.shape
    a = lin.first
    for i in range(n):
        for j in range(i + 1):
            total = square if i == j else 0.0
            for k in range(m):
                total += lin.active[k, i] * lin.active[k, j]
            a[i, j] = total
        total = 0.0
        for k in range(m):
            total += lin.active[k, i] * lin.right[k]
        lin.step[i] = total
    if cholesky(a, n, 0.0):
        cholesky_solve(a, n, lin.step)
    else:
        for i in range(n):
            lin.step[i] = 0.0


@kernel
def solve_dls(springs, lin, state, limits):
    """Write lin.step in the smaller of the two forms."""
    state[DAMPING] = limits[FIRST_OPTION]  # for the trace
    square = limits[FIRST_OPTION] * limits[FIRST_OPTION]
    if limits[SECOND_OPTION] != 0.0:
        solve_columns(lin, square)
    else:
        solve_rows(lin, square)


@register("dls")
@dataclass(frozen=True, kw_only=True)
class Dls(LinearSolver):
    """Damped least squares: step = J' (JJ' + damping^2 1)^-1 V; seed 002 (5.24), seed 000 (15), seed 001 (35).

    damping: lambda, in the units of the weighted residuals per radian; large damping is safe and slow. (Seed 001 writes
    lambda for its square.) form: "rows" solves (5.24) by LU, "columns" solves (15) by Cholesky: the same step, cheaper
    where there are more goals than degrees of freedom; "auto" takes the smaller matrix.
    """

    damping: float = 0.05
    form: str = "auto"

    name: ClassVar[str] = "dls"
    summary: ClassVar[str] = "damped least squares"
    loop: ClassVar = staticmethod(linear_batch_of("dls", solve_dls))

    def __post_init__(self):
        super().__post_init__()
        if not self.damping > 0.0:
            raise SolverError("dls: damping", expected="a positive number", got=repr(self.damping))
        if self.form not in ("auto", "rows", "columns"):
            raise SolverError("dls: form", expected="'auto', 'rows' or 'columns'", got=repr(self.form))

    def limits(self, problem, request):
        """Return what `solve_dls` reads, with the smaller form chosen."""
        out = super().limits(problem, request)
        out[SECOND_OPTION] = self.form == "columns" or (self.form == "auto" and out[ROWS] > problem.skeleton.size)
        return out

    def options(self) -> tuple[float, ...]:
        """Return the damping."""
        return (self.damping,)
