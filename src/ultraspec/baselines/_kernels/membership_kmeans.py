"""k-means on rows of base clusters: each row has one in every base clustering and is a vector of as many ones."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel


@reordering_kernel
def assign_memberships(columns, scales, table, base, own, totals, labels, sq):
    """The cluster c of least cost ``own + base[c] + scale * sum of table[column, c]`` over each row's `columns` (n, m).

    A column of -1 is none. `scales` and `own` have one entry for all rows or one for each; clusters that pad `table` to
    full lanes have an infinite `base`. `totals` is room for as many costs. Writes labels and costs, which rounding must
    not make negative; returns how many labels changed.
    """
    k = table.shape[1]
    scale_stride, own_stride = np.int64(scales.shape[0] > 1), np.int64(own.shape[0] > 1)
    changed = 0
    for i in range(columns.shape[0]):
        for c in range(k):
            totals[c] = 0
        for a in range(columns.shape[1]):
            if columns[i, a] >= 0:
                part = table[columns[i, a]]
                for c in range(k):
                    totals[c] += part[c]
        scale = scales[scale_stride * i]
        smallest = np.float32(np.inf)
        for c in range(k):
            totals[c] = base[c] + scale * totals[c]
            smallest = min(smallest, totals[c])
        at = np.int32(0)
        while at < k - 1 and totals[at] != smallest:
            at += np.int32(1)
        sq[i] = max(own[own_stride * i] + smallest, np.float32(0.0))
        changed += labels[i] != at
        labels[i] = at
    return changed


@kernel
def add_memberships(columns, weights, labels, sums):
    """Add each row's weight to its cluster's sum (k, k_c) at its columns."""
    for i in range(columns.shape[0]):
        total = sums[labels[i]]
        for a in range(columns.shape[1]):
            if columns[i, a] >= 0:
                total[columns[i, a]] += weights[i]
