"""Motion and markers over time: poses at a steady rate, keyframes, positions of markers with their gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from posable.engine.layout import MAX_MAGNITUDE
from posable.errors import PosableError, unknown
from posable.model.joint_values import Floats, joint_transform, rotation_values, turns_freely
from posable.model.joints import floats_of
from posable.model.skeleton import Skeleton

RATES = (1e-6, 1e6)  # [frames/s] slowest and fastest
MOST_FRAMES = 10_000_000  # of a motion that is made here: a day at 100 frames per second


def interpolate(skeleton: Skeleton, times: ArrayLike, poses: ArrayLike, seconds: ArrayLike) -> Floats:
    """Return the poses (S, n) at `seconds` (S,) between `poses` (T, n) at increasing `times` (T,) [s].

    Ball and free joints take the shortest rotation (slerp), everything else is linear; constant beyond the ends.
    """
    times, poses, seconds = (np.asarray(a, dtype=float) for a in (times, poses, seconds))
    if len(poses) == 1:
        return np.repeat(poses, len(seconds), axis=0)
    before = np.clip(np.searchsorted(times, seconds, side="right") - 1, 0, len(times) - 2)
    share = np.clip((seconds - times[before]) / (times[before + 1] - times[before]), 0.0, 1.0)[:, None]
    start, end = poses[before], poses[before + 1]
    if not np.any((share > 0.0) & (share < 1.0)):  # only given poses: nothing to interpolate
        return np.where(share == 1.0, end, start)
    result = start + share * (end - start)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if turns_freely(joint.motion) and len(seconds):
            turns = slice(where.stop - 3, where.stop)
            first = joint_transform(joint.motion, start[:, where])[1]
            last = joint_transform(joint.motion, end[:, where])[1]
            between = first * Rotation.from_rotvec(share * (first.inv() * last).as_rotvec())
            result[:, turns] = rotation_values(joint.motion, between, result[:, turns])
    result = np.where(share == 0.0, start, result)
    return np.where(share == 1.0, end, result)


def carry_over(skeleton: Skeleton, poses: ArrayLike, before: ArrayLike, after: ArrayLike, share: ArrayLike) -> Floats:
    """Return `poses` (T, n) changed by the change from `before` (n,) to `after` (n,), scaled by a share (T,) per frame.

    Ball and free joints rotate by that share, about the same axis in their own frame; everything else is linear.
    """
    poses, before, after = (np.asarray(a, dtype=float) for a in (poses, before, after))
    part = np.asarray(share, dtype=float)[:, None]
    result = poses + part * (after - before)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if turns_freely(joint.motion) and len(poses):
            turns = slice(where.stop - 3, where.stop)
            first, last = (joint_transform(joint.motion, pose[where])[1] for pose in (before, after))
            moved = joint_transform(joint.motion, poses[:, where])[1] * Rotation.from_rotvec(
                part * (first.inv() * last).as_rotvec()
            )
            result[:, turns] = rotation_values(joint.motion, moved, result[:, turns])
    return result


# ------------------------------------------------------------------------------------------------------ over time


def _read_only(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view


def frame_rate(fps: Any, what: str) -> float:
    """Return frames per second as a float, or raise an error that names them `what`."""
    try:
        value = float(fps)
    except (TypeError, ValueError, OverflowError):
        value = np.nan
    if not RATES[0] <= value <= RATES[1]:
        raise PosableError(f"{what}: expected {RATES[0]:g} to {RATES[1]:g} frames per second, got {fps!r}")
    return value


def _frame_count(seconds: float, fps: float, what: str) -> int:
    """Return the number of frames in a time, both ends included."""
    frames = np.floor(seconds * fps * (1 + 1e-12) + 1e-9) + 1
    if not frames <= MOST_FRAMES:
        raise PosableError(
            f"{what}: expected at most {MOST_FRAMES:g} frames, got {frames:g}: {seconds:g} s at {fps:g} fps"
        )
    return int(frames)


def _numbers(values: Any, what: str, rank: int, shape: str) -> Floats:
    try:
        array = np.ascontiguousarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise PosableError(f"{what}: expected numbers of shape {shape}, got {type(values).__name__}") from None
    if array.ndim != rank:
        raise PosableError(f"{what}: expected shape {shape}, got {array.shape}")
    return array


@dataclass(frozen=True, eq=False)
class Motion:
    """Poses of a figure at a constant frame rate.

    Args:
        skeleton: The figure.
        poses: (T, n) [rad, m].
        fps: Frames per second.
        name: Name of the take, for display.
        notes: Changes made while the motion was created, one sentence each.

    Raises:
        PosableError: The poses have the wrong shape or are not finite, or the rate is invalid.
    """

    skeleton: Skeleton
    poses: Floats
    fps: float
    name: str = ""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self):
        if not isinstance(self.skeleton, Skeleton):
            raise PosableError(f"Motion: expected a Skeleton, got {type(self.skeleton).__name__}")
        poses = _numbers(self.poses, "Motion.poses", 2, f"(T, {self.skeleton.size})")
        if poses.shape[1] != self.skeleton.size:
            raise PosableError(f"Motion.poses: expected shape (T, {self.skeleton.size}), got {poses.shape}")
        good = np.abs(poses) <= MAX_MAGNITUDE  # NaN is not
        if not good.all():
            frame, dof = (int(k) for k in np.argwhere(~good)[0])
            raise PosableError(
                f"Motion.poses: expected finite numbers up to {MAX_MAGNITUDE:g}, got {poses[frame, dof]} for "
                f"{self.skeleton.dof_names[dof]!r} in frame {frame}"
            )
        object.__setattr__(self, "poses", _read_only(poses))
        object.__setattr__(self, "fps", frame_rate(self.fps, "Motion.fps"))

    def __len__(self) -> int:
        return len(self.poses)

    def __repr__(self) -> str:
        label = f"{self.name!r}: " if self.name else ""
        return f"<Motion {label}{len(self)} frames at {self.fps:g} fps of {self.skeleton!r}>"

    @property
    def times(self) -> Floats:
        """(T,) [s]: time of each frame."""
        return np.arange(len(self)) / self.fps

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the last."""
        return max(len(self) - 1, 0) / self.fps

    def at(self, seconds: ArrayLike) -> Floats:
        """Return the pose at one or more times.

        Ball and free joints are interpolated by slerp, other values linearly. Outside the motion, the first or last
        pose is returned.

        Args:
            seconds: (...) [s] Times from the first frame.

        Returns:
            (..., n) [rad, m] poses.

        Raises:
            PosableError: The motion is empty, or a time is not finite.
        """
        if not len(self):
            raise PosableError("Motion.at: expected at least one frame, got none")
        when = floats_of(seconds)
        if when is None or not np.all(np.isfinite(when)):
            raise PosableError(f"Motion.at: expected finite seconds, got {seconds!r}")
        frames = when.ravel() * self.fps
        whole = np.round(frames)
        frames = np.where(np.abs(frames - whole) < 1e-9 * np.maximum(1.0, np.abs(whole)), whole, frames)
        poses = interpolate(self.skeleton, np.arange(len(self)), self.poses, frames)
        return poses.reshape(*when.shape, self.skeleton.size)

    def resample(self, fps: float) -> Motion:
        """Return the motion at another frame rate, from the first frame to the last that fits.

        Args:
            fps: Frames per second.
        """
        fps = frame_rate(fps, "Motion.resample")
        if not len(self):
            return Motion(self.skeleton, self.poses, fps, self.name)
        count = _frame_count(self.duration, fps, "Motion.resample")
        return Motion(self.skeleton, self.at(np.arange(count) / fps), fps, self.name)

    def edited(self, frame: int, pose: ArrayLike, *, reach: int = 12) -> Motion:
        """Return the motion with one frame at another pose, the change fading into the neighbouring frames.

        Ball and free joints fade by rotation. Values that were within their limits stay within them.

        Args:
            frame: The frame to change.
            pose: (n,) [rad, m] Its new pose.
            reach: Number of frames on each side over which the change fades.

        Raises:
            PosableError: The frame is outside the motion, or the pose has the wrong shape.
        """
        if not 0 <= frame < len(self) or reach < 0:
            raise PosableError(f"Motion.edited: expected a frame of {len(self)} and reach >= 0, got {frame}, {reach}")
        new = _numbers(pose, "Motion.edited: pose", 1, f"({self.skeleton.size},)")
        if new.shape != (self.skeleton.size,) or not np.all(np.isfinite(new)):
            raise PosableError(f"Motion.edited: expected a finite pose ({self.skeleton.size},), got {new.shape}")
        return self.layered({frame: new}, fade=reach)

    def layered(self, keys: Mapping[int, ArrayLike], *, fade: int = 12) -> Motion:
        """Return the motion with some frames at other poses, each change blended into its neighbours.

        A change blends into that of the next key, or fades over `fade` frames if no key is that near. Ball and free
        joints blend by rotation. Values that were within their limits stay within them.

        Args:
            keys: Poses (n,) [rad, m] by frame.
            fade: Number of frames over which a change fades before the first key, after the last, and between keys that
                are more than twice that far apart.

        Raises:
            PosableError: A frame is outside the motion, or a pose has the wrong shape.
        """
        frames = sorted(keys)
        new = {k: _numbers(keys[k], "Motion.layered: pose", 1, f"({self.skeleton.size},)") for k in frames}
        if fade < 0 or any(not 0 <= k < len(self) or new[k].shape != (self.skeleton.size,) for k in frames):
            raise PosableError(
                f"Motion.layered: expected frames of {len(self)} with poses ({self.skeleton.size},) and fade >= 0, "
                f"got frames {frames[:5]} and fade {fade}"
            )
        poses = np.array(self.poses)
        for i, k in enumerate(frames):
            sides = [(k - frames[i - 1]) if i else np.inf, (frames[i + 1] - k) if i + 1 < len(frames) else np.inf]
            before, after = (int(gap) if gap <= 2 * fade else fade + 1 for gap in sides)
            near = slice(max(k - before + 1, 0), min(k + after, len(self)))
            away = np.arange(near.start, near.stop) - k
            share = 0.5 + 0.5 * np.cos(np.pi * np.where(away < 0, -away / before, away / after))
            poses[near] = carry_over(self.skeleton, poses[near], self.poses[k], new[k], share)
        lower, upper = self.skeleton.lower, self.skeleton.upper
        within = (self.poses >= lower) & (self.poses <= upper)
        poses = np.where(within, np.clip(poses, lower, upper), poses)
        for k in frames:
            poses[k] = new[k]
        return Motion(self.skeleton, poses, self.fps, self.name)

    @classmethod
    def from_keyframes(
        cls,
        skeleton: Skeleton,
        times: ArrayLike,
        poses: ArrayLike,
        *,
        fps: float = 30.0,
        name: str = "",
        eased: bool = False,
    ) -> Motion:
        """Return the motion through keyframes, sampled from the first key.

        Args:
            skeleton: The figure.
            times: (K,) [s] Increasing times of the keys.
            poses: (K, n) [rad, m] Poses of the keys.
            fps: Frames per second.
            name: Name of the motion.
            eased: Interpolate by cubics with continuous velocity; False: linearly, rotations by slerp.

        Raises:
            PosableError: The times do not increase, or an array has the wrong shape.
        """
        fps = frame_rate(fps, "Motion.from_keyframes")
        keys = _numbers(poses, "Motion.from_keyframes: poses", 2, f"(K, {skeleton.size})")
        when = _numbers(times, "Motion.from_keyframes: times", 1, "(K,)")
        if len(when) != len(keys) or not len(when) or not np.all(np.diff(when) > 0) or not np.all(np.isfinite(when)):
            raise PosableError(f"Motion.from_keyframes: expected {len(keys)} increasing times, got {when}")
        count = _frame_count(when[-1] - when[0], fps, "Motion.from_keyframes")
        at = when[0] + np.arange(count) / fps
        between = ease(skeleton, when, keys, at) if eased else interpolate(skeleton, when, keys, at)
        return cls(skeleton, between, fps, name)


@dataclass(frozen=True, eq=False)
class Markers:
    """Positions of markers at a constant frame rate.

    Args:
        names: (M,) Labels.
        positions: (T, M, 3) [m], NaN where a marker was not seen.
        fps: Frames per second.
        up: "y" or "z", the axis that points up, if known.
        unit: [m] Length unit of the file.
    """

    names: tuple[str, ...]
    positions: Floats
    fps: float
    up: str | None = None
    unit: float = 1.0

    def __post_init__(self):
        if not isinstance(self.names, Iterable):
            raise PosableError(f"Markers.names: expected names, got {self.names!r}")
        names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        positions = _numbers(self.positions, "Markers.positions", 3, f"(T, {len(names)}, 3)")
        if positions.shape[1:] != (len(names), 3):
            raise PosableError(f"Markers.positions: expected shape (T, {len(names)}, 3), got {positions.shape}")
        if (np.abs(positions) > MAX_MAGNITUDE).any():
            raise PosableError(
                f"Markers.positions: expected numbers up to {MAX_MAGNITUDE:g} m, or NaN for a gap, got larger ones"
            )
        if self.up not in (None, "y", "z"):
            raise PosableError(f"Markers.up: expected 'y', 'z' or None, got {self.up!r}")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "positions", _read_only(positions))
        object.__setattr__(self, "fps", frame_rate(self.fps, "Markers.fps"))

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        return f"<Markers: {len(self.names)} over {len(self)} frames at {self.fps:g} fps>"

    @property
    def times(self) -> Floats:
        """(T,) [s]: time of each frame."""
        return np.arange(len(self)) / self.fps

    @property
    def seen(self) -> NDArray[np.bool_]:
        """(T, M): whether a marker was visible."""
        return np.asarray(np.isfinite(self.positions).all(axis=-1))

    def index(self, name: str) -> int:
        """Return the column of a marker.

        Args:
            name: Label of the marker.

        Raises:
            UnknownName: No marker has that label; suggests the closest one.
        """
        if name not in self.names:
            raise unknown("marker", name, self.names)
        return self.names.index(name)

    def select(self, names: Iterable[str]) -> Markers:
        """Return only the named markers, in the given order.

        Args:
            names: Labels.

        Raises:
            UnknownName: No marker has one of the labels; suggests the closest one.
        """
        chosen: Sequence[str] = tuple(names)
        columns = [self.index(name) for name in chosen]
        return Markers(tuple(chosen), self.positions[:, columns], self.fps, self.up, self.unit)


# --- Cubic easing: a motion through keys whose speed never jumps ---
#
# Numbers follow a monotone cubic between keys (Fritsch & Carlson 1980, as SciPy's PCHIP takes its slopes): the speed is
# continuous, zero at both ends and where a number turns round, and no key is overshot. Rotations follow the same rule
# on the sphere: a cubic Bezier curve by repeated slerps (Shoemake 1985), whose angular velocity at a key is taken from
# its two neighbours.


def ease(skeleton: Skeleton, when: Floats, keys: Floats, at: Floats) -> Floats:
    """Return poses (T, n) at times `at` (T,) [s] of a motion through keys (K, n) at times `when` (K,) [s]."""
    if len(when) == 1:
        return np.repeat(keys, len(at), axis=0)
    k = np.clip(np.searchsorted(when, at, side="right") - 1, 0, len(when) - 2)
    steps = np.diff(when)
    part = np.clip((at - when[k]) / steps[k], 0.0, 1.0)
    out = _curve(keys, slopes(np.diff(keys, axis=0) / steps[:, None], steps), k, steps, part)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if turns_freely(joint.motion):
            turned = joint_transform(joint.motion, keys[:, where])[1]
            ways = (turned[:-1].inv() * turned[1:]).as_rotvec()  # equal in the frames of both keys
            rates = slopes(ways / steps[:, None], steps)
            last = slice(where.stop - 3, where.stop)
            linear = keys[k][:, last] + part[:, None] * (keys[k + 1] - keys[k])[:, last]
            out[:, last] = rotation_values(joint.motion, _turned(turned, rates, k, steps, part), linear)
    out[part == 0.0], out[part == 1.0] = keys[k[part == 0.0]], keys[k[part == 1.0] + 1]
    return out


def slopes(speeds: Floats, steps: Floats) -> Floats:
    """Return the speeds (K, n) at keys of the speeds (K-1, n) between them: a weighted harmonic mean, zero at turns.

    Args:
        speeds: (K-1, n), mean speeds between neighbouring keys.
        steps: (K-1,) [s], the times between them.
    """
    out = np.zeros((len(speeds) + 1, speeds.shape[1]))
    if len(speeds) > 1:
        before, after = speeds[:-1], speeds[1:]
        first, last = (2.0 * steps[1:] + steps[:-1])[:, None], (steps[1:] + 2.0 * steps[:-1])[:, None]
        same = before * after > 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (first + last) / (first / before + last / after)
        out[1:-1] = np.where(same, mean, 0.0)
    return out


def _curve(keys: Floats, rates: Floats, k: NDArray[np.int_], steps: Floats, part: Floats) -> Floats:
    """Return the cubic Hermite curve (T, n) through keys (K, n) with speeds (K, n), at parts (T,) of intervals k."""
    s, h = part[:, None], steps[k][:, None]
    rise = s * s * (3.0 - 2.0 * s)
    bends = h * s * (1.0 - s) * ((1.0 - s) * rates[k] - s * rates[k + 1])
    return keys[k] + rise * (keys[k + 1] - keys[k]) + bends


def _turned(turned: Any, rates: Floats, k: NDArray[np.int_], steps: Floats, part: Floats) -> Rotation:
    """Return the rotations (T,) of a cubic Bezier curve through keys (K,) with angular velocities (K, 3) [rad/s].

    turned: A Rotation of K turns; SciPy's types leave out that it takes arrays of indices.
    """
    third = steps[k][:, None] / 3.0
    points = [turned[k], turned[k] * Rotation.from_rotvec(third * rates[k])]
    points += [turned[k + 1] * Rotation.from_rotvec(-third * rates[k + 1]), turned[k + 1]]
    while len(points) > 1:  # de Casteljau
        points = [a * Rotation.from_rotvec(part[:, None] * (a.inv() * b).as_rotvec()) for a, b in pairwise(points)]
    return points[0]


def markers_for(verb: str, markers: object) -> Markers:
    """Return the markers, or raise an error: `load` returns None for a file without markers."""
    if not isinstance(markers, Markers):
        raise PosableError(f"{verb}: expected Markers, such as load('walk.c3d').markers, got {type(markers).__name__}")
    return markers


def motion_for(verb: str, motion: object) -> Motion:
    """Return the motion, or raise an error: `load` returns None for a file without motion."""
    if not isinstance(motion, Motion):
        raise PosableError(f"{verb}: expected a Motion, such as load('walk.bvh').motion, got {type(motion).__name__}")
    return motion
