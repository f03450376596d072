"""k-means on one block of rows: assignment to the nearest centre, and the sums that move the centres.

The kernels ``assign_...`` overwrite `labels` (n,) with the index of the nearest centre, write the squared distance to
it to `sq` (n,), and return the number of labels that changed.

Most of them start from inner products, which BLAS computes for a whole block: half the squared distance of a row x to
a centre c is |x|^2 / 2 + (|c|^2 / 2 - x.c). The |c|^2 / 2 are passed as `half_norms`.
"""

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel
from ultraspec._kernels.graph import lift_row
from ultraspec._kernels.search import product_limit, squared_distance
from ultraspec._kernels.sparse import sparse_squared


@kernel
def assign_dense_products(X, centers, products, bits, half_norms, norms, slack, error, labels, sq):
    """Assign dense rows to the nearest centre.

    X, centers : (n, d) and (k, d), rows and centres.
    products, bits : (n, k), inner products of the projections of rows and centres, and a view of them as int32; both
        are overwritten by halved squared distances, see `nearest_product`.
    half_norms : (k,), half the squared lengths of the projections of the centres.
    norms : (n,), squared lengths of the rows.
    slack, error : bounds of rounding errors, see `product_limit`.

    Distances from inner products are rounded, and in a way that depends on the shape of the block. Distances of
    projections are also too short. So they only exclude centres: the distance to the apparently nearest centre is
    computed directly, and so is that to every other centre within `product_limit` of it. The result is exact and the
    same in every block.
    """
    n, k = products.shape
    changed = 0
    for i in range(n):
        halves = products[i]
        label = nearest_product(halves, bits[i], half_norms, np.float32(0.5) * norms[i])
        smallest = squared_distance(X[i], centers[label])
        limit = product_limit(smallest, norms[i], slack, error)
        # count candidates first: this loop is vectorised, and for most rows it finds `label` only
        candidates = np.int32(0)
        for c in range(k):
            candidates += np.int32(halves[c] <= limit)
        if candidates > 1:
            first = label
            for c in range(k):
                if halves[c] <= limit and c != first:
                    s = squared_distance(X[i], centers[c])
                    if s < smallest or (s == smallest and c < label):  # a tie goes to the lower index
                        smallest = s
                        label = np.int32(c)
        sq[i] = smallest
        changed += labels[i] != label
        labels[i] = label
    return changed


@kernel
def nearest_product(products, bits, half_norms, half_norm):
    """Turn inner products of one row into halved squared distances, in place; return the index of the smallest.

    products, bits : (k,), inner products with the centres, and a view of the same memory as int32.
    half_norms : (k,), half the squared lengths of the centres.
    half_norm : half the squared length of the row.

    Floats that are not negative have the same order as their bits read as integers. LLVM vectorises a minimum of
    integers, but not a strict minimum of floats. So the minimum of `bits` is computed, and then the first index where
    it occurs, again as a minimum, without branches.
    """
    k = products.shape[0]
    for c in range(k):
        products[c] = max(half_norm + (half_norms[c] - products[c]), np.float32(0.0))
    smallest = bits[0]
    for c in range(k):
        smallest = min(smallest, bits[c])
    nearest = np.int32(k)
    for c in range(k):
        nearest = min(nearest, np.int32(c) if bits[c] == smallest else np.int32(k))
    return nearest


@kernel
def assign_sparse_products(indptr, indices, data, table, products, bits, norms, half_norms, row_norms, labels, sq):
    """Assign sparse rows to the nearest centre.

    indptr, indices, data : CSR rows.
    table : (d, k), the centres as columns.
    products, bits : (n, k), inner products of rows and centres, and a view of them as int32; both are overwritten.
    norms, half_norms : (k,), squared lengths of the centres in float64, and half of them in float32.
    row_norms : (n,), squared lengths of the rows.

    The nearest centre is that by inner products. Only the distance to it is computed again, in float64.
    """
    changed = 0
    for i in range(products.shape[0]):
        label = nearest_product(products[i], bits[i], half_norms, np.float32(0.5) * row_norms[i])
        sq[i] = sparse_squared(indptr, indices, data, i, table, label, norms[label])
        changed += labels[i] != label
        labels[i] = label
    return changed


@kernel
def update_own(X, centers, is_moved, labels, sq, left):
    """Update the distances of rows to the centres that they are assigned to, where these moved.

    is_moved : (k,), whether each centre moved.
    labels, sq : (n,), the assignment; `sq` is updated.
    left : (n,), result: whether the centre of the row is now farther away than before.
    """
    for i in range(X.shape[0]):
        left[i] = False
        if is_moved[labels[i]]:
            s = squared_distance(X[i], centers[labels[i]])
            left[i] = s > sq[i]
            sq[i] = s


@kernel
def assign_embedded(ids, T, scales, products, half_norms, halves, bits, labels, sq):
    """Assign embedded rows to the nearest centre, directly from their edges.

    An embedded row is y = scale * sum_a T[a] * v[ids[a]], a weighted sum of vectors of representatives. So its inner
    product with a centre c is the same sum of the products v.c, and y itself is never computed: O(K k) instead of
    O(K k + k^2) per row.

    ids, T : (n, K), edges of the rows.
    scales : (n,), factors that bring the rows to unit length, see `lift_scales`.
    products : (p, k), products of the vectors with the centres. Centres are padded to a multiple of the SIMD lanes
        with centres at an infinite distance, see `score_table`.
    half_norms : (k,), half the squared lengths of the centres.
    halves, bits : (k,), a buffer for one row, and a view of it as int32.
    """
    changed = 0
    for i in range(ids.shape[0]):
        add_products(ids[i], T[i], scales[i], products, halves)
        label = nearest_product(halves, bits, half_norms, np.float32(0.5))  # |y|^2 / 2 of a unit row
        sq[i] = np.float32(2.0) * halves[label]
        changed += labels[i] != label
        labels[i] = label
    return changed


@kernel
def label_embedded(ids, T, vectors, products, half_norms, nearest, facts, row, halves, bits, labels):
    """Label embedded rows with the nearest centre, as `assign_embedded` does, but without their scales.

    ids, T : (n, K), edges of the rows.
    vectors, row : see `lift_row`.
    products, half_norms, halves, bits : see `assign_embedded`.
    nearest, facts : (p,) and (p, 5), the nearest centre of each representative and bounds, see `score_facts`.
    labels : (n,), result.

    Most rows are deep inside of a cluster: all their representatives have the same nearest centre. Whether that is the
    nearest centre of the row, too, depends only on the scale of the row, one over its length. The length is at most
    the weighted mean of the lengths of the representatives, `longest`, and at least `product` divided by the length of
    the centre. If all scales between one over these bounds lie in the range [low, high] in which the centre is the
    nearest of every representative, the row needs no search.
    """
    n, K = ids.shape
    for i in range(n):
        label = nearest[ids[i, 0]]
        differ = np.int32(0)
        longest = np.float32(0.0)
        product = np.float32(0.0)
        low = np.float32(0.0)
        high = np.float32(np.inf)
        for a in range(K):
            differ |= nearest[ids[i, a]] ^ label
            fact = facts[ids[i, a]]
            longest += T[i, a] * fact[0]
            product += T[i, a] * fact[1]
            low = max(low, fact[2])
            high = min(high, fact[3])
        # low <= 1 / longest <= scale <= |centre| / product <= high, without divisions
        if differ == 0 and product > 0 and low * longest <= 1 and facts[ids[i, 0], 4] <= high * product:
            labels[i] = label
            continue
        scale = lift_row(ids[i], T[i], vectors, row)
        add_products(ids[i], T[i], scale, products, halves)
        labels[i] = nearest_product(halves, bits, half_norms, np.float32(0.5))


@kernel
def add_products(ids, T, scale, products, totals):
    """Compute the inner products of one embedded row with all centres: scale * sum_a T[a] * products[ids[a]].

    ids, T : (K,), edges of the row. products : (p, k). totals : (k,), result.
    """
    for c in range(totals.shape[0]):
        totals[c] = 0
    for a in range(ids.shape[0]):
        part = products[ids[a]]
        weight = scale * T[a]
        for c in range(totals.shape[0]):
            totals[c] += weight * part[c]


@kernel
def tally(labels, sq, weights, first_row, counts, far_sq, far_row):
    """Sum up the weights of each cluster and find its farthest row; return the weighted sum of squared distances.

    labels, sq : (n,), the assignment and the squared distances to the centres.
    weights : (n,) or (1,), weight of each row, or of every row.
    first_row : index of the first row of this block among all rows.
    counts : (k,), to which the weights of this block are added.
    far_sq, far_row : (k,), squared distance and index of the farthest row of each cluster so far; updated. Rows whose
        weight is zero do not count.
    """
    inertia = 0.0
    stride = np.int64(weights.shape[0] > 1)  # 0 reads the same weight for every row, without a branch
    for i in range(labels.shape[0]):
        c = labels[i]
        counts[c] += weights[stride * i]
        inertia += weights[stride * i] * sq[i]
        if sq[i] > far_sq[c] and weights[stride * i] > 0:
            far_sq[c] = sq[i]
            far_row[c] = first_row + i
    return inertia


@kernel
def add_rows(X, weights, labels, sums):
    """Add each dense row of X (n, d), times its weight, to the sum (k, d) of its cluster, in float64.

    weights : see `tally`.
    """
    stride = np.int64(weights.shape[0] > 1)
    for i in range(X.shape[0]):
        total = sums[labels[i]]
        weight = weights[stride * i]
        for j in range(X.shape[1]):
            total[j] += weight * np.float64(X[i, j])


@kernel
def add_sparse_rows(indptr, indices, data, weights, labels, sums):
    """Add each CSR row, times its weight, to the sum (k, d) of its cluster, in float64; weights : see `tally`."""
    stride = np.int64(weights.shape[0] > 1)
    for i in range(labels.shape[0]):
        weight = weights[stride * i]
        for a in range(indptr[i], indptr[i + 1]):
            sums[labels[i], indices[a]] += weight * np.float64(data[a])


@kernel
def add_edges(ids, T, scales, weights, labels, sums):
    """Add the scaled edges of each row to the sum (k, p) of its cluster, in float64.

    The mean of the embedded rows of a cluster is a linear function of these sums: they are multiplied by the vectors
    of the representatives once per pass, not once per row.

    ids, T, scales : see `assign_embedded`. weights : see `tally`.
    """
    stride = np.int64(weights.shape[0] > 1)
    for i in range(ids.shape[0]):
        total = sums[labels[i]]
        weight = weights[stride * i]
        for a in range(ids.shape[1]):
            total[ids[i, a]] += weight * np.float64(scales[i] * T[i, a])


@reordering_kernel
def weighted_sum(weights, values):
    """Return the sum of values times weights, (n,) or (1,), in float64."""
    stride = np.int64(weights.shape[0] > 1)
    total = np.float64(0.0)
    for i in range(values.shape[0]):
        total += weights[stride * i] * np.float64(values[i])
    return total


@kernel
def spread_points(columns, weights, uniforms, chosen, nearest, running, squares, best):
    """Draw points by k-means++, see `ultraspec.cluster.kmeans.spread_centers`; return how many were drawn.

    columns : (d, n), the points by columns: the loops over points are vectorised.
    weights : (n,), or (1,) for one weight of all points.
    uniforms : (k, trials), random numbers; of the first row, one is used.
    chosen : (k,), result.
    nearest, running, squares, best : (n,), buffers. All are float32, but `running` is float64.
    """
    k, trials = uniforms.shape
    n = columns.shape[1]
    stride = np.int64(weights.shape[0] > 1)
    for i in range(n):
        nearest[i] = np.float32(np.inf)
    for c in range(k):
        last = np.float64(0.0)
        for i in range(n):
            last += weights[stride * i] * (np.float64(nearest[i]) if c > 0 else 1.0)
            running[i] = last
        if last == 0.0:  # all points are drawn
            return c
        smallest = np.inf
        for t in range(trials if c > 0 else 1):
            # the product may round up to the end: then it is the last point that can be drawn
            index = np.searchsorted(running, uniforms[c, t] * last, side="right")
            if index == n:
                index = np.searchsorted(running, last, side="left")
            for i in range(n):
                squares[i] = np.float32(0.0)
            for j in range(columns.shape[0]):
                column = columns[j]
                value = column[index]
                for i in range(n):
                    difference = column[i] - value
                    squares[i] += difference * difference
            for i in range(n):
                squares[i] = min(squares[i], nearest[i])
            total = weighted_sum(weights, squares)
            if total < smallest:
                smallest = total
                chosen[c] = index
                best, squares = squares, best
        nearest, best = best, nearest
    return k
