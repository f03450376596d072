"""Consensus by average linkage of the first member's representatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.edges import clumps, dense, random_graph
from ultraspec import USENC, datasets, metrics
from ultraspec._kernels.agreement import add_votes
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.average_linkage import AverageLinkage, tree_of_members
from ultraspec.ensemble.consensus import Ensemble


@pytest.fixture(scope="module")
def face():
    """Four pieces of a face, the mouth longer than the rest: k-means of the embedding cuts it."""
    return datasets.generate("sf", 6_000, random_state=0)


# Votes


@settings(max_examples=60)
@given(seed=SEEDS, n=st.integers(1, 60), p=st.integers(1, 20), m=st.integers(1, 4))
def test_votes_of_members_are_dense_algebra(seed, n, p, m):
    random = np.random.default_rng(seed)
    edges, _ = random_graph(n, p, min(p, 3), 2, random)
    sizes = random.integers(1, 6, size=m)
    labels = np.column_stack([random.integers(size, size=n) for size in sizes]).astype(np.uint8)
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    votes = np.zeros((p, sizes.sum()))
    add_votes(edges.ids, edges.weights, labels, firsts, votes)
    T = dense(edges, p)
    wanted = np.hstack([T.T @ np.eye(size)[labels[:, j]] for j, size in enumerate(sizes)])
    np.testing.assert_allclose(votes, wanted, atol=1e-6)


def votes_of(labels, k):
    """Votes of representatives that have one row each."""
    return np.eye(k)[labels]


def test_members_that_agree_give_their_clusters():
    spectrum, bundles = clumps()
    votes = np.hstack([votes_of(bundles, 4), votes_of(3 - bundles, 4), votes_of(bundles // 2, 2)])
    tree = tree_of_members(spectrum, votes, [4, 4, 2])
    assert len(set(zip(tree.cut(4), bundles, strict=True))) == 4
    assert len(set(zip(tree.cut(2), bundles // 2, strict=True))) == 2


def test_representatives_without_rows_follow_the_one_with_their_vector():
    spectrum, bundles = clumps()
    spectrum.vectors[7] = spectrum.vectors[100]
    votes = votes_of(bundles, 4)
    votes[7] = 0
    tree = tree_of_members(spectrum, votes, [4])
    for k in (2, 3, 4):
        labels = tree.cut(k)
        assert labels[7] == labels[100]


# Fits


def test_average_joins_the_members_as_it_is_defined(face):
    X, _ = face
    model = USENC(4, n_estimators=4, consensus="average", random_state=0).fit(X)
    first, base_labels = model._fitted.members[0], model.base_labels_
    with ThreadEngine(1):
        edges = first.edges(model._fitted.preprocessor.prepare(X))
    T = np.zeros((len(X), len(first.index.representatives)))
    np.add.at(T, (np.arange(len(X))[:, None], edges.ids.astype(int)), edges.weights)
    labelings = [oracle.moved_labels(T, column, column.max() + 1) for column in base_labels.T]
    masses = first.partition.spectrum.degrees / first.partition.spectrum.degrees.sum()
    C = oracle.co_association(labelings[:1], masses)  # literal, and slow: one member stands for its own groups
    tree = model._fitted.partition.tree
    assert tree.n_leaves == len(masses)
    assert np.isclose(tree.heights[0], tree.heights.max())
    sums = oracle.vote(T, model._fitted.partition.groups)
    clear = np.sort(sums, axis=1)[:, -1] - np.sort(sums, axis=1)[:, -2] > 1e-5
    np.testing.assert_array_equal(model.labels_[clear], sums.argmax(axis=1)[clear])
    assert (C.max(axis=1) > 0).all()


def test_confidence_is_the_share_of_members_whose_majority_has_the_label(face):
    model = USENC(4, n_estimators=5, consensus="average", random_state=0).fit(face[0])
    supporting = np.zeros(len(model.labels_))
    for column in model.base_labels_.T:
        votes = np.zeros((column.max() + 1, 4))
        np.add.at(votes, (column, model.labels_), 1)
        supporting += votes.argmax(axis=1)[column] == model.labels_
    np.testing.assert_allclose(model.confidence_, supporting / 5, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_average_never_collapses_on_bananas_and_circles(seed):
    for name, k, least in (("tb", 2, 0.9), ("cc", 3, 0.95)):
        X, y = datasets.generate(name, 20_000, random_state=seed)
        labels = USENC(k, n_estimators=8, consensus="average", random_state=seed).fit_predict(X)
        assert metrics.nmi(y, labels) > least


def test_rows_that_vote_must_be_at_hand(face, engine):
    model = USENC(4, n_estimators=2, n_representatives=60, random_state=0).fit(face[0])
    members = Ensemble(list(model._fitted.members), model.base_labels_, None)
    with pytest.raises(ValueError, match=r"does not hold the rows that vote.*Call cut\(n_clusters, X\)"):
        AverageLinkage.build(members, 4, 1e-3, engine)
