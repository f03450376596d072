"""k-means over row blocks: every form of assignment against plain Lloyd from the same start."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import FEW, MANY, SEEDS, points, sparse_points, uneven_groups
from ultraspec.cluster.kmeans import lloyd, random_centers, spread_centers
from ultraspec.cluster.points import FEW_FEATURES, RowPoints
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, SparseRows


def margin(X, path):
    """How clear the nearest centre is: the least lead over the second on the way, as a share of |x|^2 + |c|^2."""
    least = np.inf
    for centers in path if len(path[0]) > 1 else []:
        nearest = np.sort(oracle.squared_distances(X, centers), axis=1)
        sizes = (X.astype(float) ** 2).sum(axis=1) + (centers**2).sum(axis=1).max()
        least = min(least, ((nearest[:, 1] - nearest[:, 0]) / sizes).min())
    return least


def check_clustering(found, X, k):
    """What a result says of itself holds."""
    assert found.labels.dtype == np.int32
    assert found.centers.dtype == found.means.dtype == np.float32
    assert (found.counts == np.bincount(found.labels, minlength=k)).all()
    atol = 1e-6 * np.abs(X).max()
    np.testing.assert_allclose(found.means, oracle.cluster_means(X, found.labels, found.centers), rtol=1e-5, atol=atol)
    sq = oracle.squared_distances(X, found.centers)
    own = sq[np.arange(len(X)), found.labels]
    sizes = (X.astype(float) ** 2).sum(axis=1) + (found.centers.astype(float) ** 2).sum(axis=1).max()
    assert (own <= sq.min(axis=1) + 1e-6 * sizes).all()
    assert found.inertia == pytest.approx(own.sum(), rel=1e-4, abs=1e-5 * (X.astype(float) ** 2).sum())


@st.composite
def starts(draw, features=FEW | MANY, kinds=("normal", "clumps", "outliers")):
    """Rows and k of them as centres."""
    n = draw(st.integers(2, 400))
    k = draw(st.integers(1, min(n, 12)))
    random = np.random.default_rng(draw(SEEDS))
    X = points(draw(st.sampled_from(kinds)), n, draw(features), random)
    return X, X[random.permutation(n)[:k]]


def check_lloyd(rows, X, centers, max_iter, engine):
    labels, path = oracle.kmeans(X, centers, max_iter)
    assume(all(len(set(oracle.assign(X, c))) == len(c) for c in path))  # nothing to refill
    assume(margin(X, path) > 3e-6)
    found = lloyd(RowPoints(rows), centers, engine, max_iter=max_iter)
    check_clustering(found, X, len(centers))
    assert (found.labels == labels).all()
    np.testing.assert_allclose(found.centers, path[-1], rtol=1e-4, atol=1e-5 * np.abs(X).max())
    assert found.n_iter <= len(path)


# Lloyd


@settings(max_examples=200)
@given(start=starts(), max_iter=st.sampled_from([1, 2, 5, 60]))
def test_lloyd_is_plain_lloyd(start, max_iter, engine):
    X, centers = start
    check_lloyd(ArrayRows(X), X, centers, max_iter, engine)


@settings(max_examples=60)
@given(start=starts(kinds=("normal",)), max_iter=st.sampled_from([1, 3, 60]), seed=SEEDS)
def test_lloyd_on_sparse_rows(start, max_iter, seed, engine):
    X, matrix = sparse_points(start[0], np.random.default_rng(seed))
    centers = np.unique(X, axis=0)[: len(start[1])]
    check_lloyd(SparseRows(matrix), X, centers, max_iter, engine)


@settings(max_examples=60)
@given(seed=SEEDS, d=MANY | st.just(300))
def test_lloyd_where_some_centers_rest(seed, d, engine):
    """Groups that settle at different times: rows of resting centres meet the moved ones alone."""
    X, centers = uneven_groups(d, seed)
    check_lloyd(ArrayRows(X), X, centers, 100, engine)


def test_lloyd_in_groups_far_apart(engine):
    """With up to 8 features distances are direct and this holds; one more feature should not change that."""
    random = np.random.default_rng(0)
    X = random.standard_normal((1000, 9)) + 1e4 * (np.arange(1000) % 2)[:, None]
    X = (X - np.median(X, axis=0)).astype(np.float32)
    centers = X[:20].copy()
    _, path = oracle.kmeans(X, centers, 10)
    found = lloyd(RowPoints(ArrayRows(X)), centers, engine, max_iter=10)
    best = oracle.squared_distances(X, path[-1]).min(axis=1).sum()
    assert oracle.squared_distances(X, found.centers).min(axis=1).sum() == pytest.approx(best, rel=0.02)
    assert found.inertia == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("d", [2, 15])
def test_blocks_and_threads_do_not_matter(d):
    random = np.random.default_rng(0)
    X, matrix = sparse_points(points("normal", 5000, d, random), random, density=0.8)
    for rows in (ArrayRows(X), SparseRows(matrix)):
        assert len(rows.blocks()) > 4
        results = []
        for n_jobs in (1, 2, 5):
            with ThreadEngine(n_jobs) as threads:
                found = lloyd(RowPoints(rows), X[10:22].copy(), threads, max_iter=12)
            arrays = found.labels, found.centers, found.means, found.counts
            results.append(([a.tobytes() for a in arrays], found.inertia, found.n_iter))
        assert results[0] == results[1] == results[2]
        check_clustering(found, X, 12)


def test_the_start_is_left_alone(engine):
    X = points("normal", 100, 3, np.random.default_rng(0))
    start = X[:5].copy()
    before = start.copy()
    lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=5)
    assert (start == before).all()


def test_max_iter_is_the_number_of_passes(engine):
    X = points("normal", 300, 3, np.random.default_rng(0))
    for max_iter in (1, 2, 4):
        assert lloyd(RowPoints(ArrayRows(X)), X[:6].copy(), engine, max_iter=max_iter).n_iter == max_iter


def test_tol_stops_when_the_next_step_gains_too_little(engine):
    X = points("normal", 500, 2, np.random.default_rng(0))
    start = X[:6].copy()
    full = lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=200)
    assert full.n_iter > 10
    assert lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=200, tol=1.0).n_iter == 1
    for tol in (1e-1, 1e-2, 1e-3):
        found = lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=200, tol=tol)
        _, path = oracle.kmeans(X, start, found.n_iter)
        gains = []
        for centers in path:
            labels = oracle.assign(X, centers)
            means = oracle.cluster_means(X, labels, centers)
            inertia = oracle.squared_distances(X, centers).min(axis=1).sum()
            gains.append((np.bincount(labels, minlength=6) @ ((means - centers) ** 2).sum(axis=1)) / inertia)
        assert (np.array(gains[:-1]) > tol).all()
        assert gains[-1] <= tol


# Empty clusters


@pytest.mark.parametrize("d", [2, 20])
def test_empty_clusters_are_filled_with_the_farthest_rows(d, engine):
    X = points("normal", 200, d, np.random.default_rng(0))
    X[7], X[90] = 30, -40
    start = np.concatenate([X[:3], np.full((2, d), 1e3), np.full((1, d), 2e3)]).astype(np.float32)
    labels, _ = oracle.kmeans(X, start, 1)
    assert len(set(labels)) <= 4
    found = lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=2)
    assert (X[7] == found.centers).all(axis=1).any() or (X[90] == found.centers).all(axis=1).any()
    found = lloyd(RowPoints(ArrayRows(X)), start, engine, max_iter=100)
    assert (found.counts > 0).all()
    check_clustering(found, X, 6)


def few_distinct(d, seed, distinct=5):
    random = np.random.default_rng(seed)
    return points("normal", distinct, d, random)[random.integers(distinct, size=50)]


@settings(max_examples=100)
@given(seed=SEEDS, d=FEW | MANY, distinct=st.integers(1, 6), k=st.integers(1, 12), sparse=st.booleans())
def test_fewer_distinct_rows_than_clusters(seed, d, distinct, k, sparse, engine):
    X = few_distinct(d, seed, distinct)
    distinct = len(np.unique(X, axis=0))
    rows = SparseRows(scipy.sparse.csr_array(X)) if sparse else ArrayRows(X)
    found = lloyd(RowPoints(rows), X[:k].copy(), engine, max_iter=50)
    check_clustering(found, X, k)
    used = np.count_nonzero(found.counts)
    assert used >= min(k, distinct)
    if k >= distinct:
        np.testing.assert_allclose(found.centers[found.labels], X, rtol=1e-6)
    if d <= FEW_FEATURES and not sparse:
        assert used == min(k, distinct)
        assert found.n_iter < 50


@pytest.mark.parametrize(("d", "make"), [(9, ArrayRows), (30, ArrayRows), (3, SparseRows), (30, SparseRows)])
def test_few_distinct_rows_settle(d, make, engine):
    for seed in range(20):
        X = few_distinct(d, seed)
        rows = make(X if make is ArrayRows else scipy.sparse.csr_array(X))
        found = lloyd(RowPoints(rows), X[:8].copy(), engine, max_iter=50)
        assert found.n_iter < 50
        assert np.count_nonzero(found.counts) == len(np.unique(X, axis=0))


# Starts


def test_random_centers():
    X = points("normal", 50, 3, np.random.default_rng(0))
    for k in (1, 7, 50):
        centers = random_centers(ArrayRows(X), k, np.random.default_rng(1))
        assert centers.shape == (k, 3)
        assert len(np.unique(centers, axis=0)) == k
        assert set(map(tuple, centers)) <= set(map(tuple, X))
    dense = random_centers(SparseRows(scipy.sparse.csr_array(X)), 7, np.random.default_rng(1))
    assert (dense == random_centers(ArrayRows(X), 7, np.random.default_rng(1))).all()


@settings(max_examples=100)
@given(seed=SEEDS, d=FEW | MANY, kind=st.sampled_from(["normal", "clumps", "twins"]), k=st.integers(1, 12))
def test_spread_seeds(seed, d, kind, k):
    random = np.random.default_rng(seed)
    X = points(kind, int(random.integers(1, 120)), d, random)
    found = spread_centers(X, np.ones(1), k, np.random.default_rng(seed))
    assert len(found) == len(np.unique(found, axis=0)) == min(k, len(np.unique(X, axis=0)))
    assert (found == X[oracle.spread_seeds(X, np.ones(len(X)), np.random.default_rng(seed).random(k))]).all()


def test_spread_centers_are_drawn_by_squared_distance():
    X = np.array([[0], [1], [3]], dtype=np.float32)
    pairs = Counter()
    random = np.random.default_rng(0)
    for _ in range(3000):
        centers = spread_centers(X, np.ones(1), 2, random)
        pairs[tuple(centers[:, 0].tolist())] += 1
    wanted = {(0, 1): 1 / 10, (0, 3): 9 / 10, (1, 0): 1 / 5, (1, 3): 4 / 5, (3, 0): 9 / 13, (3, 1): 4 / 13}
    assert set(pairs) == set(wanted)
    for pair, share in wanted.items():
        assert pairs[pair] / 3000 == pytest.approx(share / 3, abs=0.03)


def test_spread_centers_are_fewer_where_rows_repeat():
    X = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    centers = spread_centers(X, np.ones(1), 8, np.random.default_rng(0))
    assert sorted(map(tuple, centers)) == sorted(map(tuple, np.eye(3, dtype=np.float32)))


@settings(max_examples=60)
@given(n=st.integers(1, 40), d=st.integers(1, 10), k=st.integers(1, 8), seed=SEEDS)
def test_weighted_seeds_are_seeds_among_repeated_rows(n, d, k, seed):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)).astype(np.float32)
    weights = random.integers(1, 9, n)
    owners = np.repeat(np.arange(n), weights)
    some = spread_centers(X, weights.astype(np.float64), k, np.random.default_rng(seed))
    assert (some == spread_centers(X[owners], np.ones(1), k, np.random.default_rng(seed))).all()
    assert len(some) == min(k, n)
