"""The ranges of swivel angles that respect every limit (Tolani et al. 2000, 3.2.4).

The rotation of a ball joint is R(phi) = C cos(phi) + S sin(phi) + M. A limit of an Euler joint begins or ends only at
the roots of a cos + b sin = c, two for each limit and the same for both families; the families swap only where the
middle angle is singular. The roots of all twelve interval sets therefore cut the circle into stretches, and one test
inside each stretch decides all of it; the union over families and the intersection over joints are part of the test.

The limits of rotation vectors and swings are transcendental in phi and have no closed form. Their ends are bracketed in
steps proportional to the slack, of at least FINEST, and refined to rounding; a range narrower than FINEST can be
missed.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.limb.ball_ik import INFEASIBLE, NO_LIMIT, ball_holds, fit_ball
from posable.limb.circle import (
    BEND_SLACK,
    BREAKS,
    CUTS,
    INSIDE,
    RANGES,
    ROTATION,
    SPANS,
    SPARE,
    SPIN,
    TAGS,
    TRIAL,
    rotation_at,
)
from posable.limb.srs_chain import (  # fmt: skip
    ARC,
    BALL,
    BOX,
    COS_LO,
    FULL,
    PROPER,
    SENSE,
    SIN_LO,
    TAIT_BRYAN,
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
def add_outer(limb, w, count, spin, number, y, x, sense_y, sense_x):
    """Insert the angles where an outer Euler angle, atan2(R[y], R[x]) up to the family, meets its limits (eq. 8)."""
    arc = ARC + 8 * number
    if limb[arc + FULL] != 0.0:
        return count
    y, x = spin + y, spin + x
    for side in range(2):
        p, q = sense_x * limb[arc + SIN_LO + 2 * side], sense_y * limb[arc + COS_LO + 2 * side]
        a, b = p * w[x] - q * w[y], p * w[x + 9] - q * w[y + 9]
        count = add_roots(w, count, a, b, q * w[y + 18] - p * w[x + 18], 2 * number + side)
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
        a, b = p * w[x] - q * w[y], p * w[x + 9] - q * w[y + 9]
        count = add_roots(w, count, a, b, q * w[y + 18] - p * w[x + 18], 8 * ball + side)
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
                root = refine(limb, shape, ball, w, spin, family, phi, slack, ahead, then)
                slack_at(limb, shape, ball, w, spin, family, root)
                count = add_break(w, count, root, nearest_limit(limb, ball, w, TRIAL + 4))
            phi, slack = ahead, then
            ahead = min(phi + safe_step(shape[ball, BALL], abs(slack), w, TRIAL + 4), math.pi)
    return count


@kernel
def refine(limb, shape, ball, w, spin, family, a, at_a, b, at_b):
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
def pick_swivel(w, count, wanted):
    """Return the swivel angle within the ranges nearest to a wanted one; for NaN, the middle of the widest range."""
    return nearest_in_ranges(w, SPANS, 4, count, wanted)


@kernel
def nearest_in_ranges(w, first, stride, count, wanted):
    """Return the angle within ranges (low, high) at w[first + stride r] nearest to a wanted one; NaN as above."""
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
