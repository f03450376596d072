"""k-means over row blocks: the one k-means of the library.

Takes any row source whose blocks are float32 (dense or CSR) and starting centres; gives labels and centres. A pass
maps every block to its labels and reduces counts and sums per cluster. It selects representatives, groups them into
rep-clusters and discretises the spectral embedding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.sparse import sparse_products
from ultraspec.engines import ThreadEngine
from ultraspec.rows import Rows, sample_indices

FEW_FEATURES = 8  # up to here, distances of a tile of rows are summed directly; above, other forms are faster
Centers = npt.NDArray[np.float32]


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
    counts : ndarray of shape (k,), int64
        Rows per cluster; zeros where there are fewer distinct rows than clusters.
    inertia : float
        Sum of squared distances to `centers`.
    """

    labels: npt.NDArray[np.int32]
    centers: Centers
    means: Centers
    counts: npt.NDArray[np.int64]
    inertia: float


class Points(ABC):
    """What k-means clusters: rows that can be assigned to centres, block by block.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    """

    n_rows: int

    @abstractmethod
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges that cover all rows in order."""

    @abstractmethod
    def empty_sums(self, k: int) -> npt.NDArray[np.float64]:
        """A matrix of zeros that `Assign` adds rows to."""

    @abstractmethod
    def means(self, sums: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> Centers:
        """Centres from sums and counts."""

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Dense rows at sorted `indices`."""

    @abstractmethod
    def assign_to(self, centers: Centers) -> Assign:
        """A function that labels blocks with the nearest of `centers`."""


# (span, labels of the span, squared distances to fill, sums to add the rows to) -> number of labels that changed
Assign = Callable[[tuple[int, int], npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float64]], int]


class RowPoints(Points):
    """Rows of a row source with float32 blocks; each kind of block is assigned by the form that is fastest for it.

    Parameters
    ----------
    rows : Rows
        Prepared rows, dense or CSR.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.n_rows = rows.n_rows

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges that cover all rows in order."""
        return self._rows.blocks()

    def empty_sums(self, k: int) -> npt.NDArray[np.float64]:
        """Zeros (k, d)."""
        return np.zeros((k, self._rows.n_features))

    def means(self, sums: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> Centers:
        """Sums divided by counts."""
        return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)

    def take(self, indices: npt.NDArray[np.int64]) -> Centers:
        """Dense rows at sorted `indices`."""
        block = self._rows.take(indices)
        return block.toarray() if scipy.sparse.issparse(block) else np.array(block)

    def assign_to(self, centers: Centers) -> Assign:
        """Direct distances for few features, products with the centres otherwise."""
        table = np.ascontiguousarray(centers.T)
        half_norms = (0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)).astype(np.float32)

        def assign(
            span: tuple[int, int],
            labels: npt.NDArray[np.int32],
            sq: npt.NDArray[np.float32],
            sums: npt.NDArray[np.float64],
        ) -> int:
            block = self._rows.read(*span)
            if scipy.sparse.issparse(block):
                matrix = block.indptr, block.indices, block.data
                products = np.empty((block.shape[0], len(centers)), dtype=np.float32)
                sparse_products(*matrix, table, products)
                norms = np.asarray(block.multiply(block).sum(axis=1), dtype=np.float32).ravel()
                changed = kernels.assign_products(products, half_norms, norms, labels, sq)
                kernels.add_sparse_rows(*matrix, labels, sums)
                return int(changed)
            if block.shape[1] <= FEW_FEATURES:
                changed = kernels.assign_direct(block, centers, labels, sq)
            else:
                norms = np.einsum("ij,ij->i", block, block)
                changed = kernels.assign_products(block @ table, half_norms, norms, labels, sq)
            kernels.add_rows(block, labels, sums)
            return int(changed)

        return assign


@dataclass
class _Tally:
    """Partial result of a pass."""

    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    far_sq: npt.NDArray[np.float32]
    far_row: npt.NDArray[np.int64]
    inertia: float = 0.0
    changed: int = 0

    def merge(self, other: _Tally) -> _Tally:
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
    labels = np.full(points.n_rows, -1, dtype=np.int32)
    for iteration in range(max_iter):
        found = _assign_pass(points, centers, labels, engine)
        means = points.means(found.sums, found.counts)
        empty = np.flatnonzero(found.counts == 0)
        means[empty] = centers[empty]
        spare = _spare(found, empty.size)
        gain = float(found.counts @ ((means - centers).astype(np.float64) ** 2).sum(axis=1))
        settled = found.changed == 0 or gain <= tol * found.inertia
        if (settled and not spare.size) or iteration + 1 == max_iter:
            break
        if spare.size:
            at = np.sort(found.far_row[spare])
            means[empty[: at.size]] = points.take(at)
        centers = means
    return Clustering(labels, centers, means, found.counts, found.inertia)


def _assign_pass(points: Points, centers: Centers, labels: npt.NDArray[np.int32], engine: ThreadEngine) -> _Tally:
    k = len(centers)
    assign = points.assign_to(centers)

    def start() -> _Tally:
        far_sq, far_row = np.full(k, -1, dtype=np.float32), np.full(k, -1, dtype=np.int64)
        return _Tally(points.empty_sums(k), np.zeros(k, dtype=np.int64), far_sq, far_row)

    def step(tally: _Tally, span: tuple[int, int]) -> None:
        here = labels[span[0] : span[1]]
        sq = np.empty(len(here), dtype=np.float32)
        tally.changed += assign(span, here, sq, tally.sums)
        tally.inertia += kernels.tally(here, sq, span[0], tally.counts, tally.far_sq, tally.far_row)

    # A group of blocks owns a matrix of sums: it must have more rows than that to be worth its merge.
    return engine.fold(points.blocks(), start, step, _Tally.merge, most_groups=1 + points.n_rows // (2 * k))


def _spare(found: _Tally, wanted: int) -> npt.NDArray[np.intp]:
    """Up to `wanted` clusters with a row away from their centre, the farthest first."""
    spare = np.flatnonzero((found.counts > 1) & (found.far_sq > 0))
    return spare[np.argsort(-found.far_sq[spare], kind="stable")][:wanted]


def random_centers(rows: Rows, k: int, random: np.random.Generator) -> Centers:
    """`k` rows drawn without replacement."""
    block = rows.take(sample_indices(rows.n_rows, k, random))
    return block.toarray() if scipy.sparse.issparse(block) else np.array(block)


def spread_centers(X: npt.NDArray[np.float32], k: int, random: np.random.Generator) -> Centers:
    """`k` rows of an array by k-means++; fewer if there are fewer distinct rows."""
    chosen = np.empty(k, dtype=np.int64)
    found = kernels.spread_seeds(X, random.integers(len(X)), random.random(k), chosen)
    return X[chosen[:found]]
