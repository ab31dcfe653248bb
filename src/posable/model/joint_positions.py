"""A skeleton and its motion from joint positions over time, as pose estimators and position-only files give them.

The tree comes from a table for known sets of names, else from the data: a minimum spanning tree over how much each
distance varies. Bone lengths are medians over the clip. The rotation of each joint carries its bones from the rest pose
to the frame (Kabsch 1976), parents first; a joint with a single bone takes the twist about it from its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.linalg import solveh_banded
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.spatial.transform import Rotation

from posable.engine.layout import MAX_MAGNITUDE
from posable.errors import PosableError
from posable.model.body_plan import ARM, LEG, limb_of, words_of
from posable.model.joint_values import Floats, continuous_vectors
from posable.model.joints import Ball, Fixed, Free, Joint, Site
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

ROOT_NAMES = ("pelvis", "hips", "hip", "root", "midhip", "mid_hip", "torso")
MOST_SAMPLES = 400  # frames that determine the tree and the lengths
NEARNESS = 0.02  # fraction of a distance added to its variation: of two rigid neighbours the nearer one is the parent
RIGID = 0.004  # [m] deviation of a bone up to which it counts as rigid
PROJECTIONS = 30  # sweeps that give noisy paths the lengths of the bones


def motion_from_positions(
    names: Sequence[str],
    positions: np.ndarray,
    fps: float,
    *,
    up: str = "z",
    parents: Mapping[str, str | None] | None = None,
    name: str = "",
) -> Motion:
    """Return a motion whose joints follow given positions.

    Args:
        names: (J,) names of the joints.
        positions: (T, J, 3) [m]; NaN for joints that were not seen.
        fps: Frames per second.
        up: "y" or "z", the axis that points up.
        parents: {joint: parent or None}; found from the data by default.
        name: Name of the skeleton and the motion.

    Returns:
        A Motion of a Skeleton with a free root and a ball for every joint that carries a bone.

    Raises:
        PosableError: Fewer than two joints, names that do not fit, a joint that is never seen, or positions too far.
    """
    places = np.array(positions, dtype=float)
    if places.ndim != 3 or places.shape[1:] != (len(names), 3) or len(names) < 2:
        raise PosableError(
            f"joint positions: expected shape (T, {len(names)}, 3) for {len(names)} names, got {places.shape}"
        )
    farthest = np.abs(places, where=np.isfinite(places), out=np.zeros_like(places)).max(initial=0.0)
    if farthest > MAX_MAGNITUDE:
        raise PosableError(f"joint positions: expected numbers up to {MAX_MAGNITUDE:g} m, got {farthest:g}")
    seen = np.asarray(np.isfinite(places).all(axis=2).any(axis=0))
    unseen = [name for k, name in enumerate(names) if not seen[k]]
    if unseen:
        raise PosableError(
            f"joint positions: expected every joint in some frame, found none of {', '.join(unseen[:5])}"
        )
    places, left = clean_paths(places, fps)
    tree = _tree(names, places) if parents is None else _table_tree(names, parents)
    rows = np.linspace(0, len(places) - 1, min(MOST_SAMPLES, len(places))).astype(int)
    lengths = {k: _length(places[rows, k] - places[rows, p], left[k], left[p]) for k, p in tree if p >= 0}
    rest = places[_reference_frame(places, rows, up)]
    offsets = {k: _scaled(rest[k] - rest[p], lengths[k]) for k, p in tree if p >= 0}
    loose = _average_shapes(places[rows], tree, offsets, lengths, left)
    if left.any():
        places = _with_lengths(places, tree, offsets, loose)
    skeleton, carriers = _skeleton(names, tree, offsets, loose, up, name)
    return Motion(skeleton, _poses(places, tree, offsets, loose, carriers), fps, name)


def _tree(names: Sequence[str], places: Floats) -> list[tuple[int, int]]:
    """Return (joint, parent or -1), parents first: the tree of distances that vary least."""
    rows = places[np.linspace(0, len(places) - 1, min(MOST_SAMPLES, len(places))).astype(int)]
    apart = np.linalg.norm(rows[:, :, None] - rows[:, None], axis=-1)
    middle = np.median(apart, axis=0)
    cost = np.median(np.abs(apart - middle), axis=0) + NEARNESS * middle + 1e-6
    side = np.array([{"L": 1, "R": -1}.get(words_of(n)[0], 0) for n in names])
    limb = np.array([{LEG: 1, ARM: -1}.get(limb_of(n) or "", 0) for n in names])
    cost[(side[:, None] * side < 0) | (limb[:, None] * limb < 0)] *= 100.0  # no arm on a leg,
    mixed = (side[:, None] == 0) != (side == 0)
    cost[mixed] += 3.0 * NEARNESS * middle[mixed]  # no neck on a shoulder
    low = [n.lower() for n in names]
    root = next((low.index(word) for word in ROOT_NAMES if word in low), None)
    if root is None:
        root = int(np.argmin(middle.sum(axis=0)))
    graph = minimum_spanning_tree(np.triu(cost, 1))
    order, before = breadth_first_order(graph, root, directed=False)
    return [(int(k), int(before[k]) if k != root else -1) for k in order]


def _table_tree(names: Sequence[str], parents: Mapping[str, str | None]) -> list[tuple[int, int]]:
    """Return (joint, parent or -1), parents first, of a given tree; missing parents are skipped."""
    index = {n: k for k, n in enumerate(names)}

    def above(n: str) -> int:
        parent = parents.get(n)
        while parent is not None and parent not in index:
            parent = parents.get(parent)
        return -1 if parent is None else index[parent]

    pairs, done = [(k, above(n)) for n, k in index.items()], {-1}
    out: list[tuple[int, int]] = []
    while len(out) < len(pairs):
        ready = [(k, p) for k, p in pairs if p in done and k not in done]
        if not ready:
            raise PosableError("joint positions: expected parents that form a tree, found a cycle")
        out += ready
        done.update(k for k, _ in ready)
    return out


def _reference_frame(places: Floats, rows: np.ndarray, up: str) -> int:
    """Return the frame in which the body is tallest above its lowest point, which gives the rest pose."""
    heights = places[rows][:, :, 2 if up == "z" else 1]
    return int(rows[int(np.argmax(np.ptp(heights, axis=1)))])


def _length(bones: Floats, *left: float) -> float:
    """Return the median length [m] of a bone (T, 3), less what noise of its ends adds to it: 3 s^2 to its square."""
    square = float(np.median(np.sum(bones**2, axis=1)))
    return float(np.sqrt(max(square - 3.0 * sum(s * s for s in left), 0.25 * square)))


def _with_lengths(
    places: Floats, tree: list[tuple[int, int]], offsets: Mapping[int, Floats], loose: set[int]
) -> Floats:
    """Return the places (T, J, 3) near given ones at which all bones have their lengths and rigid groups their shapes.

    Every sweep moves the two ends of each rigid distance by half of what it is off (Müller et al. 2007).
    """
    rigid = [(k, p, float(np.linalg.norm(offsets[k]))) for k, p in tree if p >= 0]
    for k, p in tree:
        beside = [c for c, q in tree if q == p and c < k and p >= 0 and not loose & {c, k}]
        rigid += [(k, c, float(np.linalg.norm(offsets[k] - offsets[c]))) for c in beside]
    out = places.copy()
    for sweep in range(PROJECTIONS):
        for a, b, length in rigid if sweep % 2 else rigid[::-1]:
            apart = out[:, a] - out[:, b]
            off = 1.0 - length / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)
            out[:, a] -= 0.5 * off * apart
            out[:, b] += 0.5 * off * apart
    return out


def _scaled(vector: Floats, length: float) -> Floats:
    return vector * (length / max(float(np.linalg.norm(vector)), 1e-9))


def _average_shapes(
    places: Floats, tree: list[tuple[int, int]], offsets: dict[int, Floats], lengths: Mapping[int, float], left: Floats
) -> set[int]:
    """Set the relative directions of bones that share a joint (hips, shoulders) to their average over the clip.

    Returns the bones that do not keep that direction, as a spine does not keep that of the hips; each gets a joint of
    its own.
    """
    children: dict[int, list[int]] = {}
    for k, p in tree:
        children.setdefault(p, []).append(k)
    still = np.broadcast_to(np.eye(3), (len(places), 3, 3))
    loose: set[int] = set()
    for joint, below in children.items():
        if joint < 0 or len(below) < 2:
            continue
        seen = np.stack([places[:, c] - places[:, joint] for c in below], axis=1)
        weights, gaps = np.ones(len(below)), [0.0] * len(below)
        bounds = np.hypot(RIGID, 1.6 * np.hypot(left[below], left[joint]))  # noise is no sign of a joint
        for _ in range(4):
            turned = _carry(still, np.array([offsets[c] for c in below]), seen, weights)
            own = np.einsum("tji,tbj->tbi", turned, seen)
            offsets.update({c: _scaled(own[:, k].mean(axis=0), lengths[c]) for k, c in enumerate(below)})
            gaps = [float(np.median(np.linalg.norm(own[:, k] - offsets[c], axis=1))) for k, c in enumerate(below)]
            weights = 1.0 / (1.0 + (np.array(gaps) / bounds) ** 2)
        loose |= {c for c, gap, bound in zip(below, gaps, bounds, strict=True) if gap > bound}
    return loose


def _weight(k: int, loose: set[int]) -> float:
    """Return a bone's weight in its joint's rotation; a loose one only decides what the others leave open."""
    return 0.01 if k in loose else 1.0


def _skeleton(
    names: Sequence[str],
    tree: list[tuple[int, int]],
    offsets: Mapping[int, Floats],
    loose: set[int],
    up: str,
    name: str,
) -> tuple[Skeleton, dict[int, list[int]]]:
    """Return the skeleton and {joint: its children}; a loose bone gets a ball joint of its own at its parent."""
    carriers: dict[int, list[int]] = {}
    for k, p in tree:
        if p >= 0:
            carriers.setdefault(p, []).append(k)
    joints, sites = [], []
    for k, p in tree:
        parent = names[p] if p >= 0 else None
        if k in loose:
            parent = f"{names[p]}_to_{names[k]}"
            joints.append(Joint(parent, Ball("rotvec"), names[p]))
        if p < 0:
            joints.append(Joint(names[k], Free("rotvec")))
        elif k in carriers:
            joints.append(Joint(names[k], Ball("rotvec"), parent, offset=offsets[k]))
        else:
            joints.append(Joint(names[k], Fixed(), parent, offset=offsets[k]))
            sites.append(Site(f"{names[k]}.end", names[k]))
    return Skeleton(joints, sites, name, up=up), carriers


def _poses(
    places: Floats, tree: list[tuple[int, int]], offsets: Mapping[int, Floats], loose: set[int], carriers
) -> Floats:
    """Return poses (T, n) [m, rad] that carry every bone onto its joints."""
    still = np.broadcast_to(np.eye(3), (len(places), 3, 3))
    world: dict[int, Floats] = {}
    columns: list[Floats] = []

    def turn(parent: Floats, now: Floats) -> None:
        columns.append(continuous_vectors(Rotation.from_matrix(np.swapaxes(parent, 1, 2) @ now).as_rotvec()))

    for k, p in tree:
        parent = world[p] if p >= 0 else still
        if k in loose:
            away = (places[:, k] - places[:, p])[:, None]
            between = _carry(parent, offsets[k][None], away)
            turn(parent, between)
            parent = between
        if p < 0:
            columns.append(places[:, k])
        if k in carriers:
            bones = np.array([offsets[c] for c in carriers[k]])
            seen = np.stack([places[:, c] - places[:, k] for c in carriers[k]], axis=1)
            world[k] = _carry(parent, bones, seen, np.array([_weight(c, loose) for c in carriers[k]]))
            turn(parent, world[k])
    return np.concatenate(columns, axis=1)


def _carry(parent: Floats, bones: Floats, seen: Floats, weights: Floats | None = None) -> Floats:
    """Return rotations (T, 3, 3) that carry bones (b, 3) onto seen (T, b, 3); undetermined twist is the parent's."""
    if weights is not None:
        bones = weights[:, None] * bones
    if len(bones) > 1 and np.linalg.matrix_rank(bones, tol=1e-2 * np.abs(bones).max()) > 1:
        matrix = np.einsum("tbi,bj->tij", seen, bones)
        u, _, vt = np.linalg.svd(matrix)
        flip = np.sign(np.linalg.det(u @ vt))
        u[:, :, 2] *= flip[:, None]
        return u @ vt
    start = np.einsum("tij,j->ti", parent, bones.sum(axis=0))
    end = seen.sum(axis=1)
    start /= np.maximum(np.linalg.norm(start, axis=1, keepdims=True), 1e-12)
    end = end / np.maximum(np.linalg.norm(end, axis=1, keepdims=True), 1e-12)
    axis, cosine = np.cross(start, end), np.sum(start * end, axis=1)
    # shortest rotation between two directions: v + hat(v)^2 / (1 + c)
    hat = np.zeros((len(axis), 3, 3))
    hat[:, 0, 1], hat[:, 0, 2], hat[:, 1, 2] = -axis[:, 2], axis[:, 1], -axis[:, 0]
    hat -= np.swapaxes(hat, 1, 2)
    swing = np.eye(3) + hat + hat @ hat / np.maximum(1.0 + cosine, 1e-9)[:, None, None]
    return Rotation.from_matrix(swing @ parent).as_matrix()


# --- The Whittaker smoother: paths from samples with gaps, noise and outliers ---
#
# Each path minimises sum w_t |x_t - y_t|^2 + lambda sum |x_t-1 - 2 x_t + x_t+1|^2 (Whittaker 1923). Generalised
# cross-validation with the trace of the periodic case (Garcia 2010) determines lambda point by point, so that a fast
# hand is smoothed less than a hip. Outliers are removed and the path is fitted again.

FEW = 8  # fewer frames than this say nothing about noise
CLEAN = 0.125  # [m/s] noise times frame rate below which samples are taken as they are: 4 mm at 30 frames a second
LAMBDAS = 10.0 ** np.arange(-2.0, 8.1, 0.5)  # [1] candidates
FILL = 1e-4  # [1] lambda of paths that are only filled
SLACK = 0.3  # fraction of the penalty that is on speed before the first and after the last sample
FAR = 6.0  # standard deviations beyond which a sample is an outlier
LEAST = 0.01  # [m] smaller deviations are never outliers


def clean_paths(places: Floats, fps: float) -> tuple[Floats, Floats]:
    """Return paths (T, J, 3) [m] without gaps and noise, and the deviation (J,) [m] per axis that is left in them.

    Paths without noise keep every sample; only their gaps are filled. Every point must be seen at least once.
    """
    total, count = places.shape[:2]
    seen = np.asarray(np.isfinite(places).all(axis=2))
    noise = _noise(places) if total >= FEW else 0.0
    noisy = noise * fps > CLEAN
    out, left = places.copy(), np.zeros(count)
    if total < 3:
        return _nearest(places, seen), left
    for k in range(count):
        if noisy and seen[:, k].sum() >= FEW:
            out[:, k], left[k] = _smoothed(places[:, k], seen[:, k])
        elif not seen[:, k].all():
            filled = _path(np.where(seen[:, k, None], places[:, k], 0.0), seen[:, k].astype(float), FILL)
            out[~seen[:, k], k] = filled[~seen[:, k]]
    return out, left


def _noise(places: Floats) -> float:
    """Return the deviation [m] of white noise with the same fourth differences; 0 if there are too few."""
    jolts = np.abs(np.diff(places, n=4, axis=0))
    jolts = jolts[np.isfinite(jolts)]
    return float(np.median(jolts)) / (8.37 * 0.6745) if jolts.size >= FEW else 0.0  # sqrt(70)


def _nearest(places: Floats, seen: np.ndarray) -> Floats:
    out = places.copy()
    for k in range(places.shape[1]):
        out[:, k] = places[np.argmax(seen[:, k]), k] if not seen[:, k].all() else places[:, k]
    return out


def _smoothed(path: Floats, seen: np.ndarray) -> tuple[Floats, float]:
    """Return a path (T, 3) [m] and the deviation [m] per axis that is left in it."""
    samples, weights = np.where(seen[:, None], path, 0.0), seen.astype(float)
    found, left = _best(samples, weights)
    misses = np.linalg.norm(samples - found, axis=1)
    usual = 1.4826 * float(np.median(misses[seen])) / 1.54  # the median of three such axes
    wrong = seen & (misses > max(FAR * usual, LEAST))
    if wrong.any():
        weights[wrong] = 0.0
        found, left = _best(samples, weights)
    return found, left


def _best(samples: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the path with the best score, and the deviation [m] per axis that is left in it."""
    total, n = len(samples), float(weights.sum())
    stiffness = (2.0 - 2.0 * np.cos(np.pi * np.arange(total) / total)) ** 2
    best, path_of_best, left = np.inf, samples, 0.0
    for strength in LAMBDAS:
        path = _path(samples, weights, strength)
        kept = float((n / (n + total * strength * stiffness)).sum()) / n  # trace of the smoother, per sample
        room = max(1.0 - kept, 1e-3)
        square = float((weights[:, None] * (samples - path) ** 2).sum()) / (3.0 * n)
        if square / room**2 < best:
            best, path_of_best, left = square / room**2, path, float(np.sqrt(square / room * kept))
    return path_of_best, left


def _path(samples: Floats, weights: Floats, strength: float) -> Floats:
    """Return the path (T, 3) of least bend near samples (T, 3) with weights (T,)."""
    total = len(samples)
    second = np.ones(total - 2)
    known = np.flatnonzero(weights)
    unseen = np.full(total - 1, SLACK)
    unseen[known[0] : known[-1]] = 0.0
    band = np.zeros((3, total))
    band[0, :-2] += second
    band[0, 1:-1] += 4.0 * second
    band[0, 2:] += second
    band[1, :-2] -= 2.0 * second
    band[1, 1:-1] -= 2.0 * second
    band[2, :-2] += second
    band[0, :-1] += unseen
    band[0, 1:] += unseen
    band[1, :-1] -= unseen
    band *= strength
    band[0] += weights
    return solveh_banded(band, weights[:, None] * samples, lower=True)
