"""A file format: one pose per line as `joint=value` words. A bad file raises a FormatError with line and column."""

from __future__ import annotations

import numpy as np

from posable.errors import FormatError
from posable.formats.base import Format, Options
from posable.formats.scene import Scene
from posable.formats.source import Source, refuse_wide_text, shown
from posable.model.motion import Motion

FPS = 30.0


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a list of poses."""
    return head.startswith(b"#poses")


def read(source: Source, options: Options) -> Scene:
    """Return the motion of a given skeleton."""
    refuse_wide_text(source)
    skeleton = options.skeleton
    if skeleton is None:
        raise source.error(expected="skeleton= (--skeleton), the figure of the motion", found="none")
    rows, at = [], 0
    for line in source.data.splitlines(keepends=True):
        if not line.startswith(b"#") and line.strip():
            pose = skeleton.rest.copy()
            for word in line.split():
                name, _, value = word.decode("utf-8", "replace").partition("=")
                try:
                    pose[skeleton.dof_names.index(name)] = float(value)
                except ValueError:
                    place = at + line.index(word)
                    raise source.error(offset=place, expected="joint=number", found=shown(word)) from None
            rows.append(pose)
        at += len(line)
    motion = Motion(skeleton, np.array(rows).reshape(len(rows), skeleton.size), options.fps or FPS, source.path.stem)
    return Scene(skeleton=skeleton, motion=motion, motions={motion.name: motion})


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the bytes of the file by suffix; Posable writes them."""
    if scene.motion is None:
        raise FormatError("a list of poses holds motion", expected="a Motion", found="none")
    names = scene.motion.skeleton.dof_names
    lines = [" ".join(f"{n}={v!r}" for n, v in zip(names, row, strict=True)) for row in scene.motion.poses.tolist()]
    return {suffix: "\n".join(["#poses", *lines, ""]).encode()}


FORMAT = Format("pose list", (".poses",), "motion of a given skeleton", "metres, radians", sniff, read, write)
