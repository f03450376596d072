"""Similarities of all pairs of microclusters: rows of the co-association matrix, or the whole of it, and its linkage.

The row of a microcluster is the sum of m rows of a table, which holds the similarities of every base cluster to all
microclusters. The table is split into pieces that fit into the cache, so that a row costs m additions per pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels
from ultraspec.baselines._memory_limit import check_memory
from ultraspec.cluster.linkage import agglomerate
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Span, cut_span

PIECE_BYTES = 2**20  # size of a piece of the table
BLOCK_PAIRS = 2**22  # entries of the matrix that are computed at once

ClusterSimilarity = npt.NDArray[np.float64] | None


class PairSimilarity:
    """Similarity of the rows of two microclusters: the mean over the clusterings that assign both.

    `cluster_similarity` (k_c, k_c) is that of base clusters of the same clustering, and zero for those of different
    clusterings. By default it is 1 for a cluster and itself: the similarity is then the fraction of clusterings that
    put the two together.
    """

    def __init__(self, clusterings: BaseClusterings, cluster_similarity: ClusterSimilarity = None) -> None:
        self._clusterings = clusterings
        # counts up to m are exact in the smallest integer type that holds m, and fewer bytes are faster
        counts_type: Any = np.uint8 if clusterings.n_clusterings < 256 else np.uint16
        self._dtype: Any = counts_type if cluster_similarity is None else np.float32
        step = max(64, PIECE_BYTES // (clusterings.n_columns * np.dtype(self._dtype).itemsize))
        self._spans = cut_span((0, len(clusterings)), step)
        self._pieces = [self._piece(slice(*span), cluster_similarity) for span in self._spans]
        self._present = None if clusterings.complete else (clusterings.columns >= 0).astype(np.float32)

    def _piece(self, rows: slice, cluster_similarity: ClusterSimilarity) -> npt.NDArray[Any]:
        """Return the similarities (k_c, n) of all base clusters to some microclusters."""
        B = self._clusterings.memberships(rows, self._dtype)
        if cluster_similarity is None:
            return np.ascontiguousarray(B.toarray().T)
        return np.ascontiguousarray((B @ cluster_similarity.astype(np.float32)).T)

    def blocks(self) -> list[Span]:
        """Return ranges of microclusters whose rows are computed at once."""
        n = len(self._clusterings)
        return cut_span((0, n), max(1, BLOCK_PAIRS // n))

    def fill(self, rows: slice, out: npt.NDArray[np.float32]) -> None:
        """Write the similarities (n, M) of some microclusters to all."""
        B = self._clusterings.memberships(rows, self._dtype)
        for (low, high), piece in zip(self._spans, self._pieces, strict=True):
            out[:, low:high] = B @ piece
        if self._present is None:
            out *= np.float32(1.0 / self._clusterings.n_clusterings)
        else:
            # number of clusterings that assign both rows; at least 1, as the sum is 0 if there are none
            out /= np.maximum(self._present[rows] @ self._present.T, 1)


def similarity_matrix(
    clusterings: BaseClusterings,
    cluster_similarity: ClusterSimilarity,
    method: str,
    max_pairs_bytes: int | None,
    engine: ThreadEngine,
) -> npt.NDArray[np.float32]:
    """Return the similarities (M, M) of all pairs, or raise a MemoryError for `method` if they exceed the limit."""
    n = len(clusterings)
    what = f"the {n:,} x {n:,} matrix of similarities between groups of rows that differ in their base labels"
    table_bytes = n * clusterings.n_columns * (1 if cluster_similarity is None else 4)
    advice = "Use LWGP or U-SENC, pass fewer rows, or raise max_pairs_bytes."
    check_memory(method, what, 4 * n * n + table_bytes, max_pairs_bytes, advice)
    similarity = PairSimilarity(clusterings, cluster_similarity)
    out = np.empty((n, n), dtype=np.float32)
    engine.map(lambda span: similarity.fill(slice(*span), out[slice(*span)]), similarity.blocks())
    return out


def link_microclusters(
    clusterings: BaseClusterings, cluster_similarity: ClusterSimilarity, k: int, model: Any, engine: ThreadEngine
) -> ConsensusLabels:
    """Merge microclusters until `k` clusters are left, with the `linkage` and `max_pairs_bytes` of an estimator."""
    method = type(model).__name__
    similarities = similarity_matrix(clusterings, cluster_similarity, method, model.max_pairs_bytes, engine)
    tree = agglomerate(similarities, clusterings.weights, method=model.linkage, similarity=True, overwrite=True)
    return ConsensusLabels(tree.cut(k))
