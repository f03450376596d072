"""Runs of a store, summarised over seeds and compared with the paper's results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from ultraspec.reproduce import averages, paper_results
from ultraspec.reproduce.dataset_cache import is_current
from ultraspec.reproduce.declarations import (
    DATASETS,
    METHODS,
    PAPER_SETS,
    TABLES,
    Dataset,
    Method,
    Setting,
    Table,
    canonical_json,
)
from ultraspec.reproduce.paper_results import PaperResult
from ultraspec.reproduce.store import Record

SIGMAS = 2.0  # a mean agrees within this many of the paper's standard deviations ...
POINTS = 1.0  # ... or within this many percentage points: some of the paper's standard deviations are zero
MANY_SIGMAS = 99.5  # larger differences are shown in percentage points
SHARED = 0.1  # if more than this share of the runs shared the machine, times are CPU times

Verdict = Literal["agrees", "higher", "lower", "ours_only", "paper_only", "neither", "not_run", "not_compared"]


class OurResult(NamedTuple):
    """Result over all seeds: mean (of times, the median) and standard deviation, or the reason why there is none."""

    runs: int
    mean: float | None
    std: float | None
    reason: str | None = None


class Entry(NamedTuple):
    """A cell of a table: our result, the paper's, and how they differ."""

    dataset: str
    method: str
    metric: str
    ours: OurResult | None  # None if nothing was run
    paper: PaperResult | None  # None if the paper has N/A, or does not list the method
    listed: bool  # whether the paper has this cell
    quick: bool = False  # whether our result is on a share of the rows, and so is not compared

    @property
    def points(self) -> float | None:
        """Difference of the means."""
        if self.quick or self.ours is None or self.ours.mean is None or self.paper is None:
            return None
        return self.ours.mean - self.paper.mean

    @property
    def sigmas(self) -> float | None:
        """Difference in units of the paper's standard deviation; None if that is printed as zero."""
        if self.points is None or self.paper is None or not self.paper.std:
            return None
        return self.points / self.paper.std

    @property
    def in_points(self) -> bool:
        """Whether the paper's standard deviation is too small a unit for the difference."""
        if self.sigmas is None or self.points is None:
            return True
        return abs(self.sigmas) > (SIGMAS if abs(self.points) <= POINTS else MANY_SIGMAS)

    @property
    def verdict(self) -> Verdict:
        """How our result compares with the paper's."""
        if self.ours is None:
            return "not_run"
        if not self.listed or self.quick:
            return "not_compared"
        if self.ours.mean is None:
            return "paper_only" if self.paper is not None else "neither"
        if self.paper is None or self.points is None:
            return "ours_only"
        if abs(self.points) <= max(POINTS, SIGMAS * (self.paper.std or 0.0)):
            return "agrees"
        return "higher" if self.points > 0 else "lower"


@dataclass(frozen=True)
class Averages:
    """The last lines of Tables 4, 5, 7 and 8 for one method: ours and the paper's.

    `rank_sets` is the number of data sets on which all ranked methods were run; the paper's rank is over the same sets.
    """

    average: float | None
    normalized: float | None
    rank: float | None
    paper_average: float | None
    paper_normalized: float | None
    paper_rank: float | None
    rank_sets: int


class Summary:
    """The runs of a store at one scale; records of other scales are ignored.

    Runs on rows of an earlier generator are ignored too where the same setting has been run again.

    Attributes
    ----------
    earlier : dict of lists
        By data set, the methods with settings whose runs are on rows of an earlier generator.
    quick : bool
        Whether the runs are on a share of the rows, which cannot be compared with the paper.
    shared : float
        Share of the runs during which the machine did other work too.
    clock : {"seconds", "cpu_seconds"}
        Which times are shown: wall-clock times, or CPU times if too many runs shared the machine.
    """

    def __init__(self, records: Iterable[Record], scale: float = 1.0) -> None:
        self.records = [record for record in records if record["scale"] == scale]
        self.scale = scale
        self.quick = scale != 1
        self._groups: dict[tuple[str, str, str], list[Record]] = {}
        self.earlier: dict[str, list[str]] = {}
        for key, group in _by_setting(self.records).items():
            current = [record for record in group if _is_current(record)]
            self._groups[key] = current or group
            if not current:
                self.earlier.setdefault(key[0], []).append(key[1])
        kept = {id(record) for group in self._groups.values() for record in group}
        self.records = [record for record in self.records if id(record) in kept]
        self.datasets = [*DATASETS, *_custom_datasets(self.records)]
        self.methods = [*METHODS, *_custom_methods(self.records)]
        self.shared = statistics.fmean([_shared_machine(record) for record in self.records] or [0.0])
        self.clock = "cpu_seconds" if self.shared > SHARED else "seconds"

    def method(self, title: str) -> Method:
        """Return a method by its title."""
        return next(method for method in self.methods if method.title == title)

    def paper_method(self, method: str) -> str:
        """Return the title of the paper's method that a method is, or is a variant of."""
        return self.method(method).variant_of or method

    def result(self, dataset: str, method: str, metric: str, setting: Setting | None = None) -> OurResult | None:
        """Return the result of a method on a data set; None if it was not run."""
        parameters = self.method(method).with_setting(setting.axes if setting is not None else {})
        records = self._groups.get((dataset, method, canonical_json(parameters)), [])
        if not records:
            return None
        field = self.clock if metric == "seconds" else metric
        successful = [record for record in records if record["na"] is None]
        values = [record[field] for record in successful if field in record]  # older records lack some scores
        if successful and not values:
            return None
        if not values:
            return OurResult(len(records), None, None, records[-1]["reason"])
        middle = statistics.median(values) if metric == "seconds" else statistics.fmean(values)
        return OurResult(len(values), middle, statistics.stdev(values) if len(values) > 1 else None)

    def entry(self, dataset: str, method: str, metric: str) -> Entry:
        """Return a cell of Tables 4 to 9."""
        in_paper = self.paper_method(method)
        listed = paper_results.is_listed(dataset, in_paper)
        paper = paper_results.printed(metric, dataset, in_paper) if listed else None
        return Entry(dataset, method, metric, self.result(dataset, method, metric), paper, listed, self.quick)

    def curve(self, table: Table, dataset: str, method: str, metric: str) -> list[Entry]:
        """Return the points of a method in Tables 10 to 16, one for each setting of the table."""
        drawn = paper_results.drawn(table.name, dataset, metric, self.paper_method(method))
        return [
            Entry(
                dataset,
                method,
                metric,
                self.result(dataset, method, metric, setting),
                drawn.get(setting.label),
                bool(drawn),
                self.quick,
            )
            for setting in table.settings
        ]

    def table_methods(self, table: Table) -> list[str]:
        """Return the columns of Tables 4 to 9: the methods of the table, and a user's methods."""
        return [*table.methods, *(method.title for method in self.methods if method.custom)]

    def table_datasets(self, table: Table) -> list[Dataset]:
        """Return the rows of Tables 4 to 9: the data sets of the table, and a user's data sets."""
        return [dataset for dataset in self.datasets if dataset.custom or dataset.title in table.datasets]

    def averages(self, table: Table, method: str) -> Averages:
        """Return the averages of a method over data sets.

        Ranks are among the paper's methods: a variant takes the place of its method, a user's method is added.
        """
        field = [name for name in table.methods if name != table.reference and not self.method(name).variant_of]
        in_paper = self.paper_method(method)
        ranked = [method if name == in_paper else name for name in field]
        ranked = ranked if method in ranked else [*ranked, method]
        scores = self._scores(table, ranked)
        on_all = scores if len(scores) == len(table.datasets) else {}
        alone = self._scores(table, [method])
        paper = {
            dataset: {name: _mean(paper_results.printed(table.metric, dataset, name)) for name in field}
            for dataset in scores
        }
        return Averages(
            average=averages.averages(alone)[method] if len(alone) == len(table.datasets) else None,
            normalized=averages.normalized(on_all).get(method),
            rank=averages.ranks(scores).get(method),
            paper_average=paper_results.aggregate("average", table.metric, table.family, in_paper),
            paper_normalized=paper_results.aggregate("normalized", table.metric, table.family, in_paper),
            paper_rank=averages.ranks(paper).get(in_paper),
            rank_sets=len(scores),
        )

    def _scores(self, table: Table, methods: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """Return the means of methods on those data sets of a table on which all of them were run."""
        results = {d: {m: self.result(d, m, table.metric) for m in methods} for d in table.datasets}
        return {
            dataset: {method: result.mean for method, result in row.items() if result is not None}
            for dataset, row in results.items()
            if None not in row.values()
        }

    def score_entries(self) -> list[Entry]:
        """Return all NMI and CA of Tables 4 to 9 that were run, each once."""
        cells = product(self.methods, self.datasets, ("nmi", "ca"))
        entries = [self.entry(dataset.title, method.title, metric) for method, dataset, metric in cells]
        return [entry for entry in entries if entry.ours is not None]

    def curve_entries(self) -> list[Entry]:
        """Return all NMI and CA of Tables 10 to 16 that were run, except at the defaults, which Tables 4 to 9 have.

        A point that is drawn without a standard deviation gets that of the default point.
        """
        entries = []
        for table in (table for table in TABLES.values() if not table.metric):
            for dataset, title, metric in product(table.datasets, table.methods, ("nmi", "ca")):
                method = self.method(title)
                default = paper_results.printed(metric, dataset, self.paper_method(title))
                for entry, setting in zip(self.curve(table, dataset, title, metric), table.settings, strict=True):
                    is_default = method.with_setting(setting.axes) == method.with_setting({})
                    if entry.ours is None or entry.paper is None or is_default:
                        continue
                    if entry.paper.std is None and default is not None:
                        entry = entry._replace(paper=entry.paper._replace(std=default.std))
                    entries.append(entry)
        return entries

    def facts(self) -> dict[str, Any]:
        """Return the distinct machines, versions, threads and limits of the runs, and the first and last date."""
        dates = [record["started"] for record in self.records]
        return {
            "machines": self._distinct_objects("machine"),
            "versions": self._distinct_objects("versions"),
            "threads": self._distinct("threads"),
            "first": min(dates, default=""),
            "last": max(dates, default=""),
            "memory_limits": self._distinct("memory_limit_bytes"),
            "time_limits": self._distinct("time_limit_seconds"),
        }

    def _distinct(self, field: str) -> list[Any]:
        return sorted({record[field] for record in self.records if record[field]})

    def _distinct_objects(self, field: str) -> list[Any]:
        return [json.loads(text) for text in sorted({canonical_json(record[field]) for record in self.records})]


def _shared_machine(record: Record) -> bool:
    """Return whether a run shared the machine with other runs, or with what else was running when it began."""
    return record["jobs"] > 1 or (record["load"] or 0.0) > record["threads"]


def _mean(result: PaperResult | None) -> float | None:
    return None if result is None else result.mean


def _by_setting(records: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """Group records by data set, method and parameters."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        key = record["dataset"], record["method"], canonical_json(record["parameters"])
        groups.setdefault(key, []).append(record)
    return groups


def _is_current(record: Record) -> bool:
    """Return whether the data of a run are those of the present generator."""
    dataset = next((dataset for dataset in DATASETS if dataset.title == record["dataset"]), None)
    return dataset is None or is_current(dataset, record.get("data"), record["scale"])


def _custom_datasets(records: Sequence[Record]) -> list[Dataset]:
    titles = {record["dataset"] for record in records} - set(PAPER_SETS)
    return [Dataset(title, file=title) for title in sorted(titles)]


def _custom_methods(records: Sequence[Record]) -> list[Method]:
    known = {method.title for method in METHODS}
    custom = {record["method"]: record["estimator"] for record in records if record["method"] not in known}
    return [Method(title, estimator, custom=True) for title, estimator in sorted(custom.items())]
