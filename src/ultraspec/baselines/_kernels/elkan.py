"""k-means on one block with bounds: only rows and centres that could have come together are measured.

For each row, `upper` bounds its distance to its own centre from above, and `lower` (n, k) those to all centres from
below. `apart` (k, k) holds half the distances between centres, infinity on its diagonal: a row that is nearer to its
own centre than that cannot be nearer to the other one.
"""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.search import squared_distance

MARGIN = np.float32(1e-6)  # relative rounding of a distance and of one update of its bound


@kernel
def initial_bounds(products, half_norms, norms, error, labels, lower):
    """Bounds from inner products of rows and centres; `error` bounds their rounding, relative to squared lengths.

    Labels become guesses, which `assign_rows` tells from labels by their sign: ``-1 - centre``.
    """
    n, k = products.shape
    for i in range(n):
        own = np.float32(0.5) * norms[i]
        guess = 0
        smallest = np.float32(np.inf)
        for c in range(k):
            half = own + half_norms[c] - products[i, c]
            sure = half - error * (norms[i] + half_norms[c] + half_norms[c])
            lower[i, c] = np.sqrt(np.float32(2.0) * max(sure, np.float32(0.0)))
            if half < smallest:
                smallest = half
                guess = c
        labels[i] = -1 - guess


@kernel
def update_bounds(moves, apart, labels, upper, lower, doubtful):
    """Let bounds follow centres that moved; returns how many rows may have another nearest centre, `doubtful` which."""
    n, k = lower.shape
    found = 0
    for i in range(n):
        at = labels[i]
        own = (upper[i] + moves[at]) * (np.float32(1.0) + MARGIN)
        upper[i] = own
        near = np.int32(0)
        for c in range(k):
            bound = lower[i, c] * (np.float32(1.0) - MARGIN) - moves[c]
            lower[i, c] = bound
            near += np.int32(max(bound, apart[at, c]) <= own)
        doubtful[found] = i
        found += near > 0
    return found


@kernel
def assign_rows(X, rows, centers, apart, weights, labels, upper, lower, sums):
    """Find the nearest centres of some rows of a block, whose features are `X`; returns how many labels changed.

    `sums` gets what the rows add to the sums of their new clusters and take from those of their old ones. `weights` has
    one entry for all rows of the block or one for each.
    """
    changed = 0
    stride = np.int64(weights.shape[0] > 1)
    for r in range(rows.shape[0]):
        i = rows[r]
        x = X[r]
        before = labels[i]
        at = before if before >= 0 else -1 - before
        smallest = squared_distance(x, centers[at])
        best = np.sqrt(smallest)
        lower[i, at] = best
        for c in range(centers.shape[0]):
            if c != at and max(lower[i, c], apart[at, c]) <= best:
                sq = squared_distance(x, centers[c])
                lower[i, c] = np.sqrt(sq)
                if sq < smallest or (sq == smallest and c < at):
                    smallest = sq
                    best = lower[i, c]
                    at = np.int32(c)
        upper[i] = best
        if at != before:
            changed += 1
            labels[i] = at
            weight = weights[stride * i]
            add_row(x, weight, sums[at])
            if before >= 0:
                add_row(x, -weight, sums[before])
    return changed


@kernel
def add_row(x, weight, total):
    """Add a row to a sum."""
    for j in range(x.shape[0]):
        total[j] += weight * x[j]


@kernel
def own_squared_distances(X, centers, labels, sq):
    """Squared distances of rows to the centres of their clusters."""
    for i in range(X.shape[0]):
        sq[i] = squared_distance(X[i], centers[labels[i]])
