"""The data that the script of the page draws, as JSON with packed arrays.

Arrays are little-endian bytes in base64. A raster is a list of the cells that have rows: the steps from one to the next
as integers of variable length, and the logarithm of each count in one byte. Rows are given by unit: a set of
representatives that no cut separates. Rows between units have their edges, by which they vote.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec.figures import Agreement, Eigengap, Frame, palette
from ultraspec.figures.cuts import Cut, TopTree
from ultraspec.figures.explore import Exploration, units_of
from ultraspec.figures.labeled_rows import Floats, LabeledBlock
from ultraspec.figures.survey import MOST_PATTERNS, PATTERN_LEAVES, Raster
from ultraspec.figures.trust import BEYOND_CHANCE, FEWEST, LEAST_SHARE, REAL, has_structure

MOST_ENTRIES = 400_000  # of a raster by unit; finer ones are coarsened
MOST_LABEL_ENTRIES = 120_000  # of a raster by label
MOST_TOUCHING = 20_000  # pairs of units
MOST_LETTERS = 600_000  # of texts of the rows that are drawn
SHORTEST_TEXT, LONGEST_TEXT = 20, 160  # letters of a text that is kept
MOST_CODES = 750_000  # categories of the rows that are drawn

# outlines of the markers as SVG paths
MARKER_PATHS = {
    "circle": "M0-4.4A4.4 4.4 0 1 1 0 4.4A4.4 4.4 0 1 1 0-4.4Z",
    "square": "M-3.9-3.9H3.9V3.9H-3.9Z",
    "triangle": "M0-5L4.9 3.9H-4.9Z",
    "diamond": "M0-5.4L5.4 0L0 5.4L-5.4 0Z",
    "wedge": "M0 5L4.9-3.9H-4.9Z",
    "plus": "M-1.8-5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5V-1.8H-1.8Z",
    "cross": "M0-2.3L2.9-5.2L5.2-2.9L2.3 0L5.2 2.9L2.9 5.2L0 2.3L-2.9 5.2L-5.2 2.9L-2.3 0L-5.2-2.9L-2.9-5.2Z",
}


def script_json(data: dict[str, Any]) -> str:
    """Return data as JSON, safe within a script element whatever names it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def script_data(found: Exploration, gap: Eigengap, model: Any, key: str) -> dict[str, Any]:
    """Return the data of all figures; `key` recognises the model."""
    figures = found.figures
    assert figures.map is not None
    frame, xy = _frame_of(found)
    levels = figures.counts.levels
    ks = [cut.k for cut in found.cuts]
    suggested = [layer for layer in found.layers if layer.n_clusters in ks]
    return {
        "rows": figures.n_rows,
        "key": key,
        "markers": [MARKER_PATHS[name] for name in palette.MARKERS],
        "colors": len(palette.LIGHT),
        "map": {"kind": figures.map.kind, "frame": _frame(frame), "axes": figures.map.axes},
        "units": _n_units(found),
        "representatives": "" if found.table is None else pack(found.table.units.astype("<u2")),
        "cuts": _cuts(found, int(model.n_clusters_)),
        "start": "labeling" if not figures.has_model_labels and found.table is not None else "cut",
        "tree": _tree(found),
        "call": found.table.call if found.table is not None else "",
        "reason": found.reason,
        "suggested": [{"k": each.n_clusters, "strength": round(each.strength, 3)} for each in suggested],
        "refined": found.is_refined,
        "trust": {"real": REAL, "beyond": BEYOND_CHANCE, "rows": FEWEST, "share": LEAST_SHARE},
        "structure": has_structure(found.layers),
        "null": _null(found),
        "drawn": _drawn(found, xy, frame),
        "raster": _raster(found.survey.rasters[0], _n_units(found), frame, MOST_ENTRIES)
        if figures.map.kind == "raster" and figures.n_features > 1
        else None,
        "labelings": _labelings(found, frame),
        "profile": _profile(found),
        "examples": _examples(found),
        "graph": _graph(found, frame),
        "touching": _touching(found),
        "eigen": {"distances": gap.leading.tolist(), "chosen": gap.chosen},
        "levels": None if levels is None else levels.tolist(),
        "agreement": None if figures.agreement is None else _agreement(figures.agreement),
    }


def _null(found: Exploration) -> dict[str, Any] | None:
    null = found.null
    if null is None:
        return None
    return {"ks": null.ks, "level": _rounded(null.level), "agreement": _rounded(null.agreement)}


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(value), digits) for value in values]


def _n_units(found: Exploration) -> int:
    return len(found.figures.cluster_names) if found.table is None else found.table.n_units


def _frame_of(found: Exploration) -> tuple[Frame, Floats]:
    """Return the frame and the positions of the drawn rows; rows of one feature are stacked as a histogram."""
    figures = found.figures
    assert figures.map is not None
    frame = figures.map.frame
    if figures.n_features > 1:
        return frame, found.positions
    bins = frame.cells[0]
    x = found.positions[:, 0]
    share = (x - frame.low[0]) / (frame.high[0] - frame.low[0])
    at = np.clip((share * bins).astype(np.int64), 0, bins - 1)
    order = np.argsort(at, kind="stable")
    height = np.empty(len(x))
    height[order] = np.arange(len(x)) - np.searchsorted(at[order], at[order])
    height = (height + 0.5) * figures.n_rows / max(len(x), 1)
    most = float(height.max(initial=1.0)) * 1.08
    seen = replace(frame, low=np.array([frame.low[0], 0.0]), high=np.array([frame.high[0], most]), equal=False)
    centers = frame.low[0] + (at + 0.5) / bins * (frame.high[0] - frame.low[0])
    return seen, np.column_stack([np.where((share >= 0) & (share <= 1), centers, x), height])


def _frame(frame: Frame) -> dict[str, Any]:
    return {"low": frame.low.tolist(), "high": frame.high.tolist(), "equal": frame.equal}


def _cuts(found: Exploration, own: int) -> dict[str, Any]:
    """Return all cuts; one, the clusters that are shown, if the model has no tree."""
    figures = found.figures
    if found.table is None:
        k = len(figures.cluster_names)
        groups = np.arange(k, dtype="<u2")
        return {
            "ks": [k],
            "names": [""],
            "sizes": [figures.counts.sizes.tolist()],
            "stability": [None],
            "agreement": [None],
            "groups": pack(groups),
            "own": 0,
            "clusters": figures.cluster_names,
        }
    groups = found.table.by_unit([cut.groups for cut in found.cuts]).astype("<u2")
    ks = [cut.k for cut in found.cuts]
    return {
        "ks": ks,
        "names": [cut.judged.candidate for cut in found.cuts],
        "sizes": [cut.sizes.tolist() for cut in found.cuts],
        "stability": [_stability(cut) for cut in found.cuts],
        "agreement": [None if cut.judged.agreement is None else round(cut.judged.agreement, 3) for cut in found.cuts],
        "groups": pack(groups),
        "own": ks.index(own) if own in ks else 0,
        "clusters": None,
    }


def _stability(cut: Cut) -> list[float] | None:
    return None if cut.stability is None else _rounded(cut.stability)


def _tree(found: Exploration) -> dict[str, Any] | None:
    if found.table is None or found.table.tree.n_leaves > 256:
        return None
    tree = found.table.tree
    patterns = found.survey.patterns.most_common(MOST_PATTERNS)
    leaves = found.survey.leaves.copy()
    for record, n in found.survey.patterns.most_common()[MOST_PATTERNS:]:  # too many to keep: the vote of the leaves
        leaves[record[1 + record[1 + PATTERN_LEAVES]]] += n
    return {
        **tree_data(tree, found.table.unit_leaves, leaves.tolist(), patterns),
        "stability": None if found.node_stability is None else _rounded(found.node_stability),
    }


def tree_data(
    tree: TopTree, leaves: npt.NDArray[np.int32], counts: list[int], patterns: list[tuple[bytes, int]]
) -> dict[str, Any]:
    """Return a tree, the leaf of each unit, the rows of each leaf, and rows whose leaf depends on the cut."""
    return {
        "name": tree.name,
        "nodes": tree.nodes,
        "first": tree.firsts,
        "merges": tree.merges.tolist(),
        "heights": _rounded(tree.heights, 5),
        "leaf": pack(leaves.astype(np.uint8)),
        "rows": counts,
        "patterns": pack(np.frombuffer(b"".join(record for record, _ in patterns), dtype=np.uint8)),
        "counts": [n for _, n in patterns],
    }


def _edges(found: Exploration, block: LabeledBlock, units: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the units of rows, and the edges of those between units."""
    data: dict[str, Any] = {
        "unit": pack(units.astype("<u2")),
        "n": len(units),
        "border": "",
        "ids": "",
        "weights": "",
    }
    data["K"] = 1
    data["borders"] = 0
    if found.table is not None:
        assert block.edges is not None
        ids = found.table.units[block.edges.ids]
        at = np.flatnonzero((ids != ids[:, :1]).any(axis=1))
        data |= {
            "K": int(ids.shape[1]),
            "borders": len(at),
            "border": pack(variable_length(np.diff(at, prepend=0))),
            "ids": pack(ids[at].astype("<u2")),
            "weights": pack(block.edges.weights[at].astype("<f4")),
        }
    return data


def _drawn(found: Exploration, xy: Floats, frame: Frame) -> dict[str, Any]:
    """Return the rows that are drawn, with their columns."""
    assert found.figures.map is not None
    inside = frame.contains(xy) if found.figures.n_features > 1 else np.ones(len(xy), dtype=bool)
    data = _edges(found, found.block, found.units)
    sure = found.figures.map.confidence
    columns = []
    for j, values in zip(found.value_columns, found.values.T, strict=True):
        known = np.isfinite(values)
        low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 0.0)
        share = np.where(known, (values - low) / (high - low if high > low else 1.0), 0.0)
        codes = np.where(known, np.rint(share * 65534), 65535).astype("<u2")  # the last code: missing
        columns.append({"column": j, "low": low, "high": high, "values": pack(codes)})
    return data | {
        "xy": pack(to_uint16(xy, frame)),
        "outside": pack(np.flatnonzero(~inside).astype("<u4")),
        "rows": pack(variable_length(np.diff(found.drawn, prepend=0))),
        "odd": pack(np.rint(np.clip(found.scores * 24, 0, 255)).astype(np.uint8)),
        "confidence": None if sure is None else pack(_to_bytes(sure)),
        "columns": columns,
        "described": _described(found),
    }


def _described(found: Exploration) -> list[dict[str, Any]]:
    """Return the categories and texts that describe the rows that are drawn; the first ones, if there are too many."""
    n = max(len(found.drawn), 1)
    categories = [column for column in found.columns if column.kind == "category"][: MOST_CODES // n]
    texts = [column for column in found.columns if column.kind == "text"]
    length = int(np.clip(MOST_LETTERS // (n * max(len(texts), 1)), SHORTEST_TEXT, LONGEST_TEXT))
    texts = texts[: MOST_LETTERS // (n * length)]
    listed: list[dict[str, Any]] = []
    for column in categories:
        assert column.codes is not None
        codes = column.codes[found.drawn].astype(np.uint8)  # -1 becomes 255: missing
        listed.append({"name": column.name, "categories": list(column.categories), "codes": pack(codes)})
    drawn = found.drawn.tolist()
    return listed + [{"name": each.name, "texts": [each.show(row)[:length] for row in drawn]} for each in texts]


def _raster(raster: Raster, n: int, frame: Frame, most: int) -> dict[str, Any]:
    """Return a raster of at most about `most` entries; cells are merged until there are few enough."""
    w, h = frame.cells
    keys, counts = raster.keys, raster.counts
    while len(keys) > most and min(w, h) > 64:
        cell, unit = keys // n, keys % n
        x, y = cell % w // 2, cell // w // 2
        w, h = (w + 1) // 2, (h + 1) // 2
        keys, at = np.unique((y * w + x) * n + unit, return_inverse=True)
        counts = np.bincount(at.reshape(-1), counts, minlength=len(keys)).astype(np.int64)
    # an odd number of cells leaves a part of the last one outside the frame: the page is told the extent
    extent = [
        w * 2 ** _halvings(frame.cells[0], w) / frame.cells[0],
        h * 2 ** _halvings(frame.cells[1], h) / frame.cells[1],
    ]
    largest = int(counts.max(initial=1))
    return {
        "cells": [w, h],
        "extent": extent,
        "n": n,
        "steps": pack(variable_length(np.diff(keys, prepend=0))),
        "counts": pack(_to_bytes(np.log1p(counts) / np.log1p(largest))),
        "most": largest,
    }


def _halvings(before: int, after: int) -> int:
    """Return how often a number was halved, rounding up."""
    n = 0
    while before > after:
        before = (before + 1) // 2
        n += 1
    return n


def _labelings(found: Exploration, frame: Frame) -> list[dict[str, Any]]:
    listed = []
    for at, labeling in enumerate(found.labelings):
        raster = None
        if found.survey.rasters and found.figures.n_features > 1:
            raster = _raster(found.survey.rasters[1 + at], len(labeling.names), frame, MOST_LABEL_ENTRIES)
        listed.append(
            {
                "title": labeling.title,
                "names": labeling.names,
                "sizes": labeling.sizes.tolist(),
                "codes": pack(labeling.codes.astype("<u2")),
                "raster": raster,
            }
        )
    return listed


def _profile(found: Exploration) -> dict[str, Any]:
    """Return count, mean, variance and bins of each column by unit."""
    survey = found.survey
    profile = found.profile
    n = survey.present
    total = np.maximum(n.sum(axis=0), 1)
    mean = survey.sums.sum(axis=0) / total
    variance = np.maximum(survey.squares.sum(axis=0) / total - mean**2, 0.0)
    spread = np.sqrt(variance)
    safe = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)
    unit_mean = survey.sums / np.maximum(n, 1)
    unit_variance = np.maximum(survey.squares / np.maximum(n, 1) - unit_mean**2, 0.0)
    bins = survey.bins / np.maximum(n, 1)[:, :, None]
    return {
        "names": profile.names,
        "features": profile.n_features,
        "leftOut": profile.n_left_out,
        "n": pack(n.astype("<u4")),
        "mean": pack(((unit_mean - mean) / safe).astype("<f4")),  # standardised
        "variance": pack((unit_variance / safe**2).astype("<f4")),
        "bins": pack(_to_bytes(bins)),
        "nBins": int(survey.bins.shape[2]),
        "bounds": [[float(f"{bound:.6g}") for bound in bounds] for bounds in profile.bounds],
        "total": {"mean": [float(f"{v:.9g}") for v in mean], "spread": [float(f"{v:.9g}") for v in safe]},
        "categories": [
            {"name": column.name, "categories": list(column.categories), "counts": counts.ravel().tolist()}
            for column, counts in zip(profile.categories, survey.categories, strict=True)
        ],
        "terms": [
            {"name": name, "terms": terms, "counts": pack(counts.astype("<u4")), "texts": texts.tolist()}
            for name, terms, counts, texts in profile.terms
        ],
    }


def _examples(found: Exploration) -> dict[str, Any]:
    block = found.example_block
    units = block.codes
    if found.table is not None:
        units = units_of(found.table, block)
    return {
        "names": found.example_names,
        "described": len(found.columns),
        "rows": [example.row for example in found.examples],
        "kinds": [example.kinds for example in found.examples],
        "values": [example.values for example in found.examples],
        **_edges(found, block, units),
    }


def _graph(found: Exploration, frame: Frame) -> dict[str, Any]:
    """Return the graph in the frame of the map; if there is one feature, in one as high as the most rows."""
    figures = found.figures
    graph = figures.graph
    assert graph is not None
    drawn = figures.drawn_representatives
    positions = graph.positions[drawn]
    rows = graph.rows[drawn]
    if figures.n_features == 1:
        most = max(float(rows.max(initial=0.0)), 1.0) * 1.06
        frame = replace(frame, low=np.array([frame.low[0], 0.0]), high=np.array([frame.high[0], most]))
    units = graph.codes if found.table is None else found.table.units
    number = np.full(len(graph.codes), -1)
    number[drawn] = np.arange(len(drawn))
    edges = number[graph.edges]
    is_drawn = (edges >= 0).all(axis=1)
    return {
        "frame": _frame(frame),
        "xy": pack(to_uint16(positions, frame)),
        "units": pack(units[drawn].astype("<u2")),
        "sizes": pack(_to_bytes(np.sqrt(rows / max(float(rows.max(initial=0.0)), 1.0)))),
        "rows": np.rint(rows).astype(int).tolist(),
        "edges": pack(edges[is_drawn].astype("<u2")),
        "strength": pack(_to_bytes(graph.strength[is_drawn])),
    }


def _touching(found: Exploration) -> dict[str, Any]:
    """Return the affinity between units: pairs and sums."""
    graph = found.figures.graph
    assert graph is not None
    units = graph.codes if found.table is None else found.table.units
    pairs = scipy.sparse.coo_array(graph.affinity)
    a, b = units[pairs.row].astype(np.int64), units[pairs.col].astype(np.int64)
    n = _n_units(found)
    known = (a >= 0) & (b >= a)
    keys, at = np.unique(a[known] * n + b[known], return_inverse=True)
    sums = np.bincount(at.reshape(-1), pairs.data[known], minlength=len(keys))
    strongest = np.sort(np.argsort(-sums, kind="stable")[:MOST_TOUCHING])
    keys, sums = keys[strongest], sums[strongest]
    return {
        "a": pack((keys // n).astype("<u2")),
        "b": pack((keys % n).astype("<u2")),
        "sums": pack(sums.astype("<f4")),
    }


def _agreement(agreement: Agreement) -> dict[str, Any]:
    return {"members": np.round(agreement.members, 3).tolist(), "consensus": np.round(agreement.consensus, 3).tolist()}


def to_uint16(xy: npt.NDArray[np.float64], frame: Frame) -> npt.NDArray[np.uint16]:
    """Return positions as shares of the frame in 16 bits, clipped to the frame."""
    share = np.clip((xy - frame.low) / (frame.high - frame.low), 0.0, 1.0)
    return np.rint(share * 65535).astype("<u2")


def _to_bytes(shares: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return shares from 0 to 1 in one byte each."""
    return np.rint(np.clip(shares, 0.0, 1.0) * 255).astype(np.uint8)


def variable_length(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Encode integers >= 0 with seven bits per byte, lowest first; the top bit is set if another byte follows.

    Examples
    --------
    >>> variable_length(np.array([5, 300])).tolist()
    [5, 172, 2]
    """
    width = 1
    while (numbers >> (7 * width)).any():
        width += 1
    groups = numbers[:, None] >> (7 * np.arange(width))
    more = np.column_stack([groups[:, 1:] > 0, np.zeros(len(numbers), dtype=bool)])
    needed = np.column_stack([np.ones(len(numbers), dtype=bool), groups[:, 1:] > 0])
    return ((groups & 127) | (more << 7)).astype(np.uint8)[needed]


def pack(array: npt.NDArray[Any]) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
