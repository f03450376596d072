"""Partitions: labels of rows from their edges, by the nearest centre and by vote."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.common import same_partition
from tests.helpers.edges import dense, graphs, label, lifted, plain_spectrum, random_graph
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral.edges import Edges, new_edges
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.partition import (
    CenterPartition,
    RowLabeler,
    VotePartition,
    embed_all,
    label_all,
    label_rows,
    partition_from_arrays,
    renumber_labels,
    score_facts,
)
from ultraspec.spectral.transfer_cut import Spectrum, lift


def center_partition(seed=0, n=200, k=5):
    """Rows, and a partition by five centres in three of four vectors."""
    edges, vectors = random_graph(n, 30, 3, 4, np.random.default_rng(seed))
    centers = lift(edges, vectors[:, :3])[:k].copy()
    return edges, CenterPartition(plain_spectrum(vectors), centers)


def vote_partition(seed=0, n=200, k=3):
    edges, vectors = random_graph(n, 30, 3, 4, np.random.default_rng(seed))
    groups = (np.arange(30) % k).astype(np.int32)
    return edges, VotePartition(plain_spectrum(vectors), groups, k)


PARTITIONS = {
    "centres": center_partition,
    "votes": vote_partition,
}


@pytest.fixture(params=PARTITIONS)
def made(request):
    return PARTITIONS[request.param]()


# The nearest centre


@settings(max_examples=50)
@given(graph=graphs(), k=st.integers(1, 12), seed=SEEDS)
def test_rows_get_the_nearest_centre(graph, k, seed):
    """Most rows skip the search, by bounds of their scale: these must never decide wrongly."""
    edges, vectors = graph
    E = lifted(edges, vectors)
    random = np.random.default_rng(seed)
    centers = (E[random.integers(len(E), size=k)] * random.uniform(0.3, 1, (k, 1))).astype(np.float32)
    sq = oracle.squared_distances(E, centers)
    labels = label(edges, vectors, centers)
    np.testing.assert_allclose(sq[np.arange(len(E)), labels], sq.min(axis=1), atol=1e-4)


def test_most_rows_of_separate_clusters_skip_the_search():
    edges, vectors = random_graph(500, 60, 3, 4, np.random.default_rng(0), groups=3)
    centers = np.array([lift(edges, vectors)[edges.ids[:, 0] % 3 == g].mean(axis=0) for g in range(3)])
    nearest, facts = score_facts(vectors, centers)
    assert (nearest == np.arange(60) % 3).all()
    lengths, products, least, greatest, center_lengths = facts.T
    np.testing.assert_allclose(lengths, np.linalg.norm(vectors, axis=1), rtol=1e-5)
    np.testing.assert_allclose(products, (vectors * centers[nearest]).sum(axis=1), rtol=1e-4)
    np.testing.assert_allclose(center_lengths, np.linalg.norm(centers, axis=1)[nearest], rtol=1e-5)
    assert (least < 1 / lengths).mean() > 0.9
    assert (greatest > 1 / lengths).mean() > 0.9


@settings(max_examples=50)
@given(graph=graphs(), seed=SEEDS)
def test_labels_do_not_depend_on_the_block(graph, seed):
    edges, vectors = graph
    random = np.random.default_rng(seed)
    centers = lift(edges, vectors)[random.integers(len(edges), size=6)]
    whole = label(edges, vectors, centers)
    for rows in (np.array([0]), random.permutation(len(edges)), np.arange(len(edges) // 2)):
        assert (label(edges[rows], vectors, centers) == whole[rows]).all()


# Votes


@settings(max_examples=150)
@given(seed=SEEDS, n=st.integers(1, 80), p=st.integers(1, 40), k=st.integers(1, 9), data=st.data())
def test_the_vote_is_the_largest_sum_of_transition_probabilities(seed, n, p, k, data):
    random = np.random.default_rng(seed)
    edges, vectors = random_graph(n, p, data.draw(st.integers(1, min(p, 8))), 3, random)
    of = random.integers(min(k, p), size=p).astype(np.int32)
    found = VotePartition(Spectrum(np.ones(3), vectors, np.ones(p)), of, int(of.max()) + 1).label(edges)
    sums = oracle.vote(dense(edges, p), of)
    rows = np.arange(n)
    np.testing.assert_allclose(sums[rows, found], sums.max(axis=1), atol=1e-6)
    ordered = np.sort(sums, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-5 if sums.shape[1] > 1 else np.ones(n, dtype=bool)
    np.testing.assert_array_equal(found[clear], sums.argmax(axis=1)[clear])


def test_a_tie_goes_to_the_nearest_representative():
    edges = Edges(np.array([[2, 0], [0, 2]], dtype=np.uint16), np.full((2, 2), 0.5, dtype=np.float32))
    spectrum = Spectrum(np.ones(1), np.ones((3, 1), np.float32), np.ones(3))
    assert VotePartition(spectrum, np.array([0, 1, 1], dtype=np.int32), 2).label(edges).tolist() == [1, 0]


def test_a_cluster_without_votes_is_dropped_with_a_warning():
    """Representative 2 never has most of a row's weight: its cluster has no row, and its neighbours take it over."""
    ids = np.array([[0, 2], [1, 2], [0, 2]], dtype=np.uint16)
    edges = Edges(ids, np.tile(np.array([0.8, 0.2], dtype=np.float32), (3, 1)))
    vectors = np.array([[1, 0], [0, 1], [0.1, 1]], dtype=np.float32)
    partition = VotePartition(Spectrum(np.ones(2), vectors, np.ones(3)), np.array([0, 1, 2], dtype=np.int32), 3)
    with ThreadEngine(1) as engine, pytest.warns(UserWarning, match="Found 2 clusters instead of 3"):
        found, labels = label_rows(edges, partition, engine)
    assert found.n_clusters == 2
    assert found.groups.tolist() == [0, 1, 1]
    assert labels.tolist() == [0, 1, 0]
    assert found.label(edges).tolist() == labels.tolist()


def test_clusters_that_are_dropped_follow_the_most_similar_representative():
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]], dtype=np.float32)
    partition = VotePartition(plain_spectrum(vectors), np.array([0, 1, 2, 3], dtype=np.int32), 4)
    kept = partition.keep(np.array([1, 2]))
    assert kept.groups.tolist() == [0, 0, 1, 1]
    assert kept.n_clusters == 2
    assert partition.n_clusters == 4


# Both


def test_partitions_come_back_from_arrays(made):
    edges, partition = made
    again = partition_from_arrays({**partition.arrays(), "sigma": np.asarray(1.0)})  # other arrays are ignored
    assert type(again) is type(partition)
    assert again.n_clusters == partition.n_clusters
    assert again.n_vectors == partition.n_vectors
    assert again.label(edges).tobytes() == partition.label(edges).tobytes()
    assert again.embed(edges).tobytes() == partition.embed(edges).tobytes()
    assert set(again.arrays()) == set(partition.arrays())


def test_pickles_leave_derived_tables_out(made):
    edges, partition = made
    labels = partition.label(edges)
    partition.embed(edges)
    assert any(name.startswith("_") for name in vars(partition))
    again = pickle.loads(pickle.dumps(partition))
    assert not any(name.startswith("_") for name in vars(again))
    assert (again.label(edges) == labels).all()


def test_rows_are_embedded_by_the_vectors_that_are_used(made):
    edges, partition = made
    assert partition.n_vectors == 3
    wanted = lifted(edges, partition.spectrum.vectors[:, :3])
    np.testing.assert_allclose(partition.embed(edges), wanted, atol=1e-5)
    with ThreadEngine(2) as engine:
        assert embed_all(edges, partition, engine).tobytes() == partition.embed(edges).tobytes()


def test_all_rows_are_labelled_and_empty_clusters_dropped(engine):
    edges, partition = center_partition()
    distant = np.concatenate([partition.centers, -partition.centers[:1]])
    distant[-1, 0] = -1  # the first coordinate of all rows is positive
    labels = np.empty(len(edges), dtype=np.int32)
    used, sizes = label_all(edges, CenterPartition(partition.spectrum, distant), labels, engine)
    assert used.n_clusters == len(np.unique(labels)) <= 5
    assert (labels == used.label(edges)).all()
    assert (sizes == np.bincount(labels)).all()
    again, sizes_again = label_all(edges, used, None, engine)
    assert again is used  # nothing to drop, and nothing to write
    assert (sizes_again == sizes).all()


def test_labels_of_clusters_with_rows_give_no_warning(made, engine, recwarn):
    edges, partition = made
    used, labels = label_rows(edges, partition, engine)
    assert same_partition(labels, partition.label(edges))
    assert (labels == used.label(edges)).all()
    assert not recwarn.list


def test_clusters_are_numbered_by_size(made, engine):
    edges, partition = made
    before = partition.label(edges)
    used, labels = label_rows(edges, partition, engine)
    sizes = np.bincount(labels)
    assert (np.diff(sizes) <= 0).all()
    order = np.argsort(-np.bincount(before), kind="stable")
    assert (order[labels] == before).all()
    again, labels_again = label_rows(edges, used, engine)
    assert again is used  # in order already
    assert (labels_again == labels).all()
    restored = partition_from_arrays(used.arrays())
    assert (restored.label(edges) == labels).all()


def test_numbers_are_changed_twice():
    edges, partition = center_partition()
    first, second = np.array([2, 0, 1, 4, 3]), np.array([1, 4, 0, 3, 2])
    twice = partition.renumber(first).renumber(second)
    assert (first[second][twice.label(edges)] == partition.label(edges)).all()
    assert (twice.centers == partition.centers).all()


def test_labels_of_blocks_are_renumbered():
    labels = np.array([0, 1, 2, 2, 1, 2], dtype=np.int32)
    with ThreadEngine(2) as engine:
        renumber_labels(labels, np.array([2, 1, 0]), [(0, 4), (4, 6)], engine)
    assert labels.tolist() == [2, 1, 0, 0, 1, 0]


# Rows that need no search


@pytest.mark.parametrize("d", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("layout", ["halves", "chance", "one", "repeated"])
def test_rows_inside_of_clusters_get_their_label_without_a_search(d, exact, layout, engine, monkeypatch):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(3_000, d)).astype(np.float32)
    if layout == "repeated":
        X = np.round(X, 1)
    R = np.unique(X[:200], axis=0)
    index = RepresentativeIndex.build(R, 5, 2, exact, rng, engine)
    R, p = index.representatives, len(R)
    groups = {"chance": rng.integers(0, 3, p), "one": np.zeros(p)}.get(layout, R[:, 0] > 0).astype(np.int32)
    partition = VotePartition(plain_spectrum(np.ones((p, 2), dtype=np.float32)), groups, int(groups.max()) + 1)
    wanted = partition.label(new_edges(X, index, 0.5))
    searched = []
    around = RepresentativeIndex.query_around
    monkeypatch.setattr(
        RepresentativeIndex, "query_around", lambda *args: searched.append(len(args[1])) or around(*args)
    )
    labeler = RowLabeler(index, 0.5, partition)
    assert (labeler.label(X) == wanted).all()
    assert (pickle.loads(pickle.dumps(labeler)).label(X[:7]) == wanted[:7]).all()
    if d == 2 and layout == "halves":
        assert 0 < searched[0] < 1_500
    if layout == "one" and d < 9:
        assert searched == []


def test_rows_that_are_far_from_all_representatives_are_searched(engine):
    R = np.array([[0, 0], [1, 0], [0, 1], [9, 9]], dtype=np.float32)
    index = RepresentativeIndex.build(R, 2, 2, True, np.random.default_rng(0), engine)
    groups = (index.representatives[:, 0] > 5).astype(np.int32)
    partition = VotePartition(plain_spectrum(np.ones((4, 2), dtype=np.float32)), groups, 2)
    X = np.array([[1e15, 1e15], [-1e15, 3], [0.1, 0.1], [1e-25, 0]], dtype=np.float32)
    labels = RowLabeler(index, 1.0, partition).label(X)
    assert (labels == partition.label(new_edges(X, index, 1.0))).all()
    assert labels[2:].tolist() == [0, 0]
