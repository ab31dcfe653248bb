"""Smooth closed surfaces out of simple solids: signed distances, blended, and the mesh of their zero level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FAR = 1.0  # [m] the distance that is given where no solid is near


@dataclass(frozen=True)
class Solid:
    """A rounded cone from `start` to `end`, or, with `radii`, an ellipsoid about `start` with `axes` as columns; [m].

    blend [m]: how softly it melts into the solids before it.
    """

    start: np.ndarray  # (3,)
    end: np.ndarray  # (3,)
    start_radius: float
    end_radius: float
    blend: float
    radii: np.ndarray | None = None  # (3,)
    axes: np.ndarray | None = None  # (3, 3)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners of a box (3,), (3,) around it."""
        if self.radii is not None:
            return self.start - self.radii.max(), self.start + self.radii.max()
        r = max(self.start_radius, self.end_radius)
        return np.minimum(self.start, self.end) - r, np.maximum(self.start, self.end) + r

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Return the signed distance [m] of points (..., 3), negative inside; of an ellipsoid, nearly."""
        if self.radii is not None:
            axes = np.eye(3) if self.axes is None else self.axes
            scaled = (points - self.start) @ axes / self.radii
            near = np.linalg.norm(scaled, axis=-1)
            steep = np.linalg.norm(scaled / self.radii, axis=-1)
            return near * (near - 1.0) / np.maximum(steep, 1e-9)
        along = self.end - self.start
        share = np.clip((points - self.start) @ along / max(float(along @ along), 1e-12), 0.0, 1.0)
        offset = points - self.start - share[..., None] * along
        return np.linalg.norm(offset, axis=-1) - (self.start_radius + share * (self.end_radius - self.start_radius))


def blended(a: np.ndarray, b: np.ndarray, width: float) -> np.ndarray:
    """Return the lesser of two distances with the corner between them rounded over `width` [m]."""
    if width <= 0.0:
        return np.minimum(a, b)
    overlap = np.maximum(width - np.abs(a - b), 0.0) / width
    return np.minimum(a, b) - overlap * overlap * width * 0.25


@dataclass
class Field:
    """Distances (x, y, z) [m] at the corners of cubes of side `cell` [m], from `origin` (3,)."""

    values: np.ndarray
    origin: np.ndarray
    cell: float

    def points(self) -> np.ndarray:
        """Return the corners (x, y, z, 3) [m]."""
        axes = [self.origin[i] + self.cell * np.arange(n) for i, n in enumerate(self.values.shape)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def field_of(solids: list[Solid], cell: float) -> Field:
    """Return the distances to solids melted together, on a grid around them; each is measured only near itself."""
    corners = np.array([solid.bounds() for solid in solids])
    margin = 4.0 * cell
    low, high = corners[:, 0].min(axis=0) - margin, corners[:, 1].max(axis=0) + margin
    shape = np.ceil((high - low) / cell).astype(int) + 1
    values = np.full(shape, FAR)
    for solid in solids:
        reach = solid.blend + 3.0 * cell
        near, far = solid.bounds()
        first = np.maximum(np.floor((near - reach - low) / cell).astype(int), 0)
        last = np.minimum(np.ceil((far + reach - low) / cell).astype(int) + 1, shape)
        part = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
        axes = [low[i] + cell * np.arange(first[i], last[i]) for i in range(3)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        values[part] = blended(values[part], solid.distance(points), solid.blend)
    return Field(values, low, cell)


_EDGES = [(a, a | bit, axis) for axis, bit in enumerate((4, 2, 1)) for a in range(8) if not a & bit]


def surface_of(field: Field) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (V, 3) [m] and triangles (F, 3) of the zero level: one vertex in every cube that it crosses.

    The vertex sits at the mean of the crossings of the cube's edges; every crossed edge of the grid gives a quad of its
    four cubes (surface nets).
    """
    d = field.values
    inside = d < 0.0
    corner = [
        inside[x : x + d.shape[0] - 1, y : y + d.shape[1] - 1, z : z + d.shape[2] - 1]
        for x in (0, 1)
        for y in (0, 1)
        for z in (0, 1)
    ]
    count = np.sum(corner, axis=0)
    cubes = np.argwhere((count > 0) & (count < 8))
    number = np.full(np.array(d.shape) - 1, -1)
    number[tuple(cubes.T)] = np.arange(len(cubes))
    shifts = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    values = np.stack([d[tuple((cubes + shift).T)] for shift in shifts], axis=1)
    total, crossings = np.zeros((len(cubes), 3)), np.zeros(len(cubes))
    for a, b, axis in _EDGES:
        crossed = (values[:, a] < 0.0) != (values[:, b] < 0.0)
        difference = np.where(crossed, values[:, a] - values[:, b], 1.0)
        place = shifts[a] + (values[:, a] / difference)[:, None] * np.eye(3)[axis]
        total += np.where(crossed[:, None], place, 0.0)
        crossings += crossed
    vertices = field.origin + field.cell * (cubes + total / crossings[:, None])
    return vertices, np.concatenate([_quads(inside, number, axis) for axis in range(3)])


def _quads(inside: np.ndarray, number: np.ndarray, axis: int) -> np.ndarray:
    """Return the triangles (F, 3) around the crossed grid edges along an axis, their front outward."""
    near, far = [slice(None)] * 3, [slice(None)] * 3
    near[axis], far[axis] = slice(None, -1), slice(1, None)
    a, b = inside[tuple(near)], inside[tuple(far)]
    edges = np.argwhere(a != b)
    outward = a[tuple(edges.T)]
    u, v = np.eye(3, dtype=int)[(axis + 1) % 3], np.eye(3, dtype=int)[(axis + 2) % 3]
    ring = np.stack([number[tuple((edges - step).T)] for step in (u + v, v, 0 * u, u)], axis=1)
    ring = np.where(outward[:, None], ring, ring[:, ::-1])
    return np.concatenate([ring[:, [0, 1, 2]], ring[:, [0, 2, 3]]])
