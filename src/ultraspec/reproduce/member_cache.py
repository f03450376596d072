"""Base clusterings that the ensemble methods share: made once for a data set and a seed, and kept on disk.

A method gets the members that its estimator would make, and its time includes theirs, as if it had made them.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import seed_sequence
from ultraspec.baselines.ensemble_baseline import EnsembleBaseline, combine_labels, generate_kmeans_members
from ultraspec.engines.memory import peak_bytes
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral.preprocess import Preprocessor, prepare_rows
from ultraspec.storage.atomic import write_atomically
from ultraspec.storage.locks import lock_file
from ultraspec.storage.spool import as_array

MANY_ROWS = 30_000  # above, members are written in batches: what a run made before its limit serves the next run
BATCH = 5

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Members:
    """Labels (N, m) of members, and the time and memory that making them took."""

    labels: Array
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None


def get_members(estimator: EnsembleBaseline, X: Array, folder: Path) -> Members:
    """Return the members of an ensemble estimator; those that the folder lacks are made and written to it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "wb") as file:
        lock_file(file, wait=True)  # another process may be making the same members
        batches = _read_batches(folder)
        n_members = sum(batch["count"] for batch in batches)
        if n_members < estimator.n_estimators:
            _write_batches(estimator, X, folder, n_members)
            batches = _read_batches(folder)
    left = int(estimator.n_estimators)
    columns = []
    peaks = []
    seconds = 0.0
    cpu_seconds = 0.0
    for batch in batches:
        used = min(left, batch["count"])
        if not used:
            break
        left -= used
        columns.append(np.load(folder / batch["file"], mmap_mode="r")[:, :used])
        share = used / batch["count"]
        seconds += share * batch["seconds"]
        cpu_seconds += share * batch["cpu_seconds"]
        peaks.append(batch["peak_bytes"])
    known = [peak for peak in peaks if peak is not None]
    return Members(np.concatenate(columns, axis=1), seconds, cpu_seconds, max(known) if known else None)


def _write_batches(estimator: EnsembleBaseline, X: Array, folder: Path, first: int) -> None:
    """Make the members from number `first` on; after each batch, write its labels, then what it took."""
    m = int(estimator.n_estimators)
    step = BATCH if len(X) > MANY_ROWS else m
    survey_seed, member_seed, _ = seed_sequence(estimator.random_state).spawn(3)  # as in `estimator.fit`
    seeds = member_seed.spawn(m)
    with ThreadEngine(estimator.n_jobs) as engine:
        clock, cpu = time.perf_counter(), time.process_time()
        rows = ArrayRows(X)
        preprocessor = Preprocessor.fit(rows, "euclidean", np.random.default_rng(survey_seed), engine)
        prepared = prepare_rows(rows, preprocessor, engine)
        for low in range(first, m, step):
            labels = as_array(generate_kmeans_members(estimator, prepared, seeds[low : low + step], engine))
            name = f"members-{low:03d}"
            facts = {
                "file": f"{name}.npy",
                "count": labels.shape[1],
                "seconds": time.perf_counter() - clock,
                "cpu_seconds": time.process_time() - cpu,
                "peak_bytes": peak_bytes(),
            }
            write_atomically(folder / f"{name}.npy", partial(np.save, arr=labels))
            text = json.dumps(facts).encode()
            write_atomically(folder / f"{name}.json", lambda file, text=text: file.write(text))  # type: ignore[misc]
            clock, cpu = time.perf_counter(), time.process_time()


def combine_members(estimator: EnsembleBaseline, labels: Array) -> Array:
    """Combine the labels of members as the estimator itself would."""
    seed = seed_sequence(estimator.random_state).spawn(3)[2]
    with ThreadEngine(estimator.n_jobs) as engine:
        return combine_labels(estimator, labels, seed, engine).labels


def _read_batches(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("members-*.json"))]
