"""Agglomerative clustering: takes a square matrix of distances or similarities, gives the tree of merges.

Rows may stand for several objects each, which SciPy's linkage does not know: average linkage of a thousand
representatives or microclusters is then that of all the objects behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_choice, check_integer
from ultraspec._kernels import linkage as kernels

METHODS = {"average": kernels.AVERAGE, "single": kernels.SINGLE, "complete": kernels.COMPLETE}


@dataclass(frozen=True)
class Tree:
    """Merges of p leaves, the nearest first.

    Attributes
    ----------
    merges : ndarray of shape (p - 1, 2), int64
        The two nodes of each merge: leaves are 0 .. p - 1, and merge t makes node p + t, as in SciPy.
    heights : ndarray of shape (p - 1,), float64
        Distance of the two, ascending; where the input was similarities, their similarity, descending.
    sizes : ndarray of shape (p - 1,), float64
        Objects in the node that each merge makes.
    """

    merges: npt.NDArray[np.int64]
    heights: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]

    @property
    def n_leaves(self) -> int:
        """Rows that were merged."""
        return len(self.merges) + 1

    def cut(self, n_clusters: int) -> npt.NDArray[np.int32]:
        """Labels (p,) of the leaves when only so many clusters are left, numbered by their first leaves."""
        check_integer("n_clusters", n_clusters, least=1, most=self.n_leaves)
        p, done = self.n_leaves, self.n_leaves - int(n_clusters)
        above = np.arange(p + done)
        above[self.merges[:done].ravel()] = np.repeat(np.arange(p, p + done), 2)
        while (further := above[above]).tobytes() != above.tobytes():  # each round doubles how far up a node points
            above = further
        _, firsts, labels = np.unique(above[:p], return_index=True, return_inverse=True)
        return np.argsort(np.argsort(firsts)).astype(np.int32)[labels.reshape(-1)]

    def to_scipy(self) -> npt.NDArray[np.float64]:
        """The tree (p - 1, 4) as functions of `scipy.cluster.hierarchy` take it, such as ``dendrogram``."""
        return np.column_stack([self.merges, self.heights, self.sizes]).astype(np.float64)


def agglomerate(
    matrix: npt.NDArray[Any],
    sizes: npt.NDArray[Any] | None = None,
    *,
    method: str = "average",
    similarity: bool = False,
    overwrite: bool = False,
) -> Tree:
    """Merge the nearest two clusters until one is left.

    Takes O(p^2) time (5 ms for a thousand rows) and, with `overwrite`, no memory but the matrix's.

    Parameters
    ----------
    matrix : ndarray of shape (p, p), float32 or float64
        Symmetric, finite distances; the diagonal does not count.
    sizes : ndarray of shape (p,), optional
        Positive numbers of objects that the rows stand for; one each by default.
    method : {"average", "single", "complete"}, default="average"
        Distance between clusters: the mean over all pairs of their objects, the smallest or the largest.
    similarity : bool, default=False
        Whether larger entries mean nearer.
    overwrite : bool, default=False
        Whether the matrix may be used as room to work in.

    Returns
    -------
    Tree

    Examples
    --------
    Rows on a line, the last of which stands for ten objects and draws the mean of its cluster:

    >>> import numpy as np
    >>> from ultraspec.cluster.linkage import agglomerate
    >>> x = np.array([0.0, 1.0, 10.0, 12.0])
    >>> tree = agglomerate(abs(x[:, None] - x), np.array([1, 1, 1, 10]))
    >>> tree.heights.round(2).tolist()
    [1.0, 2.0, 11.32]
    >>> tree.cut(2).tolist()
    [0, 0, 1, 1]
    """
    check_choice("method", method, tuple(METHODS))
    p = len(matrix)
    if matrix.shape != (p, p) or not p:
        raise ValueError(f"matrix must be square and not empty, got shape {matrix.shape}.")
    sizes = np.ones(p) if sizes is None else np.array(sizes, dtype=np.float64)
    if sizes.shape != (p,) or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError(f"sizes must be {p} positive numbers, one for each row of the matrix.")
    usable = overwrite and matrix.dtype in (np.float32, np.float64) and matrix.flags.c_contiguous
    room = matrix if usable else np.array(matrix, dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
    if similarity:
        np.negative(room, out=room)
    np.fill_diagonal(room, 0.0)
    if not np.isfinite(room.sum(dtype=np.float64)):
        raise ValueError("matrix must hold finite numbers: it has NaN or infinite entries.")
    pairs, heights = np.empty((p - 1, 2), dtype=np.int64), np.empty(p - 1)
    if p > 1:
        kernels.chain_linkage(room, sizes.copy(), METHODS[method], pairs, heights)
    tree = _in_order(pairs, heights, sizes)
    return Tree(tree.merges, -tree.heights, tree.sizes) if similarity else tree


def _in_order(pairs: npt.NDArray[np.int64], heights: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> Tree:
    """Merges sorted by height; a stable sort keeps those of one row in order, as none is lower than one below it."""
    p = len(sizes)
    order = np.argsort(heights, kind="stable")
    merges, counts = np.empty_like(pairs), np.empty(len(pairs))
    nodes, totals = list(range(p)), sizes.tolist()  # which each row stands for by now
    for t, (x, y) in enumerate(pairs[order].tolist()):
        merges[t] = sorted((nodes[x], nodes[y]))
        totals[x] += totals[y]
        nodes[x], counts[t] = p + t, totals[x]
    return Tree(merges, heights[order], counts)
