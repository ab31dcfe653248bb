"""Grids of signed distances: built once from triangles, interpolated, and the distance of a hull from one.

In a new grid, distances are exact at the nodes near each triangle; sweeps then propagate the nearest triangle from
node to node (Danielsson 1980). The sign is the parity of ray crossings.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel, small
from posable.engine.layout import (
    CAPSULE,
    CAPSULE_AXIS,
    CAPSULE_RADIUS,
    COVERING_RADIUS,
    FIELD,
    FIRST_SEED,
    RADIUS,
    SEEDS,
    clear,
)
from posable.engine.narrow_phase import FAR, VERTICES, point_to_world, support, triangle_weights

# --- Interpolation in a grid of signed distances ---

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
    clear(out)
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


# --- The distance of a hull from a grid ---

# Of a contact with a grid: the point (3) of the solid, relative to ws.origin; gradient (3) and second
# derivatives (6) of the distance there. Atoms of the search for it: place (3) and weight
SLOPE, ATOMS, MOST_ATOMS = 5, VERTICES, 16
SEARCHES, STEPS, HALVINGS, SETTLED = 6, 60, 16, 1e-7  # seeds, Frank-Wolfe steps, bisections, tolerance [m]


@kernel
def line_minimum(field, at, x, y, z, dx, dy, dz, slope):
    """Return the parameter in [0, 1] at which the distance of a grid is least on the line from a point along d."""
    grid_gradient(field, at, x + dx, y + dy, z + dz, slope)
    if slope[0] * dx + slope[1] * dy + slope[2] * dz <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        grid_gradient(field, at, x + t * dx, y + t * dy, z + t * dz, slope)
        if slope[0] * dx + slope[1] * dy + slope[2] * dz <= 0.0:
            low = t
        else:
            high = t
    return low


@kernel
def frank_wolfe(figure, ws, a, at, x, y, z, m):
    """Return the point of hull a, in world axes, at which the distance of a grid is least, from a start on the hull.

    Frank-Wolfe with pairwise steps (Lacoste-Julien & Jaggi 2015): the point is a convex combination of corners and of
    the start.
    """
    field, c, o = figure.field, figure.corner, ws.origin
    slope = m[SLOPE : SLOPE + 9]
    atoms = 1
    m[ATOMS], m[ATOMS + 1], m[ATOMS + 2], m[ATOMS + 3] = x, y, z, 1.0
    for _ in range(STEPS):
        grid_gradient(field, at, x + o[0], y + o[1], z + o[2], slope)
        gx, gy, gz = slope[0], slope[1], slope[2]
        i = support(figure, ws, a, -gx, -gy, -gz)
        px, py, pz = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
        if gx * (x - px) + gy * (y - py) + gz * (z - pz) < SETTLED:
            break
        worst, highest, same = 0, -FAR, -1
        for k in range(atoms):
            q = ATOMS + 4 * k
            along = gx * m[q] + gy * m[q + 1] + gz * m[q + 2]
            if along > highest:
                worst, highest = k, along
            if m[q] == px and m[q + 1] == py and m[q + 2] == pz:
                same = k
        if same < 0:
            if atoms >= MOST_ATOMS:
                break
            q = ATOMS + 4 * atoms
            m[q], m[q + 1], m[q + 2], m[q + 3] = px, py, pz, 0.0
            same = atoms
            atoms += 1
        q = ATOMS + 4 * worst
        most = m[q + 3]
        dx, dy, dz = most * (px - m[q]), most * (py - m[q + 1]), most * (pz - m[q + 2])
        t = line_minimum(field, at, x + o[0], y + o[1], z + o[2], dx, dy, dz, slope)
        if t <= 0.0:
            break
        x, y, z = x + t * dx, y + t * dy, z + t * dz
        m[ATOMS + 4 * same + 3] += t * most
        m[q + 3] -= t * most
        if t >= 1.0:  # the weight of the atom is zero
            atoms -= 1
            for k in range(4):
                m[q + k] = m[ATOMS + 4 * atoms + k]
    return x, y, z


@kernel
def grid_distance(figure, ws, a, b, size, m):
    """Return (distance [m], 1) of solid a from grid b; FAR, 0 if it exceeds size. m has the point and the gradient.

    The least distance over the hull is searched from the seeds that may be near it: the distance is 1-Lipschitz, and no
    point of the hull is further than COVERING_RADIUS from a seed.
    """
    s, c, o, field = figure.solid, figure.corner, ws.origin, figure.field
    at, radius = int(s[b, FIELD]), s[a, RADIUS]
    x, y, z = point_to_world(figure, ws, a, s[a, CAPSULE], s[a, CAPSULE + 1], s[a, CAPSULE + 2])
    half = math.sqrt(s[a, CAPSULE_AXIS] ** 2 + s[a, CAPSULE_AXIS + 1] ** 2 + s[a, CAPSULE_AXIS + 2] ** 2)
    if grid_distance_at(field, at, x + o[0], y + o[1], z + o[2]) - half - s[a, CAPSULE_RADIUS] >= size:
        return FAR, 0
    best, followed, bx, by, bz = FAR, 0, x, y, z
    least, skip = FAR, -1
    first, last = int(s[a, FIRST_SEED]), int(s[a, FIRST_SEED] + s[a, SEEDS])
    for i in range(first, last):  # the lowest seed first: its result rules out most others
        x, y, z = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
        d = grid_distance_at(field, at, x + o[0], y + o[1], z + o[2])
        if d < least:
            least, skip = d, i
    if least - s[a, COVERING_RADIUS] - radius >= size:
        return FAR, 0
    for i in range(first - 1, last):
        j = skip if i < first else i
        if i == skip or followed >= SEARCHES:
            continue
        x, y, z = point_to_world(figure, ws, a, c[j, 0], c[j, 1], c[j, 2])
        d = grid_distance_at(field, at, x + o[0], y + o[1], z + o[2])
        if d - s[a, COVERING_RADIUS] >= best:
            continue
        x, y, z = frank_wolfe(figure, ws, a, at, x, y, z, m)
        followed += 1
        d = grid_distance_at(field, at, x + o[0], y + o[1], z + o[2])
        if d < best:
            best, bx, by, bz = d, x, y, z
    if best - radius >= size:
        return FAR, 0
    m[0], m[1], m[2] = bx, by, bz
    grid_gradient(field, at, bx + o[0], by + o[1], bz + o[2], m[SLOPE : SLOPE + 9])
    return best - radius, 1


# --- Building a grid from triangles ---


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
