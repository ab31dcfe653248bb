"""Explanations: rank and freedom against an explicit Jacobian, limits near and active."""

import numpy as np

import posable as ps

g = ps.goals


def test_rank_and_freedom_are_those_of_the_jacobian():
    panda = ps.figures.panda()
    pose = panda.rest
    target = ps.forward(panda, pose).matrix("hand")
    told = ps.explain(panda, g.Pose("hand", target, weight=(1.0, 1.0)), pose)
    jacobian = ps.jacobian(panda, pose, "hand", rows="pose")
    assert told.rows == 6
    assert told.rank == np.linalg.matrix_rank(jacobian) == 6
    assert told.freedom == 1
    assert np.allclose(told.singular_values[:6], np.linalg.svd(jacobian)[1], atol=1e-6)
    assert np.isclose(told.manipulability, np.sqrt(np.linalg.det(jacobian @ jacobian.T)))
    assert np.allclose(jacobian @ told.redundant[0], 0.0, atol=1e-7)
    assert told.reached


def test_a_straight_arm_is_singular():
    arm = ps.figures.planar_arm([1.0, 1.0])
    told = ps.explain(arm, g.Position("tip", (2.0, 0.0, 0.0), weight=(1, 1, 0)), [0.0, 0.0])
    assert told.rows == 2
    assert told.rank == 1
    assert told.singular
    assert told.over_constrained
    assert "singularity" in str(told)


def test_only_goals_that_miss_are_said_to_be_at_the_expense_of_others():
    arm = ps.figures.planar_arm([1.0, 1.0])
    far, there = g.Position("tip", (3.0, 0.0, 0.0)), g.Position("tip", (2.0, 0.0, 0.0))
    assert "no motion of the joints moves the body in one direction" in str(ps.explain(arm, far, [0.0, 0.0]))
    assert "all are met" in str(ps.explain(arm, there, [0.0, 0.0]))
    for goals, conflict in (([far], False), ([there], False), ([far, there], True)):
        assert ("at the expense of others" in str(ps.explain(arm, goals, [0.0, 0.0]))) == conflict


def test_limits_near_and_active_and_what_blocks():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (0.0, 1.0)})
    goal = g.Position("tip", (0.5, 1.2, 0.0))
    told = ps.explain(arm, goal, ps.solve(arm, goal).pose)
    assert {(limit.dof, limit.side) for limit in told.near if limit.active} == {
        ("joint1", "upper"),
        ("joint2", "upper"),
    }
    assert told.held == 2
    assert told.blocking
    assert "Blocking limits" in str(told)
    assert told.as_dict()["blocking"][0]["dof"] in arm.dof_names
