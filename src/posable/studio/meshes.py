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


def bone(length: float, radius: float) -> Shape:
    """Return a slender bone along z: thickest near its start, rounded at both ends."""
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


def vertex_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the outward direction (V, 3) at every vertex."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    out = np.stack(
        [np.bincount(faces.ravel(), np.repeat(normal[:, k], 3), minlength=len(vertices)) for k in range(3)], axis=1
    )
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)


def moved(shape: Shape, offset: np.ndarray) -> Shape:
    """Return a shape translated by `offset` (3,) [m]."""
    return shape[0] + offset, shape[1]


def unit(vector: np.ndarray) -> np.ndarray:
    """Return a vector (k,) scaled to length 1."""
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def towards(direction: np.ndarray) -> np.ndarray:
    """Return a rotation (3, 3) that maps z to a direction (3,)."""
    z = unit(np.asarray(direction, dtype=float))
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _quaternion_terms() -> tuple[np.ndarray, np.ndarray]:
    """Return the map (9, 16) and offset (16,) from the entries of a rotation to 4 w, x, y, z times its quaternion q."""
    terms, added = np.zeros((3, 3, 4, 4)), np.zeros((4, 4))
    for k, signs in enumerate(((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))):
        terms[range(3), range(3), k, k] = signs
        added[k, k] = 1.0
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        for row, column in ((0, a + 1), (a + 1, 0)):
            terms[c, b, row, column], terms[b, c, row, column] = 1.0, -1.0
        for row, column in ((b + 1, c + 1), (c + 1, b + 1)):
            terms[b, c, row, column] = terms[c, b, row, column] = 1.0
    return terms.reshape(9, 16), added.reshape(16)


_TERMS, _ADDED = _quaternion_terms()


def quaternions(matrices: np.ndarray) -> np.ndarray:
    """Return rotations (B, 3, 3) as unit quaternions (B, 4), w first."""
    # the quaternion times each of its components; the largest component is the best conditioned
    options = (matrices.reshape(-1, 9) @ _TERMS + _ADDED).reshape(-1, 4, 4)
    largest = np.argmax(options.reshape(-1, 16)[:, ::5], axis=1)
    best = options[np.arange(len(options)), largest]
    return best / np.sqrt(np.einsum("ij,ij->i", best, best))[:, None]
