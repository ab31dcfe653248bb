"""URDF: every type of joint, mimic joints, masses, shapes, and what is refused."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import FormatError, PosableError, PosableWarning
from posable.formats import load, save
from posable.model.joints import Ball, Fixed, Free, Planar, Prismatic, Revolute
from posable.model.kinematics import forward
from posable.model.shapes import box, capsule, hull, plane, sphere

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
    assert "velocity limits of 0 were treated as not stated: 'turn', 'slide'" in scene.notes
    with pytest.warns(PosableWarning, match="negative effort limit"):
        load(urdf(ROBOT.replace('effort="1"', 'effort="-1"')))


def test_mimic_joints_follow_through(urdf):
    couplings = {rule[0]: rule[1:] for rule in load(urdf(ROBOT)).skeleton.couplings}
    assert couplings["spin"] == ("turn", 2.0, 0.1)
    assert couplings["slide"] == ("turn", 6.0, pytest.approx(1.3))


def test_collision_geometry_becomes_shapes(urdf):
    scene = load(urdf(ROBOT))
    rod, ball, cube = scene.skeleton.shapes
    assert (rod.joint, rod.kind, ball.joint, ball.kind, ball.radius) == ("turn", "cylinder", "spin", "sphere", 0.3)
    assert (ball.name, cube.kind) == ("ball", "box")
    np.testing.assert_allclose([rod.points[:, 0].min(), rod.points[:, 0].max()], [-1, 1], atol=1e-12)
    assert np.linalg.norm(rod.points[:, 1:] - [0, 1], axis=1).min() * np.cos(np.pi / 16) == pytest.approx(0.1)
    np.testing.assert_allclose(np.abs(cube.points), 0.5)
    assert any("package://x/y.stl: no such file" in note for note in scene.notes)


def test_meshes_of_a_robot_are_opened(fixtures):
    text = (fixtures / "arm" / "arm.urdf").read_text().replace('<box size="0.06 0.06 0.3"/>', '<mesh filename="{}"/>')
    found = (fixtures / "arm" / "link1.stl").as_uri()
    scene = load(text.format(found), format="urdf")
    assert [shape.kind for shape in scene.skeleton.shapes].count("hull") == 1
    whole = load(fixtures / "arm" / "arm.urdf")
    assert len(whole.meshes) == len(whole.skeleton.shapes) == 8
    assert not [note for note in whole.notes if "not opened" in note]
    vertices = next(mesh for mesh in whole.meshes if mesh.name == "link1").vertices
    hull = next(shape for shape in scene.skeleton.shapes if shape.kind == "hull")
    np.testing.assert_allclose(np.ptp(hull.points, axis=0), np.ptp(vertices, axis=0), atol=1e-6)


def test_a_nul_byte_at_the_end_is_skipped(urdf):
    """pybullet_data's humanoid.urdf ends with one."""
    path = urdf(ROBOT)
    expected = load(path).skeleton
    path.write_bytes(path.read_bytes() + b"\x00")
    with pytest.warns(PosableWarning, match="NUL bytes at the end were skipped"):
        assert load(path).skeleton == expected


def test_small_slips_of_real_files(urdf):
    assert load(urdf("\n  " + ROBOT)).skeleton == load(urdf(ROBOT)).skeleton
    four = load(urdf(ROBOT.replace('filename="package://x/y.stl"', 'filename="package://x/y.stl" scale="1 1 1 1"')))
    assert any("mesh scale '1 1 1 1': expected three numbers" in note for note in four.notes)
    with pytest.raises(FormatError, match=r'3 numbers in scale="..."'):
        load(urdf(ROBOT.replace('filename="package://x/y.stl"', 'filename="package://x/y.stl" scale="1 x 1"')))


def test_what_is_repaired(urdf):
    with pytest.warns(PosableWarning, match="joint 'turn' has its limits swapped: 5 and 1.5 were exchanged"):
        skeleton = load(urdf(ROBOT.replace('lower="0.5"', 'lower="5"'))).skeleton
    assert (skeleton.lower[0], skeleton.upper[0]) == (1.5, 5.0)
    with pytest.warns(PosableWarning, match="joint 'spin' mimics 'nobody', which is not another moving joint"):
        skeleton = load(urdf(ROBOT.replace('joint="turn"', 'joint="nobody"'))).skeleton
    assert [rule[:2] for rule in skeleton.couplings] == [("slide", "spin")]
    text = ROBOT.replace('<link name="base">', '<link name="other"/><link name="base">')
    joint = '<joint name="stand" type="fixed"><parent link="world"/><child link="{}"/></joint></robot>'
    text = text.replace("</robot>", joint.format("base")[:-8] + joint.format("other").replace("stand", "stand2"))
    assert load(urdf(text)).skeleton.names[0] == "world"


def test_a_link_of_a_joints_name_is_what_goals_mean(urdf):
    scene = load(urdf(ROBOT.replace('name="c"', 'name="weld"').replace('link="c"', 'link="weld"')))
    assert any("share a name; a goal on it means the link: 'weld'" in note for note in scene.notes)
    frames = forward(scene.skeleton, scene.skeleton.pose({"float": (1, 2, 3, 0, 0, 0)}))
    np.testing.assert_allclose(frames.matrix("weld"), frames.matrix("slide"))


def test_texts_and_floating_roots(urdf):
    skeleton = load(ROBOT, format="urdf", floating=True).skeleton
    assert isinstance(skeleton.joint("base").motion, Free)
    assert skeleton.size == load(urdf(ROBOT)).skeleton.size + 6
    assert load(ROBOT, format="urdf", floating=True, up="y").skeleton.up == "y"
    assert load(ROBOT.encode(), format="urdf").skeleton == load(ROBOT, format="urdf").skeleton
    with pytest.raises(PosableError, match=r"a path or an XML text in UTF-8, got b'\\x89PNG"):
        load(b"\x89PNG\r\n", format="urdf")
    with pytest.raises(PosableError, match="expected format='urdf'"):
        load(ROBOT)
    with pytest.raises(PosableError, match="unknown format 'urfd'"):
        load(ROBOT, format="urfd")


SRDF = """<robot name="toy">
  <group name="arm"><chain base_link="base" tip_link="c"/><joint name="turn"/></group>
  <group_state name="home" group="arm"><joint name="turn" value="0.7"/><joint name="float" value="1 2 3 0 0 0"/>
  </group_state>
  <disable_collisions link1="base" link2="b" reason="Never"/>
</robot>"""


def test_srdf(urdf, tmp_path):
    with pytest.warns(PosableWarning, match="state 'home' is beyond the limits of 'slide'"):
        skeleton = load(urdf(ROBOT), srdf=SRDF).skeleton
    assert skeleton.disabled_pairs == (("base", "spin"),)
    np.testing.assert_allclose(skeleton.named_poses["home"][:6], [0.7, 1.5, 5.5, 1, 2, 3])  # two of them follow
    assert skeleton.info["groups"] == {"arm": (("chain", "base", "c"), ("joint", "turn"))}
    (tmp_path / "a.srdf").write_text(SRDF)
    with pytest.warns(PosableWarning, match="beyond the limits of 'slide'"):
        beside = load(urdf(ROBOT))
    assert beside.skeleton == skeleton
    assert any("the SRDF beside it" in note for note in beside.notes)
    with pytest.warns(PosableWarning, match=r"that the robot does not have \(1\): 'z'"):
        load(urdf(ROBOT), srdf=SRDF.replace('link2="b"', 'link2="z"'))
    with pytest.raises(FormatError, match="<robot> of an SRDF file"):
        load(urdf(ROBOT), srdf="<sdf/>")


GRIPPER = """<robot name="toy"><link name="base"/><link name="a"/><link name="f"/><link name="g"/>
  <joint name="turn" type="revolute"><parent link="base"/><child link="a"/><limit lower="-1" upper="1"/></joint>
  <joint name="left" type="prismatic"><parent link="a"/><child link="f"/><limit lower="0" upper="0.04"/></joint>
  <joint name="right" type="prismatic"><parent link="a"/><child link="g"/><limit lower="0" upper="0.04"/>
    <mimic joint="left"/></joint></robot>"""


def semantics(body, name="toy"):
    return load(GRIPPER, format="urdf", srdf=f'<robot name="{name}">{body}</robot>')


def test_states_of_an_srdf_join_groups_and_move_mimic_joints():
    poses = semantics("""
        <group_state name="ready" group="arm"><joint name="turn" value="0.5"/></group_state>
        <group_state name="ready" group="hand"><joint name="left" value="0.03"/></group_state>""").skeleton.named_poses
    np.testing.assert_allclose(poses["ready"], [0.5, 0.03, 0.03])
    fixed = (
        '<group_state name="h" group="x"><joint name="base" value="0"/><joint name="turn" value="0.2"/></group_state>'
    )
    np.testing.assert_allclose(semantics(fixed).skeleton.named_poses["h"], [0.2, 0, 0])


ROOT = """<group_state name="stand" group="x"><joint name="{name}" value="1 2 3 0 0 0.6 0.8"/>
  <joint name="turn" value="0.5"/></group_state>"""


@pytest.mark.parametrize("name", ["root_joint", "to_world"])
def test_states_of_an_srdf_place_a_free_root(name):
    virtual = '<virtual_joint name="to_world" type="floating" parent_frame="w" child_link="base"/>'
    srdf = f'<robot name="toy">{virtual}{ROOT.format(name=name)}</robot>'
    fixed = load(GRIPPER, format="urdf", srdf=srdf)
    assert "the SRDF's state 'stand' also places the root; floating=True uses that" in fixed.notes
    np.testing.assert_allclose(fixed.skeleton.named_poses["stand"], [0.5, 0, 0])
    free = load(GRIPPER, format="urdf", srdf=srdf, floating=True)
    assert not any("floating" in note for note in free.notes)
    place = forward(free.skeleton, free.skeleton.named_poses["stand"]).matrix("base")
    np.testing.assert_allclose(place[:3, 3], [1, 2, 3])
    np.testing.assert_allclose(place[:3, :3], Rotation.from_quat([0, 0, 0.6, 0.8]).as_matrix(), atol=1e-15)


def test_states_of_an_srdf_place_a_floating_joint_of_the_urdf():
    text = GRIPPER.replace('<link name="base"/>', '<link name="world"/><link name="base"/><joint name="free"'
                           ' type="floating"><parent link="world"/><child link="base"/></joint>')  # fmt: skip
    for name in ("free", "root_joint"):
        srdf = f'<robot name="toy">{ROOT.format(name=name)}</robot>'
        skeleton = load(text, format="urdf", srdf=srdf).skeleton
        place = forward(skeleton, skeleton.named_poses["stand"]).matrix("base")
        np.testing.assert_allclose(place[:3, 3], [1, 2, 3])
        np.testing.assert_allclose(place[:3, :3], Rotation.from_quat([0, 0, 0.6, 0.8]).as_matrix(), atol=1e-15)


def test_a_planar_root_and_a_wrong_one():
    state = '<group_state name="h" group="x"><joint name="root_joint" value="{}"/></group_state>'
    srdf = f'<robot name="toy">{state.format("1 2 0.5")}</robot>'
    free = load(GRIPPER, format="urdf", srdf=srdf, floating=True).skeleton
    np.testing.assert_allclose(free.named_poses["h"][:6], [1, 2, 0, 0, 0, 0.5])
    for wrong in ("1 2", "0 0 0 0 0 0 0"):
        with pytest.raises(FormatError, match="expected x y z and a quaternion"):
            semantics(state.format(wrong))


def test_default_collisions_of_an_srdf_are_disabled_and_enabled():
    skeleton = semantics("""<disable_default_collisions link="f"/><enable_collisions link1="f" link2="g"/>
        <disable_collisions link1="a" link2="f"/>""").skeleton
    assert {frozenset(pair) for pair in skeleton.disabled_pairs} == {
        frozenset(pair) for pair in [("turn", "left"), ("base", "left")]
    }
    assert len(skeleton.disabled_pairs) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<group name="arm"><chain base_link="base" tip_link="zz"/></group>', r"does not have \(1\): 'zz'"),
        ('<group name="arm"><group name="none"/></group>', r"does not have \(1\): 'none'"),
        ('<group_state name="h" group="x"><joint name="turn" value="5"/></group_state>', r"of 'turn' \(5, range"),
        ('<group_state name="h" group="x"><joint name="turn" value="0.5"/><joint name="turn" value="0.6"/>'
         "</group_state>", "two values"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_an_srdf_is_a_warning(body, words):
    with pytest.warns(PosableWarning, match=words):
        semantics(body)


def test_an_srdf_that_does_not_fit():
    assert any("of a robot named 'other', this one is 'toy'" in note for note in semantics("", name="other").notes)
    notes = semantics('<virtual_joint name="v" type="floating" parent_frame="w" child_link="base"/>').notes
    assert any("floating virtual joint was not added; floating=True" in note for note in notes)
    state = '<group_state name="h" group="x"><joint name="turn" value="0.2 0.3"/></group_state>'
    with pytest.raises(FormatError, match=r"expected 1 numbers for joint 'turn', found '0\.2 0\.3'"):
        semantics(state)
    with pytest.raises(FormatError, match="srdf=: expected a URDF file, found MJCF"):
        load("<mujoco><worldbody/></mujoco>", format="mjcf", srdf="<robot/>")


def test_xacro_in_a_comment_is_no_xacro():
    text = ROBOT.replace('<link name="base">', '<!-- <xacro:gripper prefix="left"/> --><link name="base">', 1)
    assert load(text, format="urdf").skeleton.dof_names == load(ROBOT, format="urdf").skeleton.dof_names


def test_xacro_is_expanded(tmp_path):
    pytest.importorskip("xacro")
    text = ROBOT.replace("<robot ", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" ')
    text = text.replace('lower="0.5"', 'lower="${half}"')
    text = text.replace('<link name="base">', '<xacro:property name="half" value="0.25"/><link name="base">')
    (tmp_path / "a.xacro").write_text(text)
    assert load(tmp_path / "a.xacro").skeleton.lower[0] == 0.25
    (tmp_path / "a.urdf").write_text(text)
    assert load(tmp_path / "a.urdf").skeleton.lower[0] == 0.25
    (tmp_path / "a.urdf").write_text(text.replace("half}", "third}"))
    with pytest.raises(FormatError, match="xacro cannot expand it"):
        load(tmp_path / "a.urdf")
    with pytest.raises(FormatError, match="expand xacro first"):
        load(text, format="urdf")


def test_arguments_of_a_xacro(tmp_path):
    pytest.importorskip("xacro")
    text = ROBOT.replace("<robot ", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" ')
    text = text.replace('lower="0.5"', 'lower="$(arg half)"')
    (tmp_path / "a.xacro").write_text(text)
    with pytest.raises(FormatError, match="xacro cannot expand it: Undefined substitution argument half"):
        load(tmp_path / "a.xacro")
    assert load(tmp_path / "a.xacro", xacro={"half": 0.25}).skeleton.lower[0] == 0.25
    (tmp_path / "a.urdf").write_text(ROBOT)
    with pytest.raises(FormatError, match=r"xacro=.*expected a xacro file"):
        load(tmp_path / "a.urdf", xacro={"half": 0.25})


WRITTEN = {
    "human": ps.figures.human,
    "panda": ps.figures.panda,
    "toy": lambda: load(ROBOT, format="urdf").skeleton,
    "balls": lambda: ps.Skeleton(
        [
            ps.Joint("root", ps.Free("rotvec"), offset=(1, 2, 3)),
            ps.Joint("swing", ps.Ball("swing-twist", axis="y"), "root", offset=(0, 1, 0)),
            ps.Joint("two", ps.Universal("zx"), "swing", rotation=Rotation.from_rotvec([0.1, 0.2, 0.3])),
            ps.Joint("skew", ps.Revolute((1, 2, 3)), "two", offset=(0, 0, 1), mass=1.0, inertia=np.eye(3)),
        ],
        [ps.Site("end", "skew", (0, 0, 0.5))],
        shapes=[sphere("skew", 0.1), capsule("two", (0, 0, 0), (1, 1, 1), 0.2), box("skew", (1, 2, 3))],
    ),
}


@pytest.mark.parametrize("figure", WRITTEN)
def test_a_written_robot_is_the_same_robot(tmp_path, figure):
    skeleton = WRITTEN[figure]()
    save(tmp_path / "b.urdf", skeleton)
    again = load(tmp_path / "b.urdf").skeleton
    shared = {name: skeleton.rest[skeleton.dof(name)] for name in set(skeleton.dof_names) & set(again.dof_names)}
    before, after = forward(skeleton, skeleton.pose()), forward(again, again.pose(shared))
    lift = before.matrix(skeleton.names[0]) @ np.linalg.inv(after.matrix(skeleton.names[0]))
    for name in skeleton.site_names:
        np.testing.assert_allclose(lift @ after.matrix(name), before.matrix(name), atol=1e-9)
    for name in shared:
        i, j = skeleton.dof(name), again.dof(name)
        low, high = max(skeleton.lower[i], -1000.0), min(skeleton.upper[i], 1000.0)
        assert (again.lower[j], again.upper[j]) in ((low, high), (-np.inf, np.inf))
        pose, same = skeleton.pose({name: skeleton.rest[i] + 0.1}), again.pose(shared | {name: skeleton.rest[i] + 0.1})
        end = skeleton.names[-1]
        moved = forward(skeleton, pose).position(end) - before.position(end)
        there = lift[:3, :3] @ (forward(again, same).position(end) - after.position(end))
        np.testing.assert_allclose(there, moved, atol=1e-9)
    assert again.total_mass == pytest.approx(skeleton.total_mass)
    assert len(again.shapes) == len(skeleton.shapes)
    assert len(again.couplings) == len(skeleton.couplings)


def test_a_capsule_is_written_as_urdf_1_0_has_it(tmp_path):
    """As a cylinder with balls at its ends: ROS and Pinocchio before 2026 leave out or refuse <capsule>."""
    solid = capsule("two", (0, 0.1, 0), (1, 1, 1), 0.2, name="arm")
    figure = ps.Skeleton([ps.Joint("one", ps.Fixed()), ps.Joint("two", ps.Revolute("z"), "one")],
                         shapes=[sphere("two", 0.1), solid, sphere("two", 0.2, (0, 0.1, 0))])  # fmt: skip
    save(tmp_path / "b.urdf", figure)
    text = (tmp_path / "b.urdf").read_text()
    assert "<capsule" not in text
    assert text.count("<cylinder") == 1
    assert text.count("<sphere") == 4
    again = load(tmp_path / "b.urdf").skeleton.shapes
    assert [shape.kind for shape in again] == ["sphere", "capsule", "sphere"]
    np.testing.assert_allclose(np.sort(again[1].points, axis=0), np.sort(solid.points, axis=0), atol=1e-12)
    assert (again[1].radius, again[1].name) == (pytest.approx(0.2), "arm")
    apart = text.replace('<sphere radius="0.2"', '<sphere radius="0.3"', 1)  # a knob on a rod stays one
    kinds = [shape.kind for shape in load(apart, format="urdf").skeleton.shapes]
    assert kinds == ["sphere", "cylinder", "sphere", "sphere", "sphere"]


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
        (('type="revolute"', 'type="hinge"'), "expected type revolute"),
        (('<child link="a"/>', ""), "<child> of joint 'turn'"),
        (('<child link="a"/>', '<child link="z"/>'), "the name of a link"),
        (('<child link="a"/>', '<child link="b"/>'), "one parent of link 'b'"),
        (('<parent link="base"/>', '<parent link="f"/>'), "a cycle"),
        (('<link name="c"/>', '<link name="c"/><link name="c"/>'), "a unique link name"),
        (('<link name="c"/>', '<link name="c"/><link name="free"/>'), "one root link"),
        (('joint="turn"', 'joint="slide"'), "mimic joints without a cycle"),
        (('value="2"', 'value="-2"'), "a non-negative mass"),
        (('radius="0.1"', 'radius="x"'), "a number in radius"),
        (("<robot ", "<robots "), "well-formed XML"),
        (("</robot>", ""), "well-formed XML"),
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
    "arm/arm.urdf": (
        "tool",
        [0.5, -0.3, 0.8, -1.2, 0.4, 0.01, 0.01],
        (-0.0962218154537427, -0.05256621735966935, 0.9388238689134802),
    ),
    "urdf/erd_panda.urdf": (
        "panda_hand_tcp",
        [0.5, 0.3, 0.1, -1.2, 0.4, 1.5, -0.3, 0.01, 0.01],
        (0.482469068668244, 0.42161929980953605, 0.5298737342177502),
    ),
    "urdf/erd_ur5_robot.urdf": (
        "ee_link",
        [0.1, -0.2, 0.3, -0.4, 0.5, -0.6],
        (0.8500180362289259, 0.2675719950753641, 0.0556714678055691),
    ),
}


@pytest.mark.files(PINOCCHIO)
def test_stored_positions_of_pinocchio(path, expected):
    link, pose, position = expected
    np.testing.assert_allclose(forward(load(path).skeleton, pose).position(link), position, atol=1e-9)


def test_a_spherical_joint_turns_about_every_axis(urdf):
    text = ROBOT.replace('name="float" type="floating"', 'name="socket" type="spherical"')
    skeleton = load(urdf(text)).skeleton
    socket = skeleton.joints[skeleton.names.index("socket")]
    assert isinstance(socket.motion, Ball)
    turn = Rotation.from_euler("xyz", (0.3, -0.7, 1.1))
    still, turned = (forward(skeleton, skeleton.pose({"socket": value})) for value in (np.zeros(3), turn.as_rotvec()))
    between = still.rotation_matrix("socket").T @ turned.rotation_matrix("socket")
    assert np.allclose(between, turn.as_matrix(), atol=1e-14)


def test_meshes_and_shapes_carry_their_colors(fixtures, tmp_path):
    """Named materials, a colour inside a visual, and the material file of an OBJ, which wins as in RViz."""
    pytest.importorskip("trimesh")
    text = (fixtures / "arm" / "arm.urdf").read_text()
    for file in (fixtures / "arm").glob("*.stl"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "two.mtl").write_text("newmtl red\nKd 0.8 0.2 0.2\nnewmtl blue\nKd 0.2 0.2 0.8\n")
    (tmp_path / "two.obj").write_text(
        "mtllib two.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nusemtl red\nf 1 3 2\nf 1 2 4\nusemtl blue\nf 2 3 4\n"
    )

    def visual(file, material):
        return f'<geometry><mesh filename="{file}"/></geometry>{material}</visual>'

    for name, file, material in (
        ("base", "base.stl", '<material name="orange"/>'),
        ("link1", "link1.stl", '<material name=""><color rgba="0.1 0.2 0.3 1"/></material>'),
        ("link2", "two.obj", '<material name="orange"/>'),
        ("link3", "link3.stl", '<material name="odd"><color rgba="red"/></material>'),
    ):
        text = text.replace(visual(f"{name}.stl", ""), visual(file, material))
    text = text.replace("</robot>", '<material name="orange"><color rgba="1 0.5 0 1"/></material></robot>')
    (tmp_path / "arm.urdf").write_text(text)
    scene = load(tmp_path / "arm.urdf")
    colors = {mesh.name: mesh.color for mesh in scene.meshes}
    assert colors["base"].tolist() == [1.0, 0.5, 0.0]
    assert colors["link1"].tolist() == [0.1, 0.2, 0.3]
    assert colors["link2"].shape == (3, 3)
    assert sorted(map(tuple, colors["link2"].round(1).tolist())) == [(0.2, 0.2, 0.8), (0.8, 0.2, 0.2), (0.8, 0.2, 0.2)]
    assert colors["link3"] is None
    assert colors["link4"] is None
    shapes = {shape.name: shape.color for shape in scene.skeleton.shapes if shape.collides}
    assert shapes["base"] == (1.0, 0.5, 0.0)
    assert shapes["link3"] is None


def test_origins_are_exact_close_to_a_pitch_of_90_degrees(tmp_path):
    for off in (0.0, 1e-9, 1e-7, 1e-5, -1e-8):
        turn = Rotation.from_euler("xyz", [0.3, np.pi / 2 + off, -0.7]).as_matrix()
        arm = ps.Skeleton([ps.Joint("base", ps.Fixed()), ps.Joint("arm", ps.Revolute("z"), "base", rotation=turn)])
        save(tmp_path / "arm.urdf", arm)
        again = load(tmp_path / "arm.urdf").skeleton
        assert np.abs(forward(again, again.rest).rotation_matrix("arm") - turn).max() < 1e-15


def test_what_a_tree_of_hinges_cannot_hold_is_a_warning(tmp_path):
    joints = [ps.Joint("base", ps.Fixed()), ps.Joint("ball", ps.Ball("rotvec"), "base", offset=(0, 0, 1)),
              ps.Joint("arm", ps.Revolute("x"), "base", offset=(0, 1, 0))]  # fmt: skip
    figure = ps.Skeleton(joints, [ps.Site("a", "ball", (0, 1, 0)), ps.Site("b", "arm", (0, 0, 1))],
                         loops=[("a", "b", False)])  # fmt: skip
    with pytest.warns(PosableWarning) as caught:
        save(tmp_path / "loop.urdf", figure)
    text = " ".join(str(warning.message) for warning in caught)
    assert "1 closed loops cannot be written to URDF, which is a tree: a to b" in text
    assert "1 ball joints were written as hinges" in text
    assert load(tmp_path / "loop.urdf").skeleton.size == 4


def test_all_solids_of_a_robot_are_written_and_the_rest_is_named(tmp_path):
    turn = Rotation.from_rotvec([0.3, -0.2, 0.5])
    solids = [
        box("arm", (0.1, 0.2, 0.3), name="block").moved("arm", (0.1, 0.0, 0.0), turn),
        hull("arm", np.random.default_rng(0).normal(size=(30, 3)), name="drawn", contype=0, conaffinity=0),
        sphere("world", 0.2, (1.0, 0.0, 0.0), name="pillar"),
        plane("world", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), name="floor"),
    ]
    free = ps.Skeleton([ps.Joint("base", ps.Free("rotvec")), ps.Joint("arm", ps.Revolute("z"), "base")], shapes=solids)
    with pytest.warns(PosableWarning, match="1 of 4 shapes cannot be written to URDF.*floor; they can be obstacles"):
        save(tmp_path / "free.urdf", free)
    block, drawn, pillar = sorted(load(tmp_path / "free.urdf").skeleton.shapes, key=lambda shape: shape.name)
    assert (block.kind, drawn.kind, pillar.kind, pillar.joint) == ("box", "hull", "sphere", "world")
    assert not drawn.collides
    np.testing.assert_allclose(block.points, solids[0].points, atol=1e-12)
    fixed = free.replace(joints=[ps.Joint("base", ps.Fixed()), ps.Joint("arm", ps.Revolute("z"), "base")])
    with pytest.warns(PosableWarning, match="2 of 4 shapes cannot be written to URDF.*pillar, floor"):
        save(tmp_path / "fixed.urdf", fixed)
