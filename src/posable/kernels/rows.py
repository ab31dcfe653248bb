"""The rows of the residuals and of the Jacobian, kind by kind: what residuals.py stacks.

Every function writes the columns of the dofs that move the body `walk`, as if they moved the spring's own: for a target
that is fixed on another body, the dofs of that body count against.
"""

from __future__ import annotations

import math

from .clearance import clearance_terms, segment_gap
from .compiler import kernel
from .direct import vector_columns
from .fields import ABOVE, ALONG, AT, AXES, MEASURE, POINT, SIZE
from .kinematics import last_dof
from .springs import CLEAR_SPRING, frame_axis, model_residual
from .wrenches import rotated


@kernel
def rotation_error(r, spring, out):
    """Write the rotation vector (3,), in the goal's own axes, that turns the target frame into the body's: log(T'R)."""
    q = out  # the quaternion's vector part first
    m = 0.0
    for k in range(3):
        x, y, z = frame_axis(r, spring, k)
        m += x * spring[ALONG + k] + y * spring[ALONG + 3 + k] + z * spring[ALONG + 6 + k]
    for k in range(3):  # T'R - (T'R)' = 2 sin(angle) hat(axis)
        u, v = (k + 1) % 3, (k + 2) % 3
        q[k] = 0.25 * (_mixed(r, spring, v, u) - _mixed(r, spring, u, v))
    half = math.sqrt(max(0.0, 1.0 + m)) * 0.5  # cos(angle / 2)
    if half > 0.25:
        scale = 1.0 / half
    else:  # near half a turn the skew part is small: the symmetric part has the axis
        half = _vector_from_symmetric(r, spring, m, q)
        scale = 1.0
    x, y, z = scale * q[0], scale * q[1], scale * q[2]
    sine = math.sqrt(x * x + y * y + z * z)
    factor = 2.0 if sine < 1e-9 else 2.0 * math.atan2(sine, half) / sine
    out[0], out[1], out[2] = factor * x, factor * y, factor * z


@kernel
def _mixed(r, spring, i, j):
    """Return entry (i, j) of T'R: target axis i with the body's axis j."""
    x, y, z = frame_axis(r, spring, j)
    return x * spring[ALONG + i] + y * spring[ALONG + 3 + i] + z * spring[ALONG + 6 + i]


@kernel
def _vector_from_symmetric(r, spring, trace, q):
    """Write the quaternion's vector part from the largest diagonal entry; return its scalar part, not negative."""
    best, high = 0, _mixed(r, spring, 0, 0)
    for k in range(1, 3):
        entry_kk = _mixed(r, spring, k, k)
        if entry_kk > high:
            best, high = k, entry_kk
    u, v = (best + 1) % 3, (best + 2) % 3
    length = 0.5 * math.sqrt(max(0.0, 1.0 + 2.0 * high - trace))
    w = 0.25 * (_mixed(r, spring, v, u) - _mixed(r, spring, u, v)) / length
    sign = -1.0 if w < 0.0 else 1.0
    q[best] = sign * length
    q[u] = sign * 0.25 * (_mixed(r, spring, best, u) + _mixed(r, spring, u, best)) / length
    q[v] = sign * 0.25 * (_mixed(r, spring, best, v) + _mixed(r, spring, v, best)) / length
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
def point_rows(figure, ws, body, spring, row, residuals, jacobian):
    """Write e - target and its Jacobian."""
    point_rows_along(figure, ws, body, body, spring, row, residuals, jacobian)


@kernel
def point_rows_along(figure, ws, body, walk, spring, row, residuals, jacobian):
    """Write e - target, and its Jacobian by the dofs that move the body `walk`, as if they moved this one."""
    x, y, z = rotated(ws.rotation[body], spring, POINT)
    p = ws.position[body]
    x, y, z = x + p[0], y + p[1], z + p[2]
    residuals[row] = ws.origin[0] + x - spring[AT]
    residuals[row + 1] = ws.origin[1] + y - spring[AT + 1]
    residuals[row + 2] = ws.origin[2] + z - spring[AT + 2]
    vector_columns(figure, ws, walk, x, y, z, 1.0, jacobian, row)


@kernel
def direction_rows(figure, ws, body, walk, spring, row, residuals, jacobian):
    """Write d - t and its Jacobian."""
    x, y, z = rotated(ws.rotation[body], spring, AXES)
    residuals[row] = x - spring[ALONG]
    residuals[row + 1] = y - spring[ALONG + 1]
    residuals[row + 2] = z - spring[ALONG + 2]
    vector_columns(figure, ws, walk, x, y, z, 0.0, jacobian, row)


@kernel
def axes_rows(figure, ws, body, walk, spring, c, row, residuals, jacobian):
    """Write the three axes of a frame less those of its target, mixed by c (9,): r_k = sum_q c_kq (b_q - t_q)."""
    r = ws.rotation[body]
    for k in range(3):
        x, y, z = 0.0, 0.0, 0.0
        tx, ty, tz = 0.0, 0.0, 0.0
        for q in range(3):
            bx, by, bz = frame_axis(r, spring, q)
            a = c[3 * k + q]
            x, y, z = x + a * bx, y + a * by, z + a * bz
            tx, ty, tz = tx + a * spring[ALONG + q], ty + a * spring[ALONG + 3 + q], tz + a * spring[ALONG + 6 + q]
        at = row + 3 * k
        residuals[at], residuals[at + 1], residuals[at + 2] = x - tx, y - ty, z - tz
        vector_columns(figure, ws, walk, x, y, z, 0.0, jacobian, at)


@kernel
def rotation_rows(figure, ws, body, walk, spring, row, residuals, jacobian):
    """Write the rotation vector of the error and the angular velocity, both in the axes of the goal's frame."""
    r = ws.rotation[body]
    rotation_error(r, spring, residuals[row : row + 3])
    for k in range(3):
        x, y, z = frame_axis(r, spring, k)
        i = last_dof(figure, walk)
        while i >= 0:
            jacobian[row + k, i] = x * ws.twist[i, 0] + y * ws.twist[i, 1] + z * ws.twist[i, 2]
            i = figure.dof[i, ABOVE]


@kernel
def aim_rows(figure, ws, body, walk, spring, row, residuals, jacobian):
    """Write d - u, u the unit vector from the point e to the target, and its Jacobian w x d + (1 - uu') J_e / |.|."""
    ex, ey, ez = rotated(ws.rotation[body], spring, POINT)
    p = ws.position[body]
    ex, ey, ez = ex + p[0], ey + p[1], ez + p[2]
    x, y, z = spring[AT] - ws.origin[0] - ex, spring[AT + 1] - ws.origin[1] - ey, spring[AT + 2] - ws.origin[2] - ez
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
def side_row(figure, ws, body, walk, spring, row, residuals, jacobian):
    """Write the depth on the wrong side of a plane, and its Jacobian; both zero on the right side."""
    ex, ey, ez = rotated(ws.rotation[body], spring, POINT)
    p, o = ws.position[body], ws.origin
    ex, ey, ez = ex + p[0], ey + p[1], ez + p[2]
    nx, ny, nz = spring[ALONG], spring[ALONG + 1], spring[ALONG + 2]
    height = (o[0] + ex - spring[AT]) * nx + (o[1] + ey - spring[AT + 1]) * ny + (o[2] + ez - spring[AT + 2]) * nz
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
def clear_row(figure, ws, kind, body, walk, spring, row, residuals, jacobian):
    """Write size - d between two segments, and its Jacobian -delta.(v + w x e) / d; zeros where CLEAR is idle."""
    f, _ = clearance_terms(spring, kind == CLEAR_SPRING, ws.origin, ws.position[body], ws.rotation[body], 1.0)
    ex, ey, ez, x, y, z, _, _, _, _, _ = segment_gap(spring, ws.origin, ws.position[body], ws.rotation[body])
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
def model_rows(figure, ws, body, walk, spring, row, residuals, jacobian):
    """Write v - target of a point or a direction, and its Jacobian."""
    p, moves = ws.position[body], spring[MEASURE]
    residuals[row], residuals[row + 1], residuals[row + 2] = model_residual(spring, ws.origin, p, ws.rotation[body])
    x, y, z = rotated(ws.rotation[body], spring, POINT)
    x, y, z = x + moves * p[0], y + moves * p[1], z + moves * p[2]
    vector_columns(figure, ws, walk, x, y, z, moves, jacobian, row)
