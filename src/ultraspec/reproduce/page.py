"""The results as one HTML page: the verdict first, then the paper's tables and curves with ours beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from ultraspec import __version__
from ultraspec.report._page import colors, fill, template
from ultraspec.reproduce import markdown, paper, text
from ultraspec.reproduce.charts import COLORS, Point, Series, bars, lines
from ultraspec.reproduce.declarations import Dataset, Table
from ultraspec.reproduce.summary import POINTS, SIGMAS, Cell, Entry, Summary

LETTER, LIBRARY = ("U-SPEC", "U-SENC"), ("U-SPEC (lib)", "U-SENC (lib)")
MAIN = (*LETTER, *LIBRARY)
CPU = "ours is CPU time, the paper’s that of the clock"
ENOUGH, MOST = 0.95, 0.8  # shares of our scores no lower than the paper's, for a yes and a mostly
MARKS = {"higher": "▲", "lower": "▼"}


def render(summary: Summary, tables: Sequence[Table]) -> str:
    """The whole page."""
    entries = summary.score_entries()
    base = fill(template("style.css"), {"light": colors("light"), "dark": colors("dark")})
    parts = {
        "title": "A quick look at the paper’s experiments" if summary.quick else "Does it reproduce the paper?",
        "version": __version__,
        "style": base + _file("page.css"),
        "script": _file("page.js"),
        "lead": lead(summary, entries),
        "facts": facts(summary, entries),
        "verdict": "" if summary.quick else verdict(summary, entries),
        "tables": "".join(card(summary, table) for table in tables),
        "reasons": reasons(summary),
        "about": about(summary),
    }
    return fill(_file("page.html"), parts)


def _file(name: str) -> str:
    return resources.files("ultraspec.reproduce").joinpath(name).read_text(encoding="utf-8")


def verdict(summary: Summary, entries: Sequence[Entry]) -> str:
    """What agrees with the paper and what does not."""
    rule = f"A mean agrees within {SIGMAS:g} deviations, or within {POINTS:g} point. {text.DRAWN} {text.RECONSTRUCTED}"
    parts = {"glance": glance(summary), "rule": escape(rule), "notes": notes(summary, entries)}
    return fill(_file("verdict.html"), parts)


def compared(entries: Iterable[Entry]) -> list[Entry]:
    """Those that have both figures."""
    return [entry for entry in entries if entry.points is not None]


def share(entries: Sequence[Entry], verdict: str) -> int:
    """How many are of a verdict."""
    return sum(entry.verdict == verdict for entry in entries)


def lead(summary: Summary, entries: Sequence[Entry]) -> str:
    """The answer in two sentences."""
    if summary.quick:
        return escape(text.quick_look(summary))
    both = compared(entries)
    if not both:
        return "Nothing was run yet that can be compared with the paper."
    ours = [entry for entry in both if entry.method in LETTER]
    library = [entry for entry in both if entry.method in LIBRARY]
    others = [entry for entry in both if entry.method not in MAIN]
    sentences = []
    if ours:
        kept = 1 - share(ours, "lower") / len(ours)
        sentences.append("Yes." if kept >= ENOUGH else "Mostly." if kept >= MOST else "Not in all.")
    for what, some in (
        ("U-SPEC and U-SENC", ours),
        ("these with the library's defaults", library),
        ("the methods they are compared with", others),
        ("the curves and bars of Tables 10 to 16", compared(summary.curve_entries())),
    ):
        if some:
            agree, lower = share(some, "agrees"), share(some, "lower")
            better = len(some) - agree - lower
            counts = f"{agree} agree with the paper ({better} higher, {lower} lower)"
            sentences.append(f"Of {len(some)} scores of {what}, {counts}.")
    return escape(" ".join(sentences))


def facts(summary: Summary, entries: Sequence[Entry]) -> str:
    """The numbers at the top."""
    if summary.quick:
        kinds = (("Data sets", "dataset"), ("Methods", "method"))
        counts = [(name, f"{len({row[field] for row in summary.rows})}", "") for name, field in kinds]
        return _facts([("Runs", f"{len(summary.rows):,}", f"at a scale of {summary.scale}"), *counts])
    both = compared(entries)
    times = [e for e in _times(summary) if e.points is not None]
    found = [
        ("Scores compared", f"{len(both)}", f"{len(summary.rows):,} runs"),
        ("Agree", _percent(share(both, "agrees"), len(both)), f"{share(both, 'agrees')} scores"),
        ("Higher", f"{share(both, 'higher')}", "than the paper"),
        ("Lower", f"{share(both, 'lower')}", "than the paper"),
        ("Beyond", f"{share(entries, 'ran')}", "the paper’s ran out of memory"),
    ]
    for method in LETTER:
        ratios = [
            e.paper.mean / e.ours.mean for e in times if e.method == method and e.paper and e.ours and e.ours.mean
        ]
        if ratios:
            what = "faster" if summary.clock == "seconds" else "less, in CPU time"
            found.append((f"{method}, time", f"{statistics.median(ratios):.0f} ×", f"{what} (median)"))
    return _facts(found)


def _facts(found: Iterable[tuple[str, str, str]]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd class=sub>{escape(more)}</dd></div>"
        for name, value, more in found
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _times(summary: Summary) -> list[Entry]:
    return [
        summary.entry(dataset.title, method.title, "seconds")
        for method in summary.methods
        for dataset in summary.datasets
    ]


def glance(summary: Summary) -> str:
    """Two maps, of NMI and CA: a line per method, a column per data set."""
    methods = [*MAIN, *(method.title for method in summary.methods if method.title not in MAIN)]
    found = []
    for metric in ("nmi", "ca"):
        head = "".join(_glance_head(dataset) for dataset in summary.datasets)
        rows = []
        for method in methods:
            entries = [summary.entry(dataset.title, method, metric) for dataset in summary.datasets]
            look = " class=main" if method in MAIN else ""
            cells = "".join(_glance_cell(entry) for entry in entries)
            rows.append(f"<tr{look}><th scope=row>{escape(text.title(method))}</th>{cells}</tr>")
            if method == MAIN[-1]:
                rows.append(f'<tr class=line aria-hidden=true><td colspan="{len(entries) + 1}"></td></tr>')
        found.append(
            f"<div class=wide><table class=glance><caption>{text.SHORT[metric]}</caption><thead><tr><td></td>{head}"
            f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
    return f"<div class=glances>{''.join(found)}</div>"


def _glance_head(dataset: Dataset) -> str:
    """The name runs upwards; the dagger stands upright on top of it, as it would pass for an arrow lying down."""
    mark = f"<i>{text.DAGGER}</i>" if dataset.reconstructed else ""
    return f"<th scope=col>{mark}<span>{escape(dataset.title)}</span></th>"


def _glance_cell(entry: Entry) -> str:
    unit = ""
    if entry.points is None:
        shown = {"ran": "+", "failed": "N/A", "neither": "N/A", "missing": "·", "own": "own"}[entry.verdict]
    else:
        value, unit = (entry.points, "<small>pt</small>") if entry.in_points else (entry.sigmas or 0.0, "")
        shown = text.signed(value, 1 if abs(value) < 9.95 else 0)
    mark = MARKS.get(entry.verdict, "")
    ours, theirs = text.own(entry.ours, entry.metric), text.theirs(entry.paper, entry.metric, entry.listed)
    tip = f"{text.title(entry.method)} on {entry.dataset}: {ours}; paper {theirs}"
    return f'<td class={entry.verdict} title="{escape(tip)}">{mark}{escape(shown)}{unit}</td>'


def notes(summary: Summary, entries: Sequence[Entry]) -> str:
    """The largest disagreements in words, one per method, and where all is well."""
    both, marked = compared(entries), {dataset.title: text.set_name(dataset) for dataset in summary.datasets}
    found = []
    for verdict, kind, sign, what in (("lower", "warning", "▼", "below"), ("higher", "look", "▲", "above")):
        groups: dict[str, list[Entry]] = {}
        for entry in both:
            if entry.verdict == verdict:
                groups.setdefault(entry.method, []).append(entry)
        for method, some in sorted(groups.items(), key=lambda item: -max(abs(e.points or 0) for e in item[1])):
            farthest = sorted(some, key=lambda e: -abs(e.points or 0))
            places = "; ".join(f"{marked[entry.dataset]} {_stands_out(entry)}" for entry in farthest)
            words = f"{text.title(method)} is {what} the paper on {places}."
            found.append((kind, sign, words))
    calm = [
        m for m in dict.fromkeys(e.method for e in both) if all(e.verdict == "agrees" for e in both if e.method == m)
    ]
    if calm:
        names = ", ".join(map(text.title, calm))
        found.insert(0, ("good", "✓", f"All scores agree with the paper: {names}."))
    if not found:
        found = [("look", "→", "Nothing was run yet that can be compared.")]
    return "".join(
        f'<li class="{kind}"><span class=sign aria-hidden=true>{sign}</span><p>{escape(words)}</p></li>'
        for kind, sign, words in found
    )


def _stands_out(entry: Entry) -> str:
    """A disagreement: of few runs, it says little yet."""
    n = entry.ours.runs if entry.ours is not None else 0
    ours, theirs = text.own(entry.ours, entry.metric), text.theirs(entry.paper, entry.metric)
    return f"{text.SHORT[entry.metric]} {ours} in {n} run{'s' if n > 1 else ''} (paper {theirs})"


def card(summary: Summary, table: Table) -> str:
    """One table of the paper."""
    body = comparison(summary, table) if table.metric else curves(summary, table)
    head = f"<h2 id={table.name}>Table {table.number}: {escape(table.title)}</h2>"
    return f"<section class=card aria-labelledby={table.name}>{head}{body}</section>"


def comparison(summary: Summary, table: Table) -> str:
    """One of Tables 4 to 9."""
    methods = summary.table_methods(table)
    head = "".join(f"<th scope=col{_look(m)}>{escape(text.title(m))}</th>" for m in methods)
    rows = []
    for dataset in summary.table_datasets(table):
        entries = [summary.entry(dataset.title, method, table.metric) for method in methods]
        best = markdown.best(entries, table)
        cells = "".join(f"<td{_look(e.method)}>{_place(e, e.method in best)}</td>" for e in entries)
        runs = markdown.runs_text(entries)
        rows.append(f"<tr><th scope=row>{escape(text.set_name(dataset))}<small>{runs}</small></th>{cells}</tr>")
    if table.metric != "seconds":
        for name, places in markdown.averages(summary, table, methods):
            cells = "".join(
                f"<td{_look(m)}><span{' class=best' * leads}>{ours}</span><span class=theirs>{theirs}</span></td>"
                for m, (ours, theirs, leads) in zip(methods, places, strict=True)
            )
            rows.append(f"<tr class=sum><th scope=row>{name}</th>{cells}</tr>")
    below = "the paper’s of all rows in grey" if summary.quick else "the paper’s in grey, and the difference"
    small = f"Ours; below it {below}. Bold: our best in the row."
    if table.metric == "seconds" and summary.clock == "cpu_seconds":
        small += f" Time: {CPU}."
    return (
        f"<div class=wide tabindex=0><table class=paper-table><thead><tr><th scope=col>Data set</th>{head}</tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div><p class=hint>{small} {text.title(table.reference)} is "
        f"listed for reference and takes no part in bold figures, averages and ranks. {escape(text.RECONSTRUCTED)}</p>"
    )


def _look(method: str) -> str:
    return " class=ours-column" if method in MAIN else ""


def _place(entry: Entry, best: bool) -> str:
    ours = escape(text.own(entry.ours, entry.metric))
    reason = entry.ours.reason if entry.ours is not None else None
    tip = f' title="{escape(reason)}"' if reason else ""
    parts = [f"<span{' class=best' if best else ''}{tip}>{ours}</span>"]
    if entry.listed:
        parts.append(f"<span class=theirs>{escape(text.theirs(entry.paper, entry.metric))}</span>")
    apart = text.difference(entry)
    if apart:
        look = f" class={entry.verdict}" if entry.metric != "seconds" else ""
        parts.append(f"<span class=apart><b{look}>{escape(apart)}</b></span>")
    return "".join(parts)


def curves(summary: Summary, table: Table) -> str:
    """One of Tables 10 to 16, small charts in the paper's order: a line per figure, a column per data set."""
    datasets = summary.table_datasets(table)
    sweep = not isinstance(table.settings[0].label, str)
    series = {(d.title, metric): _series(summary, table, d.title, metric) for d in datasets for metric in paper.METRICS}
    # a variant that was run at the default alone makes no curve
    shown = {s.name: s for some in series.values() for s in some if sum(p.mean is not None for p in s.ours) > 1}
    if not shown:
        return "<p class=none>Not run.</p>"
    labels = [str(setting.label) for setting in table.settings]
    parts = [f"<h3>{escape(text.set_name(dataset))}</h3>" for dataset in datasets]
    for metric in paper.METRICS:
        unit = "s" if metric == "seconds" else "%"
        scale = ", logarithmic" if metric == "seconds" and sweep else ""
        if metric == "seconds" and summary.clock == "cpu_seconds":
            scale += f"; {CPU}"
        parts.append(f"<p class=row>{escape(text.NAMES[metric])}{scale}</p>")
        for dataset in datasets:
            some = [s for s in series[dataset.title, metric] if s.name in shown]
            chart = lines(labels, some, unit, log=metric == "seconds") if sweep else bars(labels, some, unit)
            where, name = f"{text.NAMES[metric]} on {dataset.title}", escape(text.set_name(dataset))
            caption = f"<figcaption aria-hidden=true>{name}</figcaption>"  # where the headings do not fit side by side
            parts.append(f'<figure aria-label="{escape(where)}; the numbers are below">{caption}{chart}</figure>')
    block = "" if sweep else " block"
    keys = "".join(
        f'<span><i class="{_color(s)}{block}"></i>{escape(text.title(s.name))}{_runs(summary, table, s.name)}</span>'
        for s in shown.values()
    )
    cut = "" if sweep else "Whiskers are standard deviations; the axes of scores do not begin at zero. "
    rows = ", of all rows" if summary.quick else ""
    pale = f"<span><i class={'pale' if sweep else 'hollow'}></i>the paper’s{rows}</span>"
    return (
        f"<div class=curve-legend>{keys}{pale}</div><div class=multiples>{''.join(parts)}</div>"
        f"{numbers(summary, table)}<p class=hint>{cut}{escape(text.RECONSTRUCTED)}</p>"
    )


def numbers(summary: Summary, table: Table) -> str:
    """The figures of the charts, for those who want them."""
    parts = []
    for metric in paper.METRICS:
        head = "".join(f"<th scope=col>{escape(str(setting.label))}</th>" for setting in table.settings)
        rows = "".join(
            f"<tr><th scope=row>{escape(dataset)}<small>{escape(method)}, {runs} runs</small></th>"
            + "".join(f"<td>{_numbers_place(place)}</td>" for place in places)
            + "</tr>"
            for dataset, method, runs, places in markdown.curve_rows(summary, table, metric)
        )
        parts.append(
            f"<table class=paper-table><thead><tr><th scope=col>{escape(text.NAMES[metric])}</th>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )
    return f"<details><summary>Numbers</summary><div class=wide tabindex=0>{''.join(parts)}</div></details>"


def _numbers_place(place: Sequence[str]) -> str:
    looks = ("", " class=theirs", " class=apart")
    return "".join(f"<span{look}>{escape(part)}</span>" for look, part in zip(looks, place, strict=False))


def _color(series: Series) -> str:
    return f"k{series.color} lib" if series.dotted else f"k{series.color}"


def _series(summary: Summary, table: Table, dataset: str, metric: str) -> list[Series]:
    found = []
    for method in table.methods:
        twin = summary.twin(method)
        drawn = paper.drawn(table.name, dataset, metric, twin)
        ours = [_point(summary.cell(dataset, method, metric, setting), metric) for setting in table.settings]
        theirs = [Point(*drawn[s.label]) if s.label in drawn else Point(None) for s in table.settings]
        found.append(Series(method, COLORS.get(twin, 7), ours, theirs, dotted=twin != method))
    return found


def _point(cell: Cell | None, metric: str) -> Point:
    if cell is None or cell.mean is None:
        return Point(None)
    return Point(cell.mean, None if metric == "seconds" else cell.std)


def _runs(summary: Summary, table: Table, method: str) -> str:
    """How many seeds the points of a curve have."""
    cells = [
        summary.cell(dataset.title, method, "nmi", setting)
        for dataset in summary.table_datasets(table)
        for setting in table.settings
    ]
    counts = [cell.runs for cell in cells if cell is not None]
    return f" ({markdown.span(counts)} runs)" if counts else ""


def reasons(summary: Summary) -> str:
    """Why runs have no figures."""
    found = markdown.reason_rows(summary)
    if not found:
        return "<p class=none>All runs have figures.</p>"
    rows = "".join("<tr>" + "".join(f"<td>{escape(part)}</td>" for part in row) + "</tr>" for row in found)
    head = "".join(f"<th scope=col>{name}</th>" for name in ("Data set", "Method", "Parameters", "Reason"))
    return f'<table class="numbers left"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def about(summary: Summary) -> str:
    """Machine, versions, rules."""
    sentences = [
        *text.made_by(summary),
        text.limits_text(summary).replace("*", ""),
        "Means and standard deviations are over seeds; times are medians, of the fit alone, in a process that has "
        "loaded its code. The ensemble methods share their base clusterings for a seed: their time counts for each.",
        "U-SPEC and U-SENC are the paper to the letter (regularization=0); (lib) has the library's defaults. "
        "In ranks, the latter take the place of the former, and methods of your own are added to the field.",
        "The paper's curves were read from its drawings. Paper: D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai, C.-K. Kwoh, "
        "Ultra-Scalable Spectral Clustering and Ensemble Clustering, IEEE TKDE 32 (6), 2020.",
    ]
    return "<div class=about>" + "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences) + "</div>"
