"""The last step: takes the rows' edges and the representatives' vectors, gives labels.

The embedding of N rows in k dimensions is never stored, and during k-means not even formed: a row is a weighted sum
of K representatives' vectors, so its products with the centres, and the sums that move the centres, come from its K
edges alone. A pass costs O(N K k) instead of O(N k^2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._kernels import graph as graph_kernels
from ultraspec._kernels import kmeans as kernels
from ultraspec._validation import warn_user
from ultraspec.bipartite import ONE, Edges, lift
from ultraspec.engines import ThreadEngine
from ultraspec.kmeans import (
    Assign,
    Centers,
    Clustering,
    Labels,
    Points,
    Span,
    Squares,
    Sums,
    Weights,
    lloyd,
    spread_centers,
)
from ultraspec.rows import sample_indices

SAMPLE_ROWS = 50_000
SEED_ROWS = 20_000
SAMPLE_GROWTH = 16
SETTLED = 3e-5  # share of the sum of squares that a further step would gain when a large fit stops
BLOCK_ROWS = 32768
SMALL_BLOCK_EDGES = 2**16
LANES = 8  # float32 values that most processors multiply at once


class EmbeddedPoints(Points):
    """Embedded rows, for k-means.

    Parameters
    ----------
    edges : Edges
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
        edges: Edges,
        vectors: npt.NDArray[np.float32],
        weights: Weights = ONE,
        scales: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.n_rows, self.n_sums = len(edges), len(vectors)  # sums of weights on representatives, see `means`
        self.weights = weights
        self._edges = edges
        self._vectors = np.ascontiguousarray(vectors)
        self._scales = np.empty(self.n_rows, dtype=np.float32) if scales is None else scales

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        step = BLOCK_ROWS if self.n_rows > 16 * BLOCK_ROWS else SMALL_BLOCK_EDGES // self._edges.ids.shape[1]
        return [(low, min(low + step, self.n_rows)) for low in range(0, self.n_rows, step)]

    def measure(self, span: Span) -> None:
        """Compute the scales of a range of rows."""
        here = slice(*span)
        edges = self._edges[here]
        graph_kernels.lift_scales(edges.ids, edges.weights, self._vectors, self._scales[here])

    def sample(self, size: int, random: np.random.Generator) -> EmbeddedPoints:
        """About `size` rows: drawn evenly, or where rows have weights, the heaviest."""
        if size >= self.n_rows:
            return self
        if len(self.weights) > 1:
            rows = np.sort(np.argsort(-self.weights, kind="stable")[:size])
        else:
            rows = sample_indices(self.n_rows, size, random)
        weights = self.weights[rows] if len(self.weights) > 1 else self.weights
        return EmbeddedPoints(self._edges[rows], self._vectors, weights, self._scales[rows])

    def spread(self, k: int, random: np.random.Generator) -> Centers:
        """`k` starting centres by k-means++; fewer if there are fewer distinct rows."""
        return spread_centers(lift(self._edges, self._vectors), self.weights, k, random)

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Each cluster's total weight on representatives times their vectors, divided by its rows."""
        return (sums @ self._vectors.astype(np.float64) / np.where(counts > 0, counts, 1)[:, None]).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Embedded rows at `indices`."""
        return lift(self._edges[indices], self._vectors)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None = None) -> Assign:  # noqa: ARG002
        """Products with the centres from the edges alone."""
        products, half_norms = score_table(self._vectors, centers)

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            here = slice(*span)
            edges, scales, weights = self._edges[here], self._scales[here], self.weights_of(here)
            changed = kernels.assign_embedded(edges.ids, edges.weights, scales, products, half_norms, labels, sq)
            kernels.add_edges(edges.ids, edges.weights, scales, weights, labels, sums)
            return int(changed)

        return assign

    def label_into(self, centers: Centers, out: npt.NDArray[Any], engine: ThreadEngine) -> Centers:
        """Write the nearest centre of every row to `out`; returns the centres that have rows, as `out` numbers them."""
        table = score_table(self._vectors, centers)

        def run(span: Span) -> npt.NDArray[np.int64]:
            here = slice(*span)
            labels = np.empty(span[1] - span[0], dtype=np.int32)
            edges = self._edges[here]
            unused = np.empty(len(labels), dtype=np.float32)
            kernels.assign_embedded(edges.ids, edges.weights, self._scales[here], *table, labels, unused)
            out[here] = labels
            return np.bincount(labels, minlength=len(centers))

        used = np.flatnonzero(sum(engine.map(run, self.blocks())))
        if used.size < len(centers):
            numbers = np.zeros(len(centers), dtype=out.dtype)
            numbers[used] = np.arange(used.size)
            out[:] = numbers[out]
        return centers[used]


def score_table(vectors: npt.NDArray[np.float32], centers: Centers) -> tuple[Centers, Centers]:
    """Products (p, k) of the representatives' vectors with the centres, and half the centres' squared lengths.

    Columns are added up to a multiple of `LANES`, for centres infinitely far away.
    """
    k = len(centers)
    centers = centers.astype(np.float64)
    products = np.zeros((len(vectors), -(-k // LANES) * LANES), dtype=np.float32)
    products[:, :k] = vectors.astype(np.float64) @ centers.T
    half_norms = np.full(products.shape[1], np.inf, dtype=np.float32)
    half_norms[:k] = 0.5 * (centers**2).sum(axis=1)
    return products, half_norms


def label(edges: Edges, vectors: npt.NDArray[np.float32], centers: Centers) -> Labels:
    """Labels of rows from their edges, by the arithmetic of the fit's last pass."""
    n = len(edges)
    labels, scales, sq = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    graph_kernels.lift_scales(edges.ids, edges.weights, vectors, scales)
    kernels.assign_embedded(edges.ids, edges.weights, scales, *score_table(vectors, centers), labels, sq)
    return labels


def kmeans(
    points: EmbeddedPoints, k: int, n_init: int, max_iter: int, random: np.random.Generator, engine: ThreadEngine
) -> Clustering:
    """k-means on embedded rows.

    `n_init` k-means++ starts run on a sample of rows until no label changes; the best of them is carried on over a
    larger sample and at last over all rows, until moving the centres no longer pays. Data no larger than the first
    sample settles completely.
    """
    best = rough_kmeans(points, k, n_init, max_iter, random, engine)
    n, size = points.n_rows, _sample_size(k)
    while size < n:
        size *= SAMPLE_GROWTH
        sample = points.sample(size, random) if 2 * size < n else points
        best = lloyd(sample, best.means, engine, max_iter=max_iter, tol=SETTLED)
        size = max(size, sample.n_rows)
    return best


def rough_kmeans(
    points: EmbeddedPoints, k: int, n_init: int, max_iter: int, random: np.random.Generator, engine: ThreadEngine
) -> Clustering:
    """The best of `n_init` runs of k-means on a sample of embedded rows."""
    engine.map(points.measure, points.blocks())
    sample = points.sample(_sample_size(k), random)
    best: Clustering | None = None
    for _ in range(n_init):
        start = sample.sample(max(SEED_ROWS, 100 * k), random).spread(k, random)
        found = lloyd(sample, start, engine, max_iter=max_iter)
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
