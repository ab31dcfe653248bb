"""Figures from trees of nodes, as in glTF and FBX: which nodes are joints, their rest pose and their motion.

Joints are the nodes of skins, animated nodes, and all nodes above them; other nodes below them are sites. A joint rests
in the pose of its node and rotates from there by a rotation vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.engine.layout import MAX_MAGNITUDE
from posable.formats.base import build_skeleton, depth_first
from posable.formats.scene import Mesh
from posable.formats.source import Source
from posable.model.joint_values import continuous_vectors
from posable.model.joints import Ball, Fixed, Free, Joint, Site
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

Floats = NDArray[np.float64]
_STILL = 1e-6  # [m] below which an animated position counts as resting


@dataclass
class Node:
    """A node: its transform in its parent, and its rigid frame and scale in the world at rest."""

    name: str
    parent: int = -1
    translation: Floats = field(default_factory=lambda: np.zeros(3))
    linear: Floats = field(default_factory=lambda: np.eye(3))  # rotation times scale
    position_world: Floats = field(default_factory=lambda: np.zeros(3))
    rotation_world: Floats = field(default_factory=lambda: np.eye(3))
    stretch: Floats = field(
        default_factory=lambda: np.eye(3)
    )  # the linear part in the world is rotation_world @ stretch

    def matrix(self) -> Floats:
        """The transform in the world, including scale."""
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = self.rotation_world @ self.stretch, self.position_world
        return out

    def inverse(self) -> Floats:
        """The inverse of the rigid transform in the world."""
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = self.rotation_world.T, -self.rotation_world.T @ self.position_world
        return out


def parents_first(nodes: list[Node]) -> list[int]:
    """Return the indices of all nodes below a root, parents first."""
    children: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(i)
    return depth_first(children, -1)


def place_nodes(source: Source, nodes: list[Node]) -> list[str]:
    """Compute the world frames of all nodes at rest; return the names of those with non-uniform scale."""
    uneven = []
    for i in parents_first(nodes):
        if place_node(source, nodes, i):
            uneven.append(nodes[i].name)
    return uneven


def place_node(source: Source, nodes: list[Node], i: int) -> bool:
    """Compute the world frame of a node, rigid frame times stretch; return whether the scale is non-uniform."""
    node = nodes[i]
    parent = nodes[node.parent] if node.parent >= 0 else Node("")
    full = parent.rotation_world @ parent.stretch
    with np.errstate(all="ignore"):
        node.position_world = parent.position_world + full @ node.translation
        linear = full @ node.linear
    largest = max(np.abs(node.position_world).max(), np.abs(linear).max())
    if not largest <= MAX_MAGNITUDE:
        raise source.error(expected=f"node {node.name!r} within {MAX_MAGNITUDE:g} m and times", found=f"{largest:g}")
    size = float(np.abs(linear).max()) or 1.0
    u, s, v = np.linalg.svd(linear / size)
    rotation = u @ v
    if np.linalg.det(rotation) < 0:
        rotation = u @ np.diag([1.0, 1.0, -1.0]) @ v
    node.rotation_world = rotation
    node.stretch = rotation.T @ linear
    return bool(s[0] - s[2] > 1e-3 * s[0]) or float(np.linalg.det(linear / size)) < 0


@dataclass
class NodeAnimation:
    """An animation sampled at a constant rate: positions and rotations by node."""

    name: str
    fps: float
    frames: int
    positions: dict[int, Floats] = field(default_factory=dict)  # (T, 3) [m], or (1, 3), in the parent's rigid frame
    rotations: dict[int, Floats] = field(default_factory=dict)  # (T, 4) quaternions xyzw


def choose_roles(nodes: list[Node], skinned: set[int], animated: set[int]) -> dict[int, str]:
    """Return the role of each node: "moving", "fixed" (above a moving one) or "site" (below a joint)."""
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


def free_nodes(nodes: list[Node], roles: dict[int, str], skinned: set[int], takes: list[NodeAnimation]) -> set[int]:
    """Return the nodes that also translate: topmost skin joints, and nodes that an animation displaces."""
    free = set()
    below_moving = set()
    for i in parents_first(nodes):
        if nodes[i].parent in below_moving or roles.get(nodes[i].parent) == "moving":
            below_moving.add(i)
        elif i in skinned:
            free.add(i)
    for take in takes:
        for i, track in take.positions.items():
            if np.abs(track - rest_in(nodes, i, nodes[i].parent)[0]).max() > _STILL:
                free.add(i)
    return free


def rest_in(nodes: list[Node], i: int, anchor: int) -> tuple[Floats, Floats]:
    """Return the offset (3,) [m] and rotation (3, 3) of node `i` in the rigid frame of node `anchor` at rest."""
    base = nodes[anchor] if anchor >= 0 else Node("")
    return base.rotation_world.T @ (nodes[i].position_world - base.position_world), base.rotation_world.T @ nodes[
        i
    ].rotation_world


def build_figure(
    source: Source, nodes: list[Node], roles: dict[int, str], free: set[int], format_name: str, *, up: str = "y"
) -> tuple[Skeleton, list[int]]:
    """Return the skeleton of a tree of nodes, and the node of each of its joints (-1: none)."""
    joints: list[Joint] = []
    sites: list[Site] = []
    joint_nodes: list[int] = []
    anchors: dict[int, int] = {-1: -1}  # the joint that carries a site's children
    tops = [i for i in roles if roles[i] != "site" and nodes[i].parent < 0]
    root = None
    if len(tops) > 1:
        root = fresh_name("scene", {node.name: None for node in nodes})
        joints.append(Joint(root, Fixed()))
        joint_nodes.append(-1)
    for i in parents_first(nodes):
        if i not in roles:
            if nodes[i].parent in anchors and nodes[i].parent >= 0:
                anchors[i] = anchors[nodes[i].parent]
            continue
        anchor = anchors[nodes[i].parent] if nodes[i].parent >= 0 else -1
        offset, rotation = rest_in(nodes, i, anchor)
        if roles[i] == "site":
            anchors[i] = anchor
            sites.append(Site(nodes[i].name, nodes[anchor].name, offset, rotation))
            continue
        anchors[i] = i
        motion = Fixed() if roles[i] == "fixed" else Free("rotvec") if i in free else Ball("rotvec")
        parent = nodes[anchor].name if anchor >= 0 else root
        joints.append(Joint(nodes[i].name, motion, parent, offset=offset, rotation=rotation))
        joint_nodes.append(i)
    skeleton = build_skeleton(source, joints, sites, name=source.path.stem, up=up, info={"format": format_name})
    return skeleton.with_rigid_bones(), joint_nodes


def animation_motion(
    source: Source, skeleton: Skeleton, nodes: list[Node], joint_nodes: list[int], take: NodeAnimation
) -> Motion:
    """Return one sampled animation as poses."""
    poses = np.repeat(skeleton.rest[None], take.frames, axis=0)
    for i, where in zip(joint_nodes, skeleton.slices, strict=True):
        if where.stop == where.start:
            continue
        offset, rotation = rest_in(nodes, i, nodes[i].parent)
        if i in take.rotations:
            turned = Rotation.from_quat(take.rotations[i]).as_matrix()
            poses[:, where.stop - 3 : where.stop] = continuous_vectors(
                Rotation.from_matrix(rotation.T @ turned).as_rotvec()
            )
        if i in take.positions and where.stop - where.start == 6:
            poses[:, where.start : where.start + 3] = (take.positions[i] - offset) @ rotation
    largest = float(np.abs(poses).max(initial=0.0))
    if not largest <= MAX_MAGNITUDE:
        raise source.error(expected=f"an animation within {MAX_MAGNITUDE:g} m", found=f"{largest:g}")
    return Motion(skeleton, poses, take.fps, take.name or source.path.stem)


def fresh_name(name: str, taken: dict, numbers: dict[str, int] | None = None) -> str:
    """Return an unused name (the second `walk` is `walk_2`); `numbers` holds the last number of each name."""
    number, fresh = (numbers or {}).get(name, 2), name
    while fresh in taken:
        fresh, number = f"{name}_{number}", number + 1
    if numbers is not None:
        numbers[name] = number
    return fresh


def rigid_mesh(
    nodes: list[Node], roles: dict[int, str], i: int, name: str, vertices: Floats, faces: NDArray[np.int32]
) -> Mesh:
    """Return the mesh of node `i` in the frame of the joint that carries it, or of the world if none does."""
    anchor = i
    while anchor >= 0 and roles.get(anchor) not in ("moving", "fixed"):
        anchor = nodes[anchor].parent
    matrix = (nodes[anchor].inverse() if anchor >= 0 else np.eye(4)) @ nodes[i].matrix()
    placed = vertices @ matrix[:3, :3].T + matrix[:3, 3]
    return Mesh(name, placed, faces, nodes[anchor].name if anchor >= 0 else None)
