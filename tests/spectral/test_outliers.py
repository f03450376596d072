"""Outlier scores of rows."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec.rows import ArrayRows
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.neighbors import build_index
from ultraspec.spectral.outliers import (
    QUANTILES,
    distances_of_edges,
    map_stored,
    score_quantiles,
    scores_of_edges,
    usual_distances,
)


def index_of(R, engine, K=5):
    R = np.ascontiguousarray(R, dtype=np.float32)
    return build_index(R, K, 10, "exact", 1000, False, np.random.default_rng(0), engine)


@pytest.fixture(scope="module")
def index(engine):
    return index_of(np.random.default_rng(0).standard_normal((80, 3)), engine)


def spreads_of(index):
    return distances_of_edges(Edges(*index.query(index.representatives)))


@pytest.fixture(scope="module")
def usual(index):
    return usual_distances(spreads_of(index), np.zeros(80, dtype=np.int32), np.ones(80))


def test_the_usual_distance_is_the_median_of_a_cluster(index):
    R = index.representatives.astype(np.float64)
    distances = np.sort(np.linalg.norm(R[:, None] - R, axis=2), axis=1)[:, 1:5].mean(axis=1)
    groups = (np.arange(80) >= 50).astype(np.int32)
    found = usual_distances(spreads_of(index), groups, np.ones(80))
    for group in (0, 1):
        members = np.sort(distances[groups == group])
        np.testing.assert_allclose(found[groups == group], members[(len(members) - 1) // 2], rtol=1e-3)


def test_weights_decide_the_median_and_tiny_clusters_take_that_of_all(index):
    groups = (np.arange(80) == 7).astype(np.int32)
    weights = np.ones(80)
    weights[7] = 1e-6
    found = usual_distances(spreads_of(index), groups, weights)
    assert found[7] == found[8]
    weights[7] = 1e6
    assert usual_distances(spreads_of(index), np.zeros(80, dtype=np.int32), weights)[0] != found[0]


def test_repeated_points_have_a_usual_distance(engine):
    spreads = spreads_of(index_of(np.zeros((1, 2)), engine, 1))
    assert (usual_distances(spreads, np.zeros(1, dtype=np.int32), np.ones(1)) == 1).all()


def test_scores_are_their_definition(index, usual):
    X = np.random.default_rng(1).standard_normal((50, 3)).astype(np.float32) * 3
    edges = Edges(*index.query(X))
    distances = np.sqrt(edges.weights.astype(np.float64))[:, 1:].mean(axis=1)
    wanted = 1 - 1 / np.maximum(distances / usual[edges.ids].mean(axis=1), 1)
    found = scores_of_edges(edges, distances_of_edges(edges), usual)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert 0 <= found.min() <= found.max() < 1


def test_stored_edges_have_the_same_scores(index, usual, engine):
    edges = Edges(*index.query(np.random.default_rng(1).standard_normal((500, 3)).astype(np.float32)))
    distances = map_stored(edges, lambda part, _: distances_of_edges(part), engine)
    scores = map_stored(edges, lambda part, rows: scores_of_edges(part, distances[rows], usual), engine)
    assert scores.tobytes() == scores_of_edges(edges, distances_of_edges(edges), usual).tobytes()


def test_scores_rise_with_the_distance(index, usual):
    edges = Edges(*index.query(np.array([[scale, 0, 0] for scale in (4, 8, 16, 32)], dtype=np.float32)))
    scores = scores_of_edges(edges, distances_of_edges(edges), usual)
    assert (np.diff(scores) > 0).all()
    assert scores[-1] > 0.9


def test_quantiles_of_scores(engine):
    scores = np.random.default_rng(0).random(5000).astype(np.float32)
    rows = ArrayRows(scores[:, None])
    found = score_quantiles(rows, lambda block: block[:, 0], None, engine)
    assert found.shape == (QUANTILES,)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.quantile(scores, np.linspace(0, 1, QUANTILES)), atol=1e-6)
    assert (score_quantiles(rows, lambda block: block[:, 0], scores, engine) == found).all()
