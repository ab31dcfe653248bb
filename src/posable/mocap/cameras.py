"""Motion from 2D keypoints of several calibrated cameras: robust triangulation, then a skeleton and its motion.

1. Every pair of cameras proposes a point for each keypoint. The one that most cameras agree with is chosen and refined
   on their reprojection errors; where cameras disagree, the joint's path in the frames around it decides. A keypoint
   that one camera sees alone is placed on its ray, near the path.
2. Left and right are swapped back in a camera that sees them where the others see the other side, and a camera that
   disagrees with the others throughout is left out.
3. The points are turned into a skeleton and its motion, like joint positions (model/joint_positions.py).

There is no final fit of all frames to the pixels (`Pixel` goals against accelerations): smoothing each joint's path by
its own noise is 0 to 1 mm more accurate.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from posable.errors import PosableError
from posable.formats.keypoints import (
    FACE,
    NPY_MAGIC,
    PARENTS,
    SETS,
    UNSURE,
    decode_npy,
    joint_names,
    with_middles,
)  # fmt: skip
from posable.formats.npz import Arrays
from posable.formats.source import open_source
from posable.mocap.verdict import plan_of
from posable.model.body_plan import SHORTEST, TALLEST
from posable.model.camera import Camera
from posable.model.joint_positions import motion_from_positions
from posable.model.joint_values import Floats
from posable.model.kinematics import forward
from posable.model.motion import Markers, Motion

LOOSE = 0.03  # [rad] disagreement at which a camera does not see a proposed point, before the noise is known
TIGHT = 0.004  # [rad] its least value
DEVIATIONS = 4.0  # of the noise, at which a camera disagrees
PARALLEL = np.radians(2.0)  # rays closer than this give no depth
MOST_PAIRS = 28  # of cameras that propose: all pairs of eight
PATH = 0.3  # [s] window that shows roughly where a joint is
NEAR_PATH = 0.1  # [m] from the path counts as much as a camera that disagrees
SWAPPED = 0.4  # fraction of its error that may remain after two sides are swapped
CALMER = 0.6  # fraction of the noise that remains without a miscalibrated camera
AWAY = 8.0  # deviations of the others' noise by which a camera is off
LOST = 0.25  # fraction of keypoints left out above which a take is doubted
NOISY = 0.012  # [rad] noise from which it is reported
TOP, BOTTOM = ("nose", "head", "neck", "ear", "eye", "shoulder"), ("ankle", "heel", "foot", "toe")
FRONT = (
    *((f"{side}_{toe}", f"{side}_ankle") for side in ("left", "right") for toe in ("big_toe", "foot_index", "foot")),
    ("nose", "left_ear"), ("nose", "right_ear"),
)  # fmt: skip
MIRRORED = 0.8  # fraction of the cues for front and back that must agree
UNITS = (("millimetres", 1e-3), ("centimetres", 1e-2), ("inches", 0.0254), ("feet", 0.3048))


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Keypoints of one person in the images of several calibrated cameras.

    Args:
        names: J of them, or the name of a set: "coco17", "mediapipe33", "halpe26", "openpose25", ...
        pixels: (C, T, J, 2) [px], or (C, T, J, 3) with confidences from 0 to 1; NaN where not seen.
        fps: Frames per second, the same and simultaneous for all cameras.
        cameras: C `Camera` objects, of one world in metres.
    """

    names: Any
    pixels: Any
    fps: float
    cameras: Sequence[Camera]

    def __post_init__(self):
        pixels = np.array(self.pixels, dtype=float)
        cameras = tuple(self.cameras)
        wanted = f"(C, T, J, 2) or (C, T, J, 3) for {len(cameras)} cameras"
        if pixels.ndim != 4 or pixels.shape[3] not in (2, 3) or len(pixels) != len(cameras) or not pixels.size:
            raise PosableError(f"Keypoints.pixels: expected {wanted}, got shape {pixels.shape}")
        if len(cameras) < 2 or not all(isinstance(one, Camera) for one in cameras):
            raise PosableError(f"Keypoints.cameras: expected two or more Camera objects, got {self.cameras!r:.80}")
        names = joint_names(self.names, pixels.shape[2])
        if names is None or len(set(names)) < len(names):
            sets = ", ".join(f"{name} ({len(members)})" for name, members in SETS.items())
            got = f"{len(names)} with one twice" if names else f"{pixels.shape[2]} keypoints"
            raise PosableError(f"Keypoints.names: expected a name per keypoint or a set: {sets}; got {got}")
        if not (np.isfinite(self.fps) and self.fps > 0.0):
            raise PosableError(f"Keypoints.fps: expected frames per second above 0, got {self.fps!r}")
        if pixels.shape[3] == 2:
            pixels = np.concatenate([pixels, np.ones((*pixels.shape[:3], 1))], axis=3)
        unseen = ~np.isfinite(pixels).all(axis=3) | (pixels[..., 2] < UNSURE)
        unseen |= (pixels[..., :2] == 0.0).all(axis=3)  # what OpenPose writes for keypoints that it did not find
        pixels[..., 2] = np.clip(pixels[..., 2], 0.0, 1.0)
        pixels[unseen] = (np.nan, np.nan, 0.0)
        pixels.setflags(write=False)
        for key, value in (("names", tuple(names)), ("pixels", pixels), ("fps", float(self.fps)), ("cameras", cameras)):
            object.__setattr__(self, key, value)

    @classmethod
    def load(
        cls, path: str | PathLike[str], cameras: Sequence[Camera], *, names: Any = None, fps: float | None = None
    ) -> Keypoints:
        """Return the keypoints of a file that NumPy wrote.

        Args:
            path: `.npy` with the pixels, or `.npz` with `keypoints` and, if known, `names` and `fps`.
            cameras: The cameras, in the order of the file.
            names: As for `Keypoints`; by default those of the file, or the set with as many keypoints.
            fps: Frames per second; by default those of the file, or 30.

        Raises:
            FormatError: The file has no such array.
        """
        source = open_source(path)
        if source.data[:6] == NPY_MAGIC:
            if fps is None:
                source.warn("no frame rate is stated: 30 frames per second assumed; set fps= to change it")
                fps = 30.0
            return cls(names, decode_npy(source, "keypoints", source.data), fps, cameras)
        held = Arrays(source)
        if "keypoints" not in held:
            raise source.error(expected="an array `keypoints` (C, T, J, 2 or 3)", found="none")
        names = (held.names("names") or None) if names is None else names
        fps = held.scalar("fps", 30.0) if fps is None else fps
        return cls(names, held.numbers("keypoints"), fps, cameras)

    def __len__(self) -> int:
        return self.pixels.shape[1]

    def __repr__(self) -> str:
        shape = f"{len(self.names)} in {len(self.cameras)} cameras over {len(self)} frames"
        return f"<Keypoints: {shape} at {self.fps:g} fps>"

    def camera_name(self, camera: int) -> str:
        """Return the name of a camera for messages."""
        return self.cameras[camera].name or f"camera {camera + 1}"


@dataclass(frozen=True, eq=False)
class Triangulated:
    """Positions of keypoints in the world.

    Attributes:
        positions: (T, J, 3) [m]; NaN where fewer than two cameras agree.
        pixels: (C, T, J, 3) [px] as they were used: swapped back, NaN where left out.
        errors: (C, T, J) [px] Reprojection errors of what was used; NaN elsewhere.
        noise: [rad] Deviation of the pixels' rays, per axis.
        repairs: What was repaired, one sentence each.
        doubts: What is implausible and what to do about it, one sentence each.
    """

    keypoints: Keypoints = field(repr=False)
    positions: Floats = field(repr=False)
    pixels: Floats = field(repr=False)
    errors: Floats = field(repr=False)
    noise: float
    repairs: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def markers(self) -> Markers:
        """The places as markers."""
        names = self.keypoints.names
        return Markers(names, self.positions, self.keypoints.fps)


class _Rays:
    """The rays of all keypoints, N = T J of them in C cameras, and where they meet."""

    def __init__(self, keypoints: Keypoints, pixels: Floats, cameras: Sequence[int]):
        self.cameras = [keypoints.cameras[k] for k in cameras]
        part = pixels[list(cameras)].reshape(len(cameras), -1, 3)
        self.weight = part[..., 2].copy()
        self.center = np.array([one.center for one in self.cameras])
        self.sight = np.zeros((*part.shape[:2], 3, 3))
        for k, one in enumerate(self.cameras):
            self.sight[k] = one.sight(np.where(np.isfinite(part[k, :, :2]), part[k, :, :2], one.matrix[:2, 2]))
        lost = ~np.isfinite(self.sight).all(axis=(2, 3))  # outside what the lens can show
        self.weight[lost], self.sight[lost] = 0.0, np.eye(3)
        self.direction = self.sight[..., 2, :]

    def meet(self, weight: Floats) -> Floats:
        """Return the points (N, 3) [m] nearest to rays with weights (C, N); NaN where they do not meet."""
        across = np.eye(3) - self.direction[..., :, None] * self.direction[..., None, :]
        across = across * weight[..., None, None]
        total = across.sum(axis=0)
        right = (across @ self.center[:, None, :, None]).sum(axis=0)[..., 0]
        size = np.trace(total, axis1=1, axis2=2)
        good = np.linalg.det(total) > (size / 2.0) ** 3 * np.sin(PARALLEL) ** 2 / 4.0
        out = np.full(right.shape, np.nan)
        out[good] = np.linalg.solve(total[good], right[good][..., None])[..., 0]
        return out

    def misses(self, points: Floats) -> Floats:
        """Return the angles (C, N) [rad] between points (N, 3) and their keypoints; inf without a point."""
        away = points - self.center[:, None]
        away = away / np.maximum(np.linalg.norm(away, axis=-1, keepdims=True), 1e-9)
        miss = np.linalg.norm((self.sight @ away[..., None])[..., 0] - (0.0, 0.0, 1.0), axis=-1)
        return np.where(np.isfinite(miss), miss, np.inf)

    def best(self, bound: float, path: Floats | None) -> tuple[Floats, np.ndarray]:
        """Return the points (N, 3) on which most cameras agree within `bound` [rad], and which (C, N) those are."""
        count = len(self.cameras)
        pairs = list(combinations(range(count), 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[k] for k in np.linspace(0, len(pairs) - 1, MOST_PAIRS).astype(int)]
        least = np.full(self.weight.shape[1], np.inf)
        chosen = np.full((self.weight.shape[1], 3), np.nan)
        for pair in pairs:
            mask = np.zeros((count, 1))
            mask[list(pair)] = 1.0
            points = self.meet(mask * (self.weight > 0.0))
            cost = (self.weight * np.minimum(self.misses(points) / bound, 1.0) ** 2).sum(axis=0)
            if path is not None:
                off = np.linalg.norm(points - path, axis=1) / NEAR_PATH
                cost += np.where(np.isfinite(off), np.minimum(off, 2.0) ** 2, 0.0)
            better = np.isfinite(points[:, 0]) & (cost < least)
            least[better], chosen[better] = cost[better], points[better]
        agrees = (self.misses(chosen) < bound) & (self.weight > 0.0)
        for _ in range(3):  # by reprojection errors: a near camera locates a point better than a far one
            depth = np.linalg.norm(chosen - self.center[:, None], axis=-1)
            weight = np.where(agrees, self.weight / np.maximum(np.nan_to_num(depth, nan=1.0), 1e-3) ** 2, 0.0)
            refined = self.meet(weight / np.maximum(weight.max(axis=0), 1e-300))
            chosen = np.where((agrees.sum(axis=0) >= 2)[:, None], refined, np.nan)
            agrees = (self.misses(chosen) < bound) & (self.weight > 0.0)
        chosen[agrees.sum(axis=0) < 2] = np.nan
        return chosen, agrees & np.isfinite(chosen[:, 0])

    def seen_once(self, points: Floats, agrees: np.ndarray, path: Floats, bound: float) -> None:
        """Put points without a place, in place, on the ray of the one camera that sees them near their path."""
        miss = np.where(self.weight > 0.0, self.misses(path), np.inf)
        best = miss.argmin(axis=0)
        alone = np.flatnonzero(np.isnan(points[:, 0]) & (miss.min(axis=0) < bound))
        center, ray = self.center[best[alone]], self.direction[best[alone], alone]
        points[alone] = center + ray * np.sum(ray * (path[alone] - center), axis=1, keepdims=True)
        agrees[best[alone], alone] = True


def triangulate(keypoints: Keypoints) -> Triangulated:
    """Triangulate keypoints, without those on which the cameras disagree."""
    pixels, cameras = keypoints.pixels.copy(), list(range(len(keypoints.cameras)))
    repairs: list[str] = []
    doubts: list[str] = []
    found = _agreed(keypoints, pixels, cameras)
    counts = _swap_sides(keypoints, pixels, cameras, found)
    if counts:
        told = ", ".join(f"{keypoints.camera_name(c)} in {n} frames" for c, n in counts.items())
        repairs.append(f"left and right swapped back in {told}")
        found = _agreed(keypoints, pixels, cameras)
    apart: dict[str, float] = {}
    while len(cameras) > 2:
        without = [_agreed(keypoints, pixels, [c for c in cameras if c != camera]) for camera in cameras]
        noises = np.array([one.noise for one in without])
        best = int(noises.argmin())
        off = _disagreement(keypoints, pixels, cameras[best], without[best])
        calmer = noises[best] < CALMER * min(found.noise, np.partition(noises, 1)[1])
        away = off > AWAY * max(noises[best], TIGHT / DEVIATIONS) and noises[best] <= found.noise
        if not (calmer or away):
            break
        camera, found = cameras.pop(best), without[best]
        apart[keypoints.camera_name(camera)] = off * keypoints.cameras[camera].focal
    shape, seen = pixels.shape[1:3], np.isfinite(pixels[..., 0])
    errors = np.full(pixels.shape[:3], np.nan)
    misses = np.where(found.agrees, _Rays(keypoints, pixels, cameras).misses(found.points), np.nan)
    for k, camera in enumerate(cameras):
        errors[camera] = keypoints.cameras[camera].focal * misses[k].reshape(shape)
    asked, wrong = int(seen[cameras].sum()), int((seen & ~np.isfinite(errors))[cameras].sum())
    if wrong:
        repairs.append(f"{wrong / asked:.1%} of the keypoints ignored as outliers")
    pixels[~np.isfinite(errors)] = (np.nan, np.nan, 0.0)
    positions = found.points.reshape(*shape, 3)
    why = "check calibration, synchronisation, and the order of the cameras"
    if apart:
        told = ", ".join(f"{name} by {off:.0f} px" for name, off in apart.items())
        doubts.append(f"cameras that disagree with the others were ignored: {told}; {why}")
    if wrong > LOST * asked:
        doubts.append(f"cameras disagree on {wrong / asked:.0%} of the keypoints: {why}")
    elif found.noise > NOISY:
        focal = float(np.mean([one.focal for one in keypoints.cameras]))
        doubts.append(f"cameras disagree by {focal * found.noise:.0f} px on average: {why}")
    return Triangulated(keypoints, positions, pixels, errors, found.noise, tuple(repairs), tuple(doubts))


class _Agreed(NamedTuple):
    """What cameras agree on: points (N, 3) [m], cameras (C, N), noise and bound [rad], and paths (N, 3) [m]."""

    points: Floats
    agrees: np.ndarray
    noise: float
    bound: float
    path: Floats


def _agreed(keypoints: Keypoints, pixels: Floats, cameras: Sequence[int]) -> _Agreed:
    """Return what the cameras agree on: first without their noise and the joints' paths, then with these."""
    rays, shape = _Rays(keypoints, pixels, cameras), pixels.shape[1:3]
    points, agrees = rays.best(LOOSE, None)
    noise, bound, path = 0.0, LOOSE, points
    for _ in range(2):
        count, placed = float(agrees.sum()), float(np.isfinite(points[:, 0]).sum())
        usual = float(np.median(rays.misses(points)[agrees])) / 1.18 if count else 0.0  # of two axes
        noise = usual * np.sqrt(2.0 * count / max(2.0 * count - 3.0 * placed, 0.25 * count, 1.0))
        bound = float(np.clip(DEVIATIONS * noise, TIGHT, LOOSE))
        path = _paths(points, shape, keypoints.fps)
        points, agrees = rays.best(bound, path)
    rays.seen_once(points, agrees, path, LOOSE)
    return _Agreed(points, agrees, noise, bound, path)


def _paths(points: Floats, shape: tuple[int, ...], fps: float) -> Floats:
    """Return the positions (N, 3) [m] predicted from the frames around each keypoint; NaN where none is near.

    Only places near the running median count, so that a single wrong one does not affect the others.
    """
    places = points.reshape(*shape, 3)
    half = max(2, round(0.5 * PATH * fps))
    wide = np.pad(places, ((half, half), (0, 0), (0, 0)), constant_values=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # windows without any
        middle = np.nanmedian(sliding_window_view(wide, 2 * half + 1, axis=0), axis=-1)
    out, frames = middle.copy(), np.arange(len(places))
    for k in range(shape[1]):
        known = np.flatnonzero(np.linalg.norm(places[:, k] - middle[:, k], axis=1) < 2.0 * NEAR_PATH)
        before, after = np.searchsorted(known, frames) - 1, np.searchsorted(known, frames, side="right")
        between = np.flatnonzero((before >= 0) & (after < len(known)))
        first, last = known[before[between]], known[after[between]]
        part = ((between - first) / (last - first))[:, None]
        near = np.maximum(between - first, last - between) <= half
        out[between, k] = np.where(
            near[:, None], places[first, k] + part * (places[last, k] - places[first, k]), np.nan
        )
    return out.reshape(-1, 3)


def _disagreement(keypoints: Keypoints, pixels: Floats, camera: int, others: _Agreed) -> float:
    """Return the median angle [rad] between what a camera sees and what the others agree on; 0 if it sees nothing."""
    rays = _Rays(keypoints, pixels, [camera])
    misses = rays.misses(others.points)[0][(rays.weight[0] > 0.0) & np.isfinite(others.points[:, 0])]
    return float(np.median(misses)) if misses.size else 0.0


def _swap_sides(keypoints: Keypoints, pixels: Floats, cameras: Sequence[int], found: _Agreed) -> dict[int, int]:
    """Swap left and right of each camera, in place, where the others see it that way; return {camera: frames}."""
    names = list(keypoints.names)
    pairs = [(k, names.index(o)) for k, n in enumerate(names) if (o := n.replace("left", "right")) != n and o in names]
    near = np.linalg.norm(found.points - found.path, axis=1) < NEAR_PATH
    places = np.where(near[:, None], found.points, found.path).reshape(*pixels.shape[1:3], 3)
    counts: dict[int, int] = {}
    for camera in cameras:
        touched = np.zeros(pixels.shape[1], dtype=bool)
        for pair in pairs:
            rays = _Rays(keypoints, pixels[:, :, pair], [camera])
            seen = rays.weight[0] > 0.0
            now, then = (
                np.where(seen, rays.misses(places[:, order].reshape(-1, 3))[0], 0.0).reshape(-1, 2).sum(axis=1)
                for order in (pair, pair[::-1])
            )
            swapped = np.isfinite(now) & (now > 2.0 * found.bound) & (then < SWAPPED * now)
            rows = np.flatnonzero(swapped)
            pixels[camera, rows[:, None], pair] = pixels[camera, rows[:, None], pair[::-1]]
            touched |= swapped
        if touched.any():
            counts[camera] = int(touched.sum())
    return counts


# --- Motion ---


@dataclass(frozen=True, eq=False)
class CameraReport:
    """The report of a motion from keypoints.

    Attributes:
        repairs: What was repaired, one sentence each.
        doubts: What is implausible and what to do about it, one sentence each; empty: the motion is plausible.
        seconds: [s] Computing time.
        frames: Number of frames.
        camera_errors: {camera: median reprojection error [px]}; NaN for a camera that was left out.
        seen: {keypoint: part of the frames in which two cameras agree on it}.
    """

    repairs: tuple[str, ...]
    doubts: tuple[str, ...]
    seconds: float
    frames: int
    camera_errors: dict[str, float]
    seen: dict[str, float]

    @property
    def ok(self) -> bool:
        """Whether nothing is implausible."""
        return not self.doubts

    @property
    def verdict(self) -> str:
        """One line: plausible, plausible after repairs, or what to check."""
        if self.doubts:
            return f"check: {'; '.join(self.doubts)}"
        return "plausible after repairs" if self.repairs else "plausible"

    def __str__(self) -> str:
        rate = self.frames / max(self.seconds, 1e-9)
        errors = ", ".join(f"{name} {error:.1f} px" for name, error in self.camera_errors.items())
        rare = sorted((share, name) for name, share in self.seen.items() if share < 0.9)[:4]
        lines = [
            self.verdict,
            *([f"  repaired: {'; '.join(self.repairs)}"] if self.repairs else []),
            f"{self.frames} frames in {self.seconds:.2f} s ({rate:.0f} frames/s)",
            f"  reprojection error, median: {errors}",
        ]
        if rare:
            lines.append("  least seen: " + ", ".join(f"{name} in {share:.0%} of the frames" for share, name in rare))
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class CameraTake:
    """Motion from keypoints: motion, errors (C, T, J) [px] (NaN: not seen or rejected), positions, report.

    positions: (T, J, 3) [m], triangulated, in the axes of the motion; NaN where fewer than two cameras agree.
    """

    motion: Motion
    errors: Floats = field(repr=False)
    positions: Floats = field(repr=False)
    keypoints: Keypoints = field(repr=False)
    report: CameraReport


def track_keypoints(keypoints: Keypoints, *, smooth: float = 0.0) -> CameraTake:
    """Return the motion of a person seen by calibrated cameras; `smooth` [s]: smoothed afterwards, as by `smooth`.

    Raises:
        PosableError: Fewer than two keypoints could be placed.
    """
    begin = time.perf_counter()
    found = triangulate(keypoints)
    placed = np.asarray(np.isfinite(found.positions[..., 0]).any(axis=0))
    kept = [k for k, name in enumerate(keypoints.names) if placed[k] and not name.startswith(FACE)]
    if len(kept) < 2:
        raise PosableError(f"track: expected two keypoints that cameras agree on, got {len(kept)}; {found.doubts}")
    names = [keypoints.names[k] for k in kept]
    turn, up = upright(names, found.positions[:, kept])
    positions = found.positions @ turn.T
    cameras = [Camera(c.matrix, c.turn @ turn.T, c.translation, distortion=c.distortion) for c in keypoints.cameras]
    joints, places = names, positions[:, kept]
    known = set(joints) <= set(PARENTS)
    if known:
        joints, places = with_middles(joints, places)
    motion = motion_from_positions(joints, places, keypoints.fps, up=up, parents=PARENTS if known else None)
    if smooth > 0.0:
        from posable.mocap.smooth import smooth as smoothed

        motion = smoothed(motion, smooth)
    errors = _reprojections(motion, keypoints, cameras, names, kept, found.pixels)
    doubts = (*found.doubts, *_implausible(motion, names, positions[:, kept], up))
    medians = {
        keypoints.camera_name(c): float(np.nanmedian(errors[c])) if np.isfinite(errors[c]).any() else np.nan
        for c in range(len(cameras))
    }
    repairs = found.repairs
    if not np.allclose(turn, np.eye(3)):
        repairs = (*repairs, f"turned to {up} up: the person stands along another axis of the cameras' world")
    seen = {names[i]: float(np.isfinite(positions[:, k, 0]).mean()) for i, k in enumerate(kept)}
    report = CameraReport(repairs, doubts, time.perf_counter() - begin, len(keypoints), medians, seen)
    return CameraTake(motion, errors, positions, keypoints, report)


def upright(names: Sequence[str], positions: Floats) -> tuple[Floats, str]:
    """Return the rotation (3, 3) after which a body stands along y or z, and which."""
    top = [k for k, name in enumerate(names) if any(word in name for word in TOP)]
    bottom = [k for k, name in enumerate(names) if any(word in name for word in BOTTOM)]
    if not top or not bottom:
        return np.eye(3), "z"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # frames without any
        body = np.nanmedian(np.nanmean(positions[:, top], axis=1) - np.nanmean(positions[:, bottom], axis=1), axis=0)
    if not np.isfinite(body).all():
        return np.eye(3), "z"
    axis = int(np.abs(body).argmax())
    if axis > 0 and body[axis] > 0.0:
        return np.eye(3), "xyz"[axis]
    if axis == 2:
        return np.diag([1.0, -1.0, -1.0]), "z"
    turn = np.zeros((3, 3))
    turn[2, axis] = np.sign(body[axis])
    turn[0, (axis + 1) % 3] = 1.0
    turn[1] = np.cross(turn[2], turn[0])
    return turn, "z"


def _reprojections(motion, keypoints, cameras, names, kept, pixels) -> Floats:
    """Return the distances (C, T, J) [px] of the motion's joints from the pixels that were used."""
    frames = forward(motion.skeleton, motion.poses)
    out = np.full(pixels.shape[:3], np.nan)
    for i, k in enumerate(kept):
        place = frames.position(names[i])
        for c, camera in enumerate(cameras):
            out[c, :, k] = np.linalg.norm(camera.project(place) - pixels[c, :, k, :2], axis=-1)
    return out


def _implausible(motion: Motion, names: Sequence[str], positions: Floats, up: str) -> list[str]:
    """Return findings on an impossible stature, and on sides that are swapped in all cameras."""
    out = []
    plan = plan_of(motion.skeleton)
    if plan is not None and not SHORTEST < (tall := plan.stature) < TALLEST:
        hint = next((f", as if they were in {unit}" for unit, size in UNITS if SHORTEST < tall * size < TALLEST), "")
        out.append(f"the person is {tall:.3g} m tall: the cameras' translations must be in metres{hint}")
    sides = [[names.index(f"{side}_{joint}") for joint in ("hip", "shoulder") if f"{side}_{joint}" in names]
             for side in ("left", "right")]  # fmt: skip
    front = [(a, b) for a, b in FRONT if a in names and b in names]
    if all(sides) and front:
        left = (positions[:, sides[0]] - positions[:, sides[1]]).mean(axis=1)
        ahead = np.cross(left, (0.0, 1.0, 0.0) if up == "y" else (0.0, 0.0, 1.0))
        faces = np.stack([positions[:, names.index(a)] - positions[:, names.index(b)] for a, b in front], axis=1)
        sense = np.sign(np.einsum("ti,tki->tk", ahead, faces))
        sense = sense[np.isfinite(sense)]
        if sense.size and np.mean(sense < 0.0) > MIRRORED:
            out.append("left and right are swapped in all cameras, or their images are mirrored")
    return out
