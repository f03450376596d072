"""Consensus by average linkage of the first member's representatives.

The labels of all members move to the representatives of the first member: each representative gets the cluster that
most of the weight of its rows is in. Average linkage joins representatives that many members put into one small
cluster, and rows vote. It costs O(N m K) and one tree, whatever the number of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import warn_user
from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.linkage import Tree, agglomerate
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.consensus import Consensus, ConsensusMethod, Ensemble
from ultraspec.ensemble.members import first_columns
from ultraspec.rows import Block, Span
from ultraspec.spectral.edges import Edges, LazyEdges, find_edges
from ultraspec.spectral.labelings import co_association, degree_shares
from ultraspec.spectral.model import Model
from ultraspec.spectral.n_clusters import choose_by_eigengap
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import Partition, VotePartition, embed_all, label_rows
from ultraspec.spectral.transfer_cut import Spectrum
from ultraspec.storage.spool import as_array

VOTES_VALUES = 2**22  # approximate size of all partial results together

Votes = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AverageLinkage(ConsensusMethod):
    """Average linkage of the first member's representatives; rows vote by their edges to these."""

    has_tree: ClassVar[bool] = True

    members: Ensemble
    edges: Edges | LazyEdges
    tree: Tree
    regularization: float

    @classmethod
    def build(
        cls,
        members: Ensemble,
        n_clusters: int | Literal["auto"],  # noqa: ARG003
        regularization: float,
        engine: ThreadEngine,
    ) -> AverageLinkage:
        """Find the edges of all rows to the first member's representatives, and build the tree of these."""
        edges = cls._edges(members, engine)
        spectrum = members.models[0].partition.spectrum
        p = len(spectrum.vectors)
        votes = count_votes(members, edges, members.models[0].edges, p, edges.blocks(), engine)
        tree = tree_of_members(spectrum, votes, members.sizes)
        return cls(members.without_rows(), edges, tree, regularization)

    @classmethod
    def restore(
        cls, members: Ensemble, partition: Partition, regularization: float, engine: ThreadEngine
    ) -> AverageLinkage:
        """Restore the consensus with a tree that was built before."""
        assert isinstance(partition, VotePartition)
        assert partition.tree is not None
        return cls(members.without_rows(), cls._edges(members, engine), partition.tree, regularization)

    @staticmethod
    def _edges(members: Ensemble, engine: ThreadEngine) -> Edges | LazyEdges:
        if members.rows is None:
            raise ValueError(
                "This model does not hold the rows that vote: it came from a file, is a copy, or combined its members "
                "in another way. Call cut(n_clusters, X)."
            )
        first = members.models[0]
        return find_edges(members.rows, first.index, first.sigma, engine)

    def cut(
        self,
        n_clusters: int | Literal["auto"],
        options: LabelOptions,  # noqa: ARG002
        engine: ThreadEngine,
    ) -> Consensus:
        """Cut the tree, which is deterministic."""
        if n_clusters == "auto":
            spectrum = self.members.models[0].partition.spectrum
            n_clusters = choose_by_eigengap(spectrum.eigenvalues, self.regularization)
        return self._divide(*cut_tree(self.tree, int(n_clusters)), engine)

    def cut_at(self, nodes: Sequence[int], engine: ThreadEngine) -> Consensus:
        """Cut the tree at some of its nodes, which become the clusters."""
        groups = self.tree.labels_of(nodes)
        return self._divide(groups, int(groups.max()) + 1, engine)

    def _divide(self, groups: Labels, n_groups: int, engine: ThreadEngine) -> Consensus:
        """Return the consensus that groups of representatives give: rows vote."""
        first = self.members.models[0]
        partition: Partition = VotePartition(first.partition.spectrum, groups, n_groups, self.tree)
        partition, labels = label_rows(self.edges, partition, engine)
        votes = count_votes(
            self.members,
            _EdgesToClusters(labels),
            partial(_block_to_clusters, first, partition),
            partition.n_clusters,
            self.edges.blocks(),
            engine,
        )
        majority = votes.argmax(axis=0).astype(np.int32)
        return Consensus(partition, labels, self._confidence(labels, majority, engine), majority, 1)

    def _confidence(self, labels: Labels, majority: Labels, engine: ThreadEngine) -> Any:
        """Return the share of members that support the label of each fitted row; None if rows are on a cluster."""
        confidence = self.edges.allocate(np.float32)
        if confidence is None:
            return None
        base_labels = as_array(self.members.base_labels)
        firsts = first_columns(self.members.models)

        def fill(span: Span) -> None:
            rows = slice(*span)
            supported = majority[base_labels[rows] + firsts] == labels[rows, None]
            confidence[rows] = supported.mean(axis=1, dtype=np.float32)

        engine.map(fill, self.edges.blocks())
        return as_array(confidence)

    def embed(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Embed the fitted rows by the graph of the first member."""
        return embed_all(self.edges, partition, engine)


def tree_of_members(spectrum: Spectrum, votes: Votes, sizes: Sequence[int]) -> Tree:
    """Build the tree of the first member's representatives.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvectors of the first member.
    votes : ndarray of shape (p, sum of sizes), float64
        Weight of the rows of each representative in each cluster of each member.
    sizes : sequence of int
        Number of clusters of each member.
    """
    p = len(spectrum.vectors)
    used = np.flatnonzero(votes.any(axis=1))
    if used.size < p:  # representatives without rows follow the one that they have their vector from
        unit = spectrum.unit_rows(spectrum.vectors.shape[1])
        unused = np.setdiff1d(np.arange(p), used)
        votes[unused] = votes[used[(unit[unused] @ unit[used].T).argmax(axis=1)]]
    labelings = [part.argmax(axis=1).astype(np.int32) for part in np.split(votes, np.cumsum(sizes)[:-1], axis=1)]
    weights = degree_shares(spectrum)
    return agglomerate(co_association(labelings, weights), weights, similarity=True, overwrite=True)


def cut_tree(tree: Tree, k: int) -> tuple[Labels, int]:
    """Cut a tree into `k` clusters; return labels of the leaves and the number of clusters.

    Warn and return one cluster per leaf if there are fewer leaves than `k`.
    """
    if k > tree.n_leaves:
        warn_user(
            f"Found {tree.n_leaves} clusters instead of {k}: there are only {tree.n_leaves} representatives. X may "
            "have too few distinct rows; otherwise raise n_representatives.",
            ConvergenceWarning,
        )
        k = tree.n_leaves
    return tree.cut(k), k


def count_votes(
    members: Ensemble,
    edges: Any,
    find: Callable[[Block], Edges],
    p: int,
    blocks: list[Span],
    engine: ThreadEngine,
) -> Votes:
    """Sum up the weight (p, sum of sizes) of the rows of each of `p` nodes in each cluster of each member.

    Rows have `edges` to the nodes. If rows are on a cluster, `find` finds the edges of a block there.
    """
    n_base = sum(members.sizes)
    firsts = first_columns(members.models).astype(np.int64)
    start = partial(np.zeros, (p, n_base))
    if members.base_labels is None:
        assert members.rows is not None
        label = members.labeler

        def add_block(votes: Votes, block: Block, span: Span) -> None:  # noqa: ARG001
            part = find(block)
            kernels.add_votes(part.ids, part.weights, label(block), firsts, votes)

        return engine.fold_rows(members.rows, start, add_block, np.add)
    base_labels = as_array(members.base_labels)

    def add(votes: Votes, span: Span) -> None:
        rows = slice(*span)
        part = edges[rows]
        kernels.add_votes(part.ids, part.weights, np.ascontiguousarray(base_labels[rows]), firsts, votes)

    most_groups = max(2, VOTES_VALUES // (p * n_base))
    return engine.fold(blocks, start, add, np.add, most_groups=most_groups)


def _edges_to_clusters(labels: Labels) -> Edges:
    """Return edges of weight one from rows to their clusters."""
    ids = labels.astype(np.uint16)[:, None]
    return Edges(ids, np.ones(ids.shape, dtype=np.float32))


def _block_to_clusters(model: Model, partition: Partition, block: Block) -> Edges:
    return _edges_to_clusters(partition.label(model.edges(block)))


class _EdgesToClusters:
    """Edges of all rows to their clusters, made as they are read."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    def __getitem__(self, rows: slice) -> Edges:
        return _edges_to_clusters(self._labels[rows])
