"""Sums of a sparse affinity: those of the dense one, however rows are divided into blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS, Case
from tests.helpers.edges import connected, random_graph
from ultraspec._kernels import graph as kernels
from ultraspec._kernels.pairs import FREE, place_of
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral import sparse_graph, transfer_cut
from ultraspec.spectral.sparse_graph import PairSums
from ultraspec.spectral.transfer_cut import ONE, Graph, reduce_graph


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Let tables start small, so that they grow."""
    monkeypatch.setattr(sparse_graph, "LEAST_PLACES", 64)


def made(n, p, K, seed):
    """Edges, degrees and weights of random rows."""
    random = np.random.default_rng(seed)
    edges, _ = random_graph(n, p, K, 1, random)
    return edges, random.random(n) + 0.1, random.random(n) + 0.5


def dense_sums(edges, degrees, weights, p):
    W, counts = np.zeros((p, p)), np.zeros(p)
    kernels.reduce_pairs(edges.ids, edges.weights, degrees, weights, W, counts)
    return W + np.triu(W, 1).T, counts


def added(edges, degrees, weights, p, bounds=()):
    """Sums of rows that are added in blocks."""
    sums, counts = PairSums(p), np.zeros(p)
    ends = sorted({0, len(edges), *(bound for bound in bounds if bound < len(edges))})
    for low, high in pairwise(ends):
        part = slice(low, high)
        some = weights[part] if len(weights) > 1 else weights
        sums.add_rows(edges.ids[part], edges.weights[part], degrees[part], some, counts)
    return sums, counts


@settings(max_examples=60)
@given(
    seed=SEEDS,
    n=st.integers(2, 300),
    p=st.integers(8, 2000),
    K=st.integers(1, 8),
    bounds=st.lists(st.integers(1, 299), max_size=4),
)
def test_sums_are_those_of_the_dense_graph_in_any_blocks(seed, n, p, K, bounds):
    edges, degrees, weights = made(n, p, K, seed)
    sums, counts = added(edges, degrees, weights, p, bounds)
    wanted, wanted_counts = dense_sums(edges, degrees, weights, p)
    matrix = sums.matrix()
    assert scipy.sparse.issparse(matrix)
    np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-12)
    np.testing.assert_allclose(counts, wanted_counts, rtol=1e-12)
    assert (matrix != matrix.T).nnz == 0
    assert matrix.has_sorted_indices
    assert sums.n_keys == (sums.keys != FREE).sum() == np.count_nonzero(np.triu(wanted))


def test_one_weight_serves_all_rows():
    edges, degrees, _ = made(80, 30, 3, 0)
    sums, counts = added(edges, degrees, ONE, 30, [17])
    wanted, wanted_counts = dense_sums(edges, degrees, np.ones(80), 30)
    np.testing.assert_allclose(sums.matrix().toarray(), wanted, rtol=1e-12)
    assert (counts == wanted_counts).all()


def test_blocks_of_rows_give_the_same_bits():
    """Each pair is summed in the order of the rows, wherever its place in the table is."""
    edges, degrees, weights = made(500, 40, 4, 1)
    found = [added(edges, degrees, weights, 40, bounds)[0].matrix() for bounds in ([], [1, 2, 400], range(0, 500, 7))]
    for matrix in found[1:]:
        assert matrix.data.tobytes() == found[0].data.tobytes()
        assert matrix.indices.tobytes() == found[0].indices.tobytes()
        assert matrix.indptr.tobytes() == found[0].indptr.tobytes()


@pytest.mark.parametrize("p", [50, 3000, 65_535])
def test_tables_grow_and_stay_half_empty(p):
    edges, degrees, weights = made(4000, min(p, 500), 6, 2)
    sums, _ = added(edges, degrees, weights, p)
    assert len(sums.keys) > 64
    assert np.log2(len(sums.keys)) % 1 == 0
    assert sums.n_keys <= sparse_graph.LARGEST_LOAD * len(sums.keys)
    used = np.flatnonzero(sums.keys != FREE)
    assert (np.array([place_of(key, sums.keys) for key in sums.keys[used[:200]]]) == used[:200]).all()


def test_ids_up_to_the_largest():
    edges, degrees, _ = made(50, 40, 3, 3)
    edges.ids[:] += np.uint16(65_535 - 40)
    sums, counts = added(edges, degrees, ONE, 65_535)
    matrix = sums.matrix()
    assert matrix.shape == (65_535, 65_535)
    edges.ids[:] -= np.uint16(65_535 - 40)
    np.testing.assert_allclose(matrix[-40:, -40:].toarray(), dense_sums(edges, degrees, ONE, 40)[0], rtol=1e-12)
    assert counts.sum() == 50


def test_tables_are_merged():
    edges, degrees, weights = made(900, 200, 5, 4)
    whole, _ = added(edges, degrees, weights, 200)
    first, _ = added(edges[:500], degrees[:500], weights[:500], 200)
    second, _ = added(edges[500:], degrees[500:], weights[500:], 200)
    n_first = first.n_keys
    merged = first.merge(second)
    assert merged is first
    assert max(n_first, second.n_keys) <= merged.n_keys == whole.n_keys
    np.testing.assert_allclose(merged.matrix().toarray(), whole.matrix().toarray(), rtol=1e-12)


def test_an_empty_table_is_merged_and_is_an_empty_matrix():
    edges, degrees, weights = made(30, 20, 2, 5)
    sums, _ = added(edges, degrees, weights, 20)
    before = sums.matrix().toarray()
    assert (sums.merge(PairSums(20)).matrix().toarray() == before).all()
    assert (PairSums(20).merge(sums).matrix().toarray() == before).all()
    assert PairSums(20).matrix().nnz == 0


# The graph of the representatives


def both_graphs(monkeypatch, engine, power=1.0, case=None):
    """The graph of a case as a dense and as a sparse one."""
    case = case or Case("clumps", 3000, 60, 3, 5, 10, 0)
    graphs = []
    for most in (1500, 10):
        monkeypatch.setattr(transfer_cut, "DENSE_REPRESENTATIVES", most)
        _, edges, _ = connected(case, engine)
        graphs.append(reduce_graph(edges, ArrayRows(case.X), case.p, engine, power))
    return graphs


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_graphs_of_many_representatives_are_sparse(monkeypatch, engine, power):
    dense, sparse = both_graphs(monkeypatch, engine, power)
    assert isinstance(dense.affinity, np.ndarray)
    assert scipy.sparse.issparse(sparse.affinity)
    np.testing.assert_allclose(sparse.affinity.toarray(), dense.affinity, rtol=1e-12)
    assert (sparse.counts == dense.counts).all()
    assert (sparse.component_sizes() == dense.component_sizes()).all()


def test_sparse_graphs_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(transfer_cut, "SPARSE_ENTRIES", 1)  # many partial graphs
    found = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as threads:
            found.append(both_graphs(monkeypatch, threads)[1].affinity)
    for matrix in found[1:]:
        assert matrix.data.tobytes() == found[0].data.tobytes()
        assert matrix.indices.tobytes() == found[0].indices.tobytes()


def test_sparse_graphs_come_back_from_arrays(monkeypatch, engine):
    _, sparse = both_graphs(monkeypatch, engine)
    again = Graph.from_arrays(sparse.arrays())
    assert (again.affinity != sparse.affinity).nnz == 0
    assert (again.counts == sparse.counts).all()


def test_sparse_and_dense_graphs_have_the_same_spectrum(monkeypatch, engine):
    dense, sparse = both_graphs(monkeypatch, engine)
    R = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    wanted = transfer_cut.transfer_cut(dense, 6, 1e-3, R)
    found = transfer_cut.transfer_cut(sparse, 6, 1e-3, R, engine)
    np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, atol=1e-6)
    np.testing.assert_allclose(found.degrees, wanted.degrees, rtol=1e-12)
    # projectors on the span of the first vectors are free of signs and bases
    for m in (m for m in range(1, 6) if wanted.eigenvalues[m - 1] - wanted.eigenvalues[m] > 1e-3):
        roots = np.sqrt(wanted.degrees + 1e-3 * wanted.degrees.mean())[:, None]
        spans = [np.linalg.qr(roots * each.vectors[:, :m])[0] for each in (wanted, found)]
        np.testing.assert_allclose(spans[1] @ spans[1].T, spans[0] @ spans[0].T, atol=1e-3)


def test_unused_representatives_of_a_sparse_graph_take_the_vector_of_the_nearest(engine):
    W = scipy.sparse.block_array([[scipy.sparse.csr_array(np.ones((3, 3))), None], [None, np.zeros((2, 2))]]).tocsr()
    graph = Graph(scipy.sparse.csr_array(W), np.array([1.0, 1, 1, 0, 0]))
    R = np.array([[0], [1], [2], [1.9], [0.1]], dtype=np.float32)
    spectrum = transfer_cut.transfer_cut(graph, 2, 1e-3, R, engine)
    assert (spectrum.vectors[3] == spectrum.vectors[2]).all()
    assert (spectrum.vectors[4] == spectrum.vectors[0]).all()
    assert spectrum.degrees.tolist() == [3, 3, 3, 0, 0]
