"""Clusters of representatives: rough k-means, co-association of representatives, and votes of rows."""

import numpy as np

from ultraspec._kernels._jit import kernel
from ultraspec._kernels.kmeans import nearest_product


@kernel
def rough_step(X, weights, products, bits, half_norms, labels, sums, counts, centers):
    """Assign unit rows to the nearest centre, and move centres to the means; return how many labels changed.

    X : (n, d), rows of unit length.
    weights : (n,), weights of the rows.
    products, bits : (n, k), inner products of rows and centres, and a view of them as int32; both are overwritten, see
        `nearest_product`.
    half_norms : (k,), half the squared lengths of the centres.
    labels : (n,), updated.
    sums, counts : (k, d) and (k,), buffers.
    centers : (k, d), updated if a label changed; a centre that has no rows stays.
    """
    n, d = X.shape
    k = centers.shape[0]
    for c in range(k):
        counts[c] = np.float32(0.0)
        for j in range(d):
            sums[c, j] = np.float32(0.0)
    changed = 0
    for i in range(n):
        label = nearest_product(products[i], bits[i], half_norms, np.float32(0.5))  # |x|^2 / 2 of a unit row
        changed += np.int64(labels[i] != label)
        labels[i] = label
        weight = weights[i]
        counts[label] += weight
        total = sums[label]
        for j in range(d):
            total[j] += weight * X[i, j]
    if changed > 0:
        for c in range(k):
            if counts[c] > np.float32(0.0):
                for j in range(d):
                    centers[c, j] = sums[c, j] / counts[c]
    return changed


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
def clear_distances(lists, reach, groups, clear):
    """Find how far around each representative all others belong to its own cluster.

    lists, reach : (p, L), neighbours of each representative, nearest first, and their distances to it.
    groups : (p,), cluster of each representative.
    clear : (p,), float32, result: the distance of the nearest listed one in another cluster; infinity without any.
    """
    for r in range(lists.shape[0]):
        clear[r] = np.inf
        for c in range(lists.shape[1]):
            if groups[lists[r, c]] != groups[r]:
                clear[r] = reach[r, c]
                break


@kernel
def label_clear_rows(owners, sq_owner, near, clear, groups, labels):
    """Label the rows whose K representatives must all be in one cluster; label the others -1.

    owners, sq_owner : (n,), a representative near each row, and the squared distance to it.
    near : (p,), distance of each representative to the K-th of its list, itself being the first.
    clear : (p,), from `clear_distances`.
    groups : (p,), cluster of each representative.
    labels : (n,), result.

    A row at distance t of its owner has K representatives within t + near, so its K nearest are at most 2 t + near from
    the owner. The factor covers the rounding errors of float32 distances, and of squares that vanish.
    """
    for i in range(owners.shape[0]):
        r = owners[i]
        reach = np.float32(1.001) * (np.float32(2.0) * np.sqrt(sq_owner[i]) + near[r]) + np.float32(1e-15)
        labels[i] = groups[r] if reach < clear[r] else np.int32(-1)


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
def mean_distances(sq, out):
    """Compute the mean distance of each row to its representatives, without the nearest one, if there are others.

    sq : (n, K), squared distances. out : (n,), result. The nearest is left out because it may lie on an outlier.
    """
    n, K = sq.shape
    first = min(1, K - 1)
    for i in range(n):
        total = np.float64(0.0)
        for a in range(first, K):
            total += np.sqrt(np.float64(sq[i, a]))
        out[i] = total / (K - first)


@kernel
def outlier_scores(ids, distances, usual, out):
    """Compare mean distances of rows with what is usual for their representatives.

    ids : (n, K), the nearest representatives. distances : (n,), from `mean_distances`.
    usual : (p,), usual distance at each representative.
    out : (n,), result: 1 - 1 / r, where r is the distance over the mean of the usual ones, or 0 if r is below one.
    """
    n, K = ids.shape
    for i in range(n):
        total = np.float64(0.0)
        for a in range(K):
            total += usual[ids[i, a]]
        ratio = distances[i] * K / total
        out[i] = 1.0 - 1.0 / max(ratio, 1.0)


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


@kernel
def join_small_clusters(labels, k, least):
    """Join clusters of fewer than `least` rows to the largest one, and return the number of clusters that are left.

    labels : (n,), clusters 0 .. k - 1; updated.
    """
    sizes = np.zeros(k, np.int64)
    for label in labels:
        sizes[label] += 1
    largest = np.argmax(sizes)
    left = 0
    for c in range(k):
        left += np.int64(sizes[c] >= least or c == largest)
    for i in range(labels.shape[0]):
        if sizes[labels[i]] < least:
            labels[i] = largest
    return left


@kernel
def likeness(labels, others, k, m):
    """Compute how alike two clusterings are: the adjusted Rand index times the mean Jaccard index of best matches.

    labels, others : (n,), clusters 0 .. k - 1 and 0 .. m - 1, some of which may have no rows.
    """
    n = labels.shape[0]
    table = np.zeros((k, m), np.int64)
    sizes = np.zeros(k, np.int64)
    other_sizes = np.zeros(m, np.int64)
    for i in range(n):
        table[labels[i], others[i]] += 1
        sizes[labels[i]] += 1
        other_sizes[others[i]] += 1
    best = np.zeros(k)
    other_best = np.zeros(m)
    together = 0.0
    for a in range(k):
        for b in range(m):
            common = table[a, b]
            if common > 0:
                together += common * (common - 1.0)
                jaccard = common / (sizes[a] + other_sizes[b] - common)
                best[a] = max(best[a], jaccard)
                other_best[b] = max(other_best[b], jaccard)
    pairs = (sizes * (sizes - 1.0)).sum()
    other_pairs = (other_sizes * (other_sizes - 1.0)).sum()
    by_chance = pairs * other_pairs / max(n * (n - 1.0), 1.0)
    scale = (pairs + other_pairs) / 2 - by_chance
    if scale <= 0.0:  # a single cluster, or only single rows, tell nothing
        return 0.0
    mean = best.sum() / np.count_nonzero(sizes) + other_best.sum() / np.count_nonzero(other_sizes)
    return (together - by_chance) / scale * mean / 2
