"""Small dense linear algebra: LU, Cholesky, QR, SVD, symmetric eigenvalues, banded systems.

Plain loops in the caller's memory: for matrices this small, the overhead of a library call would dominate.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel

MAX_SWEEPS = 30  # of Jacobi rotations; far fewer are needed


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
def dot(x, y):
    """Return x'y."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@kernel
def matvec(a, x, out):
    """Write A x."""
    for i in range(out.shape[0]):
        out[i] = dot(a[i, : x.shape[0]], x)


@kernel
def matvec_transposed(a, x, out):
    """Write A' x."""
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(x.shape[0]):
            total += a[k, i] * x[k]
        out[i] = total


@kernel
def set_identity(a, k):
    """Make the leading (k, k) of a the identity."""
    for i in range(k):
        for j in range(k):
            a[i, j] = 1.0 if i == j else 0.0


@kernel
def rotate_rows(a, p, q, columns, c, s):
    """Replace rows p and q of a by c a_p - s a_q and s a_p + c a_q."""
    for j in range(columns):
        x, y = a[p, j], a[q, j]
        a[p, j], a[q, j] = c * x - s * y, s * x + c * y


@kernel
def solve_upper(a, k, x):
    """Solve U y = x in place (k,), U the upper triangle of the leading (k, k) of a."""
    for i in range(k - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, k):
            total -= a[i, j] * x[j]
        x[i] = total / a[i, i]


@kernel
def jacobi_rotation(pp, qq, pq):
    """Return (cosine, sine) of the rotation that makes the entry pq of a symmetric 2x2 matrix vanish."""
    zeta = (qq - pp) / (2.0 * pq)
    t = (1.0 if zeta >= 0.0 else -1.0) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
    c = 1.0 / math.sqrt(1.0 + t * t)
    return c, c * t


@kernel
def lu_solve(a, k, rank, rows, columns, b, x, spare):
    """Solve with the factors of `lu_factor`: x (k,) from b (k,); zeros beyond the rank. spare (k,) is scratch."""
    for i in range(rank):
        total = b[int(rows[i])]
        for j in range(i):
            total -= a[i, j] * spare[j]
        spare[i] = total
    solve_upper(a, rank, spare)
    for i in range(k):
        x[int(columns[i])] = spare[i] if i < rank else 0.0


@kernel
def cholesky(a, k, floor):
    """Factor the leading (k, k) of a symmetric matrix in place, A = LL', from its lower half.

    Returns whether it is positive definite: every pivot is larger than `floor`.
    """
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
    solve_upper(a.T, k, x)


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
    """Write x (columns,) that minimises |Ax - b|, from `qr_factor` of A; zeros beyond the rank. b (rows,) is lost."""
    for s in range(rank):
        reflect(a, rows, s, tau, b)
    solve_upper(a, rank, b)
    for j in range(columns):
        x[int(order[j])] = b[j] if j < rank else 0.0


@kernel
def qr_least_norm(a, rows, rank, tau, order, b, x):
    """Write the shortest x (rows,) with A'x = b, from `qr_factor` of A; components of b beyond the rank are ignored."""
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
    set_identity(u, rows)
    for _ in range(MAX_SWEEPS):
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
                c, s = jacobi_rotation(pp, qq, pq)
                rotate_rows(a, p, q, columns, c, s)
                rotate_rows(u.T, p, q, rows, c, s)
        if not turned:
            return


@kernel
def eigen_symmetric(a, k, v, stop):
    """Diagonalise the symmetric leading (k, k) of a by Jacobi rotations, in place; v (k, k) gets the eigenvectors.

    Ends early if another thread sets stop (1,).
    """
    set_identity(v, k)
    for _ in range(MAX_SWEEPS):
        off, on = 0.0, 0.0
        for i in range(k):
            on += a[i, i] * a[i, i]
            for j in range(i):
                off += a[i, j] * a[i, j]
        if not off > 1e-30 * (on + off):
            return
        for p in range(k - 1):
            if stop[0] != 0.0:
                return
            for q in range(p + 1, k):
                if a[p, q] == 0.0:
                    continue
                c, s = jacobi_rotation(a[p, p], a[q, q], a[p, q])
                rotate_rows(a.T, p, q, k, c, s)
                rotate_rows(a, p, q, k, c, s)
                rotate_rows(v.T, p, q, k, c, s)


# --- Banded systems ---


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
