"""The table of file formats, and opening files by it. A new format is one more entry in `FORMATS`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ultraspec._checks import InvalidParameter, InvalidParameterType
from ultraspec.rows.anndata_files import open_h5ad
from ultraspec.rows.arrow import FILE_MAGIC, STREAM_MAGIC, open_arrow, read_arrow_pipe
from ultraspec.rows.csv import SUFFIXES as CSV_SUFFIXES
from ultraspec.rows.csv import CsvRows, is_csv_folder
from ultraspec.rows.errors import InvalidFile, OptionNotApplicable, UnknownFormat
from ultraspec.rows.file_rows import FileSource
from ultraspec.rows.hdf5 import open_hdf5
from ultraspec.rows.interface import Rows
from ultraspec.rows.json_lines import SUFFIXES as JSON_SUFFIXES
from ultraspec.rows.json_lines import open_json_lines
from ultraspec.rows.npy import NpyRows
from ultraspec.rows.npz import open_npz
from ultraspec.rows.parquet import SUFFIXES as PARQUET_SUFFIXES
from ultraspec.rows.parquet import is_parquet_folder, open_parquet
from ultraspec.rows.pipes import STDIN, is_pipe, refuse_pipe
from ultraspec.rows.text_files import COMPRESSIONS, PipedText
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

    @property
    def plain_suffixes(self) -> tuple[str, ...]:
        """Suffixes without those of compressed files."""
        return tuple(suffix for suffix in self.suffixes if not suffix.endswith(tuple(COMPRESSIONS)))


# Folders are of the first format that they match.
FORMATS = (
    Format("NumPy", (".npy",), NpyRows, "a 2-d array"),
    Format("NumPy", (".npz",), open_npz, "a 2-d array, or a matrix saved by `scipy.sparse.save_npz`", ("array",)),
    Format("HDF5", (".h5", ".hdf5"), open_hdf5, "a 2-d dataset", ("array",)),
    Format("AnnData", (".h5ad",), open_h5ad, "X, raw/X, a layer or obsm of an AnnData, dense or sparse", ("array",)),
    Format(
        "Zarr",
        (".zarr",),
        open_zarr,
        "a folder with a 2-d array, or the only one in a group; also an AnnData; format 2 or 3",
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
    Format("Arrow", (".arrow", ".feather", ".ipc"), open_arrow, "a table: an Arrow file or stream", is_table=True),
    Format(
        "CSV",
        CSV_SUFFIXES,
        CsvRows,
        "a table as text, also compressed (.gz, .bz2, .zst) or a folder of them; read completely on opening",
        ("header", "delimiter", "decimal"),
        is_table=True,
        slow_to_open=True,
        is_folder=is_csv_folder,
    ),
    Format(
        "JSON lines",
        JSON_SUFFIXES,
        open_json_lines,
        "an object on each line, also compressed; read completely on opening",
        is_table=True,
        slow_to_open=True,
    ),
)


def open_pipe(
    path: Path,
    columns: Sequence[str | int] | None,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> Rows:
    """Read rows from a pipe, which is CSV text, compressed or not, or a stream of Arrow record batches."""
    is_stdin = path.name == "-"
    shown = STDIN if is_stdin else path
    if is_stdin and sys.stdin.isatty():
        raise InvalidFile(shown, "is a terminal", "Pipe rows to the command, as in: cat data.csv | ultraspec fit - ...")
    source: Any = contextlib.nullcontext(sys.stdin.buffer) if is_stdin else open(path, "rb")  # noqa: SIM115
    with source as stream:
        start = stream.peek(8)[:8]
        if not start:
            raise InvalidFile(shown, "is empty")
        for magic, kind in UNPIPED.items():
            if start.startswith(magic):
                raise InvalidFile(shown, f"is {kind}, which cannot be read from a pipe", "Write it to a file first.")
        if start.startswith((STREAM_MAGIC, FILE_MAGIC)):
            for option, value in {"header": header, "delimiter": delimiter, "decimal": decimal}.items():
                if value is not None:
                    raise OptionNotApplicable(option, value, shown)
            if start.startswith(FILE_MAGIC):
                stream.read(8)  # what follows is a stream, too
            return read_arrow_pipe(shown, FileSource(shown, refuse_pipe), stream, columns)
        text = PipedText(shown, stream, start)
    return CsvRows(shown, columns, header=header, delimiter=delimiter, decimal=decimal, pipe=text)


UNPIPED = {b"PAR1": "a Parquet file", b"\x89HDF": "an HDF5 file", b"PK": "a zip archive", b"\x93NUMPY": "an .npy file"}
PIPE = Format(
    "pipe", ("-",), open_pipe, "CSV or Arrow", ("header", "delimiter", "decimal"), is_table=True, slow_to_open=True
)


def open_file(path: str | os.PathLike[str], columns: Sequence[str | int] | None = None, **options: Any) -> Rows:
    """Open the row source of a file; options that are None are left out. See `ultraspec.open_rows`."""
    kind = find_format(path)
    file = Path(path) if kind is PIPE else Path(path).expanduser().absolute()
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
    if is_pipe(path):
        return PIPE
    file = Path(path).expanduser().absolute()
    if file.is_dir():
        folders = {kind: kind.is_folder for kind in FORMATS if kind.is_folder is not None}
        for kind, is_folder in folders.items():
            if is_folder(file):
                return kind
        raise InvalidFile(file, f"is a folder without {', '.join(kind.name for kind in folders)} files")
    if not file.exists():
        raise FileNotFoundError(f"There is no file {file}.")
    if not file.is_file():
        raise InvalidFile(file, "is neither a regular file nor a pipe")
    for kind in FORMATS:
        if file.name.lower().endswith(kind.suffixes):
            if file.stat().st_size == 0:
                raise InvalidFile(file, "is empty")
            return kind
    raise UnknownFormat(file, [suffix for kind in FORMATS for suffix in kind.plain_suffixes])
