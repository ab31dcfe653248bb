"""The Jacobian, the K tensor and the exact Hessian as Erleben & Andrews 2018 gives them: explicitly, goal by goal.

The readable reference, and the opponent in the benchmark: `gather` finds the same Hessian without any of these.

Table 1   J_i = a_i x (e - o_i) for a rotation, a_i for a translation; in twists, J_i = v_i + w_i x e
Table 2   K_ij = dJ_i/dtheta_j = w_j x J_i for j above i, which is zero where j translates
4.2       within an exponential map, K_ij = (dw_i/dtheta_j) x (e - o) + w_i x (w_j x (e - o))
(14)      H = J'WJ + K : F, with F = W (e - goal): the paper's r is goal - e

A direction d of a body obeys the same tables with e - o = d, and translations do not move it.
"""

from __future__ import annotations

from posable.engine.forward import forward, last_dof, rest_rotation, workspace
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import ROTVEC, SWING, column_of, parameters_of, rotation_vector
from posable.engine.layout import (
    ABOVE,
    ALONG,
    AT,
    AXES,
    AXIS,
    BODY,
    FIRST,
    KIND,
    ON,
    OTHER,
    POINT,
    ROBUST,
    SPRING,
    WEIGHT,
)
from posable.engine.so3 import exponential_coefficients, left_jacobian_rate
from posable.engine.springs import DIRECTION_SPRING, ORIENTATION_SPRING, POINT_SPRING, frame_axis
from posable.engine.wrenches import robust_factors, rotated

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


@small
def add_point_hessian(figure, theta, ws, body, e, w, row, slope, exact, jacobian, gradient, hessian):
    """Add one point or direction with the weight w (6,): e (7,) holds the vector, the residual, and 1 for a point."""
    moves = e[6]
    vector_columns(figure, ws, body, e[0], e[1], e[2], moves, jacobian, row)
    xx, yy, zz, xy, xz, yz = slope * w[0], slope * w[1], slope * w[2], slope * w[3], slope * w[4], slope * w[5]
    fx = xx * e[3] + xy * e[4] + xz * e[5]
    fy = xy * e[3] + yy * e[4] + yz * e[5]
    fz = xz * e[3] + yz * e[4] + zz * e[5]
    i = last_dof(figure, body)
    while i >= 0:
        a, b, c = jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i]
        gradient[i] += a * fx + b * fy + c * fz
        ux, uy, uz = xx * a + xy * b + xz * c, xy * a + yy * b + yz * c, xz * a + yz * b + zz * c
        for j in range(i + 1):
            hessian[i, j] += ux * jacobian[row, j] + uy * jacobian[row + 1, j] + uz * jacobian[row + 2, j]
        i = figure.dof[i, ABOVE]
    if exact != 0.0:
        fx, fy, fz = exact * fx, exact * fy, exact * fz
        add_tensor(figure, theta, ws, body, e[0], e[1], e[2], moves, fx, fy, fz, jacobian, row, hessian)


@small
def add_orientation_hessian(figure, theta, ws, body, spring, target, row, slope, exact, jacobian, gradient, hessian):
    """Add an ORIENTATION spring as three directions b_p: 1/2 sum A_pq (b_p - t_p).(b_q - t_q)."""
    r = ws.rotation[body]
    for p in range(3):
        x, y, z = frame_axis(r, spring, p)
        vector_columns(figure, ws, body, x, y, z, 0.0, jacobian, row + 3 * p)
    for p in range(3):
        fx, fy, fz = 0.0, 0.0, 0.0
        for q in range(3):
            a = slope * (spring[WEIGHT + p] if p == q else spring[WEIGHT + 2 + p + q])
            x, y, z = frame_axis(r, spring, q)
            fx += a * (x - target[ALONG + q])
            fy += a * (y - target[ALONG + 3 + q])
            fz += a * (z - target[ALONG + 6 + q])
            if a == 0.0:
                continue
            i = last_dof(figure, body)
            while i >= 0:
                for k in range(3):
                    u = a * jacobian[row + 3 * p + k, i]
                    for j in range(i + 1):
                        hessian[i, j] += u * jacobian[row + 3 * q + k, j]
                i = figure.dof[i, ABOVE]
        i = last_dof(figure, body)
        while i >= 0:
            for k in range(3):
                f = fx if k == 0 else (fy if k == 1 else fz)
                gradient[i] += f * jacobian[row + 3 * p + k, i]
            i = figure.dof[i, ABOVE]
        if exact != 0.0:
            x, y, z = frame_axis(r, spring, p)
            fx, fy, fz = exact * fx, exact * fy, exact * fz
            add_tensor(figure, theta, ws, body, x, y, z, 0.0, fx, fy, fz, jacobian, row + 3 * p, hessian)


@small
def read_vector(kind, spring, target, ws, body, e):
    """Write the vector, its residual, and whether translations move it, of a POINT or DIRECTION spring: e (7,)."""
    r = ws.rotation[body]
    if kind == POINT_SPRING:
        x, y, z = rotated(r, spring, POINT)
        for k in range(3):
            e[k] = ws.position[body, k] + (x if k == 0 else (y if k == 1 else z))
            e[3 + k] = ws.origin[k] + e[k] - target[AT + k]
        e[6] = 1.0
    else:
        e[0], e[1], e[2] = rotated(r, spring, AXES)
        for k in range(3):
            e[3 + k] = e[k] - target[ALONG + k]
        e[6] = 0.0


@kernel
def plain_energy(kind, spring, target, r, e, w):
    """Return the energy of a spring before its robust scale."""
    if kind == ORIENTATION_SPRING:
        total = 0.0
        for p in range(3):
            px, py, pz = frame_axis(r, spring, p)
            px, py, pz = px - target[ALONG + p], py - target[ALONG + 3 + p], pz - target[ALONG + 6 + p]
            for q in range(3):
                a = spring[WEIGHT + p] if p == q else spring[WEIGHT + 2 + p + q]
                x, y, z = frame_axis(r, spring, q)
                x, y, z = x - target[ALONG + q], y - target[ALONG + 3 + q], z - target[ALONG + 6 + q]
                total += 0.5 * a * (px * x + py * y + pz * z)
        return total
    x, y, z = e[3], e[4], e[5]
    square = w[0] * x * x + w[1] * y * y + w[2] * z * z
    return 0.5 * square + w[3] * x * y + w[4] * x * z + w[5] * y * z


@entry
def direct_hessian(figure, springs, theta, work, d, exact, scratch, jacobian, gradient, hessian):
    """Write gradient (n,) and dense symmetric Hessian (n, n) at theta (n,), goal by goal (Erleben & Andrews 2018
    algorithms 3, 4).

    jacobian (m, n) receives J of every goal, m = MOST_ROWS for each spring; scratch (16,). exact is 1, or 0 for
    Gauss-Newton. Return -1, or the index of the first spring that is not of a kind with a place in the tables.
    """
    n, g = theta.shape[0], springs.kind.shape[0]
    ws = workspace(work, n, figure.body.shape[0], g, d)
    forward(figure, theta, ws)
    for i in range(n):
        gradient[i] = springs.pull[i] * (theta[i] - springs.home[i])
        for j in range(n):
            hessian[i, j] = 0.0
        hessian[i, i] = springs.pull[i]
    e, w = scratch[0:7], scratch[7:13]
    row = 0
    for k in range(g):
        kind, body, spring = springs.kind[k, SPRING], springs.kind[k, ON], springs.constants[k]
        target = springs.targets[k]
        if kind not in (POINT_SPRING, DIRECTION_SPRING, ORIENTATION_SPRING) or springs.kind[k, OTHER] >= 0:
            return k
        if spring[ROBUST] < 0.0:  # switched off
            continue
        rows = 9 if kind == ORIENTATION_SPRING else 3
        for a in range(row, row + rows):
            for i in range(n):
                jacobian[a, i] = 0.0
        for a in range(6):
            w[a] = spring[WEIGHT + a]
        if kind == DIRECTION_SPRING:
            w[1] = w[2] = w[0]
            w[3] = w[4] = w[5] = 0.0
        if kind != ORIENTATION_SPRING:
            read_vector(kind, spring, target, ws, body, e)
        slope, bend = 1.0, 0.0
        if spring[ROBUST] > 0.0:
            energy = plain_energy(kind, spring, target, ws.rotation[body], e, w)
            _, slope, bend = robust_factors(energy, spring[ROBUST])
            for i in range(n):
                ws.spare[i] = gradient[i]
        if kind == ORIENTATION_SPRING:
            add_orientation_hessian(
                figure, theta, ws, body, spring, target, row, slope, exact, jacobian, gradient, hessian
            )
        else:
            add_point_hessian(figure, theta, ws, body, e, w, row, slope, exact, jacobian, gradient, hessian)
        if bend != 0.0 and exact != 0.0:  # rho'' g g', with g the spring's own gradient before rho
            add_bend(figure, ws, body, exact * bend / (slope * slope), gradient, hessian)
        row += rows
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
