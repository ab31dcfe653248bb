"""MJCF: everything that MuJoCo computes from a file, against MuJoCo itself."""

import pickle

import numpy as np
import pytest

import posable as ps
from posable.errors import FormatError, PosableWarning
from posable.model.collision import distances

mujoco = pytest.importorskip("mujoco")

ROBOTS = (
    "arm7/arm7.xml",
    "humanoid/humanoid.xml",
    "mjcf/kuka_iiwa_14/iiwa14.xml",
    "mjcf/shadow_hand/right_hand.xml",
    "mjcf/shadow_hand/scene_left.xml",
    "mjcf/pal_talos/talos_position.xml",
    "mjcf/agility_cassie/cassie.xml",
    "mjcf/trs_so_arm100/so_arm100.xml",
    "mjcf/unitree_g1/g1.xml",
)

TOY = """<mujoco model="toy">
  <compiler angle="radian" autolimits="true"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="base" pos="0.1 0.2 0.3" euler="0.1 0.2 0.3">
      <geom name="block" type="box" size="0.1 0.2 0.3" pos="0 0 0.1" mass="2"/>
      <joint name="turn" type="hinge" axis="1 2 3" pos="0.1 0 0.2" ref="0.4" range="-1 2"/>
      <joint name="slide" type="slide" axis="0 1 1" pos="0.3 0 0" ref="0.1"/>
      <body name="arm" pos="0 0.5 0">
        <joint name="ball" type="ball" pos="0 0 0.1"/>
        <geom type="capsule" size="0.02 0.1" mass="1"/>
        <site name="tip" pos="0 0 0.2" euler="0 1 0"/>
        <body name="still" pos="0 0 0.3"><geom type="cylinder" size="0.05 0.1" mass="1"/>
          <body name="finger"><joint name="finger" axis="0 1 0" pos="0 0 0.05" ref="0.2"/>
            <geom type="ellipsoid" size="0.1 0.02 0.03" mass="1" contype="2" conaffinity="4"/></body>
          <body name="thumb"><joint name="thumb" axis="0 1 0" ref="0.3"/><geom size="0.01" mass="1"/></body>
          <body name="nail"><joint name="nail" axis="1 0 0"/><geom size="0.01" mass="1"/></body>
        </body>
      </body>
    </body>
    <body name="box" pos="1 0 0.5"><freejoint name="box_free"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <contact><exclude body1="base" body2="still"/></contact>
  <equality>
    <joint joint1="finger" joint2="thumb" polycoef="0.1 -2 0 0 0"/>
    <joint joint1="nail" polycoef="0.25 0 0 0 0"/>
    <weld name="grip" body1="finger" body2="box" anchor="0.1 0 0" relpose="0.2 0 0 0.6 0.8 0 0"/>
  </equality>
  <actuator>
    <position joint="slide" ctrlrange="-0.2 0.3" forcerange="-5 5"/>
    <motor joint="turn" gear="3" ctrlrange="-2 2"/>
  </actuator>
  <keyframe><key name="home" qpos="0.5 0.1 0.6 0.8 0 0 0.1 0.2 0.3 1 2 3 0 0 0.6 0.8"/></keyframe>
</mujoco>"""


def random_qpos(model, rng):
    qpos = np.zeros(model.nq)
    for k in range(model.njnt):
        at = model.jnt_qposadr[k]
        if model.jnt_type[k] == 0:
            qpos[at : at + 3] = rng.normal(size=3)
            at += 3
        if model.jnt_type[k] < 2:
            turn = rng.normal(size=4)
            qpos[at : at + 4] = turn / np.linalg.norm(turn)
        else:
            qpos[at] = rng.uniform(-2.0, 2.0)
    return qpos


def check_against_mujoco(skeleton, model, count=10):
    """Compare the frames of every body and site, and qpos there and back, at random poses."""
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    for _ in range(count):
        data.qpos[:] = random_qpos(model, rng)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        pose = skeleton.from_qpos(data)
        frames = ps.forward(skeleton, pose)
        for kind, names in (
            ("", [model.body(b).name for b in range(model.nbody)]),
            ("site_", [model.site(s).name for s in range(model.nsite)]),
        ):
            for i, name in enumerate(names):
                if name and name != "world":
                    place = f"{name}.site" if kind and f"{name}.site" in skeleton.site_names else name
                    position, turn = getattr(data, kind + "xpos")[i], getattr(data, kind + "xmat")[i]
                    np.testing.assert_allclose(frames.position(place), position, rtol=0, atol=1e-12)
                    np.testing.assert_allclose(frames.rotation_matrix(place).ravel(), turn, rtol=0, atol=1e-12)
        back = skeleton.to_qpos(pose)
        turned = ps.forward(skeleton, skeleton.from_qpos(back))
        np.testing.assert_allclose(turned.position(skeleton.names[-1]), frames.position(skeleton.names[-1]), atol=1e-12)
        np.testing.assert_allclose(np.abs(back), np.abs(data.qpos), rtol=0, atol=1e-12)
        if len([b for b in range(model.nbody) if model.body_parentid[b] == 0]) == 2:  # the world and one robot
            np.testing.assert_allclose(frames.center_of_mass(), data.subtree_com[1], rtol=0, atol=1e-12)


@pytest.mark.files(*ROBOTS)
def test_frames_are_those_of_mujoco(path):
    check_against_mujoco(ps.load(path).skeleton, mujoco.MjModel.from_xml_path(str(path)))


def test_anchors_references_and_several_joints_on_a_body():
    skeleton = ps.load(TOY, format="mjcf").skeleton
    check_against_mujoco(skeleton, mujoco.MjModel.from_xml_string(TOY))
    assert skeleton.names == ("world", "turn", "slide", "ball", "still", "finger", "thumb", "nail", "box_free")
    assert skeleton.site_names[:3] == ("base", "arm", "finger")  # a joint of the same name stands elsewhere
    assert skeleton.name == "toy"
    assert skeleton.up == "z"


def test_limits_efforts_and_poses():
    skeleton = ps.load(TOY, format="mjcf").skeleton
    turn, slide, nail = (skeleton.dof(name) for name in ("turn", "slide", "nail"))
    assert (skeleton.lower[turn], skeleton.upper[turn]) == (-1.0, 2.0)
    assert (skeleton.lower[slide], skeleton.upper[slide]) == (-0.2, 0.3)  # a position actuator's range
    assert skeleton.lower[nail] == skeleton.upper[nail] == 0.25  # an equality without a second joint
    assert (skeleton.effort[turn], skeleton.effort[slide]) == (6.0, 5.0)
    home = skeleton.to_qpos(skeleton.named_poses["home"])
    np.testing.assert_allclose(home, [0.5, 0.1, 0.6, 0.8, 0, 0, 0.1, 0.2, 0.3, 1, 2, 3, 0, 0, 0.6, 0.8], atol=1e-12)
    follower, leader, ratio, offset = skeleton.couplings[0]
    assert (follower, leader, ratio) == ("finger", "thumb", -2.0)
    assert offset == pytest.approx(0.2 + 0.1 + 2.0 * 0.3)


def violation(model, skeleton, pose):
    """Return by how much a pose breaks the equality constraints, as MuJoCo measures it [m, rad]."""
    data = mujoco.MjData(model)
    data.qpos[:] = skeleton.to_qpos(pose)
    mujoco.mj_forward(model, data)
    rows = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    return np.abs(data.efc_pos[rows]).max()


def test_equalities_hold_where_goals_are_reached():
    skeleton = ps.load(TOY, format="mjcf").skeleton
    assert skeleton.loops == (("grip.finger", "grip.box", True),)
    target = ps.forward(skeleton, skeleton.pose({"turn": 0.3, "thumb": 0.2})).position("tip")
    result = ps.solve(skeleton, ps.goals.Position("tip", target), max_iterations=200)
    assert result.ok, result
    assert violation(mujoco.MjModel.from_xml_string(TOY), skeleton, result.pose) < 2e-4


def test_cassie_keeps_its_loops_closed(data_dir):
    path = data_dir / "mjcf" / "agility_cassie" / "cassie.xml"
    skeleton = ps.load(path).skeleton
    assert len(skeleton.loops) == 4
    start = skeleton.named_poses["home"]
    foot = ps.forward(skeleton, start).position("left-foot")
    goals = [
        ps.goals.Position("left-foot", foot + np.array([0.0, 0.0, 0.05])),
        ps.goals.Pose("cassie-pelvis", ps.forward(skeleton, start).matrix("cassie-pelvis")),
    ]
    result = ps.solve(skeleton, goals, start=start, max_iterations=300)
    assert result.ok, result
    assert violation(mujoco.MjModel.from_xml_path(str(path)), skeleton, result.pose) < 2e-4


def test_geoms_become_shapes():
    shapes = {shape.name: shape for shape in ps.load(TOY, format="mjcf").skeleton.shapes}
    assert [shape.kind for shape in shapes.values()] == [
        "plane", "box", "capsule", "cylinder", "ellipsoid", "sphere", "sphere", "sphere",
    ]  # fmt: skip
    assert shapes["floor"].joint == "world"
    np.testing.assert_array_equal(shapes["floor"].normal, (0, 0, 1))
    assert not shapes["still.geom3"].may_touch(shapes["finger.geom4"])  # by contype and conaffinity
    skeleton = ps.load(TOY, format="mjcf").skeleton
    assert skeleton.disabled_pairs == (("slide", "still"),)
    block = shapes["block"]
    np.testing.assert_allclose(block.points.mean(axis=0), np.array([0, 0, 0.1]) - [0.3, 0, 0], atol=1e-12)


@pytest.mark.files(*ROBOTS)
def test_every_collision_geom_has_a_shape_that_covers_it(path):
    model = mujoco.MjModel.from_xml_path(str(path))
    skeleton = ps.load(path).skeleton
    shapes = [shape for shape in skeleton.shapes if shape.collides]  # the others are drawn only
    geoms = [g for g in range(model.ngeom) if model.geom_contype[g] | model.geom_conaffinity[g]]
    assert len(geoms) == len(shapes)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    frames = ps.forward(skeleton, skeleton.from_qpos(data))
    for g, shape in zip(geoms, shapes, strict=True):
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[g]
            first = model.mesh_vertadr[mesh]
            vertices = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
            vertices = data.geom_xpos[g] + vertices @ data.geom_xmat[g].reshape(3, 3).T
            corners = frames.convert(shape.points, from_=shape.joint)
            rng = np.random.default_rng(0)
            for way in rng.normal(size=(30, 3)):  # the same extent in every direction
                assert (corners @ way).max() == pytest.approx((vertices @ way).max(), abs=1e-6)


def test_a_missing_mesh_costs_only_its_geom(tmp_path):
    text = TOY.replace("<worldbody>", '<asset><mesh name="m" file="gone.stl"/></asset><worldbody>', 1)
    text = text.replace('<body name="nail">', '<body name="nail"><geom type="mesh" mesh="m"/>')
    (tmp_path / "toy.xml").write_text(text)
    with pytest.warns(PosableWarning, match=r"missing mesh files \(1\)"):
        skeleton = ps.load(tmp_path / "toy.xml").skeleton
    assert skeleton.size == 14


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('type="hinge"', 'type="screw"'), "MuJoCo rejects it"),
        (("</mujoco>", ""), "MuJoCo rejects it"),
        (('joint2="thumb"', 'joint2="nobody"'), "MuJoCo rejects it"),
    ],
)
def test_what_mujoco_refuses(change, message):
    with pytest.raises(FormatError, match=message):
        ps.load(TOY.replace(*change), format="mjcf")


TENDONS = """<mujoco model="gripper">
  <compiler angle="radian" autolimits="true"/>
  <worldbody><body name="palm"><geom size="0.02" mass="1"/>
    <body name="left" pos="0.1 0 0"><joint name="left" axis="0 1 0" ref="0.2"/><geom size="0.01" mass="1"/>
      <site name="tip" pos="0 0 0.2"/>
      <body name="pad" pos="0 0 0.2"><joint name="pad" axis="0 1 0" ref="-0.1"/><geom size="0.01" mass="1"/></body>
    </body>
    <body name="right" pos="-0.1 0 0"><joint name="right" axis="0 1 0" ref="0.3"/><geom size="0.01" mass="1"/></body>
    <body name="lid"><joint name="lid" axis="1 0 0"/><geom size="0.01" mass="1"/></body>
    <body name="free"><joint name="free" axis="1 0 0"/><geom size="0.01" mass="1"/></body>
  </body></worldbody>
  <tendon>
    <fixed name="both"><joint joint="left" coef="0.5"/><joint joint="right" coef="-0.8"/></fixed>
    <fixed name="one"><joint joint="pad" coef="2"/></fixed>
    <fixed name="other"><joint joint="left" coef="-3"/></fixed>
    <fixed name="still"><joint joint="lid" coef="0.7"/></fixed>
    <fixed name="spare"><joint joint="free" coef="1"/></fixed>
  </tendon>
  <equality>
    <tendon tendon1="both" polycoef="0.1 0 0 0 0"/>
    <tendon tendon1="one" tendon2="other" polycoef="0.05 0.4 0 0 0"/>
    <tendon tendon1="still" polycoef="0.14 0 0 0 0"/>
  </equality>
</mujoco>"""


def test_equalities_of_fixed_tendons_hold_where_goals_are_reached():
    skeleton = ps.load(TENDONS, format="mjcf").skeleton
    assert {follower for follower, *_ in skeleton.couplings} == {"left", "pad"}
    target = ps.forward(skeleton, skeleton.rest).position("tip") + np.array([0.05, 0.0, -0.01])
    result = ps.solve(skeleton, [ps.goals.Position("tip", target)])
    model = mujoco.MjModel.from_xml_string(TENDONS)
    data = mujoco.MjData(model)
    data.qpos[:] = skeleton.to_qpos(result.pose)
    mujoco.mj_forward(model, data)
    assert abs(result.pose[skeleton.index("left")][0] - 0.2) > 0.05  # it moved
    assert data.ne == 3
    assert np.abs(data.efc_pos[: data.ne]).max() < 2e-4


@pytest.mark.files({"arm7/arm7.xml": 1, "mjcf/shadow_hand/right_hand.xml": 4})
def test_tendons_of_a_file_that_are_not_used_are_named(path, expected):
    assert f"tendons not used ({expected})" in "\n".join(ps.load(path).notes)


def test_a_site_named_like_a_joint_gets_another_name_and_a_note_says_so():
    text = """<mujoco><worldbody><body name="shin"><joint name="knee" axis="0 1 0"/><geom size="0.1"/>
        <site name="knee" pos="0 0 0.2"/><site name="toe" pos="0 0 -0.4"/></body></worldbody></mujoco>"""
    file = ps.load(text, format="mjcf")
    assert "sites that share a name with a body or joint (1) have another here: 'knee.site'" in "\n".join(file.notes)
    placed = ps.forward(file.skeleton, file.skeleton.rest)
    assert np.allclose(placed.position("knee.site"), (0, 0, 0.2))
    assert np.allclose(placed.position("toe"), (0, 0, -0.4))


def test_tendons_that_are_not_used_are_named():
    notes = "\n".join(ps.load(TENDONS, format="mjcf").notes)
    assert "tendons not used (1), their joints move independently: spare" in notes
    wide = TENDONS.replace(
        '<joint joint="right" coef="-0.8"/>', '<joint joint="right" coef="1"/><joint joint="free" coef="2"/>'
    )
    with pytest.warns(PosableWarning, match="'both' ties 3 joints together"):
        ps.load(wide, format="mjcf")


def test_meshes_and_shapes_carry_their_colors(fixtures, tmp_path):
    """A geom's rgba overrides its material, as in MuJoCo's viewer; without either there is no colour."""
    text = (fixtures / "arm7" / "arm7.xml").read_text()
    (tmp_path / "block.stl").write_bytes((fixtures / "arm7" / "block.stl").read_bytes())
    text = text.replace("<asset>", '<asset><material name="orange" rgba="1 0.5 0 1"/>')
    blocks = (' material="orange"', ' material="orange" rgba="0.25 0.5 0.75 1"', "", "")
    head, *rest = text.split('type="mesh" mesh="block"')
    text = head + "".join(f'type="mesh" mesh="block"{own}{part}' for own, part in zip(blocks, rest, strict=True))
    text = text.replace('type="cylinder"', 'type="cylinder" rgba="0 1 0 1"')
    (tmp_path / "arm7.xml").write_text(text)
    scene = ps.load(tmp_path / "arm7.xml")
    colors = [None if mesh.color is None else mesh.color.tolist() for mesh in scene.meshes]
    assert colors == [[1.0, 0.5, 0.0], [0.25, 0.5, 0.75], None, None]
    assert next(shape.color for shape in scene.skeleton.shapes if shape.kind == "cylinder") == (0.0, 1.0, 0.0)
    assert next(shape.color for shape in scene.skeleton.shapes if shape.kind == "capsule") is None
    assert scene.skeleton == ps.load(fixtures / "arm7" / "arm7.xml").skeleton


def test_a_texture_colors_the_faces(tmp_path):
    image = pytest.importorskip("PIL.Image")
    picture = np.zeros((8, 8, 3), dtype=np.uint8)
    picture[:4, :, 0], picture[4:, :, 2] = 255, 255  # red above, blue below
    image.fromarray(picture).save(tmp_path / "two.png")
    (tmp_path / "four.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0.5 0.9\nvt 0.5 0.1\n"
        "f 1/1 3/1 2/1\nf 1/1 2/1 4/1\nf 2/2 3/2 4/2\nf 1/2 4/2 3/2\n"
    )
    (tmp_path / "four.xml").write_text(
        """<mujoco><asset><texture name="t" type="2d" file="two.png"/><material name="m" texture="t"/>
        <mesh name="four" file="four.obj"/></asset><worldbody><body><joint/>
        <geom type="mesh" mesh="four" material="m"/></body></worldbody></mujoco>"""
    )
    (mesh,) = ps.load(tmp_path / "four.xml").meshes
    red = mesh.color[:, 0] > 0.9
    assert red.sum() == 2
    assert (mesh.color[~red, 2] > 0.9).all()
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    slanted = np.linalg.norm(normals, axis=1).argmax()
    assert not red[slanted]  # the slanted face is blue in the file


PAIRS = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" contype="0" conaffinity="0"/>
  <body name="A" pos="0 0 1"><joint name="a" type="slide"/>
    <geom name="one" size="0.1" {bits}/><geom name="beside" size="0.1" pos="0 0.05 0" {bits}/>
    <body name="B"><joint name="b" axis="1 0 0" type="slide"/><geom name="two" size="0.1" {bits}/></body></body>
  <body name="C" pos="0 0 2"><joint name="c" axis="1 0 0" type="slide"/><geom name="three" size="0.1" {bits}/></body>
  </worldbody><contact><exclude body1="A" body2="C"/><pair geom1="one" geom2="two"/><pair geom1="three" geom2="one"/>
  <pair geom1="two" geom2="floor"/></contact></mujoco>"""


@pytest.mark.parametrize("bits", ['contype="0" conaffinity="0"', 'contype="2" conaffinity="4"', ""])
def test_explicit_pairs_are_checked_whatever_else_the_file_says(bits, tmp_path):
    """Neighbours, excluded bodies, unmatched bits: as in MuJoCo, and no other geoms of these bodies."""
    path = tmp_path / "pairs.xml"
    path.write_text(PAIRS.format(bits=bits))
    skeleton = ps.load(path).skeleton
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    touched = set()
    for pose in rng.uniform([-1.2, -0.3, -0.3], [1.2, 0.3, 0.3], (200, 3)):
        data.qpos[:] = skeleton.to_qpos(pose)
        mujoco.mj_forward(model, data)
        theirs = {frozenset(model.geom(int(g)).name for g in contact.geom): contact.dist for contact in data.contact}
        ours = {frozenset((a, b)): d for a, b, d in distances(skeleton, pose, within=0.0)}
        assert theirs.keys() == ours.keys()
        assert all(abs(ours[pair] - distance) < 1e-6 for pair, distance in theirs.items())
        touched |= {*theirs}
    assert {frozenset(("one", "two")), frozenset(("three", "one")), frozenset(("two", "floor"))} <= touched
    again = pickle.loads(pickle.dumps(skeleton))
    assert again == skeleton
    assert again.shapes[1].partners == skeleton.shapes[1].partners != ()


def test_explicit_pairs_survive_a_file_of_ours(tmp_path):
    skeleton = ps.load(PAIRS.format(bits=""), format="mjcf").skeleton
    ps.save(tmp_path / "pairs.npz", ps.Motion(skeleton, skeleton.rest[None], fps=30.0))
    assert ps.load(tmp_path / "pairs.npz").skeleton == skeleton
