"""Rows of CSV files, which have no way into their middle: the chosen columns are written out once as float64."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec.rows._file import Array, Columns, Stamp, need, refuse_non_numbers
from ultraspec.rows._matrix import MatrixRows, OpenFile
from ultraspec.rows._temporary import TemporaryFile

BLOCK_BYTES = (2**20, 2**24, 2**28)  # parsed at once: the least that lines fit into, as pyarrow reads 32 blocks ahead
OTHER_DELIMITERS = ";\t|"


class CsvRows(MatrixRows):
    """Rows of a CSV file, read through once on opening.

    Values are kept as float64, which holds every number as exactly as the estimators use it. The temporary file has 8
    bytes per value of the chosen columns.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str | int] | None,
        *,
        header: bool | None = None,
        delimiter: str | None = None,
    ) -> None:
        sign = delimiter or ("\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ",")
        for block_bytes in BLOCK_BYTES:
            try:
                chosen, file, n_rows = _write_out(_Table(path, sign, block_bytes), columns, header)
                break
            except _LongLineError as error:
                if block_bytes == BLOCK_BYTES[-1]:
                    raise ValueError(f"{path} has no lines of text, or too long ones. {error.__cause__}") from error
        options = {"header": header, "delimiter": delimiter}
        given = {name: value for name, value in options.items() if value is not None}
        super().__init__(path, file, n_rows, chosen, np.float64, stored=chosen.numbers, options=given)


class _LongLineError(ValueError):
    """A line does not fit into a block."""


def _write_out(
    table: _Table, columns: Sequence[str | int] | None, header: bool | None
) -> tuple[Columns, OpenFile, int]:
    has_names = _has_names(table.first_line) if header is None else header
    chosen = _choose(columns, table.path, table.first_line, has_names)
    table.check_types(chosen)
    return chosen, *table.write_out(chosen, skip_first=has_names)


def _has_names(first_line: list[str]) -> bool:
    """Whether a first line is names: not all numbers, or the 0, 1, 2, ... that pandas gives columns without names."""
    named = first_line[1:] if first_line[0] == "" else first_line
    return named == [str(number) for number in range(len(named))] or not all(map(_is_number, first_line))


def _is_number(text: str) -> bool:
    try:
        float(text or "nan")  # an empty field is a missing number
    except ValueError:
        return False
    return True


def _choose(wanted: Sequence[str | int] | None, path: Path, first_line: list[str], has_names: bool) -> Columns:
    every = Columns.choose(None, path, len(first_line), first_line if has_names else None)
    if wanted is not None:
        return every.pick(wanted, path)
    if not has_names:
        return every
    pandas_index = first_line[0] == "" and len(first_line) > 1
    return every.pick(first_line[1:] if pandas_index else first_line, path)


class _Table:
    """A CSV file as pyarrow reads it.

    Attributes
    ----------
    first_line : list of str
        Fields of the first line.
    """

    def __init__(self, path: Path, delimiter: str, block_bytes: int) -> None:
        self._csv: Any = need("pyarrow.csv", "CSV files")
        self._arrow: Any = need("pyarrow", "CSV files")
        self.path, self._delimiter, self._block_bytes = path, delimiter, block_bytes
        self._stamp = Stamp.of(path)
        with self._reading(), self._open() as reader:
            self.first_line = [str(name) for name in reader.schema.names]
            self._types = list(reader.schema.types)  # as the values of the first block suggest

    def check_types(self, chosen: Columns) -> None:
        """Raise where chosen columns hold no numbers."""
        labels = self.first_line if chosen.names is not None else [f"{i}" for i in range(len(self.first_line))]
        types = dict(zip(labels, self._types, strict=True))
        numeric = [label for label, kind in zip(labels, self._types, strict=True) if self._is_numeric(kind)]
        if len(labels) == 1 and not numeric:
            found = [sign for sign in OTHER_DELIMITERS if sign != self._delimiter and sign in self.first_line[0]]
            if found:
                raise ValueError(f"{self.path} has a single column. Is {found[0]!r} its delimiter? Pass delimiter=...")
        refuse_non_numbers(self.path, [labels[number] for number in chosen.numbers], types, numeric)

    def _is_numeric(self, kind: Any) -> bool:
        types = self._arrow.types
        return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)

    def write_out(self, chosen: Columns, *, skip_first: bool) -> tuple[OpenFile, int]:
        """Write the chosen columns to a temporary file; gives it and the number of rows."""
        target, n_rows = TemporaryFile(self.path), 0
        # by number, as names may be missing or appear twice
        names = [str(number) for number in range(len(self.first_line))]
        wanted = [str(number) for number in chosen.numbers]
        # a column of integers may go on with fractions, an empty one with anything
        float64, boolean = self._arrow.float64(), self._arrow.types.is_boolean
        types = {name: kind if boolean(kind := self._types[int(name)]) else float64 for name in wanted}
        convert = self._csv.ConvertOptions(include_columns=wanted, column_types=types)
        with self._reading():
            reader = self._open(convert, column_names=names, skip_rows_after_names=int(skip_first))
        with reader:
            while True:
                with self._reading():
                    batch = next(iter(reader), None)
                if batch is None:
                    return target.file, n_rows
                target.write(_numbers(batch))
                n_rows += batch.num_rows

    def _open(self, convert: Any = None, **options: Any) -> Any:
        return self._csv.open_csv(
            str(self.path),
            read_options=self._csv.ReadOptions(use_threads=False, block_size=self._block_bytes, **options),
            parse_options=self._csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=convert,
        )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the file, and the column where values are no numbers, in what pyarrow raises."""
        try:
            yield
        except ValueError as error:
            self._stamp.check()
            place = re.search(r"column #(\d+): (?:Row #\d+: )?CSV conversion error", str(error))
            if place is not None:
                name = self.first_line[int(place[1])]
                raise ValueError(
                    f"{self.path}: column {name!r} must hold numbers, but does so only in part. {error}"
                ) from error
            long = re.search("straddl|Empty CSV file or block", str(error))
            kind = _LongLineError if long else ValueError
            raise kind(f"{self.path} cannot be read as a CSV file. {error}") from error
        except OSError as error:
            self._stamp.check()
            raise ValueError(f"{self.path} cannot be read as a CSV file; it may be damaged. {error}") from error
        self._stamp.check()


def _numbers(batch: Any) -> Array:
    """A record batch as float64; missing values become NaN."""
    out = np.empty((batch.num_rows, batch.num_columns), dtype=np.float64)
    for place, column in enumerate(batch.columns):
        out[:, place] = column.cast("float64").to_numpy(zero_copy_only=False)
    return out
