"""Cyclic coordinate descent: each dof to its exact best value within limits, from the tip or ranked."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Orientation, Position
from posable.solvers import ccd


@pytest.mark.parametrize("seed", range(20))
def test_the_best_turn_is_the_best_of_a_scan(seed):
    rng = np.random.default_rng(seed)
    slope, bend, value = rng.normal(size=3)
    low, high = np.sort(rng.uniform(-6.0, 6.0, size=2)) + np.array([-1.0, 1.0])
    value = np.clip(value, low, high)
    x, gain = ccd.best_turn(slope, bend, value, low, high, np.inf)
    scan = np.linspace(low - value, high - value, 200_001)
    energy = slope * np.sin(scan) - bend * np.cos(scan)
    assert low - 1e-12 <= value + x <= high + 1e-12
    found = slope * np.sin(x) - bend * np.cos(x)
    assert found <= energy[np.abs(scan) <= np.pi].min() + 1e-8
    assert gain == pytest.approx(-bend - found)


def test_the_last_joint_points_at_the_goal_after_one_change(lab):
    arm = ps.figures.planar_arm([15, 10, 5], limits=[(0.3, 0.3), (0.5, 0.5), (-3.0, 3.0)])
    target = np.array([5.0, 20.0, 0.0])
    pose = lab.one_step("ccd", target, start=[0.3, 0.5, 0.2], skeleton=arm)
    frames = ps.forward(arm, pose)
    tip, joint = frames.position("tip"), frames.position("joint3")
    np.testing.assert_allclose(np.cross(tip - joint, target - joint), np.zeros(3), atol=1e-9)
    assert (tip - joint) @ (target - joint) > 0.0


@pytest.mark.parametrize("order", ["tip", "ranked"])
def test_energy_never_rises(lab, order):
    skeleton, goals = lab.reachable("tree", 5, seed=4)
    result = lab.solve(skeleton, goals, solver=lab.get("ccd")(order=order), record=True, max_iterations=30)
    for trace in result.trace:
        assert (np.diff(trace["energy"]) <= 1e-12).all()


def test_it_serves_rotations_and_sliders(lab):
    joints = [ps.Joint("slide", ps.Prismatic("x")), ps.Joint("ball", ps.Ball("zyx"), "slide", offset=(0.2, 0, 0))]
    figure = ps.Skeleton(joints, [ps.Site("end", "ball", (0.3, 0.0, 0.0))])
    frames = ps.forward(figure, [0.4, 0.3, -0.5, 0.8])
    goals = [Position("end", frames.position("end")), Orientation("end", frames.rotation("end"))]
    assert lab.solve(figure, goals, solver="ccd").ok


@pytest.mark.parametrize("options", [{"order": "random"}, {"rest": -1}, {"max_turn": 0.0}])
def test_it_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("ccd")(**options)
