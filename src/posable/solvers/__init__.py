"""Every way to a pose, by name: one file per solver, each with its own options and its own loop."""

from typing import Any

from posable.solvers.solver import SOLVERS, Solver

__all__ = ["SOLVERS", "Solver", "get", "names"]

SOLVERS.lazy("newton", "posable.solvers.newton:Newton")


def names() -> tuple[str, ...]:
    """Return the names of all solvers, the default first."""
    return SOLVERS.names()


def get(name: str) -> Any:
    """Return the class of a solver by name; call it with its options to make one."""
    return SOLVERS.get(name)
