"""Springs as stacked residuals r and their Jacobian J, for the classic solvers: E = 1/2 r'r, J = dr/dtheta.

A spring contributes the rows C r, where C'C is its weight and r its residual (springs.py). J has the derivatives by the
dofs above its body and, with the opposite sign, by those above the body that carries its target. Special cases:

ORIENTATION  9 rows: the three axes of the frame, weighted together, exactly E; or, with `vectors`, 3 rows: C times
             the rotation vector of the error, in the goal's axes, and C times the angular velocity (Parent)
COUPLING     1 row
CROSS        no row of its own: the rows of its first spring gain C_ab (v_b - target_b), so that C'C is the full weight
pull         1 row for each degree of freedom that has one

A robust spring is weighted by the root of its slope, so that J'r is its gradient; then E is not 1/2 r'r.
"""

from __future__ import annotations

import math

import numpy as np

from posable.engine.assemble import has_center
from posable.engine.couplings import center_columns, coupling_gap, cross_vectors, place_target
from posable.engine.jit import entry, kernel
from posable.engine.joints import center_of_mass, cross, forward, last_dof, length3, times, velocity
from posable.engine.layout import (
    ABOVE,
    AXES,
    AXES2,
    BODY_A,
    BODY_B,
    CENTER,
    FOLLOWER,
    FRAME,
    LEADER,
    MEASURE,
    POINT,
    RATIO,
    ROBUST,
    SIZE,
    SPRING_KIND,
    WEIGHT,
    clear,
    workspace,
)
from posable.engine.springs import (
    COUPLING_SPRING,
    CROSS_SPRING,
    KED,
    KEE,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    RD,
    RE,
    ROWS,
    STICKY,
    D,
    E,
    R,
    curvature,
    derivative,
    frame_axis,
    is_idle,
    residual,
    robust_factors,
)

# --- One spring ---


@kernel
def _mixed(r, spring, target, i, j):
    """Return entry (i, j) of T'R: target axis i with the body's axis j."""
    x, y, z = frame_axis(r, spring, j)
    return x * target[FRAME + i] + y * target[FRAME + 3 + i] + z * target[FRAME + 6 + i]


@kernel
def half_sine(r, spring, target, out):
    """Write 2 sin(angle / 2) n (3,) of T'R, n its axis: twice the vector part of its quaternion.

    The quaternion comes from N / (4 p), with p the largest of its four numbers, so that no digits are lost at half a
    turn, and N and 4 p^2 linear in the entries of T'R. Its scalar part is not negative. Returns which number p is (3:
    the scalar part), p and the scalar part, cos(angle / 2).
    """
    pivot, square = 3, 1.0  # 4 p^2
    for k in range(3):
        square += _mixed(r, spring, target, k, k)
    trace = square - 1.0
    for k in range(3):
        other = 1.0 + 2.0 * _mixed(r, spring, target, k, k) - trace
        if other > square:
            pivot, square = k, other
    p = cosine = 0.5 * math.sqrt(square)
    if pivot < 3:
        u, v = (pivot + 1) % 3, (pivot + 2) % 3
        cosine = 0.25 * (_mixed(r, spring, target, v, u) - _mixed(r, spring, target, u, v)) / p
        p, cosine = math.copysign(p, cosine), abs(cosine)
    for a in range(3):
        u, v = (a + 1) % 3, (a + 2) % 3
        if pivot == 3:
            out[a] = 0.5 * (_mixed(r, spring, target, v, u) - _mixed(r, spring, target, u, v)) / p
        elif pivot == a:
            out[a] = 2.0 * p
        else:
            out[a] = 0.5 * (_mixed(r, spring, target, a, pivot) + _mixed(r, spring, target, pivot, a)) / p
    return pivot, p, cosine


@kernel
def rotation_error(r, spring, target, out):
    """Write the rotation vector (3,), in the goal's own axes, that turns the target frame into the body's: log(T'R)."""
    _, _, cosine = half_sine(r, spring, target, out)
    sine = 0.5 * length3(out[0], out[1], out[2])
    factor = 1.0 if sine < 1e-9 else math.atan2(sine, cosine) / sine
    for k in range(3):
        out[k] *= factor


@kernel
def half_sine_rows(r, spring, target, out):
    """Write what `half_sine` writes, and its derivative by each axis of the body, by rows (3, 9)."""
    clear(out)
    pivot, p, _ = half_sine(r, spring, target, out)
    for a in range(3):
        u, v = (a + 1) % 3, (a + 2) % 3
        for i in range(3):
            for j in range(3):
                own = (1.0 if pivot == 3 or i == pivot else -1.0) if i == j else 0.0  # of 4 p^2 by entry (i, j)
                slope = 0.0  # of N
                if pivot == 3:
                    slope = (1.0 if i == v and j == u else 0.0) - (1.0 if i == u and j == v else 0.0)
                elif a == pivot:
                    slope = own
                elif (i == pivot and j == a) or (i == a and j == pivot):
                    slope = 1.0
                slope = 0.5 * slope / p - 0.125 * out[a] * own / (p * p)
                for c in range(3):
                    out[3 + 9 * j + 3 * a + c] += slope * target[FRAME + 3 * c + i]


@kernel
def combine(c, row, jacobian):
    """Multiply three rows of J (m, n) by the 3x3 matrix c (9,), in place."""
    for i in range(jacobian.shape[1]):
        x, y, z = times(c, 0, jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i])
        jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i] = x, y, z


@kernel
def vector_rows(figure, springs, k, ws, c, row, residuals, jacobian):
    """Write C r and its Jacobian for any spring but an orientation; c (9,) is C by rows."""
    kind, body, other = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A], springs.kind[k, BODY_B]
    spring, target, local, rows = springs.constants[k], springs.targets[k], ws.local, ROWS[kind]
    if other >= 0:
        place_target(springs, k, ws)
        spring, target = ws.row, ws.target
        if rows == 3:  # the weight is in the axes of the other body: C R'
            turn_root(ws.rotation[other], c, ws.load)
            c = ws.load
    position = ws.center if body == CENTER else ws.position[body]
    residual(kind, spring, target, ws.origin, position, ws.rotation[max(body, 0)], local)
    x, y, z = local[R], local[R + 1], local[R + 2]
    for q in range(rows):
        residuals[row + q] = c[3 * q] * x + c[3 * q + 1] * y + c[3 * q + 2] * z
    if is_idle(kind, local):
        return
    derivative(kind, spring, target, local)
    for q in range(rows):  # C dr/de and C dr/dd
        for j in range(3):
            for block in range(2):
                a = (RE if block == 0 else RD) + j
                local[KEE + 9 * block + 3 * q + j] = (
                    c[3 * q] * local[a] + c[3 * q + 1] * local[a + 3] + c[3 * q + 2] * local[a + 6]
                )
    if body == CENTER:
        for i in range(jacobian.shape[1]):
            for q in range(rows):
                for j in range(3):
                    jacobian[row + q, i] += local[KEE + 3 * q + j] * ws.column[i, j]
        return
    add_columns(figure, ws, body, 1.0, row, rows, jacobian)
    if other >= 0:
        add_columns(figure, ws, other, -1.0, row, rows, jacobian)


@kernel
def turn_root(r, c, out):
    """Write C R' (9,): C in the axes of a body with rotation R."""
    for i in range(0, 9, 3):
        out[i], out[i + 1], out[i + 2] = times(r, 0, c[i], c[i + 1], c[i + 2])


@kernel
def add_columns(figure, ws, body, sign, row, rows, jacobian):
    """Add the columns of the dofs above a body for the spring in ws.local, whose derivatives are at KEE and KED."""
    v = ws.local
    ex, ey, ez, dx, dy, dz = v[E], v[E + 1], v[E + 2], v[D], v[D + 1], v[D + 2]
    i = last_dof(figure, body)
    while i >= 0:
        t = ws.twist[i]
        x, y, z = velocity(t, ex, ey, ez, 1.0)
        a, b, c = cross(t[0], t[1], t[2], dx, dy, dz)
        for q in range(rows):
            p, d = KEE + 3 * q, KED + 3 * q
            moved = v[p] * x + v[p + 1] * y + v[p + 2] * z + v[d] * a + v[d + 1] * b + v[d + 2] * c
            jacobian[row + q, i] += sign * moved
        i = figure.dof[i, ABOVE]


@kernel
def orientation_rows(figure, springs, k, ws, c, vectors, row, residuals, jacobian):
    """Write the rows of an ORIENTATION spring."""
    body, other = springs.kind[k, BODY_A], springs.kind[k, BODY_B]
    spring, target = springs.constants[k], springs.targets[k]
    if other >= 0:
        place_target(springs, k, ws)
        spring, target = ws.row, ws.target
    for side in range(2 if other >= 0 else 1):
        walk, sign = (body, 1.0) if side == 0 else (other, -1.0)
        if vectors:
            rotation_rows(figure, ws, body, walk, sign, spring, target, row, residuals, jacobian)
        else:
            axes_rows(figure, ws, body, walk, sign, spring, target, c, row, residuals, jacobian)
    if vectors:
        x, y, z = times(c, 0, residuals[row], residuals[row + 1], residuals[row + 2])
        residuals[row], residuals[row + 1], residuals[row + 2] = x, y, z
        combine(c, row, jacobian)


@kernel
def axes_rows(figure, ws, body, walk, sign, spring, target, c, row, residuals, jacobian):
    """Write the axes of a frame minus those of its target, combined by c (9,): r_k = sum_q c_kq (b_q - t_q)."""
    r = ws.rotation[body]
    for k in range(3):
        x, y, z = 0.0, 0.0, 0.0
        tx, ty, tz = 0.0, 0.0, 0.0
        for q in range(3):
            bx, by, bz = frame_axis(r, spring, q)
            a = c[3 * k + q]
            x, y, z = x + a * bx, y + a * by, z + a * bz
            tx, ty, tz = tx + a * target[FRAME + q], ty + a * target[FRAME + 3 + q], tz + a * target[FRAME + 6 + q]
        at = row + 3 * k
        residuals[at], residuals[at + 1], residuals[at + 2] = x - tx, y - ty, z - tz
        i = last_dof(figure, walk)
        while i >= 0:
            t = ws.twist[i]
            jacobian[at, i] += sign * (t[1] * z - t[2] * y)
            jacobian[at + 1, i] += sign * (t[2] * x - t[0] * z)
            jacobian[at + 2, i] += sign * (t[0] * y - t[1] * x)
            i = figure.dof[i, ABOVE]


@kernel
def rotation_rows(figure, ws, body, walk, sign, spring, target, row, residuals, jacobian):
    """Write the rotation vector of the error and the angular velocity, both in the axes of the goal's frame."""
    r = ws.rotation[body]
    rotation_error(r, spring, target, residuals[row : row + 3])
    for k in range(3):
        x, y, z = frame_axis(r, spring, k)
        i = last_dof(figure, walk)
        while i >= 0:
            jacobian[row + k, i] += sign * (x * ws.twist[i, 0] + y * ws.twist[i, 1] + z * ws.twist[i, 2])
            i = figure.dof[i, ABOVE]


@kernel
def rows_of(kind, vectors):
    """Return how many rows a spring has."""
    if kind < 0:
        return 1 if kind == COUPLING_SPRING else 0
    return 3 if kind == ORIENTATION_SPRING and vectors else ROWS[kind]


@entry
def vector_residuals(kind, row, target, vectors, frame, local, out):
    """Write the residual of a spring as a vector, and its derivatives by the points and directions that it reads.

    A residual of one row is a length along its gradient by e: as a vector it is r dr/de. An orientation, whose energy
    is that of three axes, is 2 sin(angle / 2) n in its goal's axes: three rows that a matrix can weight.

    Args:
        kind: Any kind.
        row: (CONSTANTS,) its constants; the vectors are written into them.
        target: (TARGETS,) its target.
        vectors: (t, 2, 3) e and d; (t, 3, 3) the three axes of an ORIENTATION.
        frame: (12,) three zeros and a unit matrix: of a body at the origin.
        local: (LOCAL,) scratch memory.
        out: (t, 3 + 9 k) written: the vector, and its derivatives by each of its k vectors, by rows.
    """
    for t in range(vectors.shape[0]):
        if kind == ORIENTATION_SPRING:
            for k in range(9):
                row[AXES + k] = vectors[t, k % 3, k // 3]
            half_sine_rows(frame[3:], row, target, out[t])
            continue
        for k in range(3):
            row[POINT + k], row[AXES + k] = vectors[t, 0, k], vectors[t, 1, k]
        clear(out[t, :21])
        local[STICKY] = 0.0
        residual(kind, row, target, frame[:3], frame[:3], frame[3:], local)
        if is_idle(kind, local):
            continue
        derivative(kind, row, target, local)
        if ROWS[kind] == 3:
            for k in range(3):
                out[t, k] = local[R + k]
            for k in range(18):
                out[t, 3 + k] = local[RE + k]
            continue
        clear(local[KEE : KEE + 18])
        curvature(kind, row, target, 1.0, 0.0, 0.0, local)
        for i in range(3):
            out[t, i] = local[R] * local[RE + i]
            for j in range(3):
                out[t, 3 + 3 * i + j] = local[RE + i] * local[RE + j] + local[R] * local[KEE + 3 * i + j]
                out[t, 12 + 3 * i + j] = local[RE + i] * local[RD + j] + local[R] * local[KED + 3 * i + j]


# --- All springs ---


def weight_roots(kind: np.ndarray, constants: np.ndarray, vectors: bool) -> np.ndarray:
    """Return roots (g, 9) of the weights of springs: kind (g, 4), constants (g, CONSTANTS).

    A POINT or MODEL spring that is part of a full weight matrix brings its own root, in AXES.
    """
    out = np.zeros((len(constants), 9))
    for k, row in enumerate(constants):
        xx, yy, zz, xy, xz, yz = row[WEIGHT : WEIGHT + 6]
        weight = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        spring = kind[k, SPRING_KIND]
        if rows_of(spring, 1) < 3:
            out[k, 0] = math.sqrt(max(0.0, xx))
            continue
        if spring in (POINT_SPRING, MODEL_SPRING) and row[AXES : AXES + 9].any():
            out[k] = row[AXES : AXES + 9]
            continue
        if spring == ORIENTATION_SPRING and vectors:
            weight = np.trace(weight) * np.eye(3) - weight
        values, turn = np.linalg.eigh(weight)
        out[k] = (turn * np.sqrt(np.maximum(values, 0.0)) @ turn.T).ravel()
    return out


@kernel
def soften_rows(spring, row, rows, residuals, jacobian):
    """Scale the rows of a robust spring by the square root of its slope."""
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
def cross_rows(figure, springs, k, ws, row, residuals, jacobian):
    """Add the contribution of the second vector of a CROSS spring to the rows of the first, SIZE rows above."""
    spring, t = springs.constants[k], ws.twist
    at = row - int(spring[SIZE])
    mb, scale = spring[MEASURE + 1], math.sqrt(spring[WEIGHT])
    _, _, _, bx, by, bz, _, _, _, x, y, z = cross_vectors(springs, k, ws)
    for q in range(3):
        cx, cy, cz = scale * spring[AXES2 + 3 * q], scale * spring[AXES2 + 3 * q + 1], scale * spring[AXES2 + 3 * q + 2]
        residuals[at + q] += cx * x + cy * y + cz * z
        i = last_dof(figure, springs.kind[k, BODY_B])
        while i >= 0:
            u, v, w = velocity(t[i], bx, by, bz, mb)
            jacobian[at + q, i] += cx * u + cy * v + cz * w
            i = figure.dof[i, ABOVE]


@entry
def residual_rows(springs, vectors):
    """Return how many rows the stack has."""
    total = 0
    for k in range(springs.kind.shape[0]):
        total += rows_of(springs.kind[k, SPRING_KIND], vectors)
    for i in range(springs.pull.shape[0]):
        if springs.pull[i] != 0.0:
            total += 1
    return total


@kernel
def stack_residuals(figure, springs, roots, theta, ws, vectors, residuals, jacobian):
    """Write residuals (m,) and Jacobian (m, n) for bodies that are already placed."""
    n = theta.shape[0]
    for k in range(jacobian.shape[0]):
        residuals[k] = 0.0
        clear(jacobian[k])
    if has_center(springs):
        center_of_mass(figure, ws, ws.center)
        center_columns(figure, ws)
    ws.local[STICKY] = 0.0
    row = 0
    for k in range(springs.kind.shape[0]):
        kind, spring, c = springs.kind[k, SPRING_KIND], springs.constants[k], roots[k]
        rows = rows_of(kind, vectors)
        if spring[ROBUST] >= 0.0:
            if kind == CROSS_SPRING:
                cross_rows(figure, springs, k, ws, row, residuals, jacobian)
            elif kind == COUPLING_SPRING:
                residuals[row] = c[0] * coupling_gap(spring, springs.targets[k], theta)
                jacobian[row, int(spring[FOLLOWER])] = c[0]
                jacobian[row, int(spring[LEADER])] = -c[0] * spring[RATIO]
            elif kind == ORIENTATION_SPRING:
                orientation_rows(figure, springs, k, ws, c, vectors, row, residuals, jacobian)
            else:
                vector_rows(figure, springs, k, ws, c, row, residuals, jacobian)
            soften_rows(spring, row, rows, residuals, jacobian)
        row += rows
    for i in range(n):
        if springs.pull[i] != 0.0:
            root = math.sqrt(springs.pull[i])
            residuals[row] = root * (theta[i] - springs.home[i])
            jacobian[row, i] = root
            row += 1
    return -1


@entry
def residuals_and_jacobian(figure, springs, roots, theta, work, d, vectors, residuals, jacobian):
    """Write the stacked residuals (m,) and Jacobian (m, n) at theta (n,), m = `residual_rows(springs, vectors)`.

    roots (g, 9): for each spring C by rows with C'C its weight; with `vectors` an orientation's is tr(A) 1 - A, its
    stiffness at the goal (`weight_roots`). vectors: 1 for rotation vectors, 0 for axes. Return -1.
    """
    ws, _ = workspace(figure, springs.kind.shape[0], work, d)
    forward(figure, theta, ws)
    return stack_residuals(figure, springs, roots, theta, ws, vectors, residuals, jacobian)
