"""What feet stand on, and when: the ground, boxes, terrain, for retargeting and its quality measures.

`FootSteps` applies the criterion of foot_contacts.py to feet above these surfaces. Each connected part of a mesh is
replaced by its hull.

Heights are looked up straight down, so that any surface can be stood on. Penetration is judged against the faces of the
hulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from posable._files import read_regular
from posable.engine.layout import MAX_MAGNITUDE
from posable.errors import PosableError
from posable.mocap.foot_contacts import standing_still
from posable.mocap.gaps import runs
from posable.mocap.role_frames import RoleFrames, unit
from posable.model.body_plan import SIDES
from posable.model.joint_values import Floats

WITHIN = 0.1  # leg lengths by which a top may be above a foot that is on it
LEVEL = 0.08  # leg lengths from its usual height over a surface within which a foot is on that surface
SHORTEST = 0.1  # [s] of a stand
DRIFT = 0.06  # leg lengths by which ankle and toe may leave their places in one stand; then it is two
FEW = 3  # lowest frames, of which the highest is on the ground in a clip without stands
SYMMETRIC = 0.08  # leg lengths above the lower of both ankles within which an ankle stands
LYING = 0.6  # cosine of a shin's angle from upright below which a foot at its end lies, as in a crawl


@dataclass(frozen=True, eq=False)
class Solid:
    """A convex solid: everything on the inner side of its faces.

    Attributes:
        vertices: (V, 3) [m].
        triangles: (F, 3, 3) [m], of its surface.
        planes: (K, 4): outward normal n and offset d of each face; outside where n . p > d.
    """

    vertices: Floats
    triangles: Floats
    planes: Floats

    def scaled(self, scale: float) -> Solid:
        """Return the solid scaled about the origin."""
        planes = self.planes.copy()
        planes[:, 3] *= scale
        return Solid(scale * self.vertices, scale * self.triangles, planes)

    def turned(self, turn: Floats) -> Solid:
        """Return the solid in other axes, turn (3, 3)."""
        planes = np.c_[self.planes[:, :3] @ turn.T, self.planes[:, 3]]
        return Solid(self.vertices @ turn.T, self.triangles @ turn.T, planes)


def solid(vertices: Any, what: str = "objects") -> Solid:
    """Return the convex hull of vertices (V, 3) [m] as a solid; `what` names it in an error."""
    from scipy.spatial import ConvexHull, QhullError

    corners = np.asarray(vertices, dtype=float)
    if not (np.abs(corners) <= MAX_MAGNITUDE).all():
        raise PosableError(
            f"{what}: expected vertices of magnitudes up to {MAX_MAGNITUDE:g}, got {np.abs(corners).max():g}"
        )
    try:
        hull = ConvexHull(corners)
    except QhullError:
        raise PosableError(f"{what}: expected solids, got {len(corners)} vertices in one plane") from None
    equations = np.unique(np.round(hull.equations, 9), axis=0)
    return Solid(hull.points[hull.vertices], hull.points[hull.simplices], np.c_[equations[:, :3], -equations[:, 3]])


def read_solids(things: Any) -> tuple[Solid, ...]:
    """Return the solids of objects given as OBJ files, meshes with vertices and faces, or vertices (V, 3)."""
    if things is None:
        return ()
    if isinstance(things, (str, PathLike, np.ndarray)) or hasattr(things, "vertices"):
        things = (things,)
    out: list[Solid] = []
    for thing in things:
        if isinstance(thing, Solid):
            out.append(thing)
        elif isinstance(thing, (str, PathLike)):
            out += _parts(*_read_obj(Path(thing)), str(thing))
        elif hasattr(thing, "vertices") and hasattr(thing, "faces"):
            out += _parts(np.asarray(thing.vertices, float), np.asarray(thing.faces, int))
        else:
            corners = np.asarray(thing, dtype=float)
            if corners.ndim != 2 or corners.shape[1] != 3:
                raise PosableError(
                    f"objects: expected files, meshes or corners (V, 3) [m], got an array of shape {corners.shape}"
                )
            out.append(solid(corners))
    return tuple(out)


def _read_obj(path: Path) -> tuple[Floats, np.ndarray]:
    """Return vertices (V, 3) and triangles (F, 3) of an OBJ file."""
    if path.suffix.lower() != ".obj":
        raise PosableError(f"{path}: expected a mesh in an OBJ file, found suffix {path.suffix!r}")
    vertices, faces = [], []
    for number, line in enumerate(read_regular(path).decode("utf8", errors="replace").splitlines(), 1):
        words = line.split()
        try:
            if words[:1] == ["v"]:
                x, y, z = (float(word) for word in words[1:4])
                vertices.append((x, y, z))
            elif words[:1] == ["f"]:
                corners = [int(word.split("/")[0]) for word in words[1:]]
                corners = [k - 1 if k > 0 else len(vertices) + k for k in corners]
                faces += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
        except ValueError:
            raise PosableError(f"{path}:{number}: expected numbers, found {line.strip()[:60]!r}") from None
    if not all(0 <= corner < len(vertices) for face in faces for corner in face) or not faces:
        raise PosableError(f"{path}: expected a mesh with faces, found {len(vertices)} vertices, {len(faces)} faces")
    return np.array(vertices), np.array(faces)


def _parts(vertices: Floats, faces: np.ndarray, what: str = "objects") -> list[Solid]:
    """Return a solid for each connected part of a mesh."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    graph = coo_matrix((np.ones(len(edges)), edges.T), shape=(len(vertices),) * 2)
    _, label = connected_components(graph, directed=False)
    used = np.unique(label[faces[:, 0]])
    return [solid(vertices[label == k], what) for k in used]


def support_height(solids: Sequence[Solid], points: Floats, up: Floats, *, within: float) -> Floats:
    """Return how high the surface under each point (..., 3) is [m]: the ground (0) or the highest top below it.

    within: [m] by which a top may be above the point and still be under it.
    """
    flat = points.reshape(-1, 3)
    out = np.zeros(len(flat))
    if not solids:
        return out.reshape(points.shape[:-1])
    height = flat @ up
    for one in solids:
        faces = one.planes
        tilt = faces[:, :3] @ up
        top = faces[tilt > 0.2]
        side = faces[np.abs(tilt) <= 0.2]
        slack = 0.02  # [m]: a toe over the edge still stands on it
        inside = (flat @ side[:, :3].T <= side[:, 3] + slack).all(axis=1) if len(side) else np.ones(len(flat), bool)
        # the surface is where the lowest of the upper faces cuts the vertical through the point
        tops = (top[:, 3] - flat @ top[:, :3].T) / (top[:, :3] @ up) + height[:, None]
        surface = tops.min(axis=1)
        hit = inside & (surface <= height + within)
        out[hit] = np.maximum(out[hit], surface[hit])
    return out.reshape(points.shape[:-1])


def nearest_face(solids: Sequence[Solid], points: Floats) -> tuple[Floats, Floats, Floats]:
    """Return, for points (..., 3), the face that keeps each farthest from its nearest solid.

    Returns:
        A point on that face (..., 3) [m], its outward normal (..., 3), and the signed distance to it (...) [m].
    """
    flat = points.reshape(-1, 3)
    best = np.full(len(flat), np.inf)
    normal, offset = np.tile([0.0, 0.0, 1.0], (len(flat), 1)), np.full(len(flat), -1e3)
    for one in solids:
        gaps = flat @ one.planes[:, :3].T - one.planes[:, 3]
        k = gaps.argmax(axis=1)
        gap = gaps[np.arange(len(flat)), k]
        closer = gap < best
        best[closer] = gap[closer]
        normal[closer], offset[closer] = one.planes[k[closer], :3], one.planes[k[closer], 3]
    shape = points.shape[:-1]
    return (offset[:, None] * normal).reshape(*shape, 3), normal.reshape(*shape, 3), best.reshape(shape)


class FootSteps:
    """The stands of both feet.

    Attributes:
        heel, toe: {side: (T,) bool}: whether that end of a foot stands.
        lying: {side: (T, P) bool}: whether its ankle and toe rest on the ground otherwise than on the sole.
        ankle_height: {side: [m]}: how high an ankle is over what it stands on.
    """

    def __init__(self, seen: RoleFrames, leg: float, up: Floats, solids: Sequence[Solid]):
        self.heel: dict[str, np.ndarray] = {}
        self.toe: dict[str, np.ndarray] = {}
        self.lying: dict[str, np.ndarray] = {}
        self.ankle_height: dict[str, float] = {}
        self._level: dict[str, Floats] = {}
        paths, floors = {}, {}
        for side in SIDES:
            roles = [f"{role}.{side}" for role in ("ankle", "toe") if f"{role}.{side}" in seen.places]
            paths[side] = np.stack([seen.places[role] for role in roles], axis=1)
            floors[side] = support_height(solids, paths[side][:, -1], up, within=WITHIN * leg)
        over = {side: paths[side] @ up - floors[side][:, None] for side in SIDES}
        # a body is symmetric: an ankle that never comes down, of a foot that stays on its toes, stands like the other
        lowest = np.minimum(*(np.quantile(over[side], 0.02, axis=0)[[0, -1]] for side in SIDES))
        for side in SIDES:
            path, floor = paths[side], floors[side]
            standing = standing_still(path, up, leg, seen.fps, floor=floor)
            standing &= over[side] < lowest[: path.shape[1]] + SYMMETRIC * leg
            standing[drifting(standing.any(axis=1), path - (path @ up)[..., None] * up, DRIFT * leg)] = False
            for a, b in runs(np.asarray(standing.any(axis=1))):
                if b - a < SHORTEST * seen.fps:
                    standing[a:b] = False
            shin = unit(seen.places[f"knee.{side}"] - seen.places[f"ankle.{side}"])
            lying = (shin @ up < LYING)[:, None]
            self.lying[side], standing = standing & lying, standing & ~lying
            self.heel[side], self.toe[side] = standing[:, 0], standing[:, -1]
            both = standing.all(axis=1)
            # without stands, as in a clip of leaps, a foot is on the ground where it is lowest
            usual = np.median(over[side][both], axis=0) if both.sum() > 2 else np.sort(over[side], axis=0)[:FEW][-1]
            usual = np.minimum(usual, lowest[: path.shape[1]] + SYMMETRIC * leg)
            self.ankle_height[side] = float(usual[0])
            # a foot at rest above the surface stands on something not given as an object, at its own height
            own = path[:, -1] @ up - usual[-1]
            self._level[side] = np.where(np.abs(own - floor) < LEVEL * leg, floor, own)

    def flat(self, side: str) -> np.ndarray:
        """Return whether a foot stands on heel and toe (T,)."""
        return self.heel[side] & self.toe[side]

    def stands(self, side: str) -> list[tuple[int, int, float]]:
        """Return (first frame, end, height of the surface [m]) of every stand of a foot, on any part of it."""
        found = runs(self.heel[side] | self.toe[side])
        return [(a, b, float(np.median(self._level[side][a:b]))) for a, b in found]


def drifting(standing: np.ndarray, paths: Floats, most: float) -> np.ndarray:
    """Return when (T,) a foot goes from one place to another within a stand, as where it turns on the spot.

    Args:
        standing: (T,) bool.
        paths: (T, P, 3) [m] Points of the foot, along the ground.
        most: [m] How far they may be from their places in one stand.
    """
    out = np.zeros(len(standing), dtype=bool)
    speed = np.linalg.norm(np.gradient(paths, axis=0), axis=-1).max(axis=1) if len(paths) > 1 else np.zeros(len(paths))
    left = runs(standing)
    while left:
        a, b = left.pop()
        path = paths[a:b]
        if b - a < 3 or np.linalg.norm(path - np.median(path, axis=0), axis=-1).max() <= most:
            continue
        fastest = a + int(speed[a:b].argmax())
        slow = speed[a:b] < 0.5 * speed[fastest]
        before, after = np.flatnonzero(slow[: fastest - a]), np.flatnonzero(slow[fastest - a :])
        first = a + int(before[-1]) + 1 if len(before) else a
        end = fastest + int(after[0]) if len(after) else b
        out[first:end] = True
        left += [(a, first), (end, b)]
    return out
