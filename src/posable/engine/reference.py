"""The Jacobian, the K tensor and the exact Hessian as Erleben & Andrews 2018 gives them: explicitly, goal by goal.

The readable reference, and the baseline of the benchmark: `gather` computes the same Hessian without any of these.

Table 1   J_i = a_i x (e - o_i) for a rotation, a_i for a translation; in twists, J_i = v_i + w_i x e
Table 2   K_ij = dJ_i/dtheta_j = w_j x J_i for j above i, which is zero where j translates
4.2       within an exponential map, K_ij = (dw_i/dtheta_j) x (e - o) + w_i x (w_j x (e - o))
(14)      H = J'WJ + K : F, with F = W (e - goal): the paper's r is goal - e

A direction d of a body obeys the same tables with e - o = d, and translations do not move it.
"""

from __future__ import annotations

from posable.engine.jit import entry, kernel, small
from posable.engine.joints import (
    ROTVEC,
    SWING,
    column_of,
    exponential_coefficients,
    forward,
    last_dof,
    left_jacobian_rate,
    parameters_of,
    rest_rotation,
    rotation_vector,
)
from posable.engine.layout import ABOVE, ALONG, AXIS, BODY, CENTER, FIRST, KIND, ON, OTHER, ROBUST, SPRING, workspace
from posable.engine.springs import (
    KDD,
    KED,
    KEE,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    RD,
    RE,
    STICKY,
    E,
    R,
    any_energy,
    axis_weight,
    frame_axis,
    is_idle,
    residual,
    robust_factors,
    rotated,
    second_derivatives,
    weighted_residual,
)

MOST_ROWS = 9  # of the Jacobian of one spring: three axes of an orientation


# ---------------------------------------------------------------------------------------------- tables 1 and 2


@small
def vector_columns(figure, ws, body, x, y, z, moves, jacobian, row):
    """Write rows row..row+2 of the Jacobian (m, n) of a point (moves = 1) or a direction (moves = 0) of a body.

    Only the columns of dofs above the body are written.
    """
    i = last_dof(figure, body)
    while i >= 0:
        t = ws.twist[i]
        jacobian[row, i] = t[1] * z - t[2] * y + moves * t[3]
        jacobian[row + 1, i] = t[2] * x - t[0] * z + moves * t[4]
        jacobian[row + 2, i] = t[0] * y - t[1] * x + moves * t[5]
        i = figure.dof[i, ABOVE]


@small
def exponential_start(figure, i):
    """Return the first dof of the exponential map that dof i belongs to, or -1."""
    first = figure.body[figure.dof[i, BODY], FIRST]
    while first <= i:
        kind = figure.dof[first, KIND]
        m = parameters_of(kind)
        if i < first + m:
            return first if kind in (ROTVEC, SWING) else -1
        first += m
    return -1


@kernel
def own_curvature(figure, theta, ws, first, i, j):
    """Return dw_i/dtheta_j + w_i x w_j for two dofs of the exponential map at `first`, in world axes.

    Crossed with the arm, it turns w_j x J_i, which holds for joints that follow one another, into K_ij.
    """
    kind, axis = figure.dof[first, KIND], figure.dof[first, AXIS]
    wx, wy, wz = rotation_vector(kind, axis, first, theta)
    _, b, c, db, dc = exponential_coefficients(wx * wx + wy * wy + wz * wz)
    x, y, z = left_jacobian_rate(
        wx, wy, wz, b, c, db, dc, column_of(kind, axis, i - first), column_of(kind, axis, j - first)
    )
    f = ws.frame
    rest_rotation(figure, figure.dof[first, BODY], ws.rotation, f)
    p, q = ws.twist[i], ws.twist[j]
    return (
        f[0] * x + f[1] * y + f[2] * z + p[1] * q[2] - p[2] * q[1],
        f[3] * x + f[4] * y + f[5] * z + p[2] * q[0] - p[0] * q[2],
        f[6] * x + f[7] * y + f[8] * z + p[0] * q[1] - p[1] * q[0],
    )


@entry
def point_tensor(figure, theta, work, body, point, jacobian, tensor):
    """Write J (3, n) and K (3, n, n), first and second derivatives of the position of a point (3,) [m] of a body."""
    n = theta.shape[0]
    ws = workspace(work, n, figure.body.shape[0], 0, 1)
    forward(figure, theta, ws)
    for row in range(3):
        for i in range(n):
            jacobian[row, i] = 0.0
            for j in range(n):
                tensor[row, i, j] = 0.0
    x, y, z = rotated(ws.rotation[body], point, 0)
    x, y, z = x + ws.position[body, 0], y + ws.position[body, 1], z + ws.position[body, 2]
    vector_columns(figure, ws, body, x, y, z, 1.0, jacobian, 0)
    i = last_dof(figure, body)
    while i >= 0:
        first = exponential_start(figure, i)
        a, b, c = jacobian[0, i], jacobian[1, i], jacobian[2, i]
        j = i
        while j >= 0:
            w = ws.twist[j]
            kx, ky, kz = w[1] * c - w[2] * b, w[2] * a - w[0] * c, w[0] * b - w[1] * a
            if first >= 0 and j >= first:
                o = ws.position[figure.dof[i, BODY]]
                ux, uy, uz = own_curvature(figure, theta, ws, first, i, j)
                kx += uy * (z - o[2]) - uz * (y - o[1])
                ky += uz * (x - o[0]) - ux * (z - o[2])
                kz += ux * (y - o[1]) - uy * (x - o[0])
            tensor[0, i, j] = tensor[0, j, i] = kx
            tensor[1, i, j] = tensor[1, j, i] = ky
            tensor[2, i, j] = tensor[2, j, i] = kz
            j = figure.dof[j, ABOVE]
        i = figure.dof[i, ABOVE]


# ------------------------------------------------------------------------------------------------- algorithm 4


@small
def add_tensor(figure, theta, ws, body, x, y, z, moves, fx, fy, fz, jacobian, row, hessian):
    """Add K : F to the lower triangle of H, for one vector of a body: (w_j x J_i).F = w_j.(J_i x F)."""
    i = last_dof(figure, body)
    while i >= 0:
        a, b, c = jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i]
        gx, gy, gz = b * fz - c * fy, c * fx - a * fz, a * fy - b * fx
        j = i
        while j >= 0:
            hessian[i, j] += ws.twist[j, 0] * gx + ws.twist[j, 1] * gy + ws.twist[j, 2] * gz
            j = figure.dof[j, ABOVE]
        first = exponential_start(figure, i)
        if first >= 0:
            o = ws.position[figure.dof[i, BODY]]
            dx, dy, dz = x - moves * o[0], y - moves * o[1], z - moves * o[2]
            tx, ty, tz = dy * fz - dz * fy, dz * fx - dx * fz, dx * fy - dy * fx
            for j in range(first, i + 1):
                ux, uy, uz = own_curvature(figure, theta, ws, first, i, j)
                hessian[i, j] += ux * tx + uy * ty + uz * tz
        i = figure.dof[i, ABOVE]


@kernel
def vector_terms(kind, row, target, ws, body, slope, exact, terms):
    """Write the vectors of a spring, the forces on them, and the energy's second derivative by them.

    terms (117,): three vectors (9), their forces (9), whether translations move them (3, of 18), then the second
    derivative (9, 9) by rows. ORIENTATION has its three axes, the other kinds e and d.
    """
    v, f, moves, k = terms[0:9], terms[9:18], terms[18:21], terms[36:117]
    for i in range(117):
        terms[i] = 0.0
    if kind == ORIENTATION_SPRING:
        for p in range(3):
            v[3 * p], v[3 * p + 1], v[3 * p + 2] = frame_axis(ws.rotation[body], row, p)
        for p in range(3):
            for q in range(3):
                a = slope * axis_weight(row, p, q)
                for j in range(3):
                    f[3 * p + j] += a * (v[3 * q + j] - target[ALONG + 3 * j + q])
                    k[9 * (3 * p + j) + 3 * q + j] = a
        return
    local = ws.local
    local[STICKY] = 0.0
    residual(kind, row, target, ws.origin, ws.position[body], ws.rotation[body], local)
    fx, fy, fz, _, _, _, _, _, _ = weighted_residual(row, slope, local[R], local[R + 1], local[R + 2])
    moves[0] = 1.0
    if is_idle(kind, local):
        return
    second_derivatives(kind, row, target, exact, slope, fx, fy, fz, local)
    for i in range(6):
        v[i] = local[E + i]
    for i in range(3):
        for block in range(2):
            a = (RE if block == 0 else RD) + i
            f[3 * block + i] = local[a] * fx + local[a + 3] * fy + local[a + 6] * fz
        for j in range(3):
            k[9 * i + j] = local[KEE + 3 * i + j]
            k[9 * i + 3 + j] = k[9 * (3 + j) + i] = local[KED + 3 * i + j]
            k[9 * (3 + i) + 3 + j] = local[KDD + 3 * i + j]


@kernel
def add_direct(figure, theta, ws, body, terms, exact, jacobian, row, gradient, hessian):
    """Add J'F to the gradient and J'KJ + K : F to the lower triangle of H, J (9, n) of the vectors in `terms`."""
    for p in range(3):
        x, y, z = terms[3 * p], terms[3 * p + 1], terms[3 * p + 2]
        vector_columns(figure, ws, body, x, y, z, terms[18 + p], jacobian, row + 3 * p)
    i = last_dof(figure, body)
    while i >= 0:
        for a in range(9):
            gradient[i] += terms[9 + a] * jacobian[row + a, i]
            u = 0.0
            for b in range(9):
                u += terms[36 + 9 * b + a] * jacobian[row + b, i]
            if u != 0.0:
                for j in range(i + 1):
                    hessian[i, j] += u * jacobian[row + a, j]
        i = figure.dof[i, ABOVE]
    if exact != 0.0:
        for p in range(3):
            x, y, z = terms[3 * p], terms[3 * p + 1], terms[3 * p + 2]
            fx, fy, fz = exact * terms[9 + 3 * p], exact * terms[10 + 3 * p], exact * terms[11 + 3 * p]
            add_tensor(figure, theta, ws, body, x, y, z, terms[18 + p], fx, fy, fz, jacobian, row + 3 * p, hessian)


@entry
def direct_hessian(figure, springs, theta, work, d, exact, terms, jacobian, gradient, hessian):
    """Write gradient (n,) and dense symmetric Hessian (n, n) at theta (n,), goal by goal.

    Algorithms 3 and 4 of Erleben & Andrews (2018).

    jacobian (m, n) receives J of every goal, m = MOST_ROWS for each spring; terms (117,) is scratch. exact is 1, or 0
    for Gauss-Newton. Return -1, or the index of the first spring that is not on one body alone.
    """
    n, g = theta.shape[0], springs.kind.shape[0]
    ws = workspace(work, n, figure.body.shape[0], g, d)
    forward(figure, theta, ws)
    for i in range(n):
        gradient[i] = springs.pull[i] * (theta[i] - springs.home[i])
        for j in range(n):
            hessian[i, j] = 0.0
        hessian[i, i] = springs.pull[i]
    for k in range(g):
        kind, body, spring, target = (
            springs.kind[k, SPRING],
            springs.kind[k, ON],
            springs.constants[k],
            springs.targets[k],
        )
        if kind < 0 or kind == MODEL_SPRING or body == CENTER or springs.kind[k, OTHER] >= 0:
            return k
        if spring[ROBUST] < 0.0:  # switched off
            continue
        row = MOST_ROWS * k
        for a in range(row, row + MOST_ROWS):
            for i in range(n):
                jacobian[a, i] = 0.0
        slope, bend = 1.0, 0.0
        if spring[ROBUST] > 0.0:
            p, r = ws.position[body], ws.rotation[body]
            energy = any_energy(kind, spring, target, ws.origin, p, r, ws.local, ws.error, k)
            energy += 0.5 * energy * energy / spring[ROBUST]  # before the robust loss
            _, slope, bend = robust_factors(energy, spring[ROBUST])
            for i in range(n):
                ws.spare[i] = gradient[i]
        vector_terms(kind, spring, target, ws, body, slope, exact, terms)
        add_direct(figure, theta, ws, body, terms, exact, jacobian, row, gradient, hessian)
        if bend != 0.0 and exact != 0.0:  # rho'' g g', with g the spring's own gradient before rho
            add_bend(figure, ws, body, exact * bend / (slope * slope), gradient, hessian)
    for i in range(n):
        for j in range(i):
            hessian[j, i] = hessian[i, j]
    return -1


@small
def add_bend(figure, ws, body, bend, gradient, hessian):
    """Add bend g g' over the dofs above a body, where g is what the gradient has gained since ws.spare."""
    i = last_dof(figure, body)
    while i >= 0:
        x = bend * (gradient[i] - ws.spare[i])
        j = i
        while j >= 0:
            hessian[i, j] += x * (gradient[j] - ws.spare[j])
            j = figure.dof[j, ABOVE]
        i = figure.dof[i, ABOVE]
