"""The tree-sparse factorisation H = L'L: leaves first, so that nothing fills in.

Row i of a matrix is stored by depth: column k holds the entry with the dof at depth k above i. All dofs above i lie on
one chain, so a row is dense and elimination is a loop over contiguous numbers. O(n depth^2).
"""

from __future__ import annotations

import math

from .compiler import kernel
from .fields import DEPTH, UP


@kernel
def damped_copy(order, hessian, fixed, damping, scale, factor):
    """Copy H + damping diag(scale) into factor (n, d), with the rows and columns of fixed (n,) dofs cleared."""
    for i in range(fixed.shape[0]):
        depth = order.rows[i, DEPTH]
        if fixed[i] != 0.0:
            for k in range(depth):
                factor[i, k] = 0.0
            factor[i, depth] = 1.0
            continue
        for k in range(depth):
            factor[i, k] = hessian[i, k]
        factor[i, depth] = hessian[i, depth] + damping * scale[i]
        j = order.rows[i, UP]
        while j >= 0:
            if fixed[j] != 0.0:
                factor[i, order.rows[j, DEPTH]] = 0.0
            j = order.rows[j, UP]


@kernel
def factorise(order, factor, floor):
    """Factor in place, H = L'L. Return -1, or the dof at which a pivot is not above `floor`."""
    n = factor.shape[0]
    for i in range(n - 1, -1, -1):
        depth = order.rows[i, DEPTH]
        pivot = factor[i, depth]
        if not pivot > floor:
            return i
        root = math.sqrt(pivot)
        inverse = 1.0 / root
        factor[i, depth] = root
        for k in range(depth):
            factor[i, k] *= inverse
        j = order.rows[i, UP]
        for above in range(depth - 1, -1, -1):
            x = factor[i, above]
            if x != 0.0:
                for k in range(above + 1):
                    factor[j, k] -= x * factor[i, k]
            j = order.rows[j, UP]
    return -1


@kernel
def substitute(order, factor, x):
    """Solve L'L y = x in place (n,)."""
    n = factor.shape[0]
    for i in range(n - 1, -1, -1):  # L' z = x
        depth = order.rows[i, DEPTH]
        z = x[i] / factor[i, depth]
        x[i] = z
        j = order.rows[i, UP]
        for k in range(depth - 1, -1, -1):
            x[j] -= factor[i, k] * z
            j = order.rows[j, UP]
    for i in range(n):  # L y = z
        depth = order.rows[i, DEPTH]
        total = x[i]
        j = order.rows[i, UP]
        for k in range(depth - 1, -1, -1):
            total -= factor[i, k] * x[j]
            j = order.rows[j, UP]
        x[i] = total / factor[i, depth]


@kernel
def negative_curvature(order, factor, failed, x):
    """Write into x (n,) a direction along which H curves down, after `factorise` has failed at the dof `failed`.

    The pivot is the curvature along x = e_failed - (what the dofs below it do in answer), so x'Hx = pivot.
    """
    n = factor.shape[0]
    for i in range(n):
        x[i] = 0.0
    x[failed] = 1.0
    for i in range(failed + 1, n):
        depth = order.rows[i, DEPTH]
        total = 0.0
        j = order.rows[i, UP]
        below = False
        for k in range(depth - 1, -1, -1):
            if j < failed:
                break
            below = below or j == failed
            total -= factor[i, k] * x[j]
            j = order.rows[j, UP]
        if below:
            x[i] = total / factor[i, depth]


@kernel
def multiply(order, hessian, x, out):
    """Write H x (n,) for a symmetric matrix stored by depth."""
    n = x.shape[0]
    for i in range(n):
        out[i] = 0.0
    for i in range(n):
        depth = order.rows[i, DEPTH]
        total = hessian[i, depth] * x[i]
        j = order.rows[i, UP]
        for k in range(depth - 1, -1, -1):
            total += hessian[i, k] * x[j]
            out[j] += hessian[i, k] * x[i]
            j = order.rows[j, UP]
        out[i] += total
