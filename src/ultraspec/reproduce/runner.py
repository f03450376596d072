"""The runner: each run in a process of its own, within limits of memory and time; one line in the store for each."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from ultraspec.reproduce.declarations import Run
from ultraspec.reproduce.memory import resident_of, total_bytes
from ultraspec.reproduce.store import Row, Store, run_of
from ultraspec.reproduce.worker import Task, work

LOOK_SECONDS = 0.02  # between looks at the memory of processes


@dataclass(frozen=True)
class Limits:
    """What a run may take; None for as much as it likes."""

    memory_bytes: int | None = None
    seconds: float | None = None


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


def settled(rows: Iterable[Row], limits: Limits) -> tuple[set[Run], set[tuple[Any, ...]]]:
    """Runs that need no repetition, and groups of them (all but the seed) that go beyond the limits.

    What failed is tried again; what went beyond a limit is tried again if the limit is higher now.
    """
    done, beyond = set(), set()
    for row in rows:
        run = run_of(row)
        if row["na"] is None:
            done.add(run)
        elif row["na"] != "error" and not _raised(row, limits):
            done.add(run)
            beyond.add(run[:-1])
    return done, beyond


def _raised(row: Row, limits: Limits) -> bool:
    name, now = (
        ("memory_limit_bytes", limits.memory_bytes) if row["na"] == "memory" else ("time_limit_seconds", limits.seconds)
    )
    was = row[name]
    if was is None:
        return False
    # what is available changes a little from hour to hour, which does not count
    return now is None or now > was * (1.25 if name == "memory_limit_bytes" else 1.0)


class Runner:
    """Runs tasks and stores what they give.

    Parameters
    ----------
    store : Store
    make_task : callable
        Gives the task of a run.
    limits : Limits
    jobs : int
        Runs at a time.
    threads : int
        Threads of each.
    on_start, on_end : callable
        Told of runs, the latter with their row, or None for those that are left out.
    """

    def __init__(
        self,
        store: Store,
        make_task: Callable[[Run], Task],
        *,
        limits: Limits,
        jobs: int = 1,
        threads: int = 1,
        on_start: Callable[[Run], object],
        on_end: Callable[[Run, Row | None], object],
    ) -> None:
        self._store, self._make_task, self._limits = store, make_task, limits
        self._jobs, self._threads = jobs, threads
        self._on_start, self._on_end = on_start, on_end
        self._beyond = settled(store.rows, limits)[1]
        self._fine = {run_of(row)[:-1] for row in store.rows if row["na"] is None}
        self._active: list[_Active] = []
        self._facts = {
            "threads": threads,
            "jobs": jobs,
            "memory_limit_bytes": limits.memory_bytes,
            "time_limit_seconds": limits.seconds,
            "versions": versions(),
            "machine": machine(),
        }
        kinds = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in kinds else "spawn")
        if "forkserver" in kinds:  # processes start from one that has everything imported
            self._context.set_forkserver_preload(["ultraspec.reproduce.worker"])

    def run(self, wanted: Iterable[Run], deadline: float = float("inf")) -> None:
        """Run all, but start none after the deadline (of `time.monotonic`).

        After the first run of a method on a data set that goes beyond a limit, its other seeds are left out.
        """
        waiting = dict.fromkeys(wanted)
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
                self._look()
        finally:
            for active in self._active:
                active.process.kill()

    def _may_start(self, run: Run) -> bool:
        """Whether another seed of it does not first have to show that it stays within the limits."""
        return run[:-1] in self._fine or all(active.run[:-1] != run[:-1] for active in self._active)

    def _start(self, run: Run) -> None:
        task = self._make_task(run)
        self._on_start(run)
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=work, args=(task, theirs), daemon=False)
        process.start()
        theirs.close()
        self._active.append(_Active(run, task, process, ours, time.monotonic()))

    def _look(self) -> None:
        """Wait a moment; end what is beyond its limits, store what has ended."""
        connection.wait([active.pipe for active in self._active], timeout=LOOK_SECONDS)
        for active in list(self._active):
            found = self._result(active)
            if found is None:
                continue
            self._active.remove(active)
            if active.process.is_alive() and found.get("na") in ("memory", "time"):
                active.process.kill()
            active.process.join()
            active.pipe.close()
            row = self._row(active, found)
            self._store.append(row)
            if row["na"] in ("memory", "time"):
                self._beyond.add(active.run[:-1])
            elif row["na"] is None:
                self._fine.add(active.run[:-1])
            self._on_end(active.run, row)

    def _result(self, active: _Active) -> dict[str, Any] | None:
        """What a run has given or why it is to end; None while it goes on."""
        if active.pipe.poll():
            try:
                return active.pipe.recv()
            except EOFError:
                active.process.join()
                return _death(active.process.exitcode)
        resident = resident_of(active.process.pid) or 0
        active.peak = max(active.peak, resident)
        most, spent = self._limits.memory_bytes, time.monotonic() - active.started
        if most is not None and resident > most:
            return {"na": "memory", "reason": f"out of memory: it held {_gb(resident)}, and the limit is {_gb(most)}"}
        if self._limits.seconds is not None and spent > self._limits.seconds:
            return {"na": "time", "reason": f"out of time: the limit is {self._limits.seconds:g} s"}
        return None

    def _row(self, active: _Active, found: Mapping[str, Any]) -> Row:
        run, task = active.run, active.task
        row = {
            "dataset": run.dataset,
            "scale": run.scale,
            "method": run.method,
            "parameters": json.loads(run.parameters),
            "seed": run.seed,
            "na": None,
            "reason": None,
            "estimator": task.estimator,
            **({"code": task.code} if task.code else {}),
            "data": task.data.stem,
            "rows": task.data.rows,
            "features": task.data.features,
            "clusters": task.data.clusters,
            "started": active.date,
            "load": active.load,  # of the machine when the run began: above the number of cores, times are too long
            "run_seconds": time.monotonic() - active.started,
            **found,
            "peak_bytes": max(active.peak, found.get("peak_bytes") or 0) or None,
            **self._facts,
        }
        figures = {name: round(value, 6) for name, value in row.items() if isinstance(value, float)}
        return {**row, **figures, "scale": run.scale}  # which says what run it is


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2f} GB"


def _death(code: int) -> dict[str, Any]:
    """Why a process ended without a result."""
    if code == -signal.SIGKILL:
        return {"na": "memory", "reason": "killed by the system, most likely for want of memory"}
    return {"na": "error", "reason": f"the process ended with code {code} and without a result"}


def versions() -> dict[str, str]:
    """What the figures were made by."""
    import numba
    import numpy
    import scipy
    import sklearn

    import ultraspec

    found = {module.__name__: module.__version__ for module in (ultraspec, numpy, scipy, sklearn, numba)}
    return {"python": platform.python_version(), **found}


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    return {"cpu": model, "cores": os.cpu_count(), "memory_bytes": total_bytes(), "system": platform.system()}
