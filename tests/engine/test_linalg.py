"""Dense linear algebra against NumPy's, at full rank and below it."""

import numpy as np
import pytest

from posable.engine import linalg as dense

SHAPES = [(1, 1), (3, 7), (7, 3), (6, 6), (18, 20)]


def matrix(shape, rank=None, seed=0):
    rng = np.random.default_rng(seed)
    if rank is None:
        return rng.normal(size=shape)
    return rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_lu_solves(k):
    a = matrix((k, k))
    b = np.arange(k) + 1.0
    factor, rows, columns, x, spare = a.copy(), np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    rank = dense.lu_factor(factor, k, rows, columns, 1e-12)
    dense.lu_solve(factor, k, rank, rows, columns, b, x, spare)
    assert rank == k
    np.testing.assert_allclose(a @ x, b, atol=1e-10)


def test_lu_answers_a_singular_system_that_has_an_answer():
    j = matrix((6, 9), rank=3)
    a = j @ j.T
    b = a @ np.arange(6.0)
    factor, rows, columns, x, spare = a.copy(), np.empty(6), np.empty(6), np.empty(6), np.empty(6)
    rank = dense.lu_factor(factor, 6, rows, columns, 1e-12)
    dense.lu_solve(factor, 6, rank, rows, columns, b, x, spare)
    assert rank == 3
    np.testing.assert_allclose(j.T @ x, j.T @ np.linalg.pinv(a) @ b, atol=1e-8)


def test_lu_of_zeros_has_rank_zero():
    a, rows, columns, x = np.zeros((3, 3)), np.empty(3), np.empty(3), np.ones(3)
    rank = dense.lu_factor(a, 3, rows, columns, 1e-12)
    dense.lu_solve(a, 3, rank, rows, columns, np.ones(3), x, np.empty(3))
    assert rank == 0
    assert (x == 0.0).all()


@pytest.mark.parametrize("k", [1, 4, 9])
def test_cholesky_solves_and_refuses(k):
    a = matrix((k, k))
    a = a @ a.T + np.eye(k)
    factor, x = a.copy(), np.ones(k)
    assert dense.cholesky(factor, k, 0.0)
    dense.cholesky_solve(factor, k, x)
    np.testing.assert_allclose(a @ x, np.ones(k), atol=1e-9)
    assert not dense.cholesky(-a, k, 0.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("low", [False, True])
def test_qr_least_squares_and_least_norm(shape, low):
    m, n = shape
    a = matrix(shape, rank=min(m, n, 2) if low else None)
    factor, tau, order = a.copy(), np.empty(n), np.empty(n)
    rank = dense.qr_factor(factor, m, n, tau, order, 1e-12)
    assert rank == np.linalg.matrix_rank(a)
    b, x = np.arange(m) + 1.0, np.empty(n)
    dense.qr_least_squares(factor, m, n, rank, tau, order, b.copy(), x)
    best = np.linalg.lstsq(a, b)[0]
    np.testing.assert_allclose(np.linalg.norm(a @ x - b), np.linalg.norm(a @ best - b), atol=1e-9)
    right, y = a.T @ np.ones(m), np.empty(m)
    dense.qr_least_norm(factor, m, rank, tau, order, right, y)
    np.testing.assert_allclose(y, np.linalg.pinv(a.T) @ right, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("low", [False, True])
def test_svd(shape, low):
    m, n = shape
    a = matrix(shape, rank=min(m, n, 2) if low else None)
    rows, u = a.copy(), np.empty((m, m))
    dense.svd_rows(rows, m, n, u)
    np.testing.assert_allclose(u @ rows, a, atol=1e-10)
    np.testing.assert_allclose(u.T @ u, np.eye(m), atol=1e-10)
    values = np.sort(np.linalg.norm(rows, axis=1))[::-1]
    np.testing.assert_allclose(values[: min(m, n)], np.linalg.svd(a)[1], atol=1e-10)


@pytest.mark.parametrize("k", [1, 3, 8, 30])
def test_eigenvalues(k):
    a = matrix((k, k))
    a = a + a.T
    d, v = a.copy(), np.empty((k, k))
    dense.eigen_symmetric(d, k, v, np.zeros(1))
    np.testing.assert_allclose(v @ np.diag(np.diag(d)) @ v.T, a, atol=1e-10)
    np.testing.assert_allclose(np.sort(np.diag(d)), np.linalg.eigvalsh(a), atol=1e-10)
