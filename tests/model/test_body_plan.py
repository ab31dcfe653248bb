"""Roles by geometry: a ball joint that a file spells as three hinges is one joint."""

import numpy as np
import pytest

import posable as ps
from posable.model.body_plan import body_plan


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


def test_a_sole_under_the_ankle_is_no_toe(data_dir):
    talos = ps.load(data_dir / "urdf" / "erd_talos_reduced.urdf").skeleton
    assert "toe.L" not in body_plan(talos)


def test_the_g1(data_dir):
    plan = body_plan(ps.load(data_dir / "urdf" / "g1_29dof.urdf").skeleton)
    assert plan["shoulder.L"] == "left_shoulder_yaw_joint"
    assert plan["hip.R"] == "right_hip_yaw_joint"
    assert "clavicle.L" not in plan
