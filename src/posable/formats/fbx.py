"""FBX, read through `ufbx`: skeletons, animations and skins of Maya, 3ds Max, Blender, Mixamo and ActorCore.

ufbx converts the file to metres, y up and right-handed, resolves pivots, pre- and post-rotations and scale
inheritance, and evaluates curves and layers; what remains is a tree of nodes, as in glTF.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.errors import FormatError
from posable.formats.base import Format, Options, bound_count
from posable.formats.node_tree import (
    Node,
    NodeAnimation,
    animation_motion,
    build_figure,
    choose_roles,
    free_nodes,
    fresh_name,
    place_nodes,
    rigid_mesh,
)
from posable.formats.scene import Mesh, Scene
from posable.formats.source import Source
from posable.model.motion import Motion

Floats = NDArray[np.float64]
DEFAULT_FPS = 30.0
MOST_FRAMES = 1_000_000  # of all joints together: a bound on files that state an absurd length


class _KeepAlive:
    """Keeps every ufbx object for good: version 0.0.5 frees some while others still point to them, in any order.

    A character of Mixamo crashed the process every second time. About four times the size of a file stays in memory.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def __call__(self, thing: Any) -> Any:
        """Keep an object and return it."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
        return thing

    def each(self, things: Any) -> list[Any]:
        """Keep a list and its members; return them."""
        bound_count(self.source, len(self(things)), "nodes or animated properties")
        return [self(things[i]) for i in range(len(things))]


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is FBX, binary or text."""
    return head.startswith(b"Kaydara FBX Binary") or b"FBXHeaderExtension" in head


def read(source: Source, options: Options) -> Scene:
    """Return the skeleton, the motions and the meshes of an FBX file."""
    try:
        return _read(source, options)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as problem:
        raise source.error(f"inconsistent contents: {type(problem).__name__}: {problem}") from problem


def _read(source: Source, options: Options) -> Scene:
    held = _KeepAlive(source)
    scene = held(_open(source))
    found = [node for node in held.each(scene.nodes) if not node.is_root]
    if not found:
        raise source.error("FBX without nodes", expected="a skeleton", found="none")
    nodes, index = _nodes(source, found, held)
    skins = {i: skin for i, node in enumerate(found) if (skin := _read_skin(node, index, held)) is not None}
    bones = {i for i, node in enumerate(found) if held(node.bone) is not None}
    bones |= {joint for skin in skins.values() for joint in skin.joints}
    stacks = held.each(scene.anim_stacks)
    rate = options.fps or held(scene.settings).frames_per_second or DEFAULT_FPS
    takes = [_sample(stack, found, nodes, rate, held) for stack in stacks]
    takes = [take for take in takes if take.frames > 1 and (take.positions or take.rotations)]
    moved = {i for take in takes for i in (*take.positions, *take.rotations)}
    roles = choose_roles(nodes, bones, moved)
    skeleton, joint_nodes = build_figure(source, nodes, roles, free_nodes(nodes, roles, bones, takes), "fbx")
    meshes = tuple(_meshes(found, nodes, roles, skins, held))
    skeleton = skeleton.replace(info={**skeleton.info, "skin": meshes})
    motions: dict[str, Motion] = {}
    numbers: dict[str, int] = {}
    for take in takes:
        motion = animation_motion(source, skeleton, nodes, joint_nodes, take)
        motions[fresh_name(motion.name, motions, numbers)] = motion
    first = next(iter(motions.values()), None)
    return Scene(skeleton=skeleton, motion=first, motions=motions, meshes=meshes)


def _open(source: Source) -> Any:
    """Return the scene as read by ufbx."""
    try:
        import ufbx
    except ImportError as problem:
        raise FormatError(
            "FBX is read by ufbx, which is not installed: pip install 'posable[fbx]'", path=source.path
        ) from problem
    try:
        return ufbx.load_memory(
            bytes(source.data),
            target_axes=ufbx.axes_right_handed_y_up,
            target_unit_meters=1.0,
            space_conversion=ufbx.SpaceConversion.MODIFY_GEOMETRY,
            geometry_transform_handling=ufbx.GeometryTransformHandling.MODIFY_GEOMETRY,
            inherit_mode_handling=ufbx.InheritModeHandling.COMPENSATE,
        )
    except ufbx.UfbxError as problem:
        raise source.error(f"ufbx cannot read it: {problem}") from problem


def _transform(transform: Any) -> tuple[Floats, Floats, Floats]:
    """Return translation (3,), quaternion (4,) xyzw and scale (3,) of a transform."""
    t, r, s = transform.translation, transform.rotation, transform.scale
    return np.array([t.x, t.y, t.z]), np.array([r.x, r.y, r.z, r.w]), np.array([s.x, s.y, s.z])


def _nodes(source: Source, found: list[Any], held: _KeepAlive) -> tuple[list[Node], dict[int, int]]:
    """Return the nodes with their world frames at rest, and {element: its index}."""
    index = {node.element_id: i for i, node in enumerate(found)}
    names = source.unique([node.name or f"node{i}" for i, node in enumerate(found)], "joint")
    nodes = []
    for name, node in zip(names, found, strict=True):
        translation, quaternion, scale = _transform(node.local_transform)
        above = held(node.parent)
        parent = index.get(above.element_id, -1) if above is not None else -1
        nodes.append(Node(name, parent, translation, Rotation.from_quat(quaternion).as_matrix() * scale))
    place_nodes(source, nodes)
    return nodes, index


def _sample(stack: Any, found: list[Any], nodes: list[Node], rate: float, held: _KeepAlive) -> NodeAnimation:
    """Return one animation, sampled at a constant rate."""
    length = max(stack.time_end - stack.time_begin, 0.0)
    frames = min(int(np.floor(length * rate + 1e-3)) + 1, max(2, MOST_FRAMES // max(len(nodes), 1)))
    times = stack.time_begin + np.arange(frames) / rate
    take = NodeAnimation(stack.name, float(rate), frames)
    anim = held(stack.anim)
    animated = set()
    for layer in held.each(stack.layers):
        animated |= {held(prop.element).element_id for prop in held.each(layer.anim_props)}
    for i, node in enumerate(found):
        if node.element_id not in animated:
            continue
        samples = [_transform(node.evaluate_transform(anim, float(t))) for t in times]
        above = nodes[nodes[i].parent].stretch if nodes[i].parent >= 0 else np.eye(3)
        take.positions[i] = np.array([sample[0] for sample in samples]) @ above.T
        take.rotations[i] = np.array([sample[1] for sample in samples])
    return take


@dataclass
class _Skin:
    """A skin: the nodes of its joints, inverse bind matrices (K, 4, 4), and for each vertex its (weight, joint)."""

    joints: list[int]
    bind: Floats
    vertices: dict[int, list[tuple[float, int]]]


def _read_skin(node: Any, index: dict[int, int], held: _KeepAlive) -> _Skin | None:
    """Return the skin of a node's mesh, or None; `geometry_to_bone` is the inverse bind matrix."""
    mesh = held(node.mesh)
    deformers = held.each(mesh.skin_deformers) if mesh is not None else []
    if not deformers:
        return None
    joints, bind, vertices = [], [], {}
    for cluster in held.each(deformers[0].clusters):
        bone = held(cluster.bone_node)
        if bone is None:
            continue
        for vertex, weight in zip(held(cluster.vertices), held(cluster.weights), strict=True):
            vertices.setdefault(int(vertex), []).append((float(weight), len(joints)))
        joints.append(index[bone.element_id])
        bind.append(_matrix(held(cluster.geometry_to_bone)))
    return _Skin(joints, np.array(bind).reshape(-1, 4, 4), vertices)


def _matrix(matrix: Any) -> Floats:
    """Return a ufbx matrix, with columns c0 to c3, as (4, 4)."""
    out = np.eye(4)
    for k, column in enumerate((matrix.c0, matrix.c1, matrix.c2, matrix.c3)):
        out[:3, k] = (column.x, column.y, column.z)
    return out


def _meshes(
    found: list[Any], nodes: list[Node], roles: dict[int, str], skins: dict[int, _Skin], held: _KeepAlive
) -> list[Mesh]:
    """Return the triangles of every node that has any, skinned or attached to a joint."""
    meshes = []
    for i, node in enumerate(found):
        mesh = held(node.mesh)
        if mesh is None or not len(held(mesh.vertices)):
            continue
        vertices = np.array([(v.x, v.y, v.z) for v in held(mesh.vertices)], dtype=float)
        faces = _triangles(mesh, held)
        name = mesh.name or nodes[i].name
        if i in skins:
            meshes.append(_skinned(name, vertices, faces, skins[i], nodes))
            continue
        meshes.append(rigid_mesh(nodes, roles, i, name, vertices, faces))
    return meshes


def _triangles(mesh: Any, held: _KeepAlive) -> NDArray[np.int32]:
    """Return the faces of a mesh as fans of triangles (F, 3)."""
    corners = np.array(list(held(mesh.vertex_indices)), dtype=np.int32)
    out = []
    for face in held(mesh.faces):
        first = face.index_begin
        out += [(first, first + k, first + k + 1) for k in range(1, face.num_indices - 1)]
    return corners[np.array(out, dtype=int).reshape(-1, 3)]


def _skinned(name: str, vertices: Floats, faces: NDArray[np.int32], skin: _Skin, nodes: list[Node]) -> Mesh:
    """Return a mesh with its skin."""
    stretch = np.tile(np.eye(4), (len(skin.joints), 1, 1))
    stretch[:, :3, :3] = [nodes[joint].stretch for joint in skin.joints]
    width = max((len(part) for part in skin.vertices.values()), default=1)
    bones, weights = np.zeros((len(vertices), width), dtype=np.int32), np.zeros((len(vertices), width))
    for v, part in skin.vertices.items():
        for k, (weight, bone) in enumerate(sorted(part, reverse=True)):
            bones[v, k], weights[v, k] = bone, weight
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total > 0.0)
    names = tuple(nodes[joint].name for joint in skin.joints)
    return Mesh(name, vertices, faces, None, names, stretch @ skin.bind, bones, weights)


FORMAT = Format(
    "FBX", (".fbx",), "a skeleton, its motions, meshes", "the file's unit and axes; needs ufbx", sniff, read
)
