"""PTGP's random walks: one step of many at a time."""

from __future__ import annotations

from ultraspec._kernels._jit import kernel


@kernel
def take_step(indptr, indices, data, walks, low, high, out, squares):
    """Multiply a sparse matrix (M, M), indices in order, by `walks` (M, w), whose rows outside `low`:`high` are zero.

    Adds the squares of the result to `squares` (w,), and returns between which rows it may be other than zero. Four
    entries at a time are added to a row, which is thus read and written a quarter as often.
    """
    n, width = walks.shape
    first, last = n, 0
    for i in range(n):
        row = out[i]
        for c in range(width):
            row[c] = 0
        a, end = indptr[i], indptr[i + 1]
        if a == end or indices[a] >= high or indices[end - 1] < low:
            continue
        first = min(first, i)
        last = i + 1
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
