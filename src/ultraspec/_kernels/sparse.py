"""Sparse rows: inner products with dense points, distances, and nearest representatives.

Rows are given as CSR arrays `indptr`, `indices`, `data`. Points are the columns of a `table` (d, c), so that one
non-zero of a row is multiplied with a contiguous row of the table.

The squared distance of a row x to a point r is |x|^2 - 2 x.r + |r|^2. The |x|^2 is the same for all points, so
|r|^2 / 2 - x.r orders them.
"""

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.search import insert_sorted

ROUNDED = 1e-12  # a squared distance below this share of the squared length of the point is a rounding error


@kernel
def sparse_products(indptr, indices, data, table, out):
    """Compute the inner products (n, c) of sparse rows with the columns of `table` (d, c).

    For each non-zero, one contiguous row of the table is multiplied and added: the loop over c is vectorised.
    """
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
    """Compute the squared distance of sparse row `i` to column `r` of `table`, in float64.

    `norm` is |r|^2. Only non-zeros v of the row contribute to |x|^2 - 2 x.r, namely v (v - 2 r_j).
    """
    total = norm
    for a in range(indptr[i], indptr[i + 1]):
        v = np.float64(data[a])
        total += v * (v - 2.0 * np.float64(table[indices[a], r]))
    return np.float32(total) if total > ROUNDED * norm else np.float32(0.0)


@kernel
def nearest_column(indptr, indices, data, i, table, norms, half, dots, low, high, margin):
    """Return the column among ``low .. high`` of `table` that is nearest to sparse row `i`.

    norms, half : squared lengths of the columns in float64, and half of them in float32.
    dots : inner products of the row with all columns, in float32.
    margin : bound of the rounding error of ``half - dots``.

    Columns that rounding may hide behind the apparently nearest one are compared by their distances in float64.
    """
    limit = half[low] - dots[low]
    for c in range(low + 1, high):
        limit = min(limit, half[c] - dots[c])
    limit += margin
    nearest = low
    smallest = np.float32(np.inf)
    for c in range(low, high):
        if half[c] - dots[c] <= limit:
            s = sparse_squared(indptr, indices, data, i, table, c, norms[c])
            if s < smallest:
                smallest = s
                nearest = c
    return nearest


@kernel
def search_sparse(indptr, indices, data, products, table, norms, starts, lists, exact, error, ids, sq):
    """Find the K nearest representatives of sparse rows.

    table : (d, p + z), the p representatives, then the z centres of the rep-clusters.
    products : (n, p + z), inner products of the rows with the columns of `table`.
    norms : (p + z,), squared lengths of the columns, in float64.
    starts : (z + 1,), rep-cluster g has the representatives ``starts[g] .. starts[g + 1]``.
    lists : (p, L), nearest representatives of each representative.
    exact : whether all representatives are candidates.
    error : bound of the rounding error of the products, relative to the squared lengths.
    ids, sq : (n, K), results: nearest representatives, nearest first, and squared distances.

    All products are available, so the steps of the coarse-to-fine search (nearest rep-cluster, its nearest
    representative, the list of this one) only choose the candidates. Among these, the K-th smallest of
    ``|r|^2 / 2 - x.r`` and the bound of its rounding error give a limit. Distances to candidates within the limit are
    computed in float64: the result does not depend on the rounding of the products.
    """
    n, K = ids.shape
    z = starts.shape[0] - 1
    p = products.shape[1] - z
    half = np.empty(p + z, np.float32)
    for r in range(p + z):
        half[r] = 0.5 * norms[r]
    scores = np.empty(K, np.float32)
    unused = np.empty(K, np.uint16)  # `insert_sorted` moves ids, too; here only the scores count
    all_ids = np.arange(p).astype(np.uint16)
    longest = np.sqrt(norms.max())
    for i in range(n):
        dots = products[i]
        squared_length = 0.0
        for a in range(indptr[i], indptr[i + 1]):
            squared_length += np.float64(data[a]) ** 2
        margin = np.float32(error * (np.sqrt(squared_length) + longest) ** 2)
        candidates = all_ids
        if not exact:
            group = nearest_column(indptr, indices, data, i, table, norms, half, dots, p, p + z, margin) - p
            low = starts[group]
            high = starts[group + 1]
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
