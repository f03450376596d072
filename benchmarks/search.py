"""The search for nearest representatives against one matrix product of the same size, in the same run.

The product is of N rows with as many columns as the search has distances by definition: z1 + p / z1 + K' + 1 for the
search of the paper (z1 rep-clusters, K' listed neighbours), p for the exact search, and z1 + the representatives of the
rep-clusters around the row where these are probed. NumPy computes it in float32, on as many threads, into memory that
was written before.

Runs alternate, and ratios are of medians. Nothing else should run on the machine meanwhile. Where that cannot be had, the
ratio of CPU seconds is the better one, and the load of the machine is stored beside each line. Its product runs on one
thread: threads of BLAS that wait for each other on a busy machine use CPU time, too, which would make the product look
slow. GFLOP/s and the peak are per CPU second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import blobs, fetch, machine, store
from threadpoolctl import threadpool_limits

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral.edges import Edges, connect
from ultraspec.spectral.neighbors import ProbeIndex, RepresentativeIndex
from ultraspec.spectral.representatives import select_representatives

K = 5
FACTOR = 10
OUT_VALUES = 2**28  # values of the product in memory, at most; further rows are multiplied into the same memory
LIMITS = {"approx": 2.5, "probe": 2.5, "exact": 1.5}

# rows, features, classes (0: one Gaussian cloud), representatives, searches
LINES: list[tuple[int, int, int, int, tuple[str, ...]]] = [
    (2_000_000, 16, 20, 1000, ("approx", "exact")),
    (1_000_000, 64, 20, 1000, ("approx", "exact")),
    (500_000, 128, 30, 1000, ("approx", "exact")),
    (100_000, 768, 30, 1000, ("approx", "exact")),
    (100_000, 384, 0, 1000, ("approx", "exact")),
    (500_000, 16, 20, 10_000, ("approx", "probe", "exact")),
    (500_000, 64, 20, 10_000, ("approx", "probe", "exact")),
    (200_000, 128, 30, 10_000, ("approx", "probe", "exact")),
    (100_000, 384, 0, 10_000, ("approx", "probe", "exact")),
]


def seconds_of(function: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


def build(X: np.ndarray, p: int, form: str, engine: ThreadEngine) -> RepresentativeIndex:
    """Build the index of one form of the search, of representatives that are selected as by default."""
    random = np.random.default_rng(0)
    R = select_representatives(ArrayRows(X), p, "hybrid", 10, "euclidean", random, engine)
    if form == "probe":
        return ProbeIndex.probe(R, K, random, engine)
    return RepresentativeIndex.build(R, K, FACTOR, form == "exact", random, engine)


def width_of(index: RepresentativeIndex, form: str) -> int:
    """Distances per row by the definition of the search."""
    p, z = len(index.representatives), len(index.centers)
    if form == "exact":
        return p
    if form == "probe":
        return round(z + index.lists.shape[1] * p / z)
    return round(z + p / z + index.lists.shape[1])


def measure(X: np.ndarray, p: int, form: str, threads: int, repeats: int) -> dict[str, Any]:
    """Time the search and the product, alternating, after a warm-up of each."""
    n, d = X.shape
    rows = ArrayRows(X)
    with ThreadEngine(threads) as engine:
        index = build(X, p, form, engine)
        connect(ArrayRows(X[:20_000]), index, engine, warn=False)
    width = width_of(index, form)
    columns = np.random.default_rng(1).standard_normal((d, width), dtype=np.float32)
    step = min(n, OUT_VALUES // width)
    out = np.zeros((step, width), dtype=np.float32)
    edges = Edges.empty(n, index.n_neighbors)
    edges.ids[:] = 0
    edges.weights[:] = 0

    def search() -> None:
        connect(rows, index, engine, out=edges, warn=False)

    def multiply() -> None:
        for low in range(0, n, step):
            part = X[low : low + step]
            np.matmul(part, columns, out=out[: len(part)])

    searches, products, single = [], [], []
    for _ in range(repeats):
        with ThreadEngine(threads) as engine:
            searches.append(seconds_of(search))
        with threadpool_limits(threads):
            products.append(seconds_of(multiply))
        with threadpool_limits(1):
            single.append(seconds_of(multiply))
    wall, cpu = (statistics.median(times) for times in zip(*searches, strict=True))
    product_wall = statistics.median(wall for wall, _ in products)
    product_cpu = statistics.median(cpu for _, cpu in single)
    result = {
        "rows": n,
        "features": d,
        "representatives": p,
        "search": form,
        "width": width,
        "largest_cell": int(np.diff(index.starts).max()),
        "mean_cell": float((np.diff(index.starts) ** 2).sum() / p),  # of a representative
        "projects": form != "probe"
        and index._bound.basis is not None,  # then most distances are excluded, and the ratio counts that
        "seconds": wall,
        "product_seconds": product_wall,
        "ratio": wall / product_wall,
        "cpu_ratio": cpu / product_cpu,
        "cpu_seconds": cpu,
        "product_cpu_seconds": product_cpu,
        "gflops_per_core": 2 * n * d * width / cpu / 1e9,
        "load": os.getloadavg()[0],
        "limit": LIMITS[form],
    }
    print(
        f"{n:>9,} x {d:<4} p = {p:<6,} {form:<7} {wall:6.2f} s   product {product_wall:6.2f} s   "
        f"ratio {result['ratio']:5.2f} (<= {LIMITS[form]}), of CPU seconds {result['cpu_ratio']:5.2f}   "
        f"{result['gflops_per_core']:4.0f} GFLOP/s a core",
        flush=True,
    )
    return result


def peak() -> float:
    """GFLOP/s of a large product on one core."""
    random = np.random.default_rng(0)
    a, b = random.random((2048, 1024), dtype=np.float32), random.random((1024, 2048), dtype=np.float32)
    with threadpool_limits(1):
        seconds = min(seconds_of(lambda: a @ b)[1] for _ in range(9))
    return 2 * 2048 * 2048 * 1024 / seconds / 1e9


def rows_of(n: int, d: int, classes: int) -> np.ndarray:
    """Overlapping Gaussian classes, or one cloud."""
    if classes:
        return blobs(n, 0, classes, d)[0]
    return np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--name", default="now", help="what the measurements are stored as: before or now")
    parser.add_argument("--features", type=int, nargs="*", help="only lines with these numbers of features")
    parser.add_argument("--representatives", type=int, nargs="*", help="only lines with these numbers of them")
    parser.add_argument("--forms", nargs="*", default=list(LIMITS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--dry", action="store_true", help="store nothing")
    options = parser.parse_args()
    result = {**fetch("search"), "machine": machine()}
    lines = result.setdefault(options.name, {})
    result[f"peak_{options.name}"] = peak()
    print(f"peak {result[f'peak_{options.name}']:.0f} GFLOP/s a core")
    for n, d, classes, p, forms in LINES:
        if options.features and d not in options.features:
            continue
        if options.representatives and p not in options.representatives:
            continue
        X = rows_of(int(n * options.scale), d, classes)
        for form in forms:
            if form in options.forms:
                key = f"{len(X)} x {d}, {classes}, {p}, {form}"
                lines[key] = measure(X, p, form, options.threads, options.repeats)
                if not options.dry:
                    store("search", result)


if __name__ == "__main__":
    main()
