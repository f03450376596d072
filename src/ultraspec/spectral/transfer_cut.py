"""Phase 3, the bipartite graph (paper, section 3.1.3): takes nearest representatives, gives the spectral embedding.

`reduce_graph` turns the rows' edges into transition probabilities and the p x p affinity of the representatives,
`transfer_cut` takes its eigenvectors, and `lift` carries them back to the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse.csgraph
import scipy.spatial.distance

from ultraspec._checks import warn_user
from ultraspec._kernels import graph as kernels
from ultraspec._kernels.lapack import largest_eigenpairs
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.edges import Edges, LazyEdges

KEPT_VECTORS = 60  # eigenvectors that models keep, for other numbers of clusters
MOST_AUTO_CLUSTERS = 50  # n_clusters="auto" looks for a gap up to here
ALIKE = 1.05  # steps of eigenvalues below this are rounding
NEGLIGIBLE = 1e-4  # distances of eigenvalues from one below this are alike for `largest_eigengap`

ONE = np.ones(1)  # weight of every row

Floats = npt.NDArray[np.float64]
T = TypeVar("T")


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

    @classmethod
    def empty(cls, p: int) -> Graph:
        """A graph of no rows."""
        return cls(np.zeros((p, p)), np.zeros(p))

    def add(self, other: Graph) -> Graph:
        """Add another graph's rows."""
        self.affinity += other.affinity
        self.counts += other.counts
        return self

    def whole(self) -> Graph:
        """Fill the lower triangle, where only the upper one was added up."""
        upper = np.triu(self.affinity, 1)
        self.affinity += upper.T
        return self

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


def reduce_graph(edges: Edges | LazyEdges, sigma: float, p: int, rows: Rows, engine: ThreadEngine) -> Graph:
    """The graph of the representatives; weights of edges that are kept become transition probabilities in place."""
    start, merge = functools.partial(Graph.empty, p), Graph.add
    most_groups = _worthwhile_groups(len(edges) * edges.n_neighbors**2, p)
    if isinstance(edges, Edges):

        def add_kept(graph: Graph, span: Span) -> None:
            _add_rows(graph, edges[slice(*span)], sigma)

        return engine.fold_runs(rows.runs(most_groups), start, add_kept, merge).whole()
    find = edges.finder

    def add(graph: Graph, block: Block, span: Span) -> None:
        _add_rows(graph, find(block, span), sigma)

    return engine.fold_rows(rows, start, add, merge, most_groups=most_groups).whole()


def _add_rows(graph: Graph, edges: Edges, sigma: float) -> None:
    degrees = edges.weigh(sigma)
    kernels.reduce_pairs(edges.ids, edges.weights, degrees, ONE, graph.affinity, graph.counts)


def sum_graph(
    add: Callable[[Graph, slice], None], n_pairs: int, p: int, blocks: list[Span], engine: ThreadEngine
) -> Graph:
    """The graph that ``add(graph, rows)`` adds the upper triangle of, block by block; `n_pairs` is what that costs."""
    start, most_groups = functools.partial(Graph.empty, p), _worthwhile_groups(n_pairs, p)
    found = engine.fold(blocks, start, lambda graph, span: add(graph, slice(*span)), Graph.add, most_groups=most_groups)
    return found.whole()


def _worthwhile_groups(n_pairs: int, p: int) -> int:
    """Partial graphs that are worth their merge."""
    return 1 + n_pairs // (2 * p * p)


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


def choose_number(eigenvalues: Floats, regularization: float) -> int:
    """Number of clusters for n_clusters="auto"; warns where more are perfectly apart than are looked at."""
    steps = eigensteps(eigenvalues, regularization)
    if steps.size == MOST_AUTO_CLUSTERS - 1 and steps.max() < ALIKE:
        warn_user(
            f'n_clusters="auto" looks at 2 to {MOST_AUTO_CLUSTERS} clusters, and their eigenvalues are all alike: '
            "there may be more clusters, or none. Pass n_clusters.",
            UserWarning,
        )
    return largest_eigengap(eigenvalues, regularization)


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
