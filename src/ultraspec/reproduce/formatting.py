"""What Markdown and the page share: numbers, the content of the tables, and sentences about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ultraspec.reproduce.declarations import Dataset, Table
from ultraspec.reproduce.paper_results import PaperResult
from ultraspec.reproduce.summary import Entry, OurResult, Summary

METRIC_TITLES = {"nmi": "NMI (%)", "ca": "CA (%)", "seconds": "time (s)"}
METRIC_NAMES = {"nmi": "NMI", "ca": "CA", "seconds": "time"}
SCORES = {"nmi": "NMI", "ca": "CA", "ami": "AMI", "ari": "ARI", "hungarian": "HA"}
SCORES_NOTE = (
    "All scores in %, on all rows, with the parameters of Tables 4 to 9: NMI (normalised by the larger entropy) and CA "
    "(majority accuracy) are those of the paper; AMI and ARI are adjusted for chance; HA is the Hungarian accuracy, "
    "with one cluster for a class. Runs before 2026-11-18 have no AMI and HA; in parentheses, the number of runs that "
    "have them."
)
DAGGER = "†"
GENERATED = (
    f"{DAGGER} From our generators, which match 100,000 rows of each of the authors' sets to within the noise of these "
    "rows. The paper's own files, of one to twenty million rows, are not published."
)
CURVE_RULE = (
    "Most points of Tables 10 to 16 are drawn without a standard deviation; they are judged by that of the default "
    "setting."
)
BOLD = "**Bold** marks our best in the row; as in the paper, the method listed for reference only is not considered"


def generated_note(summary: Summary) -> str:
    """Return the note about generated data sets, and which results are on rows of an earlier generator."""
    parts = [GENERATED]
    for dataset, settings in summary.earlier.items():
        counts = [f"{method_title(m)} ({settings.count(m)})" for m in dict.fromkeys(settings)]
        parts.append(
            f"Not run again since the generator of {dataset} was corrected, with the number of settings: "
            f"{', '.join(counts)}."
        )
    return " ".join(parts)


def method_title(method: str) -> str:
    """Return the name of a method with its accents."""
    return "Nyström" if method == "Nystrom" else method


def dataset_title(dataset: Dataset) -> str:
    """Return the name of a data set, marked if it comes from our generators."""
    return dataset.title + (DAGGER if dataset.generated else "")


def format_mean(value: float, metric: str) -> str:
    """Format a mean.

    Examples
    --------
    >>> format_mean(85.336, "nmi"), format_mean(0.0213, "seconds"), format_mean(1234.6, "seconds")
    ('85.34', '0.02', '1,235')
    """
    if metric != "seconds" or value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def format_ours(result: OurResult | None, metric: str) -> str:
    """Format one of our results: a dash if nothing was run, N/A if there is no result."""
    if result is None:
        return "–"
    if result.mean is None:
        return "N/A"
    std = "" if result.std is None or metric == "seconds" else f" ± {result.std:.2f}"
    return format_mean(result.mean, metric) + std


def format_paper(result: PaperResult | None, metric: str, listed: bool = True) -> str:
    """Format a result of the paper: a dash if it does not list the method."""
    if not listed:
        return "–"
    if result is None:
        return "N/A"
    return format_mean(result.mean, metric) + ("" if result.std is None else f" ± {result.std:.2f}")


def format_difference(entry: Entry) -> str:
    """Format a difference: in the paper's standard deviations, in percentage points if these are zero, or as a ratio.

    Examples
    --------
    >>> format_difference(Entry("", "", "nmi", OurResult(5, 82.0, 1.0), PaperResult(80.0, 2.0), True))
    '+1.0 σ'
    >>> format_difference(Entry("", "", "seconds", OurResult(5, 2.0, None), PaperResult(10.0, None), True))
    '5.0 × faster'
    """
    if entry.points is None or entry.ours is None or entry.ours.mean is None or entry.paper is None:
        return {"ours_only": "ours only", "paper_only": "paper only"}.get(entry.verdict, "")
    if entry.metric == "seconds":
        return format_ratio(entry.paper.mean, entry.ours.mean)
    if entry.sigmas is None:
        return f"{format_signed(entry.points, 2)} pt"
    return f"{format_signed(entry.sigmas, 1)} σ"


def format_ratio(paper: float, ours: float) -> str:
    """Format how many times faster or slower ours is."""
    ratio = paper / max(ours, 1e-9)
    times, word = (ratio, "faster") if ratio >= 1 else (1 / ratio, "slower")
    return f"{times:.1f} × {word}" if times < 9.95 else f"{times:,.0f} × {word}"


def format_signed(value: float, digits: int) -> str:
    """Format a number with its sign, but zero without one.

    Examples
    --------
    >>> format_signed(-0.04, 1), format_signed(0.26, 1), format_signed(-3, 1)
    ('0.0', '+0.3', '−3.0')
    """
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def format_span(numbers: Sequence[int]) -> str:
    """Format the range of some numbers.

    Examples
    --------
    >>> format_span([5, 3, 20]), format_span([5, 5])
    ('3–20', '5')
    """
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low}–{high}"


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


def score_rows(summary: Summary) -> list[list[str]]:
    """Return data set, method, number of runs and all scores of each method with the parameters of Tables 4 to 9."""
    rows = []
    for dataset in summary.datasets:
        for method in summary.methods:
            found = {name: summary.result(dataset.title, method.title, name) for name in SCORES}
            runs = found["nmi"].runs if found["nmi"] is not None and found["nmi"].mean is not None else 0
            if runs:
                cells = [_with_count(result, name, runs) for name, result in found.items()]
                rows.append([dataset_title(dataset), method_title(method.title), str(runs), *cells])
    return rows


def _with_count(result: OurResult | None, metric: str, runs: int) -> str:
    """Format a score, with its number of runs where other scores have more."""
    text = format_ours(result, metric)
    return text if result is None or result.runs == runs else f"{text} ({result.runs})"


def reason_rows(summary: Summary) -> list[list[str]]:
    """Return data set, method, parameters and reason of runs without results, once for all seeds."""
    reasons: dict[tuple[str, str, str], str] = {}
    for record in summary.records:
        if record["na"] is not None:
            parameters = ", ".join(f"{name}={value}" for name, value in record["parameters"].items())
            reasons[record["dataset"], method_title(record["method"]), parameters] = record["reason"]
    return [[*key, reason] for key, reason in reasons.items()]


def provenance(summary: Summary) -> list[str]:
    """Return sentences about the machine, the versions and how times were taken."""
    if not summary.records:
        return ["Nothing was run yet."]
    facts = summary.facts()
    days = sorted({facts["first"][:10], facts["last"][:10]})
    machines = "; ".join(
        f"{m['cpu']}, {m['cores']} cores" + (f", {m['memory_bytes'] / 1e9:.0f} GB" if m["memory_bytes"] else "")
        for m in facts["machines"]
    )
    versions = "; ".join(", ".join(f"{name} {v}" for name, v in found.items()) for found in facts["versions"])
    threads = " or ".join(str(count) for count in facts["threads"]) + " thread" + "s" * (facts["threads"] != [1])
    sentences = [
        f"{len(summary.records):,} runs on {' to '.join(days)}, each in its own process with {threads}: {machines}; "
        f"{versions}."
    ]
    if summary.clock == "cpu_seconds":
        sentences.append(
            f"{summary.shared:.0%} of the runs shared the machine with each other or with other work. Wall-clock times "
            "are unreliable then, so times are CPU times, summed over threads; on idle cores, wall-clock times would "
            "be shorter. The paper has wall-clock times on four cores. Scores are not affected."
        )
    return sentences


def quick_look_note(summary: Summary) -> str:
    """Return a warning that only a share of the rows was used.

    Examples
    --------
    >>> quick_look_note(Summary([], 0.01))
    'Only a share of the rows was used (--scale 0.01). These results cannot be compared with those of the paper.'
    """
    rows = {record["dataset"]: record["rows"] for record in summary.records}
    used = ": " + ", ".join(f"{count:,} of {name}" for name, count in rows.items()) if rows else ""
    share = f"Only a share of the rows was used (--scale {summary.scale}{used})."
    return f"{share} These results cannot be compared with those of the paper."


def limits_note(summary: Summary) -> str:
    """Return sentences that say what N/A and a dash mean."""
    facts = summary.facts()
    memory = " or ".join(f"{limit / 1e9:.0f} GB" for limit in facts["memory_limits"]) or "none"
    seconds = " or ".join(f"{limit:,.0f} s" for limit in facts["time_limits"]) or "none"
    one_only = "" if summary.quick else "; *ours only*: it ran here but not in the paper, *paper only*: the reverse"
    return (
        f"N/A: the run exceeded its memory limit ({memory}) or its time limit ({seconds}), or failed; the reasons are "
        f"listed. In the paper, N/A means that 64 GB were not enough{one_only}. A dash: not run."
    )
