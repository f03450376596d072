"""Phase 2 on one dense block: the K nearest representatives of each row.

All searches write `ids` (n, K), nearest first, and `sq` (n, K), the squared distances. Each row's result depends on
that row alone, bit for bit, whatever block it comes in: `predict` relies on it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec._kernels._jit import kernel, reordering_kernel

TILE = 512  # rows that are worked on together, transposed, so that SIMD runs along rows


@reordering_kernel
def squared_distance(x, y):
    """Squared Euclidean distance of two vectors of equal length."""
    total = np.float32(0.0)
    for j in range(x.shape[0]):
        t = x[j] - y[j]
        total += t * t
    return total


def even_features(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """`points` with a column of zeros added where the number of features is odd, as `squared_to_point` wants it."""
    return np.ascontiguousarray(np.pad(points, ((0, 0), (0, points.shape[1] % 2))))


@kernel
def squared_to_point(tile, m, y, out):
    """Squared distances of the first `m` rows of a transposed tile (>= d, *) to the point `y` (d,); d is even.

    Features are taken in pairs: it halves the traffic to `out`, and two features need no second look at it.
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
def nearest_point(tile, m, points, first, last, best, at, buffer):
    """For the first `m` rows of a tile, the nearest of ``points[first:last]``, the first one on ties."""
    for r in range(m):
        best[r] = np.inf
        at[r] = first
    for c in range(first, last):
        squared_to_point(tile, m, points[c], buffer)
        this = np.int32(c)  # of the width of `at`, or the loop would not vectorise
        for r in range(m):
            nearer = buffer[r] < best[r]
            at[r] = this if nearer else at[r]
            best[r] = min(buffer[r], best[r])


@kernel
def load_tile(X, order, low, m, d, tile):
    """Copy the rows ``order[low : low + m]`` into the columns of `tile`, filled up with zeros to `d` features."""
    for r in range(m):
        for j in range(d):
            tile[j, r] = X[order[low + r], j] if j < X.shape[1] else np.float32(0.0)


def rows_by_key(keys: npt.NDArray[np.int32], n_keys: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows in the order of their keys, which are below 2^16: those of key c at ``runs[c] : runs[c + 1]``."""
    if n_keys == 1:
        return np.arange(len(keys)), np.array([0, len(keys)])
    runs = np.zeros(n_keys + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=n_keys), out=runs[1:])
    return np.argsort(keys.astype(np.uint16), kind="stable"), runs  # a radix sort, for 16 bits


@kernel
def insert_tile(m, K, candidate, buffer, carried, best, best_ids):
    """Insert one candidate, at squared distances `buffer`, into the sorted lists ``best[:K, r]`` of `m` rows.

    Each list passes its displaced entry on to the next place, for all rows at once and without a branch.
    """
    for r in range(m):
        carried[r] = candidate
    for k in range(K):
        for r in range(m):
            value = buffer[r]
            held = best[k, r]
            new_id = carried[r]
            held_id = best_ids[k, r]
            nearer = value < held
            best_ids[k, r] = new_id if nearer else held_id
            carried[r] = held_id if nearer else new_id
            best[k, r] = min(value, held)
            buffer[r] = max(value, held)


@kernel
def any_below(m, values, limits):
    """Whether ``values[r] < limits[r]`` for one of the first `m` rows."""
    found = np.int32(0)
    for r in range(m):
        found |= np.int32(values[r] < limits[r])
    return found != 0


@kernel
def any_in_reach(m, reach, to_owner, limits):
    """Whether a point at distance `reach` from the owner could be nearer to a row than its K-th best so far.

    By the triangle inequality it lies at least ``reach - to_owner`` from the row. The slack covers float32 rounding.
    """
    found = np.int32(0)
    for r in range(m):
        gap = np.float32(0.9999) * reach - np.float32(1.0001) * to_owner[r]
        found |= np.int32(gap <= 0) | np.int32(gap * gap <= limits[r])
    return found != 0


def tile_room(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Room for the kernels that work on tiles of rows: a tile, transposed, with two rows more.

    Allocated here, because allocations inside of kernels take long to compile.
    """
    return np.empty((points.shape[1] + 2, TILE), dtype=np.float32)


@kernel
def nearest_in_group_tiles(X, order, runs, R, starts, tile, at, owners, sq):
    """For each row the nearest of ``R[starts[g]:starts[g + 1]]``, g being its group, and its squared distance.

    For few features; `R` comes from `even_features`, `order` and `runs` from `rows_by_key` of the groups: rows which
    meet the same representatives are worked on together. `at` (TILE,) is room.
    """
    z, d = starts.shape[0] - 1, R.shape[1]
    buffer = tile[d]
    nearest = tile[d + 1]
    for g in range(z):
        for low in range(runs[g], runs[g + 1], TILE):
            m = min(TILE, runs[g + 1] - low)
            load_tile(X, order, low, m, d, tile)
            nearest_point(tile, m, R, starts[g], starts[g + 1], nearest, at, buffer)
            for r in range(m):
                owners[order[low + r]] = at[r]
                sq[order[low + r]] = nearest[r]


@kernel
def search_tiles(X, order, runs, sq_owner, R, lists, reach, tile, best, best_ids, ids, sq):
    """Last step of the coarse-to-fine search for few features: scan the neighbourhood of each row's owner.

    R : (p, d) representatives, from `even_features`.
    lists, reach : (p, L) each representative's neighbourhood, nearest first, and the distances.
    best, best_ids : (K, TILE) and (K + 1, TILE), room to work in.

    `order` and `runs` come from `rows_by_key` of the owners. The lists are sorted, so the triangle inequality ends a
    scan early without changing its result. With lists of all p representatives the search is exact.
    """
    K, d = ids.shape[1], R.shape[1]
    p, L = lists.shape
    buffer = tile[d]
    nearest = tile[d + 1]
    farthest = best[K - 1]
    carried = best_ids[K]
    for owner in range(p):
        for low in range(runs[owner], runs[owner + 1], TILE):
            m = min(TILE, runs[owner + 1] - low)
            load_tile(X, order, low, m, d, tile)
            for r in range(m):
                nearest[r] = np.sqrt(sq_owner[order[low + r]])
            for k in range(K):
                for r in range(m):
                    best[k, r] = np.inf
            for c in range(L):
                if c % 8 == 0 and c >= K and not any_in_reach(m, reach[owner, c], nearest, farthest):
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
    """Squared distances of rows to the representatives in `ids`, as `squared_to_point` has them, bit for bit."""
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


@kernel
def insert_sorted(sq, ids, value, new_id):
    """Put `value` into the ascending list `sq` (and its id beside it), dropping the last entry."""
    k = sq.shape[0] - 1
    while k > 0 and sq[k - 1] > value:
        sq[k] = sq[k - 1]
        ids[k] = ids[k - 1]
        k -= 1
    sq[k] = value
    ids[k] = new_id


@kernel
def shadow_limit(sq, norm, slack):
    """Squared bound distance beyond which a point is farther than `sq` from a row of squared length `norm`.

    A point that is nearer has at most the length of the row plus that distance, which bounds the rounding.
    """
    root = np.sqrt(sq)
    reach = root + slack * (np.float32(2.0) * np.sqrt(norm) + root)
    return reach * reach if slack > 0 else sq


@kernel
def product_limit(sq, norm, slack, error):
    """`shadow_limit`, halved, for distances from inner products: `error` bounds their rounding, relative to lengths."""
    farthest = np.sqrt(norm) + np.sqrt(sq)
    return np.float32(0.5) * shadow_limit(sq, norm, slack) + error * (norm + farthest * farthest)


@kernel
def nearest_in_group(X, projected, norms, slack, order, points, point_projected, starts, groups, out, sq):
    """For each row the nearest of ``points[starts[g]:starts[g + 1]]``, g being its group, and its squared distance.

    For many features. Rows are visited in `order`, which the caller sorts by group so that a group's points stay in
    cache.
    """
    for i in order:
        group = groups[i]
        smallest = np.float32(np.inf)
        limit = np.float32(np.inf)
        for c in range(starts[group], starts[group + 1]):
            s = squared_distance(projected[i], point_projected[c])
            if s > limit:
                continue
            if slack > 0:
                s = squared_distance(X[i], points[c])
            if s < smallest:
                smallest = s
                limit = shadow_limit(s, norms[i], slack)
                out[i] = c
        sq[i] = smallest


@kernel
def search_lists(X, projected, norms, slack, order, R, R_projected, owners, to_owner, lists, reach, ids, sq):
    """Last step of the coarse-to-fine search for many features: scan the neighbourhood of each row's owner.

    The triangle inequality ends a scan early here too, see `any_in_reach`.
    """
    K = ids.shape[1]
    for i in order:
        best = sq[i]
        best_ids = ids[i]
        for k in range(K):
            best[k] = np.inf
        limit = np.float32(np.inf)
        near = np.float32(1.0001) * np.sqrt(to_owner[i])
        for c in range(lists.shape[1]):
            gap = np.float32(0.9999) * reach[owners[i], c] - near
            if gap > 0 and gap * gap > best[K - 1]:
                break
            r = lists[owners[i], c]
            s = squared_distance(projected[i], R_projected[r])
            if s > limit:
                continue
            if slack > 0:
                s = squared_distance(X[i], R[r])
            if s < best[K - 1]:
                insert_sorted(best, best_ids, s, r)
                limit = shadow_limit(best[K - 1], norms[i], slack)


@kernel
def search_products(X, R, products, half_norms, norms, slack, error, ids, sq):
    """Exact search from the matrix ``products`` of inner products of the projected of X and R.

    ``|r|^2 / 2 - x.r`` orders representatives as the projected' distances do, but it is rounded, and the rounding of a
    matrix product depends on the block's shape. So the K first by that order are measured in full, and then every
    representative that could be nearer than the farthest of them: the result is exact and the same in every block.
    """
    n, K = ids.shape
    p = half_norms.shape[0]
    scores = np.empty(K, np.float32)
    first = np.empty(K, np.uint16)
    for i in range(n):
        for k in range(K):
            scores[k] = np.inf
        for r in range(p):
            score = half_norms[r] - products[i, r]
            if score < scores[K - 1]:
                insert_sorted(scores, first, score, np.uint16(r))
        farthest = np.float32(0.0)
        for k in range(K):
            farthest = max(farthest, squared_distance(X[i], R[first[k]]))
        limit = product_limit(farthest, norms[i], slack, error) - np.float32(0.5) * norms[i]
        best = sq[i]
        best_ids = ids[i]
        for k in range(K):
            best[k] = np.inf
        for r in range(p):
            if half_norms[r] - products[i, r] <= limit:
                s = squared_distance(X[i], R[r])
                if s < best[K - 1]:
                    insert_sorted(best, best_ids, s, np.uint16(r))
