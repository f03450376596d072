"""The paper's own figures: takes a table, a data set and a method, gives what is printed or drawn there."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, NamedTuple

METRICS = ("nmi", "ca", "seconds")


class Figure(NamedTuple):
    """A mean and a standard deviation; the paper gives none for times and for the points of curves."""

    mean: float
    std: float | None


@functools.cache
def _paper() -> dict[str, Any]:
    return json.loads(resources.files("ultraspec.reproduce").joinpath("paper.json").read_text(encoding="utf-8"))


def printed(metric: str, dataset: str, method: str) -> Figure | None:
    """A figure of Tables 4 to 9; None where the paper has N/A.

    Examples
    --------
    >>> printed("nmi", "PenDigits", "U-SPEC"), printed("nmi", "CC-5M", "SC")
    (Figure(mean=80.3, std=2.18), None)
    """
    found = _paper()["scores"][metric][dataset][method]
    if found is None:
        return None
    return Figure(found, None) if metric == "seconds" else Figure(*found)


def has(dataset: str, method: str) -> bool:
    """Whether Tables 4 to 9 have a place for a method on a data set."""
    return method in _paper()["scores"]["nmi"].get(dataset, {})


def drawn(table: str, dataset: str, metric: str, method: str) -> dict[Any, Figure]:
    """A curve or the bars of Tables 10 to 16, by the value that varies; empty where the paper draws none.

    Examples
    --------
    >>> drawn("table13", "MNIST", "nmi", "U-SPEC")["R"]
    Figure(mean=60.56, std=1.653)
    """
    points = _paper()["curves"][table].get(dataset, {}).get(metric, {}).get(method, [])
    return {point[0]: Figure(point[1], point[2] if len(point) > 2 else None) for point in points}


def aggregate(kind: str, metric: str, family: str, method: str) -> float | None:
    """A printed average, by ``kind`` ("average", "normalized" or "rank"); None where there is none."""
    return _paper()["aggregates"][kind][metric][family].get(method)


def contradictions() -> list[dict[str, Any]]:
    """Where a drawing and a printed table of the paper give one experiment different figures."""
    return list(_paper()["contradictions"])
