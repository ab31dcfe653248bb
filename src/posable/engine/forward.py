"""Forward kinematics: from a pose to the frames and twists of every body, and to points and centres of mass."""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel, small
from posable.engine.joints import move, parameters_of
from posable.engine.layout import AXIS, CONSTANTS, FIRST, KIND, LAST, LOCAL, MEMORY, PARENT, TARGETS, TURNED, Workspace
from posable.engine.so3 import sines_cosines


@kernel
def workspace(work, n, b, g, d):
    """Carve the arrays of a `Workspace` from one flat array of `work_size(n, b, g, d)` numbers."""
    i = 0
    sine = work[i : i + n]
    i += n
    cosine = work[i : i + n]
    i += n
    origin = work[i : i + 3]
    i += 3
    position = work[i : i + 3 * b].reshape(b, 3)
    i += 3 * b
    rotation = work[i : i + 9 * b].reshape(b, 9)
    i += 9 * b
    twist = work[i : i + 6 * n].reshape(n, 6)
    i += 6 * n
    wrench = work[i : i + 6 * b].reshape(b, 6)
    i += 6 * b
    stiffness = work[i : i + 21 * b].reshape(b, 21)
    i += 21 * b
    gradient = work[i : i + n]
    i += n
    hessian = work[i : i + n * d].reshape(n, d)
    i += n * d
    factor = work[i : i + n * d].reshape(n, d)
    i += n * d
    step = work[i : i + n]
    i += n
    trial = work[i : i + n]
    i += n
    best = work[i : i + n]
    i += n
    spare = work[i : i + n]
    i += n
    anchor = work[i : i + n]
    i += n
    path = work[i : i + n]
    i += n
    chain = work[i : i + 6 * d].reshape(6, d)
    i += 6 * d
    frame = work[i : i + 9]
    i += 9
    error = work[i : i + g]
    i += g
    sticky = work[i : i + g + 1]
    sticky[g] = 0.0
    i += g + 1
    row = work[i : i + CONSTANTS]
    i += CONSTANTS
    target = work[i : i + TARGETS]
    i += TARGETS
    load = work[i : i + 27]
    i += 27
    local = work[i : i + LOCAL]
    i += LOCAL
    center = work[i : i + 3]
    i += 3
    mass = work[i : i + 4 * b].reshape(b, 4)
    i += 4 * b
    column = work[i : i + 3 * n].reshape(n, 3)
    i += 3 * n
    ball = work[i : i + 3 * b].reshape(b, 3)
    i += 3 * b
    memory = work[i : i + MEMORY]
    return Workspace(
        sine, cosine, origin, position, rotation, twist, wrench, stiffness,
        gradient, hessian, factor, step, trial, best, spare, anchor, path, chain, frame, error, sticky, row, target,
        load, local, center, mass, column, ball, memory,
    )  # fmt: skip


@small
def rest_rotation(figure, b, rotation, out):
    """Write the frame (9,) that body b has before its own motion, from the frames (b, 9) of the bodies."""
    parent = figure.body[b, PARENT]
    if parent < 0:
        for k in range(9):
            out[k] = figure.rest[b, 3 + k]
    elif figure.body[b, TURNED] == 0:
        for k in range(9):
            out[k] = rotation[parent, k]
    else:
        for row in range(0, 9, 3):
            x, y, z = rotation[parent, row], rotation[parent, row + 1], rotation[parent, row + 2]
            for k in range(3):
                out[row + k] = x * figure.rest[b, 3 + k] + y * figure.rest[b, 6 + k] + z * figure.rest[b, 9 + k]


@kernel
def forward(figure, theta, ws):
    """Place every body at the pose theta (n,): ws.origin, position, rotation, twist."""
    sines_cosines(theta, ws.sine, ws.cosine)
    for b in range(figure.body.shape[0]):
        parent = figure.body[b, PARENT]
        rotation = ws.rotation[b]
        position = ws.position[b]
        rest_rotation(figure, b, ws.rotation, rotation)
        if parent < 0:
            for k in range(3):
                position[k] = 0.0
        else:
            x, y, z = figure.rest[b, 0], figure.rest[b, 1], figure.rest[b, 2]
            for k in range(3):
                position[k] = (
                    ws.position[parent, k]
                    + ws.rotation[parent, 3 * k] * x
                    + ws.rotation[parent, 3 * k + 1] * y
                    + ws.rotation[parent, 3 * k + 2] * z
                )
        i = figure.body[b, FIRST]
        while i < figure.body[b, LAST]:
            kind = figure.dof[i, KIND]
            move(kind, figure.dof[i, AXIS], figure.sign[i], i, theta, ws.sine, ws.cosine, position, rotation, ws.twist)
            i += parameters_of(kind)
        if parent < 0:  # the root's slides become the origin: everything else is small numbers near it
            for k in range(3):
                ws.origin[k] = figure.rest[b, k] + position[k]
                position[k] = 0.0
            for j in range(figure.body[b, FIRST], figure.body[b, LAST]):
                if ws.twist[j, 0] != 0.0 or ws.twist[j, 1] != 0.0 or ws.twist[j, 2] != 0.0:
                    for k in range(3):
                        ws.twist[j, 3 + k] = 0.0


@small
def last_dof(figure, body):
    """Return the last dof that moves a body, or -1: where the walk up to the root starts."""
    while body >= 0:
        if figure.body[body, LAST] > figure.body[body, FIRST]:
            return figure.body[body, LAST] - 1
        body = figure.body[body, PARENT]
    return -1


@kernel
def center_of_mass(figure, ws, out):
    """Write the centre of mass (3,) [m], relative to ws.origin, of a figure whose mass shares sum to one."""
    for k in range(3):
        out[k] = 0.0
    for b in range(figure.body.shape[0]):
        share = figure.mass[b, 0]
        if share != 0.0:
            x, y, z = figure.mass[b, 1], figure.mass[b, 2], figure.mass[b, 3]
            r = ws.rotation[b]
            for k in range(3):
                out[k] += share * (ws.position[b, k] + r[3 * k] * x + r[3 * k + 1] * y + r[3 * k + 2] * z)


@entry
def forward_batch(figure, poses, work, d, positions, rotations, twists):
    """Place every body at every pose (t, n): positions (t, b, 3) [m], rotations (t, b, 9), twists (t, n, 6) in world.

    The twists are taken at the world's origin. Where twists has no row, none are written.
    """
    n, b = figure.dof.shape[0], figure.body.shape[0]
    ws = workspace(work, n, b, 0, d)
    for t in range(poses.shape[0]):
        forward(figure, poses[t], ws)
        for body in range(b):
            for k in range(3):
                positions[t, body, k] = ws.origin[k] + ws.position[body, k]
            for k in range(9):
                rotations[t, body, k] = ws.rotation[body, k]
        if twists.shape[0] > 0:
            ox, oy, oz = ws.origin[0], ws.origin[1], ws.origin[2]
            for i in range(n):
                x, y, z = ws.twist[i, 0], ws.twist[i, 1], ws.twist[i, 2]
                twists[t, i, 0] = x
                twists[t, i, 1] = y
                twists[t, i, 2] = z
                twists[t, i, 3] = ws.twist[i, 3] + oy * z - oz * y
                twists[t, i, 4] = ws.twist[i, 4] + oz * x - ox * z
                twists[t, i, 5] = ws.twist[i, 5] + ox * y - oy * x


@kernel
def length3(x, y, z):
    """Return the length of a vector."""
    return math.sqrt(x * x + y * y + z * z)
