"""The nearest of some points, for rows of more than a handful of features, at the speed of matrix products.

Rows are sorted into groups, and the rows of a group meet the same candidates. A matrix product of the candidates and
some rows, a *tile*, gives half the squared distances, up to rounding: |x|^2 / 2 + (|c|^2 / 2 - c.x).

These only exclude candidates. They are rounded, in a way that depends on the shape of the product, and if rows are
projected (`ultraspec.cluster.distance_bounds`) they are also too short. So the distances to K apparently near
candidates are computed in full. The farthest of them gives a limit (`product_limit`), and every other candidate within
the limit is computed in full, too. The result is that of computing all distances in full, bit for bit, in every block:
the K smallest, where equal distances are in the order of the candidates.

Products are transposed: the values of many rows for one candidate are side by side, and SIMD lanes run along rows.
Candidates are divided into *bins* of a few. The smallest value of a bin and the number of the bin share one integer,
its *key*. The K + 1 smallest keys of each row lead to K near candidates, and tell whether further bins may have others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ultraspec._kernels._jit import kernel, reordering_kernel
from ultraspec._kernels.search import product_limit, squared_distance

LEAST_ROWS = 144  # rows of a tile, at least if there are as many
MOST_ROWS = 496  # rows of a tile, at most
TILE_VALUES = 2**16  # values of a tile, and of the product with all candidates, if it has more than the least rows
MOST_VALUES = 2**21  # values of a product with all candidates, at most
CHUNK = 256  # candidates per product of few features: larger products are slower, because they outgrow the caches
LARGE_CHUNK = 2048  # candidates per product of many features, most of whose time goes into multiplication
FEW_FEATURES = 128  # up to this number, products of many candidates are not kept
KEPT_CANDIDATES = 2048  # up to this number, products fit into a second-level cache
MOST_BIN = 8  # candidates of a bin, at most
LEAST_BINS = 48  # there are at least as many, if there are as many candidates; and 4 K
DIRECT_ROWS = 3  # rows of a group up to which it is searched without a product
LANES = 16  # tiles are filled up to whole SIMD registers
PIECE = 64  # features that are transposed at once: their lines fit into a first-level cache
EMPTY = np.int32(2**31 - 1)  # larger than any key


def product_buffers(
    n: int, d: int, most_candidates: int, K: int, projected: bool
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the buffers of `search_groups`, for `n` rows of `d` features and groups of `most_candidates`.

    `projected` tells whether rows are projected. If not, and if they have few features, products with many
    candidates are stored for a chunk only: computing some more distances in full is faster than filling the caches.

    They are allocated here because allocations inside of kernels take long to compile.
    """
    few = d <= FEW_FEATURES
    n_rows = max(LEAST_ROWS, TILE_VALUES // max(d, most_candidates)) if few else MOST_ROWS
    n_rows = min(n_rows, MOST_VALUES // most_candidates)
    n_rows = LANES * (n_rows // LANES | 1)  # columns of odd multiples of a cache line are not in the same cache set
    n_rows = max(1, min(n, n_rows, MOST_ROWS))
    width = -(-n_rows // LANES) * LANES
    most_bins = max(2 * LEAST_BINS, 8 * K, most_candidates // MOST_BIN) + CHUNK
    n_kept = min(most_candidates, KEPT_CANDIDATES) if few and not projected else most_candidates
    shapes = [(width * d,), (most_candidates * d,), (most_candidates,), (n_kept * width,)]
    shapes += [(min(most_bins, most_candidates) * width,), (width,), (width,), (K,)]
    floats = tuple(np.empty(shape, dtype=np.float32) for shape in shapes)
    lengths = [(K + 1) * width, width, K, most_candidates]
    integers = tuple(np.empty(length, dtype=np.int32) for length in lengths)
    return floats, integers


@kernel
def load_tile(X, order, low, n, tile):
    """Copy the rows ``order[low : low + n]`` of X to the columns of `tile`; the other columns are the last row again.

    Unsigned indices need no test for negative ones, which would take most of the time.
    """
    d, width = tile.shape
    last = low + n - 1
    for first in range(0, d, PIECE):
        end = np.uint64(min(d, first + PIECE))
        for r in range(0, width, 4):
            a = X[order[min(low + r, last)]]
            b = X[order[min(low + r + 1, last)]]
            c = X[order[min(low + r + 2, last)]]
            e = X[order[min(low + r + 3, last)]]
            part = tile[:, r : r + 4]
            j = np.uint64(first)
            while j < end:
                part[j, np.uint64(0)] = a[j]
                part[j, np.uint64(1)] = b[j]
                part[j, np.uint64(2)] = c[j]
                part[j, np.uint64(3)] = e[j]
                j += np.uint64(1)


@kernel
def load_rows(X, order, low, n, rows):
    """Copy the rows ``order[low : low + n]`` of X to `rows`; further ones are the last row again."""
    for r in range(rows.shape[0]):
        i = order[low + min(r, n - 1)]
        for j in range(X.shape[1]):
            rows[r, j] = X[i, j]


@kernel
def consecutive(candidates):
    """Return whether each candidate is the successor of the one before."""
    gaps = 0
    for c in range(candidates.shape[0]):
        gaps += np.int64(candidates[c]) != np.int64(candidates[0]) + c
    return gaps == 0


@kernel
def load_candidates(points, half_norms, candidates, table, halves):
    """Copy the points `candidates` to the rows of `table`, and half their squared lengths to `halves`."""
    for c in range(candidates.shape[0]):
        point = candidates[c]
        for j in range(points.shape[1]):
            table[c, j] = points[point, j]
        halves[c] = half_norms[point]


@kernel
def bins_of(m, K):
    """Return the number of bins of a whole chunk, and of all `m` candidates, for the K nearest."""
    size = 1
    while size < MOST_BIN and m >= 2 * size * max(LEAST_BINS, 4 * K):
        size *= 2
    per_chunk = CHUNK // size
    return per_chunk, m // CHUNK * per_chunk + min(per_chunk, m % CHUNK)


@reordering_kernel
def bin_minima(products, halves, minima):
    """Compute the minima of ``halves - products`` of the candidates of a chunk in bins.

    Candidates are dealt out to the bins: near ones are often consecutive.

    minima : (bins, width), results.
    """
    m = halves.shape[0]
    step, width = minima.shape
    for b in range(step):
        h = halves[b]
        for r in range(width):
            minima[b, r] = h - products[b, r]
        c = b + step
        while c + 2 * step < m:  # three at a time: minima are read and written less often
            e, f = c + step, c + 2 * step
            h, i, j = halves[c], halves[e], halves[f]
            for r in range(width):
                near = min(i - products[e, r], j - products[f, r])
                minima[b, r] = min(min(minima[b, r], h - products[c, r]), near)
            c += 3 * step
        while c < m:
            h = halves[c]
            for r in range(width):
                minima[b, r] = min(minima[b, r], h - products[c, r])
            c += step


@kernel
def smallest_keys(minima, half_norms, mask, carried, keys):
    """Find the smallest keys of the bins, ascending, for each row of a tile.

    minima : (bins, width), see `bin_minima`.
    half_norms : (width,), half the squared lengths of the rows, which the minima lack.
    mask : bits of a key that hold the number of the bin.
    carried : (width,), a buffer.
    keys : (n, width), results; EMPTY where there are fewer bins.

    Floats that are not negative have the same order as their bits read as integers. The last bits of the distance give
    way to the number of the bin: keys are distinct, and no larger than the distance. The loops over rows have no
    branches, see `search.insert_tile`; they take two keys at a time, so that less is read and written.
    """
    n, width = keys.shape
    for k in range(n):
        for r in range(width):
            keys[k, r] = EMPTY
    for b in range(minima.shape[0]):
        number = np.int32(b)
        for r in range(width):
            half = max(half_norms[r] + minima[b, r], np.float32(0.0))
            carried[r] = (np.float32(half).view(np.int32) & ~mask) | number
        for k in range(0, n - 1, 2):
            for r in range(width):
                value = carried[r]
                near = keys[k, r]
                far = keys[k + 1, r]
                between = max(near, value)
                keys[k, r] = min(near, value)
                keys[k + 1, r] = min(far, between)
                carried[r] = max(far, between)
        if n % 2:
            for r in range(width):
                keys[n - 1, r] = min(keys[n - 1, r], carried[r])


@kernel
def guess_limits(keys, half_norms, norms, order, low, n, slack, error, mask, guesses, clear):
    """Compute a limit for each row of a tile that its K-th nearest candidate most likely meets, from its K-th key.

    guesses : (width,), results: limits of ``halves - products``.
    clear : (width,), results: whether the bins beyond the first K have no candidate within.
    """
    K = keys.shape[0] - 1
    for r in range(n):
        half = np.int32(keys[K - 1, r] | mask).view(np.float32)  # at least the K-th smallest minimum
        guess = np.float32(2.0) * product_limit(np.float32(2.0) * half, norms[order[low + r]], slack, error) - half
        clear[r] = (keys[K, r] & ~mask) > np.float32(guess).view(np.int32)
        guesses[r] = guess - half_norms[r]


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
def search_directly(X, order, low, high, points, candidates, nearest, places, ids, sq):
    """Find the K nearest candidates of a few rows, ``order[low:high]``, by all distances."""
    for row in range(low, high):
        i = order[row]
        found = 0
        for c in range(candidates.shape[0]):
            found = insert_place(nearest, places, found, squared_distance(X[i], points[candidates[c]]), c)
        for k in range(ids.shape[1]):
            ids[i, k] = candidates[places[k]]
        if sq.shape[0] > 0:
            for k in range(ids.shape[1]):
                sq[i, k] = nearest[k]


@kernel
def search_tile(
    X, norms, slack, error, order, low, n, points, candidates, products, halves, step, minima, mask, half_norms,
    guesses, nearest, keys, clear, places, picked, ids, sq,
):  # fmt: skip
    """Find the K nearest candidates of the `n` rows of a tile, ``order[low:]``.

    products : (m, width), inner products; if it has fewer rows, bins are measured as a whole.
    halves : (m,), half the squared lengths of the candidates.
    step, minima : number of bins of a chunk, and the minima of bins (bins, width).
    mask : bits of a key that hold the number of a bin.
    half_norms, guesses, nearest, keys, clear, places, picked : buffers.
    """
    K = ids.shape[1]
    m = candidates.shape[0]
    n_bins = minima.shape[0]
    kept = products.shape[0] == m
    size = CHUNK // step
    last_bin = step - 1  # of a chunk; a mask, because numbers of bins are powers of two
    smallest_keys(minima, half_norms, mask, clear, keys)
    guess_limits(keys, half_norms, norms, order, low, n, slack, error, mask, guesses, clear)
    # If one candidate is within the limit, it is the nearest: the limit covers twice the rounding errors.
    unmeasured = sq.shape[0] == 0 and n_bins == m and slack == 0
    for r in range(n):
        i = order[low + r]
        if unmeasured and clear[r]:
            ids[i, 0] = candidates[keys[0, r] & mask]
            continue
        above = np.float32(-np.inf)
        limit = guesses[r]
        found = 0
        by_keys = clear[r] != 0
        while True:
            # the candidates whose values are beyond `above`, up to `limit`
            n_picked = 0
            for k in range(K if by_keys else n_bins):
                b = np.int64(keys[k, r] & mask) if by_keys else k
                if by_keys or minima[b, r] <= limit:
                    chunk = (b & ~last_bin) * size
                    for c in range(chunk + (b & last_bin), min(chunk + CHUNK, m), step):
                        value = halves[c] - products[c, r] if kept else minima[b, r]
                        picked[n_picked] = c
                        n_picked += np.int64(value > above) & np.int64(value <= limit)  # faster than a branch
            for q in range(n_picked):
                c = picked[q]
                s = squared_distance(X[i], points[candidates[c]])
                found = insert_place(nearest, places, found, s, c)
            if by_keys and slack == 0 and found == K:
                break
            above = limit
            limit = np.float32(np.inf)
            if found == K:
                limit = product_limit(nearest[K - 1], norms[i], slack, error) - half_norms[r]
            if limit <= above:
                break
            by_keys = False
        for k in range(K):
            ids[i, k] = candidates[places[k]]
        if sq.shape[0] > 0:
            for k in range(K):
                sq[i, k] = nearest[k]


@kernel
def search_groups(
    X, projected, norms, slack, error, order, runs, points, projected_points, half_norms, candidates, starts,
    floats, integers, ids, sq,
):  # fmt: skip
    """Find the K nearest of some points for each row: of those that are the candidates of its group.

    X, projected, norms : rows, their projections, and their squared lengths.
    slack, error : bounds of rounding errors, see `product_limit`.
    order, runs : rows of group g are ``order[runs[g] : runs[g + 1]]``, ascending.
    points, projected_points, half_norms : points, their projections, and half the squared lengths of these.
    candidates, starts : candidates of group g are ``candidates[starts[g] : starts[g + 1]]``, at least K of them.
    floats, integers : from `product_buffers`.
    ids : (n, K), results.
    sq : (n, K), results; or (0, K) if distances are not needed.
    """
    tiles, tables, copied_halves, every_product, every_minimum, row_halves, guesses, nearest = floats
    every_key, clear, places, picked = integers
    most_rows = row_halves.shape[0]
    d = projected.shape[1]
    K = ids.shape[1]
    few = d <= FEW_FEATURES
    for g in range(runs.shape[0] - 1):
        mine = candidates[starts[g] : starts[g + 1]]
        if runs[g + 1] - runs[g] <= DIRECT_ROWS:
            search_directly(X, order, runs[g], runs[g + 1], points, mine, nearest, places, ids, sq)
            continue
        m = mine.shape[0]
        first = np.int64(mine[0])
        table = projected_points[first : first + m]
        halves = half_norms[first : first + m]
        if not consecutive(mine):
            table = tables[: m * d].reshape(m, d)
            halves = copied_halves[:m]
            load_candidates(projected_points, half_norms, mine, table, halves)
        transposed = few and m < CHUNK  # faster for small products, which OpenBLAS computes without copies of its own
        step, n_bins = bins_of(m, K)
        mask = np.int32(1)
        while mask < n_bins:
            mask *= np.int32(2)
        mask -= np.int32(1)
        for low in range(runs[g], runs[g + 1], most_rows):
            n = min(most_rows, runs[g + 1] - low)
            width = -(-n // LANES) * LANES
            tile = tiles[: d * width].reshape(d, width)
            n_kept = m if m * width <= every_product.shape[0] else CHUNK
            products = every_product[: n_kept * width].reshape(n_kept, width)
            minima = every_minimum[: n_bins * width].reshape(n_bins, width)
            keys = every_key[: (K + 1) * width].reshape(K + 1, width)
            rows = tiles[: d * width].reshape(width, d)
            if transposed:
                load_tile(projected, order, low, n, tile)
            else:
                i = order[low]
                if order[low + n - 1] - i == n - 1 and i + width <= projected.shape[0]:
                    rows = projected[i : i + width]
                else:
                    load_rows(projected, order, low, n, rows)
            for r in range(width):
                row_halves[r] = np.float32(0.5) * norms[order[low + min(r, n - 1)]]
            for c in range(0, m, CHUNK):
                last = min(c + CHUNK, m)
                part = products[c:last] if n_kept == m else products[: last - c]
                if transposed:
                    np.dot(table[c:last], tile, part)
                elif few:
                    np.dot(table[c:last], rows.T, part)
                elif c % LARGE_CHUNK == 0:
                    end = min(c + LARGE_CHUNK, m)
                    np.dot(table[c:end], rows.T, products[c:end])
                b = c // CHUNK * step
                bin_minima(part, halves[c:last], minima[b : b + step])
            search_tile(
                X, norms, slack, error, order, low, n, points, mine, products, halves, step, minima, mask, row_halves,
                guesses, nearest, keys, clear, places, picked, ids, sq,
            )  # fmt: skip
