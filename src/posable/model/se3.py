"""Twists and rigid motions: the algebra of se(3), for batches in NumPy (Rabbani 2017).

A twist is (..., 6): the linear part v [m] first, then the angular part w [rad]. A rigid motion is a 4x4 matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from posable.errors import SkeletonError


def _read(value: Any, tail: tuple[int, ...], what: str) -> np.ndarray:
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        out = np.empty(0)
    if out.shape[-len(tail) :] != tail:
        got = f"shape {out.shape}" if out.size else repr(value)
        raise SkeletonError(f"{what}: expected numbers of shape (..., {', '.join(map(str, tail))}), got {got}")
    return out


def _skew(vectors: np.ndarray) -> np.ndarray:
    """Return the cross-product matrices (..., 3, 3) of vectors (..., 3)."""
    out = np.zeros((*vectors.shape, 3))
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -z, y, -x
    out[..., 1, 0], out[..., 2, 0], out[..., 2, 1] = z, -y, x
    return out


def matrix_of(twist: Any) -> np.ndarray:
    """Return the matrices of twists in se(3): the hat operator.

    Args:
        twist: (..., 6) [m, rad], linear part first.

    Returns:
        (..., 4, 4) matrices.
    """
    xi = _read(twist, (6,), "twist")
    out = np.zeros((*xi.shape[:-1], 4, 4))
    out[..., :3, :3], out[..., :3, 3] = _skew(xi[..., 3:]), xi[..., :3]
    return out


def twist_of(matrix: Any) -> np.ndarray:
    """Return the twists of matrices in se(3): the vee operator, the inverse of `matrix_of`.

    Args:
        matrix: (..., 4, 4).

    Returns:
        (..., 6) [m, rad] twists, linear part first.
    """
    m = _read(matrix, (4, 4), "matrix")
    turn = np.stack([m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], axis=-1)
    return np.concatenate([m[..., :3, 3], 0.5 * turn], axis=-1)


def adjoint(transform: Any) -> np.ndarray:
    """Return the adjoints of rigid motions, which transform twists to the frame on the left.

    The world form of a Jacobian is the adjoint of the body's frame times its body form (Rabbani 2017, (13)).

    Args:
        transform: (..., 4, 4).

    Returns:
        (..., 6, 6) matrices.
    """
    t = _read(transform, (4, 4), "transform")
    out = np.zeros((*t.shape[:-2], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = t[..., :3, :3]
    out[..., :3, 3:] = _skew(t[..., :3, 3]) @ t[..., :3, :3]
    return out


def bracket(twist: Any) -> np.ndarray:
    """Return the matrices ad of twists: `bracket(a) @ b` is the Lie bracket [a, b].

    Args:
        twist: (..., 6) [m, rad], linear part first.

    Returns:
        (..., 6, 6) matrices.
    """
    xi = _read(twist, (6,), "twist")
    out = np.zeros((*xi.shape[:-1], 6, 6))
    out[..., :3, :3] = out[..., 3:, 3:] = _skew(xi[..., 3:])
    out[..., :3, 3:] = _skew(xi[..., :3])
    return out


def left_jacobian(w: np.ndarray) -> np.ndarray:
    """Return the left Jacobians of SO(3) (..., 3, 3) at rotation vectors (..., 3), by series near zero."""
    angle = np.linalg.norm(w, axis=-1)[..., None, None]
    square, small = angle**2, angle < 1e-4
    safe = np.where(small, 1.0, angle)
    a = np.where(small, 0.5 - square / 24.0, (1.0 - np.cos(safe)) / safe**2)
    b = np.where(small, 1.0 / 6.0 - square / 120.0, (safe - np.sin(safe)) / safe**3)
    k = _skew(w)
    return np.eye(3) + a * k + b * (k @ k)


def exp(twist: Any) -> np.ndarray:
    """Return the rigid motions that twists reach in unit time.

    Args:
        twist: (..., 6) [m, rad], linear part first.

    Returns:
        (..., 4, 4) transforms.
    """
    xi = _read(twist, (6,), "twist")
    v, w = xi[..., :3], xi[..., 3:]
    out = np.zeros((*xi.shape[:-1], 4, 4))
    out[..., :3, :3] = Rotation.from_rotvec(w.reshape(-1, 3)).as_matrix().reshape(*w.shape, 3)
    out[..., :3, 3] = (left_jacobian(w) @ v[..., None])[..., 0]
    out[..., 3, 3] = 1.0
    return out


def log(transform: Any) -> np.ndarray:
    """Return the twists that reach rigid motions in unit time: the inverse of `exp`.

    Args:
        transform: (..., 4, 4).

    Returns:
        (..., 6) [m, rad] twists, linear part first, with angles up to pi.
    """
    t = _read(transform, (4, 4), "transform")
    w = Rotation.from_matrix(t[..., :3, :3].reshape(-1, 3, 3)).as_rotvec().reshape(*t.shape[:-2], 3)
    v = np.linalg.solve(left_jacobian(w), t[..., :3, 3, None])[..., 0]
    return np.concatenate([v, w], axis=-1)
