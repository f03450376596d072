"""Missing and infinite values: count them by column, leave out the rows that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.engines.threads import ThreadEngine, engine_for
from ultraspec.rows import Block, CompleteRows, NotFinite, Rows, RowView, Span, has_missing

Numbers = Sequence[int] | npt.NDArray[np.int64]


@dataclass
class _Count:
    """Values that are not finite in some rows."""

    by_column: npt.NDArray[np.int64] | None = None  #: number of such values; None without any
    n_rows: int = 0  #: number of rows that have some
    first: tuple[int, int, float] | None = None  #: row, column and value of the first one

    def add(self, block: Block, span: Span) -> None:
        """Count those of a block."""
        sparse = scipy.sparse.issparse(block)
        values: Any = block.data if sparse else block
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return
        if sparse:
            places = np.flatnonzero(~np.isfinite(values))
            rows = np.searchsorted(block.indptr, places, side="right") - 1
            columns = block.indices[places]
            value = values[places[0]]
        else:
            rows, columns = np.nonzero(~np.isfinite(values))
            value = values[rows[0], columns[0]]
        part = _Count(
            np.bincount(columns, minlength=block.shape[1]),
            len(np.unique(rows)),
            (span[0] + int(rows[0]), int(columns[0]), float(value)),
        )
        vars(self).update(vars(merge_counts(self, part)))


def merge_counts(a: _Count, b: _Count) -> _Count:
    """Return the count of two sets of rows, of which the first comes first."""
    if a.by_column is None or b.by_column is None:
        return b if a.by_column is None else a
    return _Count(a.by_column + b.by_column, a.n_rows + b.n_rows, a.first)


def find_not_finite(
    rows: Rows, engine: ThreadEngine, names: Sequence[str] | None = None, numbers: Numbers | None = None
) -> NotFinite | None:
    """Count NaN and infinity in one pass over the rows; return the error to raise, or None if there are none.

    The `names` of columns and `numbers` of rows are for its message.
    """
    count = engine.fold_rows(rows, _Count, _add, merge_counts)
    if count.by_column is None or count.first is None:
        return None
    row, column, value = count.first
    labels: Sequence[Any] = range(rows.n_features) if names is None else [str(name) for name in names]
    counts = {labels[index]: int(count.by_column[index]) for index in np.flatnonzero(count.by_column).tolist()}
    while isinstance(rows, RowView):
        rows = rows.rows
    if isinstance(rows, CompleteRows):
        row = int(rows.original(np.array([row]))[0])
    row = row if numbers is None else int(numbers[row])
    return NotFinite(value, labels[column], row, counts, count.n_rows, rows.n_rows)


def _add(count: _Count, block: Block, span: Span) -> None:
    count.add(block, span)


@contextmanager
def counting_not_finite(
    rows: Rows, n_jobs: int | None, names: Sequence[str] | None, numbers: Numbers | None = None
) -> Iterator[None]:
    """Count NaN and infinity in all rows if the body finds one in a part of them."""
    try:
        yield
    except NotFinite as error:
        if error.n_rows == rows.n_rows:  # all were counted already
            raise
        with engine_for(rows, n_jobs) as engine:
            raise (find_not_finite(rows, engine, names, numbers) or error) from None


def drop_missing(rows: Rows, n_jobs: int | None) -> Rows:
    """Return the rows without those that have NaN, in one pass over local rows; raise ValueError if none is left."""
    if rows.remote:
        from ultraspec.rows.dask import complete_dask_rows

        complete: Rows = complete_dask_rows(rows)
    else:

        def find(block: Block, span: Span) -> npt.NDArray[np.int64]:
            return np.flatnonzero(has_missing(block)) + span[0]

        with ThreadEngine(n_jobs) as engine:
            missing = np.concatenate([np.empty(0, dtype=np.int64), *engine.map_rows(rows, find)])
        complete = CompleteRows(rows, missing) if len(missing) else rows
    if complete.n_rows == 0:
        raise ValueError(f"All {rows.n_rows:,} rows have missing values, so none is left.")
    return complete
