"""Rows of CSV files, which cannot be read from the middle: the chosen columns are written out once as float64."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import InvalidParameter, import_optional, join_names, warn_user
from ultraspec.rows.columns import Columns, check_numeric_columns
from ultraspec.rows.errors import (
    HeaderGuessed,
    InconsistentFiles,
    IndexGuessed,
    InvalidFile,
    NotNumeric,
    UnreadableFile,
)
from ultraspec.rows.file_rows import Array, FileSource
from ultraspec.rows.folders import find_parts
from ultraspec.rows.pipes import refuse_pipe
from ultraspec.rows.raw_matrix import MatrixRows, create_file, report_written
from ultraspec.rows.text_files import TextFile, compressed
from ultraspec.storage.temporary import TemporaryFile

SUFFIXES = compressed(".csv", ".tsv", ".txt")
PARTS = compressed(".csv", ".tsv")  # in folders, where .txt files may be notes
# Sizes of the blocks that are parsed: the smallest that lines fit into, as pyarrow reads 32 blocks ahead.
BLOCK_BYTES = (2**20, 2**24, 2**28)
OTHER_DELIMITERS = ";\t| "
HINT_BYTES = 2**16  # examined of a file that cannot be read
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
DECIMAL_COMMA = re.compile(r'"?[-+]?\d*,\d+(?:[eE][-+]?\d+)?"?')


class CsvRows(MatrixRows):
    """Rows of a CSV file, or of a folder of them, which are read completely on opening.

    Values are stored as float64, which holds every number as exactly as the estimators use it. The temporary file has
    8 bytes per value of the chosen columns.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str | int] | None,
        *,
        header: bool | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
        pipe: TextFile | None = None,
    ) -> None:
        texts = [TextFile(part) for part in find_parts(path, PARTS)] if path.is_dir() else [pipe or TextFile(path)]
        used_delimiter = delimiter or guess_delimiter(texts[0])
        if decimal == used_delimiter:
            hint = "Pass another delimiter, too."
            raise InvalidParameter("decimal", decimal, "different from the delimiter", hint=hint)
        target = create_file(path)
        n_rows = 0
        first: tuple[_Table, Columns] | None = None
        for text in texts:
            table, chosen, n_part = _write_part(text, used_delimiter, decimal or ".", columns, header, first, target)
            n_rows += n_part
            if first is None:
                first = table, chosen
                if header is None and table.starts_with_numbers:
                    header = chosen.names is not None  # the guess, for the other files and those who open them again
        assert first is not None
        table, chosen = first
        options = {"header": header, "delimiter": delimiter, "decimal": decimal}
        given = {name: value for name, value in options.items() if value is not None}
        batches = partial(
            csv_batches, texts, used_delimiter, decimal or ".", table.block_bytes, chosen.names is not None
        )
        source = FileSource(path, CsvRows if pipe is None else refuse_pipe, given, batches)
        super().__init__(source, target, n_rows, chosen, np.float64, stored=chosen.numbers)


def is_csv_folder(folder: Path) -> bool:
    """Return whether a folder has CSV files in it."""
    return bool(find_parts(folder, PARTS))


def guess_delimiter(text: TextFile) -> str:
    """Return the usual delimiter of a file of this name; that of a .txt file is what separates its first lines."""
    if text.plain_name.endswith(".tsv"):
        return "\t"
    if not text.plain_name.endswith(".txt"):
        return ","
    lines = [line for line in text.start(HINT_BYTES).decode("utf-8", "replace").splitlines()[:50] if line.strip()]
    for delimiter in ("\t", ",", ";", "|", " "):
        counts = {line.strip().count(delimiter) for line in lines[:-1] or lines}
        if len(counts) == 1 and counts != {0}:
            return delimiter
    return ","


def _write_part(
    text: TextFile,
    delimiter: str,
    decimal: str,
    columns: Sequence[str | int] | None,
    header: bool | None,
    first: tuple[_Table, Columns] | None,
    target: TemporaryFile,
) -> tuple[_Table, Columns, int]:
    """Append the rows of a file to `target`, in blocks as large as its lines need; return their number, too.

    The columns are those of the `first` file of a folder.
    """
    end = target.end
    for block_bytes in BLOCK_BYTES:
        try:
            table = _Table(text, delimiter, decimal, block_bytes)
            if first is None:
                chosen, n_rows = _write_out(table, columns, header, target)
            else:
                chosen, n_rows = _write_more(table, *first, target, all_columns=columns is None)
            return table, chosen, n_rows
        except _LongLine as error:
            target.end = end
            if block_bytes == BLOCK_BYTES[-1]:
                raise InvalidFile(text.path, "has no lines of text, or too long ones", f"{error.__cause__}") from error
    raise AssertionError


def _write_more(
    table: _Table, first: _Table, chosen: Columns, target: TemporaryFile, *, all_columns: bool
) -> tuple[Columns, int]:
    """Write a further file of a folder: the columns that were chosen from the first one."""
    a, b = first.path, table.path
    if chosen.names is None:
        if len(table.first_line) != len(first.first_line):
            counts = f"{a} has {len(first.first_line)} and {b} has {len(table.first_line)}"
            raise InconsistentFiles((a, b), [], counts)
        other = chosen
    else:
        missing = [name for name in chosen.names if name not in table.first_line]
        extra = [name for name in table.first_line if name not in first.first_line] if all_columns else []
        if missing or extra:
            has, has_not = (a, b) if missing else (b, a)
            difference = f"{has} has {join_names(missing or extra)} and {has_not} has not"
            raise InconsistentFiles((a, b), missing or extra, difference)
        every = Columns.choose(None, b, len(table.first_line), table.first_line)
        other = every.pick(chosen.names, b)
    table.check_types(other)
    return other, table.write_out(other, target, skip_first=chosen.names is not None)


def csv_batches(
    texts: Sequence[TextFile], delimiter: str, decimal: str, block_bytes: int, has_names: bool
) -> Iterator[Any]:
    """Yield record batches of all columns, with the types of the first block of the first file."""
    schema = None
    for text in texts:
        table = _Table(text, delimiter, decimal, block_bytes)
        for batch in table.batches(schema, has_names=has_names):
            schema = batch.schema
            yield batch


class _LongLine(Exception):
    """A line does not fit into a block."""


def _write_out(
    table: _Table, columns: Sequence[str | int] | None, header: bool | None, target: TemporaryFile
) -> tuple[Columns, int]:
    has_names = _has_names(table) if header is None else header
    chosen = _choose(columns, table.path, table.first_line, has_names)
    table.check_types(chosen)
    n_rows = table.write_out(chosen, target, skip_first=has_names)
    if columns is None and int(chosen.numbers[0]) == 1:
        warn_user(IndexGuessed(table.path))
    if header is None and _is_doubtful(table.first_line):
        line = ", ".join(table.first_line[:3]) + ", ..." * (len(table.first_line) > 3)
        warn_user(HeaderGuessed(table.path, line, has_names))
    return chosen, n_rows


def _is_doubtful(first_line: list[str]) -> bool:
    """Return whether a first line could be names as well as values: distinct integers."""
    return len(set(first_line)) == len(first_line) and all(map(str.isdecimal, filter(None, first_line)))


def _has_names(table: _Table) -> bool:
    """Return whether a first line is names: not all numbers, or 0, 1, 2, ..., which pandas writes for no names."""
    named = table.first_line[1:] if table.first_line[0] == "" else table.first_line
    return named == [str(number) for number in range(len(named))] or not table.starts_with_numbers


def _is_number(text: str, decimal: str) -> bool:
    try:
        float(text.replace(decimal, ".") or "nan")  # an empty field is a missing number
    except ValueError:
        return False
    return True


def _choose(columns: Sequence[str | int] | None, path: Path, first_line: list[str], has_names: bool) -> Columns:
    every = Columns.choose(None, path, len(first_line), first_line if has_names else None)
    if columns is not None:
        return every.pick(columns, path)
    if not has_names:
        return every
    pandas_index = first_line[0] == "" and len(first_line) > 1
    return every.pick(first_line[1:] if pandas_index else first_line, path)


class _Table:
    """A CSV file as pyarrow reads it; `first_line` are the fields of its first line."""

    def __init__(self, text: TextFile, delimiter: str, decimal: str, block_bytes: int) -> None:
        self._csv: Any = import_optional("pyarrow.csv", "CSV files")
        self._arrow: Any = import_optional("pyarrow", "CSV files")
        self.path = text.path
        self.block_bytes = block_bytes
        self._text = text
        self._delimiter = delimiter
        self._decimal = decimal
        self._refuse_utf_16()
        with self._reading(), self._open() as reader:
            self.first_line = [str(name) for name in reader.schema.names]
            self._types = list(reader.schema.types)  # inferred from the first block

    @property
    def starts_with_numbers(self) -> bool:
        """Whether the first line holds numbers only."""
        return all(_is_number(value, self._decimal) for value in self.first_line)

    def check_types(self, chosen: Columns) -> None:
        """Raise if chosen columns hold no numbers."""
        labels = self.first_line if chosen.names is not None else [f"{i}" for i in range(len(self.first_line))]
        types = dict(zip(labels, self._types, strict=True))
        numeric = [label for label, kind in zip(labels, self._types, strict=True) if self._is_numeric(kind)]
        try:
            named = [labels[number] for number in chosen.numbers]
            check_numeric_columns(self.path, named, types, numeric, partial(self._first_rows, labels))
        except NotNumeric as error:
            hint, options = self._suggest()
            if options or hint:
                raise InvalidFile(self.path, "has columns without numbers", hint, options) from error
            raise

    def _first_rows(self, labels: list[str], names: Sequence[str]) -> dict[str, Array]:
        """Return the first values of some columns, given the labels of all."""
        with self._reading(), self._open() as reader:
            batch = next(iter(reader), None)
        columns = {} if batch is None else dict(zip(labels, batch.columns, strict=True))
        return {name: columns[name].to_numpy(zero_copy_only=False) if columns else np.empty(0) for name in names}

    def _is_numeric(self, kind: Any) -> bool:
        types = self._arrow.types
        return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)

    def write_out(self, chosen: Columns, target: TemporaryFile, *, skip_first: bool) -> int:
        """Append the chosen columns to a temporary file; return the number of rows."""
        n_rows = 0
        # by number, as names may be missing or repeated
        names = [str(number) for number in range(len(self.first_line))]
        included = [str(number) for number in chosen.numbers]
        # fractions may follow in a column of integers, and any number in an empty one
        float64 = self._arrow.float64()
        is_boolean = self._arrow.types.is_boolean
        types = {name: kind if is_boolean(kind := self._types[int(name)]) else float64 for name in included}
        convert = {"include_columns": included, "column_types": types}
        with self._reading():
            reader = self._open(convert, column_names=names, skip_rows_after_names=int(skip_first))
        with reader:
            for count in itertools.count(1):
                with self._reading():
                    batch = next(iter(reader), None)
                if batch is None:
                    break
                target.append(_to_float64(batch))
                n_rows += batch.num_rows
                if self._text.size:
                    report_written(count * self.block_bytes / self._text.size)
        return n_rows

    def batches(self, schema: Any, *, has_names: bool) -> Iterator[Any]:
        """Yield record batches of all columns, as `schema` says or with the types of the first block."""
        convert = {} if schema is None else {"include_columns": schema.names, "column_types": schema}
        names = None if has_names else [f"x{number}" for number in range(len(self.first_line))]
        with self._reading():
            reader = self._open(convert, column_names=names)
        with reader:
            while True:
                with self._reading():
                    batch = next(iter(reader), None)
                if batch is None:
                    return
                yield batch

    def _open(self, convert: dict[str, Any] | None = None, **options: Any) -> Any:
        return self._csv.open_csv(
            self._text.open(),
            read_options=self._csv.ReadOptions(use_threads=False, block_size=self.block_bytes, **options),
            parse_options=self._csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=self._csv.ConvertOptions(decimal_point=self._decimal, **(convert or {})),
        )

    def _refuse_utf_16(self) -> None:
        start = self._text.start(200)
        if start.startswith(UTF_16) or b"\0" in start:
            raise self._not_utf_8("is not text in UTF-8, but in UTF-16 or no text at all", "UTF-16")

    def _not_utf_8(self, reason: str, encoding: str) -> InvalidFile:
        command = f"iconv -f {encoding} -t UTF-8 {self.path.name} > utf8.csv"
        return InvalidFile(self.path, reason, f"Save it as UTF-8 first, for example: {command}")

    def _suggest(self) -> tuple[str, dict[str, str]]:
        """Return a hint, or options with which the file may be a table of numbers; both may be empty."""
        lines = [
            line for line in self._text.start(HINT_BYTES).decode("utf-8", "replace").splitlines()[:50] if line.strip()
        ]
        comments = [line for line in lines if line.startswith(("#", "%"))]
        if comments:
            command = f"grep -v '^{comments[0][0]}' {self.path.name} > plain.csv"
            line = repr(_printable(comments[0], 40))
            return f"CSV has no comments, but {line} looks like one. Remove such lines, for example: {command}", {}
        for delimiter in (self._delimiter, *OTHER_DELIMITERS):
            counts = {line.count(delimiter) for line in lines}
            if len(counts) != 1 or counts == {0}:
                continue  # it does not separate values
            options = {"delimiter": delimiter} if delimiter != self._delimiter else {}
            values = itertools.chain.from_iterable(line.split(delimiter) for line in lines)
            has_decimal_comma = any(DECIMAL_COMMA.fullmatch(value.strip()) for value in values)
            if delimiter != "," and self._decimal != "," and has_decimal_comma:
                return "", {**options, "decimal": ","}
            if options and self._delimiter not in lines[0]:
                return "", options
        return "", {}

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of pyarrow into errors that name the file, and the column if its values are not numbers."""
        try:
            yield
        except ValueError as error:
            self._text.check()
            # errors of pyarrow differ in nothing but their text
            place = re.search(r"column #(\d+): (?:Row #\d+: )?CSV conversion error", str(error))
            if place is not None:
                name = self.first_line[int(place[1])]
                reason = f"has a column {name!r} that must hold numbers, but only part of its values are"
                raise InvalidFile(self.path, reason, str(error)) from error
            if isinstance(error, UnicodeDecodeError):
                byte = error.object[error.start]
                reason = f"is not text in UTF-8 ({error.reason}, byte {byte:#x})"
                raise self._not_utf_8(reason, "LATIN1") from error
            if re.search("straddl|Empty CSV file or block", str(error)):
                raise _LongLine from error
            reason = f"cannot be read as a CSV file. {_printable(error, 200)}"
            raise InvalidFile(self.path, reason, *self._suggest()) from error
        except OSError as error:
            self._text.check()
            raise UnreadableFile(self.path, "a CSV file", str(error)) from error
        self._text.check()


def _printable(text: object, most: int) -> str:
    """Return text of a file without control characters, truncated to `most` characters."""
    shown = "".join(character if character.isprintable() else " " for character in str(text))
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def _to_float64(batch: Any) -> Array:
    """Return a record batch as float64; missing values become NaN."""
    out = np.empty((batch.num_rows, batch.num_columns), dtype=np.float64)
    for index, column in enumerate(batch.columns):
        out[:, index] = column.cast("float64").to_numpy(zero_copy_only=False)
    return out
