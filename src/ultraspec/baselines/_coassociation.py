"""Similarities of all pairs of microclusters: takes an ensemble, gives rows or the whole of its co-association matrix.

A microcluster's row is the sum of m rows of a table: of every base cluster's similarities to all microclusters. The
table is cut into pieces that stay in cache, so that a row costs m additions per pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._base_clusterings import BaseClusterings
from ultraspec.baselines._memory_limit import check_pairs_memory
from ultraspec.engines.threads import ThreadEngine

PIECE_BYTES = 2**20  # of the table
BLOCK_PAIRS = 2**22


class PairSimilarity:
    """How alike the rows of two microclusters are: the mean over the clusterings that assign both.

    Parameters
    ----------
    ensemble : BaseClusterings
        Base clusterings.
    likeness : ndarray of shape (k_c, k_c), float64, optional
        Similarity of base clusters of the same clustering, zero for those of different ones; by default 1 for a
        cluster and itself: the share of clusterings that put the two together.
    """

    def __init__(self, ensemble: BaseClusterings, likeness: npt.NDArray[np.float64] | None = None) -> None:
        self._ensemble = ensemble
        m = ensemble.n_clusterings
        # counts are exact in whatever type has room for them, and the fewer bytes the faster
        self._dtype: Any = (np.uint8 if m < 256 else np.uint16) if likeness is None else np.float32
        step = max(64, PIECE_BYTES // (ensemble.n_columns * np.dtype(self._dtype).itemsize))
        self._spans = [(low, min(low + step, len(ensemble))) for low in range(0, len(ensemble), step)]
        self._pieces = [self._piece(slice(*span), likeness) for span in self._spans]
        self._present = None if ensemble.complete else (ensemble.columns >= 0).astype(np.float32)

    def _piece(self, rows: slice, likeness: npt.NDArray[np.float64] | None) -> npt.NDArray[Any]:
        """Similarities (k_c, n) of all base clusters to some microclusters."""
        B = self._ensemble.memberships(rows, self._dtype)
        if likeness is None:
            return np.ascontiguousarray(B.toarray().T)
        return np.ascontiguousarray((B @ likeness.astype(np.float32)).T)

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows to ask for at once."""
        n = len(self._ensemble)
        step = max(1, BLOCK_PAIRS // n)
        return [(low, min(low + step, n)) for low in range(0, n, step)]

    def fill(self, rows: slice, out: npt.NDArray[np.float32]) -> None:
        """Write the similarities (n, M) of some microclusters to all."""
        B = self._ensemble.memberships(rows, self._dtype)
        for (low, high), piece in zip(self._spans, self._pieces, strict=True):
            out[:, low:high] = B @ piece
        if self._present is None:
            out *= np.float32(1.0 / self._ensemble.n_clusterings)
        else:
            out /= np.maximum(self._present[rows] @ self._present.T, 1)  # no clustering assigns both: 0 / 1


def similarity_matrix(
    ensemble: BaseClusterings,
    likeness: npt.NDArray[np.float64] | None,
    name: str,
    max_pairs_bytes: int | None,
    engine: ThreadEngine,
) -> npt.NDArray[np.float32]:
    """Similarities of all pairs; a MemoryError in the method's `name` if they take more than is allowed."""
    n = len(ensemble)
    what = f"the {n:,} x {n:,} matrix of similarities between groups of rows that differ in their base labels"
    table_bytes = n * ensemble.n_columns * (1 if likeness is None else 4)
    check_pairs_memory(name, what, 4 * n * n + table_bytes, max_pairs_bytes, "LWGP or U-SENC")
    similarity, out = PairSimilarity(ensemble, likeness), np.empty((n, n), dtype=np.float32)
    engine.map(lambda span: similarity.fill(slice(*span), out[slice(*span)]), similarity.blocks())
    return out
