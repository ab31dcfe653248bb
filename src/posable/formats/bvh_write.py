"""BVH, written: y up, degrees, centimetres, or the unit of the BVH that the figure came from.

BVH has no constant rotations: all its frames are parallel to the world when every angle is zero. A joint's motion M is
therefore written as W M W', W being the joint's rotation in the world at zero; where W is the identity, as it is for
everything that came from a BVH, the angles are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain as chain_parts

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.errors import FormatError
from posable.formats.axes import skeleton_with_up
from posable.formats.bake import constant_place, motion_of, slider_chains, zero_rotations
from posable.formats.format import Options
from posable.formats.scene import Scene
from posable.formats.units import CENTIMETRES
from posable.kernels.joints import SLIDE, TURN
from posable.motion import joint_transform
from posable.skeleton import Joint, Skeleton

_ORDER = "ZXY"  # for joints that are no Euler joints with the world's axes
_DIGITS = "%.12g"
_PART = 1 << 14  # frames put into words at a time


@dataclass
class _Written:
    """A joint as the file will have it: its channels, and their columns (T, k) in file units over some frames."""

    offset: NDArray[np.float64]
    channels: list[str] = field(default_factory=list)
    columns: list[NDArray[np.float64]] = field(default_factory=list)
    last: NDArray[np.float64] | None = None  # (1, k) [rad]: its angles in the last of them


def write(scene: Scene, suffix: str, options: Options) -> dict[str, Iterable[bytes]]:
    """Return the file, part by part; a skeleton without motion is written with one frame, at rest."""
    motion = motion_of(scene)
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
    """Yield the lines of the frames, some at a time: of an hour there should be no second copy."""
    last: dict[str, NDArray | None] = {}
    for start in range(0, len(poses), _PART):
        columns = []
        for name in _depth_first(chains):
            baked = _bake(skeleton, chains[name], world, poses[start : start + _PART], unit, last.get(name))
            columns += baked.columns
            last[name] = baked.last
        if not columns:
            return
        row = " ".join([_DIGITS] * sum(column.shape[1] for column in columns)) + "\n"
        yield "".join(row % tuple(values) for values in np.concatenate(columns, axis=1)).encode("utf-8")


def _bake(
    skeleton: Skeleton, chain: list[Joint], world: dict, poses: NDArray, unit: float, last: NDArray | None = None
) -> _Written:
    """Return a joint, and its sliders, as the file will have them; last (1, k) [rad]: its angles one frame before."""
    joint, came_so = chain[-1], skeleton.info.get("format") == "bvh"
    base = world[chain[0].parent] @ constant_place(chain[0])[0]
    out = _Written(base / unit)
    slides = [dof.axis for member in chain for dof in member.motion.dofs if dof.kind == SLIDE]
    if slides:
        moved, moved_at_rest = np.repeat(base[None], len(poses), axis=0), base.copy()
        for member in chain:
            where = skeleton.index(member.name)
            moved += joint_transform(member.motion, poses[:, where])[0] @ world[member.name].T
            moved_at_rest += world[member.name] @ joint_transform(member.motion, skeleton.rest[where])[0]
        # Some programs add a root's OFFSET to its channels and some do not: zero is the same to both.
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
    return out


def _angles(
    axes: NDArray, turns: list, values: NDArray, rotation: Rotation, last: NDArray | None
) -> tuple[str, NDArray]:
    """Return the rotation channels and their angles (T, k) [rad]: the joint's own where its axes are the world's.

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


def _depth_first(chains: dict[str, list[Joint]]) -> list[str]:
    """Return the joints in the order in which the file nests them."""
    children, order = _children(chains), []
    stack = list(reversed(children[None]))
    while stack:
        name = stack.pop()
        order.append(name)
        stack += reversed(children[name])
    return order


def _hierarchy(
    skeleton: Skeleton, chains: dict[str, list[Joint]], written: dict[str, _Written], world: dict, unit: float
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
        for end in _ends(skeleton, name, leaf=not children[name]):
            lines += [
                f"{tab}\tEnd Site",
                f"{tab}\t{{",
                f"{tab}\t\tOFFSET {_vector(world[name] @ end / unit)}",
                f"{tab}\t}}",
            ]
        stack.append((name, depth, False))
        stack += [(child, depth + 1, True) for child in reversed(children[name])]
    return lines


def _ends(skeleton: Skeleton, name: str, *, leaf: bool) -> list[NDArray]:
    """Return the End Sites of a joint: its sites if it is a leaf, else only those that came as End Sites."""
    sites = [site for site in skeleton.sites if site.joint == name and (leaf or site.name.startswith(f"{name}.end"))]
    ends = [np.asarray(site.offset, dtype=float) for site in sites]
    return ends or ([np.zeros(3)] if leaf else [])


def _vector(values: NDArray) -> str:
    return " ".join(_DIGITS % (value + 0.0) for value in values)
