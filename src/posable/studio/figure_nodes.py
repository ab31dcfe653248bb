"""How a figure is drawn: a human with clothes, a skinned character, a robot's meshes, or bones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import viser

import posable as ps
from posable.studio.body import bind_pose, body_of, has_body
from posable.studio.meshes import Shape, bone, quaternions, sphere, towards
from posable.studio.scene_sync import Mover

BONE, JOINT, ROBOT, SKIN = (206, 212, 222), (120, 133, 153), (214, 218, 224), (196, 190, 184)


class Cover(NamedTuple):
    """A skin where it was bound: vertices (V, 3) [m], faces (F, 3), weights (V, B) of bones at (B, 3), (B, 3, 3)."""

    vertices: np.ndarray
    faces: np.ndarray
    bones: tuple[str, ...]
    weights: np.ndarray
    positions: np.ndarray
    turns: np.ndarray


class Drawn:
    """Nodes of the scene that move with the frames of a figure: skinned surfaces and rigid ones.

    A skin hangs on its anchor, one of its bones, and its other bones move against that one: so a hand whose fingers are
    still is two messages, not eighteen. A rigid node may hang on a skin's node, and then need not be moved at all.
    """

    def __init__(self) -> None:
        self.skins: list[tuple[Any, tuple[str, ...], str | None]] = []
        self.rigid: list[tuple[Any, str]] = []
        self.covers: list[Cover] = []
        self.shells: dict[str, Drawn] = {}  # over the limbs of joints that have met a limit
        self.mover = Mover()
        self._plan: Plan | None = None

    def show(self, frames: Any) -> None:
        """Move everything to where the frames are."""
        if self._plan is None:
            self._plan = plan_of(self.skins, self.rigid)
        plan = self._plan
        if not plan.nodes:
            return
        positions, turns = frames.many(plan.names)
        place, turn = positions[plan.rows], turns[plan.rows]
        back = np.swapaxes(turns[plan.base], 1, 2)
        place[plan.local] = (back @ (place[plan.local] - positions[plan.base])[..., None])[..., 0]
        turn[plan.local] = back @ turn[plan.local]
        self.mover.move(plan.nodes, place, quaternions(turn))

    def visible(self, yes: bool) -> None:
        """Show or hide everything."""
        for node, *_ in (*self.skins, *self.rigid):
            node.visible = yes

    def paint(self, color: tuple[int, int, int]) -> None:
        """Give everything one colour."""
        for node, *_ in (*self.skins, *self.rigid):
            node.color = color

    def retire(self) -> None:
        """Take everything away. Skins are only hidden: removing one ends the page of viser 1.1 with an error."""
        self.visible(False)
        for node, _ in self.rigid:
            node.remove()
        self.rigid, self._plan = [], None


class Plan(NamedTuple):
    """Which frame each node follows (rows of `names`), and for the nodes `local`, against which (`base`)."""

    nodes: list[Any]
    names: tuple[str, ...]
    rows: np.ndarray
    local: np.ndarray
    base: np.ndarray


def plan_of(skins: list[tuple[Any, tuple[str, ...], str | None]], rigid: list[tuple[Any, str]]) -> Plan:
    """Return how the nodes of a figure follow its frames."""
    follows: list[tuple[Any, str, str | None]] = []
    for mesh, bones, anchor in skins:
        if anchor is not None:
            follows.append((mesh, anchor, None))
        follows += [(node, name, anchor) for node, name in zip(mesh.bones, bones, strict=True) if name != anchor]
    follows += [(node, name, None) for node, name in rigid]
    names = tuple(dict.fromkeys(name for _, *pair in follows for name in pair if name is not None))
    where = {name: k for k, name in enumerate(names)}
    local = np.array([k for k, (_, _, anchor) in enumerate(follows) if anchor is not None], dtype=int)
    return Plan(
        [node for node, _, _ in follows], names, np.array([where[name] for _, name, _ in follows], dtype=int), local,
        np.array([where[follows[k][2] or ""] for k in local], dtype=int),
    )  # fmt: skip


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
    heads: dict[str, str] = {}  # the first skin on each anchor: what has no other bone hangs on it and moves with it
    for skin in body_of(skeleton, detail=detail):
        cover = Cover(skin.vertices, skin.faces, skin.bones, skin.weights, *bind.many(skin.bones))
        out.covers.append(cover)
        look = {**style, "color": tint or skin.color}
        if skin.anchor is not None and skin.bones == (skin.anchor,) and skin.anchor in heads:
            vertices = (skin.vertices - cover.positions[0]) @ cover.turns[0]
            scene.add_mesh_simple(f"{heads[skin.anchor]}/{skin.name}", vertices, skin.faces, **look)
            continue
        if skin.anchor is not None:
            heads[skin.anchor] = f"{root}/{skin.name}"
        add_skin(out, scene, f"{root}/{skin.name}", cover, skin.anchor, **look)


def add_skin(out: Drawn, scene: viser.SceneApi, name: str, cover: Cover, anchor: str | None, **style: Any) -> None:
    """Add a skin to what is drawn, hung on its anchor where it has one."""
    vertices, positions, turns = cover.vertices, cover.positions, cover.turns
    if anchor is not None:
        middle, frame = positions[cover.bones.index(anchor)], turns[cover.bones.index(anchor)]
        vertices, positions, turns = (vertices - middle) @ frame, (positions - middle) @ frame, frame.T @ turns
    mesh = scene.add_mesh_skinned(
        name, vertices, cover.faces, bone_wxyzs=quaternions(turns), bone_positions=positions,
        skin_weights=cover.weights, **style,
    )  # fmt: skip
    out.skins.append((mesh, cover.bones, anchor))


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
    cover = Cover(mesh.vertices / scale, mesh.faces, tuple(mesh.joints), weights, bind[:, :3, 3] / scale, turns)
    out.covers.append(cover)
    add_skin(out, scene, name, cover, None, color=color, side="double", **style)


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
