"""Consensus by the transfer cut: the graph of microclusters against that of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.common import same_partition
from tests.helpers.edges import dense
from tests.helpers.ensembles import base_clusters
from tests.helpers.label_matrices import built, label_matrices, planted
from ultraspec import consensus
from ultraspec.cluster.kmeans import lloyd
from ultraspec.ensemble import transfer_cut as consensus_cut
from ultraspec.ensemble.consensus import Ensemble
from ultraspec.ensemble.transfer_cut import ConsensusGraph, MicroclusterCut, TransferCut, edges_of_columns
from ultraspec.spectral import transfer_cut
from ultraspec.spectral.embedding import EmbeddedPoints
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition
from ultraspec.spectral.transfer_cut import Spectrum, lift

TAUS = st.sampled_from([0.0, 1e-3, 1e-1])
BASE = [[0, 0], [0, 0], [1, 1], [1, 1]]


def memberships(labels):
    """B (N x k_c): 1 where a row is in a base cluster, which are numbered through all columns."""
    return base_clusters(labels)[0]


# The graph


@settings(max_examples=100)
@given(labels=label_matrices())
def test_edges_share_a_row_among_its_base_clusters(labels, engine):
    """The expanded T = D_x^-1 B, with no edge for a missing label."""
    _, graph, places = built(labels, engine)
    B = memberships(labels)
    assigned = B.any(axis=1)
    assert ((places >= 0) == assigned).all()
    assert (graph.weights == np.bincount(places[assigned])).all()
    T = dense(graph.edges, B.shape[1])[places[assigned]]
    np.testing.assert_allclose(T, oracle.transition(B[assigned]), rtol=1e-6)
    assert ((T > 0) == (B[assigned] > 0)).all()


@settings(max_examples=120)
@given(labels=label_matrices(), tau=TAUS, block_rows=st.sampled_from([1, 7, 8192]))
def test_spectrum_and_embedding_are_those_of_all_rows(labels, tau, block_rows, engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consensus_cut, "BLOCK_ROWS", block_rows)
        _, graph, places = built(labels, engine, tau)
    B = memberships(labels)
    assigned = B.any(axis=1)
    B = B[assigned]
    eigenvalues, vectors = oracle.transfer_cut(oracle.reduced_affinity(B), transfer_cut.KEPT_VECTORS, tau)
    np.testing.assert_allclose(graph.spectrum.eigenvalues, np.clip(eigenvalues, 0, 1), atol=1e-6)
    ends = oracle.eigengroups(eigenvalues, gap=1e-2)
    if len(eigenvalues) == B.shape[1]:
        ends.append(len(eigenvalues))
    for m in ends:
        ours = lift(graph.edges, graph.spectrum.vectors[:, :m])[places[assigned]]
        theirs = oracle.embedding(B, vectors[:, :m])
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-4)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_spectrum_of_many_base_clusters(seed, missing, engine):
    """Enough of them that eigenvectors come from the float32 route."""
    _, labels = planted(k=6, n=800, m=40, noise=0.3, seed=seed, missing=missing)
    _, graph, places = built(labels, engine)
    B = memberships(labels)
    assert B.shape[1] > 4 * transfer_cut.KEPT_VECTORS
    eigenvalues, vectors = oracle.transfer_cut(oracle.reduced_affinity(B), transfer_cut.KEPT_VECTORS, 1e-3)
    np.testing.assert_allclose(graph.spectrum.eigenvalues, eigenvalues, atol=1e-6)
    ours = lift(graph.edges, graph.spectrum.vectors[:, :6])[places]
    theirs = oracle.embedding(B, vectors[:, :6])
    assert eigenvalues[5] - eigenvalues[6] > 0.05
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-4)


def test_more_clusters_than_kept_vectors(engine):
    """One eigenvector more than clusters, for any number of them."""
    _, labels = planted(k=6, n=800, m=40, noise=0.3)
    _, graph, _ = built(labels, engine, n_clusters=90)
    assert len(graph.spectrum.eigenvalues) == 91


def test_edges_of_all_and_of_some():
    whole = edges_of_columns(np.array([[0, 2, 4], [1, 3, 4]], dtype=np.int32))
    assert whole.ids.tolist() == [[0, 2, 4], [1, 3, 4]]
    np.testing.assert_allclose(whole.weights, 1 / 3, rtol=1e-7)
    gaps = edges_of_columns(np.array([[-1, 2, 4], [1, -1, -1], [0, 3, 4]], dtype=np.int32))
    np.testing.assert_allclose(
        dense(gaps, 5), [[0, 0, 0.5, 0, 0.5], [0, 1, 0, 0, 0], [1 / 3, 0, 0, 1 / 3, 1 / 3]], rtol=1e-6
    )


# Weighted k-means


@settings(max_examples=100)
@given(labels=label_matrices(), k=st.integers(1, 6), d=st.integers(1, 12), max_iter=st.integers(1, 15), seed=SEEDS)
def test_weighted_kmeans_is_kmeans_on_all_rows(labels, k, d, max_iter, seed, engine):
    """From the same centres, with vectors at random: ties would let the two part."""
    micro, graph, places = built(labels, engine)
    places = places[places >= 0]
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((micro.n_columns, d)).astype(np.float32)
    vectors[:, 0] = 1.0
    start = lift(graph.edges, vectors)[random.integers(len(graph.edges), size=k)]
    start = start + 0.1 * random.standard_normal(start.shape).astype(np.float32)
    results = []
    for points in (EmbeddedPoints(graph.edges, vectors, graph.weights), EmbeddedPoints(graph.edges[places], vectors)):
        points.measure(engine)
        results.append(lloyd(points, start, engine, max_iter=max_iter))
    weighted, plain = results
    assert (weighted.labels[places] == plain.labels).all()
    assert (weighted.counts == plain.counts).all()
    assert (weighted.counts == np.bincount(plain.labels, minlength=k)).all()
    assert weighted.n_iter == plain.n_iter
    assert weighted.inertia == pytest.approx(plain.inertia, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(weighted.centers, plain.centers, atol=1e-6)
    np.testing.assert_allclose(weighted.means, plain.means, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_weighted_kmeans_in_the_embedding(seed, missing, engine):
    """The oracle's k-means on the expanded embedding, from the same centres."""
    k = 4
    truth, labels = planted(k=k, m=8, noise=0.1, seed=seed, missing=missing)
    _, graph, places = built(labels, engine)
    vectors = graph.spectrum.vectors[:, :k]
    start = np.array([lift(graph.edges, vectors)[places[truth == c]].mean(axis=0) for c in range(k)])
    start += 0.2 * np.random.default_rng(seed).standard_normal(start.shape).astype(np.float32)
    points = EmbeddedPoints(graph.edges, vectors, graph.weights)
    points.measure(engine)
    found = lloyd(points, start, engine, max_iter=100)
    X = oracle.embedding(dense(graph.edges[places], len(vectors)), vectors.astype(np.float64))
    wanted, path = oracle.kmeans(X, start, 100)
    assert (found.labels[places] == wanted).all()
    np.testing.assert_allclose(found.centers, path[-1], atol=1e-5)
    assert found.n_iter == len(path)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_centers_of_a_cut_are_means_of_all_rows(seed, missing, engine):
    """Each row counts, however many share its microcluster."""
    _, labels = planted(3, m=6, noise=0.3, seed=seed, missing=missing)
    labels = np.repeat(labels, np.random.default_rng(seed).integers(1, 20, len(labels)), axis=0)
    micro, graph, places = built(labels, engine)
    cut = graph.cut(3, LabelOptions(3, 100, np.random.SeedSequence(seed)), engine)
    found, X = micro.spread(cut.labels, engine), lift(graph.edges, graph.spectrum.vectors[:, :3])
    assert cut.n_iter < 100
    np.testing.assert_allclose(
        cut.partition.centers, oracle.cluster_means(X[places], found, np.zeros((3, 3))), atol=1e-5
    )
    plain = oracle.cluster_means(X, cut.labels[graph.assigned], np.zeros((3, 3)))
    assert np.abs(cut.partition.centers - plain).max() > 1e-3


# The method


def test_a_method_gives_the_consensus_of_the_base_labels(engine):
    truth, labels = planted(4, noise=0.15)
    options = LabelOptions(3, 100, np.random.SeedSequence(0))
    members = Ensemble([], labels, None)
    method = TransferCut.build(members, 4, 1e-3, engine)
    result = method.cut(4, options, engine)
    assert (result.labels == consensus(labels, 4, random_state=0)).all()
    assert same_partition(result.labels, truth)
    assert result.partition.n_clusters == 4
    assert len(result.majority) == method.micro.n_columns
    embedded = method.embed(result.partition, engine)
    assert embedded.shape == (len(truth), 4)
    wanted = result.partition.embed(edges_of_columns(method.micro.columns))
    assert (embedded == wanted[method.micro.spread(np.arange(len(wanted)), engine)]).all()


def test_a_restored_method_gives_other_cuts_with_the_same_eigenvectors(engine, monkeypatch):
    _, labels = planted(4, noise=0.15)
    options = LabelOptions(3, 100, np.random.SeedSequence(0))
    members = Ensemble([], labels, None)
    method = TransferCut.build(members, 4, 1e-3, engine)
    partition = method.cut(4, options, engine).partition
    monkeypatch.setattr(consensus_cut, "transfer_cut", None)  # they are not computed again
    restored = TransferCut.restore(members, partition, 1e-3, engine)
    for k in (2, 4, 7):
        assert restored.cut(k, options, engine).labels.tobytes() == method.cut(k, options, engine).labels.tobytes()
    with pytest.raises(ValueError, match="X does not hold the rows that were fitted: some base clusters stay empty"):
        TransferCut.restore(Ensemble([], np.zeros_like(labels), None), partition, 1e-3, engine)


def test_restoring_keeps_what_building_found(engine):
    _, labels = planted(3, missing=0.3)
    micro, graph, _ = built(labels, engine)
    again = ConsensusGraph.restore(micro, graph.spectrum, 1e-3)
    assert (again.edges.ids == graph.edges.ids).all()
    assert (again.weights == graph.weights).all()
    assert (again.assigned == graph.assigned).all()


# Limits


def test_clusters_are_numbered_by_their_rows():
    spectrum = Spectrum(np.ones(3), np.ones((1, 3), np.float32), np.ones(1))
    labels = np.array([0, 1, -1, 2, 1], dtype=np.int32)
    cut = MicroclusterCut(labels, CenterPartition(spectrum, np.zeros((3, 3), np.float32)), 1)
    found = cut.by_size(np.array([1.0, 2.0, 50.0, 9.0, 3.0]))
    assert found.labels.tolist() == [2, 1, -1, 0, 1]
    assert found.labels.dtype == np.int32
    assert found.partition.numbers.tolist() == [2, 1, 0]
    assert found.n_iter == 1


def test_more_clusters_than_base_clusters():
    wanted = (
        r"The base clusterings have 4 clusters in all, too few for n_clusters=5\. Add base clusterings, or "
        r"finer ones, or ask for fewer clusters\."
    )
    with pytest.raises(ValueError, match=wanted):
        consensus(BASE, 5)


def test_more_base_clusters_than_can_be_compared(monkeypatch):
    monkeypatch.setattr(consensus_cut, "MOST_COLUMNS", 1999)
    base = np.tile(np.arange(1000)[:, None], (1, 2))
    wanted = (
        r"The base clusterings have 2,000 clusters in all; the consensus compares each with each and takes at most "
        r"1,999\. Use coarser clusterings, or mark tiny clusters as not assigned \(-1\)\."
    )
    with pytest.raises(ValueError, match=wanted):
        consensus(base, 2)
    monkeypatch.setattr(consensus_cut, "MOST_COLUMNS", 4)
    assert same_partition(consensus(BASE, 2), [0, 0, 1, 1])


@pytest.mark.parametrize("n_clusters", [1, 2, "auto"])
@pytest.mark.parametrize("none", [-1, None, float("nan")])
def test_all_labels_missing(none, n_clusters):
    with pytest.raises(ValueError, match=r"No row of base_labels has a label: every entry is -1, None or NaN\."):
        consensus([[none, none]] * 3, n_clusters)
