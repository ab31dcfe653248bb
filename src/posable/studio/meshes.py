"""Small meshes made in code: spheres, rings, tapered bones, capsules; vertices (V, 3) and faces (F, 3)."""

from __future__ import annotations

import numpy as np

Shape = tuple[np.ndarray, np.ndarray]


def revolve(profile: np.ndarray, around: int = 20) -> Shape:
    """Return the surface that a profile (P, 2) of (radius, height) [m] sweeps about z."""
    angle = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    vertices = np.concatenate([np.column_stack([radius * ring, np.full(around, height)]) for radius, height in profile])
    faces = []
    for row in range(len(profile) - 1):
        low, high = row * around, (row + 1) * around
        k = np.arange(around)
        n = (k + 1) % around
        faces.append(np.stack([low + k, low + n, high + n], axis=-1))
        faces.append(np.stack([low + k, high + n, high + k], axis=-1))
    return vertices, np.concatenate(faces)


def capsule(length: float, radius: float, end_radius: float | None = None, around: int = 20) -> Shape:
    """Return a rounded cone along z from the origin to `length` [m]."""
    end = radius if end_radius is None else end_radius
    turn = np.linspace(-np.pi / 2, 0.0, 7)
    bottom = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    top = np.stack([end * np.cos(turn[::-1]), length - end * np.sin(turn[::-1])], axis=-1)
    return revolve(np.concatenate([bottom, top]), around)


def bone(length: float, radius: float) -> Shape:
    """Return a slender bone along z: thickest near its beginning, rounded at both ends."""
    share = np.linspace(0.0, 1.0, 13)
    swell = np.interp(share, [0.0, 0.18, 0.55, 1.0], [0.55, 1.0, 0.80, 0.42])
    cap = np.sqrt(np.clip(1.0 - (1.0 - np.clip(share / 0.08, 0, 1)) ** 2, 0.0, 1.0))
    tail = np.sqrt(np.clip(1.0 - (1.0 - np.clip((1.0 - share) / 0.06, 0, 1)) ** 2, 0.0, 1.0))
    return revolve(np.stack([radius * swell * cap * tail, length * share], axis=-1))


def sphere(radius: float, around: int = 20) -> Shape:
    """Return a sphere about the origin."""
    turn = np.linspace(-np.pi / 2, np.pi / 2, 12)
    return revolve(np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1), around)


def ring(radius: float, thickness: float, up: np.ndarray, around: int = 48) -> Shape:
    """Return a ring about the origin, its axis along `up` (3,)."""
    turn = np.linspace(0.0, 2.0 * np.pi, 11)
    profile = np.stack([radius + thickness * np.cos(turn), thickness * np.sin(turn)], axis=-1)
    vertices, faces = revolve(profile, around)
    return vertices @ towards(up).T, faces


def disc(radius: float, up: np.ndarray, around: int = 48) -> Shape:
    """Return a flat disc about the origin, across `up` (3,)."""
    vertices, faces = revolve(np.array([[0.0, 0.0], [radius, 0.0]]), around)
    return vertices @ towards(up).T, faces


def moved(shape: Shape, offset: np.ndarray) -> Shape:
    """Return a shape somewhere else, by `offset` (3,) [m]."""
    return shape[0] + offset, shape[1]


def towards(direction: np.ndarray) -> np.ndarray:
    """Return a rotation (3, 3) that takes z to a direction (3,)."""
    z = np.asarray(direction, dtype=float)
    z = z / max(float(np.linalg.norm(z)), 1e-12)
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def quaternions(matrices: np.ndarray) -> np.ndarray:
    """Return rotations (B, 3, 3) as unit quaternions (B, 4), w first."""
    m = matrices
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    options = np.empty((4, len(m), 4))  # the four ways to take the largest part first; the best conditioned is kept
    options[0] = np.stack(
        [1 + xx + yy + zz, m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]], -1
    )
    options[1] = np.stack(
        [m[:, 2, 1] - m[:, 1, 2], 1 + xx - yy - zz, m[:, 0, 1] + m[:, 1, 0], m[:, 0, 2] + m[:, 2, 0]], -1
    )
    options[2] = np.stack(
        [m[:, 0, 2] - m[:, 2, 0], m[:, 0, 1] + m[:, 1, 0], 1 - xx + yy - zz, m[:, 1, 2] + m[:, 2, 1]], -1
    )
    options[3] = np.stack(
        [m[:, 1, 0] - m[:, 0, 1], m[:, 0, 2] + m[:, 2, 0], m[:, 1, 2] + m[:, 2, 1], 1 - xx - yy + zz], -1
    )
    largest = np.argmax(np.stack([options[k, :, k] for k in range(4)]), axis=0)
    best = options[largest, np.arange(len(m))]
    return best / np.linalg.norm(best, axis=-1, keepdims=True)


def matrices_wxyz(wxyz: np.ndarray) -> np.ndarray:
    """Return a quaternion (4,), w first, as a rotation (3, 3)."""
    w, x, y, z = np.asarray(wxyz, dtype=float) / max(float(np.linalg.norm(wxyz)), 1e-12)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
