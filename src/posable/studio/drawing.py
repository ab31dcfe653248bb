"""How a figure is drawn: a human with clothes, a skinned character, a robot's meshes, or bones."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

import posable as ps

from .body import bind_pose, body_of, has_body
from .shapes import Shape, bone, capsule, places, quaternions, sphere, towards

BONE, JOINT, ROBOT, SKIN = (206, 212, 222), (120, 133, 153), (214, 218, 224), (196, 190, 184)


class Drawn:
    """Nodes of the scene that move with the frames of a figure: skinned surfaces and rigid ones."""

    def __init__(self) -> None:
        self.skins: list[tuple[Any, tuple[str, ...]]] = []
        self.rigid: list[tuple[Any, str]] = []

    def show(self, frames: Any) -> None:
        """Move everything to where the frames are."""
        names = tuple(
            dict.fromkeys([*(name for _, bones in self.skins for name in bones), *(name for _, name in self.rigid)])
        )
        if not names:
            return
        positions, turns = places(frames, names)
        where = {name: k for k, name in enumerate(names)}
        for mesh, bones in self.skins:
            for handle, name in zip(mesh.bones, bones, strict=True):
                handle.position, handle.wxyz = positions[where[name]], turns[where[name]]
        for node, name in self.rigid:
            node.position, node.wxyz = positions[where[name]], turns[where[name]]

    def visible(self, yes: bool) -> None:
        """Show or hide everything."""
        for node, _ in (*self.skins, *self.rigid):
            node.visible = yes


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
        positions, turns = places(bind, skin.bones)
        mesh = scene.add_mesh_skinned(
            f"{root}/{skin.name}", skin.vertices, skin.faces, bone_wxyzs=turns, bone_positions=positions,
            skin_weights=skin.weights, color=tint or skin.color, **style,
        )  # fmt: skip
        out.skins.append((mesh, skin.bones))


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
    out.skins.append((node, tuple(mesh.joints)))


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


__all__ = ["Drawn", "capsule", "draw", "extent"]
