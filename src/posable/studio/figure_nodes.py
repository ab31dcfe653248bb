"""A figure as viser nodes: skins on bones, rigid meshes, and the highlight of limbs at a joint limit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import viser

import posable as ps
from posable.studio.appearance import Appearance, Skin
from posable.studio.meshes import quaternions, vertex_normals
from posable.studio.viser_adapter import NodeUpdater

GROUND, LINES = (222, 227, 234), (196, 204, 216)


def add_ground(scene: viser.SceneApi, skeleton: ps.Skeleton, size: float, **style: Any) -> None:
    """Set the up axis of a scene and add the floor for a figure of some size [m]."""
    up = "xyz"[skeleton.up_axis]
    scene.set_up_direction(f"+{up}")  # type: ignore[arg-type]  # "+y" and such
    cell = 10.0 ** np.round(np.log10(size)) / 4.0
    scene.add_grid(
        "/ground", plane="xz" if up == "y" else "xy", infinite_grid=True, cell_size=cell, section_size=4 * cell,
        cell_color=GROUND, section_color=LINES, fade_distance=9.0 * size, **style,
    )  # fmt: skip


class FigureNodes:
    """Nodes of the scene that move with the frames of a figure: skinned surfaces and rigid ones.

    A skin is attached to its anchor, one of its bones, and its other bones move relative to it: a hand whose fingers do
    not move takes two messages instead of eighteen. A rigid node may be a child of a skin's node and then needs none.
    """

    def __init__(self) -> None:
        self.skins: list[tuple[Any, tuple[str, ...], str | None]] = []
        self.rigid: list[tuple[Any, str]] = []
        self.covers: list[Skin] = []
        self.shells: dict[str, FigureNodes] = {}  # over the limbs of joints that have been at a limit
        self.root: Any = None  # parent of all nodes
        self.mover = NodeUpdater()
        self._plan: NodePlan | None = None

    def show(self, frames: Any) -> None:
        """Move all nodes to the frames."""
        if self._plan is None:
            self._plan = node_plan(self.skins, self.rigid)
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
        """Show or hide all nodes."""
        for node, *_ in (*self.skins, *self.rigid):
            if node.visible != yes:
                node.visible = yes

    def paint(self, color: tuple[int, int, int]) -> None:
        """Set the colour of all nodes."""
        for node, *_ in (*self.skins, *self.rigid):
            node.color = color

    def remove(self) -> None:
        """Remove all nodes from the scene."""
        if self.root is not None:
            self.root.remove()
        self.skins, self.rigid, self.covers, self.shells, self._plan = [], [], [], {}, None


class NodePlan(NamedTuple):
    """Which frame each node follows (rows of `names`), and for the nodes `local`, relative to which (`base`)."""

    nodes: list[Any]
    names: tuple[str, ...]
    rows: np.ndarray
    local: np.ndarray
    base: np.ndarray


def node_plan(skins: list[tuple[Any, tuple[str, ...], str | None]], rigid: list[tuple[Any, str]]) -> NodePlan:
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
    return NodePlan(
        [node for node, _, _ in follows], names, np.array([where[name] for _, name, _ in follows], dtype=int), local,
        np.array([where[follows[k][2] or ""] for k in local], dtype=int),
    )  # fmt: skip


def draw(
    scene: viser.SceneApi, root: str, look: Appearance, *,
    tint: tuple[int, int, int] | None = None, opacity: float | None = None,
) -> FigureNodes:  # fmt: skip
    """Add a figure below the node `root`; `tint` and `opacity` make it a ghost."""
    out = FigureNodes()
    out.root = scene.add_frame(root, show_axes=False)
    style = {"opacity": opacity, "cast_shadow": opacity is None, "receive_shadow": not opacity}
    heads: dict[str, str] = {}  # first skin of each anchor; skins without other bones are its children
    for skin in look.skins:
        out.covers.append(skin)
        own = {**style, "color": tint or skin.color, "side": "double" if skin.double else "front"}
        if skin.anchor is not None and skin.bones == (skin.anchor,) and skin.anchor in heads:
            vertices = (skin.vertices - skin.positions[0]) @ skin.turns[0]
            scene.add_mesh_simple(f"{heads[skin.anchor]}/{skin.name}", vertices, skin.faces, **own)
            continue
        if skin.anchor is not None:
            heads[skin.anchor] = f"{root}/{skin.name}"
        add_skin(out, scene, f"{root}/{skin.name}", skin, **own)
    for part in look.rigid:
        node = scene.add_mesh_simple(
            f"{root}/{part.name}", part.vertices, part.faces, color=tint or part.color, flat_shading=part.flat,
            side="double" if part.flat else "front", **style,
        )  # fmt: skip
        out.rigid.append((node, part.body))
    return out


def add_skin(out: FigureNodes, scene: viser.SceneApi, name: str, skin: Skin, **style: Any) -> None:
    """Add a skin to the figure, attached to its anchor if it has one."""
    vertices, positions, turns = skin.vertices, skin.positions, skin.turns
    if skin.anchor is not None:
        k = skin.bones.index(skin.anchor)
        middle, frame = positions[k], turns[k]
        vertices, positions, turns = (vertices - middle) @ frame, (positions - middle) @ frame, frame.T @ turns
    mesh = scene.add_mesh_skinned(
        name, vertices, skin.faces, bone_wxyzs=quaternions(turns), bone_positions=positions,
        skin_weights=skin.weights, **style,
    )  # fmt: skip
    out.skins.append((mesh, skin.bones, skin.anchor))


FELT = 0.02  # bones with a smaller weight are left out of a shell
LIFT = 0.0015  # relative to the figure: offset of a shell from the skin
MOST = 6  # largest number of shells that are shown
TINT = 0.45  # opacity of the tint
Color = tuple[int, int, int]


class LimitHighlight:
    """Tints the limbs of joints at a limit; a shell is created when a joint first meets a limit, and kept."""

    def __init__(self, scene: viser.SceneApi, drawn: FigureNodes, size: float):
        self.scene, self.drawn, self.size = scene, drawn, size
        self.rigid: list[tuple[Any, str, Color]] = [(node, joint, node.color) for node, joint in drawn.rigid]
        self.colors: dict[str, Color] = {}

    def show(self, frames: Any, colors: dict[str, Color]) -> None:
        """Tint the limbs of the given joints, and no others."""
        shells = self.drawn.shells
        if colors != self.colors:
            for node, joint, own in self.rigid:
                if colors.get(joint) != self.colors.get(joint):
                    node.color = blend_color(own, colors[joint]) if joint in colors else own
            shown = list(colors)[:MOST]  # whatever was shown before, so that a pose always looks the same
            for joint in shown:
                if joint not in shells and self.drawn.covers:
                    shells[joint] = self._shell(joint)
            for joint, shell in shells.items():
                shell.visible(joint in shown)
                if joint in shown:
                    shell.paint(colors[joint])
            self.colors = dict(colors)
        for joint in list(colors)[:MOST]:
            if joint in shells:
                shells[joint].show(frames)

    def _shell(self, joint: str) -> FigureNodes:
        out = FigureNodes()
        for k, skin in enumerate(self.drawn.covers):
            piece = skin_patch(skin, joint, LIFT * self.size)
            if piece is not None:
                style = {"opacity": TINT, "cast_shadow": False, "receive_shadow": False}
                add_skin(out, self.scene, f"{self.drawn.root.name}/limit{len(self.drawn.shells)}.{k}", piece, **style)
        return out


def blend_color(own: Color, color: Color) -> Color:
    """Return a colour mixed with the tint."""
    r, g, b = (round((1.0 - TINT) * a + TINT * c) for a, c in zip(own, color, strict=True))
    return r, g, b


def skin_patch(skin: Skin, joint: str, lift: float) -> Skin | None:
    """Return the part of a skin that moves with a joint, offset by `lift` [m]; None if there is none."""
    if joint not in skin.bones:
        return None
    owner = skin.weights[skin.faces].sum(axis=1).argmax(axis=1)  # every face has one, so that patches join
    faces = skin.faces[owner == skin.bones.index(joint)]
    if not len(faces):
        return None
    used, where = np.unique(faces, return_inverse=True)
    vertices = (skin.vertices + lift * vertex_normals(skin.vertices, skin.faces))[used]
    felt = np.flatnonzero(skin.weights[used].max(axis=0) > FELT)
    weights = skin.weights[used][:, felt]
    weights = weights / weights.sum(axis=1, keepdims=True)
    return skin._replace(
        vertices=vertices, faces=where.reshape(faces.shape), bones=tuple(skin.bones[k] for k in felt), weights=weights,
        positions=skin.positions[felt], turns=skin.turns[felt], anchor=joint,
    )  # fmt: skip
