"""What relaxing a limit gives, followed along the path of solutions, against minimisers that share nothing with it."""

import numpy as np
import pytest
from scipy.optimize import minimize

import posable as ps
from posable.solvers.limit_sensitivity import ConstrainedMinimum

g = ps.goals


def arm():
    return ps.figures.planar_arm([0.5, 0.4, 0.3]).with_limits({f"joint{k}": (-0.9, 1.1) for k in (1, 2, 3)})


def reference(skeleton, goals, start, lower, upper):
    """Return the errors at SciPy's minimum of the energy, whose gradient is a difference."""
    problem = ps.Problem(skeleton, goals)
    box = list(zip(lower, upper, strict=True))
    found = minimize(problem.energy, start, bounds=box, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-11})
    return problem.errors(found.x)


@pytest.mark.parametrize("angle", np.linspace(-3.0, 3.0, 7))
def test_cost_and_gain_are_those_of_an_independent_minimiser(angle):
    skeleton = arm()
    goal = g.Position("tip", (np.cos(angle), np.sin(angle), 0.0), weight=(1, 1, 0))
    result = ps.solve(skeleton, goal)
    for block in result.blocking:
        i = skeleton.dof(block.dof)
        for degrees, predicted in ((1.0, np.radians(1.0) * block.cost["tip"]), (5.0, block.gain["tip"])):
            lower, upper = skeleton.lower.copy(), skeleton.upper.copy()
            (lower if block.side == "lower" else upper)[i] += np.radians(degrees) * (-1 if block.side == "lower" else 1)
            gained = result.errors["tip"] - reference(skeleton, goal, result.pose, lower, upper)["tip"]
            assert predicted == pytest.approx(gained, rel=0.1, abs=2e-5)


def test_a_limit_that_takes_hold_on_the_way_is_met():
    """Beyond a kink of the path the derivative at its beginning is wrong, and the path is right."""
    skeleton = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (-0.02, 1.0)})
    goal = g.Position("tip", (-0.2, 1.6, 0.0), weight=(1, 1, 0))
    result = ps.solve(skeleton, goal)
    before = ConstrainedMinimum(result.problem, result.pose, skeleton.lower, skeleton.upper)
    after, ended = before.relaxed(0, np.radians(60.0), 60)
    assert not ended
    upper = skeleton.upper + np.radians((60.0, 0.0))
    expected = reference(skeleton, goal, result.pose, skeleton.lower, upper)["tip"]
    assert after.errors[0] == pytest.approx(expected, abs=1e-6)
    block = next(block for block in result.blocking if block.dof == "joint1")
    straight_on = result.errors["tip"] - np.radians(60.0) * block.cost["tip"]
    assert abs(straight_on - expected) > 0.05


def test_a_pose_that_is_no_minimum_is_described_as_it_is():
    skeleton = arm()
    goal = g.Position("tip", (-1.0, 0.2, 0.0), weight=(1, 1, 0))
    pose = np.array([1.1, 0.0, 0.0])
    told = ps.explain(skeleton, goal, pose)
    assert [block.dof for block in told.blocking] == ["joint1"]
    assert told.blocking[0].ends
