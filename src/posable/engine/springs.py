"""The goal primitives: each is a spring that gives its energy, its wrench and its stiffness on a body.

POINT        1/2 r'W r, r = e - target: a point (W full), a plane (W = w n n'), a line (W = w (1 - u u'))
ORIENTATION  tr A - tr(R A T'): smooth everywhere, its only minimum at R = T; for A = w/2 it is w (1 - cos angle)
DIRECTION    w/2 |d - t|^2 = w (1 - cos angle) for unit vectors: one axis only
AIM          w/2 |d - u|^2, u the unit vector from the point e to the target: the axis d of the body looks at it
SIDE         1/2 w max(0, s)^2, s = size + n.(target - e): keep on one side of a plane
DISTANCE     1/2 w (size - d)^2, d from a point or segment of the body to one of the target (clearance.py)
CLEAR        1/2 w max(0, size - d)^2 with the same d: keep out of it
MODEL        F.r + 1/2 r'W r, r = v - target, v a point or a direction: what stands for an energy in Python

The targets may be fixed on another body, and some springs belong to no one body: couplings.py.

All of them are squared residuals, not norms: smooth at the goal, so an exact Hessian exists there. The stiffness is
B = X'WX + curvature (mathematics.md); `exact` scales the curvature: 1 for the exact Hessian, 0 for Gauss-Newton.
A spring with a robust scale has the energy s (sqrt(1 + 2E/s) - 1): beyond it, it pulls no harder.
"""

from __future__ import annotations

import math

from posable.engine.distance import add_sliding, clearance_terms, segment_distance, segment_gap
from posable.engine.jit import kernel, small
from posable.engine.layout import ALONG, AT, AXES, MEASURE, POINT, ROBUST, SIZE, WEIGHT
from posable.engine.wrenches import add_direction, add_point, add_point_force, quadratic, robust_factors, rotated

POINT_SPRING, ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING, SIDE_SPRING = 0, 1, 2, 3, 4
DISTANCE_SPRING, CLEAR_SPRING, MODEL_SPRING = 5, 6, 7
# kinds that are on no one body: couplings.py
CROSS_SPRING, CENTRE_SPRING, CENTRE_SIDE_SPRING, COUPLING_SPRING = 8, 9, 10, 11
COLLISION_SPRING = 12  # all pairs of solids that must not touch: collision.py
ANGLE_SPRINGS = (ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING)  # whose error is an angle


@small
def spring_energy(kind, row, target, origin, position, r, errors, index):
    """Return the energy of one spring on a body, and write its error [m, rad]; no derivatives."""
    if kind == POINT_SPRING and row[ROBUST] == 0.0:  # the common one, without a call
        ex, ey, ez = rotated(r, row, POINT)
        x = origin[0] + position[0] + ex - target[AT]
        y = origin[1] + position[1] + ey - target[AT + 1]
        z = origin[2] + position[2] + ez - target[AT + 2]
        errors[index] = math.sqrt(max(0.0, quadratic(row, MEASURE, x, y, z)))
        return 0.5 * quadratic(row, WEIGHT, x, y, z)
    return any_energy(kind, row, target, origin, position, r, errors, index)


@kernel
def any_energy(kind, row, target, origin, position, rotation, errors, index):
    """Return the energy of one spring of any kind, and write its error."""
    if row[ROBUST] < 0.0:
        errors[index] = 0.0
        return 0.0
    r = rotation
    if kind == ORIENTATION_SPRING:
        energy, angle = orientation_energy(row, target, r)
        errors[index] = angle
        return robust_factors(energy, row[ROBUST])[0]
    if kind == DIRECTION_SPRING:
        dx, dy, dz = rotated(r, row, AXES)
        x, y, z = dx - target[ALONG], dy - target[ALONG + 1], dz - target[ALONG + 2]
        half = 0.5 * math.sqrt(x * x + y * y + z * z)
        errors[index] = 2.0 * math.asin(min(1.0, half))
        return robust_factors(2.0 * row[WEIGHT] * half * half, row[ROBUST])[0]
    ex, ey, ez = rotated(r, row, POINT)
    x = origin[0] + position[0] + ex - target[AT]
    y = origin[1] + position[1] + ey - target[AT + 1]
    z = origin[2] + position[2] + ez - target[AT + 2]
    if kind == POINT_SPRING:
        errors[index] = math.sqrt(max(0.0, quadratic(row, MEASURE, x, y, z)))
        return robust_factors(0.5 * quadratic(row, WEIGHT, x, y, z), row[ROBUST])[0]
    if kind == SIDE_SPRING:
        depth = max(0.0, row[SIZE] - (x * target[ALONG] + y * target[ALONG + 1] + z * target[ALONG + 2]))
        errors[index] = max(0.0, depth - row[MEASURE])
        return robust_factors(0.5 * row[WEIGHT] * depth * depth, row[ROBUST])[0]
    if kind != AIM_SPRING:
        return other_energy(kind, row, target, origin, position, r, errors, index)
    length = math.sqrt(x * x + y * y + z * z)
    if length < 1e-9:
        errors[index] = 0.0
        return 0.0
    dx, dy, dz = rotated(r, row, AXES)
    x, y, z = dx + x / length, dy + y / length, dz + z / length
    half = 0.5 * math.sqrt(x * x + y * y + z * z)
    errors[index] = 2.0 * math.asin(min(1.0, half))
    return robust_factors(2.0 * row[WEIGHT] * half * half, row[ROBUST])[0]


@kernel
def other_energy(kind, row, target, origin, position, r, errors, index):
    """Return the energy of a DISTANCE, CLEAR or MODEL spring, and write its error."""
    if kind == MODEL_SPRING:
        x, y, z = model_residual(row, target, origin, position, r)
        errors[index] = 0.0
        return x * target[ALONG] + y * target[ALONG + 1] + z * target[ALONG + 2] + 0.5 * quadratic(row, WEIGHT, x, y, z)
    gap = row[SIZE] - segment_distance(row, target, origin, position, r)
    if kind == CLEAR_SPRING:
        gap = max(0.0, gap)
        errors[index] = max(0.0, gap - row[MEASURE])
    else:
        errors[index] = abs(gap)
    return robust_factors(0.5 * row[WEIGHT] * gap * gap, row[ROBUST])[0]


@kernel
def model_residual(row, target, origin, position, r):
    """Return v - target of a MODEL spring: v is a point where row[MEASURE] is 1, a direction where it is 0."""
    moves = row[MEASURE]
    x, y, z = rotated(r, row, POINT)
    return (
        x + moves * (origin[0] + position[0]) - target[AT],
        y + moves * (origin[1] + position[1]) - target[AT + 1],
        z + moves * (origin[2] + position[2]) - target[AT + 2],
    )


@kernel
def add_vector(moves, position, r, row, i, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s):
    """Add an energy of the vector at row[i:i+3], a point or a direction, with force F and second derivative W."""
    x, y, z = rotated(r, row, i)
    if moves != 0.0:
        add_point_force(
            x + position[0], y + position[1], z + position[2], fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s
        )
    else:
        add_direction(x, y, z, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)


@kernel
def add_model(row, target, origin, position, r, exact, g, s):
    """Add a MODEL spring; it has no robust scale."""
    x, y, z = model_residual(row, target, origin, position, r)
    xx, yy, zz, xy, xz, yz = (
        row[WEIGHT],
        row[WEIGHT + 1],
        row[WEIGHT + 2],
        row[WEIGHT + 3],
        row[WEIGHT + 4],
        row[WEIGHT + 5],
    )
    fx = target[ALONG] + xx * x + xy * y + xz * z
    fy = target[ALONG + 1] + xy * x + yy * y + yz * z
    fz = target[ALONG + 2] + xz * x + yz * y + zz * z
    add_vector(row[MEASURE], position, r, row, POINT, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)


@kernel
def add_clearance(kind, row, target, origin, position, r, exact, slope, g, s):
    """Add a DISTANCE or a CLEAR spring."""
    f, k = clearance_terms(row, target, kind == CLEAR_SPRING, origin, position, r, slope)
    if k == 0.0:
        return
    ex, ey, ez, x, y, z, ax, ay, az, at, along = segment_gap(row, target, origin, position, r)
    k -= exact * f / (x * x + y * y + z * z)
    one = exact * f
    add_point_force(
        ex, ey, ez, f * x, f * y, f * z,
        k * x * x + one, k * y * y + one, k * z * z + one, k * x * y, k * x * z, k * y * z, exact, g, s,
    )  # fmt: skip
    if exact != 0.0:
        cx, cy, cz = target[ALONG], target[ALONG + 1], target[ALONG + 2]
        add_sliding(exact * f, ex, ey, ez, x, y, z, ax, ay, az, cx, cy, cz, at, along, s)


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


@small
def frame_axis(r, row, i):
    """Return axis i of the goal's frame on the body, in world axes."""
    x, y, z = row[AXES + i], row[AXES + 3 + i], row[AXES + 6 + i]
    return r[0] * x + r[1] * y + r[2] * z, r[3] * x + r[4] * y + r[5] * z, r[6] * x + r[7] * y + r[8] * z


@kernel
def add_orientation(row, target, r, exact, slope, g, s):
    """Add an ORIENTATION spring. With N = R A T': torque -2 vee(skew N), stiffness tr(N) - sym N exactly.

    Gauss-Newton's is tr(A) - R A R'. A is symmetric, in the axes of the goal's frame.
    """
    for i in range(3):
        x, y, z = frame_axis(r, row, i)
        for j in range(3):
            a = slope * (row[WEIGHT + i] if i == j else row[WEIGHT + 2 + i + j])
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


@kernel
def add_aim(row, target, origin, position, r, exact, slope, g, s):
    """Add an AIM spring: an energy of a point e and a direction d together, w/2 |d - u(e)|^2."""
    ex, ey, ez = rotated(r, row, POINT)
    ex, ey, ez = ex + position[0], ey + position[1], ez + position[2]
    x, y, z = target[AT] - origin[0] - ex, target[AT + 1] - origin[1] - ey, target[AT + 2] - origin[2] - ez
    length = math.sqrt(x * x + y * y + z * z)
    if length < 1e-9:
        return
    dx, dy, dz = rotated(r, row, AXES)
    w = slope * row[WEIGHT]
    ux, uy, uz = x / length, y / length, z / length
    c = dx * ux + dy * uy + dz * uz
    add_direction(dx, dy, dz, w * (dx - ux), w * (dy - uy), w * (dz - uz), w, w, w, 0.0, 0.0, 0.0, exact, g, s)
    k = w / (length * length)
    # second derivative by e: P at the goal (and for Gauss-Newton); in general c 1 - 3c uu' + du' + ud'
    one = 1.0 + exact * (c - 1.0)
    uu = -1.0 + exact * (1.0 - 3.0 * c)
    add_point_force(
        ex, ey, ez,
        w * (dx - c * ux) / length, w * (dy - c * uy) / length, w * (dz - c * uz) / length,
        k * (one + uu * ux * ux + exact * 2.0 * dx * ux),
        k * (one + uu * uy * uy + exact * 2.0 * dy * uy),
        k * (one + uu * uz * uz + exact * 2.0 * dz * uz),
        k * (uu * ux * uy + exact * (dx * uy + dy * ux)),
        k * (uu * ux * uz + exact * (dx * uz + dz * ux)),
        k * (uu * uy * uz + exact * (dy * uz + dz * uy)),
        exact, g, s,
    )  # fmt: skip
    # the mixed derivative M = w P / L couples d with e: rows of hat(d) M
    m = w / length
    for row_of in range(3):
        if row_of == 0:
            hx, hy, hz = 0.0, -dz, dy
        elif row_of == 1:
            hx, hy, hz = dz, 0.0, -dx
        else:
            hx, hy, hz = -dy, dx, 0.0
        dot = hx * ux + hy * uy + hz * uz
        cx, cy, cz = m * (hx - dot * ux), m * (hy - dot * uy), m * (hz - dot * uz)
        s[12 + 3 * row_of] += cx
        s[13 + 3 * row_of] += cy
        s[14 + 3 * row_of] += cz
        # the row of C hat(e)' = e x c; the block is symmetric: add it and its transpose
        tx, ty, tz = ey * cz - ez * cy, ez * cx - ex * cz, ex * cy - ey * cx
        if row_of == 0:
            s[0] += 2.0 * tx
            s[3] += ty
            s[4] += tz
        elif row_of == 1:
            s[3] += tx
            s[1] += 2.0 * ty
            s[5] += tz
        else:
            s[4] += tx
            s[5] += ty
            s[2] += 2.0 * tz


@small
def add_plain_spring(kind, row, target, origin, position, r, exact, slope, g, s):
    """Add slope times the wrench (6,) and the stiffness (21,) of one spring to those of its body."""
    if kind == ORIENTATION_SPRING:
        add_orientation(row, target, r, exact, slope, g, s)
        return
    if kind == AIM_SPRING:
        add_aim(row, target, origin, position, r, exact, slope, g, s)
        return
    if kind == DISTANCE_SPRING or kind == CLEAR_SPRING:
        add_clearance(kind, row, target, origin, position, r, exact, slope, g, s)
        return
    if kind == MODEL_SPRING:
        add_model(row, target, origin, position, r, exact, g, s)
        return
    w = slope * row[WEIGHT]
    if kind == DIRECTION_SPRING:
        dx, dy, dz = rotated(r, row, AXES)
        fx, fy, fz = w * (dx - target[ALONG]), w * (dy - target[ALONG + 1]), w * (dz - target[ALONG + 2])
        add_direction(dx, dy, dz, fx, fy, fz, w, w, w, 0.0, 0.0, 0.0, exact, g, s)
        return
    ex, ey, ez = rotated(r, row, POINT)
    ex, ey, ez = ex + position[0], ey + position[1], ez + position[2]
    x, y, z = origin[0] + ex - target[AT], origin[1] + ey - target[AT + 1], origin[2] + ez - target[AT + 2]
    xx, yy, zz = w, slope * row[WEIGHT + 1], slope * row[WEIGHT + 2]
    xy, xz, yz = slope * row[WEIGHT + 3], slope * row[WEIGHT + 4], slope * row[WEIGHT + 5]
    if kind == SIDE_SPRING:
        nx, ny, nz = target[ALONG], target[ALONG + 1], target[ALONG + 2]
        depth = row[SIZE] - (x * nx + y * ny + z * nz)
        if depth <= 0.0:
            return
        xx, yy, zz, xy, xz, yz = w * nx * nx, w * ny * ny, w * nz * nz, w * nx * ny, w * nx * nz, w * ny * nz
        x, y, z = -depth * nx, -depth * ny, -depth * nz
    fx, fy, fz = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
    add_point_force(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)


@small
def add_spring(kind, row, target, origin, position, r, exact, errors, index, g, s):
    """Add one spring to the wrench and stiffness of its body; `errors` is scratch."""
    if kind == POINT_SPRING and row[ROBUST] == 0.0:  # the common one, without a call
        ex, ey, ez = rotated(r, row, POINT)
        ex, ey, ez = ex + position[0], ey + position[1], ez + position[2]
        x, y, z = origin[0] + ex - target[AT], origin[1] + ey - target[AT + 1], origin[2] + ez - target[AT + 2]
        xx, yy, zz, xy, xz, yz = (
            row[WEIGHT],
            row[WEIGHT + 1],
            row[WEIGHT + 2],
            row[WEIGHT + 3],
            row[WEIGHT + 4],
            row[WEIGHT + 5],
        )
        fx, fy, fz = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
        add_point(ex, ey, ez, fx, fy, fz, xx, yy, zz, xy, xz, yz, exact, g, s)
        return
    add_any_spring(kind, row, target, origin, position, r, exact, errors, index, g, s)


@kernel
def add_any_spring(kind, row, target, origin, position, r, exact, errors, index, g, s):
    """Add one spring of any kind, robust or not, to the wrench and stiffness of its body; `errors` is scratch."""
    scale = row[ROBUST]
    if scale < 0.0:  # switched off
        return
    slope, bend = 1.0, 0.0
    # rho(E): wrench rho' g, stiffness rho' B + rho'' g g'; the spring's own g is what it adds
    if scale > 0.0:
        energy = any_energy(kind, row, target, origin, position, r, errors, index)
        energy = energy + 0.5 * energy * energy / scale  # the energy before rho
        _, slope, bend = robust_factors(energy, scale)
    g0, g1, g2, g3, g4, g5 = g[0], g[1], g[2], g[3], g[4], g[5]
    add_plain_spring(kind, row, target, origin, position, r, exact, slope, g, s)
    if exact == 0.0 or bend == 0.0:  # rho'' < 0: Gauss-Newton keeps what is positive
        return
    bend = exact * bend / (slope * slope)
    g0, g1, g2, g3, g4, g5 = g[0] - g0, g[1] - g1, g[2] - g2, g[3] - g3, g[4] - g4, g[5] - g5
    s[0] += bend * g0 * g0
    s[1] += bend * g1 * g1
    s[2] += bend * g2 * g2
    s[3] += bend * g0 * g1
    s[4] += bend * g0 * g2
    s[5] += bend * g1 * g2
    s[6] += bend * g3 * g3
    s[7] += bend * g4 * g4
    s[8] += bend * g5 * g5
    s[9] += bend * g3 * g4
    s[10] += bend * g3 * g5
    s[11] += bend * g4 * g5
    s[12] += bend * g0 * g3
    s[13] += bend * g0 * g4
    s[14] += bend * g0 * g5
    s[15] += bend * g1 * g3
    s[16] += bend * g1 * g4
    s[17] += bend * g1 * g5
    s[18] += bend * g2 * g3
    s[19] += bend * g2 * g4
    s[20] += bend * g2 * g5
