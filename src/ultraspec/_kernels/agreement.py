"""Groups of representatives: rough k-means of few rows, how often rows share a group, and the vote of one block."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.kmeans import nearest_product


@kernel
def assign_rough(X, weights, products, bits, half_norms, labels, sums, counts):
    """Nearest centre of unit rows from their inner products with all; adds rows to their cluster's sum and weight.

    `bits` views `products` as int32; both are overwritten, see `nearest_product`.
    """
    for i in range(X.shape[0]):
        at = nearest_product(products[i], bits[i], half_norms, np.float32(0.5))
        labels[i] = at
        weight = weights[i]
        counts[at] += weight
        total = sums[at]
        for j in range(X.shape[1]):
            total[j] += weight * X[i, j]


@kernel
def add_agreement(order, bounds, shares, C):
    """Add to all pairs of each group, ``order[bounds[g]:bounds[g + 1]]``, the group's share."""
    for g in range(shares.shape[0]):
        share = shares[g]
        for a in range(bounds[g], bounds[g + 1]):
            row = C[order[a]]
            for b in range(bounds[g], bounds[g + 1]):
                row[order[b]] += share


@kernel
def vote(ids, T, groups, labels):
    """The group that has most of each row's weight; of equals, that of the nearest representative."""
    n, K = ids.shape
    for i in range(n):
        best = groups[ids[i, 0]]
        differ = np.int32(0)
        for a in range(1, K):
            differ |= groups[ids[i, a]] ^ best
        if differ != 0:
            most = np.float32(-1.0)
            for a in range(K):
                group = groups[ids[i, a]]
                total = np.float32(0.0)
                for b in range(K):
                    if groups[ids[i, b]] == group:
                        total += T[i, b]
                if total > most:
                    most = total
                    best = group
        labels[i] = best


@kernel
def add_votes(ids, T, labels, firsts, votes):
    """Add each row's weights to ``votes[r, firsts[j] + labels[i, j]]`` for its representatives r and clusterings j."""
    n, K = ids.shape
    for i in range(n):
        for a in range(K):
            row = votes[ids[i, a]]
            weight = np.float64(T[i, a])
            for j in range(labels.shape[1]):
                row[firsts[j] + labels[i, j]] += weight
