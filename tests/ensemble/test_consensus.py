"""What the ways to combine members have in common: ensembles, and the support of labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS
from tests.helpers.common import blobs, same_partition
from tests.helpers.label_matrices import built, label_matrices, planted
from ultraspec import USENC, consensus, metrics
from ultraspec.cluster.numbering import number_by_size
from ultraspec.ensemble.consensus import Ensemble, support, warn_if_single
from ultraspec.ensemble.transfer_cut import MicroclusterCut
from ultraspec.rows import ArrayRows
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition
from ultraspec.spectral.transfer_cut import Spectrum

# Support


def test_clusterings_support_the_label_of_most_rows_of_their_base_cluster():
    columns = np.array([[0, 2], [1, -1], [-1, -1]], dtype=np.int32)
    majority = np.array([0, 1, 1], dtype=np.int32)
    assert support(columns, np.array([0, 1, 0], dtype=np.int32), majority).tolist() == [0.5, 1.0, 0.0]


def support_of(cut, micro):
    return support(micro.columns, cut.labels, cut.majority(micro))


def literal_support(labels, found):
    """For each row, over the clusterings that assign it: is its label the most frequent one in its base cluster?"""
    out = []
    for i in range(len(labels)):
        supported = []
        for j in range(labels.shape[1]):
            if labels[i, j] != -1:
                together = found[labels[:, j] == labels[i, j]]
                names, counts = np.unique(together, return_counts=True)
                supported.append(names[counts.argmax()] == found[i])
        out.append(np.mean(supported) if supported else 0.0)
    return np.array(out)


@settings(max_examples=120)
@given(labels=label_matrices(), k=st.integers(1, 6), seed=SEEDS)
def test_support(labels, k, seed, engine):
    """Of any labels of the microclusters, in ties and with missing labels too."""
    micro, graph, _ = built(labels, engine)
    found = np.full(len(micro.columns), -1, dtype=np.int32)
    found[graph.assigned] = np.random.default_rng(seed).integers(k, size=len(graph.assigned))
    spectrum = Spectrum(np.ones(k), np.ones((1, k), np.float32), np.ones(1))
    cut = MicroclusterCut(found, CenterPartition(spectrum, np.zeros((k, k), np.float32)), 1)
    shares = support_of(cut, micro)
    assert shares.dtype == np.float32
    wanted = literal_support(labels, micro.spread(found, engine))
    np.testing.assert_allclose(micro.spread(shares, engine), wanted, rtol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_support_of_a_cut(seed, missing, engine):
    truth, labels = planted(4, seed=seed, missing=missing)
    micro, graph, _ = built(labels, engine)
    cut = graph.cut(4, LabelOptions(3, 100, np.random.SeedSequence(seed)), engine)
    found = micro.spread(cut.labels, engine)
    assert metrics.nmi(truth, found) > 0.9
    assert (number_by_size(found) == consensus(labels, 4, random_state=seed)).all()
    np.testing.assert_allclose(micro.spread(support_of(cut, micro), engine), literal_support(labels, found), rtol=1e-6)


def test_support_of_rows_that_members_disagree_on(engine):
    truth = np.repeat([0, 1], 20)
    labels = np.tile(truth[:, None], (1, 5))
    labels[0, :2] = 1
    labels[1, 4] = 1
    labels[2, 1:] = -1
    micro, graph, _ = built(labels, engine)
    cut = graph.cut(2, LabelOptions(3, 100, np.random.SeedSequence(0)), engine)
    assert same_partition(micro.spread(cut.labels, engine), truth)
    shares = micro.spread(support_of(cut, micro), engine)
    np.testing.assert_allclose(shares[:3], [0.6, 0.8, 1.0], rtol=1e-6)
    assert (shares[3:] == 1).all()


# Ensembles


def test_an_ensemble_labels_blocks_by_all_members(engine):
    X, _ = blobs(600)
    model = USENC(4, n_estimators=3, base_clusters=(4, 8), n_representatives=60, random_state=0).fit(X)
    rows = ArrayRows(model._fitted.preprocessor.prepare(X))
    members = Ensemble(list(model._fitted.members), model.base_labels_, rows)
    assert members.sizes == (model.base_labels_.max(axis=0) + 1).tolist()
    labels = members.labeler(rows.read(0, 50))
    assert labels.dtype == np.uint8
    assert (labels == model.base_labels_[:50]).all()


def test_rows_are_kept_only_on_a_cluster():
    rows = ArrayRows(np.ones((3, 2)))
    assert Ensemble([], None, rows).without_rows().rows is None
    rows.remote = True
    assert Ensemble([], None, rows).without_rows().rows is rows


# A single clustering


def test_a_single_clustering_is_no_ensemble():
    labels = np.random.default_rng(0).integers(0, 6, size=(200, 1))
    with pytest.warns(UserWarning, match="no ensemble: which of its 6 clusters are merged is arbitrary"):
        consensus(labels, 2, random_state=0)
    with pytest.raises(ValueError, match="compares halves of the base clusterings, and base_labels has only 1"):
        consensus(labels, "auto", random_state=0)


@pytest.mark.parametrize("n_clusters", [1, 6])
def test_a_single_clustering_may_be_kept_as_it_is(n_clusters):
    labels = np.random.default_rng(0).integers(0, 6, size=(200, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = consensus(labels, n_clusters, random_state=0)
    assert len(np.unique(found)) == n_clusters


@pytest.mark.parametrize(("sizes", "n_clusters"), [([6, 6], 2), ([6], 6), ([6], 1), ([2], 2), ([6], 9)])
def test_clusterings_that_need_no_choice_give_no_warning(sizes, n_clusters, recwarn):
    warn_if_single(sizes, n_clusters)
    assert not recwarn.list
