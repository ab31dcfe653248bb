"""Markers that are missing or wrong: which of them to leave out, and how the figure gets across their gaps."""

from __future__ import annotations

import numpy as np

OUTLIER = 8.0  # robust standard deviations beyond which a marker is out of place
OUTLIER_LEAST = 0.05  # [m]: and at least so far
LONG = 8  # frames: shorter gaps need no bridge
CATCH_UP = 12  # frames after a gap in which a walk finds back to the marker
CHUNK = 1 << 15  # frames
MAD = 1.4826  # standard deviations per median absolute deviation


def thresholds(errors: np.ndarray, least: float = OUTLIER_LEAST) -> np.ndarray:
    """Return (M,) [m]: the error beyond which a marker is an outlier, by the robust scale of errors (T, M) [m]."""
    out = np.full(errors.shape[1], np.inf)
    seen = np.isfinite(errors).any(axis=0)  # a marker that is never seen has no median
    middle = np.nanmedian(errors[:, seen], axis=0)
    spread = MAD * np.nanmedian(np.abs(errors[:, seen] - middle), axis=0)
    out[seen] = np.maximum(middle + OUTLIER * spread, least)
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
    """Cross gaps in poses (T, n), in place: (start, end, caught up, degrees of freedom that hang on the marker) each.

    poses were walked forwards and hold on to what was before the gap, back (T, n) backwards, to what comes after it:
    blended, they leave the one and arrive at the other without a jump. Until they have caught up with the marker that
    is back, the forward ones lag behind; the backward ones are at home there, and hand over to them.
    """
    for start, end, caught_up, dofs in gaps:
        weight = blend_weight(end - start)[:, None]
        poses[start:end, dofs] += weight * (back[start:end, dofs] - poses[start:end, dofs])
        weight = blend_weight(caught_up - end)[::-1, None]
        poses[end:caught_up, dofs] += weight * (back[end:caught_up, dofs] - poses[end:caught_up, dofs])


def frame_errors(errors: np.ndarray) -> np.ndarray:
    """Return the mean error (T,) [m] of each frame from errors (T, M); NaN where nothing was seen."""
    out = np.full(len(errors), np.nan)
    for start in range(0, len(errors), CHUNK):  # of an hour there should be no second copy
        part = errors[start : start + CHUNK]
        seen = np.isfinite(part)
        count = seen.sum(axis=1)
        total = np.where(seen, part, 0.0).sum(axis=1)
        out[start : start + CHUNK] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return out
