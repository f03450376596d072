"""Rows of Parquet files and folders of them, of which row groups are decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional, join_names
from ultraspec.rows.arrow_columns import numpy_type, to_numpy
from ultraspec.rows.checks import LEAST_IDS
from ultraspec.rows.chunked import CHUNK_BYTES, MOST_CHUNK_BYTES, ChunkedRows
from ultraspec.rows.columns import Columns, check_numeric_columns
from ultraspec.rows.errors import InconsistentFiles, InvalidFile
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.file_state import FileState
from ultraspec.rows.folders import find_parts
from ultraspec.rows.raw_matrix import MatrixRows, write_tiles

SUFFIXES = (".parquet", ".pq", ".parq")
KIND = "a Parquet file"
BATCH_ROWS = 2**18  # decoded at once if row groups are too large to be decoded completely
BUFFER_BYTES = 2**20  # read at once in this case
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def open_parquet(path: Path, columns: Sequence[str | int] | None) -> FileRows:
    """Open a Parquet file or a folder of them."""
    if (path / "_delta_log").is_dir():
        raise InvalidFile(
            path,
            "is a Delta table, whose folder also holds rows that were deleted",
            "Export the table to Parquet files first.",
        )
    parts = [Part.of(file) for file in (find_parts(path, SUFFIXES) if path.is_dir() else [path])]
    chosen = _choose(path, parts[0], columns)
    names = chosen.names or []
    for part in parts[1:]:
        _check_consistent(parts[0], part, names, all_columns=columns is None)
    source = FileSource(path, open_parquet, batches=partial(parquet_batches, parts))
    dtype = np.result_type(*(numpy_type(part.types[name]) for part in parts for name in names))
    largest = max((rows for part in parts for rows in part.group_rows()), default=0)
    if largest * len(names) * dtype.itemsize <= MOST_CHUNK_BYTES:
        return ParquetRows(source, parts, chosen, dtype)
    if dtype.kind != "f" and any(part.may_have_missing(names) for part in parts):
        dtype = np.dtype(np.float64)  # which has NaN
    n_rows = sum(part.metadata.num_rows for part in parts)
    file = write_tiles(path, n_rows, len(names), dtype, _tiles(parts, names))
    return MatrixRows(source, file, n_rows, chosen, dtype, by_column=True, stored=chosen.numbers)


def _pandas_metadata(schema: Any) -> tuple[list[Any], list[Any]]:
    """Return what pandas has written about the index and the columns of a frame; raise ValueError if it is damaged."""
    found = schema.pandas_metadata or {}
    index = found.get("index_columns", []) if isinstance(found, dict) else None
    columns = found.get("columns", []) if isinstance(found, dict) else None
    if not isinstance(index, list) or not isinstance(columns, list):
        raise ValueError("The metadata of pandas is damaged.")
    return index, [each for each in columns if isinstance(each, dict)]


def _categories(types: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the types of columns that were categories of numbers in a frame: Parquet stores them as plain numbers."""
    arrow: Any = import_optional("pyarrow", "Parquet files")
    names = {str(each.get("name")) for each in columns if each.get("pandas_type") == "categorical"}
    numeric = [name for name in names & set(types) if numpy_type(types[name]) is not None]
    return {name: arrow.dictionary(arrow.int32(), types[name]) for name in numeric}


def is_parquet_folder(folder: Path) -> bool:
    """Return whether a folder has Parquet files in it."""
    return bool(find_parts(folder, SUFFIXES))


def parquet_batches(parts: Sequence[Part]) -> Iterator[Any]:
    """Yield record batches of all columns, in the order of the first file."""
    for part in parts:
        with part.open(buffer_size=BUFFER_BYTES) as file:
            batches = file.iter_batches(BATCH_ROWS, columns=parts[0].names, use_threads=False)
            while True:
                with part.state.reading(KIND):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch.select(parts[0].names)


@dataclass(frozen=True)
class Part:
    """One Parquet file."""

    state: FileState  #: its path and state
    metadata: Any  #: its footer, a pyarrow.parquet.FileMetaData
    names: list[str]  #: its columns
    types: dict[str, Any]  #: their types, by name
    index: set[str]  #: columns that are the index of a pandas frame

    @classmethod
    def of(cls, path: Path) -> Part:
        """Read the footer of a file."""
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        state = FileState.of(path)
        with state.reading(KIND), parquet.ParquetFile(str(path)) as file:
            schema = file.schema_arrow
            metadata = file.metadata
            index_columns, columns = _pandas_metadata(schema)
            names = list(schema.names)
        index = {name for name in names if name in index_columns or PANDAS_INDEX.fullmatch(name)}
        types = dict(zip(names, schema.types, strict=True))
        return cls(state, metadata, names, types | _categories(types, columns), index)

    @property
    def data_names(self) -> list[str]:
        """Columns without the index."""
        return [name for name in self.names if name not in self.index]

    def open(self, **options: Any) -> Any:
        """Open the file for one thread; the footer is not read again."""
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        return parquet.ParquetFile(
            str(self.state.path),
            metadata=self.metadata,
            pre_buffer=False,
            page_checksum_verification=True,  # if the file has checksums
            **options,
        )

    def first_rows(self, names: Sequence[str]) -> dict[str, Array]:
        """Return the first values of some columns."""
        with self.state.reading(KIND), self.open(buffer_size=BUFFER_BYTES) as file:
            batch = next(file.iter_batches(LEAST_IDS, columns=list(names), use_threads=False), None)
        return {name: np.empty(0) if batch is None else to_numpy(batch.column(name)) for name in names}

    def group_rows(self) -> list[int]:
        """Return the number of rows of each row group."""
        return [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]

    def may_have_missing(self, names: Sequence[str]) -> bool:
        """Return whether these columns may have missing values."""
        groups = [self.metadata.row_group(group) for group in range(self.metadata.num_row_groups)]
        columns = (group.column(number) for group in groups for number in range(self.metadata.num_columns))
        statistics = [column.statistics for column in columns if column.path_in_schema in names]
        return any(known is None or not known.has_null_count or known.null_count for known in statistics)


def _choose(path: Path, part: Part, columns: Sequence[str | int] | None) -> Columns:
    every = Columns.choose(None, path, len(part.names), part.names)
    if columns is None and not part.data_names:
        raise InvalidFile(path, "has no columns but the index of a pandas frame")
    chosen = every.pick(part.data_names if columns is None else columns, path)
    chosen_index = [name for name in chosen.names or () if name in part.index]
    numeric = [name for name in part.data_names + chosen_index if numpy_type(part.types[name]) is not None]
    check_numeric_columns(path, chosen.names or [], part.types, numeric, part.first_rows)
    return chosen


def _check_consistent(first: Part, part: Part, names: list[str], *, all_columns: bool) -> None:
    """Raise if a file cannot be read like the first one."""
    a = first.state.path
    b = part.state.path
    missing = [name for name in names if name not in part.types]
    extra = [name for name in part.data_names if name not in first.types] if all_columns else []
    other = [name for name in names if name not in missing and numpy_type(part.types[name]) is None]
    if missing or extra:
        with_them, without_them = (a, b) if missing else (b, a)
        difference = f"{with_them} has {join_names(missing or extra)} and {without_them} has not"
    elif other:
        types = (f"{name!r} is {first.types[name]} in {a} and {part.types[name]} in {b}" for name in other)
        difference = ", ".join(types)
    else:
        return
    raise InconsistentFiles((a, b), missing or extra or other, difference)


def _tiles(parts: Sequence[Part], names: Sequence[str]) -> Iterator[tuple[int, int, Array]]:
    """Yield all values column by column, a batch of rows at a time."""
    for index, name in enumerate(names):
        row = 0
        for part in parts:
            with part.open(buffer_size=BUFFER_BYTES) as file:
                batches = file.iter_batches(BATCH_ROWS, columns=[name], use_threads=False)
                while True:
                    with part.state.reading(KIND):
                        batch = next(batches, None)
                    if batch is None:
                        break
                    yield row, index, to_numpy(batch.column(0))[:, None]
                    row += batch.num_rows


class ParquetRows(ChunkedRows):
    """Rows of Parquet files. A chunk is a row group, or several small consecutive ones of a file."""

    def __init__(self, source: FileSource, parts: Sequence[Part], columns: Columns, dtype: np.dtype) -> None:
        row_bytes = max(1, len(columns.numbers) * dtype.itemsize)
        self._groups: list[tuple[Part, list[int]]] = []
        bounds = [0]
        end = 0
        for part in parts:
            chunk_rows = 0
            for group, n_rows in enumerate(part.group_rows()):
                if n_rows == 0:
                    continue
                if chunk_rows and (chunk_rows + n_rows) * row_bytes <= CHUNK_BYTES:
                    self._groups[-1][1].append(group)
                    chunk_rows += n_rows
                    bounds.pop()
                else:
                    self._groups.append((part, [group]))
                    chunk_rows = n_rows
                end += n_rows
                bounds.append(end)
        super().__init__(source, bounds, columns, dtype)

    def _decode(self, number: int, columns: slice, buffer: Array) -> Array:
        part, groups = self._groups[number]
        names = (self.names or [])[columns]
        with part.state.reading(KIND), part.open() as file:
            table = file.read_row_groups(groups, columns=names, use_threads=False)
        n_rows = int(self._bounds[number + 1] - self._bounds[number])
        if table.num_rows != n_rows:
            raise InvalidFile(part.state.path, f"is damaged: {table.num_rows} of {n_rows} rows could be read")
        for index, name in enumerate(names):
            values = to_numpy(table.column(name))
            if values.dtype.kind == "f" and buffer.dtype.kind != "f":
                buffer = buffer.astype(np.float64)  # for NaN
            buffer[:, index] = values
        return buffer
