"""How long runs will take: from those of the same kind that are done, else from the paper's times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from ultraspec.reproduce import paper
from ultraspec.reproduce.declarations import Run
from ultraspec.reproduce.store import Row, run_of


class Expectation:
    """Learns from runs how long others will take.

    Parameters
    ----------
    rows : iterable of dict
        Runs of the store.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._known: dict[Any, list[float]] = {}
        self._least = float("inf")  # what every process takes
        for row in rows:
            self.learn(run_of(row), row)

    def learn(self, run: Run, row: Row) -> None:
        """Take note of a run."""
        seconds = row["run_seconds"]
        expected = _by_paper(run)
        keys: list[Any] = [run[:-1], (run.dataset, run.scale, run.method), "any"]
        for key in keys:
            self._known.setdefault(key, []).append(seconds)
        self._least = min(self._least, seconds)
        if expected is not None:
            self._known.setdefault("ratio", []).append((seconds - self._least) / expected)

    def of(self, run: Run) -> float:
        """Seconds of a run, roughly."""
        for key in (run[:-1], (run.dataset, run.scale, run.method)):
            if key in self._known:
                return statistics.median(self._known[key])
        expected = _by_paper(run)
        if expected is not None and "ratio" in self._known:
            return self._least + statistics.median(self._known["ratio"]) * expected
        return statistics.fmean(self._known["any"]) if "any" in self._known else 5.0

    def of_all(self, runs: Iterable[Run]) -> float:
        """Seconds of several, one after another."""
        found: dict[tuple[Any, ...], float] = {}
        total = 0.0
        for run in runs:
            if run[:-1] not in found:
                found[run[:-1]] = self.of(run)
            total += found[run[:-1]]
        return total


def _by_paper(run: Run) -> float | None:
    """The paper's seconds; None where it has none, and for a share of the rows: there the process takes most of it."""
    method = run.method.removesuffix(" (lib)")
    if run.scale != 1 or not paper.has(run.dataset, method):
        return None
    found = paper.printed("seconds", run.dataset, method)
    return None if found is None else found.mean
