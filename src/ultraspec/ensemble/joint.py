"""One clustering of the members' labels: U-SENC's two ways to join an ensemble, behind one interface.

Takes finished members, gives clusters for any number asked for. What it keeps grows with the rows, so model files do
without it: a `Partition` is enough to place further rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.linkage import Tree
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import average_linkage, microclusters
from ultraspec.ensemble.combine import ConsensusGraph, edges_of, share_backed
from ultraspec.ensemble.members import base_columns, small_labels
from ultraspec.ensemble.microclusters import Microclusters
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral import agreement
from ultraspec.spectral.edges import Edges, LazyEdges, find_edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.partition import Partition, VotePartition, label_rows, lift_all
from ultraspec.spectral.transfer_cut import choose_number
from ultraspec.storage.spool import as_array


@dataclass(frozen=True)
class Ensemble:
    """Finished members.

    Attributes
    ----------
    models : list of Model
        What labels further rows.
    base_labels : ndarray or SpooledMatrix of shape (n, m), or None
        Labels of the rows that were fitted; None where these are on a cluster.
    rows : Rows or None
        Those rows, prepared, where they are at hand.
    """

    models: list[Model]
    base_labels: Any
    rows: Rows | None

    @property
    def sizes(self) -> list[int]:
        """Clusters of each member."""
        return [model.partition.n_clusters for model in self.models]

    def without_kept_rows(self) -> Ensemble:
        """The same without the rows, unless these are on a cluster, where they cost nothing."""
        return self if self.base_labels is None else replace(self, rows=None)

    @property
    def labeler(self) -> Callable[[Block], npt.NDArray[Any]]:
        """Gives base labels (n, m) of a block of prepared rows, wherever that is."""
        return partial(small_labels, self.models, np.min_scalar_type(max(self.sizes) - 1))


@dataclass(frozen=True)
class Joined:
    """One clustering: what places rows, the labels of those that were fitted (None on a cluster), and who backs them.

    `majority` is the label that most rows of each base cluster have; base clusters are numbered through all members.
    """

    partition: Partition
    labels: Labels | None
    confidence: npt.NDArray[np.float32] | None
    majority: Labels
    n_iter: int


class Joint(ABC):
    """A way to join members."""

    @classmethod
    @abstractmethod
    def build(
        cls, members: Ensemble, n_clusters: int | Literal["auto"], regularization: float, engine: ThreadEngine
    ) -> Joint:
        """Join members for the first time."""

    @classmethod
    @abstractmethod
    def restore(cls, members: Ensemble, partition: Partition, regularization: float, engine: ThreadEngine) -> Joint:
        """What `build` made, from members and the partition that came of it."""

    @abstractmethod
    def cut(
        self,
        n_clusters: int | Literal["auto"],
        n_init: int,
        max_iter: int,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
    ) -> Joined:
        """So many clusters."""

    @abstractmethod
    def lift(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Embedding of the rows that were fitted."""


@dataclass(frozen=True)
class TransferCut(Joint):
    """The paper's: the graph of rows and base clusters is cut as that of rows and representatives is."""

    micro: Microclusters
    graph: ConsensusGraph

    @classmethod
    def build(
        cls, members: Ensemble, n_clusters: int | Literal["auto"], regularization: float, engine: ThreadEngine
    ) -> TransferCut:
        """Microclusters, their graph and its eigenvectors."""
        micro = cls._microclusters(members, engine)
        return cls(micro, ConsensusGraph.build(micro, n_clusters, regularization, engine))

    @classmethod
    def restore(
        cls, members: Ensemble, partition: Partition, regularization: float, engine: ThreadEngine
    ) -> TransferCut:
        """The same from eigenvectors that were taken before."""
        micro = cls._microclusters(members, engine)
        return cls(micro, ConsensusGraph.restore(micro, partition.spectrum, regularization))

    @staticmethod
    def _microclusters(members: Ensemble, engine: ThreadEngine) -> Microclusters:
        if members.base_labels is not None:
            return microclusters.find(members.base_labels, engine)
        assert members.rows is not None
        return microclusters.find_in_rows(members.rows, members.labeler, members.sizes, engine)

    def cut(
        self,
        n_clusters: int | Literal["auto"],
        n_init: int,
        max_iter: int,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
    ) -> Joined:
        """k-means of the microclusters' embedding; rows follow their microcluster."""
        cut = self.graph.cut(n_clusters, n_init, max_iter, seed, engine)
        majority = cut.majority(self.micro)
        confidence = self.micro.spread(share_backed(self.micro.columns, cut.labels, majority), engine)
        return Joined(cut.partition, self.micro.spread(cut.labels, engine), confidence, majority, cut.n_iter)

    def lift(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """That of their microclusters."""
        lifted = partition.lift(edges_of(self.micro.columns))
        return np.stack([self.micro.spread(column, engine) for column in lifted.T.copy()], axis=1)


@dataclass(frozen=True)
class Average(Joint):
    """Average linkage of the first member's representatives, and the vote of its edges."""

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
    ) -> Average:
        """The first member's edges of all rows, and the tree of its representatives."""
        edges, spectrum = cls._edges(members, engine), members.models[0].partition.spectrum
        votes = _count_votes(members, edges, members.models[0].edges, len(spectrum.vectors), engine)
        tree = average_linkage.tree_of_members(spectrum, votes, members.sizes)
        return cls(members.without_kept_rows(), edges, tree, regularization)

    @classmethod
    def restore(cls, members: Ensemble, partition: Partition, regularization: float, engine: ThreadEngine) -> Average:
        """The same with a tree that was made before."""
        assert isinstance(partition, VotePartition)
        assert partition.tree is not None
        return cls(members.without_kept_rows(), cls._edges(members, engine), partition.tree, regularization)

    @staticmethod
    def _edges(members: Ensemble, engine: ThreadEngine) -> Edges | LazyEdges:
        if members.rows is None:
            raise ValueError(
                "This model holds no rows to vote with: it came from a file, is a copy, or joined its members in "
                "another way. Call cut(n_clusters, X)."
            )
        first = members.models[0]
        return find_edges(members.rows, first.index, first.sigma, engine)

    def cut(
        self,
        n_clusters: int | Literal["auto"],
        n_init: int,  # noqa: ARG002
        max_iter: int,  # noqa: ARG002
        seed: np.random.SeedSequence,  # noqa: ARG002
        engine: ThreadEngine,
    ) -> Joined:
        """A cut of the tree, in which there is no chance."""
        spectrum = self.members.models[0].partition.spectrum
        if n_clusters == "auto":
            n_clusters = choose_number(spectrum.eigenvalues, self.regularization)
        partition = VotePartition(spectrum, *agreement.cut_tree(self.tree, int(n_clusters)), self.tree)
        found, labels = label_rows(self.edges, partition, engine)
        k, members = found.n_clusters, self.members
        own = partial(_own_clusters, members.models[0], found)
        votes = _count_votes(members, average_linkage.OwnClusters(labels), own, k, engine, self.edges.blocks())
        majority = votes.argmax(axis=0).astype(np.int32)
        confidence = self.edges.room(np.float32)
        if confidence is not None:
            base_labels, firsts = as_array(members.base_labels), average_linkage.first_columns(members.sizes)

            def fill(span: Span) -> None:
                here = slice(*span)
                same = majority[base_labels[here] + firsts] == labels[here, None]
                confidence[here] = same.mean(axis=1, dtype=np.float32)

            engine.map(fill, self.edges.blocks())
        return Joined(found, labels, as_array(confidence), majority, 1)

    def lift(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """That of the first member's graph."""
        return lift_all(self.edges, partition, engine)


def _count_votes(
    members: Ensemble,
    edges: Any,
    tie: Callable[[Block], Edges],
    p: int,
    engine: ThreadEngine,
    blocks: list[Span] | None = None,
) -> average_linkage.Votes:
    """Votes of rows by `edges` that are at hand, or where rows are on a cluster, by what `tie` makes of them."""
    if members.base_labels is None:
        assert members.rows is not None
        return average_linkage.count_votes_of_rows(members.rows, tie, members.labeler, members.sizes, p, engine)
    blocks = edges.blocks() if blocks is None else blocks
    return average_linkage.count_votes(edges, blocks, as_array(members.base_labels), members.sizes, p, engine)


def _own_clusters(model: Model, partition: Partition, block: Block) -> Edges:
    return average_linkage.own_clusters(partition.label(model.edges(block)))


JOINTS: dict[str, type[Joint]] = {"transfer_cut": TransferCut, "average": Average}


@dataclass(frozen=True)
class Placement:
    """What places further rows: the members label them, and their consensus says where these labels belong.

    Attributes
    ----------
    models : list of Model
        The members.
    partition : Partition
        Of what the members were joined by: base clusters, or the first member's representatives.
    majority : ndarray of int32, or None
        The label that most rows of each base cluster have; files of older releases lack it.
    """

    models: list[Model]
    partition: Partition
    majority: Labels | None

    def edges(self, block: Block) -> Edges:
        """Edges of prepared rows to what the consensus is a partition of."""
        if isinstance(self.partition, VotePartition):
            return self.models[0].edges(block)
        return edges_of(base_columns(self.models, block))

    def label(self, block: Block) -> Labels:
        """Clusters of prepared rows."""
        return self.partition.label(self.edges(block))

    def lift(self, block: Block) -> npt.NDArray[np.float32]:
        """Embedding of prepared rows."""
        return self.partition.lift(self.edges(block))

    def label_backed(self, block: Block) -> tuple[Labels, npt.NDArray[np.float32]]:
        """Clusters of prepared rows, and the share of members that back them."""
        if self.majority is None:
            raise ValueError(
                "This model comes from a file of an older release, which did not keep what confidence needs."
            )
        labels = self.label(block)
        return labels, share_backed(base_columns(self.models, block), labels, self.majority)
