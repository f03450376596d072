"""SEC against dense algebra: weighted k-means, and the normalised cut that it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers.common import same_partition
from tests.helpers.ensembles import base_clusters, clusterings_of
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec.baselines import sec
from ultraspec.baselines.sec import DegreePoints
from ultraspec.cluster.kmeans import lloyd


def points_of(labels):
    """Points b / w and weights w of all rows; w is the degree in B B', divided by its mean."""
    B, _ = base_clusters(labels)
    w = (B @ B.T).sum(axis=1)
    w /= w.mean()
    return B / w[:, None], w


def squares(P, centers):
    return ((P[:, None] - centers) ** 2).sum(axis=2)


@settings(max_examples=60)
@given(labels=label_matrices(most_rows=40), k=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_pass_is_weighted_kmeans_on_all_rows(labels, k, seed, engine):
    assume((labels >= 0).any(axis=1).all())
    clusterings, places = clusterings_of(labels, engine)
    chosen = np.sort(np.random.default_rng(seed).choice(len(clusterings), min(k, len(clusterings)), replace=False))
    points = DegreePoints(clusterings)
    found = lloyd(points, points.take(chosen), engine, max_iter=1)
    P, w = points_of(labels)
    centers = P[[int(np.flatnonzero(places == at)[0]) for at in chosen]]
    np.testing.assert_allclose(points.take(chosen), centers, rtol=1e-5)
    D = squares(P, centers)
    ours = found.labels[places]
    np.testing.assert_allclose(D[np.arange(len(D)), ours], D.min(axis=1), rtol=1e-4, atol=1e-5 * D.max())
    assert found.inertia == pytest.approx(w @ D.min(axis=1), rel=1e-4, abs=1e-4 * (w @ D.max(axis=1)))
    for j in range(len(chosen)):
        if (ours == j).any():
            np.testing.assert_allclose(
                found.means[j], np.average(P[ours == j], axis=0, weights=w[ours == j]), atol=1e-5
            )


@settings(max_examples=40)
@given(labels=label_matrices(most_rows=40), k=st.integers(1, 5), seed=st.integers(0, 99))
def test_sum_of_squares_is_a_normalised_cut(labels, k, seed):
    """Of any labels: sum_j cut_j / volume_j differs from the weighted sum of squares by a constant, here spelt out."""
    labels = labels[(labels >= 0).any(axis=1)]
    given = np.random.default_rng(seed).integers(k, size=len(labels))
    P, w = points_of(labels)
    inertia = sum(
        w[given == j] @ squares(P[given == j], np.average(P[given == j], axis=0, weights=w[given == j])[None])[:, 0]
        for j in set(given)
    )
    B, _ = base_clusters(labels)
    S = B @ B.T
    mean = S.sum() / len(S)
    within = sum(S[np.ix_(given == j, given == j)].sum() / S[given == j].sum() for j in set(given))
    assert inertia == pytest.approx(w @ (P**2).sum(axis=1) - within * mean, rel=1e-9, abs=1e-9)


@settings(max_examples=30)
@given(labels=label_matrices(most_rows=40), k=st.integers(1, 4))
def test_labels_settle(labels, k):
    """No row is nearer to the mean of another of the clusters that are found."""
    labels = labels[(labels >= 0).any(axis=1)]
    k = min(k, len(np.unique(labels, axis=0)))
    found = sec(labels, k, max_iter=1000, random_state=0)
    P, w = points_of(labels)
    groups = [found == j for j in sorted(set(found))]
    D = squares(P, np.stack([np.average(P[group], axis=0, weights=w[group]) for group in groups]))
    np.testing.assert_allclose(D[np.arange(len(D)), found], D.min(axis=1), rtol=1e-4, atol=1e-5 * D.max())


def test_planted_clusters_are_found():
    truth, labels = planted(k=3, n=300, m=20, noise=0.05, finest=1)
    assert same_partition(sec(labels, 3, n_init=30, random_state=0), truth)


def test_bad_parameters():
    with pytest.raises(ValueError, match="n_init"):
        sec([[0], [1]], 2, n_init=0)
    with pytest.raises(TypeError, match="max_iter"):
        sec([[0], [1]], 2, max_iter="many")
