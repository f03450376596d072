"""Graph of nearest neighbours, which SC and ESCG cut: a sparse N x N affinity.

The search is exact. It compares all pairs, but stores only K neighbours of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.spatial

from ultraspec.baselines._kernels.nearest_rows import nearest_rows
from ultraspec.baselines._memory_limit import check_memory
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.cluster.points import FEW_FEATURES
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, cut_span
from ultraspec.spectral.neighbors import rounding_bound

ROWS = 1024  # rows that are compared with OTHERS rows at once: a temporary array of 8 MB
OTHERS = 2048
SPARSE_ROWS = 256

Ids = npt.NDArray[np.int32]
Squares = npt.NDArray[np.float32]


def neighbor_graph(rows: Rows, n_neighbors: int, method: str, engine: ThreadEngine) -> tuple[Any, float]:
    """Return the Gaussian affinities of each row to its nearest rows, symmetrised by the larger of two, and sigma.

    Sigma is the mean distance to the neighbours, or 1 if that is zero. Affinities that underflow are not edges.
    """
    n = rows.n_rows
    ids, sq = nearest_neighbors(rows, min(n_neighbors, n - 1), method, engine)
    distances = np.sqrt(sq, dtype=np.float64)
    sigma = float(distances.mean()) if distances.size else 0.0
    weights = np.exp(-0.5 * (distances / (sigma or 1.0)) ** 2)
    ends = np.arange(0, ids.size + 1, max(ids.shape[1], 1)) if ids.size else np.zeros(n + 1, dtype=np.int64)
    W = scipy.sparse.csr_array((weights.ravel(), ids.ravel(), ends), shape=(n, n))
    W = W.maximum(W.T).tocsr()
    W.eliminate_zeros()
    return W, sigma or 1.0


def nearest_neighbors(rows: Rows, n_neighbors: int, method: str, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """Return the nearest other rows of each row, (n, K), nearest first, and their squared distances."""
    X = _in_memory(rows, method, engine)
    if n_neighbors == 0:
        return np.empty((rows.n_rows, 0), dtype=np.int32), np.empty((rows.n_rows, 0), dtype=np.float32)
    if rows.sparse:
        return _search_sparse(X, n_neighbors, engine)
    if rows.n_features <= FEW_FEATURES:
        return _search_tree(X, n_neighbors, engine)
    return _search_products(X, n_neighbors, engine)


def _in_memory(rows: Rows, method: str, engine: ThreadEngine) -> Block:
    """Return all prepared rows, as pairs are compared in any order."""
    if rows.sparse:
        return scipy.sparse.vstack(engine.map(lambda span: rows.read(*span), rows.blocks()), format="csr")
    n, d = rows.n_rows, rows.n_features
    advice = "Use ultraspec.USPEC, or pass fewer rows."
    check_memory(method, f"the {n} x {d} rows, which it compares with each other", 4 * n * d, None, advice)
    X = np.empty((n, d), dtype=np.float32)

    def read(span: Span) -> None:
        X[slice(*span)] = rows.read(*span)

    engine.map(read, rows.blocks())
    return X


def _search_tree(X: npt.NDArray[np.float32], K: int, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """Search in a k-d tree, for few features."""
    n = len(X)
    tree = scipy.spatial.cKDTree(X)
    ids = np.empty((n, K), dtype=np.int32)
    sq = np.empty((n, K), dtype=np.float32)

    def search(span: Span) -> None:
        here = slice(*span)
        distances, nearest = tree.query(X[here], K + 1)
        others = nearest != np.arange(*span)[:, None]
        others[others.all(axis=1), K] = False  # a row with more than K copies may be missing among its nearest
        ids[here] = nearest[others].reshape(-1, K)
        sq[here] = distances[others].reshape(-1, K) ** 2

    engine.map(search, cut_span((0, n), ROWS))
    return ids, sq


def _search_products(X: npt.NDArray[np.float32], K: int, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """Search by matrix products of projected rows, which exclude most pairs, and distances of the other pairs."""
    n = len(X)
    bound = ProjectionBound.fit(X)
    table, norms = bound.table(X)
    half_norms = (0.5 * norms).astype(np.float32)
    error = rounding_bound(len(table))
    ids = np.zeros((n, K), dtype=np.int32)
    sq = np.full((n, K), np.inf, dtype=np.float32)

    def search(span: Span) -> None:
        here = slice(*span)
        projected = np.ascontiguousarray(table[:, here].T)
        lengths = np.einsum("ij,ij->i", X[here], X[here])
        for low, high in cut_span((0, n), OTHERS):
            products = projected @ table[:, low:high]
            others = X[low:high], low, products, half_norms[low:high]
            nearest_rows(X[here], span[0], *others, lengths, bound.slack, error, ids[here], sq[here])

    engine.map(search, cut_span((0, n), ROWS))
    return ids, sq


def _search_sparse(X: Any, K: int, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """Search by sparse products, in float64 because distances of near rows are small differences of them."""
    n = X.shape[0]
    X = X.astype(np.float64)
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    columns = X.T.tocsc()
    ids = np.empty((n, K), dtype=np.int32)
    sq = np.empty((n, K), dtype=np.float32)

    def search(span: Span) -> None:
        here = slice(*span)
        numbers = np.arange(*span)
        nearest = np.zeros((len(numbers), 0), dtype=np.int64)
        squares = np.zeros((len(numbers), 0))
        for low, high in cut_span((0, n), OTHERS):
            block = norms[here, None] + norms[low:high] - 2.0 * (X[here] @ columns[:, low:high]).toarray()
            np.maximum(block, 0.0, out=block)
            same = (numbers >= low) & (numbers < high)
            block[np.flatnonzero(same), numbers[same] - low] = np.inf  # a row is not a neighbour of itself
            candidates = np.concatenate([nearest, np.broadcast_to(np.arange(low, high), block.shape)], axis=1)
            distances = np.concatenate([squares, block], axis=1)
            order = np.argsort(distances, axis=1, kind="stable")[:, :K]
            nearest = np.take_along_axis(candidates, order, axis=1)
            squares = np.take_along_axis(distances, order, axis=1)
        ids[here] = nearest
        sq[here] = squares

    engine.map(search, cut_span((0, n), SPARSE_ROWS))
    return ids, sq
