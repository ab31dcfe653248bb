"""The pose within the limits that comes closest to an unreachable goal (Tolani et al. 2000, 3.2.4).

First the position is minimised over all seven values; then, with the position kept, the orientation over the four that
remain: the swivel angle and the three values of the last joint. Both are least-squares problems with three residuals
and a box, solved by damped steps in the three-dimensional dual.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.limb.ball_ik import ball_rotation, put_vector
from posable.limb.circle import (  # fmt: skip
    AXES,
    EXTRA,
    FOREARM,
    GOAL,
    LIMITS,
    MISS,
    NORMAL,
    POSITION,
    RESIDUAL,
    ROTATION,
    SPARE,
    START,
    STATE,
    STEP,
    TRIAL,
    forearm_frame,
    length_at,
    rotation_at,
)
from posable.limb.srs_chain import BOX, LOWER, TOOL, UPPER, UPPER_TURN

STEPS = 120
SAME_PLACE = 1e-9  # [m]: closer positions count as one
KEPT = 12  # samples that are refined
CLOSE = 0.4  # [rad]: closer samples are refined as one
RATES = EXTRA + 97  # (7, 3): velocities of the site
MISSED = EXTRA + 118  # 3 [m]: from the site to its goal
NORMALS = EXTRA + 121  # (7, 7): normal equations of a step
BOUND = EXTRA + 170  # 8 [rad]: the steps of the values that go to a bound
LIST = EXTRA + 178  # (KEPT, 10): miss [m], angle [rad], seven values


@kernel
def damped_step(count, w, x, damping):
    """Write STEP = J' (J J' + damping)^-1 r over the free values; the rows of AXES are the columns of J.

    w[x + m] is within LIMITS; a value at its bound stays there if RESIDUAL r pushes it out. Return the largest step.
    """
    r0, r1, r2 = w[RESIDUAL], w[RESIDUAL + 1], w[RESIDUAL + 2]
    a, b, c, d, e, f = damping, 0.0, 0.0, damping, 0.0, damping
    for m in range(count):
        u, v, t = w[AXES + 3 * m], w[AXES + 3 * m + 1], w[AXES + 3 * m + 2]
        push = u * r0 + v * r1 + t * r2
        low, high = w[LIMITS + 2 * m], w[LIMITS + 2 * m + 1]
        stuck = (push > 0.0 and w[x + m] >= high) or (push < 0.0 and w[x + m] <= low)
        w[STEP + m] = 0.0 if stuck else 1.0
        if not stuck:
            a, b, c, d, e, f = a + u * u, b + u * v, c + u * t, d + v * v, e + v * t, f + t * t
    # the inverse of a symmetric 3x3 by cofactors
    p, q, s = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * p + b * q + c * s
    if not det > 0.0:
        return 0.0
    y0 = (p * r0 + q * r1 + s * r2) / det
    y1 = (q * r0 + (a * f - c * c) * r1 + (b * c - a * e) * r2) / det
    y2 = (s * r0 + (b * c - a * e) * r1 + (a * d - b * b) * r2) / det
    largest = 0.0
    for m in range(count):
        step = w[STEP + m] * (w[AXES + 3 * m] * y0 + w[AXES + 3 * m + 1] * y1 + w[AXES + 3 * m + 2] * y2)
        w[STEP + m] = step
        largest = max(largest, abs(step))
    return largest


@kernel
def rotate(w, at, x, y, z):
    """Return the rotation w[at:] times a vector."""
    return (
        w[at] * x + w[at + 1] * y + w[at + 2] * z,
        w[at + 3] * x + w[at + 4] * y + w[at + 5] * z,
        w[at + 6] * x + w[at + 7] * y + w[at + 8] * z,
    )


@kernel
def swing_axis(w, m, x, y, z):
    """Replace axis m of AXES by the velocity of a point at (x, y, z) from it."""
    o = AXES + 3 * m
    p, q, r = w[o], w[o + 1], w[o + 2]
    put_vector(w, o, q * z - r * y, r * x - p * z, p * y - q * x)


@kernel
def place_error(limb, shape, task, at, w):
    """Write RESIDUAL [m], from the tip to the goal, and AXES (7, 3), the velocities of the tip; return the distance.

    The seven values are w[at:]. The tip is the last joint (POSE) or the site, moved by the last joint (POSITION).
    """
    k = shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    sx, sy, sz = 0.0, 0.0, 0.0  # last joint to tip
    if task == POSITION:
        ball_rotation(shape, 1, w, at + 4, ROTATION, AXES + 12)
        sx, sy, sz = rotate(w, ROTATION, limb[TOOL], limb[TOOL + 1], limb[TOOL + 2])
    forearm_frame(limb, shape, w[at + 3], w)
    ball_rotation(shape, 0, w, at, ROTATION, AXES)
    s, c = math.sin(w[at + 3]), math.cos(w[at + 3])
    lu, lv, lk = c * limb[LOWER + u] - s * limb[LOWER + v], s * limb[LOWER + u] + c * limb[LOWER + v], limb[LOWER + k]
    sx, sy, sz = rotate(w, FOREARM, sx, sy, sz)
    o = UPPER_TURN
    fx = limb[o + u] * lu + limb[o + v] * lv + limb[o + k] * lk + sx  # elbow to tip, in the first body
    fy = limb[o + 3 + u] * lu + limb[o + 3 + v] * lv + limb[o + 3 + k] * lk + sy
    fz = limb[o + 6 + u] * lu + limb[o + 6 + v] * lv + limb[o + 6 + k] * lk + sz
    fx, fy, fz = rotate(w, ROTATION, fx, fy, fz)
    ex, ey, ez = rotate(w, ROTATION, limb[UPPER], limb[UPPER + 1], limb[UPPER + 2])
    x, y, z = ex + fx, ey + fy, ez + fz
    for m in range(3):
        swing_axis(w, m, x, y, z)
    p, q, r = rotate(w, ROTATION, limb[o + k], limb[o + 3 + k], limb[o + 6 + k])
    put_vector(w, AXES + 9, p, q, r)
    swing_axis(w, 3, fx, fy, fz)
    sx, sy, sz = rotate(w, ROTATION, sx, sy, sz)
    for m in range(4, 7):
        p, q, r = 0.0, 0.0, 0.0
        if task == POSITION:
            p, q, r = rotate(w, FOREARM, w[AXES + 3 * m], w[AXES + 3 * m + 1], w[AXES + 3 * m + 2])
            p, q, r = rotate(w, ROTATION, p, q, r)
        put_vector(w, AXES + 3 * m, p, q, r)
        swing_axis(w, m, sx, sy, sz)
    put_vector(w, RESIDUAL, w[GOAL] - x, w[GOAL + 1] - y, w[GOAL + 2] - z)
    return length_at(w, RESIDUAL)


@kernel
def approach(limb, shape, box, task, w):
    """Move the values at START within limb[box:] until the tip is nearest to its goal; return the distance."""
    for m in range(14):
        w[LIMITS + m] = limb[box + m]
    error = place_error(limb, shape, task, START, w)
    size = length_at(w, GOAL) + 1e-3
    damping = 1e-4 * size * size
    for _ in range(STEPS):
        if error < 1e-14 * size or damping > 1e12 * size * size:
            break
        if damped_step(7, w, START, damping) < 1e-13:
            break
        for m in range(7):
            w[TRIAL + m] = min(max(w[START + m] + w[STEP + m], w[LIMITS + 2 * m]), w[LIMITS + 2 * m + 1])
        after = place_error(limb, shape, task, TRIAL, w)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-16 * size * size)
            for m in range(7):
                w[START + m] = w[TRIAL + m]
        else:
            damping *= 6.0
            place_error(limb, shape, task, START, w)
    return error


@kernel
def turn_error(shape, spin, phi, at, w):
    """Write RESIDUAL, the rotation vector from the last body to its goal, and AXES (4, 3): of phi, of the last joint.

    The first joint is w[spin:] at phi, the last joint's values are w[at:]. Return the angle [rad].
    """
    rotation_at(w, spin, math.cos(phi), math.sin(phi), ROTATION)
    ball_rotation(shape, 1, w, at, SPARE, AXES + 3)
    for m in range(1, 4):
        p, q, r = rotate(w, FOREARM, w[AXES + 3 * m], w[AXES + 3 * m + 1], w[AXES + 3 * m + 2])
        p, q, r = rotate(w, ROTATION, p, q, r)
        put_vector(w, AXES + 3 * m, p, q, r)
    put_vector(w, AXES, w[NORMAL], w[NORMAL + 1], w[NORMAL + 2])
    # the goal frame times the transpose of ours: trace and skew part
    trace, x, y, z = 0.0, 0.0, 0.0, 0.0
    for column in range(3):
        p, q, r = rotate(w, FOREARM, w[SPARE + column], w[SPARE + 3 + column], w[SPARE + 6 + column])
        p, q, r = rotate(w, ROTATION, p, q, r)
        a, b, c = w[GOAL + 3 + column], w[GOAL + 6 + column], w[GOAL + 9 + column]
        trace += a * p + b * q + c * r
        x, y, z = x + (q * c - r * b), y + (r * a - p * c), z + (p * b - q * a)
    put_vector(w, MISS, x, y, z)
    s = length_at(w, MISS)
    angle = math.atan2(s, trace - 1.0)
    factor = angle / s if s > 1e-12 else 0.5
    put_vector(w, RESIDUAL, x * factor, y * factor, z * factor)
    return angle


@kernel
def orient(limb, shape, spin, low, high, phi, w):
    """Turn phi in [low, high] and the values at START + 4, within their limits, towards the goal's orientation.

    Return the remaining angle and phi. FOREARM must be that of the branch.
    """
    w[LIMITS], w[LIMITS + 1] = low, high
    w[STATE] = phi
    for m in range(3):
        w[LIMITS + 2 + 2 * m], w[LIMITS + 3 + 2 * m] = limb[BOX + 8 + 2 * m], limb[BOX + 9 + 2 * m]
        w[STATE + 1 + m] = w[START + 4 + m]
    error = turn_error(shape, spin, phi, STATE + 1, w)
    damping = 1e-4
    for _ in range(STEPS):
        if error < 1e-14 or damping > 1e10:
            break
        if damped_step(4, w, STATE, damping) < 1e-12:
            break
        for m in range(4):
            w[TRIAL + m] = min(max(w[STATE + m] + w[STEP + m], w[LIMITS + 2 * m]), w[LIMITS + 2 * m + 1])
        after = turn_error(shape, spin, w[TRIAL], TRIAL + 1, w)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-14)
            for m in range(4):
                w[STATE + m] = w[TRIAL + m]
        else:
            damping *= 6.0
            turn_error(shape, spin, w[STATE], STATE + 1, w)
    for m in range(3):
        w[START + 4 + m] = w[STATE + 1 + m]
    return error, w[STATE]


# --- Candidates, and the step that refines them ---


@kernel
def clear_candidates(w):
    """Empty LIST."""
    for row in range(KEPT):
        w[LIST + 10 * row] = math.inf


@kernel
def add_candidate(miss, angle, at, w):
    """Insert seven values w[at:] into LIST, sorted by miss, then angle; of close ones only the best is kept."""
    r, last = 0, KEPT - 1
    while r < KEPT:
        o = LIST + 10 * r
        if miss < w[o] - SAME_PLACE or (miss < w[o] + SAME_PLACE and angle < w[o + 1]):
            break
        if are_close(o + 2, at, w):
            return
        r += 1
    for row in range(r, KEPT):  # drop a close one that is worse
        if w[LIST + 10 * row] < math.inf and are_close(LIST + 10 * row + 2, at, w):
            last = row
            break
    if r == KEPT:
        return
    for row in range(last, r, -1):
        for m in range(9):
            w[LIST + 10 * row + m] = w[LIST + 10 * (row - 1) + m]
    w[LIST + 10 * r], w[LIST + 10 * r + 1] = miss, angle
    for m in range(7):
        w[LIST + 10 * r + 2 + m] = w[at + m]


@kernel
def are_close(a, b, w):
    """Return whether seven values at w[a:] and w[b:] differ by less than CLOSE each."""
    for m in range(7):
        if abs(w[a + m] - w[b + m]) > CLOSE:
            return False
    return True


@kernel
def factor_and_solve(count, w, matrix, right):
    """Solve a symmetric positive definite system (count, count) at w[matrix:] for w[right:] in place, by Cholesky."""
    for i in range(count):
        for j in range(i + 1):
            total = w[matrix + 7 * i + j]
            for k in range(j):
                total -= w[matrix + 7 * i + k] * w[matrix + 7 * j + k]
            if i == j:
                w[matrix + 8 * i] = math.sqrt(max(total, 1e-300))
            else:
                w[matrix + 7 * i + j] = total / w[matrix + 8 * j]
    for i in range(count):
        for k in range(i):
            w[right + i] -= w[matrix + 7 * i + k] * w[right + k]
        w[right + i] /= w[matrix + 8 * i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            w[right + i] -= w[matrix + 7 * k + i] * w[right + k]
        w[right + i] /= w[matrix + 8 * i]


@kernel
def coupling(i, j, stiff, w):
    """Return entry (i, j) of the normal equations that turn the axis (AXES) and keep the site in place (RATES)."""
    turn, place = 0.0, 0.0
    for m in range(3):
        turn += w[AXES + 3 * i + m] * w[AXES + 3 * j + m]
        if stiff > 0.0:
            place += w[RATES + 3 * i + m] * w[RATES + 3 * j + m]
    return turn + stiff * place


@kernel
def bounded_step(count, stiff, at, damping, w):
    """Write the damped least-squares STEP of `count` values w[at:] within LIMITS; return the largest.

    It turns the axis (AXES, RESIDUAL) and, if stiff > 0, keeps the site in place (RATES, MISSED). A value that would
    leave its limits goes to its bound, the farthest first, and the others are solved again.
    """
    held = 0
    for m in range(count):
        w[BOUND + m] = 0.0
    for _ in range(count + 1):
        for i in range(count):
            if held >> i & 1:
                for j in range(i):
                    w[NORMALS + 7 * i + j] = 0.0
                w[NORMALS + 8 * i], w[STEP + i] = 1.0, w[BOUND + i]
                continue
            right = 0.0
            for m in range(3):
                right += w[AXES + 3 * i + m] * w[RESIDUAL + m]
                if stiff > 0.0:
                    right += stiff * w[RATES + 3 * i + m] * w[MISSED + m]
            for j in range(count):
                if held >> j & 1:
                    right -= coupling(i, j, stiff, w) * w[BOUND + j]
                if j <= i:
                    w[NORMALS + 7 * i + j] = 0.0 if held >> j & 1 else coupling(i, j, stiff, w)
            w[NORMALS + 8 * i] += damping
            w[STEP + i] = right
        factor_and_solve(count, w, NORMALS, STEP)
        worst, out = 1e-15, -1
        for i in range(count):
            x, step = w[at + i], w[STEP + i]
            over = max(x + step - w[LIMITS + 2 * i + 1], w[LIMITS + 2 * i] - x - step)
            if held >> i & 1 == 0 and over > worst:
                worst, out = over, i
        if out < 0:
            break
        held |= 1 << out
        side = LIMITS + 2 * out + (1 if w[STEP + out] > 0.0 else 0)
        w[BOUND + out] = w[side] - w[at + out]
    largest = 0.0
    for i in range(count):
        largest = max(largest, abs(w[STEP + i]))
    return largest
