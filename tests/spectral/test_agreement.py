"""Groups of representatives against their definitions, and rows by vote against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import squareform

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.spectral.test_embedding import random_graph
from ultraspec._kernels.agreement import add_votes
from ultraspec.cluster.linkage import agglomerate
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import agreement
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.partition import VotePartition, label_rows
from ultraspec.spectral.transfer_cut import Spectrum


def dense(edges, p):
    T = np.zeros((len(edges), p))
    np.add.at(T, (np.arange(len(edges))[:, None], edges.ids.astype(int)), edges.weights)
    return T


def clumps(p=240, k=4, n_vectors=12, spread=0.05, seed=0):
    """A spectrum whose representatives lie in k bundles of directions, of unequal degrees."""
    random = np.random.default_rng(seed)
    y = np.sort(random.integers(k, size=p))
    vectors = np.eye(k, n_vectors)[y] + spread * random.standard_normal((p, n_vectors))
    return Spectrum(np.linspace(1, 0.5, n_vectors), vectors.astype(np.float32), random.random(p) + 0.1), y


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


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(1, 25), n_labelings=st.integers(1, 6))
def test_co_association_is_its_definition(seed, p, n_labelings):
    random = np.random.default_rng(seed)
    masses = random.random(p) + 0.01
    labelings = [random.integers(random.integers(1, p + 1), size=p).astype(np.int32) for _ in range(n_labelings)]
    found = agreement.co_association(labelings, masses)
    np.testing.assert_allclose(found, oracle.co_association(labelings, masses), rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_average_linkage_of_all_the_objects(seed):
    """With whole masses, each representative stands for so many equal objects of SciPy's linkage."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 5, size=12)
    labelings = [random.integers(4, size=12).astype(np.int32) for _ in range(7)]
    C = agreement.co_association(labelings, sizes.astype(float)) + 1e-3 * random.random((12, 12))
    C = ((C + C.T) / 2).astype(np.float64)
    tree = agglomerate(C, sizes, similarity=True)
    owner = np.repeat(np.arange(12), sizes)
    far = C.max() + 1 - C[np.ix_(owner, owner)]
    far[owner[:, None] == owner] = 0  # objects of one representative come first
    np.fill_diagonal(far, 0)
    expanded = scipy.cluster.hierarchy.linkage(squareform(far, checks=False), "average")
    for k in range(1, 12):
        wanted = scipy.cluster.hierarchy.fcluster(expanded, k, "maxclust")
        first = wanted[np.concatenate([[0], np.cumsum(sizes)[:-1]])]
        assert len(set(zip(first, tree.cut(k), strict=True))) == k


def test_rough_clusterings_draw_their_size_from_the_range():
    assert agreement.rough_range(5, 60, 1000) == (20, 60)
    assert agreement.rough_range(25, 60, 1000) == (25, 60)
    assert agreement.rough_range(40, 80, 1000) == (40, 80)
    assert agreement.rough_range(5, 60, 100) == (12, 12)  # few representatives
    assert agreement.rough_range(5, 4, 4) == (4, 4)
    assert agreement.rough_range(1, 1, 1) == (1, 1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_both_ways_find_bundles_of_directions(n_jobs):
    spectrum, y = clumps()
    with ThreadEngine(n_jobs) as engine:
        found, n_iter = agreement.cluster_representatives(spectrum, 4, 3, 100, np.random.default_rng(0), engine)
        tree = agreement.agreement_tree(spectrum, 4, np.random.default_rng(0), engine)
    assert len(set(zip(y, found, strict=True))) == 4
    assert n_iter >= 1
    assert len(set(zip(y, tree.cut(4), strict=True))) == 4
    assert tree.sizes[-1] == pytest.approx(1.0)


def test_the_tree_does_not_depend_on_threads():
    spectrum, _ = clumps(p=300, spread=0.3)
    trees = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as engine:
            trees.append(agreement.agreement_tree(spectrum, 4, np.random.default_rng(3), engine))
    for tree in trees[1:]:
        assert tree.merges.tobytes() == trees[0].merges.tobytes()
        assert tree.heights.tobytes() == trees[0].heights.tobytes()


def test_heavier_representatives_draw_the_centres():
    """k-means of weighted points: with k = 1 the inertia's centre is the weighted mean, so weights are in use."""
    spectrum, y = clumps(k=2, spread=0.02)
    heavy = Spectrum(spectrum.eigenvalues, spectrum.vectors, np.where(y == 0, 1e6, 1.0) * spectrum.degrees)
    with ThreadEngine(1) as engine:
        labels = [
            agreement.cluster_representatives(s, 2, 1, 50, np.random.default_rng(0), engine)[0]
            for s in (spectrum, heavy)
        ]
    assert len(set(zip(y, labels[0], strict=True))) == 2
    assert len(set(labels[1][y == 0])) == 2  # splitting the heavy bundle now saves more than telling the light one


def test_representatives_without_rows_follow_their_twin():
    spectrum, _ = clumps()
    vectors, degrees = spectrum.vectors.copy(), spectrum.degrees.copy()
    vectors[7], degrees[7] = vectors[100], 0.0
    bare = Spectrum(spectrum.eigenvalues, vectors, degrees)
    with ThreadEngine(1) as engine:
        tree = agreement.agreement_tree(bare, 4, np.random.default_rng(0), engine)
    for k in range(1, 30):
        cut = tree.cut(k)
        assert cut[7] == cut[100]


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
