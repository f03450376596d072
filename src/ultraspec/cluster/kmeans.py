"""k-means over row blocks: the one k-means of the library.

Takes points that can be assigned to centres block by block, and starting centres; gives labels and centres. A pass
maps every block to its labels and reduces counts and sums per cluster. It selects representatives, groups them into
rep-clusters and discretises the spectral embedding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.search import TILE, even_features, nearest_in_group_tiles, rows_by_key, tile_room
from ultraspec._kernels.sparse import sparse_products
from ultraspec.cluster.distance_bounds import Shadow
from ultraspec.engines import ThreadEngine
from ultraspec.rows import Block, Rows, Span, sample_indices

FEW_FEATURES = 8  # up to here, distances of a tile of rows are summed directly; above, other forms are faster
SHADOWED_ROWS = 2**18  # up to here, shadows (200 bytes a row) are kept between passes
SUMS_VALUES = 2**24  # values of all groups' sums together, but for wide data

Centers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]
Squares = npt.NDArray[np.float32]
Sums = npt.NDArray[np.float64]
Weights = npt.NDArray[np.float64]

# Updates the labels of a span and the squared distances to their centres, adds the rows to the sums of their clusters,
# and returns how many labels changed.
Assign = Callable[[Span, Labels, Squares, Sums], int]


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


class Points(ABC):
    """What k-means clusters: rows that can be assigned to centres, block by block.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_sums : int
        Columns of the matrix (k, n_sums) that assigning adds rows to.
    weights : ndarray of shape (n_rows,) or (1,), float64
        Weight of each row, or of every row.
    """

    n_rows: int
    n_sums: int
    weights: Weights = np.ones(1)

    def weights_of(self, rows: slice) -> Weights:
        """Weights of some rows, for kernels: one for each, or one for all."""
        return self.weights[rows] if len(self.weights) > 1 else self.weights

    @abstractmethod
    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""

    @abstractmethod
    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Centres from sums and counts."""

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Dense rows at sorted `indices`."""

    @abstractmethod
    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:
        """A function that labels blocks with the nearest of `centers`.

        `moved` lists the centres that differ from those which gave the labels passed in; None if there are no labels.
        """


class RowPoints(Points):
    """Rows of a row source with float32 blocks.

    Parameters
    ----------
    rows : Rows
        Prepared rows, dense or CSR.
    shadow : Shadow, optional
        Rules out most centres for rows with many features.
    """

    def __init__(self, rows: Rows, shadow: Shadow | None = None) -> None:
        self.rows = rows
        self.n_rows, self.n_sums = rows.n_rows, rows.n_features
        self.shadow = shadow if shadow is not None else Shadow()
        self._kept: dict[Span, tuple[Centers, Centers]] = {}

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        return self.rows.blocks()

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Sums divided by counts."""
        return (sums / np.where(counts > 0, counts, 1)[:, None]).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Dense rows at sorted `indices`."""
        block = self.rows.take(indices)
        return block.toarray() if scipy.sparse.issparse(block) else np.array(block)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:
        """See `_RowAssigner`."""
        return _RowAssigner(self, centers, moved)

    def read(self, span: Span) -> Block:
        """Rows of a range."""
        return self.rows.read(*span)

    def cast(self, block: Centers, span: Span) -> tuple[Centers, Centers]:
        """Shadows and squared lengths of a block; of small data they are kept for the next pass."""
        if self.shadow.basis is None or self.n_rows > SHADOWED_ROWS or self.rows.remote:
            return self.shadow.cast(block)
        if span not in self._kept:
            self._kept[span] = self.shadow.cast(block)
        return self._kept[span]


class _RowAssigner:
    """Labels blocks of rows, each kind by the form that is fastest for it."""

    def __init__(self, points: RowPoints, centers: Centers, moved: npt.NDArray[np.intp] | None) -> None:
        self._points, self._centers, self._moved = points, centers, moved
        self._shadow = points.shadow
        if centers.shape[1] <= FEW_FEATURES:
            self._even_centers = even_features(centers)
        self._table, self._norms = shadow_table(self._shadow, centers)
        self._half_norms = (0.5 * self._norms).astype(np.float32)
        if moved is not None and self._shadow.basis is None:  # gathered once, not for every block
            self._moved_centers = centers[moved]
            self._moved_table = np.ascontiguousarray(self._table[:, moved])
            self._moved_half_norms = self._half_norms[moved]

    def __call__(self, span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
        return self.assign(self._points.read(span), span, labels, sq, sums)

    def assign(self, block: Block, span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
        """The same for a block that was read before."""
        if scipy.sparse.issparse(block):
            changed = self._sparse(block, labels, sq)
            kernels.add_sparse_rows(block.indptr, block.indices, block.data, labels, sums)
            return changed
        if block.shape[1] <= FEW_FEATURES:
            changed = assign_direct(block, self._even_centers, labels, sq)
        elif self._moved is None or self._shadow.basis is not None:
            changed = self._by_products(block, *self._points.cast(block, span), labels, sq)
        else:
            changed = self._by_moved(block, self._moved, labels, sq)
        kernels.add_rows(block, labels, sums)
        return changed

    def _sparse(self, block: Block, labels: Labels, sq: Squares) -> int:
        products = np.empty((block.shape[0], len(self._centers)), dtype=np.float32)
        sparse_products(block.indptr, block.indices, block.data, self._table, products)
        norms = np.asarray(block.multiply(block).sum(axis=1), dtype=np.float32).ravel()
        args = block.indptr, block.indices, block.data, self._table, products, products.view(np.int32)
        return int(kernels.assign_sparse_products(*args, self._norms, self._half_norms, norms, labels, sq))

    def _by_products(
        self, block: Centers, shadows: Centers, norms: Centers, labels: Labels, sq: Squares, moved_only: bool = False
    ) -> int:
        """Nearest of all centres, or of the moved ones (labels then number these)."""
        centers, table, half_norms = self._centers, self._table, self._half_norms
        if moved_only:
            centers, table, half_norms = self._moved_centers, self._moved_table, self._moved_half_norms
        products, bounds = shadows @ table, (self._shadow.slack, product_error(shadows.shape[1]))
        args = block, centers, products, products.view(np.int32), half_norms, norms, *bounds
        return int(kernels.assign_dense_products(*args, labels, sq))

    def _by_moved(self, block: Centers, moved: npt.NDArray[np.intp], labels: Labels, sq: Squares) -> int:
        """Where a row's own centre stayed or came nearer, only the moved centres can be nearer still."""
        before = labels.copy()
        left = np.empty(len(block), dtype=np.bool_)
        is_moved = np.zeros(len(self._centers), dtype=np.bool_)
        is_moved[moved] = True
        kernels.update_own(block, self._centers, is_moved, labels, sq, left)
        rows = np.flatnonzero(left)
        if rows.size:
            new_labels, new_sq = labels[rows], sq[rows]
            self._by_products(block[rows], *self._shadow.cast(block[rows]), new_labels, new_sq)
            labels[rows], sq[rows] = new_labels, new_sq
        rows = np.flatnonzero(~left)
        if rows.size and moved.size:
            new_labels, new_sq = labels[rows], sq[rows]
            self._by_products(block[rows], *self._shadow.cast(block[rows]), new_labels, new_sq, moved_only=True)
            nearer = new_sq < sq[rows]
            labels[rows[nearer]], sq[rows[nearer]] = moved[new_labels[nearer]], new_sq[nearer]
        return int((labels != before).sum())


def assign_direct(block: Centers, even_centers: Centers, labels: Labels, sq: Squares) -> int:
    """Label rows of few features with the nearest centre, all rows being one group; returns how many labels changed."""
    before, all_rows, all_centers = labels.copy(), rows_by_key(labels, 1), np.array([0, len(even_centers)])
    room = tile_room(even_centers), np.empty(TILE, dtype=np.int32)
    nearest_in_group_tiles(block, *all_rows, even_centers, all_centers, *room, labels, sq)
    return int(np.count_nonzero(labels != before))


def shadow_table(shadow: Shadow, points: Centers) -> tuple[Centers, npt.NDArray[np.float64]]:
    """Shadows of points as columns, for inner products, and their squared lengths."""
    shadows = points if shadow.basis is None else shadow.cast(points)[0]
    return np.ascontiguousarray(shadows.T), np.einsum("ij,ij->i", shadows, shadows, dtype=np.float64)


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
    assigner = _RowAssigner(RowPoints(points.rows.over(None), points.shadow), centers, None)

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


def product_error(d: int) -> np.float32:
    """Bound of the rounding of a halved squared distance from float32 products, relative to the squared lengths."""
    return np.float32(2 * (np.sqrt(d) + 4) * np.finfo(np.float32).eps)


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
