"""The page: takes a model and rows, fills the template. Every text that a user gives is escaped here."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ultraspec import figures
from ultraspec._estimator import fitted
from ultraspec.figures import ClusterMap, Eigengap, Phase, Survey, palette
from ultraspec.report import _run
from ultraspec.report._data import MARKS, script_json
from ultraspec.report._notes import Note, notes
from ultraspec.report._text import cut, memory, percent, seconds, short
from ultraspec.report.document import fill, render_document, render_note, template

MOST_TOUCHING = 12
MOST_KEYS = 16  # beside the map; a longer list of clusters stands below it in columns
MANY_KEYS = 120  # a list that is longer still scrolls


def render(model: Any, X: Any, *, labels: Any, title: str | None, code: str | None) -> str:
    """The whole page."""
    survey = figures.survey(model, X, labels)
    gap = figures.eigengap(model)
    kind = type(model).__name__
    heading = title if title is not None else f"{len(survey.names):,} clusters in {survey.n_rows:,} rows"
    ensemble = survey.agreement is not None
    long, many = len(survey.names) > MOST_KEYS, len(survey.names) > MANY_KEYS
    parts = {
        "notes": note_list(notes(model, survey, gap)),
        "keys": keys(survey),
        "keys_class": " ".join(["keys", *(["long"] if long else []), *(["many"] if many else [])]),
        "keys_hint": f" Scroll to see all {len(survey.names)}." if many else "",
        "map_class": "split below" if long else "split",
        "key_widths": key_widths(survey),
        "touching": touching_rows(survey),
        "views": template("views.html") if ensemble else "",
        "map_text": map_text(survey),
        "graph_text": graph_text(survey, kind),
        "eigen_text": eigen_text(gap),
        "eigen_rows": eigen_rows(gap),
        "ensemble": fill(template("ensemble.html"), {"members": member_rows(survey)}) if ensemble else "",
        "phases": phase_rows(figures.phases(model)),
        "parameters": parameter_rows(model),
        "code": escape(code if code is not None else _run.code_lines(model, X)),
        "versions": ", ".join(f"{escape(name)} {escape(version)}" for name, version in _run.versions()),
        "data": script_json(survey, gap),
    }
    return render_document(
        title=heading,
        lead=lead(model, survey),
        facts=facts(model, survey, gap),
        body=fill(template("page.html"), parts),
        script=template("charts.js") + template("page.js"),
    )


def lead(model: Any, survey: Survey) -> str:
    """The first sentence."""
    how = (
        f"U-SENC, an ensemble of {len(fitted(model).members)} spectral clusterings,"
        if survey.agreement is not None
        else "U-SPEC, spectral clustering through representatives,"
    )
    features = "feature" if survey.n_features == 1 else "features"
    whose = "found these clusters in" if survey.own else "was fitted; shown are labels that were passed in, for"
    return f"{how} {whose} {survey.n_rows:,} rows of {survey.n_features:,} {features}."


def facts(model: Any, survey: Survey, gap: Eigengap) -> list[tuple[str, str, str]]:
    """List the numbers at the top: name, value and remark."""
    sizes, n = survey.tally.sizes, survey.n_rows
    by = "gap" if gap.largest == gap.chosen else "fall of a tree"  # of consensus, which looks at both
    chosen = f"chosen by the largest {by}" if model.n_clusters == "auto" else "as asked"
    found = [
        (
            "Rows",
            short(n),
            f"{survey.n_features:,} {'feature' if survey.n_features == 1 else 'features'}, {model.metric}",
        ),
        ("Clusters", f"{len(survey.names)}", chosen if survey.own else "passed in"),
        ("Largest", percent(sizes.max() / n), f"cluster {cut(survey.names[int(sizes.argmax())])}"),
        ("Smallest", percent(sizes.min() / n), f"cluster {cut(survey.names[int(sizes.argmin())])}"),
    ]
    if gap.chosen <= len(gap.growth):
        found.append(("Eigengap", f"{gap.growth[gap.chosen - 1]:.1f} ×", f"step after {gap.chosen}"))
    levels = survey.tally.levels
    if levels is not None:
        middle = levels.sum(axis=0) @ np.linspace(0, 1, levels.shape[1]) / n
        found.append(("Confidence", f"{middle:.2f}", "mean over rows"))
    profile = figures.phases(model)
    if profile:
        found.append(("Fit", seconds(sum(phase.seconds for phase in profile)), f"{len(profile)} phases"))
    return found


def note_list(found: list[Note]) -> str:
    """The remarks."""
    if not found:
        found = [Note("good", "Nothing unusual: sizes, eigenvalues and scales look sound.")]
    return "".join(render_note(note.kind, note.text) for note in found)


def keys(survey: Survey) -> str:
    """The legend: one button per cluster."""
    sizes, n = survey.tally.sizes, max(survey.n_rows, 1)
    most = max(int(sizes.max()), 1)
    found = []
    for code, (name, size) in enumerate(zip(survey.names, sizes.tolist(), strict=True)):
        color = f"var(--c{code % len(palette.LIGHT)})"
        path = MARKS[palette.MARKERS[code % len(palette.MARKERS)]]
        found.append(
            f"<li><button type=button class=key data-code={code} aria-pressed=false "
            f'aria-label="Cluster {escape(name)}, {size:,} rows: show only this one">'
            f'<svg viewBox="-6 -6 12 12" aria-hidden=true><path d="{path}" style="fill:{color}"/></svg>'
            f'<span class=name>{escape(name)}</span><span class=track><i style="width:{100 * size / most:.2f}%;'
            f'background:{color}"></i></span><span class=rows>{size:,}</span>'
            f"<span class=share>{escape(percent(size / n))}</span></button></li>"
        )
    return "".join(found)


def key_widths(survey: Survey) -> str:
    """Widths of the legend's columns."""
    name = min(max(map(len, survey.names)), 12)
    return f"--name: {name + 0.8:.1f}ch; --rows: {len(f'{int(survey.tally.sizes.max()):,}') + 0.4:.1f}ch"


def map_text(survey: Survey) -> str:
    """What the map shows."""
    drawn = survey.map
    assert drawn is not None
    what = {
        "points": "Every row is a point",
        "raster": "Rows are counted on a grid; colour deepens with the logarithm of their number",
        "histogram": "Rows are counted by value; clusters are stacked",
    }[drawn.kind]
    if survey.n_features <= 2:
        where = "in the data’s own coordinates"
    else:
        whose = "of the graph that the model cuts" if survey.agreement is None else "of the first member’s graph"
        where = (
            f"on a drawing {whose}: representatives that share rows attract each other, all "
            "others repel, and a row lies among the representatives it is tied to. Groups and what lies between them "
            "can be trusted; the axes, and distances between far groups, mean nothing"
        )
    return f"{what}, {where}. {outside_text(drawn)}".strip()


def outside_text(drawn: ClusterMap) -> str:
    """How many rows are not on the map."""
    n = int(drawn.tally.outside.sum())
    if not n:
        return ""
    return f"{n:,} {'row lies' if n == 1 else 'rows lie'} far out, beyond the frame."


def graph_text(survey: Survey, kind: str) -> str:
    """What the graph shows."""
    graph = survey.graph
    assert graph is not None
    all_of_them, drawn = len(graph.codes), len(survey.nodes)
    whose = "the ensemble’s first member" if kind == "USENC" else "the model"
    which = f"{drawn:,} of the {all_of_them:,}" if drawn < all_of_them else f"The {all_of_them:,}"
    where = (
        "Its height is the number of rows it stands for."
        if survey.n_features == 1
        else "They lie where they do on the map; larger ones stand for more rows."
    )
    return (
        f"{which} representatives of {whose}, each in the colour of the cluster that most of its rows are in. {where} "
        "Lines join those that share most rows; dark lines cross from one cluster to another, so they show where "
        "clusters touch."
    )


def touching_rows(survey: Survey) -> str:
    """The clusters that share most."""
    graph = survey.graph
    assert graph is not None
    pairs = graph.touching(len(survey.names))[:MOST_TOUCHING]
    if not pairs:
        return "<p class=hint>No representatives of different clusters share rows.</p>"
    names = [escape(cut(name)) for name in survey.names]
    rows = "".join(
        f"<tr><td>{names[a]} and {names[b]}</td><td>{escape(percent(share))}</td></tr>" for a, b, share in pairs
    )
    return (
        "<table class=numbers><thead><tr><th scope=col>Clusters that touch</th><th scope=col>shared</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><p class=hint>What two clusters share, of all the ties of the one that has "
        "fewer. Much shared: they might as well be one cluster.</p>"
    )


def eigen_text(gap: Eigengap) -> str:
    """How to read the eigenvalues."""
    k = gap.chosen
    if k > len(gap.growth):
        return f"The model keeps too few eigenvalues to show the gap after {k}."
    step = f"After {k} they step up {gap.growth[k - 1]:.1f} times."
    other = "" if gap.largest == k else f" Their largest step is after {gap.largest}."
    return (
        "How far each eigenvalue is from one. Clusters that are well apart show as a step: as many points below it as "
        f"there are clusters. {step}{other}"
    )


def eigen_rows(gap: Eigengap) -> str:
    """The eigenvalues as a table."""
    steps = [f"{growth:.2f} ×" for growth in gap.growth.tolist()] + [""]
    return "".join(
        f"<tr><td>{i + 1}</td><td>{away:.3g}</td><td>{steps[i]}</td></tr>"
        for i, away in enumerate(gap.leading.tolist())
    )


def member_rows(survey: Survey) -> str:
    """The members as a table."""
    found = survey.agreement
    assert found is not None
    return "".join(
        f"<tr><td>{i + 1}</td><td>{k}</td><td>{nmi:.2f}</td><td>{escape(percent(backed))}</td></tr>"
        for i, (k, nmi, backed) in enumerate(zip(found.n_clusters, found.consensus, found.backed, strict=True))
    )


def phase_rows(found: list[Phase]) -> str:
    """Time and memory as bars."""
    if not found:
        return "<p class=none>This model does not tell what its fit took (it has no <code>fit_profile_</code>).</p>"
    longest = max(max(phase.seconds for phase in found), 1e-9)
    known = any(phase.resident is not None for phase in found)
    rows = "".join(
        f'<tr><th scope=row>{escape(phase.name)}</th><td class=wide><span class=track><i style="width:'
        f'{100 * phase.seconds / longest:.2f}%"></i></span></td><td>{seconds(phase.seconds)}</td>'
        + (f"<td>{memory(phase.resident)}</td>" if known else "")
        + "</tr>"
        for phase in found
    )
    head = "<th scope=col>Phase</th><td></td><th scope=col>Time</th>" + ("<th scope=col>Memory</th>" if known else "")
    what = (
        "<p class=hint>Memory is what the process held at the end of the phase, its data included.</p>" if known else ""
    )
    return f"<table class=bars><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{what}"


def parameter_rows(model: Any) -> str:
    """All parameters, those that were set standing out."""
    return "".join(
        f"<div{' class=set' if changed else ''}><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value, changed in _run.parameters(model)
    )
