"""glTF and GLB, read: nodes as a skeleton, animations as motions, meshes to look at. Metres, y up.

Joints are the nodes of the skins, whatever an animation moves, and everything above them; other nodes below them are
sites. A joint rests as its node does and turns by a rotation vector from there. The topmost joints of a skin, and
nodes whose position is animated, move freely. Figures are rigid: constant scales go into the lengths, animated ones
into positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.formats.format import Format, Options, build_skeleton
from posable.formats.gltf_animation import Animation, Track, frame_times, read_animation
from posable.formats.gltf_container import GLB_MAGIC, Container
from posable.formats.gltf_mesh import read_meshes
from posable.formats.gltf_nodes import Node, parents_first, read_nodes
from posable.formats.gltf_write import write
from posable.formats.scene import Scene
from posable.formats.source import Source
from posable.motion import Motion
from posable.skeleton import Ball, Fixed, Free, Joint, Site, Skeleton

Floats = NDArray[np.float64]
_STILL = 1e-6  # [m] below which an animated position counts as resting


@dataclass
class Take:
    """An animation sampled at a steady rate; what is animated of which node."""

    name: str
    fps: float
    frames: int
    positions: dict[int, Floats] = field(default_factory=dict)  # (T, 3) [m], or (1, 3), in the parent's rigid frame
    rotations: dict[int, Floats] = field(default_factory=dict)  # (T, 4) quaternions xyzw


def sniff(head: bytes) -> bool:
    """Say whether a file that starts with `head` is glTF or GLB."""
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
    roles = _choose(nodes, skinned, {track.node for animation in animations for track in animation.tracks})
    takes = [_sample(source, nodes, roles, animation, options.fps) for animation in animations if animation.tracks]
    skeleton, joint_nodes = _build(source, nodes, roles, _free_nodes(nodes, roles, skinned, takes))
    motions: dict[str, Motion] = {}
    for take in takes:
        motion = _motion(source, skeleton, nodes, joint_nodes, take)
        motions[_fresh(motion.name, motions)] = motion
    meshes = read_meshes(container, nodes, roles)
    first = next(iter(motions.values()), None)
    return Scene(skeleton=skeleton, motion=first, motions=motions, meshes=tuple(meshes))


def _fresh(name: str, taken: dict) -> str:
    number, fresh = 2, name
    while fresh in taken:
        fresh, number = f"{name}_{number}", number + 1
    return fresh


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


def _choose(nodes: list[Node], skinned: set[int], animated: set[int]) -> dict[int, str]:
    """Return what becomes of each node: it is "moving", "fixed" (above one that moves) or a "site" below a joint."""
    moving = skinned | animated or set(range(len(nodes)))
    roles = dict.fromkeys(moving, "moving")
    for i in moving:
        above = nodes[i].parent
        while above >= 0 and above not in roles:
            roles[above] = "fixed"
            above = nodes[above].parent
    for i in parents_first(nodes):
        if i not in roles and nodes[i].parent in roles:
            roles[i] = "site"
    return roles


def _free_nodes(nodes: list[Node], roles: dict[int, str], skinned: set[int], takes: list[Take]) -> set[int]:
    """Return the nodes that also translate: topmost skin joints, and those that an animation moves away from rest."""
    free = set()
    below_moving = set()
    for i in parents_first(nodes):
        if nodes[i].parent in below_moving or roles.get(nodes[i].parent) == "moving":
            below_moving.add(i)
        elif i in skinned:
            free.add(i)
    for take in takes:
        for i, track in take.positions.items():
            if np.abs(track - _rest(nodes, i, nodes[i].parent)[0]).max() > _STILL:
                free.add(i)
    return free


def _sample(source: Source, nodes: list[Node], roles: dict[int, str], animation: Animation, fps: float | None) -> Take:
    """Sample one animation at a steady rate: positions in the parent's rigid frame, rotations, where there are any.

    A scale that differs from the one at rest moves everything below it; an even one does so exactly.
    """
    joints = [i for i in parents_first(nodes) if roles.get(i) == "moving"]
    times, rate = frame_times(source, animation.tracks, fps or animation.fps, 6 * len(joints))
    by_node: dict[int, dict[str, Track]] = {}
    for track in animation.tracks:
        by_node.setdefault(track.node, {})[track.path] = track
    growth: dict[int, Floats] = {}  # how many times its size at rest a node has, over time
    scaled = []
    take = Take(animation.name, rate, len(times))
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
        source.warn(f"animated scale moves the joints below it, meshes stay as they are: {', '.join(scaled[:5])}")
    return take


def _scale_ratio(node: Node, scale: Floats) -> Floats | None:
    """Return how much larger than at rest a node's scale (T, 3) is, on the mean of its axes; None where it is not."""
    at_rest = np.linalg.norm(node.linear, axis=0)
    if not np.all(at_rest > 1e-12) or np.abs(scale / at_rest - 1.0).max() < 1e-4:
        return None
    return np.mean(scale / at_rest, axis=1)


# ------------------------------------------------------------------------------------------------------ the skeleton


def _rest(nodes: list[Node], i: int, anchor: int) -> tuple[Floats, Floats]:
    """Return the offset (3,) [m] and rotation (3, 3) of node `i` in the rigid frame of node `anchor` at rest."""
    base = nodes[anchor] if anchor >= 0 else Node("")
    return base.rotation_world.T @ (nodes[i].position_world - base.position_world), base.rotation_world.T @ nodes[
        i
    ].rotation_world


def _build(source: Source, nodes: list[Node], roles: dict[int, str], free: set[int]):
    joints: list[Joint] = []
    sites: list[Site] = []
    joint_nodes: list[int] = []
    anchors: dict[int, int] = {-1: -1}  # the joint that a site's children hang on
    tops = [i for i in roles if roles[i] != "site" and nodes[i].parent < 0]
    root = None
    if len(tops) > 1:
        root = _fresh("scene", {node.name: None for node in nodes})
        joints.append(Joint(root, Fixed()))
        joint_nodes.append(-1)
    for i in parents_first(nodes):
        if i not in roles:
            if nodes[i].parent in anchors and nodes[i].parent >= 0:
                anchors[i] = anchors[nodes[i].parent]
            continue
        anchor = anchors[nodes[i].parent] if nodes[i].parent >= 0 else -1
        offset, rotation = _rest(nodes, i, anchor)
        if roles[i] == "site":
            anchors[i] = anchor
            sites.append(Site(nodes[i].name, nodes[anchor].name, offset, rotation))
            continue
        anchors[i] = i
        motion = Fixed() if roles[i] == "fixed" else Free("rotvec") if i in free else Ball("rotvec")
        parent = nodes[anchor].name if anchor >= 0 else root
        joints.append(Joint(nodes[i].name, motion, parent, offset=offset, rotation=rotation))
        joint_nodes.append(i)
    skeleton = build_skeleton(source, joints, sites, name=source.path.stem, up="y", info={"format": "gltf"})
    return skeleton, joint_nodes


def _motion(source: Source, skeleton: Skeleton, nodes: list[Node], joint_nodes: list[int], take: Take) -> Motion:
    """Return one sampled animation as poses."""
    poses = np.repeat(skeleton.rest[None], take.frames, axis=0)
    for i, where in zip(joint_nodes, skeleton.slices, strict=True):
        if where.stop == where.start:
            continue
        offset, rotation = _rest(nodes, i, nodes[i].parent)
        if i in take.rotations:
            turned = Rotation.from_quat(take.rotations[i]).as_matrix()
            poses[:, where.stop - 3 : where.stop] = _rotation_vectors(Rotation.from_matrix(rotation.T @ turned))
        if i in take.positions and where.stop - where.start == 6:
            poses[:, where.start : where.start + 3] = (take.positions[i] - offset) @ rotation
    return Motion(skeleton, poses, take.fps, take.name or source.path.stem)


def _rotation_vectors(rotation: Rotation) -> Floats:
    """Return rotation vectors (T, 3) that go on over half a turn instead of jumping back."""
    quaternions = rotation.as_quat()
    flips = np.sum(quaternions[1:] * quaternions[:-1], axis=1) < 0
    signs = np.where(np.cumsum(np.concatenate([[quaternions[0, 3] < 0], flips])) % 2, -1.0, 1.0)
    quaternions = quaternions * signs[:, None]
    sine = np.linalg.norm(quaternions[:, :3], axis=1)
    angle = 2.0 * np.arctan2(sine, quaternions[:, 3])
    factor = np.where(sine > 1e-9, angle / np.maximum(sine, 1e-300), 2.0)
    return quaternions[:, :3] * factor[:, None]


FORMAT = Format("glTF", (".glb", ".gltf"), "a skeleton, its motions, meshes", "metres, y up", sniff, read, write)
