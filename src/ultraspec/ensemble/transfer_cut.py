"""Consensus by the transfer cut (paper, section 3.2.2).

Rows and base clusters are the two sides of a bipartite graph: a row has an edge to each base cluster that it is in.
The transfer cut that U-SPEC applies to rows and representatives cuts this graph, too. Rows with equal labels form a
microcluster, which stands for all of them by its weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec._kernels.graph import reduce_pairs
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.consensus import Consensus, ConsensusMethod, Ensemble, support
from ultraspec.ensemble.members import MemberOptions, generate_members
from ultraspec.ensemble.microclusters import Microclusters
from ultraspec.rows import Rows, cut_span
from ultraspec.spectral import embedding
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition, Partition
from ultraspec.spectral.transfer_cut import KEPT_VECTORS, Graph, Spectrum, sum_graph, transfer_cut
from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint

MOST_COLUMNS = 20_000  # base clusters in all: the matrix between them would take 3.2 GB
BLOCK_ROWS = 8192


@dataclass(frozen=True)
class TransferCut(ConsensusMethod):
    """Transfer cut of the graph of rows and base clusters, as in the paper."""

    micro: Microclusters
    graph: ConsensusGraph

    @classmethod
    def generate(
        cls,
        rows: Rows,
        graph_rows: Rows,  # noqa: ARG003  the same rows
        options: MemberOptions,
        n_members: int,
        seed: np.random.SeedSequence,
        checkpoint: Checkpoint | NoCheckpoint,
        engine: ThreadEngine,
    ) -> Ensemble:
        """Generate the members of the paper."""
        models, labels = generate_members(rows, options, seed.spawn(n_members), checkpoint, engine)
        return Ensemble(models, labels, rows, weights=rows.weights)

    @classmethod
    def build(cls, members: Ensemble, n_clusters: int, regularization: float, engine: ThreadEngine) -> TransferCut:
        """Find the microclusters, their graph and its eigenvectors."""
        micro = cls._microclusters(members, engine)
        return cls(micro, ConsensusGraph.build(micro, n_clusters, regularization, engine))

    @classmethod
    def restore(
        cls, members: Ensemble, partition: Partition, regularization: float, engine: ThreadEngine
    ) -> TransferCut:
        """Find the microclusters again; eigenvectors are those of the partition."""
        micro = cls._microclusters(members, engine)
        return cls(micro, ConsensusGraph.restore(micro, partition.spectrum, regularization))

    @staticmethod
    def _microclusters(members: Ensemble, engine: ThreadEngine) -> Microclusters:
        if members.base_labels is not None:
            return microclusters.find(members.base_labels, engine, members.weights)
        assert members.rows is not None
        return microclusters.find_in_rows(members.rows, members.labeler, members.sizes, engine)

    def cut(self, n_clusters: int, options: LabelOptions, engine: ThreadEngine) -> Consensus:
        """Cluster the embedded microclusters by k-means; rows get the label of their microcluster."""
        cut = self.graph.cut(n_clusters, options, engine).by_size(self.micro.weights)
        majority = cut.majority(self.micro)
        confidence = self.micro.spread(support(self.micro.columns, cut.labels, majority), engine)
        return Consensus(cut.partition, self.micro.spread(cut.labels, engine), confidence, majority, cut.n_iter)

    def embed(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Embed the fitted rows as their microclusters are embedded."""
        embedded = partition.embed(edges_of_columns(self.micro.columns))
        return np.stack([self.micro.spread(column, engine) for column in embedded.T.copy()], axis=1)


@dataclass(frozen=True)
class MicroclusterCut:
    """Labels of the microclusters, -1 for one without base clusters, and the partition that labels new rows."""

    labels: Labels
    partition: CenterPartition
    n_iter: int

    def by_size(self, weights: npt.NDArray[np.float64]) -> MicroclusterCut:
        """Give clusters numbers by size, the largest first; `weights` are the rows of the microclusters."""
        assigned = self.labels >= 0
        sizes = np.bincount(self.labels[assigned], weights[assigned], minlength=self.partition.n_clusters)
        order = np.argsort(-sizes, kind="stable")
        numbers = np.argsort(order).astype(np.int32)
        labels = np.where(assigned, numbers[self.labels], -1).astype(np.int32)
        return MicroclusterCut(labels, self.partition.renumber(order), self.n_iter)

    def majority(self, micro: Microclusters) -> Labels:
        """Return the label of most rows of each base cluster, the lowest of several most frequent ones."""
        k = self.partition.n_clusters
        votes = np.zeros(micro.n_columns * k)
        for column in micro.columns.T:
            rows = np.flatnonzero(column >= 0)
            pairs = column[rows].astype(np.int64) * k + self.labels[rows]
            votes += np.bincount(pairs, micro.weights[rows], minlength=len(votes))
        return votes.reshape(-1, k).argmax(axis=1).astype(np.int32)


@dataclass(frozen=True)
class ConsensusGraph:
    """Edges of the microclusters that have base clusters, and the eigenvectors of the graph of the base clusters."""

    edges: Edges
    weights: npt.NDArray[np.float64]
    assigned: npt.NDArray[np.intp]
    n_microclusters: int
    spectrum: Spectrum
    regularization: float

    @classmethod
    def build(
        cls,
        micro: Microclusters,
        n_clusters: int,
        regularization: float,
        engine: ThreadEngine,
        spare: int = KEPT_VECTORS,
    ) -> ConsensusGraph:
        """Build the graph and compute its eigenvectors, at least `spare` of them for other cuts.

        Raise ValueError if there are too few or too many base clusters.
        """
        check_columns(micro.n_columns, n_clusters)
        assigned = micro.assigned
        columns = micro.columns[assigned]
        weights = micro.weights[assigned]
        edges = edges_of_columns(columns)
        degrees = (columns >= 0).sum(axis=1).astype(np.float64)

        def add(graph: Graph, rows: slice) -> None:
            part = edges[rows]
            reduce_pairs(part.ids, part.weights, degrees[rows], weights[rows], graph.affinity, graph.counts)

        blocks = cut_span((0, len(columns)), BLOCK_ROWS)
        graph = sum_graph(add, columns.size * columns.shape[1], micro.n_columns, blocks, engine)
        spectrum = transfer_cut(graph, max(spare, n_clusters + 1), regularization)
        return cls(edges, weights, assigned, len(micro.columns), spectrum, regularization)

    @classmethod
    def restore(cls, micro: Microclusters, spectrum: Spectrum, regularization: float) -> ConsensusGraph:
        """Restore a graph whose eigenvectors were computed before."""
        if micro.n_columns != len(spectrum.vectors):
            raise ValueError("X does not hold the rows that were fitted: some base clusters stay empty.")
        assigned = micro.assigned
        edges = edges_of_columns(micro.columns[assigned])
        return cls(edges, micro.weights[assigned], assigned, len(micro.columns), spectrum, regularization)

    def cut(self, n_clusters: int, options: LabelOptions, engine: ThreadEngine) -> MicroclusterCut:
        """Cluster all microclusters."""
        spectrum = self.spectrum
        k = int(n_clusters)
        points = embedding.EmbeddedPoints(self.edges, spectrum.vectors[:, :k], self.weights)
        result = embedding.kmeans(points, k, options.n_init, options.max_iter, options.rng, engine)
        result = embedding.drop_empty_clusters(
            result,
            k,
            "too few groups of rows differ in their base labels. Rows may have too few distinct values, or base "
            "clusterings are too few or too coarse.",
        )
        labels = np.full(self.n_microclusters, -1, dtype=np.int32)
        labels[self.assigned] = result.labels
        return MicroclusterCut(labels, CenterPartition(spectrum, result.centers), result.n_iter)


def check_columns(n_columns: int, n_clusters: int) -> None:
    """Raise ValueError if there are too few base clusters for `n_clusters`, or too many to compare all of them."""
    if n_columns == 0:
        raise ValueError("No row of base_labels has a label: every entry is -1, None or NaN.")
    if n_columns < n_clusters:
        raise ValueError(
            f"The base clusterings have {n_columns} clusters in all, too few for n_clusters={n_clusters}. "
            "Add base clusterings, or finer ones, or ask for fewer clusters."
        )
    if n_columns > MOST_COLUMNS:
        raise ValueError(
            f"The base clusterings have {n_columns:,} clusters in all; the consensus compares each with each and takes "
            f"at most {MOST_COLUMNS:,}. Use coarser clusterings, or mark tiny clusters as not assigned (-1)."
        )


def edges_of_columns(columns: npt.NDArray[np.int32]) -> Edges:
    """Return edges from rows to their base clusters (n, m), -1 for none: equal shares among those that a row has."""
    present = columns >= 0
    if present.all():
        share = np.float32(1.0 / columns.shape[1])
        return Edges(columns.astype(np.uint16), np.full(columns.shape, share, dtype=np.float32))
    first = columns[np.arange(len(columns)), present.argmax(axis=1)]  # fills the gaps, with a weight of zero
    ids = np.where(present, columns, first[:, None])
    return Edges(ids.astype(np.uint16), (present / present.sum(axis=1)[:, None]).astype(np.float32))
