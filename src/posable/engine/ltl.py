"""Tree-sparse factorisation H = L'L: leaves are eliminated first, so that there is no fill-in.

Row i of a matrix is stored by depth: column k holds the entry with the dof at depth k above i. All dofs above i lie on
one chain, so a row is dense and every loop runs over contiguous memory. Dofs are visited depth first
(`order.rows[:, VISIT]`), so that `path` (n,), one number per depth, always belongs to the dofs above the current one.
O(n depth^2) to factorise, O(n depth) for the rest.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small
from posable.engine.layout import DEPTH, UP, VISIT, clear

ALONE = 6  # dofs with at most this many dofs above are eliminated one at a time: their rows are short


@kernel
def damped_copy(order, hessian, fixed, damping, scale, factor, path):
    """Copy H + damping diag(scale) into factor (n, d), with the rows and columns of fixed (n,) dofs cleared."""
    for visit in range(fixed.shape[0]):
        i = order.rows[visit, VISIT]
        depth = order.rows[i, DEPTH]
        if fixed[i] != 0.0:
            path[depth] = 0.0
            for k in range(depth):
                factor[i, k] = 0.0
            factor[i, depth] = 1.0
        else:
            path[depth] = 1.0
            for k in range(depth):
                factor[i, k] = path[k] * hessian[i, k]
            factor[i, depth] = hessian[i, depth] + damping * scale[i]


@kernel
def factorise(order, factor, fixed, floor):
    """Factorise H = L'L in place. Return -1, or the dof at which a pivot is not above `floor`.

    A dof deep in the tree and the one directly above it are eliminated together, so that the rows above both are read
    and written once for the two.
    """
    visit = factor.shape[0] - 1
    while visit >= 0:
        i = order.rows[visit, VISIT]
        visit -= 1
        if fixed[i] != 0.0:
            continue
        depth = order.rows[i, DEPTH]
        if not scale_by_pivot(factor, i, depth, floor):
            return i
        j = order.rows[i, UP]
        if depth > ALONE and visit >= 0 and order.rows[visit, VISIT] == j and fixed[j] == 0.0:
            visit -= 1
            x = factor[i, depth - 1]
            for k in range(depth):
                factor[j, k] -= x * factor[i, k]
            if not scale_by_pivot(factor, j, depth - 1, floor):
                return j
            above = order.rows[j, UP]
            for level in range(depth - 2, -1, -1):
                x, y = factor[i, level], factor[j, level]
                if x != 0.0 or y != 0.0:
                    for k in range(level + 1):
                        factor[above, k] -= x * factor[i, k] + y * factor[j, k]
                above = order.rows[above, UP]
        else:
            for level in range(depth - 1, -1, -1):
                x = factor[i, level]
                if x != 0.0:
                    for k in range(level + 1):
                        factor[j, k] -= x * factor[i, k]
                j = order.rows[j, UP]
    return -1


@small
def scale_by_pivot(factor, i, depth, floor):
    """Divide row i by the square root of its pivot; return whether the pivot was above `floor`."""
    pivot = factor[i, depth]
    if not pivot > floor:
        return False
    root = math.sqrt(pivot)
    inverse = 1.0 / root
    factor[i, depth] = root
    for k in range(depth):
        factor[i, k] *= inverse
    return True


@kernel
def substitute(order, factor, x, path):
    """Solve L'L y = x in place (n,)."""
    n = factor.shape[0]
    clear(path)
    for visit in range(n - 1, -1, -1):  # L' z = x; path: what the dofs below have taken from each dof above
        i = order.rows[visit, VISIT]
        depth = order.rows[i, DEPTH]
        z = (x[i] - path[depth]) / factor[i, depth]
        path[depth] = 0.0
        x[i] = z
        for k in range(depth):
            path[k] += factor[i, k] * z
    for visit in range(n):  # L y = z; path: y of the dofs above
        i = order.rows[visit, VISIT]
        depth = order.rows[i, DEPTH]
        total = x[i]
        for k in range(depth):
            total -= factor[i, k] * path[k]
        x[i] = path[depth] = total / factor[i, depth]


@kernel
def multiply(order, hessian, x, out, path):
    """Write H x (n,) for a symmetric matrix stored by depth."""
    n = x.shape[0]
    for visit in range(n):  # the dofs above each dof
        i = order.rows[visit, VISIT]
        depth = order.rows[i, DEPTH]
        path[depth] = x[i]
        total = 0.0
        for k in range(depth + 1):
            total += hessian[i, k] * path[k]
        out[i] = total
    clear(path)
    for visit in range(n - 1, -1, -1):  # and those below
        i = order.rows[visit, VISIT]
        depth = order.rows[i, DEPTH]
        out[i] += path[depth]
        path[depth] = 0.0
        for k in range(depth):
            path[k] += hessian[i, k] * x[i]


@kernel
def negative_curvature(order, hessian, fixed, scale, damping, factor, x, path):
    """Write into x (n,) a direction of negative curvature; return the dof that leads it, or -1 if there is none.

    At that dof the factorisation of H + damping diag(scale) fails. Its pivot is the curvature along x = e_failed - (the
    response of the dofs below it), so x'Hx = pivot.
    """
    damped_copy(order, hessian, fixed, damping, scale, factor, path)
    failed = factorise(order, factor, fixed, 0.0)
    if failed < 0:
        return -1
    n = factor.shape[0]
    clear(x)
    x[failed] = 1.0
    begun = False
    for visit in range(n):
        i = order.rows[visit, VISIT]
        depth = order.rows[i, DEPTH]
        if not begun or depth <= order.rows[failed, DEPTH]:
            if begun:
                return failed  # past the last dof below the failed one
            begun = i == failed
            continue
        total = 0.0
        j = order.rows[i, UP]
        for k in range(depth - 1, order.rows[failed, DEPTH] - 1, -1):
            total -= factor[i, k] * x[j]
            j = order.rows[j, UP]
        x[i] = total / factor[i, depth]
    return failed


@kernel
def mean_diagonal(order, hessian):
    """Return the mean absolute value of the diagonal, positive even where that is zero."""
    total = 0.0
    for i in range(hessian.shape[0]):
        total += abs(hessian[i, order.rows[i, DEPTH]])
    return max(total / max(hessian.shape[0], 1), 1e-300)


@kernel
def newton_step(order, hessian, gradient, fixed, scale, damping, moved, factor, step, path):
    """Write the damped Newton step (n,) while the fixed dofs move by moved (n,); return whether it is convex.

    The matrix is H + damping diag(scale); factor (n, d) and path (n,) are scratch.
    """
    damped_copy(order, hessian, fixed, damping, scale, factor, path)
    if factorise(order, factor, fixed, 0.0) >= 0:
        return False
    any_moved = False
    clear(step)
    for i in range(step.shape[0]):
        any_moved = any_moved or moved[i] != 0.0
    if any_moved:
        multiply(order, hessian, moved, step, path)
    for i in range(step.shape[0]):
        step[i] = 0.0 if fixed[i] != 0.0 else -gradient[i] - step[i]
    substitute(order, factor, step, path)
    for i in range(step.shape[0]):
        if fixed[i] != 0.0:
            step[i] = moved[i]
    return True


@kernel
def add_pair(order, ws, a, b, ratio, force, stiffness):
    """Add the force and the stiffness of a spring on theta_a - ratio theta_b to the gradient and the Hessian."""
    ws.gradient[a] += force
    ws.gradient[b] -= ratio * force
    ws.hessian[a, order.rows[a, DEPTH]] += stiffness
    ws.hessian[b, order.rows[b, DEPTH]] += stiffness * ratio * ratio
    add_entry(order, ws, a, b, -stiffness * ratio)


@kernel
def add_entry(order, ws, i, j, value):
    """Add to the Hessian's entries (i, j) and (j, i), which are one where i = j."""
    if i == j:
        ws.hessian[i, order.rows[i, DEPTH]] += 2.0 * value
    elif i > j:
        ws.hessian[i, order.rows[j, DEPTH]] += value
    else:
        ws.hessian[j, order.rows[i, DEPTH]] += value
