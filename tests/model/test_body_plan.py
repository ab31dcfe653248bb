"""Roles by geometry: a ball joint that a file spells as three hinges is one joint."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.model.body_plan import body_plan
from posable.model.shapes import capsule


def leg(side, y):
    hinges = [("pitch", "y", (0, y, 0)), ("roll", "x", (0, 0.05 * np.sign(y), -0.03)), ("yaw", "z", (0.02, 0, -0.12))]
    joints, parent = [], "pelvis"
    for kind, axis, offset in hinges:
        joints.append(ps.Joint(f"{side}_hip_{kind}_joint", ps.Revolute(axis), parent, offset=offset))
        parent = joints[-1].name
    joints.append(ps.Joint(f"{side}_knee_joint", ps.Revolute("y"), parent, offset=(-0.08, 0, -0.18)))
    joints.append(ps.Joint(f"{side}_ankle_pitch_joint", ps.Revolute("y"), f"{side}_knee_joint", offset=(0, 0, -0.3)))
    joints.append(
        ps.Joint(f"{side}_ankle_roll_joint", ps.Revolute("x"), f"{side}_ankle_pitch_joint", offset=(0, 0, -0.02))
    )
    return joints


@pytest.fixture(scope="module")
def robot():
    joints = [ps.Joint("pelvis", ps.Free("rotvec")), *leg("left", 0.06), *leg("right", -0.06)]
    return ps.Skeleton(joints, [], "biped", up="z")


def test_the_last_hinge_carries_the_bone_and_the_axes_say_where_it_turns(robot):
    plan = body_plan(robot)
    assert plan["hip.L"] == "left_hip_yaw_joint"
    assert plan["ankle.R"] == "right_ankle_roll_joint"
    center = plan.place("hip.L")
    rest = ps.forward(robot, robot.rest)
    for name, axis in (("pitch", (0, 1, 0)), ("roll", (1, 0, 0))):
        away = center - rest.position(f"left_hip_{name}_joint")
        assert np.linalg.norm(away - (away @ axis) * np.array(axis)) < 0.03
    np.testing.assert_allclose(plan.point("knee.L"), 0.0, atol=1e-12)


def test_the_center_hardly_moves_when_the_hip_turns(robot):
    plan = body_plan(robot)
    pose = robot.pose({"left_hip_pitch_joint": 0.6, "left_hip_roll_joint": 0.4, "left_hip_yaw_joint": 0.5})
    frames = ps.forward(robot, pose)
    moved = frames.convert(plan.point("hip.L"), from_=plan["hip.L"], to="world")
    assert np.linalg.norm(moved - plan.place("hip.L")) < 0.05
    assert np.linalg.norm(frames.position(plan["hip.L"]) - robot_rest(robot, plan["hip.L"])) > 0.08


def robot_rest(robot, name):
    return ps.forward(robot, robot.rest).position(name)


@pytest.mark.files("humanoid/humanoid.urdf", "urdf/erd_talos_reduced.urdf")
def test_a_sole_under_the_ankle_is_not_a_toe(path):
    assert "toe.L" not in body_plan(ps.load(path).skeleton)


@pytest.mark.files("humanoid/humanoid.urdf", "urdf/g1_29dof.urdf")
def test_a_humanoid_robot(path):
    plan = body_plan(ps.load(path).skeleton)
    assert plan["shoulder.L"] == "left_shoulder_yaw_joint"
    assert plan["hip.R"] == "right_hip_yaw_joint"
    assert "clavicle.L" not in plan


def arm(side, y):
    """Return an arm that ends with its forearm, as Unitree's H1 has it, and the forearm's shape."""
    out = np.sign(y)
    names = [f"{side}_shoulder_{kind}" for kind in ("pitch", "roll", "yaw")] + [f"{side}_elbow"]
    axes = ("y", "x", "z", "y")
    offsets = ((0, y, 0.4), (0, 0.05 * out, 0), (0, 0, -0.13), (0.02, 0, -0.2))
    parents = ["pelvis", *names[:-1]]
    joints = [
        ps.Joint(name, ps.Revolute(axis), parent, offset=offset)
        for name, axis, parent, offset in zip(names, axes, parents, offsets, strict=True)
    ]
    return joints, capsule(names[-1], (0, 0, 0), (0.3, 0, 0), 0.03)


def test_an_arm_without_a_wrist_ends_where_its_forearm_does():
    (left, one), (right, other) = arm("left", 0.15), arm("right", -0.15)
    joints = [ps.Joint("pelvis", ps.Free("rotvec")), *leg("left", 0.06), *leg("right", -0.06), *left, *right]
    robot = ps.Skeleton(joints, [], "h1", up="z", shapes=[one, other])
    plan = body_plan(robot)
    assert (plan["shoulder.L"], plan["elbow.L"], plan["wrist.L"]) == (
        "left_shoulder_yaw", "left_elbow", "left_elbow",
    )  # fmt: skip
    elbow = plan.place("elbow.L")
    np.testing.assert_allclose(plan.place("wrist.L"), elbow + np.array([0.3, 0, 0]), atol=1e-9)
    np.testing.assert_allclose(plan.place("shoulder.R"), (0, -0.2, 0.4), atol=1e-3)
    frames = ps.forward(robot, robot.pose({"left_elbow": -np.pi / 2}))
    np.testing.assert_allclose(plan.position(frames, "wrist.L"), elbow + np.array([0, 0, 0.3]), atol=1e-9)


def test_a_hinge_that_twists_the_upper_arm_is_not_an_elbow():
    """Booster's T1 calls it Elbow_Pitch; what bends the arm is Elbow_Yaw."""
    joints, shapes = [ps.Joint("Trunk", ps.Free("rotvec"))], []
    for side, out in (("Left", 1.0), ("Right", -1.0)):
        for joint in leg(side.lower(), 0.06 * out):
            joints.append(replace(joint, parent="Trunk") if joint.parent == "pelvis" else joint)
        parent = "Trunk"
        rows = (("Shoulder_Pitch", "y", 0.1), ("Shoulder_Roll", "x", 0.05), ("Elbow_Pitch", "y", 0.06),
                ("Elbow_Yaw", "z", 0.15))  # fmt: skip
        for name, axis, away in rows:
            up = 0.3 if parent == "Trunk" else 0.0
            joints.append(ps.Joint(f"{side}_{name}", ps.Revolute(axis), parent, offset=(0, out * away, up)))
            parent = joints[-1].name
        shapes.append(capsule(parent, (0, 0, 0), (0, 0.14 * out, 0), 0.03))
    plan = body_plan(ps.Skeleton(joints, [], "t1", up="z", shapes=shapes))
    assert plan["elbow.R"] == "Right_Elbow_Yaw"
    assert plan["shoulder.R"] == "Right_Elbow_Pitch"
    np.testing.assert_allclose(plan.place("shoulder.L"), (0, 0.15, 0.3), atol=1e-3)
    assert "clavicle.L" not in plan


def test_a_hinge_that_twists_the_forearm_is_not_an_elbow_and_elbows_are_in_line():
    """ToddlerBot bends its arm at elbow_roll, beside the line of the arm; elbow_yaw beyond it twists the forearm."""
    joints = [ps.Joint("pelvis", ps.Free("rotvec")), *leg("left", 0.06), *leg("right", -0.06)]
    for side, out in (("left", 1.0), ("right", -1.0)):
        rows = (
            ("shoulder_pitch", "y", (0, 0.1 * out, 0.3)), ("shoulder_roll", "x", (0, 0, 0)),
            ("shoulder_yaw", "z", (0, 0, -0.03)), ("elbow_roll", "x", (-0.03, 0, -0.09)),
            ("elbow_yaw", "z", (0.03, 0, -0.03)), ("wrist_pitch", "y", (0, 0, -0.09)), ("wrist_roll", "x", (0, 0, 0)),
        )  # fmt: skip
        parent = "pelvis"
        for name, axis, offset in rows:
            joints.append(ps.Joint(f"{side}_{name}", ps.Revolute(axis), parent, offset=offset))
            parent = joints[-1].name
    plan = body_plan(ps.Skeleton(joints, [], "toddlerbot", up="z"))
    assert (plan["shoulder.L"], plan["elbow.L"]) == ("left_shoulder_yaw", "left_elbow_roll")
    np.testing.assert_allclose(plan.place("elbow.L"), (0, 0.1, 0.18), atol=1e-9)


def test_hips_and_knees_are_taken_over_the_ankles():
    """Where along its axis a hinge lies is up to a file's author: H1's hips turn 12 cm inside of its legs."""
    joints = [ps.Joint("pelvis", ps.Free("rotvec"))]
    for side, out in (("left", 1.0), ("right", -1.0)):
        rows = (
            ("hip_yaw", "z", (0, 0.09 * out, -0.17)), ("hip_roll", "x", (0.04, 0, 0)),
            ("hip_pitch", "y", (0, 0.115 * out, 0)), ("knee", "y", (0, 0.05 * out, -0.4)),
            ("ankle", "y", (0, -0.05 * out, -0.4)),
        )  # fmt: skip
        parent = "pelvis"
        for name, axis, offset in rows:
            joints.append(ps.Joint(f"{side}_{name}", ps.Revolute(axis), parent, offset=offset))
            parent = joints[-1].name
    plan = body_plan(ps.Skeleton(joints, [], "h1", up="z"))
    for role in ("hip.L", "knee.L", "ankle.L"):
        assert plan.place(role)[1] == pytest.approx(0.205, abs=1e-3)


def test_a_hip_is_not_taken_at_the_place_of_the_pelvis():
    """Some conversions of CMU's recordings have LHipJoint, without an offset, above LeftHip."""
    joints = [ps.Joint("Hips", ps.Free("zyx"))]
    for side, long, out in (("L", "Left", 1.0), ("R", "Right", -1.0)):
        rows = ((f"{side}HipJoint", (0, 0, 0)), (f"{long}Hip", (0.1 * out, -0.05, 0)), (f"{long}Knee", (0, -0.4, 0)),
                (f"{long}Ankle", (0, -0.4, 0)))  # fmt: skip
        parent = "Hips"
        for name, offset in rows:
            joints.append(ps.Joint(name, ps.Ball("zyx"), parent, offset=offset))
            parent = name
    plan = body_plan(ps.Skeleton(joints, [], "cmu", up="y"))
    assert (plan["hip.L"], plan["hip.R"]) == ("LeftHip", "RightHip")
    np.testing.assert_allclose(plan.left, (1, 0, 0), atol=1e-12)


def test_a_collar_is_not_part_of_the_shoulder(robot):
    """Talos' first hinge of an arm is upright, 14 cm inside of the shoulder: the upper arm does not turn about it."""
    joints = list(robot.joints)
    for side, out in (("left", 1.0), ("right", -1.0)):
        rows = (
            ("1", "z", (0, 0.158 * out, 0.4), 0.0), ("2", "x", (0, 0.136 * out, 0), 0.0),
            ("3", "z", (0, 0, 0), -0.01 * out), ("4", "y", (0, 0, -0.28), 0.0),
            ("5", "z", (0, 0, -0.26), 0.0), ("6", "x", (0, 0, 0), 0.0),
        )  # fmt: skip
        parent = "pelvis"
        for number, axis, offset, tilt in rows:
            name, turn = f"arm_{side}_{number}_joint", Rotation.from_rotvec((tilt, 0, 0))
            joints.append(ps.Joint(name, ps.Revolute(axis), parent, offset=offset, rotation=turn))
            parent = name
    plan = body_plan(ps.Skeleton(joints, [], "talos", up="z"))
    assert plan["shoulder.L"] == "arm_left_3_joint"
    np.testing.assert_allclose(plan.place("shoulder.L"), (0, 0.294, 0.4), atol=1e-3)


def test_a_head_link_that_starts_at_the_pelvis_is_not_the_head():
    """Unitree's URDF of the G1 has a fixed head_joint at the origin of its torso; only its mesh is up there."""
    human = ps.figures.human()
    plan = body_plan(human)
    extra = ps.Joint("head_joint", ps.Fixed(), plan["pelvis"])
    others = [joint for joint in human.joints if joint.name not in (plan["head"], plan["neck"])]
    names = {joint.name for joint in others}
    assert all(joint.parent in (None, *names) for joint in others)
    found = body_plan(human.replace(joints=[*others, extra], sites=[s for s in human.sites if s.joint in names]))
    assert "head" not in found
    assert "neck" not in found
    assert found["shoulder.L"] == plan["shoulder.L"]


def test_a_frame_fixed_to_the_last_hinge_is_not_the_ankle(robot):
    """JVRC-1 has a bare frame called ankle on each foot: the shapes of its soles are on the hinge above it."""
    frames = [
        ps.Joint(f"{side}_ankle", ps.Fixed(), f"{side}_ankle_roll_joint", offset=(0, 0, 0))
        for side in ("left", "right")
    ]
    plan = body_plan(robot.replace(joints=[*robot.joints, *frames]))
    assert (plan["ankle.L"], plan["ankle.R"]) == ("left_ankle_roll_joint", "right_ankle_roll_joint")


@pytest.mark.parametrize("prefix", ["CC_Base_", "Bip01 ", "DEF-", "mixamorig:"])
def test_the_head_of_an_animator_has_a_prefix(robot, prefix):
    """ActorCore, 3ds Max and Rigify; a neck with twist bones below it is not the head."""
    joints = [
        *robot.joints,
        ps.Joint(f"{prefix}NeckTwist01", ps.Ball("rotvec"), "pelvis", offset=(0.0, 0.0, 0.5)),
        ps.Joint(f"{prefix}Head", ps.Ball("rotvec"), f"{prefix}NeckTwist01", offset=(0.0, 0.0, 0.1)),
    ]
    plan = body_plan(ps.Skeleton(joints, [], "person", up="z"))
    assert plan["head"] == f"{prefix}Head"
    assert plan["neck"] == f"{prefix}NeckTwist01"
