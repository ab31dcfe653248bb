"""Paths within velocity limits: the nearest by their largest distance."""

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from posable.mocap.retime import slowed, within_steps

PATHS = hnp.arrays(float, st.tuples(st.integers(2, 12), st.just(1)), elements=st.floats(-3.0, 3.0))
MOST = st.floats(0.05, 2.0)


@given(PATHS, MOST)
def test_no_path_within_the_limits_is_nearer(path, most):
    """A linear program finds how near one can be: least d with |x - y| <= d and |x[t + 1] - x[t]| <= most."""
    out = within_steps(path, np.array([most]))
    assert np.abs(np.diff(out, axis=0)).max() <= most + 1e-12
    t = len(path)
    steps = np.diff(np.eye(t), axis=0)
    rows = np.block([
        [np.eye(t), -np.ones((t, 1))], [-np.eye(t), -np.ones((t, 1))],
        [steps, np.zeros((t - 1, 1))], [-steps, np.zeros((t - 1, 1))],
    ])  # fmt: skip
    right = np.r_[path[:, 0], -path[:, 0], np.full(2 * (t - 1), most)]
    best = linprog(np.r_[np.zeros(t), 1.0], rows, right, bounds=[(None, None)] * (t + 1))
    assert abs(np.abs(out - path).max() - best.fun) < 1e-6


@given(PATHS, MOST)
def test_rounding_makes_no_step_longer(path, most):
    assert np.abs(np.diff(slowed(path, np.array([most]), 1.5), axis=0)).max() <= most + 1e-9


def test_a_path_that_keeps_to_its_limits_stays():
    path = np.cumsum(np.full((20, 2), 0.1), axis=0)
    np.testing.assert_allclose(within_steps(path, np.array([0.1, 0.5])), path, atol=1e-12)
