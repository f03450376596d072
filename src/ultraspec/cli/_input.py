"""The data that a command reads: what the options say about it, checked and opened."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ultraspec.cli._options import sign
from ultraspec.cli._screen import Screen

if TYPE_CHECKING:
    from ultraspec.rows import Rows

SLOW = (".csv", ".tsv", ".gz")  # is read through on opening
NAMED = (*SLOW, ".parquet", ".pq", ".parq")


@dataclass(frozen=True)
class Input:
    """What the options say about the data."""

    path: Path
    columns: Sequence[str] | None = None
    array: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None

    def check(self) -> None:
        """Raise where there is no such file, or it is of an unknown kind: before anything slow is imported."""
        from ultraspec.rows import check_path

        check_path(self.path)

    def open(self, screen: Screen, names: Sequence[str] | None = None) -> Rows:
        """Open it; where no columns were asked for and tables have names, those of a model.

        Columns are names first, and where there are no such names, numbers.
        """
        path = self.path.expanduser()
        slow = path.suffix.lower() in SLOW and path.is_file()
        with screen.reading(path) if slow else nullcontext():
            return self._open_chosen(path, names)

    def _open_chosen(self, path: Path, names: Sequence[str] | None) -> Rows:
        columns = self.columns
        of_model = columns is None and names is not None and self._is_table(path)
        if of_model:
            columns = names
        try:
            return self._open(columns)
        except ValueError as error:
            if columns is None or "has no column name" not in str(error):
                raise
            if not all(name.isdecimal() for name in columns):
                if not of_model:
                    raise
                from ultraspec._checks import listed

                raise ValueError(f"{error} The model was fitted on {listed(columns)}.") from error
        return self._open([int(name) for name in columns])

    def _open(self, columns: Sequence[str | int] | None) -> Rows:
        from ultraspec import open_rows

        return open_rows(
            self.path,
            columns,
            array=self.array,
            header=self.header,
            delimiter=sign(self.delimiter),
            decimal=self.decimal,
        )

    def _is_table(self, path: Path) -> bool:
        if path.is_dir():
            return any(found.suffix.lower() in NAMED for found in path.rglob("*.*"))
        return path.suffix.lower() in NAMED and self.header is not False
