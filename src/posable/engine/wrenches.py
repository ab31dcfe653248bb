"""From a spring's residual to its energy, its wrench and its stiffness on a body.

The residual depends on a point and a direction of the body (springs.py). With F and W the first and second derivative
of the energy by the point e, the wrench is X'F and the stiffness X'WX plus the exact curvature, X = [-hat(e), 1]
(mathematics.md); by a direction the same with X = [-hat(d), 0]. A stiffness is a symmetric 6x6 in 21 numbers: the
rotation block (xx yy zz xy xz yz), the translation block likewise, and the block that couples them, by rows.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small
from posable.engine.layout import ALONG, AT, MEASURE, POINT, ROBUST, WEIGHT
from posable.engine.springs import (
    KDD,
    KED,
    KEE,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    RD,
    RE,
    D,
    E,
    R,
    add_orientation,
    curvature,
    derivative,
    follows_direction,
    follows_point,
    is_idle,
    orientation_energy,
    quadratic,
    residual,
    rotated,
)

# --- An energy of a point or a direction ---


@small
def add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Add the wrench (6,) and stiffness (21,) of an energy of the point e with force F and second derivative W.

    B = X'WX + [sym(F e') - (F.e) 1, -1/2 hat(F); ., 0] with X = [-hat(e), 1].
    """
    g[0] += ey * fz - ez * fy
    g[1] += ez * fx - ex * fz
    g[2] += ex * fy - ey * fx
    g[3] += fx
    g[4] += fy
    g[5] += fz
    # C = hat(e) W, by rows
    c00, c01, c02 = ey * xz - ez * xy, ey * yz - ez * yy, ey * zz - ez * yz
    c10, c11, c12 = ez * xx - ex * xz, ez * xy - ex * yz, ez * xz - ex * zz
    c20, c21, c22 = ex * xy - ey * xx, ex * yy - ey * xy, ex * yz - ey * xz
    # A = C hat(e)'
    dot = exact * (fx * ex + fy * ey + fz * ez)
    half = 0.5 * exact
    s[0] += c02 * ey - c01 * ez + exact * fx * ex - dot
    s[1] += c10 * ez - c12 * ex + exact * fy * ey - dot
    s[2] += c21 * ex - c20 * ey + exact * fz * ez - dot
    s[3] += c00 * ez - c02 * ex + half * (fx * ey + fy * ex)
    s[4] += c01 * ex - c00 * ey + half * (fx * ez + fz * ex)
    s[5] += c11 * ex - c10 * ey + half * (fy * ez + fz * ey)
    s[6] += xx
    s[7] += yy
    s[8] += zz
    s[9] += xy
    s[10] += xz
    s[11] += yz
    s[12] += c00
    s[13] += c01 + half * fz
    s[14] += c02 - half * fy
    s[15] += c10 - half * fz
    s[16] += c11
    s[17] += c12 + half * fx
    s[18] += c20 + half * fy
    s[19] += c21 - half * fx
    s[20] += c22


@kernel
def add_point_force(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Do the same by a call, where the speed of one does not count: machine code that is there once compiles faster."""
    add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)


@kernel
def add_direction(dx, dy, dz, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Add the wrench and stiffness of an energy of the direction d: the same, with X = [-hat(d), 0] and no force."""
    g[0] += dy * fz - dz * fy
    g[1] += dz * fx - dx * fz
    g[2] += dx * fy - dy * fx
    c00, c01, c02 = dy * xz - dz * xy, dy * yz - dz * yy, dy * zz - dz * yz
    c10, c11, c12 = dz * xx - dx * xz, dz * xy - dx * yz, dz * xz - dx * zz
    c20, c21 = dx * xy - dy * xx, dx * yy - dy * xy
    dot = exact * (fx * dx + fy * dy + fz * dz)
    half = 0.5 * exact
    s[0] += c02 * dy - c01 * dz + exact * fx * dx - dot
    s[1] += c10 * dz - c12 * dx + exact * fy * dy - dot
    s[2] += c21 * dx - c20 * dy + exact * fz * dz - dot
    s[3] += c00 * dz - c02 * dx + half * (fx * dy + fy * dx)
    s[4] += c01 * dx - c00 * dy + half * (fx * dz + fz * dx)
    s[5] += c11 * dx - c10 * dy + half * (fy * dz + fz * dy)


@kernel
def add_mixed(ex, ey, ez, dx, dy, dz, m, i, s):
    """Add the stiffness of the mixed second derivative by a point e and a direction d, at m[i:i+9] by rows of e."""
    for k in range(3):  # row k of hat(d) M'
        if k == 0:
            hx, hy, hz = 0.0, -dz, dy
        elif k == 1:
            hx, hy, hz = dz, 0.0, -dx
        else:
            hx, hy, hz = -dy, dx, 0.0
        cx = m[i] * hx + m[i + 1] * hy + m[i + 2] * hz
        cy = m[i + 3] * hx + m[i + 4] * hy + m[i + 5] * hz
        cz = m[i + 6] * hx + m[i + 7] * hy + m[i + 8] * hz
        s[12 + 3 * k] += cx
        s[13 + 3 * k] += cy
        s[14 + 3 * k] += cz
        # e x c is the row of the rotation block; the block is symmetric: add it and its transpose
        tx, ty, tz = ey * cz - ez * cy, ez * cx - ex * cz, ex * cy - ey * cx
        if k == 0:
            s[0] += 2.0 * tx
            s[3] += ty
            s[4] += tz
        elif k == 1:
            s[3] += tx
            s[1] += 2.0 * ty
            s[5] += tz
        else:
            s[4] += tx
            s[5] += ty
            s[2] += 2.0 * tz


@small
def robust_factors(energy, scale):
    """Return (energy, slope, bend) of s (sqrt(1 + 2E/s) - 1); the energy itself where the scale is zero."""
    if scale <= 0.0:
        return energy, 1.0, 0.0
    root = math.sqrt(1.0 + 2.0 * energy / scale)
    return 2.0 * energy / (root + 1.0), 1.0 / root, -1.0 / (scale * root * root * root)


@kernel
def add_product(k, u0, u1, u2, u3, u4, u5, v0, v1, v2, v3, v4, v5, s):
    """Add k (u v' + v u') / 2 to a stiffness (21,)."""
    h = 0.5 * k
    s[0] += k * u0 * v0
    s[1] += k * u1 * v1
    s[2] += k * u2 * v2
    s[3] += h * (u0 * v1 + u1 * v0)
    s[4] += h * (u0 * v2 + u2 * v0)
    s[5] += h * (u1 * v2 + u2 * v1)
    s[6] += k * u3 * v3
    s[7] += k * u4 * v4
    s[8] += k * u5 * v5
    s[9] += h * (u3 * v4 + u4 * v3)
    s[10] += h * (u3 * v5 + u5 * v3)
    s[11] += h * (u4 * v5 + u5 * v4)
    s[12] += h * (u0 * v3 + u3 * v0)
    s[13] += h * (u0 * v4 + u4 * v0)
    s[14] += h * (u0 * v5 + u5 * v0)
    s[15] += h * (u1 * v3 + u3 * v1)
    s[16] += h * (u1 * v4 + u4 * v1)
    s[17] += h * (u1 * v5 + u5 * v1)
    s[18] += h * (u2 * v3 + u3 * v2)
    s[19] += h * (u2 * v4 + u4 * v2)
    s[20] += h * (u2 * v5 + u5 * v2)


# --- One spring: energy, force and stiffness from its residual ---


@small
def spring_energy(kind, row, target, ws, b, index):
    """Return the energy of one spring on a body, and write its error [m, rad]; no derivatives."""
    if kind == POINT_SPRING and row[ROBUST] == 0.0:  # the common one, without a call
        p, o = ws.position[b], ws.origin
        ex, ey, ez = rotated(ws.rotation[b], row, POINT)
        x, y, z = o[0] + p[0] + ex - target[AT], o[1] + p[1] + ey - target[AT + 1], o[2] + p[2] + ez - target[AT + 2]
        ws.error[index] = math.sqrt(max(0.0, quadratic(row, MEASURE, x, y, z)))
        return 0.5 * quadratic(row, WEIGHT, x, y, z)
    return any_energy(kind, row, target, ws.origin, ws.position[b], ws.rotation[b], ws.local, ws.error, index)


@kernel
def any_energy(kind, row, target, origin, position, r, local, errors, index):
    """Return the energy of one spring of any kind, and write its error."""
    if row[ROBUST] < 0.0:  # switched off
        errors[index] = 0.0
        return 0.0
    if kind == ORIENTATION_SPRING:
        energy, errors[index] = orientation_energy(row, target, r)
    else:
        errors[index] = residual(kind, row, target, origin, position, r, local)
        x, y, z = local[R], local[R + 1], local[R + 2]
        energy = 0.5 * quadratic(row, WEIGHT, x, y, z)
        if kind == MODEL_SPRING:
            return energy + x * target[ALONG] + y * target[ALONG + 1] + z * target[ALONG + 2]
    return robust_factors(energy, row[ROBUST])[0]


@small
def add_spring(kind, row, target, ws, b, exact):
    """Add one spring to the wrench and stiffness of its body; exact scales the curvature: 1, or 0 for Gauss-Newton."""
    if kind == POINT_SPRING and row[ROBUST] == 0.0:  # the common one, without a call
        p, o = ws.position[b], ws.origin
        ex, ey, ez = rotated(ws.rotation[b], row, POINT)
        ex, ey, ez = ex + p[0], ey + p[1], ez + p[2]
        x, y, z = o[0] + ex - target[AT], o[1] + ey - target[AT + 1], o[2] + ez - target[AT + 2]
        fx, fy, fz, xx, yy, zz, xy, xz, yz = weighed(row, 1.0, x, y, z)
        add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, ws.wrench[b], ws.stiffness[b])
        return
    add_any_spring(
        kind, row, target, ws.origin, ws.position[b], ws.rotation[b], exact, ws.local, ws.wrench[b], ws.stiffness[b]
    )


@small
def weighed(row, slope, x, y, z):
    """Return W r and W (xx yy zz xy xz yz) of a spring, both times slope."""
    i = WEIGHT
    xx, yy, zz = slope * row[i], slope * row[i + 1], slope * row[i + 2]
    xy, xz, yz = slope * row[i + 3], slope * row[i + 4], slope * row[i + 5]
    return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z, xx, yy, zz, xy, xz, yz


@kernel
def add_any_spring(kind, row, target, origin, position, r, exact, local, g, s):
    """Add one spring of any kind to a wrench g (6,) and a stiffness s (21,).

    A robust spring has the energy rho(E) = s (sqrt(1 + 2E/s) - 1): wrench rho' g, stiffness rho' B + rho'' g g'.
    Gauss-Newton leaves out rho'', which is negative.
    """
    scale = row[ROBUST]
    if scale < 0.0:  # switched off
        return
    slope, bend = 1.0, 0.0
    g0, g1, g2, g3, g4, g5 = g[0], g[1], g[2], g[3], g[4], g[5]
    if kind == ORIENTATION_SPRING:
        if scale > 0.0:
            _, slope, bend = robust_factors(orientation_energy(row, target, r)[0], scale)
        add_orientation(row, target, r, exact, slope, g, s)
    else:
        residual(kind, row, target, origin, position, r, local)
        if is_idle(kind, local):
            return
        x, y, z = local[R], local[R + 1], local[R + 2]
        if scale > 0.0 and kind != MODEL_SPRING:
            _, slope, bend = robust_factors(0.5 * quadratic(row, WEIGHT, x, y, z), scale)
        add_vectors(kind, row, target, exact, slope, local, g, s)
    if exact != 0.0 and bend != 0.0:
        k = exact * bend / (slope * slope)
        g0, g1, g2, g3, g4, g5 = g[0] - g0, g[1] - g1, g[2] - g2, g[3] - g3, g[4] - g4, g[5] - g5
        add_product(k, g0, g1, g2, g3, g4, g5, g0, g1, g2, g3, g4, g5, s)


@kernel
def add_vectors(kind, row, target, exact, slope, local, g, s):
    """Add slope times the wrench and stiffness of a spring whose residual is in `local`: through its e and its d."""
    fx, fy, fz, xx, yy, zz, xy, xz, yz = weighed(row, slope, local[R], local[R + 1], local[R + 2])
    if kind == MODEL_SPRING:
        fx, fy, fz = fx + target[ALONG], fy + target[ALONG + 1], fz + target[ALONG + 2]
    ex, ey, ez, dx, dy, dz = local[E], local[E + 1], local[E + 2], local[D], local[D + 1], local[D + 2]
    if follows_point(kind, row):
        add_point_force(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)
        return
    if follows_direction(kind, row):
        add_direction(dx, dy, dz, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)
        return
    second_derivatives(kind, row, target, exact, slope, fx, fy, fz, local)
    e, d, k = RE, RD, KEE
    add_point_force(
        ex, ey, ez,
        local[e] * fx + local[e + 3] * fy + local[e + 6] * fz,
        local[e + 1] * fx + local[e + 4] * fy + local[e + 7] * fz,
        local[e + 2] * fx + local[e + 5] * fy + local[e + 8] * fz,
        local[k], local[k + 4], local[k + 8], local[k + 1], local[k + 2], local[k + 5], exact, g, s,
    )  # fmt: skip
    k = KDD
    add_direction(
        dx, dy, dz,
        local[d] * fx + local[d + 3] * fy + local[d + 6] * fz,
        local[d + 1] * fx + local[d + 4] * fy + local[d + 7] * fz,
        local[d + 2] * fx + local[d + 5] * fy + local[d + 8] * fz,
        local[k], local[k + 4], local[k + 8], local[k + 1], local[k + 2], local[k + 5], exact, g, s,
    )  # fmt: skip
    add_mixed(ex, ey, ez, dx, dy, dz, local, KED, s)


@kernel
def second_derivatives(kind, row, target, exact, slope, fx, fy, fz, local):
    """Write the energy's second derivatives by e and d: r_x' W r_x and, where exact, that of f.r for the force f."""
    derivative(kind, row, target, local)
    for block in range(3):
        a, b, out = (RE if block < 2 else RD), (RE if block == 0 else RD), KEE + 9 * block
        for i in range(3):
            x, y, z, _, _, _, _, _, _ = weighed(row, slope, local[a + i], local[a + 3 + i], local[a + 6 + i])
            for j in range(3):
                local[out + 3 * i + j] = x * local[b + j] + y * local[b + 3 + j] + z * local[b + 6 + j]
    if exact != 0.0:
        curvature(kind, row, target, exact * fx, exact * fy, exact * fz, local)
