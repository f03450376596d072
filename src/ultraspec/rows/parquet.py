"""Rows of Parquet files and folders of them: takes the chosen columns, gives rows by decoding row groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional, join_names
from ultraspec.rows._file import Array, Columns, FileRows, Stamp, check_numeric_columns
from ultraspec.rows._matrix import MatrixRows
from ultraspec.rows._pieces import MOST_PIECE_BYTES, PIECE_BYTES, PieceRows
from ultraspec.rows._temporary import write_tiles
from ultraspec.rows.errors import InconsistentFiles, InvalidFile

SUFFIXES = (".parquet", ".pq", ".parq")
KIND = "a Parquet file"
BATCH_ROWS = 2**18  # decoded at once where row groups are too large to be decoded whole
BUFFER_BYTES = 2**20  # and read at once
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def open_parquet(path: Path, columns: Sequence[str | int] | None) -> FileRows:
    """Open a Parquet file or a folder of them."""
    if (path / "_delta_log").is_dir():
        raise InvalidFile(
            path,
            "is a Delta table, whose folder also holds rows that were deleted",
            "Export the table to Parquet files first.",
        )
    parts = [Part.of(file) for file in (find_parts(path) if path.is_dir() else [path])]
    chosen = _choose(path, parts[0], columns)
    names = chosen.names or []
    for part in parts[1:]:
        _check_alike(parts[0], part, names, everything=columns is None)
    dtype = np.result_type(*(numpy_type(part.types[name]) for part in parts for name in names))
    largest = max((rows for part in parts for rows in part.group_rows()), default=0)
    if largest * len(names) * dtype.itemsize <= MOST_PIECE_BYTES:
        return ParquetRows(path, parts, chosen, dtype)
    if dtype.kind != "f" and any(part.may_miss(names) for part in parts):
        dtype = np.dtype(np.float64)  # which has NaN
    n_rows = sum(part.metadata.num_rows for part in parts)
    file = write_tiles(path, n_rows, len(names), dtype, _tiles(parts, names))
    return MatrixRows(path, file, n_rows, chosen, dtype, by_column=True, stored=chosen.numbers)


def find_parts(folder: Path) -> list[Path]:
    """Parquet files in a folder and its subfolders, in the order of their names, without hidden ones."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    shown = (path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts))
    return sorted(shown, key=str)


@dataclass(frozen=True)
class Part:
    """One Parquet file.

    Attributes
    ----------
    stamp : Stamp
        Its path and state.
    metadata : pyarrow.parquet.FileMetaData
        Its footer.
    names : list of str
        Its columns.
    types : dict of str to pyarrow.DataType
        Their types.
    index : set of str
        Columns that are the index of a pandas frame.
    """

    stamp: Stamp
    metadata: Any
    names: list[str]
    types: dict[str, Any]
    index: set[str]

    @classmethod
    def of(cls, path: Path) -> Part:
        """Look at a file's footer."""
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        stamp = Stamp.of(path)
        with stamp.reading(KIND), parquet.ParquetFile(str(path)) as file:
            schema, metadata = file.schema_arrow, file.metadata
            noted = (schema.pandas_metadata or {}).get("index_columns", ())
        index = {name for name in schema.names if name in noted or PANDAS_INDEX.fullmatch(name)}
        return cls(stamp, metadata, list(schema.names), dict(zip(schema.names, schema.types, strict=True)), index)

    @property
    def data_names(self) -> list[str]:
        """Columns without the index."""
        return [name for name in self.names if name not in self.index]

    def open(self, **options: Any) -> Any:
        """Open the file for one thread; the footer is not read again."""
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        return parquet.ParquetFile(
            str(self.stamp.path),
            metadata=self.metadata,
            pre_buffer=False,
            page_checksum_verification=True,  # where the file has them
            **options,
        )

    def group_rows(self) -> list[int]:
        """Rows of each row group."""
        return [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]

    def may_miss(self, names: Sequence[str]) -> bool:
        """Whether there may be missing values in these columns."""
        groups = [self.metadata.row_group(group) for group in range(self.metadata.num_row_groups)]
        columns = (group.column(number) for group in groups for number in range(self.metadata.num_columns))
        found = [column.statistics for column in columns if column.path_in_schema in names]
        return any(facts is None or not facts.has_null_count or facts.null_count for facts in found)


def numpy_type(kind: Any) -> np.dtype | None:
    """NumPy's type for the values of a column, None if they are not numbers."""
    types: Any = import_optional("pyarrow", "Parquet files").types
    if types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if types.is_boolean(kind):
        return np.dtype(np.uint8)
    return np.dtype(np.float64) if types.is_decimal(kind) or types.is_null(kind) else None


def _choose(path: Path, part: Part, wanted: Sequence[str | int] | None) -> Columns:
    every = Columns.choose(None, path, len(part.names), part.names)
    if wanted is None and not part.data_names:
        raise InvalidFile(path, "has no columns but the index of a pandas frame")
    chosen = every.pick(part.data_names if wanted is None else wanted, path)
    numeric = [name for name in part.data_names if numpy_type(part.types[name]) is not None]
    numeric += [name for name in chosen.names or () if name in part.index and numpy_type(part.types[name]) is not None]
    check_numeric_columns(path, chosen.names or [], part.types, numeric)
    return chosen


def _check_alike(first: Part, part: Part, names: list[str], *, everything: bool) -> None:
    """Raise where a part cannot be read like the first one."""
    a, b = str(first.stamp.path), str(part.stamp.path)
    missing = [name for name in names if name not in part.types]
    extra = [name for name in part.data_names if name not in first.types] if everything else []
    other = [name for name in names if name not in missing and numpy_type(part.types[name]) is None]
    if missing or extra:
        with_them, without_them = (a, b) if missing else (b, a)
        problem = f"{with_them} has {join_names(missing or extra)} and {without_them} has not"
    elif other:
        problem = ", ".join(f"{name!r} is {first.types[name]} in {a} and {part.types[name]} in {b}" for name in other)
    else:
        return
    raise InconsistentFiles((first.stamp.path, part.stamp.path), missing or extra or other, problem)


def _plain(column: Any) -> Array:
    """A column's values; missing ones become NaN."""
    types: Any = import_optional("pyarrow", "Parquet files").types
    if types.is_boolean(column.type):
        column = column.cast("uint8")
    if not types.is_floating(column.type) and (column.null_count or not types.is_integer(column.type)):
        column = column.cast("float64", safe=False)
    return np.asarray(column)


def _tiles(parts: Sequence[Part], names: Sequence[str]) -> Iterator[tuple[int, int, Array]]:
    """All values column by column, a few at a time."""
    for place, name in enumerate(names):
        row = 0
        for part in parts:
            with part.open(buffer_size=BUFFER_BYTES) as file:
                batches = file.iter_batches(BATCH_ROWS, columns=[name], use_threads=False)
                while True:
                    with part.stamp.reading(KIND):
                        batch = next(batches, None)
                    if batch is None:
                        break
                    yield row, place, _plain(batch.column(0))[:, None]
                    row += batch.num_rows


class ParquetRows(PieceRows):
    """Rows of Parquet files. A piece is a row group, or small neighbouring ones of a file."""

    def __init__(self, path: Path, parts: Sequence[Part], columns: Columns, dtype: np.dtype) -> None:
        row_bytes = max(1, len(columns.numbers) * dtype.itemsize)
        self._groups: list[tuple[Part, list[int]]] = []
        bounds, rows = [0], 0
        for part in parts:
            held = 0
            for group, n_rows in enumerate(part.group_rows()):
                if n_rows == 0:
                    continue
                if held and (held + n_rows) * row_bytes <= PIECE_BYTES:
                    self._groups[-1][1].append(group)
                    held += n_rows
                    bounds.pop()
                else:
                    self._groups.append((part, [group]))
                    held = n_rows
                rows += n_rows
                bounds.append(rows)
        super().__init__(path, bounds, columns, dtype)

    def _decode(self, number: int, columns: slice, room: Array) -> Array:
        part, groups = self._groups[number]
        names = (self.names or [])[columns]
        with part.stamp.reading(KIND), part.open() as file:
            table = file.read_row_groups(groups, columns=names, use_threads=False)
        n_rows = int(self._bounds[number + 1] - self._bounds[number])
        if table.num_rows != n_rows:
            raise InvalidFile(part.stamp.path, f"is damaged: {table.num_rows} of {n_rows} rows could be read")
        for place, name in enumerate(names):
            values = _plain(table.column(name))
            if values.dtype.kind == "f" and room.dtype.kind != "f":
                room = room.astype(np.float64)  # for NaN
            room[:, place] = values
        return room
