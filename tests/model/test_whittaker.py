"""Paths with noise, gaps and wrong samples, against the paths that they were made from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from posable.model.whittaker import clean_paths

FPS = 30.0


def paths(seed=0, total=150):
    """A slow and a fast point: sums of a few waves, up to 0.6 and 2.5 Hz."""
    rng = np.random.default_rng(seed)
    t = np.arange(total)[:, None] / FPS
    out = []
    for highest, size in ((0.6, 0.4), (2.5, 0.2)):
        rates = rng.uniform(0.1, highest, (4, 3))
        out.append(sum(size * np.sin(2.0 * np.pi * rate * t + rng.uniform(0.0, 6.0, 3)) for rate in rates))
    return np.stack(out, axis=1)


@given(st.integers(0, 1000))
def test_noise_and_gaps_are_taken_out(seed):
    clean, rng = paths(seed), np.random.default_rng(seed + 1)
    worn = clean + rng.normal(0.0, 0.02, clean.shape)
    worn[rng.random(clean.shape[:2]) < 0.2] = np.nan
    out, left = clean_paths(worn, FPS)
    off = np.median(np.linalg.norm(out - clean, axis=-1), axis=0)
    raw = np.nanmedian(np.linalg.norm(worn - clean, axis=-1))
    assert off[0] < 0.6 * raw  # the slow one can be smoothed more
    assert off[1] < 1.1 * raw
    assert (left > 0.002).all()
    assert (left < 0.02).all()


def test_wrong_samples_are_left_out():
    clean, rng = paths(), np.random.default_rng(1)
    worn = clean + rng.normal(0.0, 0.01, clean.shape)
    wrong = rng.random(clean.shape[:2]) < 0.04
    worn[wrong] += 0.7
    out = clean_paths(worn, FPS)[0]
    assert np.linalg.norm(out - clean, axis=-1)[wrong].max() < 0.06


def test_clean_samples_stay_as_they_are_and_gaps_follow_the_curve():
    clean = paths()
    worn = clean.copy()
    worn[40:46], worn[100:103, 0], worn[:4, 1], worn[-6:, 0] = np.nan, np.nan, np.nan, np.nan
    out, left = clean_paths(worn, FPS)
    seen = np.isfinite(worn).all(axis=-1)
    assert np.array_equal(out[seen], clean[seen])
    assert not left.any()
    straight = np.linalg.norm(clean[40:46] - np.linspace(clean[39], clean[46], 8)[1:-1], axis=-1)
    bent = np.linalg.norm(out[40:46] - clean[40:46], axis=-1)
    assert bent.mean() < 0.5 * straight.mean()
    assert np.abs(out).max() < 1.1 * np.abs(clean).max()  # ends that were not seen do not run away


def test_few_frames():
    for total in (1, 2, 3, 7):
        places = np.arange(6.0 * total).reshape(total, 2, 3)
        places[0, 1] = np.nan if total > 1 else places[0, 1]
        out, left = clean_paths(places, FPS)
        assert np.isfinite(out).all()
        assert not left.any()
