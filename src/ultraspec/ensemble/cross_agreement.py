"""Consensus by cross-agreement: of the ways to divide the first member, the one that the other members agree with.

The first member is divided by each candidate of `ultraspec.spectral.candidates`, and so are the others, which judge:
the clustering is taken that agrees most with all of theirs. Rows vote by their edges to the first member's
representatives. It costs O(N m K) and one choice, whatever the number of clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.consensus import Consensus, ConsensusMethod, Ensemble
from ultraspec.ensemble.graphs import generate_graphs, judges_of
from ultraspec.ensemble.members import MemberOptions
from ultraspec.rows import Rows
from ultraspec.spectral.choice import Choice, Chosen
from ultraspec.spectral.edges import Edges, LazyEdges, find_edges
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
    samples: ClassVar[bool] = True

    members: Ensemble
    edges: Edges | LazyEdges
    choice: Choice
    regularization: float

    @classmethod
    def generate(
        cls,
        rows: Rows,
        graph_rows: Rows,
        options: MemberOptions,
        n_members: int,
        seed: np.random.SeedSequence,
        checkpoint: Checkpoint | NoCheckpoint,
        engine: ThreadEngine,
    ) -> Ensemble:
        """Generate members that are graphs with trees."""
        return generate_graphs(rows, graph_rows, options, n_members, seed, checkpoint, engine)

    @classmethod
    def build(
        cls,
        members: Ensemble,
        n_clusters: int,  # noqa: ARG003
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
        n_clusters: int,
        options: LabelOptions,  # noqa: ARG002
        engine: ThreadEngine,
    ) -> Consensus:
        """Choose between the candidates, which is deterministic."""
        return self._divide(engine.apply(self.choice.choose, n_clusters), engine)

    def cut_at(self, nodes: Sequence[int], tree: str, engine: ThreadEngine) -> Consensus:
        """Cut a tree of the first member at some of its nodes, which become the clusters."""
        groups = self.choice.own.hierarchy.cut_at(tree, nodes)
        return self._divide(Chosen(groups, None, engine.apply(self.choice.trust, groups)), engine)

    def _divide(self, chosen: Chosen, engine: ThreadEngine) -> Consensus:
        """Return the consensus that groups of representatives give: rows vote."""
        spectrum = self.members.models[0].partition.spectrum
        groups = VotePartition(spectrum, chosen.groups, int(chosen.groups.max()) + 1, trust=chosen.trust)
        confidence = None if chosen.trust is None else self.edges.allocate(np.float32)
        partition, labels = label_rows(self.edges, groups, engine, confidence)
        return Consensus(partition, labels, as_array(confidence), None, 0, chosen.agreements)

    def embed(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Embed the fitted rows by the graph of the first member."""
        return embed_all(self.edges, partition, engine)
