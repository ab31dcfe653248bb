"""The body that a motion is put on: where its feet point, and whether they can stay flat."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.mocap.target_body import TargetBody
from posable.model.body_plan import body_plan
from posable.model.shapes import capsule


def biped(rolls, sites=()):
    """Return a biped that faces x, its feet with or without a roll."""
    joints = [ps.Joint("pelvis", ps.Free("rotvec"), offset=(0, 0, 0.9))]
    for side, out in (("left", 1.0), ("right", -1.0)):
        rows = [
            ("hip", ps.Ball("zyx"), (0, 0.1 * out, 0)), ("knee", ps.Revolute("y"), (0, 0, -0.4)),
            ("ankle_pitch", ps.Revolute("y"), (0, 0, -0.4)),
        ]  # fmt: skip
        rows += [("ankle_roll", ps.Revolute("x"), (0, 0, 0))] if rolls else []
        parent = "pelvis"
        for name, motion, offset in rows:
            joints.append(ps.Joint(f"{side}_{name}", motion, parent, offset=offset))
            parent = joints[-1].name
    return TargetBody(body_plan(ps.Skeleton(joints, sites, "biped", up="z")))


@pytest.mark.parametrize("way", [(0.0, 0.13, -0.08), (-0.1, 0.1, -0.08), (0.02, 0.0, -0.1)])
def test_a_corner_or_a_sensor_of_a_foot_is_not_a_toe(way):
    """Talos has a frame beside each foot: taken for a toe, it would turn the feet by 90 degrees."""
    sites = [ps.Site(f"{side}_corner", f"{side}_ankle_roll", way) for side in ("left", "right")]
    body = biped(True, sites)
    for side in "LR":
        frame = body.rest.frame(f"ankle.{side}")
        assert frame is not None
        np.testing.assert_allclose(frame[0][:, 0], (1, 0, 0), atol=1e-9)


def test_a_site_in_front_of_an_ankle_is_a_toe():
    sites = [ps.Site(f"{side}_tip", f"{side}_ankle_roll", (0.17, 0.03, -0.08)) for side in ("left", "right")]
    frame = biped(True, sites).rest.frame("ankle.L")
    assert frame is not None
    np.testing.assert_allclose(frame[0][:, 0], np.array([0.17, 0.03, 0.0]) / np.hypot(0.17, 0.03), atol=1e-9)


def test_a_foot_with_a_site_at_each_corner_points_ahead():
    """The farthest corner alone would turn Romeo's feet out by 15 degrees."""
    sites = [
        ps.Site(f"{side}_{k}", f"{side}_ankle_roll", corner)
        for side in ("left", "right")
        for k, corner in enumerate([(0.13, 0.034, -0.08), (0.13, -0.034, -0.08), (-0.04, 0.0, -0.08)])
    ]
    frame = biped(True, sites).rest.frame("ankle.L")
    assert frame is not None
    np.testing.assert_allclose(frame[0][:, 0], (1, 0, 0), atol=1e-9)


def test_feet_are_flat_where_legs_that_are_spread_at_rest_are_upright():
    """A figure whose file has it in a star jump, as dm_control's humanoid of the CMU recordings."""
    turns = {"L": Rotation.from_euler("x", 20, degrees=True), "R": Rotation.from_euler("x", -20, degrees=True)}
    joints = [ps.Joint("pelvis", ps.Free("rotvec"), offset=(0, 0, 0.9))]
    for side, out in (("L", 1.0), ("R", -1.0)):
        name = {"L": "left", "R": "right"}[side]
        joints.append(
            ps.Joint(
                f"{name}_hip", ps.Ball("zyx"), "pelvis", offset=(0, 0.1 * out, 0), rotation=turns[side].as_matrix()
            )
        )
        joints.append(ps.Joint(f"{name}_knee", ps.Revolute("y"), f"{name}_hip", offset=(0, 0, -0.4)))
        joints.append(ps.Joint(f"{name}_ankle", ps.Ball("zyx"), f"{name}_knee", offset=(0, 0, -0.4)))
    sites = [ps.Site(f"{side}_toe", f"{side}_ankle", (0.15, 0, -0.08)) for side in ("left", "right")]
    body = TargetBody(body_plan(ps.Skeleton(joints, sites, "star", up="z")))
    for side, out in (("L", 1.0), ("R", -1.0)):
        np.testing.assert_allclose(body.plan.place(f"ankle.{side}"), (0, 0.1 * out, 0.1), atol=1e-3)
        assert body.sole_height(side) == pytest.approx(0.08, abs=1e-3)


def test_the_tip_of_a_hand_is_where_its_shapes_end(fixtures):
    robot = ps.load(fixtures / "humanoid/humanoid.xml").skeleton
    hands = [capsule(f"{side}_wrist_yaw_joint", (0, 0, 0), (0.12, 0, 0), 0.02) for side in ("left", "right")]
    body = TargetBody(body_plan(robot.replace(sites=[], shapes=[*robot.shapes, *hands])))
    for side, name in (("L", "left"), ("R", "right")):
        end = body.plan.rest.position(f"{name}_wrist_yaw_joint") + np.array([0.12, 0, 0])
        np.testing.assert_allclose(body.rest.places[f"tip.{side}"][0], end, atol=0.02)


def test_a_foot_that_only_pitches_cannot_stay_flat():
    assert np.ptp(biped(True).shin_ranges["L"], axis=0).min() > 0.5
    ahead, left = np.ptp(biped(False).shin_ranges["R"], axis=0)
    assert ahead > 0.5
    assert left < 1e-9


def test_a_foot_without_shapes_has_the_sole_of_the_other(fixtures):
    """GR3's file has the shapes of its right foot on the hinge above: that foot used to stand on its ankle."""
    robot = ps.load(fixtures / "humanoid/humanoid.xml").skeleton
    whole = TargetBody(body_plan(robot))
    shapes = [shape for shape in robot.shapes if shape.joint != whole.plan["ankle.R"]]
    bare = TargetBody(body_plan(robot.replace(shapes=shapes)))
    assert len(shapes) < len(robot.shapes)
    np.testing.assert_allclose(bare.soles["R"], whole.soles["R"], atol=1e-3)
