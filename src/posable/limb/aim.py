"""Aiming an axis of the site at a point, with the last joint fixed (Tolani et al. 2000, 3.4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posable.engine.jit import entry, kernel
from posable.errors import GoalError
from posable.limb.ball_ik import INFEASIBLE, ball_rotation, fit_ball, put_vector, slack_in, slack_of
from posable.limb.base import (
    LimbCore,
    common_lead,
    in_rows_of,
    leading_axes,
    preferences,
    read_direction,
    read_numbers,
    run_batch,
)
from posable.limb.circle import (
    AXES,
    BEND,
    BEND_SLACK,
    BEST,
    BLOCKED,
    EXTRA,
    GOAL,
    LIMITS,
    MISS,
    NO_SWIVEL,
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
    TOO_NEAR,
    TRIAL,
    circle_frame,
    find_ranges,
    nearest_in_ranges,
    put_in_root,
    reach_at,
    reach_interval,
    rotation_at,
    swivel_branch,
    tip_along_axis,
)
from posable.limb.kernels import (
    BRANCH,
    PLACE_ERROR,
    SLACK,
    SWIVEL,
    TURN_ERROR,
    fit_at_swivel,
    place_error,
    rotate,
    rotate_forearm,
    set_tip,
    write_best,
    write_ranges,
)
from posable.limb.nearest import (
    KEPT,
    LIST,
    PRIMES,
    add_candidate,
    bounded_step,
    clear_candidates,
    copy_numbers,
    halton,
    take_step,
)
from posable.limb.partial_orientation import COMFORT, ENOUGH, MOST, score_of
from posable.limb.solution import LimbSolution
from posable.limb.srs_chain import BOX, LOWER_TURN, REST, SIGN, TOOL_TURN, UPPER_TURN

# --- Kernels ---

STEPS = 96  # bends around the circle to try without limits
EXACT = 1e-9  # [rad] error that `ok` allows
SAMPLES = 320  # of the search for the nearest aim: a grid of 81, then points between

POINT = EXTRA  # 3 [m]: the target, in the first joint's rest frame
DIRECTION = EXTRA + 3  # 3: the axis, in the last body
TURNS = EXTRA + 6  # (4, 3): the axes of the first joint and of the bend


@kernel
def set_aim(limb, root, point, axis, w):
    """Write POINT and DIRECTION of a target (3,) [m] in the world and an axis (3,) of the site."""
    put_in_root(root, point[0] - root[0], point[1] - root[1], point[2] - root[2], POINT, w)
    x, y, z = rotate(limb, TOOL_TURN, axis[0], axis[1], axis[2])
    put_vector(w, DIRECTION, x, y, z)


@kernel
def prepare_bend(limb, shape, root, reference, held, bend, w):
    """Prepare the circle of an aim with a raw bend; return the status and the branch of the bend.

    The line meets the target's sphere around the first joint at lambda = -h.a + sqrt((h.a)^2 + p^2 - h^2) from the
    site (Tolani et al. 2000, figure 10, with one square root).
    """
    for m in range(3):
        w[BEST + 4 + m] = held[m]
        w[GOAL + m] = w[POINT + m]
    set_tip(limb, shape, POSITION, w)  # leaves the last joint's rotation
    x, y, z = rotate(w, ROTATION, w[DIRECTION], w[DIRECTION + 1], w[DIRECTION + 2])
    for m in range(3):
        o = LOWER_TURN + 3 * m
        w[MISS + m] = limb[o] * x + limb[o + 1] * y + limb[o + 2] * z  # the axis in the middle body
    straight, near, far = reach_interval(limb, shape, w)
    h = reach_at(bend, straight, near, far)
    distance = circle_frame(root, reference, w)
    along = tip_along_axis(limb, shape, bend, w)
    square = along * along + (distance - h) * (distance + h)
    ahead = -along + math.sqrt(max(square, 0.0))
    if square < 0.0 or ahead < 0.0:
        return TOO_NEAR, 0
    for m in range(3):
        w[TIP + m] += ahead * w[MISS + m]
    straight, _, _ = reach_interval(limb, shape, w)
    branch = 0 if math.sin(bend - straight) >= 0.0 else 1
    w[BEND], w[BEND + 1], w[BEND_SLACK], w[BEND_SLACK + 1] = bend, bend, INFEASIBLE, INFEASIBLE
    w[BEND_SLACK + branch] = max(slack_in(bend, limb[BOX + 6], limb[BOX + 7]), 0.0)
    swivel_branch(limb, shape, branch, POSITION, w)
    return REACHED, branch


@kernel
def try_bend(limb, shape, root, reference, held, bend, limited, wanted, report, w):
    """Aim with a raw bend in closed form and leave the values in BEST; return the status."""
    status, _ = prepare_bend(limb, shape, root, reference, held, bend, w)
    if status != REACHED:
        return status
    count = 0
    phi = 0.0 if math.isnan(wanted) else wanted
    if limited:
        count = find_ranges(limb, shape, 1, w)
        if count == 0:
            return BLOCKED
        phi = nearest_in_ranges(w, SPANS, 4, count, wanted)
    fit_at_swivel(limb, shape, 1, count, phi, limited, report, w)
    report[SLACK] = min(report[SLACK], slack_of(limb, 4, 3, held, 0))
    return REACHED


@entry
def aim_ranges(limb, shape, root, reference, point, axis, held, bend, w, out):
    """Write the swivel ranges (RANGES, 4) of an aim with a raw bend that respect every limit; return their count."""
    set_aim(limb, root, point, axis, w)
    status, _ = prepare_bend(limb, shape, root, reference, held, bend, w)
    return write_ranges(limb, shape, 1, w, out) if status == REACHED else 0


@entry
def aim_branches(limb, shape, root, reference, point, axis, held, bend, swivel, w, out, reports):
    """Write the solutions (2, 7) of an aim with a raw bend at a swivel angle: both families of the first joint.

    reports[row, SLACK] is INFEASIBLE if there is none.
    """
    set_aim(limb, root, point, axis, w)
    status, branch = prepare_bend(limb, shape, root, reference, held, bend, w)
    for m in range(3):
        w[BEST + 4 + m] = held[m]
    w[BEST + 3] = bend
    for family in range(2):
        report = reports[family]
        report[BRANCH], report[SWIVEL], report[SLACK] = 4 * branch + 2 * family, swivel, INFEASIBLE
        if status != REACHED:
            continue
        rotation_at(w, SPIN + 54 * branch, math.cos(swivel), math.sin(swivel), ROTATION)
        if fit_ball(limb, shape, 0, w, ROTATION, family, BEST) > INFEASIBLE:
            report[SLACK] = slack_of(limb, 0, 7, w, BEST)
        report[PLACE_ERROR], report[TURN_ERROR] = 0.0, aim_error(limb, shape, BEST, w)
        for m in range(7):
            out[family, m] = limb[SIGN + m] * w[BEST + m]


@kernel
def free_bend(limb, shape, root, reference, held, wanted, report, w):
    """Aim without limits, with the feasible bend nearest to the rest pose; return the status."""
    for k in range(STEPS + 1):
        step = (k + 1) // 2
        bend = limb[REST + 3] + 2.0 * math.pi * (step if k % 2 == 1 else -step) / STEPS
        if try_bend(limb, shape, root, reference, held, bend, False, wanted, report, w) == REACHED:
            return REACHED
    return TOO_NEAR


@kernel
def search_bend(limb, shape, root, reference, held, wanted, report, w):
    """Find a bend within the limits that is good enough, or the best of many; return the status."""
    low = max(limb[BOX + 6], limb[REST + 3] - math.pi)
    high = min(limb[BOX + 7], limb[REST + 3] + math.pi)
    enough = COMFORT if math.isnan(wanted) else -1e-12
    if math.isnan(wanted):  # no solution has more clearance than the last joint
        enough = min(enough, slack_of(limb, 4, 3, held, 0) - 1e-12)
    best, bend, last, tried = -math.inf, 0.0, 0.0, 0
    status = TOO_NEAR
    for k in range(1, MOST + 3):
        tried = k
        last = low + (high - low) * halton(k, 2)
        if k > MOST:
            last = low if k == MOST + 1 else high
        found = try_bend(limb, shape, root, reference, held, last, True, wanted, report, w)
        if found == REACHED:
            score = score_of(math.nan, wanted, report)
            if score > best:
                best, bend = score, last
        elif found == BLOCKED:
            status = BLOCKED
        if best >= enough or (best > -math.inf and k >= ENOUGH):
            break
    if best == -math.inf:
        return status
    step = (high - low) / (tried + 1.0)
    least = step / 16.0 if math.isnan(wanted) else 1e-9
    while best < enough and step > least:
        before = best
        for side in range(2):
            last = min(max(bend + (step if side == 0 else -step), low), high)
            if try_bend(limb, shape, root, reference, held, last, True, wanted, report, w) == REACHED:
                score = score_of(math.nan, wanted, report)
                if score > best:
                    best, bend = score, last
                    break
        if best == before:
            step *= 0.5
    if last != bend:
        try_bend(limb, shape, root, reference, held, bend, True, wanted, report, w)
    return REACHED


@kernel
def aim_error(limb, shape, at, w):
    """Write RESIDUAL, from the axis to the direction of the target, and AXES (4, 3); return its angle [rad].

    The seven values are w[at:]; the rows of AXES are the rates of the axis towards the target by the first four.
    """
    for m in range(3):
        w[GOAL + m] = w[POINT + m]
    distance = max(place_error(limb, shape, POSITION, at, w), 1e-12)  # leaves the site's velocities in AXES
    tx, ty, tz = w[RESIDUAL] / distance, w[RESIDUAL + 1] / distance, w[RESIDUAL + 2] / distance
    ball_rotation(shape, 1, w, at + 4, SPARE, AXES + 12)
    x, y, z = rotate(w, SPARE, w[DIRECTION], w[DIRECTION + 1], w[DIRECTION + 2])
    x, y, z = rotate_forearm(w, x, y, z)
    ball_rotation(shape, 0, w, at, SPARE, TURNS)
    k = UPPER_TURN + shape[2, 0]
    w[TURNS + 9], w[TURNS + 10], w[TURNS + 11] = rotate(w, ROTATION, limb[k], limb[k + 3], limb[k + 6])
    for m in range(4):
        o, v = TURNS + 3 * m, AXES + 3 * m
        p, q, r = w[o], w[o + 1], w[o + 2]
        ahead = w[v] * tx + w[v + 1] * ty + w[v + 2] * tz
        w[v] = q * z - r * y + (w[v] - ahead * tx) / distance
        w[v + 1] = r * x - p * z + (w[v + 1] - ahead * ty) / distance
        w[v + 2] = p * y - q * x + (w[v + 2] - ahead * tz) / distance
    w[RESIDUAL], w[RESIDUAL + 1], w[RESIDUAL + 2] = tx - x, ty - y, tz - z
    a, b, c = ty * z - tz * y, tz * x - tx * z, tx * y - ty * x
    return math.atan2(math.sqrt(a * a + b * b + c * c), tx * x + ty * y + tz * z)


@kernel
def turn_towards(limb, shape, w):
    """Move the first four values at START within LIMITS until the axis points nearest; return the remaining angle."""
    error = aim_error(limb, shape, START, w)
    damping = 1e-3
    for _ in range(100):
        if error < 1e-15 or damping > 1e10 or bounded_step(4, 0.0, START, damping, w) < 1e-13:
            break
        take_step(4, START, TRIAL, w)
        after = aim_error(limb, shape, TRIAL, w)
        if after < error:
            error, damping = after, max(0.15 * damping, 1e-14)
            copy_numbers(w, TRIAL, START)
        else:
            damping *= 6.0
            aim_error(limb, shape, START, w)
    return error


@kernel
def nearest_aim(limb, shape, held, bend, limited, report, w):
    """Aim as close as the limits allow and leave the values in BEST (Tolani et al. 2000, table 3).

    The angle is sampled on a grid that includes the corners of the limits, and between; the best samples are refined.
    """
    clear_candidates(w)
    for m in range(3):
        w[START + 4 + m] = held[m]
    for m in range(4):
        low, high = (limb[BOX + 2 * m], limb[BOX + 2 * m + 1]) if limited else (-math.inf, math.inf)
        if m == 3 and not math.isnan(bend):
            low, high = bend, bend
        w[LIMITS + 2 * m], w[LIMITS + 2 * m + 1] = low, high
    for sample in range(SAMPLES):
        code = sample
        for m in range(4):
            rest = limb[REST + m]
            low = max(w[LIMITS + 2 * m], min(rest, w[LIMITS + 2 * m + 1]) - math.pi)
            high = min(w[LIMITS + 2 * m + 1], max(rest, low) + math.pi)
            share = 0.5 * (code % 3) if sample < 81 else halton(sample - 80, PRIMES[m])
            code //= 3
            w[START + m] = low + share * (high - low)
        add_candidate(0.0, aim_error(limb, shape, START, w), START, w)
    best = math.inf
    for row in range(KEPT):
        if w[LIST + 10 * row] == math.inf:
            break
        copy_numbers(w, LIST + 10 * row + 2, START)
        error = turn_towards(limb, shape, w)
        if error < best - 1e-12:
            best = error
            copy_numbers(w, START, BEST)
    report[SWIVEL], report[BRANCH] = math.nan, 0.0


@entry
def aim_batch(limb, shape, roots, reference, points, axis, helds, bends, limited, swivels, w, out, reports, status):
    """Aim the site's axis (3,) at points (t, 3) of the world: out (t, 7), reports, status (t,).

    roots, helds, raw bends and swivels have a row for each goal, or one for all; NaN: no preference.
    """
    for t in range(points.shape[0]):
        root, held, report = roots[t % roots.shape[0]], helds[t % helds.shape[0]], reports[t]
        bend, wanted = bends[t % bends.shape[0]], swivels[t % swivels.shape[0]]
        set_aim(limb, root, points[t], axis, w)
        if not math.isnan(bend):
            found = try_bend(limb, shape, root, reference, held, bend, limited, wanted, report, w)
        elif limited:
            found = search_bend(limb, shape, root, reference, held, wanted, report, w)
        else:
            found = free_bend(limb, shape, root, reference, held, wanted, report, w)
        if found != REACHED:
            nearest_aim(limb, shape, held, bend, limited, report, w)
        report[SLACK] = write_best(limb, limited, out[t], w)
        error = aim_error(limb, shape, BEST, w)
        report[PLACE_ERROR], report[TURN_ERROR] = 0.0, error
        missed = NO_SWIVEL if found >= BLOCKED or found == REACHED else found
        status[t] = REACHED if error <= EXACT else missed


# --- Interface ---


def aim_at(limb: LimbCore, point: Any, axis: Any, bend: Any, swivel: Any, limits: bool, base: Any) -> LimbSolution:
    """Aim an axis of the site at a point (see `Limb.aim`)."""
    given, direction = read_numbers(point, "point", (3,)), read_direction(axis, "axis")
    lead = common_lead({"point": given.shape[:-1], "base": leading_axes(base)})
    points = in_rows_of(lead, given)
    poses, roots, helds = limb.base_rows(base, lead, limits)
    bends, swivels = preferences(bend, "bend", lead) * limb.chain.sign[3], preferences(swivel, "swivel", lead)
    low, high = limb.chain.box[3]
    if limits and bend is not None and not np.all((bends >= low - 1e-12) & (bends <= high + 1e-12)):
        raise GoalError("bend", expected=f"angles inside the limits of {limb.middle!r}", got=repr(bend))

    out, reports, status = run_batch(
        len(points), aim_batch, *limb.chain, roots, limb.directions, points, direction, helds, bends, bool(limits),
        swivels,
    )  # fmt: skip
    limb.fill_swivels(out, reports, roots, POSE)
    messages = np.array([_sentence(int(code), miss) for code, miss in zip(status, reports[:, TURN_ERROR], strict=True)])
    return limb.solution(lead, poses, out, reports, status, messages.astype(object))


def _sentence(status: int, miss: float) -> str:
    if status == 0:
        return "reached"
    why = "the point is too close for any bend" if status == TOO_NEAR else "no swivel angle satisfies every limit"
    return f"{why}: the aim misses by {miss:.4f} rad"
