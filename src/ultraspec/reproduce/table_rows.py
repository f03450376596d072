"""Content of the tables that Markdown and the page share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ultraspec.reproduce.declarations import Table
from ultraspec.reproduce.formatting import (
    dataset_title,
    format_difference,
    format_ours,
    format_paper,
    format_span,
    method_title,
)
from ultraspec.reproduce.summary import Entry, Summary


class AverageCell(NamedTuple):
    """An average of a method: ours, the paper's, and whether ours is the best."""

    ours: str
    paper: str
    is_best: bool


class CurveRow(NamedTuple):
    """A method on a data set: for each setting our result, the paper's and, if both exist, their difference."""

    dataset: str
    method: str
    runs: str
    cells: list[list[str]]


def best_methods(entries: Sequence[Entry], table: Table) -> set[str]:
    """Return the methods with our best result in a row, except the one listed for reference."""
    means = {e.method: e.ours.mean for e in entries if e.ours is not None and not _is_reference(e.method, table)}
    return _best(means, min if table.metric == "seconds" else max)


def _is_reference(method: str, table: Table) -> bool:
    return method.removesuffix(" (lib)") == table.reference


def _best(values: Mapping[str, float | None], best: Callable[[Iterable[float]], float]) -> set[str]:
    """Return the names whose value is the best when rounded as in the tables."""
    known = {name: round(value, 2) for name, value in values.items() if value is not None}
    return {name for name, value in known.items() if value == best(known.values())}


def count_runs(entries: Sequence[Entry]) -> str:
    """Return how many seeds the results of a row have."""
    counts = [entry.ours.runs for entry in entries if entry.ours is not None and entry.ours.mean is not None]
    return f"{format_span(counts)} run{'s' if max(counts) > 1 else ''}" if counts else "not run"


def average_rows(summary: Summary, table: Table) -> Iterator[tuple[str, list[AverageCell]]]:
    """Yield the last lines of a table: the name of an average, and a cell for each method."""
    methods = summary.table_methods(table)
    known = {method: summary.averages(table, method) for method in methods if not _is_reference(method, table)}
    n_sets = max(item.rank_sets for item in known.values())
    where = "" if n_sets in (0, len(table.datasets)) else f" on {n_sets} sets"
    for kind, name in (("average", "Avg. score"), ("normalized", "N-Avg. score"), ("rank", f"Avg. rank{where}")):
        ours = {method: getattr(item, kind) for method, item in known.items()}
        paper = {method: getattr(item, f"paper_{kind}") for method, item in known.items()}
        best = _best(ours, min if kind == "rank" else max)
        yield name, [AverageCell(_two_digits(ours.get(m)), _two_digits(paper.get(m)), m in best) for m in methods]


def _two_digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def curve_rows(summary: Summary, table: Table, metric: str) -> Iterator[CurveRow]:
    """Yield the rows of Tables 10 to 16 for a metric, without variants that were run at the default setting only."""
    for dataset in summary.table_datasets(table):
        for method in table.methods:
            entries = summary.curve(table, dataset.title, method, metric)
            counts = [entry.ours.runs for entry in entries if entry.ours is not None]
            if len(counts) < 2:
                continue
            cells = []
            for entry in entries:
                cell = [format_ours(entry.ours, metric), format_paper(entry.paper, metric, entry.listed)]
                cells.append(cell if entry.points is None else [*cell, format_difference(entry)])
            yield CurveRow(dataset_title(dataset), method_title(method), format_span(counts), cells)


def reason_rows(summary: Summary) -> list[list[str]]:
    """Return data set, method, parameters and reason of runs without results, once for all seeds."""
    reasons: dict[tuple[str, str, str], str] = {}
    for record in summary.records:
        if record["na"] is not None:
            parameters = ", ".join(f"{name}={value}" for name, value in record["parameters"].items())
            reasons[record["dataset"], method_title(record["method"]), parameters] = record["reason"]
    return [[*key, reason] for key, reason in reasons.items()]
