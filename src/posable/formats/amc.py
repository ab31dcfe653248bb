"""AMC, read: the motion of an Acclaim pair, one line per bone and frame. Its ASF defines the columns.

The ASF is given as `skeleton=`, or it lies beside the AMC under the same name or one that the AMC's name starts with
(`02_01.amc`, `02.asf`). AMC does not state a frame rate: 120 unless `fps` is given.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from posable.engine.joints import SLIDE
from posable.formats import asf
from posable.formats.asf import write
from posable.formats.base import Format, Options
from posable.formats.scene import Scene
from posable.formats.source import Source, decode_name, open_source, refuse_wide_text, shown
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

DEFAULT_FPS = 120.0
_LINE = re.compile(rb"[^\r\n]+")
_START = re.compile(
    rb"\s*(?:#[^\r\n]*[\r\n]+\s*)*:(?:fully-specified|degrees|radians|samples-per-second)", re.IGNORECASE
)
_LONGEST_NUMBER = 40


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is AMC."""
    return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(source: Source, options: Options) -> Scene:
    """Return the motion of an AMC file, on its skeleton."""
    refuse_wide_text(source)
    body, degrees, fps = _read_header(source)
    skeleton = options.skeleton or _skeleton_beside(source, options)
    layout = skeleton.info.get("amc")
    if layout is None:
        raise source.error(expected="the skeleton of an ASF file", found=f"{skeleton!r}, which came from elsewhere")
    columns: dict[str, tuple[str | None, ...]] = layout["columns"]
    names, values = _read_frames(source, body, columns)
    degrees = layout["degrees"] if degrees is None else degrees
    poses = _poses(skeleton, columns, layout["root_frame"], names, values, degrees)
    motion = Motion(skeleton, poses, fps or options.fps or DEFAULT_FPS, source.path.stem)
    missing = [name for name in columns if columns[name] and name not in names]
    if missing and len(values):
        source.warn(f"bones without values stay at rest: {', '.join(missing[:5])}")
    return Scene(skeleton=skeleton, motion=motion, motions={motion.name: motion})


def _skeleton_beside(source: Source, options: Options) -> Skeleton:
    """Return the skeleton of the ASF in the same folder with the longest name that the AMC's name starts with."""
    folder, stem = source.path.parent, source.path.stem.lower()
    try:
        candidates = [path for path in folder.iterdir() if path.suffix.lower() == ".asf"]
    except OSError:
        candidates = []
    beside = sorted(
        (path for path in candidates if stem.startswith(path.stem.lower())), key=lambda path: len(path.stem)
    )
    if not beside:
        raise source.error(
            "the motion of an AMC needs its skeleton",
            expected='skeleton="figure.asf", or that file beside it',
            found="none",
        )
    found = open_source(beside[-1])
    scene = asf.read(found, Options(unit=options.unit))
    source.notes += [f"the skeleton is {beside[-1].name}", *found.notes]
    return scene.skeleton


def _read_header(source: Source) -> tuple[int, bool | None, float | None]:
    """Return the offset of the frames, whether angles are in degrees, and the frame rate if it is stated."""
    degrees = fps = None
    known = False
    for match in _LINE.finditer(source.data):
        words = match.group().split()
        if not words or words[0].startswith(b"#"):
            continue
        key = words[0].lower()
        if not key.startswith(b":"):
            if not known:
                raise source.error(offset=match.start(), expected=":FULLY-SPECIFIED or :DEGREES", found=shown(words[0]))
            return match.start(), degrees, fps
        known = True
        if key in (b":degrees", b":radians"):
            degrees = key == b":degrees"
        elif key == b":samples-per-second" and len(words) > 1:
            try:
                fps = float(words[1])
            except ValueError:
                fps = np.nan
            if not 0 < fps < 1e7:
                raise source.error(offset=match.start(), expected="frames per second above 0", found=shown(words[1]))
    if not known:
        raise source.error(
            offset=len(source.data), expected=":FULLY-SPECIFIED or :DEGREES", found="the end of the file"
        )
    return len(source.data), degrees, fps


def _read_frames(source: Source, at: int, columns: dict) -> tuple[list[str], NDArray[np.float64]]:
    """Return the bones in the order of the first frame and their values (frames, all their columns)."""
    words = source.data[at:].split()
    names, width = _first_frame(words, columns)
    fast = _read_even_frames(words, names, width, columns) if names else None
    return fast or _read_frames_by_line(source, at, columns)


def _first_frame(words: list[bytes], columns: dict) -> tuple[list[str], int]:
    names: dict[str, None] = {}
    at = 1
    while at < len(words):
        name = decode_name(words[at])
        if name not in columns or name in names:
            break
        names[name] = None
        at += 1 + len(columns[name])
    return list(names), at


def _read_even_frames(
    words: list[bytes], names: list[str], width: int, columns: dict
) -> tuple[list[str], NDArray] | None:
    """Return names and values if every frame has the layout of the first, as in nearly every file; otherwise None."""
    if len(words) % width or max(map(len, words)) > _LONGEST_NUMBER:
        return None
    table = np.array(words).reshape(-1, width)
    sizes = [len(columns[name]) for name in names]
    labels = 1 + np.cumsum([0, *(1 + size for size in sizes[:-1])])
    numbers = np.setdiff1d(np.arange(1, width), labels)
    try:
        frames = table[:, 0].astype(np.int64)
        values = table[:, numbers].astype(np.float64)
    except (ValueError, OverflowError):
        return None
    even = (table[:, labels] == table[0, labels]).all() and (np.diff(frames) == 1).all() and np.isfinite(values).all()
    return (names, values) if even else None


def _read_frames_by_line(source: Source, at: int, columns: dict) -> tuple[list[str], NDArray[np.float64]]:
    """Read line by line: frames may list bones in any order, and errors name their line."""
    order: list[str] = []
    rows: list[list[float]] = []
    current: dict[str, list[float]] | None = None
    number = None

    def close(place: int) -> None:
        if current is None:
            return
        if not current:
            raise source.error(offset=place, expected=f"the bones of frame {number}", found="none")
        if not order:
            order.extend(current)
        lacking = [name for name in order if name not in current]
        if lacking or len(current) > len(order):
            extra = next((name for name in current if name not in order), "")
            what = (
                f"bone {lacking[0]!r} in frame {number}"
                if lacking
                else f"the bones of the first frame in frame {number}"
            )
            raise source.error(offset=place, expected=what, found="the end of the frame" if lacking else shown(extra))
        rows.append([value for name in order for value in current[name]])

    for match in _LINE.finditer(source.data, at):
        words = match.group().split()
        if not words or words[0].startswith(b"#"):
            continue
        place = match.start() + match.group().find(words[0])
        if len(words) == 1 and words[0].isdigit():
            close(place)
            if number is not None and int(words[0][:18]) != number + 1:
                raise source.error(offset=place, expected=f"frame {number + 1}", found=shown(words[0]))
            number, current = int(words[0][:18]), {}
            continue
        name = decode_name(words[0])
        if current is None:
            raise source.error(offset=place, expected="a frame number", found=shown(words[0]))
        if name not in columns or name in current:
            raise source.error(
                offset=place, expected="a bone of the skeleton, once a frame, or a frame number", found=shown(words[0])
            )
        current[name] = _values(source, place, words, len(columns[name]))
    close(len(source.data))
    return order, np.array(rows).reshape(len(rows), sum(len(columns[name]) for name in order))


def _values(source: Source, place: int, words: list[bytes], count: int) -> list[float]:
    name = words[0].decode("latin-1")
    if len(words) - 1 != count:
        raise source.error(offset=place, expected=f"{count} values for {name}", found=len(words) - 1)
    values = []
    for word in words[1:]:
        try:
            values.append(float(word))
        except ValueError:
            values.append(np.nan)
        if not np.isfinite(values[-1]):
            raise source.error(offset=place, expected=f"a number for {name}", found=shown(word))
    return values


def _poses(
    skeleton: Skeleton, columns: dict, root_frame: NDArray, names: list[str], values: NDArray, degrees: bool
) -> NDArray[np.float64]:
    """Return the poses (T, n) [m, rad]: each column at its degree of freedom."""
    index = {name: i for i, name in enumerate(skeleton.dof_names)}
    poses = np.repeat(skeleton.rest[None], len(values), axis=0)
    dofs = [dof for joint in skeleton.joints for dof in joint.motion.dofs]
    slides = {name for name, dof in zip(skeleton.dof_names, dofs, strict=True) if dof.kind == SLIDE}
    column = 0
    for name in names:
        for dof in columns[name]:
            if dof is not None and dof in index:
                scale = skeleton.unit if dof in slides else (np.pi / 180 if degrees else 1.0)
                poses[:, index[dof]] = values[:, column] * scale
            column += 1
    # The root's position is in the world's axes; its joint slides along those of its own frame.
    if "root" in names and not np.array_equal(root_frame, np.eye(3)):
        moving = [index[f"root.t{axis}"] for axis in "xyz"]
        poses[:, moving] = poses[:, moving] @ root_frame
    return poses


FORMAT = Format(
    "AMC", (".amc",), "motion of an ASF's skeleton", "degrees or radians as stated, lengths as in its ASF, 120 fps",
    sniff, read, write,
)  # fmt: skip
