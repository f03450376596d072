"""Nystrom against the formulas on whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist

from tests.helpers.common import blobs, same_partition
from ultraspec.baselines import Nystrom, _features, nystrom
from ultraspec.baselines._features import fill_rows
from ultraspec.baselines._kmeans import draw_indices, unit_rows
from ultraspec.baselines.nystrom import SampleAffinities, embedding_table
from ultraspec.rows import ArrayRows


def full_embedding(X, sample, sigma, k, rcond):
    """Chen et al.'s steps, with pseudo-inverse and matrix root; rows in the order of X."""
    others = np.setdiff1d(np.arange(len(X)), sample)
    A = np.exp(-(cdist(X[sample], X[sample]) ** 2) / (2 * sigma**2))
    B = np.exp(-(cdist(X[sample], X[others]) ** 2) / (2 * sigma**2))
    d1 = A.sum(axis=1) + B.sum(axis=1)
    d2 = B.sum(axis=0) + B.T @ (np.linalg.pinv(A, rcond=rcond, hermitian=True) @ B.sum(axis=1))
    h1, h2 = 1 / np.sqrt(d1), 1 / np.sqrt(d2)
    A, B = A * h1[:, None] * h1, B * h1[:, None] * h2
    root = np.real(scipy.linalg.sqrtm(np.linalg.pinv(A, rcond=rcond, hermitian=True)))
    R = A + root @ B @ B.T @ root
    values, U = np.linalg.eigh((R + R.T) / 2)
    values, U = values[::-1][:k], U[:, ::-1][:, :k]
    V = np.empty((len(X), k))
    V[np.concatenate([sample, others])] = np.concatenate([A, B.T]) @ root @ U / np.sqrt(values)
    return unit_rows(V), values


@pytest.mark.parametrize("p", [20, 60, 299, 300])
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_embedding_against_whole_matrices(engine, monkeypatch, p, sigma):
    monkeypatch.setattr(_features, "CHUNK_ROWS", 70)
    random = np.random.default_rng(p)
    X = (random.normal(size=(300, 3)) + 3 * np.eye(3)[np.arange(300) % 3]).astype(np.float32)
    sample = draw_indices(300, p, random)
    rows, affinities = ArrayRows(X), SampleAffinities(X[sample], sigma, sample)
    A = np.exp(-(cdist(X[sample], X[sample]) ** 2) / (2 * sigma**2))
    table, values = embedding_table(rows, A, affinities, 3, 1e-4, engine)
    V = np.empty((300, 3), dtype=np.float32)
    fill_rows(rows, V, lambda _, part: unit_rows(affinities.of(part) @ table), engine)
    expected, expected_values = full_embedding(X.astype(float), sample, sigma, 3, 1e-4)
    np.testing.assert_allclose(values, expected_values, rtol=1e-3)
    np.testing.assert_allclose(V @ V.T, expected @ expected.T, atol=5e-3)


def test_all_rows_are_exact_spectral_clustering(engine):
    X = np.random.default_rng(0).normal(size=(120, 2)).astype(np.float32)
    sample = np.arange(120)
    A = np.exp(-(cdist(X, X) ** 2) / 2)
    table, values = embedding_table(ArrayRows(X), A, SampleAffinities(X, 1.0, sample), 4, 0.0, engine)
    h = 1 / np.sqrt(A.sum(axis=1))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A * h[:, None] * h)[::-1][:4], rtol=1e-6)
    assert table.shape == (120, 4)


def test_width():
    X, y = blobs()
    model = Nystrom(4, n_landmarks=400, random_state=0).fit(X)
    distances = cdist(X, X)
    assert model.sigma_ == pytest.approx(distances.sum() / (400 * 399), rel=1e-5)
    assert Nystrom(4, n_landmarks=50, sigma=7.5, random_state=0).fit(X).sigma_ == pytest.approx(7.5)
    assert same_partition(Nystrom(4, n_landmarks=50, assign_labels="kmeans", random_state=0).fit_predict(X), y)


def test_affinities_that_are_not_kept(monkeypatch):
    X = np.random.default_rng(0).normal(size=(900, 12))
    kept = Nystrom(4, n_landmarks=80, random_state=0).fit(X)
    monkeypatch.setattr(nystrom, "KEPT_BYTES", 0)
    found = Nystrom(4, n_landmarks=80, random_state=0).fit(X)
    assert "affinities" in kept.fit_profile_
    assert "affinities" not in found.fit_profile_
    assert (found.labels_ == kept.labels_).mean() > 0.999
    np.testing.assert_allclose(found.eigenvalues_, kept.eigenvalues_, rtol=1e-5)


def test_far_rows():
    X = np.concatenate([blobs()[0], [[1e4, 0, 0], [0, -1e4, 0]]])  # whose affinities all vanish
    model = Nystrom(4, n_landmarks=100, sigma=3.0, random_state=0).fit(X)
    assert model.labels_.shape == (402,)
