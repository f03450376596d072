"""EAC against the co-association matrix of all rows, and SciPy's linkage of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as hierarchy
from hypothesis import assume, given, settings
from scipy.spatial.distance import squareform

from tests.helpers.common import same_partition
from tests.helpers.ensembles import assert_average_linkage, clusterings_of, pair_similarity
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec.baselines import EAC, _coassociation, eac
from ultraspec.baselines._coassociation import similarity_matrix


def coassociation(labels):
    return pair_similarity(labels, lambda _, a, b: float(a == b))


@settings(max_examples=60)
@given(labels=label_matrices(most_rows=30))
def test_similarities_of_microclusters_are_those_of_rows(labels, engine):
    assume((labels >= 0).any(axis=1).all())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_coassociation, "PIECE_BYTES", 1)
        patch.setattr(_coassociation, "BLOCK_PAIRS", 50)
        clusterings, places = clusterings_of(labels, engine)
        S = similarity_matrix(clusterings, None, "EAC", None, engine)
    np.testing.assert_allclose(S[np.ix_(places, places)], coassociation(labels), rtol=1e-6)
    assert (S == S.T).all()


def test_many_clusterings_do_not_overflow_counts(engine):
    labels = np.zeros((3, 700), dtype=int)
    labels[2, :300] = 1
    S = similarity_matrix(clusterings_of(labels, engine)[0], None, "EAC", None, engine)
    np.testing.assert_allclose(S, [[1, 4 / 7], [4 / 7, 1]], rtol=1e-6)


@settings(max_examples=60)
@given(labels=label_matrices(most_rows=25))
def test_merges_are_those_of_average_linkage_on_all_rows(labels):
    """Whatever the ties: every merge joins two clusters that no two others are nearer than."""
    labels = labels[(labels >= 0).any(axis=1)]
    assert_average_linkage(coassociation(labels), lambda k: eac(labels, k), len(np.unique(labels, axis=0)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("linkage", ["average", "complete"])
def test_same_clusters_as_scipy(seed, linkage):
    truth, labels = planted(k=4, n=200, m=30, noise=0.05, seed=seed)
    D = squareform((labels[:, None] != labels).mean(axis=2), checks=False)
    theirs = hierarchy.fcluster(hierarchy.linkage(D, linkage), 4, "maxclust")
    ours = eac(labels, 4, linkage=linkage)
    assert same_partition(ours, theirs)
    assert linkage == "complete" or same_partition(ours, truth)


def test_single_linkage_follows_chains():
    """Rows in a chain, each with its neighbour in every second clustering, and a pair far away."""
    labels = np.array([[0, 0], [1, 0], [1, 1], [2, 1], [2, 2], [8, 8], [9, 8]])
    assert eac(labels, 2, linkage="single").tolist() == [0] * 5 + [1] * 2


def test_memory_is_refused_before_it_is_taken():
    _, labels = planted(n=100, noise=1.0)
    with pytest.raises(
        MemoryError, match=r"EAC needs 0\.0 GB for the \d+ x \d+ matrix .* Use LWGP or U-SENC, pass fewer"
    ):
        eac(labels, 3, max_pairs_bytes=1000)
    alone = np.arange(2000)[:, None].repeat(20, axis=1)  # 16 MB of pairs, and 80 MB for the table of base clusters
    with pytest.raises(MemoryError, match=r"EAC needs 0\.1 GB"):
        eac(alone, 3, max_pairs_bytes=30_000_000)
    with pytest.raises(MemoryError, match="EAC needs"):
        EAC(3, max_pairs_bytes=10).fit(np.random.default_rng(0).normal(size=(100, 2)))


def test_estimator_is_the_function_on_its_members():
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = EAC(4, random_state=0).fit(X)
    assert (model.labels_ == eac(model.base_labels_, 4)).all()


def test_bad_parameters():
    with pytest.raises(ValueError, match="linkage must be one of 'average', 'single', 'complete'"):
        eac([[0], [1]], 2, linkage="ward")
    with pytest.raises(TypeError, match="max_pairs_bytes"):
        eac([[0], [1]], 2, max_pairs_bytes="1 GB")
