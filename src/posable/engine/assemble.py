"""Assembly of gradient and Hessian: wrenches and stiffnesses are accumulated towards the root, without a Jacobian.

One sweep from the leaves sums up everything that each joint carries. Then gradient_i = S_i . g_i and
Hessian_ij = S_j . h_i for j = i and every dof j above i, with h_i = B_i S_i plus half the Lie bracket
(mathematics.md). This is the composite-rigid-body algorithm with springs instead of masses: O(springs + n depth).
"""

from __future__ import annotations

import math

from posable.engine.bounds import LIMIT_TOLERANCE, copy_into
from posable.engine.jit import entry, kernel, optional, small
from posable.engine.joints import ROTVEC, SWING, center_of_mass, forward, joint_curvature, parameters_of, rest_rotation
from posable.engine.layout import (
    ABOVE,
    AT,
    AXIS,
    BODY,
    BODY_A,
    BODY_B,
    CENTER,
    CONTACTS_FOUND,
    COUPLINGS,
    DEPTH,
    FIRST,
    FRAME,
    KIND,
    LAST,
    LEVEL,
    MAX_MAGNITUDE,
    OTHER_ENERGY,
    PARENT,
    SPRING_KIND,
    VISIT,
    Springs,
    clear,
    workspace,
)
from posable.engine.springs import COLLISION_SPRING, STICKY, R, add_spring, apply_stiffness, one_sided, spring_energy

# --- What only some problems have: couplings.py ---


def _couplings():
    from posable.engine import couplings

    return couplings


@optional(COUPLINGS, False, home=_couplings)
def has_center(springs):
    """Return whether some spring is on the center of mass."""


@optional(COUPLINGS, True, home=_couplings)
def is_tree(figure, springs, ws):
    """Return whether no spring couples dofs of different branches at a pose whose bodies are placed."""


@optional(COUPLINGS, 0.0, home=_couplings)
def coupled_energy(figure, springs, theta, ws, k):
    """Return the energy of a spring that acts on more than one body, and write its error."""


@optional(COUPLINGS, home=_couplings)
def add_coupled(figure, springs, ws, k, exact):
    """Apply a spring that acts on more than one body; springs on the center of mass are applied together later."""


@optional(COUPLINGS, home=_couplings)
def add_center_forces(figure, springs, ws, exact):
    """Apply each body's share of the force on the center of mass at its own center, with its curvature."""


@optional(COUPLINGS, home=_couplings)
def add_couplings(figure, order, springs, theta, ws, exact):
    """Add the terms that couple dofs of different branches to an assembled gradient and Hessian."""


# --- Springs on one body each ---


@kernel
def total_energy(figure, springs, theta, ws):
    """Return the energy of all springs at a pose whose bodies are placed, and write the error of each.

    Springs on the center of mass read ws.center.
    """
    total = 0.0
    ws.local[STICKY] = 0.0
    for k in range(springs.kind.shape[0]):
        kind, b = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A]
        if kind >= 0 and b != CENTER and springs.kind[k, BODY_B] < 0:
            total += spring_energy(kind, springs.constants[k], springs.targets[k], ws, b, k)
        else:
            if kind == COLLISION_SPRING:
                ws.memory[OTHER_ENERGY] = total
            total += coupled_energy(figure, springs, theta, ws, k)
    for i in range(theta.shape[0]):
        gap = theta[i] - springs.home[i]
        total += 0.5 * springs.pull[i] * gap * gap
    return total


@kernel
def add_springs(figure, springs, ws, exact):
    """Apply the wrench and stiffness of every spring to its body; exact is 1, or 0 for Gauss-Newton.

    Returns whether some spring couples further dofs; if so, call `add_couplings` after `gather`.
    """
    coupled, sticky = False, ws.sticky[springs.kind.shape[0]] != 0.0
    for k in range(springs.kind.shape[0]):
        kind, b = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A]
        ws.local[STICKY] = ws.sticky[k] if sticky else 0.0
        if kind >= 0 and b != CENTER and springs.kind[k, BODY_B] < 0:
            add_spring(kind, springs.constants[k], springs.targets[k], ws, b, exact)
            if sticky and one_sided(kind) and ws.local[R] > 0.0:
                ws.sticky[k] = 1.0
        else:
            add_coupled(figure, springs, ws, k, exact)
            coupled = True
            if sticky and kind == COLLISION_SPRING and ws.memory[CONTACTS_FOUND] > 0.0:
                ws.sticky[k] = 1.0
    ws.local[STICKY] = 0.0
    if coupled and has_center(springs):
        add_center_forces(figure, springs, ws, exact)
    return coupled


# --- Wrenches and stiffnesses to the root ---


@kernel
def clear_bodies(ws):
    """Set the wrench and the stiffness of every body to zero."""
    for b in range(ws.wrench.shape[0]):
        clear(ws.wrench[b])
        clear(ws.stiffness[b])


@kernel
def gather(figure, order, springs, theta, ws, exact):
    """Assemble ws.gradient (n,) and ws.hessian (n, d) from the springs on the bodies; wrenches move to the root."""
    for b in range(figure.body.shape[0] - 1, 0, -1):
        parent = figure.body[b, PARENT]
        for k in range(6):
            ws.wrench[parent, k] += ws.wrench[b, k]
        for k in range(21):
            ws.stiffness[parent, k] += ws.stiffness[b, k]
    for visit in range(theta.shape[0]):  # depth first: ws.chain always holds the dofs above the current one
        gather_dof(figure, order, order.rows[visit, VISIT], ws, exact)
    if exact != 0.0:
        for b in range(figure.body.shape[0]):
            correct_coupled(figure, order, b, theta, ws, exact)
    for i in range(theta.shape[0]):
        ws.gradient[i] += springs.pull[i] * (theta[i] - springs.home[i])
        ws.hessian[i, order.rows[i, DEPTH]] += springs.pull[i]


@small
def gather_dof(figure, order, i, ws, exact):
    """Write the gradient and the Hessian row of one dof from the wrench and stiffness that it carries."""
    b = figure.dof[i, BODY]
    g, s, t, c = ws.wrench[b], ws.stiffness[b], ws.twist, ws.chain
    wx, wy, wz, vx, vy, vz = t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5]
    ws.gradient[i] = wx * g[0] + wy * g[1] + wz * g[2] + vx * g[3] + vy * g[4] + vz * g[5]
    e = 0.5 * exact
    h0, h1, h2, h3, h4, h5 = apply_stiffness(s, wx, wy, wz, vx, vy, vz)
    h0 += e * (wy * g[2] - wz * g[1] + vy * g[5] - vz * g[4])
    h1 += e * (wz * g[0] - wx * g[2] + vz * g[3] - vx * g[5])
    h2 += e * (wx * g[1] - wy * g[0] + vx * g[4] - vy * g[3])
    h3 += e * (wy * g[5] - wz * g[4])
    h4 += e * (wz * g[3] - wx * g[5])
    h5 += e * (wx * g[4] - wy * g[3])
    depth = order.rows[i, DEPTH]
    for k in range(6):
        c[k, depth] = t[i, k]
    if depth == figure.dof[i, LEVEL]:  # no coupled dof in between: the row is the chain
        for k in range(depth + 1):
            ws.hessian[i, k] = c[0, k] * h0 + c[1, k] * h1 + c[2, k] * h2 + c[3, k] * h3 + c[4, k] * h4 + c[5, k] * h5
        return
    j = i
    while j >= 0:
        k = order.rows[j, DEPTH]
        ws.hessian[i, k] = c[0, k] * h0 + c[1, k] * h1 + c[2, k] * h2 + c[3, k] * h3 + c[4, k] * h4 + c[5, k] * h5
        j = figure.dof[j, ABOVE]


@small
def correct_coupled(figure, order, b, theta, ws, exact):
    """Replace the half bracket by the joint's own second derivative within a rotation vector or a swing."""
    first = figure.body[b, FIRST]
    while first < figure.body[b, LAST]:
        kind = figure.dof[first, KIND]
        if kind == ROTVEC or kind == SWING:
            axis = figure.dof[first, AXIS]
            m = parameters_of(kind)
            g, p = ws.wrench[b], ws.position[b]
            tx = g[0] - (p[1] * g[5] - p[2] * g[4])
            ty = g[1] - (p[2] * g[3] - p[0] * g[5])
            tz = g[2] - (p[0] * g[4] - p[1] * g[3])
            rest_rotation(figure, b, ws.rotation, ws.frame)
            t = ws.twist
            for i in range(m):
                for j in range(i + 1):
                    a, c = first + i, first + j
                    own = joint_curvature(kind, axis, first, i, j, theta, ws.frame, tx, ty, tz)
                    # half bracket of the pair, both through the joint's origin: 1/2 t . (w_j x w_i)
                    cx = t[c, 1] * t[a, 2] - t[c, 2] * t[a, 1]
                    cy = t[c, 2] * t[a, 0] - t[c, 0] * t[a, 2]
                    cz = t[c, 0] * t[a, 1] - t[c, 1] * t[a, 0]
                    bracket = 0.5 * (tx * cx + ty * cy + tz * cz)
                    ws.hessian[a, order.rows[c, DEPTH]] += exact * (own - bracket)
        first += parameters_of(kind)


@kernel
def clear_hessian(ws):
    """Set the whole Hessian to zero: the elimination order of coupled dofs has entries that the tree does not fill."""
    for i in range(ws.hessian.shape[0]):
        clear(ws.hessian[i])


@kernel
def springs_of(kind, constants, targets, t, pull, home):
    """Return the springs of problem t of a batch: constants (t or 1, g, CONSTANTS), targets (t or 1, g, TARGETS)."""
    row, target = t if constants.shape[0] > 1 else 0, t if targets.shape[0] > 1 else 0
    return Springs(kind, constants[row], targets[target], pull, home)


@kernel
def place(figure, springs, theta, ws):
    """Place the bodies, and the center of mass where springs are on it."""
    forward(figure, theta, ws)
    if has_center(springs):
        center_of_mass(figure, ws, ws.center)


@kernel
def energy_at(figure, springs, theta, ws):
    """Place the bodies and return the energy."""
    place(figure, springs, theta, ws)
    return total_energy(figure, springs, theta, ws)


@kernel
def judge(figure, springs, tolerances, lower, upper, theta, ws):
    """Return whether a pose (n,) respects every limit and meets every goal, and its energy; ws.error has the errors.

    Everything is evaluated again. A pose, an energy or an error that is not finite is never good.
    """
    energy = energy_at(figure, springs, theta, ws)
    good = abs(energy) < math.inf
    for i in range(theta.shape[0]):
        past = max(lower[i] - theta[i], theta[i] - upper[i])
        good = good and past <= LIMIT_TOLERANCE and abs(theta[i]) < math.inf
    for k in range(springs.kind.shape[0]):
        good = good and ws.error[k] <= tolerances[k]
    return good, energy


@kernel
def derivatives(figure, order, springs, theta, ws, exact):
    """Write gradient and Hessian at a pose whose bodies are placed."""
    clear_bodies(ws)
    coupled = add_springs(figure, springs, ws, exact)
    if coupled:
        clear_hessian(ws)
    gather(figure, order, springs, theta, ws, exact)
    if coupled:
        add_couplings(figure, order, springs, theta, ws, exact)


@kernel
def gradient_at(figure, order, springs, theta, ws):
    """Write only the gradient, at a pose whose bodies are placed, for methods that do not use the Hessian."""
    clear_bodies(ws)
    if add_springs(figure, springs, ws, 0.0):
        clear_hessian(ws)
        gather(figure, order, springs, theta, ws, 0.0)
        add_couplings(figure, order, springs, theta, ws, 0.0)
        return
    carry_wrenches(figure, ws, ws.gradient)
    for i in range(theta.shape[0]):
        ws.gradient[i] += springs.pull[i] * (theta[i] - springs.home[i])


@kernel
def carry_wrenches(figure, ws, out):
    """Accumulate the wrenches on the bodies towards the root and write the generalised force per dof, out (n,)."""
    for b in range(figure.body.shape[0] - 1, 0, -1):
        parent = figure.body[b, PARENT]
        for k in range(6):
            ws.wrench[parent, k] += ws.wrench[b, k]
    for i in range(out.shape[0]):
        g, t = ws.wrench[figure.dof[i, BODY]], ws.twist[i]
        out[i] = t[0] * g[0] + t[1] * g[1] + t[2] * g[2] + t[3] * g[3] + t[4] * g[4] + t[5] * g[5]


@entry
def evaluate(figure, order, springs, theta, work, d, exact, gradient, hessian, errors):
    """Return the energy at theta (n,); write gradient (n,), dense symmetric Hessian (n, n) and errors (g,)."""
    n = figure.dof.shape[0]
    ws, _ = workspace(figure, springs.kind.shape[0], work, d)
    total = energy_at(figure, springs, theta, ws)
    copy_into(ws.error, errors)
    derivatives(figure, order, springs, theta, ws, exact)
    copy_into(ws.gradient, gradient)
    for i in range(n):
        clear(hessian[i])
    for i in range(n):
        j = i
        while j >= 0:
            hessian[i, j] = ws.hessian[i, order.rows[j, DEPTH]]
            hessian[j, i] = hessian[i, j]
            j = order.rows[j, 0]
    return total


# --- Batches: targets checked and packed, answers judged ---

ROTATION_TOLERANCE = 1e-6  # allowed deviation from orthonormal rows


@kernel
def is_rotation(m, a, b, c):
    """Return whether the rows of m that begin at a, b and c are orthonormal and right-handed."""
    small = ROTATION_TOLERANCE
    return (
        abs(m[a] * m[a] + m[a + 1] * m[a + 1] + m[a + 2] * m[a + 2] - 1.0) < small
        and abs(m[b] * m[b] + m[b + 1] * m[b + 1] + m[b + 2] * m[b + 2] - 1.0) < small
        and abs(m[a] * m[b] + m[a + 1] * m[b + 1] + m[a + 2] * m[b + 2]) < small
        and abs(m[a + 1] * m[b + 2] - m[a + 2] * m[b + 1] - m[c]) < small
        and abs(m[a + 2] * m[b] - m[a] * m[b + 2] - m[c + 1]) < small
        and abs(m[a] * m[b + 1] - m[a + 1] * m[b] - m[c + 2]) < small
    )


@kernel
def is_transform(m):
    """Return whether the 16 numbers of m, by rows, are a rigid transform with 0 0 0 1 as its last row."""
    gap = abs(m[12]) + abs(m[13]) + abs(m[14]) + abs(m[15] - 1.0)
    return gap < ROTATION_TOLERANCE and is_rotation(m, 0, 4, 8)


@small
def target_place(k, i):
    """Return the spring, from the goal's first, and the column of number i of a target of k numbers; -1 for none.

    A target is a point (3), a rotation (9) or a transform (16), by rows.
    """
    if k == 16:
        row, column = i // 4, i % 4
        if row == 3:
            return -1, -1
        return (0, AT + row) if column == 3 else (1, FRAME + 3 * row + column)
    return 0, (AT if k == 3 else FRAME) + i


@kernel
def write_target(value, k, targets, row):
    """Write a target of k numbers into targets (g, TARGETS), from the goal's first spring on."""
    for i in range(k):
        spring, column = target_place(k, i)
        if spring >= 0:
            targets[row + spring, column] = value[i]


@kernel
def target_gap(value, k, targets, row):
    """Return the largest difference between a target and the values that `write_target` would replace."""
    gap = 0.0
    for i in range(k):
        spring, column = target_place(k, i)
        if spring >= 0:
            gap = max(gap, abs(targets[row + spring, column] - value[i]))
    return gap


@entry
def take_targets(values, targets, row):
    """Check the targets of a goal and write them into those of a batch.

    Args:
        values: (t, k) [m, 1]: by k, 3: points; 9: rotations by rows; 16: transforms by rows.
        targets: (t, g, TARGETS); of no problems to check alone.
        row: The goal's first spring. A transform has two: of its point, then of its rotation.

    Returns:
        Whether all are valid: of finite, not too large numbers, with a rotation, and 0 0 0 1 as the last row of a
        transform. Those after the first invalid one are not written.
    """
    k = values.shape[1]
    for t in range(values.shape[0]):
        value = values[t]
        for i in range(k):
            if not abs(value[i]) <= MAX_MAGNITUDE:
                return False
        if (k == 9 and not is_rotation(value, 0, 3, 6)) or (k == 16 and not is_transform(value)):
            return False
        if t < targets.shape[0]:
            write_target(value, k, targets[t], row)
    return True


@entry
def clip_starts(poses, lower, upper):
    """Clip poses (t, n) to the box, in place; return whether they are then small enough to be solved."""
    good = True
    for t in range(poses.shape[0]):
        for i in range(poses.shape[1]):
            poses[t, i] = min(max(poses[t, i], lower[i]), upper[i])
            good = good and abs(poses[t, i]) <= MAX_MAGNITUDE
    return good


@entry
def pick_columns(values, columns, out, places):
    """Copy columns of values (t, k) to places of out (t, m)."""
    for t in range(values.shape[0]):
        for i in range(columns.shape[0]):
            out[t, places[i]] = values[t, columns[i]]


@entry
def judge_batch(
    figure, kind, constants, targets, pull, home, tolerances, lower, upper, poses, work, d, errors, good,
    energies,
):  # fmt: skip
    """Evaluate every goal at the poses of a batch, independently of the solver.

    Args:
        figure, kind, constants, targets, pull, home, tolerances, lower, upper, d: As for `newton_batch`.
        poses: (t, n) [rad, m].
        work: Scratch memory.
        errors: (t, g) [m, rad], written.
        good: (t,) written: 1 if every limit is respected and every error is within its tolerance.
        energies: (t,) written.
    """
    ws, _ = workspace(figure, kind.shape[0], work, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, pull, home)
        reached, energies[t] = judge(figure, springs, tolerances, lower, upper, poses[t], ws)
        good[t] = 1 if reached else 0
        copy_into(ws.error, errors[t])
