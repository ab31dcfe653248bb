"""The markers of a take screened for wrong labels.

Screening finds samples that no camera saw (gaps.py), jumps, swapped labels, and swapped left and right, without knowing
the figure. A marker moves smoothly; if its label jumps, the sample is either noise or belongs to another marker, whose
label jumps in the same frame. The rest is left to the robust fit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
from scipy.ndimage import median_filter
from scipy.optimize import linear_sum_assignment

from posable.mocap.gaps import (
    NEIGHBOURS,
    SAME,
    SAMPLES,
    SHOWN,
    Neighbours,
    Unseen,
    column_medians,
    find_unseen,
    noise_of,
    runs,
)
from posable.mocap.marker_sets import base_name, is_virtual, placement_of, subject_of
from posable.mocap.recognise import (
    LIMB_ROOTS,
    BodyAxes,
    pairs_on_feet,
    sided_pairs,
    swapped_sides,
)
from posable.mocap.root_align import best_turn
from posable.model.motion import Markers

CHUNK = 1 << 14  # frames
JUMP = 0.03  # [m] a step that is longer than its neighbours by this is a jump
NOISE = 9.0  # a jump also exceeds this many standard deviations of the marker's noise
NOISY = 0.003  # [m] standard deviation of the markers' noise from which it is reported
SLOW = 25.0  # [1/s]: at lower rates, motion looks like noise
ACCELERATION = 100.0  # [m/s^2] largest acceleration of a marker next to a jump
RIGID = 0.003  # [m] by which distances of markers that turn together may change within a frame
NEAR = 0.15  # [m]: labels usually closer than this may be swapped without a jump
SPEED = 4.0  # [m/s]: how fast a marker may move while it is not seen
FORGET = 0.5  # [s]: after a longer gap a marker may be anywhere
HOME, AROUND = 0.03, 4  # [m] from where it was, seen from so many beside it, up to which a marker is back
TRUST = 0.1  # [s]: a label that stays where it jumped for this long is accepted again
WINDOW = 9  # frames around a step that show how long steps are there
UNSTEADY = 0.5  # fraction by which a marker's speed may change between frames
SHORT = 3  # frames at the start within which a label that jumps was wrong before the jump
REVERSED = -0.5  # cosine of the change of direction between frames below which two labels are clearly swapped
MOST = 0.5  # fraction of the visible markers that jump in one frame if the whole body does
BODY_JUMP = 0.008  # [m] smallest jump of the whole body that counts as a cut
BODY_ACCELERATION = 50.0  # [m/s^2] by which its acceleration may change within a frame
FOREIGN = 3  # frames without a label after which a marker may still be found under another label
OWN = 0.3  # of a jump: bonus for a marker that keeps its label
FEW_SAMPLES = 100  # frames used to decide whether labels are an actor's
BESIDE, BESIDE_EACH = 0.25, 6  # [s] before and after a gap, and markers, by which labels are compared
STEADY = 0.02  # [m] by which distances on one bone may change
MISFIT, UNLIKE = 1.5, 0.4  # of two labels that were traded: least misfit, and largest fraction of it if swapped back
LONG_SWAP = 0.1  # fraction of swapped frames above which it is unclear which labels are correct


@dataclass(frozen=True, eq=False)
class Screening:
    """What was found in the labels of a take.

    Attributes:
        columns: (T, M) column of the file that carries each marker in each frame, -1 where none does; None where
            every label is right.
        jumps: {marker: samples that were removed}.
        swaps: (marker, label that carries it, first frame, end) of labels that were swapped back; of a swapped
            pair, only the first.
        sides: markers whose left and right were swapped for the whole take.
        unseen: what is in the file for markers that no camera saw, in words.
        doubts: what is wrong with the labels and could not be repaired, in words.
        believed: {marker: (first frame, end) of the times for which its label stays where it jumped to}.
    """

    columns: np.ndarray | None
    jumps: Mapping[str, int]
    swaps: tuple[tuple[str, str, int, int], ...]
    sides: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    believed: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was repaired, one line for each kind of finding."""
        out = []
        if self.sides:
            whole = "in all markers" if len(self.sides) > 20 else f"in {', '.join(self.sides)}"
            whole += ": swapped back; check the labels of the file"
            out.append(f"left and right are swapped {whole}, and that none of its axes is mirrored")
        if self.swaps:
            out.append(f"labels swapped: {_some_swaps(self.swaps)}; swapped back")
        out += self.unseen
        if self.jumps:
            most = sorted(self.jumps.items(), key=lambda item: -item[1])
            shown = ", ".join(f"{name} in {count} frames" for name, count in most[:SHOWN])
            more = f" and {len(most) - SHOWN} more markers" if len(most) > SHOWN else ""
            out.append(f"{sum(self.jumps.values())} samples jump away from their marker's path: {shown}{more}; ignored")
        return tuple(out)

    def read(self, positions: np.ndarray, start: int, end: int) -> np.ndarray:
        """Return the corrected positions (end - start, M, 3) [m] of some frames of the take."""
        return self.pick(positions, slice(start, end))

    def pick(self, positions: np.ndarray, rows: slice | np.ndarray | list[int]) -> np.ndarray:
        """Return the corrected positions (t, M, 3) [m] of chosen frames of the take."""
        part = positions[rows]
        if self.columns is None:
            return part
        columns = self.columns[rows]
        out = np.take_along_axis(part, np.maximum(columns, 0)[..., None], axis=1)
        out[columns < 0] = np.nan
        return out


def _some_swaps(swaps: tuple[tuple[str, str, int, int], ...]) -> str:
    """Return which labels were swapped in which frames, those of the same frames together."""
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
    """Return what is wrong with the labels of a take; cached for as long as the markers exist."""
    if markers not in _known:
        _known[markers] = _screen(markers)
    return _known[markers]


def _screen(markers: Markers) -> Screening:
    """Return what is wrong with the labels of markers.

    Points that a model computed are left alone, and so are trajectories without a label among those with one.
    """
    real = np.array([k for k, name in enumerate(markers.names) if not is_virtual(name)], dtype=int)
    labelled = [k for k in real if not markers.names[k].startswith("*")]
    real = np.array(labelled, dtype=int) if labelled else real
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
    columns, jumps, swaps, cuts, believed = _follow(seen, fps, names) or (_own(gone, total), {}, (), (), {})
    rows = np.unique(np.linspace(0, max(total - 1, 0), min(SAMPLES, total)).astype(int))
    sample = Screening(columns, {}, (), ()).pick(positions, rows)
    order = np.arange(len(names))
    swapped = swapped_sides(names, sample)
    for a, b in swapped:
        order[[a, b]] = order[[b, a]]
    body = BodyAxes({name.upper(): k for k, name in enumerate(names)}, sample[:, order])
    decided = pairs_on_feet(names, sample[:, order]) | body.fronts()
    crossed = [pair for pair, wrong in decided.items() if wrong]
    for a, b in crossed:
        order[[a, b]] = order[[b, a]]
    traded = {frozenset(swap[:2]) for swap in swaps}
    sides = [pair for pair in swapped if frozenset(pair) not in traded]  # for the whole take
    if swapped or crossed:
        plain = order.astype(np.int16)
        columns = np.broadcast_to(plain, (total, len(names))) if columns is None else columns[:, order]
        swaps = _swaps_in(columns, sides)
    return Screening(
        columns,
        {names[m]: count for m, count in jumps.items()},
        tuple((names[a], names[b], start, end) for a, b, start, end in swaps),
        tuple(names[k] for pair in sides for k in pair),
        tuple(gone.notes(names)),
        (
            *gone.doubts(names),
            *_cut(cuts),
            *_together(names, believed),
            *_undecided(names, swaps, total, decided),
            *_noisy(seen, fps),
        ),
        {names[m]: spans for m, spans in believed.items()},
    )


def _cut(cuts: Sequence[int]) -> list[str]:
    """Return findings on frames at which the whole body jumps."""
    if not cuts:
        return []
    at = f"frame{'s' if len(cuts) > 1 else ''} {', '.join(str(frame) for frame in cuts[:SHOWN])}"
    more = f" and {len(cuts) - SHOWN} more" if len(cuts) > SHOWN else ""
    why = "frames are missing, takes were joined, or the volume was recalibrated"
    return [f"all markers jump at {at}{more}: {why}; track the parts separately"]


def _together(names: list[str], believed: Mapping[int, Sequence[tuple[int, int]]]) -> list[str]:
    """Return findings on labels {column: times} that jump in one frame and stay there, with no marker to judge them by.

    A marker that jumps alone is judged by its neighbours (recognise.py).
    """
    at: dict[int, list[str]] = {}
    for m, spans in believed.items():
        for start, _ in spans:
            at.setdefault(start, []).append(names[m])
    found = [f"{', '.join(those)} at frame {frame}" for frame, those in sorted(at.items()) if len(those) > 1]
    if not found:
        return []
    more = f" and {len(found) - SHOWN} more times" if len(found) > SHOWN else ""
    return [f"markers jump together and stay there: {'; '.join(found[:SHOWN])}{more}; joints there may be off"]


def _noisy(positions: np.ndarray, fps: float) -> list[str]:
    """Return a finding if the markers, with positions (T, M, 3) [m], are so noisy that the joints follow the noise."""
    noise = noise_of(positions)
    level = float(np.median(noise)) if len(noise) else 0.0
    if level < NOISY or fps < SLOW:
        return []
    shown = f"markers are noisy, {1e3 * level:.0f} mm in each direction, and joints are off by about as much"
    return [f"{shown}: smooth=0.05 (--smooth 0.05) reduces it"]


def _undecided(
    names: list[str], swaps: Sequence[tuple[int, int, int, int]], total: int, decided: Collection[tuple[int, int]]
) -> list[str]:
    """Return findings on markers of one bone that are swapped so often that the correct labels are uncertain.

    decided: pairs that anatomy distinguishes.
    """
    frames: dict[tuple[int, int], int] = {}
    for a, b, start, end in swaps:
        frames[(a, b)] = frames.get((a, b), 0) + end - start
    out = []
    for (a, b), count in frames.items():
        first, second = placement_of(names[a]), placement_of(names[b])
        alike = first is not None and second is not None and (first[0].on[0], first[1]) == (second[0].on[0], second[1])
        if alike and count > LONG_SWAP * total and (a, b) not in decided and (b, a) not in decided:
            share = f"{names[a]} and {names[b]} are swapped in {count / total:.0%} of the frames"
            out.append(f"{share}; the labels of the other frames were taken as correct: check them")
    return out


def _repeated(labels: Sequence[str]) -> list[str]:
    """Return findings on labels that occur more than once, with or without the names of subjects."""
    owners: dict[str, list[str]] = {}
    for label in labels:
        owners.setdefault(base_name(label), []).append(label)
    again = {name: found for name, found in owners.items() if len(found) > 1 and name}
    subjects = dict.fromkeys(subject_of(label) for found in again.values() for label in found)
    if not again:
        return []
    if len(subjects) > 1:
        shown = ", ".join(subject or "no name" for subject in subjects)
        return [f"markers of {len(subjects)} subjects ({shown}): the first is used; markers.select selects another"]
    return [f"duplicate labels ({', '.join(list(again)[:SHOWN])}): the first of each is used"]


def _own(gone: Unseen, total: int) -> np.ndarray | None:
    """Return columns (T, M) for correct labels, -1 where no camera saw them; None if all were seen."""
    if gone.mask is None:
        return None
    return np.where(gone.mask, -1, np.arange(gone.mask.shape[1])).astype(np.int16)


# ------------------------------------------------------------------------------------------------ jumps and swaps


def _follow(positions: np.ndarray, fps: float, names: list[str]):
    """Return columns (T, M), jumps {column: count}, swaps, cuts and {column: times for which a jump is believed}.

    None where no label jumps.
    """
    total, count = positions.shape[:2]
    if total < 3 or not count:
        return None
    noise = noise_of(positions)
    jump = np.maximum(JUMP, NOISE * noise) + ACCELERATION / fps**2
    near = _near_pairs(positions, noise)
    breaks, lengths = _breaks(positions, fps, jump, near)
    cuts = _cuts(positions, breaks, fps, float(np.median(noise)))
    breaks[cuts] = False  # labels are accepted across a cut: there is nothing to predict from
    _accept_turns(positions, breaks, near)
    follower = _LabelTracker(positions, fps, jump, breaks, lengths)
    columns = follower.run()
    traded = _trade_back(positions, columns, fps)
    if not traded and not breaks.any() and not cuts:
        return None
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
    swapped = _other_side(positions, names, renamed, swaps)
    for a, b in swapped:
        renamed[:, [a, b]] = renamed[:, [b, a]]
    swaps = tuple(_swaps_in(renamed) if swapped else swaps)
    return renamed, jumps, swaps, tuple(cuts), {m: tuple(spans) for m, spans in follower.believed.items()}


def _cuts(positions: np.ndarray, breaks: np.ndarray, fps: float, noise: float) -> list[int]:
    """Return the frames at which most labels jump (breaks (T, M)), or the whole body, and do not come back soon.

    noise: [m] standard deviation of the coordinates of markers.
    """
    seen = np.isfinite(positions[..., 0]).sum(axis=1)
    many = ((breaks.sum(axis=1) > MOST * seen) & (seen > NEIGHBOURS)) | _body_jumps(positions, fps, noise)
    events: list[int] = (1 + np.flatnonzero(many[1:])).tolist()
    out = []
    while events:
        start = events.pop(0)
        before = positions[start - 1]
        soon = [t for t in events if t - start <= max(2, round(TRUST * fps))]
        there = np.nanmedian(np.append(np.linalg.norm(positions[start] - before, axis=-1), 0.0))
        steps = {t: np.linalg.norm(positions[t] - before, axis=-1) for t in soon}
        backs = [t for t, far in steps.items() if np.isfinite(far).any() and np.nanmedian(far) < 0.5 * there]
        if backs:
            events = [t for t in events if t > backs[0]]
        else:
            out.append(start)
    return out


def _accept_turns(positions: np.ndarray, breaks: np.ndarray, pairs: np.ndarray) -> None:
    """Accept labels that jump (T, M), in place, where three or more near each other turn like one rigid body.

    Bones of computed markers may flip within a frame. Wrong labels change distances, but for a few that stay together
    and trade places: none of these may be where another one was.

    Args:
        positions: (T, M, 3) [m].
        breaks: (T, M) bool.
        pairs: (P, 2) Columns of labels that are usually near each other.
    """
    for t in np.flatnonzero(breaks.sum(axis=1) > 1):
        now, then = positions[t], positions[t - 1]
        a, b = pairs[breaks[t, pairs].any(axis=1)].T
        change = np.linalg.norm(now[a] - now[b], axis=-1) - np.linalg.norm(then[a] - then[b], axis=-1)
        kept = np.zeros((breaks.shape[1],) * 2, dtype=bool)
        rigid = np.abs(change) < RIGID
        kept[a[rigid], b[rigid]] = kept[b[rigid], a[rigid]] = True
        for m in np.flatnonzero(breaks[t]):
            beside = np.flatnonzero(kept[m])
            body = np.append(beside[kept[np.ix_(beside, beside)].any(axis=0)], m)
            if len(body) < NEIGHBOURS:
                continue
            there = np.linalg.norm(now[body, None] - then[None, body], axis=-1)
            rows, columns = linear_sum_assignment(there)
            traded = (rows != columns) & (there[rows, columns] < np.maximum(JUMP, 0.5 * there[rows, rows]))
            turned = np.linalg.norm((now - then)[body] - (now - then)[m], axis=-1) > JUMP
            if turned.any() and not traded.any():
                breaks[t, m] = False


def _body_jumps(positions: np.ndarray, fps: float, noise: float) -> np.ndarray:
    """Return (T,) bool: frames at which most markers of positions (T, M, 3) [m] make a step that fits none beside it.

    Bodies land and turn within a frame, but their velocity before and after differs far less from that of the step.
    """
    usual = np.zeros(len(positions))
    least = BODY_JUMP + BODY_ACCELERATION / fps**2 + NOISE * noise
    for start in range(0, len(positions) - 3, CHUNK):
        part = positions[start : start + CHUNK + 3]
        jolts = np.linalg.norm(1.5 * (part[2:-1] - part[1:-2]) - 0.5 * (part[3:] - part[:-3]), axis=-1)
        known = np.isfinite(jolts)
        count = known.sum(axis=1)
        rows = np.flatnonzero(
            (count > NEIGHBOURS)
            & (2 * count >= np.isfinite(part[2:-1, :, 0]).sum(axis=1))
            & (np.where(known, jolts, 0.0).sum(axis=1) > 0.5 * least * count)
        )
        usual[start + 2 + rows] = column_medians(jolts[rows].T)
    beside = np.maximum(np.roll(usual, 1), np.roll(usual, -1))  # of a jump, half of it
    return (usual > least) & (usual > beside)


def _trade_back(positions: np.ndarray, columns: np.ndarray, fps: float) -> bool:
    """Swap back, in columns (T, M), labels that two markers trade while both are hidden; return whether there are any.

    Two labels have traded markers if each fits the other's neighbours after the gap far better than its own: distances
    to the markers beside it are compared with those before the gap.

    Args:
        positions: (T, M, 3) [m] of the file.
        columns: (T, M) label that carries each marker, -1 where none does; changed.
        fps: Frames per second.
    """
    window = max(2, round(BESIDE * fps))
    spans = [
        (start, end, m)
        for m in range(columns.shape[1])
        for start, end in runs(columns[:, m] < 0)
        if end - start > FOREIGN and start > 0 and end < len(columns)
    ]
    spans.sort()
    found, view = False, Screening(columns, {}, (), ())
    for k, (start, end, a) in enumerate(spans):
        for later, last, b in spans[k + 1 :]:
            if later >= end:
                break
            if a == b:
                continue
            back = max(end, last)
            own, other = _misfits(view.pick(positions, [start - 1]), view.pick(positions, [back]), a, b)
            if not other < own:
                continue
            before = view.pick(positions, slice(max(0, start - window), start))
            own, other = _misfits(before, view.pick(positions, slice(back, back + window)), a, b)
            if own > 2.0 * MISFIT and other < UNLIKE * own:
                columns[later:, [a, b]] = columns[later:, [b, a]]
                found = True
    return found


def _misfits(before: np.ndarray, after: np.ndarray, a: int, b: int) -> tuple[float, float]:
    """Return how badly two markers fit their neighbours after a gap, under their own labels and under each other's.

    before, after: positions (t, M, 3) [m] of all markers. NaN if there are too few neighbours.
    """
    others = np.delete(np.arange(before.shape[1]), [a, b])
    then, now = ([np.linalg.norm(part[:, others] - part[:, [m]], axis=-1) for m in (a, b)] for part in (before, after))
    usual, present = ([column_medians(gaps) for gaps in part] for part in (then, now))
    misfits = np.full((2, 2), np.nan)
    for i in range(2):
        known = np.flatnonzero(np.isfinite(usual[i]) & np.isfinite(present[0]) & np.isfinite(present[1]))
        near = known[np.argsort(usual[i][known])[:BESIDE_EACH]]
        if len(near) >= NEIGHBOURS:
            spread = np.ptp(then[i][:, near], axis=0) + STEADY
            misfits[i] = [np.mean(np.abs(present[j][near] - usual[i][near]) / spread) for j in range(2)]
    return misfits.trace(), misfits[0, 1] + misfits[1, 0]


def _swaps_in(columns: np.ndarray, sides: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int, int, int]]:
    """Return (marker, label that carries it, first frame, end) of labels (T, M); of a swapped pair, only the first.

    sides: pairs that are swapped in the whole take, which are not swaps.
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
    """Return the pairs of left and right that were swapped back the wrong way: each is on the other side.

    A swap that lasts for most of the take looks like a swap of the remaining frames.
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
    """Return pairs (P, 2) of columns that are usually near each other, but farther apart than their noise (M,) [m]."""
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
        pairs: (P, 2) Columns of labels that also jump where the vector between them reverses.
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
            turned &= (apart[:, a] == apart[:, b]) & (apart[:, a] <= FOREIGN)
            found[turned, a] = found[turned, b] = True
        moves = part - old
        moves[~np.isfinite(moves[..., 0])] = 0.0
        allowed = jump + SPEED / fps * (apart - 1)
        allowed[apart > FORGET * fps] = np.inf
        some = np.flatnonzero((np.linalg.norm(moves, axis=-1) > allowed).any(axis=0) | found.any(axis=0))
        if len(some):
            rates = _over_gaps(moves[:, some] / apart[:, some, None], seen[:, some])
            local = median_filter(rates, size=(WINDOW, 1, 1), mode="mirror")
            excess = apart[:, some] * np.linalg.norm(rates - local, axis=-1)
            speed = np.linalg.norm(local, axis=-1)
            found[:, some] |= excess > allowed[:, some] + UNSTEADY * speed * apart[:, some]
            usual[start : start + len(part), some] = speed
        last = np.maximum(last, times.max(axis=0))
        held = np.where(seen[-1][:, None], part[-1], held)
    return breaks, usual


def _over_gaps(rates: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return steps (T, M, 3) [m/frame]; where a marker is not seen (T, M), the step of the next frame that shows it."""
    rows = np.where(seen, np.arange(len(seen))[:, None], len(seen) - 1)
    after = np.minimum.accumulate(rows[::-1], axis=0)[::-1]
    return np.take_along_axis(rates, after[..., None], axis=0)


class _LabelTracker:
    """Follows markers over the frames in which labels jump; in between, every label stays on its marker."""

    def __init__(self, positions: np.ndarray, fps: float, jump: np.ndarray, breaks: np.ndarray, steps: np.ndarray):
        self.positions, self.fps, self.jump = positions, fps, jump
        self.breaks, self.steps = breaks, steps
        self.total, self.count = breaks.shape
        self.carrier = np.arange(self.count)  # the label that carries each marker now, -1: none
        self.left = np.zeros(self.count, dtype=int)  # the frame in which a marker was last carried
        self.left_by = np.arange(self.count)  # and its label then
        self.resolved: set[tuple[int, int]] = set()  # jumps (frame, label) that are explained
        self.believed: dict[int, list[tuple[int, int]]] = {}  # times for which a label stays where it jumped to

    def run(self) -> np.ndarray:
        """Return the label (T, M) that carries each marker, -1 where none does or it is not seen."""
        columns = np.empty((self.total, self.count), dtype=np.int16)
        begin = 0
        for event in np.flatnonzero(self.breaks.any(axis=1)):
            columns[begin:event] = self.carrier
            self._assign(int(event))
            begin = int(event)
        columns[begin:] = self.carrier
        self._return_labels(columns)
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
        """Drop labels before a jump in the first frames: there are too few frames to tell what they were."""
        for m in np.flatnonzero(self.breaks[: SHORT + 1].any(axis=0)):
            at = [t for t in np.flatnonzero(self.breaks[: SHORT + 1, m]) if (t, m) not in self.resolved]
            if at:
                columns[: at[-1]][columns[: at[-1]] == m] = -1

    def _return_labels(self, columns: np.ndarray) -> None:
        """Give markers their own labels back where these are not swapped with others and fit their neighbours.

        After a burst of noise on several labels, a marker may be found under a label that is not its own, while its own
        is seen and carries nothing.
        """
        near: Neighbours | None = None
        for m in range(self.count):
            foreign = (columns[:, m] != m) & (columns[:, m] >= 0)
            for start, end in runs(foreign):
                edges = [start, *(start + 1 + np.flatnonzero(np.diff(columns[start:end, m]))), end]
                for a, b in pairwise(edges):
                    label, rows = int(columns[a, m]), np.arange(a, b)[: 1 << 10]
                    own, other = np.isfinite(self.positions[rows][:, [m, label], 0]).T
                    idle = own.any() and own[other].all() and not (columns[a:b] == m).any()
                    near = near or Neighbours(self.positions)
                    if idle and near.off(m, rows) <= near.off(m, rows, label):
                        columns[a:b, m] = m
                        if (columns[a:b, label] < 0).all():
                            columns[a:b, label] = label

    def _believe_again(self, columns: np.ndarray) -> None:
        """Accept a marker's own label again where it stays elsewhere for long; the fit will judge it."""
        least, given = max(2, round(TRUST * self.fps)), columns.copy()
        for m in np.flatnonzero((columns < 0).any(axis=0)):
            for start, end in runs(columns[:, m] < 0):
                edges = [start, *(start + 1 + np.flatnonzero(self.breaks[start + 1 : end, m])), end]
                for a, b in pairwise(edges):
                    if b - a >= least and not (columns[a:b] == m).any():
                        columns[a:b, m] = m
                        if not self._is_home(given, int(m), start, a, least):
                            self.believed.setdefault(int(m), []).append((int(a), int(b)))

    def _is_home(self, columns: np.ndarray, m: int, start: int, since: int, least: int) -> bool:
        """Return whether a marker is where it was, seen from the markers beside it, before it lost its label.

        Those beside it kept their labels meanwhile.
        """
        while (recent := np.flatnonzero(self.breaks[max(0, start - least) : start, m])).size:  # of one burst of noise
            start = max(0, start - least) + int(recent[0])
        before = start - 1
        if before < 0 or columns[before, m] < 0:
            return False
        steady = np.flatnonzero((columns[before : since + 1] == np.arange(self.count)).all(axis=0))
        now, then = self.positions[since], self.positions[before]
        own = then[columns[before, m]]
        order = np.argsort(np.linalg.norm(then[steady] - own, axis=-1))[:AROUND]  # not seen: last
        near = steady[order]
        if len(near) < AROUND or not np.isfinite([then[near], now[near]]).all():
            return False
        turn, shift = best_turn(then[near], now[near])
        return bool(np.linalg.norm(turn @ own + shift - now[m]) < HOME)
