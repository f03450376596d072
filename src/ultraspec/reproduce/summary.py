"""What the runs of a store say: means over seeds, beside the paper's figures, and how far apart they are."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from ultraspec.reproduce import averages, paper
from ultraspec.reproduce.declarations import (
    DATASETS,
    METHODS,
    PAPER_SETS,
    TABLES,
    Dataset,
    Method,
    Setting,
    Table,
    written,
)
from ultraspec.reproduce.paper import Figure
from ultraspec.reproduce.store import Row

SIGMAS = 2.0  # of the paper's standard deviations, within which a mean agrees
CROWDED = 0.1  # share of runs beside which other work ran, above which times are those of the CPU
POINTS = 1.0  # percent, within which it agrees anyway: some of the paper's deviations are zero
MANY_SIGMAS = 99.5  # from here on a difference is told in points

Verdict = Literal["agrees", "higher", "lower", "ran", "failed", "neither", "missing", "own"]


class Cell(NamedTuple):
    """Figures of all seeds: mean (of times: the median) and standard deviation, or why there are none."""

    runs: int
    mean: float | None
    std: float | None
    reason: str | None = None


class Entry(NamedTuple):
    """A place in a table: what we have, what the paper has, and how they differ.

    `ours` is None where nothing was run; `paper` is None where the paper has N/A, or nothing at all (`listed` False).
    In a quick look ours are of other data than the paper's: they do not differ in any sense.
    """

    dataset: str
    method: str
    metric: str
    ours: Cell | None
    paper: Figure | None
    listed: bool
    quick: bool = False

    @property
    def points(self) -> float | None:
        """Difference of means."""
        if self.quick or self.ours is None or self.ours.mean is None or self.paper is None:
            return None
        return self.ours.mean - self.paper.mean

    @property
    def sigmas(self) -> float | None:
        """Difference in units of the paper's standard deviation; None where that is printed as zero."""
        if self.points is None or self.paper is None or not self.paper.std:
            return None
        return self.points / self.paper.std

    @property
    def in_points(self) -> bool:
        """Whether the paper's deviation is too small a unit: zero, or less than a point is many of it."""
        if self.sigmas is None or self.points is None:
            return True
        return abs(self.sigmas) > (SIGMAS if abs(self.points) <= POINTS else MANY_SIGMAS)

    @property
    def verdict(self) -> Verdict:
        """What the difference amounts to."""
        if self.ours is None:
            return "missing"
        if not self.listed or self.quick:
            return "own"
        if self.ours.mean is None:
            return "failed" if self.paper is not None else "neither"
        if self.paper is None or self.points is None:
            return "ran"
        if abs(self.points) <= max(POINTS, SIGMAS * (self.paper.std or 0.0)):
            return "agrees"
        return "higher" if self.points > 0 else "lower"


@dataclass(frozen=True)
class Averages:
    """The last lines of a comparison, for one method: ours and the paper's.

    `rank_sets` are the data sets on which all methods that are ranked have a result or could not run; the paper's rank
    is given on the same ones.
    """

    average: float | None
    normalized: float | None
    rank: float | None
    paper_average: float | None
    paper_normalized: float | None
    paper_rank: float | None
    rank_sets: int


class Summary:
    """The runs of a store at one scale.

    Parameters
    ----------
    rows : iterable of dict
        The store's rows.
    scale : float
        Those of other scales are left out.

    Attributes
    ----------
    quick : bool
        Whether it is of a share of the rows, which is not to be compared with the paper.
    crowded : float
        Share of the runs that did not have the machine for themselves.
    clock : {"seconds", "cpu_seconds"}
        What is shown as time: that of the clock, or where too many runs were crowded, that of the CPU, which depends
        much less on what else ran.
    """

    def __init__(self, rows: Iterable[Row], scale: float = 1.0) -> None:
        self.rows = [row for row in rows if row["scale"] == scale]
        self.scale, self.quick = scale, scale != 1
        self._groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.rows:
            self._groups.setdefault((row["dataset"], row["method"], written(row["parameters"])), []).append(row)
        self.datasets, self.methods = _with_extras(self.rows)
        self.crowded = statistics.fmean([_shared(row) for row in self.rows] or [0.0])
        self.clock = "cpu_seconds" if self.crowded > CROWDED else "seconds"

    def method(self, title: str) -> Method:
        """A method by its title."""
        return next(method for method in self.methods if method.title == title)

    def cell(self, dataset: str, method: str, metric: str, setting: Setting | None = None) -> Cell | None:
        """Figures of a method on a data set; None where it was not run."""
        parameters = self.method(method).with_setting(setting.axes if setting is not None else {})
        rows = self._groups.get((dataset, method, written(parameters)), [])
        if not rows:
            return None
        field = self.clock if metric == "seconds" else metric
        values = [row[field] for row in rows if row["na"] is None]
        if not values:
            return Cell(len(rows), None, None, rows[-1]["reason"])
        middle = statistics.median(values) if metric == "seconds" else statistics.fmean(values)
        return Cell(len(values), middle, statistics.stdev(values) if len(values) > 1 else None)

    def entry(self, dataset: str, method: str, metric: str) -> Entry:
        """A place in Tables 4 to 9."""
        twin = self.twin(method)
        listed = paper.has(dataset, twin)
        figure = paper.printed(metric, dataset, twin) if listed else None
        return Entry(dataset, method, metric, self.cell(dataset, method, metric), figure, listed, self.quick)

    def twin(self, method: str) -> str:
        """The paper's method that one of ours stands beside."""
        return self.method(method).instead_of or method

    def table_methods(self, table: Table) -> list[str]:
        """Columns of a comparison: the paper's, variants of these that were run, and a user's own."""
        own = [method.title for method in self.methods if method.own]
        return [*table.methods, *own]

    def table_datasets(self, table: Table) -> list[Dataset]:
        """Rows of a comparison: the paper's data sets, and a user's own."""
        return [dataset for dataset in self.datasets if dataset.own or dataset.title in table.datasets]

    def averages(self, table: Table, method: str) -> Averages:
        """The last lines of a comparison for a method. Variants and a user's own are ranked in the field of the paper.

        A variant takes the place of the paper's method there; another one is added.
        """
        field = [name for name in table.methods if name != table.reference and not self.method(name).instead_of]
        twin = self.twin(method)
        ours = [method if name == twin else name for name in field]
        ours = ours if method in ours else [*ours, method]
        scores = {d: row for d in table.datasets if (row := self._scores(d, ours, table.metric)) is not None}
        whole = scores if len(scores) == len(table.datasets) else {}
        same = {d: {name: _mean(paper.printed(table.metric, d, name)) for name in field} for d in scores}
        own = self._scores_of(table, method)
        return Averages(
            average=averages.averages(own)[method] if len(own) == len(table.datasets) else None,
            normalized=averages.normalized(whole).get(method),
            rank=averages.ranks(scores).get(method),
            paper_average=paper.aggregate("average", table.metric, table.family, twin),
            paper_normalized=paper.aggregate("normalized", table.metric, table.family, twin),
            paper_rank=averages.ranks(same).get(twin),
            rank_sets=len(scores),
        )

    def _scores_of(self, table: Table, method: str) -> dict[str, dict[str, float | None]]:
        return {d: row for d in table.datasets if (row := self._scores(d, [method], table.metric)) is not None}

    def _scores(self, dataset: str, methods: Sequence[str], metric: str) -> dict[str, float | None] | None:
        """Means of all methods on a data set; None if one was not run."""
        cells = {method: self.cell(dataset, method, metric) for method in methods}
        if any(cell is None for cell in cells.values()):
            return None
        return {method: cell.mean for method, cell in cells.items() if cell is not None}

    def score_entries(self) -> list[Entry]:
        """All NMI and CA of Tables 4 to 9 that were run, each once."""
        found = [
            self.entry(dataset.title, method.title, metric)
            for method in self.methods
            for dataset in self.datasets
            for metric in ("nmi", "ca")
        ]
        return [entry for entry in found if entry.ours is not None]

    def curve_entries(self) -> list[Entry]:
        """All NMI and CA of Tables 10 to 16 but those at the defaults, which Tables 4 to 9 have.

        A point that is drawn without a standard deviation gets that of the default point.
        """
        found = []
        for table in (table for table in TABLES.values() if not table.metric):
            for dataset, method, metric in product(table.datasets, table.methods, ("nmi", "ca")):
                twin, usual = self.twin(method), self.method(method).with_setting({})
                drawn = paper.drawn(table.name, dataset, metric, twin)
                for setting in table.settings:
                    ours = self.cell(dataset, method, metric, setting)
                    theirs, default = drawn.get(setting.label), paper.printed(metric, dataset, twin)
                    if ours is None or theirs is None or self.method(method).with_setting(setting.axes) == usual:
                        continue
                    if theirs.std is None and default is not None:
                        theirs = theirs._replace(std=default.std)
                    found.append(Entry(dataset, method, metric, ours, theirs, True, self.quick))
        return found

    def facts(self) -> dict[str, Any]:
        """What the runs were made on and by: sets of distinct values."""
        machines = {json.dumps(row["machine"], sort_keys=True) for row in self.rows}
        versions = {json.dumps(row["versions"], sort_keys=True) for row in self.rows}
        return {
            "machines": [json.loads(text) for text in sorted(machines)],
            "versions": [json.loads(text) for text in sorted(versions)],
            "threads": sorted({row["threads"] for row in self.rows}),
            "first": min((row["started"] for row in self.rows), default=""),
            "last": max((row["started"] for row in self.rows), default=""),
            "memory_limits": sorted({row["memory_limit_bytes"] for row in self.rows if row["memory_limit_bytes"]}),
            "time_limits": sorted({row["time_limit_seconds"] for row in self.rows if row["time_limit_seconds"]}),
        }


def _shared(row: Row) -> bool:
    """Whether a run shared the machine: with others of ours, or with what else was running when it began."""
    return row["jobs"] > 1 or (row["load"] or 0.0) > row["threads"]


def _mean(figure: Figure | None) -> float | None:
    return None if figure is None else figure.mean


def _with_extras(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Dataset], list[Method]]:
    """All data sets and methods: the declared ones, and those of a store that users added."""
    rows = list(rows)
    known = {method.title for method in METHODS}
    sets = sorted({row["dataset"] for row in rows} - set(PAPER_SETS))
    own = {row["method"]: row["estimator"] for row in rows if row["method"] not in known}
    return (
        [*DATASETS, *(Dataset(title, file=title) for title in sets)],
        [*METHODS, *(Method(title, estimator, own=True) for title, estimator in sorted(own.items()))],
    )
