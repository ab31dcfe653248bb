"""The measures of an orientation error, against quaternions and axes themselves."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from posable.limb.solution import LimbSolution


def test_three_measures_of_an_orientation_error():
    axis = np.array([0.6, 0.0, 0.8])
    for angle in (0.0, 1e-3, 0.7, 3.0):
        solution = LimbSolution(np.zeros(7), False, 0.0, None, "", rotation_error=angle)
        a, b = Rotation.identity().as_quat(), Rotation.from_rotvec(angle * axis).as_quat()
        assert solution.quaternion_error == pytest.approx(1.0 - abs(a @ b), abs=1e-15)
        x, y = np.array([0.0, 1.0, 0.0]), Rotation.from_rotvec(angle * axis).apply([0.0, 1.0, 0.0])
        assert solution.axis_error == pytest.approx((1.0 - x @ y) ** 2, abs=1e-15)  # the axis is across the rotation's
    many = LimbSolution(np.zeros((2, 7)), np.zeros(2), 0.0, None, "", rotation_error=np.array([0.0, np.pi]))
    assert np.allclose(many.axis_error, [0.0, 4.0])
