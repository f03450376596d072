"""Columns of Arrow tables as NumPy arrays, and streams of record batches written out as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional
from ultraspec.rows.checks import LEAST_IDS
from ultraspec.rows.columns import Columns, check_numeric_columns
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.file_rows import Array, FileSource
from ultraspec.rows.raw_matrix import MatrixRows, create_file

PURPOSE = "Arrow tables"


def numpy_type(kind: Any) -> np.dtype | None:
    """Return the NumPy type for the values of a column, or None if they are not numbers."""
    types: Any = import_optional("pyarrow", PURPOSE).types
    if types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if types.is_boolean(kind):
        return np.dtype(np.uint8)
    return np.dtype(np.float64) if types.is_decimal(kind) or types.is_null(kind) else None


def to_numpy(column: Any) -> Array:
    """Return the values of a column; missing ones become NaN."""
    types: Any = import_optional("pyarrow", PURPOSE).types
    if types.is_boolean(column.type):
        column = column.cast("uint8")
    if not types.is_floating(column.type) and (column.null_count or not types.is_integer(column.type)):
        column = column.cast("float64", safe=False)
    return np.asarray(column)


def choose_numeric(
    path: Path,
    types: Mapping[str, Any],
    columns: Sequence[str | int] | None,
    read: Callable[[list[str]], Mapping[str, Array]],
) -> Columns:
    """Choose columns of a table, by default all; raise unless they hold numbers. See `check_numeric_columns`."""
    names = list(types)
    chosen = Columns.choose(columns, path, len(names), names)
    numeric = [name for name in names if numpy_type(types[name]) is not None]
    check_numeric_columns(path, chosen.names or [], types, numeric, read)
    return chosen


def schema_types(path: Path, schema: Any) -> dict[str, Any]:
    """Return the types of the columns of a schema by name; raise if a name is repeated."""
    try:
        names = list(schema.names)
    except UnicodeDecodeError as error:
        raise InvalidFile(path, "is damaged: the name of a column is not text in UTF-8") from error
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidFile(path, f"has more than one column named {repeated[0]!r}", "Rename one of them.")
    return dict(zip(names, schema.types, strict=True))


def first_values(batch: Any, names: Sequence[str]) -> dict[str, Array]:
    """Return the first values of some columns of a record batch, or no values if that is None."""
    if batch is None:
        return {name: np.empty(0) for name in names}
    return {name: to_numpy(batch.column(batch.schema.get_field_index(name))[:LEAST_IDS]) for name in names}


def stored_type(kinds: Iterable[Any]) -> np.dtype:
    """Return the type in which columns are written out: float32 if all fit, else float64, which has NaN."""
    needed = np.result_type(*(kind for kind in map(numpy_type, kinds) if kind is not None))
    return np.dtype(np.float32) if needed in (np.float16, np.float32) else np.dtype(np.float64)


def write_batches(
    source: FileSource,
    schema: Any,
    batches: Iterator[Any],
    columns: Sequence[str | int] | None,
    reading: Callable[[], AbstractContextManager[Any]],
) -> MatrixRows:
    """Write record batches to a temporary file, one after another, and return its rows.

    Errors of the next batch are raised within the context that `reading` returns.
    """
    types = schema_types(source.path, schema)
    with reading():
        batch = next(batches, None)
    first = batch
    chosen = choose_numeric(source.path, types, columns, lambda names: first_values(first, names))
    names = chosen.names or []
    dtype = stored_type(types[name] for name in names)
    file = create_file(source.path)
    n_rows = 0
    while batch is not None:
        with reading():
            batch.validate()
            block = np.empty((batch.num_rows, len(names)), dtype=dtype)
            for index, name in enumerate(names):
                block[:, index] = to_numpy(batch.column(batch.schema.get_field_index(name)))
        file.append(block)
        n_rows += batch.num_rows
        with reading():
            batch = next(batches, None)
    return MatrixRows(source, file, n_rows, chosen, dtype, stored=chosen.numbers)
