"""FastESC against the N x N affinity that its features stand for."""

from __future__ import annotations

import numpy as np
import pytest
from common import blobs
from scipy.spatial.distance import cdist, pdist

from ultraspec.baselines import FastESC, _features
from ultraspec.baselines._features import mean_distance, pair_squares
from ultraspec.baselines.fastesc import draw_frequencies, embed, features
from ultraspec.rows import ArrayRows


@pytest.mark.parametrize("drop_first", [True, False])
def test_embedding_against_whole_matrices(engine, monkeypatch, drop_first):
    monkeypatch.setattr(_features, "CHUNK_ROWS", 70)
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3)).astype(np.float32)
    frequencies = random.normal(size=(3, 20)).astype(np.float32)
    F = features(X.astype(float), frequencies).astype(float)
    K = F @ F.T  # the affinity of all pairs
    degrees = np.maximum(K.sum(axis=1), 1)
    values, E = np.linalg.eigh(K / np.sqrt(degrees) / np.sqrt(degrees)[:, None])
    values, E = values[::-1][drop_first : 4 + drop_first], E[:, ::-1][:, drop_first : 4 + drop_first]
    expected = E / np.sqrt(degrees)[:, None] * 300
    V, found = embed(ArrayRows(X), frequencies, 4, drop_first, engine)
    np.testing.assert_allclose(found, values, rtol=1e-4)
    np.testing.assert_allclose(V @ V.T, expected @ expected.T, atol=1e-3 * np.abs(expected).max() ** 2)


def test_features_approximate_the_gaussian():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 4)).astype(np.float32)
    F = features(X, (random.normal(size=(4, 20_000)) / 2.0).astype(np.float32))
    np.testing.assert_allclose(F @ F.T, np.exp(-(cdist(X, X) ** 2) / 8), atol=0.03)
    np.testing.assert_allclose((F**2).sum(axis=1), 1, rtol=1e-4)


def test_frequencies_are_drawn_by_what_they_carry():
    random = np.random.default_rng(0)
    X = np.linspace(-1, 1, 400)[:, None].astype(np.float32)
    drawn = draw_frequencies(ArrayRows(X), 20_000, 0.2, random)
    assert drawn.shape == (1, 10_000)
    # low ones turn all rows alike: cosines near one, c c' near its largest norm; the draw prefers them
    norms = [np.linalg.norm(np.cos(X * w) @ np.cos(X * w).T + np.sin(X * w) @ np.sin(X * w).T) for w in (0.1, 10.0)]
    low, high = (np.abs(drawn) < 1).mean(), ((np.abs(drawn) > 9) & (np.abs(drawn) < 10)).mean()
    share = (
        (np.abs(random.normal(size=10**6) / 0.2) < 1).mean(),
        (np.abs(np.abs(random.normal(size=10**6) / 0.2) - 9.5) < 0.5).mean(),
    )
    assert norms[0] > 1.2 * norms[1]
    assert low / share[0] > 1.1 * high / share[1]


def test_width():
    X = blobs()[0]
    expected = pdist(X).mean()
    assert mean_distance(pair_squares(X.astype(np.float32))) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(pair_squares(X.astype(np.float32)), cdist(X, X) ** 2, atol=1e-4)
    assert FastESC(4, n_frequencies=50, random_state=0).fit(X).sigma_ == pytest.approx(expected, rel=1e-4)
    assert FastESC(4, n_frequencies=50, sigma=3, random_state=0).fit(X).sigma_ == pytest.approx(3)
    assert mean_distance(pair_squares(np.ones((5, 2), np.float32))) == 1.0
    assert mean_distance(pair_squares(np.ones((1, 2), np.float32))) == 1.0
