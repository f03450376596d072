"""The eigensolver that lets other threads run."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from ultraspec._kernels import lapack
from ultraspec._kernels.lapack import largest_eigenpairs


def symmetric(n, dtype, seed, rank=None):
    random = np.random.default_rng(seed)
    A = random.normal(size=(n, n if rank is None else rank))
    return (A @ A.T / n).astype(dtype)


@settings(max_examples=60)
@given(
    n=st.integers(1, 60),
    share=st.floats(0, 1),
    kind=st.sampled_from([np.float32, np.float64]),
    rank=st.none() | st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_gives_what_scipy_gives(n, share, kind, rank, seed):
    k = max(1, round(share * n))
    A = symmetric(n, kind, seed, rank)
    before = A.copy()
    values, vectors = largest_eigenpairs(A, k)
    np.testing.assert_array_equal(A, before)
    assert values.dtype == vectors.dtype == kind
    assert vectors.shape == (n, k)
    tolerance = 200 * np.finfo(kind).eps * max(1, np.abs(A).max())
    np.testing.assert_allclose(values, scipy.linalg.eigh(A, eigvals_only=True)[-k:], atol=10 * tolerance)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=10 * tolerance)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=10 * tolerance)


def test_repeated_eigenvalues():
    values, vectors = largest_eigenpairs(np.kron(np.eye(5), np.ones((4, 4))), 7)
    np.testing.assert_allclose(values, [0, 0, 4, 4, 4, 4, 4], atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(7), atol=1e-12)


@pytest.mark.parametrize("kind", ["f", "d"])
def test_where_scipy_has_other_integers_its_own_wrapper_is_used(monkeypatch, kind):
    A = symmetric(30, kind, 0)
    expected = largest_eigenpairs(A, 4)
    monkeypatch.setattr(lapack, "_syevr", lambda kind: None)
    found = largest_eigenpairs(A, 4)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    np.testing.assert_allclose(np.abs(found[1]), np.abs(expected[1]), atol=1e-3)


def test_other_threads_run_meanwhile():
    """While one thread is in LAPACK, another counts on."""
    A = symmetric(700, np.float64, 0)
    largest_eigenpairs(A, 3)
    counts, over = [0], threading.Event()

    def count():
        while not over.is_set():
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counts[0]
    for _ in range(5):
        largest_eigenpairs(A, 3)
    grown = counts[0] - before
    over.set()
    thread.join()
    assert grown > 1000
