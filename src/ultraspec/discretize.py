"""The last step: takes the rows' edges and the representatives' vectors, gives labels.

The embedding of N rows in k dimensions is never stored, and during k-means not even formed: a row is a weighted sum
of K representatives' vectors, so its products with the centres, and the sums that move the centres, come from its K
edges alone. A pass costs O(N K k) instead of O(N k^2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import graph as graph_kernels
from ultraspec._kernels import kmeans as kernels
from ultraspec.bipartite import Edges, lift
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
    lloyd,
    spread_centers,
)
from ultraspec.rows import sample_indices

SAMPLE_ROWS = 50_000
SEED_ROWS = 20_000
SAMPLE_GROWTH = 16
SETTLED = 3e-5  # share of the sum of squares that a further step would gain when a large fit stops
BLOCK_ROWS = 32768
SMALL_BLOCK_ROWS = 16384


class EmbeddedPoints(Points):
    """Embedded rows, for k-means.

    Parameters
    ----------
    edges : Edges
        Transition probabilities of the rows.
    vectors : ndarray of shape (p, k), float32
        Vectors of the representatives.
    scales : ndarray of shape (n,), float32
        What brings each lifted row to unit length, from `lift_scales`.
    """

    def __init__(
        self, edges: Edges, vectors: npt.NDArray[np.float32], scales: npt.NDArray[np.float32] | None = None
    ) -> None:
        self.n_rows, self.n_sums = len(edges), len(vectors)  # sums of weights on representatives, see `means`
        self._edges = edges
        self._vectors = vectors
        self._scales = np.empty(self.n_rows, dtype=np.float32) if scales is None else scales

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        step = BLOCK_ROWS if self.n_rows > 16 * BLOCK_ROWS else SMALL_BLOCK_ROWS
        return [(low, min(low + step, self.n_rows)) for low in range(0, self.n_rows, step)]

    def measure(self, span: Span) -> None:
        """Compute the scales of a range of rows."""
        here = slice(*span)
        edges = self._edges[here]
        graph_kernels.lift_scales(edges.ids, edges.weights, self._vectors, self._scales[here])

    def sample(self, indices: npt.NDArray[np.int64]) -> EmbeddedPoints:
        """The rows at `indices` alone."""
        return EmbeddedPoints(self._edges[indices], self._vectors, self._scales[indices])

    def means(self, sums: Sums, counts: npt.NDArray[np.int64]) -> Centers:
        """Each cluster's total weight on representatives times their vectors, divided by its rows."""
        return (sums @ self._vectors.astype(np.float64) / np.maximum(counts, 1)[:, None]).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Embedded rows at `indices`."""
        return lift(self._edges[indices], self._vectors)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None = None) -> Assign:  # noqa: ARG002
        """Products with the centres from the edges alone."""
        products, half_norms = score_table(self._vectors, centers)

        def assign(span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
            edges, scales = self._edges[slice(*span)], self._scales[slice(*span)]
            changed = kernels.assign_embedded(edges.ids, edges.weights, scales, products, half_norms, labels, sq)
            kernels.add_edges(edges.ids, edges.weights, scales, labels, sums)
            return int(changed)

        return assign


def score_table(vectors: npt.NDArray[np.float32], centers: Centers) -> tuple[Centers, Centers]:
    """Products (p, k) of the representatives' vectors with the centres, and half the centres' squared lengths."""
    centers = centers.astype(np.float64)
    products = vectors.astype(np.float64) @ centers.T
    return products.astype(np.float32), (0.5 * (centers**2).sum(axis=1)).astype(np.float32)


def label(edges: Edges, vectors: npt.NDArray[np.float32], centers: Centers) -> Labels:
    """Labels of rows from their edges, by the arithmetic of the fit's last pass."""
    n = len(edges)
    labels, scales, sq = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    graph_kernels.lift_scales(edges.ids, edges.weights, vectors, scales)
    kernels.assign_embedded(edges.ids, edges.weights, scales, *score_table(vectors, centers), labels, sq)
    return labels


def kmeans(
    edges: Edges,
    vectors: npt.NDArray[np.float32],
    k: int,
    n_init: int,
    max_iter: int,
    random: np.random.Generator,
    engine: ThreadEngine,
) -> Clustering:
    """k-means on the embedded rows.

    `n_init` k-means++ starts run on a sample of rows until no label changes; the best of them is carried on over a
    larger sample and at last over all rows, until moving the centres no longer pays. Data no larger than the first
    sample settles completely.
    """
    points = EmbeddedPoints(edges, np.ascontiguousarray(vectors))
    engine.map(points.measure, points.blocks())
    n = points.n_rows
    size = max(SAMPLE_ROWS, 500 * k)
    sample = points.sample(sample_indices(n, size, random))
    best: Clustering | None = None
    for _ in range(n_init):
        seeds = sample.take(sample_indices(sample.n_rows, max(SEED_ROWS, 100 * k), random))
        found = lloyd(sample, spread_centers(seeds, k, random), engine, max_iter=max_iter)
        if best is None or found.inertia < best.inertia:
            best = found
    assert best is not None
    while size < n:
        size *= SAMPLE_GROWTH
        sample = points.sample(sample_indices(n, size, random)) if 2 * size < n else points
        best = lloyd(sample, best.means, engine, max_iter=max_iter, tol=SETTLED)
        size = max(size, sample.n_rows)
    return best
