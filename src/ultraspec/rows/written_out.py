"""Files that cannot be read from the middle: they are written out once, as an uncompressed matrix.

The temporary file is deleted when nothing refers to it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from ultraspec.rows.file_rows import Array
from ultraspec.storage.temporary import TemporaryFile

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
