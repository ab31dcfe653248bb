"""The tree-sparse factorisation against NumPy's, with fixed dofs, damping, and orders that goals couple."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posable.engine.layout import DEPTH, UP
from posable.engine.ltl import (
    damped_copy,
    factorise,
    mean_diagonal,
    multiply,
    negative_curvature,
    newton_step,
    substitute,
)
from posable.model.joints import elimination_order


@st.composite
def trees(draw):
    """Draw dof rows (n, 4) of a random tree, and groups of coupled dofs."""
    n = draw(st.integers(1, 14))
    above = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    groups = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=2, max_size=4), max_size=2))
    dof = np.zeros((n, 4), dtype=np.int64)
    dof[:, 2] = above
    return dof, groups, draw(st.integers(0, 2**31))


def chain(order, i):
    """Return i and all above it in the elimination tree."""
    out = []
    while i >= 0:
        out.append(i)
        i = int(order.rows[i, UP])
    return out


def random_matrix(order, rng, definite):
    """Return a symmetric matrix with the order's pattern, dense (n, n) and by depth (n, d)."""
    n = order.rows.shape[0]
    dense = np.zeros((n, n))
    for i in range(n):
        for j in chain(order, i):
            dense[i, j] = dense[j, i] = rng.normal()
    if definite:
        dense += np.eye(n) * (1.0 - min(0.0, np.linalg.eigvalsh(dense)[0]))
    rows = np.zeros((n, int(order.rows[:, DEPTH].max()) + 1))
    for i in range(n):
        for j in chain(order, i):
            rows[i, order.rows[j, DEPTH]] = dense[i, j]
    return dense, rows


@given(trees())
def test_the_order_holds_every_coupling(tree):
    dof, groups, _ = tree
    order = elimination_order(dof, groups)
    for group in groups:
        for i in group:
            for j in group:
                assert min(i, j) in chain(order, max(i, j))
    for i in range(dof.shape[0]):
        above = int(dof[i, 2])
        assert above < 0 or above in chain(order, i)


@given(trees())
def test_solves_like_numpy_with_fixed_dofs_and_damping(tree):
    dof, groups, seed = tree
    rng = np.random.default_rng(seed)
    order = elimination_order(dof, groups)
    n = dof.shape[0]
    dense, rows = random_matrix(order, rng, definite=True)
    fixed = (rng.random(n) < 0.3).astype(float)
    scale, damping, x = rng.uniform(0.5, 2.0, n), 0.7, rng.normal(size=n)
    factor = np.empty_like(rows)
    damped_copy(order, rows, fixed, damping, scale, factor, np.zeros(len(scale)))
    assert factorise(order, factor, fixed, 0.0) == -1
    expected = dense + damping * np.diag(scale)
    for i in np.flatnonzero(fixed):
        expected[i, :] = expected[:, i] = 0.0
        expected[i, i] = 1.0
    solution = x.copy()
    substitute(order, factor, solution, np.zeros(len(solution)))
    assert np.allclose(solution, np.linalg.solve(expected, x), rtol=1e-8, atol=1e-10)


def deep_order(n, seed):
    """Return the elimination order of a tree deeper than what is eliminated one dof at a time, with few branches."""
    rng = np.random.default_rng(seed)
    dof = np.zeros((n, 4), dtype=np.int64)
    dof[:, 2] = [-1] + [i - 1 if rng.random() < 0.9 else rng.integers(0, i) for i in range(1, n)]
    return elimination_order(dof, ())


@pytest.mark.parametrize("seed", range(12))
def test_deep_chains_that_are_eliminated_in_pairs(seed):
    """With zeros in the matrix, with fixed dofs at every depth, and without either."""
    rng, order = np.random.default_rng(seed), deep_order(15 + seed % 2, seed)
    n = order.rows.shape[0]
    dense, rows = random_matrix(order, rng, definite=True)
    if seed % 3:
        keep = np.triu(rng.random((n, n)) < 0.5, 1)
        dense *= keep + keep.T + np.eye(n)
        dense += np.eye(n) * (1.0 - min(0.0, np.linalg.eigvalsh(dense)[0]))
        for i in range(n):
            for j in chain(order, i):
                rows[i, order.rows[j, DEPTH]] = dense[i, j]
    fixed = (rng.random(n) < 0.2).astype(float) if seed % 2 else np.zeros(n)
    factor, x = np.empty_like(rows), rng.normal(size=n)
    damped_copy(order, rows, fixed, 0.0, np.ones(n), factor, np.zeros(n))
    assert factorise(order, factor, fixed, 0.0) == -1
    free = fixed == 0.0
    lower = np.zeros((n, n))
    for i in range(n):
        for j in chain(order, i):
            lower[i, j] = factor[i, order.rows[j, DEPTH]]
    assert np.allclose((lower.T @ lower)[np.ix_(free, free)], dense[np.ix_(free, free)], rtol=1e-12, atol=1e-12)
    solution = x.copy()
    substitute(order, factor, solution, np.zeros(n))
    assert np.allclose(solution[free], np.linalg.solve(dense[np.ix_(free, free)], x[free]), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", [3, 9, 10])
@pytest.mark.parametrize("sparse", [False, True])
def test_factors_of_ones_are_found_exactly(n, sparse):
    """A chain whose factor holds ones, and zeros in every other row: sums of small integers, nothing beside them."""
    dof = np.zeros((n, 4), dtype=np.int64)
    dof[:, 2] = np.arange(-1, n - 1)
    order = elimination_order(dof, ())
    lower = np.tril(np.ones((n, n)))
    if sparse:
        lower[::2] = np.eye(n)[::2]
    factor = np.tril(lower.T @ lower)  # by depth, which in a chain is the dof above
    assert factorise(order, factor, np.zeros(n), 0.0) == -1
    assert np.array_equal(factor, lower)


def test_a_deep_fork_is_not_eliminated_in_pairs():
    """Nine dofs in a row, then two branches: the dof visited next is not the one above."""
    dof = np.zeros((13, 4), dtype=np.int64)
    dof[:, 2] = [*range(-1, 8), 8, 9, 8, 11]
    order, rng = elimination_order(dof, ()), np.random.default_rng(0)
    dense, rows = random_matrix(order, rng, definite=True)
    factor, x = rows.copy(), rng.normal(size=13)
    assert factorise(order, factor, np.zeros(13), 0.0) == -1
    solution = x.copy()
    substitute(order, factor, solution, np.zeros(13))
    assert np.allclose(solution, np.linalg.solve(dense, x), rtol=1e-9, atol=1e-11)


@given(trees())
def test_the_product_with_a_vector(tree):
    dof, groups, seed = tree
    rng, order = np.random.default_rng(seed), elimination_order(dof, groups)
    dense, rows = random_matrix(order, rng, definite=False)
    n = dof.shape[0]
    x, out = rng.normal(size=n), np.full(n, np.nan)
    multiply(order, rows, x, out, rng.normal(size=n))
    assert np.allclose(out, dense @ x, rtol=1e-12, atol=1e-12)


@given(trees())
def test_negative_curvature_curves_down(tree):
    dof, groups, seed = tree
    rng = np.random.default_rng(seed)
    order = elimination_order(dof, groups)
    n = dof.shape[0]
    dense, rows = random_matrix(order, rng, definite=False)
    dense -= 0.5 * np.eye(n)
    for i in range(n):
        rows[i, order.rows[i, DEPTH]] -= 0.5
    factor, x = np.empty_like(rows), np.empty(n)
    failed = negative_curvature(order, rows, np.zeros(n), np.ones(n), 0.0, factor, x, np.zeros(n))
    if failed < 0:
        assert np.linalg.eigvalsh(dense)[0] > 0.0
        return
    assert np.linalg.eigvalsh(dense)[0] <= 1e-12
    pivot = factor[failed, order.rows[failed, DEPTH]]
    assert x[failed] == 1.0
    assert np.isclose(x @ dense @ x, pivot, rtol=1e-6, atol=1e-9 * np.abs(x).max() ** 2 * np.abs(dense).max())
    assert x @ dense @ x <= 1e-9


@pytest.mark.parametrize("value", [np.nan, 0.0, -1.0])
def test_a_bad_pivot_is_reported(value):
    order = elimination_order(np.array([[1, 0, -1, 0], [1, 0, 0, 1]], dtype=np.int64), ())
    factor = np.array([[value, 0.0], [0.0, 1.0]])
    assert factorise(order, factor, np.zeros(len(factor)), 0.0) == 0


@given(trees())
def test_a_newton_step_of_the_free_dofs_while_the_others_move(tree):
    dof, groups, seed = tree
    rng = np.random.default_rng(seed)
    order = elimination_order(dof, groups)
    n = dof.shape[0]
    dense, rows = random_matrix(order, rng, definite=True)
    fixed, scale, gradient = (rng.random(n) < 0.4).astype(float), rng.uniform(0.5, 2.0, n), rng.normal(size=n)
    moved = np.where(fixed != 0.0, rng.normal(size=n), 0.0)
    step, factor = np.full(n, np.nan), np.empty_like(rows)
    assert newton_step(order, rows, gradient, fixed, scale, 0.3, moved, factor, step, np.zeros(n))
    free, held = np.flatnonzero(fixed == 0.0), np.flatnonzero(fixed)
    matrix = dense[np.ix_(free, free)] + 0.3 * np.diag(scale[free])
    right = -gradient[free] - dense[np.ix_(free, held)] @ moved[held]
    assert np.array_equal(step[held], moved[held])
    assert np.allclose(step[free], np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)
    assert np.isclose(mean_diagonal(order, rows), np.abs(np.diag(dense)).mean())
    dense, rows = random_matrix(order, rng, definite=False)
    lowest = np.linalg.eigvalsh(dense)[0] + 0.3
    none = np.zeros(n)
    if abs(lowest) > 1e-6:
        convex = newton_step(order, rows, gradient, none, np.ones(n), 0.3, none, factor, step, np.zeros(n))
        assert bool(convex) == (lowest > 0.0)
