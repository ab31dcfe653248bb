"""Projected Newton with the exact gathered Hessian: the default solver.

It joins Engell-Nørregård & Erleben 2011 (projection and the Armijo test (39)) with Erleben & Andrews 2018 (exact
second derivatives): bounds at which the
gradient pushes outward are held, the damped Newton step is taken on the rest (two-metric projection, Bertsekas), the
Gauss-Newton stiffness steps in where the exact one is indefinite or would gain nothing, and at a saddle the figure
moves off along a direction of negative curvature. One compiled loop from start to end, restarts included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posable.engine.newton import ALWAYS, NEVER, STATE_WIDTH, WHERE_IT_PAYS, newton_batch
from posable.errors import SolverError
from posable.solvers.base import CompiledSolver, Request, register, strength_of


@register("newton")
@dataclass(frozen=True)
class Newton(CompiledSolver):
    """Projected Newton with the exact Hessian (mathematics.md): the default.

    alpha: how much of the predicted decrease a step must give, Engell-Nørregård & Erleben 2011 (39). damping: of the
    first step, relative to
    the mean diagonal of the Hessian. exact: "auto" takes the exact Hessian where Gauss-Newton steps gain too little,
    "always" takes it wherever it is positive definite, "never" is damped Gauss-Newton. limbs: hands and feet then land
    exactly, their limbs solved in closed form once Newton has placed their base.
    """

    alpha: float = 1e-4
    damping: float = 1e-2
    exact: str = "auto"
    limbs: bool = False

    name: ClassVar[str] = "newton"
    summary: ClassVar[str] = "projected Newton with the exact gathered Hessian; the default"
    iterations: ClassVar[int] = 200
    state_width: ClassVar[int] = STATE_WIDTH
    loop: ClassVar = staticmethod(newton_batch)

    def __post_init__(self):
        if self.exact not in EXACT_NAMES:
            raise SolverError("newton: exact", expected="'auto', 'always' or 'never'", got=repr(self.exact))

    def limits(self, problem, request: Request) -> np.ndarray:
        """Return what `newton_loop` reads, column by column."""
        most = request.max_iterations
        if most is None:
            most = self.iterations * (1 + request.restarts)
        params = np.array(
            (
                most + 2.0,
                most,
                request.restarts,
                self.alpha,
                self.damping,
                problem.soft,
                problem.coupled,
                EXACT_NAMES[self.exact],
            )
        )
        strength = strength_of(problem)
        return params if (strength == 1.0).all() else np.concatenate([params, strength**-2.0])


EXACT_NAMES = {"never": NEVER, "auto": WHERE_IT_PAYS, "always": ALWAYS}
