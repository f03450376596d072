"""Rows of files that are stored in pieces (row groups, chunks), each of which has to be decoded whole.

Pieces do not line up with blocks, so the last ones are kept. What is kept is bounded: the last pieces up to
`KEPT_BYTES`, and the piece that each thread read last, as a thread that reads its way through a piece would otherwise
decode it again for every block.
"""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ultraspec.rows._base import Block
from ultraspec.rows._file import Array, Columns, FileRows

KEPT_BYTES = 2**26
MOST_PIECE_BYTES = 2**27  # of larger pieces a few at a time are too many: such data is written out as a plain matrix
PIECE_BYTES = 2**23  # about what pieces have where the file leaves the choice
SHARE_BYTES = 2**22  # what one thread decodes of a piece that several threads wait for

Decode = Callable[[slice, Array], Array]


class Piece:
    """A piece that is being decoded, by all threads that want it, or is done.

    Parameters
    ----------
    room : ndarray
        Room for its values. One array per piece: large ones go back to the system when they are freed.
    n_shares : int
        Number of runs of columns that are decoded by one thread each.

    Attributes
    ----------
    shares : list of ndarray
        Its columns in runs, side by side: 2-d arrays with all rows of the piece.
    failed : bool
        Whether a thread gave up decoding.
    """

    def __init__(self, room: Array, n_shares: int) -> None:
        self.room, self._bounds = room, [room.shape[1] * share // n_shares for share in range(n_shares + 1)]
        self.shares: list[Any] = [None] * n_shares
        self.failed = False
        self._begun = self._done = 0
        self._news = threading.Condition()

    def complete(self, decode: Decode) -> bool:
        """Decode what no other thread has begun and wait for the others; False if one of them failed."""
        while (share := self._next()) is not None:
            try:
                columns = slice(self._bounds[share], self._bounds[share + 1])
                self.shares[share] = decode(columns, self.room[:, columns])
            except BaseException:
                self._tell(failed=True)
                raise
            self._tell(failed=False)
        with self._news:
            self._news.wait_for(lambda: self.failed or self._done == len(self.shares))
            return not self.failed

    def _next(self) -> int | None:
        with self._news:
            if self.failed or self._begun == len(self.shares):
                return None
            self._begun += 1
            return self._begun - 1

    def _tell(self, *, failed: bool) -> None:
        with self._news:
            self._done += 1
            self.failed |= failed
            self._news.notify_all()


class PieceCache:
    """The pieces that are in use or were lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: WeakValueDictionary[int, Piece] = WeakValueDictionary()
        self._recent: OrderedDict[int, Piece] = OrderedDict()
        self._own = threading.local()

    def get(self, number: int, shape: tuple[int, int], dtype: np.dtype, n_shares: int, decode: Decode) -> Piece:
        """A decoded piece; threads that want the same one decode it together."""
        while True:
            with self._lock:
                piece = self._alive.get(number)
                if piece is None or piece.failed:
                    self._own.piece = None  # what it held goes before there is more
                    self._forget(shape[0] * shape[1] * dtype.itemsize)
                    piece = self._alive[number] = Piece(np.empty(shape[::-1], dtype=dtype).T, n_shares)
            if piece.complete(decode):
                break
        self._own.piece = piece
        with self._lock:
            self._recent[number] = piece
            self._recent.move_to_end(number)
            self._forget(0)
        return piece

    def _forget(self, n_bytes: int) -> None:
        """Let go of the oldest pieces, so that `n_bytes` more do not make too many."""
        total = n_bytes + sum(piece.room.nbytes for piece in self._recent.values())
        while total > KEPT_BYTES and self._recent:
            total -= self._recent.popitem(last=False)[1].room.nbytes


class PieceRows(FileRows):
    """Rows of a file in pieces.

    Parameters
    ----------
    path : Path
        The file or folder.
    bounds : sequence of int
        First row of each piece, and the number of rows.
    columns : Columns
        The chosen ones.
    dtype : dtype
        Of the values.
    options : dict
        For `open_rows`, to open the file anew.
    """

    def __init__(
        self,
        path: Path,
        bounds: Sequence[int] | npt.NDArray[np.int64],
        columns: Columns,
        dtype: npt.DTypeLike,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._bounds = np.asarray(bounds, dtype=np.int64)
        super().__init__(path, int(self._bounds[-1]), columns, dtype, options)

    def _set_columns(self, columns: Columns) -> None:
        super()._set_columns(columns)
        self._cache = PieceCache()

    @abstractmethod
    def _decode(self, number: int, columns: slice, room: Array) -> Array:
        """All rows of a piece, and those of the chosen columns that the slice names: in `room`, or in another array."""

    def _shares(self, n_bytes: int) -> int:
        """Into how many runs of columns decoding a piece is cut."""
        return max(1, min(self.n_features, n_bytes // SHARE_BYTES))

    def _piece(self, number: int) -> Piece:
        self._check_open()
        shape = int(self._bounds[number + 1] - self._bounds[number]), self.n_features
        n_shares = self._shares(shape[0] * shape[1] * self.dtype.itemsize)
        return self._cache.get(number, shape, self.dtype, n_shares, functools.partial(self._decode, number))

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start .. stop``."""
        start, stop = self._span(start, stop)
        out = np.empty((stop - start, self.n_features), dtype=self.dtype)
        first, last = np.searchsorted(self._bounds, (start, stop - 1), side="right") - 1
        for number in range(first, last + 1 if stop > start else first):
            low, high = max(start, self._bounds[number]), min(stop, self._bounds[number + 1])
            here = slice(low - self._bounds[number], high - self._bounds[number])
            out = _fill(out, slice(low - start, high - start), self._piece(number), here)
        return out

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Rows at `indices`: every piece that has some of them is decoded once."""
        self._check_indices(indices)
        out = np.empty((len(indices), self.n_features), dtype=self.dtype)
        cuts = np.searchsorted(indices, self._bounds)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(cuts[number], cuts[number + 1])
            out = _fill(out, part, self._piece(number), indices[part] - self._bounds[number])
        return out

    def close(self) -> None:
        """Let go of what is kept of the file."""
        super().close()
        self._cache = PieceCache()


def _fill(out: Array, part: slice, piece: Piece, rows: slice | npt.NDArray[np.int64]) -> Array:
    """Copy rows of a piece to a part of `out`; gives `out`, or a copy if its type has no NaN for missing values."""
    needed = np.result_type(out.dtype, *(share.dtype for share in piece.shares))
    if needed != out.dtype and out.dtype.kind in "iu" and needed.kind == "f":
        out = out.astype(np.float64)
    low = 0
    for share in piece.shares:
        high = low + share.shape[1]
        out[part, low:high] = share[rows]
        low = high
    return out
