"""Drawing without a browser: what reaches viser's scene for every kind of figure."""

import numpy as np
import pytest

import posable as ps
from posable.formats import Mesh

viser = pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")

from posable.studio.figure_nodes import draw  # noqa: E402
from posable.studio.handles import default_handles  # noqa: E402
from posable.studio.limit_highlight import Glow  # noqa: E402
from posable.studio.meshes import sphere  # noqa: E402
from posable.studio.overlays import AMBER, RED  # noqa: E402
from posable.studio.scene_sync import Mover, set_position, set_turn  # noqa: E402


@pytest.fixture(scope="module")
def scene():
    server = viser.ViserServer(host="127.0.0.1", port=8390, verbose=False)
    yield server.scene
    server.stop()


@pytest.mark.parametrize("name", ps.figures.names())
def test_every_figure_is_drawn_where_its_frames_are(scene, name):
    skeleton = ps.figures.get(name)
    drawn = draw(scene, f"/{name}", skeleton, None, detail=0.3)
    frames = ps.forward(skeleton, skeleton.rest)
    drawn.show(frames)
    assert drawn.skins or drawn.rigid
    for node, joint in drawn.rigid:
        assert node.position == pytest.approx(frames.position(joint), abs=1e-4)
    for mesh, bones, anchor in drawn.skins:
        if anchor is not None:
            assert mesh.position == pytest.approx(frames.position(anchor), abs=1e-4)
            assert mesh.bones[bones.index(anchor)].position == pytest.approx(np.zeros(3), abs=1e-4)
    drawn.retire()


def test_a_robots_meshes_hang_on_their_joints(scene):
    arm = ps.figures.panda()
    meshes = tuple(Mesh(name, *sphere(0.05), joint=name) for name in arm.names)
    drawn = draw(scene, "/arm", arm, ps.Scene(skeleton=arm, meshes=meshes))
    drawn.show(ps.forward(arm, arm.rest))
    assert [joint for _, joint in drawn.rigid] == list(arm.names)


def test_a_character_is_drawn_as_its_skin(scene, data_dir):
    source = ps.load(data_dir / "gltf" / "khronos_CesiumMan.glb")
    drawn = draw(scene, "/man", source.skeleton, source)
    drawn.show(ps.forward(source.skeleton, source.motion.poses[0]))
    (mesh, bones, _), *_ = drawn.skins
    assert set(bones) <= set(source.skeleton.names)
    assert len(mesh.vertices) == len(source.meshes[0].vertices)


def test_places_are_sent_as_viser_itself_would(scene, monkeypatch):
    weights = np.tile([0.5, 0.5], (4, 1))
    mesh = scene.add_mesh_skinned(
        "/fast", np.eye(4, 3), np.array([[0, 1, 2], [1, 2, 3]]), bone_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (2, 1)),
        bone_positions=np.zeros((2, 3)), skin_weights=weights,
    )  # fmt: skip
    sent = []
    monkeypatch.setattr(type(scene), "_queue_scene_message", lambda self, message: sent.append(message))
    place, turn = np.array([0.1, 0.2, 0.3]), np.array([0.8, 0.6, 0.0, 0.0])
    for node in (mesh, mesh.bones[1]):
        set_position(node, place)
        set_turn(node, turn)
        assert np.array_equal(node.position, place)
        assert np.array_equal(node.wxyz, turn)
        ours = [sent.pop(0), sent.pop(0)]
        node.position, node.wxyz = 2.0 * place, turn[::-1]
        sent.clear()
        node.position, node.wxyz = place, turn
        assert [vars(message) for message in ours] == [vars(message) for message in sent]
        assert [type(message) for message in ours] == [type(message) for message in sent]
        sent.clear()


def test_a_limb_at_its_limit_is_coloured_and_only_it(scene):
    human = ps.figures.human()
    drawn = draw(scene, "/lit", human, None, detail=0.3)
    glow = Glow(scene, "/lit/glow", drawn, 1.5)
    pose = human.pose({"elbow.R": np.radians(150.0)})
    glow.show(ps.forward(human, pose), {"elbow.R": AMBER})
    assert set(drawn.shells) == {"elbow.R"}
    for mesh, bones, anchor in drawn.shells["elbow.R"].skins:
        assert mesh.visible
        assert mesh.color == AMBER
        assert anchor == "elbow.R"
        assert "elbow.L" not in bones
        forearm = np.linalg.norm(mesh.vertices, axis=1)
        assert forearm.max() < 0.45  # [m] from the elbow
    glow.show(ps.forward(human, pose), {"elbow.R": RED})
    assert {mesh.color for mesh, *_ in drawn.shells["elbow.R"].skins} == {RED}
    glow.show(ps.forward(human, human.rest), {})
    assert not any(mesh.visible for mesh, *_ in drawn.shells["elbow.R"].skins)


def test_a_robots_link_takes_the_colour_and_gives_it_back(scene):
    arm = ps.figures.panda()
    drawn = draw(scene, "/lit_arm", arm, None)
    glow = Glow(scene, "/lit_arm/glow", drawn, 1.0)
    before = {joint: node.color for node, joint in drawn.rigid}
    frames = ps.forward(arm, arm.rest)
    lit = arm.names[3]
    glow.show(frames, {lit: AMBER})
    assert {joint for node, joint in drawn.rigid if node.color == AMBER} == {lit}
    glow.show(frames, {})
    assert {joint: node.color for node, joint in drawn.rigid} == before


def test_only_what_moved_is_sent():
    class Node:
        def __init__(self):
            self.count = 0

        def __setattr__(self, name, value):
            if name in ("position", "wxyz"):
                self.count += 1
            object.__setattr__(self, name, value)

    nodes, mover = [Node(), Node()], Mover()
    places, turns = np.zeros((2, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (2, 1))
    mover.move(nodes, places, turns)
    mover.move(nodes, places + np.array([[0, 0, 0], [0.1, 0, 0]]), turns)
    assert [node.count for node in nodes] == [2, 3]


def test_handles_are_at_the_ends_not_at_every_finger(data_dir):
    robot = ps.load(data_dir / "urdf" / "erd_panda.urdf").skeleton
    assert len(default_handles(robot, ps.forward(robot, robot.rest))) == 1
    walker = ps.load(data_dir / "cmu" / "02_01.bvh").skeleton
    bodies = {h.body for h in default_handles(walker, ps.forward(walker, walker.rest))}
    assert bodies == {"LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head", "Hips"}
