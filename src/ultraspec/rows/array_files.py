"""Formats that hold arrays (.npy, .npz, HDF5, Zarr): which array to read, and its division into chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameterType
from ultraspec.rows.chunked import CHUNK_BYTES, MOST_CHUNK_BYTES
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import AmbiguousArray, ArrayNotFound, InvalidFile
from ultraspec.rows.file_rows import Array, FileSource
from ultraspec.rows.raw_matrix import MatrixRows, write_tiles


@dataclass(frozen=True)
class ArrayInfo:
    """Shape and type of an array in a file."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def is_numeric(self) -> bool:
        """Whether it holds real numbers."""
        return getattr(self.dtype, "kind", "O") in "biuf"

    @property
    def is_matrix(self) -> bool:
        """Whether it is 2-d and holds real numbers."""
        return len(self.shape) == 2 and self.is_numeric

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
    matrices = [name for name, info in arrays.items() if info.is_matrix]
    if len(matrices) == 1:
        return matrices[0]
    if matrices:
        raise AmbiguousArray(path, arrays)
    if len(arrays) == 1:
        name, info = next(iter(arrays.items()))
        check_matrix(path, f"an array {name!r}", info)
    raise ArrayNotFound(None, path, arrays)


def chunk_bounds(n_rows: int, row_bytes: int, stored_rows: int) -> npt.NDArray[np.int64]:
    """Return the first row of each chunk, and the number of rows.

    A chunk consists of stored chunks, with `stored_rows` rows each, and has about `CHUNK_BYTES`.
    """
    step = stored_rows * max(1, CHUNK_BYTES // max(1, stored_rows * row_bytes))
    return np.append(np.arange(0, n_rows, step), n_rows)


def write_out_if_large(
    source: FileSource,
    info: ArrayInfo,
    columns: Columns,
    stored_shape: tuple[int, int],
    read: Callable[[slice, slice], Array],
) -> MatrixRows | None:
    """Write an array to a temporary file if its stored chunks are too large for every thread to decode one.

    Stored chunks have the shape `stored_shape`. `read` returns the values of a slice of rows and a slice of columns.
    """
    n_rows, total = info.shape
    chunk_rows, chunk_columns = stored_shape
    dtype = np.dtype(info.dtype)
    if n_rows == 0 or min(chunk_rows, n_rows) * total * dtype.itemsize <= MOST_CHUNK_BYTES:
        return None
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
