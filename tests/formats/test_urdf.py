"""URDF: every type of joint, mimic joints, masses, capsules, and what is refused."""

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load, save
from posable.model.joints import Fixed, Free, Planar, Prismatic, Revolute
from posable.model.kinematics import forward

ROBOT = """<?xml version="1.0"?>
<robot name="toy">
  <link name="base"><inertial><origin xyz="1 0 0"/><mass value="2"/></inertial></link>
  <link name="a"><collision><origin xyz="0 0 1" rpy="0 1.5707963267948966 0"/>
    <geometry><cylinder radius="0.1" length="2"/></geometry></collision></link>
  <link name="b"><collision name="ball"><geometry><sphere radius="0.3"/></geometry></collision>
    <collision><geometry><box size="1 1 1"/></geometry></collision><collision><geometry><mesh filename="package://x/y.stl"/></geometry></collision></link>
  <link name="c"/> <link name="d"/> <link name="e"/> <link name="f"/>
  <joint name="turn" type="revolute"><origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><parent link="base"/><child link="a"/>
    <axis xyz="0 0 2"/><limit lower="0.5" upper="1.5" effort="1" velocity="1"/></joint>
  <joint name="spin" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/>
    <mimic joint="turn" multiplier="2" offset="0.1"/></joint>
  <joint name="slide" type="prismatic"><parent link="b"/><child link="c"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
    <mimic joint="spin" multiplier="3" offset="1"/></joint>
  <joint name="float" type="floating"><parent link="c"/><child link="d"/></joint>
  <joint name="plane" type="planar"><parent link="d"/><child link="e"/><axis xyz="0 0 1"/></joint>
  <joint name="weld" type="fixed"><parent link="e"/><child link="f"/></joint>
</robot>
"""


@pytest.fixture
def urdf(tmp_path):
    def write(text):
        path = tmp_path / "a.urdf"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_every_type_of_joint(urdf):
    skeleton = load(urdf(ROBOT)).skeleton
    kinds = [type(joint.motion) for joint in skeleton.joints]
    assert skeleton.names == ("base", "turn", "spin", "slide", "float", "plane", "weld")
    assert kinds == [Fixed, Revolute, Revolute, Prismatic, Free, Planar, Fixed]
    assert skeleton.site_names == ("a", "b", "c", "d", "e", "f")
    assert (skeleton.name, skeleton.up) == ("toy", "z")
    np.testing.assert_allclose(skeleton.lower[:3], [0.5, -np.inf, -1])
    assert skeleton.rest[0] == 0.5  # zero is outside its limits
    assert skeleton.joint("base").mass == 2
    np.testing.assert_allclose(skeleton.joint("base").center, (1, 0, 0))


def test_velocity_effort_and_inertia(urdf):
    limit = '<limit lower="0.5" upper="1.5" effort="7" velocity="2.5"/>'
    tensor = '<inertial><origin rpy="0 0 1.5707963267948966"/><mass value="1"/>'
    tensor += '<inertia ixx="1" iyy="2" izz="3" ixy="0" ixz="0" iyz="0"/></inertial>'
    text = ROBOT.replace('<limit lower="0.5" upper="1.5" effort="1" velocity="1"/>', limit)
    text = text.replace('<link name="c"/>', f'<link name="c">{tensor}</link>')
    skeleton = load(urdf(text)).skeleton
    np.testing.assert_array_equal(skeleton.velocity, [2.5, np.inf, 1.0] + [np.inf] * 9)
    np.testing.assert_array_equal(skeleton.effort, [7.0, np.inf, 1.0] + [np.inf] * 9)
    np.testing.assert_allclose(skeleton.joint("slide").inertia, np.diag([2.0, 1.0, 3.0]), atol=1e-12)
    copied = skeleton.replace(name="copy")
    np.testing.assert_array_equal(copied.velocity, skeleton.velocity)
    save(urdf(text).with_suffix(".npz"), skeleton)
    assert load(urdf(text).with_suffix(".npz")).skeleton == skeleton
    assert skeleton != load(urdf(text.replace('velocity="2.5"', 'velocity="2.4"'))).skeleton


def test_a_velocity_of_zero_is_none(urdf):
    scene = load(urdf(ROBOT.replace('velocity="1"', 'velocity="0"')))
    assert np.isinf(scene.skeleton.velocity).all()
    assert "velocity limits of 0 taken as not stated: 'turn', 'slide'" in scene.notes
    with pytest.warns(PosableWarning, match="negative effort limit"):
        load(urdf(ROBOT.replace('effort="1"', 'effort="-1"')))


def test_mimic_joints_follow_through(urdf):
    couplings = {rule[0]: rule[1:] for rule in load(urdf(ROBOT)).skeleton.couplings}
    assert couplings["spin"] == ("turn", 2.0, 0.1)
    assert couplings["slide"] == ("turn", 6.0, pytest.approx(1.3))


def test_capsules(urdf):
    rod, ball = load(urdf(ROBOT)).capsules
    assert (rod.joint, rod.radius, ball.joint, ball.radius, ball.name) == ("turn", 0.1, "spin", 0.3, "ball")
    np.testing.assert_allclose(sorted([rod.start[0], rod.end[0]]), [-1, 1], atol=1e-12)
    np.testing.assert_allclose(rod.start[2], 1)
    np.testing.assert_array_equal(ball.start, ball.end)


def test_planar_joints_move_in_their_plane(urdf):
    skeleton = load(urdf(ROBOT)).skeleton
    pose = skeleton.pose({"plane": (0.3, 0.4, 0.0)})
    moved = forward(skeleton, pose).convert((0, 0, 0), from_="e", to="d")
    np.testing.assert_allclose(moved, (0.3, 0.4, 0), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('xyz="0 0 2"', 'xyz="0 0 0"'), "an axis of joint 'turn' that is not zero"),
        (('xyz="0 0 2"', 'xyz="0 0"'), "3 numbers in xyz"),
        (('xyz="0 0 2"', 'xyz="0 0 nan"'), "3 numbers in xyz"),
        (('lower="0.5"', 'lower="5"'), "a lower limit of joint 'turn' below the upper"),
        (('type="revolute"', 'type="hinge"'), "expected type revolute"),
        (('<child link="a"/>', ""), "<child> of joint 'turn'"),
        (('<child link="a"/>', '<child link="z"/>'), "the name of a link"),
        (('<child link="a"/>', '<child link="b"/>'), "one parent of link 'b'"),
        (('<parent link="base"/>', '<parent link="f"/>'), "a cycle"),
        (('<link name="c"/>', '<link name="c"/><link name="c"/>'), "a link of a new name"),
        (('<link name="c"/>', '<link name="c"/><link name="free"/>'), "one root link"),
        (('joint="turn"', 'joint="nobody"'), "the name of another moving joint"),
        (('joint="turn"', 'joint="slide"'), "mimic joints without a cycle"),
        (('value="2"', 'value="-2"'), "a mass that is not negative"),
        (('radius="0.1"', 'radius="x"'), "a number in radius"),
        (("<robot ", "<robots "), "well-formed XML"),
        (("</robot>", ""), "well-formed XML"),
        (('<robot name="toy">', '<robot name="toy"><xacro:macro name="x"/>'), "expand it with xacro"),
    ],
)
def test_what_is_refused(urdf, change, message):
    assert change[0] in ROBOT
    with pytest.raises(FormatError, match=message) as caught:
        load(urdf(ROBOT.replace(*change)))
    assert caught.value.line is not None


@pytest.mark.parametrize(
    "prologue",
    [
        '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE robot SYSTEM "http://example.org/robot.dtd">',
        '<!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        "<!DOCTYPE robot>",
    ],
)
def test_no_doctype_no_entities(urdf, prologue):
    with pytest.raises(FormatError, match="refused for safety"):
        load(urdf(ROBOT.replace("<robot", prologue + "<robot", 1).replace('name="toy"', 'name="&x;"')))


def test_other_roots_and_duplicate_joints(urdf):
    with pytest.raises(FormatError, match="expected <robot>"):
        load(urdf("<?xml version='1.0'?><sdf/>"))
    with pytest.warns(PosableWarning, match="made unique"):
        skeleton = load(urdf(ROBOT.replace('joint name="weld"', 'joint name="plane"'))).skeleton
    assert skeleton.names[-1] == "plane_2"


def test_a_moving_joint_without_limits(urdf):
    text = ROBOT.replace('<limit lower="0.5" upper="1.5" effort="1" velocity="1"/>', "")
    with pytest.warns(PosableWarning, match="it moves without limits"):
        assert np.isinf(load(urdf(text)).skeleton.upper[0])


# Link positions [m] that Pinocchio 4.1 gives (benchmarks/formats.py compares all frames of all robots)
PINOCCHIO = {
    "erd_panda.urdf": (
        "panda_hand_tcp",
        [0.5, 0.3, 0.1, -1.2, 0.4, 1.5, -0.3, 0.01, 0.01],
        (0.482469068668244, 0.42161929980953605, 0.5298737342177502),
    ),
    "erd_ur5_robot.urdf": (
        "ee_link",
        [0.1, -0.2, 0.3, -0.4, 0.5, -0.6],
        (0.8500180362289259, 0.2675719950753641, 0.0556714678055691),
    ),
}


@pytest.mark.parametrize("file", PINOCCHIO)
def test_stored_positions_of_pinocchio(data_dir, file):
    link, pose, position = PINOCCHIO[file]
    np.testing.assert_allclose(
        forward(load(data_dir / "urdf" / file).skeleton, pose).position(link), position, atol=1e-9
    )
