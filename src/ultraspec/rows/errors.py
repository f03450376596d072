"""Errors and warnings about files and rows. They keep their data in attributes, from which messages are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ultraspec._checks import MOST_SHOWN, Diagnostic, Notation, join_names


class InvalidData(Diagnostic, ValueError):
    """Base class of errors about the content of files and rows."""


class InvalidSelection(InvalidData):
    """Base class of errors that another choice of columns, or of an array, avoids."""


@dataclass(eq=False)
class InvalidFile(InvalidData):
    """A file cannot be used."""

    path: Path  #: the file or folder
    reason: str  #: what is wrong: the rest of a sentence that begins with the path
    hint: str = ""  #: what to do
    options: Mapping[str, str] = field(default_factory=dict)  #: options of `open_rows` that may help

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} {self.reason}."

    def _advice(self, notation: Notation) -> str:
        if not self.options:
            return self.hint
        return f"Try {' and '.join(notation.argument(name, value) for name, value in self.options.items())}."


@dataclass(eq=False)
class UnknownFormat(InvalidData):
    """The name of a file has no known suffix."""

    path: Path  #: the file
    known: Sequence[str]  #: the known suffixes

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} has an unknown format."

    def _advice(self, notation: Notation) -> str:
        return f"Known formats are {', '.join(self.known)}."


@dataclass(eq=False)
class UnreadableFile(InvalidData):
    """A library failed to read a file."""

    path: Path  #: the file or folder
    kind: str  #: what it was read as: "a Parquet file"
    reason: str  #: what the library reported

    def _problem(self, notation: Notation) -> str:
        reason = " ".join("".join(letter if letter.isprintable() else " " for letter in self.reason).split())
        return (
            f"{self.path} cannot be read as {self.kind}; it may be damaged, incomplete or of another format. {reason}"
        )


@dataclass(eq=False)
class OptionNotApplicable(InvalidData):
    """An option of `open_rows` is for files of another format."""

    option: str  #: name of the option
    value: Any  #: its value
    path: Path  #: the file

    def _problem(self, notation: Notation) -> str:
        return f"{notation.argument(self.option, self.value)} does not apply to {self.path}."

    def _advice(self, notation: Notation) -> str:
        return "Leave it out."


@dataclass(eq=False)
class ColumnNotFound(InvalidSelection):
    """A column was chosen that the file does not have."""

    column: str | int  #: the name or number that was chosen
    path: Path  #: the file
    known: list[str] | None  #: names of the columns; None if they have none
    n_columns: int  #: number of columns

    def _problem(self, notation: Notation) -> str:
        if not isinstance(self.column, str):
            return f"{self.path} has no column {self.column}."
        if self.known is None:
            return f"{self.path} has no column names, so {self.column!r} cannot be found."
        return f"{self.path} has no column named {self.column!r}."

    def _advice(self, notation: Notation) -> str:
        if self.known is not None and isinstance(self.column, str):
            return f"Choose by name or number from {join_names(self.known)}."
        return f"Choose by numbers from 0 to {self.n_columns - 1}."


@dataclass(eq=False)
class AmbiguousColumn(InvalidSelection):
    """A column was chosen by a name that several columns have."""

    column: str  #: the name
    path: Path  #: the file
    known: list[str]  #: names of all columns

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} has more than one column named {self.column!r}."

    def _advice(self, notation: Notation) -> str:
        return f"Choose by number: the columns are {join_names(self.known)}."


@dataclass(eq=False)
class ArrayNotFound(InvalidSelection):
    """The array that was chosen, or a 2-d array of numbers if none was, is not in the file."""

    array: str | None  #: name of the array; None if none was chosen
    path: Path  #: the file
    known: Mapping[str, Any]  #: shape and type of the arrays of the file, by name

    def _problem(self, notation: Notation) -> str:
        what = "2-d array of numbers" if self.array is None else f"array {self.array!r}"
        has = f"It has {len(self.known)}: {_list_arrays(self.known)}." if self.known else "It has no arrays."
        return f"{self.path} has no {what}. {has}"


@dataclass(eq=False)
class AmbiguousArray(InvalidSelection):
    """A file has more than one 2-d array of numbers, and none was chosen."""

    path: Path  #: the file
    matrices: Mapping[str, Any]  #: shape and type of these arrays, by name

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} has more than one 2-d array of numbers: {_list_arrays(self.matrices)}."

    def _advice(self, notation: Notation) -> str:
        return f"Choose one: {notation.argument('array', next(iter(self.matrices)))}"


def _list_arrays(arrays: Mapping[str, Any]) -> str:
    shown = [f"{name!r} ({array})" for name, array in arrays.items()]
    more = f"; ... ({len(shown)} in all)" if len(shown) > MOST_SHOWN else ""
    return "; ".join(shown[:MOST_SHOWN]) + more


@dataclass(eq=False)
class NotNumeric(InvalidSelection):
    """Columns of a table or a data frame do not hold numbers."""

    columns: Mapping[Any, Any]  #: types of these columns, by name
    numeric: list[Any]  #: names of the columns that hold numbers
    path: Path | None = None  #: the file; None for a data frame

    def _problem(self, notation: Notation) -> str:
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in list(self.columns.items())[:MOST_SHOWN])
        more = f" and {len(self.columns) - MOST_SHOWN} more" if len(self.columns) > MOST_SHOWN else ""
        plural = "s" if len(self.columns) > 1 else ""
        return f"{notation.data if self.path is None else self.path}: column{plural} {shown}{more} must hold numbers."

    def _advice(self, notation: Notation) -> str:
        if not self.numeric:
            return "Convert these to numbers first."
        if self.path is None:
            instead = f"Pass {notation.data}[[{join_names(self.numeric)}]]"
        else:
            instead = f"Choose {notation.argument('columns', self.numeric)}"
        return f"{instead}, which do, or convert these to numbers first."


@dataclass(eq=False)
class InconsistentFiles(InvalidSelection):
    """Files of one folder do not have the same columns."""

    paths: tuple[Path, Path]  #: the two files that differ
    columns: list[str]  #: columns that only one of them has, or that have different types
    difference: str  #: how they differ

    def _problem(self, notation: Notation) -> str:
        return f"The files of a folder must have the same columns, but {self.difference}."

    def _advice(self, notation: Notation) -> str:
        columns = notation.argument("columns", ...)
        return f"Choose columns that hold numbers in all of them ({columns}), or move other files elsewhere."


@dataclass(eq=False)
class NotFinite(InvalidData):
    """Rows contain NaN or infinity."""

    value: float  #: the first such value
    column: str | int  #: name of its column, or the number if columns have no names
    row: int  #: number of its row
    counts: Mapping[Any, int] = field(default_factory=dict)  #: number of such values by column; empty if not known
    n_bad: int = 1  #: number of rows that have such values
    n_rows: int = 0  #: number of rows

    def _problem(self, notation: Notation) -> str:
        what = "NaN" if self.value != self.value else "infinity (inf)"
        first = f"{notation.data} contains {what} in column {self.column!r}, row {self.row}."
        if sum(self.counts.values()) < 2:
            return first
        columns = [f"{name!r} ({count:,})" for name, count in self.counts.items()]
        more = f", ... ({len(columns)} in all)" if len(columns) > MOST_SHOWN else ""
        return (
            f"{first} In all, {self.n_bad:,} of {self.n_rows:,} rows have such values, in columns "
            f"{', '.join(columns[:MOST_SHOWN])}{more}."
        )

    def _advice(self, notation: Notation) -> str:
        example = notation.python(" (for example with sklearn.impute.SimpleImputer)")
        advice = f"Drop or impute such rows first{example}."
        if self.value == self.value:
            return advice
        drop = notation.argument("missing", "drop")
        return f"{advice} {notation.python('USPEC and USENC: ')}{drop} leaves them out and labels them -1."


@dataclass(eq=False)
class IdColumn(Diagnostic, UserWarning):
    """A column holds integers that increase from row to row, as row numbers do."""

    columns: list[Any]  #: names of such columns, or numbers if columns have no names
    others: list[Any]  #: the other columns

    def _problem(self, notation: Notation) -> str:
        what = f"Column {join_names(self.columns)} of {notation.data}"
        if len(self.columns) > 1:
            what = f"Columns {join_names(self.columns)} of {notation.data}"
        ends = "" if len(self.columns) > 1 else "s"
        return f"{what} hold{ends} integers that increase from row to row: probably an id, which is no feature."

    def _advice(self, notation: Notation) -> str:
        return f"If so, leave it out: {notation.argument('columns', self.others)}."


@dataclass(eq=False)
class ValuesTooLarge(InvalidData):
    """Rows contain values whose differences would overflow."""

    largest: float  #: the largest absolute value that is allowed

    def _problem(self, notation: Notation) -> str:
        return f"{notation.data} contains values beyond {self.largest:.0e}, whose differences and means overflow."

    def _advice(self, notation: Notation) -> str:
        return "Divide all values by a constant first: a common factor changes no result."


@dataclass(eq=False)
class ZeroRow(InvalidData):
    """A row is all zeros, and the metric is cosine."""

    row: int  #: number of the row

    def _problem(self, notation: Notation) -> str:
        metric = notation.argument("metric", "cosine")
        return f"Row {self.row} of {notation.data} is all zeros, so its direction is undefined under {metric}."

    def _advice(self, notation: Notation) -> str:
        return f"Drop such rows or use {notation.argument('metric', 'euclidean')}."


@dataclass(eq=False)
class InvalidPlaces(InvalidData):
    """Rows are no latitudes and longitudes in degrees, and the metric is haversine."""

    largest: list[float]  #: largest absolute value of each column, or empty if there are not two columns
    n_features: int  #: number of columns
    swapped: list[str] = field(default_factory=list)  #: names of the columns, if these say that they are swapped

    def _problem(self, notation: Notation) -> str:
        needs = f"{notation.argument('metric', 'haversine')} needs two columns, latitude and longitude in degrees"
        if self.swapped:
            return f"{needs}, but the first is called {self.swapped[0]!r}, and the second {self.swapped[1]!r}."
        if not self.largest:
            return f"{needs}, but {notation.data} has {self.n_features}."
        latitude, longitude = self.largest
        if latitude > 90:
            return f"{needs}, but the first column has values up to {latitude:g}, beyond 90."
        return f"{needs}, but the second column has values up to {longitude:g}, beyond 360."

    def _advice(self, notation: Notation) -> str:
        if self.swapped:
            return f"Pass the latitude first: {notation.argument('columns', self.swapped[::-1])}."
        if not self.largest:
            return f"Choose them with {notation.argument('columns', ...)}, or in another way."
        latitude, longitude = self.largest
        if latitude > 90 >= longitude:
            return "The second column has none: they look swapped. Pass the latitude first."
        return "Check the columns and their unit."


@dataclass(eq=False)
class ScaledPlaces(InvalidData):
    """Rows are scaled, and the metric is haversine, which needs degrees."""

    def _problem(self, notation: Notation) -> str:
        scaled = notation.argument("scale", "standard")
        return f"{notation.argument('metric', 'haversine')} needs degrees, and {scaled} changes them."

    def _advice(self, notation: Notation) -> str:
        return f"Leave {notation.parameter('scale')} out."


@dataclass(eq=False)
class RadiansGuessed(Diagnostic, UserWarning):
    """Latitudes and longitudes are so small that they look like radians, and the metric is haversine."""

    largest: list[float]  #: largest absolute value of each column

    def _problem(self, notation: Notation) -> str:
        return (
            f"{notation.argument('metric', 'haversine')} takes degrees, but no latitude is beyond "
            f"{self.largest[0]:.2f} and no longitude beyond {self.largest[1]:.2f}: these look like radians."
        )

    def _advice(self, notation: Notation) -> str:
        return f"If they are, convert them first{notation.python(', with numpy.degrees')}."


@dataclass(eq=False)
class IndexGuessed(Diagnostic, UserWarning):
    """The first column of a CSV file has no name and was taken for the index that pandas writes."""

    path: Path  #: the file

    def _problem(self, notation: Notation) -> str:
        return (
            f"{self.path}: the first column has no name, so it was taken for the row numbers that pandas writes, and "
            "left out."
        )

    def _advice(self, notation: Notation) -> str:
        return f"To read it too, choose columns by number, as in {notation.argument('columns', [0, 1])}."


@dataclass(eq=False)
class HeaderGuessed(Diagnostic, UserWarning):
    """The first line of a CSV file holds integers, and whether it is names was guessed."""

    path: Path  #: the file
    line: str  #: the line, or its beginning
    header: bool  #: the guess: whether it is names

    def _problem(self, notation: Notation) -> str:
        taken = "names" if self.header else "the first row"
        return f"{self.path}: the first line ({self.line}) holds integers and was taken for {taken}."

    def _advice(self, notation: Notation) -> str:
        wrong, right = (notation.argument("header", value) for value in (not self.header, self.header))
        return f"If that is wrong, pass {wrong}; if it is right, {right} silences this warning."
