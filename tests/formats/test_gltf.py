"""glTF and GLB: nodes, skins, animations, meshes; hostile containers."""

import base64
import json
import struct
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import FormatError, PosableError, PosableWarning
from posable.formats import load, save
from posable.model.joints import Ball, Fixed, Free, Joint, Site
from posable.model.kinematics import forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

from .conftest import difference, positions

WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4, "MAT4": 16}
KINDS = {5121: "<u1", 5123: "<u2", 5125: "<u4", 5126: "<f4"}


class Plain:
    """A second reader: JSON, buffers and 4x4 matrices, nothing checked."""

    def __init__(self, path):
        raw = path.read_bytes()
        if raw[:4] == b"glTF":
            size = struct.unpack_from("<I", raw, 12)[0]
            self.json, self.buffer = json.loads(raw[20 : 20 + size]), raw[28 + size :]
        else:
            self.json = json.loads(raw)
            self.buffer = base64.b64decode(self.json["buffers"][0]["uri"].split(",")[1])
            self.extra = [base64.b64decode(b["uri"].split(",")[1]) for b in self.json["buffers"]]
        self.nodes = self.json["nodes"]
        self.parent = {child: i for i, node in enumerate(self.nodes) for child in node.get("children", [])}

    def accessor(self, index):
        a = self.json["accessors"][index]
        view = self.json["bufferViews"][a["bufferView"]]
        data = self.extra[view["buffer"]] if hasattr(self, "extra") else self.buffer
        kind, width = np.dtype(KINDS[a["componentType"]]), WIDTHS[a["type"]]
        start, step = view.get("byteOffset", 0) + a.get("byteOffset", 0), view.get("byteStride", width * kind.itemsize)
        return np.array([np.frombuffer(data, kind, width, start + i * step) for i in range(a["count"])])

    def local(self, node):
        if "matrix" in node:
            return np.array(node["matrix"]).reshape(4, 4).T
        out = np.eye(4)
        out[:3, :3] = Rotation.from_quat(node.get("rotation", [0, 0, 0, 1])).as_matrix() * node.get("scale", [1, 1, 1])
        out[:3, 3] = node.get("translation", [0, 0, 0])
        return out

    def world(self, i, nodes=None):
        nodes = nodes or self.nodes
        above = self.world(self.parent[i], nodes) if i in self.parent else np.eye(4)
        return above @ self.local(nodes[i])

    def at_key(self, animation, key):
        """The nodes with the values that keyframe number `key` of every channel has."""
        nodes = [dict(node) for node in self.nodes]
        for channel in animation["channels"]:
            values = self.accessor(animation["samplers"][channel["sampler"]]["output"])
            nodes[channel["target"]["node"]][channel["target"]["path"]] = values[min(key, len(values) - 1)].tolist()
        return nodes


@pytest.mark.filterwarnings("ignore:.*animated scale")
@pytest.mark.files(
    "walk.glb",
    "character.glb",
    "small/leg.gltf",
    "gltf/khronos_CesiumMan.glb",
    "gltf/khronos_Fox.glb",
    "gltf/khronos_RiggedFigure.glb",
    "gltf/khronos_SimpleSkin_embedded.gltf",
    "gltf/momentum_blender_simple_armature.glb",
    "gltf/momentum_test_24fps.glb",
)
def test_rest_agrees_with_the_nodes_and_the_bind_matrices(path):
    scene, plain = load(path), Plain(path)
    frames = forward(scene.skeleton, scene.skeleton.rest)
    names = {node.get("name", f"node{i}"): i for i, node in enumerate(plain.nodes)}
    for name in (*scene.skeleton.names, *scene.skeleton.site_names):
        np.testing.assert_allclose(frames.position(name), plain.world(names[name])[:3, 3], atol=1e-9)
    for mesh in scene.meshes:
        if mesh.joints:
            bound = np.array(
                [frames.matrix(name) @ bind for name, bind in zip(mesh.joints, mesh.inverse_bind, strict=True)]
            )
            size = np.abs(mesh.inverse_bind).max()
            np.testing.assert_allclose(
                bound, np.broadcast_to(bound[0], bound.shape), atol=5e-6 * max(size, 1)
            )  # single precision


@pytest.mark.filterwarnings("ignore:.*animated scale")
@pytest.mark.files("walk.glb", "character.glb", "gltf/khronos_CesiumMan.glb", "gltf/momentum_test_24fps.glb")
def test_keyframes_agree_with_the_nodes(path):
    scene, plain = load(path), Plain(path)
    animation = plain.json["animations"][0]
    times = plain.accessor(animation["samplers"][animation["channels"][0]["sampler"]]["input"])[:, 0]
    names = {node.get("name", f"node{i}"): i for i, node in enumerate(plain.nodes)}
    frames = forward(scene.skeleton, scene.motion.poses)
    for key in (0, len(times) // 2):
        nodes = plain.at_key(animation, key)
        frame = round((times[key] - times[0]) * scene.motion.fps)
        for name in scene.skeleton.names:
            np.testing.assert_allclose(frames.position(name)[frame], plain.world(names[name], nodes)[:3, 3], atol=2e-5)


CESIUM_MAN = {"Z_UP": Fixed, "Skeleton_torso_joint_1": Free, "Skeleton_neck_joint_2": Ball}


@pytest.mark.files(
    {
        "character.glb": ({"Z_UP": Fixed, "torso": Free, "neck": Ball}, 432, 144, ["Wave", "Nod"]),
        "gltf/khronos_CesiumMan.glb": (CESIUM_MAN, 3273, 4672, ["khronos_CesiumMan"]),
        "gltf/khronos_Fox.glb": ({}, 1728, 576, ["Survey", "Walk", "Run"]),
    }
)
def test_what_becomes_of_the_nodes(path, expected):
    joints, vertices, faces, motions = expected
    scene = load(path)
    kinds = {joint.name: type(joint.motion) for joint in scene.skeleton.joints}
    assert kinds == {**kinds, **joints}
    assert scene.meshes[0].vertices.shape == (vertices, 3)
    assert scene.meshes[0].faces.shape == (faces, 3)
    assert list(scene.motions) == motions


def small(**changes):
    """A glTF of two nodes, the second turned by an animation of three keyframes."""
    times = np.array([0, 0.5, 1.0], "<f4")
    turns = Rotation.from_rotvec([[0, 0, 0], [0, 0, 1.0], [0, 0, 2.0]]).as_quat().astype("<f4")
    raw = times.tobytes() + turns.tobytes()
    tree = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"name": "a", "children": [1], "scale": [2, 2, 2]}, {"name": "b", "translation": [0, 1, 0]}],
        "buffers": [
            {"byteLength": len(raw), "uri": "data:application/octet-stream;base64," + base64.b64encode(raw).decode()}
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 12}, {"buffer": 0, "byteOffset": 12, "byteLength": 48}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "SCALAR"},
            {"bufferView": 1, "componentType": 5126, "count": 3, "type": "VEC4"},
        ],
        "animations": [
            {
                "channels": [{"sampler": 0, "target": {"node": 1, "path": "rotation"}}],
                "samplers": [{"input": 0, "output": 1}],
            }
        ],
    }
    for path, value in changes.items():
        *steps, last = path.split("__")
        place = tree
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value
    return json.dumps(tree, indent=1)


@pytest.fixture
def gltf(tmp_path):
    def write(text, name="a.gltf"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_scales_go_into_the_lengths(gltf):
    scene = load(gltf(small()))
    np.testing.assert_allclose(positions(scene.skeleton, scene.skeleton.rest[None])["b"], [[0, 2, 0]])
    np.testing.assert_allclose(scene.motion.poses[:, -1], 2.0 * scene.motion.times, atol=1e-6)


@pytest.mark.parametrize(("interpolation", "middle"), [("LINEAR", 0.5), ("STEP", 0.0)])
def test_interpolation(gltf, interpolation, middle):
    scene = load(gltf(small(animations__0__samplers__0__interpolation=interpolation)), fps=4)
    assert scene.motion.fps == 4
    assert scene.motion.poses[1, -1] == pytest.approx(middle, abs=1e-6)


def test_uneven_scale_and_animated_scale_are_reported(gltf):
    with pytest.warns(PosableWarning, match="non-uniform scale"):
        load(gltf(small(nodes__0__scale=[1, 2, 1])))


def test_a_long_pause_does_not_become_a_long_motion(gltf):
    raw = np.array([0, 1, 1e8], "<f4").tobytes() + Rotation.identity(3).as_quat().astype("<f4").tobytes()
    uri = "data:application/octet-stream;base64," + base64.b64encode(raw).decode()
    with pytest.warns(PosableWarning, match="to keep it small"):
        scene = load(gltf(small(buffers__0__uri=uri)))
    assert scene.motion.poses.size < 3_000_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asset__version": "1.0"}, "asset.version: expected glTF 2"),
        ({"asset": {}}, "'version' in it"),
        ({"scene": 5}, "scene: expected an index into 1 scenes"),
        ({"nodes__0__children": [7]}, r"nodes\[0\].children\[0\]: expected an index into 2 nodes"),
        ({"nodes__1__children": [0]}, "a cycle"),
        ({"nodes__0__children": [0]}, "a node with no other parent"),
        ({"nodes__0__children": [1, 1]}, "a node with no other parent"),
        ({"nodes__1__rotation": [0, 0, 0, 0]}, "a quaternion that is not zero"),
        ({"nodes__1__matrix": [1, 2]}, "16 numbers"),
        ({"accessors__0__count": 4}, "elements inside a view"),
        ({"accessors__0__count": 10**12}, "no more than the file can hold"),
        ({"accessors__0__count": 0}, "1 or more"),
        ({"accessors__0__componentType": 1}, "componentType"),
        ({"accessors__0__type": "VEC2"}, "SCALAR"),
        ({"bufferViews__0__byteLength": 10**9}, "a view inside"),
        ({"bufferViews__0__byteStride": 1}, "byteStride"),
        ({"buffers__0__byteLength": 10**9}, "at most 60 bytes"),
        ({"buffers__0__uri": "../secret.bin"}, "not inside it"),
        ({"buffers__0__uri": "/etc/passwd"}, "not inside it"),
        ({"buffers__0__uri": "file:///etc/passwd"}, "not inside it"),
        ({"buffers__0__uri": "missing.bin"}, "not there"),
        ({"buffers__0__uri": "data:;base64,@@"}, "expected base64"),
        ({"animations__0__channels__0__sampler": 3}, "an index into 1 samplers"),
        ({"animations__0__samplers__0__interpolation": "SMOOTH"}, "LINEAR, STEP or CUBICSPLINE"),
        ({"animations__0__samplers__0__interpolation": "CUBICSPLINE"}, "9 values"),
        ({"animations__0__channels__0__target__path": "colour"}, "translation or rotation"),
        ({"nodes": [{"name": 3}]}, "a text"),
    ],
)
def test_what_is_refused(gltf, changes, message):
    with pytest.raises(FormatError, match=message) as caught:
        load(gltf(small(**changes)))
    assert caught.value.line is not None


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"asset": NaN}', "{" * 100_000, '{"a":' * 100_000, '{"asset": {"version": ' + "9" * 5000 + "}}"],
)
def test_invalid_json(gltf, text):
    with pytest.raises(FormatError):
        load(gltf(text))


def test_a_link_does_not_lead_out_of_the_folder(gltf, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.bin").write_bytes(b"\0" * 60)
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link.bin").symlink_to(tmp_path / "secret" / "s.bin")
    path = gltf(small(buffers__0__uri="link.bin"), "open/a.gltf")
    with pytest.raises(FormatError, match="not inside it"):
        load(path)


def test_a_buffer_beside_the_file(gltf, tmp_path):
    tree = json.loads(small())
    (tmp_path / "some data.bin").write_bytes(base64.b64decode(tree["buffers"][0]["uri"].split(",")[1]))
    assert len(load(gltf(small(buffers__0__uri="some%20data.bin"))).motion) == 25


def test_sparse_accessors(gltf):
    tree = json.loads(small())
    raw = base64.b64decode(tree["buffers"][0]["uri"].split(",")[1]) + struct.pack("<HHf", 1, 0, 0.75)
    tree["buffers"][0] = {"byteLength": len(raw), "uri": "data:;base64," + base64.b64encode(raw).decode()}
    tree["bufferViews"] += [
        {"buffer": 0, "byteOffset": 60, "byteLength": 2},
        {"buffer": 0, "byteOffset": 64, "byteLength": 4},
    ]
    tree["accessors"][0]["sparse"] = {
        "count": 1,
        "indices": {"bufferView": 2, "componentType": 5123},
        "values": {"bufferView": 3},
    }
    scene = load(gltf(json.dumps(tree)), fps=4)
    assert scene.motion.poses[3, -1] == pytest.approx(1.0, abs=1e-6)  # the middle key came to 0.75 s


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_round_trips_do_not_drift(tmp_path, motion, suffix):
    path = tmp_path / f"a{suffix}"
    save(path, motion)
    first = load(path)
    assert difference(motion, first.motion) < 1e-6  # single precision
    assert first.motion.fps == motion.fps
    save(path, first)
    second = load(path)
    assert difference(first.motion, second.motion) < 1e-6
    assert second.skeleton.names == first.skeleton.names
    assert [mesh.faces.shape for mesh in second.meshes] == [mesh.faces.shape for mesh in first.meshes]


def test_z_up_is_written_y_up(tmp_path, fixtures):
    robot = load(fixtures / "arm" / "arm.urdf")
    save(tmp_path / "panda.glb", robot)
    back = load(tmp_path / "panda.glb")
    ours, theirs = (positions(s.skeleton, s.skeleton.rest[None]) for s in (robot, back))
    x, y, z = ours["joint4"][0]
    np.testing.assert_allclose(theirs["joint4"][0], (x, z, -y), atol=1e-6)


def slider(offset=(0, 0, 0)):
    return Skeleton([Joint("root", Free("rotvec"), offset=offset)], [Site("tip", "root", (0, 1, 0))], "slider", up="y")


@pytest.mark.parametrize(
    ("poses", "fps", "offset"),
    [
        ((1e39, 0.0), 30.0, (0, 0, 0)),  # larger than single precision holds
        ((0.0, 1.0), 1e-10, (0, 0, 0)),  # 300 years
        ((0.0, 1.0), 1e60, (0, 0, 0)),  # all times are 0 in single precision
        ((0.0, 1.0), 30.0, (1e35, 0, 0)),
    ],
)
def test_what_our_reader_would_refuse_is_not_written(tmp_path, poses, fps, offset):
    skeleton = slider(offset)
    values = np.zeros((2, skeleton.size))
    values[:, 0] = poses
    path = tmp_path / "a.glb"
    with pytest.raises(PosableError):
        save(path, Motion(skeleton, values, fps))
    assert not path.exists()


@given(
    st.floats(-1e30, 1e30), st.floats(1e-6, 1e6), st.integers(0, 5), st.floats(-1e30, 1e30), st.floats(-1e3, 1e3)
)  # fmt: skip
def test_what_is_written_is_read(tmp_path_factory, place, fps, frames, offset, turn):
    skeleton = slider((0, offset, 0))
    values = np.zeros((frames, skeleton.size))
    values[:, 0], values[:, 3] = place * np.arange(frames) / 5, turn
    path = tmp_path_factory.getbasetemp() / "any.glb"
    try:
        save(path, Motion(skeleton, values, fps))
    except FormatError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert load(path).skeleton.size


@pytest.mark.files(
    "walk.glb", "gltf/khronos_CesiumMan.glb", "gltf/khronos_RiggedFigure.glb", "gltf/momentum_test_24fps.glb"
)
@pytest.mark.filterwarnings("ignore::posable.PosableWarning")
def test_a_reaching_character_keeps_its_bone_lengths(path):
    figure = load(path).skeleton
    before = ps.forward(figure, figure.rest)
    plan = ps.body_plan(figure)
    hand = plan["wrist.R"]
    result = ps.solve(figure, ps.goals.Position(hand, before.position(hand) + np.array([0.1, 0.2, 0.3])))
    after = ps.forward(figure, result.pose)
    inner = [joint for joint in figure.joints if joint.parent and joint.name != figure.free_root]
    lengths = [[np.linalg.norm(f.position(j.name) - f.position(j.parent)) for j in inner] for f in (before, after)]
    assert result.ok
    np.testing.assert_allclose(lengths[1], lengths[0], atol=1e-9)


@pytest.mark.parametrize("turns", [2.5, -3.0])
def test_a_character_that_spins_keeps_turning(tmp_path, turns):
    """Values continue beyond a whole turn, where the rotation itself is zero for one frame."""
    skeleton = Skeleton(
        [Joint("root", Free("rotvec")), Joint("arm", Ball("rotvec"), "root", offset=(0.0, 0.3, 0.0))],
        [Site("tip", "arm", (0.0, 0.3, 0.0))], up="y",
    )  # fmt: skip
    poses = np.zeros((121, skeleton.size))
    poses[:, 4] = np.linspace(0.0, 2.0 * np.pi * turns, 121)
    save(tmp_path / "spin.glb", Motion(skeleton, poses, 30.0))
    read = load(tmp_path / "spin.glb").motion
    assert read is not None
    assert np.abs(read.poses[:, 4] - poses[:, 4]).max() < 1e-5
