"""Samples of a file that no camera saw: markers at the origin, on straight lines, or in the place of another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.mocap.gaps import runs

STRAIGHT = 2e-6  # [m]: what single precision leaves of the second difference of a straight line
LASTING = 0.06  # [s]: shorter straight stretches do no harm
MOVES = 0.01  # [m] by which a marker's distances to its neighbours change while it is stuck
NEIGHBOURS = 3
LIVE = 0.1  # part of the take in which a marker that is stuck elsewhere moves as markers do
SAME = 1e-5  # [m]: labels nearer than this are one marker
THROUGHOUT = 0.9  # part of the frames in which two labels are one marker for the whole take
SAMPLES = 400  # frames from which usual distances are taken
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

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns (N,) of the markers nearest to one, and their usual distances (N,) [m]."""
        gaps = np.linalg.norm(self.sample - self.sample[:, k : k + 1], axis=-1)
        some = np.isfinite(gaps).any(axis=0)
        usual = np.full(gaps.shape[1], np.inf)
        usual[some] = np.nanmedian(gaps[:, some], axis=0)
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
