"""Rows of HDF5 files: takes a 2-d dataset, gives its rows by decoding runs of its chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ultraspec._checks import import_optional
from ultraspec.rows._arrays import Found, choose_array, piece_bounds, written_out
from ultraspec.rows._file import Array, Columns, FileRows, Stamp
from ultraspec.rows._pieces import PieceRows

KIND = "an HDF5 file"
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError)


def open_hdf5(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> FileRows:
    """Open an HDF5 file."""
    h5py = import_optional("h5py", "HDF5 files")
    stamp = Stamp.of(path)
    arrays: dict[str, Found] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[f"/{name}"] = Found(item.shape or (), item.dtype)

    with stamp.reading(KIND, *ERRORS), h5py.File(path, "r") as file:
        file.visititems(note)
    name = choose_array(path, arrays, f"/{array.strip('/')}" if isinstance(array, str) else array)
    found = arrays[name]
    chosen = Columns.choose(columns, path, found.shape[1])
    options = {} if array is None else {"array": array}
    with h5py.File(path, "r") as file:
        dataset = file[name]
        chunks = dataset.chunks or (1, found.shape[1])

        def get(rows: slice, columns: slice) -> Array:
            with stamp.reading(KIND, *ERRORS):
                return dataset[rows, columns]

        written = written_out(path, found, chosen, chunks, get, options)
    return written or Hdf5Rows(path, stamp, name, found, chunks[0], chosen, options)


class Hdf5Rows(PieceRows):
    """Rows of a dataset in an HDF5 file, which is opened for each piece: nothing stays locked meanwhile."""

    def __init__(
        self,
        path: Path,
        stamp: Stamp,
        dataset: str,
        found: Found,
        chunk_rows: int,
        columns: Columns,
        options: Mapping[str, Any],
    ) -> None:
        n_rows, total = found.shape
        bounds = piece_bounds(n_rows, total * found.dtype.itemsize, chunk_rows)
        super().__init__(path, bounds, columns, found.dtype, options)
        self._stamp, self._dataset = stamp, dataset

    def _shares(self, n_bytes: int) -> int:  # noqa: ARG002
        return 1  # HDF5 runs in one thread at a time

    def _decode(self, number: int, columns: slice, room: Array) -> Array:
        h5py = import_optional("h5py", "HDF5 files")
        numbers = self._columns.numbers[columns]
        low, high = int(numbers.min()), int(numbers.max()) + 1
        rows = slice(int(self._bounds[number]), int(self._bounds[number + 1]))
        with self._stamp.reading(KIND, *ERRORS), h5py.File(self.path, "r") as file:
            values = file[self._dataset][rows, low:high]
        room[...] = values[:, numbers - low]
        return room
