"""The pseudo-inverse of the Jacobian: the shortest step that does what is wanted, singular or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.kernels.dense import lu_factor, lu_solve
from posable.solvers.linear import (
    FIRST_OPTION,
    LinearSolver,
    linear_batch_of,
)
from posable.solvers.solver import register


@kernel
def solve_pseudoinverse(springs, lin, state, limits):
    """Write lin.step = J' beta with (JJ') beta = right, by LU: seed 002 (5.21)-(5.23).

    Where rows depend on one another JJ' has no inverse; the dependent ones are let go, pivot by pivot.
    """
    relative = limits[FIRST_OPTION]
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
    loop: ClassVar = staticmethod(linear_batch_of("pseudoinverse", solve_pseudoinverse))

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.relative < 1.0:
            raise SolverError("pseudoinverse: relative", expected="a number in [0, 1)", got=repr(self.relative))

    def options(self) -> tuple[float, ...]:
        """Return the threshold of the pivots."""
        return (self.relative,)
