"""Drawing without a browser: what reaches viser's scene for every kind of figure."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.formats import Mesh

viser = pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")
import zstandard  # noqa: E402

from posable.studio.appearance import appearance_of, front_of, root_joint, skinned, surface_points  # noqa: E402
from posable.studio.figure_nodes import (  # noqa: E402
    LimitHighlight,
    blend_color,
    draw,
    skin_patch,
)
from posable.studio.handles import default_handles, opening_pose  # noqa: E402
from posable.studio.meshes import quaternions, sphere  # noqa: E402
from posable.studio.overlays import AMBER, RED  # noqa: E402
from posable.studio.viser_adapter import (  # noqa: E402
    NodeUpdater,
    Slot,
    page,
    send,
)


@pytest.fixture(scope="module")
def scene():
    server = viser.ViserServer(host="127.0.0.1", port=8390, verbose=False)
    yield server.scene
    server.stop()


@pytest.mark.parametrize("name", ps.figures.names())
def test_every_figure_is_drawn_where_its_frames_are(scene, name):
    skeleton = ps.figures.get(name)
    drawn = draw(scene, f"/{name}", appearance_of(skeleton, None, detail=0.3))
    frames = ps.forward(skeleton, skeleton.rest)
    drawn.show(frames)
    assert drawn.skins or drawn.rigid
    for node, joint in drawn.rigid:
        assert node.position == pytest.approx(frames.position(joint), abs=1e-4)
    for mesh, bones, anchor in drawn.skins:
        if anchor is not None:
            assert mesh.position == pytest.approx(frames.position(anchor), abs=1e-4)
            assert mesh.bones[bones.index(anchor)].position == pytest.approx(np.zeros(3), abs=1e-4)
    drawn.remove()


def test_a_robots_meshes_hang_on_their_joints(scene):
    arm = ps.figures.panda()
    meshes = tuple(Mesh(name, *sphere(0.05), joint=name) for name in arm.names)
    drawn = draw(scene, "/arm", appearance_of(arm, ps.Scene(skeleton=arm, meshes=meshes)))
    drawn.show(ps.forward(arm, arm.rest))
    assert [joint for _, joint in drawn.rigid] == list(arm.names)


def _area(vertices, faces):
    a, b, c = np.asarray(vertices, dtype=float)[faces].swapaxes(0, 1)
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()


@pytest.mark.files("character.glb", "gltf/khronos_CesiumMan.glb")
def test_a_character_is_drawn_as_its_skin(scene, path):
    source = ps.load(path)
    drawn = draw(scene, "/man", appearance_of(source.skeleton, source))
    drawn.show(ps.forward(source.skeleton, source.motion.poses[0]))
    assert len(drawn.skins) > 1  # its texture has several colours
    assert len({tuple(mesh.color) for mesh, *_ in drawn.skins}) == len(drawn.skins)
    assert all(set(bones) <= set(source.skeleton.names) for _, bones, _ in drawn.skins)
    whole = source.meshes[0]
    scale = float(np.cbrt(np.abs(np.linalg.det(np.linalg.inv(whole.inverse_bind)[:, :3, :3]))).mean())
    area = sum(_area(mesh.vertices, mesh.faces) for mesh, *_ in drawn.skins)  # faces are divided where colours change
    assert area == pytest.approx(_area(whole.vertices / scale, whole.faces), rel=1e-4)


def buffered(scene):
    """Return what viser keeps for its pages: the messages in their order, and every index of them by message."""
    buffer = scene._websock_interface.get_message_buffer()
    order = sorted(buffer.message_from_id)
    found = [buffer.message_from_id[k] for k in order]
    told = [
        (type(one).__name__, {k: v for k, v in vars(one).items() if k[0] != "_"})
        for one in found
        if type(one).__name__.startswith("Set")
    ]
    keys = {key: order.index(k) for key, k in buffer.id_from_redundancy_key.items()}
    entities = {key: sorted(order.index(k) for k in ids) for key, ids in buffer.ids_from_entity_state_key.items()}
    return told, keys, entities


def test_places_are_sent_as_viser_itself_would(scene):
    """The buffer ends up as by `node.position = ...`: what a new page is sent, and what a removal will find."""
    weights = np.tile([0.5, 0.5], (4, 1))
    mesh = scene.add_mesh_skinned(
        "/fast", np.eye(4, 3), np.array([[0, 1, 2], [1, 2, 3]]), bone_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (2, 1)),
        bone_positions=np.zeros((2, 3)), skin_weights=weights,
    )  # fmt: skip
    place, turn = np.array([0.1, 0.2, 0.3]), np.array([0.8, 0.6, 0.0, 0.0])
    nodes = (mesh, mesh.bones[1])
    for node in nodes:
        node.position, node.wxyz = place, turn
    theirs = buffered(scene)
    slots = [Slot(node) for node in nodes]
    send([])
    for share in (0.5, 1.0):  # the first one is replaced
        send([move for slot in slots for move in (slot.position(share * place), slot.turn(turn))])
    assert buffered(scene) == theirs
    for node in nodes:
        assert np.array_equal(node.position, place)
        assert np.array_equal(node.wxyz, turn)
    mesh.remove()
    kept = [vars(message) for message in scene._websock_interface.get_message_buffer().message_from_id.values()]
    assert [one for one in kept if one.get("name") == "/fast" and "position" in one] == []


def test_quaternions_are_scipys():
    turns = Rotation.concatenate([
        Rotation.random(200, random_state=1), Rotation.from_rotvec(np.pi * np.eye(3)), Rotation.identity(1),
    ])  # fmt: skip
    ours, theirs = quaternions(turns.as_matrix()), turns.as_quat()[:, [3, 0, 1, 2]]
    assert np.abs(np.sum(ours * theirs, axis=1)) == pytest.approx(1.0, abs=1e-14)
    assert np.linalg.norm(ours, axis=1) == pytest.approx(1.0, abs=1e-14)


def test_the_script_of_the_page_is_corrected_and_as_long_as_before():
    """Its loader knows the length of the script; another version of viser is left as it is."""
    from pathlib import Path

    from posable.studio.viser_adapter import _CORRECTIONS, _SCRIPT, _from_88

    def script_in(text):
        return zstandard.ZstdDecompressor().decompressobj().decompress(_from_88(_SCRIPT.search(text)[1].encode()))

    own = script_in((Path(viser.__file__).parent / "client" / "build" / "index.html").read_text(encoding="utf-8"))
    ours = script_in(page().decode())
    assert len(own) == len(ours)
    if viser.__version__ == "1.1.1":
        for wrong, right in _CORRECTIONS:
            assert (own.count(wrong), ours.count(wrong)) == (1, 0)
            assert right in ours


def test_a_limb_at_its_limit_is_coloured_and_only_it(scene):
    human = ps.figures.human()
    drawn = draw(scene, "/lit", appearance_of(human, None, detail=0.3))
    highlight = LimitHighlight(scene, drawn, 1.5)
    pose = human.pose({"elbow.R": np.radians(150.0)})
    highlight.show(ps.forward(human, pose), {"elbow.R": AMBER})
    assert set(drawn.shells) == {"elbow.R"}
    for mesh, bones, anchor in drawn.shells["elbow.R"].skins:
        assert mesh.visible
        assert mesh.color == AMBER
        assert anchor == "elbow.R"
        assert "elbow.L" not in bones
        forearm = np.linalg.norm(mesh.vertices, axis=1)
        assert forearm.max() < 0.45  # [m] from the elbow
    highlight.show(ps.forward(human, pose), {"elbow.R": RED})
    assert {mesh.color for mesh, *_ in drawn.shells["elbow.R"].skins} == {RED}
    highlight.show(ps.forward(human, human.rest), {})
    assert not any(mesh.visible for mesh, *_ in drawn.shells["elbow.R"].skins)


def test_the_tints_of_neighbours_join_without_a_gap():
    for skin in appearance_of(ps.figures.human(), None, detail=0.3).skins:
        patches = [patch for bone in skin.bones if (patch := skin_patch(skin, bone, 0.0)) is not None]
        assert sum(len(patch.faces) for patch in patches) == len(skin.faces)


def test_the_tint_of_a_pose_does_not_depend_on_the_poses_before(scene):
    human = ps.figures.human()
    frames = ps.forward(human, human.rest)
    limbs = ("hip.L", "knee.L", "hip.R", "knee.R", "shoulder.L", "elbow.L", "shoulder.R", "elbow.R")
    drawn = draw(scene, "/lit_often", appearance_of(human, None, detail=0.3))
    highlight = LimitHighlight(scene, drawn, 1.5)
    tinted = []
    for before in ((), limbs[-2:]):
        highlight.show(frames, dict.fromkeys(before, AMBER))
        highlight.show(frames, dict.fromkeys(limbs, AMBER))
        shells = drawn.shells.items()
        tinted.append({joint for joint, shell in shells if all(mesh.visible for mesh, *_ in shell.skins)})
    assert tinted[0] == tinted[1] == set(limbs[:6])


def test_a_robots_link_takes_the_colour_and_gives_it_back(scene):
    arm = ps.figures.panda()
    drawn = draw(scene, "/lit_arm", appearance_of(arm, None))
    highlight = LimitHighlight(scene, drawn, 1.0)
    before = {joint: node.color for node, joint in drawn.rigid}
    frames = ps.forward(arm, arm.rest)
    lit = arm.names[3]
    highlight.show(frames, {lit: AMBER})
    assert {joint for node, joint in drawn.rigid if node.color == blend_color(before[joint], AMBER)} == {lit}
    highlight.show(frames, {})
    assert {joint: node.color for node, joint in drawn.rigid} == before


def test_only_what_moved_is_sent(scene):
    nodes, mover = [scene.add_frame(f"/still/{k}") for k in range(2)], NodeUpdater()
    buffer = scene._websock_interface.get_message_buffer()
    places, turns = np.zeros((2, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (2, 1))
    counts = [buffer.message_counter]
    for offset in ([[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0.1, 0, 0]], [[0, 0, 0], [0.1, 0, 0]]):
        mover.move(nodes, places + np.array(offset), turns)
        counts.append(buffer.message_counter)
    assert np.diff(counts).tolist() == [4, 1, 0]
    assert nodes[1].position == pytest.approx([0.1, 0.0, 0.0])


def test_a_characters_rigid_parts_are_drawn_beside_its_skin(scene, fixtures):
    source = ps.load(fixtures / "walk.glb")
    head = source.skeleton.names[-1]
    hat = Mesh("hat", *sphere(0.05), joint=head)
    both = replace(source, meshes=(*source.meshes, hat)) if any(m.joints for m in source.meshes) else None
    if both is None:  # the fixture has bones alone: a skin of one bone
        bind = np.linalg.inv(ps.forward(source.skeleton, source.skeleton.rest).matrix(head))[None]
        v, f = sphere(0.1)
        skin = Mesh("skin", v, f, None, (head,), bind, np.zeros((len(v), 4), np.int32), np.eye(4)[[0] * len(v)])
        both = replace(source, meshes=(skin, hat))
    look = appearance_of(both.skeleton, both)
    assert len(look.skins) == sum(bool(m.joints) for m in both.meshes)
    assert [part.body for part in look.rigid] == [head]


def test_a_skin_follows_its_bones():
    human = ps.figures.human()
    look = appearance_of(human, None, detail=0.3)
    pose = human.pose({"elbow.L": 1.2, "hip.R": (-0.8, 0.1, 0.0)})
    frames = ps.forward(human, pose)
    for skin in look.skins:
        vertices = skinned(skin, frames)
        assert vertices.shape == skin.vertices.shape
        if skin.name == "hand.L":  # close to its own bones, as they are now
            assert np.linalg.norm(vertices - frames.position("wrist.L"), axis=1).max() < 0.25
            assert np.linalg.norm(vertices.mean(axis=0) - frames.position("hand.L")) < 0.05


def test_the_meshes_of_a_urdf_are_drawn(scene, fixtures):
    path = fixtures / "arm" / "arm.urdf"
    source = ps.load(path)
    look = appearance_of(source.skeleton, source)
    assert len(look.rigid) == len(list((fixtures / "arm").glob("*.stl")))
    assert {part.body for part in look.rigid} <= {*source.skeleton.names, *source.skeleton.site_names}
    drawn = draw(scene, "/urdf", look)
    frames = ps.forward(source.skeleton, source.skeleton.rest)
    drawn.show(frames)
    for node, body in drawn.rigid:
        assert node.position == pytest.approx(frames.position(body), abs=1e-4)


def test_a_robot_has_the_colors_of_its_file(scene, fixtures):
    source = ps.load(fixtures / "arm" / "arm.urdf")
    plain, orange, striped, *rest = source.meshes
    faces = np.zeros((len(striped.faces), 3))
    faces[::2] = 1.0, 1.0, 1.0
    meshes = (plain, replace(orange, color=np.array([1.0, 0.5, 0.0])), replace(striped, color=faces), *rest)
    look = appearance_of(source.skeleton, replace(source, meshes=meshes))
    colors = {part.name: part.color for part in look.rigid}
    assert colors["mesh1"] == (255, 127, 0)
    assert {colors["mesh2.0"], colors["mesh2.1"]} == {(0, 0, 0), (255, 255, 255)}
    assert sum(len(part.faces) for part in look.rigid) == sum(len(mesh.faces) for mesh in source.meshes)
    assert {node.color for node, _ in draw(scene, "/colors", look).rigid} == set(colors.values())
    shapes = [replace(shape, color=(0.0, 0.0, 1.0)) for shape in source.skeleton.shapes]
    solid = appearance_of(source.skeleton.replace(shapes=shapes), None)
    assert {part.color for part in solid.rigid if part.flat} == {(0, 0, 255)}


def test_joints_without_a_surface_are_drawn_as_bones():
    """A robot whose mesh files are missing has boxes at its fingers alone: its arm must be seen all the same."""
    arm = ps.figures.panda()
    last = arm.names[-1]
    look = appearance_of(arm, ps.Scene(skeleton=arm, meshes=(Mesh("finger", *sphere(0.02), joint=last),)))
    drawn = {part.body for part in look.rigid}
    frames = ps.forward(arm, arm.rest)
    for joint in arm.joints[1:]:
        step = frames.position(joint.name) - frames.position(joint.parent)
        assert np.linalg.norm(step) < 0.05 or joint.parent in drawn
    assert [part.body for part in look.rigid if part.flat] == [last]
    whole = tuple(Mesh(name, *sphere(0.05), joint=name) for name in arm.names)
    assert all(
        part.flat for part in appearance_of(arm, ps.Scene(skeleton=arm, meshes=whole)).rigid
    )  # no bones through them


def test_a_robot_of_many_triangles_is_thinned(data_dir):
    pytest.importorskip("mujoco")
    source = ps.load(data_dir / "mjcf" / "unitree_g1" / "g1.xml")
    before = sum(len(mesh.faces) for mesh in source.meshes)
    look = appearance_of(source.skeleton, source)
    after = sum(len(part.faces) for part in look.rigid)
    assert len(look.rigid) == len(source.meshes)
    assert before > 300_000
    assert after < 0.5 * before
    for mesh, part in zip(source.meshes, look.rigid, strict=True):
        assert np.abs(part.vertices.max(axis=0) - mesh.vertices.max(axis=0)).max() < 0.006


@pytest.mark.files("humanoid/humanoid.xml", "mjcf/unitree_g1/g1.xml")
def test_a_floating_robot_stands_on_the_floor(path):
    pytest.importorskip("mujoco")
    source = ps.load(path)
    pose = opening_pose(source.skeleton, source)
    frames = ps.forward(source.skeleton, pose)
    lowest = min(
        (m.vertices @ frames.rotation_matrix(m.joint).T + frames.position(m.joint))[:, 2].min() for m in source.meshes
    )
    assert abs(lowest) < 0.02
    assert np.all(pose >= source.skeleton.lower)
    assert np.all(pose <= source.skeleton.upper)


def test_figures_come_and_go_without_a_trace(scene):
    human, panda = ps.figures.human(), ps.figures.panda()
    looks = [appearance_of(human, None, detail=0.3), appearance_of(panda, None)]
    for k in range(6):
        drawn = draw(scene, f"/turn/{k}", looks[k % 2])
        drawn.show(ps.forward(*((human, human.rest) if k % 2 == 0 else (panda, panda.rest))))
        drawn.remove()
    assert not [name for name in scene._handle_from_node_name if name.startswith("/turn/")]


@pytest.mark.files({"arm/arm.urdf": "joint5", "urdf/erd_panda.urdf": None, "urdf/erd_ur5_robot.urdf": "ee_link"})
def test_an_arm_has_one_handle_at_its_tool(path, expected):
    robot = ps.load(path).skeleton
    (tool,) = default_handles(robot, ps.forward(robot, robot.rest))
    assert tool.mode == "both"  # an arm's tool has a place and a direction
    assert expected is None or tool.body == expected


@pytest.mark.files(
    {
        "walk.bvh": (
            {"wrist.L", "wrist.R", "ankle.L", "ankle.R", "skull", "root"},
            {"elbow.L", "elbow.R", "knee.L", "knee.R"},
        ),
        "cmu/02_01.bvh": (
            {"LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head", "Hips"},
            {"LeftForeArm", "RightForeArm", "LeftLeg", "RightLeg"},
        ),
    }
)
def test_handles_are_at_the_ends_not_at_every_finger(path, expected):
    walker = ps.load(path).skeleton
    handles = default_handles(walker, ps.forward(walker, walker.rest))
    firm = {h.body for h in handles if h.hold != "free"}
    assert (firm, {h.body for h in handles} - firm) == expected


def test_both_legs_of_a_character_without_feet_have_handles(fixtures):
    character = ps.load(fixtures / "character.glb").skeleton
    bodies = [h.body for h in default_handles(character, ps.forward(character, character.rest))]
    assert bodies == ["neck", "hand_L", "hand_R", "shin_L", "shin_R", "torso"]


def test_all_legs_of_a_fox_have_handles(data_dir):
    fox = ps.load(data_dir / "gltf" / "khronos_Fox.glb").skeleton
    bodies = [h.body for h in default_handles(fox, ps.forward(fox, fox.rest))]
    for part in ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head", "Tail"):
        assert any(part in body for body in bodies), part


FOX = {"b_LeftHand_011", "b_RightHand_08", "b_LeftFoot01_017", "b_RightFoot01_021"}


@pytest.mark.files(
    {  # the recordings have fixed nodes or helper bones above the pelvis, the last one 60 helper bones below it
        "walk.bvh": ({"ankle.L", "ankle.R"}, "root"),
        "gltf/khronos_CesiumMan.glb": ({"leg_joint_L_3", "leg_joint_R_3"}, "Skeleton_torso_joint_1"),
        "gltf/khronos_Fox.glb": (FOX, "b_Hip_01"),
        "gltf/momentum_test_24fps.glb": ({"b_l_foot", "b_r_foot"}, "b_root"),
    }
)
def test_a_character_stands_on_its_feet_and_has_no_handles_on_helper_bones(path, expected):
    character, (feet, pelvis) = ps.load(path).skeleton, expected
    assert root_joint(character).motion.size == 6
    handles = default_handles(character, ps.forward(character, character.rest))
    assert {h.body for h in handles if h.hold == "pinned"} == feet
    assert [h.hold for h in handles if h.body == pelvis] == ["held"]
    assert len(handles) == 10 + ("Fox" in path.name)  # hands, feet, head, pelvis, elbows, knees; and a tail


@pytest.mark.files(
    {
        "walk.bvh": (0, 0, 1), "character.glb": (0, 0, 1), "humanoid/humanoid.xml": (1, 0, 0),
        "arm/arm.urdf": (1, 0, 0),
        "bvh/assimp_Boxing_Toes.bvh": (0, 0, -1), "bvh/makehuman_dance1.bvh": (1, 0, 0),
        "gltf/khronos_Fox.glb": (0, 0, 1), "urdf/erd_romeo.urdf": (1, 0, 0), "urdf/erd_panda.urdf": (1, 0, 0),
    }
)  # fmt: skip
def test_a_figure_is_seen_from_the_side_that_it_faces(path, expected):
    source = ps.load(path)
    pose = source.motion.poses[0] if source.motion is not None else source.skeleton.rest
    assert tuple(front_of(source.skeleton, ps.forward(source.skeleton, pose))) == expected


@pytest.mark.parametrize("shape", [(1.0, 0.1, 0.1), (0.1, 1.0, 0.1), (0.3, 0.3, 2.0)])
def test_a_figure_fills_the_part_of_the_page_that_the_panel_leaves(shape):
    from posable.studio.stage import CLEAR, FOV, framed

    points = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3)) * shape
    back = framed(points, np.array([0.4, 0.2, 1.0]), np.eye(3)[1])
    distance = np.linalg.norm(back)
    view = Rotation.align_vectors(np.eye(3)[[2, 0]], [back / distance, np.cross(np.eye(3)[1], back)])[0].apply(points)
    seen = np.abs(view[:, :2]) / (distance - view[:, 2:]) / np.tan(0.5 * FOV)
    assert (seen.max(axis=0) / CLEAR).max() == pytest.approx(1.0)


@pytest.mark.files(
    {
        "arm7/arm7.xml": {"tool"},
        "arm/arm.urdf": {"joint5"},  # the palm, not the fingers
        "mjcf/agility_cassie/cassie.xml": {"left-foot", "right-foot", "joint_0"},  # no rods of its closed loops
        "mjcf/shadow_hand/right_hand.xml": {f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th")},
        "mjcf/trs_so_arm100/so_arm100.xml": {"Wrist_Roll"},  # the palm, not the moving jaw
    }
)
def test_handles_of_robots_are_where_users_expect_them(path, expected):
    pytest.importorskip("mujoco")
    robot = ps.load(path).skeleton
    assert {h.body for h in default_handles(robot, ps.forward(robot, robot.rest))} == expected


def test_the_handle_of_a_tool_that_slides_is_on_the_tool():
    """The last axis of a gantry or a SCARA robot slides as the finger of a gripper does, but moves the tool."""
    base, turn = ps.Joint("base", ps.Fixed()), ps.Joint("turn", ps.Revolute("z"), "base", offset=(0, 0, 0.3))
    quill = ps.Joint("quill", ps.Prismatic("z"), "turn", offset=(0.4, 0, 0), limits=(-0.2, 0.0))
    lift = ps.Joint("lift", ps.Prismatic("z"), "base", limits=(0.0, 0.5))
    fingers = [ps.Joint(f"part{k}", ps.Prismatic("y"), "turn", offset=(0.4, 0, 0)) for k in (1, 2)]
    for joints, expected in (((base, turn, quill), "quill"), ((base, lift), "lift"), ((base, turn, *fingers), "turn")):
        robot = ps.Skeleton(joints, up="z")
        assert [h.body for h in default_handles(robot, ps.forward(robot, robot.rest))] == [expected]


def test_both_tools_of_a_robot_with_two_arms_are_full_poses(data_dir):
    robot = ps.load(data_dir / "urdf" / "erd_baxter.urdf").skeleton
    handles = default_handles(robot, ps.forward(robot, robot.rest))
    assert {h.mode for h in handles if "gripper" in h.body} == {"both"}


@pytest.mark.files("character.glb", "gltf/khronos_CesiumMan.glb", "mjcf/unitree_g1/g1.xml", "mjcf/pal_talos/talos.xml")
def test_no_handle_is_hidden_inside_the_body(path, scene):
    from posable.studio.appearance import extent
    from posable.studio.handle_nodes import HandleNodes, girth_at
    from posable.studio.session import Session

    session = Session(ps.load(path))
    view, size = session.view(), extent(session.skeleton)
    points = surface_points(appearance_of(session.skeleton, session.scene))
    up = np.eye(3)[1 if session.skeleton.up == "y" else 2]
    handles = HandleNodes(scene, session, size=size, up=up, dressed=False, surface=points)
    handles.show(view)
    try:
        for name in handles.rings:  # a press on the limb takes hold of it, and nothing else of it is to be seen
            assert scene.get_handle_by_name(f"{handles.nodes[name].name}/grip").opacity == 0.0
        for name, node in handles.nodes.items():
            radius = np.linalg.norm(node.vertices, axis=1).max()
            assert radius > girth_at(session.skeleton, view.frames, points, name, up, size).radius, name
            assert radius < 0.2 * size, name
    finally:
        handles.remove()
        session.close()


@pytest.mark.files(
    {
        "humanoid/humanoid.urdf": -0.785, "arm/arm.urdf": 0.0, "humanoid/humanoid.xml": 0.0,
        "mjcf/shadow_hand/right_hand.xml": -0.0676,
    }
)  # fmt: skip
def test_the_floor_is_below_a_figure_that_is_fixed_in_the_air(path, expected):
    """A URDF has its pelvis at the origin, and a hand its wrist: the floor must not cut through them."""
    from posable.studio.stage import floor_height

    pytest.importorskip("trimesh")
    pytest.importorskip("mujoco")
    source = ps.load(path)
    points = surface_points(appearance_of(source.skeleton, source))
    frames = ps.forward(source.skeleton, opening_pose(source.skeleton, source))
    assert floor_height(source.skeleton, frames, points, np.eye(3)[2]) == pytest.approx(expected, abs=1e-4)


def test_the_ring_of_a_bent_elbow_is_as_wide_as_the_arm():
    """It encircles the elbow, not the length of the upper arm, which lies across the axis of a bent forearm."""
    from posable.studio.handle_nodes import girth_at

    arm = ps.figures.human()
    points = surface_points(appearance_of(arm, None, detail=0.3))
    wide = [
        girth_at(arm, ps.forward(arm, arm.pose({"elbow.L": bend})), points, "elbow.L", np.eye(3)[1], 1.8).radius
        for bend in (0.0, 1.6)
    ]
    assert wide[1] < 1.3 * wide[0]
