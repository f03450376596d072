"""Preprocessing: raw rows of any type to float32 rows.

Distances are computed in float32, but never on raw values. Before the cast, an offset per column is subtracted in
float64 and all values are divided by one power of two. So coordinates near 1e8 keep their differences, and 1e30 or
1e-30 neither overflow nor vanish when squared. A common factor changes no result. Under the cosine metric rows are
scaled to unit length instead. Under the haversine metric, latitude and longitude become a point of the unit sphere
first: the straight line between two points is longer if and only if the great circle is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._checks import warn_user
from ultraspec._kernels.projection import project_rows, project_sparse_rows
from ultraspec.engines.finite import find_not_finite
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import (
    LEAST_IDS,
    ArrayRows,
    Block,
    IdColumn,
    InvalidPlaces,
    RadiansGuessed,
    Rows,
    RowView,
    Span,
    ValuesTooLarge,
    WeightedRows,
    ZeroRow,
    check_finite,
    has_missing,
    is_increasing,
    spread_block,
    take_draws,
)

Numbers = Sequence[int] | npt.NDArray[np.int64]
Ends = dict[int, tuple[float, float]]  # first and last value of columns, by number

METRICS = ("euclidean", "cosine", "haversine")
COMPONENTS = 50  # "auto" projects rows with more features on this number of principal components
COMPONENT_ROWS = 10_000  # sampled rows that components are computed from
COMPONENT_VALUES = 2**25  # values of that sample, at most
SUBSPACE_ITERATIONS = 6
MEDIAN_ROWS = 1000  # sampled rows that medians are computed from
PREPARED_BYTES = 2**28  # rows whose float32 form is no larger may be preprocessed once and stored
LARGEST = 2.0**50  # scaled coordinate: its square, summed over features, stays far below the float32 maximum
LONGEST_ROW = 2.0**62  # projected row
LARGEST_RAW = 1e306  # raw value
PROBED_ROWS = 16  # of a block, that show whether a column may hold ids
LEAST_SCALE = 2.0**-1000  # one over a smaller scale would be infinite


@dataclass(frozen=True)
class Preprocessor:
    """Map from raw rows to float32 rows.

    Attributes
    ----------
    metric : str
        One of `METRICS`.
    offset : ndarray of shape (n_features,), or (3,) under haversine, float64
        Subtracted from every row; zero for sparse data, which must stay sparse, and under cosine.
    scale : float
        A power of two that divides every value.
    basis : ndarray of shape (n_features, q), float32, or None
        Principal components, on which the moved and scaled rows are projected; None for rows of few features.
    center : ndarray of shape (q,), float32, or None
        Projection of the mean, subtracted from projected rows.
    """

    metric: str
    offset: npt.NDArray[np.float64]
    scale: float
    basis: npt.NDArray[np.float32] | None = None
    center: npt.NDArray[np.float32] | None = None

    @classmethod
    def fit(
        cls,
        rows: Rows,
        metric: str,
        rng: np.random.Generator,
        engine: ThreadEngine,
        names: Sequence[str] | None = None,
        numbers: Numbers | None = None,
        n_components: int | Literal["auto"] | None = None,
    ) -> Preprocessor:
        """Fit offset and scale, and principal components unless `n_components` is None, see `_fit_scale`."""
        plain = cls._fit_scale(rows, metric, rng, engine, names, numbers)
        if n_components is None or metric == "haversine":
            return plain
        q = COMPONENTS if n_components == "auto" else n_components
        if rows.n_features <= q or rows.n_counted <= q:
            return plain
        n = min(COMPONENT_ROWS, max(2 * q, COMPONENT_VALUES // rows.n_features))
        sample = plain.prepare(take_draws(rows, n, rng))
        basis, center = _principal_components(sample, q)
        return replace(plain, basis=basis, center=center)

    @classmethod
    def _fit_scale(
        cls,
        rows: Rows,
        metric: str,
        rng: np.random.Generator,
        engine: ThreadEngine,
        names: Sequence[str] | None,
        numbers: Numbers | None,
    ) -> Preprocessor:
        """Check all rows for NaN, infinity and ids in one pass, and choose offset and scale.

        The offset is the median of a column over a sample of rows: one huge outlier must not cost all other rows their
        digits. The scale brings the typical deviation near one. `names` of features and `numbers` of rows are for
        error messages.
        """
        zero = np.zeros(rows.n_features)

        def extremes(raw: Block, _: Span) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], Ends]:
            if scipy.sparse.issparse(raw):
                largest = np.array([np.abs(raw.data).max(initial=0)], dtype=np.float64)
                return -largest, largest, {}
            # a narrow array is many times faster column by column than along axis 0
            columns = raw.T if raw.shape[1] <= 16 else [raw]
            low = np.concatenate([np.atleast_1d(c.min(axis=0)) for c in columns]).astype(np.float64)
            high = np.concatenate([np.atleast_1d(c.max(axis=0)) for c in columns]).astype(np.float64)
            return low, high, ends_of_increasing(raw)

        if metric == "haversine" and (rows.sparse or rows.n_features != 2):
            raise InvalidPlaces([], rows.n_features)
        if metric == "haversine" and names is not None and _look_swapped(*map(str, names)):
            raise InvalidPlaces([], 2, [str(name) for name in names])
        results = engine.map_rows(rows, extremes)
        low = np.min([low for low, _, _ in results], axis=0)
        high = np.max([high for _, high, _ in results], axis=0)
        if not (np.isfinite(low) & np.isfinite(high)).all():
            error = find_not_finite(rows, engine, names, numbers)
            if error is not None:
                raise error
        _warn_of_ids([ends for _, _, ends in results], rows, names)
        if metric == "cosine":
            return cls(metric, zero, 1.0)
        if metric == "haversine":
            _check_places(np.maximum(high, -low), warn=True)
            low, high = -np.ones(3), np.ones(3)  # of points of the sphere
        if max(high.max(), -low.min()) > LARGEST_RAW:
            raise ValuesTooLarge(LARGEST_RAW)
        sample = take_draws(rows, MEDIAN_ROWS, rng)
        if metric == "haversine":
            sample = to_sphere(sample)
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
        return cls(metric, offset, float(max(2.0 ** np.floor(np.log2(scale)), LEAST_SCALE)) if scale > 0 else 1.0)

    @property
    def projects(self) -> bool:
        """Whether rows are projected, so that prepared rows are dense and have fewer features."""
        return self.basis is not None

    def prepare(self, raw: Block, numbers: Numbers | None = None) -> Block:
        """Return float32 rows (a C-contiguous array, or CSR) of a finite raw block.

        The row `numbers` are for error messages.
        """
        return self._project(self._prepare_unprojected(raw, numbers))

    def _project(self, block: Block) -> Block:
        """Project moved and scaled rows on the principal components, if there are any."""
        if self.basis is None:
            return block
        out = np.empty((block.shape[0], self.basis.shape[1]), dtype=np.float32)
        if scipy.sparse.issparse(block):
            project_sparse_rows(block.indptr, block.indices, block.data, self.basis, out)
        else:
            project_rows(block, self.basis, out)
        assert self.center is not None
        out -= self.center
        # No row is as long if directions are orthogonal, but those of a file may not be: distances must stay finite.
        limit = np.float32(LONGEST_ROW / np.sqrt(out.shape[1]))
        np.clip(out, -limit, limit, out=out)
        return out

    def _prepare_unprojected(self, raw: Block, numbers: Numbers | None) -> Block:
        if self.metric == "haversine":
            return self._move_and_scale(to_sphere(raw))
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
        step = max(1, 2**15 // max(raw.shape[1], 1))  # few rows at a time: the float64 copy stays in cache
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
        """Prepare rows that were not fitted: values outside the float32-safe range are clipped.

        Rows that were fitted give the result of `prepare`, bit for bit.
        """
        with np.errstate(over="ignore"):
            block = self._prepare_unprojected(raw, numbers)
        values = block.data if scipy.sparse.issparse(block) else block
        np.clip(values, -2 * LARGEST, 2 * LARGEST, out=values)
        return self._project(block)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays, for files."""
        arrays = {"offset": self.offset, "scale": np.asarray(self.scale)}
        if self.basis is not None and self.center is not None:
            arrays |= {"basis": self.basis, "center": self.center}
        return arrays

    @classmethod
    def from_arrays(cls, metric: str, arrays: dict[str, npt.NDArray[Any]]) -> Preprocessor:
        """Restore a preprocessor from what `arrays` returned."""
        return cls(metric, arrays["offset"], float(arrays["scale"]), arrays.get("basis"), arrays.get("center"))

    def restore(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Map points back to the coordinates of the user (under cosine: directions); projected ones, approximately."""
        raw = points.astype(np.float64)
        if self.basis is not None and self.center is not None:
            raw = (raw + self.center) @ self.basis.T.astype(np.float64)
        raw = raw * self.scale + self.offset
        return from_sphere(raw) if self.metric == "haversine" else raw


class PreparedRows(RowView):
    """Rows seen through a `Preprocessor`: blocks are float32. The rows must be finite."""

    def __init__(self, rows: Rows, space: Preprocessor) -> None:
        super().__init__(rows)
        self._space = space
        if space.metric == "haversine":
            self.n_features = len(space.offset)
        if space.basis is not None:
            self.n_features = space.basis.shape[1]
            self.sparse = False

    def transform(self, block: Block, numbers: Numbers) -> Block:
        """Preprocess a block."""
        return self._space.prepare(block, numbers)


def to_sphere(places: Block) -> npt.NDArray[np.float64]:
    """Return points (n, 3) of the unit sphere; raise InvalidPlaces if latitudes or longitudes are no degrees."""
    raw = places.toarray() if scipy.sparse.issparse(places) else places
    angles = raw.astype(np.float64)
    _check_places(np.abs(angles).max(axis=0, initial=0.0), warn=False)
    latitude, longitude = np.radians(angles).T
    around = np.cos(latitude)
    return np.column_stack([around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)])


def from_sphere(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the latitude and longitude, in degrees, of directions (n, 3)."""
    x, y, z = points.T
    return np.degrees(np.column_stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)]))


def _look_swapped(first: str, second: str) -> bool:
    """Return whether the names of two columns say that the first is the longitude."""
    first, second = first.lower(), second.lower()
    is_longitude = "lat" not in first and ("lon" in first or "lng" in first)
    return is_longitude and "lat" in second and "lon" not in second


def _check_places(largest: npt.NDArray[np.float64], *, warn: bool) -> None:
    """Raise InvalidPlaces if latitudes or longitudes are no degrees; warn if they look like radians."""
    if largest[0] > 90 or largest[1] > 360:
        raise InvalidPlaces(largest.tolist(), 2)
    if warn and 0 < largest[0] <= np.pi / 2 and 0 < largest[1] <= 2 * np.pi:
        warn_user(RadiansGuessed(largest.tolist()))


def prepare_rows(rows: Rows, preprocessor: Preprocessor, engine: ThreadEngine) -> Rows:
    """Return preprocessed rows: small dense rows are preprocessed now, others whenever a block is read."""
    prepared = PreparedRows(rows, preprocessor)
    if prepared.sparse or rows.remote or rows.n_rows * prepared.n_features * 4 > PREPARED_BYTES:
        return prepared
    array = np.empty((rows.n_rows, prepared.n_features), dtype=np.float32)

    def fill(block: Block, span: Span) -> None:
        array[slice(*span)] = block

    engine.map_rows(prepared, fill)
    stored = ArrayRows(array, in_memory=rows.in_memory)
    return stored if rows.weights is None else WeightedRows(stored, rows.weights)


class UnseenRows(PreparedRows):
    """Rows seen through the `Preprocessor` of other rows: checked as they are read, and clipped to its range.

    Rows that were fitted give the blocks of `PreparedRows`, bit for bit.
    """

    def __init__(self, rows: Rows, space: Preprocessor, names: Sequence[str] | None = None) -> None:
        super().__init__(rows, space)
        self._names = names

    def transform(self, block: Block, numbers: Numbers) -> Block:
        """Check and preprocess a block."""
        check_finite(block, numbers, self._names)
        return self._space.prepare_new(block, numbers)


@dataclass(frozen=True)
class PartialBlock:
    """A preprocessed block without the rows that have missing values."""

    block: Block  #: the other rows, preprocessed
    keep: npt.NDArray[np.bool_]  #: which of the rows these are


class GappyRows(UnseenRows):
    """Rows that may have missing values, seen like `UnseenRows`: a block that has some is a `PartialBlock`."""

    def transform(self, block: Block, numbers: Numbers) -> Any:
        """Check and preprocess the complete rows of a block."""
        keep = ~has_missing(block)
        if keep.all():
            return super().transform(block, numbers)
        return PartialBlock(super().transform(block[keep], np.asarray(numbers)[keep]), keep)


def apply_to_complete(function: Callable[[Block], Any], block: Any) -> Any:
    """Apply a function of preprocessed rows to a block of `GappyRows`; incomplete rows get -1 or NaN."""
    if not isinstance(block, PartialBlock):
        return function(block)
    result = function(block.block)
    if isinstance(result, tuple):
        return tuple(spread_block(part, block.keep) for part in result)
    return spread_block(result, block.keep)


def ends_of_increasing(raw: npt.NDArray[Any]) -> Ends:
    """Return the first and the last value of the columns of a block that hold increasing integers, by number."""
    if raw.shape[1] < 2 or not len(raw):
        return {}
    start = raw[:PROBED_ROWS]  # few rows rule out almost all columns
    likely = np.flatnonzero((start[1:] > start[:-1]).all(axis=0))
    return {int(j): (float(raw[0, j]), float(raw[-1, j])) for j in likely if is_increasing(raw[:, j])}


def _warn_of_ids(ends: Sequence[Ends], rows: Rows, names: Sequence[str] | None) -> None:
    """Warn if columns hold integers that increase through all blocks, given their ends in each block."""
    if rows.n_rows < LEAST_IDS:
        return
    found = [
        j
        for j in ends[0]
        if all(j in block for block in ends) and all(a[j][1] < b[j][0] for a, b in itertools.pairwise(ends))
    ]
    others = [j for j in range(rows.n_features) if j not in found]
    if found and others:
        labels: Any = range(rows.n_features) if names is None else [str(name) for name in names]
        warn_user(IdColumn([labels[j] for j in found], [labels[j] for j in others]))


def _principal_components(sample: Block, q: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the first `q` principal components (d, q) of sampled rows, and the projection of their mean.

    Subspace iteration with a few vectors more than wanted, which suits dense and sparse rows of any width: S' S X is
    centred by subtracting n m (m' X) with the mean m.
    """
    n, d = sample.shape
    mean = np.asarray(sample.mean(axis=0), dtype=np.float32).ravel()
    basis = np.random.default_rng(0).standard_normal((d, min(d, q + 14))).astype(np.float32)
    for _ in range(SUBSPACE_ITERATIONS):
        image = sample.T @ (sample @ basis) - np.float32(n) * np.outer(mean, mean @ basis)
        basis = np.linalg.qr(image)[0]
    image = sample @ basis - mean @ basis
    directions = np.linalg.eigh((image.T @ image).astype(np.float64))[1][:, ::-1][:, :q]
    basis = np.ascontiguousarray(basis @ directions.astype(np.float32))
    return basis, mean @ basis


def _typical(deviations: npt.NDArray[np.float64]) -> float:
    """Return the median of the deviations that are not zero, or 0."""
    positive = deviations[deviations > 0]
    return float(np.median(positive)) if positive.size else 0.0


def _refuse_zero_rows(lengths: npt.NDArray[np.float64], numbers: Numbers | None) -> None:
    zero = np.flatnonzero(lengths == 0)
    if zero.size:
        row = int(zero[0] if numbers is None else numbers[zero[0]])
        raise ZeroRow(row)
