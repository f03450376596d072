"""Phase 3 on one block: affinities, the p x p reduction, the lift to rows."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel

LANES = 8  # float32 values that most processors work on at once
TINY = 2.220446049250313e-16  # degree of a row whose affinities all underflow


@kernel
def transitions(sq, sigma, degrees):
    """Turn squared distances (n, K) into transition probabilities T = D_x^-1 B in place; `degrees` gets D_x.

    Exponents are shifted by the row's smallest, which cancels in T: a row far from every representative keeps its
    proportions. Its degree, which does not cancel, stays positive.
    """
    n, K = sq.shape
    scale = 0.5 / (sigma * sigma)
    for i in range(n):
        nearest = np.float64(sq[i, 0])
        sq[i, 0] = 1.0
        total = 1.0
        for k in range(1, K):
            affinity = np.exp(np.float32(scale * (nearest - np.float64(sq[i, k]))))
            sq[i, k] = affinity
            total += np.float64(affinity)
        inverse = 1.0 / total
        for k in range(K):
            sq[i, k] = np.float32(inverse * np.float64(sq[i, k]))
        degrees[i] = max(total * np.exp(-scale * nearest), TINY)


@kernel
def reduce_pairs(ids, T, degrees, weights, W, counts):
    """Add this block's part of W = B' D_x^-1 B to the upper triangle, and weigh rows by nearest representative.

    `weights` has one entry for all rows or one for each.
    """
    n, K = ids.shape
    stride = np.int64(weights.shape[0] > 1)
    for i in range(n):
        weight = weights[stride * i]
        counts[ids[i, 0]] += weight
        for a in range(K):
            ra = np.int64(ids[i, a])
            part = weight * degrees[i] * np.float64(T[i, a])
            W[ra, ra] += part * np.float64(T[i, a])
            for b in range(a + 1, K):
                rb = np.int64(ids[i, b])
                W[min(ra, rb), max(ra, rb)] += part * np.float64(T[i, b])


@kernel
def lift_row(ids, T, vectors, row):
    """One row's edges times the representatives' vectors (p, k), and the scale that makes its length one.

    k is a multiple of `LANES`, and `row` has `LANES` entries more: there squares are summed lane by lane, in one order
    whatever the compiler makes of it.
    """
    k = vectors.shape[1]
    for c in range(k + LANES):
        row[c] = 0
    for a in range(ids.shape[0]):
        vector = vectors[ids[a]]
        for c in range(k):
            row[c] += T[a] * vector[c]
    for low in range(0, k, LANES):
        for c in range(LANES):
            row[k + c] += row[low + c] * row[low + c]
    length = np.float32(0.0)
    for c in range(LANES):
        length += row[k + c]
    return np.float32(1.0) / (np.sqrt(length) + np.float32(1e-10))


@kernel
def lift_scales(ids, T, vectors, row, scales):
    """The scales that bring the lifted rows to unit length, without keeping the rows; `row` as in `lift_row`."""
    for i in range(ids.shape[0]):
        scales[i] = lift_row(ids[i], T[i], vectors, row)
