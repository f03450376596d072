"""k-means over row blocks: the one k-means of the library.

Takes points that can be assigned to centres block by block, and starting centres; gives labels and centres. A pass
maps every block to its labels and reduces counts and sums per cluster. It selects representatives, groups them into
rep-clusters and discretises the spectral embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import kmeans as kernels
from ultraspec.cluster.points import Assign, Centers, Labels, Points, RowAssigner, RowPoints, Squares, Sums, Weights
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, sample_indices

SUMS_VALUES = 2**24  # values of all groups' sums together, but for wide data


@dataclass
class Clustering:
    """What k-means found.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), int32
        Nearest of `centers`.
    centers : ndarray of shape (k, d), float32
        The centres that gave the labels.
    means : ndarray of shape (k, d), float32
        The means of the rows so labelled: where the centres would move next.
    counts : ndarray of shape (k,), float64
        Rows per cluster, or their weight; zeros where there are fewer distinct rows than clusters.
    inertia : float
        Sum of squared distances to `centers`.
    n_iter : int
        Passes over the rows.
    """

    labels: Labels
    centers: Centers
    means: Centers
    counts: npt.NDArray[np.float64]
    inertia: float
    n_iter: int


@dataclass
class Tally:
    """Partial result of a pass."""

    sums: Sums
    counts: Weights
    far_sq: Squares
    far_row: npt.NDArray[np.int64]
    inertia: float = 0.0
    changed: int = 0

    @classmethod
    def empty(cls, k: int, n_sums: int) -> Tally:
        """Of no rows."""
        far_sq, far_row = np.full(k, -1, dtype=np.float32), np.full(k, -1, dtype=np.int64)
        return cls(np.zeros((k, n_sums)), np.zeros(k), far_sq, far_row)

    def add(self, labels: Labels, sq: Squares, weights: Weights, first: int) -> None:
        """Count rows, of which `first` is the number of the first."""
        self.inertia += kernels.tally(labels, sq, weights, first, self.counts, self.far_sq, self.far_row)

    def merge(self, other: Tally) -> Tally:
        """Add another's rows."""
        self.sums += other.sums
        self.counts += other.counts
        self.inertia += other.inertia
        self.changed += other.changed
        farther = other.far_sq > self.far_sq
        self.far_sq[farther] = other.far_sq[farther]
        self.far_row[farther] = other.far_row[farther]
        return self


def lloyd(points: Points, centers: Centers, engine: ThreadEngine, *, max_iter: int, tol: float = 0.0) -> Clustering:
    """Move `centers` to the means of their rows until labels settle.

    Stops when no label changes, when moving the centres would lower the sum of squares by at most a share `tol`, or
    after `max_iter` passes. A cluster that loses all rows starts anew at the row farthest from its centre, one row per
    cluster that can spare one.
    """
    remote = points if isinstance(points, RowPoints) and points.rows.remote else None
    n_kept = points.n_rows if remote is None else 0  # nothing as long as the data is kept here if that is elsewhere
    labels, sq = np.full(n_kept, -1, dtype=np.int32), np.empty(n_kept, dtype=np.float32)
    moved: npt.NDArray[np.intp] | None = None
    for iteration in range(max_iter):
        if remote is not None:
            found = _remote_pass(remote, centers, engine)
        else:
            found = _assign_pass(points, points.assign_to(centers, moved), len(centers), labels, sq, engine)
        means = points.means(found.sums, found.counts)
        empty = np.flatnonzero(found.counts == 0)
        means[empty] = centers[empty]
        spare = spare_clusters(found, empty.size)
        gain = float(found.counts @ ((means - centers).astype(np.float64) ** 2).sum(axis=1))
        settled = found.changed == 0 or gain <= tol * found.inertia
        if (settled and not spare.size) or iteration + 1 == max_iter:
            break
        if spare.size:
            at = np.sort(found.far_row[spare])
            means[empty[: at.size]] = points.take(at)
        moved = np.flatnonzero((means != centers).any(axis=1))
        centers = means
    return Clustering(labels, centers, means, found.counts, found.inertia, iteration + 1)


def _assign_pass(points: Points, assign: Assign, k: int, labels: Labels, sq: Squares, engine: ThreadEngine) -> Tally:
    def step(tally: Tally, span: Span) -> None:
        here = slice(*span)
        tally.changed += assign(span, labels[here], sq[here], tally.sums)
        tally.add(labels[here], sq[here], points.weights_of(here), span[0])

    start = partial(Tally.empty, k, points.n_sums)
    return engine.fold(points.blocks(), start, step, Tally.merge, most_groups=worthwhile_groups(points, k))


def _remote_pass(points: RowPoints, centers: Centers, engine: ThreadEngine) -> Tally:
    """A pass that keeps no labels: rows find their centre anew, and a pass that changes none moves no centre."""
    assigner = RowAssigner(RowPoints(points.rows.with_source(None), points.bound), centers, None)

    def step(tally: Tally, block: Block, span: Span) -> None:
        labels, sq = np.full(block.shape[0], -1, dtype=np.int32), np.empty(block.shape[0], dtype=np.float32)
        tally.changed += assigner.assign(block, span, labels, sq, tally.sums)
        tally.add(labels, sq, np.ones(1), span[0])

    k = len(centers)
    start = partial(Tally.empty, k, points.n_sums)
    return engine.fold_rows(points.rows, start, step, Tally.merge, most_groups=worthwhile_groups(points, k))


def worthwhile_groups(points: Points, k: int) -> int:
    """Partial results of a pass.

    A group of blocks owns a matrix of sums: it must have more rows than that to be worth its merge, and wide data can
    afford two such matrices only.
    """
    return min(1 + points.n_rows // (2 * k), max(2, SUMS_VALUES // (k * points.n_sums)))


def spare_clusters(found: Tally, wanted: int) -> npt.NDArray[np.intp]:
    """Up to `wanted` clusters with a row away from their centre, the farthest first."""
    spare = np.flatnonzero((found.counts > 1) & (found.far_sq > 0))
    return spare[np.argsort(-found.far_sq[spare], kind="stable")][:wanted]


def random_centers(rows: Rows, k: int, random: np.random.Generator) -> Centers:
    """`k` rows drawn without replacement."""
    return RowPoints(rows).take(sample_indices(rows.n_rows, k, random))


def spread_centers(X: Centers, weights: Weights, k: int, random: np.random.Generator, trials: int = 1) -> Centers:
    """`k` rows of an array by k-means++; fewer if there are fewer distinct rows.

    Of several `trials` a step takes the one that leaves the least sum of squares. `weights` are of each row or of every
    row; they multiply a row's chance.
    """
    columns = np.ascontiguousarray(X.T)  # few and long: NumPy is fast along them
    at = _draw(np.broadcast_to(weights, len(X)), float(random.random()))
    chosen, nearest = [at], _squared_to(columns, at)
    while len(chosen) < k:
        masses = weights * nearest
        if not masses.any():
            break
        tries = []
        for uniform in random.random(trials):
            at = _draw(masses, float(uniform))
            left = np.minimum(nearest, _squared_to(columns, at))
            tries.append((float((weights * left).sum()), at, left))
        _, at, nearest = min(tries, key=lambda found: found[0])
        chosen.append(at)
    return X[chosen]


def _squared_to(columns: Centers, at: int) -> Squares:
    """Squared distances of all points, given by columns, to one of them."""
    total = np.zeros(columns.shape[1], dtype=np.float32)
    for column in columns:
        away = column - column[at]
        away *= away
        total += away
    return total


def _draw(masses: Weights, uniform: float) -> int:
    """Index drawn in proportion to masses, some of which are positive."""
    running = np.cumsum(masses, dtype=np.float64)
    at = int(np.searchsorted(running, uniform * running[-1], side="right"))
    return at if at < len(masses) else int(np.flatnonzero(masses)[-1])
