"""One run in its own process: takes a task, sends the results through a pipe."""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import USENC, USPEC, baselines, metrics  # noqa: F401 - loaded once, before processes are forked
from ultraspec.engines.memory import peak_bytes
from ultraspec.reproduce.dataset_cache import CachedDataset
from ultraspec.reproduce.declarations import Method
from ultraspec.reproduce.member_cache import combine_members, get_members

WARM_UP_ROWS = 1000
MAX_NOTES = 3


@dataclass(frozen=True)
class Task:
    """What a process needs to know about its run."""

    data: CachedDataset
    method: Method
    parameters: dict[str, Any]
    seed: int
    threads: int
    members_folder: str
    module_folder: str  # where a user's modules are searched first


def work(task: Task, pipe: Any, measure: Callable[[Task], dict[str, Any]]) -> None:
    """Run a task and send its results, or the reason why there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the runner too, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = measure(task)
        texts = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
        results["notes"] = [text[:300] for text in texts][:MAX_NOTES]
    except MemoryError as error:
        results = {"na": "memory", "reason": f"out of memory: {error}" if str(error) else "out of memory"}
    except Exception as error:
        results = {"na": "error", "reason": f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]}
    pipe.send({**results, "peak_bytes": _peak_with(results)})
    pipe.close()


def _end_with_parent() -> None:
    """End this process when the one that started it ends, for whatever reason."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def measure(task: Task) -> dict[str, Any]:
    """Fit and score. Only the fit is timed; kernels are compiled or loaded before, on a few rows."""
    X, y = task.data.open()
    if not task.method.custom:  # a user's estimator may not support a second fit
        step = max(1, len(X) // WARM_UP_ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build_estimator(task).fit(np.ascontiguousarray(X[::step][:WARM_UP_ROWS]))
    base_bytes = peak_bytes()
    results = _fit_shared(task, X) if task.method.combines else _fit(task, X)
    labels = np.asarray(results.pop("labels"))
    if labels.shape != y.shape:
        raise ValueError(f"labels have the shape {labels.shape}, but there are {len(y)} rows")
    return {
        **results,
        "peak_bytes": _peak_with(results),
        "base_bytes": base_bytes,
        "nmi": 100 * metrics.nmi(y, labels),
        "ca": 100 * metrics.majority_accuracy(y, labels),
        "ari": 100 * metrics.ari(y, labels),
        "ami": 100 * metrics.ami(y, labels),
        "hungarian": 100 * metrics.hungarian_accuracy(y, labels),
        "found_clusters": len(np.unique(labels)),
    }


def _peak_with(results: dict[str, Any]) -> int | None:
    """Return the peak memory of this process, or of the process that made the shared members if that is higher."""
    return max(peak_bytes() or 0, results.get("peak_bytes") or 0) or None


def _fit(task: Task, X: Any) -> dict[str, Any]:
    model = build_estimator(task)
    clock, cpu = time.perf_counter(), time.process_time()
    labels = model.fit_predict(X) if hasattr(model, "fit_predict") else model.fit(X).labels_
    return {"labels": labels, "seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}


def _fit_shared(task: Task, X: Any) -> dict[str, Any]:
    """Combine the members that all ensemble methods share; the time is that of the members and of the consensus."""
    model = build_estimator(task)
    members = get_members(model, X, Path(task.members_folder))
    clock, cpu = time.perf_counter(), time.process_time()
    labels = combine_members(model, members.labels)
    seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
    return {
        "labels": labels,
        "seconds": members.seconds + seconds,
        "cpu_seconds": members.cpu_seconds + cpu_seconds,
        "consensus_seconds": seconds,
        "peak_bytes": members.peak_bytes,
    }


def build_estimator(task: Task) -> Any:
    """Build the estimator of a task; a user's estimator gets only those usual parameters that it has."""
    kind = find_estimator(task.method.estimator, task.module_folder)
    usual = {"n_clusters": task.data.clusters, "random_state": task.seed, "n_jobs": task.threads}
    if task.method.custom:
        known = inspect.signature(kind).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            usual = {name: value for name, value in usual.items() if name in known}
    return kind(**usual, **task.parameters)


def find_estimator(name: str, folder: str = "") -> Any:
    """Import ``module:name``, a class or another callable that returns an estimator; `folder` is searched first."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ValueError(f"{name!r} names no estimator. Write module:Estimator, as in my_module:MyEstimator.")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.split(".")[0] == error.name.split(".")[0]:
            raise ValueError(f"There is no module {error.name!r}, here or installed.") from error
        raise ValueError(f"{module_name} cannot be imported: {error}") from error
    except Exception as error:  # a user's module may raise anything
        raise ValueError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    estimator: Any = module
    for part in attribute.split("."):
        estimator = getattr(estimator, part, None)
    if not callable(estimator):
        raise ValueError(f"{module_name} has no estimator {attribute!r}.")
    return estimator
