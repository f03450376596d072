"""LSC against the dense N x p representation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from tests.helpers.cases import KINDS, points
from tests.helpers.common import blobs, same_partition
from ultraspec.baselines import LSC
from ultraspec.baselines._kmeans import unit_rows
from ultraspec.baselines.lsc import landmark_weights, mean_square, select_landmarks
from ultraspec.rows import ArrayRows
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.transfer_cut import lift


def full_embedding(X, landmarks, sigma, k, r=5, drop_first=True):
    """Chen and Cai's steps on a dense Z."""
    D = cdist(X, landmarks) ** 2
    Z = np.zeros_like(D)
    nearest = np.argsort(D, axis=1, kind="stable")[:, :r]
    for i, row in enumerate(nearest):
        Z[i, row] = np.exp(-D[i, row] / (2 * sigma**2))
    Z /= Z.sum(axis=1)[:, None]
    Z = Z / np.maximum(np.sqrt(Z.sum(axis=0)), 1e-12)
    U = np.linalg.svd(Z, full_matrices=False)[0][:, int(drop_first) : k + int(drop_first)]
    return unit_rows(U)


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("drop_first", [True, False])
@pytest.mark.parametrize("bandwidth", ["code", "distance"])
def test_embedding_against_a_dense_one(engine, d, drop_first, bandwidth):
    random = np.random.default_rng(d)
    X = random.normal(size=(500, d)).astype(np.float32)
    landmarks = select_landmarks(ArrayRows(X), 40, "random", random, engine)
    index = RepresentativeIndex.build(landmarks, 5, 1, True, random, engine)
    model = LSC(4, drop_first=drop_first, bandwidth=bandwidth)
    sigma = model._width(mean_square(ArrayRows(X), landmarks, engine), 1.0)
    mean = (cdist(X, landmarks) ** 2).mean()
    assert sigma == pytest.approx(mean if bandwidth == "code" else np.sqrt(mean), rel=1e-5)
    edges = landmark_weights(ArrayRows(X), index, sigma, engine)
    vectors, values = model._vectors(edges, index, 4, engine)
    assert (values[0] == pytest.approx(1.0)) != drop_first
    found = lift(edges, vectors)
    expected = full_embedding(X, index.representatives, sigma, 4, drop_first=drop_first)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-3)


@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 80),
    p=st.integers(1, 20),
    d=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_mean_square(engine, kind, n, p, d, seed):
    random = np.random.default_rng(seed)
    X, L = points(kind, n, d, random), points(kind, p, d, random)
    expected = (cdist(X.astype(float), L.astype(float)) ** 2).mean()
    assert mean_square(ArrayRows(X), L, engine) == pytest.approx(expected, rel=1e-4, abs=1e-4 * float((X**2).mean()))


def test_the_code_s_bandwidth_depends_on_units():
    X = blobs()[0]
    widths = [LSC(4, n_landmarks=100, selection="random", random_state=0).fit(X * factor).sigma_ for factor in (1, 10)]
    assert widths[1] == pytest.approx(100 * widths[0], rel=1e-5)


def test_landmarks(engine):
    X, y = blobs()
    random = LSC(4, n_landmarks=100, selection="random", drop_first=False, random_state=0).fit(X)
    assert cdist(random.landmarks_, X).min(axis=1).max() < 1e-5  # rows of X
    kmeans = LSC(4, n_landmarks=100, drop_first=False, random_state=0).fit(X)
    assert kmeans.landmarks_.shape == (100, 3)
    assert (cdist(X, kmeans.landmarks_) ** 2).min(axis=1).sum() < (cdist(X, random.landmarks_) ** 2).min(axis=1).sum()
    assert same_partition(kmeans.labels_, y)
    assert len(LSC(4, random_state=0).fit(X[:200]).landmarks_) == 200  # all rows, where there are fewer
