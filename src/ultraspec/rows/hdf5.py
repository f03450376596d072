"""Rows of HDF5 files: a 2-d dataset, of which chunks are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ultraspec._checks import import_optional
from ultraspec.rows.array_files import ArrayInfo, choose_array, chunk_bounds, write_out_if_large
from ultraspec.rows.chunked import ChunkedRows
from ultraspec.rows.columns import Columns
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.file_state import FileState

KIND = "an HDF5 file"
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError)


def open_hdf5(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> FileRows:
    """Open an HDF5 file."""
    h5py = import_optional("h5py", "HDF5 files")
    state = FileState.of(path)
    arrays: dict[str, ArrayInfo] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[f"/{name}"] = ArrayInfo(item.shape or (), item.dtype)

    with state.reading(KIND, *ERRORS), h5py.File(path, "r") as file:
        file.visititems(add)
    name = choose_array(path, arrays, f"/{array.strip('/')}" if isinstance(array, str) else array)
    info = arrays[name]
    chosen = Columns.choose(columns, path, info.shape[1])
    source = FileSource(path, open_hdf5, {} if array is None else {"array": array})
    with h5py.File(path, "r") as file:
        dataset = file[name]
        stored_shape = dataset.chunks or (1, info.shape[1])

        def read(rows: slice, columns: slice) -> Array:
            with state.reading(KIND, *ERRORS):
                return dataset[rows, columns]

        written = write_out_if_large(source, info, chosen, stored_shape, read)
    return written or Hdf5Rows(source, state, name, info, stored_shape[0], chosen)


class Hdf5Rows(ChunkedRows):
    """Rows of a dataset in an HDF5 file. The file is opened for each chunk, so that it is not locked meanwhile."""

    def __init__(
        self,
        source: FileSource,
        state: FileState,
        dataset: str,
        info: ArrayInfo,
        stored_rows: int,
        columns: Columns,
    ) -> None:
        n_rows, total = info.shape
        bounds = chunk_bounds(n_rows, total * info.dtype.itemsize, stored_rows)
        super().__init__(source, bounds, columns, info.dtype)
        self._state = state
        self._dataset = dataset

    def _n_strips(self, n_bytes: int) -> int:
        return 1  # HDF5 runs in one thread at a time

    def _decode(self, number: int, columns: slice, buffer: Array) -> Array:
        h5py = import_optional("h5py", "HDF5 files")
        numbers = self._columns.numbers[columns]
        low = int(numbers.min())
        high = int(numbers.max()) + 1
        rows = slice(int(self._bounds[number]), int(self._bounds[number + 1]))
        with self._state.reading(KIND, *ERRORS), h5py.File(self.path, "r") as file:
            values = file[self._dataset][rows, low:high]
        buffer[...] = values[:, numbers - low]
        return buffer
