"""How far the skin of a character reaches around its bones, so that feet, hands, knees and back stay above the ground.

Each vertex counts for the bone that moves it most. Bones keep the hull of their vertices, reduced to the points that
are farthest in some direction. Loose clothes and hair, far from their bone, may come to the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from posable.formats.scene import Mesh
from posable.model.body_plan import BodyPlan
from posable.model.joint_values import Floats
from posable.model.shapes import Shape
from posable.model.skeleton import Skeleton

MOSTLY = 0.5  # weight of a vertex on a bone from which it counts for it: less is the skin over a joint
LOOSE = 0.2  # leg lengths from a bone beyond which its skin is cloth or hair
WAYS = 200  # directions in which the farthest points of a bone are kept


def skin_extent(figure: Skeleton) -> tuple[Shape, ...]:
    """Return the hull of a character's skin around each joint; none of a figure whose file has no meshes."""
    return tuple(shape for shape in _hulls(figure.info.get("skin", ())) if shape.joint in figure.names)


@lru_cache(maxsize=4)
def _hulls(meshes: tuple[Mesh, ...]) -> tuple[Shape, ...]:
    points: dict[str, list[Floats]] = {}
    for mesh in meshes:
        for joint, some in _by_joint(mesh):
            points.setdefault(joint, []).append(some)
    ways = _directions(WAYS)
    out = []
    for joint, parts in points.items():
        some = np.concatenate(parts)
        out.append(Shape(joint, some[np.unique((some @ ways.T).argmax(axis=0))], name=f"skin of {joint}"))
    return tuple(out)


def without_loose(plan: BodyPlan, skin: Sequence[Shape]) -> tuple[Shape, ...]:
    """Return skin without the points that are far from the bones between a joint and its children; leaves keep all."""
    parent = {joint.name: joint.parent for joint in plan.skeleton.joints}
    head = plan.roles.get("head")
    out = []
    for shape in skin:
        ends = [name for name, above in parent.items() if above == shape.joint]
        bones = [plan.rest.convert(plan.rest.position(name), to=shape.joint) for name in ends]
        near = np.ones(len(shape.points), dtype=bool)
        if bones and shape.joint != head:
            gaps = [np.linalg.norm(shape.points - _on_bone(shape.points, end), axis=1) for end in bones]
            near = np.min(gaps, axis=0) < LOOSE * plan.leg
        if near.any():
            out.append(shape if near.all() else replace(shape, points=shape.points[near]))
    return tuple(out)


def _on_bone(points: Floats, end: Floats) -> Floats:
    """Return the points of the bone from the origin to its end (3,) that are nearest to points (K, 3) [m]."""
    share = np.clip(points @ end / max(float(end @ end), 1e-12), 0.0, 1.0)
    return share[:, None] * end


def _by_joint(mesh: Mesh) -> Sequence[tuple[str, Floats]]:
    """Return the vertices (K, 3) [m] that move with a joint, in its frame, for every joint of a mesh."""
    if mesh.joint is not None:
        return [(mesh.joint, mesh.vertices)] if len(mesh.vertices) else []
    if mesh.inverse_bind is None or mesh.bones is None or mesh.weights is None:
        return []
    rows = np.arange(len(mesh.vertices))
    weights = np.zeros((len(rows), len(mesh.joints)))
    for k in range(mesh.bones.shape[1]):
        np.add.at(weights, (rows, mesh.bones[:, k]), mesh.weights[:, k])
    owner, out = weights.argmax(axis=1), []
    for k, joint in enumerate(mesh.joints):
        mine = mesh.vertices[(owner == k) & (weights[rows, owner] >= MOSTLY)]
        if len(mine):
            bind = mesh.inverse_bind[k]
            out.append((joint, mine @ bind[:3, :3].T + bind[:3, 3]))
    return out


def _directions(count: int) -> Floats:
    """Return directions (count, 3) spread evenly over the sphere (Fibonacci)."""
    k = np.arange(count) + 0.5
    up, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + 5.0**0.5) * k
    level = np.sqrt(1.0 - up * up)
    return np.stack([level * np.cos(turn), level * np.sin(turn), up], axis=1)
