"""U-SPEC on a Dask cluster of one and of two processes with one thread each, and what a larger one would take.

From the times with one worker come the costs of a model: compute per row and pass, what is done once here, what a task
and a merge cost. The model must predict the time with two workers, and that of other chunks; then it is asked about ten
billion rows on a hundred nodes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
from common import machine, read_set, store

from ultraspec import USPEC, open_rows

P, D, K = 1000, 2, 11
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**26, "OMP_NUM_THREADS": 1}  # see the guide
PASSES = ("take", "labels")  # over all chunks


def chunked(path: Path, rows: int) -> Any:
    """Return a Dask array of a .npy file, whose chunks the workers read."""
    import dask
    import dask.array as da

    n = len(np.load(path, mmap_mode="r"))
    read = dask.delayed(_read, pure=True)
    parts = [(low, min(low + rows, n)) for low in range(0, n, rows)]
    return da.concatenate(
        [da.from_delayed(read(str(path), *part), (part[1] - part[0], 2), np.float32) for part in parts]
    )


def _read(path: str, low: int, high: int) -> np.ndarray:
    return np.array(np.load(path, mmap_mode="r")[low:high])


def time_fits(n_workers: int, path: Path, rows: int, repeats: int) -> dict[str, Any]:
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.nanny.pre-spawn-environ": ALLOCATOR})
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        X = chunked(path, rows)
        USPEC(K, random_state=0).fit(X)  # compiles on every worker
        seconds, cpu, phases, moved = [], [], [], 0
        for _ in range(repeats):
            client.run(_forget)
            started, before = time.perf_counter(), _cpu_seconds(client)
            model = USPEC(K, random_state=0).fit(X)
            seconds.append(time.perf_counter() - started)
            cpu.append(_cpu_seconds(client) - before)
            phases.append({name: facts["seconds"] for name, facts in model.fit_profile_.items()})
            moved = sum(client.run(_moved).values())
        started = time.perf_counter()
        model.labels_.max().compute()
        labels = time.perf_counter() - started
    middle = {name: statistics.median(found[name] for found in phases) for name in phases[0]}
    return {
        "workers": n_workers,
        "rows": len(X),
        "chunk_rows": rows,
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "cpu_seconds": statistics.median(cpu),
        "phases": middle,
        "labels_seconds": labels,
        "bytes_between_workers": moved,
    }


def time_threads(path: Path, repeats: int) -> dict[str, Any]:
    """Return the CPU seconds of a fit by the thread engine, on the same file."""
    USPEC(K, random_state=0).fit(np.load(path, mmap_mode="r")[:100_000])  # compiles
    cpu = []
    for _ in range(repeats):
        started = time.process_time()
        with open_rows(path) as rows:
            USPEC(K, random_state=0).fit(rows)
            n = len(rows)
        cpu.append(time.process_time() - started)
    return {"rows": n, "cpu_seconds": statistics.median(cpu)}


def _cpu_seconds(client: Any) -> float:
    """Return the CPU time of all workers and of this process."""
    return sum(client.run(time.process_time).values()) + time.process_time()


def _forget(dask_worker: Any) -> None:
    dask_worker.transfer_incoming_log.clear()


def _moved(dask_worker: Any) -> int:
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def fit_model(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds once, per chunk and per row of one worker: a plane through the runs with one worker."""
    one = [run for run in runs if run["workers"] == 1]
    A = np.array([[1.0, -(-run["rows"] // run["chunk_rows"]), run["rows"]] for run in one])
    weights = 1 / np.array([run["seconds"] for run in one])
    found = scipy.optimize.nnls(A * weights[:, None], np.ones(len(one)))[0]  # no cost is below zero
    return dict(zip(("once", "per_chunk", "per_row"), found.tolist(), strict=True))


def predict(
    model: dict[str, float], rows: float, chunk_rows: float, threads: int, bandwidth: float = 1e9
) -> dict[str, float]:
    """Seconds and bytes of a fit.

    Chunks are shared by threads; a chunk's own costs (reading, a task for each pass) are, too. The p x p sums are
    merged as a tree: its levels follow one another, and each moves a matrix and adds it up.
    """
    chunks = math.ceil(rows / chunk_rows)
    share = math.ceil(chunks / threads)
    compute = share * (model["per_row"] * chunk_rows + model["per_chunk"])
    levels = math.ceil(math.log2(max(chunks, 2)))
    matrix = 8.0 * P * P
    tree = levels * (matrix / bandwidth + 0.004) if threads > 1 else 0.0
    schedule = 0.0005 * len(PASSES) * chunks if threads > 2 else 0.0  # the scheduler's own time for a task
    state = threads * (4.0 * P * D + 2.0 * P * 51 + 4.0 * P * 60)
    moved = state * len(PASSES) + matrix * chunks
    return {"seconds": model["once"] + compute + tree + schedule, "bytes_moved": moved, "chunks": chunks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        n = options.rows
        path, half = Path(folder) / "cg.npy", Path(folder) / "half.npy"
        X = read_set("cg", n)[0]
        np.save(path, X)
        np.save(half, X[: n // 2])
        del X
        plan = [(1, half, n // 10), (1, path, n // 10), (1, path, n // 40), (2, path, n // 10), (2, path, n // 40)]
        result["threads"] = [time_threads(file, options.repeats) for file in (half, path)]
        for workers, file, chunk in plan:
            found = time_fits(workers, file, chunk, options.repeats)
            result["runs"].append(found)
            print(
                f"{workers} workers, {found['rows']:,} rows in chunks of {chunk:,}: {found['seconds']:.2f} s",
                flush=True,
            )
            store("dask_scaling", result)
    judge(result)
    store("dask_scaling", result)
    print(result["model"], result["ten_billion"])


def judge(result: dict[str, Any]) -> None:
    """Add the model, and what it says of each run and of ten billion rows."""
    result["model"] = model = fit_model(result["runs"])
    for run in result["runs"]:
        run["predicted"] = predict(model, run["rows"], run["chunk_rows"], run["workers"])["seconds"]
    result["ten_billion"] = predict(model, 1e10, 8e6, 100 * 8)
    large = [run for run in result["runs"] if run["chunk_rows"] == result["runs"][0]["chunk_rows"]]
    by_workers = {n: [run for run in large if run["workers"] == n] for n in (1, 2)}
    result["cpu_per_row"] = {"dask": slope(by_workers[1]), "threads": slope(result["threads"])}
    result["speedup"] = by_workers[1][-1]["seconds"] / by_workers[2][-1]["seconds"]


def slope(runs: list[dict[str, Any]]) -> float:
    """Return the CPU seconds that a further row costs, given a run with half of the rows and one with all."""
    less, more = runs
    return (more["cpu_seconds"] - less["cpu_seconds"]) / (more["rows"] - less["rows"])


if __name__ == "__main__":
    main()
