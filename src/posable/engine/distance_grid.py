"""Grids of signed distances, built once from triangles; `narrow_phase` interpolates them.

Distances are exact at the nodes near each triangle; sweeps then propagate the nearest triangle from node to node
(Danielsson 1980). The sign is the parity of ray crossings.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel
from posable.engine.narrow_phase import grid_distance_at, grid_gradient, triangle_weights


@kernel
def triangle_distance(t, x, y, z):
    """Return the squared distance [m^2] of a point from the triangle t (9,)."""
    ax, ay, az, bx, by, bz = t[0] - x, t[1] - y, t[2] - z, t[3] - x, t[4] - y, t[5] - z
    cx, cy, cz = t[6] - x, t[7] - y, t[8] - z
    _, s, r = triangle_weights(ax, ay, az, bx, by, bz, cx, cy, cz)
    px, py, pz = ax + s * (bx - ax) + r * (cx - ax), ay + s * (by - ay) + r * (cy - ay), (
        az + s * (bz - az) + r * (cz - az))  # fmt: skip
    return px * px + py * py + pz * pz


@entry
def near_nodes(triangles, low, spacing, reach, square, owner):
    """Write the squared distance (nx, ny, nz) [m^2] and the nearest triangle of the nodes within reach [m] of one."""
    nx, ny, nz = square.shape
    for f in range(triangles.shape[0]):
        t = triangles[f]
        x0, x1 = min(t[0], t[3], t[6]), max(t[0], t[3], t[6])
        y0, y1 = min(t[1], t[4], t[7]), max(t[1], t[4], t[7])
        z0, z1 = min(t[2], t[5], t[8]), max(t[2], t[5], t[8])
        for i in range(max(int((x0 - reach - low[0]) / spacing), 0), min(int((x1 + reach - low[0]) / spacing) + 2, nx)):
            x = low[0] + i * spacing
            for j in range(
                max(int((y0 - reach - low[1]) / spacing), 0), min(int((y1 + reach - low[1]) / spacing) + 2, ny)
            ):
                y = low[1] + j * spacing
                for k in range(
                    max(int((z0 - reach - low[2]) / spacing), 0), min(int((z1 + reach - low[2]) / spacing) + 2, nz)
                ):
                    d = triangle_distance(t, x, y, low[2] + k * spacing)
                    if d < square[i, j, k]:
                        square[i, j, k] = d
                        owner[i, j, k] = f


@kernel
def adopt_nearest(triangles, low, spacing, square, owner, i, j, k, a, b, c):
    """Let node i, j, k adopt the nearest triangle of its neighbour a, b, c if that is nearer than its own."""
    f = owner[a, b, c]
    if f < 0 or f == owner[i, j, k]:
        return
    d = triangle_distance(triangles[f], low[0] + i * spacing, low[1] + j * spacing, low[2] + k * spacing)
    if d < square[i, j, k]:
        square[i, j, k] = d
        owner[i, j, k] = f


@entry
def sweep_nodes(triangles, low, spacing, square, owner):
    """Propagate the nearest triangles from node to node, in the eight directions."""
    nx, ny, nz = square.shape
    for direction in range(8):
        p, q, r = direction % 2 == 0, direction // 2 % 2 == 0, direction // 4 == 0
        for a in range(nx):
            i = a if p else nx - 1 - a
            for b in range(ny):
                j = b if q else ny - 1 - b
                for c in range(nz):
                    k = c if r else nz - 1 - c
                    if a > 0:
                        adopt_nearest(triangles, low, spacing, square, owner, i, j, k, i - 1 if p else i + 1, j, k)
                    if b > 0:
                        adopt_nearest(triangles, low, spacing, square, owner, i, j, k, i, j - 1 if q else j + 1, k)
                    if c > 0:
                        adopt_nearest(triangles, low, spacing, square, owner, i, j, k, i, j, k - 1 if r else k + 1)


@entry
def count_inside(triangles, low, spacing, inside, votes):
    """Add to votes (nx, ny, nz) the nodes inside a closed surface, by ray crossings along the first axis.

    inside: (nx, ny, nz) scratch memory. Rays are shifted slightly, so that none meets an edge.
    """
    nx, ny, nz = inside.shape
    dy, dz = low[1] + 1.234e-6 * spacing, low[2] + 2.345e-6 * spacing
    inside[:] = 0
    for f in range(triangles.shape[0]):
        t = triangles[f]
        ay, az, by, bz, cy, cz = t[1], t[2], t[4], t[5], t[7], t[8]
        area = (by - ay) * (cz - az) - (bz - az) * (cy - ay)
        if area == 0.0:
            continue
        for j in range(
            max(int((min(ay, by, cy) - dy) / spacing), 0), min(int((max(ay, by, cy) - dy) / spacing) + 2, ny)
        ):
            y = dy + j * spacing
            for k in range(
                max(int((min(az, bz, cz) - dz) / spacing), 0), min(int((max(az, bz, cz) - dz) / spacing) + 2, nz)
            ):
                z = dz + k * spacing
                s = ((y - ay) * (cz - az) - (z - az) * (cy - ay)) / area
                r = ((by - ay) * (z - az) - (bz - az) * (y - ay)) / area
                if s < 0.0 or r < 0.0 or s + r > 1.0:
                    continue
                x = t[0] + s * (t[3] - t[0]) + r * (t[6] - t[0])
                i = max(math.ceil((x - low[0]) / spacing), 0)
                if i < nx:
                    inside[i, j, k] ^= 1
    for j in range(ny):
        for k in range(nz):
            parity = 0
            for i in range(nx):
                parity ^= inside[i, j, k]
                votes[i, j, k] += parity


@entry
def sample_grid(field, points, distances, derivatives):
    """Write the distances (p,) [m] and derivatives (p, 9) at points (p, 3) of the grid that begins at field[0]."""
    for k in range(points.shape[0]):
        distances[k] = grid_distance_at(field, 0, points[k, 0], points[k, 1], points[k, 2])
        grid_gradient(field, 0, points[k, 0], points[k, 1], points[k, 2], derivatives[k])
