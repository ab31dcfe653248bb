"""The banded solver against a dense one."""

import numpy as np
import pytest

from posable.engine.linalg import solve_banded


@pytest.mark.parametrize(("size", "width"), [(1, 1), (2, 5), (7, 3), (40, 40), (60, 11)])
def test_a_banded_system_is_solved(size, width):
    rng = np.random.default_rng(size)
    lower = np.tril(rng.normal(size=(size, size)))
    lower[np.arange(size)[:, None] - np.arange(size) >= width] = 0.0
    lower[np.diag_indices(size)] = 1.0 + np.abs(np.diag(lower))
    matrix = lower @ lower.T
    band = np.zeros((size, width))
    for k in range(min(width, size)):
        band[: size - k, k] = np.diag(matrix, -k)
    right = rng.normal(size=size)
    answer = right.copy()
    assert solve_banded(band, answer)
    np.testing.assert_allclose(answer, np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("pivot", [0.0, -1.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_is_reported(pivot):
    assert not solve_banded(np.array([[1.0, 0.0], [pivot, 0.0]]), np.ones(2))
