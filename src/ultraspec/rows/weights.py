"""Weights of rows: a row of weight 2 counts as two equal rows, one of weight 0 is labelled but does not count.

Weights are positive or zero; only their proportions matter. Weights that are no integers are scaled so that those of
rows that count are 1 on average; integers stay as they are, so that sums equal those of repeated rows.

Statistics are computed from samples. `RowWeights.draw` draws rows as often as their weight says, so that a sample needs
no weights. `RowWeights.sample` returns distinct rows with weights, for graphs.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ultraspec._checks import Notation
from ultraspec.rows.errors import InvalidData
from ultraspec.rows.in_memory import ArrayRows, SparseRows
from ultraspec.rows.interface import NO_WEIGHTS, Block, Rows, RowView, cut_span, sample_indices

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

PART_ROWS = 2**16  # weights that are read at a time
LARGEST_WEIGHT = 1e15  # sums stay exact integers up to 9e15


@dataclass(eq=False)
class InvalidWeight(InvalidData):
    """A weight is negative, missing, infinite or too large, or all are zero."""

    reason: str  #: what is wrong: the rest of a sentence
    advice: str = "Weights are numbers that are not negative."  #: what to do

    def _problem(self, notation: Notation) -> str:
        return f"{notation.parameter('sample_weight')} {self.reason}."

    def _advice(self, notation: Notation) -> str:
        return self.advice


class RowSample(NamedTuple):
    """Some rows: sorted, distinct indices and a weight for each, or one for every row."""

    indices: Indices
    weights: Floats = NO_WEIGHTS

    def take(self, positions: Indices) -> RowSample:
        """Return some of the rows, by their positions in the sample."""
        is_weighted = len(self.weights) == len(self.indices)
        return RowSample(self.indices[positions], self.weights[positions] if is_weighted else self.weights)

    def weigh(self, rows: Rows) -> Rows:
        """Return these rows, which were read into memory, with their weights, unless all have the same."""
        if len(self.weights) != len(self.indices) or (self.weights == self.weights[0]).all():
            return rows
        return WeightedRows(rows, LocalWeights.of(self.weights))

    def repeat(self, values: Any) -> Any:
        """Return values of these rows, each as often as its weight, an integer, says."""
        if len(self.weights) != len(self.indices) or (self.weights == 1.0).all():
            return values
        return values[np.repeat(np.arange(len(self.indices)), self.weights.astype(np.int64))]


class WeightFacts(NamedTuple):
    """What one pass over some weights tells."""

    total: float
    n_positive: int
    integers: bool
    least: float
    most: float

    @classmethod
    def of(cls, weights: Any, first_row: int) -> WeightFacts:
        """Return the facts of weights; raise InvalidWeight if one of them is invalid."""
        values = to_weights(weights)
        bad = np.flatnonzero(~((values >= 0) & (values <= LARGEST_WEIGHT)))
        if bad.size:
            value = values[bad[0]]
            where = f"{len(bad):,} invalid weights, the first" if len(bad) > 1 else "an invalid weight"
            raise InvalidWeight(f"has {where} in row {first_row + int(bad[0])}: {value:g}")
        if not len(values):
            return cls(0.0, 0, True, np.inf, -np.inf)
        n_positive = int(np.count_nonzero(values))
        integers = bool((values == np.rint(values)).all())
        return cls(float(values.sum()), n_positive, integers, float(values.min()), float(values.max()))


def to_weights(values: Any) -> Floats:
    """Return a column of numbers as a vector of float64, a copy."""
    return np.array(values, dtype=np.float64).reshape(-1)


def check_length(n_weights: int, n_rows: int) -> None:
    """Raise InvalidWeight unless there is a weight for each row."""
    if n_weights != n_rows:
        raise InvalidWeight(f"has {n_weights:,} weights, but X has {n_rows:,} rows", "Pass a weight for each row.")


class RowWeights(ABC):
    """Weights of all rows of a source, which is divided into parts of consecutive rows.

    Attributes
    ----------
    bounds : ndarray of int64
        First row of each part, and the number of rows.
    totals : ndarray of float64
        Sum of the weights of each part, scaled.
    n_positive : int
        Number of rows that count: their weight is not zero.
    integers : bool
        Whether all weights are integers.
    scale : float
        Factor of all weights.
    most : float
        Largest weight, not scaled.
    equal : bool
        Whether all weights are equal.
    """

    def __init__(self, bounds: Indices, facts: Sequence[WeightFacts], scale: float | None = None) -> None:
        self.bounds = bounds
        self.n_positive = sum(fact.n_positive for fact in facts)
        self.integers = all(fact.integers for fact in facts)
        totals = np.array([fact.total for fact in facts])
        if not self.n_positive:
            raise InvalidWeight("has no weight above zero", "At least one row must count.")
        if scale is None:
            scale = 1.0 if self.integers else self.n_positive / totals.sum()
        self.scale = float(scale)
        self.totals: Floats = totals * self.scale
        self.most = max(fact.most for fact in facts)
        self.equal = min(fact.least for fact in facts) == self.most

    @abstractmethod
    def read(self, start: int, stop: int) -> Floats:
        """Return the weights of rows ``start .. stop``."""

    @abstractmethod
    def map(self, function: Callable[..., T], arguments: Sequence[Any], parts: Sequence[int]) -> list[T]:
        """Return ``function(weights, argument)`` for some parts and an argument for each."""

    def take(self, indices: Indices) -> Floats:
        """Return the weights of the rows at sorted `indices`."""
        return self._concatenate(_take, indices, np.searchsorted(indices, self.bounds), self.bounds[:-1])

    def checksum(self) -> str:
        """Return a checksum of all weights."""
        parts = range(len(self.totals))
        return hashlib.sha256(b"".join(self.map(_digest, [None for _ in parts], parts))).hexdigest()

    def sample(self, size: int, rng: np.random.Generator) -> RowSample:
        """Draw rows by weight and return them with the number of times that each was drawn; all, if they are no more.

        The running sum of weights is divided into `size` equal intervals, and one position is sampled from each.
        """
        if size >= self.n_positive:
            indices = self.positive()
            return RowSample(indices, self.take(indices))
        return self._sample_positions(size, rng)

    def draw(self, size: int, rng: np.random.Generator) -> RowSample:
        """Draw rows by weight; the number of times that each was drawn is its weight, an integer.

        Draw at most as many as rows count, but if weights are integers whose sum is at most `size`, repeat all rows.
        """
        if self.integers and self.scale == 1.0 and self.totals.sum() <= size:
            indices = self.positive()
            return RowSample(indices, self.take(indices))
        return self._sample_positions(min(size, self.n_positive), rng)

    def positive(self) -> Indices:
        """Return the rows that count."""
        parts = range(len(self.totals))
        found = self.map(_positive, [None for _ in parts], parts)
        return np.concatenate([rows + first for rows, first in zip(found, self.bounds, strict=False)])

    def _sample_positions(self, size: int, rng: np.random.Generator) -> RowSample:
        ends = np.cumsum(self.totals)
        positions = (np.arange(size) + rng.random(size)) * (ends[-1] / size)
        cuts = np.searchsorted(positions, np.concatenate([[0.0], ends]))
        cuts[-1] = size  # rounding may put the last position at the end
        rows = self._concatenate(_find, positions, cuts, ends - self.totals)
        offsets = np.repeat(self.bounds[:-1], np.diff(cuts))
        indices, counts = np.unique(rows + offsets, return_counts=True)
        return RowSample(indices, counts.astype(np.float64))

    def _concatenate(self, function: Callable[..., Any], values: Any, cuts: Any, starts: Any) -> Any:
        """Apply a function to the weights of each part and the `values` that belong to it, less the part's start."""
        parts = np.flatnonzero(np.diff(cuts)).tolist()
        arguments = [values[cuts[part] : cuts[part + 1]] - starts[part] for part in parts]
        return np.concatenate(self.map(function, arguments, parts) or [np.empty(0)])


def _take(weights: Floats, indices: Indices) -> Floats:
    return weights[indices]


def _digest(weights: Floats, _: None) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(weights).data).digest()


def _positive(weights: Floats, _: None) -> Indices:
    return np.flatnonzero(weights).astype(np.int64)


def _find(weights: Floats, positions: Floats) -> Indices:
    """Return the rows at positions of the running sum of weights; never one of weight zero."""
    sums = np.cumsum(weights)
    rows = np.searchsorted(sums, positions, side="right")
    last = np.searchsorted(sums, sums[-1], side="left")
    return np.minimum(rows, last).astype(np.int64)


class LocalWeights(RowWeights):
    """Weights in an array, or in a `Spool`.

    Examples
    --------
    >>> weights = LocalWeights.of(np.array([2.0, 0.0, 1.0]))
    >>> weights.n_positive, weights.read(0, 2)
    (2, array([2., 0.]))
    >>> weights.draw(5, np.random.default_rng(0)).repeat(np.array([7, 9]))
    array([7, 7, 9])
    """

    def __init__(self, values: Any, bounds: Indices, facts: Sequence[WeightFacts], scale: float | None = None) -> None:
        super().__init__(bounds, facts, scale)
        self._values = values

    @classmethod
    def of(cls, values: Any, scale: float | None = None) -> LocalWeights:
        """Check weights; raise InvalidWeight if one of them is invalid. Their scale is chosen unless it is given."""
        spans = cut_span((0, len(values)), PART_ROWS)
        facts = [WeightFacts.of(values[start:stop], start) for start, stop in spans]
        return cls(values, np.array([0, *(stop for _, stop in spans)]), facts, scale)

    def read(self, start: int, stop: int) -> Floats:
        """Return the weights of rows ``start .. stop``."""
        part: Floats = self._values[start:stop]
        return part if self.scale == 1.0 else part * self.scale

    def map(self, function: Callable[..., T], arguments: Sequence[Any], parts: Sequence[int]) -> list[T]:
        """Return ``function(weights, argument)`` for some parts and an argument for each."""
        bounds = self.bounds.tolist()
        return [
            function(self.read(bounds[part], bounds[part + 1]), argument)
            for part, argument in zip(parts, arguments, strict=True)
        ]


class WeightedRows(RowView):
    """Rows with weights.

    Examples
    --------
    >>> rows = WeightedRows(ArrayRows(np.eye(2)), LocalWeights.of(np.array([1.0, 3.0])))
    >>> rows.read_weights(1, 2), rows.n_counted
    (array([3.]), 2)
    """

    def __init__(self, rows: Rows, weights: RowWeights) -> None:
        super().__init__(rows)
        self.names = rows.names
        self.weights = weights

    def transform(self, block: Block, numbers: Any) -> Block:
        """Return the block itself."""
        return block

    def read_weights(self, start: int, stop: int) -> Floats:
        """Return the weights of rows ``start .. stop``."""
        assert self.weights is not None
        return self.weights.read(start, stop)


def sample_rows(rows: Rows, size: int, rng: np.random.Generator) -> RowSample:
    """Sample rows for a graph: about evenly, or by weight, see `RowWeights.sample`."""
    if rows.weights is None:
        return RowSample(sample_indices(rows.n_rows, size, rng))
    return rows.weights.sample(size, rng)


def draw_rows(rows: Rows, size: int, rng: np.random.Generator) -> RowSample:
    """Sample rows for a statistic: about evenly, or by weight and with repetition, see `RowWeights.draw`."""
    if rows.weights is None:
        return RowSample(sample_indices(rows.n_rows, size, rng))
    return rows.weights.draw(size, rng)


def take_draws(rows: Rows, size: int, rng: np.random.Generator) -> Block:
    """Return sampled rows, see `draw_rows`; a row that was drawn several times is repeated."""
    drawn = draw_rows(rows, size, rng)
    return drawn.repeat(rows.take(drawn.indices))


def take_sample(rows: Rows, sample: RowSample) -> Rows:
    """Read sampled rows into memory, with their weights."""
    taken = rows.take(sample.indices)
    return sample.weigh(SparseRows(taken) if rows.sparse else ArrayRows(taken))


def subset(rows: Rows, indices: Indices) -> Rows:
    """Read the rows at sorted, distinct `indices` into memory, with their weights."""
    weights = NO_WEIGHTS if rows.weights is None else rows.weights.take(indices)
    return take_sample(rows, RowSample(indices, weights))
