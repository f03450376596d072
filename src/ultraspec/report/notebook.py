"""Pages in notebooks: frames that hold a whole page, so that they work offline in Jupyter, VS Code and marimo."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec._estimator import fitted
from ultraspec._kernels import cuts as kernels
from ultraspec.figures import palette
from ultraspec.figures.cuts import MOST_CLUSTERS, TopTree
from ultraspec.figures.frame import Frame
from ultraspec.figures.graph_layout import lay_out
from ultraspec.figures.labeled_rows import Floats, Integers
from ultraspec.figures.representative_graph import affinity
from ultraspec.figures.survey import RECORD
from ultraspec.report._formatting import format_count
from ultraspec.report._script_data import MARKER_PATHS, pack, script_json, to_uint16, tree_data
from ultraspec.report.document import as_html, render_template, render_theme, template
from ultraspec.rows import sample_indices
from ultraspec.spectral.candidates import TREES
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.partition import VotePartition

SAMPLE_ROWS = 20_000  # whose edges give the layout
LAYOUT_NODES = 400
MOST_ROWS = 20_000_000  # counting more takes too long to show a model
SCRIPTS = ("core.js", "charts.js", "map.js", "list.js", "small.js")
SMALL_HEIGHT, PAGE_HEIGHT = 590, 860
MAP_HEIGHT = 330


class PageView:
    """A page in a frame: notebooks show it as the value of a cell.

    Parameters
    ----------
    page : str
        The page.
    height : int
        Height of the frame in pixels.
    """

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def _repr_html_(self) -> str:
        return in_frame(self.page, self.height)

    def __repr__(self) -> str:
        return f"PageView({len(self.page):,} characters; a notebook shows it)"


def in_frame(page: str, height: int) -> str:
    """Return HTML of a frame that holds a page.

    Notebooks do not run the scripts of what they show, or run them among their own; those of a frame run alone.
    """
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads allow-popups" title="ultraspec" '
        f'style="width:100%;height:{height}px;border:0;border-radius:8px" loading="lazy"></iframe>'
    )


def small_page(model: Any) -> str | None:
    """Return a small page about a fitted model: its representatives, with a slider for the number of clusters.

    None if the model does not hold its rows, or has no tree.
    """
    state = fitted(model)
    first = state.members[0]
    partition = state.partition
    edges = state.stored_edges if state.edges is not None else getattr(state.consensus, "edges", None)
    if not isinstance(partition, VotePartition) or not isinstance(edges, Edges) or len(edges) > MOST_ROWS:
        return None
    tree = _tree_of(model, first)
    if tree is None or tree.n_leaves < 2:
        return None
    p = len(first.index.representatives)
    patterns = np.stack([tree.leaf_of, partition.groups], axis=1)
    units = np.unique(patterns, axis=0, return_inverse=True)[1].astype(np.int32).reshape(-1)
    positions, axes = _positions(model, edges, first, p)
    shown = np.flatnonzero(np.isfinite(positions).all(axis=1))
    frame = Frame.around(positions[shown], 1)
    at = np.unique(units, return_index=True)[1]
    data = {
        "rows": len(edges),
        "markers": [MARKER_PATHS[name] for name in palette.MARKERS],
        "colors": len(palette.LIGHT),
        "map": {
            "kind": "points",
            "frame": {"low": frame.low.tolist(), "high": frame.high.tolist(), "equal": frame.equal},
            "axes": axes,
            "height": MAP_HEIGHT,
        },
        "units": len(at),
        "cuts": {
            "ks": [int(model.n_clusters_)],
            "names": [""],
            "sizes": [np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_clusters_).tolist()],
            "stability": [None],
            "groups": pack(partition.groups[at].astype("<u2")),
            "own": 0,
            "clusters": None,
        },
        "start": "cut",
        "byNodes": len(state.members) > 1,  # an ensemble chooses between trees for each number
        "tree": {**tree_data(tree, tree.leaf_of[at], *_count_leaves(tree, edges)), "stability": None},
        "drawn": {
            "n": len(shown),
            "unit": pack(units[shown].astype("<u2")),
            "K": 1,
            "borders": 0,
            "border": "",
            "ids": "",
            "weights": "",
            "xy": pack(to_uint16(positions[shown], frame)),
            "outside": pack(np.flatnonzero(~frame.contains(positions[shown])).astype("<u4")),
            "rows": pack(np.ones(len(shown), dtype=np.uint8)),
            "odd": pack(np.zeros(len(shown), dtype=np.uint8)),
            "confidence": None,
            "columns": [],
        },
        "labelings": [],
        "raster": None,
        "profile": {"names": []},
    }
    body = render_template(
        "small.html",
        n_clusters=model.n_clusters_,
        least=2,
        most=tree.n_leaves,
        summary=f"{model!r}: {format_count(len(edges), 'row')}",
        data=as_html(script_json(data)),
    )
    script = as_html(template("theme.js") + "".join(map(template, SCRIPTS)))
    return str(render_template("frame.html", style=as_html(render_theme()), body=body, script=script))


def _tree_of(model: Any, first: Model) -> TopTree | None:
    """Return the tree that the slider cuts."""
    if first.choice is None:
        return None
    hierarchy = first.choice.own.hierarchy
    used = next(iter(model.candidates_), "") if model.candidates_ else getattr(model, "discretize_", "")
    name = used if used in TREES else "agreement"
    if hierarchy.n_nodes < 2:
        return None
    return TopTree.of(name, hierarchy.trees[name], hierarchy.nodes, MOST_CLUSTERS)


def _positions(model: Any, edges: Edges, first: Model, p: int) -> tuple[Floats, tuple[str, str]]:
    """Return positions (p, 2) of the representatives, and the names of the axes."""
    R = np.asarray(first.index.representatives)
    d = int(model.n_features_in_)
    names = [str(name) for name in getattr(model, "feature_names_in_", [f"feature {i}" for i in range(d)])]
    if d == 1:
        heights = np.bincount(edges.ids[:, 0], minlength=p).astype(np.float64)
        return np.column_stack([fitted(model).preprocessor.restore(R)[:, 0], heights]), (names[0], "rows it stands for")
    if d == 2:
        return np.asarray(fitted(model).preprocessor.restore(R), dtype=np.float64), (names[0], names[1])
    sample = edges[sample_indices(len(edges), SAMPLE_ROWS, np.random.default_rng(0))]
    graph: scipy.sparse.csr_array = affinity(sample, p)
    return lay_out(graph, first.partition.spectrum.vectors[:, :10], R, LAYOUT_NODES), ("", "")


def _count_leaves(tree: TopTree, edges: Edges) -> tuple[list[int], list[tuple[bytes, int]]]:
    """Count the rows of each leaf, and those whose leaf depends on the cut by how they vote."""
    counts = np.zeros(tree.n_leaves, dtype=np.int64)
    patterns: dict[bytes, int] = {}
    joined_at = tree.joined_at
    for low, high in edges.blocks():
        part = edges[slice(low, high)]
        ids, weights = np.ascontiguousarray(part.ids), np.ascontiguousarray(part.weights)
        leaves: Integers = np.empty(len(ids), dtype=np.int32)
        at_border = np.empty(len(ids), dtype=np.bool_)
        kernels.assign_units(ids, weights, tree.leaf_of, leaves, at_border)
        counts += np.bincount(leaves[~at_border], minlength=len(counts))
        some = np.flatnonzero(at_border)
        records = np.zeros((len(some), RECORD), dtype=np.uint8)
        kernels.vote_patterns(ids[some], weights[some], tree.leaf_of, joined_at, records)
        simple = records[:, 0] == 1
        counts += np.bincount(records[simple, 1], minlength=len(counts))
        for record in map(bytes, records[~simple]):
            patterns[record] = patterns.get(record, 0) + 1
    return counts.tolist(), list(patterns.items())
