"""Phase 3, the bipartite graph (paper, section 3.1.3): takes nearest representatives, gives the spectral embedding.

`connect` finds every row's edges, `reduce_graph` turns them into transition probabilities and the p x p affinity of
the representatives, `transfer_cut` takes its eigenvectors, and `lift` carries them back to the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse.csgraph
import scipy.spatial.distance

from ultraspec._kernels import graph as kernels
from ultraspec._lapack import largest_eigenpairs
from ultraspec._spool import room_for, stays_in_memory
from ultraspec._validation import warn_user
from ultraspec.engines import ThreadEngine
from ultraspec.neighbors import RepresentativeIndex
from ultraspec.rows import Block, Rows

KEPT_VECTORS = 60  # eigenvectors that models keep, for other numbers of clusters
MOST_AUTO_CLUSTERS = 50  # n_clusters="auto" looks for a gap up to here
BLOCK_ROWS = 32768  # of edges
SMALL_BLOCK_EDGES = 2**16
MOST_WIDENED = 1.25  # sigma by a few far rows; scores fall from here on
LEAST_OTHER_ROWS = 100  # of fewer, one is a notable share in any case
NEGLIGIBLE = 1e-4  # distances of eigenvalues from one below this are alike for `largest_eigengap`

ONE = np.ones(1)  # weight of every row

Floats = npt.NDArray[np.float64]


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
        return [(low, min(low + step, n)) for low in range(0, n, step)]

    def weigh(self, part: slice, sigma: float) -> tuple[Edges, Floats]:
        """Edges of some rows, whose squared distances become transition probabilities in place, and their degrees."""
        here, degrees = self[part], np.empty(part.stop - part.start)
        kernels.transitions(here.weights, sigma, degrees)
        return here, degrees

    def room(self, dtype: npt.DTypeLike) -> Any:
        """Room for one value per row."""
        return np.empty(len(self), dtype=dtype)


@dataclass(frozen=True)
class FoundEdges:
    """The same edges, found anew whenever some are asked for: where the rows themselves are not in memory."""

    rows: Rows
    index: RepresentativeIndex
    sigma: float

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Edges:
        if isinstance(rows, slice):
            return self.weigh(rows, self.sigma)[0]
        step = self.rows.block_rows
        parts = [rows[low : low + step] for low in range(0, len(rows), step)]
        edges = [new_edges(self.rows.take(part), self.index, self.sigma) for part in parts]
        return Edges(*(np.concatenate(arrays) for arrays in zip(*((e.ids, e.weights) for e in edges), strict=True)))

    def __len__(self) -> int:
        return self.rows.n_rows

    @property
    def n_neighbors(self) -> int:
        """K."""
        return self.index.n_neighbors

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges that cover all rows in order."""
        return self.rows.blocks()

    def weigh(self, part: slice, sigma: float) -> tuple[Edges, Floats]:
        """Edges of some rows, and their degrees."""
        edges = Edges(*self.index.query(self.rows.read(part.start, part.stop)))
        return edges.weigh(slice(0, len(edges)), sigma)

    def room(self, dtype: npt.DTypeLike) -> Any:
        """Room for one value per row."""
        return room_for(self.rows, dtype)


@dataclass
class Graph:
    """The graph of the representatives.

    Attributes
    ----------
    affinity : ndarray of shape (p, p), float64
        W = B' D_x^-1 B.
    counts : ndarray of shape (p,), float64
        Rows whose nearest representative it is.
    """

    affinity: Floats
    counts: Floats

    def pieces(self) -> npt.NDArray[np.int64]:
        """Rows in each connected component, largest first."""
        edges = scipy.sparse.csr_array(self.affinity > 0)
        n, labels = scipy.sparse.csgraph.connected_components(edges, directed=False)
        sizes = np.bincount(labels, weights=self.counts, minlength=n).astype(np.int64)
        return np.sort(sizes[np.bincount(labels, weights=self.affinity.diagonal(), minlength=n) > 0])[::-1]


@dataclass
class Spectrum:
    """Leading eigenpairs of the transfer cut.

    Attributes
    ----------
    eigenvalues : ndarray of shape (m,), float64
        Of D^-1/2 W D^-1/2, largest first; the first is one.
    vectors : ndarray of shape (p, m), float32
        D^-1/2 V: what a row's edges are multiplied with.
    degrees : ndarray of shape (p,), float64
        Degrees of the representatives, before regularisation: the weight of the rows tied to each.
    """

    eigenvalues: Floats
    vectors: npt.NDArray[np.float32]
    degrees: Floats

    def unit_rows(self, k: int) -> npt.NDArray[np.float32]:
        """Embedding (p, k) of the representatives themselves among the first `k` vectors, scaled to unit length."""
        rows = np.ascontiguousarray(self.vectors[:, :k])
        rows = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows) + np.float32(1e-20))[:, None]
        return rows


def connect(
    rows: Rows, index: RepresentativeIndex, engine: ThreadEngine, *, keep: bool = True, out: Edges | None = None
) -> tuple[Edges | FoundEdges, float]:
    """Edges of all rows, and sigma, the mean distance to the K nearest.

    Edges that are kept are written to `out`, if it has the right shape; others will be found again. Warns where a few
    far rows make sigma too wide for all others.
    """
    n, K = rows.n_rows, index.n_neighbors
    edges = None
    if keep:
        edges = out if out is not None and out.ids.shape == (n, K) else Edges.empty(n, K)

    def search(span: tuple[int, int]) -> tuple[float, float, int]:
        part = edges[slice(*span)] if edges is not None else Edges.empty(span[1] - span[0], K)
        index.query_into(rows.read(*span), part.ids, part.weights)
        far = int(part.weights[:, -1].argmax())
        far_sum = float(np.sqrt(part.weights[far]).sum(dtype=np.float64))
        return float(np.sqrt(part.weights).sum(dtype=np.float64)), far_sum, span[0] + far

    found = engine.map(search, rows.blocks())
    sigma = sum(total for total, _, _ in found) / (n * K) or 1.0
    _warn_of_far_rows([far for _, *far in found], sigma, n, K)
    return edges if edges is not None else FoundEdges(rows, index, sigma), sigma


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


def find_edges(rows: Rows, index: RepresentativeIndex, sigma: float, engine: ThreadEngine) -> Edges | FoundEdges:
    """Edges of all rows to representatives of a graph that is there already: kept where the rows are in memory."""
    found = FoundEdges(rows, index, sigma)
    if not stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors):
        return found
    edges = Edges.empty(rows.n_rows, index.n_neighbors)

    def fill(span: tuple[int, int]) -> None:
        edges[slice(*span)] = found[slice(*span)]

    engine.map(fill, rows.blocks())
    return edges


def new_edges(block: Block, index: RepresentativeIndex, sigma: float) -> Edges:
    """Transition probabilities of rows that may not have been part of the fit: what `reduce_graph` leaves for one."""
    ids, weights = index.query(block)
    kernels.transitions(weights, sigma, np.empty(len(ids)))
    return Edges(ids, weights)


def reduce_graph(
    edges: Edges | FoundEdges, sigma: float, p: int, blocks: list[tuple[int, int]], engine: ThreadEngine
) -> Graph:
    """The graph of the representatives; the edges' weights become transition probabilities in place."""

    def add(graph: Graph, part: slice) -> None:
        here, degrees = edges.weigh(part, sigma)
        kernels.reduce_pairs(here.ids, here.weights, degrees, ONE, graph.affinity, graph.counts)

    return sum_graph(add, len(edges) * edges.n_neighbors**2, p, blocks, engine)


def sum_graph(
    add: Callable[[Graph, slice], None], n_pairs: int, p: int, blocks: list[tuple[int, int]], engine: ThreadEngine
) -> Graph:
    """The graph that ``add(graph, rows)`` adds the upper triangle of, block by block; `n_pairs` is what that costs."""

    def merge(a: Graph, b: Graph) -> Graph:
        a.affinity += b.affinity
        a.counts += b.counts
        return a

    graph = engine.fold(
        blocks,
        lambda: Graph(np.zeros((p, p)), np.zeros(p)),
        lambda graph, span: add(graph, slice(*span)),
        merge,
        most_groups=1 + n_pairs // (2 * p * p),
    )
    upper = np.triu(graph.affinity, 1)
    graph.affinity += upper.T
    return graph


def transfer_cut(
    graph: Graph, n_vectors: int, regularization: float, representatives: npt.NDArray[np.float32] | None = None
) -> Spectrum:
    """Leading eigenvectors of the representatives' graph.

    Representatives without any row are left out of the eigenproblem (their degree is zero) and then take the vector
    of the nearest one in use, as a new point may meet them; `representatives` may be missing where none is unused.
    `regularization` joins the graph's pieces by a weak edge
    between all pairs.
    """
    W = graph.affinity
    used = np.flatnonzero(W.diagonal())
    W = W[np.ix_(used, used)]
    p = len(used)
    W += regularization * W.sum() / p / p  # tau times the mean degree, spread over p columns
    roots = np.sqrt(W.sum(axis=1))
    M = W / roots / roots[:, None]
    n_vectors = min(n_vectors, p)
    values, V = _leading_eigenpairs(M, n_vectors)
    V = V * np.sign(V[np.abs(V).argmax(axis=0), np.arange(n_vectors)])
    vectors = np.empty((len(graph.affinity), n_vectors), dtype=np.float32)
    # The rows' scale is free (lifted rows are scaled to length one): bring it near one for float32.
    vectors[used] = V / roots[:, None] * np.sqrt(W.sum())
    unused = np.setdiff1d(np.arange(len(vectors)), used)
    if unused.size:
        assert representatives is not None
        near = scipy.spatial.distance.cdist(representatives[unused], representatives[used]).argmin(axis=1)
        vectors[unused] = vectors[used[near]]
    return Spectrum(np.clip(values, 0.0, 1.0), vectors, graph.affinity.sum(axis=1))


def _leading_eigenpairs(M: Floats, n: int) -> tuple[Floats, Floats]:
    """The `n` largest eigenvalues of a symmetric matrix, descending, and their vectors.

    A direct solver, as eigenvalues may repeat. Of a larger matrix it takes a float32 copy, in two thirds of the time;
    one step of subspace iteration in float64 then restores full accuracy (to 1e-12).
    """
    p = len(M)
    if 4 * n > p:
        values, V = largest_eigenpairs(M, n)
    else:
        rough = largest_eigenpairs(M.astype(np.float32), n)[1]
        Q = scipy.linalg.qr(M @ rough.astype(np.float64), mode="economic", check_finite=False)[0]
        values, S = scipy.linalg.eigh(Q.T @ (M @ Q), check_finite=False)
        V = Q @ S
    return values[::-1], V[:, ::-1]


def largest_eigengap(eigenvalues: Floats, regularization: float) -> int:
    """Number of clusters k >= 2 at the largest eigengap: where 1 - eigenvalue grows most from the k-th to the next."""
    steps = eigensteps(eigenvalues, regularization)
    return 2 + int(np.argmax(steps)) if steps.size else len(eigenvalues)


def eigensteps(eigenvalues: Floats, regularization: float) -> Floats:
    """How many times farther from one than the k-th eigenvalue the next is, for k = 2, 3, ...

    Ratios, since eigenvalues fall ever faster further down, whatever the clusters. Regularisation lowers eigenvalues
    by a known factor, which is undone first; `NEGLIGIBLE` keeps rounding from looking like growth.
    """
    away = np.maximum(1.0 - eigenvalues[: MOST_AUTO_CLUSTERS + 1] * (1.0 + regularization), 0.0) + NEGLIGIBLE
    return away[2:] / away[1:-1]


def lift(edges: Edges, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Embedding of rows: the weighted mean of their representatives' vectors (p, k), scaled to unit length."""
    n, K = edges.ids.shape
    ends = np.arange(0, n * K + 1, K)
    T = scipy.sparse.csr_array((edges.weights.ravel(), edges.ids.ravel().astype(ends.dtype), ends), (n, len(vectors)))
    rows = T @ vectors
    rows /= (np.sqrt(np.einsum("ij,ij->i", rows, rows)) + np.float32(1e-10))[:, None]
    return rows


def lift_room(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Room for the kernels that lift a row by `vectors` of full lanes."""
    return np.empty(vectors.shape[1] + kernels.LANES, dtype=np.float32)


def full_lanes(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """`vectors` with columns of zeros up to a multiple of the lanes that kernels work in."""
    missing = -vectors.shape[1] % kernels.LANES
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors)
