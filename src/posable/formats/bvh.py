"""BVH: a hierarchy with channels, then one row of numbers per frame.

Conventions: degrees; y up; lengths in centimetres, because the file does not state a unit (`unit=` overrides it). A
joint's position channels take the place of its OFFSET, and translation comes before rotation whatever the order in
which the channels are listed: so do Blender, MotionBuilder and `bvhio`. The order of the rotation channels is
intrinsic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain as chain_parts
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE, TURN
from posable.errors import FormatError
from posable.formats.base import Format, Options, build_skeleton, depth_first
from posable.formats.conventions import (
    CENTIMETRES,
    constant_place,
    motion_or_rest,
    skeleton_with_up,
    slider_chains,
    unit_hint,
    zero_rotations,
)
from posable.formats.scene import Scene
from posable.formats.source import Source, decode_name, refuse_wide_text, shown
from posable.model.body_plan import SHORTEST, TALLEST, person_plan
from posable.model.joint_values import joint_transform
from posable.model.joints import Ball, Fixed, Free, Joint, Prismatic, Revolute, Site, Universal
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

# --- Writing ---

_ORDER = "ZXY"  # for joints other than Euler joints about the world's axes
_DIGITS = "%.12g"
_PART = 1 << 14  # frames formatted at a time


@dataclass
class _WrittenJoint:
    """A joint to write: its channels, and their values (T, k) in file units over some frames."""

    offset: NDArray[np.float64]
    channels: list[str] = field(default_factory=list)
    columns: list[NDArray[np.float64]] = field(default_factory=list)
    last: NDArray[np.float64] | None = None  # (1, k) [rad]: its angles in the last of them


def write(scene: Scene, suffix: str, options: Options) -> dict[str, Iterable[bytes]]:
    """Return the file in parts; a skeleton without motion is written with one frame at rest."""
    motion = motion_or_rest(scene)
    if motion is None:
        raise FormatError("BVH holds a skeleton and its motion", expected="a Motion or a Skeleton", found="neither")
    skeleton = skeleton_with_up(motion.skeleton, "y")
    unit = options.unit or (skeleton.unit if skeleton.info.get("format") == "bvh" else CENTIMETRES)
    world = zero_rotations(skeleton)
    chains = slider_chains(skeleton)
    written = {name: _bake(skeleton, chain, world, motion.poses[:1], unit) for name, chain in chains.items()}
    lines = ["HIERARCHY", *_hierarchy(skeleton, chains, written, world, unit), "MOTION", f"Frames: {len(motion)}"]
    lines.append(f"Frame Time: {1 / motion.fps:.10g}")
    head = ("\n".join(lines) + "\n").encode("utf-8")
    return {suffix: chain_parts([head], _frames(skeleton, chains, world, motion.poses, unit))}


def _frames(skeleton: Skeleton, chains: dict[str, list[Joint]], world: dict, poses: NDArray, unit: float):
    """Yield the lines of the frames in chunks, to save memory."""
    last: dict[str, NDArray | None] = {}
    for start in range(0, len(poses), _PART):
        columns = []
        for name in depth_first(_children(chains), None):
            baked = _bake(skeleton, chains[name], world, poses[start : start + _PART], unit, last.get(name))
            columns += baked.columns
            last[name] = baked.last
        if not columns:
            return
        row = " ".join([_DIGITS] * sum(column.shape[1] for column in columns)) + "\n"
        yield "".join(row % tuple(values) for values in np.concatenate(columns, axis=1)).encode("utf-8")


def _bake(
    skeleton: Skeleton, chain: list[Joint], world: dict, poses: NDArray, unit: float, last: NDArray | None = None
) -> _WrittenJoint:
    """Return a joint with its sliders as it is written; last (1, k) [rad] are its angles one frame before."""
    joint, came_so = chain[-1], skeleton.info.get("format") == "bvh"
    base = world[chain[0].parent] @ constant_place(chain[0])[0]
    out = _WrittenJoint(base / unit)
    slides = [dof.axis for member in chain for dof in member.motion.dofs if dof.kind == SLIDE]
    if slides:
        moved, moved_at_rest = np.repeat(base[None], len(poses), axis=0), base.copy()
        for member in chain:
            where = skeleton.index(member.name)
            moved += joint_transform(member.motion, poses[:, where])[0] @ world[member.name].T
            moved_at_rest += world[member.name] @ joint_transform(member.motion, skeleton.rest[where])[0]
        # some programs add a root's OFFSET to its channels and some do not; zero suits both
        out.offset = moved_at_rest / unit if came_so or chain[0].parent is not None else np.zeros(3)
        axes = sorted(slides) if came_so and len(chain) > 1 else [0, 1, 2]
        out.channels += ["XYZ"[axis] + "position" for axis in axes]
        out.columns.append(moved[:, axes] / unit)
    turns = [dof for dof in joint.motion.dofs if dof.kind != SLIDE]
    if turns:
        values, frame = poses[:, skeleton.index(joint.name)], world[joint.name]
        turned = joint_transform(joint.motion, values)[1]
        in_world = Rotation.from_matrix(frame) * turned * Rotation.from_matrix(frame.T)
        order, angles = _angles(frame @ joint.motion.basis, turns, values[:, -len(turns) :], in_world, last)
        out.last = angles[-1:]
        if not came_so:  # Blender opens no joint with one or two rotation channels
            missing = [axis for axis in _ORDER if axis not in order]
            order, angles = order + "".join(missing), np.pad(angles, ((0, 0), (0, len(missing))))
        out.channels += [f"{axis}rotation" for axis in order]
        out.columns.append(np.degrees(angles))
    if not out.channels:  # many readers refuse a joint without channels
        out.channels += [f"{axis}rotation" for axis in _ORDER]
        out.columns.append(np.zeros((len(poses), 3)))
    return out


def _angles(
    axes: NDArray, turns: list, values: NDArray, rotation: Rotation, last: NDArray | None
) -> tuple[str, NDArray]:
    """Return the rotation channels and their angles (T, k) [rad]: the joint's own if its axes are the world's.

    Others go on from last (1, k), the angles in the frame before, if there is one.
    """
    if all(dof.kind == TURN for dof in turns):
        columns = np.stack([dof.sign * axes[:, dof.axis] for dof in turns])
        aligned = np.abs(np.abs(columns).max(axis=1) - 1.0) < 1e-12
        index = np.abs(columns).argmax(axis=1)
        if aligned.all() and len(set(index)) == len(turns):
            return "".join("XYZ"[i] for i in index), values * np.sign(columns[np.arange(len(turns)), index])
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Gimbal lock", category=UserWarning)
        angles = rotation.as_euler(_ORDER) if len(values) else np.zeros((0, 3))
    if last is None:
        return _ORDER, np.unwrap(angles, axis=0)
    return _ORDER, np.unwrap(np.concatenate([last, angles]), axis=0)[1:]


def _children(chains: dict[str, list[Joint]]) -> dict[str | None, list[str]]:
    children: dict[str | None, list[str]] = {name: [] for name in (None, *chains)}
    for name, chain in chains.items():
        children[chain[0].parent].append(name)
    return children


def _hierarchy(
    skeleton: Skeleton, chains: dict[str, list[Joint]], written: dict[str, _WrittenJoint], world: dict, unit: float
) -> list[str]:
    children = _children(chains)
    lines: list[str] = []
    stack: list[tuple[str, int, bool]] = [(children[None][0], 0, True)]
    while stack:
        name, depth, opening = stack.pop()
        tab = "\t" * depth
        if not opening:
            lines.append(f"{tab}}}")
            continue
        joint = written[name]
        label = " ".join(name.replace("{", "(").replace("}", ")").split())
        lines += [f"{tab}{'JOINT' if depth else 'ROOT'} {label}", f"{tab}{{", f"{tab}\tOFFSET {_vector(joint.offset)}"]
        lines.append(" ".join([f"{tab}\tCHANNELS {len(joint.channels)}", *joint.channels]))
        if not children[name]:
            end = _end(skeleton, name)
            lines += [
                f"{tab}\tEnd Site",
                f"{tab}\t{{",
                f"{tab}\t\tOFFSET {_vector(world[name] @ end / unit)}",
                f"{tab}\t}}",
            ]
        stack.append((name, depth, False))
        stack += [(child, depth + 1, True) for child in reversed(children[name])]
    return lines


def _end(skeleton: Skeleton, name: str) -> NDArray:
    """Return the End Site of a leaf: that of the file, or its farthest site. Readers accept only one."""
    sites = [site for site in skeleton.sites if site.joint == name]
    came = [site for site in sites if site.name.startswith(f"{name}.end")]
    ends = [np.asarray(site.offset, dtype=float) for site in came[:1] or sites]
    return max(ends, key=lambda end: float(np.linalg.norm(end)), default=np.zeros(3))


def _vector(values: NDArray) -> str:
    return " ".join(_DIGITS % (value + 0.0) for value in values)


# --- Reading ---

CHANNELS = {f"{axis}{kind}": (kind[0], axis) for kind in ("position", "rotation") for axis in "xyz"}
_TOKEN = re.compile(rb"[{}]|[^\s{}]+")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FRAMES = re.compile(rb"\s*Frames\s*:?\s*([^\s{}]*)", re.IGNORECASE)
_FRAME_TIME = re.compile(rb"\s*Frame\s+Time\s*:?\s*([^\s{}]*)", re.IGNORECASE)
_REST_OF_LINE = re.compile(rb"[^\r\n{]*")


@dataclass
class _Node:
    """A ROOT or JOINT of the file."""

    name: str
    parent: int  # index of the node above, -1 for a root
    place: int  # byte offset of its name
    offset: list[float] | None = None  # [file units]
    channels: list[str] | None = None
    ends: list[list[float]] = field(default_factory=list)
    children: int = 0


class _Cursor:
    """Tokens of the hierarchy, one at a time."""

    def __init__(self, source: Source, at: int = 0):
        self.source = source
        self.at = at

    def next(self) -> tuple[bytes, int]:
        """Return the next token and where it starts; an empty token at the end of the file."""
        match = _TOKEN.search(self.source.data, self.at)
        if match is None:
            self.at = len(self.source.data)
            return b"", self.at
        self.at = match.end()
        return match.group(), match.start()

    def peek(self) -> bytes:
        at = self.at
        token, _ = self.next()
        self.at = at
        return token

    def expect(self, expected: str) -> int:
        token, place = self.next()
        if token.lower() != expected.lower().encode():
            raise self.wrong(expected, token, place)
        return place

    def wrong(self, expected: str, token: bytes, place: int):
        return self.source.error(
            offset=place, expected=expected, found=shown(token) if token else "the end of the file"
        )

    def rest_of_line(self) -> tuple[bytes, int]:
        """Return the rest of the line, up to a brace; names may contain blanks."""
        match = _REST_OF_LINE.match(self.source.data, self.at)
        text = match.group() if match else b""
        place = self.at + len(text) - len(text.lstrip())
        self.at += len(text)
        return text.strip(), place

    def number(self, what: str) -> float:
        token, place = self.next()
        value = float(token) if _NUMBER.fullmatch(token) else np.nan
        if not np.isfinite(value):
            raise self.wrong(what, token, place)
        return value

    def vector(self, what: str) -> list[float]:
        return [self.number(what) for _ in range(3)]


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is BVH."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:9].upper() == b"HIERARCHY"


def read(source: Source, options: Options) -> Scene:
    """Return the skeleton and the motion of a BVH file."""
    refuse_wide_text(source)
    cursor = _Cursor(source)
    cursor.expect("HIERARCHY")
    nodes = _read_hierarchy(cursor)
    unit = options.unit or CENTIMETRES
    skeleton, columns, scales = _build(source, nodes, unit)
    plan = person_plan(skeleton) if options.unit is None else None
    if plan is not None and not SHORTEST < plan.stature < TALLEST:
        hint = unit_hint(plan.stature, unit)
        source.note(f"BVH states no unit: in centimetres the person is {plan.stature:.3g} m tall; {hint}")
    channels = sum(len(node.channels or ()) for node in nodes)
    if not cursor.peek():
        source.warn("there is no MOTION; only the skeleton was read")
        return Scene(skeleton=skeleton)
    cursor.expect("MOTION")
    values, fps = _read_motion(source, cursor.at, channels)
    if not np.array_equal(columns, np.arange(channels)):
        values = values[:, columns]
    values *= scales
    motion = Motion(skeleton, values, fps, source.path.stem)
    return Scene(skeleton=skeleton, motion=motion, motions={motion.name: motion})


# ------------------------------------------------------------------------------------------------- the hierarchy


def _read_hierarchy(cursor: _Cursor) -> list[_Node]:
    nodes: list[_Node] = []
    while cursor.peek().upper() == b"ROOT":
        cursor.next()
        _read_tree(cursor, nodes)
    if not nodes:
        token, place = cursor.next()
        raise cursor.wrong("ROOT", token, place)
    return nodes


def _open_node(cursor: _Cursor, nodes: list[_Node], parent: int) -> int:
    name, place = cursor.rest_of_line()
    if not name:
        raise cursor.source.error(offset=place, expected="the name of a joint", found="nothing")
    cursor.expect("{")
    nodes.append(_Node(decode_name(name), parent, place))
    if parent >= 0:
        nodes[parent].children += 1
    return len(nodes) - 1


def _read_tree(cursor: _Cursor, nodes: list[_Node]) -> None:
    current = _open_node(cursor, nodes, -1)
    while current >= 0:
        node = nodes[current]
        token, place = cursor.next()
        keyword = token.upper()
        if keyword == b"OFFSET" and node.offset is None:
            node.offset = cursor.vector("a number of OFFSET")
        elif keyword == b"CHANNELS" and node.channels is None:
            node.channels = _read_channels(cursor)
        elif keyword == b"JOINT":
            current = _open_node(cursor, nodes, current)
        elif keyword == b"END":
            node.ends.append(_read_end_site(cursor))
        elif token == b"}":
            if node.offset is None:
                raise cursor.source.error(offset=place, expected=f"OFFSET of {node.name!r} before its end", found="'}'")
            current = node.parent
        else:
            raise cursor.wrong(f"OFFSET, CHANNELS, JOINT, End Site or '}}' in {node.name!r}", token, place)


def _read_end_site(cursor: _Cursor) -> list[float]:
    cursor.rest_of_line()
    cursor.expect("{")
    cursor.expect("OFFSET")
    offset = cursor.vector("a number of OFFSET")
    if cursor.peek().upper() == b"CHANNELS":
        cursor.next()
        cursor.expect("0")
    cursor.expect("}")
    return offset


def _read_channels(cursor: _Cursor) -> list[str]:
    token, place = cursor.next()
    if not token.isdigit() or len(token) > 2:
        raise cursor.wrong("the number of channels", token, place)
    channels: list[str] = []
    for _ in range(int(token)):
        token, place = cursor.next()
        channel = token.decode("latin-1").lower()
        if channel not in CHANNELS:
            raise cursor.wrong(
                "a channel: Xposition, Yposition, Zposition, Xrotation, Yrotation or Zrotation", token, place
            )
        channels.append(channel)
    turns = [channel for channel in channels if channel.endswith("rotation")]
    slides = [channel for channel in channels if channel.endswith("position")]
    if len(turns) > 3 or len(set(slides)) < len(slides) or any(a == b for a, b in pairwise(turns)):
        raise cursor.source.error(
            offset=place, expected="at most three positions and three rotations, none twice", found=" ".join(channels)
        )
    return channels


# --------------------------------------------------------------------------------------------------- the skeleton


def _build(source: Source, nodes: list[_Node], unit: float) -> tuple[Skeleton, NDArray[np.intp], NDArray[np.float64]]:
    """Return the skeleton and, for each degree of freedom, its column in the file and its scale to SI."""
    names = source.unique([node.name for node in nodes], "joint")
    taken = set(names)
    joints: list[Joint] = []
    sites: list[Site] = []
    columns: list[int] = []
    scales: list[float] = []
    root = None
    if sum(node.parent < 0 for node in nodes) > 1:
        root = _free_name("scene", taken)
        source.warn(f"several ROOTs were joined below a fixed joint {root!r}")
        joints.append(Joint(root, Fixed()))
    first = 0
    for name, node in zip(names, nodes, strict=True):
        parent = names[node.parent] if node.parent >= 0 else root
        order = _joints_of(node, name, parent, unit, taken, joints)
        place = {channel: first + i for i, channel in enumerate(node.channels or ())}
        turns = iter([first + i for i, channel in enumerate(node.channels or ()) if channel.endswith("rotation")])
        for channel in order:
            columns.append(place[channel] if channel.endswith("position") else next(turns))
            scales.append(unit if channel.endswith("position") else np.pi / 180)
        first += len(node.channels or ())
        ends = node.ends or ([[0.0, 0.0, 0.0]] if not node.children else [])
        for k, end in enumerate(ends):
            site = _free_name(f"{name}.end{k + 1 if k else ''}", taken)
            sites.append(Site(site, name, np.array(end) * unit))
    info = {"format": "bvh"}
    skeleton = build_skeleton(source, joints, sites, name=source.path.stem, up="y", unit=unit, info=info)
    return skeleton.with_rigid_bones(), np.array(columns, dtype=np.intp), np.array(scales)


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    taken.add(name)
    return name


def _joints_of(
    node: _Node, name: str, parent: str | None, unit: float, taken: set[str], joints: list[Joint]
) -> list[str]:
    """Append the joints of a node, the last of which has its name; return its channels in their order.

    Six channels are one Free joint. Fewer position channels are sliders above the joint, named `name.tx` and so on.
    """
    channels = node.channels or []
    slides = sorted(channel for channel in channels if channel.endswith("position"))
    turns = [channel for channel in channels if channel.endswith("rotation")]
    order = "".join(channel[0] for channel in turns)
    offset = np.array(node.offset) * unit
    if len(slides) == len(turns) == 3:
        rest = (*offset, 0.0, 0.0, 0.0)
        joints.append(Joint(name, Free(order), parent, rest=rest))
        return [*slides, *turns]
    for slide in slides:
        axis = "xyz".index(slide[0])
        slider = _free_name(f"{name}.t{slide[0]}", taken)
        base = np.where([f"{a}position" in slides for a in "xyz"], 0.0, offset) if slide == slides[0] else np.zeros(3)
        joints.append(Joint(slider, Prismatic(slide[0]), parent, offset=base, rest=float(offset[axis])))
        parent = slider
    motion = {0: Fixed, 1: Revolute, 2: Universal, 3: Ball}[len(turns)]
    joints.append(Joint(name, motion(*([order] if order else [])), parent, offset=np.zeros(3) if slides else offset))
    return [*slides, *turns]


# ----------------------------------------------------------------------------------------------------- the motion


def _read_motion(source: Source, at: int, channels: int) -> tuple[NDArray[np.float64], float]:
    """Return the values (frames, channels) of the file, and the frames per second."""
    data = source.data
    header = _FRAMES.match(data, at)
    if header is None:
        token, place = _Cursor(source, at).next()
        raise source.error(offset=place, expected="Frames:", found=shown(token) if token else "the end of the file")
    if not header[1].isdigit():
        raise source.error(offset=header.start(1), expected="the number of frames", found=shown(header[1]))
    timing = _FRAME_TIME.match(data, header.end())
    if timing is None:
        token, place = _Cursor(source, header.end()).next()
        raise source.error(offset=place, expected="Frame Time:", found=shown(token) if token else "the end of the file")
    stated = int(header[1]) if len(header[1]) < 16 else 10**15
    rate = _frame_rate(source, timing, has_frames=bool(data[timing.end() : timing.end() + 4096].strip()))
    values = _numbers(source, timing.end())
    if not channels:
        if len(values):
            raise source.error(
                offset=_place_of(source, timing.end(), 0),
                expected="no numbers: no joint has channels",
                found=len(values),
            )
        return np.zeros((0, 0)), rate
    frames, rest = divmod(len(values), channels)
    if rest:
        raise source.error(
            f"frame {frames + 1} is cut short",
            offset=len(data),
            expected=f"{channels} numbers",
            found=f"{rest}, then the end of the file",
        )
    if frames != stated:
        source.warn(f"the header states {header[1][:20].decode()} frames, the file has {frames}; {frames} were read")
    return values.reshape(frames, channels), rate


def _frame_rate(source: Source, timing: re.Match[bytes], *, has_frames: bool) -> float:
    """Return frames per second: 120 instead of 119.99 if the file has rounded 1/120."""
    token = timing[1]
    seconds = float(token) if _NUMBER.fullmatch(token) else np.nan
    if seconds == 0 and not has_frames:
        source.warn("Frame Time is 0 and there are no frames; 30 frames per second are assumed")
        return 30.0
    if not (np.isfinite(seconds) and 1e-9 < seconds < 1e9):
        hint = "with a decimal point, " if b"," in token else ""
        raise source.error(
            offset=timing.start(1), expected=f"the seconds between two frames, {hint}above 0", found=shown(token)
        )
    fps = 1.0 / seconds
    whole = round(fps)
    digits = len(token.partition(b".")[2])
    if (
        whole
        and abs(fps - whole) < 2e-3 * whole
        and digits < 20
        and f"{1 / whole:.{digits}f}" == f"{seconds:.{digits}f}"
    ):
        return float(whole)
    return fps


def _numbers(source: Source, at: int) -> NDArray[np.float64]:
    """Return all numbers from byte `at` on. Positions of errors are determined only if there are any."""
    text = source.data[at:].rstrip(b" \t\r\n\x1a")
    if not text.strip():
        return np.zeros(0)
    from posable.formats.number_text import parse_numbers  # not needed for writing

    values = parse_numbers(text)
    if values is not None and np.isfinite(values).all():
        return values
    for match in _TOKEN.finditer(source.data, at):
        if not _NUMBER.fullmatch(match.group()) or not np.isfinite(float(match.group())):
            raise source.error(offset=match.start(), expected="a number", found=shown(match.group()))
    raise source.error(offset=at, expected="numbers", found="something else")


def _place_of(source: Source, at: int, index: int) -> int:
    for i, match in enumerate(_TOKEN.finditer(source.data, at)):
        if i == index:
            return match.start()
    return len(source.data)


FORMAT = Format(
    "BVH", (".bvh",), "a skeleton, its motion",
    "degrees, y up, centimetres unless `unit` says otherwise; written in centimetres or as the BVH it came from",
    sniff, read, write,
)  # fmt: skip
