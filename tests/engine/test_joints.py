"""Sines, cosines and the exponential map to the last digits; recentring of rotation vectors; wrong motions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from posable.engine.jit import mode
from posable.engine.joints import (
    ROTVEC,
    SWING,
    exponential_coefficients,
    left_jacobian_column,
    left_jacobian_rate,
    recentre,
    sines_cosines,
)
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


# relative errors of a, b, c, b', c' below half a radian: rounding, and for the derivatives the first term left out
LAST_DIGITS = 2e-16, 1.5e-16, 2e-16, 2.4e-15, 9e-16


def ulps(a, b):
    """Return the distance in units of b's last place."""
    return np.abs(a - b) / np.spacing(np.abs(b))


@pytest.mark.parametrize("reach", [1e-300, 1e-8, 0.1, math.pi, 10.0, 1e3, 9.9e4])
def test_sines_and_cosines_to_2_ulp(reach):
    angles = np.random.default_rng(0).uniform(-reach, reach, 20_000)
    sine, cosine = np.empty_like(angles), np.empty_like(angles)
    sines_cosines(angles, sine, cosine)
    assert ulps(sine, np.sin(angles)).max() <= 2.0
    assert ulps(cosine, np.cos(angles)).max() <= 2.0


def test_sines_and_cosines_at_special_angles():
    quarters = np.arange(-40, 41) * (0.5 * np.pi)
    angles = np.concatenate([quarters, quarters + 0.25 * np.pi, [0.0, 1e6, -1e9, 1e15]])
    if mode() != "python":  # whose `math` raises
        angles = np.append(angles, [np.inf, np.nan])
    sine, cosine = np.empty_like(angles), np.empty_like(angles)
    sines_cosines(angles, sine, cosine)
    with np.errstate(invalid="ignore"):
        assert np.allclose(sine, np.sin(angles), rtol=5e-16, atol=1e-19, equal_nan=True)
        assert np.allclose(cosine, np.cos(angles), rtol=5e-16, atol=1e-19, equal_nan=True)


@pytest.mark.parametrize("t", [0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.4999, 0.5, 0.5001, 1.0, 3.0, math.pi, 4.0, 6.2])
def test_exponential_coefficients(t):
    """Against the series with many terms: sums of alternating fractions, exact where the closed forms cancel."""
    z = t * t

    def series(first, by_square=False):
        total = 0.0
        for k in range(40, -1, -1):
            term = (-1.0) ** k / math.factorial(2 * k + first)
            total += term * (k * z ** (k - 1) if k else 0.0) if by_square else term * z**k
        return total

    expected = series(1), series(2), series(3), series(2, True), series(3, True)
    assert np.allclose(exponential_coefficients(z), expected, rtol=2e-12, atol=1e-15)


@pytest.mark.parametrize("z", [0.01, 0.1, 0.2, 0.21, 0.22, 0.23, 0.24, 0.245, 0.2499])
def test_the_series_are_exact_to_the_last_digits(z):
    """Against exact fractions: every term of the five series counts."""

    def series(first, by_square):
        total = Fraction(0)
        for k in range(25):
            term = Fraction((-1) ** k, math.factorial(2 * k + first))
            total += term * (k * Fraction(z) ** (k - 1) if k else 0) if by_square else term * Fraction(z) ** k
        return total

    exact = [series(1, False), series(2, False), series(3, False), series(2, True), series(3, True)]
    for found, value, error in zip(exponential_coefficients(z), exact, LAST_DIGITS, strict=True):
        assert abs(Fraction(found) - value) <= Fraction(error) * abs(value)


@pytest.mark.parametrize("length", [0.0, 1e-9, 0.3, 0.49, 0.51, 2.0, math.pi, 5.0])
def test_left_jacobian_and_its_rate(lab, length):
    """The columns are the angular velocities of the exponential map, the rates are their derivatives."""
    w = length * np.array([0.6, -0.64, 0.48])

    def columns(w):
        _, b, c, _, _ = exponential_coefficients(float(w @ w))
        return np.array([left_jacobian_column(*w, b, c, k) for k in range(3)]).T

    spin = lab.slope(lambda v: Rotation.from_rotvec(v).as_matrix(), w) @ np.eye(3)
    angular = np.einsum("ijk,lj->ilk", spin, Rotation.from_rotvec(w).as_matrix())
    assert np.allclose(columns(w), [angular[2, 1], angular[0, 2], angular[1, 0]], atol=1e-10)
    _, b, c, db, dc = exponential_coefficients(float(w @ w))
    rates = np.array([[left_jacobian_rate(*w, b, c, db, dc, k, m) for m in range(3)] for k in range(3)])
    assert np.allclose(rates.transpose(2, 0, 1), lab.slope(columns, w), atol=1e-9)
