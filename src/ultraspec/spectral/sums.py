"""Sums of a graph over all rows so far, to which further rows can be added.

The affinity of the representatives is a sum over rows. So rows can be added later, without those that were summed up
before: the graph is then that of all rows, with the same representatives and the same width of the affinity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, RowSample, sample_rows, take_sample
from ultraspec.spectral.edges import Edges, LazyEdges, connect_exactly
from ultraspec.spectral.neighbors import ProbeIndex, RepresentativeIndex
from ultraspec.spectral.transfer_cut import Graph, reduce_graph

ROUNDING = 1e-6  # of sums of weights: a smaller share of the rows is never left out

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class GraphSums:
    """Sums of the graph of the representatives.

    Attributes
    ----------
    upper : csr_array of shape (p, p), float64
        Upper triangle of the affinity.
    counts : ndarray of shape (p,), float64
        Weight of the rows whose nearest representative it is.
    n_rows : int
        Number of rows so far.
    mass : float
        Their weight. That of `counts` is smaller if the graph is one of sampled rows.
    weight_scale : float
        Factor of the weights that users pass, see `ultraspec.rows.weights`.
    """

    upper: Any
    counts: npt.NDArray[np.float64]
    n_rows: int
    mass: float
    weight_scale: float

    @classmethod
    def of(cls, graph: Graph, rows: Rows, weight_scale: float) -> GraphSums:
        """Return the sums of a graph of these rows."""
        return cls(_upper(graph), graph.counts.copy(), rows.n_rows, mass_of(rows), weight_scale)

    @property
    def share(self) -> float:
        """Share of the rows that the graph was built from."""
        share = float(self.counts.sum()) / self.mass
        return share if share < 1.0 - ROUNDING else 1.0

    def graph(self) -> Graph:
        """Return the graph."""
        upper = self.upper
        affinity = scipy.sparse.csr_array(upper + scipy.sparse.triu(upper, 1).T)
        affinity.sort_indices()
        return Graph(affinity if Graph.is_sparse(len(self.counts)) else affinity.toarray(), self.counts.copy())

    def add(
        self, edges: Edges | LazyEdges, rows: Rows, index: RepresentativeIndex, power: float, engine: ThreadEngine
    ) -> GraphSums:
        """Return the sums with further rows; the weights of stored edges become transition probabilities in place.

        If the graph is one of sampled rows, the same share of these rows is added.
        """
        graph_rows = rows
        graph_edges = edges
        if self.share < 1.0:
            sample = self._sample(rows)
            graph_rows = take_sample(rows, sample)
            exact = index.exact_twin() if isinstance(index, ProbeIndex) else index
            graph_edges = replace(engine.apply(connect_exactly, graph_rows, exact, edges.sigma), masses=sample.weights)
            if isinstance(edges, Edges):
                edges.map(lambda part, span: part.weigh(), engine)  # noqa: ARG005  as summing up does
        start = Graph.from_upper(self.upper, self.counts)
        graph = reduce_graph(graph_edges, graph_rows, len(self.counts), engine, power, start)
        return GraphSums(
            _upper(graph), graph.counts, self.n_rows + rows.n_rows, self.mass + mass_of(rows), self.weight_scale
        )

    def _sample(self, rows: Rows) -> RowSample:
        """Sample the share of the rows that the graph was built from; the seed depends on the number of rows before."""
        mass = self.share * mass_of(rows)
        sample = sample_rows(rows, max(1, round(mass)), np.random.default_rng(self.n_rows))
        if rows.weights is None:
            return sample
        return RowSample(sample.indices, sample.weights * (mass / sample.weights.sum()))

    def arrays(self) -> Arrays:
        """Return the state as arrays, for files."""
        return {
            "sums.starts": self.upper.indptr.astype(np.int64),
            "sums.columns": self.upper.indices.astype(np.uint16),
            "sums.values": self.upper.data,
            "sums.counts": self.counts,
            "sums.totals": np.array([self.n_rows, self.mass, self.weight_scale]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> GraphSums | None:
        """Restore sums from what `arrays` returned, or None; other arrays are ignored."""
        if "sums.values" not in arrays:
            return None
        counts = arrays["sums.counts"]
        parts = arrays["sums.values"], arrays["sums.columns"].astype(np.int32), arrays["sums.starts"].astype(np.int32)
        upper = scipy.sparse.csr_array(parts, shape=(len(counts), len(counts)))
        n_rows, mass, weight_scale = arrays["sums.totals"].tolist()
        return cls(upper, counts, int(n_rows), mass, weight_scale)


def mass_of(rows: Rows) -> float:
    """Return the sum of the weights of rows."""
    return float(rows.n_rows) if rows.weights is None else float(rows.weights.totals.sum())


def _upper(graph: Graph) -> Any:
    upper = scipy.sparse.csr_array(scipy.sparse.triu(graph.affinity, format="csr"))
    upper.sort_indices()
    return upper
