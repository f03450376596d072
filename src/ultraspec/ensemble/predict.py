"""Labels of new rows by an ensemble: members label them, and the consensus assigns a cluster to these labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec.cluster.points import Labels
from ultraspec.ensemble.consensus import support
from ultraspec.ensemble.graphs import judges_of
from ultraspec.ensemble.members import base_columns, label_members
from ultraspec.ensemble.transfer_cut import edges_of_columns
from ultraspec.rows import Block
from ultraspec.spectral.choice import Choice
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.model import Model, RowModel
from ultraspec.spectral.partition import Partition, RowLabeler, VotePartition
from ultraspec.storage.cached import cached_attribute


@dataclass(frozen=True)
class EnsembleModel(RowModel):
    """Model of U-SENC.

    Attributes
    ----------
    models : list of Model
        The members.
    partition : Partition
        Clusters of the base clusters, or of the first member's representatives.
    majority : ndarray of int32, or None
        Label of most rows of each base cluster; files of older releases lack it.
    label_type : dtype
        Smallest type that holds the labels of every member.
    """

    models: list[Model]
    partition: Partition
    majority: Labels | None
    label_type: np.dtype

    @property
    def members(self) -> Sequence[Model]:
        """The members of the ensemble."""
        return self.models

    @cached_attribute
    def choice(self) -> Choice | None:
        """The trees of the first member, and the members that judge them; None if clusters are a transfer cut."""
        first = self.models[0]
        if first.choice is None or not isinstance(self.partition, VotePartition):
            return None
        return Choice(first.choice.own, [judge.meet(first.index) for judge in judges_of(self.models[1:])])

    def edges(self, block: Block) -> Edges:
        """Find the edges of preprocessed rows to base clusters, or to the first member's representatives."""
        if isinstance(self.partition, VotePartition):
            return self.models[0].edges(block)
        return edges_of_columns(base_columns(self.models, block))

    def label(self, block: Block) -> Labels:
        """Label preprocessed rows."""
        return super().label(block) if self._labeler is None else self._labeler.label(block)

    @cached_attribute
    def _labeler(self) -> RowLabeler | None:
        """Return what labels rows by votes, with its tables; None for the transfer cut."""
        first = self.models[0]
        votes = isinstance(self.partition, VotePartition)
        return RowLabeler(first.index, first.sigma, self.partition) if votes else None

    def marks(self, block: Block) -> npt.NDArray[np.int32]:
        """Return the labels of preprocessed rows by all members."""
        return label_members(self.models, block)

    @property
    def has_confidence(self) -> bool:
        """Whether other members have judged the clusters, or majorities are known: old files lack both."""
        return self.majority is not None or self._trusted is not None

    @property
    def _trusted(self) -> VotePartition | None:
        """The partition if other members have judged it."""
        partition = self.partition
        return partition if isinstance(partition, VotePartition) and partition.trust is not None else None

    def label_with_confidence(self, block: Block) -> tuple[Labels, npt.NDArray[np.float32]]:
        """Label preprocessed rows; also return how far other members keep each row with its cluster.

        With the transfer cut, it is the share of members that support the label.
        """
        if self._trusted is not None:
            edges = self.edges(block)
            return self._trusted.label(edges), self._trusted.confidence(edges)
        if self.majority is None:
            raise ValueError(
                "This model has no confidence: it has a single member, or comes from a file of an older release, which "
                "did not store what confidence needs."
            )
        labels = self.label(block)
        return labels, support(base_columns(self.models, block), labels, self.majority)
