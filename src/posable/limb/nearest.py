"""When the goal cannot be met: the pose inside the limits that comes nearest (seed 003, 3.2.4, unsolvable problems).

First the place, over all seven numbers; then, with the place kept, the orientation over the four that are left: the
swivel angle and the last joint's three numbers. Both are least-squares problems with three residuals and a box, solved by
damped steps in the three-dimensional dual.
"""

from __future__ import annotations

import math

from posable.kernels.compiler import kernel

from .anatomy import LOWER, LOWER_TURN, TOOL, UPPER, UPPER_TURN
from .balls import ball_rotation
from .circle import POSITION, RANGES, carry_forearm, spun

STEPS = 120


@kernel
def damped_step(axes, count, x, box, at, r, damping, step):
    """Write step = J' (J J' + damping)^-1 r over the numbers that may still move; rows of axes (count, 3) are J's columns.

    x[m] lives in box[at + m]; a number at its bound stays there if r pushes it out. Return the largest step.
    """
    a, b, c, d, e, f = damping, 0.0, 0.0, damping, 0.0, damping
    for m in range(count):
        u, v, w = axes[m, 0], axes[m, 1], axes[m, 2]
        push = u * r[0] + v * r[1] + w * r[2]
        step[m] = 1.0
        if (push > 0.0 and x[m] >= box[at + m, 1]) or (push < 0.0 and x[m] <= box[at + m, 0]):
            step[m] = 0.0
            continue
        a, b, c, d, e, f = a + u * u, b + u * v, c + u * w, d + v * v, e + v * w, f + w * w
    # the inverse of a symmetric 3x3 by cofactors
    p, q, s = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * p + b * q + c * s
    if not det > 0.0:
        return 0.0
    y0 = (p * r[0] + q * r[1] + s * r[2]) / det
    y1 = (q * r[0] + (a * f - c * c) * r[1] + (b * c - a * e) * r[2]) / det
    y2 = (s * r[0] + (b * c - a * e) * r[1] + (a * d - b * b) * r[2]) / det
    largest = 0.0
    for m in range(count):
        if step[m] != 0.0:
            step[m] = axes[m, 0] * y0 + axes[m, 1] * y1 + axes[m, 2] * y2
            largest = max(largest, abs(step[m]))
    return largest


@kernel
def turned(rotation, x, y, z):
    """Return a rotation (9,) times a vector."""
    return (
        rotation[0] * x + rotation[1] * y + rotation[2] * z,
        rotation[3] * x + rotation[4] * y + rotation[5] * z,
        rotation[6] * x + rotation[7] * y + rotation[8] * z,
    )


@kernel
def place_error(anatomy, task, numbers, bench, r):
    """Write r (3,) [m], from the tip to the goal, and bench.axes (7, 3), how the tip moves; return |r|.

    The tip is the last joint (POSE) or the site, carried by the last joint's own numbers (POSITION).
    """
    place, axes = anatomy.place, bench.axes
    k = anatomy.shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    sx, sy, sz = 0.0, 0.0, 0.0  # last joint to tip, in the last joint's rest frame
    if task == POSITION:
        ball_rotation(anatomy, 1, numbers, 4, bench.rotation, axes[4:7])
        sx, sy, sz = turned(bench.rotation, place[TOOL], place[TOOL + 1], place[TOOL + 2])
    carry_forearm(anatomy, numbers[3], bench.forearm)
    ball_rotation(anatomy, 0, numbers, 0, bench.rotation, axes[0:3])
    turn1, arm = bench.rotation, bench.forearm
    s, c = math.sin(numbers[3]), math.cos(numbers[3])
    lu = c * place[LOWER + u] - s * place[LOWER + v]
    lv = s * place[LOWER + u] + c * place[LOWER + v]
    lk = place[LOWER + k]
    sx, sy, sz = turned(arm, sx, sy, sz)
    o = UPPER_TURN
    fx = place[o + u] * lu + place[o + v] * lv + place[o + k] * lk + sx  # elbow to tip, in the first body
    fy = place[o + 3 + u] * lu + place[o + 3 + v] * lv + place[o + 3 + k] * lk + sy
    fz = place[o + 6 + u] * lu + place[o + 6 + v] * lv + place[o + 6 + k] * lk + sz
    fx, fy, fz = turned(turn1, fx, fy, fz)
    ex, ey, ez = turned(turn1, place[UPPER], place[UPPER + 1], place[UPPER + 2])
    x, y, z = ex + fx, ey + fy, ez + fz
    for m in range(3):
        p, q, w = axes[m, 0], axes[m, 1], axes[m, 2]
        axes[m, 0], axes[m, 1], axes[m, 2] = q * z - w * y, w * x - p * z, p * y - q * x
    p, q, w = turned(turn1, place[o + k], place[o + 3 + k], place[o + 6 + k])
    axes[3, 0], axes[3, 1], axes[3, 2] = q * fz - w * fy, w * fx - p * fz, p * fy - q * fx
    sx, sy, sz = turned(turn1, sx, sy, sz)
    for m in range(4, 7):
        if task == POSITION:
            p, q, w = turned(arm, axes[m, 0], axes[m, 1], axes[m, 2])
            p, q, w = turned(turn1, p, q, w)
            axes[m, 0], axes[m, 1], axes[m, 2] = q * sz - w * sy, w * sx - p * sz, p * sy - q * sx
        else:
            axes[m, 0], axes[m, 1], axes[m, 2] = 0.0, 0.0, 0.0
    r[0], r[1], r[2] = bench.goal[0] - x, bench.goal[1] - y, bench.goal[2] - z
    return math.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])


@kernel
def approach(anatomy, box, task, numbers, bench):
    """Move numbers (7,), inside box (7, 2), until the tip is as near to its goal as it comes; return the distance."""
    step, r, trial = bench.spare, bench.body[0], bench.trial
    error = place_error(anatomy, task, numbers, bench, r)
    size = abs(bench.goal[0]) + abs(bench.goal[1]) + abs(bench.goal[2]) + 1e-3
    damping = 1e-4 * size * size
    for _ in range(STEPS):
        if error < 1e-14 * size or damping > 1e12 * size * size:
            break
        if damped_step(bench.axes, 7, numbers, box, 0, r, damping, step) < 1e-13:
            break
        for m in range(7):
            trial[m] = min(max(numbers[m] + step[m], box[m, 0]), box[m, 1])
        after = place_error(anatomy, task, trial, bench, r)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-16 * size * size)
            for m in range(7):
                numbers[m] = trial[m]
        else:
            damping *= 6.0
            place_error(anatomy, task, numbers, bench, r)
    return error


@kernel
def turn_error(anatomy, spin, numbers, phi, bench, r):
    """Write r (3,), the rotation vector from the last body to its goal, and bench.axes (4, 3): of phi, of the last joint."""
    spun(spin, math.cos(phi), math.sin(phi), bench.rotation)
    axes = bench.axes
    n = bench.circle[0]
    out = bench.body[1]
    last = bench.breaks[0:9]  # free by now
    ball_rotation(anatomy, 1, numbers, 4, last, axes[1:4])
    for m in range(1, 4):
        p, q, w = turned(bench.forearm, axes[m, 0], axes[m, 1], axes[m, 2])
        axes[m, 0], axes[m, 1], axes[m, 2] = turned(bench.rotation, p, q, w)
    axes[0, 0], axes[0, 1], axes[0, 2] = n[0], n[1], n[2]
    # the goal frame times the transpose of ours: trace and skew part
    trace, goal = 0.0, bench.goal
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    for column in range(3):
        p, q, w = turned(bench.forearm, last[column], last[3 + column], last[6 + column])
        x, y, z = turned(bench.rotation, p, q, w)
        a, b, c = goal[3 + column], goal[6 + column], goal[9 + column]
        trace += a * x + b * y + c * z
        out[0] += y * c - z * b  # ours x goal
        out[1] += z * a - x * c
        out[2] += x * b - y * a
    s = math.sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2])
    angle = math.atan2(s, trace - 1.0)
    factor = angle / s if s > 1e-12 else 0.5
    r[0], r[1], r[2] = out[0] * factor, out[1] * factor, out[2] * factor
    return angle


@kernel
def orient(anatomy, branch, low, high, phi, numbers, bench):
    """Turn the swivel angle in [low, high] and numbers[4:7] in their limits towards the goal's orientation.

    Return the angle that is left and the swivel angle. bench.forearm must be that of the branch.
    """
    box, r, step, spin = anatomy.box, bench.body[0], bench.spare, bench.spin[2 * branch]
    limits = bench.ranges[RANGES - 4 : RANGES]  # free by now
    limits[0, 0], limits[0, 1] = low, high
    for m in range(3):
        limits[1 + m, 0], limits[1 + m, 1] = box[4 + m, 0], box[4 + m, 1]
    state, trial = bench.breaks[16:24], bench.breaks[32:40]
    state[0] = phi
    for m in range(3):
        state[1 + m] = numbers[4 + m]
    hold = bench.breaks[48:56]
    error = turn_error(anatomy, spin, numbers, phi, bench, r)
    damping = 1e-4
    for _ in range(STEPS):
        if error < 1e-14 or damping > 1e10:
            break
        if damped_step(bench.axes, 4, state, limits, 0, r, damping, step) < 1e-12:
            break
        for m in range(4):
            trial[m] = min(max(state[m] + step[m], limits[m, 0]), limits[m, 1])
        for m in range(3):
            hold[4 + m] = trial[1 + m]
        after = turn_error(anatomy, spin, hold, trial[0], bench, r)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-14)
            for m in range(4):
                state[m] = trial[m]
        else:
            damping *= 6.0
            for m in range(3):
                hold[4 + m] = state[1 + m]
            turn_error(anatomy, spin, hold, state[0], bench, r)
    for m in range(3):
        numbers[4 + m] = state[1 + m]
    return error, state[0]
