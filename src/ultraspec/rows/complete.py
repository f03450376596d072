"""Rows without missing values: a view that leaves out rows with NaN, and results for all rows again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows.in_memory import small_blocks
from ultraspec.rows.interface import Block, Rows, RowView


def has_missing(block: Block) -> npt.NDArray[np.bool_]:
    """Return whether each row of a block has a NaN.

    Examples
    --------
    >>> has_missing(np.array([[1.0, 2.0], [np.nan, 3.0]]))
    array([False,  True])
    """
    sparse = hasattr(block, "indptr")
    values: Any = block.data if sparse else block
    if values.dtype.kind != "f":
        return np.zeros(block.shape[0], dtype=bool)
    gaps = np.isnan(values)
    if not sparse:
        return gaps.any(axis=1)
    owners = np.searchsorted(block.indptr, np.flatnonzero(gaps), side="right") - 1
    found = np.zeros(block.shape[0], dtype=bool)
    found[owners] = True
    return found


class CompleteRows(Rows):
    """A row source without some rows of another one.

    Attributes
    ----------
    rows : Rows
        The source with all rows.
    missing : ndarray of int64
        Numbers of the rows that are left out, in increasing order.

    Examples
    --------
    >>> from ultraspec.rows import ArrayRows
    >>> rows = CompleteRows(ArrayRows(np.arange(5)[:, None]), np.array([1, 2]))
    >>> rows.read(0, 3).ravel(), rows.take(np.array([1, 2])).ravel()
    (array([0, 3, 4]), array([3, 4]))
    """

    def __init__(self, rows: Rows, missing: npt.NDArray[np.int64]) -> None:
        self.rows = rows
        self.missing = missing
        self.n_rows = rows.n_rows - len(missing)
        self.n_features = rows.n_features
        self.sparse = rows.sparse
        self.names = rows.names
        self.in_memory = rows.in_memory
        self._shifted = missing - np.arange(len(missing))  # number of the complete row that follows each

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return small_blocks(self.n_rows, super().block_rows) if self.sparse else super().block_rows

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop`` of those that are complete."""
        if start >= stop:
            return self.rows.read(0, 0)
        first, last = self.original(np.array([start, stop - 1])).tolist()
        block = self.rows.read(first, last + 1)
        low, high = np.searchsorted(self.missing, [first, last + 1])
        if low == high:
            return block
        keep = np.ones(last + 1 - first, dtype=bool)
        keep[self.missing[low:high] - first] = False
        return block[keep]

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the complete rows at `indices`."""
        return self.rows.take(self.original(indices))

    def original(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers, among all rows, of the complete rows at `indices`."""
        return indices + np.searchsorted(self._shifted, indices, side="right")

    def close(self) -> None:
        """Close the source."""
        self.rows.close()


class SelectedRows(Rows):
    """Some rows of another source, by their numbers in increasing order.

    Examples
    --------
    >>> from ultraspec.rows import ArrayRows
    >>> rows = SelectedRows(ArrayRows(np.arange(5)[:, None]), np.array([1, 2, 4]))
    >>> rows.read(1, 3).ravel(), rows.take(np.array([0, 2])).ravel()
    (array([2, 4]), array([1, 4]))
    """

    def __init__(self, rows: Rows, numbers: npt.NDArray[np.int64]) -> None:
        self.rows = rows
        self.numbers = numbers
        self.n_rows = len(numbers)
        self.n_features = rows.n_features
        self.sparse = rows.sparse
        self.names = rows.names
        self.in_memory = rows.in_memory

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return small_blocks(self.n_rows, super().block_rows) if self.sparse else super().block_rows

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop`` of those that are selected."""
        return self.rows.take(self.numbers[start:stop])

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the selected rows at `indices`."""
        return self.rows.take(self.numbers[indices])

    def close(self) -> None:
        """Close the source."""
        self.rows.close()


def missing_of(rows: Rows | None) -> npt.NDArray[np.int64] | None:
    """Return the numbers of the rows that a source leaves out; None if it leaves out none."""
    while isinstance(rows, RowView):
        rows = rows.rows
    return rows.missing if isinstance(rows, CompleteRows) else None


def spread(values: Any, missing: npt.NDArray[np.int64] | None) -> Any:
    """Return values of complete rows as values of all rows: -1 (integers) or NaN (floats) where rows are missing.

    Examples
    --------
    >>> spread(np.array([5, 6]), np.array([1]))
    array([ 5, -1,  6])
    """
    if values is None or missing is None or not len(missing):
        return values
    keep = np.ones(len(values) + len(missing), dtype=bool)
    keep[missing] = False
    return spread_block(values, keep)


def spread_block(values: Any, keep: npt.NDArray[np.bool_]) -> Any:
    """Return values of the rows in `keep` as values of all rows, see `spread`."""
    out = np.full((len(keep), *values.shape[1:]), np.nan if values.dtype.kind == "f" else -1, dtype=values.dtype)
    out[keep] = values
    return out
