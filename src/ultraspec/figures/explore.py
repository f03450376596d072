"""Everything that the page shows: figures of the model, all cuts, a sample of rows, profiles and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._kernels import cuts as kernels
from ultraspec.figures import FigureData
from ultraspec.figures.agreement import RowConfidence, compute_agreement
from ultraspec.figures.cluster_map import ClusterMap, Kind, map_axes, position_function
from ultraspec.figures.columns import Column, TextTerms, read_columns
from ultraspec.figures.cuts import Cut, CutTable, plan_cuts
from ultraspec.figures.frame import Frame
from ultraspec.figures.labeled_rows import (
    Floats,
    Integers,
    LabelCodes,
    LabeledBlock,
    LabeledRows,
    open_labeled_rows,
)
from ultraspec.figures.representative_graph import build_graph
from ultraspec.figures.survey import BINS, Plan, Survey, finish_cuts, survey_rows
from ultraspec.figures.trust import Null, Trust, refine
from ultraspec.spectral.layers import Layer

MOST_POINTS = 20_000  # larger data is drawn as a raster
RASTER = 1024  # cells along the longer side of a raster
PROFILE_VALUES = 30_000  # units times columns of the profile
MOST_COLUMNS, LEAST_COLUMNS = 60, 8
DRAWN_VALUES = 750_000  # values of columns of the rows that are drawn
EXAMPLES = 3  # of each kind, for each cluster
EXAMPLE_COLUMNS = 24
MOST_EXAMPLES = 1500


@dataclass(frozen=True)
class Labeling:
    """Labels of the rows that are not a cut of the model: names, sizes, and the labels of the drawn rows."""

    title: str
    names: list[str]
    sizes: npt.NDArray[np.int64]
    codes: Integers


@dataclass(frozen=True)
class Profile:
    """Columns of the rows by unit.

    Attributes
    ----------
    names : list of str
        Names of the number columns: first the features, the most telling first, then columns that describe the rows.
    n_features : int
        How many of them are features.
    n_left_out : int
        Features without a profile.
    bounds : list of ndarray
        Inner bounds of the bins.
    categories : list of Column
        Columns of categories.
    terms : list of (name, terms, ndarray of shape (U, terms), ndarray of shape (U,))
        Text columns: numbers of texts of each unit that have a term, and numbers of texts.
    """

    names: list[str]
    n_features: int
    n_left_out: int
    bounds: list[Floats]
    categories: list[Column]
    terms: list[tuple[str, list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]]


@dataclass(frozen=True)
class Example:
    """A row that stands for its cluster, or stands out."""

    row: int
    kinds: str  # letters: t typical, u least certain, o odd
    values: list[str]


@dataclass(frozen=True)
class Exploration:
    """What the page shows.

    Attributes
    ----------
    figures : FigureData
        Figures of the clusters that are shown first.
    table : CutTable or None
        Cuts of the model.
    reason : str
        Why there are no cuts; empty if there are.
    cuts : list of Cut
        The cuts with their sizes.
    survey : Survey
        What the pass over all rows collected.
    drawn : ndarray of int64
        Numbers of the rows that are drawn.
    block : LabeledBlock
        These rows.
    positions : ndarray of shape (n, 2)
        Their positions.
    values : ndarray of shape (n, c), float64
        Their values of the first columns of the profile, and of the number columns that describe rows.
    value_columns : list of int
        The columns of the profile that these are.
    units : ndarray of shape (n,), int32
        Their units.
    profile : Profile
        Columns of all rows.
    columns : list of Column
        Columns that describe the rows.
    example_names : list of str
        Names of the columns of examples: first those that describe the rows.
    examples : list of Example
        Rows that stand for clusters, or stand out.
    example_block : LabeledBlock
        These rows.
    labelings : list of Labeling
        Further labels of the rows.
    scores : ndarray of shape (n,)
        Distance of the drawn rows to their nearest representatives, relative to a typical one.
    null : Null or None
        Stability without structure.
    node_stability : ndarray or None
        Stability of each node of the tree.
    layers : list of Layer
        Numbers of clusters that the rows support, the best first.
    is_refined : bool
        Whether the best is larger than the number that halves of the rows agree on most, see `refine`.
    """

    figures: FigureData
    table: CutTable | None
    reason: str
    cuts: list[Cut]
    survey: Survey
    drawn: npt.NDArray[np.int64]
    block: LabeledBlock
    positions: Floats
    values: Floats
    value_columns: list[int]
    units: Integers
    profile: Profile
    columns: list[Column]
    example_names: list[str]
    examples: list[Example]
    example_block: LabeledBlock
    labelings: list[Labeling]
    scores: Floats
    null: Null | None
    node_stability: Floats | None
    layers: list[Layer]
    is_refined: bool


def explore(
    model: Any,
    X: Any,
    labels: Any = None,
    *,
    compare: Mapping[str, Any] | None = None,
    describe: Any = None,
    most_points: int = MOST_POINTS,
) -> Exploration:
    """Compute all that the page shows, in one pass over all rows and some reads of samples.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        The rows.
    labels : array-like of shape (n_samples,), optional
        Clusters to show first, instead of those of the model.
    compare : mapping of str to array-like, optional
        Further labels to compare with, by title.
    describe : frame or mapping of str to array-like, optional
        Columns that were not clustered.
    most_points : int
        Number of rows up to which all rows are drawn.
    """
    with open_labeled_rows(model, X, labels, most_points, phase=None) as rows:
        columns = read_columns(describe, rows.n_rows, rows.without_missing)
        labelings = {} if rows.passed_labels is None else {"labels passed in": rows.passed_labels}
        for title, each in (compare or {}).items():
            labelings[str(title)] = LabelCodes.of(rows.without_missing(each), rows.n_rows)
        phase = rows.engine.reporter.phase
        with phase("cuts"):
            planned = plan_cuts(rows)
            table = None if isinstance(planned, str) else planned
        with phase("stability"):
            trust = Trust.measure(rows, table)
        with phase("rows"):
            return _explore(rows, columns, labelings, planned, trust)


def _explore(
    rows: LabeledRows,
    columns: list[Column],
    labelings: Mapping[str, LabelCodes],
    planned: CutTable | str,
    trust: Trust,
) -> Exploration:
    table = None if isinstance(planned, str) else planned
    n_units = len(rows.cluster_names) if table is None else table.n_units
    numbers = [column for column in columns if column.kind == "number"]
    most = int(np.clip(PROFILE_VALUES // max(n_units, 1) - len(numbers), LEAST_COLUMNS, MOST_COLUMNS))
    telling = telling_features(rows, most)
    has_confidence = rows.is_ensemble
    has_base = has_confidence  # the agreement of members needs them, too
    sample = rows.read_sample(
        points=rows.n_features <= 2, edges=True, base_clusters=has_base, columns=telling, distances=True
    )
    confidence = RowConfidence(rows, sample) if has_confidence else None
    graph = build_graph(rows, sample)
    positions_of = position_function(rows, graph)
    xy = positions_of(sample)
    framed = xy if rows.n_features <= 2 else np.concatenate([xy, graph.positions[graph.drawn]])
    is_one_axis = rows.n_features == 1
    frame = Frame.around(framed, 1, one_axis=is_one_axis, side=RASTER)
    kind: Kind = "points" if rows.is_small else "raster"
    assert sample.values is not None
    assert sample.distances is not None
    all_numbers = [*sample.values.T, *(column.numbers(rows.sample) for column in numbers)]
    typical = float(np.median(sample.distances)) or float(sample.distances.mean()) or 1.0
    plan = Plan(
        rows,
        table,
        frame,
        positions_of,
        not rows.is_small,
        telling,
        numbers,
        [column for column in columns if column.kind == "category"],
        [_bin_bounds(values) for values in all_numbers],
        confidence,
        list(labelings.values()),
        typical,
    )
    survey = survey_rows(plan)
    cuts = [] if table is None else finish_cuts(plan, survey)
    units = sample.codes if table is None else units_of(table, sample)
    sure = confidence.of(sample, rows.sample) if confidence is not None and rows.is_small else None
    names = np.full((len(rows.cluster_names), 2), np.nan)  # the page places names itself
    drawn_map = ClusterMap(kind, frame, map_axes(rows), survey.counts, names, xy, sample.codes, sure)
    figures = FigureData(
        n_rows=rows.n_rows,
        n_features=rows.n_features,
        cluster_names=rows.cluster_names,
        feature_names=rows.feature_names,
        is_training_data=rows.is_training_data,
        has_model_labels=rows.has_model_labels,
        counts=survey.counts,
        map=drawn_map,
        graph=graph,
        agreement=compute_agreement(rows, sample) if has_base else None,
        feature_spread=rows.feature_spread(),
    )
    profile = Profile(
        [rows.column_names[i] for i in telling] + [column.name for column in numbers],
        len(telling),
        rows.n_features - len(telling),
        plan.bounds,
        plan.categories,
        [_count_terms(rows, plan, column) for column in columns if column.kind == "text"],
    )
    n_stored = max(1, DRAWN_VALUES // max(len(xy), 1) - len(numbers))
    stored = [*range(min(n_stored, len(telling))), *range(len(telling), len(telling) + len(numbers))]
    example_names, examples, example_block = _examples(plan, survey, cuts, columns)
    layers = refine(trust.layers, cuts, trust.null)
    return Exploration(
        figures,
        table,
        planned if isinstance(planned, str) else "",
        cuts,
        survey,
        rows.sample,
        sample,
        xy,
        np.stack([all_numbers[j] for j in stored], axis=1) if stored else np.empty((len(xy), 0)),
        stored,
        units,
        profile,
        columns,
        example_names,
        examples,
        example_block,
        [
            Labeling(title, [str(value) for value in codes.values.tolist()], sizes, codes[rows.sample])
            for (title, codes), sizes in zip(labelings.items(), survey.label_sizes, strict=True)
        ],
        sample.distances.astype(np.float64) / typical,
        trust.null,
        trust.nodes,
        layers,
        layers[:1] != trust.layers[:1],
    )


def units_of(table: CutTable, block: LabeledBlock) -> Integers:
    """Return the unit of each row."""
    assert block.edges is not None
    units = np.empty(len(block.codes), dtype=np.int32)
    at_border = np.empty(len(units), dtype=np.bool_)
    ids, weights = (np.ascontiguousarray(each) for each in (block.edges.ids, block.edges.weights))
    kernels.assign_units(ids, weights, table.units, units, at_border)
    return units


def _bin_bounds(values: Floats) -> Floats:
    """Return the inner bounds of bins at the quantiles of a column."""
    known = values[np.isfinite(values)]
    if not known.size:
        return np.zeros(BINS - 1)
    return np.quantile(known, np.arange(1, BINS) / BINS)


def telling_features(rows: LabeledRows, most: int) -> npt.NDArray[np.intp]:
    """Return the features that differ most between clusters, at most `most`, the most telling first.

    A feature is ranked by the share of its variance that lies between the clusters, in a sample of the rows.
    """
    where = rows.sample[:: -(-len(rows.sample) // 5000)]
    block = rows.raw(where)
    codes = rows.read(where).codes
    n = len(codes)
    k = int(codes.max()) + 1
    members = scipy.sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(k, n))
    is_sparse = scipy.sparse.issparse(block)
    values: Any = scipy.sparse.csr_array(block, dtype=np.float64) if is_sparse else np.asarray(block, dtype=np.float64)
    if not is_sparse:
        values = values - values.mean(axis=0)  # sums of squares of large numbers would lose digits
    sums = members @ values
    sums = sums.toarray() if scipy.sparse.issparse(sums) else np.asarray(sums)
    sizes = np.maximum(np.bincount(codes, minlength=k), 1)[:, None]
    squares = np.asarray((values.multiply(values) if is_sparse else values * values).sum(axis=0)).ravel()
    total = squares - np.square(sums.sum(axis=0)) / n
    between = (np.square(sums) / sizes).sum(axis=0) - np.square(sums.sum(axis=0)) / n
    share = np.where(total > 1e-12 * np.maximum(squares, 1e-300), between / np.maximum(total, 1e-300), 0.0)
    if is_sparse:  # most features of a sparse matrix are rare: frequent ones say more
        share = share * np.sqrt(np.maximum(total, 0.0))
    return np.argsort(-share, kind="stable")[:most]


def _count_terms(
    rows: LabeledRows, plan: Plan, column: Column
) -> tuple[str, list[str], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Count the texts of each unit that have a term."""
    found = TextTerms.of(column)
    block = rows.read_rows(found.rows, edges=plan.table is not None)
    units = block.codes if plan.table is None else units_of(plan.table, block)
    m = max(len(found.terms), 1)
    counts = np.bincount(
        units[found.entries[:, 0]].astype(np.int64) * m + found.entries[:, 1], minlength=plan.n_units * m
    ).reshape(plan.n_units, m)
    return column.name, found.terms, counts, np.bincount(units, minlength=plan.n_units)


def _examples(
    plan: Plan, survey: Survey, cuts: Sequence[Cut], columns: Sequence[Column]
) -> tuple[list[str], list[Example], LabeledBlock]:
    """Choose rows that stand for the clusters of each cut, or stand out, and read them."""
    rows = plan.rows
    kinds: dict[int, set[str]] = {}

    def keep(row: int, kind: str) -> None:
        if row >= 0 and (row in kinds or len(kinds) < MOST_EXAMPLES):
            kinds.setdefault(row, set()).add(kind)

    first = np.arange(plan.n_units)[None] if plan.table is None else plan.table.by_unit([cut.groups for cut in cuts])
    for at, groups in enumerate(first):
        for code in range(int(groups.max()) + 1):
            mine = np.flatnonzero((groups == code) & (survey.units > 0))
            largest = mine[np.argsort(-survey.units[mine], kind="stable")[:EXAMPLES]]
            for row in survey.typical.rows[largest].T.ravel()[:EXAMPLES].tolist():  # from several units
                keep(row, "t")
            scores = survey.oddest.scores[mine].ravel()
            for place in np.argsort(scores, kind="stable")[:EXAMPLES].tolist():
                keep(int(survey.oddest.rows[mine].ravel()[place]), "o")
        if plan.table is not None:
            for row in survey.least_rows[at].tolist():
                keep(row, "u")
    chosen = np.array(sorted(kinds), dtype=np.int64)
    shown = plan.columns[:EXAMPLE_COLUMNS]
    block = rows.read_rows(chosen, edges=True, columns=shown, distances=True)
    assert block.values is not None
    names = [column.name for column in columns] + [rows.column_names[i] for i in shown]
    examples = [
        Example(
            row,
            "".join(sorted(kinds[row])),
            [column.show(row)[:160] for column in columns] + [f"{value:.5g}" for value in values],
        )
        for row, values in zip(chosen.tolist(), block.values.tolist(), strict=True)
    ]
    return names, examples, block
