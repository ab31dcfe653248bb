"""glTF and GLB, read: nodes as a skeleton, animations as motions, meshes to display. Metres, y up.

Joints are the nodes of the skins, whatever an animation moves, and everything above them; other nodes below them are
sites. A joint rests as its node does and turns by a rotation vector from there. The topmost joints of a skin, and
nodes whose position is animated, move freely. Figures are rigid: constant scales go into the lengths, animated ones
into positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.formats.base import Format, Options, bound_count
from posable.formats.gltf_container import GLB_MAGIC, MOST_SECONDS, Container, node_name
from posable.formats.gltf_writer import keep, write
from posable.formats.node_tree import (
    Node,
    NodeAnimation,
    animation_motion,
    build_figure,
    choose_roles,
    free_nodes,
    fresh_name,
    parents_first,
    place_nodes,
    rigid_mesh,
)
from posable.formats.scene import Mesh, Scene
from posable.formats.source import Source, shown
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

# --- Nodes ---

Floats = NDArray[np.float64]


def read_nodes(source: Source, container: Container) -> list[Node]:
    """Return all nodes with their world frames at rest."""
    entries = container.list("nodes")
    bound_count(source, len(entries), "nodes")
    scenes = container.list("scenes")
    if "scene" in container.json:
        container.item("scenes", container.json["scene"], ("scene",))
    for i, scene in enumerate(scenes):
        for k, node in enumerate(scene.get("nodes", [])):
            container.item("nodes", node, ("scenes", i, "nodes", k))
    names = source.unique([node_name(entry, i) for i, entry in enumerate(entries)], "joint")
    nodes = [Node(name) for name in names]
    for i, entry in enumerate(entries):
        nodes[i].translation, nodes[i].linear = _local_transform(container, entry, ("nodes", i))
        for k, child in enumerate(entry.get("children", [])):
            container.item("nodes", child, ("nodes", i, "children", k))
            if nodes[child].parent >= 0 or child == i:
                raise container.error(("nodes", i, "children", k), "a node with no other parent", child)
            nodes[child].parent = i
    order = parents_first(nodes)
    if len(order) < len(nodes):
        lost = min(set(range(len(nodes))) - set(order))
        raise container.error(("nodes", lost), "nodes that form trees", "a cycle")
    uneven = place_nodes(source, nodes)
    if uneven:
        source.warn(
            f"non-uniform scale or shear: bone lengths are exact only in the rest pose, below {', '.join(uneven[:5])}"
        )
    return nodes


def _local_transform(container: Container, entry: dict[str, Any], path: tuple) -> tuple[Floats, Floats]:
    parts = {}
    for key, size in (("matrix", 16), ("translation", 3), ("rotation", 4), ("scale", 3)):
        if key in entry:
            if len(entry[key]) != size:
                raise container.error((*path, key), f"{size} numbers", len(entry[key]))
            parts[key] = np.array(entry[key], dtype=float)
    if "matrix" in parts:
        matrix = parts["matrix"].reshape(4, 4).T
        return matrix[:3, 3].copy(), matrix[:3, :3].copy()
    rotation = np.eye(3)
    if "rotation" in parts:
        if not np.linalg.norm(parts["rotation"]) > 1e-6:
            raise container.error((*path, "rotation"), "a quaternion that is not zero", parts["rotation"].tolist())
        rotation = Rotation.from_quat(parts["rotation"]).as_matrix()
    scale = parts.get("scale", np.ones(3))
    return parts.get("translation", np.zeros(3)), rotation * scale


# --- Animations ---

Floats = NDArray[np.float64]
DEFAULT_FPS = 30.0
_LEAST_FPS = 24.0
_WIDTHS = {"translation": ("VEC3",), "rotation": ("VEC4",), "scale": ("VEC3",), "weights": ("SCALAR",)}
_MOST_NUMBERS = 200_000  # samples allowed for a few keyframes of a small file
_MOST_SAMPLES = 10_000_000  # samples allowed for all animations together; more for a large file


@dataclass
class Track:
    """One animation channel of a node: `values` (K, w) at `times` (K,) [s], with tangents if it is a cubic spline."""

    node: int
    path: str
    times: Floats
    values: Floats
    interpolation: str
    tangents: tuple[Floats, Floats] | None = None  # in, out

    def sample(self, when: Floats) -> Floats:
        """Return the values (T, w) at `when` (T,) [s]; rotations as unit quaternions xyzw."""
        times, values = self.times, self.values
        if len(times) == 1:
            return np.repeat(values, len(when), axis=0)
        before = np.clip(np.searchsorted(times, when, side="right") - 1, 0, len(times) - 2)
        span = times[before + 1] - times[before]
        share = np.clip((when - times[before]) / span, 0.0, 1.0)[:, None]
        start, end = values[before], values[before + 1]
        if self.interpolation == "STEP":
            result = np.where(share >= 1.0, end, start)
        elif self.tangents is not None:
            arriving, leaving = self.tangents
            u, d = share, span[:, None]
            result = (
                (2 * u**3 - 3 * u**2 + 1) * start + d * (u**3 - 2 * u**2 + u) * leaving[before]
                + (3 * u**2 - 2 * u**3) * end + d * (u**3 - u**2) * arriving[before + 1]
            )  # fmt: skip
        elif self.path == "rotation":
            result = _slerp(start, end, share)
        else:
            result = start + share * (end - start)
        if self.path == "rotation":
            length = np.linalg.norm(result, axis=1, keepdims=True)
            result = np.where(length > 1e-9, result / np.maximum(length, 1e-300), [0.0, 0.0, 0.0, 1.0])
        return result


def _slerp(start: Floats, end: Floats, share: Floats) -> Floats:
    """Return unit quaternions on the shorter arc between `start` and `end`."""
    cosine = np.sum(start * end, axis=1, keepdims=True)
    end = np.where(cosine < 0, -end, end)
    angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
    sine = np.sin(angle)
    close = sine < 1e-6
    safe = np.where(close, 1.0, sine)
    a = np.where(close, 1.0 - share, np.sin((1.0 - share) * angle) / safe)
    b = np.where(close, share, np.sin(share * angle) / safe)
    return a * start + b * end


@dataclass
class Animation:
    """An animation: its name, its tracks, and its frame rate if stated."""

    name: str
    tracks: list[Track]
    fps: float | None = None


def read_animation(container: Container, index: int) -> Animation:
    """Return an animation's name and its tracks."""
    entry = container.list("animations")[index]
    tracks = []
    for k, channel in enumerate(entry["channels"]):
        where = ("animations", index, "channels", k)
        target = channel["target"]
        if "node" not in target or target["path"] not in ("translation", "rotation", "scale"):
            if target["path"] not in _WIDTHS and "extensions" not in target:
                raise container.error((*where, "target", "path"), " or ".join(_WIDTHS), shown(target["path"]))
            continue
        container.item("nodes", target["node"], (*where, "target", "node"))
        if channel["sampler"] >= len(entry["samplers"]):
            raise container.error(
                (*where, "sampler"), f"an index into {len(entry['samplers'])} samplers", channel["sampler"]
            )
        place = ("animations", index, "samplers", channel["sampler"])
        tracks.append(_read_track(container, entry["samplers"][channel["sampler"]], place, target))
    return Animation(entry.get("name", ""), tracks, _stated_rate(entry))


def _stated_rate(entry: dict) -> float | None:
    """Return the frame rate that our own writer stores in `extras`, since a single keyframe has none."""
    extras = entry.get("extras")
    fps = extras.get("fps") if isinstance(extras, dict) else None
    return float(fps) if isinstance(fps, int | float) and not isinstance(fps, bool) and 0 < fps < 1e6 else None


def _read_track(container: Container, sampler: dict, place: tuple, target: dict) -> Track:
    path, interpolation = target["path"], sampler.get("interpolation", "LINEAR")
    if interpolation not in ("LINEAR", "STEP", "CUBICSPLINE"):
        raise container.error((*place, "interpolation"), "LINEAR, STEP or CUBICSPLINE", shown(interpolation))
    times = container.accessor(sampler["input"], (*place, "input"), kinds=("SCALAR",))[:, 0]
    values = container.accessor(sampler["output"], (*place, "output"), kinds=_WIDTHS[path])
    if not np.all(np.diff(times) > 0) or times[0] < 0 or times[-1] > MOST_SECONDS:
        raise container.error((*place, "input"), "times that increase from 0", "times that do not")
    tangents = None
    keys = len(times) * (3 if interpolation == "CUBICSPLINE" else 1)
    if len(values) != keys:
        raise container.error((*place, "output"), f"{keys} values", len(values))
    if interpolation == "CUBICSPLINE":
        triples = values.reshape(len(times), 3, -1)
        tangents, values = (triples[:, 0], triples[:, 2]), triples[:, 1]
    if path == "rotation":
        length = np.linalg.norm(values, axis=1, keepdims=True)
        if not np.all(length > 1e-6):
            raise container.error((*place, "output"), "quaternions that are not zero", "a zero")
        values = values / length if tangents is None else values
    return Track(target["node"], path, times, values, interpolation, tangents)


def frame_times(source: Source, tracks: list[Track], fps: float | None, width: int) -> tuple[Floats, float]:
    """Return the sample times and their rate: that of the keyframes if they are evenly spaced."""
    times = np.unique(np.concatenate([track.times for track in tracks]))
    start, length = times[0], times[-1] - times[0]
    keys = len(times)
    rate = fps
    if rate is None:
        rate = _own_rate(times) or DEFAULT_FPS
        rate *= np.ceil(_LEAST_FPS / rate)  # sparse keyframes: add frames between them, and keep one on each
    most = max(keys * 2, max(_MOST_NUMBERS, 4 * len(source.data)) // width, 2)
    if length * rate > most:
        rate = most / length
        source.warn(f"an animation of {length:g} s was sampled at {rate:g} frames per second, to keep it small")
    count = int(np.floor(length * rate + 1e-3)) + 1
    return start + np.arange(count) / rate, rate


def _own_rate(times: Floats) -> float | None:
    """Return the rate at which all keyframes fall on frames: that of the closest two, if all other gaps fit."""
    if len(times) < 2:
        return None
    gaps = np.diff(times)
    frames = gaps / gaps.min()
    if gaps.min() <= 0 or np.abs(frames - np.round(frames)).max() > 0.02 * max(1.0, 1e-5 / gaps.min()):
        return None
    rate = float(np.sum(np.round(frames)) / (times[-1] - times[0]))
    whole = round(rate)
    return float(whole) if whole and abs(rate - whole) < 1e-3 * whole else rate


# --- Meshes ---

Floats = NDArray[np.float64]


def read_meshes(container: Container, nodes: list[Node], roles: dict[int, str]) -> list[Mesh]:
    """Return the triangles of every node that has any, attached to a joint or skinned."""
    meshes: list[Mesh] = []
    for i, entry in enumerate(container.list("nodes")):
        if "mesh" not in entry:
            continue
        mesh = container.item("meshes", entry["mesh"], ("nodes", i, "mesh"))
        skin = container.item("skins", entry["skin"], ("nodes", i, "skin")) if "skin" in entry else None
        for k, primitive in enumerate(mesh["primitives"]):
            path = ("meshes", entry["mesh"], "primitives", k)
            surface = _read_surface(container, primitive, path)
            if surface is None:
                continue
            vertices, faces = surface
            name = mesh.get("name") or nodes[i].name
            if skin is not None and "JOINTS_0" in primitive["attributes"]:
                meshes.append(_skinned(container, nodes, name, vertices, faces, (skin, entry["skin"]), primitive, path))
                continue
            meshes.append(rigid_mesh(nodes, roles, i, name, vertices, faces))
    return meshes


def _read_surface(
    container: Container, primitive: dict[str, Any], path: tuple
) -> tuple[Floats, NDArray[np.int32]] | None:
    """Return vertices and triangles of a primitive; None if it has none (points, lines, compressed)."""
    attributes = primitive["attributes"]
    counts = {key: container.count(index, (*path, "attributes", key)) for key, index in attributes.items()}
    if len(set(counts.values())) > 1:
        raise container.error((*path, "attributes"), "the same number of elements of every attribute", counts)
    if (
        "POSITION" not in attributes
        or primitive.get("mode", 4) != 4
        or "KHR_draco_mesh_compression" in primitive.get("extensions", {})
    ):
        return None
    vertices = container.accessor(attributes["POSITION"], (*path, "attributes", "POSITION"), kinds=("VEC3",))
    if "indices" in primitive:
        corners = container.accessor(primitive["indices"], (*path, "indices"), kinds=("SCALAR",), integer=True)[:, 0]
    else:
        corners = np.arange(len(vertices))
    if len(corners) % 3 or (len(corners) and corners.max() >= len(vertices)):
        raise container.error(
            (*path, "indices"),
            f"triangles of {len(vertices)} vertices",
            f"{len(corners)} indices up to {corners.max()}",
        )
    return vertices, corners.reshape(-1, 3).astype(np.int32)


def _skinned(container: Container, nodes: list[Node], name: str, vertices, faces, skin_at, primitive, path) -> Mesh:
    skin, index = skin_at
    joints = skin["joints"]
    if not joints:
        raise container.error(("skins", index, "joints"), "one joint or more", "none")
    bind = np.tile(np.eye(4), (len(joints), 1, 1))
    if "inverseBindMatrices" in skin:
        where = ("skins", index, "inverseBindMatrices")
        stored = container.accessor(skin["inverseBindMatrices"], where, kinds=("MAT4",))
        if len(stored) < len(joints):
            raise container.error(where, f"{len(joints)} matrices", len(stored))
        bind = stored[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
    stretch = np.tile(np.eye(4), (len(joints), 1, 1))
    stretch[:, :3, :3] = [nodes[joint].stretch for joint in joints]
    bones, weights, number = [], [], 0
    while f"JOINTS_{number}" in primitive["attributes"] and f"WEIGHTS_{number}" in primitive["attributes"]:
        for key, into, integer in ((f"JOINTS_{number}", bones, True), (f"WEIGHTS_{number}", weights, False)):
            accessor = primitive["attributes"][key]
            into.append(container.accessor(accessor, (*path, "attributes", key), kinds=("VEC4",), integer=integer))
        number += 1
    if not bones:
        raise container.error((*path, "attributes"), "WEIGHTS_0 beside JOINTS_0", "none")
    chosen = np.concatenate(bones, axis=1).astype(np.int32)
    if chosen.max() >= len(joints):
        raise container.error((*path, "attributes"), f"joints below {len(joints)}", int(chosen.max()))
    names = tuple(nodes[joint].name for joint in joints)
    return Mesh(name, vertices, faces, None, names, stretch @ bind, chosen, np.concatenate(weights, axis=1))


# --- glTF and GLB ---

Floats = NDArray[np.float64]


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is glTF or GLB."""
    return head[:4] == GLB_MAGIC or (head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and b'"' in head)


def read(source: Source, options: Options) -> Scene:
    """Return the skeleton, the motions and the meshes of a glTF or GLB file."""
    container = Container(source)
    _warn_of_extensions(source, container)
    nodes = read_nodes(source, container)
    if not nodes:
        meshes = container.list("meshes")
        if not meshes:
            raise container.error((), "nodes", "none")
        return Scene()
    animations = [read_animation(container, i) for i in range(len(container.list("animations")))]
    skinned = _skin_joints(container)
    roles = choose_roles(nodes, skinned, {track.node for animation in animations for track in animation.tracks})
    takes = []
    room = _MOST_SAMPLES + 4 * len(source.data)
    for animation in animations:
        if animation.tracks:
            takes.append(_sample(source, nodes, roles, animation, options.fps, room))
            room -= takes[-1].frames * 6 * len(roles)
    skeleton, joint_nodes = build_figure(source, nodes, roles, free_nodes(nodes, roles, skinned, takes), "gltf")
    meshes = tuple(read_meshes(container, nodes, roles))
    skeleton = _with_character(container, nodes, skeleton, joint_nodes, meshes)
    motions: dict[str, Motion] = {}
    numbers: dict[str, int] = {}
    for take in takes:
        motion = animation_motion(source, skeleton, nodes, joint_nodes, take)
        motions[fresh_name(motion.name, motions, numbers)] = motion
    first = next(iter(motions.values()), None)
    return Scene(skeleton=skeleton, motion=first, motions=motions, meshes=meshes)


def _with_character(
    container: Container, nodes: list[Node], skeleton: Skeleton, joint_nodes: list[int], meshes: tuple[Mesh, ...]
) -> Skeleton:
    """Return the skeleton with its source document, its skin, and the roles that a VRM states."""
    index = {joint.name: i for joint, i in zip(skeleton.joints, joint_nodes, strict=True) if i >= 0}
    above = {name: nodes[i].parent for name, i in index.items()}
    stretches = {name: nodes[i].stretch if i >= 0 else np.eye(3) for name, i in above.items()}
    character = keep(container, index, stretches)
    info = {**skeleton.info, "character": character, "skin": meshes}
    roles = vrm_roles(container.json, {i: name for name, i in index.items()})
    return skeleton.replace(info={**info, "roles": roles} if roles else info)


# VRM's names of human bones, and their roles
VRM_ROLES = {
    "hips": "pelvis", "chest": "chest", "upperChest": "chest", "neck": "neck", "head": "head",
    **{f"{side}{bone}": f"{role}.{letter}" for side, letter in (("left", "L"), ("right", "R")) for bone, role in (
        ("UpperLeg", "hip"), ("LowerLeg", "knee"), ("Foot", "ankle"), ("Toes", "toe"), ("Shoulder", "clavicle"),
        ("UpperArm", "shoulder"), ("LowerArm", "elbow"), ("Hand", "wrist"),
    )},
}  # fmt: skip


def vrm_roles(document: dict[str, Any], joint_of: dict[int, str]) -> dict[str, str]:
    """Return {role: joint} that a VRM humanoid states, empty for other documents; `joint_of` is {node: joint}."""
    extensions = document.get("extensions", {})
    bones: list[tuple[str, int]] = []
    try:
        one = next((key for key in ("VRMC_vrm", "VRMC_vrm_animation") if key in extensions), None)
        if one:  # VRM 1 and its animations
            stated = extensions[one].get("humanoid", {}).get("humanBones", {})
            bones = [(bone, entry.get("node", -1)) for bone, entry in stated.items()]
        elif "VRM" in extensions:  # VRM 0
            stated = extensions["VRM"].get("humanoid", {}).get("humanBones", [])
            bones = [(entry.get("bone", ""), entry.get("node", -1)) for entry in stated]
        bones.sort(key=lambda bone: bone[0] == "upperChest")  # carries the arms where there is a chest, too
        return {VRM_ROLES[bone]: joint_of[node] for bone, node in bones if bone in VRM_ROLES and node in joint_of}
    except (AttributeError, TypeError):  # an invalid extension states no roles
        return {}


def _warn_of_extensions(source: Source, container: Container) -> None:
    required = container.json.get("extensionsRequired", [])
    harmless = ("KHR_mesh_quantization", "KHR_materials", "KHR_texture", "KHR_lights", "EXT_texture")
    strange = [name for name in required if not name.startswith(harmless)]
    if strange:
        source.warn(f"required extensions that are not read: {', '.join(strange[:5])}")


# -------------------------------------------------------------------------------------------------- joints and sites


def _skin_joints(container: Container) -> set[int]:
    joints = set()
    for i, skin in enumerate(container.list("skins")):
        for k, joint in enumerate(skin["joints"]):
            container.item("nodes", joint, ("skins", i, "joints", k))
            joints.add(joint)
    return joints


def _sample(
    source: Source, nodes: list[Node], roles: dict[int, str], animation: Animation, fps: float | None, room: int
) -> NodeAnimation:
    """Sample one animation at a constant rate: positions in the parent's rigid frame, and rotations, of moving nodes.

    `room` is how many numbers of poses it may make.

    A scale that differs from that at rest moves all nodes below; this is exact if the scale is uniform.
    """
    joints = [i for i in parents_first(nodes) if roles.get(i) == "moving"]
    times, rate = frame_times(source, animation.tracks, fps or animation.fps, 6 * len(joints))
    if 6 * len(joints) * len(times) > room:
        raise source.error(
            "animations too long for such a small file", expected=f"{room} numbers of poses or fewer",
            found=6 * len(joints) * len(times),
        )  # fmt: skip
    by_node: dict[int, dict[str, Track]] = {}
    for track in animation.tracks:
        by_node.setdefault(track.node, {})[track.path] = track
    growth: dict[int, Floats] = {}  # scale of a node relative to rest, over time
    scaled = []
    take = NodeAnimation(animation.name, rate, len(times))
    for i in joints:
        node, moves = nodes[i], by_node.get(i, {})
        above = nodes[node.parent] if node.parent >= 0 else Node("")
        around = growth.get(node.parent)
        if "translation" in moves or around is not None:
            local = moves["translation"].sample(times) if "translation" in moves else node.translation[None]
            take.positions[i] = local @ above.stretch.T * (1.0 if around is None else around[:, None])
        if "rotation" in moves:
            take.rotations[i] = moves["rotation"].sample(times)
        ratio = _scale_ratio(node, moves["scale"].sample(times)) if "scale" in moves else None
        if ratio is not None:
            scaled.append(node.name)
        if ratio is not None or around is not None:
            growth[i] = (1.0 if ratio is None else ratio) * (np.ones(len(times)) if around is None else around)
    if scaled:
        source.warn(f"animated scale moves the joints below it, but meshes keep their size: {', '.join(scaled[:5])}")
    return take


def _scale_ratio(node: Node, scale: Floats) -> Floats | None:
    """Return the scale (T, 3) of a node relative to rest, averaged over its axes; None if it does not change."""
    at_rest = np.linalg.norm(node.linear, axis=0)
    if not np.all(at_rest > 1e-12) or np.abs(scale / at_rest - 1.0).max() < 1e-4:
        return None
    return np.mean(scale / at_rest, axis=1)


# ------------------------------------------------------------------------------------------------------ the skeleton


FORMAT = Format(
    "glTF", (".glb", ".gltf", ".vrm"), "a skeleton, its motions, meshes", "metres, y up", sniff, read, write
)
