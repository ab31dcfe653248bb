"""Springs as stacked residuals r and their Jacobian J, for the classic solvers: E = 1/2 r'r, J = dr/dtheta.

POINT        3 rows: C (e - target), with C'C the weight
DIRECTION    3 rows: c (d - t)
ORIENTATION  9 rows: the three axes of the frame, weighed together, exactly E; or, with `vectors`, 3 rows: C times
             the rotation vector of the error, in the goal's axes, and C times the angular velocity (seed 001, 3.3)
AIM          3 rows: c (d - u(e))
SIDE         1 row: c times the depth, zero on the right side
DISTANCE     1 row: c (size - d); CLEAR the same, zero where it is clear
MODEL        3 rows: C (v - target), where it has no linear term
CENTRE       3 rows: C (centre of mass - target); CENTRE_SIDE: 1 row
COUPLING     1 row
CROSS        no row of its own: the rows of its first spring gain C_ab (v_b - target_b), so that C'C is the full weight
pull         1 row for each degree of freedom that has one

Where the target is on another body, J is the difference of what the dofs of the two do.

A robust spring is weighed by the root of its slope, so that J'r is its gradient; then E is not 1/2 r'r.
"""

from __future__ import annotations

import math

import numpy as np

from .centre import centre_columns, has_centre
from .compiler import entry, kernel
from .couplings import FOLLOWER, LEADER, RATIO, coupling_gap, cross_vectors, place_target
from .fields import ABOVE, ALONG, AT, AXES, AXES2, MEASURE, ON, OTHER, ROBUST, SIZE, SPRING, WEIGHT
from .kinematics import centre_of_mass, forward, last_dof, workspace
from .rows import (
    aim_rows,
    axes_rows,
    clear_row,
    combine,
    direction_rows,
    model_rows,
    point_rows_along,
    rotation_rows,
    scale_rows,
    side_row,
)
from .springs import (
    AIM_SPRING,
    CENTRE_SIDE_SPRING,
    CENTRE_SPRING,
    CLEAR_SPRING,
    COUPLING_SPRING,
    CROSS_SPRING,
    DIRECTION_SPRING,
    DISTANCE_SPRING,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    SIDE_SPRING,
)
from .wrenches import robust_factors


@kernel
def rows_of(kind, vectors):
    """Return how many rows a spring has."""
    if kind == SIDE_SPRING or kind == DISTANCE_SPRING or kind == CLEAR_SPRING:
        return 1
    if kind == CENTRE_SIDE_SPRING or kind == COUPLING_SPRING:
        return 1
    if kind == CROSS_SPRING:
        return 0
    if kind == ORIENTATION_SPRING:
        return 3 if vectors else 9
    return 3


def weight_roots(kind: np.ndarray, data: np.ndarray, vectors: bool) -> np.ndarray:
    """Return roots (g, 9) of the weights of springs, kind (g, 4) and data (g, WIDTH), as the kernels here want them.

    A POINT or MODEL spring that is part of a full weight matrix brings its own root, in AXES.
    """
    out = np.zeros((len(data), 9))
    for k, row in enumerate(data):
        xx, yy, zz, xy, xz, yz = row[WEIGHT : WEIGHT + 6]
        weight = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        spring = kind[k, SPRING]
        if spring not in (POINT_SPRING, ORIENTATION_SPRING, MODEL_SPRING, CENTRE_SPRING):
            out[k, 0] = math.sqrt(max(0.0, xx))
            continue
        if spring != ORIENTATION_SPRING and row[AXES : AXES + 9].any():
            out[k] = row[AXES : AXES + 9]
            continue
        if spring == ORIENTATION_SPRING and vectors:
            weight = np.trace(weight) * np.eye(3) - weight
        values, turn = np.linalg.eigh(weight)
        out[k] = (turn * np.sqrt(np.maximum(values, 0.0)) @ turn.T).ravel()
    return out


@entry
def residual_rows(springs, vectors):
    """Return how many rows the stack has."""
    total = 0
    for k in range(springs.kind.shape[0]):
        total += max(0, rows_of(springs.kind[k, SPRING], vectors))
    for i in range(springs.pull.shape[0]):
        if springs.pull[i] != 0.0:
            total += 1
    return total


@kernel
def spring_rows(figure, ws, kind, body, walk, spring, c, vectors, row, residuals, jacobian):
    """Write the rows of one spring; c (9,) is the root of its weight, by rows; walk: the body whose dofs count."""
    rows = rows_of(kind, vectors)
    if kind == POINT_SPRING:
        point_rows_along(figure, ws, body, walk, spring, row, residuals, jacobian)
        combine(figure, walk, c, row, residuals, jacobian)
    elif kind == MODEL_SPRING:
        model_rows(figure, ws, body, walk, spring, row, residuals, jacobian)
        combine(figure, walk, c, row, residuals, jacobian)
    elif kind == ORIENTATION_SPRING and vectors:
        rotation_rows(figure, ws, body, walk, spring, row, residuals, jacobian)
        combine(figure, walk, c, row, residuals, jacobian)
    elif kind == ORIENTATION_SPRING:
        axes_rows(figure, ws, body, walk, spring, c, row, residuals, jacobian)
    else:
        if kind == DIRECTION_SPRING:
            direction_rows(figure, ws, body, walk, spring, row, residuals, jacobian)
        elif kind == AIM_SPRING:
            aim_rows(figure, ws, body, walk, spring, row, residuals, jacobian)
        elif kind == SIDE_SPRING:
            side_row(figure, ws, body, walk, spring, row, residuals, jacobian)
        else:
            clear_row(figure, ws, kind, body, walk, spring, row, residuals, jacobian)
        scale_rows(figure, walk, c[0], row, rows, residuals, jacobian)
    soften_rows(spring, row, rows, residuals, jacobian)


@kernel
def soften_rows(spring, row, rows, residuals, jacobian):
    """Weigh the rows of a robust spring by the root of its slope."""
    if spring[ROBUST] > 0.0:
        energy = 0.0
        for k in range(row, row + rows):
            energy += 0.5 * residuals[k] * residuals[k]
        _, slope, _ = robust_factors(energy, spring[ROBUST])
        factor = math.sqrt(slope)
        for k in range(row, row + rows):
            residuals[k] *= factor
            for i in range(jacobian.shape[1]):
                jacobian[k, i] *= factor


@kernel
def relative_rows(figure, springs, k, ws, c, vectors, row, residuals, jacobian):
    """Write the rows of a spring whose target is on another body: dofs of that body count against, common ones not."""
    kind, body, other = springs.kind[k, SPRING], springs.kind[k, ON], springs.kind[k, OTHER]
    rows = rows_of(kind, vectors)
    place_target(kind, springs.data[k], ws.origin, ws.position[other], ws.rotation[other], ws.row)
    if kind == POINT_SPRING:  # the weight is in the axes of the other body: C R'
        r, c_world = ws.rotation[other], ws.load
        for i in range(3):
            for j in range(3):
                c_world[3 * i + j] = c[3 * i] * r[3 * j] + c[3 * i + 1] * r[3 * j + 1] + c[3 * i + 2] * r[3 * j + 2]
        c = c_world
    spring_rows(figure, ws, kind, body, other, ws.row, c, vectors, row, residuals, jacobian)
    i = last_dof(figure, other)
    while i >= 0:
        for q in range(row, row + rows):
            jacobian[q, i] = -jacobian[q, i]
        i = figure.dof[i, ABOVE]
    # the rows are written again, for the dofs of the body; its robust factor must not meet the first ones twice
    factor = 1.0
    if ws.row[ROBUST] > 0.0:
        energy = 0.0
        for q in range(row, row + rows):  # after softening: r'r / 2 = slope E, slope = 1 / sqrt(1 + 2E/s)
            energy += 0.5 * residuals[q] * residuals[q]
        s = ws.row[ROBUST]
        root = energy / s + math.sqrt(energy * energy / (s * s) + 1.0)
        factor = math.sqrt(root)  # one over the root of the slope
    i = last_dof(figure, other)
    while i >= 0:
        for q in range(row, row + rows):
            jacobian[q, i] *= factor
        i = figure.dof[i, ABOVE]
    spring_rows(figure, ws, kind, body, body, ws.row, c, vectors, row, residuals, jacobian)
    i, j = last_dof(figure, other), last_dof(figure, body)
    while i != j:
        if i > j:
            i = figure.dof[i, ABOVE]
        else:
            j = figure.dof[j, ABOVE]
    while i >= 0:
        for q in range(row, row + rows):
            jacobian[q, i] = 0.0
        i = figure.dof[i, ABOVE]


@kernel
def cross_rows(figure, springs, k, ws, row, residuals, jacobian):
    """Add what the second vector of a CROSS spring gives to the rows of the first, which stand SIZE rows above."""
    spring, t = springs.data[k], ws.twist
    at = row - int(spring[SIZE])
    mb, scale = spring[MEASURE + 1], math.sqrt(spring[WEIGHT])
    _, _, _, bx, by, bz, _, _, _, x, y, z = cross_vectors(springs, k, ws)
    for q in range(3):
        cx, cy, cz = scale * spring[AXES2 + 3 * q], scale * spring[AXES2 + 3 * q + 1], scale * spring[AXES2 + 3 * q + 2]
        residuals[at + q] += cx * x + cy * y + cz * z
        i = last_dof(figure, springs.kind[k, OTHER])
        while i >= 0:
            jacobian[at + q, i] += (
                cx * (t[i, 1] * bz - t[i, 2] * by + mb * t[i, 3])
                + cy * (t[i, 2] * bx - t[i, 0] * bz + mb * t[i, 4])
                + cz * (t[i, 0] * by - t[i, 1] * bx + mb * t[i, 5])
            )
            i = figure.dof[i, ABOVE]


@kernel
def centre_rows(kind, spring, ws, c, row, residuals, jacobian):
    """Write the rows of a spring on the centre of mass; ws.centre and ws.column are set."""
    o, m, column = ws.origin, ws.centre, ws.column
    x, y, z = o[0] + m[0] - spring[AT], o[1] + m[1] - spring[AT + 1], o[2] + m[2] - spring[AT + 2]
    n = jacobian.shape[1]
    if kind == CENTRE_SIDE_SPRING:
        nx, ny, nz = c[0] * spring[ALONG], c[0] * spring[ALONG + 1], c[0] * spring[ALONG + 2]
        residuals[row] = max(0.0, c[0] * spring[SIZE] - (nx * x + ny * y + nz * z))
        if residuals[row] > 0.0:
            for i in range(n):
                jacobian[row, i] = -(nx * column[i, 0] + ny * column[i, 1] + nz * column[i, 2])
        return
    for q in range(3):
        residuals[row + q] = c[3 * q] * x + c[3 * q + 1] * y + c[3 * q + 2] * z
        for i in range(n):
            jacobian[row + q, i] = c[3 * q] * column[i, 0] + c[3 * q + 1] * column[i, 1] + c[3 * q + 2] * column[i, 2]


@kernel
def coupled_rows(figure, springs, k, ws, theta, c, row, residuals, jacobian):
    """Write the rows of a spring that is on no one body."""
    kind, spring = springs.kind[k, SPRING], springs.data[k]
    if kind == CROSS_SPRING:
        cross_rows(figure, springs, k, ws, row, residuals, jacobian)
        return
    if kind == COUPLING_SPRING:
        residuals[row] = c[0] * coupling_gap(spring, theta)
        jacobian[row, int(spring[FOLLOWER])] = c[0]
        jacobian[row, int(spring[LEADER])] = -c[0] * spring[RATIO]
    else:
        centre_rows(kind, spring, ws, c, row, residuals, jacobian)
    soften_rows(spring, row, rows_of(kind, 0), residuals, jacobian)


@kernel
def stack_residuals(figure, springs, roots, theta, ws, vectors, residuals, jacobian):
    """Write residuals (m,) and Jacobian (m, n) where the bodies are placed."""
    n = theta.shape[0]
    for k in range(jacobian.shape[0]):
        residuals[k] = 0.0
        for i in range(n):
            jacobian[k, i] = 0.0
    if has_centre(springs):
        centre_of_mass(figure, ws, ws.centre)
        centre_columns(figure, ws)
    row = 0
    for k in range(springs.kind.shape[0]):
        kind = springs.kind[k, SPRING]
        if springs.data[k, ROBUST] >= 0.0:
            if kind >= CROSS_SPRING:
                coupled_rows(figure, springs, k, ws, theta, roots[k], row, residuals, jacobian)
            elif springs.kind[k, OTHER] >= 0:
                relative_rows(figure, springs, k, ws, roots[k], vectors, row, residuals, jacobian)
            else:
                b = springs.kind[k, ON]
                spring_rows(figure, ws, kind, b, b, springs.data[k], roots[k], vectors, row, residuals, jacobian)
        row += rows_of(kind, vectors)
    for i in range(n):
        if springs.pull[i] != 0.0:
            c = math.sqrt(springs.pull[i])
            residuals[row] = c * (theta[i] - springs.home[i])
            jacobian[row, i] = c
            row += 1
    return -1


@entry
def residuals_and_jacobian(figure, springs, roots, theta, work, d, vectors, residuals, jacobian):
    """Write the stacked residuals (m,) and Jacobian (m, n) at theta (n,), m = `residual_rows(springs, vectors)`.

    roots (g, 9): for each spring C by rows with C'C its weight (POINT, ORIENTATION, MODEL, CENTRE; with `vectors` an
    orientation's is tr(A) 1 - A, its stiffness at the goal), or the root of its weight in roots[:, 0] (the others):
    `weight_roots`. vectors: 1 for rotation vectors, 0 for axes. Return -1.
    """
    ws = workspace(work, theta.shape[0], figure.body.shape[0], springs.kind.shape[0], d)
    forward(figure, theta, ws)
    return stack_residuals(figure, springs, roots, theta, ws, vectors, residuals, jacobian)
