"""Row sources in memory: NumPy arrays (also memory-mapped ones) and SciPy sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows.interface import Block, Rows


class ArrayRows(Rows):
    """Rows of a 2-d array of any numeric type and memory order; nothing is copied until a block is read.

    Examples
    --------
    >>> import numpy as np
    >>> rows = ArrayRows(np.arange(6).reshape(3, 2))
    >>> rows.n_rows, rows.n_features
    (3, 2)
    >>> rows.read(1, 3)
    array([[2, 3],
           [4, 5]])
    """

    def __init__(self, array: npt.NDArray[Any], *, in_memory: bool = True) -> None:
        self._array = array
        self.n_rows, self.n_features = array.shape
        self.in_memory = in_memory

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``."""
        return self._array[start:stop]

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`."""
        return np.asarray(self._array[indices])


class SparseRows(Rows):
    """Rows of a SciPy CSR matrix; blocks are sparse.

    Examples
    --------
    >>> import scipy.sparse
    >>> rows = SparseRows(scipy.sparse.eye_array(3, format="csr"))
    >>> rows.read(0, 2).shape
    (2, 3)
    """

    sparse = True

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        self.n_rows, self.n_features = matrix.shape

    @property
    def block_rows(self) -> int:
        """Number of rows of a block: small, as products with all representatives are dense."""
        return small_blocks(self.n_rows, super().block_rows)

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``."""
        return self._matrix[start:stop]

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`."""
        return self._matrix[indices]


def small_blocks(n_rows: int, block_rows: int) -> int:
    """Return the number of rows of a sparse block, given that of a dense one."""
    return min(1024, block_rows) if n_rows > 1024 else block_rows


def to_canonical_csr(matrix: Any) -> Any:
    """Return a sparse matrix in CSR format with sorted indices and no duplicates; the argument is not changed."""
    matrix = matrix.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
