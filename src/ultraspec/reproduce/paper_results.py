"""The results that the paper reports: takes a table, a data set and a method, gives what is printed or drawn there."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, NamedTuple

METRICS = ("nmi", "ca", "seconds")


class PaperResult(NamedTuple):
    """A mean and its standard deviation; None where the paper gives none: for times and most points of curves."""

    mean: float
    std: float | None


@functools.cache
def _paper() -> dict[str, Any]:
    path = resources.files("ultraspec.reproduce").joinpath("paper_results.json")
    return json.loads(path.read_text(encoding="utf-8"))


def printed(metric: str, dataset: str, method: str) -> PaperResult | None:
    """Return a result of Tables 4 to 9; None where the paper has N/A.

    Examples
    --------
    >>> printed("nmi", "PenDigits", "U-SPEC"), printed("nmi", "CC-5M", "SC")
    (PaperResult(mean=80.3, std=2.18), None)
    """
    value = _paper()["scores"][metric][dataset][method]
    if value is None:
        return None
    return PaperResult(value, None) if metric == "seconds" else PaperResult(*value)


def is_listed(dataset: str, method: str) -> bool:
    """Return whether Tables 4 to 9 have a cell for a method on a data set."""
    return method in _paper()["scores"]["nmi"].get(dataset, {})


def drawn(table: str, dataset: str, metric: str, method: str) -> dict[Any, PaperResult]:
    """Return a curve or the bars of Tables 10 to 16, by the value that varies; empty if the paper draws none.

    Examples
    --------
    >>> drawn("table13", "MNIST", "nmi", "U-SPEC")["R"]
    PaperResult(mean=60.56, std=1.653)
    """
    points = _paper()["curves"][table].get(dataset, {}).get(metric, {}).get(method, [])
    return {point[0]: PaperResult(point[1], point[2] if len(point) > 2 else None) for point in points}


def aggregate(kind: str, metric: str, family: str, method: str) -> float | None:
    """Return a printed average of the given `kind`: "average", "normalized" or "rank"; None if there is none."""
    return _paper()["aggregates"][kind][metric][family].get(method)
