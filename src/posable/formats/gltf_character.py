"""A glTF character that keeps its document: meshes, skins, materials, textures, morph targets, extensions.

The reader leaves the document in `skeleton.info["character"]`. The writer puts new animations into it and changes
nothing else, so that a motion of a character is written with that character. VRM files are such documents.
"""

from __future__ import annotations

import copy
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE
from posable.formats.gltf_container import Container, as_single, frame_seconds
from posable.formats.transforms import world_transforms
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

STILL = 1e-6  # [m]: a joint that moves less relative to its node keeps the node's translation

# VRM's names of human bones, and their roles
VRM_ROLES = {
    "hips": "pelvis", "chest": "chest", "upperChest": "chest", "neck": "neck", "head": "head",
    **{f"{side}{bone}": f"{role}.{letter}" for side, letter in (("left", "L"), ("right", "R")) for bone, role in (
        ("UpperLeg", "hip"), ("LowerLeg", "knee"), ("Foot", "ankle"), ("Toes", "toe"), ("Shoulder", "clavicle"),
        ("UpperArm", "shoulder"), ("LowerArm", "elbow"), ("Hand", "wrist"),
    )},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Character:
    """A glTF document as it was read.

    Attributes:
        json: the document; its buffers are joined into one.
        binary: the bytes of that buffer.
        nodes: {joint: index of its node}.
        stretches: {joint: (3, 3)} scale of the frame in which each joint's node is placed.
    """

    json: dict[str, Any]
    binary: bytes
    nodes: dict[str, int]
    stretches: dict[str, NDArray[np.float64]]

    def roles(self) -> dict[str, str]:
        """Return {role: joint} that a VRM humanoid states, empty for other documents."""
        extensions = self.json.get("extensions", {})
        bones: Iterable[tuple[str, int]] = ()
        joint_of = {node: joint for joint, node in self.nodes.items()}
        try:
            if "VRMC_vrm" in extensions:  # VRM 1
                stated = extensions["VRMC_vrm"].get("humanoid", {}).get("humanBones", {})
                bones = [(bone, entry.get("node", -1)) for bone, entry in stated.items()]
            elif "VRM" in extensions:  # VRM 0
                stated = extensions["VRM"].get("humanoid", {}).get("humanBones", [])
                bones = [(entry.get("bone", ""), entry.get("node", -1)) for entry in stated]
            return {VRM_ROLES[bone]: joint_of[node] for bone, node in bones if bone in VRM_ROLES and node in joint_of}
        except (AttributeError, TypeError):  # an invalid extension states no roles
            return {}

    def animated(self, motions: dict[str, Motion]) -> tuple[dict[str, Any], bytearray]:
        """Return the document and its buffer with these animations in place of its own."""
        out = _Animated(copy.deepcopy(self.json), bytearray(self.binary))
        out.json.pop("animations", None)
        for name, motion in motions.items():
            if len(motion):
                out.add(name or "motion", motion, self)
        if out.binary:
            out.json["buffers"] = [{"byteLength": len(out.binary)}]
        return out.json, out.binary


def keep(container: Container, nodes: dict[str, int], stretches: dict[str, NDArray[np.float64]]) -> Character:
    """Return the document of a container with all its buffers and images inside."""
    document = copy.deepcopy(container.json)
    binary = bytearray()
    starts = []
    known: dict[int, int] = {}  # offset of each file or chunk, stored once even if several buffers and images use it
    for i in range(len(document.get("buffers", []))):
        raw = container.backing(i, ("buffers", i))
        if id(raw) not in known:
            binary += b"\0" * (-len(binary) % 4)
            known[id(raw)] = len(binary)
            binary += raw
        starts.append(known[id(raw)])
    for i, view in enumerate(document.get("bufferViews", [])):
        container.item("buffers", view["buffer"], ("bufferViews", i, "buffer"))
        view["byteOffset"] = view.get("byteOffset", 0) + starts[view["buffer"]]
        view["buffer"] = 0
    for image in document.get("images", []):
        _embed(container, document, binary, image, known)
    if binary:
        document["buffers"] = [{"byteLength": len(binary)}]
    return Character(document, bytes(binary), nodes, stretches)


def _embed(
    container: Container, document: dict[str, Any], binary: bytearray, image: dict[str, Any], known: dict[int, int]
) -> None:
    """Move an image from a separate file into the buffer, so that the document is self-contained."""
    uri = image.get("uri", "")
    if not uri or uri.startswith("data:"):
        return
    data = container.beside(uri)
    if isinstance(data, str):
        return
    if id(data) not in known:
        binary += b"\0" * (-len(binary) % 4)
        known[id(data)] = len(binary)
        binary += data
    view = {"buffer": 0, "byteOffset": known[id(data)], "byteLength": len(data)}
    document.setdefault("bufferViews", []).append(view)
    image.pop("uri")
    image["bufferView"] = len(document["bufferViews"]) - 1
    image.setdefault("mimeType", mimetypes.guess_type(unquote(uri))[0] or "image/png")


class _Animated:
    """A document to which animations are added."""

    def __init__(self, document: dict[str, Any], binary: bytearray):
        self.json, self.binary = document, binary

    def accessor(self, values: NDArray, kind: str, bounds: bool = False) -> int:
        """Append floats (T, w) to the buffer; return their accessor."""
        array = as_single(values)
        self.binary += b"\0" * (-len(self.binary) % 4)
        view = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": array.nbytes}
        self.binary += array.tobytes()
        self.json.setdefault("bufferViews", []).append(view)
        entry: dict[str, Any] = {
            "bufferView": len(self.json["bufferViews"]) - 1, "componentType": 5126, "count": len(array), "type": kind,
        }  # fmt: skip
        if bounds:
            entry["min"], entry["max"] = array.min(axis=0).tolist(), array.max(axis=0).tolist()
        self.json.setdefault("accessors", []).append(entry)
        return len(self.json["accessors"]) - 1

    def add(self, name: str, motion: Motion, character: Character) -> None:
        """Add one animation of the character's own nodes."""
        times = self.accessor(frame_seconds(motion.times), "SCALAR", bounds=True)
        entry: dict[str, Any] = {"name": name, "channels": [], "samplers": [], "extras": {"fps": motion.fps}}
        for joint, (position, rotation) in relative_transforms(motion, character.nodes).items():
            node = character.nodes[joint]
            stated = _decompose(self.json["nodes"][node])
            local = position @ np.linalg.inv(character.stretches[joint]).T
            quaternions = rotation.as_quat()
            flips = np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0
            quaternions = quaternions * np.where(np.cumsum([0, *flips]) % 2, -1.0, 1.0)[:, None]
            paths = {"rotation": (quaternions, "VEC4")}
            slides = any(dof.kind == SLIDE for dof in motion.skeleton.joint(joint).motion.dofs)
            if slides or np.abs(local - stated).max() > STILL:
                paths["translation"] = (local, "VEC3")
            for path, (values, kind) in paths.items():
                sampler = {"input": times, "output": self.accessor(values, kind), "interpolation": "LINEAR"}
                entry["samplers"].append(sampler)
                target = {"node": node, "path": path}
                entry["channels"].append({"sampler": len(entry["samplers"]) - 1, "target": target})
        self.json.setdefault("animations", []).append(entry)


def relative_transforms(motion: Motion, known: dict[str, int]) -> dict[str, tuple[NDArray, Rotation]]:
    """Return the transform of every known joint that moves, in the frame of the nearest known joint above it.

    Joints without a node, such as a floating root that was added, move the joints below them.
    """
    skeleton: Skeleton = motion.skeleton
    world = world_transforms(skeleton, motion.poses)
    parent = {joint.name: joint.parent for joint in skeleton.joints}
    out = {}
    for joint in skeleton.joints:
        if joint.name not in known:
            continue
        above, moves = parent[joint.name], bool(joint.motion.dofs)
        while above is not None and above not in known:
            moves = moves or bool(skeleton.joint(above).motion.dofs)
            above = parent[above]
        if not moves:
            continue
        position, rotation = world[joint.name]
        if above is not None:
            p_above, r_above = world[above]
            position, rotation = r_above.inv().apply(position - p_above), r_above.inv() * rotation
        out[joint.name] = (position, rotation)
    return out


def _decompose(node: dict[str, Any]) -> NDArray[np.float64]:
    """Return a node's translation (3,); a matrix, which cannot be animated, becomes translation, rotation, scale."""
    if "matrix" in node:
        matrix = np.array(node.pop("matrix"), dtype=float).reshape(4, 4).T
        u, _, v = np.linalg.svd(matrix[:3, :3])
        turn = u @ v
        if np.linalg.det(turn) < 0.0:
            turn = u @ np.diag([1.0, 1.0, -1.0]) @ v
        node["translation"] = matrix[:3, 3].tolist()
        node["rotation"] = Rotation.from_matrix(turn).as_quat().tolist()
        scale = np.diag(turn.T @ matrix[:3, :3])
        if np.abs(scale - 1.0).max() > 1e-9:
            node["scale"] = scale.tolist()
    return np.array(node.get("translation", (0.0, 0.0, 0.0)), dtype=float)
