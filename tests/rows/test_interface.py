"""Row sources."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS
from ultraspec.rows import ArrayRows, Rows, SparseRows, interface, sample_indices
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor


class Shape(Rows):
    """A source without rows: blocks depend on the shape alone."""

    def __init__(self, n_rows, n_features):
        self.n_rows, self.n_features = n_rows, n_features

    def read(self, start, stop):
        raise NotImplementedError

    take = read


def sources(X):
    """The same rows behind every class."""
    space = Preprocessor("euclidean", np.zeros(X.shape[1]), 1.0)
    matrix = scipy.sparse.csr_array(X)
    plain = [ArrayRows(X), ArrayRows(np.asfortranarray(X)), SparseRows(matrix), SparseRows(scipy.sparse.csr_matrix(X))]
    return [*plain, *(PreparedRows(rows, space) for rows in plain)]


def dense(block):
    return block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)


# Blocks


@settings(max_examples=200)
@given(n=st.integers(1, 10**6) | st.integers(1, 5000), d=st.integers(1, 20_000))
def test_blocks_cover_all_rows_in_order(n, d):
    rows = Shape(n, d)
    starts, stops = np.array(rows.blocks()).T
    assert starts[0] == 0
    assert stops[-1] == n
    assert (starts[1:] == stops[:-1]).all()
    assert (stops > starts).all()
    sizes = stops - starts
    assert (sizes[:-1] == rows.block_rows).all()
    least = interface.LEAST_BLOCK_ROWS[0]  # smaller in tests
    assert least <= rows.block_rows <= 65536
    assert rows.block_rows == least or rows.block_rows * d <= 2**20


def test_small_data_is_shared_between_threads():
    assert len(Shape(16 * 1000, 2).blocks()) == 16
    assert len(Shape(10**7, 2).blocks()) > 16


@pytest.mark.parametrize("n", [1, 300, 1024, 1025, 50_000, 10**6])
def test_sparse_blocks_are_small(n):
    rows = SparseRows(scipy.sparse.csr_array((n, 5)))
    assert rows.block_rows <= 1024
    assert rows.blocks()[-1][1] == n
    assert PreparedRows(rows, Preprocessor("euclidean", np.zeros(5), 1.0)).blocks() == rows.blocks()


@settings(max_examples=60)
@given(seed=SEEDS, n=st.integers(1, 1500), d=st.integers(1, 12))
def test_reading_and_taking(seed, n, d):
    random = np.random.default_rng(seed)
    X = np.where(random.random((n, d)) < 0.5, random.standard_normal((n, d)), 0).astype(np.float32)
    some = np.flatnonzero(random.random(n) < 0.3)
    for rows in sources(X):
        assert (rows.n_rows, rows.n_features) == X.shape
        assert (np.concatenate([dense(rows.read(*span)) for span in rows.blocks()]) == X).all()
        assert (dense(rows.take(some)) == X[some]).all()


def test_blocks_of_an_array_are_views(tmp_path):
    X = np.arange(600.0).reshape(200, 3)
    assert np.shares_memory(ArrayRows(X).read(10, 20), X)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    rows = ArrayRows(mapped)
    assert np.shares_memory(rows.read(10, 20), mapped)
    assert (rows.read(10, 20) == X[10:20]).all()
    assert not isinstance(rows.take(np.array([3, 5])), np.memmap)
    assert (rows.take(np.array([3, 5])) == X[[3, 5]]).all()


# Samples


@settings(max_examples=200)
@given(seed=SEEDS, n=st.integers(1, 10**9) | st.integers(1, 300), size=st.integers(1, 400))
def test_sample_indices(seed, n, size):
    indices = sample_indices(n, size, np.random.default_rng(seed))
    assert len(indices) == min(n, size)
    assert (np.diff(indices) > 0).all()
    assert indices[0] >= 0
    assert indices[-1] < n
    if size >= n:
        assert (indices == np.arange(n)).all()
    else:  # one of each stretch
        assert (indices * size // n - np.arange(size) <= 0).all()
        assert ((indices + 1) * size // n - np.arange(size) >= 0).all()


def test_every_row_is_as_likely():
    random = np.random.default_rng(0)
    for n, size in ((10, 5), (12, 3), (7, 3), (50, 49)):
        counts = np.zeros(n)
        for _ in range(4000):
            counts[sample_indices(n, size, random)] += 1
        lengths = np.diff(np.arange(size + 1) * n // size)
        np.testing.assert_allclose(counts / 4000, np.repeat(1 / lengths, lengths), atol=0.05)


def test_samples_repeat_with_the_seed_and_differ_without():
    first, again, other = (sample_indices(10**6, 100, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
