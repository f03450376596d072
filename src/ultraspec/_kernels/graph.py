"""Phase 3 on one block: affinities, the p x p reduction, the lift to rows."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel

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
        total = 0.0
        for k in range(K):
            total += np.exp(scale * (nearest - np.float64(sq[i, k])))
        for k in range(K):
            sq[i, k] = np.float32(np.exp(scale * (nearest - np.float64(sq[i, k]))) / total)
        degrees[i] = max(total * np.exp(-scale * nearest), TINY)


@kernel
def reduce_pairs(ids, T, degrees, W, counts):
    """Add this block's part of W = B' D_x^-1 B to the upper triangle, and count rows by nearest representative."""
    n, K = ids.shape
    for i in range(n):
        counts[ids[i, 0]] += 1
        for a in range(K):
            ra = np.int64(ids[i, a])
            part = degrees[i] * np.float64(T[i, a])
            W[ra, ra] += part * np.float64(T[i, a])
            for b in range(a + 1, K):
                rb = np.int64(ids[i, b])
                value = part * np.float64(T[i, b])
                if ra < rb:
                    W[ra, rb] += value
                else:
                    W[rb, ra] += value


@kernel
def lift(ids, T, table, out):
    """Embed rows: T times the representatives' vectors `table` (p, k), each row scaled to unit length."""
    n, K = ids.shape
    k = table.shape[1]
    for i in range(n):
        row = out[i]
        vector = table[ids[i, 0]]
        weight = T[i, 0]
        for c in range(k):
            row[c] = weight * vector[c]
        for a in range(1, K):
            vector = table[ids[i, a]]
            weight = T[i, a]
            for c in range(k):
                row[c] += weight * vector[c]
        length = np.float32(0.0)
        for c in range(k):
            length += row[c] * row[c]
        scale = np.float32(1.0) / (np.sqrt(length) + np.float32(1e-10))
        for c in range(k):
            row[c] *= scale
