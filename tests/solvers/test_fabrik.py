"""Forward and backward reaching: chains, trees, moving roots, limits; and what it refuses."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Orientation, Pose, Position


def test_an_arm_without_limits_always_reaches(lab):
    rng = np.random.default_rng(0)
    angles = rng.uniform(-np.pi, np.pi, size=(50, 3))
    targets = ps.forward(lab.arm, angles).position("tip")
    result = lab.solve(lab.arm, Position("tip", targets, tolerance=1e-2), start=lab.start, solver="fabrik")
    assert result.ok.mean() > 0.9


def test_it_stretches_towards_a_goal_out_of_reach(lab):
    result = lab.solve(lab.arm, Position("tip", (0.0, 60.0, 0.0)), start=lab.start, solver="fabrik")
    assert result.status == "OUT_OF_REACH"
    np.testing.assert_allclose(ps.forward(lab.arm, result.pose).position("tip"), (0.0, 30.0, 0.0), atol=0.05)


def test_a_moving_root_follows(lab):
    ball = ps.Ball("zyx")
    joints = [
        ps.Joint("root", ps.Free("zyx")),
        ps.Joint("left", ball, "root", offset=(0.0, 0.3, 0.0)),
        ps.Joint("right", ball, "root", offset=(0.0, -0.3, 0.0)),
    ]
    figure = ps.Skeleton(joints, [ps.Site(f"{side}.hand", side, (0.5, 0.0, 0.0)) for side in ("left", "right")])
    near = {"tolerance": 1e-2}  # where two chains meet, their mean closes in slowly
    goals = [Position("left.hand", (3.0, 1.4, 2.0), **near), Position("right.hand", (3.2, 0.6, 1.8), **near)]
    result = lab.solve(figure, goals, solver="fabrik")
    assert result.ok
    assert np.abs(result.pose).max() < 4.0  # a twist that moves nothing is left alone


def test_it_refuses_rotations_and_inner_sliders(lab):
    panda = ps.figures.panda()
    for goal in (
        Orientation("hand", np.eye(3)),
        Pose("hand", np.eye(4)),
        Position("hand", (0, 0, 0), weight=(1, 0, 0)),
    ):
        with pytest.raises(SolverError, match="Position"):
            lab.solve(panda, goal, solver="fabrik")
    joints = [ps.Joint("turn", ps.Revolute("z")), ps.Joint("slide", ps.Prismatic("x"), "turn", offset=(1.0, 0, 0))]
    with pytest.raises(SolverError, match="slide"):
        lab.solve(ps.Skeleton(joints, [ps.Site("end", "slide")]), Position("end", (0, 1, 0)), solver="fabrik")
    with pytest.raises(SolverError, match="fits"):
        lab.get("fabrik")(fits=0)
