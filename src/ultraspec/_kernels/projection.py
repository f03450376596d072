"""Projections of rows on principal components.

A matrix product by BLAS may round a row differently in blocks of different sizes. These kernels sum the features of a
row in their order, so that the projection of a row is the same in every block: `predict` relies on it.
"""

from ultraspec._kernels._jit import kernel

ROWS = 4  # rows that share the reading of a direction


@kernel
def project_rows(X, basis, out):
    """Compute ``X @ basis``: each row is a sum of directions, weighted by its features.

    X : (n, d). basis : (d, q), directions as columns. out : (n, q), float32, result.

    SIMD lanes run along the q components. Four rows are summed together, which reads each direction once for all four;
    every row still has its own sum, in the order of the features.
    """
    n, d = X.shape
    q = basis.shape[1]
    for low in range(0, n, ROWS):
        high = min(n, low + ROWS)
        for i in range(low, high):
            for c in range(q):
                out[i, c] = 0
        if high - low == ROWS:
            first = out[low]
            second = out[low + 1]
            third = out[low + 2]
            fourth = out[low + 3]
            for j in range(d):
                direction = basis[j]
                a = X[low, j]
                b = X[low + 1, j]
                e = X[low + 2, j]
                f = X[low + 3, j]
                for c in range(q):
                    value = direction[c]
                    first[c] += a * value
                    second[c] += b * value
                    third[c] += e * value
                    fourth[c] += f * value
        else:
            for i in range(low, high):
                row = out[i]
                for j in range(d):
                    value = X[i, j]
                    for c in range(q):
                        row[c] += value * basis[j, c]


@kernel
def project_sparse_rows(indptr, indices, data, basis, out):
    """Compute the product of CSR rows with `basis` (d, q); out : (n, q), float32, result."""
    for i in range(out.shape[0]):
        row = out[i]
        for c in range(row.shape[0]):
            row[c] = 0
        for at in range(indptr[i], indptr[i + 1]):
            direction = basis[indices[at]]
            value = data[at]
            for c in range(row.shape[0]):
                row[c] += value * direction[c]
