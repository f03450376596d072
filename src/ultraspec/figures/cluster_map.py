"""The rows by cluster: points of small data, counts on a grid of large data.

One pass counts the rows by cluster and cell, so that the map of a billion rows is no larger than that of a million.
Rows of one feature give a histogram, and rows of two features are plotted by these. Rows of more features are drawn on
the layout of the graph of the representatives (`ultraspec.figures.graph_layout`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ultraspec.figures.agreement import RowConfidence
from ultraspec.figures.frame import Frame
from ultraspec.figures.graph_layout import place_rows
from ultraspec.figures.labeled_rows import Floats, Integers, LabeledBlock, LabeledRows
from ultraspec.figures.representative_graph import RepresentativeGraph
from ultraspec.rows import Span

N_LEVELS = 21  # of confidence in histograms: 0, 0.05 ... 1
NAME_GRID = 24  # columns of the grid on which a place for each name is searched
NAME_DISTANCE = 0.06  # between names, as a share of the frame

Counts = npt.NDArray[np.int64]
Confidence = npt.NDArray[np.float32]
Kind = Literal["points", "raster", "histogram"]


@dataclass(frozen=True)
class RowCounts:
    """Numbers of rows, counted in one pass over all rows.

    Attributes
    ----------
    sizes : ndarray of shape (k,)
        Rows of each cluster.
    outside : ndarray of shape (k,)
        Rows of each cluster that lie outside the frame.
    levels : ndarray of shape (k, N_LEVELS), or None
        Rows of each cluster by confidence: 0, 0.05 ... 1.
    cells : ndarray of shape (cells, k), uint32, or None
        Rows in each cell of the frame, by cluster.
    cell_confidence : ndarray of shape (cells, k), float32, or None
        Sum of the confidence of these rows.
    """

    sizes: Counts
    outside: Counts
    levels: Counts | None = None
    cells: npt.NDArray[np.uint32] | None = None
    cell_confidence: Confidence | None = None

    @classmethod
    def zeros(cls, k: int, frame: Frame | None = None, *, confidence: bool) -> RowCounts:
        """Return counts of no rows in `k` clusters, by cell if there is a frame."""
        n_cells = 0 if frame is None else frame.n_cells
        return cls(
            np.zeros(k, dtype=np.int64),
            np.zeros(k, dtype=np.int64),
            np.zeros((k, N_LEVELS), dtype=np.int64) if confidence else None,
            np.zeros((n_cells, k), dtype=np.uint32) if n_cells else None,
            np.zeros((n_cells, k), dtype=np.float32) if n_cells and confidence else None,
        )

    def add(self, codes: Integers, confidence: Confidence | None, cells: npt.NDArray[np.int64] | None) -> None:
        """Add rows to the counts, in place."""
        k = len(self.sizes)
        self.sizes[:] += np.bincount(codes, minlength=k)
        if self.levels is not None and confidence is not None:
            level = np.rint(confidence * (N_LEVELS - 1)).astype(np.int64)
            self.levels[:] += np.bincount(codes * N_LEVELS + level, minlength=k * N_LEVELS).reshape(k, -1)
        if cells is None:
            return
        inside = cells >= 0
        self.outside[:] += np.bincount(codes[~inside], minlength=k)
        at = cells[inside] * k + codes[inside]
        if self.cells is not None:
            np.add.at(self.cells.reshape(-1), at, np.uint32(1))
        if self.cell_confidence is not None and confidence is not None:
            np.add.at(self.cell_confidence.reshape(-1), at, confidence[inside])

    def merge(self, other: RowCounts) -> RowCounts:
        """Add other counts to these, in place."""
        for name in ("sizes", "outside", "levels", "cells", "cell_confidence"):
            counts = getattr(self, name)
            if counts is not None:
                counts += getattr(other, name)
        return self


@dataclass(frozen=True)
class ClusterMap:
    """The rows by cluster.

    Attributes
    ----------
    kind : {"points", "raster", "histogram"}
        What is drawn.
    frame : Frame
        Where it is drawn.
    axes : tuple of two str
        Names of the axes; empty on the layout of a graph, whose axes have no meaning.
    counts : RowCounts
        Numbers of rows, by cell if it is a raster or a histogram.
    name_positions : ndarray of shape (k, 2)
        Where the name of each cluster is written; NaN if no row of it is inside the frame.
    points : ndarray of shape (n, 2), float64, or None
        Positions of all rows of small data.
    codes : ndarray of shape (n,), int32, or None
        Clusters of these rows.
    confidence : ndarray of shape (n,), float32, or None
        Confidence of these rows.
    """

    kind: Kind
    frame: Frame
    axes: tuple[str, str]
    counts: RowCounts
    name_positions: Floats
    points: Floats | None = None
    codes: Integers | None = None
    confidence: Confidence | None = None


def map_clusters(
    rows: LabeledRows, sample: LabeledBlock, graph: RepresentativeGraph | None, confidence: RowConfidence | None
) -> ClusterMap:
    """Return the map of all rows.

    Parameters
    ----------
    rows : LabeledRows
        Rows.
    sample : LabeledBlock
        Sample of the rows, with `points` if there are at most two features, else with `edges`. With `base_clusters` if
        `confidence` needs them.
    graph : RepresentativeGraph or None
        Gives the positions of the representatives if there are more than two features.
    confidence : RowConfidence or None
        Confidence of the rows of an ensemble.
    """
    k = len(rows.cluster_names)
    d = rows.n_features
    positions_of = position_function(rows, graph)
    xy = positions_of(sample)
    framed = xy if d <= 2 or graph is None else np.concatenate([xy, graph.positions[graph.drawn]])
    frame = Frame.around(framed, k, one_axis=d == 1)
    kind: Kind = "histogram" if d == 1 else "points" if rows.is_small else "raster"
    sure = confidence.of(sample, rows.sample) if confidence is not None and rows.is_small else None
    if rows.is_small:
        counts = RowCounts.zeros(k, frame if d == 1 else None, confidence=sure is not None)
        counts.add(sample.codes, sure, frame.cell_of(xy))
    else:
        counts = count_rows(rows, confidence, frame, positions_of)
    if kind == "points":
        names = _names_on_points(xy, sample.codes, k, frame)
        return ClusterMap(kind, frame, map_axes(rows), counts, names, xy, sample.codes, sure)
    assert counts.cells is not None
    return ClusterMap(kind, frame, map_axes(rows), counts, _names_on_grid(counts.cells, frame))


def position_function(rows: LabeledRows, graph: RepresentativeGraph | None) -> Callable[[LabeledBlock], Floats]:
    """Return a function that gives the positions (n, 2) of a block with `points`, or of one with `edges`."""
    d = rows.n_features

    def positions_of(block: LabeledBlock) -> Floats:
        if d > 2:
            assert block.edges is not None
            assert graph is not None
            return place_rows(block.edges, graph.positions)
        assert block.points is not None
        return block.points if d == 2 else np.pad(block.points, ((0, 0), (0, 1)))

    return positions_of


def map_axes(rows: LabeledRows) -> tuple[str, str]:
    """Return the names of the axes of the map."""
    if rows.n_features > 2:
        return "", ""
    return rows.feature_names[0], rows.feature_names[1] if rows.n_features == 2 else "rows"


def count_rows(
    rows: LabeledRows,
    confidence: RowConfidence | None,
    frame: Frame | None = None,
    positions_of: Callable[[LabeledBlock], Floats] | None = None,
) -> RowCounts:
    """Count all rows in one pass."""
    needs: dict[str, Any] = {
        "points": frame is not None and rows.n_features <= 2,
        "edges": (frame is not None and rows.n_features > 2) or (confidence is not None and confidence.needs_edges),
        "base_clusters": confidence is not None and confidence.needs_base_clusters,
    }

    def add(counts: RowCounts, span: Span) -> None:
        where = slice(*span)
        block = rows.read(where, **needs)
        cells = frame.cell_of(positions_of(block)) if frame is not None and positions_of is not None else None
        counts.add(block.codes, None if confidence is None else confidence.of(block, where), cells)

    return rows.engine.fold(
        rows.blocks(),
        lambda: RowCounts.zeros(len(rows.cluster_names), frame, confidence=confidence is not None),
        add,
        RowCounts.merge,
        most_groups=4,
    )


def _names_on_points(xy: Floats, codes: Integers, k: int, frame: Frame) -> Floats:
    """Return a row of each cluster, in a dense part of it, as the position of its name."""
    ratio = frame.cells[1] / frame.cells[0]
    coarse = replace(frame, cells=(NAME_GRID, max(4, round(NAME_GRID * ratio))))
    counts = RowCounts.zeros(k, coarse, confidence=False)
    counts.add(codes, None, coarse.cell_of(xy))
    assert counts.cells is not None
    positions = _names_on_grid(counts.cells, coarse)
    for code in np.flatnonzero(np.isfinite(positions[:, 0])):
        mine = xy[codes == code]
        nearest = np.square((mine - positions[code]) / (frame.high - frame.low)).sum(axis=1).argmin()
        positions[code] = mine[nearest]  # the centre of a cell may be empty
    return positions


def _names_on_grid(cells: npt.NDArray[np.uint32], frame: Frame) -> Floats:
    """Return a cell of each cluster, in a dense part of it and not too near to other names."""
    columns, rows = frame.cells
    positions = np.full((cells.shape[1], 2), np.nan)
    distance = NAME_DISTANCE * (frame.high - frame.low)
    taken: list[Floats] = []
    for code in np.argsort(-cells.sum(axis=0, dtype=np.int64), kind="stable"):
        grid = cells[:, code].reshape(rows, columns).astype(np.float64)
        if not grid.any():
            continue
        density = np.where(grid > 0, _blur(_blur(grid)), 0).ravel()
        places = np.argsort(-density, kind="stable")[:2000]
        places = places[density[places] > 0.2 * density[places[0]]]
        at = frame.center_of(places)
        free = np.ones(len(at), dtype=bool)
        for other in taken:
            free &= (np.abs(at - other) > distance).any(axis=1)
        positions[code] = at[free.argmax()]
        taken.append(positions[code])
    return positions


def _blur(grid: Floats) -> Floats:
    """Return the means over a few cells along both axes."""
    for axis in (0, 1):
        reach = max(1, grid.shape[axis] // 40)
        width = 2 * reach + 1
        padded = np.pad(grid, [(reach + 1, reach) if a == axis else (0, 0) for a in (0, 1)])
        sums = np.moveaxis(padded.cumsum(axis=axis), axis, 0)
        grid = np.moveaxis(sums[width:] - sums[:-width], 0, axis) / width
    return grid
