"""A take: its markers as tracking reads them, the result, the report of what happened, and how certain the poses are.

Independent noise of standard deviation s in each marker coordinate gives a pose the covariance s^2 (J'J)^-1, where J is
the Jacobian of the visible markers; a weak prior covers what they do not determine. Limits, smoothness and typical
poses of people are not used: only the information in the markers counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND, OFF, ROBUST
from posable.errors import PosableError
from posable.formats.conventions import turn_up
from posable.goals.point import Position
from posable.mocap.gaps import (
    CHUNK,
    SHOWN,
    UnobservedJoints,
    beside_short,
    column_medians,
    fill_short,
    frame_errors,
    noise_of,
    runs,
    short_gap,
    stretches,
)
from posable.mocap.marker_sets import base_name, is_virtual, listed, place_name
from posable.mocap.recognise import Displaced, mislabelled, mislabelled_note
from posable.mocap.screen import FEW_SAMPLES, screen
from posable.mocap.verdict import (
    Finding,
    findings,
    guessed_joints,
    implausible_size,
    sliding_markers,
    steady_pairs,
    unmarked_parts,
    why_markers_are_off,
)
from posable.model.motion import Markers, Motion, markers_for
from posable.model.skeleton import Skeleton
from posable.problem import Problem

# --- Uncertainty ---

PRIOR = 1.0  # [rad, m]: deviation of an unknown pose; weak, so that J'J need not have full rank
UNKNOWN = 0.25  # [rad, m]: dofs with a larger deviation count as not determined
OFTEN = 0.05  # fraction of the frames above which a dof is listed


# --- The markers of a take in an actor's axes ---


class MarkerSource:
    """The markers of a take in the actor's axes, read in chunks so that a long take is never copied."""

    def __init__(self, actor: Skeleton, markers: Markers):
        self.markers, self.actor = markers_for("track", markers), actor
        self.total = len(markers)
        known = set(actor.site_names)
        names = [name if name in known else base_name(name) for name in markers.names]
        wanted = {name: i for i, name in reversed(list(enumerate(names)))}
        self.sites = [name for name in sorted(wanted, key=wanted.__getitem__) if name in known]  # in the file's order
        self.columns = [wanted[site] for site in self.sites]
        self.unmatched = tuple(name for i, name in enumerate(markers.names) if i not in set(self.columns))
        if not self.sites:
            raise PosableError(
                f"track: expected sites named like the markers ({', '.join(markers.names[:6])}, ...); "
                f"got {', '.join(actor.site_names[:6]) or 'none'}; calibrate(skeleton, markers) makes them"
            )
        self.turn = turn_up(markers.up, actor.up)
        self.screening = screen(markers)
        self.relabelled = self._relabel(actor)
        self.noise = noise_of(self.markers.positions)[self.columns]
        self._look()

    def _look(self) -> None:
        """Determine which markers of the actor are seen, and when."""
        self._kept = self._fill(0, self.total) if self.total <= CHUNK else None  # filled once; longer takes in pieces
        seen = self._seen()
        self.never_seen = tuple(name for k, name in enumerate(self.sites) if not seen[:, k].any())
        self.unobserved = UnobservedJoints(self.actor, self.sites, seen)
        self.edges = self._beside(self.unobserved.holes)
        jumps, fps = self.screening.believed, self.markers.fps
        self.stays = [stretches(seen[:, k], jumps.get(site, ()), fps) for k, site in enumerate(self.sites)]

    def leave_out(self, displaced: Sequence[Displaced]) -> None:
        """Leave markers out while they are displaced on their bones."""
        given = self.screening.columns
        columns = np.broadcast_to(np.arange(len(self.markers.names), dtype=np.int16), self.markers.positions.shape[:2])
        columns = np.array(columns if given is None else given)
        for marker, start, end, _ in displaced:
            columns[start:end, self.columns[self.sites.index(marker)]] = -1
        words = tuple(str(stretch) for stretch in displaced)
        self.screening = replace(self.screening, columns=columns, unseen=(*self.screening.unseen, *words))
        self._look()

    def _relabel(self, actor: Skeleton) -> tuple[str, ...]:
        """Give labels to the markers that they evidently belong to; return the finding."""
        rows = np.unique(np.linspace(0, max(self.total - 1, 0), min(FEW_SAMPLES, self.total)).astype(int))
        tracks = self.screening.pick(self.markers.positions, rows)[:, self.columns]
        wrong = mislabelled(actor, self.sites, tracks) if len(rows) else []
        columns = list(self.columns)
        for marker, other in wrong:
            self.columns[other] = columns[marker]
        return (mislabelled_note(self.sites, wrong),) if wrong else ()

    def _seen(self) -> np.ndarray:
        """Return (T, M) bool: where the actor's markers are seen."""
        out = np.empty((self.total, len(self.sites)), dtype=bool)
        for start in range(0, self.total, CHUNK):
            end = min(start + CHUNK, self.total)
            out[start:end] = np.isfinite(self.bridged(start, end)[0][..., 0])
        return out

    def _beside(self, holes: np.ndarray) -> np.ndarray:
        """Return the places (H, 2, 3) [m] just before and after holes (H, 3): marker, first frame, end."""
        out = np.empty((len(holes), 2, 3))
        for side, rows in enumerate((holes[:, 1] - 1, holes[:, 2])):
            for start in range(0, len(holes), CHUNK):
                part = slice(start, start + CHUNK)
                picked = self.at(rows[part])
                out[part, side] = picked[np.arange(len(picked)), holes[part, 0]]
        return out

    def filled(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places (end - start, M, 3) [m] without gaps that are short or in which no marker holds a joint, and
        where they were filled (end - start, M).
        """
        places, filled = self.bridged(start, end)
        filled |= self.unobserved.fill(places, start, self.edges)
        return places, filled

    def bridged(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places (end - start, M, 3) [m] of frames with short gaps filled, and where (end - start, M)."""
        if self._kept is None:
            return self._fill(start, end)
        places, filled = self._kept
        return places[start:end].copy(), filled[start:end].copy()

    def _fill(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what `bridged` does, from the markers around the frames."""
        most = short_gap(self.markers.fps)
        around = most + beside_short(most)
        before, after = max(0, start - around), min(self.total, end + around)
        places = np.array(self.read(before, after))
        filled = fill_short(places, most, self.noise)
        part = slice(start - before, end - before)
        return places[part], filled[part]

    def read(self, start: int, end: int) -> np.ndarray:
        """Return the places (end - start, M, 3) [m] of frames in the actor's axes; NaN where unseen."""
        return self._turned(self.screening.read(self.markers.positions, start, end)[:, self.columns])

    def at(self, frames: np.ndarray) -> np.ndarray:
        """Return the places (F, M, 3) [m] of some frames, as `read` does."""
        return self._turned(self.screening.pick(self.markers.positions, frames)[:, self.columns])

    def _turned(self, places: np.ndarray) -> np.ndarray:
        """Return places (t, M, 3) of the file in the actor's axes."""
        return places if self.turn is None else places @ self.turn.T


# --- The result of tracking ---


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The standard deviation of the poses of a take, from the noise of its markers.

    Attributes:
        noise: [m] Deviation of a marker's coordinate; estimated from the take's own residuals.
        deviation: (T, n) [rad, m] Standard deviation of each degree of freedom; infinite where the markers do not
            determine it; NaN in frames without markers.
        frames: (T,) The frames of the take that they belong to.
    """

    skeleton: Skeleton = field(repr=False)
    noise: float
    deviation: np.ndarray = field(repr=False)
    frames: np.ndarray = field(repr=False)
    _normal: np.ndarray = field(repr=False)  # (T, n, n), J'J of each frame

    def covariance(self, frame: int) -> np.ndarray:
        """Return the covariance (n, n) of the pose in row `frame`; that of the prior where no marker determines it."""
        return covariances(self._normal[frame], self.noise)

    @property
    def undetermined(self) -> dict[str, float]:
        """The degrees of freedom that the markers do not determine, and in what fraction of the frames."""
        share = np.isinf(self.deviation).mean(axis=0) if len(self.deviation) else np.zeros(self.skeleton.size)
        return {name: float(x) for name, x in zip(self.skeleton.dof_names, share, strict=True) if x > OFTEN}

    def __str__(self) -> str:
        lines = [f"marker noise {1e3 * self.noise:.1f} mm"]
        if self.undetermined:
            told = sorted(self.undetermined.items(), key=lambda item: -item[1])
            names = ", ".join(name if part > 0.995 else f"{name} ({part:.0%})" for name, part in told[:8])
            more = f" and {len(told) - 8} more" if len(told) > 8 else ""
            lines.append(f"not determined by the markers: {names}{more}")
        known = np.where(np.isfinite(self.deviation), self.deviation, np.nan)
        seen = np.isfinite(known).any(axis=0)
        slides = self.skeleton.figure.dof[:, KIND] == SLIDE
        means = {i: float(np.nanmedian(known[:, i])) for i in np.flatnonzero(seen & ~slides).tolist()}
        worst = sorted(means.items(), key=lambda item: -item[1])[:3]
        if worst:
            told = ", ".join(f"{self.skeleton.dof_names[i]} ±{np.degrees(x):.1f}°" for i, x in worst)
            lines.append(f"least certain: {told}")
        return "; ".join(lines)


def covariances(normals: np.ndarray, noise: float) -> np.ndarray:
    """Return the covariances (..., n, n) of poses from J'J (..., n, n) and the markers' noise [m]."""
    return np.linalg.inv(normals / max(noise, 1e-9) ** 2 + np.eye(normals.shape[-1]) / PRIOR**2)


def uncertainty_of(
    motion: Motion, sites: Sequence[str], errors: np.ndarray, *, noise: float | None = None, most: int | None = None
) -> Uncertainty:
    """Return the uncertainty of the poses of a take.

    Args:
        motion: The take's motion.
        sites: The sites (M,) that its markers are on.
        errors: (T, M) [m], NaN where a marker was not seen or rejected.
        noise: [m] Of a marker's coordinate; by default estimated from the errors.
        most: Use at most this many frames, evenly spread.

    Returns:
        The uncertainty.
    """
    skeleton, seen = motion.skeleton, np.isfinite(errors)
    total, n = len(motion.poses), skeleton.size
    if noise is None:
        spare = max(3 * int(seen.sum()) - total * n, int(seen.sum()), 1)
        noise = float(np.sqrt((np.where(seen, errors, 0.0) ** 2).sum() / spare))
    chosen = np.arange(total)
    if most is not None and total > most:
        chosen = np.unique(np.linspace(0, total - 1, most).round().astype(int))
    problem = Problem(skeleton, [Position(site, (0.0, 0.0, 0.0), label=str(k)) for k, site in enumerate(sites)])
    problem.constants = problem.constants.copy()
    normals = np.zeros((len(chosen), n, n))
    for row, frame in enumerate(chosen):
        problem.constants[0, :, ROBUST] = np.where(seen[frame], 0.0, OFF)
        normals[row] = problem.evaluate(motion.poses[frame], exact=False)[2]
    still = skeleton.frozen | (skeleton.lower >= skeleton.upper)
    normals[:, still, :] = normals[:, :, still] = 0.0
    spread = np.sqrt(np.diagonal(covariances(normals, noise), axis1=1, axis2=2))
    deviation = np.where(spread > UNKNOWN, np.inf, spread)
    deviation[:, still] = 0.0
    deviation[~seen[chosen].any(axis=1)] = np.nan
    return Uncertainty(skeleton, float(noise), deviation, chosen, normals)


# --- Take and report ---

OK, REPAIRED, FAILED, BLIND = 0, 1, 2, 3  # status of a frame
MEASURED = 400  # frames from which the usual distance of two markers is measured
LOOKED_AT = 40  # frames in which the report evaluates how well the markers determine the pose
STATUS_NAMES = ("ok", "repaired", "failed", "blind")


@dataclass(frozen=True, eq=False)
class Report:
    """The report of a tracked take; print it, or write it with `report.save("report.html")`.

    Attributes:
        seconds: time that tracking took.
        marker_errors: {marker: mean error [m]}.
        statuses: (T,) status of each frame, an index of `STATUS_NAMES`.
        outliers: (marker, first frame, end) of samples that were left out.
        gaps: (marker, first frame, end) of markers that were not seen.
        unmatched: markers without a site on the actor.
        limits: {degree of freedom: part of the frames at its limit}.
        stopped: whether the take was cut short.
        repairs: what was wrong with the markers and was repaired or left out.
        notes: what was assumed.
        findings: reasons to check the take; `verdict` lists them in one line, `ok` is true if there are none.
        unmarked: parts of the body without any marker, which are not tracked.
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
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    unmarked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the take is plausible: every frame is solved, and actor and motion are plausible."""
        return not self.findings and not self.stopped

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        missing = f"no markers on {', '.join(self.unmarked)}: not tracked" if self.unmarked else ""
        unread = [name for name in self.unmatched if not name.startswith("*") and not is_virtual(name)]
        if missing and unread:
            missing += f" (no bone found for {_some(unread)}: attachments=, --attach MARKER=JOINT)"
        if not self.findings:
            outcome = "plausible after repairs" if self.repairs else "plausible"
            return f"{outcome}; {missing}" if missing else outcome
        reasons = [*(finding.text for finding in self.findings), *([missing] if missing else [])]
        return f"check this take: {'; '.join(reasons)}"

    @property
    def frames_to_check(self) -> tuple[tuple[int, int], ...]:
        """(first frame, end) of every stretch that a finding is about."""
        return tuple(sorted({span for finding in self.findings for span in finding.frames}))

    @property
    def status_names(self) -> tuple[str, ...]:
        """Names of the values in `statuses`."""
        return STATUS_NAMES

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.statuses)

    @property
    def mean(self) -> float:
        """Mean marker error [m] of the samples that were seen and used."""
        return float(np.nanmean(self.take.errors)) if np.isfinite(self.take.errors).any() else float("nan")

    def count(self, status: int) -> int:
        """Return the number of frames with a status."""
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
            f"median {np.median(errors) * 1e3:.1f}, 95% {np.quantile(errors, 0.95) * 1e3:.1f}, "
            f"worst {errors.max() * 1e3:.0f} mm"
            if errors.size
            else ""
        )
        rate = self.frames / max(self.seconds, 1e-9)
        counts = ", ".join(f"{self.count(i)} {name}" for i, name in enumerate(STATUS_NAMES) if self.count(i))
        worst = sorted(self.marker_errors.items(), key=lambda item: -np.nan_to_num(item[1]))[:4]
        lines = [
            self.verdict,
            *([f"  repaired: {'; '.join(self.repairs)}"] if self.repairs else []),
            f"{self.frames} frames in {self.seconds:.2f} s ({rate:.0f} frames/s)"
            f"{', stopped early' if self.stopped else ''}: {counts}",
            f"  marker error: mean {self.mean * 1e3:.1f} mm, {spread}",
            "  worst markers: " + ", ".join(f"{name} {error * 1e3:.1f} mm" for name, error in worst),
        ]
        if self.gaps:
            lines.append(
                f"  gaps: {len(self.gaps)}, the longest {max(end - start for _, start, end in self.gaps)} frames"
            )
        if self.unmatched:
            lines.append(f"  no site for: {listed(self.unmatched)}")
        touched = sorted(((share, name) for name, share in self.limits.items() if share > 0.05), reverse=True)[:5]
        if touched:
            lines.append(
                "  at a joint limit, fraction of frames: " + ", ".join(f"{name} {share:.0%}" for share, name in touched)
            )
        lines += [f"  {line}" for line in why_markers_are_off(self.take.motion, self.take.names, self.take.errors)]
        lines.append(f"  {self.certainty()}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def certainty(self) -> str:
        """Return how well the markers determine the pose, in one line, from frames spread over the take."""
        take = self.take
        if not np.isfinite(take.errors).any():
            return "no marker was seen"
        return str(uncertainty_of(take.motion, take.names, take.errors, most=LOOKED_AT))

    def save(self, path: Any, *, title: str = "") -> None:
        """Write the report as a self-contained HTML file, with a title; by default the name of the motion."""
        from posable.mocap.report import take_page

        source = MarkerSource(self.take.motion.skeleton, self.take.markers)
        take_page(self.take, source.sites, source.read, path, title)


@dataclass(frozen=True, eq=False)
class Take:
    """A tracked take: motion, errors (T, M) [m] (NaN where a marker was not seen or rejected), report."""

    motion: Motion
    errors: np.ndarray
    markers: Markers = field(repr=False)
    names: tuple[str, ...]
    report: Report = field(init=False)

    def __repr__(self) -> str:
        return f"<Take of {self.motion!r}>"

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Uncertainty of each degree of freedom in each frame, from the noise of the markers."""
        return uncertainty_of(self.motion, self.names, self.errors)


def report_of(take: Take, source: MarkerSource, statuses, seconds: float, stopped: bool, notes) -> Report:
    """Return what happened in a take."""
    total = len(take.motion)
    outliers: list[tuple[str, int, int]] = []
    gaps: list[tuple[str, int, int]] = []
    for k, (site, column) in enumerate(zip(source.sites, source.columns, strict=True)):
        seen: np.ndarray = np.asarray(np.isfinite(source.markers.positions[:total, column]).all(axis=-1))
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
    screening = source.screening
    repairs = (*source.relabelled, *screening.notes, *_left_out(source, outliers, statuses))
    guessed = guessed_joints(source.unobserved.joints, statuses == BLIND, take.motion.fps)
    found = findings(take, statuses, FAILED, BLIND)
    if source.never_seen:
        never = _some(source.never_seen)
        found.append(Finding(f"no sample of {never} in the file: joints there may be off by centimetres"))
    if not implausible_size(take):  # a wrong unit explains everything else
        doubts = [Finding(text) for text in screening.doubts]
        found = [*doubts, *found, *_unused(take, source), *_sliding(take, source)]
    return Report(
        take,
        seconds,
        means,
        statuses,
        tuple(outliers),
        tuple(gaps),
        source.unmatched,
        limits,
        stopped,
        repairs,
        tuple(notes),
        (*found, *guessed),
        unmarked_parts(skeleton, source.sites),
    )


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _sliding(take: Take, source: MarkerSource) -> list[Finding]:
    """Return findings on markers that should keep their distance, and do not."""
    total = len(take.errors)
    pairs = steady_pairs(take.motion.skeleton, source.sites)
    if not pairs or not total:
        return []
    first, second = np.array(list(pairs)).T
    gaps = np.empty((total, len(pairs)), dtype=np.float32)
    for start in range(0, total, CHUNK):
        places = source.read(start, min(start + CHUNK, total))
        gaps[start : start + CHUNK] = np.linalg.norm(places[:, first] - places[:, second], axis=-1)
    believed = np.isfinite(take.errors)
    gaps[~(believed[:, first] & believed[:, second])] = np.nan
    rows = np.unique(np.linspace(0, total - 1, min(MEASURED, total)).astype(int))
    some = np.isfinite(gaps[rows]).any(axis=0)
    usual = np.full(len(pairs), np.nan, dtype=np.float32)
    usual[some] = column_medians(gaps[rows][:, some])
    names = [(source.sites[a], source.sites[b]) for a, b in pairs]
    return sliding_markers(names, gaps - usual, np.array(list(pairs.values())), take.motion.fps)


def _unused(take: Take, source: MarkerSource) -> list[Finding]:
    """Return the finding on markers with a known place that the calibration left out of the actor."""
    calibration = take.motion.skeleton.info.get("calibration")
    left_out = calibration.left_out if calibration is not None else ()
    names = [base_name(name) for name in source.unmatched]
    names = [name for name in dict.fromkeys(names) if name in left_out and place_name(name)]
    if not names:
        return []
    return [
        Finding(f"out of place throughout and not used: {', '.join(names)}; joints there may be off: check the labels")
    ]


def _left_out(source: MarkerSource, outliers: list[tuple[str, int, int]], statuses: np.ndarray) -> list[str]:
    """Return findings on markers that passed the screening but do not fit the figure, and on repaired frames."""
    frames: dict[str, int] = {}
    for site, a, b in outliers:
        k = source.sites.index(site)
        count = int(np.isfinite(source.read(a, b)[:, k, 0]).sum())
        if count:
            frames[site] = frames.get(site, 0) + count
    most = sorted(frames.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} in {count} frames" for name, count in most[:SHOWN])
    more = f" and {len(most) - SHOWN} more markers" if len(most) > SHOWN else ""
    again = int((statuses == REPAIRED).sum())
    return [f"outliers ignored: {shown}{more}"] * bool(most) + [f"{again} frames solved again"] * bool(again)
