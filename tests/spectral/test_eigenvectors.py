"""Leading eigenvectors, against the direct solver of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import eigenvectors
from ultraspec.spectral.eigenvectors import RESIDUAL, RegularizedMatrix, dense_eigenpairs, sparse_eigenpairs


def affinity(p, K, seed, n_rows=None):
    """W = T'T of rows with K random weights: its eigenvalues after normalisation lie in [0, 1]."""
    random = np.random.default_rng(seed)
    n = n_rows or 6 * p
    at = random.random(p)
    columns = np.argsort(np.abs(at[None] - random.random((n, 1))), axis=1)[:, :K]  # along a line, as neighbours are
    values = random.random((n, K)) + 0.1
    values /= values.sum(axis=1, keepdims=True)
    T = scipy.sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, n * K + 1, K)), shape=(n, p))
    return scipy.sparse.csr_array(T.T @ T)


def blocks(n, size, seed):
    """A graph of n components with `size` representatives each; all pairs within a component have edges."""
    random = np.random.default_rng(seed)
    parts = random.random((n, 2 * size, size)) + 0.1
    return scipy.sparse.csr_array(scipy.sparse.block_diag([T.T @ T for T in parts]))


def normalised(W, tau):
    """The matrix as the library takes it, its dense form, and the square roots of the degrees."""
    p = W.shape[0]
    degrees = np.asarray(W.sum(axis=1))
    weight = tau * degrees.sum() / p / p
    roots = np.sqrt(degrees + weight * p)
    S = scipy.sparse.diags_array(1 / roots)
    full = oracle.regularized(W.toarray(), tau) / np.outer(roots, roots)
    return RegularizedMatrix(scipy.sparse.csr_array(S @ W @ S), 1 / roots, weight), full, roots


def check_pairs(values, V, full, n):
    """Eigenvalues are those of NumPy, and eigenvectors are orthonormal and solve the equation."""
    wanted = np.linalg.eigvalsh(full)[::-1][:n]
    assert values.shape == (n,)
    assert V.shape == (len(full), n)
    assert (np.diff(values) <= 1e-12).all()
    np.testing.assert_allclose(values, wanted, atol=1e-6)  # the error of a value is the square of the residual
    np.testing.assert_allclose(V.T @ V, np.eye(n), atol=1e-10)
    assert np.linalg.norm(full @ V - V * values, axis=0).max() <= 1.01 * RESIDUAL


@pytest.mark.parametrize("tau", [0.0, 1e-3, 1e-1])
@pytest.mark.parametrize(("p", "n"), [(60, 5), (300, 20), (800, 60)])
def test_sparse_pairs_are_those_of_a_direct_solver(p, n, tau, engine):
    M, full, roots = normalised(affinity(p, 5, seed=p), tau)
    values, V = sparse_eigenpairs(M, n, roots, engine)
    check_pairs(values, V, full, n)
    assert values[0] == pytest.approx(1.0)
    assert abs(V[:, 0] @ roots / np.linalg.norm(roots)) == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=15)
@given(seed=SEEDS, p=st.integers(20, 150), K=st.integers(2, 6), n=st.integers(1, 15))
def test_sparse_pairs_of_random_graphs(seed, p, K, n, engine):
    M, full, roots = normalised(affinity(p, K, seed), 1e-3)
    check_pairs(*sparse_eigenpairs(M, n, roots, engine), full, n)


@pytest.mark.parametrize("n_blocks", [7, 60])
@pytest.mark.parametrize("tau", [0.0, 1e-3])
def test_repeated_eigenvalues_of_components_are_all_found(n_blocks, tau, engine):
    """Each component has an eigenvalue of one (nearly one if weak edges connect them)."""
    M, full, roots = normalised(blocks(n_blocks, 12, seed=1), tau)
    values, V = sparse_eigenpairs(M, n_blocks, roots, engine)
    check_pairs(values, V, full, n_blocks)
    assert values[-1] > 0.99
    if tau == 0:  # the indicators of the components, weighted by the roots of degrees, are in the span
        component = np.repeat(np.arange(n_blocks), 12)
        for c in range(n_blocks):
            indicator = np.where(component == c, roots, 0)
            indicator /= np.linalg.norm(indicator)
            assert np.linalg.norm(V.T @ indicator) == pytest.approx(1.0, abs=1e-6)


def test_more_components_than_vectors(engine):
    M, _, roots = normalised(blocks(90, 8, seed=2), 0.0)
    values, V = sparse_eigenpairs(M, 60, roots, engine)
    np.testing.assert_allclose(values, 1.0, atol=1e-6)
    np.testing.assert_allclose(V.T @ V, np.eye(60), atol=1e-10)


def test_all_pairs_of_a_small_matrix(engine):
    M, full, roots = normalised(affinity(15, 3, seed=0), 1e-3)
    check_pairs(*sparse_eigenpairs(M, 15, roots, engine), full, 15)


def test_sparse_pairs_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(eigenvectors, "ROWS_PER_TASK", 64)
    M, _, roots = normalised(affinity(700, 5, seed=3), 1e-3)
    found = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as threads:
            values, V = sparse_eigenpairs(M, 12, roots, threads)
            found.append((values.tobytes(), V.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_the_dense_matrix(dtype, engine):
    M, full, _ = normalised(affinity(200, 5, seed=4), 0.1)
    X = np.random.default_rng(0).standard_normal((200, 7)).astype(dtype)
    found = M.astype(dtype)(X, engine)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, full @ X, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-12)
    assert M(np.asfortranarray(X.astype(float)), engine).shape == (200, 7)


def test_the_filter_is_a_chebyshev_polynomial(engine):
    """On a diagonal matrix it is known: one at 1, at most as large as the growth allows on [0, cut]."""
    points = np.linspace(0, 1, 41)
    M = RegularizedMatrix(scipy.sparse.csr_array(np.diag(points)), np.zeros(41), 0.0).astype(np.float32)
    cut = 0.6
    found = np.diagonal(eigenvectors._filter(M, np.eye(41, dtype=np.float32), cut, engine))
    series = np.polynomial.Chebyshev.basis(eigenvectors.DEGREE)
    wanted = series(points / (cut / 2) - 1) / series(1 / (cut / 2) - 1)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


# Dense matrices


@pytest.mark.parametrize(("p", "n"), [(5, 5), (40, 12), (200, 20), (400, 60)])
def test_dense_pairs_are_those_of_a_direct_solver(p, n):
    full = normalised(affinity(p, 3, seed=5), 1e-3)[1]
    values, V = dense_eigenpairs(full, n)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(full)[::-1][:n], atol=1e-10)
    np.testing.assert_allclose(V.T @ V, np.eye(n), atol=1e-10)
    np.testing.assert_allclose(full @ V, V * values, atol=1e-6)


def test_dense_pairs_of_components():
    full = normalised(blocks(30, 10, seed=6), 0.0)[1]
    values, V = dense_eigenpairs(full, 30)
    np.testing.assert_allclose(values, 1.0, atol=1e-10)
    np.testing.assert_allclose(full @ V, V * values, atol=1e-6)
