"""Springs on the centre of mass, which every dof moves.

CENTRE       1/2 r'W r, r from the target to the centre of mass
CENTRE_SIDE  1/2 w max(0, s)^2, s = size + n.(target - centre): keep it on one side of a plane

Each body gets its share of the force, at its own centre; the Hessian gains J'WJ, whose columns come from the mass and
the moment that each dof carries: O(n) for J, O(n^2) for the product.
"""

from __future__ import annotations

import math

from .compiler import kernel
from .fields import ALONG, AT, DEPTH, FIRST, LAST, MEASURE, PARENT, ROBUST, SIZE, SPRING, WEIGHT
from .kinematics import centre_of_mass
from .springs import CENTRE_SIDE_SPRING, CENTRE_SPRING
from .wrenches import add_point_force, quadratic, robust_factors, rotated


@kernel
def has_centre(springs):
    """Return whether some spring is on the centre of mass."""
    for k in range(springs.kind.shape[0]):
        if springs.kind[k, SPRING] == CENTRE_SPRING or springs.kind[k, SPRING] == CENTRE_SIDE_SPRING:
            return True
    return False


@kernel
def centre_energy(kind, row, ws, index):
    """Return the energy of a spring on the centre of mass ws.centre, and write its error."""
    if row[ROBUST] < 0.0:
        ws.error[index] = 0.0
        return 0.0
    c, o = ws.centre, ws.origin
    x, y, z = o[0] + c[0] - row[AT], o[1] + c[1] - row[AT + 1], o[2] + c[2] - row[AT + 2]
    if kind == CENTRE_SPRING:
        ws.error[index] = math.sqrt(max(0.0, quadratic(row, MEASURE, x, y, z)))
        return robust_factors(0.5 * quadratic(row, WEIGHT, x, y, z), row[ROBUST])[0]
    depth = max(0.0, row[SIZE] - (x * row[ALONG] + y * row[ALONG + 1] + z * row[ALONG + 2]))
    ws.error[index] = max(0.0, depth - row[MEASURE])
    return robust_factors(0.5 * row[WEIGHT] * depth * depth, row[ROBUST])[0]


@kernel
def centre_load(springs, ws, exact, out):
    """Write the force (3) on the centre of mass and its second derivative (xx yy zz xy xz yz) of all its springs."""
    for k in range(9):
        out[k] = 0.0
    c, o = ws.centre, ws.origin
    for k in range(springs.kind.shape[0]):
        kind, row = springs.kind[k, SPRING], springs.data[k]
        if (kind != CENTRE_SPRING and kind != CENTRE_SIDE_SPRING) or row[ROBUST] < 0.0:
            continue
        x, y, z = o[0] + c[0] - row[AT], o[1] + c[1] - row[AT + 1], o[2] + c[2] - row[AT + 2]
        xx, yy, zz, xy, xz, yz = (
            row[WEIGHT],
            row[WEIGHT + 1],
            row[WEIGHT + 2],
            row[WEIGHT + 3],
            row[WEIGHT + 4],
            row[WEIGHT + 5],
        )
        if kind == CENTRE_SIDE_SPRING:
            nx, ny, nz = row[ALONG], row[ALONG + 1], row[ALONG + 2]
            depth = row[SIZE] - (x * nx + y * ny + z * nz)
            if depth <= 0.0:
                continue
            w = row[WEIGHT]
            xx, yy, zz, xy, xz, yz = w * nx * nx, w * ny * ny, w * nz * nz, w * nx * ny, w * nx * nz, w * ny * nz
            x, y, z = -depth * nx, -depth * ny, -depth * nz
        fx, fy, fz = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
        _, slope, bend = robust_factors(0.5 * (fx * x + fy * y + fz * z), row[ROBUST])
        bend *= exact
        out[0] += slope * fx
        out[1] += slope * fy
        out[2] += slope * fz
        out[3] += slope * xx + bend * fx * fx
        out[4] += slope * yy + bend * fy * fy
        out[5] += slope * zz + bend * fz * fz
        out[6] += slope * xy + bend * fx * fy
        out[7] += slope * xz + bend * fx * fz
        out[8] += slope * yz + bend * fy * fz


@kernel
def add_centre_forces(figure, springs, ws, exact):
    """Put each body's share of the force on the centre of mass at its own centre, with its curvature."""
    centre_of_mass(figure, ws, ws.centre)
    load = ws.load
    centre_load(springs, ws, exact, load)
    for b in range(figure.body.shape[0]):
        share = figure.mass[b, 0]
        if share != 0.0:
            x, y, z = rotated(ws.rotation[b], figure.mass[b], 1)
            p = ws.position[b]
            add_point_force(
                x + p[0], y + p[1], z + p[2], share * load[0], share * load[1], share * load[2],
                0.0, 0.0, 0.0, 0.0, 0.0, 0.0, exact, ws.wrench[b], ws.stiffness[b],
            )  # fmt: skip


@kernel
def centre_columns(figure, ws):
    """Write ws.column (n, 3): how each dof moves the centre of mass, from the mass and the moment that it carries."""
    m = ws.mass
    for b in range(figure.body.shape[0]):
        share = figure.mass[b, 0]
        x, y, z = rotated(ws.rotation[b], figure.mass[b], 1)
        m[b, 0] = share
        m[b, 1] = share * (ws.position[b, 0] + x)
        m[b, 2] = share * (ws.position[b, 1] + y)
        m[b, 3] = share * (ws.position[b, 2] + z)
    for b in range(figure.body.shape[0] - 1, -1, -1):
        for i in range(figure.body[b, FIRST], figure.body[b, LAST]):
            t = ws.twist[i]
            ws.column[i, 0] = m[b, 0] * t[3] + t[1] * m[b, 3] - t[2] * m[b, 2]
            ws.column[i, 1] = m[b, 0] * t[4] + t[2] * m[b, 1] - t[0] * m[b, 3]
            ws.column[i, 2] = m[b, 0] * t[5] + t[0] * m[b, 2] - t[1] * m[b, 1]
        parent = figure.body[b, PARENT]
        if parent >= 0:
            for k in range(4):
                m[parent, k] += m[b, k]


@kernel
def add_centre_block(figure, order, springs, ws, exact):
    """Add J'WJ of the centre of mass, over every pair of dofs."""
    load = ws.load
    centre_load(springs, ws, exact, load)
    if load[3] + load[4] + load[5] == 0.0:
        return
    centre_columns(figure, ws)
    c = ws.column
    for i in range(c.shape[0]):
        x, y, z = c[i, 0], c[i, 1], c[i, 2]
        u = load[3] * x + load[6] * y + load[7] * z
        v = load[6] * x + load[4] * y + load[8] * z
        w = load[7] * x + load[8] * y + load[5] * z
        for j in range(i + 1):
            ws.hessian[i, order.rows[j, DEPTH]] += u * c[j, 0] + v * c[j, 1] + w * c[j, 2]
