"""The table of file formats, and opening files by it. A new format is one more entry in `FORMATS`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ultraspec._checks import InvalidParameter, InvalidParameterType
from ultraspec.rows.csv import CsvRows
from ultraspec.rows.errors import InvalidFile, OptionNotApplicable, UnknownFormat
from ultraspec.rows.hdf5 import open_hdf5
from ultraspec.rows.interface import Rows
from ultraspec.rows.npy import NpyRows
from ultraspec.rows.npz import open_npz
from ultraspec.rows.parquet import SUFFIXES as PARQUET_SUFFIXES
from ultraspec.rows.parquet import is_parquet_folder, open_parquet
from ultraspec.rows.zarr import is_zarr_folder, open_zarr


@dataclass(frozen=True)
class Format:
    """A file format.

    `open` is a function or class at the top level of a module. It takes a path, columns (or None) and options, and
    returns the rows.
    """

    name: str  #: name for messages
    suffixes: tuple[str, ...]  #: ends of file names, in lower case
    open: Callable[..., Rows]
    description: str  #: what is read, for the documentation of `ultraspec.open_rows`
    options: tuple[str, ...] = ()  #: options of `ultraspec.open_rows` that apply
    is_table: bool = False  #: whether columns have names
    slow_to_open: bool = False  #: whether files are read completely on opening, so that progress is shown
    is_folder: Callable[[Path], bool] | None = None  #: returns whether a folder is of this format


# Folders are of the first format that they match.
FORMATS = (
    Format("NumPy", (".npy",), NpyRows, "a 2-d array"),
    Format("NumPy", (".npz",), open_npz, "a 2-d array, or a matrix saved by `scipy.sparse.save_npz`", ("array",)),
    Format(
        "CSV",
        (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
        CsvRows,
        "a table as text; read completely on opening, see the notes",
        ("header", "delimiter", "decimal"),
        is_table=True,
        slow_to_open=True,
    ),
    Format("HDF5", (".h5", ".hdf5"), open_hdf5, "a 2-d dataset", ("array",)),
    Format(
        "Zarr",
        (".zarr",),
        open_zarr,
        "a folder with a 2-d array, or the only one in a group; format 2 or 3",
        ("array",),
        is_folder=is_zarr_folder,
    ),
    Format(
        "Parquet",
        PARQUET_SUFFIXES,
        open_parquet,
        "a table; also a folder of them, with subfolders, in the order of their names",
        is_table=True,
        is_folder=is_parquet_folder,
    ),
)


def open_file(path: str | os.PathLike[str], columns: Sequence[str | int] | None = None, **options: Any) -> Rows:
    """Open the row source of a file; options that are None are left out. See `ultraspec.open_rows`."""
    file = Path(path).expanduser().absolute()
    kind = find_format(file)
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in kind.options:
            raise OptionNotApplicable(name, value, file)
        if name in ("delimiter", "decimal") and (not isinstance(value, str) or len(value) != 1):
            raise InvalidParameter(name, value, "one character")
        if name == "header" and not isinstance(value, bool):
            raise InvalidParameterType(name, value, "True, False", (None,))
    return kind.open(file, columns, **given)


def find_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file or folder, by its name; raise if it does not exist, is empty or unknown."""
    file = Path(path).expanduser().absolute()
    if file.is_dir():
        folders = {kind: kind.is_folder for kind in FORMATS if kind.is_folder is not None}
        for kind, is_folder in folders.items():
            if is_folder(file):
                return kind
        raise InvalidFile(file, f"is a folder without {' or '.join(kind.name for kind in folders)} files")
    if not file.exists():
        raise FileNotFoundError(f"There is no file {file}.")
    if not file.is_file():
        raise InvalidFile(file, "is not a regular file, so it cannot be read from the middle")
    for kind in FORMATS:
        if file.name.lower().endswith(kind.suffixes):
            if file.stat().st_size == 0:
                raise InvalidFile(file, "is empty")
            return kind
    raise UnknownFormat(file, [suffix for kind in FORMATS for suffix in kind.suffixes])
