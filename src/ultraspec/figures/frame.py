"""The part of the plane that is drawn, and its grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec.figures.labeled_rows import Floats

GRID = 320  # cells along the longer side
GRID_CELLS = 2**23  # most cells times clusters
BINS = 120  # of a histogram
MARGIN = 0.04  # around the sample, as share of its size: other rows may lie slightly beyond it
FAR = 4.0  # a range this many times as wide as that of 99 % of the rows is cut: outliers stay outside


@dataclass(frozen=True)
class Frame:
    """A rectangle of the plane with a grid.

    Attributes
    ----------
    low, high : ndarray of shape (2,)
        Lower left and upper right corner.
    cells : tuple of two int
        Columns and rows of the grid.
    equal : bool
        Whether both axes have the same scale.
    """

    low: Floats
    high: Floats
    cells: tuple[int, int]
    equal: bool

    @classmethod
    def around(cls, xy: Floats, k: int, *, one_axis: bool = False, side: int = GRID) -> Frame:
        """Return a frame around the points of a sample of `k` clusters, without distant outliers.

        `side` is the number of cells along the longer side, or fewer if there are very many clusters.
        """
        low = xy.min(axis=0)
        high = xy.max(axis=0)
        inner = np.quantile(xy, [0.005, 0.995], axis=0)
        width = inner[1] - inner[0]
        far = (high - low > FAR * width) & (width > 0)
        low = np.where(far, np.maximum(low, inner[0] - 0.5 * width), low)
        high = np.where(far, np.minimum(high, inner[1] + 0.5 * width), high)
        size = high - low
        largest = float(np.abs(xy).max())
        typical = float(size.max())
        if typical <= max(1e-12 * largest, 1e-300):  # rows that are all equal: a frame as large as their values
            typical = largest if largest > 1e-300 else 1.0
        flat = size <= 1e-12 * typical
        middle = (low + high) / 2
        half = np.where(flat, typical / 2, size / 2) * (1 + 2 * MARGIN)
        if one_axis:
            return cls(middle - half, middle + half, (BINS, 1), False)
        equal = bool(half.max() <= 3 * half.min())
        if equal:
            half = np.maximum(half, half.max() / 2)  # a very flat frame would be hard to read
        shape = half / half.max() if equal else np.array([1.0, 0.75])
        side = min(side, int(np.sqrt(GRID_CELLS / k / shape.prod())))
        columns, rows = (max(8, round(side * s)) for s in shape)
        return cls(middle - half, middle + half, (columns, rows), equal)

    @property
    def n_cells(self) -> int:
        """Number of cells of the grid."""
        return self.cells[0] * self.cells[1]

    def cell_of(self, xy: Floats) -> npt.NDArray[np.int64]:
        """Return the cell of each point, counted row by row from the lower left; -1 for points outside."""
        shape = np.array(self.cells)
        with np.errstate(invalid="ignore"):
            at = np.floor((xy - self.low) / (self.high - self.low) * shape)
        inside = ((at >= 0) & (at < shape)).all(axis=1)
        at = np.where(inside[:, None], at, 0).astype(np.int64)
        return np.where(inside, at[:, 1] * shape[0] + at[:, 0], -1)

    def contains(self, xy: Floats) -> npt.NDArray[np.bool_]:
        """Return whether each point is inside."""
        return self.cell_of(xy) >= 0

    def center_of(self, cell: npt.NDArray[np.int64]) -> Floats:
        """Return the centres of cells."""
        at = np.stack([cell % self.cells[0], cell // self.cells[0]], axis=-1) + 0.5
        return self.low + at / self.cells * (self.high - self.low)
