"""``ultraspec bench``: U-SPEC against scikit-learn's KMeans on this machine, in one run."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ultraspec import USPEC, datasets, metrics
from ultraspec.cli._screen import Screen, format_bytes
from ultraspec.engines.memory import resident_bytes
from ultraspec.engines.progress import format_duration
from ultraspec.engines.threads import count_jobs

WARM_UP_ROWS = 20_000
SAMPLE_SECONDS = 0.005


def run(n_rows: int, repeats: int, seed: int, n_jobs: int | None, screen: Screen) -> None:
    """Time both methods alternately on the data set 'cg', and print a table."""
    from sklearn.cluster import KMeans

    screen.say(f"Generating {n_rows:,} points of the data set 'cg', {datasets.N_CLASSES['cg']} classes ...")
    X, y = datasets.generate("cg", n_rows, random_state=seed)
    k = datasets.N_CLASSES["cg"]

    def make(name: str, number: int) -> Any:
        if name == "U-SPEC":
            return USPEC(k, random_state=seed + number, n_jobs=n_jobs)
        return KMeans(k, n_init=1, random_state=seed + number)

    results: dict[str, dict[str, list[Any]]] = {}
    screen.say("Compiling and warming up ...")
    for name in ("U-SPEC", "KMeans"):
        make(name, 0).fit(X[:WARM_UP_ROWS])
        results[name] = {"seconds": [], "bytes": [], "nmi": []}
    reporter = screen.reporter("bench")
    with reporter.phase("fits"):
        reporter.begin_pass(2 * repeats)
        for number in range(repeats):
            for name, measured in results.items():
                reporter.note(name)
                labels = fit_timed(make(name, number), X, measured)
                measured["nmi"].append(metrics.nmi(y, labels))
                reporter.advance()
    print_result(n_rows, seed, results, screen, count_jobs(n_jobs))


def fit_timed(model: Any, X: Any, measured: dict[str, list[Any]]) -> Any:
    """Fit; record time and memory; return the labels."""
    gc.collect()
    with measure_memory() as peak:
        started = time.perf_counter()
        labels = model.fit(X).labels_
        measured["seconds"].append(time.perf_counter() - started)
    measured["bytes"].append(peak[0])
    return labels


@contextmanager
def measure_memory() -> Iterator[list[int | None]]:
    """Yield a list that holds the peak of the additional resident memory, None if the system does not report it."""
    before = resident_bytes()
    peak = [None if before is None else 0]
    over = threading.Event()

    def sample() -> None:
        now = resident_bytes()
        if before is not None and now is not None:
            peak[0] = max(peak[0] or 0, now - before)

    def watch() -> None:
        while not over.wait(SAMPLE_SECONDS):
            sample()

    thread = threading.Thread(target=watch, name="ultraspec-memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
        sample()


def print_result(
    n_rows: int, seed: int, results: dict[str, dict[str, list[Any]]], screen: Screen, threads: int
) -> None:
    """Print the medians and the ratio of the times."""
    methods = {}
    for name, measured in results.items():
        known = [n for n in measured["bytes"] if n is not None]
        methods[name] = {
            "seconds": round(statistics.median(measured["seconds"]), 4),
            "runs": [round(seconds, 4) for seconds in measured["seconds"]],
            "peak_bytes": max(known) if known else None,
            "nmi": round(float(np.median(measured["nmi"])), 6),
        }
    ratio = methods["U-SPEC"]["seconds"] / methods["KMeans"]["seconds"]
    facts = {
        "command": "bench",
        "set": "cg",
        "rows": n_rows,
        "features": 2,
        "clusters": datasets.N_CLASSES["cg"],
        "seed": seed,
        "threads": threads,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "methods": methods,
        "ratio": round(ratio, 4),
    }
    lines = [("", f"{'time':>12}{'memory':>12}{'NMI':>9}")]
    lines += [
        (name, f"{format_duration(m['seconds']):>12}{format_bytes(m['peak_bytes']):>12}{m['nmi']:>9.4f}")
        for name, m in methods.items()
    ]
    repeats = len(methods["KMeans"]["runs"])
    taken = f"medians of {repeats} fits each" if repeats > 1 else "one fit each"
    lines.append(("Ratio", f"{ratio:>12.2f}  of times, U-SPEC to KMeans; {taken}"))
    screen.result(facts, lines)
