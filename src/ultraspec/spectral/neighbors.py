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

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import products, search
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
MOST_CANDIDATES = 0.5  # share of the representatives, beyond which all are compared: probing is not much faster
PROBES = 12  # rep-clusters whose representatives a row is compared with
PROJECTED_FEATURES = 256  # with fewer, products of full rows are faster than those of projections
BATCH_VALUES = 2**22  # values of the rows that are searched at once, about
ROWS_PER_OWNER = 64  # rows that share an owner, if possible: more are not faster
LIST_VALUES = 2**24  # distances in memory while lists of nearest representatives are made
GRAM_FEATURES = 4096  # features per product of `nearest_lists`: sparse data may have as many as a vocabulary

Ids = npt.NDArray[np.uint16]
Squares = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Table:
    """Points that rows are compared with by matrix products."""

    points: npt.NDArray[np.float32]  #: (m, d)
    projected: npt.NDArray[np.float32]  #: (m, q), their projections
    half_norms: npt.NDArray[np.float32]  #: (m,), half the squared lengths of the projections

    @classmethod
    def of(cls, points: npt.NDArray[np.float32], bound: ProjectionBound) -> Table:
        """Project points."""
        projected = bound.project(points)[0]
        norms = np.einsum("ij,ij->i", projected, projected, dtype=np.float64)
        return cls(points, projected, (0.5 * norms).astype(np.float32))


@dataclass(frozen=True)
class TableRows:
    """Rows that are compared with points by matrix products."""

    rows: npt.NDArray[np.float32]  #: (n, d)
    projected: npt.NDArray[np.float32]  #: (n, q), their projections
    norms: npt.NDArray[np.float32]  #: (n,), their squared lengths

    def take(self, order: npt.NDArray[np.int64]) -> TableRows:
        """Return copies of rows, in another order."""
        rows = np.take(self.rows, order, axis=0)  # faster than an index
        projected = rows if self.projected is self.rows else np.take(self.projected, order, axis=0)
        return TableRows(rows, projected, self.norms[order])

    def search(
        self,
        table: Table,
        ids: Ids,
        sq: Squares,
        slack: np.float32,
        order: npt.NDArray[np.int64] | None = None,
        runs: npt.NDArray[np.int64] | None = None,
        candidates: Ids | None = None,
        starts: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Find the nearest points of each row: of all points, or of the candidates of its group.

        Parameters are those of `products.search_groups`; without groups, all rows form one.
        """
        n, q = self.projected.shape
        if order is None or runs is None:
            order, runs = np.arange(n), np.array([0, n])
        if candidates is None or starts is None:
            candidates = np.arange(len(table.points), dtype=np.uint16)
            starts = np.array([0, len(candidates)])
        buffers = products.product_buffers(n, q, int(np.diff(starts).max()), ids.shape[1], bool(slack > 0))
        rows = self.rows, self.projected, self.norms, slack, rounding_bound(q), order, runs
        points = table.points, table.projected, table.half_norms, candidates, starts
        products.search_groups(*rows, *points, *buffers, ids, sq)

    def nearest(
        self,
        table: Table,
        slack: np.float32,
        runs: npt.NDArray[np.int64] | None = None,
        candidates: Ids | None = None,
        starts: npt.NDArray[np.int64] | None = None,
    ) -> Ids:
        """Return the nearest point of each row, as `search` finds it; the rows of a group are side by side."""
        n = len(self.rows)
        ids = np.empty((n, 1), dtype=np.uint16)
        self.search(table, ids, np.empty((0, 1), dtype=np.float32), slack, np.arange(n), runs, candidates, starts)
        return ids[:, 0]


def put_back(order: npt.NDArray[np.int64], sources: tuple[Any, ...], targets: tuple[Any, ...]) -> None:
    """Copy rows that are sorted by `order` back to their places; reading out of order is faster than writing."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    for source, target in zip(sources, targets, strict=True):
        np.take(source, places, axis=0, out=target, mode="clip")  # without a mode, NumPy would copy the result


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
        elif self.by_tiles:
            self._query_tiles(block, ids, sq)
        else:
            self._query_products(block, ids, sq)

    def measure(self, block: npt.NDArray[np.float32], ids: Ids) -> Squares:
        """Compute the squared distances that `query` returned with `ids`, bit for bit; only if `by_tiles` is true."""
        sq = np.empty(ids.shape, dtype=np.float32)
        search.measure(block, self._even_features[1], ids, sq)
        return sq

    def _query_tiles(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        """Search for rows of few features: coarse to fine, many rows at a time."""
        self.query_around(block, *self.owners(block), ids, sq)

    def owners(self, block: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int32], Squares]:
        """Return the owner of each row, and the squared distance to it; only if `by_tiles` is true."""
        n = len(block)
        centers, R = self._even_features
        groups = np.zeros(n, dtype=np.int32)  # nearest rep-cluster of each row
        owners = np.empty(n, dtype=np.int32)
        sq_owner = np.empty(n, dtype=np.float32)
        assign_direct(block, centers, groups, sq_owner)
        by_group = search.rows_by_key(groups, len(centers))
        nearest = np.empty(search.TILE, dtype=np.int32)
        buffer = search.tile_buffer(R)
        search.nearest_in_group_tiles(block, *by_group, R, self.starts, buffer, nearest, owners, sq_owner)
        return owners, sq_owner

    def query_around(
        self, block: npt.NDArray[np.float32], owners: npt.NDArray[np.int32], sq_owner: Squares, ids: Ids, sq: Squares
    ) -> None:
        """Find the nearest representatives of rows around their owners, and write them to `ids` and `sq`."""
        K = ids.shape[1]
        R = self._even_features[1]
        best = np.empty((K, search.TILE), dtype=np.float32)
        best_ids = np.empty((K + 1, search.TILE), dtype=np.int32)
        by_owner = search.rows_by_key(owners, len(R))
        buffers = search.tile_buffer(R), best, best_ids
        search.search_tiles(block, *by_owner, sq_owner, R, *self.neighborhoods, *buffers, ids, sq)

    def _query_products(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        """Search for rows of many features by matrix products: all representatives, or coarse to fine."""
        rows = TableRows(block, *self._bound.project(block))
        slack = self._bound.slack
        if self.exact and slack == 0:
            rows.search(self._table, ids, sq, slack)
            return
        if self.exact:
            # rows of a rep-cluster, about, one after another: most of their candidates are then still in the cache
            z, p = len(self.centers), len(self.representatives)
            centers = self._center_table
            groups = (rows.projected @ centers.projected.T - centers.half_norms).argmax(axis=1)
            everyone = np.tile(self._everyone, z), p * np.arange(z + 1)
            rows.search(self._table, ids, sq, slack, *search.rows_by_key(groups, z), *everyone)
            return
        groups = rows.nearest(self._center_table, slack)
        order, runs = search.rows_by_key(groups, len(self.centers))
        # rows of a rep-cluster side by side: also those that share an owner are then close together in memory
        rows = rows.take(order)
        p, length = self.lists.shape
        owners = rows.nearest(self._table, slack, runs, self._everyone, self.starts)
        by_owner = search.rows_by_key(owners, p)
        results = np.empty_like(ids), np.empty_like(sq)
        rows.search(self._table, *results, slack, *by_owner, self.lists.reshape(-1), length * np.arange(p + 1))
        put_back(order, results, (ids, sq))

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
    def batch_rows(self) -> int:
        """Number of rows that should be searched at once: the more of them share an owner, the faster products are."""
        if self.exact or self.by_tiles:
            return 1
        p, d = self.representatives.shape
        return min(BATCH_VALUES // d, ROWS_PER_OWNER * p)

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
    def neighborhoods(self) -> tuple[Ids, npt.NDArray[np.float32]]:
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
        """Compute the projection that excludes most representatives of rows with many features in an exact search.

        The few candidates of the other search are too close to each other to be excluded.
        """
        if not self.exact or self.representatives.shape[1] < PROJECTED_FEATURES:
            return ProjectionBound()
        return ProjectionBound.fit(self.representatives)

    @cached_attribute
    def _table(self) -> Table:
        """Compute what products with the representatives need."""
        return Table.of(self.representatives, self._bound)

    @cached_attribute
    def _center_table(self) -> Table:
        """Compute what products with the rep-cluster centres need."""
        return Table.of(self.centers, self._bound)

    @cached_attribute
    def _everyone(self) -> Ids:
        """List all representatives."""
        return np.arange(len(self.representatives), dtype=np.uint16)

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
        rows = TableRows(block, *self._bound.project(block))
        groups = rows.nearest(self._center_table, self._bound.slack)
        order, runs = search.rows_by_key(groups, len(self.centers))
        rows = rows.take(order)
        results = np.empty_like(ids), np.empty_like(sq)
        in_order = np.arange(len(order))
        rows.search(self._table, *results, self._bound.slack, in_order, runs, *self._candidates)
        put_back(order, results, (ids, sq))

    def exact_twin(self) -> RepresentativeIndex:
        """Return an index of the same representatives that searches all of them."""
        lists = nearest_lists(self.representatives, 1)
        return RepresentativeIndex(self.representatives, self.centers, self.starts, lists, self.n_neighbors, True)

    @property
    def mean_candidates(self) -> float:
        """Number of representatives that a row is compared with, if rows are distributed as representatives are."""
        sizes = np.diff(self.starts)
        return float(sizes @ sizes[self.lists.astype(np.int64)].sum(axis=1) / sizes.sum())

    @property
    def batch_rows(self) -> int:
        """Number of rows that should be searched at once: the more share candidates, the faster products are."""
        return BATCH_VALUES // self.representatives.shape[1]

    @property
    def by_tiles(self) -> bool:
        """Whether dense rows are searched in tiles: never."""
        return False

    @cached_attribute
    def _bound(self) -> ProjectionBound:
        """Compare full rows: many representatives are too close to each other for projections."""
        return ProjectionBound()

    @cached_attribute
    def _candidates(self) -> tuple[Ids, npt.NDArray[np.int64]]:
        """List the representatives to search for rows of each rep-cluster, ascending; and where each list starts."""
        ranges = [np.arange(low, high) for low, high in pairwise(self.starts)]
        parts = [np.concatenate([ranges[g] for g in near]) for near in np.sort(self.lists, axis=1)]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return np.concatenate(parts).astype(np.uint16), starts


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
    which is nearly exact for them. Others are compared with all if they are `sparse`, if `n_rows` is small, or if some
    rep-clusters are so large that probing saves little; otherwise `ProbeIndex` is used.
    """
    p, d = representatives.shape
    most = EXACT_REPRESENTATIVES if d > FEW_FEATURES else EXACT_REPRESENTATIVES // 2
    if neighbors == "auto" and p > most and not sparse:
        if d > FEW_FEATURES and n_rows > ROWS_PER_REPRESENTATIVE * p:
            index = ProbeIndex.probe(representatives, n_neighbors, rng, engine)
            return index if index.mean_candidates <= MOST_CANDIDATES * p else index.exact_twin()
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
    if length == p:
        return np.argsort(sq, axis=1, kind="stable").astype(np.uint16)
    # sorted by id before the stable sort by distance, so that ties are in the order of ids
    ids = np.argpartition(sq, length - 1, axis=1)[:, :length]
    ids.sort(axis=1)
    order = np.argsort(np.take_along_axis(sq, ids, axis=1), axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(ids, order, axis=1), dtype=np.uint16)
