"""Representative selection."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import FEW, MANY, SEEDS, points
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, SparseRows
from ultraspec.spectral import representatives
from ultraspec.spectral.representatives import count_representatives, select_representatives


def select(rows, p, selection, factor, rng, engine, metric="euclidean"):
    return select_representatives(rows, p, selection, factor, metric, rng, engine)


def rows_of(X):
    return set(map(tuple, np.asarray(X).tolist()))


@pytest.fixture
def lloyd_calls(monkeypatch):
    """What selection hands to k-means: rows, start, iterations."""
    calls = []
    lloyd = representatives.lloyd

    def spy(points, centers, engine, *, max_iter, **options):
        calls.append((points.take(np.arange(points.n_rows)), centers.copy(), max_iter))
        return lloyd(points, centers, engine, max_iter=max_iter, **options)

    monkeypatch.setattr(representatives, "lloyd", spy)
    return calls


@pytest.mark.parametrize(
    ("n_rows", "n_representatives", "n_clusters", "n_neighbors", "p"),
    [
        (10_000, 1000, 8, 5, 1000),
        (3000, 1000, 8, 5, 1000),
        (2999, 1000, 8, 5, 999),
        (150, 1000, 3, 5, 50),
        (12, 1000, 3, 5, 6),  # a third would be 4: K + 1 are needed
        (12, 1000, 9, 5, 10),
        (5, 1000, 3, 5, 5),  # no more than rows
        (1, 1000, 1, 5, 1),
        (10_000, 4, 4, 4, 4),  # the user's number is kept
        (10_000, 65_535, 8, 5, 3333),
    ],
)
def test_count(n_rows, n_representatives, n_clusters, n_neighbors, p):
    assert count_representatives(n_rows, n_representatives, n_clusters, n_neighbors) == p


@settings(max_examples=100)
@given(
    n=st.integers(1, 10**6),
    n_representatives=st.integers(1, 65_535),
    n_clusters=st.integers(1, 100),
    n_neighbors=st.integers(1, 100),
)
def test_count_bounds(n, n_representatives, n_clusters, n_neighbors):
    p = count_representatives(n, n_representatives, n_clusters, n_neighbors)
    assert 1 <= p <= min(n, n_representatives)
    assert p >= min(n, n_representatives, max(n_clusters, n_neighbors) + 1)
    assert p <= max(n // 3, n_clusters + 1, n_neighbors + 1)


@pytest.mark.parametrize("d", [3, 20])
def test_hybrid_is_kmeans_of_a_random_sample(d, engine, lloyd_calls):
    X = points("clumps", 2000, d, np.random.default_rng(0))
    R = select(ArrayRows(X), 30, "hybrid", 10, np.random.default_rng(1), engine)
    [(candidates, start, max_iter)] = lloyd_calls
    assert candidates.shape == (300, d)
    assert len(rows_of(candidates)) == 300  # without replacement
    assert rows_of(candidates) <= rows_of(X)
    assert start.shape == (30, d)
    assert len(rows_of(start)) == 30
    assert rows_of(start) <= rows_of(candidates)
    assert max_iter == 10
    assert R.shape == (30, d)
    assert R.dtype == np.float32
    assert R.flags.c_contiguous
    labels, path = oracle.kmeans(candidates, start, 10)
    np.testing.assert_allclose(R, oracle.cluster_means(candidates, labels, path[-1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factor", [1, 3, 10, 1000])
def test_hybrid_takes_so_many_candidates(factor, engine, lloyd_calls):
    X = points("normal", 500, 2, np.random.default_rng(0))
    select(ArrayRows(X), 20, "hybrid", factor, np.random.default_rng(0), engine)
    assert len(lloyd_calls[0][0]) == min(20 * factor, 500)


def test_kmeans_selection_clusters_all_rows(engine, lloyd_calls):
    X = points("clumps", 700, 4, np.random.default_rng(0))
    R = select(ArrayRows(X), 12, "kmeans", 10, np.random.default_rng(1), engine)
    [(rows, start, max_iter)] = lloyd_calls
    assert (rows == X).all()
    assert rows_of(start) <= rows_of(X)
    labels, path = oracle.kmeans(X, start, max_iter)
    np.testing.assert_allclose(R, oracle.cluster_means(X, labels, path[-1]), rtol=1e-4, atol=1e-4)


def test_random_selection_takes_rows(engine, lloyd_calls):
    X = points("normal", 300, 4, np.random.default_rng(0))
    R = select(ArrayRows(X), 25, "random", 10, np.random.default_rng(1), engine)
    assert not lloyd_calls
    assert R.shape == (25, 4)
    assert rows_of(R) <= rows_of(X)


@settings(max_examples=80)
@given(
    seed=SEEDS,
    d=FEW | MANY,
    kind=st.sampled_from(["normal", "grid", "twins", "outliers"]),
    selection=st.sampled_from(["hybrid", "random", "kmeans"]),
    n=st.integers(1, 150),
    sparse=st.booleans(),
    unit=st.booleans(),
)
def test_select(seed, d, kind, selection, n, sparse, unit, engine):
    random = np.random.default_rng(seed)
    X = points(kind, n, d, random)
    p = int(random.integers(1, n + 1))
    rows = SparseRows(scipy.sparse.csr_array(X)) if sparse else ArrayRows(X)
    R = select(rows, p, selection, 3, random, engine, "cosine" if unit else "euclidean")
    assert 1 <= len(R) <= p
    assert R.dtype == np.float32
    assert len(np.unique(R, axis=0)) == len(R)
    assert np.isfinite(R).all()
    if unit:
        lengths = np.linalg.norm(R.astype(float), axis=1)
        assert ((np.abs(lengths - 1) < 1e-5) | (lengths == 0)).all()
    else:
        slack = 1e-5 * np.abs(X).max()
        assert (X.min(axis=0) - slack <= R).all()
        assert (X.max(axis=0) + slack >= R).all()


@pytest.mark.parametrize("selection", ["hybrid", "random", "kmeans"])
def test_repeated_rows_give_one_representative(selection, engine):
    X = np.repeat(np.array([[0.0, 1.0], [-0.0, 1.0], [3.0, 4.0]], dtype=np.float32), 20, axis=0)
    R = select(ArrayRows(X), 10, selection, 10, np.random.default_rng(0), engine)
    assert sorted(map(tuple, R.tolist())) == [(0.0, 1.0), (3.0, 4.0)]


@pytest.mark.parametrize("selection", ["hybrid", "random", "kmeans"])
@pytest.mark.parametrize("d", [3, 20])
def test_same_for_the_same_seed_and_any_threads(selection, d):
    X = points("clumps", 5000, d, np.random.default_rng(0))
    results = []
    for n_jobs, seed in ((1, 3), (2, 3), (5, 3), (1, 4)):
        with ThreadEngine(n_jobs) as threads:
            R = select_representatives(
                ArrayRows(X), 60, selection, 10, "euclidean", np.random.default_rng(seed), threads
            )
            results.append(R.tobytes())
    assert results[0] == results[1] == results[2] != results[3]


@pytest.mark.parametrize("selection", ["hybrid", "random", "kmeans"])
def test_sparse_rows_are_dense_rows(selection, engine):
    X = points("grid", 400, 12, np.random.default_rng(0))
    dense = select(ArrayRows(X), 15, selection, 5, np.random.default_rng(1), engine)
    sparse = select_representatives(
        SparseRows(scipy.sparse.csr_array(X)), 15, selection, 5, "euclidean", np.random.default_rng(1), engine
    )
    np.testing.assert_allclose(dense, sparse, atol=1e-5)


def test_an_outlier_may_become_a_representative_of_its_own(engine):
    X = points("normal", 200, 2, np.random.default_rng(0))
    X[17] = 1e6
    R = select(ArrayRows(X), 20, "kmeans", 10, np.random.default_rng(0), engine)
    assert (R == 1e6).all(axis=1).sum() == 1
    assert np.abs(R[(R != 1e6).all(axis=1)]).max() < 10


# Many representatives: two levels of k-means


@pytest.fixture
def two_levels(monkeypatch):
    monkeypatch.setattr(representatives, "TWO_LEVEL_REPRESENTATIVES", 50)


@pytest.mark.parametrize("kind", ["normal", "clumps", "grid", "outliers"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_two_levels_give_about_as_many_distinct_points(kind, metric, engine, two_levels):
    X = points(kind, 4000, 12, np.random.default_rng(0))
    R = select(ArrayRows(X), 200, "hybrid", 10, np.random.default_rng(1), engine, metric)
    assert R.dtype == np.float32
    assert R.flags.c_contiguous
    assert len(rows_of(R)) == len(R)
    assert 190 <= len(R) <= 200 + 14  # each of sqrt(200) groups gets one at least
    if metric == "cosine":
        np.testing.assert_allclose(np.linalg.norm(R, axis=1), 1, rtol=1e-5)
    else:
        assert (X.min(axis=0) - 1e-5 <= R).all()
        assert (X.max(axis=0) + 1e-5 >= R).all()


def test_two_levels_do_not_depend_on_threads(two_levels):
    X = points("clumps", 5000, 12, np.random.default_rng(0))
    results = []
    for n_jobs, seed in ((1, 3), (2, 3), (5, 3), (1, 4)):
        with ThreadEngine(n_jobs) as threads:
            rng = np.random.default_rng(seed)
            results.append(select_representatives(ArrayRows(X), 150, "hybrid", 10, "euclidean", rng, threads).tobytes())
    assert results[0] == results[1] == results[2] != results[3]


def test_two_levels_run_kmeans_in_each_group(engine, two_levels, lloyd_calls):
    X = points("normal", 3000, 3, np.random.default_rng(0))
    R = select(ArrayRows(X), 100, "hybrid", 10, np.random.default_rng(0), engine)
    (candidates, start, _), *groups = lloyd_calls
    assert candidates.shape == (1000, 3)
    assert start.shape == (10, 3)
    assert len(groups) == 10
    assert rows_of(np.concatenate([rows for rows, _, _ in groups])) == rows_of(candidates)
    assert sum(len(rows) for rows, _, _ in groups) == 1000
    for rows, centers, _ in groups:  # in proportion to the rows
        assert abs(len(centers) - len(rows) / 10) <= 1
    assert len(R) == 100


def test_two_levels_are_nearly_as_good_as_one(engine, monkeypatch):
    X = points("clumps", 5000, 6, np.random.default_rng(0))
    errors = []
    for least in (1000, 10):
        monkeypatch.setattr(representatives, "TWO_LEVEL_REPRESENTATIVES", least)
        R = select(ArrayRows(X), 100, "hybrid", 10, np.random.default_rng(0), engine)
        errors.append(oracle.squared_distances(X, R).min(axis=1).mean())
    assert errors[1] < 1.2 * errors[0]


def test_one_level_serves_sparse_rows_and_other_selections(engine, two_levels, lloyd_calls):
    X = points("normal", 900, 4, np.random.default_rng(0))
    select(SparseRows(scipy.sparse.csr_array(X)), 60, "hybrid", 10, np.random.default_rng(0), engine)
    select(ArrayRows(X), 60, "kmeans", 10, np.random.default_rng(0), engine)
    assert len(lloyd_calls) == 2


@given(counts=st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any), total=st.integers(1, 60))
def test_whole_shares(counts, total):
    counts = np.array(counts, dtype=np.float64)
    total = min(total, int(counts.sum()))
    shares = representatives._whole_shares(counts, counts.astype(np.int64), total)
    assert ((shares >= 1) == (counts > 0)).all()
    assert (shares <= counts).all()
    assert shares.sum() <= total + (counts > 0).sum()
    exact = counts / counts.sum() * total
    roomy = (counts > 0) & (exact >= 1)
    assert (np.abs(shares - exact)[roomy] <= 1).all()


def test_ids_of_two_levels_are_numbered_by_two_bytes(engine, two_levels, monkeypatch):
    """Groups of one row each would make more representatives than the largest id."""
    monkeypatch.setattr(representatives, "MOST_REPRESENTATIVES", 100)
    X = points("outliers", 1000, 3, np.random.default_rng(0))
    R = select(ArrayRows(X), 100, "hybrid", 10, np.random.default_rng(0), engine)
    assert 80 <= len(R) <= 100
