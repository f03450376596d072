"""k-means on embedded rows, without storing the embedding.

A row is embedded as a weighted sum of the vectors of its K representatives. So its products with the centres, and the
sums that move the centres, follow from its K edges alone. A pass costs O(N K k) instead of O(N k^2).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import warn_user
from ultraspec._kernels import graph as graph_kernels
from ultraspec._kernels import kmeans as kernels
from ultraspec.cluster.kmeans import Clustering, lloyd, spread_centers
from ultraspec.cluster.points import Assign, Centers, Labels, Points, Squares, Sums, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import LocalWeights, Rows, RowWeights, Span, sample_indices, stays_in_memory
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.partition import score_buffer, score_table
from ultraspec.spectral.transfer_cut import ONE, lift, lift_buffer, pad_lanes

SAMPLE_ROWS = 50_000  # rows that starts of k-means run on
SEED_ROWS = 20_000  # rows that k-means++ draws from
LARGE_SAMPLE = 16  # times as many rows refine the best start: more rows would change labels by chance only
SETTLED = 3e-5  # a large fit stops when a further step would lower the sum of squares by less than this share
ROUGH = 1e-3  # the same share for a start that is only compared with other starts
LEAST_WEIGHTED = 4000  # weighted rows that a sample has at least
HEAVY_SHARE = 0.95  # share of the weight that the heaviest rows of a sample hold


class EmbeddedPoints(Points):
    """Embedded rows, for k-means.

    Parameters
    ----------
    edges : Edges or LazyEdges
        Transition probabilities of the rows.
    vectors : ndarray of shape (p, k), float32
        Vectors of the representatives.
    weights : ndarray of shape (n,) or (1,), float64
        Weight of each microcluster, or of every row: `edges` have those of single rows.
    scales : ndarray of shape (n,), float32
        Factors that bring each lifted row to unit length, see `measure`.
    """

    def __init__(
        self,
        edges: Edges | LazyEdges,
        vectors: npt.NDArray[np.float32],
        weights: Weights = ONE,
        scales: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.n_rows = len(edges)
        self.n_sums = len(vectors)  # sums of weights on representatives, see `means`
        self.weights = weights
        self.row_weights = weights_of_edges(edges)
        self._edges = edges
        self._vectors = vectors
        self._scales = scales

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""
        return self._edges.blocks()

    def measure(self, engine: ThreadEngine) -> None:
        """Compute the scales of all rows, which k-means needs, unless this was done before."""
        if self._scales is not None:
            return
        scales = np.empty(self.n_rows, dtype=np.float32)
        vectors = pad_lanes(self._vectors)

        def run(span: Span) -> None:
            edges = self._edges[slice(*span)]
            graph_kernels.lift_scales(edges.ids, edges.weights, vectors, lift_buffer(vectors), scales[slice(*span)])

        engine.map(run, self.blocks())
        self._scales = scales

    def sample(self, size: int, rng: np.random.Generator) -> EmbeddedPoints:
        """Sample about `size` rows evenly, or by their weights.

        Of microclusters, take the heaviest, fewer if these hold most weight.
        """
        if size >= self.n_rows and (len(self.weights) == 1 or self.n_rows <= LEAST_WEIGHTED):
            return self
        if len(self.weights) > 1:
            heaviest = np.argsort(-self.weights, kind="stable")
            share = np.cumsum(self.weights[heaviest]) / self.weights.sum()
            size = min(size, max(LEAST_WEIGHTED, int(np.searchsorted(share, HEAVY_SHARE)) + 1))
            rows = np.sort(heaviest[:size])
            scales = None if self._scales is None else self._scales[rows]
            return EmbeddedPoints(self._edges[rows], self._vectors, self.weights[rows], scales)
        if self.row_weights is None:
            rows = sample_indices(self.n_rows, size, rng)
            edges = self._edges[rows]
        else:
            rows, masses = self.row_weights.sample(size, rng)
            edges = replace(self._edges[rows], masses=masses)
        return EmbeddedPoints(edges, self._vectors, scales=None if self._scales is None else self._scales[rows])

    def weights_of(self, rows: slice) -> Weights:
        """Return the weights of some rows, for kernels: one for each, or one for every row."""
        return super().weights_of(rows) if self.row_weights is None else self.row_weights.read(rows.start, rows.stop)

    def spread(self, k: int, rng: np.random.Generator) -> Centers:
        """Draw `k` starting centres by k-means++; fewer if there are fewer distinct rows.

        Microclusters are few and some weigh much, so each step tries several candidates.
        """
        trials = 2 + int(np.log(k)) if len(self.weights) > 1 else 1
        everyone = slice(0, self.n_rows)
        return spread_centers(lift(self._edges[everyone], self._vectors), self.weights_of(everyone), k, rng, trials)

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Compute centres: the weight of each cluster on representatives, times their vectors, per row."""
        return (sums @ self._vectors.astype(np.float64) / np.where(counts > 0, counts, 1)[:, None]).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Embed the rows at `indices`."""
        return lift(self._edges[indices], self._vectors)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None = None) -> Assign:  # noqa: ARG002
        """Return a function that assigns blocks to `centers`, by products that follow from the edges alone."""
        table = score_table(self._vectors, centers)
        all_scales = self._scales
        assert all_scales is not None

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            rows = slice(*span)
            edges = self._edges[rows]
            scales = all_scales[rows]
            changed = kernels.assign_embedded(
                edges.ids, edges.weights, scales, *table, *score_buffer(table), labels, sq
            )
            kernels.add_edges(edges.ids, edges.weights, scales, self.weights_of(rows), labels, sums)
            return int(changed)

        return assign


def weights_of_edges(edges: Edges | LazyEdges) -> RowWeights | None:
    """Return the weights of the rows that edges belong to; None if all rows count alike."""
    if isinstance(edges, LazyEdges):
        return edges.rows.weights
    return LocalWeights.of(edges.masses) if len(edges.masses) > 1 else None


def embed_edges(edges: Edges | LazyEdges, vectors: npt.NDArray[np.float32]) -> EmbeddedPoints:
    """Return embedded rows; edges of rows on a cluster are fetched if they are few enough to be used all."""
    if isinstance(edges, LazyEdges) and edges.rows.remote and len(edges) <= settling_rows(vectors.shape[1]):
        edges = edges[np.arange(len(edges))]
    return EmbeddedPoints(edges, vectors)


def kmeans(
    points: EmbeddedPoints, k: int, n_init: int, max_iter: int, rng: np.random.Generator, engine: ThreadEngine
) -> Clustering:
    """Cluster embedded rows by k-means.

    `n_init` k-means++ starts run on a sample of rows until no label changes. The best start is refined on a larger
    sample, or on all rows if they are not many more, until moving the centres no longer pays. Data no larger than the
    first sample converges completely. Of weighted rows the heaviest are the sample, and the best start is then refined
    on all. The labels of the result are those of the last sample; `label_all` labels all rows.
    """
    weighted = len(points.weights) > 1
    best = kmeans_of_sample(points, k, n_init, max_iter, rng, engine, tol=ROUGH if weighted else 0.0)
    if weighted:
        points.measure(engine)
        return lloyd(points, best.means, engine, max_iter=max_iter)
    if len(best.labels) < points.n_rows:
        sample = points if points.n_rows <= settling_rows(k) else points.sample(settling_rows(k) // 2, rng)
        sample.measure(engine)
        best = lloyd(sample, best.means, engine, max_iter=max_iter, tol=SETTLED)
    return best


def settling_rows(k: int) -> int:
    """Return the number of rows up to which all of them refine the centres; of more rows, half this number does."""
    return 2 * LARGE_SAMPLE * _sample_size(k)


def stores_edges(rows: Rows, n_neighbors: int, n_vectors: int) -> bool:
    """Return whether the edges of all rows are stored in memory: rows are there, too, or k-means uses all of them."""
    all_settle = rows.n_rows <= settling_rows(n_vectors) and not rows.remote
    return all_settle or stays_in_memory(rows, 6 * rows.n_rows * n_neighbors)


def kmeans_of_sample(
    points: EmbeddedPoints,
    k: int,
    n_init: int,
    max_iter: int,
    rng: np.random.Generator,
    engine: ThreadEngine,
    tol: float = 0.0,
) -> Clustering:
    """Return the best of `n_init` runs of k-means on a sample of embedded rows; `tol` as in `lloyd`."""
    sample = points.sample(_sample_size(k), rng)
    sample.measure(engine)
    best: Clustering | None = None
    for _ in range(n_init):
        start = sample.sample(max(SEED_ROWS, 100 * k), rng).spread(k, rng)
        result = lloyd(sample, start, engine, max_iter=max_iter, tol=tol)
        if best is None or result.inertia < best.inertia:
            best = result
    assert best is not None
    return best


def _sample_size(k: int) -> int:
    return max(SAMPLE_ROWS, 500 * k)


def drop_empty_clusters(result: Clustering, k: int, reason: str) -> Clustering:
    """Drop clusters without rows and number the others from zero; warn with a reason if they are fewer than `k`."""
    used = np.flatnonzero(result.counts)
    if used.size == k:
        return result
    warn_user(f"Found {used.size} clusters instead of {k}: {reason}", ConvergenceWarning)
    labels = np.searchsorted(used, result.labels).astype(np.int32)
    return replace(result, labels=labels, centers=result.centers[used], counts=result.counts[used])
