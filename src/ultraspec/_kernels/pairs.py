"""Sparse affinity of representatives: sums over pairs of edges in a hash table.

With ten thousand representatives, a dense p x p matrix takes 800 MB, but only some fifty representatives share rows
with any one of them. The table has open addressing: the entry of a key is at its hash value, or at the next free place.
The key of the pair a <= b is ``a * p + b``; free places have the key -1.
"""

import numpy as np

from ultraspec._kernels._jit import kernel

FREE = -1


@kernel
def place_of(key, keys):
    """Return the place of a key in a table, or the free place where it belongs; `keys` has 2^b places."""
    mask = np.int64(keys.shape[0] - 1)
    # multiplicative hashing: the high bits of the product depend on all bits of the key
    place = ((key * np.int64(-7046029254386353131)) >> np.int64(20)) & mask
    while keys[place] != key and keys[place] != FREE:
        place = (place + 1) & mask
    return place


@kernel
def add_pairs(ids, T, degrees, weights, p, keys, sums, counts):
    """Add rows to a table as `graph.reduce_pairs` adds them to a matrix; return the number of new keys.

    ids, T : (n, K), edges. degrees : (n,), diagonal of D_x.
    weights : (n,) or (1,), weight of each row, or of every row.
    keys, sums : the table, in which at least n K (K + 1) / 2 places are free.
    counts : (p,), float64, to which the weight of each row is added at its nearest representative.
    """
    n, K = ids.shape
    stride = np.int64(weights.shape[0] > 1)
    n_new = 0
    for i in range(n):
        weight = weights[stride * i]
        counts[ids[i, 0]] += weight
        for a in range(K):
            ra = np.int64(ids[i, a])
            part = weight * degrees[i] * np.float64(T[i, a])
            for b in range(a, K):
                rb = np.int64(ids[i, b])
                key = min(ra, rb) * p + max(ra, rb)
                place = place_of(key, keys)
                if keys[place] == FREE:
                    keys[place] = key
                    sums[place] = 0.0
                    n_new += 1
                sums[place] += part * np.float64(T[i, b])
    return n_new


@kernel
def add_table(other_keys, other_sums, keys, sums):
    """Add the entries of another table to a table with enough free places; return the number of new keys."""
    n_new = 0
    for at in range(other_keys.shape[0]):
        if other_keys[at] != FREE:
            place = place_of(other_keys[at], keys)
            if keys[place] == FREE:
                keys[place] = other_keys[at]
                sums[place] = 0.0
                n_new += 1
            sums[place] += other_sums[at]
    return n_new


@kernel
def multiply_rows(indptr, indices, data, X, out, low, high):
    """Compute the rows ``low .. high`` of the product of a CSR matrix with X (p, m), and write them to `out` (p, m)."""
    m = X.shape[1]
    for i in range(low, high):
        row = out[i]
        for c in range(m):
            row[c] = 0
        for at in range(indptr[i], indptr[i + 1]):
            value = data[at]
            other = X[indices[at]]
            for c in range(m):
                row[c] += value * other[c]
