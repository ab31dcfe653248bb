"""What Python calls: batches of answers, every branch, the ranges, the circle and the angle of a swivel."""

from __future__ import annotations

import math

from posable.kernels.compiler import entry, kernel

from .anatomy import BOX, SIGN, UPPER
from .answer import (
    BRANCH,
    MOVED,
    SLACK,
    SWIVEL,
    attempt,
    begin,
    come_nearest,
    finish,
    hold_last,
    let_go,
    measure,
    open_circle,
    turn_nearest,
)  # fmt: skip
from .balls import NEVER, ball_rotation, fit_ball
from .circle import (
    AXES,
    BEND,
    BEST,
    BLOCKED,
    ELBOW,
    EXTRA,
    GIVE,
    GOAL,
    NORMAL,
    POSE,
    POSITION,
    REACHED,
    RESIDUAL,
    ROTATION,
    SPANS,
    SPIN,
    TOWARDS,
    U,
    V,
    bend_to,
    bring_home,
    draw_circle,
    prefer_a_side,
    reaches,
    spun,
    stand_body,
)  # fmt: skip
from .nearest import place_error, turned
from .ranges import find_ranges

FITS = EXTRA  # (2 branches, 2 ball joints, 2 families, 4): three numbers and their slack


@entry
def answer_batch(limb, shape, roots, reference, targets, helds, task, limited, wanted, elbows, w, out, reports, status):
    """Solve for every target (t, 12) in closed form: out (t, 7), reports (t, REPORT), status (t,).

    roots (., 12), helds (., 3), wanted (.,) and elbows (., 3) have a row for each target, or one for all. A status from
    BLOCKED on says that the limits leave no swivel angle: `nearest_batch` then finds what comes nearest.
    """
    for t in range(targets.shape[0]):
        root, report = roots[t % roots.shape[0]], reports[t]
        if t == 0 or helds.shape[0] > 1:
            begin(limb, shape, root, targets[t], helds[t % helds.shape[0]], task, report, w)
        else:  # the last joint is held as before: its tip is still there
            bring_home(limb, root, targets[t], task, w)
            report[MOVED] = 0.0
        want, elbow = wanted[t % wanted.shape[0]], elbows[t % elbows.shape[0]]
        found = attempt(limb, shape, root, reference, task, limited, want, elbow, report, w)
        status[t] = found if found >= BLOCKED else finish(limb, shape, task, limited, found, out[t], report, w)


@entry
def nearest_batch(
    limb, shape, roots, reference, targets, helds, task, limited, wanted, elbows, w, out, reports, status
):
    """Come as near as the limits allow to every target that `answer_batch` did not reach; the same arguments."""
    for t in range(targets.shape[0]):
        found = status[t]
        if found == REACHED or (found < BLOCKED and task == POSE):
            continue
        root, report = roots[t % roots.shape[0]], reports[t]
        begin(limb, shape, root, targets[t], helds[t % helds.shape[0]], task, report, w)
        if task == POSITION:
            report[MOVED] = 1.0
            want, elbow = wanted[t % wanted.shape[0]], elbows[t % elbows.shape[0]]
            let_go(limb, shape, root, reference, limited, want, elbow, report, w)
        elif not turn_nearest(limb, shape, root, reference, report, w):
            come_nearest(limb, shape, root, reference, report, w)
        status[t] = finish(limb, shape, task, limited, found, out[t], report, w)


@kernel
def fit_branch(limb, shape, branch, balls, swivel, w):
    """Write FITS of a branch: both families of each ball joint at a swivel angle."""
    c, s = math.cos(swivel), math.sin(swivel)
    for ball in range(balls):
        spun(w, SPIN + 54 * branch + 27 * ball, c, s, ROTATION)
        for family in range(2):
            fit = FITS + 4 * (4 * branch + 2 * ball + family)
            w[fit + 3] = fit_ball(limb, shape, ball, w, ROTATION, family, fit)


@kernel
def all_branches(limb, shape, root, reference, target, held, task, swivel, w, out, reports):
    """Write every solution (8, 7) at a swivel angle, whatever the limits; return the outcome of the reach.

    Row 4 branch + 2 family of the first joint + family of the last; reports[row, SLACK] is NEVER where there is none.
    """
    begin(limb, shape, root, target, held, task, reports[0], w)
    status = open_circle(limb, shape, root, reference, task, 0, w)
    balls = 2 if task == POSE else 1
    give0, give1 = w[GIVE], w[GIVE + 1]
    for branch in range(2):
        if (give0 if branch == 0 else give1) > NEVER:
            fit_branch(limb, shape, branch, balls, swivel, w)
    for row in range(8):
        branch, report = row // 4, reports[row]
        report[BRANCH], report[SWIVEL], report[SLACK] = row, swivel, NEVER
        slack = give0 if branch == 0 else give1
        if slack <= NEVER or (balls == 1 and row % 2 == 1):
            continue
        w[BEST + 3] = w[BEND + branch]
        for m in range(3):
            w[BEST + 4 + m] = held[m]
        for ball in range(balls):
            fit = FITS + 4 * (4 * branch + 2 * ball + (row // 2 % 2 if ball == 0 else row % 2))
            for m in range(3):
                w[BEST + 4 * ball + m] = w[fit + m]
            slack = min(slack, w[fit + 3])
        report[SLACK] = slack
        if slack > NEVER:
            measure(limb, shape, task, report, w)
            for m in range(7):
                out[row, m] = limb[SIGN + m] * w[BEST + m]
    return status


@entry
def branches_of(limb, shape, root, reference, target, held, task, swivel, w, out, reports):
    """Write every solution of one target: see `all_branches`."""
    return all_branches(limb, shape, root, reference, target, held, task, swivel, w, out, reports)


@entry
def branches_batch(limb, shape, root, reference, targets, held, task, swivel, w, out, reports):
    """Write every solution (t, 8, 7) of targets (t, 12) at one swivel angle, with reports (t, 8, REPORT)."""
    for t in range(targets.shape[0]):
        all_branches(limb, shape, root, reference, targets[t], held, task, swivel, w, out[t], reports[t])


@entry
def ranges_of(limb, shape, root, reference, target, held, task, w, out, report):
    """Write the swivel ranges (RANGES, 4) that hold every limit; return (outcome of the reach, their count)."""
    begin(limb, shape, root, target, held, task, report, w)
    status = open_circle(limb, shape, root, reference, task, 1, w)
    count = find_ranges(limb, shape, 2 if task == POSE else 1, w)
    for r in range(count):
        for m in range(4):
            out[r, m] = w[SPANS + 4 * r + m]
    return status, count


@entry
def circle_of(limb, shape, root, reference, target, held, task, w, out, report):
    """Write the elbow circle (13,) in the world: centre, radius, normal, u, v."""
    begin(limb, shape, root, target, held, task, report, w)
    distance = draw_circle(root, reference, w)
    bend_to(limb, shape, distance, False, w)
    stand_body(limb, shape, 0, w)
    along, square = 0.0, 0.0
    for m in range(3):
        along += w[TOWARDS + m] * limb[UPPER + m]
    for m in range(3):
        across = limb[UPPER + m] - along * w[TOWARDS + m]
        square += across * across
    out[3] = math.sqrt(square)
    for m in range(3):
        o = 3 + 3 * m
        for row in range(3):
            x, y, z = w[NORMAL + 3 * row], w[NORMAL + 3 * row + 1], w[NORMAL + 3 * row + 2]
            out[4 + 3 * row + m] = root[o] * x + root[o + 1] * y + root[o + 2] * z
        out[m] = root[m] + along * out[4 + m]


@entry
def swivel_batch(limb, shape, roots, reference, numbers, task, w, out):
    """Write the swivel angle of limbs with raw numbers (t, 7), about the last joint or (POSITION) the site."""
    for t in range(numbers.shape[0]):
        root = roots[t % roots.shape[0]]
        for m in range(7):
            w[BEST + m] = numbers[t, m]
        hold_last(limb, shape, task, w)
        for m in range(3):
            w[GOAL + m] = 0.0
        place_error(limb, shape, task, BEST, w)
        for m in range(3):
            w[GOAL + m] = -w[RESIDUAL + m]
        straight, _, _ = reaches(limb, shape, w)
        side = math.sin(w[BEST + 3] - straight)
        w[GIVE], w[GIVE + 1] = 0.0, 0.0
        if abs(side) < 1e-12:
            prefer_a_side(straight, limb[BOX + 6], limb[BOX + 7], w)
        branch = 1 if side < -1e-12 or w[GIVE] <= NEVER else 0
        w[BEND + branch] = w[BEST + 3]
        draw_circle(root, reference, w)
        stand_body(limb, shape, branch, w)
        ball_rotation(shape, 0, w, BEST, ROTATION, AXES)
        x, y, z = turned(w, ROTATION, w[ELBOW], w[ELBOW + 1], w[ELBOW + 2])
        out[t] = math.atan2(w[V] * x + w[V + 1] * y + w[V + 2] * z, w[U] * x + w[U + 1] * y + w[U + 2] * z)


@entry
def distance_batch(limb, shape, numbers, w, out):
    """Write how far [m] the site of limbs with raw numbers (t, 7) is from the first joint, (t,)."""
    for t in range(numbers.shape[0]):
        for m in range(7):
            w[BEST + m] = numbers[t, m]
        for m in range(3):
            w[GOAL + m] = 0.0
        out[t] = place_error(limb, shape, POSITION, BEST, w)
