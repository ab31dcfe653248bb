"""Any arm of six hinges: every pose, against forward kinematics, a search, known counts and the closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable import _solutions
from posable.limb.general_arm import _line, _rotation, _translation, general_arms
from posable.limb.six_axis_arm import six_axis_arm

g = ps.goals
HALF = np.pi / 2
OFFSET_WRIST = [(0, -HALF, 0.245, 0), (0.54, 0, 0, -HALF), (0, -HALF, 0, 0), (0, HALF, 0.54, 0), (0, -HALF, 0.15, 0),
                (0, 0, 0.16, 0)]  # fmt: skip
SKEWED_WRIST = [(0, HALF, 0.2755, 0), (0.41, np.pi, 0, 0), (0, HALF, -0.0098, 0), (0, np.pi / 3, -0.2501, 0),
                (0, np.pi / 3, -0.0856, 0), (0, np.pi, -0.2228, 0)]  # fmt: skip
ANY = [(0.1, 1.2, 0.2, 0), (0.3, -0.9, 0.1, 0), (0.05, 1.7, 0.3, 0), (0.02, 1.1, 0.1, 0), (0.04, -1.4, 0.08, 0),
       (0, 0.3, 0.1, 0)]  # fmt: skip
PUMA = [(0, HALF, 0, 0), (0.4318, 0, 0, 0), (0.0203, -HALF, 0.15, 0), (0, HALF, 0.4318, 0), (0, -HALF, 0, 0),
        (0, 0, 0, 0)]  # fmt: skip
IRB = [(0, -HALF, 0.29, 0), (0.27, 0, 0, -HALF), (0.07, -HALF, 0, 0), (0, HALF, 0.302, 0), (0, -HALF, 0, 0),
       (0, 0, 0.072, 0)]  # fmt: skip
ARMS = {"offset wrist": OFFSET_WRIST, "skewed wrist": SKEWED_WRIST, "any": ANY}


def arm(rows, most=np.pi):
    return ps.from_dh(rows, limits=np.tile([-most, most], (6, 1)))


def gap(poses, pose):
    difference = np.asarray(poses) - pose
    return np.abs(difference - 2 * np.pi * np.round(difference / (2 * np.pi))).max(axis=-1, initial=0.0)


@given(st.lists(st.floats(-3.0, 3.0), min_size=12, max_size=12))
def test_the_numbers_of_a_line_transform_linearly(numbers):
    axis, point, shift, turn = np.reshape(numbers, (4, 3))
    direction = axis / max(np.linalg.norm(axis), 1e-9) if np.linalg.norm(axis) > 1e-3 else np.array([0.0, 0.0, 1.0])
    rotation = Rotation.from_rotvec(turn).as_matrix()
    moved = _line(rotation @ direction, rotation @ point + shift)
    np.testing.assert_allclose(
        _translation(shift) @ _rotation(rotation, 1.0) @ _line(direction, point), moved, atol=1e-9
    )


@pytest.mark.parametrize("name", ARMS)
def test_every_pose_is_found(name):
    skeleton = arm(ARMS[name])
    assert six_axis_arm(skeleton, "tool") is None  # no closed form
    rng = np.random.default_rng(4)
    for pose in rng.uniform(skeleton.lower, skeleton.upper, (60, 6)):
        target = ps.forward(skeleton, pose).matrix("tool")
        found = ps.solutions(skeleton, g.Pose("tool", target))
        assert found.exact
        assert gap(found, pose).min() < 1e-6
        assert np.abs(ps.forward(skeleton, np.asarray(found)).matrix("tool") - target).max() < 1e-7
        assert ((found >= skeleton.lower) & (found <= skeleton.upper)).all()
        assert (np.diff(np.linalg.norm(found - skeleton.rest, axis=1)) >= -1e-9).all()
        assert all(gap(a, b) > 1e-5 for i, a in enumerate(found) for b in found[:i])


def test_it_finds_all_that_a_search_finds(monkeypatch):
    skeleton = arm(OFFSET_WRIST)
    rng = np.random.default_rng(8)
    targets = ps.forward(skeleton, rng.uniform(-np.pi, np.pi, (6, 6))).matrix("tool")
    mine = [ps.solutions(skeleton, g.Pose("tool", target)) for target in targets]
    monkeypatch.setattr("posable._solutions._by_elimination", lambda *_: None)
    for target, found in zip(targets, mine, strict=True):
        others = ps.solutions(skeleton, g.Pose("tool", target))
        assert not others.exact
        assert all(gap(found, pose).min() < 1e-4 for pose in others)


def test_an_offset_wrist_has_up_to_sixteen_poses():
    skeleton = arm(OFFSET_WRIST)
    targets = ps.forward(skeleton, np.random.default_rng(5).uniform(-np.pi, np.pi, (150, 6))).matrix("tool")
    counts = [len(ps.solutions(skeleton, g.Pose("tool", target))) for target in targets]
    assert max(counts) == 16
    assert all(count % 2 == 0 for count in counts)


def test_it_agrees_with_the_closed_form(monkeypatch):
    skeleton = arm(PUMA)
    targets = ps.forward(skeleton, np.random.default_rng(6).uniform(-np.pi, np.pi, (30, 6))).matrix("tool")
    closed = [ps.solutions(skeleton, g.Pose("tool", target)) for target in targets]
    monkeypatch.setattr("posable._solutions._in_closed_form", lambda *_: None)
    for target, theirs in zip(targets, closed, strict=True):
        mine = ps.solutions(skeleton, g.Pose("tool", target))
        assert len(mine) == len(theirs) == 8
        assert all(gap(mine, pose).min() < 1e-5 for pose in theirs)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_arms(seed):
    rng = np.random.default_rng(seed)
    rows = [
        (rng.uniform(-0.4, 0.4), rng.choice([-1, 1]) * rng.uniform(0.3, 2.8), rng.uniform(-0.4, 0.4), 0)
        for _ in range(6)
    ]
    skeleton = ps.from_dh(rows)
    for pose in rng.uniform(-np.pi, np.pi, (3, 6)):
        found = ps.solutions(skeleton, g.Pose("tool", ps.forward(skeleton, pose).matrix("tool")), limits=False)
        assert gap(found, pose).min() < 1e-4


def test_nothing_is_found_out_of_reach():
    skeleton = arm(OFFSET_WRIST)
    target = np.eye(4)
    target[0, 3] = 9.0
    found = ps.solutions(skeleton, g.Pose("tool", target))
    assert found.shape == (0, 6)
    assert found.exact


def test_the_size_of_the_arm_does_not_matter():
    rng = np.random.default_rng(2)
    pose = rng.uniform(-2.0, 2.0, 6)
    for scale in (1e-3, 1e3):
        skeleton = ps.from_dh([(a * scale, alpha, d * scale, theta) for a, alpha, d, theta in ANY])
        goal = g.Pose("tool", ps.forward(skeleton, pose).matrix("tool"), tolerance=(1e-6 * scale, 1e-6))
        assert gap(ps.solutions(skeleton, goal, limits=False), pose).min() < 1e-5


def test_axes_that_are_too_special_are_left_to_the_search():
    twice = [(0, 0, 0.1, 0), (0.3, 0, 0, 0), (0.3, 0, 0, 0), (0.2, 0, 0, 0), (0.2, 0, 0, 0), (0, 0, 0.1, 0)]
    assert not general_arms(ps.from_dh(twice), "tool")  # all axes are parallel


@pytest.mark.parametrize(
    ("rows", "pose"),
    [
        (PUMA, [-1.7573, -0.4624, 1.6465, 2.9468, 1.1844, -2.3643]),
        (PUMA, [1.5463, -1.2976, 1.6188, 4.4323, -0.607, -3.3521]),
        (PUMA, [-2.2121, 0.4363, 1.6183, 0.5492, -1.7062, -1.9958]),
        (IRB, [2.7023, 0.2237, 1.7696, -1.578, -1.2158, 4.9539]),
    ],
)
def test_poses_that_nearly_coincide_are_found_too(rows, pose, monkeypatch):
    """An elbow that is nearly straight: poses are so close to one another that the roots have few digits."""
    figure = arm(rows)
    target = g.Pose("tool", ps.forward(figure, pose).matrix("tool"))
    closed = np.asarray(ps.solutions(figure, target))
    monkeypatch.setattr(_solutions, "_in_closed_form", lambda *_: None)
    found = ps.solutions(figure, target)
    assert len(closed) == len(found) == 8
    assert all(gap(found, one).min() < 1e-5 for one in closed)
