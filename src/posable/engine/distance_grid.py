"""Signed distances on a regular grid, built once from triangles and interpolated by the collision springs.

Distances are exact at the nodes near each triangle; sweeps then propagate the nearest triangle from node to node
(Danielsson 1980). The sign is the parity of ray crossings.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel, small

# --- Interpolation ---

# A grid is a run of one flat array: HEADER numbers, then the distances [m] at its nodes, x slowest. Between nodes the
# distance is a quadratic B-spline: exact for planes, with a continuous gradient, which trilinear interpolation lacks
# and Newton's method needs. Outside the grid it is the distance to the box of what the grid describes, a lower bound.
NX, NY, NZ, LOW, PER_METRE, PAD = 0, 1, 2, 3, 6, 7  # nodes; first node (3) [m]; 1/spacing; padding [m]
HEADER = 8


@small
def outside_by(low, high, x):
    """Return the signed distance of x from an interval; 0 inside."""
    return min(x - low, 0.0) + max(x - high, 0.0)


@small
def outside_nodes(field, at, u, v, w):
    """Return whether a point, in grid units from the first node, is outside, and its distance from the content."""
    nx, ny, nz = field[at + NX] - 2.0, field[at + NY] - 2.0, field[at + NZ] - 2.0
    if u >= 1.0 and v >= 1.0 and w >= 1.0 and u <= nx and v <= ny and w <= nz:
        return False, 0.0, 0.0, 0.0
    pad = field[at + PAD] * field[at + PER_METRE]
    return True, outside_by(pad, nx + 1.0 - pad, u), outside_by(pad, ny + 1.0 - pad, v), (
        outside_by(pad, nz + 1.0 - pad, w))  # fmt: skip


@kernel
def grid_distance_at(field, at, x, y, z):
    """Return the distance [m] at a point of the world."""
    s = field[at + PER_METRE]
    u, v, w = (x - field[at + LOW]) * s, (y - field[at + LOW + 1]) * s, (z - field[at + LOW + 2]) * s
    far, p, q, r = outside_nodes(field, at, u, v, w)
    if far:
        return math.sqrt(p * p + q * q + r * r) / s
    i, j, k = int(u + 0.5), int(v + 0.5), int(w + 0.5)
    u, v, w = u - i, v - j, w - k
    ny, nz = int(field[at + NY]), int(field[at + NZ])
    u0, u1, u2 = 0.5 * (0.5 - u) * (0.5 - u), 0.75 - u * u, 0.5 * (0.5 + u) * (0.5 + u)
    v0, v1, v2 = 0.5 * (0.5 - v) * (0.5 - v), 0.75 - v * v, 0.5 * (0.5 + v) * (0.5 + v)
    w0, w1, w2 = 0.5 * (0.5 - w) * (0.5 - w), 0.75 - w * w, 0.5 * (0.5 + w) * (0.5 + w)
    total = 0.0
    for a in range(3):
        b = at + HEADER + ((i + a - 1) * ny + j) * nz + k
        share = u0 if a == 0 else (u1 if a == 1 else u2)
        low = w0 * field[b - nz - 1] + w1 * field[b - nz] + w2 * field[b - nz + 1]
        middle = w0 * field[b - 1] + w1 * field[b] + w2 * field[b + 1]
        high = w0 * field[b + nz - 1] + w1 * field[b + nz] + w2 * field[b + nz + 1]
        total += share * (v0 * low + v1 * middle + v2 * high)
    return total


@kernel
def grid_gradient(field, at, x, y, z, out):
    """Write the gradient (3) of the distance at a point, then its second derivatives xx, yy, zz, xy, xz, yz."""
    s = field[at + PER_METRE]
    u, v, w = (x - field[at + LOW]) * s, (y - field[at + LOW + 1]) * s, (z - field[at + LOW + 2]) * s
    for k in range(9):
        out[k] = 0.0
    far, p, q, r = outside_nodes(field, at, u, v, w)
    if far:
        length = math.sqrt(p * p + q * q + r * r)
        out[0], out[1], out[2] = p / length, q / length, r / length
        return
    i, j, k = int(u + 0.5), int(v + 0.5), int(w + 0.5)
    u, v, w = u - i, v - j, w - k
    ny, nz = int(field[at + NY]), int(field[at + NZ])
    v0, v1, v2 = 0.5 * (0.5 - v) * (0.5 - v), 0.75 - v * v, 0.5 * (0.5 + v) * (0.5 + v)
    w0, w1, w2 = 0.5 * (0.5 - w) * (0.5 - w), 0.75 - w * w, 0.5 * (0.5 + w) * (0.5 + w)
    for a in range(3):
        b = at + HEADER + ((i + a - 1) * ny + j) * nz + k
        share = 0.5 * (0.5 - u) * (0.5 - u) if a == 0 else (0.75 - u * u if a == 1 else 0.5 * (0.5 + u) * (0.5 + u))
        slope = u - 0.5 if a == 0 else (-2.0 * u if a == 1 else u + 0.5)
        curve = -2.0 if a == 1 else 1.0
        f0, f1, f2 = field[b - nz - 1], field[b - nz], field[b - nz + 1]
        g0, g1, g2 = field[b - 1], field[b], field[b + 1]
        h0, h1, h2 = field[b + nz - 1], field[b + nz], field[b + nz + 1]
        # along z: value, slope and curvature at the three y
        fv, fs, fc = w0 * f0 + w1 * f1 + w2 * f2, (w - 0.5) * f0 - 2.0 * w * f1 + (w + 0.5) * f2, f0 - 2.0 * f1 + f2
        gv, gs, gc = w0 * g0 + w1 * g1 + w2 * g2, (w - 0.5) * g0 - 2.0 * w * g1 + (w + 0.5) * g2, g0 - 2.0 * g1 + g2
        hv, hs, hc = w0 * h0 + w1 * h1 + w2 * h2, (w - 0.5) * h0 - 2.0 * w * h1 + (w + 0.5) * h2, h0 - 2.0 * h1 + h2
        value, by_y = v0 * fv + v1 * gv + v2 * hv, (v - 0.5) * fv - 2.0 * v * gv + (v + 0.5) * hv
        by_z = v0 * fs + v1 * gs + v2 * hs
        out[0] += slope * value
        out[1] += share * by_y
        out[2] += share * by_z
        out[3] += curve * value
        out[4] += share * (fv - 2.0 * gv + hv)
        out[5] += share * (v0 * fc + v1 * gc + v2 * hc)
        out[6] += slope * by_y
        out[7] += slope * by_z
        out[8] += share * ((v - 0.5) * fs - 2.0 * v * gs + (v + 0.5) * hs)
    for k in range(3):
        out[k] *= s
    for k in range(3, 9):
        out[k] *= s * s


@entry
def sample_grid(field, points, distances, derivatives):
    """Write the distances (p,) [m] and derivatives (p, 9) at points (p, 3) of the grid that begins at field[0]."""
    for k in range(points.shape[0]):
        distances[k] = grid_distance_at(field, 0, points[k, 0], points[k, 1], points[k, 2])
        grid_gradient(field, 0, points[k, 0], points[k, 1], points[k, 2], derivatives[k])


# --- Building ---


@kernel
def triangle_distance(t, x, y, z):
    """Return the squared distance [m^2] of a point from the triangle t (9,) (Ericson 2005, 5.1.5)."""
    ax, ay, az = t[0] - x, t[1] - y, t[2] - z
    bx, by, bz = t[3] - x, t[4] - y, t[5] - z
    cx, cy, cz = t[6] - x, t[7] - y, t[8] - z
    ux, uy, uz, vx, vy, vz = bx - ax, by - ay, bz - az, cx - ax, cy - ay, cz - az
    d1, d2 = -(ux * ax + uy * ay + uz * az), -(vx * ax + vy * ay + vz * az)
    d3, d4 = -(ux * bx + uy * by + uz * bz), -(vx * bx + vy * by + vz * bz)
    d5, d6 = -(ux * cx + uy * cy + uz * cz), -(vx * cx + vy * cy + vz * cz)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    s, r = 0.0, 0.0  # weights of the second and third corner
    if d1 <= 0.0 and d2 <= 0.0:
        s, r = 0.0, 0.0
    elif d3 >= 0.0 and d4 <= d3:
        s = 1.0
    elif d6 >= 0.0 and d5 <= d6:
        r = 1.0
    elif vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        s = d1 / (d1 - d3) if d1 > d3 else 0.0
    elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        r = d2 / (d2 - d6) if d2 > d6 else 0.0
    elif va <= 0.0 and d4 >= d3 and d5 >= d6:
        r = (d4 - d3) / ((d4 - d3) + (d5 - d6)) if (d4 - d3) + (d5 - d6) > 0.0 else 0.0
        s = 1.0 - r
    elif va + vb + vc > 0.0:
        s, r = vb / (va + vb + vc), vc / (va + vb + vc)
    px, py, pz = ax + s * ux + r * vx, ay + s * uy + r * vy, az + s * uz + r * vz
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
