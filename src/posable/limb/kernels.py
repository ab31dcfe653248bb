"""Kernels of the limb that Python calls: batches of solutions, every branch, swivel ranges, circles and angles."""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel
from posable.limb.ball_ik import INFEASIBLE, NO_LIMIT, SINGULAR, ball_rotation, fit_ball, put_vector, rotate, slack_of
from posable.limb.circle import (
    AXES,
    BEND,
    BEND_SLACK,
    BEST,
    BLOCKED,
    ELBOW,
    EXTRA,
    FOREARM,
    GOAL,
    MISS,
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
    TIP,
    TOWARDS,
    TRIAL,
    U,
    V,
    circle_frame,
    drop_infeasible_branch,
    find_ranges,
    forearm_frame,
    length_at,
    nearest_in_ranges,
    reach_interval,
    rotation_at,
    set_goal,
    solve_bend,
    swivel_branch,
    triangle_frame,
)
from posable.limb.srs_chain import BOX, LOWER, LOWER_TURN, SIGN, TOOL, UPPER, UPPER_TURN

# --- One limb ---

EXACT = 1e-9  # [m per limb length, rad]: what `ok` allows

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
        x, y, z = rotate(w, ROTATION, limb[TOOL], limb[TOOL + 1], limb[TOOL + 2])
        for row in range(3):
            o = LOWER_TURN + 3 * row
            w[TIP + row] = w[TIP + row] + limb[o] * x + limb[o + 1] * y + limb[o + 2] * z


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
        phi = nearest_in_ranges(w, SPANS, 4, count, wanted)
    fit_at_swivel(limb, shape, balls, count, phi, limited, report, w)
    return status


@kernel
def rotate_forearm(w, x, y, z):
    """Return a vector of the last joint's rest frame in the rest frame of the first joint, turned by ROTATION."""
    x, y, z = rotate(w, FOREARM, x, y, z)
    return rotate(w, ROTATION, x, y, z)


@kernel
def swing_axis(w, m, x, y, z):
    """Replace axis m of AXES by the velocity of a point at (x, y, z) from it."""
    o = AXES + 3 * m
    p, q, r = w[o], w[o + 1], w[o + 2]
    put_vector(w, o, q * z - r * y, r * x - p * z, p * y - q * x)


@kernel
def place_error(limb, shape, task, at, w):
    """Write RESIDUAL [m], from the tip to the goal, and AXES (7, 3), the velocities of the tip; return the distance.

    The seven values are w[at:]. The tip is the last joint (POSE) or the site, moved by the last joint (POSITION).
    """
    k = shape[2, 0]
    u, v = (k + 1) % 3, (k + 2) % 3
    sx, sy, sz = 0.0, 0.0, 0.0  # last joint to tip
    if task == POSITION:
        ball_rotation(shape, 1, w, at + 4, ROTATION, AXES + 12)
        sx, sy, sz = rotate(w, ROTATION, limb[TOOL], limb[TOOL + 1], limb[TOOL + 2])
    forearm_frame(limb, shape, w[at + 3], w)
    ball_rotation(shape, 0, w, at, ROTATION, AXES)
    s, c = math.sin(w[at + 3]), math.cos(w[at + 3])
    lu, lv, lk = c * limb[LOWER + u] - s * limb[LOWER + v], s * limb[LOWER + u] + c * limb[LOWER + v], limb[LOWER + k]
    sx, sy, sz = rotate(w, FOREARM, sx, sy, sz)
    o = UPPER_TURN
    fx = limb[o + u] * lu + limb[o + v] * lv + limb[o + k] * lk + sx  # elbow to tip, in the first body
    fy = limb[o + 3 + u] * lu + limb[o + 3 + v] * lv + limb[o + 3 + k] * lk + sy
    fz = limb[o + 6 + u] * lu + limb[o + 6 + v] * lv + limb[o + 6 + k] * lk + sz
    fx, fy, fz = rotate(w, ROTATION, fx, fy, fz)
    ex, ey, ez = rotate(w, ROTATION, limb[UPPER], limb[UPPER + 1], limb[UPPER + 2])
    x, y, z = ex + fx, ey + fy, ez + fz
    for m in range(3):
        swing_axis(w, m, x, y, z)
    p, q, r = rotate(w, ROTATION, limb[o + k], limb[o + 3 + k], limb[o + 6 + k])
    put_vector(w, AXES + 9, p, q, r)
    swing_axis(w, 3, fx, fy, fz)
    sx, sy, sz = rotate(w, ROTATION, sx, sy, sz)
    for m in range(4, 7):
        p, q, r = 0.0, 0.0, 0.0
        if task == POSITION:
            p, q, r = rotate_forearm(w, w[AXES + 3 * m], w[AXES + 3 * m + 1], w[AXES + 3 * m + 2])
        put_vector(w, AXES + 3 * m, p, q, r)
        swing_axis(w, m, sx, sy, sz)
    put_vector(w, RESIDUAL, w[GOAL] - x, w[GOAL + 1] - y, w[GOAL + 2] - z)
    return length_at(w, RESIDUAL)


@kernel
def turn_error(shape, spin, phi, at, w):
    """Write RESIDUAL, the rotation vector from the last body to its goal, and AXES (4, 3): of phi, of the last joint.

    The first joint is w[spin:] at phi, the last joint's values are w[at:]. Return the angle [rad].
    """
    rotation_at(w, spin, math.cos(phi), math.sin(phi), ROTATION)
    ball_rotation(shape, 1, w, at, SPARE, AXES + 3)
    for m in range(1, 4):
        p, q, r = rotate_forearm(w, w[AXES + 3 * m], w[AXES + 3 * m + 1], w[AXES + 3 * m + 2])
        put_vector(w, AXES + 3 * m, p, q, r)
    put_vector(w, AXES, w[NORMAL], w[NORMAL + 1], w[NORMAL + 2])
    # the goal frame times the transpose of ours: trace and skew part
    trace, x, y, z = 0.0, 0.0, 0.0, 0.0
    for column in range(3):
        p, q, r = rotate_forearm(w, w[SPARE + column], w[SPARE + 3 + column], w[SPARE + 6 + column])
        a, b, c = w[GOAL + 3 + column], w[GOAL + 6 + column], w[GOAL + 9 + column]
        trace += a * p + b * q + c * r
        x, y, z = x + (q * c - r * b), y + (r * a - p * c), z + (p * b - q * a)
    put_vector(w, MISS, x, y, z)
    s = length_at(w, MISS)
    angle = math.atan2(s, trace - 1.0)
    factor = angle / s if s > 1e-12 else 0.5
    put_vector(w, RESIDUAL, x * factor, y * factor, z * factor)
    return angle


@kernel
def fix_first(w):
    """Write PARTS: the first joint's rotation ROTATION, at every swivel angle."""
    for m in range(9):
        w[PARTS + m], w[PARTS + 9 + m], w[PARTS + 18 + m] = 0.0, 0.0, w[ROTATION + m]


@kernel
def measure(limb, shape, task, report, w):
    """Write the errors of BEST from its own forward kinematics; return whether it is exact."""
    size = 0.0
    for m in range(3):
        size += abs(limb[m]) + abs(limb[LOWER + m])
    place = place_error(limb, shape, task, BEST, w)
    turn = 0.0
    if task == POSE:  # the first joint's rotation, left by place_error, as constant parts
        fix_first(w)
        turn = turn_error(shape, PARTS, 0.0, BEST + 4, w)
    report[PLACE_ERROR], report[TURN_ERROR] = place, turn
    return place <= EXACT * size and turn <= EXACT


@kernel
def write_best(limb, limited, out, w):
    """Clip BEST to the limits if they hold, and write the figure's values out (7,); return the slack."""
    for m in range(7):
        if limited:
            w[BEST + m] = min(max(w[BEST + m], limb[BOX + 2 * m]), limb[BOX + 2 * m + 1])
        out[m] = limb[SIGN + m] * w[BEST + m]
    return slack_of(limb, 0, 7, w, BEST)


@kernel
def finish(limb, shape, task, limited, status, out, report, w):
    """Clip BEST to the limits, measure it, write the figure's seven values; return the status."""
    report[SLACK] = write_best(limb, limited, out, w)
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


@kernel
def fit_branch(limb, shape, branch, balls, swivel, w):
    """Write FITS of a branch: both families of each ball joint at a swivel angle."""
    c, s = math.cos(swivel), math.sin(swivel)
    for ball in range(balls):
        rotation_at(w, SPIN + 54 * branch + 27 * ball, c, s, ROTATION)
        for family in range(2):
            fit = FITS + 4 * (4 * branch + 2 * ball + family)
            w[fit + 3] = fit_ball(limb, shape, ball, w, ROTATION, family, fit)


@entry
def branches_of(limb, shape, root, reference, target, held, task, w, swivel, out, reports):
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


@kernel
def write_ranges(limb, shape, balls, w, out):
    """Write the swivel ranges (RANGES, 4) of the prepared circle that respect every limit; return their count."""
    count = find_ranges(limb, shape, balls, w)
    for r in range(count):
        for m in range(4):
            out[r, m] = w[SPANS + 4 * r + m]
    return count


@entry
def ranges_of(limb, shape, root, reference, target, held, task, w, out, report):
    """Write the swivel ranges (RANGES, 4) that respect every limit; return (status of the reach, count)."""
    set_target(limb, shape, root, target, held, task, report, w)
    status = prepare_circle(limb, shape, root, reference, task, 1, w)
    return status, write_ranges(limb, shape, 2 if task == POSE else 1, w, out)


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
