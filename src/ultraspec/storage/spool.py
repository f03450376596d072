"""Results as long as the data: in memory, or in a temporary file where the data itself is not in memory.

Files are written and read by ranges, never mapped while a fit runs: mapped pages would count as the process's memory.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows import Rows

KEPT_BYTES = 2**28  # results of rows from files that are no larger are kept in memory


class Spool:
    """A vector in a temporary file: written and read by slices, from any thread. The file goes with the object.

    Examples
    --------
    >>> spool = Spool.columns(5, 1, np.int32)[0]
    >>> spool[0:3] = np.array([7, 8, 9])
    >>> spool[1:3]
    array([8, 9], dtype=int32)
    """

    def __init__(self, file: Any, lock: Any, n: int, dtype: npt.DTypeLike, number: int) -> None:
        self._file, self._lock, self._n, self._number = file, lock, n, number
        self.dtype = np.dtype(dtype)

    @classmethod
    def columns(cls, n: int, n_columns: int, dtype: npt.DTypeLike) -> list[Spool]:
        """Vectors that follow each other in one file."""
        n_bytes, folder = n * n_columns * np.dtype(dtype).itemsize, tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if n_bytes > free:
            raise OSError(
                f"Results of {n:,} rows need {n_bytes / 1e9:.1f} GB in the folder for temporary files, {folder}, "
                f"which has {free / 1e9:.1f} GB left. Set TMPDIR to a folder with more room."
            )
        file = tempfile.TemporaryFile(buffering=0, prefix="ultraspec-")  # noqa: SIM115 - lives as long as its columns
        file.truncate(n_bytes)
        lock = threading.Lock()
        return [cls(file, lock, n, dtype, number) for number in range(n_columns)]

    @classmethod
    def if_room(cls, n: int, dtype: npt.DTypeLike) -> Spool | None:
        """A vector, if it takes no more than half of the room that is left for temporary files."""
        n_bytes = n * np.dtype(dtype).itemsize
        if 2 * n_bytes > shutil.disk_usage(tempfile.gettempdir()).free:
            return None
        return cls.columns(n, 1, dtype)[0]

    def __len__(self) -> int:
        return self._n

    def __setitem__(self, rows: slice, values: Any) -> None:
        start, stop, _ = rows.indices(self._n)
        values = np.ascontiguousarray(np.broadcast_to(values, stop - start), dtype=self.dtype)
        self._move(self._file.write, start, values)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        start, stop, _ = rows.indices(self._n)
        values = np.empty(max(0, stop - start), dtype=self.dtype)
        self._move(self._file.readinto, start, values)
        return values

    def _move(self, step: Any, row: int, values: npt.NDArray[Any]) -> None:
        """Write values, or read them, in as many steps as the system takes."""
        view = memoryview(values.data).cast("B")
        with self._lock:
            self._file.seek(self._at(row))
            while len(view):
                view = view[step(view) :]

    def _at(self, row: int) -> int:
        return (self._number * self._n + row) * self.dtype.itemsize

    def array(self, n_columns: int | None = None) -> npt.NDArray[Any]:
        """The vector, or (n, n_columns) from here on, as a read-only memory-mapped array."""
        shape = (self._n,) if n_columns is None else (self._n, n_columns)
        return np.memmap(self._file, self.dtype, "r", self._at(0), shape, order="F")


class SpooledMatrix:
    """A matrix in a temporary file, column by column."""

    def __init__(self, columns: list[Spool]) -> None:
        self.columns = columns

    def __setitem__(self, rows: slice, values: npt.NDArray[Any]) -> None:
        for column, part in zip(self.columns, values.T, strict=True):
            column[rows] = part

    def array(self) -> npt.NDArray[Any]:
        """The matrix as a read-only memory-mapped array."""
        return self.columns[0].array(len(self.columns))


class Together:
    """Arrays that are filled at once, with a tuple of values for all.

    Examples
    --------
    >>> a, b = np.zeros(3), np.zeros(3)
    >>> Together(a, b)[1:3] = [1, 2], 7
    >>> a, b
    (array([0., 1., 2.]), array([0., 7., 7.]))
    """

    def __init__(self, *arrays: npt.NDArray[Any]) -> None:
        self._arrays = arrays

    def __setitem__(self, rows: slice, values: tuple[Any, ...]) -> None:
        for array, part in zip(self._arrays, values, strict=True):
            array[rows] = part


def stays_in_memory(rows: Rows, n_bytes: int) -> bool:
    """Whether a result of so many bytes is kept in memory: where the rows are there, or in files and it is small."""
    return rows.in_memory or (n_bytes <= KEPT_BYTES and not rows.remote)


def room_for(rows: Rows, dtype: npt.DTypeLike) -> Any:
    """Room for one value per row: an array or a `Spool`."""
    if stays_in_memory(rows, rows.n_rows * np.dtype(dtype).itemsize):
        return np.empty(rows.n_rows, dtype=dtype)
    return Spool.columns(rows.n_rows, 1, dtype)[0]


def matrix_for(rows: Rows, n_columns: int, dtype: npt.DTypeLike) -> Any:
    """Room for several values per row: an array in C order or a `SpooledMatrix`."""
    if stays_in_memory(rows, rows.n_rows * n_columns * np.dtype(dtype).itemsize):
        return np.empty((rows.n_rows, n_columns), dtype=dtype)
    return SpooledMatrix(Spool.columns(rows.n_rows, n_columns, dtype))


def room_like(values: Any, dtype: npt.DTypeLike) -> Any:
    """Room for as many values, where those of another vector are."""
    return Spool.columns(len(values), 1, dtype)[0] if isinstance(values, Spool) else np.empty(len(values), dtype=dtype)


def fill(out: Any, rows: slice, write: Callable[[npt.NDArray[Any]], Any]) -> Any:
    """Let `write` fill some rows of what `room_for` gave, in place where that is an array; gives what it returns."""
    if isinstance(out, np.ndarray):
        return write(out[rows])
    part = np.empty(rows.stop - rows.start, dtype=out.dtype)
    result = write(part)
    out[rows] = part
    return result


def as_array(values: Any) -> Any:
    """What `room_for` or `matrix_for` gave, as an array; None for None."""
    return values if values is None or isinstance(values, np.ndarray) else values.array()


def columns_of(matrix: Any) -> list[Any]:
    """Columns of what `matrix_for` gave, to be written to; none of None."""
    if matrix is None:
        return []
    return list(matrix.T) if isinstance(matrix, np.ndarray) else matrix.columns
