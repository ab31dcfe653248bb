"""The limb, the planar arm, and the Panda against the robot's own description."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import SkeletonError


def test_limb_is_spherical_revolute_spherical():
    limb = ps.figures.limb()
    assert limb.names == ("shoulder", "elbow", "wrist")
    assert [type(joint.motion) for joint in limb.joints] == [ps.Ball, ps.Revolute, ps.Ball]
    assert np.isfinite([limb.lower, limb.upper]).all()
    straight = ps.forward(limb, np.zeros(7))
    np.testing.assert_allclose(straight.position("hand"), (0.65, 0, 0), atol=1e-12)
    np.testing.assert_allclose(straight.rotation_matrix("hand"), np.eye(3), atol=1e-12)
    for joint in ("shoulder", "wrist"):
        middle = limb.index(joint).start + 1
        assert max(-limb.lower[middle], limb.upper[middle]) < np.pi / 2


def test_planar_arm_is_parent_linkagess():
    # Parent, Kinematic Linkages, figure 5.20: links 15, 10, 5 at (pi/8, pi/4, pi/4)
    arm = ps.figures.planar_arm()
    angles = np.array([np.pi / 8, np.pi / 4, np.pi / 4])
    total = np.cumsum(angles)
    tip = ps.forward(arm, angles).position("tip")
    np.testing.assert_allclose(tip, (np.dot((15, 10, 5), np.cos(total)), np.dot((15, 10, 5), np.sin(total)), 0))
    assert arm.names == ("joint1", "joint2", "joint3")
    assert np.isinf([arm.lower, arm.upper]).all()


def test_planar_arm_options():
    arm = ps.figures.planar_arm([1, 2, 3, 4], limits=(-1, 2), rest=0.5)
    assert arm.size == 4
    np.testing.assert_array_equal(arm.lower, [-1] * 4)
    np.testing.assert_array_equal(arm.rest, [0.5] * 4)
    arm = ps.figures.planar_arm([1, 2], limits=[(-1, 1), (0, 2)], rest=(0.1, 0.2))
    np.testing.assert_array_equal(arm.upper, [1, 2])
    np.testing.assert_array_equal(arm.rest, [0.1, 0.2])
    np.testing.assert_allclose(ps.forward(arm, [0, 0]).position("tip"), (3, 0, 0))


@pytest.mark.parametrize("lengths", [(), (1, -1), (1, np.nan), [[1, 2]], (0,)])
def test_planar_arm_refuses_lengths(lengths):
    with pytest.raises(SkeletonError, match="lengths: expected one positive number"):
        ps.figures.planar_arm(lengths)


@pytest.mark.parametrize("options", [{"limits": (1, 2, 3)}, {"rest": (1, 2)}])
def test_planar_arm_refuses_shapes(options):
    with pytest.raises(SkeletonError, match=r"\(3, 2\)"):
        ps.figures.planar_arm(**options)


def numbers(element, attribute, default="0 0 0"):
    return np.array((element.get(attribute) if element is not None else None or default).split(), dtype=float)


def chain_of(path):
    """Return (name, type, constant transform, axis, lower, upper) of the joints from the base to panda_hand_tcp."""
    joints = {joint.find("child").get("link"): joint for joint in ElementTree.parse(path).getroot().findall("joint")}
    chain, link = [], "panda_hand_tcp"
    while link in joints:
        joint = joints[link]
        place = np.eye(4)
        origin = joint.find("origin")
        place[:3, 3] = numbers(origin, "xyz")
        place[:3, :3] = Rotation.from_euler("xyz", numbers(origin, "rpy")).as_matrix()
        limit = joint.find("limit")
        box = None if limit is None else (float(limit.get("lower")), float(limit.get("upper")))
        chain.append((joint.get("name"), link, place, numbers(joint.find("axis"), "xyz", "0 0 1"), box))
        link = joint.find("parent").get("link")
    return chain[::-1]


def test_panda_is_the_robot_of_its_description(data_dir):
    chain = chain_of(data_dir / "urdf" / "erd_panda.urdf")
    panda = ps.figures.panda()
    moving = [row for row in chain if row[4] is not None]
    assert [row[0] for row in moving] == list(panda.names)
    np.testing.assert_array_equal([row[4] for row in moving], np.c_[panda.lower, panda.upper])
    sites = {"panda_link8": "flange", "panda_hand": "hand", "panda_hand_tcp": "tcp"}
    rng = np.random.default_rng(1)
    for pose in (panda.rest, np.zeros(7), *rng.uniform(panda.lower, panda.upper, (20, 7))):
        frames, angles, world = ps.forward(panda, pose), iter(pose), np.eye(4)
        for _, link, place, axis, box in chain:
            turn = np.eye(4)
            if box is not None:
                turn[:3, :3] = Rotation.from_rotvec(axis * next(angles)).as_matrix()
            world = world @ place @ turn
            if link in sites:
                np.testing.assert_allclose(frames.matrix(sites[link]), world, atol=1e-9)


def test_panda_is_ready():
    panda = ps.figures.panda()
    frames = ps.forward(panda, panda.rest)
    np.testing.assert_allclose(frames.position("flange"), (0.306891, 0.0, 0.590282), atol=1e-6)
    np.testing.assert_allclose(frames.rotation_matrix("hand")[:, 2], (0, 0, -1), atol=1e-12)  # the gripper looks down
