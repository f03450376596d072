"""Vectors and matrices in temporary files, for results with a value per row of data that is not in memory.

They are written and read by slices, as arrays are, so that most code need not know which of them it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.storage.temporary import TemporaryFile, free_bytes

Array = npt.NDArray[Any]


class Spool:
    """A vector in a temporary file: written and read by slices, from any thread. The file is deleted with the object.

    Examples
    --------
    >>> spool = Spool.columns(5, 1, np.int32)[0]
    >>> spool[0:3] = np.array([7, 8, 9])
    >>> spool[1:3]
    array([8, 9], dtype=int32)
    """

    def __init__(self, file: TemporaryFile, n: int, dtype: npt.DTypeLike, number: int) -> None:
        self._file = file
        self._n = n
        self._number = number
        self.dtype = np.dtype(dtype)

    @classmethod
    def columns(cls, n: int, n_columns: int, dtype: npt.DTypeLike) -> list[Spool]:
        """Create vectors of length `n` that follow each other in one file."""
        file = TemporaryFile(f"Storing results of {n:,} rows", n * n_columns * np.dtype(dtype).itemsize)
        return [cls(file, n, dtype, number) for number in range(n_columns)]

    @classmethod
    def if_space(cls, n: int, dtype: npt.DTypeLike) -> Spool | None:
        """Create a vector, or return None if it would take more than half of the free space for temporary files."""
        if 2 * n * np.dtype(dtype).itemsize > free_bytes():
            return None
        return cls.columns(n, 1, dtype)[0]

    def __len__(self) -> int:
        return self._n

    def __setitem__(self, rows: slice, values: Any) -> None:
        start, stop, _ = rows.indices(self._n)
        values = np.ascontiguousarray(np.broadcast_to(values, stop - start), dtype=self.dtype)
        self._file.write_from(values, self._offset(start))

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self._n)
        values = np.empty(max(0, stop - start), dtype=self.dtype)
        self._file.read_into(values, self._offset(start))
        return values

    def _offset(self, row: int) -> int:
        return (self._number * self._n + row) * self.dtype.itemsize

    def array(self, n_columns: int | None = None) -> Array:
        """Return the vector, or a matrix of this and the next columns, as a read-only memory-mapped array."""
        shape = (self._n,) if n_columns is None else (self._n, n_columns)
        return self._file.map(self.dtype, self._offset(0), shape)


class SpooledMatrix:
    """A matrix in a temporary file, column by column: all columns of one file."""

    def __init__(self, columns: list[Spool]) -> None:
        self.columns = columns

    def __setitem__(self, rows: slice, values: Array) -> None:
        for column, part in zip(self.columns, values.T, strict=True):
            column[rows] = part

    def array(self) -> Array:
        """Return the matrix as a read-only memory-mapped array."""
        return self.columns[0].array(len(self.columns))


class ArrayTuple:
    """Several arrays that are assigned to at once, with a tuple of values.

    Examples
    --------
    >>> a, b = np.zeros(3), np.zeros(3)
    >>> ArrayTuple(a, b)[1:3] = [1, 2], 7
    >>> a, b
    (array([0., 1., 2.]), array([0., 7., 7.]))
    """

    def __init__(self, *arrays: Array) -> None:
        self._arrays = arrays

    def __setitem__(self, rows: slice, values: tuple[Any, ...]) -> None:
        for array, part in zip(self._arrays, values, strict=True):
            array[rows] = part


def allocate_like(values: Any, dtype: npt.DTypeLike) -> Any:
    """Create a vector of the same length and kind as `values`: a `Spool` or an array."""
    return Spool.columns(len(values), 1, dtype)[0] if isinstance(values, Spool) else np.empty(len(values), dtype=dtype)


def fill_slice(out: Any, rows: slice, write: Callable[[Array], Any]) -> Any:
    """Call `write` with a buffer for some rows of an array or a `Spool`, store the buffer, and return the result.

    The buffer of an array is a view.
    """
    if isinstance(out, np.ndarray):
        return write(out[rows])
    buffer = np.empty(rows.stop - rows.start, dtype=out.dtype)
    result = write(buffer)
    out[rows] = buffer
    return result


def as_array(values: Any) -> Any:
    """Return an array for an array, a `Spool` or a `SpooledMatrix`; None for None."""
    return values if values is None or isinstance(values, np.ndarray) else values.array()


def matrix_columns(matrix: Any) -> list[Any]:
    """Return the columns, to be assigned to, of an array or a `SpooledMatrix`; an empty list for None."""
    if matrix is None:
        return []
    return list(matrix.T) if isinstance(matrix, np.ndarray) else matrix.columns
