"""Random walks of PTGP: one step of many walks at a time."""

from __future__ import annotations

from ultraspec._kernels._jit import kernel


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
