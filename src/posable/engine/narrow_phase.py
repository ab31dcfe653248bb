"""Narrow phase of collision detection: distances between rounded convex hulls, and from half spaces.

A solid is the convex hull of a few corners, rounded by a radius. Two levels of bounds (a ball around all solids of a
body, a capsule around each solid) discard what is far apart; the rest is measured by GJK (Gilbert, Johnson & Keerthi
1988), and by EPA (van den Bergen 2001) where the hulls themselves overlap. Both end with a simplex of the difference
of the two hulls, points w_i = a_i - b_i with weights l_i, whose point delta = sum l_i w_i is nearest to the origin:
the distance is |delta| minus the radii, negative where the solids overlap.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small
from posable.engine.layout import (
    CAPSULE,
    CAPSULE_AXIS,
    CAPSULE_RADIUS,
    CORNERS,
    FIELD,
    FIRST_CORNER,
    MAX_FACES,
    MAX_VERTICES,
    NORMAL,
    ON_BODY,
    RADIUS,
    REACH,
)

HULL, HALF_SPACE, GRID = 0.0, 1.0, 2.0  # kinds of solids
FAR = 1e30  # [m]: returned for solids further apart than asked
ROUNDS = 40  # iterations of GJK
SAME = 1e-12  # relative tolerance for the nearest point
TOUCHING = 1e-20  # [m^2]: hulls that share a point
SHORT = 1e-9  # [m]: shorter gaps define no direction
# Offsets in the scratch memory `m`: four vertices (w, index in a, index in b), their weights, the nearest point, normal
VERTEX, WEIGHTS, NEAREST, OUTWARD = 5, 20, 24, 27
SHIFT = 30  # [m] offset of the difference from the origin; see `ALIGNED`
ALIGNED = 1e-8  # [m]: offset at which degenerate hulls, whose difference has the origin on a face, are measured
FACE = 7  # size of a face of EPA: three vertices, outward normal, distance
VERTICES = 32  # where the vertices of EPA begin
FACES = VERTICES + VERTEX * MAX_VERTICES
EDGES = FACES + FACE * MAX_FACES


# --- Solids in the world ---


@small
def point_to_world(figure, ws, solid, x, y, z):
    """Return a point of a solid's body in world axes, relative to ws.origin."""
    body = int(figure.solid[solid, ON_BODY])
    if body < 0:
        return x - ws.origin[0], y - ws.origin[1], z - ws.origin[2]
    p, r = ws.position[body], ws.rotation[body]
    return (
        p[0] + r[0] * x + r[1] * y + r[2] * z,
        p[1] + r[3] * x + r[4] * y + r[5] * z,
        p[2] + r[6] * x + r[7] * y + r[8] * z,
    )


@small
def direction_to_world(figure, ws, solid, x, y, z):
    """Return a direction of a solid's body in world axes."""
    body = int(figure.solid[solid, ON_BODY])
    if body < 0:
        return x, y, z
    r = ws.rotation[body]
    return r[0] * x + r[1] * y + r[2] * z, r[3] * x + r[4] * y + r[5] * z, r[6] * x + r[7] * y + r[8] * z


# The extreme corners of a hull, by cells of directions: a cube around the origin, each of its faces divided into
# CELLS x CELLS squares. The table of a hull is a run of Figure.field: where the list of each cell begins, and where the
# last one ends; then, cell by cell, the corners that can be furthest along a direction of the cell.
CELLS = 4


@small
def direction_cell(x, y, z):
    """Return the cell of a direction that is not zero: faces +x, -x, +y, -y, +z, -z, the two other axes in order."""
    p, q, r = abs(x), abs(y), abs(z)
    if p >= q and p >= r:
        face, u, v, most = 0 if x > 0.0 else 1, y, z, p
    elif q >= r:
        face, u, v, most = 2 if y > 0.0 else 3, x, z, q
    else:
        face, u, v, most = 4 if z > 0.0 else 5, x, y, r
    scale = 0.5 * CELLS / most
    i, j = int(u * scale + 0.5 * CELLS), int(v * scale + 0.5 * CELLS)
    return (face * CELLS + min(i, CELLS - 1)) * CELLS + min(j, CELLS - 1)


@kernel
def support(figure, ws, solid, x, y, z):
    """Return the corner of a solid that is furthest along a direction of the world."""
    body = int(figure.solid[solid, ON_BODY])
    if body >= 0:
        r = ws.rotation[body]
        x, y, z = r[0] * x + r[3] * y + r[6] * z, r[1] * x + r[4] * y + r[7] * z, r[2] * x + r[5] * y + r[8] * z
    c, at = figure.corner, int(figure.solid[solid, FIELD])
    if at >= 0 and x * x + y * y + z * z > 0.0:
        at += 1 + direction_cell(x, y, z)
        f = figure.field
        first, last = int(f[at - 1]), int(f[at])
        found = int(f[first])
        best = c[found, 0] * x + c[found, 1] * y + c[found, 2] * z
        for k in range(first + 1, last):
            i = int(f[k])
            along = c[i, 0] * x + c[i, 1] * y + c[i, 2] * z
            if along > best:
                best, found = along, i
        return found
    first = int(figure.solid[solid, FIRST_CORNER])
    last = first + int(figure.solid[solid, CORNERS])
    best, found = c[first, 0] * x + c[first, 1] * y + c[first, 2] * z, first
    for i in range(first + 1, last):
        along = c[i, 0] * x + c[i, 1] * y + c[i, 2] * z
        if along > best:
            best, found = along, i
    return found


@small
def put_vertex(figure, ws, a, b, i, j, m, at):
    """Write the vertex a_i - b_j of the difference at m[at:at+5]."""
    c = figure.corner
    ax, ay, az = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
    bx, by, bz = point_to_world(figure, ws, b, c[j, 0], c[j, 1], c[j, 2])
    e = m[SHIFT]
    m[at], m[at + 1], m[at + 2] = ax - bx + 0.57 * e, ay - by + 0.31 * e, az - bz + 0.76 * e
    m[at + 3], m[at + 4] = float(i), float(j)


@kernel
def copy_vertex(m, source, target):
    """Copy the five numbers of a vertex."""
    for k in range(VERTEX):
        m[target + k] = m[source + k]


# --- The nearest point of a simplex to the origin ---


@kernel
def nearest_on_segment(m, i, j):
    """Return the weight of vertex j at the nearest point of the segment from vertex i to vertex j."""
    ax, ay, az = m[i], m[i + 1], m[i + 2]
    dx, dy, dz = m[j] - ax, m[j + 1] - ay, m[j + 2] - az
    square = dx * dx + dy * dy + dz * dz
    return min(max(-(ax * dx + ay * dy + az * dz) / square, 0.0), 1.0) if square > 0.0 else 0.0


@kernel
def nearest_on_triangle(m, i, j, k):
    """Return the weights of three vertices at the nearest point of their triangle."""
    return triangle_weights(m[i], m[i + 1], m[i + 2], m[j], m[j + 1], m[j + 2], m[k], m[k + 1], m[k + 2])


@kernel
def triangle_weights(ax, ay, az, bx, by, bz, cx, cy, cz):
    """Return the weights of the corners at the point of a triangle nearest to the origin (Ericson 2005, 5.1.5)."""
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    d1, d2 = -(ux * ax + uy * ay + uz * az), -(vx * ax + vy * ay + vz * az)
    if d1 <= 0.0 and d2 <= 0.0:
        return 1.0, 0.0, 0.0
    d3, d4 = -(ux * bx + uy * by + uz * bz), -(vx * bx + vy * by + vz * bz)
    if d3 >= 0.0 and d4 <= d3:
        return 0.0, 1.0, 0.0
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        t = d1 / (d1 - d3) if d1 > d3 else 0.0
        return 1.0 - t, t, 0.0
    d5, d6 = -(ux * cx + uy * cy + uz * cz), -(vx * cx + vy * cy + vz * cz)
    if d6 >= 0.0 and d5 <= d6:
        return 0.0, 0.0, 1.0
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / (d2 - d6) if d2 > d6 else 0.0
        return 1.0 - t, 0.0, t
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 >= d3 and d5 >= d6:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6)) if (d4 - d3) + (d5 - d6) > 0.0 else 0.0
        return 0.0, 1.0 - t, t
    total = va + vb + vc
    if not total > 0.0:  # a triangle without an area
        return 1.0, 0.0, 0.0
    return va / total, vb / total, vc / total


@kernel
def foot_on_plane(m, i, j, k):
    """Return the weights of three vertices at the foot of the perpendicular on their plane; some may be negative.

    A face of EPA may be part of a larger flat face: the nearest point can lie in its plane beside the triangle.
    """
    ux, uy, uz = m[j] - m[i], m[j + 1] - m[i + 1], m[j + 2] - m[i + 2]
    vx, vy, vz = m[k] - m[i], m[k + 1] - m[i + 1], m[k + 2] - m[i + 2]
    uu, vv, uv = ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz, ux * vx + uy * vy + uz * vz
    up, vp = -(ux * m[i] + uy * m[i + 1] + uz * m[i + 2]), -(vx * m[i] + vy * m[i + 1] + vz * m[i + 2])
    room = uu * vv - uv * uv
    s, t = (vv * up - uv * vp) / room, (uu * vp - uv * up) / room
    return 1.0 - s - t, s, t


@kernel
def volume_side(m, i, j, k, l):
    """Return a positive number if the origin is on the same side of the triangle i, j, k as vertex l."""
    ux, uy, uz = m[j] - m[i], m[j + 1] - m[i + 1], m[j + 2] - m[i + 2]
    vx, vy, vz = m[k] - m[i], m[k + 1] - m[i + 1], m[k + 2] - m[i + 2]
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    origin = -(nx * m[i] + ny * m[i + 1] + nz * m[i + 2])
    other = nx * (m[l] - m[i]) + ny * (m[l + 1] - m[i + 1]) + nz * (m[l + 2] - m[i + 2])
    return origin * other


@kernel
def drop_unweighted_vertices(m, count):
    """Drop the vertices of zero weight and write the nearest point; return how many are left."""
    kept = 0
    x, y, z = 0.0, 0.0, 0.0
    for i in range(count):
        share = m[WEIGHTS + i]
        if share > 0.0:
            at = VERTEX * i
            x, y, z = x + share * m[at], y + share * m[at + 1], z + share * m[at + 2]
            if kept != i:
                copy_vertex(m, at, VERTEX * kept)
            m[WEIGHTS + kept] = share
            kept += 1
    m[NEAREST], m[NEAREST + 1], m[NEAREST + 2] = x, y, z
    return kept


@kernel
def reduce_simplex(m, count):
    """Reduce the simplex to the vertices that carry its nearest point; return how many; 4: it contains the origin."""
    w = WEIGHTS
    if count == 1:
        m[w] = 1.0
    elif count == 2:
        t = nearest_on_segment(m, 0, VERTEX)
        m[w], m[w + 1] = 1.0 - t, t
    elif count == 3:
        m[w], m[w + 1], m[w + 2] = nearest_on_triangle(m, 0, VERTEX, 2 * VERTEX)
    else:
        best = FAR
        b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
        for face in range(3):  # each without one vertex; the one without the last vertex is further away
            i, j, k = VERTEX * (1 if face == 0 else 0), VERTEX * (2 if face <= 1 else 1), VERTEX * 3
            if volume_side(m, i, j, k, VERTEX * face) > 0.0:
                continue
            s, t, u = nearest_on_triangle(m, i, j, k)
            x = s * m[i] + t * m[j] + u * m[k]
            y = s * m[i + 1] + t * m[j + 1] + u * m[k + 1]
            z = s * m[i + 2] + t * m[j + 2] + u * m[k + 2]
            square = x * x + y * y + z * z
            if square < best:
                best = square
                b0 = 0.0 if face == 0 else s
                b1 = s if face == 0 else (0.0 if face == 1 else t)
                b2 = t if face <= 1 else 0.0
                b3 = u
        if best == FAR:
            return 4
        m[w], m[w + 1], m[w + 2], m[w + 3] = b0, b1, b2, b3
    return drop_unweighted_vertices(m, count)


# --- Hulls apart: GJK ---


@kernel
def gjk(figure, ws, a, b, x, y, z, stop, m):
    """Return the number of vertices of the simplex nearest to the origin, written to m; 0: further apart than stop.

    4: the hulls overlap, and the simplex contains the origin. The search begins along x, y, z, from b to a.
    """
    square = x * x + y * y + z * z
    i, j = support(figure, ws, a, -x, -y, -z), support(figure, ws, b, x, y, z)
    put_vertex(figure, ws, a, b, i, j, m, 0)
    along = x * m[0] + y * m[1] + z * m[2]
    if along > 0.0 and along * along > stop * stop * square:
        return 0
    count = reduce_simplex(m, 1)
    for _ in range(ROUNDS):
        x, y, z = m[NEAREST], m[NEAREST + 1], m[NEAREST + 2]
        square = x * x + y * y + z * z
        if square < TOUCHING:
            return count
        i, j = support(figure, ws, a, -x, -y, -z), support(figure, ws, b, x, y, z)
        at = VERTEX * count
        put_vertex(figure, ws, a, b, i, j, m, at)
        along = x * m[at] + y * m[at + 1] + z * m[at + 2]
        if along > 0.0 and along * along > stop * stop * square:
            return 0  # a separating plane proves that they are further apart than asked
        if square - along <= SAME * square:
            return count
        for k in range(count):
            if m[VERTEX * k + 3] == m[at + 3] and m[VERTEX * k + 4] == m[at + 4]:
                return count
        count = reduce_simplex(m, count + 1)
        if count == 4:
            return 4
        now = m[NEAREST] * m[NEAREST] + m[NEAREST + 1] * m[NEAREST + 1] + m[NEAREST + 2] * m[NEAREST + 2]
        if now >= square:
            return count
    return count


# --- Hulls that overlap: EPA ---


@kernel
def put_face(m, face, i, j, k):
    """Write a face of the polytope with its outward normal and distance; return whether its area is positive."""
    at = FACES + FACE * face
    a, b, c = VERTICES + VERTEX * i, VERTICES + VERTEX * j, VERTICES + VERTEX * k
    ux, uy, uz = m[b] - m[a], m[b + 1] - m[a + 1], m[b + 2] - m[a + 2]
    vx, vy, vz = m[c] - m[a], m[c + 1] - m[a + 1], m[c + 2] - m[a + 2]
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    if length < 1e-18:
        return False
    nx, ny, nz = nx / length, ny / length, nz / length
    d = nx * m[a] + ny * m[a + 1] + nz * m[a + 2]
    if d < 0.0:  # the origin is inside: outward has a positive distance
        nx, ny, nz, d = -nx, -ny, -nz, -d
        j, k = k, j
    m[at], m[at + 1], m[at + 2] = float(i), float(j), float(k)
    m[at + 3], m[at + 4], m[at + 5], m[at + 6] = nx, ny, nz, d
    return True


@kernel
def add_edge(m, edges, i, j):
    """Add an edge of the horizon; an edge that occurs in both senses is interior and is removed. Return the count."""
    for e in range(edges):
        if m[EDGES + 2 * e] == float(j) and m[EDGES + 2 * e + 1] == float(i):
            m[EDGES + 2 * e], m[EDGES + 2 * e + 1] = m[EDGES + 2 * edges - 2], m[EDGES + 2 * edges - 1]
            return edges - 1
    m[EDGES + 2 * edges], m[EDGES + 2 * edges + 1] = float(i), float(j)
    return edges + 1


@kernel
def epa(figure, ws, a, b, deep, m):
    """Return the penetration depth of overlapping hulls [m]; m has the face nearest to the origin, and its normal.

    A depth above `deep` may be a lower bound. Negative if the difference is flat; then nothing is written.
    """
    for k in range(4):
        copy_vertex(m, VERTEX * k, VERTICES + VERTEX * k)
    vertices, faces = 4, 0
    for k in range(4):
        if not put_face(m, faces, 1 if k == 0 else 0, 2 if k <= 1 else 1, 3 if k <= 2 else 2):
            return -1.0
        faces += 1
    best = 0
    while True:
        best = 0
        for f in range(1, faces):
            if m[FACES + FACE * f + 6] < m[FACES + FACE * best + 6]:
                best = f
        at = FACES + FACE * best
        x, y, z, d = m[at + 3], m[at + 4], m[at + 5], m[at + 6]
        if vertices >= MAX_VERTICES or d > deep:
            break
        i, j = support(figure, ws, a, x, y, z), support(figure, ws, b, -x, -y, -z)
        new = VERTICES + VERTEX * vertices
        put_vertex(figure, ws, a, b, i, j, m, new)
        px, py, pz = m[new], m[new + 1], m[new + 2]
        if px * x + py * y + pz * z - d <= 1e-10 + 1e-9 * d:
            break
        edges = 0
        f = 0
        while f < faces:  # remove the faces visible from the new vertex, and keep the edges of the hole
            q = FACES + FACE * f
            if m[q + 3] * px + m[q + 4] * py + m[q + 5] * pz - m[q + 6] > 0.0:
                edges = add_edge(m, edges, int(m[q]), int(m[q + 1]))
                edges = add_edge(m, edges, int(m[q + 1]), int(m[q + 2]))
                edges = add_edge(m, edges, int(m[q + 2]), int(m[q]))
                faces -= 1
                for k in range(FACE):
                    m[q + k] = m[FACES + FACE * faces + k]
            else:
                f += 1
        if faces + edges > MAX_FACES:
            return -1.0
        for e in range(edges):
            if put_face(m, faces, int(m[EDGES + 2 * e]), int(m[EDGES + 2 * e + 1]), vertices):
                faces += 1
        vertices += 1
        if faces == 0:
            return -1.0
    at = FACES + FACE * best
    depth = m[at + 6]
    m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2] = m[at + 3], m[at + 4], m[at + 5]
    for k in range(3):
        copy_vertex(m, VERTICES + VERTEX * int(m[at + k]), VERTEX * k)
    m[WEIGHTS], m[WEIGHTS + 1], m[WEIGHTS + 2] = foot_on_plane(m, 0, VERTEX, 2 * VERTEX)
    return depth


# --- The distance of a pair ---


@kernel
def capsule_distance(figure, ws, a, b, size):
    """Return the distance of the bounding capsules of two solids [m], a lower bound, and the line x, y, z from b to a.

    The line is that between the nearest points of their axes or, where these meet, between their middles. FAR, without
    a line, if balls around the solids are further apart than size [m].
    """
    s = figure.solid
    ax, ay, az = point_to_world(figure, ws, a, s[a, CAPSULE], s[a, CAPSULE + 1], s[a, CAPSULE + 2])
    bx, by, bz = point_to_world(figure, ws, b, s[b, CAPSULE], s[b, CAPSULE + 1], s[b, CAPSULE + 2])
    px, py, pz = ax - bx, ay - by, az - bz
    reach = s[a, REACH] + s[b, REACH] + size
    if px * px + py * py + pz * pz > reach * reach:
        return FAR, 0.0, 0.0, 0.0
    ux, uy, uz = direction_to_world(figure, ws, a, s[a, CAPSULE_AXIS], s[a, CAPSULE_AXIS + 1], s[a, CAPSULE_AXIS + 2])
    vx, vy, vz = direction_to_world(figure, ws, b, s[b, CAPSULE_AXIS], s[b, CAPSULE_AXIS + 1], s[b, CAPSULE_AXIS + 2])
    # nearest points of two segments that are given by their middles: parameters in [-1, 1]
    uu, vv, uv = ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz, ux * vx + uy * vy + uz * vz
    up, vp = ux * px + uy * py + uz * pz, vx * px + vy * py + vz * pz
    room = uu * vv - uv * uv
    i = min(max((uv * vp - vv * up) / room, -1.0), 1.0) if room > 1e-12 * uu * vv and room > 0.0 else 0.0
    j = min(max((uv * i + vp) / vv, -1.0), 1.0) if vv > 0.0 else 0.0
    i = min(max((uv * j - up) / uu, -1.0), 1.0) if uu > 0.0 else 0.0
    x, y, z = px + i * ux - j * vx, py + i * uy - j * vy, pz + i * uz - j * vz
    length = math.sqrt(x * x + y * y + z * z)
    if length < SHORT:
        x, y, z = px, py, pz
        if px * px + py * py + pz * pz < SHORT * SHORT:
            x = 1.0
    return length - s[a, CAPSULE_RADIUS] - s[b, CAPSULE_RADIUS], x, y, z


@kernel
def plane_distance(figure, ws, a, b, m):
    """Return the distance of solid a from the half space b [m]; m has the nearest corner and the plane's normal."""
    s = figure.solid
    nx, ny, nz = direction_to_world(figure, ws, b, s[b, NORMAL], s[b, NORMAL + 1], s[b, NORMAL + 2])
    i = support(figure, ws, a, -nx, -ny, -nz)
    put_vertex(figure, ws, a, b, i, int(s[b, FIRST_CORNER]), m, 0)
    m[WEIGHTS] = 1.0
    m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2] = nx, ny, nz
    return nx * m[0] + ny * m[1] + nz * m[2] - s[a, RADIUS]
