"""The bend of the elbow, the circle on which it can then swivel, and where on it the limits hold.

Tolani et al. 2000, 3.2.1 to 3.2.4.

Everything is in the rest frame of the first joint, with that joint at the origin. Every task uses the same kernels.
They differ only in the tip, the point of the middle body that has to come to the goal: the last joint, the site with
the last joint fixed, or the point where the line of an aim meets its target.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.limb.ball_ik import INFEASIBLE, NO_LIMIT, ball_holds, fit_ball, into_limits, slack_in
from posable.limb.srs_chain import (  # fmt: skip
    ARC,
    BACK,
    BALL,
    BOX,
    COS_LO,
    FULL,
    LOWER_TURN,
    PROPER,
    SENSE,
    SIN_LO,
    TAIT_BRYAN,
    TOOL,
    TOOL_TURN,
    UPPER,
    UPPER_TURN,
    VECTOR,
    XA,
    XC,
    YA,
    YC,
    F,
    I,
    J,
    K,
)

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
EXTRA = SPANS + 4 * RANGES  # 384: of the searches in `partial_orientation`, `nearest_partial` and `aim`
SCRATCH = EXTRA + 384


@kernel
def put_in_root(root, x, y, z, at, w):
    """Write a vector of the world to w[at:], in the rest frame root (12,) of the first joint."""
    for m in range(3):
        w[at + m] = root[3 + m] * x + root[6 + m] * y + root[9 + m] * z


@kernel
def set_goal(limb, root, target, task, w):
    """Write GOAL from a target (12,) in the world; root (12,): the first joint's rest frame in the world."""
    put_in_root(root, target[0] - root[0], target[1] - root[1], target[2] - root[2], GOAL, w)
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
    put_in_root(root, reference[3], reference[4], reference[5], NORMAL, w)
    for m in range(3):
        if distance > 1e-300:
            w[NORMAL + m] = w[GOAL + m] / distance
    for choice in range(2):
        put_in_root(root, reference[3 * choice], reference[3 * choice + 1], reference[3 * choice + 2], U, w)
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

    t, e, a (towards, elbow, across) are at w[towards:], n, u, v at w[n:].
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


# --- The ranges of swivel angles that respect every limit (Tolani et al. 2000, 3.2.4) ---
#
# The rotation of a ball joint is R(phi) = C cos(phi) + S sin(phi) + M. A limit of an Euler joint begins or ends only at
# the roots of a cos + b sin = c, two for each limit and the same for both families; the families swap only where the
# middle angle is singular. The roots of all twelve interval sets therefore cut the circle into stretches, and one test
# inside each stretch decides all of it; the union over families and the intersection over joints are part of the test.
#
# The limits of rotation vectors and swings are transcendental in phi and have no closed form. Their ends are bracketed
# in steps proportional to the slack, of at least FINEST, and refined to rounding; a range narrower than FINEST can be
# missed.

FINEST = 5e-4  # [rad]: steps of the search
SINGULAR_FINEST = 2e-5  # close to half a turn of a rotation vector or a swing
COARSEST = 0.05
POINT = 1e-12  # stretches shorter than this [rad] are points


@kernel
def add_break(w, count, phi, tag):
    """Insert a swivel angle, wrapped to [-pi, pi), in order; return the new count."""
    if count >= BREAKS:
        return count
    phi -= 2.0 * math.pi * math.floor((phi + math.pi) / (2.0 * math.pi))
    at = count
    while at > 0 and w[CUTS + at - 1] > phi:
        w[CUTS + at] = w[CUTS + at - 1]
        w[TAGS + at] = w[TAGS + at - 1]
        at -= 1
    w[CUTS + at] = phi
    w[TAGS + at] = tag
    return count + 1


@kernel
def add_roots(w, count, a, b, c, tag):
    """Insert the roots of a cos(phi) + b sin(phi) = c, also a double root; return the new count."""
    amplitude = math.sqrt(a * a + b * b)
    if abs(c) > amplitude + 1e-12 or amplitude < 1e-14:
        return count
    middle = math.atan2(b, a)
    half = math.atan2(math.sqrt(max(0.0, (amplitude - c) * (amplitude + c))), c)
    count = add_break(w, count, middle + half, tag)
    if half > 0.0:
        count = add_break(w, count, middle - half, tag)
    return count


@kernel
def add_crossings(w, count, p, q, y, x, tag):
    """Insert the swivel angles where p R[x] = q R[y], with the parts of R[y] and R[x] at w[y] and w[x]."""
    a, b = p * w[x] - q * w[y], p * w[x + 9] - q * w[y + 9]
    return add_roots(w, count, a, b, q * w[y + 18] - p * w[x + 18], tag)


@kernel
def add_outer(limb, w, count, spin, number, y, x, sense_y, sense_x):
    """Insert the angles where an outer Euler angle, atan2(R[y], R[x]) up to the family, meets its limits (eq. 8)."""
    arc = ARC + 8 * number
    if limb[arc + FULL] != 0.0:
        return count
    y, x = spin + y, spin + x
    for side in range(2):
        p, q = sense_x * limb[arc + SIN_LO + 2 * side], sense_y * limb[arc + COS_LO + 2 * side]
        count = add_crossings(w, count, p, q, y, x, 2 * number + side)
    return count


@kernel
def add_euler(limb, shape, ball, w, count, spin):
    """Insert every swivel angle where a limit of an Euler joint may begin or end."""
    e, arc, o = SENSE + 6 * ball, ARC + 32 * ball, 4 * ball
    ya, xa, f = shape[ball, YA], shape[ball, XA], spin + shape[ball, F]
    if limb[arc + FULL] != 0.0 and limb[arc + 8 + FULL] != 0.0 and limb[arc + 16 + FULL] != 0.0:
        return count
    size = 0.0
    for part in range(spin, spin + 27, 9):
        size = max(size, abs(w[part + ya]), abs(w[part + xa]))
    if size < 1e-9:  # singular at every swivel angle: only the sum of the outer angles is defined
        return add_locked(limb, shape, ball, w, count, spin)
    count = add_outer(limb, w, count, spin, o, ya, xa, limb[e + 1], limb[e + 2])
    count = add_outer(limb, w, count, spin, o + 2, shape[ball, YC], shape[ball, XC], limb[e + 3], limb[e + 4])
    a, b, m = limb[e] * w[f], limb[e] * w[f + 9], limb[e] * w[f + 18]
    if limb[arc + 8 + FULL] == 0.0:
        bound = arc + 8 + (SIN_LO if shape[ball, BALL] == TAIT_BRYAN else COS_LO)
        for side in range(2):
            count = add_roots(w, count, a, b, limb[bound + 2 * side] - m, 2 * (o + 1) + side)
    if abs(m) + math.sqrt(a * a + b * b) > 1.0 - 1e-9:  # the families meet
        middle = math.atan2(b, a)
        for side in range(2):
            count = add_break(w, count, middle + side * math.pi, -1)
    return count


@kernel
def add_locked(limb, shape, ball, w, count, spin):
    """Insert the angles where the sum or difference of the outer angles meets its limits, at a singular joint."""
    box = BOX + 8 * ball
    i, j, k = shape[ball, I], shape[ball, J], shape[ball, K]
    x, y = spin + 4 * j, spin + 3 * j + (3 - j - k)
    e = 1.0 if w[spin + 18 + 3 * i + k] > 0.0 else -1.0
    for side in range(2):
        bound = limb[box + side] + e * limb[box + 4 + (side if e > 0.0 else 1 - side)]
        if not math.isfinite(bound):
            continue
        p, q = math.sin(e * bound), limb[SENSE + 6 * ball + 5] * math.cos(e * bound)
        count = add_crossings(w, count, p, q, y, x, 8 * ball + side)
    return count


@kernel
def slack_at(limb, shape, ball, w, spin, family, phi):
    """Return the slack of a ball joint at a swivel angle; its values stay in w[TRIAL + 4:]."""
    rotation_at(w, spin, math.cos(phi), math.sin(phi), SPARE)
    return fit_ball(limb, shape, ball, w, SPARE, family, TRIAL + 4)


@kernel
def nearest_limit(limb, ball, w, at):
    """Return the tag of the limit nearest to a ball joint's values w[at:]."""
    best, tag = math.inf, -1
    for m in range(6):
        room = abs(w[at + m // 2] - limb[BOX + 8 * ball + m])
        if room < best:
            best, tag = room, 8 * ball + m
    return tag


@kernel
def safe_step(kind, slack, w, at):
    """Return a step of the swivel angle within which the slack of the joint w[at:] keeps its sign.

    A rotation vector of length m moves at most (m/2) / sin(m/2) times as fast as the rotation, a swing m / sin(m), its
    twist 1 / cos(m/2)^2. Close to these singular lengths the steps shrink with the distance from them.
    """
    x, y = w[at], w[at + 1]
    if kind == VECTOR:
        m = math.sqrt(x * x + y * y + w[at + 2] * w[at + 2])
        rate = 0.5 * m / max(abs(math.sin(0.5 * m)), 1e-3) if m > 1e-3 else 1.0
    else:
        m = math.sqrt(x * x + y * y)
        half = math.cos(0.5 * m)
        rate = max(m / max(abs(math.sin(m)), 1e-3) if m > 1e-3 else 1.0, 1.0 / max(half * half, 1e-3))
    room = min(abs(math.pi - m), abs(2.0 * math.pi - m))  # at pi the short way and the long way swap
    finest = FINEST if room > COARSEST else SINGULAR_FINEST
    return min(max(min(0.5 * slack / rate, 0.3 * room), finest), COARSEST)


@kernel
def add_searched(limb, shape, ball, w, count, spin):
    """Insert the ends of the ranges of a rotation-vector or swing-twist joint, found by search in each family."""
    limited = False
    for m in range(6):
        limited = limited or math.isfinite(limb[BOX + 8 * ball + m])
    if not limited:
        return count
    for family in range(2):
        phi, ahead = -math.pi, -math.pi
        slack = 0.0
        while phi < math.pi:
            then = slack_at(limb, shape, ball, w, spin, family, ahead)
            if ahead > phi and (slack < 0.0) != (then < 0.0):
                root = refine_end(limb, shape, ball, w, spin, family, phi, slack, ahead, then)
                slack_at(limb, shape, ball, w, spin, family, root)
                count = add_break(w, count, root, nearest_limit(limb, ball, w, TRIAL + 4))
            phi, slack = ahead, then
            ahead = min(phi + safe_step(shape[ball, BALL], abs(slack), w, TRIAL + 4), math.pi)
    return count


@kernel
def refine_end(limb, shape, ball, w, spin, family, a, at_a, b, at_b):
    """Return where the slack changes sign between a and b, to rounding: secant steps with bisection as a safeguard."""
    for step in range(80):
        if b - a < 1e-14 or at_a == 0.0:
            break
        middle = 0.5 * (a + b)
        if step % 3 != 2 and abs(at_a) < 1.0 and abs(at_b) < 1.0:
            secant = a + (b - a) * at_a / (at_a - at_b)
            inside = (1e-3 if step % 3 == 0 else 1e-6) * (b - a)
            middle = min(max(secant, a + inside), b - inside)
        value = slack_at(limb, shape, ball, w, spin, family, middle)
        if (value < 0.0) == (at_a < 0.0):
            a, at_a = middle, value
        else:
            b, at_b = middle, value
    return a if at_a >= 0.0 else b


@kernel
def holds_at(limb, shape, balls, w, phi):
    """Return whether some branch and family respects the limits of the first joint (balls 1) or of both (2)."""
    c, s = math.cos(phi), math.sin(phi)
    for branch in range(2):
        good = w[BEND_SLACK + branch] >= 0.0
        for ball in range(balls):
            if good:
                rotation_at(w, SPIN + 54 * branch + 27 * ball, c, s, ROTATION)
                good = ball_holds(limb, shape, ball, w, ROTATION, TRIAL)
        if good:
            return True
    return False


@kernel
def slack_near(limb, shape, balls, w, phi):
    """Return the best slack of the ball joints at a swivel angle over branches and families."""
    best = INFEASIBLE
    c, s = math.cos(phi), math.sin(phi)
    for branch in range(2):
        if w[BEND_SLACK + branch] < 0.0:
            continue
        slack = NO_LIMIT
        for ball in range(balls):
            rotation_at(w, SPIN + 54 * branch + 27 * ball, c, s, ROTATION)
            here = INFEASIBLE
            for family in range(2):
                here = max(here, fit_ball(limb, shape, ball, w, ROTATION, family, TRIAL))
            slack = min(slack, here)
        best = max(best, slack)
    return best


@kernel
def find_ranges(limb, shape, balls, w):
    """Write SPANS, every range of swivel angles that respects the limits of `balls` ball joints; return their count."""
    count = 0
    for branch in range(2):
        for ball in range(balls):
            spin = SPIN + 54 * branch + 27 * ball
            if w[BEND_SLACK + branch] < 0.0:
                continue
            if shape[ball, BALL] <= PROPER:
                count = add_euler(limb, shape, ball, w, count, spin)
            else:
                count = add_searched(limb, shape, ball, w, count, spin)
    if count == 0:
        count = add_break(w, count, -math.pi, -1)
    first = -1
    for at in range(count):
        start = w[CUTS + at]
        end = w[CUTS + at + 1] if at + 1 < count else w[CUTS] + 2.0 * math.pi
        if end - start < POINT:
            w[INSIDE + at] = -1.0  # as the stretch before it
            continue
        w[INSIDE + at] = 1.0 if holds_at(limb, shape, balls, w, 0.5 * (start + end)) else 0.0
        if first < 0 and w[INSIDE + at] == 0.0:
            first = at
    if first < 0:
        return put_range(w, 0, -math.pi, math.pi, -1.0, -1.0)
    return join_stretches(limb, shape, balls, w, count, first)


@kernel
def join_stretches(limb, shape, balls, w, count, first):
    """Join adjacent stretches within the limits, around the circle from one outside them; return the count."""
    found, begin, before = 0, -1, 0.0
    for step in range(1, count + 1):
        at = (first + step) % count
        now = w[INSIDE + at] if w[INSIDE + at] >= 0.0 else before
        if now == 1.0 and before == 0.0:
            begin = at
        elif now == 0.0 and before == 1.0:
            low, high = w[CUTS + begin], w[CUTS + at]
            if high < low:
                high += 2.0 * math.pi
            found = put_range(w, found, low, high, w[TAGS + begin], w[TAGS + at])
        before = now
    if found == 0:  # perhaps a single angle: a joint whose limits coincide, a pose in a corner of its limits
        for at in range(count):
            if slack_near(limb, shape, balls, w, w[CUTS + at]) >= -1e-11:
                found = put_range(w, found, w[CUTS + at], w[CUTS + at], w[TAGS + at], w[TAGS + at])
    return found


@kernel
def put_range(w, count, low, high, tag_low, tag_high):
    """Append a range; return the new count."""
    if count >= RANGES:
        return count
    o = SPANS + 4 * count
    w[o], w[o + 1], w[o + 2], w[o + 3] = low, high, tag_low, tag_high
    return count + 1


@kernel
def nearest_in_ranges(w, first, stride, count, wanted):
    """Return the angle within ranges (low, high) at w[first + stride r] nearest to a wanted one; for NaN, the middle
    of the widest range.
    """
    best, choice = -math.inf, 0.0
    for r in range(count):
        low, high = w[first + stride * r], w[first + stride * r + 1]
        if math.isnan(wanted):
            score, angle = high - low, 0.5 * (low + high)
        else:
            after = wanted - low - 2.0 * math.pi * math.floor((wanted - low) / (2.0 * math.pi))
            if after <= high - low:
                score, angle = 0.0, wanted
            elif after - (high - low) < 2.0 * math.pi - after:
                score, angle = (high - low) - after, high
            else:
                score, angle = after - 2.0 * math.pi, low
        if score > best:
            best, choice = score, angle
    return choice
