"""Columns brought to mean 0 and variance 1: takes a row source, gives one whose blocks are scaled.

A model that was fitted on scaled rows keeps the scaling as `scaling_`, and model files do too: `predict` and all else
take rows as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.rows._base import Block, Rows, RowView

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """What is subtracted from each column, and what then divides it.

    Attributes
    ----------
    mean, deviation : ndarray of shape (n_features,), float64
        Mean and standard deviation of each column; a constant one is divided by 1.

    Examples
    --------
    >>> import numpy as np
    >>> Scaling(np.array([1.0, 0.0]), np.array([2.0, 1.0])).apply(np.array([[5, 7]]))
    array([[2., 7.]])
    """

    mean: Floats
    deviation: Floats

    def apply(self, block: Block) -> Floats:
        """Scaled rows; the same for a row whatever others are in the block."""
        scaled = np.array(block.toarray() if hasattr(block, "toarray") else block, dtype=np.float64, order="C")
        scaled -= self.mean
        scaled /= self.deviation
        return scaled


class ScaledRows(RowView):
    """A row source whose blocks are scaled, in float64.

    Attributes
    ----------
    rows : Rows
        The source as it is.
    scaling : Scaling
        What its columns are scaled by.

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
        self.scaling, self.names = scaling, rows.names

    def change(self, block: Block, numbers: Any) -> Block:  # noqa: ARG002
        """Scale rows."""
        return self.scaling.apply(block)

    def select(self, columns: Sequence[str | int]) -> ScaledRows:
        """The same rows with only these columns, scaled as before."""
        places = self.rows.places(columns)
        return ScaledRows(self.rows.select(columns), Scaling(self.scaling.mean[places], self.scaling.deviation[places]))

    def __repr__(self) -> str:
        return f"<scaled {repr(self.rows).removeprefix('<')}"
