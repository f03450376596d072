"""The graph of nearest neighbours that SC and ESCG cut: takes prepared rows, gives a sparse N x N affinity.

The search is exact and compares all pairs, but keeps only K neighbours of each row.
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
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.neighbors import rounding_bound

ROWS, OTHERS = 1024, 2048  # rows that meet so many others at once: a temporary of 8 MB

Ids = npt.NDArray[np.int32]
Squares = npt.NDArray[np.float32]


def neighbor_graph(rows: Rows, n_neighbors: int, method: str, engine: ThreadEngine) -> tuple[Any, float]:
    """Gaussian affinities of each row to its nearest rows, symmetrised by the larger of two, and sigma.

    Sigma is the mean distance to the neighbours; 1 if that is zero. Affinities that underflow are no edges.
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
    """The nearest other rows of each row, (n, K), nearest first, and their squared distances."""
    X = _in_memory(rows, method, engine)
    if n_neighbors == 0:
        return np.empty((rows.n_rows, 0), dtype=np.int32), np.empty((rows.n_rows, 0), dtype=np.float32)
    if rows.sparse:
        return _search_sparse(X, n_neighbors, engine)
    if rows.n_features <= FEW_FEATURES:
        return _search_tree(X, n_neighbors, engine)
    return _search_products(X, n_neighbors, engine)


def _in_memory(rows: Rows, method: str, engine: ThreadEngine) -> Block:
    """All prepared rows: pairs meet in any order."""
    if rows.sparse:
        return scipy.sparse.vstack(engine.map(lambda span: rows.read(*span), rows.blocks()), format="csr")
    n, d = rows.n_rows, rows.n_features
    to_do = "Use ultraspec.USPEC, or pass fewer rows."
    check_memory(method, f"the {n} x {d} rows, all of which it compares with each other", 4 * n * d, None, to_do)
    X = np.empty((n, d), dtype=np.float32)

    def read(span: Span) -> None:
        X[slice(*span)] = rows.read(*span)

    engine.map(read, rows.blocks())
    return X


def _spans(n: int, step: int) -> list[Span]:
    return [(low, min(low + step, n)) for low in range(0, n, step)]


def _search_tree(X: npt.NDArray[np.float32], K: int, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """By a k-d tree, for few features."""
    tree = scipy.spatial.cKDTree(X)
    ids, sq = np.empty((len(X), K), dtype=np.int32), np.empty((len(X), K), dtype=np.float32)

    def search(span: Span) -> None:
        here = slice(*span)
        distances, found = tree.query(X[here], K + 1)
        others = found != np.arange(*span)[:, None]
        others[others.all(axis=1), K] = False  # a row with more than K copies may not be among them itself
        ids[here] = found[others].reshape(-1, K)
        sq[here] = distances[others].reshape(-1, K) ** 2

    engine.map(search, _spans(len(X), ROWS))
    return ids, sq


def _search_products(X: npt.NDArray[np.float32], K: int, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """By matrix products of projected, which rule out most pairs, and full distances of those that are left."""
    n = len(X)
    bound = ProjectionBound.fit(X)
    table, norms = bound.table(X)
    half_norms = (0.5 * norms).astype(np.float32)
    slack, error = bound.slack, rounding_bound(len(table))
    ids, sq = np.zeros((n, K), dtype=np.int32), np.full((n, K), np.inf, dtype=np.float32)

    def search(span: Span) -> None:
        here = slice(*span)
        projected, lengths = np.ascontiguousarray(table[:, here].T), np.einsum("ij,ij->i", X[here], X[here])
        for low, high in _spans(n, OTHERS):
            products = projected @ table[:, low:high]
            others = X[low:high], low, products, half_norms[low:high]
            nearest_rows(X[here], span[0], *others, lengths, slack, error, ids[here], sq[here])

    engine.map(search, _spans(n, ROWS))
    return ids, sq


def _search_sparse(X: Any, K: int, engine: ThreadEngine) -> tuple[Ids, Squares]:
    """By sparse products in float64: distances of near rows are small differences of them."""
    n = X.shape[0]
    X = X.astype(np.float64)
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    columns = X.T.tocsc()
    ids, sq = np.empty((n, K), dtype=np.int32), np.empty((n, K), dtype=np.float32)

    def search(span: Span) -> None:
        here, own = slice(*span), np.arange(*span)
        found, best = np.zeros((len(own), 0), dtype=np.int64), np.zeros((len(own), 0))
        for low, high in _spans(n, OTHERS):
            away = norms[here, None] + norms[low:high] - 2.0 * (X[here] @ columns[:, low:high]).toarray()
            np.maximum(away, 0.0, out=away)
            same = (own >= low) & (own < high)
            away[np.flatnonzero(same), own[same] - low] = np.inf
            both = np.concatenate([best, away], axis=1)
            order = np.argsort(both, axis=1, kind="stable")[:, :K]
            numbers = np.broadcast_to(np.arange(low, high), away.shape)
            found = np.take_along_axis(np.concatenate([found, numbers], axis=1), order, axis=1)
            best = np.take_along_axis(both, order, axis=1)
        ids[here], sq[here] = found, best

    engine.map(search, _spans(n, 256))
    return ids, sq
