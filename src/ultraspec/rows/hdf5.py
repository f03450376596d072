"""Rows of HDF5 files: a 2-d dataset, of which chunks are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ultraspec._checks import import_optional
from ultraspec.rows.array_files import ArrayInfo, StoredArrayRows, choose_array, open_stored
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
    return open_dataset(Hdf5Rows, source, state, name, info, chosen)


def open_dataset(
    kind: type[StoredArrayRows], source: FileSource, state: FileState, name: str, info: ArrayInfo, columns: Columns
) -> FileRows:
    """Open a 2-d dataset of an HDF5 file."""
    h5py = import_optional("h5py", "HDF5 files")
    path = source.path
    with h5py.File(path, "r") as file:
        stored_shape = file[name].chunks or (1, info.shape[1])

    def read(rows: slice, columns: slice) -> Array:  # opens the file each time, so that it is not locked meanwhile
        with state.reading(KIND, *ERRORS), h5py.File(path, "r") as file:
            return file[name][rows, columns]

    return open_stored(kind, source, info, columns, stored_shape, read)


class Hdf5Rows(StoredArrayRows):
    """Rows of a dataset in an HDF5 file."""
