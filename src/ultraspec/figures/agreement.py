"""Confidence in the labels of rows, and agreement of the members of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec import metrics
from ultraspec.ensemble.consensus import support
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledBlock, LabeledRows, Selection
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.partition import VotePartition

AGREEMENT_ROWS = 5_000  # each pair of members is compared on a sample of this size


class RowConfidence:
    """Confidence of rows: that of the model in its clusters, or the share of members that support other clusters.

    A member supports the cluster of a row if most rows of its own cluster of this row are in it. The confidence is
    read from the model if it is stored there, and else computed from the edges or the base clusters.

    Parameters
    ----------
    rows : LabeledRows
        Rows for which `has_confidence` is true.
    sample : LabeledBlock or None
        Sample of the rows, with `base_clusters` if there is no `stored_confidence(rows)`.

    Attributes
    ----------
    needs_edges, needs_base_clusters : bool
        Whether `of` needs blocks with `edges`, or with `base_clusters`.
    """

    def __init__(self, rows: LabeledRows, sample: LabeledBlock | None) -> None:
        self._stored = stored_confidence(rows)
        self._judged = judged_partition(rows)
        self.needs_edges = self._stored is None and self._judged is not None
        self.needs_base_clusters = self._stored is None and self._judged is None
        if self.needs_base_clusters:
            assert sample is not None
            self._majority = majority_clusters(rows, sample)

    def of(self, block: LabeledBlock, where: Selection) -> npt.NDArray[np.float32]:
        """Return the confidence of the rows of `block`, which are the rows `where` of all."""
        if self._stored is not None:
            return np.asarray(self._stored[where], dtype=np.float32)
        if self._judged is not None:
            assert block.edges is not None
            return self._judged.confidence(block.edges)
        assert block.base_clusters is not None
        return support(block.base_clusters, block.codes, self._majority)


def has_confidence(rows: LabeledRows) -> bool:
    """Return whether there is a confidence in the clusters that are shown."""
    return rows.is_ensemble or judged_partition(rows) is not None


def stored_confidence(rows: LabeledRows) -> npt.NDArray[np.float32] | None:
    """Return the confidence of all rows if the model stores it, or the edges that give it."""
    is_stored = rows.is_ensemble or isinstance(rows.state.voting_edges, Edges)
    if rows.has_model_labels and rows.is_training_data and is_stored:
        return rows.without_missing(getattr(rows.model, "confidence_", None))
    return None


def judged_partition(rows: LabeledRows) -> VotePartition | None:
    """Return the clusters of the model if they are shown, and other graphs have judged them."""
    partition = rows.state.partition
    if not rows.has_model_labels or not isinstance(partition, VotePartition) or partition.trust is None:
        return None
    return partition


def majority_clusters(rows: LabeledRows, sample: LabeledBlock) -> Integers:
    """Return the cluster of most rows of each base cluster; -1 for base clusters without rows in the sample.

    The model stores them for its own clusters. For labels that the user passed, the sample is counted.
    """
    stored = getattr(rows.state.model, "majority", None)
    if rows.has_model_labels and stored is not None:
        return stored
    assert sample.base_clusters is not None
    k = len(rows.cluster_names)
    total = sum(member.partition.n_clusters for member in rows.state.members)
    votes = np.zeros((total, k), dtype=np.int64)
    for column in sample.base_clusters.T:
        votes += np.bincount(column.astype(np.int64) * k + sample.codes, minlength=total * k).reshape(total, k)
    return np.where(votes.any(axis=1), votes.argmax(axis=1), -1).astype(np.int32)


@dataclass(frozen=True)
class Agreement:
    """Agreement of the members of an ensemble on a sample of rows.

    Attributes
    ----------
    members : ndarray of shape (m, m)
        NMI of each two members.
    consensus : ndarray of shape (m,)
        NMI of each member with the consensus. It is well below one because members have more clusters.
    support : ndarray of shape (m,)
        Share of the rows whose cluster the member supports.
    n_clusters : ndarray of shape (m,)
        Number of clusters of each member.
    """

    members: Floats
    consensus: Floats
    support: Floats
    n_clusters: Integers


def compute_agreement(rows: LabeledRows, sample: LabeledBlock) -> Agreement:
    """Compute the agreement of the members on a sample with `base_clusters`."""
    assert sample.base_clusters is not None
    majority = majority_clusters(rows, sample)
    supported = (majority[sample.base_clusters] == sample.codes[:, None]).mean(axis=0)
    thinned = slice(None, None, -(-len(sample.codes) // AGREEMENT_ROWS))
    columns = sample.base_clusters[thinned]
    codes = sample.codes[thinned]
    m = columns.shape[1]
    matrix = np.eye(m)

    def fill(i: int) -> None:
        for j in range(i):
            matrix[i, j] = matrix[j, i] = metrics.nmi(columns[:, i], columns[:, j])

    rows.engine.map(fill, range(m))
    consensus = np.array([metrics.nmi(column, codes) for column in columns.T])
    n_clusters = np.array([member.partition.n_clusters for member in rows.state.members], dtype=np.int32)
    return Agreement(matrix, consensus, supported, n_clusters)
