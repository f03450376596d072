"""Estimates of how long runs will take: from similar runs that are done, else from the paper's times."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable
from typing import Any

from ultraspec.reproduce import paper_results
from ultraspec.reproduce.declarations import Run
from ultraspec.reproduce.store import Record, run_of

UNKNOWN_SECONDS = 5.0  # of a run, before any is done


class TimeEstimate:
    """Learns from finished runs how long others will take."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._seconds: dict[Hashable, list[float]] = {}
        self._ratios: list[float] = []  # of our seconds to the paper's, without the start of the process
        self._least = float("inf")  # seconds that every process takes
        for record in records:
            self.learn(run_of(record), record)

    def learn(self, run: Run, record: Record) -> None:
        """Learn from a finished run."""
        seconds = record["run_seconds"]
        for key in (*_keys(run), "any"):
            self._seconds.setdefault(key, []).append(seconds)
        self._least = min(self._least, seconds)
        in_paper = _paper_seconds(run)
        if in_paper is not None:
            self._ratios.append((seconds - self._least) / in_paper)

    def of(self, run: Run) -> float:
        """Estimate the seconds of a run."""
        for key in _keys(run):
            if key in self._seconds:
                return statistics.median(self._seconds[key])
        in_paper = _paper_seconds(run)
        if in_paper is not None and self._ratios:
            return self._least + statistics.median(self._ratios) * in_paper
        return statistics.fmean(self._seconds["any"]) if self._seconds else UNKNOWN_SECONDS

    def of_all(self, runs: Iterable[Run]) -> float:
        """Estimate the seconds of several runs, one after another."""
        known: dict[tuple[Any, ...], float] = {}
        total = 0.0
        for run in runs:
            if run[:-1] not in known:
                known[run[:-1]] = self.of(run)
            total += known[run[:-1]]
        return total


def _keys(run: Run) -> tuple[Hashable, Hashable]:
    """Return what runs of about the same time have in common, the closest match first."""
    return run[:-1], (run.dataset, run.scale, run.method)


def _paper_seconds(run: Run) -> float | None:
    """Return the paper's time; None if it has none, and for a share of the rows, where starting a process dominates."""
    method = run.method.removesuffix(" (lib)")
    if run.scale != 1 or not paper_results.is_listed(run.dataset, method):
        return None
    result = paper_results.printed("seconds", run.dataset, method)
    return None if result is None else result.mean
