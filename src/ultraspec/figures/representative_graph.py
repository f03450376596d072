"""The graph of the representatives, from the edges of a sample: positions, clusters and strongest edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.figures.graph_layout import lay_out
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledBlock, LabeledRows
from ultraspec.spectral.edges import Edges

EDGES_EACH = 3  # edges per representative that are drawn, the strongest ones
MOST_DRAWN = 2000  # representatives
START_VECTORS = 10  # eigenvectors that the layout starts from


@dataclass(frozen=True)
class RepresentativeGraph:
    """The graph of p representatives. Two of them have an edge if they share rows, estimated from a sample.

    Attributes
    ----------
    positions : ndarray of shape (p, 2)
        Positions in the plane; NaN if no row of the sample has an edge to the representative.
    codes : ndarray of shape (p,), int32
        Cluster of most rows with an edge to it; -1 if there are none.
    rows : ndarray of shape (p,)
        Number of rows whose nearest representative it is.
    edges : ndarray of shape (e, 2), int32
        The strongest few edges of each representative, the weakest first.
    strength : ndarray of shape (e,)
        Strength of these edges; 1 for the strongest.
    affinity : csr_array of shape (p, p)
        Weighted number of rows that each two share.
    """

    positions: Floats
    codes: Integers
    rows: Floats
    edges: Integers
    strength: Floats
    affinity: scipy.sparse.csr_array

    @property
    def drawn(self) -> npt.NDArray[np.intp]:
        """Representatives to draw: those with most rows, if there are very many."""
        placed = np.flatnonzero((self.codes >= 0) & np.isfinite(self.positions).all(axis=1))
        return np.sort(placed[np.argsort(-self.rows[placed], kind="stable")[:MOST_DRAWN]])

    def touching_clusters(self, k: int) -> list[tuple[int, int, float]]:
        """Return the pairs of `k` clusters that have edges between them, most affinity first.

        The number is the affinity between the two as a share of all affinity of the one that has less.
        """
        pairs = scipy.sparse.coo_array(self.affinity)
        a = self.codes[pairs.row].astype(np.int64)
        b = self.codes[pairs.col].astype(np.int64)
        known = (a >= 0) & (b >= 0)
        shared = np.bincount(a[known] * k + b[known], pairs.data[known], minlength=k * k).reshape(k, k)
        total = shared.sum(axis=1)
        shared = shared / np.maximum(np.minimum(total[:, None], total), 1e-300)
        first, second = np.nonzero(np.triu(shared, 1))
        order = np.argsort(-shared[first, second], kind="stable")
        return [(int(first[i]), int(second[i]), float(shared[first[i], second[i]])) for i in order]


def build_graph(rows: LabeledRows, sample: LabeledBlock) -> RepresentativeGraph:
    """Build the graph of the model's representatives, or of those of an ensemble's first member.

    `sample` has `edges`, and `points` if there are at most two features.
    """
    assert sample.edges is not None
    model = rows.first_member
    k = len(rows.cluster_names)
    p = len(model.index.representatives)
    graph = affinity(sample.edges, p)
    ids = sample.edges.ids.astype(np.int64)
    votes = np.bincount((ids * k + sample.codes[:, None]).ravel(), sample.edges.weights.ravel(), minlength=p * k)
    votes = votes.reshape(p, k)
    codes = np.where(votes.any(axis=1), votes.argmax(axis=1), -1).astype(np.int32)
    n_rows: Floats = np.bincount(ids[:, 0], minlength=p) * np.float64(rows.n_rows / len(ids))
    if rows.n_features > 2:
        positions = lay_out(graph, model.partition.spectrum.vectors[:, :START_VECTORS], model.index.representatives)
    else:
        means = _mean_points(sample, votes.sum(axis=1))
        positions = means if rows.n_features == 2 else np.column_stack([means, n_rows])
    edges, strength = strongest_edges(graph)
    return RepresentativeGraph(positions, codes, n_rows, edges, strength, graph)


def affinity(edges: Edges, p: int) -> scipy.sparse.csr_array:
    """Return the weighted number of rows that each two of `p` representatives share, zero on the diagonal."""
    n, K = edges.ids.shape
    bounds = np.arange(n + 1) * K
    B = scipy.sparse.csr_array((edges.weights.ravel().astype(np.float64), edges.ids.ravel(), bounds), shape=(n, p))
    shared = scipy.sparse.coo_array(B.T @ B)
    apart = shared.row != shared.col
    return scipy.sparse.csr_array((shared.data[apart], (shared.row[apart], shared.col[apart])), shape=(p, p))


def _mean_points(sample: LabeledBlock, weights: Floats) -> Floats:
    """Return the weighted mean of the rows that have an edge to each representative; NaN if there are none."""
    assert sample.points is not None
    assert sample.edges is not None
    ids = sample.edges.ids.ravel()
    shares = sample.edges.weights.ravel().astype(np.float64)
    K = sample.edges.n_neighbors
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = [
            np.bincount(ids, shares * np.repeat(values, K), minlength=len(weights)) / weights
            for values in sample.points.T
        ]
    return np.column_stack(columns)


def strongest_edges(graph: scipy.sparse.csr_array) -> tuple[Integers, Floats]:
    """Return the edges that are among the few strongest of one of their nodes, weakest first, and their strength.

    The strength is the affinity divided by the geometric mean of the degrees of both nodes.
    """
    degrees = np.maximum(graph.sum(axis=1), 1e-300)
    pairs = scipy.sparse.coo_array(graph)
    strength = pairs.data / np.sqrt(degrees[pairs.row] * degrees[pairs.col])
    order = np.lexsort((-strength, pairs.row))
    first = np.searchsorted(pairs.row[order], np.arange(graph.shape[0]))
    rank = np.arange(len(order)) - first[pairs.row[order]]  # of each edge among those of its node
    strongest = order[rank < EDGES_EACH]
    ends = np.sort(np.stack([pairs.row[strongest], pairs.col[strongest]], axis=1), axis=1)
    edges, at = np.unique(ends, axis=0, return_index=True)
    strength = strength[strongest][at]
    rising = np.argsort(strength, kind="stable")
    return edges[rising].astype(np.int32), strength[rising] / max(float(strength.max(initial=0.0)), 1e-300)
