"""Graph of rows and representatives (paper, section 3.1.3): affinities, the p x p reduction, embedded rows.

Notation: B (n, p) holds the affinities of rows and representatives, K entries per row. D_x is the diagonal matrix of
its row sums, the degrees, and T = D_x^-1 B holds the transition probabilities. B and T are stored as edges: `ids`
(n, K), the representatives, nearest first, and the values beside them.
"""

import numpy as np

from ultraspec._kernels._jit import kernel

LANES = 8  # float32 values in one SIMD register of most processors
TINY = 2.220446049250313e-16  # degree of a row whose affinities all underflow


@kernel
def transitions(sq, sigma, degrees):
    """Turn squared distances into transition probabilities, in place, and compute the degrees of the rows.

    The affinity of an edge of length d is exp(-d^2 / (2 sigma^2)).

    sq : (n, K), float32, squared distances, the smallest first; overwritten by T.
    degrees : (n,), float64, result: the diagonal of D_x.

    Exponents are shifted by the smallest of the row, nearest: exp(scale * (nearest - d^2)). The shift cancels in T. So
    a row that is far from every representative, whose affinities all underflow, keeps the proportions of its edges.
    The shift does not cancel in the degree, which is kept positive by `TINY`.
    """
    n, K = sq.shape
    scale = 0.5 / (sigma * sigma)
    for i in range(n):
        nearest = np.float64(sq[i, 0])
        sq[i, 0] = 1.0
        total = 1.0
        for k in range(1, K):
            # the difference needs float64; the exponential has the precision of T, float32
            affinity = np.exp(np.float32(scale * (nearest - np.float64(sq[i, k]))))
            sq[i, k] = affinity
            total += np.float64(affinity)
        inverse = 1.0 / total
        for k in range(K):
            sq[i, k] = np.float32(inverse * np.float64(sq[i, k]))
        degrees[i] = max(total * np.exp(-scale * nearest), TINY)


@kernel
def reduce_pairs(ids, T, degrees, weights, W, counts):
    """Add this block to the affinity of the representatives, W = B' D_x^-1 B, and count rows by representative.

    B' D_x^-1 B = T' D_x T, so row i adds weight_i * degree_i * T[i, a] * T[i, b] for each pair of its K edges.

    ids, T : (n, K), edges.
    degrees : (n,), diagonal of D_x.
    weights : (n,) or (1,), weight of each row, or of every row.
    W : (p, p), float64, to whose upper triangle this block is added; `Graph.mirrored` fills the other one.
    counts : (p,), float64, to which the weight of each row is added at its nearest representative.
    """
    n, K = ids.shape
    stride = np.int64(weights.shape[0] > 1)  # 0 reads the same weight for every row, without a branch
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
    """Compute y = sum_a T[a] * vectors[ids[a]] for the edges of one row; return one over the length of y.

    ids, T : (K,), edges of the row.
    vectors : (p, k), vectors of the representatives; k is a multiple of `LANES`.
    row : (k + LANES,), buffer: the first k entries receive y, the others sums of squares.

    The squares of y are summed lane by lane: lane c sums the entries c, c + LANES, c + 2 LANES, ... This loop is
    vectorised as it stands, and its order of summation is fixed, on every processor.
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
    squared_length = np.float32(0.0)
    for c in range(LANES):
        squared_length += row[k + c]
    return np.float32(1.0) / (np.sqrt(squared_length) + np.float32(1e-10))


@kernel
def lift_scales(ids, T, vectors, row, scales):
    """Compute the scales (n,) that bring embedded rows to unit length, without storing the rows.

    ids, T : (n, K), edges. vectors, row : see `lift_row`. scales : (n,), result.
    """
    for i in range(ids.shape[0]):
        scales[i] = lift_row(ids[i], T[i], vectors, row)
