"""Forces between the nodes of a graph that is laid out in the plane, as in t-SNE."""

import numpy as np

from ultraspec._kernels._jit import reordering_kernel

ONE = np.float32(1.0)  # the integer would make float64 of float32


@reordering_kernel
def attract(indptr, indices, data, x, y, pull_x, pull_y):
    """Compute the attraction of each node: the sum over its edges of w_ij (y_i - y_j) / (1 + |y_i - y_j|^2).

    indptr, indices, data : edges as CSR arrays. x, y : (n,), coordinates. pull_x, pull_y : (n,), results.
    """
    for i in range(x.shape[0]):
        sum_x = np.float32(0.0)
        sum_y = sum_x
        for e in range(indptr[i], indptr[i + 1]):
            dx = x[i] - x[indices[e]]
            dy = y[i] - y[indices[e]]
            weight = data[e] / (ONE + dx * dx + dy * dy)
            sum_x += weight * dx
            sum_y += weight * dy
        pull_x[i] = sum_x
        pull_y[i] = sum_y


@reordering_kernel
def repel(x, y, push_x, push_y):
    """Compute the repulsion of each node, the sum over all nodes of (y_i - y_j) q_ij^2, and return the sum of all q.

    q_ij = 1 / (1 + |y_i - y_j|^2). x, y : (n,), coordinates. push_x, push_y : (n,), results.
    """
    n = x.shape[0]
    every = 0.0
    for i in range(n):
        total = np.float32(0.0)
        sum_x = total
        sum_y = total
        for j in range(n):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            q = ONE / (ONE + dx * dx + dy * dy)
            total += q
            sum_x += q * q * dx
            sum_y += q * q * dy
        push_x[i] = sum_x
        push_y[i] = sum_y
        every += total
    return every
