"""The edges of rows to their nearest representatives (paper, section 3.1.3): kept, or found anew when they are needed.

`connect` finds every row's edges and the width of the affinity; `find_edges` those of rows to a graph that is there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec._kernels import graph as kernels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span, cut_span
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.storage.spool import Spool, room_for, stays_in_memory

BLOCK_ROWS = 32768  # of edges
SMALL_BLOCK_EDGES = 2**16
MOST_WIDENED = 1.25  # sigma by a few far rows; scores fall from here on
LEAST_OTHER_ROWS = 100  # of fewer, one is a notable share in any case

Floats = npt.NDArray[np.float64]
T = TypeVar("T")


@dataclass
class Edges:
    """The K edges of every row to representatives: 30 bytes a row at K = 5.

    Attributes
    ----------
    ids : ndarray of shape (n, K), uint16
        Representatives, the nearest first.
    weights : ndarray of shape (n, K), float32
        Squared distances at first; `reduce_graph` turns them into transition probabilities.
    """

    ids: npt.NDArray[np.uint16]
    weights: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, n: int, K: int) -> Edges:
        """Room for the edges of `n` rows."""
        return cls(np.empty((n, K), dtype=np.uint16), np.empty((n, K), dtype=np.float32))

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Edges:
        return Edges(self.ids[rows], self.weights[rows])

    def __setitem__(self, rows: slice, edges: Edges) -> None:
        self.ids[rows] = edges.ids
        self.weights[rows] = edges.weights

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_neighbors(self) -> int:
        """K."""
        return self.ids.shape[1]

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges that cover all rows in order."""
        n, K = self.ids.shape
        step = BLOCK_ROWS if n > 16 * BLOCK_ROWS else SMALL_BLOCK_EDGES // K
        return cut_span((0, n), step)

    def weigh(self, sigma: float) -> Floats:
        """Turn squared distances into transition probabilities, in place; gives the rows' degrees."""
        degrees = np.empty(len(self))
        kernels.transitions(self.weights, sigma, degrees)
        return degrees

    def room(self, dtype: npt.DTypeLike) -> Any:
        """Room for one value per row."""
        return np.empty(len(self), dtype=dtype)

    def map(self, function: Callable[[Edges, Span], T], engine: ThreadEngine) -> list[T]:
        """Results of ``function(edges, span)`` for each block of rows, in order."""
        return engine.map(lambda span: function(self[slice(*span)], span), self.blocks())


@dataclass(frozen=True)
class LazyEdges:
    """The same edges, found anew whenever some are asked for: where the rows themselves are not in memory.

    Attributes
    ----------
    rows : Rows
        Prepared rows.
    index : RepresentativeIndex
        Finds their nearest representatives.
    sigma : float
        Width of the affinity.
    ids : Spool, optional
        The representatives that `connect` found, K for each row, in a temporary file: measuring their distances again
        is faster than a search.
    """

    rows: Rows
    index: RepresentativeIndex
    sigma: float
    ids: Spool | None = None

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Edges:
        if isinstance(rows, slice):
            edges = self.finder(self.rows.read(rows.start, rows.stop), (rows.start, rows.stop))
            edges.weigh(self.sigma)
            return edges
        found = self.rows.gather(rows, functools.partial(new_edges, index=self.index, sigma=self.sigma))
        return Edges(*(np.concatenate(arrays) for arrays in zip(*((e.ids, e.weights) for e in found), strict=True)))

    @property
    def finder(self) -> Callable[[Block, Span], Edges]:
        """Gives the edges of a block of prepared rows with squared distances, wherever that is."""
        return functools.partial(_find, self.index, self.ids)

    def without_ids(self) -> LazyEdges:
        """The same without its file."""
        return replace(self, ids=None)

    def __len__(self) -> int:
        return self.rows.n_rows

    @property
    def n_neighbors(self) -> int:
        """K."""
        return self.index.n_neighbors

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        return self.rows.blocks()

    def room(self, dtype: npt.DTypeLike) -> Any:
        """Room for one value per row; None where rows are on a cluster, and so must be what is made of them."""
        return None if self.rows.remote else room_for(self.rows, dtype)

    def map(self, function: Callable[[Edges, Span], T], engine: ThreadEngine) -> list[T]:
        """Results of ``function(edges, span)`` for each block of rows, in order."""
        find, sigma = self.finder, self.sigma

        def run(block: Block, span: Span) -> T:
            edges = find(block, span)
            edges.weigh(sigma)
            return function(edges, span)

        return engine.map_rows(self.rows, run)


def _find(index: RepresentativeIndex, kept: Spool | None, block: Block, span: Span) -> Edges:
    if kept is None:
        return Edges(*index.query(block))
    K = index.n_neighbors
    ids = kept[span[0] * K : span[1] * K].reshape(-1, K)
    return Edges(ids, index.measure(block, ids))


def connect(
    rows: Rows, index: RepresentativeIndex, engine: ThreadEngine, *, keep: bool = True, out: Edges | None = None
) -> tuple[Edges | LazyEdges, float]:
    """Edges of all rows, and sigma, the mean distance to the K nearest.

    Edges that are kept are written to `out`, if it has the right shape; others will be found again. Warns where a few
    far rows make sigma too wide for all others.
    """
    n, K = rows.n_rows, index.n_neighbors
    edges, ids = None, None
    if keep:
        edges = out if out is not None and out.ids.shape == (n, K) else Edges.empty(n, K)
    elif index.by_tiles and not rows.remote and not rows.sparse:
        ids = Spool.if_room(n * K, np.uint16)

    def search(block: Block, span: Span) -> tuple[float, float, int]:
        part = edges[slice(*span)] if edges is not None else Edges.empty(span[1] - span[0], K)
        index.query_into(block, part.ids, part.weights)
        if ids is not None:
            ids[span[0] * K : span[1] * K] = part.ids.reshape(-1)
        far = int(part.weights[:, -1].argmax())
        far_sum = float(np.sqrt(part.weights[far]).sum(dtype=np.float64))
        return float(np.sqrt(part.weights).sum(dtype=np.float64)), far_sum, span[0] + far

    found = engine.map_rows(rows, search)
    sigma = sum(total for total, _, _ in found) / (n * K) or 1.0
    _warn_of_far_rows([far for _, *far in found], sigma, n, K)
    return edges if edges is not None else LazyEdges(rows, index, sigma, ids), sigma


def _warn_of_far_rows(farthest: list[Any], sigma: float, n: int, K: int) -> None:
    """Warn if sigma would be much smaller without the farthest row of each block, given as (sum of distances, row)."""
    others = n - len(farthest)
    if others < LEAST_OTHER_ROWS:
        return
    without = (sigma * n * K - sum(total for total, _ in farthest)) / (others * K)
    if 0 < without * MOST_WIDENED < sigma:
        row = max(farthest)[1]
        warn_user(  # without figures, which would differ from member to member of an ensemble: it is shown once
            f"Row {row} of the {n:,} rows in the graph lies so far away that it widens sigma, the scale of all "
            "affinities: clusters that touch are no longer told apart. Drop or clip such outliers, or transform the "
            "columns (logarithms, ranks).",
            UserWarning,
        )


def find_edges(rows: Rows, index: RepresentativeIndex, sigma: float, engine: ThreadEngine) -> Edges | LazyEdges:
    """Edges of all rows to representatives of a graph that is there already: kept where the rows are in memory."""
    found = LazyEdges(rows, index, sigma)
    if not stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors):
        return found
    edges = Edges.empty(rows.n_rows, index.n_neighbors)

    def fill(part: Edges, span: Span) -> None:
        edges[slice(*span)] = part

    found.map(fill, engine)
    return edges


def new_edges(block: Block, index: RepresentativeIndex, sigma: float) -> Edges:
    """Transition probabilities of rows that may not have been part of the fit: what `reduce_graph` leaves for one."""
    edges = Edges(*index.query(block))
    edges.weigh(sigma)
    return edges
