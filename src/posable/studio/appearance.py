"""What a figure looks like, independent of the renderer: skins, rigid surfaces on its bodies, or bones."""

from __future__ import annotations

import io
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import posable as ps
from posable.studio.meshes import Shape, bone, sphere, towards

ASSETS = Path(__file__).parent / "assets"
COARSE = 0.6  # level of detail below which the coarse asset is used
THIGH = 0.441  # [m] length of the thigh in the asset
FAIR, SHIRT, TROUSERS, LEATHER, DARK = (224, 176, 148), (66, 122, 161), (52, 62, 80), (236, 233, 226), (66, 50, 44)
CLOTHES: dict[str, tuple[tuple[int, int, int], str | None]] = {  # colour, and the bone that it is attached to
    "shirt": (SHIRT, None), "trousers": (TROUSERS, None), "hand.L": (FAIR, "wrist.L"), "hand.R": (FAIR, "wrist.R"),
    "shoe.L": (LEATHER, "ankle.L"), "shoe.R": (LEATHER, "ankle.R"), "head": (FAIR, "skull"), "hair": (DARK, "skull"),
    "eyes": ((40, 36, 38), "skull"),
}  # fmt: skip


def has_body(skeleton: ps.Skeleton) -> bool:
    """Return whether a figure has the bones of `posable.figures.human`, so that the body fits it."""
    return skeleton.name == "human" and {"skull", "knee.L", "toes.R", "thumb3.L", "fingers2.R"} <= set(skeleton.names)


@cache
def asset(coarse: bool) -> tuple[Any, ...]:
    """Return the meshes of the asset, as `posable.load` reads them."""
    return ps.load(ASSETS / ("body_coarse.glb" if coarse else "body.glb")).meshes


def scale_of(skeleton: ps.Skeleton) -> float:
    """Return the size of a person relative to the asset."""
    return float(np.linalg.norm(skeleton.joint("knee.L").offset)) / THIGH


SAMPLES = ((1, 1, 1), (4, 1, 1), (1, 4, 1), (1, 1, 4), (2, 2, 1), (1, 2, 2), (2, 1, 2))  # barycentric
MOST = 5  # largest number of colours of one surface
PICTURE = 512  # [pixels] width and height of textures
EVEN = 0.1  # spread of colours on a face below which it is not divided
FINE = 40_000  # triangles of a skin from which none is divided
_KINDS = {5120: np.int8, 5121: np.uint8, 5122: np.int16, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}


class Texture(NamedTuple):
    """The colours of a surface: a picture (H, W, 3) from 0 to 1, and where each vertex is on it (V, 2), from 0 to 1."""

    pixels: np.ndarray
    uv: np.ndarray

    def samples(self, faces: np.ndarray) -> np.ndarray:
        """Return the colours (S, F, 3) at several points of each of the faces (F, 3)."""
        height, width = self.pixels.shape[:2]
        corners = self.uv[faces]
        out = []
        for share in SAMPLES:
            place = np.einsum("k,fkc->fc", np.array(share) / sum(share), corners) % 1.0
            column, row = (place * (width, height)).astype(int).T
            out.append(self.pixels[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)])
        return np.array(out)


def textures_of(skeleton: Any, meshes: Any) -> list[Texture | None]:
    """Return the texture of every mesh of a glTF character; None if unknown."""
    character = skeleton.info.get("character")
    out: list[Texture | None] = [None] * len(meshes)
    if character is None:
        return out
    try:
        document, binary = character.json, bytes(character.binary)
        primitives = [
            primitive
            for node in document.get("nodes", []) if "mesh" in node
            for primitive in document["meshes"][node["mesh"]]["primitives"]
        ]  # fmt: skip
        if len(primitives) != len(meshes):
            return out
        for k, (mesh, primitive) in enumerate(zip(meshes, primitives, strict=True)):
            out[k] = _texture(document, binary, mesh, primitive)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OSError):  # no usable textures
        return [None] * len(meshes)
    return out


def _texture(document: dict, binary: bytes, mesh: Any, primitive: dict) -> Texture | None:
    if "material" not in primitive:
        return None
    surface = document["materials"][primitive["material"]].get("pbrMetallicRoughness", {})
    factor = np.array(surface.get("baseColorFactor", [1.0, 1.0, 1.0, 1.0])[:3], dtype=float) ** (1.0 / 2.2)
    if "baseColorTexture" not in surface or "TEXCOORD_0" not in primitive["attributes"]:
        return Texture(factor.reshape(1, 1, 3), np.zeros((len(mesh.vertices), 2)))
    from PIL import Image

    texture = document["textures"][surface["baseColorTexture"]["index"]]
    view = document["bufferViews"][document["images"][texture["source"]]["bufferView"]]
    start = view.get("byteOffset", 0)
    with Image.open(io.BytesIO(binary[start : start + view["byteLength"]])) as image:
        if image.width * image.height > 2**26:
            return None
        pixels = np.asarray(image.convert("RGB").resize((PICTURE, PICTURE)), dtype=float) / 255.0
    return Texture(pixels * factor, _accessor(document, binary, primitive["attributes"]["TEXCOORD_0"]))


def _accessor(document: dict, binary: bytes, index: int) -> np.ndarray:
    """Return the pairs (N, 2) of an accessor."""
    accessor = document["accessors"][index]
    view = document["bufferViews"][accessor["bufferView"]]
    kind = np.dtype(_KINDS[accessor["componentType"]])
    start, step = view.get("byteOffset", 0) + accessor.get("byteOffset", 0), view.get("byteStride", 2 * kind.itemsize)
    raw = np.frombuffer(binary, dtype=np.uint8)
    rows = start + step * np.arange(accessor["count"])[:, None] + np.arange(2 * kind.itemsize)
    values = np.ascontiguousarray(raw[rows]).view(kind).astype(float)
    return values / np.iinfo(kind).max if kind.kind in "iu" else values


def clusters(colors: np.ndarray) -> list[tuple[Color, np.ndarray]]:
    """Return a few colours and the faces of about that colour, as masks (F,): k-means from spread-out seeds."""
    seeds = [colors.mean(axis=0)]
    for _ in range(MOST - 1):
        away = np.min([np.linalg.norm(colors - seed, axis=1) for seed in seeds], axis=0)
        if away.max() < 0.18:
            break
        seeds.append(colors[int(np.argmax(away))])
    centres = np.array(seeds)
    label = np.zeros(len(colors), dtype=int)
    for _ in range(8):
        label = np.argmin(np.linalg.norm(colors[:, None] - centres, axis=2), axis=1)
        centres = np.array(
            [colors[label == k].mean(axis=0) if np.any(label == k) else c for k, c in enumerate(centres)]
        )
    out = []
    for k, centre in enumerate(centres):
        if np.any(label == k):
            out.append((as_bytes(centre), label == k))
    return out


def as_bytes(color: Any) -> Color:
    """Return a colour (3,) from 0 to 1 as three numbers up to 255."""
    r, g, b = (255.0 * np.clip(color, 0.0, 1.0)).astype(int).tolist()
    return r, g, b


Color = tuple[int, int, int]
MANY = 150_000  # number of triangles above which vertices are merged
CELL = 0.0035  # relative to the figure: size of the cells in which vertices are merged
BONE, ROBOT, SKIN = (206, 212, 222), (148, 155, 166), (196, 190, 184)


class Skin(NamedTuple):
    """A skin in its bind pose: vertices (V, 3) [m], faces (F, 3), weights (V, B) of bones at (B, 3), (B, 3, 3)."""

    name: str
    vertices: np.ndarray
    faces: np.ndarray
    bones: tuple[str, ...]
    weights: np.ndarray
    positions: np.ndarray
    turns: np.ndarray
    color: Color
    anchor: str | None = None  # the bone that it is attached to
    double: bool = False  # double-sided


class Rigid(NamedTuple):
    """A surface in the frame of a body: vertices (V, 3) [m], faces (F, 3)."""

    name: str
    vertices: np.ndarray
    faces: np.ndarray
    body: str
    color: Color
    flat: bool = True  # flat shading


class Appearance(NamedTuple):
    """Everything that is drawn for a figure."""

    skins: list[Skin]
    rigid: list[Rigid]


def appearance_of(skeleton: ps.Skeleton, scene: ps.Scene | None, *, detail: float = 1.0) -> Appearance:
    """Return what a figure looks like: its skin and meshes, or its collision shapes, or its bones.

    Args:
        skeleton: The figure.
        scene: The contents of its file, for the meshes.
        detail: Level of detail of the human body.
    """
    if has_body(skeleton):
        return Appearance(_dressed(skeleton, detail), [])
    meshes = scene.meshes if scene is not None else ()
    textures = textures_of(skeleton, meshes)
    cell = CELL * extent(skeleton) if sum(len(mesh.faces) for mesh in meshes) > MANY else 0.0
    bodies = {*skeleton.names, *skeleton.site_names}
    skins: list[Skin] = []
    rigid: list[Rigid] = []
    for k, mesh in enumerate(meshes):
        if mesh.joints:
            skin = _character(f"skin{k}", mesh, skeleton)
            skins += _painted(skin, textures[k]) if skin is not None else []
        elif mesh.joint is not None and mesh.joint in bodies and len(mesh.faces):
            rigid += _rigid_parts(f"mesh{k}", mesh, textures[k], cell)
    if skins:
        return Appearance(skins, rigid)
    if not rigid:
        shapes = [shape for shape in getattr(skeleton, "shapes", ()) if shape.joint in bodies and shape.normal is None]
        rigid = [
            Rigid(f"shape{k}", *_solid(shape), shape.joint, ROBOT if shape.color is None else as_bytes(shape.color))
            for k, shape in enumerate(shapes)
        ]
    carriers = {site.name: site.joint for site in skeleton.sites}
    covered = {carriers.get(part.body, part.body) for part in rigid}
    return Appearance([], [*rigid, *_bones(skeleton, covered)])


def _rigid_parts(name: str, mesh: Any, texture: Texture | None, cell: float) -> list[Rigid]:
    """Return a rigid mesh split into one surface per colour, because surfaces of a page have one colour each."""
    color = mesh.color if texture is None else texture.samples(mesh.faces).mean(axis=0)
    if color is None or np.ndim(color) == 1:
        own = ROBOT if color is None else as_bytes(color)
        return [Rigid(name, *merge_vertices(mesh.vertices, mesh.faces, cell), mesh.joint, own)]
    out = []
    for k, (own, faces) in enumerate(clusters(color)):
        used, where = np.unique(mesh.faces[faces], return_inverse=True)
        part = merge_vertices(mesh.vertices[used], where.reshape(-1, 3), cell)
        out.append(Rigid(f"{name}.{k}", *part, mesh.joint, own))
    return out


def _painted(skin: Skin, texture: Texture | None) -> list[Skin]:
    """Return a skin split into one surface per colour, because skins of a page have one colour each."""
    if texture is None:
        return [skin]
    skin, texture = divided(skin, texture)
    out = []
    for k, (color, faces) in enumerate(clusters(texture.samples(skin.faces).mean(axis=0))):
        used, where = np.unique(skin.faces[faces], return_inverse=True)
        out.append(
            skin._replace(
                name=f"{skin.name}.{k}", color=color, vertices=skin.vertices[used], weights=skin.weights[used],
                faces=where.reshape(-1, 3),
            )
        )  # fmt: skip
    return out


def divided(skin: Skin, texture: Texture, rounds: int = 3) -> tuple[Skin, Texture]:
    """Return a skin whose faces are divided in four where a texture changes, so that its edges stay sharp."""
    for _ in range(rounds):
        uneven = np.ptp(texture.samples(skin.faces), axis=0).max(axis=1) > EVEN
        if not uneven.any() or len(skin.faces) + 3 * uneven.sum() > FINE:
            break
        a, b, c = skin.faces[uneven].T
        ends = np.sort(np.stack([np.stack([a, b]), np.stack([b, c]), np.stack([c, a])]).swapaxes(1, 2), axis=2)
        edges, number = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
        ab, bc, ca = len(skin.vertices) + number.reshape(3, -1)
        fresh = np.concatenate(
            [np.stack(four, axis=1) for four in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
        )

        def extended(values: np.ndarray, edges: np.ndarray = edges) -> np.ndarray:
            return np.concatenate([values, values[edges].mean(axis=1)])

        skin = skin._replace(
            vertices=extended(skin.vertices), weights=extended(skin.weights),
            faces=np.concatenate([skin.faces[~uneven], fresh]),
        )  # fmt: skip
        texture = texture._replace(uv=extended(texture.uv))
    return skin, texture


def merge_vertices(vertices: np.ndarray, faces: np.ndarray, cell: float) -> Shape:
    """Return a surface with its vertices merged within grid cells of size `cell` [m]; unchanged if `cell` is 0."""
    if cell <= 0.0 or not len(faces):
        return vertices, faces
    _, first, label = np.unique(np.round(vertices / cell).astype(int), axis=0, return_index=True, return_inverse=True)
    fewer = label.reshape(-1)[faces]
    whole = (fewer[:, 0] != fewer[:, 1]) & (fewer[:, 1] != fewer[:, 2]) & (fewer[:, 2] != fewer[:, 0])
    kept = fewer[whole]
    return (vertices[first], np.unique(kept, axis=0)) if len(kept) >= 4 else (vertices, faces)


def _solid(shape: Any) -> Shape:
    """Return the surface of a rounded convex hull."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.asarray(shape.points, dtype=float)
    if shape.radius > 0.0:
        points = (points[:, None] + sphere(shape.radius, around=16)[0]).reshape(-1, 3)
    try:
        hull = ConvexHull(points)
    except QhullError:  # flat
        return sphere(0.005)
    faces = hull.simplices.copy()
    corners = points[faces]
    outward = np.einsum(
        "fk,fk->f", np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), hull.equations[:, :3]
    )
    faces[outward < 0] = faces[outward < 0][:, ::-1]
    used, where = np.unique(faces, return_inverse=True)
    return points[used], where.reshape(-1, 3)


def _dressed(skeleton: ps.Skeleton, detail: float) -> list[Skin]:
    scale = scale_of(skeleton)
    return [
        skin._replace(
            name=mesh.name, color=CLOTHES[mesh.name][0], anchor=CLOTHES[mesh.name][1], double=False,
            vertices=scale * skin.vertices, positions=scale * skin.positions,
        )
        for mesh in asset(detail < COARSE)
        if (skin := _character(mesh.name, mesh, skeleton)) is not None
    ]  # fmt: skip


def _character(name: str, mesh: Any, skeleton: ps.Skeleton) -> Skin | None:
    """Return the skin of a glTF mesh; its bind frames are the inverse bind matrices, inverted and unscaled."""
    if not set(mesh.joints) <= set(skeleton.names):
        return None
    bind = np.linalg.inv(mesh.inverse_bind)
    sizes = np.cbrt(np.abs(np.linalg.det(bind[:, :3, :3])))
    scale = float(sizes.mean())
    weights = np.zeros((len(mesh.vertices), len(mesh.joints)))
    for k in range(mesh.bones.shape[1]):
        np.add.at(weights, (np.arange(len(weights)), mesh.bones[:, k]), mesh.weights[:, k])
    turns = bind[:, :3, :3] / sizes[:, None, None]
    return Skin(
        name, mesh.vertices / scale, mesh.faces, tuple(mesh.joints), weights, bind[:, :3, 3] / scale, turns,
        SKIN, double=True,
    )  # fmt: skip


def skinned(skin: Skin, frames: Any) -> np.ndarray:
    """Return the vertices (V, 3) [m] of a skin deformed to `frames` (linear blend skinning)."""
    positions, turns = frames.many(skin.bones)
    turn = turns @ np.swapaxes(skin.turns, 1, 2)
    shift = positions - np.einsum("bij,bj->bi", turn, skin.positions)
    out = np.zeros_like(skin.vertices)
    for k in range(len(skin.bones)):
        carried = np.flatnonzero(skin.weights[:, k] > 0.0)
        out[carried] += skin.weights[carried, k, None] * (skin.vertices[carried] @ turn[k].T + shift[k])
    return out


def surface_points(look: Appearance) -> dict[str, np.ndarray]:
    """Return the vertices (V, 3) [m] of the surface of each body, in its frame; a skin's belong to their main bone."""
    found: dict[str, list[np.ndarray]] = {}
    for skin in look.skins:
        main = np.argmax(skin.weights, axis=1)
        for k, body in enumerate(skin.bones):
            found.setdefault(body, []).append((skin.vertices[main == k] - skin.positions[k]) @ skin.turns[k])
    for part in look.rigid:
        found.setdefault(part.body, []).append(np.asarray(part.vertices, dtype=float))
    return {body: np.concatenate(parts) for body, parts in found.items() if sum(map(len, parts))}


def extent(skeleton: ps.Skeleton) -> float:
    """Return the approximate size of a figure [m]: the longest path from the root to an end."""
    far = dict.fromkeys(skeleton.names, 0.0)
    for joint in skeleton.joints:
        if joint.parent is not None:
            far[joint.name] = far[joint.parent] + float(np.linalg.norm(joint.offset))
    ends = [far[site.joint] + float(np.linalg.norm(site.offset)) for site in skeleton.sites]
    return max([*far.values(), *ends, 1e-3])


def root_joint(skeleton: ps.Skeleton) -> ps.Joint:
    """Return the joint that carries a figure: its free root, which may be below fixed nodes, or the first joint."""
    return skeleton.joint(skeleton.free_root or skeleton.names[0])


def front_of(skeleton: ps.Skeleton, frames: Any) -> np.ndarray:
    """Return the horizontal axis (3,) of the world that a figure faces; without legs, +z of +y up, +x of +z up."""
    ahead = np.eye(3)[2 if skeleton.up_axis == 1 else 0]
    try:
        plan = ps.body_plan(skeleton)
    except ps.PosableError:
        return ahead
    if plan.first("pelvis") is not None:
        pelvis = plan["pelvis"]
        ahead = frames.rotation_matrix(pelvis) @ plan.rest.rotation_matrix(pelvis).T @ plan.forward
    ahead = ahead * (1.0 - skeleton.up_vector)
    axis = int(np.argmax(np.abs(ahead)))
    return np.eye(3)[axis] * (1.0 if ahead[axis] >= 0.0 else -1.0)


def _bones(skeleton: ps.Skeleton, covered: Collection[str] = ()) -> list[Rigid]:
    """Return a bone from every joint to each of its children and ends, and a ball at every joint.

    Joints that are `covered` have a surface of their own; if there are any, only joints without one get a bone.
    """
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
    return [
        Rigid(f"bone{k}", *merged(shapes), name, BONE, flat=False)
        for k, (name, shapes) in enumerate(parts.items())
        if name not in covered and (not covered or len(shapes) > 1)
    ]


def _ends(skeleton: ps.Skeleton) -> list[ps.Site]:
    """Return the furthest site of every joint without children: the end of its bone."""
    parents = {joint.parent for joint in skeleton.joints}
    found: dict[str, ps.Site] = {}
    for site in skeleton.sites:
        if site.joint in parents:
            continue
        best = found.get(site.joint)
        if best is None or np.linalg.norm(site.offset) > np.linalg.norm(best.offset):
            found[site.joint] = site
    return list(found.values())


def merged(shapes: list[Shape]) -> Shape:
    """Return several shapes merged into one."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in shapes[:-1])])
    return (
        np.concatenate([vertices for vertices, _ in shapes]),
        np.concatenate([faces + start for (_, faces), start in zip(shapes, starts, strict=True)]),
    )
