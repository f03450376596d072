"""Averages over data sets by the paper's rules: score, normalised score and rank, including methods that did not run.

Scores are given as ``{data set: {method: score}}``; a score of None means that the method could not run.
"""

from __future__ import annotations

from collections.abc import Mapping

Scores = Mapping[str, Mapping[str, float | None]]


def averages(scores: Scores) -> dict[str, float | None]:
    """Average the scores of each method; None if it could not run on all data sets.

    Examples
    --------
    >>> averages({"a": {"x": 10.0, "y": 20.0}, "b": {"x": 30.0, "y": None}})
    {'x': 20.0, 'y': None}
    """
    return {method: _mean([row[method] for row in scores.values()]) for method in _methods(scores)}


def normalized(scores: Scores) -> dict[str, float | None]:
    """Average the scores in percent of the best on each data set; None if a method could not run on all of them.

    Examples
    --------
    >>> normalized({"a": {"x": 10.0, "y": 20.0}, "b": {"x": 30.0, "y": 30.0}})
    {'x': 75.0, 'y': 100.0}
    """
    shares: dict[str, dict[str, float | None]] = {}
    for dataset, row in scores.items():
        best = max((score for score in row.values() if score is not None), default=0.0)
        shares[dataset] = {
            method: None if score is None else 100 * (score / best if best else 1.0) for method, score in row.items()
        }
    return averages(shares)


def ranks(scores: Scores, digits: int = 2) -> dict[str, float]:
    """Average the ranks of each method, 1 being the best; scores that are equal when rounded share the better rank.

    Methods that could not run share the rank after the last that could.

    Examples
    --------
    >>> ranks({"a": {"x": 10.0, "y": 20.0, "z": None, "w": None}, "b": {"x": 3.0, "y": 3.0, "z": 1.0, "w": 2.0}})
    {'x': 1.5, 'y': 1.0, 'z': 3.5, 'w': 3.0}
    """
    places: dict[str, list[int]] = {method: [] for method in _methods(scores)}
    for row in scores.values():
        known = [round(score, digits) for score in row.values() if score is not None]
        for method, score in row.items():
            better = len(known) if score is None else sum(other > round(score, digits) for other in known)
            places[method].append(1 + better)
    return {method: sum(values) / len(values) for method, values in places.items() if values}


def _methods(scores: Scores) -> list[str]:
    return list(next(iter(scores.values()), {}))


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
