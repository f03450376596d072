"""Elkan's k-means: the clusters of `lloyd` in much less time, by bounds of distances.

From iteration to iteration centres move little, and by the triangle inequality most rows keep their nearest centre.
These rows are not even read, and the sums of clusters change only by the rows that change their cluster. The bounds
take 4 bytes per row and cluster, so they are used only up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist, squareform

from ultraspec.baselines._kernels import elkan as kernels
from ultraspec.cluster.kmeans import Clustering, Tally, spare_clusters, worthwhile_groups
from ultraspec.cluster.points import FEW_FEATURES, Centers, Labels, RowPoints, Squares, Sums, Weights, product_error
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, Span

MOST_BOUNDS = 2**26  # rows times clusters
MANY_ITERATIONS = 20  # with fewer, most of the time is spent in the first ones, which compute nearly all distances


def elkan_is_faster(rows: Rows, k: int, max_iter: int) -> bool:
    """Return whether bounds save time and need little memory."""
    suitable = not rows.sparse and not rows.remote and rows.n_features > FEW_FEATURES
    return suitable and max_iter >= MANY_ITERATIONS and rows.n_rows * k <= MOST_BOUNDS


def elkan_kmeans(points: RowPoints, centers: Centers, engine: ThreadEngine, *, max_iter: int) -> Clustering:
    """Move `centers` to the means of their rows until labels settle, or for `max_iter` iterations.

    The result is that of `lloyd`, except for rows whose distances to two centres are equal in float32. A cluster that
    becomes empty is restarted as in `lloyd`.
    """
    state = _ElkanState(points, len(centers))
    moves: Squares | None = None
    for iteration in range(max_iter):
        changed = state.assign(centers, moves, engine)
        means = points.means(state.sums, state.counts)
        empty = np.flatnonzero(state.counts == 0)
        means[empty] = centers[empty]
        if (changed == 0 and not empty.size) or iteration + 1 == max_iter:
            break
        if empty.size:
            tally = state.measure(centers, engine)
            farthest = np.sort(tally.far_row[spare_clusters(tally, empty.size)])
            if changed == 0 and not farthest.size:
                break
            means[empty[: farthest.size]] = points.take(farthest)
        steps = (means - centers).astype(np.float64)
        moves = np.sqrt(np.einsum("ij,ij->i", steps, steps)).astype(np.float32) * (1 + kernels.MARGIN)
        centers = means
    inertia = state.measure(centers, engine).inertia
    return Clustering(state.labels, centers, means, state.counts, inertia, iteration + 1)


class _ElkanState:
    """Labels, bounds and sums that are kept from iteration to iteration."""

    def __init__(self, points: RowPoints, k: int) -> None:
        n = points.n_rows
        self._points = points
        self._k = k
        self.labels: Labels = np.full(n, -1, dtype=np.int32)
        self.sums: Sums = np.zeros((k, points.n_sums))
        self.counts: Weights = np.zeros(k)
        self._upper = np.empty(n, dtype=np.float32)
        self._lower = np.empty((n, k), dtype=np.float32)
        self._most_groups = worthwhile_groups(points, k)

    def assign(self, centers: Centers, moves: Squares | None, engine: ThreadEngine) -> int:
        """Assign rows to their nearest centres, after these moved by `moves`; return how many labels changed."""
        half_distances = _half_distances(centers)

        def step(tally: Tally, span: Span) -> None:
            here = slice(*span)
            labels, upper, lower = self.labels[here], self._upper[here], self._lower[here]
            if moves is None:
                X = self._points.read(span)
                rows = np.arange(len(labels), dtype=np.int64)
                _initial_bounds(X, centers, labels, lower)
            else:
                doubtful = np.empty(len(labels), dtype=np.int64)
                rows = doubtful[: kernels.update_bounds(moves, half_distances, labels, upper, lower, doubtful)]
                if not rows.size:
                    return
                X = self._features(span, rows)
            weights = self._points.weights_of(here)
            bounds = half_distances, weights, labels, upper, lower
            tally.changed += kernels.assign_rows(X, rows, centers, *bounds, tally.sums)

        tally = self._fold(step, engine)
        self.sums += tally.sums
        weights = np.broadcast_to(self._points.weights, self.labels.shape)
        self.counts = np.bincount(self.labels, weights, minlength=self._k).astype(np.float64)
        return tally.changed

    def measure(self, centers: Centers, engine: ThreadEngine) -> Tally:
        """Return the sum of squares, and the rows that are farthest from their centres."""

        def step(tally: Tally, span: Span) -> None:
            labels = self.labels[slice(*span)]
            sq = np.empty(len(labels), dtype=np.float32)
            kernels.own_squared_distances(self._points.read(span), centers, labels, sq)
            tally.add(labels, sq, self._points.weights_of(slice(*span)), span[0])

        return self._fold(step, engine)

    def _features(self, span: Span, rows: npt.NDArray[np.int64]) -> Centers:
        """Return some rows of a range; the range is read as a whole if these are many."""
        if 2 * rows.size < span[1] - span[0]:
            return self._points.take(span[0] + rows)
        return np.asarray(self._points.read(span))[rows]

    def _fold(self, step: Callable[[Tally, Span], None], engine: ThreadEngine) -> Tally:
        start = partial(Tally.empty, self._k, self._points.n_sums)
        return engine.fold(self._points.blocks(), start, step, Tally.merge, most_groups=self._most_groups)


def _initial_bounds(X: Centers, centers: Centers, labels: Labels, lower: Centers) -> None:
    """Write the first lower bounds of a block, and guesses of its labels, from one matrix product."""
    norms = np.einsum("ij,ij->i", X, X)
    half_norms = (0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)).astype(np.float32)
    kernels.initial_bounds(X @ centers.T, half_norms, norms, product_error(X.shape[1]), labels, lower)


def _half_distances(centers: Centers) -> Squares:
    """Return half the distances between centres, reduced by a margin for rounding; infinity on the diagonal."""
    halves = 0.5 * squareform(pdist(centers.astype(np.float64)))
    np.fill_diagonal(halves, np.inf)
    return (halves * (1 - float(kernels.MARGIN))).astype(np.float32)
