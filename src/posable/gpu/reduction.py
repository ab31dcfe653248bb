"""What no goal moves is left out: a hand that carries none has no business in a matrix that is factored every turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.kernels.fields import (
    ABOVE,
    BODY,
    DEPTH,
    FIRST,
    LAST,
    ON,
    PARENT,
    Figure,
    Order,
)
from posable.problem import Problem
from posable.skeleton.flatten import elimination_order


class Reduced(NamedTuple):
    """The part of a problem that its goals move, in arrays like the whole's."""

    figure: Figure
    order: Order
    kind: np.ndarray
    pull: np.ndarray
    home: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kept: np.ndarray  # (n,) int64: the dofs of the whole figure that are in it

    @property
    def depth(self) -> int:
        """The longest row of the Hessian."""
        return int(self.order.rows[:, DEPTH].max()) + 1


def reduced(problem: Problem, lower: np.ndarray, upper: np.ndarray) -> Reduced:
    """Return the bodies that goals are on, and all that carry them; everything where dofs are coupled or pulled."""
    figure = problem.skeleton.figure
    whole = Reduced(
        figure, problem.order, problem.kind, problem.pull, problem.home, lower, upper, np.arange(problem.skeleton.size)
    )
    if problem.coupled or problem.pull.any():
        return whole
    bodies = sorted({b for body in problem.kind[:, ON].tolist() for b in carriers(figure, body)})
    kept = np.array([i for b in bodies for i in range(*figure.body[b, [FIRST, LAST]])], dtype=np.int64)
    if len(kept) in (0, problem.skeleton.size):
        return whole
    new_body = {-1: -1, **{b: k for k, b in enumerate(bodies)}}
    new_dof = {-1: -1, **{int(i): k for k, i in enumerate(kept)}}
    body, dof = figure.body[bodies].copy(), figure.dof[kept].copy()
    body[:, PARENT] = [new_body[b] for b in body[:, PARENT].tolist()]
    counts = body[:, LAST] - body[:, FIRST]
    body[:, LAST] = np.cumsum(counts)
    body[:, FIRST] = body[:, LAST] - counts
    dof[:, ABOVE] = [new_dof[i] for i in dof[:, ABOVE].tolist()]
    dof[:, BODY] = [new_body[b] for b in dof[:, BODY].tolist()]
    kind = problem.kind.copy()
    kind[:, ON] = [new_body[b] for b in kind[:, ON].tolist()]
    part = Figure(body, figure.rest[bodies], dof, figure.sign[kept], figure.mass[bodies])
    order = elimination_order(dof, ())
    return Reduced(part, order, kind, problem.pull[kept], problem.home[kept], lower[kept], upper[kept], kept)


def carriers(figure: Figure, body: int) -> list[int]:
    """Return a body and all that it hangs from."""
    out = []
    while body >= 0:
        out.append(body)
        body = int(figure.body[body, PARENT])
    return out
