"""glTF and GLB, written: a figure as nodes, a skin and animations, or new animations in the character that was read.

A character keeps its document: meshes, skins, materials, textures, morph targets, extensions. The reader leaves it in
`skeleton.info["character"]`, and the writer replaces its animations and nothing else. VRM files are such documents. A
figure without a document gets the scene's meshes or, as viewers draw meshes and not skeletons, an octahedron per bone.
Metres, y up, single precision.
"""

from __future__ import annotations

import base64
import copy
import json
import mimetypes
import struct
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE
from posable.engine.layout import MAX_MAGNITUDE
from posable.errors import FormatError
from posable.formats.base import MAX_JOINTS, Options
from posable.formats.conventions import local_transforms, scene_with_up, world_transforms
from posable.formats.gltf_container import Container, as_single, frame_seconds
from posable.formats.scene import Mesh, Scene
from posable.model.joints import rotation_matrix
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

STILL = 1e-6  # [m]: a joint that moves less relative to its node keeps the node's translation
_COMPONENTS = {"f4": 5126, "u2": 5123, "u4": 5125}
_TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
_VERTICES, _INDICES = 34962, 34963


class _Document:
    """The JSON to write and its buffer."""

    def __init__(self, document: dict[str, Any], binary: bytes = b"") -> None:
        self.json = document
        self.binary = bytearray(binary)

    def add(self, name: str, entry: dict[str, Any]) -> int:
        """Append an entry to a top-level array and return its index."""
        self.json.setdefault(name, []).append(entry)
        return len(self.json[name]) - 1

    def accessor(self, values: NDArray, kind: str, *, bounds: bool = False, target: int | None = None) -> int:
        """Append an array (count, width) to the buffer and return its accessor."""
        flat = values.reshape(len(values), -1)
        array = as_single(flat) if kind == "f4" else np.ascontiguousarray(flat, dtype=f"<{kind}")
        self.binary += b"\0" * (-len(self.binary) % 4)
        view = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": array.nbytes}
        if target is not None:
            view["target"] = target
        self.binary += array.tobytes()
        entry: dict[str, Any] = {
            "bufferView": self.add("bufferViews", view), "componentType": _COMPONENTS[kind], "count": len(array),
            "type": _TYPES[array.shape[1]],
        }  # fmt: skip
        if bounds:
            entry["min"], entry["max"] = array.min(axis=0).tolist(), array.max(axis=0).tolist()
        return self.add("accessors", entry)

    def animation(self, motion: Motion, name: str) -> dict[str, Any]:
        """Return an animation without channels, at the times of a motion."""
        self.times = self.accessor(frame_seconds(motion.times), "f4", bounds=True)
        return {"name": name, "channels": [], "samplers": [], "extras": {"fps": motion.fps}}

    def channel(self, animation: dict[str, Any], node: int, path: str, values: NDArray) -> None:
        """Add the path (rotation or translation) of a node over all frames, (T, w), to an animation."""
        sampler = {"input": self.times, "output": self.accessor(values, "f4"), "interpolation": "LINEAR"}
        animation["samplers"].append(sampler)
        target = {"node": node, "path": path}
        animation["channels"].append({"sampler": len(animation["samplers"]) - 1, "target": target})

    def glb(self) -> bytes:
        """Return the document as one binary file."""
        self.binary += b"\0" * (-len(self.binary) % 4)
        if self.binary:
            self.json["buffers"] = [{"byteLength": len(self.binary)}]
        text = json.dumps(self.json, separators=(",", ":")).encode("utf-8")
        text += b" " * (-len(text) % 4)
        body = struct.pack("<I4s", len(text), b"JSON") + text
        if self.binary:
            body += struct.pack("<I4s", len(self.binary), b"BIN\0") + bytes(self.binary)
        return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body

    def gltf(self) -> bytes:
        """Return the document as one JSON file with its buffer inside."""
        if self.binary:
            uri = "data:application/octet-stream;base64," + base64.b64encode(bytes(self.binary)).decode("ascii")
            self.json["buffers"] = [{"byteLength": len(self.binary), "uri": uri}]
        return json.dumps(self.json, indent=1).encode("utf-8")


def continuous(rotation: Rotation) -> NDArray[np.float64]:
    """Return quaternions (T, 4) xyzw of rotations (T), without changes of sign between frames."""
    quaternions = rotation.as_quat()
    flips = np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0
    return quaternions * np.where(np.cumsum([0, *flips]) % 2, -1.0, 1.0)[:, None]


# --- Characters ---


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

    def animated(self, motions: dict[str, Motion]) -> _Document:
        """Return the document with these animations in place of its own."""
        out = _Document(copy.deepcopy(self.json), self.binary)
        out.json.pop("animations", None)
        for name, motion in motions.items():
            if len(motion):
                self._animate(out, motion, name or "motion")
        return out

    def _animate(self, out: _Document, motion: Motion, name: str) -> None:
        """Add one animation of the character's own nodes."""
        animation = out.animation(motion, name)
        for joint, (position, rotation) in relative_transforms(motion, self.nodes).items():
            node = self.nodes[joint]
            stated = _decompose(out.json["nodes"][node])
            local = position @ np.linalg.inv(self.stretches[joint]).T
            out.channel(animation, node, "rotation", continuous(rotation))
            slides = any(dof.kind == SLIDE for dof in motion.skeleton.joint(joint).motion.dofs)
            if slides or np.abs(local - stated).max() > STILL:
                out.channel(animation, node, "translation", local)
        out.add("animations", animation)


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


# --- Figures ---


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the file."""
    if not scene.has_skeleton:
        raise FormatError("glTF holds a skeleton and its motion", expected="a Motion or a Skeleton", found="neither")
    scene = scene_with_up(scene, "y")
    skeleton = scene.skeleton
    motions = dict(scene.motions) or ({scene.motion.name: scene.motion} if scene.motion is not None else {})
    character = skeleton.info.get("character")
    if isinstance(character, Character) and _wears(scene, character):
        document = character.animated(motions)
        return {suffix: document.gltf() if suffix == ".gltf" else document.glb()}
    if suffix == ".vrm":
        raise FormatError("VRM: expected motion of a character that was read from a VRM file")
    document = _Document({"asset": {"version": "2.0", "generator": "Posable"}, "scene": 0})
    nodes = _add_nodes(document, skeleton)
    top = [nodes[skeleton.joints[0].name]]
    for mesh in scene.meshes or (bone_mesh(skeleton),):
        _add_mesh(document, nodes, mesh, top)
    for name, motion in motions.items():
        if len(motion):
            _add_animation(document, nodes, name or "motion", motion)
    document.json["scenes"] = [{"nodes": top}]
    return {suffix: document.gltf() if suffix == ".gltf" else document.glb()}


def _wears(scene: Scene, character: Character) -> bool:
    """Return whether a scene still has the joints and meshes of its character."""
    surfaces = sum(len(mesh.get("primitives", ())) for mesh in character.json.get("meshes", ()))
    return set(character.nodes) <= set(scene.skeleton.names) and len(scene.meshes) <= surfaces


def _add_nodes(document: _Document, skeleton: Skeleton) -> dict[str, int]:
    count = len(skeleton.joints) + len(skeleton.sites)
    if count > MAX_JOINTS:
        raise FormatError(expected=f"at most {MAX_JOINTS} joints and sites", found=count)
    rest = local_transforms(skeleton, skeleton.rest[None])
    nodes: dict[str, int] = {}
    for joint in skeleton.joints:
        position, rotation = rest[joint.name]
        nodes[joint.name] = document.add("nodes", _node(joint.name, position[0], rotation.as_quat()[0]))
        if joint.parent is not None:
            document.json["nodes"][nodes[joint.parent]].setdefault("children", []).append(nodes[joint.name])
    for site in skeleton.sites:
        inner = rotation_matrix(site.rotation)
        turned = Rotation.from_matrix(np.eye(3) if inner is None else inner).as_quat()
        index = document.add("nodes", _node(site.name, np.asarray(site.offset, dtype=float), turned))
        document.json["nodes"][nodes[site.joint]].setdefault("children", []).append(index)
    return nodes


def _node(name: str, position: NDArray, quaternion: NDArray) -> dict[str, Any]:
    if not np.abs(position).max() <= MAX_MAGNITUDE:
        raise FormatError(expected=f"{name!r} within {MAX_MAGNITUDE:g} m of its parent", found=f"{position}")
    node: dict[str, Any] = {"name": name}
    if np.any(position != 0):
        node["translation"] = position.tolist()
    if np.any(quaternion[:3] != 0):
        node["rotation"] = quaternion.tolist()
    return node


def _add_mesh(document: _Document, nodes: dict[str, int], mesh: Mesh, top: list[int]) -> None:
    if not len(mesh.vertices) or not len(mesh.faces):
        return
    attributes = {"POSITION": document.accessor(mesh.vertices, "f4", bounds=True, target=_VERTICES)}
    node: dict[str, Any] = {"name": _unused(document, mesh.name or "mesh")}
    if mesh.joints and mesh.bones is not None and mesh.weights is not None and mesh.inverse_bind is not None:
        for k in range(0, mesh.bones.shape[1], 4):
            bones, weights = (_four(part[:, k : k + 4]) for part in (mesh.bones, mesh.weights))
            attributes[f"JOINTS_{k // 4}"] = document.accessor(bones, "u2", target=_VERTICES)
            attributes[f"WEIGHTS_{k // 4}"] = document.accessor(weights, "f4", target=_VERTICES)
        matrices = np.array(mesh.inverse_bind, dtype=np.float32)
        matrices[:, 3] = (0.0, 0.0, 0.0, 1.0)
        bind = document.accessor(matrices.transpose(0, 2, 1), "f4")
        joints = [nodes[name] for name in mesh.joints]
        node["skin"] = document.add("skins", {"joints": joints, "inverseBindMatrices": bind, "skeleton": top[0]})
    indices = document.accessor(mesh.faces.reshape(-1, 1), "u4", target=_INDICES)
    primitive = {"attributes": attributes, "indices": indices}
    node["mesh"] = document.add("meshes", {"name": mesh.name or "mesh", "primitives": [primitive]})
    index = document.add("nodes", node)
    if mesh.joint is not None and mesh.joint in nodes:
        document.json["nodes"][nodes[mesh.joint]].setdefault("children", []).append(index)
    else:
        top.append(index)


def _unused(document: _Document, name: str) -> str:
    taken = {node["name"] for node in document.json["nodes"]}
    fresh, number = name, 2
    while fresh in taken:
        fresh, number = f"{name}_{number}", number + 1
    return fresh


def _four(part: NDArray) -> NDArray:
    return np.pad(part, ((0, 0), (0, 4 - part.shape[1])))


def bone_mesh(skeleton: Skeleton) -> Mesh:
    """Return an octahedron from every joint to each of its child joints and sites, attached to that joint."""
    world = world_transforms(skeleton, skeleton.rest[None])
    at = {name: position[0] for name, (position, _) in world.items()}
    below = [(joint.parent, joint.name) for joint in skeleton.joints if joint.parent is not None]
    below += [(site.joint, site.name) for site in skeleton.sites]
    bones = [(joint, at[joint], at[end]) for joint, end in below if np.linalg.norm(at[end] - at[joint]) > 1e-6]
    if not bones:
        root = skeleton.joints[0].name
        bones = [(root, at[root], at[root] + [0.0, 0.05, 0.0])]
    shapes = [_octahedron(start, end) for _, start, end in bones]
    around = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 1), (5, 2, 1), (5, 3, 2), (5, 4, 3), (5, 1, 4)]
    faces = np.concatenate([6 * i + np.array(around) for i in range(len(bones))]).astype(np.int32)
    carrier = _carriers(skeleton)
    used = {carrier[joint] for joint, _, _ in bones}
    joints = [joint.name for joint in skeleton.joints if joint.motion.size or joint.name in used]
    inverse = np.tile(np.eye(4), (len(joints), 1, 1))
    for i, name in enumerate(joints):
        rotation = world[name][1].as_matrix()[0]
        inverse[i, :3, :3], inverse[i, :3, 3] = rotation.T, -rotation.T @ at[name]
    index = {name: i for i, name in enumerate(joints)}
    owner = np.zeros((6 * len(bones), 4), dtype=np.int32)
    owner[:, 0] = np.repeat([index[carrier[joint]] for joint, _, _ in bones], 6)
    weights = np.tile([1.0, 0.0, 0.0, 0.0], (len(owner), 1))
    return Mesh("bones", np.concatenate(shapes), faces, None, tuple(joints), inverse, owner, weights)


def _carriers(skeleton: Skeleton) -> dict[str, str]:
    """Return for each joint the one that moves it: itself, or the nearest moving ancestor of a fixed joint."""
    carrier: dict[str, str] = {}
    for joint in skeleton.joints:
        carrier[joint.name] = joint.name if joint.motion.size or joint.parent is None else carrier[joint.parent]
    return carrier


def _octahedron(start: NDArray, end: NDArray) -> NDArray:
    """Return six corners (6, 3): the start, four around it at a fifth of the way, the end."""
    along = end - start
    side = np.cross(along, np.eye(3)[np.argmin(np.abs(along))])
    side *= 0.08 * np.linalg.norm(along) / np.linalg.norm(side)
    other = np.cross(along, side) / np.linalg.norm(along)
    ring = start + 0.2 * along + np.array([side, other, -side, -other])
    return np.concatenate([start[None], ring, end[None]])


def _add_animation(document: _Document, nodes: dict[str, int], name: str, motion: Motion) -> None:
    skeleton = motion.skeleton
    local = local_transforms(skeleton, motion.poses)
    animation = document.animation(motion, name)
    for joint in skeleton.joints:
        position, rotation = local[joint.name]
        if any(dof.kind != SLIDE for dof in joint.motion.dofs):
            document.channel(animation, nodes[joint.name], "rotation", continuous(rotation))
        if any(dof.kind == SLIDE for dof in joint.motion.dofs):
            document.channel(animation, nodes[joint.name], "translation", position)
    if animation["channels"]:
        document.add("animations", animation)
