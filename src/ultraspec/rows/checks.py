"""Checks of the values that users pass as rows, with error messages that say what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import join_names
from ultraspec.rows._base import Block
from ultraspec.rows.errors import NotFinite, NotNumeric

Numbers = Sequence[int] | npt.NDArray[np.int64]


def check_finite(raw: Block, numbers: Numbers, names: Sequence[str] | None) -> None:
    """Raise a ValueError that names the column and row of the first NaN or infinity; `numbers` are the rows' own."""
    import scipy.sparse  # slow, and not needed to report a wrong command line

    values: Any = raw.data if scipy.sparse.issparse(raw) else raw
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if scipy.sparse.issparse(raw):
        at = int(np.flatnonzero(~np.isfinite(raw.data))[0])
        row, column = int(np.searchsorted(raw.indptr, at, side="right") - 1), int(raw.indices[at])
        value = float(raw.data[at])
    else:
        row, column = (int(i) for i in np.argwhere(~np.isfinite(raw))[0])
        value = float(raw[row, column])
    raise NotFinite(value, column if names is None else names[column], int(numbers[row]))


def check_numeric_frame(X: Any) -> bool:
    """Raise, with their names, where columns of a frame hold words, dates or the like; gives whether it is a frame."""
    if hasattr(X, "collect_schema") and not hasattr(X, "shape"):
        raise TypeError("X is a lazy frame, which holds no rows yet. Pass X.collect().")
    if not (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")):
        return False
    names, kinds = list(X.columns), dict(enumerate(X.dtypes))
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"X has more than one column named {join_names(twice)}. Rename columns, or pass X.to_numpy(), which has no "
            "names."
        )
    bad = [place for place, kind in kinds.items() if not _holds_numbers(X, place, kind)]
    if bad:
        good = [names[place] for place in kinds if place not in bad]
        raise NotNumeric({names[place]: kinds[place] for place in bad}, good)
    return True


def _holds_numbers(X: Any, place: int, kind: Any) -> bool:
    if hasattr(kind, "is_numeric"):  # polars
        return bool(kind.is_numeric()) or str(kind) in ("Boolean", "Null")
    if getattr(kind, "kind", "O") in "biufc":
        return True
    column = X.iloc[:, place].dropna() if hasattr(X, "iloc") else None
    if column is None or getattr(kind, "kind", "O") in "mM":
        return False
    if any(isinstance(value, (str, bytes)) for value in column.unique()):
        return False  # also digits: an article number is no quantity
    try:
        column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def check_not_masked(X: Any) -> None:
    """Raise where X is a masked array with masked values."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"X has {int(np.ma.getmaskarray(X).sum()):,} masked values, and rows with gaps have no distances. "
            "Fill them (X.filled(...), or an imputer) or drop their rows."
        )
