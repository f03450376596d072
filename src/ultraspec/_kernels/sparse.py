"""Kernels on one block of sparse (CSR) rows."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.search import insert_sorted


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
    return np.float32(max(total, 0.0))


@kernel
def search_sparse(indptr, indices, data, products, table, norms, starts, lists, exact, ids, sq):
    """Nearest representatives of sparse rows from their inner products with representatives and centres.

    `table` (d, p + z) holds the p representatives and then the z centres of the rep-clusters, `products` and `norms`
    likewise. One wide multiply-add per non-zero gives all products, so here the coarse-to-fine steps only choose
    which of them count; the K winners' distances are taken again in float64.
    """
    n, K = ids.shape
    z = starts.shape[0] - 1
    p = products.shape[1] - z
    half = np.empty(p + z, np.float32)
    for r in range(p + z):
        half[r] = 0.5 * norms[r]
    scores = np.empty(K, np.float32)
    chosen = np.empty(K, np.uint16)
    for i in range(n):
        dots = products[i]
        for k in range(K):
            scores[k] = np.inf
        if exact:
            for r in range(p):
                if half[r] - dots[r] < scores[K - 1]:
                    insert_sorted(scores, chosen, half[r] - dots[r], np.uint16(r))
        else:
            group = 0
            for g in range(1, z):
                if half[p + g] - dots[p + g] < half[p + group] - dots[p + group]:
                    group = g
            owner = starts[group]
            for r in range(starts[group] + 1, starts[group + 1]):
                if half[r] - dots[r] < half[owner] - dots[owner]:
                    owner = r
            for c in range(lists.shape[1]):
                r = np.int64(lists[owner, c])
                if half[r] - dots[r] < scores[K - 1]:
                    insert_sorted(scores, chosen, half[r] - dots[r], np.uint16(r))
        best = sq[i]
        best_ids = ids[i]
        for k in range(K):
            best[k] = np.inf
        for k in range(K):
            r = np.int64(chosen[k])
            s = sparse_squared(indptr, indices, data, i, table, r, norms[r])
            insert_sorted(best, best_ids, s, np.uint16(r))
