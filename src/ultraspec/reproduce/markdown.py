"""The results as Markdown: tables in the paper's layout, ours above the paper's in each place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ultraspec.reproduce import paper, text
from ultraspec.reproduce.declarations import Table
from ultraspec.reproduce.summary import POINTS, SIGMAS, Averages, Entry, Summary


def render(summary: Summary, tables: Sequence[Table]) -> str:
    """All of it."""
    parts = ["# The paper's experiments, run again", "", *intro(summary)]
    for table in tables:
        parts += ["", f"## Table {table.number}: {table.title}", ""]
        parts += comparison(summary, table) if table.metric else curves(summary, table)
    parts += ["", "## Not available", "", *reasons(summary)]
    return "\n".join(parts) + "\n"


def intro(summary: Summary) -> list[str]:
    """What readers need to know, and the verdict in figures."""
    return [
        *text.made_by(summary),
        "",
        f"In each place: our mean ± standard deviation over seeds, *the paper's*, and the difference in units of the "
        f"paper's standard deviation (in points, pt, where that is printed as 0.00); times: the median, *the paper's "
        f"mean*, and the ratio. **Bold** is our best in the row. A mean *agrees* if it is within {SIGMAS:g} of the "
        f"paper's standard deviations or within {POINTS:g} point. U-SPEC and U-SENC are the paper to the letter "
        f"(`regularization=0`), *(lib)* has the library's defaults. {text.limits_text(summary)}",
        "",
        text.RECONSTRUCTED,
        "",
        *verdicts(summary),
    ]


def verdicts(summary: Summary) -> list[str]:
    """How many figures agree, by method."""
    head = ["method", "agree", "higher", "lower", "ran where the paper's machine could not"]
    found: dict[str, list[Entry]] = {}
    for entry in summary.score_entries():
        found.setdefault(entry.method, []).append(entry)
    rows = []
    for method, entries in found.items():
        count = {name: sum(entry.verdict == name for entry in entries) for name in ("agrees", "higher", "lower", "ran")}
        rows.append([text.title(method), *(str(n) for n in count.values())])
    return grid(head, rows) if rows else []


def comparison(summary: Summary, table: Table) -> list[str]:
    """One of Tables 4 to 9."""
    methods = summary.table_methods(table)
    rows = []
    for dataset in summary.table_datasets(table):
        entries = [summary.entry(dataset.title, method, table.metric) for method in methods]
        leaders = best(entries, table)
        name = f"*{dataset.title}*{text.DAGGER if dataset.reconstructed else ''}<br>{runs_text(entries)}"
        rows.append([name, *(_place(entry, entry.method in leaders) for entry in entries)])
    if table.metric != "seconds":
        for name, *places in averages(summary, table, methods):
            rows.append([str(name), *(f"{ours}<br>*{theirs}*" for ours, theirs in places)])
    return grid(["Data set", *map(text.title, methods)], rows)


def best(entries: Sequence[Entry], table: Table) -> set[str]:
    """Methods with our best figure in a row."""
    known = {
        e.method: round(e.ours.mean, 2)
        for e in entries
        if e.ours is not None and e.ours.mean is not None and e.method.removesuffix(" (lib)") != table.reference
    }
    if not known:
        return set()
    most = min(known.values()) if table.metric == "seconds" else max(known.values())
    return {method for method, value in known.items() if value == most}


def runs_text(entries: Sequence[Entry]) -> str:
    """How many seeds a row's figures have."""
    counts = [entry.ours.runs for entry in entries if entry.ours is not None and entry.ours.mean is not None]
    return f"{span(counts)} run{'s' if max(counts) > 1 else ''}" if counts else "not run"


def _place(entry: Entry, leads: bool) -> str:
    ours = text.own(entry.ours, entry.metric)
    if leads and entry.ours is not None and entry.ours.mean is not None:
        ours = f"**{ours}**"
    theirs = f"*{text.theirs(entry.paper, entry.metric)}*" if entry.listed else ""
    return "<br>".join(part for part in (ours, theirs, text.difference(entry)) if part)


Pair = tuple[str, str]


def averages(summary: Summary, table: Table, methods: Iterable[str]) -> list[tuple[str, *tuple[Pair, ...]]]:
    """The last lines of a comparison: a name, then ours and the paper's for each method."""
    found: list[Averages | None] = [
        None if method.removesuffix(" (lib)") == table.reference else summary.averages(table, method)
        for method in methods
    ]
    sets = max((item.rank_sets for item in found if item is not None), default=0)
    where = "" if sets == len(table.datasets) else f" on {sets} sets"
    return [
        ("Avg. score", *(_pair(a.average, a.paper_average) if a else _pair() for a in found)),
        ("N-Avg. score", *(_pair(a.normalized, a.paper_normalized) if a else _pair() for a in found)),
        (f"Avg. rank{where}", *(_pair(a.rank, a.paper_rank) if a else _pair() for a in found)),
    ]


def _pair(ours: float | None = None, theirs: float | None = None) -> Pair:
    return (f"{ours:.2f}" if ours is not None else "–", f"{theirs:.2f}" if theirs is not None else "–")


def curves(summary: Summary, table: Table) -> list[str]:
    """One of Tables 10 to 16: a table for each figure."""
    lines: list[str] = []
    for metric in paper.METRICS:
        rows = [
            [f"*{dataset}*", method, runs, *("<br>".join([p[0], f"*{p[1]}*", *p[2:]]) for p in places)]
            for dataset, method, runs, places in curve_rows(summary, table, metric)
        ]
        if rows:
            head = ["Data set", text.NAMES[metric], "runs", *(str(setting.label) for setting in table.settings)]
            lines += [*grid(head, rows), ""]
    return lines[:-1] or ["Not run."]


def curve_rows(summary: Summary, table: Table, metric: str) -> Iterator[tuple[str, str, str, list[list[str]]]]:
    """Data set, method and number of runs, and for each value what we have, what the paper has, and the difference."""
    for dataset in summary.table_datasets(table):
        for method in table.methods:
            cells = [summary.cell(dataset.title, method, metric, setting) for setting in table.settings]
            drawn = paper.drawn(table.name, dataset.title, metric, summary.twin(method))
            counts = [cell.runs for cell in cells if cell is not None]
            if len(counts) < 2:  # a variant that was run at the default alone
                continue
            places = []
            for cell, setting in zip(cells, table.settings, strict=True):
                entry = Entry(dataset.title, method, metric, cell, drawn.get(setting.label), bool(drawn))
                shown = [text.own(cell, metric), text.theirs(entry.paper, metric, entry.listed)]
                places.append(shown if entry.points is None else [*shown, text.difference(entry)])
            name = dataset.title + (text.DAGGER if dataset.reconstructed else "")
            yield name, text.title(method), span(counts), places


def span(numbers: Sequence[int]) -> str:
    """Numbers from the least to the largest."""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low}–{high}"


def reasons(summary: Summary) -> list[str]:
    """Why runs have no figures."""
    rows = [[part.replace("|", "/") for part in row] for row in reason_rows(summary)]
    return grid(["Data set", "method", "parameters", "reason"], rows) if rows else ["All runs have figures."]


def reason_rows(summary: Summary) -> list[list[str]]:
    """Data set, method, parameters and reason of what has no figures, once for all seeds."""
    found: dict[tuple[str, str, str], str] = {}
    for row in summary.rows:
        if row["na"] is not None:
            parameters = ", ".join(f"{name}={value}" for name, value in row["parameters"].items())
            found[row["dataset"], text.title(row["method"]), parameters] = row["reason"]
    return [[*key, reason] for key, reason in found.items()]


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of Markdown."""
    return [_line(head), _line(["---"] * len(head)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
