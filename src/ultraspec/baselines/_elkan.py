"""Lloyd's k-means with Elkan's bounds: the same clusters as `lloyd`, in much less time.

From pass to pass centres move little, and the triangle inequality tells which rows may have changed sides. All others
are not even read, and sums change by the rows that did. It takes 4 bytes for each row and cluster, hence the limit.
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
MANY_PASSES = 20  # with fewer the first ones, which measure nearly everything, are most of the work


def elkan_is_faster(rows: Rows, k: int, max_iter: int) -> bool:
    """Whether bounds save time, and their memory is small."""
    dense = not rows.sparse and not rows.remote and rows.n_features > FEW_FEATURES
    return dense and max_iter >= MANY_PASSES and rows.n_rows * k <= MOST_BOUNDS


def elkan_kmeans(points: RowPoints, centers: Centers, engine: ThreadEngine, *, max_iter: int) -> Clustering:
    """Move `centers` to the means of their rows until labels settle, or for `max_iter` passes.

    Gives what `lloyd` gives, but for rows that are equally near to two centres in all figures of a float32. A cluster
    that loses all rows starts anew as it does there.
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
            found = state.measure(centers, engine)
            at = np.sort(found.far_row[spare_clusters(found, empty.size)])
            if changed == 0 and not at.size:
                break
            means[empty[: at.size]] = points.take(at)
        away = (means - centers).astype(np.float64)
        moves = np.sqrt(np.einsum("ij,ij->i", away, away)).astype(np.float32) * (1 + kernels.MARGIN)
        centers = means
    inertia = state.measure(centers, engine).inertia
    return Clustering(state.labels, centers, means, state.counts, inertia, iteration + 1)


class _ElkanState:
    """Labels, bounds and sums from pass to pass."""

    def __init__(self, points: RowPoints, k: int) -> None:
        self._points, self._k, n = points, k, points.n_rows
        self.labels: Labels = np.full(n, -1, dtype=np.int32)
        self.sums: Sums = np.zeros((k, points.n_sums))
        self.counts: Weights = np.zeros(k)
        self._upper, self._lower = np.empty(n, dtype=np.float32), np.empty((n, k), dtype=np.float32)
        self._most_groups = worthwhile_groups(points, k)

    def assign(self, centers: Centers, moves: Squares | None, engine: ThreadEngine) -> int:
        """Give rows their nearest centres, after these moved by so much; returns how many labels changed."""
        apart = _half_distances(centers)

        def step(tally: Tally, span: Span) -> None:
            here = slice(*span)
            labels, upper, lower = self.labels[here], self._upper[here], self._lower[here]
            if moves is None:
                X, rows = self._points.read(span), np.arange(len(labels), dtype=np.int64)
                _guess(X, centers, labels, lower)
            else:
                doubtful = np.empty(len(labels), dtype=np.int64)
                rows = doubtful[: kernels.update_bounds(moves, apart, labels, upper, lower, doubtful)]
                if not rows.size:
                    return
                X = self._features(span, rows)
            weights = self._points.weights_of(here)
            tally.changed += kernels.assign_rows(X, rows, centers, apart, weights, labels, upper, lower, tally.sums)

        found = self._fold(step, engine)
        self.sums += found.sums
        weights = np.broadcast_to(self._points.weights, self.labels.shape)
        self.counts = np.bincount(self.labels, weights, minlength=self._k).astype(np.float64)
        return found.changed

    def measure(self, centers: Centers, engine: ThreadEngine) -> Tally:
        """The sum of squares, and the rows that are farthest from their centres."""

        def step(tally: Tally, span: Span) -> None:
            labels = self.labels[slice(*span)]
            sq = np.empty(len(labels), dtype=np.float32)
            kernels.own_squared_distances(self._points.read(span), centers, labels, sq)
            tally.add(labels, sq, self._points.weights_of(slice(*span)), span[0])

        return self._fold(step, engine)

    def _features(self, span: Span, rows: npt.NDArray[np.int64]) -> Centers:
        """Some rows of a range; few are read alone."""
        if 2 * rows.size < span[1] - span[0]:
            return self._points.take(span[0] + rows)
        return np.asarray(self._points.read(span))[rows]

    def _fold(self, step: Callable[[Tally, Span], None], engine: ThreadEngine) -> Tally:
        start = partial(Tally.empty, self._k, self._points.n_sums)
        return engine.fold(self._points.blocks(), start, step, Tally.merge, most_groups=self._most_groups)


def _guess(X: Centers, centers: Centers, labels: Labels, lower: Centers) -> None:
    """First bounds of a block, and guesses of labels, from one matrix product."""
    norms = np.einsum("ij,ij->i", X, X)
    half_norms = (0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)).astype(np.float32)
    kernels.initial_bounds(X @ centers.T, half_norms, norms, product_error(X.shape[1]), labels, lower)


def _half_distances(centers: Centers) -> Squares:
    """Half the distances between centres, a little less for rounding; infinity to themselves."""
    apart = 0.5 * squareform(pdist(centers.astype(np.float64)))
    np.fill_diagonal(apart, np.inf)
    return (apart * (1 - float(kernels.MARGIN))).astype(np.float32)
