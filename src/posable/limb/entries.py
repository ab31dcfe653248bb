"""What Python calls: batches of answers, every branch, the ranges, the circle and the angle of a swivel."""

from __future__ import annotations

import math

from posable.kernels.compiler import entry

from .answer import BRANCH, SLACK, SWIVEL, answer, hold_last, measure, open_circle
from .balls import NEVER, ball_rotation, fit_ball
from .circle import (
    POSE, POSITION, bend_to, bring_home, draw_circle, lay_out, prefer_a_side, reaches, spun, stand_body,
)  # fmt: skip
from .nearest import place_error, turned
from .ranges import find_ranges


@entry
def answer_batch(anatomy, roots, references, targets, helds, task, limited, wanted, elbows, work, out, reports, status):
    """Answer every target (t, 12) into out (t, 7), reports (t, REPORT) and status (t,); one row of the others serves all."""
    bench = lay_out(work)
    for t in range(targets.shape[0]):
        status[t] = answer(
            anatomy,
            roots[t % roots.shape[0]],
            references,
            targets[t],
            helds[t % helds.shape[0]],
            task,
            limited,
            wanted[t % wanted.shape[0]],
            elbows[t % elbows.shape[0]],
            out[t],
            reports[t],
            bench,
        )


@entry
def branches_of(anatomy, root, reference, target, held, task, swivel, work, out, reports):
    """Write every solution (8, 7) at a swivel angle, whatever the limits; return the outcome of the reach.

    Row 4 branch + 2 family of the first joint + family of the last; reports[row, SLACK] is NEVER where there is none.
    """
    bench = lay_out(work)
    bring_home(anatomy, root, target, task, bench)
    hold_last(anatomy, task, held, bench)
    status = open_circle(anatomy, root, reference, task, False, bench)
    c, s = math.cos(swivel), math.sin(swivel)
    for row in range(8):
        branch, reports[row, BRANCH], reports[row, SWIVEL] = row // 4, row, swivel
        reports[row, SLACK] = NEVER
        if bench.slack[branch] <= NEVER or (task == POSITION and row % 2 == 1):
            continue
        slack = bench.slack[branch]
        bench.best[3] = bench.bend[branch]
        for m in range(3):
            bench.best[4 + m] = held[m]
        for ball in range(2 if task == POSE else 1):
            spun(bench.spin[2 * branch + ball], c, s, bench.rotation)
            family = (row // 2) % 2 if ball == 0 else row % 2
            slack = min(slack, fit_ball(anatomy, ball, bench.rotation, family, bench.best, 4 * ball))
        reports[row, SLACK] = slack
        if slack > NEVER:
            measure(anatomy, task, reports[row], bench)
            for m in range(7):
                out[row, m] = anatomy.sign[m] * bench.best[m]
    return status


@entry
def ranges_of(anatomy, root, reference, target, held, task, work, out):
    """Write the swivel ranges (RANGES, 4) that hold every limit; return (outcome of the reach, their count)."""
    bench = lay_out(work)
    bring_home(anatomy, root, target, task, bench)
    hold_last(anatomy, task, held, bench)
    status = open_circle(anatomy, root, reference, task, True, bench)
    count = find_ranges(anatomy, 2 if task == POSE else 1, bench)
    for r in range(count):
        for m in range(4):
            out[r, m] = bench.ranges[r, m]
    return status, count


@entry
def circle_of(anatomy, root, reference, target, held, task, work, out):
    """Write the elbow circle (13,) in the world: centre, radius, normal, u, v."""
    bench = lay_out(work)
    bring_home(anatomy, root, target, task, bench)
    hold_last(anatomy, task, held, bench)
    distance = draw_circle(root, reference, bench)
    bend_to(anatomy, distance, False, bench)
    stand_body(anatomy, 0, bench)
    along, square = 0.0, 0.0
    for m in range(3):
        along += bench.body[0, m] * anatomy.place[m]
    for m in range(3):
        across = anatomy.place[m] - along * bench.body[0, m]
        square += across * across
    out[3] = math.sqrt(square)
    for m in range(3):
        o = 3 + 3 * m
        for row in range(3):
            x, y, z = bench.circle[row, 0], bench.circle[row, 1], bench.circle[row, 2]
            out[4 + 3 * row + m] = root[o] * x + root[o + 1] * y + root[o + 2] * z
        out[m] = root[m] + along * out[4 + m]
    return bench.bend[0]


@entry
def swivel_of(anatomy, root, reference, numbers, task, work):
    """Return the swivel angle of a limb whose raw numbers (7,) are given, about the last joint or (POSITION) the site."""
    bench = lay_out(work)
    hold_last(anatomy, task, numbers[4:7], bench)
    for m in range(3):
        bench.goal[m] = 0.0
    place_error(anatomy, task, numbers, bench, bench.body[0])
    for m in range(3):
        bench.goal[m] = -bench.body[0, m]
    straight, _, _ = reaches(anatomy, bench.tip)
    side = math.sin(numbers[3] - straight)
    bench.slack[0] = bench.slack[1] = 0.0
    if abs(side) < 1e-12:
        prefer_a_side(straight, anatomy.box[3, 0], anatomy.box[3, 1], bench.slack)
    branch = 1 if side < -1e-12 or bench.slack[0] <= NEVER else 0
    bench.bend[branch] = numbers[3]
    draw_circle(root, reference, bench)
    stand_body(anatomy, branch, bench)
    ball_rotation(anatomy, 0, numbers, 0, bench.rotation, bench.axes)
    x, y, z = turned(bench.rotation, bench.body[1, 0], bench.body[1, 1], bench.body[1, 2])
    u, v = bench.circle[1], bench.circle[2]
    return math.atan2(v[0] * x + v[1] * y + v[2] * z, u[0] * x + u[1] * y + u[2] * z)
