"""Collision springs: solids closer than a clearance push each other apart.

The energy is 1/2 w max(0, size - d)^2, with the distance d of `solid_distance`. As the bodies move, the nearest point
slides on the simplex; with q_j = w_j - w_0 the second derivative of 1/2 |delta|^2 loses u M^-1 u', M_jk = q_j . q_k.
"""

from __future__ import annotations

import math

from posable.engine.distance_grid import SLOPE, grid_distance
from posable.engine.jit import entry, kernel, small
from posable.engine.joints import forward
from posable.engine.layout import (
    BALL_RADIUS,
    CACHED_CONTACT_WIDTH,
    CAPSULE,
    CONTACT_CACHE,
    CONTACT_WIDTH,
    CONTACTS,
    CONTACTS_FOUND,
    FIRST,
    LAST,
    MAX_CONTACTS,
    MEASURE,
    OTHER_ENERGY,
    PARENT,
    PLACEMENT_STAMP,
    POINT,
    RADIUS,
    REJECT_ABOVE,
    ROBUST,
    SIZE,
    SOLID_KIND,
    WEIGHT,
    clear,
    workspace,
)
from posable.engine.narrow_phase import (
    ALIGNED,
    FAR,
    GRID,
    HALF_SPACE,
    NEAREST,
    OUTWARD,
    SHIFT,
    SHORT,
    TOUCHING,
    VERTEX,
    WEIGHTS,
    capsule_distance,
    epa,
    gjk,
    plane_distance,
    point_to_world,
)
from posable.engine.springs import STICKY, add_point_force, add_product, apply_load

STICKY_GAP = 5e-3  # [m] up to which a pair also pulls while the spring is sticky: newton.watchdog_step


# --- The distance of any pair ---


@kernel
def solid_distance(figure, ws, a, b, size, deep, m):
    """Return (distance [m], vertices of the simplex) of two solids; FAR, 0 if they are further apart than size.

    Of solids that overlap by more than `deep` [m], the result may be any overlap between that and the true one.
    The simplex is in m, with the unit normal from b to a; with 0 vertices and a distance, the normal is a guess.
    """
    s = figure.solid
    m[SHIFT] = 0.0
    if s[b, SOLID_KIND] == HALF_SPACE:
        d = plane_distance(figure, ws, a, b, m)
        return (d, 1) if d < size else (FAR, 0)
    if s[b, SOLID_KIND] == GRID:
        return grid_distance(figure, ws, a, b, size, m)
    bound, lx, ly, lz = capsule_distance(figure, ws, a, b, size)
    if bound >= size:
        return FAR, 0
    radii = s[a, RADIUS] + s[b, RADIUS]
    stop = max(size + radii, SHORT)
    count = gjk(figure, ws, a, b, lx, ly, lz, stop, m)
    if 0 < count < 4 and m[NEAREST] ** 2 + m[NEAREST + 1] ** 2 + m[NEAREST + 2] ** 2 < TOUCHING:
        # the origin is on the simplex: touching hulls, or aligned ones that overlap; a small offset decides
        m[SHIFT] = ALIGNED
        again = gjk(figure, ws, a, b, lx, ly, lz, stop, m)
        if again > 0:
            count = again
    if count == 0:
        return FAR, 0
    x, y, z = m[NEAREST], m[NEAREST + 1], m[NEAREST + 2]
    d = math.sqrt(x * x + y * y + z * z)
    if count == 4:
        depth = epa(figure, ws, a, b, deep - radii, m)
        if depth >= 0.0:
            m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2] = -m[OUTWARD], -m[OUTWARD + 1], -m[OUTWARD + 2]
            return -depth - radii, 3
        d, count = 0.0, 1
    if d - radii >= size:
        return FAR, 0
    if d > SHORT:
        m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2] = x / d, y / d, z / d
        return d - radii, count
    ax, ay, az = point_to_world(figure, ws, a, s[a, CAPSULE], s[a, CAPSULE + 1], s[a, CAPSULE + 2])
    bx, by, bz = point_to_world(figure, ws, b, s[b, CAPSULE], s[b, CAPSULE + 1], s[b, CAPSULE + 2])
    x, y, z = ax - bx, ay - by, az - bz
    d = math.sqrt(x * x + y * y + z * z)
    if d > SHORT:
        m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2] = x / d, y / d, z / d
    else:
        m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2] = 1.0, 0.0, 0.0
    return -radii, 0


# --- Collision springs ---


@kernel
def place_balls(figure, ws):
    """Write the centres of the bounding balls of the bodies into ws.ball, in world axes."""
    for b in range(ws.ball.shape[0]):
        if figure.ball[b, BALL_RADIUS] >= 0.0:
            x, y, z = figure.ball[b, 0], figure.ball[b, 1], figure.ball[b, 2]
            p, r = ws.position[b], ws.rotation[b]
            ws.ball[b, 0] = p[0] + r[0] * x + r[1] * y + r[2] * z
            ws.ball[b, 1] = p[1] + r[3] * x + r[4] * y + r[5] * z
            ws.ball[b, 2] = p[2] + r[6] * x + r[7] * y + r[8] * z


@small
def bodies_apart(figure, ws, a, b, size):
    """Return whether the bounding balls of two bodies are further apart than size; never for the world."""
    if b < 0:
        return False
    x, y, z = ws.ball[a, 0] - ws.ball[b, 0], ws.ball[a, 1] - ws.ball[b, 1], ws.ball[a, 2] - ws.ball[b, 2]
    reach = figure.ball[a, BALL_RADIUS] + figure.ball[b, BALL_RADIUS] + size
    return x * x + y * y + z * z > reach * reach


@kernel
def collision_energy(figure, row, ws, index):
    """Return the energy of a COLLISION spring, and write the largest violation of its margin [m]."""
    ws.error[index] = 0.0
    if row[ROBUST] < 0.0:
        return 0.0
    size, margin, total, worst = row[SIZE], row[MEASURE], 0.0, 0.0
    m = ws.memory
    found = 0
    most, deep = math.inf, FAR
    if m[REJECT_ABOVE] > 0.0:  # an overlap whose energy alone rejects the trial need not be known exactly
        most = max(m[REJECT_ABOVE] - m[OTHER_ENERGY], 0.0)
        deep = math.sqrt(2.0 * most / row[WEIGHT]) - size if row[WEIGHT] > 0.0 else FAR
    if most == 0.0:
        m[CONTACTS_FOUND] = MAX_CONTACTS + 1.0
        return 0.0
    place_balls(figure, ws)
    for q in range(int(row[POINT]), int(row[POINT + 1])):
        if bodies_apart(figure, ws, figure.touch[q, 0], figure.touch[q, 1], size):
            continue
        for p in range(figure.touch[q, 2], figure.touch[q, 3]):
            d, count = solid_distance(figure, ws, figure.pair[p, 0], figure.pair[p, 1], size, deep, m)
            if d < size:
                total += 0.5 * row[WEIGHT] * (size - d) * (size - d)
                worst = max(worst, margin - d)
                if found < MAX_CONTACTS:
                    keep_contact(m, found, q, p, d, count)
                found += 1
            if total > most:
                m[CONTACTS_FOUND] = MAX_CONTACTS + 1.0  # not all of them
                return total
    m[CONTACTS_FOUND] = float(found)
    m[PLACEMENT_STAMP], m[PLACEMENT_STAMP + 1] = placement_checksum(ws), row[POINT]
    ws.error[index] = worst
    return total


@kernel
def placement_checksum(ws):
    """Return a number that distinguishes placements of the bodies."""
    x, y, z, u, v, w = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0  # sums that do not wait for each other
    for b in range(ws.ball.shape[0]):
        p, r, share = ws.position[b], ws.rotation[b], b + 1.0
        x, y, z = x + share * p[0], y + share * p[1], z + share * p[2]
        u, v, w = u + share * r[1], v + share * r[2], w + share * r[5]
    return x + 1.3 * y + 1.7 * z + u + 1.9 * v + 2.3 * w


@kernel
def contacts_known(row, ws):
    """Return whether the energy of a COLLISION spring was the last one evaluated, at this placement of the bodies."""
    m = ws.memory
    return m[PLACEMENT_STAMP] == placement_checksum(ws) and m[PLACEMENT_STAMP + 1] == row[POINT]


@kernel
def all_apart(row, ws):
    """Return whether the energy of a COLLISION spring, evaluated at this placement of the bodies, found no contact."""
    return ws.memory[CONTACTS_FOUND] == 0.0 and contacts_known(row, ws)


@kernel
def keep_contact(m, number, q, p, d, count):
    """Store a contact found with the energy, with its simplex, for the derivatives at the same pose."""
    at = CONTACT_CACHE + CACHED_CONTACT_WIDTH * number
    m[at], m[at + 1], m[at + 2], m[at + 3] = float(q), float(p), d, float(count)
    for k in range(CACHED_CONTACT_WIDTH - 4):
        m[at + 4 + k] = m[k]


@kernel
def add_sliding_simplex(f, figure, ws, a, count, ex, ey, ez, x, y, z, m, s):
    """Add -f u M^-1 u': how the sliding of the nearest points on their simplex reduces the second derivative."""
    if count < 2:
        return
    i = int(m[3])
    c = figure.corner
    ox, oy, oz = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
    qx, qy, qz = m[5] - m[0], m[6] - m[1], m[7] - m[2]
    i = int(m[8])
    px, py, pz = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
    px, py, pz = px - ox, py - oy, pz - oz
    # u = [alpha x delta + e x q; q]
    u0, u1, u2 = py * z - pz * y + ey * qz - ez * qy, pz * x - px * z + ez * qx - ex * qz, (
        px * y - py * x + ex * qy - ey * qx)  # fmt: skip
    qq = qx * qx + qy * qy + qz * qz
    if count == 2:
        if qq > SHORT * SHORT:
            add_product(-f / qq, u0, u1, u2, qx, qy, qz, u0, u1, u2, qx, qy, qz, s)
        return
    rx, ry, rz = m[10] - m[0], m[11] - m[1], m[12] - m[2]
    i = int(m[13])
    px, py, pz = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
    px, py, pz = px - ox, py - oy, pz - oz
    v0, v1, v2 = py * z - pz * y + ey * rz - ez * ry, pz * x - px * z + ez * rx - ex * rz, (
        px * y - py * x + ex * ry - ey * rx)  # fmt: skip
    rr, qr = rx * rx + ry * ry + rz * rz, qx * rx + qy * ry + qz * rz
    room = qq * rr - qr * qr
    if room > 1e-12 * qq * rr:
        k = -f / room
        add_product(k * rr, u0, u1, u2, qx, qy, qz, u0, u1, u2, qx, qy, qz, s)
        add_product(k * qq, v0, v1, v2, rx, ry, rz, v0, v1, v2, rx, ry, rz, s)
        add_product(-2.0 * k * qr, u0, u1, u2, qx, qy, qz, v0, v1, v2, rx, ry, rz, s)


@kernel
def grid_load(ex, ey, ez, force, weight, exact, m, load):
    """Write the wrench and stiffness of a contact with a grid, as if its point were fixed to the body."""
    x, y, z = m[SLOPE], m[SLOPE + 1], m[SLOPE + 2]
    f = exact * force
    add_point_force(
        ex, ey, ez, force * x, force * y, force * z,
        weight * x * x + f * m[SLOPE + 3], weight * y * y + f * m[SLOPE + 4], weight * z * z + f * m[SLOPE + 5],
        weight * x * y + f * m[SLOPE + 6], weight * x * z + f * m[SLOPE + 7], weight * y * z + f * m[SLOPE + 8],
        exact, load[0:6], load[6:27],
    )  # fmt: skip


@kernel
def contact_load(figure, ws, a, b, d, count, row, exact, m, load):
    """Write the wrench (6) and stiffness (21) on the body of solid a of one pair, as if the other were fixed."""
    clear(load)
    s, c = figure.solid, figure.corner
    if s[b, SOLID_KIND] == GRID:
        grid_load(m[0], m[1], m[2], row[WEIGHT] * (d - row[SIZE]), row[WEIGHT], exact, m, load)
        return
    nx, ny, nz = m[OUTWARD], m[OUTWARD + 1], m[OUTWARD + 2]
    ex, ey, ez = 0.0, 0.0, 0.0
    for k in range(max(count, 1)):
        share, i = m[WEIGHTS + k], int(m[VERTEX * k + 3])
        x, y, z = point_to_world(figure, ws, a, c[i, 0], c[i, 1], c[i, 2])
        ex, ey, ez = ex + share * x, ey + share * y, ez + share * z
    w, gap = row[WEIGHT], row[SIZE] - d
    force = -w * gap
    flat = s[b, SOLID_KIND] == HALF_SPACE
    reach = d if flat else d + s[a, RADIUS] + s[b, RADIUS]  # of the hulls; negative where they overlap
    f = force / reach if abs(reach) > SHORT else 0.0  # delta = reach n, negative where the hulls overlap
    curve = 0.0 if flat or count == 0 else exact * f
    k = w - curve
    add_point_force(
        ex, ey, ez, force * nx, force * ny, force * nz,
        k * nx * nx + curve, k * ny * ny + curve, k * nz * nz + curve, k * nx * ny, k * nx * nz, k * ny * nz,
        exact, load[0:6], load[6:27],
    )  # fmt: skip
    if curve != 0.0:
        add_sliding_simplex(curve, figure, ws, a, count, ex, ey, ez, reach * nx, reach * ny, reach * nz, m, load[6:27])


@kernel
def add_collision(figure, row, ws, exact):
    """Apply the forces of a COLLISION spring, and keep those between two bodies for `add_contacts`."""
    m, size = ws.memory, row[SIZE]
    if row[POINT] == 0.0:  # the first COLLISION spring
        m[CONTACTS] = 0.0
    if row[ROBUST] < 0.0:
        return
    sticky = ws.local[STICKY] != 0.0
    if not sticky and m[CONTACTS_FOUND] <= float(MAX_CONTACTS) and contacts_known(row, ws):
        for number in range(int(m[CONTACTS_FOUND])):  # found with the energy at the same pose
            at = CONTACT_CACHE + CACHED_CONTACT_WIDTH * number
            for k in range(CACHED_CONTACT_WIDTH - 4):
                m[k] = m[at + 4 + k]
            add_contact(figure, row, ws, int(m[at]), int(m[at + 1]), m[at + 2], int(m[at + 3]), exact)
        return
    place_balls(figure, ws)
    if sticky:
        size += STICKY_GAP
    for q in range(int(row[POINT]), int(row[POINT + 1])):
        if bodies_apart(figure, ws, figure.touch[q, 0], figure.touch[q, 1], size):
            continue
        for p in range(figure.touch[q, 2], figure.touch[q, 3]):
            d, count = solid_distance(figure, ws, figure.pair[p, 0], figure.pair[p, 1], size, FAR, m)
            if d < size:
                add_contact(figure, row, ws, q, p, d, count, exact)


@kernel
def add_contact(figure, row, ws, q, p, d, count, exact):
    """Apply one contact, whose simplex is in ws.memory, to its bodies, and keep its load if both can move."""
    m, one, two = ws.memory, figure.touch[q, 0], figure.touch[q, 1]
    kept = int(m[CONTACTS])
    at = CONTACTS + 1 + CONTACT_WIDTH * min(kept, MAX_CONTACTS - 1)
    load = m[at + 2 : at + 29]
    contact_load(figure, ws, figure.pair[p, 0], figure.pair[p, 1], d, count, row, exact, m, load)
    apply_load(ws, one, 1.0, load)
    if two < 0:
        return
    apply_load(ws, two, -1.0, load)
    if kept < MAX_CONTACTS - 1:  # the last slot is overwritten by contacts that do not fit
        m[at], m[at + 1] = float(one), float(two)
        m[CONTACTS] = float(kept + 1)


@entry
def measure_pairs(figure, poses, work, first, last, size, distances):
    """Write the distances (t, p) [m] of the pairs first..last at poses (t, n); FAR where they exceed size."""
    ws, _ = workspace(figure, 0, work, 1)
    for t in range(poses.shape[0]):
        forward(figure, poses[t], ws)
        for p in range(first, last):
            d, _ = solid_distance(figure, ws, figure.pair[p, 0], figure.pair[p, 1], size, FAR, ws.memory)
            distances[t, p - first] = d


@kernel
def bodies_overlap(figure, ws, q):
    """Return whether any solids of the two bodies in row q of figure.touch overlap."""
    if bodies_apart(figure, ws, figure.touch[q, 0], figure.touch[q, 1], 0.0):
        return False
    for p in range(figure.touch[q, 2], figure.touch[q, 3]):
        d, _ = solid_distance(figure, ws, figure.pair[p, 0], figure.pair[p, 1], 0.0, 0.0, ws.memory)
        if d < 0.0:
            return True
    return False


@entry
def retreat(figure, poses, starts, work):
    """Move the dofs between bodies that overlap, in poses (t, n), back to where they start: starts (t, n).

    Dofs that move both bodies of such a pair, or none, stay. work: the workspace and n numbers more.
    """
    ws, own = workspace(figure, 0, work, 1)
    between = own[: poses.shape[1]]
    for t in range(poses.shape[0]):
        forward(figure, poses[t], ws)
        place_balls(figure, ws)
        for q in range(figure.touch.shape[0]):
            if not bodies_overlap(figure, ws, q):
                continue
            clear(between)
            for side in range(2):
                body = figure.touch[q, side]
                while body >= 0:
                    for i in range(figure.body[body, FIRST], figure.body[body, LAST]):
                        between[i] += 1.0
                    body = figure.body[body, PARENT]
            for i in range(poses.shape[1]):
                if between[i] == 1.0:
                    poses[t, i] = starts[t, i]
