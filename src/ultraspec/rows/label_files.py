"""Label files: takes ``path`` or ``path:column`` in any table or array format, gives one array of labels."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import import_optional, join_names
from ultraspec.rows.file_state import FileState
from ultraspec.rows.npy import read_header

Array = npt.NDArray[Any]

DEFAULT_NAMES = ("label", "labels")  # columns that are read where none is named
FORMATS = ".npy, .npz, .csv, .tsv, .parquet, .pq"
NPZ_ERRORS = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)
CHECKED_ROWS = 2**20  # float labels are checked in blocks of this many


def read_label_file(text: str, column: str | None = None, delimiter: str | None = None) -> Array:
    """Read labels from a file; strings are replaced by the number of each distinct string.

    The `text` is ``path`` or ``path:column``. Where it names no column (or array of an .npz file), `column` is read, by
    default the only one, or "label". Labels are integers, or floats with integer values.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/y.npz", species=["cat", "dog", "cat"])
    ...     read_label_file(f"{folder}/y.npz:species").tolist()
    [0, 1, 0]
    """
    path, named = split_column(text)
    column = named or column
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file of labels.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    name = path.name.lower()
    if name.endswith(".npy"):
        return _from_npy(path, column)
    if name.endswith(".npz"):
        return _from_npz(path, column)
    if name.endswith((".parquet", ".pq")):
        return _from_parquet(path, column)
    if name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
        return _from_csv(path, column, delimiter)
    raise ValueError(f"{path} has an unknown format for labels. Known formats are {FORMATS}.")


def split_column(text: str) -> tuple[Path, str | None]:
    """Split ``path:column``; a colon in the name of an existing file separates nothing.

    Examples
    --------
    >>> split_column("labels.parquet:class")
    (PosixPath('labels.parquet'), 'class')
    """
    whole = Path(text).expanduser()
    front, colon, column = text.rpartition(":")
    if not colon or not column or whole.exists() or len(front) < 2:  # one letter before a colon is a Windows drive
        return whole, None
    return Path(front).expanduser(), column


def table_columns(path: Path, delimiter: str | None = None) -> list[str] | list[int]:
    """List the columns of a Parquet or CSV file: names, or numbers if the CSV file has no header line."""
    state = FileState.of(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        with state.reading("a Parquet file"):
            return [str(name) for name in parquet.read_schema(path).names]
    csv: Any = import_optional("pyarrow.csv", "CSV files")
    with state.reading("a CSV file"), csv.open_csv(str(path), parse_options=_parsing(path, delimiter)) as reader:
        names = [str(name) for name in reader.schema.names]
    return list(range(len(names))) if all(map(_is_number, names)) else names


def read_table_columns(
    path: Path, names: Sequence[str], *, delimiter: str | None = None, decimal: str | None = None
) -> dict[str, Array]:
    """Read columns of a Parquet or CSV file into memory: numbers, strings or dates, None where values are missing.

    Parameters
    ----------
    path : Path
        The file, or a folder of Parquet files.
    names : sequence of str
        Names of the columns.
    delimiter, decimal : str, optional
        Characters of a CSV file.
    """
    is_csv = not path.is_dir() and any(part in (".csv", ".tsv") for part in map(str.lower, path.suffixes))
    if not is_csv and not path.is_dir() and path.suffix.lower() not in (".parquet", ".pq"):
        raise ValueError(f"{path} has no columns with names. Columns can be read from Parquet and CSV files.")
    known: Sequence[str | int] = list(names) if path.is_dir() else table_columns(path, delimiter)
    for name in names:
        if name not in known:
            raise ValueError(f"{path} has no column {name!r}. Its columns are {join_names(known)}.")
    if is_csv:
        csv: Any = import_optional("pyarrow.csv", "CSV files")
        convert = csv.ConvertOptions(
            include_columns=list(names), strings_can_be_null=True, decimal_point=decimal or "."
        )
        with FileState.of(path).reading("a CSV file"):
            table = csv.read_csv(str(path), parse_options=_parsing(path, delimiter), convert_options=convert)
    else:
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        with FileState.of(path).reading("a Parquet file"):
            table = parquet.read_table(path, columns=list(names))
    return {name: table.column(name).to_numpy() for name in names}


def check_same_length(labels: Array, truth: Array, names: tuple[str, str]) -> None:
    """Raise unless there are as many labels as classes; `names` are those of the two files."""
    n, m = len(labels), len(truth)
    if n == m:
        return
    message = f"{names[0]} has {n:,} labels and {names[1]} has {m:,}: both must have one per row of the same rows."
    if abs(n - m) == 1 and any(".csv" in name or ".tsv" in name for name in names):
        message += " The first line of a CSV file is read as a header unless it holds only numbers."
    raise ValueError(message)


def _from_npy(path: Path, column: str | None) -> Array:
    if column is not None:
        raise ValueError(f"{path} is a single array, which has no column {column!r}.")
    with FileState.of(path).reading("an .npy file", OSError, ValueError, EOFError):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _check_labels(array, str(path))


def _from_npz(path: Path, column: str | None) -> Array:
    with FileState.of(path).reading("an .npz file", *NPZ_ERRORS):
        archive = np.load(path, allow_pickle=False)
        names = list(archive.files)
    with archive:
        name = column
        if name is None:
            vectors = {n for n in names if n in DEFAULT_NAMES} or {n for n in names if _is_vector(path, archive, n)}
            name = _only(path, "arrays", names, sorted(vectors))
        elif name not in names:
            raise ValueError(f"{path} has no array {name!r}. It has {join_names(names)}.")
        with FileState.of(path).reading("an .npz file", *NPZ_ERRORS):
            array = archive[name]
    return _check_labels(array, f"{path}: array {name!r}")


def _is_vector(path: Path, archive: Any, name: str) -> bool:
    with FileState.of(path).reading("an .npz file"), archive.zip.open(f"{name}.npy") as stream:
        return len(read_header(stream).info.shape) == 1


def _from_parquet(path: Path, column: str | None) -> Array:
    parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
    name = _choose(path, [str(name) for name in table_columns(path)], column)
    with FileState.of(path).reading("a Parquet file"):
        values = parquet.read_table(path, columns=[name]).column(0)
    return _from_arrow(values, f"{path}: column {name!r}")


def _from_csv(path: Path, column: str | None, delimiter: str | None) -> Array:
    csv: Any = import_optional("pyarrow.csv", "CSV files")
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, got {delimiter!r}.")
    columns = table_columns(path, delimiter)
    names = [str(name) for name in columns]
    name = _choose(path, names, column)
    options = csv.ReadOptions(column_names=names if isinstance(columns[0], int) else None)
    convert = csv.ConvertOptions(include_columns=[name], strings_can_be_null=True)
    parse = _parsing(path, delimiter)
    with FileState.of(path).reading("a CSV file"):
        values = csv.read_csv(str(path), read_options=options, parse_options=parse, convert_options=convert).column(0)
    return _from_arrow(values, f"{path}: column {name!r}")


def _parsing(path: Path, delimiter: str | None) -> Any:
    csv: Any = import_optional("pyarrow.csv", "CSV files")
    return csv.ParseOptions(delimiter=delimiter or ("\t" if ".tsv" in path.name.lower() else ","))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _choose(path: Path, names: Sequence[str], column: str | None) -> str:
    if column is None:
        return _only(path, "columns", names, [name for name in DEFAULT_NAMES if name in names] or list(names))
    if names.count(column) != 1:
        found = "more than one column" if column in names else "no column"
        raise ValueError(f"{path} has {found} named {column!r}. Its columns are {join_names(names)}.")
    return column


def _only(path: Path, what: str, names: Sequence[str], candidates: Sequence[str]) -> str:
    if len(candidates) != 1:
        example = f"{path}:{(list(candidates) or list(names) or ['name'])[0]}"
        raise ValueError(f"{path} has the {what} {join_names(names)}. Say which one holds the labels, as in {example}")
    return candidates[0]


def _from_arrow(values: Any, description: str) -> Array:
    types: Any = import_optional("pyarrow", "tables").types
    if values.null_count:
        compute: Any = import_optional("pyarrow.compute", "tables")
        row = compute.index(compute.is_null(values), value=True).as_py()
        raise ValueError(f"{description} has {values.null_count:,} missing labels, the first in row {row}.")
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if types.is_boolean(kind):
        values = values.cast("uint8")
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        encoded = values.combine_chunks().dictionary_encode()
        chunks = encoded.chunks if hasattr(encoded, "chunks") else [encoded]
        return np.concatenate([np.asarray(chunk.indices) for chunk in chunks])
    elif not (types.is_integer(kind) or types.is_floating(kind)):
        raise ValueError(f"{description} holds {kind}, not labels: integers or strings.")
    return _check_labels(np.asarray(values), description)


def _check_labels(array: Array, description: str) -> Array:
    """Raise unless an array is one label per row; number its labels if they are strings."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{description} has the shape {array.shape}: labels are one per row.")
    if array.size == 0:
        raise ValueError(f"{description} has no rows.")
    if array.dtype.kind in "US":
        return np.unique(array, return_inverse=True)[1]
    if array.dtype.kind == "f":
        for start in range(0, len(array), CHECKED_ROWS):
            part = np.asarray(array[start : start + CHECKED_ROWS])
            bad = np.flatnonzero(~(np.isfinite(part) & (part == np.rint(part))))
            if bad.size:
                row = start + int(bad[0])
                raise ValueError(f"{description} holds {part[bad[0]]} in row {row}. Labels are integers or strings.")
    elif array.dtype.kind not in "biu":
        raise ValueError(f"{description} holds {array.dtype}, not labels: integers or strings.")
    return array
