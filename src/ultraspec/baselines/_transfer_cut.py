"""The transfer cut of PTGP and LWGP: U-SPEC's own, without the regularisation that the authors' programs lack."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels
from ultraspec.cluster.kmeans import Clustering, lloyd, spread_centers
from ultraspec.cluster.points import RowPoints
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.combine import check_columns
from ultraspec.rows import ArrayRows
from ultraspec.spectral import discretize, transfer_cut

FEW = "only so many groups of rows differ in the embedding. Add base clusterings, or finer ones."

Floats = npt.NDArray[np.float64]


def cut_memberships(
    ensemble: BaseClusterings,
    worth: Floats,
    k: int,
    n_init: int,
    max_iter: int,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
) -> ConsensusLabels:
    """Cut the graph of rows and base clusters, whose edges have the base clusters' `worth` for weight.

    Microclusters stand for their rows, and the embedding is never formed: see `ultraspec.spectral.discretize`.
    """
    check_columns(ensemble.n_columns, k)
    spectrum = transfer_cut.transfer_cut(ensemble.graph(engine, worth), k, 0.0)
    points = discretize.EmbeddedPoints(ensemble.all_edges(engine, worth), spectrum.vectors, ensemble.weights)
    found = discretize.kmeans(points, k, n_init, max_iter, np.random.default_rng(seed), engine)
    return ConsensusLabels(discretize.renumber(found, k, FEW).labels, found.n_iter)


def cut_affinities(
    B: npt.NDArray[np.float32], k: int, n_init: int, max_iter: int, seed: np.random.SeedSequence, engine: ThreadEngine
) -> ConsensusLabels:
    """Cut the graph of n rows and q columns with the affinities B (n, q), all of which are at least zero."""
    n, q = B.shape
    degrees = B.sum(axis=1, dtype=np.float64)
    degrees[degrees == 0] = 1e-10
    spans = ArrayRows(B).blocks()

    def add(graph: transfer_cut.Graph, span: tuple[int, int]) -> None:
        here = slice(*span)
        T = B[here].astype(np.float64) / np.sqrt(degrees[here])[:, None]
        graph.affinity += T.T @ T

    def merge(a: transfer_cut.Graph, b: transfer_cut.Graph) -> transfer_cut.Graph:
        a.affinity += b.affinity
        return a

    most = 1 + n // q
    graph = engine.fold(spans, lambda: transfer_cut.Graph(np.zeros((q, q)), np.zeros(q)), add, merge, most_groups=most)
    spectrum = transfer_cut.transfer_cut(graph, k, 0.0)
    rows = np.empty((n, k), dtype=np.float32)

    def lift(span: tuple[int, int]) -> None:
        lifted = (B[slice(*span)] / degrees[slice(*span), None]) @ spectrum.vectors.astype(np.float64)
        rows[slice(*span)] = lifted / (np.sqrt((lifted**2).sum(axis=1)) + 1e-10)[:, None]

    engine.map(lift, spans)
    found = plus_kmeans(rows, k, n_init, max_iter, seed, engine)
    return ConsensusLabels(discretize.renumber(found, k, FEW).labels, found.n_iter)


def plus_kmeans(
    rows: npt.NDArray[np.float32],
    k: int,
    n_init: int,
    max_iter: int,
    seed: np.random.SeedSequence,
    engine: ThreadEngine,
) -> Clustering:
    """The best of `n_init` runs of k-means from k-means++ starts."""
    random, points = np.random.default_rng(seed), RowPoints(ArrayRows(rows))
    best: Clustering | None = None
    for _ in range(n_init):
        found = lloyd(points, spread_centers(rows, np.ones(1), k, random), engine, max_iter=max_iter)
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    return best
