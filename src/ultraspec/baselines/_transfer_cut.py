"""The transfer cut of PTGP and LWGP: that of U-SPEC, without the regularisation, which the authors' programs lack."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels
from ultraspec.cluster.kmeans import lloyd, spread_centers
from ultraspec.cluster.points import RowPoints
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Span
from ultraspec.spectral import embedding as spectral_embedding
from ultraspec.spectral import transfer_cut

FEW_CLUSTERS = "no more groups of rows differ in the embedding. Add base clusterings, or finer ones."
TINY = 1e-10  # keeps divisors from being zero

Floats = npt.NDArray[np.float64]


def cut_memberships(
    clusterings: BaseClusterings,
    cluster_weights: Floats,
    k: int,
    n_init: int,
    max_iter: int,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
) -> ConsensusLabels:
    """Cut the graph of rows and base clusters, whose edges have the weights of the base clusters.

    Microclusters, weighted by their rows, take the place of the rows. The embedding is never formed, see
    `ultraspec.spectral.discretize`.
    """
    spectrum = transfer_cut.transfer_cut(clusterings.graph(engine, cluster_weights), k, 0.0)
    edges = clusterings.all_edges(engine, cluster_weights)
    points = spectral_embedding.EmbeddedPoints(edges, spectrum.vectors, clusterings.weights)
    best = spectral_embedding.kmeans(points, k, n_init, max_iter, np.random.default_rng(seed), engine)
    return ConsensusLabels(spectral_embedding.drop_empty_clusters(best, k, FEW_CLUSTERS).labels, best.n_iter)


def cut_affinities(
    B: npt.NDArray[np.float32], k: int, n_init: int, max_iter: int, seed: np.random.SeedSequence, engine: ThreadEngine
) -> ConsensusLabels:
    """Cut the bipartite graph of n rows and q columns with the non-negative affinities B (n, q)."""
    n, q = B.shape
    degrees = B.sum(axis=1, dtype=np.float64)
    degrees[degrees == 0] = TINY
    spans = ArrayRows(B).blocks()

    def add(graph: transfer_cut.Graph, span: Span) -> None:
        here = slice(*span)
        T = B[here].astype(np.float64) / np.sqrt(degrees[here])[:, None]
        graph.affinity += T.T @ T  # B' D^-1 B of the block

    def merge(a: transfer_cut.Graph, b: transfer_cut.Graph) -> transfer_cut.Graph:
        a.affinity += b.affinity
        return a

    def empty() -> transfer_cut.Graph:
        return transfer_cut.Graph(np.zeros((q, q)), np.zeros(q))

    graph = engine.fold(spans, empty, add, merge, most_groups=1 + n // q)  # matrices (q, q) about as large as B
    spectrum = transfer_cut.transfer_cut(graph, k, 0.0)
    embedding = np.empty((n, k), dtype=np.float32)

    def lift(span: Span) -> None:
        here = slice(*span)
        rows = (B[here] / degrees[here, None]) @ spectrum.vectors.astype(np.float64)
        embedding[here] = rows / (np.sqrt((rows**2).sum(axis=1)) + TINY)[:, None]

    engine.map(lift, spans)
    random = np.random.default_rng(seed)
    points = RowPoints(ArrayRows(embedding))
    starts = (spread_centers(embedding, np.ones(1), k, random) for _ in range(n_init))  # k-means++
    runs = (lloyd(points, start, engine, max_iter=max_iter) for start in starts)
    best = min(runs, key=lambda clustering: clustering.inertia)
    return ConsensusLabels(spectral_embedding.drop_empty_clusters(best, k, FEW_CLUSTERS).labels, best.n_iter)
