"""Measures U-SPEC on generated cytometry data from Parquet files: fifty million cells, populations down to 0.05 %.

``python benchmarks/cytometry.py [rows [discretize]]`` generates intensities, writes them, transformed by arcsinh, to a
temporary folder of Parquet files (74 bytes a cell, deleted afterwards), fits and scores. ``TMPDIR`` chooses the disk.
Results are stored in results/cytometry.json, under the number of rows and `discretize`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import changing, machine

MARKERS = 12
SHARES = np.array([24, 18, 14, 11, 8, 6, 5, 4, 3, 2.4, 1.6, 1.0, 0.8, 0.5, 0.3, 0.2, 0.1, 0.05, 0.05, 0.05])
PART = 1_000_000  # cells of a file
COFACTOR = 5.0  # of arcsinh, as usual for mass cytometry


def populations(seed: int) -> np.ndarray:
    """Return the mean of each population on each marker, after arcsinh: negative, dim or positive.

    Any two populations differ clearly on at least two markers.
    """
    rng = np.random.default_rng(seed)
    means: list[np.ndarray] = []
    while len(means) < len(SHARES):
        new = rng.choice([0.4, 2.2, 4.2], size=MARKERS, p=[0.55, 0.1, 0.35])
        if all((abs(new - old) > 1.5).sum() >= 2 for old in means):
            means.append(new)
    return np.array(means)


def generate_cells(n: int, seed: int, part: int) -> tuple[np.ndarray, np.ndarray]:
    """Return raw intensities of `n` cells, float32, and the population of each; `part` chooses other cells."""
    rng = np.random.default_rng([seed, part])
    means = populations(seed)
    y = rng.choice(len(SHARES), size=n, p=SHARES / SHARES.sum()).astype(np.int8)
    X = means[y].astype(np.float32) + 0.45 * rng.standard_normal((n, MARKERS), dtype=np.float32)
    return COFACTOR * np.sinh(X), y


def write_files(folder: Path, n: int, seed: int) -> np.ndarray:
    """Write cells, transformed by arcsinh, as Parquet files; return their populations."""
    import pyarrow
    import pyarrow.parquet

    truth = []
    for part in range(-(-n // PART)):
        raw, y = generate_cells(min(PART, n - part * PART), seed, part)
        X = np.arcsinh(raw / np.float32(COFACTOR))
        table = pyarrow.table({f"marker{j}": X[:, j] for j in range(MARKERS)})
        pyarrow.parquet.write_table(
            table, folder / f"part{part:03}.parquet", row_group_size=250_000, compression="none"
        )
        truth.append(y)
    return np.concatenate(truth)


def fit(folder: str, discretize: str) -> dict[str, Any]:
    """Fit the cells in a folder, store the labels beside it, and return time and memory."""
    from ultraspec import USPEC, open_rows

    rng = np.random.default_rng(0)
    small = rng.normal(size=(20_000, MARKERS)).astype(np.float32)
    USPEC(20, graph_rows=10_000, discretize=discretize, random_state=0).fit(small)  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu = time.perf_counter(), time.process_time()
    with open_rows(folder) as rows:
        model = USPEC(len(SHARES), discretize=discretize, graph_rows=1_000_000, random_state=0).fit(rows)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    np.save(f"{folder}.npy", model.labels_)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "bytes_above": 1024 * (peak - before),
        "bytes_peak": 1024 * peak,
        "n_representatives": len(model.representatives_),
    }


def scores(y: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Compare labels with populations; one is found if a cluster has an F1 of at least 0.8 for it."""
    from ultraspec import metrics

    table = np.zeros((len(SHARES), labels.max() + 1))
    for start in range(0, len(y), PART):
        np.add.at(table, (y[start : start + PART], labels[start : start + PART]), 1)
    f1 = (2 * table / (table.sum(axis=1, keepdims=True) + table.sum(axis=0))).max(axis=1)
    return {
        "ari": metrics.ari(y, labels),
        "f1": f1.round(3).tolist(),
        "found": int((f1 >= 0.8).sum()),
        "rare_found": int((f1[-3:] >= 0.8).sum()),
    }


def main(n: int, discretize: str) -> None:
    """Write, fit and score `n` cells."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "cells")
        folder.mkdir()
        started = time.perf_counter()
        y = write_files(folder, n, seed=1)
        writing = time.perf_counter() - started
        size = sum(file.stat().st_size for file in folder.iterdir())
        command = [sys.executable, __file__, "--fit", str(folder), discretize]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        labels = np.load(f"{folder}.npy", mmap_mode="r")
        found = {"rows": n, "writing_seconds": writing, "file_bytes": size, **json.loads(done.stdout.splitlines()[-1])}
        found |= scores(y, labels)
    with changing("cytometry") as result:
        result["machine"] = machine()
        result.setdefault("runs", {})[f"{n}-{discretize}"] = found
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        print(json.dumps(fit(*sys.argv[2:])))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 50_000_000, sys.argv[2] if sys.argv[2:] else "kmeans")
