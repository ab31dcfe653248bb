"""QR: the shortest step where rows are few, least squares where they are many."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Position

TARGET = np.array([-3.0, 12.0, 0.0])


def test_few_rows(lab):
    arm = ps.figures.planar_arm([5, 4, 3, 2, 2])
    start = np.array([0.3, 0.4, -0.2, 0.5, 0.1])
    jacobian = ps.jacobian(arm, start, "tip", rows="position")
    error = TARGET - ps.forward(arm, start).position("tip")
    pose = lab.one_step("qr", TARGET, start=start, skeleton=arm, **lab.raw)
    np.testing.assert_allclose(pose - start, np.linalg.pinv(jacobian) @ error, atol=1e-10)


def test_many_rows(lab):
    goals = [Position("tip", TARGET, tolerance=1e-12), Position("joint3", (1.0, 2.0, 0.0), tolerance=1e-12)]
    frames = ps.forward(lab.arm, lab.start)
    jacobian = np.vstack([ps.jacobian(lab.arm, lab.start, name, rows="position") for name in ("tip", "joint3")])
    error = np.concatenate([TARGET - frames.position("tip"), [1.0, 2.0, 0.0] - frames.position("joint3")])
    method = lab.get("qr")(**lab.raw)
    pose = lab.solve(lab.arm, goals, start=lab.start, solver=method, max_iterations=1).pose
    np.testing.assert_allclose(pose - lab.start, np.linalg.lstsq(jacobian, error)[0], atol=1e-9)


def test_it_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="relative"):
        lab.get("qr")(relative=-1.0)
