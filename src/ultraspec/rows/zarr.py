"""Rows of Zarr folders (formats 2 and 3): a 2-d array, of which chunks are decoded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional
from ultraspec.rows.array_files import ArrayInfo, choose_array, chunk_bounds, write_out_if_large
from ultraspec.rows.chunked import ChunkedRows
from ultraspec.rows.columns import Columns
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.file_state import file_changed, reading

KIND = "a Zarr folder"
METADATA = ("zarr.json", ".zarray", ".zgroup")  # one of these files is in every Zarr folder
# codecs raise RuntimeError and others on damaged chunks
ERRORS = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError)


def is_zarr_folder(folder: Path) -> bool:
    """Return whether a folder is, by its name or content, a Zarr array or group."""
    return folder.suffix.lower() == ".zarr" or any((folder / name).is_file() for name in METADATA)


def open_zarr(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> FileRows:
    """Open a Zarr folder."""
    zarr = import_optional("zarr", "Zarr folders")
    with reading(path, KIND, *ERRORS):
        root = zarr.open(path, mode="r")
        items = {"": root} if isinstance(root, zarr.Array) else dict(root.members(max_depth=None))
        items = {name: item for name, item in items.items() if isinstance(item, zarr.Array)}
        arrays = {name: ArrayInfo(item.shape, item.dtype) for name, item in items.items()}
    name = choose_array(path, arrays, array.strip("/") if isinstance(array, str) else array)
    item = items[name]
    info = arrays[name]
    chosen = Columns.choose(columns, path, info.shape[1])
    source = FileSource(path, open_zarr, {} if array is None else {"array": array})

    def read(rows: slice, columns: slice) -> Array:
        with reading(path, KIND, *ERRORS):
            return np.asarray(item[rows, columns])

    return write_out_if_large(source, info, chosen, item.chunks, read) or ZarrRows(source, item, chosen)


class ZarrRows(ChunkedRows):
    """Rows of a Zarr array."""

    def __init__(self, source: FileSource, array: Any, columns: Columns) -> None:
        n_rows, total = array.shape
        bounds = chunk_bounds(n_rows, total * array.dtype.itemsize, array.chunks[0])
        super().__init__(source, bounds, columns, array.dtype)
        self._array = array

    def _set_columns(self, columns: Columns) -> None:
        super()._set_columns(columns)
        self._states: dict[int, int] = {}

    def _n_strips(self, n_bytes: int) -> int:
        return 1  # each strip would decode the stored chunks again

    def _decode(self, number: int, columns: slice, buffer: Array) -> Array:
        numbers = self._columns.numbers[columns]
        low = int(numbers.min())
        high = int(numbers.max()) + 1
        first = int(self._bounds[number])
        last = int(self._bounds[number + 1])
        before = self._state(first, last, low, high)
        with reading(self.path, KIND, *ERRORS):
            values = np.asarray(self._array[first:last, low:high])
        # A stored chunk that is removed later would read as zeros: the state at the first decoding must not change.
        known = self._states.setdefault(number, before)
        if not before == known == self._state(first, last, low, high):
            raise file_changed(self.path)
        buffer[...] = values[:, numbers - low]
        return buffer

    def _state(self, first: int, last: int, low: int, high: int) -> int:
        """Return a hash of sizes and modification times of the files that hold a part of the array."""
        rows, columns = self._array.shards or self._array.chunks
        folder = self.path / self._array.path
        keys = (
            self._array.metadata.encode_chunk_key((i, j))
            for i in range(first // rows, (last - 1) // rows + 1)
            for j in range(low // columns, (high - 1) // columns + 1)
        )
        return hash(tuple(_file_state(folder / key) for key in keys))


def _file_state(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:  # chunks without values are not stored
        return None
    return found.st_size, found.st_mtime_ns
