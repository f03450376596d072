"""The results as Markdown: tables in the paper's layout, ours above the paper's in each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ultraspec.reproduce.declarations import Table
from ultraspec.reproduce.formatting import (
    BOLD,
    CURVE_RULE,
    METRIC_TITLES,
    SCORES,
    SCORES_NOTE,
    average_rows,
    best_methods,
    count_runs,
    curve_rows,
    dataset_title,
    format_difference,
    format_ours,
    format_paper,
    generated_note,
    limits_note,
    method_title,
    provenance,
    quick_look_note,
    reason_rows,
    score_rows,
)
from ultraspec.reproduce.summary import POINTS, SIGMAS, Entry, Summary


def render(summary: Summary, tables: Sequence[Table]) -> str:
    """Render the introduction, the tables and the reasons of N/A."""
    title = "A quick look at the paper's experiments" if summary.quick else "The paper's experiments, repeated"
    parts = [f"# {title}", "", *intro(summary)]
    for table in tables:
        parts += ["", f"## Table {table.number}: {table.title}", ""]
        parts += comparison(summary, table) if table.metric else curves(summary, table)
        parts += ["", generated_note(summary)]
    parts += ["", "## All scores", "", *all_scores(summary)]
    parts += ["", "## Not available", "", *reasons(summary)]
    return "\n".join(parts) + "\n"


def intro(summary: Summary) -> list[str]:
    """Explain the cells, and count how many scores agree."""
    cells = (
        "Each cell has our mean ± standard deviation over seeds (for times, the median) and *the paper's, on all rows*."
        if summary.quick
        else f"Each cell has our mean ± standard deviation over seeds, *the paper's*, and the difference in units of "
        f"the paper's standard deviation (σ), or in percentage points (pt) if that is printed as 0.00; for times, it "
        f"has our median, *the paper's mean*, and the ratio. A mean *agrees* if it is within {SIGMAS:g} of the paper's "
        f"standard deviations or within {POINTS:g} percentage point. {CURVE_RULE}"
    )
    return [
        *([f"**{quick_look_note(summary)}**", ""] if summary.quick else []),
        *provenance(summary),
        "",
        f"{cells} {BOLD}. U-SPEC and U-SENC have the paper's settings (`regularization=0`), *(lib)* marks the "
        f"same methods with `regularization=1e-3`. {limits_note(summary)}",
        "",
        generated_note(summary),
        *([] if summary.quick else ["", *verdicts(summary)]),
    ]


def verdicts(summary: Summary) -> list[str]:
    """Count by method how many scores agree."""
    columns = {"agrees": "agree", "higher": "higher", "lower": "lower", "ours_only": "ran here but not in the paper"}
    by_method: dict[str, list[Entry]] = {}
    for entry in summary.score_entries():
        by_method.setdefault(entry.method, []).append(entry)
    rows = [
        [method_title(method), *(str(sum(entry.verdict == verdict for entry in entries)) for verdict in columns)]
        for method, entries in by_method.items()
    ]
    return grid(["method", *columns.values()], rows) if rows else []


def comparison(summary: Summary, table: Table) -> list[str]:
    """Render one of Tables 4 to 9."""
    methods = summary.table_methods(table)
    rows = []
    for dataset in summary.table_datasets(table):
        entries = [summary.entry(dataset.title, method, table.metric) for method in methods]
        best = best_methods(entries, table)
        name = f"*{dataset_title(dataset)}*<br>{count_runs(entries)}"
        rows.append([name, *(_cell(entry, entry.method in best) for entry in entries)])
    if table.metric != "seconds":
        for name, cells in average_rows(summary, table):
            rows.append([name, *(f"{_bold(cell.ours, cell.is_best)}<br>*{cell.paper}*" for cell in cells)])
    return grid(["Data set", *map(method_title, methods)], rows)


def _cell(entry: Entry, is_best: bool) -> str:
    ours = _bold(format_ours(entry.ours, entry.metric), is_best)
    paper = f"*{format_paper(entry.paper, entry.metric)}*" if entry.listed else ""
    return "<br>".join(part for part in (ours, paper, format_difference(entry)) if part)


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def curves(summary: Summary, table: Table) -> list[str]:
    """Render one of Tables 10 to 16: a table for each metric."""
    lines: list[str] = []
    for metric, title in METRIC_TITLES.items():
        rows = [
            [f"*{row.dataset}*", row.method, row.runs, *("<br>".join([c[0], f"*{c[1]}*", *c[2:]]) for c in row.cells)]
            for row in curve_rows(summary, table, metric)
        ]
        if rows:
            lines += [*grid(["Data set", title, "runs", *(str(setting.label) for setting in table.settings)], rows), ""]
    return lines[:-1] or ["Not run."]


def all_scores(summary: Summary) -> list[str]:
    """Render all scores of all methods at the parameters of Tables 4 to 9."""
    rows = score_rows(summary)
    return [SCORES_NOTE, "", *grid(["Data set", "method", "runs", *SCORES.values()], rows)] if rows else ["Not run."]


def reasons(summary: Summary) -> list[str]:
    """Render why runs have no results."""
    rows = [[part.replace("|", "/") for part in row] for row in reason_rows(summary)]
    return grid(["Data set", "method", "parameters", "reason"], rows) if rows else ["All runs have results."]


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Render a table."""
    return [_line(head), _line(["---"] * len(head)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
