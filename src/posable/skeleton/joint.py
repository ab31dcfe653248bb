"""Joints and sites as a user writes them, and how their fields are read.

A joint's frame sits in its parent's at a constant place (the arc of seed 002), then moves by its motion:
T_world_joint = T_world_parent (offset, rotation) motion(theta). A site is a frame fixed in a joint's (the node of
seed 002): an end effector, a tool, a marker.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from posable.kernels.joints import JointMotion


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint, and the bone that moves with it.

    name: unique among the joints. motion: `Revolute("z")`, `Ball("zyx")`, ... parent: another joint's name.
    offset (3,) [m], rotation (SciPy Rotation or 3x3): the constant place in the parent's frame.
    limits: None, one (lower, upper) for all, or (k, 2) [rad, m]; infinities allowed. rest: a number or (k,), the
    relaxed value. gain: a number or (k,), the joint's strength. frozen: True or (k,) of them: what keeps its value.
    mass [kg] sits at center (3,) [m] in the joint's frame.
    """

    name: str
    motion: JointMotion
    parent: str | None = None
    _: KW_ONLY
    offset: Any = (0.0, 0.0, 0.0)
    rotation: Any = None
    limits: Any = None
    rest: Any = 0.0
    gain: Any = 1.0
    mass: float = 0.0
    frozen: Any = False
    center: Any = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Site:
    """A frame fixed on a joint's bone: offset (3,) [m] and rotation in the joint's frame."""

    name: str
    joint: str
    offset: Any = (0.0, 0.0, 0.0)
    rotation: Any = None


def rotation_matrix(rotation: Any) -> np.ndarray | None:
    """Return a rotation given as None, a SciPy Rotation, or a 3x3 matrix, as (3, 3); None where it is neither."""
    if rotation is None:
        return np.eye(3)
    try:
        value = rotation.as_matrix() if hasattr(rotation, "as_matrix") else np.asarray(rotation, dtype=float)
    except (TypeError, ValueError):
        return None
    if value.shape != (3, 3) or not np.all(np.isfinite(value)):
        return None
    if np.abs(value @ value.T - np.eye(3)).max() > 1e-6 or np.linalg.det(value) < 0.0:
        return None
    return np.array(value, dtype=float)


def vector_of(value: Any) -> np.ndarray | None:
    """Return three finite numbers as (3,), or None where they are not."""
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return None
    return out.copy() if out.shape == (3,) and np.all(np.isfinite(out)) else None


def limits_of(joint: Joint) -> np.ndarray | None:
    """Return a joint's limits as (k, 2), or None where they cannot be read."""
    k = joint.motion.size
    if joint.limits is None:
        return np.tile([-np.inf, np.inf], (k, 1))
    try:
        box = np.asarray(joint.limits, dtype=float)
    except (TypeError, ValueError):
        return None
    if box.shape == (2,):
        box = np.tile(box, (k, 1))
    return box.copy() if box.shape == (k, 2) and not np.any(np.isnan(box)) else None


def numbers_of(value: Any, k: int) -> np.ndarray | None:
    """Return a number or k numbers as (k,), or None where they cannot be read or are not finite."""
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return None
    if out.shape not in ((), (k,)) or not np.all(np.isfinite(out)):
        return None
    return np.broadcast_to(out, (k,)).copy()


def frozen_of(joint: Joint) -> np.ndarray | None:
    """Return which of a joint's k degrees of freedom keep their value, as (k,) bool, or None where it cannot be."""
    k = joint.motion.size
    try:
        out = np.asarray(joint.frozen)
    except ValueError:
        return None
    if out.shape not in ((), (k,)) or (out.dtype != bool and not np.isin(out, (0, 1)).all()):
        return None
    return np.broadcast_to(out.astype(bool), (k,)).copy()
