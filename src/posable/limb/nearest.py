"""The pose within the limits that comes closest to an unreachable goal (Tolani et al. 2000, 3.2.4).

First the position is minimised over all seven values; then, with the position kept, the orientation over the four that
remain: the swivel angle and the three values of the last joint. Both are least-squares problems with three residuals
and a box, solved by damped steps in the three-dimensional dual.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel
from posable.limb.ball_ik import INFEASIBLE, ball_rotation, copy_numbers, fit_ball, put_vector
from posable.limb.circle import (
    AXES,
    BEND,
    BEND_SLACK,
    BEST,
    BLOCKED,
    EXTRA,
    FOREARM,
    GOAL,
    KEEP,
    LIMITS,
    NO_SWIVEL,
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
    STATE,
    STEP,
    TRIAL,
    find_ranges,
    forearm_frame,
    length_at,
    nearest_in_ranges,
    rotation_at,
)
from posable.limb.kernels import (
    BRANCH,
    MOVED,
    SWIVEL,
    finish,
    fit_joints,
    fix_first,
    place_error,
    prepare_circle,
    rotate,
    rotate_forearm,
    set_target,
    set_tip,
    solve_closed_form,
    turn_error,
)
from posable.limb.srs_chain import BOX, LOWER, REST, TOOL_TURN, UPPER, UPPER_TURN, WIDE

STEPS = 120
SAME_PLACE = 1e-9  # [m]: closer positions count as one
KEPT = 12  # samples that are refined
CLOSE = 0.4  # [rad]: closer samples are refined as one
RATES = EXTRA + 97  # (7, 3): velocities of the site
MISSED = EXTRA + 118  # 3 [m]: from the site to its goal
NORMALS = EXTRA + 121  # (7, 7): normal equations of a step
BOUND = EXTRA + 170  # 8 [rad]: the steps of the values that go to a bound
LIST = EXTRA + 178  # (KEPT, 10): miss [m], angle [rad], seven values
REGAINED = 1e-11  # [m]: error at which an approach counts as reached
PRIMES = (2, 3, 5, 7, 11, 13, 17)  # bases of the samples of seven values
SAMPLES = 64  # configurations of the last joint to try if the given one does not reach


@kernel
def damped_step(count, w, x, damping):
    """Write STEP = J' (J J' + damping)^-1 r over the free values; the rows of AXES are the columns of J.

    w[x + m] is within LIMITS; a value at its bound stays there if RESIDUAL r pushes it out. Return the largest step.
    """
    r0, r1, r2 = w[RESIDUAL], w[RESIDUAL + 1], w[RESIDUAL + 2]
    a, b, c, d, e, f = damping, 0.0, 0.0, damping, 0.0, damping
    for m in range(count):
        u, v, t = w[AXES + 3 * m], w[AXES + 3 * m + 1], w[AXES + 3 * m + 2]
        push = u * r0 + v * r1 + t * r2
        low, high = w[LIMITS + 2 * m], w[LIMITS + 2 * m + 1]
        stuck = (push > 0.0 and w[x + m] >= high) or (push < 0.0 and w[x + m] <= low)
        w[STEP + m] = 0.0 if stuck else 1.0
        if not stuck:
            a, b, c, d, e, f = a + u * u, b + u * v, c + u * t, d + v * v, e + v * t, f + t * t
    # the inverse of a symmetric 3x3 by cofactors
    p, q, s = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * p + b * q + c * s
    if not det > 0.0:
        return 0.0
    y0 = (p * r0 + q * r1 + s * r2) / det
    y1 = (q * r0 + (a * f - c * c) * r1 + (b * c - a * e) * r2) / det
    y2 = (s * r0 + (b * c - a * e) * r1 + (a * d - b * b) * r2) / det
    largest = 0.0
    for m in range(count):
        step = w[STEP + m] * (w[AXES + 3 * m] * y0 + w[AXES + 3 * m + 1] * y1 + w[AXES + 3 * m + 2] * y2)
        w[STEP + m] = step
        largest = max(largest, abs(step))
    return largest


@kernel
def take_step(count, at, to, w):
    """Write the seven values w[at:], the first `count` of them moved by STEP within LIMITS, to w[to:]."""
    copy_numbers(w, at, to)
    for m in range(count):
        w[to + m] = min(max(w[at + m] + w[STEP + m], w[LIMITS + 2 * m]), w[LIMITS + 2 * m + 1])


@kernel
def approach(limb, shape, box, task, w):
    """Move the values at START within limb[box:] until the tip is nearest to its goal; return the distance."""
    for m in range(14):
        w[LIMITS + m] = limb[box + m]
    error = place_error(limb, shape, task, START, w)
    size = length_at(w, GOAL) + 1e-3
    damping = 1e-4 * size * size
    for _ in range(STEPS):
        if error < 1e-14 * size or damping > 1e12 * size * size:
            break
        if damped_step(7, w, START, damping) < 1e-13:
            break
        take_step(7, START, TRIAL, w)
        after = place_error(limb, shape, task, TRIAL, w)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-16 * size * size)
            copy_numbers(w, TRIAL, START)
        else:
            damping *= 6.0
            place_error(limb, shape, task, START, w)
    return error


@kernel
def orient(limb, shape, spin, low, high, phi, w):
    """Turn phi in [low, high] and the values at START + 4, within their limits, towards the goal's orientation.

    Return the remaining angle and phi. FOREARM must be that of the branch.
    """
    w[LIMITS], w[LIMITS + 1] = low, high
    w[STATE] = phi
    for m in range(3):
        w[LIMITS + 2 + 2 * m], w[LIMITS + 3 + 2 * m] = limb[BOX + 8 + 2 * m], limb[BOX + 9 + 2 * m]
        w[STATE + 1 + m] = w[START + 4 + m]
    error = turn_error(shape, spin, phi, STATE + 1, w)
    damping = 1e-4
    for _ in range(STEPS):
        if error < 1e-14 or damping > 1e10:
            break
        if damped_step(4, w, STATE, damping) < 1e-12:
            break
        take_step(4, STATE, TRIAL, w)
        after = turn_error(shape, spin, w[TRIAL], TRIAL + 1, w)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-14)
            copy_numbers(w, TRIAL, STATE)
        else:
            damping *= 6.0
            turn_error(shape, spin, w[STATE], STATE + 1, w)
    for m in range(3):
        w[START + 4 + m] = w[STATE + 1 + m]
    return error, w[STATE]


# --- Positions and poses out of reach ---


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
        share = 0.5 if index == 0 else halton(index, PRIMES[m])
        w[BEST + 4 + m] = low + share * (high - low)


@kernel
def start_from(limb, box, source, values, w):
    """Copy seven values[source:] to START, inside limb[box:]."""
    for m in range(7):
        w[START + m] = min(max(values[source + m], limb[box + 2 * m]), limb[box + 2 * m + 1])


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
        start_from(limb, box, BEST, w, w)
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
            start_from(limb, BOX, BEST, w, w)
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
            start_from(limb, BOX, REST, limb, w)
        else:
            fit_joints(limb, shape, 2, 0.2618 * index, w)
            start_from(limb, BOX, BEST, w, w)
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
        fix_first(w)
        forearm_frame(limb, shape, w[START + 3], w)
        orient(limb, shape, PARTS, 0.0, 0.0, 0.0, w)
        copy_numbers(w, START, BEST)
        report[SWIVEL], report[BRANCH] = math.nan, 0.0
    w[GOAL], w[GOAL + 1], w[GOAL + 2] = w[GOAL] + x, w[GOAL + 1] + y, w[GOAL + 2] + z


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


# --- Candidates, and the step that refines them ---


@kernel
def clear_candidates(w):
    """Empty LIST."""
    for row in range(KEPT):
        w[LIST + 10 * row] = math.inf


@kernel
def add_candidate(miss, angle, at, w):
    """Insert seven values w[at:] into LIST, sorted by miss, then angle; of close ones only the best is kept."""
    r, last = 0, KEPT - 1
    while r < KEPT:
        o = LIST + 10 * r
        if miss < w[o] - SAME_PLACE or (miss < w[o] + SAME_PLACE and angle < w[o + 1]):
            break
        if are_close(o + 2, at, w):
            return
        r += 1
    for row in range(r, KEPT):  # drop a close one that is worse
        if w[LIST + 10 * row] < math.inf and are_close(LIST + 10 * row + 2, at, w):
            last = row
            break
    if r == KEPT:
        return
    for row in range(last, r, -1):
        for m in range(9):
            w[LIST + 10 * row + m] = w[LIST + 10 * (row - 1) + m]
    w[LIST + 10 * r], w[LIST + 10 * r + 1] = miss, angle
    for m in range(7):
        w[LIST + 10 * r + 2 + m] = w[at + m]


@kernel
def are_close(a, b, w):
    """Return whether seven values at w[a:] and w[b:] differ by less than CLOSE each."""
    for m in range(7):
        if abs(w[a + m] - w[b + m]) > CLOSE:
            return False
    return True


@kernel
def factor_and_solve(count, w, matrix, right):
    """Solve a symmetric positive definite system (count, count) at w[matrix:] for w[right:] in place, by Cholesky."""
    for i in range(count):
        for j in range(i + 1):
            total = w[matrix + 7 * i + j]
            for k in range(j):
                total -= w[matrix + 7 * i + k] * w[matrix + 7 * j + k]
            if i == j:
                w[matrix + 8 * i] = math.sqrt(max(total, 1e-300))
            else:
                w[matrix + 7 * i + j] = total / w[matrix + 8 * j]
    for i in range(count):
        for k in range(i):
            w[right + i] -= w[matrix + 7 * i + k] * w[right + k]
        w[right + i] /= w[matrix + 8 * i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            w[right + i] -= w[matrix + 7 * k + i] * w[right + k]
        w[right + i] /= w[matrix + 8 * i]


@kernel
def coupling(i, j, stiff, w):
    """Return entry (i, j) of the normal equations that turn the axis (AXES) and keep the site in place (RATES)."""
    turn, place = 0.0, 0.0
    for m in range(3):
        turn += w[AXES + 3 * i + m] * w[AXES + 3 * j + m]
        if stiff > 0.0:
            place += w[RATES + 3 * i + m] * w[RATES + 3 * j + m]
    return turn + stiff * place


@kernel
def bounded_step(count, stiff, at, damping, w):
    """Write the damped least-squares STEP of `count` values w[at:] within LIMITS; return the largest.

    It turns the axis (AXES, RESIDUAL) and, if stiff > 0, keeps the site in place (RATES, MISSED). A value that would
    leave its limits goes to its bound, the farthest first, and the others are solved again.
    """
    held = 0
    for m in range(count):
        w[BOUND + m] = 0.0
    for _ in range(count + 1):
        for i in range(count):
            if held >> i & 1:
                for j in range(i):
                    w[NORMALS + 7 * i + j] = 0.0
                w[NORMALS + 8 * i], w[STEP + i] = 1.0, w[BOUND + i]
                continue
            right = 0.0
            for m in range(3):
                right += w[AXES + 3 * i + m] * w[RESIDUAL + m]
                if stiff > 0.0:
                    right += stiff * w[RATES + 3 * i + m] * w[MISSED + m]
            for j in range(count):
                if held >> j & 1:
                    right -= coupling(i, j, stiff, w) * w[BOUND + j]
                if j <= i:
                    w[NORMALS + 7 * i + j] = 0.0 if held >> j & 1 else coupling(i, j, stiff, w)
            w[NORMALS + 8 * i] += damping
            w[STEP + i] = right
        factor_and_solve(count, w, NORMALS, STEP)
        worst, out = 1e-15, -1
        for i in range(count):
            x, step = w[at + i], w[STEP + i]
            over = max(x + step - w[LIMITS + 2 * i + 1], w[LIMITS + 2 * i] - x - step)
            if held >> i & 1 == 0 and over > worst:
                worst, out = over, i
        if out < 0:
            break
        held |= 1 << out
        side = LIMITS + 2 * out + (1 if w[STEP + out] > 0.0 else 0)
        w[BOUND + out] = w[side] - w[at + out]
    largest = 0.0
    for i in range(count):
        largest = max(largest, abs(w[STEP + i]))
    return largest


# --- Partial orientations out of reach ---
#
# Position has priority over direction (Tolani et al. 2000, table 3). If the site reaches the position, the last joint
# and the swivel angle remain. For a configuration of the last joint the best swivel angle has a closed form: the cosine
# between axis and direction is a cos(phi) + b sin(phi) + c, so it is the valid angle nearest to atan2(b, a). Many
# configurations are sampled, and the best are refined over all seven values. If the position itself is out of reach,
# the samples are poses that come closest to it.

HOLDS = 96  # sampled configurations of the last joint
SPREAD = 40  # poses from which the position is approached if no sample reaches it
REFINEMENTS = 80
STIFF = 1e8  # stiffness of the position relative to the direction, per limb length squared

DIRECTION = EXTRA + 80  # 3: wanted direction of the axis, in the first joint's rest frame
AXIS = EXTRA + 83  # 3: the axis, in the last body
PLACE = EXTRA + 86  # 3 [m]: wanted position, in the first joint's rest frame
BACKUP = EXTRA + 89  # 8: values to return to


@kernel
def axis_error(limb, shape, at, w):
    """Write RESIDUAL, the rotation vector from the axis to DIRECTION, and AXES (7, 3); return the angle [rad].

    The seven values are w[at:]. The rows of AXES are their angular velocities without the part along the axis.
    """
    ball_rotation(shape, 1, w, at + 4, SPARE, AXES + 12)
    ax, ay, az = rotate(w, SPARE, w[AXIS], w[AXIS + 1], w[AXIS + 2])
    forearm_frame(limb, shape, w[at + 3], w)
    ball_rotation(shape, 0, w, at, ROTATION, AXES)
    ax, ay, az = rotate_forearm(w, ax, ay, az)
    k = UPPER_TURN + shape[2, 0]
    x, y, z = rotate(w, ROTATION, limb[k], limb[k + 3], limb[k + 6])
    put_vector(w, AXES + 9, x, y, z)
    for m in range(4, 7):
        o = AXES + 3 * m
        x, y, z = rotate_forearm(w, w[o], w[o + 1], w[o + 2])
        put_vector(w, o, x, y, z)
    for m in range(7):
        o = AXES + 3 * m
        along = w[o] * ax + w[o + 1] * ay + w[o + 2] * az
        put_vector(w, o, w[o] - along * ax, w[o + 1] - along * ay, w[o + 2] - along * az)
    tx, ty, tz = w[DIRECTION], w[DIRECTION + 1], w[DIRECTION + 2]
    put_vector(w, RESIDUAL, ay * tz - az * ty, az * tx - ax * tz, ax * ty - ay * tx)
    sine, cosine = length_at(w, RESIDUAL), ax * tx + ay * ty + az * tz
    angle = math.atan2(sine, cosine)
    factor = angle / sine if sine > 1e-12 else 1.0
    put_vector(w, RESIDUAL, factor * w[RESIDUAL], factor * w[RESIDUAL + 1], factor * w[RESIDUAL + 2])
    return angle


@kernel
def refine(limb, shape, box, size, w):
    """Turn the axis of the values at START towards DIRECTION with the site at GOAL; return the remaining angle."""
    stiff, damping = STIFF / (size * size), 1e-3
    for m in range(14):
        w[LIMITS + m] = limb[box + m]
    angle = axis_error(limb, shape, START, w)
    for _ in range(REFINEMENTS):
        if angle < 1e-13 or damping > 1e8:
            break
        place_error(limb, shape, POSITION, START, w)
        for m in range(21):
            w[RATES + m] = w[AXES + m]
        for m in range(3):
            w[MISSED + m] = w[RESIDUAL + m]
        axis_error(limb, shape, START, w)
        if bounded_step(7, stiff, START, damping, w) < 1e-11:
            break
        copy_numbers(w, START, BACKUP)
        take_step(7, BACKUP, START, w)
        miss = approach(limb, shape, box, POSITION, w)
        after = axis_error(limb, shape, START, w)
        if miss <= SAME_PLACE * size and after < angle:
            angle, damping = after, max(0.2 * damping, 1e-10)
        else:
            copy_numbers(w, BACKUP, START)
            damping *= 5.0
    return angle


@kernel
def sample_hold(limb, index, w):
    """Write one of many configurations of the last joint to BEST + 4: corners and middles of its limits, then between.

    In the best solutions it is usually at its limits. Index 0 leaves it unchanged.
    """
    if index == 0:
        return
    if index > 27:
        sample_last(limb, index - 27, w)
        return
    code = index - 1
    for m in range(3):
        rest, box = limb[REST + 4 + m], BOX + 8 + 2 * m
        low, high = max(limb[box], rest - math.pi), min(limb[box + 1], rest + math.pi)
        w[BEST + 4 + m] = low + 0.5 * (code % 3) * (high - low)
        code //= 3


@kernel
def sample_wrists(limb, shape, root, reference, limited, w):
    """Insert into LIST the best swivel angle of many configurations of the last joint, with the site at PLACE."""
    for index in range(HOLDS):
        sample_hold(limb, index, w)
        set_tip(limb, shape, POSITION, w)
        x, y, z = rotate(w, ROTATION, w[AXIS], w[AXIS + 1], w[AXIS + 2])
        if prepare_circle(limb, shape, root, reference, POSITION, 1 if limited else 0, w) != REACHED:
            continue
        give0, give1 = w[BEND_SLACK], w[BEND_SLACK + 1]
        for branch in range(2):
            w[BEND_SLACK], w[BEND_SLACK + 1] = (give0, INFEASIBLE) if branch == 0 else (INFEASIBLE, give1)
            if w[BEND_SLACK + branch] <= INFEASIBLE:
                continue
            count = find_ranges(limb, shape, 1, w) if limited else 1
            forearm_frame(limb, shape, w[BEND + branch], w)
            p, q, r = rotate(w, FOREARM, x, y, z)
            a, b, c = 0.0, 0.0, 0.0
            for m in range(3):
                o, t = SPIN + 54 * branch + 3 * m, w[DIRECTION + m]
                a += t * (w[o] * p + w[o + 1] * q + w[o + 2] * r)
                b += t * (w[o + 9] * p + w[o + 10] * q + w[o + 11] * r)
                c += t * (w[o + 18] * p + w[o + 19] * q + w[o + 20] * r)
            if count == 0:
                continue
            phi = math.atan2(b, a)
            if limited:
                phi = nearest_in_ranges(w, SPANS, 4, count, phi)
            fit_joints(limb, shape, 1, phi, w)
            cosine = a * math.cos(phi) + b * math.sin(phi) + c
            add_candidate(0.0, math.acos(min(max(cosine, -1.0), 1.0)), BEST, w)


@kernel
def sample_approaches(limb, shape, root, reference, limited, w):
    """Insert into LIST poses that come closest to PLACE, from many starts."""
    box = BOX if limited else WIDE
    for index in range(2 * SPREAD):
        if index < SPREAD:
            sample_last(limb, index, w)
            set_tip(limb, shape, POSITION, w)
            prepare_circle(limb, shape, root, reference, POSITION, 1 if limited else -1, w)
            fit_joints(limb, shape, 1, 2.4 * index, w)
        else:
            for m in range(7):
                rest = limb[REST + m]
                low, high = max(limb[BOX + 2 * m], rest - math.pi), min(limb[BOX + 2 * m + 1], rest + math.pi)
                w[BEST + m] = low + halton(index - SPREAD + 1, PRIMES[m]) * (high - low)
        start_from(limb, box, BEST, w, w)
        miss = approach(limb, shape, box, POSITION, w)
        add_candidate(miss, axis_error(limb, shape, START, w), START, w)


@kernel
def nearest_partial(limb, shape, root, reference, axis, place, along, held, limited, w):
    """Leave in BEST the values whose site is nearest to a position (3,) [m], then its axis to a direction (3,).

    held (3,): the first configuration of the last joint.
    """
    x, y, z = rotate(limb, TOOL_TURN, axis[0], axis[1], axis[2])
    put_vector(w, AXIS, x, y, z)
    for m in range(3):
        w[DIRECTION + m], w[PLACE + m] = 0.0, 0.0
        for i in range(3):
            w[DIRECTION + m] += root[3 + 3 * i + m] * along[i]
            w[PLACE + m] += root[3 + 3 * i + m] * (place[i] - root[i])
        w[GOAL + m] = w[PLACE + m]
        w[BEST + 4 + m] = held[m]
    clear_candidates(w)
    sample_wrists(limb, shape, root, reference, limited, w)
    if w[LIST] == math.inf:
        sample_approaches(limb, shape, root, reference, limited, w)
    box, size = BOX if limited else WIDE, length_at(limb, UPPER) + length_at(limb, LOWER)
    best, least = math.inf, w[LIST]
    for row in range(KEPT):
        if w[LIST + 10 * row] > least + 2.0 * SAME_PLACE:
            break
        start_from(limb, box, LIST + 10 * row + 2, w, w)
        if least > SAME_PLACE:  # out of reach: keep the site at the nearest position found
            put_vector(w, GOAL, w[PLACE], w[PLACE + 1], w[PLACE + 2])
            place_error(limb, shape, POSITION, START, w)
            for m in range(3):
                w[GOAL + m] -= w[RESIDUAL + m]
        angle = refine(limb, shape, box, size, w)
        if angle < best:
            best = angle
            copy_numbers(w, START, BEST)
    put_vector(w, GOAL, w[PLACE], w[PLACE + 1], w[PLACE + 2])
