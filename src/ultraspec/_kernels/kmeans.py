"""k-means on one block: assignment to the nearest centre, and the sums that move the centres."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.search import argmin_bits, squared_distance, squared_to_columns


@kernel
def assign_columns(X, table, labels, sq):
    """Label each row with the nearest of the centres in the columns of `table` (d, k padded with inf)."""
    buffer = np.empty(table.shape[1], np.float32)
    bits = buffer.view(np.int32)
    changed = 0
    for i in range(X.shape[0]):
        squared_to_columns(X[i], table, 0, table.shape[1], buffer)
        at = argmin_bits(bits, table.shape[1])
        sq[i] = buffer[at]
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def assign_products(products, half_norms, norms, labels, sq):
    """Label each row from its inner products with the centres; `norms` are the rows' own squared lengths."""
    n, k = products.shape
    changed = 0
    for i in range(n):
        at = 0
        smallest = half_norms[0] - products[i, 0]
        for c in range(1, k):
            score = half_norms[c] - products[i, c]
            if score < smallest:
                smallest = score
                at = c
        sq[i] = max(norms[i] + np.float32(2.0) * smallest, np.float32(0.0))
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def tally(labels, sq, first_row, counts, far_sq, far_row):
    """Count rows per cluster and remember each cluster's farthest row; returns the sum of squared distances."""
    inertia = 0.0
    for i in range(labels.shape[0]):
        c = labels[i]
        counts[c] += 1
        inertia += sq[i]
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
def spread_seeds(X, first, uniforms, chosen):
    """k-means++: `chosen[0]` is `first`, each further row is drawn with probability ~ squared distance to the chosen.

    Returns how many rows were chosen: fewer than asked where the distinct rows run out.
    """
    n = X.shape[0]
    nearest = np.full(n, np.inf, np.float32)
    chosen[0] = first
    for c in range(1, chosen.shape[0]):
        total = 0.0
        for i in range(n):
            s = squared_distance(X[i], X[chosen[c - 1]])
            nearest[i] = min(nearest[i], s)
            total += nearest[i]
        if total <= 0.0:
            return c
        goal = uniforms[c] * total
        running = 0.0
        at = -1
        for i in range(n):
            running += nearest[i]
            if nearest[i] > 0:
                at = i
                if running >= goal:
                    break
        chosen[c] = at
    return chosen.shape[0]
