"""Markers to motion: `track` walks a take piece by piece, leaves out what cannot be right, and repairs what it can."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posable.errors import PosableError
from posable.formats.axes import turn_up
from posable.front import Session
from posable.goals import Position
from posable.kernels.joints import TURN
from posable.kinematics import forward
from posable.motion import Markers, Motion, turns_freely
from posable.problem import path_of
from posable.skeleton import Skeleton
from posable.tracking import walking
from posable.tracking.chunks import Progress, Stop, pieces, run_pieces
from posable.tracking.gaps import LONG, blend_weight, bridge, runs, thresholds
from posable.tracking.markersets import base_name
from posable.tracking.pacing import Pace, Walker, marker_walker
from posable.tracking.roots import best_turn, move_figure

PIECE = 1024  # frames
LEAD = 48  # frames that two pieces share
ROBUST = 0.05  # [m]: beyond, a marker pulls no harder
PULL = 3e-3  # [m^2/rad^2]: to the prediction, of what no marker holds
SWERVE = 0.1  # [rad, m]: how far a frame may be off its prediction
LOST = 0.06  # [m]: mean error of a frame beyond which it counts as failed
LOST_TIMES = 4.0  # or so many times the take's own
FEW = 3  # markers that a frame must show

OK, REPAIRED, FAILED, BLIND = 0, 1, 2, 3  # what became of a frame
STATUS_NAMES = ("ok", "repaired", "failed", "blind")

WALK = Pace(most=8, gain=1e-4, damping=1e-2, keep=0.5, pull=PULL, jump=8.0, swerve=SWERVE)
SETTLE = Pace(most=150, gain=1e-6, damping=1e-1, own=True, pull=PULL)


@dataclass(frozen=True, eq=False)
class Report:
    """What happened in a take; print it, or write it with `report.save("report.html")`.

    frames, seconds; mean, median, p95 and worst marker error [m]; marker_errors {marker: mean [m]}; statuses (T,) of
    STATUS_NAMES; outliers [(marker, first frame, end)], gaps likewise; unmatched: markers without a site;
    limits {degree of freedom: part of the frames at its limit}; stopped: whether the take was cut short.
    """

    take: Any = field(repr=False)
    seconds: float
    marker_errors: Mapping[str, float]
    statuses: np.ndarray = field(repr=False)
    outliers: tuple[tuple[str, int, int], ...]
    gaps: tuple[tuple[str, int, int], ...]
    unmatched: tuple[str, ...]
    limits: Mapping[str, float]
    stopped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return len(self.statuses)

    @property
    def mean(self) -> float:
        """Mean marker error [m] of what was seen and believed."""
        return float(np.nanmean(self.take.errors)) if np.isfinite(self.take.errors).any() else float("nan")

    def count(self, status: int) -> int:
        """Return how many frames have a status."""
        return int((self.statuses == status).sum())

    def worst_frames(self, count: int = 5) -> list[int]:
        """Return the frames of the largest mean error, worst first, no two within a tenth of a second."""
        errors = frame_errors(self.take.errors)
        apart = max(1, int(0.1 * self.take.motion.fps))
        out: list[int] = []
        for frame in np.argsort(-np.nan_to_num(errors, nan=-1.0)):
            if all(abs(int(frame) - other) >= apart for other in out):
                out.append(int(frame))
            if len(out) == count:
                break
        return out

    def __str__(self) -> str:
        errors = self.take.errors[np.isfinite(self.take.errors)]
        spread = (
            f"median {np.median(errors) * 1e3:.1f}, 95% {np.quantile(errors, 0.95) * 1e3:.1f}, worst {errors.max() * 1e3:.0f} mm"
            if errors.size
            else ""
        )
        rate = self.frames / max(self.seconds, 1e-9)
        counts = ", ".join(f"{self.count(i)} {name}" for i, name in enumerate(STATUS_NAMES) if self.count(i))
        worst = sorted(self.marker_errors.items(), key=lambda item: -np.nan_to_num(item[1]))[:4]
        lines = [
            f"{self.frames} frames in {self.seconds:.2f} s ({rate:.0f} a second){', stopped early' if self.stopped else ''}: {counts}",
            f"  marker error: mean {self.mean * 1e3:.1f} mm, {spread}",
            "  worst markers: " + ", ".join(f"{name} {error * 1e3:.1f} mm" for name, error in worst),
        ]
        if self.outliers:
            frames = sum(end - start for _, start, end in self.outliers)
            lines.append(
                f"  out of place and left out: {frames} marker frames, {', '.join(sorted({o[0] for o in self.outliers}))}"
            )
        if self.gaps:
            lines.append(
                f"  gaps: {len(self.gaps)}, the longest {max(end - start for _, start, end in self.gaps)} frames"
            )
        if self.unmatched:
            lines.append(f"  no site for: {', '.join(self.unmatched)}")
        touched = sorted(((share, name) for name, share in self.limits.items() if share > 0.05), reverse=True)[:5]
        if touched:
            lines.append("  at their limits: " + ", ".join(f"{name} {share:.0%}" for share, name in touched))
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def save(self, path: Any) -> None:
        """Write the report as one HTML file that needs no other."""
        from posable.tracking.reporting import take_page

        take_page(self.take, path)


@dataclass(frozen=True, eq=False)
class Take:
    """A tracked take: motion, errors (T, M) [m] (NaN where a marker was not seen or not believed), report."""

    motion: Motion
    errors: np.ndarray
    markers: Markers = field(repr=False)
    names: tuple[str, ...]
    report: Report = field(init=False)

    def __repr__(self) -> str:
        return f"<Take of {self.motion!r}>"


def frame_errors(errors: np.ndarray) -> np.ndarray:
    """Return the mean error (T,) [m] of each frame from errors (T, M); NaN where nothing was seen."""
    seen = np.isfinite(errors)
    count = seen.sum(axis=1)
    total = np.where(seen, errors, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def track(
    actor: Skeleton,
    markers: Markers,
    *,
    smooth: float = 0.0,
    solver: str = "newton",
    limits: bool = True,
    start: Any = None,
    robust: float | None = ROBUST,
    threads: int | None = None,
    progress: Progress = None,
    stop: Stop = None,
) -> Take:
    """Return the motion of an actor (`calibrate`) under markers: take.motion, take.errors (T, M), take.report.

    Markers are matched to the actor's sites by name; unseen ones do not pull, and those that are out of place (robust
    scale) are listed and left out. A frame that fails is solved again from its neighbours and from known poses, or
    marked; the take goes on. smooth [s]: then smooth the whole take, see `smooth`. solver: any; "newton" walks in
    compiled code. robust [m]: error beyond which a marker pulls no harder, None: none. start: the first pose.
    threads: None for all cores; the result is the same for any. progress: True for a bar, or progress(done, total).
    stop(): asked between pieces; what was done is kept.
    """
    begin = time.perf_counter()
    source = _Source(actor, markers)
    if solver == "newton":
        poses, errors, statuses = _walk_take(actor, source, limits, start, robust, threads, progress, stop)
    else:
        poses, errors, statuses = _step_take(actor, source, solver, limits, start, stop)
    if len(poses) < len(markers):
        markers = Markers(markers.names, markers.positions[: len(poses)], markers.fps, markers.up, markers.unit)
    stopped = len(poses) < source.total
    take = Take(Motion(actor, poses, markers.fps, actor.name), errors, markers, tuple(source.sites))
    if smooth > 0.0 and len(poses) > 2:
        from posable.tracking.smoothing import smooth_take

        take, notes = smooth_take(
            take, source, smooth, limits=limits, robust=robust, threads=threads, progress=progress
        )
    else:
        notes = ()
    object.__setattr__(take, "report", _report(take, source, statuses, time.perf_counter() - begin, stopped, notes))
    return take


class _Source:
    """The markers of a take in the actor's axes, read piece by piece: the whole is never copied."""

    def __init__(self, actor: Skeleton, markers: Markers):
        self.markers = markers
        self.total = len(markers)
        wanted = {base_name(name): i for i, name in reversed(list(enumerate(markers.names)))}
        self.sites = [site for site in actor.site_names if site in wanted]
        self.columns = [wanted[site] for site in self.sites]
        self.unmatched = tuple(name for i, name in enumerate(markers.names) if i not in set(self.columns))
        if not self.sites:
            raise PosableError(
                f"track: expected sites named like the markers ({', '.join(markers.names[:6])}, ...); "
                f"got {', '.join(actor.site_names[:6]) or 'none'}; calibrate(skeleton, markers) makes them"
            )
        self.turn = turn_up(markers.up, actor.up)

    def read(self, start: int, end: int) -> np.ndarray:
        """Return the places (end - start, M, 3) [m] of frames in the actor's axes; NaN where unseen."""
        out = self.markers.positions[start:end, self.columns]
        return out if self.turn is None else out @ self.turn.T


# --------------------------------------------------------------------------------------------------- the compiled walk


def _walk_take(actor, source, limits, start, robust, threads, progress, stop):
    walker = marker_walker(actor, source.sites, limits=limits, robust=robust)
    parts = pieces(source.total, PIECE, LEAD)
    bank = _known_poses(actor, start)

    def work(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first, _, end = parts[i]
        return _Piece(actor, walker, source.read(first, end), source.sites).solve(
            bank, None if start is None or i else start
        )

    done = run_pieces(
        work, [end - begin for _, begin, end in parts], threads=threads, progress=progress, stop=stop, what="tracking"
    )
    return _join(actor, walker, source, parts, done)


def _known_poses(actor: Skeleton, start: Any) -> np.ndarray:
    """Return poses (B, n) from which a figure can be caught anywhere in a take: given, from the calibration, at rest."""
    known = [] if start is None else [np.asarray(start, dtype=float).reshape(1, -1)]
    if "calibration_poses" in actor.info:
        known.append(np.asarray(actor.info["calibration_poses"], dtype=float))
    known = [poses for poses in known if poses.shape[1] == actor.size]
    return np.clip(np.vstack([*known, actor.rest]), actor.lower, actor.upper)


class _Piece:
    """One piece of a take: walked, cleaned of outliers, bridged over gaps, repaired."""

    def __init__(self, actor: Skeleton, walker: Walker, places: np.ndarray, sites: list[str]):
        self.actor, self.walker, self.sites = actor, walker, sites
        self.places = places.copy()
        self.poses = np.empty((len(places), actor.size))

    def solve(self, bank: np.ndarray, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return poses (t, n), errors (t, M) and statuses (t,)."""
        first = self.catch(0, bank) if start is None else np.asarray(start, dtype=float)
        statuses = np.zeros(len(self.poses), dtype=np.int8)
        errors, notes = self.walker(WALK, self.poses, targets=self.places, last=first)
        limit = thresholds(errors)
        wrong = errors > limit
        if wrong.any():
            self.places[wrong] = np.nan
            errors, notes = self.walker(WALK, self.poses, targets=self.places, last=first)
        bad = self._failed(errors)
        if bad.any():
            errors = self._repair(errors, notes, bad, bank, statuses)
        if self._bridge_gaps():
            errors = self.measure()
        statuses[np.isfinite(errors).sum(axis=1) < FEW] = BLIND
        return self.poses, errors, statuses

    def measure(self) -> np.ndarray:
        """Return the errors (t, M) [m] of the poses as they are."""
        frames = forward(self.actor, self.poses)
        model = np.stack([frames.position(site) for site in self.sites], axis=1)
        return np.linalg.norm(model - self.places, axis=-1)

    def catch(self, frame: int, bank: np.ndarray) -> np.ndarray:
        """Return the pose (n,) at a frame, found without any neighbour: from the known poses, moved to the markers."""
        targets = self.places[frame]
        seen = np.isfinite(targets).all(axis=-1)
        if seen.sum() < FEW:  # nothing to hold on to: take the first frame that shows enough
            enough = np.flatnonzero(np.isfinite(self.places).all(axis=-1).sum(axis=1) >= FEW)
            if not len(enough) or frame == enough[0]:
                return bank[0].copy()
            return self.catch(int(enough[0]), bank)
        frames = forward(self.actor, bank)
        models = np.stack([frames.position(site) for site in self.sites], axis=1)
        starts, misses = [], []
        for pose, model in zip(bank, models, strict=True):
            r, t = best_turn(model, targets)
            starts.append((pose, r, t))
            misses.append(np.nansum(np.square(model @ r.T + t - targets)))
        best: tuple[float, np.ndarray] = (np.inf, bank[0])
        for k in np.argsort(misses)[:3]:
            pose = np.clip(move_figure(self.actor, *starts[k]), self.walker.lower, self.walker.upper)[None].copy()
            self.walker.home = pose[0].copy()
            _, notes = self.walker(SETTLE, pose, targets=targets[None])
            if notes[0, walking.ENERGY] < best[0]:
                best = (float(notes[0, walking.ENERGY]), pose[0])
        return best[1]

    def _failed(self, errors: np.ndarray) -> np.ndarray:
        mean = frame_errors(errors)
        if not np.isfinite(mean).any():
            return np.zeros(len(mean), dtype=bool)
        return np.nan_to_num(mean, nan=0.0) > max(LOST, LOST_TIMES * float(np.nanmedian(mean)))

    def _repair(self, errors, notes, bad, bank, statuses) -> np.ndarray:
        """Solve failed runs again: caught anew and walked forwards, and walked backwards from the frame after them."""
        for a, b in runs(bad):
            options = [self._again(a, b, self.catch(a, bank))]
            if b < len(self.poses):
                options.append(self._again(a, b, self.poses[b], backwards=True))
            energies = np.array([notes[a:b, walking.ENERGY], *(energy for _, _, energy in options)])
            best = np.argmin(energies, axis=0)
            for k, (poses, found, _) in enumerate(options, start=1):
                rows = np.flatnonzero(best == k)
                self.poses[a + rows], errors[a + rows] = poses[rows], found[rows]
                statuses[a + rows] = REPAIRED
        still = self._failed(errors)
        statuses[still] = FAILED
        return errors

    def _again(self, a: int, b: int, start: np.ndarray, *, backwards: bool = False):
        step = -1 if backwards else 1
        poses = np.empty((b - a, self.actor.size))
        errors, notes = self.walker(WALK, poses, targets=self.places[a:b][::step], last=start)
        return poses[::step], errors[::step], notes[::step, walking.ENERGY]

    def _bridge_gaps(self) -> bool:
        """Cross long gaps from both sides; return whether there were any."""
        missing = ~np.isfinite(self.places).all(axis=-1)
        total = len(self.poses)
        gaps: list[tuple[int, int, np.ndarray]] = []
        for m in np.flatnonzero(missing.any(axis=0)):
            body = int(self.actor.frame_bodies[self.actor.frame(self.sites[m])])
            dofs = np.array(sorted(path_of(self.actor, body)), dtype=int)
            gaps += [(a, b, dofs) for a, b in runs(missing[:, m]) if b - a >= LONG and a > 0 and b < total]
        if not gaps:
            return False
        back = self.poses.copy()
        spans = np.zeros(total, dtype=bool)
        for a, b, _ in gaps:
            spans[a:b] = True
        for a, b in runs(spans):
            back[a:b], _, _ = self._again(a, b, self.poses[b] if b < total else self.poses[-1], backwards=True)
        bridge(self.poses, back, gaps)
        np.clip(self.poses, self.walker.lower, self.walker.upper, out=self.poses)
        return True


# --------------------------------------------------------------------------------------------------------------- joins


def _join(actor: Skeleton, walker: Walker, source: _Source, parts, done) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put pieces together: angles on one branch, a piece that came out elsewhere walked again, overlaps blended."""
    total = parts[len(done) - 1][2] if done else 0
    poses, errors = np.empty((total, actor.size)), np.empty((total, len(source.sites)))
    statuses = np.zeros(total, dtype=np.int8)
    for i, ((first, begin, end), (piece, found, status)) in enumerate(zip(parts, done, strict=False)):
        lead = begin - first
        if i:
            same_branch(actor, poses[begin - 1], piece, lead - 1)
            gap = np.abs(poses[first:begin] - piece[:lead]).max(axis=0)
            if gap[_angles(actor)].max(initial=0.0) > 0.3:
                again = _Piece(actor, walker, source.read(first, end), source.sites)
                other = again.solve(poses[first : first + 1], poses[first])
                if np.nansum(other[1] ** 2) < 1.05 * np.nansum(found**2):
                    piece, found, status = other
                    same_branch(actor, poses[begin - 1], piece, lead - 1)
            weight = blend_weight(lead)[:, None]
            poses[first:begin] += weight * (piece[:lead] - poses[first:begin])
        poses[begin:end], errors[begin:end], statuses[begin:end] = piece[lead:], found[lead:], status[lead:]
        if i:
            measured = _Piece(actor, walker, source.read(first, begin), source.sites)
            measured.poses = poses[first:begin]
            believed = np.isfinite(errors[first:begin])
            errors[first:begin] = np.where(believed, measured.measure(), np.nan)
    return poses, errors, statuses


def _angles(actor: Skeleton) -> np.ndarray:
    return actor.figure.dof[:, 0] != 0 if actor.size else np.zeros(0, dtype=bool)


def same_branch(skeleton: Skeleton, reference: np.ndarray, poses: np.ndarray, row: int) -> None:
    """Shift the angles of poses (t, n), in place, to the numbers nearest to reference (n,) at one row: whole turns, and
    for unlimited Euler angles a, b, c also a + pi, pi - b, c + pi, which mean the same.
    """
    turn = 2.0 * np.pi
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        dofs = joint.motion.dofs
        open_ = np.isinf(skeleton.lower[where]).all() and np.isinf(skeleton.upper[where]).all()
        if not dofs or not open_:
            continue
        axes = [dof.axis for dof in dofs[-3:]]
        if (
            len(dofs) >= 3
            and turns_freely(joint.motion)
            and all(d.kind == TURN for d in dofs[-3:])
            and len(set(axes)) == 3
        ):
            part = slice(where.stop - 3, where.stop)
            here, there = poses[row, part], reference[part]
            mirrored = np.array([here[0] + np.pi, np.pi - here[1], here[2] + np.pi])
            if _turns_apart(mirrored, there) + 1e-6 < _turns_apart(here, there):
                poses[:, part] = poses[:, part] * [1.0, -1.0, 1.0] + np.pi
        for i, dof in zip(range(where.start, where.stop), dofs, strict=True):
            if dof.kind == TURN:
                poses[:, i] += turn * np.round((reference[i] - poses[row, i]) / turn)


def _turns_apart(a: np.ndarray, b: np.ndarray) -> float:
    gap = a - b
    return float(np.linalg.norm(gap - 2.0 * np.pi * np.round(gap / (2.0 * np.pi))))


# -------------------------------------------------------------------------------------------------- any other solver


def _step_take(actor, source, solver, limits, start, stop):
    """Track with a solver that has no compiled walk: frame by frame, each from the last pose."""
    session = Session(actor, [Position(site, (0.0, 0.0, 0.0)) for site in source.sites], solver=solver, limits=limits)
    walker = marker_walker(actor, source.sites, limits=limits)
    poses, errors = np.empty((source.total, actor.size)), np.full((source.total, len(source.sites)), np.nan)
    piece = _Piece(actor, walker, source.read(0, min(64, source.total)), source.sites)
    session.pose = piece.catch(0, _known_poses(actor, start)) if start is None else np.asarray(start, dtype=float)
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


# ---------------------------------------------------------------------------------------------------------- reporting


def _report(take: Take, source: _Source, statuses, seconds: float, stopped: bool, notes) -> Report:
    total = len(take.motion)
    outliers: list[tuple[str, int, int]] = []
    gaps: list[tuple[str, int, int]] = []
    for k, (site, column) in enumerate(zip(source.sites, source.columns, strict=True)):
        seen = np.isfinite(source.markers.positions[:total, column]).all(axis=-1)
        left_out = seen & ~np.isfinite(take.errors[:, k])
        gaps += [(site, a, b) for a, b in runs(~seen)]
        outliers += [(site, a, b) for a, b in runs(left_out)]
    skeleton, poses = take.motion.skeleton, take.motion.poses
    limits: dict[str, float] = {}
    for i, name in enumerate(skeleton.dof_names):
        if skeleton.upper[i] > skeleton.lower[i]:
            at = (poses[:, i] <= skeleton.lower[i] + 1e-6) | (poses[:, i] >= skeleton.upper[i] - 1e-6)
            limits[name] = float(at.mean()) if total else 0.0
    seen = np.isfinite(take.errors)
    sums = np.where(seen, take.errors, 0.0).sum(axis=0)
    means = {site: float(sums[k] / max(1, seen[:, k].sum())) for k, site in enumerate(source.sites)}
    return Report(
        take, seconds, means, statuses, tuple(outliers), tuple(gaps), source.unmatched, limits, stopped, tuple(notes)
    )
