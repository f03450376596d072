"""Microclusters: rows that have equal labels in every base clustering (paper, section 3.2.2) count as one.

Takes a label matrix of any integers or strings, gives its distinct rows, how often each occurs, and which one each row
is. A row's labels become a few bytes, exactly, so that hashing and comparing rows costs next to nothing.
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
from ultraspec.rows import Block, Rows, Span, cut_span
from ultraspec.spectral.transfer_cut import ONE
from ultraspec.storage.spool import SpooledMatrix, allocate_like, as_array, fill_slice

PARTS = 32  # of a label matrix, each with a table of its own
LEAST_PART_ROWS, MOST_PART_ROWS = 2**16, 2**21
ENCODED_ROWS = 4096  # of a matrix at a time
FIRST_ROOM = 2**12  # distinct rows that a table has room for at first
UNASSIGNED = -1

Column = npt.NDArray[Any]  # one base clustering: an integer for every row
LabelMatrix = npt.NDArray[Any] | Sequence[Any]  # in one, or column by column
Keys = npt.NDArray[np.uint32]


@dataclass
class Microclusters:
    """Distinct rows of a label matrix.

    Attributes
    ----------
    columns : ndarray of shape (M, m), int32
        Number of each microcluster's base cluster among all base clusters; -1 where it has none.
    weights : ndarray of shape (M,), float64
        Rows in each microcluster.
    places : ndarray or Spool of shape (N,), int32, or None
        Place of each row's microcluster in the list of its part of the rows, see `parts`; None where rows are on a
        cluster.
    lists : list of ndarrays
        Microclusters that occur in each part.
    values : list of m ndarrays
        The labels that base clusters had: those of the first clustering are numbered first.
    """

    columns: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float64]
    places: Any
    lists: list[npt.NDArray[np.int32]]
    values: list[Column]

    @property
    def n_columns(self) -> int:
        """Base clusters in all clusterings together."""
        return sum(map(len, self.values))

    @property
    def assigned(self) -> npt.NDArray[np.intp]:
        """Microclusters that have a base cluster."""
        return np.flatnonzero((self.columns >= 0).any(axis=1))

    def spread(self, values: npt.NDArray[Any], engine: ThreadEngine) -> Any:
        """Values of microclusters for all rows; None where these are on a cluster."""
        if self.places is None:
            return None
        out = allocate_like(self.places, values.dtype)

        def run(part: tuple[tuple[int, int], npt.NDArray[np.int32]]) -> None:
            here = slice(*part[0])
            fill_slice(out, here, lambda buffer: np.take(values[part[1]], self.places[here], out=buffer))

        engine.map(run, list(zip(parts(len(out)), self.lists, strict=True)))
        return as_array(out)


def parts(n: int) -> list[tuple[int, int]]:
    """Ranges of rows: few, as each has a table of its own."""
    step = min(MOST_PART_ROWS, max(LEAST_PART_ROWS, -(-n // PARTS)))
    return cut_span((0, n), step)


def find(labels: LabelMatrix | SpooledMatrix, engine: ThreadEngine) -> Microclusters:
    """Microclusters of a label matrix of integers, in which -1 means not assigned."""
    matrix: LabelMatrix = labels.columns if isinstance(labels, SpooledMatrix) else labels
    spans = parts(len(matrix) if isinstance(matrix, np.ndarray) else len(matrix[0]))
    coding = _Coding.of(matrix, spans, engine)
    places = allocate_like(coding.columns[0], np.int32)

    def distinct(span: tuple[int, int]) -> tuple[Keys, npt.NDArray[np.float64]]:
        here = slice(*span)
        return fill_slice(places, here, lambda buffer: _distinct(coding.encode(here), ONE, buffer))

    found = engine.map(distinct, spans)
    ends = np.cumsum([len(keys) for keys, _ in found])
    numbers = np.empty(ends[-1], dtype=np.int32)
    all_keys, all_counts = (np.concatenate([part[i] for part in found]) for i in range(2))
    keys, weights = _distinct(all_keys, all_counts, numbers)
    columns, values = coding.decode(keys.view(np.uint8))
    return Microclusters(columns, weights, places, np.split(numbers, ends[:-1]), values)


def _distinct(
    codes: npt.NDArray[np.uint32], weights: npt.NDArray[np.float64], ids: npt.NDArray[np.int32]
) -> tuple[Keys, npt.NDArray[np.float64]]:
    """Distinct rows in order of appearance and their total weights; `ids` gets the number of each row."""
    n, width = codes.shape
    keys, counts = np.empty((0, width), dtype=np.uint32), np.empty(0)
    factors = np.random.default_rng(0).integers(2**64, size=width, dtype=np.uint64) | np.uint64(1)
    row = found = 0
    while row < n:
        room = max(FIRST_ROOM, 4 * found)
        keys = np.concatenate([keys, np.empty((room - found, width), dtype=np.uint32)])
        counts = np.concatenate([counts, np.empty(room - found)])
        n_bits = (4 * room - 1).bit_length()
        table = factors, np.uint64(64 - n_bits), np.full(2**n_bits, -1, dtype=np.int32)
        fill_slots(keys[:found], *table)
        row, found = number_rows(codes, weights, row, *table, keys, counts, ids, found)
    return keys[:found].copy(), counts[:found].copy()


def find_in_rows(
    rows: Rows, label: Callable[[Block], npt.NDArray[Any]], sizes: Sequence[int], engine: ThreadEngine
) -> Microclusters:
    """Microclusters of the labels (n, m), below `sizes`, that `label` gives to blocks: as `find` has them, but places.

    Microclusters are in the order in which rows first show them, however rows are cut into blocks.
    """
    widths = [max(1, -(-(size - 1).bit_length() // 8)) for size in sizes]
    coding = partial(_Coding, lows=[0] * len(sizes), widths=widths)

    def step(found: _Found, block: Block, span: Span) -> None:
        labels = label(block)
        more = _distinct(coding(labels, list(labels.T)).encode(slice(0, len(labels))), ONE, _no_ids(span[1] - span[0]))
        found.add(more)

    found = engine.fold_rows(rows, partial(_Found, []), step, _Found.merge)
    keys, weights = found.parts[0]
    columns, values = coding([], []).decode(keys.view(np.uint8))
    return Microclusters(columns, weights, None, [], values)


@dataclass
class _Found:
    """Distinct rows and their counts: none yet, or one pair."""

    parts: list[tuple[Keys, npt.NDArray[np.float64]]]

    def add(self, more: tuple[Keys, npt.NDArray[np.float64]]) -> None:
        if self.parts:
            keys = np.concatenate([self.parts[0][0], more[0]])
            more = _distinct(keys, np.concatenate([self.parts[0][1], more[1]]), _no_ids(len(keys)))
        self.parts = [more]

    def merge(self, other: _Found) -> _Found:
        if other.parts:
            self.add(other.parts[0])
        return self


def _no_ids(n: int) -> npt.NDArray[np.int32]:
    return np.empty(n, dtype=np.int32)


@dataclass
class _Coding:
    """How labels become bytes: each column as its distance from the lowest label, in as few bytes as that needs."""

    labels: LabelMatrix
    columns: list[Column]
    lows: list[int]
    widths: list[int]

    @classmethod
    def of(cls, labels: LabelMatrix, spans: list[tuple[int, int]], engine: ThreadEngine) -> _Coding:
        """Looks at all labels, unless their type says enough."""
        columns = list(labels.T) if isinstance(labels, np.ndarray) else list(labels)
        if all(column.dtype == np.uint8 for column in columns):
            return cls(labels, columns, [0] * len(columns), [1] * len(columns))

        def extremes(span: tuple[int, int]) -> list[tuple[int, int]]:
            if isinstance(labels, np.ndarray):  # a matrix in C order is read row by row
                part = labels[slice(*span)]
                return list(zip(part.min(axis=0).tolist(), part.max(axis=0).tolist(), strict=True))
            pieces = [column[slice(*span)] for column in columns]
            return [(int(piece.min()), int(piece.max())) for piece in pieces]

        found = engine.map(extremes, spans)
        lows = [min(part[j][0] for part in found) for j in range(len(columns))]
        highs = [max(part[j][1] for part in found) for j in range(len(columns))]
        return cls(
            labels,
            columns,
            lows,
            [max(1, -(-(high - low).bit_length() // 8)) for low, high in zip(lows, highs, strict=True)],
        )

    def encode(self, rows: slice) -> npt.NDArray[np.uint32]:
        """Codes of some rows, as 32-bit words."""
        n_bytes = sum(self.widths)
        if isinstance(self.labels, np.ndarray) and self.labels.dtype == np.uint8:
            part = self.labels[rows]
            if part.flags.c_contiguous and n_bytes % 4 == 0:
                return part.view(np.uint32)
        codes = np.zeros((rows.stop - rows.start, -(-n_bytes // 4) * 4), dtype=np.uint8)
        if isinstance(self.labels, np.ndarray) and max(self.widths) == 1:
            lows = np.array(self.lows, dtype=self.labels.dtype)
            for low in range(0, len(codes), ENCODED_ROWS):
                part = self.labels[rows][low : low + ENCODED_ROWS]
                np.subtract(part, lows, out=codes[low : low + ENCODED_ROWS, :n_bytes], casting="unsafe")
            return codes.view(np.uint32)
        at = 0
        for column, low, width in zip(self.columns, self.lows, self.widths, strict=True):
            part = column[rows]
            if low or part.dtype != np.uint8:
                # modulo 2^64 the difference is right even where that of signed integers would overflow
                part = part.astype(np.uint64) - np.uint64(low % 2**64)
                part = part.astype("<u8")[:, None].view(np.uint8)[:, :width]
            codes[:, at : at + width] = part.reshape(-1, width)
            at += width
        return codes.view(np.uint32)

    def decode(self, keys: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int32], list[Column]]:
        """Numbers of all base clusters in rows of bytes (-1 for none), and the labels they had."""
        columns = np.empty((len(keys), len(self.lows)), dtype=np.int32)
        values: list[Column] = []
        at = offset = 0
        for j, (low, width) in enumerate(zip(self.lows, self.widths, strict=True)):
            codes = np.zeros(len(keys), dtype=np.uint64)
            for b in range(width):
                codes |= keys[:, at + b].astype(np.uint64) << np.uint64(8 * b)
            at += width
            present, places = _values(codes, width)
            labels = [int(code) + low for code in present]
            numbers = np.arange(offset, offset + len(labels), dtype=np.int32)
            if UNASSIGNED in labels:
                none = labels.index(UNASSIGNED)
                labels.pop(none)
                numbers[none:] -= 1
                numbers[none] = UNASSIGNED
            columns[:, j] = numbers[places]
            values.append(np.array(labels, dtype=np.uint64 if labels and labels[-1] >= 2**63 else np.int64))
            offset += len(labels)
        return columns, values


def _values(codes: npt.NDArray[np.uint64], width: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Distinct codes of so many bytes, ascending, and the place of each code among them."""
    if width > 2:
        present, places = np.unique(codes, return_inverse=True)
        return present, places.reshape(-1)
    seen = np.zeros(2 ** (8 * width), dtype=np.bool_)  # few can occur: no need to sort
    seen[codes] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]
