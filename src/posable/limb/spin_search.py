"""Partial orientation, compiled: the search over the spin and the swivel, all branches and families (seed 003, 3.3).

At each spin the swivel ranges are exact; what is left to search, inside the limits, is one angle.
"""

from __future__ import annotations

import math

from posable.kernels.compiler import entry, kernel

from .anatomy import BOX, TOOL_TURN
from .answer import (
    EXACT,
    PLACE_ERROR,
    SLACK,
    SPUN,
    SWIVEL,
    TURN_ERROR,
    attempt,
    begin,
    come_nearest,
    copy_numbers,
    finish,
    halton,
    hold_last,
    open_circle,
    turn_nearest,
)  # fmt: skip
from .balls import NEVER, ball_rotation
from .circle import (
    AXES,
    BEST,
    BLOCKED,
    EXTRA,
    FOREARM,
    GOAL,
    NO_SWIVEL,
    POSE,
    POSITION,
    REACHED,
    ROTATION,
    SPARE,
    bring_home,
)  # fmt: skip
from .nearest import place_error, turned
from .ranges import slack_near
from .spin import GOAL_FRAME, open_spin, open_spins, spin_at, spin_near, spin_target, wanted_spin

COMFORT = 0.1  # [rad]: clearance from the limits at which a search without a wish is content
ENOUGH = 8  # spins tried before the best so far will do
MOST = 127  # spins tried before both angles are searched together
CELLS = 48  # spins and swivels of the grid for that

FOUND = EXTRA + 42  # 8: the best numbers so far
TOP = EXTRA + 50  # (8, 3): slack, spin, swivel


@kernel
def try_spin(limb, shape, root, reference, frame, place, held, psi, limited, swivel, anywhere, report, w):
    """Solve for the target at a spin in closed form; return the outcome as `attempt` does."""
    spin_target(frame, place, psi, w)
    begin(limb, shape, root, w[GOAL_FRAME : GOAL_FRAME + 12], held, POSE, report, w)
    report[SPUN] = psi
    return attempt(limb, shape, root, reference, POSE, limited, swivel, anywhere, report, w)


@kernel
def score_of(wanted, swivel, report):
    """Return how good an answer inside the limits is: its clearance, or minus how far it is from the wishes."""
    if math.isnan(wanted) and math.isnan(swivel):
        return report[SLACK]
    score = 0.0
    if not math.isnan(wanted):
        score -= abs(math.sin(0.5 * (report[SPUN] - wanted)))
    if not math.isnan(swivel):
        score -= abs(math.sin(0.5 * (report[SWIVEL] - swivel)))
    return score


@kernel
def search_spin(limb, shape, root, reference, frame, place, held, count, wanted, swivel, anywhere, report, w):
    """Find the best spin that holds every limit and leave its numbers in BEST; return whether there is one.

    First the spin that is wanted, or the middle; then ever more of them, evenly spread, until one is good enough; then
    closer about the best.
    """
    free = math.isnan(wanted) and math.isnan(swivel)
    enough = COMFORT if free else -1e-12
    best, psi, last = -math.inf, 0.0, 0.0
    tried = 0
    for k in range(MOST + 1):
        last = spin_near(count, wanted, w) if k == 0 else spin_at(count, halton(k, 2), w)
        tried = k
        if try_spin(limb, shape, root, reference, frame, place, held, last, True, swivel, anywhere, report, w) == 0:
            score = score_of(wanted, swivel, report)
            if score > best:
                best, psi = score, last
        if best >= enough or (best > -math.inf and k >= ENOUGH):
            break
    if best == -math.inf:
        return False
    step = (spin_at(count, 1.0, w) - spin_at(count, 0.0, w)) / (tried + 2.0)
    least = step / 4.0 if free else 1e-9
    while best < enough and step > least:
        before = best
        for side in range(2):
            last = psi + (step if side == 0 else -step)
            if try_spin(limb, shape, root, reference, frame, place, held, last, True, swivel, anywhere, report, w) == 0:
                score = score_of(wanted, swivel, report)
                if score > best:
                    best, psi = score, last
                    break
        if best == before:
            step *= 0.5
    if last != psi:
        try_spin(limb, shape, root, reference, frame, place, held, psi, True, swivel, anywhere, report, w)
    return True


@kernel
def slack_of_cell(limb, shape, phi, status, w):
    """Return the best slack at a swivel angle of the circle that is open."""
    return slack_near(limb, shape, 2, w, phi) if status == REACHED else NEVER


@kernel
def open_at(limb, shape, root, reference, frame, place, psi, w):
    """Prepare the elbow circle of the target at a spin; return the outcome of the reach."""
    spin_target(frame, place, psi, w)
    bring_home(limb, root, w[GOAL_FRAME : GOAL_FRAME + 12], POSE, w)
    hold_last(limb, shape, POSE, w)
    return open_circle(limb, shape, root, reference, POSE, 1, w)


@kernel
def search_both(limb, shape, root, reference, frame, place, held, count, anywhere, report, w):
    """Where no spin of many has any swivel angle: climb in slack over both angles; return whether there are such."""
    for r in range(8):
        w[TOP + 3 * r] = -math.inf
    for i in range(CELLS):
        psi = spin_at(count, (i + 0.5) / CELLS, w)
        status = open_at(limb, shape, root, reference, frame, place, psi, w)
        best, phi = -math.inf, 0.0
        for j in range(CELLS):
            slack = slack_of_cell(limb, shape, 2.0 * math.pi * j / CELLS, status, w)
            if slack > best:
                best, phi = slack, 2.0 * math.pi * j / CELLS
        r = 8  # the best cell of each spin competes for a place among the eight
        while r > 0 and w[TOP + 3 * (r - 1)] < best:
            r -= 1
        for at in range(7, r, -1):
            for m in range(3):
                w[TOP + 3 * at + m] = w[TOP + 3 * at - 3 + m]
        if r < 8:
            w[TOP + 3 * r], w[TOP + 3 * r + 1], w[TOP + 3 * r + 2] = best, psi, phi
    for r in range(8):
        best, psi, phi = w[TOP + 3 * r], w[TOP + 3 * r + 1], w[TOP + 3 * r + 2]
        step = 2.0 * math.pi / CELLS
        while best > NEVER and best < 0.0 and step > 1e-9:
            middle, across, before = psi, phi, best
            for i in range(-2, 3):
                status = open_at(limb, shape, root, reference, frame, place, middle + 0.5 * step * i, w)
                for j in range(-2, 3):
                    slack = slack_of_cell(limb, shape, across + 0.5 * step * j, status, w)
                    if slack > best:
                        best, psi, phi = slack, middle + 0.5 * step * i, across + 0.5 * step * j
            if best == before:
                step *= 0.5
        if best >= 0.0 and (
            try_spin(limb, shape, root, reference, frame, place, held, psi, True, phi, anywhere, report, w) == REACHED
        ):
            return True
    return False


@kernel
def measure_partial(limb, shape, root, axis, place, along, report, w):
    """Write how far BEST is from the place and the direction, from its forward kinematics; return if it is exact."""
    for m in range(3):
        w[SPARE + m], w[SPARE + 3 + m] = 0.0, 0.0
        for i in range(3):
            w[SPARE + m] += root[3 + 3 * i + m] * (place[i] - root[i])
            w[SPARE + 3 + m] += root[3 + 3 * i + m] * along[i]
    x, y, z = w[SPARE + 3], w[SPARE + 4], w[SPARE + 5]
    for m in range(3):
        w[GOAL + m] = w[SPARE + m]
    report[PLACE_ERROR] = place_error(limb, shape, POSITION, BEST, w)
    ball_rotation(shape, 1, w, BEST + 4, SPARE, AXES)
    p, q, r = turned(limb, TOOL_TURN, axis[0], axis[1], axis[2])
    p, q, r = turned(w, SPARE, p, q, r)
    p, q, r = turned(w, FOREARM, p, q, r)
    p, q, r = turned(w, ROTATION, p, q, r)
    a, b, c = q * z - r * y, r * x - p * z, p * y - q * x
    report[TURN_ERROR] = math.atan2(math.sqrt(a * a + b * b + c * c), p * x + q * y + r * z)
    return report[PLACE_ERROR] <= EXACT and report[TURN_ERROR] <= 10.0 * EXACT


@kernel
def nearest_spin(limb, shape, root, reference, frame, place, along, held, given, limited, anywhere, report, w):
    """Out of reach: leave in BEST the numbers of the spin that comes nearest in place, then in direction.

    given: the one spin to try, or NaN for all of them, ever closer about the best.
    """
    best, turn_left, psi, width = math.inf, math.inf, 0.0, math.pi
    phi, most, rounds = math.nan, 12, 4
    if not math.isnan(given):
        psi, width, most, rounds = given, 0.0, 1, 1
    spun = psi
    for again in range(rounds):
        for k in range(most):
            trial = psi + width * (2.0 * k / max(most - 1, 1) - 1.0)
            if again > 0 and 2 * k == most - 1:
                continue
            found = try_spin(
                limb, shape, root, reference, frame, place, held, trial, limited, math.nan, anywhere, report, w
            )
            if found >= BLOCKED:
                begin(limb, shape, root, w[GOAL_FRAME : GOAL_FRAME + 12], held, POSE, report, w)
                if not turn_nearest(limb, shape, root, reference, report, w):
                    come_nearest(limb, shape, root, reference, report, w)
            if limited:
                for m in range(7):
                    w[BEST + m] = min(max(w[BEST + m], limb[BOX + 2 * m]), limb[BOX + 2 * m + 1])
            measure_partial(limb, shape, root, frame, place, along, report, w)
            miss = math.floor(report[PLACE_ERROR] * 1e7 + 0.5)
            if miss < best or (miss == best and report[TURN_ERROR] < turn_left):
                best, turn_left, spun, phi = miss, report[TURN_ERROR], trial, report[SWIVEL]
                copy_numbers(w, BEST, FOUND)
        psi, width, most = spun, 0.3 * width, 5
    copy_numbers(w, FOUND, BEST)
    report[SPUN], report[SWIVEL] = spun, phi


@kernel
def partial_one(
    limb, shape, root, reference, frame, tool, place, along, held, near, far, given, kind, wrist, limited, swivel,
    anywhere, report, w,
):  # fmt: skip
    """Solve one partial orientation and leave its numbers in BEST; return the outcome so far."""
    open_spin(frame, tool, reference, place, along, w)
    if not math.isnan(given):
        status = try_spin(limb, shape, root, reference, frame, place, held, given, limited, swivel, anywhere, report, w)
        if status != REACHED:
            nearest_spin(limb, shape, root, reference, frame, place, along, held, given, limited, anywhere, report, w)
        return NO_SWIVEL if status == BLOCKED else status % BLOCKED
    count, status = open_spins(root, near, far, w)
    wanted = wanted_spin(kind, wrist, w)
    if count > 0 and not limited:
        psi = spin_near(count, wanted, w)
        return try_spin(limb, shape, root, reference, frame, place, held, psi, False, swivel, anywhere, report, w)
    if count > 0:
        status = NO_SWIVEL
        if search_spin(
            limb, shape, root, reference, frame, place, held, count, wanted, swivel, anywhere, report, w
        ) or search_both(limb, shape, root, reference, frame, place, held, count, anywhere, report, w):
            return REACHED
    nearest_spin(limb, shape, root, reference, frame, place, along, held, math.nan, limited, anywhere, report, w)
    return status


@entry
def partial_batch(
    limb, shape, roots, reference, frame, tool, places, alongs, helds, near, far, spins, kind, wrists, limited, swivels,
    anywhere, w, out, reports, status,
):  # fmt: skip
    """Bring the site to places (t, 3) with its axis along directions (t, 3): out (t, 7), reports, status (t,).

    roots, helds, spins, wrists and swivels have a row for each goal, or one for all; NaN where nothing is wished.
    """
    for t in range(places.shape[0]):
        root, report, place, along = roots[t % roots.shape[0]], reports[t], places[t], alongs[t]
        found = partial_one(
            limb, shape, root, reference, frame, tool, place, along, helds[t % helds.shape[0]], near, far,
            spins[t % spins.shape[0]], kind, wrists[t % wrists.shape[0]], limited, swivels[t % swivels.shape[0]],
            anywhere, report, w,
        )  # fmt: skip
        finish(limb, shape, POSE, limited, found, out[t], report, w)
        exact = measure_partial(limb, shape, root, frame, place, along, report, w)
        status[t] = REACHED if exact else (found if found != REACHED else NO_SWIVEL)
