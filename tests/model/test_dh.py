"""Denavit-Hartenberg tables, standard and modified, against products of their matrices."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SkeletonError


def rot_x(a):
    c, s = np.cos(a), np.sin(a)
    return np.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1.0]])


def rot_z(a):
    c, s = np.cos(a), np.sin(a)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])


def move(x=0.0, z=0.0):
    out = np.eye(4)
    out[0, 3], out[2, 3] = x, z
    return out


def product(rows, convention, kinds, q, tool):
    out = np.eye(4)
    for (a, alpha, d, theta), kind, value in zip(rows, kinds, q, strict=True):
        theta, d = (theta + value, d) if kind == "r" else (theta, d + value)
        if convention == "standard":
            out = out @ rot_z(theta) @ move(z=d) @ move(x=a) @ rot_x(alpha)
        else:
            out = out @ rot_x(alpha) @ move(x=a) @ rot_z(theta) @ move(z=d)
    return out @ tool


@pytest.mark.parametrize("kinds", ["rrrrrr", "rprrpr", "pppppp"])
@pytest.mark.parametrize("convention", ["standard", "modified"])
def test_tables(convention, kinds):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.5, 1.5, (6, 4))
    tool = rot_x(0.3) @ move(x=0.1, z=0.2)
    arm = ps.from_dh(rows, convention, kinds=kinds, tool=tool, limits=np.tile([-4.0, 4.0], (6, 1)))
    assert arm.size == 6
    assert arm.names[0] == "joint1"
    assert arm.lower.tolist() == [-4.0] * 6
    for q in rng.uniform(-3, 3, (20, 6)):
        expected = product(rows, convention, kinds, q, tool)
        assert np.allclose(ps.forward(arm, q).matrix("tool"), expected, atol=1e-12)


def test_names_and_defaults():
    arm = ps.from_dh([(1, 0, 0, 0), (1, 0, 0, 0)], names=["upper", "lower"], name="planar")
    assert arm.names == ("upper", "lower")
    assert arm.name == "planar"
    assert np.allclose(ps.forward(arm, [np.pi / 2, -np.pi / 2]).position("tool"), (1, 1, 0))


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([(1, 2, 3)], {}, "row 1: expected 4 finite numbers"),
        ([(1, 2, 3, np.nan)], {}, "row 1: expected 4 finite numbers"),
        ([(1, 2, 3, 4)], {"convention": "craig"}, "expected 'standard' or 'modified'"),
        ([(1, 2, 3, 4)], {"kinds": "rr"}, "expected 1 letters"),
        ([(1, 2, 3, 4)], {"limits": (0, 1)}, r"expected shape \(1, 2\)"),
    ],
)
def test_faults_are_reported(rows, options, said):
    with pytest.raises(SkeletonError, match=said):
        ps.from_dh(rows, **options)
