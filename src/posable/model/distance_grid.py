"""Signed distances from meshes and point clouds on a regular grid, for obstacles of any form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posable.engine.distance_grid import count_inside, near_nodes, sample_grid, sweep_nodes

FINEST, NODES_ALONG = 0.005, 100  # the default spacing: [m] at least, and this many nodes along the longest side
MOST_NODES = 20_000_000


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """Distances from a surface at the nodes of a grid, negative inside; smooth between them.

    Attributes:
        low: (3,) [m] the first node.
        spacing: [m] between nodes.
        values: (nx, ny, nz) [m].
        pad: [m] between the surface and the border of the grid.
        closed: whether the surface has an inside; otherwise it is a sheet of two spacings.
    """

    low: np.ndarray
    spacing: float
    values: np.ndarray
    pad: float
    closed: bool = True

    def field(self) -> np.ndarray:
        """Return the grid as the kernels read it: header, then values."""
        header = [*self.values.shape, *self.low, 1.0 / self.spacing, self.pad]
        return np.concatenate([header, self.values.ravel()])

    def box(self) -> np.ndarray:
        """Return the lowest and highest corner (2, 3) [m] of the surface."""
        high = self.low + self.spacing * (np.array(self.values.shape) - 1.0)
        return np.array([self.low + self.pad, high - self.pad])

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Return the distances (...,) [m] of points (..., 3) from the surface, negative inside."""
        points = np.asarray(points, dtype=float)
        flat = np.ascontiguousarray(points.reshape(-1, 3))
        out, gradients = np.empty(len(flat)), np.empty((len(flat), 9))
        sample_grid(self.field(), flat, out, gradients)
        return out.reshape(points.shape[:-1])

    def gradients(self, points: np.ndarray) -> np.ndarray:
        """Return the gradients (..., 3) of the distances at points (..., 3)."""
        points = np.asarray(points, dtype=float)
        flat = np.ascontiguousarray(points.reshape(-1, 3))
        out, gradients = np.empty(len(flat)), np.empty((len(flat), 9))
        sample_grid(self.field(), flat, out, gradients)
        return gradients[:, :3].reshape(points.shape)


def default_spacing(points: np.ndarray) -> float:
    """Return the default spacing [m] of a grid around points (V, 3)."""
    return max(FINEST, float(np.ptp(points, axis=0).max()) / NODES_ALONG)


def node_count(points: np.ndarray, spacing: float, reach: float) -> float:
    """Return how many nodes a grid around points (V, 3) would have."""
    return float(np.prod(np.ptp(points, axis=0) / spacing + 2.0 * reach / spacing + 5.0))


def mesh_grid(vertices: np.ndarray, faces: np.ndarray, spacing: float, reach: float) -> DistanceGrid:
    """Return the distances from a mesh: vertices (V, 3) [m], faces (F, 3).

    Args:
        vertices: (V, 3) [m].
        faces: (F, 3) indices of vertices. A closed surface has an inside; an open one is a sheet, a spacing thick on
            each side.
        spacing: [m] between nodes.
        reach: [m] Distances outside the surface are exact up to this one; beyond it they are lower bounds.
    """
    closed = is_closed(vertices, faces)
    return _grid(vertices[faces].reshape(-1, 9), spacing, reach, 0.0 if closed else spacing, closed)


def point_grid(points: np.ndarray, radius: float, spacing: float, reach: float) -> DistanceGrid:
    """Return the distances from balls of a radius [m] around points (P, 3) [m]; see `mesh_grid`."""
    return _grid(np.tile(points, 3), spacing, reach, radius, False)


def is_closed(vertices: np.ndarray, faces: np.ndarray) -> bool:
    """Return whether every edge of a mesh belongs to exactly two faces; coincident vertices count as one."""
    size = float(np.abs(vertices).max(initial=1e-12))
    _, same = np.unique(np.round(vertices / size, 9), axis=0, return_inverse=True)
    corners = same.reshape(-1)[faces]
    a, b, c = corners.T
    corners = corners[(a != b) & (b != c) & (c != a)]
    if not len(corners):
        return False
    edges = np.sort(corners[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, count = np.unique(edges, axis=0, return_counts=True)
    return bool((count % 2 == 0).all())


def _grid(triangles: np.ndarray, spacing: float, reach: float, thick: float, closed: bool) -> DistanceGrid:
    """Return the grid of triangles (F, 9) [m], with all points within `thick` [m] of them solid."""
    triangles = np.ascontiguousarray(triangles, dtype=float)
    corners = triangles.reshape(-1, 3)
    pad = reach + 3.0 * spacing
    low = corners.min(axis=0) - thick - pad
    nodes = np.ceil((corners.max(axis=0) + thick + pad - low) / spacing).astype(int) + 1
    low -= 0.5 * (spacing * (nodes - 1) - (np.ptp(corners, axis=0) + 2.0 * (thick + pad)))  # centred
    square, owner = np.full(nodes, np.inf), np.full(nodes, -1, dtype=np.int32)
    near_nodes(triangles, low, spacing, 1.5 * spacing, square, owner)
    sweep_nodes(triangles, low, spacing, square, owner)
    values = np.sqrt(square) - thick
    if closed:
        values[_inside(triangles, low, spacing, tuple(nodes.tolist()))] *= -1.0
    return DistanceGrid(low, spacing, values, pad, closed)


def _inside(triangles: np.ndarray, low: np.ndarray, spacing: float, nodes: tuple[int, ...]) -> np.ndarray:
    """Return which nodes (nx, ny, nz) are inside a closed surface: by two of the rays along the three axes."""
    votes = np.zeros(nodes, dtype=np.int8)
    for axis in range(3):
        turn = np.roll(np.arange(3), -axis)
        turned = np.ascontiguousarray(triangles.reshape(-1, 3, 3)[..., turn].reshape(-1, 9))
        mine = np.zeros([nodes[k] for k in turn], dtype=np.int8)
        count_inside(turned, np.ascontiguousarray(low[turn]), spacing, np.zeros_like(mine), mine)
        votes += mine.transpose(np.argsort(turn))
    return votes >= 2
