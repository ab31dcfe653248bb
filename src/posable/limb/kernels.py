"""Kernels of the limb that Python calls: batches of solutions, every branch, swivel ranges, circles and angles."""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel
from posable.limb.ball_ik import INFEASIBLE, NO_LIMIT, SINGULAR, ball_rotation, fit_ball, slack_in
from posable.limb.circle import (  # fmt: skip  # fmt: skip
    AXES,
    BEND,
    BEND_SLACK,
    BEST,
    BLOCKED,
    ELBOW,
    EXTRA,
    GOAL,
    KEEP,
    NO_SWIVEL,
    NORMAL,
    PARTS,
    POSE,
    POSITION,
    REACHED,
    RESIDUAL,
    ROTATION,
    SPANS,
    SPARE,
    SPIN,
    START,
    TIP,
    TOWARDS,
    TRIAL,
    U,
    V,
    circle_frame,
    drop_infeasible_branch,
    find_ranges,
    forearm_frame,
    pick_swivel,
    reach_interval,
    rotation_at,
    set_goal,
    solve_bend,
    swivel_branch,
    triangle_frame,
)
from posable.limb.nearest import approach, orient, place_error, rotate, turn_error
from posable.limb.srs_chain import BOX, LOWER, LOWER_TURN, REST, SIGN, TOOL, UPPER, WIDE

# --- One limb ---

EXACT = 1e-9  # [m per limb length, rad]: what `ok` allows
REGAINED = 1e-11  # [m]: error at which an approach counts as reached
SAMPLES = 64  # configurations of the last joint to try if the given one does not reach

# Columns of a report
SWIVEL, SLACK, PLACE_ERROR, TURN_ERROR, BRANCH, MOVED, SPIN_ANGLE = 0, 1, 2, 3, 4, 5, 6
REPORT = 7


@kernel
def set_tip(limb, shape, task, w):
    """Write TIP: the last joint, or the site with the last joint at BEST + 4 (Tolani et al. 2000, 3.2.3)."""
    for m in range(3):
        w[TIP + m] = limb[LOWER + m]
    if task == POSITION:
        ball_rotation(shape, 1, w, BEST + 4, ROTATION, AXES)
        for m in range(3):
            o = ROTATION + 3 * m
            r = w[o] * limb[TOOL] + w[o + 1] * limb[TOOL + 1] + w[o + 2] * limb[TOOL + 2]
            for row in range(3):
                w[TIP + row] += limb[LOWER_TURN + 3 * row + m] * r


@kernel
def fit_joints(limb, shape, balls, phi, w):
    """Write the seven values with the most slack at a swivel angle to BEST; return (slack, branch code).

    The code is 4 branch + 2 family of the first joint + family of the last, which keeps BEST + 4 where balls is 1.
    """
    c, s = math.cos(phi), math.sin(phi)
    best, code = -math.inf, 0
    for branch in range(2):
        if w[BEND_SLACK + branch] <= INFEASIBLE:
            continue
        slack, here = w[BEND_SLACK + branch], 4 * branch
        w[TRIAL + 3] = w[BEND + branch]
        for ball in range(balls):
            at = TRIAL + 4 * ball
            rotation_at(w, SPIN + 54 * branch + 27 * ball, c, s, ROTATION)
            most = -math.inf
            for family in range(2):
                if most >= NO_LIMIT:
                    break
                room = fit_ball(limb, shape, ball, w, ROTATION, family, SPARE)
                if room > most:
                    if family == 1:
                        here += 2 - ball
                    most = room
                    for m in range(3):
                        w[at + m] = w[SPARE + m]
            slack = min(slack, most)
        if slack > best:
            best, code = slack, here
            for m in range(7 if balls == 2 else 4):
                w[BEST + m] = w[TRIAL + m]
    return best, code


@kernel
def prepare_circle(limb, shape, root, reference, task, limited, w):
    """Prepare the elbow circle of GOAL and TIP; return REACHED, TOO_FAR or TOO_NEAR.

    limited: 1 keeps the branches within the middle joint's limits, 0 keeps both, -1 the better one.
    """
    distance = circle_frame(root, reference, w)
    status = solve_bend(limb, shape, distance, limited == 1, w)
    if limited < 0:  # one branch suffices: the one farther inside the limits
        w[BEND_SLACK + (0 if w[BEND_SLACK + 1] > w[BEND_SLACK] else 1)] = INFEASIBLE
    for branch in range(2):
        if w[BEND_SLACK + branch] > INFEASIBLE:
            swivel_branch(limb, shape, branch, task, w)
    return status


@kernel
def swivel_towards(root, elbow, w):
    """Return the signed swivel angle at which the elbow is nearest to a point (Tolani et al. 2000, figure 3)."""
    x, y, z = elbow[0] - root[0], elbow[1] - root[1], elbow[2] - root[2]
    a, b = 0.0, 0.0
    for m in range(3):
        p = root[3 + m] * x + root[6 + m] * y + root[9 + m] * z
        a += p * w[U + m]
        b += p * w[V + m]
    return math.atan2(b, a)


@kernel
def fit_at_swivel(limb, shape, balls, count, phi, limited, report, w):
    """Fit the joints at the chosen swivel angle; at the end of a range, step inside if rounding requires it."""
    step, inside = 0.0, phi
    for _ in range(6):
        slack, code = fit_joints(limb, shape, balls, inside, w)
        report[SWIVEL], report[SLACK], report[BRANCH] = inside, slack, code
        if not limited or slack >= -SINGULAR:
            break
        step = 1e-12 if step == 0.0 else 30.0 * step
        for r in range(count):
            low, high = w[SPANS + 4 * r], w[SPANS + 4 * r + 1]
            if 2.0 * step < high - low:
                if abs(math.sin(0.5 * (phi - low))) < step:
                    inside = low + step
                elif abs(math.sin(0.5 * (phi - high))) < step:
                    inside = high - step


@kernel
def solve_closed_form(limb, shape, root, reference, task, limited, wanted, elbow, report, w):
    """Solve for GOAL with TIP in closed form; return the status, plus BLOCKED if the limits leave no swivel angle."""
    status = prepare_circle(limb, shape, root, reference, task, 1 if limited else -1, w)
    if not math.isnan(elbow[0]):
        wanted = swivel_towards(root, elbow, w)
    balls = 2 if task == POSE else 1
    count = 0
    phi = 0.0 if math.isnan(wanted) else wanted
    if limited:
        count = find_ranges(limb, shape, balls, w)
        if count == 0:
            return BLOCKED + status
        phi = pick_swivel(w, count, wanted)
    fit_at_swivel(limb, shape, balls, count, phi, limited, report, w)
    return status


@kernel
def measure(limb, shape, task, report, w):
    """Write the errors of BEST from its own forward kinematics; return whether it is exact."""
    size = 0.0
    for m in range(3):
        size += abs(limb[m]) + abs(limb[LOWER + m])
    place = place_error(limb, shape, task, BEST, w)
    turn = 0.0
    if task == POSE:  # the first joint's rotation, left by place_error, as constant parts
        for m in range(9):
            w[PARTS + m], w[PARTS + 9 + m], w[PARTS + 18 + m] = 0.0, 0.0, w[ROTATION + m]
        turn = turn_error(shape, PARTS, 0.0, BEST + 4, w)
    report[PLACE_ERROR], report[TURN_ERROR] = place, turn
    return place <= EXACT * size and turn <= EXACT


@kernel
def finish(limb, shape, task, limited, status, out, report, w):
    """Clip BEST to the limits, measure it, write the figure's seven values; return the status."""
    if limited:
        for m in range(7):
            w[BEST + m] = min(max(w[BEST + m], limb[BOX + 2 * m]), limb[BOX + 2 * m + 1])
    slack = NO_LIMIT
    for m in range(7):
        slack = min(slack, slack_in(w[BEST + m], limb[BOX + 2 * m], limb[BOX + 2 * m + 1]))
        out[m] = limb[SIGN + m] * w[BEST + m]
    report[SLACK] = slack
    exact = measure(limb, shape, task, report, w)
    if exact:
        return REACHED
    return NO_SWIVEL if status in (REACHED, BLOCKED) else status % BLOCKED


@kernel
def set_target(limb, shape, root, target, held, task, report, w):
    """Write GOAL and TIP for a target (12,) in the world, with the last joint at raw values held (3,)."""
    set_goal(limb, root, target, task, w)
    for m in range(3):
        w[BEST + 4 + m] = held[m]
    set_tip(limb, shape, task, w)
    report[MOVED] = 0.0


# --- Out of reach ---


@kernel
def halton(index, base):
    """Return member `index` of the van der Corput sequence of a base, evenly spread in (0, 1)."""
    out, part = 0.0, 1.0 / base
    while index > 0:
        out += part * (index % base)
        index //= base
        part /= base
    return out


@kernel
def sample_last(limb, index, w):
    """Write one of many configurations of the last joint within its limits to BEST + 4; the first is their middle."""
    for m in range(3):
        rest, box = limb[REST + 4 + m], BOX + 8 + 2 * m
        low, high = max(limb[box], rest - math.pi), min(limb[box + 1], rest + math.pi)
        share = 0.5 if index == 0 else halton(index, 2 if m == 0 else 2 * m + 1)
        w[BEST + 4 + m] = low + share * (high - low)


@kernel
def clip_start(limb, box, w):
    """Copy BEST to START, inside limb[box:]."""
    for m in range(7):
        w[START + m] = min(max(w[BEST + m], limb[box + 2 * m]), limb[box + 2 * m + 1])


@kernel
def copy_numbers(w, source, to):
    """Copy seven values."""
    for m in range(7):
        w[to + m] = w[source + m]


@kernel
def solve_with_wrist(limb, shape, root, reference, limited, wanted, elbow, report, w):
    """Reach a position by moving the last joint too; return the status and leave the values in BEST.

    The configuration of the last joint depends only on the position, the base and the limits, not on the preferred
    swivel: all swivel angles of a position belong to one configuration.
    """
    status = NO_SWIVEL
    for index in range(SAMPLES):
        sample_last(limb, index, w)
        set_tip(limb, shape, POSITION, w)
        status = solve_closed_form(limb, shape, root, reference, POSITION, limited, wanted, elbow, report, w)
        if status == REACHED:
            return REACHED
    box = BOX if limited else WIDE
    best = math.inf
    for index in range(16):
        sample_last(limb, index, w)
        set_tip(limb, shape, POSITION, w)
        prepare_circle(limb, shape, root, reference, POSITION, 1 if limited else -1, w)
        fit_joints(limb, shape, 1, 0.4 * index, w)
        clip_start(limb, box, w)
        error = approach(limb, shape, box, POSITION, w)
        if error < best - 1e-15:
            best = error
            copy_numbers(w, START, KEEP)
    for m in range(3):
        w[BEST + 4 + m] = w[KEEP + 4 + m]
    if best <= REGAINED:  # a configuration that the samples missed: now choose the swivel
        set_tip(limb, shape, POSITION, w)
        if solve_closed_form(limb, shape, root, reference, POSITION, limited, wanted, elbow, report, w) == REACHED:
            return REACHED
    copy_numbers(w, KEEP, BEST)
    report[SWIVEL], report[BRANCH] = math.nan, 0.0
    return status


@kernel
def nearest_orientation(limb, shape, root, reference, report, w):
    """With the tip at GOAL, write the nearest orientation to BEST; return False if no swivel angle reaches GOAL."""
    prepare_circle(limb, shape, root, reference, POSE, 1, w)
    best = math.inf
    for branch in range(2):
        if w[BEND_SLACK + branch] < 0.0:
            continue
        other = w[BEND_SLACK + 1 - branch]
        w[BEND_SLACK + 1 - branch] = INFEASIBLE
        count = find_ranges(limb, shape, 1, w)
        forearm_frame(limb, shape, w[BEND + branch], w)
        spin = SPIN + 54 * branch
        for trial in range(10 * min(count, 32)):
            r, share, family = trial // 10, 0.1 + 0.2 * (trial % 10 // 2), trial % 2
            low, high = w[SPANS + 4 * r], w[SPANS + 4 * r + 1]
            phi = low + share * (high - low)
            rotation_at(w, spin + 27, math.cos(phi), math.sin(phi), ROTATION)
            if fit_ball(limb, shape, 1, w, ROTATION, family, BEST + 4) <= INFEASIBLE:
                continue
            clip_start(limb, BOX, w)
            error, phi = orient(limb, shape, spin, low, high, phi, w)
            if error < best - 1e-12:
                best = error
                for m in range(3):
                    w[BEST + 4 + m] = w[START + 4 + m]
                fit_joints(limb, shape, 1, phi, w)
                copy_numbers(w, BEST, KEEP)
                report[SWIVEL], report[BRANCH] = phi, 4.0 * branch
        w[BEND_SLACK + 1 - branch] = other
    copy_numbers(w, KEEP, BEST)
    return best < math.inf


@kernel
def nearest_position(limb, shape, root, reference, report, w):
    """Write to BEST the nearest position within the first joint's limits, and there the nearest orientation."""
    best = math.inf
    for index in range(24):
        if index == 0:
            for m in range(7):
                w[BEST + m] = limb[REST + m]
        else:
            fit_joints(limb, shape, 2, 0.2618 * index, w)
        clip_start(limb, BOX, w)
        error = approach(limb, shape, BOX, POSE, w)
        if error < best - 1e-15:
            best = error
            copy_numbers(w, START, KEEP)
    place_error(limb, shape, POSE, KEEP, w)
    x, y, z = w[RESIDUAL], w[RESIDUAL + 1], w[RESIDUAL + 2]
    w[GOAL], w[GOAL + 1], w[GOAL + 2] = w[GOAL] - x, w[GOAL + 1] - y, w[GOAL + 2] - z
    if not nearest_orientation(limb, shape, root, reference, report, w):  # no swivel angle at all: turn the last joint
        copy_numbers(w, KEEP, START)
        ball_rotation(shape, 0, w, START, ROTATION, AXES)
        for m in range(9):
            w[PARTS + m], w[PARTS + 9 + m], w[PARTS + 18 + m] = 0.0, 0.0, w[ROTATION + m]
        forearm_frame(limb, shape, w[START + 3], w)
        orient(limb, shape, PARTS, 0.0, 0.0, 0.0, w)
        copy_numbers(w, START, BEST)
        report[SWIVEL], report[BRANCH] = math.nan, 0.0
    w[GOAL], w[GOAL + 1], w[GOAL + 2] = w[GOAL] + x, w[GOAL + 1] + y, w[GOAL + 2] + z


# --- Entry points ---

FITS = EXTRA  # (2 branches, 2 ball joints, 2 families, 4): three values and their slack


@entry
def answer_batch(limb, shape, roots, reference, targets, helds, task, limited, wanted, elbows, w, out, reports, status):
    """Solve for every target (t, 12) in closed form: out (t, 7), reports (t, REPORT), status (t,).

    roots (., 12), helds (., 3), wanted (.,) and elbows (., 3) have a row for each target, or one for all. A status of
    BLOCKED or above means that the limits leave no swivel angle; `nearest_batch` then comes as close as possible.
    """
    for t in range(targets.shape[0]):
        root, report = roots[t % roots.shape[0]], reports[t]
        if t == 0 or helds.shape[0] > 1:
            set_target(limb, shape, root, targets[t], helds[t % helds.shape[0]], task, report, w)
        else:  # same last joint: its tip is still there
            set_goal(limb, root, targets[t], task, w)
            report[MOVED] = 0.0
        want, elbow = wanted[t % wanted.shape[0]], elbows[t % elbows.shape[0]]
        found = solve_closed_form(limb, shape, root, reference, task, limited, want, elbow, report, w)
        status[t] = found if found >= BLOCKED else finish(limb, shape, task, limited, found, out[t], report, w)


@entry
def nearest_batch(
    limb, shape, roots, reference, targets, helds, task, limited, wanted, elbows, w, out, reports, status
):
    """Come as close as the limits allow to the targets that `answer_batch` did not reach; same arguments."""
    for t in range(targets.shape[0]):
        found = status[t]
        if found == REACHED or (found < BLOCKED and task == POSE):
            continue
        root, report = roots[t % roots.shape[0]], reports[t]
        set_target(limb, shape, root, targets[t], helds[t % helds.shape[0]], task, report, w)
        if task == POSITION:
            report[MOVED] = 1.0
            want, elbow = wanted[t % wanted.shape[0]], elbows[t % elbows.shape[0]]
            solve_with_wrist(limb, shape, root, reference, limited, want, elbow, report, w)
        elif not nearest_orientation(limb, shape, root, reference, report, w):
            nearest_position(limb, shape, root, reference, report, w)
        status[t] = finish(limb, shape, task, limited, found, out[t], report, w)


@kernel
def fit_branch(limb, shape, branch, balls, swivel, w):
    """Write FITS of a branch: both families of each ball joint at a swivel angle."""
    c, s = math.cos(swivel), math.sin(swivel)
    for ball in range(balls):
        rotation_at(w, SPIN + 54 * branch + 27 * ball, c, s, ROTATION)
        for family in range(2):
            fit = FITS + 4 * (4 * branch + 2 * ball + family)
            w[fit + 3] = fit_ball(limb, shape, ball, w, ROTATION, family, fit)


@kernel
def all_branches(limb, shape, root, reference, target, held, task, swivel, w, out, reports):
    """Write every solution (8, 7) at a swivel angle, regardless of limits; return the status of the reach.

    Row 4 branch + 2 family of the first joint + family of the last; reports[row, SLACK] is INFEASIBLE if there is none.
    """
    set_target(limb, shape, root, target, held, task, reports[0], w)
    status = prepare_circle(limb, shape, root, reference, task, 0, w)
    balls = 2 if task == POSE else 1
    give0, give1 = w[BEND_SLACK], w[BEND_SLACK + 1]
    for branch in range(2):
        if (give0 if branch == 0 else give1) > INFEASIBLE:
            fit_branch(limb, shape, branch, balls, swivel, w)
    for row in range(8):
        branch, report = row // 4, reports[row]
        report[BRANCH], report[SWIVEL], report[SLACK] = row, swivel, INFEASIBLE
        slack = give0 if branch == 0 else give1
        if slack <= INFEASIBLE or (balls == 1 and row % 2 == 1):
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
        if slack > INFEASIBLE:
            measure(limb, shape, task, report, w)
            for m in range(7):
                out[row, m] = limb[SIGN + m] * w[BEST + m]
    return status


@entry
def branches_of(limb, shape, root, reference, target, held, task, swivel, w, out, reports):
    """Write every solution of one target (see `all_branches`)."""
    return all_branches(limb, shape, root, reference, target, held, task, swivel, w, out, reports)


@entry
def branches_batch(limb, shape, root, reference, targets, held, task, swivel, w, out, reports):
    """Write every solution (t, 8, 7) of targets (t, 12) at one swivel angle, with reports (t, 8, REPORT)."""
    for t in range(targets.shape[0]):
        all_branches(limb, shape, root, reference, targets[t], held, task, swivel, w, out[t], reports[t])


@entry
def ranges_of(limb, shape, root, reference, target, held, task, w, out, report):
    """Write the swivel ranges (RANGES, 4) that respect every limit; return (status of the reach, count)."""
    set_target(limb, shape, root, target, held, task, report, w)
    status = prepare_circle(limb, shape, root, reference, task, 1, w)
    count = find_ranges(limb, shape, 2 if task == POSE else 1, w)
    for r in range(count):
        for m in range(4):
            out[r, m] = w[SPANS + 4 * r + m]
    return status, count


@entry
def circle_of(limb, shape, root, reference, target, held, task, w, out, report):
    """Write the elbow circle (13,) in the world: centre, radius, normal, u, v."""
    set_target(limb, shape, root, target, held, task, report, w)
    distance = circle_frame(root, reference, w)
    solve_bend(limb, shape, distance, False, w)
    triangle_frame(limb, shape, 0, w)
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
    """Write the swivel angles (t,) of raw values (t, 7), about the last joint or, for POSITION, the site."""
    for t in range(numbers.shape[0]):
        root = roots[t % roots.shape[0]]
        for m in range(7):
            w[BEST + m] = numbers[t, m]
        set_tip(limb, shape, task, w)
        for m in range(3):
            w[GOAL + m] = 0.0
        place_error(limb, shape, task, BEST, w)
        for m in range(3):
            w[GOAL + m] = -w[RESIDUAL + m]
        straight, _, _ = reach_interval(limb, shape, w)
        side = math.sin(w[BEST + 3] - straight)
        w[BEND_SLACK], w[BEND_SLACK + 1] = 0.0, 0.0
        if abs(side) < 1e-12:
            drop_infeasible_branch(straight, limb[BOX + 6], limb[BOX + 7], w)
        branch = 1 if side < -1e-12 or w[BEND_SLACK] <= INFEASIBLE else 0
        w[BEND + branch] = w[BEST + 3]
        circle_frame(root, reference, w)
        triangle_frame(limb, shape, branch, w)
        ball_rotation(shape, 0, w, BEST, ROTATION, AXES)
        x, y, z = rotate(w, ROTATION, w[ELBOW], w[ELBOW + 1], w[ELBOW + 2])
        out[t] = math.atan2(w[V] * x + w[V + 1] * y + w[V + 2] * z, w[U] * x + w[U + 1] * y + w[U + 2] * z)


@entry
def distance_batch(limb, shape, numbers, w, out):
    """Write the distances (t,) [m] of the site from the first joint at raw values (t, 7)."""
    for t in range(numbers.shape[0]):
        for m in range(7):
            w[BEST + m] = numbers[t, m]
        for m in range(3):
            w[GOAL + m] = 0.0
        out[t] = place_error(limb, shape, POSITION, BEST, w)
