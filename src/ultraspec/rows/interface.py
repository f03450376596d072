"""The interface of a row source."""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ultraspec.rows.weights import RowWeights

Block = Any  # rows of a source: a 2-d numpy.ndarray or a scipy.sparse CSR matrix
Span = tuple[int, int]  # a range of rows: start, stop

T = TypeVar("T")

NO_WEIGHTS = np.ones(1)  # one weight for every row

BLOCK_VALUES = 2**20  # values of a block, about: float32 blocks of 4 MB stay in the outer caches
MOST_BLOCK_ROWS = 65536
BLOCKS_OF_SMALL_DATA = 16  # small data is cut too, or there would be nothing to share between threads
LEAST_BLOCK_VALUES = 2**15  # but not so small that passing blocks to threads costs more than it saves
LEAST_BLOCK_ROWS = (256, 4096)
MOST_GROUPS = 32  # groups of blocks, each with a partial result


class Rows(ABC):
    """Rows that can be read by range and by index: what estimators read data from.

    The estimators accept any instance as X. A new source sets `n_rows` and `n_features`, and implements `read` and
    `take`. Both may be called from several threads at once, and must always return the same values. All other methods
    and attributes have defaults.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the data, also as `shape`; ``len`` gives `n_rows`.
    sparse : bool
        Whether blocks are CSR matrices. [default: False]
    names : list of str or None
        Names of the features. [default: None]
    in_memory : bool
        Whether the data is in memory. If not, results with a value per row may be stored in temporary files.
        [default: True]
    remote : bool
        Whether the data is on a cluster, where an engine reads the blocks. [default: False]

    See Also
    --------
    ultraspec.open_rows : Returns the row source of a file.

    Examples
    --------
    Rows that are computed when they are read:

    >>> import numpy as np
    >>> from ultraspec import USPEC
    >>> from ultraspec.rows import Rows
    >>> class Circles(Rows):
    ...     n_rows, n_features = 3_000, 2
    ...
    ...     def read(self, start, stop):
    ...         return self.take(np.arange(start, stop))
    ...
    ...     def take(self, indices):
    ...         radius = 1 + indices % 3
    ...         return (radius * [np.cos(indices), np.sin(indices)]).T
    >>> labels = USPEC(n_clusters=3, random_state=0).fit_predict(Circles())
    >>> np.bincount(labels)
    array([1000, 1000, 1000])
    """

    n_rows: int
    n_features: int
    sparse = False
    names: list[str] | None = None
    in_memory = True
    remote = False
    weights: RowWeights | None = None  # of the rows, see `ultraspec.rows.weights`; None if all count alike

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``.

        Parameters
        ----------
        start, stop : int
            First row, and the row after the last one: ``0 <= start <= stop <= n_rows``.

        Returns
        -------
        ndarray or CSR matrix of shape (stop - start, n_features)
            Real numbers of any type. It is not written to.
        """

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`, which are sorted and distinct.

        Parameters
        ----------
        indices : ndarray of int64
            Numbers of rows, in increasing order.

        Returns
        -------
        ndarray or CSR matrix of shape (len(indices), n_features)
            Real numbers of any type.
        """

    def select(self, columns: Sequence[str | int]) -> Rows:
        """Return these rows with only some columns, by name or number, in this order; row sources of files can."""
        raise TypeError(f"{type(self).__name__} cannot choose columns.")

    def column_indices(self, columns: Sequence[str | int]) -> list[int]:
        """Return the indices of columns that are given by name or number."""
        raise TypeError(f"{type(self).__name__} cannot choose columns.")

    def read_weights(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the weights of rows ``start .. stop``, or a single one if all rows count alike."""
        return NO_WEIGHTS

    @property
    def n_counted(self) -> int:
        """Number of rows whose weight is not zero."""
        return self.n_rows if self.weights is None else self.weights.n_positive

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_rows, n_features)``."""
        return self.n_rows, self.n_features

    def __len__(self) -> int:
        return self.n_rows

    def close(self) -> None:  # noqa: B027  most sources hold nothing
        """Close open files and delete temporary ones; the rows cannot be read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def block_rows(self) -> int:
        """Number of rows of a block. It depends on the shape alone, so that sums over blocks are reproducible."""
        d = max(self.n_features, 1)
        least, most_least = LEAST_BLOCK_ROWS
        least = max(least, min(most_least, LEAST_BLOCK_VALUES // d))
        shared = -(-self.n_rows // BLOCKS_OF_SMALL_DATA)
        return max(least, min(MOST_BLOCK_ROWS, BLOCK_VALUES // d, shared))

    def blocks(self) -> list[Span]:
        """Return ranges ``(start, stop)`` that cover all rows in order."""
        return cut_span((0, self.n_rows), self.block_rows)

    def runs(self, most: int) -> list[Sequence[Span]]:
        """Return the blocks in at most `most` groups of consecutive ones, or one group per chunk of the source."""
        return even_runs(self.blocks(), most)

    def with_source(self, source: Rows | None) -> Any:
        """Return another source in place of this one; a view returns itself with that source."""
        return source

    def gather(self, indices: npt.NDArray[np.int64], function: Callable[[Block], T]) -> list[T]:
        """Return the results of `function` for the rows at sorted, distinct `indices`, a block at a time."""
        step = self.block_rows
        return [function(self.take(indices[low : low + step])) for low in range(0, len(indices), step)]


class RowView(Rows):
    """A row source that transforms the blocks of another one."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.n_rows = rows.n_rows
        self.n_features = rows.n_features
        self.sparse = rows.sparse
        self.in_memory = rows.in_memory
        self.remote = rows.remote
        self.weights = rows.weights

    @abstractmethod
    def transform(self, block: Block, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Block:
        """Return the transformed block; `numbers` are the row numbers, for messages."""

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return self.rows.block_rows

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows in order."""
        return self.rows.blocks()

    def runs(self, most: int) -> list[Sequence[Span]]:
        """Return the blocks in groups of consecutive ones."""
        return self.rows.runs(most)

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop``, transformed."""
        return self.transform(self.rows.read(start, stop), range(start, stop))

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """Return the rows at `indices`, transformed."""
        return self.transform(self.rows.take(indices), indices)

    def read_weights(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the weights of rows ``start .. stop``, or a single one if all rows count alike."""
        return self.rows.read_weights(start, stop)

    def gather(self, indices: npt.NDArray[np.int64], function: Callable[[Block], T]) -> list[T]:
        """Return the results of `function` for the transformed rows at `indices`."""
        if not self.remote:
            return super().gather(indices, function)
        # without the source, which stays here; row numbers are for messages, and these rows were checked before
        transform = self.with_source(None).transform
        return self.rows.gather(indices, lambda block: function(transform(block, range(block.shape[0]))))

    def close(self) -> None:
        """Close the source."""
        self.rows.close()

    def with_source(self, source: Rows | None) -> Self:
        """Return this view of another source."""
        other = copy.copy(self)
        other.rows = self.rows.with_source(source) if isinstance(self.rows, Rows) else source
        other.weights = None if other.rows is None else other.rows.weights  # workers must not receive those of all rows
        return other


def is_lazy(values: Any) -> bool:
    """Return whether values are a Dask collection."""
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


def cut_span(span: Span, step: int) -> list[Span]:
    """Return ranges of `step` rows that cover a range in order."""
    start, stop = span
    return [(low, min(low + step, stop)) for low in range(start, stop, step)]


def even_runs(tasks: Sequence[T], most: int) -> list[Sequence[T]]:
    """Return tasks in at most `most` groups of consecutive ones, of about equal length."""
    n_runs = max(1, min(most, MOST_GROUPS, len(tasks)))
    bounds = [len(tasks) * g // n_runs for g in range(n_runs + 1)]
    return [tasks[low:high] for low, high in itertools.pairwise(bounds)]


def sample_indices(n: int, size: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return sorted, distinct indices of `size` of `n` rows: one from each of `size` stretches of equal length.

    Every row is equally likely (up to the rounding of lengths), the cost does not depend on `n`, and data that is
    stored in some order is represented more evenly than by independent samples. All rows if `size` >= `n`.
    """
    if size >= n:
        return np.arange(n)
    bounds = np.arange(size + 1) * n // size
    return bounds[:-1] + (random.random(size) * np.diff(bounds)).astype(np.int64)
