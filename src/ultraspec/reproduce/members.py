"""Base clusterings that the ensemble methods share: made once for a data set and a seed, and kept on disk.

A method gets the very members that its estimator would make, and its time counts them as if it had made them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.baselines._kmeans_members import kmeans_members
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.members import prepare
from ultraspec.reproduce.memory import peak_bytes
from ultraspec.rows import ArrayRows
from ultraspec.spectral.preprocess import survey
from ultraspec.storage.atomic import write_whole
from ultraspec.storage.spool import as_array

MANY_ROWS = 30_000  # from here on members are made a few at a time: a run that is ended leaves them to the next
FEW = 5


@dataclass(frozen=True)
class Members:
    """Labels (N, m) of members, and what they took."""

    labels: npt.NDArray[Any]
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None


def get(estimator: Any, X: npt.NDArray[Any], folder: Path, seed: int) -> Members:
    """The members of an ensemble estimator, from disk as far as they are there."""
    m = int(estimator.n_estimators)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        found = _batches(folder)
        have = sum(batch["count"] for batch in found)
        if have < m:
            _make(estimator, X, folder, seed, have, m)
            found = _batches(folder)
    columns, seconds, cpu, peaks = [], 0.0, 0.0, []
    left = m
    for batch in found:
        used = min(left, batch["count"])
        if not used:
            break
        left -= used
        columns.append(np.load(folder / batch["file"], mmap_mode="r")[:, :used])
        share = used / batch["count"]
        seconds, cpu = seconds + share * batch["seconds"], cpu + share * batch["cpu_seconds"]
        peaks.append(batch["peak_bytes"])
    known = [peak for peak in peaks if peak is not None]
    return Members(np.concatenate(columns, axis=1), seconds, cpu, max(known) if known else None)


def _make(estimator: Any, X: npt.NDArray[Any], folder: Path, seed: int, have: int, m: int) -> None:
    """Add members to a folder, seeded as the estimator's own."""
    base_range = estimator._base_range(estimator._check_members(), len(X))
    seeds = np.random.SeedSequence(seed).spawn(3)
    of_members = seeds[1].spawn(m)
    step = FEW if len(X) > MANY_ROWS else m
    with ThreadEngine(estimator.n_jobs) as engine:
        clock, cpu = time.perf_counter(), time.process_time()
        rows = ArrayRows(X)
        space = survey(rows, "euclidean", np.random.default_rng(seeds[0]), engine)
        prepared = prepare(rows, space, engine)
        for low in range(have, m, step):
            some = of_members[low : low + step]
            labels = as_array(kmeans_members(prepared, base_range, int(estimator.base_max_iter), some, engine))
            took = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}
            stem = f"members-{low:03d}"
            write_whole(folder / f"{stem}.npy", lambda file, labels=labels: np.save(file, labels))  # type: ignore[misc]
            facts = {"file": f"{stem}.npy", "count": len(some), **took, "peak_bytes": peak_bytes()}
            text = json.dumps(facts).encode()
            write_whole(folder / f"{stem}.json", lambda file, text=text: file.write(text))  # type: ignore[misc]
            clock, cpu = time.perf_counter(), time.process_time()


def _batches(folder: Path) -> list[dict[str, Any]]:
    """What is there, in order."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("members-*.json"))]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time makes members of a data set and a seed; others wait and find them."""
    try:
        import fcntl
    except ImportError:  # a system without such locks: they may be made twice
        yield
        return
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
