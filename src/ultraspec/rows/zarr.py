"""Rows of Zarr folders (formats 2 and 3): takes a 2-d array, gives its rows by decoding runs of its chunks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional
from ultraspec.rows._arrays import Found, choose_array, piece_bounds, written_out
from ultraspec.rows._file import Array, Columns, FileRows, readable
from ultraspec.rows._pieces import PieceRows

KIND = "a Zarr folder"
MARKS = ("zarr.json", ".zarray", ".zgroup")  # one of these is in every such folder
# codecs raise RuntimeError and others on damaged chunks
ERRORS = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError)


def open_zarr(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> FileRows:
    """Open a Zarr folder."""
    zarr = import_optional("zarr", "Zarr folders")
    with readable(path, KIND, *ERRORS):
        root = zarr.open(path, mode="r")
        items = {"": root} if isinstance(root, zarr.Array) else dict(root.members(max_depth=None))
        items = {name: item for name, item in items.items() if isinstance(item, zarr.Array)}
        arrays = {name: Found(item.shape, item.dtype) for name, item in items.items()}
    name = choose_array(path, arrays, array.strip("/") if isinstance(array, str) else array)
    item, found = items[name], arrays[name]
    chosen = Columns.choose(columns, path, found.shape[1])
    options = {} if array is None else {"array": array}

    def get(rows: slice, columns: slice) -> Array:
        with readable(path, KIND, *ERRORS):
            return np.asarray(item[rows, columns])

    written = written_out(path, found, chosen, item.chunks, get, options)
    return written or ZarrRows(path, item, chosen, options)


class ZarrRows(PieceRows):
    """Rows of a Zarr array."""

    def __init__(self, path: Path, array: Any, columns: Columns, options: Mapping[str, Any]) -> None:
        n_rows, total = array.shape
        bounds = piece_bounds(n_rows, total * array.dtype.itemsize, array.chunks[0])
        super().__init__(path, bounds, columns, array.dtype, options)
        self._array = array

    def _set_columns(self, columns: Columns) -> None:
        super()._set_columns(columns)
        self._states: dict[int, int] = {}

    def _shares(self, n_bytes: int) -> int:  # noqa: ARG002
        return 1  # a chunk would be decoded once for each

    def _decode(self, number: int, columns: slice, room: Array) -> Array:
        numbers = self._columns.numbers[columns]
        low, high = int(numbers.min()), int(numbers.max()) + 1
        first, last = int(self._bounds[number]), int(self._bounds[number + 1])
        before = self._state(first, last, low, high)
        with readable(self.path, KIND, *ERRORS):
            values = np.asarray(self._array[first:last, low:high])
        # The first look at a piece settles what it is. A chunk that is removed later would read as zeros.
        known = self._states.setdefault(number, before)
        if not before == known == self._state(first, last, low, high):
            raise OSError(f"{self.path} was changed while it was being read. Open it anew when it is complete.")
        room[...] = values[:, numbers - low]
        return room

    def _state(self, first: int, last: int, low: int, high: int) -> int:
        """Checksum of size and time of change of the files that hold a part of the array."""
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
