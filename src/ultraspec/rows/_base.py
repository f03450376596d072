"""The interface of a row source."""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

Block = Any  # rows of a source: a 2-d numpy.ndarray or a scipy.sparse CSR matrix
Span = tuple[int, int]  # a range of rows: start, stop

T = TypeVar("T")

BLOCK_VALUES = 2**20  # values of a block, about: float32 blocks of 4 MB stay in the outer caches
MOST_BLOCK_ROWS = 65536
BLOCKS_OF_SMALL_DATA = 16  # small data is cut too, or there would be nothing to share between threads
LEAST_BLOCK_VALUES = 2**15  # but not so small that handing blocks to threads costs more than it saves
LEAST_BLOCK_ROWS = (256, 4096)
MOST_GROUPS = 32  # of blocks, each with a partial result of its own


class Rows(ABC):
    """Rows that can be read by range and by index.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the data, also as `shape`; ``len`` gives `n_rows`.
    sparse : bool
        Whether blocks are CSR matrices.
    names : list of str or None
        Names of the features, if they have any.
    in_memory : bool
        Whether the data is in memory. Of data that is not, nothing that grows with the rows is kept there either.
    remote : bool
        Whether the data is on a cluster: blocks are then read where they are, by an engine that is there.
    """

    n_rows: int
    n_features: int
    sparse = False
    names: list[str] | None = None
    in_memory = True
    remote = False

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Rows ``start .. stop``."""

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Rows at `indices`, which are sorted and distinct."""

    def select(self, columns: Sequence[str | int]) -> Rows:  # noqa: ARG002
        """The same rows with only these columns, by name or number, in this order; sources of files can do it."""
        raise TypeError(f"{type(self).__name__} cannot choose columns.")

    def places(self, columns: Sequence[str | int]) -> list[int]:  # noqa: ARG002
        """The places of columns, by name or number, among those of these rows."""
        raise TypeError(f"{type(self).__name__} cannot choose columns.")

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_rows, n_features)``."""
        return self.n_rows, self.n_features

    def __len__(self) -> int:
        return self.n_rows

    def close(self) -> None:  # noqa: B027  most sources hold nothing
        """Let go of open files and temporary ones; the rows cannot be read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def block_rows(self) -> int:
        """Rows of one block."""
        d = max(self.n_features, 1)
        least, most_least = LEAST_BLOCK_ROWS
        least = max(least, min(most_least, LEAST_BLOCK_VALUES // d))
        shared = -(-self.n_rows // BLOCKS_OF_SMALL_DATA)
        return max(least, min(MOST_BLOCK_ROWS, BLOCK_VALUES // d, shared))

    def blocks(self) -> list[Span]:
        """Ranges ``(start, stop)`` that cover all rows in order."""
        return cut_span((0, self.n_rows), self.block_rows)

    def runs(self, most: int) -> list[Sequence[Span]]:
        """The blocks in at most `most` runs of neighbours, or as the source comes in pieces."""
        return even_runs(self.blocks(), most)

    def over(self, source: Rows | None) -> Any:
        """Another source in the place of this one, seen as this one is."""
        return source

    def gather(self, indices: npt.NDArray[np.int64], function: Callable[[Block], T]) -> list[T]:
        """Results of `function` for the rows at sorted, distinct `indices`, some of them at a time."""
        step = self.block_rows
        return [function(self.take(indices[low : low + step])) for low in range(0, len(indices), step)]


class RowView(Rows):
    """A row source seen through something that changes its blocks.

    Parameters
    ----------
    rows : Rows
        The source.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.n_rows, self.n_features = rows.n_rows, rows.n_features
        self.sparse, self.in_memory, self.remote = rows.sparse, rows.in_memory, rows.remote

    @abstractmethod
    def change(self, block: Block, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Block:
        """What becomes of a block; the rows' `numbers` are for messages."""

    @property
    def block_rows(self) -> int:
        """Rows of one block."""
        return self.rows.block_rows

    def blocks(self) -> list[Span]:
        """Ranges that cover all rows in order."""
        return self.rows.blocks()

    def runs(self, most: int) -> list[Sequence[Span]]:
        """The blocks in runs."""
        return self.rows.runs(most)

    def read(self, start: int, stop: int) -> Block:
        """Rows ``start .. stop``, changed."""
        return self.change(self.rows.read(start, stop), range(start, stop))

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Rows at `indices`, changed."""
        return self.change(self.rows.take(indices), indices)

    def gather(self, indices: npt.NDArray[np.int64], function: Callable[[Block], T]) -> list[T]:
        """Results of `function` for the changed rows at `indices`."""
        if not self.remote:
            return super().gather(indices, function)
        change = self.over(None).change  # row numbers are for messages, and these rows have been looked at
        return self.rows.gather(indices, lambda block: function(change(block, range(block.shape[0]))))

    def close(self) -> None:
        """Close the source."""
        self.rows.close()

    def over(self, source: Rows | None) -> Self:
        """The same view of another source."""
        other = copy.copy(self)
        other.rows = self.rows.over(source) if isinstance(self.rows, Rows) else source
        return other


def is_lazy(values: Any) -> bool:
    """Whether values are on a cluster, to be computed when they are asked for."""
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


def cut_span(span: Span, step: int) -> list[Span]:
    """Ranges of `step` rows that cover a range in order."""
    start, stop = span
    return [(low, min(low + step, stop)) for low in range(start, stop, step)]


def even_runs(tasks: Sequence[T], most: int) -> list[Sequence[T]]:
    """Tasks in at most `most` runs of neighbours of about equal length."""
    n_runs = max(1, min(most, MOST_GROUPS, len(tasks)))
    bounds = [len(tasks) * g // n_runs for g in range(n_runs + 1)]
    return [tasks[low:high] for low, high in itertools.pairwise(bounds)]


def sample_indices(n: int, size: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sorted, distinct indices of `size` of `n` rows: one drawn from each of `size` stretches of equal length.

    Every row is as likely as any other (up to the rounding of lengths), the cost does not depend on `n`, and data that
    is stored in some order is represented more evenly than by independent draws. All rows if `size` >= `n`.
    """
    if size >= n:
        return np.arange(n)
    bounds = np.arange(size + 1) * n // size
    return bounds[:-1] + (random.random(size) * np.diff(bounds)).astype(np.int64)
