"""Projected Newton with the exact Hessian: the default solver.

The options and the entry into the compiled loop (engine/newton.py), which describes the method: Engell-Nørregård &
Erleben 2011 (projection and the Armijo test (39)) with the exact second derivatives of Erleben & Andrews 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine.newton import ALWAYS, AUTO, NEVER, STATE_WIDTH, VERDICT, newton_batch, newton_params
from posable.model.kinematics import Part
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions, register, strength_of


@register("newton")
@dataclass(frozen=True)
class Newton(CompiledSolver):
    """Projected Newton with the exact Hessian (mathematics.md): the default.

    Args:
        alpha: Fraction of the predicted decrease that a step must give (Engell-Nørregård & Erleben 2011, eq. 39).
        damping: Of the first step, relative to the mean diagonal of the Hessian.
        exact: "auto" takes the exact Hessian where Gauss-Newton steps gain too little, "always" wherever it is positive
            definite; "never" is damped Gauss-Newton.
        limbs: Hands and feet land exactly: their limbs are solved in closed form once Newton has placed their base.
    """

    alpha: float = 1e-4
    damping: float = 1e-2
    exact: str = "auto"
    limbs: bool = False

    name: ClassVar[str] = "newton"
    summary: ClassVar[str] = "projected Newton with the exact Hessian; the default"
    iterations: ClassVar[int] = 200
    state_width: ClassVar[int] = STATE_WIDTH
    verdict_column: ClassVar[int | None] = VERDICT
    loop: ClassVar = staticmethod(newton_batch)

    def __post_init__(self):
        self.require("exact", self.exact in EXACT_NAMES, "'auto', 'always' or 'never'")

    def fitted(self, problem: Problem) -> Callable[..., Any]:
        """Return the loop, compiled with the features that the problem needs."""
        return problem.fitted(newton_batch)

    def part(self, problem: Problem) -> Part:
        """Return the part of the figure that the goals move; the rest keeps its start exactly."""
        return problem.moving

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of `newton_loop`."""
        key = (problem.soft, self.alpha, self.damping, self.exact, options.max_iterations, options.restarts)
        return problem.once(key, lambda: self._params(problem, options))

    def _params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        most = options.max_iterations
        if most is None:
            most = self.iterations * (1 + options.restarts)
        params = newton_params(
            most, restarts=options.restarts, soft=problem.soft, alpha=self.alpha,
            damping=self.damping, exact=EXACT_NAMES[self.exact],
        )  # fmt: skip
        strength = strength_of(problem)[problem.moving.dofs]
        return np.concatenate([params, [] if (strength == 1.0).all() else strength**-2.0])


EXACT_NAMES = {"never": NEVER, "auto": AUTO, "always": ALWAYS}
