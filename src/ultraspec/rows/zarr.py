"""Rows of Zarr folders (formats 2 and 3): a 2-d array, of which chunks are decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional
from ultraspec.rows.anndata_files import SparseInfo, choose_matrix, feature_names, find_matrices, open_sparse
from ultraspec.rows.array_files import ArrayInfo, StoredArrayRows, choose_array, open_stored
from ultraspec.rows.columns import Columns
from ultraspec.rows.file_rows import Array, FileSource
from ultraspec.rows.file_state import file_changed, reading
from ultraspec.rows.interface import Rows

KIND = "a Zarr folder"
METADATA = ("zarr.json", ".zarray", ".zgroup")  # one of these files is in every Zarr folder
# codecs raise RuntimeError, SystemError and others on damaged chunks
ERRORS = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, SystemError)


def is_zarr_folder(folder: Path) -> bool:
    """Return whether a folder is, by its name or content, a Zarr array or group."""
    return folder.suffix.lower() == ".zarr" or any((folder / name).is_file() for name in METADATA)


def open_zarr(path: Path, columns: Sequence[str | int] | None, *, array: str | None = None) -> Rows:
    """Open a Zarr folder."""
    zarr = import_optional("zarr", "Zarr folders")
    with reading(path, KIND, *ERRORS):
        root = zarr.open(path, mode="r")
        is_anndata = not isinstance(root, zarr.Array) and root.attrs.get("encoding-type") == "anndata"
        found = find_matrices(root) if is_anndata else {}
    if found:
        return _open_anndata(path, root, found, columns, array)
    with reading(path, KIND, *ERRORS):
        items = {"": root} if isinstance(root, zarr.Array) else dict(root.members(max_depth=None))
        items = {name: item for name, item in items.items() if isinstance(item, zarr.Array)}
        arrays = {name: ArrayInfo(item.shape, item.dtype) for name, item in items.items()}
    name = choose_array(path, arrays, array.strip("/") if isinstance(array, str) else array)
    item = items[name]
    info = arrays[name]
    chosen = Columns.choose(columns, path, info.shape[1])
    source = FileSource(path, open_zarr, {} if array is None else {"array": array})

    return open_stored(ZarrRows, source, info, chosen, item.chunks, _Reader(path, item))


def _open_anndata(
    path: Path, root: Any, found: dict[str, ArrayInfo], columns: Sequence[str | int] | None, array: str | None
) -> Rows:
    """Open a matrix of an AnnData."""
    name = choose_matrix(path, found, array)
    info = found[name]
    source = FileSource(path, open_zarr, {} if array is None else {"array": array})

    @contextmanager
    def opened() -> Iterator[Any]:
        with reading(path, KIND, *ERRORS):
            yield root

    with opened():
        names = feature_names(root, name)
    if isinstance(info, SparseInfo):
        return open_sparse(source, opened, name, info, columns, names)
    chosen = Columns.choose(columns, path, info.shape[1], names)
    item = root[name]
    return open_stored(ZarrRows, source, info, chosen, item.chunks, _Reader(path, item))


class ZarrRows(StoredArrayRows):
    """Rows of a Zarr array."""


class _Reader:
    """Reads slices of an array; raises if the files that hold a slice were changed since it was first read.

    A stored chunk that is removed would read as zeros.
    """

    def __init__(self, path: Path, array: Any) -> None:
        self._path = path
        self._array = array
        self._states: dict[tuple[int, ...], int] = {}

    def __call__(self, rows: slice, columns: slice) -> Array:
        place = rows.start, rows.stop, columns.start, columns.stop
        before = self._state(*place)
        with reading(self._path, KIND, *ERRORS):
            values = np.asarray(self._array[rows, columns])
        known = self._states.setdefault(place, before)
        if not before == known == self._state(*place):
            raise file_changed(self._path)
        return values

    def _state(self, first: int, last: int, low: int, high: int) -> int:
        """Return a hash of sizes and modification times of the files that hold a part of the array."""
        rows, columns = self._array.shards or self._array.chunks
        folder = self._path / self._array.path
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
