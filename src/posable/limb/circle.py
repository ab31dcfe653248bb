"""The elbow: how far it must bend, and the circle on which it is then free to swivel (seed 003, 3.2.1 to 3.2.3).

Everything is in the first joint's rest frame, with that joint at the origin. The same kernels serve every task: what
differs is only the tip, the point of the middle body that has to come to the goal's place: the last joint, the site with
the last joint held, or the point where the aiming line meets its target.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posable.kernels.compiler import kernel

from .anatomy import BACK, LOWER_TURN, TOOL, TOOL_TURN, UPPER, UPPER_TURN
from .balls import NEVER, into_limits, slack_in

REACHED, TOO_FAR, TOO_NEAR, NO_SWIVEL, BLOCKED = 0, 1, 2, 3, 4  # the outcomes of a solve
POSE, POSITION = 0, 1  # the tasks
CLOSE = 1e-11  # how far from exact, in limb lengths, a bend still counts as exact

BREAKS, RANGES = 384, 192  # room for the swivel angles where a limit begins or ends, and for the ranges between them


class Bench(NamedTuple):
    """Scratch memory of one solve. (n, u, v) is the frame of the elbow circle; branch 0 bends by +, branch 1 by -."""

    goal: np.ndarray  # (12,) [m, 1]: where the tip must be; the frame (by rows) that the last body must have
    circle: np.ndarray  # (3, 3): n, u, v
    body: np.ndarray  # (3, 3): towards the tip, towards the elbow, across: what n, the elbow and n x elbow must meet
    tip: np.ndarray  # (3,) [m]: from the middle joint to the tip, in the middle body
    spin: np.ndarray  # (4, 27): rotation of ball joint `ball` in `branch`, row 2 branch + ball: cos, sin and 1 parts
    bend: np.ndarray  # (2,) [rad]: the middle joint's angle in each branch
    slack: np.ndarray  # (2,) [rad]: and how far it is inside its limits; NEVER where the branch is not to be used
    forearm: np.ndarray  # (9,): the last joint's rest frame in the first body
    rotation: np.ndarray  # (9,)
    spare: np.ndarray  # (9,)
    trial: np.ndarray  # (8,) [rad]
    best: np.ndarray  # (8,) [rad]
    start: np.ndarray  # (8,) [rad]
    keep: np.ndarray  # (8,) [rad]
    axes: np.ndarray  # (7, 3)
    breaks: np.ndarray  # (BREAKS,) [rad]
    tags: np.ndarray  # (BREAKS,): 2 number + side of the limit met at each break, -1 for none
    inside: np.ndarray  # (BREAKS,): 1 where the stretch after a break holds the limits
    ranges: np.ndarray  # (RANGES, 4): from, to [rad], and the tags at both ends


BENCH_SIZE = 12 + 9 + 9 + 3 + 108 + 2 + 2 + 9 + 9 + 9 + 4 * 8 + 21 + 3 * BREAKS + 4 * RANGES


@kernel
def lay_out(work):
    """Carve a `Bench` from one flat array of BENCH_SIZE numbers."""
    a = 225
    b = a + BREAKS
    c = b + BREAKS
    d = c + BREAKS
    return Bench(
        work[0:12], work[12:21].reshape(3, 3), work[21:30].reshape(3, 3), work[30:33], work[33:141].reshape(4, 27),
        work[141:143], work[143:145], work[145:154], work[154:163], work[163:172], work[172:180], work[180:188],
        work[188:196], work[196:204],
        work[204:225].reshape(7, 3), work[a:b], work[b:c], work[c:d], work[d : d + 4 * RANGES].reshape(RANGES, 4),
    )  # fmt: skip


@kernel
def bring_home(anatomy, root, target, task, bench):
    """Write bench.goal from a target (12,) in the world; root (12,) is the first joint's rest frame in the world."""
    goal = bench.goal
    x, y, z = target[0] - root[0], target[1] - root[1], target[2] - root[2]
    for m in range(3):
        goal[m] = root[3 + m] * x + root[6 + m] * y + root[9 + m] * z
    if task == POSITION:
        return
    for row in range(3):  # root' R_target R_e'
        a = root[3 + row] * target[3] + root[6 + row] * target[6] + root[9 + row] * target[9]
        b = root[3 + row] * target[4] + root[6 + row] * target[7] + root[9 + row] * target[10]
        c = root[3 + row] * target[5] + root[6 + row] * target[8] + root[9 + row] * target[11]
        for m in range(3):
            e = TOOL_TURN + 3 * m
            goal[3 + 3 * row + m] = a * anatomy.place[e] + b * anatomy.place[e + 1] + c * anatomy.place[e + 2]
    for row in range(3):
        for m in range(3):
            goal[row] -= goal[3 + 3 * row + m] * anatomy.place[TOOL + m]


@kernel
def draw_circle(root, reference, bench):
    """Write n, u, v: n towards the goal, u the reference direction (of the world) projected across it; return |goal|.

    Where the reference points along n its second choice, reference[3:6], takes its place; at the first joint itself
    any n will do.
    """
    n, u, v = bench.circle[0], bench.circle[1], bench.circle[2]
    x, y, z = bench.goal[0], bench.goal[1], bench.goal[2]
    distance = math.sqrt(x * x + y * y + z * z)
    if distance > 1e-300:
        n[0], n[1], n[2] = x / distance, y / distance, z / distance
    else:
        for m in range(3):
            n[m] = root[3 + m] * reference[3] + root[6 + m] * reference[4] + root[9 + m] * reference[5]
    for choice in range(2):
        rx, ry, rz = reference[3 * choice], reference[3 * choice + 1], reference[3 * choice + 2]
        for m in range(3):
            u[m] = root[3 + m] * rx + root[6 + m] * ry + root[9 + m] * rz
        if stand_across(u, n) > 1e-7:
            break
    cross(n, u, v)
    return distance


@kernel
def stand_across(u, n):
    """Make u, in place, a unit vector across the unit vector n; return how long its part across n was."""
    size = 0.0
    for again in range(2):  # twice: once leaves errors of rounding where u is nearly along n
        along = u[0] * n[0] + u[1] * n[1] + u[2] * n[2]
        for m in range(3):
            u[m] -= along * n[m]
        length = math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
        if again == 0:
            size = length
        if length < 1e-30:
            return 0.0
        for m in range(3):
            u[m] /= length
    return size


@kernel
def cross(a, b, out):
    """Write a x b."""
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@kernel
def reaches(anatomy, tip):
    """Return (straight, near, far): the angle that brings the tip farthest away, and its least and greatest distance.

    Equation (5) is a cos + b sin = c about any axis. The distance from the first joint is least and greatest where the
    parts of both bones across the axis lie folded back and stretched out: near^2 = along^2 + (|a| - |b|)^2, far^2 =
    along^2 + (|a| + |b|)^2; in between, distance^2 = near^2 + (far^2 - near^2) cos^2((theta - straight) / 2).
    """
    k = anatomy.shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    au, av, bu, bv = anatomy.place[BACK + u], anatomy.place[BACK + v], tip[u], tip[v]
    along = anatomy.place[BACK + k] + tip[k]
    a, b = math.hypot(au, av), math.hypot(bu, bv)
    straight = math.atan2(av * bu - au * bv, au * bu + av * bv)
    return straight, math.hypot(along, a - b), math.hypot(along, a + b)


@kernel
def reach_at(theta, straight, near, far):
    """Return the distance of the tip from the first joint at an angle of the middle one."""
    c = math.cos(0.5 * (theta - straight))
    return math.sqrt(near * near + (far - near) * (far + near) * c * c)


@kernel
def bend_to(anatomy, distance, limited, bench):
    """Write bench.bend and bench.slack of both branches; return REACHED, TOO_FAR or TOO_NEAR.

    The half-angle form of equation (5) keeps every digit at full stretch, folded, and at the first joint itself. Out of
    reach, the one angle is written that brings the tip nearest.
    """
    low, high = anatomy.box[3, 0], anatomy.box[3, 1]
    straight, near, far = reaches(anatomy, bench.tip)
    close = CLOSE * far
    short = math.sqrt(max(0.0, (far - distance) * (far + distance)))
    wide = math.sqrt(max(0.0, (distance - near) * (distance + near)))
    fold = 2.0 * math.atan2(short, wide)
    bend, slack = bench.bend, bench.slack
    for branch in range(2):
        bend[branch] = into_limits(straight + (fold if branch == 0 else -fold), low, high)
        slack[branch] = slack_in(bend[branch], low, high)
    status = REACHED
    if distance > far + close:
        status = TOO_FAR
    elif distance < near - close:
        status = TOO_NEAR
    if not limited:
        if fold == 0.0:
            prefer_a_side(straight, low, high, slack)
        return status
    if slack[0] < 0.0 and slack[1] < 0.0:
        for branch in range(2):  # a rounding error outside: full stretch asks for the square root of one
            clipped = min(max(bend[branch], low), high)
            off = abs(reach_at(clipped, straight, near, far) - min(max(distance, near), far))
            bend[branch], slack[branch] = clipped, (0.0 if off <= close else NEVER)
    if slack[0] < 0.0 and slack[1] < 0.0:
        return bend_nearest(distance, straight, near, far, low, high, bench)
    for branch in range(2):
        if slack[branch] < 0.0:
            slack[branch] = NEVER
    if fold == 0.0:
        prefer_a_side(straight, low, high, slack)
    return status


@kernel
def prefer_a_side(straight, low, high, slack):
    """At full stretch both branches meet: keep the one that the limits let bend, so that the elbow does not jump."""
    plus, minus = straight + 1e-6, straight - 1e-6
    inside_plus = slack_in(into_limits(plus, low, high), low, high) >= 0.0
    inside_minus = slack_in(into_limits(minus, low, high), low, high) >= 0.0
    if inside_plus and not inside_minus:
        slack[1] = NEVER
    elif inside_minus and not inside_plus:
        slack[0] = NEVER


@kernel
def bend_nearest(distance, straight, near, far, low, high, bench):
    """Write the angle inside the limits whose reach is nearest to the distance; return TOO_FAR or TOO_NEAR."""
    best, choice, reach = math.inf, 0.0, 0.0
    for trial in range(4):
        if trial < 2:
            theta = low if trial == 0 else high
        else:
            theta = into_limits(straight + (trial - 2) * math.pi, low, high)
        if not math.isfinite(theta) or slack_in(theta, low, high) < -1e-12:
            continue
        theta = min(max(theta, low), high)
        at = reach_at(theta, straight, near, far)
        if abs(at - distance) < best - CLOSE * far:
            best, choice, reach = abs(at - distance), theta, at
    branch = 0 if math.sin(choice - straight) > 0.0 else 1
    if abs(math.sin(choice - straight)) < 1e-12:
        branch = 0 if high - choice > choice - low else 1
    bench.bend[0], bench.bend[1] = choice, choice
    bench.slack[0], bench.slack[1] = NEVER, NEVER
    bench.slack[branch] = max(slack_in(choice, low, high), 0.0)
    return TOO_FAR if distance > reach else TOO_NEAR


@kernel
def carry_forearm(anatomy, theta, out):
    """Write the last joint's rest frame (9,) in the first body: R_a R_y R_b of equation (3)."""
    k = anatomy.shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    s, c = math.sin(theta), math.cos(theta)
    a, b = UPPER_TURN, LOWER_TURN
    place = anatomy.place
    for row in range(3):
        x, y, z = place[a + 3 * row + u], place[a + 3 * row + v], place[a + 3 * row + k]
        x, y = c * x + s * y, c * y - s * x
        for m in range(3):
            out[3 * row + m] = x * place[b + 3 * u + m] + y * place[b + 3 * v + m] + z * place[b + 3 * k + m]


@kernel
def stand_body(anatomy, branch, bench):
    """Write bench.body, the frame of the triangle first joint, elbow, tip in the first body; return the tip's distance.

    A straight limb has no triangle and a folded one no direction: their limits from within the branch take the place.
    """
    place, tip = anatomy.place, bench.tip
    k = anatomy.shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    theta = bench.bend[branch]
    s, c = math.sin(theta), math.cos(theta)
    tu, tv, tk = c * tip[u] - s * tip[v], s * tip[u] + c * tip[v], tip[k]
    w, r, q = bench.body[0], bench.body[1], bench.body[2]
    for row in range(3):
        o = UPPER_TURN + 3 * row
        w[row] = place[UPPER + row] + place[o + u] * tu + place[o + v] * tv + place[o + k] * tk
        r[row] = place[UPPER + row]
        q[row] = place[o + k]  # the hinge's axis
    upper = math.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
    distance = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    side = -1.0 if branch == 0 else 1.0
    if distance > 1e-15 * upper:
        for m in range(3):
            w[m] /= distance
    else:
        cross(q, r, w)
        length = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
        for m in range(3):
            w[m] *= side / length
    if stand_across(r, w) <= 1e-9 * upper:
        cross(q, w, r)
        for m in range(3):
            r[m] *= side
        stand_across(r, w)
    cross(w, r, q)
    return distance


@kernel
def spin_parts(bench, row, towards, elbow, across, n, u, v, sense):
    """Write R(phi) = n w' + cos (u r' + v q') + sense sin (v r' - u q') as three matrices, for (w, r, q) of a body."""
    out = bench.spin[row]
    for i in range(3):
        for j in range(3):
            m = 3 * i + j
            out[m] = u[i] * elbow[j] + v[i] * across[j]
            out[9 + m] = sense * (v[i] * elbow[j] - u[i] * across[j])
            out[18 + m] = n[i] * towards[j]


@kernel
def spin_branch(anatomy, branch, task, bench):
    """Write how both ball joints turn with the swivel angle: equation (7), and R_2 = (R_1 R_a R_y R_b)' R_g."""
    stand_body(anatomy, branch, bench)
    body, circle = bench.body, bench.circle
    spin_parts(bench, 2 * branch, body[0], body[1], body[2], circle[0], circle[1], circle[2], 1.0)
    if task == POSITION:
        return
    carry_forearm(anatomy, bench.bend[branch], bench.forearm)
    e, d = bench.forearm, bench.goal
    local, wanted = bench.axes[0:3], bench.axes[3:6]
    for row in range(3):
        x, y, z = body[row, 0], body[row, 1], body[row, 2]
        p, q, r = circle[row, 0], circle[row, 1], circle[row, 2]
        for m in range(3):
            local[row, m] = e[m] * x + e[3 + m] * y + e[6 + m] * z
            wanted[row, m] = d[3 + m] * p + d[6 + m] * q + d[9 + m] * r
    spin_parts(
        bench, 2 * branch + 1, wanted[0], wanted[1], wanted[2], local[0], local[1], local[2], -1.0
    )


@kernel
def spun(spin, c, s, out):
    """Write the rotation (9,) at a swivel angle with cosine c and sine s, from its parts (27,)."""
    for m in range(9):
        out[m] = c * spin[m] + s * spin[9 + m] + spin[18 + m]
