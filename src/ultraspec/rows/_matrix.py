"""Rows of a plain matrix somewhere in a file: the values one after another, row by row or column by column.

Ranges are read at their place in the file. A memory map would do the same, but its pages count as the process's own
memory, which would grow to the size of the file.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows._base import Block
from ultraspec.rows._file import Array, Columns, FileRows, Stamp

RUN_BYTES = 2**22  # read at once when rows are picked out of a file
GAP_BYTES = 2**16  # reading so many bytes that are not wanted costs less than another read


class OpenFile:
    """An open file that any thread may read at any place; closed when nothing refers to it any more.

    Parameters
    ----------
    fd : int
        File descriptor, which from now on belongs to this object.
    path : Path
        For messages.
    watch : bool
        Whether to raise when the file changes.
    remove : str, optional
        A path to remove after closing.
    """

    def __init__(self, fd: int, path: Path, *, watch: bool, remove: str | None = None) -> None:
        weakref.finalize(self, _close, fd, remove)
        self.fd, self.path = fd, path
        self._stamp = Stamp.of(path, fd) if watch else None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> OpenFile:
        """Open a file for reading."""
        return cls(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), path, watch=True)

    def read_into(self, array: Array, offset: int) -> None:
        """Fill a contiguous array with the bytes at `offset`."""
        view = array.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(view):
            n = self._read_some(view[done:], offset + done)
            if n == 0:
                self._check()
                raise OSError(f"{self.path} ends before its last row: it was cut off.")
            done += n
        self._check()

    def _read_some(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self.fd, [view], offset)
        with self._lock:  # Windows
            os.lseek(self.fd, offset, os.SEEK_SET)
            data = os.read(self.fd, min(len(view), RUN_BYTES))
        view[: len(data)] = data
        return len(data)

    def _check(self) -> None:
        if self._stamp is not None:
            self._stamp.check(self.fd)


def _close(fd: int, remove: str | None) -> None:
    os.close(fd)
    if remove is not None:
        os.unlink(remove)


class MatrixRows(FileRows):
    """Rows of a matrix in a file.

    Parameters
    ----------
    path : Path
        The file that the user named.
    file : OpenFile
        Where the values are: that file, or a temporary one.
    n_rows : int
        Rows.
    columns : Columns
        Chosen columns of the user's file.
    dtype : dtype
        Of the values.
    offset : int
        Of the first value.
    by_column : bool
        Whether columns, not rows, are contiguous.
    stored : ndarray of int, optional
        The columns of the user's file that the matrix has, in its order; all by default.
    options : dict
        For `open_rows`, to open the file anew.
    """

    def __init__(
        self,
        path: Path,
        file: OpenFile,
        n_rows: int,
        columns: Columns,
        dtype: npt.DTypeLike,
        *,
        offset: int = 0,
        by_column: bool = False,
        stored: npt.NDArray[np.intp] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._stored = np.arange(columns.total) if stored is None else stored
        super().__init__(path, n_rows, columns, dtype, options)
        self._file: OpenFile | None = file
        self._offset, self._by_column = offset, by_column

    def _set_columns(self, columns: Columns) -> None:
        super()._set_columns(columns)
        place = {int(number): place for place, number in enumerate(self._stored)}
        self._places = np.array([place[int(number)] for number in columns.numbers])
        self._whole = np.array_equal(self._places, np.arange(len(self._stored)))

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start .. stop``."""
        start, stop = self._span(start, stop)
        if not self._by_column:
            return self._pick(self._values(self._offset, len(self._stored), start, stop))
        out = np.empty((stop - start, self.n_features), dtype=self.dtype)
        for place, offset in enumerate(self._column_offsets()):
            out[:, place] = self._values(offset, 1, start, stop)[:, 0]
        return out

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Rows at `indices`."""
        self._check_indices(indices)
        out = np.empty((len(indices), self.n_features), dtype=self.dtype)
        if not self._by_column:
            for part, values in self._values_at(self._offset, len(self._stored), indices):
                out[part] = self._pick(values)
            return out
        for place, offset in enumerate(self._column_offsets()):
            for part, values in self._values_at(offset, 1, indices):
                out[part, place] = values[:, 0]
        return out

    def _pick(self, values: Array) -> Array:
        return values if self._whole else values[:, self._places]

    def _column_offsets(self) -> Iterator[int]:
        step = self.n_rows * self.dtype.itemsize
        return (self._offset + int(place) * step for place in self._places)

    def _values(self, offset: int, width: int, start: int, stop: int) -> Array:
        """Rows ``start .. stop`` of a matrix with `width` columns, row by row, at `offset`."""
        file = self._file  # stays open while it is read, even if another thread closes the rows
        if file is None:
            raise self._closed_error()
        values = np.empty((stop - start, width), dtype=self.dtype)
        file.read_into(values, offset + start * width * self.dtype.itemsize)
        return values

    def _values_at(self, offset: int, width: int, indices: npt.NDArray[np.int64]) -> Iterator[tuple[slice, Array]]:
        """Rows of such a matrix at `indices`, piece by piece, and where among the indices each piece belongs."""
        for part in runs(indices, width * self.dtype.itemsize):
            here = indices[part]
            first, last = int(here[0]), int(here[-1])
            yield part, self._values(offset, width, first, last + 1)[here - first]

    def close(self) -> None:
        """Close the file, when reads in other threads are over; a temporary one is removed."""
        super().close()
        self._file = None


def runs(indices: npt.NDArray[np.int64], row_bytes: int) -> list[slice]:
    """Cut sorted indices into runs worth reading at once: of limited length and without wide gaps."""
    if not len(indices):
        return []
    window, gap = max(1, RUN_BYTES // row_bytes), max(1, GAP_BYTES // row_bytes)
    cut = (np.diff(indices // window) > 0) | (np.diff(indices) > gap)
    bounds = [0, *(np.flatnonzero(cut) + 1).tolist(), len(indices)]
    return [slice(low, high) for low, high in itertools.pairwise(bounds)]
