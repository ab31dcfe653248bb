"""What every spring is made of: the wrench and the stiffness of an energy of a point or of a direction.

A stiffness is a symmetric 6x6 in 21 numbers: the rotation block (xx yy zz xy xz yz), the translation block likewise,
and the block that couples them, by rows.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small


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


@small
def robust_factors(energy, scale):
    """Return (energy, slope, bend) of s (sqrt(1 + 2E/s) - 1); the energy itself where the scale is zero."""
    if scale <= 0.0:
        return energy, 1.0, 0.0
    root = math.sqrt(1.0 + 2.0 * energy / scale)
    return 2.0 * energy / (root + 1.0), 1.0 / root, -1.0 / (scale * root * root * root)


@small
def quadratic(m, i, x, y, z):
    """Return v' M v for the symmetric matrix at m[i:i+6]."""
    return (
        m[i] * x * x
        + m[i + 1] * y * y
        + m[i + 2] * z * z
        + 2.0 * (m[i + 3] * x * y + m[i + 4] * x * z + m[i + 5] * y * z)
    )


@small
def rotated(r, row, i):
    """Return the vector at row[i:i+3] of the body, in world axes."""
    x, y, z = row[i], row[i + 1], row[i + 2]
    return r[0] * x + r[1] * y + r[2] * z, r[3] * x + r[4] * y + r[5] * z, r[6] * x + r[7] * y + r[8] * z


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
