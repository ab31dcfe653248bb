"""What a URDF wants to be seen: the <visual> elements of its links, with the mesh files that they name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

LARGEST = 64 * 2**20  # [bytes] of one mesh file
MOST = 400_000  # triangles of a robot
Visual = tuple[str, np.ndarray, np.ndarray, tuple[int, int, int] | None]


def visuals(path: str) -> list[Visual]:
    """Return link, vertices (V, 3) [m] in its frame, faces (F, 3) and colour of every surface of a URDF file.

    Mesh files are looked for beside the URDF and, for `package://` names, in the folders above it; what is missing or
    cannot be read is left out. Meshes need trimesh, boxes, cylinders and spheres do not.
    """
    place = Path(path)
    data = place.read_bytes()
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:  # `posable.load` refuses these, too
        return []
    robot = ElementTree.fromstring(data)
    materials = {m.get("name"): color for m in robot.iter("material") if (color := _color(m)) is not None}
    out: list[Visual] = []
    total = 0
    for link in robot.iter("link"):
        for visual in link.findall("visual"):
            shape = _shape(place, visual.find("geometry"))
            if shape is None:
                continue
            offset, turn = _origin(visual.find("origin"))
            total += len(shape[1])
            if total > MOST:
                return out
            material = visual.find("material")
            named = materials.get(material.get("name")) if material is not None else None
            color = (_color(material) if material is not None else None) or named
            out.append((link.get("name", ""), shape[0] @ turn.T + offset, shape[1], color))
    return out


def _numbers(text: str | None, otherwise: tuple[float, ...]) -> np.ndarray:
    try:
        values = np.array([float(word) for word in (text or "").split()])
    except ValueError:
        return np.array(otherwise)
    return values if len(values) == len(otherwise) else np.array(otherwise)


def _origin(element: Any) -> tuple[np.ndarray, np.ndarray]:
    if element is None:
        return np.zeros(3), np.eye(3)
    angles = _numbers(element.get("rpy"), (0.0, 0.0, 0.0))
    return _numbers(element.get("xyz"), (0.0, 0.0, 0.0)), Rotation.from_euler("xyz", angles).as_matrix()


def _color(material: Any) -> tuple[int, int, int] | None:
    element = material.find("color")
    if element is None:
        return None
    r, g, b = np.clip(_numbers(element.get("rgba"), (0.8, 0.8, 0.8, 1.0))[:3] * 255.0, 0, 255).astype(int).tolist()
    return r, g, b


def _shape(place: Path, geometry: Any) -> tuple[np.ndarray, np.ndarray] | None:
    if geometry is None or not len(geometry):
        return None
    try:
        import trimesh
    except ImportError:
        return None
    element = geometry[0]
    if element.tag == "mesh":
        found = next((file for file in _candidates(place, element.get("filename", "")) if file.is_file()), None)
        loaded = None if found is None else _load(str(found), found.stat().st_mtime)
        if loaded is None:
            return None
        return loaded[0] * _numbers(element.get("scale"), (1.0, 1.0, 1.0)), loaded[1]
    if element.tag == "box":
        mesh = trimesh.creation.box(extents=_numbers(element.get("size"), (0.1, 0.1, 0.1)))
    elif element.tag == "cylinder":
        radius, length = (float(_numbers(element.get(key), (0.05,))[0]) for key in ("radius", "length"))
        mesh = trimesh.creation.cylinder(radius=radius, height=length, sections=24)
    elif element.tag == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=2, radius=float(_numbers(element.get("radius"), (0.05,))[0]))
    else:
        return None
    return np.array(mesh.vertices), np.array(mesh.faces)


def _candidates(place: Path, name: str) -> Iterator[Path]:
    """Yield where a mesh file may be."""
    plain = name.removeprefix("package://").removeprefix("file://").removeprefix("model://")
    if ".." in Path(plain).parts and "://" in name:
        return
    yield place.parent / plain
    inside = Path(*Path(plain).parts[1:]) if len(Path(plain).parts) > 1 else Path(plain)
    for folder in (place.parent, *list(place.resolve().parents)[:5]):
        yield folder / plain
        yield folder / inside
    yield place.parent / "meshes" / Path(plain).name


@lru_cache(maxsize=256)
def _load(path: str, changed: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the triangles of a mesh file [m]; None where it cannot be read."""
    import trimesh

    if Path(path).stat().st_size > LARGEST:
        return None
    try:
        mesh: Any = trimesh.load(path, force="mesh")
    except Exception:  # whatever a reader of somebody else's format raises
        return None
    return np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int32)
