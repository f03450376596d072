"""The representatives' graph, ready to draw: takes a sample's edges, gives nodes, their clusters and their ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.figures.layout import affinity, lay_out
from ultraspec.figures.source import Codes, Floats, Part, Source

TIES = 3  # of each representative that are drawn: the strongest
MOST_DRAWN = 2000  # representatives
START_VECTORS = 10  # eigenvectors that the drawing of a graph starts from


@dataclass(frozen=True)
class NodeGraph:
    """Representatives and how many rows they share, estimated from a sample.

    Attributes
    ----------
    positions : ndarray of shape (p, 2)
        Where they are drawn; NaN where no row of the sample is tied to one.
    codes : ndarray of shape (p,), int32
        The cluster of most rows tied to it; -1 where there are none.
    rows : ndarray of shape (p,)
        Rows it stands for: those it is the nearest representative of.
    ties : ndarray of shape (e, 2), int32
        Pairs that share many rows: the strongest few ties of each.
    strength : ndarray of shape (e,)
        How strong they are: 1 for the strongest.
    affinity : csr_array of shape (p, p)
        How many rows each two share, by weight.
    """

    positions: Floats
    codes: Codes
    rows: Floats
    ties: Codes
    strength: Floats
    affinity: scipy.sparse.csr_array

    @property
    def drawn(self) -> npt.NDArray[np.intp]:
        """The representatives to draw: those with most rows, if there are very many."""
        there = np.flatnonzero((self.codes >= 0) & np.isfinite(self.positions).all(axis=1))
        return np.sort(there[np.argsort(-self.rows[there], kind="stable")[:MOST_DRAWN]])

    def touching(self, k: int) -> list[tuple[int, int, float]]:
        """Pairs of `k` clusters that share ties, those that share most first: their share of the smaller one's ties."""
        pairs = scipy.sparse.coo_array(self.affinity)
        a, b = self.codes[pairs.row].astype(np.int64), self.codes[pairs.col].astype(np.int64)
        known = (a >= 0) & (b >= 0)
        shared = np.bincount(a[known] * k + b[known], pairs.data[known], minlength=k * k).reshape(k, k)
        total = shared.sum(axis=1)
        shared = shared / np.maximum(np.minimum(total[:, None], total), 1e-300)
        first, second = np.nonzero(np.triu(shared, 1))
        order = np.argsort(-shared[first, second], kind="stable")
        return [(int(first[i]), int(second[i]), float(shared[first[i], second[i]])) for i in order]


def node_graph(source: Source, sample: Part) -> NodeGraph:
    """The graph of the model's representatives (of an ensemble: its first member's).

    `sample` has `edges`, and `points` where there are at most two features.
    """
    assert sample.edges is not None
    model, k = source.graph, len(source.names)
    p = len(model.index.representatives)
    graph = affinity(sample.edges, p)
    ids = sample.edges.ids.astype(np.int64)
    votes = np.bincount((ids * k + sample.codes[:, None]).ravel(), sample.edges.weights.ravel(), minlength=p * k)
    votes = votes.reshape(p, k)
    codes = np.where(votes.any(axis=1), votes.argmax(axis=1), -1).astype(np.int32)
    rows: Floats = np.bincount(ids[:, 0], minlength=p) * np.float64(source.n_rows / len(ids))
    if source.n_features > 2:
        positions = lay_out(graph, model.partition.spectrum.vectors[:, :START_VECTORS], model.index.representatives)
    else:
        positions = _mean_positions(source, sample, votes.sum(axis=1), rows)
    ties, strength = strongest_ties(graph)
    return NodeGraph(positions, codes, rows, ties, strength, graph)


def _mean_positions(source: Source, sample: Part, weights: Floats, rows: Floats) -> Floats:
    """The mean of the rows tied to each; of one feature, with the rows it stands for as the height."""
    assert sample.points is not None
    assert sample.edges is not None
    ids, shares = sample.edges.ids.ravel(), sample.edges.weights.ravel().astype(np.float64)
    each = sample.edges.ids.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = [
            np.bincount(ids, shares * np.repeat(values, each), minlength=len(weights)) / weights
            for values in sample.points.T
        ]
    return np.stack(columns if source.n_features == 2 else [columns[0], rows], axis=1)


def strongest_ties(graph: scipy.sparse.csr_array) -> tuple[Codes, Floats]:
    """Pairs that are among the few strongest ties of one of the two, strongest last, and their strength.

    A tie's strength is the number of rows two nodes share, relative to what each shares with all others.
    """
    degrees = np.maximum(graph.sum(axis=1), 1e-300)
    pairs = scipy.sparse.coo_array(graph)
    strength = pairs.data / np.sqrt(degrees[pairs.row] * degrees[pairs.col])
    order = np.lexsort((-strength, pairs.row))
    first = np.searchsorted(pairs.row[order], np.arange(graph.shape[0]))
    rank = np.arange(len(order)) - first[pairs.row[order]]
    kept = order[rank < TIES]
    ends = np.sort(np.stack([pairs.row[kept], pairs.col[kept]], axis=1), axis=1)
    ties, at = np.unique(ends, axis=0, return_index=True)
    strong = strength[kept][at]
    rising = np.argsort(strong, kind="stable")
    return ties[rising].astype(np.int32), strong[rising] / max(float(strong.max(initial=0.0)), 1e-300)
