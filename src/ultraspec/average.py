"""U-SENC's consensus by average linkage: takes the labels of all members, gives clusters of the first one's rows.

The members' labels move to the representatives of the first member: each takes the cluster that most of its rows'
weight is in. Average linkage joins representatives that many members put into one small cluster, and rows vote. It
costs O(N m K) and one tree, whatever the number of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import groups
from ultraspec._kernels.groups import add_votes
from ultraspec.bipartite import Edges, FoundEdges, Spectrum
from ultraspec.engines import ThreadEngine
from ultraspec.kmeans import Labels, Span
from ultraspec.linkage import Tree

VOTES_VALUES = 2**22  # of all partial results together, about

Votes = npt.NDArray[np.float64]


def tree_of_members(
    spectrum: Spectrum,
    edges: Edges | FoundEdges,
    base_labels: npt.NDArray[Any],
    sizes: Sequence[int],
    engine: ThreadEngine,
) -> Tree:
    """Tree of the first member's representatives.

    Parameters
    ----------
    spectrum : Spectrum
        Of the first member.
    edges : Edges or FoundEdges
        Of all rows to its representatives.
    base_labels : ndarray of shape (n, m), unsigned
        Labels of all rows by the members.
    sizes : sequence of int
        Clusters of each member.
    engine : ThreadEngine
        Runs the pass.
    """
    p = len(spectrum.vectors)
    votes = count_votes(edges, edges.blocks(), base_labels, sizes, p, engine)
    used = np.flatnonzero(votes.any(axis=1))
    if used.size < p:  # what no row is tied to follows the representative that lent it its vectors
        unit = spectrum.unit_rows(spectrum.vectors.shape[1])
        unused = np.setdiff1d(np.arange(p), used)
        votes[unused] = votes[used[(unit[unused] @ unit[used].T).argmax(axis=1)]]
    labelings = [part.argmax(axis=1).astype(np.int32) for part in np.split(votes, np.cumsum(sizes)[:-1], axis=1)]
    return groups.tree_of(labelings, groups.shares(spectrum))


def count_votes(
    edges: Any, blocks: list[Span], base_labels: npt.NDArray[Any], sizes: Sequence[int], p: int, engine: ThreadEngine
) -> Votes:
    """Weight (p, sum of sizes) of the rows tied to each representative in each cluster of each member."""
    firsts = first_columns(sizes)

    def add(votes: Votes, span: Span) -> None:
        mine = edges[slice(*span)]
        add_votes(mine.ids, mine.weights, np.ascontiguousarray(base_labels[slice(*span)]), firsts, votes)

    n_votes = p * sum(sizes)
    most_groups = max(2, VOTES_VALUES // n_votes)
    return engine.fold(blocks, lambda: np.zeros((p, sum(sizes))), add, np.add, most_groups=most_groups)


def first_columns(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """Number of each member's first cluster among all."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


class _OwnClusters:
    """Rows tied to their own cluster with weight one."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    def __getitem__(self, rows: slice) -> Edges:
        ids = self._labels[rows].astype(np.uint16)[:, None]
        return Edges(ids, np.ones(ids.shape, dtype=np.float32))


def backing(
    labels: Labels,
    base_labels: npt.NDArray[Any],
    sizes: Sequence[int],
    k: int,
    blocks: list[Span],
    engine: ThreadEngine,
) -> tuple[Labels, Callable[[slice], npt.NDArray[np.float32]]]:
    """The label that most rows of each base cluster have, and a function for the share of members that back a label.

    That gives, for a range of rows, the share for each. A member backs it if most rows of the member's cluster that the
    row is in have that label.
    """
    votes = count_votes(_OwnClusters(labels), blocks, base_labels, sizes, k, engine)
    majority, firsts = votes.argmax(axis=0).astype(np.int32), first_columns(sizes)

    def share(rows: slice) -> npt.NDArray[np.float32]:
        same = majority[base_labels[rows] + firsts] == labels[rows, None]
        return same.mean(axis=1, dtype=np.float32)

    return majority, share
