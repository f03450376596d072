"""WCT against its definition, on all rows and all base clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers.common import same_partition
from tests.helpers.ensembles import assert_average_linkage, base_clusters, clusterings_of, pair_similarity
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec.baselines import WCT, eac, wct
from ultraspec.baselines._coassociation import similarity_matrix
from ultraspec.baselines.wct import cluster_similarity


def likeness(labels, decay):
    """Similarity of base clusters by weighted connected triples, counted one by one."""
    B, owners = base_clusters(labels)
    q = B.shape[1]
    w = np.zeros((q, q))
    for a in range(q):
        for b in range(q):
            if a != b:
                w[a, b] = (B[:, a] * B[:, b]).sum() / np.maximum(B[:, a], B[:, b]).sum()
    T = np.zeros((q, q))
    for a in range(q):
        for b in range(q):
            if a != b and owners[a] == owners[b]:
                T[a, b] = sum(min(w[a, c], w[b, c]) for c in range(q))
    if T.max() > 0:
        T *= decay / T.max()
    return T + np.eye(q)


def similarity(labels, decay):
    _, owners = base_clusters(labels)
    names = [(j, c) for j in range(labels.shape[1]) for c in np.unique(labels[:, j]) if c != -1]
    assert [j for j, _ in names] == owners
    number, table = {name: i for i, name in enumerate(names)}, likeness(labels, decay)
    return pair_similarity(labels, lambda j, a, b: table[number[j, a], number[j, b]])


@settings(max_examples=40)
@given(labels=label_matrices(most_rows=20), decay=st.sampled_from([0.0, 0.5, 0.8, 1.0]))
def test_similarities_are_those_of_the_definition(labels, decay, engine):
    assume((labels >= 0).any(axis=1).all())
    clusterings, places = clusterings_of(labels, engine)
    table = cluster_similarity(clusterings, decay, engine)
    np.testing.assert_allclose(table, likeness(labels, decay), atol=1e-12)
    S = similarity_matrix(clusterings, table, "WCT", None, engine)
    np.testing.assert_allclose(S[np.ix_(places, places)], similarity(labels, decay), atol=1e-6)
    assert (S == S.T).all()


@settings(max_examples=30)
@given(labels=label_matrices(most_rows=20))
def test_merges_are_those_of_average_linkage_on_all_rows(labels):
    labels = labels[(labels >= 0).any(axis=1)]
    assert_average_linkage(similarity(labels, 0.8), lambda k: wct(labels, k), len(np.unique(labels, axis=0)))


@pytest.mark.parametrize("seed", range(3))
def test_planted_clusters_are_found(seed):
    truth, labels = planted(k=4, n=300, m=10, noise=0.1, seed=seed)
    assert same_partition(wct(labels, 4), truth)


def test_equal_clusterings_are_plain_evidence_accumulation():
    """No two clusters of one clustering share rows with a third."""
    labels = np.repeat(np.arange(5) % 3, 4)[:, None].repeat(6, axis=1)
    assert (wct(labels, 3) == eac(labels, 3)).all()
    _, labels = planted(noise=0.3)
    assert (wct(labels, 5, decay=0) == eac(labels, 5)).all()


def test_estimator_is_the_function_on_its_members():
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = WCT(4, decay=0.5, random_state=0).fit(X)
    assert (model.labels_ == wct(model.base_labels_, 4, decay=0.5)).all()


def test_bad_parameters():
    for decay in (1.5, -0.1):
        with pytest.raises(ValueError, match="decay"):
            wct([[0], [1]], 2, decay=decay)
    with pytest.raises(ValueError, match="linkage must be one of"):
        wct([[0], [1]], 2, linkage="ward")
    _, labels = planted(n=400, noise=1.0)
    with pytest.raises(MemoryError, match="WCT needs"):
        wct(labels, 3, max_pairs_bytes=1000)
