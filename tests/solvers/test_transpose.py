"""The transpose: its step against the formula, Buss's length, and what it refuses."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Position

TARGET = np.array([-3.0, 12.0, 0.0])


def wanted(lab):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    return jacobian, TARGET - ps.forward(lab.arm, lab.start).position("tip")


def test_a_fixed_step(lab):
    jacobian, error = wanted(lab)
    pose = lab.one_step("transpose", TARGET, step=0.001, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, 0.001 * jacobian.T @ error, atol=1e-12)


def test_the_step_of_buss(lab):
    jacobian, error = wanted(lab)
    z = jacobian @ jacobian.T @ error
    pose = lab.one_step("transpose", TARGET, step="buss", **lab.raw)
    np.testing.assert_allclose(pose - lab.start, (error @ z) / (z @ z) * jacobian.T @ error, atol=1e-12)


def test_a_stiffness_scales_the_error(lab):
    jacobian, error = wanted(lab)
    pose = lab.one_step("transpose", TARGET, step=0.001, feedback=0.5, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, 0.0005 * jacobian.T @ error, atol=1e-12)


@pytest.mark.parametrize("step", [0.0, -1.0, "best", float("nan")])
def test_it_refuses_other_steps(lab, step):
    with pytest.raises(SolverError, match="step"):
        lab.get("transpose")(step=step)


def test_it_refuses_gains(lab):
    with pytest.raises(SolverError, match="gains"):
        lab.solve(lab.arm, Position("tip", TARGET), solver=lab.get("transpose")(gains=0.1))
