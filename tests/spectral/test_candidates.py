"""Candidates: trees against a literal agglomeration, and cuts of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.edges import clumps
from ultraspec._kernels import linkage as kernels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import candidates, labelings
from ultraspec.spectral.candidates import CANDIDATES, FAINT_EDGE, TREES, Hierarchy, build_hierarchy
from ultraspec.spectral.transfer_cut import Graph, Spectrum

METHODS = {"linked": kernels.LINKED, "border": kernels.BORDER}


def random_case(p, seed, n_labelings=6, k=4):
    """Rough clusterings with distinct patterns, a sparse graph and a spectrum with its degrees."""
    random = np.random.default_rng(seed)
    rough = [random.integers(k, size=p).astype(np.int32) for _ in range(n_labelings)]
    W = random.random((p, p)) * (random.random((p, p)) < 0.5)
    W = np.triu(W, 1) + np.triu(W, 1).T + np.diag(random.random(p) + 0.1)
    spectrum = Spectrum(np.linspace(1, 0.5, 3), random.random((p, 3)).astype(np.float32), W.sum(axis=1))
    return rough, W, spectrum


def built(W, spectrum, rough, n_clusters=3):
    return candidates.hierarchy_of_labelings(Graph(W, np.ones(W.shape[0])), spectrum, rough, n_clusters, 0)


def clusters(labels):
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(labels.max() + 1)}


def clumped(p=240, spread=0.05):
    """A spectrum of four bundles of directions, and a graph whose edges stay within them."""
    spectrum, y = clumps(p=p, spread=spread)
    random = np.random.default_rng(0)
    W = (y[:, None] == y) * random.random((p, p)) + 1e-3
    return Graph((W + W.T) / 2, np.ones(p)), spectrum, y


# Trees


@settings(max_examples=40)
@given(seed=SEEDS, p=st.integers(2, 25), name=st.sampled_from(list(METHODS)), sparse=st.booleans())
def test_trees_are_a_literal_agglomeration(seed, p, name, sparse):
    rough, W, spectrum = random_case(p, seed)
    hierarchy = built(scipy.sparse.csr_array(W) if sparse else W, spectrum, rough)
    weights = labelings.degree_shares(spectrum)
    C = oracle.co_association(rough, weights)
    faint = W + FAINT_EDGE * W.mean()
    steps = oracle.linked_merges(C, faint, weights, hierarchy.nodes, name)
    tree = hierarchy.trees[name]
    assert tree.n_leaves == hierarchy.n_nodes
    np.testing.assert_allclose(tree.heights, [height for _, height in steps], rtol=1e-4)
    for t, (wanted, _) in enumerate(steps):
        k = tree.n_leaves - 1 - t
        assert clusters(tree.cut(k)[hierarchy.nodes]) == wanted
    sizes = np.bincount(hierarchy.nodes, weights)
    np.testing.assert_allclose(tree.sizes[-1], sizes.sum(), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS.values())
def test_similarities_by_their_formulas(method):
    random = np.random.default_rng(0)
    name = list(METHODS)[method]
    means, links = (np.triu(M) + np.triu(M, 1).T for M in random.random((2, 5, 5)))
    masses = random.random(5)
    volumes = links.sum(axis=1)
    wanted = oracle.similarities(means, links, masses, name)
    for a in range(5):
        for b in range(5):
            if a != b:
                found = kernels.similarity_of(
                    means[a, b], links[a, b], masses[a], masses[b], volumes[a], volumes[b], method
                )
                assert found == pytest.approx(wanted[a, b], rel=1e-12)


@settings(max_examples=30)
@given(seed=SEEDS, g=st.integers(2, 30), method=st.sampled_from(list(METHODS.values())))
def test_merges_take_the_most_similar_pair_each_time(seed, g, method):
    """The kernel remembers the most similar cluster of each: compare with a search of all pairs."""
    random = np.random.default_rng(seed)
    means, links = (np.triu(M) + np.triu(M, 1).T for M in random.random((2, g, g)) + 0.01)
    masses = random.random(g) + 0.1
    merges, heights = np.empty((g - 1, 2), dtype=np.int64), np.empty(g - 1)
    kernels.merge_linked(means.copy(), links.copy(), masses.copy(), links.sum(axis=1), method, merges, heights)
    steps = oracle.linked_merges(means, links, masses, np.arange(g), list(METHODS)[method])
    np.testing.assert_allclose(heights, [height for _, height in steps], rtol=1e-9)
    below = [[i] for i in range(g)]
    now = {frozenset([i]) for i in range(g)}
    for (a, b), (wanted, _) in zip(merges.tolist(), steps, strict=True):
        assert a < b
        now = now - {frozenset(below[a]), frozenset(below[b])} | {frozenset(below[a] + below[b])}
        below.append(below[a] + below[b])
        assert now == wanted


def test_trees_agree_below_the_groups_that_they_start_from(monkeypatch):
    monkeypatch.setattr(candidates, "TOP_GROUPS", 6)
    rough, W, spectrum = random_case(40, 0)
    hierarchy = built(W, spectrum, rough, n_clusters=1)
    trees = hierarchy.trees
    kept = hierarchy.n_nodes - 6
    for name in METHODS:
        assert (trees[name].merges[:kept] == trees["agreement"].merges[:kept]).all()
        assert (trees[name].heights[:kept] == trees["agreement"].heights[:kept]).all()
        assert (trees[name].cut(6) == trees["agreement"].cut(6)).all()
        assert sorted(trees[name].merges.ravel()) == list(range(2 * hierarchy.n_nodes - 2))  # each node once


def test_trees_start_from_more_groups_for_more_clusters(monkeypatch):
    monkeypatch.setattr(candidates, "TOP_GROUPS", 6)
    rough, W, spectrum = random_case(40, 0)
    hierarchy = built(W, spectrum, rough, n_clusters=4)
    trees = hierarchy.trees
    assert (trees["linked"].cut(16) == trees["agreement"].cut(16)).all()
    assert (trees["linked"].cut(15) != trees["agreement"].cut(15)).any()


@pytest.mark.parametrize("name", TREES)
def test_cuts_are_nested(name, engine):
    graph, spectrum, _ = clumped(spread=0.4)
    hierarchy = build_hierarchy(graph, spectrum, 4, 20, 0, engine)
    for k in range(1, 30):
        coarse, fine = (hierarchy.cut(name, each, engine) for each in (k, k + 1))
        assert coarse.max() + 1 == k
        assert len(set(zip(coarse, fine, strict=True))) == k + 1


@pytest.mark.parametrize("name", CANDIDATES)
@pytest.mark.parametrize("sparse", [False, True])
def test_all_candidates_find_bundles_of_directions(name, sparse, engine):
    graph, spectrum, y = clumped()
    if sparse:
        graph = Graph(scipy.sparse.csr_array(graph.affinity), graph.counts)
    hierarchy = build_hierarchy(graph, spectrum, 4, 30, 0, engine)
    labels = hierarchy.cut(name, 4, engine)
    assert labels.dtype == np.int32
    assert len(set(zip(y, labels, strict=True))) == 4


def test_hierarchies_do_not_depend_on_threads():
    graph, spectrum, _ = clumped(spread=0.4)
    found = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as threads:
            hierarchy = build_hierarchy(graph, spectrum, 4, 20, 3, threads)
            arrays = {**hierarchy.arrays(), "kmeans": hierarchy.cut("kmeans", 5, threads)}
            found.append({name: array.tobytes() for name, array in arrays.items()})
    assert found[0] == found[1] == found[2]


def test_representatives_without_rows_follow_their_twin(engine):
    graph, spectrum, _ = clumped()
    spectrum.vectors[7], spectrum.degrees[7] = spectrum.vectors[100], 0.0
    hierarchy = build_hierarchy(graph, spectrum, 4, 30, 0, engine)
    assert hierarchy.nodes[7] == hierarchy.nodes[100]


# State


@pytest.mark.parametrize("p", [1, 2, 40])
def test_hierarchies_come_back_from_arrays(p, engine):
    rough, W, spectrum = random_case(p, 0)
    hierarchy = built(W, spectrum, rough)
    arrays = hierarchy.arrays()
    assert all(array.size for array in arrays.values())  # files hold no empty arrays
    again = Hierarchy.from_arrays(spectrum, {**arrays, "sigma": np.ones(1)})  # other arrays are ignored
    assert again.n_nodes == hierarchy.n_nodes
    assert again.seed == hierarchy.seed
    assert {name: array.tobytes() for name, array in again.arrays().items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }
    for name in CANDIDATES:
        for k in range(1, min(hierarchy.n_nodes, 3) + 1):
            assert (again.cut(name, k, engine) == hierarchy.cut(name, k, engine)).all()


def test_a_single_node_is_one_cluster(engine):
    """All representatives have the same labels: trees have no merges."""
    rough = [np.zeros(5, dtype=np.int32)] * 3
    _, W, spectrum = random_case(5, 0)
    hierarchy = built(W, spectrum, rough)
    assert hierarchy.n_nodes == 1
    assert set(hierarchy.arrays()) == {"nodes", "seed"}
    for name in TREES:
        assert hierarchy.trees[name].n_leaves == 1
        assert hierarchy.cut(name, 1, engine).tolist() == [0] * 5
        with pytest.warns(ConvergenceWarning, match="Found 1 clusters instead of 3: the representatives have too few"):
            assert hierarchy.cut(name, 3, engine).tolist() == [0] * 5


def test_too_few_distinct_embeddings_are_warned_of(engine):
    spectrum, _ = clumps(spread=0.0, n_vectors=6)
    graph = Graph(np.ones((240, 240)), np.ones(240))
    hierarchy = build_hierarchy(graph, spectrum, 6, 20, 0, engine)
    for name in CANDIDATES:
        with pytest.warns(ConvergenceWarning, match="Found 4 clusters instead of 6"):
            labels = hierarchy.cut(name, 6, engine)
        assert labels.max() == 3
