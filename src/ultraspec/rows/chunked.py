"""Rows of files in chunks (row groups, stored chunks) that have to be decoded completely.

Chunks are not aligned with blocks, so decoded chunks are cached. The cache is bounded: it holds the most recent chunks
up to `CACHE_BYTES`, and the chunk that each thread read last. Without the latter, a thread that reads through a chunk
could have to decode it again for every block.
"""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ultraspec.rows.columns import Columns
from ultraspec.rows.file_rows import Array, FileRows, FileSource
from ultraspec.rows.interface import Block

CACHE_BYTES = 2**26
CHUNK_BYTES = 2**23  # size of a chunk, about, if the file leaves the choice
MOST_CHUNK_BYTES = 2**27  # data in larger chunks is written out: even a few of them would take too much memory
STRIP_BYTES = 2**22  # decoded by one thread, of a chunk that several threads wait for

Decode = Callable[[slice, Array], Array]


class Chunk:
    """A chunk that is decoded by all threads that need it, each of them a strip of columns at a time.

    Each chunk has a new buffer for the values: large arrays are returned to the system when they are freed.
    """

    def __init__(self, buffer: Array, n_strips: int) -> None:
        self.buffer = buffer
        self.strips: list[Any] = [None] * n_strips  # 2-d arrays with all rows of the chunk, and consecutive columns
        self.failed = False  # whether decoding failed in some thread
        self._bounds = [buffer.shape[1] * strip // n_strips for strip in range(n_strips + 1)]
        self._n_started = 0
        self._n_done = 0
        self._changed = threading.Condition()

    def complete(self, decode: Decode) -> bool:
        """Decode the strips that no other thread has started, and wait for the others; return False if one failed."""
        while (strip := self._next_strip()) is not None:
            try:
                columns = slice(self._bounds[strip], self._bounds[strip + 1])
                self.strips[strip] = decode(columns, self.buffer[:, columns])
            except BaseException:
                self._finish_strip(failed=True)
                raise
            self._finish_strip(failed=False)
        with self._changed:
            self._changed.wait_for(lambda: self.failed or self._n_done == len(self.strips))
            return not self.failed

    def _next_strip(self) -> int | None:
        with self._changed:
            if self.failed or self._n_started == len(self.strips):
                return None
            self._n_started += 1
            return self._n_started - 1

    def _finish_strip(self, *, failed: bool) -> None:
        with self._changed:
            self._n_done += 1
            self.failed |= failed
            self._changed.notify_all()

    def copy_rows(self, rows: slice | npt.NDArray[np.int64], out: Array, part: slice) -> Array:
        """Copy rows to a part of `out`; return `out`, or a copy of type float64 if it must hold NaN but cannot."""
        needed = np.result_type(out.dtype, *(strip.dtype for strip in self.strips))
        if needed != out.dtype and out.dtype.kind in "iu" and needed.kind == "f":
            out = out.astype(np.float64)
        low = 0
        for strip in self.strips:
            high = low + strip.shape[1]
            out[part, low:high] = strip[rows]
            low = high
        return out


class ChunkCache:
    """Chunks that are in use or were recently."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: WeakValueDictionary[int, Chunk] = WeakValueDictionary()
        self._recent: OrderedDict[int, Chunk] = OrderedDict()
        self._of_thread = threading.local()

    def get(self, number: int, shape: tuple[int, int], dtype: np.dtype, n_strips: int, decode: Decode) -> Chunk:
        """Return a decoded chunk; threads that need the same one decode it together."""
        while True:
            with self._lock:
                chunk = self._alive.get(number)
                if chunk is None or chunk.failed:
                    self._of_thread.chunk = None  # freed before more memory is allocated
                    self._evict(shape[0] * shape[1] * dtype.itemsize)
                    chunk = self._alive[number] = Chunk(np.empty(shape[::-1], dtype=dtype).T, n_strips)
            if chunk.complete(decode):
                break
        self._of_thread.chunk = chunk
        with self._lock:
            self._recent[number] = chunk
            self._recent.move_to_end(number)
            self._evict(0)
        return chunk

    def _evict(self, n_bytes: int) -> None:
        """Remove the oldest chunks until `n_bytes` more fit into the cache."""
        total = n_bytes + sum(chunk.buffer.nbytes for chunk in self._recent.values())
        while total > CACHE_BYTES and self._recent:
            total -= self._recent.popitem(last=False)[1].buffer.nbytes


class ChunkedRows(FileRows):
    """Rows of a file in chunks. Subclasses implement `_decode`.

    Parameters
    ----------
    source : FileSource
        The file or folder.
    bounds : sequence of int
        First row of each chunk, and the number of rows.
    columns : Columns
        The chosen columns.
    dtype : dtype
        Type of the values.
    """

    def __init__(
        self,
        source: FileSource,
        bounds: Sequence[int] | npt.NDArray[np.int64],
        columns: Columns,
        dtype: npt.DTypeLike,
    ) -> None:
        self._bounds = np.asarray(bounds, dtype=np.int64)
        super().__init__(source, int(self._bounds[-1]), columns, dtype)

    def _set_columns(self, columns: Columns) -> None:
        super()._set_columns(columns)
        self._cache = ChunkCache()

    @abstractmethod
    def _decode(self, number: int, columns: slice, buffer: Array) -> Array:
        """Decode a slice of the chosen columns of chunk `number` into `buffer` and return it, or another array."""

    def _n_strips(self, n_bytes: int) -> int:
        """Return the number of strips that a chunk of `n_bytes` is decoded in."""
        return max(1, min(self.n_features, n_bytes // STRIP_BYTES))

    def _chunk(self, number: int) -> Chunk:
        self._check_open()
        shape = int(self._bounds[number + 1] - self._bounds[number]), self.n_features
        n_strips = self._n_strips(shape[0] * shape[1] * self.dtype.itemsize)
        return self._cache.get(number, shape, self.dtype, n_strips, functools.partial(self._decode, number))

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``."""
        start, stop = self._clip_span(start, stop)
        out = np.empty((stop - start, self.n_features), dtype=self.dtype)
        first, last = np.searchsorted(self._bounds, (start, stop - 1), side="right") - 1
        for number in range(first, last + 1 if stop > start else first):
            begin = self._bounds[number]
            low = max(start, begin)
            high = min(stop, self._bounds[number + 1])
            out = self._chunk(number).copy_rows(slice(low - begin, high - begin), out, slice(low - start, high - start))
        return out

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`; each chunk that has some of them is decoded once."""
        self._check_indices(indices)
        out = np.empty((len(indices), self.n_features), dtype=self.dtype)
        cuts = np.searchsorted(indices, self._bounds)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(cuts[number], cuts[number + 1])
            out = self._chunk(number).copy_rows(indices[part] - self._bounds[number], out, part)
        return out

    def close(self) -> None:
        """Free the cache; the rows cannot be read afterwards."""
        super().close()
        self._cache = ChunkCache()
