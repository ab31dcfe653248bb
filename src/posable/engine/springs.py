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
ORIENTATION  three directions at once, r_k = d_k - t_k, with the energy 1/2 sum A_kl r_k.r_l = tr A - tr(R A T')

`residual` gives r and the error, `derivative` gives dr/de and dr/dd, `curvature` the second derivative of f.r for a
force f, `hold` the target at which r = 0. assemble.py derives energy, wrench, stiffness and robust loss from them,
residuals.py the stacked rows, reference.py the goal-by-goal Hessian. A new kind is a number here, its rows in ROWS,
and a branch in those four functions.

Residuals are squared, not norms: smooth at the goal, so an exact Hessian exists there.
"""

from __future__ import annotations

import math

from posable.engine.distance import nearest_parameters, sliding
from posable.engine.jit import kernel, small
from posable.engine.layout import ALONG, AT, AXES, MEASURE, POINT, SIZE, WEIGHT

POINT_SPRING, ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING, SIDE_SPRING = 0, 1, 2, 3, 4
DISTANCE_SPRING, CLEAR_SPRING, MODEL_SPRING = 5, 6, 7
ROWS = (3, 9, 3, 3, 1, 1, 1, 3)  # of the residual of each of these kinds
CROSS_SPRING, COUPLING_SPRING = -2, -1  # between two springs, between two dofs: assemble.py
COLLISION_SPRING = -3  # all pairs of solids that must not touch: collision.py
ANGLE_SPRINGS = (ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING)  # whose error is an angle

# Slices of Workspace.local, where a spring is worked out: all in world axes, points relative to Workspace.origin
E, D = 0, 3  # 3 each: the point and the direction of the body
R = 6  # 3: the residual
UNIT = 9  # 3: a unit vector that the kind needs again
KEPT = 12  # 3: numbers that the kind needs again
STICKY = 60  # 1: a one-sided spring pulls back as well
RE, RD = 15, 24  # 9 each: dr/de and dr/dd by rows
KEE, KED, KDD = 33, 42, 51  # 9 each: second derivative of the energy by e and d
NEAR = 1e-9  # [m]: a distance that gives no direction


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
def residual(kind, row, target, origin, position, r, local):
    """Write e, d and the residual of a spring into local (LOCAL,); return its error [m, rad].

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
        height = x * target[ALONG] + y * target[ALONG + 1] + z * target[ALONG + 2]
        local[R] = row[SIZE] - height if local[STICKY] != 0.0 else max(0.0, row[SIZE] - height)
        return max(0.0, local[R] - row[MEASURE])
    if kind == DISTANCE_SPRING or kind == CLEAR_SPRING:
        cx, cy, cz = target[ALONG], target[ALONG + 1], target[ALONG + 2]
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
        return math.sqrt(max(0.0, quadratic(row, MEASURE, x, y, z)))
    if kind == MODEL_SPRING:
        if row[MEASURE] == 0.0:
            x, y, z = dx - target[AT], dy - target[AT + 1], dz - target[AT + 2]
        local[R], local[R + 1], local[R + 2] = x, y, z
        return 0.0
    if kind == DIRECTION_SPRING:
        x, y, z = dx - target[ALONG], dy - target[ALONG + 1], dz - target[ALONG + 2]
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
    """Return whether a residual is a point less its target: dr/de = 1 and nothing else."""
    return kind == POINT_SPRING or (kind == MODEL_SPRING and row[MEASURE] != 0.0)


@small
def follows_direction(kind, row):
    """Return whether a residual is a direction less its target: dr/dd = 1 and nothing else."""
    return kind == DIRECTION_SPRING or (kind == MODEL_SPRING and row[MEASURE] == 0.0)


@small
def one_sided(kind):
    """Return whether a spring only pushes."""
    return kind == SIDE_SPRING or kind == CLEAR_SPRING


@small
def is_idle(kind, local):
    """Return whether a one-sided spring is on its free side, where it has no derivatives."""
    return one_sided(kind) and local[R] == 0.0


@kernel
def derivative(kind, row, target, local):
    """Write dr/de and dr/dd, by rows, at what `residual` found."""
    for k in range(18):
        local[RE + k] = 0.0
    if follows_point(kind, row):
        local[RE] = local[RE + 4] = local[RE + 8] = 1.0
    elif follows_direction(kind, row):
        local[RD] = local[RD + 4] = local[RD + 8] = 1.0
    elif kind == SIDE_SPRING:
        for k in range(3):
            local[RE + k] = -target[ALONG + k]
    elif kind == DISTANCE_SPRING or kind == CLEAR_SPRING:
        for k in range(3):
            local[RE + k] = -local[UNIT + k]
            local[RD + k] = -local[KEPT + 1] * local[UNIT + k]
    elif local[KEPT] >= NEAR:  # AIM
        local[RD] = local[RD + 4] = local[RD + 8] = 1.0
        for i in range(3):
            for j in range(3):
                one = 1.0 if i == j else 0.0
                local[RE + 3 * i + j] = (one - local[UNIT + i] * local[UNIT + j]) / local[KEPT]


@kernel
def curvature(kind, row, target, fx, fy, fz, local):
    """Add the second derivative of f.r by e and d, for a force f, to KEE, KED and KDD."""
    u, length = UNIT, local[KEPT]
    if kind == AIM_SPRING and length >= NEAR:
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
            local[D], local[D + 1], local[D + 2], target[ALONG], target[ALONG + 1], target[ALONG + 2], s, t
        )
        over = -fx / length
        for i in range(3):
            ai, ci, bi = local[D + i], target[ALONG + i], length * local[u + i] + s * local[D + i]
            for j in range(3):
                aj, cj, bj = local[D + j], target[ALONG + j], length * local[u + j] + s * local[D + j]
                one = (1.0 if i == j else 0.0) - local[u + i] * local[u + j]
                local[KEE + 3 * i + j] += over * (one - ss * ai * aj - tt * ci * cj + st * (ai * cj + ci * aj))
                local[KED + 3 * i + j] += over * (
                    s * one - ss * ai * bj - tt * s * ci * cj + st * (s * ai * cj + ci * bj)
                )
                local[KDD + 3 * i + j] += over * (
                    s * s * one - ss * bi * bj - tt * s * s * ci * cj + st * s * (bi * cj + ci * bj)
                )


@kernel
def hold(kind, row, target, origin, r, local):
    """Move the target (in the world), or change the size, so that the residual is zero where the spring is.

    `residual` was called before, unless the kind is ORIENTATION. A one-sided spring on its free side stays as it is.
    """
    if kind == ORIENTATION_SPRING:
        for i in range(3):
            target[ALONG + i], target[ALONG + 3 + i], target[ALONG + 6 + i] = frame_axis(r, row, i)
    elif ROWS[kind] == 1:
        row[SIZE] -= local[R]
    else:
        for k in range(3):
            if kind == DIRECTION_SPRING:
                target[ALONG + k] = local[D + k]
            elif kind == AIM_SPRING:
                target[AT + k] = origin[k] + local[E + k] + local[KEPT] * local[D + k]
            else:
                target[AT + k] += local[R + k]
            if kind == MODEL_SPRING:
                target[ALONG + k] = 0.0


# --- Three directions at once ---


@small
def frame_axis(r, row, i):
    """Return axis i of the goal's frame on the body, in world axes."""
    x, y, z = row[AXES + i], row[AXES + 3 + i], row[AXES + 6 + i]
    return r[0] * x + r[1] * y + r[2] * z, r[3] * x + r[4] * y + r[5] * z, r[6] * x + r[7] * y + r[8] * z


@small
def axis_weight(row, i, j):
    """Return entry (i, j) of the weight A of an ORIENTATION spring."""
    return row[WEIGHT + i] if i == j else row[WEIGHT + 2 + i + j]


@kernel
def orientation_energy(row, target, r):
    """Return (energy, angle) of an ORIENTATION spring, with no digits lost at small angles."""
    energy = 0.0
    gap = 0.0  # sum of 1 - cos over the axes: 2 (1 - cos angle) = 4 sin^2(angle / 2)
    for i in range(3):
        x, y, z = frame_axis(r, row, i)
        for j in range(3):
            tx, ty, tz = target[ALONG + j], target[ALONG + 3 + j], target[ALONG + 6 + j]
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
            tx, ty, tz = target[ALONG + j], target[ALONG + 3 + j], target[ALONG + 6 + j]
            g[0] -= a * (y * tz - z * ty)
            g[1] -= a * (z * tx - x * tz)
            g[2] -= a * (x * ty - y * tx)
            bx, by, bz = frame_axis(r, row, j)  # Gauss-Newton has the body's own axis in the target's place
            tx, ty, tz = bx + exact * (tx - bx), by + exact * (ty - by), bz + exact * (tz - bz)
            dot = x * tx + y * ty + z * tz
            s[0] += a * (dot - x * tx)
            s[1] += a * (dot - y * ty)
            s[2] += a * (dot - z * tz)
            s[3] -= 0.5 * a * (x * ty + y * tx)
            s[4] -= 0.5 * a * (x * tz + z * tx)
            s[5] -= 0.5 * a * (y * tz + z * ty)
