"""The poses eliminated from the normal equations of a calibration, in plain loops.

A library's threads would spend longer waiting for one another than these small matrices take.
"""

from __future__ import annotations

import math

from posable.kernels.compiler import entry


@entry
def eliminate(residuals, by_pose, by_factor, seen, pulls, gaps, inner, half, matrix, slope):
    """Add to matrix (P, P), lower half, and slope (P,) what K frames say of offsets and factors, P = 3M + G.

    residuals (K, 3M) and their derivatives by_pose (K, 3M, n) and by_factor (K, 3M, G), in the frames of the bones, so
    that the derivative by the offsets is seen (K, 3M): one where a marker is seen. pulls (n,), gaps (K, n): stiffness
    and force of the pull on the poses. inner (n, n) and half (n, P + 1) are scratch. A column of by_pose that is all
    zeros is a degree of freedom that is held.
    """
    rows, n, g = by_pose.shape[1], by_pose.shape[2], by_factor.shape[2]
    p = rows + g
    for k in range(residuals.shape[0]):
        j, f, r = by_pose[k], by_factor[k], residuals[k]
        for a in range(n):
            for b in range(a + 1):
                inner[a, b] = 0.0
            for q in range(p + 1):
                half[a, q] = 0.0
        for q in range(rows):
            for a in range(n):
                x = j[q, a]
                if x == 0.0:
                    continue
                for b in range(a + 1):
                    inner[a, b] += x * j[q, b]
                half[a, q] = x
                for c in range(g):
                    half[a, rows + c] += x * f[q, c]
                half[a, p] += x * r[q]
        for a in range(n):
            held = inner[a, a] == 0.0
            if not held:
                half[a, p] += gaps[k, a]
            inner[a, a] += 1.0 if held else pulls[a] + 1e-9
        for a in range(n):  # inner = L L', half <- L^-1 half
            for b in range(a):
                total = inner[a, b]
                for c in range(b):
                    total -= inner[a, c] * inner[b, c]
                inner[a, b] = total / inner[b, b]
            total = inner[a, a]
            for c in range(a):
                total -= inner[a, c] * inner[a, c]
            root = math.sqrt(max(total, 1e-300))
            inner[a, a] = root
            for b in range(a):
                x = inner[a, b]
                if x != 0.0:
                    for q in range(p + 1):
                        half[a, q] -= x * half[b, q]
            for q in range(p + 1):
                half[a, q] /= root
        for q in range(rows):
            matrix[q, q] += seen[k, q]
            slope[q] += seen[k, q] * r[q]
            for c in range(g):
                x = f[q, c]
                if x != 0.0:
                    matrix[rows + c, q] += x
                    slope[rows + c] += x * r[q]
                    for e in range(c + 1):
                        matrix[rows + c, rows + e] += x * f[q, e]
        for a in range(n):
            y = half[a, p]
            for q in range(p):
                x = half[a, q]
                if x != 0.0:
                    slope[q] -= x * y
                    for e in range(q + 1):
                        matrix[q, e] -= x * half[a, e]
