"""Generate the human body, an asset of the studio: `python scripts/body.py` writes src/posable/studio/assets/body*.glb.

Clothes, hands, a head and hair around the bones of `posable.figures.human`, made of solids.

Solids are given on the left and in the middle, in the frames of the joints, for a person of 1.80 m, and mirrored to the
right. They are blended in a pose with the arms away from the trunk; the surface is then skinned to the bones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import posable as ps

# --- Smooth closed surfaces out of simple solids ---

FAR = 1.0  # [m] the distance that is given where no solid is near


@dataclass(frozen=True)
class Solid:
    """A rounded cone from `start` to `end`, or, with `radii`, an ellipsoid about `start` with `axes` as columns; [m].

    blend [m]: how softly it melts into the solids before it.
    """

    start: np.ndarray  # (3,)
    end: np.ndarray  # (3,)
    start_radius: float
    end_radius: float
    blend: float
    radii: np.ndarray | None = None  # (3,)
    axes: np.ndarray | None = None  # (3, 3)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners of a box (3,), (3,) around it."""
        if self.radii is not None:
            return self.start - self.radii.max(), self.start + self.radii.max()
        r = max(self.start_radius, self.end_radius)
        return np.minimum(self.start, self.end) - r, np.maximum(self.start, self.end) + r

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Return the signed distance [m] of points (..., 3), negative inside; of an ellipsoid, nearly."""
        if self.radii is not None:
            axes = np.eye(3) if self.axes is None else self.axes
            scaled = (points - self.start) @ axes / self.radii
            near = np.linalg.norm(scaled, axis=-1)
            steep = np.linalg.norm(scaled / self.radii, axis=-1)
            return near * (near - 1.0) / np.maximum(steep, 1e-9)
        along = self.end - self.start
        share = np.clip((points - self.start) @ along / max(float(along @ along), 1e-12), 0.0, 1.0)
        offset = points - self.start - share[..., None] * along
        return np.linalg.norm(offset, axis=-1) - (self.start_radius + share * (self.end_radius - self.start_radius))


def blended(a: np.ndarray, b: np.ndarray, width: float) -> np.ndarray:
    """Return the smooth minimum of two distances, rounded over `width` [m]."""
    if width <= 0.0:
        return np.minimum(a, b)
    overlap = np.maximum(width - np.abs(a - b), 0.0) / width
    return np.minimum(a, b) - overlap * overlap * width * 0.25


@dataclass
class Field:
    """Distances (x, y, z) [m] at the corners of cubes of side `cell` [m], from `origin` (3,)."""

    values: np.ndarray
    origin: np.ndarray
    cell: float

    def points(self) -> np.ndarray:
        """Return the corners (x, y, z, 3) [m]."""
        axes = [self.origin[i] + self.cell * np.arange(n) for i, n in enumerate(self.values.shape)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def field_of(solids: list[Solid], cell: float) -> Field:
    """Return the distances to blended solids on a grid around them; each is evaluated only near itself."""
    corners = np.array([solid.bounds() for solid in solids])
    margin = 4.0 * cell
    low, high = corners[:, 0].min(axis=0) - margin, corners[:, 1].max(axis=0) + margin
    shape = np.ceil((high - low) / cell).astype(int) + 1
    values = np.full(shape, FAR)
    for solid in solids:
        reach = solid.blend + 3.0 * cell
        near, far = solid.bounds()
        first = np.maximum(np.floor((near - reach - low) / cell).astype(int), 0)
        last = np.minimum(np.ceil((far + reach - low) / cell).astype(int) + 1, shape)
        part = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
        axes = [low[i] + cell * np.arange(first[i], last[i]) for i in range(3)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        values[part] = blended(values[part], solid.distance(points), solid.blend)
    return Field(values, low, cell)


_EDGES = [(a, a | bit, axis) for axis, bit in enumerate((4, 2, 1)) for a in range(8) if not a & bit]


def surface_of(field: Field) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (V, 3) [m] and triangles (F, 3) of the zero level: one vertex in every cube that it crosses.

    The vertex sits at the mean of the crossings of the cube's edges; every crossed edge of the grid gives a quad of its
    four cubes (surface nets).
    """
    d = field.values
    inside = d < 0.0
    corner = [
        inside[x : x + d.shape[0] - 1, y : y + d.shape[1] - 1, z : z + d.shape[2] - 1]
        for x in (0, 1)
        for y in (0, 1)
        for z in (0, 1)
    ]
    count = np.sum(corner, axis=0)
    cubes = np.argwhere((count > 0) & (count < 8))
    number = np.full(np.array(d.shape) - 1, -1)
    number[tuple(cubes.T)] = np.arange(len(cubes))
    shifts = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    values = np.stack([d[tuple((cubes + shift).T)] for shift in shifts], axis=1)
    total, crossings = np.zeros((len(cubes), 3)), np.zeros(len(cubes))
    for a, b, axis in _EDGES:
        crossed = (values[:, a] < 0.0) != (values[:, b] < 0.0)
        difference = np.where(crossed, values[:, a] - values[:, b], 1.0)
        place = shifts[a] + (values[:, a] / difference)[:, None] * np.eye(3)[axis]
        total += np.where(crossed[:, None], place, 0.0)
        crossings += crossed
    vertices = field.origin + field.cell * (cubes + total / crossings[:, None])
    return vertices, np.concatenate([_quads(inside, number, axis) for axis in range(3)])


def _quads(inside: np.ndarray, number: np.ndarray, axis: int) -> np.ndarray:
    """Return the triangles (F, 3) around the crossed grid edges along an axis, their front outward."""
    near, far = [slice(None)] * 3, [slice(None)] * 3
    near[axis], far[axis] = slice(None, -1), slice(1, None)
    a, b = inside[tuple(near)], inside[tuple(far)]
    edges = np.argwhere(a != b)
    outward = a[tuple(edges.T)]
    u, v = np.eye(3, dtype=int)[(axis + 1) % 3], np.eye(3, dtype=int)[(axis + 2) % 3]
    ring = np.stack([number[tuple((edges - step).T)] for step in (u + v, v, 0 * u, u)], axis=1)
    ring = np.where(outward[:, None], ring, ring[:, ::-1])
    return np.concatenate([ring[:, [0, 1, 2]], ring[:, [0, 2, 3]]])


# --- The human's body ---

THIGH = 0.441  # [m] of a person of 1.80 m: what the solids are scaled by
SOFT = 0.014  # [m] over how much a vertex is shared between neighbouring bones


class Part(NamedTuple):
    """A solid on a joint: a rounded cone (start, end, two radii) or an ellipsoid (start, radii), in its frame [m]."""

    joint: str
    start: tuple[float, float, float]
    end: tuple[float, float, float] = (0, 0, 0)
    radius: float = 0.0
    end_radius: float = 0.0
    radii: tuple[float, float, float] | None = None
    blend: float = 0.035
    both: bool = False  # mirrored on the same joint


def _egg(joint: str, centre: tuple, radii: tuple, *, blend: float = 0.035, both: bool = False) -> Part:
    return Part(joint, centre, radii=radii, blend=blend, both=both)


def _tube(joint: str, start: tuple, radius: float, end: tuple, end_radius: float, *, blend: float = 0.035) -> Part:
    return Part(joint, start, end, radius, end_radius, blend=blend)


# fmt: off
TRUNK = (
    _egg("root", (0, 0.010, -0.012), (0.142, 0.115, 0.096)),
    _egg("root", (0.066, -0.052, -0.048), (0.078, 0.080, 0.070), both=True),
    _egg("spine1", (0, 0.060, 0.034), (0.126, 0.150, 0.086), blend=0.06),
    _egg("spine2", (0, 0.070, 0.046), (0.138, 0.160, 0.094), blend=0.06),
    _egg("spine3", (0, 0.020, 0.056), (0.150, 0.150, 0.094), blend=0.06),
    _egg("spine3", (0.068, 0.010, 0.100), (0.078, 0.070, 0.040), blend=0.05, both=True),
    _egg("spine3", (0.082, 0.030, 0.000), (0.075, 0.105, 0.044), blend=0.05, both=True),
    _tube("spine3", (0, 0.095, 0.030), 0.070, (0, 0.160, 0.016), 0.052, blend=0.05),
    _tube("clavicle", (0.006, 0.030, -0.072), 0.044, (0.138, -0.012, -0.058), 0.045, blend=0.06),
)
ARM = (
    _egg("shoulder", (-0.002, -0.032, 0), (0.049, 0.082, 0.053), blend=0.05),
    _tube("shoulder", (0, 0, 0), 0.045, (0, -0.335, 0), 0.034, blend=0.05),
    _egg("shoulder", (0.001, -0.160, 0.008), (0.042, 0.110, 0.044), blend=0.05),
    _tube("elbow", (0, 0, 0), 0.034, (0, -0.250, 0), 0.027, blend=0.03),
    _egg("elbow", (0.002, -0.070, 0.002), (0.038, 0.100, 0.040), blend=0.05),
)
LEG = (
    _egg("hip", (0.000, -0.070, 0.002), (0.078, 0.160, 0.086), blend=0.06),
    _tube("hip", (-0.004, -0.02, 0), 0.076, (0, -0.441, 0), 0.051, blend=0.06),
    _egg("hip", (0.002, -0.200, 0.014), (0.071, 0.220, 0.073), blend=0.06),
    _tube("knee", (0, 0, 0.004), 0.050, (0, -0.415, -0.004), 0.040, blend=0.05),
    _egg("knee", (0, -0.130, -0.018), (0.050, 0.160, 0.050), blend=0.06),
)
HAND = (
    _tube("elbow", (0, -0.200, 0), 0.025, (0, -0.263, 0), 0.024, blend=0.01),
    _egg("wrist", (0, -0.004, 0), (0.020, 0.030, 0.029), blend=0.012),
    _egg("wrist", (0.001, -0.054, 0.001), (0.0165, 0.056, 0.042), blend=0.014),
    _egg("wrist", (-0.004, -0.040, 0.020), (0.017, 0.032, 0.022), blend=0.012),
    _tube("index1", (0, 0.012, 0), 0.0105, (0, -0.045, 0), 0.0096, blend=0.008),
    _tube("index2", (0, 0, 0), 0.0096, (0, -0.040, 0), 0.0080, blend=0.004),
    *(part for z, length in ((0.0165, 1.08), (-0.0055, 1.0), (-0.0255, 0.80)) for part in (
        _tube("fingers1", (0, 0.012, z), 0.0103, (0, -0.047 * length, z), 0.0095, blend=0.0035),
        _tube("fingers2", (0, 0.047 * (1 - length), z), 0.0095, (0, -0.041 * length, z), 0.0078, blend=0.0030))),
    _tube("thumb1", (0, 0.004, 0), 0.0165, (-0.010, -0.036, 0.028), 0.0128, blend=0.012),
    _tube("thumb2", (0, 0, 0), 0.0125, (-0.006, -0.028, 0.018), 0.0110, blend=0.006),
    _tube("thumb3", (0, 0, 0), 0.0110, (-0.003, -0.020, 0.012), 0.0088, blend=0.005),
)
SHOE = (
    _tube("knee", (0, -0.370, -0.004), 0.031, (0, -0.443, -0.004), 0.034, blend=0.01),
    _tube("ankle", (0, -0.030, -0.030), 0.037, (0, -0.040, 0.060), 0.036, blend=0.02),
    _egg("ankle", (0.003, -0.052, 0.070), (0.046, 0.030, 0.105), blend=0.02),
    _egg("ankle", (0, -0.050, -0.036), (0.034, 0.034, 0.034), blend=0.02),
    _egg("toes", (0.001, 0.002, 0.012), (0.046, 0.026, 0.062), blend=0.02),
)
HEAD = (
    _tube("spine3", (0, 0.115, 0.010), 0.056, (0, 0.155, 0.012), 0.052, blend=0.02),
    _tube("neck", (0, -0.010, -0.002), 0.052, (0, 0.100, 0.022), 0.049, blend=0.02),
    _egg("skull", (0, 0.085, 0.008), (0.073, 0.086, 0.090), blend=0.03),
    _egg("skull", (0, 0.020, 0.040), (0.055, 0.064, 0.055), blend=0.03),   # the face
    _egg("skull", (0, -0.022, 0.066), (0.026, 0.019, 0.020), blend=0.03),  # the chin
    _egg("skull", (0.036, 0.030, 0.062), (0.022, 0.020, 0.024), blend=0.02, both=True),  # the cheeks
    _egg("skull", (0, 0.070, 0.078), (0.045, 0.016, 0.018), blend=0.02),   # the brow
    _tube("skull", (0, 0.060, 0.094), 0.008, (0, 0.030, 0.108), 0.0115, blend=0.012),  # the nose
    _egg("skull", (0, -0.001, 0.091), (0.021, 0.0085, 0.0085), blend=0.01),  # the mouth
    _egg("skull", (0.074, 0.045, 0.004), (0.009, 0.028, 0.018), blend=0.008, both=True),  # the ears
)
HAIR = (
    _egg("skull", (0, 0.094, -0.004), (0.079, 0.086, 0.092), blend=0.02),
    _egg("skull", (0, 0.050, -0.034), (0.070, 0.075, 0.062), blend=0.03),
    _egg("skull", (0.020, 0.160, 0.040), (0.055, 0.028, 0.050), blend=0.02),
)
EYES = (
    _egg("skull", (0.030, 0.050, 0.0868), (0.0110, 0.0080, 0.0075), both=True, blend=0.0),
    _egg("skull", (0.032, 0.0728, 0.0905), (0.0150, 0.0032, 0.0060), both=True, blend=0.0),  # the eyebrows
)
# fmt: on


@dataclass(frozen=True)
class Skin:
    """A coloured surface on bones: vertices (V, 3) [m] in the bind pose, faces (F, 3), weights (V, B) of the bones."""

    name: str
    vertices: np.ndarray
    faces: np.ndarray
    bones: tuple[str, ...]
    weights: np.ndarray
    color: tuple[int, int, int]
    anchor: str | None = None  # the bone that the whole of it hangs on


class Cloth(NamedTuple):
    """A surface to make: its solids, the side of the grid [m] at full detail, its colour, and what is cut away."""

    name: str
    parts: tuple[Part, ...]
    cell: float
    color: tuple[int, int, int]
    grow: float = 0.0  # [m]
    cut: str = ""
    anchor: str | None = None
    fine: bool = False  # so small that it keeps its grid whatever the detail


SKIN, SHIRT, TROUSERS, LEATHER, DARK = (224, 176, 148), (66, 122, 161), (52, 62, 80), (236, 233, 226), (66, 50, 44)
CLOTHES = (
    Cloth("shirt", TRUNK + ARM, 0.011, SHIRT, 0.006, "below the waist"),
    Cloth("trousers", TRUNK[:3] + LEG, 0.012, TROUSERS, 0.0, "above the belt"),
    Cloth("hand.L", HAND, 0.0042, SKIN, anchor="wrist.L"),
    Cloth("hand.R", HAND, 0.0042, SKIN, anchor="wrist.R"),
    Cloth("shoe.L", SHOE, 0.0065, LEATHER, 0.0, "under the sole", "ankle.L"),
    Cloth("shoe.R", SHOE, 0.0065, LEATHER, 0.0, "under the sole", "ankle.R"),
    Cloth("head", HEAD, 0.0055, SKIN, anchor="skull"),
    Cloth("hair", HAIR, 0.006, DARK, 0.0, "the face", "skull"),
    Cloth("eyes", EYES, 0.003, (40, 36, 38), anchor="skull", fine=True),
)


def bind_pose(skeleton: ps.Skeleton) -> np.ndarray:
    """Return the pose (n,) in which the body is made: arms and legs apart, everything else straight."""
    pose = np.clip(np.zeros(skeleton.size), skeleton.lower, skeleton.upper)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        pose[skeleton.index(f"shoulder.{side}")] = np.radians([52.0 * sign, 0.0, 0.0])
        pose[skeleton.index(f"hip.{side}")] = np.radians([0.0, 8.0 * sign, 0.0])
        pose[skeleton.index(f"thumb1.{side}")] = 0.0
    return pose


def body_of(skeleton: ps.Skeleton, *, detail: float = 1.0) -> list[Skin]:
    """Return the surfaces of a human; detail 0.5 makes the triangles twice as long."""
    frames = ps.forward(skeleton, bind_pose(skeleton))
    scale = float(np.linalg.norm(skeleton.joint("knee.L").offset)) / THIGH
    cells = [cloth.cell * scale / (1.0 if cloth.fine else detail) for cloth in CLOTHES]
    return [_sewn(skeleton, frames, cloth, scale, cell) for cloth, cell in zip(CLOTHES, cells, strict=True)]


def _sewn(skeleton: ps.Skeleton, frames, cloth: Cloth, scale: float, cell: float) -> Skin:
    side = cloth.name.rpartition(".")[2] if "." in cloth.name else ""
    solids = [pair for part in cloth.parts for pair in _solids(skeleton, frames, part, scale, side)]
    field = field_of([solid for _, solid in solids], cell)
    field.values -= cloth.grow * scale
    _cut(field, cloth.cut, frames, scale, side)
    vertices, faces = surface_of(field)
    bones = tuple(name for name in skeleton.names if any(joint == name for joint, _ in solids))
    weights = _weights(skeleton, solids, bones, vertices, scale)
    return Skin(cloth.name, vertices, faces, bones, weights, cloth.color, cloth.anchor)


def _sides(joint: str, skeleton: ps.Skeleton) -> tuple[str, ...]:
    return (joint,) if joint in skeleton.names else (f"{joint}.L", f"{joint}.R")


def _solids(skeleton: ps.Skeleton, frames, part: Part, scale: float, side: str) -> list[tuple[str, Solid]]:
    """Return a part, and its mirror image where it has one, in the world, each with its joint."""
    out = []
    for joint in _sides(part.joint, skeleton):
        if side and joint[-2:-1] == "." and joint[-1] != side:
            continue
        mirrors = (1.0, -1.0) if part.both and "." not in joint else (-1.0,) if joint.endswith(".R") else (1.0,)
        for mirror in mirrors:
            flip = np.array([mirror, 1.0, 1.0]) * scale
            turn, place = frames.rotation_matrix(joint), frames.position(joint)
            start, end = (place + turn @ (flip * point) for point in (part.start, part.end))
            radii = None if part.radii is None else np.array(part.radii) * scale
            solid = Solid(start, end, part.radius * scale, part.end_radius * scale, part.blend * scale, radii, turn)
            out.append((joint, solid))
    return out


def _cut(field: Field, what: str, frames, scale: float, side: str) -> None:
    """Remove what a garment does not cover."""
    if not what:
        return
    points = field.points()
    if what == "below the waist":
        edge = frames.position("root")[1] + 0.035 * scale - points[..., 1]
        for wrist in ("L", "R"):
            along = frames.position(f"wrist.{wrist}") - frames.position(f"elbow.{wrist}")
            length = float(np.linalg.norm(along))
            cuff = (points - frames.position(f"elbow.{wrist}")) @ (along / length) - 0.90 * length
            beside = np.linalg.norm(points - frames.position(f"wrist.{wrist}"), axis=-1) < 0.2 * scale
            edge = np.where(beside, np.maximum(edge, cuff), edge)
    elif what == "above the belt":
        edge = points[..., 1] - (frames.position("root")[1] + 0.075 * scale)
        for leg in ("L", "R"):
            along = frames.position(f"ankle.{leg}") - frames.position(f"knee.{leg}")
            length = float(np.linalg.norm(along))
            hem = (points - frames.position(f"knee.{leg}")) @ (along / length) - 0.945 * length
            edge = np.maximum(edge, hem)
    elif what == "under the sole":
        turn, place = frames.rotation_matrix(f"ankle.{side}"), frames.position(f"ankle.{side}")
        edge = -0.070 * scale - (points - place) @ turn[:, 1]
    else:  # the face
        local = (points - frames.position("skull")) @ frames.rotation_matrix("skull") / scale
        hairline = 0.118 - 1.1 * np.maximum(0.052 - local[..., 2], 0.0) - 0.15 * np.abs(local[..., 0])
        edge = scale * np.where(
            local[..., 2] > -0.012, hairline - local[..., 1], local[..., 2] + 0.012 - (local[..., 1] + 0.02)
        )
        edge = np.maximum(edge, scale * (-0.030 - local[..., 1]))
    field.values = np.maximum(field.values, edge)


def _weights(skeleton: ps.Skeleton, solids, bones: tuple[str, ...], vertices: np.ndarray, scale: float) -> np.ndarray:
    """Return how much (V, B) each bone carries each vertex: the nearest, shared softly with its parent and children."""
    distance = np.full((len(vertices), len(bones)), np.inf)
    for joint, solid in solids:
        k = bones.index(joint)
        distance[:, k] = np.minimum(distance[:, k], solid.distance(vertices))
    nearest = distance.argmin(axis=1)
    related = np.array([[_related(skeleton, a, b) for b in bones] for a in bones])
    gap = distance - distance.min(axis=1, keepdims=True)
    weights = np.where(related[nearest], np.exp(-gap / (SOFT * scale)), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _related(skeleton: ps.Skeleton, a: str, b: str) -> bool:
    return a == b or skeleton.joint(a).parent == b or skeleton.joint(b).parent == a


# --- The asset ---

ASSETS = Path(__file__).resolve().parents[1] / "src" / "posable" / "studio" / "assets"
LEVELS = {"body": 0.75, "body_coarse": 0.42}  # files, and the detail of each
BONES = 4  # that share a vertex, at most


def glb_of(skeleton: ps.Skeleton, skins: list[Skin]) -> bytes:
    """Return surfaces on a figure's bones as the bytes of a GLB file: one mesh, material and skin for each."""
    frames = ps.forward(skeleton, bind_pose(skeleton))
    number = {name: k for k, name in enumerate(skeleton.names)}
    nodes: list[dict[str, Any]] = [{"name": name} for name in skeleton.names]
    for joint in skeleton.joints:
        local = frames.matrix(joint.name)
        if joint.parent is not None:
            local = np.linalg.inv(frames.matrix(joint.parent)) @ local
            nodes[number[joint.parent]].setdefault("children", []).append(number[joint.name])
        nodes[number[joint.name]]["matrix"] = local.T.ravel().round(9).tolist()
    file: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "posable scripts/body.py"}, "scene": 0, "nodes": nodes,
        "scenes": [{"nodes": [0]}], "meshes": [], "materials": [], "skins": [], "accessors": [], "bufferViews": [],
    }  # fmt: skip
    data = bytearray()

    def add(array: np.ndarray, component: int, kind: str, **more: Any) -> int:
        data.extend(b"\0" * (-len(data) % 4))
        file["bufferViews"].append({"buffer": 0, "byteOffset": len(data), "byteLength": array.nbytes})
        data.extend(array.tobytes())
        file["accessors"].append(
            {"bufferView": len(file["bufferViews"]) - 1, "componentType": component, "count": len(array), "type": kind}
            | more
        )
        return len(file["accessors"]) - 1

    for k, skin in enumerate(skins):
        order = np.argsort(-skin.weights, axis=1)[:, :BONES]
        shares = np.take_along_axis(skin.weights, order, axis=1)
        if order.shape[1] < BONES:
            order, shares = (np.pad(a, ((0, 0), (0, BONES - a.shape[1]))) for a in (order, shares))
        whole = np.round(255.0 * shares / shares.sum(axis=1, keepdims=True)).astype(int)
        whole[:, 0] += 255 - whole.sum(axis=1)
        vertices = skin.vertices.astype(np.float32)
        inverse = np.stack([np.linalg.inv(frames.matrix(name)).T for name in skin.bones]).astype(np.float32)
        primitive = {
            "attributes": {
                "POSITION": add(
                    vertices, 5126, "VEC3", min=vertices.min(axis=0).tolist(), max=vertices.max(axis=0).tolist()
                ),
                "JOINTS_0": add(np.where(whole > 0, order, 0).astype(np.uint8), 5121, "VEC4"),
                "WEIGHTS_0": add(whole.astype(np.uint8), 5121, "VEC4", normalized=True),
            },
            "indices": add(skin.faces.astype(np.uint16).ravel(), 5123, "SCALAR"),
            "material": k,
        }  # fmt: skip
        file["meshes"].append({"name": skin.name, "primitives": [primitive]})
        linear = (np.array(skin.color) / 255.0) ** 2.2
        file["materials"].append({
            "name": skin.name,
            "pbrMetallicRoughness": {"baseColorFactor": [*linear.round(4).tolist(), 1.0], "metallicFactor": 0.0},
        })  # fmt: skip
        file["skins"].append({
            "joints": [number[name] for name in skin.bones], "inverseBindMatrices": add(inverse, 5126, "MAT4"),
        })  # fmt: skip
        nodes.append({"name": f"{skin.name} mesh", "mesh": k, "skin": k})
        file["scenes"][0]["nodes"].append(len(nodes) - 1)
    file["buffers"] = [{"byteLength": len(data)}]
    text = json.dumps(file, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data.extend(b"\0" * (-len(data) % 4))
    total = 12 + 8 + len(text) + 8 + len(data)
    return b"".join([
        b"glTF", (2).to_bytes(4, "little"), total.to_bytes(4, "little"),
        len(text).to_bytes(4, "little"), b"JSON", text, len(data).to_bytes(4, "little"), b"BIN\0", bytes(data),
    ])  # fmt: skip


def main() -> None:
    """Write the body in every level of detail."""
    human = ps.figures.human()
    ASSETS.mkdir(parents=True, exist_ok=True)
    for name, detail in LEVELS.items():
        place = ASSETS / f"{name}.glb"
        place.write_bytes(glb_of(human, body_of(human, detail=detail)))
        print(f"{place.relative_to(Path.cwd())}: {place.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
