"""Points that k-means clusters: rows that can be assigned to the nearest of some centres, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.search import TILE, even_features, nearest_in_group_tiles, rows_by_key, tile_buffer
from ultraspec._kernels.sparse import sparse_products
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.rows import Block, Rows, Span

FEW_FEATURES = 8  # up to this number, distances are computed directly, for tiles of rows; beyond, products are faster
PROJECTED_ROWS = 2**18  # up to this number, projections of rows (200 bytes each) are stored between passes

Centers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]
Squares = npt.NDArray[np.float32]
Sums = npt.NDArray[np.float64]
Weights = npt.NDArray[np.float64]

# Updates the labels of a span and the squared distances to their centres, adds the rows to the sums of their clusters,
# and returns the number of labels that changed.
Assign = Callable[[Span, Labels, Squares, Sums], int]


class Points(ABC):
    """Rows that k-means can assign to centres, block by block."""

    n_rows: int  #: number of rows
    n_sums: int  #: number of columns of the matrix (k, n_sums) that rows are added to when they are assigned
    weights: Weights = np.ones(1)  #: (n_rows,) or (1,): weight of each row, or of every row

    def weights_of(self, rows: slice) -> Weights:
        """Return the weights of some rows, for kernels: one for each, or one for every row."""
        return self.weights[rows] if len(self.weights) > 1 else self.weights

    @abstractmethod
    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""

    def means(self, sums: Sums, counts: Weights) -> Centers:
        """Compute centres: divide sums by counts."""
        return (sums / np.where(counts > 0, counts, 1)[:, None]).astype(np.float32)

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Return the rows at sorted `indices`, dense."""

    @abstractmethod
    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:
        """Return a function that labels blocks with the nearest of `centers`.

        `moved` lists the centres that differ from those which gave the present labels; None if there are no labels.
        """


class RowPoints(Points):
    """Rows of a row source with float32 blocks, dense or CSR; `bound` excludes most centres for long rows."""

    def __init__(self, rows: Rows, bound: ProjectionBound | None = None) -> None:
        self.rows = rows
        self.n_rows = rows.n_rows
        self.n_sums = rows.n_features
        self.bound = bound if bound is not None else ProjectionBound()
        self._projections: dict[Span, tuple[Centers, Centers]] = {}

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""
        return self.rows.blocks()

    def weights_of(self, rows: slice) -> Weights:
        """Return the weights of some rows, for kernels: one for each, or one for every row."""
        return super().weights_of(rows) if len(self.weights) > 1 else self.rows.read_weights(rows.start, rows.stop)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Return the rows at sorted `indices`, dense."""
        block = self.rows.take(indices)
        return block.toarray() if scipy.sparse.issparse(block) else np.array(block)

    def assign_to(self, centers: Centers, moved: npt.NDArray[np.intp] | None) -> Assign:
        """Return a function that labels blocks with the nearest of `centers`."""
        return RowAssigner(self, centers, moved)

    def read(self, span: Span) -> Block:
        """Return the rows of a range."""
        return self.rows.read(*span)

    def project(self, block: Centers, span: Span) -> tuple[Centers, Centers]:
        """Return projections and squared lengths of a block; those of small data are stored for the next pass."""
        if self.bound.basis is None or self.n_rows > PROJECTED_ROWS or self.rows.remote:
            return self.bound.project(block)
        if span not in self._projections:
            self._projections[span] = self.bound.project(block)
        return self._projections[span]


class RowAssigner:
    """Labels blocks of rows with the nearest centre, by the method that is fastest; see `Points.assign_to`."""

    def __init__(self, points: RowPoints, centers: Centers, moved: npt.NDArray[np.intp] | None) -> None:
        self._points = points
        self._centers = centers
        self._moved = moved
        self._bound = points.bound
        if centers.shape[1] <= FEW_FEATURES:
            self._even_centers = even_features(centers)
        self._table, self._norms = self._bound.table(centers)
        self._half_norms = (0.5 * self._norms).astype(np.float32)
        if moved is not None and self._bound.basis is None:  # copied once, not for every block
            self._moved_centers = centers[moved]
            self._moved_table = np.ascontiguousarray(self._table[:, moved])
            self._moved_half_norms = self._half_norms[moved]

    def __call__(self, span: Span, labels: Labels, sq: Squares, sums: Sums) -> int:
        """Read and assign the rows of a span; see `Assign`."""
        weights = self._points.weights_of(slice(*span))
        return self.assign(self._points.read(span), span, weights, labels, sq, sums)

    def assign(self, block: Block, span: Span, weights: Weights, labels: Labels, sq: Squares, sums: Sums) -> int:
        """Assign the rows of a span, given as a block with weights; see `Assign`."""
        if scipy.sparse.issparse(block):
            changed = self._sparse(block, labels, sq)
            kernels.add_sparse_rows(block.indptr, block.indices, block.data, weights, labels, sums)
            return changed
        if block.shape[1] <= FEW_FEATURES:
            changed = assign_direct(block, self._even_centers, labels, sq)
        elif self._moved is None or self._bound.basis is not None:
            changed = self._by_products(block, *self._points.project(block, span), labels, sq)
        else:
            changed = self._by_moved(block, self._moved, labels, sq)
        kernels.add_rows(block, weights, labels, sums)
        return changed

    def _sparse(self, block: Block, labels: Labels, sq: Squares) -> int:
        matrix = block.indptr, block.indices, block.data
        products = np.empty((block.shape[0], len(self._centers)), dtype=np.float32)
        sparse_products(*matrix, self._table, products)
        row_norms = np.asarray(block.multiply(block).sum(axis=1), dtype=np.float32).ravel()
        changed = kernels.assign_sparse_products(
            *matrix,
            self._table,
            products,
            products.view(np.int32),
            self._norms,
            self._half_norms,
            row_norms,
            labels,
            sq,
        )
        return int(changed)

    def _by_products(
        self, block: Centers, projected: Centers, norms: Centers, labels: Labels, sq: Squares, moved_only: bool = False
    ) -> int:
        """Assign rows to the nearest of all centres, or of the moved ones, whose numbers are then the labels."""
        centers = self._moved_centers if moved_only else self._centers
        table = self._moved_table if moved_only else self._table
        half_norms = self._moved_half_norms if moved_only else self._half_norms
        products = projected @ table
        slack = self._bound.slack
        error = product_error(projected.shape[1])
        bits = products.view(np.int32)
        changed = kernels.assign_dense_products(
            block, centers, products, bits, half_norms, norms, slack, error, labels, sq
        )
        return int(changed)

    def _by_moved(self, block: Centers, moved: npt.NDArray[np.intp], labels: Labels, sq: Squares) -> int:
        """Assign rows, comparing as few centres as possible.

        If the centre of a row stayed or came nearer, only a moved centre can be nearer than it. If it went away, all
        centres must be compared.
        """
        before = labels.copy()
        left = np.empty(len(block), dtype=np.bool_)
        is_moved = np.zeros(len(self._centers), dtype=np.bool_)
        is_moved[moved] = True
        kernels.update_own(block, self._centers, is_moved, labels, sq, left)
        rows = np.flatnonzero(left)
        if rows.size:
            new_labels = labels[rows]
            new_sq = sq[rows]
            self._by_products(block[rows], *self._bound.project(block[rows]), new_labels, new_sq)
            labels[rows] = new_labels
            sq[rows] = new_sq
        rows = np.flatnonzero(~left)
        if rows.size and moved.size:
            new_labels = labels[rows]
            new_sq = sq[rows]
            self._by_products(block[rows], *self._bound.project(block[rows]), new_labels, new_sq, moved_only=True)
            nearer = new_sq < sq[rows]
            labels[rows[nearer]] = moved[new_labels[nearer]]
            sq[rows[nearer]] = new_sq[nearer]
        return int((labels != before).sum())


def assign_direct(block: Centers, even_centers: Centers, labels: Labels, sq: Squares) -> int:
    """Label rows of few features with the nearest centre; return the number of labels that changed.

    The kernel searches groups of centres for groups of rows. Here, all form one group.
    """
    before = labels.copy()
    order, runs = rows_by_key(labels, 1)
    starts = np.array([0, len(even_centers)])
    nearest = np.empty(TILE, dtype=np.int32)
    nearest_in_group_tiles(block, order, runs, even_centers, starts, tile_buffer(even_centers), nearest, labels, sq)
    return int(np.count_nonzero(labels != before))


def product_error(d: int) -> np.float32:
    """Bound the rounding error of a halved squared distance from float32 products, relative to the squared lengths."""
    return np.float32(2 * (np.sqrt(d) + 4) * np.finfo(np.float32).eps)
