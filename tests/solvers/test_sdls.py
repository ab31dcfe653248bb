"""Selectively damped least squares: the text's formulas in NumPy, and the clamp on angles."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError


def by_the_text(jacobian, error, most):
    """Buss and Kim 2005 for one effector of three rows."""
    u, sigma, vt = np.linalg.svd(jacobian)
    total = np.zeros(jacobian.shape[1])
    for i in range(min(jacobian.shape)):
        if sigma[i] < 1e-9:
            continue
        share = np.linalg.norm(u[:, i])
        reach = np.abs(vt[i]) @ np.linalg.norm(jacobian, axis=0) / sigma[i]
        phi = u[:, i] @ error / sigma[i] * vt[i]
        gamma = most * min(1.0, share / reach)
        total += phi * min(1.0, gamma / np.abs(phi).max())
    return total * min(1.0, most / np.abs(total).max())


@pytest.mark.parametrize("target", [(-3.0, 12.0, 0.0), (6.0, 24.0, 0.0), (29.0, 1.0, 0.0)])
def test_one_step(lab, target):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    error = np.array(target) - ps.forward(lab.arm, lab.start).position("tip")
    pose = lab.one_step("sdls", target, clamp=np.inf, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, by_the_text(jacobian, error, np.pi / 4), atol=1e-9)
    assert np.abs(pose - lab.start).max() <= np.pi / 4 + 1e-12


def test_it_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="max_angle"):
        lab.get("sdls")(max_angle=0.0)
