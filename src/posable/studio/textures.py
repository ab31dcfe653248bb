"""The colours of a character's textures, to be drawn by surfaces of one colour each.

viser's skinned meshes have one colour: a textured surface is split into a few, by the colours that its faces have.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

Color = tuple[int, int, int]
SAMPLES = ((1, 1, 1), (4, 1, 1), (1, 4, 1), (1, 1, 4), (2, 2, 1), (1, 2, 2), (2, 1, 2))  # of a face, by its corners
MOST = 5  # colours of one surface
_KINDS = {5120: np.int8, 5121: np.uint8, 5122: np.int16, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}


def face_colors(skeleton: Any, meshes: Any) -> list[np.ndarray | None]:
    """Return for every mesh of a glTF character the colours (F, 3) of its faces, from 0 to 1; None where unknown."""
    character = skeleton.info.get("character")
    out: list[np.ndarray | None] = [None] * len(meshes)
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
            out[k] = _faces(document, binary, mesh, primitive)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OSError):  # a file that is read, but not this
        return [None] * len(meshes)
    return out


def _faces(document: dict, binary: bytes, mesh: Any, primitive: dict) -> np.ndarray | None:
    if "material" not in primitive:
        return None
    surface = document["materials"][primitive["material"]].get("pbrMetallicRoughness", {})
    factor = np.array(surface.get("baseColorFactor", [1.0, 1.0, 1.0, 1.0])[:3], dtype=float) ** (1.0 / 2.2)
    if "baseColorTexture" not in surface or "TEXCOORD_0" not in primitive["attributes"]:
        return np.tile(factor, (len(mesh.faces), 1))
    from PIL import Image

    texture = document["textures"][surface["baseColorTexture"]["index"]]
    view = document["bufferViews"][document["images"][texture["source"]]["bufferView"]]
    start = view.get("byteOffset", 0)
    with Image.open(io.BytesIO(binary[start : start + view["byteLength"]])) as image:
        if image.width * image.height > 2**26:
            return None
        pixels = np.asarray(image.convert("RGB").resize((256, 256)), dtype=float) / 255.0
    uv = _accessor(document, binary, primitive["attributes"]["TEXCOORD_0"])
    corners = uv[mesh.faces]
    total = np.zeros((len(mesh.faces), 3))
    for share in SAMPLES:
        place = np.einsum("k,fkc->fc", np.array(share) / sum(share), corners) % 1.0
        column, row = np.clip((place * 256).astype(int), 0, 255).T
        total += pixels[row, column]
    return total / len(SAMPLES) * factor


def _accessor(document: dict, binary: bytes, index: int) -> np.ndarray:
    """Return the pairs (N, 2) of numbers of an accessor."""
    accessor = document["accessors"][index]
    view = document["bufferViews"][accessor["bufferView"]]
    kind = np.dtype(_KINDS[accessor["componentType"]])
    start, step = view.get("byteOffset", 0) + accessor.get("byteOffset", 0), view.get("byteStride", 2 * kind.itemsize)
    raw = np.frombuffer(binary, dtype=np.uint8)
    rows = start + step * np.arange(accessor["count"])[:, None] + np.arange(2 * kind.itemsize)
    values = np.ascontiguousarray(raw[rows]).view(kind).astype(float)
    return values / np.iinfo(kind).max if kind.kind in "iu" else values


def clusters(colors: np.ndarray) -> list[tuple[Color, np.ndarray]]:
    """Return a few colours and the faces (F,) that have about each of them, as masks: k-means from spread-out seeds."""
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
            r, g, b = (255.0 * np.clip(centre, 0.0, 1.0)).astype(int).tolist()
            out.append(((r, g, b), label == k))
    return out
