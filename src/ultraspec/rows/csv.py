"""Rows of CSV files, which cannot be read from the middle: the chosen columns are written out once as float64."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._checks import InvalidParameter, import_optional, warn_user
from ultraspec.rows.columns import Columns, check_numeric_columns
from ultraspec.rows.errors import HeaderGuessed, IndexGuessed, InvalidFile, NotNumeric, UnreadableFile
from ultraspec.rows.file_rows import Array, FileSource
from ultraspec.rows.file_state import FileState
from ultraspec.rows.raw_matrix import MatrixRows, create_file, report_written
from ultraspec.storage.temporary import TemporaryFile

# Sizes of the blocks that are parsed: the smallest that lines fit into, as pyarrow reads 32 blocks ahead.
BLOCK_BYTES = (2**20, 2**24, 2**28)
OTHER_DELIMITERS = ";\t| "
HINT_BYTES = 2**16  # examined of a file that cannot be read
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
DECIMAL_COMMA = re.compile(r'"?[-+]?\d*,\d+(?:[eE][-+]?\d+)?"?')


class CsvRows(MatrixRows):
    """Rows of a CSV file, which is read completely on opening.

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
    ) -> None:
        used_delimiter = delimiter or ("\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ",")
        if decimal == used_delimiter:
            hint = "Pass another delimiter, too."
            raise InvalidParameter("decimal", decimal, "different from the delimiter", hint=hint)
        for block_bytes in BLOCK_BYTES:
            try:
                table = _Table(path, used_delimiter, decimal or ".", block_bytes)
                chosen, file, n_rows = _write_out(table, columns, header)
                break
            except _LongLine as error:
                if block_bytes == BLOCK_BYTES[-1]:
                    raise InvalidFile(path, "has no lines of text, or too long ones", f"{error.__cause__}") from error
        if header is None and table.starts_with_numbers:
            header = chosen.names is not None  # the guess, for those who open the file again
        options = {"header": header, "delimiter": delimiter, "decimal": decimal}
        given = {name: value for name, value in options.items() if value is not None}
        super().__init__(FileSource(path, CsvRows, given), file, n_rows, chosen, np.float64, stored=chosen.numbers)


class _LongLine(Exception):
    """A line does not fit into a block."""


def _write_out(
    table: _Table, columns: Sequence[str | int] | None, header: bool | None
) -> tuple[Columns, TemporaryFile, int]:
    has_names = _has_names(table) if header is None else header
    chosen = _choose(columns, table.path, table.first_line, has_names)
    table.check_types(chosen)
    file, n_rows = table.write_out(chosen, skip_first=has_names)
    if columns is None and int(chosen.numbers[0]) == 1:
        warn_user(IndexGuessed(table.path))
    if header is None and _is_doubtful(table.first_line):
        line = ", ".join(table.first_line[:3]) + ", ..." * (len(table.first_line) > 3)
        warn_user(HeaderGuessed(table.path, line, has_names))
    return chosen, file, n_rows


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

    def __init__(self, path: Path, delimiter: str, decimal: str, block_bytes: int) -> None:
        self._csv: Any = import_optional("pyarrow.csv", "CSV files")
        self._arrow: Any = import_optional("pyarrow", "CSV files")
        self.path = path
        self._delimiter = delimiter
        self._decimal = decimal
        self._block_bytes = block_bytes
        self._state = FileState.of(path)
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
            check_numeric_columns(self.path, [labels[number] for number in chosen.numbers], types, numeric)
        except NotNumeric as error:
            hint, options = self._suggest()
            if options or hint:
                raise InvalidFile(self.path, "has columns without numbers", hint, options) from error
            raise

    def _is_numeric(self, kind: Any) -> bool:
        types = self._arrow.types
        return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)

    def write_out(self, chosen: Columns, *, skip_first: bool) -> tuple[TemporaryFile, int]:
        """Write the chosen columns to a temporary file; return it and the number of rows."""
        target = create_file(self.path)
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
        size = 0 if self.path.name.lower().endswith(".gz") else self.path.stat().st_size
        with reader:
            for count in itertools.count(1):
                with self._reading():
                    batch = next(iter(reader), None)
                if batch is None:
                    break
                target.append(_to_float64(batch))
                n_rows += batch.num_rows
                if size:
                    report_written(count * self._block_bytes / size)
        return target, n_rows

    def _open(self, convert: dict[str, Any] | None = None, **options: Any) -> Any:
        return self._csv.open_csv(
            str(self.path),
            read_options=self._csv.ReadOptions(use_threads=False, block_size=self._block_bytes, **options),
            parse_options=self._csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=self._csv.ConvertOptions(decimal_point=self._decimal, **(convert or {})),
        )

    def _refuse_utf_16(self) -> None:
        start = self._start()[:200]
        if start.startswith(UTF_16) or b"\0" in start:
            raise self._not_utf_8("is not text in UTF-8, but in UTF-16 or no text at all", "UTF-16")

    def _start(self) -> bytes:
        """Return the first bytes of the text."""
        compressed = self.path.name.lower().endswith(".gz")
        try:
            with gzip.open(self.path) if compressed else open(self.path, "rb") as file:
                return file.read(HINT_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile):  # pyarrow will report it
            return b""

    def _not_utf_8(self, reason: str, encoding: str) -> InvalidFile:
        command = f"iconv -f {encoding} -t UTF-8 {self.path.name} > utf8.csv"
        return InvalidFile(self.path, reason, f"Save it as UTF-8 first, for example: {command}")

    def _suggest(self) -> tuple[str, dict[str, str]]:
        """Return a hint, or options with which the file may be a table of numbers; both may be empty."""
        lines = [line for line in self._start().decode("utf-8", "replace").splitlines()[:50] if line.strip()]
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
            self._state.check()
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
            self._state.check()
            raise UnreadableFile(self.path, "a CSV file", str(error)) from error
        self._state.check()


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
