"""Singular values: the step against NumPy's pinv with a threshold, and the projection of the final pose."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Position

TARGET = np.array([-3.0, 12.0, 0.0])


@pytest.mark.parametrize("threshold", [1e-6, 0.9])
def test_one_step(lab, threshold):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    error = TARGET - ps.forward(lab.arm, lab.start).position("tip")
    pose = lab.one_step("svd", TARGET, threshold=threshold, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, np.linalg.pinv(jacobian, rcond=threshold) @ error, atol=1e-9)


def test_limits_count_only_at_the_end(lab):
    arm = ps.figures.planar_arm([15, 10, 5], limits=(-0.9, 0.9))
    goal = Position("tip", (-10.0, 10.0, 0.0))
    final = lab.solve(arm, goal, start=lab.start, solver="svd")
    free = lab.solve(arm, goal, start=lab.start, solver="svd", limits=False)
    assert free.ok
    np.testing.assert_allclose(final.pose, np.clip(free.pose, -0.9, 0.9), atol=1e-12)
    assert not final.ok
    better = lab.solve(arm, goal, start=lab.start, solver=lab.get("svd")(bounds="inside"))
    assert better.errors["tip"] <= final.errors["tip"]


def test_it_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="threshold"):
        lab.get("svd")(threshold=1.5)


def test_a_pose_that_is_only_put_into_the_box_at_the_end_is_not_called_stationary():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint2": (-0.1, 0.1)})
    result = ps.solve(arm, Position("tip", (0.3, 1.0, 0.0)), solver="svd")
    assert not result.ok
    assert abs(result.problem.gradient(result.pose)[0]) > 1e-3  # joint1 could still bring it nearer
    assert result.status == "OUT_OF_ITERATIONS"
