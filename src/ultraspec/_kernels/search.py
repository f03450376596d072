"""The K nearest representatives of dense rows (paper, section 3.1.2).

The approximate search goes from coarse to fine: the nearest rep-cluster of a row, then the nearest representative in
it, the *owner* of the row, then the K nearest among the owner and its neighbours, which are listed for each owner.

All searches write `ids` (n, K), nearest first, and `sq` (n, K), the squared distances. The result of a row depends on
that row only, bit for bit, not on the other rows of the block: `predict` relies on it.

For few features, `search_tiles` processes rows that meet the same representatives together, in *tiles*. A tile is
stored transposed, one feature of many rows side by side, so that SIMD lanes run along rows. For more features, matrix
products are faster: see `ultraspec._kernels.products`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._kernels._jit import kernel, reordering_kernel

TILE = 512  # rows of a tile: with 8 features, it fills half of a first-level cache


@reordering_kernel
def squared_distance(x, y):
    """Compute the squared Euclidean distance of two vectors of equal length.

    The order of the sum is free, and so vectorised, but for vectors of one length it is always the same.
    """
    total = np.float32(0.0)
    for j in range(x.shape[0]):
        t = x[j] - y[j]
        total += t * t
    return total


# Few features: tiles of rows


def even_features(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return `points` with a column of zeros added if the number of features is odd, for `squared_to_point`."""
    return np.ascontiguousarray(np.pad(points, ((0, 0), (0, points.shape[1] % 2))))


def tile_buffer(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Allocate the buffer (d + 2, TILE) of the kernels that work on tiles of rows, for `points` of d features.

    The first d rows hold the tile, transposed; the last two hold values per row. It is allocated here because
    allocations inside of kernels take long to compile.
    """
    return np.empty((points.shape[1] + 2, TILE), dtype=np.float32)


def rows_by_key(keys: npt.NDArray[Any], n_keys: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort rows by their keys, which are below 2^16.

    Return the row numbers in this order, and `runs`: rows of key c are at ``runs[c] : runs[c + 1]``.
    """
    if n_keys == 1:
        return np.arange(len(keys)), np.array([0, len(keys)])
    runs = np.zeros(n_keys + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=n_keys), out=runs[1:])
    return np.argsort(keys.astype(np.uint16), kind="stable"), runs  # NumPy sorts 16-bit integers by radix sort


@kernel
def load_tile(X, order, low, m, d, tile):
    """Copy the rows ``order[low : low + m]`` of X into the columns of `tile`, padded with zeros to `d` features."""
    for r in range(m):
        for j in range(d):
            tile[j, r] = X[order[low + r], j] if j < X.shape[1] else np.float32(0.0)


@kernel
def squared_to_point(tile, m, y, out):
    """Compute the squared distances of the first `m` rows of a tile to the point `y` (d,), d even.

    Features are summed in pairs, which halves the number of times that `out` is read and written; with two features
    it is only written. Each SIMD lane is one row, and features are summed in the same order for all rows: the result
    of a row does not depend on its place in the tile.
    """
    for r in range(m):
        s = tile[0, r] - y[0]
        t = tile[1, r] - y[1]
        out[r] = s * s + t * t
    for j in range(2, y.shape[0], 2):
        for r in range(m):
            s = tile[j, r] - y[j]
            t = tile[j + 1, r] - y[j + 1]
            out[r] += s * s + t * t


@kernel
def nearest_point(tile, m, points, first, last, best, nearest, buffer):
    """Find the nearest of ``points[first:last]`` for the first `m` rows of a tile; a tie goes to the lower index.

    best, nearest : (TILE,), results: squared distance and index of the nearest point.
    buffer : (TILE,), squared distances to one point.
    """
    for r in range(m):
        best[r] = np.inf
        nearest[r] = first
    for c in range(first, last):
        squared_to_point(tile, m, points[c], buffer)
        index = np.int32(c)  # of the same width as `nearest`, or the loop would not be vectorised
        for r in range(m):
            nearer = buffer[r] < best[r]
            nearest[r] = index if nearer else nearest[r]
            best[r] = min(buffer[r], best[r])


@kernel
def insert_tile(m, K, candidate, buffer, carried, best, best_ids):
    """Insert one candidate into the sorted lists of the K nearest of `m` rows.

    buffer : (TILE,), squared distances of the candidate; overwritten.
    carried : (TILE,), a buffer for ids.
    best, best_ids : (K, TILE), squared distances and ids of the nearest so far, ascending along the first axis.

    This is one step of insertion sort for all rows at once: at each place of the list, the smaller of the entry and
    the carried value stays, and the larger one is carried to the next place. There are no branches, so the loop over
    rows is vectorised.
    """
    for r in range(m):
        carried[r] = candidate
    for k in range(K):
        for r in range(m):
            value = buffer[r]
            entry = best[k, r]
            carried_id = carried[r]
            entry_id = best_ids[k, r]
            nearer = value < entry
            best_ids[k, r] = carried_id if nearer else entry_id
            carried[r] = entry_id if nearer else carried_id
            best[k, r] = min(value, entry)
            buffer[r] = max(value, entry)


@kernel
def any_below(m, values, limits):
    """Return whether ``values[r] < limits[r]`` for any of the first `m` rows.

    All rows are tested: without an early exit the loop is vectorised.
    """
    below = np.int32(0)
    for r in range(m):
        below |= np.int32(values[r] < limits[r])
    return below != 0


@kernel
def any_in_reach(m, reach, to_owner, limits):
    """Return whether a point at distance `reach` from the owner may be nearer to any row than its K-th nearest so far.

    By the triangle inequality, the distance of the point to a row is at least ``reach - to_owner[r]``. The factors
    cover the rounding errors of float32 distances.
    """
    in_reach = np.int32(0)
    for r in range(m):
        gap = np.float32(0.9999) * reach - np.float32(1.0001) * to_owner[r]
        in_reach |= np.int32(gap <= 0) | np.int32(gap * gap <= limits[r])
    return in_reach != 0


@kernel
def nearest_in_group_tiles(X, order, runs, R, starts, tile, nearest, owners, sq):
    """Find the nearest point of each row in the group of the row: ``R[starts[g]:starts[g + 1]]`` for group g.

    order, runs : rows sorted by group, from `rows_by_key`: rows that meet the same points share tiles.
    R : (p, d), points, from `even_features`.
    tile, nearest : buffers, from `tile_buffer` and of shape (TILE,).
    owners, sq : (n,), results: index of the nearest point and squared distance.
    """
    z, d = starts.shape[0] - 1, R.shape[1]
    buffer = tile[d]
    best = tile[d + 1]
    for g in range(z):
        for low in range(runs[g], runs[g + 1], TILE):
            m = min(TILE, runs[g + 1] - low)
            load_tile(X, order, low, m, d, tile)
            nearest_point(tile, m, R, starts[g], starts[g + 1], best, nearest, buffer)
            for r in range(m):
                owners[order[low + r]] = nearest[r]
                sq[order[low + r]] = best[r]


@kernel
def search_tiles(X, order, runs, sq_owner, R, lists, reach, tile, best, best_ids, ids, sq):
    """Find the K nearest representatives of each row among those listed for its owner, for few features.

    order, runs : rows sorted by owner, from `rows_by_key`.
    sq_owner : (n,), squared distances of the rows to their owners.
    R : (p, d), representatives, from `even_features`.
    lists, reach : (p, L), neighbours of each representative, nearest first, and their distances to it.
    tile, best, best_ids : buffers, from `tile_buffer` and of shapes (K, TILE) and (K + 1, TILE).
    ids, sq : (n, K), results.

    Lists are sorted, so a scan ends when `any_in_reach` excludes all further neighbours, which does not change the
    result. If the lists hold all p representatives, the search is exact.
    """
    K, d = ids.shape[1], R.shape[1]
    p, L = lists.shape
    buffer = tile[d]
    to_owner = tile[d + 1]
    farthest = best[K - 1]
    carried = best_ids[K]
    for owner in range(p):
        for low in range(runs[owner], runs[owner + 1], TILE):
            m = min(TILE, runs[owner + 1] - low)
            load_tile(X, order, low, m, d, tile)
            for r in range(m):
                to_owner[r] = np.sqrt(sq_owner[order[low + r]])
            for k in range(K):
                for r in range(m):
                    best[k, r] = np.inf
            for c in range(L):
                # tested for every eighth neighbour only, to keep the cost of the test low
                if c % 8 == 0 and c >= K and not any_in_reach(m, reach[owner, c], to_owner, farthest):
                    break
                squared_to_point(tile, m, R[lists[owner, c]], buffer)
                if c < K or any_below(m, buffer, farthest):
                    insert_tile(m, K, np.int32(lists[owner, c]), buffer, carried, best, best_ids)
            for r in range(m):
                i = order[low + r]
                for k in range(K):
                    ids[i, k] = best_ids[k, r]
                    sq[i, k] = best[k, r]


@kernel
def measure(X, R, ids, sq):
    """Compute the squared distances (n, K) of rows to the representatives `ids`, bit for bit as `search_tiles` does.

    R : (p, d), representatives, from `even_features`.

    Features are summed in pairs, in the order of `squared_to_point`.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        for k in range(ids.shape[1]):
            y = R[ids[i, k]]
            s = X[i, 0] - y[0]
            t = (X[i, 1] if d > 1 else np.float32(0.0)) - y[1]
            total = s * s + t * t
            for j in range(2, y.shape[0], 2):
                s = X[i, j] - y[j]
                t = (X[i, j + 1] if j + 1 < d else np.float32(0.0)) - y[j + 1]
                total += s * s + t * t
            sq[i, k] = total


# Many features: bounds that `products` and k-means share


@kernel
def insert_sorted(sq, ids, value, new_id):
    """Insert `value` into the ascending list `sq` (K,), and `new_id` into `ids` beside it; drop the last entry."""
    k = sq.shape[0] - 1
    while k > 0 and sq[k - 1] > value:
        sq[k] = sq[k - 1]
        ids[k] = ids[k - 1]
        k -= 1
    sq[k] = value
    ids[k] = new_id


@kernel
def projection_limit(sq, norm, slack):
    """Return the squared distance of projections beyond which a point is farther from a row than ``sqrt(sq)``.

    norm : squared length of the row.
    slack : bound of the rounding error of a projected distance, relative to the lengths of row and point; 0 if rows
        are not projected.

    Distances of projections are lower bounds, but for rounding. A point within ``sqrt(sq)`` of the row is at most
    ``sqrt(norm) + sqrt(sq)`` long, so the rounding error is at most ``slack * (2 sqrt(norm) + sqrt(sq))``.
    """
    root = np.sqrt(sq)
    reach = root + slack * (np.float32(2.0) * np.sqrt(norm) + root)
    return reach * reach if slack > 0 else sq


@kernel
def product_limit(sq, norm, slack, error):
    """Return half of `projection_limit`, for distances from inner products.

    error : bound of the rounding error of a halved squared distance from inner products, relative to the sum of the
        squared lengths.
    """
    farthest = np.sqrt(norm) + np.sqrt(sq)  # length of a point within `sq`, at most
    return np.float32(0.5) * projection_limit(sq, norm, slack) + error * (norm + farthest * farthest)
