"""Opening files: takes a path, gives the row source for its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from ultraspec.rows._base import Rows
from ultraspec.rows.csv import CsvRows
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


def open_rows(
    path: str | os.PathLike[str],
    columns: Sequence[str | int] | None = None,
    *,
    array: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    scale: Literal["standard"] | None = None,
) -> Rows:
    """Open a file of rows that need not fit into memory, for the estimators to read.

    The format is told from the name:

    ==============================  =========================================================================
    ``.npy``                        a 2-d array
    ``.npz``                        a 2-d array in it, or a matrix saved by `scipy.sparse.save_npz`
    ``.csv``, ``.tsv``, ``.gz``     text; read through once, see the notes
    ``.parquet``, ``.pq``           a table; also a folder of them, with subfolders, in the order of their names
    ``.h5``, ``.hdf5``              a 2-d dataset
    ``.zarr``                       a 2-d array, or the only one in a group; format 2 or 3
    ==============================  =========================================================================

    Parameters
    ----------
    path : str or path-like
        The file or folder. ``~`` is the home folder.
    columns : list of str or int, optional
        Columns to read, by name (tables) or number, in this order. By default all; those of a table must hold numbers
        or truth values. The index that pandas writes along with a frame is left out unless it is chosen.
    array : str, optional
        Which array of an .npz, HDF5 or Zarr file. By default the only 2-d one.
    header : bool, optional
        Whether the first line of a CSV file is names. By default it is, unless it holds numbers only (but 0, 1, 2, ...
        are the names that pandas gives); a warning tells how such numbers were taken. A first column without a name
        is taken for the index that pandas writes, and left out with a warning.
    delimiter : str, optional
        What separates the values of a CSV file, by default "," and in a .tsv file a tab.
    decimal : str, optional
        The decimal sign of a CSV file, by default ".".
    scale : {"standard"}, optional
        "standard" brings every column to mean 0 and variance 1, for which the rows are read through once now. A model
        that is fitted on such rows keeps the scaling as `scaling_`, in its file too, and takes rows as they are from
        then on: leave `scale` out for `predict`. (For an array, use scikit-learn's ``StandardScaler`` in a pipeline.)

    Returns
    -------
    Rows
        For `fit` and `predict`. ``shape`` (``n_rows``, ``n_features``) and ``names`` tell what is in it,
        ``read(start, stop)`` and ``take(indices)`` give rows, ``select(columns)`` the same rows with fewer columns.
        Close it, or use it in a ``with`` statement, to let go of the file; else that happens when nothing refers to it
        any more.

    See Also
    --------
    ultraspec.USPEC.fit : Takes what this returns.

    Notes
    -----
    Labels are the same, bit for bit, whatever the format. Missing values are found when the rows are first read, and
    named with their column and row. Parquet, HDF5 and Zarr data is decoded in pieces, of which few are kept in memory.

    CSV files, compressed arrays in .npz files, and Parquet, HDF5 or Zarr data with row groups or chunks that span more
    than 128 MB, cannot be read from the middle. They are written out once, on opening, to a temporary file that
    vanishes with the source. It has 8 bytes per value for CSV, and else what the values take in memory. Set the
    environment variable ``TMPDIR`` if the usual folder for temporary files is too small.

    The names of folders (as in ``year=2026/part.parquet``) are not columns.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from ultraspec import USPEC, datasets, open_rows
    >>> X, _ = datasets.generate("cc", 5_000, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "x.npy"), X)
    ...     with open_rows(Path(folder, "x.npy")) as rows:
    ...         labels = USPEC(3, random_state=0).fit_predict(rows)
    >>> bool((labels == USPEC(3, random_state=0).fit_predict(X)).all())
    True
    """
    file = Path(path).expanduser().absolute()
    opener = _opener(file)
    given = {"array": array, "header": header, "delimiter": delimiter, "decimal": decimal}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in OPTIONS.get(opener, ()):
            raise ValueError(f"{name}={options[name]!r} has no meaning for {file}. Leave it out.")
    for name, sign in (("delimiter", delimiter), ("decimal", decimal)):
        if sign is not None and (not isinstance(sign, str) or len(sign) != 1):
            raise ValueError(f"{name} must be one character, got {sign!r}.")
    if header is not None and not isinstance(header, bool):
        raise TypeError(f"header must be True, False or None, got {header!r}.")
    if scale not in (None, "standard"):
        raise ValueError(f"scale must be 'standard' or None, got {scale!r}.")
    rows = opener(file, columns, **options)
    return rows if scale is None else _scaled(rows)


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise where `open_rows` would at once: there is no such file, or it is empty or of an unknown kind."""
    _opener(Path(path).expanduser().absolute())


def _scaled(rows: Rows) -> Rows:
    from ultraspec.engines import ThreadEngine  # which takes rows itself
    from ultraspec.scaling import ScaledRows, measure

    with ThreadEngine(None) as engine:
        return ScaledRows(rows, measure(rows, engine))


def _opener(file: Path) -> Opener:
    if file.is_dir():
        if file.suffix.lower() == ".zarr" or any((file / mark).is_file() for mark in ZARR_MARKS):
            return open_zarr
        if find_parts(file):
            return open_parquet
        raise ValueError(f"{file} is a folder with neither Parquet files (*.parquet) nor a Zarr array in it.")
    if not file.exists():
        raise FileNotFoundError(f"There is no file {file}.")
    if not file.is_file():
        raise ValueError(f"{file} is not a regular file, so it cannot be read from the middle.")
    name = file.name.lower()
    known = [suffix for suffix in OPENERS if name.endswith(suffix)]
    if not known:
        raise ValueError(f"{file} is of an unknown kind. Known are {', '.join(OPENERS)}, {FOLDERS}.")
    if file.stat().st_size == 0:
        raise ValueError(f"{file} is empty.")
    return OPENERS[known[-1]]
