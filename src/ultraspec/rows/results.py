"""Results with a value per row: in memory, or in a temporary file if the rows are not in memory either."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows.interface import Rows
from ultraspec.storage.spool import Spool, SpooledMatrix

MOST_MEMORY_BYTES = 2**28  # larger results for rows of files go to a temporary file


def stays_in_memory(rows: Rows, n_bytes: int) -> bool:
    """Return whether a result of `n_bytes` is kept in memory: if the rows are, or if it is small and they are local."""
    return rows.in_memory or (n_bytes <= MOST_MEMORY_BYTES and not rows.remote)


def allocate_rows(rows: Rows, dtype: npt.DTypeLike) -> Any:
    """Create a vector with one value per row: an array or a `Spool`."""
    if stays_in_memory(rows, rows.n_rows * np.dtype(dtype).itemsize):
        return np.empty(rows.n_rows, dtype=dtype)
    return Spool.columns(rows.n_rows, 1, dtype)[0]


def allocate_matrix(rows: Rows, n_columns: int, dtype: npt.DTypeLike) -> Any:
    """Create a matrix with `n_columns` values per row: an array in C order or a `SpooledMatrix`."""
    if stays_in_memory(rows, rows.n_rows * n_columns * np.dtype(dtype).itemsize):
        return np.empty((rows.n_rows, n_columns), dtype=dtype)
    return SpooledMatrix(Spool.columns(rows.n_rows, n_columns, dtype))
