"""Poses as transforms of joints and sites, for formats that store transforms.

Plain NumPy and SciPy over all frames at once, so that writing a file needs no compiled code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.formats.scene import Scene
from posable.model.joint_values import joint_transform
from posable.model.joints import Joint, Prismatic, rotation_matrix
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

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
