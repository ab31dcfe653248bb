"""The K tensor against differences, for every joint type."""

import numpy as np
import pytest

from posable.engine.layout import work_size
from posable.engine.reference import point_tensor


@pytest.mark.parametrize(
    "motion", ["revolute", "prismatic", "planar", "ball-zyz", "ball-rotvec", "ball-swing-twist-skew", "free-rotvec"]
)
def test_tensor_is_the_second_derivative(lab, motion):
    skeleton = lab.figure_with(lab.motions[motion])
    n, b = skeleton.size, skeleton.figure.body.shape[0]
    work, point = np.zeros(work_size(n, b, 0, 1)), np.array([0.3, -0.2, 0.5])
    pose = np.random.default_rng(0).uniform(-2.5, 2.5, n)

    def both(q):
        jacobian, tensor = np.empty((3, n)), np.empty((3, n, n))
        point_tensor(skeleton.figure, np.ascontiguousarray(q), work, b - 2, point, jacobian, tensor)
        return jacobian, tensor

    _, tensor = both(pose)
    assert np.allclose(tensor, lab.slope(lambda q: both(q)[0], pose), atol=1e-8)
