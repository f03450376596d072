"""Elite neighbours of PTGP on one block: the neighbours whose similarity reaches the K-th largest, ties included."""

from __future__ import annotations

from ultraspec._kernels._jit import kernel


@kernel
def elite_thresholds(similarities, thresholds, counts, best):
    """Find the K-th largest entry of each row, and count the positive entries that reach it.

    `best` (K,) is a buffer: it holds the K largest entries so far, descending.
    """
    n, width = similarities.shape
    K = best.shape[0]
    for i in range(n):
        row = similarities[i]
        for a in range(K):
            best[a] = -1.0  # below every similarity
        for j in range(width):
            value = row[j]
            if value > best[K - 1]:
                # insertion: smaller entries move down by one, and the last is dropped
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
    """Write the entries that `elite_thresholds` counted as rows of a CSR matrix, from `starts` on, by column."""
    for i in range(similarities.shape[0]):
        position = starts[i]
        row = similarities[i]
        for j in range(row.shape[0]):
            if row[j] > 0 and row[j] >= thresholds[i]:
                ids[position] = j
                values[position] = row[j]
                position += 1
