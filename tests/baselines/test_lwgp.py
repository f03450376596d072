"""LWGP against its definition, on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.common import same_partition
from tests.helpers.ensembles import base_clusters, clusterings_of
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec.baselines import lwgp
from ultraspec.baselines.lwgp import cluster_certainty
from ultraspec.spectral import transfer_cut


def index(labels, theta):
    """The ensemble-driven cluster index of every base cluster: exp(-H / (theta m))."""
    B, owners = base_clusters(labels)
    m = labels.shape[1]
    found = []
    for members in B.T:
        entropy = 0.0
        for j in range(m):
            others = labels[(members > 0) & (labels[:, j] != -1), j]
            for c in np.unique(others):
                q = (others == c).mean()
                entropy -= q * np.log2(q)
        found.append(np.exp(-entropy / (theta * m)))
    assert len(found) == len(owners)
    return np.array(found)


@settings(max_examples=80)
@given(labels=label_matrices(), theta=st.sampled_from([0.05, 0.4, 3.0]))
def test_weights_of_base_clusters(labels, theta, engine):
    """Up to a factor, which cancels in the graph."""
    assume((labels >= 0).any(axis=1).all())
    ours, theirs = cluster_certainty(clusterings_of(labels, engine)[0], theta, engine), index(labels, theta)
    np.testing.assert_allclose(ours, np.maximum(theirs / theirs.max(), 1e-15), rtol=1e-9)


def test_tiny_theta_leaves_the_surest_clusters(engine):
    """The weights of all others vanish, next to; nothing may become NaN."""
    _, labels = planted(noise=0.3)
    ours = cluster_certainty(clusterings_of(labels, engine)[0], 1e-6, engine)
    assert ours.max() == 1
    assert 0 < ours.min() < 1e-9
    assert sorted(set(lwgp(labels, 2, theta=1e-6, random_state=0))) == [0, 1]


@settings(max_examples=60)
@given(labels=label_matrices(), theta=st.sampled_from([0.2, 0.4, 1.0]))
def test_embedding_is_that_of_all_rows(labels, theta, engine):
    assume((labels >= 0).any(axis=1).all())
    clusterings, places = clusterings_of(labels, engine)
    weights = cluster_certainty(clusterings, theta, engine)
    n_vectors = min(8, clusterings.n_columns)
    spectrum = transfer_cut.transfer_cut(clusterings.graph(engine, weights), n_vectors, 0.0)
    B = base_clusters(labels)[0] * index(labels, theta)
    eigenvalues, vectors = oracle.transfer_cut(oracle.reduced_affinity(B), n_vectors)
    np.testing.assert_allclose(spectrum.eigenvalues, np.clip(eigenvalues, 0, 1), atol=1e-5)
    edges = clusterings.all_edges(engine, weights)
    for m in oracle.eigengroups(eigenvalues, gap=1e-2):
        ours = transfer_cut.lift(edges, spectrum.vectors[:, :m])[places]
        theirs = oracle.embedding(B, vectors[:, :m])
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_planted_clusters_are_found(seed, missing):
    truth, labels = planted(k=5, n=400, m=20, noise=0.1, seed=seed, missing=missing)
    assert same_partition(lwgp(labels, 5, random_state=seed), truth)


def test_unsure_clusterings_count_less(engine):
    """Clusterings at random beside more of the right ones: each of their clusters is cut by all others."""
    random = np.random.default_rng(0)
    truth = np.arange(600) % 3
    labels = np.column_stack([truth] * 8 + [random.integers(3, size=600) for _ in range(4)])
    weights = cluster_certainty(clusterings_of(labels, engine)[0], 0.4, engine)
    assert weights[:24].min() > 5 * weights[24:].max()
    assert same_partition(lwgp(labels, 3, random_state=0), truth)


def test_bad_parameters():
    for theta in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match="theta"):
            lwgp([[0], [1]], 2, theta=theta)
    with pytest.raises(ValueError, match="too few for n_clusters=4"):
        lwgp([[0, 0], [1, 0], [0, -1], [1, -1], [-1, 0]], 4)
