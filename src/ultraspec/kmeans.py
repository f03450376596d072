"""k-means over row blocks: the one k-means of the library.

Takes any row source whose blocks are float32 (dense or CSR) and starting centres; gives labels and centres. A pass
maps every block to its labels and reduces counts and sums per cluster. It selects representatives, groups them into
rep-clusters and discretises the spectral embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import kmeans as kernels
from ultraspec._kernels.sparse import sparse_products
from ultraspec.engines import ThreadEngine
from ultraspec.rows import Block, Rows

DIRECT_FEATURES = 24  # up to here distances are summed directly; above, a matrix product is faster
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


class Assigner:
    """Labels blocks with the nearest of fixed centres, each by the form that is fastest for its kind.

    Parameters
    ----------
    centers : ndarray of shape (k, d), float32
        The centres.
    sparse : bool
        Whether blocks are CSR.
    """

    def __init__(self, centers: Centers, sparse: bool = False) -> None:
        k, d = centers.shape
        self._sparse = sparse
        self._direct = d <= DIRECT_FEATURES and not sparse
        if self._direct:
            self._table = np.full((d, -(-k // 8) * 8), np.inf, dtype=np.float32)
            self._table[:, :k] = centers.T
        else:
            self._table = np.ascontiguousarray(centers.T)
            self._half_norms = (0.5 * np.einsum("ij,ij->i", centers, centers, dtype=np.float64)).astype(np.float32)

    def __call__(self, block: Block, labels: npt.NDArray[np.int32], sq: npt.NDArray[np.float32]) -> int:
        """Write labels and squared distances; return how many labels changed."""
        if self._direct:
            return int(kernels.assign_columns(block, self._table, labels, sq))
        if self._sparse:
            products = np.empty((block.shape[0], self._table.shape[1]), dtype=np.float32)
            sparse_products(block.indptr, block.indices, block.data, self._table, products)
            norms = np.asarray(block.multiply(block).sum(axis=1), dtype=np.float32).ravel()
        else:
            products = block @ self._table
            norms = np.einsum("ij,ij->i", block, block)
        return int(kernels.assign_products(products, self._half_norms, norms, labels, sq))


@dataclass
class _Tally:
    """Partial result of a pass."""

    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    far_sq: npt.NDArray[np.float32]
    far_row: npt.NDArray[np.int64]
    inertia: float = 0.0
    changed: int = 0

    @classmethod
    def empty(cls, k: int, d: int) -> _Tally:
        far = np.full(k, -1, dtype=np.float32), np.full(k, -1, dtype=np.int64)
        return cls(np.zeros((k, d)), np.zeros(k, dtype=np.int64), *far)

    def merge(self, other: _Tally) -> _Tally:
        self.sums += other.sums
        self.counts += other.counts
        self.inertia += other.inertia
        self.changed += other.changed
        farther = other.far_sq > self.far_sq
        self.far_sq[farther] = other.far_sq[farther]
        self.far_row[farther] = other.far_row[farther]
        return self


def lloyd(
    rows: Rows, centers: Centers, engine: ThreadEngine, *, max_iter: int, tol: float = 0.0, sparse: bool = False
) -> Clustering:
    """Move `centers` to the means of their rows until labels settle.

    Stops when at most a share `tol` of the labels changes, or after `max_iter` passes. A cluster that loses all rows
    starts anew at the row farthest from its centre, one row per cluster that can spare one.
    """
    n = rows.n_rows
    labels = np.full(n, -1, dtype=np.int32)
    for iteration in range(max_iter):
        found = _assign_pass(rows, centers, labels, engine, sparse)
        means = (found.sums / np.maximum(found.counts, 1)[:, None]).astype(np.float32)
        empty = np.flatnonzero(found.counts == 0)
        means[empty] = centers[empty]
        if (found.changed <= tol * n and not _spare(found, empty).size) or iteration + 1 == max_iter:
            break
        centers = _restart_empty(rows, means, found, empty)
    return Clustering(labels, centers, means, found.counts, found.inertia)


def _assign_pass(
    rows: Rows, centers: Centers, labels: npt.NDArray[np.int32], engine: ThreadEngine, sparse: bool
) -> _Tally:
    k, d = centers.shape
    assign = Assigner(centers, sparse)

    def step(tally: _Tally, span: tuple[int, int]) -> None:
        block = rows.read(*span)
        here = labels[span[0] : span[1]]
        sq = np.empty(len(here), dtype=np.float32)
        tally.changed += assign(block, here, sq)
        tally.inertia += kernels.tally(here, sq, span[0], tally.counts, tally.far_sq, tally.far_row)
        if scipy.sparse.issparse(block):
            kernels.add_sparse_rows(block.indptr, block.indices, block.data, here, tally.sums)
        else:
            kernels.add_rows(block, here, tally.sums)

    # A group owns a k x d matrix of sums: it must have more rows than that to be worth its merge.
    return engine.fold(
        rows.blocks(), lambda: _Tally.empty(k, d), step, _Tally.merge, most_groups=1 + rows.n_rows // (2 * k)
    )


def _spare(found: _Tally, empty: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Clusters with a row away from their centre, the farthest first; none if no cluster is empty."""
    if not empty.size:
        return empty
    spare = np.flatnonzero((found.counts > 1) & (found.far_sq > 0))
    return spare[np.argsort(-found.far_sq[spare], kind="stable")][: empty.size]


def _restart_empty(rows: Rows, means: Centers, found: _Tally, empty: npt.NDArray[np.intp]) -> Centers:
    spare = _spare(found, empty)
    if spare.size:
        at = found.far_row[spare]
        order = np.argsort(at)
        block = rows.take(at[order])
        means[empty[: spare.size][order]] = block.toarray() if scipy.sparse.issparse(block) else block
    return means


def random_centers(rows: Rows, k: int, random: np.random.Generator) -> Centers:
    """`k` rows drawn without replacement."""
    block = rows.take(np.sort(random.choice(rows.n_rows, k, replace=False)))
    return block.toarray() if scipy.sparse.issparse(block) else np.array(block)


def spread_centers(X: npt.NDArray[np.float32], k: int, random: np.random.Generator) -> Centers:
    """`k` rows of an array by k-means++; fewer if there are fewer distinct rows."""
    chosen = np.empty(k, dtype=np.int64)
    found = kernels.spread_seeds(X, random.integers(len(X)), random.random(k), chosen)
    return X[chosen[:found]]
