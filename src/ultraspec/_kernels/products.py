"""The nearest of some points, for rows of more than a handful of features, at the speed of matrix products.

Rows are sorted into groups, and the rows of a group meet the same candidates. A matrix product of some rows, a *tile*,
and the candidates of their group gives half the squared distances, up to rounding: |x|^2 / 2 + (|c|^2 / 2 - x.c).

These only exclude candidates. They are rounded, in a way that depends on the shape of the product, and if rows are
projected (`ultraspec.cluster.distance_bounds`) they are also too short. So the distances to K apparently near
candidates are computed in full. The farthest of them gives a limit (`product_limit`), and every other candidate within
the limit is computed in full, too. The result is that of computing all distances in full, bit for bit, in every block:
the K smallest, where equal distances are in the order of the candidates.

Candidates are dealt out to *lanes*: candidate c is in lane ``c % n_lanes``. The smallest value of a lane and its number
share one integer, its *key*: the K smallest keys are K near candidates, and a lane with a key beyond the limit has no
candidate within. Loops over all lanes are vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel
from ultraspec._kernels.search import product_limit, squared_distance

MOST_ROWS = 512  # rows of a tile
MOST_VALUES = 2**21  # values of a product
SMALL_PRODUCT = 10**6  # multiplications up to which OpenBLAS is fastest: it does not copy the factors
LEAST_SMALL_ROWS = 24  # with fewer rows, a large product is faster
COLUMN_FEATURES = 128  # up to this number, candidates are copied as columns, which makes products faster
LONG_ROWS = 16  # rows of a small product with more features
LANES = 64  # the number of lanes is a multiple of this
EMPTY = np.int32(2**31 - 1)  # larger than the key of any lane


def product_buffers(n: int, d: int, most_candidates: int, K: int) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """Return the number of lanes and the buffers of `search_groups`, for `n` rows and groups of `most_candidates`.

    They are allocated here because allocations inside of kernels take long to compile.
    """
    n_lanes = LANES * -(-4 * K // LANES)  # two of the K nearest are rarely in one of 4 K lanes
    padded = -(-most_candidates // n_lanes) * n_lanes
    n_rows = max(1, min(n, MOST_ROWS, MOST_VALUES // padded))
    shapes = [(n_rows, d), (padded * d,), (padded,), (n_rows * padded,), (n_lanes,), (K,)]
    floats = tuple(np.empty(shape, dtype=np.float32) for shape in shapes)
    integers = tuple(np.empty(shape, dtype=np.int32) for shape in [(n_lanes,), (K,), (K,)])
    return n_lanes, floats, integers


@kernel
def load_rows(X, order, low, n, rows):
    """Copy the rows ``order[low : low + n]`` of X to `rows`."""
    for r in range(n):
        i = order[low + r]
        for j in range(X.shape[1]):
            rows[r, j] = X[i, j]


@kernel
def load_candidates(points, half_norms, candidates, padded, table, halves):
    """Copy the points `candidates` to the rows of `table`, and half their squared lengths to `halves`.

    They are followed by points at an infinite distance, up to `padded`.
    """
    m = candidates.shape[0]
    for c in range(padded):
        point = candidates[min(c, m - 1)]
        for j in range(points.shape[1]):
            table[c, j] = points[point, j]
        halves[c] = half_norms[point] if c < m else np.float32(np.inf)


@kernel
def load_columns(points, half_norms, candidates, padded, table, halves):
    """Copy candidates as `load_candidates` does, but to the columns of `table`."""
    m = candidates.shape[0]
    for c in range(padded):
        point = candidates[min(c, m - 1)]
        for j in range(points.shape[1]):
            table[j, c] = points[point, j]
        halves[c] = half_norms[point] if c < m else np.float32(np.inf)


@reordering_kernel
def lane_minima(products, r, halves, padded, n_lanes, minima):
    """Compute the minima of ``halves - products[r]`` (padded,) in each lane; `padded` is a multiple of `n_lanes`."""
    for s in range(n_lanes):
        minima[s] = halves[s] - products[r, s]
    low = n_lanes
    while low + 3 * n_lanes <= padded:  # three at a time: minima are read and written less often
        b = low + n_lanes
        c = b + n_lanes
        for s in range(n_lanes):
            near = min(halves[b + s] - products[r, b + s], halves[c + s] - products[r, c + s])
            minima[s] = min(min(minima[s], halves[low + s] - products[r, low + s]), near)
        low += 3 * n_lanes
    while low < padded:
        for s in range(n_lanes):
            minima[s] = min(minima[s], halves[low + s] - products[r, low + s])
        low += n_lanes


@kernel
def lane_keys(minima, n_lanes, half_norm, mask, keys):
    """Compute the keys of lanes from their minima, which lack `half_norm`, half the squared length of the row.

    Floats that are not negative have the same order as their bits read as integers. The last bits of the distance,
    `mask`, give way to the number of the lane: keys are distinct, and no larger than the distance.
    """
    for s in range(n_lanes):
        half = max(half_norm + minima[s], np.float32(0.0))
        keys[s] = (np.float32(half).view(np.int32) & ~mask) | np.int32(s)


@reordering_kernel
def next_key(keys, n_lanes, last):
    """Return the smallest key above `last`, or EMPTY."""
    smallest = EMPTY
    for s in range(n_lanes):
        smallest = min(smallest, keys[s] if keys[s] > last else EMPTY)
    return smallest


@kernel
def value_of(key, mask):
    """Return the lower bound of halved squared distances that a key holds; NaN for EMPTY."""
    return np.int32(key & ~mask).view(np.float32)


@kernel
def insert_place(nearest, places, n, value, place):
    """Insert `value` and its `place` into the first `n` entries of `nearest`, ascending; equals are sorted by place.

    Where `nearest` (K,) is full, the largest is dropped. Return the number of entries.
    """
    k = n
    if n == nearest.shape[0]:
        k = n - 1
        if value > nearest[k] or (value == nearest[k] and place > places[k]):
            return n
    while k > 0 and (nearest[k - 1] > value or (nearest[k - 1] == value and places[k - 1] > place)):
        nearest[k] = nearest[k - 1]
        places[k] = places[k - 1]
        k -= 1
    nearest[k] = value
    places[k] = place
    return min(n + 1, nearest.shape[0])


@kernel
def search_tile(
    X, norms, slack, error, order, low, points, candidates, products, halves, n_lanes, mask, minima, nearest, keys,
    picks, places, ids, sq,
):  # fmt: skip
    """Find the K nearest candidates of the rows of a tile, ``order[low:]``.

    products, halves : (n, m) and (m,), inner products, and half the squared lengths of the candidates.
    n_lanes, mask : number of lanes, and the bits of a key that hold the number of a lane.
    minima, nearest, keys, picks, places : buffers.
    """
    K = ids.shape[1]
    n, padded = products.shape
    m = candidates.shape[0]
    for r in range(n):
        i = order[low + r]
        half_norm = np.float32(0.5) * norms[i]  # halves - products lack it
        lane_minima(products, r, halves, padded, n_lanes, minima)
        lane_keys(minima, n_lanes, half_norm, mask, keys)
        last = np.int32(-1)
        largest = np.float32(-np.inf)
        for k in range(K):
            last = next_key(keys, n_lanes, last)
            picks[k] = last & mask
            largest = max(largest, minima[picks[k]])
        # K candidates are up to `largest`; the limit that their distances give is most likely below this guess
        half = max(largest + half_norm, np.float32(0.0))
        guess = np.float32(2.0) * product_limit(np.float32(2.0) * half, norms[i], slack, error) - half
        guess = max(guess - half_norm, largest)
        n_found = 0
        # without a further lane, the comparison is with NaN, and false
        if value_of(next_key(keys, n_lanes, last), mask) <= guess + half_norm:
            for c in range(m):
                if halves[c] - products[r, c] <= guess:
                    s = squared_distance(X[i], points[candidates[c]])
                    n_found = insert_place(nearest, places, n_found, s, c)
        else:
            for k in range(K):
                for c in range(np.int64(picks[k]), m, n_lanes):
                    if halves[c] - products[r, c] <= guess:
                        s = squared_distance(X[i], points[candidates[c]])
                        n_found = insert_place(nearest, places, n_found, s, c)
        limit = product_limit(nearest[K - 1], norms[i], slack, error) - half_norm
        if limit > guess:
            for c in range(m):
                if guess < halves[c] - products[r, c] <= limit:
                    s = squared_distance(X[i], points[candidates[c]])
                    n_found = insert_place(nearest, places, n_found, s, c)
        for k in range(K):
            ids[i, k] = candidates[places[k]]
            sq[i, k] = nearest[k]


@kernel
def search_groups(
    X, projected, norms, slack, error, order, runs, points, projected_points, half_norms, candidates, starts,
    most_lanes, floats, integers, ids, sq,
):  # fmt: skip
    """Find the K nearest of some points for each row: of those that are the candidates of its group.

    X, projected, norms : rows, their projections, and their squared lengths.
    slack, error : bounds of rounding errors, see `product_limit`.
    order, runs : rows of group g are ``order[runs[g] : runs[g + 1]]``, ascending.
    points, projected_points, half_norms : points, their projections, and half the squared lengths of these.
    candidates, starts : candidates of group g are ``candidates[starts[g] : starts[g + 1]]``, at least K of them.
    most_lanes, floats, integers : from `product_buffers`.
    ids, sq : (n, K), results.
    """
    rows, values, halves, products, minima, nearest = floats
    keys, picks, places = integers
    d = projected.shape[1]
    by_columns = d <= COLUMN_FEATURES
    for g in range(runs.shape[0] - 1):
        if runs[g] == runs[g + 1]:
            continue
        mine = candidates[starts[g] : starts[g + 1]]
        m = mine.shape[0]
        step = most_lanes if m > most_lanes else 16  # a whole number of SIMD registers
        padded = -(-m // step) * step
        n_lanes = min(padded, most_lanes)
        mask = np.int32(1)
        while mask < n_lanes:
            mask *= np.int32(2)
        mask -= np.int32(1)
        columns = values[: padded * d].reshape(d, padded)
        table = values[: padded * d].reshape(padded, d)
        if by_columns:
            load_columns(projected_points, half_norms, mine, padded, columns, halves)
        else:
            load_candidates(projected_points, half_norms, mine, padded, table, halves)
        tile = SMALL_PRODUCT // (padded * d)
        if tile < LEAST_SMALL_ROWS:
            tile = rows.shape[0]
        elif not by_columns:
            tile = LONG_ROWS
        tile = min(tile, rows.shape[0])
        for low in range(runs[g], runs[g + 1], tile):
            n = min(tile, runs[g + 1] - low)
            first = order[low]
            part = products[: n * padded].reshape(n, padded)
            adjacent = order[low + n - 1] - first == n - 1
            if not adjacent:
                load_rows(projected, order, low, n, rows)
            left = projected[first : first + n] if adjacent else rows[:n]
            if by_columns:
                np.dot(left, columns, part)
            else:
                np.dot(left, table.T, part)
            search_tile(
                X, norms, slack, error, order, low, points, mine, part, halves, n_lanes, mask, minima, nearest, keys,
                picks, places, ids, sq,
            )  # fmt: skip
