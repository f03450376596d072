"""Columns that are chosen from a file, by name or number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameter, InvalidParameterType, join_names
from ultraspec.rows.checks import without_ids
from ultraspec.rows.errors import AmbiguousColumn, ColumnNotFound, InvalidFile, NotNumeric


@dataclass(frozen=True)
class Columns:
    """Columns that were chosen from a file."""

    numbers: npt.NDArray[np.intp]  #: their numbers in the file, in the order in which they were chosen
    names: list[str] | None  #: their names
    total: int  #: number of columns of the file

    @classmethod
    def choose(
        cls, chosen: Sequence[str | int] | None, path: Path, total: int, names: Sequence[str] | None = None
    ) -> Columns:
        """Choose columns of the file at `path`, by name or number; None for all."""
        if total == 0:
            raise InvalidFile(path, "has no columns")
        every = cls(np.arange(total), None if names is None else list(names), total)
        return every if chosen is None else every.pick(chosen, path)

    def pick(self, chosen: Sequence[str | int], path: Path) -> Columns:
        """Choose some of these columns, by name or by their index among these."""
        indices = self.indices_of(chosen, path)
        names = None if self.names is None else [self.names[index] for index in indices]
        return replace(self, numbers=self.numbers[indices], names=names)

    def indices_of(self, chosen: Sequence[str | int], path: Path) -> list[int]:
        """Return the indices of columns among these."""
        if isinstance(chosen, (str, bytes)) or not isinstance(chosen, Iterable):
            raise InvalidParameterType("columns", chosen, "a list of names or numbers")
        counts = Counter(self.names)
        known = {name: index for index, name in enumerate(self.names or ()) if counts[name] == 1}
        indices = [known[name] if name in known else self._check_number(name, path) for name in chosen]
        if not indices:
            raise InvalidParameter("columns", [], "a list of at least one column", hint="Leave it out to read all.")
        repeated = [index for index, count in Counter(indices).items() if count > 1]
        if repeated:
            labels = repeated if self.names is None else [self.names[index] for index in repeated]
            hint = f"{join_names(labels)} is repeated."
            raise InvalidParameter("columns", list(chosen), "distinct", hint=hint)
        return indices

    def _check_number(self, column: Any, path: Path) -> int:
        """Return a column that is not one of the names as an index, or raise."""
        if isinstance(column, str) and self.names is not None and column in self.names:
            raise AmbiguousColumn(column, path, self.names)
        if isinstance(column, str):
            raise ColumnNotFound(column, path, self.names, len(self.numbers))
        if isinstance(column, (bool, np.bool_)) or not isinstance(column, (int, np.integer)):
            raise InvalidParameterType("columns", column, "a list of names or numbers")
        if not 0 <= column < len(self.numbers):
            raise ColumnNotFound(int(column), path, self.names, len(self.numbers))
        return int(column)

    @property
    def is_all(self) -> bool:
        """Whether these are all columns of the file, in its order."""
        return len(self.numbers) == self.total and bool((self.numbers == np.arange(self.total)).all())


def check_numeric_columns(
    path: Path,
    chosen: Sequence[str],
    types: Mapping[str, Any],
    numeric: Iterable[str],
    read: Callable[[list[str]], Mapping[str, npt.NDArray[Any]]],
) -> None:
    """Raise `NotNumeric` if columns that were chosen from a table are not `numeric`; `types` has all columns.

    Columns whose first values, which `read` returns, look like ids are not advised instead.
    """
    good = set(numeric)
    bad = {name: types[name] for name in chosen if name not in good}
    if bad:
        advised = [name for name in types if name in good]
        raise NotNumeric(bad, without_ids(read(advised)) if advised else [], path)
