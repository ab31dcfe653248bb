"""One limb, one goal: the kernels that choose the swivel angle, the branch and the families, and what to do without them."""

from __future__ import annotations

import math

from posable.kernels.compiler import kernel

from .anatomy import LOWER, LOWER_TURN, TOOL
from .balls import NEVER, NO_LIMIT, SINGULAR, ball_rotation, fit_ball
from .circle import (
    BLOCKED, NO_SWIVEL, POSE, POSITION, REACHED, bend_to, bring_home, carry_forearm, draw_circle,
    spin_branch, spun,
)  # fmt: skip
from .nearest import approach, orient, place_error, turn_error
from .ranges import find_ranges, pick_swivel

EXACT = 1e-9  # [m per limb length, rad]: what `ok` allows
SAMPLES = 64  # ways to hold the last joint that are tried when the one asked for does not reach

# Columns of a report
SWIVEL, SLACK, PLACE_ERROR, TURN_ERROR, BRANCH, MOVED = 0, 1, 2, 3, 4, 5
REPORT = 6


@kernel
def hold_last(anatomy, task, held, bench):
    """Write bench.tip: the last joint, or the site with the last joint's numbers held (seed 003, end of 3.2.3)."""
    place, tip = anatomy.place, bench.tip
    for m in range(3):
        tip[m] = place[LOWER + m]
    if task == POSITION:
        ball_rotation(anatomy, 1, held, 0, bench.rotation, bench.axes)
        for row in range(3):
            for m in range(3):
                r = bench.rotation[3 * m] * place[TOOL] + bench.rotation[3 * m + 1] * place[TOOL + 1]
                r += bench.rotation[3 * m + 2] * place[TOOL + 2]
                tip[row] += place[LOWER_TURN + 3 * row + m] * r


@kernel
def fit_all(anatomy, balls, held, phi, bench):
    """Write the seven numbers with the most slack at a swivel angle to bench.best; return (slack, branch code).

    The code is 4 branch + 2 family of the first joint + family of the last.
    """
    c, s = math.cos(phi), math.sin(phi)
    best, code = -math.inf, 0
    trial, other = bench.trial, bench.spare
    for branch in range(2):
        if bench.slack[branch] <= NEVER:
            continue
        slack, here = bench.slack[branch], 4 * branch
        trial[3] = bench.bend[branch]
        for ball in range(balls):
            spun(bench.spin[2 * branch + ball], c, s, bench.rotation)
            one = fit_ball(anatomy, ball, bench.rotation, 0, trial, 4 * ball)
            two = fit_ball(anatomy, ball, bench.rotation, 1, other, 0)
            if two > one:
                one = two
                here += 2 - ball
                for m in range(3):
                    trial[4 * ball + m] = other[m]
            slack = min(slack, one)
        if balls == 1:
            for m in range(3):
                trial[4 + m] = held[m]
        if slack > best:
            best, code = slack, here
            for m in range(7):
                bench.best[m] = trial[m]
    return best, code


@kernel
def open_circle(anatomy, root, reference, task, limited, bench):
    """Prepare the elbow circle of bench.goal and bench.tip; return REACHED, TOO_FAR or TOO_NEAR."""
    distance = draw_circle(root, reference, bench)
    status = bend_to(anatomy, distance, limited, bench)
    for branch in range(2):
        if bench.slack[branch] > NEVER:
            spin_branch(anatomy, branch, task, bench)
    return status


@kernel
def angle_towards(root, elbow, bench):
    """Return the swivel angle that brings the elbow nearest to a point of the world (seed 003, figure 3), with its sign."""
    x, y, z = elbow[0] - root[0], elbow[1] - root[1], elbow[2] - root[2]
    a = b = 0.0
    for m in range(3):
        p = root[3 + m] * x + root[6 + m] * y + root[9 + m] * z
        a += p * bench.circle[1, m]
        b += p * bench.circle[2, m]
    return math.atan2(b, a)


@kernel
def settle(anatomy, balls, held, count, phi, limited, report, bench):
    """Fit the joints at the chosen swivel angle; at the very end of a range, step inside if rounding asks for it."""
    slack, code = fit_all(anatomy, balls, held, phi, bench)
    if limited and slack < -SINGULAR:
        for r in range(count):
            low, high = bench.ranges[r, 0], bench.ranges[r, 1]
            for step in (1e-12, 1e-10, 1e-8, 1e-6):
                if slack < -SINGULAR and 2.0 * step < high - low:
                    for end in range(2):
                        inside = low + step if end == 0 else high - step
                        if abs(math.sin(0.5 * (phi - inside))) < 2.0 * step and slack < -SINGULAR:
                            phi = inside
                            slack, code = fit_all(anatomy, balls, held, phi, bench)
    report[SWIVEL], report[SLACK], report[BRANCH] = phi, slack, code
    return slack


@kernel
def attempt(anatomy, root, reference, task, limited, wanted, elbow, held, report, bench):
    """Solve for bench.goal with bench.tip in closed form; return the outcome, NO_SWIVEL where the limits leave none."""
    status = open_circle(anatomy, root, reference, task, limited, bench)
    if not math.isnan(elbow[0]):
        wanted = angle_towards(root, elbow, bench)
    balls = 2 if task == POSE else 1
    count = 0
    phi = 0.0 if math.isnan(wanted) else wanted
    if limited:
        count = find_ranges(anatomy, balls, bench)
        if count == 0:
            return NO_SWIVEL if status == REACHED else BLOCKED + status
        phi = pick_swivel(bench, count, wanted)
    settle(anatomy, balls, held, count, phi, limited, report, bench)
    return status


@kernel
def halton(index, base):
    """Return member `index` of the van der Corput sequence of a base: evenly spread in (0, 1)."""
    out, part = 0.0, 1.0 / base
    while index > 0:
        out += part * (index % base)
        index //= base
        part /= base
    return out


@kernel
def sample_last(anatomy, index, out):
    """Write one of the spread-out ways (3,) to hold the last joint inside its limits; the first is the middle of them."""
    for m in range(3):
        low, high = anatomy.box[4 + m, 0], anatomy.box[4 + m, 1]
        low = max(low, anatomy.rest[4 + m] - math.pi)
        high = min(high, anatomy.rest[4 + m] + math.pi)
        base = 2 if m == 0 else (3 if m == 1 else 5)
        share = 0.5 if index == 0 else halton(index, base)
        out[m] = low + share * (high - low)


@kernel
def let_go(anatomy, root, reference, limited, wanted, elbow, held, report, bench):
    """Reach for a place by moving the last joint too; return the outcome and leave the numbers in bench.best."""
    tried = bench.best[4:7]
    status = NO_SWIVEL
    for index in range(SAMPLES):
        sample_last(anatomy, index, tried)
        hold_last(anatomy, POSITION, tried, bench)
        status = attempt(anatomy, root, reference, POSITION, limited, wanted, elbow, tried, report, bench)
        if status == REACHED:
            return REACHED
    box = anatomy.box if limited else anatomy.wide
    start, keep = bench.start, bench.keep
    best = math.inf
    for index in range(16):
        sample_last(anatomy, index, tried)
        hold_last(anatomy, POSITION, tried, bench)
        open_circle(anatomy, root, reference, POSITION, limited, bench)
        fit_all(anatomy, 1, tried, 0.4 * index, bench)
        for m in range(7):
            start[m] = min(max(bench.best[m], box[m, 0]), box[m, 1])
        error = approach(anatomy, box, POSITION, start, bench)
        if error < best - 1e-15:
            best = error
            for m in range(7):
                keep[m] = start[m]
    for m in range(7):
        bench.best[m] = keep[m]
    report[SWIVEL], report[BRANCH] = math.nan, 0
    return status


@kernel
def turn_nearest(anatomy, root, reference, report, bench):
    """With the tip at bench.goal, bring the orientation nearest inside the limits; numbers in bench.best, or False."""
    open_circle(anatomy, root, reference, POSE, True, bench)
    best, found = math.inf, False
    start, keep = bench.start, bench.keep
    for branch in range(2):
        if bench.slack[branch] < 0.0:
            continue
        other = bench.slack[1 - branch]
        bench.slack[1 - branch] = NEVER
        count = find_ranges(anatomy, 1, bench)
        carry_forearm(anatomy, bench.bend[branch], bench.forearm)
        for r in range(min(count, 32)):
            low, high = bench.ranges[r, 0], bench.ranges[r, 1]
            for share in (0.5, 0.1, 0.9, 0.3, 0.7):
                for family in range(2):
                    phi = low + share * (high - low)
                    spun(bench.spin[2 * branch + 1], math.cos(phi), math.sin(phi), bench.rotation)
                    if fit_ball(anatomy, 1, bench.rotation, family, start, 4) <= NEVER:
                        continue
                    for m in range(4, 7):
                        start[m] = min(max(start[m], anatomy.box[m, 0]), anatomy.box[m, 1])
                    error, phi = orient(anatomy, branch, low, high, phi, start, bench)
                    if error < best - 1e-12:
                        best, found = error, True
                        fit_all(anatomy, 1, start[4:7], phi, bench)
                        for m in range(7):
                            keep[m] = bench.best[m]
                        report[SWIVEL], report[BRANCH] = phi, 4 * branch
        bench.slack[1 - branch] = other
    for m in range(7):
        bench.best[m] = keep[m]
    return found


@kernel
def come_nearest(anatomy, root, reference, report, bench):
    """Where the first joint's limits shut out the place: the nearest place inside them, then the nearest orientation."""
    start, keep = bench.start, bench.keep
    best = math.inf
    for index in range(24):
        fit_all(anatomy, 2, bench.tip, 0.2618 * index, bench)
        for m in range(7):
            at = bench.best[m] if index > 0 else anatomy.rest[m]
            start[m] = min(max(at, anatomy.box[m, 0]), anatomy.box[m, 1])
        error = approach(anatomy, anatomy.box, POSE, start, bench)
        if error < best - 1e-15:
            best = error
            for m in range(7):
                keep[m] = start[m]
    place_error(anatomy, POSE, keep, bench, bench.body[0])
    x, y, z = bench.goal[0], bench.goal[1], bench.goal[2]
    for m in range(3):
        bench.goal[m] -= bench.body[0, m]
    a0, a1, a2, a3, a4, a5, a6 = keep[0], keep[1], keep[2], keep[3], keep[4], keep[5], keep[6]
    if not turn_nearest(anatomy, root, reference, report, bench):
        numbers = bench.start
        numbers[0], numbers[1], numbers[2], numbers[3] = a0, a1, a2, a3
        numbers[4], numbers[5], numbers[6] = a4, a5, a6
        ball_rotation(anatomy, 0, numbers, 0, bench.rotation, bench.axes)
        for m in range(9):
            bench.spin[0, m] = bench.spin[0, 9 + m] = 0.0
            bench.spin[0, 18 + m] = bench.rotation[m]
        carry_forearm(anatomy, a3, bench.forearm)
        orient(anatomy, 0, 0.0, 0.0, 0.0, numbers, bench)
        for m in range(7):
            bench.best[m] = numbers[m]
        report[SWIVEL], report[BRANCH] = math.nan, 0
    bench.goal[0], bench.goal[1], bench.goal[2] = x, y, z


@kernel
def measure(anatomy, task, report, bench):
    """Write how far bench.best is from the goal, from its own forward kinematics; return whether it is exact."""
    size = 0.0
    for m in range(3):
        size += abs(anatomy.place[m]) + abs(anatomy.place[LOWER + m])
    place = place_error(anatomy, task, bench.best, bench, bench.body[0])
    turn = 0.0
    if task == POSE:  # place_error left the first joint's rotation: a spin that does not spin
        parts = bench.breaks[64:91]
        for m in range(9):
            parts[m] = parts[9 + m] = 0.0
            parts[18 + m] = bench.rotation[m]
        turn = turn_error(anatomy, parts, bench.best, 0.0, bench, bench.body[0])
    report[PLACE_ERROR], report[TURN_ERROR] = place, turn
    return place <= EXACT * size and turn <= EXACT


@kernel
def answer(anatomy, root, reference, target, held, task, limited, wanted, elbow, out, report, bench):
    """Write the figure's seven numbers (7,) and a report (REPORT,) for one target (12,); return the outcome."""
    bring_home(anatomy, root, target, task, bench)
    hold_last(anatomy, task, held, bench)
    report[MOVED] = 0.0
    report[SLACK] = NO_LIMIT
    status = attempt(anatomy, root, reference, task, limited, wanted, elbow, held, report, bench)
    if status != REACHED and task == POSITION:
        first = status
        report[MOVED] = 1.0
        status = let_go(anatomy, root, reference, limited, wanted, elbow, held, report, bench)
        if status != REACHED:
            status = first
    elif status >= NO_SWIVEL:
        if not turn_nearest(anatomy, root, reference, report, bench):
            come_nearest(anatomy, root, reference, report, bench)
    if status > BLOCKED:
        status -= BLOCKED
    if limited:
        for m in range(7):
            bench.best[m] = min(max(bench.best[m], anatomy.box[m, 0]), anatomy.box[m, 1])
    exact = measure(anatomy, task, report, bench)
    if exact:
        status = REACHED
    elif status == REACHED:
        status = NO_SWIVEL
    for m in range(7):
        out[m] = anatomy.sign[m] * bench.best[m]
    return status
