"""Mean and variance of the columns, in one pass over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.engines.finite import find_not_finite
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Scaling, Span

Floats = npt.NDArray[np.float64]

ROUNDING = 16 * np.finfo(np.float64).eps  # a column whose deviation is below this share of its mean is constant


@dataclass
class Moments:
    """Number, means, squared deviations and extremes of some rows; moments of two sets of rows can be joined."""

    count: int  #: number of rows
    mean: Floats  #: means of the columns
    squares: Floats  #: sums of squared deviations from the means
    low: Floats  #: smallest values
    high: Floats  #: largest values

    @classmethod
    def of(cls, block: npt.NDArray[Any]) -> Moments:
        """Compute the moments of a block."""
        values = block.astype(np.float64)
        mean = values.mean(axis=0)
        low = values.min(axis=0)
        high = values.max(axis=0)
        values -= mean
        return cls(len(values), mean, np.einsum("ij,ij->j", values, values), low, high)

    def join(self, other: Moments) -> Moments:
        """Compute the moments of the rows of both, without reading these again (Chan, Golub and LeVeque)."""
        count = self.count + other.count
        step = other.mean - self.mean
        mean = self.mean + step * (other.count / count)
        squares = self.squares + other.squares + step**2 * (self.count * other.count / count)
        return Moments(count, mean, squares, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def measure_scaling(rows: Rows, engine: ThreadEngine) -> Scaling:
    """Compute means and standard deviations of all columns in one pass; the same for any number of threads.

    The deviation of a constant column is set to 1.

    Raises
    ------
    ValueError
        If there is NaN or infinity, the rows are sparse, or values are so large that their squares overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from ultraspec.rows import ArrayRows
    >>> with ThreadEngine(1) as engine:
    ...     measure_scaling(ArrayRows(np.array([[1, 5], [3, 5]])), engine)
    Scaling(mean=array([2., 5.]), deviation=array([1., 1.]))
    """
    if rows.sparse:
        raise ValueError(
            "The rows are a sparse matrix, which columns of mean 0 would fill. Leave it unscaled; the cosine metric "
            "evens out the lengths of rows."
        )

    def add(result: list[Moments], block: Block, _: Span) -> None:  # a list of one, or empty at first
        with np.errstate(over="ignore", invalid="ignore"):
            moments = Moments.of(block)
            result[:] = [result[0].join(moments) if result else moments]

    def join(a: list[Moments], b: list[Moments]) -> list[Moments]:
        with np.errstate(over="ignore", invalid="ignore"):
            return [a[0].join(b[0])]

    total = engine.fold_rows(rows, list, add, join)[0]
    deviation = np.sqrt(total.squares / total.count)
    if not (np.isfinite(total.low) & np.isfinite(total.high)).all():
        error = find_not_finite(rows, engine, rows.names)
        if error is not None:
            raise error
    _refuse_huge(total.mean, deviation, rows.names)
    constant = total.low == total.high
    deviation[constant | (deviation <= ROUNDING * np.abs(total.mean))] = 1.0
    return Scaling(np.where(constant, total.low, total.mean), deviation)


def _refuse_huge(mean: Floats, deviation: Floats, names: list[str] | None) -> None:
    bad = np.flatnonzero(~(np.isfinite(mean) & np.isfinite(deviation)))
    if bad.size:
        label = f"column {names[bad[0]]!r}" if names is not None else f"column {bad[0]}"
        raise ValueError(f"The values of {label} are too large: their squares overflow. Divide them by a constant.")
