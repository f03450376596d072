"""Agglomerative clustering of a square matrix of distances, by chains of nearest neighbours."""

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel

AVERAGE, SINGLE, COMPLETE = range(3)


@reordering_kernel
def chain_linkage(D, sizes, method, pairs, heights):
    """Merge the two nearest clusters until one is left, in O(p^2) time.

    D : (p, p), p >= 2, symmetric distances; overwritten.
    sizes : (p,), number of objects that each row stands for; overwritten.
    method : AVERAGE, SINGLE or COMPLETE.
    pairs : (p - 1, 2), result: the two rows of each merge; the lower of the two then stands for both.
    heights : (p - 1,), result: the distance of each merge.

    Merges are written in the order in which they are computed: after all merges of the clusters that they join, and
    never lower than these.

    A chain starts at any cluster and goes on to the nearest neighbour of its last cluster. Its links get shorter and
    shorter, so it ends in two clusters that are nearest neighbours of each other. For these three methods, no other
    merge can bring a third cluster nearer to them, so they can be merged at once, whatever the rest of the tree is.

    A merge changes one row of D, and would change a column, which is slow to access. Instead, all other rows apply a
    merge to their own entries when they are read next, see `replay`.
    """
    p = D.shape[0]
    gone = np.zeros(p, D.dtype)  # infinity for rows that were merged into another
    shares = np.empty((p, 2))  # share of each of the two rows in the objects of a merge
    seen = np.zeros(p, np.int64)  # number of merges that a row has applied
    low = np.full(p, -np.inf)  # height of the last merge of a row
    chain = np.empty(p, np.int64)
    chained = np.zeros(p, np.bool_)  # whether a row is on the chain
    links = np.empty(p)  # links[i] is the distance between chain[i - 1] and chain[i]
    for i in range(p):
        D[i, i] = np.inf
    length = 0  # of the chain
    start = 0  # all rows before this one are gone
    t = 0  # number of merges
    while t < p - 1:
        if length == 0:
            while gone[start] > 0:
                start += 1
            chain[0] = start
            chained[start] = True
            links[0] = np.inf
            length = 1
        x = chain[length - 1]
        replay(D[x], pairs, shares, seen[x], t, method)
        seen[x] = t
        y = nearest(D[x], gone)
        # D[x, y] and D[y, x] may differ by rounding. A row that is on the chain is never taken as a nearer one, or the
        # chain could go round in circles.
        if not chained[y] and D[x, y] < links[length - 1]:
            links[length] = D[x, y]
            chain[length] = y
            chained[y] = True
            length += 1
            continue
        # no row is nearer to x than the one before it on the chain: merge the two
        y = chain[length - 2]
        replay(D[y], pairs, shares, seen[y], t, method)
        height = max(links[length - 1], max(low[x], low[y]))  # rounding must not make a merge lower than those below
        length -= 2
        chained[x] = False
        chained[y] = False
        if y < x:
            x, y = y, x
        total = sizes[x] + sizes[y]
        shares[t, 0] = sizes[x] / total
        shares[t, 1] = sizes[y] / total
        join_rows(D[x], D[y], shares[t, 0], shares[t, 1], method)
        D[x, x] = np.inf
        gone[y] = np.inf
        sizes[x] = total
        pairs[t, 0] = x
        pairs[t, 1] = y
        heights[t] = height
        low[x] = height
        t += 1
        seen[x] = t


@reordering_kernel
def nearest(row, gone):
    """Return the index of the smallest entry of ``row + gone``, the first of equal ones.

    LLVM vectorises a minimum of floats only if it may reorder it. The index is searched for in a second loop.
    """
    smallest = row[0] + gone[0]
    for c in range(row.shape[0]):
        smallest = min(smallest, row[c] + gone[c])
    for c in range(row.shape[0]):
        if row[c] + gone[c] == smallest:
            return c
    return 0


@reordering_kernel
def join(a, b, share_a, share_b, method):
    """Return the distance of a cluster to two merged ones, at distances `a` and `b` (Lance-Williams formula)."""
    if method == AVERAGE:
        return share_a * a + share_b * b
    if method == SINGLE:
        return min(a, b)
    return max(a, b)


@reordering_kernel
def replay(row, pairs, shares, start, stop, method):
    """Apply the merges ``start .. stop`` of other rows to one row of distances."""
    for t in range(start, stop):
        x = pairs[t, 0]
        row[x] = join(np.float64(row[x]), np.float64(row[pairs[t, 1]]), shares[t, 0], shares[t, 1], method)


@reordering_kernel
def join_rows(row, other, share, other_share, method):
    """Compute the distances of two merged rows to all others, in place of the distances of the first."""
    for c in range(row.shape[0]):
        row[c] = join(np.float64(row[c]), np.float64(other[c]), share, other_share, method)


# Merges that look at the edges between two clusters as well: not reducible, so every cluster knows its most similar one

LINKED, BORDER = range(2)


@kernel
def similarity_of(mean, link, mass, other_mass, volume, other_volume, method):
    """Return the similarity of two clusters.

    mean : mean co-association of their objects.
    link : affinity between them.
    mass, other_mass : their sizes. volume, other_volume : their degrees.
    method : LINKED weights the mean by the root of the share of the smaller volume that goes to the other. BORDER
        weights it by that share itself, and favours merges with large clusters.
    """
    share = link / min(volume, other_volume)
    if method == LINKED:
        return mean * np.sqrt(share)
    return mean * np.sqrt(np.sqrt(max(mass, other_mass))) * share


@kernel
def merge_linked(means, links, masses, volumes, method, merges, heights):
    """Merge the two most similar clusters until one is left, in about O(g^2) time.

    means : (g, g), mean co-association; overwritten. links : (g, g), affinity between clusters; overwritten.
    masses, volumes : (g,), sizes and degrees; overwritten.
    method : LINKED or BORDER.
    merges : (g - 1, 2), result: the two nodes of each merge, as in SciPy.
    heights : (g - 1,), result: their similarity, which need not descend.
    """
    g = masses.shape[0]
    alive = np.ones(g, np.bool_)
    nodes = np.arange(g)
    similarity = np.full((g, g), -1.0)
    nearest_ones = np.zeros(g, np.int64)
    best = np.full(g, -1.0)
    for a in range(g):
        for b in range(g):
            if a != b:
                similarity[a, b] = similarity_of(
                    means[a, b], links[a, b], masses[a], masses[b], volumes[a], volumes[b], method
                )
                if similarity[a, b] > best[a]:
                    best[a] = similarity[a, b]
                    nearest_ones[a] = b
    for t in range(g - 1):
        a = -1
        most = -2.0
        for c in range(g):
            if alive[c] and best[c] > most:
                most = best[c]
                a = c
        b = nearest_ones[a]
        merges[t, 0] = min(nodes[a], nodes[b])
        merges[t, 1] = max(nodes[a], nodes[b])
        heights[t] = most
        nodes[a] = g + t
        alive[b] = False
        mass = masses[a] + masses[b]
        best[a] = -1.0
        for c in range(g):
            if alive[c] and c != a:
                mean = (masses[a] * means[a, c] + masses[b] * means[b, c]) / mass
                means[a, c] = mean
                means[c, a] = mean
                links[a, c] += links[b, c]
                links[c, a] = links[a, c]
                s = similarity_of(mean, links[a, c], mass, masses[c], volumes[a] + volumes[b], volumes[c], method)
                similarity[a, c] = s
                similarity[c, a] = s
                if s > best[a]:
                    best[a] = s
                    nearest_ones[a] = c
        masses[a] = mass
        volumes[a] += volumes[b]
        for c in range(g):
            if alive[c] and c != a:
                if nearest_ones[c] == a or nearest_ones[c] == b:
                    best[c] = -1.0
                    for x in range(g):
                        if alive[x] and x != c and similarity[c, x] > best[c]:
                            best[c] = similarity[c, x]
                            nearest_ones[c] = x
                elif similarity[c, a] > best[c]:
                    best[c] = similarity[c, a]
                    nearest_ones[c] = a


@kernel
def cut_tree(merges, labels, roots):
    """Label the leaves of a tree when k clusters are left, in order of their first leaves.

    merges : (p - 1, 2), the two nodes of each merge; merge t makes node p + t.
    labels : (p,), result.
    roots : (k,), result: the node that each cluster is.
    """
    p = labels.shape[0]
    n_nodes = 2 * p - roots.shape[0]
    root = np.arange(n_nodes)
    for t in range(n_nodes - p - 1, -1, -1):
        root[merges[t, 0]] = root[p + t]
        root[merges[t, 1]] = root[p + t]
    numbers = np.full(n_nodes, -1, np.int32)
    found = 0
    for i in range(p):
        r = root[i]
        if numbers[r] < 0:
            numbers[r] = found
            roots[found] = r
            found += 1
        labels[i] = numbers[r]
