"""U-SENC's consensus by average linkage: takes the labels of all members, gives clusters of the first one's rows.

The members' labels move to the representatives of the first member: each takes the cluster that most of its rows'
weight is in. Average linkage joins representatives that many members put into one small cluster, and rows vote. It
costs O(N m K) and one tree, whatever the number of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.linkage import Tree
from ultraspec.cluster.points import Labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral import agreement
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.transfer_cut import Spectrum

VOTES_VALUES = 2**22  # of all partial results together, about

Votes = npt.NDArray[np.float64]


def tree_of_members(spectrum: Spectrum, votes: Votes, sizes: Sequence[int]) -> Tree:
    """Tree of the first member's representatives.

    Parameters
    ----------
    spectrum : Spectrum
        Of the first member.
    votes : ndarray of shape (p, sum of sizes), float64
        Weight of the rows tied to each representative in each cluster of each member.
    sizes : sequence of int
        Clusters of each member.
    """
    p = len(spectrum.vectors)
    used = np.flatnonzero(votes.any(axis=1))
    if used.size < p:  # what no row is tied to follows the representative that lent it its vectors
        unit = spectrum.unit_rows(spectrum.vectors.shape[1])
        unused = np.setdiff1d(np.arange(p), used)
        votes[unused] = votes[used[(unit[unused] @ unit[used].T).argmax(axis=1)]]
    labelings = [part.argmax(axis=1).astype(np.int32) for part in np.split(votes, np.cumsum(sizes)[:-1], axis=1)]
    return agreement.tree_of(labelings, agreement.shares(spectrum))


def count_votes(
    edges: Any, blocks: list[Span], base_labels: npt.NDArray[Any], sizes: Sequence[int], p: int, engine: ThreadEngine
) -> Votes:
    """Weight (p, sum of sizes) of the rows tied to each of `p` things in each cluster of each member."""
    firsts = first_columns(sizes)

    def add(votes: Votes, span: Span) -> None:
        mine = edges[slice(*span)]
        kernels.add_votes(mine.ids, mine.weights, np.ascontiguousarray(base_labels[slice(*span)]), firsts, votes)

    most_groups = max(2, VOTES_VALUES // (p * sum(sizes)))
    return engine.fold(blocks, partial(np.zeros, (p, sum(sizes))), add, np.add, most_groups=most_groups)


def count_votes_of_rows(
    rows: Rows,
    tie: Callable[[Block], Edges],
    label: Callable[[Block], npt.NDArray[Any]],
    sizes: Sequence[int],
    p: int,
    engine: ThreadEngine,
) -> Votes:
    """The same for rows whose edges and base labels are made where the rows are."""
    firsts = first_columns(sizes)

    def add(votes: Votes, block: Block, span: Span) -> None:  # noqa: ARG001
        mine = tie(block)
        kernels.add_votes(mine.ids, mine.weights, label(block), firsts, votes)

    return engine.fold_rows(rows, partial(np.zeros, (p, sum(sizes))), add, np.add)


def first_columns(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """Number of each member's first cluster among all."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def own_clusters(labels: Labels) -> Edges:
    """Rows tied to their own cluster with weight one."""
    ids = labels.astype(np.uint16)[:, None]
    return Edges(ids, np.ones(ids.shape, dtype=np.float32))


class OwnClusters:
    """The same for all rows, made as they are asked for."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    def __getitem__(self, rows: slice) -> Edges:
        return own_clusters(self._labels[rows])
