"""k-means on edges, which never computes the embedding, against k-means on the embedding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.edges import graphs, label, lifted, random_graph
from ultraspec._kernels.kmeans import assign_embedded
from ultraspec.cluster.kmeans import lloyd
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import sample_indices
from ultraspec.spectral import embedding
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.embedding import EmbeddedPoints
from ultraspec.spectral.partition import score_table
from ultraspec.spectral.transfer_cut import lift


def measured(edges, vectors):
    points = EmbeddedPoints(edges, vectors)
    with ThreadEngine(1) as engine:
        points.measure(engine)
    return points


def clear_rows(sq):
    """Rows whose nearest centre leads by more than rounding."""
    nearest = np.sort(sq, axis=1)
    return nearest[:, 1] - nearest[:, 0] > 1e-4 if sq.shape[1] > 1 else np.ones(len(sq), dtype=bool)


# One pass


@settings(max_examples=150)
@given(graph=graphs(), n_centers=st.integers(1, 20), seed=SEEDS)
def test_assigning_is_lifting_and_brute_force(graph, n_centers, seed):
    edges, vectors = graph
    E = lifted(edges, vectors)
    random = np.random.default_rng(seed)
    centers = 0.7 * E[random.integers(len(E), size=n_centers)] + 0.1 * random.standard_normal((n_centers, E.shape[1]))
    centers = centers.astype(np.float32)
    wanted = oracle.squared_distances(E, centers)
    labels, sq = np.full(len(E), -1, dtype=np.int32), np.empty(len(E), dtype=np.float32)
    points = measured(edges, vectors)
    products, half_norms = score_table(vectors, centers)
    halves = np.empty_like(half_norms)
    args = edges.ids, edges.weights, points._scales, products, half_norms, halves, halves.view(np.int32), labels, sq
    changed = assign_embedded(*args)
    assert changed == len(E)
    clear = clear_rows(wanted)
    assert (labels[clear] == wanted.argmin(axis=1)[clear]).all()
    np.testing.assert_allclose(sq, wanted.min(axis=1), rtol=1e-4, atol=2e-5)
    assert assign_embedded(*args) == 0
    assert label(edges, vectors, centers).tobytes() == labels.tobytes()


@settings(max_examples=100)
@given(graph=graphs(), n_clusters=st.integers(1, 10), seed=SEEDS)
def test_means_are_means_of_lifted_rows(graph, n_clusters, seed, engine):
    edges, vectors = graph
    E = lifted(edges, vectors)
    points = measured(edges, vectors)
    centers = E[np.random.default_rng(seed).integers(len(E), size=n_clusters)].astype(np.float32)
    labels, sq = np.full(len(E), -1, dtype=np.int32), np.empty(len(E), dtype=np.float32)
    sums = np.zeros((n_clusters, points.n_sums))
    assign = points.assign_to(centers)
    middle = len(E) // 2
    for low, high in ((0, middle), (middle, len(E))):
        assign((low, high), labels[low:high], sq[low:high], sums)
    counts = np.bincount(labels, minlength=n_clusters)
    wanted = oracle.cluster_means(E, labels, np.zeros_like(centers))
    np.testing.assert_allclose(points.means(sums, counts), wanted, atol=1e-5)


@settings(max_examples=50)
@given(graph=graphs(), seed=SEEDS)
def test_points_are_the_lifted_rows(graph, seed):
    edges, vectors = graph
    points = measured(edges, vectors)
    rows = np.flatnonzero(np.random.default_rng(seed).random(len(edges)) < 0.5)
    np.testing.assert_allclose(points.take(rows), lifted(edges, vectors)[rows], atol=1e-5)
    assert points.take(rows).tobytes() == lift(edges, vectors)[rows].tobytes()
    size = max(1, len(edges) // 2)
    some = points.sample(size, np.random.default_rng(seed))
    rows = sample_indices(len(edges), size, np.random.default_rng(seed))
    assert some.n_rows == len(rows)
    assert some.take(np.arange(len(rows))).tobytes() == points.take(rows).tobytes()
    assert some._scales.tobytes() == points._scales[rows].tobytes()


@pytest.mark.parametrize("n", [1, 2048, 2049, 600_000])
def test_blocks_cover_all_rows(n):
    edges = Edges(np.zeros((n, 1), dtype=np.uint16), np.ones((n, 1), dtype=np.float32))
    blocks = EmbeddedPoints(edges, np.ones((1, 1), dtype=np.float32)).blocks()
    assert np.concatenate([np.arange(*span) for span in blocks]).tolist() == list(range(n))


@settings(max_examples=40)
@given(graph=graphs(most_rows=40), k=st.integers(1, 6), max_iter=st.sampled_from([1, 3, 50]))
def test_lloyd_on_edges_is_lloyd_on_lifted_rows(graph, k, max_iter, engine):
    edges, vectors = graph
    E = lifted(edges, vectors)
    centers = lift(edges, vectors)[:k]
    labels, path = oracle.kmeans(E, centers, max_iter)
    assume(all(len(set(oracle.assign(E, c))) == len(c) for c in path))  # no cluster is empty on the way
    assume(all(clear_rows(oracle.squared_distances(E, c)).all() for c in path))
    found = lloyd(measured(edges, vectors), centers, engine, max_iter=max_iter)
    assert (found.labels == labels).all()
    np.testing.assert_allclose(found.centers, path[-1], atol=1e-4)


# All of it


def check_settled(found, edges, vectors):
    """Labels are those of the nearest centres, and the centres are the means of their rows."""
    E = lifted(edges, vectors)
    sq = oracle.squared_distances(E, found.centers)
    clear = clear_rows(sq)
    assert (found.labels[clear] == sq.argmin(axis=1)[clear]).all()
    assert found.inertia == pytest.approx(sq.min(axis=1).sum(), rel=1e-3, abs=1e-3)
    np.testing.assert_allclose(found.means, oracle.cluster_means(E, found.labels, found.centers), atol=1e-4)
    assert (found.counts == np.bincount(found.labels, minlength=len(found.counts))).all()


@settings(max_examples=40)
@given(graph=graphs(), k=st.integers(1, 8), seed=SEEDS)
def test_kmeans_settles(graph, k, seed, engine):
    edges, vectors = graph
    found = embedding.kmeans(EmbeddedPoints(edges, vectors), k, 2, 300, np.random.default_rng(seed), engine)
    check_settled(found, edges, vectors)
    np.testing.assert_allclose(found.centers, found.means, atol=1e-6)
    assert label(edges, vectors, found.centers).tobytes() == found.labels.tobytes()


def test_kmeans_keeps_the_best_start(engine, monkeypatch):
    runs = []

    def spy(*args, **options):
        found = lloyd(*args, **options)
        runs.append(found.inertia)
        return found

    monkeypatch.setattr(embedding, "lloyd", spy)
    edges, vectors = random_graph(400, 50, 3, 8, np.random.default_rng(0))
    best_at = set()
    for seed in range(5):
        runs.clear()
        found = embedding.kmeans(EmbeddedPoints(edges, vectors), 12, 4, 100, np.random.default_rng(seed), engine)
        assert len(runs) == 4
        assert found.inertia == min(runs) < max(runs)
        best_at.add(int(np.argmin(runs)))
    assert len(best_at) > 1


@pytest.mark.parametrize("n", [900, 2900, 9000])
def test_kmeans_grows_from_samples(n, monkeypatch):
    """All rows, or of many a larger sample than the first, settle the centres; for any number of threads."""
    monkeypatch.setattr(embedding, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(embedding, "SEED_ROWS", 100)
    monkeypatch.setattr(embedding, "LARGE_SAMPLE", 2)
    edges, vectors = random_graph(n, 60, 3, 4, np.random.default_rng(1), groups=2)
    results = []
    for n_jobs in (1, 3):
        with ThreadEngine(n_jobs) as threads:
            found = embedding.kmeans(EmbeddedPoints(edges, vectors), 2, 3, 100, np.random.default_rng(0), threads)
        labels = label(edges, vectors, found.centers)
        assert len(found.labels) == (n if n <= 4000 else 2000)
        if len(found.labels) == n:
            assert labels.tobytes() == found.labels.tobytes()
            check_settled(found, edges, vectors)
        results.append((labels.tobytes(), found.centers.tobytes(), found.inertia))
    assert results[0] == results[1]
    assert len(set(zip(labels.tolist(), (edges.ids[:, 0] % 2).tolist(), strict=True))) == 2  # the two groups


def test_kmeans_of_few_distinct_rows(engine):
    edges, vectors = random_graph(3, 10, 2, 5, np.random.default_rng(0))
    edges = edges[np.arange(90) % 3]
    found = embedding.kmeans(EmbeddedPoints(edges, vectors), 5, 3, 50, np.random.default_rng(0), engine)
    assert np.count_nonzero(found.counts) == 3
    assert found.inertia == pytest.approx(0, abs=1e-4)
    assert label(edges, vectors, found.centers).tobytes() == found.labels.tobytes()


def test_kmeans_takes_a_slice_of_the_vectors(engine):
    """`cut` passes the leading columns of a wider, C-contiguous array."""
    edges, vectors = random_graph(200, 30, 4, 12, np.random.default_rng(0))
    narrow = embedding.kmeans(EmbeddedPoints(edges, vectors[:, :3]), 3, 2, 50, np.random.default_rng(0), engine)
    copied = embedding.kmeans(EmbeddedPoints(edges, vectors[:, :3].copy()), 3, 2, 50, np.random.default_rng(0), engine)
    assert narrow.labels.tobytes() == copied.labels.tobytes()
    assert narrow.centers.shape == (3, 3)


def test_sample_of_weighted_rows_is_the_heaviest():
    random = np.random.default_rng(0)
    weights = random.permutation(100).astype(np.float64)
    edges = Edges(np.arange(100, dtype=np.uint16)[:, None], np.ones((100, 1), dtype=np.float32))
    some = EmbeddedPoints(edges, np.ones((100, 2), dtype=np.float32), weights).sample(10, random)
    assert sorted(some.weights) == list(range(90, 100))
    assert (weights[some._edges.ids[:, 0]] == some.weights).all()
