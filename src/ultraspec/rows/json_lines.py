"""Rows of JSON lines: an object on each line, whose keys are the columns. They are written out once as float64."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ultraspec._checks import import_optional
from ultraspec.rows.arrow_columns import write_batches
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.file_rows import FileRows, FileSource
from ultraspec.rows.file_state import reading
from ultraspec.rows.raw_matrix import report_written
from ultraspec.rows.text_files import TextFile, compressed

SUFFIXES = compressed(".jsonl", ".ndjson")
KIND = "JSON lines"
BLOCK_BYTES = 2**23  # parsed at once
MOST_LINE = 2**28


def open_json_lines(path: Path, columns: Sequence[str | int] | None) -> FileRows:
    """Open a file of JSON lines."""
    text = TextFile(path)
    source = FileSource(path, open_json_lines, batches=partial(json_batches, text))
    batches = json_batches(text)
    first = next(batches, None)
    if first is None:
        raise InvalidFile(path, "has no lines")

    def again() -> Iterator[Any]:
        yield first
        yield from batches

    return write_batches(source, first.schema, again(), columns, partial(_reading, text))


def _reading(text: TextFile) -> Any:
    arrow: Any = import_optional("pyarrow", KIND)
    return reading(text.path, KIND, OSError, ValueError, arrow.ArrowException)


def json_batches(text: TextFile) -> Iterator[Any]:
    """Yield record batches of all columns. Those of the first block are the columns, and numbers are float64."""
    arrow: Any = import_optional("pyarrow", KIND)
    json: Any = import_optional("pyarrow.json", KIND)
    schema = None
    done = 0
    for block in _blocks(text):
        with _reading(text):
            options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
            read = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
            if schema is not None:
                options.unexpected_field_behavior = "ignore"
            table = json.read_json(io.BytesIO(block), read_options=read, parse_options=options)
            if schema is None:  # fractions may follow in a column of integers, and any number in an empty one
                types = arrow.types
                fields = [
                    (name, arrow.float64() if types.is_integer(kind) or types.is_null(kind) else kind)
                    for name, kind in zip(table.schema.names, table.schema.types, strict=True)
                ]
                schema = arrow.schema(fields)
            table = table.select(schema.names).cast(schema)
        text.check()
        yield from table.combine_chunks().to_batches()
        done += len(block)
        if text.size:
            report_written(done / text.size)


def _blocks(text: TextFile) -> Iterator[bytes]:
    """Yield blocks of complete lines."""
    rest = b""
    with _reading(text):
        stream = text.open()
    with stream:
        while True:
            with _reading(text):
                data = stream.read(BLOCK_BYTES)
            if not data:
                break
            lines, newline, rest = (rest + data).rpartition(b"\n")
            if len(rest) > MOST_LINE:
                raise InvalidFile(text.path, "has no lines of text, or too long ones")
            if lines.strip():
                yield lines + newline
    if rest.strip():
        yield rest + b"\n"
