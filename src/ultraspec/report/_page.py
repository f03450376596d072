"""The page: fills in the templates, which escape every text that comes from a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ultraspec._estimator import fitted
from ultraspec.figures import Eigengap, FigureData, eigengap, phases
from ultraspec.figures.explore import MOST_POINTS, Exploration, explore
from ultraspec.persistence.cuts import model_key
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
from ultraspec.report._script_data import script_data, script_json
from ultraspec.report.document import as_html, render_document, render_note, render_template, template

SCRIPTS = ("core.js", "charts.js", "map.js", "list.js", "graph.js", "tree.js", "panels.js", "page.js")
CONTENTS = (
    ("notes", "What stands out"),
    ("map-card", "Map"),
    ("choose", "Tree"),
    ("features", "What makes each cluster"),
    ("rows-card", "Examples"),
    ("trust", "Is it real?"),
    ("compare", "Compare"),
    ("eigen-card", "Eigenvalues"),
    ("graph-card", "Graph"),
    ("repeat", "Repeat"),
)
TREE_NAMES = {
    "agreement": "agreement of rough clusterings",
    "linked": "agreement and edges",
    "border": "agreement and borders",
}


def render(
    model: Any,
    X: Any,
    *,
    labels: Any = None,
    title: str | None = None,
    code: str | None = None,
    compare: Mapping[str, Any] | None = None,
    describe: Any = None,
    points: int = MOST_POINTS,
) -> str:
    """Render the page."""
    found = explore(model, X, labels, compare=compare, describe=describe, most_points=points)
    figures = found.figures
    gap = eigengap(model)
    n_clusters = len(figures.cluster_names)
    data = script_data(found, gap, model, model_key(model))
    data["titled"] = title is not None
    ks = data["cuts"]["ks"]
    notes = diagnose(model, figures, gap, judged=found.null is not None)
    if not data["structure"]:  # the page says so: good news about sizes would contradict it
        notes = [note for note in notes if note.kind != "good"]
    body = render_template(
        "page.html",
        contents=CONTENTS,
        notes=as_html("".join(render_note(note.kind, note.text) for note in notes)),
        explanation=model.explain() if labels is None else "",
        n_clusters=n_clusters,
        least=ks[0],
        most=ks[-1],
        start=ks[data["cuts"]["own"]],
        suggested=_marks(data["suggested"], ks),
        reason=found.reason,
        has_tree=data["tree"] is not None,
        tree_name=TREE_NAMES.get(found.table.tree.name, "") if found.table is not None else "",
        has_null=data["null"] is not None,
        map_text=map_text(found),
        features_text=features_text(found),
        trust_text=trust_text(found),
        compare_text="" if len(found.drawn) == figures.n_rows else f" From a sample of {len(found.drawn):,} rows.",
        eigen_text=eigen_text(gap),
        eigen_rows=eigen_rows(gap),
        graph_text=graph_text(figures),
        members=member_rows(figures),
        **phase_parts(model),
        parameters=_provenance.parameters(model),
        code=code if code is not None else _provenance.code_lines(model, X),
        versions=_provenance.versions(),
        data=as_html(script_json(data)),
    )
    return render_document(
        title=title if title is not None else f"{n_clusters:,} clusters in {figures.n_rows:,} rows",
        lead=lead(model, figures),
        facts=facts(model, figures, gap),
        body=body,
        script="".join(map(template, SCRIPTS)),
    )


def _marks(suggested: list[dict[str, Any]], ks: list[int]) -> list[dict[str, Any]]:
    """Return the numbers of clusters that stand out, in ascending order; `suggested` has the best first."""
    marks = [{**each, "at": _share(each["k"], ks), "best": each is suggested[0]} for each in suggested]
    return sorted(marks, key=lambda mark: int(mark["k"]))


def _share(k: int, ks: list[int]) -> float:
    """Return where a number of clusters lies on the slider, from 0 to 1."""
    return round((k - ks[0]) / max(ks[-1] - ks[0], 1), 4)


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
    elif model.n_clusters == "auto":
        knows_layers = getattr(model, "layers_", None) is not None
        chosen = "where halves of the rows agree" if knows_layers else "chosen by the largest eigengap"

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
        listed.append(("Confidence", f"{mean:.2f}", "mean over rows, as fitted"))
    profile = phases(model)
    if profile:
        total = sum(phase.seconds for phase in profile)
        listed.append(("Fit", format_seconds(total), format_count(len(profile), "phase")))
    return listed


def map_text(found: Exploration) -> str:
    """Return the caption of the map."""
    figures = found.figures
    assert figures.map is not None
    is_sample = len(found.drawn) < figures.n_rows
    if figures.n_features == 1:
        text = "Each point is a row, stacked as a histogram."
        if is_sample:
            text = f"A sample of {len(found.drawn):,} rows, stacked as a histogram."
    elif is_sample:
        text = (
            "Rows are counted on a grid, which becomes finer as you zoom in. Darker cells have more rows, on a "
            f"logarithmic scale. Colours other than clusters, and the lasso, use a sample of {len(found.drawn):,} rows."
        )
    else:
        text = "Every row is a point."
    text += (
        " Zoom with the buttons, with two fingers, or with the wheel after a click on the map. Drag to move. Draw a "
        "lasso (or hold Shift) to select rows. Arrow keys, plus, minus and Enter do the same."
    )
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


def features_text(found: Exploration) -> str:
    """Say which features are shown if not all are."""
    profile = found.profile
    if not profile.n_left_out:
        return ""
    return (
        f"Of {profile.n_features + profile.n_left_out:,} features, the {profile.n_features} that differ most are shown."
    )


def trust_text(found: Exploration) -> str:
    """Say how stability is measured, or why it is not known."""
    if found.null is None:
        return (
            "The stability of these clusters is not known: no independent graphs judge them (discretize='auto' does)."
        )
    return (
        "Stability is the part of a cluster that graphs built from other rows and other representatives find again: "
        "the mean Jaccard index with the most similar cluster. A cluster counts as real from 0.85 on, if it is clearly "
        "more stable than parts of data without clusters, and neither a part nor a union of clusters that stand out "
        "more. If the number of clusters that stands out most has the same cluster, the higher stability counts."
    )


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


def eigen_rows(gap: Eigengap) -> list[tuple[int, str, str]]:
    """List number, 1 - eigenvalue and the factor to the next."""
    ratios = [f"{ratio:.2f} ×" for ratio in gap.ratios.tolist()] + [""]
    return [(i + 1, f"{distance:.3g}", ratios[i]) for i, distance in enumerate(gap.leading.tolist())]


def member_rows(figures: FigureData) -> list[tuple[str, ...]]:
    """List number, clusters, NMI with the consensus and support of each member of an ensemble."""
    agreement = figures.agreement
    if agreement is None:
        return []
    members = zip(agreement.n_clusters, agreement.consensus, agreement.support, strict=True)
    return [(f"{i + 1}", f"{k}", f"{nmi:.2f}", format_share(support)) for i, (k, nmi, support) in enumerate(members)]


def phase_parts(model: Any) -> dict[str, Any]:
    """Return time and memory of the phases, for the template."""
    profile = phases(model)
    longest = max([*(phase.seconds for phase in profile), 1e-9])
    return {
        "phases": [
            {
                "name": phase.name,
                "width": f"{100 * phase.seconds / longest:.2f}",
                "time": format_seconds(phase.seconds),
                "memory": format_memory(phase.resident_bytes),
            }
            for phase in profile
        ],
        "has_memory": any(phase.resident_bytes is not None for phase in profile),
    }
