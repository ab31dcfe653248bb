"""A symmetric system whose entries lie near the diagonal, solved in plain loops.

LAPACK's threads wait for one another longer than these blocks take: on a busy machine seconds instead of hundredths of
one. One thread also gives the same bits everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from posable.kernels.compiler import entry


@entry
def solve_banded(band, right):
    """Solve A x = right (N,) in place, where band (N, w) holds A[i + k, i] in row i, column k; band becomes its factor.

    Returns whether A was positive definite.
    """
    size, width = band.shape
    for i in range(size):  # A = L L', column by column
        pivot = band[i, 0]
        if not pivot > 0.0:
            return False
        reach = min(width, size - i)
        inverse = 1.0 / math.sqrt(pivot)
        for k in range(reach):
            band[i, k] *= inverse
        for k in range(1, reach):
            x = band[i, k]
            if x != 0.0:
                for m in range(reach - k):
                    band[i + k, m] -= x * band[i, k + m]
    for i in range(size):  # L y = right
        y = right[i] / band[i, 0]
        right[i] = y
        for k in range(1, min(width, size - i)):
            right[i + k] -= band[i, k] * y
    for i in range(size - 1, -1, -1):  # L' x = y
        total = right[i]
        for k in range(1, min(width, size - i)):
            total -= band[i, k] * right[i + k]
        right[i] = total / band[i, 0]
    return True


def multiply_banded(band: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return A x (N,), for A stored as `solve_banded` reads it."""
    out = band[:, 0] * x
    for k in range(1, min(band.shape[1], len(x))):
        out[k:] += band[:-k, k] * x[:-k]
        out[:-k] += band[:-k, k] * x[k:]
    return out
