"""Write columns of numbers to files, block by block: .npy, .npz, .csv and .parquet.

A writer takes blocks of all columns, in order, and holds at most one row group in memory.
"""

from __future__ import annotations

import io
import itertools
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ultraspec._checks import import_optional
from ultraspec.cli._errors import naming_output
from ultraspec.cli._outputs import warn_if_aside
from ultraspec.storage.atomic import write_atomically

Array = npt.NDArray[Any]
Types = Mapping[str, npt.DTypeLike]

GROUP_ROWS = 2**20  # of a row group in a Parquet file


def write_columns(path: Path, n_rows: int, types: Types, blocks: Iterable[tuple[Array, ...]], *, force: bool) -> Path:
    """Write a file of columns; if that fails, no file is left.

    The suffix is the format; a .npy file gets the first column only. `types` are those of the columns, by name. Each of
    the `blocks` has all columns of some rows; together they have `n_rows` rows. With `force`, an existing
    file is replaced; otherwise the new file gets another name, with a warning. Return its path.
    """

    def fill(file: BinaryIO) -> None:
        with open_writer(path, file, n_rows, types) as write:
            for block in blocks:
                write(*block)

    with naming_output(path, only_if_full=True):  # closing a file that could not be written fails once more
        written = write_atomically(path, fill, overwrite=force, aside=True)
    warn_if_aside(path, written)
    return written


def write_with_input(path: Path, rows: Any, types: Types, blocks: Iterable[tuple[Array, ...]], *, force: bool) -> Path:
    """Write the columns of the input, and those of the `blocks` behind them, see `write_columns`."""
    tables = join_columns(input_batches(rows), types, blocks, path)

    def fill(file: BinaryIO) -> None:
        first = next(tables)
        writer: Any
        if path.suffix.lower() == ".csv":
            csv: Any = import_optional("pyarrow.csv", "CSV files")
            writer = csv.CSVWriter(_OpenFile(file), first.schema)
        else:
            parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
            writer = parquet.ParquetWriter(_OpenFile(file), first.schema, compression="zstd")
        try:
            for table in itertools.chain([first], tables):
                with naming_output(path):
                    writer.write_table(table)
            with naming_output(path):
                writer.close()
                file.flush()
        finally:
            if hasattr(writer, "is_open"):
                writer.is_open = False  # otherwise it would write to the closed file when it is deleted

    with naming_output(path, only_if_full=True):
        written = write_atomically(path, fill, overwrite=force, aside=True)
    warn_if_aside(path, written)
    return written


def input_batches(rows: Any) -> Iterator[Any]:
    """Yield the rows of the input with all of its columns as record batches; those of arrays are called x0, x1, ..."""
    batches = rows.batches() if hasattr(rows, "batches") else None
    if batches is not None:
        yield from batches
        return
    arrow: Any = import_optional("pyarrow", "tables")
    if rows.sparse:
        raise ValueError("--with-input needs columns, but the rows are a sparse matrix. Leave it out.")
    names = rows.names or [f"x{number}" for number in range(rows.n_features)]
    for span in rows.blocks():
        yield arrow.RecordBatch.from_arrays([arrow.array(column) for column in rows.read(*span).T.copy()], names)


def check_input_columns(path: Path, rows: Any, names: Iterable[str]) -> None:
    """Raise before the work starts if columns of the input cannot be written together with columns of these names."""
    arrow: Any = import_optional("pyarrow", "tables")
    first = next(iter(input_batches(rows)))
    for name, kind in zip(first.schema.names, first.schema.types, strict=True):
        if name in names:
            raise ValueError(
                f"--with-input: the input has a column {name!r} itself. Rename it, or leave --with-input out."
            )
        if path.suffix.lower() == ".csv" and (arrow.types.is_nested(kind) or arrow.types.is_binary(kind)):
            raise ValueError(f"--with-input: column {name!r} ({kind}) cannot be text. Write a .parquet file.")


def join_columns(
    batches: Iterator[Any], types: Types, blocks: Iterable[tuple[Array, ...]], path: Path
) -> Iterator[Any]:
    """Yield tables of the input and the columns of `blocks`; dictionaries become their values."""
    arrow: Any = import_optional("pyarrow", "tables")
    rest: Any = None
    for block in blocks:
        missing = len(block[0])
        parts = []
        while missing:
            if rest is None or rest.num_rows == 0:
                rest = next(batches, None)
                if rest is None:
                    raise OSError(f"The input has fewer rows than before, so {path} was not written.")
                continue
            parts.append(rest.slice(0, missing))
            rest = rest.slice(parts[-1].num_rows)
            missing -= parts[-1].num_rows
        if not parts:
            continue
        table = arrow.Table.from_batches(parts)
        for index, kind in enumerate(table.schema.types):
            if arrow.types.is_dictionary(kind):
                column = table.column(index).cast(kind.value_type)
                table = table.set_column(index, table.schema.names[index], column)
        for (name, kind), column in zip(types.items(), block, strict=True):
            table = table.append_column(name, arrow.array(np.ascontiguousarray(column, dtype=kind)))
        yield table


@contextmanager
def open_writer(
    path: Path, file: BinaryIO, n_rows: int, types: Types, *, matrix: bool = False
) -> Iterator[Callable[..., None]]:
    """Yield a function that appends a block of columns to an open file, which will be named `path`.

    If `matrix`, a .npy file gets all columns, as a 2-d array. See `write_columns`.
    """
    suffix = path.suffix.lower()
    with naming_output(path):
        if suffix == ".npy":
            sink: _Sink = _Npy(file, n_rows, types, matrix)
        elif suffix == ".npz":
            sink = _Npz(path, file, n_rows, types)
        else:
            sink = _Csv(file, types) if suffix == ".csv" else _Parquet(file, types)
    written = 0

    def write(*columns: Array) -> None:
        nonlocal written
        with naming_output(path):
            sink.write(columns)
        written += len(columns[0])

    try:
        yield write
        if written != n_rows:
            raise RuntimeError(f"{written} of {n_rows} rows were written to {path}")
        with naming_output(path):
            sink.finish()
            file.flush()  # a full disk may show itself only now
    finally:
        sink.drop()


class _Sink(ABC):
    """A file that is being written."""

    @abstractmethod
    def write(self, columns: tuple[Array, ...]) -> None:
        """Write a block of rows."""

    def finish(self) -> None:  # noqa: B027 - not all formats need it
        """Complete the file."""

    def drop(self) -> None:  # noqa: B027
        """Release all resources, whether the file is complete or not."""


class _Npy(_Sink):
    def __init__(self, file: BinaryIO, n_rows: int, types: Types, matrix: bool) -> None:
        self._file = file
        self._matrix = matrix
        self._dtype = np.dtype(next(iter(types.values())))
        _write_header(file, (n_rows, len(types)) if matrix else (n_rows,), self._dtype)

    def write(self, columns: tuple[Array, ...]) -> None:
        block = np.column_stack(columns) if self._matrix else columns[0]
        self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data)


class _Npz(_Sink):
    """An archive takes one array after another, so all columns but the first wait in temporary files beside it."""

    def __init__(self, path: Path, file: BinaryIO, n_rows: int, types: Types) -> None:
        self._n_rows = n_rows
        self._types = {name: np.dtype(kind) for name, kind in types.items()}
        self._archive = zipfile.ZipFile(file, "w")
        self._first = self._member(next(iter(types)))
        self._waiting = [tempfile.TemporaryFile(dir=path.parent) for _ in range(len(types) - 1)]  # noqa: SIM115

    def _member(self, name: str) -> Any:
        stream = self._archive.open(f"{name}.npy", "w", force_zip64=True)
        _write_header(stream, (self._n_rows,), self._types[name])
        return stream

    def write(self, columns: tuple[Array, ...]) -> None:
        streams = [self._first, *self._waiting]
        for stream, column, kind in zip(streams, columns, self._types.values(), strict=True):
            stream.write(np.ascontiguousarray(column, dtype=kind).data)

    def finish(self) -> None:
        self._first.close()
        for name, values in zip(list(self._types)[1:], self._waiting, strict=True):
            values.seek(0)
            with self._member(name) as stream:
                shutil.copyfileobj(values, stream, 2**20)
        self._archive.close()

    def drop(self) -> None:
        for values in self._waiting:
            values.close()
        # Neither the archive nor its open member may complete a file that was abandoned.
        io.BufferedIOBase.close(self._first)
        self._archive.fp = None


class _Csv(_Sink):
    def __init__(self, file: BinaryIO, types: Types) -> None:
        csv: Any = import_optional("pyarrow.csv", "CSV files")
        file.write((",".join(types) + "\n").encode())
        self._schema = _schema(types)
        options = csv.WriteOptions(include_header=False)
        self._writer = csv.CSVWriter(_OpenFile(file), self._schema, write_options=options)

    def write(self, columns: tuple[Array, ...]) -> None:
        self._writer.write(_table(self._schema, columns))

    def finish(self) -> None:
        self._writer.close()


class _Parquet(_Sink):
    def __init__(self, file: BinaryIO, types: Types) -> None:
        parquet: Any = import_optional("pyarrow.parquet", "Parquet files")
        self._schema = _schema(types)
        self._writer = parquet.ParquetWriter(_OpenFile(file), self._schema, compression="zstd")
        self._blocks: list[tuple[Array, ...]] = []
        self._n_rows = 0

    def write(self, columns: tuple[Array, ...]) -> None:
        self._blocks.append(columns)
        self._n_rows += len(columns[0])
        if self._n_rows >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        columns = tuple(np.concatenate(parts) for parts in zip(*self._blocks, strict=True))
        self._blocks = []
        self._n_rows = 0
        self._writer.write_table(_table(self._schema, columns), row_group_size=len(columns[0]))

    def finish(self) -> None:
        if self._n_rows:
            self._write_group()
        self._writer.close()

    def drop(self) -> None:
        self._writer.is_open = False  # otherwise it would write to the closed file when it is deleted


class _OpenFile:
    """A file that pyarrow can write to but not close."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        """Do nothing: the owner closes the file."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _schema(types: Types) -> Any:
    pyarrow: Any = import_optional("pyarrow", "tables")
    return pyarrow.schema([(name, pyarrow.from_numpy_dtype(np.dtype(kind))) for name, kind in types.items()])


def _table(schema: Any, columns: tuple[Array, ...]) -> Any:
    pyarrow: Any = import_optional("pyarrow", "tables")
    arrays = [
        np.ascontiguousarray(c, dtype=kind.to_pandas_dtype()) for c, kind in zip(columns, schema.types, strict=True)
    ]
    return pyarrow.table(arrays, schema=schema)


def _write_header(stream: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
