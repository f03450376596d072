"""The space in which distances are taken: takes raw rows of any type, gives float32 rows.

Distances are computed in float32, but never on raw values. A per-column offset is subtracted in float64 and one
common power of two divides everything before the cast, so that coordinates near 1e8 keep their differences and 1e30
or 1e-30 neither overflow nor vanish when squared. One common factor changes no result. Under the cosine metric rows
are scaled to unit length instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, RowView, Span, ValuesTooLarge, ZeroRow, check_finite, sample_indices

Numbers = Sequence[int] | npt.NDArray[np.int64]

MEDIAN_ROWS = 1000
LARGEST = 2.0**50  # of a scaled coordinate: its square, summed over features, stays far below float32's end
LARGEST_RAW = 1e306  # of a raw value
LEAST_SCALE = 2.0**-1000  # below, one over the scale would be infinite


@dataclass(frozen=True)
class Preprocessor:
    """How raw rows become float32 rows.

    Attributes
    ----------
    metric : str
        "euclidean" or "cosine".
    offset : ndarray of shape (n_features,), float64
        Subtracted from every row; zero for sparse data, which must stay sparse, and under cosine.
    scale : float
        A power of two that divides every value.
    """

    metric: str
    offset: npt.NDArray[np.float64]
    scale: float

    def prepare(self, raw: Block, numbers: Numbers | None = None) -> Block:
        """Float32 rows (a C-contiguous array, or CSR) of a finite raw block; the rows' `numbers` are for messages."""
        if scipy.sparse.issparse(raw):
            if not self.offset.any():
                return self._prepare_sparse(raw, numbers)
            raw = raw.toarray()  # the model was fitted on dense rows
        if self.metric == "cosine":
            rows = np.array(raw, dtype=np.float64, order="C")
            largest = np.abs(rows).max(axis=1, initial=0.0)
            _refuse_zero_rows(largest, numbers)
            rows /= largest[:, None]  # before squaring, which could overflow or vanish
            rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
        else:
            return self._move_and_scale(raw)
        return rows.astype(np.float32, order="C")

    def _move_and_scale(self, raw: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        rows = np.empty(raw.shape, dtype=np.float32)
        step = max(1, 2**15 // max(raw.shape[1], 1))  # so few rows at a time that the float64 copy stays in cache
        for low in range(0, len(raw), step):
            part = raw[low : low + step].astype(np.float64)
            part -= self.offset
            part *= 1.0 / self.scale
            rows[low : low + step] = part
        return rows

    def _prepare_sparse(self, raw: Block, numbers: Numbers | None) -> Block:
        values = raw.data.astype(np.float64)
        if self.metric == "cosine":
            sizes = np.diff(raw.indptr)
            largest = np.asarray(abs(raw).max(axis=1).todense(), dtype=np.float64).ravel()
            _refuse_zero_rows(largest, numbers)
            values /= np.repeat(largest, sizes)  # before squaring, which could overflow or vanish
            owners = np.repeat(np.arange(len(sizes)), sizes)
            values /= np.repeat(np.sqrt(np.bincount(owners, weights=values**2, minlength=len(sizes))), sizes)
        else:
            values *= 1.0 / self.scale
        indices = raw.indices.astype(np.int32, copy=False), raw.indptr.astype(np.int32, copy=False)
        return scipy.sparse.csr_array((values.astype(np.float32), *indices), shape=raw.shape)

    def prepare_new(self, raw: Block, numbers: Numbers | None = None) -> Block:
        """`prepare` for rows that were not surveyed: those too far out for float32 are drawn in.

        Rows that were fitted come out the same, bit for bit.
        """
        with np.errstate(over="ignore"):
            block = self.prepare(raw, numbers)
        values = block.data if scipy.sparse.issparse(block) else block
        np.clip(values, -2 * LARGEST, 2 * LARGEST, out=values)
        return block

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Offset and scale, for files."""
        return {"offset": self.offset, "scale": np.asarray(self.scale)}

    @classmethod
    def from_arrays(cls, metric: str, arrays: dict[str, npt.NDArray[Any]]) -> Preprocessor:
        """A space from what `arrays` gave."""
        return cls(metric, arrays["offset"], float(arrays["scale"]))

    def restore(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Points of this space in the user's own coordinates (under cosine: directions)."""
        return points.astype(np.float64) * self.scale + self.offset


class PreparedRows(RowView):
    """A row source seen through a `Preprocessor`: its blocks are float32. The rows must be finite."""

    def __init__(self, rows: Rows, space: Preprocessor) -> None:
        super().__init__(rows)
        self._space = space

    def change(self, block: Block, numbers: Numbers) -> Block:
        """Prepare rows."""
        return self._space.prepare(block, numbers)


class NewRows(PreparedRows):
    """Rows seen through the `Preprocessor` of other rows: checked as they are read, and clipped to its range.

    Rows that were surveyed come out as `PreparedRows` gives them, bit for bit.
    """

    def __init__(self, rows: Rows, space: Preprocessor, names: Sequence[str] | None = None) -> None:
        super().__init__(rows, space)
        self._names = names

    def change(self, block: Block, numbers: Numbers) -> Block:
        """Check and prepare rows."""
        check_finite(block, numbers, self._names)
        return self._space.prepare_new(block, numbers)


def survey(
    rows: Rows,
    metric: str,
    random: np.random.Generator,
    engine: ThreadEngine,
    names: Sequence[str] | None = None,
    numbers: Numbers | None = None,
) -> Preprocessor:
    """Look at all rows once: refuse NaN and infinity, and choose offset and scale.

    The offset is a column's median over some rows (one huge outlier must not cost all others their digits); the scale
    brings the typical deviation near one. `names` of features and `numbers` of rows are for messages.
    """
    zero = np.zeros(rows.n_features)
    numbers = range(rows.n_rows) if numbers is None else numbers

    def extremes(raw: Block, span: Span) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if scipy.sparse.issparse(raw):
            check_finite(raw, numbers[slice(*span)], names)
            largest = np.array([np.abs(raw.data).max(initial=0)], dtype=np.float64)
            return -largest, largest
        # a narrow array is many times faster column by column than along axis 0
        columns = raw.T if raw.shape[1] <= 16 else [raw]
        low = np.concatenate([np.atleast_1d(c.min(axis=0)) for c in columns]).astype(np.float64)
        high = np.concatenate([np.atleast_1d(c.max(axis=0)) for c in columns]).astype(np.float64)
        if not (np.isfinite(low) & np.isfinite(high)).all():
            check_finite(raw, numbers[slice(*span)], names)
        return low, high

    found = engine.map_rows(rows, extremes)
    if metric == "cosine":
        return Preprocessor(metric, zero, 1.0)
    low = np.min([f[0] for f in found], axis=0)
    high = np.max([f[1] for f in found], axis=0)
    if max(high.max(), -low.min()) > LARGEST_RAW:
        raise ValuesTooLarge(LARGEST_RAW)
    sample = rows.take(sample_indices(rows.n_rows, MEDIAN_ROWS, random))
    if scipy.sparse.issparse(sample):
        offset = zero
        deviations = np.abs(sample.data.astype(np.float64))
        farthest = float(high.max())
    else:
        offset = np.median(sample.astype(np.float64), axis=0)
        deviations = np.abs(sample - offset)
        farthest = float(np.maximum(high - offset, offset - low).max())
    typical = _typical(deviations)
    scale = max(typical if typical > 0 else farthest, farthest / LARGEST)
    return Preprocessor(metric, offset, float(max(2.0 ** np.floor(np.log2(scale)), LEAST_SCALE)) if scale > 0 else 1.0)


def _typical(deviations: npt.NDArray[np.float64]) -> float:
    """A middle value of the deviations that are not zero."""
    positive = deviations[deviations > 0]
    return float(np.median(positive)) if positive.size else 0.0


def _refuse_zero_rows(lengths: npt.NDArray[np.float64], numbers: Numbers | None) -> None:
    zero = np.flatnonzero(lengths == 0)
    if zero.size:
        row = int(zero[0] if numbers is None else numbers[zero[0]])
        raise ZeroRow(row)
