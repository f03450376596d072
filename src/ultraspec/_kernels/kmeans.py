"""k-means on one block: assignment to the nearest centre, and the sums that move the centres.

The assigning kernels overwrite `labels`, write to `sq` the squared distance to the centre, and return how many labels
changed.
"""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.graph import lift_row
from ultraspec._kernels.search import product_limit, squared_distance
from ultraspec._kernels.sparse import sparse_squared


@kernel
def assign_dense_products(X, centers, products, bits, half_norms, norms, slack, error, labels, sq):
    """Nearest centre from inner products of projected; every centre that could be it is measured in full.

    `half_norms` belong to the centres' projected, `norms` to the rows; see `product_limit`. `bits` views `products` as
    int32; both are overwritten.
    """
    n, k = products.shape
    changed = 0
    for i in range(n):
        halves = products[i]
        at = nearest_product(halves, bits[i], half_norms, np.float32(0.5) * norms[i])
        smallest = squared_distance(X[i], centers[at])
        limit = product_limit(smallest, norms[i], slack, error)
        close = np.int32(0)
        for c in range(k):
            close += np.int32(halves[c] <= limit)
        if close > 1:
            first = at
            for c in range(k):
                if halves[c] <= limit and c != first:
                    s = squared_distance(X[i], centers[c])
                    if s < smallest or (s == smallest and c < at):
                        smallest = s
                        at = np.int32(c)
        sq[i] = smallest
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def nearest_product(products, bits, half_norms, own):
    """Turn inner products into halved squared distances in place; returns the index of the smallest.

    Halved squared distances are not negative, so their `bits` as integers have the same order: the minimum of integers
    compiles to SIMD where a minimum of floats does not.
    """
    k = products.shape[0]
    for c in range(k):
        products[c] = max(own + (half_norms[c] - products[c]), np.float32(0.0))
    smallest = bits[0]
    for c in range(k):
        smallest = min(smallest, bits[c])
    at = np.int32(k)
    for c in range(k):
        at = min(at, np.int32(c) if bits[c] == smallest else np.int32(k))
    return at


@kernel
def assign_sparse_products(indptr, indices, data, table, products, bits, norms, half_norms, own_norms, labels, sq):
    """Nearest centre of sparse rows from inner products with the columns of `table`; `norms` are |centre|^2.

    `products` and `bits` as in `assign_dense_products`.
    """
    changed = 0
    for i in range(products.shape[0]):
        at = nearest_product(products[i], bits[i], half_norms, np.float32(0.5) * own_norms[i])
        sq[i] = sparse_squared(indptr, indices, data, i, table, at, norms[at])
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def update_own(X, centers, is_moved, labels, sq, left):
    """Measure rows whose own centre moved to it again; `left` tells which centres went away from their row."""
    for i in range(X.shape[0]):
        left[i] = False
        if is_moved[labels[i]]:
            s = squared_distance(X[i], centers[labels[i]])
            left[i] = s > sq[i]
            sq[i] = s


@kernel
def assign_embedded(ids, T, scales, products, half_norms, halves, bits, labels, sq):
    """Nearest centre of embedded rows, straight from their edges.

    An embedded row is a weighted sum of representatives' vectors, so its inner products with the centres are the same
    weighted sum of `products` (p, k), the vectors' products with the centres: the row itself is never formed. Centres
    are padded to full SIMD lanes by some that nothing is near to, see `score_table`. `halves` (k,) and its view `bits`
    as int32 are room to work in.
    """
    changed = 0
    for i in range(ids.shape[0]):
        add_products(ids[i], T[i], scales[i], products, halves)
        at = nearest_product(halves, bits, half_norms, np.float32(0.5))
        sq[i] = np.float32(2.0) * halves[at]
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def label_embedded(ids, T, vectors, products, half_norms, nearest, facts, row, halves, bits, labels):
    """Nearest centre of embedded rows, as `assign_embedded` finds it, without their scales; `row` as in `lift_row`.

    Most rows lie deep inside of a cluster: all their representatives have the same `nearest` centre. Whether the row
    has it too depends on its scale alone, and `facts` (p, 5) of the representatives, see `score_facts`, bound that.
    """
    n, K = ids.shape
    for i in range(n):
        at = nearest[ids[i, 0]]
        differ = np.int32(0)
        longest = np.float32(0.0)
        product = np.float32(0.0)
        low = np.float32(0.0)
        high = np.float32(np.inf)
        for a in range(K):
            differ |= nearest[ids[i, a]] ^ at
            fact = facts[ids[i, a]]
            longest += T[i, a] * fact[0]
            product += T[i, a] * fact[1]
            low = max(low, fact[2])
            high = min(high, fact[3])
        if differ == 0 and product > 0 and low * longest <= 1 and facts[ids[i, 0], 4] <= high * product:
            labels[i] = at
            continue
        scale = lift_row(ids[i], T[i], vectors, row)
        add_products(ids[i], T[i], scale, products, halves)
        labels[i] = nearest_product(halves, bits, half_norms, np.float32(0.5))


@kernel
def add_products(ids, T, scale, products, totals):
    """Inner products of one embedded row with all centres, from its edges."""
    for c in range(totals.shape[0]):
        totals[c] = 0
    for a in range(ids.shape[0]):
        part = products[ids[a]]
        weight = scale * T[a]
        for c in range(totals.shape[0]):
            totals[c] += weight * part[c]


@kernel
def tally(labels, sq, weights, first_row, counts, far_sq, far_row):
    """Weigh the rows of each cluster and remember its farthest row; returns the weighted sum of squared distances.

    `weights` has one entry for all rows or one for each.
    """
    inertia = 0.0
    stride = np.int64(weights.shape[0] > 1)
    for i in range(labels.shape[0]):
        c = labels[i]
        counts[c] += weights[stride * i]
        inertia += weights[stride * i] * sq[i]
        if sq[i] > far_sq[c]:
            far_sq[c] = sq[i]
            far_row[c] = first_row + i
    return inertia


@kernel
def add_rows(X, labels, sums):
    """Add each dense row to its cluster's sum."""
    for i in range(X.shape[0]):
        total = sums[labels[i]]
        for j in range(X.shape[1]):
            total[j] += X[i, j]


@kernel
def add_sparse_rows(indptr, indices, data, labels, sums):
    """Add each sparse row to its cluster's sum."""
    for i in range(labels.shape[0]):
        for a in range(indptr[i], indptr[i + 1]):
            sums[labels[i], indices[a]] += data[a]


@kernel
def add_edges(ids, T, scales, weights, labels, sums):
    """Add each row's edges to its cluster's sum (k, p); `weights` as in `tally`."""
    stride = np.int64(weights.shape[0] > 1)
    for i in range(ids.shape[0]):
        total = sums[labels[i]]
        weight = weights[stride * i]
        for a in range(ids.shape[1]):
            total[ids[i, a]] += weight * np.float64(scales[i] * T[i, a])
