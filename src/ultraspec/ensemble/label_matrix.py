"""Label matrices as users give them: takes arrays, lists and frames of integers or strings, gives integer columns."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._checks import warn_user

UNASSIGNED = -1
MISSING_WORDS = {"-1", "-1.0", "nan", "None", "<NA>"}  # what -1, NaN, None and NA look like when they became strings

Column = npt.NDArray[Any]


def read_label_matrix(base_labels: Any) -> Column | list[Column]:
    """An integer matrix as it is, anything else as one integer array per clustering, -1 where a row is not assigned."""
    if isinstance(base_labels, np.ma.MaskedArray):
        raise ValueError("base_labels is a masked array. Pass base_labels.filled(-1): -1 means not assigned.")
    if scipy.sparse.issparse(base_labels):
        raise TypeError("base_labels is a sparse matrix. Pass base_labels.toarray(): zeros would be labels too.")
    columns = _frame_columns(base_labels)
    if columns is None:
        matrix = _as_array(base_labels)
        if matrix.ndim != 2:
            raise ValueError(
                f"base_labels must be a matrix with a row per object and a column per clustering, got "
                f"{matrix.ndim} dimension(s). One clustering alone needs no consensus; several are stacked with "
                "numpy.column_stack."
            )
        if matrix.size and matrix.dtype.kind in "iu":
            return matrix
        columns = list(matrix.T)
    if not columns or not len(columns[0]):
        raise ValueError("base_labels is empty: it needs a row per object and a column per clustering.")
    return [_integers(column, j) for j, column in enumerate(columns)]


def warn_if_transposed(labels: Column | list[Column]) -> None:
    """Warn where a matrix has far more columns than rows: the rows are likely the clusterings."""
    n, m = labels.shape if isinstance(labels, np.ndarray) else (len(labels[0]), len(labels))
    if m > 10 * n:
        warn_user(
            f"base_labels has {n} rows and {m} columns. Each row is an object and each column a clustering; if yours "
            "are the other way round, pass numpy.column_stack(base_labels).",
            UserWarning,
        )


def _warn_of_missing(labels: Iterable[Any]) -> None:
    """Warn where a word looks like a missing label: `numpy.column_stack` turns numbers beside words into words."""
    for label in labels:
        word = label.decode(errors="replace") if isinstance(label, bytes) else label
        if isinstance(word, str) and word in MISSING_WORDS:
            warn_user(
                f"base_labels has the word {str(word)!r}, a label like any other. Where it means that a row has none, "
                "pass -1, None or NaN; numpy.column_stack turns numbers beside words into words, frames and nested "
                "lists do not.",
                UserWarning,
            )
            return


def _frame_columns(frame: Any) -> list[Column] | None:
    """Columns of a pandas or polars frame, those with missing values as objects with None; None for anything else."""
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        series = [frame.iloc[:, j] for j in range(frame.shape[1])]
        return [s.to_numpy(dtype=object, na_value=None) if s.isna().any() else s.to_numpy() for s in series]
    if hasattr(frame, "get_columns"):
        series = frame.get_columns()
        return [_objects(s.to_list()) if s.null_count() else s.to_numpy() for s in series]
    return None


def _as_array(base_labels: Any) -> Column:
    """Nested lists without letting NumPy turn numbers into strings or fractions where a matrix mixes both."""
    if hasattr(base_labels, "__array__"):
        return np.asarray(base_labels)
    if isinstance(base_labels, (str, bytes, dict)) or not hasattr(base_labels, "__iter__"):
        raise TypeError(
            f"base_labels must be an array, a frame or nested lists with a row per object and a column per clustering, "
            f"got {type(base_labels).__name__}."
        )
    rows = [list(row) if isinstance(row, (list, tuple, np.ndarray)) else row for row in base_labels]
    lengths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(lengths) > 1:
        raise ValueError("base_labels has rows of different lengths; every row needs a label per clustering.")
    if not rows:
        return np.empty((0, 0))
    if lengths == {-1}:
        return np.asarray(rows)
    if all(isinstance(value, numbers.Integral) for row in rows for value in row):
        matrix = np.array(rows)
        if matrix.dtype.kind in "iub":
            return matrix
    return _objects([value for row in rows for value in row]).reshape(len(rows), lengths.pop())


def _objects(values: list[Any]) -> Column:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _integers(column: Column, j: int) -> Column:
    kind = column.dtype.kind
    if kind in "iu":
        return column
    if kind == "b":
        return column.view(np.uint8)
    if kind == "f":
        return _number_floats(column, j)
    if kind in "US":
        words, codes = np.unique(column, return_inverse=True)
        _warn_of_missing(words)
        return codes.reshape(-1)
    if kind in "OT":
        return _number_objects(column.astype(object), j)
    raise TypeError(f"Column {j} of base_labels has type {column.dtype}. Labels are integers or strings.")


def _number_floats(column: Column, j: int) -> Column:
    """Number whole floats; NaN and -1 are not assigned."""
    missing = np.isnan(column) | (column == UNASSIGNED)
    present = column[~missing]
    if not (np.isfinite(present).all() and (present == np.rint(present)).all()):
        raise _not_whole(j)
    codes = np.full(len(column), UNASSIGNED, dtype=np.int64)
    codes[~missing] = np.unique(present, return_inverse=True)[1].reshape(-1)
    return codes


def _number_objects(column: Column, j: int) -> Column:
    """Number objects in order of appearance; None, NaN, pandas' NA and -1 are not assigned."""
    found: dict[Any, int] = {}
    codes = np.empty(len(column), dtype=np.int64)
    for i, value in enumerate(column):
        if isinstance(value, (str, bytes)):
            codes[i] = found.setdefault(value, len(found))
        elif value is None or type(value).__name__ == "NAType":
            codes[i] = UNASSIGNED
        elif isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
            if value != value or value == UNASSIGNED:
                codes[i] = UNASSIGNED
                continue
            if value in (np.inf, -np.inf) or value != int(value):
                raise _not_whole(j)
            codes[i] = found.setdefault(int(value), len(found))
        else:
            raise TypeError(
                f"Column {j} of base_labels holds {value!r} ({type(value).__name__}). Labels are integers or strings."
            )
    _warn_of_missing(found)
    return codes


def _not_whole(j: int) -> ValueError:
    return ValueError(
        f"Column {j} of base_labels holds numbers that are not whole. Labels are integers or strings; is this a matrix "
        "of data instead of labels?"
    )
