"""The part of a figure that goals move, as a figure of its own: what carries no goal need not be computed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from posable.engine.layout import ABOVE, BODY, DEPTH, FIRST, LAST, ON, OTHER, PARENT, Figure, Order
from posable.model.joints import elimination_order, frozen_array


class Part(NamedTuple):
    """Some bodies of a figure with all that they hang from, and the springs on them."""

    figure: Figure
    order: Order
    depth: int  # the longest row of the Hessian
    kind: np.ndarray  # (g, 4) int64, pull and home (n,): as in `Springs`
    pull: np.ndarray
    home: np.ndarray
    dofs: np.ndarray  # (n,) int64: its degrees of freedom in the whole figure
    bodies: np.ndarray  # (b,) int64: its bodies there, parents first


def whole_of(figure: Figure, order: Order, depth: int, kind: np.ndarray, pull: np.ndarray, home: np.ndarray) -> Part:
    """Return a figure and its springs as a part that is all of it."""
    return Part(figure, order, depth, kind, pull, home, first_numbers(len(figure.dof)), first_numbers(len(figure.body)))


@lru_cache(maxsize=64)
def first_numbers(count: int) -> np.ndarray:
    """Return 0, 1 ... (count,) int64, read-only."""
    return frozen_array(np.arange(count, dtype=np.int64))


def part_of(whole: Part, bodies: Iterable[int]) -> Part:
    """Return the part of a figure that carries some bodies; the whole where that is all that moves.

    Args:
        whole: Without couplings across its branches.
        bodies: Their numbers; those below 0 are not in the figure.
    """
    figure = whole.figure
    wanted = sorted({b for body in bodies for b in carriers(figure, body)})
    dofs = np.array([i for b in wanted for i in range(*figure.body[b, [FIRST, LAST]])], dtype=np.int64)
    if len(dofs) in (0, len(figure.dof)):
        return whole
    new_body = {-1: -1, **{b: k for k, b in enumerate(wanted)}}
    new_dof = {-1: -1, **{int(i): k for k, i in enumerate(dofs)}}
    body, dof = figure.body[wanted].copy(), figure.dof[dofs].copy()
    body[:, PARENT] = [new_body[b] for b in body[:, PARENT].tolist()]
    counts = body[:, LAST] - body[:, FIRST]
    body[:, LAST] = np.cumsum(counts)
    body[:, FIRST] = body[:, LAST] - counts
    dof[:, ABOVE] = [new_dof[i] for i in dof[:, ABOVE].tolist()]
    dof[:, BODY] = [new_body[b] for b in dof[:, BODY].tolist()]
    kind = whole.kind.copy()
    for column in (ON, OTHER):
        kind[:, column] = [new_body[b] for b in kind[:, column].tolist()]
    order = elimination_order(dof, ())
    part = figure._replace(
        body=frozen_array(body), rest=frozen_array(figure.rest[wanted]), dof=frozen_array(dof),
        sign=frozen_array(figure.sign[dofs]), mass=frozen_array(figure.mass[wanted]),
    )  # fmt: skip
    return Part(
        part, order, int(order.rows[:, DEPTH].max()) + 1, kind, whole.pull[dofs], whole.home[dofs],
        frozen_array(dofs), frozen_array(np.array(wanted, dtype=np.int64)),
    )  # fmt: skip


def carriers(figure: Figure, body: int) -> list[int]:
    """Return a body and all that it hangs from."""
    out = []
    while body >= 0:
        out.append(body)
        body = int(figure.body[body, PARENT])
    return out
