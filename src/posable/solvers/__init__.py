"""The solvers by name; each has its own options and its own loop."""

from typing import Any

from posable.solvers.base import SOLVERS, Solver, option_value, options_of

__all__ = ["SOLVERS", "Solver", "get", "names", "option_value", "options"]

SOLVERS.lazy("newton", "posable.solvers.newton:Newton")
SOLVERS.lazy("levenberg-marquardt", "posable.solvers.trust_region:LevenbergMarquardt")
SOLVERS.lazy("trust-region", "posable.solvers.trust_region:TrustRegion")
SOLVERS.lazy("bfgs", "posable.solvers.quasi_newton:Bfgs")
SOLVERS.lazy("lbfgs", "posable.solvers.quasi_newton:Lbfgs")
SOLVERS.lazy("projected-gradient", "posable.solvers.gradient:ProjectedGradient")
SOLVERS.lazy("projected-cg", "posable.solvers.gradient:ProjectedCg")
SOLVERS.lazy("transpose", "posable.solvers.least_squares:Transpose")
SOLVERS.lazy("pseudoinverse", "posable.solvers.least_squares:Pseudoinverse")
SOLVERS.lazy("dls", "posable.solvers.least_squares:Dls")
SOLVERS.lazy("sdls", "posable.solvers.least_squares:Sdls")
SOLVERS.lazy("svd", "posable.solvers.least_squares:Svd")
SOLVERS.lazy("qr", "posable.solvers.least_squares:Qr")
SOLVERS.lazy("rate", "posable.solvers.scipy_methods:Rate")
SOLVERS.lazy("ccd", "posable.solvers.ccd:Ccd")
SOLVERS.lazy("fabrik", "posable.solvers.fabrik:Fabrik")
SOLVERS.lazy("sqp", "posable.solvers.scipy_methods:Sqp")
SOLVERS.lazy("limb", "posable.limb.solver:LimbSolver")


def names() -> tuple[str, ...]:
    """Return the names of all solvers, the default first."""
    return SOLVERS.names()


def get(name: str) -> Any:
    """Return the class of a solver by name; call it with its options to make one."""
    return SOLVERS.get(name)


def options(name: str) -> dict[str, Any]:
    """Return the options of a solver by name, with their defaults."""
    return options_of(name)
