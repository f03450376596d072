"""Columns scaled to mean 0 and variance 1.

A model that was fitted on scaled rows stores the scaling as `scaling_`, also in model files: `predict` and other
methods then take rows as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows.interface import Block, Rows, RowView

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation by which columns are scaled.

    Attributes
    ----------
    mean, deviation : ndarray of shape (n_features,), float64
        Mean and standard deviation of each column; the deviation of a constant column is 1.

    Examples
    --------
    >>> import numpy as np
    >>> Scaling(np.array([1.0, 0.0]), np.array([2.0, 1.0])).apply(np.array([[5, 7]]))
    array([[2., 7.]])
    """

    mean: Floats
    deviation: Floats

    def apply(self, block: Block) -> Floats:
        """Return scaled rows; the result for a row does not depend on the other rows of the block."""
        scaled = np.array(block.toarray() if hasattr(block, "toarray") else block, dtype=np.float64, order="C")
        scaled -= self.mean
        scaled /= self.deviation
        return scaled


class ScaledRows(RowView):
    """A row source whose blocks are scaled, in float64.

    Attributes
    ----------
    rows : Rows
        The source that is scaled.
    scaling : Scaling
        The scaling of its columns.

    Examples
    --------
    >>> import numpy as np
    >>> from ultraspec.rows import ArrayRows
    >>> rows = ScaledRows(ArrayRows(np.array([[1, 5], [3, 5]])), Scaling(np.array([2.0, 5.0]), np.ones(2)))
    >>> rows.read(0, 2)
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    dtype = np.dtype(np.float64)

    def __init__(self, rows: Rows, scaling: Scaling) -> None:
        super().__init__(rows)
        self.scaling = scaling
        self.names = rows.names

    def transform(self, block: Block, numbers: Any) -> Block:
        """Return the scaled block."""
        return self.scaling.apply(block)

    def select(self, columns: Sequence[str | int]) -> ScaledRows:
        """Return these rows with only some columns, which keep their scaling."""
        indices = self.rows.column_indices(columns)
        scaling = Scaling(self.scaling.mean[indices], self.scaling.deviation[indices])
        return ScaledRows(self.rows.select(columns), scaling)

    def __repr__(self) -> str:
        return f"<scaled {repr(self.rows).removeprefix('<')}"
