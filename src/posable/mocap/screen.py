"""The markers of a take as tracking reads them: screened for wrong labels, in the actor's axes, in chunks.

Screening finds samples that no camera saw, jumps, labels that trade places, and left and right exchanged, without
knowing the figure. A marker moves smoothly; where its label jumps, it is either noise or another marker, whose label
jumps in the same frame. The rest is left to the robust fit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.ndimage import median_filter
from scipy.optimize import linear_sum_assignment

from posable.errors import PosableError
from posable.formats.conventions import turn_up
from posable.mocap.gaps import BESIDE, UnobservedJoints, column_medians, fill_short, noise_of, runs, short_gap
from posable.mocap.gaps import CHUNK as READ_CHUNK
from posable.mocap.marker_sets import base_name, is_virtual, placement_of
from posable.mocap.recognise import (
    LIMB_ROOTS,
    BodyAxes,
    exchanged_sides,
    mislabelled,
    pairs_on_feet,
    sided_pairs,
    words_of_mislabelled,
)
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton

# --- Samples that no camera saw ---

STRAIGHT = 2e-6  # [m]: what single precision leaves of the second difference of a straight line
LASTING = 0.06  # [s]: shorter straight stretches do no harm
MOVES = 0.01  # [m] by which a marker's distances to its neighbours change while it is stuck
NEIGHBOURS = 3
LIVE = 0.1  # part of the take in which a marker that is stuck elsewhere moves as markers do
SAME = 1e-5  # [m]: labels nearer than this are one marker
THROUGHOUT = 0.9  # part of the frames in which two labels are one marker for the whole take
SAMPLES = 400  # frames from which usual distances are taken, and which tell left from right
CHUNK = 1 << 14  # frames


class Unseen(NamedTuple):
    """Samples that are treated as gaps.

    Attributes:
        mask: (T, M) bool, or None where every sample was seen.
        stuck: {column: number of its samples on straight lines or at the origin}.
        twins: (column left out, column in whose place it is, number of frames).
        one: (column, other column) of labels that are on one marker in the whole take.
    """

    mask: np.ndarray | None
    stuck: dict[int, int]
    twins: tuple[tuple[int, int, int], ...]
    one: tuple[tuple[int, int], ...]

    def notes(self, names: list[str]) -> list[str]:
        """Return what was left out, one line for each kind of finding."""
        out = []
        if self.stuck:
            shown = ", ".join(f"{names[k]} in {n} frames" for k, n in sorted(self.stuck.items(), key=lambda i: -i[1]))
            out.append(f"at the origin, frozen, or filled by a straight line, and left out there: {shown}")
        if self.twins:
            shown = ", ".join(f"{names[a]} is in the place of {names[b]} in {n} frames" for a, b, n in self.twins)
            out.append(f"two labels on one marker: {shown}; left out there")
        return out

    def doubts(self, names: list[str]) -> list[str]:
        """Return what could not be mended: whose place it is cannot be told, so that both stay."""
        shown = ", ".join(f"{names[a]} and {names[b]}" for a, b in self.one)
        return [f"{shown} are one marker in the file: check the labels"] if self.one else []


def find_unseen(positions: np.ndarray, names: list[str], fps: float) -> Unseen:
    """Return the samples of positions (T, M, 3) [m] that no camera saw."""
    total, count = positions.shape[:2]
    if not total or not count:
        return Unseen(None, {}, (), ())
    mask = np.zeros((total, count), dtype=bool)
    straight = np.zeros((total, count), dtype=bool)
    for start in range(0, total, CHUNK):
        end = min(start + CHUNK, total)
        mask[start:end] = ~positions[start:end].any(axis=-1)
        part = positions[max(0, start - 1) : end + 1]
        if len(part) > 2:
            bend = np.abs(part[2:] - 2.0 * part[1:-1] + part[:-2]).max(axis=-1)
            straight[max(start, 1) : max(start, 1) + len(bend)] = bend < STRAIGHT
    near = _Neighbours(positions)
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
    return Unseen(mask if mask.any() else None, stuck, tuple(twin for twin in twins if twin[2]), one)


class _Neighbours:
    """The markers that are near each marker, and their usual distances, from frames spread over the take."""

    def __init__(self, positions: np.ndarray):
        self.positions = positions
        rows = np.unique(np.linspace(0, len(positions) - 1, min(SAMPLES, len(positions))).astype(int))
        self.sample = positions[rows]
        self.known: dict[int, tuple[np.ndarray, np.ndarray]] = {}

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

    def off(self, k: int, rows: np.ndarray) -> float:
        """Return how far a marker is from its usual distances to its neighbours in some frames [m]: the median."""
        columns, usual = self.of(k)
        gaps = np.linalg.norm(self.positions[rows][:, columns] - self.positions[rows, k][:, None], axis=-1)
        misses = np.abs(gaps - usual)
        return float(np.nanmedian(misses)) if np.isfinite(misses).any() else np.inf


def _twins(positions: np.ndarray, names: list[str], near: _Neighbours, mask: np.ndarray) -> list[tuple[int, int, int]]:
    """Mark labels that are in the place of another, the one that is out of its own; return them, those and frames.

    Two labels that are always in one place stay, with a count of 0.
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
        if names[a].startswith("*") != names[b].startswith("*"):  # what has no label is not used anyhow
            continue
        if len(rows) > THROUGHOUT * both:
            out.append((b, a, 0))
            continue
        wrong = a if near.off(a, rows) > near.off(b, rows) else b
        mask[rows, wrong] = True
        out.append((wrong, a + b - wrong, len(rows)))
    return out


# --- Screening ---

JUMP = 0.03  # [m]: a step this much longer than its neighbours is a jump,
NOISE = 9.0  # if it is also so many standard deviations of the marker's noise
NOISY = 0.003  # [m] standard deviation of the markers' noise that is worth a word
ACCELERATION = 100.0  # [m/s^2] that a marker may have beside it
NEAR = 0.15  # [m]: labels usually nearer than this trade places by less than a jump
SPEED = 4.0  # [m/s]: how fast a marker may move while it is not seen
FORGET = 0.5  # [s]: after a longer gap a marker may be anywhere
TRUST = 0.1  # [s]: a label that stays where it jumped for this long is believed again
WINDOW = 9  # frames around a step that say how long steps are there
UNSTEADY = 0.5  # part of its speed by which a marker may change it between frames
SHORT = 3  # frames: a label that jumps within so many of the start was wrong before
REVERSED = -0.5  # cosine of the turn from frame to frame by which two labels evidently trade places
FOREIGN = 3  # frames for which a marker may be without a label and still be found under another
OWN = 0.3  # of a jump: bonus for a marker that keeps its label
FEW_SAMPLES = 100  # frames that tell whether labels are an actor's
SHOWN = 4  # markers or labels named in a note
LONG_SWAP = 0.1  # part of the frames for which labels are swapped, above which either part may be the right one


@dataclass(frozen=True, eq=False)
class Screening:
    """What was found in the labels of a take.

    Attributes:
        columns: (T, M) column of the file that carries each marker in each frame, -1 where none does; None where
            every label is right.
        jumps: {marker: samples that were removed}.
        swaps: (marker, label that carries it, first frame, end) of labels that were exchanged back; of two that trade
            places, the first alone.
        sides: markers whose left and right were exchanged for the whole take.
        unseen: what is in the file for markers that no camera saw, in words.
        doubts: what is wrong with the labels and could not be mended, in words.
    """

    columns: np.ndarray | None
    jumps: Mapping[str, int]
    swaps: tuple[tuple[str, str, int, int], ...]
    sides: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was mended, one line for each kind of finding."""
        out = []
        if self.sides:
            whole = "in all markers" if len(self.sides) > 20 else f"in {', '.join(self.sides)}"
            out.append(f"left and right are exchanged {whole}: exchanged back; check the labels of the file")
        if self.swaps:
            out.append(f"labels swapped: {_some_swaps(self.swaps)}; exchanged back")
        out += self.unseen
        if self.jumps:
            most = sorted(self.jumps.items(), key=lambda item: -item[1])
            shown = ", ".join(f"{name} in {count} frames" for name, count in most[:SHOWN])
            more = f" and {len(most) - SHOWN} more markers" if len(most) > SHOWN else ""
            out.append(
                f"{sum(self.jumps.values())} samples jump away from their marker's path: {shown}{more}; left out"
            )
        return tuple(out)

    def read(self, positions: np.ndarray, start: int, end: int) -> np.ndarray:
        """Return the corrected positions (end - start, M, 3) [m] of some frames of the take."""
        return self.pick(positions, slice(start, end))

    def pick(self, positions: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
        """Return the corrected positions (t, M, 3) [m] of chosen frames of the take."""
        part = positions[rows]
        if self.columns is None:
            return part
        columns = self.columns[rows]
        out = np.take_along_axis(part, np.maximum(columns, 0)[..., None], axis=1)
        out[columns < 0] = np.nan
        return out


def _some_swaps(swaps: tuple[tuple[str, str, int, int], ...]) -> str:
    """Return which labels were exchanged in which frames, those of the same frames together."""
    spans: dict[tuple[int, int], list[str]] = {}
    for a, b, start, end in swaps:
        spans.setdefault((start, end), []).append(f"{a} with {b}")
    out = []
    for (start, end), pairs in list(spans.items())[:SHOWN]:
        more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
        out.append(f"{', '.join(pairs[:SHOWN])}{more} in frames {start}-{end - 1}")
    return "; ".join(out) + (f"; in {len(spans) - SHOWN} more stretches" if len(spans) > SHOWN else "")


_known: WeakKeyDictionary[Markers, Screening] = WeakKeyDictionary()


def screen(markers: Markers) -> Screening:
    """Return what is wrong with the labels of a take; the answer is kept for as long as the markers are."""
    if markers not in _known:
        _known[markers] = _screen(markers)
    return _known[markers]


def _screen(markers: Markers) -> Screening:
    """Return what is wrong with the labels of markers; points that a model computed are left alone."""
    real = np.array([k for k, name in enumerate(markers.names) if not is_virtual(name)], dtype=int)
    names = [base_name(markers.names[k]) for k in real]
    every = len(real) == len(markers.names)
    found = _screened(names, markers.positions if every else markers.positions[:, real], markers.fps)
    found = replace(found, doubts=(*_repeated(markers.names), *found.doubts))
    if every or found.columns is None:
        return found
    columns = np.tile(np.arange(len(markers.names), dtype=np.int16), (len(markers), 1))
    columns[:, real] = np.where(found.columns < 0, -1, real[np.maximum(found.columns, 0)])
    return replace(found, columns=columns)


def _screened(names: list[str], positions: np.ndarray, fps: float) -> Screening:
    """Return what is wrong with labels, whose markers are at positions (T, M, 3) [m]."""
    total = len(positions)
    gone = find_unseen(positions, names, fps)
    seen = positions if gone.mask is None else np.where(gone.mask[..., None], np.nan, positions)
    columns, jumps, swaps = _follow(seen, fps, names) or (_own(gone, total), {}, ())
    rows = np.unique(np.linspace(0, max(total - 1, 0), min(SAMPLES, total)).astype(int))
    sample = Screening(columns, {}, (), ()).pick(positions, rows)
    order = np.arange(len(names))
    exchanged = exchanged_sides(names, sample)
    for a, b in exchanged:
        order[[a, b]] = order[[b, a]]
    feet = pairs_on_feet(names, sample[:, order])
    crossed = [pair for pair, wrong in feet.items() if wrong]
    for a, b in crossed:
        order[[a, b]] = order[[b, a]]
    traded = {frozenset(swap[:2]) for swap in swaps}
    sides = [pair for pair in exchanged if frozenset(pair) not in traded]  # for the whole take
    if exchanged or crossed:
        plain = order.astype(np.int16)
        columns = np.broadcast_to(plain, (total, len(names))) if columns is None else columns[:, order]
        swaps = _swaps_in(columns, sides)
    return Screening(
        columns,
        {names[m]: count for m, count in jumps.items()},
        tuple((names[a], names[b], start, end) for a, b, start, end in swaps),
        tuple(names[k] for pair in sides for k in pair),
        tuple(gone.notes(names)),
        (*gone.doubts(names), *_undecided(names, swaps, total, feet), *_noisy(seen)),
    )


def _noisy(positions: np.ndarray) -> list[str]:
    """Return what to say of markers with positions (T, M, 3) [m] whose noise joints cannot but follow."""
    noise = noise_of(positions)
    level = float(np.median(noise)) if len(noise) else 0.0
    if level < NOISY:
        return []
    shown = f"markers are noisy, {1e3 * level:.0f} mm in each direction, and joints are off by about as much"
    return [f"{shown}: smooth=0.05 (--smooth 0.05) takes out some of it"]


def _undecided(
    names: list[str], swaps: Sequence[tuple[int, int, int, int]], total: int, decided: Collection[tuple[int, int]]
) -> list[str]:
    """Return what to say of markers of one bone that traded labels for long: which of the two is right was guessed.

    decided: pairs of which anatomy says which is which.
    """
    frames: dict[tuple[int, int], int] = {}
    for a, b, start, end in swaps:
        frames[(a, b)] = frames.get((a, b), 0) + end - start
    out = []
    for (a, b), count in frames.items():
        first, second = placement_of(names[a]), placement_of(names[b])
        alike = first is not None and second is not None and (first[0].on[0], first[1]) == (second[0].on[0], second[1])
        if alike and count > LONG_SWAP * total and (a, b) not in decided and (b, a) not in decided:
            share = f"{names[a]} and {names[b]} have traded labels in {count / total:.0%} of the frames"
            out.append(f"{share}; the labels of the others were believed: check which are right")
    return out


def _repeated(labels: Sequence[str]) -> list[str]:
    """Return what to say of labels that are there more than once, with or without the names of subjects."""
    owners: dict[str, list[str]] = {}
    for label in labels:
        owners.setdefault(base_name(label), []).append(label)
    again = {name: found for name, found in owners.items() if len(found) > 1 and name}
    subjects = dict.fromkeys(label.rpartition(":")[0] for found in again.values() for label in found)
    if not again:
        return []
    if len(subjects) > 1:
        shown = ", ".join(subject or "no name" for subject in subjects)
        return [f"markers of {len(subjects)} subjects ({shown}): the first is used; markers.select takes another"]
    return [f"labels that are there more than once ({', '.join(list(again)[:SHOWN])}): the first is used"]


def _own(gone: Unseen, total: int) -> np.ndarray | None:
    """Return columns (T, M) of labels that are all right, -1 where no camera saw them; None where all were seen."""
    if gone.mask is None:
        return None
    return np.where(gone.mask, -1, np.arange(gone.mask.shape[1])).astype(np.int16)


# ------------------------------------------------------------------------------------------------ jumps and swaps


def _follow(positions: np.ndarray, fps: float, names: list[str]):
    """Return columns (T, M), jumps {column: count} and swaps of a take, or None where no label jumps."""
    total, count = positions.shape[:2]
    if total < 3 or not count:
        return None
    noise = noise_of(positions)
    jump = np.maximum(JUMP, NOISE * noise) + ACCELERATION / fps**2
    breaks, lengths = _breaks(positions, fps, jump, _near_pairs(positions, noise))
    if not breaks.any():
        return None
    follower = _LabelTracker(positions, fps, jump, breaks, lengths)
    columns = follower.run()
    wanted = np.zeros((count, count))
    for m in range(count):
        used, often = np.unique(columns[:, m], return_counts=True)
        for c, n in zip(used, often, strict=True):
            if c >= 0:
                wanted[m, c] += n
    wanted[np.diag_indices(count)] += 0.5
    rows, order = linear_sum_assignment(-wanted)
    renamed = np.empty_like(columns)
    renamed[:, order] = columns[:, rows]
    seen = np.isfinite(positions[..., 0])
    used = np.zeros((total, count), dtype=bool)
    t, m = np.nonzero(renamed >= 0)
    used[t, renamed[t, m]] = True
    lost = (seen & ~used).sum(axis=0)
    jumps = {int(m): int(lost[m]) for m in np.flatnonzero(lost)}
    swaps = _swaps_in(renamed)
    exchanged = _other_side(positions, names, renamed, swaps)
    for a, b in exchanged:
        renamed[:, [a, b]] = renamed[:, [b, a]]
    return renamed, jumps, tuple(_swaps_in(renamed) if exchanged else swaps)


def _swaps_in(columns: np.ndarray, sides: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int, int, int]]:
    """Return (marker, label that carries it, first frame, end) of labels (T, M); of two that trade, the first alone.

    sides: pairs that are exchanged in the whole take, which are no swaps.
    """
    out = []
    own = np.arange(columns.shape[1])
    for a, b in sides:
        own[[a, b]] = own[[b, a]]
    for m in np.flatnonzero(((columns != own) & (columns >= 0)).any(axis=0)):
        for a, b in runs((columns[:, m] != own[m]) & (columns[:, m] >= 0)):
            other = int(columns[a, m])
            if own[m] < other or columns[a, own[other]] != own[m]:
                out.append((int(own[m]), other, a, b))
    return out


def _other_side(positions: np.ndarray, names: list[str], columns: np.ndarray, swaps) -> list[tuple[int, int]]:
    """Return the swapped pairs of left and right that were mended the wrong way: they are on the other's side.

    A swap that lasts for most of the take looks like one of the rest of it.
    """
    traded = {(min(a, b), max(a, b)) for a, b, _, _ in swaps}
    pairs = {pair: part for pair, part in sided_pairs(names).items() if tuple(sorted(pair)) in traded}
    if not pairs:
        return []
    rows = np.unique(np.linspace(0, len(columns) - 1, min(SAMPLES, len(columns))).astype(int))
    sample = Screening(columns, {}, (), ()).pick(positions, rows)
    body = BodyAxes({name.upper(): k for k, name in enumerate(names)}, sample)
    trunk = body.handedness() or 1.0
    votes = {
        pair: body.nearer_to_own_side([pair], LIMB_ROOTS[part]) for pair, part in pairs.items() if part in LIMB_ROOTS
    }
    return [pair for pair, own in votes.items() if own is not None and own * trunk < 0.0]


def _near_pairs(positions: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return pairs (P, 2) of columns that are usually near each other, yet far beyond their noise (M,) [m]."""
    rows = np.unique(np.linspace(0, len(positions) - 1, min(FEW_SAMPLES, len(positions))).astype(int))
    sample = positions[rows]
    a, b = np.triu_indices(positions.shape[1], 1)
    gaps = np.linalg.norm(sample[:, a] - sample[:, b], axis=-1)
    some = np.isfinite(gaps).any(axis=0)
    a, b, gaps = a[some], b[some], column_medians(gaps[:, some])
    near = (gaps < NEAR) & (gaps > NOISE * np.maximum(noise[a], noise[b])) & (gaps > SAME)
    return np.stack([a[near], b[near]], axis=1)


def _breaks(positions: np.ndarray, fps: float, jump: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each label jumps (T, M) bool, and the usual step around there (T, M) [m] for labels that jump.

    Args:
        positions: (T, M, 3) [m].
        fps: Frames per second.
        jump: (M,) [m] How much longer than its neighbours a step must be.
        pairs: (P, 2) Columns of labels that jump as well where the one is seen from the other the other way round.
    """
    total, count = positions.shape[:2]
    breaks, usual = np.zeros((total, count), dtype=bool), np.zeros((total, count), dtype=np.float32)
    last = np.full(count, -1)
    held = np.full((count, 3), np.nan)
    for start in range(0, total, CHUNK):
        part = positions[start : start + CHUNK]
        seen = np.isfinite(part[..., 0])
        times = np.where(seen, np.arange(start, start + len(part))[:, None], -1)
        before = np.maximum.accumulate(np.vstack([last, times]), axis=0)[:-1]  # the frame last seen before each
        old = np.concatenate([held[None], part[:-1]])
        holes = (before != np.arange(start - 1, start + len(part) - 1)[:, None]) & (before >= 0) & seen
        if holes.any():
            t, m = np.nonzero(holes)
            old[t, m] = positions[before[t, m], m]
        apart = np.where(before >= 0, np.arange(start, start + len(part))[:, None] - before, 1)
        found = breaks[start : start + len(part)]
        for a, b in pairs:
            now, then = part[:, a] - part[:, b], old[:, a] - old[:, b]
            turned = np.einsum("ti,ti->t", now, then) < REVERSED * np.linalg.norm(now, axis=-1) * np.linalg.norm(
                then, axis=-1
            )
            turned &= np.maximum(apart[:, a], apart[:, b]) <= FOREIGN
            found[turned, a] = found[turned, b] = True
        moves = part - old
        moves[~np.isfinite(moves[..., 0])] = 0.0
        allowed = jump + SPEED / fps * (apart - 1)
        allowed[apart > FORGET * fps] = np.inf
        some = np.flatnonzero((np.linalg.norm(moves, axis=-1) > allowed).any(axis=0) | found.any(axis=0))
        if len(some):
            rates = moves[:, some] / apart[:, some, None]
            local = median_filter(rates, size=(WINDOW, 1, 1), mode="mirror")
            excess = apart[:, some] * np.linalg.norm(rates - local, axis=-1)
            speed = np.linalg.norm(local, axis=-1)
            found[:, some] |= excess > allowed[:, some] + UNSTEADY * speed * apart[:, some]
            usual[start : start + len(part), some] = speed
        last = np.maximum(last, times.max(axis=0))
        held = np.where(seen[-1][:, None], part[-1], held)
    return breaks, usual


class _LabelTracker:
    """Markers followed over the frames in which labels jump; between them every label carries what it carried."""

    def __init__(self, positions: np.ndarray, fps: float, jump: np.ndarray, breaks: np.ndarray, steps: np.ndarray):
        self.positions, self.fps, self.jump = positions, fps, jump
        self.breaks, self.steps = breaks, steps
        self.total, self.count = breaks.shape
        self.carrier = np.arange(self.count)  # the label that carries each marker now, -1: none
        self.left = np.zeros(self.count, dtype=int)  # the frame in which a marker was last carried
        self.left_by = np.arange(self.count)  # and its label then
        self.resolved: set[tuple[int, int]] = set()  # jumps (frame, label) that are explained

    def run(self) -> np.ndarray:
        """Return the label (T, M) that carries each marker, -1 where none does or it is not seen."""
        columns = np.empty((self.total, self.count), dtype=np.int16)
        begin = 0
        for event in np.flatnonzero(self.breaks.any(axis=1)):
            columns[begin:event] = self.carrier
            self._assign(int(event))
            begin = int(event)
        columns[begin:] = self.carrier
        self._believe_again(columns)
        self._trim(columns)
        hidden = np.take_along_axis(~np.isfinite(self.positions[..., 0]), np.maximum(columns, 0), axis=1)
        columns[hidden] = -1
        return columns

    def _assign(self, event: int) -> None:
        """Give the labels that jump in a frame to the markers that are without one."""
        labels = np.flatnonzero(self.breaks[event])
        broken = np.isin(self.carrier, labels)
        self.left[broken], self.left_by[broken] = event - 1, self.carrier[broken]
        self.carrier[broken] = -1
        lost = np.flatnonzero(self.carrier < 0)
        places, gates = self._predict(lost, event)
        gaps = np.linalg.norm(places[:, None] - self.positions[event, labels], axis=-1)
        own = lost[:, None] == labels
        recent = event - self.left[lost] <= FOREIGN
        traded = recent[:, None] & np.isin(labels, self.left_by[lost])  # both lost what they had
        cost = gaps - OWN * self.jump[labels] * own
        cost[~(gaps < gates[:, None]) | ~(own | traded)] = 1e3
        for i, j in zip(*linear_sum_assignment(cost), strict=True):
            if cost[i, j] < 1e3:
                self.carrier[lost[i]] = labels[j]
                self.resolved.add((event, int(labels[j])))

    def _predict(self, lost: np.ndarray, event: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where lost markers are expected (L, 3) [m], and how far off they may be (L,) [m]."""
        places, gates = np.empty((len(lost), 3)), np.empty(len(lost))
        for k, m in enumerate(lost):
            label, frame = self.left_by[m], self.left[m]
            track = self.positions[max(0, frame - 11) : frame + 1, label]
            seen = np.flatnonzero(np.isfinite(track[:, 0]))
            if not len(seen):
                places[k], gates[k] = np.nan, 0.0
                continue
            frame -= len(track) - 1 - seen[-1]
            apart = event - frame
            recent = track[seen[-1] - 3 : seen[-1] + 1] if seen[-1] >= 3 else track[:0]
            steady = len(recent) and not self.breaks[frame - 2 : frame + 1, label].any()
            velocity = np.nan_to_num((recent[-1] - recent[0]) / 3.0) if steady else np.zeros(3)
            places[k] = track[seen[-1]] + velocity * min(apart, 3)
            speed = max(float(np.linalg.norm(velocity)), float(self.steps[frame, label]))
            gates[k] = self.jump[label] + (UNSTEADY if steady else 2.0) * speed + SPEED / self.fps * (apart - 1)
        return places, gates

    def _trim(self, columns: np.ndarray) -> None:
        """Leave out labels before a jump in the first frames: there is too little before it to tell what they were."""
        for m in np.flatnonzero(self.breaks[: SHORT + 1].any(axis=0)):
            at = [t for t in np.flatnonzero(self.breaks[: SHORT + 1, m]) if (t, m) not in self.resolved]
            if at:
                columns[: at[-1]][columns[: at[-1]] == m] = -1

    def _believe_again(self, columns: np.ndarray) -> None:
        """Give a marker its own label where it stays elsewhere for long and carries no other: the fit will judge it."""
        least = max(2, round(TRUST * self.fps))
        for m in np.flatnonzero((columns < 0).any(axis=0)):
            for start, end in runs(columns[:, m] < 0):
                edges = [start, *(start + 1 + np.flatnonzero(self.breaks[start + 1 : end, m])), end]
                for a, b in pairwise(edges):
                    if b - a >= least and not (columns[a:b] == m).any():
                        columns[a:b, m] = m


# --- The markers of a take in an actor's axes ---


def markers_for(verb: str, markers: object) -> Markers:
    """Return the markers, or raise: `load` gives None for a file without markers."""
    if not isinstance(markers, Markers):
        raise PosableError(f"{verb}: expected Markers, such as load('walk.c3d').markers, got {type(markers).__name__}")
    return markers


def motion_for(verb: str, motion: object) -> Motion:
    """Return the motion, or raise: `load` gives None for a file without motion."""
    if not isinstance(motion, Motion):
        raise PosableError(f"{verb}: expected a Motion, such as load('walk.bvh').motion, got {type(motion).__name__}")
    return motion


class MarkerSource:
    """The markers of a take in the actor's axes, read in chunks so that a long take is never copied."""

    def __init__(self, actor: Skeleton, markers: Markers):
        self.markers = markers_for("track", markers)
        self.total = len(markers)
        wanted = {base_name(name): i for i, name in reversed(list(enumerate(markers.names)))}
        known = set(actor.site_names)
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
        self.unobserved = UnobservedJoints(actor, self.sites, self._seen())

    def _relabel(self, actor: Skeleton) -> tuple[str, ...]:
        """Give labels that evidently belong to other markers to these; return what to say of it."""
        rows = np.unique(np.linspace(0, max(self.total - 1, 0), min(FEW_SAMPLES, self.total)).astype(int))
        tracks = self.screening.pick(self.markers.positions, rows)[:, self.columns]
        wrong = mislabelled(actor, self.sites, tracks) if len(rows) else []
        columns = list(self.columns)
        for marker, other in wrong:
            self.columns[other] = columns[marker]
        return (words_of_mislabelled(self.sites, wrong),) if wrong else ()

    def _seen(self) -> np.ndarray:
        """Return (T, M) bool: where the actor's markers are seen."""
        out = np.empty((self.total, len(self.sites)), dtype=bool)
        for start in range(0, self.total, READ_CHUNK):
            end = min(start + READ_CHUNK, self.total)
            out[start:end] = np.isfinite(self.bridged(start, end)[0][..., 0])
        return out

    def filled(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places (end - start, M, 3) [m] without gaps that are short or in which no marker holds a joint, and
        where they were filled (end - start, M).
        """
        places, filled = self.bridged(start, end)
        filled |= self.unobserved.fill(places, start, lambda t, k: self.read(t, t + 1)[0, k])
        return places, filled

    def bridged(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places (end - start, M, 3) [m] of frames with short gaps filled, and where (end - start, M)."""
        most = short_gap(self.markers.fps)
        before, after = max(0, start - most - BESIDE), min(self.total, end + most + BESIDE)
        places = np.array(self.read(before, after))
        filled = fill_short(places, most, self.noise)
        part = slice(start - before, end - before)
        return places[part], filled[part]

    def read(self, start: int, end: int) -> np.ndarray:
        """Return the places (end - start, M, 3) [m] of frames in the actor's axes; NaN where unseen."""
        out = self.screening.read(self.markers.positions, start, end)[:, self.columns]
        return out if self.turn is None else out @ self.turn.T
