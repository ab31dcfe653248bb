"""Least change: among the poses that reach the goals, the most natural one, as the lowest priority.

What is minimised below the goals is L = C + P. C is the change from a reference pose in a comfort metric: a stiffness
per dof, a stiffness towards the middle where a dof nears the end of its range, and pairs of dofs that share a bend.
P is a prior of poses: for each limb the negative logarithm of a mixture of low-rank Gaussians on bone directions. A
limb without a goal has no force at a reference pose that people take: it moves only if the rest of the body needs it.

The loop minimises E + epsilon L while epsilon decreases to zero, where E is the energy of the goals. With a small
epsilon a damped Newton step is a step of sequential quadratic programming: it minimises L among the moves that meet the
linearised goals. Pairs and limbs join dofs on one chain only, so the Hessian keeps the sparsity of the tree.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posable.engine.assemble import derivatives, energy_at, judge, springs_of
from posable.engine.bounds import CONVERGED, RUNNING, STATIONARY, all_reached, copy_into, project, recentre_all
from posable.engine.jit import entry, kernel
from posable.engine.joints import forward, times
from posable.engine.layout import ABOVE, DEPTH, Figure, Order, clear, workspace
from posable.engine.ltl import add_pair, multiply
from posable.engine.newton import gather_into, hold_bounds, part_memory, propose, scatter_into

# Columns of Comfort.pair_data
STIFFNESS, RATIO = 0, 1
# Columns of Prior.limb
FEATURES, FEATURES_END, COMPONENTS, COMPONENTS_END, TIP, SEGMENTS, SEGMENTS_END = range(7)
# Columns of Prior.segment: LOW, then two for each feature
LOW, CHANGES = 0, 1
# Columns of Prior.feature
BASE, BODY, FROM, UNTIL, SENSE = 0, 1, 2, 3, 4


class Comfort(NamedTuple):
    """How readily a figure changes its pose."""

    stiffness: np.ndarray  # (n,) [1, 1/m^2]: of each dof towards the reference pose
    inner: np.ndarray  # (n, 2) [rad, m]: the part of the range that is free of `end`
    end: np.ndarray  # (n,): stiffness beyond `inner`
    pair: np.ndarray  # (k, 2) int64: dofs on one chain that share a bend
    pair_data: np.ndarray  # (k, 2): STIFFNESS and RATIO of (change_a - ratio change_b)


class Prior(NamedTuple):
    """How likely a pose is: mixtures of Gaussians on unit vectors, limb by limb."""

    limb: np.ndarray  # (l, 7) int64: ranges of its features and components, its last dof TIP, range of its segments
    scale: np.ndarray  # (l,): weight of the limb's energy
    idle: np.ndarray  # (l,): above the least energy, up to where a reference is usual; 0 for limbs with a goal
    feature: np.ndarray  # (f, 5) int64: BASE body, BODY (-1: world), dofs FROM that one up to but not UNTIL, SENSE +-1
    segment: np.ndarray  # (s, 1 + 2 k) int64: depth LOW at which it ends; which of k features it moves more (1) or less
    # (-1) than the segment below it, and which it moves
    axes: np.ndarray  # (f, 12): axes K of the base by rows, vector v in the body; the feature is K R_base' R_body v
    level: np.ndarray  # (c,): energy of each component at its mean
    inverse: np.ndarray  # (c,): precision off the factor: the precision is inverse (1 - V V'), V (m, r) the factor
    probe: np.ndarray  # (m, c (r + 1)): V of each component, and its mean; m: 3 times the features of the largest limb
    offset: np.ndarray  # (c (r + 1),): V' mean, and half the square of the mean
    precision: np.ndarray  # (c, m m): the precision, multiplied out
    pull: np.ndarray  # (c, m): precision times mean


# Columns of the loop's params
MOST, FIRST, LEAST, MERIT, GAIN_TOLERANCE, EXACT, FALL, STIFF = range(8)  # STIFF: total stiffness of the whole figure

TRIES = 10  # dampings tried for one step
SHORT = 0.3  # [rad, m] of any dof: a longer step is not the last
NEAR_GOALS, WARM = 1e-3, 0.01  # a start with less energy was minimised before: more exactly, for smooth drags
LOOSE = 1.0  # fraction of the change: a larger energy of the goals hides the gain of a step
SLOWEST = 0.95  # largest assumed ratio of the gains of successive steps
RESTORATIONS = 8  # steps that bring the goals back at the end
LAST_DAMPING = 1e-9  # of those steps, relative to the stiffness of the goals
UPRIGHT = 4  # power of the cosine of the lean
LIGHT = 1e-9  # share of a component that does not count
TIGHT = 0.05  # fraction of a goal's tolerance that must be met at the end


def with_segments(prior: Prior, figure: Figure, order: Order) -> Prior:
    """Return the prior with the segments of its limbs' chains: dofs that move the same features."""
    most = prior.pull.shape[1] // 3
    limbs, rows = prior.limb.copy(), []
    for limb in limbs:
        feature = prior.feature[limb[FEATURES] : limb[FEATURES_END]]
        limb[SEGMENTS] = len(rows)
        moves, dof = np.zeros(most, dtype=np.int64), limb[TIP]
        while dof >= 0:
            now = moves.copy()
            for k, (start, end) in enumerate(feature[:, [FROM, UNTIL]]):
                if start != end and dof in (start, end):
                    now[k] = dof == start
            if len(rows) == limb[SEGMENTS] or (now != moves).any():
                rows.append(np.concatenate([[0], now - moves, now]))
            rows[-1][LOW] = order.rows[dof, DEPTH]
            moves, dof = now, figure.dof[dof, ABOVE]
        limb[SEGMENTS_END] = len(rows)
    return prior._replace(limb=limbs, segment=np.array(rows, dtype=np.int64).reshape(-1, 1 + 2 * most))


def scratch_size(prior: Prior, depth: int) -> int:
    """Return how many numbers of scratch memory the prior needs on a figure with chains of `depth` dofs."""
    m, k = prior.pull.shape[1], prior.pull.shape[1] // 3
    placed = len(prior.limb) * limb_scratch_size(m) + len(prior.level) + len(prior.offset)
    return placed + m + m * m + 9 * k * (k + 2) + 3 + 9 * (2 * k + 1) + 3 * depth


@kernel
def limb_scratch_size(m):
    """Return how many numbers `place_features` and `relieve_idle` write for each limb."""
    return 6 * m + 4


# --- Comfort ---


@kernel
def change_energy(comfort, theta, reference):
    """Return the change from the reference (n,) to theta (n,), in the comfort metric."""
    total = 0.0
    for i in range(theta.shape[0]):
        gap = theta[i] - reference[i]
        total += 0.5 * comfort.stiffness[i] * gap * gap
        over = end_overshoot(comfort, theta[i], reference[i], i)
        total += 0.5 * comfort.end[i] * over * over
    for k in range(comfort.pair.shape[0]):
        a, b = comfort.pair[k, 0], comfort.pair[k, 1]
        gap = theta[a] - reference[a] - comfort.pair_data[k, RATIO] * (theta[b] - reference[b])
        total += 0.5 * comfort.pair_data[k, STIFFNESS] * gap * gap
    return total


@kernel
def end_overshoot(comfort, value, reference, i):
    """Return how far a dof is past the comfortable part of its range, which the reference always belongs to."""
    low, high = min(comfort.inner[i, 0], reference), max(comfort.inner[i, 1], reference)
    if value < low:
        return value - low
    return value - high if value > high else 0.0


@kernel
def add_change(order, comfort, theta, reference, ws, epsilon):
    """Add epsilon times the derivatives of the change to ws.gradient and ws.hessian."""
    for i in range(theta.shape[0]):
        stiffness = epsilon * comfort.stiffness[i]
        ws.gradient[i] += stiffness * (theta[i] - reference[i])
        over = end_overshoot(comfort, theta[i], reference[i], i)
        if over != 0.0:
            ws.gradient[i] += epsilon * comfort.end[i] * over
            stiffness += epsilon * comfort.end[i]
        ws.hessian[i, order.rows[i, DEPTH]] += stiffness
    for k in range(comfort.pair.shape[0]):
        a, b = comfort.pair[k, 0], comfort.pair[k, 1]
        ratio = comfort.pair_data[k, RATIO]
        stiffness = epsilon * comfort.pair_data[k, STIFFNESS]
        force = stiffness * (theta[a] - reference[a] - ratio * (theta[b] - reference[b]))
        add_pair(order, ws, a, b, ratio, force, stiffness)


# --- The prior ---


@kernel
def place_features(prior, limb, ws, scratch):
    """Write a limb's features (m,), their vectors in the world (m,) and the maps K R_base' (9 each) into scratch."""
    m = prior.pull.shape[1]
    first, last = prior.limb[limb, FEATURES], prior.limb[limb, FEATURES_END]
    maps = 2 * m
    for k in range(first, last):
        base, body = prior.feature[k, BASE], prior.feature[k, BODY]
        row, at = prior.axes[k], maps + 9 * (k - first)
        own, world, carried = scratch[3 * (k - first) :], scratch[m + 3 * (k - first) :], scratch[at:]
        x, y, z = row[9], row[10], row[11]
        if body >= 0:
            x, y, z = times(ws.rotation[body], 0, x, y, z)
        world[0], world[1], world[2] = x, y, z
        for a in range(0, 9, 3):
            carried[a], carried[a + 1], carried[a + 2] = times(ws.rotation[base], 0, row[a], row[a + 1], row[a + 2])
        own[0], own[1], own[2] = times(scratch, at, x, y, z)


@kernel
def mixture_energy(prior, limb, scratch, shares, inner):
    """Return the energy of a limb whose features are placed, and write the share of each component (c,)."""
    size = 3 * (prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES])
    first, last = prior.limb[limb, COMPONENTS], prior.limb[limb, COMPONENTS_END]
    width = prior.offset.shape[0] // prior.level.shape[0]
    low, high = first * width, last * width
    own, offset, norm = inner[low:high], prior.offset[low:high], 0.0
    for q in range(high - low):
        own[q] = -offset[q]
    for a in range(size):
        x = scratch[a]
        norm += x * x
        row = prior.probe[a][low:high]
        for q in range(high - low):
            own[q] += x * row[q]
    least = math.inf
    for c in range(first, last):
        at = (c + 1) * width - 1
        square = norm - 2.0 * inner[at]  # of the gap to the mean
        for q in range(c * width, at):
            square -= inner[q] * inner[q]
        shares[c] = prior.level[c] + 0.5 * prior.inverse[c] * square
        least = min(least, shares[c])
    total = 0.0
    for c in range(first, last):
        shares[c] = math.exp(least - shares[c])
        total += shares[c]
    for c in range(first, last):
        shares[c] /= total
    return least - math.log(total)


@kernel
def prior_energy(prior, ws, scratch):
    """Return the energy of the prior at a pose whose bodies are placed; leave features and shares in scratch."""
    m = prior.pull.shape[1]
    size = limb_scratch_size(m)
    shares = scratch[size * prior.limb.shape[0] :]
    inner = shares[prior.level.shape[0] :]
    total = 0.0
    for limb in range(prior.limb.shape[0]):
        if prior.scale[limb] > 0.0:
            own = scratch[size * limb : size * (limb + 1)]
            place_features(prior, limb, ws, own)
            energy = mixture_energy(prior, limb, own, shares, inner)
            if prior.idle[limb] > 0.0:
                energy -= relief_left(prior, limb, own)[0] * relief_energy(prior, limb, own)
            total += prior.scale[limb] * energy
    return total


@kernel
def relieve_idle(prior, ws, scratch):
    """Write into scratch the forces (m,) that limbs without a goal are relieved of, at a reference that is placed.

    All of the force there, so that the limb stays, where people take such a pose (an arm that hangs, though the mean
    of all recorded arms is a bent one); none where they rarely do (arms stretched out sideways).
    """
    m = prior.pull.shape[1]
    size = limb_scratch_size(m)
    shares = scratch[size * prior.limb.shape[0] :]
    inner = shares[prior.level.shape[0] :]
    matrix = inner[prior.offset.shape[0] + m :]
    for limb in range(prior.limb.shape[0]):
        if not prior.idle[limb] > 0.0:
            continue
        own = scratch[size * limb : size * (limb + 1)]
        place_features(prior, limb, ws, own)
        energy = mixture_energy(prior, limb, own, shares, inner)
        most, least = 0.0, math.inf
        for c in range(prior.limb[limb, COMPONENTS], prior.limb[limb, COMPONENTS_END]):
            most, least = max(most, shares[c]), min(least, prior.level[c])
        above = energy - math.log(most) - least  # of the likeliest component
        relief = min(max(2.0 - above / prior.idle[limb], 0.0), 1.0)
        force = own[5 * m : 6 * m]
        mixture_force(prior, limb, own, shares, force, matrix)
        own[6 * m] = 0.0
        for a in range(3 * (prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES])):
            force[a] *= relief
            own[6 * m] += force[a] * own[a]
        for a in range(3):
            own[6 * m + 1 + a] = own[a]


@kernel
def relief_energy(prior, limb, own):
    """Return the energy that a limb without a goal is relieved of, at features that are placed."""
    m = prior.pull.shape[1]
    total = -own[6 * m]
    for a in range(3 * (prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES])):
        total += own[5 * m + a] * own[a]
    return total


@kernel
def relief_left(prior, limb, own):
    """Return the fraction of the relief that is left where the trunk leans, and its slope in the cosine of the lean.

    The first feature of a limb is which way is up, where the figure has it: an arm that hangs beside an upright trunk
    would be stretched out behind one that is bent forward.
    """
    if prior.feature[prior.limb[limb, FEATURES], BODY] >= 0:
        return 1.0, 0.0
    up = own[6 * prior.pull.shape[1] + 1 :]
    cosine = max(own[0] * up[0] + own[1] * up[1] + own[2] * up[2], 0.0)
    return cosine**UPRIGHT, UPRIGHT * cosine ** (UPRIGHT - 1)


@kernel
def add_prior(figure, order, prior, ws, scratch, epsilon):
    """Add epsilon times the gradient of the prior and its Gauss-Newton Hessian to ws.gradient and ws.hessian.

    The last `prior_energy` was of the same pose.
    """
    m, k = prior.pull.shape[1], prior.pull.shape[1] // 3
    shares = scratch[limb_scratch_size(m) * prior.limb.shape[0] :]
    rest = shares[prior.level.shape[0] + prior.offset.shape[0] :]
    force, matrix, rest = rest[:m], rest[m : m + m * m], rest[m + m * m :]
    turns, pairs, rest = rest[: 9 * k], rest[9 * k : 9 * k * (k + 1)], rest[9 * k * (k + 1) :]
    for limb in range(prior.limb.shape[0]):
        if not prior.scale[limb] > 0.0:
            continue
        own = scratch[limb_scratch_size(m) * limb : limb_scratch_size(m) * (limb + 1)]
        mixture_force(prior, limb, own, shares, force, matrix)
        if prior.idle[limb] > 0.0:
            left, slope = relief_left(prior, limb, own)
            slope *= relief_energy(prior, limb, own)
            for a in range(3 * (prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES])):
                force[a] -= left * own[5 * m + a]
            for a in range(3):
                force[a] -= slope * own[6 * m + 1 + a]
        turn_features(prior, limb, own, matrix, turns, pairs)
        add_chain(figure, order, prior, limb, ws, force, turns, pairs, rest, epsilon * prior.scale[limb])


@kernel
def turn_features(prior, limb, scratch, matrix, turns, pairs):
    """Write how features move with a rotation of what carries them.

    Writes turns (k, 3, 3): derivative of each feature in a rotation vector of the world; pairs (k, k, 3, 3): the
    precision of two features carried over to rotation vectors.
    """
    m = prior.pull.shape[1]
    first, count = prior.limb[limb, FEATURES], prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES]
    for k in range(count):
        at, out = 2 * m + 9 * k, 9 * k
        x, y, z = scratch[m + 3 * k], scratch[m + 3 * k + 1], scratch[m + 3 * k + 2]
        sense = float(prior.feature[first + k, SENSE])
        for a in range(3):
            p, q, r = scratch[at + 3 * a], scratch[at + 3 * a + 1], scratch[at + 3 * a + 2]
            turns[out + 3 * a] = sense * (r * y - q * z)
            turns[out + 3 * a + 1] = sense * (p * z - r * x)
            turns[out + 3 * a + 2] = sense * (q * x - p * y)
    for k in range(count):
        for j in range(k + 1):
            out, other = 9 * (k * (m // 3) + j), 9 * (j * (m // 3) + k)
            for b in range(3):
                u, v, w = turns[9 * j + b], turns[9 * j + 3 + b], turns[9 * j + 6 + b]
                at = 3 * k * m + 3 * j
                x = matrix[at] * u + matrix[at + 1] * v + matrix[at + 2] * w
                y = matrix[at + m] * u + matrix[at + m + 1] * v + matrix[at + m + 2] * w
                z = matrix[at + 2 * m] * u + matrix[at + 2 * m + 1] * v + matrix[at + 2 * m + 2] * w
                for a in range(3):
                    value = turns[9 * k + a] * x + turns[9 * k + 3 + a] * y + turns[9 * k + 6 + a] * z
                    pairs[out + 3 * a + b] = value
                    pairs[other + 3 * b + a] = value


@kernel
def add_chain(figure, order, prior, limb, ws, force, turns, pairs, rest, scale):
    """Add the gradient and the Hessian of a limb to the dofs of its chain, from its tip to the root.

    With w the rotation of a dof, two dofs of segments s and t have the second derivative w_s' W_st w_t, where W_st sums
    the pairs of their features.
    """
    count = prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES]
    most, d = prior.pull.shape[1] // 3, ws.hessian.shape[1]
    carried, torque, rest = rest[: 9 * most], rest[9 * most : 9 * most + 3], rest[9 * most + 3 :]
    joined, axes = rest[: 9 * (2 * most + 1)], rest[9 * (2 * most + 1) :]
    clear(carried[: 9 * count])  # (k, 3, 3): pairs of what the segment moves with every feature, summed
    clear(torque)
    i = prior.limb[limb, TIP]
    while i >= 0:  # the turns (3, d) of the chain, by depth
        for a in range(3):
            axes[a * d + order.rows[i, DEPTH]] = ws.twist[i, a]
        i = figure.dof[i, ABOVE]
    i, last = prior.limb[limb, TIP], prior.limb[limb, SEGMENTS_END]
    for s in range(prior.limb[limb, SEGMENTS], last):
        for k in range(count):
            if prior.segment[s, CHANGES + k] != 0:
                add_feature(k, count, most, prior.segment[s, CHANGES + k], turns, pairs, force, carried, torque)
        join_segments(prior, count, s, last, carried, joined)
        while i >= 0 and order.rows[i, DEPTH] >= prior.segment[s, LOW]:
            x, y, z = scale * ws.twist[i, 0], scale * ws.twist[i, 1], scale * ws.twist[i, 2]
            if x != 0.0 or y != 0.0 or z != 0.0:  # slides rotate nothing
                ws.gradient[i] += x * torque[0] + y * torque[1] + z * torque[2]
                add_row(prior, s, last, order.rows[i, DEPTH] + 1, d, x, y, z, joined, axes, ws.hessian[i])
            i = figure.dof[i, ABOVE]


@kernel
def add_feature(feature, count, most, sign, turns, pairs, force, carried, torque):
    """Add a feature to those that a segment moves, or take it away: to their sums (k, 3, 3) and (3,)."""
    row = pairs[9 * feature * most : 9 * (feature + 1) * most]
    for a in range(9 * count):
        carried[a] += sign * row[a]
    for a in range(3):
        for b in range(3):
            torque[a] += sign * turns[9 * feature + 3 * b + a] * force[3 * feature + b]


@kernel
def join_segments(prior, count, segment, last, carried, joined):
    """Write W_st (t, 3, 3) of a segment s with itself and with those above it, up to `last`."""
    moves = CHANGES + prior.pull.shape[1] // 3
    for t in range(segment, last):
        own = joined[9 * (t - segment) : 9 * (t - segment + 1)]
        clear(own)
        for k in range(count):
            if prior.segment[t, moves + k] != 0:
                row = carried[9 * k : 9 * k + 9]
                for a in range(9):
                    own[a] += row[a]


@kernel
def add_row(prior, segment, last, high, d, x, y, z, joined, axes, row):
    """Add the products of a rotation (x, y, z) with those of the dofs above it to its row (d,) of the Hessian."""
    for t in range(segment, last):
        w = joined[9 * (t - segment) : 9 * (t - segment + 1)]
        p, q, r = x * w[0] + y * w[3] + z * w[6], x * w[1] + y * w[4] + z * w[7], x * w[2] + y * w[5] + z * w[8]
        low = prior.segment[t, LOW]
        out, along, side, up = row[low:high], axes[low:high], axes[d + low : d + high], axes[2 * d + low : 2 * d + high]
        for c in range(high - low):
            out[c] += p * along[c] + q * side[c] + r * up[c]
        high = low


@kernel
def mixture_force(prior, limb, scratch, shares, force, matrix):
    """Write the slope (m,) of a limb's energy in its features, and the mean precision (m m,) of its components."""
    m = prior.pull.shape[1]
    size = 3 * (prior.limb[limb, FEATURES_END] - prior.limb[limb, FEATURES])
    clear(matrix[: size * m])
    clear(force[:size])
    for c in range(prior.limb[limb, COMPONENTS], prior.limb[limb, COMPONENTS_END]):
        share = shares[c]
        if share > LIGHT:
            precision, pull = prior.precision[c], prior.pull[c]
            for a in range(size * m):
                matrix[a] += share * precision[a]
            for a in range(size):
                force[a] -= share * pull[a]
    for b in range(size):  # the matrix is symmetric: its rows are its columns
        row, x = matrix[b * m : (b + 1) * m], scratch[b]
        for a in range(size):
            force[a] += x * row[a]


# --- The loop ---


@kernel
def natural_energy(comfort, prior, theta, reference, ws, scratch):
    """Return L at a pose whose bodies are placed."""
    return change_energy(comfort, theta, reference) + prior_energy(prior, ws, scratch)


@kernel
def natural_derivatives(
    figure, order, springs, comfort, prior, theta, reference, ws, scratch, epsilon, slope, exact, fresh
):
    """Write gradient and Hessian of E + epsilon L at a placed pose, and the gradient of epsilon L into slope (n,).

    The last `prior_energy` was of the same pose. fresh: whether those of E must be written first.
    """
    if fresh:
        derivatives(figure, order, springs, theta, ws, exact)
    for i in range(theta.shape[0]):
        slope[i] = -ws.gradient[i]
    add_change(order, comfort, theta, reference, ws, epsilon)
    add_prior(figure, order, prior, ws, scratch, epsilon)
    for i in range(theta.shape[0]):
        slope[i] += ws.gradient[i]


@kernel
def natural_step(
    figure, order, springs, comfort, prior, lower, upper, theta, reference, ws, scratch, fixed, scale, params, unit,
    gain_tolerance, epsilon, damping, energy, change, before, fresh,
):  # fmt: skip
    """Write into ws.trial a step that lowers E + epsilon L, placed; E is `energy` and L is `change` at theta.

    `before` is what the step before has gained of L, to first order. Returns whether there is a step; whether it gains
    next to nothing; whether it gains what was predicted; E and L there; what it gains of L; and the next damping.
    """
    own = ws.best  # (n,): gradient of epsilon L
    exact = 1.0 if fresh and energy < params[EXACT] * epsilon * abs(change) else 0.0
    merit = max(epsilon, params[MERIT] * unit)
    natural_derivatives(
        figure, order, springs, comfort, prior, theta, reference, ws, scratch, epsilon, own, exact, fresh
    )
    for attempt in range(TRIES):
        hold_bounds(order, theta, lower, upper, ws, fixed)
        definite, slope, _, length = propose(order, theta, lower, upper, ws, fixed, scale, damping)
        if not definite:
            if exact == 0.0:
                damping = max(8.0 * damping, epsilon)
                continue
            exact = 0.0  # the exact Hessian is indefinite here: Gauss-Newton's is not
            if attempt > 0:
                energy_at(figure, springs, theta, ws)
                prior_energy(prior, ws, scratch)
            natural_derivatives(
                figure, order, springs, comfort, prior, theta, reference, ws, scratch, epsilon, own, 0.0, True
            )
            continue
        own_slope = 0.0
        for i in range(theta.shape[0]):
            own_slope += own[i] * (ws.trial[i] - theta[i])
        negligible = gain_tolerance * max(abs(change), 1e-4)  # of L
        gain = abs(own_slope) / epsilon * (1.0 + damping / epsilon)  # as if nothing had damped the step
        to_come = gain / (1.0 - min(gain / before, SLOWEST))  # of this step and those after it
        converged = to_come <= negligible and length < SHORT and energy < LOOSE * epsilon * max(abs(change), 1e-4)
        if converged and bound_is_wrong(order, comfort, lower, upper, ws, fixed, epsilon, negligible):
            converged = False
        after = energy_at(figure, springs, ws.trial, ws)
        changed = natural_energy(comfort, prior, ws.trial, reference, ws, scratch)
        if after + merit * changed < energy + merit * change or after < 0.25 * energy or converged:
            good = after + epsilon * changed - energy - epsilon * change <= 0.4 * slope
            damping = 0.0 if damping < 0.1 * epsilon else 0.2 * damping
            return True, converged, good, after, changed, max(gain, 1e-300), damping
        damping = max(8.0 * damping, 2.0 * epsilon)
    energy_at(figure, springs, theta, ws)
    return False, False, False, energy, change, before, damping


@kernel
def bound_is_wrong(order, comfort, lower, upper, ws, fixed, epsilon, negligible):
    """Return whether a dof that the step holds at its bound would leave it there and gain more than `negligible` of L.

    Which bounds hold is decided by the gradient where the step begins, and that is mostly the goals' own.
    """
    multiply(order, ws.hessian, ws.step, ws.spare, ws.path)
    for i in range(fixed.shape[0]):
        if fixed[i] != 0.0 and lower[i] < upper[i]:
            slope = (ws.gradient[i] + ws.spare[i]) / epsilon  # of L, where the step ends
            inward = -slope if ws.trial[i] <= lower[i] else (slope if ws.trial[i] >= upper[i] else 0.0)
            if inward > 0.0 and inward * inward > 2.0 * comfort.stiffness[i] * negligible:
                return True
    return False


@kernel
def natural_loop(
    figure, order, springs, tolerances, comfort, prior, lower, upper, theta, reference, ws, scratch, fixed, scale,
    params,
):  # fmt: skip
    """Minimise E + epsilon L from theta, in place, as epsilon falls.

    Returns whether it converged, the iterations, and E at theta, whose bodies are placed.
    """
    project(theta, lower, upper)
    energy = energy_at(figure, springs, theta, ws)
    change = natural_energy(comfort, prior, theta, reference, ws, scratch)
    unit = goal_stiffness(figure, order, springs, comfort, theta, ws, scale, params[STIFF])
    if not unit > 0.0:
        unit = 1.0  # no goals
    least = params[LEAST] * unit
    epsilon = max(least, min(params[FIRST] * unit, energy))
    gain_tolerance = params[GAIN_TOLERANCE] * (WARM if energy < NEAR_GOALS * unit else 1.0)
    damping, gain = 0.0, math.inf
    for iteration in range(int(params[MOST])):
        accepted, converged, good, energy, change, gain, damping = natural_step(
            figure, order, springs, comfort, prior, lower, upper, theta, reference, ws, scratch, fixed, scale, params,
            unit, gain_tolerance, epsilon, damping, energy, change, gain, iteration > 0,
        )  # fmt: skip
        if not accepted:
            return False, iteration, energy
        copy_into(ws.trial, theta)
        if recentre_all(figure, theta, lower, upper):
            energy = energy_at(figure, springs, theta, ws)
        if converged and epsilon <= 1.001 * least:
            return True, iteration + 1, energy
        if good or converged:
            epsilon = max(epsilon * params[FALL], least)
    return False, int(params[MOST]), energy


@kernel
def goal_stiffness(figure, order, springs, comfort, theta, ws, scale, own):
    """Write the metric of the damping (n,); return the stiffness of the goals against that of the figure."""
    derivatives(figure, order, springs, theta, ws, 0.0)
    goals = 0.0
    for i in range(theta.shape[0]):
        scale[i] = comfort.stiffness[i]
        goals += abs(ws.hessian[i, order.rows[i, DEPTH]])
    return goals / own if own > 0.0 else 0.0


@kernel
def restore(figure, order, springs, tolerances, comfort, lower, upper, theta, ws, fixed, scale, params, energy):
    """Bring the goals from E = energy at theta, which is placed, to where they are met; return the steps taken."""
    for iteration in range(RESTORATIONS):
        if well_within(ws.error, tolerances):
            return iteration
        unit = goal_stiffness(figure, order, springs, comfort, theta, ws, scale, params[STIFF])
        hold_bounds(order, theta, lower, upper, ws, fixed)
        if not propose(order, theta, lower, upper, ws, fixed, scale, LAST_DAMPING * unit)[0]:
            return iteration
        after = energy_at(figure, springs, ws.trial, ws)
        if not after < energy:
            energy_at(figure, springs, theta, ws)
            return iteration
        energy = after
        copy_into(ws.trial, theta)
    return RESTORATIONS


@kernel
def well_within(errors, tolerances):
    """Return whether every goal is well within its tolerance."""
    for k in range(errors.shape[0]):
        if not errors[k] <= TIGHT * tolerances[k]:
            return False
    return True


@entry
def natural_batch(
    figure, order, kind, constants, targets, pull, home, tolerances, comfort, prior, lower, upper, poses, references,
    dofs, work, d, params, errors, outcome, iterations, values,
):  # fmt: skip
    """Minimise the change in every problem of a batch: poses (t, whole n), near references (t or 1, whole n).

    The figure may be a part of the whole, with its dofs (n,) in that; comfort and prior are the part's, poses,
    references and the box the whole's. Nothing moves the other dofs from their reference.
    Writes poses, errors (t, g), outcome (t,), iterations (t,), and values (t, 3): the energy of the goals, L, and 1
    where the pose is good.
    """
    ws, vectors, scratch = part_memory(figure, kind.shape[0], lower, upper, dofs, work, d)
    fixed, scale, low, high, theta, part_reference = vectors
    any_idle = False
    for limb in range(prior.idle.shape[0]):
        any_idle = any_idle or prior.idle[limb] > 0.0
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, pull, home)
        reference = references[t if references.shape[0] > 1 else 0]
        gather_into(reference, dofs, part_reference)
        gather_into(poses[t], dofs, theta)
        if any_idle:
            forward(figure, part_reference, ws)
            relieve_idle(prior, ws, scratch)
        converged, steps, energy = natural_loop(
            figure, order, springs, tolerances, comfort, prior, low, high, theta, part_reference, ws, scratch, fixed,
            scale, params,
        )  # fmt: skip
        steps += restore(
            figure, order, springs, tolerances, comfort, low, high, theta, ws, fixed, scale, params, energy
        )
        iterations[t] = steps
        good, values[t, 0] = judge(figure, springs, tolerances, low, high, theta, ws)
        values[t, 2] = 1.0 if good else 0.0
        values[t, 1] = natural_energy(comfort, prior, theta, part_reference, ws, scratch)
        for i in range(reference.shape[0]):
            poses[t, i] = min(max(reference[i], lower[i]), upper[i])
        scatter_into(theta, dofs, poses[t])
        copy_into(ws.error, errors[t])
        outcome[t] = STATIONARY if converged else RUNNING
        if all_reached(ws.error, tolerances):
            outcome[t] = CONVERGED


@entry
def prior_energies(figure, prior, poses, work, scratch, d, out):
    """Write the energy of the prior (t,) at poses (t, n)."""
    ws, _ = workspace(figure, 0, work, d)
    for t in range(poses.shape[0]):
        forward(figure, poses[t], ws)
        out[t] = prior_energy(prior, ws, scratch)
