"""Base clusterings of microclusters, as the ensemble baselines see them, and the algebra that they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels.graph import reduce_pairs
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.combine import BLOCK_ROWS
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.transfer_cut import Graph, sum_graph
from ultraspec.storage.cached import cached_attribute

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class BaseClusterings:
    """Base clusterings of microclusters, which are rows with equal base labels.

    Attributes
    ----------
    columns : ndarray of shape (M, m), int32
        Base clusters of each microcluster, numbered through all clusterings; -1 where it has none.
    weights : ndarray of shape (M,), float64
        Rows in each microcluster.
    counts : tuple of m int
        Clusters of each base clustering.
    """

    columns: Labels
    weights: Floats
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def n_clusterings(self) -> int:
        """Base clusterings, m."""
        return len(self.counts)

    @property
    def n_columns(self) -> int:
        """Base clusters of all clusterings together."""
        return sum(self.counts)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Number of each clustering's first cluster, and of all clusters at the end."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_attribute
    def complete(self) -> bool:
        """Whether every clustering assigns every row."""
        return bool(self.columns.min() >= 0)

    @cached_attribute
    def sizes(self) -> Floats:
        """Rows (k_c,) in each base cluster."""
        totals = np.zeros(self.n_columns + 1)  # the last, for -1
        for column in self.columns.T:
            totals += np.bincount(column % len(totals), weights=self.weights, minlength=len(totals))
        return totals[:-1]

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of microclusters."""
        return [(low, min(low + BLOCK_ROWS, len(self))) for low in range(0, len(self), BLOCK_ROWS)]

    def memberships(self, rows: slice, dtype: npt.DTypeLike = np.float32) -> scipy.sparse.csr_array:
        """B: one where a microcluster is in a base cluster."""
        columns = self.columns[rows]
        present = columns >= 0
        ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        ids = columns.ravel() if self.complete else columns[present]
        return scipy.sparse.csr_array((np.ones(len(ids), dtype=dtype), ids, ends), (len(columns), self.n_columns))

    def edges(self, rows: slice, worth: npt.NDArray[np.float64] | None = None) -> tuple[Edges, Floats]:
        """Edges of microclusters to their base clusters, which may be of different `worth`, as shares; and degrees."""
        columns = self.columns[rows]
        present = columns >= 0
        weights = present.astype(np.float64) if worth is None else np.where(present, worth[columns], 0.0)
        degrees = weights.sum(axis=1)
        ids = columns
        if not self.complete:
            first = columns[np.arange(len(columns)), present.argmax(axis=1)]  # stands in with a weight of zero
            ids = np.where(present, columns, first[:, None])
        return Edges(ids.astype(np.uint16), (weights / degrees[:, None]).astype(np.float32)), degrees

    def all_edges(self, engine: ThreadEngine, worth: npt.NDArray[np.float64] | None = None) -> Edges:
        """Edges of all microclusters."""
        edges = Edges.empty(*self.columns.shape)

        def fill(span: tuple[int, int]) -> None:
            edges[slice(*span)] = self.edges(slice(*span), worth)[0]

        engine.map(fill, self.blocks())
        return edges

    def graph(self, engine: ThreadEngine, worth: npt.NDArray[np.float64] | None = None) -> Graph:
        """The graph of the base clusters, B' D^-1 B over all rows, B's columns being scaled by their `worth`."""

        def add(graph: Graph, part: slice) -> None:
            edges, degrees = self.edges(part, worth)
            reduce_pairs(edges.ids, edges.weights, degrees, self.weights[part], graph.affinity, graph.counts)

        return sum_graph(add, self.columns.size * self.n_clusterings, self.n_columns, self.blocks(), engine)

    def contingency(self, engine: ThreadEngine) -> Floats:
        """B'B (k_c, k_c): rows that each two base clusters share."""

        def add(graph: Graph, part: slice) -> None:
            edges, degrees = self.edges(part)
            present = (edges.weights > 0).astype(np.float32)
            reduce_pairs(edges.ids, present, np.ones_like(degrees), self.weights[part], graph.affinity, graph.counts)

        n_pairs = self.columns.size * self.n_clusterings
        return sum_graph(add, n_pairs, self.n_columns, self.blocks(), engine).affinity


@dataclass(frozen=True)
class ConsensusLabels:
    """What a method found: labels of microclusters (of rows, in the end), and its iterations, if it has any."""

    labels: Labels
    n_iter: int = 0
