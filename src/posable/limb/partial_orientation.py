"""Partial orientation: one axis of the site along a direction, the spin about it free (Tolani et al. 2000, 3.3).

The spin psi moves the last joint on a circle around the direction. Its distance from the first joint, its height and
its distance from any point are then all of the form a cos(psi) + b sin(psi) + c. On a circle, Tolani et al.'s quartic
for the nearest wrist has no squared terms, and its root is one inverse tangent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posable.engine.jit import entry, kernel
from posable.errors import GoalError
from posable.limb.ball_ik import INFEASIBLE, ball_rotation
from posable.limb.base import (
    SENTENCES,
    LimbCore,
    common_lead,
    distance_message,
    in_rows_of,
    leading_axes,
    preferences,
    read_direction,
    read_directions,
    read_numbers,
    run_batch,
)
from posable.limb.circle import (
    AXES,
    BEND_SLACK,
    BEST,
    BLOCKED,
    EXTRA,
    GOAL,
    NO_SWIVEL,
    POSE,
    POSITION,
    REACHED,
    SPARE,
    TOO_FAR,
    TOO_NEAR,
    nearest_in_ranges,
    set_goal,
    slack_near,
)
from posable.limb.kernels import (
    BRANCH,
    EXACT,
    PLACE_ERROR,
    SLACK,
    SPIN_ANGLE,
    SWIVEL,
    TURN_ERROR,
    finish,
    place_error,
    prepare_circle,
    rotate,
    rotate_forearm,
    set_target,
    set_tip,
    solve_closed_form,
)
from posable.limb.nearest import halton, nearest_partial
from posable.limb.solution import LimbSolution
from posable.limb.srs_chain import TOOL_TURN

# --- The circle of the spin ---

HEIGHTS, POINTS = 1, 2  # preferences for the last joint: far along a direction, or near a point

WORLD = EXTRA  # (3, 3), by rows: the direction, and u, v orthogonal to it, in the world
CENTRE, COSINE, SINE = EXTRA + 9, EXTRA + 12, EXTRA + 15  # 3 each [m]: the last joint's circle
GOAL_FRAME = EXTRA + 18  # 12: the target of one spin
OPEN = EXTRA + 30  # (4, 2) [rad]: the spins within reach
ENDS = EXTRA + 38  # 4 [rad]


@kernel
def open_spin(frame, tool, reference, place, along, w):
    """Write WORLD and the last joint's circle. frame (9,), by rows: the site's axis and two others; tool (3,) [m]."""
    dot = reference[0] * along[0] + reference[1] * along[1] + reference[2] * along[2]
    square = 0.0
    for m in range(3):
        w[WORLD + m] = along[m]
        w[WORLD + 3 + m] = reference[m] - dot * along[m]
        square += w[WORLD + 3 + m] * w[WORLD + 3 + m]
    if square < 1e-14:  # the reference is parallel to the direction: use a world axis instead
        k = 0
        for m in range(1, 3):
            if abs(along[m]) > abs(along[k]):
                k = m
        k = (k + 1) % 3
        square = 0.0
        for m in range(3):
            w[WORLD + 3 + m] = (1.0 if m == k else 0.0) - along[k] * along[m]
            square += w[WORLD + 3 + m] * w[WORLD + 3 + m]
    for m in range(3):
        w[WORLD + 3 + m] /= math.sqrt(square)
    for m in range(3):
        i, j = (m + 1) % 3, (m + 2) % 3
        w[WORLD + 6 + m] = along[i] * w[WORLD + 3 + j] - along[j] * w[WORLD + 3 + i]
    p = frame[0] * tool[0] + frame[1] * tool[1] + frame[2] * tool[2]
    q = frame[3] * tool[0] + frame[4] * tool[1] + frame[5] * tool[2]
    r = frame[6] * tool[0] + frame[7] * tool[1] + frame[8] * tool[2]
    for m in range(3):
        u, v = w[WORLD + 3 + m], w[WORLD + 6 + m]
        w[CENTRE + m] = place[m] - p * along[m]
        w[COSINE + m] = -(q * u + r * v)
        w[SINE + m] = -(q * v - r * u)


@kernel
def spin_target(frame, place, psi, w):
    """Write GOAL_FRAME, the target at a spin: along a' + (cos u + sin v) b' + (cos v - sin u) c'."""
    c, s = math.cos(psi), math.sin(psi)
    for i in range(3):
        w[GOAL_FRAME + i] = place[i]
        u, v = w[WORLD + 3 + i], w[WORLD + 6 + i]
        p, q = c * u + s * v, c * v - s * u
        for j in range(3):
            w[GOAL_FRAME + 3 + 3 * i + j] = w[WORLD + i] * frame[j] + p * frame[3 + j] + q * frame[6 + j]


@kernel
def open_spins(root, near, far, w):
    """Write OPEN, the ranges of spins at which the last joint is between near and far from the first; return (count,
    status): TOO_FAR or TOO_NEAR if there are none.
    """  # fmt: skip
    a, b, c = 0.0, 0.0, 0.0
    for m in range(3):
        d = w[CENTRE + m] - root[m]
        a += 2.0 * d * w[COSINE + m]
        b += 2.0 * d * w[SINE + m]
        c += d * d + w[COSINE + m] * w[COSINE + m]
    amplitude, slack = math.sqrt(a * a + b * b), 1e-11 * far * far
    cuts = 0
    for bound in range(2):
        value = (near * near if bound == 0 else far * far) - c
        if amplitude <= 1e-300 or abs(value) > amplitude + slack:
            continue
        half = math.acos(min(max(value / amplitude, -1.0), 1.0))
        for side in range(2):
            cut = math.atan2(b, a) + (half if side == 0 else -half)
            cut -= 2.0 * math.pi * math.floor((cut + math.pi) / (2.0 * math.pi))
            at = cuts
            while at > 0 and w[ENDS + at - 1] > cut:
                w[ENDS + at] = w[ENDS + at - 1]
                at -= 1
            w[ENDS + at] = cut
            cuts += 1
    count = 0
    for at in range(max(cuts, 1)):
        low = w[ENDS + at] if cuts > 0 else -math.pi
        high = w[ENDS + at + 1] if at + 1 < cuts else low + 2.0 * math.pi
        if at + 1 == cuts:
            high = w[ENDS] + 2.0 * math.pi
        middle = 0.5 * (low + high)
        square = a * math.cos(middle) + b * math.sin(middle) + c
        if near * near - slack <= square <= far * far + slack:
            w[OPEN + 2 * count], w[OPEN + 2 * count + 1] = low, high
            count += 1
    return count, TOO_FAR if c - amplitude > far * far else TOO_NEAR


@kernel
def spin_at(count, share, w):
    """Return the spin at a fraction, from 0 to 1, of all spins within reach."""
    total = 0.0
    for r in range(count):
        total += w[OPEN + 2 * r + 1] - w[OPEN + 2 * r]
    left = share * total
    for r in range(count):
        width = w[OPEN + 2 * r + 1] - w[OPEN + 2 * r]
        if left <= width or r == count - 1:
            return w[OPEN + 2 * r] + min(left, width)
        left -= width
    return 0.0


@kernel
def wanted_spin(kind, wrist, w):
    """Return the spin of the last joint farthest along a direction (Tolani et al. 2000, (11)) or nearest to a point."""
    a, b = 0.0, 0.0
    for m in range(3):
        d = wrist[m] if kind == HEIGHTS else wrist[m] - w[CENTRE + m]
        a += d * w[COSINE + m]
        b += d * w[SINE + m]
    return math.atan2(b, a) if kind > 0 else math.nan


@entry
def spins_of(root, reference, frame, tool, place, along, near, far, w, out):
    """Write the ranges of spins (4, 2) [rad] within reach of one goal; return their count."""
    open_spin(frame, tool, reference, place, along, w)
    count, _ = open_spins(root, near, far, w)
    for r in range(count):
        out[r, 0], out[r, 1] = w[OPEN + 2 * r], w[OPEN + 2 * r + 1]
    return count


@entry
def target_of_spin(reference, frame, tool, place, along, psi, w, out):
    """Write the target (12,), place and frame by rows, that one goal has at a spin [rad]."""
    open_spin(frame, tool, reference, place, along, w)
    spin_target(frame, place, psi, w)
    for m in range(12):
        out[m] = w[GOAL_FRAME + m]


# --- Search over the spin ---

COMFORT = 0.1  # [rad]: clearance at which a search without preferences ends
ENOUGH = 8  # spins to try before the best so far is accepted
MOST = 127  # spins to try before both angles are searched together
CELLS = 48  # of the grid for that, along spin and swivel

TOP = EXTRA + 50  # (8, 3): slack, spin, swivel


@kernel
def try_spin(limb, shape, root, reference, frame, place, held, psi, limited, swivel, anywhere, report, w):
    """Solve for the target at a spin in closed form; return the status as `solve_closed_form` does."""
    spin_target(frame, place, psi, w)
    set_target(limb, shape, root, w[GOAL_FRAME : GOAL_FRAME + 12], held, POSE, report, w)
    report[SPIN_ANGLE] = psi
    return solve_closed_form(limb, shape, root, reference, POSE, limited, swivel, anywhere, report, w)


@kernel
def score_of(wanted, swivel, report):
    """Return the score of a solution within the limits: its clearance, or minus the deviation from the preferences."""
    if math.isnan(wanted) and math.isnan(swivel):
        return report[SLACK]
    score = 0.0
    if not math.isnan(wanted):
        score -= abs(math.sin(0.5 * (report[SPIN_ANGLE] - wanted)))
    if not math.isnan(swivel):
        score -= abs(math.sin(0.5 * (report[SWIVEL] - swivel)))
    return score


@kernel
def search_spin(limb, shape, root, reference, frame, place, held, count, wanted, swivel, anywhere, report, w):
    """Find the best spin that respects every limit and leave its values in BEST; return whether there is one.

    First the preferred spin, or the middle; then more of them, evenly spread, until one is good enough; then closer to
    the best.
    """
    free = math.isnan(wanted) and math.isnan(swivel)
    enough = COMFORT if free else -1e-12
    best, psi, last = -math.inf, 0.0, 0.0
    tried = 0
    for k in range(MOST + 1):
        last = nearest_in_ranges(w, OPEN, 2, count, wanted) if k == 0 else spin_at(count, halton(k, 2), w)
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
def open_at(limb, shape, root, reference, frame, place, psi, w):
    """Prepare the elbow circle of the target at a spin, without a branch if that is out of reach."""
    spin_target(frame, place, psi, w)
    set_goal(limb, root, w[GOAL_FRAME : GOAL_FRAME + 12], POSE, w)
    set_tip(limb, shape, POSE, w)
    if prepare_circle(limb, shape, root, reference, POSE, 1, w) != REACHED:
        w[BEND_SLACK] = w[BEND_SLACK + 1] = INFEASIBLE


@kernel
def search_spin_and_swivel(limb, shape, root, reference, frame, place, held, count, anywhere, report, w):
    """If no sampled spin has a swivel angle, maximise the slack over both angles; return whether that succeeds."""
    for r in range(8):
        w[TOP + 3 * r] = -math.inf
    for i in range(CELLS):
        psi = spin_at(count, (i + 0.5) / CELLS, w)
        open_at(limb, shape, root, reference, frame, place, psi, w)
        best, phi = -math.inf, 0.0
        for j in range(CELLS):
            slack = slack_near(limb, shape, 2, w, 2.0 * math.pi * j / CELLS)
            if slack > best:
                best, phi = slack, 2.0 * math.pi * j / CELLS
        r = 8  # insert the best cell of each spin among the eight
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
        while best > INFEASIBLE and best < 0.0 and step > 1e-9:
            middle, across, before = psi, phi, best
            for i in range(-2, 3):
                open_at(limb, shape, root, reference, frame, place, middle + 0.5 * step * i, w)
                for j in range(-2, 3):
                    slack = slack_near(limb, shape, 2, w, across + 0.5 * step * j)
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
def site_axis(limb, shape, axis, w):
    """Return an axis (3,) of the site at BEST, after `place_error`, in the rest frame of the first joint."""
    ball_rotation(shape, 1, w, BEST + 4, SPARE, AXES)
    p, q, r = rotate(limb, TOOL_TURN, axis[0], axis[1], axis[2])
    p, q, r = rotate(w, SPARE, p, q, r)
    return rotate_forearm(w, p, q, r)


@kernel
def measure_partial(limb, shape, root, axis, place, along, report, w):
    """Write the errors of BEST in position and direction from its forward kinematics; return whether it is exact."""
    for m in range(3):
        w[GOAL + m], w[SPARE + m] = 0.0, 0.0
        for i in range(3):
            w[GOAL + m] += root[3 + 3 * i + m] * (place[i] - root[i])
            w[SPARE + m] += root[3 + 3 * i + m] * along[i]
    x, y, z = w[SPARE], w[SPARE + 1], w[SPARE + 2]
    report[PLACE_ERROR] = place_error(limb, shape, POSITION, BEST, w)
    p, q, r = site_axis(limb, shape, axis, w)
    a, b, c = q * z - r * y, r * x - p * z, p * y - q * x
    report[TURN_ERROR] = math.atan2(math.sqrt(a * a + b * b + c * c), p * x + q * y + r * z)
    return report[PLACE_ERROR] <= EXACT and report[TURN_ERROR] <= 10.0 * EXACT


@kernel
def nearest_spin(limb, shape, root, reference, frame, place, along, held, limited, report, w):
    """Leave in BEST the values that come closest in position, then in direction, and report their spin."""
    nearest_partial(limb, shape, root, reference, frame, place, along, held, limited, w)
    report[SWIVEL], report[BRANCH] = math.nan, 0.0
    place_error(limb, shape, POSITION, BEST, w)
    p, q, r = site_axis(limb, shape, frame[3:], w)
    a, b = 0.0, 0.0
    for m in range(3):
        value = root[3 + 3 * m] * p + root[4 + 3 * m] * q + root[5 + 3 * m] * r
        a += value * w[WORLD + 3 + m]
        b += value * w[WORLD + 6 + m]
    report[SPIN_ANGLE] = math.atan2(b, a)


@kernel
def partial_one(
    limb, shape, root, reference, frame, tool, place, along, held, near, far, given, kind, wrist, limited, swivel,
    anywhere, report, w,
):  # fmt: skip
    """Solve one partial orientation and leave its values in BEST; return the preliminary status."""
    open_spin(frame, tool, reference, place, along, w)
    if not math.isnan(given):
        status = try_spin(limb, shape, root, reference, frame, place, held, given, limited, swivel, anywhere, report, w)
        if status != REACHED:
            nearest_spin(limb, shape, root, reference, frame, place, along, held, limited, report, w)
        return NO_SWIVEL if status == BLOCKED else status % BLOCKED
    count, status = open_spins(root, near, far, w)
    wanted = wanted_spin(kind, wrist, w)
    if count > 0 and not limited:
        psi = nearest_in_ranges(w, OPEN, 2, count, wanted)
        return try_spin(limb, shape, root, reference, frame, place, held, psi, False, swivel, anywhere, report, w)
    if count > 0:
        status = NO_SWIVEL
        if search_spin(
            limb, shape, root, reference, frame, place, held, count, wanted, swivel, anywhere, report, w
        ) or search_spin_and_swivel(limb, shape, root, reference, frame, place, held, count, anywhere, report, w):
            return REACHED
    nearest_spin(limb, shape, root, reference, frame, place, along, held, limited, report, w)
    return status


@entry
def partial_batch(
    limb, shape, roots, reference, frame, tool, places, alongs, helds, near, far, spins, kind, wrists, limited, swivels,
    anywhere, w, out, reports, status,
):  # fmt: skip
    """Bring the site to positions (t, 3) with its axis along directions (t, 3): out (t, 7), reports, status (t,).

    roots, helds, spins, wrists and swivels have a row for each goal, or one for all; NaN: no preference.
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
        free = math.isnan(spins[t % spins.shape[0]])  # a given spin must be met too
        status[t] = REACHED if exact and (free or found == REACHED) else (found if found != REACHED else NO_SWIVEL)


# --- Interface ---

ANYWHERE = np.full(3, np.nan)
EXTREMES = ("highest", "lowest")


def place_with_axis(
    limb: LimbCore, position: Any, axis: Any, along: Any, swivel: Any, spin: Any, wrist: Any, limits: bool, base: Any
) -> LimbSolution:
    """Bring the site to a position with one axis along a direction (see `Limb.solve_partial`)."""
    if spin is not None and wrist is not None:
        raise GoalError("solve_partial", expected="at most one of spin and wrist", got="both")
    places, alongs, lead = read_goals(position, along, base)
    frame = site_frame(axis)
    poses, roots, helds = limb.base_rows(base, lead, limits)
    swivels, spins = preferences(swivel, "swivel", lead), preferences(spin, "spin", lead)
    kind, wrists = _wanted(limb, wrist, lead)
    near, far = limb.reach_of(limits=limits)

    out, reports, status = run_batch(
        len(places), partial_batch, *limb.chain, roots, limb.directions, frame, limb.tool_in_site(), places, alongs,
        helds, near, far, spins, kind, wrists, bool(limits), swivels, ANYWHERE,
    )  # fmt: skip
    limb.fill_swivels(out, reports, roots, POSE)
    messages: Any = np.where(status == NO_SWIVEL, "no spin and swivel angle satisfy every limit", SENTENCES[status])
    if lead == () and status[0] not in (REACHED, NO_SWIVEL):
        messages = np.array([_distance(limb, roots[0], frame, places[0], alongs[0], int(status[0]), limits)])
    turns = (reports[:, SPIN_ANGLE] + math.pi) % (2.0 * math.pi) - math.pi
    return limb.solution(lead, poses, out, reports, status, messages, turns)


def site_frame(axis: Any) -> np.ndarray:
    """Return (9,), by rows: an axis of the site, an orthogonal one that measures the spin, and their cross product."""
    first = read_direction(axis, "axis")
    helper = np.eye(3)[(int(np.argmax(np.abs(first))) + 1) % 3]
    second = helper - (helper @ first) * first
    second /= np.linalg.norm(second)
    return np.concatenate([first, second, np.cross(first, second)])


def read_goals(position: Any, along: Any, base: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return positions (t, 3), unit directions (t, 3) and the leading axes of all goals."""
    places, alongs = read_numbers(position, "position", (3,)), read_directions(along, "along")
    lead = common_lead({"position": places.shape[:-1], "along": alongs.shape[:-1], "base": leading_axes(base)})
    return in_rows_of(lead, places), in_rows_of(lead, alongs), lead


def _wanted(limb: LimbCore, wrist: Any, lead: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """Return the preference for the last joint, and its directions or points (., 3) in the world."""
    if wrist is None:
        return 0, np.zeros((1, 3))
    if isinstance(wrist, str):
        if wrist not in EXTREMES:
            raise GoalError("wrist", expected="'highest', 'lowest' or three numbers", got=repr(wrist))
        return HEIGHTS, (limb.down if wrist == "lowest" else -limb.down)[None].copy()
    return POINTS, preferences(wrist, "wrist", lead, (3,))


def _distance(limb: LimbCore, root, frame, place, along, status: int, limits: bool) -> str:
    """Return the message of a position that is too far or too near at every spin."""
    near, far = limb.reach_of(limits=limits)
    arm = frame.reshape(3, 3) @ limb.tool_in_site()
    gap = place - arm[0] * along - root[:3]
    across, radius = float(np.linalg.norm(gap - (gap @ along) * along)), math.hypot(arm[1], arm[2])
    side = across - radius if status == 1 else across + radius
    return distance_message(limb, status, POSE, math.hypot(float(gap @ along), side), far if status == 1 else near)
