"""The Whittaker smoother: paths of points from samples with gaps, noise and outliers.

Each path minimises sum w_t |x_t - y_t|^2 + lambda sum |x_t-1 - 2 x_t + x_t+1|^2 (Whittaker 1923). How much to smooth is
determined point by point, by generalised cross-validation with the trace of the periodic case (Garcia 2010), so that a
fast hand is smoothed less than a hip. Outliers are removed and the path is fitted again.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solveh_banded

from posable.model.joint_values import Floats

FEW = 8  # fewer frames than this say nothing about noise
CLEAN = 0.125  # [m/s] noise times frame rate below which samples are taken as they are: 4 mm at 30 frames a second
LAMBDAS = 10.0 ** np.arange(-2.0, 8.1, 0.5)  # [1] candidates
FILL = 1e-4  # [1] lambda of paths that are only filled
SLACK = 0.3  # fraction of the penalty that is on speed before the first and after the last sample
FAR = 6.0  # standard deviations beyond which a sample is an outlier
LEAST = 0.01  # [m] smaller deviations are never outliers


def clean_paths(places: Floats, fps: float) -> tuple[Floats, Floats]:
    """Return paths (T, J, 3) [m] without gaps and noise, and the deviation (J,) [m] per axis that is left in them.

    Paths without noise keep every sample; only their gaps are filled. Every point must be seen at least once.
    """
    total, count = places.shape[:2]
    seen = np.asarray(np.isfinite(places).all(axis=2))
    noise = _noise(places) if total >= FEW else 0.0
    noisy = noise * fps > CLEAN
    out, left = places.copy(), np.zeros(count)
    if total < 3:
        return _nearest(places, seen), left
    for k in range(count):
        if noisy and seen[:, k].sum() >= FEW:
            out[:, k], left[k] = _smoothed(places[:, k], seen[:, k])
        elif not seen[:, k].all():
            filled = _path(np.where(seen[:, k, None], places[:, k], 0.0), seen[:, k].astype(float), FILL)
            out[~seen[:, k], k] = filled[~seen[:, k]]
    return out, left


def _noise(places: Floats) -> float:
    """Return the deviation [m] of white noise with the same fourth differences; 0 if there are too few."""
    jolts = np.abs(np.diff(places, n=4, axis=0))
    jolts = jolts[np.isfinite(jolts)]
    return float(np.median(jolts)) / (8.37 * 0.6745) if jolts.size >= FEW else 0.0  # sqrt(70)


def _nearest(places: Floats, seen: np.ndarray) -> Floats:
    out = places.copy()
    for k in range(places.shape[1]):
        out[:, k] = places[np.argmax(seen[:, k]), k] if not seen[:, k].all() else places[:, k]
    return out


def _smoothed(path: Floats, seen: np.ndarray) -> tuple[Floats, float]:
    """Return a path (T, 3) [m] and the deviation [m] per axis that is left in it."""
    samples, weights = np.where(seen[:, None], path, 0.0), seen.astype(float)
    found, left = _best(samples, weights)
    misses = np.linalg.norm(samples - found, axis=1)
    usual = 1.4826 * float(np.median(misses[seen])) / 1.54  # the median of three such axes
    wrong = seen & (misses > max(FAR * usual, LEAST))
    if wrong.any():
        weights[wrong] = 0.0
        found, left = _best(samples, weights)
    return found, left


def _best(samples: Floats, weights: Floats) -> tuple[Floats, float]:
    """Return the path with the best score, and the deviation [m] per axis that is left in it."""
    total, n = len(samples), float(weights.sum())
    stiffness = (2.0 - 2.0 * np.cos(np.pi * np.arange(total) / total)) ** 2
    best, path_of_best, left = np.inf, samples, 0.0
    for strength in LAMBDAS:
        path = _path(samples, weights, strength)
        kept = float((n / (n + total * strength * stiffness)).sum()) / n  # trace of the smoother, per sample
        room = max(1.0 - kept, 1e-3)
        square = float((weights[:, None] * (samples - path) ** 2).sum()) / (3.0 * n)
        if square / room**2 < best:
            best, path_of_best, left = square / room**2, path, float(np.sqrt(square / room * kept))
    return path_of_best, left


def _path(samples: Floats, weights: Floats, strength: float) -> Floats:
    """Return the path (T, 3) of least bend near samples (T, 3) with weights (T,)."""
    total = len(samples)
    second = np.ones(total - 2)
    known = np.flatnonzero(weights)
    unseen = np.full(total - 1, SLACK)
    unseen[known[0] : known[-1]] = 0.0
    band = np.zeros((3, total))
    band[0, :-2] += second
    band[0, 1:-1] += 4.0 * second
    band[0, 2:] += second
    band[1, :-2] -= 2.0 * second
    band[1, 1:-1] -= 2.0 * second
    band[2, :-2] += second
    band[0, :-1] += unseen
    band[0, 1:] += unseen
    band[1, :-1] -= unseen
    band *= strength
    band[0] += weights
    return solveh_banded(band, weights[:, None] * samples, lower=True)
