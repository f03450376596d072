"""EulerSC against weighted kernel k-means on the whole N x N affinity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.cases import KINDS, points
from ultraspec import metrics
from ultraspec.baselines import EulerSC, _kmeans
from ultraspec.baselines._kmeans import WeightedPoints, draw_indices, lite_kmeans
from ultraspec.baselines.eulersc import EulerRows
from ultraspec.rows import ArrayRows


def affinity(X, alpha, scaling="global"):
    """Half the sum of the cosines of the differences of scaled features."""
    X = X.astype(float)
    if scaling == "global":
        X = (X - X.min()) / (X.max() - X.min() or 1)
    elif scaling == "columns":
        X = (X - X.min(axis=0)) / np.where(np.ptp(X, axis=0) > 0, np.ptp(X, axis=0), 1)
    return 0.5 * np.cos(np.pi * alpha * (X[:, None] - X[None])).sum(axis=2)


def kernel_labels(K, start, max_iter=100):
    """Normalised cuts by weighted kernel k-means, from rows as centres."""
    w = K.sum(axis=1)
    G = K / w[:, None] / w  # products of the points f(x) / w(x)
    sq = np.diag(G)[:, None] + np.diag(G)[start] - 2 * G[:, start]
    labels = sq.argmin(axis=1)
    for _ in range(max_iter - 1):
        shares = np.eye(len(start))[labels] * w[:, None]
        shares /= shares.sum(axis=0)
        sq = np.diag(G)[:, None] - 2 * G @ shares + np.diag(shares.T @ G @ shares)
        before, labels = labels, sq.argmin(axis=1)
        if (before == labels).all():
            break
    return labels


@pytest.mark.parametrize("scaling", ["global", "columns", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_against_the_kernel(scaling, seed):
    random = np.random.default_rng(seed)
    X = random.random((300, 5)) * [1.0, 0.5, 0.9, 0.8, 0.3] + (np.arange(300) % 3)[:, None] / 2
    start = draw_indices(300, 4, np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1]))
    expected = kernel_labels(affinity(X, 0.4, scaling), start)
    assert (
        metrics.hungarian_accuracy(expected, EulerSC(4, alpha=0.4, scaling=scaling, random_state=seed).fit_predict(X))
        > 0.99
    )


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_a_degree_lie_far_out(seed, monkeypatch):
    """Their distances to all centres are the same in float32, so that no bounds are used."""
    X = np.random.default_rng(seed).integers(0, 100, (600, 16)).astype(np.float32)
    with pytest.warns(UserWarning, match="Lower alpha"):
        found = EulerSC(4, alpha=1.9, random_state=seed).fit_predict(X)
    monkeypatch.setattr(_kmeans, "elkan_is_faster", lambda *_: False)
    with pytest.warns(UserWarning, match="Lower alpha"):
        plain = EulerSC(4, alpha=1.9, random_state=seed).fit_predict(X)
    np.testing.assert_array_equal(found, plain)


@given(kind=st.sampled_from(KINDS), n=st.integers(3, 40), d=st.integers(1, 8), seed=st.integers(0, 99))
def test_it_is_a_normalised_cut(engine, kind, n, d, seed):
    """The sum of squares is a constant minus the share of affinity inside of the clusters."""
    random = np.random.default_rng(seed)
    X = points(kind, n, d, random)
    K = affinity(X, 0.5)
    w = K.sum(axis=1)
    rows = EulerRows(ArrayRows(X), np.full(d, 0.5 * np.pi / (np.ptp(X) or 1), dtype=np.float32))
    rows.divisors, rows.middle = (w / w.mean()).astype(np.float32), np.zeros(2 * d, dtype=np.float32)
    found = lite_kmeans(WeightedPoints(rows, w / w.mean()), 2, max_iter=1, random=random, engine=engine)
    shares = np.eye(2)[found.labels]
    inside = sum(s @ K @ s / max(s @ w, 1e-300) for s in shares.T)
    moved = found.counts @ ((found.means - found.centers).astype(float) ** 2).sum(axis=1)
    total = w.mean() * (np.trace(K / w[:, None]) - inside)
    assert found.inertia - moved == pytest.approx(total, rel=1e-3, abs=1e-4 * n * d)


def test_affinities_are_positive_up_to_a_half():
    X = np.random.default_rng(0).random((100, 1))
    assert affinity(X, 0.5).min() >= -1e-12
    with pytest.warns(UserWarning, match="affinities of .* rows have a negative sum"):
        EulerSC(2, alpha=1.9, random_state=0).fit(
            np.concatenate([X, X[:5] + 0.5, np.zeros((100, 1)), np.full((10, 1), 0.9)])
        )


def test_small_angles_are_k_means():
    from ultraspec.baselines import KMeansLite

    X = np.random.default_rng(0).normal(size=(500, 3))
    euler, plain = EulerSC(4, alpha=0.01, random_state=0).fit(X), KMeansLite(4, random_state=0).fit(X)
    assert (euler.labels_ == plain.labels_).mean() > 0.97
