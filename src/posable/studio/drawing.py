"""How a figure is drawn: a human with clothes, a skinned character, a robot's meshes, or bones."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

import posable as ps

from .body import bind_pose, body_of, has_body
from .shapes import Shape, bone, quaternions, sphere, towards, transforms

STILL = 2e-5  # [m] and of a quaternion: nobody sees less
BONE, JOINT, ROBOT, SKIN = (206, 212, 222), (120, 133, 153), (214, 218, 224), (196, 190, 184)


class Mover:
    """Moves nodes of the scene, and only those that have moved: a node that stays costs a comparison, not a message."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.positions, self.turns = np.zeros((0, 3)), np.zeros((0, 4))

    def move(self, nodes: list[Any], positions: np.ndarray, turns: np.ndarray) -> None:
        """Bring nodes to positions (B, 3) [m] and quaternions (B, 4), w first."""
        if len(nodes) != len(self.nodes) or any(a is not b for a, b in zip(nodes, self.nodes, strict=True)):
            self.nodes = list(nodes)
            self.positions, self.turns = np.full(positions.shape, np.inf), np.full(turns.shape, np.inf)
        far = np.abs(positions - self.positions).max(axis=1, initial=0.0) > STILL
        turned = np.abs(turns - self.turns).max(axis=1, initial=0.0) > STILL
        for k in np.flatnonzero(far):
            nodes[k].position = positions[k]
        for k in np.flatnonzero(turned):
            nodes[k].wxyz = turns[k]
        self.positions[far], self.turns[turned] = positions[far], turns[turned]


class Drawn:
    """Nodes of the scene that move with the frames of a figure: skinned surfaces and rigid ones.

    A skin hangs on its anchor, one of its bones, and its other bones move against that one: so a hand whose fingers are
    still is two messages, not eighteen.
    """

    def __init__(self) -> None:
        self.skins: list[tuple[Any, tuple[str, ...], str | None]] = []
        self.rigid: list[tuple[Any, str]] = []
        self.mover = Mover()

    def show(self, frames: Any) -> None:
        """Move everything to where the frames are."""
        nodes: list[Any] = []
        of: list[str] = []
        against: list[str | None] = []
        for mesh, bones, anchor in self.skins:
            if anchor is not None:
                nodes.append(mesh)
                of.append(anchor)
                against.append(None)
            nodes += mesh.bones
            of += bones
            against += [anchor] * len(bones)
        for node, name in self.rigid:
            nodes.append(node)
            of.append(name)
            against.append(None)
        if not nodes:
            return
        names = tuple(dict.fromkeys(of))
        where = {name: k for k, name in enumerate(names)}
        positions, turns = transforms(frames, names)
        rows = np.array([where[name] for name in of])
        base = np.array([-1 if name is None else where[name] for name in against])
        place, turn = positions[rows], turns[rows]
        local = base >= 0
        back = np.swapaxes(turns[base[local]], 1, 2)
        place[local] = (back @ (place[local] - positions[base[local]])[..., None])[..., 0]
        turn[local] = back @ turn[local]
        self.mover.move(nodes, place, quaternions(turn))

    def visible(self, yes: bool) -> None:
        """Show or hide everything."""
        for node, *_ in (*self.skins, *self.rigid):
            node.visible = yes

    def retire(self) -> None:
        """Take everything away. Skins are only hidden: removing one ends the page of viser 1.1 with an error."""
        self.visible(False)
        for node, _ in self.rigid:
            node.remove()
        self.rigid = []


def draw(
    scene: viser.SceneApi, root: str, skeleton: ps.Skeleton, source: ps.Scene | None, *,
    detail: float = 1.0, tint: tuple[int, int, int] | None = None, opacity: float | None = None,
) -> Drawn:  # fmt: skip
    """Add a figure below the node `root`; `tint` and `opacity` make a ghost of it."""
    out = Drawn()
    style = {"opacity": opacity, "cast_shadow": opacity is None, "receive_shadow": not opacity}
    meshes = source.meshes if source is not None else ()
    if has_body(skeleton):
        _dressed(out, scene, root, skeleton, detail, tint, style)
    elif any(mesh.joints for mesh in meshes):
        for k, mesh in enumerate(meshes):
            _character(out, scene, f"{root}/skin{k}", mesh, tint or SKIN, style)
    elif any(mesh.joint for mesh in meshes):
        for k, mesh in enumerate(meshes):
            if mesh.joint is not None:
                node = scene.add_mesh_simple(
                    f"{root}/mesh{k}", mesh.vertices, mesh.faces, color=tint or ROBOT, flat_shading=True, **style
                )
                out.rigid.append((node, mesh.joint))
    else:
        _bones(out, scene, root, skeleton, tint, style)
    return out


def _dressed(
    out: Drawn, scene: viser.SceneApi, root: str, skeleton: ps.Skeleton, detail: float, tint: Any, style: dict
) -> None:
    bind = ps.forward(skeleton, bind_pose(skeleton))
    for skin in body_of(skeleton, detail=detail):
        positions, turns = transforms(bind, skin.bones)
        vertices = skin.vertices
        if skin.anchor is not None:
            middle, frame = bind.position(skin.anchor), bind.rotation_matrix(skin.anchor)
            vertices, positions, turns = (vertices - middle) @ frame, (positions - middle) @ frame, frame.T @ turns
        mesh = scene.add_mesh_skinned(
            f"{root}/{skin.name}", vertices, skin.faces, bone_wxyzs=quaternions(turns), bone_positions=positions,
            skin_weights=skin.weights, color=tint or skin.color, **style,
        )  # fmt: skip
        out.skins.append((mesh, skin.bones, skin.anchor))


def _character(out: Drawn, scene: viser.SceneApi, name: str, mesh: Any, color: Any, style: dict) -> None:
    """Add a skin as glTF has it: its bind frames are the inverses of its matrices, taken out of their scale."""
    if not mesh.joints:
        return
    bind = np.linalg.inv(mesh.inverse_bind)
    scale = float(np.cbrt(np.abs(np.linalg.det(bind[:, :3, :3])).mean()))
    turns = bind[:, :3, :3] / np.cbrt(np.abs(np.linalg.det(bind[:, :3, :3])))[:, None, None]
    weights = np.zeros((len(mesh.vertices), len(mesh.joints)))
    for k in range(mesh.bones.shape[1]):
        np.add.at(weights, (np.arange(len(weights)), mesh.bones[:, k]), mesh.weights[:, k])
    node = scene.add_mesh_skinned(
        name, mesh.vertices / scale, mesh.faces, bone_wxyzs=quaternions(turns), bone_positions=bind[:, :3, 3] / scale,
        skin_weights=weights, color=color, side="double", **style,
    )  # fmt: skip
    out.skins.append((node, tuple(mesh.joints), None))


def extent(skeleton: ps.Skeleton) -> float:
    """Return about how large a figure is [m]: the longest way from the root to an end."""
    far = dict.fromkeys(skeleton.names, 0.0)
    for joint in skeleton.joints:
        if joint.parent is not None:
            far[joint.name] = far[joint.parent] + float(np.linalg.norm(joint.offset))
    ends = [far[site.joint] + float(np.linalg.norm(site.offset)) for site in skeleton.sites]
    return max([*far.values(), *ends, 1e-3])


def _bones(out: Drawn, scene: viser.SceneApi, root: str, skeleton: ps.Skeleton, tint: Any, style: dict) -> None:
    """Add a bone from every joint to each of its children and ends, and a ball at every joint."""
    size = extent(skeleton)
    links = [
        (joint.parent, np.asarray(joint.offset, dtype=float)) for joint in skeleton.joints if joint.parent is not None
    ]
    links += [(site.joint, np.asarray(site.offset, dtype=float)) for site in _ends(skeleton)]
    parts: dict[str, list[Shape]] = {name: [sphere(0.014 * size)] for name in skeleton.names}
    for joint, offset in links:
        length = float(np.linalg.norm(offset))
        if length > 0.02 * size:
            vertices, faces = bone(length, float(np.clip(0.11 * length, 0.010 * size, 0.032 * size)))
            parts[joint].append((vertices @ towards(offset).T, faces))
    for k, (name, shapes) in enumerate(parts.items()):
        vertices, faces = merged(shapes)
        node = scene.add_mesh_simple(f"{root}/bone{k}", vertices, faces, color=tint or BONE, **style)
        out.rigid.append((node, name))


def _ends(skeleton: ps.Skeleton) -> list[ps.Site]:
    """Return the farthest site of every joint that has no children: where its bone ends."""
    parents = {joint.parent for joint in skeleton.joints}
    out = []
    for joint in skeleton.joints:
        sites = [site for site in skeleton.sites if site.joint == joint.name]
        if joint.name not in parents and sites:
            out.append(max(sites, key=lambda site: float(np.linalg.norm(site.offset))))
    return out


def merged(shapes: list[Shape]) -> Shape:
    """Return several shapes as one."""
    offsets = np.cumsum([0, *(len(vertices) for vertices, _ in shapes)])
    return np.concatenate([v for v, _ in shapes]), np.concatenate(
        [f + o for (_, f), o in zip(shapes, offsets, strict=False)]
    )
