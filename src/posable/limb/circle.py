"""The bend of the elbow, and the circle on which it can then swivel (Tolani et al. 2000, 3.2.1 to 3.2.3).

Everything is in the rest frame of the first joint, with that joint at the origin. Every task uses the same kernels.
They differ only in the tip, the point of the middle body that has to come to the goal: the last joint, the site with
the last joint fixed, or the point where the line of an aim meets its target.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.limb.ball_ik import INFEASIBLE, into_limits, slack_in
from posable.limb.srs_chain import BACK, BOX, LOWER_TURN, TOOL, TOOL_TURN, UPPER, UPPER_TURN

REACHED, TOO_FAR, TOO_NEAR, NO_SWIVEL, BLOCKED = 0, 1, 2, 3, 4  # statuses of a solve
POSE, POSITION = 0, 1  # the tasks
CLOSE = 1e-11  # [limb lengths] error at which a bend still counts as exact

BREAKS, RANGES = 384, 192  # capacity for swivel angles where a limit begins or ends, and for ranges between them

# The scratch memory of one solve. Branch 0 bends the middle joint by +, branch 1 by -, from the straight limb.
GOAL = 0  # 3 [m] + 9: where the tip must be; the frame (by rows) that the last body must have
NORMAL, U, V = 12, 15, 18  # 3 each: the frame of the elbow circle
TOWARDS, ELBOW, ACROSS = 21, 24, 27  # 3 each, in the first body: what n, the elbow's direction and n x elbow must meet
TIP = 30  # 3 [m]: from the middle joint to the tip, in the middle body
SPIN = 33  # (2 branches, 2 ball joints, 27): rotation of a ball joint by swivel angle: cos, sin and 1 parts
BEND = 141  # 2 [rad]: the middle joint's angle in each branch
BEND_SLACK = 143  # 2 [rad]: its distance inside its limits; INFEASIBLE if the branch is not used
FOREARM = 145  # 9: the last joint's rest frame in the first body
ROTATION = 154  # 9
SPARE = 163  # 9
TRIAL, BEST, START, KEEP = 172, 180, 188, 196  # 8 each [rad]: the seven values
AXES = 204  # (7, 3)
LIMITS = 225  # (7, 2) [rad]
STATE = 239  # 8
STEP = 247  # 8
PARTS = 255  # 27: like one of SPIN
RESIDUAL = 282  # 3
MISS = 285  # 3
CUTS = 288  # (BREAKS,) [rad]: the sorted swivel angles where a limit may begin or end
TAGS = CUTS + BREAKS  # (BREAKS,): 2 number + side of the limit met there, -1 for none
INSIDE = TAGS + BREAKS  # (BREAKS,): 1 where the stretch after a cut holds the limits
SPANS = INSIDE + BREAKS  # (RANGES, 4): from, to [rad], and the tags at both ends
EXTRA = SPANS + 4 * RANGES  # 384: of the searches over a spin or a bend, see `partial`, `nearest_partial` and `aim`
SCRATCH = EXTRA + 384


@kernel
def set_goal(limb, root, target, task, w):
    """Write GOAL from a target (12,) in the world; root (12,): the first joint's rest frame in the world."""
    x, y, z = target[0] - root[0], target[1] - root[1], target[2] - root[2]
    for m in range(3):
        w[GOAL + m] = root[3 + m] * x + root[6 + m] * y + root[9 + m] * z
    if task == POSITION:
        return
    for row in range(3):  # root' R_target R_e'
        a = root[3 + row] * target[3] + root[6 + row] * target[6] + root[9 + row] * target[9]
        b = root[3 + row] * target[4] + root[6 + row] * target[7] + root[9 + row] * target[10]
        c = root[3 + row] * target[5] + root[6 + row] * target[8] + root[9 + row] * target[11]
        for m in range(3):
            e = TOOL_TURN + 3 * m
            w[GOAL + 3 + 3 * row + m] = a * limb[e] + b * limb[e + 1] + c * limb[e + 2]
    for row in range(3):
        for m in range(3):
            w[GOAL + row] -= w[GOAL + 3 + 3 * row + m] * limb[TOOL + m]


@kernel
def length_at(w, at):
    """Return the length of the vector w[at:]."""
    return math.sqrt(w[at] * w[at] + w[at + 1] * w[at + 1] + w[at + 2] * w[at + 2])


@kernel
def orthonormalize(w, u, n):
    """Make w[u:] a unit vector orthogonal to the unit vector w[n:]; return the length of its orthogonal part."""
    size = 0.0
    for again in range(2):  # twice: once leaves rounding errors if u is nearly parallel to n
        along = w[u] * w[n] + w[u + 1] * w[n + 1] + w[u + 2] * w[n + 2]
        for m in range(3):
            w[u + m] -= along * w[n + m]
        length = length_at(w, u)
        if again == 0:
            size = length
        if length < 1e-30:
            return 0.0
        for m in range(3):
            w[u + m] /= length
    return size


@kernel
def cross(w, a, b, out):
    """Write w[a:] x w[b:] to w[out:]."""
    w[out] = w[a + 1] * w[b + 2] - w[a + 2] * w[b + 1]
    w[out + 1] = w[a + 2] * w[b] - w[a] * w[b + 2]
    w[out + 2] = w[a] * w[b + 1] - w[a + 1] * w[b]


@kernel
def circle_frame(root, reference, w):
    """Write n, u, v: n towards the goal, u the world's reference direction made orthogonal to it; return |goal|.

    If the reference is parallel to n, the second one, reference[3:6], replaces it. If the goal is at the first joint,
    n is arbitrary.
    """
    distance = length_at(w, GOAL)
    for m in range(3):
        if distance > 1e-300:
            w[NORMAL + m] = w[GOAL + m] / distance
        else:
            w[NORMAL + m] = root[3 + m] * reference[3] + root[6 + m] * reference[4] + root[9 + m] * reference[5]
    for choice in range(2):
        rx, ry, rz = reference[3 * choice], reference[3 * choice + 1], reference[3 * choice + 2]
        for m in range(3):
            w[U + m] = root[3 + m] * rx + root[6 + m] * ry + root[9 + m] * rz
        if orthonormalize(w, U, NORMAL) > 1e-7:
            break
    cross(w, NORMAL, U, V)
    return distance


@kernel
def reach_interval(limb, shape, w):
    """Return (straight, near, far): the angle at full stretch, and the least and greatest distance of the tip.

    Equation (5) is a cos + b sin = c about any axis. The distance from the first joint is least where the parts of both
    bones orthogonal to the axis are folded back, and greatest where they are stretched out: near^2 = along^2 +
    (|a| - |b|)^2, far^2 = along^2 + (|a| + |b|)^2; in between, distance^2 = near^2 + (far^2 - near^2)
    cos^2((theta - straight) / 2).
    """
    k = shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    au, av, bu, bv = limb[BACK + u], limb[BACK + v], w[TIP + u], w[TIP + v]
    along = limb[BACK + k] + w[TIP + k]
    a, b = math.sqrt(au * au + av * av), math.sqrt(bu * bu + bv * bv)
    straight = math.atan2(av * bu - au * bv, au * bu + av * bv)
    return straight, math.sqrt(along * along + (a - b) * (a - b)), math.sqrt(along * along + (a + b) * (a + b))


@kernel
def reach_at(theta, straight, near, far):
    """Return the distance of the tip from the first joint at an angle of the middle joint."""
    c = math.cos(0.5 * (theta - straight))
    return math.sqrt(near * near + (far - near) * (far + near) * c * c)


@kernel
def solve_bend(limb, shape, distance, limited, w):
    """Write BEND and BEND_SLACK of both branches; return REACHED, TOO_FAR or TOO_NEAR.

    The half-angle form of equation (5) is accurate at full stretch, folded, and at the first joint. Out of reach, the
    angle that brings the tip nearest is written.
    """
    low, high = limb[BOX + 6], limb[BOX + 7]
    straight, near, far = reach_interval(limb, shape, w)
    close = CLOSE * far
    short = math.sqrt(max(0.0, (far - distance) * (far + distance)))
    wide = math.sqrt(max(0.0, (distance - near) * (distance + near)))
    fold = 2.0 * math.atan2(short, wide)
    side = fold
    for branch in range(2):
        theta = into_limits(straight + side, low, high)
        w[BEND + branch] = theta
        w[BEND_SLACK + branch] = slack_in(theta, low, high)
        side = -fold
    status = REACHED
    if distance > far + close:
        status = TOO_FAR
    elif distance < near - close:
        status = TOO_NEAR
    if limited:
        if w[BEND_SLACK] < 0.0 and w[BEND_SLACK + 1] < 0.0:
            for branch in range(2):  # outside by rounding, of which full stretch takes the square root
                clipped = min(max(w[BEND + branch], low), high)
                off = abs(reach_at(clipped, straight, near, far) - min(max(distance, near), far))
                w[BEND + branch] = clipped
                w[BEND_SLACK + branch] = 0.0 if off <= close else INFEASIBLE
            if w[BEND_SLACK] < 0.0 and w[BEND_SLACK + 1] < 0.0:
                return nearest_bend(distance, straight, near, far, low, high, w)
        for branch in range(2):
            if w[BEND_SLACK + branch] < 0.0:
                w[BEND_SLACK + branch] = INFEASIBLE
    if fold == 0.0:
        drop_infeasible_branch(straight, low, high, w)
    return status


@kernel
def drop_infeasible_branch(straight, low, high, w):
    """At full stretch, where both branches meet, keep the one that can bend, so the elbow cannot jump."""
    plus = slack_in(into_limits(straight + 1e-6, low, high), low, high) >= 0.0
    minus = slack_in(into_limits(straight - 1e-6, low, high), low, high) >= 0.0
    if plus and not minus:
        w[BEND_SLACK + 1] = INFEASIBLE
    elif minus and not plus:
        w[BEND_SLACK] = INFEASIBLE


@kernel
def nearest_bend(distance, straight, near, far, low, high, w):
    """Write the angle within the limits whose reach is closest to the distance; return TOO_FAR or TOO_NEAR."""
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
    side = math.sin(choice - straight)
    branch = 0 if side > 0.0 else 1
    if abs(side) < 1e-12:
        branch = 0 if high - choice > choice - low else 1
    for m in range(2):
        w[BEND + m] = choice
        w[BEND_SLACK + m] = INFEASIBLE
    w[BEND_SLACK + branch] = max(slack_in(choice, low, high), 0.0)
    return TOO_FAR if distance > reach else TOO_NEAR


@kernel
def forearm_frame(limb, shape, theta, w):
    """Write the last joint's rest frame in the first body: R_a R_y R_b of equation (3)."""
    k = shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    s, c = math.sin(theta), math.cos(theta)
    b = LOWER_TURN
    for row in range(3):
        a = UPPER_TURN + 3 * row
        p, q, z = limb[a + u], limb[a + v], limb[a + k]
        x, y = c * p + s * q, c * q - s * p
        for m in range(3):
            w[FOREARM + 3 * row + m] = x * limb[b + 3 * u + m] + y * limb[b + 3 * v + m] + z * limb[b + 3 * k + m]


@kernel
def triangle_frame(limb, shape, branch, w):
    """Write TOWARDS, ELBOW, ACROSS, the frame of the triangle first joint, elbow, tip in the first body.

    A straight limb has no triangle and a folded one no direction: the limit from within the branch is used instead.
    """
    k = shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    theta = w[BEND + branch]
    s, c = math.sin(theta), math.cos(theta)
    tu, tv, tk = c * w[TIP + u] - s * w[TIP + v], s * w[TIP + u] + c * w[TIP + v], w[TIP + k]
    for row in range(3):
        o = UPPER_TURN + 3 * row
        w[TOWARDS + row] = limb[UPPER + row] + limb[o + u] * tu + limb[o + v] * tv + limb[o + k] * tk
        w[ELBOW + row] = limb[UPPER + row]
        w[ACROSS + row] = limb[o + k]  # the hinge's axis, for now
    upper = length_at(w, ELBOW)
    distance = length_at(w, TOWARDS)
    side = -1.0 if branch == 0 else 1.0
    if distance > 1e-15 * upper:
        for m in range(3):
            w[TOWARDS + m] /= distance
    else:
        cross(w, ACROSS, ELBOW, TOWARDS)
        length = length_at(w, TOWARDS)
        for m in range(3):
            w[TOWARDS + m] *= side / length
    if orthonormalize(w, ELBOW, TOWARDS) <= 1e-9 * upper:
        cross(w, ACROSS, TOWARDS, ELBOW)
        for m in range(3):
            w[ELBOW + m] *= side
        orthonormalize(w, ELBOW, TOWARDS)
    cross(w, TOWARDS, ELBOW, ACROSS)


@kernel
def tip_along_axis(limb, shape, theta, w):
    """Return the component of the tip along the unit vector MISS of the middle body at a bend."""
    k = shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    s, c = math.sin(theta), math.cos(theta)
    du, dv, dk = w[MISS + u], w[MISS + v], w[MISS + k]
    back = (c * du - s * dv) * limb[BACK + u] + (s * du + c * dv) * limb[BACK + v] + dk * limb[BACK + k]
    return back + du * w[TIP + u] + dv * w[TIP + v] + dk * w[TIP + k]


@kernel
def swivel_parts(w, out, towards, n, sense):
    """Write R(phi) = n t' + cos (u e' + v a') + sense sin (v e' - u a') as three matrices to w[out:].

    t, e, a (towards, elbow, across) stand at w[towards:], n, u, v at w[n:].
    """
    for i in range(3):
        for j in range(3):
            m = out + 3 * i + j
            e, a = w[towards + 3 + j], w[towards + 6 + j]
            u, v = w[n + 3 + i], w[n + 6 + i]
            w[m] = u * e + v * a
            w[m + 9] = sense * (v * e - u * a)
            w[m + 18] = w[n + i] * w[towards + j]


@kernel
def swivel_branch(limb, shape, branch, task, w):
    """Write the rotations of both ball joints by swivel angle: equation (7), and R_2 = (R_1 R_a R_y R_b)' R_g."""
    triangle_frame(limb, shape, branch, w)
    spin = SPIN + 54 * branch
    swivel_parts(w, spin, TOWARDS, NORMAL, 1.0)
    if task == POSITION:
        return
    forearm_frame(limb, shape, w[BEND + branch], w)
    for row in range(3):
        x, y, z = w[TOWARDS + 3 * row], w[TOWARDS + 3 * row + 1], w[TOWARDS + 3 * row + 2]
        p, q, r = w[NORMAL + 3 * row], w[NORMAL + 3 * row + 1], w[NORMAL + 3 * row + 2]
        for m in range(3):
            w[AXES + 3 * row + m] = w[FOREARM + m] * x + w[FOREARM + 3 + m] * y + w[FOREARM + 6 + m] * z
            w[AXES + 9 + 3 * row + m] = w[GOAL + 3 + m] * p + w[GOAL + 6 + m] * q + w[GOAL + 9 + m] * r
    swivel_parts(w, spin + 27, AXES + 9, AXES, -1.0)


@kernel
def rotation_at(w, spin, phi_cos, phi_sin, out):
    """Write the rotation at a swivel angle, from its parts w[spin:], to w[out:]."""
    for m in range(9):
        w[out + m] = phi_cos * w[spin + m] + phi_sin * w[spin + 9 + m] + w[spin + 18 + m]
