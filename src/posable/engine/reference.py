"""Derivatives as the papers give them, explicitly: Jacobians of a frame, the K tensor, the Hessian goal by goal.

The readable reference, and the baseline of the benchmarks. `gather` (assemble.py) computes the same gradient and
Hessian without forming any of these. Rabbani's (2017) procedures for a Jacobian are in model/jacobians.py.

The Hessian of Erleben & Andrews (2018):

Table 1   J_i = a_i x (e - o_i) for a rotation, a_i for a translation; in twists, J_i = v_i + w_i x e
Table 2   K_ij = dJ_i/dtheta_j = w_j x J_i for j above i, which is zero where j translates
4.2       within an exponential map, K_ij = (dw_i/dtheta_j) x (e - o) + w_i x (w_j x (e - o))
(14)      H = J'WJ + K : F, with F = W (e - goal): the paper's r is goal - e

A direction d of a body obeys the same tables with e - o = d, and translations do not move it.
"""

from __future__ import annotations

from posable.engine.bounds import copy_into
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import (
    ROTVEC,
    SWING,
    axis_rate,
    cross,
    forward,
    last_dof,
    parameters_of,
    product,
    rest_rotation,
    times,
    velocity,
)
from posable.engine.layout import (
    ABOVE,
    AXIS,
    BODY,
    BODY_A,
    BODY_B,
    CENTER,
    FIRST,
    FRAME,
    KIND,
    ROBUST,
    SPRING_KIND,
    clear,
    workspace,
)
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

# --- Jacobians of one frame, and their time derivatives ---


@small
def vector_columns(figure, ws, body, x, y, z, moves, jacobian, row):
    """Write rows row..row+2 of the Jacobian (m, n) of a point (moves = 1) or a direction (moves = 0) of a body.

    Only the columns of dofs above the body are written.
    """
    i = last_dof(figure, body)
    while i >= 0:
        jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i] = velocity(ws.twist[i], x, y, z, moves)
        i = figure.dof[i, ABOVE]


@kernel
def frame_columns(figure, theta, ws, body, place, rotation, out):
    """Write the Jacobian (6, n) in world axes of the frame at place (12,) on a body, and its world rotation (9,).

    Returns the frame's position from ws.origin.
    """
    forward(figure, theta, ws)
    product(ws.rotation[body], place[3:], rotation)
    for row in range(6):
        clear(out[row])
    x, y, z = rotated(ws.rotation[body], place, 0)
    x, y, z = x + ws.position[body, 0], y + ws.position[body, 1], z + ws.position[body, 2]
    vector_columns(figure, ws, body, x, y, z, 1.0, out, 0)
    i = last_dof(figure, body)
    while i >= 0:
        for k in range(3):
            out[3 + k, i] = ws.twist[i, k]
        i = figure.dof[i, ABOVE]
    return x, y, z


@entry
def frame_jacobians(figure, poses, work, body, place, rotations, out):
    """Write the Jacobians (t, 6, n) in world axes of a frame on a body at poses (t, n), and its rotations (t, 9)."""
    ws, _ = workspace(figure, 0, work, 1)
    for t in range(poses.shape[0]):
        frame_columns(figure, poses[t], ws, body, place, rotations[t], out[t])


@entry
def frame_jacobian_rates(figure, poses, velocities, work, body, place, rotations, jacobians, out):
    """Write what `frame_jacobians` writes, and the time derivatives (t, 6, n) at velocities (t, n).

    dJ_i/dt = sum of dJ_i/dtheta_j times the velocity of j: K of the frame's place, and how each axis turns the others.
    """
    ws, _ = workspace(figure, 0, work, 1)
    for t in range(poses.shape[0]):
        jacobian, rate, speed = jacobians[t], out[t], velocities[t]
        x, y, z = frame_columns(figure, poses[t], ws, body, place, rotations[t], jacobian)
        for row in range(6):
            clear(rate[row])
        i = last_dof(figure, body)
        while i >= 0:
            j = i
            while j >= 0:
                k = point_curvature(figure, poses[t], ws, i, j, x, y, z, jacobian, 0)
                add_column(rate, 0, i, speed[j], k)
                add_column(rate, 3, i, speed[j], axis_slope(figure, poses[t], ws, i, j))
                if j != i:
                    add_column(rate, 0, j, speed[i], k)
                    if j >= exponential_start(figure, i) >= 0:
                        add_column(rate, 3, j, speed[i], axis_slope(figure, poses[t], ws, j, i))
                j = figure.dof[j, ABOVE]
            i = figure.dof[i, ABOVE]


@small
def add_column(out, row, i, factor, vector):
    """Add a multiple of a vector to rows row..row+2 of column i."""
    out[row, i] += factor * vector[0]
    out[row + 1, i] += factor * vector[1]
    out[row + 2, i] += factor * vector[2]


# Tables 1 and 2


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
    x, y, z = axis_rate(figure.dof[first, KIND], figure.dof[first, AXIS], first, i - first, j - first, theta, 1.0)
    rest_rotation(figure, figure.dof[first, BODY], ws.rotation, ws.frame)
    return times(ws.frame, 0, x, y, z)


@kernel
def axis_slope(figure, theta, ws, i, j):
    """Return dw_i/dtheta_j, in world axes, for j above i or in its exponential map."""
    p, q, first = ws.twist[j], ws.twist[i], exponential_start(figure, i)
    x, y, z = cross(p[0], p[1], p[2], q[0], q[1], q[2])
    if first >= 0 and j >= first:
        ux, uy, uz = own_curvature(figure, theta, ws, first, i, j)
        x, y, z = x + ux, y + uy, z + uz
    return x, y, z


@kernel
def point_curvature(figure, theta, ws, i, j, x, y, z, jacobian, row):
    """Return K_ij = dJ_i/dtheta_j of a point (x, y, z) for j above i, J in rows row..row+2 of jacobian (m, n)."""
    w, first = ws.twist[j], exponential_start(figure, i)
    kx, ky, kz = cross(w[0], w[1], w[2], jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i])
    if first >= 0 and j >= first:
        o = ws.position[figure.dof[i, BODY]]
        ux, uy, uz = own_curvature(figure, theta, ws, first, i, j)
        ux, uy, uz = cross(ux, uy, uz, x - o[0], y - o[1], z - o[2])
        kx, ky, kz = kx + ux, ky + uy, kz + uz
    return kx, ky, kz


@entry
def point_tensor(figure, theta, work, body, point, jacobian, tensor):
    """Write J (3, n) and K (3, n, n), first and second derivatives of the position of a point (3,) [m] of a body."""
    n = theta.shape[0]
    ws, _ = workspace(figure, 0, work, 1)
    forward(figure, theta, ws)
    for row in range(3):
        clear(jacobian[row])
        for i in range(n):
            clear(tensor[row, i])
    x, y, z = rotated(ws.rotation[body], point, 0)
    x, y, z = x + ws.position[body, 0], y + ws.position[body, 1], z + ws.position[body, 2]
    vector_columns(figure, ws, body, x, y, z, 1.0, jacobian, 0)
    i = last_dof(figure, body)
    while i >= 0:
        j = i
        while j >= 0:
            kx, ky, kz = point_curvature(figure, theta, ws, i, j, x, y, z, jacobian, 0)
            tensor[0, i, j] = tensor[0, j, i] = kx
            tensor[1, i, j] = tensor[1, j, i] = ky
            tensor[2, i, j] = tensor[2, j, i] = kz
            j = figure.dof[j, ABOVE]
        i = figure.dof[i, ABOVE]


# --- The Hessian, goal by goal: algorithm 4 ---

MOST_ROWS = 9  # of the Jacobian of one spring: three axes of an orientation


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
    clear(terms)
    if kind == ORIENTATION_SPRING:
        for p in range(3):
            v[3 * p], v[3 * p + 1], v[3 * p + 2] = frame_axis(ws.rotation[body], row, p)
        for p in range(3):
            for q in range(3):
                a = slope * axis_weight(row, p, q)
                for j in range(3):
                    f[3 * p + j] += a * (v[3 * q + j] - target[FRAME + 3 * j + q])
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
    ws, _ = workspace(figure, g, work, d)
    forward(figure, theta, ws)
    for i in range(n):
        gradient[i] = springs.pull[i] * (theta[i] - springs.home[i])
        clear(hessian[i])
        hessian[i, i] = springs.pull[i]
    for k in range(g):
        kind, body = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A]
        spring, target = springs.constants[k], springs.targets[k]
        if kind < 0 or kind == MODEL_SPRING or body == CENTER or springs.kind[k, BODY_B] >= 0:
            return k
        if spring[ROBUST] < 0.0:  # switched off
            continue
        row = MOST_ROWS * k
        for a in range(row, row + MOST_ROWS):
            clear(jacobian[a])
        slope, bend = 1.0, 0.0
        if spring[ROBUST] > 0.0:
            p, r = ws.position[body], ws.rotation[body]
            energy = any_energy(kind, spring, target, ws.origin, p, r, ws.local, ws.error, k)
            energy += 0.5 * energy * energy / spring[ROBUST]  # before the robust loss
            _, slope, bend = robust_factors(energy, spring[ROBUST])
            copy_into(gradient, ws.spare)
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
