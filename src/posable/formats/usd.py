"""USD through `usd-core`: UsdSkel skeletons, animations and skinned meshes, read and written.

A skeleton that was read keeps its stage in `skeleton.info["character"]`: motion of it is written as a new SkelAnimation
into that stage, and meshes, skins, materials, blend shapes and everything else stay as they were.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.errors import FormatError
from posable.formats.base import Format, Options, bound_count
from posable.formats.conventions import local_transforms, world_transforms
from posable.formats.gltf_writer import bone_mesh, relative_transforms
from posable.formats.node_tree import (
    Node,
    NodeAnimation,
    animation_motion,
    build_figure,
    choose_roles,
    free_nodes,
    place_nodes,
)
from posable.formats.scene import Mesh, Scene
from posable.formats.source import Source
from posable.model.motion import Motion

Floats = NDArray[np.float64]
DEFAULT_FPS = 24.0
OPENING = 3.0  # [s] of processor time allowed to open a file,
OPENING_MB = 0.5  # [s] plus this per MB
WAITING = 10.0  # times that in wall-clock time, for a busy machine
MOST_NUMBERS = 100_000_000  # in the transforms of all frames: a bound on files that state an absurd length


def _pxr() -> Any:
    """Return usd-core's modules."""
    try:
        from pxr import Gf, Sdf, Tf, Usd, UsdGeom, UsdSkel, Vt
    except ImportError as problem:
        raise FormatError("USD needs usd-core, which is not installed: pip install 'posable[usd]'") from problem
    return SimpleNamespace(Gf=Gf, Sdf=Sdf, Tf=Tf, Usd=Usd, UsdGeom=UsdGeom, UsdSkel=UsdSkel, Vt=Vt)


@dataclass(frozen=True, eq=False)
class Stage:
    """A USD stage as it was read: its text, the path of its skeleton, and {joint: index}, in UsdSkel's order."""

    text: str
    path: str
    nodes: dict[str, int]


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is USD, text or crate."""
    return head.startswith((b"#usda", b"PXR-USDC"))


# --- Reading ---


def read(source: Source, options: Options) -> Scene:
    """Return the first skeleton of a stage, its animation and the meshes that are skinned to it."""
    pxr = _pxr()
    try:
        return _read(source, options, pxr)
    except pxr.Tf.ErrorException as problem:  # values are unpacked on access: any call may find damage
        raise source.error("usd-core cannot read it") from problem
    except (ValueError, IndexError, TypeError, AttributeError, OverflowError, RuntimeError) as problem:
        raise source.error(f"inconsistent arrays: {type(problem).__name__}: {problem}") from problem


# Run by another Python: opens a stage, unpacks all of it and writes it as one layer.
_FLATTEN = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]), int(sys.argv[3]) + 1))
except (ImportError, ValueError):
    pass
from pxr import Tf, Usd
try:
    written = Usd.Stage.Open(sys.argv[1]).Flatten().Export(sys.argv[2])
except Tf.ErrorException as problem:
    sys.exit(str(problem).strip().splitlines()[-1])
sys.exit(0 if written else "it cannot be flattened")
"""


def _opened(source: Source, pxr: Any) -> Any:
    """Return the stage of a file, its references resolved.

    Damaged files make usd-core hang or crash, so another process opens the file first, with a limit on its time, and
    writes what it found as one layer; that is what is read here.
    """
    seconds = OPENING + OPENING_MB * len(source.data) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        flat = Path(folder) / "flat.usdc"
        words = [sys.executable, "-I", "-c", _FLATTEN, str(source.path), str(flat), str(int(np.ceil(seconds)))]
        try:
            done = subprocess.run(words, capture_output=True, timeout=WAITING * seconds, check=False)
        except subprocess.TimeoutExpired:
            done = None
        if done is None or done.returncode < 0:  # killed by a limit, or crashed
            raise source.error("usd-core hangs on it or crashes: the file is damaged")
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise source.error(f"usd-core cannot read it: {said[-1][-200:]}")
        layer = pxr.Sdf.Layer.OpenAsAnonymous(str(flat))
        return pxr.Usd.Stage.Open(layer)


def _read(source: Source, options: Options, pxr: Any) -> Scene:
    stage = _opened(source, pxr)
    skeletons = [pxr.UsdSkel.Skeleton(prim) for prim in stage.Traverse() if prim.IsA(pxr.UsdSkel.Skeleton)]
    if not skeletons:
        raise source.error("USD without a skeleton", expected="a UsdSkel Skeleton", found="none")
    if len(skeletons) > 1:
        source.warn(f"{len(skeletons)} skeletons: the first, {skeletons[0].GetPath()}, was read")
    found = skeletons[0]
    query = pxr.UsdSkel.Cache().GetSkelQuery(found)
    metres = options.unit or pxr.UsdGeom.GetStageMetersPerUnit(stage)
    up = "z" if pxr.UsdGeom.GetStageUpAxis(stage) == "Z" else "y"
    nodes = _nodes(source, pxr, found, metres)
    count = len(nodes) - 1
    moving = set(range(1, count + 1))
    roles = choose_roles(nodes, moving, set())
    takes = _takes(stage, query, nodes, options.fps)
    skeleton, joint_nodes = build_figure(source, nodes, roles, free_nodes(nodes, roles, moving, takes), "usd", up=up)
    motions = [animation_motion(source, skeleton, nodes, joint_nodes, take) for take in takes]
    index = {joint.name: i - 1 for joint, i in zip(skeleton.joints, joint_nodes, strict=True) if i > 0}
    kept = Stage(stage.Flatten().ExportToString(), str(found.GetPath()), index)
    meshes = tuple(_meshes(pxr, stage, found, nodes))
    skeleton = skeleton.replace(info={**skeleton.info, "character": kept, "skin": meshes})
    motions = [Motion(skeleton, motion.poses, motion.fps, motion.name) for motion in motions]
    motion = motions[0] if motions else None
    return Scene(
        skeleton=skeleton, motion=motion, motions={m.name: m for m in motions}, meshes=tuple(meshes)
    )  # fmt: skip


def _matrix(matrix: Any) -> Floats:
    """Return a matrix (4, 4) for column vectors; USD uses row vectors."""
    return np.array(matrix, dtype=float).reshape(4, 4).T


def _nodes(source: Source, pxr: Any, found: Any, metres: float) -> list[Node]:
    """Return the frame of the skeleton, in metres, as the first node, and a node for each joint."""
    paths = [str(path) for path in found.GetJointsAttr().Get() or ()]
    if not paths:
        raise source.error("USD skeleton without joints", expected="joints", found="none")
    bound_count(source, len(paths), "joints")
    stated = found.GetJointNamesAttr().Get()
    names = list(stated) if stated and len(stated) == len(paths) else [path.rsplit("/", 1)[-1] for path in paths]
    names = source.unique([found.GetPrim().GetName(), *map(str, names)], "joint")
    world = _matrix(pxr.UsdGeom.XformCache().GetLocalToWorldTransform(found.GetPrim()))
    nodes = [Node(names[0], -1, metres * world[:3, 3], metres * world[:3, :3])]
    parents = list(pxr.UsdSkel.Topology(found.GetJointsAttr().Get()).GetParentIndices())
    for name, parent, local in zip(names[1:], parents, _rest(found, parents), strict=True):
        nodes.append(Node(name, parent + 1, local[:3, 3].copy(), local[:3, :3].copy()))
    place_nodes(source, nodes)
    return nodes


def _rest(found: Any, parents: list[int]) -> list[Floats]:
    """Return the joints' transforms in their parents' frames: as stated, or from the bind pose."""
    rest = found.GetRestTransformsAttr().Get()
    if rest and len(rest) == len(parents):
        return [_matrix(matrix) for matrix in rest]
    bind = [_matrix(matrix) for matrix in found.GetBindTransformsAttr().Get() or ()]
    if len(bind) != len(parents):
        return [np.eye(4)] * len(parents)
    return [np.linalg.inv(bind[p]) @ m if p >= 0 else m for m, p in zip(bind, parents, strict=True)]


def _takes(stage: Any, query: Any, nodes: list[Node], fps: float | None) -> list[NodeAnimation]:
    """Return the skeleton's animation, sampled at the stage's own rate."""
    animation = query.GetAnimQuery()
    samples = animation.GetJointTransformTimeSamples() if animation else []
    if len(samples) < 1:
        return []
    codes = stage.GetTimeCodesPerSecond() or DEFAULT_FPS
    rate = fps or codes
    frames = int(np.floor((samples[-1] - samples[0]) / codes * rate + 1e-3)) + 1
    count = len(nodes) - 1
    if not 0 < frames * 12 * count <= MOST_NUMBERS:
        raise ValueError(f"{frames} frames of {count} joints")
    positions, rotations = np.empty((frames, count, 3)), np.empty((frames, count, 3, 3))
    for t in range(frames):
        local = [_matrix(matrix) for matrix in query.ComputeJointLocalTransforms(samples[0] + t * codes / rate)]
        positions[t], rotations[t] = [m[:3, 3] for m in local], [m[:3, :3] for m in local]
    take = NodeAnimation(animation.GetPrim().GetName(), float(rate), frames)
    for i in range(count):
        above = nodes[nodes[i + 1].parent]
        take.positions[i + 1] = positions[:, i] @ above.stretch.T
        take.rotations[i + 1] = Rotation.from_matrix(rotations[:, i]).as_quat()
    return [take]


def _meshes(pxr: Any, stage: Any, found: Any, nodes: list[Node]) -> list[Mesh]:
    """Return the meshes that are skinned to the skeleton."""
    order = [str(path) for path in found.GetJointsAttr().Get()]
    bind = found.GetBindTransformsAttr().Get() or ()
    inverse = [np.linalg.inv(_matrix(matrix)) for matrix in bind]
    if len(inverse) != len(order):
        return []
    out = []
    for prim in stage.Traverse():
        if not prim.IsA(pxr.UsdGeom.Mesh):
            continue
        binding, mesh = pxr.UsdSkel.BindingAPI(prim), pxr.UsdGeom.Mesh(prim)
        indices, weights = binding.GetJointIndicesPrimvar(), binding.GetJointWeightsPrimvar()
        if not indices or not indices.HasValue() or binding.GetInheritedSkeleton().GetPath() != found.GetPath():
            continue
        vertices = np.array(mesh.GetPointsAttr().Get(), dtype=float).reshape(-1, 3)
        width = max(1, indices.GetElementSize())
        bones = np.array(indices.Get(), dtype=np.int32).reshape(-1, width)
        shares = np.array(weights.Get(), dtype=float).reshape(-1, width)
        if len(bones) == 1:  # rigid: one joint for all vertices
            bones, shares = np.repeat(bones, len(vertices), axis=0), np.repeat(shares, len(vertices), axis=0)
        own = [str(path) for path in binding.GetJointsAttr().Get() or order]
        geometry = _matrix(binding.GetGeomBindTransformAttr().Get() or np.eye(4))
        joints = [order.index(path) for path in own]
        matrices = []
        for joint in joints:
            stretch = np.eye(4)
            stretch[:3, :3] = nodes[joint + 1].stretch
            matrices.append(stretch @ inverse[joint] @ geometry)
        names = tuple(nodes[joint + 1].name for joint in joints)
        faces = _triangles(mesh)
        for values, count in ((faces, len(vertices)), (bones, len(names))):
            if values.size and not 0 <= values.min() <= values.max() < count:
                raise ValueError(f"mesh {prim.GetName()}: an index outside 0 to {count - 1}")
        if not bones.shape == shares.shape == (len(vertices), width):
            raise ValueError(f"mesh {prim.GetName()}: {len(vertices)} vertices, {len(bones)} with joints")
        out.append(Mesh(prim.GetName(), vertices, faces, None, names, np.array(matrices), bones, shares))
    return out


def _triangles(mesh: Any) -> NDArray[np.int32]:
    counts, corners = mesh.GetFaceVertexCountsAttr().Get() or (), mesh.GetFaceVertexIndicesAttr().Get() or ()
    out, first = [], 0
    for count in counts:
        out += [(corners[first], corners[first + k], corners[first + k + 1]) for k in range(1, count - 1)]
        first += count
    return np.array(out, dtype=np.int32).reshape(-1, 3)


# --- Writing ---


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return a stage with a skeleton, its animation and meshes, or its source stage with a new animation."""
    if not scene.has_skeleton:
        raise FormatError("USD holds a skeleton and its motion", expected="a Motion or a Skeleton", found="neither")
    pxr = _pxr()
    character = scene.skeleton.info.get("character")
    if isinstance(character, Stage) and set(character.nodes) <= set(scene.skeleton.names):
        stage = _reopened(pxr, character, scene.motion)
    else:
        stage = _new_stage(pxr, scene)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"stage{suffix}"
        try:
            written = stage.GetRootLayer().Export(str(place))
        except pxr.Tf.ErrorException as problem:  # such as a full temporary folder
            raise FormatError(f"usd-core cannot write the stage: {str(problem).split(chr(10))[-1].strip()}") from None
        if not written:
            raise FormatError("usd-core cannot write the stage")
        return {suffix: place.read_bytes()}


def _reopened(pxr: Any, character: Stage, motion: Motion | None) -> Any:
    """Return the stage of a character with a new animation."""
    layer = pxr.Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(character.text)
    stage = pxr.Usd.Stage.Open(layer)
    if motion is None or not len(motion):
        return stage
    skeleton = pxr.UsdSkel.Skeleton(stage.GetPrimAtPath(character.path))
    world = _matrix(pxr.UsdGeom.XformCache().GetLocalToWorldTransform(skeleton.GetPrim()))
    world[:3] *= pxr.UsdGeom.GetStageMetersPerUnit(stage)
    order = sorted(character.nodes, key=character.nodes.__getitem__)
    moved = relative_transforms(motion, character.nodes)
    rest = _rest(skeleton, list(pxr.UsdSkel.Topology(skeleton.GetJointsAttr().Get()).GetParentIndices()))
    size = float(np.cbrt(abs(np.linalg.det(world[:3, :3]))))  # metres per unit of the skeleton's own frame
    turn = Rotation.from_matrix(world[:3, :3] / size)
    parents = {joint.name: joint.parent for joint in motion.skeleton.joints}
    tracks = {}
    for name in order:
        if name not in moved:
            matrix = rest[character.nodes[name]]
            tracks[name] = (np.tile(matrix[:3, 3], (len(motion), 1)), _rotation(matrix, len(motion)))
            continue
        position, rotation = moved[name]
        if _top(parents, name, character.nodes):
            position, rotation = turn.inv().apply(position - world[:3, 3]), turn.inv() * rotation
        tracks[name] = (position / size, rotation)
    _animate(pxr, stage, skeleton, [tracks[name] for name in order], motion)
    return stage


def _top(parents: dict[str, str | None], name: str, known: dict[str, int]) -> bool:
    """Return whether a joint has no known ancestor."""
    above = parents[name]
    while above is not None and above not in known:
        above = parents[above]
    return above is None


def _rotation(matrix: Floats, count: int) -> Rotation:
    u, _, v = np.linalg.svd(matrix[:3, :3])
    return Rotation.from_matrix(np.tile(u @ v, (count, 1, 1)))


def _new_stage(pxr: Any, scene: Scene) -> Any:
    """Return a new stage: metres, the figure's up axis."""
    figure = scene.skeleton
    assert figure is not None  # checked by the caller
    stage = pxr.Usd.Stage.CreateInMemory()
    pxr.UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    pxr.UsdGeom.SetStageUpAxis(stage, pxr.UsdGeom.Tokens.z if figure.up == "z" else pxr.UsdGeom.Tokens.y)
    root = pxr.UsdSkel.Root.Define(stage, "/figure")
    stage.SetDefaultPrim(root.GetPrim())
    skeleton = pxr.UsdSkel.Skeleton.Define(stage, "/figure/skeleton")
    paths: dict[str | None, str] = {None: ""}
    for joint in figure.joints:
        own = pxr.Tf.MakeValidIdentifier(joint.name)
        paths[joint.name] = f"{paths[joint.parent]}/{own}" if joint.parent is not None else own
    names = [joint.name for joint in figure.joints]
    local, world = (kind(figure, figure.rest[None]) for kind in (local_transforms, world_transforms))
    skeleton.GetJointsAttr().Set([paths[name] for name in names])
    skeleton.GetJointNamesAttr().Set(names)
    skeleton.GetRestTransformsAttr().Set([_gf(pxr, *local[name]) for name in names])
    bind = {name: _gf(pxr, *world[name]) for name in names}
    for mesh in scene.meshes or (bone_mesh(figure),):
        _add_mesh(pxr, stage, skeleton, mesh, names, bind)
    skeleton.GetBindTransformsAttr().Set([bind[name] for name in names])
    if scene.motion is not None and len(scene.motion):
        moved = local_transforms(figure, scene.motion.poses)
        _animate(pxr, stage, skeleton, [moved[name] for name in names], scene.motion)
    return stage


def _gf(pxr: Any, position: Floats, rotation: Rotation) -> Any:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation.as_matrix()[0], position[0]
    return pxr.Gf.Matrix4d(*matrix.T.ravel().tolist())


def _add_mesh(pxr: Any, stage: Any, skeleton: Any, mesh: Mesh, names: list[str], bind: dict[str, Any]) -> None:
    """Add a mesh, skinned, or rigidly attached to its joint."""
    if not len(mesh.vertices) or not len(mesh.faces):
        return
    path, number = f"/figure/{pxr.Tf.MakeValidIdentifier(mesh.name or 'mesh')}", 2
    while stage.GetPrimAtPath(path):
        path, number = f"{path}_{number}", number + 1
    prim = pxr.UsdGeom.Mesh.Define(stage, path)
    prim.GetSubdivisionSchemeAttr().Set("none")
    prim.GetPointsAttr().Set(pxr.Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(mesh.vertices, dtype=np.float32)))
    prim.GetFaceVertexCountsAttr().Set([3] * len(mesh.faces))
    prim.GetFaceVertexIndicesAttr().Set(mesh.faces.ravel().tolist())
    binding = pxr.UsdSkel.BindingAPI.Apply(prim.GetPrim())
    binding.CreateSkeletonRel().SetTargets([skeleton.GetPath()])
    if mesh.joints and mesh.bones is not None and mesh.weights is not None and mesh.inverse_bind is not None:
        for name, inverse in zip(mesh.joints, mesh.inverse_bind, strict=True):
            bind[name] = pxr.Gf.Matrix4d(*np.linalg.inv(inverse).T.ravel().tolist())
        bones, weights = np.array([names.index(name) for name in mesh.joints])[mesh.bones], mesh.weights
    else:
        joint = mesh.joint if mesh.joint in names else names[0]
        inverse = np.array(bind[joint], dtype=float).reshape(4, 4)
        binding.CreateGeomBindTransformAttr().Set(pxr.Gf.Matrix4d(*inverse.ravel().tolist()))
        bones = np.full((len(mesh.vertices), 1), names.index(joint))
        weights = np.ones((len(mesh.vertices), 1))
    width = bones.shape[1]
    binding.CreateJointIndicesPrimvar(False, width).Set(bones.astype(int).ravel().tolist())
    binding.CreateJointWeightsPrimvar(False, width).Set(np.asarray(weights, dtype=float).ravel().tolist())


def _animate(pxr: Any, stage: Any, skeleton: Any, tracks: list[tuple[Floats, Rotation]], motion: Motion) -> None:
    """Give a skeleton a new animation: positions (T, 3) and rotations of every joint, in UsdSkel's order."""
    name, number = pxr.Tf.MakeValidIdentifier(motion.name or "motion"), 2
    path = skeleton.GetPath().AppendChild(name)
    while stage.GetPrimAtPath(path):
        path, number = skeleton.GetPath().AppendChild(f"{name}_{number}"), number + 1
    animation = pxr.UsdSkel.Animation.Define(stage, path)
    animation.GetJointsAttr().Set(skeleton.GetJointsAttr().Get())
    stage.SetTimeCodesPerSecond(motion.fps)
    stage.SetFramesPerSecond(motion.fps)
    stage.SetStartTimeCode(0.0)
    stage.SetEndTimeCode(float(len(motion) - 1))
    positions = np.stack([position for position, _ in tracks], axis=1).astype(np.float32)
    quaternions = np.stack([rotation.as_quat() for _, rotation in tracks], axis=1)
    animation.GetScalesAttr().Set(pxr.Vt.Vec3hArray([pxr.Gf.Vec3h(1, 1, 1)] * len(tracks)))
    for t in range(len(motion)):
        animation.GetTranslationsAttr().Set(pxr.Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(positions[t])), float(t))
        turns = [pxr.Gf.Quatf(float(w), float(x), float(y), float(z)) for x, y, z, w in quaternions[t].tolist()]
        animation.GetRotationsAttr().Set(pxr.Vt.QuatfArray(turns), float(t))
    binding = pxr.UsdSkel.BindingAPI.Apply(skeleton.GetPrim())
    binding.CreateAnimationSourceRel().SetTargets([path])


FORMAT = Format(
    "USD", (".usd", ".usda", ".usdc"), "a skeleton, its motion, meshes",
    "the stage's unit and up axis; written in metres; needs usd-core", sniff, read, write,
)  # fmt: skip
