"""Missing and misplaced markers: which to reject, and how to bridge their gaps."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from posable.model.joint_values import joint_transform, rotation_values, turns_freely
from posable.model.joints import JointMotion
from posable.model.motion import interpolate
from posable.model.skeleton import Skeleton

OUTLIER = 8.0  # robust standard deviations beyond which a marker is an outlier
OUTLIER_LEAST = 0.05  # [m]: and at least this far
LONG = 8  # frames: shorter gaps are not bridged
CATCH_UP = 12  # frames after a gap in which the solver converges to the marker again
CHUNK = 1 << 15  # frames
CARRY = 0.25  # [s]: gaps that are shorter are crossed in pose space alone,
LINES = 0.5  # share that the lines of markers have in longer ones
MEMORY = 0.06  # [s]: after which an unobserved motion has forgotten its speed
MOSTLY = 0.5  # fraction of a marker's gap in which a joint above it must be unobserved for the gap to be filled
SLOPE = 3  # frames over which speed is measured
BESIDE = 4  # frames on either side of a short gap that say how it is crossed
SAMPLES = 400  # frames from which noise is measured
SHORT = 0.1  # [s]: shorter gaps are filled by the marker's own path
TURNED = 1.5  # [rad]: beyond this turn of the body in a gap, straight lines of markers are wrong
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
    """Return the medians (M,) of the columns of values (T, M) without their NaN, of which NumPy is slow to think."""
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


# --- Short gaps ---


def short_gap(fps: float) -> int:
    """Return the number of frames up to which a gap is short."""
    return max(1, round(SHORT * fps))


def fill_short(places: np.ndarray, most: int, noise: np.ndarray | None = None) -> np.ndarray:
    """Fill gaps of up to `most` frames in places (T, M, 3), in place, by cubics; return where (T, M) bool.

    A cubic leaves with the speed of the frames before the gap and arrives with that of the frames after it. Gaps at
    either end of the take stay, and so do gaps too close to another one for the speed to be measured. noise: (M,) [m]
    standard deviation of each marker's coordinates; 0 where not given.
    """
    seen = np.isfinite(places[..., 0])
    filled = np.zeros(seen.shape, dtype=bool)
    total = len(places)
    if seen.all() or total < 2 * SLOPE + 3:
        return filled
    rows = np.arange(total)[:, None]
    before = np.maximum.accumulate(np.where(seen, rows, -1), axis=0)
    after = np.minimum.accumulate(np.where(seen, rows, total)[::-1], axis=0)[::-1]
    t, k = np.nonzero(~seen & (before >= SLOPE) & (after < total - SLOPE) & (after - before - 1 <= most))
    a, b = before[t, k], after[t, k]
    straight = seen[a - SLOPE, k] & seen[b + SLOPE, k]
    t, k, a, b = t[straight], k[straight], a[straight], b[straight]
    start, end, length = places[a, k], places[b, k], (b - a)[:, None]
    spread = np.zeros(len(t)) if noise is None else noise[k]
    first, last = _speed_beside(places, a, k, -1, spread), _speed_beside(places, b, k, 1, spread)
    x = (t - a)[:, None] / length
    cubic = start + (3.0 - 2.0 * x) * x * x * (end - start)
    places[t, k] = cubic + length * (x * (1.0 - x) ** 2 * first - x * x * (1.0 - x) * last)
    filled[t, k] = True
    return filled


def _speed_beside(places: np.ndarray, t: np.ndarray, k: np.ndarray, way: int, noise: np.ndarray) -> np.ndarray:
    """Return the velocities (N, 3) [m/frame] of markers k (N,) at frames t (N,), before (way -1) or after (1) a gap.

    The mean velocity of the last frames is that of a moment ago. A parabola has the velocity at the edge, and more of
    the noise (N,) [m]: it is believed as far as the two differ by more than noise makes them (James & Stein 1961).
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
        self.skeleton, self.total = skeleton, len(seen)
        self.joints: dict[str, list[tuple[int, int]]] = {}
        self.holes: list[tuple[int, int, int]] = []  # (marker, first frame, end) to be filled
        if seen.all():
            return
        parent = {joint.name: joint.parent for joint in skeleton.joints}
        bone = {site.name: site.joint for site in skeleton.sites}
        below: dict[str, list[int]] = {}
        for k, site in enumerate(sites):
            above: str | None = bone.get(site, site)
            while above is not None:
                below.setdefault(above, []).append(k)
                above = parent[above]
        loose = np.zeros(seen.shape, dtype=bool)
        for joint in skeleton.joints:
            if not joint.motion.dofs or joint.name not in below:
                continue
            needed = min(len(below[joint.name]), -(-len(joint.motion.dofs) // 2))
            missing = seen[:, below[joint.name]].sum(axis=1) < needed
            if missing.any():
                self.joints[joint.name] = runs(missing)
                loose[:, below[joint.name]] |= missing[:, None]
        for k in np.flatnonzero((loose & ~seen).any(axis=0)):
            self.holes += [(int(k), a, b) for a, b in runs(~seen[:, k]) if loose[a:b, k].mean() > MOSTLY]

    def fill(self, places: np.ndarray, start: int, source) -> np.ndarray:
        """Fill holes in places (t, M, 3), whose first frame is `start`, by straight lines; return where (t, M) bool.

        The lines lead the figure to where the markers reappear; `cross` then replaces the poses. source(t, k) is the
        position (3,) of a marker in another frame.
        """
        filled = np.zeros(places.shape[:2], dtype=bool)
        for k, a, b in self.holes:
            if a == 0 or b == self.total or b <= start or a >= start + len(places):
                continue
            rows = np.arange(max(a, start), min(b, start + len(places)))
            share = ((rows - a + 1) / (b - a + 1))[:, None]
            places[rows - start, k] = (1.0 - share) * source(a - 1, k) + share * source(b, k)
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

        A joint takes the shortest way, in a long gap halfway to the poses that follow the lines of `fill`. It leaves
        with its speed before the gap and arrives with its speed after it. Before its first and after its last marker it
        rests.
        """
        changed = np.zeros(len(poses), dtype=bool)
        self._turned_back(poses)
        for name, spans in self.joints.items():
            joint, where = self.skeleton.joint(name), self.skeleton.index(name)
            for a, b in spans:
                b = min(b, len(poses))
                if a >= b:
                    continue
                changed[a:b] = True
                if a == 0 or b == len(poses):
                    poses[a:b, where] = poses[b, where] if a == 0 and b < len(poses) else poses[max(a - 1, 0), where]
                    continue
                if turns_freely(joint.motion):
                    poses[a:b, where] = _cross_ball(joint.motion, poses[:, where], a, b, fps)
                else:
                    poses[a:b, where] = _cross(poses[:, where], a, b, fps)
        return changed

    def _turned_back(self, poses: np.ndarray) -> None:
        """Interpolate poses where the whole body is lost and turns far: lines of markers would pass through it."""
        root = next((joint for joint in self.skeleton.joints if joint.motion.dofs), None)
        if root is None or root.name not in self.joints or not turns_freely(root.motion):
            return
        where = self.skeleton.index(root.name)
        for a, b in self.joints[root.name]:
            if a == 0 or b >= len(poses):
                continue
            first, last = (joint_transform(root.motion, poses[t, where])[1] for t in (a - 1, b))
            if (first.inv() * last).magnitude() > TURNED:
                at = np.arange(a, b, dtype=float)
                poses[a:b] = interpolate(self.skeleton, [a - 1.0, float(b)], poses[[a - 1, b]], at)


def _cross_ball(motion: JointMotion, values: np.ndarray, a: int, b: int, fps: float) -> np.ndarray:
    """Return values (b - a, k) of a ball or free joint across a gap, its rotation relative to that before the gap."""
    before, after = max(0, a - 1 - SLOPE), min(len(values) - 1, b + SLOPE)
    part = values[before : after + 1].copy()
    first = a - 1 - before
    rotation = joint_transform(motion, part)[1]
    turns = slice(part.shape[1] - 3, part.shape[1])
    seen = part.copy()
    seen[:, turns] = _nearby((rotation[first].inv() * rotation).as_rotvec())
    out = _cross(seen, first + 1, first + 1 + b - a, fps)
    turned = rotation[first] * Rotation.from_rotvec(out[:, turns])
    near = np.linspace(part[first, turns], part[first + 1 + b - a, turns], b - a + 2)[1:-1]
    out[:, turns] = rotation_values(motion, turned, near)
    return out


def _nearby(vectors: np.ndarray) -> np.ndarray:
    """Return rotation vectors (T, 3) [rad], each shifted by whole turns to be nearest to the previous one."""
    out = vectors.copy()
    for t in range(1, len(out)):
        angle = float(np.linalg.norm(out[t]))
        if angle > 1e-9:
            turn = out[t] * (2.0 * np.pi / angle)
            out[t] -= np.round((out[t] - out[t - 1]) @ turn / (turn @ turn)) * turn
    return out


def _cross(values: np.ndarray, a: int, b: int, fps: float) -> np.ndarray:
    """Return rows a to b of values (T, k): the line between the adjacent rows, mixed with what is there, and bent.

    The bend is what the speeds of the adjacent rows say of a motion that wanders and soon forgets its speed: a cubic in
    a short gap, next to nothing in the middle of a long one.

    Args:
        values: Before and after the gap as measured, in it as the lines of markers have it.
        a: The first row of the gap.
        b: The first row after it.
        fps: Frames per second.
    """
    length = b - a + 1
    before, after = max(0, a - 1 - SLOPE), min(len(values) - 1, b + SLOPE)
    step = (values[b] - values[a - 1]) / length
    first = (values[a - 1] - values[before]) / max(a - 1 - before, 1) - step
    last = (values[after] - values[b]) / max(after - b, 1) - step
    times = np.arange(1.0, length)
    left, right = _speed_weights(times, float(length), MEMORY * fps)
    share = max(1.0 - LINES, min(1.0, CARRY * fps / length))
    path = share * (values[a - 1] + times[:, None] * step) + (1.0 - share) * values[a:b]
    return path + left[:, None] * first + right[:, None] * last


def _speed_weights(times: np.ndarray, length: float, memory: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how far a motion from 0 to 0 is from there (t,) at times (t,), for a speed of 1 at its start, or its end.

    The speed is an Ornstein-Uhlenbeck process with a memory; all in frames.
    """

    def covariance(t: np.ndarray) -> np.ndarray:  # covariance (..., 2, 2) of place and speed after a time
        e = np.exp(-t / memory)
        both = 0.5 * memory**2 * (1.0 - e) ** 2
        place = memory**2 * (t - 2.0 * memory * (1.0 - e) + 0.5 * memory * (1.0 - e * e))
        return np.stack([place, both, both, 0.5 * memory * (1.0 - e * e)], axis=-1).reshape(*np.shape(t), 2, 2)

    def transition(t: np.ndarray) -> np.ndarray:  # (..., 2, 2): place and speed after a time by those at first
        e = np.exp(-t / memory)
        one, none = np.ones_like(e), np.zeros_like(e)
        return np.stack([one, memory * (1.0 - e), none, e], axis=-1).reshape(*np.shape(t), 2, 2)

    end = np.asarray(length)
    gain = covariance(times) @ np.swapaxes(transition(length - times), -1, -2) @ np.linalg.inv(covariance(end))
    left = transition(times)[:, 0, 1] - (gain @ transition(end))[:, 0, 1]
    return left, gain[:, 0, 1]
