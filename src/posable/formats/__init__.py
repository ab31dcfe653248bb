"""Files: figures and motion from everywhere, back to everywhere.

`load` decides by content, then by suffix; `save` by suffix. A new format is one file and one line here.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from posable.errors import FormatError, PosableError, unknown
from posable.formats.base import FORMATS, Format, Options, as_scene
from posable.formats.conventions import INCH, LENGTH_UNITS, scene_with_up
from posable.formats.scene import Capsule, Mesh, Scene
from posable.formats.source import Source, open_source
from posable.model.skeleton import Skeleton

__all__ = ["Capsule", "Mesh", "Scene", "load", "names", "save", "table"]

FORMATS.lazy("bvh", "posable.formats.bvh:FORMAT")
FORMATS.lazy("asf", "posable.formats.asf:FORMAT")
FORMATS.lazy("amc", "posable.formats.amc:FORMAT")
FORMATS.lazy("gltf", "posable.formats.gltf:FORMAT")
FORMATS.lazy("urdf", "posable.formats.urdf:FORMAT")
FORMATS.lazy("c3d", "posable.formats.c3d:FORMAT")
FORMATS.lazy("trc", "posable.formats.trc:FORMAT")
FORMATS.lazy("csv", "posable.formats.csv:FORMAT")
FORMATS.lazy("npz", "posable.formats.npz:FORMAT")

UNITS = {**LENGTH_UNITS, "inch": INCH, "asf": INCH / 0.45}
_HEAD = 4096


def names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return FORMATS.names()


def table() -> tuple[Format, ...]:
    """Return all formats: their suffixes, what they hold, their units and axes."""
    return tuple(FORMATS.get(name) for name in FORMATS)


def load(
    path: str | PathLike[str],
    *,
    skeleton: Skeleton | str | PathLike[str] | None = None,
    up: str | None = None,
    unit: float | str | None = None,
    fps: float | None = None,
) -> Scene:
    """Return what a file holds, in metres and radians: `Scene(skeleton, motion, markers, meshes, ...)`.

    skeleton: whose motion it is, as a Skeleton or a file, where the file itself does not say (AMC, CSV).
    up: "y" or "z" turns the figure that way; as the file is otherwise (`scene.skeleton.up` says which).
    unit: metres per unit of length, or "mm", "cm", "in", ..., where the file states none (BVH: centimetres).
    fps: frames per second where the file states none (AMC: 120). glTF is sampled at this rate.
    Raises `FormatError` with the place in the file; warns of what was repaired.
    """
    if up not in (None, "y", "z"):
        raise PosableError(f"load: expected up='y', up='z' or None, got {up!r}")
    if fps is not None and not 0 < fps < 1e9:
        raise PosableError(f"load: expected fps above 0, got {fps!r}")
    if skeleton is not None and not isinstance(skeleton, Skeleton):
        figure = load(skeleton, unit=unit).skeleton
        if figure is None:
            raise FormatError(path=skeleton, expected="a file with a skeleton", found="none in it")
        skeleton = figure
    options = Options(skeleton, _metres(unit), fps)
    source = open_source(path)
    return read(source, choose(source), options, up)


def read(source: Source, chosen: Format, options: Options, up: str | None = None) -> Scene:
    """Read one source with one format and turn it as asked."""
    if chosen.read is None:
        raise FormatError(f"{chosen.name} can be written only", path=source.path)
    try:
        scene = chosen.read(source, options)
    except FormatError:
        raise
    except (PosableError, RecursionError, MemoryError) as problem:
        raise source.error(f"cannot be read as {chosen.name}: {problem}") from problem
    return scene_with_up(replace(scene, name=scene.name or source.path.stem, notes=tuple(source.notes)), up)


def choose(source: Source) -> Format:
    """Return the format of a file: by its first bytes, then by its suffix."""
    head = source.data[:_HEAD]
    by_suffix = [known for known in table() if source.path.suffix.lower() in known.suffixes]
    for known in (*by_suffix, *table()):
        if known.sniff is not None and known.sniff(head):
            if by_suffix and known not in by_suffix and by_suffix[0].sniff is not None:
                source.warn(f"named like {by_suffix[0].name}, but it is {known.name} by content")
            return known
    if by_suffix:
        return by_suffix[0]
    found = f"suffix {source.path.suffix!r}" if source.path.suffix else "no suffix"
    expected = "a file of " + ", ".join(known.name for known in table() if known.read)
    raise source.error("the format is not recognised", expected=expected, found=f"unknown content, {found}")


def save(
    path: str | PathLike[str],
    thing: Any,
    *,
    up: str | None = None,
    unit: float | str | None = None,
    fps: float | None = None,
) -> None:
    """Write a Motion, a Skeleton, Markers or a Scene; the suffix of `path` says in which format.

    up: "y" or "z" turns it first. unit: metres per unit of length, where a format leaves that open (BVH).
    fps: resample motion first. An AMC brings its ASF along, with the same name beside it.
    """
    scene = as_scene(thing)
    if scene is None:
        raise PosableError(f"save: expected a Motion, Skeleton, Markers or Scene, got {type(thing).__name__}")
    if up not in (None, "y", "z"):
        raise PosableError(f"save: expected up='y', up='z' or None, got {up!r}")
    suffix = Path(path).suffix.lower()
    writers = [known for known in table() if suffix in known.suffixes and known.write is not None]
    if not writers:
        choices = sorted(s for known in table() if known.write for s in known.suffixes)
        raise FormatError(
            path=path, expected=f"a suffix among {', '.join(choices)}", found=repr(suffix or fspath(path))
        )
    scene = scene_with_up(scene, up)
    if fps is not None and scene.motion is not None:
        scene = replace(scene, motion=scene.motion.resample(fps), motions={})
    try:
        files = writers[0].write(scene, suffix, Options(unit=_metres(unit)))  # type: ignore[misc]
    except FormatError as problem:
        problem.path = problem.path or fspath(path)
        raise
    for ending, data in files.items():
        place = Path(path) if ending == suffix else Path(path).with_suffix(ending)
        try:
            with place.open("wb") as file:
                file.writelines([data] if isinstance(data, bytes) else data)
        except OSError as problem:
            raise FormatError(f"cannot be written: {problem}", path=place) from problem


def _metres(unit: float | str | None) -> float | None:
    if unit is None:
        return None
    if isinstance(unit, str):
        if unit not in UNITS:
            raise unknown("unit", unit, UNITS)
        return UNITS[unit]
    if not 0 < float(unit) < 1e9:
        raise PosableError(f"unit: expected metres per unit above 0, got {unit!r}")
    return float(unit)
