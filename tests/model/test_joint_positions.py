"""Joint positions to motion: clean ones are met, gaps and noise are bridged, trees come from the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posable as ps
from posable.errors import PosableError
from posable.model.joint_positions import clean_paths, motion_from_positions

NAMES = (
    "root", "spine1", "spine3", "neck", "skull", "hip.L", "knee.L", "ankle.L", "toes.L", "hip.R", "knee.R", "ankle.R",
    "toes.R", "shoulder.L", "elbow.L", "wrist.L", "shoulder.R", "elbow.R", "wrist.R",
)  # fmt: skip


@pytest.fixture(scope="module")
def walk(fixtures):
    motion = ps.load(fixtures / "walk.amc").motion
    frames = ps.forward(motion.skeleton, motion.poses)
    return np.stack([frames.position(name) for name in NAMES], axis=1), motion.fps


def errors(motion, positions):
    frames = ps.forward(motion.skeleton, motion.poses)
    return np.stack([np.linalg.norm(frames.position(n) - positions[:, k], axis=1) for k, n in enumerate(NAMES)], axis=1)


def test_clean_positions_are_met(walk):
    positions, fps = walk
    motion = motion_from_positions(NAMES, positions, fps, up="y")
    assert np.median(errors(motion, positions)) < 0.003
    assert np.abs(np.diff(motion.poses, axis=0)).max() < 1.0  # no rotation jumps by a turn


def test_the_tree_comes_from_the_data(walk):
    positions, fps = walk
    parents = {j.name: j.parent for j in motion_from_positions(NAMES, positions, fps, up="y").skeleton.joints}
    assert parents["root"] is None
    for child, parent in (("knee.L", "hip.L"), ("ankle.R", "knee.R"), ("elbow.L", "shoulder.L"), ("skull", "neck")):
        assert parents[child] == parent
    assert not any(parent.endswith((".L", ".R")) for child, parent in parents.items() if child in ("neck", "spine3"))


def test_missing_and_noisy_joints(walk):
    clean, fps = walk
    rng = np.random.default_rng(0)
    positions = clean + rng.normal(0.0, 0.02, clean.shape)
    positions[rng.random(positions.shape[:2]) < 0.2] = np.nan
    motion = motion_from_positions(NAMES, positions, fps, up="y")
    assert np.median(errors(motion, clean)) < 0.03
    raw = np.nanmean(np.abs(np.diff(positions, n=2, axis=0)))
    frames = ps.forward(motion.skeleton, motion.poses)
    calm = np.mean([np.abs(np.diff(frames.position(n), n=2, axis=0)).mean() for n in NAMES])
    assert calm < 0.3 * raw


def test_a_worn_walk_is_as_calm_as_the_person_was(walk):
    """2 cm of noise and a fifth missing: nearer than the noise, no more restless, and bones that keep their lengths."""
    clean, fps = walk
    rng = np.random.default_rng(1)
    positions = clean + rng.normal(0.0, 0.02 / np.sqrt(3.0), clean.shape)
    positions[rng.random(positions.shape[:2]) < 0.2] = np.nan
    positions[rng.random(positions.shape[:2]) < 0.01] += 0.5
    motion = motion_from_positions(NAMES, positions, fps, up="y")
    assert np.median(errors(motion, clean)) < 0.013
    assert np.quantile(errors(motion, clean), 0.95) < 0.03
    frames = ps.forward(motion.skeleton, motion.poses)
    calm, true = (
        np.mean([np.abs(np.diff(path, n=2, axis=0)).mean() for path in every])
        for every in ([frames.position(n) for n in NAMES], np.moveaxis(clean, 1, 0))
    )
    assert calm < 1.3 * true
    shin = [np.linalg.norm(clean[0, NAMES.index(f"knee.{s}")] - clean[0, NAMES.index(f"ankle.{s}")]) for s in "LR"]
    for side, length in zip("LR", shin, strict=True):
        bone = frames.position(f"knee.{side}") - frames.position(f"ankle.{side}")
        np.testing.assert_allclose(np.linalg.norm(bone, axis=1), length, rtol=0.03)


@pytest.mark.parametrize(
    ("names", "shape", "message"),
    [(("a", "b"), (5, 3, 3), "expected shape"), (("a",), (5, 1, 3), "expected shape")],
)
def test_wrong_shapes(names, shape, message):
    with pytest.raises(PosableError, match=message):
        motion_from_positions(names, np.zeros(shape), 30.0)


def test_a_joint_that_is_never_seen():
    positions = np.random.default_rng(0).normal(size=(5, 2, 3))
    positions[:, 1] = np.nan
    with pytest.raises(PosableError, match="found none of b"):
        motion_from_positions(("a", "b"), positions, 30.0)


# --- Paths with noise, gaps and wrong samples, against the paths that they were made from ---

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
