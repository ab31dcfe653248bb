"""Springs that act on more than one body: between two bodies, on the center of mass, between degrees of freedom.

They couple degrees of freedom of different branches and so add entries to the Hessian beyond those of the tree.
Problems without such springs neither load nor compile this module (assemble.py declares the functions it uses).
"""

from __future__ import annotations

from posable.engine.bounds import copy_into
from posable.engine.jit import entry, kernel, optional
from posable.engine.joints import center_of_mass, forward, last_dof, product, times, times_transposed, velocity
from posable.engine.layout import (
    ABOVE,
    AT,
    AXES,
    BODY_A,
    BODY_B,
    CENTER,
    CONTACT_WIDTH,
    CONTACTS,
    DEPTH,
    FIRST,
    FOLLOWER,
    FRAME,
    LAST,
    LEADER,
    MEASURE,
    PARENT,
    POINT,
    POINT2,
    RATIO,
    ROBUST,
    SIZE,
    SOLIDS,
    SPRING_KIND,
    WEIGHT,
    Springs,
    clear,
    workspace,
)
from posable.engine.ltl import add_entry, add_pair
from posable.engine.springs import (
    COLLISION_SPRING,
    COUPLING_SPRING,
    CROSS_SPRING,
    ORIENTATION_SPRING,
    ROWS,
    STICKY,
    add_any_spring,
    add_direction,
    add_point_force,
    any_energy,
    apply_load,
    apply_stiffness,
    is_idle,
    residual,
    robust_factors,
    rotated,
    zero_residual,
)

# --- Solids that must not touch ---


def _collision():
    from posable.engine import collision

    return collision


@optional(SOLIDS, 0.0, home=_collision)
def collision_energy(figure, row, ws, index):
    """Return the energy of a COLLISION spring, and write the largest violation of its margin [m]."""


@optional(SOLIDS, False, home=_collision)
def all_apart(row, ws):
    """Return whether the energy of a COLLISION spring, evaluated at this placement of the bodies, found no contact."""


@optional(SOLIDS, home=_collision)
def add_collision(figure, row, ws, exact):
    """Apply the forces of a COLLISION spring, and keep those between two bodies for `add_contacts`."""


# --- Springs on the center of mass ---


@kernel
def has_center(springs):
    """Return whether some spring is on the center of mass."""
    for k in range(springs.kind.shape[0]):
        if springs.kind[k, SPRING_KIND] >= 0 and springs.kind[k, BODY_A] == CENTER:
            return True
    return False


@kernel
def is_tree(figure, springs, ws):
    """Return whether no spring couples dofs of different branches at a pose whose bodies are placed.

    The energy there must be known. A spring on the center of mass that only pushes couples nothing while it is on its
    free side, nor do solids that are apart.
    """
    placed = False
    for k in range(springs.kind.shape[0]):
        kind = springs.kind[k, SPRING_KIND]
        if kind == COLLISION_SPRING and all_apart(springs.constants[k], ws):
            continue
        if kind < 0 or springs.kind[k, BODY_B] >= 0:
            return False
        if springs.kind[k, BODY_A] == CENTER:
            if not placed:
                center_of_mass(figure, ws, ws.center)
                placed = True
            residual(kind, springs.constants[k], springs.targets[k], ws.origin, ws.center, ws.rotation[0], ws.local)
            if not is_idle(kind, ws.local):
                return False
    return True


@kernel
def center_load(springs, ws, exact):
    """Write into ws.load the wrench and stiffness of all springs on the center of mass, as if it were a body.

    Its force is ws.load[3:6], its second derivative by the center (xx yy zz xy xz yz) ws.load[12:18].
    """
    clear(ws.load)
    for k in range(springs.kind.shape[0]):
        kind = springs.kind[k, SPRING_KIND]
        if kind >= 0 and springs.kind[k, BODY_A] == CENTER:
            add_any_spring(
                kind, springs.constants[k], springs.targets[k], ws.origin, ws.center, ws.rotation[0], exact, ws.local,
                ws.load[0:6], ws.load[6:27],
            )  # fmt: skip


@kernel
def add_center_forces(figure, springs, ws, exact):
    """Apply each body's share of the force on the center of mass at its own center, with its curvature."""
    center_of_mass(figure, ws, ws.center)
    center_load(springs, ws, exact)
    f = ws.load
    for b in range(figure.body.shape[0]):
        share = figure.mass[b, 0]
        if share != 0.0:
            x, y, z = rotated(ws.rotation[b], figure.mass[b], 1)
            p = ws.position[b]
            add_point_force(
                x + p[0], y + p[1], z + p[2], share * f[3], share * f[4], share * f[5],
                0.0, 0.0, 0.0, 0.0, 0.0, 0.0, exact, ws.wrench[b], ws.stiffness[b],
            )  # fmt: skip


@kernel
def center_columns(figure, ws):
    """Write ws.column (n, 3), the Jacobian of the center of mass, from the mass and moment that each dof carries."""
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
def add_center_block(figure, order, springs, ws, exact):
    """Add J'WJ of the center of mass for every pair of dofs."""
    center_load(springs, ws, exact)
    w = ws.load[12:18]
    if w[0] + w[1] + w[2] == 0.0:
        return
    center_columns(figure, ws)
    c = ws.column
    for i in range(c.shape[0]):
        x, y, z = c[i, 0], c[i, 1], c[i, 2]
        fx, fy, fz = w[0] * x + w[3] * y + w[4] * z, w[3] * x + w[1] * y + w[5] * z, w[4] * x + w[5] * y + w[2] * z
        for j in range(i + 1):
            ws.hessian[i, order.rows[j, DEPTH]] += fx * c[j, 0] + fy * c[j, 1] + fz * c[j, 2]


# --- Targets on another body ---


@kernel
def place_target(springs, k, ws):
    """Transform the target of a spring that is fixed to another body into the world: ws.target and ws.row."""
    kind, row, target = springs.kind[k, SPRING_KIND], springs.constants[k], springs.targets[k]
    p, r, out = ws.position[springs.kind[k, BODY_B]], ws.rotation[springs.kind[k, BODY_B]], ws.target
    copy_into(row, ws.row)
    x, y, z = rotated(r, target, AT)
    out[AT] = ws.origin[0] + p[0] + x
    out[AT + 1] = ws.origin[1] + p[1] + y
    out[AT + 2] = ws.origin[2] + p[2] + z
    if kind == ORIENTATION_SPRING:
        product(r, target[FRAME:], out[FRAME:])
        return
    out[FRAME], out[FRAME + 1], out[FRAME + 2] = rotated(r, target, FRAME)
    if ROWS[kind] == 3:  # the weight is given in the axes of the other body
        turn_symmetric(r, row, WEIGHT, ws.row)
        turn_symmetric(r, row, MEASURE, ws.row)


@kernel
def turn_symmetric(r, row, at, out):
    """Write R M R' for the symmetric matrix at row[at:at+6]."""
    xx, yy, zz, xy, xz, yz = row[at], row[at + 1], row[at + 2], row[at + 3], row[at + 4], row[at + 5]
    if xx == yy and yy == zz and xy == 0.0 and xz == 0.0 and yz == 0.0:
        return
    for i in range(3):
        a, b, c = r[3 * i], r[3 * i + 1], r[3 * i + 2]
        x, y, z = a * xx + b * xy + c * xz, a * xy + b * yy + c * yz, a * xz + b * yz + c * zz
        for j in range(i + 1):
            value = x * r[3 * j] + y * r[3 * j + 1] + z * r[3 * j + 2]
            out[at + i if i == j else at + 2 + i + j] = value


@kernel
def load_relative(springs, k, ws, exact):
    """Write the wrench and stiffness of a spring with its target on another body, as if that were fixed, to ws.load."""
    kind, b = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A]
    place_target(springs, k, ws)
    clear(ws.load)
    add_any_spring(
        kind, ws.row, ws.target, ws.origin, ws.position[b], ws.rotation[b], exact, ws.local, ws.load[0:6],
        ws.load[6:27],
    )  # fmt: skip


@kernel
def add_relative(springs, k, ws, exact):
    """Apply a spring between two bodies to both: the force and its opposite, the stiffness to each."""
    load_relative(springs, k, ws, exact)
    apply_load(ws, springs.kind[k, BODY_A], 1.0, ws.load)
    apply_load(ws, springs.kind[k, BODY_B], -1.0, ws.load)


@kernel
def add_relative_cross(figure, order, on, other, load, ws, exact):
    """Add -S_i' B S_j - 1/2 g.[S_i, S_j] for every dof i that moves the other body and j that moves the body.

    load (27,): the wrench g and the stiffness B on the body, as if the other one were fixed.
    """
    g, s, t = load[0:6], load[6:27], ws.twist
    e = 0.5 * exact
    i = last_dof(figure, other)
    while i >= 0:
        wx, wy, wz, vx, vy, vz = t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5]
        h0, h1, h2, h3, h4, h5 = apply_stiffness(s, wx, wy, wz, vx, vy, vz)
        # g.[S_i, S_j] = w_j.(m x w_i + F x v_i) + v_j.(F x w_i)
        h0 += e * (g[1] * wz - g[2] * wy + g[4] * vz - g[5] * vy)
        h1 += e * (g[2] * wx - g[0] * wz + g[5] * vx - g[3] * vz)
        h2 += e * (g[0] * wy - g[1] * wx + g[3] * vy - g[4] * vx)
        h3 += e * (g[4] * wz - g[5] * wy)
        h4 += e * (g[5] * wx - g[3] * wz)
        h5 += e * (g[3] * wy - g[4] * wx)
        j = last_dof(figure, on)
        while j >= 0:
            value = t[j, 0] * h0 + t[j, 1] * h1 + t[j, 2] * h2 + t[j, 3] * h3 + t[j, 4] * h4 + t[j, 5] * h5
            add_entry(order, ws, i, j, -value)
            j = figure.dof[j, ABOVE]
        i = figure.dof[i, ABOVE]


@optional(SOLIDS)
def add_contacts(figure, order, ws, exact):
    """Add the blocks between the two bodies of every contact that `add_collision` kept."""
    m = ws.memory
    for k in range(int(m[CONTACTS])):
        at = CONTACTS + 1 + CONTACT_WIDTH * k
        add_relative_cross(figure, order, int(m[at]), int(m[at + 1]), m[at + 2 : at + 29], ws, exact)


# --- Off-diagonal blocks of a full weight ---


@kernel
def cross_vectors(springs, k, ws):
    """Return v_a and v_b of a CROSS spring relative to ws.origin where they are points, and r_a and r_b: 12 numbers."""
    row, target = springs.constants[k], springs.targets[k]
    a, b = springs.kind[k, BODY_A], springs.kind[k, BODY_B]
    ma, mb = row[MEASURE], row[MEASURE + 1]
    ax, ay, az = rotated(ws.rotation[a], row, POINT)
    bx, by, bz = rotated(ws.rotation[b], row, POINT2)
    p, q, o = ws.position[a], ws.position[b], ws.origin
    ax, ay, az = ax + ma * p[0], ay + ma * p[1], az + ma * p[2]
    bx, by, bz = bx + mb * q[0], by + mb * q[1], bz + mb * q[2]
    return (
        ax, ay, az, bx, by, bz,
        ax + ma * o[0] - target[AT], ay + ma * o[1] - target[AT + 1], az + ma * o[2] - target[AT + 2],
        bx + mb * o[0] - target[FRAME], by + mb * o[1] - target[FRAME + 1], bz + mb * o[2] - target[FRAME + 2],
    )  # fmt: skip


@kernel
def cross_energy(springs, k, ws):
    """Return the energy w r_a' M r_b of a CROSS spring. It may be negative; the sum that it is part of is not."""
    row = springs.constants[k]
    ws.error[k] = 0.0
    if row[ROBUST] < 0.0:
        return 0.0
    _, _, _, _, _, _, x, y, z, u, v, w = cross_vectors(springs, k, ws)
    u, v, w = times(row, AXES, u, v, w)
    total = 0.0
    total += x * u
    total += y * v
    total += z * w
    return row[WEIGHT] * total


@kernel
def add_cross_forces(springs, k, ws, exact):
    """Apply the forces M r_b and M' r_a of a CROSS spring to its bodies, with their curvature."""
    m = springs.constants[k]
    if m[ROBUST] < 0.0:
        return
    ax, ay, az, bx, by, bz, x, y, z, u, v, w = cross_vectors(springs, k, ws)
    c = m[WEIGHT]
    fx, fy, fz = times(m, AXES, c * u, c * v, c * w)
    gx, gy, gz = times_transposed(m, AXES, c * x, c * y, c * z)
    add_force(m[MEASURE], ax, ay, az, fx, fy, fz, exact, ws, springs.kind[k, BODY_A])
    add_force(m[MEASURE + 1], bx, by, bz, gx, gy, gz, exact, ws, springs.kind[k, BODY_B])


@kernel
def add_force(moves, x, y, z, fx, fy, fz, exact, ws, b):
    """Apply a force to a point (moves = 1) or a direction (moves = 0) of a body, with its curvature."""
    g, s = ws.wrench[b], ws.stiffness[b]
    if moves != 0.0:
        add_point_force(x, y, z, fx, fy, fz, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, exact, g, s)
    else:
        add_direction(x, y, z, fx, fy, fz, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, exact, g, s)


@kernel
def add_cross_block(figure, order, springs, k, ws):
    """Add J_a' M J_b and its transpose."""
    row, t = springs.constants[k], ws.twist
    if row[ROBUST] < 0.0:
        return
    ma, mb, c = row[MEASURE], row[MEASURE + 1], row[WEIGHT]
    ax, ay, az, bx, by, bz, _, _, _, _, _, _ = cross_vectors(springs, k, ws)
    i = last_dof(figure, springs.kind[k, BODY_A])
    while i >= 0:
        x, y, z = velocity(t[i], ax, ay, az, ma)
        u, v, w = times_transposed(row, AXES, c * x, c * y, c * z)
        j = last_dof(figure, springs.kind[k, BODY_B])
        while j >= 0:
            p, q, r = velocity(t[j], bx, by, bz, mb)
            add_entry(order, ws, i, j, u * p + v * q + w * r)
            j = figure.dof[j, ABOVE]
        i = figure.dof[i, ABOVE]


# --- Degrees of freedom ---


@kernel
def coupling_gap(row, target, theta):
    """Return theta_a - ratio theta_b - offset."""
    return theta[int(row[FOLLOWER])] - row[RATIO] * theta[int(row[LEADER])] - target[AT]


@kernel
def coupling_energy(row, target, theta, errors, index):
    """Return the energy of a COUPLING spring, and write its error."""
    if row[ROBUST] < 0.0:
        errors[index] = 0.0
        return 0.0
    gap = coupling_gap(row, target, theta)
    errors[index] = abs(gap)
    return robust_factors(0.5 * row[WEIGHT] * gap * gap, row[ROBUST])[0]


@kernel
def add_coupling(order, row, target, theta, ws, exact):
    """Add a COUPLING spring to the gradient and the Hessian."""
    if row[ROBUST] < 0.0:
        return
    a, b, ratio = int(row[FOLLOWER]), int(row[LEADER]), row[RATIO]
    gap = coupling_gap(row, target, theta)
    force = row[WEIGHT] * gap
    _, slope, bend = robust_factors(0.5 * force * gap, row[ROBUST])
    w = slope * row[WEIGHT] + exact * bend * force * force
    add_pair(order, ws, a, b, ratio, slope * force, w)


# --- All of them ---


@kernel
def coupled_energy(figure, springs, theta, ws, k):
    """Return the energy of a spring that acts on more than one body, and write its error."""
    kind, b = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A]
    row, target = springs.constants[k], springs.targets[k]
    if kind == CROSS_SPRING:
        return cross_energy(springs, k, ws)
    if kind == COUPLING_SPRING:
        return coupling_energy(row, target, theta, ws.error, k)
    if kind == COLLISION_SPRING:
        return collision_energy(figure, row, ws, k)
    if b == CENTER:
        return any_energy(kind, row, target, ws.origin, ws.center, ws.rotation[0], ws.local, ws.error, k)
    place_target(springs, k, ws)
    return any_energy(kind, ws.row, ws.target, ws.origin, ws.position[b], ws.rotation[b], ws.local, ws.error, k)


@kernel
def add_coupled(figure, springs, ws, k, exact):
    """Apply a spring that acts on more than one body; springs on the center of mass are applied together later."""
    kind = springs.kind[k, SPRING_KIND]
    if kind == CROSS_SPRING:
        add_cross_forces(springs, k, ws, exact)
    elif kind == COLLISION_SPRING:
        add_collision(figure, springs.constants[k], ws, exact)
    elif kind >= 0 and springs.kind[k, BODY_A] != CENTER:
        add_relative(springs, k, ws, exact)


@kernel
def add_couplings(figure, order, springs, theta, ws, exact):
    """Add the terms that couple dofs of different branches to an assembled gradient and Hessian."""
    contacts = False
    for k in range(springs.kind.shape[0]):
        kind = springs.kind[k, SPRING_KIND]
        if kind == CROSS_SPRING:
            add_cross_block(figure, order, springs, k, ws)
        elif kind == COUPLING_SPRING:
            add_coupling(order, springs.constants[k], springs.targets[k], theta, ws, exact)
        elif kind == COLLISION_SPRING:
            contacts = True
        elif springs.kind[k, BODY_B] >= 0 and springs.constants[k, ROBUST] >= 0.0:
            load_relative(springs, k, ws, exact)
            add_relative_cross(figure, order, springs.kind[k, BODY_A], springs.kind[k, BODY_B], ws.load, ws, exact)
    if contacts:
        add_contacts(figure, order, ws, exact)
    if has_center(springs):
        add_center_block(figure, order, springs, ws, exact)


# --- Held where it is ---


@entry
def hold_springs(figure, kind, constants, targets, poses, work, d, chosen):
    """Move the targets of the springs marked in chosen (t, g) to where they are met at poses (t, n), in place."""
    g = kind.shape[0]
    ws, _ = workspace(figure, g, work, d)
    for t in range(poses.shape[0]):
        springs = Springs(kind, constants[t], targets[t], poses[t], poses[t])
        forward(figure, poses[t], ws)
        center_of_mass(figure, ws, ws.center)
        ws.local[STICKY] = 0.0
        for k in range(g):
            if chosen[t, k] and springs.constants[k, ROBUST] >= 0.0:
                hold_spring(springs, k, poses[t], ws)


@kernel
def hold_spring(springs, k, theta, ws):
    """Move the target of one spring to where it is met, at a pose whose bodies are placed."""
    kind, b, other = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A], springs.kind[k, BODY_B]
    row, target = springs.constants[k], springs.targets[k]
    if kind == COLLISION_SPRING:  # colliding solids keep pushing each other apart
        return
    if kind == COUPLING_SPRING:
        target[AT] += coupling_gap(row, target, theta)
        return
    if kind == CROSS_SPRING:
        _, _, _, _, _, _, x, y, z, u, v, w = cross_vectors(springs, k, ws)
        target[AT], target[AT + 1], target[AT + 2] = target[AT] + x, target[AT + 1] + y, target[AT + 2] + z
        a, b, c = FRAME, FRAME + 1, FRAME + 2
        target[a], target[b], target[c] = target[a] + u, target[b] + v, target[c] + w
        return
    position = ws.center if b == CENTER else ws.position[b]
    if other >= 0:
        place_target(springs, k, ws)
        row, target = ws.row, ws.target
    r = ws.rotation[max(b, 0)]
    if kind != ORIENTATION_SPRING:
        residual(kind, row, target, ws.origin, position, r, ws.local)
    zero_residual(kind, row, target, ws.origin, r, ws.local)
    if other >= 0:  # back into the axes of the other body
        q, p, out = ws.rotation[other], ws.position[other], springs.targets[k]
        springs.constants[k, SIZE] = row[SIZE]
        o, a = ws.origin, AT
        x, y, z = target[a] - o[0] - p[0], target[a + 1] - o[1] - p[1], target[a + 2] - o[2] - p[2]
        out[AT], out[AT + 1], out[AT + 2] = times_transposed(q, 0, x, y, z)
        columns, stride = (3, 3) if kind == ORIENTATION_SPRING else (1, 1)
        for i in range(FRAME, FRAME + columns):
            x, y, z = times_transposed(q, 0, target[i], target[i + stride], target[i + 2 * stride])
            out[i], out[i + stride], out[i + 2 * stride] = x, y, z
