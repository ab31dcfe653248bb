"""Two hinges in closed form (Parent, 5.3.1), against forward kinematics and a search over both angles."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps


def brute(figure, target, low, high, count=241):
    """The least distance over a grid of both angles."""
    a, b = np.meshgrid(np.linspace(low[0], high[0], count), np.linspace(low[1], high[1], count))
    poses = np.stack([a.ravel(), b.ravel()], axis=1)
    return np.linalg.norm(ps.forward(figure, poses).position("tip") - target, axis=1).min()


def generic(limits):
    """Two hinges in a tilted plane, with links off their axes and opposite senses."""
    turn = Rotation.from_euler("xyz", (0.4, -0.7, 1.1))
    joints = [
        ps.Joint("a", ps.Revolute("z"), offset=(0.1, 0.2, 0.3), rotation=turn, limits=limits[0]),
        ps.Joint("b", ps.Revolute("-z"), "a", offset=(0.5, 0.1, 0.05), limits=limits[1]),
    ]
    return ps.Skeleton(joints, [ps.Site("tip", "b", offset=(0.3, -0.15, 0.1))])


def test_the_textbook_arm():
    arm = ps.figures.planar_arm([15.0, 10.0])
    site = arm.site_names[-1]
    for target in ((12.0, 9.0, 0.0), (-20.0, 5.0, 0.0), (0.0, 24.9, 0.0)):
        result = ps.solve(arm, ps.goals.Position(site, target), solver="limb")
        assert result.ok, result.message
        assert np.abs(ps.forward(arm, result.pose).position(site) - target).max() < 1e-9
    far = ps.solve(arm, ps.goals.Position(site, (30.0, 0.0, 0.0)), solver="limb")
    assert not far.ok
    assert far.errors[site] == pytest.approx(5.0)


@pytest.mark.parametrize("limits", [(None, None), ((-0.8, 0.9), (0.2, 1.6)), ((-2.0, 0.1), (-1.2, -0.3))])
def test_it_is_nearest_inside_the_limits(limits):
    figure, rng = generic(limits), np.random.default_rng(0)
    low, high = np.maximum(figure.lower, -np.pi), np.minimum(figure.upper, np.pi)
    for k in range(8):
        target = ps.forward(figure, rng.uniform(low, high)).position("tip")
        if k % 2:
            target = target + 0.3 * rng.normal(size=3)
        result = ps.solve(figure, ps.goals.Position("tip", target), solver="limb")
        miss = np.linalg.norm(ps.forward(figure, result.pose).position("tip") - target)
        assert np.all(result.pose >= figure.lower)
        assert np.all(result.pose <= figure.upper)
        assert miss <= brute(figure, target, low, high) + 1e-9
        if not k % 2:
            assert result.ok
            assert miss < 1e-9


def test_a_batch_on_a_moving_base():
    joints = [
        ps.Joint("root", ps.Free("zyx")),
        ps.Joint("a", ps.Revolute("y"), "root", offset=(0.1, 0, 0)),
        ps.Joint("b", ps.Revolute("y"), "a", offset=(0.4, 0, 0)),
    ]
    figure = ps.Skeleton(joints, [ps.Site("tip", "b", offset=(0.3, 0, 0))]).freeze(["root"])
    targets = np.array([(0.5, 0.0, 0.2), (0.3, 0.0, -0.4), (0.6, 0.0, 0.1)])
    result = ps.solve(figure, ps.goals.Position("tip", targets), solver="limb")
    assert result.ok.all()
    assert np.abs(ps.forward(figure, result.pose).position("tip") - targets).max() < 1e-9


def test_axes_that_are_not_parallel_are_refused():
    joints = [ps.Joint("a", ps.Revolute("z")), ps.Joint("b", ps.Revolute("y"), "a", offset=(1, 0, 0))]
    figure = ps.Skeleton(joints, [ps.Site("tip", "b", offset=(1, 0, 0))])
    with pytest.raises(ps.PosableError, match="parallel hinges"):
        ps.solve(figure, ps.goals.Position("tip", (1, 1, 0)), solver="limb")
