"""Projections never make a distance longer, and change no result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ultraspec import USPEC
from ultraspec.cluster.distance_bounds import LEAST_FEATURES, SLACK, ProjectionBound
from ultraspec.cluster.kmeans import lloyd
from ultraspec.cluster.points import RowPoints
from ultraspec.rows import ArrayRows
from ultraspec.spectral.neighbors import RepresentativeIndex


def low_rank(n, d, rank, noise, seed):
    """Rows near a plane of `rank` dimensions."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, rank)) @ random.normal(size=(rank, d)) + noise * random.normal(size=(n, d))
    return rows.astype(np.float32)


def distances(a, b):
    return np.sqrt(((a[:, None, :].astype(np.float64) - b) ** 2).sum(axis=2))


@given(
    d=st.integers(LEAST_FEATURES, 200),
    rank=st.integers(1, 60),
    noise=st.sampled_from([0.0, 1e-3, 0.3]),
    offset=st.sampled_from([0.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_projected_distances_are_no_longer_than_the_true_ones(d, rank, noise, offset, seed):
    X = low_rank(80, d, rank, noise, seed) + np.float32(offset)
    bound = ProjectionBound.fit(X)
    projected, squared_lengths = bound.project(X)
    lengths = np.linalg.norm(X.astype(np.float64), axis=1)
    np.testing.assert_allclose(np.sqrt(squared_lengths), lengths, rtol=1e-5)
    if bound.basis is None:
        assert projected is X
        assert bound.slack == 0
        return
    np.testing.assert_allclose(np.linalg.norm(projected, axis=1), lengths, rtol=1e-5)
    longer = distances(projected, projected) - distances(X, X)
    assert (longer <= SLACK * (lengths[:, None] + lengths)).all()


def test_rows_without_main_directions_are_their_own_projections():
    random = np.random.default_rng(0)
    assert ProjectionBound.fit(random.normal(size=(2000, 300)).astype(np.float32)).basis is None
    assert ProjectionBound.fit(low_rank(2000, 300, 20, 0.1, 0)).basis is not None
    assert ProjectionBound.fit(low_rank(2000, LEAST_FEATURES - 1, 20, 0.1, 0)).basis is None


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_search_with_projections_gives_the_results_of_full_rows(exact, seed, engine):
    X = low_rank(700, 300, 25, 0.2, seed)
    index = RepresentativeIndex.build(X[:160], 5, 3, exact, np.random.default_rng(seed), engine)
    assert (index._bound.basis is not None) == exact  # the other search compares full rows
    index.__dict__["_bound"] = ProjectionBound.fit(index.representatives)
    assert index._bound.basis is not None
    ids, sq = index.query(X)
    other = RepresentativeIndex(
        index.representatives, index.centers, index.starts, index.lists, index.n_neighbors, exact
    )
    other.__dict__["_bound"] = ProjectionBound()  # full rows throughout
    expected_ids, expected_sq = other.query(X)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(sq, expected_sq)
    if exact:
        true_ids = np.argsort(distances(X, index.representatives), axis=1, kind="stable")[:, :5]
        assert (ids == true_ids).mean() > 0.999


@pytest.mark.parametrize("seed", range(5))
def test_kmeans_with_projections_is_kmeans(seed, engine):
    X = low_rank(1500, 110, 15, 0.3, seed)
    with_bound = lloyd(RowPoints(ArrayRows(X), ProjectionBound.fit(X)), X[:60], engine, max_iter=8)
    without = lloyd(RowPoints(ArrayRows(X)), X[:60], engine, max_iter=8)
    np.testing.assert_array_equal(with_bound.labels, without.labels)
    np.testing.assert_array_equal(with_bound.centers, without.centers)


@pytest.mark.parametrize("neighbors", ["approx", "exact"])
def test_predict_repeats_the_fit(neighbors):
    X = low_rank(3000, 150, 10, 0.2, 0)
    X[:1500] += 3
    model = USPEC(2, n_representatives=200, neighbors=neighbors, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(X[::7]), model.labels_[::7])
