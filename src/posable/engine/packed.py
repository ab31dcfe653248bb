"""A controller packed into two flat arrays, so that compiled code is entered with two arguments.

Numba inspects each array argument. Figure, springs and state of a controller are about thirty arrays, and inspecting
them takes as long as the step itself. `carve` returns views of the flat arrays inside kernels; `views` is the same
function in plain Python, for the caller, who writes targets into them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.engine.jit import kernel, with_names
from posable.engine.layout import CONSTANTS, SOLID_WIDTH, TARGETS, Figure, Levels, Order, Springs

# Header of the integers: sizes
DOFS, BODIES, SPRINGS, GOALS, DEPTHS, SOLIDS, CORNERS, BALLS, FIELD, TOUCHES, PAIRS, ROWS = range(12)
PARAMS, LEVELS, WORK = range(12, 15)
HEAD = 15
ASKED = 17  # size of a new target: at most a transform by rows, then one of the codes below
QUIET, NEW, HELD = 0.0, 1.0, 2.0  # no new target; a new target; one that is not finite, so that the last one is kept


class Packed(NamedTuple):
    """Views of the arrays of a packed controller."""

    errors: np.ndarray  # (g,) float64 [m, rad]: of the springs at the new pose
    state: np.ndarray  # (ROWS, n) float64: see `posable.engine.control`
    params: np.ndarray  # (PARAMS,) float64
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
    i = 0
    constants = floats[i : i + levels * g * CONSTANTS].reshape(levels, g, CONSTANTS)
    i += levels * g * CONSTANTS
    pull = floats[i : i + levels * n].reshape(levels, n)
    i += levels * n
    home = floats[i : i + levels * n].reshape(levels, n)
    i += levels * n
    gradient = floats[i : i + levels * n].reshape(levels, n)
    i += levels * n
    hessian = floats[i : i + levels * n * d].reshape(levels, n, d)
    i += levels * n * d
    rows = n if levels > 0 else 0
    total = floats[i : i + rows * d].reshape(rows, d)
    i += rows * d
    weight = floats[i : i + levels]
    i += levels
    scale = floats[i : i + levels]
    i += levels
    calm = floats[i : i + levels]
    return Levels(constants, pull, home, gradient, hessian, total, weight, scale, calm)


@kernel
def carve(ints, floats):
    """Return views of the arrays that `pack` made."""
    n, b, g, goals = ints[DOFS], ints[BODIES], ints[SPRINGS], ints[GOALS]
    s, c, q, p = ints[SOLIDS], ints[CORNERS], ints[TOUCHES], ints[PAIRS]
    i = HEAD
    first = ints[i : i + 2 * goals].reshape(goals, 2)
    i += 2 * goals
    body = ints[i : i + 4 * b].reshape(b, 4)
    i += 4 * b
    dof = ints[i : i + 5 * n].reshape(n, 5)
    i += 5 * n
    touch = ints[i : i + 4 * q].reshape(q, 4)
    i += 4 * q
    pair = ints[i : i + 2 * p].reshape(p, 2)
    i += 2 * p
    order = ints[i : i + 3 * n].reshape(n, 3)
    i += 3 * n
    tree = ints[i : i + 3 * n].reshape(n, 3)
    i += 3 * n
    kind = ints[i : i + 4 * g].reshape(g, 4)
    i = 0
    errors = floats[i : i + g]
    i += g
    state = floats[i : i + ints[ROWS] * n].reshape(ints[ROWS], n)
    i += ints[ROWS] * n
    params = floats[i : i + ints[PARAMS]]
    i += ints[PARAMS]
    asked = floats[i : i + goals * ASKED].reshape(goals, ASKED)
    i += goals * ASKED
    rest = floats[i : i + 12 * b].reshape(b, 12)
    i += 12 * b
    sign = floats[i : i + n]
    i += n
    mass = floats[i : i + 4 * b].reshape(b, 4)
    i += 4 * b
    solid = floats[i : i + SOLID_WIDTH * s].reshape(s, SOLID_WIDTH)
    i += SOLID_WIDTH * s
    corner = floats[i : i + 3 * c].reshape(c, 3)
    i += 3 * c
    ball = floats[i : i + 4 * ints[BALLS]].reshape(ints[BALLS], 4)
    i += 4 * ints[BALLS]
    field = floats[i : i + ints[FIELD]]
    i += ints[FIELD]
    constants = floats[i : i + CONSTANTS * g].reshape(g, CONSTANTS)
    i += CONSTANTS * g
    targets = floats[i : i + TARGETS * g].reshape(g, TARGETS)
    i += TARGETS * g
    pull = floats[i : i + n]
    i += n
    home = floats[i : i + n]
    i += n
    levels = carve_levels(floats[i:], ints[LEVELS], n, g, ints[DEPTHS])
    work = floats[floats.shape[0] - ints[WORK] :]
    figure = Figure(body, rest, dof, sign, mass, solid, corner, ball, field, touch, pair)
    springs = Springs(kind, constants, targets, pull, home)
    return Packed(errors, state, params, asked, first, figure, Order(order), Order(tree), springs, levels, work)


views = with_names(carve.py_func, "views", carve_levels=carve_levels.py_func)
