"""What holds for every embedded figure: found by name, finite wherever it may be, at rest inside its limits."""

import inspect

import numpy as np
import pytest

import posable as ps
from posable.errors import UnknownName

SIZES = {"human": 71, "limb": 7, "planar_arm": 3, "panda": 7, "spider": 38, "tree": 30}


def random_poses(skeleton, count=20, seed=0):
    """Return poses (count, n) within the limits, within a turn where there are none."""
    rng = np.random.default_rng(seed)
    lower = np.where(np.isfinite(skeleton.lower), skeleton.lower, -np.pi)
    upper = np.where(np.isfinite(skeleton.upper), skeleton.upper, np.pi)
    return rng.uniform(lower, upper, (count, skeleton.size))


def test_names():
    assert set(ps.figures.names()) == set(SIZES)
    assert set(SIZES) <= set(dir(ps.figures))


def test_a_misspelt_name_suggests():
    with pytest.raises(UnknownName, match="did you mean 'human'"):
        ps.figures.get("humman")
    with pytest.raises(AttributeError, match="did you mean 'human'"):
        ps.figures.humman  # noqa: B018


@pytest.mark.parametrize("name", SIZES)
def test_by_name_and_by_function(name):
    function = getattr(ps.figures, name)
    assert inspect.isfunction(function)
    assert inspect.getdoc(function)
    figure, same = ps.figures.get(name), function()
    assert figure.name == same.name == name
    assert figure.size == same.size == SIZES[name]
    assert figure.dof_names == same.dof_names
    assert getattr(ps.figures, name) is function


def test_options_reach_the_function():
    assert ps.figures.get("planar_arm", lengths=(1, 1)).size == 2


@pytest.mark.parametrize("name", SIZES)
def test_forward_is_finite(name):
    figure = ps.figures.get(name)
    for pose in (figure.rest, random_poses(figure)):
        frames = ps.forward(figure, pose)
        for frame in (*figure.names, *figure.site_names):
            assert np.isfinite(frames.matrix(frame)).all()


@pytest.mark.parametrize("name", SIZES)
def test_rest_is_well_inside_the_limits(name):
    figure = ps.figures.get(name)
    assert (figure.rest - figure.lower > np.radians(1.5)).all()
    assert (figure.upper - figure.rest > np.radians(1.5)).all()


@pytest.mark.parametrize("name", SIZES)
def test_no_name_means_a_joint_and_a_site(name):
    figure = ps.figures.get(name)
    assert not set(figure.names) & set(figure.site_names)
