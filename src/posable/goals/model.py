"""Energies in Python as the kernels see them: quadratic models in the vectors that they depend on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posable.goals.custom import Custom
from posable.goals.goal import six
from posable.kernels.fields import ALONG, AT, AXES, WEIGHT
from posable.kinematics import forward
from posable.skeleton import Skeleton


def place_vectors(skeleton: Skeleton, pose: np.ndarray, goals: Sequence[Custom]) -> list[np.ndarray]:
    """Return, for each goal, its points and directions (k, 3) in the world at a pose (n,)."""
    frames = forward(skeleton, pose)
    out = []
    for goal in goals:
        rows = []
        for _, body, local, moves in goal.vectors:
            turned = frames.rotation_matrix(body) @ local
            rows.append(turned + frames.position(body) if moves else turned)
        out.append(np.array(rows))
    return out


def fill_model(rows: np.ndarray, at: np.ndarray, slope: np.ndarray, hessian: np.ndarray) -> None:
    """Write the model slope.x + 1/2 x' hessian x, x from the vectors at (k, 3), into a goal's spring data (rows, WIDTH)."""
    k = len(at)
    blocks = hessian.reshape(k, 3, k, 3).swapaxes(1, 2)
    for i in range(k):
        rows[i, AT : AT + 3] = at[i]
        rows[i, ALONG : ALONG + 3] = slope[3 * i : 3 * i + 3]
        rows[i, WEIGHT : WEIGHT + 6] = six(blocks[i, i])
    row = k
    for i in range(k):
        for j in range(i + 1, k):
            rows[row, AT : AT + 3], rows[row, ALONG : ALONG + 3] = at[i], at[j]
            rows[row, AXES : AXES + 9] = blocks[i, j].ravel()
            rows[row, WEIGHT] = 1.0
            row += 1


def convex_model(slope: np.ndarray, hessian: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (step, matrix): the model 1/2 (x - step)' matrix (x - step), positive definite, with the slope given at 0.

    Negative curvature is turned round, and `damping` is added: the larger, the nearer the model keeps to where it is.
    """
    values, vectors = np.linalg.eigh(hessian)
    values = np.abs(values)
    values = np.maximum(values, 1e-6 * max(values.max(initial=0.0), 1e-9)) + damping
    matrix = (vectors * values) @ vectors.T
    return -(vectors / values) @ (vectors.T @ slope), matrix
