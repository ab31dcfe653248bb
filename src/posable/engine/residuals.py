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

from posable.engine.assemble import (
    FOLLOWER,
    LEADER,
    RATIO,
    centre_columns,
    coupling_gap,
    cross_vectors,
    has_centre,
    place_target,
)
from posable.engine.distance import clearance_terms, segment_gap
from posable.engine.forward import centre_of_mass, forward, last_dof, workspace
from posable.engine.jit import entry, kernel
from posable.engine.layout import ABOVE, ALONG, AT, AXES, AXES2, MEASURE, ON, OTHER, POINT, ROBUST, SIZE, SPRING, WEIGHT
from posable.engine.reference import vector_columns
from posable.engine.springs import (
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
    frame_axis,
    model_residual,
)
from posable.engine.wrenches import robust_factors, rotated

# --- The rows of the residuals and of the Jacobian ---


@kernel
def rotation_error(r, spring, target, out):
    """Write the rotation vector (3,), in the goal's own axes, that turns the target frame into the body's: log(T'R)."""
    q = out  # the quaternion's vector part first
    m = 0.0
    for k in range(3):
        x, y, z = frame_axis(r, spring, k)
        m += x * target[ALONG + k] + y * target[ALONG + 3 + k] + z * target[ALONG + 6 + k]
    for k in range(3):  # T'R - (T'R)' = 2 sin(angle) hat(axis)
        u, v = (k + 1) % 3, (k + 2) % 3
        q[k] = 0.25 * (_mixed(r, spring, target, v, u) - _mixed(r, spring, target, u, v))
    half = math.sqrt(max(0.0, 1.0 + m)) * 0.5  # cos(angle / 2)
    if half > 0.25:
        scale = 1.0 / half
    else:  # near half a turn the skew part is small: the symmetric part has the axis
        half = _vector_from_symmetric(r, spring, target, m, q)
        scale = 1.0
    x, y, z = scale * q[0], scale * q[1], scale * q[2]
    sine = math.sqrt(x * x + y * y + z * z)
    factor = 2.0 if sine < 1e-9 else 2.0 * math.atan2(sine, half) / sine
    out[0], out[1], out[2] = factor * x, factor * y, factor * z


@kernel
def _mixed(r, spring, target, i, j):
    """Return entry (i, j) of T'R: target axis i with the body's axis j."""
    x, y, z = frame_axis(r, spring, j)
    return x * target[ALONG + i] + y * target[ALONG + 3 + i] + z * target[ALONG + 6 + i]


@kernel
def _vector_from_symmetric(r, spring, target, trace, q):
    """Write the quaternion's vector part from the largest diagonal entry; return its scalar part, not negative."""
    best, high = 0, _mixed(r, spring, target, 0, 0)
    for k in range(1, 3):
        entry_kk = _mixed(r, spring, target, k, k)
        if entry_kk > high:
            best, high = k, entry_kk
    u, v = (best + 1) % 3, (best + 2) % 3
    length = 0.5 * math.sqrt(max(0.0, 1.0 + 2.0 * high - trace))
    w = 0.25 * (_mixed(r, spring, target, v, u) - _mixed(r, spring, target, u, v)) / length
    sign = -1.0 if w < 0.0 else 1.0
    q[best] = sign * length
    q[u] = sign * 0.25 * (_mixed(r, spring, target, best, u) + _mixed(r, spring, target, u, best)) / length
    q[v] = sign * 0.25 * (_mixed(r, spring, target, best, v) + _mixed(r, spring, target, v, best)) / length
    return sign * w


@kernel
def combine(figure, body, c, row, residuals, jacobian):
    """Multiply three rows of r and of J by the 3x3 matrix c (9,), in place."""
    x, y, z = residuals[row], residuals[row + 1], residuals[row + 2]
    for k in range(3):
        residuals[row + k] = c[3 * k] * x + c[3 * k + 1] * y + c[3 * k + 2] * z
    i = last_dof(figure, body)
    while i >= 0:
        x, y, z = jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i]
        for k in range(3):
            jacobian[row + k, i] = c[3 * k] * x + c[3 * k + 1] * y + c[3 * k + 2] * z
        i = figure.dof[i, ABOVE]


@kernel
def scale_rows(figure, body, factor, row, rows, residuals, jacobian):
    """Multiply some rows of r and of J by a number."""
    for k in range(row, row + rows):
        residuals[k] *= factor
    i = last_dof(figure, body)
    while i >= 0:
        for k in range(row, row + rows):
            jacobian[k, i] *= factor
        i = figure.dof[i, ABOVE]


@kernel
def point_rows(figure, ws, body, spring, target, row, residuals, jacobian):
    """Write e - target and its Jacobian."""
    point_rows_along(figure, ws, body, body, spring, target, row, residuals, jacobian)


@kernel
def point_rows_along(figure, ws, body, walk, spring, target, row, residuals, jacobian):
    """Write e - target, and its Jacobian by the dofs that move the body `walk`, as if they moved this one."""
    x, y, z = rotated(ws.rotation[body], spring, POINT)
    p = ws.position[body]
    x, y, z = x + p[0], y + p[1], z + p[2]
    residuals[row] = ws.origin[0] + x - target[AT]
    residuals[row + 1] = ws.origin[1] + y - target[AT + 1]
    residuals[row + 2] = ws.origin[2] + z - target[AT + 2]
    vector_columns(figure, ws, walk, x, y, z, 1.0, jacobian, row)


@kernel
def direction_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian):
    """Write d - t and its Jacobian."""
    x, y, z = rotated(ws.rotation[body], spring, AXES)
    residuals[row] = x - target[ALONG]
    residuals[row + 1] = y - target[ALONG + 1]
    residuals[row + 2] = z - target[ALONG + 2]
    vector_columns(figure, ws, walk, x, y, z, 0.0, jacobian, row)


@kernel
def axes_rows(figure, ws, body, walk, spring, target, c, row, residuals, jacobian):
    """Write the three axes of a frame less those of its target, mixed by c (9,): r_k = sum_q c_kq (b_q - t_q)."""
    r = ws.rotation[body]
    for k in range(3):
        x, y, z = 0.0, 0.0, 0.0
        tx, ty, tz = 0.0, 0.0, 0.0
        for q in range(3):
            bx, by, bz = frame_axis(r, spring, q)
            a = c[3 * k + q]
            x, y, z = x + a * bx, y + a * by, z + a * bz
            tx, ty, tz = tx + a * target[ALONG + q], ty + a * target[ALONG + 3 + q], tz + a * target[ALONG + 6 + q]
        at = row + 3 * k
        residuals[at], residuals[at + 1], residuals[at + 2] = x - tx, y - ty, z - tz
        vector_columns(figure, ws, walk, x, y, z, 0.0, jacobian, at)


@kernel
def rotation_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian):
    """Write the rotation vector of the error and the angular velocity, both in the axes of the goal's frame."""
    r = ws.rotation[body]
    rotation_error(r, spring, target, residuals[row : row + 3])
    for k in range(3):
        x, y, z = frame_axis(r, spring, k)
        i = last_dof(figure, walk)
        while i >= 0:
            jacobian[row + k, i] = x * ws.twist[i, 0] + y * ws.twist[i, 1] + z * ws.twist[i, 2]
            i = figure.dof[i, ABOVE]


@kernel
def aim_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian):
    """Write d - u, u the unit vector from the point e to the target, and its Jacobian w x d + (1 - uu') J_e / |.|."""
    ex, ey, ez = rotated(ws.rotation[body], spring, POINT)
    p = ws.position[body]
    ex, ey, ez = ex + p[0], ey + p[1], ez + p[2]
    x, y, z = target[AT] - ws.origin[0] - ex, target[AT + 1] - ws.origin[1] - ey, target[AT + 2] - ws.origin[2] - ez
    length = math.sqrt(x * x + y * y + z * z)
    if length < 1e-9:
        residuals[row] = residuals[row + 1] = residuals[row + 2] = 0.0
        return
    ux, uy, uz = x / length, y / length, z / length
    dx, dy, dz = rotated(ws.rotation[body], spring, AXES)
    residuals[row], residuals[row + 1], residuals[row + 2] = dx - ux, dy - uy, dz - uz
    i = last_dof(figure, walk)
    while i >= 0:
        t = ws.twist[i]
        jx, jy, jz = t[1] * ez - t[2] * ey + t[3], t[2] * ex - t[0] * ez + t[4], t[0] * ey - t[1] * ex + t[5]
        dot = jx * ux + jy * uy + jz * uz
        jacobian[row, i] = t[1] * dz - t[2] * dy + (jx - dot * ux) / length
        jacobian[row + 1, i] = t[2] * dx - t[0] * dz + (jy - dot * uy) / length
        jacobian[row + 2, i] = t[0] * dy - t[1] * dx + (jz - dot * uz) / length
        i = figure.dof[i, ABOVE]


@kernel
def side_row(figure, ws, body, walk, spring, target, row, residuals, jacobian):
    """Write the depth on the wrong side of a plane, and its Jacobian; both zero on the right side."""
    ex, ey, ez = rotated(ws.rotation[body], spring, POINT)
    p, o = ws.position[body], ws.origin
    ex, ey, ez = ex + p[0], ey + p[1], ez + p[2]
    nx, ny, nz = target[ALONG], target[ALONG + 1], target[ALONG + 2]
    height = (o[0] + ex - target[AT]) * nx + (o[1] + ey - target[AT + 1]) * ny + (o[2] + ez - target[AT + 2]) * nz
    residuals[row] = max(0.0, spring[SIZE] - height)
    if residuals[row] == 0.0:
        return
    i = last_dof(figure, walk)
    while i >= 0:
        t = ws.twist[i]
        jx, jy, jz = t[1] * ez - t[2] * ey + t[3], t[2] * ex - t[0] * ez + t[4], t[0] * ey - t[1] * ex + t[5]
        jacobian[row, i] = -(jx * nx + jy * ny + jz * nz)
        i = figure.dof[i, ABOVE]


@kernel
def clear_row(figure, ws, kind, body, walk, spring, target, row, residuals, jacobian):
    """Write size - d between two segments, and its Jacobian -delta.(v + w x e) / d; zeros where CLEAR is idle."""
    f, _ = clearance_terms(spring, target, kind == CLEAR_SPRING, ws.origin, ws.position[body], ws.rotation[body], 1.0)
    ex, ey, ez, x, y, z, _, _, _, _, _ = segment_gap(spring, target, ws.origin, ws.position[body], ws.rotation[body])
    d = math.sqrt(x * x + y * y + z * z)
    residuals[row] = 0.0
    if d < 1e-9 or (kind == CLEAR_SPRING and f == 0.0):
        return
    residuals[row] = spring[SIZE] - d
    i = last_dof(figure, walk)
    while i >= 0:
        t = ws.twist[i]
        jx, jy, jz = t[1] * ez - t[2] * ey + t[3], t[2] * ex - t[0] * ez + t[4], t[0] * ey - t[1] * ex + t[5]
        jacobian[row, i] = -(jx * x + jy * y + jz * z) / d
        i = figure.dof[i, ABOVE]


@kernel
def model_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian):
    """Write v - target of a point or a direction, and its Jacobian."""
    p, moves = ws.position[body], spring[MEASURE]
    residuals[row], residuals[row + 1], residuals[row + 2] = model_residual(
        spring, target, ws.origin, p, ws.rotation[body]
    )
    x, y, z = rotated(ws.rotation[body], spring, POINT)
    x, y, z = x + moves * p[0], y + moves * p[1], z + moves * p[2]
    vector_columns(figure, ws, walk, x, y, z, moves, jacobian, row)


# --- Springs as stacked residuals r and their Jacobian J ---


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


def weight_roots(kind: np.ndarray, constants: np.ndarray, vectors: bool) -> np.ndarray:
    """Return roots (g, 9) of the weights of springs: kind (g, 4), constants (g, CONSTANTS).

    A POINT or MODEL spring that is part of a full weight matrix brings its own root, in AXES.
    """
    out = np.zeros((len(constants), 9))
    for k, row in enumerate(constants):
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
def spring_rows(figure, ws, kind, body, walk, spring, target, c, vectors, row, residuals, jacobian):
    """Write the rows of one spring; c (9,) is the root of its weight, by rows; walk: the body whose dofs count."""
    rows = rows_of(kind, vectors)
    if kind == POINT_SPRING:
        point_rows_along(figure, ws, body, walk, spring, target, row, residuals, jacobian)
        combine(figure, walk, c, row, residuals, jacobian)
    elif kind == MODEL_SPRING:
        model_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian)
        combine(figure, walk, c, row, residuals, jacobian)
    elif kind == ORIENTATION_SPRING and vectors:
        rotation_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian)
        combine(figure, walk, c, row, residuals, jacobian)
    elif kind == ORIENTATION_SPRING:
        axes_rows(figure, ws, body, walk, spring, target, c, row, residuals, jacobian)
    else:
        if kind == DIRECTION_SPRING:
            direction_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian)
        elif kind == AIM_SPRING:
            aim_rows(figure, ws, body, walk, spring, target, row, residuals, jacobian)
        elif kind == SIDE_SPRING:
            side_row(figure, ws, body, walk, spring, target, row, residuals, jacobian)
        else:
            clear_row(figure, ws, kind, body, walk, spring, target, row, residuals, jacobian)
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
    place_target(springs, k, ws)
    if kind == POINT_SPRING:  # the weight is in the axes of the other body: C R'
        r, c_world = ws.rotation[other], ws.load
        for i in range(3):
            for j in range(3):
                c_world[3 * i + j] = c[3 * i] * r[3 * j] + c[3 * i + 1] * r[3 * j + 1] + c[3 * i + 2] * r[3 * j + 2]
        c = c_world
    spring_rows(figure, ws, kind, body, other, ws.row, ws.target, c, vectors, row, residuals, jacobian)
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
    spring_rows(figure, ws, kind, body, body, ws.row, ws.target, c, vectors, row, residuals, jacobian)
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
    spring, t = springs.constants[k], ws.twist
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
def centre_rows(kind, spring, target, ws, c, row, residuals, jacobian):
    """Write the rows of a spring on the centre of mass; ws.centre and ws.column are set."""
    o, m, column = ws.origin, ws.centre, ws.column
    x, y, z = o[0] + m[0] - target[AT], o[1] + m[1] - target[AT + 1], o[2] + m[2] - target[AT + 2]
    n = jacobian.shape[1]
    if kind == CENTRE_SIDE_SPRING:
        nx, ny, nz = c[0] * target[ALONG], c[0] * target[ALONG + 1], c[0] * target[ALONG + 2]
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
    kind, spring, target = springs.kind[k, SPRING], springs.constants[k], springs.targets[k]
    if kind == CROSS_SPRING:
        cross_rows(figure, springs, k, ws, row, residuals, jacobian)
        return
    if kind == COUPLING_SPRING:
        residuals[row] = c[0] * coupling_gap(spring, target, theta)
        jacobian[row, int(spring[FOLLOWER])] = c[0]
        jacobian[row, int(spring[LEADER])] = -c[0] * spring[RATIO]
    else:
        centre_rows(kind, spring, target, ws, c, row, residuals, jacobian)
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
        if springs.constants[k, ROBUST] >= 0.0:
            if kind >= CROSS_SPRING:
                coupled_rows(figure, springs, k, ws, theta, roots[k], row, residuals, jacobian)
            elif springs.kind[k, OTHER] >= 0:
                relative_rows(figure, springs, k, ws, roots[k], vectors, row, residuals, jacobian)
            else:
                b = springs.kind[k, ON]
                spring_rows(
                    figure, ws, kind, b, b, springs.constants[k], springs.targets[k], roots[k], vectors, row, residuals,
                    jacobian,
                )  # fmt: skip
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
