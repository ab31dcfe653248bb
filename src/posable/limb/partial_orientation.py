"""The circle of the spin: one axis of the site along a direction, the spin about it left free (Tolani et al. 2000,
3.3).

The spin psi moves the last joint on a circle round the direction. Its distance from the first joint, its height and
its distance from any point are then all a cos(psi) + b sin(psi) + c: Tolani et al.'s quartic for the nearest wrist has
no
squared terms on a circle, and its root is one inverse tangent.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel
from posable.limb.circle import EXTRA, TOO_FAR, TOO_NEAR
from posable.limb.ranges import nearest_in_ranges

HEIGHTS, POINTS = 1, 2  # what is wanted of the last joint: to be far along a direction, or near to a point

WORLD = EXTRA  # (3, 3), by rows: the direction, and u, v across it, in the world
CENTRE, COSINE, SINE = EXTRA + 9, EXTRA + 12, EXTRA + 15  # 3 each [m]: the last joint's circle
GOAL_FRAME = EXTRA + 18  # 12: the target of one spin
OPEN = EXTRA + 30  # (4, 2) [rad]: the spins within reach
ENDS = EXTRA + 38  # 4 [rad]


@kernel
def open_spin(frame, tool, reference, place, along, w):
    """Write WORLD and the last joint's circle. frame (9,), by rows: the site's axis and two across; tool (3,) [m]."""
    dot = reference[0] * along[0] + reference[1] * along[1] + reference[2] * along[2]
    square = 0.0
    for m in range(3):
        w[WORLD + m] = along[m]
        w[WORLD + 3 + m] = reference[m] - dot * along[m]
        square += w[WORLD + 3 + m] * w[WORLD + 3 + m]
    if square < 1e-14:  # the reference points along the direction: an axis of the world takes its place
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
    outcome): TOO_FAR or TOO_NEAR where there are none.
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
    """Return the spin at a share, from 0 to 1, of all that are within reach."""
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
def spin_near(count, wanted, w):
    """Return the spin within reach nearest to a wanted one; for NaN, the middle of the widest range."""
    return nearest_in_ranges(w, OPEN, 2, count, wanted)


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
