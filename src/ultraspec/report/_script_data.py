"""The data that the script of the page draws, as JSON with packed arrays.

Arrays are little-endian bytes in base64. A raster is a list of the cells that have rows: the steps from one to the next
as integers of variable length, and the logarithm of each count in one byte.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.figures import Agreement, ClusterMap, Eigengap, FigureData, Frame, RepresentativeGraph, palette

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


def script_json(figures: FigureData, gap: Eigengap) -> str:
    """Return the data as JSON, safe within a script element whatever names it holds."""
    text = json.dumps(script_data(figures, gap), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def script_data(figures: FigureData, gap: Eigengap) -> dict[str, Any]:
    """Return the data of all figures."""
    assert figures.map is not None
    assert figures.graph is not None
    levels = figures.counts.levels
    return {
        "rows": figures.n_rows,
        "names": figures.cluster_names,
        "sizes": figures.counts.sizes.tolist(),
        "markers": [MARKER_PATHS[name] for name in palette.MARKERS],
        "colors": len(palette.LIGHT),
        "map": _map(figures.map),
        "graph": _graph(figures.graph, figures.drawn_representatives, figures.map.frame, figures.n_features),
        "eigen": {"distances": gap.leading.tolist(), "chosen": gap.chosen},
        "levels": None if levels is None else levels.tolist(),
        "agreement": None if figures.agreement is None else _agreement(figures.agreement),
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"low": frame.low.tolist(), "high": frame.high.tolist(), "cells": frame.cells, "equal": frame.equal}


def _map(drawn: ClusterMap) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kind": drawn.kind,
        "frame": _frame(drawn.frame),
        "axes": drawn.axes,
        "namePositions": [None if np.isnan(x) else [x, y] for x, y in drawn.name_positions.tolist()],
        "confidence": None,
    }
    if drawn.kind == "points":
        assert drawn.points is not None
        assert drawn.codes is not None
        inside = drawn.frame.contains(drawn.points)
        data["xy"] = _packed(_to_uint16(drawn.points[inside], drawn.frame))
        data["codes"] = _packed(drawn.codes[inside].astype("<u2"))
        if drawn.confidence is not None:
            data["confidence"] = _packed(_to_bytes(drawn.confidence[inside]))
        return data
    cells = drawn.counts.cells
    sums = drawn.counts.cell_confidence
    assert cells is not None
    if drawn.kind == "histogram":
        data["bins"] = cells.T.tolist()
        if sums is not None:
            data["confidence"] = _to_bytes(sums / np.maximum(cells, 1)).T.tolist()
        return data
    at = np.flatnonzero(cells)
    counts = cells.reshape(-1)[at]
    most = int(cells.sum(axis=1, dtype=np.int64).max(initial=1))
    data["steps"] = _packed(variable_length(np.diff(at, prepend=0)))
    data["counts"] = _packed(_to_bytes(np.log1p(counts) / np.log1p(most)))
    data["most"] = most
    if sums is not None:
        data["confidence"] = _packed(_to_bytes(sums.reshape(-1)[at] / counts))
    return data


def _graph(graph: RepresentativeGraph, drawn: npt.NDArray[np.intp], frame: Frame, n_features: int) -> dict[str, Any]:
    """Return the graph in the frame of the map; if there is one feature, in one as high as the most rows."""
    positions = graph.positions[drawn]
    rows = graph.rows[drawn]
    if n_features == 1:
        most = max(float(rows.max(initial=0.0)), 1.0) * 1.06
        frame = replace(frame, low=np.array([frame.low[0], 0.0]), high=np.array([frame.high[0], most]))
    number = np.full(len(graph.codes), -1)
    number[drawn] = np.arange(len(drawn))
    edges = number[graph.edges]
    is_drawn = (edges >= 0).all(axis=1)
    return {
        "frame": _frame(frame),
        "xy": _packed(_to_uint16(positions, frame)),
        "codes": _packed(graph.codes[drawn].astype("<u2")),
        "sizes": _packed(_to_bytes(np.sqrt(rows / max(float(rows.max(initial=0.0)), 1.0)))),
        "rows": np.rint(rows).astype(int).tolist(),
        "edges": _packed(edges[is_drawn].astype("<u2")),
        "strength": _packed(_to_bytes(graph.strength[is_drawn])),
    }


def _agreement(agreement: Agreement) -> dict[str, Any]:
    return {"members": np.round(agreement.members, 3).tolist(), "consensus": np.round(agreement.consensus, 3).tolist()}


def _to_uint16(xy: npt.NDArray[np.float64], frame: Frame) -> npt.NDArray[np.uint16]:
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


def _packed(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
