"""Meshes that a robot description refers to: where the files are, and what trimesh finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

if TYPE_CHECKING:
    from posable.formats.source import Source

SUFFIXES = (".stl", ".obj", ".dae", ".ply", ".off", ".glb", ".gltf")
_LARGEST = 200_000_000  # bytes


def find_mesh(source: Source, name: str) -> Path | None:
    """Return the file that `package://pkg/path`, `file:///path` or a relative path means; None where it is missing.

    A package is looked for above the description's own folder, as a folder of that name or as the one the file is in.
    """
    text = unquote(name.strip())
    folder = source.path.resolve().parent if source.on_disk else Path.cwd()
    if text.startswith(("package://", "model://")):
        package, _, inside = text.split("://", 1)[1].partition("/")
        places = []
        for above in (folder, *folder.parents):
            places += [above / package / inside, above / "share" / package / inside]
            if above.name == package:
                places.append(above / inside)
        places += [above / inside for above in (folder, *folder.parents)[:4]]
    else:
        text = text.removeprefix("file://")
        places = [folder / text]
    try:
        return next((p for p in places if p.suffix.lower() in SUFFIXES and p.is_file()), None)
    except OSError:  # a name that no file system takes
        return None


def load_mesh(path: Path, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray] | str:
    """Return vertices (V, 3) [m] and faces (F, 3) of a mesh file, or a sentence that says why there are none."""
    try:
        import trimesh
    except ImportError:
        return "meshes are opened with trimesh: pip install 'posable[robots]'"
    if path.stat().st_size > _LARGEST:
        return f"{path.name}: larger than {_LARGEST // 1_000_000} MB"
    try:
        mesh: Any = trimesh.load(path, force="mesh", process=False, skip_materials=True)
        vertices, faces = np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int32)
    except Exception as problem:  # whatever a parser of somebody else's file format raises
        return f"{path.name}: {type(problem).__name__}: {problem}"
    if not len(vertices) or not np.isfinite(vertices).all():
        return f"{path.name}: no finite vertices"
    return vertices * scale, faces.reshape(-1, 3)
