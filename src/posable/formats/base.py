"""The interface of a file format, and the registry of all formats."""

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
MAX_DEPTH_SUM = 2_000_000  # joints and degrees of freedom summed over depth, which bounds hostile chains


@dataclass(frozen=True)
class Options:
    """What a caller may state about a file."""

    skeleton: Skeleton | None = None  # of the motion in an AMC or a CSV
    unit: float | None = None  # metres per unit of length
    fps: float | None = None  # frames per second
    srdf: Source | None = None  # MoveIt's description of a URDF
    xacro: Mapping[str, str] | None = None  # arguments of a xacro file
    up: str | None = None  # the axis that should point up
    names: tuple[str, ...] | str | None = None  # of the joints in an array of positions, or of their set
    stem: str = "robot"  # name of the file to write, without its suffix


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        name: Name for users.
        suffixes: Lower case, with the dot.
        holds: What a file may contain, in words.
        conventions: Units and axes, in words.
        sniff: Recognises a file by its first 4 kB; None: by suffix only.
        read: Returns the scene of a source; None: the format can only be written.
        write: Returns the bytes of every file to write, by suffix, or an iterable of parts of a long one.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: str
    conventions: str
    sniff: Callable[[bytes], bool] | None = None
    read: Callable[[Source, Options], Scene] | None = None
    write: Callable[[Scene, str, Options], Mapping[str, bytes | Iterable[bytes]]] | None = None


def depth_first(
    below: Mapping[Any, Sequence[Any]], root: Any, name: Callable[[Any], Any] = lambda item: item
) -> list[Any]:
    """Return the items of a tree below a root, parents first.

    Args:
        below: The children of each item, in order, by the name of the item.
        root: The name under which the uppermost items are.
        name: Returns the name of an item; by default the item itself.
    """
    order, stack = [], list(reversed(below.get(root, ())))
    while stack:
        order.append(stack.pop())
        stack += reversed(below.get(name(order[-1]), ()))
    return order


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
    """Return the skeleton of a reader; `fields` are those of `Skeleton`.

    Raises:
        FormatError: There are no joints, too many, or the skeleton is invalid.
    """
    if not joints:
        raise source.error(expected="at least one joint", found="none")
    depth: dict[str | None, int] = {None: 0}
    total = 0
    for joint in joints:
        if joint.parent not in depth:
            raise source.error(expected="joints after their parents", found=shown(str(joint.name)))
        if problems := joint.motion.problems():
            raise source.error(f"joint {shown(str(joint.name))}: {problems[0]}")
        depth[joint.name] = depth[joint.parent] + joint.motion.size + 1
        total += (joint.motion.size + 1) * depth[joint.name]
    bound_count(source, len(joints), "joints")
    if total > MAX_DEPTH_SUM:
        raise source.error(
            expected="shorter chains of joints", found=f"{len(joints)} joints, a depth of {max(depth.values())}"
        )
    try:
        return Skeleton(joints, tuple(sites), name, up=up, unit=unit, couplings=tuple(couplings), info=info, **fields)
    except SkeletonError as problem:
        raise source.error("; ".join(problem.findings[:5])) from problem


def bound_count(source: Source, count: int, what: str) -> None:
    """Raise if a file has more nodes, joints or links than a figure may have, before they are processed."""
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
