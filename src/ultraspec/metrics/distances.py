"""Scores without known classes: distances of rows to the means of clusters, in two passes over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ultraspec._input import open_input
from ultraspec.engines.threads import ThreadEngine, engine_for
from ultraspec.rows import Block, Rows, Span, check_finite

NOISE = -1  # label of rows that belong to no cluster

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


def silhouette(X: Any, labels: ArrayLike, *, n_jobs: int | None = None) -> float:
    """Compute the simplified silhouette: how much nearer rows are to the mean of their cluster than to another mean.

    It is the mean of (b - a) / max(a, b) over all rows, where a is the distance of a row to the mean of its cluster
    and b that to the nearest other mean. The silhouette of scikit-learn takes mean distances to all rows instead, and
    its time grows with the square of their number.

    Parameters
    ----------
    X : array-like, sparse matrix, frame, Dask collection or Rows of shape (n_samples, n_features)
        Rows, which are read twice, block by block.
    labels : array-like of shape (n_samples,)
        Clusters. Rows with the integer label -1 are left out.
    n_jobs : int or None, default=None
        Number of threads, all cores by default. The score is the same for any number.

    Returns
    -------
    float
        Between -1 and 1. Large for round clusters that are far apart; rings and other shapes around each other have a
        low silhouette, however clearly they are separated.

    Examples
    --------
    >>> from ultraspec.metrics import silhouette
    >>> round(silhouette([[0], [2], [10], [12]], [0, 0, 1, 1]), 3)
    0.899
    """
    rows = _open(X)
    codes = _numbered(labels, rows.n_rows)
    with engine_for(rows, n_jobs) as engine:
        means, sizes = _cluster_means(rows, codes, engine)

        def add(total: Floats, block: Block, span: Span) -> None:
            own = codes[slice(*span)]
            known = own >= 0
            distances = _distances(block, means)[known]
            at = np.arange(len(distances)), own[known]
            a = distances[at]
            distances[at] = np.inf
            b = distances.min(axis=1)
            larger = np.maximum(a, b)
            total += np.divide(b - a, larger, out=np.zeros_like(a), where=larger > 0).sum()

        total = engine.fold_rows(rows, lambda: np.zeros(1), add, np.add)
    return float(total[0] / sizes.sum())


def davies_bouldin(X: Any, labels: ArrayLike, *, n_jobs: int | None = None) -> float:
    """Compute the Davies-Bouldin index: the width of clusters, relative to the distance of their means.

    The width of a cluster is the mean distance of its rows to their mean. Of each cluster, the largest ratio of the
    sum of two widths to the distance of the two means counts; the index is the mean over the clusters.

    Parameters
    ----------
    X : array-like, sparse matrix, frame, Dask collection or Rows of shape (n_samples, n_features)
        Rows, which are read twice, block by block.
    labels : array-like of shape (n_samples,)
        Clusters. Rows with the integer label -1 are left out.
    n_jobs : int or None, default=None
        Number of threads, all cores by default. The index is the same for any number.

    Returns
    -------
    float
        At least 0; lower is better.

    Examples
    --------
    >>> from ultraspec.metrics import davies_bouldin
    >>> davies_bouldin([[0], [2], [10], [12]], [0, 0, 1, 1])
    0.2
    """
    rows = _open(X)
    codes = _numbered(labels, rows.n_rows)
    with engine_for(rows, n_jobs) as engine:
        means, sizes = _cluster_means(rows, codes, engine)

        def add(total: Floats, block: Block, span: Span) -> None:
            own = codes[slice(*span)]
            known = own >= 0
            distances = _distances(block, means)[known, own[known]]
            total += np.bincount(own[known], distances, minlength=len(sizes))

        widths = engine.fold_rows(rows, lambda: np.zeros(len(sizes)), add, np.add) / sizes
    apart = cdist(means, means)
    apart[apart == 0] = np.inf  # on the diagonal, too: equal means do not count, as in scikit-learn
    return float(((widths[:, None] + widths) / apart).max(axis=1).mean())


def _open(X: Any) -> Rows:
    from sklearn.base import BaseEstimator  # slow to import, and scores of labels do not need it

    return open_input(BaseEstimator(), X, reset=True)


def _numbered(labels: ArrayLike, n_rows: int) -> Codes:
    """Return clusters numbered from 0 without gaps, and -1 for rows without cluster; check the labels."""
    values = np.asarray(labels)
    if values.shape != (n_rows,):
        raise ValueError(f"labels must have shape ({n_rows},), one label for each row of X, got {values.shape}.")
    known = values != NOISE if values.dtype.kind in "iuf" else np.ones(n_rows, dtype=bool)
    clusters, numbers = np.unique(values[known], return_inverse=True)
    if len(clusters) < 2:
        raise ValueError(f"The score compares clusters and needs at least two, but labels have {len(clusters)}.")
    codes = np.full(n_rows, NOISE, dtype=np.int32)
    codes[known] = numbers
    return codes


def _cluster_means(rows: Rows, codes: Codes, engine: ThreadEngine) -> tuple[Floats, Floats]:
    """Return the means (k, d) and sizes (k,) of the clusters; check that all values are finite."""
    shape = int(codes.max()) + 1, rows.n_features
    names = rows.names

    def add(sums: Floats, block: Block, span: Span) -> None:
        check_finite(block, range(*span), names)
        own = codes[slice(*span)]
        known = np.flatnonzero(own >= 0)
        members = scipy.sparse.csr_array((np.ones(len(known)), (own[known], known)), shape=(shape[0], len(own)))
        values = block if scipy.sparse.issparse(block) else np.asarray(block, dtype=np.float64)
        product = members @ values
        sums += product.toarray() if scipy.sparse.issparse(product) else product

    sums = engine.fold_rows(rows, lambda: np.zeros(shape), add, np.add)
    sizes = np.bincount(codes[codes >= 0]).astype(np.float64)
    return sums / sizes[:, None], sizes


def _distances(block: Block, means: Floats) -> Floats:
    """Return the distance of each row to each mean."""
    if not scipy.sparse.issparse(block):
        return cdist(np.asarray(block, dtype=np.float64), means)
    squares = np.asarray(block.multiply(block).sum(axis=1)).reshape(-1, 1) + (means**2).sum(axis=1)
    return np.sqrt(np.maximum(squares - 2 * (block @ means.T), 0.0))
