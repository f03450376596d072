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
    """A file cannot be used.

    Attributes
    ----------
    path : Path
        The file or folder.
    reason : str
        What is wrong with it: the rest of a sentence that begins with the path.
    hint : str
        What to do.
    """

    path: Path
    reason: str
    hint: str = ""

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} {self.reason}."

    def _advice(self, notation: Notation) -> str:
        return self.hint


@dataclass(eq=False)
class UnknownFormat(InvalidData):
    """The name of a file has none of the suffixes that are known.

    Attributes
    ----------
    path : Path
        The file.
    known : sequence of str
        Suffixes and kinds of folders that can be read.
    """

    path: Path
    known: Sequence[str]

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} has an unknown format."

    def _advice(self, notation: Notation) -> str:
        return f"Known formats are {', '.join(self.known)}."


@dataclass(eq=False)
class UnreadableFile(InvalidData):
    """A library failed to read a file.

    Attributes
    ----------
    path : Path
        The file or folder.
    kind : str
        What it was read as: "a Parquet file".
    reason : str
        What the library reported.
    """

    path: Path
    kind: str
    reason: str

    def _problem(self, notation: Notation) -> str:
        return (
            f"{self.path} cannot be read as {self.kind}; it may be damaged, incomplete or of another format. "
            f"{self.reason}"
        )


@dataclass(eq=False)
class MalformedCsv(InvalidData):
    """A CSV file is no table of numbers.

    Attributes
    ----------
    path : Path
        The file.
    reason : str
        What is wrong with it: the rest of a sentence that begins with the path.
    options : dict
        Options of `open_rows` that may help: ``{"delimiter": ";"}``.
    hint : str
        What else to do.
    """

    path: Path
    reason: str
    options: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} {self.reason}."

    def _advice(self, notation: Notation) -> str:
        if not self.options:
            return self.hint
        return f"Try {' and '.join(notation.argument(name, value) for name, value in self.options.items())}."


@dataclass(eq=False)
class OptionNotApplicable(InvalidData):
    """An option of `open_rows` is for files of another format.

    Attributes
    ----------
    option : str
        Name of the option.
    value : object
        Its value.
    path : Path
        The file.
    """

    option: str
    value: Any
    path: Path

    def _problem(self, notation: Notation) -> str:
        return f"{notation.argument(self.option, self.value)} does not apply to {self.path}."

    def _advice(self, notation: Notation) -> str:
        return "Leave it out."


@dataclass(eq=False)
class ColumnNotFound(InvalidSelection):
    """A column was chosen that the file does not have.

    Attributes
    ----------
    column : str or int
        The name or number that was chosen.
    path : Path
        The file.
    known : list of str or None
        Names of the columns; None if they have none.
    n_columns : int
        Number of columns.
    """

    column: str | int
    path: Path
    known: list[str] | None
    n_columns: int

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
    """A column was chosen by a name that several columns have.

    Attributes
    ----------
    column : str
        The name.
    path : Path
        The file.
    known : list of str
        Names of all columns.
    """

    column: str
    path: Path
    known: list[str]

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} has more than one column named {self.column!r}."

    def _advice(self, notation: Notation) -> str:
        return f"Choose by number: the columns are {join_names(self.known)}."


@dataclass(eq=False)
class ArrayNotFound(InvalidSelection):
    """The array that was chosen, or the only 2-d array of numbers, is not in the file.

    Attributes
    ----------
    array : str or None
        Name of the array; None if none was chosen.
    path : Path
        The file.
    known : dict of str to object
        Arrays of the file by name, with shape and type as their string.
    """

    array: str | None
    path: Path
    known: Mapping[str, Any]

    def _problem(self, notation: Notation) -> str:
        what = "2-d array of numbers" if self.array is None else f"array {self.array!r}"
        return f"{self.path} has no {what}. {_list_arrays(self.known)}"


@dataclass(eq=False)
class AmbiguousArray(InvalidSelection):
    """A file has more than one 2-d array of numbers, and none was chosen.

    Attributes
    ----------
    path : Path
        The file.
    known : dict of str to object
        Arrays of the file by name, with shape and type as their string.
    """

    path: Path
    known: Mapping[str, Any]

    def _problem(self, notation: Notation) -> str:
        return f"{self.path} has more than one 2-d array of numbers. {_list_arrays(self.known)}"

    def _advice(self, notation: Notation) -> str:
        return f"Choose one with {notation.argument('array', ...)}"


def _list_arrays(arrays: Mapping[str, Any]) -> str:
    shown = [f"{name!r} ({array})" for name, array in arrays.items()]
    return f"It has {len(shown)}: {'; '.join(shown[:MOST_SHOWN])}." if shown else "It has no arrays."


@dataclass(eq=False)
class NotNumeric(InvalidSelection):
    """Columns of a table or a data frame do not hold numbers.

    Attributes
    ----------
    columns : dict of str to object
        Types of these columns, by name.
    numeric : list of str
        Names of the columns that hold numbers.
    path : Path or None
        The file; None for a data frame.
    """

    columns: Mapping[Any, Any]
    numeric: list[Any]
    path: Path | None = None

    def _problem(self, notation: Notation) -> str:
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in list(self.columns.items())[:MOST_SHOWN])
        more = f" and {len(self.columns) - MOST_SHOWN} more" if len(self.columns) > MOST_SHOWN else ""
        plural = "s" if len(self.columns) > 1 else ""
        return f"{notation.data if self.path is None else self.path}: column{plural} {shown}{more} must hold numbers."

    def _advice(self, notation: Notation) -> str:
        if not self.numeric:
            return "Convert these to numbers first."
        numeric = notation.argument("columns", self.numeric) if self.path is not None else ""
        instead = f"Choose {numeric}" if numeric else f"Pass {notation.data}[[{join_names(self.numeric)}]]"
        return f"{instead}, which do, or convert these to numbers first."


@dataclass(eq=False)
class InconsistentFiles(InvalidSelection):
    """Files of one folder do not have the same columns.

    Attributes
    ----------
    paths : tuple of Path
        The two files that differ.
    columns : list of str
        Columns that only one of them has, or that have different types.
    difference : str
        How they differ.
    """

    paths: tuple[Path, Path]
    columns: list[str]
    difference: str

    def _problem(self, notation: Notation) -> str:
        return f"The files of a folder must have the same columns, but {self.difference}."

    def _advice(self, notation: Notation) -> str:
        columns = notation.argument("columns", ...)
        return f"Choose columns that hold numbers in all of them ({columns}), or move other files elsewhere."


@dataclass(eq=False)
class NotFinite(InvalidData):
    """Rows contain NaN or infinity.

    Attributes
    ----------
    value : float
        The first such value.
    column : str or int
        Name of its column, or the number if columns have no names.
    row : int
        Number of its row.
    """

    value: float
    column: str | int
    row: int

    def _problem(self, notation: Notation) -> str:
        what = "NaN" if self.value != self.value else "infinity (inf)"
        return f"{notation.data} contains {what} in column {self.column!r}, row {self.row}."

    def _advice(self, notation: Notation) -> str:
        example = notation.python(" (for example with sklearn.impute.SimpleImputer)")
        return f"Drop or impute such rows first{example}."


@dataclass(eq=False)
class ValuesTooLarge(InvalidData):
    """Rows contain values whose differences would overflow.

    Attributes
    ----------
    largest : float
        The largest absolute value that is allowed.
    """

    largest: float

    def _problem(self, notation: Notation) -> str:
        return f"{notation.data} contains values beyond {self.largest:.0e}, whose differences and means overflow."

    def _advice(self, notation: Notation) -> str:
        return "Divide all values by a constant first: a common factor changes no result."


@dataclass(eq=False)
class ZeroRow(InvalidData):
    """A row is all zeros, and the metric is cosine.

    Attributes
    ----------
    row : int
        Number of the row.
    """

    row: int

    def _problem(self, notation: Notation) -> str:
        metric = notation.argument("metric", "cosine")
        return f"Row {self.row} of {notation.data} is all zeros, so its direction is undefined under {metric}."

    def _advice(self, notation: Notation) -> str:
        return f"Drop such rows or use {notation.argument('metric', 'euclidean')}."


@dataclass(eq=False)
class IndexGuessed(Diagnostic, UserWarning):
    """The first column of a CSV file has no name and was taken for the index that pandas writes.

    Attributes
    ----------
    path : Path
        The file.
    """

    path: Path

    def _problem(self, notation: Notation) -> str:
        return (
            f"{self.path}: the first column has no name, so it was taken for the row numbers that pandas writes, and "
            "left out."
        )

    def _advice(self, notation: Notation) -> str:
        return f"To read it too, choose columns by number, as in {notation.argument('columns', [0, 1])}."


@dataclass(eq=False)
class HeaderGuessed(Diagnostic, UserWarning):
    """The first line of a CSV file holds integers, and a guess was made whether it is names.

    Attributes
    ----------
    path : Path
        The file.
    line : str
        The line, or its beginning.
    header : bool
        The guess: whether it is names.
    """

    path: Path
    line: str
    header: bool

    def _problem(self, notation: Notation) -> str:
        taken = "names" if self.header else "the first row"
        return f"{self.path}: the first line ({self.line}) holds integers and was taken for {taken}."

    def _advice(self, notation: Notation) -> str:
        wrong, right = (notation.argument("header", value) for value in (not self.header, self.header))
        return f"If that is wrong, pass {wrong}; if it is right, {right} silences this warning."
