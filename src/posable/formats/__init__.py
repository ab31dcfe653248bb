"""Reading and writing of files.

`load` recognises a format by content, then by suffix; `save` by suffix. A format is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from posable._files import write_files
from posable.errors import FormatError, PosableError, unknown
from posable.formats.base import FORMATS, Format, Options, as_scene
from posable.formats.conventions import UNITS, scene_with_up
from posable.formats.scene import Mesh, Scene
from posable.formats.source import Source, open_source
from posable.model.joint_values import from_qpos
from posable.model.joints import Fixed, Free
from posable.model.skeleton import WORLD, Skeleton

__all__ = ["Mesh", "Scene", "load", "names", "save", "table"]

SUFFIXES: dict[str, tuple[str, ...]] = {}  # of each format, known without importing its module


def _enter(name: str, *suffixes: str) -> None:
    """Register the format of module `name`; the suffixes determine which module is imported for a file."""
    FORMATS.lazy(name, f"posable.formats.{name}:FORMAT")
    SUFFIXES[name] = suffixes


_enter("bvh", ".bvh")
_enter("asf", ".asf")
_enter("amc", ".amc")
_enter("gltf", ".glb", ".gltf", ".vrm")
_enter("fbx", ".fbx")
_enter("usd", ".usd", ".usda", ".usdc")
_enter("urdf", ".urdf")
_enter("mjcf", ".xml", ".mjcf")
_enter("c3d", ".c3d")
_enter("trc", ".trc")
_enter("mot", ".mot", ".sto")
_enter("csv", ".csv")
_enter("npz", ".npz")
_enter("keypoints", ".npy")

_HEAD = 4096


def names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return FORMATS.names()


def table() -> tuple[Format, ...]:
    """Return all formats, with their suffixes, contents, units and axes."""
    return tuple(known for _, known in FORMATS.available())


def with_suffix(suffix: str) -> list[Format]:
    """Return the formats whose files end in `suffix`; no other format is imported."""
    mine = [name for name in FORMATS if suffix in SUFFIXES.get(name, (suffix,))]
    return [known for _, known in FORMATS.available(mine) if suffix in known.suffixes]


def load(
    path: str | bytes | PathLike[str],
    *,
    skeleton: Skeleton | str | PathLike[str] | None = None,
    up: str | None = None,
    unit: float | str | None = None,
    fps: float | None = None,
    format: str | None = None,
    floating: bool = False,
    srdf: str | bytes | PathLike[str] | None = None,
    xacro: Mapping[str, Any] | None = None,
    names: Sequence[str] | str | None = None,
) -> Scene:
    """Return the contents of a file, in metres and radians.

    Args:
        path: The file; with `format`, the text itself may be given instead (ROS's `/robot_description`).
        skeleton: A Skeleton or a file, for motion files without one (AMC, CSV).
        up: "y" or "z" rotates the scene so that this axis points up; None keeps that of the file.
        unit: Metres per unit of length, or "mm", "cm", "in", ..., for files that state none (BVH: centimetres).
        fps: Frames per second, for files that state none (AMC: 120). glTF is sampled at this rate.
        format: One of `posable.formats.names()`; None: by content and suffix.
        floating: Give a robot a free root if the file fixes it.
        srdf: MoveIt's description of a URDF (disabled pairs, groups, named states), as a file or a text.
        xacro: Arguments of a xacro file, such as {"ur_type": "ur5e"}.
        names: Names of the joints of an array of positions (T, J, 3), or of their set ("smpl24", "mediapipe33", ...).

    Returns:
        Scene: skeleton, motion, markers, meshes and notes.

    Raises:
        FormatError: The file is invalid; with line and column or byte offset. Repairs are warnings.
    """
    if up not in (None, "y", "z"):
        raise PosableError(f"load: expected up='y', up='z' or None, got {up!r}")
    if fps is not None and not 0 < fps < 1e9:
        raise PosableError(f"load: expected fps above 0, got {fps!r}")
    if skeleton is not None and not isinstance(skeleton, Skeleton):
        skeleton = load(skeleton, unit=unit).skeleton
    labels = names if names is None or isinstance(names, str) else tuple(names)
    semantics = None if srdf is None else text_or_file(srdf, "srdf")
    options = Options(skeleton, _metres(unit), fps, semantics, xacro, up, labels)
    source = text_or_file(path, format)
    chosen = choose(source) if format is None else FORMATS.get(format)
    for option, given in (("srdf=", srdf), ("xacro=", xacro)):
        if given is not None and chosen.name != "URDF":
            raise source.error(option, expected="a URDF file", found=chosen.name)
    scene = read(source, chosen, options)
    if floating:
        scene = with_floating_root(scene, source)
    return scene_with_up(scene, up)


def text_or_file(path: str | bytes | PathLike[str], format: str | None) -> Source:
    """Return the source of a file, or of a text given instead of one."""
    if isinstance(path, bytes):  # a text as it is read from a file
        try:
            path = path.decode("utf-8")
        except UnicodeDecodeError:
            raise PosableError(f"load: expected a path or an XML text in UTF-8, got {path[:20]!r}") from None
    if isinstance(path, str) and path.lstrip("\ufeff \t\r\n").startswith("<"):
        if format is None:
            raise PosableError("load: expected format='urdf' or 'mjcf' with a text, got format=None")
        return Source(f"<{format} text>", path.encode("utf-8"), on_disk=False)
    if not isinstance(path, (str, PathLike)):  # a number would be taken for an open file, and closed
        raise PosableError(f"load: expected a path, got {path!r}")
    return open_source(path)


def with_floating_root(scene: Scene, source: Source) -> Scene:
    """Return the scene with a free root; a root that is free already is kept."""
    if not scene.has_skeleton:
        raise source.error("floating=True", expected="a skeleton", found="none")
    skeleton = scene.skeleton
    root = next(joint for joint in skeleton.joints if joint.parent is None)
    if root.name == WORLD:  # the root link is the world: the robot is attached to it
        bases = [joint for joint in skeleton.joints if joint.parent == WORLD]
        root = bases[0] if len(bases) == 1 else root
    if isinstance(root.motion, Free):
        return scene
    if root.name == WORLD or not isinstance(root.motion, Fixed):
        raise source.error("floating=True", expected="one fixed joint at the root", found=repr(root.name))
    joints = [replace(j, motion=Free("rotvec"), limits=None, rest=0.0) if j is root else j for j in skeleton.joints]
    poses = {name: np.concatenate([np.zeros(6), pose]) for name, pose in skeleton.named_poses.items()}
    free = next(joint for joint in joints if joint.name == root.name)
    for name, place in skeleton.info.get("root_states", {}).items():  # of an SRDF
        poses[name][:6] = from_qpos([free], [slice(0, 6)], np.zeros(6), place)
    info = {key: value for key, value in skeleton.info.items() if key != "root_states"}
    notes = tuple(note for note in scene.notes if "floating=True" not in note)  # it was asked for
    return scene.replace(skeleton=skeleton.replace(joints=joints, named_poses=poses, info=info), notes=notes)


def read(source: Source, chosen: Format, options: Options) -> Scene:
    """Read one source with one format."""
    if chosen.read is None:
        raise FormatError(f"{chosen.name} files can only be written", path=source.path)
    try:
        scene = chosen.read(source, options)
    except FormatError:
        raise
    except (PosableError, RecursionError, MemoryError) as problem:
        raise source.error(f"cannot be read as {chosen.name}: {problem}") from problem
    return scene.replace(name=scene.name or source.path.stem, notes=tuple(source.notes))


def choose(source: Source) -> Format:
    """Return the format of a file, by its first bytes, then by its suffix."""
    head = source.data[:_HEAD]
    by_suffix = with_suffix(source.path.suffix.lower())
    for known in chain(
        by_suffix, (known for _, known in FORMATS.available())
    ):  # the others are imported only if these do not match
        if known.sniff is not None and known.sniff(head):
            if by_suffix and known not in by_suffix and by_suffix[0].sniff is not None:
                source.warn(f"has the suffix of {by_suffix[0].name}, but its content is {known.name}")
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
    layout: str | None = None,
) -> None:
    """Write a Motion, a Skeleton, Markers or a Scene.

    Args:
        path: The file; its suffix selects the format. With an AMC, an ASF of the same name is written beside it.
        thing: What to write.
        up: "y" or "z" rotates it first so that this axis points up.
        unit: Metres per unit of length, for formats that do not state one (BVH).
        fps: Resample the motion to this rate first.
        layout: Layout of robot motion for training code: "mujoco", "gmr" or "beyondmimic" (.npz), "unitree" (.csv).

    Raises:
        FormatError: The format cannot represent it, or the file cannot be written; an existing file is then unchanged.
    """
    scene = as_scene(thing)
    if scene is None and as_scene(path) is not None:
        raise PosableError(
            f"save: expected the path first, save({str(thing)!r}, ...), got a {type(path).__name__} first"
        )
    if scene is None:
        raise PosableError(f"save: expected a Motion, Skeleton, Markers or Scene, got {type(thing).__name__}")
    if up not in (None, "y", "z"):
        raise PosableError(f"save: expected up='y', up='z' or None, got {up!r}")
    suffix = Path(path).suffix.lower()
    writers = [known for known in with_suffix(suffix) if known.write is not None]
    if not writers:
        choices = sorted(s for known in table() if known.write for s in known.suffixes)
        raise FormatError(
            path=path, expected=f"a suffix among {', '.join(choices)}", found=repr(suffix or fspath(path))
        )
    scene = scene_with_up(scene, up)
    if fps is not None and scene.motion is not None:
        scene = scene.replace(motion=scene.motion.resample(fps), motions={})
    try:
        if layout is not None:
            from posable.formats import robot_layouts

            files = {suffix: robot_layouts.write(scene.motion, layout, suffix)}
        else:
            files = writers[0].write(scene, suffix, Options(unit=_metres(unit), stem=Path(path).stem))  # type: ignore[misc]  # a writer
    except FormatError as problem:
        problem.path = problem.path or fspath(path)
        raise
    place = Path(path)
    try:
        write_files({place if end == suffix else place.with_suffix(end): data for end, data in files.items()})
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL
        raise FormatError(
            f"cannot be written, an existing file is unchanged: {getattr(problem, 'strerror', None) or problem}",
            path=path,
        ) from problem


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
