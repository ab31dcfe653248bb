"""Recentring of rotation vectors, and the motions' own complaints."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from posable.engine.joints import ROTVEC, SWING, recentre
from posable.model.joints import Ball, Fixed, Free, Planar, Prismatic, Revolute, Universal

WIDE = np.full(3, np.inf)


@pytest.mark.parametrize("length", [0.1, 3.1, 3.2, 4.0, 6.2, 6.4, 9.0, 50.0])
def test_recentre_takes_the_short_way_round_to_the_same_rotation(length):
    theta = length * np.array([0.36, 0.48, 0.8])
    before = Rotation.from_rotvec(theta).as_matrix()
    recentre(ROTVEC, 0, theta, -WIDE, WIDE)
    assert np.linalg.norm(theta) <= math.pi * 1.0000001
    assert np.allclose(Rotation.from_rotvec(theta).as_matrix(), before, atol=1e-12)


def test_recentre_leaves_a_swing_in_its_plane():
    theta = np.array([3.0, 4.0, 7.0])
    recentre(SWING, 0, theta, -WIDE, WIDE)
    assert theta[2] == 7.0
    assert np.hypot(theta[0], theta[1]) <= math.pi


def test_recentre_keeps_the_limits():
    theta = np.array([4.0, 0.0, 0.0])
    recentre(ROTVEC, 0, theta, np.zeros(3), WIDE)
    assert theta[0] == 4.0


@pytest.mark.parametrize(
    ("motion", "names"),
    [
        (Fixed(), []),
        (Revolute("x"), [""]),
        (Universal("zx"), ["z", "x"]),
        (Planar("y"), ["t1", "t2", "turn"]),
        (Ball("zyz"), ["z1", "y2", "z3"]),
        (Ball("rotvec"), ["rx", "ry", "rz"]),
        (Ball("swing-twist"), ["swing1", "swing2", "twist"]),
        (Free("zyx"), ["tx", "ty", "tz", "z", "y", "x"]),
    ],
)
def test_names_of_the_degrees_of_freedom(motion, names):
    assert [dof.name for dof in motion.dofs] == names
    assert motion.size == len(names)
    assert motion.problems() == []


@pytest.mark.parametrize(
    "motion",
    [
        Revolute((0, 0, 0)), Revolute("w"), Revolute((1, np.nan, 0)), Prismatic((1, 2)), Universal("xx"),
        Universal("xyz"), Planar(0), Ball("xxy"), Ball("swing-twist", axis=(0, 0, 0)), Free("abc"),
    ],
)  # fmt: skip
def test_wrong_motions_say_so(motion):
    assert len(motion.problems()) == 1


def test_motions_compare_and_hash():
    assert Revolute([1, 2, 3]) == Revolute((1, 2, 3))
    assert len({Ball("zyx"), Ball("zyx"), Ball("rotvec")}) == 2
