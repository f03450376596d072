"""Votes of rows in many cuts at once: for each row the unit, for each cut the sizes of the clusters.

A unit is a set of representatives that no cut separates. Rows whose representatives are all in one unit have the same
label as that unit in every cut; only the other rows, at a border, vote in each cut.
"""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel


@kernel
def assign_units(ids, T, units, out, at_border):
    """Assign each row to the unit that has most of its weight; a tie goes to the nearer representative.

    ids, T : (n, K), edges of the rows and their transition probabilities.
    units : (p,), unit of each representative.
    out : (n,), int32, result: unit of each row.
    at_border : (n,), bool, result: whether the representatives of a row are in several units.
    """
    n, K = ids.shape
    for i in range(n):
        best = units[ids[i, 0]]
        differ = np.int32(0)
        for a in range(1, K):
            differ |= units[ids[i, a]] ^ best
        at_border[i] = differ != 0
        if differ != 0:
            most = np.float32(-1.0)
            for a in range(K):
                unit = units[ids[i, a]]
                total = np.float32(0.0)
                for b in range(K):
                    if units[ids[i, b]] == unit:
                        total += T[i, b]
                if total > most:
                    most = total
                    best = unit
        out[i] = best


@kernel
def count_votes(ids, T, units, groups, rows, counts, least, least_rows):
    """Count the labels of border rows in each of C cuts, and find the least certain row of each cluster.

    ids, T : (n, K), edges of border rows and their transition probabilities.
    units : (p,), unit of each representative.
    groups : (C, U), cluster of each unit in each cut.
    rows : (n,), int64, numbers of the rows.
    counts : (C, k), int64, number of rows of each cluster, to which these rows are added.
    least : (C, k), float32, smallest share of the weight that decided the label of a row; updated.
    least_rows : (C, k), int64, row with that share; updated.
    """
    n, K = ids.shape
    for i in range(n):
        whole = np.float32(0.0)
        for b in range(K):
            whole += T[i, b]
        for c in range(groups.shape[0]):
            group = groups[c]
            best = group[units[ids[i, 0]]]
            differ = np.int32(0)
            for a in range(1, K):
                differ |= group[units[ids[i, a]]] ^ best
            if differ != 0:
                most = np.float32(-1.0)
                for a in range(K):
                    mine = group[units[ids[i, a]]]
                    total = np.float32(0.0)
                    for b in range(K):
                        if group[units[ids[i, b]]] == mine:
                            total += T[i, b]
                    if total > most:
                        most = total
                        best = mine
                share = most / whole
                if share < least[c, best]:
                    least[c, best] = share
                    least_rows[c, best] = rows[i]
            counts[c, best] += 1


@kernel
def vote_patterns(ids, T, leaves, joined_at, records):
    """Find how rows vote in all cuts of a tree whose leaves are in depth-first order.

    The representatives of a row lie in m leaves. A cut of the tree joins some neighbours among these m: bit j of a mask
    says that leaves j and j + 1 are in one cluster. For each mask that a cut can have, the clusters are voted on.

    ids, T : (n, K), edges of the rows and their transition probabilities.
    leaves : (p,), leaf of each representative.
    joined_at : (L, L), int32, number of the merge that joins two leaves.
    records : (n, 1 + M + 2^(M - 1)), uint8, result. The first entry is m, or 1 if in every cut the row is in the
        cluster of one leaf, or if m > M: then the second entry is this leaf. Otherwise the m leaves follow, and from
        1 + M on, for each mask, which of them is in the cluster of the row.
    """
    n, K = ids.shape
    M = 1
    while records.shape[1] > 1 + M + (1 << (M - 1)):
        M += 1
    mine = np.empty(K, dtype=np.int32)  # the leaves of a row, sorted
    place = np.empty(K, dtype=np.int32)  # of the leaf of each edge among them
    run = np.empty(K, dtype=np.int32)  # first leaf of the cluster that each leaf is in
    for i in range(n):
        m = 0
        for a in range(K):
            leaf = leaves[ids[i, a]]
            at = 0
            while at < m and mine[at] < leaf:
                at += 1
            if at < m and mine[at] == leaf:
                continue
            for b in range(m, at, -1):
                mine[b] = mine[b - 1]
            mine[at] = leaf
            m += 1
        for a in range(K):
            at = 0
            while mine[at] != leaves[ids[i, a]]:
                at += 1
            place[a] = at
        n_masks = 1 << (m - 1) if m <= M else 1
        first = -1  # the winner if no leaves are joined
        regular = True
        for mask in range(n_masks):
            possible = True  # a merge includes all merges below it
            for j in range(m - 1):
                if (mask >> j) & 1:
                    when = joined_at[mine[j], mine[j + 1]]
                    low = j - 1
                    while low >= 0 and joined_at[mine[low], mine[low + 1]] < when:
                        possible &= ((mask >> low) & 1) == 1
                        low -= 1
                    high = j + 1
                    while high < m - 1 and joined_at[mine[high], mine[high + 1]] < when:
                        possible &= ((mask >> high) & 1) == 1
                        high += 1
            winner = first
            if possible:
                for j in range(m):
                    run[j] = run[j - 1] if j > 0 and (mask >> (j - 1)) & 1 else j
                most = np.float32(-1.0)
                for a in range(K):
                    total = np.float32(0.0)
                    for b in range(K):
                        if run[place[b]] == run[place[a]]:
                            total += T[i, b]
                    if total > most:
                        most = total
                        winner = run[place[a]]
                if mask == 0:
                    first = winner
                if run[first] == winner:
                    winner = first
                else:
                    regular = False
            if m <= M:
                records[i, 1 + M + mask] = winner
        if regular or m > M:
            records[i, 0] = 1
            records[i, 1] = mine[first]
            for j in range(2, records.shape[1]):
                records[i, j] = 0
        else:
            records[i, 0] = m
            for j in range(M):
                records[i, 1 + j] = mine[j] if j < m else 0
            for mask in range(n_masks, 1 << (M - 1)):
                records[i, 1 + M + mask] = 0
