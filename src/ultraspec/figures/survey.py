"""One pass over all rows: sizes of the clusters of all cuts, a raster, profiles of columns, and rows that stand out.

Everything is counted by unit, the finest set of rows that the page distinguishes (`ultraspec.figures.cuts`). Sums of
units merge to sums of clusters, whatever the cut. Memory does not grow with the number of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._kernels import cuts as kernels
from ultraspec.figures.agreement import RowConfidence
from ultraspec.figures.cluster_map import RowCounts
from ultraspec.figures.columns import Column
from ultraspec.figures.cuts import Cut, CutTable, finish_cut, without_empty
from ultraspec.figures.frame import Frame
from ultraspec.figures.labeled_rows import Floats, Integers, LabelCodes, LabeledBlock, LabeledRows
from ultraspec.rows import Span

BINS = 12  # of the histogram of a column, at its quantiles
BEST = 3  # rows of each unit that are kept as most typical and as oddest
PENDING = 2**21  # raster entries that are collected before they are merged
PATTERN_LEAVES = 6  # leaves of the tree that the vote of a row may depend on
RECORD = 1 + PATTERN_LEAVES + 2 ** (PATTERN_LEAVES - 1)
MOST_PATTERNS = 100_000

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """What a pass collects.

    Attributes
    ----------
    rows : LabeledRows
        The rows.
    table : CutTable or None
        Cuts of the model; None if units are the clusters of the rows.
    frame : Frame
        Where the rows are drawn.
    positions_of : callable
        Returns the positions (n, 2) of a block.
    has_raster : bool
        Whether rows are counted on the grid of the frame.
    columns : ndarray of intp
        Features to profile.
    numbers, categories : list of Column
        Further columns to profile.
    bounds : list of ndarray
        Inner bounds of the bins of each feature and each number column.
    confidence : RowConfidence or None
        Confidence of an ensemble.
    labelings : list of LabelCodes
        Other labels of the rows.
    typical_distance : float
        Distance of a typical row to its nearest representative.
    """

    rows: LabeledRows
    table: CutTable | None
    frame: Frame
    positions_of: Callable[[LabeledBlock], Floats]
    has_raster: bool
    columns: npt.NDArray[np.intp]
    numbers: list[Column]
    categories: list[Column]
    bounds: list[Floats]
    confidence: RowConfidence | None
    labelings: list[LabelCodes]
    typical_distance: float

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.rows.cluster_names) if self.table is None else self.table.n_units

    def needs(self) -> dict[str, Any]:
        """Return what is read of each row."""
        d = self.rows.n_features
        return {
            "points": d <= 2,
            "edges": True,
            "base_clusters": self.confidence is not None and self.confidence.needs_base_clusters,
            "columns": self.columns,
            "distances": True,
        }


class Raster:
    """Numbers of rows by cell and unit, as sorted keys ``cell * n_units + unit``."""

    def __init__(self) -> None:
        self.keys = np.empty(0, dtype=np.int64)
        self.counts = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[Keys, Keys]] = []

    def add(self, keys: Keys) -> None:
        """Add rows."""
        self._pending.append(np.unique(keys, return_counts=True))
        if sum(len(part) for part, _ in self._pending) > PENDING:
            self.compact()

    def merge(self, other: Raster) -> None:
        """Add the rows of another raster."""
        other.compact()
        self._pending.append((other.keys, other.counts))
        self.compact()

    def compact(self) -> None:
        """Merge what was collected."""
        keys = np.concatenate([self.keys, *(part for part, _ in self._pending)])
        counts = np.concatenate([self.counts, *(part for _, part in self._pending)])
        self.keys, at = np.unique(keys, return_inverse=True)
        self.counts = np.bincount(at.reshape(-1), counts, minlength=len(self.keys)).astype(np.int64)
        self._pending = []


class Extremes:
    """The rows of each unit with the smallest scores."""

    def __init__(self, n_units: int) -> None:
        self.scores = np.full((n_units, BEST), np.inf)
        self.rows = np.full((n_units, BEST), -1, dtype=np.int64)

    def add(self, units: Integers, scores: Floats, rows: Keys) -> None:
        """Take rows into account."""
        order = np.lexsort((rows, scores, units))
        sorted_units = units[order]
        position = np.arange(len(order)) - np.searchsorted(sorted_units, sorted_units)
        order = order[position < BEST]
        present = np.unique(units[order])
        old = np.repeat(present, BEST)
        all_units = np.concatenate([old, units[order]])
        all_scores = np.concatenate([self.scores[present].ravel(), scores[order]])
        all_rows = np.concatenate([self.rows[present].ravel(), rows[order]])
        order = np.lexsort((all_rows, all_scores, all_units))
        sorted_units = all_units[order]
        position = np.arange(len(order)) - np.searchsorted(sorted_units, sorted_units)
        kept = position < BEST
        self.scores[sorted_units[kept], position[kept]] = all_scores[order[kept]]
        self.rows[sorted_units[kept], position[kept]] = all_rows[order[kept]]

    def merge(self, other: Extremes) -> None:
        """Take the rows of others into account."""
        units, place = np.nonzero(other.rows >= 0)
        if units.size:
            self.add(units.astype(np.int32), other.scores[units, place], other.rows[units, place])


@dataclass
class Survey:
    """What a pass collected; see `Plan`.

    Attributes
    ----------
    counts : RowCounts
        Rows by cluster of the model or of the labels that are shown, and by confidence.
    inner : ndarray of shape (U,)
        Rows of each unit that are in it for every cut.
    units : ndarray of shape (U,)
        All rows of each unit.
    votes : ndarray of shape (C, k)
        Rows at borders of units, by cluster of each cut.
    least, least_rows : ndarray of shape (C, k)
        Least certain row of each cluster: share of its weight, and number.
    leaves : ndarray of shape (L,)
        Rows that are in the cluster of one leaf of the tree, whatever the cut.
    patterns : Counter of bytes
        Numbers of the other rows by how they vote, see `vote_patterns`.
    sums, squares, present : ndarray of shape (U, d)
        Sums, sums of squares and numbers of the values of each column.
    bins : ndarray of shape (U, d, BINS)
        Numbers of values by bin.
    categories : list of ndarray of shape (U, number of categories)
        Numbers of rows by category.
    typical, oddest : Extremes
        Rows near to and far from their nearest representatives.
    rasters : list of Raster
        Rows by cell and unit; then by cell and label for each further labelling.
    label_sizes : list of ndarray
        Rows by label of each further labelling.
    """

    counts: RowCounts
    inner: Keys
    units: Keys
    votes: Keys
    least: npt.NDArray[np.float32]
    least_rows: Keys
    leaves: Keys
    sums: Floats
    squares: Floats
    present: Keys
    bins: npt.NDArray[np.int32]
    categories: list[Keys]
    typical: Extremes
    oddest: Extremes
    rasters: list[Raster]
    label_sizes: list[Keys]
    patterns: Counter[bytes] = field(default_factory=Counter)

    @classmethod
    def zeros(cls, plan: Plan) -> Survey:
        """Return the result for no rows."""
        U = plan.n_units
        d = len(plan.columns) + len(plan.numbers)
        table = plan.table
        C, k, L = (0, 1, 1) if table is None else (len(table.ks), _most(table), table.tree.n_leaves)
        return cls(
            RowCounts.zeros(len(plan.rows.cluster_names), None, confidence=plan.confidence is not None),
            np.zeros(U, dtype=np.int64),
            np.zeros(U, dtype=np.int64),
            np.zeros((C, k), dtype=np.int64),
            np.full((C, k), np.inf, dtype=np.float32),
            np.full((C, k), -1, dtype=np.int64),
            np.zeros(L, dtype=np.int64),
            np.zeros((U, d)),
            np.zeros((U, d)),
            np.zeros((U, d), dtype=np.int64),
            np.zeros((U, d, BINS), dtype=np.int32),
            [np.zeros((U, len(column.categories)), dtype=np.int64) for column in plan.categories],
            Extremes(U),
            Extremes(U),
            [Raster() for _ in range(1 + len(plan.labelings))] if plan.has_raster else [],
            [np.zeros(len(labels.values), dtype=np.int64) for labels in plan.labelings],
        )

    def merge(self, other: Survey) -> Survey:
        """Add another result to this one, in place."""
        self.counts.merge(other.counts)
        for name in ("inner", "units", "votes", "leaves", "sums", "squares", "present", "bins"):
            getattr(self, name).__iadd__(getattr(other, name))
        less = other.least < self.least
        self.least[less] = other.least[less]
        self.least_rows[less] = other.least_rows[less]
        for mine, others in zip(
            [*self.categories, *self.label_sizes], [*other.categories, *other.label_sizes], strict=True
        ):
            mine += others
        self.typical.merge(other.typical)
        self.oddest.merge(other.oddest)
        for raster, others_raster in zip(self.rasters, other.rasters, strict=True):
            raster.merge(others_raster)
        self.patterns.update(other.patterns)
        return self


def _most(table: CutTable) -> int:
    """Return the largest number of clusters of a cut."""
    return max(int(each.groups.max()) + 1 for each in table.judged)


def survey_rows(plan: Plan) -> Survey:
    """Read all rows once."""
    rows = plan.rows
    needs = plan.needs()
    groups = None if plan.table is None else plan.table.by_unit([each.groups for each in plan.table.judged])
    joined_at = None if plan.table is None else plan.table.tree.joined_at

    def add(result: Survey, span: Span) -> None:
        where = slice(*span)
        block = rows.read(where, **needs)
        numbers = np.arange(*span)
        cells = plan.frame.cell_of(plan.positions_of(block))
        sure = None if plan.confidence is None else plan.confidence.of(block, where)
        result.counts.add(block.codes, sure, cells)
        units = block.codes
        at_border = np.zeros(len(units), dtype=np.bool_)
        if plan.table is not None:
            assert groups is not None
            assert joined_at is not None
            units, at_border = _vote(result, plan.table, groups, joined_at, block, numbers)
        result.inner += np.bincount(units[~at_border], minlength=plan.n_units)
        result.units += np.bincount(units, minlength=plan.n_units)
        _add_profile(result, plan, block, units, where)
        assert block.distances is not None
        scores = block.distances.astype(np.float64) / plan.typical_distance
        result.typical.add(units, scores + at_border, numbers)  # rows at a border are less typical
        result.oddest.add(units, -scores, numbers)
        for labels, sizes in zip(plan.labelings, result.label_sizes, strict=True):
            sizes += np.bincount(labels[where], minlength=len(sizes))
        if result.rasters:
            inside = cells >= 0
            for raster, n, codes in zip(
                result.rasters,
                [plan.n_units, *(len(labels.values) for labels in plan.labelings)],
                [units, *(labels[where] for labels in plan.labelings)],
                strict=True,
            ):
                raster.add(cells[inside] * n + codes[inside])

    result = rows.engine.fold(rows.blocks(), lambda: Survey.zeros(plan), add, Survey.merge, most_groups=4)
    for raster in result.rasters:
        raster.compact()
    return result


def _vote(
    result: Survey, table: CutTable, groups: Integers, joined_at: Integers, block: LabeledBlock, numbers: Keys
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Let rows vote in all cuts; return the unit of each, and whether it is at a border of units."""
    assert block.edges is not None
    ids = np.ascontiguousarray(block.edges.ids)
    weights = np.ascontiguousarray(block.edges.weights)
    units = np.empty(len(ids), dtype=np.int32)
    at_border = np.empty(len(ids), dtype=np.bool_)
    kernels.assign_units(ids, weights, table.units, units, at_border)
    some = np.flatnonzero(at_border)
    ids, weights = ids[some], weights[some]
    kernels.count_votes(ids, weights, table.units, groups, numbers[some], result.votes, result.least, result.least_rows)
    leaves = table.unit_leaves
    result.leaves += np.bincount(leaves[units[~at_border]], minlength=len(result.leaves))
    records = np.zeros((len(some), RECORD), dtype=np.uint8)
    if table.tree.n_leaves <= 256:
        kernels.vote_patterns(ids, weights, table.tree.leaf_of, joined_at, records)
        simple = records[:, 0] == 1
        result.leaves += np.bincount(records[simple, 1], minlength=len(result.leaves))
        result.patterns.update(map(bytes, records[~simple]))
    return units, at_border


def _add_profile(result: Survey, plan: Plan, block: LabeledBlock, units: Integers, where: slice) -> None:
    """Add the columns of a block to the sums of the units."""
    assert block.values is not None
    U = plan.n_units
    columns = [*block.values.T, *(column.numbers(where) for column in plan.numbers)]
    for j, values in enumerate(columns):
        known = np.isfinite(values)
        mine = units if known.all() else units[known]
        values = values if known.all() else values[known]
        result.sums[:, j] += np.bincount(mine, values, minlength=U)
        result.squares[:, j] += np.bincount(mine, values * values, minlength=U)
        result.present[:, j] += np.bincount(mine, minlength=U)
        at = np.searchsorted(plan.bounds[j], values, side="right")
        result.bins[:, j] += np.bincount(mine * BINS + at, minlength=U * BINS).reshape(U, BINS).astype(np.int32)
    for column, counts in zip(plan.categories, result.categories, strict=True):
        assert column.codes is not None
        codes = column.codes[where]
        known = codes >= 0
        m = counts.shape[1]
        counts += np.bincount(units[known] * m + codes[known], minlength=U * m).reshape(U, m)


def finish_cuts(plan: Plan, result: Survey) -> list[Cut]:
    """Return the cuts as the model gives them: clusters without rows joined others, numbers by size."""
    table = plan.table
    assert table is not None
    by_unit = table.by_unit([each.groups for each in table.judged])
    spectrum = plan.rows.first_member.partition.spectrum
    done = []
    for at, judged in enumerate(table.judged):
        groups = judged.groups
        k = int(groups.max()) + 1
        sizes = result.votes[at, :k] + np.bincount(by_unit[at], result.inner, minlength=k).astype(np.int64)
        used = np.arange(k)
        while not sizes.all():
            groups = without_empty(spectrum, groups, sizes)
            used = used[sizes > 0]
            sizes = count_labels(plan.rows, groups)
        done.append(finish_cut(table, at, groups, sizes, used))
    return done


def count_labels(rows: LabeledRows, groups: Integers) -> Keys:
    """Count the rows of each cluster in one pass: rows vote by groups (p,) of representatives."""
    k = int(groups.max()) + 1

    def run(span: Span) -> Keys:
        edges = rows.read(slice(*span), edges=True).edges
        assert edges is not None
        labels = np.empty(len(edges), dtype=np.int32)
        at_border = np.empty(len(edges), dtype=np.bool_)
        kernels.assign_units(
            np.ascontiguousarray(edges.ids), np.ascontiguousarray(edges.weights), groups, labels, at_border
        )
        return np.bincount(labels, minlength=k)

    total: Sequence[Keys] = rows.engine.map(run, rows.blocks())
    return np.sum(total, axis=0)
