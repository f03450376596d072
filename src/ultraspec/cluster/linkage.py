"""Agglomerative clustering: the tree of merges of a square matrix of distances or similarities.

Unlike in SciPy, a row may stand for several objects: average linkage of a thousand representatives or microclusters is
then average linkage of all objects that they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        Distance of the two nodes, ascending; or their similarity, descending, if the matrix had similarities.
    sizes : ndarray of shape (p - 1,), float64
        Number of objects in the node that each merge makes.
    """

    merges: npt.NDArray[np.int64]
    heights: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]

    @property
    def n_leaves(self) -> int:
        """Number of leaves, p."""
        return len(self.merges) + 1

    def cut(self, n_clusters: int) -> npt.NDArray[np.int32]:
        """Return the labels (p,) of the leaves when `n_clusters` clusters are left, numbered by their first leaves."""
        return self._cut(n_clusters)[0]

    def roots(self, n_clusters: int) -> npt.NDArray[np.int64]:
        """Return the nodes that are the clusters of `cut`, in its numbering."""
        return self._cut(n_clusters)[1]

    def _cut(self, n_clusters: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        check_integer("n_clusters", n_clusters, least=1, most=self.n_leaves)
        labels = np.empty(self.n_leaves, dtype=np.int32)
        roots = np.empty(int(n_clusters), dtype=np.int64)
        kernels.cut_tree(self.merges, labels, roots)
        return labels, roots

    def labels_of(self, nodes: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the labels (p,) of the leaves if each of `nodes` is a cluster, numbered by their first leaves.

        Parameters
        ----------
        nodes : sequence of int
            Leaves (0 .. p - 1) and merges (p + t), such that every leaf is below exactly one of them.
        """
        p = self.n_leaves
        chosen: list[int] = []
        for node in nodes:
            check_integer("nodes", node, least=0, most=p + len(self.merges) - 1)
            chosen.append(int(node))
        if len(set(chosen)) < len(chosen):
            twice = next(node for node in chosen if chosen.count(node) > 1)
            raise ValueError(f"nodes must be distinct, but node {twice} is there twice.")
        owner = np.full(2 * p - 1, -1, dtype=np.int64)  # the chosen node that each node is below
        owner[chosen] = chosen
        for t in range(len(self.merges) - 1, -1, -1):
            above = owner[p + t]
            if above < 0:
                continue
            for child in self.merges[t]:
                if owner[child] >= 0:
                    raise ValueError(f"nodes must not contain each other, but node {child} is below node {above}.")
                owner[child] = above
        missing = np.flatnonzero(owner[:p] < 0)
        if missing.size:
            raise ValueError(
                f"nodes must cover the tree, but {missing.size:,} of its {p:,} leaves are below none of them, "
                f"for example leaf {missing[0]}."
            )
        _, first, labels = np.unique(owner[:p], return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first)).astype(np.int32)[labels.reshape(-1)]

    def to_scipy(self) -> npt.NDArray[np.float64]:
        """Return the tree as a matrix (p - 1, 4) for functions of `scipy.cluster.hierarchy`, such as ``dendrogram``."""
        return np.column_stack([self.merges, self.heights, self.sizes]).astype(np.float64)


def agglomerate(
    matrix: npt.NDArray[Any],
    sizes: npt.NDArray[Any] | None = None,
    *,
    method: str = "average",
    similarity: bool = False,
    overwrite: bool = False,
) -> Tree:
    """Merge the two nearest clusters until one is left.

    Takes O(p^2) time (5 ms for a thousand rows) and, with `overwrite`, no further memory.

    Parameters
    ----------
    matrix : ndarray of shape (p, p), float32 or float64
        Symmetric, finite distances; the diagonal is ignored.
    sizes : ndarray of shape (p,), optional
        Positive numbers of objects that the rows stand for; one each by default.
    method : {"average", "single", "complete"}, default="average"
        Distance between clusters: the mean over all pairs of their objects, the smallest or the largest.
    similarity : bool, default=False
        Whether the matrix holds similarities: larger entries are nearer.
    overwrite : bool, default=False
        Whether the matrix may be used as a buffer.

    Returns
    -------
    Tree
        The merges.

    Examples
    --------
    Points on a line, the last of which stands for ten objects and dominates the mean of its cluster:

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
    buffer = matrix if usable else np.array(matrix, dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
    if similarity:
        np.negative(buffer, out=buffer)
    np.fill_diagonal(buffer, 0.0)
    if not np.isfinite(buffer.sum(dtype=np.float64)):
        raise ValueError("matrix must hold finite numbers: it has NaN or infinite entries.")
    pairs = np.empty((p - 1, 2), dtype=np.int64)
    heights = np.empty(p - 1)
    if p > 1:
        kernels.chain_linkage(buffer, sizes.copy(), METHODS[method], pairs, heights)
    tree = _sort_merges(pairs, heights, sizes)
    return Tree(tree.merges, -tree.heights, tree.sizes) if similarity else tree


def _sort_merges(
    pairs: npt.NDArray[np.int64], heights: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]
) -> Tree:
    """Sort merges of rows by height, and number their nodes.

    No merge is lower than those below it, so after a stable sort each still comes after those below it.
    """
    p = len(sizes)
    order = np.argsort(heights, kind="stable")
    merges = np.empty_like(pairs)
    merged_sizes = np.empty(len(pairs))
    nodes = list(range(p))  # node that each row stands for now
    totals = sizes.tolist()  # and its number of objects
    for t, (x, y) in enumerate(pairs[order].tolist()):
        merges[t] = sorted((nodes[x], nodes[y]))
        totals[x] += totals[y]
        nodes[x] = p + t
        merged_sizes[t] = totals[x]
    return Tree(merges, heights[order], merged_sizes)
