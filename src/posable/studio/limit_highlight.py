"""Limbs that stand at a limit, coloured: a rigid one takes the colour, over a skin a thin shell of it is laid."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from posable.studio.figure_nodes import Cover, Drawn, add_skin

OWN = 0.5  # of a vertex's weight: what a bone needs to count it as its own
FELT = 0.02  # of a vertex's weight: bones with less are left out of a shell
LIFT = 0.0015  # of the figure's size: how far over the skin the shell lies
MOST = 10  # limbs over which shells are laid at once
Color = tuple[int, int, int]


class Glow:
    """The colours of the limbs of a figure; a shell is made when a joint first meets a limit, and kept."""

    def __init__(self, scene: viser.SceneApi, root: str, drawn: Drawn, size: float):
        self.scene, self.root, self.drawn, self.size = scene, root, drawn, size
        self.rigid = [(node, joint, node.color) for node, joint in drawn.rigid]
        self.colors: dict[str, Color] = {}

    def show(self, frames: Any, colors: dict[str, Color]) -> None:
        """Colour the limbs of the joints named, and no others."""
        shells = self.drawn.shells
        if colors != self.colors:
            for node, joint, own in self.rigid:
                if colors.get(joint) != self.colors.get(joint):
                    node.color = colors.get(joint, own)
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
        for k, cover in enumerate(self.drawn.covers):
            piece = piece_of(cover, joint, LIFT * self.size)
            if piece is not None:
                style = {"opacity": 0.72, "cast_shadow": False, "receive_shadow": False}
                add_skin(out, self.scene, f"{self.root}/{joint}.{k}", piece, joint, **style)
        return out

    def remove(self) -> None:
        """Take the colours off."""
        for shell in self.drawn.shells.values():
            shell.visible(False)


def piece_of(cover: Cover, joint: str, lift: float) -> Cover | None:
    """Return what of a skin moves with a joint, `lift` [m] over it; None where nothing does."""
    if joint not in cover.bones:
        return None
    own = cover.weights[:, cover.bones.index(joint)] >= OWN
    faces = cover.faces[own[cover.faces].all(axis=1)]
    if not len(faces):
        return None
    used, where = np.unique(faces, return_inverse=True)
    vertices = (cover.vertices + lift * normals_of(cover.vertices, cover.faces))[used]
    felt = np.flatnonzero(cover.weights[used].max(axis=0) > FELT)
    weights = cover.weights[used][:, felt]
    bones = tuple(cover.bones[k] for k in felt)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return Cover(vertices, where.reshape(faces.shape), bones, weights, cover.positions[felt], cover.turns[felt])


def normals_of(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the outward direction (V, 3) at every vertex."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    out = np.zeros((len(vertices), 3))
    for k in range(3):
        np.add.at(out, faces[:, k], normal)
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
