"""Rows against rows on two blocks: the nearest other rows of each row."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel
from ultraspec._kernels.search import insert_sorted, product_limit, squared_distance

RUN = 64  # scores that are looked at together


@reordering_kernel
def least_score(products, half_norms, low, high):
    """Smallest of ``half_norms - products`` in a range."""
    least = np.float32(np.inf)
    for r in range(low, high):
        least = min(least, half_norms[r] - products[r])
    return least


@kernel
def nearest_rows(X, first_x, R, first_r, products, half_norms, norms, slack, error, ids, sq):
    """Update the K nearest rows of each row of X by those among R, from inner products of their projected.

    X and R are blocks of the same rows, from the rows `first_x` and `first_r` on; a row is no neighbour of itself.
    `ids` (n, K) and `sq` (n, K) hold what other blocks gave, nearest first, infinitely far at first. Every row that the
    rounded products leave a chance is measured in full, see `search_products`. Of equally near rows the first is taken,
    if blocks come in order.
    """
    n, K = ids.shape
    m = half_norms.shape[0]
    for i in range(n):
        half = np.float32(0.5) * norms[i]
        limit = product_limit(sq[i, K - 1], norms[i], slack, error) - half
        for low in range(0, m, RUN):
            high = min(low + RUN, m)
            if least_score(products[i], half_norms, low, high) > limit:
                continue
            for r in range(low, high):
                if half_norms[r] - products[i, r] <= limit and first_r + r != first_x + i:
                    s = squared_distance(X[i], R[r])
                    if s < sq[i, K - 1]:
                        insert_sorted(sq[i], ids[i], s, np.int32(first_r + r))
                        limit = product_limit(sq[i, K - 1], norms[i], slack, error) - half
