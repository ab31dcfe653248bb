"""What a file format is to the rest of Posable, and the registry that all of them are in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posable.errors import SkeletonError
from posable.formats.scene import Scene
from posable.formats.source import Source, shown
from posable.model.joints import Joint, Site
from posable.model.skeleton import Skeleton
from posable.registry import Registry

FORMATS = Registry("format", "posable.formats")

MAX_JOINTS = 10_000
MAX_DEPTH_SUM = 2_000_000  # joints and degrees of freedom above one another: what a hostile chain may make us index


@dataclass(frozen=True)
class Options:
    """What a caller may say about a file that does not say it itself."""

    skeleton: Skeleton | None = None  # whose motion an AMC or a CSV holds
    unit: float | None = None  # metres per unit of length
    fps: float | None = None  # frames per second
    srdf: Source | None = None  # MoveIt's description of a URDF
    up: str | None = None  # the axis that is to point up
    names: tuple[str, ...] | str | None = None  # of the joints of an array of positions, or of their set
    stem: str = "robot"  # the name, without its suffix, of the file that is written


@dataclass(frozen=True)
class Format:
    """A format: its name, suffixes and conventions, how it is recognised, read and written.

    `sniff` looks at the first 4 kB. `write` returns the bytes of every file it makes, by suffix; of a long one
    its parts, made as they are written.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: str
    conventions: str
    sniff: Callable[[bytes], bool] | None = None
    read: Callable[[Source, Options], Scene] | None = None
    write: Callable[[Scene, str, Options], Mapping[str, bytes | Iterable[bytes]]] | None = None


def build_skeleton(
    source: Source,
    joints: Sequence[Joint],
    sites: Iterable[Site],
    *,
    name: str = "",
    up: str | None,
    unit: float = 1.0,
    couplings: Iterable[tuple[str, str, float, float]] = (),
    info: dict | None = None,
    **fields: Any,
) -> Skeleton:
    """Return the skeleton that a reader found, `fields` as in `Skeleton`; a figure that cannot be is an error of it."""
    if not joints:
        raise source.error(expected="at least one joint", found="none")
    depth: dict[str | None, int] = {None: 0}
    total = 0
    for joint in joints:
        if joint.parent not in depth:
            raise source.error(expected="joints after their parents", found=shown(str(joint.name)))
        depth[joint.name] = depth[joint.parent] + joint.motion.size + 1
        total += (joint.motion.size + 1) * depth[joint.name]
    if len(joints) > MAX_JOINTS or total > MAX_DEPTH_SUM:
        raise source.error(expected="a figure of a size that can be solved", found=f"{len(joints)} joints")
    try:
        return Skeleton(joints, tuple(sites), name, up=up, unit=unit, couplings=tuple(couplings), info=info, **fields)
    except SkeletonError as problem:
        raise source.error("; ".join(problem.findings[:5])) from problem


def bound_count(source: Source, count: int, what: str) -> None:
    """Raise, before anything is made of them, where a file has more nodes, joints or links than a figure may have."""
    if count > MAX_JOINTS:
        raise source.error(expected=f"at most {MAX_JOINTS} {what}", found=count)


def as_scene(thing: object) -> Scene | None:
    """Return a Skeleton, Motion, Markers or Scene as a Scene; None if it is none of them."""
    from posable.model.motion import Markers, Motion

    if isinstance(thing, Scene):
        return thing
    if isinstance(thing, Motion):
        return Scene(skeleton=thing.skeleton, motion=thing, name=thing.name)
    if isinstance(thing, Markers):
        return Scene(markers=thing)
    if isinstance(thing, Skeleton):
        return Scene(skeleton=thing, name=thing.name)
    return None
