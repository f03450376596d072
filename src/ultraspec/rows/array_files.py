"""Formats that hold arrays (.npy, .npz, HDF5, Zarr): which array to read, and its division into chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import InvalidParameterType
from ultraspec.rows.chunked import CHUNK_BYTES, MOST_CHUNK_BYTES, ChunkedRows
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import AmbiguousArray, ArrayNotFound, InvalidFile
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.raw_matrix import MatrixRows, write_tiles

Read = Callable[[slice, slice], Array]  # returns the values of a slice of rows and a slice of columns


@dataclass(frozen=True)
class ArrayInfo:
    """Shape and type of an array in a file."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def is_numeric(self) -> bool:
        """Whether it holds real numbers."""
        return getattr(self.dtype, "kind", "O") in "biuf"

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape)) or 'a single value'}, {self.dtype}"


def check_matrix(path: Path, label: str, info: ArrayInfo) -> None:
    """Raise unless an array of the file at `path` is 2-d and holds numbers; `label` names it in messages."""
    if not info.is_numeric:
        kinds = {"c": "complex numbers", "O": "Python objects (which are never loaded: they can run code)"}
        kind = kinds.get(info.dtype.kind, "these")
        reason = f"has {label} ({info}) that must hold real numbers, not {kind}"
        raise InvalidFile(path, reason, "Convert them to numbers first.")
    if len(info.shape) != 2:
        reason = f"has {label} ({info}) that must be 2-d, rows x features, but is {len(info.shape)}-d"
        raise InvalidFile(path, reason, "Reshape it.")


def choose_array(path: Path, arrays: Mapping[str, ArrayInfo], chosen: str | None) -> str:
    """Return the name of the array that was chosen, or of the only 2-d one; raise if it cannot be read as rows."""
    if chosen is not None:
        if not isinstance(chosen, str):
            raise InvalidParameterType("array", chosen, "the name of an array in the file")
        if chosen not in arrays:
            raise ArrayNotFound(chosen, path, arrays)
        check_matrix(path, f"an array {chosen!r}", arrays[chosen])
        return chosen
    matrices = [name for name, info in arrays.items() if info.is_numeric and len(info.shape) == 2]
    if len(matrices) == 1:
        return matrices[0]
    if matrices:
        raise AmbiguousArray(path, {name: arrays[name] for name in matrices})
    if len(arrays) == 1:
        name, info = next(iter(arrays.items()))
        check_matrix(path, f"an array {name!r}", info)
    raise ArrayNotFound(None, path, arrays)


class StoredArrayRows(ChunkedRows):
    """Rows of an array in stored chunks, see `open_stored`.

    A chunk consists of stored chunks, with `stored_rows` rows each, and has about `CHUNK_BYTES`.
    """

    def __init__(self, source: FileSource, info: ArrayInfo, columns: Columns, stored_rows: int, read: Read) -> None:
        n_rows, total = info.shape
        step = stored_rows * max(1, CHUNK_BYTES // max(1, stored_rows * total * info.dtype.itemsize))
        super().__init__(source, np.append(np.arange(0, n_rows, step), n_rows), columns, info.dtype)
        self._read = read

    def _n_strips(self, n_bytes: int) -> int:
        return 1  # each strip would decode the stored chunks again; and HDF5 runs in one thread at a time

    def _decode(self, number: int, columns: slice, buffer: Array) -> Array:
        numbers = self._columns.numbers[columns]
        low = int(numbers.min())
        rows = slice(int(self._bounds[number]), int(self._bounds[number + 1]))
        buffer[...] = self._read(rows, slice(low, int(numbers.max()) + 1))[:, numbers - low]
        return buffer


def open_stored(
    kind: type[StoredArrayRows],
    source: FileSource,
    info: ArrayInfo,
    columns: Columns,
    stored_shape: tuple[int, int],
    read: Read,
) -> FileRows:
    """Return the rows of an array in stored chunks.

    If stored chunks are too large for every thread to decode one, the array is written to a temporary file.
    """
    n_rows, total = info.shape
    chunk_rows, chunk_columns = stored_shape
    dtype = np.dtype(info.dtype)
    if n_rows == 0 or min(chunk_rows, n_rows) * total * dtype.itemsize <= MOST_CHUNK_BYTES:
        return kind(source, info, columns, chunk_rows, read)
    # stored chunks without a chosen column are skipped; of others all columns are written, as they are decoded anyway
    needed = np.unique(columns.numbers // chunk_columns)
    ranges = [np.arange(c * chunk_columns, min((c + 1) * chunk_columns, total)) for c in needed.tolist()]

    def tiles() -> Iterator[tuple[int, int, Array]]:
        first = 0
        for numbers in ranges:
            for row in range(0, n_rows, chunk_rows):
                rows = slice(row, min(row + chunk_rows, n_rows))
                yield row, first, read(rows, slice(numbers[0], numbers[-1] + 1))
            first += len(numbers)

    stored = np.concatenate(ranges)
    file = write_tiles(source.path, n_rows, len(stored), dtype, tiles())
    return MatrixRows(source, file, n_rows, columns, dtype, by_column=True, stored=stored)
