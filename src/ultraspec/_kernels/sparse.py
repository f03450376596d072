"""Kernels on one block of sparse (CSR) rows."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.search import insert_sorted

ROUNDED = 1e-12  # a squared distance this small beside the squared lengths is rounding


@kernel
def sparse_products(indptr, indices, data, table, out):
    """Inner products of sparse rows with the columns of `table` (d, columns), written to `out` (n, columns)."""
    for i in range(out.shape[0]):
        row = out[i]
        for c in range(row.shape[0]):
            row[c] = 0
        for a in range(indptr[i], indptr[i + 1]):
            v = data[a]
            column = table[indices[a]]
            for c in range(row.shape[0]):
                row[c] += v * column[c]


@kernel
def sparse_squared(indptr, indices, data, i, table, r, norm):
    """Squared distance of sparse row `i` to column `r` of `table`, in float64; `norm` is the column's |r|^2."""
    total = norm
    for a in range(indptr[i], indptr[i + 1]):
        v = np.float64(data[a])
        total += v * (v - 2.0 * np.float64(table[indices[a], r]))
    return np.float32(total) if total > ROUNDED * norm else np.float32(0.0)


@kernel
def nearest_column(indptr, indices, data, i, table, norms, half, dots, low, high, margin):
    """Of the columns ``low .. high`` of `table` the nearest to sparse row `i`, measured again if rounding matters."""
    limit = half[low] - dots[low]
    for c in range(low + 1, high):
        limit = min(limit, half[c] - dots[c])
    limit += margin
    at = low
    smallest = np.float32(np.inf)
    for c in range(low, high):
        if half[c] - dots[c] <= limit:
            s = sparse_squared(indptr, indices, data, i, table, c, norms[c])
            if s < smallest:
                smallest = s
                at = c
    return at


@kernel
def search_sparse(indptr, indices, data, products, table, norms, starts, lists, exact, error, ids, sq):
    """Nearest representatives of sparse rows from their inner products with representatives and centres.

    `table` (d, p + z) holds the p representatives and then the z centres of the rep-clusters, `products` and `norms`
    likewise. One wide multiply-add per non-zero gives all products, so here the coarse-to-fine steps only choose
    which of them count; those that rounding leaves among the K nearest are measured again in float64.
    """
    n, K = ids.shape
    z = starts.shape[0] - 1
    p = products.shape[1] - z
    half = np.empty(p + z, np.float32)
    for r in range(p + z):
        half[r] = 0.5 * norms[r]
    scores = np.empty(K, np.float32)
    unused = np.empty(K, np.uint16)
    everyone = np.arange(p).astype(np.uint16)
    longest = np.sqrt(norms.max())
    for i in range(n):
        dots = products[i]
        length = 0.0
        for a in range(indptr[i], indptr[i + 1]):
            length += np.float64(data[a]) ** 2
        margin = np.float32(error * (np.sqrt(length) + longest) ** 2)
        candidates = everyone
        if not exact:
            group = nearest_column(indptr, indices, data, i, table, norms, half, dots, p, p + z, margin) - p
            low, high = starts[group], starts[group + 1]
            owner = nearest_column(indptr, indices, data, i, table, norms, half, dots, low, high, margin)
            candidates = lists[owner]
        for k in range(K):
            scores[k] = np.inf
        for c in range(candidates.shape[0]):
            r = candidates[c]
            if half[r] - dots[r] < scores[K - 1]:
                insert_sorted(scores, unused, half[r] - dots[r], r)
        limit = scores[K - 1] + margin
        best = sq[i]
        best_ids = ids[i]
        for k in range(K):
            best[k] = np.inf
        for c in range(candidates.shape[0]):
            r = candidates[c]
            if half[r] - dots[r] <= limit:
                s = sparse_squared(indptr, indices, data, i, table, r, norms[r])
                if s < best[K - 1]:
                    insert_sorted(best, best_ids, s, r)
