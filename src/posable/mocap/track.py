"""Motion from markers: `track` solves a take in pieces, rejects outliers, bridges gaps and repairs failed frames."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from posable.errors import PosableError, PosableWarning
from posable.goals import Position
from posable.mocap.frame_solver import ENERGY, SEEN, FrameOptions, FrameSolver, marker_frame_solver
from posable.mocap.gaps import CATCH_UP, LONG, blend_weight, bridge, frame_errors, runs, short_gap, thresholds
from posable.mocap.parallel import Progress, Stop, pieces, run_pieces
from posable.mocap.recognise import Displaced, fallen_off, find_displaced, suspect
from posable.mocap.root_align import (
    ASTRAY,
    LOOSENED,
    best_turn,
    free_root_note,
    move_figure,
    with_free_root,
    with_room,
)
from posable.mocap.take import BLIND, FAILED, OK, REPAIRED, MarkerSource, Take, report_of
from posable.mocap.unwrap import JUMP, continuous, open_box, same_branch, with_ends, within_turns
from posable.model.kinematics import Frames, forward, path_of
from posable.model.motion import Markers, Motion, markers_for
from posable.model.skeleton import Skeleton

if TYPE_CHECKING:
    from posable.mocap.cameras import CameraTake, Keypoints

CHUNK = 1024  # frames
LEAD = 48  # frames of overlap between pieces
ROBUST = 0.05  # [m] error beyond which the force of a marker no longer grows
PULL = 2e-2  # [m^2/rad^2] towards the prediction, for degrees of freedom without markers
WEAK_PULL = 2e-4  # the same between keyframes
MAX_DEVIATION = 0.1  # [rad, m] deviation from the prediction at FAST frames per second; scales as an acceleration
FAST = 120.0  # frames per second
LOST = 0.06  # [m] mean error above which a frame counts as failed, if it also exceeds
LOST_TIMES = 4.0  # this many times the usual error of the take
LOST_SURELY = 0.2  # [m] mean error above which a frame has failed in any case
BRIDGE = 0.02  # [m] by which a bridge may increase the error of a frame
CONTINUOUS = 1.25  # ratio of squared errors up to which a piece continues from the one before
HELD = 1e6  # pull of what is seen while a limb follows its path across a gap
OUT_OF_REACH = 0.1  # [m] mean error above which a limb does not follow its path across a gap
FLIPS = 25.0  # [rad/s]: limbs that turn faster than this on their path, and than interpolated ones, flip
PATH_SHARES = (1.0, 0.5, 0.25)  # of the way from interpolated poses to a path, as tried until a limb does not flip
FEW = 3  # markers that a frame needs
KEY_TIME, KEYS, KEY_LEAD = 0.14, 128, 8  # [s] between keyframes for a GPU; keyframes in a piece, and before it
NEAR_POSES = 1.0  # [rad, m] between keyframes whose mean is a start
LEAVES = 0.6  # part of the largest deviation from the prediction at which a frame of a GPU is solved again
SETTLED, SAME = 48, 1e-3  # frames after which poses are compared with those before, and what counts as equal [rad, m]

FOLLOW = FrameOptions(
    max_iterations=8,
    min_gain=1e-4,
    damping=1e-2,
    extrapolation=0.7,
    pull=PULL,
    half_turn_ratio=8.0,
    max_deviation=MAX_DEVIATION,
)
ANCHOR = FrameOptions(max_iterations=12, min_gain=1e-4, damping=1e-2, keep=True, pull=1e-3)
SETTLE = FrameOptions(max_iterations=150, min_gain=1e-6, damping=1e-1, independent=True, pull=PULL)


@overload
def track(actor: Keypoints, *, smooth: float = 0.0) -> CameraTake: ...
@overload
def track(
    actor: Skeleton,
    markers: Markers | Keypoints,
    *,
    smooth: float = 0.0,
    solver: str = "newton",
    limits: bool = True,
    start: Any = None,
    robust: float | None = ROBUST,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress = None,
    stop: Stop = None,
) -> Take: ...
def track(
    actor: Skeleton | Keypoints,
    markers: Markers | Keypoints | None = None,
    *,
    smooth: float = 0.0,
    solver: str = "newton",
    limits: bool = True,
    start: Any = None,
    robust: float | None = ROBUST,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress = None,
    stop: Stop = None,
) -> Take | CameraTake:
    """Track an actor's motion from markers, or a person's motion from calibrated cameras.

    Markers are matched to the actor's sites by name. Outliers are listed and rejected. A failed frame is solved again
    from its neighbours and from known poses, or marked as failed; tracking continues. A figure with a fixed root gets a
    free root, with a warning, if that halves the error.

    `track(keypoints)` needs no figure: 2D keypoints of several cameras are triangulated and turned into a skeleton and
    its motion (`CameraTake`). With an actor, keypoints are markers for the sites of the same names.

    Args:
        actor: The figure, from `calibrate`; or `Keypoints`, alone.
        markers: The take: `Markers`, or `Keypoints`.
        smooth: [s] Smooth the motion afterwards, as `smooth` does; 0: no smoothing.
        solver: Any solver by name; "newton" runs in compiled code over whole pieces.
        limits: Whether joint limits hold.
        start: (n,) [rad, m] The first pose, if known.
        robust: [m] Error beyond which the force of a marker no longer grows; None: it always grows.
        device: "cpu", or "cuda": frames are solved in batches on an NVIDIA GPU, and those that break the motion's
            continuity again on the CPU.
        threads: Number of threads; None: all cores. The result does not depend on it.
        progress: True for a progress bar, or a function progress(done, total).
        stop: Called between chunks; if it returns True, tracking ends and the finished chunks are kept.

    Returns:
        The take: `.motion`, `.errors` (T, M) [m] and `.report`.

    Raises:
        PosableError: No site of the actor has the name of a marker.
    """
    notes: tuple[str, ...] = ()
    if not isinstance(markers, Markers):
        from posable.mocap.cameras import Keypoints, track_keypoints, triangulate

        if isinstance(actor, Keypoints) and markers is None:
            return track_keypoints(actor, smooth=smooth)
        if isinstance(markers, Keypoints):
            found = triangulate(markers)
            markers, notes = found.markers, (*found.doubts, *found.repairs)
    if not isinstance(actor, Skeleton):
        raise PosableError(f"track: expected a Skeleton, such as calibrate returns, got {type(actor).__name__}")
    if device not in ("cpu", "cuda") or (device == "cuda" and solver != "newton"):
        raise PosableError(f"track: expected device='cpu', or 'cuda' with solver='newton', got {device!r}, {solver!r}")
    return _track_markers(
        actor, markers_for("track", markers), notes, smooth, solver, limits, start, robust, threads, progress, stop,
        device,
    )  # fmt: skip


def _track_markers(
    actor, markers, notes, smooth, solver, limits, start, robust, threads, progress, stop, device
) -> Take:
    """Return the motion of an actor that follows markers, as `track` describes it."""
    begin = time.perf_counter()
    actor = with_room(actor, markers)
    source = MarkerSource(actor, markers)
    poses, errors, statuses = _tracked(actor, source, solver, limits, start, robust, threads, progress, stop, device)
    displaced = _find_displaced(source, poses, errors, limits) if len(poses) == source.total else []
    if displaced:
        source.leave_out(displaced)
        poses, errors, statuses = _tracked(
            actor, source, solver, limits, start, robust, threads, progress, stop, device
        )  # fmt: skip
    if actor.free_root is None and len(poses) == source.total and _mean(errors) > ASTRAY:
        loose = with_free_root(actor)
        again = _tracked(loose, source, solver, limits, None, robust, threads, progress, stop, device)
        if len(again[0]) == len(poses) and _mean(again[1]) < LOOSENED * _mean(errors):
            actor, (poses, errors, statuses), notes = loose, again, (*notes, free_root_note(loose))
            warnings.warn(f"track: {notes[-1]}", PosableWarning, stacklevel=3)
    if len(poses) < len(markers):
        markers = Markers(markers.names, markers.positions[: len(poses)], markers.fps, markers.up, markers.unit)
    if limits:
        poses = within_turns(actor, poses)
    stopped = len(poses) < source.total
    take = Take(Motion(actor, poses, markers.fps, actor.name), errors, markers, tuple(source.sites))
    if smooth > 0.0 and len(poses) > 2:
        from posable.mocap.smooth import smooth_take

        take, more = smooth_take(take, source, smooth, limits=limits, robust=robust, threads=threads, progress=progress)
        notes += more
    object.__setattr__(take, "report", report_of(take, source, statuses, time.perf_counter() - begin, stopped, notes))
    return take


def _tracked(actor, source, solver, limits, start, robust, threads, progress, stop, device):
    """Return poses (T, n), errors (T, M) [m] and statuses (T,)."""
    if solver == "newton":
        return _solve_take(actor, source, limits, start, robust, threads, progress, stop, device)
    return _step_take(actor, source, solver, limits, start, stop)


def _mean(errors: np.ndarray) -> float:
    """Return the mean [m] of errors (T, M), 0 if there are none."""
    return float(np.nan_to_num(np.nanmean(frame_errors(errors)))) if np.isfinite(errors).any() else 0.0


def _find_displaced(source: MarkerSource, poses: np.ndarray, errors: np.ndarray, limits: bool) -> list[Displaced]:
    """Return the stretches of a take in which markers are displaced on their bones, compared with the actor.

    Args:
        source: The markers of the take.
        poses: (T, n) As tracked.
        errors: (T, M) [m] As tracked, NaN where a marker was not seen or left out.
        limits: Whether joint limits hold.
    """
    actor = source.actor
    homes = {site.name: np.asarray(site.offset, dtype=float) for site in actor.sites}

    def look(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate([source.read(int(t), int(t) + 1) for t in frames]), poses[frames]

    out: list[Displaced] = []
    for k, (site, stays) in enumerate(zip(source.sites, source.stays, strict=True)):
        if len(stays) > 1 and suspect(errors[:, k]):
            fps = source.markers.fps
            out += find_displaced(actor, source.sites, k, stays, look, homes[site], limits=limits, fps=fps)
    return fallen_off(out, actor, source.sites)


# --------------------------------------------------------------------------------------------------- the compiled walk


def _solve_take(actor, source, limits, start, robust, threads, progress, stop, device):
    frame_solver = marker_frame_solver(actor, source.sites, limits=limits, robust=robust)
    parts = pieces(source.total, CHUNK, LEAD)
    bank = _known_poses(actor, start)
    batch = _solve_batch(actor, frame_solver, source, bank, start, threads, stop) if device == "cuda" else None

    def work(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first, _, end = parts[i]
        chunk = _chunk(actor, frame_solver, source, first, end)
        chunk.found = None if batch is None else batch[first:end]
        return chunk.solve(bank, None if start is None or i else start)

    done = run_pieces(
        work, [end - begin for _, begin, end in parts], threads=threads, progress=progress, stop=stop, what="tracking"
    )
    poses, errors, statuses = _join(actor, frame_solver, source, parts, done)
    changed = _carry_offsets(actor, frame_solver, source, poses, np.isfinite(errors))
    _follow_the_seen(actor, frame_solver, source, poses)
    changed |= source.unobserved.cross(poses, source.markers.fps)
    np.clip(poses, frame_solver.lower, frame_solver.upper, out=poses)
    _follow_paths(actor, source, poses, limits)
    for first in range(0, len(poses), CHUNK):
        part = first + np.flatnonzero(changed[first : first + CHUNK])
        if len(part):
            chunk = _chunk(actor, frame_solver, source, first, min(first + CHUNK, len(poses)))
            chunk.poses = poses[first : first + CHUNK]
            errors[part] = np.where(np.isfinite(errors[part]), chunk.measure()[part - first], np.nan)
    statuses[(statuses != BLIND) & _lost(errors)] = FAILED  # judged by the final frames
    return poses, errors, statuses


def _solve_batch(actor, frame_solver, source, bank, start, threads, stop) -> np.ndarray | None:
    """Return poses (T, n) from a GPU; None where it was stopped.

    Keyframes, about KEY_TIME apart, are followed on the CPU. Then the frames halfway between solved ones are solved in
    one batch, from the mean of their two neighbours, until all are, and at last every frame from that mean. Springs to
    the start hold what no marker does; between distant keyframes they are weak, because the start is far off there.
    """
    from posable.gpu.batch import solve_markers

    total = source.total
    step = 2 ** max(int(np.log2(max(KEY_TIME * source.markers.fps, 1.0))), 0)
    parts = pieces(total, KEYS * step, KEY_LEAD * step)
    places = np.concatenate([source.filled(a, min(a + CHUNK, total))[0] for a in range(0, total, CHUNK)])
    poses, fps, stride = np.empty((total, actor.size)), source.markers.fps / step, step

    def walk(i: int) -> np.ndarray:
        first, begin, end = parts[i]
        few = places[first:end:stride]
        chunk = _Chunk(actor, frame_solver, few, np.zeros(few.shape[:2], dtype=bool), source.sites, fps)
        chunk.options = replace(chunk.options, max_iterations=SETTLE.max_iterations, pull=WEAK_PULL)
        last = chunk.catch(0, bank) if start is None or i else np.asarray(start, dtype=float)
        frame_solver(chunk.options, chunk.poses, targets=few, last=last)
        return chunk.poses[(begin - first) // stride :]

    sizes = [end - begin for _, begin, end in parts]
    done = run_pieces(walk, sizes, threads=threads, progress=None, stop=stop, what="tracking")
    if len(done) < len(parts):
        return None
    for (_, begin, end), piece in zip(parts, done, strict=True):
        poses[begin:end:stride] = piece
    while step > 1:
        rows = np.arange(step // 2, total, step)
        before, after = poses[rows - step // 2], poses[np.minimum(rows + step // 2, (total - 1) // step * step)]
        near = np.abs(after - before).max(axis=1, initial=0.0) < NEAR_POSES
        starts = np.where(near[:, None], 0.5 * (before + after), before)
        poses[rows] = solve_markers(frame_solver, places[rows], starts, WEAK_PULL)
        step //= 2
    calm = poses.copy()
    calm[1:-1] = 0.5 * (poses[:-2] + poses[2:])
    near = np.abs(calm - poses).max(axis=1, initial=0.0) < MAX_DEVIATION
    return solve_markers(frame_solver, places, np.where(near[:, None], calm, poses), PULL)


def _carry_offsets(
    actor: Skeleton, frame_solver: FrameSolver, source: MarkerSource, poses: np.ndarray, used: np.ndarray
) -> np.ndarray:
    """Solve poses (T, n) again, in place, in long gaps of markers on bones that other markers determine.

    A marker is never exactly where the actor has it, and pulls its bone. In a gap it stays as far off, relative to the
    bone, as at the edges of the gap; otherwise the bone would give way, and return after it. Markers that are left out
    although they were seen may be anywhere and are not continued.

    Args:
        actor: The figure.
        frame_solver: That of its markers.
        source: The markers of the take.
        poses: (T, n) As tracked.
        used: (T, M) bool: which markers determined them.

    Returns:
        The frames (T,) bool that changed.
    """
    total, changed = len(poses), np.zeros(len(poses), dtype=bool)
    spans: list[tuple[int, int, int]] = []  # (marker, first frame, end)
    for k, column in enumerate(source.columns):
        for a, b in runs(np.isnan(source.markers.positions[:total, column, 0])):
            if a > 0 and b < total and b - a > short_gap(source.markers.fps) and used[[a - 1, b], k].all():
                spans.append((k, a, b))
                changed[a:b] = True
    changed &= ~source.unobserved.loose(total).any(axis=1)
    if not changed.any():
        return changed
    holes = np.array(spans)
    offsets = _offsets(actor, frame_solver, source, holes, poses, used)
    for start in range(0, total, CHUNK):
        end = min(start + CHUNK, total)
        rows = start + np.flatnonzero(changed[start:end])
        if not len(rows):
            continue
        chunk = _chunk(actor, frame_solver, source, start, end)
        chunk.places[~used[start:end] & ~chunk.filled] = np.nan
        frames = forward(actor, poses[rows])
        here = np.flatnonzero((holes[:, 1] < end) & (holes[:, 2] > start))
        for (k, a, b), (before, after) in zip(holes[here].tolist(), offsets[here], strict=True):
            inside = slice(*np.searchsorted(rows, (a, b)))
            share = ((rows[inside] - a + 1) / (b - a + 1))[:, None]
            off = (1.0 - share) * before + share * after
            place, turn = frames.position(source.sites[k])[inside], frames.rotation_matrix(source.sites[k])[inside]
            chunk.places[rows[inside] - start, k] = place + np.einsum("tij,tj->ti", turn, off)
        chunk.poses, old = poses[start:end], poses[start:end].copy()
        chunk.solve_changed(changed[start:end], poses[start - 1], *frame_solver.assess(chunk.poses, chunk.places))
        changed[start:end] |= (chunk.poses != old).any(axis=1)
        if end < total and np.abs(chunk.poses[-1] - old[-1]).max() > SAME:
            changed[end] = True
    return changed


def _offsets(
    actor: Skeleton,
    frame_solver: FrameSolver,
    source: MarkerSource,
    holes: np.ndarray,
    poses: np.ndarray,
    used: np.ndarray,
) -> np.ndarray:
    """Return how far markers are from their sites (H, 2, 3) [m] before and after holes, in the axes of the bones.

    The bones are where the markers put them that are seen both beside a hole and in it. holes: (H, 3) marker, first
    frame, end.
    """
    out = np.empty((len(holes), 2, 3))
    for side, (edges, insides) in enumerate(((holes[:, 1] - 1, holes[:, 1]), (holes[:, 2], holes[:, 2] - 1))):
        for first in range(0, len(holes), CHUNK):
            edge, inside = edges[first : first + CHUNK], insides[first : first + CHUNK]
            places = source.at(edge)
            found = poses[edge]
            frame_solver(ANCHOR, found, targets=np.where((used[edge] & used[inside])[..., None], places, np.nan))
            frames = forward(actor, found)
            for h, k in enumerate(holes[first : first + CHUNK, 0].tolist()):
                off = places[h, k] - frames.position(source.sites[k])[h]
                out[first + h, side] = frames.rotation_matrix(source.sites[k])[h].T @ off
    return out


def _follow_the_seen(actor: Skeleton, frame_solver: FrameSolver, source: MarkerSource, poses: np.ndarray) -> None:
    """Solve poses (T, n) again, in place, where markers were filled by lines, for the joints that others determine.

    A line leads a hand to where it reappears, and would drag the trunk along, whose own markers are seen. Without the
    hand, the trunk is at a slightly different place; the difference is known on either side of the gap. A short
    gap is close enough to a line.
    """
    loose = source.unobserved.loose(len(poses))
    for a, b in runs(np.asarray(loose.any(axis=1) & ~loose.all(axis=1))):
        first, end = max(0, a - CATCH_UP), min(b + CATCH_UP, len(poses))
        if first == a or end == b or b - a <= short_gap(source.markers.fps):
            continue
        places, _ = source.bridged(first, end)
        gone = np.isnan(places[..., 0])
        places[: a - first, gone[a - first]] = np.nan
        places[b - first :, gone[b - first - 1]] = np.nan
        found = np.empty((end - first, actor.size))
        frame_solver(_options(source.markers.fps), found, targets=places, last=poses[first])
        rows = slice(a - 1 - first, b + 1 - first)
        part = with_ends(actor, found[rows], poses[[a - 1, b]])
        seen = places[rows]
        worse = frame_errors(frame_solver.measure(part, seen)) - frame_errors(frame_solver.measure(found[rows], seen))
        if np.nanmax(np.append(worse[1:-1], 0.0)) > BRIDGE:  # joints that make up for each other do not do so halfway
            inner = part[1:-1].copy()
            frame_solver(ANCHOR, inner, targets=seen[1:-1])
            part[1:-1] = inner
        part = continuous(actor, part)
        if np.abs(poses[b] - part[-1]).max() > JUMP:  # the body spun, and lines held it back
            poses[b:] = continuous(actor, np.vstack([part[-2:-1], poses[b:]]))[1:]
        poses[a:b] = np.where(loose[a:b], poses[a:b], part[1:-1])


def _follow_paths(actor: Skeleton, source: MarkerSource, poses: np.ndarray, limits: bool) -> None:
    """Solve limbs of poses (T, n) again, in place, in gaps that were interpolated: their joints follow `limb_paths`.

    Where a limb flips on its path, it follows paths that are nearer to the interpolated poses, or stays at those.
    """
    if not source.unobserved.joints:
        return
    from posable.mocap.limb_paths import limb_paths

    loose, solvers = source.unobserved.loose(len(poses)), {}
    for frames, dofs, points, places in limb_paths(source.unobserved, poses, source.markers.fps):
        if points not in solvers:
            solvers[points] = marker_frame_solver(actor, points, limits=limits)
            solvers[points].pull[:] = HELD
            solvers[points].pull[dofs] = 1.0
        mine = np.zeros_like(loose[frames])
        mine[:, dofs] = loose[frames, dofs]
        part = poses[frames.start - 1 : frames.stop + 1]  # and the frames beside the gap
        crossed = forward(actor, part)
        start = np.stack([crossed.position(name) for name in points], axis=1)[1:-1]
        fastest = max(FLIPS / source.markers.fps, _largest_turn(crossed, points))
        for share in PATH_SHARES:
            found = part.copy()
            errors, _ = solvers[points](ANCHOR, found[1:-1], targets=start + share * (places - start))
            found[1:-1] = np.where(mine, found[1:-1], part[1:-1])
            if errors.mean() < OUT_OF_REACH and _largest_turn(forward(actor, found), points) <= fastest:
                part[1:-1] = found[1:-1]
                break


def _largest_turn(frames: Frames, names: Sequence[str]) -> float:
    """Return the largest angle [rad] by which one of some frames turns from one row of poses to the next."""
    turns = np.stack([frames.rotation_matrix(name) for name in names])
    cosines = 0.5 * (np.einsum("ntij,ntij->nt", turns[:, :-1], turns[:, 1:]) - 1.0)
    return float(np.arccos(np.clip(cosines.min(), -1.0, 1.0)))


def _known_poses(actor: Skeleton, start: Any) -> np.ndarray:
    """Return poses (B, n) to start from without a neighbouring frame: given, from the calibration, and at rest."""
    known = [] if start is None else [np.asarray(start, dtype=float).reshape(1, -1)]
    if "calibration_poses" in actor.info:
        known.append(np.asarray(actor.info["calibration_poses"], dtype=float))
    known = [poses for poses in known if poses.shape[1] == actor.size]
    bank = np.vstack([*known, actor.rest])
    return np.clip(bank, *open_box(actor))


def _lost(errors: np.ndarray) -> np.ndarray:
    """Return (t,) bool: the frames with unusually large errors."""
    mean = frame_errors(errors)
    if not np.isfinite(mean).any():
        return np.zeros(len(mean), dtype=bool)
    return np.nan_to_num(mean, nan=0.0) > max(LOST, min(LOST_TIMES * float(np.nanmedian(mean)), LOST_SURELY))


def _chunk(actor: Skeleton, frame_solver: FrameSolver, source: MarkerSource, start: int, end: int) -> _Chunk:
    """Return the piece of some frames of a take."""
    return _Chunk(actor, frame_solver, *source.filled(start, end), source.sites, source.markers.fps)


def _options(fps: float) -> FrameOptions:
    """Return the options of frames that follow each other at a rate [1/s]."""
    return replace(FOLLOW, max_deviation=min(MAX_DEVIATION * max(1.0, FAST / fps) ** 2, np.pi))


class _Chunk:
    """One piece of a take: solved frame by frame, cleaned of outliers, bridged over gaps and repaired."""

    def __init__(self, actor: Skeleton, frame_solver: FrameSolver, places, filled, sites: list[str], fps: float):
        self.actor, self.frame_solver, self.sites = actor, frame_solver, sites
        self.options = _options(fps)
        self.places = places
        self.filled = filled  # (t, M) where positions are interpolated across a gap
        self.poses = np.empty((len(places), actor.size))
        self.found: np.ndarray | None = None  # (t, n) poses that a GPU found

    def solve(self, bank: np.ndarray, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return poses (t, n), errors (t, M) and statuses (t,)."""
        first = self.catch(0, bank) if start is None else np.asarray(start, dtype=float)
        statuses = np.zeros(len(self.poses), dtype=np.int8)
        errors, notes = self._solve_frames(first, bank)
        limit = thresholds(errors)
        wrong = errors > limit
        wrong[2 * wrong.sum(axis=1) > np.isfinite(errors).sum(axis=1)] = (
            False  # the figure is lost there, the markers are fine
        )
        if wrong.any():
            wrong |= self._filled_beside(wrong)
            self.places[wrong] = np.nan
            if (np.isfinite(self.places).all(axis=-1).sum(axis=1) < FEW).any():
                errors, notes = self._solve_frames(first, bank)
            else:
                self.solve_changed(np.asarray(wrong.any(axis=1)), first, errors, notes)
        bad = _lost(errors)
        if bad.any():
            errors = self._repair(errors, notes, bad, bank, statuses)
        if self._bridge_gaps():
            errors = self.measure()
        statuses[np.isfinite(errors).sum(axis=1) < FEW] = BLIND
        return self.poses, errors, statuses

    def _filled_beside(self, wrong: np.ndarray) -> np.ndarray:
        """Return (t, M) bool: the samples that were filled from one that is wrong (t, M) bool."""
        out = np.zeros_like(wrong)
        for m in np.flatnonzero(wrong.any(axis=0) & self.filled.any(axis=0)):
            for a, b in runs(self.filled[:, m]):
                out[a:b, m] = wrong[max(a - 1, 0), m] or wrong[min(b, len(wrong) - 1), m]
        return out

    def _solve_frames(self, first: np.ndarray, bank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solve the piece frame by frame from a pose (n,), starting afresh after times without markers."""
        if self.found is not None:
            errors, notes = self._take_batch(first)
        else:
            errors, notes = self.frame_solver(self.options, self.poses, targets=self.places, last=first)
        for a, b in runs(notes[:, SEEN] < FEW):
            end = min(b + CATCH_UP, len(self.poses))
            if b - a < LONG or b >= end:
                continue
            poses, found, energies = self._again(b, end, self.catch(b, bank))
            rows = np.flatnonzero(energies < notes[b:end, ENERGY])
            self.poses[b + rows], errors[b + rows], notes[b + rows, ENERGY] = (
                poses[rows],
                found[rows],
                energies[rows],
            )
        errors[self.filled] = np.nan
        return errors, notes

    def _take_batch(self, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take the poses that a GPU found, and solve again where they leave the path that frames before them predict.

        Returns:
            Errors (t, M) [m] and notes (t, NOTES), as a frame solver does.
        """
        assert self.found is not None
        np.clip(continuous(self.actor, self.found), self.frame_solver.lower, self.frame_solver.upper, out=self.poses)
        self.found, poses = None, self.poses
        errors, notes = self.frame_solver.assess(poses, self.places)
        change = np.diff(poses, axis=0, prepend=poses[:1])
        off = change - self.options.extrapolation * np.roll(change, 1, axis=0)
        astray = np.asarray((np.abs(off) > LEAVES * self.options.max_deviation).any(axis=1))
        astray[:2] = False
        astray |= notes[:, SEEN] < FEW  # without markers, a pose follows from those before it
        if astray.any():
            self.solve_changed(astray, first, errors, notes)
        return errors, notes

    def solve_changed(self, changed: np.ndarray, first: np.ndarray, errors: np.ndarray, notes: np.ndarray) -> None:
        """Solve again from frames (t,) bool whose markers have changed, until the poses come back to what they were."""
        done, gap = 0, 0.0
        for a, b in runs(changed):
            a, end = max(a, done), done
            while end < b or (end < len(self.poses) and gap > SAME):
                end = min(max(b, a) + SETTLED, len(self.poses))
                old, last = self.poses[end - 1].copy(), self.poses[a - 1] if a else first
                errors[a:end], notes[a:end] = self.frame_solver(
                    self.options, self.poses[a:end], targets=self.places[a:end], last=last,
                    before=self.poses[a - 2] if a > 1 else last,
                )  # fmt: skip
                gap, a = np.abs(self.poses[end - 1] - old).max(), end
            done = end
        errors[self.filled] = np.nan

    def measure(self) -> np.ndarray:
        """Return the errors (t, M) [m] of the present poses."""
        errors = self.frame_solver.measure(self.poses, self.places)
        errors[self.filled] = np.nan
        return errors

    def catch(self, frame: int, bank: np.ndarray) -> np.ndarray:
        """Return the pose (n,) at a frame without using its neighbours: from known poses, aligned with the markers."""
        targets = self.places[frame]
        seen = np.isfinite(targets).all(axis=-1)
        if seen.sum() < FEW:  # too few markers: use the first frame that shows enough
            enough = np.flatnonzero(np.isfinite(self.places).all(axis=-1).sum(axis=1) >= FEW)
            if not len(enough) or frame == enough[0]:
                return bank[0].copy()
            return self.catch(int(enough[0]), bank)
        frames = forward(self.actor, bank)
        models = np.stack([frames.position(site) for site in self.sites], axis=1)
        r, t = best_turn(models, targets)
        misses = np.nansum(np.square(models @ np.swapaxes(r, -1, -2) + t[:, None] - targets), axis=(1, 2))
        best: tuple[float, np.ndarray] = (np.inf, bank[0])
        for k in np.argsort(misses)[:3]:
            moved = move_figure(self.actor, bank[k], r[k], t[k])
            pose = np.clip(moved, self.frame_solver.lower, self.frame_solver.upper)[None]
            _, notes = self.frame_solver(SETTLE, pose, targets=targets[None], home=pose[0])
            if notes[0, ENERGY] < best[0]:
                best = (float(notes[0, ENERGY]), pose[0])
        return best[1]

    def _repair(self, errors, notes, bad, bank, statuses) -> np.ndarray:
        """Solve failed runs again: forwards from a fresh start, and backwards from the frame after them."""
        for a, b in runs(bad):
            candidates = [self._again(a, b, self.catch(a, bank))]
            if b < len(self.poses):
                candidates.append(self._again(a, b, self.poses[b], backwards=True))
            energies = np.array([notes[a:b, ENERGY], *(energy for _, _, energy in candidates)])
            best = np.argmin(energies, axis=0)
            for k, (poses, found, _) in enumerate(candidates, start=1):
                rows = np.flatnonzero(best == k)
                self.poses[a + rows], errors[a + rows] = poses[rows], found[rows]
                statuses[a + rows] = REPAIRED
        still = _lost(errors)
        statuses[still] = FAILED
        return errors

    def _again(self, a: int, b: int, start: np.ndarray, *, backwards: bool = False):
        step = -1 if backwards else 1
        poses = np.empty((b - a, self.actor.size))
        errors, notes = self.frame_solver(self.options, poses, targets=self.places[a:b][::step], last=start)
        return poses[::step], errors[::step], notes[::step, ENERGY]

    def _bridge_gaps(self) -> bool:
        """Bridge long gaps from both sides; return whether there were any."""
        missing: np.ndarray = ~np.asarray(np.isfinite(self.places).all(axis=-1))
        total = len(self.poses)
        gaps: list[tuple[int, int, int, np.ndarray]] = []
        for m in np.flatnonzero(missing.any(axis=0)):
            body = int(self.actor.frame_bodies[self.actor.frame(self.sites[m])])
            dofs = np.array(sorted(path_of(self.actor, body)), dtype=int)
            spans = [(a, b) for a, b in runs(missing[:, m]) if b - a >= LONG and a > 0 and b < total]
            gaps += [(a, b, min(b + CATCH_UP, total - 1), dofs) for a, b in spans]
        if not gaps:
            return False
        back = self.poses.copy()
        crossed = np.zeros(total, dtype=bool)
        for a, _, b, _ in gaps:
            crossed[a:b] = True
        for a, b in runs(crossed):
            back[a:b], _, _ = self._again(a, b, self.poses[b], backwards=True)
        forth, worse = self.poses.copy(), frame_errors(self.measure())
        bridge(self.poses, back, gaps)
        np.clip(self.poses, self.frame_solver.lower, self.frame_solver.upper, out=self.poses)
        worse = frame_errors(self.measure()) - worse
        for a, b in runs(crossed):
            if np.nanmax(np.append(worse[a:b], 0.0)) > BRIDGE:  # the two sides are on different branches
                self.poses[a:b] = forth[a:b]
        return True


# --------------------------------------------------------------------------------------------------------------- joins


def _join(
    actor: Skeleton, frame_solver: FrameSolver, source: MarkerSource, parts, done
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join pieces: angles on one branch, pieces that ended elsewhere solved again, overlaps blended."""
    total = parts[len(done) - 1][2] if done else 0
    poses, errors = np.empty((total, actor.size)), np.empty((total, len(source.sites)))
    statuses = np.zeros(total, dtype=np.int8)
    for i, ((first, begin, end), (chunk, found, status)) in enumerate(zip(parts, done, strict=False)):
        lead = begin - first
        if i:
            same_branch(actor, poses[begin - 1], chunk, lead - 1)
            gap = np.abs(poses[first:begin] - chunk[:lead]).max(axis=0)
            if gap[_angles(actor)].max(initial=0.0) > 0.3:
                again = _chunk(actor, frame_solver, source, first, end)
                other = again.solve(poses[first : first + 1], poses[first])
                if np.nansum(other[1] ** 2) < CONTINUOUS * np.nansum(found**2):
                    chunk, found, status = other
                    same_branch(actor, poses[begin - 1], chunk, lead - 1)
            poses[first:begin] = _blend(actor, frame_solver, source, first, poses[first:begin], chunk[:lead])
        poses[begin:end], errors[begin:end], statuses[begin:end] = chunk[lead:], found[lead:], status[lead:]
        if i:
            measured = _chunk(actor, frame_solver, source, first, begin)
            measured.poses = poses[first:begin]
            believed = np.isfinite(errors[first:begin])
            errors[first:begin] = np.where(believed, measured.measure(), np.nan)
    return poses, errors, statuses


def _blend(
    actor: Skeleton, frame_solver: FrameSolver, source: MarkerSource, first: int, old: np.ndarray, new: np.ndarray
) -> np.ndarray:
    """Return the frames (t, n) that two pieces share: from the one to the other, or cut where they do not meet."""
    weight = blend_weight(len(old))[:, None]
    candidates = [old + weight * (new - old), np.where(weight < 0.5, old, new)]
    misses = []
    for poses in candidates:
        shared = _chunk(actor, frame_solver, source, first, first + len(old))
        shared.poses = poses
        misses.append(np.nanmax(np.append(frame_errors(shared.measure()), 0.0)))
    return candidates[0] if misses[0] < misses[1] + BRIDGE else candidates[1]


def _angles(actor: Skeleton) -> np.ndarray:
    return actor.figure.dof[:, 0] != 0 if actor.size else np.zeros(0, dtype=bool)


# -------------------------------------------------------------------------------------------------- any other solver


def _step_take(actor, source, solver, limits, start, stop):
    """Track with a solver without a compiled frame solver: frame by frame, each from the last pose."""
    from posable._solve import Session

    goals = [Position(site, (0.0, 0.0, 0.0)) for site in source.sites]
    session = Session(actor, goals, solver=solver, limits=limits, natural=False)
    frame_solver = marker_frame_solver(actor, source.sites, limits=limits)
    poses, errors = np.empty((source.total, actor.size)), np.full((source.total, len(source.sites)), np.nan)
    chunk = _chunk(actor, frame_solver, source, 0, min(64, source.total))
    session.pose = chunk.catch(0, _known_poses(actor, start)) if start is None else np.asarray(start, dtype=float)
    done = 0
    for t in range(source.total):
        if stop is not None and stop():
            break
        places = source.read(t, t + 1)[0]
        seen = np.isfinite(places).all(axis=-1)
        for k in range(len(source.sites)):
            session.problem.enable(k, bool(seen[k]))
            if seen[k]:
                session.problem.move(k, session.problem.goals[k].moved(places[k]))
        result = session.solve()
        poses[t] = result.pose
        errors[t, seen] = np.array(list(result.errors.values()))[seen]
        done = t + 1
    statuses = np.where(np.isfinite(errors[:done]).sum(axis=1) < FEW, BLIND, OK).astype(np.int8)
    return poses[:done], errors[:done], statuses
