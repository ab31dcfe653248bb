"""The meshes of a glTF file: triangles to look at, rigid on a joint or skinned to several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posable.formats.gltf_container import Container
from posable.formats.gltf_nodes import Node
from posable.formats.scene import Mesh

Floats = NDArray[np.float64]


def read_meshes(container: Container, nodes: list[Node], roles: dict[int, str]) -> list[Mesh]:
    """Return the triangles of every node that has some, on the joint that carries it or skinned to several."""
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
            anchor = i
            while anchor >= 0 and roles.get(anchor) not in ("moving", "fixed"):
                anchor = nodes[anchor].parent
            matrix = (nodes[anchor].inverse() if anchor >= 0 else np.eye(4)) @ nodes[i].matrix()
            placed = vertices @ matrix[:3, :3].T + matrix[:3, 3]
            meshes.append(Mesh(name, placed, faces, nodes[anchor].name if anchor >= 0 else None))
    return meshes


def _read_surface(
    container: Container, primitive: dict[str, Any], path: tuple
) -> tuple[Floats, NDArray[np.int32]] | None:
    """Return vertices and triangles of a primitive; None where it has none (points, lines, compressed)."""
    attributes = primitive["attributes"]
    counts = {key: container.count(index, (*path, "attributes", key)) for key, index in attributes.items()}
    if len(set(counts.values())) > 1:
        raise container.error((*path, "attributes"), "as many elements of each attribute", counts)
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
