"""The swivel angles that hold every limit (seed 003, 3.2.4).

A ball joint's rotation is R(phi) = C cos(phi) + S sin(phi) + M. A limit of an Euler joint begins or ends only at the
roots of one equation a cos + b sin = c, two for each limit, the same for both families; families change hands only where
the middle angle reaches its singular value. So the roots of all twelve interval sets cut the circle into stretches, and
one test inside each stretch says whether all of it holds the limits: the union over families and the intersection over
joints are in the test.

The limits of rotation vectors and of swings are transcendental in phi: no closed form exists. Their ends are bracketed by
steps in proportion to the slack, of at least FINEST, and then refined to rounding: a range narrower than FINEST can be missed.
"""

from __future__ import annotations

import math

from posable.kernels.compiler import kernel

from .anatomy import (
    BALL, COS_HI, COS_LO, FULL, PROPER, SIN_HI, SIN_LO, TAIT_BRYAN, XA, XC, YA, YC, F, I, J, K,
)  # fmt: skip
from .balls import NEVER, NO_LIMIT, ball_holds, fit_ball
from .circle import BREAKS, RANGES, spun

FINEST = 1e-3
COARSEST = 0.04
POINT = 1e-12  # stretches shorter than this [rad] are points


@kernel
def add_break(bench, count, phi, tag):
    """Enter a swivel angle, wrapped to [-pi, pi), in its sorted place; return the new count."""
    if count >= BREAKS:
        return count
    phi -= 2.0 * math.pi * math.floor((phi + math.pi) / (2.0 * math.pi))
    at = count
    while at > 0 and bench.breaks[at - 1] > phi:
        bench.breaks[at] = bench.breaks[at - 1]
        bench.tags[at] = bench.tags[at - 1]
        at -= 1
    bench.breaks[at] = phi
    bench.tags[at] = tag
    return count + 1


@kernel
def add_roots(bench, count, a, b, c, tag):
    """Enter the roots of a cos(phi) + b sin(phi) = c; one that just touches counts. Return the new count."""
    amplitude = math.hypot(a, b)
    if abs(c) > amplitude + 1e-12 or amplitude < 1e-14:
        return count
    middle = math.atan2(b, a)
    half = math.atan2(math.sqrt(max(0.0, (amplitude - c) * (amplitude + c))), c)
    count = add_break(bench, count, middle + half, tag)
    if half > 0.0:
        count = add_break(bench, count, middle - half, tag)
    return count


@kernel
def add_outer(anatomy, bench, count, spin, number, y, x, sense_y, sense_x):
    """Enter where an outer Euler angle, atan2(R[y], R[x]) up to the family, meets its limits (equation (8))."""
    arc = anatomy.arc
    if arc[number, FULL] != 0.0:
        return count
    for side in range(2):
        s = arc[number, SIN_LO] if side == 0 else arc[number, SIN_HI]
        c = arc[number, COS_LO] if side == 0 else arc[number, COS_HI]
        p, q = sense_x * s, sense_y * c
        count = add_roots(
            bench,
            count,
            p * spin[x] - q * spin[y],
            p * spin[9 + x] - q * spin[9 + y],
            q * spin[18 + y] - p * spin[18 + x],
            2 * number + side,
        )
    return count


@kernel
def add_euler(anatomy, bench, count, spin, ball):
    """Enter every swivel angle where a limit of an Euler joint may begin or end."""
    shape, sense, arc, o = anatomy.shape, anatomy.sense, anatomy.arc, 4 * ball
    ya, xa, f = shape[ball, YA], shape[ball, XA], shape[ball, F]
    if arc[o, FULL] != 0.0 and arc[o + 1, FULL] != 0.0 and arc[o + 2, FULL] != 0.0:
        return count
    size = 0.0
    for part in (0, 9, 18):
        size = max(size, abs(spin[part + ya]), abs(spin[part + xa]))
    if size < 1e-9:  # singular at every swivel angle: the sum of the outer angles is all there is
        return add_locked(anatomy, bench, count, spin, ball)
    count = add_outer(anatomy, bench, count, spin, o, ya, xa, sense[ball, 1], sense[ball, 2])
    count = add_outer(anatomy, bench, count, spin, o + 2, shape[ball, YC], shape[ball, XC], sense[ball, 3], sense[ball, 4])
    a, b, m = sense[ball, 0] * spin[f], sense[ball, 0] * spin[9 + f], sense[ball, 0] * spin[18 + f]
    if arc[o + 1, FULL] == 0.0:
        low, high = (SIN_LO, SIN_HI) if shape[ball, BALL] == TAIT_BRYAN else (COS_LO, COS_HI)
        count = add_roots(bench, count, a, b, arc[o + 1, low] - m, 2 * (o + 1))
        count = add_roots(bench, count, a, b, arc[o + 1, high] - m, 2 * (o + 1) + 1)
    if abs(m) + math.hypot(a, b) > 1.0 - 1e-9:  # the families meet
        middle = math.atan2(b, a)
        count = add_break(bench, count, middle, -1)
        count = add_break(bench, count, middle + math.pi, -1)
    return count


@kernel
def add_locked(anatomy, bench, count, spin, ball):
    """Enter where the sum (or difference) of the outer angles meets its limits, at a joint that stays singular."""
    shape, box, o = anatomy.shape, anatomy.box, 4 * ball
    i, j, k = shape[ball, I], shape[ball, J], shape[ball, K]
    x, y = 4 * j, 3 * j + (3 - j - k)
    e = 1.0 if spin[18 + 3 * i + k] > 0.0 else -1.0
    for side in range(2):
        bound = box[o, side] + e * box[o + 2, side if e > 0.0 else 1 - side]
        if not math.isfinite(bound):
            continue
        p, q = math.sin(e * bound), anatomy.sense[ball, 5] * math.cos(e * bound)
        a = p * spin[x] - q * spin[y]
        b = p * spin[9 + x] - q * spin[9 + y]
        count = add_roots(bench, count, a, b, q * spin[18 + y] - p * spin[18 + x], 2 * o + side)
    return count


@kernel
def slack_at(anatomy, bench, spin, ball, family, phi):
    """Return the slack of a ball joint at a swivel angle."""
    spun(spin, math.cos(phi), math.sin(phi), bench.spare)
    return fit_ball(anatomy, ball, bench.spare, family, bench.trial, 4)


@kernel
def tightest(anatomy, ball, numbers, at):
    """Return the tag of the limit nearest to a ball joint's numbers."""
    best, tag = math.inf, -1
    for m in range(3):
        for side in range(2):
            room = abs(numbers[at + m] - anatomy.box[4 * ball + m, side])
            if room < best:
                best, tag = room, 2 * (4 * ball + m) + side
    return tag


@kernel
def add_searched(anatomy, bench, count, spin, ball):
    """Enter the ends of the ranges of a rotation-vector or swing-twist joint, in each family, by search."""
    limited = False
    for m in range(3):
        limited = limited or math.isfinite(anatomy.box[4 * ball + m, 0]) or math.isfinite(anatomy.box[4 * ball + m, 1])
    if not limited:
        return count
    for family in range(2):
        phi, slack = -math.pi, slack_at(anatomy, bench, spin, ball, family, -math.pi)
        while phi < math.pi:
            ahead = min(phi + min(max(0.3 * abs(slack), FINEST), COARSEST), math.pi)
            then = slack_at(anatomy, bench, spin, ball, family, ahead)
            if (slack < 0.0) != (then < 0.0):
                root = refine(anatomy, bench, spin, ball, family, phi, slack, ahead, then)
                slack_at(anatomy, bench, spin, ball, family, root)
                count = add_break(bench, count, root, tightest(anatomy, ball, bench.trial, 4))
            phi, slack = ahead, then
    return count


@kernel
def refine(anatomy, bench, spin, ball, family, a, at_a, b, at_b):
    """Return where the slack changes sign between a and b, to rounding: secants, halved where they dawdle."""
    for step in range(80):
        if b - a < 1e-14 or at_a == 0.0:
            break
        middle = 0.5 * (a + b)
        if step % 3 != 2 and abs(at_a) < 1.0 and abs(at_b) < 1.0:
            secant = a + (b - a) * at_a / (at_a - at_b)
            inside = 1e-3 * (b - a) if step % 3 == 0 else 1e-6 * (b - a)
            middle = min(max(secant, a + inside), b - inside)
        value = slack_at(anatomy, bench, spin, ball, family, middle)
        if (value < 0.0) == (at_a < 0.0):
            a, at_a = middle, value
        else:
            b, at_b = middle, value
    return a if at_a >= 0.0 else b


@kernel
def holds_at(anatomy, bench, balls, phi):
    """Say whether some branch and family holds the limits at a swivel angle; balls is 1 for the first joint, 2 for both."""
    c, s = math.cos(phi), math.sin(phi)
    for branch in range(2):
        if bench.slack[branch] < 0.0:
            continue
        good = True
        for ball in range(balls):
            if good:
                spun(bench.spin[2 * branch + ball], c, s, bench.rotation)
                good = ball_holds(anatomy, ball, bench.rotation, bench.trial)
        if good:
            return True
    return False


@kernel
def slack_near(anatomy, bench, balls, phi):
    """Return the best slack of the ball joints at a swivel angle over branches and families."""
    best = NEVER
    c, s = math.cos(phi), math.sin(phi)
    for branch in range(2):
        if bench.slack[branch] < 0.0:
            continue
        slack = NO_LIMIT
        for ball in range(balls):
            spun(bench.spin[2 * branch + ball], c, s, bench.rotation)
            here = fit_ball(anatomy, ball, bench.rotation, 0, bench.trial, 4)
            slack = min(slack, max(here, fit_ball(anatomy, ball, bench.rotation, 1, bench.trial, 4)))
        best = max(best, slack)
    return best


@kernel
def find_ranges(anatomy, balls, bench):
    """Write bench.ranges, every range of swivel angles that holds the limits of `balls` ball joints; return their count."""
    count = 0
    for branch in range(2):
        if bench.slack[branch] >= 0.0:
            for ball in range(balls):
                spin = bench.spin[2 * branch + ball]
                if anatomy.shape[ball, BALL] <= PROPER:
                    count = add_euler(anatomy, bench, count, spin, ball)
                else:
                    count = add_searched(anatomy, bench, count, spin, ball)
    if count == 0:
        if not holds_at(anatomy, bench, balls, 0.0):
            return 0
        return put_range(bench, 0, -math.pi, math.pi, -1.0, -1.0)
    breaks, inside = bench.breaks, bench.inside
    first = -1
    for at in range(count):
        end = breaks[at + 1] if at + 1 < count else breaks[0] + 2.0 * math.pi
        if end - breaks[at] < POINT:
            inside[at] = -1.0  # as the stretch before it
            continue
        inside[at] = 1.0 if holds_at(anatomy, bench, balls, 0.5 * (breaks[at] + end)) else 0.0
        if first < 0 and inside[at] == 0.0:
            first = at
    if first < 0:
        return put_range(bench, 0, -math.pi, math.pi, -1.0, -1.0)
    return join_stretches(anatomy, balls, bench, count, first)


@kernel
def join_stretches(anatomy, balls, bench, count, first):
    """Join neighbouring stretches inside the limits, round the circle from one that is outside; return the count."""
    breaks, inside, tags = bench.breaks, bench.inside, bench.tags
    found, begin, before = 0, -1, 0.0
    for step in range(1, count + 1):
        at = (first + step) % count
        now = inside[at] if inside[at] >= 0.0 else before
        inside[at] = now
        if now == 1.0 and before == 0.0:
            begin = at
        elif now == 0.0 and before == 1.0:
            low, high = breaks[begin], breaks[at]
            if high < low:
                high += 2.0 * math.pi
            found = put_range(bench, found, low, high, tags[begin], tags[at])
        before = now
    if found == 0:  # perhaps a single angle holds: a joint whose limits leave it no play, a pose in a corner of its limits
        for at in range(count):
            if slack_near(anatomy, bench, balls, breaks[at]) >= -1e-11:
                found = put_range(bench, found, breaks[at], breaks[at], tags[at], tags[at])
    return found


@kernel
def put_range(bench, count, low, high, tag_low, tag_high):
    """Enter a range; return the new count."""
    if count >= RANGES:
        return count
    bench.ranges[count, 0] = low
    bench.ranges[count, 1] = high
    bench.ranges[count, 2] = tag_low
    bench.ranges[count, 3] = tag_high
    return count + 1


@kernel
def pick_swivel(bench, count, wanted):
    """Return the swivel angle of the ranges nearest to the wanted one; for NaN, the middle of the widest range."""
    best, choice = -math.inf, 0.0
    for r in range(count):
        low, high = bench.ranges[r, 0], bench.ranges[r, 1]
        if math.isnan(wanted):
            score, phi = high - low, 0.5 * (low + high)
        else:
            after = wanted - low - 2.0 * math.pi * math.floor((wanted - low) / (2.0 * math.pi))
            if after <= high - low:
                score, phi = 0.0, wanted
            elif after - (high - low) < 2.0 * math.pi - after:
                score, phi = (high - low) - after, high
            else:
                score, phi = after - 2.0 * math.pi, low
        if score > best:
            best, choice = score, phi
    return choice
