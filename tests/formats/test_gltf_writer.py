"""A character that was read goes out with everything it came with; only the animation is new."""

import json
import struct

import numpy as np
import pytest

from posable import Motion, figures, forward, load, retarget, save
from posable.errors import FormatError
from posable.formats.gltf import vrm_roles
from posable.model.body_plan import body_plan

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082"
)


def opened(path):
    data = path.read_bytes()
    size = struct.unpack("<I", data[12:16])[0]
    return json.loads(data[20 : 20 + size]), data[28 + size :]


def rewritten(path, document, binary):
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body)


@pytest.fixture
def character(tmp_path):
    """A human of bones with a material, a texture, a morph target and an extension, as GLB."""
    path = tmp_path / "character.glb"
    save(path, figures.human())
    document, binary = opened(path)
    binary = bytes(binary) + PIXEL + b"\0" * (-len(PIXEL) % 4)
    view = {"buffer": 0, "byteOffset": len(binary) - len(PIXEL) - (-len(PIXEL) % 4), "byteLength": len(PIXEL)}
    document["bufferViews"].append(view)
    document["images"] = [{"bufferView": len(document["bufferViews"]) - 1, "mimeType": "image/png"}]
    document["textures"] = [{"source": 0}]
    document["materials"] = [{"name": "skin", "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    primitive = document["meshes"][0]["primitives"][0]
    primitive["material"] = 0
    primitive["targets"] = [{"POSITION": primitive["attributes"]["POSITION"]}]
    document["meshes"][0]["weights"] = [0.0]
    document["extensionsUsed"] = ["MY_extension"]
    document["extensions"] = {"MY_extension": {"kept": True}}
    document["buffers"] = [{"byteLength": len(binary)}]
    rewritten(path, document, binary)
    return path


def test_a_skin_without_joints_is_refused(character):
    document, binary = opened(character)
    document["skins"][0] = {"joints": []}
    rewritten(character, document, binary)
    with pytest.raises(FormatError, match="joints: expected one joint or more"):
        load(character)


def test_only_the_animation_is_new(character, tmp_path):
    scene = load(character)
    poses = scene.skeleton.rest + 0.1 * np.sin(np.arange(8.0))[:, None] * np.ones(scene.skeleton.size)
    save(tmp_path / "out.glb", Motion(scene.skeleton, poses, 30.0, "new"))
    before, _ = opened(character)
    after, binary = opened(tmp_path / "out.glb")
    for key in ("nodes", "skins", "meshes", "materials", "textures", "images", "extensions", "extensionsUsed"):
        assert after[key] == before[key], key
    view = after["bufferViews"][after["images"][0]["bufferView"]]
    assert binary[view["byteOffset"] :][: view["byteLength"]] == PIXEL
    assert [animation["name"] for animation in after["animations"]] == ["new"]
    back = load(tmp_path / "out.glb")
    ours, theirs = forward(scene.skeleton, poses), forward(back.skeleton, back.motion.poses)
    for name in scene.skeleton.names:
        np.testing.assert_allclose(theirs.position(name), ours.position(name), atol=1e-6)
    for one, other in zip(scene.meshes, back.meshes, strict=True):
        np.testing.assert_array_equal(one.vertices, other.vertices)
        np.testing.assert_array_equal(one.weights, other.weights)


def test_a_retargeted_character_keeps_its_skin(character, tmp_path):
    human = figures.human()
    walk = Motion(human, np.tile(human.rest, (5, 1)), 30.0)
    save(tmp_path / "out.glb", retarget(walk, load(character).skeleton))
    assert opened(tmp_path / "out.glb")[0]["materials"][0]["name"] == "skin"


@pytest.mark.parametrize("version", [0, 1])
def test_vrm_says_which_bone_is_which(character, tmp_path, version):
    """Bones with names that say nothing; the humanoid map of VRM 0 or 1 is their only meaning."""
    document, binary = opened(character)
    named = {node["name"]: i for i, node in enumerate(document["nodes"])}
    bones = {"hips": "root", "leftUpperLeg": "hip.L", "leftLowerLeg": "knee.L", "leftFoot": "ankle.L",
             "rightUpperLeg": "hip.R", "rightLowerLeg": "knee.R", "rightFoot": "ankle.R", "head": "skull"}  # fmt: skip
    for i, node in enumerate(document["nodes"]):
        node["name"] = f"b{i}"
    if version:
        humanoid = {"humanBones": {bone: {"node": named[joint]} for bone, joint in bones.items()}}
        document["extensions"]["VRMC_vrm"] = {"specVersion": "1.0", "humanoid": humanoid}
    else:
        humanoid = {"humanBones": [{"bone": bone, "node": named[joint]} for bone, joint in bones.items()]}
        document["extensions"]["VRM"] = {"humanoid": humanoid, "secondaryAnimation": {"boneGroups": []}}
    rewritten(tmp_path / "a.vrm", document, bytes(binary))
    scene = load(tmp_path / "a.vrm")
    assert body_plan(scene.skeleton)["knee.L"] == f"b{named['knee.L']}"
    save(tmp_path / "b.vrm", Motion(scene.skeleton, np.tile(scene.skeleton.rest, (2, 1)), 30.0))
    assert opened(tmp_path / "b.vrm")[0]["extensions"] == document["extensions"]


@pytest.mark.parametrize("extension", ["VRMC_vrm", "VRMC_vrm_animation"])
def test_the_upper_chest_of_a_vrm_carries_the_arms_in_any_order(extension):
    for bones in ({"upperChest": {"node": 1}, "chest": {"node": 0}}, {"chest": {"node": 0}, "upperChest": {"node": 1}}):
        document = {"extensions": {extension: {"humanoid": {"humanBones": bones}}}}
        assert vrm_roles(document, {0: "low", 1: "high"}) == {"chest": "high"}
