"""Label matrices as users pass them: arrays, lists and frames of integers or strings, converted to integers."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._checks import warn_user

UNASSIGNED = -1
MISSING_STRINGS = {"-1", "-1.0", "nan", "None", "<NA>"}  # -1, NaN, None and NA, converted to strings

Column = npt.NDArray[Any]


def read_label_matrix(base_labels: Any) -> Column | list[Column]:
    """Return an integer matrix unchanged, and anything else as one integer array per clustering.

    In these, -1 means that the clustering does not assign the row.

    Raises
    ------
    ValueError, TypeError
        If `base_labels` is not a matrix of integers or strings.
    """
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
    """Warn if a matrix has many more columns than rows: its rows are probably the clusterings."""
    n, m = labels.shape if isinstance(labels, np.ndarray) else (len(labels[0]), len(labels))
    if m > 10 * n:
        warn_user(
            f"base_labels has {n} rows and {m} columns. Each row is an object and each column a clustering; if yours "
            "are the other way round, pass numpy.column_stack(base_labels).",
            UserWarning,
        )


def _warn_of_missing(labels: Iterable[Any]) -> None:
    """Warn if a string looks like a missing label, as `numpy.column_stack` makes of numbers beside strings."""
    for label in labels:
        text = label.decode(errors="replace") if isinstance(label, bytes) else label
        if isinstance(text, str) and text in MISSING_STRINGS:
            warn_user(
                f"base_labels has the string {str(text)!r}, which counts as a label. If it means that a row is not "
                "assigned, pass -1, None or NaN instead. numpy.column_stack converts numbers to strings if one column "
                "has strings; frames and nested lists keep the types.",
                UserWarning,
            )
            return


def _frame_columns(frame: Any) -> list[Column] | None:
    """Return the columns of a pandas or polars frame; None for anything else.

    Columns with missing values become arrays of objects, with None for these.
    """
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        series = [frame.iloc[:, j] for j in range(frame.shape[1])]
        return [s.to_numpy(dtype=object, na_value=None) if s.isna().any() else s.to_numpy() for s in series]
    if hasattr(frame, "get_columns"):
        series = frame.get_columns()
        return [_objects(s.to_list()) if s.null_count() else s.to_numpy() for s in series]
    return None


def _as_array(base_labels: Any) -> Column:
    """Convert nested lists to an array, of objects if types are mixed: NumPy would convert integers to strings."""
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
    """Convert the labels of clustering `j` to integers."""
    kind = column.dtype.kind
    if kind in "iu":
        return column
    if kind == "b":
        return column.view(np.uint8)
    if kind == "f":
        return _number_floats(column, j)
    if kind in "US":
        names, codes = np.unique(column, return_inverse=True)
        _warn_of_missing(names)
        return codes.reshape(-1)
    if kind in "OT":
        return _number_objects(column.astype(object), j)
    raise TypeError(f"Column {j} of base_labels has type {column.dtype}. Labels are integers or strings.")


def _number_floats(column: Column, j: int) -> Column:
    """Replace floats, which must be integers, by consecutive numbers; NaN and -1 become -1."""
    missing = np.isnan(column) | (column == UNASSIGNED)
    present = column[~missing]
    if not (np.isfinite(present).all() and (present == np.rint(present)).all()):
        raise _not_integers(j)
    codes = np.full(len(column), UNASSIGNED, dtype=np.int64)
    codes[~missing] = np.unique(present, return_inverse=True)[1].reshape(-1)
    return codes


def _number_objects(column: Column, j: int) -> Column:
    """Replace objects by consecutive numbers in order of appearance; None, NaN, NA of pandas and -1 become -1."""
    numbers_of: dict[Any, int] = {}
    codes = np.empty(len(column), dtype=np.int64)
    for i, value in enumerate(column):
        if isinstance(value, (str, bytes)):
            codes[i] = numbers_of.setdefault(value, len(numbers_of))
        elif value is None or type(value).__name__ == "NAType":
            codes[i] = UNASSIGNED
        elif isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
            if value != value or value == UNASSIGNED:  # NaN differs from itself
                codes[i] = UNASSIGNED
                continue
            if value in (np.inf, -np.inf) or value != int(value):
                raise _not_integers(j)
            codes[i] = numbers_of.setdefault(int(value), len(numbers_of))
        else:
            raise TypeError(
                f"Column {j} of base_labels has {value!r} ({type(value).__name__}). Labels are integers or strings."
            )
    _warn_of_missing(numbers_of)
    return codes


def _not_integers(j: int) -> ValueError:
    return ValueError(
        f"Column {j} of base_labels has numbers that are not integers. Labels are integers or strings; is this a "
        "matrix of data instead of labels?"
    )
