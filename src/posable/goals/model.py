"""Energies in Python as the kernels see them: quadratic models in the vectors that they depend on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posable.goals.energy import VectorEnergy
from posable.goals.goal import six
from posable.kernels.fields import ALONG, AT, AXES, WEIGHT
from posable.kinematics import place_bodies
from posable.skeleton import Skeleton

FARTHEST = 1.0  # [m] that one model may ask a point to go, where the energy has no curvature to say


def place_vectors(skeleton: Skeleton, pose: np.ndarray, energies: Sequence[VectorEnergy]) -> list[np.ndarray]:
    """Return, for each energy, its points and directions (k, 3) in the world at a pose (n,)."""
    positions, rotations, _ = place_bodies(skeleton, pose.reshape(1, -1))
    return [
        np.array([rotations[0, body] @ local + moves * positions[0, body] for body, local, moves in energy.vectors])
        for energy in energies
    ]


def fill_model(rows: np.ndarray, at: np.ndarray, slope: np.ndarray, hessian: np.ndarray) -> None:
    """Write the model slope.x + 1/2 x' hessian x, x from the vectors at (k, 3), into a goal's springs (rows, WIDTH)."""
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


def convex_model(
    energy: VectorEnergy, at: np.ndarray, slope: np.ndarray, hessian: np.ndarray, damping: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return (step, matrix): the model 1/2 (x - step)' matrix (x - step), positive definite, with the slope given at 0.

    A direction has length one, so c/2 |d|^2 is a constant: it makes a force on a direction convex for nothing. Beyond
    that, negative curvature is turned round, no step is longer than FARTHEST, and `damping` keeps the model nearer.
    """
    slope, hessian = slope.copy(), hessian.copy()
    for k, (_, _, moves) in enumerate(energy.vectors):
        if not moves:
            part = slice(3 * k, 3 * k + 3)
            stretch = float(np.linalg.norm(slope[part]))
            hessian[part, part] += stretch * np.eye(3)
            slope[part] += stretch * at[k]
    values, vectors = np.linalg.eigh(hessian)
    forces = vectors.T @ slope
    values = np.maximum(np.abs(values), np.maximum(np.abs(forces) / FARTHEST, 1e-9 * max(np.abs(values).max(), 1e-9)))
    values += damping
    return -vectors @ (forces / values), (vectors * values) @ vectors.T


def convex_part(hessian: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix without its negative eigenvalues."""
    values, vectors = np.linalg.eigh(hessian)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def upper_root(matrix: np.ndarray) -> np.ndarray:
    """Return the upper triangular C with C'C a symmetric matrix that has no negative eigenvalue."""
    values, vectors = np.linalg.eigh(matrix)
    return np.linalg.qr(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T).R
