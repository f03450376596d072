"""Rows of an uncompressed matrix somewhere in a file, stored row by row or column by column.

Files that cannot be read from the middle are written out once, as such a matrix. The temporary file is deleted when
nothing refers to it any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ultraspec.rows.columns import Columns
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.file_state import FileState
from ultraspec.rows.interface import Block
from ultraspec.storage.temporary import RandomAccessFile, TemporaryFile

RUN_BYTES = 2**22  # read at once when rows are picked out of a file
GAP_BYTES = 2**16  # reading this many bytes that are not needed costs less than another read


class WatchedFile(RandomAccessFile):
    """A file of the user, open for reading; reading raises if the file was changed since it was opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(open(path, "rb", buffering=0))  # noqa: SIM115  closed with this object
        self._state = FileState.of(path, self.fileno())

    def read_into(self, array: Array, offset: int) -> None:
        """Fill a C-contiguous array with the bytes at `offset`."""
        try:
            super().read_into(array, offset)
        except EOFError:
            self._state.check(self.fileno())
            raise OSError(f"{self._state.path} ends before its last row: it is incomplete.") from None
        self._state.check(self.fileno())


class MatrixRows(FileRows):
    """Rows of an uncompressed matrix in a file.

    Parameters
    ----------
    source : FileSource
        The file that the user named.
    file : RandomAccessFile
        Where the values are: that file, or a temporary one.
    n_rows : int
        Number of rows.
    columns : Columns
        Chosen columns of the user's file.
    dtype : dtype
        Type of the values.
    offset : int
        Offset of the first value in bytes.
    by_column : bool
        Whether columns, not rows, are contiguous.
    stored : ndarray of int, optional
        The columns of the user's file that the matrix has, in its order; all by default.
    """

    def __init__(
        self,
        source: FileSource,
        file: RandomAccessFile,
        n_rows: int,
        columns: Columns,
        dtype: npt.DTypeLike,
        *,
        offset: int = 0,
        by_column: bool = False,
        stored: npt.NDArray[np.intp] | None = None,
    ) -> None:
        self._stored = np.arange(columns.total) if stored is None else stored
        super().__init__(source, n_rows, columns, dtype)
        self._file: RandomAccessFile | None = file
        self._offset = offset
        self._by_column = by_column

    def _set_columns(self, columns: Columns) -> None:
        super()._set_columns(columns)
        index = {int(number): index for index, number in enumerate(self._stored)}
        self._indices = np.array([index[int(number)] for number in columns.numbers])
        self._all_stored = np.array_equal(self._indices, np.arange(len(self._stored)))

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``."""
        start, stop = self._clip_span(start, stop)
        if not self._by_column:
            return self._pick(self._read_rows(self._offset, len(self._stored), start, stop))
        out = np.empty((stop - start, self.n_features), dtype=self.dtype)
        for column, offset in enumerate(self._column_offsets()):
            out[:, column] = self._read_rows(offset, 1, start, stop)[:, 0]
        return out

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`."""
        self._check_indices(indices)
        out = np.empty((len(indices), self.n_features), dtype=self.dtype)
        if not self._by_column:
            for part, values in self._take_runs(self._offset, len(self._stored), indices):
                out[part] = self._pick(values)
            return out
        for column, offset in enumerate(self._column_offsets()):
            for part, values in self._take_runs(offset, 1, indices):
                out[part, column] = values[:, 0]
        return out

    def _pick(self, values: Array) -> Array:
        return values if self._all_stored else values[:, self._indices]

    def _column_offsets(self) -> Iterator[int]:
        step = self.n_rows * self.dtype.itemsize
        return (self._offset + int(index) * step for index in self._indices)

    def _read_rows(self, offset: int, width: int, start: int, stop: int) -> Array:
        """Read rows ``start .. stop`` of a matrix with `width` columns that is stored row by row at `offset`."""
        file = self._file  # stays open while it is read, even if another thread closes the rows
        if file is None:
            raise self._closed_error()
        values = np.empty((stop - start, width), dtype=self.dtype)
        file.read_into(values, offset + start * width * self.dtype.itemsize)
        return values

    def _take_runs(self, offset: int, width: int, indices: npt.NDArray[np.int64]) -> Iterator[tuple[slice, Array]]:
        """Read rows of such a matrix at `indices`, a run at a time; yield the slice of `indices` and the rows."""
        for part in cut_runs(indices, width * self.dtype.itemsize):
            run = indices[part]
            first = int(run[0])
            yield part, self._read_rows(offset, width, first, int(run[-1]) + 1)[run - first]

    def close(self) -> None:
        """Close the file after reads in other threads are done; delete it if it is a temporary one."""
        super().close()
        self._file = None


def cut_runs(indices: npt.NDArray[np.int64], row_bytes: int) -> list[slice]:
    """Cut sorted indices into runs that are read at once: of limited length and without wide gaps."""
    if not len(indices):
        return []
    window = max(1, RUN_BYTES // row_bytes)
    gap = max(1, GAP_BYTES // row_bytes)
    cut = (np.diff(indices // window) > 0) | (np.diff(indices) > gap)
    bounds = [0, *(np.flatnonzero(cut) + 1).tolist(), len(indices)]
    return [slice(low, high) for low, high in itertools.pairwise(bounds)]


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("_listener", default=None)


@contextmanager
def watch_writing(listener: Callable[[float], None]) -> Iterator[None]:
    """Call `listener` with the fraction of a file that has been written out, while the body opens the file."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_written(fraction: float) -> None:
    """Report progress to the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(min(fraction, 1.0))


def create_file(path: Path, n_bytes: int | None = None) -> TemporaryFile:
    """Create a temporary file for the content of the file at `path`, with `n_bytes` if that is known."""
    return TemporaryFile(f"Writing {path} out as an uncompressed matrix", n_bytes)


def write_tiles(
    path: Path, n_rows: int, n_columns: int, dtype: np.dtype, tiles: Iterable[tuple[int, int, Array]]
) -> TemporaryFile:
    """Write ``(first row, first column, values)`` as one matrix, column by column.

    Only one tile is in memory at a time.
    """
    total = n_rows * n_columns
    file = create_file(path, total * dtype.itemsize)
    written = 0
    for row, first, values in tiles:
        for column in range(values.shape[1]):
            part = np.ascontiguousarray(values[:, column], dtype=dtype)
            file.write_from(part, ((first + column) * n_rows + row) * dtype.itemsize)
        written += values.size
        report_written(written / total)
    return file
