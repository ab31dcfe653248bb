"""Smoothing of a whole clip: accelerations against markers or the motion itself; feet that stand stay put."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.signal import butter, sosfiltfilt
from scipy.spatial.transform import Rotation

from posable.engine.layout import ROBUST
from posable.errors import PosableError
from posable.goals import Position
from posable.mocap.foot_contacts import Contacts, find_contacts
from posable.mocap.gaps import blend_weight, runs
from posable.mocap.parallel import Progress, Stop, pieces, run_pieces
from posable.mocap.report import accelerations, changes, smooth_page
from posable.mocap.trajectory import USUAL, Effort, TrajectoryProblem, solve_on_gpu
from posable.mocap.unwrap import JUMP, continuous, open_box, within_turns
from posable.model.joint_values import joint_transform, rotation_values, turns_freely
from posable.model.joints import Site
from posable.model.kinematics import forward
from posable.model.motion import Motion, motion_for
from posable.model.skeleton import Skeleton
from posable.problem import Problem

WINDOW = 256  # frames whose solution is kept
MARGIN = 32  # frames beyond it on either side, at least
LONGEST = 1e3  # [s] of smoothing
SAMPLES = 64  # frames from which the stiffness of each degree of freedom is taken
WEAK = 1e-3  # fraction of the mean stiffness that is the least for any degree of freedom
LOCK_WEIGHT = 600.0  # of a standing foot, against 1 of a marker
FOOT_WEIGHT = 30.0  # of a foot in the stiffness of its joints: it stands now and then
SETTLING = 0.5  # part of the period of the filter with which feet are set down: bodies stay near what was filtered
STANDS = 4e-3  # [m]: a foot that slips further in a step does not stand
CAREFUL = 3  # passes of a step, where limits keep feet from standing
ARM = 0.1  # [m]: how far from a body the points are that stand for its frame
_NONE = np.zeros((0, 0, 3))
HOLD = 1e-4  # [m^2/rad^2]: of every dof to where it was, for what no point holds


@dataclass(frozen=True, eq=False)
class Smoothed(Motion):
    """A smoothed motion; before: what it was."""

    before: Motion | None = field(default=None, repr=False)

    @property
    def accelerations(self) -> tuple[float, float]:
        """Mean absolute acceleration of the joints, before and after [rad/s^2]."""
        if len(self) < 3 or not self.skeleton.size:
            return 0.0, 0.0
        before, after = (float(accelerations(motion)[1:-1].mean()) for motion in (self.before or self, self))
        return before, after

    @property
    def change(self) -> float:
        """Mean change of the joints, as rotations and moves [rad, m]."""
        change = changes(self.before or self, self)
        return float(change.mean()) if change.size else 0.0

    def save_report(self, path: Any) -> None:
        """Write a self-contained HTML report of what changed."""
        smooth_page(self.before or self, self, path)


def smooth(
    motion: Motion,
    seconds: float = 0.1,
    *,
    contacts: Contacts | bool = True,
    limits: bool = True,
    threads: int | None = None,
    progress: Progress = None,
    stop: Stop = None,
) -> Smoothed:
    """Return the motion with components faster than a given time removed.

    A zero-phase Butterworth filter (second order, forwards and backwards) removes fast motion. One optimisation over
    all frames then pulls every body to its filtered position and penalises accelerations, within hard limits, and holds
    planted feet in place.

    Args:
        motion: The motion.
        seconds: [s] Faster motion is removed.
        contacts: Whether to hold planted feet in place, or the contacts themselves, from `find_contacts`.
        limits: Whether joint limits hold.
        threads: Number of threads; all cores by default.
        progress: True for a progress bar, or a function progress(done, total).
        stop: Called between windows; if it returns True, smoothing ends and the finished windows are kept.

    Returns:
        The smoothed motion, with its source.

    Raises:
        PosableError: `motion` is not a Motion, or `seconds` is not positive.
    """
    seconds = _period(seconds)
    if len(motion_for("smooth", motion)) < 3 or not motion.skeleton.size:
        return Smoothed(motion.skeleton, motion.poses, motion.fps, motion.name, motion)
    skeleton = motion.skeleton
    calm = _filtered(skeleton, motion.poses, motion.fps, seconds)
    calm = np.clip(calm, *box_of(skeleton, calm, limits))
    standing = _contacts(motion, contacts)  # of the motion itself: filtered, feet are slow while they move
    names, figure = _framed(skeleton)
    targets = _PointReader(figure, names, calm)
    settling = SETTLING * seconds
    poses = _smooth_clip(
        figure, names, targets.read, calm, motion.fps, settling, standing, None, limits, threads, progress, stop
    )
    return Smoothed(skeleton, within_turns(skeleton, poses) if limits else poses, motion.fps, motion.name, motion)


def _filtered(skeleton: Skeleton, poses: np.ndarray, fps: float, seconds: float) -> np.ndarray:
    """Return poses (T, n) without what is faster than `seconds`.

    Noise may turn a short bone anywhere. Where values of a ball jump for that, quaternions are filtered in their place.
    """
    poses = continuous(skeleton, poses)
    out = low_pass(poses, fps, seconds)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        part = slice(where.stop - 3, where.stop)
        if not turns_freely(joint.motion) or np.abs(np.diff(poses[:, part], axis=0)).max() <= JUMP:
            continue
        turns = joint_transform(joint.motion, poses[:, where])[1].as_quat()
        same = np.sign(np.sum(turns[1:] * turns[:-1], axis=-1, keepdims=True))
        turns[1:] *= np.cumprod(np.where(same < 0.0, -1.0, 1.0), axis=0)
        calm = low_pass(turns, fps, seconds)
        lost = np.linalg.norm(calm, axis=-1) < 0.1  # turns that cancel each other out
        calm[lost] = turns[lost]
        near = poses[0, part]
        rotations = Rotation.from_quat(calm)
        for k in range(len(out)):
            near = out[k, part] = rotation_values(joint.motion, rotations[k : k + 1], near[None])[0]
    return out


def low_pass(poses: np.ndarray, fps: float, seconds: float) -> np.ndarray:
    """Return poses (T, n) without what is faster than `seconds`, by a Butterworth filter without delay."""
    if seconds * fps <= 2.0:  # faster than the frames are
        return poses
    filters = butter(2, 1.0 / seconds, fs=fps, output="sos")
    return sosfiltfilt(filters, poses, axis=0, padlen=min(len(poses) - 1, round(3.0 * seconds * fps)))


def smooth_take(
    take: Any,
    source: Any,
    seconds: float,
    *,
    limits: bool,
    robust: float | None,
    threads: int | None,
    progress: Progress,
) -> tuple[Any, tuple[str, ...]]:
    """Return a tracked take smoothed against its own markers, and notes for its report."""
    seconds = _period(seconds)
    motion, sites = take.motion, list(take.names)

    def read(start: int, end: int) -> np.ndarray:
        places = source.read(start, end).copy()
        places[~np.isfinite(take.errors[start:end])] = np.nan
        return places

    standing = _contacts(motion, True)
    poses = _smooth_clip(
        motion.skeleton,
        sites,
        read,
        motion.poses,
        motion.fps,
        seconds,
        standing,
        robust,
        limits,
        threads,
        progress,
        None,
    )
    errors = np.empty_like(take.errors)
    for start in range(0, len(poses), 4096):
        end = min(start + 4096, len(poses))
        frames = forward(motion.skeleton, poses[start:end])
        model = np.stack([frames.position(site) for site in sites], axis=1)
        errors[start:end] = np.linalg.norm(model - read(start, end), axis=-1)
    steps = len(standing.steps())
    notes = (f"smoothed over {seconds:g} s; {steps} foot contacts locked",)
    if limits:
        poses = within_turns(motion.skeleton, poses)
    return replace(take, motion=Motion(motion.skeleton, poses, motion.fps, motion.name), errors=errors), notes


def _period(seconds: Any) -> float:
    try:
        value = float(seconds)
    except (TypeError, ValueError, OverflowError):
        value = np.nan
    if not 0.0 < value <= LONGEST:
        raise PosableError(f"smooth: expected seconds above 0 and up to {LONGEST:g}, got {seconds!r}")
    return value


def _contacts(motion: Motion, contacts: Contacts | bool) -> Contacts:
    if isinstance(contacts, Contacts):
        return contacts
    if contacts:
        return find_contacts(motion)
    return Contacts((), np.zeros((len(motion), 0), dtype=bool), np.zeros((len(motion), 0, 3)))


def _framed(skeleton: Skeleton) -> tuple[list[str], Skeleton]:
    """Return names of three points on every body that moves, and the figure with sites for them."""
    sites, names = [], []
    for joint in skeleton.joints:
        if joint.motion.dofs:
            for axis in range(3):
                names.append(f"{joint.name}|{axis}")
                sites.append(Site(names[-1], joint.name, ARM * np.eye(3)[axis]))
    return names, skeleton.replace(sites=[*skeleton.sites, *sites])


class _PointReader:
    """Where the points of a figure are in a motion, computed piece by piece."""

    def __init__(self, skeleton: Skeleton, names: Sequence[str], poses: np.ndarray):
        self.skeleton, self.names, self.poses = skeleton, names, poses

    def read(self, start: int, end: int) -> np.ndarray:
        """Return places (end - start, M, 3) [m]."""
        frames = forward(self.skeleton, self.poses[start:end])
        return np.stack([frames.position(name) for name in self.names], axis=1)


def _smooth_clip(
    skeleton, sites, read, poses, fps, seconds, standing, robust, limits, threads, progress, stop
) -> np.ndarray:
    """Smooth poses (T, n) against places of sites, read(start, end) -> (t, M, 3), and feet that stand."""
    feet = list(standing.points)
    goals = [Position(site, (0.0, 0.0, 0.0), robust=robust) for site in sites]
    goals += [Position(foot, (0.0, 0.0, 0.0), weight=LOCK_WEIGHT, label=f"{foot} stands") for foot in feet]
    problem = Problem(skeleton, goals)
    poses = continuous(skeleton, poses)
    pull = np.full(skeleton.size, HOLD)
    lighter = [Position(foot, (0.0, 0.0, 0.0), weight=FOOT_WEIGHT) for foot in feet]
    usual = goal_stiffness(Problem(skeleton, [*goals[: len(sites)], *lighter]), poses, pull)
    stiffness = usual * (seconds * fps / (2.0 * np.pi)) ** 4
    own = len(sites) + len(feet)  # the springs after these are the figure's own couplings: they keep their targets

    def window(first: int, last: int) -> TrajectoryProblem:
        targets = np.full((last - first, own, 3), np.nan)
        targets[:, : len(sites)] = read(first, last)
        targets[:, len(sites) :] = standing.places[first:last]
        robust_scales = problem.constants[0, :, ROBUST].copy()
        box = box_of(skeleton, poses[first:last], limits)
        return TrajectoryProblem(problem, robust_scales, targets, _NONE, pull, poses[first:last], stiffness, *box)

    def stands(answer: np.ndarray, first: int, last: int) -> bool:
        held = Contacts(standing.points, standing.standing[first:last], standing.places[first:last])
        return held.slips(Motion(skeleton, answer, fps)).max(initial=0.0) < STANDS

    return smooth_windows(
        skeleton, poses, window, fps, seconds, limits, threads, progress, stop, stands=stands if feet else None
    )


def smooth_goals(
    problem: Problem,
    poses: np.ndarray,
    fps: float,
    seconds: float,
    *,
    limits: bool = True,
    threads: int | None = None,
    effort: Effort = USUAL,
    stiffness: np.ndarray | None = None,
    asked: np.ndarray | None = None,
    box: tuple[np.ndarray, np.ndarray] | None = None,
    path: np.ndarray | None = None,
    device: str = "cpu",
) -> np.ndarray:
    """Return poses (T, n) smoothed against a problem whose targets (T, ...) are one frame's each.

    Args:
        problem: The goals.
        poses: (T, n) [rad, m].
        fps: Frames a second.
        seconds: [s] Faster motion is removed.
        limits: Whether limits hold.
        threads: Cores to use; all by default.
        effort: When to stop.
        stiffness: (n,) How stiffly its usual goals hold each degree of freedom; all of its goals by default.
        asked: (T,) bool Frames to be solved again, with some on either side; all by default.
        box: (T, n), (T, n) Bounds of each frame instead of the limits.
        path: (T, n) A smooth motion whose accelerations cost nothing.
        device: "cpu" or "cuda".
    """
    skeleton, seconds = problem.skeleton, _period(seconds)
    poses = continuous(skeleton, poses)
    lower, upper = box or box_of(skeleton, poses, limits)
    pull = np.full(skeleton.size, HOLD)
    usual = goal_stiffness(problem, poses, pull) if stiffness is None else stiffness
    stiffness = usual * (_period(seconds) * fps / (2.0 * np.pi)) ** 4
    scales = np.zeros(len(problem.springs))

    def window(first: int, last: int) -> TrajectoryProblem:
        part, rows = problem.part(first, last), slice(first, last)
        box, near = (lower[rows], upper[rows]), None if path is None else path[rows]
        return TrajectoryProblem(part, scales, _NONE, _NONE, pull, poses[rows], stiffness, *box, near)

    def on_gpu(spans: list[tuple[int, int]], free: np.ndarray | None = None) -> list[np.ndarray]:
        return solve_on_gpu(problem, poses, spans, pull, stiffness, lower, upper, effort, free, path)

    if asked is None:
        batch = on_gpu if device == "cuda" else None
        return smooth_windows(skeleton, poses, window, fps, seconds, limits, threads, None, None, effort, batch=batch)
    out = poses.copy()
    touched = maximum_filter1d(asked, 2 * reach_of(seconds, fps) + 1)
    if device == "cuda":
        spans = [(max(a - 2, 0), min(b + 2, len(poses))) for a, b in runs(touched)]
        for (first, last), answer in zip(spans, on_gpu(spans, touched), strict=True):
            out[first:last] = np.where(touched[first:last, None], answer, out[first:last])
        return np.clip(out, lower, upper)
    for a, b in runs(touched):
        first, last = max(a - 2, 0), min(b + 2, len(poses))  # a frame meets the two on either side of it
        free = np.zeros(last - first, dtype=bool)
        free[a - first : b - first] = True
        out[first:last] = window(first, last).solve(out[first:last], effort, free)
    return np.clip(out, lower, upper)


def reach_of(seconds: float, fps: float) -> int:
    """Return how many frames a change may reach on either side."""
    return int(np.ceil(3.0 * seconds * fps))


def box_of(skeleton: Skeleton, poses: np.ndarray, limits: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds (T, n), (T, n) of poses (T, n): the limits, or none; frozen joints stay as they are."""
    lower, upper = (np.tile(bound, (len(poses), 1)) for bound in open_box(skeleton, limits))
    lower[:, skeleton.frozen] = upper[:, skeleton.frozen] = poses[:, skeleton.frozen]
    return lower, upper


def smooth_windows(
    skeleton, poses, window, fps, seconds, limits, threads, progress, stop, effort=USUAL, stands=None, batch=None
) -> np.ndarray:
    """Smooth poses (T, n) in windows that overlap by more than the smoothing reaches, each on its own; blend them.

    stands(poses, first, last): whether feet stand in a window; if not, it is solved with more effort.
    batch(spans): solves all windows at once, each given by its first frame and its end.
    """
    total = len(poses)
    margin = max(MARGIN, int(np.ceil(2.0 * seconds * fps)))
    size = max(WINDOW, margin // 2)  # a window is at least as long as what it is blended over
    parts = [(first, begin, end, min(end + margin, total)) for first, begin, end in pieces(total, size, margin)]

    def work(i: int) -> np.ndarray:
        first, _, _, last = parts[i]
        answer = window(first, last).solve(poses[first:last], effort)
        if stands is None or stands(answer, first, last):
            return answer
        return window(first, last).solve(poses[first:last], effort._replace(passes=CAREFUL))

    sizes = [end - begin for _, begin, end, _ in parts]
    if batch is None:
        done = run_pieces(work, sizes, threads=threads, progress=progress, stop=stop, what="smoothing")
    else:
        done = batch([(first, last) for first, _, _, last in parts])
    out = poses.copy()
    shared = margin // 2
    for i, (piece, (first, begin, _, last)) in enumerate(zip(done, parts, strict=False)):
        if not i:
            out[first:last] = piece
            continue
        start, end = begin - shared, min(begin + shared, last)  # blended there with the window before
        weight = blend_weight(2 * shared)[: end - start, None]
        out[start:end] += weight * (piece[start - first : end - first] - out[start:end])
        out[end:last] = piece[end - first :]
    return np.clip(out, *box_of(skeleton, poses, limits))


def goal_stiffness(problem: Problem, poses: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Return (n,): how stiffly the goals hold each degree of freedom, over some frames, and all of them together."""
    rows = np.linspace(0, len(poses) - 1, min(SAMPLES, len(poses))).astype(int)
    total = np.zeros(problem.skeleton.size)
    for row in rows:
        total += np.diag(problem.evaluate(poses[row], exact=False)[2])
    mean = total / len(rows) + pull
    # between each one's own and the same for all: with its own alone, jitter would move to what is held weakly
    return np.sqrt(np.maximum(mean, WEAK * mean.mean()) * mean.mean())
