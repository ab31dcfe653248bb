"""Limbs that stand at a limit, coloured: a rigid one takes the colour, over a skin a thin shell of it is laid."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import viser

from .mover import Mover
from .shapes import Shape, quaternions

OWN = 0.5  # of a vertex's weight: what a bone needs to count it as its own
LIFT = 0.0025  # of the figure's size: how far over the skin the shell lies
Color = tuple[int, int, int]
Rigid = list[tuple[Any, str]]  # nodes and the joints that they move with


class Cover(NamedTuple):
    """A skin where it was bound: vertices (V, 3) [m], faces (F, 3), weights (V, B) of bones at (B, 3), (B, 3, 3)."""

    vertices: np.ndarray
    faces: np.ndarray
    bones: tuple[str, ...]
    weights: np.ndarray
    positions: np.ndarray
    turns: np.ndarray


class Glow:
    """The colours of the limbs of one figure; a shell is made when a joint first meets a limit."""

    def __init__(self, scene: viser.SceneApi, root: str, covers: list[Cover], rigid: Rigid, size: float):
        self.scene, self.root, self.covers, self.size = scene, root, covers, size
        self.rigid = [(node, joint, node.color) for node, joint in rigid]
        self.shells: dict[str, Any] = {}
        self.colors: dict[str, Color] = {}
        self.mover = Mover()

    def show(self, frames: Any, colors: dict[str, Color]) -> None:
        """Colour the limbs of the joints named, and no others."""
        if colors != self.colors:
            self._paint(colors)
        lit = [joint for joint in colors if self.shells.get(joint) is not None]
        if lit:
            positions, turns = frames.many(lit)
            self.mover.move([self.shells[joint] for joint in lit], positions, quaternions(turns))

    def _paint(self, colors: dict[str, Color]) -> None:
        for node, joint, own in self.rigid:
            if colors.get(joint) != self.colors.get(joint):
                node.color = colors.get(joint, own)
        for joint in colors if self.covers else ():
            if joint not in self.shells:
                self.shells[joint] = self._shell(joint)
        for joint, shell in self.shells.items():
            if shell is not None:
                shell.visible = joint in colors
                if joint in colors:
                    shell.color = colors[joint]
        self.colors = dict(colors)

    def _shell(self, joint: str) -> Any:
        shape = shell_of(self.covers, joint, LIFT * self.size)
        if shape is None:
            return None
        return self.scene.add_mesh_simple(
            f"{self.root}/{joint}", *shape, opacity=0.5, cast_shadow=False, receive_shadow=False
        )

    def remove(self) -> None:
        """Take the shells away."""
        for shell in self.shells.values():
            if shell is not None:
                shell.remove()
        self.shells, self.colors = {}, {}


def shell_of(covers: list[Cover], joint: str, lift: float) -> Shape | None:
    """Return what of the skins moves with a joint, `lift` [m] over them, in its frame; None where nothing does."""
    shapes: list[Shape] = []
    for cover in covers:
        if joint not in cover.bones:
            continue
        k = cover.bones.index(joint)
        own = cover.weights[:, k] >= OWN
        faces = cover.faces[own[cover.faces].all(axis=1)]
        if len(faces):
            used, where = np.unique(faces, return_inverse=True)
            vertices = (cover.vertices + lift * normals_of(cover.vertices, cover.faces))[used]
            shapes.append(((vertices - cover.positions[k]) @ cover.turns[k], where.reshape(faces.shape)))
    if not shapes:
        return None
    first = np.cumsum([0, *(len(vertices) for vertices, _ in shapes)])
    faces = [faces + start for (_, faces), start in zip(shapes, first, strict=False)]
    return np.concatenate([vertices for vertices, _ in shapes]), np.concatenate(faces)


def normals_of(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the outward direction (V, 3) at every vertex."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    out = np.zeros_like(vertices, dtype=float)
    for k in range(3):
        np.add.at(out, faces[:, k], normal)
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
