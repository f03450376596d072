"""Label matrices as users give them: takes arrays, lists and frames of integers or strings, gives integer columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

UNASSIGNED = -1


def read_labels(base_labels: Any) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
    """An integer matrix as it is, anything else as one integer array per clustering, -1 where a row is not assigned."""
    columns = _split(base_labels)
    if isinstance(base_labels, np.ndarray) and base_labels.dtype.kind in "iu":
        return base_labels
    return [_integers(column, j) for j, column in enumerate(columns)]


def _split(base_labels: Any) -> list[npt.NDArray[Any]]:
    if hasattr(base_labels, "iloc") and hasattr(base_labels, "columns"):  # pandas
        columns = [base_labels.iloc[:, j].to_numpy() for j in range(base_labels.shape[1])]
    elif hasattr(base_labels, "get_columns"):  # polars
        columns = [column.to_numpy() for column in base_labels.get_columns()]
    else:
        matrix = base_labels if isinstance(base_labels, np.ndarray) else _as_array(base_labels)
        if matrix.ndim != 2:
            raise ValueError(
                f"base_labels must be a matrix with a row per object and a column per clustering, got "
                f"{matrix.ndim} dimension(s). One clustering alone needs no consensus; several are stacked with "
                "numpy.column_stack."
            )
        columns = [matrix[:, j] for j in range(matrix.shape[1])]
    if not columns or not len(columns[0]):
        raise ValueError("base_labels is empty: it needs a row per object and a column per clustering.")
    return columns


def _as_array(base_labels: Any) -> npt.NDArray[Any]:
    """Nested lists without letting NumPy turn numbers into strings where a row mixes both."""
    if hasattr(base_labels, "__array__"):
        return np.asarray(base_labels)
    rows = [list(row) if isinstance(row, (list, tuple, np.ndarray)) else row for row in base_labels]
    plain = all(isinstance(v, (int, np.integer)) for row in rows if isinstance(row, list) for v in row)
    lengths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(lengths) > 1:
        raise ValueError("base_labels has rows of different lengths; every row needs a label per clustering.")
    if lengths == {-1}:
        return np.asarray(rows)
    if plain:
        return np.array(rows)
    matrix = np.empty((len(rows), lengths.pop() if lengths else 0), dtype=object)
    for i, row in enumerate(rows):
        matrix[i] = row
    return matrix


def _integers(column: npt.NDArray[Any], j: int) -> npt.NDArray[Any]:
    kind = column.dtype.kind
    if kind in "iu":
        return column
    if kind == "b":
        return column.view(np.uint8)
    if kind == "f":
        missing = np.isnan(column)
        whole = np.where(missing, UNASSIGNED, column)
        if not (np.isfinite(whole).all() and (whole == np.rint(whole)).all()):
            raise ValueError(
                f"Column {j} of base_labels holds numbers that are not whole. Labels are integers or strings; is this "
                "a matrix of data instead of labels?"
            )
        return whole.astype(np.int64)
    if kind in "UST":
        return np.unique(column, return_inverse=True)[1].reshape(-1)
    if kind == "O":
        return _number_objects(column, j)
    raise TypeError(f"Column {j} of base_labels has type {column.dtype}. Labels are integers or strings.")


def _number_objects(column: npt.NDArray[Any], j: int) -> npt.NDArray[np.int64]:
    """Number objects in order of appearance; None, NaN and -1 are not assigned."""
    numbers: dict[Any, int] = {}
    codes = np.empty(len(column), dtype=np.int64)
    for i, value in enumerate(column):
        if value is None or value != value or value == UNASSIGNED:
            codes[i] = UNASSIGNED
        elif isinstance(value, (str, bytes, int, np.integer, float, np.floating)):
            codes[i] = numbers.setdefault(value, len(numbers))
        else:
            raise TypeError(
                f"Column {j} of base_labels holds {value!r} ({type(value).__name__}). Labels are integers or strings."
            )
    return codes
