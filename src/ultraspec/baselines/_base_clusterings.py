"""Base clusterings of microclusters, as the ensemble baselines use them, and the matrices that are built from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels.graph import reduce_pairs
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.transfer_cut import BLOCK_ROWS
from ultraspec.rows import Span, cut_span
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.transfer_cut import Graph, sum_graph
from ultraspec.storage.cached import cached_attribute

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ConsensusLabels:
    """Labels from a consensus method, of microclusters or of rows, and its k-means iterations, if it has any."""

    labels: Labels
    n_iter: int = 0


@dataclass(frozen=True)
class BaseClusterings:
    """Base clusterings of microclusters, which are groups of rows with equal base labels.

    Base clusters are numbered consecutively over all clusterings: a number is a column of the membership matrix B.
    """

    columns: Labels  #: (M, m): base cluster of each microcluster in each clustering; -1 if it has none
    weights: Floats  #: (M,): number of rows in each microcluster
    counts: tuple[int, ...]  #: number of clusters of each of the m clusterings

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def n_clusterings(self) -> int:
        """Number of base clusterings, m."""
        return len(self.counts)

    @property
    def n_columns(self) -> int:
        """Number of base clusters of all clusterings together, k_c."""
        return sum(self.counts)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Number of the first base cluster of each clustering, and at the end the number of all base clusters."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_attribute
    def complete(self) -> bool:
        """Whether every clustering assigns every row."""
        return bool(self.columns.min() >= 0)

    @cached_attribute
    def sizes(self) -> Floats:
        """Count the rows (k_c,) in each base cluster."""
        totals = np.zeros(self.n_columns + 1)  # the last entry collects unassigned rows, as -1 modulo the length
        for column in self.columns.T:
            totals += np.bincount(column % len(totals), weights=self.weights, minlength=len(totals))
        return totals[:-1]

    def blocks(self) -> list[Span]:
        """Return ranges that cover the microclusters in order."""
        return cut_span((0, len(self)), BLOCK_ROWS)

    def memberships(self, rows: slice, dtype: npt.DTypeLike = np.float32) -> scipy.sparse.csr_array:
        """Return rows of the membership matrix B (M, k_c), which is 1 where a microcluster is in a base cluster."""
        columns = self.columns[rows]
        present = columns >= 0
        ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        ids = columns.ravel() if self.complete else columns[present]
        return scipy.sparse.csr_array((np.ones(len(ids), dtype=dtype), ids, ends), (len(columns), self.n_columns))

    def edges(self, rows: slice, cluster_weights: Floats | None = None) -> tuple[Edges, Floats]:
        """Return the edges of microclusters to their base clusters, and the degrees of the microclusters.

        An edge has the weight of its base cluster (1 by default), divided by the degree of the microcluster.
        """
        columns = self.columns[rows]
        present = columns >= 0
        if cluster_weights is None:
            weights = present.astype(np.float64)
        else:
            weights = np.where(present, cluster_weights[columns], 0.0)
        degrees = weights.sum(axis=1)
        ids = columns
        if not self.complete:
            # kernels need m valid ids per row: a missing one is replaced by the first, with a weight of zero
            first = columns[np.arange(len(columns)), present.argmax(axis=1)]
            ids = np.where(present, columns, first[:, None])
        return Edges(ids.astype(np.uint16), (weights / degrees[:, None]).astype(np.float32)), degrees

    def all_edges(self, engine: ThreadEngine, cluster_weights: Floats | None = None) -> Edges:
        """Return the edges of all microclusters."""
        edges = Edges.empty(*self.columns.shape)

        def fill(span: Span) -> None:
            edges[slice(*span)] = self.edges(slice(*span), cluster_weights)[0]

        engine.map(fill, self.blocks())
        return edges

    def graph(self, engine: ThreadEngine, cluster_weights: Floats | None = None) -> Graph:
        """Return the graph of the base clusters, B' D^-1 B over all rows, with the columns of B scaled by weights."""

        def add(graph: Graph, part: slice) -> None:
            edges, degrees = self.edges(part, cluster_weights)
            # an edge is B_ij / d_i: d_i times the product of two edges of row i is its term of B' D^-1 B
            reduce_pairs(edges.ids, edges.weights, degrees, self.weights[part], graph.affinity, graph.counts)

        return sum_graph(add, self.columns.size * self.n_clusterings, self.n_columns, self.blocks(), engine)

    def contingency(self, engine: ThreadEngine) -> Floats:
        """Return B'B (k_c, k_c): the number of rows that each pair of base clusters shares."""

        def add(graph: Graph, part: slice) -> None:
            edges, degrees = self.edges(part)
            present = (edges.weights > 0).astype(np.float32)
            reduce_pairs(edges.ids, present, np.ones_like(degrees), self.weights[part], graph.affinity, graph.counts)

        n_pairs = self.columns.size * self.n_clusterings
        return sum_graph(add, n_pairs, self.n_columns, self.blocks(), engine).affinity
