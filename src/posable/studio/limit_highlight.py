"""Limbs that stand at a limit, tinted softly: a rigid one takes some of the colour, over a skin lies a thin shell."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from posable.studio.appearance import Skin
from posable.studio.figure_nodes import Drawn, add_skin
from posable.studio.raster import vertex_normals

OWN = 0.5  # of a vertex's weight: what a bone needs to count it as its own
FELT = 0.02  # of a vertex's weight: bones with less are left out of a shell
LIFT = 0.0015  # of the figure's size: how far over the skin the shell lies
MOST = 6  # limbs over which shells are laid at once
TINT = 0.34  # how much of the colour a limb takes
Color = tuple[int, int, int]


class LimitHighlight:
    """The colours of the limbs of a figure; a shell is made when a joint first meets a limit, and kept."""

    def __init__(self, scene: viser.SceneApi, drawn: Drawn, size: float):
        self.scene, self.drawn, self.size = scene, drawn, size
        self.rigid: list[tuple[Any, str, Color]] = [(node, joint, node.color) for node, joint in drawn.rigid]
        self.colors: dict[str, Color] = {}

    def show(self, frames: Any, colors: dict[str, Color]) -> None:
        """Tint the limbs of the joints named, and no others."""
        shells = self.drawn.shells
        if colors != self.colors:
            for node, joint, own in self.rigid:
                if colors.get(joint) != self.colors.get(joint):
                    node.color = mixed(own, colors[joint]) if joint in colors else own
            for joint in list(colors)[:MOST]:
                if joint not in shells and self.drawn.covers:
                    shells[joint] = self._shell(joint)
            for joint, shell in shells.items():
                shell.visible(joint in colors)
                if joint in colors:
                    shell.paint(colors[joint])
            self.colors = dict(colors)
        for joint in colors:
            if joint in shells:
                shells[joint].show(frames)

    def _shell(self, joint: str) -> Drawn:
        out = Drawn()
        for k, skin in enumerate(self.drawn.covers):
            piece = piece_of(skin, joint, LIFT * self.size)
            if piece is not None:
                style = {"opacity": TINT, "cast_shadow": False, "receive_shadow": False}
                add_skin(out, self.scene, f"{self.drawn.root.name}/limit{len(self.drawn.shells)}.{k}", piece, **style)
        return out


def mixed(own: Color, color: Color) -> Color:
    """Return a colour with some of another."""
    r, g, b = (round((1.0 - TINT) * a + TINT * c) for a, c in zip(own, color, strict=True))
    return r, g, b


def piece_of(skin: Skin, joint: str, lift: float) -> Skin | None:
    """Return what of a skin moves with a joint, `lift` [m] over it and hung on it; None where nothing does."""
    if joint not in skin.bones:
        return None
    own = skin.weights[:, skin.bones.index(joint)] >= OWN
    faces = skin.faces[own[skin.faces].all(axis=1)]
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
