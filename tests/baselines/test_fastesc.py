"""FastESC against the N x N affinity that its features stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from tests.helpers.common import blobs, same_partition
from ultraspec.baselines import FastESC, _features, fastesc
from ultraspec.baselines._features import mean_distance, pair_squares
from ultraspec.baselines.fastesc import draw_frequencies, features, fourier_embedding, settled_eigenpairs
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
    V, found, n_seen = fourier_embedding(ArrayRows(X), frequencies, 4, drop_first, None, engine)
    assert n_seen == 300
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


# Early stop


def test_eigenvectors_that_never_settle_are_those_of_all_rows(engine, monkeypatch):
    monkeypatch.setattr(fastesc, "SETTLED", 0.0)
    random = np.random.default_rng(0)
    X = ArrayRows(random.normal(size=(333, 3)).astype(np.float32))
    frequencies = random.normal(size=(3, 20)).astype(np.float32)
    V, values, n_seen = fourier_embedding(X, frequencies, 4, True, random.permutation(333), engine)
    expected = fourier_embedding(X, frequencies, 4, True, None, engine)
    assert n_seen == expected[2] == 333
    np.testing.assert_allclose(values, expected[1], rtol=1e-5)
    np.testing.assert_allclose(V @ V.T, expected[0] @ expected[0].T, atol=1e-3 * np.abs(V).max() ** 2)


def test_steps_until_the_eigenvectors_settle():
    """Against the rule, word for word, on matrices whose eigenvectors come to rest."""
    random = np.random.default_rng(0)
    n, k = 430, 3
    X = random.normal(size=(n, 12)).astype(np.float32) * np.geomspace(100, 1, 12, dtype=np.float32)
    order = random.permutation(n)
    before, expected = None, n
    for seen in range(9, n + 9, 9):  # 2 % of 430 rows are 9
        part = X[order[:seen]].astype(float)
        vectors = np.linalg.eigh(part.T @ part)[1][:, -k - 1 :]
        if before is not None:
            change = sum(
                min(((a - b) ** 2).sum(), ((a + b) ** 2).sum()) for a, b in zip(vectors.T, before.T, strict=True)
            )
            if np.sqrt(change) < 0.02 * k:
                expected = min(seen, n)
                break
        before = vectors
    assert expected < n

    def products(rows):
        part = rows.read(0, rows.n_rows).astype(float)
        return part.T @ part

    values, found, n_seen = settled_eigenpairs(ArrayRows(X), products, order, k, k + 1)
    assert n_seen == expected
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->j", found, vectors)), 1, rtol=1e-6)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(part.T @ part)[-k - 1 :] * n / n_seen, rtol=1e-6)


@pytest.mark.parametrize("n", [5, 60, 4000])
def test_early_stop_sees_fewer_rows_and_finds_the_same(n):
    X, y = blobs(n, k=4)
    models = [FastESC(4, n_frequencies=60, early_stop=True, random_state=0, n_jobs=jobs).fit(X) for jobs in (1, 2)]
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    assert models[0].n_samples_seen_ == models[1].n_samples_seen_ <= n
    if n == 4000:
        assert models[0].n_samples_seen_ < n
        assert same_partition(models[0].labels_, y)
        assert FastESC(4, n_frequencies=60, random_state=0).fit(X).n_samples_seen_ == n
