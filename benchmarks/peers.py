"""Compare with other clustering libraries: scores, time and memory. ``make peers`` makes their environment and runs this.

    .venv-peers/bin/python benchmarks/peers.py quality                     # all sets, seed by seed
    .venv-peers/bin/python benchmarks/peers.py quality --sets PenDigits,USPS --peers KMeans,USPEC --seeds 1
    .venv-peers/bin/python benchmarks/peers.py time                        # on a machine that does nothing else

Each run has a process of its own and is one line of results/peers.jsonl, on disk before the next one starts: stop it at any
time, and the same command continues. A run that exceeds a limit (10 minutes, 16 GB) is stored as such; larger data
of the same kind are then not tried. Scores are on all rows with a class, with noise as a cluster and, as ``assigned_...``,
with each row of noise in the cluster of its nearest clustered row (that search is not timed).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, RESULTS
from joblib.externals.loky import get_reusable_executor
from sklearn.neighbors import KNeighborsClassifier
from which_data import SETTINGS
from which_data import make as make_setting

import ultraspec
from ultraspec import datasets, metrics
from ultraspec.engines.memory import peak_bytes
from ultraspec.reproduce.dataset_cache import CachedDataset
from ultraspec.reproduce.declarations import Method, Run
from ultraspec.reproduce.runner import Limits, Runner, settled
from ultraspec.reproduce.store import Record, Store, read
from ultraspec.reproduce.worker import Task, build_estimator

STORE = RESULTS / "peers.jsonl"
SECONDS = 600.0
MEMORY = 16 * 10**9
SEEDS = 3
WARM_UP_ROWS = 2000
SETTING_ROWS = 20_000
SYNTHETIC_ROWS = 100_000
SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)
FEATURES = (2, 16, 128)
MOST_BYTES = 8 * 10**9  # of a file of rows: larger ones leave no memory to anyone within the limit
TIME_CLASSES = 20


@dataclass(frozen=True)
class Peer:
    """A method: class of peer_methods, package whose version is stored, whether k is given and seeds matter."""

    title: str
    kind: str
    package: str
    k_given: bool
    seeded: bool = True
    noise: bool = False


PEERS = (
    Peer("USPEC", "Uspec", "ultraspec", True),
    Peer("USENC", "Usenc", "ultraspec", True),
    Peer("KMeans", "KMeans", "scikit-learn", True),
    Peer("MiniBatchKMeans", "MiniBatchKMeans", "scikit-learn", True),
    Peer("faiss Kmeans", "FaissKMeans", "faiss-cpu", True),
    Peer("SpectralClustering", "SpectralClustering", "scikit-learn", True),
    Peer("SpectralClustering, neighbours", "SpectralClusteringKnn", "scikit-learn", True),
    Peer("Genie", "Genie", "genieclust", True, seeded=False),
    Peer("Leiden to k", "LeidenToK", "igraph", True),
    Peer("Secuer to k", "SecuerToK", "secuer", True),
    Peer('USPEC("auto")', "UspecAuto", "ultraspec", False),
    Peer("HDBSCAN", "Hdbscan", "hdbscan", False, seeded=False, noise=True),
    Peer("fast_hdbscan", "FastHdbscan", "fast_hdbscan", False, seeded=False, noise=True),
    Peer("fast_hdbscan, large clusters", "FastHdbscanTutorial", "fast_hdbscan", False, seeded=False, noise=True),
    Peer("EVoC", "Evoc", "evoc", False, noise=True),
    Peer("UMAP + HDBSCAN", "UmapHdbscan", "umap-learn", False, noise=True),
    Peer("Leiden", "Leiden", "igraph", False),
    Peer("Secuer", "Secuer", "secuer", False),
)
REAL = {"PenDigits": "pendigits", "USPS": "usps", "Letters": "letters", "MNIST": "mnist", "Covertype": "covertype"}
GENERATED = {"TB-100k": "tb", "SF-100k": "sf", "CC-100k": "cc", "CG-100k": "cg", "Flower-100k": "flower"}
SETS = (*REAL, *GENERATED)


# Data


def time_set(n_features: int, n_rows: int) -> str:
    """Return the name of a set of the timing runs."""
    return f"{n_rows} x {n_features}"


def draw(title: str) -> tuple[np.ndarray, np.ndarray]:
    """Load or generate a set by its title."""
    if title in REAL:
        return datasets.load(REAL[title])
    if title in GENERATED:
        return datasets.generate(GENERATED[title], SYNTHETIC_ROWS, random_state=0)
    return make_setting(SETTINGS[title], SETTING_ROWS, 0)


def write_blobs(rows: Path, classes: Path, n_rows: int, n_features: int, block: int = 10**6) -> None:
    """Write overlapping Gaussian classes to .npy files, block by block."""
    random = np.random.default_rng(n_features)
    centers = 6.0 * random.standard_normal((TIME_CLASSES, n_features), np.float32) / np.sqrt(n_features)
    X = np.lib.format.open_memmap(rows, "w+", np.float32, (n_rows, n_features))
    y = np.lib.format.open_memmap(classes, "w+", np.int32, (n_rows,))
    for start in range(0, n_rows, block):
        some = slice(start, min(start + block, n_rows))
        y[some] = random.integers(TIME_CLASSES, size=some.stop - start)
        X[some] = centers[y[some]] + random.standard_normal((some.stop - start, n_features), np.float32)
    X.flush()
    y.flush()


def prepare(title: str, folder: Path) -> CachedDataset:
    """Write the files of a set, unless they exist."""
    stem = title.replace(" ", "")
    files = [folder / f"{stem}-{part}.npy" for part in ("rows", "classes")]
    if not all(file.exists() for file in files):
        folder.mkdir(parents=True, exist_ok=True)
        new = [file.with_suffix(".new.npy") for file in files]
        if " x " in title:
            write_blobs(*new, *map(int, title.split(" x ")))
        else:
            X, y = draw(title)
            np.save(new[0], np.ascontiguousarray(X, np.float32))
            np.save(new[1], np.asarray(y, np.int32))
        for source, target in zip(new, files, strict=True):
            os.replace(source, target)
    X, y = (np.load(file, mmap_mode="r") for file in files)
    k = len(np.unique(y[: 10**6][y[: 10**6] >= 0]))
    return CachedDataset(stem, str(files[0]), str(files[1]), len(X), X.shape[1], k)


# One run, in its own process


def measure(task: Task) -> dict[str, Any]:
    """Fit and score; the fit alone is timed, after one on some rows that compiles and loads what it needs."""
    X, y = task.data.open()
    sample = X[:: max(1, len(X) // WARM_UP_ROWS)][:WARM_UP_ROWS]
    build_estimator(task).fit_predict(np.array(sample))
    base = peak_bytes()
    model = build_estimator(task)
    clock, cpu = time.perf_counter(), time.process_time()
    labels = np.asarray(model.fit_predict(X))
    seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
    peak = peak_bytes()
    if labels.shape != y.shape:
        raise ValueError(f"labels have the shape {labels.shape}, but there are {len(y)} rows")
    get_reusable_executor().shutdown(kill_workers=True)  # joblib's idle processes would hold this one for 5 minutes
    noise = labels < 0
    results = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_bytes": peak,
        "base_bytes": base,
        "found_clusters": len(np.unique(labels[~noise])),
        "noise": float(noise.mean()),
        **scores(y, labels),
    }
    if noise.any() and not noise.all():
        assigned = scores(y, assign_noise(X, labels))
        results |= {f"assigned_{name}": value for name, value in assigned.items()}
    return results


def scores(y: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Score the rows that have a class."""
    known = y >= 0
    pair = y[known], labels[known]
    found = {
        "nmi": metrics.nmi(*pair),
        "ca": metrics.majority_accuracy(*pair),
        "ami": metrics.ami(*pair),
        "ari": metrics.ari(*pair),
        "hungarian": metrics.hungarian_accuracy(*pair),
    }
    return {name: 100 * value for name, value in found.items()}


def assign_noise(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Give each row of noise the label of its nearest clustered row."""
    noise = labels < 0
    nearest = KNeighborsClassifier(1, n_jobs=-1).fit(X[~noise], labels[~noise])
    full = labels.copy()
    full[noise] = nearest.predict(X[noise])
    return full


# What to run


def version(package: str) -> str:
    """Return the version of a package; an empty string if it is not installed."""
    if package == "ultraspec":
        return ultraspec.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def run_of(title: str, peer: Peer, seed: int) -> Run:
    parameters = json.dumps({"package": peer.package, "version": version(peer.package)}, sort_keys=True)
    return Run(title, 1.0, peer.title, parameters, seed)


def quality_plan(sets: list[str], peers: list[Peer], seeds: int) -> Iterator[list[Run]]:
    """Yield batches of runs, seed by seed."""
    for seed in range(seeds):
        for title in sets:
            yield [run_of(title, peer, seed) for peer in peers if seed == 0 or peer.seeded]


def time_plan(peers: list[Peer], sizes: list[int], features: list[int]) -> Iterator[list[Run]]:
    """Yield batches of runs, from few rows to many: whoever gave up is not tried with more rows."""
    for n_rows in sizes:
        for n_features in features:
            if 4 * n_rows * n_features > MOST_BYTES:
                print(f"{time_set(n_features, n_rows)}: more than {MOST_BYTES / 1e9:.0f} GB, left out", flush=True)
                continue
            gave_up = {
                record["method"]
                for record in read(STORE)
                if record["na"] in ("time", "memory")
                and " x " in record["dataset"]
                and record["features"] == n_features
                and record["rows"] < n_rows
            }
            yield [run_of(time_set(n_features, n_rows), peer, 0) for peer in peers if peer.title not in gave_up]


def carry_out(batches: Iterator[list[Run]], cache: Path, threads: int, limits: Limits, deadline: float) -> None:
    """Run what is not in the store yet."""
    by_title = {peer.title: peer for peer in PEERS}
    with Store(STORE) as opened:
        done, beyond = settled(opened.records, limits)
        for batch in batches:
            runs = [run for run in batch if run not in done and run[:-1] not in beyond]
            if not runs or time.monotonic() > deadline:
                continue
            data = prepare(runs[0].dataset, cache)

            def make_task(run: Run, data: CachedDataset = data) -> Task:
                kind = f"peer_methods:{by_title[run.method].kind}"
                method = Method(run.method, kind, custom=True)
                return Task(data, method, {}, run.seed, threads, "", str(HERE))

            Runner(
                opened,
                make_task,
                limits=limits,
                threads=threads,
                measure=measure,
                on_start=lambda run: print(f"{run.dataset:16} {run.method:30} {run.seed} ...", end=" ", flush=True),
                on_end=say,
            ).run(runs, deadline)


def say(run: Run, record: Record | None) -> None:
    if record is None:
        print(f"{run.dataset:16} {run.method:30} {run.seed} skipped", flush=True)
    elif record["na"]:
        print(f"{record['na']}: {record['reason']}", flush=True)
    else:
        extra = f" (noise assigned {record['assigned_ami']:.1f})" if "assigned_ami" in record else ""
        print(
            f"AMI {record['ami']:.1f}{extra}, {record['found_clusters']} clusters, {record['seconds']:.1f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["quality", "settings", "time"])
    parser.add_argument("--sets", default=",".join(SETS), help="of quality: titles, separated by commas")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="of settings: how many, evenly chosen")
    parser.add_argument("--peers", help="titles, separated by ;, all by default")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="of time: numbers of rows")
    parser.add_argument("--features", default=",".join(map(str, FEATURES)), help="of time")
    parser.add_argument(
        "--time-limit", type=float, default=SECONDS, help="seconds of a process; more on a busy machine"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="folder of the data sets")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), metavar="SECONDS", help="start no run after this"
    )
    options = parser.parse_args()
    peers = [p for p in PEERS if options.peers is None or p.title in options.peers.split(";")]
    peers = [p for p in peers if version(p.package)]
    for peer in PEERS:
        if not version(peer.package):
            print(f"{peer.title}: {peer.package} is not installed, left out", flush=True)
    if options.part == "quality":
        batches = quality_plan(options.sets.split(","), peers, options.seeds)
    elif options.part == "settings":
        step = max(1, len(SETTINGS) // options.settings)
        batches = quality_plan(list(SETTINGS)[::step][: options.settings], peers, 1)
    else:
        batches = time_plan(
            peers, *([int(float(v)) for v in text.split(",")] for text in (options.sizes, options.features))
        )
    limits = Limits(MEMORY, options.time_limit)
    carry_out(batches, options.cache, options.threads, limits, time.monotonic() + options.stop_after)


if __name__ == "__main__":
    main()
