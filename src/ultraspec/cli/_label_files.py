"""Label files of any format: takes ``path`` or ``path:column``, gives one array of labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import listed, need
from ultraspec.rows._file import Stamp

Array = npt.NDArray[Any]

USUAL = ("label", "labels")  # columns that are meant where none is named
KINDS = ".npy, .npz, .csv, .tsv, .parquet, .pq"


def read_labels(text: str, column: str | None = None, delimiter: str | None = None) -> Array:
    """Labels: whole numbers, or words as the numbers of distinct words.

    Parameters
    ----------
    text : str
        ``path`` or ``path:column``.
    column : str, optional
        Column, or array of an .npz file, where the text names none. By default the only one, or "label".
    delimiter : str, optional
        What separates the values of a CSV file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/y.npz", species=["cat", "dog", "cat"])
    ...     read_labels(f"{folder}/y.npz:species").tolist()
    [0, 1, 0]
    """
    path, own = split(text)
    column = own or column
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file of labels.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    name = path.name.lower()
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if name.endswith(".npy"):
        return _from_npy(path, column)
    if name.endswith(".npz"):
        return _from_npz(path, column)
    if name.endswith((".parquet", ".pq")):
        return _from_parquet(path, column)
    if name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
        return _from_csv(path, column, delimiter)
    raise ValueError(f"{path} is of an unknown kind of label file. Known are {KINDS}.")


def split(text: str) -> tuple[Path, str | None]:
    """Path and column; a colon that belongs to the name of an existing file separates nothing.

    Examples
    --------
    >>> split("labels.parquet:class")
    (PosixPath('labels.parquet'), 'class')
    """
    whole = Path(text).expanduser()
    front, colon, column = text.rpartition(":")
    if not colon or not column or whole.exists() or len(front) < 2:
        return whole, None
    return Path(front).expanduser(), column


def _from_npy(path: Path, column: str | None) -> Array:
    if column is not None:
        raise ValueError(f"{path} is a single array, which has no column {column!r}.")
    with Stamp.of(path).reading("an .npy file", OSError, ValueError, EOFError):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _vector(array, str(path))


def _from_npz(path: Path, column: str | None) -> Array:
    import zipfile
    import zlib

    errors = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)
    with Stamp.of(path).reading("an .npz file", *errors):
        archive = np.load(path, allow_pickle=False)
        names = list(archive.files)
    with archive:
        name = column
        if name is None:
            vectors = {n for n in names if n in USUAL} or {n for n in names if _is_vector(path, archive, n)}
            name = _only(path, "arrays", names, sorted(vectors))
        elif name not in names:
            raise ValueError(f"{path} has no array {name!r}. It has {listed(names)}.")
        with Stamp.of(path).reading("an .npz file", *errors):
            array = archive[name]
    return _vector(array, f"{path}: array {name!r}")


def _is_vector(path: Path, archive: Any, name: str) -> bool:
    from ultraspec.rows.npy import read_header

    with Stamp.of(path).reading("an .npz file"), archive.zip.open(f"{name}.npy") as stream:
        shape = read_header(stream).found.shape
    return len(shape) == 1


def _from_parquet(path: Path, column: str | None) -> Array:
    parquet: Any = need("pyarrow.parquet", "Parquet files")
    stamp = Stamp.of(path)
    with stamp.reading("a Parquet file"):
        names = parquet.read_schema(path).names
    name = _choose(path, names, column)
    with stamp.reading("a Parquet file"):
        values = parquet.read_table(path, columns=[name]).column(0)
    return _from_arrow(values, f"{path}: column {name!r}")


def _from_csv(path: Path, column: str | None, delimiter: str | None) -> Array:
    csv: Any = need("pyarrow.csv", "CSV files")
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"--delimiter must be one character, got {delimiter!r}.")
    parse = csv.ParseOptions(delimiter=delimiter or ("\t" if ".tsv" in path.name.lower() else ","))
    stamp = Stamp.of(path)
    with stamp.reading("a CSV file"), csv.open_csv(str(path), parse_options=parse) as reader:
        names = [str(name) for name in reader.schema.names]
    has_names = not all(map(is_number, names))
    if has_names:
        name = _choose(path, names, column)
    else:
        name = _choose(path, [str(number) for number in range(len(names))], column)
    options = csv.ReadOptions(column_names=None if has_names else [str(n) for n in range(len(names))])
    convert = csv.ConvertOptions(include_columns=[name], strings_can_be_null=True)
    with stamp.reading("a CSV file"):
        values = csv.read_csv(str(path), read_options=options, parse_options=parse, convert_options=convert).column(0)
    return _from_arrow(values, f"{path}: column {name!r}")


def is_number(text: str) -> bool:
    """Whether a field of a first line is a number, and so no name."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _choose(path: Path, names: Sequence[str], column: str | None) -> str:
    if column is None:
        return _only(path, "columns", names, [name for name in USUAL if name in names] or list(names))
    if names.count(column) != 1:
        found = "more than one column" if column in names else "no column"
        raise ValueError(f"{path} has {found} named {column!r}. Its columns are {listed(names)}.")
    return column


def _only(path: Path, what: str, names: Sequence[str], fitting: Sequence[str]) -> str:
    if len(fitting) != 1:
        example = f"{path}:{(list(fitting) or list(names) or ['name'])[0]}"
        raise ValueError(f"{path} has the {what} {listed(names)}. Say which one holds the labels, as in {example}")
    return fitting[0]


def _from_arrow(values: Any, label: str) -> Array:
    kinds: Any = need("pyarrow", "tables").types
    if values.null_count:
        compute: Any = need("pyarrow.compute", "tables")
        row = compute.index(compute.is_null(values), value=True).as_py()
        raise ValueError(f"{label} has {values.null_count:,} missing labels, the first in row {row}.")
    kind = values.type
    if kinds.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if kinds.is_boolean(kind):
        values = values.cast("uint8")
    elif kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        encoded = values.combine_chunks().dictionary_encode()
        chunks = encoded.chunks if hasattr(encoded, "chunks") else [encoded]
        return np.concatenate([np.asarray(chunk.indices) for chunk in chunks])
    elif not (kinds.is_integer(kind) or kinds.is_floating(kind)):
        raise ValueError(f"{label} holds {kind}, not labels: whole numbers or words.")
    return _vector(np.asarray(values), label)


def _vector(array: Array, label: str) -> Array:
    """Check that an array holds labels."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{label} has the shape {array.shape}: labels are one per row.")
    if array.size == 0:
        raise ValueError(f"{label} has no rows.")
    if array.dtype.kind in "US":
        return np.unique(array, return_inverse=True)[1]
    if array.dtype.kind == "f":
        for start in range(0, len(array), 2**20):
            part = np.asarray(array[start : start + 2**20])
            bad = np.flatnonzero(~(np.isfinite(part) & (part == np.rint(part))))
            if bad.size:
                raise ValueError(
                    f"{label} holds {part[bad[0]]} in row {start + int(bad[0])}. Labels are whole numbers or words."
                )
    elif array.dtype.kind not in "biu":
        raise ValueError(f"{label} holds {array.dtype}, not labels: whole numbers or words.")
    return array


def same_length(labels: Array, truth: Array, texts: tuple[str, str]) -> None:
    """Raise unless both have one label per row of the same rows."""
    n, m = len(labels), len(truth)
    if n == m:
        return
    text = f"{texts[0]} has {n:,} labels and {texts[1]} has {m:,}: they must be of the same rows."
    if abs(n - m) == 1 and any(".csv" in name or ".tsv" in name for name in itertools.chain(texts)):
        text += " The first line of a CSV file is taken for names unless it holds numbers only."
    raise ValueError(text)
