"""Short gaps in markers, against paths that are known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from posable.mocap.gaps import SLOPE, column_medians, fill_short

FRAMES = np.arange(60.0)


def lines(rng):
    """Return paths (60, 4, 3) that go straight at steady speeds."""
    return rng.normal(size=(4, 3)) + FRAMES[:, None, None] * 0.01 * rng.normal(size=(4, 3))


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(SLOPE + 1, 60 - SLOPE - 13))
def test_a_steady_path_is_continued(seed, length, start):
    paths = lines(np.random.default_rng(seed))
    holed = paths.copy()
    holed[start : start + length, 1] = np.nan
    filled = fill_short(holed, 12)
    assert np.allclose(holed, paths, atol=1e-12)
    assert filled.sum() == length
    assert filled[start : start + length, 1].all()


def test_a_bend_is_followed_better_than_by_a_line():
    path = np.stack([np.cos(0.1 * FRAMES), np.sin(0.1 * FRAMES), FRAMES], axis=-1)[:, None]
    holed = path.copy()
    holed[20:30] = np.nan
    fill_short(holed, 12)
    share = (np.arange(20, 30) - 19.0)[:, None] / 11.0
    line = (1.0 - share) * path[19, 0] + share * path[30, 0]
    assert np.abs(holed - path).max() < 0.3 * np.abs(line - path[20:30, 0]).max()


def test_long_gaps_and_ends_stay():
    paths = lines(np.random.default_rng(0))
    paths[20:35, 0] = np.nan  # too long
    paths[:4, 1] = np.nan
    paths[-4:, 2] = np.nan
    before = np.isnan(paths)
    assert not fill_short(paths, 12).any()
    assert np.array_equal(np.isnan(paths), before)


@given(st.integers(0, 1000), st.integers(1, 9))
def test_medians_leave_out_what_is_not_seen(seed, count):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 6))
    values[1:][rng.random((count - 1, 6)) < 0.4] = np.nan
    np.testing.assert_array_equal(column_medians(values), np.nanmedian(values, axis=0))
