"""The results as Markdown: tables in the paper's layout, ours above the paper's in each place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ultraspec.reproduce import paper, text
from ultraspec.reproduce.declarations import Table
from ultraspec.reproduce.summary import POINTS, SIGMAS, Entry, Summary


def render(summary: Summary, tables: Sequence[Table]) -> str:
    """All of it."""
    title = "A quick look at the paper's experiments" if summary.quick else "The paper's experiments, run again"
    parts = [f"# {title}", "", *intro(summary)]
    for table in tables:
        parts += ["", f"## Table {table.number}: {table.title}", ""]
        parts += comparison(summary, table) if table.metric else curves(summary, table)
        parts += ["", text.RECONSTRUCTED]
    parts += ["", "## Not available", "", *reasons(summary)]
    return "\n".join(parts) + "\n"


def intro(summary: Summary) -> list[str]:
    """What readers need to know, and the verdict in figures."""
    places = (
        "In each place: our mean ± standard deviation over seeds (times: the median), and *the paper's, of all rows*."
        if summary.quick
        else f"In each place: our mean ± standard deviation over seeds, *the paper's*, and the difference in units of "
        f"the paper's standard deviation (in points, pt, where that is printed as 0.00); times: the median, *the "
        f"paper's mean*, and the ratio. A mean *agrees* if it is within {SIGMAS:g} of the paper's standard deviations "
        f"or within {POINTS:g} point. {text.DRAWN}"
    )
    return [
        *([f"**{text.quick_look(summary)}**", ""] if summary.quick else []),
        *text.made_by(summary),
        "",
        f"{places} {text.BOLD}. U-SPEC and U-SENC are the paper to the letter (`regularization=0`), *(lib)* has the "
        f"library's defaults. {text.limits_text(summary)}",
        "",
        text.RECONSTRUCTED,
        *([] if summary.quick else ["", *verdicts(summary)]),
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
        for name, places in averages(summary, table, methods):
            rows.append([name, *(f"{_bold(ours, leads)}<br>*{theirs}*" for ours, theirs, leads in places)])
    return grid(["Data set", *map(text.title, methods)], rows)


def best(entries: Sequence[Entry], table: Table) -> set[str]:
    """Methods with our best figure in a row; the one for reference takes no part, as in the paper."""
    means = {e.method: e.ours.mean for e in entries if e.ours is not None and not _for_reference(e.method, table)}
    return leaders(means, min if table.metric == "seconds" else max)


def _for_reference(method: str, table: Table) -> bool:
    return method.removesuffix(" (lib)") == table.reference


def leaders(values: Mapping[str, float | None], best: Callable[[Iterable[float]], float]) -> set[str]:
    """Those whose value is the best, as it is printed."""
    known = {name: round(value, 2) for name, value in values.items() if value is not None}
    return {name for name, value in known.items() if value == best(known.values())}


def runs_text(entries: Sequence[Entry]) -> str:
    """How many seeds a row's figures have."""
    counts = [entry.ours.runs for entry in entries if entry.ours is not None and entry.ours.mean is not None]
    return f"{span(counts)} run{'s' if max(counts) > 1 else ''}" if counts else "not run"


def _place(entry: Entry, leads: bool) -> str:
    ours = _bold(text.own(entry.ours, entry.metric), leads)
    theirs = f"*{text.theirs(entry.paper, entry.metric)}*" if entry.listed else ""
    return "<br>".join(part for part in (ours, theirs, text.difference(entry)) if part)


def _bold(shown: str, leads: bool) -> str:
    return f"**{shown}**" if leads else shown


def averages(
    summary: Summary, table: Table, methods: Sequence[str]
) -> Iterator[tuple[str, list[tuple[str, str, bool]]]]:
    """The last lines of a comparison: a name, then ours, the paper's and whether ours is the best, for each method."""
    found = {method: summary.averages(table, method) for method in methods if not _for_reference(method, table)}
    sets = max(item.rank_sets for item in found.values())
    where = "" if sets in (0, len(table.datasets)) else f" on {sets} sets"
    for kind, name in (("average", "Avg. score"), ("normalized", "N-Avg. score"), ("rank", f"Avg. rank{where}")):
        ours = {method: getattr(item, kind) for method, item in found.items()}
        theirs = {method: getattr(item, f"paper_{kind}") for method, item in found.items()}
        best = leaders(ours, min if kind == "rank" else max)
        yield name, [(_figure(ours.get(m)), _figure(theirs.get(m)), m in best) for m in methods]


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


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
                figure = drawn.get(setting.label)
                entry = Entry(dataset.title, method, metric, cell, figure, bool(drawn), summary.quick)
                shown = [text.own(cell, metric), text.theirs(entry.paper, metric, entry.listed)]
                places.append(shown if entry.points is None else [*shown, text.difference(entry)])
            yield text.set_name(dataset), text.title(method), span(counts), places


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
