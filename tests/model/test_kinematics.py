"""Forward kinematics against a slow one made of SciPy rotations, on random trees; and frames by name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import PosableError
from posable.model.joints import EULER_ORDERS, unit_axis

AXES = st.sampled_from(["x", "-y", "z", (1.0, 2.0, -0.5), (0.0, -1.0, 0.3)])
MOTIONS = st.one_of(
    st.just(ps.Fixed()),
    AXES.map(ps.Revolute),
    AXES.map(ps.Prismatic),
    AXES.map(ps.Planar),
    st.sampled_from(["xy", "zx", "yz"]).map(ps.Universal),
    st.sampled_from([*EULER_ORDERS, "rotvec"]).map(ps.Ball),
    AXES.map(lambda axis: ps.Ball("swing-twist", axis=axis)),
    st.sampled_from(["zyx", "xyx", "rotvec", "swing-twist"]).map(ps.Free),
)
VECTORS = st.tuples(*[st.floats(-2, 2, width=32)] * 3)
ROTATIONS = st.one_of(st.none(), VECTORS.map(Rotation.from_rotvec))


@st.composite
def figures(draw):
    """Draw a random tree with a site on its last joint, and a pose."""
    count = draw(st.integers(1, 6))
    joints = [
        ps.Joint(
            f"j{k}", draw(MOTIONS), f"j{draw(st.integers(0, k - 1))}" if k else None,
            offset=draw(VECTORS), rotation=draw(ROTATIONS),
        )
        for k in range(count)
    ]  # fmt: skip
    skeleton = ps.Skeleton(joints, [ps.Site("tip", f"j{count - 1}", draw(VECTORS), draw(ROTATIONS))])
    pose = np.array(draw(st.lists(st.floats(-7, 7, width=32), min_size=skeleton.size, max_size=skeleton.size)))
    return skeleton, pose


def transform(rotation=None, translation=(0.0, 0.0, 0.0)):
    out = np.eye(4)
    out[:3, :3] = np.eye(3) if rotation is None else rotation.as_matrix()
    out[:3, 3] = translation
    return out


def ball(order, axis, q):
    """A ball joint's rotation, by SciPy."""
    if order == "rotvec":
        return Rotation.from_rotvec(q)
    if order != "swing-twist":
        return Rotation.from_euler(order.upper(), q)
    # the swing's two axes are the motion's own choice: its frame's second and third after the limb's axis
    motion = ps.Ball("swing-twist", axis=axis)
    k = motion.dofs[0].axis
    frame = motion.basis
    swing = q[0] * frame[:, (k + 1) % 3] + q[1] * frame[:, (k + 2) % 3]
    return Rotation.from_rotvec(swing) * Rotation.from_rotvec(q[2] * unit_axis(axis))


def moved(motion, q):
    """The motion's transform, by SciPy."""
    if isinstance(motion, ps.Revolute):
        return transform(Rotation.from_rotvec(q[0] * unit_axis(motion.axis)))
    if isinstance(motion, ps.Prismatic):
        return transform(None, q[0] * unit_axis(motion.axis))
    if isinstance(motion, ps.Universal):
        return transform(Rotation.from_euler(motion.axes.upper(), q))
    if isinstance(motion, ps.Planar):
        k = motion.dofs[2].axis
        slide = motion.basis @ (q[0] * np.eye(3)[(k + 1) % 3] + q[1] * np.eye(3)[(k + 2) % 3])
        return transform(Rotation.from_rotvec(q[2] * unit_axis(motion.normal)), slide)
    if isinstance(motion, ps.Free):
        return transform(ball(motion.order, "x", q[3:]), q[:3])
    if isinstance(motion, ps.Ball):
        return transform(ball(motion.order, motion.axis, q))
    return np.eye(4)


def slow_forward(skeleton, pose):
    """World transforms (4, 4) of all joints and sites, by name."""
    out = {None: np.eye(4)}
    for joint in skeleton.joints:
        here = out[joint.parent] @ transform(joint.rotation, joint.offset)
        out[joint.name] = here @ moved(joint.motion, pose[skeleton.index(joint.name)])
    for site in skeleton.sites:
        out[site.name] = out[site.joint] @ transform(site.rotation, site.offset)
    del out[None]
    return out


@given(figures())
def test_forward_is_the_product_of_the_transforms(example):
    skeleton, pose = example
    frames = ps.forward(skeleton, pose)
    for name, expected in slow_forward(skeleton, pose).items():
        assert np.allclose(frames.matrix(name), expected, atol=1e-12)


@pytest.fixture
def arm():
    return ps.Skeleton(
        [
            ps.Joint("shoulder", ps.Ball("zyx"), offset=(0, 0, 1.0), mass=2.0, center=(0.5, 0, 0)),
            ps.Joint("elbow", ps.Revolute("y"), "shoulder", offset=(1.0, 0, 0), mass=1.0, center=(0.25, 0, 0)),
        ],
        [ps.Site("hand", "elbow", (0.5, 0, 0), Rotation.from_euler("Z", 90, degrees=True))],
    )


def test_batches_lead(arm):
    poses = np.random.default_rng(0).uniform(-2, 2, (3, 5, arm.size))
    frames = ps.forward(arm, poses)
    assert frames.position("hand").shape == (3, 5, 3)
    assert frames.rotation_matrix("hand").shape == (3, 5, 3, 3)
    assert frames.matrix("hand").shape == (3, 5, 4, 4)
    assert frames.quaternion_wxyz("hand").shape == (3, 5, 4)
    assert frames.convert((0, 0, 0), from_="hand").shape == (3, 5, 3)
    one = ps.forward(arm, poses[1, 2])
    assert np.array_equal(one.matrix("hand"), frames.matrix("hand")[1, 2])
    turns = frames.rotation("hand").as_matrix()
    if hasattr(Rotation, "shape"):
        assert frames.rotation("hand").shape == (3, 5)
        assert np.allclose(turns, frames.rotation_matrix("hand"))
    assert turns.size == 15 * 9


def test_many_frames_at_once(arm):
    names = (*arm.names, *arm.site_names)
    for pose in (arm.rest + 0.3, np.random.default_rng(1).normal(size=(2, 3, arm.size))):
        frames = ps.forward(arm, pose)
        positions, turns = frames.many(names)
        for k, name in enumerate(names):
            assert positions[..., k, :] == pytest.approx(frames.position(name))
            assert turns[..., k, :, :] == pytest.approx(frames.rotation_matrix(name))


def test_conversions_go_there_and_back(arm):
    frames = ps.forward(arm, np.random.default_rng(1).uniform(-2, 2, arm.size))
    point = np.array([0.3, -0.4, 0.5])
    there = frames.convert(point, from_="hand", to="shoulder")
    assert np.allclose(frames.convert(there, from_="shoulder", to="hand"), point)
    assert np.allclose(frames.convert((0, 0, 0), from_="hand"), frames.position("hand"))
    assert np.allclose(frames.convert(frames.position("elbow"), to="elbow"), 0.0)
    assert np.array_equal(frames.position("world"), np.zeros(3))
    assert np.array_equal(frames.rotation_matrix("world"), np.eye(3))


def test_quaternions_are_scipys_with_w_first(arm):
    frames = ps.forward(arm, np.random.default_rng(2).uniform(-3, 3, arm.size))
    w, x, y, z = frames.quaternion_wxyz("hand")
    assert w >= 0.0
    assert np.allclose(Rotation.from_quat([x, y, z, w]).as_matrix(), frames.rotation_matrix("hand"))


def test_centre_of_mass(arm):
    frames = ps.forward(arm, arm.rest)
    assert np.allclose(frames.center_of_mass(), (2 * np.array([0.5, 0, 1]) + np.array([1.25, 0, 1])) / 3)
    weightless = ps.Skeleton([ps.Joint("a", ps.Revolute("x"))])
    with pytest.raises(PosableError, match="mass"):
        ps.forward(weightless, weightless.rest).center_of_mass()


def test_wrong_calls(arm):
    with pytest.raises(PosableError, match="did you mean 'hand'"):
        ps.forward(arm, arm.rest).position("hnad")
    with pytest.raises(PosableError, match=r"expected shape \(\.\.\., 4\), got \(3,\)"):
        ps.forward(arm, np.zeros(3))
    with pytest.raises(PosableError, match="pose: expected numbers"):
        ps.forward(arm, "no pose")
    with pytest.raises(PosableError, match="point: expected shape"):
        ps.forward(arm, arm.rest).convert((1.0, 2.0))


def test_an_empty_batch(arm):
    assert ps.forward(arm, np.zeros((0, arm.size))).position("hand").shape == (0, 3)


def test_a_qpos_in_place_of_a_pose_says_how_to_convert_it():
    from types import SimpleNamespace

    arm = ps.Joint("arm", ps.Revolute("x"), "root", offset=(0.0, 0.0, 1.0))
    robot = ps.Skeleton([ps.Joint("root", ps.Free("zyx")), arm])
    goal = ps.goals.Position("arm", (1.0, 0.0, 0.0))
    for qpos in (np.zeros(8), SimpleNamespace(qpos=np.zeros(8))):
        with pytest.raises(PosableError, match="from_qpos converts MuJoCo's qpos to a pose"):
            ps.forward(robot, qpos)
        with pytest.raises(PosableError, match="from_qpos converts MuJoCo's qpos to a pose"):
            ps.solve(robot, goal, start=qpos)
    with pytest.raises(PosableError, match=r"got shape \(6,\)$"):
        ps.solve(robot, goal, start=np.zeros(6))
