"""The last step: takes the rows' edges and the representatives' vectors, gives labels.

The embedding of N rows in k dimensions is never stored, and during k-means not even formed: a row is a weighted sum
of K representatives' vectors, so its products with the centres, and the sums that move the centres, come from its K
edges alone. A pass costs O(N K k) instead of O(N k^2).
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
from ultraspec.rows import Span, sample_indices
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.partition import score_room, score_table
from ultraspec.spectral.transfer_cut import ONE, full_lanes, lift, lift_room

SAMPLE_ROWS = 50_000
SEED_ROWS = 20_000
LARGE_SAMPLE = 16  # times as many rows settle the centres: more would move no label but by chance
SETTLED = 3e-5  # share of the sum of squares that a further step would gain when a large fit stops
ROUGH = 1e-3  # the same for a start that is only compared with others
LEAST_WEIGHTED = 4000
HEAVY_SHARE = 0.95  # of the weight that the heaviest rows of a sample hold


class EmbeddedPoints(Points):
    """Embedded rows, for k-means.

    Parameters
    ----------
    edges : Edges or LazyEdges
        Transition probabilities of the rows.
    vectors : ndarray of shape (p, k), float32
        Vectors of the representatives.
    weights : ndarray of shape (n,) or (1,), float64
        Weight of each row, or of every row.
    scales : ndarray of shape (n,), float32
        What brings each lifted row to unit length, from `lift_scales`.
    """

    def __init__(
        self,
        edges: Edges | LazyEdges,
        vectors: npt.NDArray[np.float32],
        weights: Weights = ONE,
        scales: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.n_rows, self.n_sums = len(edges), len(vectors)  # sums of weights on representatives, see `means`
        self.weights = weights
        self._edges = edges
        self._vectors = vectors
        self._scales = scales

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        return self._edges.blocks()

    def measure(self, engine: ThreadEngine) -> None:
        """Compute the scales of all rows, which k-means needs, if they are not there yet."""
        if self._scales is not None:
            return
        scales, vectors = np.empty(self.n_rows, dtype=np.float32), full_lanes(self._vectors)

        def run(span: Span) -> None:
            edges = self._edges[slice(*span)]
            graph_kernels.lift_scales(edges.ids, edges.weights, vectors, lift_room(vectors), scales[slice(*span)])

        engine.map(run, self.blocks())
        self._scales = scales

    def sample(self, size: int, random: np.random.Generator) -> EmbeddedPoints:
        """About `size` rows: drawn evenly, or where rows have weights, the heaviest, if need be fewer of them."""
        if size >= self.n_rows and (len(self.weights) == 1 or self.n_rows <= LEAST_WEIGHTED):
            return self
        if len(self.weights) > 1:
            heaviest = np.argsort(-self.weights, kind="stable")
            share = np.cumsum(self.weights[heaviest]) / self.weights.sum()
            size = min(size, max(LEAST_WEIGHTED, int(np.searchsorted(share, HEAVY_SHARE)) + 1))
            rows = np.sort(heaviest[:size])
        else:
            rows = sample_indices(self.n_rows, size, random)
        weights = self.weights[rows] if len(self.weights) > 1 else self.weights
        scales = None if self._scales is None else self._scales[rows]
        return EmbeddedPoints(self._edges[rows], self._vectors, weights, scales)

    def spread(self, k: int, random: np.random.Generator) -> Centers:
        """`k` starting centres by k-means++; fewer if there are fewer distinct rows.

        Weighted rows are few and some weigh much: there, a step may try several.
        """
        trials = 2 + int(np.log(k)) if len(self.weights) > 1 else 1
        return spread_centers(lift(self._edges[slice(0, self.n_rows)], self._vectors), self.weights, k, random, trials)

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Each cluster's total weight on representatives times their vectors, divided by its rows."""
        return (sums @ self._vectors.astype(np.float64) / np.where(counts > 0, counts, 1)[:, None]).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Embedded rows at `indices`."""
        return lift(self._edges[indices], self._vectors)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None = None) -> Assign:  # noqa: ARG002
        """Products with the centres from the edges alone."""
        table, all_scales = score_table(self._vectors, centers), self._scales
        assert all_scales is not None

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            here = slice(*span)
            edges, scales, weights = self._edges[here], all_scales[here], self.weights_of(here)
            changed = kernels.assign_embedded(edges.ids, edges.weights, scales, *table, *score_room(table), labels, sq)
            kernels.add_edges(edges.ids, edges.weights, scales, weights, labels, sums)
            return int(changed)

        return assign


def points_of(edges: Edges | LazyEdges, vectors: npt.NDArray[np.float32]) -> EmbeddedPoints:
    """Rows embedded by their edges; where rows are on a cluster but few enough to be settled all, edges come here."""
    if isinstance(edges, LazyEdges) and edges.rows.remote and len(edges) <= settling_rows(vectors.shape[1]):
        edges = edges[np.arange(len(edges))]
    return EmbeddedPoints(edges, vectors)


def kmeans(
    points: EmbeddedPoints, k: int, n_init: int, max_iter: int, random: np.random.Generator, engine: ThreadEngine
) -> Clustering:
    """k-means on embedded rows.

    `n_init` k-means++ starts run on a sample of rows until no label changes; the best of them is carried on over a
    larger sample, or all rows if they are not many more, until moving the centres no longer pays. Data no larger than
    the first sample settles completely. Of weighted rows the heaviest are the sample, and the best start then settles
    on all. What is found has labels of the last sample's rows, which `label_all` gives for all.
    """
    weighted = len(points.weights) > 1
    best = rough_kmeans(points, k, n_init, max_iter, random, engine, tol=ROUGH if weighted else 0.0)
    if weighted:
        points.measure(engine)
        return lloyd(points, best.means, engine, max_iter=max_iter)
    if len(best.labels) < points.n_rows:
        sample = points if points.n_rows <= settling_rows(k) else points.sample(settling_rows(k) // 2, random)
        sample.measure(engine)
        best = lloyd(sample, best.means, engine, max_iter=max_iter, tol=SETTLED)
    return best


def settling_rows(k: int) -> int:
    """Rows up to which all of them settle the centres; of more, half as many do."""
    return 2 * LARGE_SAMPLE * _sample_size(k)


def rough_kmeans(
    points: EmbeddedPoints,
    k: int,
    n_init: int,
    max_iter: int,
    random: np.random.Generator,
    engine: ThreadEngine,
    tol: float = 0.0,
) -> Clustering:
    """The best of `n_init` runs of k-means on a sample of embedded rows; `tol` as in `lloyd`."""
    sample = points.sample(_sample_size(k), random)
    sample.measure(engine)
    best: Clustering | None = None
    for _ in range(n_init):
        start = sample.sample(max(SEED_ROWS, 100 * k), random).spread(k, random)
        found = lloyd(sample, start, engine, max_iter=max_iter, tol=tol)
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    return best


def _sample_size(k: int) -> int:
    return max(SAMPLE_ROWS, 500 * k)


def renumber(found: Clustering, k: int, why: str) -> Clustering:
    """Only clusters that have rows, numbered from zero; warns with a reason where they are fewer than `k`."""
    used = np.flatnonzero(found.counts)
    if used.size == k:
        return found
    warn_user(f"Found {used.size} clusters instead of {k}: {why}", ConvergenceWarning)
    labels = np.searchsorted(used, found.labels).astype(np.int32)
    return replace(found, labels=labels, centers=found.centers[used], counts=found.counts[used])
