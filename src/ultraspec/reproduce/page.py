"""The results as one HTML page: the verdict first, then the paper's tables and curves with ours beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from html import escape

from ultraspec.report.document import as_html, render_document, render_note, render_template, template
from ultraspec.reproduce.charts import COLORS, OTHER_COLOR, Point, Series, draw_bars, draw_lines
from ultraspec.reproduce.declarations import LIBRARY_METHODS, OUR_METHODS, PAPER_METHODS, Dataset, Table
from ultraspec.reproduce.formatting import (
    CURVE_RULE,
    DAGGER,
    METRIC_NAMES,
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
    format_signed,
    format_span,
    generated_note,
    limits_note,
    method_title,
    provenance,
    quick_look_note,
    reason_rows,
    score_rows,
)
from ultraspec.reproduce.paper_results import METRICS
from ultraspec.reproduce.summary import POINTS, SIGMAS, Entry, Summary

PACKAGE = "ultraspec.reproduce"
CPU = "ours is CPU time, the paper’s is wall-clock time"
YES, MOSTLY = 0.95, 0.8  # shares of our scores that are not lower than the paper's, for these answers
MARKS = {"higher": "▲", "lower": "▼"}
SIGNS = {"ours_only": "+", "paper_only": "N/A", "neither": "N/A", "not_run": "·", "not_compared": "own"}


def render(summary: Summary, tables: Sequence[Table]) -> str:
    """Render the page."""
    entries = summary.score_entries()
    parts = {
        "verdict": "" if summary.quick else verdict(summary, entries),
        "tables": "".join(card(summary, table) for table in tables),
        "scores": all_scores(summary),
        "reasons": reasons(summary),
        "about": about(summary),
    }
    return render_document(
        title="A quick look at the paper’s experiments" if summary.quick else "Does it reproduce the paper?",
        lead=lead(summary, entries),
        facts=quick_facts(summary) if summary.quick else facts(summary, entries),
        body=render_template("page.html", PACKAGE, **{name: as_html(part) for name, part in parts.items()}),
        brand="ultraspec reproduce",
        style=template("page.css", PACKAGE),
        script=template("page.js", PACKAGE),
    )


def verdict(summary: Summary, entries: Sequence[Entry]) -> str:
    """Render what agrees with the paper and what does not."""
    rule = (
        f"A mean agrees within {SIGMAS:g} standard deviations, or within {POINTS:g} percentage point. {CURVE_RULE} "
        f"{generated_note(summary)}"
    )
    return render_template(
        "verdict.html", PACKAGE, glance=as_html(glance(summary)), rule=rule, notes=as_html(notes(summary, entries))
    )


def compared(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with both results."""
    return [entry for entry in entries if entry.points is not None]


def count(entries: Iterable[Entry], verdict: str) -> int:
    """Count the entries with a verdict."""
    return sum(entry.verdict == verdict for entry in entries)


def lead(summary: Summary, entries: Sequence[Entry]) -> str:
    """Answer the question of the title in a few sentences."""
    if summary.quick:
        return quick_look_note(summary)
    both = compared(entries)
    if not both:
        return "Nothing was run yet that can be compared with the paper."
    ours = [entry for entry in both if entry.method in PAPER_METHODS]
    library = [entry for entry in both if entry.method in LIBRARY_METHODS]
    others = [entry for entry in both if entry.method not in OUR_METHODS]
    sentences = []
    if ours:
        not_lower = 1 - count(ours, "lower") / len(ours)
        sentences.append("Yes." if not_lower >= YES else "Mostly." if not_lower >= MOSTLY else "Only in part.")
    for what, some in (
        ("U-SPEC and U-SENC", ours),
        ("both with regularization=1e-3", library),
        ("the methods they are compared with", others),
        ("the curves and bars of Tables 10 to 16", compared(summary.curve_entries())),
    ):
        if some:
            agree, higher, lower = (count(some, verdict) for verdict in ("agrees", "higher", "lower"))
            sentences.append(
                f"Of {len(some):,} scores of {what}, {agree:,} agree with the paper ({higher} higher, {lower} lower)."
            )
    return " ".join(sentences)


def quick_facts(summary: Summary) -> list[tuple[str, str, str]]:
    """List the numbers at the top of a quick look."""
    n_datasets, n_methods = (len({record[field] for record in summary.records}) for field in ("dataset", "method"))
    return [
        ("Runs", f"{len(summary.records):,}", f"at a scale of {summary.scale}"),
        ("Data sets", f"{n_datasets}", ""),
        ("Methods", f"{n_methods}", ""),
    ]


def facts(summary: Summary, entries: Sequence[Entry]) -> list[tuple[str, str, str]]:
    """List the numbers at the top."""
    both = compared(entries)
    agree = count(both, "agrees")
    items = [
        ("Scores compared", f"{len(both)}", f"{len(summary.records):,} runs"),
        ("Agree", f"{100 * agree / len(both):.0f} %" if both else "–", f"{agree} scores"),
        ("Higher", f"{count(both, 'higher')}", "than the paper"),
        ("Lower", f"{count(both, 'lower')}", "than the paper"),
        ("Only here", f"{count(entries, 'ours_only')}", "the paper’s ran out of memory"),
    ]
    for method in PAPER_METHODS:
        times = [summary.entry(dataset.title, method, "seconds") for dataset in summary.datasets]
        ratios = [e.paper.mean / e.ours.mean for e in times if e.paper and e.ours and e.ours.mean]
        if ratios:
            what = "faster" if summary.clock == "seconds" else "less, in CPU time"
            items.append((f"{method}, time", f"{statistics.median(ratios):.0f} ×", f"{what} (median)"))
    return items


def glance(summary: Summary) -> str:
    """Render two maps, of NMI and CA, with a line per method and a column per data set."""
    methods = [*OUR_METHODS, *(method.title for method in summary.methods if method.title not in OUR_METHODS)]
    head = "".join(_glance_head(dataset) for dataset in summary.datasets)
    line = f'<tr class=line aria-hidden=true><td colspan="{len(summary.datasets) + 1}"></td></tr>'
    maps = []
    for metric in ("nmi", "ca"):
        rows = []
        for method in methods:
            css = " class=main" if method in OUR_METHODS else ""
            cells = "".join(_glance_cell(summary.entry(dataset.title, method, metric)) for dataset in summary.datasets)
            rows.append(f"<tr{css}><th scope=row>{escape(method_title(method))}</th>{cells}</tr>")
            if method == OUR_METHODS[-1]:
                rows.append(line)
        maps.append(
            f"<div class=wide><table class=glance><caption>{METRIC_NAMES[metric]}</caption><thead><tr><td></td>{head}"
            f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
    return f"<div class=glances>{''.join(maps)}</div>"


def _glance_head(dataset: Dataset) -> str:
    """Render a name that runs upwards; the dagger stays upright above it, as it would look like an arrow otherwise."""
    mark = f"<i>{DAGGER}</i>" if dataset.generated else ""
    return f"<th scope=col>{mark}<span>{escape(dataset.title)}</span></th>"


def _glance_cell(entry: Entry) -> str:
    unit = ""
    if entry.points is None:
        shown = SIGNS[entry.verdict]
    else:
        value, unit = (entry.points, "<small>pt</small>") if entry.in_points else (entry.sigmas or 0.0, "")
        shown = format_signed(value, 1 if abs(value) < 9.95 else 0)
    mark = MARKS.get(entry.verdict, "")
    ours = format_ours(entry.ours, entry.metric)
    paper = format_paper(entry.paper, entry.metric, entry.listed)
    tooltip = f"{method_title(entry.method)} on {entry.dataset}: {ours}; paper {paper}"
    return f'<td class={entry.verdict} title="{escape(tooltip)}">{mark}{escape(shown)}{unit}</td>'


def notes(summary: Summary, entries: Sequence[Entry]) -> str:
    """Render the methods whose scores all agree, and the disagreements of the others, the largest first."""
    titles = {dataset.title: dataset_title(dataset) for dataset in summary.datasets}
    by_method: dict[str, list[Entry]] = {}
    for entry in compared(entries):
        by_method.setdefault(entry.method, []).append(entry)
    items = []
    agreeing = [method_title(method) for method, some in by_method.items() if count(some, "agrees") == len(some)]
    if agreeing:
        items.append(render_note("good", f"All scores agree with the paper: {', '.join(agreeing)}."))
    for verdict, kind, relation in (("lower", "warning", "below"), ("higher", "look", "above")):
        groups = [sorted((e for e in some if e.verdict == verdict), key=_closeness) for some in by_method.values()]
        for some in sorted(filter(None, groups), key=lambda some: _closeness(some[0])):
            places = "; ".join(f"{titles[entry.dataset]} {_describe(entry)}" for entry in some)
            text = f"{method_title(some[0].method)} is {relation} the paper on {places}."
            items.append(render_note(kind, text, MARKS[verdict]))
    return "".join(items) or render_note("look", "Nothing was run yet that can be compared.")


def _closeness(entry: Entry) -> float:
    return -abs(entry.points or 0.0)


def _describe(entry: Entry) -> str:
    """Describe a disagreement with its number of runs: few runs are weak evidence."""
    n = entry.ours.runs if entry.ours is not None else 0
    ours = format_ours(entry.ours, entry.metric)
    paper = format_paper(entry.paper, entry.metric)
    return f"{METRIC_NAMES[entry.metric]} {ours} in {n} run{'s' if n > 1 else ''} (paper {paper})"


def card(summary: Summary, table: Table) -> str:
    """Render one table of the paper."""
    body = comparison(summary, table) if table.metric else curves(summary, table)
    head = f"<h2 id={table.name}>Table {table.number}: {escape(table.title)}</h2>"
    return f"<section class=card aria-labelledby={table.name}>{head}{body}</section>"


def comparison(summary: Summary, table: Table) -> str:
    """Render one of Tables 4 to 9."""
    methods = summary.table_methods(table)
    head = "".join(f"<th scope=col{_column_class(m)}>{escape(method_title(m))}</th>" for m in methods)
    rows = []
    for dataset in summary.table_datasets(table):
        entries = [summary.entry(dataset.title, method, table.metric) for method in methods]
        best = best_methods(entries, table)
        cells = "".join(f"<td{_column_class(e.method)}>{_cell(e, e.method in best)}</td>" for e in entries)
        title = escape(dataset_title(dataset))
        rows.append(f"<tr><th scope=row>{title}<small>{count_runs(entries)}</small></th>{cells}</tr>")
    if table.metric != "seconds":
        for name, averages in average_rows(summary, table):
            cells = "".join(
                f"<td{_column_class(m)}><span{' class=best' * a.is_best}>{a.ours}</span>"
                f"<span class=theirs>{a.paper}</span></td>"
                for m, a in zip(methods, averages, strict=True)
            )
            rows.append(f"<tr class=sum><th scope=row>{name}</th>{cells}</tr>")
    below = "the paper’s on all rows in grey" if summary.quick else "the paper’s in grey, and the difference"
    hint = f"Ours; below it {below}. Bold: our best in the row."
    if table.metric == "seconds" and summary.clock == "cpu_seconds":
        hint += f" Time: {CPU}."
    return (
        f"<div class=wide tabindex=0><table class=paper-table><thead><tr><th scope=col>Data set</th>{head}</tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div><p class=hint>{hint} {method_title(table.reference)} is "
        "listed for reference only and is not considered in bold results, averages and ranks. "
        f"{escape(generated_note(summary))}</p>"
    )


def _column_class(method: str) -> str:
    return " class=ours-column" if method in OUR_METHODS else ""


def _cell(entry: Entry, is_best: bool) -> str:
    reason = entry.ours.reason if entry.ours is not None else None
    tooltip = f' title="{escape(reason)}"' if reason else ""
    parts = [f"<span{' class=best' * is_best}{tooltip}>{escape(format_ours(entry.ours, entry.metric))}</span>"]
    if entry.listed:
        parts.append(f"<span class=theirs>{escape(format_paper(entry.paper, entry.metric))}</span>")
    difference = format_difference(entry)
    if difference:
        css = f" class={entry.verdict}" if entry.metric != "seconds" else ""
        parts.append(f"<span class=apart><b{css}>{escape(difference)}</b></span>")
    return "".join(parts)


def curves(summary: Summary, table: Table) -> str:
    """Render one of Tables 10 to 16, small charts in the paper's order: a line per metric, a column per data set."""
    datasets = summary.table_datasets(table)
    is_sweep = not isinstance(table.settings[0].label, str)
    series = {(d.title, metric): _series(summary, table, d.title, metric) for d in datasets for metric in METRICS}
    # a variant that was run at the default setting only makes no curve
    shown = {s.name: s for some in series.values() for s in some if sum(p.mean is not None for p in s.ours) > 1}
    if not shown:
        return "<p class=none>Not run.</p>"
    labels = [str(setting.label) for setting in table.settings]
    parts = [f"<h3>{escape(dataset_title(dataset))}</h3>" for dataset in datasets]
    for metric in METRICS:
        unit = "s" if metric == "seconds" else "%"
        remark = ", logarithmic" if metric == "seconds" and is_sweep else ""
        if metric == "seconds" and summary.clock == "cpu_seconds":
            remark += f"; {CPU}"
        parts.append(f"<p class=row>{escape(METRIC_TITLES[metric])}{remark}</p>")
        for dataset in datasets:
            some = [s for s in series[dataset.title, metric] if s.name in shown]
            log = metric == "seconds"
            chart = draw_lines(labels, some, unit, log=log) if is_sweep else draw_bars(labels, some, unit)
            label = escape(f"{METRIC_TITLES[metric]} on {dataset.title}; the numbers are below")
            # shown where the headings do not fit side by side
            caption = f"<figcaption aria-hidden=true>{escape(dataset_title(dataset))}</figcaption>"
            parts.append(f'<figure aria-label="{label}">{caption}{chart}</figure>')
    block = "" if is_sweep else " block"
    keys = "".join(
        f'<span><i class="{s.css}{block}"></i>{escape(method_title(s.name))}{_runs(summary, table, s.name)}</span>'
        for s in shown.values()
    )
    whiskers = "" if is_sweep else "Whiskers are standard deviations; the axes of scores do not begin at zero. "
    rows = ", on all rows" if summary.quick else ""
    paper_key = f"<span><i class={'pale' if is_sweep else 'hollow'}></i>the paper’s{rows}</span>"
    return (
        f"<div class=curve-legend>{keys}{paper_key}</div><div class=multiples>{''.join(parts)}</div>"
        f"{numbers(summary, table)}<p class=hint>{whiskers}{escape(generated_note(summary))}</p>"
    )


def numbers(summary: Summary, table: Table) -> str:
    """Render the numbers of the charts."""
    head = "".join(f"<th scope=col>{escape(str(setting.label))}</th>" for setting in table.settings)
    parts = []
    for metric in METRICS:
        rows = "".join(
            f"<tr><th scope=row>{escape(row.dataset)}<small>{escape(row.method)}, {row.runs} runs</small></th>"
            + "".join(f"<td>{_curve_cell(cell)}</td>" for cell in row.cells)
            + "</tr>"
            for row in curve_rows(summary, table, metric)
        )
        parts.append(
            f"<table class=paper-table><thead><tr><th scope=col>{escape(METRIC_TITLES[metric])}</th>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )
    return f"<details><summary>Numbers</summary><div class=wide tabindex=0>{''.join(parts)}</div></details>"


def _curve_cell(cell: Sequence[str]) -> str:
    classes = ("", " class=theirs", " class=apart")
    return "".join(f"<span{css}>{escape(part)}</span>" for css, part in zip(classes, cell, strict=False))


def _series(summary: Summary, table: Table, dataset: str, metric: str) -> list[Series]:
    series = []
    for method in table.methods:
        in_paper = summary.paper_method(method)
        entries = summary.curve(table, dataset, method, metric)
        ours = [_our_point(entry) for entry in entries]
        paper = [Point(None) if entry.paper is None else Point(*entry.paper) for entry in entries]
        color = COLORS.get(in_paper, OTHER_COLOR)
        series.append(Series(method, color, ours, paper, library=in_paper != method))
    return series


def _our_point(entry: Entry) -> Point:
    if entry.ours is None or entry.ours.mean is None:
        return Point(None)
    return Point(entry.ours.mean, None if entry.metric == "seconds" else entry.ours.std)


def _runs(summary: Summary, table: Table, method: str) -> str:
    """Return how many seeds the points of a curve have."""
    results = [
        entry.ours
        for dataset in summary.table_datasets(table)
        for entry in summary.curve(table, dataset.title, method, "nmi")
    ]
    counts = [result.runs for result in results if result is not None]
    return f" ({format_span(counts)} runs)" if counts else ""


def all_scores(summary: Summary) -> str:
    """Render all scores of all methods at the parameters of Tables 4 to 9."""
    rows = score_rows(summary)
    if not rows:
        return "<p class=none>Not run.</p>"
    head = "".join(f"<th scope=col>{name}</th>" for name in ("Data set", "Method", "Runs", *SCORES.values()))
    body = "".join("<tr>" + "".join(f"<td>{escape(part)}</td>" for part in row) + "</tr>" for row in rows)
    table = f'<table class="numbers left"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"<p class=hint>{escape(SCORES_NOTE)}</p><div class=wide tabindex=0>{table}</div>"


def reasons(summary: Summary) -> str:
    """Render why runs have no results."""
    rows = reason_rows(summary)
    if not rows:
        return "<p class=none>All runs have results.</p>"
    head = "".join(f"<th scope=col>{name}</th>" for name in ("Data set", "Method", "Parameters", "Reason"))
    body = "".join("<tr>" + "".join(f"<td>{escape(part)}</td>" for part in row) + "</tr>" for row in rows)
    return f'<table class="numbers left"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def about(summary: Summary) -> str:
    """Render the machine, the versions and the rules."""
    sentences = [
        *provenance(summary),
        limits_note(summary).replace("*", ""),
        "Means and standard deviations are over seeds; times are medians, of the fit alone, in a process that has "
        "loaded its code. The ensemble methods share their base clusterings for a seed; the time of these counts for "
        "each method.",
        "U-SPEC and U-SENC have the paper's settings (regularization=0); (lib) marks the same methods with "
        "regularization=1e-3. In ranks, these take the place of the former, and methods of your own are added.",
        "The paper's curves were read from its drawings. Paper: D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai, C.-K. Kwoh, "
        "Ultra-Scalable Spectral Clustering and Ensemble Clustering, IEEE TKDE 32 (6), 2020.",
    ]
    return "<div class=about>" + "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences) + "</div>"
