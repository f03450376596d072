"""Consensus by cross-agreement: of the ways to divide the first member, the one that the other members agree with.

The first member is divided by each candidate of `ultraspec.spectral.candidates`, and so are the others, which judge:
the clustering is taken that agrees most with all of theirs. Rows vote by their edges to the first member's
representatives. It costs O(N m K) and one choice, whatever the number of clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.consensus import Consensus, ConsensusMethod, Ensemble
from ultraspec.ensemble.graphs import generate_graphs, judges_of
from ultraspec.ensemble.members import MemberOptions, first_columns
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.choice import Choice
from ultraspec.spectral.edges import Edges, LazyEdges, find_edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.n_clusters import choose_by_eigengap
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import Partition, VotePartition, embed_all, label_rows
from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint
from ultraspec.storage.spool import as_array

VOTES_VALUES = 2**22  # approximate size of all partial results together

Votes = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CrossAgreement(ConsensusMethod):
    """Choice between the candidates of the first member; rows vote by their edges to its representatives."""

    needs_n_clusters: ClassVar[bool] = True
    votes: ClassVar[bool] = True

    members: Ensemble
    edges: Edges | LazyEdges
    choice: Choice
    regularization: float

    @classmethod
    def generate(
        cls,
        rows: Rows,
        options: MemberOptions,
        n_members: int,
        seed: np.random.SeedSequence,
        checkpoint: Checkpoint | NoCheckpoint,
        engine: ThreadEngine,
    ) -> Ensemble:
        """Generate members that are graphs with trees."""
        return generate_graphs(rows, options, n_members, seed, checkpoint, engine)

    @classmethod
    def build(
        cls,
        members: Ensemble,
        n_clusters: int | Literal["auto"],  # noqa: ARG003
        regularization: float,
        engine: ThreadEngine,
    ) -> CrossAgreement:
        """Let the members judge the first one."""
        first = members.models[0]
        if first.choice is None:
            raise ValueError("The members of this model have no trees. Fit again with consensus='auto'.")
        edges = members.edges
        if edges is None:
            if members.rows is None:
                raise ValueError(
                    "This model does not hold the rows that vote: it came from a file, is a copy, or combined its "
                    "members in another way. Call cut(n_clusters, X)."
                )
            edges = find_edges(members.rows, first.index, first.sigma, engine)
        if isinstance(edges, LazyEdges):
            edges = edges.without_ids()
        judges = [judge.meet(first.index) for judge in judges_of(members.models[1:])]
        return cls(members.without_rows(), edges, Choice(first.choice.own, judges), regularization)

    @classmethod
    def restore(
        cls,
        members: Ensemble,
        partition: Partition,  # noqa: ARG003
        regularization: float,
        engine: ThreadEngine,
    ) -> CrossAgreement:
        """Restore the consensus, whose choice is stored with the members."""
        return cls.build(members, 1, regularization, engine)

    def cut(
        self,
        n_clusters: int | Literal["auto"],
        options: LabelOptions,  # noqa: ARG002
        engine: ThreadEngine,
    ) -> Consensus:
        """Choose between the candidates, which is deterministic."""
        first = self.members.models[0]
        spectrum = first.partition.spectrum
        if n_clusters == "auto":
            n_clusters = choose_by_eigengap(spectrum.eigenvalues, self.regularization)
        chosen = engine.apply(self.choice.choose, int(n_clusters))
        partition: Partition = VotePartition(spectrum, chosen.groups, int(chosen.groups.max()) + 1, trust=chosen.trust)
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
        confidence = self._confidence(labels, majority, engine)
        return Consensus(partition, labels, confidence, majority, 0, chosen.agreements)

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
