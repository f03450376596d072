"""Points that k-means clusters: rows that can be assigned to the nearest of some centres, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.search import TILE, even_features, nearest_in_group_tiles, rows_by_key, tile_room
from ultraspec._kernels.sparse import sparse_products
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.rows import Block, Rows, Span

FEW_FEATURES = 8  # up to here, distances of a tile of rows are summed directly; above, other forms are faster
PROJECTED_ROWS = 2**18  # up to here, projected (200 bytes a row) are kept between passes

Centers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]
Squares = npt.NDArray[np.float32]
Sums = npt.NDArray[np.float64]
Weights = npt.NDArray[np.float64]

# Updates the labels of a span and the squared distances to their centres, adds the rows to the sums of their clusters,
# and returns how many labels changed.
Assign = Callable[[Span, Labels, Squares, Sums], int]


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
    bound : ProjectionBound, optional
        Rules out most centres for rows with many features.
    """

    def __init__(self, rows: Rows, bound: ProjectionBound | None = None) -> None:
        self.rows = rows
        self.n_rows, self.n_sums = rows.n_rows, rows.n_features
        self.bound = bound if bound is not None else ProjectionBound()
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
        """See `RowAssigner`."""
        return RowAssigner(self, centers, moved)

    def read(self, span: Span) -> Block:
        """Rows of a range."""
        return self.rows.read(*span)

    def project(self, block: Centers, span: Span) -> tuple[Centers, Centers]:
        """Projections and squared lengths of a block; of small data they are kept for the next pass."""
        if self.bound.basis is None or self.n_rows > PROJECTED_ROWS or self.rows.remote:
            return self.bound.project(block)
        if span not in self._kept:
            self._kept[span] = self.bound.project(block)
        return self._kept[span]


class RowAssigner:
    """Labels blocks of rows, each kind by the form that is fastest for it."""

    def __init__(self, points: RowPoints, centers: Centers, moved: npt.NDArray[np.intp] | None) -> None:
        self._points, self._centers, self._moved = points, centers, moved
        self._bound = points.bound
        if centers.shape[1] <= FEW_FEATURES:
            self._even_centers = even_features(centers)
        self._table, self._norms = self._bound.table(centers)
        self._half_norms = (0.5 * self._norms).astype(np.float32)
        if moved is not None and self._bound.basis is None:  # gathered once, not for every block
            self._moved_centers = centers[moved]
            self._moved_table = np.ascontiguousarray(self._table[:, moved])
            self._moved_half_norms = self._half_norms[moved]

    def __call__(self, span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
        """Assign the rows of a span."""
        return self.assign(self._points.read(span), span, labels, sq, sums)

    def assign(self, block: Block, span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
        """The same for a block that was read before."""
        if scipy.sparse.issparse(block):
            changed = self._sparse(block, labels, sq)
            kernels.add_sparse_rows(block.indptr, block.indices, block.data, labels, sums)
            return changed
        if block.shape[1] <= FEW_FEATURES:
            changed = assign_direct(block, self._even_centers, labels, sq)
        elif self._moved is None or self._bound.basis is not None:
            changed = self._by_products(block, *self._points.project(block, span), labels, sq)
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
        self, block: Centers, projected: Centers, norms: Centers, labels: Labels, sq: Squares, moved_only: bool = False
    ) -> int:
        """Nearest of all centres, or of the moved ones (labels then number these)."""
        centers, table, half_norms = self._centers, self._table, self._half_norms
        if moved_only:
            centers, table, half_norms = self._moved_centers, self._moved_table, self._moved_half_norms
        products, bounds = projected @ table, (self._bound.slack, product_error(projected.shape[1]))
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
            self._by_products(block[rows], *self._bound.project(block[rows]), new_labels, new_sq)
            labels[rows], sq[rows] = new_labels, new_sq
        rows = np.flatnonzero(~left)
        if rows.size and moved.size:
            new_labels, new_sq = labels[rows], sq[rows]
            self._by_products(block[rows], *self._bound.project(block[rows]), new_labels, new_sq, moved_only=True)
            nearer = new_sq < sq[rows]
            labels[rows[nearer]], sq[rows[nearer]] = moved[new_labels[nearer]], new_sq[nearer]
        return int((labels != before).sum())


def assign_direct(block: Centers, even_centers: Centers, labels: Labels, sq: Squares) -> int:
    """Label rows of few features with the nearest centre, all rows being one group; returns how many labels changed."""
    before, all_rows, all_centers = labels.copy(), rows_by_key(labels, 1), np.array([0, len(even_centers)])
    room = tile_room(even_centers), np.empty(TILE, dtype=np.int32)
    nearest_in_group_tiles(block, *all_rows, even_centers, all_centers, *room, labels, sq)
    return int(np.count_nonzero(labels != before))


def product_error(d: int) -> np.float32:
    """Bound of the rounding of a halved squared distance from float32 products, relative to the squared lengths."""
    return np.float32(2 * (np.sqrt(d) + 4) * np.finfo(np.float32).eps)
