"""Microclusters: groups of rows that have equal labels in every base clustering (paper, section 3.2.2).

`find` takes a label matrix of integers and returns its distinct rows, how often each occurs, and the distinct row that
each row equals. The labels of a row are encoded, without loss, as a few bytes, the *key* of the row, so that hashing
and comparing rows is fast.

Rows are divided into parts. Each part is searched for its distinct rows with a hash table, in parallel; then the
distinct rows of all parts are searched for those that are distinct among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._kernels.labels import fill_slots, number_rows
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, RowWeights, Span, cut_span
from ultraspec.spectral.transfer_cut import ONE
from ultraspec.storage.spool import SpooledMatrix, allocate_like, as_array, fill_slice

PARTS = 32  # parts of a label matrix, each with its hash table
LEAST_PART_ROWS = 2**16
MOST_PART_ROWS = 2**21
ENCODED_ROWS = 4096  # rows of a matrix that are encoded at a time: temporaries stay in cache
FIRST_CAPACITY = 2**12  # number of distinct rows that a hash table has space for at first
UNASSIGNED = -1

Column = npt.NDArray[Any]  # one base clustering: an integer for every row
LabelMatrix = npt.NDArray[Any] | Sequence[Any]  # a matrix, or its columns
Keys = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.float64]


@dataclass
class Microclusters:
    """Distinct rows of a label matrix.

    Attributes
    ----------
    columns : ndarray of shape (M, m), int32
        Base clusters of each microcluster, one per clustering, numbered through all clusterings; -1 for none.
    weights : ndarray of shape (M,), float64
        Number of rows in each microcluster, or their weight.
    places : ndarray or Spool of shape (N,), int32, or None
        Place of the microcluster of each row in the list of its part, see `parts`; None if rows are on a cluster.
    lists : list of ndarrays
        Microclusters that occur in each part.
    values : list of m ndarrays
        Labels of the base clusters of each clustering, in the order of their numbers.
    """

    columns: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float64]
    places: Any
    lists: list[npt.NDArray[np.int32]]
    values: list[Column]

    @property
    def n_columns(self) -> int:
        """Number of base clusters in all clusterings together."""
        return sum(map(len, self.values))

    @property
    def assigned(self) -> npt.NDArray[np.intp]:
        """Microclusters that have at least one base cluster."""
        return np.flatnonzero((self.columns >= 0).any(axis=1))

    def spread(self, values: npt.NDArray[Any], engine: ThreadEngine) -> Any:
        """Return the value of its microcluster for each row; None if rows are on a cluster."""
        if self.places is None:
            return None
        out = allocate_like(self.places, values.dtype)

        def run(part: tuple[Span, npt.NDArray[np.int32]]) -> None:
            span, listed = part
            rows = slice(*span)
            fill_slice(out, rows, lambda buffer: np.take(values[listed], self.places[rows], out=buffer))

        engine.map(run, list(zip(parts(len(out)), self.lists, strict=True)))
        return as_array(out)


def parts(n: int) -> list[Span]:
    """Divide `n` rows into few ranges: each has a hash table."""
    step = min(MOST_PART_ROWS, max(LEAST_PART_ROWS, -(-n // PARTS)))
    return cut_span((0, n), step)


def find(labels: LabelMatrix | SpooledMatrix, engine: ThreadEngine, weights: RowWeights | None = None) -> Microclusters:
    """Find the microclusters of a label matrix of integers, in which -1 means not assigned; rows may have weights."""
    matrix: LabelMatrix = labels.columns if isinstance(labels, SpooledMatrix) else labels
    spans = parts(len(matrix) if isinstance(matrix, np.ndarray) else len(matrix[0]))
    coding = _Coding.of(matrix, spans, engine)
    places = allocate_like(coding.columns[0], np.int32)

    def distinct(span: Span) -> tuple[Keys, Counts]:
        rows = slice(*span)
        masses = ONE if weights is None else weights.read(*span)
        return fill_slice(places, rows, lambda buffer: _distinct(coding.encode(rows), masses, buffer))

    results = engine.map(distinct, spans)
    ends = np.cumsum([len(keys) for keys, _ in results])
    numbers = np.empty(ends[-1], dtype=np.int32)
    all_keys = np.concatenate([keys for keys, _ in results])
    all_counts = np.concatenate([counts for _, counts in results])
    keys, totals = _distinct(all_keys, all_counts, numbers)
    columns, values = coding.decode(keys.view(np.uint8))
    return Microclusters(columns, totals, places, np.split(numbers, ends[:-1]), values)


def _distinct(
    codes: npt.NDArray[np.uint32], weights: npt.NDArray[np.float64], ids: npt.NDArray[np.int32]
) -> tuple[Keys, Counts]:
    """Return the distinct rows in order of appearance, and their total weights; write the number of each row to `ids`.

    The hash table starts small. When it is full, it is replaced by a table of four times the capacity.
    """
    n, width = codes.shape
    keys = np.empty((0, width), dtype=np.uint32)
    counts = np.empty(0)
    factors = np.random.default_rng(0).integers(2**64, size=width, dtype=np.uint64) | np.uint64(1)
    row = 0
    n_keys = 0
    while row < n:
        capacity = max(FIRST_CAPACITY, 4 * n_keys)
        keys = np.concatenate([keys, np.empty((capacity - n_keys, width), dtype=np.uint32)])
        counts = np.concatenate([counts, np.empty(capacity - n_keys)])
        n_bits = (4 * capacity - 1).bit_length()  # at most a quarter of the slots is used
        table = factors, np.uint64(64 - n_bits), np.full(2**n_bits, -1, dtype=np.int32)
        fill_slots(keys[:n_keys], *table)
        row, n_keys = number_rows(codes, weights, row, *table, keys, counts, ids, n_keys)
    return keys[:n_keys].copy(), counts[:n_keys].copy()


def find_in_rows(
    rows: Rows, label: Callable[[Block], npt.NDArray[Any]], sizes: Sequence[int], engine: ThreadEngine
) -> Microclusters:
    """Find the microclusters of labels that `label` computes for blocks of rows; `places` of the result is None.

    Clustering j has the labels 0 .. sizes[j] - 1. Microclusters are in order of appearance, for any division of the
    rows into blocks.
    """
    widths = [_n_bytes(size - 1) for size in sizes]
    coding = partial(_Coding, lows=[0] * len(sizes), widths=widths)

    def step(result: _DistinctRows, block: Block, span: Span, weights: Counts) -> None:  # noqa: ARG001
        labels = label(block)
        result.add(coding(labels, list(labels.T)).encode(slice(0, len(labels))), weights)

    result = engine.fold_rows(rows, partial(_DistinctRows, sum(widths)), step, _DistinctRows.merge, weighted=True)
    columns, values = coding([], []).decode(result.keys.view(np.uint8))
    return Microclusters(columns, result.counts, None, [], values)


class _DistinctRows:
    """Distinct rows of a reduction, in order of appearance, and their counts.

    Parameters
    ----------
    n_bytes : int
        Length of a key.
    """

    def __init__(self, n_bytes: int) -> None:
        self.keys: Keys = np.empty((0, _n_words(n_bytes)), dtype=np.uint32)
        self.counts: Counts = np.empty(0)

    def add(self, keys: Keys, counts: Counts) -> None:
        """Add rows; there is a count for each, or one for every row."""
        all_keys = np.concatenate([self.keys, keys])
        all_counts = np.concatenate([self.counts, np.broadcast_to(counts, len(keys))])
        self.keys, self.counts = _distinct(all_keys, all_counts, np.empty(len(all_keys), dtype=np.int32))

    def merge(self, other: _DistinctRows) -> _DistinctRows:
        """Add the rows of another reduction, in place."""
        self.add(other.keys, other.counts)
        return self


def _n_bytes(largest: int) -> int:
    """Return the number of bytes that an integer needs, at least one."""
    return max(1, -(-largest.bit_length() // 8))


@dataclass
class _Coding:
    """Encoding of labels as bytes: each as its difference from the lowest label of its column, in few bytes.

    Attributes
    ----------
    labels : ndarray or sequence of m ndarrays
        The label matrix, or its columns.
    columns : list of m ndarrays
        Its columns.
    lows, widths : list of m int
        Lowest label and number of bytes of each column.
    """

    labels: LabelMatrix
    columns: list[Column]
    lows: list[int]
    widths: list[int]

    @classmethod
    def of(cls, labels: LabelMatrix, spans: list[Span], engine: ThreadEngine) -> _Coding:
        """Choose an encoding for labels, from the extremes of each column; bytes are not encoded."""
        columns = list(labels.T) if isinstance(labels, np.ndarray) else list(labels)
        if all(column.dtype == np.uint8 for column in columns):
            return cls(labels, columns, [0] * len(columns), [1] * len(columns))

        def extremes(span: Span) -> list[tuple[int, int]]:
            if isinstance(labels, np.ndarray):  # all columns at once: a matrix in C order is fast to read by rows
                part = labels[slice(*span)]
                return list(zip(part.min(axis=0).tolist(), part.max(axis=0).tolist(), strict=True))
            pieces = [column[slice(*span)] for column in columns]
            return [(int(piece.min()), int(piece.max())) for piece in pieces]

        results = engine.map(extremes, spans)
        lows = [min(part[j][0] for part in results) for j in range(len(columns))]
        highs = [max(part[j][1] for part in results) for j in range(len(columns))]
        widths = [_n_bytes(high - low) for low, high in zip(lows, highs, strict=True)]
        return cls(labels, columns, lows, widths)

    def encode(self, rows: slice) -> npt.NDArray[np.uint32]:
        """Encode some rows as 32-bit integers, padded with zeros; a matrix of bytes is not copied if possible."""
        n_bytes = sum(self.widths)
        if isinstance(self.labels, np.ndarray) and self.labels.dtype == np.uint8:
            part = self.labels[rows]
            if part.flags.c_contiguous and n_bytes % 4 == 0:
                return part.view(np.uint32)
        codes = np.zeros((rows.stop - rows.start, 4 * _n_words(n_bytes)), dtype=np.uint8)
        if isinstance(self.labels, np.ndarray) and max(self.widths) == 1:
            lows = np.array(self.lows, dtype=self.labels.dtype)
            for low in range(0, len(codes), ENCODED_ROWS):
                part = self.labels[rows][low : low + ENCODED_ROWS]
                np.subtract(part, lows, out=codes[low : low + ENCODED_ROWS, :n_bytes], casting="unsafe")
            return codes.view(np.uint32)
        start = 0
        for column, low, width in zip(self.columns, self.lows, self.widths, strict=True):
            part = column[rows]
            if low or part.dtype != np.uint8:
                # modulo 2^64 the difference is correct, also where signed integers would overflow
                part = part.astype(np.uint64) - np.uint64(low % 2**64)
                part = part.astype("<u8")[:, None].view(np.uint8)[:, :width]
            codes[:, start : start + width] = part.reshape(-1, width)
            start += width
        return codes.view(np.uint32)

    def decode(self, keys: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int32], list[Column]]:
        """Decode rows of bytes.

        Return their base clusters, numbered through all columns, -1 for none; and for each column the labels of its
        base clusters.
        """
        columns = np.empty((len(keys), len(self.lows)), dtype=np.int32)
        values: list[Column] = []
        start = 0  # first byte of the column
        offset = 0  # number of its first base cluster
        for j, (low, width) in enumerate(zip(self.lows, self.widths, strict=True)):
            codes = np.zeros(len(keys), dtype=np.uint64)
            for b in range(width):
                codes |= keys[:, start + b].astype(np.uint64) << np.uint64(8 * b)
            start += width
            present, places = _distinct_codes(codes, width)
            labels = [int(code) + low for code in present]
            numbers = np.arange(offset, offset + len(labels), dtype=np.int32)
            if UNASSIGNED in labels:  # no base cluster: labels after it move down by one number
                unassigned = labels.index(UNASSIGNED)
                labels.pop(unassigned)
                numbers[unassigned:] -= 1
                numbers[unassigned] = UNASSIGNED
            columns[:, j] = numbers[places]
            values.append(np.array(labels, dtype=np.uint64 if labels and labels[-1] >= 2**63 else np.int64))
            offset += len(labels)
        return columns, values


def _n_words(n_bytes: int) -> int:
    """Return the number of 32-bit integers that hold a number of bytes."""
    return -(-n_bytes // 4)


def _distinct_codes(codes: npt.NDArray[np.uint64], width: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Return the distinct codes of `width` bytes, ascending, and the place of each code among them."""
    if width > 2:
        present, places = np.unique(codes, return_inverse=True)
        return present, places.reshape(-1)
    seen = np.zeros(2 ** (8 * width), dtype=np.bool_)  # at most 2^16 codes: a table is faster than sorting
    seen[codes] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]
