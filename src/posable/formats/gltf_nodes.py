"""The nodes of a glTF file: a forest of transforms, each split into a rigid frame and a stretch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.formats.gltf_container import Container, node_name
from posable.formats.source import Source

Floats = NDArray[np.float64]


@dataclass
class Node:
    """A node: its transform in its parent's frame, and the rigid frame and scale that it has in the world at rest."""

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
        """The full transform in the world, scale and all."""
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = self.rotation_world @ self.stretch, self.position_world
        return out

    def inverse(self) -> Floats:
        """The inverse of the rigid transform in the world."""
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = self.rotation_world.T, -self.rotation_world.T @ self.position_world
        return out


def read_nodes(source: Source, container: Container) -> list[Node]:
    """Return all nodes, placed in the world at rest."""
    entries = container.list("nodes")
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
    uneven = []
    for i in order:
        uneven += [nodes[i].name] if _place(nodes, i) else []
    if uneven:
        source.warn(f"uneven scale or shear: lengths hold at rest, not when it turns, below {', '.join(uneven[:5])}")
    return nodes


def parents_first(nodes: list[Node]) -> list[int]:
    """Return the indices of the nodes that hang on a root, no node before its parent."""
    children: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(i)
    order, stack = [], list(reversed(children.get(-1, [])))
    while stack:
        i = stack.pop()
        order.append(i)
        stack += reversed(children.get(i, []))
    return order


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


def _place(nodes: list[Node], i: int) -> bool:
    """Place a node in the world: rigid frame times stretch. Say whether the stretch is uneven."""
    node = nodes[i]
    parent = nodes[node.parent] if node.parent >= 0 else Node("")
    full = parent.rotation_world @ parent.stretch
    node.position_world = parent.position_world + full @ node.translation
    linear = full @ node.linear
    size = float(np.abs(linear).max()) or 1.0
    u, s, v = np.linalg.svd(linear / size)
    rotation = u @ v
    if np.linalg.det(rotation) < 0:
        rotation = u @ np.diag([1.0, 1.0, -1.0]) @ v
    node.rotation_world = rotation
    node.stretch = rotation.T @ linear
    return bool(s[0] - s[2] > 1e-3 * s[0]) or float(np.linalg.det(linear / size)) < 0
