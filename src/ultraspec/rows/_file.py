"""What the row sources of files share: the chosen columns, the file's state, and how they are shown and pickled."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameter, InvalidParameterType, join_names
from ultraspec.rows._base import Rows
from ultraspec.rows.errors import AmbiguousColumn, ColumnNotFound, InvalidFile, NotNumeric, UnreadableFile

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Columns:
    """Columns that were chosen from a file.

    Attributes
    ----------
    numbers : ndarray of int
        Their numbers in the file, in the order in which they were chosen.
    names : list of str or None
        Their names.
    total : int
        Columns of the file.
    """

    numbers: npt.NDArray[np.intp]
    names: list[str] | None
    total: int

    @classmethod
    def choose(
        cls, wanted: Sequence[str | int] | None, path: Path, total: int, names: Sequence[str] | None = None
    ) -> Columns:
        """Columns of the file at `path` that are `wanted`, by name or number; None for all."""
        if total == 0:
            raise InvalidFile(path, "has no columns")
        every = cls(np.arange(total), None if names is None else list(names), total)
        return every if wanted is None else every.pick(wanted, path)

    def pick(self, wanted: Sequence[str | int], path: Path) -> Columns:
        """Some of these columns, by name or by their number among these."""
        places = self.places(wanted, path)
        names = None if self.names is None else [self.names[place] for place in places]
        return replace(self, numbers=self.numbers[places], names=names)

    def places(self, wanted: Sequence[str | int], path: Path) -> list[int]:
        """Where among these columns the wanted ones are."""
        if isinstance(wanted, (str, bytes)) or not isinstance(wanted, Iterable):
            raise InvalidParameterType("columns", wanted, "a list of names or numbers")
        counts = Counter(self.names)
        known = {name: place for place, name in enumerate(self.names or ()) if counts[name] == 1}
        places = [known[name] if name in known else self._number(name, path) for name in wanted]
        if not places:
            raise InvalidParameter("columns", [], "a list of at least one column", hint="Leave it out to read all.")
        twice = [place for place, count in Counter(places).items() if count > 1]
        if twice:
            labels = twice if self.names is None else [self.names[place] for place in twice]
            raise InvalidParameter(
                "columns", list(wanted), f"distinct, but {join_names(labels)} appears more than once"
            )
        return places

    def _number(self, name: Any, path: Path) -> int:
        """Check a column that is not one of the names."""
        if isinstance(name, str) and self.names is not None:
            if name in self.names:
                raise AmbiguousColumn(name, path, self.names)
            raise ColumnNotFound(name, path, self.names, len(self.numbers))
        if isinstance(name, str):
            raise ColumnNotFound(name, path, None, len(self.numbers))
        if isinstance(name, (bool, np.bool_)) or not isinstance(name, (int, np.integer)):
            raise InvalidParameterType("columns", name, "a list of names or numbers")
        if not 0 <= name < len(self.numbers):
            raise ColumnNotFound(int(name), path, self.names, len(self.numbers))
        return int(name)

    @property
    def is_all(self) -> bool:
        """Whether these are all columns of the file, in its order."""
        return len(self.numbers) == self.total and bool((self.numbers == np.arange(self.total)).all())


def check_numeric_columns(path: Path, chosen: Sequence[str], types: Mapping[str, Any], numeric: Iterable[str]) -> None:
    """Raise `NotNumeric` if columns that were chosen from a table are not `numeric`; `types` has all columns."""
    good = set(numeric)
    bad = {name: types[name] for name in chosen if name not in good}
    if bad:
        raise NotNumeric(bad, [name for name in types if name in good], path)


@dataclass(frozen=True)
class Stamp:
    """A file's size and time of change, to notice when it is written to while it is being read."""

    path: Path
    state: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, fd: int | None = None) -> Stamp:
        """Of the file as it is now; of an open one, if `fd` is given."""
        return cls(path, _state(path if fd is None else fd))

    def check(self, fd: int | None = None) -> None:
        """Raise if the file is another than it was."""
        try:
            same = _state(self.path if fd is None else fd) == self.state
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path} was removed while it was being read.") from None
        if not same:
            raise OSError(f"{self.path} was changed while it was being read. Open it anew when it is complete.")

    @contextlib.contextmanager
    def reading(self, kind: str, *errors: type[Exception]) -> Iterator[None]:
        """Turn what a library raises on a damaged file into one that names it; notice changes made meanwhile."""
        with readable(self.path, kind, *errors, stamp=self):
            yield
        self.check()


def _state(file: Path | int) -> tuple[int, ...]:
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns, found.st_ino


@contextlib.contextmanager
def readable(path: Path, kind: str, *errors: type[Exception], stamp: Stamp | None = None) -> Iterator[None]:
    """Turn what a library raises on a damaged file into a ValueError that names the file."""
    errors = errors or (OSError, ValueError)
    try:
        yield
    except PermissionError:
        raise
    except errors as error:
        if stamp is not None:
            stamp.check()
        raise UnreadableFile(path, kind, str(error) or type(error).__name__) from error


class FileRows(Rows):
    """Rows of a file. `read` and `take` may be called from several threads at once.

    Pickled, it is the file's path: the file is opened anew where it is unpickled.

    Attributes
    ----------
    path : pathlib.Path
        The file or folder.
    dtype : numpy.dtype
        Type of the values; integer columns with missing values come as float64.
    """

    in_memory = False

    def __init__(
        self, path: Path, n_rows: int, columns: Columns, dtype: npt.DTypeLike, options: Mapping[str, Any] | None = None
    ) -> None:
        if n_rows == 0:
            raise InvalidFile(path, "has no rows")
        self.path, self.n_rows = path, n_rows
        self.dtype = np.dtype(np.uint8) if np.dtype(dtype) == bool else np.dtype(dtype)
        self._options, self._closed = dict(options or {}), False
        self._set_columns(columns)

    def _set_columns(self, columns: Columns) -> None:
        self._columns = columns
        self.n_features, self.names = len(columns.numbers), columns.names

    def select(self, columns: Sequence[str | int]) -> Self:
        """The same rows with only these columns, by name or number, in this order.

        Parameters
        ----------
        columns : list of str or int
            Some of the columns of these rows.

        Returns
        -------
        FileRows
            Stays open when these rows are closed.
        """
        self._check_open()
        other = object.__new__(type(self))  # copy.copy would open the file anew, as pickle does
        vars(other).update(vars(self))
        other._set_columns(self._columns.pick(columns, self.path))
        return other

    def options(self) -> dict[str, Any]:
        """What `open_rows` needs beside the path to open these rows again."""
        if self._columns.is_all:
            return dict(self._options)
        return {"columns": self.names if self.names is not None else self._columns.numbers.tolist(), **self._options}

    def places(self, columns: Sequence[str | int]) -> list[int]:
        """The places of columns, by name or number, among those of these rows."""
        return self._columns.places(columns, self.path)

    def _span(self, start: int, stop: int) -> tuple[int, int]:
        """The range within the rows, as slices of arrays take it."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        return start, max(start, stop)

    def _check_indices(self, indices: npt.NDArray[np.int64]) -> None:
        if len(indices) and not 0 <= indices[0] <= indices[-1] < self.n_rows:
            raise IndexError(f"{self.path} has {self.n_rows:,} rows; {indices[0]} to {indices[-1]} were asked for.")

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> ValueError:
        return ValueError(f"The rows of {self.path} were closed. Open the file again to read them.")

    def close(self) -> None:
        """Let go of the file; the rows cannot be read afterwards."""
        self._closed = True

    def __reduce__(self) -> tuple[Any, ...]:
        chosen = None if self._columns.is_all and self.names is None else self._columns.numbers.tolist()
        return reopen, (str(self.path), chosen, self._options, self.n_rows, self.names)

    def __repr__(self) -> str:
        names = "" if self.names is None else f": {join_names(self.names)}"
        shape = f"{self.n_rows:,} rows x {self.n_features:,} columns"
        return f"<{type(self).__name__} of {str(self.path)!r}, {shape}, {self.dtype}{names}>"


def reopen(
    path: str, columns: Sequence[int] | None, options: dict[str, Any], n_rows: int, names: list[str] | None
) -> Rows:
    """Open the file of unpickled rows, which must have as many rows, and the columns, that it had."""
    from ultraspec.rows._open import open_file

    rows = open_file(path, columns, **options)
    if rows.n_rows != n_rows:
        raise OSError(f"{path} had {n_rows:,} rows when its source was pickled and has {rows.n_rows:,} now.")
    if rows.names != names:
        raise OSError(f"{path} had other columns when its source was pickled: {join_names(names or ())}.")
    return rows
