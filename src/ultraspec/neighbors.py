"""Phase 2, K nearest representatives (paper, section 3.1.2): takes representatives, answers for blocks of rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import search
from ultraspec._kernels.sparse import search_sparse, sparse_products
from ultraspec.engines import ThreadEngine
from ultraspec.kmeans import DIRECT_FEATURES, lloyd, random_centers
from ultraspec.rows import ArrayRows, Block

REP_CLUSTER_ITERATIONS = 20
EXACT_TABLE_FEATURES = 8  # beyond, the triangle inequality prunes too little and a matrix product wins
EXACT_TABLE_VALUES = 2**24  # values of the full neighbour tables, at most (64 MB)
PRODUCT_ROWS = 2048  # rows that meet all representatives at once: a temporary of 8 MB at p = 1000

Ids = npt.NDArray[np.uint16]
Squares = npt.NDArray[np.float32]


class RepresentativeIndex:
    """Finds the K nearest representatives of rows, coarse-to-fine or exactly.

    Use `build` for new representatives. The arrays given here are the whole state.

    Parameters
    ----------
    representatives : ndarray of shape (p, d), float32
        The representatives.
    centers : ndarray of shape (z, d), float32
        Centres of the rep-clusters.
    groups : ndarray of shape (p,), int32
        Rep-cluster of each representative; none is empty.
    lists : ndarray of shape (p, L), uint16
        Nearest representatives of each representative, itself first.
    n_neighbors : int
        K.
    exact : bool
        Search all representatives instead of the neighbourhood of one near by.
    """

    def __init__(
        self,
        representatives: npt.NDArray[np.float32],
        centers: npt.NDArray[np.float32],
        groups: npt.NDArray[np.int32],
        lists: Ids,
        n_neighbors: int,
        exact: bool,
    ) -> None:
        self.representatives = representatives
        self.centers = centers
        self.groups = groups
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
        random: np.random.Generator,
        engine: ThreadEngine,
    ) -> RepresentativeIndex:
        """Group representatives into floor(sqrt(p)) rep-clusters and list the K' nearest of each.

        `n_neighbors` and the length of the lists are cut to p where there are fewer representatives.
        """
        p = len(representatives)
        rows = ArrayRows(representatives)
        start = random_centers(rows, int(np.sqrt(p)), random)
        found = lloyd(rows, start, engine, max_iter=REP_CLUSTER_ITERATIONS)
        used = np.flatnonzero(found.counts)
        groups = np.searchsorted(used, found.labels).astype(np.int32)
        n_neighbors = min(n_neighbors, p)
        lists = nearest_lists(representatives, min(p, neighborhood_factor * n_neighbors + 1))
        return cls(representatives, found.means[used], groups, lists, n_neighbors, exact)

    def query(self, block: Block) -> tuple[Ids, Squares]:
        """Ids (n, K) of the nearest representatives, nearest first, and squared distances (n, K)."""
        n, K = block.shape[0], self.n_neighbors
        ids = np.empty((n, K), dtype=np.uint16)
        sq = np.empty((n, K), dtype=np.float32)
        self.query_into(block, ids, sq)
        return ids, sq

    def query_into(self, block: Block, ids: Ids, sq: Squares) -> None:
        """`query`, written to `ids` and `sq`."""
        d = self.representatives.shape[1]
        if scipy.sparse.issparse(block):
            self._query_sparse(block, ids, sq)
        elif self.exact and not self._exact_by_tables:
            self._query_products(block, ids, sq)
        elif d <= DIRECT_FEATURES:
            search.search_tables(block, *self._tables, ids, sq)
        else:
            self._query_lists(block, ids, sq)

    def _query_lists(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        n, R = len(block), self.representatives
        starts, members = self._members
        order = np.arange(n)
        groups = np.empty(n, dtype=np.int64)
        owners = np.empty(n, dtype=np.int64)
        z = len(self.centers)
        one_group = np.zeros(n, dtype=np.int64)
        search.nearest_in_group(block, order, self.centers, np.array([0, z]), np.arange(z), one_group, groups)
        order = np.argsort(groups, kind="stable")
        search.nearest_in_group(block, order, R, starts, members, groups, owners)
        order = np.argsort(owners, kind="stable")
        search.search_lists(block, order, R, owners, self.lists, ids, sq)

    def _query_products(self, block: npt.NDArray[np.float32], ids: Ids, sq: Squares) -> None:
        d = self.representatives.shape[1]
        table, half_norms = self._products
        error = np.float32(2 * (d + 4) * np.finfo(np.float32).eps)
        for low in range(0, len(block), PRODUCT_ROWS):
            part = slice(low, low + PRODUCT_ROWS)
            products = block[part] @ table
            search.search_products(block[part], self.representatives, products, half_norms, error, ids[part], sq[part])

    def _query_sparse(self, block: Any, ids: Ids, sq: Squares) -> None:
        table, norms = self._sparse_table
        starts, members = self._members
        matrix = block.indptr, block.indices, block.data
        products = np.empty((block.shape[0], table.shape[1]), dtype=np.float32)
        sparse_products(*matrix, table, products)
        search_sparse(*matrix, products, table, norms, starts, members, self.lists, self.exact, ids, sq)

    @property
    def _exact_by_tables(self) -> bool:
        p, d = self.representatives.shape
        return d <= EXACT_TABLE_FEATURES and p * p * d <= EXACT_TABLE_VALUES

    @cached_property
    def _members(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Representatives grouped by rep-cluster: starts (z + 1,) and members (p,)."""
        members = np.argsort(self.groups, kind="stable")
        return np.searchsorted(self.groups[members], np.arange(len(self.centers) + 1)), members

    @cached_property
    def _tables(self) -> tuple[npt.NDArray[Any], ...]:
        """What `search_tables` reads, see there; columns that fill up to whole lanes are infinitely far."""
        R = self.representatives
        p, d = R.shape
        lists = nearest_lists(R, p) if self.exact else self.lists
        starts, members = self._members
        widths = -(-np.diff(starts) // 8) * 8
        padded = np.concatenate([[0], np.cumsum(widths)])
        fine = np.full((d, padded[-1]), np.inf, dtype=np.float32)
        fine_ids = np.zeros(padded[-1], dtype=np.uint16)
        for g, first in enumerate(padded[:-1]):
            own = members[starts[g] : starts[g + 1]]
            fine[:, first : first + len(own)] = R[own].T
            fine_ids[first : first + len(own)] = own
        coarse = np.full((d, -(-len(self.centers) // 8) * 8), np.inf, dtype=np.float32)
        coarse[:, : len(self.centers)] = self.centers.T
        length = lists.shape[1]
        lanes = -(-length // search.LANES) * search.LANES
        tables = np.full((p, d, lanes), np.inf, dtype=np.float32)
        tables[:, :, :length] = R[lists].transpose(0, 2, 1)
        padded_lists = np.zeros((p, lanes), dtype=np.uint16)
        padded_lists[:, :length] = lists
        reach = np.full((p, lanes), np.inf, dtype=np.float32)
        reach[:, :length] = np.sqrt(((R[lists] - R[:, None, :]) ** 2).sum(axis=2))
        return coarse, padded, fine, fine_ids, tables, padded_lists, reach

    @cached_property
    def _products(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Representatives as columns, and half their squared lengths."""
        R = self.representatives
        return np.ascontiguousarray(R.T), (0.5 * _squared_lengths(R)).astype(np.float32)

    @cached_property
    def _sparse_table(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Representatives and rep-cluster centres as columns, and their squared lengths."""
        both = np.concatenate([self.representatives, self.centers])
        return np.ascontiguousarray(both.T), _squared_lengths(both)

    def __getstate__(self) -> dict[str, Any]:
        """Leave derived tables out of pickles."""
        kept = ("representatives", "centers", "groups", "lists", "n_neighbors", "exact")
        return {name: self.__dict__[name] for name in kept}


def _squared_lengths(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return np.einsum("ij,ij->i", points, points, dtype=np.float64)


def nearest_lists(points: npt.NDArray[np.float32], length: int) -> Ids:
    """Ids of the `length` nearest points of each point, itself first."""
    p, d = points.shape
    gram = np.zeros((p, p))
    for low in range(0, d, 4096):  # a slice of features at a time: d may be a vocabulary
        part = points[:, low : low + 4096].astype(np.float64)
        gram += part @ part.T
    norms = np.diagonal(gram).copy()
    sq = norms[:, None] - 2.0 * gram + norms
    np.fill_diagonal(sq, -np.inf)
    if length < p:
        ids = np.argpartition(sq, length - 1, axis=1)[:, :length]
        ids.sort(axis=1)
    else:
        ids = np.broadcast_to(np.arange(p), (p, p))
    order = np.argsort(np.take_along_axis(sq, ids, axis=1), axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(ids, order, axis=1), dtype=np.uint16)
