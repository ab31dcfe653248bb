"""A controller packed into two flat arrays, so that compiled code is entered with two arguments.

Numba inspects each array argument. Figure, springs and state of a controller are about thirty arrays, and inspecting
them takes as long as the step itself. `carve` returns views of the flat arrays inside kernels; `views` is the same
function in plain Python, for the caller, who writes targets into them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.engine.jit import kernel, with_names
from posable.engine.layout import (
    CONSTANTS,
    SOLID_WIDTH,
    TARGETS,
    Figure,
    Levels,
    Order,
    Springs,
    matrix,
    take_matrix,
    take_vector,
)

# Header of the integers: sizes
DOFS, BODIES, SPRINGS, GOALS, DEPTHS, SOLIDS, CORNERS, BALLS, FIELD, TOUCHES, PAIRS, ROWS = range(12)
PARAMS, LEVELS, WORK = range(12, 15)
HEAD = 15
ASKED = 17  # size of a new target: at most a transform by rows, then one of the codes below
QUIET, NEW, HELD = 0.0, 1.0, 2.0  # no new target; a new target; one that is not finite, so that the last one is kept


class Packed(NamedTuple):
    """Views of the arrays of a packed controller."""

    errors: np.ndarray  # (g,) float64 [m, rad]: of the springs at the new pose
    state: np.ndarray  # (ROWS, n) float64: see `posable.engine.speed_limits`
    params: np.ndarray  # (PARAMS,) float64: see `posable.engine.boxed_newton`
    asked: np.ndarray  # (goals, ASKED) float64 [m, 1]: new targets
    goals: np.ndarray  # (goals, 2) int64: the first spring of each goal, and how many numbers its target has
    figure: Figure
    order: Order
    tree: Order  # that of the figure alone, where no spring couples its branches
    springs: Springs
    levels: Levels
    work: np.ndarray  # float64: scratch memory, see `workspace`


def pack(
    figure: Figure, order: Order, tree: Order, springs: Springs, goals, depth: int, rows: int, params: int,
    levels: int, work: int,
):  # fmt: skip
    """Return integers and floats: the figure, its springs, and room for a state, params and scratch memory.

    Args:
        figure: The figure.
        order: Its elimination order.
        tree: Its elimination order where no spring couples its branches.
        springs: The goals' springs.
        goals: (goals, 2) int64, see `Packed`.
        depth: Of the elimination tree.
        rows: Of the state (rows, n).
        params: How many.
        levels: Of strict priorities; 0 where there is one alone.
        work: How many numbers of scratch memory.
    """
    n, b, g = len(figure.dof), len(figure.body), len(springs.kind)
    head = (
        n, b, g, len(goals), depth, len(figure.solid), len(figure.corner), len(figure.ball), len(figure.field),
        len(figure.touch), len(figure.pair), rows, params, levels, work,
    )  # fmt: skip
    ints = (
        np.array(head), goals, figure.body, figure.dof, figure.touch, figure.pair, order.rows, tree.rows, springs.kind,
    )  # fmt: skip
    floats = (
        np.zeros(g + rows * n + params + len(goals) * ASKED), figure.rest, figure.sign, figure.mass, figure.solid,
        figure.corner, figure.ball, figure.field, springs.constants, springs.targets, springs.pull, springs.home,
        np.zeros(levels * (CONSTANTS * g + 3 * n + n * depth + 3) + (n * depth if levels else 0) + work),
    )  # fmt: skip
    return (
        np.concatenate([np.asarray(part, dtype=np.int64).ravel() for part in ints]),
        np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in floats]),
    )


@kernel
def carve_levels(floats, levels, n, g, d):
    """Return the arrays of `Levels` as views of `floats`."""
    rows = n if levels > 0 else 0
    constants, i = take_vector(floats, 0, levels * g * CONSTANTS)
    pull, i = take_matrix(floats, i, levels, n)
    home, i = take_matrix(floats, i, levels, n)
    gradient, i = take_matrix(floats, i, levels, n)
    hessian, i = take_vector(floats, i, levels * n * d)
    total, i = take_matrix(floats, i, rows, d)
    weight, i = take_vector(floats, i, levels)
    scale, i = take_vector(floats, i, levels)
    calm, i = take_vector(floats, i, levels)
    return Levels(
        constants.reshape(levels, g, CONSTANTS), pull, home, gradient, hessian.reshape(levels, n, d), total, weight,
        scale, calm,
    )  # fmt: skip


@kernel
def carve(ints, floats):
    """Return views of the arrays that `pack` made."""
    n, b, g, goals = ints[DOFS], ints[BODIES], ints[SPRINGS], ints[GOALS]
    first, i = take_matrix(ints, HEAD, goals, 2)
    body, i = take_matrix(ints, i, b, 4)
    dof, i = take_matrix(ints, i, n, 5)
    touch, i = take_matrix(ints, i, ints[TOUCHES], 4)
    pair, i = take_matrix(ints, i, ints[PAIRS], 2)
    order, i = take_matrix(ints, i, n, 3)
    tree, i = take_matrix(ints, i, n, 3)
    kind, i = take_matrix(ints, i, g, 4)
    errors, i = take_vector(floats, 0, g)
    state, i = take_matrix(floats, i, ints[ROWS], n)
    params, i = take_vector(floats, i, ints[PARAMS])
    asked, i = take_matrix(floats, i, goals, ASKED)
    rest, i = take_matrix(floats, i, b, 12)
    sign, i = take_vector(floats, i, n)
    mass, i = take_matrix(floats, i, b, 4)
    solid, i = take_matrix(floats, i, ints[SOLIDS], SOLID_WIDTH)
    corner, i = take_matrix(floats, i, ints[CORNERS], 3)
    ball, i = take_matrix(floats, i, ints[BALLS], 4)
    field, i = take_vector(floats, i, ints[FIELD])
    constants, i = take_matrix(floats, i, g, CONSTANTS)
    targets, i = take_matrix(floats, i, g, TARGETS)
    pull, i = take_vector(floats, i, n)
    home, i = take_vector(floats, i, n)
    levels = carve_levels(floats[i:], ints[LEVELS], n, g, ints[DEPTHS])
    work = floats[floats.shape[0] - ints[WORK] :]
    figure = Figure(body, rest, dof, sign, mass, solid, corner, ball, field, touch, pair)
    springs = Springs(kind, constants, targets, pull, home)
    return Packed(errors, state, params, asked, first, figure, Order(order), Order(tree), springs, levels, work)


_plain = {
    "take_vector": take_vector.py_func,
    "take_matrix": with_names(take_matrix.py_func, "take_matrix", matrix=matrix.py_func),
}
views = with_names(
    carve.py_func, "views", carve_levels=with_names(carve_levels.py_func, "carve_levels", **_plain), **_plain
)
