"""Kernels of PTGP: elite neighbours, whose similarity reaches the K-th largest, ties included; and random walks."""

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


@kernel
def take_step(indptr, indices, data, walks, low, high, out, squares):
    """Multiply a sparse matrix (M, M) by the probabilities `walks` (M, w) of w walks; write the product to `out`.

    Rows of `walks` outside of `low`:`high` are zero, and the indices of the matrix are sorted. The squares of the
    product are added to `squares` (w,). Returns the range of rows outside of which the product is zero.
    """
    n, width = walks.shape
    first = n
    last = 0
    for i in range(n):
        row = out[i]
        for c in range(width):
            row[c] = 0
        a = indptr[i]
        end = indptr[i + 1]
        # no entry of this row meets a nonzero row of the walks
        if a == end or indices[a] >= high or indices[end - 1] < low:
            continue
        first = min(first, i)
        last = i + 1
        # four entries are added at once, so that the row is read and written a quarter as often
        while a + 4 <= end:
            v, x, y, z = data[a], data[a + 1], data[a + 2], data[a + 3]
            from_v, from_x = walks[indices[a]], walks[indices[a + 1]]
            from_y, from_z = walks[indices[a + 2]], walks[indices[a + 3]]
            for c in range(width):
                row[c] += (v * from_v[c] + x * from_x[c]) + (y * from_y[c] + z * from_z[c])
            a += 4
        for b in range(a, end):
            v = data[b]
            from_v = walks[indices[b]]
            for c in range(width):
                row[c] += v * from_v[c]
        for c in range(width):
            squares[c] += row[c] * row[c]
    return first, last
