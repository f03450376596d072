"""One run, in a process of its own: takes a task, sends its figures through a pipe."""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import USENC, USPEC, baselines, metrics  # noqa: F401 - loaded once, before processes are forked
from ultraspec.baselines.ensemble_baseline import combine_integers
from ultraspec.engines.threads import ThreadEngine
from ultraspec.reproduce import members
from ultraspec.reproduce.data import Prepared
from ultraspec.reproduce.memory import peak_bytes

WARM_UP_ROWS = 1000
MOST_NOTES = 3


@dataclass(frozen=True)
class Task:
    """What a process needs to know about its run."""

    data: Prepared
    estimator: str
    parameters: dict[str, Any]
    seed: int
    threads: int
    combines: bool
    own: bool
    members_folder: str
    module_folder: str  # where a user's own modules are looked for
    code: str = ""  # checksum of that module


def work(task: Task, pipe: Any) -> None:
    """Run a task; what it raises becomes a reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the runner too, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = measure(task)
        texts = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
        found["notes"] = [text[:300] for text in texts][:MOST_NOTES]
    except MemoryError as error:
        found = {"na": "memory", "reason": f"out of memory: {error}" if str(error) else "out of memory"}
    except Exception as error:
        found = {"na": "error", "reason": f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]}
    pipe.send({**found, "peak_bytes": max(peak_bytes() or 0, found.get("peak_bytes") or 0) or None})
    pipe.close()


def _end_with_parent() -> None:
    """A run does not outlive the program that asked for it, however that ends."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def measure(task: Task) -> dict[str, Any]:
    """Fit and score. The time is that of the fit alone: kernels are loaded on a few rows first."""
    X, y = task.data.open()
    if not task.own:  # what others would make of a second fit is not ours to know
        step = max(1, len(X) // WARM_UP_ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(task).fit(np.ascontiguousarray(X[::step][:WARM_UP_ROWS]))
    before = peak_bytes()
    found = _combine(task, X) if task.combines else _fit(task, X)
    labels = np.asarray(found.pop("labels"))
    if labels.shape != y.shape:
        raise ValueError(f"labels have the shape {labels.shape}, and there are {len(y)} rows")
    return {
        **found,
        "peak_bytes": max(peak_bytes() or 0, found.get("peak_bytes") or 0) or None,
        "base_bytes": before,
        "nmi": 100 * metrics.nmi(y, labels),
        "ca": 100 * metrics.majority_accuracy(y, labels),
        "ari": 100 * metrics.ari(y, labels),
        "found_clusters": len(np.unique(labels)),
    }


def _fit(task: Task, X: Any) -> dict[str, Any]:
    model = make(task)
    clock, cpu = time.perf_counter(), time.process_time()
    labels = model.fit_predict(X) if hasattr(model, "fit_predict") else model.fit(X).labels_
    return {"labels": labels, "seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}


def _combine(task: Task, X: Any) -> dict[str, Any]:
    """Join members that all ensemble methods share; the time is theirs and that of the consensus."""
    model = make(task)
    shared = members.get(model, X, Path(task.members_folder), task.seed)
    seed = np.random.SeedSequence(task.seed).spawn(3)[2]  # as the estimator has it
    clock, cpu = time.perf_counter(), time.process_time()
    with ThreadEngine(task.threads) as engine:
        labels = combine_integers(shared.labels, task.data.clusters, model._method(), seed, engine).labels
    seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
    return {
        "labels": labels,
        "seconds": shared.seconds + seconds,
        "cpu_seconds": shared.cpu_seconds + cpu_seconds,
        "consensus_seconds": seconds,
        "peak_bytes": shared.peak_bytes,
    }


def make(task: Task) -> Any:
    """The estimator of a task; a user's own gets of the usual parameters those that it has."""
    kind = find(task.estimator, task.module_folder)
    given = {"n_clusters": task.data.clusters, "random_state": task.seed, "n_jobs": task.threads}
    if task.own:
        known = inspect.signature(kind).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            given = {name: value for name, value in given.items() if name in known}
    return kind(**given, **task.parameters)


def find(name: str, folder: str = "") -> Any:
    """The class, or another callable that makes an estimator, that ``module:name`` stands for."""
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
    except Exception as error:  # whatever a user's module raises is about that module
        raise ValueError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise ValueError(f"{module_name} has no estimator {attribute!r}.")
    return found
