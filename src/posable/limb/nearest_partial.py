"""Partial orientations that are out of reach: the nearest position of the site, then the nearest direction of its axis.

Position has priority over direction (Tolani et al. 2000, table 3). If the site reaches the position, four values
remain: the three of the last joint, and the swivel angle. At a given configuration of the last joint, the best swivel
angle has a closed form: the cosine between axis and direction is a cos(phi) + b sin(phi) + c, so it is the valid angle
nearest to atan2(b, a). Many configurations of the last joint are sampled, and the best are refined over all seven
values. If the position itself is out of reach, the samples are poses that come closest to it.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.limb.ball_ik import INFEASIBLE, ball_rotation, put_vector
from posable.limb.circle import (
    AXES,
    BEND,
    BEND_SLACK,
    BEST,
    EXTRA,
    FOREARM,
    GOAL,
    LIMITS,
    POSITION,
    REACHED,
    RESIDUAL,
    ROTATION,
    SPANS,
    SPARE,
    SPIN,
    START,
    STEP,
    find_ranges,
    forearm_frame,
    length_at,
    nearest_in_ranges,
)
from posable.limb.kernels import clip_start, copy_numbers, fit_joints, halton, prepare_circle, sample_last, set_tip
from posable.limb.nearest import (
    KEPT,
    LIST,
    MISSED,
    RATES,
    SAME_PLACE,
    add_candidate,
    approach,
    bounded_step,
    clear_candidates,
    place_error,
    rotate,
)
from posable.limb.srs_chain import BOX, LOWER, REST, TOOL_TURN, UPPER, UPPER_TURN, WIDE

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
    ax, ay, az = rotate(w, FOREARM, ax, ay, az)
    ax, ay, az = rotate(w, ROTATION, ax, ay, az)
    k = UPPER_TURN + shape[2, 0]
    x, y, z = rotate(w, ROTATION, limb[k], limb[k + 3], limb[k + 6])
    put_vector(w, AXES + 9, x, y, z)
    for m in range(4, 7):
        o = AXES + 3 * m
        x, y, z = rotate(w, FOREARM, w[o], w[o + 1], w[o + 2])
        x, y, z = rotate(w, ROTATION, x, y, z)
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
        for m in range(7):
            w[START + m] = min(max(w[START + m] + w[STEP + m], limb[box + 2 * m]), limb[box + 2 * m + 1])
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
                prime = 2 if m == 0 else (3 if m == 1 else (2 * m + 1 if m < 4 else 2 * m + 3 if m < 6 else 17))
                w[BEST + m] = low + halton(index - SPREAD + 1, prime) * (high - low)
        clip_start(limb, box, w)
        miss = approach(limb, shape, box, POSITION, w)
        add_candidate(miss, axis_error(limb, shape, START, w), START, w)


@kernel
def nearest_partial(limb, shape, root, reference, axis, place, along, held, limited, w):
    """Leave in BEST the values whose site is nearest to a position (3,) [m], then its axis to a direction (3,).

    held (3,): the first configuration of the last joint. Return the errors in position [m] and direction [rad].
    """
    for m in range(3):
        o = TOOL_TURN + 3 * m
        w[AXIS + m] = limb[o] * axis[0] + limb[o + 1] * axis[1] + limb[o + 2] * axis[2]
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
        for m in range(7):
            w[START + m] = w[LIST + 10 * row + 2 + m]
        if limited:
            for m in range(7):
                w[START + m] = min(max(w[START + m], limb[box + 2 * m]), limb[box + 2 * m + 1])
        for m in range(3):
            w[GOAL + m] = w[PLACE + m]
        place_error(limb, shape, POSITION, START, w)
        if least > SAME_PLACE:  # out of reach: keep the site at the nearest position found
            for m in range(3):
                w[GOAL + m] -= w[RESIDUAL + m]
        angle = refine(limb, shape, box, size, w)
        if angle < best:
            best = angle
            copy_numbers(w, START, BEST)
    for m in range(3):
        w[GOAL + m] = w[PLACE + m]
    return place_error(limb, shape, POSITION, BEST, w), best
