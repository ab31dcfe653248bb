"""Missing and misplaced markers: samples that no camera saw, rejection of outliers, interpolation of gaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from posable.mocap.unwrap import continuous
from posable.model.joint_values import continuous_vectors, joint_transform, rotation_values, turns_freely
from posable.model.joints import JointMotion
from posable.model.motion import interpolate
from posable.model.skeleton import Skeleton

OUTLIER = 8.0  # robust standard deviations beyond which a marker is an outlier
OUTLIER_LEAST = 0.05  # [m]: and at least this far
LONG = 8  # frames: shorter gaps are not bridged
CATCH_UP = 12  # frames after a gap in which the solver converges to the marker again
CHUNK = 1 << 15  # frames
MEMORY = 0.15  # [s] time constant with which an unobserved motion loses its velocity and returns to the line
LASTS = 0.75  # [s]: in longer gaps it loses its velocity sooner, in proportion
MOSTLY = 0.5  # fraction of a marker's gap in which a joint above it must be unobserved for the gap to be filled
SLOPE = 3  # frames over which speed is measured
BESIDE = 4  # frames on either side of a short gap that determine how it is crossed
TRIALS = 6  # stretches on either side of a short gap on which its cubic is tried
CAUTION = 1.0  # standard errors by which the part of a cubic is below its estimate
TRUST = 0.25  # stretches that a cubic counts for without trials
SAMPLES = 400  # frames from which noise and usual distances are measured
STAYS = 0.25  # [s] shorter stretches between gaps are too short to locate a marker on its bone
SHORT = 0.1  # [s]: shorter gaps are filled by the marker's own path
TURNED = 1.5  # [rad] rotation of the body in a gap beyond which straight lines of markers are wrong
SPINS = 1.0  # [s] over which a body that spins before and after a gap is expected to go on
MAD = 1.4826  # standard deviations per median absolute deviation


def thresholds(errors: np.ndarray, least: float = OUTLIER_LEAST) -> np.ndarray:
    """Return (M,) [m]: the error beyond which a marker is an outlier, by the robust scale of errors (T, M) [m]."""
    out = np.full(errors.shape[1], np.inf)
    seen = np.isfinite(errors).any(axis=0)  # a marker that is never seen has no median
    middle = column_medians(errors[:, seen])
    spread = MAD * column_medians(np.abs(errors[:, seen] - middle))
    out[seen] = np.maximum(middle + OUTLIER * spread, least)
    return out


def column_medians(values: np.ndarray) -> np.ndarray:
    """Return the medians (M,) of the columns of values (T, M) ignoring NaN; faster than nanmedian."""
    ordered, count = np.sort(values, axis=0), np.count_nonzero(~np.isnan(values), axis=0)  # NaN are last
    columns = np.arange(values.shape[1])
    return 0.5 * (ordered[(count - 1) // 2, columns] + ordered[count // 2, columns])


def noise_of(positions: np.ndarray) -> np.ndarray:
    """Return the standard deviation (M,) [m] of the noise in each coordinate of markers with positions (T, M, 3).

    Fourth differences of a body's motion are small: their median is that of white noise, amplified by the root of 70.
    """
    total, count = positions.shape[:2]
    if total < 5:
        return np.zeros(count)
    rows = np.unique(np.linspace(0, total - 5, min(SAMPLES, total - 4)).astype(int))
    weighted = (weight * positions[rows + k] for k, weight in enumerate((1.0, -4.0, 6.0, -4.0, 1.0)))
    jolts = np.abs(sum(weighted)).swapaxes(1, 2).reshape(-1, count)
    out = np.zeros(count)
    seen = np.isfinite(jolts).any(axis=0)
    out[seen] = MAD * column_medians(jolts[:, seen]) / np.sqrt(70.0)
    return out


def runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return (start, end) of every run of true values in mask (T,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def blend_weight(count: int) -> np.ndarray:
    """Return (count,) weights that rise smoothly from near 0 to near 1."""
    x = (np.arange(count) + 1.0) / (count + 1.0)
    return x * x * (3.0 - 2.0 * x)


def bridge(poses: np.ndarray, back: np.ndarray, gaps: list[tuple[int, int, int, np.ndarray]]) -> None:
    """Bridge gaps in poses (T, n), in place; each gap is (start, end, converged, degrees of freedom of the marker).

    poses were solved forwards and follow what was before the gap, back (T, n) was solved backwards and follows what
    comes after it: a blend of both leaves one and arrives at the other without a jump. After the gap the forward poses
    lag until they have converged to the marker again; there they are blended in from the backward ones.
    """
    for start, end, caught_up, dofs in gaps:
        weight = blend_weight(end - start)[:, None]
        poses[start:end, dofs] += weight * (back[start:end, dofs] - poses[start:end, dofs])
        weight = blend_weight(caught_up - end)[::-1, None]
        poses[end:caught_up, dofs] += weight * (back[end:caught_up, dofs] - poses[end:caught_up, dofs])


def frame_errors(errors: np.ndarray) -> np.ndarray:
    """Return the mean error (T,) [m] of each frame from errors (T, M); NaN where nothing was seen."""
    out = np.full(len(errors), np.nan)
    for start in range(0, len(errors), CHUNK):  # no second copy of a long take
        part = errors[start : start + CHUNK]
        seen = np.isfinite(part)
        count = seen.sum(axis=1)
        total = np.where(seen, part, 0.0).sum(axis=1)
        out[start : start + CHUNK] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return out


def stretches(seen: np.ndarray, jumps: Sequence[tuple[int, int]], fps: float) -> list[tuple[int, int]]:
    """Return (first frame, end) of the stretches over which a marker stays attached: between long gaps and jumps.

    Args:
        seen: (T,) bool.
        jumps: (first frame, end) of times for which its label is where it jumped to.
        fps: Frames per second.
    """
    out: list[tuple[int, int]] = []
    for a, b in runs(seen):
        if out and a - out[-1][1] <= short_gap(fps):
            out[-1] = (out[-1][0], b)
        else:
            out.append((a, b))
    parts: list[tuple[int, int]] = []
    for a, b in out:
        parts += pairwise([a, *sorted({t for span in jumps for t in span if a < t < b}), b])
    return [(a, b) for a, b in parts if b - a >= STAYS * fps]


# --- Short gaps ---


def short_gap(fps: float) -> int:
    """Return the number of frames up to which a gap is short."""
    return max(1, round(SHORT * fps))


def beside_short(most: int) -> int:
    """Return the number of frames on either side of a gap of up to `most` frames that determine how it is filled."""
    return most + 1 + 2 * BESIDE + (TRIALS - 1) * max(1, (most + 1) // 4)


def fill_short(places: np.ndarray, most: int, noise: np.ndarray | None = None) -> np.ndarray:
    """Fill gaps of up to `most` frames in places (T, M, 3), in place, by cubics; return where (T, M) bool.

    A cubic leaves with the speed of the frames before the gap and arrives with that of the frames after it. Where
    another gap is too close for the speed to be measured, it is that of a parabola through the nearest samples. Noise
    and jerks make these speeds wrong: where cubics would have crossed stretches beside the gap badly, the path is
    nearer to a straight line. Gaps at either end of the take stay. noise: (M,) [m] standard deviation of each marker's
    coordinates; 0 where not given.
    """
    seen = np.isfinite(places[..., 0])
    filled = np.zeros(seen.shape, dtype=bool)
    total, count = seen.shape
    if seen.all() or total < 2 * SLOPE + 3:
        return filled
    rows = np.arange(total)[:, None]
    before = np.maximum.accumulate(np.where(seen, rows, -1), axis=0)
    after = np.minimum.accumulate(np.where(seen, rows, total)[::-1], axis=0)[::-1]
    t, k = np.nonzero(~seen & (before >= SLOPE) & (after < total - SLOPE) & (after - before - 1 <= most))
    gaps, gap = np.unique(before[t, k] * count + k, return_inverse=True)
    a, marker = np.divmod(gaps, count)
    b = after[a + 1, marker]
    spread = np.zeros(len(gaps)) if noise is None else noise[marker]
    first, last = _speed_beside(places, a, marker, -1, spread), _speed_beside(places, b, marker, 1, spread)
    for speeds, here, beside, across in ((first, a, before[a - 1, marker], b), (last, b, after[b + 1, marker], a)):
        near = (beside >= 0) & (beside < total) & (np.abs(here - beside) <= most)
        lost = np.flatnonzero(np.isnan(speeds[:, 0]) & near)
        speeds[lost] = _speed_of_parabola(places, marker[lost], beside[lost], here[lost], across[lost])
    share = _share_of_bend(places, a, b, marker, first, last, spread)
    line, bend = _line_and_bend(places, a[gap], b[gap], k, first[gap], last[gap], t - a[gap])
    known = np.isfinite(bend[:, 0])
    places[t[known], k[known]] = (line + share[gap, None] * bend)[known]
    filled[t[known], k[known]] = True
    return filled


def _line_and_bend(
    places: np.ndarray, a: np.ndarray, b: np.ndarray, k: np.ndarray, first: np.ndarray, last: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where lines from frames a (N,) to b of markers k are t frames after a (N, 3), and cubics relative to them.

    The cubics have velocities first and last (N, 3) [m/frame] at their ends.
    """
    length, x = (b - a)[:, None], (t / (b - a))[:, None]
    way = places[b, k] - places[a, k]
    bend = x * (1.0 - x) ** 2 * (length * first - way) - x * x * (1.0 - x) * (length * last - way)
    return places[a, k] + x * way, bend


def _share_of_bend(
    places: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    k: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    noise: np.ndarray,
) -> np.ndarray:
    """Return the part (N,) of their bend with which cubics have the least squared error in the middle of stretches.

    The stretches are as long as the gap from a to b (N,), and beside it.
    """
    half = (b - a) // 2
    _, bend = _line_and_bend(places, a, b, k, first, last, half)
    fits = TRUST * np.square(bend).sum(axis=-1)
    size = np.maximum(fits, 1e-30)
    tried = np.zeros((3, len(k)))  # sums over trials of squared products, of products by sizes, and of squared sizes
    for trial in range(2 * TRIALS):
        shift = b - a + BESIDE + trial // 2 * np.maximum(1, (b - a) // 4)
        start = a + np.where(trial % 2, shift, -shift)
        end = start + b - a
        some = np.flatnonzero((start >= BESIDE) & (end < len(places) - BESIDE))
        start, end, marker, middle = start[some], end[some], k[some], half[some]
        leaves = _speed_beside(places, start, marker, -1, noise[some])
        arrives = _speed_beside(places, end, marker, 1, noise[some])
        line, bend = _line_and_bend(places, start, end, marker, leaves, arrives, middle)
        off = places[start + middle, marker] - line
        seen = np.isfinite(off[:, 0]) & np.isfinite(bend[:, 0])
        large = np.where(seen, np.square(bend).sum(axis=-1), 0.0)
        along = np.where(seen, (bend * off).sum(axis=-1), 0.0)
        size[some] += large
        fits[some] += along
        tried[:, some] += along**2, along * large, large**2
    share = np.minimum(fits / size, 1.0)
    spread = np.sqrt(np.maximum(tried[0] - 2.0 * share * tried[1] + share**2 * tried[2], 0.0)) / size
    return np.maximum(share - CAUTION * spread, 0.0)


def _speed_of_parabola(
    places: np.ndarray, k: np.ndarray, beside: np.ndarray, here: np.ndarray, across: np.ndarray
) -> np.ndarray:
    """Return the velocities (N, 3) [m/frame] of markers k (N,) at frames `here`, on parabolas through three frames."""
    one, two = (here - beside)[:, None], (across - here)[:, None]
    slopes = (places[here, k] - places[beside, k]) / one, (places[across, k] - places[here, k]) / two
    return (two * slopes[0] + one * slopes[1]) / (one + two)


def _speed_beside(places: np.ndarray, t: np.ndarray, k: np.ndarray, way: int, noise: np.ndarray) -> np.ndarray:
    """Return the velocities (N, 3) [m/frame] of markers k (N,) at frames t (N,), before (way -1) or after (1) a gap.

    The mean velocity of the last frames lags behind; a parabola has the velocity at the edge but amplifies the noise
    (N,) [m]. It is weighted by how far the two differ beyond the noise (James & Stein 1961).
    """
    here, far = places[t, k], t + way * BESIDE
    mean = way * (places[t + way * SLOPE, k] - here) / SLOPE
    inside = (far >= 0) & (far < len(places))
    end = np.where(inside[:, None], places[np.where(inside, far, t), k], np.nan)
    gap = way * (4.0 * places[t + way * BESIDE // 2, k] - 3.0 * here - end) / BESIDE - mean
    gap = np.where(np.isfinite(gap), gap, 0.0)
    made_by_noise = 3.0 * 1.35 * np.square(noise)  # of the squared gap, for SLOPE and BESIDE
    share = 1.0 - made_by_noise / np.maximum(np.square(gap).sum(axis=-1), 1e-30)
    return mean + np.maximum(share, 0.0)[:, None] * gap


# --- Unobserved joints ---


class UnobservedJoints:
    """The joints that too few markers determine, frame by frame, and how markers and poses bridge these times.

    A joint is determined by the markers on its own bone and below: one for every two of its degrees of freedom.

    Attributes:
        joints: {joint: [(first frame, end), ...]} of joints that are not determined.
    """

    def __init__(self, skeleton: Skeleton, sites: list[str], seen: np.ndarray):
        self.skeleton, self.sites, self.total = skeleton, sites, len(seen)
        self.joints: dict[str, list[tuple[int, int]]] = {}
        self.holes = np.zeros((0, 3), dtype=int)  # (marker, first frame, end) to be filled, in the order of frames
        if seen.all():
            return
        bone = {site.name: site.joint for site in skeleton.sites}
        self.bones = [bone.get(site, site) for site in sites]
        below: dict[str, list[int]] = {}
        for k, joint in enumerate(self.bones):
            for above in self._above(joint):
                below.setdefault(above, []).append(k)
        loose = np.zeros(seen.shape, dtype=bool)
        for joint in skeleton.joints:
            if not joint.motion.dofs or joint.name not in below:
                continue
            needed = min(len(below[joint.name]), -(-len(joint.motion.dofs) // 2))
            missing = seen[:, below[joint.name]].sum(axis=1) < needed
            if missing.any():
                self.joints[joint.name] = runs(missing)
                loose[:, below[joint.name]] |= missing[:, None]
        holes: list[tuple[int, int, int]] = []
        for k in np.flatnonzero((loose & ~seen).any(axis=0)):
            count = np.concatenate([[0], np.cumsum(loose[:, k])])
            spans = [(a, b) for a, b in runs(~seen[:, k]) if a > 0 and b < self.total]
            holes += [(int(k), a, b) for a, b in spans if count[b] - count[a] > MOSTLY * (b - a)]
        if holes:
            self.holes = np.array(sorted(holes, key=lambda hole: hole[1]))

    def fill(self, places: np.ndarray, start: int, edges: np.ndarray) -> np.ndarray:
        """Fill holes in places (t, M, 3), whose first frame is `start`, by straight lines; return where (t, M) bool.

        The lines lead the figure to where the markers reappear; `cross` then replaces the poses. edges: (H, 2, 3) [m],
        where the marker of each hole was last seen before it, and first after it.
        """
        filled = np.zeros(places.shape[:2], dtype=bool)
        end = start + len(places)
        inside = np.flatnonzero((self.holes[:, 1] < end) & (self.holes[:, 2] > start))
        for (k, a, b), (first, last) in zip(self.holes[inside].tolist(), edges[inside], strict=True):
            rows = np.arange(max(a, start), min(b, end))
            share = ((rows - a + 1) / (b - a + 1))[:, None]
            places[rows - start, k] = (1.0 - share) * first + share * last
            filled[rows - start, k] = True
        return filled

    def loose(self, total: int) -> np.ndarray:
        """Return (total, n) bool: the degrees of freedom that are not determined, frame by frame."""
        out = np.zeros((total, self.skeleton.size), dtype=bool)
        for name, spans in self.joints.items():
            for a, b in spans:
                out[a:b, self.skeleton.index(name)] = True
        return out

    def cross(self, poses: np.ndarray, fps: float) -> np.ndarray:
        """Interpolate joints while they are not determined, in place; return the frames (T,) that changed.

        A joint takes the shortest way, so that a limb follows a body that is seen. It leaves with its speed before the
        gap and arrives with its speed after it. Before its first and after its last marker it rests.
        """
        changed = np.zeros(len(poses), dtype=bool)
        self._turned_back(poses, fps)
        for name, spans in self.joints.items():
            joint, where = self.skeleton.joint(name), self.skeleton.index(name)
            for a, b in spans:
                b = min(b, len(poses))
                if a >= b:
                    continue
                changed[a:b] = True
                if a == 0 or b == len(poses):
                    poses[a:b, where] = poses[b, where] if a == 0 and b < len(poses) else poses[max(a - 1, 0), where]
                elif turns_freely(joint.motion):
                    poses[a:b, where] = _cross_ball(joint.motion, poses[:, where], a, b, fps)
                else:
                    poses[a:b, where] = _cross(poses[:, where], a, b, fps)
        return changed

    def _above(self, joint: str | None) -> list[str]:
        """Return a joint and those above it, the nearest first."""
        out: list[str] = []
        while joint is not None:
            out.append(joint)
            joint = self.skeleton.joint(joint).parent
        return out

    def _turned_back(self, poses: np.ndarray, fps: float) -> None:
        """Interpolate poses where the whole body is lost and turns far: lines of markers would pass through it."""
        root = next((joint for joint in self.skeleton.joints if joint.motion.dofs), None)
        if root is None or root.name not in self.joints or not turns_freely(root.motion):
            return
        where = np.arange(self.skeleton.size)[self.skeleton.index(root.name)]
        for a, b in self.joints[root.name]:
            if a == 0 or b >= len(poses):
                continue
            first, turn = _turn_across(root.motion, poses[:, where], a, b, fps)
            if np.linalg.norm(turn) > TURNED:
                at = np.arange(a, b, dtype=float)
                poses[a:b] = interpolate(self.skeleton, [a - 1.0, float(b)], poses[[a - 1, b]], at)
                share, turns = (at - a + 1.0) / (b - a + 1.0), where[-3:]
                rotation = first * Rotation.from_rotvec(share[:, None] * turn)
                poses[a:b, turns] = rotation_values(root.motion, rotation, poses[a:b, turns])
                poses[a - 1 :] = continuous(self.skeleton, poses[a - 1 :])


def _turn_across(motion: JointMotion, values: np.ndarray, a: int, b: int, fps: float) -> tuple[Rotation, np.ndarray]:
    """Return the rotation of a free joint before a gap, and the rotation vector (3,) that leads to that after it.

    A body that spins goes on in the same direction, even if that is the long way round.
    """
    before, after = max(0, a - 1 - SLOPE), min(len(values) - 1, b + SLOPE)
    rotation = joint_transform(motion, values[[before, a - 1, b, after]])[1]
    arrives, turn, leaves = (rotation[:-1].inv() * rotation[1:]).as_rotvec()
    spin = 0.5 * (arrives / max(a - 1 - before, 1) + leaves / max(after - b, 1)) * min(b - a + 1, SPINS * fps)
    return rotation[1], nearer_way(turn, spin)


def nearer_way(turn: np.ndarray, spin: np.ndarray) -> np.ndarray:
    """Return rotation vectors (..., 3) [rad], or those of the same turns the other way round where nearer to a spin."""
    length = np.linalg.norm(turn, axis=-1, keepdims=True)
    around = turn * (1.0 - 2.0 * np.pi / np.maximum(length, 1e-9))
    off = [np.linalg.norm(way - spin, axis=-1, keepdims=True) for way in (turn, around)]
    return np.where(off[1] < off[0], around, turn)


def _cross_ball(motion: JointMotion, values: np.ndarray, a: int, b: int, fps: float) -> np.ndarray:
    """Return values (b - a, k) of a ball or free joint across a gap, its rotation relative to that before the gap."""
    before, after = max(0, a - 1 - SLOPE), min(len(values) - 1, b + SLOPE)
    part = values[before : after + 1].copy()
    first = a - 1 - before
    rotation = joint_transform(motion, part)[1]
    turns = slice(part.shape[1] - 3, part.shape[1])
    seen = part.copy()
    seen[:, turns] = continuous_vectors((rotation[first].inv() * rotation).as_rotvec())
    out = _cross(seen, first + 1, first + 1 + b - a, fps)
    turned = rotation[first] * Rotation.from_rotvec(out[:, turns])
    near = np.linspace(part[first, turns], part[first + 1 + b - a, turns], b - a + 2)[1:-1]
    out[:, turns] = rotation_values(motion, turned, near)
    return out


def _cross(values: np.ndarray, a: int, b: int, fps: float) -> np.ndarray:
    """Return rows a to b of values (T, k), which are known before and after them, as `across` does."""
    before, after = max(0, a - 1 - SLOPE), min(len(values) - 1, b + SLOPE)
    return across(values[[before, a - 1, b, after]], b - a, fps, (max(a - 1 - before, 1), max(after - b, 1)))


def across(edges: np.ndarray, length: int, fps: float, spans: tuple[int, int] = (SLOPE, SLOPE)) -> np.ndarray:
    """Return values (..., length, k) in a gap: the line between the adjacent frames, bent by their speeds.

    A motion gradually forgets its speed, and the sooner the longer the gap is: the path is a cubic in a short gap, and
    the line in the middle of a long one.

    Args:
        edges: (..., 4, k) Values in an earlier frame, just before the gap, just after it, and in a later frame.
        length: Frames of the gap.
        fps: Frames per second.
        spans: Frames between the first two, and between the last two.
    """
    steps = length + 1
    earlier, start, end, later = (edges[..., k, None, :] for k in range(4))
    step = (end - start) / steps
    first, last = (start - earlier) / spans[0] - step, (later - end) / spans[1] - step
    left, right = _speed_weights(steps, MEMORY * fps * min(1.0, LASTS * fps / steps))
    return start + np.arange(1.0, steps)[:, None] * step + left[:, None] * first + right[:, None] * last


@lru_cache(maxsize=256)
def _speed_weights(length: int, memory: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how far a motion from 0 to 0 is from there in the frames between, for a speed of 1 at its start, or end.

    The motion is a critically damped spring driven by white noise, the Gauss-Markov process whose covariance is of
    Matern's class 3/2 (Rasmussen & Williams 2006); all in frames.
    """
    times, rate = np.arange(1.0, length), 1.0 / memory
    still = np.diag([1.0, rate**2])  # covariance of place and speed at any time

    def transition(t: np.ndarray) -> np.ndarray:  # (..., 2, 2): place and speed after a time by those at first
        x, e = rate * t, np.exp(-rate * t)
        return np.stack([e * (1.0 + x), e * t, -rate * e * x, e * (1.0 - x)], axis=-1).reshape(*np.shape(t), 2, 2)

    def covariance(t: np.ndarray) -> np.ndarray:  # (..., 2, 2): of place and speed after a time, from known ones
        return still - transition(t) @ still @ np.swapaxes(transition(t), -1, -2)

    end = np.asarray(float(length))
    gain = covariance(times) @ np.swapaxes(transition(length - times), -1, -2) @ np.linalg.inv(covariance(end))
    left = transition(times)[:, 0, 1] - (gain @ transition(end))[:, 0, 1]
    return left, gain[:, 0, 1]


# --- Samples that no camera saw ---

STRAIGHT = 2e-6  # [m]: what single precision leaves of the second difference of a straight line
LASTING = 0.06  # [s]: shorter straight stretches are harmless
MOVES = 0.01  # [m] by which a marker's distances to its neighbours change while it is stuck
NEIGHBOURS = 3
LIVE = 0.1  # fraction of the take in which a stuck marker must otherwise move as markers do
SAME = 1e-5  # [m]: labels nearer than this are one marker
FAR = 30.0  # times the size of the volume from its middle: no camera sees so far
REPEATED = 2  # consecutive frames that repeat the previous one in all markers and count as a gap
RESUMED = 2.0  # ratio of the step after them to the next step that they must exceed
THROUGHOUT = 0.9  # fraction of the frames in which two labels must coincide to be one marker
SHOWN = 4  # markers, labels or stretches named in a note


class Unseen(NamedTuple):
    """Samples that are treated as gaps.

    Attributes:
        mask: (T, M) bool, or None where every sample was seen.
        stuck: {column: number of its samples on straight lines or at the origin}.
        twins: (column left out, column at whose position it is, number of frames).
        one: (column, other column) of labels that are on the same marker throughout the take.
        repeated: (first frame, end) of frames in which every marker is where it was in the frame before.
    """

    mask: np.ndarray | None
    stuck: dict[int, int]
    twins: tuple[tuple[int, int, int], ...]
    one: tuple[tuple[int, int], ...]
    repeated: tuple[tuple[int, int], ...] = ()

    def notes(self, names: list[str]) -> list[str]:
        """Return what was left out, one line for each kind of finding."""
        out = []
        if self.stuck:
            shown = ", ".join(f"{names[k]} in {n} frames" for k, n in sorted(self.stuck.items(), key=lambda i: -i[1]))
            out.append(f"ignored where at the origin, frozen, or filled with a straight line: {shown}")
        if self.twins:
            shown = ", ".join(f"{names[a]} is at the position of {names[b]} in {n} frames" for a, b, n in self.twins)
            out.append(f"two labels on one marker: {shown}; ignored there")
        if self.repeated:
            shown = ", ".join(f"{a}-{b - 1}" for a, b in self.repeated[:SHOWN])
            more = f" and {len(self.repeated) - SHOWN} more stretches" if len(self.repeated) > SHOWN else ""
            out.append(f"frames repeat the previous one: {shown}{more}; treated as gaps")
        return out

    def doubts(self, names: list[str]) -> list[str]:
        """Return what could not be repaired: it is unknown which of two labels is right, so both stay."""
        shown = ", ".join(f"{names[a]} and {names[b]}" for a, b in self.one)
        return [f"{shown} are the same marker in the file: check the labels"] if self.one else []


def find_unseen(positions: np.ndarray, names: list[str], fps: float) -> Unseen:
    """Return the samples of positions (T, M, 3) [m] that no camera saw."""
    total, count = positions.shape[:2]
    if not total or not count:
        return Unseen(None, {}, (), ())
    mask = np.zeros((total, count), dtype=bool)
    straight = np.zeros((total, count), dtype=bool)
    same = np.zeros(total, dtype=bool)
    near = Neighbours(positions)
    middle, farthest = near.volume()
    for start in range(0, total, CHUNK):
        end = min(start + CHUNK, total)
        mask[start:end] = ~positions[start:end].any(axis=-1)
        mask[start:end] |= np.abs(positions[start:end] - middle).max(axis=-1) > farthest
        part = positions[max(0, start - 1) : end + 1]
        same[max(start, 1) : end] = _repeats(part[: end - max(0, start - 1)])
        if len(part) > 2:
            bend = np.abs(part[2:] - 2.0 * part[1:-1] + part[:-2]).max(axis=-1)
            straight[max(start, 1) : max(start, 1) + len(bend)] = bend < STRAIGHT
    least = max(4, round(LASTING * fps))
    for k in np.flatnonzero(straight.any(axis=0)):
        lasting = [(a - 1, b + 1) for a, b in runs(straight[:, k]) if b - a >= least - 2]
        if straight[:, k].mean() > 1.0 - LIVE:
            continue  # a marker of a simulation that stands still
        for a, b in lasting:
            if near.change(int(k), a, b) > MOVES:
                mask[a + 1 : b - 1, k] = True  # both ends were seen
    stuck = {int(k): int(mask[:, k].sum()) for k in np.flatnonzero(mask.any(axis=0))}
    twins = _twins(positions, names, near, mask)
    one = tuple((b, a) for a, b, count in twins if not count)
    repeated = tuple(span for span in runs(same) if _is_a_gap(positions, *span))
    for a, b in repeated:
        mask[a:b] = True
    return Unseen(mask if mask.any() else None, stuck, tuple(twin for twin in twins if twin[2]), one, repeated)


def _repeats(part: np.ndarray) -> np.ndarray:
    """Return (t - 1,) bool: the frames of part (t, M, 3), from the second on, that are equal to the one before."""
    seen = np.isfinite(part[1:, :, 0])
    equal = (part[1:] == part[:-1]).all(axis=-1)
    return (equal | ~seen).all(axis=1) & (seen.sum(axis=1) > NEIGHBOURS)


def _is_a_gap(positions: np.ndarray, start: int, end: int) -> bool:
    """Return whether frames that repeat the one before them replace missing ones: the body then jumps after them.

    A simulation may hold still, and moves on from there.
    """
    if end - start < REPEATED or end + 1 >= len(positions):
        return False
    back, on = (np.linalg.norm(positions[t] - positions[t - 1], axis=-1) for t in (end, end + 1))
    if not np.isfinite(back).any() or not np.isfinite(on).any():
        return False
    return bool(np.nanmedian(back) > RESUMED * np.nanmedian(on) + SAME)


class Neighbours:
    """The markers that are near each marker, and their usual distances, from frames spread over the take."""

    def __init__(self, positions: np.ndarray):
        self.positions = positions
        rows = np.unique(np.linspace(0, len(positions) - 1, min(SAMPLES, len(positions))).astype(int))
        self.sample = positions[rows]
        self.known: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def volume(self) -> tuple[np.ndarray, float]:
        """Return the middle (3,) [m] of the markers, and how far from it [m] a sample may be."""
        seen = self.sample[np.isfinite(self.sample).all(axis=-1)]
        if not len(seen):
            return np.zeros(3), np.inf
        middle = np.median(seen, axis=0)
        return middle, FAR * float(np.quantile(np.abs(seen - middle).max(axis=-1), 0.9)) or np.inf

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns (N,) of the markers nearest to one, and their usual distances (N,) [m]."""
        if k not in self.known:
            self.known[k] = self._nearest(k)
        return self.known[k]

    def _nearest(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        gaps = np.linalg.norm(self.sample - self.sample[:, k : k + 1], axis=-1)
        some = np.isfinite(gaps).any(axis=0)
        usual = np.full(gaps.shape[1], np.inf)
        usual[some] = column_medians(gaps[:, some])
        usual[(usual < SAME) | (np.arange(len(usual)) == k)] = np.inf
        order = np.argsort(usual)[:NEIGHBOURS]
        order = order[np.isfinite(usual[order])]
        return order, usual[order]

    def change(self, k: int, start: int, end: int) -> float:
        """Return by how much a marker's distances to its neighbours change in some frames [m]: the median."""
        columns, _ = self.of(k)
        gaps = np.linalg.norm(self.positions[start:end, columns] - self.positions[start:end, k : k + 1], axis=-1)
        seen = gaps[:, np.isfinite(gaps).any(axis=0)]
        return float(np.median(np.nanmax(seen, axis=0) - np.nanmin(seen, axis=0))) if seen.size else 0.0

    def off(self, k: int, rows: np.ndarray, label: int | None = None) -> float:
        """Return how far a marker is from its usual distances to its neighbours in some frames [m]: the median.

        label: the column that carries the marker there, if it is not its own.
        """
        columns, usual = self.of(k)
        places = self.positions[rows, k if label is None else label]
        gaps = np.linalg.norm(self.positions[rows][:, columns] - places[:, None], axis=-1)
        misses = np.abs(gaps - usual)
        return float(np.nanmedian(misses)) if np.isfinite(misses).any() else np.inf


def _twins(positions: np.ndarray, names: list[str], near: Neighbours, mask: np.ndarray) -> list[tuple[int, int, int]]:
    """Mark labels at the position of another label; return (the misplaced one, the other, number of frames).

    Two labels that always coincide are kept, with a count of 0.
    """
    out: list[tuple[int, int, int]] = []
    found: dict[tuple[int, int], list[np.ndarray]] = {}
    for start in range(0, len(positions), CHUNK):
        part = np.where(mask[start : start + CHUNK, :, None], np.nan, positions[start : start + CHUNK])
        order = np.argsort(part[..., 0], axis=1)
        placed = np.take_along_axis(part, order[..., None], axis=1)
        t, k = np.nonzero(np.abs(placed[:, 1:] - placed[:, :-1]).max(axis=-1) < SAME)
        a, b = np.sort([order[t, k], order[t, k + 1]], axis=0)
        for pair in np.unique(np.stack([a, b], axis=1), axis=0):
            rows = t[(a == pair[0]) & (b == pair[1])] + start
            found.setdefault((int(pair[0]), int(pair[1])), []).append(rows)
    for (a, b), chunks in found.items():
        rows = np.concatenate(chunks)
        both = np.isfinite(positions[:, [a, b], 0]).all(axis=1).sum()
        if names[a].startswith("*") != names[b].startswith("*"):  # markers without a label are not used anyway
            continue
        if len(rows) > THROUGHOUT * both:
            out.append((b, a, 0))
            continue
        wrong = a if near.off(a, rows) > near.off(b, rows) else b
        mask[rows, wrong] = True
        out.append((wrong, a + b - wrong, len(rows)))
    return out
