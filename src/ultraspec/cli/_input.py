"""The file that a command reads rows from: check the options, open the file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from ultraspec.cli._options import INPUT, Data, format_names, option, parse_delimiter, parse_names
from ultraspec.cli._parameters import parameters_of
from ultraspec.cli._screen import Screen

if TYPE_CHECKING:
    from ultraspec.rows import Rows


def file_option(name: str, default: str, metavar: str = "", **more: Any) -> Any:
    """Build the option for a parameter of `open_rows`; its help is the first sentence of the docstring."""
    parameter = parameters_of("open_rows")[name]
    return option(" ".join([*parameter.flags, metavar]), INPUT, parameter.help, default, **more)


DELIMITER = file_option("delimiter", "','; 'tab' (a tab) in .tsv files", "CHARACTER", parser=parse_delimiter)


@dataclass(frozen=True)
class DataFile:
    """Path of the rows, and the options that say how to read them."""

    path: Data
    columns: Annotated[Any, file_option("columns", "all", "A,B,C", parser=parse_names)] = None
    array: Annotated[str | None, file_option("array", "the only 2-d array", "NAME")] = None
    header: Annotated[bool | None, file_option("header", "detected")] = None
    delimiter: Annotated[Any, DELIMITER] = None
    decimal: Annotated[str | None, file_option("decimal", "'.'", "CHARACTER")] = None
    described: Sequence[str] | None = field(default=None, init=False)
    weight: str | None = field(default=None, init=False)

    def describing(self, names: Sequence[str] | None) -> DataFile:
        """Return this file with columns that the report describes."""
        other = copy.copy(self)
        object.__setattr__(other, "described", names)
        return other

    def weighing(self, name: str | None) -> DataFile:
        """Return this file with a column that holds the weights of the rows."""
        other = copy.copy(self)
        object.__setattr__(other, "weight", name)
        return other

    def split(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """Return the opened rows without the column of weights, and this column."""
        if self.weight is None:
            return rows, None
        from ultraspec._input import split_column

        return split_column(rows, self.weight)

    def check(self) -> None:
        """Raise if the file is missing or of an unknown type, before slow imports."""
        from ultraspec.rows import find_format

        find_format(self.path)

    def open(self, screen: Screen, fitted: Sequence[str] | None = None) -> Rows:
        """Open the rows; show the progress for files that are slow to open.

        The feature names of a `fitted` model select the columns of a table unless the user chose some.
        """
        from ultraspec.rows import find_format

        kind = find_format(self.path)
        has_names = kind.is_table and self.header is not False
        if self.described and fitted is None and self.columns is None:
            fitted = self._other_columns()
        with screen.reading(self.path.expanduser()) if kind.slow_to_open else nullcontext():
            return self._open_chosen(fitted if has_names else None)

    def _open_chosen(self, fitted: Sequence[str] | None) -> Rows:
        from ultraspec._checks import join_names
        from ultraspec.rows import ColumnNotFound

        columns = fitted if self.columns is None else self.columns
        if self.weight is not None and columns is not None and self.weight not in columns:
            columns = [*columns, self.weight]
        try:
            return self._open(columns)
        except ColumnNotFound as error:
            if columns is not None and all(name.isdecimal() for name in columns):
                return self._open([int(name) for name in columns])
            if self.columns is not None or error.column == self.weight:
                raise
            raise ValueError(f"{error} The model was fitted on {join_names(fitted or ())}.") from error

    def _other_columns(self) -> list[str]:
        """Return the columns that are not only described."""
        from ultraspec.rows.label_files import table_columns

        path = self.path.expanduser()
        if path.is_dir():
            raise ValueError(f"{self.path} is a folder: name the columns to cluster with --columns.")
        self.describe()  # names that do not exist raise
        return [str(name) for name in table_columns(path, self.delimiter) if name not in (self.described or ())]

    def describe(self) -> dict[str, Any] | None:
        """Read the columns that the report describes."""
        if not self.described:
            return None
        from ultraspec.rows.label_files import read_table_columns

        return read_table_columns(
            self.path.expanduser(), self.described, delimiter=self.delimiter, decimal=self.decimal
        )

    def _open(self, columns: Sequence[str | int] | None) -> Rows:
        from ultraspec import open_rows

        return open_rows(
            self.path,
            columns,
            array=self.array,
            header=self.header,
            delimiter=self.delimiter,
            decimal=self.decimal,
        )

    def options(self) -> list[str]:
        """Write the options that read the file in the same way."""
        values = {
            "--columns": None if self.columns is None else format_names(self.columns),
            "--array": self.array,
            "--delimiter": "tab" if self.delimiter == "\t" else self.delimiter,
            "--decimal": self.decimal,
            "--weight": self.weight,
            "--describe": None if self.described is None else format_names(self.described),
        }
        arguments = [text for option, value in values.items() if value is not None for text in (option, value)]
        if self.header is not None:
            arguments.append("--header" if self.header else "--no-header")
        return arguments
