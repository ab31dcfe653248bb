"""Paths across gaps: weights of what was tried elsewhere in a take, limbs that keep to the body."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posable as ps
from posable.mocap.gaps import UnobservedJoints
from posable.mocap.limb_paths import least_error, limb_paths

from .conftest import holed

GAP = slice(90, 140)
ARM = ("UPA", "ELB", "FRM", "WRA", "WRB", "FIN")


@given(st.integers(0, 1000))
def test_weights_have_the_least_error_of_all_mixtures(seed):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(3, 5)) * rng.uniform(0.1, 2.0, (3, 1))
    products = errors @ errors.T + 1e-3 * np.eye(3)
    weights = least_error(products)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)
    others = rng.dirichlet(np.full(3, 0.5), 500)
    assert weights @ products @ weights <= np.einsum("ni,ij,nj->n", others, products, others).min() + 1e-12


def path_of_arm(human, markers, poses):
    """Return the true places (t, P, 3) [m] of a right arm that is lost for some time, its path, and straight lines."""
    sites = list(markers.names)
    seen = np.ones((len(poses), len(sites)), dtype=bool)
    seen[GAP][:, [sites.index("R" + name) for name in ARM]] = False
    unobserved = UnobservedJoints(human, sites, seen)
    interpolated = poses.copy()
    unobserved.cross(interpolated, 120.0)
    path = max(limb_paths(unobserved, interpolated, 120.0), key=lambda path: len(path.dofs))
    frames = ps.forward(human, poses)
    points = np.stack([frames.position(name) for name in path.points], axis=1)
    share = np.linspace(0.0, 1.0, len(path.places) + 2)[1:-1, None, None]
    lines = (1.0 - share) * points[GAP.start - 1] + share * points[GAP.stop]
    return points[GAP], path.places, lines


def test_an_arm_that_keeps_to_the_body_goes_with_it(human, markers, dance):
    poses = dance.poses.copy()
    arm = [human.index(name) for name in ("shoulder.R", "elbow.R", "wrist.R")]
    for part in arm:
        poses[:, part] = poses[0, part]
    true, path, lines = path_of_arm(human, markers, poses)
    assert np.linalg.norm(path - true, axis=-1).mean() < 0.5 * np.linalg.norm(lines - true, axis=-1).mean()


def test_a_path_leaves_and_arrives_where_the_arm_is_seen(human, markers, dance):
    true, path, _ = path_of_arm(human, markers, dance.poses)
    for row in (0, -1):
        assert np.linalg.norm(path[row] - true[row], axis=-1).max() < 0.01


def test_a_limb_does_not_follow_a_path_on_which_it_flips(human, markers, monkeypatch):
    """Halfway through the gap, the path leads to the mirrored arm."""
    gone = np.zeros(markers.positions.shape[:2], dtype=bool)
    gone[GAP, [[markers.names.index("R" + name)] for name in ARM]] = True
    take = holed(markers, gone)

    def leaping(*args):
        for path in limb_paths(*args):
            turned = path.places.copy()
            turned[25:] = turned[25:, :1] + (turned[25:] - turned[25:, :1]) @ np.diag([-1.0, 1.0, -1.0])
            yield path._replace(places=turned)

    calm = ps.track(human, take, threads=1).motion.poses
    monkeypatch.setattr("posable.mocap.limb_paths.limb_paths", leaping)
    leaped = ps.track(human, take, threads=1).motion.poses
    turns = [ps.forward(human, poses).rotation("wrist.R") for poses in (calm, leaped)]
    fastest = [120.0 * (each[:-1].inv() * each[1:]).magnitude()[GAP].max() for each in turns]
    assert fastest[1] <= max(25.0, 2.0 * fastest[0])
