"""Consensus of an ensemble: the interface of the ways to combine members into one clustering.

A method keeps data that grows with the rows, so model files do without it: a `Partition` is enough to label new rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.members import MemberOptions, label_members
from ultraspec.rows import Block, Rows, RowWeights
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.model import Model
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import Partition
from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint


@dataclass(frozen=True)
class Ensemble:
    """Finished members.

    Attributes
    ----------
    models : list of Model
        Label new rows.
    base_labels : ndarray or SpooledMatrix of shape (n, m), or None
        Labels of the fitted rows; None if these are on a cluster, or if the consensus does not need them.
    rows : Rows or None
        The fitted rows, preprocessed, if they are at hand.
    edges : Edges, LazyEdges or None
        Edges of the fitted rows to the first member's representatives, if they are at hand.
    weights : RowWeights or None
        Weights of the fitted rows; None if all count alike.
    """

    models: list[Model]
    base_labels: Any
    rows: Rows | None
    edges: Edges | LazyEdges | None = None
    weights: RowWeights | None = None

    @property
    def sizes(self) -> list[int]:
        """Number of clusters of each member."""
        return [model.partition.n_clusters for model in self.models]

    @property
    def labeler(self) -> Callable[[Block], npt.NDArray[Any]]:
        """Function that labels a block of preprocessed rows by all members (n, m); workers of a cluster can run it."""
        return partial(label_members, self.models, dtype=np.min_scalar_type(max(self.sizes) - 1))

    def without_rows(self) -> Ensemble:
        """Return a copy without the rows, unless these are on a cluster, where holding them costs nothing."""
        keep = self.rows is not None and self.rows.remote
        return replace(self, edges=None, rows=self.rows if keep else None)


@dataclass(frozen=True)
class Consensus:
    """One clustering of the rows.

    Attributes
    ----------
    partition : Partition
        Labels new rows.
    labels : ndarray of int32, or None
        Labels of the fitted rows; None if these are on a cluster.
    confidence : ndarray of float32, or None
        Confidence in the label of each fitted row; None if these are on a cluster.
    majority : ndarray of int32, or None
        Label of most rows of each base cluster, if confidence is the support by members; base clusters are numbered
        through all members.
    n_iter : int
        Iterations of k-means.
    agreements : dict of str to float, or None
        Agreement of each candidate with the other members, the largest first, if one was chosen by it.
    """

    partition: Partition
    labels: Labels | None
    confidence: npt.NDArray[np.float32] | None
    majority: Labels | None
    n_iter: int
    agreements: dict[str, float] | None = None


class ConsensusMethod(ABC):
    """A way to combine members.

    Attributes
    ----------
    votes : bool
        Whether clusters are groups of the first member's representatives, and rows vote.
    needs_n_clusters : bool
        Whether members depend on the number of clusters that will be asked for.
    samples : bool
        Whether graphs may be built from a sample of the rows.
    """

    votes: ClassVar[bool] = False
    needs_n_clusters: ClassVar[bool] = False
    samples: ClassVar[bool] = False

    @classmethod
    @abstractmethod
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
        """Generate the members that this method combines, and label the rows by them.

        Graphs are built from `graph_rows`: all rows, or a sample of them in memory.
        """

    @classmethod
    @abstractmethod
    def build(cls, members: Ensemble, n_clusters: int, regularization: float, engine: ThreadEngine) -> ConsensusMethod:
        """Combine members for the first time."""

    @classmethod
    @abstractmethod
    def restore(
        cls, members: Ensemble, partition: Partition, regularization: float, engine: ThreadEngine
    ) -> ConsensusMethod:
        """Restore what `build` returned, from members and a partition that it gave."""

    @abstractmethod
    def cut(self, n_clusters: int, options: LabelOptions, engine: ThreadEngine) -> Consensus:
        """Cut the consensus into `n_clusters` clusters."""

    def cut_at(self, nodes: Sequence[int], tree: str, engine: ThreadEngine) -> Consensus:  # noqa: ARG002
        """Cut a tree of the first member at some of its nodes, which become the clusters."""
        raise ValueError("nodes are those of a tree, and the transfer cut has none. Fit with consensus='auto'.")

    @abstractmethod
    def embed(self, partition: Partition, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Embed the fitted rows."""


def support(columns: npt.NDArray[np.int32], labels: Labels, majority: Labels) -> npt.NDArray[np.float32]:
    """Return the share of base clusterings that support the label of each row.

    `columns` (n, m) are the base clusters of the rows, -1 for none. A clustering supports a label if most rows of the
    base cluster have that label. Clusterings that do not assign the row do not count.
    """
    agreeing = np.zeros(len(labels))
    assigned = np.zeros(len(labels))
    for column in columns.T:
        present = column >= 0
        agreeing += present & (majority[column] == labels)
        assigned += present
    return (agreeing / np.maximum(assigned, 1)).astype(np.float32)


def warn_if_single(sizes: Sequence[int], n_clusters: int) -> None:
    """Warn if the clusters of a single clustering are to be merged: nothing tells which belong together."""
    if len(sizes) == 1 and 1 < n_clusters < sizes[0]:
        warn_user(
            f"A single clustering is no ensemble: which of its {sizes[0]:,} clusters are merged is arbitrary. Add "
            "base clusterings, or use USPEC.",
            UserWarning,
        )
