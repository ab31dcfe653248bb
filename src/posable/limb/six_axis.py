"""Every pose of a six-axis arm at which its tool is at a target, in closed form.

Two families of arms have one (Pieper 1968), each also from its other end: three axes that meet in a point at the wrist,
and three parallel axes of which the last is followed by two that meet. With axis i through p_i along h_i at the zero
pose, the tool moves by G = e_1 ... e_6, e_i being the rotation by q_i about axis i.

A wrist: its centre W is where the last three axes meet, so e_1 e_2 e_3 W = G W. Height along, and distance from, axis 1
are free of q_1; both are affine in cos q_2, sin q_2, which leaves one equation of second degree in cos q_3, sin q_3
with at most four roots, in closed form where axes 2 and 3 are parallel. The wrist's rotation gives two solutions for
each. Parallel axes along h: rotations about them preserve heights along h, which gives q_1, then q_5, q_6, and q_2,
q_3, q_4 as a planar arm. Each solution is refined by Newton steps on all six axes and compared with the target.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel, small
from posable.engine.layout import AT, FRAME, MAX_MAGNITUDE, TARGETS

WRIST, PARALLEL = 0.0, 1.0
# Slices of a packed arm
FAMILY, AXIS, PLACE, CENTER, NORMAL, LENGTH, COSINE, SINE = 0, 1, 19, 37, 40, 43, 44, 45
HOME, REVERSED, ARM = 46, 58, 59  # the inverse of the tool's place at the zero pose; whether the last axis comes first
# Slices of the scratch memory: rotation and place of the wanted motion G; rotations; roots; a pose; Newton's equations;
# limits; 1 where poses are refined later, the nearest first; poses
WANTED, TURN, REST, ROOTS, POSE, FOUND, JACOBIAN, LIMITS, LATER, POSES = (
    0, 12, 24, 36, 50, 56, 68, 110, 128, 129)  # fmt: skip
TRANSFORM = 16  # numbers of a target that is a transform by rows
MOST = 16  # poses
MEMORY = POSES + 7 * (MOST + 1)
SAMPLES = 48  # of the equation for q_3 around the circle
ZERO = 1e-9  # of lengths [m] and sines
MEETING = 1e-6  # [m, 1]: axes this close meet, or are parallel; refinement removes the error
CLOSE = 1e-3  # [m, rad]: solutions this close are refined
EXACT = 1e-7  # [m, rad]: error allowed after refinement
SAME = 1e-6  # [rad]: poses that differ by less are the same
INSIDE = 1e-9  # [rad] by which an angle may exceed a limit before it is clipped
WHOLE = 2.0 * math.pi


# --- Rotations ---


@small
def rotated_about(hx, hy, hz, c, s, x, y, z):
    """Return a vector turned about the unit axis h by the angle of cosine c and sine s."""
    k = (hx * x + hy * y + hz * z) * (1.0 - c)
    return (
        c * x + s * (hy * z - hz * y) + k * hx,
        c * y + s * (hz * x - hx * z) + k * hy,
        c * z + s * (hx * y - hy * x) + k * hz,
    )


@kernel
def angle_between(hx, hy, hz, x, y, z, u, v, w, otherwise):
    """Return the angle about h that turns the vector x, y, z towards u, v, w; `otherwise` if it is undefined."""
    k, j = hx * x + hy * y + hz * z, hx * u + hy * v + hz * w
    x, y, z = x - k * hx, y - k * hy, z - k * hz
    u, v, w = u - j * hx, v - j * hy, w - j * hz
    cosine = x * u + y * v + z * w
    sine = hx * (y * w - z * v) + hy * (z * u - x * w) + hz * (x * v - y * u)
    if cosine * cosine + sine * sine < ZERO**4:
        return otherwise
    return math.atan2(sine, cosine)


@kernel
def two_angles(a, b, c):
    """Return (count, one, other): the angles at which a + b cos + c sin = 0; a double root counts as two."""
    length = math.sqrt(b * b + c * c)
    if length < ZERO * ZERO:
        return 0, 0.0, 0.0
    ratio = -a / length
    if ratio > 1.0 + 1e-7 or ratio < -1.0 - 1e-7:
        return 0, 0.0, 0.0
    half, middle = math.acos(min(max(ratio, -1.0), 1.0)), math.atan2(c, b)
    return 2, middle + half, middle - half


@kernel
def add_turn(m, at, arm, i, angle):
    """Append e_i to the motion at m[at:at+12]: rotation by rows, then translation."""
    c, s = math.cos(angle), math.sin(angle)
    h, p = AXIS + 3 * i, PLACE + 3 * i
    hx, hy, hz = arm[h], arm[h + 1], arm[h + 2]
    # x -> R (p + E (x - p)) + t
    px, py, pz = arm[p], arm[p + 1], arm[p + 2]
    for row in range(3):
        q = at + 3 * row
        x, y, z = m[q], m[q + 1], m[q + 2]
        u, v, w = rotated_about(hx, hy, hz, c, -s, x, y, z)  # a row times E
        m[at + 9 + row] += (x - u) * px + (y - v) * py + (z - w) * pz
        m[q], m[q + 1], m[q + 2] = u, v, w


@kernel
def set_identity(m, at):
    """Write the identity motion at m[at:at+12]."""
    for k in range(12):
        m[at + k] = 0.0
    m[at] = m[at + 4] = m[at + 8] = 1.0


@small
def moved(m, at, x, y, z):
    """Return a point moved by the motion at m[at:at+12]."""
    return (
        m[at] * x + m[at + 1] * y + m[at + 2] * z + m[at + 9],
        m[at + 3] * x + m[at + 4] * y + m[at + 5] * z + m[at + 10],
        m[at + 6] * x + m[at + 7] * y + m[at + 8] * z + m[at + 11],
    )


@kernel
def remaining_motion(m):
    """Write TURN^-1 WANTED at m[REST:REST+12]."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += m[TURN + 3 * k + i] * m[WANTED + 3 * k + j]
            m[REST + 3 * i + j] = total
        total = 0.0
        for k in range(3):
            total += m[TURN + 3 * k + i] * (m[WANTED + 9 + k] - m[TURN + 9 + k])
        m[REST + 9 + i] = total


# --- Refinement, limits and order ---


@kernel
def refine(arm, m):
    """Refine the six angles at m[POSE:POSE+6] with Newton steps; return whether they give the wanted motion."""
    j = JACOBIAN
    for turn in range(6):
        set_identity(m, FOUND)
        for i in range(6):
            h, p = AXIS + 3 * i, PLACE + 3 * i
            x, y, z = arm[h], arm[h + 1], arm[h + 2]
            f = FOUND
            hx, hy, hz = (
                m[f] * x + m[f + 1] * y + m[f + 2] * z, m[f + 3] * x + m[f + 4] * y + m[f + 5] * z,
                m[f + 6] * x + m[f + 7] * y + m[f + 8] * z,
            )  # fmt: skip
            px, py, pz = moved(m, FOUND, arm[p], arm[p + 1], arm[p + 2])
            m[j + i], m[j + 7 + i], m[j + 14 + i] = hx, hy, hz
            m[j + 21 + i], m[j + 28 + i], m[j + 35 + i] = py * hz - pz * hy, pz * hx - px * hz, px * hy - py * hx
            add_turn(m, FOUND, arm, i, m[POSE + i])
        # D = WANTED FOUND^-1, a small motion: [w; v]
        for k in range(3):
            a, b = 3 * ((k + 1) % 3), 3 * ((k + 2) % 3)
            total = 0.0
            for l in range(3):
                total += m[WANTED + b + l] * m[FOUND + a + l] - m[WANTED + a + l] * m[FOUND + b + l]
            m[j + 7 * k + 6] = 0.5 * total
        for k in range(3):
            total = m[WANTED + 9 + k]
            for l in range(3):
                d = 0.0
                for i in range(3):
                    d += m[WANTED + 3 * k + i] * m[FOUND + 3 * l + i]
                total -= d * m[FOUND + 9 + l]
            m[j + 7 * (k + 3) + 6] = total
        trace, miss = 0.0, 0.0
        for k in range(9):
            trace += m[WANTED + k] * m[FOUND + k]
        for k in range(6):
            miss = max(miss, abs(m[j + 7 * k + 6]))
        if not miss < CLOSE or trace < 0.0:
            return False
        if miss < 1e-13 or turn == 5 or not solve_six(m, j):
            return miss < EXACT
        for i in range(6):
            m[POSE + i] += m[j + 7 * i + 6]
    return False


@kernel
def solve_six(m, at):
    """Solve the 6 x 7 equations at m[at:], in place, into their last column; return False if they are singular."""
    for k in range(6):
        best = k
        for i in range(k + 1, 6):
            if abs(m[at + 7 * i + k]) > abs(m[at + 7 * best + k]):
                best = i
        if abs(m[at + 7 * best + k]) < 1e-8:
            return False
        if best != k:
            for j in range(7):
                m[at + 7 * k + j], m[at + 7 * best + j] = m[at + 7 * best + j], m[at + 7 * k + j]
        scale = 1.0 / m[at + 7 * k + k]
        for j in range(k, 7):
            m[at + 7 * k + j] *= scale
        for i in range(6):
            factor = m[at + 7 * i + k]
            if i != k and factor != 0.0:
                for j in range(k, 7):
                    m[at + 7 * i + j] -= factor * m[at + 7 * k + j]
    return True


@kernel
def keep_pose(arm, m, limits, poses, count):
    """Add the pose at m[POSE:POSE+6] if it is correct, within the limits and new; return the new count.

    limits: (3, 6) lower, upper, start. poses: (MOST + 1, 7), nearest first; the last column is the distance squared.
    """
    away = 0.0
    for i in range(6):  # skip what is clearly outside
        room = limits[1, i] - limits[0, i] + 2.0 * CLOSE
        above = m[POSE + i] - limits[0, i] + CLOSE
        if room < WHOLE and above - WHOLE * math.floor(above / WHOLE) > room:
            return count
    if m[LATER] == 0.0 and not refine(arm, m):
        return count
    for i in range(6):
        low, high, start = limits[0, i], limits[1, i], limits[2, i]
        angle = m[POSE + i] + WHOLE * math.floor((start - m[POSE + i]) / WHOLE + 0.5)
        if angle > high + INSIDE:
            angle -= WHOLE * math.ceil((angle - high - INSIDE) / WHOLE)
        elif angle < low - INSIDE:
            angle += WHOLE * math.ceil((low - INSIDE - angle) / WHOLE)
        if angle > high + INSIDE or angle < low - INSIDE:
            return count
        angle = min(max(angle, low), high)
        m[POSE + i] = angle
        away += (angle - start) * (angle - start)
    for k in range(count):
        gap = 0.0
        for i in range(6):
            d = abs(poses[k, i] - m[POSE + i])
            gap = max(gap, abs(d - WHOLE * math.floor(d / WHOLE + 0.5)))
        if gap < SAME:
            return count
    k = min(count, MOST)
    while k > 0 and poses[k - 1, 6] > away:
        for i in range(7):
            poses[k, i] = poses[k - 1, i]
        k -= 1
    for i in range(6):
        poses[k, i] = m[POSE + i]
    poses[k, 6] = away
    return min(count + 1, MOST)


# --- A wrist ---


@small
def elbow_equation(m, c, s):
    """Return the equation for q_3 and its derivative, at cosine c and sine s; its coefficients are at m[FOUND:]."""
    f = FOUND
    along, slope = m[f] + m[f + 1] * c + m[f + 2] * s, m[f + 2] * c - m[f + 1] * s
    square, rise = m[f + 3] + m[f + 4] * c + m[f + 5] * s, m[f + 5] * c - m[f + 4] * s
    a, b, ca, sa = m[f + 6], m[f + 7], m[f + 8], m[f + 9]
    one, two = m[f + 10] - ca * along, 0.5 * (m[f + 11] - square)
    value = b * two * two + a * one * one - a * b * (square - along * along)
    change = -b * two * rise - 2.0 * a * one * ca * slope - a * b * (rise - 2.0 * along * slope)
    return value, change, one, two, sa


@kernel
def root_between(m, low, high, f_low):
    """Return the root of the equation for q_3 between two angles of opposite signs: Newton's method in a bracket."""
    q = 0.5 * (low + high)
    for _ in range(60):
        value, change, _, _, _ = elbow_equation(m, math.cos(q), math.sin(q))
        if value == 0.0 or high - low < 1e-15:
            return q
        if (value > 0.0) == (f_low > 0.0):
            low = q
        else:
            high = q
        step = q - value / change if change != 0.0 else low
        before, q = q, step if low < step < high else 0.5 * (low + high)
        if abs(q - before) < 1e-15:
            return q
    return q


@kernel
def elbow_roots(m):
    """Write the roots of the equation for q_3 at m[ROOTS:], also double ones; return their count."""
    count, width = 0, WHOLE / SAMPLES
    turn_c, turn_s = math.cos(width), math.sin(width)
    c, s, largest = -1.0, 0.0, 0.0
    f0, g0, _, _, _ = elbow_equation(m, c, s)
    for k in range(SAMPLES):
        largest = max(largest, abs(f0))
        c, s = c * turn_c - s * turn_s, s * turn_c + c * turn_s
        f1, g1, _, _, _ = elbow_equation(m, c, s)
        low = -math.pi + k * width
        if (f0 > 0.0) != (f1 > 0.0):
            m[ROOTS + count] = root_between(m, low, low + width, f0)
            count += 1
        elif (f0 > 0.0) != (g0 > 0.0) and (f1 > 0.0) == (g1 > 0.0):  # it approaches 0 and turns back
            a, b, q, value = low, low + width, low, f0
            for _ in range(50):
                q = 0.5 * (a + b)
                value, change, _, _, _ = elbow_equation(m, math.cos(q), math.sin(q))
                if (value > 0.0) != (f0 > 0.0):
                    break
                if (change > 0.0) == (g0 > 0.0):
                    a = q
                else:
                    b = q
            if (value > 0.0) != (f0 > 0.0):
                m[ROOTS + count] = root_between(m, low, q, f0)
                m[ROOTS + count + 1] = root_between(m, q, low + width, value)
                count += 2
            elif abs(value) < 1e-10 * largest:
                m[ROOTS + count] = q
                count += 1
        if count > 10:
            break
        f0, g0 = f1, g1
    return count


@kernel
def parallel_elbow_roots(m):
    """Write the roots of the equation for q_3 if axes 2 and 3 are parallel; return their count.

    The height along axis 2 then does not depend on q_3, which leaves a quadratic equation for the squared distance.
    """
    f = FOUND
    one = m[f + 10] - m[f + 8] * m[f]
    middle = m[f + 11] + 2.0 * m[f + 6]
    room = m[f + 11] + m[f + 6] - one * one / m[f + 7] - m[f] * m[f]  # squared: how far the wrist can be off axis 1
    if room < -1e-9 * (abs(m[f + 11]) + m[f + 6]):
        return 0
    step, count = 2.0 * math.sqrt(m[f + 6] * max(room, 0.0)), 0
    for side in range(2):
        square = middle + step if side == 0 else middle - step
        number, m[ROOTS + count], m[ROOTS + count + 1] = two_angles(m[f + 3] - square, m[f + 4], m[f + 5])
        count += number
    return count


@kernel
def wrist_poses(arm, m, limits, poses):
    """Write every pose of an arm with a wrist into poses; return their count."""
    x, y, z = moved(m, WANTED, arm[CENTER], arm[CENTER + 1], arm[CENTER + 2])
    x, y, z = x - arm[PLACE], y - arm[PLACE + 1], z - arm[PLACE + 2]
    hx, hy, hz = arm[AXIS + 6], arm[AXIS + 7], arm[AXIS + 8]  # h_3
    a = arm[LENGTH]
    height = arm[AXIS] * x + arm[AXIS + 1] * y + arm[AXIS + 2] * z
    vx, vy, vz = arm[CENTER] - arm[PLACE + 6], arm[CENTER + 1] - arm[PLACE + 7], arm[CENTER + 2] - arm[PLACE + 8]
    ox, oy, oz = arm[PLACE + 6] - arm[PLACE + 3], arm[PLACE + 7] - arm[PLACE + 4], arm[PLACE + 8] - arm[PLACE + 5]
    k = hx * vx + hy * vy + hz * vz
    bx, by, bz = vx - k * hx, vy - k * hy, vz - k * hz
    cx, cy, cz = hy * vz - hz * vy, hz * vx - hx * vz, hx * vy - hy * vx
    ax, ay, az = ox + k * hx, oy + k * hy, oz + k * hz
    gx, gy, gz = arm[AXIS + 3], arm[AXIS + 4], arm[AXIS + 5]  # h_2
    f, sa = FOUND, arm[SINE]
    m[f], m[f + 1], m[f + 2] = (
        gx * ax + gy * ay + gz * az, gx * bx + gy * by + gz * bz, gx * cx + gy * cy + gz * cz)  # fmt: skip
    m[f + 3] = ox * ox + oy * oy + oz * oz + vx * vx + vy * vy + vz * vz + 2.0 * k * (ox * hx + oy * hy + oz * hz)
    m[f + 4], m[f + 5] = 2.0 * (ox * bx + oy * by + oz * bz), 2.0 * (ox * cx + oy * cy + oz * cz)
    m[f + 6], m[f + 7], m[f + 8], m[f + 9] = a * a, sa * sa, arm[COSINE], sa
    m[f + 10], m[f + 11] = height, x * x + y * y + z * z - a * a
    if abs(a) < MEETING:
        roots, m[ROOTS], m[ROOTS + 1] = two_angles(m[f + 11] - m[f + 3], -m[f + 4], -m[f + 5])
    elif abs(sa) < MEETING:
        ca = arm[COSINE]
        roots, m[ROOTS], m[ROOTS + 1] = two_angles(height - ca * m[f], -ca * m[f + 1], -ca * m[f + 2])
    elif max(abs(m[f + 1]), abs(m[f + 2])) < ZERO:
        roots = parallel_elbow_roots(m)
    else:
        roots = elbow_roots(m)
    count = 0
    nx, ny, nz = arm[NORMAL], arm[NORMAL + 1], arm[NORMAL + 2]
    mx, my, mz = gy * nz - gz * ny, gz * nx - gx * nz, gx * ny - gy * nx
    for r in range(roots):
        q3 = m[ROOTS + r]
        c, s = math.cos(q3), math.sin(q3)
        wx, wy, wz = ax + c * bx + s * cx, ay + c * by + s * cy, az + c * bz + s * cz
        wn, wm, wh = nx * wx + ny * wy + nz * wz, mx * wx + my * wy + mz * wz, gx * wx + gy * wy + gz * wz
        square = wn * wn + wm * wm
        one, two = height - arm[COSINE] * wh, 0.5 * (x * x + y * y + z * z - a * a - square - wh * wh)
        both = 1
        if abs(a) < MEETING:
            v = one / sa
            u, both = math.sqrt(max(square - v * v, 0.0)), 2
        elif abs(sa) < MEETING:
            u = two / a
            v, both = math.sqrt(max(square - u * u, 0.0)), 2
        else:
            u, v = two / a, one / sa
        for side in range(both):
            if side == 1:
                if abs(a) < MEETING:
                    u = -u
                else:
                    v = -v
            q2 = math.atan2(v, u) - math.atan2(wm, wn)
            u0, u1, u2 = u * nx + v * mx + wh * gx, u * ny + v * my + wh * gy, u * nz + v * mz + wh * gz
            q1 = angle_between(
                arm[AXIS], arm[AXIS + 1], arm[AXIS + 2], u0 + a * nx, u1 + a * ny, u2 + a * nz, x, y, z, limits[2, 0]
            )
            set_identity(m, TURN)
            add_turn(m, TURN, arm, 0, q1)
            add_turn(m, TURN, arm, 1, q2)
            add_turn(m, TURN, arm, 2, q3)
            remaining_motion(m)
            count = turn_wrist(arm, m, limits, poses, count, q1, q2, q3)
    return count


@kernel
def turn_wrist(arm, m, limits, poses, count, q1, q2, q3):
    """Add the poses of the wrist whose rotation is at m[REST:] to the poses; return the new count."""
    h4, h5, h6 = AXIS + 9, AXIS + 12, AXIS + 15
    lx, ly, lz = arm[h6], arm[h6 + 1], arm[h6 + 2]
    kx, ky, kz = arm[h5], arm[h5 + 1], arm[h5 + 2]
    jx, jy, jz = arm[h4], arm[h4 + 1], arm[h4 + 2]
    r = REST
    tx, ty, tz = (
        m[r] * lx + m[r + 1] * ly + m[r + 2] * lz, m[r + 3] * lx + m[r + 4] * ly + m[r + 5] * lz,
        m[r + 6] * lx + m[r + 7] * ly + m[r + 8] * lz,
    )  # fmt: skip
    still = (jx * kx + jy * ky + jz * kz) * (kx * lx + ky * ly + kz * lz)
    cosine = jx * lx + jy * ly + jz * lz - still
    sine = jx * (ky * lz - kz * ly) + jy * (kz * lx - kx * lz) + jz * (kx * ly - ky * lx)
    number, first, second = two_angles(still - (jx * tx + jy * ty + jz * tz), cosine, sine)
    # a direction orthogonal to h_6, to measure the last angle
    if abs(lx) < 0.7:
        ux, uy, uz = 0.0, lz, -ly
    else:
        ux, uy, uz = -lz, 0.0, lx
    for k in range(number):
        q5 = first if k == 0 else second
        c, s = math.cos(q5), math.sin(q5)
        x, y, z = rotated_about(kx, ky, kz, c, s, lx, ly, lz)
        q4 = angle_between(jx, jy, jz, x, y, z, tx, ty, tz, limits[2, 3])
        x, y, z = (
            m[r] * ux + m[r + 1] * uy + m[r + 2] * uz, m[r + 3] * ux + m[r + 4] * uy + m[r + 5] * uz,
            m[r + 6] * ux + m[r + 7] * uy + m[r + 8] * uz,
        )  # fmt: skip
        x, y, z = rotated_about(jx, jy, jz, math.cos(q4), -math.sin(q4), x, y, z)
        x, y, z = rotated_about(kx, ky, kz, c, -s, x, y, z)
        q6 = angle_between(lx, ly, lz, ux, uy, uz, x, y, z, limits[2, 5])
        m[POSE], m[POSE + 1], m[POSE + 2], m[POSE + 3], m[POSE + 4], m[POSE + 5] = q1, q2, q3, q4, q5, q6
        count = keep_pose(arm, m, limits, poses, count)
    return count


# --- Parallel axes ---


@kernel
def parallel_poses(arm, m, limits, poses):
    """Write every pose of an arm whose axes 2, 3, 4 are parallel and 5, 6 meet into poses; return their count."""
    gx, gy, gz = arm[AXIS + 3], arm[AXIS + 4], arm[AXIS + 5]
    hx, hy, hz = arm[AXIS], arm[AXIS + 1], arm[AXIS + 2]
    x, y, z = moved(m, WANTED, arm[CENTER], arm[CENTER + 1], arm[CENTER + 2])
    x, y, z = x - arm[PLACE], y - arm[PLACE + 1], z - arm[PLACE + 2]
    still = (gx * hx + gy * hy + gz * hz) * (hx * x + hy * y + hz * z)
    cosine = gx * x + gy * y + gz * z - still
    sine = gx * (hy * z - hz * y) + gy * (hz * x - hx * z) + gz * (hx * y - hy * x)
    ox, oy, oz = arm[CENTER] - arm[PLACE], arm[CENTER + 1] - arm[PLACE + 1], arm[CENTER + 2] - arm[PLACE + 2]
    height = gx * ox + gy * oy + gz * oz
    number, first, second = two_angles(still - height, cosine, -sine)
    kx, ky, kz = arm[AXIS + 12], arm[AXIS + 13], arm[AXIS + 14]  # h_5
    lx, ly, lz = arm[AXIS + 15], arm[AXIS + 16], arm[AXIS + 17]  # h_6
    stay = (gx * kx + gy * ky + gz * kz) * (kx * lx + ky * ly + kz * lz)
    along = gx * lx + gy * ly + gz * lz - stay
    across = gx * (ky * lz - kz * ly) + gy * (kz * lx - kx * lz) + gz * (kx * ly - ky * lx)
    count, r = 0, REST
    for i in range(number):
        q1 = first if i == 0 else second
        set_identity(m, TURN)
        add_turn(m, TURN, arm, 0, q1)
        remaining_motion(m)
        # h' R, as a row: h in the frame of the last axes
        rx, ry, rz = (
            gx * m[r] + gy * m[r + 3] + gz * m[r + 6], gx * m[r + 1] + gy * m[r + 4] + gz * m[r + 7],
            gx * m[r + 2] + gy * m[r + 5] + gz * m[r + 8],
        )  # fmt: skip
        pair, one, other = two_angles(stay - (rx * lx + ry * ly + rz * lz), along, across)
        for j in range(pair):
            q5 = one if j == 0 else other
            c, s = math.cos(q5), math.sin(q5)
            x, y, z = rotated_about(kx, ky, kz, c, -s, gx, gy, gz)
            q6 = angle_between(lx, ly, lz, rx, ry, rz, x, y, z, limits[2, 5])
            count = planar_poses(arm, m, limits, poses, count, q1, q5, q6)
    return count


@kernel
def planar_poses(arm, m, limits, poses, count, q1, q5, q6):
    """Add the poses of the three parallel axes, given the other angles, to the poses; return the new count."""
    gx, gy, gz = arm[AXIS + 3], arm[AXIS + 4], arm[AXIS + 5]
    kx, ky, kz = arm[AXIS + 12], arm[AXIS + 13], arm[AXIS + 14]
    lx, ly, lz = arm[AXIS + 15], arm[AXIS + 16], arm[AXIS + 17]
    c5, s5, c6, s6, r = math.cos(q5), math.sin(q5), math.cos(q6), math.sin(q6), REST
    # the motion of a point, or a direction, before the last two axes: REST e_6^-1 e_5^-1
    ox, oy, oz = arm[CENTER], arm[CENTER + 1], arm[CENTER + 2]  # on both of them
    x, y, z = arm[PLACE + 9] - ox, arm[PLACE + 10] - oy, arm[PLACE + 11] - oz
    x, y, z = rotated_about(kx, ky, kz, c5, -s5, x, y, z)
    x, y, z = rotated_about(lx, ly, lz, c6, -s6, x, y, z)
    x, y, z = moved(m, REST, ox + x, oy + y, oz + z)
    x, y, z = x - arm[PLACE + 3], y - arm[PLACE + 4], z - arm[PLACE + 5]
    k = gx * x + gy * y + gz * z
    x, y, z = x - k * gx, y - k * gy, z - k * gz  # where the fourth axis goes, from the second
    if abs(gx) < 0.7:
        ux, uy, uz = 0.0, gz, -gy
    else:
        ux, uy, uz = -gz, 0.0, gx
    vx, vy, vz = rotated_about(kx, ky, kz, c5, -s5, ux, uy, uz)
    vx, vy, vz = rotated_about(lx, ly, lz, c6, -s6, vx, vy, vz)
    total = angle_between(
        gx, gy, gz, ux, uy, uz,
        m[r] * vx + m[r + 1] * vy + m[r + 2] * vz, m[r + 3] * vx + m[r + 4] * vy + m[r + 5] * vz,
        m[r + 6] * vx + m[r + 7] * vy + m[r + 8] * vz, 0.0,
    )  # fmt: skip
    ax, ay, az = arm[PLACE + 6] - arm[PLACE + 3], arm[PLACE + 7] - arm[PLACE + 4], arm[PLACE + 8] - arm[PLACE + 5]
    bx, by, bz = arm[PLACE + 9] - arm[PLACE + 6], arm[PLACE + 10] - arm[PLACE + 7], arm[PLACE + 11] - arm[PLACE + 8]
    k, j = gx * ax + gy * ay + gz * az, gx * bx + gy * by + gz * bz
    ax, ay, az, bx, by, bz = ax - k * gx, ay - k * gy, az - k * gz, bx - j * gx, by - j * gy, bz - j * gz
    third = 1.0 if gx * arm[AXIS + 6] + gy * arm[AXIS + 7] + gz * arm[AXIS + 8] > 0.0 else -1.0
    fourth = 1.0 if gx * arm[AXIS + 9] + gy * arm[AXIS + 10] + gz * arm[AXIS + 11] > 0.0 else -1.0
    cx, cy, cz = gy * bz - gz * by, gz * bx - gx * bz, gx * by - gy * bx
    known = ax * ax + ay * ay + az * az + bx * bx + by * by + bz * bz - (x * x + y * y + z * z)
    number, first, second = two_angles(0.5 * known, ax * bx + ay * by + az * bz, third * (ax * cx + ay * cy + az * cz))
    for i in range(number):
        q3 = first if i == 0 else second
        vx, vy, vz = rotated_about(gx, gy, gz, math.cos(q3), third * math.sin(q3), bx, by, bz)
        q2 = angle_between(gx, gy, gz, ax + vx, ay + vy, az + vz, x, y, z, limits[2, 1])
        q4 = fourth * (total - q2 - third * q3)
        m[POSE], m[POSE + 1], m[POSE + 2], m[POSE + 3], m[POSE + 4], m[POSE + 5] = q1, q2, q3, q4, q5, q6
        count = keep_pose(arm, m, limits, poses, count)
    return count


@kernel
def set_motion(arm, target, at, step, turn, width, m):
    """Write the wanted motion, from the tool at the zero pose to the target, at m[WANTED:WANTED+12].

    The position [m] of a target is every `step`-th number from `at` on; the rows of its rotation begin at `turn`, and
    are `width` numbers apart.
    """
    h = HOME
    for i in range(3):
        row, total = turn + width * i, target[at + step * i]
        for k in range(3):
            total += target[row + k] * arm[h + 9 + k]
        m[TURN + 9 + i] = total
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += target[row + k] * arm[h + 3 * k + j]
            m[TURN + 3 * i + j] = total
    if arm[REVERSED] == 0.0:
        for k in range(12):
            m[WANTED + k] = m[TURN + k]
        return
    for i in range(3):
        total = 0.0
        for k in range(3):
            m[WANTED + 3 * i + k] = m[TURN + 3 * k + i]
            total -= m[TURN + 3 * k + i] * m[TURN + 9 + k]
        m[WANTED + 9 + i] = total


@kernel
def poses_of(arm, columns, lower, upper, start, m):
    """Write the poses that give the motion at m[WANTED:] at m[POSES:], nearest first; return their count."""
    limits, poses = m[LIMITS : LIMITS + 18].reshape(3, 6), m[POSES : POSES + 7 * (MOST + 1)].reshape(MOST + 1, 7)
    for i in range(6):
        k = columns[i]
        limits[0, i], limits[1, i], limits[2, i] = lower[k], upper[k], start[k]
    if arm[FAMILY] == WRIST:
        return wrist_poses(arm, m, limits, poses)
    return parallel_poses(arm, m, limits, poses)


@kernel
def copy_pose(columns, start, m, number, out):
    """Copy a pose from m[POSES:] to out (n,); joints that do not move the tool stay as in start."""
    for i in range(out.shape[0]):
        out[i] = start[i]
    for i in range(6):
        out[columns[i]] = m[POSES + 7 * number + i]


@entry
def six_axis_poses(arm, columns, target, lower, upper, start, out, m):
    """Write the poses that bring an arm's tool to a target into out (MOST, n), nearest to the start first.

    Args:
        arm: (ARM,) as `six_axis_arm` packs it.
        columns: (6,) where the packed axes are in a pose.
        target: (TRANSFORM,) [m] of the tool, by rows.
        lower: (n,) [rad, m].
        upper: (n,) [rad, m].
        start: (n,) [rad, m]; joints that do not move the tool stay there.
        out: (MOST, n) [rad, m].
        m: (MEMORY,) scratch memory.

    Returns:
        Their count.
    """
    m[LATER] = 0.0
    set_motion(arm, target, 3, 4, 0, 4, m)
    count = poses_of(arm, columns, lower, upper, start, m)
    for k in range(count):
        copy_pose(columns, start, m, k, out[k])
    return count


@kernel
def errors_at(arm, columns, target, at, step, pose, m):
    """Return how far the tool of a pose (n,) is from the wanted motion and place: [m], [rad].

    The place [m] is every `step`-th number of a target from `at` on.
    """
    set_identity(m, FOUND)
    for i in range(6):
        add_turn(m, FOUND, arm, i, pose[columns[i]])
    h, f, away = HOME, FOUND, 0.0
    x = -(arm[h] * arm[h + 9] + arm[h + 3] * arm[h + 10] + arm[h + 6] * arm[h + 11])  # the tool at the zero pose
    y = -(arm[h + 1] * arm[h + 9] + arm[h + 4] * arm[h + 10] + arm[h + 7] * arm[h + 11])
    z = -(arm[h + 2] * arm[h + 9] + arm[h + 5] * arm[h + 10] + arm[h + 8] * arm[h + 11])
    if arm[REVERSED] != 0.0:
        x, y, z = x - m[f + 9], y - m[f + 10], z - m[f + 11]
    for k in range(3):
        if arm[REVERSED] == 0.0:
            gap = m[f + 3 * k] * x + m[f + 3 * k + 1] * y + m[f + 3 * k + 2] * z + m[f + 9 + k] - target[at + step * k]
        else:
            gap = m[f + k] * x + m[f + 3 + k] * y + m[f + 6 + k] * z - target[at + step * k]
        away += gap * gap
    trace, square = 0.0, 0.0
    for k in range(3):  # the axis of WANTED FOUND', times its sine
        a, b, total = 3 * ((k + 1) % 3), 3 * ((k + 2) % 3), 0.0
        for l in range(3):
            total += m[WANTED + b + l] * m[f + a + l] - m[WANTED + a + l] * m[f + b + l]
            trace += m[WANTED + 3 * k + l] * m[f + 3 * k + l]
        square += 0.25 * total * total
    return math.sqrt(away), math.atan2(math.sqrt(square), 0.5 * (trace - 1.0))


@entry
def nearest_poses(arm, columns, targets, tolerances, lower, upper, starts, poses, errors, good, m):
    """Write, for each problem of a batch, the pose that is nearest to its start, and judge it.

    Args:
        arm: (ARM,) as `six_axis_arm` packs it.
        columns: (6,) where the packed axes are in a pose.
        targets: (t or 1, TRANSFORM) of the tool, by rows, or (t or 1, 2 TARGETS) of the springs of a pose goal:
            position, then orientation.
        tolerances: (2,) [m, rad].
        lower: (n,) [rad, m].
        upper: (n,) [rad, m].
        starts: (t, n) [rad, m], clipped to the limits; one that is not finite is left as it is, and has no pose.
        poses: (t, n) [rad, m], written: the start where there is no pose.
        errors: (t, 2) [m, rad], written: from the forward kinematics of the pose.
        good: (t,) written: 1 where the goal is reached inside the limits.
        m: (MEMORY,) scratch memory.

    Returns:
        How many are not reached.
    """
    missed = 0
    if targets.shape[1] == TRANSFORM:
        at, step, turn, width = 3, 4, 0, 4
    else:
        at, step, turn, width = AT, 1, TARGETS + FRAME, 3
    for t in range(poses.shape[0]):
        row = targets[t % targets.shape[0]]
        usable = True
        for i in range(poses.shape[1]):
            poses[t, i] = min(max(starts[t, i], lower[i]), upper[i])
            usable = usable and math.isfinite(starts[t, i]) and abs(poses[t, i]) <= MAX_MAGNITUDE
        reached = False
        if usable:
            set_motion(arm, row, at, step, turn, width, m)
            m[LATER] = 1.0
            for i in range(poses.shape[1]):
                starts[t, i] = poses[t, i]
            for k in range(poses_of(arm, columns, lower, upper, starts[t], m)):
                for i in range(6):
                    m[POSE + i] = m[POSES + 7 * k + i]
                if refine(arm, m):
                    for i in range(6):
                        poses[t, columns[i]] = min(max(m[POSE + i], lower[columns[i]]), upper[columns[i]])
                    break
            errors[t, 0], errors[t, 1] = errors_at(arm, columns, row, at, step, poses[t], m)
            reached = errors[t, 0] <= tolerances[0] and errors[t, 1] <= tolerances[1]
        good[t] = 1 if reached else 0
        missed += 0 if reached else 1
    return missed
