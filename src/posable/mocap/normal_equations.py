"""The normal equations of a calibration: residuals of the markers, and the poses eliminated (actor_fit.py).

Every frame has its own pose, and all frames share the offsets of the markers and the lengths of the bones. The poses
are eliminated frame by frame, so that the system that remains does not grow with the number of frames.
"""

from __future__ import annotations

import math

import numpy as np

from posable.engine.jit import entry, kernel
from posable.engine.linalg import solve_banded


@entry
def marker_rows(
    places, positions, rotations, twists, on, points, axes, above, last, moves, vectors, robust,
    poses, lower, upper, residuals, by_pose, by_factor, roots,
):  # fmt: skip
    """Write the residuals of the markers in K frames and their derivatives, in the axes of the markers' bones.

    Each row is scaled by the square root of the marker's weight in the robust loss. The columns of dofs that are held
    at a limit are zero.

    Args:
        places: (K, M, 3) [m] Positions of the markers, NaN where unseen.
        positions: (K, b, 3) [m] Of the bodies.
        rotations: (K, b, 3, 3) Of the bodies.
        twists: (K, n, 6) Of the dofs.
        on: (M,) The body of each marker.
        points: (M, 3) [m] Where the marker is on that body.
        axes: (M, 3, 3) The axes of its bone, in the body.
        above: (n,) The dof above each dof, or -1.
        last: (M,) The last dof that moves each marker.
        moves: (S, 3) Rows (marker, body, parameter): the parameter moves the marker, with that body.
        vectors: (S, 3) [m] By how much, per unit of the parameter, in the axes of the body.
        robust: [m] Scale of the robust loss.
        poses: (K, n) [rad, m].
        lower: (n,) [rad, m] Limits of the poses.
        upper: (n,) [rad, m].
        residuals: (K, 3M) [m] Written.
        by_pose: (K, 3M, n) Written: their derivatives with respect to the poses.
        by_factor: (K, 3M, G) Written: with respect to the parameters.
        roots: (K, 3M) Written: the factor of each row, 0 where unseen.
    """
    n = twists.shape[1]
    for k in range(places.shape[0]):
        for m in range(places.shape[1]):
            row = 3 * m
            for x in range(3):
                residuals[k, row + x] = 0.0
                roots[k, row + x] = 0.0
                for a in range(n):
                    by_pose[k, row + x, a] = 0.0
                for c in range(by_factor.shape[2]):
                    by_factor[k, row + x, c] = 0.0
            px, py, pz = places[k, m, 0], places[k, m, 1], places[k, m, 2]
            if not (math.isfinite(px) and math.isfinite(py) and math.isfinite(pz)):
                continue
            body = on[m]
            r, q = rotations[k, body], points[m]
            wx = positions[k, body, 0] + r[0, 0] * q[0] + r[0, 1] * q[1] + r[0, 2] * q[2]
            wy = positions[k, body, 1] + r[1, 0] * q[0] + r[1, 1] * q[1] + r[1, 2] * q[2]
            wz = positions[k, body, 2] + r[2, 0] * q[0] + r[2, 1] * q[1] + r[2, 2] * q[2]
            dx, dy, dz = wx - px, wy - py, wz - pz
            root = (1.0 + (dx * dx + dy * dy + dz * dz) / (robust * robust)) ** -0.25
            for x in range(3):  # the axes of the bone in the world, scaled
                ax = root * (r[0, 0] * axes[m, 0, x] + r[0, 1] * axes[m, 1, x] + r[0, 2] * axes[m, 2, x])
                ay = root * (r[1, 0] * axes[m, 0, x] + r[1, 1] * axes[m, 1, x] + r[1, 2] * axes[m, 2, x])
                az = root * (r[2, 0] * axes[m, 0, x] + r[2, 1] * axes[m, 1, x] + r[2, 2] * axes[m, 2, x])
                roots[k, row + x] = root
                residuals[k, row + x] = ax * dx + ay * dy + az * dz
                a = last[m]
                while a >= 0:
                    t = twists[k, a]
                    by_pose[k, row + x, a] = (
                        ax * (t[1] * wz - t[2] * wy + t[3])
                        + ay * (t[2] * wx - t[0] * wz + t[4])
                        + az * (t[0] * wy - t[1] * wx + t[5])
                    )
                    a = above[a]
        add_factor_columns(k, rotations, on, axes, moves, vectors, roots, by_factor)
        clear_held_columns(poses[k], lower, upper, residuals[k], by_pose[k])


@kernel
def add_factor_columns(k, rotations, on, axes, moves, vectors, roots, by_factor):
    """Write the derivatives of frame k with respect to the parameters; arguments as of `marker_rows`."""
    for s in range(moves.shape[0]):
        m, body, column = moves[s, 0], moves[s, 1], moves[s, 2]
        root = roots[k, 3 * m]
        if root == 0.0:
            continue
        r, v = rotations[k, body], vectors[s]
        vx = root * (r[0, 0] * v[0] + r[0, 1] * v[1] + r[0, 2] * v[2])
        vy = root * (r[1, 0] * v[0] + r[1, 1] * v[1] + r[1, 2] * v[2])
        vz = root * (r[2, 0] * v[0] + r[2, 1] * v[1] + r[2, 2] * v[2])
        r = rotations[k, on[m]]
        ux = r[0, 0] * vx + r[1, 0] * vy + r[2, 0] * vz
        uy = r[0, 1] * vx + r[1, 1] * vy + r[2, 1] * vz
        uz = r[0, 2] * vx + r[1, 2] * vy + r[2, 2] * vz
        for x in range(3):
            by_factor[k, 3 * m + x, column] += axes[m, 0, x] * ux + axes[m, 1, x] * uy + axes[m, 2, x] * uz


@kernel
def clear_held_columns(pose, lower, upper, residuals, by_pose):
    """Clear the columns of by_pose (3M, n) of dofs that residuals (3M,) push against a limit at a pose (n,)."""
    for a in range(pose.size):
        low, high = pose[a] <= lower[a] + 1e-9, pose[a] >= upper[a] - 1e-9
        if not low and not high:
            continue
        slope = 0.0
        for row in range(residuals.size):
            slope += by_pose[row, a] * residuals[row]
        if (low and slope > 0.0) or (high and slope < 0.0):
            for row in range(residuals.size):
                by_pose[row, a] = 0.0


@entry
def eliminate_poses(residuals, by_pose, by_factor, seen, pulls, gaps, inner, half, matrix, slope):
    """Add the contribution of K frames to the normal equations of offsets and factors, with the poses eliminated.

    There are P = 3M + G unknowns: the offset of each marker in the axes of its bone, and the factors. The last dofs are
    eliminated first: a dof comes after those above it, so limbs do not fill each other in and most of `half` stays 0.

    Args:
        residuals: (K, 3M) [m] As written by `marker_rows`.
        by_pose: (K, 3M, n) Their derivatives with respect to the poses; a column of zeros is a dof that is held.
        by_factor: (K, 3M, G) With respect to the factors.
        seen: (K, 3M) With respect to the marker's own offset: the factor of the row, 0 where unseen.
        pulls: (n,) Stiffness of the pull on the poses.
        gaps: (K, n) Force of that pull.
        inner: (n, n) Scratch memory.
        half: (n, P + 1) Scratch memory.
        matrix: (P, P) The lower half is added to.
        slope: (P,) Added to.
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
                half[a, q] = x * seen[k, q]
                for c in range(g):
                    half[a, rows + c] += x * f[q, c]
                half[a, p] += x * r[q]
        for a in range(n):
            held = inner[a, a] == 0.0
            if not held:
                half[a, p] += gaps[k, a]
            inner[a, a] += 1.0 if held else pulls[a] + 1e-9
        for a in range(n - 1, -1, -1):  # inner = L' L, half <- L'^-1 half
            root = math.sqrt(max(inner[a, a], 1e-300))
            inner[a, a] = root
            for q in range(p + 1):
                half[a, q] /= root
            for b in range(a):
                inner[a, b] /= root
            for b in range(a):
                x = inner[a, b]
                if x != 0.0:
                    for c in range(b + 1):
                        inner[b, c] -= x * inner[a, c]
                    for q in range(p + 1):
                        half[b, q] -= x * half[a, q]
        for q in range(rows):
            matrix[q, q] += seen[k, q] * seen[k, q]
            slope[q] += seen[k, q] * r[q]
            for c in range(g):
                x = f[q, c]
                if x != 0.0:
                    matrix[rows + c, q] += x * seen[k, q]
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


def solve_symmetric(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return the solution (P,) of a symmetric system, or None where its matrix (P, P) is not positive definite.

    Compiled, because on a busy machine BLAS threads wait for each other longer than they compute.
    """
    size = len(right)
    band = np.zeros((size, size))
    for k in range(size):
        band[: size - k, k] = np.diagonal(matrix, -k)
    out = right.copy()
    return out if solve_banded(band, out) else None
