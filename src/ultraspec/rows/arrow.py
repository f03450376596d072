"""Rows of Arrow files (IPC, Feather): record batches are decoded; those of a stream are written out once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import import_optional
from ultraspec.rows.arrow_columns import choose_numeric, first_values, numpy_type, schema_types, to_numpy, write_batches
from ultraspec.rows.chunked import CHUNK_BYTES, MOST_CHUNK_BYTES, ChunkedRows
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.file_state import FileState, reading

KIND = "an Arrow file"
FILE_MAGIC = b"ARROW1"
OLD_FEATHER = b"FEA1"
STREAM_MAGIC = b"\xff\xff\xff\xff"


def open_arrow(path: Path, columns: Sequence[str | int] | None) -> FileRows:
    """Open a file in one of the formats of Arrow: with a footer (Feather, too), or a stream of record batches."""
    with open(path, "rb") as file:
        start = file.read(6)
    if start.startswith(OLD_FEATHER):
        raise InvalidFile(
            path, "is a Feather file of version 1, which is no longer read", "Write it again as version 2."
        )
    state = FileState.of(path)
    if start.startswith(STREAM_MAGIC):
        source = FileSource(path, open_arrow, batches=partial(_stream_batches, state))
        schema = _schema(state, stream=True)
        return write_batches(source, schema, _stream_batches(state), columns, partial(_reading, state))
    types = schema_types(path, _schema(state, stream=False))
    chosen = choose_numeric(path, types, columns, partial(_first_rows, state))
    source = FileSource(path, open_arrow, batches=partial(_file_batches, state))
    names = chosen.names or []
    lengths = _batch_lengths(state, list(types).index(names[0]))
    dtype = np.result_type(*(numpy_type(types[name]) for name in names))
    if max(lengths, default=0) * len(types) * dtype.itemsize > MOST_CHUNK_BYTES:
        schema = _schema(state, stream=False)
        return write_batches(source, schema, _file_batches(state), columns, partial(_reading, state))
    return ArrowRows(source, state, lengths, chosen, dtype)


def _reading(state: FileState) -> Any:
    arrow: Any = import_optional("pyarrow", "Arrow files")
    return state.reading(KIND, OSError, ValueError, arrow.ArrowException)


class _Opened:
    """An open Arrow file; not memory-mapped, as a file that others truncate would end the process."""

    def __init__(self, state: FileState, *, stream: bool = False, fields: Sequence[int] | None = None) -> None:
        arrow: Any = import_optional("pyarrow", "Arrow files")
        ipc: Any = import_optional("pyarrow.ipc", "Arrow files")
        options = ipc.IpcReadOptions(included_fields=None if fields is None else list(fields), use_threads=False)
        self._file = arrow.OSFile(str(state.path))
        try:
            self.reader = (ipc.open_stream if stream else ipc.open_file)(self._file, options=options)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Any:
        return self.reader

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()


def _schema(state: FileState, *, stream: bool) -> Any:
    with _reading(state), _Opened(state, stream=stream) as reader:
        return reader.schema


def _first_rows(state: FileState, names: Sequence[str]) -> dict[str, Array]:
    with _reading(state), _Opened(state) as reader:
        return first_values(reader.get_batch(0) if reader.num_record_batches else None, names)


def _batch_lengths(state: FileState, field: int) -> list[int]:
    """Return the number of rows of each record batch; one field is enough for that."""
    with _reading(state), _Opened(state, fields=[field]) as reader:
        return [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)]


def _file_batches(state: FileState) -> Iterator[Any]:
    """Yield the record batches of a file with a footer."""
    with _Opened(state) as reader:
        for number in range(reader.num_record_batches):
            with _reading(state):
                batch = reader.get_batch(number)
            yield batch


def _stream_batches(state: FileState) -> Iterator[Any]:
    """Yield the record batches of a stream."""
    with _Opened(state, stream=True) as reader:
        while True:
            with _reading(state):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch


def read_arrow_pipe(path: Path, source: FileSource, stream: Any, columns: Sequence[str | int] | None) -> FileRows:
    """Write a stream of record batches out while it is read from a pipe."""
    arrow: Any = import_optional("pyarrow", "Arrow streams")
    ipc: Any = import_optional("pyarrow.ipc", "Arrow streams")
    errors = OSError, ValueError, arrow.ArrowException
    with reading(path, "an Arrow stream", *errors):
        reader = ipc.open_stream(stream)
    return write_batches(
        source, reader.schema, iter(reader), columns, partial(reading, path, "an Arrow stream", *errors)
    )


class ArrowRows(ChunkedRows):
    """Rows of an Arrow file. A chunk is a record batch, or several small consecutive ones."""

    def __init__(
        self, source: FileSource, state: FileState, lengths: Sequence[int], columns: Columns, dtype: np.dtype
    ) -> None:
        self._state = state
        self._batches: list[list[int]] = []
        row_bytes = max(1, len(columns.numbers) * dtype.itemsize)
        bounds = [0]
        chunk_rows = 0
        for number, n_rows in enumerate(lengths):
            if n_rows == 0:
                continue
            if chunk_rows and (chunk_rows + n_rows) * row_bytes <= CHUNK_BYTES:
                self._batches[-1].append(number)
                chunk_rows += n_rows
                bounds[-1] += n_rows
            else:
                self._batches.append([number])
                chunk_rows = n_rows
                bounds.append(bounds[-1] + n_rows)
        super().__init__(source, bounds, columns, dtype)

    def _decode(self, number: int, columns: slice, buffer: Array) -> Array:
        fields = sorted(self._columns.numbers[columns].tolist())
        names = (self.names or [])[columns]
        low = 0
        with _reading(self._state), _Opened(self._state, fields=fields) as reader:
            for batch_number in self._batches[number]:
                batch = reader.get_batch(batch_number)
                batch.validate()
                high = low + batch.num_rows
                for index, name in enumerate(names):
                    values = to_numpy(batch.column(batch.schema.get_field_index(name)))
                    if values.dtype.kind == "f" and buffer.dtype.kind != "f":
                        buffer = buffer.astype(np.float64)  # for NaN
                    buffer[low:high, index] = values
                low = high
        return buffer
