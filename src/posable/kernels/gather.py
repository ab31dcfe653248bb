"""Wrenches and stiffnesses to the root: gradient and Hessian of any sum of springs, without a Jacobian.

One sweep from the leaves gives each joint the sum of everything it carries; then gradient_i = S_i . g_i and
Hessian_ij = S_j . h_i for j = i and every dof j above i, with h_i = B_i S_i plus half the Lie bracket
(mathematics.md). It is the composite-rigid-body algorithm with springs in the place of masses: O(springs + n depth).
"""

from __future__ import annotations

from .centre import has_centre
from .compiler import entry, kernel, small
from .couplings import add_couplings, add_springs, total_energy
from .fields import ABOVE, AXIS, BODY, DEPTH, FIRST, KIND, LAST, LEVEL, PARENT, VISIT
from .joints import ROTVEC, SWING, joint_curvature, parameters_of
from .kinematics import centre_of_mass, forward, rest_rotation, workspace


@kernel
def clear_bodies(ws):
    """Set the wrench and the stiffness of every body to zero."""
    for b in range(ws.wrench.shape[0]):
        for k in range(6):
            ws.wrench[b, k] = 0.0
        for k in range(21):
            ws.stiffness[b, k] = 0.0


@kernel
def gather(figure, order, springs, theta, ws, exact):
    """Gather the springs on the bodies into ws.gradient (n,) and ws.hessian (n, d); the wrenches move to the root."""
    for b in range(figure.body.shape[0] - 1, 0, -1):
        parent = figure.body[b, PARENT]
        for k in range(6):
            ws.wrench[parent, k] += ws.wrench[b, k]
        for k in range(21):
            ws.stiffness[parent, k] += ws.stiffness[b, k]
    for visit in range(theta.shape[0]):  # depth first: ws.chain always holds the dofs above the one at hand
        gather_dof(figure, order, order.rows[visit, VISIT], ws, exact)
    if exact != 0.0:
        for b in range(figure.body.shape[0]):
            correct_coupled(figure, order, b, theta, ws, exact)
    for i in range(theta.shape[0]):
        ws.gradient[i] += springs.pull[i] * (theta[i] - springs.home[i])
        ws.hessian[i, order.rows[i, DEPTH]] += springs.pull[i]


@small
def gather_dof(figure, order, i, ws, exact):
    """Write one dof's gradient and its row of the Hessian, from the wrench and stiffness that it carries."""
    b = figure.dof[i, BODY]
    g, s, t, c = ws.wrench[b], ws.stiffness[b], ws.twist, ws.chain
    wx, wy, wz, vx, vy, vz = t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5]
    ws.gradient[i] = wx * g[0] + wy * g[1] + wz * g[2] + vx * g[3] + vy * g[4] + vz * g[5]
    e = 0.5 * exact
    h0 = s[0] * wx + s[3] * wy + s[4] * wz + s[12] * vx + s[13] * vy + s[14] * vz
    h1 = s[3] * wx + s[1] * wy + s[5] * wz + s[15] * vx + s[16] * vy + s[17] * vz
    h2 = s[4] * wx + s[5] * wy + s[2] * wz + s[18] * vx + s[19] * vy + s[20] * vz
    h3 = s[12] * wx + s[15] * wy + s[18] * wz + s[6] * vx + s[9] * vy + s[10] * vz
    h4 = s[13] * wx + s[16] * wy + s[19] * wz + s[9] * vx + s[7] * vy + s[11] * vz
    h5 = s[14] * wx + s[17] * wy + s[20] * wz + s[10] * vx + s[11] * vy + s[8] * vz
    h0 += e * (wy * g[2] - wz * g[1] + vy * g[5] - vz * g[4])
    h1 += e * (wz * g[0] - wx * g[2] + vz * g[3] - vx * g[5])
    h2 += e * (wx * g[1] - wy * g[0] + vx * g[4] - vy * g[3])
    h3 += e * (wy * g[5] - wz * g[4])
    h4 += e * (wz * g[3] - wx * g[5])
    h5 += e * (wx * g[4] - wy * g[3])
    depth = order.rows[i, DEPTH]
    for k in range(6):
        c[k, depth] = t[i, k]
    if depth == figure.dof[i, LEVEL]:  # nobody stands between: the row is the chain
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
    """Replace, within a rotation vector or a swing, the half bracket by the joint's own second derivative."""
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
    """Set the whole Hessian to zero: needed where the order has entries that the tree does not fill."""
    for i in range(ws.hessian.shape[0]):
        for k in range(ws.hessian.shape[1]):
            ws.hessian[i, k] = 0.0


@kernel
def energy_at(figure, springs, theta, ws):
    """Place the figure and return its energy."""
    forward(figure, theta, ws)
    if has_centre(springs):
        centre_of_mass(figure, ws, ws.centre)
    return total_energy(springs, theta, ws)


@kernel
def derivatives(figure, order, springs, theta, ws, exact):
    """Write gradient and Hessian at a pose whose bodies are placed; a coupled Hessian was cleared before."""
    clear_bodies(ws)
    coupled = add_springs(figure, springs, ws, exact)
    gather(figure, order, springs, theta, ws, exact)
    if coupled:
        add_couplings(figure, order, springs, theta, ws, exact)


@kernel
def gradient_at(figure, order, springs, theta, ws):
    """Write the gradient alone at a pose whose bodies are placed: for methods that never look at the Hessian."""
    clear_bodies(ws)
    if add_springs(figure, springs, ws, 0.0):
        gather(figure, order, springs, theta, ws, 0.0)
        add_couplings(figure, order, springs, theta, ws, 0.0)
        return
    for b in range(figure.body.shape[0] - 1, 0, -1):
        parent = figure.body[b, PARENT]
        for k in range(6):
            ws.wrench[parent, k] += ws.wrench[b, k]
    for i in range(theta.shape[0]):
        g, t = ws.wrench[figure.dof[i, BODY]], ws.twist[i]
        carried = t[0] * g[0] + t[1] * g[1] + t[2] * g[2] + t[3] * g[3] + t[4] * g[4] + t[5] * g[5]
        ws.gradient[i] = carried + springs.pull[i] * (theta[i] - springs.home[i])


@entry
def evaluate(figure, order, springs, theta, work, d, exact, gradient, hessian, errors):
    """Return the energy at theta (n,); write gradient (n,), dense symmetric Hessian (n, n) and errors (g,)."""
    n, b, g = figure.dof.shape[0], figure.body.shape[0], springs.kind.shape[0]
    ws = workspace(work, n, b, g, d)
    total = energy_at(figure, springs, theta, ws)
    for k in range(g):
        errors[k] = ws.error[k]
    clear_hessian(ws)
    derivatives(figure, order, springs, theta, ws, exact)
    for i in range(n):
        gradient[i] = ws.gradient[i]
        for j in range(n):
            hessian[i, j] = 0.0
    for i in range(n):
        j = i
        while j >= 0:
            hessian[i, j] = ws.hessian[i, order.rows[j, DEPTH]]
            hessian[j, i] = hessian[i, j]
            j = order.rows[j, 0]
    return total
