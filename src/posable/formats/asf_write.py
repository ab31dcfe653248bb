"""ASF and AMC, written as a pair: inches divided by 0.45 or the unit that the figure came in, degrees, y up.

A bone has one end, and every child starts there. So a joint whose children start in one place is one bone that ends
there; otherwise it is a bone without length, and a fixed bone leads from it to each child. The root of an ASF is
always called `root`; a root joint that is not free hangs below it as a bone of its own. Sites become the ends of leaf
bones.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.errors import FormatError
from posable.formats.axes import skeleton_with_up
from posable.formats.bake import constant_place, motion_of, slider_chains, zero_rotations
from posable.formats.format import Options
from posable.formats.scene import Scene
from posable.formats.units import INCH
from posable.kernels.joints import SLIDE, TURN
from posable.motion import Motion, joint_transform
from posable.skeleton import Free, Joint, Skeleton, limits_of

Floats = NDArray[np.float64]
VICON = 0.45
_DIGITS = "%.12g"


@dataclass
class _Written:
    """A bone as the file will have it; `columns` (T, k) hold its AMC values in file units."""

    name: str
    parent: str
    vector: Floats  # start to end, in the world's axes at zero [file units]
    frame: Floats  # C
    dofs: list[str] = field(default_factory=list)
    limits: list[tuple[float, float]] = field(default_factory=list)
    columns: Floats = field(default_factory=lambda: np.zeros((0, 0)))


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the ASF and, if the suffix is .amc, the AMC beside it."""
    motion = motion_of(scene)
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


def _bones(motion: Motion, unit: float) -> tuple[_Written, list[_Written]]:
    skeleton = motion.skeleton
    world, chains = zero_rotations(skeleton), slider_chains(skeleton)
    names = _bone_names(chains)
    top = skeleton.joints[0]
    free_root = isinstance(top.motion, Free)
    root = _bone(skeleton, [top], world, motion.poses, unit) if free_root else _still_root(len(motion))
    root.name, root.vector = "root", constant_place(top)[0] / unit if free_root else np.zeros(3)
    names[top.name] = "root" if free_root else names.get(top.name, "")
    bones: list[_Written] = []
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
            bones.append(_Written(link, parent, start - reached, np.eye(3)))
            parent = link
        bone = _bone(skeleton, chain, world, motion.poses, unit)
        bone.name, bone.parent, bone.vector = names[name], parent, ends[name]
        bones.append(bone)
    return root, bones


def _still_root(frames: int) -> _Written:
    return _Written("root", "", np.zeros(3), np.eye(3), ["tx", "ty", "tz", "rx", "ry", "rz"], [], np.zeros((frames, 6)))


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
    """Return where all children of a joint start, in the world's axes at zero [file units]; zero if they differ."""
    starts = [constant_place(chain[0])[0] for chain in chains.values() if chain[0].parent == name]
    if not starts:
        starts = [np.asarray(site.offset, dtype=float) for site in skeleton.sites if site.joint == name][:1]
    same = bool(starts) and max(np.abs(start - starts[0]).max() for start in starts) < 1e-12
    return world[name] @ starts[0] / unit if same else np.zeros(3)


def _bone(skeleton: Skeleton, chain: list[Joint], world: dict, poses: Floats, unit: float) -> _Written:
    """Return a joint's bone: its own angles where it turns about its frame's axes, else baked to rx ry rz."""
    joint = chain[-1]
    basis = joint.motion.basis
    out = _Written("", "", np.zeros(3), world[joint.name] @ basis)
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
            out.limits.append(_signed(np.degrees(box[i]), dof.sign))  # type: ignore[index]
    else:
        rotation = (
            Rotation.from_matrix(basis.T) * joint_transform(joint.motion, values)[1] * Rotation.from_matrix(basis)
        )
        out.dofs += ["rx", "ry", "rz"]
        columns.append(np.degrees(_unwrapped(rotation, len(values))))
        out.limits += [(-np.inf, np.inf)] * 3
    out.columns = np.concatenate(columns, axis=1) if columns else out.columns
    return out


def _add_slides(out: _Written, columns: list[Floats], joint: Joint, values: Floats, unit: float) -> None:
    box = limits_of(joint)
    for i, dof in enumerate(joint.motion.dofs):
        if dof.kind == SLIDE:
            out.dofs.append("t" + "xyz"[dof.axis])
            columns.append(dof.sign * values[:, i : i + 1] / unit)
            out.limits.append(_signed(box[i] / unit, dof.sign))  # type: ignore[index]


def _signed(pair: Floats, sign: float) -> tuple[float, float]:
    low, high = sorted(sign * np.asarray(pair, dtype=float))
    return float(low), float(high)


def _unwrapped(rotation: Rotation, frames: int) -> Floats:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Gimbal lock", category=UserWarning)
        return np.unwrap(rotation.as_euler("xyz"), axis=0) if frames else np.zeros((0, 3))


# ------------------------------------------------------------------------------------------------------- the text


def _asf_text(skeleton: Skeleton, root: _Written, bones: list[_Written], unit: float) -> str:
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


def _amc_text(root: _Written, bones: list[_Written], fps: float) -> str:
    moving = [bone for bone in (root, *bones) if bone.dofs]
    rows = [" ".join([bone.name.replace("%", "%%"), *[_DIGITS] * len(bone.dofs)]) for bone in moving]
    template = "\n".join(["%d", *rows])
    lines = ["#!OML:ASF written by Posable", ":FULLY-SPECIFIED", f":SAMPLES-PER-SECOND {fps:.12g}", ":DEGREES"]
    table = np.concatenate([bone.columns for bone in moving], axis=1)
    lines += [template % (i + 1, *values) for i, values in enumerate(table)]
    return "\n".join(lines) + "\n"


def _vector(values: Floats) -> str:
    return " ".join(_DIGITS % (value + 0.0) for value in values)
