"""Damped least squares: both forms against NumPy, and what it refuses."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError

TARGET = np.array([-3.0, 12.0, 0.0])


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("damping", [0.1, 3.0])
def test_one_step(lab, form, damping):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    error = TARGET - ps.forward(lab.arm, lab.start).position("tip")
    by_rows = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping**2 * np.eye(3), error)
    pose = lab.one_step("dls", TARGET, damping=damping, form=form, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, by_rows, atol=1e-9)


def test_it_moves_off_nothing_at_a_singular_pose_but_stays_finite(lab):
    pose = lab.one_step("dls", (10.0, 0.0, 0.0), start=np.zeros(3), **lab.raw)  # straight, the goal on its own line
    np.testing.assert_allclose(pose, np.zeros(3), atol=1e-12)


@pytest.mark.parametrize("options", [{"damping": 0.0}, {"form": "square"}], ids=lambda o: next(iter(o)))
def test_it_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("dls")(**options)
