"""PTGP's links on one block: the neighbours that are as near as any of the nearest few."""

from __future__ import annotations

from ultraspec._kernels._jit import kernel


@kernel
def elite_thresholds(similarities, thresholds, counts, best):
    """The K-th largest entry of each row, and how many positive entries are no smaller; `best` (K,) is room."""
    n, width = similarities.shape
    K = best.shape[0]
    for i in range(n):
        row = similarities[i]
        for a in range(K):
            best[a] = -1.0
        for j in range(width):
            value = row[j]
            if value > best[K - 1]:
                a = K - 1
                while a > 0 and best[a - 1] < value:
                    best[a] = best[a - 1]
                    a -= 1
                best[a] = value
        thresholds[i] = best[K - 1]
        count = 0
        for j in range(width):
            count += row[j] > 0 and row[j] >= best[K - 1]
        counts[i] = count


@kernel
def collect_elite(similarities, thresholds, starts, ids, values):
    """Write the entries that `elite_thresholds` counted, from `starts` on, in order of columns."""
    for i in range(similarities.shape[0]):
        at = starts[i]
        row = similarities[i]
        for j in range(row.shape[0]):
            if row[j] > 0 and row[j] >= thresholds[i]:
                ids[at] = j
                values[at] = row[j]
                at += 1
