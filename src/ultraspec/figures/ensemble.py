"""What an ensemble says of its own result: confidence of rows, agreement of members."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec import metrics
from ultraspec.figures.source import Codes, Floats, Part, Source, Where

N_LEVELS = 21  # of confidence in histograms: 0, 0.05 ... 1
AGREEMENT_ROWS = 5_000


class Backing:
    """Confidence of rows: the share of members that back a row's cluster.

    A member backs it if most rows of the member's cluster that the row is in are of that cluster. Taken from the
    model where it holds it, else with the majorities of a sample.

    Parameters
    ----------
    source : Source
        An ensemble with rows.
    sample : Part or None
        The source's sample with `columns`, where `needs_columns(source)`.
    """

    def __init__(self, source: Source, sample: Part | None) -> None:
        self.needs_columns = needs_columns(source)
        self._kept = None if self.needs_columns else source.model.confidence_
        if self.needs_columns:
            assert sample is not None
            self._majority = majorities(source, sample)

    def of(self, part: Part, where: Where) -> npt.NDArray[np.float32]:
        """Confidence of the rows of `part`, which lie at `where` among all."""
        if self._kept is not None:
            return np.asarray(self._kept[where], dtype=np.float32)
        assert part.columns is not None
        return (self._majority[part.columns] == part.codes[:, None]).mean(axis=1, dtype=np.float32)


def needs_columns(source: Source) -> bool:
    """Whether the confidence of rows has to be found from their base clusters."""
    return not (source.own and source.fitted and getattr(source.model, "confidence_", None) is not None)


def majorities(source: Source, sample: Part) -> Codes:
    """The cluster that most rows of each base cluster are in; -1 for base clusters that a sample does not meet.

    The model knows that of its own clusters; of others, the sample tells.
    """
    assert sample.columns is not None
    majority = getattr(source.state.model, "majority", None)
    if source.own and majority is not None:
        return majority
    k = len(source.names)
    total = int(source.first_columns[-1]) + source.state.members[-1].partition.n_clusters
    votes = np.zeros((total, k), dtype=np.int64)
    for column in sample.columns.T:
        votes += np.bincount(column.astype(np.int64) * k + sample.codes, minlength=total * k).reshape(total, k)
    return np.where(votes.any(axis=1), votes.argmax(axis=1), -1).astype(np.int32)


@dataclass(frozen=True)
class Agreement:
    """How far the members of an ensemble agree, on a sample of rows.

    Attributes
    ----------
    members : ndarray of shape (m, m)
        NMI of each two members.
    consensus : ndarray of shape (m,)
        NMI of each member and the consensus. Members are finer, so it is well below one.
    backed : ndarray of shape (m,)
        Share of the rows whose cluster each member backs.
    n_clusters : ndarray of shape (m,)
        Clusters of each member.
    n_rows : int
        Rows of the sample.
    """

    members: Floats
    consensus: Floats
    backed: Floats
    n_clusters: Codes
    n_rows: int


def agreement(source: Source, sample: Part) -> Agreement:
    """Agreement of the members on a sample with `columns`."""
    assert sample.columns is not None
    majority = majorities(source, sample)
    backed = (majority[sample.columns] == sample.codes[:, None]).mean(axis=0)
    few = slice(None, None, -(-len(sample.codes) // AGREEMENT_ROWS))
    columns, codes = sample.columns[few], sample.codes[few]
    m = columns.shape[1]
    matrix = np.eye(m)

    def fill(i: int) -> None:
        for j in range(i):
            matrix[i, j] = matrix[j, i] = metrics.nmi(columns[:, i], columns[:, j])

    source.engine.map(fill, range(m))
    consensus = np.array([metrics.nmi(column, codes) for column in columns.T])
    sizes = np.array([member.partition.n_clusters for member in source.state.members], dtype=np.int32)
    return Agreement(matrix, consensus, backed, sizes, len(codes))
