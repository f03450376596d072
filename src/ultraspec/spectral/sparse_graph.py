"""Sums of a sparse affinity, for graphs of many representatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import pairs as kernels

LEAST_PLACES = 2**12
LARGEST_LOAD = 0.5  # share of a table that is used at most: searches for a key stay short

Floats = npt.NDArray[np.float64]


class PairSums:
    """Sums of affinities by pair of representatives, in a hash table that grows.

    Parameters
    ----------
    p : int
        Number of representatives.
    """

    def __init__(self, p: int) -> None:
        self.p = p
        self.n_keys = 0
        self.keys = np.full(LEAST_PLACES, kernels.FREE, dtype=np.int64)
        self.sums = np.empty(LEAST_PLACES)

    @classmethod
    def of(cls, upper: Any) -> PairSums:
        """Return the sums of an upper triangle, a CSR matrix."""
        sums = cls(upper.shape[0])
        sums._reserve(upper.nnz)
        rows = np.repeat(np.arange(sums.p), np.diff(upper.indptr))
        keys = rows * sums.p + upper.indices.astype(np.int64)
        sums.n_keys += kernels.add_table(keys, upper.data, sums.keys, sums.sums)
        return sums

    def add_rows(
        self,
        ids: npt.NDArray[np.uint16],
        T: npt.NDArray[np.float32],
        degrees: Floats,
        weights: Floats,
        counts: Floats,
    ) -> None:
        """Add the pairs of edges of rows, see `kernels.add_pairs`."""
        K = ids.shape[1]
        n_pairs = K * (K + 1) // 2
        step = max(1, (len(self.keys) // 4) // n_pairs)
        low = 0
        while low < len(ids):
            part = slice(low, low + step)
            self._reserve(n_pairs * min(step, len(ids) - low))
            weight = weights[part] if len(weights) > 1 else weights
            self.n_keys += kernels.add_pairs(
                ids[part], T[part], degrees[part], weight, self.p, self.keys, self.sums, counts
            )
            low += step
            step = max(step, (len(self.keys) // 4) // n_pairs)

    def merge(self, other: PairSums) -> PairSums:
        """Add the sums of another table, in place."""
        self._reserve(other.n_keys)
        self.n_keys += kernels.add_table(other.keys, other.sums, self.keys, self.sums)
        return self

    def _reserve(self, n_new: int) -> None:
        """Enlarge the table until `n_new` further keys fit in."""
        size = len(self.keys)
        while self.n_keys + n_new > LARGEST_LOAD * size:
            size *= 2
        if size > len(self.keys):
            keys = np.full(size, kernels.FREE, dtype=np.int64)
            sums = np.empty(size)
            kernels.add_table(self.keys, self.sums, keys, sums)
            self.keys = keys
            self.sums = sums

    def matrix(self) -> Any:
        """Return the symmetric affinity as a CSR matrix with sorted indices."""
        used = np.flatnonzero(self.keys != kernels.FREE)
        rows, columns = np.divmod(self.keys[used], self.p)
        upper = scipy.sparse.coo_array((self.sums[used], (rows, columns)), shape=(self.p, self.p)).tocsr()
        matrix = scipy.sparse.csr_array(upper + scipy.sparse.triu(upper, 1).T)
        matrix.sort_indices()
        return matrix
