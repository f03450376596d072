"""Rows of a Dask array or data frame, which are read on the workers that hold the chunks.

Each task works on a chunk of rows. Arrays with more than one chunk along the columns are rechunked, and unknown chunk
lengths are counted first. Chunks may be NumPy arrays, SciPy sparse matrices or pandas frames.
"""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse
from dask.delayed import Delayed

from ultraspec._kernels.blas import single_blas_thread
from ultraspec.rows.checks import check_not_masked, check_numeric_frame
from ultraspec.rows.complete import has_missing
from ultraspec.rows.dask_graph import compute_all, pack, unpack
from ultraspec.rows.in_memory import ArrayRows, SparseRows, small_blocks, to_canonical_csr
from ultraspec.rows.interface import (
    BLOCK_VALUES,
    MOST_BLOCK_ROWS,
    NO_WEIGHTS,
    Block,
    Rows,
    RowView,
    Span,
    cut_span,
    is_lazy,
)
from ultraspec.rows.weights import InvalidWeight, RowWeights, WeightFacts, check_length, to_weights

T = TypeVar("T")


class DaskRows(Rows):
    """Rows of a Dask array with one chunk along the columns; `lengths` are the numbers of rows of the chunks."""

    in_memory = False
    remote = True

    def __init__(self, array: Any, lengths: npt.NDArray[np.int64], names: list[str] | None = None) -> None:
        self.array = array
        self.names = names
        self.n_features = int(array.shape[1])
        self.dtype = np.dtype(array.dtype)
        self.sparse = scipy.sparse.issparse(array._meta)
        self.chunks = array.to_delayed()[:, 0].tolist()
        self.lengths = lengths
        self.counted = lengths.any()  # whether the lengths are known
        self.bounds = np.concatenate([[0], np.cumsum(lengths)])  # first row of each chunk, and the number of rows
        self.n_rows = int(self.bounds[-1])
        self.weight_chunks: list[Any] | None = None  # vectors of weights, one for each chunk

    def with_weights(self, weights: DaskWeights) -> DaskRows:
        """Return these rows with weights."""
        other = copy.copy(self)
        other.weights = weights
        other.weight_chunks = weights.chunks
        return other

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return small_blocks(self.n_rows, super().block_rows) if self.sparse else super().block_rows

    @property
    def filled(self) -> list[int]:
        """Numbers of the chunks that have rows."""
        return np.flatnonzero(self.lengths).tolist()

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order; each is within one chunk."""
        return [span for run in self.runs(0) for span in run]

    def runs(self, most: int) -> list[Sequence[Span]]:
        """Return the blocks of each chunk that has rows."""
        return chunk_runs(self.lengths, self.block_rows)

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``, sent to this process."""
        return self.take(np.arange(start, stop))

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`, sent to this process."""
        parts = self.gather(indices, _identity)
        if self.sparse:
            return scipy.sparse.vstack(parts, format="csr")
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), dtype=self.dtype)

    def gather(self, indices: npt.NDArray[np.int64], function: Callable[[Block], T]) -> list[T]:
        """Return the results of `function` for the rows at `indices`, computed on the workers that hold them."""
        import dask

        cuts = np.searchsorted(indices, self.bounds)
        state = pack(function)
        call = dask.delayed(_take, pure=False)
        name = f"take-{uuid.uuid4().hex}"
        return compute_all(
            call(
                state.key,
                state,
                self.chunks[number],
                indices[low:high] - self.bounds[number],
                dask_key_name=(name, number),
            )
            for number, (low, high) in enumerate(itertools.pairwise(cuts))
            if low < high
        )

    def __copy__(self) -> DaskRows:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> None:
        raise TypeError("Rows of a Dask collection cannot be pickled: workers already hold the data.")


class DaskWeights(RowWeights):
    """Weights of rows on a cluster, as delayed vectors, one for each chunk of the rows."""

    def __init__(self, chunks: Sequence[Any], lengths: npt.NDArray[np.int64], scale: float | None = None) -> None:
        import dask

        bounds = np.concatenate([[0], np.cumsum(lengths)])
        facts = dask.delayed(_weight_facts, pure=False)
        args = zip(chunks, lengths.tolist(), bounds.tolist(), strict=False)
        super().__init__(bounds, compute_all(facts(chunk, length, first) for chunk, length, first in args), scale)
        scaled = dask.delayed(_scaled_weights, pure=True)
        self.chunks = [scaled(chunk, self.scale) for chunk in chunks]

    def read(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the weights of rows ``start .. stop``, sent to this process."""
        return self.take(np.arange(start, stop))

    def map(self, function: Callable[..., T], arguments: Sequence[Any], parts: Sequence[int]) -> list[T]:
        """Return ``function(weights, argument)`` for some chunks and an argument for each, computed on the workers."""
        import dask

        call = dask.delayed(function, pure=False)
        return compute_all(call(self.chunks[part], value) for part, value in zip(parts, arguments, strict=True))


def open_weights(rows: DaskRows, weights: Any, scale: float | None = None) -> DaskWeights:
    """Return the weights of rows on a cluster: of a Dask array or column with the same chunks, or of an array.

    Weights of rows that were left out because values are missing are left out, too.
    """
    import dask

    every = rows.every if isinstance(rows, CompleteDaskRows) else rows
    n_rows, n_chunks = every.n_rows, len(every.chunks)
    if not is_lazy(weights):
        check_length(len(weights), n_rows)
        chunks = [dask.delayed(part, pure=False) for part in np.split(weights, every.bounds[1:-1])]
    else:
        if getattr(weights, "ndim", 0) != 1:
            raise InvalidWeight(f"is a Dask {type(weights).__name__}", "Pass an array of one dimension, or a column.")
        if hasattr(weights, "chunks") and not np.isnan(weights.chunks[0]).any():
            check_length(weights.shape[0], n_rows)
            weights = weights.rechunk((tuple(every.lengths.tolist()),))
        chunks = list(np.ravel(weights.to_delayed()))
        if len(chunks) != n_chunks:
            raise InvalidWeight(
                f"has {len(chunks)} chunks, and X has {n_chunks}", "Rechunk it so that its chunks are those of X."
            )
    if every is not rows:
        pick = dask.delayed(_complete_weights, pure=True)
        chunks = [pick(chunk, part) for chunk, part in zip(every.chunks, chunks, strict=True)]
    return DaskWeights(chunks, rows.lengths, scale)


class CompleteDaskRows(DaskRows):
    """Rows of a Dask array without those that have missing values; `every` has all of them."""

    def __init__(self, array: Any, lengths: npt.NDArray[np.int64], every: DaskRows) -> None:
        super().__init__(array, lengths, every.names)
        self.every = every


def complete_dask_rows(rows: Any) -> DaskRows:
    """Return the rows without those that have NaN, which are counted first; `rows` themselves if there are none."""
    array = rows.array
    chunks = (tuple(np.nan for _ in array.chunks[0]), array.chunks[1])
    complete = array.map_blocks(_complete_part, dtype=array.dtype, meta=array._meta, chunks=chunks)
    lengths = count_rows(complete)
    return rows if lengths.sum() == rows.n_rows else CompleteDaskRows(complete, lengths, rows)


def all_rows(rows: Rows) -> Rows:
    """Return the rows together with those that `complete_dask_rows` left out."""
    source = source_of(rows)
    if not isinstance(source, CompleteDaskRows):
        return rows
    return rows.with_source(source.every) if isinstance(rows, RowView) else source.every


def chunk_runs(lengths: npt.NDArray[np.int64], step: int) -> list[Sequence[Span]]:
    """Return the blocks, of at most `step` rows, of each chunk that has rows."""
    bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    return [cut_span((low, high), step) for low, high in itertools.pairwise(bounds) if low < high]


def source_of(rows: Rows) -> Any:
    """Return the row source behind all views."""
    while isinstance(rows, RowView):
        rows = rows.rows
    return rows


def open_dask(X: Any, *, count: bool) -> DaskRows:
    """Return the rows of a Dask array or data frame; `count` computes unknown chunk lengths, which reads the data."""
    names = None
    if isinstance(X, Delayed) or getattr(X, "ndim", 0) not in (1, 2):
        raise TypeError(
            f"X is a Dask {type(X).__name__}. Pass a dask.array or a data frame: da.from_delayed converts it."
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got a {X.ndim}D Dask {type(X).__name__} instead. For one feature pass "
            "X.reshape(-1, 1), or X.to_frame() of a column."
        )
    if hasattr(X, "columns"):
        X, names = _frame_to_array(X)
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {X.dtype}. Convert it to numbers first, for example to seconds.")
    if np.isnan(X.shape[1]):
        raise ValueError("The number of columns of X is not known. Call X.compute_chunk_sizes() first.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    if np.isnan(X.chunks[0]).any():
        lengths = count_rows(X) if count else np.zeros(len(X.chunks[0]), dtype=np.int64)
    else:
        lengths = np.array(X.chunks[0], dtype=np.int64)
    return DaskRows(X, lengths, names)


def count_rows(array: Any) -> npt.NDArray[np.int64]:
    """Return the number of rows of each chunk."""
    import dask

    length = dask.delayed(_length, pure=False)
    return np.array(compute_all(length(chunk) for chunk in array.to_delayed()[:, 0]), dtype=np.int64)


def _frame_to_array(frame: Any) -> tuple[Any, list[str] | None]:
    """Return a data frame as an array, chunk by chunk, and the names of its columns if they are strings."""
    import dask
    import dask.array as da
    from dask.dataframe.utils import meta_nonempty

    meta = frame._meta
    check_numeric_frame(meta_nonempty(meta))  # with example values: an empty column of objects would pass as numeric
    dtype = np.result_type(*(_number_type(kind) for kind in meta.dtypes))
    values = dask.delayed(_frame_values, pure=True)
    parts = [
        da.from_delayed(values(part, dtype), shape=(np.nan, len(meta.columns)), dtype=dtype)
        for part in frame.to_delayed()
    ]
    names = list(meta.columns)
    has_names = all(isinstance(name, str) for name in names)
    return da.concatenate(parts, allow_unknown_chunksizes=True), names if has_names else None


def _number_type(kind: Any) -> Any:
    """Return the NumPy type of a column: float64 if it may have missing values."""
    return kind if isinstance(kind, np.dtype) and kind.kind in "biuf" else np.dtype(np.float64)


def _frame_values(frame: Any, dtype: Any) -> npt.NDArray[Any]:
    return np.asarray(frame.to_numpy(dtype=dtype, na_value=np.nan) if dtype.kind == "f" else frame.to_numpy(dtype))


def map_lazily(rows: Rows, function: Callable[[Block], Any], dtype: Any, width: int | None, name: str) -> Any:
    """Return a Dask array, with the chunks of the rows, of the results of `function` for their blocks.

    The results are matrices with `width` columns, or vectors if that is None. If `dtype` is a list, they are tuples,
    and a tuple of arrays is returned. The names of the tasks begin with `name`.
    """
    if isinstance(dtype, list):
        return tuple(map_lazily(rows, partial(_item, function, i), each, width, name) for i, each in enumerate(dtype))
    import dask.array as da

    source = source_of(rows)
    step = max(1, min(MOST_BLOCK_ROWS, BLOCK_VALUES // max(1, source.n_features)))
    state = pack((rows.with_source(None), function, step, source.bounds, np.dtype(dtype), width))
    lengths = tuple(source.lengths.tolist()) if source.counted else source.array.chunks[0]
    shape: dict[str, Any] = {"chunks": (lengths,) if width is None else (lengths, (width,))}
    shape |= {"drop_axis": 1} if width is None else {}
    meta = np.empty((0,) if width is None else (0, 0), dtype=dtype)
    given = {
        "state_key": state.key,
        "payload": state,
        "meta": meta,
        "dtype": dtype,
        "name": f"{name}-{uuid.uuid4().hex}",
    }
    return da.map_blocks(_fill_chunk, source.array, **given, **shape)


def _item(function: Callable[[Block], Any], place: int, block: Block) -> Any:
    return function(block)[place]


# Functions that run on workers


def chunk_rows(view: Any, chunk: Any, spans: Sequence[Span], weights: Any = None) -> Rows:
    """Return a chunk, whose rows are those of the `spans`, as a row source with the transformations of `view`."""
    first = spans[0][0]
    expected = spans[-1][1] - first
    matrix = _matrix(chunk)
    if matrix.ndim != 2 or matrix.shape[0] != expected:
        raise ValueError(
            f"A chunk has the shape {matrix.shape}, but it has {expected:,} rows according to X.chunks. Correct the "
            "shapes with which X was created, or call X.compute_chunk_sizes()."
        )
    source = _Chunk(matrix, first, weights)
    return source if view is None else view.with_source(source)


class _Chunk(Rows):
    """Rows of one chunk, by their numbers in the data."""

    def __init__(self, matrix: Any, first: int, weights: Any = None) -> None:
        self._rows: Rows = SparseRows(matrix) if scipy.sparse.issparse(matrix) else ArrayRows(matrix)
        self._first = first
        self._weights = weights

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``."""
        return self._rows.read(start - self._first, stop - self._first)

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`."""
        return self._rows.take(indices - self._first)

    def read_weights(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the weights of rows ``start .. stop``, or a single one if all rows count alike."""
        return NO_WEIGHTS if self._weights is None else self._weights[start - self._first : stop - self._first]


def _matrix(chunk: Any) -> Any:
    if scipy.sparse.issparse(chunk):
        return to_canonical_csr(chunk)
    check_not_masked(chunk)
    return np.asarray(chunk)


def _fill_chunk(chunk: Any, state_key: str, payload: bytes, block_id: Any = None) -> npt.NDArray[Any]:
    view, function, step, bounds, dtype, width = unpack(state_key, payload)
    n = int(chunk.shape[0])
    out = np.empty(n if width is None else (n, width), dtype=dtype)
    first = 0 if block_id is None else int(bounds[block_id[0]])
    with single_blas_thread:
        rows = chunk_rows(view, chunk, [(first, first + n)])
        for low, high in cut_span((0, n), step):
            out[low:high] = function(rows.read(first + low, first + high))
    return out


def _take(token: str, payload: bytes, chunk: Any, indices: npt.NDArray[np.int64]) -> Any:
    return unpack(token, payload)(_matrix(chunk)[indices])


def _complete_part(chunk: Any) -> Any:
    matrix = _matrix(chunk)
    return matrix[~has_missing(matrix)]


def _weight_facts(weights: Any, length: int, first_row: int) -> WeightFacts:
    if len(weights) != length:
        raise InvalidWeight(
            f"has a chunk of {len(weights):,} weights, and X has {length:,} rows there",
            "Rechunk it so that its chunks are those of X.",
        )
    return WeightFacts.of(weights, first_row)


def _scaled_weights(weights: Any, scale: float) -> npt.NDArray[np.float64]:
    return to_weights(weights) * scale


def _complete_weights(chunk: Any, weights: Any) -> npt.NDArray[np.float64]:
    values = to_weights(weights)
    matrix = _matrix(chunk)
    if len(values) != matrix.shape[0]:
        raise InvalidWeight(
            f"has a chunk of {len(values):,} weights, and X has {matrix.shape[0]:,} rows there",
            "Rechunk it so that its chunks are those of X.",
        )
    return values[~has_missing(matrix)]


def _identity(block: Block) -> Block:
    return block


def _length(chunk: Any) -> int:
    return int(chunk.shape[0])
