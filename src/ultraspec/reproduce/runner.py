"""The runner: each run in its own process, within limits of memory and time, and one record in the store for each."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from ultraspec.engines.memory import available_bytes, resident_bytes, total_bytes
from ultraspec.reproduce.declarations import Run
from ultraspec.reproduce.store import Record, Store, run_of
from ultraspec.reproduce.worker import Task, measure, work

POLL_SECONDS = 0.02  # between checks of the memory of processes
MEMORY_TOLERANCE = 1.25  # a memory limit counts as raised above this ratio: free memory varies from hour to hour

Group = tuple[Any, ...]  # a run without its seed


@dataclass(frozen=True)
class Limits:
    """Limits of a run; None means no limit."""

    memory_bytes: int | None = None
    seconds: float | None = None


def default_memory_limit(jobs: int = 1) -> int | None:
    """Return the memory that each of `jobs` runs may take: together nine tenths of what is available now."""
    free = available_bytes()
    return None if free is None else free * 9 // 10 // jobs


@dataclass
class _Active:
    """A run in progress."""

    run: Run
    task: Task
    process: Any
    pipe: Any
    started: float
    peak: int = 0
    load: float | None = field(default_factory=lambda: os.getloadavg()[0] if hasattr(os, "getloadavg") else None)
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def settled(records: Iterable[Record], limits: Limits) -> tuple[set[Run], set[Group]]:
    """Return the runs that need not be repeated, and the groups of runs that exceed the limits.

    Failed runs are repeated; runs that exceeded a limit are repeated if the limit is higher now.
    """
    done = set()
    beyond = set()
    for record in records:
        run = run_of(record)
        if record["na"] is None:
            done.add(run)
        elif record["na"] != "error" and not _was_raised(record, limits):
            done.add(run)
            beyond.add(run[:-1])
    return done, beyond


def _was_raised(record: Record, limits: Limits) -> bool:
    """Return whether the limit that a run exceeded is higher now."""
    if record["na"] == "memory":
        before = record["memory_limit_bytes"]
        return before is not None and (limits.memory_bytes is None or limits.memory_bytes > MEMORY_TOLERANCE * before)
    before = record["time_limit_seconds"]
    return before is not None and (limits.seconds is None or limits.seconds > before)


class Runner:
    """Runs tasks, `jobs` at a time and each within the limits, and appends their results to the store.

    `measure` fits and scores, in the process of the run; it is a function of a module, as it is sent to that process.
    `on_start` is called with each run that starts, `on_end` with each run that ends and its record, or None if the run
    is skipped.
    """

    def __init__(
        self,
        store: Store,
        make_task: Callable[[Run], Task],
        *,
        limits: Limits,
        jobs: int = 1,
        threads: int = 1,
        measure: Callable[[Task], dict[str, Any]] = measure,
        on_start: Callable[[Run], object],
        on_end: Callable[[Run, Record | None], object],
    ) -> None:
        self._store = store
        self._make_task = make_task
        self._limits = limits
        self._jobs = jobs
        self._measure = measure
        self._on_start = on_start
        self._on_end = on_end
        self._beyond = settled(store.records, limits)[1]
        self._within = {run_of(record)[:-1] for record in store.records if record["na"] is None}
        self._active: list[_Active] = []
        self._facts = {
            "threads": threads,
            "jobs": jobs,
            "memory_limit_bytes": limits.memory_bytes,
            "time_limit_seconds": limits.seconds,
            "versions": versions(),
            "machine": machine(),
        }
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:  # processes are forked from one that has imported everything
            self._context.set_forkserver_preload(["ultraspec.reproduce.worker"])

    def run(self, runs: Iterable[Run], deadline: float = float("inf")) -> None:
        """Run all, but start none after the deadline (of `time.monotonic`).

        After the first run of a method on a data set that exceeds a limit, its other seeds are skipped.
        """
        waiting = dict.fromkeys(runs)
        try:
            while waiting or self._active:
                for run in [run for run in waiting if run[:-1] in self._beyond]:
                    del waiting[run]
                    self._on_end(run, None)
                while len(self._active) < self._jobs and time.monotonic() < deadline:
                    chosen = next((run for run in waiting if self._may_start(run)), None)
                    if chosen is None:
                        break
                    del waiting[chosen]
                    self._start(chosen)
                if not self._active:
                    break
                self._poll()
        finally:
            for active in self._active:
                active.process.kill()

    def _may_start(self, run: Run) -> bool:
        """Return whether its group is known to stay within the limits, or no other seed is finding that out now."""
        return run[:-1] in self._within or all(active.run[:-1] != run[:-1] for active in self._active)

    def _start(self, run: Run) -> None:
        task = self._make_task(run)
        self._on_start(run)
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=work, args=(task, theirs, self._measure), daemon=False)
        process.start()
        theirs.close()
        self._active.append(_Active(run, task, process, ours, time.monotonic()))

    def _poll(self) -> None:
        """Wait a moment, end runs that exceed their limits, and store the results of runs that have ended."""
        connection.wait([active.pipe for active in self._active], timeout=POLL_SECONDS)
        for active in list(self._active):
            results = self._results(active)
            if results is None:
                continue
            self._active.remove(active)
            if active.process.is_alive() and results.get("na") in ("memory", "time"):
                active.process.kill()
            active.process.join()
            active.pipe.close()
            record = self._record(active, results)
            self._store.append(record)
            if record["na"] in ("memory", "time"):
                self._beyond.add(active.run[:-1])
            elif record["na"] is None:
                self._within.add(active.run[:-1])
            self._on_end(active.run, record)

    def _results(self, active: _Active) -> dict[str, Any] | None:
        """Return the results of a run, or the reason to end it; None while it is running."""
        if active.pipe.poll():
            try:
                return active.pipe.recv()
            except EOFError:
                active.process.join()
                return _reason_of_death(active.process.exitcode)
        resident = resident_bytes(active.process.pid) or 0
        active.peak = max(active.peak, resident)
        limit = self._limits.memory_bytes
        if limit is not None and resident > limit:
            return {"na": "memory", "reason": f"out of memory: it held {_gb(resident)}, and the limit is {_gb(limit)}"}
        seconds = self._limits.seconds
        if seconds is not None and time.monotonic() - active.started > seconds:
            return {"na": "time", "reason": f"out of time: the limit is {seconds:g} s"}
        return None

    def _record(self, active: _Active, results: Mapping[str, Any]) -> Record:
        run, task = active.run, active.task
        record = {
            "dataset": run.dataset,
            "scale": run.scale,
            "method": run.method,
            "parameters": json.loads(run.parameters),
            "seed": run.seed,
            "na": None,
            "reason": None,
            "estimator": task.method.estimator,
            **({"code": task.method.code} if task.method.code else {}),
            "data": task.data.stem,
            "rows": task.data.rows,
            "features": task.data.features,
            "clusters": task.data.clusters,
            "started": active.date,
            "load": active.load,  # load average at the start: above the number of cores, times are too long
            "run_seconds": time.monotonic() - active.started,
            **results,
            "peak_bytes": max(active.peak, results.get("peak_bytes") or 0) or None,
            **self._facts,
        }
        rounded = {name: round(value, 6) for name, value in record.items() if isinstance(value, float)}
        return {**record, **rounded, "scale": run.scale}  # not rounded: it identifies the run


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2f} GB"


def _reason_of_death(code: int) -> dict[str, Any]:
    """Return why a process ended without results."""
    if code == -9:  # SIGKILL, which Windows does not define
        return {"na": "memory", "reason": "killed by the system, most likely because memory ran out"}
    return {"na": "error", "reason": f"the process ended with code {code} and without results"}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that determine results."""
    import numba
    import numpy
    import scipy
    import sklearn

    import ultraspec

    modules = (ultraspec, numpy, scipy, sklearn, numba)
    return {"python": platform.python_version(), **{module.__name__: module.__version__ for module in modules}}


def machine() -> dict[str, Any]:
    """Describe the machine: processor, cores, memory and operating system."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    return {"cpu": model, "cores": os.cpu_count(), "memory_bytes": total_bytes(), "system": platform.system()}
