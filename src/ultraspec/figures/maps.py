"""The map of the clusters: takes a source, gives points of small data, counts on a grid of large data.

One pass over the rows counts them by cluster and cell, so that a map of a billion rows is as small as one of a
million. Data of one feature gets a histogram, data of two is drawn in its own coordinates, and data of more on the
drawing of the representatives' graph (`ultraspec.figures.layout`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ultraspec.figures.ensemble import N_LEVELS, Backing
from ultraspec.figures.graphs import NodeGraph
from ultraspec.figures.layout import place
from ultraspec.figures.source import Codes, Floats, Part, Source

GRID = 320  # cells along the longer side
GRID_CELLS = 2**23  # of all clusters together
BINS = 120  # of a histogram
MARGIN = 0.04  # of the frame around the sample, as rows beyond it may lie a little further out
FAR = 4.0  # a frame this many times as wide as nearly all rows leaves the rest outside
SPOT_GRID = 24

Counts = npt.NDArray[np.int64]
Kind = Literal["points", "raster", "histogram"]


@dataclass(frozen=True)
class Frame:
    """The part of the plane that is drawn.

    Attributes
    ----------
    low, high : ndarray of shape (2,)
        Its corners.
    cells : tuple of two int
        Columns and rows of its grid.
    equal : bool
        Whether a unit is as long along both axes.
    """

    low: Floats
    high: Floats
    cells: tuple[int, int]
    equal: bool

    def cell_of(self, xy: Floats) -> npt.NDArray[np.int64]:
        """The cell of each point, row by row from the lower left; -1 outside."""
        shape = np.array(self.cells)
        with np.errstate(invalid="ignore"):
            at = np.floor((xy - self.low) / (self.high - self.low) * shape)
        inside = ((at >= 0) & (at < shape)).all(axis=1)
        at = np.where(inside[:, None], at, 0).astype(np.int64)
        return np.where(inside, at[:, 1] * shape[0] + at[:, 0], -1)

    def holds(self, xy: Floats) -> npt.NDArray[np.bool_]:
        """Whether each point is inside."""
        return self.cell_of(xy) >= 0

    def center_of(self, cell: npt.NDArray[np.int64]) -> Floats:
        """The middle of cells."""
        at = np.stack([cell % self.cells[0], cell // self.cells[0]], axis=-1) + 0.5
        return self.low + at / self.cells * (self.high - self.low)


@dataclass(frozen=True)
class Tally:
    """What one pass over all rows counts.

    Attributes
    ----------
    sizes : ndarray of shape (k,)
        Rows of each cluster.
    levels : ndarray of shape (k, N_LEVELS), or None
        Rows of each cluster by confidence: 0, 0.05 ... 1.
    cells : ndarray of shape (cells, k), uint32, or None
        Rows in each cell by cluster.
    backing : ndarray of shape (cells, k), float32, or None
        Sum of the confidence of these rows.
    outside : ndarray of shape (k,)
        Rows that lie outside of the frame.
    """

    sizes: Counts
    outside: Counts
    levels: Counts | None = None
    cells: npt.NDArray[np.uint32] | None = None
    backing: npt.NDArray[np.float32] | None = None

    def add(
        self, codes: Codes, confidence: npt.NDArray[np.float32] | None, cells: npt.NDArray[np.int64] | None
    ) -> None:
        """Count some rows."""
        k = len(self.sizes)
        self.sizes[:] += np.bincount(codes, minlength=k)
        if self.levels is not None and confidence is not None:
            level = np.rint(confidence * (N_LEVELS - 1)).astype(np.int64)
            self.levels[:] += np.bincount(codes * N_LEVELS + level, minlength=k * N_LEVELS).reshape(k, -1)
        if self.cells is None or cells is None:
            return
        inside = cells >= 0
        self.outside[:] += np.bincount(codes[~inside], minlength=k)
        at = cells[inside] * k + codes[inside]
        np.add.at(self.cells.reshape(-1), at, np.uint32(1))
        if self.backing is not None and confidence is not None:
            np.add.at(self.backing.reshape(-1), at, confidence[inside])

    def merge(self, other: Tally) -> Tally:
        """Both together, in this one."""
        for name in ("sizes", "outside", "levels", "cells", "backing"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine is not None:
                mine += others
        return self


@dataclass(frozen=True)
class ClusterMap:
    """The data drawn by cluster.

    Attributes
    ----------
    kind : {"points", "raster", "histogram"}
        What it is drawn as.
    frame : Frame
        Where it is drawn.
    axes : tuple of two str
        Names of the axes; empty on the drawing of the graph, whose axes mean nothing.
    tally : Tally
        Counts, by cell where it is a raster or a histogram.
    points : ndarray of shape (n, 2), float64, or None
        All rows, of small data.
    codes : ndarray of shape (n,), int32, or None
        Their clusters.
    confidence : ndarray of shape (n,), float32, or None
        Their confidence.
    spots : ndarray of shape (k, 2)
        Where each cluster's name is written; NaN where nothing of it is inside the frame.
    """

    kind: Kind
    frame: Frame
    axes: tuple[str, str]
    tally: Tally
    points: Floats | None
    codes: Codes | None
    confidence: npt.NDArray[np.float32] | None
    spots: Floats


def cluster_map(source: Source, sample: Part, graph: NodeGraph | None, backing: Backing | None) -> ClusterMap:
    """The map of all rows.

    Parameters
    ----------
    source : Source
        Rows.
    sample : Part
        Their sample, with `points` where there are at most two features, else with `edges`; with `columns` where
        there is a `backing`.
    graph : NodeGraph or None
        Gives the positions of representatives where there are more than two features.
    backing : Backing or None
        Tells the confidence of rows of an ensemble.
    """
    k, d = len(source.names), source.n_features

    def xy_of(part: Part) -> Floats:
        if d > 2:
            assert part.edges is not None
            assert graph is not None
            return place(part.edges, graph.positions)
        assert part.points is not None
        return part.points if d == 2 else np.pad(part.points, ((0, 0), (0, 1)))

    xy = xy_of(sample)
    frame = frame_of(xy if d <= 2 or graph is None else np.concatenate([xy, graph.positions[graph.drawn]]), k, d == 1)
    if source.is_small and d > 1:
        confidence = None if backing is None else backing.of(sample, source.sample)
        return _map_of_points(source, frame, xy, sample.codes, confidence)
    if source.is_small:
        tally = empty_tally(k, frame, confident=backing is not None)
        tally.add(sample.codes, None if backing is None else backing.of(sample, source.sample), frame.cell_of(xy))
    else:
        tally = count_rows(source, backing, frame, xy_of)
    assert tally.cells is not None
    kind: Kind = "histogram" if d == 1 else "raster"
    return ClusterMap(kind, frame, _axes(source), tally, None, None, None, _spots(tally.cells, frame))


def _axes(source: Source) -> tuple[str, str]:
    if source.n_features > 2:
        return "", ""
    return source.feature_names[0], source.feature_names[1] if source.n_features == 2 else "rows"


def _map_of_points(
    source: Source, frame: Frame, xy: Floats, codes: Codes, confidence: npt.NDArray[np.float32] | None
) -> ClusterMap:
    k = len(source.names)
    tally = empty_tally(k, None, confident=confidence is not None)
    tally.add(codes, confidence, None)
    tally.outside[:] += np.bincount(codes[frame.cell_of(xy) < 0], minlength=k)
    ratio = frame.cells[1] / frame.cells[0]
    coarse = Frame(frame.low, frame.high, (SPOT_GRID, max(4, round(SPOT_GRID * ratio))), frame.equal)
    cells = coarse.cell_of(xy)
    inside = cells >= 0
    counts = np.bincount(cells[inside] * k + codes[inside], minlength=coarse.cells[0] * coarse.cells[1] * k)
    spots = _spots(counts.reshape(-1, k), coarse)
    for code in np.flatnonzero(np.isfinite(spots[:, 0])):  # onto a row, as a cell's middle may be empty
        mine = xy[codes == code]
        spots[code] = mine[np.square((mine - spots[code]) / (frame.high - frame.low)).sum(axis=1).argmin()]
    return ClusterMap("points", frame, _axes(source), tally, xy, codes, confidence, spots)


def count_rows(
    source: Source, backing: Backing | None, frame: Frame | None = None, xy_of: Callable[[Part], Floats] | None = None
) -> Tally:
    """One pass over all rows."""
    points, edges = frame is not None and source.n_features <= 2, frame is not None and source.n_features > 2
    columns = backing is not None and backing.needs_columns

    def add(tally: Tally, span: tuple[int, int]) -> None:
        part = source.block(span, points=points, edges=edges, columns=columns)
        confidence = None if backing is None else backing.of(part, slice(*span))
        cells = frame.cell_of(xy_of(part)) if frame is not None and xy_of is not None else None
        tally.add(part.codes, confidence, cells)

    return source.engine.fold(
        source.blocks(),
        lambda: empty_tally(len(source.names), frame, confident=backing is not None),
        add,
        Tally.merge,
        most_groups=4,
    )


def empty_tally(k: int, frame: Frame | None, *, confident: bool) -> Tally:
    """Room for the counts of `k` clusters, by cell if there is a frame."""
    n_cells = 0 if frame is None else frame.cells[0] * frame.cells[1]
    return Tally(
        np.zeros(k, dtype=np.int64),
        np.zeros(k, dtype=np.int64),
        np.zeros((k, N_LEVELS), dtype=np.int64) if confident else None,
        np.zeros((n_cells, k), dtype=np.uint32) if n_cells else None,
        np.zeros((n_cells, k), dtype=np.float32) if n_cells and confident else None,
    )


def frame_of(xy: Floats, k: int, one_axis: bool = False) -> Frame:
    """The frame that holds (nearly) all of a sample: far outliers would leave the rest no room."""
    low, high = xy.min(axis=0), xy.max(axis=0)
    inner = np.quantile(xy, [0.005, 0.995], axis=0)
    width = inner[1] - inner[0]
    far = (high - low > FAR * width) & (width > 0)
    low = np.where(far, np.maximum(low, inner[0] - 0.5 * width), low)
    high = np.where(far, np.minimum(high, inner[1] + 0.5 * width), high)
    size = high - low
    largest = float(np.abs(xy).max())
    typical = float(size.max()) if size.max() > 1e-12 * largest else largest or 1.0  # of rows that are all alike
    flat = size <= 1e-12 * typical
    middle, half = (low + high) / 2, np.where(flat, typical / 2, size / 2) * (1 + 2 * MARGIN)
    if one_axis:
        return Frame(middle - half, middle + half, (BINS, 1), False)
    equal = half.max() <= 3 * half.min()
    if equal:  # widen the narrower side to half of the other one at least, for a frame of a pleasant shape
        half = np.maximum(half, half.max() / 2)
    shape = half / half.max() if equal else np.array([1.0, 0.75])
    side = min(GRID, int(np.sqrt(GRID_CELLS / k / shape.prod())))
    columns, rows = (max(8, round(side * s)) for s in shape)
    return Frame(middle - half, middle + half, (columns, rows), bool(equal))


def _spots(cells: npt.NDArray, frame: Frame) -> Floats:
    """A place in each cluster where it is dense, and not too near those of others."""
    columns, rows = frame.cells
    k = cells.shape[1]
    spots = np.full((k, 2), np.nan)
    apart = 0.06 * (frame.high - frame.low)
    taken: list[Floats] = []
    for code in np.argsort(-cells.sum(axis=0, dtype=np.int64), kind="stable"):
        grid = cells[:, code].reshape(rows, columns).astype(np.float64)
        if not grid.any():
            continue
        smooth = np.where(grid > 0, _blur(_blur(grid)), 0).ravel()
        places = np.argsort(-smooth, kind="stable")[:2000]
        places = places[smooth[places] > 0.2 * smooth[places[0]]]
        at = frame.center_of(places)
        free = np.ones(len(at), dtype=bool)
        for spot in taken:
            free &= (np.abs(at - spot) > apart).any(axis=1)
        spots[code] = at[free.argmax()]
        taken.append(spots[code])
    return spots


def _blur(grid: Floats) -> Floats:
    """The mean over a few cells along both axes."""
    for axis in (0, 1):
        reach = max(1, grid.shape[axis] // 40)
        padded = np.pad(grid, [(reach + 1, reach) if a == axis else (0, 0) for a in (0, 1)])
        sums = padded.cumsum(axis=axis)
        width = 2 * reach + 1
        grid = (
            np.take(sums, range(width, sums.shape[axis]), axis) - np.take(sums, range(sums.shape[axis] - width), axis)
        ) / width
    return grid
