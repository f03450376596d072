"""Files that any thread reads and writes at any offset, and temporary files of this kind.

Files are read into arrays, not mapped: pages of a memory map would count as the process's memory, which would grow to
the size of the file.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SPARE_BYTES = 2**26  # free space that is left on the disk, but at most a twentieth of a file
CHECK_BYTES = 2**26  # while a file of unknown size grows, the free space is checked again after this many bytes
MOST_AT_ONCE = 2**30  # bytes of one system call: some systems take no more than 2 GB


class RandomAccessFile:
    """An open file that any thread may read and write at any offset; closed when nothing refers to it any more.

    `file` is an unbuffered binary file, which from now on belongs to this object.
    """

    def __init__(self, file: Any) -> None:
        weakref.finalize(self, file.close)
        self._fd: int = file.fileno()
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def read_into(self, array: Array, offset: int) -> None:
        """Fill a C-contiguous array with the bytes at `offset`; raise EOFError if there are too few."""
        view = _bytes_of(array)
        while len(view):
            n_bytes = self._read(view[:MOST_AT_ONCE], offset)
            if n_bytes == 0:
                raise EOFError
            view = view[n_bytes:]
            offset += n_bytes

    def write_from(self, array: Array, offset: int) -> None:
        """Write the bytes of a C-contiguous array at `offset`."""
        view = _bytes_of(array)
        while len(view):
            n_bytes = self._write(view[:MOST_AT_ONCE], offset)
            view = view[n_bytes:]
            offset += n_bytes

    def _read(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._fd, [view], offset)
        with self._lock:  # Windows can only read from the current position
            os.lseek(self._fd, offset, os.SEEK_SET)
            data = os.read(self._fd, len(view))
        view[: len(data)] = data
        return len(data)

    def _write(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self._fd, view, offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            return os.write(self._fd, view)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


class TemporaryFile(RandomAccessFile):
    """A file in `tempfile.gettempdir()` (set TMPDIR for another folder) that is deleted when it is closed.

    The file has no name, so that nothing is left behind even if the process is killed. Messages begin with its
    `purpose`, as in "Sorting rows". If its size is known and the disk has too little space, nothing is written.

    Examples
    --------
    >>> file = TemporaryFile("An example", 24)
    >>> file.write_from(np.arange(3), offset=0)
    >>> numbers = np.empty(2, dtype=np.int64)
    >>> file.read_into(numbers, offset=8)
    >>> numbers
    array([1, 2])
    """

    def __init__(self, purpose: str, n_bytes: int | None = None) -> None:
        self._purpose = purpose
        self._folder = tempfile.gettempdir()
        if n_bytes is not None:
            self._require(n_bytes)
        super().__init__(tempfile.TemporaryFile(buffering=0, prefix="ultraspec-"))  # noqa: SIM115  closed with this object
        if n_bytes is not None:
            os.truncate(self._fd, n_bytes)
        self.end = 0  #: where `append` writes
        self._checked_end = 0

    def append(self, array: Array) -> None:
        """Write an array behind those that were appended before; for files of unknown size."""
        end = self.end + array.nbytes
        if end > self._checked_end:
            self._require(array.nbytes + CHECK_BYTES)
            self._checked_end = end + CHECK_BYTES
        self.write_from(np.ascontiguousarray(array), self.end)
        self.end = end

    def map(self, dtype: npt.DTypeLike, offset: int, shape: tuple[int, ...]) -> Array:
        """Return a read-only memory map in Fortran order; it stays valid when the file is closed."""
        with open(self._fd, "rb", closefd=False) as file:
            return np.memmap(file, dtype, "r", offset, shape, order="F")

    def _write(self, view: memoryview, offset: int) -> int:
        try:
            return super()._write(view, offset)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._refuse(len(view))
            raise OSError(
                error.errno,
                f"{self._purpose} fails in the folder for temporary files, {self._folder}: {error.strerror}. Set the "
                "environment variable TMPDIR to another folder",
            ) from error

    def _require(self, n_bytes: int) -> None:
        if shutil.disk_usage(self._folder).free < n_bytes + min(n_bytes // 20, SPARE_BYTES):
            self._refuse(n_bytes)

    def _refuse(self, n_bytes: int) -> NoReturn:
        free = shutil.disk_usage(self._folder).free
        raise OSError(
            errno.ENOSPC,
            f"{self._purpose} needs {n_bytes / 1e9:,.2f} GB in the folder for temporary files, {self._folder}, which "
            f"has {free / 1e9:,.2f} GB of free space. Set the environment variable TMPDIR to a folder on a larger disk",
        )


def free_bytes() -> int:
    """Return the free space for temporary files."""
    return shutil.disk_usage(tempfile.gettempdir()).free
