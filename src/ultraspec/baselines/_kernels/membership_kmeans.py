"""k-means on rows of the membership matrix: a row is given by its base cluster in each clustering, its `columns`."""

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel


@reordering_kernel
def assign_memberships(columns, scales, table, base, constants, totals, labels, sq):
    """Assign each row to the cluster of least cost; return how many labels changed.

    The cost of a row in cluster c is ``constant + base[c] + scale * sum of table[column, c]`` over its `columns`
    (n, m), where a column of -1 counts nothing. `scales` and `constants` have one entry for all rows, or one for each.
    Clusters that pad `table` to full SIMD lanes have an infinite `base`. `totals` is a buffer for the costs of a row.
    Labels and costs are written; costs that rounding makes negative are set to zero.
    """
    k = table.shape[1]
    scale_stride = np.int64(scales.shape[0] > 1)
    constant_stride = np.int64(constants.shape[0] > 1)
    changed = 0
    for i in range(columns.shape[0]):
        for c in range(k):
            totals[c] = 0
        # the sum over clusterings is the outer loop, so that the inner loop over clusters is vectorised
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
        label = np.int32(0)
        while label < k - 1 and totals[label] != smallest:
            label += np.int32(1)
        # the constant does not depend on the cluster, so it is added at the end
        sq[i] = max(constants[constant_stride * i] + smallest, np.float32(0.0))
        changed += labels[i] != label
        labels[i] = label
    return changed


@kernel
def add_memberships(columns, weights, labels, sums):
    """Add the weight of each row to the sum (k, k_c) of its cluster, in each of its columns."""
    for i in range(columns.shape[0]):
        total = sums[labels[i]]
        for a in range(columns.shape[1]):
            if columns[i, a] >= 0:
                total[columns[i, a]] += weights[i]
