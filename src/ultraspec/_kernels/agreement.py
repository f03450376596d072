"""Clusters of representatives: rough k-means, co-association of representatives, and votes of rows."""

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.kmeans import nearest_product


@kernel
def assign_rough(X, weights, products, bits, half_norms, labels, sums, counts):
    """Assign unit rows to the nearest centre, and add them to the weighted sum and the weight of its cluster.

    X : (n, d), rows of unit length.
    weights : (n,), weights of the rows.
    products, bits : (n, k), inner products of rows and centres, and a view of them as int32; both are overwritten, see
        `nearest_product`.
    half_norms : (k,), half the squared lengths of the centres.
    labels : (n,), result.
    sums, counts : (k, d) and (k,), results, to which this block is added.
    """
    for i in range(X.shape[0]):
        label = nearest_product(products[i], bits[i], half_norms, np.float32(0.5))  # |x|^2 / 2 of a unit row
        labels[i] = label
        weight = weights[i]
        counts[label] += weight
        total = sums[label]
        for j in range(X.shape[1]):
            total[j] += weight * X[i, j]


@kernel
def add_agreement(order, bounds, shares, C):
    """Add ``shares[g]`` to C[a, b] for all pairs a, b of each cluster g.

    order : (p,), points sorted by cluster; those of cluster g are ``order[bounds[g]:bounds[g + 1]]``.
    C : (p, p), the co-association matrix, to which this clustering is added.

    The points of a cluster are visited row by row: each row of C is in cache while its entries are added to.
    """
    for g in range(shares.shape[0]):
        share = shares[g]
        for a in range(bounds[g], bounds[g + 1]):
            row = C[order[a]]
            for b in range(bounds[g], bounds[g + 1]):
                row[order[b]] += share


@kernel
def vote(ids, T, groups, labels):
    """Label each row with the cluster that has most of its weight; a tie goes to the nearer representative.

    ids, T : (n, K), edges of the rows and their transition probabilities.
    groups : (p,), cluster of each representative.
    labels : (n,), result.

    The representatives of most rows are all in one cluster, which is tested first, without branches. Other rows need
    the sum of the weights in each cluster. K is small, so each sum is computed by a loop over all edges.
    """
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
def vote_shares(ids, T, groups, labels, out):
    """Compute the share of each cluster in the weight of each row.

    ids, T : (n, K), edges of the rows and their transition probabilities.
    groups : (p,), cluster of each representative.
    labels : (n,), clusters that `vote` gives: of equal shares, theirs is made the largest.
    out : (n, k), result, zeros at first.
    """
    n, K = ids.shape
    for i in range(n):
        for a in range(K):
            out[i, groups[ids[i, a]]] += T[i, a]
        share = out[i, labels[i]]
        for c in range(out.shape[1]):
            if c != labels[i] and out[i, c] >= share:
                out[i, c] = np.nextafter(share, np.float32(0.0))


@kernel
def vote_trust(ids, T, groups, trust, labels, out):
    """Compute the trust in the label of each row: that in its representatives, if they have the same label, or zero.

    ids, T : (n, K), edges of the rows and their transition probabilities.
    groups, trust : (p,), cluster of each representative, and the trust in it.
    labels : (n,), clusters of the rows.
    out : (n,), result: the mean over the edges.
    """
    n, K = ids.shape
    for i in range(n):
        total = np.float32(0.0)
        for a in range(K):
            r = ids[i, a]
            if groups[r] == labels[i]:
                total += T[i, a] * trust[r]
        out[i] = min(total, np.float32(1.0))


@kernel
def relative_distances(ids, sq, spreads, out):
    """Compare the distance of each row to its representatives with the distances between those.

    ids, sq : (n, K), the nearest representatives of the rows, and squared distances.
    spreads : (p,), mean distance of each representative to others near it.
    out : (n,), result: the mean distance, without the nearest representative, over the mean of their spreads, without
        the largest. A representative may lie on an outlier: it is left out of both.
    """
    n, K = ids.shape
    for i in range(n):
        total = np.float64(0.0)
        spread = np.float64(0.0)
        largest = np.float64(0.0)
        for a in range(K):
            if a > 0 or K == 1:
                total += np.sqrt(np.float64(sq[i, a]))
            each = np.float64(spreads[ids[i, a]])
            spread += each
            largest = max(largest, each)
        if K > 1:
            spread -= largest
        out[i] = total / max(spread, 1e-300)


@kernel
def join_patterns(patterns, kept, others, joined):
    """Assign label patterns to the kept pattern with most labels in common, the first of equal ones.

    patterns : (p, m), a label in each of m clusterings. kept, others : indices of patterns.
    joined : (len(others),), result: position in `kept`.
    """
    m = patterns.shape[1]
    for x in range(others.shape[0]):
        pattern = patterns[others[x]]
        most = -1
        for y in range(kept.shape[0]):
            other = patterns[kept[y]]
            common = 0
            for r in range(m):
                common += np.int64(pattern[r] == other[r])
            if common > most:
                most = common
                joined[x] = y
