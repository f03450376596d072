"""Outlier scores of rows."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec.rows import ArrayRows
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.neighbors import build_index
from ultraspec.spectral.outliers import (
    QUANTILES,
    representative_spreads,
    score_quantiles,
    score_stored,
    scores_of_edges,
)


def index_of(R, engine, K=5):
    R = np.ascontiguousarray(R, dtype=np.float32)
    return build_index(R, K, 10, "exact", 1000, False, np.random.default_rng(0), engine)


@pytest.fixture(scope="module")
def index(engine):
    return index_of(np.random.default_rng(0).standard_normal((80, 3)), engine)


def test_spreads_are_mean_distances_to_the_nearest_others(index):
    R = index.representatives.astype(np.float64)
    distances = np.sort(np.linalg.norm(R[:, None] - R, axis=2), axis=1)
    np.testing.assert_allclose(representative_spreads(index), distances[:, 1:5].mean(axis=1), rtol=1e-3)


def test_a_single_neighbour_gives_no_spread(engine):
    assert (representative_spreads(index_of(np.zeros((1, 2)), engine, 1)) == 1).all()


def test_scores_are_their_definition(index):
    X = np.random.default_rng(1).standard_normal((50, 3)).astype(np.float32) * 3
    edges = Edges(*index.query(X))
    spreads = representative_spreads(index)
    distances = np.sqrt(edges.weights.astype(np.float64))
    near = np.sort(spreads[edges.ids], axis=1)[:, :-1]  # without the largest
    wanted = 1 - 1 / np.maximum(distances[:, 1:].sum(axis=1) / near.sum(axis=1), 1)
    found = scores_of_edges(edges, spreads)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert 0 <= found.min() <= found.max() < 1


def test_stored_edges_have_the_same_scores(index, engine):
    edges = Edges(*index.query(np.random.default_rng(1).standard_normal((500, 3)).astype(np.float32)))
    spreads = representative_spreads(index)
    assert score_stored(edges, spreads, engine).tobytes() == scores_of_edges(edges, spreads).tobytes()


def test_scores_rise_with_the_distance(index):
    X = np.array([[scale, 0, 0] for scale in (4, 8, 16, 32)], dtype=np.float32)
    scores = scores_of_edges(Edges(*index.query(X)), representative_spreads(index))
    assert (np.diff(scores) > 0).all()
    assert scores[-1] > 0.9


def test_quantiles_of_scores():
    scores = np.random.default_rng(0).random(5000).astype(np.float32)
    rows = ArrayRows(scores[:, None])
    found = score_quantiles(rows, lambda block: block[:, 0], None)
    assert found.shape == (QUANTILES,)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.quantile(scores, np.linspace(0, 1, QUANTILES)), atol=1e-6)
    assert (score_quantiles(rows, lambda block: block[:, 0], scores) == found).all()
