"""The transpose of the Jacobian: the cheapest step, and the slowest way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.solvers.linear import (
    FIRST_OPTION,
    LinearSolver,
    linear_batch_of,
    per_dof,
)
from posable.solvers.solver import register


@kernel
def solve_transpose(springs, lin, state, limits):
    """Write lin.step = tau J' V; tau is `length`, or, where that is zero, Buss's best one for a linear world (28)."""
    length = limits[FIRST_OPTION]
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
    loop: ClassVar = staticmethod(linear_batch_of("transpose", solve_transpose))

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
