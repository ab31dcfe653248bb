"""The normal equations of a calibration against differences of the markers' places and NumPy's linear algebra."""

import numpy as np
import pytest

import posable as ps
from posable.mocap import actor_fit
from posable.mocap.calibrate import _anatomy, _attach

from .conftest import NAMES

STEP = 1e-6


@pytest.fixture
def fit(human, markers):
    """A fit in the middle of its way: noise, a marker that is far off, one unseen, a frame at a limit."""
    places = markers.positions[::80] + np.random.default_rng(2).normal(0.0, 0.01, (3, len(NAMES), 3))
    places[1, 5] += 0.2
    places[2, 7] = np.nan
    attached, _ = _attach(human, list(NAMES), None, None)
    paths = dict(zip(attached, np.moveaxis(markers.positions, 1, 0), strict=True))
    out = actor_fit.Fit(human, attached, places, False, True, True, *_anatomy(human, attached, None, paths))
    out.settle()
    out.robust = 0.03
    return out


def reduced(fit, figure):
    """Return the Gauss-Newton matrix and slope over offsets and lengths, poses eliminated, by differences."""

    def places(parameters, poses):
        fit._put(parameters)
        return np.stack([ps.forward(fit.figure(), poses).position(name) for name in fit.names], axis=1)

    at, poses = fit._parameters(), fit.poses.copy()
    model = places(at, poses)
    seen = np.isfinite(fit.places).all(axis=-1)
    misses = np.where(seen[..., None], model - fit.places, 0.0)
    weights = np.where(seen, (1.0 + np.square(misses).sum(axis=-1) / fit.robust**2) ** -0.5, 0.0)
    by_parameter = np.empty((*misses.shape, len(at)))
    for i in range(len(at)):
        step = np.eye(len(at))[i] * STEP
        by_parameter[..., i] = (places(at + step, poses) - places(at - step, poses)) / (2 * STEP)
    fit._put(at)
    pull = actor_fit.POSE_PULL * actor_fit._pull_shares(figure)
    matrix, slope = np.zeros((len(at), len(at))), np.zeros(len(at))
    for k in range(len(poses)):
        by_pose = np.empty((*misses.shape[1:], figure.size))
        for i in range(figure.size):
            step = np.eye(figure.size)[i] * STEP
            ahead, behind = (ps.forward(figure, poses[k] + s) for s in (step, -step))
            gaps = [(ahead.position(name) - behind.position(name)) / (2 * STEP) for name in fit.names]
            by_pose[..., i] = gaps
        w = np.repeat(weights[k], 3)
        j, p, r = by_pose.reshape(len(w), -1), by_parameter[k].reshape(len(w), -1), misses[k].ravel()
        force = j.T @ (w * r)
        held = ((poses[k] <= figure.lower + 1e-9) & (force > 0)) | ((poses[k] >= figure.upper - 1e-9) & (force < 0))
        j = j[:, ~held]
        inner = j.T @ (w[:, None] * j) + np.diag(pull[~held] + 1e-9)
        cross = j.T @ (w[:, None] * p)
        force = j.T @ (w * r) + (pull * (poses[k] - figure.rest))[~held]
        matrix += p.T @ (w[:, None] * p) - cross.T @ np.linalg.solve(inner, cross)
        slope += p.T @ (w * r) - cross.T @ np.linalg.solve(inner, force)
    rows, values, spread = fit._prior()
    rows = rows.toarray()
    return matrix + rows.T @ (spread[:, None] * rows), slope + rows.T @ (spread * (rows @ at - values))


def test_the_normal_equations_are_those_of_the_weighted_misses(fit):
    figure = fit.figure()
    matrix, slope = fit._normal_equations(figure)
    expected, gradient = reduced(fit, figure)
    assert fit.shifts.size, "no hips in this fit"
    np.testing.assert_allclose(matrix, expected, atol=2e-6 * np.abs(expected).max())
    np.testing.assert_allclose(slope, gradient, atol=2e-6 * np.abs(gradient).max())
