"""Elkan's k-means on one block: distances are computed only for rows and centres that the bounds do not exclude.

For each row, `upper` is an upper bound of the distance to its centre, and `lower` (n, k) are lower bounds of the
distances to all centres. `half_distances` (k, k) holds half the distances between centres, with infinity on the
diagonal.

A row x with the centre a can have another nearest centre c only if both lower bounds of |x - c| allow it: `lower`, and
by the triangle inequality |x - c| >= |a - c| - |x - a|, which exceeds |x - a| if |x - a| < |a - c| / 2.
"""

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.search import squared_distance

MARGIN = np.float32(1e-6)  # relative rounding error of a distance and of one update of its bound


@kernel
def initial_bounds(products, half_norms, norms, error, labels, lower):
    """Compute lower bounds from the inner products of rows and centres.

    `error` is a bound of the rounding error of halved squared distances, relative to the squared lengths. Labels are
    set to guesses, coded as ``-1 - centre``, which `assign_rows` recognises by their sign.
    """
    n, k = products.shape
    for i in range(n):
        half_norm = np.float32(0.5) * norms[i]
        guess = 0
        smallest = np.float32(np.inf)
        for c in range(k):
            # |x - c|^2 / 2 = |x|^2 / 2 + |c|^2 / 2 - x.c
            half = half_norm + half_norms[c] - products[i, c]
            certain = half - error * (norms[i] + half_norms[c] + half_norms[c])
            lower[i, c] = np.sqrt(np.float32(2.0) * max(certain, np.float32(0.0)))
            if half < smallest:
                smallest = half
                guess = c
        labels[i] = -1 - guess


@kernel
def update_bounds(moves, half_distances, labels, upper, lower, doubtful):
    """Adapt the bounds to centres that moved by `moves`; return how many rows may have another nearest centre.

    The indices of these rows are written to `doubtful`.
    """
    n, k = lower.shape
    count = 0
    for i in range(n):
        label = labels[i]
        # a centre that moves by m changes a distance by at most m; the margin covers the rounding of this update
        farthest = (upper[i] + moves[label]) * (np.float32(1.0) + MARGIN)
        upper[i] = farthest
        candidates = np.int32(0)
        for c in range(k):
            bound = lower[i, c] * (np.float32(1.0) - MARGIN) - moves[c]
            lower[i, c] = bound
            candidates += np.int32(max(bound, half_distances[label, c]) <= farthest)
        doubtful[count] = i  # without a branch: the entry is overwritten unless it counts
        count += candidates > 0
    return count


@kernel
def assign_rows(X, rows, centers, half_distances, weights, labels, upper, lower, sums):
    """Assign some rows of a block, whose features are `X`, to their nearest centres; return how many labels changed.

    Rows are added to the `sums` of their new clusters and subtracted from those of their previous ones. `weights` has
    one entry for all rows of the block, or one for each.
    """
    changed = 0
    stride = np.int64(weights.shape[0] > 1)
    for r in range(rows.shape[0]):
        i = rows[r]
        x = X[r]
        previous = labels[i]
        label = previous if previous >= 0 else -1 - previous
        smallest = squared_distance(x, centers[label])
        distance = np.sqrt(smallest)
        lower[i, label] = distance
        for c in range(centers.shape[0]):
            if c != label and max(lower[i, c], half_distances[label, c]) <= distance:
                sq = squared_distance(x, centers[c])
                lower[i, c] = np.sqrt(sq)
                if sq < smallest or (sq == smallest and c < label):  # the first of equally near centres
                    smallest = sq
                    distance = lower[i, c]
                    label = np.int32(c)
        upper[i] = distance
        if label != previous:
            changed += 1
            labels[i] = label
            weight = weights[stride * i]
            add_row(x, weight, sums[label])
            if previous >= 0:
                add_row(x, -weight, sums[previous])
    return changed


@kernel
def add_row(x, weight, total):
    """Add a row, times its weight, to a sum."""
    for j in range(x.shape[0]):
        total[j] += weight * x[j]


@kernel
def own_squared_distances(X, centers, labels, sq):
    """Compute the squared distances of rows to the centres of their clusters."""
    for i in range(X.shape[0]):
        sq[i] = squared_distance(X[i], centers[labels[i]])
