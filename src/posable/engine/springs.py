"""The goal primitives, each written once: its residual, the residual's derivatives, and its error.

A spring is the energy 1/2 r'W r of a residual r in at most three rows. The residual depends on a point e and on a
direction d of one body (or on the center of mass) and on a target in the world:

POINT        r = e - target: a point (W full), a plane (W = w n n'), a line (W = w (1 - u u'))
DIRECTION    r = d - target; with W = w it is w (1 - cos angle)
AIM          r = d - u, u the unit vector from e to the target: the axis d of the body looks at it
SIDE         r = max(0, size - n.(e - target)): keep on one side of a plane
DISTANCE     r = size - |gap|, the gap from a segment of the target to the body's segment from e along d
CLEAR        r = max(0, size - |gap|): keep out of it
MODEL        r = v - target, v the point or the direction; beside W it has a constant force: F.r + 1/2 r'W r
PIXEL        r = M u - s, u the unit vector from the target to e: a camera at the target sees e in a given pixel; M maps
             directions to pixels to first order about the pixel's own, divided by the focal length (goals/pixel.py)
ORIENTATION  three directions at once, r_k = d_k - t_k, with the energy 1/2 sum A_kl r_k.r_l = tr A - tr(R A T');
             hand-expanded, as POINT is in `spring_energy` and `add_spring`: tests compare both with the general path

`residual` gives r and the error, `derivative` gives dr/de and dr/dd, `curvature` the second derivative of f.r for a
force f, and `zero_residual` moves the target to where r = 0. The rest of this file derives energy, wrench, stiffness
and robust loss from them, residuals.py the stacked rows, reference.py the goal-by-goal Hessian. A new kind is a number
here, an entry in ROWS, CONSTRAINTS and READS, and a branch in those four functions.

Residuals are squared, not norms: smooth at the goal, so an exact Hessian exists there.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small
from posable.engine.joints import cross, times, times_transposed
from posable.engine.layout import AT, AXES, FRAME, MEASURE, POINT, ROBUST, SIZE, WEIGHT, clear

POINT_SPRING, ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING, SIDE_SPRING = 0, 1, 2, 3, 4
DISTANCE_SPRING, CLEAR_SPRING, MODEL_SPRING, PIXEL_SPRING = 5, 6, 7, 8
ROWS = (3, 9, 3, 3, 1, 1, 1, 3, 3)  # rows of the residual of each of these kinds
CONSTRAINTS = (3, 3, 2, 2, 1, 1, 1, 1, 2)  # how many degrees of freedom each kind takes; fewer for a POINT on a plane
READS = ("e", "ddd", "d", "ed", "e", "ed", "ed", "", "e")  # the points and directions of the body that it depends on
CROSS_SPRING, COUPLING_SPRING = -2, -1  # between two springs, between two dofs: assemble.py
COLLISION_SPRING = -3  # all pairs of solids that must not touch: collision.py
ANGLE_SPRINGS = (ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING)  # whose error is an angle

# Slices of Workspace.local, the scratch of one spring: all in world axes, points relative to Workspace.origin
E, D = 0, 3  # 3 each: the point and the direction of the body
R = 6  # 3: the residual
UNIT = 9  # 3: a unit vector kept for the derivatives
KEPT = 12  # 3: numbers kept for the derivatives
STICKY = 60  # 1: not zero where a one-sided spring also pulls
RE, RD = 15, 24  # 9 each: dr/de and dr/dd by rows
KEE, KED, KDD = 33, 42, 51  # 9 each: second derivative of the energy by e and d
NEAR = 1e-9  # [m] shorter vectors have no direction


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
def projected_length(m, i, x, y, z):
    """Return |M v| for the symmetric projector at m[i:i+6].

    This equals the square root of v' M v, which would lose half of its digits far from the origin along a plane.
    """
    a, b, c = m[i] * x + m[i + 3] * y + m[i + 4] * z, m[i + 3] * x + m[i + 1] * y + m[i + 5] * z, (
        m[i + 4] * x + m[i + 5] * y + m[i + 2] * z)  # fmt: skip
    return math.sqrt(a * a + b * b + c * c)


@small
def rotated(r, row, i):
    """Return the vector at row[i:i+3] of the body, in world axes."""
    return times(r, 0, row[i], row[i + 1], row[i + 2])


@kernel
def residual(kind, row, target, origin, position, r, local):
    """Write e, d and the residual of a spring into local (LOCAL,); return its error [m, rad, px].

    Args:
        kind: any kind but ORIENTATION.
        row: (CONSTANTS,) its constants.
        target: (TARGETS,) its target in the world.
        origin: (3,) [m] that positions are relative to.
        position: (3,) [m] of the body.
        r: (9,) rotation of the body by rows.
        local: (LOCAL,) written: E, D, R, and what `derivative` needs.
    """
    ex, ey, ez = rotated(r, row, POINT)
    dx, dy, dz = rotated(r, row, AXES)
    if kind == MODEL_SPRING and row[MEASURE] == 0.0:
        dx, dy, dz = ex, ey, ez
    ex, ey, ez = ex + position[0], ey + position[1], ez + position[2]
    local[E], local[E + 1], local[E + 2] = ex, ey, ez
    local[D], local[D + 1], local[D + 2] = dx, dy, dz
    local[R + 1] = local[R + 2] = 0.0
    x, y, z = origin[0] + ex - target[AT], origin[1] + ey - target[AT + 1], origin[2] + ez - target[AT + 2]
    if kind == SIDE_SPRING:
        height = x * target[FRAME] + y * target[FRAME + 1] + z * target[FRAME + 2]
        local[R] = row[SIZE] - height if local[STICKY] != 0.0 else max(0.0, row[SIZE] - height)
        return max(0.0, local[R] - row[MEASURE])
    if kind == DISTANCE_SPRING or kind == CLEAR_SPRING:
        cx, cy, cz = target[FRAME], target[FRAME + 1], target[FRAME + 2]
        s, t = nearest_parameters(x, y, z, dx, dy, dz, cx, cy, cz)
        x, y, z = x + s * dx - t * cx, y + s * dy - t * cy, z + s * dz - t * cz
        length = math.sqrt(x * x + y * y + z * z)
        over = 1.0 / length if length > NEAR else 0.0
        local[UNIT], local[UNIT + 1], local[UNIT + 2] = over * x, over * y, over * z
        local[KEPT], local[KEPT + 1], local[KEPT + 2] = length, s, t
        gap = row[SIZE] - length
        if kind == DISTANCE_SPRING:
            local[R] = gap
            return abs(gap)
        local[R] = gap if local[STICKY] != 0.0 else max(0.0, gap)
        return max(0.0, gap - row[MEASURE])
    if kind == POINT_SPRING:
        local[R], local[R + 1], local[R + 2] = x, y, z
        return projected_length(row, MEASURE, x, y, z)
    if kind == MODEL_SPRING:
        if row[MEASURE] == 0.0:
            x, y, z = dx - target[AT], dy - target[AT + 1], dz - target[AT + 2]
        local[R], local[R + 1], local[R + 2] = x, y, z
        return 0.0
    if kind == PIXEL_SPRING:
        length = math.sqrt(x * x + y * y + z * z)
        over = 1.0 / length if length > NEAR else 0.0
        for k in range(3):
            m = FRAME + 3 * k
            local[R + k] = over * (target[m] * x + target[m + 1] * y + target[m + 2] * z) - row[AXES + k]
        local[KEPT], local[UNIT], local[UNIT + 1], local[UNIT + 2] = length, -over * x, -over * y, -over * z
        return row[SIZE] * projected_length(row, MEASURE, local[R], local[R + 1], local[R + 2])
    if kind == DIRECTION_SPRING:
        x, y, z = dx - target[FRAME], dy - target[FRAME + 1], dz - target[FRAME + 2]
    else:  # AIM
        length = math.sqrt(x * x + y * y + z * z)
        local[KEPT] = length
        if length < NEAR:
            local[R] = 0.0
            return 0.0
        ux, uy, uz = -x / length, -y / length, -z / length
        local[UNIT], local[UNIT + 1], local[UNIT + 2] = ux, uy, uz
        x, y, z = dx - ux, dy - uy, dz - uz
    local[R], local[R + 1], local[R + 2] = x, y, z
    return 2.0 * math.asin(min(1.0, 0.5 * math.sqrt(x * x + y * y + z * z)))


@small
def follows_point(kind, row):
    """Return whether the residual is a point minus its target: dr/de = 1, dr/dd = 0."""
    return kind == POINT_SPRING or (kind == MODEL_SPRING and row[MEASURE] != 0.0)


@small
def follows_direction(kind, row):
    """Return whether the residual is a direction minus its target: dr/dd = 1, dr/de = 0."""
    return kind == DIRECTION_SPRING or (kind == MODEL_SPRING and row[MEASURE] == 0.0)


@small
def one_sided(kind):
    """Return whether a spring is one-sided: it pushes and never pulls."""
    return kind == SIDE_SPRING or kind == CLEAR_SPRING


@small
def is_idle(kind, local):
    """Return whether a one-sided spring is on its free side, where it has no derivatives."""
    return one_sided(kind) and local[R] == 0.0


@kernel
def derivative(kind, row, target, local):
    """Write dr/de and dr/dd, by rows, at the point where `residual` was evaluated."""
    clear(local[RE : RE + 18])
    if follows_point(kind, row):
        local[RE] = local[RE + 4] = local[RE + 8] = 1.0
    elif follows_direction(kind, row):
        local[RD] = local[RD + 4] = local[RD + 8] = 1.0
    elif kind == SIDE_SPRING:
        for k in range(3):
            local[RE + k] = -target[FRAME + k]
    elif kind == DISTANCE_SPRING or kind == CLEAR_SPRING:
        for k in range(3):
            local[RE + k] = -local[UNIT + k]
            local[RD + k] = -local[KEPT + 1] * local[UNIT + k]
    elif kind == PIXEL_SPRING and local[KEPT] > NEAR:
        for i in range(3):
            m = FRAME + 3 * i
            along = target[m] * local[UNIT] + target[m + 1] * local[UNIT + 1] + target[m + 2] * local[UNIT + 2]
            for j in range(3):
                local[RE + 3 * i + j] = (target[m + j] - along * local[UNIT + j]) / local[KEPT]
    elif kind == AIM_SPRING and local[KEPT] >= NEAR:
        local[RD] = local[RD + 4] = local[RD + 8] = 1.0
        for i in range(3):
            for j in range(3):
                one = 1.0 if i == j else 0.0
                local[RE + 3 * i + j] = (one - local[UNIT + i] * local[UNIT + j]) / local[KEPT]


@kernel
def curvature(kind, row, target, fx, fy, fz, local):
    """Add the second derivative of f.r by e and d, for a force f, to KEE, KED and KDD."""
    u, length = UNIT, local[KEPT]
    if kind == PIXEL_SPRING and length > NEAR:  # f.r = (M'f).u + ...: that of an AIM spring, whose r is -u, for M'f
        fx, fy, fz = times_transposed(target, FRAME, fx, fy, fz)
    if (kind == AIM_SPRING or kind == PIXEL_SPRING) and length > NEAR:
        along = fx * local[u] + fy * local[u + 1] + fz * local[u + 2]
        over = 1.0 / (length * length)
        for i in range(3):
            fi = fx if i == 0 else (fy if i == 1 else fz)
            for j in range(3):
                fj = fx if j == 0 else (fy if j == 1 else fz)
                one = along if i == j else 0.0
                bend = fi * local[u + j] + local[u + i] * fj + one - 3.0 * along * local[u + i] * local[u + j]
                local[KEE + 3 * i + j] += over * bend
    elif (kind == DISTANCE_SPRING or kind == CLEAR_SPRING) and length > NEAR:
        # r'' = -(D'' - g g') / length, D = 1/2 |gap|^2, g = (u, s u); D'' = (1, s; s, s^2) less what the sliding takes
        s, t = local[KEPT + 1], local[KEPT + 2]
        ss, tt, st = sliding(
            local[D], local[D + 1], local[D + 2], target[FRAME], target[FRAME + 1], target[FRAME + 2], s, t
        )
        over = -fx / length
        for i in range(3):
            ai, ci, bi = local[D + i], target[FRAME + i], length * local[u + i] + s * local[D + i]
            for j in range(3):
                aj, cj, bj = local[D + j], target[FRAME + j], length * local[u + j] + s * local[D + j]
                one = (1.0 if i == j else 0.0) - local[u + i] * local[u + j]
                local[KEE + 3 * i + j] += over * (one - ss * ai * aj - tt * ci * cj + st * (ai * cj + ci * aj))
                local[KED + 3 * i + j] += over * (
                    s * one - ss * ai * bj - tt * s * ci * cj + st * (s * ai * cj + ci * bj)
                )
                local[KDD + 3 * i + j] += over * (
                    s * s * one - ss * bi * bj - tt * s * s * ci * cj + st * s * (bi * cj + ci * bj)
                )


@kernel
def zero_residual(kind, row, target, origin, r, local):
    """Move the target (in the world), or change the size, so that the residual vanishes at the current pose.

    Call `residual` first, except for ORIENTATION. A one-sided spring on its free side is left unchanged.
    """
    if kind == ORIENTATION_SPRING:
        for i in range(3):
            target[FRAME + i], target[FRAME + 3 + i], target[FRAME + 6 + i] = frame_axis(r, row, i)
    elif ROWS[kind] == 1:
        row[SIZE] -= local[R]
    else:
        for k in range(3):
            if kind == DIRECTION_SPRING:
                target[FRAME + k] = local[D + k]
            elif kind == PIXEL_SPRING:
                row[AXES + k] += local[R + k]
            elif kind == AIM_SPRING:
                target[AT + k] = origin[k] + local[E + k] + local[KEPT] * local[D + k]
            else:
                target[AT + k] += local[R + k]
            if kind == MODEL_SPRING:
                target[FRAME + k] = 0.0


# --- Three directions at once ---


@small
def frame_axis(r, row, i):
    """Return axis i of the goal's frame on the body, in world axes."""
    return times(r, 0, row[AXES + i], row[AXES + 3 + i], row[AXES + 6 + i])


@small
def axis_weight(row, i, j):
    """Return entry (i, j) of the weight A of an ORIENTATION spring."""
    return row[WEIGHT + i] if i == j else row[WEIGHT + 2 + i + j]


@kernel
def orientation_energy(row, target, r):
    """Return (energy, angle) of an ORIENTATION spring, without cancellation at small angles."""
    energy = 0.0
    gap = 0.0  # sum of 1 - cos over the axes: 2 (1 - cos angle) = 4 sin^2(angle / 2)
    for i in range(3):
        x, y, z = frame_axis(r, row, i)
        for j in range(3):
            tx, ty, tz = target[FRAME + j], target[FRAME + 3 + j], target[FRAME + 6 + j]
            if i == j:
                half_square = 0.5 * ((x - tx) * (x - tx) + (y - ty) * (y - ty) + (z - tz) * (z - tz))
                energy += row[WEIGHT + i] * half_square
                gap += half_square
            else:
                energy -= row[WEIGHT + 2 + i + j] * (x * tx + y * ty + z * tz)
    return energy, 2.0 * math.asin(min(1.0, 0.5 * math.sqrt(gap)))


@kernel
def add_orientation(row, target, r, exact, slope, g, s):
    """Add an ORIENTATION spring to a wrench (6,) and a stiffness (21,).

    With N = R A T' the torque is -2 vee(skew N) and the exact stiffness tr(N) - sym N; Gauss-Newton's has R A R' for N.
    """
    for i in range(3):
        x, y, z = frame_axis(r, row, i)
        for j in range(3):
            a = slope * axis_weight(row, i, j)
            if a == 0.0:
                continue
            tx, ty, tz = target[FRAME + j], target[FRAME + 3 + j], target[FRAME + 6 + j]
            g[0] -= a * (y * tz - z * ty)
            g[1] -= a * (z * tx - x * tz)
            g[2] -= a * (x * ty - y * tx)
            bx, by, bz = frame_axis(r, row, j)  # Gauss-Newton: the body's own axis instead of the target's
            tx, ty, tz = bx + exact * (tx - bx), by + exact * (ty - by), bz + exact * (tz - bz)
            dot = x * tx + y * ty + z * tz
            s[0] += a * (dot - x * tx)
            s[1] += a * (dot - y * ty)
            s[2] += a * (dot - z * tz)
            s[3] -= 0.5 * a * (x * ty + y * tx)
            s[4] -= 0.5 * a * (x * tz + z * tx)
            s[5] -= 0.5 * a * (y * tz + z * ty)


# --- An energy of a point or a direction ---
#
# With F and W the first and second derivative of the energy by the point e, the wrench is X'F and the stiffness X'WX
# plus the exact curvature, X = [-hat(e), 1] (mathematics.md); by a direction the same with X = [-hat(d), 0]. A
# stiffness is a symmetric 6x6 in 21 numbers: the rotation block (xx yy zz xy xz yz), the translation block likewise,
# and the block that couples them, by rows.


@small
def add_moments(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Add the moment e x F and the rotation block of the stiffness; return C = hat(e) W by rows."""
    g[0] += ey * fz - ez * fy
    g[1] += ez * fx - ex * fz
    g[2] += ex * fy - ey * fx
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
    return c00, c01, c02, c10, c11, c12, c20, c21, c22


@small
def add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Add the wrench (6,) and stiffness (21,) of an energy of the point e with force F and second derivative W.

    B = X'WX + [sym(F e') - (F.e) 1, -1/2 hat(F); ., 0] with X = [-hat(e), 1].
    """
    c00, c01, c02, c10, c11, c12, c20, c21, c22 = add_moments(
        ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s
    )
    half = 0.5 * exact
    g[3] += fx
    g[4] += fy
    g[5] += fz
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
    """Do the same without inlining, where speed does not matter: code that is emitted once compiles faster."""
    add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)


@kernel
def add_direction(dx, dy, dz, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Add the wrench and stiffness of an energy of the direction d: the same, with X = [-hat(d), 0] and no force."""
    add_moments(dx, dy, dz, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)


@kernel
def add_mixed(ex, ey, ez, dx, dy, dz, m, i, s):
    """Add the stiffness of the mixed second derivative by a point e and a direction d, at m[i:i+9] by rows of e."""
    for k in range(3):  # row k of hat(d) M'
        hx, hy, hz = (0.0, -dz, dy) if k == 0 else ((dz, 0.0, -dx) if k == 1 else (-dy, dx, 0.0))
        cx, cy, cz = times(m, i, hx, hy, hz)
        s[12 + 3 * k] += cx
        s[13 + 3 * k] += cy
        s[14 + 3 * k] += cz
        # e x c is the row of the rotation block; the block is symmetric: add it and its transpose
        tx, ty, tz = cross(ex, ey, ez, cx, cy, cz)
        s[0 if k == 0 else 2 + k] += 2.0 * tx if k == 0 else tx
        s[1 if k == 1 else 3 + k] += 2.0 * ty if k == 1 else ty
        s[2 if k == 2 else 4 + k] += 2.0 * tz if k == 2 else tz


@small
def robust_factors(energy, scale):
    """Return (energy, slope, bend) of s (sqrt(1 + 2E/s) - 1); the energy itself where the scale is zero."""
    if scale <= 0.0:
        return energy, 1.0, 0.0
    root = math.sqrt(1.0 + 2.0 * energy / scale)
    return 2.0 * energy / (root + 1.0), 1.0 / root, -1.0 / (scale * root * root * root)


@small
def apply_stiffness(s, wx, wy, wz, vx, vy, vz):
    """Return B t (6) of a stiffness (21,) and a twist [w; v]."""
    return (
        s[0] * wx + s[3] * wy + s[4] * wz + s[12] * vx + s[13] * vy + s[14] * vz,
        s[3] * wx + s[1] * wy + s[5] * wz + s[15] * vx + s[16] * vy + s[17] * vz,
        s[4] * wx + s[5] * wy + s[2] * wz + s[18] * vx + s[19] * vy + s[20] * vz,
        s[12] * wx + s[15] * wy + s[18] * wz + s[6] * vx + s[9] * vy + s[10] * vz,
        s[13] * wx + s[16] * wy + s[19] * wz + s[9] * vx + s[7] * vy + s[11] * vz,
        s[14] * wx + s[17] * wy + s[20] * wz + s[10] * vx + s[11] * vy + s[8] * vz,
    )


@kernel
def apply_load(ws, b, sense, load):
    """Add a load (27,) to a body: sense (1 or -1) times its wrench, and its stiffness."""
    for i in range(6):
        ws.wrench[b, i] += sense * load[i]
    for i in range(21):
        ws.stiffness[b, i] += load[6 + i]


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
    if kind == POINT_SPRING and row[ROBUST] == 0.0:  # the most common kind, inlined
        p, o = ws.position[b], ws.origin
        ex, ey, ez = rotated(ws.rotation[b], row, POINT)
        x, y, z = o[0] + p[0] + ex - target[AT], o[1] + p[1] + ey - target[AT + 1], o[2] + p[2] + ez - target[AT + 2]
        ws.error[index] = projected_length(row, MEASURE, x, y, z)
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
            return energy + x * target[FRAME] + y * target[FRAME + 1] + z * target[FRAME + 2]
    return robust_factors(energy, row[ROBUST])[0]


@small
def add_spring(kind, row, target, ws, b, exact):
    """Add one spring to the wrench and stiffness of its body; exact scales the curvature: 1, or 0 for Gauss-Newton."""
    if kind == POINT_SPRING and row[ROBUST] == 0.0:  # the most common kind, inlined
        p, o = ws.position[b], ws.origin
        ex, ey, ez = rotated(ws.rotation[b], row, POINT)
        ex, ey, ez = ex + p[0], ey + p[1], ez + p[2]
        x, y, z = o[0] + ex - target[AT], o[1] + ey - target[AT + 1], o[2] + ez - target[AT + 2]
        fx, fy, fz, xx, yy, zz, xy, xz, yz = weighted_residual(row, 1.0, x, y, z)
        add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, ws.wrench[b], ws.stiffness[b])
        return
    add_any_spring(
        kind, row, target, ws.origin, ws.position[b], ws.rotation[b], exact, ws.local, ws.wrench[b], ws.stiffness[b]
    )


@small
def weighted_residual(row, slope, x, y, z):
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
    fx, fy, fz, xx, yy, zz, xy, xz, yz = weighted_residual(row, slope, local[R], local[R + 1], local[R + 2])
    if kind == MODEL_SPRING:
        fx, fy, fz = fx + target[FRAME], fy + target[FRAME + 1], fz + target[FRAME + 2]
    ex, ey, ez, dx, dy, dz = local[E], local[E + 1], local[E + 2], local[D], local[D + 1], local[D + 2]
    if follows_point(kind, row):
        add_point_force(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)
        return
    if follows_direction(kind, row):
        add_direction(dx, dy, dz, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)
        return
    second_derivatives(kind, row, target, exact, slope, fx, fy, fz, local)
    k = local[KEE:]
    x, y, z = times_transposed(local, RE, fx, fy, fz)
    add_point_force(ex, ey, ez, x, y, z, k[0], k[4], k[8], k[1], k[2], k[5], exact, g, s)
    k = local[KDD:]
    x, y, z = times_transposed(local, RD, fx, fy, fz)
    add_direction(dx, dy, dz, x, y, z, k[0], k[4], k[8], k[1], k[2], k[5], exact, g, s)
    add_mixed(ex, ey, ez, dx, dy, dz, local, KED, s)


@kernel
def second_derivatives(kind, row, target, exact, slope, fx, fy, fz, local):
    """Write the energy's second derivatives by e and d: r_x' W r_x and, where exact, that of f.r for the force f."""
    derivative(kind, row, target, local)
    for block in range(3):
        a, b, out = (RE if block < 2 else RD), (RE if block == 0 else RD), KEE + 9 * block
        for i in range(3):
            x, y, z, _, _, _, _, _, _ = weighted_residual(row, slope, local[a + i], local[a + 3 + i], local[a + 6 + i])
            for j in range(3):
                local[out + 3 * i + j] = x * local[b + j] + y * local[b + 3 + j] + z * local[b + 6 + j]
    if exact != 0.0:
        curvature(kind, row, target, exact * fx, exact * fy, exact * fz, local)


# --- The distance between two segments ---
#
# With the gap delta = p + s a - t c between them and D = 1/2 |delta|^2, the nearest points slide as p and a move, so
# the second derivative of D by (p, a) is D_xx - u M^-1 u', u and M the mixed and second derivatives by those of s and
# t that are inside their segments. A segment of no length is a point. The second derivative jumps where a nearest
# point meets the end of its segment; where parallel segments have many nearest points, the first one does.


TINY = 1e-18  # [m^2] squared length below which a segment counts as a point


@kernel
def clamp_unit(x):
    """Return x clamped to [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def nearest_parameters(px, py, pz, ax, ay, az, cx, cy, cz):
    """Return the parameters s, t in [0, 1] at which the segments p + s a and t c are nearest."""
    aa, cc = ax * ax + ay * ay + az * az, cx * cx + cy * cy + cz * cz
    ap, cp = ax * px + ay * py + az * pz, cx * px + cy * py + cz * pz
    if aa <= TINY and cc <= TINY:
        return 0.0, 0.0
    if aa <= TINY:
        return 0.0, clamp_unit(cp / cc)
    if cc <= TINY:
        return clamp_unit(-ap / aa), 0.0
    ac = ax * cx + ay * cy + az * cz
    room = aa * cc - ac * ac
    s = clamp_unit((ac * cp - ap * cc) / room) if room > 1e-12 * aa * cc else 0.0
    t = (ac * s + cp) / cc
    if t < 0.0:
        return clamp_unit(-ap / aa), 0.0
    if t > 1.0:
        return clamp_unit((ac - ap) / aa), 1.0
    return s, t


@kernel
def sliding(ax, ay, az, cx, cy, cz, s, t):
    """Return the entries (ss, tt, st) of M^-1, zero for a parameter that does not slide.

    With u_s = (a, delta + s a) and u_t = -(c, s c), the sliding takes ss u_s u_s' + tt u_t u_t' + st (u_s u_t' + ...).
    """
    aa, cc, ac = ax * ax + ay * ay + az * az, cx * cx + cy * cy + cz * cz, ax * cx + ay * cy + az * cz
    slides_s = aa > TINY and 0.0 < s < 1.0
    slides_t = cc > TINY and 0.0 < t < 1.0
    room = aa * cc - ac * ac
    if slides_s and slides_t and room > 1e-12 * aa * cc:
        return cc / room, aa / room, ac / room
    if slides_s:  # parallel segments too: one of the two parameters is enough
        return 1.0 / aa, 0.0, 0.0
    if slides_t:
        return 0.0, 1.0 / cc, 0.0
    return 0.0, 0.0, 0.0
