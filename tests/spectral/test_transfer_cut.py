"""The bipartite graph: affinities, the p x p reduction, eigenvectors and the lift against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS, Case, cases
from tests.helpers.common import same_partition
from tests.helpers.edges import connected, dense
from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows.interface import cut_span, even_runs
from ultraspec.spectral import transfer_cut
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.transfer_cut import Graph

TAUS = st.sampled_from([0.0, 1e-4, 1e-3, 1e-1])
# float32 distances shift an exponent by a share of its size, so affinities far below one are good to fewer digits
RTOL, ATOL = 1e-5, 1e-7


class Cut:
    """Rows that are cut into blocks of a given size."""

    def __init__(self, n, step):
        self._blocks = cut_span((0, n), step)

    def runs(self, most):
        return even_runs(self._blocks, most)


def reduced(case, engine, step=64):
    """Transition edges and the graph of the library, and the oracle's B from the same neighbours."""
    index, edges, sigma = connected(case, engine)
    B = oracle.affinity(edges.ids, np.sqrt(edges.weights.astype(np.float64)), sigma, case.p)
    graph = transfer_cut.reduce_graph(edges, Cut(case.n, step), case.p, engine)
    return index, edges, graph, B


# Reduction


@settings(max_examples=150)
@given(case=cases(), step=st.sampled_from([1, 7, 64]))
def test_reduced_affinity(case, step, engine):
    _, edges, graph, B = reduced(case, engine, step)
    np.testing.assert_allclose(dense(edges, case.p), oracle.transition(B), rtol=RTOL, atol=ATOL)
    W = oracle.reduced_affinity(B)
    np.testing.assert_allclose(graph.affinity, W, rtol=RTOL, atol=ATOL * W.max())
    assert (graph.affinity == graph.affinity.T).all()
    assert (graph.counts == np.bincount(edges.ids[:, 0], minlength=case.p)).all()


@settings(max_examples=80)
@given(case=cases())
def test_whole_graph_from_the_same_representatives(case, engine):
    """Rows and representatives in, W out: no intermediate result is borrowed from the library."""
    index, _, graph, _ = reduced(case, engine)
    ids, distances = oracle.exact_neighbors(case.X, index.representatives, case.K)
    if case.p > case.K:  # a tie at the last place may be broken either way
        beyond = oracle.exact_neighbors(case.X, index.representatives, case.K + 1)[1]
        assume((beyond[:, -1] > beyond[:, -2] * (1 + 1e-5)).all())
    W = oracle.reduced_affinity(oracle.affinity(ids, distances, oracle.sigma(distances), case.p))
    np.testing.assert_allclose(graph.affinity, W, rtol=5e-5, atol=1e-6 * W.max())


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_rows_weigh_as_a_power_of_their_degree(power, engine):
    """W = T' D_x^a T, where the paper has a = 1."""
    case = Case("clumps", 300, 30, 3, 4, 10, 0)
    _, edges, sigma = connected(case, engine)
    B = oracle.affinity(edges.ids, np.sqrt(edges.weights.astype(np.float64)), sigma, case.p)
    graph = transfer_cut.reduce_graph(edges, Cut(case.n, 64), case.p, engine, power)
    T = oracle.transition(B)
    W = T.T @ (B.sum(axis=1, keepdims=True) ** power * T)
    np.testing.assert_allclose(graph.affinity, W, rtol=RTOL, atol=ATOL * W.max())


def test_reduction_does_not_depend_on_threads(engine):
    case = Case("clumps", 4000, 20, 3, 5, 10, 0)
    results = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as threads:
            _, _, graph, _ = reduced(case, threads, step=100)
            results.append((graph.affinity.tobytes(), graph.counts.tobytes()))
    assert results[0] == results[1] == results[2]


def test_far_row_keeps_its_proportions(engine):
    """All affinities of the last row underflow: it is still tied to its representatives, and nothing is NaN."""
    ids = np.array([[0, 1], [1, 0], [2, 0]], dtype=np.uint16)
    distances = np.array([[1, 2], [0.5, 1], [300, 301]])
    edges = Edges(ids, (distances**2).astype(np.float32), sigma=2.0)
    graph = transfer_cut.reduce_graph(edges, Cut(3, 3), 3, engine)
    B = oracle.affinity(ids, distances, 2.0, 3)
    assert np.exp(-(distances[2] ** 2) / 8).max() == 0.0
    assert B[2].sum() == pytest.approx(oracle.EPS)
    np.testing.assert_allclose(dense(edges, 3), oracle.transition(B), rtol=RTOL, atol=1e-30)
    np.testing.assert_allclose(graph.affinity, oracle.reduced_affinity(B), rtol=RTOL)
    assert graph.affinity[2, 2] > 0


def test_component_sizes(engine):
    """Three groups out of each other's reach, and a representative that nobody uses."""
    ids = np.array([[0, 1]] * 4 + [[1, 2]] * 3 + [[3, 3]] * 2 + [[5, 6]] * 6, dtype=np.uint16)
    ids[7:9] = [3, 4]
    edges = Edges(ids, np.tile(np.array([0.25, 1.0], dtype=np.float32), (len(ids), 1)))
    graph = transfer_cut.reduce_graph(edges, Cut(len(ids), 4), 8, engine)
    assert graph.component_sizes().tolist() == [7, 6, 2]
    assert graph.counts.tolist() == [4, 3, 0, 2, 0, 6, 0, 0]


# Eigenvectors


def check_spectrum(spectrum, graph, n_vectors, tau):
    eigenvalues, vectors = oracle.transfer_cut(graph.affinity, n_vectors, tau)
    np.testing.assert_allclose(spectrum.eigenvalues, np.clip(eigenvalues, 0, 1), atol=1e-9)
    assert spectrum.eigenvalues[0] == pytest.approx(1.0)
    assert spectrum.vectors.dtype == np.float32
    used = np.flatnonzero(graph.affinity.diagonal())
    W = graph.affinity[np.ix_(used, used)]
    roots = np.sqrt(oracle.regularized(W, tau).sum(axis=1, keepdims=True))
    ours = roots * spectrum.vectors[used].astype(np.float64)
    ours /= np.linalg.norm(ours[:, 0])  # one scale for all columns is free
    theirs = roots * vectors[used]
    # the columns are orthonormal and span what the oracle's span
    np.testing.assert_allclose(ours.T @ ours, np.eye(ours.shape[1]), atol=1e-4)
    for m in [*oracle.eigengroups(eigenvalues), len(used)]:
        if m <= ours.shape[1]:
            np.testing.assert_allclose(ours[:, :m] @ ours[:, :m].T, theirs[:, :m] @ theirs[:, :m].T, atol=1e-4)


@settings(max_examples=120)
@given(case=cases(most_representatives=80), n_vectors=st.integers(1, 60), tau=TAUS)
def test_transfer_cut(case, n_vectors, tau, engine):
    index, _, graph, _ = reduced(case, engine)
    before = graph.affinity.copy()
    spectrum = transfer_cut.transfer_cut(graph, n_vectors, tau, index.representatives)
    assert (graph.affinity == before).all()
    check_spectrum(spectrum, graph, n_vectors, tau)


def test_graphs_come_back_from_arrays(engine):
    _, _, graph, _ = reduced(Case("normal", 50, 6, 2, 2, 10, 0), engine)
    again = Graph.from_arrays(graph.arrays())
    assert (again.affinity == graph.affinity).all()
    assert (again.counts == graph.counts).all()


def test_regularization_connects_components(engine):
    affinity = scipy.linalg.block_diag(np.ones((3, 3)), 2 * np.ones((2, 2)))
    graph = Graph(affinity, np.ones(5, dtype=np.int64))
    R = np.arange(5, dtype=np.float32)[:, None]
    apart = transfer_cut.transfer_cut(graph, 2, 0.0, R).eigenvalues
    joined = transfer_cut.transfer_cut(graph, 2, 1e-2, R).eigenvalues
    np.testing.assert_allclose(apart, [1, 1], atol=1e-12)
    assert joined[0] == pytest.approx(1)
    # tau mean(d) / p = 0.01 * 3.4 / 5 on every pair: the second eigenvalue in closed form, 1 - cross flow of both sides
    weak = 0.01 * 3.4 / 5
    assert joined[1] == pytest.approx(1 - 6 * weak / (9 + 15 * weak) - 6 * weak / (8 + 10 * weak))


def test_unused_representatives(engine):
    """They are no part of the eigenproblem, and take the vector of the nearest one in use."""
    case = Case("clumps", 150, 40, 3, 3, 10, 3)
    _, _, graph, _ = reduced(case, engine)
    p = case.p
    some = np.array([2, 3, 17, p + 1])
    wider = np.setdiff1d(np.arange(p + 4), some)  # where the old ones went
    W = np.zeros((p + 4, p + 4))
    W[np.ix_(wider, wider)] = graph.affinity
    R = np.random.default_rng(0).standard_normal((p + 4, 3)).astype(np.float32)
    counts = np.zeros(p + 4, dtype=np.int64)
    counts[wider] = graph.counts
    with_unused = transfer_cut.transfer_cut(Graph(W, counts), 8, 1e-3, R)
    without = transfer_cut.transfer_cut(graph, 8, 1e-3, R[wider])
    np.testing.assert_allclose(with_unused.eigenvalues, without.eigenvalues, rtol=1e-12)
    used = np.flatnonzero(W.diagonal())
    unused = np.setdiff1d(np.arange(p + 4), used)
    assert set(some) <= set(unused)
    nearest = used[oracle.assign(R[unused], R[used])]
    assert (with_unused.vectors[unused] == with_unused.vectors[nearest]).all()
    assert np.isfinite(with_unused.vectors).all()


def test_signs_are_fixed(engine):
    case = Case("normal", 100, 30, 4, 5, 10, 1)
    index, _, graph, _ = reduced(case, engine)
    vectors = transfer_cut.transfer_cut(graph, 10, 1e-3, index.representatives).vectors.astype(np.float64)
    used = np.flatnonzero(graph.affinity.diagonal())
    W = graph.affinity[np.ix_(used, used)]
    V = vectors[used] * np.sqrt(oracle.regularized(W, 1e-3).sum(axis=1, keepdims=True))
    assert (V[np.abs(V).argmax(axis=0), np.arange(10)] > 0).all()
    assert (V[:, 0] > 0).all()


def test_more_vectors_than_representatives(engine):
    case = Case("normal", 50, 6, 2, 2, 10, 0)
    index, _, graph, _ = reduced(case, engine)
    spectrum = transfer_cut.transfer_cut(graph, 60, 1e-3, index.representatives)
    assert spectrum.eigenvalues.shape == (6,)
    assert spectrum.vectors.shape == (6, 6)


@settings(max_examples=30)
@given(seed=SEEDS, tau=TAUS)
def test_regularization_divides_eigenvalues_where_degrees_are_equal(seed, tau):
    values = np.random.default_rng(seed).random(12)
    affinity = scipy.linalg.circulant(values)
    graph = Graph(affinity + affinity.T, np.ones(12, dtype=np.int64))
    R = np.arange(12, dtype=np.float32)[:, None]
    plain, regularized = (transfer_cut.transfer_cut(graph, 6, t, R).eigenvalues for t in (0.0, tau))
    np.testing.assert_allclose(regularized[1:], plain[1:] / (1 + tau), atol=1e-12)


# Lift


@settings(max_examples=80)
@given(case=cases(), k=st.integers(1, 40), seed=SEEDS)
def test_lift_with_any_vectors(case, k, seed, engine):
    _, edges, _, B = reduced(case, engine)
    vectors = np.random.default_rng(seed).standard_normal((case.p, k)).astype(np.float32)
    vectors[:, 0] = 1.0  # as the first eigenvector's: lengths stay away from zero
    found = transfer_cut.lift(edges, vectors)
    assert found.shape == (case.n, k)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(found, oracle.embedding(B, vectors), atol=2e-5)
    assert transfer_cut.lift(edges[:1], vectors).tobytes() == found[:1].tobytes()


@settings(max_examples=100)
@given(case=cases(most_representatives=60), tau=TAUS)
def test_embedding(case, tau, engine):
    """Rows and representatives in, inner products of the embedded rows out: free of signs and of bases."""
    index, edges, graph, B = reduced(case, engine)
    T = oracle.transition(B)
    assume(T[T > 0].min() > 1e-30)  # what float32 cannot hold is no edge: a representative may lose its only one
    spectrum = transfer_cut.transfer_cut(graph, 20, tau, index.representatives)
    eigenvalues, vectors = oracle.transfer_cut(oracle.reduced_affinity(B), 20, tau)
    np.testing.assert_allclose(spectrum.eigenvalues, np.clip(eigenvalues, 0, 1), atol=1e-5)
    for m in oracle.eigengroups(eigenvalues, gap=1e-2):
        ours = transfer_cut.lift(edges, spectrum.vectors[:, :m])
        theirs = oracle.embedding(B, vectors[:, :m])
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=2e-3)


# Fragments


def blocks_graph(*sizes):
    """Complete graphs of `sizes` nodes with edges of one, and their places on a line: 0, 1, 2 ..."""
    W = scipy.linalg.block_diag(*(np.ones((size, size)) for size in sizes))
    return Graph(W, np.ones(len(W))), np.arange(len(W), dtype=np.float32)[:, None]


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_a_fragment_gets_an_edge_to_the_nearest_of_a_larger_component(form):
    graph, R = blocks_graph(40, 2, 1, 60)
    graph = Graph(form(graph.affinity), graph.counts)
    before = scipy.sparse.csr_array(graph.affinity).toarray()
    R[42] = 41.9  # nearer to the fragment of two nodes
    found = transfer_cut.attach_fragments(graph, R, GraphOptions.of(USPEC()))
    added = scipy.sparse.csr_array(found.affinity).toarray() - before
    rows, columns = np.nonzero(np.triu(added))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(39, 40), (41, 42)]
    np.testing.assert_allclose(added, added.T)
    assert added.max() == pytest.approx(transfer_cut.BRIDGE * 4)  # of the degrees of two nodes, one step away
    assert (scipy.sparse.csr_array(graph.affinity).toarray() == before).all()


def test_edges_next_to_nothing_connect_nothing():
    graph, R = blocks_graph(50, 50, 1)
    graph.affinity[10, 100] = graph.affinity[100, 10] = 1e-6
    added = transfer_cut.attach_fragments(graph, R, GraphOptions.of(USPEC())).affinity - graph.affinity
    assert added[99, 100] > 0


def test_equal_components_and_the_paper_have_no_fragments():
    graph, R = blocks_graph(5, 5, 5, 5)
    assert transfer_cut.attach_fragments(graph, R, GraphOptions.of(USPEC())) is graph
    graph, R = blocks_graph(500, 1)
    assert transfer_cut.attach_fragments(graph, R, GraphOptions.of(USPEC.paper(2))) is graph


@pytest.mark.parametrize("seed", range(3))
def test_rows_at_the_edge_of_a_far_cluster_stay_with_it(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=3000)
    X = 60.0 * np.column_stack([y, y % 2]) + rng.normal(size=(3000, 2))
    labels = USPEC(5, random_state=seed).fit_predict(X)
    assert same_partition(y, labels)
