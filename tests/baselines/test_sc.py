"""SC and the steps it shares with others, against full N x N matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.cases import KINDS, points
from tests.helpers.common import blobs, same_partition
from tests.helpers.graphs import distances, full_graph
from ultraspec.baselines import SC, _neighbor_graph
from ultraspec.baselines._kmeans import orthogonal_kmeans, orthogonal_start, unit_rows
from ultraspec.baselines._neighbor_graph import nearest_neighbors, neighbor_graph
from ultraspec.baselines.sc import leading_eigenvectors
from ultraspec.rows import ArrayRows, SparseRows


def full_vectors(W, k):
    """The embedding by a dense eigensolver."""
    scale = 1 / np.sqrt(W.sum(axis=1) + 1e-10)
    return scipy.linalg.eigh(scale[:, None] * W * scale)[1][:, ::-1][:, :k]


def orthogonal_labels(U, k, first, random):
    """Chen et al.'s k-means, step by step."""
    chosen, sums = [first], np.zeros(len(U))
    while len(chosen) < k:
        sums += np.abs(U @ U[chosen[-1]])
        sums[chosen[-1]] = np.inf
        chosen.append(int(sums.argmin()))
    centers, before = U[chosen], None
    while True:
        sq = ((U[:, None] - centers[None]) ** 2).sum(axis=2)
        labels, total = sq.argmin(axis=1), sq.min(axis=1).sum()
        if before is not None and abs(before - total) <= 1e-3 * before:
            return labels
        before = total
        for c in range(k):
            members = labels == c
            centers[c] = U[members].mean(axis=0) if members.any() else U[random.integers(len(U))]


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("seed", range(3))
def test_against_the_definition(d, seed):
    X = np.random.default_rng(seed).normal(size=(300, d)) + 3 * (np.arange(300) % 4)[:, None]
    W, sigma = full_graph(X, 10)
    random = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])
    expected = orthogonal_labels(unit_rows(full_vectors(W, 4)).astype(float), 4, int(random.integers(300)), random)
    model = SC(4, n_neighbors=10, random_state=seed).fit(X)
    assert same_partition(model.labels_, expected)
    assert model.sigma_ == pytest.approx(sigma)


@settings(max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(2, 120),
    d=st.integers(1, 120),
    K=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_neighbors_of_any_shape(engine, kind, n, d, K, seed):
    X = points(kind, n, d, np.random.default_rng(seed))
    K = min(K, n - 1)
    D = distances(X)
    np.fill_diagonal(D, np.inf)
    expected = np.sort(D, axis=1)[:, :K]
    for rows in (ArrayRows(X), SparseRows(scipy.sparse.csr_array(X))):
        ids, sq = nearest_neighbors(rows, K, "SC", engine)
        assert (ids != np.arange(n)[:, None]).all()
        assert all(len(set(row)) == K for row in ids.tolist())
        sizes = np.abs(X).max(initial=1.0) * (1e-5 if not rows.sparse else 1e-6)
        np.testing.assert_allclose(np.sqrt(sq), expected, rtol=1e-5, atol=sizes)
        np.testing.assert_allclose(np.take_along_axis(D, ids, axis=1), expected, rtol=1e-5, atol=sizes)


@pytest.mark.parametrize("d", [3, 40, 150])
def test_neighbors_across_blocks(engine, monkeypatch, d):
    monkeypatch.setattr(_neighbor_graph, "ROWS", 100)
    monkeypatch.setattr(_neighbor_graph, "OTHERS", 130)
    random = np.random.default_rng(0)
    X = (random.normal(size=(700, 5)) @ random.normal(size=(5, d))).astype(np.float32)  # projected rule most out
    X[500:] = X[:200]
    D = distances(X)
    np.fill_diagonal(D, np.inf)
    ids, sq = nearest_neighbors(ArrayRows(X), 5, "SC", engine)
    np.testing.assert_allclose(np.sqrt(sq), np.sort(D, axis=1)[:, :5], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(D, ids, axis=1), np.sqrt(sq), rtol=1e-4, atol=1e-5)


def test_more_copies_than_neighbors(engine):
    X = np.repeat(np.arange(3, dtype=np.float32)[:, None] * np.ones(2, np.float32), 20, axis=0)
    for rows in (X, np.tile(X, 6)):
        ids, sq = nearest_neighbors(ArrayRows(rows), 4, "SC", engine)
        assert (sq == 0).all()
        assert (ids // 20 == np.repeat([0, 1, 2], 20)[:, None]).all()
        assert (ids != np.arange(60)[:, None]).all()


def test_graph(engine):
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    W, sigma = neighbor_graph(ArrayRows(X), 5, "SC", engine)
    expected, expected_sigma = full_graph(X, 5)
    np.testing.assert_allclose(W.toarray(), expected, rtol=1e-5)
    assert sigma == pytest.approx(expected_sigma)
    assert neighbor_graph(ArrayRows(np.ones((4, 2), np.float32)), 2, "SC", engine)[1] == 1.0


def disconnected_graph(sizes, seed=0):
    random = np.random.default_rng(seed)
    blocks = []
    for size in sizes:
        chain = scipy.sparse.diags_array([np.ones(size - 1)], offsets=[1]).toarray() if size > 1 else np.zeros((1, 1))
        block = chain + (random.random((size, size)) < 0.2) * random.random((size, size))
        blocks.append(np.triu(block, 1) + np.triu(block, 1).T)
    order = random.permutation(sum(sizes))
    return scipy.linalg.block_diag(*blocks)[np.ix_(order, order)]


@pytest.mark.parametrize("sizes", [(60,), (50, 9), (700, 5, 5), (800,), (40, 30, 2, 1)])
def test_eigenvectors_of_disconnected_graphs(sizes):
    W = disconnected_graph(sizes)
    V, found = leading_eigenvectors(scipy.sparse.csr_array(W), 6, np.random.default_rng(0))
    assert found.tolist() == sorted(sizes, reverse=True)
    np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-6)
    scale = 1 / np.sqrt(W.sum(axis=1) + 1e-10)
    values = np.linalg.eigvalsh(scale[:, None] * W * scale)[::-1][:6]
    if 1 not in sizes:  # a row without neighbours is a component, too, but its eigenvalue is zero
        np.testing.assert_allclose(np.sort(np.diag(V.T @ (scale[:, None] * W * scale) @ V))[::-1], values, atol=1e-6)


def test_more_components_than_clusters_are_warned_of():
    X, _ = blobs(k=6)
    with pytest.warns(UserWarning, match="has 6 connected components, more than n_clusters=4"):
        model = SC(4, n_neighbors=60, random_state=0).fit(X)
    assert model.n_clusters_ == 4
    V, _ = leading_eigenvectors(scipy.sparse.csr_array(disconnected_graph((9, 7, 5, 3))), 2, np.random.default_rng(0))
    assert sorted((V != 0).sum(axis=0)) == [7, 9]


@given(n=st.integers(1, 40), k=st.integers(1, 8), copies=st.integers(1, 3), seed=st.integers(0, 99))
def test_orthogonal_start(engine, n, k, copies, seed):
    U = unit_rows(np.random.default_rng(seed).normal(size=(n, 3)))
    start = orthogonal_start(np.tile(U, (copies, 1)), k, np.random.default_rng(seed), engine)
    assert len(start) == len(np.unique(start, axis=0)) == min(n, k)
    sums = np.zeros(n)
    for last, chosen in itertools.pairwise(start):
        sums += np.abs(U.astype(float) @ last)
        sums[(last == U).all(axis=1)] = np.inf
        assert sums[(chosen == U).all(axis=1)].min() <= sums.min() + 1e-5


def test_orthogonal_kmeans_ends_early(engine):
    U = unit_rows(np.random.default_rng(0).normal(size=(2000, 6)))
    found = orthogonal_kmeans(U, 8, random=np.random.default_rng(1), engine=engine)
    random = np.random.default_rng(1)
    expected = orthogonal_labels(U.astype(float), 8, int(random.integers(len(U))), random)
    assert (found.labels == expected).mean() > 0.999
    assert 1 < found.n_iter < 100
