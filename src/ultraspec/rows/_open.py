"""Opening files: takes a path, gives the row source for its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ultraspec._checks import InvalidParameter, InvalidParameterType
from ultraspec.rows._base import Rows
from ultraspec.rows.csv import CsvRows
from ultraspec.rows.errors import InvalidFile, OptionNotApplicable, UnknownFormat
from ultraspec.rows.hdf5 import open_hdf5
from ultraspec.rows.npy import NpyRows
from ultraspec.rows.npz import open_npz
from ultraspec.rows.parquet import SUFFIXES as PARQUET_SUFFIXES
from ultraspec.rows.parquet import find_parts, open_parquet
from ultraspec.rows.zarr import MARKS as ZARR_MARKS
from ultraspec.rows.zarr import open_zarr

Opener = Callable[..., Rows]

OPENERS: dict[str, Opener] = {
    ".npy": NpyRows,
    ".npz": open_npz,
    ".csv": CsvRows,
    ".csv.gz": CsvRows,
    ".tsv": CsvRows,
    ".tsv.gz": CsvRows,
    **dict.fromkeys(PARQUET_SUFFIXES, open_parquet),
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
}
FOLDERS = "a folder of Parquet files, a Zarr folder"
OPTIONS: dict[Opener, tuple[str, ...]] = {
    open_npz: ("array",),
    open_hdf5: ("array",),
    open_zarr: ("array",),
    CsvRows: ("header", "delimiter", "decimal"),
}


def open_file(path: str | os.PathLike[str], columns: Sequence[str | int] | None = None, **given: Any) -> Rows:
    """Open the row source of a file; `given` options that are None are left out. See `ultraspec.open_rows`."""
    file = Path(path).expanduser().absolute()
    opener = _opener(file)
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in OPTIONS.get(opener, ()):
            raise OptionNotApplicable(name, options[name], file)
    for name in ("delimiter", "decimal"):
        sign = options.get(name)
        if sign is not None and (not isinstance(sign, str) or len(sign) != 1):
            raise InvalidParameter(name, sign, "one character")
    header = options.get("header")
    if header is not None and not isinstance(header, bool):
        raise InvalidParameterType("header", header, "True, False", (None,))
    return opener(file, columns, **options)


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise where `open_rows` would at once: there is no such file, or it is empty or of an unknown kind."""
    _opener(Path(path).expanduser().absolute())


def _opener(file: Path) -> Opener:
    if file.is_dir():
        if file.suffix.lower() == ".zarr" or any((file / mark).is_file() for mark in ZARR_MARKS):
            return open_zarr
        if find_parts(file):
            return open_parquet
        raise InvalidFile(file, "is a folder with neither Parquet files (*.parquet) nor a Zarr array in it")
    if not file.exists():
        raise FileNotFoundError(f"There is no file {file}.")
    if not file.is_file():
        raise InvalidFile(file, "is not a regular file, so it cannot be read from the middle")
    name = file.name.lower()
    known = [suffix for suffix in OPENERS if name.endswith(suffix)]
    if not known:
        raise UnknownFormat(file, [*OPENERS, FOLDERS])
    if file.stat().st_size == 0:
        raise InvalidFile(file, "is empty")
    return OPENERS[known[-1]]
