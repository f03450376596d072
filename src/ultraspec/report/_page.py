"""The page: fills in the templates. Every text that comes from a user is escaped here."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ultraspec._estimator import fitted
from ultraspec.figures import Eigengap, FigureData, Phase, compute_figures, eigengap, palette, phases
from ultraspec.report import _provenance
from ultraspec.report._diagnostics import diagnose
from ultraspec.report._formatting import (
    format_count,
    format_large,
    format_memory,
    format_seconds,
    format_share,
    shorten,
)
from ultraspec.report._script_data import MARKER_PATHS, script_json
from ultraspec.report.document import fill, render_document, render_note, template

MOST_TOUCHING = 12
MOST_KEYS = 16  # in a legend beside the map; a longer one is below the map, in columns
MANY_KEYS = 120  # a legend that is longer than this scrolls


def render(model: Any, X: Any, *, labels: Any, title: str | None, code: str | None) -> str:
    """Render the page."""
    figures = compute_figures(model, X, labels)
    gap = eigengap(model)
    n_clusters = len(figures.cluster_names)
    is_long = n_clusters > MOST_KEYS
    is_very_long = n_clusters > MANY_KEYS
    is_ensemble = figures.agreement is not None
    parts = {
        "notes": "".join(render_note(note.kind, note.text) for note in diagnose(model, figures, gap)),
        "legend": legend(figures),
        "legend_class": "keys" + " long" * is_long + " many" * is_very_long,
        "legend_hint": f" Scroll to see all {n_clusters}." if is_very_long else "",
        "legend_widths": legend_widths(figures),
        "map_class": "split" + " below" * is_long,
        "map_text": map_text(figures),
        "color_switch": template("color_switch.html") if is_ensemble else "",
        "graph_text": graph_text(figures),
        "touching": touching_table(figures),
        "eigen_text": eigen_text(gap),
        "eigen_rows": eigen_rows(gap),
        "ensemble": fill(template("ensemble.html"), {"members": member_rows(figures)}) if is_ensemble else "",
        "phases": phase_table(phases(model)),
        "parameters": parameter_rows(model),
        "code": escape(code if code is not None else _provenance.code_lines(model, X)),
        "versions": ", ".join(f"{escape(name)} {escape(version)}" for name, version in _provenance.versions()),
        "data": script_json(figures, gap),
    }
    return render_document(
        title=title if title is not None else f"{n_clusters:,} clusters in {figures.n_rows:,} rows",
        lead=lead(model, figures),
        facts=facts(model, figures, gap),
        body=fill(template("page.html"), parts),
        script=template("charts.js") + template("page.js"),
    )


def lead(model: Any, figures: FigureData) -> str:
    """Return the first sentence."""
    method = "U-SPEC, spectral clustering with representatives,"
    if figures.agreement is not None:
        method = f"U-SENC, an ensemble of {len(fitted(model).members)} spectral clusterings,"
    data = f"{figures.n_rows:,} rows of {format_count(figures.n_features, 'feature')}"
    if figures.has_model_labels:
        return f"{method} found these clusters in {data}."
    return f"{method} was fitted. The page shows labels that were passed in, for {data}."


def facts(model: Any, figures: FigureData, gap: Eigengap) -> list[tuple[str, str, str]]:
    """List the numbers at the top: name, value and remark."""
    sizes = figures.counts.sizes
    n = figures.n_rows
    chosen = "as requested"
    if not figures.has_model_labels:
        chosen = "passed in"
    elif model.n_clusters == "auto":  # by the eigengap, or by the agreement tree if that is not clear
        chosen = f"chosen by the largest {'eigengap' if gap.largest == gap.chosen else 'drop in a merge tree'}"

    def size(name: str, code: np.intp) -> tuple[str, str, str]:
        return name, format_share(sizes[code] / n), f"cluster {shorten(figures.cluster_names[code])}"

    listed = [
        ("Rows", format_large(n), f"{format_count(figures.n_features, 'feature')}, {model.metric}"),
        ("Clusters", f"{len(sizes)}", chosen),
        size("Largest", sizes.argmax()),
        size("Smallest", sizes.argmin()),
    ]
    if gap.chosen <= len(gap.ratios):
        listed.append(("Eigengap", f"{gap.ratios[gap.chosen - 1]:.1f} ×", f"after {gap.chosen}"))
    levels = figures.counts.levels
    if levels is not None:
        mean = levels.sum(axis=0) @ np.linspace(0, 1, levels.shape[1]) / n
        listed.append(("Confidence", f"{mean:.2f}", "mean over rows"))
    profile = phases(model)
    if profile:
        total = sum(phase.seconds for phase in profile)
        listed.append(("Fit", format_seconds(total), format_count(len(profile), "phase")))
    return listed


def legend(figures: FigureData) -> str:
    """Render the legend: one button per cluster."""
    sizes = figures.counts.sizes
    most = max(int(sizes.max()), 1)
    items = []
    for code, (name, size) in enumerate(zip(figures.cluster_names, sizes.tolist(), strict=True)):
        color = f"var(--c{code % len(palette.LIGHT)})"
        path = MARKER_PATHS[palette.MARKERS[code % len(palette.MARKERS)]]
        items.append(
            f"<li><button type=button class=key data-code={code} aria-pressed=false "
            f'aria-label="Cluster {escape(name)}, {format_count(size, "row")}: show only this one">'
            f'<svg viewBox="-6 -6 12 12" aria-hidden=true><path d="{path}" style="fill:{color}"/></svg>'
            f'<span class=name>{escape(name)}</span><span class=track><i style="width:{100 * size / most:.2f}%;'
            f'background:{color}"></i></span><span class=rows>{size:,}</span>'
            f"<span class=share>{escape(format_share(size / max(figures.n_rows, 1)))}</span></button></li>"
        )
    return "".join(items)


def legend_widths(figures: FigureData) -> str:
    """Return the widths of the columns of the legend."""
    name = min(max(map(len, figures.cluster_names)), 12)
    size = len(f"{int(figures.counts.sizes.max()):,}")
    return f"--name: {name + 0.8:.1f}ch; --rows: {size + 0.4:.1f}ch"


def map_text(figures: FigureData) -> str:
    """Return the caption of the map."""
    assert figures.map is not None
    what = {
        "points": "Every row is a point",
        "raster": "Rows are counted on a grid. Darker cells have more rows, on a logarithmic scale",
        "histogram": "A histogram of the rows, stacked by cluster",
    }[figures.map.kind]
    text = f"{what}."
    if figures.n_features > 2:
        whose = "the graph of the model" if figures.agreement is None else "the graph of the first member"
        text += (
            f" Positions are a layout of {whose}: representatives that share rows attract each other, all others repel "
            "each other, and a row lies among its nearest representatives. Groups, and the rows between them, are "
            "meaningful. The axes, and distances between distant groups, are not."
        )
    n = int(figures.counts.outside.sum())
    if n:
        text += f" {format_count(n, 'row')} {'lies' if n == 1 else 'lie'} outside the frame."
    return text


def graph_text(figures: FigureData) -> str:
    """Return the caption of the graph."""
    assert figures.graph is not None
    total = len(figures.graph.codes)
    drawn = len(figures.drawn_representatives)
    whose = "the model" if figures.agreement is None else "the first member of the ensemble"
    which = f"{drawn:,} of the {total:,}" if drawn < total else f"The {total:,}"
    where = (
        "The height is the number of rows that a representative stands for."
        if figures.n_features == 1
        else "Positions are those of the map. Larger markers stand for more rows."
    )
    return (
        f"{which} representatives of {whose}, in the colour of the cluster of most of their rows. {where} Lines join "
        "those that share most rows. Dark lines join different clusters, so they show where clusters touch."
    )


def touching_table(figures: FigureData) -> str:
    """Render the pairs of clusters that share most."""
    assert figures.graph is not None
    pairs = figures.graph.touching_clusters(len(figures.cluster_names))[:MOST_TOUCHING]
    if not pairs:
        return "<p class=hint>No representatives of different clusters share rows.</p>"
    names = [escape(shorten(name)) for name in figures.cluster_names]
    rows = "".join(
        f"<tr><td>{names[a]} and {names[b]}</td><td>{escape(format_share(share))}</td></tr>" for a, b, share in pairs
    )
    return (
        "<table class=numbers><thead><tr><th scope=col>Clusters that touch</th><th scope=col>Shared</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><p class=hint>Weight of the edges between two clusters, as a share of all edges "
        "of the one that has less. If it is large, the two may be one cluster.</p>"
    )


def eigen_text(gap: Eigengap) -> str:
    """Return the caption of the eigenvalues."""
    k = gap.chosen
    if k > len(gap.ratios):
        return f"The model stores too few eigenvalues to show the gap after {k}."
    other = "" if gap.largest == k else f" The largest eigengap is after {gap.largest}."
    return (
        "1 − eigenvalue, in ascending order. Clusters that are well separated show as a gap, with as many points below "
        f"it as there are clusters. The gap after {k} is a factor of {gap.ratios[k - 1]:.1f}.{other}"
    )


def eigen_rows(gap: Eigengap) -> str:
    """Render the rows of the table of eigenvalues."""
    ratios = [f"{ratio:.2f} ×" for ratio in gap.ratios.tolist()] + [""]
    return "".join(
        f"<tr><td>{i + 1}</td><td>{distance:.3g}</td><td>{ratios[i]}</td></tr>"
        for i, distance in enumerate(gap.leading.tolist())
    )


def member_rows(figures: FigureData) -> str:
    """Render the rows of the table of members."""
    agreement = figures.agreement
    assert agreement is not None
    members = zip(agreement.n_clusters, agreement.consensus, agreement.support, strict=True)
    return "".join(
        f"<tr><td>{i + 1}</td><td>{k}</td><td>{nmi:.2f}</td><td>{escape(format_share(support))}</td></tr>"
        for i, (k, nmi, support) in enumerate(members)
    )


def phase_table(profile: list[Phase]) -> str:
    """Render time and memory of the phases."""
    if not profile:
        return "<p class=none>This model has no <code>fit_profile_</code>: model files do not store it.</p>"
    longest = max(*(phase.seconds for phase in profile), 1e-9)
    has_memory = any(phase.resident_bytes is not None for phase in profile)
    head = "<th scope=col>Phase</th><td></td><th scope=col>Time</th>"
    rows = [
        f'<th scope=row>{escape(phase.name)}</th><td class=wide><span class=track><i style="width:'
        f'{100 * phase.seconds / longest:.2f}%"></i></span></td><td>{format_seconds(phase.seconds)}</td>'
        for phase in profile
    ]
    hint = ""
    if has_memory:
        head += "<th scope=col>Memory</th>"
        rows = [
            f"{row}<td>{format_memory(phase.resident_bytes)}</td>" for row, phase in zip(rows, profile, strict=True)
        ]
        hint = "<p class=hint>Memory is the largest resident memory of the process in the phase, data included.</p>"
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table class=bars><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{hint}"


def parameter_rows(model: Any) -> str:
    """Render all parameters; those that are not the default stand out."""
    return "".join(
        f"<div{' class=set' if changed else ''}><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value, changed in _provenance.parameters(model)
    )
