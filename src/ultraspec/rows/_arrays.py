"""What the formats that hold arrays (.npy, .npz, HDF5, Zarr) share: which array, and the cuts into pieces."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import MOST_SHOWN
from ultraspec.rows._file import Array, Columns, FileRows
from ultraspec.rows._matrix import MatrixRows
from ultraspec.rows._pieces import MOST_PIECE_BYTES, PIECE_BYTES
from ultraspec.rows._temporary import write_tiles


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


def check_matrix(label: str, found: Found) -> None:
    """Raise unless an array is 2-d and holds numbers."""
    if getattr(found.dtype, "kind", "O") not in "biuf":
        what = {"c": "complex numbers", "O": "Python objects (which are never loaded: they can run code)"}
        raise ValueError(
            f"{label} ({found}) must hold real numbers, not {what.get(found.dtype.kind, 'these')}. "
            "Turn them into numbers first."
        )
    if len(found.shape) != 2:
        raise ValueError(f"{label} ({found}) must be 2-d, rows x features, but is {len(found.shape)}-d. Reshape it.")


def choose_array(path: Path, arrays: Mapping[str, Found], wanted: str | None) -> str:
    """Name of the array that is wanted, or of the only 2-d one."""
    shown = "; ".join(f"{name!r} ({found})" for name, found in itertools.islice(arrays.items(), MOST_SHOWN))
    inside = f"It has {len(arrays)}: {shown}." if arrays else "It has none."
    if wanted is not None:
        if not isinstance(wanted, str):
            raise TypeError(f"array must be the name of an array in the file, got {wanted!r}.")
        if wanted not in arrays:
            raise ValueError(f"{path} has no array {wanted!r}. {inside}")
        check_matrix(f"{path}: array {wanted!r}", arrays[wanted])
        return wanted
    matrices = [name for name, found in arrays.items() if found.is_matrix]
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) == 1:
        name = next(iter(arrays))
        check_matrix(f"{path}: array {name!r}", arrays[name])
    many = "more than one 2-d array of numbers" if matrices else "no 2-d array of numbers"
    raise ValueError(f"{path} has {many}. {inside}{' Choose one with array=...' if matrices else ''}")


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
