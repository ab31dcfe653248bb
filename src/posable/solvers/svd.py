"""The pseudo-inverse through singular values, with small ones cut off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.kernels.dense import svd_rows
from posable.solvers.linear import (
    FIRST_OPTION,
    LinearSolver,
    linear_batch_of,
)
from posable.solvers.solver import register


@kernel
def solve_svd(springs, lin, state, limits):
    """Write lin.step = sum of v_i (u_i . right) / sigma_i over the larger singular values: seed 001 figure 8."""
    threshold = limits[FIRST_OPTION]
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
    loop: ClassVar = staticmethod(linear_batch_of("svd", solve_svd))

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.threshold < 1.0:
            raise SolverError("svd: threshold", expected="a number in [0, 1)", got=repr(self.threshold))

    def options(self) -> tuple[float, ...]:
        """Return the threshold of the singular values."""
        return (self.threshold,)
