"""k-means on one block: assignment to the nearest centre, and the sums that move the centres.

The assigning kernels overwrite `labels`, write to `sq` the squared distance to the centre, and return how many labels
changed.
"""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.graph import LANES, lift_row
from ultraspec._kernels.search import product_limit, squared_distance
from ultraspec._kernels.sparse import sparse_squared


@kernel
def assign_dense_products(X, centers, products, half_norms, norms, slack, error, labels, sq):
    """Nearest centre from inner products of shadows; every centre that could be it is measured in full.

    `half_norms` belong to the centres' shadows, `norms` to the rows; see `product_limit`.
    """
    n, k = products.shape
    halves = np.empty(k, np.float32)
    bits = halves.view(np.int32)
    changed = 0
    for i in range(n):
        at = nearest_product(products[i], half_norms, np.float32(0.5) * norms[i], halves, bits)
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
def nearest_product(products, half_norms, own, halves, bits):
    """Index of the smallest halved squared distance, all of which are written to `halves`; `bits` views them as int32.

    Halved squared distances are not negative, so their bits as integers have the same order: the minimum of integers
    compiles to SIMD where a minimum of floats does not.
    """
    k = products.shape[0]
    for c in range(k):
        halves[c] = max(own + (half_norms[c] - products[c]), np.float32(0.0))
    smallest = bits[0]
    for c in range(k):
        smallest = min(smallest, bits[c])
    at = np.int32(k)
    for c in range(k):
        at = min(at, np.int32(c) if bits[c] == smallest else np.int32(k))
    return at


@kernel
def assign_sparse_products(indptr, indices, data, table, products, norms, own_norms, labels, sq):
    """Nearest centre of sparse rows from inner products with the columns of `table`; `norms` are |centre|^2."""
    n, k = products.shape
    halves = np.empty(k, np.float32)
    half_norms = np.empty(k, np.float32)
    for c in range(k):
        half_norms[c] = 0.5 * norms[c]
    bits = halves.view(np.int32)
    changed = 0
    for i in range(n):
        at = nearest_product(products[i], half_norms, np.float32(0.5) * own_norms[i], halves, bits)
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
def assign_embedded(ids, T, scales, products, half_norms, labels, sq):
    """Nearest centre of embedded rows, straight from their edges.

    An embedded row is a weighted sum of representatives' vectors, so its inner products with the centres are the same
    weighted sum of `products` (p, k), the vectors' products with the centres: the row itself is never formed. Centres
    are padded to full SIMD lanes by some that nothing is near to, see `score_table`.
    """
    k = products.shape[1]
    totals = np.empty(k, np.float32)
    halves = np.empty(k, np.float32)
    bits = halves.view(np.int32)
    changed = 0
    for i in range(ids.shape[0]):
        add_products(ids[i], T[i], scales[i], products, totals)
        at = nearest_product(totals, half_norms, np.float32(0.5), halves, bits)
        sq[i] = np.float32(2.0) * halves[at]
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def label_embedded(ids, T, vectors, products, half_norms, nearest, facts, labels):
    """Nearest centre of embedded rows, as `assign_embedded` finds it, without their scales.

    Most rows lie deep inside of a cluster: all their representatives have the same `nearest` centre. Whether the row
    has it too depends on its scale alone, and `facts` (p, 5) of the representatives, see `score_facts`, bound that.
    """
    n, K = ids.shape
    k = products.shape[1]
    row = np.empty(vectors.shape[1], np.float32)
    lanes = np.empty(LANES, np.float32)
    totals = np.empty(k, np.float32)
    halves = np.empty(k, np.float32)
    bits = halves.view(np.int32)
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
        scale = lift_row(ids[i], T[i], vectors, row, lanes)
        add_products(ids[i], T[i], scale, products, totals)
        labels[i] = nearest_product(totals, half_norms, np.float32(0.5), halves, bits)


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


@kernel
def spread_seeds(X, weights, first, uniforms, chosen):
    """k-means++: `chosen[0]` is `first`, each further row is drawn with probability ~ squared distance to the chosen.

    `uniforms` (k, t) gives t draws a step, of which the one that leaves the least sum of squares is taken. `weights` as
    in `tally` multiply the probabilities. Returns how many rows were chosen: fewer than asked where the distinct rows
    run out.
    """
    n, trials = X.shape[0], uniforms.shape[1]
    stride = np.int64(weights.shape[0] > 1)
    nearest = np.empty(n, np.float32)
    tried = np.empty(n, np.float32)
    best = np.empty(n, np.float32)
    total = 0.0
    chosen[0] = first
    for i in range(n):
        nearest[i] = squared_distance(X[i], X[first])
        total += weights[stride * i] * nearest[i]
    for c in range(1, chosen.shape[0]):
        if total <= 0.0:
            return c
        least = np.inf
        for t in range(trials):
            at = draw(nearest, weights, uniforms[c, t] * total)
            left = 0.0
            for i in range(n):
                tried[i] = min(nearest[i], squared_distance(X[i], X[at]))
                left += weights[stride * i] * tried[i]
            if left < least:
                least = left
                chosen[c] = at
                best, tried = tried, best
        nearest, best = best, nearest
        total = least
    return chosen.shape[0]


@kernel
def draw(values, weights, goal):
    """First row at which the running sum of weighted positive values reaches `goal`, or the last positive one."""
    stride = np.int64(weights.shape[0] > 1)
    running = 0.0
    at = -1
    for i in range(values.shape[0]):
        running += weights[stride * i] * values[i]
        if values[i] > 0:
            at = i
            if running >= goal:
                break
    return at
