"""Nearest rows of each row, by comparing two blocks of the same rows."""

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel
from ultraspec._kernels.search import insert_sorted, product_limit, squared_distance

RUN = 64  # scores whose minimum is taken at once


@reordering_kernel
def least_score(products, half_norms, low, high):
    """Return the smallest of ``half_norms - products`` in a range."""
    least = np.float32(np.inf)
    for r in range(low, high):
        least = min(least, half_norms[r] - products[r])
    return least


@kernel
def nearest_rows(X, first_x, R, first_r, products, half_norms, norms, slack, error, ids, sq):
    """Update the K nearest rows of each row of X by the rows R, from inner products of projected rows.

    X and R are blocks of the same rows, which start at the rows `first_x` and `first_r`; a row is not a neighbour of
    itself. `ids` (n, K) and `sq` (n, K) hold the nearest rows of previous blocks, nearest first, and infinite distances
    at first. Of equally near rows the first is taken, if blocks are in order.

    A score |r|^2 / 2 - x.r orders the rows r by their distance to x, but products of projections are only approximate:
    the distance is computed for every row whose score does not exceed the limit that the K-th distance so far sets,
    with allowances for the projection (`slack`) and for rounding (`error`), see `product_limit`.
    """
    n, K = ids.shape
    m = half_norms.shape[0]
    for i in range(n):
        half = np.float32(0.5) * norms[i]
        limit = product_limit(sq[i, K - 1], norms[i], slack, error) - half
        for low in range(0, m, RUN):
            high = min(low + RUN, m)
            # most runs have no candidate, and their minimum is found without a branch per row
            if least_score(products[i], half_norms, low, high) > limit:
                continue
            for r in range(low, high):
                if half_norms[r] - products[i, r] <= limit and first_r + r != first_x + i:
                    s = squared_distance(X[i], R[r])
                    if s < sq[i, K - 1]:
                        insert_sorted(sq[i], ids[i], s, np.int32(first_r + r))
                        limit = product_limit(sq[i, K - 1], norms[i], slack, error) - half
