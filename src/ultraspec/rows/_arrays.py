"""What the formats that hold arrays (.npy, .npz, HDF5, Zarr) share: which array, and the cuts into pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameterType
from ultraspec.rows._file import Array, Columns, FileRows
from ultraspec.rows._matrix import MatrixRows
from ultraspec.rows._pieces import MOST_PIECE_BYTES, PIECE_BYTES
from ultraspec.rows._temporary import write_tiles
from ultraspec.rows.errors import AmbiguousArray, ArrayNotFound, InvalidFile


@dataclass(frozen=True)
class Found:
    """Shape and type of an array in a file."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def is_matrix(self) -> bool:
        """Whether it is 2-d and holds numbers."""
        return len(self.shape) == 2 and getattr(self.dtype, "kind", "O") in "biuf"

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape)) or 'a single value'}, {self.dtype}"


def check_matrix(path: Path, label: str, found: Found) -> None:
    """Raise unless an array of the file at `path` is 2-d and holds numbers; `label` names it in messages."""
    if getattr(found.dtype, "kind", "O") not in "biuf":
        what = {"c": "complex numbers", "O": "Python objects (which are never loaded: they can run code)"}
        kind = what.get(found.dtype.kind, "these")
        reason = f"has {label} ({found}) that must hold real numbers, not {kind}"
        raise InvalidFile(path, reason, "Convert them to numbers first.")
    if len(found.shape) != 2:
        reason = f"has {label} ({found}) that must be 2-d, rows x features, but is {len(found.shape)}-d"
        raise InvalidFile(path, reason, "Reshape it.")


def choose_array(path: Path, arrays: Mapping[str, Found], wanted: str | None) -> str:
    """Name of the array that is wanted, or of the only 2-d one."""
    if wanted is not None:
        if not isinstance(wanted, str):
            raise InvalidParameterType("array", wanted, "the name of an array in the file")
        if wanted not in arrays:
            raise ArrayNotFound(wanted, path, arrays)
        check_matrix(path, f"an array {wanted!r}", arrays[wanted])
        return wanted
    matrices = [name for name, found in arrays.items() if found.is_matrix]
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) == 1:
        name = next(iter(arrays))
        check_matrix(path, f"an array {name!r}", arrays[name])
    if matrices:
        raise AmbiguousArray(path, arrays)
    raise ArrayNotFound(None, path, arrays)


def piece_bounds(n_rows: int, row_bytes: int, chunk_rows: int) -> npt.NDArray[np.int64]:
    """First rows of pieces that are whole chunks, as many as make about `PIECE_BYTES`; and the number of rows."""
    step = chunk_rows * max(1, PIECE_BYTES // max(1, chunk_rows * row_bytes))
    return np.append(np.arange(0, n_rows, step), n_rows)


def written_out(
    path: Path,
    found: Found,
    columns: Columns,
    chunks: tuple[int, int],
    get: Callable[[slice, slice], Array],
    options: Mapping[str, Any],
) -> FileRows | None:
    """The rows as a temporary plain matrix, if a row of chunks is too large to be decoded for every reading thread."""
    n_rows, total = found.shape
    dtype = np.dtype(found.dtype)
    if n_rows == 0 or min(chunks[0], n_rows) * total * dtype.itemsize <= MOST_PIECE_BYTES:
        return None
    # chunks none of whose columns were chosen are left out, but a chunk that is read gives all of its columns
    wanted = np.unique(columns.numbers // chunks[1])
    ranges = [np.arange(c * chunks[1], min((c + 1) * chunks[1], total)) for c in wanted.tolist()]

    def tiles() -> Iterator[tuple[int, int, Array]]:
        first = 0
        for here in ranges:
            for row in range(0, n_rows, chunks[0]):
                yield row, first, get(slice(row, min(row + chunks[0], n_rows)), slice(here[0], here[-1] + 1))
            first += len(here)

    stored = np.concatenate(ranges)
    file = write_tiles(path, n_rows, len(stored), dtype, tiles())
    return MatrixRows(path, file, n_rows, columns, dtype, by_column=True, stored=stored, options=options)
