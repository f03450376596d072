"""The figures' numbers as the page's script reads them: takes a survey, gives JSON with packed arrays.

Arrays are little-endian bytes in base64. A raster is the list of its cells that have rows: steps from one to the next
as numbers of seven bits a byte, and the logarithm of each count in one byte.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.figures import Agreement, ClusterMap, Eigengap, Frame, NodeGraph, Survey, palette

MARKS = {
    "circle": "M0-4.4A4.4 4.4 0 1 1 0 4.4A4.4 4.4 0 1 1 0-4.4Z",
    "square": "M-3.9-3.9H3.9V3.9H-3.9Z",
    "triangle": "M0-5L4.9 3.9H-4.9Z",
    "diamond": "M0-5.4L5.4 0L0 5.4L-5.4 0Z",
    "wedge": "M0 5L4.9-3.9H-4.9Z",
    "plus": "M-1.8-5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5V-1.8H-1.8Z",
    "cross": "M0-2.3L2.9-5.2L5.2-2.9L2.3 0L5.2 2.9L2.9 5.2L0 2.3L-2.9 5.2L-5.2 2.9L-2.3 0L-5.2-2.9L-2.9-5.2Z",
}


def script_json(survey: Survey, gap: Eigengap) -> str:
    """All of it, safe within a script element whatever names hold."""
    text = json.dumps(page_data(survey, gap), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def page_data(survey: Survey, gap: Eigengap) -> dict[str, Any]:
    """What the script draws."""
    assert survey.map is not None
    assert survey.graph is not None
    return {
        "rows": survey.n_rows,
        "names": survey.names,
        "sizes": survey.tally.sizes.tolist(),
        "marks": [MARKS[name] for name in palette.MARKERS],
        "colors": len(palette.LIGHT),
        "map": _map(survey.map),
        "graph": _graph(survey.graph, survey.nodes, survey.map.frame, survey.n_features),
        "eigen": {"distances": gap.leading.tolist(), "chosen": gap.chosen, "largest": gap.largest},
        "levels": None if survey.tally.levels is None else survey.tally.levels.tolist(),
        "agreement": None if survey.agreement is None else _agreement(survey.agreement),
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"low": frame.low.tolist(), "high": frame.high.tolist(), "cells": frame.cells, "equal": frame.equal}


def _map(drawn: ClusterMap) -> dict[str, Any]:
    spots = [None if np.isnan(x) else [x, y] for x, y in drawn.spots.tolist()]
    data: dict[str, Any] = {"kind": drawn.kind, "frame": _frame(drawn.frame), "axes": drawn.axes, "spots": spots}
    if drawn.kind == "points":
        assert drawn.points is not None
        assert drawn.codes is not None
        inside = drawn.frame.holds(drawn.points)
        data["xy"] = _packed(_on_grid(drawn.points[inside], drawn.frame))
        data["codes"] = _packed(drawn.codes[inside].astype("<u2"))
        data["confidence"] = None if drawn.confidence is None else _packed(_bytes(drawn.confidence[inside]))
        return data
    cells, backing = drawn.tally.cells, drawn.tally.backing
    assert cells is not None
    if drawn.kind == "histogram":
        data["bins"] = cells.T.tolist()
        data["sure"] = None if backing is None else _bytes(backing / np.maximum(cells, 1)).T.tolist()
        return data
    at = np.flatnonzero(cells)
    counts = cells.reshape(-1)[at]
    most = int(cells.sum(axis=1, dtype=np.int64).max(initial=1))
    data["steps"] = _packed(seven_bits(np.diff(at, prepend=0)))
    data["levels"] = _packed(_bytes(np.log1p(counts) / np.log1p(most)))
    data["most"] = most
    data["confidence"] = None if backing is None else _packed(_bytes(backing.reshape(-1)[at] / counts))
    return data


def _graph(graph: NodeGraph, nodes: npt.NDArray[np.intp], frame: Frame, n_features: int) -> dict[str, Any]:
    """Nodes on the map's frame; of one feature, with the rows they stand for as the height."""
    positions, rows = graph.positions[nodes], graph.rows[nodes]
    if n_features == 1:
        most = max(float(positions[:, 1].max(initial=0.0)), 1.0) * 1.06
        low, high = np.array([frame.low[0], 0.0]), np.array([frame.high[0], most])
        frame = Frame(low, high, frame.cells, False)
    number = np.full(len(graph.codes), -1)
    number[nodes] = np.arange(len(nodes))
    ties = number[graph.ties]
    kept = (ties >= 0).all(axis=1)
    return {
        "frame": _frame(frame),
        "xy": _packed(_on_grid(positions, frame)),
        "codes": _packed(graph.codes[nodes].astype("<u2")),
        "sizes": _packed(_bytes(np.sqrt(rows / max(float(rows.max(initial=0.0)), 1.0)))),
        "rows": np.rint(rows).astype(int).tolist(),
        "ties": _packed(ties[kept].astype("<u2")),
        "strength": _packed(_bytes(graph.strength[kept])),
    }


def _agreement(found: Agreement) -> dict[str, Any]:
    return {"members": np.round(found.members, 3).tolist(), "consensus": np.round(found.consensus, 3).tolist()}


def _on_grid(xy: npt.NDArray[np.float64], frame: Frame) -> npt.NDArray[np.uint16]:
    """Positions within the frame in 16 bits; what is outside goes to its edge."""
    share = np.clip((xy - frame.low) / (frame.high - frame.low), 0.0, 1.0)
    return np.rint(share * 65535).astype("<u2")


def _bytes(shares: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Shares from 0 to 1 in one byte each."""
    return np.rint(np.clip(shares, 0.0, 1.0) * 255).astype(np.uint8)


def seven_bits(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Numbers from zero on, seven bits a byte, the lowest first; the top bit says that another byte follows.

    Examples
    --------
    >>> seven_bits(np.array([5, 300])).tolist()
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
