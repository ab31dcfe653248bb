"""Units, up axes, and poses as transforms, for all formats.

A scene is rotated through its root only, so that poses keep their values. Plain NumPy and SciPy over all frames at
once, so that writing a file needs no compiled code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.formats.base import Options
from posable.formats.scene import Scene
from posable.formats.source import Source
from posable.model.body_plan import SHORTEST, TALLEST, USUAL_STATURE
from posable.model.joint_values import joint_transform
from posable.model.joints import Joint, Prismatic, rotation_matrix
from posable.model.motion import Markers, Motion
from posable.model.skeleton import WORLD, Skeleton

# --- Units of length ---

CENTIMETRES = 0.01
INCH = 0.0254
LENGTH_UNITS = {"mm": 1e-3, "cm": 1e-2, "dm": 1e-1, "m": 1.0, "in": INCH, "ft": 0.3048, "um": 1e-6, "km": 1e3}
UNITS = {**LENGTH_UNITS, "inch": INCH, "asf": INCH / 0.45}  # of `load(unit=)`
_SPELLINGS = {"millimeters": "mm", "millimetres": "mm", "centimeters": "cm", "centimetres": "cm", "meters": "m",
              "metres": "m", "meter": "m", "metre": "m", "inches": "in", "inch": "in", "feet": "ft"}  # fmt: skip


def length_unit(source: Source, text: str) -> float:
    """Return the metres per unit named by `text` ("mm", "Meters", ...); warn and assume mm if it is unknown."""
    name = text.strip().lower().rstrip(".")
    name = _SPELLINGS.get(name, name)
    if name not in LENGTH_UNITS:
        source.warn(f"length unit {text.strip()!r} is unknown; mm is assumed")
        name = "mm"
    return LENGTH_UNITS[name]


def unit_hint(stature: float, unit: float) -> str:
    """Return the unit of length that would make a person of a figure.

    Args:
        stature: [m] of the figure, with `unit`.
        unit: [m] with which its file was read.
    """
    options = {name: stature * metres / unit for name, metres in UNITS.items()}
    best = min(options, key=lambda name: abs(np.log(options[name] / USUAL_STATURE)))
    if SHORTEST < options[best] < TALLEST:
        return f"with unit={best!r} (--unit {best}) it would be {options[best]:.2f} m"
    return "state the file's unit with unit= (--unit)"


# --- Up axes ---

_TOP = re.compile(r"HD\d?$|HEAD|ARIEL|C7$", re.IGNORECASE)
_BOTTOM = re.compile(r"TOE|HEE|ANK|MT\d$|FOOT|MALL", re.IGNORECASE)
ALIGNED = 0.9  # cosine between a standing body and the up axis
STANDING = 0.3  # fraction of frames in which a body must stand along an axis
LEANING = 0.05  # fraction of frames in which it may seem to stand along the other


def detect_up(names: Sequence[str], positions: np.ndarray) -> str | None:
    """Return the axis along which a body stands, from its feet to its head, or None if that is not evident.

    Args:
        names: Labels of the markers, by which head and feet are recognised.
        positions: (T, M, 3) in any unit, NaN where unseen.
    """
    top = [k for k, name in enumerate(names) if _TOP.search(name)]
    bottom = [k for k, name in enumerate(names) if _BOTTOM.search(name)]
    if not top or not bottom or not len(positions):
        return None
    rows = positions[:: max(1, len(positions) // 500)]
    gap = rows[:, top].mean(axis=1) - rows[:, bottom].mean(axis=1)
    gap = gap[np.isfinite(gap).all(axis=-1)]
    if not len(gap):
        return None
    along = gap / np.maximum(np.linalg.norm(gap, axis=-1, keepdims=True), 1e-12)
    share = {axis: float(np.mean(along[:, k] > ALIGNED)) for axis, k in (("y", 1), ("z", 2))}
    for axis, other in (("y", "z"), ("z", "y")):
        if share[axis] > STANDING and share[other] < LEANING:
            return axis
    return None


def markers_of_file(
    source: Source,
    options: Options,
    names: Sequence[str],
    positions: np.ndarray,
    *,
    stated: str | None,
    default: str,
    unit: float,
    fps: float | None,
) -> Markers:
    """Return the markers of a file in metres; what the caller states takes precedence over the file.

    Args:
        source: the file, for its warnings.
        options: what the caller states: unit and frame rate take precedence over the file's.
        names: labels of the markers.
        positions: (T, M, 3) in the file's unit.
        stated: up axis that the file states; None: inferred from the take, or else `default`.
        default: up axis of such files.
        unit: metres per unit of the file.
        fps: frames per second that the file states, or None.
    """
    metres = options.unit or unit
    rate = options.fps or fps
    if rate is None:
        raise source.error(
            expected="a frame rate above 0", found="none; use load(fps=...), or --fps on the command line"
        )
    detected = detect_up(names, positions) if stated is None or options.up not in (None, stated) else None
    if stated is None and detected not in (None, default):
        source.warn(f"the file states no up axis; {detected} is assumed, because the body stands along it")
    if stated is not None and detected is not None and detected == options.up:
        source.warn(f"the file states {stated} up, but the body stands along {detected}, which is used as requested")
    return Markers(tuple(names), positions * metres, rate, up=detected or stated or default, unit=metres)


def turn_up(old: str | None, new: str | None) -> np.ndarray | None:
    """Return the rotation (3, 3) from up axis `old` to `new`; None if they are the same or unknown."""
    if old is None or new is None or old == new:
        return None
    quarter = -0.5 * np.pi if (old, new) == ("z", "y") else 0.5 * np.pi
    return np.round(Rotation.from_rotvec([quarter, 0.0, 0.0]).as_matrix())


def skeleton_with_up(skeleton: Skeleton, up: str | None) -> Skeleton:
    """Return the skeleton rotated so that `up` points up; poses keep their values."""
    turn = turn_up(skeleton.up, up)
    if turn is None:
        return skeleton if up is None or skeleton.up == up else skeleton.replace(up=up)
    joints = []
    for joint in skeleton.joints:
        if joint.parent is None:
            rotation = rotation_matrix(joint.rotation)
            joint = replace(joint, offset=turn @ np.asarray(joint.offset, float), rotation=turn @ rotation)
        joints.append(joint)
    shapes = [s.moved(WORLD, rotation=turn) if s.joint == WORLD else s for s in skeleton.shapes]
    return skeleton.replace(joints=joints, up=up, shapes=shapes)


def markers_with_up(markers: Markers, up: str | None) -> Markers:
    """Return the markers rotated so that `up` points up."""
    turn = turn_up(markers.up, up)
    if turn is None:
        return markers if up is None else replace(markers, up=up)
    return replace(markers, positions=markers.positions @ turn.T, up=up)


def scene_with_up(scene: Scene, up: str | None) -> Scene:
    """Return the scene rotated so that `up` points up."""
    if up is None:
        return scene
    skeleton = skeleton_with_up(scene.skeleton, up) if scene.has_skeleton else None
    turn = turn_up(scene.skeleton.up if scene.has_skeleton else None, up)
    motions = (
        {name: Motion(skeleton, take.poses, take.fps, take.name) for name, take in scene.motions.items()}
        if skeleton
        else {}
    )
    motion = scene.motion and Motion(skeleton, scene.motion.poses, scene.motion.fps, scene.motion.name)  # type: ignore[arg-type]  # motion has a skeleton
    meshes = tuple(
        replace(mesh, vertices=mesh.vertices @ turn.T)
        if turn is not None and not mesh.joint and not mesh.joints
        else mesh
        for mesh in scene.meshes
    )
    markers = scene.markers and markers_with_up(scene.markers, up)
    return scene.replace(skeleton=skeleton, motion=motion, motions=motions, meshes=meshes, markers=markers)


# --- Poses as transforms of joints and sites ---


Floats = NDArray[np.float64]


def constant_place(joint: Joint) -> tuple[Floats, Floats]:
    """Return a joint's constant offset (3,) [m] and rotation (3, 3) in its parent's frame."""
    rotation = rotation_matrix(joint.rotation)
    return np.asarray(joint.offset, dtype=float), np.eye(3) if rotation is None else rotation


def zero_rotations(skeleton: Skeleton) -> dict[str | None, Floats]:
    """Return the world rotations (3, 3) of all joints at the zero pose; the key None is the world."""
    world: dict[str | None, Floats] = {None: np.eye(3)}
    for joint in skeleton.joints:
        world[joint.name] = world[joint.parent] @ constant_place(joint)[1]
    return world


def local_transforms(skeleton: Skeleton, poses: Floats) -> dict[str, tuple[Floats, Rotation]]:
    """Return every joint's transform in its parent's frame over `poses` (T, n): positions (T, 3) [m], rotations (T)."""
    result = {}
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        offset, rotation = constant_place(joint)
        moved, turned = joint_transform(joint.motion, poses[:, where])
        result[joint.name] = (offset + moved @ rotation.T, Rotation.from_matrix(rotation) * turned)
    return result


def world_transforms(skeleton: Skeleton, poses: Floats) -> dict[str, tuple[Floats, Rotation]]:
    """Return every joint's and every site's transform in the world over `poses` (T, n)."""
    world: dict[str, tuple[Floats, Rotation]] = {}
    local = local_transforms(skeleton, poses)
    for joint in skeleton.joints:
        position, rotation = local[joint.name]
        if joint.parent is not None:
            p_parent, r_parent = world[joint.parent]
            position, rotation = p_parent + r_parent.apply(position), r_parent * rotation
        world[joint.name] = (position, rotation)
    for site in skeleton.sites:
        position, rotation = world[site.joint]
        inner = rotation_matrix(site.rotation)
        world[site.name] = (
            position + rotation.apply(np.asarray(site.offset, dtype=float)),
            rotation * Rotation.from_matrix(np.eye(3) if inner is None else inner),
        )
    return world


def motion_or_rest(scene: Scene) -> Motion | None:
    """Return a scene's motion; for a figure without one, a single frame at rest."""
    if scene.motion is not None or not scene.has_skeleton:
        return scene.motion
    return Motion(scene.skeleton, scene.skeleton.rest[None], 30.0, scene.skeleton.name)


def slider_chains(skeleton: Skeleton) -> dict[str, list[Joint]]:
    """Return each joint with the sliders that a reader made of its position channels (`hips.tx` of `hips`)."""
    by_name = {joint.name: joint for joint in skeleton.joints}
    children: dict[str | None, int] = {}
    for joint in skeleton.joints:
        children[joint.parent] = children.get(joint.parent, 0) + 1
    chains: dict[str, list[Joint]] = {}
    for joint in skeleton.joints:
        chain = [joint]
        while _is_slider(chain[0], joint.name, by_name, children):
            chain.insert(0, by_name[chain[0].parent])  # type: ignore[index]  # see `_is_slider`
        chains[joint.name] = chain
    for chain in list(chains.values()):
        for slider in chain[:-1]:
            chains.pop(slider.name, None)
    return chains


def _is_slider(lower: Joint, name: str, by_name: dict[str, Joint], children: dict[str | None, int]) -> bool:
    """Return whether the parent of `lower` is one of the sliders of joint `name`, without other children."""
    offset, rotation = constant_place(lower)
    if lower.parent is None or children[lower.parent] > 1 or np.any(offset) or not np.array_equal(rotation, np.eye(3)):
        return False
    if lower.parent not in [f"{name}.t{axis}" for axis in "xyz"] or not isinstance(
        by_name[lower.parent].motion, Prismatic
    ):
        return False
    return all(np.array_equal(by_name[member].motion.basis, np.eye(3)) for member in (lower.parent, lower.name))
