"""Motion and markers: interpolation on rotations, resampling, keyframes, gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

import posable as ps
from posable.errors import PosableError, UnknownName
from posable.model.joint_values import joint_transform, rotation_values
from posable.model.joints import EULER_ORDERS, Ball, Fixed, Free, Joint, Planar, Prismatic, Revolute, Universal
from posable.model.kinematics import forward
from posable.model.motion import Markers, Motion, interpolate
from posable.model.skeleton import Skeleton

BALLS = [
    *(Ball(order) for order in EULER_ORDERS),
    Ball("rotvec"),
    *(Ball("swing-twist", axis=axis) for axis in ("x", "-y", "z", (1, 2, 3))),
    Free("zyx"),
    Free("rotvec"),
]
OTHERS = [
    Fixed(),
    Revolute("x"),
    Revolute((1, 1, 0)),
    Prismatic("-y"),
    Prismatic((0, 3, 4)),
    Universal("zx"),
    Planar("y"),
    Planar((1, 2, 2)),
]


@pytest.mark.parametrize("motion", [*BALLS, *OTHERS], ids=repr)
def test_one_joint_moves_as_forward_kinematics_says(motion):
    values = np.random.default_rng(1).uniform(-1.5, 1.5, (5, motion.size))
    skeleton = Skeleton([Joint("root", Fixed()), Joint("a", motion, "root")])
    frames = forward(skeleton, values)
    position, rotation = joint_transform(motion, values)
    np.testing.assert_allclose(np.broadcast_to(frames.position("a"), (5, 3)), position, atol=1e-12)
    np.testing.assert_allclose(
        np.broadcast_to(frames.rotation("a").as_matrix(), (5, 3, 3)), rotation.as_matrix(), atol=1e-12
    )


@pytest.mark.parametrize("motion", BALLS, ids=repr)
@given(seed=st.integers(0, 10_000))
def test_rotations_come_back_as_the_nearest_numbers(motion, seed):
    generator = np.random.default_rng(seed)
    values = generator.uniform(-1.2, 1.2, (8, motion.size))
    _, rotation = joint_transform(motion, values)
    found = rotation_values(motion, rotation, values[:, -3:] + generator.normal(scale=0.05, size=(8, 3)))
    full = values.copy()
    full[:, -3:] = found
    _, again = joint_transform(motion, full)
    assert (again.inv() * rotation).magnitude().max() < 1e-7
    assert np.abs(found - values[:, -3:]).max() < np.pi


def figure():
    return Skeleton(
        [
            Joint("hips", Free("zyx")),
            Joint("arm", Ball("xyz"), "hips", offset=(0, 1, 0)),
            Joint("elbow", Revolute("x"), "arm", offset=(1, 0, 0)),
        ]
    )


def test_at_takes_the_shortest_rotation():
    skeleton = figure()
    poses = np.zeros((2, skeleton.size))
    poses[1] = skeleton.pose({"hips": (2, 4, 6, 0.5, -0.4, 1.0), "arm": (3.0, 0.2, -0.3), "elbow": 1.0})
    motion = Motion(skeleton, poses, 10)
    pose = motion.at(0.03)
    np.testing.assert_allclose(pose[:3], (0.6, 1.2, 1.8))
    assert pose[-1] == pytest.approx(0.3)
    ends = Rotation.concatenate([joint_transform(Ball("xyz"), p[6:9])[1] for p in poses])
    expected = Slerp([0, 1], ends)(0.3)
    found = joint_transform(Ball("xyz"), pose[6:9])[1]
    assert (expected.inv() * found).magnitude() < 1e-12


def test_at_frames_and_outside():
    generator = np.random.default_rng(0)
    motion = Motion(figure(), np.cumsum(generator.normal(scale=0.3, size=(30, 10)), axis=0), 29.97)
    np.testing.assert_array_equal(motion.at(motion.times), motion.poses)
    np.testing.assert_array_equal(motion.at(-5), motion.poses[0])
    np.testing.assert_array_equal(motion.at(1e6), motion.poses[-1])
    assert motion.at(0.1).shape == (10,)
    assert motion.at([[0.1, 0.2, 0.3]]).shape == (1, 3, 10)
    assert motion.duration == pytest.approx(29 / 29.97)


def test_interpolated_angles_do_not_jump():
    time = np.linspace(0, 4 * np.pi, 40)[:, None]
    poses = np.hstack([np.zeros((40, 3)), time, 0.5 * np.sin(time), 0.3 * np.cos(time), np.zeros((40, 3)), time])
    fine = Motion(figure(), poses, 10).resample(100)
    assert np.abs(np.diff(fine.poses, axis=0)).max() < 0.2
    assert fine.poses[-1, 3] == pytest.approx(4 * np.pi)


@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_resampling_up_and_down_is_the_same(factor):
    motion = Motion(figure(), np.random.default_rng(3).normal(scale=0.5, size=(20, 10)), 24)
    there = motion.resample(24 * factor)
    assert len(there) == 19 * factor + 1
    np.testing.assert_allclose(there.resample(24).poses, motion.poses, atol=1e-12)


def test_keyframes():
    skeleton = figure()
    poses = [skeleton.pose(), skeleton.pose({"elbow": 1.0}), skeleton.pose({"elbow": -1.0})]
    motion = Motion.from_keyframes(skeleton, [0, 0.5, 2.5], poses, fps=10)
    assert len(motion) == 26
    assert motion.poses[5][-1] == 1.0
    assert motion.poses[15][-1] == pytest.approx(0.0)
    with pytest.raises(PosableError, match="increasing"):
        Motion.from_keyframes(skeleton, [0, 0, 1], poses)


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_an_edit_fades_by_rotation(ball):
    skeleton = Skeleton([Joint("a", ball), Joint("b", Revolute("x"), "a", limits=(0.0, 1.0))])
    rng = np.random.default_rng(3)
    poses = np.cumsum(0.02 * rng.normal(size=(41, skeleton.size)), axis=0)
    poses[:, -1] = 0.5
    edit = poses[20] + 0.8 * rng.normal(size=skeleton.size)
    edit[-1] = 0.9
    motion = Motion(skeleton, poses, 30.0).edited(20, edit, reach=9)
    assert np.array_equal(motion.poses[20], edit)
    assert np.array_equal(motion.poses[:11], poses[:11])
    assert np.array_equal(motion.poses[30:], poses[30:])
    turns = joint_transform(ball, motion.poses[:, :-1])[1]
    before = joint_transform(ball, poses[:, :-1])[1]
    change = before[20].inv() * turns[20]
    for frame in (12, 17, 24, 29):
        share = np.cos(0.5 * np.pi * abs(frame - 20) / 10) ** 2
        expected = before[frame] * Rotation.from_rotvec(share * change.as_rotvec())
        assert (expected.inv() * turns[frame]).magnitude() < 1e-9
    assert motion.poses[18, -1] == pytest.approx(0.5 + 0.4 * np.cos(0.1 * np.pi) ** 2)


def test_an_edit_stays_within_the_limits_that_were_held():
    skeleton = Skeleton([Joint("a", Revolute("x"), limits=(0.0, 1.0))])
    motion = Motion(skeleton, np.array([[0.9], [0.2], [1.5], [0.2]]), 30.0).edited(1, [1.0], reach=2)
    assert motion.poses[:, 0] == pytest.approx([1.0, 1.0, 1.5 + 0.8 * 0.75, 0.2 + 0.8 * 0.25])
    for wrong in ((7, [0.5], 2), (0, [0.5], -1), (0, [0.5, 0.5], 1), (0, [np.nan], 1)):
        with pytest.raises(PosableError):
            motion.edited(wrong[0], wrong[1], reach=wrong[2])


def test_empty_and_single_motions():
    skeleton = figure()
    empty = Motion(skeleton, np.zeros((0, 10)), 30)
    assert len(empty.resample(60)) == 0
    with pytest.raises(PosableError, match="at least one frame"):
        empty.at(0)
    one = Motion(skeleton, skeleton.rest[None], 30)
    np.testing.assert_array_equal(one.at([0, 1, 2]), np.repeat(skeleton.rest[None], 3, axis=0))
    assert len(one.resample(60)) == 1
    assert interpolate(skeleton, [0, 1], np.zeros((2, 10)), []).shape == (0, 10)


@pytest.mark.parametrize(
    ("poses", "fps", "message"),
    [
        (np.zeros((3, 9)), 30, r"expected shape \(T, 10\)"),
        (np.zeros(10), 30, "expected shape"),
        ("poses", 30, "expected numbers"),
        (np.zeros((3, 10)), 0, "frames per second"),
        (np.zeros((3, 10)), float("nan"), "frames per second"),
        (np.zeros((3, 10)), "fast", "frames per second"),
    ],
)
def test_a_wrong_motion(poses, fps, message):
    with pytest.raises(PosableError, match=message):
        Motion(figure(), poses, fps)


def test_poses_cannot_be_changed_by_accident():
    poses = np.zeros((3, 10))
    motion = Motion(figure(), poses, 30)
    with pytest.raises(ValueError, match="read-only"):
        motion.poses[0, 0] = 1
    poses[0, 0] = 1  # the caller's own array stays the caller's


def test_markers():
    positions = np.zeros((4, 2, 3))
    positions[1, 1] = np.nan
    markers = Markers(["a", "b"], positions, 100, up="z")
    assert markers.names == ("a", "b")
    assert markers.index("b") == 1
    assert markers.seen.sum() == 7
    assert markers.select(["b"]).positions.shape == (4, 1, 3)
    assert "2 over 4 frames" in repr(markers)
    with pytest.raises(UnknownName):
        markers.index("c")
    for wrong in ({"names": ["a"]}, {"positions": np.zeros((4, 2))}, {"fps": -1}, {"up": "x"}):
        with pytest.raises(PosableError):
            Markers(**{"names": ["a", "b"], "positions": positions, "fps": 100, **wrong})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_poses_are_finite(value):
    arm = ps.figures.planar_arm([1, 1])
    poses = np.zeros((3, arm.size))
    poses[2, 1] = value
    with pytest.raises(
        ps.PosableError, match=rf"finite numbers up to .*, got {value} for '{arm.dof_names[1]}' in frame 2"
    ):
        ps.Motion(arm, poses, 30.0)


@pytest.mark.parametrize("wrong", [1e-310, 1e12, 1e300])
def test_rates_and_lengths_out_of_range_are_refused_before_they_are_allocated(wrong):
    arm = ps.figures.planar_arm([1, 1])
    motion = ps.Motion(arm, np.zeros((3, arm.size)), 30.0)
    for make in (
        lambda: ps.Motion(arm, np.zeros((3, arm.size)), wrong),
        lambda: ps.Markers(["a"], np.zeros((3, 1, 3)), wrong),
        lambda: motion.resample(wrong),
        lambda: ps.keyframes(arm, {0.0: arm.rest, 1.0: arm.rest}, fps=wrong),
    ):
        with pytest.raises(PosableError, match="frames per second, got"):
            make()
    with pytest.raises(PosableError, match=r"at most 1e\+07 frames"):
        ps.keyframes(arm, {0.0: arm.rest, 1e7 + wrong: arm.rest})
    with pytest.raises(PosableError, match=r"up to 1e\+30"):
        ps.Motion(arm, np.full((1, arm.size), 1e31), 30.0)
    with pytest.raises(PosableError, match=r"up to 1e\+30 m"):
        ps.Markers(["a"], np.full((1, 1, 3), -1e31), 30.0)
    for seconds in (1e6 + wrong, "a", -1.0):
        with pytest.raises(PosableError, match="up to 1000"):
            ps.smooth(motion, seconds)
