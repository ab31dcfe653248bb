"""Random starts until it is sure: what is reachable is reached, what is not is told with what was seen."""

import numpy as np
import pytest

import posable as ps
from posable.solvers.restarts import count_minima

g = ps.goals


def test_reachable_poses_of_a_robot_are_reached():
    panda = ps.figures.panda()
    rng = np.random.default_rng(1)
    poses = rng.uniform(panda.lower, panda.upper, (60, panda.size))
    targets = ps.forward(panda, poses).matrix("hand")
    alone = ps.solve(panda, g.Pose("hand", targets))
    searched = ps.solve(panda, g.Pose("hand", targets), restarts="auto")
    assert not alone.ok.all()
    assert searched.ok.all()
    assert set(searched.searches) == set(np.flatnonzero(~alone.ok).tolist())
    assert np.array_equal(searched.pose[alone.ok], alone.pose[alone.ok])
    again = ps.solve(panda, g.Pose("hand", targets), restarts="auto")
    assert np.array_equal(searched.pose, again.pose)


def test_what_cannot_be_reached_says_how_sure_it_is():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (-1.0, 1.0)})
    goal = g.Position("tip", (-1.0, 1.2, 0.0), weight=(1, 1, 0))
    result = ps.solve(arm, goal, restarts="auto")
    search = result.searches[0]
    assert result.status == ps.Status.STUCK
    assert not search.reached
    assert search.unseen <= 0.05
    assert f"{search.starts} random starts ended in" in result.message
    rng = np.random.default_rng(7)
    starts = rng.uniform(arm.lower, arm.upper, (300, 2))
    best = ps.solve(arm, goal, start=starts).errors["tip"].min()
    assert result.errors["tip"] == pytest.approx(best, rel=1e-3)


def test_a_proof_ends_it_at_once():
    arm = ps.figures.planar_arm([1.0, 1.0])
    result = ps.solve(arm, g.Position("tip", (5.0, 0.0, 0.0)), restarts="auto")
    assert result.status == ps.Status.OUT_OF_REACH
    assert result.searches == {}


def test_choices_are_searched_too():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (-1.0, 1.0)})
    far = [g.Position("tip", (-1.0, y, 0.0), weight=(1, 1, 0), label=f"at {y}") for y in (1.2, -1.3)]
    result = ps.solve(arm, g.AnyOf(far), restarts="auto")
    assert not result.ok
    assert result.searches[0].starts >= 16


def test_minima_are_told_apart_by_their_energy():
    assert count_minima(np.array([1.0, 1.00001, 2.0, 2.0, 3.0])) == 3
    assert count_minima(np.array([0.5])) == 1


def test_a_stuck_result_says_that_nothing_else_was_tried():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (-1.0, 1.0)})
    goal = g.Position("tip", (-1.0, 1.2, 0.0), weight=(1, 1, 0))
    assert "one start was tried" in ps.solve(arm, goal).message
    assert "5 random starts were stuck as well" in ps.solve(arm, goal, restarts=5).message
    with pytest.raises(ps.PosableError, match="restarts"):
        ps.solve(arm, goal, restarts="many")
