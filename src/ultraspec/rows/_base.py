"""The interface of a row source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Block = Any  # rows of a source: a 2-d numpy.ndarray or a scipy.sparse CSR matrix

BLOCK_VALUES = 2**20  # values of a block, about: float32 blocks of 4 MB stay in the outer caches
MOST_BLOCK_ROWS = 65536
BLOCKS_OF_SMALL_DATA = 16  # small data is cut too, or there would be nothing to share between threads
LEAST_BLOCK_VALUES = 2**15  # but not so small that handing blocks to threads costs more than it saves
LEAST_BLOCK_ROWS = (256, 4096)


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
    """

    n_rows: int
    n_features: int
    sparse = False
    names: list[str] | None = None
    in_memory = True

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

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges ``(start, stop)`` that cover all rows in order."""
        step = self.block_rows
        return [(start, min(start + step, self.n_rows)) for start in range(0, self.n_rows, step)]


def sample_indices(n: int, size: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sorted, distinct indices of `size` of `n` rows: one drawn from each of `size` stretches of equal length.

    Every row is as likely as any other (up to the rounding of lengths), the cost does not depend on `n`, and data that
    is stored in some order is represented more evenly than by independent draws. All rows if `size` >= `n`.
    """
    if size >= n:
        return np.arange(n)
    bounds = np.arange(size + 1) * n // size
    return bounds[:-1] + (random.random(size) * np.diff(bounds)).astype(np.int64)
