"""Agglomerative clustering of a square matrix of distances: nearest-neighbour chains."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import reordering_kernel

AVERAGE, SINGLE, COMPLETE = range(3)


@reordering_kernel
def chain_linkage(D, sizes, method, pairs, heights):
    """Merge the rows of `D` (p, p), p >= 2, of which each stands for `sizes` objects, until one is left.

    Writes the two rows of each merge to `pairs` (p - 1, 2), the lower of which then stands for both, and its distance
    to `heights`: in order of discovery, in which a merge comes after those below it and is never lower than they are.
    `D` and `sizes` are overwritten.

    A chain of ever nearer neighbours ends in two that are each other's nearest; these may be merged at once, whatever
    the rest. Other rows learn of a merge when they are looked at next: they replay what they missed within their own
    row, so that no column is ever walked. Time O(p^2).
    """
    p = D.shape[0]
    gone = np.zeros(p, D.dtype)  # infinite for rows that are merged into another
    shares = np.empty((p, 2))  # of the two rows in each merge
    seen = np.zeros(p, np.int64)  # merges that a row knows of
    low = np.full(p, -np.inf)  # height of the row's last merge
    chain = np.empty(p, np.int64)
    chained = np.zeros(p, np.bool_)
    links = np.empty(p)  # links[i]: distance between the chain's members i - 1 and i
    for i in range(p):
        D[i, i] = np.inf
    length = 0
    start = 0
    t = 0
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
        # D[x, y] and D[y, x] may differ by rounding: what is on the chain is never taken for nearer.
        if not chained[y] and D[x, y] < links[length - 1]:
            links[length] = D[x, y]
            chain[length] = y
            chained[y] = True
            length += 1
            continue
        y = chain[length - 2]  # as near as any: the pair is merged
        replay(D[y], pairs, shares, seen[y], t, method)
        height = max(links[length - 1], max(low[x], low[y]))
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
    """The first of the smallest entries that are not gone; a minimum of floats needs reordering to be fast."""
    smallest = row[0] + gone[0]
    for c in range(row.shape[0]):
        smallest = min(smallest, row[c] + gone[c])
    for c in range(row.shape[0]):
        if row[c] + gone[c] == smallest:
            return c
    return 0


@reordering_kernel
def join(a, b, share_a, share_b, method):
    """Distance of a third row to two that are merged."""
    if method == AVERAGE:
        return share_a * a + share_b * b
    if method == SINGLE:
        return min(a, b)
    return max(a, b)


@reordering_kernel
def replay(row, pairs, shares, start, stop, method):
    """Bring one row up to date with merges of others."""
    for t in range(start, stop):
        x = pairs[t, 0]
        row[x] = join(np.float64(row[x]), np.float64(row[pairs[t, 1]]), shares[t, 0], shares[t, 1], method)


@reordering_kernel
def join_rows(row, other, share, other_share, method):
    """Distances of a merged pair to all others, written to the row of the first."""
    for c in range(row.shape[0]):
        row[c] = join(np.float64(row[c]), np.float64(other[c]), share, other_share, method)
