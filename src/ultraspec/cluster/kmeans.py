"""k-means on blocks of rows: the one k-means of the library.

`lloyd` takes points that can be assigned to centres block by block, and starting centres. A pass maps each block to
its labels, and reduces blocks to counts and sums per cluster. This k-means selects representatives, groups them into
rep-clusters and divides the spectral embedding.
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

DRAWS_PER_CENTER = 10  # weighted rows that random centres are drawn from
SUMS_VALUES = 2**24  # values in the sums of all partial results together, unless the data is wide


@dataclass
class Clustering:
    """Result of k-means."""

    labels: Labels  #: (n_rows,): index of the nearest of `centers`
    centers: Centers  #: (k, d): the centres that gave the labels
    means: Centers  #: (k, d): means of the rows with each label, which are the centres of the next iteration
    counts: Weights  #: (k,): rows, or their weight, per cluster; 0 for some if there are fewer distinct rows
    inertia: float  #: sum of squared distances to `centers`
    n_iter: int  #: number of passes over the rows


@dataclass
class Tally:
    """Partial result of a pass, over some of the rows."""

    sums: Sums  #: (k, n_sums): sum of the rows of each cluster
    counts: Weights  #: (k,): number of rows, or their weight, per cluster
    far_sq: Squares  #: (k,): largest squared distance of a row of each cluster to its centre
    far_row: npt.NDArray[np.int64]  #: (k,): number of that row
    inertia: float = 0.0  #: sum of squared distances
    changed: int = 0  #: number of labels that changed

    @classmethod
    def empty(cls, k: int, n_sums: int) -> Tally:
        """Return the tally of no rows."""
        far_sq = np.full(k, -1, dtype=np.float32)
        far_row = np.full(k, -1, dtype=np.int64)
        return cls(np.zeros((k, n_sums)), np.zeros(k), far_sq, far_row)

    def add(self, labels: Labels, sq: Squares, weights: Weights, first: int) -> None:
        """Count assigned rows, the first of which has the number `first`; sums are added by the assignment."""
        self.inertia += kernels.tally(labels, sq, weights, first, self.counts, self.far_sq, self.far_row)

    def merge(self, other: Tally) -> Tally:
        """Add the rows of another tally, in place."""
        self.sums += other.sums
        self.counts += other.counts
        self.inertia += other.inertia
        self.changed += other.changed
        farther = other.far_sq > self.far_sq
        self.far_sq[farther] = other.far_sq[farther]
        self.far_row[farther] = other.far_row[farther]
        return self


def lloyd(points: Points, centers: Centers, engine: ThreadEngine, *, max_iter: int, tol: float = 0.0) -> Clustering:
    """Move `centers` to the means of their rows until the labels do not change.

    Also stop when moving the centres would lower the sum of squares by at most a share `tol`, or after `max_iter`
    passes. A cluster that loses all rows is restarted at the row that is farthest from its centre, one row from each
    cluster that has a row to spare.
    """
    remote = points if isinstance(points, RowPoints) and points.rows.remote else None
    n_stored = points.n_rows if remote is None else 0  # labels of rows on a cluster are not stored here
    labels = np.full(n_stored, -1, dtype=np.int32)
    sq = np.empty(n_stored, dtype=np.float32)
    moved: npt.NDArray[np.intp] | None = None
    for iteration in range(max_iter):
        if remote is not None:
            tally = _remote_pass(remote, centers, engine)
        else:
            tally = _assign_pass(points, points.assign_to(centers, moved), len(centers), labels, sq, engine)
        means = points.means(tally.sums, tally.counts)
        empty = np.flatnonzero(tally.counts == 0)
        means[empty] = centers[empty]
        spare = spare_clusters(tally, empty.size)
        # moving a centre to the mean of its rows lowers the sum of squares by count * |mean - centre|^2
        gain = float(tally.counts @ ((means - centers).astype(np.float64) ** 2).sum(axis=1))
        settled = tally.changed == 0 or gain <= tol * tally.inertia
        if (settled and not spare.size) or iteration + 1 == max_iter:
            break
        if spare.size:
            farthest = np.sort(tally.far_row[spare])
            means[empty[: farthest.size]] = points.take(farthest)
        moved = np.flatnonzero((means != centers).any(axis=1))
        centers = means
    return Clustering(labels, centers, means, tally.counts, tally.inertia, iteration + 1)


def _assign_pass(points: Points, assign: Assign, k: int, labels: Labels, sq: Squares, engine: ThreadEngine) -> Tally:
    """Assign all rows, and update `labels` and `sq`."""

    def step(tally: Tally, span: Span) -> None:
        rows = slice(*span)
        tally.changed += assign(span, labels[rows], sq[rows], tally.sums)
        tally.add(labels[rows], sq[rows], points.weights_of(rows), span[0])

    start = partial(Tally.empty, k, points.n_sums)
    return engine.fold(points.blocks(), start, step, Tally.merge, most_groups=worthwhile_groups(points, k))


def _remote_pass(points: RowPoints, centers: Centers, engine: ThreadEngine) -> Tally:
    """Assign all rows on a cluster, without storing labels.

    Every label counts as changed. A pass that changes no label moves no centre, which ends k-means as well.
    """
    assigner = RowAssigner(RowPoints(points.rows.with_source(None), points.bound), centers, None)

    def step(tally: Tally, block: Block, span: Span, weights: Weights) -> None:
        labels = np.full(block.shape[0], -1, dtype=np.int32)
        sq = np.empty(block.shape[0], dtype=np.float32)
        tally.changed += assigner.assign(block, span, weights, labels, sq, tally.sums)
        tally.add(labels, sq, weights, span[0])

    k = len(centers)
    start = partial(Tally.empty, k, points.n_sums)
    groups = worthwhile_groups(points, k)
    return engine.fold_rows(points.rows, start, step, Tally.merge, most_groups=groups, weighted=True)


def worthwhile_groups(points: Points, k: int) -> int:
    """Return the number of partial results of a pass that are worth the cost of merging them.

    Each has a matrix of sums (k, n_sums), so it must cover more than 2 k rows. All matrices together must stay small;
    two are allowed in any case.
    """
    return min(1 + points.n_rows // (2 * k), max(2, SUMS_VALUES // (k * points.n_sums)))


def spare_clusters(tally: Tally, most: int) -> npt.NDArray[np.intp]:
    """Return up to `most` clusters that have a row away from their centre, the farthest first."""
    spare = np.flatnonzero((tally.counts > 1) & (tally.far_sq > 0))
    return spare[np.argsort(-tally.far_sq[spare], kind="stable")][:most]


def random_centers(rows: Rows, k: int, rng: np.random.Generator) -> Centers:
    """Draw `k` rows without replacement, by weight if rows are weighted."""
    if rows.weights is None:
        return RowPoints(rows).take(sample_indices(rows.n_rows, k, rng))
    indices, weights = rows.weights.sample(DRAWS_PER_CENTER * k, rng)
    order = np.argsort(rng.exponential(size=len(indices)) / weights, kind="stable")  # the first rings of Poisson clocks
    return RowPoints(rows).take(np.sort(indices[order[:k]]))


def spread_centers(X: Centers, weights: Weights, k: int, rng: np.random.Generator, trials: int = 1) -> Centers:
    """Draw `k` rows of an array by k-means++; fewer if there are fewer distinct rows.

    A row is drawn with a probability proportional to its weight times its squared distance to the nearest row drawn
    before. Each step draws `trials` rows and takes the one that leaves the smallest sum of squares. There is a weight
    for each row, or one for every row.
    """
    n = len(X)
    uniforms = np.empty((k, trials))
    uniforms[0] = rng.random()
    uniforms[1:] = rng.random((k - 1, trials))
    chosen = np.empty(k, dtype=np.int64)
    squares = np.empty((3, n), dtype=np.float32)
    drawn = kernels.spread_points(
        np.ascontiguousarray(X.T), weights, uniforms, chosen, squares[0], np.empty(n), squares[1], squares[2]
    )
    return X[chosen[:drawn]]
