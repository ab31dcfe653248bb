"""Derivatives as the papers give them, explicitly: Jacobians of a frame, the K tensor, the Hessian goal by goal.

The readable reference, and the baseline of the benchmarks. `gather` (assemble.py) computes the same gradient and
Hessian without forming any of these.

Jacobians of a frame: CROSS, cross products (Parent, Kinematic Linkages; Erleben & Andrews 2018); ADJOINT and ADJUSTED,
procedures 2 and 3 of Rabbani (2017); FINITE, extrapolated differences. Their time derivatives follow Rabbani (2017),
equations 14 and 15.

The Hessian of Erleben & Andrews (2018):

Table 1   J_i = a_i x (e - o_i) for a rotation, a_i for a translation; in twists, J_i = v_i + w_i x e
Table 2   K_ij = dJ_i/dtheta_j = w_j x J_i for j above i, which is zero where j translates
4.2       within an exponential map, K_ij = (dw_i/dtheta_j) x (e - o) + w_i x (w_j x (e - o))
(14)      H = J'WJ + K : F, with F = W (e - goal): the paper's r is goal - e

A direction d of a body obeys the same tables with e - o = d, and translations do not move it.
"""

from __future__ import annotations

import math

from posable.engine.bounds import copy_into
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import (
    ROTVEC,
    SLIDE,
    SWING,
    TURN,
    column_of,
    exponential_coefficients,
    forward,
    last_dof,
    left_jacobian_column,
    left_jacobian_rate,
    parameters_of,
    rest_rotation,
    rotate_by_vector,
    rotation_vector,
    turn,
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
    LAST,
    PARENT,
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

# --- Jacobians of one frame ---

CROSS, ADJOINT, ADJUSTED, FINITE = 0, 1, 2, 3
WORLD_AXES, OWN_AXES = 0, 1
SCRATCH = 72  # size of the scratch array of these kernels
STEP = 2.0e-3  # of FINITE [rad, m]: the error of the extrapolation, h^4, and rounding, 1/h, are both near 1e-12


# Small things


@kernel
def multiply(a, b, out):
    """Write the product of two 3x3 matrices (9,) by rows; out may not be one of them."""
    for i in range(0, 9, 3):
        for j in range(3):
            out[i + j] = a[i] * b[j] + a[i + 1] * b[3 + j] + a[i + 2] * b[6 + j]


@kernel
def set_identity(out):
    """Write the 3x3 identity (9,)."""
    for k in range(9):
        out[k] = 1.0 if k % 4 == 0 else 0.0


@kernel
def rotate_columns(rotation, transposed, out):
    """Rotate both halves of every column of a Jacobian (6, n), in place."""
    for i in range(out.shape[1]):
        for half in range(0, 6, 3):
            x, y, z = out[half, i], out[half + 1, i], out[half + 2, i]
            for k in range(3):
                if transposed:
                    out[half + k, i] = rotation[k] * x + rotation[3 + k] * y + rotation[6 + k] * z
                else:
                    out[half + k, i] = rotation[3 * k] * x + rotation[3 * k + 1] * y + rotation[3 * k + 2] * z


@kernel
def frame_in_world(ws, body, place, rotation):
    """Write the world rotation (9,) of the frame at place (12,) on a body; return its position from ws.origin."""
    r, p = ws.rotation[body], ws.position[body]
    multiply(r, place[3:], rotation)
    return (
        p[0] + r[0] * place[0] + r[1] * place[1] + r[2] * place[2],
        p[1] + r[3] * place[0] + r[4] * place[1] + r[5] * place[2],
        p[2] + r[6] * place[0] + r[7] * place[1] + r[8] * place[2],
    )


# By cross products


@kernel
def cross_jacobian(figure, theta, ws, body, place, rotation, out):
    """Write the Jacobian (6, n) in world axes: a x (p - o) for a rotation about a through o, a for a translation."""
    forward(figure, theta, ws)
    px, py, pz = frame_in_world(ws, body, place, rotation)
    i = last_dof(figure, body)
    while i >= 0:
        ax, ay, az = ws.twist[i, 0], ws.twist[i, 1], ws.twist[i, 2]
        if ax == 0.0 and ay == 0.0 and az == 0.0:
            for k in range(3):
                out[k, i] = ws.twist[i, 3 + k]
        else:
            joint = ws.position[figure.dof[i, BODY]]  # the slides of a joint come first: its turns share this origin
            x, y, z = px - joint[0], py - joint[1], pz - joint[2]
            out[0, i] = ay * z - az * y
            out[1, i] = az * x - ax * z
            out[2, i] = ax * y - ay * x
        out[3, i] = ax
        out[4, i] = ay
        out[5, i] = az
        i = figure.dof[i, ABOVE]


# By adjoint blocks


@kernel
def inverse_adjoint(rotation, position, block):
    """Write the adjoint (6, 6) by rows of a transform's inverse (Rabbani 2017, (5)): twists from it to its source."""
    r, p = rotation, position
    x = -(r[0] * p[0] + r[3] * p[1] + r[6] * p[2])
    y = -(r[1] * p[0] + r[4] * p[1] + r[7] * p[2])
    z = -(r[2] * p[0] + r[5] * p[1] + r[8] * p[2])
    for k in range(3):
        a, b, c = r[3 * k], r[3 * k + 1], r[3 * k + 2]  # column k of the inverse rotation
        block[k], block[6 + k], block[12 + k] = a, b, c
        block[18 + k] = block[24 + k] = block[30 + k] = 0.0
        block[3 + k], block[9 + k], block[15 + k] = y * c - z * b, z * a - x * c, x * b - y * a
        block[21 + k], block[27 + k], block[33 + k] = a, b, c


@kernel
def start_at(place, rotation, position):
    """Begin at the transform from the frame to its body."""
    for k in range(3):
        position[k] = place[k]
    for k in range(9):
        rotation[k] = place[3 + k]


@kernel
def rotate_left(motion, rotation, position, spare):
    """Apply a rotation (9,) on the left of a transform."""
    x, y, z = position[0], position[1], position[2]
    for k in range(3):
        position[k] = motion[3 * k] * x + motion[3 * k + 1] * y + motion[3 * k + 2] * z
    copy_into(rotation, spare)
    multiply(motion, spare, rotation)


@kernel
def step_to_parent(figure, body, rotation, position, spare):
    """Apply the constant transform of a body on the left: from before its motion to its parent's frame."""
    rest = figure.rest[body]
    rotate_left(rest[3:], rotation, position, spare)
    for k in range(3):
        position[k] += rest[k]


@kernel
def step_over(figure, i, theta, rotation, position, motion, spare):
    """Apply the elementary motion that starts at dof i on the left: from after it to before it."""
    kind, axis = figure.dof[i, KIND], figure.dof[i, AXIS]
    if kind == SLIDE:
        position[axis] += figure.sign[i] * theta[i]
        return
    set_identity(motion)
    turn_or_swing(figure, i, theta, motion)
    rotate_left(motion, rotation, position, spare)


@kernel
def turn_or_swing(figure, i, theta, rotation):
    """Rotate a frame (9,) by the elementary rotation that starts at dof i, on the right."""
    kind, axis = figure.dof[i, KIND], figure.dof[i, AXIS]
    if kind == TURN:
        turn(rotation, axis, figure.sign[i] * math.sin(theta[i]), math.cos(theta[i]))
    else:
        wx, wy, wz = rotation_vector(kind, axis, i, theta)
        rotate_by_vector(rotation, wx, wy, wz)


@kernel
def run_start(figure, i):
    """Return the first dof of the elementary motion that dof i belongs to."""
    first = figure.body[figure.dof[i, BODY], FIRST]
    while first + parameters_of(figure.dof[first, KIND]) <= i:
        first += parameters_of(figure.dof[first, KIND])
    return first


@kernel
def own_axis(figure, first, k, theta):
    """Return the axis of parameter k of the elementary motion that starts at dof `first`, in the frame before it.

    It is the axis of the joint or, for an exponential map, a column of its left Jacobian.
    """
    kind, axis = figure.dof[first, KIND], figure.dof[first, AXIS]
    if kind in (SLIDE, TURN):
        sign = figure.sign[first]
        return sign if axis == 0 else 0.0, sign if axis == 1 else 0.0, sign if axis == 2 else 0.0
    wx, wy, wz = rotation_vector(kind, axis, first, theta)
    _, b, c, _, _ = exponential_coefficients(wx * wx + wy * wy + wz * wz)
    return left_jacobian_column(wx, wy, wz, b, c, column_of(kind, axis, k))


@kernel
def put_column(block, kind, x, y, z, i, out):
    """Write column i of a Jacobian (6, n): the part of an adjoint block (Rabbani 2017, fig. 5) along an axis."""
    offset = 0 if kind == SLIDE else 3
    for row in range(6):
        j = 6 * row + offset
        out[row, i] = block[j] * x + block[j + 1] * y + block[j + 2] * z


@kernel
def adjoint_jacobian(figure, theta, body, place, rotation, scratch, out, speed, rates):
    """Write the Jacobian (6, n) in the frame's own axes (Rabbani 2017 procedure 2), and its world rotation (9,).

    rates (6, n): its time derivative at velocities `speed` (n,), where it has any row; scratch[66:72] then receives the
    frame's own velocity.
    """
    position, motion, spare, block = scratch[0:3], scratch[3:12], scratch[12:21], scratch[21:57]
    twist = scratch[66:72]
    clear(twist)
    start_at(place, rotation, position)
    while body >= 0:
        i = figure.body[body, LAST]
        while i > figure.body[body, FIRST]:
            i = run_start(figure, i - 1)
            step_over(figure, i, theta, rotation, position, motion, spare)
            inverse_adjoint(rotation, position, block)
            kind = figure.dof[i, KIND]
            for k in range(parameters_of(kind)):
                x, y, z = own_axis(figure, i, k, theta)
                put_column(block, kind, x, y, z, i + k, out)
            if rates.shape[0] > 0:
                put_rates(figure, i, theta, speed, block, twist, out, rates)
        step_to_parent(figure, body, rotation, position, spare)
        body = figure.body[body, PARENT]


@kernel
def adjusted_jacobian(figure, theta, body, place, rotation, scratch, out):
    """Write the Jacobian (6, n) in the frame's own axes (Rabbani 2017 procedure 3), and its world rotation (9,).

    One adjoint for each joint, from after its whole motion; the columns of the contribution R' (30) are the axes of
    its dofs before the joint's motion, and R* = R^T R' (31) adjusts the adjoint for their order.
    """
    position, whole, part, spare, block = scratch[0:3], scratch[3:12], scratch[12:21], scratch[21:30], scratch[30:66]
    start_at(place, rotation, position)
    while body >= 0:
        first, last = figure.body[body, FIRST], figure.body[body, LAST]
        set_identity(whole)
        i = first
        while i < last:
            if figure.dof[i, KIND] != SLIDE:
                turn_or_swing(figure, i, theta, whole)
            i += parameters_of(figure.dof[i, KIND])
        inverse_adjoint(rotation, position, block)
        set_identity(part)
        i = first
        while i < last:
            adjusted_columns(figure, i, theta, whole, part, block, out)
            if figure.dof[i, KIND] != SLIDE:
                turn_or_swing(figure, i, theta, part)
            i += parameters_of(figure.dof[i, KIND])
        rotate_left(whole, rotation, position, spare)
        for i in range(first, last):
            if figure.dof[i, KIND] == SLIDE:
                position[figure.dof[i, AXIS]] += figure.sign[i] * theta[i]
        step_to_parent(figure, body, rotation, position, spare)
        body = figure.body[body, PARENT]


@kernel
def adjusted_columns(figure, first, theta, whole, part, block, out):
    """Set the columns of one elementary motion: block R^T r', with r' its contribution before the joint's motion."""
    kind = figure.dof[first, KIND]
    for k in range(parameters_of(kind)):
        lx, ly, lz = own_axis(figure, first, k, theta)
        x = part[0] * lx + part[1] * ly + part[2] * lz
        y = part[3] * lx + part[4] * ly + part[5] * lz
        z = part[6] * lx + part[7] * ly + part[8] * lz
        ax = whole[0] * x + whole[3] * y + whole[6] * z
        ay = whole[1] * x + whole[4] * y + whole[7] * z
        az = whole[2] * x + whole[5] * y + whole[8] * z
        put_column(block, kind, ax, ay, az, first + k, out)


# By finite differences


@kernel
def finite_jacobian(figure, theta, ws, body, place, rotation, scratch, out):
    """Write the Jacobian (6, n) in world axes from differences of forward kinematics, for every dof above the frame."""
    moved, slope = scratch[0:9], scratch[9:21]
    copy_into(theta, ws.trial)
    i = last_dof(figure, body)
    while i >= 0:
        clear(slope)
        for trial in range(4):  # +h, -h, +h/2, -h/2; Richardson: (4 D(h/2) - D(h)) / 3
            step = STEP if trial < 2 else 0.5 * STEP
            weight = (-1.0 if trial < 2 else 4.0) / (6.0 * step) * (1.0 if trial % 2 == 0 else -1.0)
            ws.trial[i] = theta[i] + step if trial % 2 == 0 else theta[i] - step
            forward(figure, ws.trial, ws)
            x, y, z = frame_in_world(ws, body, place, moved)
            slope[0] += weight * (ws.origin[0] + x)
            slope[1] += weight * (ws.origin[1] + y)
            slope[2] += weight * (ws.origin[2] + z)
            for k in range(9):
                slope[3 + k] += weight * moved[k]
        ws.trial[i] = theta[i]
        forward(figure, theta, ws)
        frame_in_world(ws, body, place, rotation)
        for k in range(3):
            out[k, i] = slope[k]
            u, v = (k + 1) % 3, (k + 2) % 3  # hat(w) = dR R'
            high, low = 0.0, 0.0
            for c in range(3):
                high += slope[3 + 3 * v + c] * rotation[3 * u + c]
                low += slope[3 + 3 * u + c] * rotation[3 * v + c]
            out[3 + k, i] = 0.5 * (high - low)
        i = figure.dof[i, ABOVE]
    forward(figure, theta, ws)
    frame_in_world(ws, body, place, rotation)


# Entries


@entry
def frame_jacobians(figure, poses, work, body, place, method, axes, scratch, rotations, out):
    """Write the Jacobians (t, 6, n) of the frame at place (12,) on a body at poses (t, n), and its rotations (t, 9)."""
    ws, _ = workspace(figure, 0, work, 1)
    for t in range(poses.shape[0]):
        for row in range(6):
            clear(out[t, row])
        natural = WORLD_AXES
        if method == CROSS:
            cross_jacobian(figure, poses[t], ws, body, place, rotations[t], out[t])
        elif method == FINITE:
            finite_jacobian(figure, poses[t], ws, body, place, rotations[t], scratch, out[t])
        else:
            natural = OWN_AXES
            if method == ADJOINT:
                adjoint_jacobian(figure, poses[t], body, place, rotations[t], scratch, out[t], poses[t], out[t, :0])
            else:
                adjusted_jacobian(figure, poses[t], body, place, rotations[t], scratch, out[t])
        if natural != axes:
            rotate_columns(rotations[t], axes == OWN_AXES, out[t])


# --- The time derivative of a frame's Jacobian ---


@kernel
def put_rates(figure, first, theta, speed, block, twist, jacobian, out):
    """Set the time derivative of one elementary motion's columns (Rabbani 2017 (14), (15)).

    twist (6,) is the frame's velocity relative to before the motion, in its own axes: d(Ad) = -ad(twist) Ad. It is
    advanced by this motion. An exponential map also changes its own axes with time.
    """
    kind, axis = figure.dof[first, KIND], figure.dof[first, AXIS]
    for k in range(parameters_of(kind)):
        for row in range(6):
            twist[row] += jacobian[row, first + k] * speed[first + k]
    vx, vy, vz, wx, wy, wz = twist[0], twist[1], twist[2], twist[3], twist[4], twist[5]
    for k in range(parameters_of(kind)):
        i = first + k
        lx, ly, lz = jacobian[0, i], jacobian[1, i], jacobian[2, i]
        ax, ay, az = jacobian[3, i], jacobian[4, i], jacobian[5, i]
        out[0, i] = -(wy * lz - wz * ly + vy * az - vz * ay)
        out[1, i] = -(wz * lx - wx * lz + vz * ax - vx * az)
        out[2, i] = -(wx * ly - wy * lx + vx * ay - vy * ax)
        out[3, i] = -(wy * az - wz * ay)
        out[4, i] = -(wz * ax - wx * az)
        out[5, i] = -(wx * ay - wy * ax)
    if kind in (SLIDE, TURN):
        return
    rx, ry, rz = rotation_vector(kind, axis, first, theta)
    _, b, c, db, dc = exponential_coefficients(rx * rx + ry * ry + rz * rz)
    for k in range(parameters_of(kind)):
        for m in range(parameters_of(kind)):
            x, y, z = left_jacobian_rate(rx, ry, rz, b, c, db, dc, column_of(kind, axis, k), column_of(kind, axis, m))
            for row in range(6):
                j = 6 * row + 3
                change = block[j] * x + block[j + 1] * y + block[j + 2] * z
                out[row, first + k] += speed[first + m] * change


@entry
def frame_jacobian_rates(figure, poses, velocities, body, place, axes, scratch, jacobian, out):
    """Write the time derivatives (t, 6, n) of the Jacobians of a frame, at poses and velocities (t, n).

    jacobian (6, n) is scratch. In world axes the frame's own turning is added: d(R J) = R (hat(w) J + dJ).
    """
    rotation, twist = scratch[57:66], scratch[66:72]
    for t in range(poses.shape[0]):
        for row in range(6):
            clear(out[t, row])
            clear(jacobian[row])
        adjoint_jacobian(figure, poses[t], body, place, rotation, scratch, jacobian, velocities[t], out[t])
        if axes == WORLD_AXES:
            wx, wy, wz = twist[3], twist[4], twist[5]
            for i in range(poses.shape[1]):
                for half in range(0, 6, 3):
                    x, y, z = jacobian[half, i], jacobian[half + 1, i], jacobian[half + 2, i]
                    out[t, half, i] += wy * z - wz * y
                    out[t, half + 1, i] += wz * x - wx * z
                    out[t, half + 2, i] += wx * y - wy * x
            rotate_columns(rotation, False, out[t])


# --- The Hessian, goal by goal ---

MOST_ROWS = 9  # of the Jacobian of one spring: three axes of an orientation


# Tables 1 and 2


@small
def vector_columns(figure, ws, body, x, y, z, moves, jacobian, row):
    """Write rows row..row+2 of the Jacobian (m, n) of a point (moves = 1) or a direction (moves = 0) of a body.

    Only the columns of dofs above the body are written.
    """
    i = last_dof(figure, body)
    while i >= 0:
        jacobian[row, i], jacobian[row + 1, i], jacobian[row + 2, i] = velocity(ws.twist[i], x, y, z, moves)
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


# Algorithm 4


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
