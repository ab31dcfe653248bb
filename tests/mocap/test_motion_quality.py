"""Measures of a motion against motions whose faults are known."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.model.body_plan import body_plan


@pytest.fixture(scope="module")
def walk(fixtures):
    return ps.load(fixtures / "walk.amc").motion


@pytest.fixture(scope="module")
def quality(walk):
    return ps.motion_quality(walk, walk)


def test_a_motion_is_like_itself(quality):
    assert quality["arm bones off [deg]"] < 1e-4
    assert quality["leg bones off [deg]"] < 1e-4
    assert quality["tracking error [mm]"] < 1e-6
    assert quality["joint limits exceeded [% of frames]"] == 0.0
    assert quality["jumps over 0.5 rad [frames]"] == 0.0
    assert quality["stands"] >= 3
    assert quality["slip of standing feet, largest [mm]"] < 15.0
    assert "arm bones off" in str(quality)


def changed(walk, dof, values):
    poses = walk.poses.copy()
    poses[:, walk.skeleton.dof_names.index(dof)] += values
    return ps.Motion(walk.skeleton, poses, walk.fps)


def test_an_arm_that_is_lifted_is_told(walk):
    lifted = ps.motion_quality(changed(walk, "shoulder.L.z", 0.5), walk)
    mean, worst = lifted.residuals["shoulder.L"]
    assert 15.0 < mean < 35.0
    assert worst >= mean
    assert lifted.residuals["shoulder.R"][0] < 1e-4


def test_a_sunken_figure_is_reported(walk):
    up = "root.ty"
    sunk = ps.motion_quality(changed(walk, up, -0.03), walk)
    assert sunk["ground penetration over 1 cm [% of frames]"] == 100.0
    assert sunk["soles from their support, mean [mm]"] == pytest.approx(30.0, abs=12.0)


def test_sliding_feet_and_jumps_are_reported(walk, quality):
    drift = 0.3 * np.arange(len(walk)) / walk.fps
    assert ps.motion_quality(changed(walk, "root.tx", drift), walk)["slip of standing feet, largest [mm]"] > 40.0
    step = np.where(np.arange(len(walk)) >= 20, 0.7, 0.0)
    jumped = ps.motion_quality(changed(walk, "shoulder.R.y", step), walk)
    assert jumped["jumps over 0.5 rad [frames]"] == 1.0
    assert jumped["mean acceleration [rad/s2]"] > quality["mean acceleration [rad/s2]"]


def test_too_short(walk):
    with pytest.raises(ps.PosableError, match="three frames"):
        ps.motion_quality(ps.Motion(walk.skeleton, walk.poses[:2], walk.fps))


@pytest.mark.files("humanoid/humanoid.xml", "mjcf/unitree_g1/g1.xml")
def test_a_box_before_the_toes_is_not_stood_in(path):
    """Objects are judged by the shapes of a file: a box 2 mm before the toes is free, one over them is not."""
    robot = ps.load(path).skeleton
    motion = ps.Motion(robot, np.repeat(robot.rest[None], 5, axis=0), 30.0)
    at = ps.forward(robot, robot.rest)
    feet = [s for s in robot.shapes if s.joint.endswith("ankle_roll_joint")]
    front = max(float((at.convert(s.points, from_=s.joint, to="world")[:, 0] + s.radius).max()) for s in feet)
    grid = np.array([(x, y, z) for x in (0.0, 0.2) for y in (-0.4, 0.4) for z in (-0.3, 0.05)])
    shares = []
    for shift in (front + 0.002, front - 0.05):
        quality = ps.motion_quality(motion, objects=[grid + np.array([shift, 0.0, 0.0])])
        shares.append(quality["objects penetration over 1 cm [% of frames]"])
    assert shares == [0.0, 100.0]


def test_it_says_which_limit_keeps_a_bone_off(human):
    plan = body_plan(human)
    elbow = plan["elbow.L"]
    bent = np.tile(human.rest, (10, 1))
    bent[:, human.index(elbow)] += np.where(human.upper[human.index(elbow)] > 1.0, 1.0, 0.0)
    at = human.rest[human.index(elbow)]
    held = human.replace(
        joints=[replace(j, limits=np.stack([at - 1.0, at], axis=-1)) if j.name == elbow else j for j in human.joints]
    )
    quality = ps.motion_quality(ps.Motion(held, np.tile(human.rest, (10, 1)), 30.0), ps.Motion(human, bent, 30.0))
    assert quality.residuals["elbow.L"][0] > 6.0
    assert f"{elbow} is at its limit" in quality.blocked["elbow.L"]
    assert "elbow.R" not in quality.blocked
    assert quality.blocked["elbow.L"] in str(quality)
