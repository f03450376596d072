"""The K nearest representatives of rows (paper, section 3.1.2).

The approximate search of the paper goes from coarse to fine. Representatives are grouped into about sqrt(p)
rep-clusters, and each representative has a list of its K' nearest ones. For a row, the nearest rep-cluster is found,
then the nearest representative in it (its *owner*), then the K nearest in the list of the owner: O(sqrt(p) + K')
distances instead of p.

`build_index` chooses: all representatives are searched while they or the rows are few. Otherwise `ProbeIndex` searches
those of the rep-clusters around the nearest one, at the speed of matrix products. It finds 96 % of the neighbours of
rows that vary in few directions, as most data does, and 60 % in a cloud that varies alike in all of 20. This is enough
to label rows, but a graph must be exact: it is built from some rows by the `exact_twin` of the index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import search
from ultraspec._kernels.kmeans import assign_dense_products
from ultraspec._kernels.sparse import search_sparse, sparse_products
from ultraspec.cluster.distance_bounds import ProjectionBound
from ultraspec.cluster.kmeans import lloyd, random_centers
from ultraspec.cluster.points import FEW_FEATURES, RowPoints, assign_direct
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block
from ultraspec.storage.cached import cached_attribute

REP_CLUSTER_ITERATIONS = 20
EXACT_REPRESENTATIVES = (
    4000  # up to this number, "auto" searches all representatives; up to half of it for few features
)
ROWS_PER_REPRESENTATIVE = 20  # up to this number of rows for each representative, "auto" searches all of them, too
EXACT_LIST_REPRESENTATIVES = 4000  # beyond this number, lists of all representatives (6 p^2 bytes) outgrow the caches
PROBES = 12  # rep-clusters whose representatives a row is compared with
PRODUCT_ROWS = 2048  # rows per product with all representatives, a temporary of 8 MB at p = 1000
PRODUCT_VALUES = 2**21  # values of a product with many representatives
LIST_VALUES = 2**24  # distances in memory while lists of nearest representatives are made
GRAM_FEATURES = 4096  # features per product of `nearest_lists`: sparse data may have as many as a vocabulary

Ids = npt.NDArray[np.uint16]
Squares = npt.NDArray[np.float32]


class RepresentativeIndex:
    """Finds the K nearest representatives of rows, coarse-to-fine or exactly.

    Use `build` for new representatives. The parameters are the whole state: tables for the kernels are derived from
    them when they are needed, and are not pickled.

    Parameters
    ----------
    representatives : ndarray of shape (p, d), float32
        The representatives, grouped by rep-cluster.
    centers : ndarray of shape (z, d), float32
        Centres of the rep-clusters.
    starts : ndarray of shape (z + 1,), int64
        Rep-cluster g has the representatives ``starts[g] .. starts[g + 1]``; none is empty.
    lists : ndarray of shape (p, L), uint16
        Nearest representatives of each representative, itself first; only itself if the search is exact.
    n_neighbors : int
        Number of nearest representatives of a row, K.
    exact : bool
        Whether all representatives are searched.
    """

    def __init__(
        self,
        representatives: npt.NDArray[np.float32],
        centers: npt.NDArray[np.float32],
        starts: npt.NDArray[np.int64],
        lists: Ids,
        n_neighbors: int,
        exact: bool,
    ) -> None:
        self.representatives = representatives
        self.centers = centers
        self.starts = starts
        self.lists = lists
        self.n_neighbors = n_neighbors
        self.exact = exact

    @classmethod
    def build(
        cls,
        representatives: npt.NDArray[np.float32],
        n_neighbors: int,
        neighborhood_factor: int,
        exact: bool,
        rng: np.random.Generator,
        engine: ThreadEngine,
    ) -> RepresentativeIndex:
        """Group representatives into floor(sqrt(p)) rep-clusters, and list the K' nearest of each representative.

        Representatives are sorted by rep-cluster: those that are close together get consecutive ids, so the entries of
        the p x p affinity that a row adds to are close together in memory. `n_neighbors` and the length of the lists
        are at most p.
        """
        p = len(representatives)
        representatives, centers, starts = _group(representatives, rng, engine)
        n_neighbors = min(n_neighbors, p)
        length = 1 if exact else min(p, neighborhood_factor * n_neighbors + 1)  # an exact search needs no lists
        return cls(representatives, centers, starts, nearest_lists(representatives, length), n_neighbors, exact)

    def query(self, block: Block) -> tuple[Ids, Squares]:
        """Return the ids (n, K) of the nearest representatives, nearest first, and squared distances (n, K)."""
        shape = (block.shape[0], self.n_neighbors)
        ids = np.empty(shape, dtype=np.uint16)
        sq = np.empty(shape, dtype=np.float32)
        self.query_into(block, ids, sq)
        return ids, sq

    def query_into(self, block: Block, ids: Ids, sq: Squares) -> None:
        """Find the nearest representatives as `query` does, and write them to `ids` and `sq`."""
        if scipy.sparse.issparse(block):
            self._query_sparse(block, ids, sq)
        elif self.exact and not self._exact_by_lists:
            self._query_products(block, ids, sq)
        elif self.by_tiles:
            self._query_tiles(block, ids, sq)
        else:
            self._query_lists(block, ids, sq)

    def measure(self, block: npt.NDArray[np.float32], ids: Ids) -> Squares:
        """Compute the squared distances that `query` returned with `ids`, bit for bit; only if `by_tiles` is true."""
        sq = np.empty(ids.shape, dtype=np.float32)
        search.measure(block, self._even_features[1], ids, sq)
        return sq

    def _query_tiles(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        """Search for rows of few features: coarse to fine, many rows at a time."""
        n, K = ids.shape
        centers, R = self._even_features
        groups = np.zeros(n, dtype=np.int32)  # nearest rep-cluster of each row
        owners = np.empty(n, dtype=np.int32)
        sq_owner = np.empty(n, dtype=np.float32)
        tile = search.tile_buffer(R)
        best = np.empty((K, search.TILE), dtype=np.float32)
        best_ids = np.empty((K + 1, search.TILE), dtype=np.int32)
        assign_direct(block, centers, groups, sq_owner)
        by_group = search.rows_by_key(groups, len(centers))
        search.nearest_in_group_tiles(block, *by_group, R, self.starts, tile, best_ids[0], owners, sq_owner)
        by_owner = search.rows_by_key(owners, len(R))
        search.search_tiles(block, *by_owner, sq_owner, R, *self._neighborhoods, tile, best, best_ids, ids, sq)

    def _query_lists(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        """Search for rows of many features: coarse to fine, one row at a time."""
        n = len(block)
        groups = np.zeros(n, dtype=np.int32)  # nearest rep-cluster of each row
        owners = np.empty(n, dtype=np.int32)
        sq_owner = np.empty(n, dtype=np.float32)
        projected, norms = self._bound.project(block)
        slack = self._bound.slack
        error = rounding_bound(projected.shape[1])
        table, half_norms = self._center_products
        products = projected @ table
        bits = products.view(np.int32)
        assign_dense_products(block, self.centers, products, bits, half_norms, norms, slack, error, groups, sq_owner)
        rows = block, projected, norms, slack
        points = self.representatives, self._projected
        order = np.argsort(groups, kind="stable")
        search.nearest_in_group(*rows, order, *points, self.starts, groups, owners, sq_owner)
        order = np.argsort(owners, kind="stable")
        search.search_lists(*rows, order, *points, owners, sq_owner, *self._neighborhoods, ids, sq)

    def _query_products(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        """Search exactly for rows of many features, by products with all representatives."""
        R = self.representatives
        table, half_norms = self._products
        slack = self._bound.slack
        error = rounding_bound(len(table))
        everyone = np.arange(len(R), dtype=np.uint16)
        step = max(1, min(PRODUCT_ROWS, PRODUCT_VALUES // len(R), len(block)))
        buffer = np.empty((step, len(R)), dtype=np.float32)  # one for all products: new memory is slow to write to
        for low in range(0, len(block), step):
            part = slice(low, low + step)
            projected, norms = self._bound.project(block[part])
            products = np.matmul(projected, table, out=buffer[: len(projected)])
            search.search_products(
                block[part], R, products, half_norms, norms, slack, error, everyone, ids[part], sq[part]
            )

    def _query_sparse(self, block: Any, ids: Ids, sq: Squares) -> None:
        """Search for sparse rows, by products with all representatives and rep-cluster centres."""
        table, norms = self._sparse_table
        matrix = block.indptr, block.indices, block.data
        products = np.empty((block.shape[0], table.shape[1]), dtype=np.float32)
        sparse_products(*matrix, table, products)
        error = rounding_bound(int(np.diff(block.indptr).max(initial=0)))
        search_sparse(*matrix, products, table, norms, self.starts, self.lists, self.exact, error, ids, sq)

    @property
    def by_tiles(self) -> bool:
        """Whether dense rows are searched in tiles, as rows of few features are."""
        return self.representatives.shape[1] <= FEW_FEATURES and (not self.exact or self._exact_by_lists)

    @property
    def _exact_by_lists(self) -> bool:
        """Whether an exact search scans sorted lists of all representatives."""
        p, d = self.representatives.shape
        return d <= FEW_FEATURES and p <= EXACT_LIST_REPRESENTATIVES

    @cached_attribute
    def _even_features(self) -> tuple[npt.NDArray[Any], ...]:
        """Compute rep-cluster centres and representatives with an even number of features, for the tile kernels."""
        return search.even_features(self.centers), search.even_features(self.representatives)

    @cached_attribute
    def _neighborhoods(self) -> tuple[Ids, npt.NDArray[np.float32]]:
        """Compute the lists to scan, of all representatives if the search is exact, and distances to their owners."""
        R = self.representatives
        lists = nearest_lists(R, len(R)) if self.exact else self.lists
        reach = np.empty(lists.shape, dtype=np.float32)
        step = max(1, 2**20 // (lists.shape[1] * R.shape[1]))  # temporaries of about 4 MB
        for low in range(0, len(R), step):
            part = slice(low, low + step)
            reach[part] = np.sqrt(((R[lists[part]] - R[part, None, :]) ** 2).sum(axis=2))
        return lists, reach

    @cached_attribute
    def _bound(self) -> ProjectionBound:
        """Compute the projection that excludes most representatives of rows with many features."""
        return ProjectionBound.fit(self.representatives)

    @cached_attribute
    def _projected(self) -> npt.NDArray[np.float32]:
        """Compute the projections of the representatives."""
        return self._bound.project(self.representatives)[0]

    @cached_attribute
    def _products(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Compute projections of the representatives as columns, and half their squared lengths."""
        table, norms = self._bound.table(self.representatives)
        return table, (0.5 * norms).astype(np.float32)

    @cached_attribute
    def _center_products(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Compute projections of the rep-cluster centres as columns, and half their squared lengths."""
        table, norms = self._bound.table(self.centers)
        return table, (0.5 * norms).astype(np.float32)

    @cached_attribute
    def _sparse_table(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Compute representatives and rep-cluster centres as columns, and their squared lengths."""
        points = np.concatenate([self.representatives, self.centers])
        return np.ascontiguousarray(points.T), np.einsum("ij,ij->i", points, points, dtype=np.float64)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, for files."""
        return {name: np.asarray(value) for name, value in self.__getstate__().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> RepresentativeIndex:
        """Restore an index from what `arrays` returned; other arrays are ignored."""
        parts = {name: arrays[name] for name in ("representatives", "centers", "starts", "lists")}
        kind = RepresentativeIndex if len(parts["lists"]) == len(parts["representatives"]) else ProbeIndex
        return kind(**parts, n_neighbors=int(arrays["n_neighbors"]), exact=bool(arrays["exact"]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without derived tables, for pickles."""
        names = ("representatives", "centers", "starts", "lists", "n_neighbors", "exact")
        return {name: self.__dict__[name] for name in names}


class ProbeIndex(RepresentativeIndex):
    """Finds the K nearest of many representatives among those of the rep-clusters around the row.

    The nearest rep-cluster g of a row is found, and the row is compared with all representatives of the `PROBES`
    rep-clusters nearest to g, g itself among them. Rows that share g meet the same representatives, in one matrix
    product. Its `lists` are of rep-clusters: shape (z, number of probes), itself first.
    """

    @classmethod
    def probe(
        cls,
        representatives: npt.NDArray[np.float32],
        n_neighbors: int,
        rng: np.random.Generator,
        engine: ThreadEngine,
    ) -> ProbeIndex:
        """Group representatives into rep-clusters, and list the nearest rep-clusters of each."""
        representatives, centers, starts = _group(representatives, rng, engine)
        lists = nearest_lists(centers, min(len(centers), PROBES))
        sizes = np.diff(starts)[lists.astype(np.int64)].sum(axis=1)
        return cls(representatives, centers, starts, lists, min(n_neighbors, int(sizes.min())), False)

    def query_into(self, block: Block, ids: Ids, sq: Squares) -> None:
        """Find the nearest representatives, and write them to `ids` and `sq`; sparse rows become dense."""
        if scipy.sparse.issparse(block):
            block = block.toarray()
        n = len(block)
        groups = np.zeros(n, dtype=np.int32)  # nearest rep-cluster of each row
        sq_center = np.empty(n, dtype=np.float32)
        table, half_norms = self._center_products
        norms = np.einsum("ij,ij->i", block, block)
        to_centers = block @ table
        error = rounding_bound(block.shape[1])
        none = np.float32(0.0)
        bits = to_centers.view(np.int32)
        assign_dense_products(block, self.centers, to_centers, bits, half_norms, norms, none, error, groups, sq_center)
        order, runs = search.rows_by_key(groups, len(self.centers))
        buffer = np.empty(PRODUCT_VALUES, dtype=np.float32)  # one for all products: new memory is slow to write to
        for g in np.flatnonzero(np.diff(runs)):
            candidates, columns, halves = self._candidates(int(g))
            step = PRODUCT_VALUES // len(candidates)
            for low in range(runs[g], runs[g + 1], step):
                rows = order[low : min(low + step, runs[g + 1])]
                part = block[rows]
                products = buffer[: len(rows) * len(candidates)].reshape(len(rows), len(candidates))
                found = np.empty((len(rows), self.n_neighbors), dtype=np.uint16)
                distances = np.empty((len(rows), self.n_neighbors), dtype=np.float32)
                search.search_products(
                    part,
                    self.representatives,
                    np.matmul(part, columns, out=products),
                    halves,
                    norms[rows],
                    none,
                    error,
                    candidates,
                    found,
                    distances,
                )
                ids[rows] = found
                sq[rows] = distances

    def exact_twin(self) -> RepresentativeIndex:
        """Return an index of the same representatives that searches all of them."""
        lists = nearest_lists(self.representatives, 1)
        return RepresentativeIndex(self.representatives, self.centers, self.starts, lists, self.n_neighbors, True)

    @property
    def by_tiles(self) -> bool:
        """Whether dense rows are searched in tiles: never."""
        return False

    def _candidates(self, group: int) -> tuple[Ids, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return the representatives to search for rows of a rep-cluster: ids, columns, half their squared lengths."""
        known = self._tables.get(group)
        if known is None:
            near = np.sort(self.lists[group].astype(np.int64))
            candidates = np.concatenate([np.arange(self.starts[g], self.starts[g + 1]) for g in near])
            points = self.representatives[candidates]
            halves = (0.5 * np.einsum("ij,ij->i", points, points, dtype=np.float64)).astype(np.float32)
            known = candidates.astype(np.uint16), np.ascontiguousarray(points.T), halves
            self._tables[group] = known
        return known

    @cached_attribute
    def _tables(self) -> dict[int, Any]:
        """Hold the candidates of the rep-clusters that were searched; threads may compute one twice, to no harm."""
        return {}

    @cached_attribute
    def _center_products(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Compute the rep-cluster centres as columns, and half their squared lengths."""
        halves = 0.5 * np.einsum("ij,ij->i", self.centers, self.centers, dtype=np.float64)
        return np.ascontiguousarray(self.centers.T), halves.astype(np.float32)


def build_index(
    representatives: npt.NDArray[np.float32],
    n_neighbors: int,
    neighborhood_factor: int,
    neighbors: str,
    n_rows: int,
    sparse: bool,
    rng: np.random.Generator,
    engine: ThreadEngine,
) -> RepresentativeIndex:
    """Build the index for a parameter `neighbors`: "approx", "exact", or "auto".

    "auto" searches all representatives while they are few. Beyond, rows of few features use the search of the paper,
    which is nearly exact for them. Others are compared with all if they are `sparse`, or if `n_rows` is small;
    otherwise `ProbeIndex` is used.
    """
    p, d = representatives.shape
    most = EXACT_REPRESENTATIVES if d > FEW_FEATURES else EXACT_REPRESENTATIVES // 2
    if neighbors == "auto" and p > most and not sparse:
        if d > FEW_FEATURES and n_rows > ROWS_PER_REPRESENTATIVE * p:
            return ProbeIndex.probe(representatives, n_neighbors, rng, engine)
        neighbors = "approx" if d <= FEW_FEATURES else "exact"
    exact = neighbors != "approx"
    return RepresentativeIndex.build(representatives, n_neighbors, neighborhood_factor, exact, rng, engine)


def _group(
    representatives: npt.NDArray[np.float32], rng: np.random.Generator, engine: ThreadEngine
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Group representatives into floor(sqrt(p)) rep-clusters.

    Return the representatives sorted by rep-cluster, the centres, and the first representative of each rep-cluster.
    """
    rows = ArrayRows(representatives)
    start = random_centers(rows, int(np.sqrt(len(representatives))), rng)
    result = lloyd(RowPoints(rows), start, engine, max_iter=REP_CLUSTER_ITERATIONS)
    order = np.argsort(result.labels, kind="stable")
    used = np.flatnonzero(result.counts)
    starts = np.concatenate([[0], np.cumsum(result.counts[used])]).astype(np.int64)
    return representatives[order], result.means[used], starts


def rounding_bound(terms: int) -> np.float32:
    """Bound the rounding error of a float32 sum of products, relative to the squared lengths of the factors."""
    return np.float32(2 * (terms + 4) * np.finfo(np.float32).eps)


def nearest_lists(points: npt.NDArray[np.float32], length: int) -> Ids:
    """Return the ids (p, length) of the nearest points of each point, itself first."""
    p = len(points)
    if length == 1:
        return np.arange(p, dtype=np.uint16)[:, None]
    step = max(1, LIST_VALUES // p)
    return np.concatenate([_lists_of(points, low, min(low + step, p), length) for low in range(0, p, step)])


def _lists_of(points: npt.NDArray[np.float32], low: int, high: int, length: int) -> Ids:
    """Return the ids of the nearest points of the points ``low .. high``."""
    p, d = points.shape
    gram = np.zeros((high - low, p))
    norms = np.zeros(p)
    for first in range(0, d, GRAM_FEATURES):
        part = points[:, first : first + GRAM_FEATURES].astype(np.float64)
        gram += part[low:high] @ part.T
        norms += np.einsum("ij,ij->i", part, part)
    if high - low == p:
        norms = np.diagonal(gram).copy()  # rounded like the other entries
    sq = norms[low:high, None] - 2.0 * gram + norms
    # each point comes first in its own list, also before equal points
    sq[np.arange(high - low), np.arange(low, high)] = -np.inf
    if length < p:
        # sorted by id before the stable sort by distance, so that ties are in the order of ids
        ids = np.argpartition(sq, length - 1, axis=1)[:, :length]
        ids.sort(axis=1)
    else:
        ids = np.broadcast_to(np.arange(p), sq.shape)
    order = np.argsort(np.take_along_axis(sq, ids, axis=1), axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(ids, order, axis=1), dtype=np.uint16)
