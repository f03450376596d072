"""Fitted models: all that labels and embeds a new row. A few MB, whatever the number of rows was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Span, cut_span
from ultraspec.spectral.choice import Choice
from ultraspec.spectral.edges import Edges, LazyEdges, new_edges
from ultraspec.spectral.labelings import degree_shares
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.outliers import distances_of_edges, map_stored, scores_of_edges, usual_distances
from ultraspec.spectral.partition import Partition, RowLabeler, VotePartition, partition_from_arrays
from ultraspec.storage.cached import cached_attribute

SPREAD_ROWS = 1024  # representatives whose distances are computed at a time

Arrays = dict[str, npt.NDArray[Any]]
Labels = npt.NDArray[np.int32]


class RowModel(ABC):
    """Labels and embeds preprocessed rows.

    Attributes
    ----------
    partition : Partition
        Clusters of what the rows have edges to.
    choice : Choice or None
        Trees of the first model's representatives, and the graphs that judge them.
    """

    partition: Partition
    choice: Choice | None

    @property
    @abstractmethod
    def members(self) -> Sequence[Model]:
        """The U-SPEC models: the model itself, or the members of an ensemble."""

    @abstractmethod
    def edges(self, block: Block) -> Edges:
        """Find the edges of preprocessed rows to what `partition` divides."""

    @abstractmethod
    def marks(self, block: Block) -> npt.NDArray[Any]:
        """Return a few integers per preprocessed row that recognise it."""

    @property
    def has_confidence(self) -> bool:
        """Whether `label_with_confidence` works."""
        return False

    def label_with_confidence(self, block: Block) -> tuple[Labels, npt.NDArray[np.float32]]:  # noqa: ARG002
        """Label preprocessed rows; also return the confidence in each label."""
        raise TypeError(f"{type(self).__name__} has no confidence.")

    def label(self, block: Block) -> Labels:
        """Label preprocessed rows."""
        return self.partition.label(self.edges(block))

    def memberships(self, block: Block) -> npt.NDArray[np.float32]:
        """Return the share (n, k) of each cluster in the weight of preprocessed rows."""
        assert isinstance(self.partition, VotePartition)
        return self.partition.memberships(self.edges(block))

    def outlier_scores(self, block: Block) -> npt.NDArray[np.float32]:
        """Return the outlier scores of preprocessed rows, by the graph of the first model."""
        first = self.members[0]
        edges = Edges(*first.index.query(block))
        return scores_of_edges(edges, distances_of_edges(edges), first.usual_distances)

    def embed(self, block: Block) -> npt.NDArray[np.float32]:
        """Embed preprocessed rows."""
        return self.partition.embed(self.edges(block))


@dataclass(frozen=True)
class Model(RowModel):
    """Model of U-SPEC.

    Attributes
    ----------
    index : RepresentativeIndex
        Finds the nearest representatives of a row.
    sigma : float
        Width of the affinity.
    partition : Partition
        Clusters of the embedding.
    choice : Choice or None
        Trees of the representatives, and the graphs that judge them, for other numbers of clusters.
    """

    index: RepresentativeIndex
    sigma: float
    partition: Partition
    choice: Choice | None = None

    @property
    def members(self) -> Sequence[Model]:
        """The model itself."""
        return [self]

    def edges(self, block: Block) -> Edges:
        """Find the edges of preprocessed rows to their nearest representatives."""
        return new_edges(block, self.index, self.sigma)

    def label(self, block: Block) -> Labels:
        """Label preprocessed rows."""
        return self._labeler.label(block)

    @cached_attribute
    def _labeler(self) -> RowLabeler:
        """Return what labels rows, with its tables."""
        return RowLabeler(self.index, self.sigma, self.partition)

    def marks(self, block: Block) -> npt.NDArray[np.uint16]:
        """Return the nearest representatives of preprocessed rows."""
        return self.edges(block).ids

    @cached_attribute
    def usual_distances(self) -> npt.NDArray[np.float32]:
        """Usual distance (p,) of rows to their representatives, at each representative."""
        return self.measure_distances(ThreadEngine(1))

    def measure_distances(self, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Compute `usual_distances` with the threads of an engine."""
        R = self.index.representatives
        spreads = np.empty(len(R), dtype=np.float32)
        groups = np.empty(len(R), dtype=np.int32)

        def measure(span: Span) -> None:
            part = slice(*span)
            edges = Edges(*self.index.query(R[part]), self.sigma)
            spreads[part] = distances_of_edges(edges)
            edges.weigh()
            groups[part] = self.partition.label(edges)

        engine.map(measure, cut_span((0, len(R)), SPREAD_ROWS))
        usual = usual_distances(spreads, groups, degree_shares(self.partition.spectrum))
        vars(self)["usual_distances"] = usual  # where the attribute is cached
        return usual

    @property
    def has_confidence(self) -> bool:
        """Whether other graphs have judged the clusters."""
        return isinstance(self.partition, VotePartition) and self.partition.trust is not None

    def label_with_confidence(self, block: Block) -> tuple[Labels, npt.NDArray[np.float32]]:
        """Label preprocessed rows; also return how far other graphs keep each row with its cluster."""
        if not self.has_confidence:
            raise ValueError('This model has no other graphs that give confidence. Fit again with discretize="auto".')
        assert isinstance(self.partition, VotePartition)
        edges = self.edges(block)
        return self.partition.label(edges), self.partition.confidence(edges)

    def arrays(self) -> Arrays:
        """Return the state as arrays, for files."""
        choice = {} if self.choice is None else self.choice.arrays()
        return {**self.index.arrays(), "sigma": np.asarray(self.sigma), **self.partition.arrays(), **choice}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Model:
        """Restore a model from what `arrays` returned; other arrays are ignored."""
        partition = partition_from_arrays(arrays)
        choice = Choice.from_arrays(partition.spectrum, arrays)
        return cls(RepresentativeIndex.from_arrays(arrays), float(arrays["sigma"]), partition, choice)


def score_stored_rows(
    model: Model, edges: Edges | LazyEdges, distances: npt.NDArray[np.float32] | None, engine: ThreadEngine
) -> npt.NDArray[np.float32] | None:
    """Return the outlier scores of the fitted rows, given their mean distances; None if edges are not stored."""
    if distances is None or not isinstance(edges, Edges):
        return None
    usual = model.measure_distances(engine)
    return map_stored(edges, lambda part, rows: scores_of_edges(part, distances[rows], usual), engine)
