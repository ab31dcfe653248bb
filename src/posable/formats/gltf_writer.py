"""glTF and GLB, written: nodes with names, a skin, animations, and the scene's meshes or, without any, plain bones.

Metres, y up, single precision. Viewers draw meshes, not skeletons: a figure without one gets an octahedron per bone.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE
from posable.engine.layout import LARGEST
from posable.errors import FormatError
from posable.formats.base import MAX_JOINTS, Options
from posable.formats.conventions import scene_with_up
from posable.formats.gltf_character import Character
from posable.formats.gltf_container import as_single, frame_seconds
from posable.formats.scene import Mesh, Scene
from posable.formats.transforms import local_transforms, world_transforms
from posable.model.joints import rotation_matrix
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

_COMPONENTS = {"f4": 5126, "u2": 5123, "u4": 5125}
_TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
_VERTICES, _INDICES = 34962, 34963


class _Document:
    """The JSON to write and its buffer."""

    def __init__(self) -> None:
        self.json: dict[str, Any] = {"asset": {"version": "2.0", "generator": "Posable"}, "scene": 0}
        self.binary = bytearray()

    def add(self, name: str, entry: dict[str, Any]) -> int:
        """Append an entry to a top-level array and return its index."""
        self.json.setdefault(name, []).append(entry)
        return len(self.json[name]) - 1

    def accessor(self, values: NDArray, kind: str, *, bounds: bool = False, target: int | None = None) -> int:
        """Append an array (count, width) to the buffer and return its accessor."""
        flat = values.reshape(len(values), -1)
        array = as_single(flat) if kind == "f4" else np.ascontiguousarray(flat, dtype=f"<{kind}")
        view = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": array.nbytes}
        if target is not None:
            view["target"] = target
        self.binary += array.tobytes() + b"\0" * (-array.nbytes % 4)
        entry: dict[str, Any] = {
            "bufferView": self.add("bufferViews", view), "componentType": _COMPONENTS[kind], "count": len(array),
            "type": _TYPES[array.shape[1]],
        }  # fmt: skip
        if bounds:
            entry["min"], entry["max"] = array.min(axis=0).tolist(), array.max(axis=0).tolist()
        return self.add("accessors", entry)

    def glb(self) -> bytes:
        """Return the document as one binary file."""
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


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the file."""
    if not scene.has_skeleton:
        raise FormatError("glTF holds a skeleton and its motion", expected="a Motion or a Skeleton", found="neither")
    scene = scene_with_up(scene, "y")
    skeleton = scene.skeleton
    motions = dict(scene.motions) or ({scene.motion.name: scene.motion} if scene.motion is not None else {})
    character = skeleton.info.get("character")
    document = _Document()
    if isinstance(character, Character) and _wears(scene, character):
        document.json, document.binary = character.animated(motions)
        return {suffix: document.gltf() if suffix == ".gltf" else document.glb()}
    if suffix == ".vrm":
        raise FormatError("VRM holds a character: only motion of a character that was read from VRM goes there")
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
    if not np.abs(position).max() <= LARGEST:
        raise FormatError(expected=f"{name!r} within {LARGEST:g} m of its parent", found=f"{position}")
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
    times = document.accessor(frame_seconds(motion.times), "f4", bounds=True)
    animation: dict[str, Any] = {"name": name, "channels": [], "samplers": [], "extras": {"fps": motion.fps}}
    for joint in skeleton.joints:
        position, rotation = local[joint.name]
        paths: dict[str, NDArray] = {}
        if any(dof.kind != SLIDE for dof in joint.motion.dofs):
            quaternions = rotation.as_quat()
            flips = np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0
            paths["rotation"] = quaternions * np.where(np.cumsum([0, *flips]) % 2, -1.0, 1.0)[:, None]
        if any(dof.kind == SLIDE for dof in joint.motion.dofs):
            paths["translation"] = position
        for path, values in paths.items():
            animation["samplers"].append(
                {"input": times, "output": document.accessor(values, "f4"), "interpolation": "LINEAR"}
            )
            target = {"node": nodes[joint.name], "path": path}
            animation["channels"].append({"sampler": len(animation["samplers"]) - 1, "target": target})
    if animation["channels"]:
        document.add("animations", animation)
