"""Temporary files: for data that cannot be read from the middle, written out once as a plain matrix.

They are made in `tempfile.gettempdir()` (set TMPDIR to have them elsewhere) and vanish when nothing refers to them.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from ultraspec.rows._file import Array
from ultraspec.rows._matrix import OpenFile

LEFT_FREE = 2**26  # a disk is not filled to its last byte
CHECK_BYTES = 2**26  # the free space is looked at again after so many bytes

# Hears what share of a file has been written out so far; set by those who show progress.
listener: ContextVar[Callable[[float], None] | None] = ContextVar("listener", default=None)


def tell(share: float) -> None:
    """Tell the listener, if there is one."""
    hear = listener.get()
    if hear is not None:
        hear(min(share, 1.0))


class TemporaryFile:
    """A temporary file to write numbers to, and then to read.

    Parameters
    ----------
    source : Path
        The file it is made from, for messages.
    n_bytes : int, optional
        Its size, if that is known: if there is no room, nothing is written.
    """

    def __init__(self, source: Path, n_bytes: int | None = None) -> None:
        self._source, self._folder = source, tempfile.gettempdir()
        self._require(n_bytes or 0)
        fd, name = tempfile.mkstemp(prefix="ultraspec-", dir=self._folder)
        remove: str | None = name
        if os.name == "posix":  # the file lives on while it is open, and even a killed process leaves nothing behind
            os.unlink(name)
            remove = None
        self._n_bytes = n_bytes
        self._end = self._checked = 0
        self.file = OpenFile(fd, Path(name), watch=False, remove=remove)

    def write(self, values: Array, offset: int | None = None) -> None:
        """Write values at `offset`, or where the last ones ended."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        if self._n_bytes is None and self._end + len(data) > self._checked:
            self._require(len(data))
            self._checked = self._end + len(data) + CHECK_BYTES
        os.lseek(self.file.fd, self._end if offset is None else offset, os.SEEK_SET)
        self._end += len(data)
        while len(data):
            try:
                data = data[os.write(self.file.fd, data[: 2**30]) :]
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise self._full(len(data)) from error
                raise OSError(
                    error.errno,
                    f"{self._source} has to be written out once as a plain matrix, but that fails in the folder for "
                    f"temporary files, {self._folder}: {error.strerror}. Set the environment variable TMPDIR to "
                    "another folder",
                ) from error
        if self._n_bytes:
            tell(self._end / self._n_bytes)

    def _require(self, n_bytes: int) -> None:
        if shutil.disk_usage(self._folder).free < n_bytes + LEFT_FREE:
            raise self._full(n_bytes)

    def _full(self, n_bytes: int) -> OSError:
        free = shutil.disk_usage(self._folder).free
        return OSError(
            errno.ENOSPC,
            f"{self._source} has to be written out once as a plain matrix, but the folder for temporary files, "
            f"{self._folder}, has too little room: {(n_bytes + LEFT_FREE) / 1e9:,.2f} GB are needed, "
            f"{free / 1e9:,.2f} GB are free. Set the environment variable TMPDIR to a folder on a larger disk",
        )


def write_tiles(
    source: Path, n_rows: int, n_columns: int, dtype: np.dtype, tiles: Iterable[tuple[int, int, Array]]
) -> OpenFile:
    """Write ``(first row, first column, values)`` as one matrix, column by column; gives the open file.

    Only one tile is in memory at a time.
    """
    size = dtype.itemsize
    target = TemporaryFile(source, n_rows * n_columns * size)
    for row, column, values in tiles:
        for place in range(values.shape[1]):
            part = values[:, place].astype(dtype, copy=False)
            target.write(part, ((column + place) * n_rows + row) * size)
    return target.file
