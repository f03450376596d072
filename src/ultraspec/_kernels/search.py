"""Phase 2 on one dense block: the K nearest representatives of each row.

All kernels write `ids` (n, K), nearest first, and `sq` (n, K), the squared distances. Each row's result depends
on that row alone, bit for bit, whatever block it comes in: `predict` relies on it.
"""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel

LANES = 16  # neighbours scanned together; the tables are padded to a multiple of it


@kernel
def squared_distance(x, y):
    """Squared Euclidean distance of two vectors of equal length."""
    total = np.float32(0.0)
    for j in range(x.shape[0]):
        t = x[j] - y[j]
        total += t * t
    return total


@kernel
def squared_to_columns(x, table, start, n, out):
    """Write the squared distances of `x` to columns ``start .. start + n`` of `table` (d, columns) to `out`.

    Features are taken in pairs: it halves the traffic to `out`, and two features need no second look at it.
    """
    d = x.shape[0]
    if d == 1:
        for c in range(n):
            s = x[0] - table[0, start + c]
            out[c] = s * s
        return
    for c in range(n):
        s = x[0] - table[0, start + c]
        t = x[1] - table[1, start + c]
        out[c] = s * s + t * t
    for j in range(2, d - 1, 2):
        for c in range(n):
            s = x[j] - table[j, start + c]
            t = x[j + 1] - table[j + 1, start + c]
            out[c] += s * s + t * t
    if d & 1:
        for c in range(n):
            s = x[d - 1] - table[d - 1, start + c]
            out[c] += s * s


@kernel
def argmin_bits(bits, n):
    """Index of the smallest of the first `n` values, the first one on ties.

    `bits` views float32 values that are not negative as int32: their order is the same, and a minimum of integers
    compiles to SIMD where a minimum of floats does not.
    """
    smallest = bits[0]
    for c in range(n):
        smallest = min(smallest, bits[c])
    at = np.int32(n)
    for c in range(n):
        at = min(at, np.int32(c) if bits[c] == smallest else np.int32(n))
    return at


@kernel
def insert_sorted(sq, ids, value, new_id):
    """Put `value` into the ascending list `sq` (and its id beside it), dropping the last entry."""
    k = sq.shape[0] - 1
    while k > 0 and sq[k - 1] > value:
        sq[k] = sq[k - 1]
        ids[k] = ids[k - 1]
        k -= 1
    sq[k] = value
    ids[k] = new_id


@kernel
def search_tables(X, coarse, starts, fine, fine_ids, tables, lists, reach, ids, sq):
    """Coarse-to-fine search for few features: every step reads contiguous columns.

    coarse : (d, z) centres of the rep-clusters.
    starts : (z + 1,) first column of each rep-cluster in `fine`.
    fine, fine_ids : (d, *) representatives grouped by rep-cluster, and their ids.
    tables, lists : (p, d, L), (p, L) coordinates and ids of each representative's neighbourhood, nearest first.
    reach : (p, L) distance of each neighbour from the owner of the list.

    The lists are sorted, so the triangle inequality ends a scan early without changing its result: what follows
    lies at least ``reach - d(x, owner)`` away. With lists of all p representatives the search is exact.
    """
    n, K = ids.shape
    z = starts.shape[0] - 1
    L = lists.shape[1]
    widest = coarse.shape[1]
    for c in range(z):
        widest = max(widest, starts[c + 1] - starts[c])
    buffer = np.empty(max(widest, LANES), np.float32)
    bits = buffer.view(np.int32)
    for i in range(n):
        x = X[i]
        squared_to_columns(x, coarse, 0, coarse.shape[1], buffer)
        group = argmin_bits(bits, coarse.shape[1])
        first = starts[group]
        width = starts[group + 1] - first
        squared_to_columns(x, fine, first, width, buffer)
        at = argmin_bits(bits, width)
        owner = np.int64(fine_ids[first + at])
        to_owner = np.sqrt(buffer[at])
        best = sq[i]
        best_ids = ids[i]
        best[:] = np.inf
        for low in range(0, L, LANES):
            # the slack covers float32 rounding of the three distances
            gap = np.float32(0.9999) * reach[owner, low] - np.float32(1.0001) * to_owner
            if gap > 0 and gap * gap > best[K - 1]:
                break
            squared_to_columns(x, tables[owner], low, LANES, buffer)
            for c in range(LANES):
                if buffer[c] < best[K - 1]:
                    insert_sorted(best, best_ids, buffer[c], lists[owner, low + c])


@kernel
def nearest_in_group(X, order, R, starts, members, groups, out):
    """For each row the nearest of the representatives ``members[starts[g]:starts[g + 1]]``, g being its group.

    Rows are visited in `order`, which the caller sorts by group so that a group's representatives stay in cache.
    """
    for i in order:
        group = groups[i]
        smallest = np.float32(np.inf)
        for a in range(starts[group], starts[group + 1]):
            s = squared_distance(X[i], R[members[a]])
            if s < smallest:
                smallest = s
                out[i] = members[a]


@kernel
def search_lists(X, order, R, owners, lists, ids, sq):
    """Last step of the coarse-to-fine search for many features: scan the neighbourhood of each row's owner."""
    K = ids.shape[1]
    for i in order:
        best = sq[i]
        best_ids = ids[i]
        best[:] = np.inf
        for c in range(lists.shape[1]):
            r = lists[owners[i], c]
            s = squared_distance(X[i], R[r])
            if s < best[K - 1]:
                insert_sorted(best, best_ids, s, r)


@kernel
def search_products(X, R, products, half_norms, error, ids, sq):
    """Exact search from the matrix of inner products ``products = X @ R.T``.

    ``|r|^2 / 2 - x.r`` orders the representatives as the distance does, but it is rounded, and the rounding of a
    matrix product depends on the block's shape. So every representative that could be among the K nearest within
    the rounding `error` (relative to |x| max|r|) is measured again directly: the result is exact and the same in
    every block.
    """
    n, K = ids.shape
    p = half_norms.shape[0]
    scores = np.empty(K, np.float32)
    unused = np.empty(K, np.uint16)
    longest = np.float32(0.0)
    for r in range(p):
        longest = max(longest, half_norms[r])
    longest = np.sqrt(np.float32(2.0) * longest)
    for i in range(n):
        scores[:] = np.inf
        length = np.float32(0.0)
        for j in range(X.shape[1]):
            length += X[i, j] * X[i, j]
        for r in range(p):
            score = half_norms[r] - products[i, r]
            if score < scores[K - 1]:
                insert_sorted(scores, unused, score, np.uint16(r))
        limit = scores[K - 1] + error * (np.sqrt(length) + longest) * longest
        best = sq[i]
        best_ids = ids[i]
        best[:] = np.inf
        for r in range(p):
            if half_norms[r] - products[i, r] <= limit:
                s = squared_distance(X[i], R[r])
                if s < best[K - 1]:
                    insert_sorted(best, best_ids, s, np.uint16(r))
