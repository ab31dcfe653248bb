"""Small dense linear algebra: LU, Cholesky, QR, SVD, symmetric eigenvalues, banded systems, normal equations.

Plain loops in the caller's memory. The matrices are so small that a library would spend longer starting its threads.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel

# --- Small dense linear algebra in the caller's memory ---

SWEEPS = 30  # of Jacobi rotations; they end far sooner


@kernel
def lu_factor(a, k, rows, columns, relative):
    """Factor the leading (k, k) of a in place with complete pivoting; return its rank.

    rows and columns (k,) receive the permutations, as numbers. Pivots below `relative` times the first count as zero.
    """
    for i in range(k):
        rows[i] = i
        columns[i] = i
    first = 0.0
    for s in range(k):
        best, p, q = 0.0, s, s
        for i in range(s, k):
            for j in range(s, k):
                if abs(a[i, j]) > best:
                    best, p, q = abs(a[i, j]), i, j
        if s == 0:
            first = best
        if not best > relative * first:
            return s
        if p != s:
            for j in range(k):
                a[s, j], a[p, j] = a[p, j], a[s, j]
            rows[s], rows[p] = rows[p], rows[s]
        if q != s:
            for i in range(k):
                a[i, s], a[i, q] = a[i, q], a[i, s]
            columns[s], columns[q] = columns[q], columns[s]
        for i in range(s + 1, k):
            factor = a[i, s] / a[s, s]
            a[i, s] = factor
            if factor != 0.0:
                for j in range(s + 1, k):
                    a[i, j] -= factor * a[s, j]
    return k


@kernel
def lu_solve(a, k, rank, rows, columns, b, x, spare):
    """Solve with the factors of `lu_factor`: x (k,) from b (k,); where rank is lost, x has zeros. spare (k,)."""
    for i in range(rank):
        total = b[int(rows[i])]
        for j in range(i):
            total -= a[i, j] * spare[j]
        spare[i] = total
    for i in range(rank - 1, -1, -1):
        total = spare[i]
        for j in range(i + 1, rank):
            total -= a[i, j] * spare[j]
        spare[i] = total / a[i, i]
    for i in range(k):
        x[int(columns[i])] = spare[i] if i < rank else 0.0


@kernel
def cholesky(a, k, floor):
    """Factor the leading (k, k) of a symmetric matrix in place, A = LL', from its lower half; return whether it is."""
    for i in range(k):
        for j in range(i + 1):
            total = a[i, j]
            for s in range(j):
                total -= a[i, s] * a[j, s]
            if i > j:
                a[i, j] = total / a[j, j]
            elif total > floor:
                a[i, i] = math.sqrt(total)
            else:
                return False
    return True


@kernel
def cholesky_solve(a, k, x):
    """Solve LL'y = x in place (k,), with the factor of `cholesky`."""
    for i in range(k):
        total = x[i]
        for j in range(i):
            total -= a[i, j] * x[j]
        x[i] = total / a[i, i]
    for i in range(k - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, k):
            total -= a[j, i] * x[j]
        x[i] = total / a[i, i]


@kernel
def qr_factor(a, rows, columns, tau, order, relative):
    """Factor a (rows, columns) in place by Householder reflections with column pivoting, A P = QR; return its rank.

    R is on and above the diagonal, the reflections' vectors (first entry 1) below it, their factors in tau (columns,);
    order (columns,) receives the permutation. A column shorter than `relative` times the first ends the rank.
    """
    for j in range(columns):
        order[j] = j
    first = 0.0
    for s in range(min(rows, columns)):
        best, q = -1.0, s
        for j in range(s, columns):
            square = 0.0
            for i in range(s, rows):
                square += a[i, j] * a[i, j]
            if square > best:
                best, q = square, j
        length = math.sqrt(best)
        if s == 0:
            first = length
        if not length > relative * first:
            return s
        if q != s:
            for i in range(rows):
                a[i, s], a[i, q] = a[i, q], a[i, s]
            order[s], order[q] = order[q], order[s]
        if a[s, s] > 0.0:
            length = -length
        head = a[s, s] - length
        tau[s] = -head / length
        for i in range(s + 1, rows):
            a[i, s] /= head
        a[s, s] = length
        for j in range(s + 1, columns):
            dot = a[s, j]
            for i in range(s + 1, rows):
                dot += a[i, s] * a[i, j]
            dot *= tau[s]
            a[s, j] -= dot
            for i in range(s + 1, rows):
                a[i, j] -= dot * a[i, s]
    return min(rows, columns)


@kernel
def reflect(a, rows, s, tau, x):
    """Apply reflection s of `qr_factor` to x (rows,), in place; it is its own transpose."""
    dot = x[s]
    for i in range(s + 1, rows):
        dot += a[i, s] * x[i]
    dot *= tau[s]
    x[s] -= dot
    for i in range(s + 1, rows):
        x[i] -= dot * a[i, s]


@kernel
def qr_least_squares(a, rows, columns, rank, tau, order, b, x):
    """Write x (columns,) that makes |Ax - b| least, from `qr_factor` of A; b (rows,) is lost. Zeros past the rank."""
    for s in range(rank):
        reflect(a, rows, s, tau, b)
    for i in range(rank - 1, -1, -1):
        total = b[i]
        for j in range(i + 1, rank):
            total -= a[i, j] * b[j]
        b[i] = total / a[i, i]
    for j in range(columns):
        x[int(order[j])] = b[j] if j < rank else 0.0


@kernel
def qr_least_norm(a, rows, columns, rank, tau, order, b, x):
    """Write the shortest x (rows,) with A'x = b (columns,), from `qr_factor` of A; what is past the rank is let go."""
    for i in range(rows):
        x[i] = 0.0
    for i in range(rank):  # R'y = P'b
        total = b[int(order[i])]
        for j in range(i):
            total -= a[j, i] * x[j]
        x[i] = total / a[i, i]
    for s in range(rank - 1, -1, -1):  # x = Qy
        reflect(a, rows, s, tau, x)


@kernel
def svd_rows(a, rows, columns, u):
    """Decompose a (rows, columns) by one-sided Jacobi rotations of its rows (Hestenes), in place.

    Afterwards row i of a is sigma_i v_i', and column i of u (rows, rows) is the left singular vector u_i.
    """
    for i in range(rows):
        for j in range(rows):
            u[i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        turned = False
        for p in range(rows - 1):
            for q in range(p + 1, rows):
                pp, qq, pq = 0.0, 0.0, 0.0
                for j in range(columns):
                    pp += a[p, j] * a[p, j]
                    qq += a[q, j] * a[q, j]
                    pq += a[p, j] * a[q, j]
                if not abs(pq) > 1e-15 * math.sqrt(pp * qq):
                    continue
                turned = True
                zeta = (qq - pp) / (2.0 * pq)
                t = (1.0 if zeta >= 0.0 else -1.0) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = c * t
                for j in range(columns):
                    x, y = a[p, j], a[q, j]
                    a[p, j], a[q, j] = c * x - s * y, s * x + c * y
                for i in range(rows):
                    x, y = u[i, p], u[i, q]
                    u[i, p], u[i, q] = c * x - s * y, s * x + c * y
        if not turned:
            return


@kernel
def eigen_symmetric(a, k, v):
    """Make the symmetric leading (k, k) of a diagonal by Jacobi rotations, in place; v (k, k) gets the eigenvectors."""
    for i in range(k):
        for j in range(k):
            v[i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        off, on = 0.0, 0.0
        for i in range(k):
            on += a[i, i] * a[i, i]
            for j in range(i):
                off += a[i, j] * a[i, j]
        if not off > 1e-30 * (on + off):
            return
        for p in range(k - 1):
            for q in range(p + 1, k):
                if a[p, q] == 0.0:
                    continue
                zeta = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
                t = (1.0 if zeta >= 0.0 else -1.0) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = c * t
                for i in range(k):
                    x, y = a[i, p], a[i, q]
                    a[i, p], a[i, q] = c * x - s * y, s * x + c * y
                for i in range(k):
                    x, y = a[p, i], a[q, i]
                    a[p, i], a[q, i] = c * x - s * y, s * x + c * y
                    x, y = v[i, p], v[i, q]
                    v[i, p], v[i, q] = c * x - s * y, s * x + c * y


# --- A symmetric system whose entries lie near the diagonal ---


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


# --- The poses eliminated from the normal equations of a calibration ---


@entry
def marker_rows(
    places, positions, rotations, twists, on, points, axes, above, last, moves, vectors, robust,
    poses, lower, upper, residuals, by_pose, by_factor, roots,
):  # fmt: skip
    """Write how far markers are from their places in K frames, and the derivatives of that, in the axes of their bones.

    places (K, M, 3) [m], NaN where unseen; positions (K, b, 3), rotations (K, b, 3, 3) and twists (K, n, 6) of the
    bodies; on (M,): the body of each marker, with points (M, 3) [m] and the axes (M, 3, 3) of its bone in it; last
    (M,): the last dof of its path, and above (n,) the one above each. A row (marker, body, parameter) of moves (S, 3)
    says that the parameter moves the marker by its row of vectors (S, 3) [m], in the axes of the body. Rows are scaled
    by roots (K, 3M) of the weight in the robust loss, 0 where unseen. Columns of dofs that a limit (lower, upper; at
    `poses`) holds are zero.
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
        for a in range(n):
            low, high = poses[k, a] <= lower[a] + 1e-9, poses[k, a] >= upper[a] - 1e-9
            if not low and not high:
                continue
            slope = 0.0
            for row in range(residuals.shape[1]):
                slope += by_pose[k, row, a] * residuals[k, row]
            if (low and slope > 0.0) or (high and slope < 0.0):
                for row in range(residuals.shape[1]):
                    by_pose[k, row, a] = 0.0


@entry
def eliminate(residuals, by_pose, by_factor, seen, pulls, gaps, inner, half, matrix, slope):
    """Add to matrix (P, P), lower half, and slope (P,) what K frames say of offsets and factors, P = 3M + G.

    residuals (K, 3M) and their derivatives by_pose (K, 3M, n) and by_factor (K, 3M, G), in the frames of the bones, so
    that the derivative by the offsets is seen (K, 3M): one where a marker is seen, and the root of its weight where
    all its rows are scaled by that. pulls (n,), gaps (K, n): stiffness
    and force of the pull on the poses. inner (n, n) and half (n, P + 1) are scratch. A column of by_pose that is all
    zeros is a degree of freedom that is held.

    The last dofs are eliminated first. A dof comes after those above it, so that what is on one limb never mixes with
    another limb, and most of half stays zero.
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
