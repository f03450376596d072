"""The paper's k-means, plain and weighted, against a literal one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.cases import KINDS, points
from tests.helpers.common import blobs, same_partition
from ultraspec import metrics
from ultraspec.baselines import KMeansLite, _kmeans
from ultraspec.baselines._kmeans import WeightedPoints, draw_indices, lite_kmeans
from ultraspec.cluster.kmeans import lloyd
from ultraspec.cluster.points import RowPoints
from ultraspec.rows import ArrayRows, SparseRows


def lite_labels(X, centers, max_iter):
    """Assign and average until labels repeat."""
    labels = None
    for _ in range(max_iter):
        before, labels = labels, ((X[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        if before is not None and (before == labels).all():
            break
        centers = np.array([X[labels == c].mean(axis=0) for c in range(len(centers))])
    return labels


@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("max_iter", [1, 3, 100])
@pytest.mark.parametrize("seed", range(3))
def test_against_a_literal_one(d, max_iter, seed):
    X = np.random.default_rng(seed).normal(size=(800, d)).astype(np.float32)
    start = draw_indices(800, 6, np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1]))
    model = KMeansLite(6, max_iter=max_iter, random_state=seed).fit(X)
    assert (
        metrics.hungarian_accuracy(lite_labels(X.astype(float), X[start].astype(float), max_iter), model.labels_)
        > 0.998
    )
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    own = model.cluster_centers_[model.labels_]
    assert model.inertia_ == pytest.approx(((X - own) ** 2).sum(), rel=1e-5)
    assert model.n_iter_ <= max_iter


def test_more_starts_are_no_worse(engine):
    rows = ArrayRows(np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32))
    few, many = (lite_kmeans(rows, 9, n_init=n, random=np.random.default_rng(0), engine=engine).inertia for n in (1, 8))
    assert many < few


def test_starts_of_many_rows_are_compared_on_a_sample(engine, monkeypatch):
    X, y = blobs(n=3000)
    X = X.astype(np.float32)
    monkeypatch.setattr(_kmeans, "MANY_ROWS", 2000)
    monkeypatch.setattr(_kmeans, "SAMPLE_ROWS", 500)
    for many in (ArrayRows(X), WeightedPoints(ArrayRows(X), np.ones(3000))):
        found = lite_kmeans(many, 4, n_init=8, random=np.random.default_rng(0), engine=engine)
        assert same_partition(found.labels, y)
        assert found.counts.sum() == 3000


def test_starts_are_uniform_and_distinct():
    random = np.random.default_rng(0)
    drawn = np.array([draw_indices(20, 7, random) for _ in range(2000)])
    assert (np.diff(drawn, axis=1) > 0).all()
    assert np.abs(np.bincount(drawn.ravel()) / 2000 - 7 / 20).max() < 0.05
    assert draw_indices(3, 7, random).tolist() == [0, 1, 2]


@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(2, 60),
    d=st.integers(1, 12),
    k=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_weights_are_copies(engine, kind, n, d, k, seed):
    random = np.random.default_rng(seed)
    X, weights = points(kind, n, d, random), random.integers(1, 4, n)
    k = min(k, n)
    start = X[:k]
    copies = RowPoints(ArrayRows(np.repeat(X, weights, axis=0)))
    expected = lloyd(copies, start.copy(), engine, max_iter=1)
    for rows in (ArrayRows(X), SparseRows(scipy.sparse.csr_array(X))):
        found = lloyd(WeightedPoints(rows, weights), start.copy(), engine, max_iter=1)
        scale = float((X.astype(float) ** 2).sum()) + 1
        assert found.inertia == pytest.approx(expected.inertia, rel=1e-3, abs=1e-5 * scale)
        assert found.counts.sum() == weights.sum()
        sums = np.array([(weights[found.labels == c, None] * X[found.labels == c]).sum(axis=0) for c in range(k)])
        expected_means = np.where(found.counts[:, None] > 0, sums / np.maximum(found.counts, 1)[:, None], start)
        np.testing.assert_allclose(found.means, expected_means, rtol=1e-4, atol=1e-6 * np.abs(X).max(initial=1))


def test_weights_move_the_centres(engine):
    X, y = blobs(n=400, k=2)
    X = X.astype(np.float32)
    weights = np.where(y == 0, 1000.0, 1.0)
    found = lite_kmeans(WeightedPoints(ArrayRows(X), weights), 1, random=np.random.default_rng(0), engine=engine)
    np.testing.assert_allclose(found.means[0], X[y == 0].mean(axis=0), atol=0.1)
