"""What the benchmarks share: the data sets, the machine, results on disk."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import datasets, metrics
from ultraspec.reproduce import paper_results
from ultraspec.reproduce.store import read
from ultraspec.reproduce.summary import Summary

# name, data set, rows, clusters, peer, at most so many times the peer's time
Ratio = tuple[str, str, int | None, int, Callable[[int], Any], float]

HERE = Path(__file__).parent
RESULTS = HERE / "results"
REPRODUCTION = HERE.parent / "docs" / "reproduction"  # store, tables and cache of `ultraspec reproduce`
PAPER_SCALE = ("nmi", "ca", "ami", "ari", "hungarian")  # order of the scores of a run; the paper has the first two

# the paper's ten data sets: name there, name here, rows (None: as loaded), clusters
SETS = [
    ("PenDigits", "pendigits", None, 10),
    ("USPS", "usps", None, 10),
    ("Letters", "letters", None, 26),
    ("MNIST", "mnist", None, 10),
    ("Covertype", "covertype", None, 7),
    ("TB-1M", "tb", 1_000_000, 2),
    ("SF-2M", "sf", 2_000_000, 4),
    ("CC-5M", "cc", 5_000_000, 3),
    ("CG-10M", "cg", 10_000_000, 11),
    ("Flower-20M", "flower", 20_000_000, 13),
]


def read_set(name: str, n_rows: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes of a data set: generated (one of the paper's, or blobs) if a size is given, else loaded."""
    if name == "blobs" and n_rows is not None:
        return blobs(n_rows, seed)
    return datasets.load(name) if n_rows is None else datasets.generate(name, n_rows, random_state=seed)


def blobs(n_rows: int, seed: int, k: int = 20, d: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping Gaussian classes of many features."""
    random = np.random.default_rng(seed)
    y = random.integers(k, size=n_rows)
    X = (2.0 * random.standard_normal((k, d), dtype=np.float32))[y]
    return X + 2.0 * random.standard_normal((n_rows, d), dtype=np.float32), y


def machine() -> dict[str, Any]:
    """Describe the machine and the versions of libraries."""
    import numba
    import scipy
    import sklearn

    import ultraspec

    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {m.__name__: m.__version__ for m in (ultraspec, np, scipy, sklearn, numba)},
        "date": time.strftime("%Y-%m-%d"),
    }


def store(name: str, result: dict[str, Any]) -> None:
    """Write a result, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(scratch, path)


def fetch(name: str) -> dict[str, Any]:
    """Return a stored result, or an empty one."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def reproduced(method: str) -> dict[str, Any]:
    """Scores with default parameters from the store of `ultraspec reproduce`, in the form of our own."""
    stored = Summary(
        read(REPRODUCTION / "runs.jsonl")
    ).records  # those of an earlier generator only where there are no others
    rows = [row for row in stored if row["method"] == method]
    rows = sorted((row for row in rows if not row["parameters"] and row["na"] is None), key=lambda row: row["seed"])
    runs: dict[str, list[list[float | None]]] = {}
    for row in rows:
        runs.setdefault(row["dataset"], []).append([row.get(score) for score in PAPER_SCALE])
    last = max(rows, key=lambda row: row["started"])
    versions = dict(last["versions"])
    machine = {**last["machine"], "date": last["started"][:10], "python": versions.pop("python"), "versions": versions}
    return {"runs": runs, "machine": machine}


def results(name: str) -> dict[str, Any]:
    """Return a stored result, or an empty one; the scores of U-SENC come from `ultraspec reproduce`."""
    return reproduced("U-SENC (lib)") if name == "quality_usenc" else fetch(name)


def scale(y: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return the scores of `PAPER_SCALE` in %."""
    functions = (metrics.nmi, metrics.majority_accuracy, metrics.ami, metrics.ari, metrics.hungarian_accuracy)
    return [100 * function(y, labels) for function in functions]


def scores_of(runs: list[list[float | None]], column: int) -> np.ndarray:
    """Return one score of all runs that have it: older runs have only the first ones."""
    return np.array([run[column] for run in runs if len(run) > column and run[column] is not None])


def beside_paper(runs: list[list[float | None]], data: str, method: str) -> tuple[bool, bool]:
    """Compare scores with the paper's: both within a standard deviation or higher, and both at or above its mean."""
    within = above = True
    for score, ours in (("nmi", scores_of(runs, 0).mean()), ("ca", scores_of(runs, 1).mean())):
        mean, deviation = paper_results.printed(score, data, method)
        within &= round(ours, 2) >= round(mean - deviation, 2)
        above &= round(ours, 2) >= mean
    return bool(within), bool(above)


@contextlib.contextmanager
def changing(name: str) -> Iterator[dict[str, Any]]:
    """Yield a stored result and store it again when it was changed; one process at a time."""
    import fcntl  # not on Windows, where the tests read the results but nothing is measured

    with (Path(tempfile.gettempdir()) / f"ultraspec-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = fetch(name)
        yield result
        store(name, result)


def run_or_report(
    name: str, run: Callable[[dict[str, Any]], Iterator[None]], report: Callable[[dict[str, Any]], str]
) -> None:
    """Do what the command line requests: print the table of the stored runs, or continue them.

    `run` adds to the stored runs and yields after each one, which is then stored.
    """
    parser = argparse.ArgumentParser(description=f"Continue the runs of {name}.py, or print their table.")
    parser.add_argument("--report", action="store_true", help="print the table of the stored runs")
    options = parser.parse_args()
    result = fetch(name)
    if options.report:
        print(report(result["runs"]))
        return
    result["machine"] = machine()
    warnings.simplefilter("ignore")
    for _ in run(result.setdefault("runs", {})):
        store(name, result)


def run_each_alone(name: str, program: str, names: Iterable[str], run: Callable[[str], dict[str, Any]]) -> None:
    """Carry out and store the runs that the command line names, or all: each in a process of its own.

    `program` is the file that calls this; ``run(name)`` carries out one run in that process.
    """
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(run(sys.argv[2])))
        return
    for each in sys.argv[1:] or names:
        done = subprocess.run([sys.executable, program, "--one", each], check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        with changing(name) as result:
            result["machine"] = machine()
            result.setdefault("runs", {})[each] = found
        print(each, json.dumps(found), flush=True)


def clock(function: Callable[[], Any]) -> float:
    """Seconds of one call."""
    gc.collect()
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def compare(
    name: str, X: np.ndarray, make: Callable[[int], Any], peer: Any, limit: float, repeats: int
) -> dict[str, Any]:
    """Time fits of our estimator (made for a seed) and of a peer, alternating, after a warm-up on some rows."""
    make(0).fit(X[:20_000])
    ours, peers = [], []
    for seed in range(repeats):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peers.append(clock(lambda: peer.fit(X)))
        ours.append(clock(lambda: make(seed).fit(X)))  # noqa: B023
    return ratio(name, type(peer).__name__, ours, peers, limit)


def compare_all(kind: Callable[..., Any], ratios: list[Ratio], result: dict[str, Any], file: str, repeats: int) -> None:
    """`compare` an estimator of ours with each peer, and store what is found after each."""
    for name, dataset, n_rows, k, make_peer, limit in ratios:
        X = read_set(dataset, n_rows)[0].astype(np.float32)
        make = partial(_with_seed, kind, k)
        result["ratios"][name] = compare(name, X, make, make_peer(k), limit, repeats)
        store(file, result)


def _with_seed(kind: Callable[..., Any], k: int, seed: int) -> Any:
    return kind(k, random_state=seed)


def ratio(name: str, peer: str, ours: list[float], peers: list[float], limit: float) -> dict[str, Any]:
    """Return a row of a table of ratios, and print it."""
    own, other = statistics.median(ours), statistics.median(peers)
    print(f"{name:<12} {own:7.2f} s   {peer} {other:7.2f} s   ratio {own / other:.2f} (<= {limit})", flush=True)
    return {"peer": peer, "peer_seconds": peers, "seconds": ours, "ratio": own / other, "limit": limit}


def python(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a new interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


MEMORY = """
import sys
import numpy as np
from ultraspec import USENC, USPEC

def resident(field):  # of this process alone: getrusage's peak would begin with that of the parent
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024

X = np.load(sys.argv[1])
MODEL.fit(X[:20000])
before = resident("VmRSS")
model = MODEL.fit(X)
print(resident("VmHWM") - before)
"""


def memory_above_input(
    title: str, dataset: str, n_rows: int, model: str, bytes_a_row: int | None, constant: int = 0
) -> dict[str, Any]:
    """Peak resident memory of a fit in a process of its own, above what it had with the data loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, read_set(dataset, n_rows)[0])
        above = int(python(MEMORY.replace("MODEL", model), str(path)))
    limit = None if bytes_a_row is None else bytes_a_row * n_rows + constant
    print(f"Peak memory above the input, {title}: {above / 1e6:.0f} MB, {above / n_rows:.1f} bytes a row", flush=True)
    return {"set": title, "rows": n_rows, "bytes_above_input": above, "limit": limit}
