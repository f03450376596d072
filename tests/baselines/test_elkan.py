"""k-means with bounds gives what plain Lloyd gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ultraspec import open_rows
from ultraspec.baselines import _elkan
from ultraspec.baselines._elkan import elkan_is_faster, elkan_kmeans
from ultraspec.baselines._kmeans import WeightedPoints, lite_kmeans
from ultraspec.cluster.kmeans import lloyd
from ultraspec.cluster.points import RowPoints
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows


def rows_of(seed, n=3000, d=20, k=12, spread=1.0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((k, d))[random.integers(k, size=n)] + spread * random.standard_normal((n, d))
    return X.astype(np.float32)


def same(found, plain, *, ties=False):
    """Compare results; with `ties`, few rows may differ: processors round products of float32 differently."""
    if ties and (found.labels != plain.labels).any():
        assert (found.labels != plain.labels).mean() < 0.003
        assert found.inertia == pytest.approx(plain.inertia, rel=1e-4)
        return
    np.testing.assert_array_equal(found.labels, plain.labels)
    np.testing.assert_allclose(found.counts, plain.counts, rtol=1e-12)
    np.testing.assert_allclose(found.centers, plain.centers, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.means, plain.means, rtol=1e-5, atol=1e-6)
    assert found.inertia == pytest.approx(plain.inertia, rel=1e-5)
    assert found.n_iter == plain.n_iter


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
def test_equals_lloyd(seed, spread, engine):
    X = rows_of(seed, spread=spread)
    start = X[np.random.default_rng(seed).choice(len(X), 30, replace=False)]
    for max_iter in (1, 2, 100):
        same(
            elkan_kmeans(RowPoints(ArrayRows(X)), start, engine, max_iter=max_iter),
            lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=max_iter),
            ties=True,
        )


@pytest.mark.parametrize("seed", range(5))
def test_equals_lloyd_with_weights(seed, engine):
    X = rows_of(seed)
    weights = np.random.default_rng(seed).uniform(0.1, 5.0, len(X))
    found = elkan_kmeans(WeightedPoints(ArrayRows(X), weights), X[:25], engine, max_iter=100)
    plain = lloyd(WeightedPoints(ArrayRows(X), weights), X[:25], engine, max_iter=100)
    assert (found.labels == plain.labels).mean() > 0.99  # the plain one rounds more: near ties go either way
    assert found.inertia == pytest.approx(plain.inertia, rel=1e-3)
    np.testing.assert_allclose(found.counts, np.bincount(found.labels, weights, minlength=25))
    for c in range(25):
        own = found.labels == c
        np.testing.assert_allclose(found.means[c], np.average(X[own], axis=0, weights=weights[own]), atol=1e-5)


def test_far_from_the_origin(engine):
    X = rows_of(0, spread=0.3) + np.float32(50)
    same(
        elkan_kmeans(RowPoints(ArrayRows(X)), X[:20], engine, max_iter=100),
        lloyd(RowPoints(ArrayRows(X)), X[:20], engine, max_iter=100),
    )


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60),
    d=st.integers(1, 12),
    k=st.integers(1, 15),
    values=st.integers(1, 4),
    max_iter=st.integers(1, 30),
    seed=st.integers(0, 10_000),
)
def test_few_distinct_rows(n, d, k, values, max_iter, seed):
    """Whole numbers: many copies, ties and clusters that lose all rows."""
    random = np.random.default_rng(seed)
    X = random.integers(values, size=(n, d)).astype(np.float32)
    start = X[random.integers(n, size=min(k, n))]
    with ThreadEngine(1) as engine:
        found = elkan_kmeans(RowPoints(ArrayRows(X)), start, engine, max_iter=max_iter)
    sq = ((X[:, None] - found.centers[None]) ** 2).sum(axis=2)
    own = sq[np.arange(n), found.labels]
    np.testing.assert_allclose(own, sq.min(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found.counts, np.bincount(found.labels, minlength=len(start)))
    assert found.inertia == pytest.approx(own.sum(), rel=1e-4, abs=1e-4)
    for c in np.flatnonzero(found.counts):
        np.testing.assert_allclose(found.means[c], X[found.labels == c].mean(axis=0), rtol=1e-5, atol=1e-5)


def test_a_lost_cluster_starts_anew(engine):
    X = rows_of(1)
    start = X[:10].copy()
    start[3] = 1e3  # nothing is near to it
    found = elkan_kmeans(RowPoints(ArrayRows(X)), start, engine, max_iter=50)
    assert (found.counts > 0).all()
    same(found, lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=50))


def test_same_for_any_number_of_threads():
    X = rows_of(2, n=40_000)
    found = []
    for n_jobs in (1, 3):
        with ThreadEngine(n_jobs) as engine:
            found.append(elkan_kmeans(RowPoints(ArrayRows(X)), X[:30], engine, max_iter=40))
    np.testing.assert_array_equal(found[0].labels, found[1].labels)
    np.testing.assert_array_equal(found[0].means, found[1].means)


def test_most_rows_are_not_read_again(engine, monkeypatch):
    X = rows_of(3, n=20_000, spread=0.5)
    measured = []
    settle = _elkan.kernels.assign_rows
    monkeypatch.setattr(
        _elkan.kernels, "assign_rows", lambda X, rows, *rest: (measured.append(len(rows)), settle(X, rows, *rest))[1]
    )
    found = elkan_kmeans(RowPoints(ArrayRows(X)), X[:30], engine, max_iter=100)
    assert found.n_iter > 10
    assert sum(measured) < 0.4 * len(X) * found.n_iter


def test_where_bounds_pay():
    wide = ArrayRows(np.zeros((1000, 20), dtype=np.float32))
    assert elkan_is_faster(wide, 40, 100)
    assert not elkan_is_faster(wide, 40, 5)
    assert not elkan_is_faster(wide, 2**17, 100)
    assert not elkan_is_faster(ArrayRows(np.zeros((1000, 2), dtype=np.float32)), 40, 100)


def test_rows_from_a_file(tmp_path, engine):
    X = rows_of(4)
    np.save(tmp_path / "rows.npy", X)
    args = {"max_iter": 100, "engine": engine}
    from_memory = lite_kmeans(ArrayRows(X), 20, random=np.random.default_rng(0), **args)
    from_file = lite_kmeans(open_rows(tmp_path / "rows.npy"), 20, random=np.random.default_rng(0), **args)
    np.testing.assert_array_equal(from_memory.labels, from_file.labels)
