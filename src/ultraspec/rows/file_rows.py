"""The base class of row sources of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ultraspec._checks import join_names
from ultraspec.rows.columns import Columns
from ultraspec.rows.errors import InvalidFile
from ultraspec.rows.interface import Rows

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FileSource:
    """A file and how to open it again, which is what a pickled row source consists of."""

    path: Path  #: the file or folder
    opener: Callable[..., Rows]  #: at the top level of a module; called with a path, columns and options
    options: Mapping[str, Any] = field(default_factory=dict)  #: options of `ultraspec.open_rows` for this file
    batches: Callable[[], Iterator[Any]] | None = None  #: yields Arrow record batches of all columns of a table

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without `batches`, because a source that is opened again makes its own."""
        return {**vars(self), "batches": None}

    def reopen(self, columns: Sequence[int] | None, n_rows: int, names: list[str] | None) -> Rows:
        """Open the file of an unpickled source; raise if its rows or columns are not what they were."""
        rows = self.opener(self.path, columns, **self.options)
        if rows.n_rows != n_rows:
            raise OSError(f"{self.path} had {n_rows:,} rows when its source was pickled and has {rows.n_rows:,} now.")
        if rows.names != names:
            raise OSError(f"{self.path} had other columns when its source was pickled: {join_names(names or ())}.")
        return rows


class FileRows(Rows):
    """Rows of a file. `read` and `take` may be called from several threads at once.

    A pickled source consists of the path and options; the file is opened again where it is unpickled.

    Parameters
    ----------
    source : FileSource
        The file.
    n_rows : int
        Number of rows.
    columns : Columns
        The chosen columns.
    dtype : dtype
        Type of the values.

    Attributes
    ----------
    path : pathlib.Path
        The file or folder.
    dtype : numpy.dtype
        Type of the values; integer columns with missing values are read as float64.
    """

    in_memory = False

    def __init__(self, source: FileSource, n_rows: int, columns: Columns, dtype: npt.DTypeLike) -> None:
        if n_rows == 0:
            raise InvalidFile(source.path, "has no rows")
        self._source = source
        self.path = source.path
        self.n_rows = n_rows
        self.dtype = np.dtype(np.uint8) if np.dtype(dtype) == bool else np.dtype(dtype)
        self._closed = False
        self._set_columns(columns)

    def _set_columns(self, columns: Columns) -> None:
        self._columns = columns
        self.n_features = len(columns.numbers)
        self.names = columns.names

    def select(self, columns: Sequence[str | int]) -> Self:
        """Return these rows with only some columns.

        Parameters
        ----------
        columns : list of str or int
            Some of the columns of these rows, by name or number, in the order to return.

        Returns
        -------
        FileRows
            Stays open when these rows are closed.
        """
        self._check_open()
        other = object.__new__(type(self))  # copy.copy would open the file again, as pickle does
        vars(other).update(vars(self))
        other._set_columns(self._columns.pick(columns, self.path))
        return other

    def options(self) -> dict[str, Any]:
        """Return the arguments of `ultraspec.open_rows`, without the path, that open these rows again."""
        options = dict(self._source.options)
        if self._columns.is_all:
            return options
        return {"columns": self.names if self.names is not None else self._columns.numbers.tolist(), **options}

    def batches(self) -> Iterator[Any] | None:
        """Read a table again, with all columns, as Arrow record batches; None if the columns have no names."""
        return None if self._source.batches is None else self._source.batches()

    def column_indices(self, columns: Sequence[str | int]) -> list[int]:
        """Return the indices of columns that are given by name or number."""
        return self._columns.indices_of(columns, self.path)

    def _clip_span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the part of a range that is within the rows, as slices of arrays do."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        return start, max(start, stop)

    def _check_indices(self, indices: npt.NDArray[np.int64]) -> None:
        if len(indices) and not 0 <= indices[0] <= indices[-1] < self.n_rows:
            raise IndexError(
                f"{self.path} has {self.n_rows:,} rows; rows {indices[0]} to {indices[-1]} were requested."
            )

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> ValueError:
        return ValueError(f"The rows of {self.path} were closed. Open the file again to read them.")

    def close(self) -> None:
        """Close the file; the rows cannot be read afterwards."""
        self._closed = True

    def __reduce__(self) -> tuple[Any, ...]:
        chosen = None if self._columns.is_all and self.names is None else self._columns.numbers.tolist()
        return FileSource.reopen, (self._source, chosen, self.n_rows, self.names)

    def __repr__(self) -> str:
        names = "" if self.names is None else f": {join_names(self.names)}"
        shape = f"{self.n_rows:,} rows x {self.n_features:,} columns"
        return f"<{type(self).__name__} of {str(self.path)!r}, {shape}, {self.dtype}{names}>"
