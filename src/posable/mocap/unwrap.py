"""Equivalent angles: whole turns, and the second triple of Euler angles; poses moved to meet others at their ends."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.spatial.transform import Rotation

from posable.engine.joints import ROTVEC, TURN
from posable.model.joint_values import joint_transform, rotation_values, turns_freely
from posable.model.joints import Revolute
from posable.model.skeleton import Skeleton

WHOLE_TURN = 2.0 * np.pi
JUMP = 2.0  # [rad]: change between frames that equivalent angles may explain


@lru_cache(maxsize=16)
def full_turn_angles(skeleton: Skeleton) -> np.ndarray:
    """Return (n,) bool, not to be written to: angles whose limits allow a whole turn and therefore every rotation."""
    out = np.zeros(skeleton.size, dtype=bool)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        out[where] = [dof.kind == TURN for dof in joint.motion.dofs]
    out &= (skeleton.upper - skeleton.lower >= WHOLE_TURN - 1e-6) & ~skeleton.frozen
    out.setflags(write=False)  # it is kept
    return out


def open_box(skeleton: Skeleton, limits: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the box (n,), (n,) to solve in: the limits, except for angles that can make a whole turn.

    A hinge with limits stops there even if they are a whole turn apart: a motor cannot jump from one to the other.
    Frozen degrees of freedom stay at rest.
    """
    held = np.full(skeleton.size, limits)
    if limits:
        held[full_turn_angles(skeleton)] = False
        for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
            held[where] |= isinstance(joint.motion, Revolute) and bool(np.isfinite(skeleton.upper[where]).all())
    lower, upper = np.where(held, skeleton.lower, -np.inf), np.where(held, skeleton.upper, np.inf)
    return np.where(skeleton.frozen, skeleton.rest, lower), np.where(skeleton.frozen, skeleton.rest, upper)


def within_turns(skeleton: Skeleton, poses: np.ndarray) -> np.ndarray:
    """Return poses (T, n) with the angles of `full_turn_angles` within their limits.

    The whole clip is shifted by whole turns; if it turns farther than the limits are wide, from frame to frame.
    """
    lower, upper = skeleton.lower, skeleton.upper
    out = poses
    for i in np.flatnonzero(full_turn_angles(skeleton)):
        values = poses[:, i]
        if not len(values) or ((values >= lower[i]) & (values <= upper[i])).all():
            continue
        out = poses.copy() if out is poses else out
        middle = 0.5 * (lower[i] + upper[i])
        values = values - WHOLE_TURN * np.round((0.5 * (values.min() + values.max()) - middle) / WHOLE_TURN)
        beyond = (values < lower[i]) | (values > upper[i])
        while beyond.any():  # shift the rest of the clip
            start = int(np.argmax(beyond))
            values[start:] -= WHOLE_TURN * np.round((values[start] - middle) / WHOLE_TURN)
            if not lower[i] <= values[start] <= upper[i]:
                values[start:] += WHOLE_TURN * (1.0 if values[start] < lower[i] else -1.0)
            beyond = (values < lower[i] - 1e-9) | (values > upper[i] + 1e-9)
        out[:, i] = np.clip(values, lower[i], upper[i])
    return out


def same_branch(skeleton: Skeleton, reference: np.ndarray, poses: np.ndarray, row: int) -> None:
    """Shift the angles of poses (t, n), in place, to the values nearest to reference (n,) at one row.

    Shifts are whole turns and, for Euler angles a, b, c of `full_turn_angles`, the equivalent a + pi, pi - b, c + pi.
    """
    round_ = full_turn_angles(skeleton)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        dofs = joint.motion.dofs
        if not round_[where].any():
            continue
        axes = [dof.axis for dof in dofs[-3:]]
        if len(dofs) >= 3 and turns_freely(joint.motion) and round_[where][-3:].all() and len(set(axes)) == 3:
            part = slice(where.stop - 3, where.stop)
            here, there = poses[row, part], reference[part]
            mirrored = np.array([here[0] + np.pi, np.pi - here[1], here[2] + np.pi])
            if _turns_apart(mirrored, there) + 1e-6 < _turns_apart(here, there):
                poses[:, part] = poses[:, part] * [1.0, -1.0, 1.0] + np.pi
        for i in range(where.start, where.stop):
            if round_[i]:
                poses[:, i] += WHOLE_TURN * np.round((reference[i] - poses[row, i]) / WHOLE_TURN)


def _turns_apart(a: np.ndarray, b: np.ndarray) -> float:
    gap = a - b
    return float(np.linalg.norm(gap - WHOLE_TURN * np.round(gap / WHOLE_TURN)))


def continuous(skeleton: Skeleton, poses: np.ndarray) -> np.ndarray:
    """Return poses (T, n) whose values do not jump between frames where the figure does not.

    Angles of `full_turn_angles` continue beyond a whole turn, Euler angles stay on one of their two triples, and
    rotation vectors may exceed pi.
    """
    out = np.array(poses)
    angles = full_turn_angles(skeleton)
    jumps = 1 + np.flatnonzero(np.any([np.abs(np.diff(poses[:, i])) > JUMP for i in np.flatnonzero(angles)], axis=0))
    for start, end in pairwise([*jumps, len(poses)]):
        same_branch(skeleton, out[start - 1], out[start:end], 0)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if not any(dof.kind == ROTVEC for dof in joint.motion.dofs):
            continue
        part = slice(where.stop - 3, where.stop)
        for t in np.flatnonzero(np.linalg.norm(np.diff(poses[:, part], axis=0), axis=-1) > JUMP) + 1:
            turned = joint_transform(joint.motion, poses[t:, where])[1]
            near = out[t - 1, part]
            values = np.empty((len(poses) - t, 3))
            for k in range(len(values)):
                near = values[k] = rotation_values(joint.motion, turned[k : k + 1], near[None])[0]
            out[t:, part] = values
            break
    return out


def with_ends(skeleton: Skeleton, poses: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return poses (t, n) with the first and the last moved to ends (2, n), and those between by shares of both ways.

    Rotations are turned by shares of a turn: values of the same rotation may be far apart.
    """
    share = np.linspace(0.0, 1.0, len(poses))[:, None]
    out = poses + (1.0 - share) * (ends[0] - poses[0]) + share * (ends[1] - poses[-1])
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if turns_freely(joint.motion):
            turns = slice(where.stop - 3, where.stop)
            rotation = joint_transform(joint.motion, poses[:, where])[1]
            wanted = joint_transform(joint.motion, ends[:, where])[1]
            first, last = ((wanted[k] * rotation[k].inv()).as_rotvec() for k in (0, -1))
            turned = Rotation.from_rotvec((1.0 - share) * first + share * last) * rotation
            out[:, turns] = rotation_values(joint.motion, turned, np.vstack([ends[:1, turns], poses[1:, turns]]))
    return out
