"""U-SPEC against scikit-learn on the same data in the same run: times, ratios, memory, start-up.

Every ratio is of medians of alternating runs after a warm-up. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from typing import Any

import numpy as np
from common import Ratio, clock, compare_all, fetch, machine, memory_above_input, python, read_set, store
from sklearn.cluster import KMeans, SpectralClustering
from threadpoolctl import threadpool_limits

from ultraspec import USPEC
from ultraspec.cluster.points import FEW_FEATURES
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.representatives import select_representatives

RATIOS: list[Ratio] = [
    ("CG-10M", "cg", 10_000_000, 11, lambda k: KMeans(k, n_init=1, random_state=0), 0.35),
    ("CC-10M", "cc", 10_000_000, 3, lambda k: KMeans(k, n_init=1, random_state=0), 0.8),
    ("MNIST", "mnist", None, 10, lambda k: KMeans(k, n_init=1, random_state=0), 1.5),
    ("Covertype", "covertype", None, 7, lambda k: KMeans(k, n_init=1, random_state=0), 0.8),
    ("1M x 64", "blobs", 1_000_000, 20, lambda k: KMeans(k, n_init=1, random_state=0), 1.2),
    (
        "PenDigits",
        "pendigits",
        None,
        10,
        lambda k: SpectralClustering(k, affinity="nearest_neighbors", random_state=0),
        1.0,
    ),
]


def scaling(result: dict[str, Any], repeats: int) -> None:
    medians = {}
    for n_rows in (1_000_000, 10_000_000):
        X, _ = read_set("cg", n_rows)
        medians[n_rows] = statistics.median(
            clock(lambda: USPEC(11, random_state=seed).fit(X))  # noqa: B023
            for seed in range(repeats)
        )
    growth = medians[10_000_000] / medians[1_000_000]
    result["scaling"] = {"seconds": {str(n): s for n, s in medians.items()}, "growth": growth, "limit": 10.5}
    print(f"CG 10M / 1M: {growth:.2f} x the time (<= 10.5)")
    store("speed", result)


def memory(result: dict[str, Any]) -> None:
    result["memory"] = memory_above_input("CG-10M", "cg", 10_000_000, "USPEC(11, random_state=0)", 48, 300_000_000)
    store("speed", result)


START = """
import sys, time
import numpy as np
started = time.perf_counter()
import ultraspec
imported = time.perf_counter() - started
rng = np.random.default_rng(0)
X = rng.normal(size=(20000, 2)).astype(np.float32)
from ultraspec import USPEC
times = []
for _ in range(4):
    started = time.perf_counter()
    USPEC(5, random_state=0).fit(X)
    times.append(time.perf_counter() - started)
print([imported, times[0] - sorted(times[1:])[1]])
"""


def start(result: dict[str, Any]) -> None:
    cold, warm = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(json.loads(python(START, NUMBA_CACHE_DIR=cache)))
            warm.append(json.loads(python(START, NUMBA_CACHE_DIR=cache)))
    result["start"] = {
        "import_seconds": statistics.median(run[0] for run in cold + warm),
        "first_fit_ever_extra": statistics.median(run[1] for run in cold),
        "first_fit_in_process_extra": statistics.median(run[1] for run in warm),
        "limits": {"import_seconds": 0.7, "first_fit_ever_extra": 8.0, "first_fit_in_process_extra": 1.0},
    }
    print({k: round(v, 2) for k, v in result["start"].items() if k != "limits"})
    store("speed", result)


def peak(result: dict[str, Any]) -> None:
    """Share of the machine's matrix-product peak that the neighbour search reaches."""
    random = np.random.default_rng(0)
    a, b = random.random((4096, 1024), dtype=np.float32), random.random((1024, 4096), dtype=np.float32)
    with threadpool_limits(os.cpu_count()):
        best = 2 * 4096 * 4096 * 1024 / min(clock(lambda: a @ b) for _ in range(5)) / 1e9
    result["peak"] = {"gemm_gflops": best, "search": {}}
    for name, dataset, n_rows in (("CG-2M", "cg", 2_000_000), ("MNIST", "mnist", None)):
        X = read_set(dataset, n_rows)[0].astype(np.float32)
        X /= np.abs(X).max()
        n, d = X.shape
        for exact in (False, True):
            with ThreadEngine(None) as engine:
                R = select_representatives(ArrayRows(X), 1000, "hybrid", 10, "euclidean", random, engine)
                index = RepresentativeIndex.build(R, 5, 10, exact, random, engine)
                rows = ArrayRows(X)

                def run(span: tuple[int, int], index: Any = index, rows: Any = rows) -> int:
                    return len(index.query(rows.read(*span))[0])

                engine.map(run, rows.blocks()[:2])
                seconds = statistics.median(clock(lambda: engine.map(run, rows.blocks())) for _ in range(3))  # noqa: B023
            z = len(index.centers)
            pairs = 1000 if exact else z + 1000 / z + index.lists.shape[1]
            operations = (
                2 if exact and d > FEW_FEATURES else 3
            )  # a product's multiply and add; a distance's third, minus
            gflops = n * pairs * operations * d / seconds / 1e9
            form = "exact" if exact else "approx"
            result["peak"]["search"][f"{name} {form}"] = {"seconds": seconds, "gflops": gflops, "share": gflops / best}
            print(f"{name} {form}: {seconds:.2f} s, {gflops:.0f} of {best:.0f} GFLOP/s = {gflops / best:.0%}")
    store("speed", result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["ratios", "scaling", "memory", "start", "peak"])
    options = parser.parse_args()
    result = fetch("speed")
    result["machine"] = machine()
    result.setdefault("ratios", {})
    if "start" in options.only:
        start(result)
    if "peak" in options.only:
        peak(result)
    if "ratios" in options.only:
        compare_all(USPEC, RATIOS, result, "speed", options.repeats)
    if "scaling" in options.only:
        scaling(result, options.repeats)
    if "memory" in options.only:
        memory(result)


if __name__ == "__main__":
    main()
