"""Angles that mean the same: whole turns, and the other triple of Euler angles."""

from __future__ import annotations

import numpy as np

from posable.kernels.joints import TURN
from posable.motion import turns_freely
from posable.skeleton import Skeleton


def same_branch(skeleton: Skeleton, reference: np.ndarray, poses: np.ndarray, row: int) -> None:
    """Shift the angles of poses (t, n), in place, to the numbers nearest to reference (n,) at one row: whole turns, and
    for unlimited Euler angles a, b, c also a + pi, pi - b, c + pi, which mean the same.
    """
    turn = 2.0 * np.pi
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        dofs = joint.motion.dofs
        open_ = np.isinf(skeleton.lower[where]).all() and np.isinf(skeleton.upper[where]).all()
        if not dofs or not open_:
            continue
        axes = [dof.axis for dof in dofs[-3:]]
        if (
            len(dofs) >= 3
            and turns_freely(joint.motion)
            and all(d.kind == TURN for d in dofs[-3:])
            and len(set(axes)) == 3
        ):
            part = slice(where.stop - 3, where.stop)
            here, there = poses[row, part], reference[part]
            mirrored = np.array([here[0] + np.pi, np.pi - here[1], here[2] + np.pi])
            if _turns_apart(mirrored, there) + 1e-6 < _turns_apart(here, there):
                poses[:, part] = poses[:, part] * [1.0, -1.0, 1.0] + np.pi
        for i, dof in zip(range(where.start, where.stop), dofs, strict=True):
            if dof.kind == TURN:
                poses[:, i] += turn * np.round((reference[i] - poses[row, i]) / turn)


def _turns_apart(a: np.ndarray, b: np.ndarray) -> float:
    gap = a - b
    return float(np.linalg.norm(gap - 2.0 * np.pi * np.round(gap / (2.0 * np.pi))))
