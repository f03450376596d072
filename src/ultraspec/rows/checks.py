"""Checks of the values that users pass as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import join_names
from ultraspec.rows.errors import NotFinite, NotNumeric
from ultraspec.rows.interface import Block

Numbers = Sequence[int] | npt.NDArray[np.int64]

LEAST_IDS = 100  # rows: fewer may be in order by chance, or made by hand


def check_finite(block: Block, numbers: Numbers, names: Sequence[str] | None) -> None:
    """Raise `NotFinite` for the first NaN or infinity of a block; `numbers` are its row numbers in the data."""
    import scipy.sparse  # slow, and not needed to report a wrong command line

    sparse = scipy.sparse.issparse(block)
    values: Any = block.data if sparse else block
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if sparse:
        first = int(np.flatnonzero(~np.isfinite(block.data))[0])
        row = int(np.searchsorted(block.indptr, first, side="right") - 1)
        column = int(block.indices[first])
        value = float(block.data[first])
    else:
        row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
        value = float(block[row, column])
    raise NotFinite(value, column if names is None else names[column], int(numbers[row]))


def check_numeric_frame(X: Any) -> bool:
    """Return whether X is a data frame; raise if it has repeated column names or columns that are not numeric."""
    if hasattr(X, "collect_schema") and not hasattr(X, "shape"):
        raise TypeError("X is a lazy frame that cannot be streamed. Upgrade its library, or pass X.collect().")
    if not (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")):
        return False
    names = list(X.columns)
    types = list(X.dtypes)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"X has more than one column named {join_names(repeated)}. Rename columns, or pass X.to_numpy(), which has "
            "no names."
        )
    numeric = [_is_numeric(X, index, kind) for index, kind in enumerate(types)]
    if not all(numeric):
        good = {name: X[name] for name, is_numeric in zip(names, numeric, strict=True) if is_numeric}
        raise NotNumeric(
            {name: kind for name, kind, is_numeric in zip(names, types, numeric, strict=True) if not is_numeric},
            without_ids({name: column.to_numpy() for name, column in good.items()}),
        )
    return True


def is_increasing(column: npt.NDArray[Any]) -> bool:
    """Return whether a column holds integers that increase from row to row, as row numbers do."""
    if column.dtype.kind not in "iuf" or not (column[1:] > column[:-1]).all():
        return False
    return column.dtype.kind != "f" or bool((column == np.rint(column)).all())


def without_ids(columns: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """Return the names of columns without those that are probably ids, or all names if nothing would be left.

    Examples
    --------
    >>> without_ids({"id": np.arange(200), "height": np.ones(200)})
    ['height']
    """
    good = [name for name, values in columns.items() if len(values) < LEAST_IDS or not is_increasing(values)]
    return good or list(columns)


def _is_numeric(X: Any, index: int, kind: Any) -> bool:
    """Return whether the column at `index` of a frame, which has the type `kind`, can be converted to numbers."""
    if hasattr(kind, "is_numeric"):  # polars
        return bool(kind.is_numeric()) or str(kind) in ("Boolean", "Null")
    if getattr(kind, "kind", "O") in "biufc":
        return True
    column = X.iloc[:, index].dropna() if hasattr(X, "iloc") else None
    if column is None or getattr(kind, "kind", "O") in "mM" or hasattr(kind, "categories"):
        return False  # also categories that are numbers, which are only names
    if any(isinstance(value, (str, bytes)) for value in column.unique()):
        return False  # also digits: an article number is no quantity
    try:
        column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def check_not_masked(X: Any) -> None:
    """Raise if X is a masked array with masked values."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"X has {int(np.ma.getmaskarray(X).sum()):,} masked values, and distances to rows with missing values are "
            "not defined. Fill them (X.filled(...), or an imputer) or drop their rows."
        )
