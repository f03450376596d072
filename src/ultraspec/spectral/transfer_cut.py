"""The bipartite graph and its cut (paper, section 3.1.3).

`reduce_graph` turns the edges of all rows into transition probabilities and the p x p affinity of the representatives,
`transfer_cut` computes its leading eigenvectors, and `lift` carries them back to the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse.csgraph
import scipy.spatial.distance

from ultraspec._checks import warn_user
from ultraspec._kernels import graph as kernels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import NO_WEIGHTS, Block, Rows, Span
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.eigenvectors import RegularizedMatrix, dense_eigenpairs, sparse_eigenpairs
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.sparse_graph import PairSums

KEPT_VECTORS = 60  # eigenvectors that models keep, for other numbers of clusters
DENSE_REPRESENTATIVES = (
    1500  # up to this number, the affinity is a dense matrix and its eigenvectors are computed directly
)
SPARSE_ENTRIES = 200  # cost of merging sparse graphs, in entries per representative
NEAREST_ROWS = 2**22  # distances in memory when unused representatives look for the nearest used one

FRAGMENT = 0.1  # volume of a component, relative to the one that most rows are in, below which it is a fragment
LARGEST_FRAGMENT = 0.01  # the same, relative to all
BRIDGE = 0.02  # weight of its edge to the nearest representative, as a share of the degrees of both

NO_EDGE = 1e-3  # share of the smaller of two degrees up to which an edge connects nothing
ONE = NO_WEIGHTS  # weight of every row

Floats = npt.NDArray[np.float64]


@dataclass
class Graph:
    """Graph of the representatives.

    Attributes
    ----------
    affinity : ndarray or csr_array of shape (p, p), float64
        W = T' D_x^a T with the transition probabilities T and the degrees D_x of the rows: a = 1 gives B' D_x^-1 B, as
        in the paper. Sparse for more than `DENSE_REPRESENTATIVES`; sums in a hash table while rows are added.
    counts : ndarray of shape (p,), float64
        Number, or weight, of the rows whose nearest representative it is.
    """

    affinity: Any
    counts: Floats

    @classmethod
    def empty(cls, p: int, *, sparse: bool = False) -> Graph:
        """Return a graph without rows."""
        return cls(PairSums(p) if sparse else np.zeros((p, p)), np.zeros(p))

    @staticmethod
    def is_sparse(p: int) -> bool:
        """Return whether the affinity of `p` representatives is a sparse matrix."""
        return p > DENSE_REPRESENTATIVES

    @classmethod
    def from_upper(cls, upper: Any, counts: Floats) -> Graph:
        """Return a graph to which rows can be added, given the upper triangle of its affinity as a CSR matrix."""
        p = len(counts)
        affinity = PairSums.of(upper) if cls.is_sparse(p) else upper.toarray()
        return cls(affinity, counts.copy())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, for a checkpoint."""
        W = self.affinity
        if not scipy.sparse.issparse(W):
            return {"affinity": W, "counts": self.counts}
        return {"indptr": W.indptr, "indices": W.indices, "data": W.data, "counts": self.counts}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Graph:
        """Restore a graph from what `arrays` returned."""
        if "affinity" in arrays:
            return cls(arrays["affinity"], arrays["counts"])
        p = len(arrays["counts"])
        parts = arrays["data"], arrays["indices"], arrays["indptr"]
        return cls(scipy.sparse.csr_array(parts, shape=(p, p)), arrays["counts"])

    def add(self, other: Graph) -> Graph:
        """Add the rows of another graph, in place."""
        if isinstance(self.affinity, PairSums):
            self.affinity.merge(other.affinity)
        else:
            self.affinity += other.affinity
        self.counts += other.counts
        return self

    def mirrored(self) -> Graph:
        """Fill the lower triangle, in place: kernels sum up the upper one only."""
        if isinstance(self.affinity, PairSums):
            self.affinity = self.affinity.matrix()
            return self
        upper = np.triu(self.affinity, 1)
        self.affinity += upper.T
        return self

    def component_sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows in each connected component, largest first."""
        edges = scipy.sparse.csr_array(self.affinity != 0)
        n, labels = scipy.sparse.csgraph.connected_components(edges, directed=False)
        sizes = np.bincount(labels, weights=self.counts, minlength=n).astype(np.int64)
        is_used = np.bincount(labels, weights=self.affinity.diagonal(), minlength=n) > 0
        return np.sort(sizes[is_used])[::-1]


@dataclass
class Spectrum:
    """Leading eigenpairs of the transfer cut.

    Attributes
    ----------
    eigenvalues : ndarray of shape (m,), float64
        Eigenvalues of D^-1/2 W D^-1/2, largest first; the first is one.
    vectors : ndarray of shape (p, m), float32
        D^-1/2 V, by which the edges of a row are multiplied.
    degrees : ndarray of shape (p,), float64
        Degrees of the representatives before regularisation.
    """

    eigenvalues: Floats
    vectors: npt.NDArray[np.float32]
    degrees: Floats

    def unit_rows(self, k: int) -> npt.NDArray[np.float32]:
        """Embed the representatives by the first `k` vectors (p, k), scaled to unit length."""
        rows = np.ascontiguousarray(self.vectors[:, :k])
        return rows / np.sqrt(np.einsum("ij,ij->i", rows, rows) + np.float32(1e-20))[:, None]


def reduce_graph(
    edges: Edges | LazyEdges,
    rows: Rows,
    p: int,
    engine: ThreadEngine,
    power: float = 1.0,
    before: Graph | None = None,
) -> Graph:
    """Sum up the graph of the representatives over all rows, each weighted by its degree to the `power`.

    The weights of stored edges become transition probabilities in place. Rows are added to those of the graph
    `before`, which is overwritten: if the sum runs in one piece, it continues where that one ended.
    """
    sparse = Graph.is_sparse(p)
    start = functools.partial(Graph.empty, p, sparse=sparse)
    most_groups = _worthwhile_groups(len(edges) * edges.n_neighbors**2, p, sparse=sparse)
    if isinstance(edges, Edges):

        def add_stored(graph: Graph, span: Span) -> None:
            _add_rows(graph, edges[slice(*span)], power)

        runs = rows.runs(most_groups)
        if before is not None and len(runs) == 1:
            return engine.fold_runs(runs, lambda: before, add_stored, Graph.add).mirrored()
        graph = engine.fold_runs(runs, start, add_stored, Graph.add)
        return (graph if before is None else before.add(graph)).mirrored()
    find = edges.finder

    def add(graph: Graph, block: Block, span: Span, masses: Floats) -> None:
        _add_rows(graph, find(block, span, masses), power)

    if before is not None and not rows.remote and len(rows.runs(most_groups)) == 1:
        return engine.fold_rows(rows, lambda: before, add, Graph.add, most_groups=1, weighted=True).mirrored()
    graph = engine.fold_rows(rows, start, add, Graph.add, most_groups=most_groups, weighted=True)
    return (graph if before is None else before.add(graph)).mirrored()


def _add_rows(graph: Graph, edges: Edges, power: float) -> None:
    degrees = edges.weigh()
    if power != 1.0:
        degrees **= power
    if isinstance(graph.affinity, PairSums):
        graph.affinity.add_rows(edges.ids, edges.weights, degrees, edges.masses, graph.counts)
    else:
        kernels.reduce_pairs(edges.ids, edges.weights, degrees, edges.masses, graph.affinity, graph.counts)


def sum_graph(
    add: Callable[[Graph, slice], None], n_pairs: int, p: int, blocks: list[Span], engine: ThreadEngine
) -> Graph:
    """Sum up a graph of `p` nodes: ``add(graph, rows)`` adds the upper triangle of a block; `n_pairs` is the cost."""
    start = functools.partial(Graph.empty, p)
    most_groups = _worthwhile_groups(n_pairs, p)
    graph = engine.fold(blocks, start, lambda graph, span: add(graph, slice(*span)), Graph.add, most_groups=most_groups)
    return graph.mirrored()


def _worthwhile_groups(n_pairs: int, p: int, *, sparse: bool = False) -> int:
    """Return the number of partial graphs that are worth the cost of merging them."""
    entries = SPARSE_ENTRIES * p if sparse else p * p
    return 1 + n_pairs // (2 * entries)


def attach_fragments(graph: Graph, representatives: npt.NDArray[np.float32], options: GraphOptions) -> Graph:
    """Return the graph with a weak edge from each small component to the nearest representative of a larger one.

    Few rows at the edge of a cluster often form a component of their own, but for edges next to nothing.
    Regularisation connects it to all others alike, so that it might join any cluster. With this edge it joins the
    nearest, unless it is a cluster itself. The affinity of the paper stays as it is.
    """
    if options.affinity == "paper":
        return graph
    W = scipy.sparse.csr_array(graph.affinity)
    degrees = np.asarray(W.sum(axis=1))
    entries = W.tocoo()
    connects = entries.data > NO_EDGE * np.minimum(degrees[entries.row], degrees[entries.col])
    ends = entries.row[connects], entries.col[connects]
    n, labels = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array((entries.data[connects], ends), shape=W.shape), directed=False
    )
    volumes: Floats = np.bincount(labels, weights=degrees, minlength=n).astype(np.float64)
    is_fragment = (volumes > 0) & (volumes < _fragment_volume(volumes))
    if not is_fragment.any():
        return graph
    bridges = scipy.sparse.lil_array(W.shape)
    for fragment in np.flatnonzero(is_fragment):
        members = np.flatnonzero(labels == fragment)
        outside = np.flatnonzero(volumes[labels] > volumes[fragment])  # two fragments must not only find each other
        distances = scipy.spatial.distance.cdist(representatives[members], representatives[outside])
        a, b = np.unravel_index(distances.argmin(), distances.shape)
        start, end = members[a], outside[b]
        weight = BRIDGE * min(volumes[fragment], degrees[end])  # weak for both
        spacing = _distance_to_others(representatives, int(end))
        if distances[a, b] > spacing:  # a wide gap separates, even if nothing lies between
            weight *= spacing / distances[a, b]
        bridges[start, end] = bridges[end, start] = weight
    affinity = W + bridges.tocsr() if scipy.sparse.issparse(graph.affinity) else graph.affinity + bridges.toarray()
    return Graph(affinity, graph.counts)


def _distance_to_others(representatives: npt.NDArray[np.float32], which: int) -> float:
    """Return the distance of a representative to the nearest other one."""
    distances = scipy.spatial.distance.cdist(representatives[which : which + 1], representatives)[0]
    distances[which] = np.inf
    return float(distances.min())


def _fragment_volume(volumes: Floats) -> float:
    """Return the sum of degrees below which a component is a fragment: if it is small beside that of most rows."""
    ordered = np.sort(volumes)
    half = ordered[np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)]  # half of all is in components as large
    return float(min(FRAGMENT * half, LARGEST_FRAGMENT * ordered.sum()))


def transfer_cut(
    graph: Graph,
    n_vectors: int,
    regularization: float,
    representatives: npt.NDArray[np.float32] | None = None,
    engine: ThreadEngine | None = None,
) -> Spectrum:
    """Compute the leading eigenvectors of the graph of the representatives.

    Representatives without rows are left out of the eigenproblem, because their degree is zero. They get the vector of
    the nearest representative with rows, because a new row may be near them; `representatives` may be None if there
    are none such. `regularization` connects the components of the graph by a weak edge between all pairs. `engine` runs
    the products with a sparse graph.
    """
    W = graph.affinity
    used = np.flatnonzero(W.diagonal())
    p = len(used)
    n_vectors = min(n_vectors, p)
    if scipy.sparse.issparse(W):
        assert engine is not None
        values, V, roots, total = _cut_sparse(W[used][:, used], n_vectors, regularization, engine)
    else:
        values, V, roots, total = _cut_dense(W[np.ix_(used, used)], n_vectors, regularization)
    V = V * np.sign(V[np.abs(V).argmax(axis=0), np.arange(n_vectors)])  # the sign of an eigenvector is arbitrary
    vectors = np.empty((len(graph.counts), n_vectors), dtype=np.float32)
    # The scale of the vectors is free, because lifted rows are scaled to unit length: bring it near one for float32.
    vectors[used] = V / roots[:, None] * np.sqrt(total)
    unused = np.setdiff1d(np.arange(len(vectors)), used)
    if unused.size:
        assert representatives is not None
        vectors[unused] = vectors[used[_nearest(representatives[unused], representatives[used])]]
    return Spectrum(np.clip(values, 0.0, 1.0), vectors, np.asarray(W.sum(axis=1)))


def _cut_dense(W: Floats, n_vectors: int, regularization: float) -> tuple[Floats, Floats, Floats, float]:
    """Return eigenvalues and eigenvectors of a dense graph, square roots of degrees, the sum of degrees."""
    p = len(W)
    W += regularization * W.sum() / p / p  # tau times the mean degree, spread over p columns
    roots = np.sqrt(W.sum(axis=1))
    return *dense_eigenpairs(W / roots / roots[:, None], n_vectors), roots, W.sum()


def _cut_sparse(
    W: Any, n_vectors: int, regularization: float, engine: ThreadEngine
) -> tuple[Floats, Floats, Floats, float]:
    """Return for a sparse graph what `_cut_dense` returns."""
    p = W.shape[0]
    degrees = np.asarray(W.sum(axis=1))
    weight = regularization * degrees.sum() / p / p
    roots = np.sqrt(degrees + weight * p)
    scales = 1.0 / roots
    scaled = W.data * np.repeat(scales, np.diff(W.indptr)) * scales[W.indices]
    matrix = RegularizedMatrix(scipy.sparse.csr_array((scaled, W.indices, W.indptr), shape=W.shape), scales, weight)
    return *sparse_eigenpairs(matrix, n_vectors, roots, engine), roots, float((roots**2).sum())


def _nearest(points: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """Return the index of the nearest of `others` for each point, a few points at a time."""
    step = max(1, NEAREST_ROWS // len(others))
    parts = [points[low : low + step] for low in range(0, len(points), step)]
    return np.concatenate([scipy.spatial.distance.cdist(part, others).argmin(axis=1) for part in parts])


def lift(edges: Edges, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Embed rows: the weighted mean of the vectors (p, k) of their representatives, scaled to unit length."""
    n, K = edges.ids.shape
    ends = np.arange(0, n * K + 1, K)
    T = scipy.sparse.csr_array((edges.weights.ravel(), edges.ids.ravel().astype(ends.dtype), ends), (n, len(vectors)))
    rows = T @ vectors
    rows /= (np.sqrt(np.einsum("ij,ij->i", rows, rows)) + np.float32(1e-10))[:, None]
    return rows


def lift_buffer(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Allocate the buffer of the kernels that lift a row by padded `vectors`."""
    return np.empty(vectors.shape[1] + kernels.LANES, dtype=np.float32)


def pad_lanes(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Pad `vectors` with columns of zeros to a multiple of the lanes that kernels work in."""
    missing = -vectors.shape[1] % kernels.LANES
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors)


def warn_of_components(sizes: npt.NDArray[np.int64], n_clusters: int, options: GraphOptions, p: int) -> None:
    """Warn if the graph has more connected components, of `sizes` rows each, than there are clusters."""
    if len(sizes) <= n_clusters:
        return
    shown = ", ".join(f"{size:,}" for size in sizes[:5]) + (", ..." if len(sizes) > 5 else "")
    consequence = (
        f"Weak edges (regularization={options.regularization:g}) connect them, so clusters follow the larger components"
        if options.regularization > 0
        else "With regularization=0, which components share a cluster is arbitrary"
    )
    warn_user(
        f"The graph has {len(sizes)} connected components (rows: {shown}; smallest {sizes[-1]:,}), more than the "
        f"{n_clusters} clusters. {consequence}. To change this, raise n_clusters if the components are real, "
        f"raise n_neighbors (now {options.n_neighbors}) or lower n_representatives (now {p}) "
        "to connect them, or drop outliers.",
        UserWarning,
    )
