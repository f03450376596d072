"""Edges of all rows to their nearest representatives (paper, section 3.1.2): stored, or computed again when needed.

`connect` finds the edges of every row and the width of the affinity. `find_edges` finds edges to the representatives
of a graph that exists already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec._kernels import graph as kernels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import (
    NO_WEIGHTS,
    Block,
    Rows,
    RowSample,
    Span,
    allocate_rows,
    cut_span,
    draw_rows,
    sample_rows,
    stays_in_memory,
    take_sample,
)
from ultraspec.spectral.neighbors import ROWS_PER_REPRESENTATIVE, ProbeIndex, RepresentativeIndex
from ultraspec.storage.spool import Spool

BLOCK_ROWS = 32768
SMALL_BLOCK_EDGES = 2**16
MOST_WIDENED = 1.25  # factor by which a few distant rows may widen sigma; scores fall from here on
LEAST_OTHER_ROWS = 100  # among fewer rows, one is a notable share in any case
MEDIAN_ROWS = 2**14  # rows whose distances give the median
GRAPH_VALUES = 2**25  # values of the rows that a graph is built from if not all are searched exactly, at most
BATCHES_PER_THREAD = 4  # at least: threads should end at about the same time
MEDIAN_FACTOR = 0.7  # sigma in units of the median distance

Floats = npt.NDArray[np.float64]
T = TypeVar("T")


@dataclass
class Edges:
    """K edges of every row to representatives: 30 bytes per row at K = 5.

    Attributes
    ----------
    ids : ndarray of shape (n, K), uint16
        Representatives, the nearest first.
    weights : ndarray of shape (n, K), float32
        Squared distances at first; `weigh` turns them into transition probabilities.
    sigma : float
        Width of the affinity.
    masses : ndarray of shape (n,) or (1,), float64
        Weight of each row, or of every row.
    """

    ids: npt.NDArray[np.uint16]
    weights: npt.NDArray[np.float32]
    sigma: float = 1.0
    masses: Floats = field(default_factory=lambda: NO_WEIGHTS)

    @classmethod
    def empty(cls, n: int, K: int) -> Edges:
        """Allocate the edges of `n` rows."""
        return cls(np.empty((n, K), dtype=np.uint16), np.empty((n, K), dtype=np.float32))

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Edges:
        masses = self.masses[rows] if len(self.masses) > 1 else self.masses
        return Edges(self.ids[rows], self.weights[rows], self.sigma, masses)

    def __setitem__(self, rows: slice, edges: Edges) -> None:
        self.ids[rows] = edges.ids
        self.weights[rows] = edges.weights

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_neighbors(self) -> int:
        """Edges per row, K."""
        return self.ids.shape[1]

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""
        n, K = self.ids.shape
        step = BLOCK_ROWS if n > 16 * BLOCK_ROWS else SMALL_BLOCK_EDGES // K
        return cut_span((0, n), step)

    def weigh(self) -> Floats:
        """Turn squared distances into transition probabilities, in place; return the degrees of the rows.

        The affinity of an edge is exp(-d^2 / (2 sigma^2)), and the degree of a row is the sum of its affinities.
        """
        degrees = np.empty(len(self))
        kernels.transitions(self.weights, self.sigma, degrees)
        return degrees

    def allocate(self, dtype: npt.DTypeLike) -> Any:
        """Allocate one value per row."""
        return np.empty(len(self), dtype=dtype)

    def map(self, function: Callable[[Edges, Span], T], engine: ThreadEngine) -> list[T]:
        """Return the results of ``function(edges, span)`` for each block of rows, in order."""
        return engine.map(lambda span: function(self[slice(*span)], span), self.blocks())


@dataclass(frozen=True)
class LazyEdges:
    """Edges that are computed again whenever they are needed, for rows that are not in memory.

    Attributes
    ----------
    rows : Rows
        Preprocessed rows.
    index : RepresentativeIndex
        Finds their nearest representatives.
    sigma : float
        Width of the affinity.
    ids : Spool, optional
        Nearest representatives of all rows in a temporary file, K per row: measuring their distances again is faster
        than searching again.
    """

    rows: Rows
    index: RepresentativeIndex
    sigma: float
    ids: Spool | None = None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the pass over all rows computed, for a checkpoint."""
        return {"sigma": np.asarray(self.sigma)}

    @classmethod
    def from_arrays(cls, rows: Rows, index: RepresentativeIndex, arrays: dict[str, npt.NDArray[Any]]) -> LazyEdges:
        """Restore edges from what `arrays` returned."""
        return cls(rows, index, float(arrays["sigma"]))

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Edges:
        if isinstance(rows, slice):
            span = rows.start, rows.stop
            edges = self.finder(self.rows.read(*span), span, self.rows.read_weights(*span))
            edges.weigh()
            return edges
        parts = self.rows.gather(rows, functools.partial(new_edges, index=self.index, sigma=self.sigma))
        ids = np.concatenate([part.ids for part in parts])
        masses = NO_WEIGHTS if self.rows.weights is None else self.rows.weights.take(rows)
        return Edges(ids, np.concatenate([part.weights for part in parts]), self.sigma, masses)

    @property
    def finder(self) -> Callable[[Block, Span, Floats], Edges]:
        """Function that finds the edges of a block of rows, with squared distances; workers of a cluster can run it."""
        return functools.partial(_find, self.index, self.sigma, self.ids)

    def without_ids(self) -> LazyEdges:
        """Return a copy without the temporary file."""
        return replace(self, ids=None)

    def __len__(self) -> int:
        return self.rows.n_rows

    @property
    def n_neighbors(self) -> int:
        """Edges per row, K."""
        return self.index.n_neighbors

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""
        return self.rows.blocks()

    def allocate(self, dtype: npt.DTypeLike) -> Any:
        """Allocate one value per row; return None if rows are on a cluster, where results must stay, too."""
        return None if self.rows.remote else allocate_rows(self.rows, dtype)

    def map(self, function: Callable[[Edges, Span], T], engine: ThreadEngine) -> list[T]:
        """Return the results of ``function(edges, span)`` for each block of rows, in order."""
        find = self.finder  # without `self`: blocks may be read on workers, which must not receive the rows

        def run(block: Block, span: Span, masses: Floats) -> T:
            edges = find(block, span, masses)
            edges.weigh()
            return function(edges, span)

        return engine.map_rows(self.rows, run, weighted=True)


def _find(
    index: RepresentativeIndex, sigma: float, all_ids: Spool | None, block: Block, span: Span, masses: Floats
) -> Edges:
    if all_ids is None:
        return Edges(*index.query(block), sigma, masses)
    K = index.n_neighbors
    ids = all_ids[span[0] * K : span[1] * K].reshape(-1, K)
    return Edges(ids, index.measure(block, ids), sigma, masses)


def connect(
    rows: Rows,
    index: RepresentativeIndex,
    engine: ThreadEngine,
    stored: bool = True,
    out: Edges | None = None,
    affinity: str = "paper",
    *,
    warn: bool = True,
) -> Edges | LazyEdges:
    """Find the K nearest representatives of every row, and sigma, the width of the affinity.

    Parameters
    ----------
    rows : Rows
        Preprocessed rows.
    index : RepresentativeIndex
        Finds the nearest representatives.
    engine : ThreadEngine
        Runs the pass.
    stored : bool, default=True
        Whether all edges are stored in memory; else they are computed again when they are needed.
    out : Edges, optional
        Where to store them, if it has the right shape.
    affinity : {"paper", "robust"}, default="paper"
        Whether sigma is the mean distance, or 0.7 times the median distance of a sample of rows.
    warn : bool, default=True
        Whether to warn of distant rows that make the mean distance too large for all others.

    Returns
    -------
    Edges or LazyEdges
        The edges; stored ones have squared distances as weights.
    """
    robust = affinity == "robust"
    warn = warn and not robust
    if stored:
        shape = (rows.n_rows, index.n_neighbors)
        edges = out if out is not None and out.ids.shape == shape else Edges.empty(*shape)
        edges = replace(edges, masses=rows.read_weights(0, rows.n_rows))
        mean = _search(rows, index, engine, edges, None, warn=warn)
        if robust:
            drawn = _sample(rows)
            return replace(edges, sigma=_robust_sigma(drawn.repeat(edges.weights[drawn.indices])))
        return replace(edges, sigma=mean)
    ids = None
    if index.by_tiles and not rows.remote and not rows.sparse:
        ids = Spool.if_space(rows.n_rows * index.n_neighbors, np.uint16)
    if ids is not None or not robust:
        sigma = _search(rows, index, engine, None, ids, warn=warn)
    if robust:
        drawn = _sample(rows)
        sq = rows.gather(drawn.indices, functools.partial(_squares, index))
        sigma = _robust_sigma(drawn.repeat(np.concatenate(sq)))
    return LazyEdges(rows, index, sigma, ids)


def exact_edges(
    edges: Edges | LazyEdges, rows: Rows, index: RepresentativeIndex, engine: ThreadEngine
) -> tuple[Edges | LazyEdges, Rows]:
    """Return the edges that the graph is built from, and their rows: all of them, if their search is accurate.

    `ProbeIndex` misses some neighbours, which labels bear but a graph does not: a sample of rows is searched exactly.
    """
    if not isinstance(index, ProbeIndex):
        return edges, rows
    n = min(ROWS_PER_REPRESENTATIVE * len(index.representatives), GRAPH_VALUES // rows.n_features)
    sample = take_sample(rows, sample_rows(rows, n, np.random.default_rng(0)))
    exact = engine.apply(connect_exactly, sample, index.exact_twin(), edges.sigma)
    if isinstance(edges, Edges):
        edges.map(lambda part, span: part.weigh(), engine)  # noqa: ARG005  as summing up the graph does for its edges
    return exact, sample


def connect_exactly(rows: Rows, index: RepresentativeIndex, sigma: float, engine: ThreadEngine) -> Edges:
    """Find the edges of rows in memory to the representatives of an index."""
    edges = Edges.empty(rows.n_rows, index.n_neighbors)
    _search(rows, index, engine, edges, None, warn=False)
    return replace(edges, sigma=sigma, masses=rows.read_weights(0, rows.n_rows))


def _sample(rows: Rows) -> RowSample:
    """Return the rows whose distances give the median."""
    return draw_rows(rows, MEDIAN_ROWS, np.random.default_rng(0))


def _robust_sigma(sq: npt.NDArray[np.float32]) -> float:
    """Return 0.7 times the median of distances, given their squares; zeros are left out.

    A few distant rows do not change the median, but they may change the mean.
    """
    positive = sq[sq > 0]
    return MEDIAN_FACTOR * float(np.sqrt(np.median(positive))) if positive.size else 1.0


def _squares(index: RepresentativeIndex, block: Block) -> npt.NDArray[np.float32]:
    return index.query(block)[1]


def _search(
    rows: Rows, index: RepresentativeIndex, engine: ThreadEngine, edges: Edges | None, ids: Spool | None, *, warn: bool
) -> float:
    """Search the nearest representatives of all rows, store them if asked to, and return the mean distance.

    Several blocks are searched at once where that is faster. Sums are of single blocks, so they do not change.
    """
    n, K = rows.n_rows, index.n_neighbors

    def search(block: Block, spans: Sequence[Span], masses: Floats) -> list[tuple[float, float, int, float]]:
        first, last = spans[0][0], spans[-1][1]
        part = edges[first:last] if edges is not None else Edges.empty(last - first, K)
        index.query_into(block, part.ids, part.weights)
        if ids is not None:
            ids[first * K : last * K] = part.ids.reshape(-1)
        return [
            _sum_up(
                part.weights[low - first : high - first],
                low,
                masses[low - first : high - first] if len(masses) > 1 else masses,
            )
            for low, high in spans
        ]

    def search_batch(spans: Sequence[Span]) -> list[tuple[float, float, int, float]]:
        span = spans[0][0], spans[-1][1]
        return search(rows.read(*span), spans, rows.read_weights(*span))

    if rows.remote:
        parts = engine.map_rows(rows, lambda block, span, masses: search(block, [span], masses), weighted=True)
    else:
        parts = engine.map(search_batch, _batches(rows, index, engine.n_jobs))
    results = [result for part in parts for result in part]
    mass = n if rows.weights is None else float(rows.weights.totals.sum())
    sigma = sum(total for total, *_ in results) / (mass * K) or 1.0
    if warn:
        _warn_of_distant_rows([farthest for _, *farthest in results], sigma, n, mass, K)
    return sigma


def _sum_up(sq: npt.NDArray[np.float32], first_row: int, masses: Floats) -> tuple[float, float, int, float]:
    """Return the sum of the distances of a block, that of its farthest row, the number of this row and its weight."""
    if len(masses) == 1:
        farthest = int(sq[:, -1].argmax())
        far_sum = float(np.sqrt(sq[farthest]).sum(dtype=np.float64))
        return float(np.sqrt(sq).sum(dtype=np.float64)), far_sum, first_row + farthest, 1.0
    farthest = int(np.where(masses > 0, sq[:, -1], -1).argmax())
    sums = np.sqrt(sq).sum(axis=1, dtype=np.float64)
    mass = float(masses[farthest])
    return float(sums @ masses), mass * float(sums[farthest]), first_row + farthest, mass


def _batches(rows: Rows, index: RepresentativeIndex, n_jobs: int) -> list[list[Span]]:
    """Divide the blocks of rows into batches of consecutive ones that are searched at once, enough for all threads."""
    blocks = rows.blocks()
    most = 1 if rows.sparse else index.batch_rows // max(1, rows.block_rows)
    step = max(1, min(most, len(blocks) // (BATCHES_PER_THREAD * n_jobs)))
    return [blocks[low : low + step] for low in range(0, len(blocks), step)]


def _warn_of_distant_rows(farthest: list[Any], sigma: float, n: int, mass: float, K: int) -> None:
    """Warn if sigma would be much smaller without the farthest row of each block: (distance sum, row, weight)."""
    others = mass - sum(weight for *_, weight in farthest)
    if n - len(farthest) < LEAST_OTHER_ROWS or others <= 0:
        return
    without = (sigma * mass * K - sum(total for total, *_ in farthest)) / (others * K)
    if 0 < without * MOST_WIDENED < sigma:
        row = max(farthest)[1]
        warn_user(  # without figures, which differ between members of an ensemble: the warning is shown once
            f"Row {row} of the {n:,} rows in the graph is so distant that it widens sigma, the scale of all "
            "affinities: clusters that touch are no longer separated. Drop or clip such outliers, or transform the "
            "columns (logarithms, ranks).",
            UserWarning,
        )


def find_edges(rows: Rows, index: RepresentativeIndex, sigma: float, engine: ThreadEngine) -> Edges | LazyEdges:
    """Find the edges of all rows to the representatives of an existing graph: stored if the rows are in memory."""
    lazy_edges = LazyEdges(rows, index, sigma)
    if not stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors):
        return lazy_edges
    edges = replace(Edges.empty(rows.n_rows, index.n_neighbors), sigma=sigma, masses=rows.read_weights(0, rows.n_rows))

    def fill(part: Edges, span: Span) -> None:
        edges[slice(*span)] = part

    lazy_edges.map(fill, engine)
    return edges


def new_edges(block: Block, index: RepresentativeIndex, sigma: float) -> Edges:
    """Find the edges of rows that may not have been fitted, with transition probabilities."""
    edges = Edges(*index.query(block), sigma)
    edges.weigh()
    return edges
