"""ASF, read and written: the skeleton of an Acclaim pair. The AMC with its motion is written here too.

A bone starts where its parent ends. `axis` gives the orientation C of its degrees of freedom in the world, in the
zero pose, and a turn M about them moves it by C M C'. Here a bone is the joint at its start, with C as the joint's
frame: its constant rotation is C_parent' C_bone and its motion is M. A list `rx ry rz` turns about x first, then the
fixed y and z: intrinsic "zyx". Lengths are in inches after division by the stated `length` (0.45 in every Vicon
file); y is up.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE, TURN
from posable.errors import FormatError
from posable.formats.base import Format, Options, bound_count, build_skeleton, depth_first
from posable.formats.conventions import (
    INCH,
    constant_place,
    motion_or_rest,
    skeleton_with_up,
    slider_chains,
    zero_rotations,
)
from posable.formats.scene import Scene
from posable.formats.source import Source, decode_name, refuse_wide_text, shown
from posable.model.joint_values import joint_transform
from posable.model.joints import Ball, Fixed, Free, Joint, Prismatic, Revolute, Site, Universal, limits_of
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

# --- Writing ASF and AMC ---

Floats = NDArray[np.float64]
VICON = 0.45
_DIGITS = "%.12g"


@dataclass
class _WrittenBone:
    """A bone to write; `columns` (T, k) are its AMC values in file units."""

    name: str
    parent: str
    vector: Floats  # start to end, in the world's axes at zero [file units]
    frame: Floats  # C
    dofs: list[str] = field(default_factory=list)
    limits: list[tuple[float, float]] = field(default_factory=list)
    columns: Floats = field(default_factory=lambda: np.zeros((0, 0)))


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the ASF and, if the suffix is .amc, the AMC beside it."""
    motion = motion_or_rest(scene)
    if motion is None:
        raise FormatError(
            "ASF and AMC hold a skeleton and its motion", expected="a Motion or a Skeleton", found="neither"
        )
    motion = Motion(skeleton_with_up(motion.skeleton, "y"), motion.poses, motion.fps, motion.name)
    skeleton = motion.skeleton
    came_so = skeleton.info.get("format") == "asf"
    unit = options.unit or (skeleton.unit if came_so else INCH / VICON)
    root, bones = _bones(motion, unit)
    files = {".asf": _asf_text(skeleton, root, bones, unit).encode("utf-8")}
    if suffix == ".amc":
        files[".amc"] = _amc_text(root, bones, motion.fps).encode("utf-8")
    return files


# ------------------------------------------------------------------------------------------------------ the bones


def _bones(motion: Motion, unit: float) -> tuple[_WrittenBone, list[_WrittenBone]]:
    skeleton = motion.skeleton
    world, chains = zero_rotations(skeleton), slider_chains(skeleton)
    names = _bone_names(chains)
    top = skeleton.joints[0]
    free_root = isinstance(top.motion, Free)
    root = _bone(skeleton, [top], world, motion.poses, unit) if free_root else _still_root(len(motion))
    root.name, root.vector = "root", constant_place(top)[0] / unit if free_root else np.zeros(3)
    names[top.name] = "root" if free_root else names.get(top.name, "")
    bones: list[_WrittenBone] = []
    ends: dict[str, Floats] = {}
    for name, chain in chains.items():
        above = chain[0].parent
        is_root = above is None and free_root
        ends[name] = np.zeros(3) if is_root else _shared_end(skeleton, chains, name, world, unit)
        if is_root:
            continue
        start = world[above] @ constant_place(chain[0])[0] / unit
        reached = ends[above] if above is not None else np.zeros(3)
        parent = names[above] if above is not None else "root"
        if np.abs(start - reached).max() > 1e-12:
            link = _fresh(f"{parent}_to_{names[name]}", names)
            bones.append(_WrittenBone(link, parent, start - reached, np.eye(3)))
            parent = link
        bone = _bone(skeleton, chain, world, motion.poses, unit)
        bone.name, bone.parent, bone.vector = names[name], parent, ends[name]
        bones.append(bone)
    return root, bones


def _still_root(frames: int) -> _WrittenBone:
    return _WrittenBone(
        "root", "", np.zeros(3), np.eye(3), ["tx", "ty", "tz", "rx", "ry", "rz"], [], np.zeros((frames, 6))
    )


def _bone_names(chains: dict[str, list[Joint]]) -> dict[str, str]:
    """Return the name of each joint's bone: one word, and not `root`."""
    names: dict[str, str] = {}
    for name in chains:
        wanted = "_".join(name.split())
        names[name] = _fresh("root_joint" if wanted == "root" else wanted.lstrip("#:") or "bone", names)
    return names


def _fresh(wanted: str, names: dict[str, str]) -> str:
    taken, name, number = set(names.values()), wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    names.setdefault(name, name)
    return name


def _shared_end(skeleton: Skeleton, chains: dict[str, list[Joint]], name: str, world: dict, unit: float) -> Floats:
    """Return the common start of all children of a joint, in world axes at the zero pose [file units]; zero if none."""
    starts = [constant_place(chain[0])[0] for chain in chains.values() if chain[0].parent == name]
    if not starts:
        starts = [np.asarray(site.offset, dtype=float) for site in skeleton.sites if site.joint == name][:1]
    same = bool(starts) and max(np.abs(start - starts[0]).max() for start in starts) < 1e-12
    return world[name] @ starts[0] / unit if same else np.zeros(3)


def _bone(skeleton: Skeleton, chain: list[Joint], world: dict, poses: Floats, unit: float) -> _WrittenBone:
    """Return the bone of a joint: its own angles if they are about its frame's axes, otherwise baked to rx ry rz."""
    joint = chain[-1]
    basis = joint.motion.basis
    out = _WrittenBone("", "", np.zeros(3), world[joint.name] @ basis)
    columns: list[Floats] = []
    if joint.parent is None and any(dof.kind == SLIDE for dof in joint.motion.dofs):  # in the world's axes
        moved = joint_transform(joint.motion, poses[:, skeleton.index(joint.name)])[0]
        columns.append(moved @ world[joint.name].T / unit)
        out.dofs += ["tx", "ty", "tz"]
        out.limits += [(-np.inf, np.inf)] * 3
    else:
        for member in chain:
            _add_slides(out, columns, member, poses[:, skeleton.index(member.name)], unit)
    values = poses[:, skeleton.index(joint.name)]
    turns = [(i, dof) for i, dof in enumerate(joint.motion.dofs) if dof.kind != SLIDE]
    box = limits_of(joint)
    if all(dof.kind == TURN for _, dof in turns) and len({dof.axis for _, dof in turns}) == len(turns):
        for i, dof in reversed(turns):
            out.dofs.append("r" + "xyz"[dof.axis])
            columns.append(np.degrees(dof.sign * values[:, i : i + 1]))
            out.limits.append(_signed(np.degrees(box[i]), dof.sign))  # type: ignore[index]  # a joint with dofs
    else:
        rotation = (
            Rotation.from_matrix(basis.T) * joint_transform(joint.motion, values)[1] * Rotation.from_matrix(basis)
        )
        out.dofs += ["rx", "ry", "rz"]
        columns.append(np.degrees(_unwrapped(rotation, len(values))))
        out.limits += [(-np.inf, np.inf)] * 3
    out.columns = np.concatenate(columns, axis=1) if columns else out.columns
    return out


def _add_slides(out: _WrittenBone, columns: list[Floats], joint: Joint, values: Floats, unit: float) -> None:
    box = limits_of(joint)
    for i, dof in enumerate(joint.motion.dofs):
        if dof.kind == SLIDE:
            out.dofs.append("t" + "xyz"[dof.axis])
            columns.append(dof.sign * values[:, i : i + 1] / unit)
            out.limits.append(_signed(box[i] / unit, dof.sign))  # type: ignore[index]  # a joint with dofs


def _signed(pair: Floats, sign: float) -> tuple[float, float]:
    low, high = sorted(sign * np.asarray(pair, dtype=float))
    return float(low), float(high)


def _unwrapped(rotation: Rotation, frames: int) -> Floats:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Gimbal lock", category=UserWarning)
        return np.unwrap(rotation.as_euler("xyz"), axis=0) if frames else np.zeros((0, 3))


# ------------------------------------------------------------------------------------------------------- the text


def _asf_text(skeleton: Skeleton, root: _WrittenBone, bones: list[_WrittenBone], unit: float) -> str:
    lines = [
        "# Acclaim skeleton, y up, written by Posable", ":version 1.10", f":name {skeleton.name or 'figure'}", ":units",
        "  mass 1.0", f"  length {_DIGITS % (INCH / unit)}", "  angle deg", ":documentation",
        f"   the root is the joint {skeleton.joints[0].name}", ":root",
        f"   order {' '.join(root.dofs).upper()}", "   axis XYZ", f"   position {_vector(root.vector)}",
        f"   orientation {_vector(_axis_angles(root.frame))}", ":bonedata",
    ]  # fmt: skip
    for number, bone in enumerate(bones, 1):
        length = float(np.linalg.norm(bone.vector))
        direction = bone.vector / length if length else np.array([0.0, 0.0, 1.0])
        lines += [
            "  begin", f"     id {number}", f"     name {bone.name}", f"     direction {_vector(direction)}",
            f"     length {_DIGITS % length}", f"     axis {_vector(_axis_angles(bone.frame))} XYZ",
        ]  # fmt: skip
        if bone.dofs:
            lines.append(f"    dof {' '.join(bone.dofs)}")
            pairs = [f"({low:.12g} {high:.12g})" for low, high in bone.limits]
            lines += [f"    {'limits' if i == 0 else '      '} {pair}" for i, pair in enumerate(pairs)]
        lines.append("  end")
    lines += [":hierarchy", "  begin"]
    children: dict[str, list[str]] = {}
    for bone in bones:
        children.setdefault(bone.parent, []).append(bone.name)
    lines += [f"    {parent} {' '.join(names)}" for parent, names in children.items()]
    return "\n".join([*lines, "  end"]) + "\n"


def _axis_angles(frame: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Gimbal lock", category=UserWarning)
        return Rotation.from_matrix(frame).as_euler("xyz", degrees=True)


def _amc_text(root: _WrittenBone, bones: list[_WrittenBone], fps: float) -> str:
    moving = [bone for bone in (root, *bones) if bone.dofs]
    rows = [" ".join([bone.name.replace("%", "%%"), *[_DIGITS] * len(bone.dofs)]) for bone in moving]
    template = "\n".join(["%d", *rows])
    lines = ["#!OML:ASF written by Posable", ":FULLY-SPECIFIED", f":SAMPLES-PER-SECOND {fps:.12g}", ":DEGREES"]
    table = np.concatenate([bone.columns for bone in moving], axis=1)
    lines += [template % (i + 1, *values) for i, values in enumerate(table)]
    return "\n".join(lines) + "\n"


def _vector(values: Floats) -> str:
    return " ".join(_DIGITS % (value + 0.0) for value in values)


# --- Reading ASF ---

_LINE = re.compile(rb"[^\r\n]+")
_PAIR = re.compile(rb"\(([^()]*)\)")
_START = re.compile(
    rb"\s*(?:#[^\r\n]*[\r\n]+\s*)*:(?:version|name|units|documentation|root|bonedata|hierarchy)", re.IGNORECASE
)
_DOFS = ("tx", "ty", "tz", "rx", "ry", "rz", "l")
_ROOT_ORDER = ("tx", "ty", "tz", "rx", "ry", "rz")


@dataclass
class _Bone:
    name: str
    place: int
    direction: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))  # of length 1
    length: float = 0.0
    frame: NDArray[np.float64] = field(default_factory=lambda: np.eye(3))  # C
    dofs: list[str] = field(default_factory=list)
    limits: list[tuple[float, float]] = field(default_factory=list)
    mass: float = 0.0
    center: float = 0.0

    def end(self) -> NDArray[np.float64]:
        """The end of the bone in the frame of its joint [file units]."""
        return self.frame.T @ (self.direction * self.length)


@dataclass
class _Figure:
    name: str = ""
    mass: float = 1.0
    length: float = 1.0
    degrees: bool = True
    order: tuple[str, ...] = _ROOT_ORDER
    axis: str = "XYZ"
    position: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    orientation: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    bones: dict[str, _Bone] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    def radians(self, values):
        return np.radians(values) if self.degrees else np.asarray(values, dtype=float)

    @property
    def root_frame(self) -> NDArray[np.float64]:
        return fixed_axes(self.axis, self.radians(self.orientation))


def fixed_axes(order: str, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation (3, 3) about fixed axes, leftmost first: "XYZ" is Rz Ry Rx."""
    return Rotation.from_euler(order.lower(), angles).as_matrix()


class _Lines:
    """The non-empty lines of an ASF: first word, other words and byte offset."""

    def __init__(self, source: Source):
        self.source = source
        self.lines = [(match.start(), match.group()) for match in _LINE.finditer(source.data)]
        self.lines = [(at, text) for at, text in self.lines if text.strip() and not text.lstrip().startswith(b"#")]
        self.at = 0

    def __bool__(self) -> bool:
        return self.at < len(self.lines)

    def peek(self) -> tuple[int, list[bytes]]:
        at, text = self.lines[self.at]
        return at + len(text) - len(text.lstrip()), text.split()

    def next(self) -> tuple[int, list[bytes], bytes]:
        at, words = self.peek()
        self.at += 1
        return at, words, self.lines[self.at - 1][1]

    def end_error(self, expected: str):
        return self.source.error(offset=len(self.source.data), expected=expected, found="the end of the file")


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is ASF."""
    return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(source: Source, options: Options) -> Scene:
    """Return the skeleton of an ASF file."""
    refuse_wide_text(source)
    figure, lines = _Figure(), _Lines(source)
    sections = {b":units": _read_units, b":root": _read_root, b":bonedata": _read_bones, b":hierarchy": _read_hierarchy}
    seen = set()
    while lines:
        at, words, text = lines.next()
        keyword = words[0].lower()
        if keyword == b":name" and len(words) > 1:
            figure.name = decode_name(text.split(None, 1)[1].strip())
        elif keyword in sections:
            seen.add(keyword)
            sections[keyword](source, lines, figure)
        elif not seen and not keyword.startswith(b":"):
            raise source.error(offset=at, expected="a section such as :version or :bonedata", found=shown(words[0]))
    for needed in (b":bonedata", b":hierarchy"):
        if needed not in seen:
            raise lines.end_error(needed.decode())
    return Scene(skeleton=_build(source, figure, options))


def _numbers(source: Source, at: int, words: list[bytes], count: int, what: str) -> list[float]:
    values = []
    for word in words[:count]:
        try:
            value = float(word)
        except ValueError:
            value = np.nan
        if not abs(value) < 1e100:  # its square must stay finite
            raise source.error(offset=at, expected=f"{count} values for {what}", found=shown(word))
        values.append(value)
    if len(values) < count:
        raise source.error(offset=at, expected=f"{count} values for {what}", found=f"{len(values)}")
    return values


def _axis_order(source: Source, at: int, word: bytes) -> str:
    order = word.decode("latin-1").upper()
    if len(order) != 3 or set(order) != set("XYZ"):
        raise source.error(offset=at, expected="an order such as XYZ", found=shown(word))
    return order


def _read_units(source: Source, lines: _Lines, figure: _Figure) -> None:
    while lines and not lines.peek()[1][0].startswith(b":"):
        at, words, _ = lines.next()
        key = words[0].lower()
        if key in (b"mass", b"length"):
            (value,) = _numbers(source, at, words[1:], 1, key.decode())
            if not value > 1e-100:
                raise source.error(offset=at, expected=f"a {key.decode()} unit above 0", found=value)
            setattr(figure, key.decode(), value)
        elif key == b"angle":
            unit = words[1].lower() if len(words) > 1 else b""
            if not unit.startswith((b"deg", b"rad")):
                raise source.error(offset=at, expected="angle deg or angle rad", found=shown(unit))
            figure.degrees = unit.startswith(b"deg")


def _read_root(source: Source, lines: _Lines, figure: _Figure) -> None:
    while lines and not lines.peek()[1][0].startswith(b":"):
        at, words, _ = lines.next()
        key = words[0].lower()
        if key == b"order":
            figure.order = tuple(word.decode("latin-1").lower() for word in words[1:])
            turns = [dof for dof in figure.order if dof.startswith("r")]
            if (
                sorted(figure.order) != sorted(set(figure.order))
                or not set(figure.order) <= set(_ROOT_ORDER)
                or len(turns) != 3
            ):
                raise source.error(
                    offset=at, expected="an order such as TX TY TZ RX RY RZ", found=shown(b" ".join(words[1:]))
                )
        elif key == b"axis":
            figure.axis = _axis_order(source, at, words[1] if len(words) > 1 else b"")
        elif key in (b"position", b"orientation"):
            setattr(figure, key.decode(), np.array(_numbers(source, at, words[1:], 3, key.decode())))


def _read_bones(source: Source, lines: _Lines, figure: _Figure) -> None:
    while lines and not lines.peek()[1][0].startswith(b":"):
        at, words, _ = lines.next()
        if words[0].lower() != b"begin":
            raise source.error(offset=at, expected="begin", found=shown(words[0]))
        bone = _read_bone(source, lines, figure, at)
        if bone.name == "root" or bone.name in figure.bones:
            raise source.error(offset=bone.place, expected="a unique bone name", found=shown(bone.name))
        figure.bones[bone.name] = bone
        bound_count(source, len(figure.bones), "bones")


def _read_bone(source: Source, lines: _Lines, figure: _Figure, begin: int) -> _Bone:
    bone = _Bone("", begin)
    given = set()
    while lines:
        at, words, text = lines.next()
        key = words[0].decode("latin-1").lower()
        if key == "end":
            missing = {"name", "direction", "length"} - given
            if missing:
                raise source.error(offset=at, expected=f"{sorted(missing)[0]} of bone {bone.name!r}", found="end")
            return bone
        if key.startswith(":"):
            raise source.error(offset=at, expected=f"end of bone {bone.name!r}", found=shown(words[0]))
        given.add(key)
        if key == "name":
            bone.name, bone.place = decode_name(words[1]) if len(words) > 1 else "", at
            if not bone.name:
                raise source.error(offset=at, expected="the name of a bone", found="nothing")
        elif key == "direction":
            direction = np.array(_numbers(source, at, words[1:], 3, "direction"))
            bone.direction = direction / (np.linalg.norm(direction) or 1.0)  # files round to six digits
        elif key == "length":
            (bone.length,) = _numbers(source, at, words[1:], 1, "length")
        elif key == "axis":
            angles = _numbers(source, at, words[1:], 3, "axis")
            order = _axis_order(source, at, words[4] if len(words) > 4 else figure.axis.encode())
            bone.frame = fixed_axes(order, figure.radians(angles))
        elif key == "dof":
            bone.dofs = _dof_list(source, at, words[1:])
        elif key == "bodymass":
            (bone.mass,) = _numbers(source, at, words[1:], 1, "bodymass")
        elif key == "cofmass":
            (bone.center,) = _numbers(source, at, words[1:], 1, "cofmass")
        elif key == "limits":
            bone.limits = _read_limits(source, lines, at, text)
    raise lines.end_error(f"end of bone {bone.name!r}")


def _dof_list(source: Source, at: int, words: list[bytes]) -> list[str]:
    dofs = [word.decode("latin-1").lower() for word in words]
    if not set(dofs) <= set(_DOFS) or len(set(dofs)) < len(dofs):
        raise source.error(
            offset=at, expected="degrees of freedom among rx ry rz tx ty tz l", found=shown(b" ".join(words))
        )
    return dofs


def _read_limits(source: Source, lines: _Lines, at: int, text: bytes) -> list[tuple[float, float]]:
    """Return the pairs of limits, which continue on lines that start with a parenthesis."""
    while lines and lines.lines[lines.at][1].lstrip().startswith(b"("):
        text += b" " + lines.next()[2]
    pairs = []
    for match in _PAIR.finditer(text):
        words = match[1].replace(b",", b" ").split()
        try:
            low, high = (float(word) for word in words)
        except ValueError:
            raise source.error(offset=at, expected="a pair of limits", found=shown(match[0])) from None
        if not low <= high:
            raise source.error(offset=at, expected="a lower limit below the upper", found=shown(match[0]))
        pairs.append((low, high))
    return pairs


def _read_hierarchy(source: Source, lines: _Lines, figure: _Figure) -> None:
    while lines and not lines.peek()[1][0].startswith(b":"):
        at, words, _ = lines.next()
        if words[0].lower() in (b"begin", b"end"):
            continue
        parent, *children = (decode_name(word) for word in words)
        if parent != "root" and parent not in figure.bones:
            raise source.error(offset=at, expected="root or the name of a bone", found=shown(parent))
        for child in children:
            if child not in figure.bones:
                raise source.error(offset=at, expected="the name of a bone", found=shown(child))
            if child in figure.parents:
                raise source.error(
                    offset=at, expected=f"one parent of {child!r}", found=f"{figure.parents[child]!r} and {parent!r}"
                )
            figure.parents[child] = parent


# --------------------------------------------------------------------------------------------------- the skeleton


def _parents_first(source: Source, figure: _Figure) -> list[str]:
    children: dict[str, list[str]] = {}
    for child, parent in figure.parents.items():
        children.setdefault(parent, []).append(child)
    order = depth_first(children, "root")
    lost = sorted(set(figure.parents) - set(order))
    if lost:
        raise source.error(
            offset=figure.bones[lost[0]].place,
            expected="every bone below root",
            found=f"a cycle through {', '.join(lost[:5])}",
        )
    loose = sorted(set(figure.bones) - set(order))
    if loose:
        source.warn(f"bones that are not in :hierarchy were ignored: {', '.join(loose[:5])}")
    return order


def _build(source: Source, figure: _Figure, options: Options):
    unit = options.unit or INCH / figure.length
    taken = {"root", *figure.bones}
    joints: list[Joint] = []
    columns: dict[str, tuple[str | None, ...]] = {}
    frame = figure.root_frame
    turns = "".join(dof[1] for dof in reversed(figure.order) if dof.startswith("r"))
    joints.append(Joint("root", Free(turns), offset=figure.position * unit, rotation=frame))
    columns["root"] = tuple(f"root.{dof if dof.startswith('t') else dof[1]}" for dof in figure.order)
    frames = {"root": frame}
    ends = {"root": np.zeros(3)}
    for name in _parents_first(source, figure):
        bone, parent = figure.bones[name], figure.parents[name]
        place = (ends[parent] * unit, frames[parent].T @ bone.frame)
        columns[name] = _bone_joints(source, figure, bone, parent, place, unit, taken, joints)
        frames[name], ends[name] = bone.frame, bone.end()
    inner = set(figure.parents.values())
    sites = [Site(f"{name}.end", name, ends[name] * unit) for name in frames if name not in inner]
    info = {"format": "asf", "amc": {"columns": columns, "root_frame": frame, "degrees": figure.degrees}}
    return build_skeleton(source, joints, sites, name=figure.name or source.path.stem, up="y", unit=unit, info=info)


def _bone_joints(
    source: Source,
    figure: _Figure,
    bone: _Bone,
    parent: str,
    place: tuple,
    unit: float,
    taken: set[str],
    joints: list[Joint],
) -> tuple[str | None, ...]:
    """Append the joints of a bone, the last of which has its name; return the dof of each AMC column."""
    limits = _limits(source, figure, bone, unit)
    slides = sorted(dof for dof in bone.dofs if dof.startswith("t"))
    order = "".join(dof[1] for dof in reversed(bone.dofs) if dof.startswith("r"))
    offset, rotation = place
    body = {"mass": max(bone.mass * figure.mass, 0.0), "center": bone.frame.T @ (bone.direction * bone.center) * unit}
    if "l" in bone.dofs:
        source.warn(f"bone {bone.name!r} changes its length (dof l): that column is ignored")
    if len(slides) == 3 and len(order) == 3:
        box = [limits[dof] for dof in (*slides, *(f"r{axis}" for axis in order))]
        joints.append(Joint(bone.name, Free(order), parent, offset=offset, rotation=rotation, limits=box, **body))
        return tuple(None if dof == "l" else f"{bone.name}.{dof if dof in slides else dof[1]}" for dof in bone.dofs)
    names: dict[str, str | None] = {"l": None}
    for slide in slides:
        slider = f"{bone.name}.{slide}"
        while slider in taken:
            slider += "_"
        taken.add(slider)
        joints.append(
            Joint(slider, Prismatic(slide[1]), parent, offset=offset, rotation=rotation, limits=limits[slide])
        )
        parent, offset, rotation, names[slide] = slider, np.zeros(3), None, slider
    motion = {0: Fixed, 1: Revolute, 2: Universal, 3: Ball}[len(order)]
    box = [limits[f"r{axis}"] for axis in order] or None
    moving = motion(order) if order else Fixed()
    joints.append(Joint(bone.name, moving, parent, offset=offset, rotation=rotation, limits=box, **body))
    names |= {f"r{axis}": bone.name if len(order) == 1 else f"{bone.name}.{axis}" for axis in order}
    return tuple(names[dof] for dof in bone.dofs)


def _limits(source: Source, figure: _Figure, bone: _Bone, unit: float) -> dict[str, tuple[float, float]]:
    if bone.limits and len(bone.limits) != len(bone.dofs):
        source.warn(
            f"bone {bone.name!r} has {len(bone.dofs)} degrees of freedom and {len(bone.limits)} limits: all ignored"
        )
    if len(bone.limits) != len(bone.dofs):
        return dict.fromkeys(_DOFS, (-np.inf, np.inf))
    scale = {"r": np.pi / 180 if figure.degrees else 1.0, "t": unit, "l": unit}
    return {
        dof: (low * scale[dof[0]], high * scale[dof[0]])
        for dof, (low, high) in zip(bone.dofs, bone.limits, strict=True)
    }


FORMAT = Format(
    "ASF", (".asf",), "a skeleton with limits",
    "inches divided by the stated length, degrees or radians as stated, y up",
    sniff, read, write,
)  # fmt: skip
